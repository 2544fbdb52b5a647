/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Driver "sim": which octets reach its medium and which do not. */

#include <errno.h>

#include "weft_base.h"
#include "weft_persist_sim.h"
#include "weft_test.h"

#define LEN 8192

struct rig {
	struct weft_persist *p;
	struct weft_exec *exec;
	struct weft_persist_req req;
	unsigned int done;
};

static void
on_done(struct weft_persist_req *req)
{
	((struct rig *)req->owner)->done++;
}

static void
rig_open(struct rig *r)
{
	struct weft_persist_attr a = {
	        .size = sizeof(a), .driver = "sim", .bytes = LEN - 100, .numa_node = -1};

	memset(r, 0, sizeof(*r));
	CHECK_EQ(weft_persist_open(&a, &r->p), 0);
	CHECK_EQ(r->p->bytes, LEN);
	CHECK(r->p->ops->persistent);
	CHECK_EQ(weft_exec_create(0, &r->exec), 0);
}

static void
rig_close(struct rig *r)
{
	weft_exec_destroy(r->exec);
	weft_persist_close(r->p);
}

static void
rig_write(struct rig *r, uint64_t off, uint8_t v, uint64_t len)
{
	memset(r->p->base + off, v, len);
	weft_persist_mark(r->p, off, len);
}

static int
rig_start(struct rig *r, bool read, uint64_t off, uint64_t len)
{
	r->req = (struct weft_persist_req){.off_bytes = off,
	                                   .len_bytes = len,
	                                   .flags = WEFT_FLUSH_PERSISTENT,
	                                   .status = 1,
	                                   .done = on_done,
	                                   .owner = r};
	r->done = 0;
	return read ? r->p->ops->read_back(r->p, r->exec, &r->req)
	            : r->p->ops->flush(r->p, r->exec, &r->req);
}

/** Number of octets of the medium that equal v. */
static unsigned int
rig_count(struct rig *r, uint8_t v, uint64_t off, uint64_t len)
{
	unsigned int n = 0;

	for (uint64_t i = off; i < off + len; i++)
		n += weft_persist_sim_medium(r->p)[i] == v;
	return n;
}

static void
test_only_flushed(void)
{
	struct rig r;

	rig_open(&r);
	rig_write(&r, 0, 1, LEN);
	CHECK_EQ(rig_count(&r, 0, 0, LEN), LEN);
	CHECK_EQ(rig_start(&r, false, 100, 1000), 0);
	CHECK(r.done == 1 && r.req.status == 0);
	/* complete atoms and no octet beyond them */
	CHECK_EQ(rig_count(&r, 1, 0, LEN), 1104 - 96);
	CHECK_EQ(rig_count(&r, 1, 96, 1104 - 96), 1104 - 96);
	weft_persist_sim_step(r.p, 1000);
	CHECK_EQ(rig_count(&r, 1, 0, LEN), 1104 - 96);
	/* A Flush for visibility, and one of length 0, write nothing. */
	r.req.flags = WEFT_FLUSH_VISIBLE;
	r.req.off_bytes = 0;
	CHECK_EQ(r.p->ops->flush(r.p, r.exec, &r.req), 0);
	CHECK_EQ(rig_start(&r, false, 4096, 0), 0);
	CHECK_EQ(rig_count(&r, 1, 0, LEN), 1104 - 96);
	CHECK_EQ(rig_start(&r, false, 4096, LEN), -EINVAL);
	CHECK_EQ(rig_start(&r, false, UINT64_MAX, 2), -EINVAL);
	CHECK_EQ(rig_start(&r, true, 0, LEN), -EINVAL);
	CHECK_EQ(r.done, 0);
	CHECK_EQ(weft_persist_flush_wait(r.p, 0, LEN), 0);
	CHECK_EQ(rig_count(&r, 1, 0, LEN), LEN);
	rig_close(&r);
}

