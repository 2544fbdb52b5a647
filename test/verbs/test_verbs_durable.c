/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file A Flush that succeeds has stored all octets of the region on the medium, whichever
 * operation wrote them.
 *
 * A driver that writes only dirty pages must be told of each write. A Write is reported by its
 * region. Sends, and the results of the owner's own Reads and Atomics, are reported by the address
 * of the memory that they are stored to.
 */

#include <fcntl.h>
#include <unistd.h>

#include "medium_test.h"
#include "vt_fast.h"

#define BASE_TO 0x700000000ULL
#define PEER_TO 0x100000000ULL
#define PG      4096
#define BYTES   (64 * PG)
#define ACCESS                                                                                     \
	(RW | WEFT_ACCESS_REMOTE_ATOMIC | WEFT_ACCESS_FLUSH_PERSISTENT | WEFT_ACCESS_VERIFY |      \
	 WEFT_ACCESS_LOCAL_WRITE)

struct ground {
	struct vt t;
	struct weft_persist *p;
	struct weft_mr *mr;
	const char *path;
};

static void
ground_open(struct ground *g, const char *driver)
{
	struct weft_mr_attr a = {.size = sizeof(a),
	                         .len_bytes = BYTES,
	                         .base_to = BASE_TO,
	                         .access = ACCESS,
	                         .hash = "crc32c"};

	open_pair(&g->t, NULL);
	vt_mem(&g->t.n[0], BYTES, RW | WEFT_ACCESS_REMOTE_ATOMIC);
	vt_fill(g->t.n[0].mem, BYTES, 5);
	g->path = scratch_path("medium");
	unlink(g->path);
	put_file(g->path, BYTES, 0x33);
	g->p = must_open(driver, g->path, BYTES, false);
	a.addr = g->p->base;
	a.persist = g->p;
	CHECK_EQ(weft_mr_reg(g->t.n[1].pd, &a, &g->mr), 0);
}

static void
ground_close(struct ground *g)
{
	CHECK_EQ(weft_mr_dereg(g->mr, NULL, NULL), 0);
	vt_run(&g->t, VT_MS);
	vt_close(&g->t);
	weft_persist_close(g->p);
}

/** The peer flushes the whole region. Then the file equals the memory, and [off, off+len) has
 * changed. */
static void
flush_and_look(struct ground *g, uint64_t off, uint64_t len)
{
	struct weft_wr wr = {.opcode = WEFT_WR_FLUSH,
	                     .flags = WEFT_WR_SIGNALED,
	                     .flush = {.stag = weft_mr_stag(g->mr),
	                               .to = BASE_TO,
	                               .len_bytes = BYTES,
	                               .flags = WEFT_FLUSH_PERSISTENT}};
	static uint8_t on[BYTES], old[BYTES];
	int fd;

	vt_post(&g->t.n[0], &wr);
	want_wc(&g->t.n[0], WEFT_WC_FLUSH, WEFT_WC_SUCCESS);
	memset(old, 0x33, sizeof(old));
	CHECK(memcmp(g->p->base + off, old, len) != 0);
	fd = open(g->path, O_RDONLY);
	CHECK(fd >= 0 && pread(fd, on, BYTES, 0) == BYTES);
	close(fd);
	CHECK_EQ(memcmp(on, g->p->base, BYTES), 0);
}

static void
by_write(const char *driver)
{
	struct ground g;
	struct weft_sge sg;
	struct weft_wr wr;

	ground_open(&g, driver);
	sg = (struct weft_sge){g.t.n[0].mem, PG, 0};
	wr = wr_rdma(WEFT_WR_WRITE, &sg, weft_mr_stag(g.mr), BASE_TO + 100);
	vt_post(&g.t.n[0], &wr);
	want_wc(&g.t.n[0], WEFT_WC_WRITE, WEFT_WC_SUCCESS);
	flush_and_look(&g, 100, PG);
	ground_close(&g);
}

