/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Misuse of contexts, ports, workers, captures and telemetry. */

#include <weft/room.h>
#include "misuse.h"
#include <weft/capture.h>
#include <weft/shared_port.h>
#include <weft/telemetry.h>

static void *untouched = &untouched;
#define OUT(type) ((struct type **)(void *)&untouched)

static void
nothing(void *arg)
{
	(void)arg;
}

/* ---- Environment ---- */

static void
test_weft_env_init(void)
{
	const char *const twice[] = {"0000:3b:00.0", "net_null0", "3B:00.0,x=1", NULL};
	struct weft_env_attr ea = {.size = sizeof(ea), .devices = twice};
	const char *msg = NULL;

	CHECK_EQ(weft_env_init(&ea, &msg), -EINVAL);
	CHECK_STR(msg, "0000:3b:00.0: the program names it twice");
	ea.devices = NULL;
	test_eal_init();
	BAD_ATTR(weft_env_attr, ea, weft_env_init(a, NULL));
	CHECK_EQ(weft_env_init(NULL, NULL), -EALREADY);
}

static void
test_weft_log_levels(void)
{
	test_eal_init();
	CHECK_EQ(weft_log_levels(NULL), -EINVAL);
	CHECK_EQ(weft_log_levels("weft"), -EINVAL);
}

static char heard[64];
static int heard_at;

static void
hear(int priority, const char *line)
{
	snprintf(heard, sizeof(heard), "%s", line);
	heard_at = priority;
}

static void
test_weft_log_to(void)
{
	test_eal_init();
	CHECK_EQ(weft_log_to(NULL), 0); /* as before, although nothing was asked for */
	CHECK_EQ(weft_log_to(hear), 0);
	weft_ulp_error("name", "one\ntwo %d", 2);
	CHECK_STR(heard, "two 2"); /* a newline ends a line */
	CHECK_EQ(heard_at, 3);
	weft_ulp_error("name", "%01100d", 1);
	CHECK_EQ(strlen(heard), sizeof(heard) - 1);
	CHECK_EQ(weft_log_to(NULL), 0);
	weft_ulp_error("name", "to standard error");
	CHECK(strstr(heard, "standard") == NULL);
}

/* ---- Contexts ---- */

static void
test_weft_ctx_create(void)
{
	struct weft_ctx_attr ca = {.size = sizeof(ca)};
	struct weft_tcp_attr tcp = {.size = sizeof(tcp)};
	struct weft_mpa_policy mpa = {.size = sizeof(mpa)};

	test_eal_init();
	CHECK_EQ(weft_ctx_create(NULL, NULL), -EINVAL);
	BAD_ATTR(weft_ctx_attr, ca, weft_ctx_create(a, OUT(weft_ctx)));
	BAD_ATTR(weft_tcp_attr, tcp, (ca.tcp = a, weft_ctx_create(&ca, OUT(weft_ctx))));
	ca.tcp = NULL;
	BAD_ATTR(weft_mpa_policy, mpa, (ca.mpa = a, weft_ctx_create(&ca, OUT(weft_ctx))));
}

MISUSE(weft_ctx_destroy)
{
	struct weft_ctx *h;

	EACH_BAD(m, h, CTX)
	weft_ctx_destroy(h);
	CHECK_EQ(weft_pd_dealloc(m->pd), -EBUSY); /* the live context still works */
	CHECK_EQ(weft_ctx_create(NULL, &h), 0);
	weft_ctx_destroy(h);
	weft_ctx_destroy(h);
}

