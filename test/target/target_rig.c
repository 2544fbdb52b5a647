/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The target, its clients and the network between them. */

#include <arpa/inet.h>
#include <stdarg.h>
#include <stdlib.h>

#include <rte_mempool.h>

#include "inside.h"
#include "target_rig.h"
#include "target_quota.h"
#include "target_rpc.h"
#include "ui.h"
#include "weft_engine.h"
#include "weft_netif.h"
#include "weft_netif_attr.h"
#include "weft_netif_mbuf.h"
#include "weft_test.h"

#define RIG_MBUFS  2047u
#define RIG_MTU    8500u
#define RIG_CREDIT 32u
#define RIG_WR     1u /* in a wr_id: it is a struct rig_wr. Those of endpoints are even. */

struct rig rig;

const char *const rig_others[RIG_OTHERS] = {"other", "third"};

/* The clock of the target program: here it is the clock of the simulation. */
uint64_t __wrap_ui_now_ns(void);
uint64_t
__wrap_ui_now_ns(void)
{
	return rig.sim != NULL ? sim_now_ns(rig.sim) : SIM_START_NS;
}

/* Messages of the target are kept for rig_said(), as far as there is room. */
static char said[64U << 10];

static void
say(const char *fmt, va_list ap)
{
	const size_t n = strlen(said);

	vsnprintf(said + n, sizeof(said) - n, fmt, ap);
}

void __wrap_ui_msg(const char *fmt, ...);
void
__wrap_ui_msg(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(fmt, ap);
	va_end(ap);
}

void __wrap_ui_msg_at(int priority, const char *fmt, ...);
void
__wrap_ui_msg_at(int priority, const char *fmt, ...)
{
	va_list ap;

	(void)priority;
	va_start(ap, fmt);
	say(fmt, ap);
	va_end(ap);
}

bool
rig_said(const char *what)
{
	return strstr(said, what) != NULL;
}

bool rig_no_alarm;

int __real_weft_alarm_set(struct weft_worker *w, uint64_t delay_us, void (*fn)(void *arg),
                          void *arg, struct weft_alarm **out);
int __wrap_weft_alarm_set(struct weft_worker *w, uint64_t delay_us, void (*fn)(void *arg),
                          void *arg, struct weft_alarm **out);
int
__wrap_weft_alarm_set(struct weft_worker *w, uint64_t delay_us, void (*fn)(void *arg), void *arg,
                      struct weft_alarm **out)
{
	return rig_no_alarm && w == rig.t->workers[0].w
	               ? -ENOMEM
	               : __real_weft_alarm_set(w, delay_us, fn, arg, out);
}

/* The target's device: no configuration can name the driver "fault". The inner device of "fault" is
 * opened by this function, too. */
int __real_weft_block_open(const struct weft_block_attr *attr, struct weft_block **out);
int __wrap_weft_block_open(const struct weft_block_attr *attr, struct weft_block **out);
int
__wrap_weft_block_open(const struct weft_block_attr *attr, struct weft_block **out)
{
	struct weft_block_attr a = *attr;
	char options[64];
	int rc;

	if (strcmp(attr->driver, "uring") != 0) {
		rc = __real_weft_block_open(attr, out);
		if (rig.medium == NULL)
			rig.medium = rc == 0 ? *out : NULL;
		return rc;
	}
	snprintf(options, sizeof(options), "inner=mem,inner.block=512,seed=%" PRIu64,
	         rig.a.seed % UINT32_MAX + 1);
	a.driver = "fault";
	a.options = options;
	/* A name of memory: so it has snapshots. */
	a.path = rig.block == NULL ? RIG_NAME : rig_others[rig.others++];
	a.create = false;
	rc = __real_weft_block_open(&a, out);
	if (rig.block == NULL)
		rig.block = rc == 0 ? *out : NULL;
	return rc;
}

/* ---- The target ---- */

static void
engine_poll(void *arg, uint64_t now_ns)
{
	weft_engine_poll_at(arg, now_ns);
}

static uint64_t
engine_next(void *arg)
{
	return weft_engine_next_ns(arg);
}

