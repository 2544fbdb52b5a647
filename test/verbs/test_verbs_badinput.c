/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Every fault of a peer in the placement operations (draft-talpey-rdma-commit-02 s4.2 and the RFCs
 * below it). Each causes the documented Terminate at both sides and leaves memory and medium
 * unchanged. A client of another connection commits transactions all the time and is not affected.
 */

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "medium_test.h"
#include "vt_fast.h"
#include "weft_persist_sim.h"

#define LEN     16384
#define BASE_TO 0x700000000ull
#define ALL                                                                                        \
	(RW | WEFT_ACCESS_REMOTE_ATOMIC | WEFT_ACCESS_FLUSH_VISIBLE |                              \
	 WEFT_ACCESS_FLUSH_PERSISTENT | WEFT_ACCESS_VERIFY)

enum op { OP_WRITE, OP_READ, OP_ADD, OP_AWRITE, OP_FLUSH, OP_VERIFY, NOPS };

static const char *const op_name[NOPS] = {"Write",        "Read",  "FetchAdd",
                                          "Atomic Write", "Flush", "Verify"};
static const uint32_t right[NOPS] = {WEFT_ACCESS_REMOTE_WRITE,     WEFT_ACCESS_REMOTE_READ,
                                     WEFT_ACCESS_REMOTE_ATOMIC,    WEFT_ACCESS_REMOTE_WRITE,
                                     WEFT_ACCESS_FLUSH_PERSISTENT, WEFT_ACCESS_VERIFY};

/** The fault in the request. */
enum fault {
	MISALIGNED, /**< of the address, not of the offset */
	BEYOND,     /**< ends one octet beyond the region, begins inside */
	OUTSIDE,    /**< wholly outside the region */
	BEFORE,     /**< begins one octet before the region */
	WRAPS,      /**< wraps at 2^64 */
	NO_RIGHT,   /**< without the right of the operation, with all others */
	NO_STAG,    /**< an STag that never existed */
	GONE,       /**< a deregistered region */
	OTHER_PD,   /**< the region of the other client */
	SHORT_HASH, /**< of a Verify: shorter than the region's hash */
	LONG_HASH,
	WRONG_HASH,
	MEDIUM, /**< the medium fails */
	FULL,   /**< the device is full, which a Flush finds */
	NFAULTS
};

struct row {
	enum fault fault;
	uint8_t code[2]; /**< etype and code of the Terminate at layer 0 */
	/** code at layer 1, type 1, if a Write fails; NONE: as the other operations */
	uint8_t ddp;
	uint32_t ops;           /**< bits of enum op: operations that can have the fault */
	enum weft_wc_status wc; /**< status at the requester */
};

#define BIT(op) (1u << (op))
#define EVERY   (BIT(NOPS) - 1)
#define NONE    0xff

static const struct row rows[NFAULTS] = {
        [MISALIGNED] =
                {MISALIGNED, {2, 0x07}, NONE, BIT(OP_ADD) | BIT(OP_AWRITE), WEFT_WC_REMOTE_OP},
        [BEYOND] =
                {BEYOND, {1, 1}, 1, EVERY & ~(BIT(OP_ADD) | BIT(OP_AWRITE)), WEFT_WC_REMOTE_ACCESS},
        [OUTSIDE] = {OUTSIDE, {1, 1}, 1, EVERY, WEFT_WC_REMOTE_ACCESS},
        [BEFORE] = {BEFORE, {1, 1}, 1, EVERY, WEFT_WC_REMOTE_ACCESS},
        [WRAPS] = {WRAPS, {1, 4}, 3, EVERY, WEFT_WC_REMOTE_ACCESS},
        [NO_RIGHT] = {NO_RIGHT, {1, 2}, NONE, EVERY, WEFT_WC_REMOTE_ACCESS},
        [NO_STAG] = {NO_STAG, {1, 0}, 0, EVERY, WEFT_WC_REMOTE_ACCESS},
        [GONE] = {GONE, {1, 0}, 0, EVERY, WEFT_WC_REMOTE_ACCESS},
        [OTHER_PD] = {OTHER_PD, {1, 3}, 2, EVERY, WEFT_WC_REMOTE_ACCESS},
        [SHORT_HASH] = {SHORT_HASH, {2, 0xff}, NONE, BIT(OP_VERIFY), WEFT_WC_REMOTE_OP},
        [LONG_HASH] = {LONG_HASH, {2, 0xff}, NONE, BIT(OP_VERIFY), WEFT_WC_REMOTE_OP},
        [WRONG_HASH] = {WRONG_HASH, {2, 0x0b}, NONE, BIT(OP_VERIFY), WEFT_WC_HASH_MISMATCH},
        [MEDIUM] = {MEDIUM, {2, 0}, NONE, BIT(OP_FLUSH) | BIT(OP_VERIFY), WEFT_WC_REMOTE_OP},
        [FULL] = {FULL, {2, 0x0a}, NONE, BIT(OP_FLUSH), WEFT_WC_REMOTE_OP},
};