/** Objects destroyed with their context are recognised as destroyed. */
static void
test_everything_at_once(void)
{
	struct weft_cq_attr ca = {.size = sizeof(ca), .depth = 8};
	struct weft_evq_attr ea = {.size = sizeof(ea)};
	struct weft_srq_attr sa = {.size = sizeof(sa)};
	uint8_t mem[8];
	struct weft_mr_attr ma = {.size = sizeof(ma), .addr = mem, .len_bytes = sizeof(mem)};
	struct weft_qp_attr qa = {.size = sizeof(qa)};
	struct weft_wr wr = {.opcode = WEFT_WR_SEND};
	struct weft_recv_wr rwr = {0};
	struct weft_alarm *al;
	struct weft_worker *w;
	struct weft_ctx *ctx;
	struct weft_srq *srq;
	struct weft_evq *evq;
	struct weft_event ev;
	struct weft_pd *pd;
	struct weft_mr *mr;
	struct weft_mw *mw;
	struct weft_cq *cq;
	struct weft_qp *qp;
	struct weft_wc wc;

	test_eal_init();
	CHECK_EQ(weft_ctx_create(NULL, &ctx), 0);
	CHECK_EQ(weft_worker_create(ctx, NULL, &w), 0);
	CHECK_EQ(weft_worker_poll(w) < 0, false);
	CHECK_EQ(weft_pd_alloc(ctx, &pd), 0);
	CHECK_EQ(weft_cq_create(ctx, &ca, &cq), 0);
	CHECK_EQ(weft_evq_create(ctx, &ea, &evq), 0);
	CHECK_EQ(weft_srq_create(pd, &sa, &srq), 0);
	CHECK_EQ(weft_mr_reg(pd, &ma, &mr), 0);
	CHECK_EQ(weft_mw_alloc(pd, &mw), 0);
	CHECK_EQ(weft_alarm_set(w, 1000000, nothing, NULL, &al), 0);
	qa.worker = w;
	qa.send_cq = qa.recv_cq = cq;
	qa.evq = evq;
	qa.srq = srq;
	CHECK_EQ(weft_qp_create(pd, &qa, &qp), 0);
	weft_ctx_destroy(ctx);
	CHECK_EQ(weft_worker_poll(w), -EINVAL);
	CHECK_EQ(weft_worker_call(w, nothing, NULL), -EINVAL);
	CHECK_EQ(weft_pd_dealloc(pd), -EINVAL);
	CHECK_EQ(weft_cq_poll(cq, &wc, 1), -EINVAL);
	CHECK_EQ(weft_cq_destroy(cq), -EINVAL);
	CHECK_EQ(weft_evq_poll(evq, &ev), -EINVAL);
	CHECK_EQ(weft_evq_destroy(evq), -EINVAL);
	CHECK_EQ(weft_post_srq_recv(srq, &rwr, 1), -EINVAL);
	CHECK_EQ(weft_srq_destroy(srq), -EINVAL);
	CHECK_EQ(weft_mr_stag(mr), 0);
	CHECK_EQ(weft_mr_dereg(mr, NULL, NULL), -EINVAL);
	CHECK_EQ(weft_mw_stag(mw), 0);
	weft_mw_dealloc(mw);
	CHECK_EQ(weft_post_send(qp, &wr, 1), -EINVAL);
	CHECK_EQ(weft_post_recv(qp, &rwr, 1), -EINVAL);
	weft_qp_destroy(qp);
	weft_alarm_cancel(al);
	weft_ctx_destroy(ctx);
}

/* ---- Ports ---- */

/** A live port with its context, and a port destroyed with another context. */
static void
ports_open(struct misuse *m, struct weft_port **live, struct weft_ctx **ctx)
{
	struct weft_port_attr pa = {.size = sizeof(pa), .name = "p", .prefix_len = 24};
	struct weft_port *p;

	((struct sockaddr_in *)&pa.addr)->sin_family = AF_INET;
	((struct sockaddr_in *)&pa.addr)->sin_addr.s_addr = htonl(0x0a000001);
	for (unsigned int i = 0; i < 2; i++) {
		static unsigned int serial;
		char dev[32];

		snprintf(dev, sizeof(dev), "net_null%u", 20 + serial++);
		pa.dev = dev;
		CHECK_EQ(weft_ctx_create(NULL, ctx), 0);
		CHECK_EQ(weft_port_open(*ctx, &pa, &p), 0);
		if (i == 0) {
			weft_ctx_destroy(*ctx);
			m->dead[MISUSE_PORT] = p;
		}
	}
	m->live[MISUSE_PORT] = *live = p;
}

/** A case with a port and its context. */
#define MISUSE_PORT(call)                                                                          \
	static void port_##call(struct misuse *m, struct weft_port *live, struct weft_ctx *own);   \
	MISUSE(call)                                                                               \
	{                                                                                          \
		struct weft_port *live;                                                            \
		struct weft_ctx *own;                                                              \
		ports_open(m, &live, &own);                                                        \
		port_##call(m, live, own);                                                         \
		weft_ctx_destroy(own);                                                             \
	}                                                                                          \
	static void port_##call(struct misuse *m, struct weft_port *live,                          \
	                        struct weft_ctx *own __rte_unused)

