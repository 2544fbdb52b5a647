/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Creation and end of a DDP stream, and queries of the MPA stream below. */

#include <stdlib.h>

#include "weft_ddp.h"
#include "weft_mpa.h"

size_t
weft_ddp_mpa_bytes(void)
{
	return sizeof(struct weft_mpa);
}

void
weft_ddp_init(struct weft_ddp *d, struct weft_mpa *mpa, struct weft_mem *mem,
              struct weft_mem_pd *pd, const struct weft_ddp_ops *ops, void *user)
{
	memset(d, 0, sizeof(*d));
	d->mpa = mpa;
	d->mem = mem;
	d->scope = (struct weft_mem_pd){.mem = mem, .home = pd, .stream = weft_mem_new_stream()};
	d->mpa->stream = d->scope.stream;
	d->ops = ops;
	d->user = user;
	for (unsigned int qn = 0; qn < WEFT_DDP_NQN; qn++)
		d->tx_msn[qn] = d->rx_msn[qn] = 1;
}

void
weft_ddp_fini(struct weft_ddp *d)
{
	weft_mpa_fini(d->mpa);
	free(d->ahead);
	d->ahead = NULL;
}

bool
weft_ddp_is_open(const struct weft_ddp *d)
{
	return d->mpa->tcp != NULL;
}

bool
weft_ddp_is_initiator(const struct weft_ddp *d)
{
	return d->mpa->initiator;
}

uint64_t
weft_ddp_fpdus_in(const struct weft_ddp *d)
{
	return d->mpa->stats.fpdus_in;
}

uint64_t
weft_ddp_fpdus_out(const struct weft_ddp *d)
{
	return d->mpa->stats.fpdus_out;
}

bool
weft_ddp_tx_rtr(struct weft_ddp *d, uint64_t now_ns)
{
	if (weft_mpa_tx_begin(d->mpa, 0, now_ns) == NULL)
		return false;
	weft_mpa_tx_end(d->mpa, now_ns);
	return true;
}

bool
weft_ddp_tx_impossible(const struct weft_ddp *d)
{
	return weft_mpa_tx_impossible(d->mpa);
}

void
weft_ddp_close(struct weft_ddp *d, uint64_t now_ns)
{
	weft_mpa_close(d->mpa, now_ns);
}

void
weft_ddp_abort(struct weft_ddp *d, uint64_t now_ns)
{
	weft_mpa_abort(d->mpa, now_ns);
}
