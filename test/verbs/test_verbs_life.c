/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The end of handles, and what remains: the memory of a destroyed handle, a context destroyed with
 * all its objects, a connection closed towards a peer that is gone. Work that belongs to another
 * thread is left to that thread.
 */

#include <errno.h>
#include <pthread.h>

#include "vt.h"

/* ---- Memory ---- */

/** Heap blocks of all threads, counted while `counting` is set; atomic. */
static bool counting;
static int blocks;
static const void *awaited; /* the block whose release is counted in `came` */
static unsigned int came;

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define COUNTS true
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t k, size_t n);
void *__libc_memalign(size_t align, size_t n);
void __libc_free(void *p);

static void *
counted(void *p)
{
	__atomic_fetch_add(&blocks, __atomic_load_n(&counting, __ATOMIC_RELAXED) && p != NULL,
	                   __ATOMIC_RELAXED);
	return p;
}

void *
malloc(size_t n)
{
	return counted(__libc_malloc(n));
}

void *
calloc(size_t k, size_t n)
{
	return counted(__libc_calloc(k, n));
}

void *
aligned_alloc(size_t align, size_t n)
{
	return counted(__libc_memalign(align, n));
}

int
posix_memalign(void **p, size_t align, size_t n)
{
	*p = counted(__libc_memalign(align, n));
	return *p != NULL ? 0 : ENOMEM;
}

void
free(void *p)
{
	__atomic_fetch_sub(&blocks, __atomic_load_n(&counting, __ATOMIC_RELAXED) && p != NULL,
	                   __ATOMIC_RELAXED);
	came += awaited != NULL && p == awaited;
	__libc_free(p);
}
#else
#define COUNTS false
#endif

#define ROUNDS 100 /* more than the number of destroyed handles kept of each kind */

/** A connection that is established and closed. All its events are polled. */
static void
one_life(struct vt *t)
{
	vt_connect(t, NULL, NULL);
	CHECK_EQ(weft_disconnect(t->n[0].qp), 0);
	for (unsigned int i = 0; i < 2; i++)
		vt_ev(&t->n[i], WEFT_EV_DISCONNECTED);
	for (unsigned int i = 0; i < 2; i++) {
		weft_qp_destroy(t->n[i].qp);
		t->n[i].qp = NULL;
	}
	vt_run(t, 200 * VT_S); /* includes TCP's TIME-WAIT */
}

struct ender {
	struct weft_qp *qp;
	struct weft_mr *mr;
};

static void *
ender(void *arg)
{
	struct ender *e = arg;
	uint8_t mem[64];
	struct weft_wr wr = {.opcode = WEFT_WR_FAST_REG,
	                     .fast_reg = {.mr = e->mr, .addr = mem, .len_bytes = sizeof(mem)}};

	CHECK_EQ(weft_post_send(e->qp, &wr, 1), 1);
	weft_qp_destroy(e->qp);
	return NULL;
}

/** Another thread posts a registration and destroys the QP before the worker has carried it out. */
static void
one_elsewhere(struct vt *t)
{
	struct ender e;
	pthread_t th;

	vt_connect(t, NULL, NULL);
	CHECK_EQ(weft_mr_alloc(t->n[0].pd, &e.mr), 0);
	e.qp = t->n[0].qp;
	t->n[0].qp = NULL;
	CHECK_EQ(pthread_create(&th, NULL, ender, &e), 0);
	CHECK_EQ(pthread_join(th, NULL), 0);
	vt_ev(&t->n[1], WEFT_EV_DISCONNECTED);
	weft_qp_destroy(t->n[1].qp);
	t->n[1].qp = NULL;
	CHECK_EQ(weft_mr_dereg(e.mr, NULL, NULL), 0);
	vt_run(t, 200 * VT_S);
}

static void
one_domain(struct vt *t)
{
	struct weft_srq_attr sa = {.size = sizeof(sa)};
	uint8_t mem[64];
	struct weft_mr_attr ma = {.size = sizeof(ma), .addr = mem, .len_bytes = sizeof(mem)};
	struct weft_srq *srq;
	struct weft_mw *mw;
	struct weft_pd *pd;
	struct weft_mr *mr;

	CHECK_EQ(weft_pd_alloc(t->n[0].ctx, &pd), 0);
	CHECK_EQ(weft_mr_reg(pd, &ma, &mr), 0);
	CHECK_EQ(weft_mw_alloc(pd, &mw), 0);
	CHECK_EQ(weft_srq_create(pd, &sa, &srq), 0);
	weft_mw_dealloc(mw);
	CHECK_EQ(weft_mr_dereg(mr, NULL, NULL), 0);
	CHECK_EQ(weft_srq_destroy(srq), 0);
	vt_run(t, VT_MS);
	CHECK_EQ(weft_pd_dealloc(pd), 0);
}

