/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * All outstanding work completes when its stream ends (RFC 5040 s5.4, s6.2; RFC 5041 s6.2): every
 * kind of request, waiting, half sent or without a response, × every way in which a stream ends.
 * Each way is a case.
 */

#include <errno.h>
#include <stdlib.h>

#include "conform.h"

static void
gone(int err)
{
	if (weft_rdmap_state(rig.b.r) == WEFT_RDMAP_ST_ERROR)
		return;
	rig.b.live = false;
	rig.b.ddp->mpa->tcp = NULL;
	weft_ddp_mpa_ops.closed(rig.b.ddp, err);
}

/* clang-format off */
static void by_abort(void) { weft_rdmap_abort(rig.b.r, rig.now_ns); }
static void by_reset(void) { gone(-ECONNRESET); }
static void by_timeout(void) { gone(-ETIMEDOUT); }
static void by_end(void) { gone(0); }
static void by_bad_write(void) { CF_TAGGED(0x40, 0x12345678, CF_BASE, "abcd", 4); }
static void by_bad_read(void) { CF_READ(1, 0x12345678, CF_BASE, 4); }
static void by_terminate(void) { CF_UNTAGGED(0x47, 2, 1, 0, "\x02\x07\0\0", 4); }
static void by_own_terminate(void)
{
	weft_rdmap_terminate(rig.b.r, &(struct weft_term){0, 2, 7}, rig.now_ns);
}
static void by_crc(void)
{
	weft_ddp_mpa_ops.fault(rig.b.ddp, &(struct weft_term){2, 0, WEFT_MPA_ERR_CRC});
}
static void by_fin(void) { weft_ddp_mpa_ops.eof(rig.b.ddp); }
static void by_close(void) { weft_rdmap_close(rig.b.r, rig.now_ns); }
static void by_close_and_silence(void)
{
	weft_rdmap_close(rig.b.r, rig.now_ns);
	for (unsigned int i = 0; i < 4; i++)
		rig_advance(61 * WEFT_NS_PER_S);
}
/* clang-format on */

static const struct {
	const char *name;
	void (*fn)(void);
	bool ends; /* the stream ends by itself; otherwise the connection is lost afterwards */
} ways[] = {
        {"abort", by_abort, true},
        {"reset", by_reset, true},
        {"connection lost", by_timeout, true},
        {"end in order under way", by_end, true},
        {"fault of a Write", by_bad_write, false},
        {"fault of a Read Request", by_bad_read, false},
        {"Terminate received", by_terminate, false},
        {"Terminate of ours", by_own_terminate, false},
        {"CRC error", by_crc, false},
        {"peer's FIN, then lost", by_fin, false},
        {"close, then lost", by_close, false},
        {"close, then silence", by_close_and_silence, true},
};

enum phase { WAITING, MIDWAY, UNANSWERED, NPHASES };

static void
work(uint8_t op, enum phase phase, void (*end)(void), bool ends)
{
	static uint8_t data[5000];
	uint32_t len = phase == MIDWAY ? sizeof(data) : 8;
	struct weft_rdmap_req q[3], late;
	bool error = false;

	cf_open();
	cf.touched = true;
	rig_post_recv(&rig.b, 2);
	/* the first half of a Send */
	rig_inject_untagged(&rig.b, 0x43, 0, 1, 0, false, 0, data, 100);
	rig.b.space = phase == WAITING ? 0 : phase == MIDWAY ? 1 : UINT32_MAX;
	for (unsigned int i = 0; i < 3; i++) {
		q[i] = (struct weft_rdmap_req){.op = op,
		                               .nsge = 1,
		                               .sge = {{data, len}},
		                               .len_bytes = len,
		                               .flush_flags = 1,
		                               .sink_stag = cf.all->stag,
		                               .sink_to = CF_BASE};
		weft_rdmap_post(rig.b.r, &q[i]);
	}
	rig_pump();
	CHECK_EQ(rig_ev_count(&rig.b, EV_DONE), 0);
	end();
	if (!ends)
		gone(-ECONNRESET);
	rig_pump();
	CHECK_EQ(weft_rdmap_state(rig.b.r), WEFT_RDMAP_ST_ERROR);
	/* each once, in order, flushed, and before the user is told of the end */
	CHECK_EQ(rig_ev_count(&rig.b, EV_DONE), 3);
	for (unsigned int i = 0; i < 3; i++) {
		CHECK_EQ(rig_status(&rig.b, &q[i]), WEFT_RDMAP_FLUSHED);
		CHECK(rig_ev(&rig.b, EV_DONE, i)->req == &q[i]);
	}
	CHECK_EQ(rig_ev_count(&rig.b, EV_RECV), 1);
	CHECK_EQ(rig_ev(&rig.b, EV_RECV, 0)->status, WEFT_RDMAP_FLUSHED);
	for (unsigned int i = 0; i < rig.b.nev; i++) {
		const struct rig_ev *e = &rig.b.ev[i];

		CHECK(!error || e->kind == EV_CLOSED);
		error |= e->kind == EV_STATE && e->status == WEFT_RDMAP_ST_ERROR;
	}
	/* a request posted afterwards is flushed, too */
	late = q[0];
	weft_rdmap_post(rig.b.r, &late);
	rig_pump();
	CHECK_EQ(rig_status(&rig.b, &late), WEFT_RDMAP_FLUSHED);
	cf_close();
}

static void
run_way(void)
{
	unsigned int w = test_case_index(), n = 0;

	for (uint8_t op = 0; op < RDMAP_NOPCODES; op++) {
		const struct rdmap_op_row *row = &rdmap_ops[op];

		if (!row->request)
			continue;
		work(op, WAITING, ways[w].fn, ways[w].ends);
		if (row->ulp)
			work(op, MIDWAY, ways[w].fn, ways[w].ends);
		if (row->read_like)
			work(op, UNANSWERED, ways[w].fn, ways[w].ends);
		n++;
	}
	CHECK(n >= 10);
}

int
main(int argc, char **argv)
{
	static struct weft_test_case cases[RTE_DIM(ways)];

	for (unsigned int i = 0; i < RTE_DIM(ways); i++)
		cases[i] = (struct weft_test_case){ways[i].name, run_way};
	return test_main(argc, argv, cases, RTE_DIM(cases));
}