/** A Send into two pieces. One crosses a page boundary, the other lies in the last page. */
static void
by_send(const char *driver, bool keyed)
{
	struct ground g;
	struct weft_sge sg, to[2];
	struct weft_recv_wr rw = {.sg_list = to, .num_sge = 2};
	struct weft_wr wr = {.opcode = WEFT_WR_SEND, .sg_list = &sg, .num_sge = 1};
	uint32_t key;

	ground_open(&g, driver);
	key = keyed ? weft_mr_stag(g.mr) : 0;
	to[0] = (struct weft_sge){g.p->base + 3 * PG - 8, 3000, key};
	to[1] = (struct weft_sge){g.p->base + BYTES - 3000, 3000, key};
	CHECK_EQ(weft_post_recv(g.t.n[1].qp, &rw, 1), 1);
	sg = (struct weft_sge){g.t.n[0].mem, 6000, 0};
	vt_post(&g.t.n[0], &wr);
	CHECK_EQ(vt_wc(&g.t.n[1]).status, WEFT_WC_SUCCESS);
	flush_and_look(&g, 3 * PG - 8, 3000);
	ground_close(&g);
}

/** The results of the region owner's own request are stored in the region. */
static void
by_answer(const char *driver, enum weft_wr_opcode op)
{
	struct ground g;
	struct weft_sge sg;
	struct weft_wr wr;
	uint32_t peer;

	ground_open(&g, driver);
	peer = weft_mr_stag(g.t.n[0].mr);
	sg = (struct weft_sge){g.p->base + 5 * PG, op == WEFT_WR_READ ? PG : 8, weft_mr_stag(g.mr)};
	if (op == WEFT_WR_READ)
		wr = wr_rdma(op, &sg, peer, PEER_TO);
	else
		wr = (struct weft_wr){.opcode = op,
		                      .flags = WEFT_WR_SIGNALED,
		                      .sg_list = &sg,
		                      .num_sge = 1,
		                      .atomic = {.stag = peer, .to = PEER_TO, .data = 1}};
	vt_post(&g.t.n[1], &wr);
	CHECK_EQ(vt_wc(&g.t.n[1]).status, WEFT_WC_SUCCESS);
	flush_and_look(&g, 5 * PG, sg.len_bytes);
	ground_close(&g);
}

static const char *const drivers[] = {"file", "pmem"};

#define EACH(call)                                                                                 \
	do {                                                                                       \
		for (unsigned int i = 0; i < RTE_DIM(drivers); i++)                                \
			call;                                                                      \
	} while (0)

static void
test_write(void)
{
	EACH(by_write(drivers[i]));
}

static void
test_send(void)
{
	EACH(by_send(drivers[i], true));
}

static void
test_send_plain(void)
{
	EACH(by_send(drivers[i], false));
}

static void
test_read(void)
{
	EACH(by_answer(drivers[i], WEFT_WR_READ));
}

static void
test_atomic(void)
{
	EACH(by_answer(drivers[i], WEFT_WR_FETCH_ADD));
}

/** Media are opened and closed. A mark in one is not set in the others. */
static void
test_others(void)
{
	struct weft_persist *p[3];
	char name[16];

	for (unsigned int i = 0; i < RTE_DIM(p); i++) {
		snprintf(name, sizeof(name), "m%u", i);
		put_file(scratch_path(name), BYTES, 0);
		p[i] = must_open("file", scratch_path(name), BYTES, false);
		CHECK(p[i]->dirty != NULL);
		memset(p[i]->dirty, 0, BYTES / PG);
	}
	weft_medium_mark_at(p[1]->base + PG - 1, 2);
	for (unsigned int i = 0; i < RTE_DIM(p); i++)
		for (unsigned int pg = 0; pg < BYTES / PG; pg++)
			CHECK_EQ(p[i]->dirty[pg], i == 1 && pg < 2);
	weft_persist_close(p[0]);
	weft_persist_close(p[2]);
	weft_medium_mark_at(p[1]->base + BYTES - 1, 1);
	CHECK_EQ(p[1]->dirty[BYTES / PG - 1], 1);
	weft_persist_close(p[1]);
	CHECK(weft_medium_marked.to == 0);
}

WEFT_TEST_MAIN({"a Write", test_write}, {"a Send into the region", test_send},
               {"a Send into its memory, unregistered", test_send_plain},
               {"a Read of ours", test_read}, {"an Atomic's result", test_atomic},
               {"other media", test_others})
