/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Bursts of short requests, as they are posted in one call, packed into TCP segments, placed and
 * completed together. Each burst is drawn from a seed: Writes, Sends, Immediate Data, Reads, and a
 * Read at its end, of no to several thousand octets, of one or several pieces, with and without
 * keys, fences, inline payload and completions. A model knows what the target's memory holds
 * afterwards, and which completions come.
 */

#include "test_xorshift.h"
#include "vt.h"
#include "weft_verbs_qp.h"

#define LEN    65536u
#define BURST  32u
#define BURSTS 150u
#define TO     0x200000000ULL /* of the target's region: vt.h */
#define RIGHTS (WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_REMOTE_READ | WEFT_ACCESS_REMOTE_WRITE)
#define RECV   4096u
#define READ   2048u

struct burst {
	struct vt t;
	uint64_t x;
	uint8_t source[LEN], want[LEN], sink[LEN];
	struct weft_mr *lent; /* of the source */
	struct weft_mr *sink_mr;
	struct weft_mr *alien; /* of the source, in another domain */
	struct weft_mr *still; /* of the source, without the right to be changed */
	struct weft_pd *other;
	/* Reads in a burst: of a region that no Write changes */
	struct weft_mr *quiet, *quiet_sink;
	uint8_t quiet_mem[LEN], read[BURST][READ];
	uint8_t recv[BURST][RECV];
	/* of the burst under way */
	struct weft_wr wr[BURST];
	struct weft_sge sge[BURST][3];
	unsigned int n, receives;
	uint32_t sent_bytes[BURST], read_at, read_bytes;
	uint8_t message[BURST][RECV];
	uint32_t kinds; /* Reads are drawn too if it is more than 9 */
};

static uint32_t
draw(struct burst *b, uint32_t n)
{
	return (uint32_t)(test_xorshift(&b->x) >> 33) % n;
}

static uint32_t
draw_len(struct burst *b, uint32_t most)
{
	switch (draw(b, 4)) {
	case 0:
		return draw(b, 4);
	case 1:
		return draw(b, most + 1);
	default:
		return 1 + draw(b, 100);
	}
}

/* Pieces of the source, `len` octets in all, whose content is appended to out. */
static void
draw_pieces(struct burst *b, unsigned int i, uint32_t len, uint8_t *out)
{
	struct weft_wr *wr = &b->wr[i];

	wr->sg_list = b->sge[i];
	wr->num_sge = draw(b, 4) == 0 ? 1 + draw(b, 3) : 1;
	for (uint32_t k = 0; k < wr->num_sge; k++) {
		uint32_t part = k + 1 == wr->num_sge ? len : draw(b, len + 1);
		uint32_t at = draw(b, LEN - part + 1);
		const uint32_t keys[] = {0, weft_mr_stag(b->t.n[0].mr), weft_mr_stag(b->lent)};
		uint32_t key = keys[draw(b, 3)];
		/* the first key is of the node's region, which has other octets */
		uint8_t *from = key == keys[1] ? b->t.n[0].mem : b->source;

		b->sge[i][k] = (struct weft_sge){from + at, part, key};
		memcpy(out, from + at, part);
		out += part;
		len -= part;
	}
}