static void
rig_conf(struct target *t)
{
	char text[1024], err[CONF_ERR_MAX] = "";
	int n = snprintf(text, sizeof(text),
	                 "[weft]\nworkers = %u\n[port p0]\ndev = net_ring0\naddress = 10.0.0.1/24\n"
	                 "[target]\n%s\n[export " RIG_NAME "]\nformat = volume\npath = /dev/null\n"
	                 "persist = file\nsnapshots = 4\nsize = %" PRIu64 "\n%s\n",
	                 rig.a.workers, rig.a.target != NULL ? rig.a.target : "", rig.a.bytes,
	                 rig.a.export != NULL ? rig.a.export : "");

	for (unsigned int i = 0; i < rig.a.others; i++)
		n += snprintf(text + n, sizeof(text) - (size_t)n,
		              "[export %s]\nformat = volume\npath = %s\npersist = file\n"
		              "size = %" PRIu64 "\n",
		              rig_others[i], i == 0 ? "/dev/zero" : "/dev/full", rig.a.bytes);
	CHECK_MSG(conf_load_string("test", text, (size_t)n, &t->conf, err, sizeof(err)) == 0, "%s",
	          err);
}

static void
rig_netif(struct weft_worker *w, unsigned int link, bool server)
{
	const struct weft_netif_attr na = {
	        .dev = sim_link_dev(),
	        .dev_arg = sim_link_dev_arg(rig.node[link].link, server),
	        .pool = rig.pool[server ? 1 : 0],
	        .tx_pool = rig.pool[server ? 2 : 0],
	        .mac = {{2, 0, 0, 0, (uint8_t)link, server ? 1 : 2}},
	        .addr = weft_ip_from_v4(htonl(0x0a000000 | link << 8 | (server ? 1 : 2))),
	        .prefix_len = 24,
	        .no_ipv6 = true,
	        .mtu_bytes = RIG_MTU,
	};

	CHECK_EQ(weft_engine_add_netif(w, &na), 0);
}

static void
target_start(void)
{
	struct target *t = rig.t = calloc(1, sizeof(*t));
	struct weft_ctx_attr ca = {.size = sizeof(ca)};
	struct weft_rand r = sim_rand(rig.sim, 1);
	char err[CONF_ERR_MAX] = "";
	struct weft_tcp_attr ta;

	CHECK(t != NULL);
	t->watch_fd = -1; /* no notifications about folders */
	t->numa_node = -1;
	rig_conf(t);
	ta = t->conf.tcp;
	ta.size = sizeof(ta);
	ca.tcp = &ta;
	ca.max_regions = target_quota_regions(&t->conf);
	CHECK_EQ(weft_engine_ctx_create(&ca, &r, NULL, &t->stack.ctx), 0);
	for (unsigned int i = 0; i < rig.a.workers; i++) {
		struct sim_node sn = {.poll = engine_poll, .next = engine_next};

		CHECK_EQ(weft_engine_worker_create(t->stack.ctx, NULL, NULL, &r,
		                                   sim_now_ns(rig.sim), &t->stack.workers[i]),
		         0);
		t->stack.nworkers++;
		sn.arg = t->stack.workers[i];
		sim_add_node(rig.sim, &sn);
	}
	for (unsigned int i = 0; i < RIG_NODES; i++)
		rig_netif(t->stack.workers[i % rig.a.workers], i, true);
	t->nexports = t->conf.nexports;
	CHECK_MSG(target_volumes_up(t, err, sizeof(err)) == 0, "%s", err);
	for (uint32_t i = 0; i < t->nexports; i++) {
		struct target_export *ex = &t->exports[i];

		target_export_named(t, ex, t->conf.exports[i].name);
		CHECK_MSG(target_export_open(ex, &t->conf.exports[i], -1, err, sizeof(err)) == 0,
		          "%s", err);
		CHECK_MSG(target_volume_attach(t, ex, err, sizeof(err)) == 0, "%s", err);
	}
	CHECK_EQ(target_quota_up(t, err, sizeof(err)), 0);
	CHECK_EQ(target_auth_open(t, err, sizeof(err)), 0);
	CHECK_EQ(target_admit_open(t, err, sizeof(err)), 0);
	CHECK_MSG(target_listen(t, err, sizeof(err)) == 0, "%s", err);
	atomic_store(&t->revoke_ms, t->conf.target.revoke_ms);
}

