/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The host's side of the fence: a writer with operations under way, and the next writer. */

#include "vt.h"
#include "weft_persist_sim.h"

#define REGION 65536
#define SLOW   (200 * VT_MS)

static struct rig {
	struct vt t;
	struct weft_persist *p;
	struct weft_log_host *host;
	/* the last grant */
	struct weft_log_grant g;
	unsigned int granted, canceled, failed, early, freed;
	uint8_t data[64];
} r;

/** The error that every registration returns; 0: register normally. */
static int reg_fails;

int __real_weft_mr_reg(struct weft_pd *pd, const struct weft_mr_attr *attr, struct weft_mr **out);
int __wrap_weft_mr_reg(struct weft_pd *pd, const struct weft_mr_attr *attr, struct weft_mr **out);

int
__wrap_weft_mr_reg(struct weft_pd *pd, const struct weft_mr_attr *attr, struct weft_mr **out)
{
	return reg_fails != 0 ? reg_fails : __real_weft_mr_reg(pd, attr, out);
}

static void
rig_poll(void *arg, uint64_t now_ns)
{
	(void)arg;
	weft_persist_sim_step(r.p, now_ns);
}

static uint64_t
rig_next(void *arg)
{
	(void)arg;
	return weft_persist_sim_next_ns(r.p);
}

/** Whether the medium is still busy with an operation. */
static bool
under_way(void)
{
	return weft_persist_sim_next_ns(r.p) != UINT64_MAX;
}

static void
slow(bool on)
{
	struct weft_persist_sim_cfg cfg = {.seed = 1};

	if (on)
		cfg.delay_min_ns = cfg.delay_max_ns = SLOW;
	weft_persist_sim_set(r.p, &cfg);
}

static struct weft_mr_attr
memory(void)
{
	return (struct weft_mr_attr){.size = sizeof(struct weft_mr_attr),
	                             .addr = r.p->base,
	                             .len_bytes = REGION,
	                             .base_to = 0x4000000,
	                             .access = WEFT_ACCESS_REMOTE_READ | WEFT_ACCESS_REMOTE_WRITE |
	                                       WEFT_ACCESS_FLUSH_PERSISTENT,
	                             .persist = r.p};
}

static void
rig_open(void)
{
	struct weft_persist_attr pa = {
	        .size = sizeof(pa), .driver = "sim", .bytes = REGION, .numa_node = -1};
	struct sim_node sn = {.poll = rig_poll, .next = rig_next};
	struct weft_mr_attr ma;

	memset(&r, 0, sizeof(r));
	vt_open(&r.t, NULL);
	CHECK_EQ(weft_persist_open(&pa, &r.p), 0);
	sim_add_node(r.t.sim, &sn);
	ma = memory();
	CHECK_EQ(weft_log_host_create(r.t.n[1].pd, &ma, &r.host), 0);
	slow(false);
	vt_connect(&r.t, NULL, NULL);
	memset(r.data, 0xda, sizeof(r.data));
}

static void
count(void *arg)
{
	(void)arg;
	r.freed++;
	r.early += under_way();
}

static void
rig_close(void)
{
	if (r.host != NULL)
		weft_log_host_destroy(r.host, count, NULL);
	slow(false);
	vt_close(&r.t);
	CHECK_EQ(r.freed, 1);
	CHECK_EQ(r.early, 0);
	weft_persist_close(r.p);
}

static void
granted(void *arg, const struct weft_log_grant *g, int status)
{
	CHECK(arg == &r);
	if (status != 0) {
		CHECK(g == NULL && (status == -ECANCELED || status == reg_fails));
		r.canceled += status == -ECANCELED;
		r.failed += status == reg_fails;
		return;
	}
	CHECK(g->stag != r.g.stag && g->to == 0x4000000 && g->len_bytes == REGION);
	r.g = *g;
	r.granted++;
	r.early += under_way();
}

static int
grant(bool take_over)
{
	return weft_log_host_grant(r.host, take_over, granted, &r);
}

static enum weft_log_host_state
state(void)
{
	struct weft_log_host_info info;

	weft_log_host_query(r.host, &info);
	CHECK((info.stag != 0) == (info.state == WEFT_LOG_HOST_GRANTED));
	return info.state;
}

static bool
is_granted(void *arg)
{
	return r.granted == *(const unsigned int *)arg;
}

static bool
is_busy(void *arg)
{
	(void)arg;
	return under_way();
}

/** Post the writer's operations of an append at once. The last two are queued after a slow
 * Flush. */