/* ---- The client that is not affected ---- */

struct good {
	struct vt *t;
	struct weft_pd *pd;
	struct weft_cq *cq[2];
	struct weft_qp *qp[2];
	struct weft_mr *mr;
	struct weft_persist *p;
	uint8_t out[2][1024]; /**< what the two outstanding transactions write */
	unsigned int posted, acked;
};

static void
good_open(struct good *g, struct vt *t)
{
	const struct weft_cq_attr ca = {.size = sizeof(ca), .depth = 64};
	const struct weft_persist_attr pa = {
	        .size = sizeof(pa), .driver = "sim", .bytes = LEN, .numa_node = -1};
	struct weft_mr_attr ma = {.size = sizeof(ma),
	                          .len_bytes = LEN,
	                          .base_to = BASE_TO,
	                          .access = ALL & ~WEFT_ACCESS_REMOTE_ATOMIC,
	                          .hash = "crc32c"};
	struct weft_wr wr = {.opcode = WEFT_WR_SEND, .flags = WEFT_WR_SIGNALED};
	struct weft_qp_attr qa[2];
	struct weft_sge sg;
	struct weft_recv_wr rr = {.sg_list = &sg, .num_sge = 1};
	struct weft_pd *pd = t->n[1].pd;
	struct weft_wc wc;
	uint8_t in[1];

	*g = (struct good){.t = t};
	CHECK_EQ(weft_persist_open(&pa, &g->p), 0);
	CHECK_EQ(weft_pd_alloc(t->n[1].ctx, &g->pd), 0);
	ma.addr = g->p->base;
	ma.persist = g->p;
	CHECK_EQ(weft_mr_reg(g->pd, &ma, &g->mr), 0);
	for (unsigned int i = 0; i < 2; i++) {
		CHECK_EQ(weft_cq_create(t->n[i].ctx, &ca, &g->cq[i]), 0);
		qa[i] = vt_qp_attr(&t->n[i]);
		qa[i].send_cq = qa[i].recv_cq = g->cq[i];
	}
	t->n[1].pd = g->pd;
	vt_connect(t, &qa[0], &qa[1]);
	t->n[1].pd = pd;
	for (unsigned int i = 0; i < 2; i++) {
		g->qp[i] = t->n[i].qp;
		t->n[i].qp = NULL;
	}
	sg = (struct weft_sge){in, 1, 0};
	CHECK_EQ(weft_post_recv(g->qp[1], &rr, 1), 1);
	CHECK_EQ(weft_post_send(g->qp[0], &wr, 1), 1);
	vt_run(t, 5 * VT_MS);
	CHECK_EQ(weft_cq_poll(g->cq[0], &wc, 1), 1);
	CHECK_EQ(weft_cq_poll(g->cq[1], &wc, 1), 1);
}

/** Begin a transaction: Write, Flush, Verify, Atomic Write, Flush. */
static void
good_post(struct good *g)
{
	unsigned int slot = ++g->posted % 2;
	uint64_t to = BASE_TO + 4096 * (1 + slot);
	uint32_t stag = weft_mr_stag(g->mr);
	uint8_t *out = g->out[slot];
	struct weft_sge sg = {out, sizeof(g->out[0]), 0};
	struct weft_wr wr[5];
	uint8_t crc[4];

	vt_fill(out, sizeof(g->out[0]), g->posted);
	vt_crc32c(out, sizeof(g->out[0]), crc);
	wr[0] = wr_rdma(WEFT_WR_WRITE, &sg, stag, to);
	wr[0].flags = 0;
	wr[1] = (struct weft_wr){.opcode = WEFT_WR_FLUSH,
	                         .flush = {stag, to, sizeof(g->out[0]), WEFT_FLUSH_PERSISTENT}};
	wr[2] = (struct weft_wr){.opcode = WEFT_WR_VERIFY,
	                         .verify = {.stag = stag,
	                                    .to = to,
	                                    .len_bytes = sizeof(g->out[0]),
	                                    .expect = crc,
	                                    .expect_bytes = 4}};
	wr[3] = (struct weft_wr){.opcode = WEFT_WR_ATOMIC_WRITE,
	                         .atomic_write = {stag, BASE_TO, {(uint8_t)g->posted}}};
	wr[4] = (struct weft_wr){.opcode = WEFT_WR_FLUSH,
	                         .flags = WEFT_WR_SIGNALED,
	                         .flush = {stag, BASE_TO, 8, WEFT_FLUSH_PERSISTENT}};
	CHECK_EQ(weft_post_send(g->qp[0], wr, 5), 5);
}