MISUSE(weft_port_open)
{
	static const char *const devs[] = {"",
	                                   "net_null19,size",
	                                   "net_memif19,role",
	                                   "net_memif19,role=server,socket",
	                                   "net_af_packet19,iface",
	                                   "net_ring19,nodeaction",
	                                   "net_ring19,internal=0x10"};
	struct weft_port_attr pa = {
	        .size = sizeof(pa), .name = "p", .dev = "net_null19", .prefix_len = 24};
	struct weft_ctx *h;

	((struct sockaddr_in *)&pa.addr)->sin_family = AF_INET;
	((struct sockaddr_in *)&pa.addr)->sin_addr.s_addr = htonl(0x0a000001);
	for (unsigned int i = 0; i < RTE_DIM(devs); i++)
		for (pa.check = 0; pa.check < 2; pa.check++) {
			int rc;

			pa.dev = devs[i];
			rc = weft_port_open(m->ctx, &pa, OUT(weft_port));
			CHECK_MSG(rc == -EINVAL || (pa.check && *devs[i] == '\0'), "'%s': %d",
			          devs[i], rc);
		}
	pa.dev = "net_null19";
	pa.check = 0;
	pa.no_offloads = (uint64_t)WEFT_OFFLOAD_ALL + 1;
	CHECK_EQ(weft_port_open(m->ctx, &pa, OUT(weft_port)), -EINVAL);
	pa.no_offloads = 0;
	pa.selftest = 2;
	CHECK_EQ(weft_port_open(m->ctx, &pa, OUT(weft_port)), -EINVAL);
	pa.selftest = 0;
	pa.shared = 2;
	CHECK_EQ(weft_port_open(m->ctx, &pa, OUT(weft_port)), -EINVAL);
	pa.shared = 1;
	pa.queues = 2;
	CHECK_EQ(weft_port_open(m->ctx, &pa, OUT(weft_port)), -EINVAL);
	pa.shared = pa.queues = 0;
	EACH_BAD(m, h, CTX)
	CHECK_EQ(weft_port_open(h, &pa, OUT(weft_port)), -EINVAL);
	CHECK_EQ(weft_port_open(m->ctx, NULL, OUT(weft_port)), -EINVAL);
	CHECK_EQ(weft_port_open(m->ctx, &pa, NULL), -EINVAL);
	BAD_ATTR(weft_port_attr, pa, weft_port_open(m->ctx, a, OUT(weft_port)));
	pa.dscp = 64;
	CHECK_EQ(weft_port_open(m->ctx, &pa, OUT(weft_port)), -EINVAL);
	pa.dscp = 0;
	pa.dev = NULL;
	CHECK_EQ(weft_port_open(m->ctx, &pa, OUT(weft_port)), -EINVAL);
}

MISUSE_PORT(weft_port_stats)
{
	struct weft_port *h;
	struct weft_port_stats st;

	EACH_BAD(m, h, PORT)
	CHECK_EQ(weft_port_stats(h, &st), -EINVAL);
	CHECK_EQ(weft_port_stats(live, NULL), -EINVAL);
	CHECK_EQ(weft_port_stats(live, &st), 0);
}

MISUSE_PORT(weft_port_removed)
{
	struct weft_port *h;

	EACH_BAD(m, h, PORT)
	CHECK(!weft_port_removed(h));
	CHECK(!weft_port_removed(live));
}

MISUSE_PORT(weft_port_name)
{
	struct weft_port *h;

	EACH_BAD(m, h, PORT)
	CHECK(weft_port_name(h) == NULL);
	CHECK_STR(weft_port_name(live), "p");
}

MISUSE_PORT(weft_port_network)
{
	struct weft_network_info info;
	struct weft_port *h;

	EACH_BAD(m, h, PORT)
	CHECK_EQ(weft_port_network(h, 0, &info), -EINVAL);
	CHECK_EQ(weft_port_network(live, 0, NULL), -EINVAL);
	CHECK_EQ(weft_port_network(live, 1000, &info), -ENOENT);
}