static void
target_stop(void)
{
	struct target *t = rig.t;

	target_conn_fini(t);
	target_volumes_drain(t, 1000); /* a scrub ends its group */
	weft_ctx_destroy(t->stack.ctx);
	target_io_end(t);
	for (uint32_t i = 0; i < t->nexports; i++) {
		CHECK_EQ(target_volume_detach(t, &t->exports[i]), 0);
		target_export_close(&t->exports[i]);
	}
	target_volumes_down(t);
	quota_destroy(t->quota);
	target_auth_close(t);
	conf_free(&t->conf);
	free(t);
}

/* ---- Clients ---- */

static enum weft_rpc_status
serve_revoke(void *user, void *args, void *res)
{
	(void)args;
	(void)res;
	((struct rig_conn *)user)->revokes++;
	return WEFT_RPC_OK;
}

static const struct weft_rpc_proc client_procs[] = {
        [WEFT_VOLRPC_REVOKE] = {.xdr_args = (xdrproc_t)xdr_weft_volrpc_revoke_args,
                                .args_bytes = sizeof(weft_volrpc_revoke_args),
                                .serve = serve_revoke},
};

static const struct weft_rpc_program client_program = {
        .prog = WEFT_VOLRPC_PROG,
        .vers = WEFT_VOLRPC_V2,
        .procs = client_procs,
        .nprocs = sizeof(client_procs) / sizeof(client_procs[0]),
};
static const struct weft_rpc_program *const client_programs[] = {&client_program, NULL};

static void
client_on_wc(void *user, struct weft_cq *cq, const struct weft_wc *wc, unsigned int n)
{
	(void)user;
	(void)cq;
	for (unsigned int i = 0; i < n; i++) {
		struct rig_conn *k = wc[i].qp_user;
		struct rig_wr *wr;

		if (k->rpc != NULL && weft_rpc_wc(k->rpc, &wc[i]))
			continue;
		/* Others are those of an endpoint that was destroyed, and come late. */
		if ((wc[i].wr_id & RIG_WR) == 0)
			continue;
		wr = (struct rig_wr *)(uintptr_t)(wc[i].wr_id - RIG_WR);
		CHECK(!wr->done);
		wr->done = true;
		wr->status = wc[i].status;
	}
}

static void
client_on_event(void *user, const struct weft_event *ev)
{
	struct rig_conn *k = ev->user;

	(void)user;
	if (ev->type == WEFT_EV_ESTABLISHED)
		k->up = true;
	if (ev->type == WEFT_EV_REJECTED || ev->type == WEFT_EV_CONNECT_ERROR ||
	    ev->type == WEFT_EV_DISCONNECTED) {
		k->gone = true;
		if (k->rpc != NULL)
			weft_rpc_disconnected(k->rpc);
	}
}

static void
client_start(struct rig_node *n)
{
	struct weft_ctx_attr ca = {.size = sizeof(ca)};
	struct weft_rand r = sim_rand(rig.sim, 2 + n->id);
	struct weft_cq_attr qa = {.size = sizeof(qa), .depth = 4096, .on_wc = client_on_wc};
	struct weft_evq_attr ea = {.size = sizeof(ea), .on_event = client_on_event};
	struct weft_mr_attr ma = {
	        .size = sizeof(ma), .len_bytes = RIG_MEM, .access = WEFT_ACCESS_LOCAL_WRITE};
	struct sim_node sn = {.poll = engine_poll, .next = engine_next};

	CHECK_EQ(weft_engine_ctx_create(&ca, &r, NULL, &n->ctx), 0);
	CHECK_EQ(weft_engine_worker_create(n->ctx, NULL, NULL, &r, sim_now_ns(rig.sim), &n->w), 0);
	rig_netif(n->w, n->id, false);
	CHECK_EQ(weft_pd_alloc(n->ctx, &n->pd), 0);
	CHECK_EQ(weft_cq_create(n->ctx, &qa, &n->cq), 0);
	CHECK_EQ(weft_evq_create(n->ctx, &ea, &n->evq), 0);
	n->mem = aligned_alloc(4096, RIG_MEM);
	CHECK(n->mem != NULL);
	memset(n->mem, 0, RIG_MEM);
	ma.addr = n->mem;
	CHECK_EQ(weft_mr_reg(n->pd, &ma, &n->mr), 0);
	sn.arg = n->w;
	sim_add_node(rig.sim, &sn);
}