/** Check that the transactions are complete and on the medium. */
static void
good_check(struct good *g, const char *what)
{
	unsigned int slot = g->posted % 2;
	struct weft_wc wc;

	while (g->acked < g->posted) {
		vt_run(g->t, VT_MS);
		if (weft_cq_poll(g->cq[0], &wc, 1) == 0)
			continue;
		CHECK_MSG(wc.status == WEFT_WC_SUCCESS && wc.opcode == WEFT_WC_FLUSH, "%s: %s",
		          what, weft_wc_status_str(wc.status));
		g->acked++;
	}
	CHECK_MEM(weft_persist_sim_medium(g->p) + 4096 * (1 + slot), g->out[slot],
	          sizeof(g->out[0]));
	CHECK_EQ(weft_persist_sim_medium(g->p)[0], (uint8_t)g->posted);
}

static void
good_close(struct good *g)
{
	weft_qp_destroy(g->qp[0]);
	weft_qp_destroy(g->qp[1]);
	CHECK_EQ(weft_mr_dereg(g->mr, NULL, NULL), 0);
	vt_run(g->t, VT_S);
	CHECK_EQ(weft_pd_dealloc(g->pd), 0);
	for (unsigned int i = 0; i < 2; i++)
		CHECK_EQ(weft_cq_destroy(g->cq[i]), 0);
	weft_persist_close(g->p);
}

/* ---- The faulty client ---- */

static struct weft_wr
request(enum op op, const struct row *row, uint32_t stag, uint64_t to, uint32_t len,
        const struct weft_sge *sg)
{
	static const uint8_t hash[8] = {1, 2, 3, 4, 5, 6, 7, 8};
	const uint32_t expect_bytes = row->fault == SHORT_HASH   ? 3
	                              : row->fault == LONG_HASH  ? 5
	                              : row->fault == WRONG_HASH ? 4
	                                                         : 0;

	switch (op) {
	case OP_WRITE:
		return wr_rdma(WEFT_WR_WRITE, sg, stag, to);
	case OP_READ:
		return wr_rdma(WEFT_WR_READ, sg, stag, to);
	case OP_ADD:
		return wr_fetch_add(stag, to);
	case OP_AWRITE:
		return wr_atomic_write(stag, to, 0xaa);
	case OP_FLUSH:
		return wr_flush(stag, to, len, WEFT_FLUSH_PERSISTENT);
	default:
		return wr_verify(stag, to, len, hash, expect_bytes, NULL);
	}
}

static struct weft_persist *
medium_of(const struct row *row)
{
	const struct weft_persist_attr pa = {
	        .size = sizeof(pa), .driver = "sim", .bytes = LEN, .numa_node = -1};
	const char *path = scratch_path("device");
	struct weft_persist *p;

	if (row->fault == FULL) {
		unlink(path);
		put_file(path, LEN, 0);
		return must_open("file", path, LEN, false);
	}
	CHECK_EQ(weft_persist_open(&pa, &p), 0);
	return p;
}