/** A shared port of `own` with a worker. */
static struct weft_port *
shared_port(struct weft_ctx *own, struct weft_worker **w)
{
	struct weft_port_attr pa = {.size = sizeof(pa),
	                            .name = "shared",
	                            .dev = "net_null21",
	                            .mbufs = 2048,
	                            .shared = 1,
	                            .prefix_len = 24};
	struct sockaddr_in *in = (struct sockaddr_in *)(void *)&pa.addr;
	struct weft_port *port;

	*in = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x0a000001)};
	CHECK_EQ(weft_port_open(own, &pa, &port), 0);
	CHECK_EQ(weft_port_tcp_add(port, 7, 7, false), -ENOENT);
	CHECK_EQ(weft_worker_create(own, NULL, w), 0);
	CHECK_EQ(weft_worker_add_port(*w, port), 0);
	return port;
}

static void
tcp_elsewhere(void *arg)
{
	CHECK_EQ(weft_port_tcp_add(arg, 8, 8, false), -EPERM);
	CHECK_EQ(weft_port_tcp_drop(arg, 7), -EPERM);
}

MISUSE_PORT(weft_port_tcp_add)
{
	struct weft_port *h, *port;
	struct weft_worker *w;

	EACH_BAD(m, h, PORT)
	CHECK_EQ(weft_port_tcp_add(h, 1, 2, false), -EINVAL);
	CHECK_EQ(weft_port_tcp_add(live, 1, 2, false), -EINVAL); /* not shared */
	port = shared_port(own, &w);
	CHECK_EQ(weft_port_tcp_add(port, 0, 2, false), -EINVAL);
	CHECK_EQ(weft_port_tcp_add(port, 3, 2, false), -EINVAL);
	CHECK_EQ(weft_port_tcp_add(port, 50000, 50127, true), 0);
	CHECK_EQ(weft_port_tcp_add(port, 50127, 50128, true), -EINVAL);
	CHECK_EQ(weft_port_tcp_add(port, 50127, 50128, false), 0);
	for (uint16_t i = 1; i < 64; i++)
		CHECK_EQ(weft_port_tcp_add(port, i, i, true), 0);
	CHECK_EQ(weft_port_tcp_add(port, 64, 64, true), -ENOSPC);
}

MISUSE_PORT(weft_port_tcp_drop)
{
	const struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(7)};
	struct weft_listen_attr la = {.size = sizeof(la)};
	struct weft_evq_attr ea = {.size = sizeof(ea)};
	struct weft_port *h, *port;
	struct weft_listener *l;
	struct weft_worker *w;

	EACH_BAD(m, h, PORT)
	CHECK_EQ(weft_port_tcp_drop(h, 1), -EINVAL);
	CHECK_EQ(weft_port_tcp_drop(live, 1), -EINVAL); /* not shared */
	port = shared_port(own, &w);
	CHECK_EQ(weft_port_tcp_drop(port, 0), -EINVAL);
	CHECK_EQ(weft_port_tcp_drop(port, 7), 0); /* it was none */
	CHECK_EQ(weft_port_tcp_add(port, 7, 7, false), 0);
	CHECK_EQ(weft_evq_create(own, &ea, &la.evq), 0);
	weft_worker_poll(w);
	CHECK_EQ(weft_listen(own, (const struct sockaddr *)&any, sizeof(any), &la, &l), 0);
	weft_worker_poll(w);
	misuse_elsewhere(tcp_elsewhere, port);
	CHECK_EQ(weft_port_tcp_drop(port, 7), -EBUSY);
	weft_unlisten(l);
	weft_worker_poll(w);
	CHECK_EQ(weft_port_tcp_drop(port, 7), 0);
	CHECK_EQ(weft_port_tcp_add(port, 50000, 50127, true), 0);
	CHECK_EQ(weft_port_tcp_drop(port, 50001), -EINVAL);
}

MISUSE(weft_port_get)
{
	struct weft_ctx *h;

	EACH_BAD(m, h, CTX)
	CHECK(weft_port_get(h, 0) == NULL);
	CHECK(weft_port_get(m->ctx, UINT32_MAX) == NULL);
}

MISUSE_PORT(weft_capture_start)
{
	struct weft_port *h;
	struct weft_capture_attr ca = {.size = sizeof(ca), .path = "/nonexistent/x"};

	EACH_BAD(m, h, PORT)
	CHECK_EQ(weft_capture_start(h, &ca), -EINVAL);
	CHECK_EQ(weft_capture_start(live, NULL), -EINVAL);
	BAD_ATTR(weft_capture_attr, ca, weft_capture_start(live, a));
	ca.path = NULL;
	CHECK_EQ(weft_capture_start(live, &ca), -EINVAL);
}

