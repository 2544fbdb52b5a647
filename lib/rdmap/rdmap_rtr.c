/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The initiator's ready-to-receive indication of the peer-to-peer model (RFC 6581 s9.2). */

#include <stdlib.h>

#include "rdmap_rtr.h"
#include "rdmap_seg.h"
#include "rdmap_term.h"
#include "rdmap_wire.h"

void
weft_rdmap_rtr(struct weft_rdmap *r, uint8_t form)
{
	r->rtr = form;
}

static bool
rtr_write(struct weft_rdmap *r, uint64_t now_ns)
{
	if (!rdmap_tx_empty_write(r, now_ns))
		return false;
	rdmap_count_out(r, WEFT_RDMAP_WRITE);
	return true;
}

/* A Read as RTR waits for its answer in `out`, and counts against ORD, as other requests do. */
static bool
rtr_read(struct weft_rdmap *r, uint64_t now_ns)
{
	static const struct rdmap_read_req q = {.sink_stag = RDMAP_EMPTY_STAG,
	                                        .src_stag = RDMAP_EMPTY_STAG};
	uint8_t buf[RDMAP_READ_REQ_BYTES];

	if (r->rtr_req == NULL) {
		r->rtr_req = calloc(1, sizeof(*r->rtr_req));
		if (r->rtr_req == NULL) {
			/* RFC 6581 s9.3 gives this error no code of its own */
			static const struct weft_term t = {WEFT_TERM_LAYER_LLP, 0,
			                                   WEFT_MPA_ERR_LOCAL};

			r->rtr = 0;
			rdmap_term_send(r, &t, NULL, 0, NULL, 0, now_ns);
			return false;
		}
		r->rtr_req->op = WEFT_RDMAP_READ_REQ;
		r->rtr_req->sink_stag = RDMAP_EMPTY_STAG;
		r->rtr_req->stag = RDMAP_EMPTY_STAG;
	}
	if (rdmap_tx_untagged(r, WEFT_RDMAP_READ_REQ, buf, rdmap_read_req_encode(&q, buf),
	                      now_ns) <= 0)
		return false;
	TAILQ_INSERT_TAIL(&r->out, r->rtr_req, link);
	r->n_out++;
	return true;
}

bool
rdmap_rtr_send(struct weft_rdmap *r, uint64_t now_ns)
{
	bool sent;

	if (r->rtr == WEFT_RDMAP_RTR_FPDU)
		sent = weft_ddp_tx_rtr(&r->ddp, now_ns);
	else if (r->rtr == WEFT_RDMAP_RTR_WRITE)
		sent = rtr_write(r, now_ns);
	else
		sent = rtr_read(r, now_ns);
	if (!sent)
		return false;
	r->unflushed = true;
	r->rtr = 0;
	return true;
}