static void
test_unmarked(void)
{
	struct rig r;

	rig_open(&r);
	memset(r.p->base, 1, LEN);
	weft_persist_mark(r.p, 4096, 1);
	CHECK_EQ(rig_start(&r, false, 0, LEN), 0);
	CHECK_EQ(rig_count(&r, 1, 0, 4096), 0);
	CHECK_EQ(rig_count(&r, 1, 4096, 4096), 4096);
	/* The pages are clean now. */
	memset(r.p->base, 2, LEN);
	CHECK_EQ(rig_start(&r, false, 0, LEN), 0);
	CHECK_EQ(rig_count(&r, 2, 0, LEN), 0);
	rig_close(&r);
}

static void
test_leaks(void)
{
	struct weft_persist_sim_cfg cfg = {.leak_ppm = 100000, .seed = test_seed(7)};
	struct rig r;
	unsigned int n;

	rig_open(&r);
	weft_persist_sim_set(r.p, &cfg);
	rig_write(&r, 0, 1, LEN);
	weft_persist_sim_step(r.p, 1000);
	n = rig_count(&r, 1, 0, LEN);
	CHECK(n > 0 && n < LEN && n % 8 == 0);
	CHECK_EQ(weft_persist_sim_stats(r.p)->leaked_atoms, n / 8);
	for (unsigned int i = 0; i < LEN; i += 8)
		CHECK(rig_count(&r, 1, i, 8) % 8 == 0);
	for (unsigned int i = 0; i < 1000; i++)
		weft_persist_sim_step(r.p, 1000 + i);
	CHECK_EQ(rig_count(&r, 1, 0, LEN), LEN);
	rig_close(&r);
}

static void
test_delay(void)
{
	struct weft_persist_sim_cfg cfg = {.delay_min_ns = 500, .delay_max_ns = 500, .seed = 3};
	struct rig r;
	unsigned int n;

	rig_open(&r);
	weft_persist_sim_set(r.p, &cfg);
	weft_persist_sim_step(r.p, 1000);
	CHECK(weft_persist_sim_next_ns(r.p) == UINT64_MAX);
	rig_write(&r, 0, 1, 4096);
	CHECK_EQ(rig_start(&r, false, 0, LEN), 0);
	CHECK_EQ(weft_persist_sim_next_ns(r.p), 1500);
	/* A write after the submission may be included in the flush or not. */
	rig_write(&r, 2048, 2, 2048);
	rig_write(&r, 4096, 3, 4096);
	weft_persist_sim_step(r.p, 1200);
	n = rig_count(&r, 1, 0, 4096);
	CHECK_MSG(n > 0 && n < 4096, "%u octets of a Flush under way", n);
	CHECK_EQ(weft_exec_poll(r.exec), 0);
	weft_persist_sim_step(r.p, 1500);
	CHECK(r.done == 0 && weft_exec_poll(r.exec) == 1 && r.done == 1 && r.req.status == 0);
	CHECK_EQ(rig_count(&r, 1, 0, 2048), 2048);
	n = rig_count(&r, 1, 2048, 2048);
	CHECK(n > 0 && n < 2048);
	CHECK_EQ(rig_count(&r, 2, 2048, 2048), 2048 - n);
	CHECK_EQ(rig_count(&r, 3, 0, LEN), 0);
	/* A second flush includes the rest, because the page was marked dirty again. */
	CHECK_EQ(rig_start(&r, false, 0, LEN), 0);
	weft_persist_sim_step(r.p, 2000);
	weft_exec_poll(r.exec);
	CHECK_EQ(rig_count(&r, 2, 2048, 2048), 2048);
	CHECK_EQ(rig_count(&r, 3, 4096, 4096), 4096);
	rig_close(&r);
}

static void
test_cut(void)
{
	struct weft_persist_sim_cfg cfg = {.delay_min_ns = 500, .leak_ppm = 500000};
	struct rig r;

	rig_open(&r);
	weft_persist_sim_set(r.p, &cfg);
	rig_write(&r, 0, 1, LEN);
	CHECK_EQ(rig_start(&r, false, 0, 4096), 0);
	weft_persist_sim_cut(r.p);
	uint8_t left[LEN];
	memcpy(left, weft_persist_sim_medium(r.p), LEN);
	weft_persist_sim_step(r.p, 10);
	CHECK_EQ(weft_exec_poll(r.exec), 1);
	CHECK_EQ(r.req.status, -EIO);
	CHECK_MEM(weft_persist_sim_medium(r.p), left, LEN);
	/* Octets of memory that were not on the medium are lost. */
	weft_persist_sim_boot(r.p);
	CHECK_MEM(r.p->base, left, LEN);
	CHECK_EQ(weft_persist_sim_stats(r.p)->boots, 1);
	cfg = (struct weft_persist_sim_cfg){0};
	weft_persist_sim_set(r.p, &cfg);
	rig_write(&r, 0, 5, 8);
	CHECK_EQ(rig_start(&r, false, 0, LEN), 0);
	CHECK_EQ(rig_count(&r, 5, 0, 8), 8);
	CHECK_MEM(weft_persist_sim_medium(r.p) + 8, left + 8, LEN - 8);
	rig_close(&r);
}