MISUSE_PORT(weft_capture_filter)
{
	struct weft_capture_attr ca = {.size = sizeof(ca)};
	struct weft_port *h;

	EACH_BAD(m, h, PORT)
	CHECK_EQ(weft_capture_filter(h, &ca), -EINVAL);
	CHECK_EQ(weft_capture_filter(live, NULL), -EINVAL);
	BAD_ATTR(weft_capture_attr, ca, weft_capture_filter(live, a));
	CHECK_EQ(weft_capture_filter(live, &ca), -ENOENT);
}

MISUSE_PORT(weft_capture_stop)
{
	struct weft_port *h;

	EACH_BAD(m, h, PORT)
	CHECK_EQ(weft_capture_stop(h, NULL), -EINVAL);
	CHECK_EQ(weft_capture_stop(live, NULL), -ENOENT);
}

MISUSE_PORT(weft_capture_stats)
{
	struct weft_port *h;
	struct weft_capture_stats st;

	EACH_BAD(m, h, PORT)
	CHECK_EQ(weft_capture_stats(h, &st), -EINVAL);
	CHECK_EQ(weft_capture_stats(live, NULL), -EINVAL);
	CHECK_EQ(weft_capture_stats(live, &st), -ENOENT);
}

/* ---- Workers ---- */

MISUSE(weft_worker_create)
{
	struct weft_worker_attr wa = {.size = sizeof(wa), .lcore = -1};
	struct weft_ctx *h;

	EACH_BAD(m, h, CTX)
	CHECK_EQ(weft_worker_create(h, &wa, OUT(weft_worker)), -EINVAL);
	CHECK_EQ(weft_worker_create(m->ctx, &wa, NULL), -EINVAL);
	BAD_ATTR(weft_worker_attr, wa, weft_worker_create(m->ctx, a, OUT(weft_worker)));
}

MISUSE_PORT(weft_worker_add_port)
{
	struct weft_port *h;
	struct weft_worker *w;
	struct weft_worker *fresh;

	CHECK_EQ(weft_worker_create(own, NULL, &fresh), 0);
	EACH_BAD(m, w, WORKER)
	CHECK_EQ(weft_worker_add_port(w, live), -EINVAL);
	EACH_BAD(m, h, PORT)
	CHECK_EQ(weft_worker_add_port(fresh, h), -EINVAL);
	CHECK_EQ(weft_worker_add_port(m->w, live), -EINVAL); /* a port of another context */
}

MISUSE(weft_worker_poll)
{
	struct weft_worker *h;

	EACH_BAD(m, h, WORKER)
	{
		if (k_ == 3)
			continue; /* not promised for a pointer to other memory */
		CHECK_EQ(weft_worker_poll(h), -EINVAL);
	}
}

MISUSE(weft_worker_run)
{
	struct weft_worker *h;

	EACH_BAD(m, h, WORKER)
	CHECK_EQ(weft_worker_run(h), -EINVAL);
}

MISUSE(weft_worker_start)
{
	struct weft_worker *h;

	EACH_BAD(m, h, WORKER)
	CHECK_EQ(weft_worker_start(h), -EINVAL);
	struct weft_ctx *ctx;
	CHECK_EQ(weft_ctx_create(NULL, &ctx), 0);
	CHECK_EQ(weft_worker_create(ctx, NULL, &h), 0);
	CHECK_EQ(weft_worker_start(h), 0);
	CHECK_EQ(weft_worker_start(h), -EALREADY);
	weft_worker_stop(h);
	weft_worker_stop(h);
	weft_ctx_destroy(ctx);
}

MISUSE(weft_worker_stop)
{
	struct weft_worker *h;

	EACH_BAD(m, h, WORKER)
	weft_worker_stop(h);
}

MISUSE(weft_worker_stop_async)
{
	struct weft_worker *h;

	EACH_BAD(m, h, WORKER)
	weft_worker_stop_async(h);
}

static void
detach(void *arg)
{
	weft_worker_detach(arg);
}

MISUSE(weft_worker_detach)
{
	struct weft_worker *h;

	EACH_BAD(m, h, WORKER)
	if (k_ < 2) /* not promised for a pointer to other memory */
		weft_worker_detach(h);
	/* A detach from another thread has no effect. */
	misuse_elsewhere(detach, m->w);
	CHECK(weft_worker_is_mine(m->w));
}

