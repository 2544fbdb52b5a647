/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The status of a Flush, Verify or Atomic Write that the peer refuses with a Terminate
 * (draft-talpey-rdma-commit-02 s4.1 case 3: the requester is informed, pending work ends). A row
 * for each code of a responder, in RFC 5040's form and in siw's, for each of several outstanding
 * requests. Each row is a case.
 */

#include <stdlib.h>

#include "conform.h"

#define OUT 4

#define A WEFT_RDMAP_REMOTE_ACCESS
#define O WEFT_RDMAP_REMOTE_OP
#define M WEFT_RDMAP_HASH_MISMATCH

static const struct row {
	const char *name;
	struct weft_term term;
	int status[3]; /* of a Flush, a Verify, an Atomic Write */
} rows[] = {
        {"unknown STag", {0, 1, 0x00}, {A, A, A}},
        {"out of bounds", {0, 1, 0x01}, {A, A, A}},
        {"without the right", {0, 1, 0x02}, {A, A, A}},
        {"another domain", {0, 1, 0x03}, {A, A, A}},
        {"wraps", {0, 1, 0x04}, {A, A, A}},
        {"protection, unspecified", {0, 1, 0xff}, {A, A, A}},
        {"version", {0, 2, 0x05}, {O, O, O}},
        {"unexpected opcode", {0, 2, 0x06}, {O, O, O}},
        {"not aligned", {0, 2, 0x07}, {O, O, O}},
        {"catastrophic, all streams", {0, 2, 0x08}, {O, O, O}},
        {"flush failed", {0, 2, 0x0a}, {O, O, O}},
        {"hash mismatch", {0, 2, 0x0b}, {O, M, O}},
        {"cannot be read back", {0, 2, 0x0c}, {O, O, O}},
        {"medium gone", {0, 2, 0x0d}, {O, O, O}},
        {"malformed", {0, 2, 0xff}, {O, O, O}},
        {"a code of nobody", {0, 2, 0x0e}, {O, O, O}},
        {"queue number", {1, 2, 0x01}, {O, O, O}},
        {"beyond IRD", {1, 2, 0x02}, {O, O, O}},
        {"MSN", {1, 2, 0x03}, {O, O, O}},
        {"MO", {1, 2, 0x04}, {O, O, O}},
        {"too long", {1, 2, 0x05}, {O, O, O}},
        {"DDP version", {1, 2, 0x06}, {O, O, O}},
};

static const uint8_t ops[] = {WEFT_RDMAP_FLUSH_REQ, WEFT_RDMAP_VERIFY_REQ, WEFT_RDMAP_AWRITE_REQ};

/* Inject the peer's Terminate about request `msn`, sent as opcode `op`. siw's control word
 * differs. */
static void
terminate(const struct weft_term *t, uint8_t op, uint32_t msn, bool siw)
{
	uint8_t p[24] = {(uint8_t)(siw ? t->etype << 4 | t->layer : t->layer << 4 | t->etype),
	                 t->code, siw ? 0x03 : 0xc0};

	weft_put_be16(p + 4, 38);
	p[6] = 0x41;
	p[7] = 0x40 | op;
	weft_put_be32(p + 12, 1);
	weft_put_be32(p + 16, msn);
	CF_UNTAGGED(0x47, 2, 1, 0, p, 24);
	rig_pump();
}

static void
one(const struct row *row, unsigned int k, uint32_t msn, bool siw)
{
	const struct rig_ev *e;

	cf_open();
	cf_post(ops[k], OUT);
	terminate(&row->term, ops[k], msn, siw);
	for (uint32_t i = 0; i < OUT; i++) {
		int want = i + 1 == msn ? row->status[k] : WEFT_RDMAP_FLUSHED;

		CHECK_MSG(rig_status(&rig.b, &cf.req[i]) == want, "%s %u of %u",
		          weft_rdmap_op_name(ops[k]), i + 1, OUT);
		CHECK(rig_ev(&rig.b, EV_DONE, i)->req == &cf.req[i]);
	}
	e = rig_ev(&rig.b, EV_STATE, 1);
	CHECK(e != NULL && e->status == WEFT_RDMAP_ST_TERMINATE && e->has_term && !e->ours);
	CHECK_EQ(e->term.layer, row->term.layer);
	CHECK_EQ(e->term.etype, row->term.etype);
	CHECK_EQ(e->term.code, row->term.code);
	CHECK_EQ(rig_ev_count(&rig.b, EV_BAD_RANGE), 0); /* only the responder reports the range */
	CHECK(rig.b.fin && TAILQ_EMPTY(&rig.b.out));
	cf_close();
}