static void
append(uint32_t stag)
{
	struct weft_sge sg = {.addr = r.data, .len_bytes = sizeof(r.data)};
	struct weft_wr wr[] = {
	        {.opcode = WEFT_WR_WRITE, .sg_list = &sg, .num_sge = 1, .rdma = {stag, 0x4000000}},
	        {.opcode = WEFT_WR_FLUSH,
	         .flush = {.stag = stag,
	                   .to = 0x4000000,
	                   .len_bytes = sizeof(r.data),
	                   .flags = WEFT_FLUSH_PERSISTENT}},
	        {.opcode = WEFT_WR_ATOMIC_WRITE,
	         .atomic_write = {.stag = stag, .to = 0x4000000 + 4096, .data = "tail"}},
	        {.opcode = WEFT_WR_FLUSH,
	         .flags = WEFT_WR_SIGNALED,
	         .flush = {.stag = stag,
	                   .to = 0x4000000 + 4096,
	                   .len_bytes = 8,
	                   .flags = WEFT_FLUSH_PERSISTENT}},
	};

	CHECK_EQ(weft_post_send(r.t.n[0].qp, wr, 4), 4);
}

/** Fill the memory with a pattern of the next writer. */
static void
mark_as_new(void)
{
	memset(r.p->base, 0x77, REGION);
}

static void
check_untouched(void)
{
	const uint8_t *b = r.p->base;

	for (unsigned int i = 0; i < REGION; i++)
		CHECK_MSG(b[i] == 0x77, "octet %u", i);
}

static void
test_take_over(void)
{
	struct weft_log_host_info info;
	struct weft_log_grant old;
	unsigned int two = 2;

	rig_open();
	CHECK_EQ(grant(false), 0);
	CHECK_EQ(r.granted, 1);
	old = r.g;
	slow(true);
	append(old.stag);
	CHECK(vt_until(&r.t, VT_S, is_busy, NULL));
	CHECK_EQ(grant(true), 0);
	CHECK_EQ(state(), WEFT_LOG_HOST_ENDING);
	/* The grant is not given while the old writer's Flush is under way, neither at once nor
	 * later. */
	CHECK(vt_until(&r.t, VT_S, is_granted, &two));
	CHECK_EQ(r.early, 0);
	CHECK(r.g.stag != old.stag);
	/* The old writer's queued operations are dropped, and later ones fail. */
	mark_as_new();
	append(old.stag);
	CHECK(vt_wc(&r.t.n[0]).status != WEFT_WC_SUCCESS);
	vt_run(&r.t, VT_S);
	check_untouched();
	weft_log_host_query(r.host, &info);
	CHECK(info.state == WEFT_LOG_HOST_GRANTED && info.stag == r.g.stag && !info.waiting);
	CHECK(info.grants == 2 && info.taken_over == 1 && info.refused == 0);
	rig_close();
}

/* The connection ends while its Flush is under way. */
static void
test_gone(void)
{
	unsigned int two = 2;

	rig_open();
	CHECK_EQ(grant(false), 0);
	slow(true);
	append(r.g.stag);
	CHECK(vt_until(&r.t, VT_S, is_busy, NULL));
	weft_qp_destroy(r.t.n[1].qp);
	r.t.n[1].qp = NULL;
	CHECK_EQ(weft_log_host_end(r.host, r.g.stag), 0);
	CHECK_EQ(weft_log_host_end(r.host, r.g.stag), -ENOENT);
	CHECK_EQ(state(), WEFT_LOG_HOST_ENDING);
	/* There is no holder, so none has to be revoked. The grant still waits for the Flush. */
	CHECK_EQ(grant(false), 0);
	CHECK_EQ(r.granted, 1);
	CHECK(vt_until(&r.t, VT_S, is_granted, &two));
	CHECK_EQ(r.early, 0);
	mark_as_new();
	vt_run(&r.t, VT_S);
	check_untouched();
	rig_close();
}

static void
test_late(void)
{
	struct weft_sge sg = {.addr = r.data, .len_bytes = sizeof(r.data)};
	struct weft_wr wr = {.opcode = WEFT_WR_WRITE, .sg_list = &sg, .num_sge = 1};
	unsigned int two = 2;

	rig_open();
	CHECK_EQ(grant(false), 0);
	wr.rdma.stag = r.g.stag;
	wr.rdma.to = r.g.to;
	CHECK_EQ(grant(true), 0);
	CHECK(vt_until(&r.t, VT_S, is_granted, &two));
	mark_as_new();
	vt_post(&r.t.n[0], &wr);
	vt_ev(&r.t.n[0], WEFT_EV_TERMINATED);
	check_untouched();
	rig_close();
}