MISUSE(weft_worker_is_mine)
{
	struct weft_worker *h;

	EACH_BAD(m, h, WORKER)
	if (k_ < 2) /* as above */
		CHECK(!weft_worker_is_mine(h));
	CHECK(weft_worker_is_mine(m->w));
}

MISUSE(weft_worker_set_tcp)
{
	struct weft_tcp_change change = {.size = sizeof(change)};
	struct weft_worker *h;

	EACH_BAD(m, h, WORKER)
	CHECK_EQ(weft_worker_set_tcp(h, &change), -EINVAL);
	CHECK_EQ(weft_worker_set_tcp(m->w, NULL), -EINVAL);
}

MISUSE(weft_worker_call)
{
	struct weft_worker *h;

	EACH_BAD(m, h, WORKER)
	CHECK_EQ(weft_worker_call(h, nothing, NULL), -EINVAL);
	CHECK_EQ(weft_worker_call(m->w, NULL, NULL), -EINVAL);
}

MISUSE(weft_worker_idle)
{
	struct weft_worker *h;

	EACH_BAD(m, h, WORKER)
	if (k_ < 3) /* as above */
		weft_worker_idle(h, 1);
}

MISUSE(weft_worker_sleep)
{
	struct weft_worker *h;

	EACH_BAD(m, h, WORKER)
	CHECK_EQ(weft_worker_sleep(h, 1), -EINVAL);
}

MISUSE(weft_worker_exec)
{
	struct weft_worker *h;

	EACH_BAD(m, h, WORKER)
	CHECK(weft_worker_exec(h) == NULL);
	CHECK(weft_worker_exec(m->w) != NULL);
}

MISUSE(weft_worker_now_ns)
{
	struct weft_worker *h;

	EACH_BAD(m, h, WORKER)
	CHECK_EQ(weft_worker_now_ns(h), 0);
}

MISUSE(weft_worker_random)
{
	struct weft_worker *h;
	uint64_t x = 0;

	EACH_BAD(m, h, WORKER)
	weft_worker_random(h, &x, sizeof(x));
	CHECK_EQ(x, 0);
	weft_worker_random(m->w, NULL, sizeof(x));
}

MISUSE(weft_worker_stats)
{
	BAD_QUERY(m, weft_worker, WORKER, weft_worker_stats, weft_worker_stats);
}

MISUSE(weft_worker_get)
{
	struct weft_ctx *h;

	EACH_BAD(m, h, CTX)
	CHECK(weft_worker_get(h, 0) == NULL);
	CHECK(weft_worker_get(m->ctx, UINT32_MAX) == NULL);
}

MISUSE(weft_worker_poll_hist)
{
	struct weft_poll_hist hist = {.size = sizeof(hist)};
	struct weft_worker *h;

	EACH_BAD(m, h, WORKER)
	CHECK_EQ(weft_worker_poll_hist(h, &hist), -EINVAL);
	CHECK_EQ(weft_worker_poll_hist(m->w, NULL), -EINVAL);
	hist.size--;
	CHECK_EQ(weft_worker_poll_hist(m->w, &hist), -EINVAL);
}

static void
test_weft_poll_hist_since(void)
{
	struct weft_poll_hist hist = {.size = sizeof(hist), .polls = 7};

	weft_poll_hist_since(NULL, &hist);
	weft_poll_hist_since(&hist, NULL);
	CHECK_EQ(hist.polls, 7);
}

static void
test_weft_poll_hist_pct_ns(void)
{
	CHECK_EQ(weft_poll_hist_pct_ns(NULL, 50), 0);
}

/* ---- Alarms ---- */

static unsigned int rang;

static void
ring(void *arg)
{
	(void)arg;
	rang++;
}

static void
set_elsewhere(void *arg)
{
	CHECK_EQ(weft_alarm_set(arg, 1, ring, NULL, NULL), -EPERM);
}

static void
cancel_elsewhere(void *arg)
{
	weft_alarm_cancel(arg);
}

MISUSE(weft_alarm_set)
{
	struct weft_worker *h;

	rang = 0;
	EACH_BAD(m, h, WORKER)
	CHECK_EQ(weft_alarm_set(h, 1, ring, NULL, NULL), -EINVAL);
	CHECK_EQ(weft_alarm_set(m->w, 1, NULL, NULL, NULL), -EINVAL);
	misuse_elsewhere(set_elsewhere, m->w);
	vt_run(&m->t, VT_S);
	CHECK_EQ(rang, 0);
}