/** The memory of handles and events is used again: any number of rounds takes no more memory than a
 * hundred. */
static void
test_memory(void)
{
	static void (*const round[])(struct vt * t) = {one_life, one_domain, one_elsewhere};
	int after[2];
	struct vt t;

	if (!COUNTS)
		test_skip("the sanitizer has the heap, and looks for what is lost itself");
	vt_open(&t, NULL);
	vt_listen(&t.n[1]);
	for (unsigned int r = 0; r < RTE_DIM(round); r++) {
		__atomic_store_n(&counting, true, __ATOMIC_RELAXED);
		for (unsigned int k = 0; k < RTE_DIM(after); k++) {
			for (unsigned int i = 0; i < ROUNDS; i++)
				round[r](&t);
			after[k] = __atomic_load_n(&blocks, __ATOMIC_RELAXED);
		}
		__atomic_store_n(&counting, false, __ATOMIC_RELAXED);
		CHECK_MSG(after[1] == after[0], "%u: %d blocks, then %d", r, after[0], after[1]);
	}
	vt_close(&t);
}

/** A call with a destroyed handle is refused, because the handle's memory is not used again yet. */
static void
test_kept(void)
{
	struct weft_pd *pd;
	struct vt t;

	if (!COUNTS)
		test_skip("the sanitizer has the heap");
	vt_open(&t, NULL);
	CHECK_EQ(weft_pd_alloc(t.n[0].ctx, &pd), 0);
	came = 0;
	awaited = pd;
	CHECK_EQ(weft_pd_dealloc(pd), 0);
	vt_run(&t, VT_MS);
	CHECK_EQ(came, 0);
	CHECK_EQ(weft_pd_dealloc(pd), -EINVAL);
	for (unsigned int i = 0; i < ROUNDS; i++)
		one_domain(&t);
	CHECK_EQ(came, 1);
	awaited = NULL;
	vt_close(&t);
}

/* ---- A context ---- */

static unsigned int calls;

static void
on_event(void *user, const struct weft_event *ev)
{
	(void)user;
	(void)ev;
	calls++;
}

static void
on_wc(void *user, struct weft_cq *cq, const struct weft_wc *wc, unsigned int n)
{
	(void)user;
	(void)cq;
	(void)wc;
	calls += n;
}

/** The end of a context flushes more requests than the CQ holds. It calls no callback, as the
 * callback's data may be gone. */
static void
test_context(void)
{
	for (unsigned int by_callback = 0; by_callback < 2; by_callback++) {
		struct weft_ctx_attr ca = {.size = sizeof(ca)};
		struct weft_worker_attr wa = {.size = sizeof(wa), .lcore = -1};
		struct weft_cq_attr qa = {.size = sizeof(qa), .depth = 4};
		struct weft_evq_attr ea = {.size = sizeof(ea), .on_event = on_event};
		struct weft_qp_attr a = {.size = sizeof(a)};
		struct weft_tcp_attr ta = {0};
		struct weft_recv_wr rr[8] = {{0}};
		struct weft_rand rand;
		struct weft_ctx *ctx;
		struct weft_pd *pd;
		struct weft_qp *qp;
		struct vt t;

		vt_open(&t, NULL);
		rand = sim_rand(t.sim, 7);
		CHECK_EQ(weft_engine_ctx_create(&ca, &rand, NULL, &ctx), 0);
		CHECK_EQ(weft_engine_worker_create(ctx, &wa, &ta, &rand, sim_now_ns(t.sim),
		                                   &a.worker),
		         0);
		if (by_callback)
			qa.on_wc = on_wc;
		CHECK_EQ(weft_cq_create(ctx, &qa, &a.send_cq), 0);
		a.recv_cq = a.send_cq;
		CHECK_EQ(weft_evq_create(ctx, &ea, &a.evq), 0);
		CHECK_EQ(weft_pd_alloc(ctx, &pd), 0);
		CHECK_EQ(weft_qp_create(pd, &a, &qp), 0);
		weft_engine_poll_at(a.worker, sim_now_ns(t.sim));
		CHECK_EQ(weft_post_recv(qp, rr, RTE_DIM(rr)), RTE_DIM(rr));
		calls = 0;
		weft_ctx_destroy(ctx);
		CHECK_EQ(calls, 0);
		vt_close(&t);
	}
}

/* ---- A connection ---- */

/**
 * A disconnect waits for posted requests. The peer has received one and is gone. The wait ends
 * although the program asked for no keepalive.
 */