static void
test_one_at_a_time(void)
{
	struct weft_log_host_info info;
	unsigned int two = 2, three = 3;
	uint32_t first;

	rig_open();
	CHECK_EQ(state(), WEFT_LOG_HOST_FREE);
	CHECK_EQ(weft_log_host_end(r.host, 0), -ENOENT);
	CHECK_EQ(grant(false), 0);
	CHECK_EQ(state(), WEFT_LOG_HOST_GRANTED);
	first = r.g.stag;
	CHECK_EQ(grant(false), -EBUSY);
	CHECK_EQ(weft_log_host_end(r.host, first + 1), -ENOENT);
	CHECK_EQ(state(), WEFT_LOG_HOST_GRANTED);
	/* Two writers ask: the later one gets the memory. A third one does not replace a waiting
	 * one. */
	CHECK_EQ(grant(true), 0);
	CHECK_EQ(r.canceled, 0);
	CHECK_EQ(grant(true), 0);
	CHECK_EQ(r.canceled, 1);
	CHECK_EQ(grant(false), -EBUSY);
	weft_log_host_query(r.host, &info);
	CHECK(info.waiting && info.refused == 2 && info.taken_over == 1);
	CHECK(vt_until(&r.t, VT_S, is_granted, &two));
	vt_run(&r.t, VT_S);
	CHECK_EQ(r.granted, 2);
	/* The former holder cannot end a grant that is not its own. */
	CHECK_EQ(weft_log_host_end(r.host, first), -ENOENT);
	CHECK_EQ(weft_log_host_end(r.host, r.g.stag), 0);
	vt_run(&r.t, VT_S);
	CHECK_EQ(state(), WEFT_LOG_HOST_FREE);
	CHECK_EQ(grant(false), 0);
	CHECK(is_granted(&three));
	rig_close();
}

static void
test_destroyed(void)
{
	/* no grant was ever given */
	rig_open();
	weft_log_host_destroy(r.host, count, NULL);
	r.host = NULL;
	CHECK_EQ(r.freed, 1);
	rig_close();
	/* A Flush is under way, and another writer waits for the memory. */
	for (unsigned int waits = 0; waits < 2; waits++) {
		rig_open();
		CHECK_EQ(grant(false), 0);
		slow(true);
		append(r.g.stag);
		CHECK(vt_until(&r.t, VT_S, is_busy, NULL));
		if (waits)
			CHECK_EQ(grant(true), 0);
		weft_log_host_destroy(r.host, count, NULL);
		r.host = NULL;
		CHECK_EQ(r.canceled, waits);
		CHECK_EQ(r.freed, 0);
		vt_run(&r.t, VT_S);
		CHECK_EQ(r.freed, 1);
		CHECK_EQ(r.granted, 1);
		rig_close();
	}
}

/* An error of the registration is returned, and no grant is given. */
static void
test_refused(void)
{
	struct weft_mr_attr ma;

	rig_open();
	weft_log_host_destroy(r.host, NULL, NULL);
	ma = memory();
	ma.len_bytes = 2 * REGION;
	CHECK_EQ(weft_log_host_create(r.t.n[1].pd, &ma, &r.host), 0);
	CHECK_EQ(grant(false), -ERANGE);
	CHECK_EQ(state(), WEFT_LOG_HOST_FREE);
	CHECK_EQ(r.granted + r.canceled, 0);
	rig_close();
}

/* The registration of the next grant fails: the waiting writer gets the error and may ask again. */
static void
test_no_memory(void)
{
	struct weft_log_host_info info;

	rig_open();
	CHECK_EQ(grant(false), 0);
	CHECK_EQ(grant(true), 0);
	reg_fails = -ENOMEM;
	vt_run(&r.t, VT_S);
	CHECK_EQ(r.failed, 1);
	CHECK_EQ(r.granted, 1);
	weft_log_host_query(r.host, &info);
	CHECK(info.state == WEFT_LOG_HOST_FREE && !info.waiting && info.grants == 1);
	CHECK_EQ(grant(false), -ENOMEM);
	CHECK_EQ(r.failed, 1);
	reg_fails = 0;
	CHECK_EQ(grant(false), 0);
	CHECK_EQ(r.granted, 2);
	rig_close();
}

/** End the grant inside the callback. */
static void
give_back(void *arg, const struct weft_log_grant *g, int status)
{
	CHECK_EQ(status, 0);
	CHECK_EQ(weft_log_host_end(r.host, g->stag), 0);
	if (arg != NULL) {
		weft_log_host_destroy(r.host, count, NULL);
		r.host = NULL;
	}
	r.granted++;
}

/* granted() may end its grant, or destroy the host: during the call that asked, and on the
 * worker. */
static void
test_from_granted(void)
{
	for (unsigned int destroys = 0; destroys < 2; destroys++) {
		for (unsigned int waits = 0; waits < 2; waits++) {
			rig_open();
			if (waits)
				CHECK_EQ(grant(false), 0);
			CHECK_EQ(weft_log_host_grant(r.host, true, give_back, destroys ? &r : NULL),
			         0);
			vt_run(&r.t, VT_S);
			CHECK_EQ(r.granted, 1 + waits);
			CHECK_EQ(r.freed, destroys);
			rig_close();
		}
	}
}

WEFT_TEST_MAIN({"a take-over waits for what is under way", test_take_over},
               {"a connection that went leaves a Flush", test_gone},
               {"a late Write is refused", test_late}, {"one writer at a time", test_one_at_a_time},
               {"a host is destroyed", test_destroyed},
               {"a memory that cannot be registered", test_refused},
               {"the next grant cannot be registered", test_no_memory},
               {"ended from granted()", test_from_granted})