MISUSE(weft_alarm_cancel)
{
	struct weft_alarm *h;

	rang = 0;
	EACH_BAD(m, h, ALARM)
	weft_alarm_cancel(h);
	CHECK_EQ(weft_alarm_set(m->w, 1000, ring, NULL, &h), 0);
	misuse_elsewhere(cancel_elsewhere, h); /* no effect: cancelled by another thread */
	vt_run(&m->t, VT_S);
	CHECK_EQ(rang, 1);
	weft_alarm_cancel(h); /* the alarm has fired */
}

static unsigned int
source_poll(void *arg, uint64_t now_ns)
{
	(void)arg;
	(void)now_ns;
	rang++;
	return 0;
}

static uint64_t
source_next(void *arg)
{
	(void)arg;
	return UINT64_MAX;
}

static struct weft_poller source = {.poll = source_poll, .next_ns = source_next, .fd = -1};

static void
add_elsewhere(void *arg)
{
	CHECK_EQ(weft_poller_add(arg, &source), -EPERM);
}

static void
remove_elsewhere(void *arg)
{
	weft_poller_remove(arg);
}

MISUSE(weft_poller_add)
{
	struct weft_poller bare = {.fd = -1};
	struct weft_worker *h;

	rang = 0;
	EACH_BAD(m, h, WORKER)
	CHECK_EQ(weft_poller_add(h, &source), -EINVAL);
	CHECK_EQ(weft_poller_add(m->w, NULL), -EINVAL);
	CHECK_EQ(weft_poller_add(m->w, &bare), -EINVAL);
	bare.poll = source_poll;
	CHECK_EQ(weft_poller_add(m->w, &bare), -EINVAL);
	misuse_elsewhere(add_elsewhere, m->w);
	vt_run(&m->t, VT_S);
	CHECK_EQ(rang, 0);
	CHECK_EQ(weft_poller_add(m->w, &source), 0);
	CHECK_EQ(weft_poller_add(m->w, &source), -EALREADY);
	weft_poller_remove(&source);
}

MISUSE(weft_poller_remove)
{
	struct weft_poller copy;

	weft_poller_remove(NULL);
	weft_poller_remove(&source);
	CHECK_EQ(weft_poller_add(m->w, &source), 0);
	copy = source;
	weft_poller_remove(&copy);                   /* no effect: this one was not added */
	misuse_elsewhere(remove_elsewhere, &source); /* no effect: removed by another thread */
	rang = 0;
	weft_engine_poll_at(m->w, sim_now_ns(m->t.sim));
	CHECK_EQ(rang, 1);
	weft_poller_remove(&source);
	weft_poller_remove(&source);
	weft_engine_poll_at(m->w, sim_now_ns(m->t.sim));
	CHECK_EQ(rang, 1);
}

static void
poll_once(void *arg)
{
	struct misuse *m = arg;

	weft_engine_poll_at(m->w, sim_now_ns(m->t.sim));
	CHECK(weft_worker_is_mine(m->w));
}

/** A thread polls a worker and ends without weft_worker_detach(). The worker then belongs to no
 * thread. Calls reserved to the worker's thread are allowed from any thread until a thread polls
 * the worker again. */
static void
on_ended(struct misuse *m)
{
	struct weft_alarm *al;
	struct weft_qp_info qi;

	rang = 0;
	misuse_elsewhere(poll_once, m);
	CHECK(!weft_worker_is_mine(m->w));
	CHECK_EQ(weft_alarm_set(m->w, 1000, ring, NULL, &al), 0);
	weft_alarm_cancel(al);
	vt_run(&m->t, VT_S);
	CHECK_EQ(rang, 0);
	/* A living thread that polled keeps the worker. */
	misuse_elsewhere(set_elsewhere, m->w);
	weft_qp_query(m->qp, &qi);
	CHECK_EQ(qi.state, WEFT_QP_RTS);
}

static void
test_ended(void)
{
	struct misuse *m = malloc(sizeof(*m));

	misuse_open(m);
	on_ended(m);
	misuse_close(m);
	free(m);
}

/* ---- Telemetry ---- */

static int
answer(void *user, const char *params, struct weft_tel *t)
{
	(void)user;
	(void)params;
	(void)t;
	return 0;
}