static void
test_peer_gone(void)
{
	static const struct sim_link_cfg no_answer = {.delay_ns = 20000,
	                                              .mtu_bytes = 200,
	                                              .mtu_silent = true},
	                                 down = {.delay_ns = 20000, .down = true};
	struct weft_sge sg;
	struct weft_wr wr;
	struct weft_wc wc;
	uint64_t start;
	struct vt t;

	vt_open(&t, NULL);
	vt_connect(&t, NULL, NULL);
	for (unsigned int i = 0; i < 2; i++)
		vt_mem(&t.n[i], 4096, WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_REMOTE_READ);
	/* The peer has sent a message, so no segment is sent as a probe from here on. */
	vt_post_recv(&t.n[0], t.n[0].mem, 8, 1);
	vt_post(&t.n[0], &(struct weft_wr){.opcode = WEFT_WR_WRITE});
	vt_run(&t, VT_MS);
	vt_post(&t.n[1], &(struct weft_wr){.opcode = WEFT_WR_SEND});
	CHECK_EQ(vt_wc(&t.n[0]).wr_id, 1);
	sg = (struct weft_sge){t.n[0].mem, 1000, weft_mr_stag(t.n[0].mr)};
	wr = (struct weft_wr){.opcode = WEFT_WR_READ,
	                      .wr_id = 7,
	                      .sg_list = &sg,
	                      .num_sge = 1,
	                      .rdma = {weft_mr_stag(t.n[1].mr), 0x200000000ULL}};
	sim_link_set(t.link, 1, &no_answer); /* the peer's acknowledgment passes */
	vt_post(&t.n[0], &wr);
	vt_run(&t, 2 * VT_S);
	for (unsigned int i = 0; i < 2; i++)
		sim_link_set(t.link, i, &down);
	start = sim_now_ns(t.sim);
	CHECK_EQ(weft_disconnect(t.n[0].qp), 0);
	CHECK_EQ(vt_ev(&t.n[0], WEFT_EV_DISCONNECTED).status, -ETIMEDOUT);
	CHECK(sim_now_ns(t.sim) - start < 30 * VT_S); /* TCP alone takes more than a minute */
	wc = vt_wc(&t.n[0]);
	CHECK(wc.wr_id == 7 && wc.status == WEFT_WC_FLUSHED);
	for (unsigned int i = 0; i < 2; i++)
		sim_link_set(t.link, i, &(struct sim_link_cfg){.delay_ns = 20000});
	vt_close(&t);
}

/* ---- Threads ---- */

struct answer {
	struct weft_connreq *r;
	struct weft_qp *qp;
	int rc;
};

static void *
answer(void *arg)
{
	struct answer *a = arg;

	a->rc = weft_accept(a->r, a->qp, NULL);
	return NULL;
}

/** A request is answered on another thread. Nothing is sent until the worker polls. */
static void
test_answered_elsewhere(void)
{
	struct sockaddr_in sa = vt_addr(1, VT_PORT);
	struct weft_qp_info info;
	struct weft_qp_attr qa;
	struct answer a;
	struct weft_event ev;
	pthread_t th;
	struct vt t;

	vt_open(&t, NULL);
	vt_listen(&t.n[1]);
	for (unsigned int i = 0; i < 2; i++) {
		qa = vt_qp_attr(&t.n[i]);
		CHECK_EQ(weft_qp_create(t.n[i].pd, &qa, &t.n[i].qp), 0);
	}
	CHECK_EQ(weft_connect(t.n[0].qp, (struct sockaddr *)&sa, sizeof(sa), NULL), 0);
	a.r = vt_ev(&t.n[1], WEFT_EV_CONNECT_REQUEST).connreq;
	a.qp = t.n[1].qp;
	CHECK_EQ(pthread_create(&th, NULL, answer, &a), 0);
	CHECK_EQ(pthread_join(th, NULL), 0);
	CHECK_EQ(a.rc, 0);
	CHECK_EQ(weft_evq_poll(t.n[1].evq, &ev), 0);
	weft_qp_query(t.n[1].qp, &info);
	CHECK_EQ(info.state, WEFT_QP_IDLE);
	for (unsigned int i = 0; i < 2; i++)
		vt_ev(&t.n[i], WEFT_EV_ESTABLISHED);
	vt_close(&t);
}

WEFT_TEST_MAIN({"memory comes back", test_memory}, {"memory of a handle is kept", test_kept},
               {"context with everything in it", test_context},
               {"closed, and the peer is gone", test_peer_gone},
               {"answered elsewhere", test_answered_elsewhere})