/** The simulation runs no more. */
static void
client_stop(struct rig_node *n)
{
	weft_ctx_destroy(n->ctx);
	free(n->mem);
}

/* ---- All of it ---- */

void
rig_link(unsigned int node, bool up)
{
	const struct sim_link_cfg cfg = {
	        .delay_ns = 5000, .rate_bps = 10000000000, .queue_pkts = 10000, .down = !up};

	for (unsigned int end = 0; end < 2; end++)
		sim_link_set(rig.node[node].link, end, &cfg);
}

void
rig_open(const struct rig_attr *a)
{
	static struct rte_mempool *pool[3];
	static const char *const names[3] = {"rig_client", "rig_rx", "rig_tx"};
	const struct sim_link_cfg cfg[2] = {{0}, {0}};
	struct weft_block_chan_attr la = {.size = sizeof(la), .depth = 4};

	test_eal_init();
	(void)weft_log_levels("weft.*:critical");
	rig = (struct rig){.a = *a};
	said[0] = '\0';
	for (unsigned int i = 0; i < 3; i++) {
		if (pool[i] == NULL)
			CHECK_EQ(weft_netif_pool_create(names[i], RIG_MBUFS, RIG_MTU, -1, &pool[i]),
			         0);
		rig.pool[i] = pool[i];
	}
	rig.sim = sim_create(a->seed, rig.pool[0]);
	for (unsigned int i = 0; i < RIG_NODES; i++) {
		rig.node[i].id = i;
		rig.node[i].link = sim_link_create(rig.sim, cfg);
		rig_link(i, true);
		sim_link_pool(rig.node[i].link, 0, rig.pool[0]);
		sim_link_pool(rig.node[i].link, 1, rig.pool[1]);
	}
	target_start();
	CHECK(rig.block != NULL);
	CHECK_EQ(weft_block_chan_open(rig.medium, &la, &rig.look), 0);
	for (unsigned int i = 0; i < RIG_NODES; i++)
		client_start(&rig.node[i]);
	rig_run(2 * RIG_S); /* for the announcements of the addresses */
}

void
rig_close(void)
{
	for (unsigned int i = 0; i < RIG_NODES; i++)
		CHECK_EQ(weft_mr_dereg(rig.node[i].mr, NULL, NULL), 0);
	rig_run(RIG_MS);
	for (unsigned int i = 0; i < RIG_NODES; i++)
		client_stop(&rig.node[i]);
	CHECK_EQ(weft_block_chan_close(rig.look), 0);
	target_stop();
	sim_destroy(rig.sim);
	rig.sim = NULL;
}

void
rig_run(uint64_t ns)
{
	sim_run(rig.sim, sim_now_ns(rig.sim) + ns, NULL, NULL);
}

bool
rig_until(uint64_t ns, bool (*done)(void *arg), void *arg)
{
	return sim_run(rig.sim, sim_now_ns(rig.sim) + ns, done, arg);
}

/* ---- Connections ---- */