static void
run_row(void)
{
	const struct row *row = &rows[test_case_index()];
	bool known = weft_rdmap_term_index(&row->term) >= 0;

	for (unsigned int k = 0; k < RTE_DIM(ops); k++)
		for (uint32_t msn = 1; msn <= OUT; msn++)
			for (unsigned int siw = 0; siw < 1u + known; siw++)
				one(row, k, msn, siw);
}

/* A Terminate without a header does not name a request. All requests are flushed, and the user gets
 * the Terminate. */
static void
test_no_header(void)
{
	for (unsigned int r = 0; r < RTE_DIM(rows); r++)
		for (unsigned int k = 0; k < RTE_DIM(ops); k++) {
			const struct weft_term *t = &rows[r].term;
			uint8_t p[4] = {(uint8_t)(t->layer << 4 | t->etype), t->code};

			if (weft_rdmap_term_index(t) < 0)
				continue;
			cf_open();
			cf_post(ops[k], OUT);
			CF_UNTAGGED(0x47, 2, 1, 0, p, 4);
			rig_pump();
			for (uint32_t i = 0; i < OUT; i++)
				CHECK_EQ(rig_status(&rig.b, &cf.req[i]), WEFT_RDMAP_FLUSHED);
			CHECK_EQ(rig_ev(&rig.b, EV_STATE, 1)->term.code, t->code);
			cf_close();
		}
}

/* The header names another kind of request than the request with its MSN: no request is to
 * blame. */
static void
test_other_kind(void)
{
	static const struct weft_term t = {0, 2, 0x0b};

	for (unsigned int k = 0; k < RTE_DIM(ops); k++)
		for (unsigned int j = 0; j < RTE_DIM(ops); j++) {
			if (j == k)
				continue;
			cf_open();
			cf_post(ops[k], OUT);
			terminate(&t, ops[j], 2, false);
			for (uint32_t i = 0; i < OUT; i++)
				CHECK_EQ(rig_status(&rig.b, &cf.req[i]), WEFT_RDMAP_FLUSHED);
			cf_close();
		}
}

/*
 * s2.2.1, s1.6: a whole transaction is outstanding. The Verify completes with the mismatch, later
 * requests are flushed, and earlier ones were answered.
 */
static void
test_in_a_commit(void)
{
	static const struct weft_term t = {0, 2, 0x0b};
	static const uint8_t commit[OUT] = {WEFT_RDMAP_FLUSH_REQ, WEFT_RDMAP_VERIFY_REQ,
	                                    WEFT_RDMAP_AWRITE_REQ, WEFT_RDMAP_FLUSH_REQ};
	static const int want[OUT] = {WEFT_RDMAP_OK, M, WEFT_RDMAP_FLUSHED, WEFT_RDMAP_FLUSHED};

	cf_open();
	for (unsigned int i = 0; i < OUT; i++) {
		cf.req[i] = (struct weft_rdmap_req){.op = commit[i],
		                                    .len_bytes = 8,
		                                    .stag = 0x99,
		                                    .flush_flags = 1,
		                                    .hash_bytes = i == 1 ? 8 : 0};
		weft_rdmap_post(rig.b.r, &cf.req[i]);
	}
	rig_pump();
	for (unsigned int i = 0; i < OUT; i++)
		free(rig_pop(&rig.b));
	CF_UNTAGGED(0x4d, 3, 1, 0, NULL, 0);
	terminate(&t, WEFT_RDMAP_VERIFY_REQ, 2, false);
	for (unsigned int i = 0; i < OUT; i++)
		CHECK_EQ(rig_status(&rig.b, &cf.req[i]), want[i]);
	cf_close();
}

int
main(int argc, char **argv)
{
	static const struct weft_test_case more[] = {{"no header", test_no_header},
	                                             {"header of another kind", test_other_kind},
	                                             {"in a commit", test_in_a_commit}};
	static struct weft_test_case cases[RTE_DIM(rows) + RTE_DIM(more)];
	unsigned int n = 0;

	for (; n < RTE_DIM(rows); n++)
		cases[n] = (struct weft_test_case){rows[n].name, run_row};
	for (unsigned int i = 0; i < RTE_DIM(more); i++)
		cases[n++] = more[i];
	return test_main(argc, argv, cases, n);
}