static void
test_weft_telemetry_command(void)
{
	CHECK_EQ(weft_telemetry_command(NULL, "help", answer, NULL), -EINVAL);
	CHECK_EQ(weft_telemetry_command("/x", NULL, answer, NULL), -EINVAL);
	CHECK_EQ(weft_telemetry_command("/x", "help", NULL, NULL), -EINVAL);
}

static void
test_weft_telemetry_forget(void)
{
	weft_telemetry_forget(NULL);
	weft_telemetry_forget("/never/was");
}

static void
test_weft_tel_u64(void)
{
	weft_tel_u64(NULL, "x", 1);
}

static void
test_weft_tel_text(void)
{
	weft_tel_text(NULL, "x", "y");
}

static void
test_weft_room_conns(void)
{
	const struct weft_tcp_attr none = {.max_conns = UINT32_MAX, .max_snd_segs_total = 1};

	/* Any numbers are accepted. 0 means the default. The result is at least one connection. */
	CHECK_EQ(weft_room_conns(NULL, 0, 0), 1024);
	CHECK_EQ(weft_room_conns(NULL, 0, 4), 544);
	CHECK_EQ(weft_room_conns(NULL, 1, UINT32_MAX), 1);
	CHECK_EQ(weft_room_conns(NULL, UINT32_MAX, 1u << 28), 1024);
	CHECK_EQ(weft_room_conns(&none, UINT32_MAX, 1), 1);
}

static void
test_weft_room_bytes(void)
{
	struct weft_port_attr attr = {.size = sizeof(attr), .dev = "net_memif0"};

	/* At least the data of all buffers. */
	CHECK(weft_room_bytes(&attr, 4096) > 8192 * 1500);
	CHECK_EQ(weft_room_bytes(NULL, 4096), 0);
	CHECK_EQ(weft_room_bytes(&attr, 0), 0);
	CHECK_EQ(weft_room_bytes(&attr, 4097), 0);
	attr.queues = 65;
	CHECK_EQ(weft_room_bytes(&attr, 4096), 0);
	attr.queues = 0;
	attr.mbufs = 1;
	CHECK_EQ(weft_room_bytes(&attr, 4096), 0);
	attr.mbufs = UINT32_MAX;
	CHECK_EQ(weft_room_bytes(&attr, 4096), 0);
	attr.mbufs = 0;
	attr.dev = NULL;
	CHECK_EQ(weft_room_bytes(&attr, 4096), 0);
	attr.dev = "";
	attr.size--;
	CHECK_EQ(weft_room_bytes(&attr, 4096), 0);
}

#define CASE(call)                                                                                 \
	{                                                                                          \
#call, test_##call                                                                 \
	}

WEFT_TEST_MAIN(CASE(weft_env_init), CASE(weft_log_levels), CASE(weft_log_to), CASE(weft_ctx_create),
               CASE(weft_ctx_destroy), {"a context takes all along", test_everything_at_once},
               CASE(weft_port_open), CASE(weft_port_stats), CASE(weft_port_removed),
               CASE(weft_port_name), CASE(weft_port_network), CASE(weft_port_tcp_add),
               CASE(weft_port_tcp_drop), CASE(weft_port_get), CASE(weft_capture_start),
               CASE(weft_capture_filter), CASE(weft_capture_stop), CASE(weft_capture_stats),
               CASE(weft_worker_create), CASE(weft_worker_add_port), CASE(weft_worker_poll),
               CASE(weft_worker_run), CASE(weft_worker_start), CASE(weft_worker_stop),
               CASE(weft_worker_stop_async), CASE(weft_worker_detach), CASE(weft_worker_is_mine),
               CASE(weft_worker_call), CASE(weft_worker_set_tcp), CASE(weft_worker_idle),
               CASE(weft_worker_sleep), CASE(weft_worker_exec), CASE(weft_worker_now_ns),
               CASE(weft_worker_random), CASE(weft_worker_stats), CASE(weft_worker_get),
               CASE(weft_worker_poll_hist), CASE(weft_poll_hist_since), CASE(weft_poll_hist_pct_ns),
               CASE(weft_alarm_set), CASE(weft_alarm_cancel), CASE(weft_poller_add),
               CASE(weft_poller_remove), {"a thread that ended", test_ended},
               CASE(weft_telemetry_command), CASE(weft_telemetry_forget), CASE(weft_tel_u64),
               CASE(weft_tel_text), CASE(weft_room_conns), CASE(weft_room_bytes))