void
rig_connect(struct rig_conn *k, unsigned int node)
{
	struct rig_node *n = &rig.node[node];
	struct weft_qp_attr qa = {.size = sizeof(qa),
	                          .worker = n->w,
	                          .send_cq = n->cq,
	                          .recv_cq = n->cq,
	                          .evq = n->evq,
	                          .sq_depth = 512,
	                          .rq_depth = 2 * RIG_CREDIT,
	                          .ord = 32,
	                          .ird = 32,
	                          .user = k};
	struct weft_rpc_attr ra = {
	        .size = sizeof(ra), .credits = RIG_CREDIT, .programs = client_programs, .user = k};
	/* With probes: the target may give up on the connection while the link fails. */
	struct weft_conn_attr ca = {
	        .size = sizeof(ca), .timeout_us = 3000000, .keepalive_us = 5000000};
	struct sockaddr_in to = {.sin_family = AF_INET,
	                         .sin_port = htons(7471),
	                         .sin_addr.s_addr = htonl(0x0a000001 | node << 8)};

	*k = (struct rig_conn){.n = n};
	CHECK_EQ(weft_qp_create(n->pd, &qa, &k->qp), 0);
	ra.qp = k->qp;
	CHECK_EQ(weft_rpc_create(&ra, &k->rpc), 0);
	CHECK_EQ(weft_connect(k->qp, (struct sockaddr *)&to, sizeof(to), &ca), 0);
}

static bool
conn_is_up(void *arg)
{
	const struct rig_conn *k = arg;

	return k->up || k->gone;
}

void
rig_connected(struct rig_conn *k, unsigned int node)
{
	rig_connect(k, node);
	CHECK(rig_until(5 * RIG_S, conn_is_up, k) && k->up);
}

void
rig_disconnect(struct rig_conn *k)
{
	if (k->qp != NULL)
		weft_qp_destroy(k->qp);
	k->qp = NULL;
	if (k->rpc != NULL)
		weft_rpc_destroy(k->rpc);
	k->rpc = NULL;
	k->gone = true;
	CHECK_EQ(k->under_way, 0);
}

/* ---- Calls ---- */

static bool_t
xdr_raw(XDR *xdr, struct rig_call *c)
{
	return xdr_opaque(xdr, (char *)(uintptr_t)c->raw, c->raw_bytes);
}

static bool_t
xdr_nothing(XDR *xdr, void *res)
{
	(void)xdr;
	(void)res;
	return TRUE;
}

union rig_res {
	weft_volrpc_list list;
	weft_volrpc_page page;
	weft_volrpc_open_res open;
	weft_volrpc_res res;
	weft_volrpc_read_res read;
	weft_volrpc_verify_res verify;
	weft_volrpc_extents_res extents;
	weft_volrpc_window_res window;
	weft_volrpc_made_res made;
	weft_volrpc_snapshots_res snapshots;
};

#define KIND(args, res)                                                                            \
	{                                                                                          \
		(xdrproc_t)(args), (xdrproc_t)xdr_weft_volrpc_##res, sizeof(weft_volrpc_##res)     \
	}

static const struct rig_kind {
	xdrproc_t xdr_args, xdr_res;
	size_t res_bytes;
} kinds[] = {
        [WEFT_VOLRPC_NULL] = {(xdrproc_t)xdr_nothing, (xdrproc_t)xdr_nothing, 0},
        [WEFT_VOLRPC_LIST] = KIND(xdr_nothing, list),
        [WEFT_VOLRPC_OPEN] = KIND(xdr_weft_volrpc_open_args, open_res),
        [WEFT_VOLRPC_CLOSE] = KIND(xdr_weft_volrpc_close_args, res),
        [WEFT_VOLRPC_READ] = {(xdrproc_t)xdr_weft_volrpc_read_args,
                              (xdrproc_t)weft_volrpc_xdr_read_res, sizeof(weft_volrpc_read_res)},
        [WEFT_VOLRPC_WRITE] = KIND(weft_volrpc_xdr_write_args, res),
        [WEFT_VOLRPC_FLUSH] = KIND(xdr_weft_volrpc_range_args, res),
        [WEFT_VOLRPC_VERIFY] = KIND(xdr_weft_volrpc_range_args, verify_res),
        [WEFT_VOLRPC_COMPARE_WRITE] = KIND(weft_volrpc_xdr_compare_args, res),
        [WEFT_VOLRPC_DISCARD] = KIND(xdr_weft_volrpc_range_args, res),
        [WEFT_VOLRPC_ZEROES] = KIND(xdr_weft_volrpc_range_args, res),
        [WEFT_VOLRPC_EXTENTS] = KIND(xdr_weft_volrpc_range_args, extents_res),
        [WEFT_VOLRPC_WINDOW_OPEN] = KIND(xdr_weft_volrpc_window_args, window_res),
        [WEFT_VOLRPC_WINDOW_MOVE] = KIND(xdr_weft_volrpc_move_args, res),
        [WEFT_VOLRPC_WINDOW_CLOSE] = KIND(xdr_weft_volrpc_window_close_args, res),
        [WEFT_VOLRPC_REVOKE] = {(xdrproc_t)xdr_nothing, (xdrproc_t)xdr_nothing, 0},
        [WEFT_VOLRPC_SNAPSHOT] = KIND(xdr_weft_volrpc_snap_args, made_res),
        [WEFT_VOLRPC_SNAPSHOTS] = KIND(xdr_weft_volrpc_snap_args, snapshots_res),
        [WEFT_VOLRPC_SNAPSHOT_REMOVE] = KIND(xdr_weft_volrpc_snap_args, res),
        [WEFT_VOLRPC_CLONE] = KIND(xdr_weft_volrpc_snap_args, made_res),
        [WEFT_VOLRPC_VERIFIER] = {(xdrproc_t)xdr_nothing, (xdrproc_t)xdr_nothing, 0},
        [WEFT_VOLRPC_LIST_FROM] = KIND(xdr_weft_volrpc_list_args, page),
};

