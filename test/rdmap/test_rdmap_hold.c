/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The resources that a peer's request holds, and until when. A peer that accepts no responses must
 * not keep read-backs of the medium or hashes that are no longer needed. No request uses resources
 * of the one before. A Flush for the executor waits for its peer's turn.
 */

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "medium_priv.h"
#include "rdmap_rig.h"

#define BYTES (256u * 1024)
#define ALL                                                                                        \
	(WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_REMOTE_READ | WEFT_ACCESS_REMOTE_WRITE |            \
	 WEFT_ACCESS_FLUSH_PERSISTENT | WEFT_ACCESS_FLUSH_VISIBLE | WEFT_ACCESS_VERIFY)

static struct rig_medium med;
static struct weft_mem_mr *mr;

static void
set_up(void)
{
	rig_open(4, 4, true);
	rig_medium_open(&med, BYTES);
	mr = rig_reg(&rig.b, med.p.base, BYTES, 0, ALL, &med.p, &rig_hash);
}

static void
tear_down(void)
{
	if (mr != NULL)
		rig_unreg(&rig.b, mr);
	rig_close();
	rig_medium_close(&med);
}

/* A Verify of the whole medium, behind a Flush whose response the peer does not accept. */
static void
verify_behind_flush(void)
{
	uint8_t flags[4];

	rig.b.space = 0;
	weft_put_be32(flags, WEFT_FLUSH_VISIBLE);
	rig_inject_place(&rig.b, WEFT_RDMAP_FLUSH_REQ, 1, mr->stag, 0, 0, flags, 4);
	rig_inject_place(&rig.b, WEFT_RDMAP_VERIFY_REQ, 2, mr->stag, 0, BYTES, NULL, 0);
}

/* Run one turn of the Verify: a read-back is held, and a part of it is hashed. */
static void
midway(void)
{
	med.immediate = true;
	verify_behind_flush();
	weft_sched_run(&rig.b.sched, rig.now_ns);
	CHECK_EQ(med.reads_out, 1);
	CHECK_EQ(rig_hashes, 1);
}

static void
holds_nothing(void)
{
	CHECK_EQ(med.reads_out, 0);
	CHECK_EQ(rig_hashes, 0);
}

/* With space, the response to the Flush is sent, then the Terminate that the Verify caused. */
static void
then_terminates(uint8_t etype, uint8_t code)
{
	static const uint8_t flushed[18] = {0x41, 0x4d, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 1};
	struct rig_ulpdu *u;

	CHECK(TAILQ_EMPTY(&rig.b.out));
	rig.b.space = UINT32_MAX;
	rig_pump();
	EXPECT_ULPDU(&rig.b, flushed, 18);
	u = rig_pop(&rig.b);
	CHECK(u != NULL && u->data[1] == 0x47 && u->data[18] == etype && u->data[19] == code);
	free(u);
}

/* A read-back fails. The peer learns of it when it accepts its responses. The medium is free at
 * once. */
static void
test_failed(void)
{
	set_up();
	med.read_err = -EIO;
	verify_behind_flush();
	rig_pump();
	CHECK_EQ(rig_ev_count(&rig.b, EV_BAD_RANGE), 1);
	holds_nothing();
	then_terminates(WEFT_TERM_RDMA_OPERATION, WEFT_TERM_OP_VERIFY_FAILED);
	tear_down();
}

/* The STag is invalidated during the Verify (RFC 5040 s8.1.1 item 6). */
static void
test_revoked(void)
{
	set_up();
	midway();
	rig_unreg(&rig.b, mr);
	mr = NULL;
	rig_pump();
	CHECK_EQ(rig.b.op_stats.faults.requests_revoked, 1);
	holds_nothing();
	then_terminates(WEFT_TERM_RDMA_PROTECTION, WEFT_TERM_PROT_BAD_STAG);
	tear_down();
}

/* The stream ends during a Verify, in each possible way. */
static void
test_ended(void)
{
	enum { ABORT, DESTROY, TERMINATE, WAYS };

	for (unsigned int how = 0; how < WAYS; how++) {
		set_up();
		midway();
		if (how == ABORT) {
			weft_rdmap_abort(rig.b.r, rig.now_ns);
		} else if (how == DESTROY) {
			weft_rdmap_destroy(rig.b.r);
			rig.b.r = NULL;
		} else {
			rig_inject_untagged(&rig.b, 0x47, 2, 1, 0, true, 0,
			                    (const uint8_t[]){0x02, 0xff, 0, 0}, 4);
		}
		holds_nothing();
		tear_down();
	}
}

/* ---- The executor's turns, shared between peers (weft_lane.h) ---- */

static struct weft_lanes lanes;
static struct weft_turn others[WEFT_LANE_WORK];
static struct weft_task nothing;

static void
on_nothing(struct weft_task *task, uint64_t now_ns)
{
	(void)task;
	(void)now_ns;
}

/* Open a stream of a peer whose other streams hold all its turns. */
static struct weft_lane *
set_up_busy(void)
{
	static const uint64_t key[2] = {1, 2};
	struct weft_lane *lane;

	set_up();
	memset(others, 0, sizeof(others));
	memset(&nothing, 0, sizeof(nothing));
	nothing.fn = on_nothing;
	weft_lanes_init(&lanes, key);
	lane = &lanes.lane[3];
	weft_rdmap_lane(rig.b.r, lane);
	for (unsigned int i = 0; i < WEFT_LANE_WORK; i++)
		CHECK(weft_turn_get(lane, &others[i], &nothing));
	return lane;
}