static void
test_read_back(void)
{
	struct rig r;

	rig_open(&r);
	rig_write(&r, 0, 1, LEN);
	CHECK_EQ(rig_start(&r, true, 8, 64), 0);
	CHECK(r.done == 1 && r.req.status == 0 && r.req.data != r.p->base + 8);
	for (unsigned int i = 0; i < 64; i++)
		CHECK_EQ(r.req.data[i], 0);
	r.p->ops->release(r.p, &r.req);
	CHECK_EQ(rig_start(&r, false, 0, LEN), 0);
	/* A bit of the medium changes. A Flush of clean memory does not repair it. */
	weft_persist_sim_flip(r.p, 8 * 8 + 9);
	CHECK_EQ(rig_start(&r, false, 0, LEN), 0);
	CHECK_EQ(rig_start(&r, true, 8, 64), 0);
	CHECK(r.req.data[0] == 1 && r.req.data[1] == 3 && r.req.data[2] == 1);
	r.p->ops->release(r.p, &r.req);
	CHECK_EQ(weft_persist_sim_stats(r.p)->read_backs, 2);
	rig_close(&r);
}

static void
test_faults(void)
{
	struct weft_persist_sim_cfg busy = {.busy_ppm = 1000000};
	struct rig r;
	unsigned int n;

	rig_open(&r);
	rig_write(&r, 0, 1, LEN);
	weft_persist_sim_fault(r.p, WEFT_SIM_FLUSH_ERR, 100, 50, 1);
	CHECK(rig_start(&r, false, 150, 100) == 0 && r.req.status == 0); /* beside the range */
	CHECK(rig_start(&r, false, 100, 8) == 0 && r.req.status == 0);   /* spared by the fault */
	CHECK(rig_start(&r, false, 0, LEN) == 0 && r.req.status == -EIO);
	n = rig_count(&r, 1, 0, LEN);
	CHECK(n > 300 && n < LEN);
	CHECK(rig_start(&r, false, 0, LEN) == 0 && r.req.status == 0);
	CHECK_EQ(rig_count(&r, 1, 0, LEN), LEN); /* its pages stayed dirty */
	weft_persist_sim_fault(r.p, WEFT_SIM_READ_ERR, 0, LEN, 0);
	CHECK(rig_start(&r, true, 0, 8) == 0 && r.req.status == -EIO && r.req.data == NULL);
	r.p->ops->release(r.p, &r.req);
	weft_persist_sim_fault(r.p, WEFT_SIM_FLIP, 16, 8, 0);
	CHECK(rig_start(&r, false, 0, LEN) == 0 && r.req.status == 0);
	CHECK_EQ(rig_count(&r, 1, 0, LEN), LEN - 1);
	CHECK_EQ(rig_count(&r, 1, 16, 8), 7);
	CHECK_EQ(weft_persist_sim_stats(r.p)->faults, 3);
	weft_persist_sim_set(r.p, &busy);
	CHECK_EQ(rig_start(&r, false, 0, 8), -EAGAIN);
	CHECK_EQ(rig_start(&r, true, 0, 8), -EAGAIN);
	CHECK(r.done == 0 && weft_persist_sim_stats(r.p)->busy == 2);
	rig_close(&r);
}

WEFT_TEST_MAIN({"only what was flushed", test_only_flushed}, {"unmarked pages", test_unmarked},
               {"leaks", test_leaks}, {"delay", test_delay}, {"cut", test_cut},
               {"read-back", test_read_back}, {"faults", test_faults})