static void
draw_request(struct burst *b, unsigned int i)
{
	struct weft_wr *wr = &b->wr[i];
	uint8_t data[RECV];
	uint32_t kind = draw(b, b->kinds), len, at;

	*wr = (struct weft_wr){.wr_id = i};
	if (draw(b, 3) == 0)
		wr->flags |= WEFT_WR_SIGNALED;
	if (draw(b, 12) == 0)
		wr->flags |= WEFT_WR_FENCE;
	if (kind < 5) {
		len = draw_len(b, RECV);
		at = draw(b, LEN - len + 1);
		wr->opcode = WEFT_WR_WRITE;
		draw_pieces(b, i, len, data);
		wr->rdma.stag = weft_mr_stag(b->t.n[1].mr);
		wr->rdma.to = TO + at;
		memcpy(b->want + at, data, len);
		if (len <= 64 && draw(b, 6) == 0)
			wr->flags |= WEFT_WR_INLINE;
	} else if (kind < 8) {
		len = draw_len(b, RECV);
		wr->opcode = WEFT_WR_SEND;
		draw_pieces(b, i, len, b->message[b->receives]);
		b->sent_bytes[b->receives++] = len;
		if (draw(b, 8) == 0)
			wr->flags |= WEFT_WR_SOLICITED;
	} else if (kind > 8) {
		len = draw_len(b, READ);
		at = draw(b, LEN - len + 1);
		wr->opcode = WEFT_WR_READ;
		wr->sg_list = b->sge[i];
		wr->num_sge = 1;
		wr->rdma.stag = weft_mr_stag(b->quiet);
		wr->rdma.to = at;
		b->sge[i][0] = (struct weft_sge){b->read[i], len, weft_mr_stag(b->quiet_sink)};
		memset(b->read[i], 0, READ);
	} else {
		wr->opcode = WEFT_WR_IMM;
		memset(b->message[b->receives], (int)i, 8);
		memset(wr->imm.data, (int)i, 8);
		b->sent_bytes[b->receives++] = 8;
	}
}

/* The last request: when a Read behind all Writes is answered, they are placed. */
static void
draw_read(struct burst *b)
{
	struct weft_wr *wr = &b->wr[b->n - 1];
	uint32_t len = 1 + draw_len(b, 3000), at = draw(b, LEN - len + 1);

	*wr = (struct weft_wr){.wr_id = b->n - 1,
	                       .opcode = WEFT_WR_READ,
	                       .flags = WEFT_WR_SIGNALED,
	                       .sg_list = b->sge[b->n - 1],
	                       .num_sge = 1,
	                       .rdma = {weft_mr_stag(b->t.n[1].mr), TO + at}};
	b->sge[b->n - 1][0] = (struct weft_sge){b->sink, len, weft_mr_stag(b->sink_mr)};
	b->read_at = at;
	b->read_bytes = len;
}

/* Take the completions of the first `posted` requests, in order, and the receives. */
static void
burst_check(struct burst *b, unsigned int posted)
{
	struct vt_node *far = &b->t.n[1];

	for (unsigned int i = 0; i < posted; i++) {
		struct weft_wc wc;

		if ((b->wr[i].flags & WEFT_WR_SIGNALED) == 0)
			continue;
		wc = vt_wc(&b->t.n[0]);
		CHECK_EQ(wc.status, WEFT_WC_SUCCESS);
		CHECK_EQ(wc.wr_id, i);
	}
	for (unsigned int i = 0; i < posted; i++) {
		const struct weft_sge *sg = &b->sge[i][0];

		if (b->wr[i].opcode != WEFT_WR_READ || b->wr[i].rdma.stag != weft_mr_stag(b->quiet))
			continue;
		CHECK_MEM(b->read[i], b->quiet_mem + b->wr[i].rdma.to, sg->len_bytes);
		if (sg->len_bytes < READ)
			CHECK_EQ(b->read[i][sg->len_bytes], 0);
	}
	for (unsigned int i = 0; i < b->receives; i++) {
		struct weft_wc wc = vt_wc(far);

		CHECK_EQ(wc.status, WEFT_WC_SUCCESS);
		CHECK_EQ(wc.wr_id, i);
		CHECK_EQ(wc.len_bytes, b->sent_bytes[i]);
		if (wc.opcode == WEFT_WC_RECV)
			CHECK_MEM(b->recv[i], b->message[i], b->sent_bytes[i]);
		else
			CHECK_MEM(wc.imm, b->message[i], 8);
	}
	CHECK_MEM(far->mem, b->want, LEN);
}