static void
flush(uint32_t msn, uint32_t how, uint32_t len_bytes)
{
	uint8_t flags[4];

	weft_put_be32(flags, how);
	rig_inject_place(&rig.b, WEFT_RDMAP_FLUSH_REQ, msn, mr->stag, 0, len_bytes, flags, 4);
	rig_pump();
}

static unsigned int
answers(void)
{
	struct rig_ulpdu *u;
	unsigned int n = 0;

	while ((u = rig_pop(&rig.b)) != NULL) {
		CHECK_EQ(u->data[1], 0x40 | WEFT_RDMAP_FLUSH_RESP);
		free(u);
		n++;
	}
	return n;
}

static void
end_busy(struct weft_lane *lane)
{
	for (unsigned int i = 0; i < WEFT_LANE_WORK; i++)
		weft_turn_put(&rig.b.sched, lane, &others[i]);
	CHECK_EQ(lane->held, 0);
	CHECK(TAILQ_EMPTY(&lane->waiting));
	CHECK_EQ(lanes.busy, 0);
	tear_down();
}

/* The Flush does not begin before its turn, and returns the turn. */
static void
test_flush_waits(void)
{
	struct weft_lane *lane = set_up_busy();

	flush(1, WEFT_FLUSH_PERSISTENT, BYTES);
	CHECK_EQ(med.flushes, 0);
	CHECK_EQ(lanes.waits, 1);
	weft_turn_put(&rig.b.sched, lane, &others[5]);
	rig_pump();
	CHECK_EQ(med.flushes, 1);
	CHECK_EQ(answers(), 1);
	CHECK_EQ(lane->held, WEFT_LANE_WORK - 1);
	end_busy(lane);
}

/* A Flush without the executor needs no turn: for visibility only, of no octets, or done by the
 * medium at once. */
static void
test_flush_at_once(void)
{
	struct weft_lane *lane = set_up_busy();

	flush(1, WEFT_FLUSH_VISIBLE, BYTES);
	CHECK_EQ(answers(), 1);
	flush(2, WEFT_FLUSH_PERSISTENT, 0);
	CHECK_EQ(answers(), 1);
	med.immediate = true;
	med.p.flush_now_max_bytes = 4096;
	flush(3, WEFT_FLUSH_PERSISTENT, 4096);
	CHECK_EQ(answers(), 1);
	CHECK_EQ(lanes.waits, 0);
	CHECK_EQ(med.flushes, 2);
	flush(4, WEFT_FLUSH_PERSISTENT, 4097);
	CHECK_EQ(answers(), 0);
	CHECK_EQ(lanes.waits, 1);
	weft_turn_put(&rig.b.sched, lane, &others[0]);
	rig_pump();
	CHECK_EQ(answers(), 1);
	end_busy(lane);
}

/* A stream that ends while it waits for a turn leaves the queue. */
static void
test_flush_ended(void)
{
	for (unsigned int how = 0; how < 2; how++) {
		struct weft_lane *lane = set_up_busy();

		flush(1, WEFT_FLUSH_PERSISTENT, BYTES);
		CHECK_EQ(lanes.waits, 1);
		if (how == 0) {
			weft_rdmap_abort(rig.b.r, rig.now_ns);
		} else {
			weft_rdmap_destroy(rig.b.r);
			rig.b.r = NULL;
		}
		CHECK(TAILQ_EMPTY(&lane->waiting));
		CHECK_EQ(med.flushes, 0);
		end_busy(lane);
	}
}

/* RFC 5040 s5.2.1: a Read of no octets is not checked, whatever memory the Read before it used. */
static void
test_empty_read(void)
{
	static const uint8_t answer[14] = {0xc1, 0x42, 0, 0, 0, 7};
	struct rdmap_read_req q = {.sink_stag = 7, .len_bytes = 4};
	struct medium_guard *guard;
	struct rig_ulpdu *u;
	uint8_t *map;
	int fd;

	rig_open(1, 1, true); /* the second request uses the same entry as the first */
	fd = memfd_create("weft-test", 0);
	CHECK(fd >= 0 && ftruncate(fd, 4096) == 0);
	map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(map != MAP_FAILED);
	CHECK_EQ(medium_guard_add(map, 4096, &guard), 0);
	CHECK_EQ(weft_guard_install(), 0);
	mr = rig_reg(&rig.b, map, 4096, 0, WEFT_ACCESS_REMOTE_READ, NULL, NULL);
	q.src_stag = mr->stag;
	rig_inject_read(&rig.b, 1, &q);
	rig_pump();
	u = rig_pop(&rig.b);
	CHECK(u != NULL && u->len_bytes == 14 + 4);
	free(u);
	CHECK_EQ(ftruncate(fd, 0), 0);
	CHECK(weft_guard_probe(map, 1));
	q.len_bytes = 0;
	rig_inject_read(&rig.b, 2, &q);
	rig_pump();
	EXPECT_ULPDU(&rig.b, answer, 14);
	CHECK_EQ(weft_rdmap_state(rig.b.r), WEFT_RDMAP_ST_RTS);
	rig_unreg(&rig.b, mr);
	rig_close();
	CHECK_EQ(weft_guard_remove(), 0);
	medium_guard_del(guard);
	munmap(map, 4096);
	close(fd);
}

WEFT_TEST_MAIN({"failed", test_failed}, {"revoked", test_revoked}, {"ended", test_ended},
               {"flush waits for its turn", test_flush_waits},
               {"flush at once", test_flush_at_once}, {"flush ended in line", test_flush_ended},
               {"empty read", test_empty_read})
