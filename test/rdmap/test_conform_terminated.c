/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Every Terminate that a peer can send: each code of the registries, in RFC 5040's form and in
 * siw's. The cases check what the user is told and which request gets the status, and every
 * malformed Terminate.
 */

#include <stdlib.h>

#include "conform.h"

/** Open a stream with three outstanding Reads, MSN 1 to 3. */
static void
recv_open(void)
{
	cf_open();
	cf_post(WEFT_RDMAP_READ_REQ, 3);
}

/** Check that this Terminate ended the stream. The second Read completed with status `second`, the
 * others as flushed. */
static void
recv_check(const struct weft_term *want, int second, bool malformed, bool swapped)
{
	const struct weft_rdmap_faults *f = &rig.b.op_stats.faults;
	int row = weft_rdmap_term_index(want);
	const struct rig_ev *e;

	rig_pump();
	for (unsigned int i = 0; i < 3; i++) {
		CHECK_EQ(rig_status(&rig.b, &cf.req[i]), i == 1 ? second : WEFT_RDMAP_FLUSHED);
		CHECK(rig_ev(&rig.b, EV_DONE, i)->req == &cf.req[i]);
	}
	e = rig_ev(&rig.b, EV_STATE, 1);
	CHECK(e != NULL && e->status == WEFT_RDMAP_ST_TERMINATE && e->has_term && !e->ours);
	CHECK_EQ(e->term.layer, want->layer);
	CHECK_EQ(e->term.etype, want->etype);
	CHECK_EQ(e->term.code, want->code);
	for (int i = 0; i < WEFT_TERM_NCODES; i++)
		CHECK_EQ(f->term[i].in, i == row);
	CHECK_EQ(f->terminates_in_other, row < 0);
	CHECK_EQ(f->terminates_in_malformed, malformed);
	CHECK_EQ(f->terminates_in_swapped, swapped);
	/* RFC 5040 s5.4: nothing more is sent; s6.2.1: the stream is closed in order */
	CHECK(rig.b.fin && TAILQ_EMPTY(&rig.b.out));
	CHECK_EQ(weft_rdmap_stats(rig.b.r)->terminates_out, 0);
	/* a second Terminate, and all other messages, are dropped */
	CF_UNTAGGED(0x47, 2, 2, 0, "\x00\x00\0\0", 4);
	CF_TAGGED(0x40, cf.all->stag, CF_BASE, "xxxx", 4);
	rig_pump();
	CHECK_EQ(weft_rdmap_stats(rig.b.r)->terminates_in, 1);
	CHECK_EQ(f->segs_after_fault, 2);
	CHECK_EQ(rig_ev_count(&rig.b, EV_STATE), 2);
	/* after the peer's FIN the stream has ended in order */
	weft_ddp_mpa_ops.eof(rig.b.ddp);
	rig.b.live = false;
	rig.b.ddp->mpa->tcp = NULL;
	weft_ddp_mpa_ops.closed(rig.b.ddp, 0);
	CHECK_EQ(weft_rdmap_state(rig.b.r), WEFT_RDMAP_ST_ERROR);
	CHECK_EQ(rig_ev(&rig.b, EV_CLOSED, 0)->status, 0);
	cf_close();
}

/* Write the length, header and Read Request header of the Read with this MSN, as a peer echoes
 * them. */
static uint32_t
echo(uint8_t *p, uint32_t msn, bool rdma)
{
	weft_put_be16(p, 46);
	memset(p + 2, 0, 18 + 28);
	p[2] = 0x41;
	p[3] = 0x41;
	p[11] = 1;
	weft_put_be32(p + 12, msn);
	return rdma ? 2 + 18 + 28 : 2 + 18;
}

static int
status_of(const struct weft_term *t)
{
	bool protection = (t->layer == 0 && t->etype == 1) || (t->layer == 1 && t->etype == 1);

	return protection ? WEFT_RDMAP_REMOTE_ACCESS : WEFT_RDMAP_REMOTE_OP;
}

/* s4.8 Figure 9, RFC 5041 s7.2, RFC 5044 s8, RFC 6581 s8, RFC 6580 s3: each code alone and with
 * echoed headers. */
static void
test_every_code(void)
{
	for (unsigned int i = 0; i < WEFT_TERM_NCODES; i++) {
		const struct weft_term_row *row = weft_rdmap_term_row(i);
		bool any = row->code == WEFT_TERM_ANY;

		for (unsigned int k = 0; k < (any ? 256 : 1); k += 15) {
			struct weft_term t = {row->layer, row->etype,
			                      (uint8_t)(any ? k : row->code)};
			uint8_t p[64] = {(uint8_t)(t.layer << 4 | t.etype), t.code};

			recv_open();
			CF_UNTAGGED(0x47, 2, 1, 0, p, 4);
			recv_check(&t, WEFT_RDMAP_FLUSHED, false, false);
			for (unsigned int rdma = 0; rdma < 2; rdma++) {
				recv_open();
				p[2] = rdma ? 0xe0 : 0xc0;
				CF_UNTAGGED(0x47, 2, 1, 0, p, 4 + echo(p + 4, 2, rdma));
				recv_check(&t, status_of(&t), false, false);
			}
		}
	}
}