static void
one(const struct row *row, enum op op)
{
	struct rlimit limit;
	bool write = op == OP_WRITE && row->ddp != NONE;
	unsigned int layer = write ? 1 : 0, etype = write ? 1 : row->code[0];
	unsigned int code = write ? row->ddp : row->code[1];
	bool sim = row->fault != FULL;
	static uint8_t before[LEN], medium[LEN];
	struct weft_mr_attr ma = {.size = sizeof(ma),
	                          .len_bytes = LEN - 8,
	                          .base_to = BASE_TO,
	                          .access = ALL,
	                          .hash = "crc32c"};
	uint64_t to = BASE_TO + 64;
	struct weft_persist *p;
	uint32_t stag, len = 16;
	struct weft_mr *mr;
	struct weft_event ev;
	struct weft_sge sg;
	struct weft_wr wr;
	struct good g;
	char what[64];
	struct vt t;

	snprintf(what, sizeof(what), "%s, fault %d", op_name[op], row->fault);
	vt_open(&t, NULL);
	good_open(&g, &t);
	vt_connect(&t, NULL, NULL);
	vt_mem(&t.n[0], 4096, RW);
	p = medium_of(row);
	ma.addr = p->base + (row->fault == MISALIGNED ? 4 : 0);
	ma.persist = p;
	if (row->fault == NO_RIGHT)
		ma.access &= ~right[op];
	if (row->fault == NO_RIGHT && op == OP_READ)
		ma.access &= ~(uint32_t)WEFT_ACCESS_VERIFY;
	CHECK_EQ(weft_mr_reg(t.n[1].pd, &ma, &mr), 0);
	vt_fill(p->base, LEN, 77);
	weft_persist_mark(p, 0, LEN);
	stag = weft_mr_stag(mr);
	memset(t.n[0].mem, 0xaa, 64);
	if (op == OP_ADD || op == OP_AWRITE)
		len = 8;
	sg = (struct weft_sge){t.n[0].mem, len, weft_mr_stag(t.n[0].mr)};
	CHECK_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
	switch (row->fault) {
	case BEYOND:
		to = BASE_TO + LEN - 8 - len + 1;
		break;
	case OUTSIDE:
		to = BASE_TO + LEN;
		break;
	case BEFORE:
		to = BASE_TO - 8;
		break;
	case WRAPS:
		to = UINT64_MAX - 6;
		break;
	case NO_STAG:
		stag ^= 0x55000000;
		break;
	case GONE:
		CHECK_EQ(weft_mr_dereg(mr, NULL, NULL), 0);
		mr = NULL;
		break;
	case OTHER_PD:
		stag = weft_mr_stag(g.mr);
		break;
	case MEDIUM:
		weft_persist_sim_fault(p, op == OP_FLUSH ? WEFT_SIM_FLUSH_ERR : WEFT_SIM_READ_ERR,
		                       0, LEN, 0);
		code = op == OP_FLUSH ? 0x0a : 0x0c;
		break;
	case FULL:
		signal(SIGXFSZ, SIG_IGN);
		limit.rlim_cur = 0;
		CHECK_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
		break;
	default:
		break;
	}
	memcpy(before, p->base, LEN);
	if (sim)
		memcpy(medium, weft_persist_sim_medium(p), LEN);
	good_post(&g);
	wr = request(op, row, stag, to, len, &sg);
	vt_post(&t.n[0], &wr);
	/* A Write completes when it is sent. The Terminate comes later. */
	if (op != OP_WRITE) {
		struct weft_wc wc = vt_wc(&t.n[0]);

		CHECK_MSG(wc.status == row->wc, "%s: %s", what, weft_wc_status_str(wc.status));
	}
	good_post(&g);
	vt_run(&t, 10 * VT_MS);
	for (int i = 1; i >= 0; i--) {
		bool told = false;

		while (weft_evq_poll(t.n[i].evq, &ev) == 1)
			if (ev.type == WEFT_EV_TERMINATED) {
				CHECK_MSG(ev.term.layer == layer && ev.term.etype == etype &&
				                  ev.term.code == code && ev.term.ours == (i == 1),
				          "%s, node %d: %u/%u/%02x, not %u/%u/%02x", what, i,
				          ev.term.layer, ev.term.etype, ev.term.code, layer, etype,
				          code);
				told = true;
			} else {
				CHECK(ev.type == WEFT_EV_DISCONNECTED ||
				      ev.type == WEFT_EV_BAD_RANGE);
			}
		CHECK_MSG(told, "%s: node %d was told nothing", what, i);
	}
	limit.rlim_cur = limit.rlim_max;
	CHECK_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
	CHECK_MSG(memcmp(before, p->base, LEN) == 0, "%s: memory was changed", what);
	if (sim && row->fault != MEDIUM)
		CHECK_MSG(memcmp(medium, weft_persist_sim_medium(p), LEN) == 0,
		          "%s: the medium was changed", what);
	good_check(&g, what);
	good_post(&g);
	good_check(&g, what);
	if (mr != NULL)
		CHECK_EQ(weft_mr_dereg(mr, NULL, NULL), 0);
	good_close(&g);
	vt_close(&t);
	weft_persist_close(p);
}

static void
test_table(void)
{
	unsigned int n = 0;

	for (unsigned int f = 0; f < NFAULTS; f++)
		for (unsigned int op = 0; op < NOPS; op++)
			if (rows[f].ops & BIT(op)) {
				one(&rows[f], op);
				n++;
			}
	test_note("%u requests refused", n);
}

WEFT_TEST_MAIN({"table", test_table})