static const weft_volrpc_fault *
call_results(struct rig_call *c, const union rig_res *r)
{
	switch (c->proc) {
	case WEFT_VOLRPC_NULL:
	case WEFT_VOLRPC_LIST:
		c->status = WEFT_VOLRPC_OK;
		c->items = c->proc == WEFT_VOLRPC_LIST ? r->list.items.items_len : 0;
		return NULL;
	case WEFT_VOLRPC_LIST_FROM:
		c->status = WEFT_VOLRPC_OK;
		c->items = r->page.items.items_len;
		c->next = r->page.next;
		return NULL;
	case WEFT_VOLRPC_OPEN:
		c->status = r->open.status;
		if (c->status == WEFT_VOLRPC_OK)
			c->grant = r->open.weft_volrpc_open_res_u.grant;
		c->grant.hash = c->grant.mechanism = NULL;
		return &r->open.weft_volrpc_open_res_u.fault;
	case WEFT_VOLRPC_READ:
		c->status = r->read.status;
		if (c->status == WEFT_VOLRPC_OK)
			c->read_bytes = r->read.weft_volrpc_read_res_u.data.data_len;
		return &r->read.weft_volrpc_read_res_u.fault;
	case WEFT_VOLRPC_VERIFY:
		c->status = r->verify.status;
		if (c->status == WEFT_VOLRPC_OK) {
			const weft_volrpc_hash *h = &r->verify.weft_volrpc_verify_res_u.found;

			c->hash_bytes = h->hash.hash_len;
			memcpy(c->hash, h->hash.hash_val, c->hash_bytes);
		}
		return &r->verify.weft_volrpc_verify_res_u.fault;
	case WEFT_VOLRPC_EXTENTS:
		c->status = r->extents.status;
		if (c->status == WEFT_VOLRPC_OK)
			c->extents = r->extents.weft_volrpc_extents_res_u.extents.list.list_len;
		return &r->extents.weft_volrpc_extents_res_u.fault;
	case WEFT_VOLRPC_WINDOW_OPEN:
		c->status = r->window.status;
		if (c->status == WEFT_VOLRPC_OK)
			c->win = r->window.weft_volrpc_window_res_u.window;
		return &r->window.weft_volrpc_window_res_u.fault;
	case WEFT_VOLRPC_SNAPSHOT:
	case WEFT_VOLRPC_CLONE:
		c->status = r->made.status;
		return &r->made.weft_volrpc_made_res_u.fault;
	case WEFT_VOLRPC_SNAPSHOTS:
		c->status = r->snapshots.status;
		if (c->status == WEFT_VOLRPC_OK)
			c->items = r->snapshots.weft_volrpc_snapshots_res_u.found.list.list_len;
		return &r->snapshots.weft_volrpc_snapshots_res_u.fault;
	default:
		c->status = r->res.status;
		return &r->res.weft_volrpc_res_u.fault;
	}
}