/* Unassigned codes end the stream, too, and are reported unchanged. */
static void
test_unassigned_codes(void)
{
	for (unsigned int w = 0; w < 65536; w += 1 + w % 37) {
		struct weft_term t = {(uint8_t)(w >> 12), w >> 8 & 0xf, (uint8_t)w};
		struct weft_term swap = {t.etype, t.layer, t.code};
		uint8_t p[4] = {(uint8_t)(w >> 8), (uint8_t)w};
		bool swapped = false;

		if (weft_rdmap_term_index(&t) >= 0)
			continue;
		if (weft_rdmap_term_index(&swap) >= 0) {
			t = swap;
			swapped = true;
		}
		recv_open();
		CF_UNTAGGED(0x47, 2, 1, 0, p, 4);
		recv_check(&t, WEFT_RDMAP_FLUSHED, false, swapped);
	}
}

/* siw's control word: layer and type are swapped, M and D are the low bits. In place of the MSN it
 * has the payload's length. */
static void
test_siw_form(void)
{
	for (unsigned int i = 0; i < WEFT_TERM_NCODES; i++) {
		const struct weft_term_row *row = weft_rdmap_term_row(i);
		struct weft_term t = {row->layer, row->etype, (uint8_t)row->code};
		struct weft_term back = {row->etype, row->layer, (uint8_t)row->code};
		uint8_t p[64] = {(uint8_t)(t.etype << 4 | t.layer), t.code};

		recv_open();
		p[2] = 0x03;
		CF_UNTAGGED(0x47, 2, 1, 0, p, 4 + echo(p + 4, 2, false));
		recv_check(&t, status_of(&t), false, true);
		/* without header bits RFC 5040's reading is taken first, if it is valid */
		recv_open();
		p[2] = 0;
		CF_UNTAGGED(0x47, 2, 1, 0, p, 4);
		if (weft_rdmap_term_index(&back) >= 0)
			recv_check(&back, WEFT_RDMAP_FLUSHED, false, false);
		else
			recv_check(&t, WEFT_RDMAP_FLUSHED, false, true);
	}
}

/* ---- Malformed ---- */

/* clang-format off */
static const struct {
	const char *name;
	uint8_t bits;      /* M, D, R and the bits beside them */
	uint8_t reserved;  /* octet 3 */
	uint8_t len;       /* octets of the message */
	uint8_t ctrl;      /* of the echoed header */
	uint32_t msn;      /* of the echoed header */
	bool word;         /* the control word can be read: 0/1/02; otherwise 0/2/ff */
	bool malformed;
	int second;
} bad[] = {
	{"no octet", 0, 0, 0, 0, 0, false, true, WEFT_RDMAP_FLUSHED},
	{"one octet", 0, 0, 1, 0, 0, false, true, WEFT_RDMAP_FLUSHED},
	{"three octets", 0, 0, 3, 0, 0, false, true, WEFT_RDMAP_FLUSHED},
	{"reserved bits set", 0x1f & ~0x07, 0xff, 4, 0, 0, true, false, WEFT_RDMAP_FLUSHED},
	{"M without a length", 0x80, 0, 4, 0, 0, true, true, WEFT_RDMAP_FLUSHED},
	{"M with half a length", 0x80, 0, 5, 0, 0, true, true, WEFT_RDMAP_FLUSHED},
	{"M alone", 0x80, 0, 6, 0, 0, true, false, WEFT_RDMAP_FLUSHED},
	{"D without a header", 0x40, 0, 6, 0, 0, true, true, WEFT_RDMAP_FLUSHED},
	{"D with 13 octets of a tagged header", 0xc0, 0, 19, 0xc1, 2,
	 true, true, WEFT_RDMAP_FLUSHED},
	{"D with a tagged header", 0xc0, 0, 20, 0xc1, 2, true, false, WEFT_RDMAP_FLUSHED},
	{"D with 17 octets of an untagged header", 0xc0, 0, 23, 0x41, 2,
	 true, true, WEFT_RDMAP_FLUSHED},
	{"D without M", 0x40, 0, 24, 0x41, 2, true, false, WEFT_RDMAP_REMOTE_ACCESS},
	{"R without a header", 0xe0, 0, 24, 0x41, 2, true, true, WEFT_RDMAP_REMOTE_ACCESS},
	{"R with 27 octets", 0xe0, 0, 51, 0x41, 2, true, true, WEFT_RDMAP_REMOTE_ACCESS},
	{"R alone", 0x20, 0, 32, 0, 0, true, false, WEFT_RDMAP_FLUSHED},
	{"octets behind the word", 0, 0, 60, 0, 0, true, false, WEFT_RDMAP_FLUSHED},
	{"octets behind the headers", 0xe0, 0, 60, 0x41, 2, true, false, WEFT_RDMAP_REMOTE_ACCESS},
	{"longer than any", 0xe0, 0, 250, 0x41, 2, true, false, WEFT_RDMAP_REMOTE_ACCESS},
};
/* clang-format on */