static void
burst_open(struct burst *b, uint64_t seed, bool markers)
{
	struct vt_attr va = {.seed = seed, .link = {.delay_ns = 20000, .loss_ppm = 2000}};
	const struct weft_mpa_policy mpa = {.size = sizeof(mpa), .markers = markers};
	const struct weft_conn_attr ca[2] = {{.size = sizeof(ca[0]), .mpa = &mpa},
	                                     {.size = sizeof(ca[1]), .mpa = &mpa}};
	struct weft_qp_attr qa[2];
	struct weft_mr_attr ma = {.size = sizeof(ma),
	                          .addr = b->source,
	                          .len_bytes = LEN,
	                          .access = WEFT_ACCESS_LOCAL_WRITE};

	b->x = seed;
	b->kinds = 9;
	vt_open(&b->t, &va);
	vt_mem(&b->t.n[0], LEN, RIGHTS);
	vt_mem(&b->t.n[1], LEN, RIGHTS);
	vt_fill(b->t.n[0].mem, LEN, seed + 1);
	vt_fill(b->source, LEN, seed + 2);
	CHECK_EQ(weft_mr_reg(b->t.n[0].pd, &ma, &b->lent), 0);
	ma.addr = b->sink;
	CHECK_EQ(weft_mr_reg(b->t.n[0].pd, &ma, &b->sink_mr), 0);
	ma.addr = b->read;
	CHECK_EQ(weft_mr_reg(b->t.n[0].pd, &ma, &b->quiet_sink), 0);
	ma.addr = b->quiet_mem;
	ma.access = WEFT_ACCESS_REMOTE_READ;
	vt_fill(b->quiet_mem, LEN, seed + 3);
	CHECK_EQ(weft_mr_reg(b->t.n[1].pd, &ma, &b->quiet), 0);
	ma.access = WEFT_ACCESS_LOCAL_WRITE;
	ma.addr = b->source;
	ma.access = WEFT_ACCESS_REMOTE_READ;
	CHECK_EQ(weft_mr_reg(b->t.n[0].pd, &ma, &b->still), 0);
	ma.access = WEFT_ACCESS_LOCAL_WRITE;
	CHECK_EQ(weft_pd_alloc(b->t.n[0].ctx, &b->other), 0);
	CHECK_EQ(weft_mr_reg(b->other, &ma, &b->alien), 0);
	for (unsigned int i = 0; i < 2; i++) {
		qa[i] = vt_qp_attr(&b->t.n[i]);
		qa[i].sq_depth = qa[i].rq_depth = BURST;
		qa[i].max_inline_bytes = 64;
		qa[i].ird = qa[i].ord = 7; /* fewer than a burst may have Reads */
	}
	vt_connect_as(&b->t, qa, ca);
}

static void
burst_close(struct burst *b)
{
	CHECK_EQ(weft_mr_dereg(b->lent, NULL, NULL), 0);
	CHECK_EQ(weft_mr_dereg(b->sink_mr, NULL, NULL), 0);
	CHECK_EQ(weft_mr_dereg(b->alien, NULL, NULL), 0);
	CHECK_EQ(weft_mr_dereg(b->still, NULL, NULL), 0);
	CHECK_EQ(weft_mr_dereg(b->quiet, NULL, NULL), 0);
	CHECK_EQ(weft_mr_dereg(b->quiet_sink, NULL, NULL), 0);
	vt_run(&b->t, 10 * VT_MS);
	CHECK_EQ(weft_pd_dealloc(b->other), 0);
	vt_close(&b->t);
}

static void
draw_burst(struct burst *b)
{
	b->n = 1 + draw(b, BURST);
	b->receives = 0;
	for (unsigned int i = 0; i + 1 < b->n; i++)
		draw_request(b, i);
	for (unsigned int i = 0; i < b->receives; i++)
		vt_post_recv(&b->t.n[1], b->recv[i], RECV, i);
}