static void
call_done(void *arg, enum weft_rpc_status status, void *res)
{
	struct rig_call *c = arg;
	const weft_volrpc_fault *f = NULL;

	CHECK(!c->done);
	c->done = true;
	c->rpc = status;
	if (c->conn != NULL)
		c->conn->under_way--;
	if (status == WEFT_RPC_OK && res != NULL && c->raw == NULL)
		f = call_results(c, res);
	if (f != NULL && c->status != WEFT_VOLRPC_OK) {
		c->at = f->at;
		c->done_bytes = f->done;
		snprintf(c->why, sizeof(c->why), "%s", f->why);
	}
	if (c->then != NULL)
		c->then(c);
}

void
rig_call(struct rig_conn *k, struct rig_call *c)
{
	const bool known = c->proc < RTE_DIM(kinds) && c->raw == NULL;
	const struct rig_kind *kind = &kinds[known ? c->proc : WEFT_VOLRPC_NULL];
	const weft_volrpc_read_res into = {
	        .status = WEFT_VOLRPC_OK,
	        .weft_volrpc_read_res_u.data = {.data_val = c->args.read.into,
	                                        .data_len = c->args.read.args.count}};
	struct weft_rpc_call_attr a = {
	        .size = sizeof(a),
	        .prog = WEFT_VOLRPC_PROG,
	        .vers = WEFT_VOLRPC_V2,
	        .proc = c->proc,
	        .xdr_args = c->raw != NULL ? (xdrproc_t)xdr_raw : kind->xdr_args,
	        .args = c->raw != NULL ? (const void *)c : &c->args,
	        .xdr_res = kind->xdr_res,
	        .res_bytes = kind->res_bytes,
	        .timeout_us = c->timeout_us != 0 ? c->timeout_us : RIG_GIVE_UP_US,
	        .fn = call_done,
	        .arg = c,
	};

	c->conn = NULL;
	c->done = false;
	if (known && c->proc == WEFT_VOLRPC_READ) {
		a.res_init = &into;
		a.binding = c->no_chunks ? NULL : &weft_volrpc_read_binding;
	} else if (known && !c->no_chunks) {
		a.binding = c->proc == WEFT_VOLRPC_WRITE           ? &weft_volrpc_write_binding
		            : c->proc == WEFT_VOLRPC_COMPARE_WRITE ? &weft_volrpc_compare_binding
		                                                   : NULL;
	}
	a.once = known && (c->proc == WEFT_VOLRPC_WRITE || c->proc == WEFT_VOLRPC_COMPARE_WRITE);
	if (k->rpc == NULL || k->gone) {
		call_done(c, WEFT_RPC_CONNLOST, NULL);
		return;
	}
	k->under_way++;
	c->conn = k;
	if (weft_rpc_call_with(k->rpc, &a) != 0)
		call_done(c, WEFT_RPC_CONNLOST, NULL);
}

bool
rig_is_done(void *arg)
{
	return ((const struct rig_call *)arg)->done;
}

void
rig_wait(struct rig_call *c)
{
	CHECK_MSG(rig_until(RIG_GIVE_UP_US * 1000 + RIG_S, rig_is_done, c), "procedure %u",
	          c->proc);
}

weft_volrpc_status
rig_grant(struct rig_conn *k, uint32_t rights, weft_volrpc_grant *g)
{
	return rig_grant_of(k, RIG_NAME, rights, g);
}

weft_volrpc_status
rig_grant_of(struct rig_conn *k, const char *name, uint32_t rights, weft_volrpc_grant *g)
{
	struct rig_call c = {.proc = WEFT_VOLRPC_OPEN,
	                     .args.open = {.name = (char *)(uintptr_t)name, .rights = rights}};

	rig_call(k, &c);
	rig_wait(&c);
	CHECK_EQ(c.rpc, WEFT_RPC_OK);
	*g = c.grant;
	return c.status;
}