static void
run_bad(void)
{
	unsigned int i = test_case_index();
	struct weft_term t = {0, 1, 2}, none = {0, 2, 0xff};
	uint8_t p[256] = {0x01, 0x02, bad[i].bits, bad[i].reserved};

	/* in one segment, and cut in two at every octet */
	for (uint32_t cut = 0; cut < RTE_MAX(bad[i].len, 1); cut++) {
		recv_open();
		(void)echo(p + 4, bad[i].msn, true);
		if (bad[i].ctrl & 0x80) {
			p[6] = bad[i].ctrl;
			p[7] = 0x40;
		}
		if (cut > 0)
			rig_inject_untagged(&rig.b, 0x47, 2, 1, 0, false, 0, p, cut);
		CF_UNTAGGED(0x47, 2, 1, cut, p + cut, bad[i].len - cut);
		recv_check(bad[i].word ? &t : &none, bad[i].second, bad[i].malformed, false);
	}
}

/* ---- The request to blame ---- */

/* An MSN of no outstanding request: siw has a length there, so the oldest request is to blame. */
static void
test_msn_of_nobody(void)
{
	static const uint32_t msn[] = {0, 4, 46, UINT32_MAX};

	for (unsigned int i = 0; i < RTE_DIM(msn); i++) {
		uint8_t p[64] = {0x01, 0x02, 0xc0};

		recv_open();
		CF_UNTAGGED(0x47, 2, 1, 0, p, 4 + echo(p + 4, msn[i], false));
		rig_pump();
		CHECK_EQ(rig_status(&rig.b, &cf.req[0]), WEFT_RDMAP_REMOTE_ACCESS);
		CHECK_EQ(rig_status(&rig.b, &cf.req[1]), WEFT_RDMAP_FLUSHED);
		CHECK_EQ(rig_status(&rig.b, &cf.req[2]), WEFT_RDMAP_FLUSHED);
		cf_close();
	}
}

/* MSNs of queue 1 may wrap between the outstanding requests. */
static void
test_msn_wraps(void)
{
	for (uint32_t first = UINT32_MAX - 2; first != 2; first++)
		for (uint32_t k = 0; k < 3; k++) {
			uint8_t p[64] = {0x01, 0x02, 0xc0};

			cf_open();
			rig.b.ddp->tx_msn[WEFT_DDP_QN_READ] = first;
			cf_post(WEFT_RDMAP_READ_REQ, 3);
			CF_UNTAGGED(0x47, 2, 1, 0, p, 4 + echo(p + 4, first + k, false));
			rig_pump();
			for (uint32_t i = 0; i < 3; i++)
				CHECK_EQ(rig_status(&rig.b, &cf.req[i]),
				         i == k ? WEFT_RDMAP_REMOTE_ACCESS : WEFT_RDMAP_FLUSHED);
			cf_close();
		}
}

/* Both sides terminate at once: each reports its own Terminate first, and both close. */
static void
test_both_at_once(void)
{
	static const struct weft_term t = {0, 2, 7}, u = {0, 2, 8};

	rig_open(2, 2, false);
	weft_rdmap_terminate(rig.a.r, &t, rig.now_ns);
	weft_rdmap_terminate(rig.b.r, &u, rig.now_ns);
	rig_pump();
	CHECK_EQ(weft_rdmap_state(rig.a.r), WEFT_RDMAP_ST_ERROR);
	CHECK_EQ(weft_rdmap_state(rig.b.r), WEFT_RDMAP_ST_ERROR);
	CHECK(rig_ev(&rig.a, EV_STATE, 1)->ours && rig_ev(&rig.a, EV_STATE, 1)->term.code == 7);
	CHECK(rig_ev(&rig.b, EV_STATE, 1)->ours && rig_ev(&rig.b, EV_STATE, 1)->term.code == 8);
	CHECK_EQ(rig_ev(&rig.a, EV_CLOSED, 0)->status, 0);
	CHECK_EQ(rig_ev(&rig.b, EV_CLOSED, 0)->status, 0);
	CHECK_EQ(rig.a.op_stats.faults.segs_after_fault, 1);
	CHECK_EQ(rig.b.op_stats.faults.segs_after_fault, 1);
	rig_close();
}

int
main(int argc, char **argv)
{
	static const struct weft_test_case more[] = {
	        {"every_code", test_every_code}, {"unassigned_codes", test_unassigned_codes},
	        {"siw_form", test_siw_form},     {"msn_of_nobody", test_msn_of_nobody},
	        {"msn_wraps", test_msn_wraps},   {"both_at_once", test_both_at_once},
	};
	static struct weft_test_case cases[RTE_DIM(bad) + RTE_DIM(more)];
	unsigned int n = 0;

	for (; n < RTE_DIM(bad); n++)
		cases[n] = (struct weft_test_case){bad[n].name, run_bad};
	for (unsigned int i = 0; i < RTE_DIM(more); i++)
		cases[n++] = more[i];
	return test_main(argc, argv, cases, n);
}