/* Post a Read behind what was posted, and check everything. */
static void
burst_barrier(struct burst *b)
{
	unsigned int posted = b->n++;

	draw_read(b);
	CHECK_EQ(weft_post_send(b->t.n[0].qp, &b->wr[posted], 1), 1);
	burst_check(b, b->n);
	CHECK_MEM(b->sink, b->want + b->read_at, b->read_bytes);
}

static void
random_bursts(bool markers, uint32_t kinds)
{
	static struct burst b;
	uint64_t seed = test_seed(1);

	memset(&b, 0, sizeof(b));
	burst_open(&b, seed, markers);
	b.kinds = kinds;
	for (unsigned int k = 0; k < BURSTS; k++) {
		draw_burst(&b);
		draw_read(&b);
		CHECK_EQ(weft_post_send(b.t.n[0].qp, b.wr, b.n), (int)b.n);
		burst_check(&b, b.n);
		CHECK_MEM(b.sink, b.want + b.read_at, b.read_bytes);
		/* all are completed: the next burst begins with the first slot */
		CHECK_EQ(b.t.n[0].qp->sq_head, b.t.n[0].qp->sq_tail);
		CHECK_EQ(b.t.n[0].qp->sq_tail & b.t.n[0].qp->sq_mask, 0);
	}
	burst_close(&b);
}

static void
test_random(void)
{
	random_bursts(false, 9);
}

/** Some Reads among the others, and then mostly Reads: their requests and responses are packed. */
static void
test_reads(void)
{
	random_bursts(false, 12);
	random_bursts(false, 100);
}

static void
test_markers(void)
{
	random_bursts(true, 9);
	random_bursts(true, 12);
}

/*
 * A burst whose last request is wrong is posted up to it, whatever came before: another region, no
 * region. The wrong one sends nothing.
 */
static void
test_wrong(void)
{
	static const enum weft_wr_opcode ops[] = {WEFT_WR_WRITE, WEFT_WR_SEND, WEFT_WR_READ};
	static struct burst b;

	memset(&b, 0, sizeof(b));
	burst_open(&b, 7, false);
	b.kinds = 12;
	for (unsigned int k = 0; k < 108; k++) {
		struct weft_sge *sg;
		struct weft_wr *wr;
		uint32_t mine;

		draw_burst(&b);
		mine = weft_mr_stag(b.lent);
		wr = &b.wr[b.n - 1];
		sg = &b.sge[b.n - 1][0];
		*sg = (struct weft_sge){b.source, 8, mine};
		*wr = (struct weft_wr){.wr_id = 99,
		                       .opcode = ops[k % 3],
		                       .flags = WEFT_WR_SIGNALED,
		                       .sg_list = sg,
		                       .num_sge = 1};
		if (wr->opcode != WEFT_WR_SEND)
			wr->rdma.stag = weft_mr_stag(b.t.n[1].mr);
		switch (k / 3 % 9) {
		case 0:
			sg->lkey = weft_mr_stag(b.alien);
			break;
		case 1:
			sg->lkey = mine ^ 1;
			break;
		case 2:
			sg->addr = b.source + LEN - 7;
			break;
		case 3:
			sg->addr = b.source - 1;
			break;
		case 4:
			sg->addr = b.t.n[0].mem; /* of another region */
			break;
		case 5:
			sg->addr = NULL;
			break;
		case 6:
			sg->len_bytes = UINT32_MAX;
			break;
		case 7:
			wr->sg_list = NULL;
			break;
		case 8: /* octets may be sent from there, and not be placed there */
			sg->lkey = weft_mr_stag(wr->opcode == WEFT_WR_READ ? b.still : b.alien);
			break;
		}
		CHECK_EQ(weft_post_send(b.t.n[0].qp, b.wr, b.n), b.n == 1 ? -EINVAL : (int)b.n - 1);
		b.n--;
		burst_barrier(&b);
	}
	burst_close(&b);
}

WEFT_TEST_MAIN({"random bursts", test_random}, {"with Reads", test_reads},
               {"with markers", test_markers}, {"bursts with a wrong request", test_wrong})