/* ---- Windows ---- */

bool
rig_post(struct rig_conn *k, struct weft_wr *list, unsigned int n, struct rig_wr *wr)
{
	*wr = (struct rig_wr){.done = false};
	list[n - 1].wr_id = (uintptr_t)wr + RIG_WR;
	list[n - 1].flags |= WEFT_WR_SIGNALED;
	return k->qp != NULL && weft_post_send(k->qp, list, n) == (int)n;
}

bool
rig_rdma(struct rig_conn *k, uint32_t stag, uint64_t to, const void *from, uint32_t len, bool flush,
         struct rig_wr *wr)
{
	struct weft_sge sg = {.addr = (void *)(uintptr_t)from, .len_bytes = len};
	struct weft_wr list[2] = {
	        {.opcode = WEFT_WR_WRITE,
	         .sg_list = &sg,
	         .num_sge = 1,
	         .rdma = {.stag = stag, .to = to}},
	        {.opcode = WEFT_WR_FLUSH,
	         .flush = {.stag = stag,
	                   .to = to,
	                   .len_bytes = len,
	                   .flags = WEFT_FLUSH_PERSISTENT}},
	};

	return rig_post(k, list, flush ? 2 : 1, wr);
}

/* ---- What is there ---- */

static void
look_done(struct weft_block_req *req)
{
	*(bool *)req->owner = true;
}

void
rig_medium(uint64_t off, void *to, uint64_t len)
{
	const struct weft_vol_info *i = weft_vol_info(rig.t->exports[0].volume->vol);
	struct iovec iov = {to, len};
	bool done = false;
	struct weft_block_req req = {.op = WEFT_BLOCK_READ,
	                             .off_bytes = i->super.data_at + off,
	                             .len_bytes = len,
	                             .iov = &iov,
	                             .iovs = 1,
	                             .done = look_done,
	                             .owner = &done};

	CHECK_EQ(weft_block_submit(rig.look, &req), 0);
	for (unsigned int n = 0; n < 1000 && !done; n++)
		(void)weft_block_poll(rig.look, sim_now_ns(rig.sim));
	CHECK(done && req.status == 0);
}

const char *
rig_left(void)
{
	static char text[160];
	struct target *t = rig.t;

	if (atomic_load(&t->nconns) > 0)
		return "connections";
	for (uint32_t e = 0; e < t->nexports; e++)
		if (atomic_load(&t->exports[e].grants) > 0)
			return "grants";
	if (weft_mem_count(inside_mem(t->stack.ctx)) > 0)
		return "regions";
	for (unsigned int i = 0; i < rig.a.workers; i++) {
		struct target_worker *tw = &t->workers[i];
		struct weft_vol_windows_stats w;
		struct weft_rpc_budget_info b;
		struct weft_staging_stats s;

		weft_vol_windows_query(tw->volumes->windows, &w);
		weft_staging_query(tw->volumes->staging, &s);
		weft_rpc_budget_info(tw->budget, &b);
		if (w.open > 0)
			return "windows";
		if (s.waiting > 0 || s.clients > 0)
			return "staging memory";
		if (b.held_bytes > 0) {
			snprintf(text, sizeof(text), "%llu octets of the budget",
			         (unsigned long long)b.held_bytes);
			return text;
		}
		if (!TAILQ_EMPTY(&tw->volumes->used) || tw->volumes->nwaiting > 0 ||
		    !TAILQ_EMPTY(&tw->volumes->ending))
			return "lists of windows";
		if (tw->volumes->ncoming > 0)
			return "slots that come";
		for (uint32_t e = 0; e < t->nexports; e++) {
			const struct target_vchan *vc = target_vchan_of(tw, &t->exports[e]);

			if (!weft_vol_is_idle(vc->chan))
				return "operations";
			if (vc->nwindows > 0 || vc->nwaiting > 0 || vc->ncoming > 0)
				return "windows of a volume";
		}
	}
	return NULL;
}

bool
rig_is_clean(void *arg)
{
	(void)arg;
	return rig_left() == NULL;
}
