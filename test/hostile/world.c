/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The target, its honest client and the network between them. */

#include <arpa/inet.h>
#include <malloc.h>
#include <stdlib.h>
#include <unistd.h>

#include <rte_mempool.h>

#include "inside.h"
#include "weft_handle_kept.h"
#include "ui.h"
#include "weft_engine.h"
#include "weft_netif.h"
#include "weft_netif_attr.h"
#include "weft_netif_group.h"
#include "weft_netif_mbuf.h"
#include "weft_netif_stats.h"
#include "weft_test.h"
#include "world.h"

#define CALL_EVERY_NS   (10 * WORLD_MS)
#define CONN_EVERY_NS   (250 * WORLD_MS)
#define PING_EVERY_NS   (20 * WORLD_MS)
#define CONN_GIVE_UP_US 3000000
#define CALL_GIVE_UP_US 3000000

struct world world;

/* The clock of the target program: here it is the clock of the simulation. */
uint64_t __wrap_ui_now_ns(void);
uint64_t
__wrap_ui_now_ns(void)
{
	return world.sim != NULL ? sim_now_ns(world.sim) : SIM_START_NS;
}

/* Messages of the target are dropped. They are not under test. */
void __wrap_ui_msg(const char *fmt, ...);
void
__wrap_ui_msg(const char *fmt, ...)
{
	(void)fmt;
}

void __wrap_ui_msg_at(int priority, const char *fmt, ...);
void
__wrap_ui_msg_at(int priority, const char *fmt, ...)
{
	(void)priority;
	(void)fmt;
}

static struct rte_mempool *
pool(const char *name, unsigned int mbufs)
{
	static struct {
		const char *name;
		struct rte_mempool *mp;
	} made[6];
	unsigned int i = 0;

	while (made[i].name != NULL && strcmp(made[i].name, name) != 0)
		i++;
	if (made[i].name == NULL) {
		CHECK_EQ(weft_netif_pool_create(name, mbufs, 1500, -1, &made[i].mp), 0);
		made[i].name = name;
	}
	return made[i].mp;
}

/* ---- The target ---- */

static bool
restless(void *arg)
{
	(void)arg;
	return world.polls_max != 0 && world.polls > world.polls_max;
}

static void
target_poll(void *arg, uint64_t now_ns)
{
	const struct weft_netif_stats *st = weft_netif_stats(weft_engine_netif(arg, 0));
	const uint64_t frames = st->rx_packets;
	const bool asked = weft_engine_next_ns(arg) <= now_ns;

	if (restless(NULL))
		return; /* the limit of turns is reached */
	weft_engine_poll_at(arg, now_ns);
	if (asked && st->rx_packets == frames)
		world.polls++;
}

static uint64_t
target_next(void *arg)
{
	if (restless(NULL))
		return WEFT_NEVER;
	/* A packet that another worker handed over wakes this one (struct weft_netif_ops.wake). */
	if (weft_netif_handed(weft_engine_netif(arg, 0)))
		return sim_now_ns(world.sim);
	return weft_engine_next_ns(arg);
}

static void
target_conf(void)
{
	char text[1024], err[CONF_ERR_MAX] = "";
	int n = snprintf(text, sizeof(text),
	                 "[weft]\nworkers = %u\n[port p0]\ndev = net_ring0\naddress = 10.0.0.1/16\n"
	                 "[target]\n%s\n[export e]\npath = %s\nsize = 4M\npersist = pmem\n",
	                 world.a.workers, world.a.target != NULL ? world.a.target : "", world.file);

	CHECK_MSG(conf_load_string("test", text, (size_t)n, &world.t->conf, err, sizeof(err)) == 0,
	          "%s", err);
}

static void
target_start(void)
{
	struct target *t = world.t;
	const struct conf_port *cp;
	struct weft_ctx_attr ca = {.size = sizeof(ca)};
	struct weft_rand r = sim_rand(world.sim, 1);
	struct weft_tcp_attr ta;
	uint8_t key[40];
	const struct weft_netif_group_attr ga = {.members = world.a.workers,
	                                         .key = key,
	                                         .key_bytes = sizeof(key),
	                                         .rx_queues = 1,
	                                         .tx_queues = 1,
	                                         .pool_mbufs = world_pool_mbufs(),
	                                         .socket = -1};
	char err[CONF_ERR_MAX] = "";

	target_conf();
	cp = &t->conf.ports[0];
	ta = t->conf.tcp;
	ta.size = sizeof(ta);
	ca.tcp = &ta;
	ca.max_regions = target_quota_regions(&t->conf);
	r.fill(r.arg, key, sizeof(key));
	world.rx_pool = pool(world.a.mbufs != 0 ? "small_rx" : "hostile_rx", world_pool_mbufs());
	world.tx_pool = pool(world.a.mbufs != 0 ? "small_tx" : "hostile_tx", world_pool_mbufs());
	sim_link_pool(world.link, 1, world.rx_pool);
	CHECK_EQ(weft_engine_ctx_create(&ca, &r, NULL, &t->stack.ctx), 0);
	if (ga.members > 1)
		CHECK_EQ(weft_netif_group_create(&ga, &world.group), 0);
	for (unsigned int i = 0; i < world.a.workers; i++) {
		const struct weft_netif_attr na = {
		        .dev = sim_link_dev(),
		        .dev_arg = sim_link_dev_arg(world.link, 1),
		        .pool = world.rx_pool,
		        .tx_pool = world.tx_pool,
		        .mac = {{2, 0, 0, 0, 0, 1}},
		        .addr = weft_ip_from_v4(htonl(CROWD_TARGET)),
		        .prefix_len = (uint8_t)cp->net.prefix_len,
		        .addr6 = {.b = {0xfd, 0, 0, 0, 0, 0, 0, 7, [15] = 1}},
		        .prefix6_len = 64,
		        .mtu_bytes = 1500,
		        .group = world.group,
		        .group_index = i,
		};
		struct sim_node sn = {.poll = target_poll, .next = target_next};

		CHECK_EQ(weft_engine_worker_create(t->stack.ctx, NULL, NULL, &r,
		                                   sim_now_ns(world.sim), &t->stack.workers[i]),
		         0);
		t->stack.nworkers++;
		CHECK_EQ(weft_engine_add_netif(t->stack.workers[i], &na), 0);
		sn.arg = t->stack.workers[i];
		sim_add_node(world.sim, &sn);
	}
	target_export_named(t, &t->exports[0], t->conf.exports[0].name);
	CHECK_MSG(target_export_open(&t->exports[0], &t->conf.exports[0], -1, err, sizeof(err)) ==
	                  0,
	          "%s", err);
	t->nexports = 1;
	t->watch_fd = -1; /* no notifications about folders */
	target_watch_begin(t, &t->exports[0]);
	CHECK_EQ(target_quota_up(t, err, sizeof(err)), 0);
	CHECK_EQ(target_auth_open(t, err, sizeof(err)), 0);
	CHECK_EQ(target_admit_open(t, err, sizeof(err)), 0);
	CHECK_MSG(target_listen(t, err, sizeof(err)) == 0, "%s", err);
}

static void
target_stop(void)
{
	struct target *t = world.t;

	target_conn_fini(t);
	weft_ctx_destroy(t->stack.ctx);
	weft_netif_group_destroy(world.group);
	target_io_end(t);
	target_watch_end(t, &t->exports[0]);
	target_export_close(&t->exports[0]);
	quota_destroy(t->quota);
	target_auth_close(t);
}

unsigned int
world_pool_mbufs(void)
{
	return world.a.mbufs != 0 ? world.a.mbufs / 2 : 4096; /* half of [port] mbufs' default */
}

/* ---- The client ---- */

static void
client_on_wc(void *user, struct weft_cq *cq, const struct weft_wc *wc, unsigned int n)
{
	struct world_client *c = &world.c;

	(void)user;
	(void)cq;
	for (unsigned int i = 0; i < n; i++) {
		struct world_conn *k = wc[i].qp_user;

		if (k->rpc != NULL && weft_rpc_wc(k->rpc, &wc[i]))
			continue;
		if (k != &c->stay || wc[i].wr_id != 1)
			continue;
		c->in_flight--;
		if (wc[i].status == WEFT_WC_SUCCESS)
			c->got.bytes += WORLD_BLOCK;
	}
}

static void
client_on_event(void *user, const struct weft_event *ev)
{
	struct world_conn *k = ev->user;

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
conn_begin(struct world_conn *k)
{
	struct world_client *c = &world.c;
	struct weft_qp_attr qa = {.size = sizeof(qa),
	                          .worker = c->w,
	                          .send_cq = c->cq,
	                          .recv_cq = c->cq,
	                          .evq = c->evq,
	                          .sq_depth = 128,
	                          .rq_depth = 64,
	                          .ord = 64,
	                          .user = k};
	struct weft_rpc_attr ra = {.size = sizeof(ra)};
	struct weft_conn_attr ca = {.size = sizeof(ca), .timeout_us = CONN_GIVE_UP_US};
	struct sockaddr_in to = {.sin_family = AF_INET,
	                         .sin_port = htons(7471),
	                         .sin_addr.s_addr = htonl(CROWD_TARGET)};

	memset(k, 0, sizeof(*k));
	k->since_ns = sim_now_ns(world.sim);
	k->busy = true;
	CHECK_EQ(weft_qp_create(c->pd, &qa, &k->qp), 0);
	ra.qp = k->qp;
	CHECK_EQ(weft_rpc_create(&ra, &k->rpc), 0);
	CHECK_EQ(weft_connect(k->qp, (struct sockaddr *)&to, sizeof(to), &ca), 0);
}

static void
conn_end(struct world_conn *k)
{
	if (k->qp != NULL)
		weft_qp_destroy(k->qp);
	if (k->rpc != NULL)
		weft_rpc_destroy(k->rpc);
	k->qp = NULL;
	k->rpc = NULL;
	k->busy = false;
}

static void
on_null(void *arg, enum weft_rpc_status status, void *res)
{
	struct world_conn *k = arg;
	struct world_client *c = &world.c;

	(void)res;
	k->answered = true;
	if (k != &c->stay)
		return;
	c->calling = false;
	c->got.calls++;
	c->got.calls_failed += status != WEFT_RPC_OK;
	c->got.call_max_ns = RTE_MAX(c->got.call_max_ns, sim_now_ns(world.sim) - c->call_ns);
}

static int
call_list(struct world_conn *k)
{
	return weft_rpc_call(k->rpc, WEFT_EXPORT_PROG, WEFT_EXPORT_V1, WEFT_EXPORT_LIST,
	                     WEFT_EXPORT_XDR_VOID, NULL, (xdrproc_t)xdr_weft_export_list,
	                     sizeof(weft_export_list), CALL_GIVE_UP_US, on_null, k);
}

static void
on_open(void *arg, enum weft_rpc_status status, void *res)
{
	struct world_conn *k = arg;
	const weft_export_open_res *r = res;

	k->answered = true;
	if (status != WEFT_RPC_OK || r->status != WEFT_EXPORT_OK) {
		k->gone = true;
		return;
	}
	if (k != &world.c.stay)
		return;
	world.c.grant = r->weft_export_open_res_u.grant;
	world.c.opened = true;
}

static int
call_open(struct world_conn *k, uint32_t rights)
{
	static weft_export_open_args args = {.name = (char *)(uintptr_t) "e"};

	args.rights = rights;
	return weft_rpc_call(k->rpc, WEFT_EXPORT_PROG, WEFT_EXPORT_V1, WEFT_EXPORT_OPEN,
	                     (xdrproc_t)xdr_weft_export_open_args, &args,
	                     (xdrproc_t)xdr_weft_export_open_res, sizeof(weft_export_open_res),
	                     CALL_GIVE_UP_US, on_open, k);
}

/* Post blocks, each a Write and its Flush, as many as may be in flight. */
static void
client_blocks(struct world_client *c)
{
	while (c->pushing && !c->stay.gone && c->in_flight < WORLD_BLOCKS) {
		uint64_t to = c->grant.slot_to[0] + c->grant.header_bytes +
		              c->next_block++ % WORLD_BLOCKS * WORLD_BLOCK;
		struct weft_sge sg = {.addr = c->mem, .len_bytes = WORLD_BLOCK};
		const struct weft_wr wr[2] = {
		        {.opcode = WEFT_WR_WRITE,
		         .sg_list = &sg,
		         .num_sge = 1,
		         .rdma = {.stag = c->grant.stag, .to = to}},
		        {.wr_id = 1,
		         .opcode = WEFT_WR_FLUSH,
		         .flags = WEFT_WR_SIGNALED,
		         .flush = {.stag = c->grant.stag,
		                   .to = to,
		                   .len_bytes = WORLD_BLOCK,
		                   .flags = WEFT_FLUSH_PERSISTENT}},
		};

		if (weft_post_send(c->stay.qp, wr, 2) != 2)
			break;
		c->in_flight++;
	}
}

/* The short connection in use. */
static struct world_conn *
once(struct world_client *c)
{
	return &c->once[c->nonce % RTE_DIM(c->once)];
}

/* Make a connection, get a grant of the export, and close the connection. */
static void
client_once(struct world_client *c, uint64_t now_ns)
{
	struct world_conn *k = once(c);

	if (!k->busy) {
		if (!c->trying || now_ns < c->next_conn_ns)
			return;
		c->next_conn_ns = now_ns + (c->often ? CONN_EVERY_NS / 10 : CONN_EVERY_NS);
		conn_begin(k);
		return;
	}
	if (k->up && !k->gone && !k->asked) {
		k->asked = true;
		if (call_open(k, WEFT_EXPORT_READ) != 0)
			k->gone = true;
	}
	if (!k->answered && !k->gone)
		return;
	c->got.conns++;
	c->got.conns_failed += !k->answered || k->gone;
	c->got.conn_max_ns = RTE_MAX(c->got.conn_max_ns, now_ns - k->since_ns);
	conn_end(k);
	c->nonce++;
}

static void
client_poll(void *arg, uint64_t now_ns)
{
	struct world_client *c = arg;

	weft_engine_poll_at(c->w, now_ns);
	if (c->opened) {
		client_blocks(c);
		client_once(c, now_ns);
		if (c->trying && !c->calling && !c->stay.gone && now_ns >= c->next_call_ns) {
			c->next_call_ns = now_ns + CALL_EVERY_NS;
			c->call_ns = now_ns;
			c->calling = call_list(&c->stay) == 0;
		}
		if (c->trying && now_ns >= c->next_ping_ns) {
			c->next_ping_ns = now_ns + PING_EVERY_NS;
			crowd_ping(world.crowd);
		}
	}
	crowd_poll(world.crowd, now_ns);
}

static uint64_t
client_next(void *arg)
{
	const struct world_client *c = arg;
	uint64_t t = RTE_MIN(weft_engine_next_ns(c->w), crowd_next_ns(world.crowd));

	if (c->trying && c->opened) {
		t = RTE_MIN(t, c->next_ping_ns);
		if (!c->calling && !c->stay.gone)
			t = RTE_MIN(t, c->next_call_ns);
	}
	if (c->trying && !c->once[c->nonce % RTE_DIM(c->once)].busy)
		t = RTE_MIN(t, c->next_conn_ns);
	return t;
}

static void
client_start(struct world_client *c)
{
	struct weft_ctx_attr ca = {.size = sizeof(ca)};
	struct weft_rand r = sim_rand(world.sim, 0);
	struct weft_cq_attr qa = {.size = sizeof(qa), .depth = 4096, .on_wc = client_on_wc};
	struct weft_evq_attr ea = {.size = sizeof(ea), .on_event = client_on_event};
	struct weft_mr_attr ma = {
	        .size = sizeof(ma), .len_bytes = WORLD_BLOCK, .access = WEFT_ACCESS_LOCAL_WRITE};
	const struct weft_netif_attr na = {
	        .dev = sim_link_dev(),
	        .dev_arg = sim_link_dev_arg(world.link, 0),
	        .pool = pool("hostile_client", 16383),
	        .mac = {{2, 0, 0, 0, 0, 2}},
	        .addr = weft_ip_from_v4(htonl(CROWD_CLIENT)),
	        .prefix_len = 16,
	        .no_ipv6 = true,
	        .mtu_bytes = 1500,
	};
	struct sim_node sn = {.poll = client_poll, .next = client_next, .arg = c};

	sim_link_pool(world.link, 0, na.pool);
	CHECK_EQ(weft_engine_ctx_create(&ca, &r, NULL, &c->ctx), 0);
	CHECK_EQ(weft_engine_worker_create(c->ctx, NULL, NULL, &r, sim_now_ns(world.sim), &c->w),
	         0);
	CHECK_EQ(weft_engine_add_netif(c->w, &na), 0);
	CHECK_EQ(weft_pd_alloc(c->ctx, &c->pd), 0);
	CHECK_EQ(weft_cq_create(c->ctx, &qa, &c->cq), 0);
	CHECK_EQ(weft_evq_create(c->ctx, &ea, &c->evq), 0);
	c->mem = aligned_alloc(4096, WORLD_BLOCK);
	CHECK(c->mem != NULL);
	memset(c->mem, 0x5a, WORLD_BLOCK);
	ma.addr = c->mem;
	CHECK_EQ(weft_mr_reg(c->pd, &ma, &c->mr), 0);
	sim_add_node(world.sim, &sn);
}

static void
client_stop(struct world_client *c)
{
	conn_end(once(c));
	conn_end(&c->stay);
	weft_mr_dereg(c->mr, NULL, NULL);
	world_run(5 * WORLD_S);
	weft_ctx_destroy(c->ctx);
	free(c->mem);
}

static bool
client_is_up(void)
{
	return world.c.stay.up || world.c.stay.gone;
}

static bool
client_is_open(void)
{
	return world.c.opened || world.c.stay.gone;
}

static bool
client_is_still(void)
{
	const struct world_client *c = &world.c;

	return (c->in_flight == 0 || c->stay.gone) && !c->calling && !once(&world.c)->busy;
}

/* ---- Target and client together ---- */

void
world_run(uint64_t ns)
{
	sim_run(world.sim, sim_now_ns(world.sim) + ns, restless, NULL);
}

static bool
call_done(void *arg)
{
	return (*(bool (**)(void))arg)();
}

bool
world_until(uint64_t ns, bool (*done)(void))
{
	return sim_run(world.sim, sim_now_ns(world.sim) + ns, call_done, &done);
}

void
world_open(const struct world_attr *a)
{
	/* The client's link is the slow one, so the target's packets to the crowd do not delay the
	 * client's. */
	const struct sim_link_cfg cfg[2] = {
	        {.delay_ns = 20000, .rate_bps = 100000000, .queue_pkts = 4000},
	        {.delay_ns = 20000, .rate_bps = 2000000000, .queue_pkts = 100000},
	};
	struct world_client *c = &world.c;
	int fd;

	test_eal_init();
	(void)weft_log_levels("weft.*:critical"); /* thousands of peers are refused */
	memset(&world, 0, sizeof(world));
	world.a = *a;
	world.t = calloc(1, sizeof(*world.t));
	world.crowd = calloc(1, sizeof(*world.crowd));
	CHECK(world.t != NULL && world.crowd != NULL);
	snprintf(world.file, sizeof(world.file), "/tmp/weft-hostile.XXXXXX");
	fd = mkstemp(world.file);
	CHECK(fd >= 0);
	close(fd);
	world.sim = sim_create(a->seed, pool("hostile_client", 16383));
	sim_reserve(world.sim, 1 << 17);
	world.link = sim_link_create(world.sim, cfg);
	target_start();
	crowd_init(world.crowd, world.sim, world.link, a->seed);
	client_start(c);
	world_run(2 * WORLD_S); /* for the announcements of the addresses */
	conn_begin(&c->stay);
	CHECK(world_until(5 * WORLD_S, client_is_up) && c->stay.up);
	CHECK_EQ(call_open(&c->stay, WEFT_EXPORT_READ | WEFT_EXPORT_WRITE | WEFT_EXPORT_FLUSH), 0);
	CHECK(world_until(5 * WORLD_S, client_is_open) && c->opened);
	world_run(WORLD_S);
}

void
world_close(void)
{
	world.c.pushing = world.c.trying = false;
	client_stop(&world.c);
	target_stop();
	sim_destroy(world.sim);
	world.sim = NULL;
	unlink(world.file);
	free(world.crowd);
	conf_free(&world.t->conf);
	free(world.t);
}

void
world_push(bool on)
{
	struct world_client *c = &world.c;
	uint64_t now = sim_now_ns(world.sim);

	c->pushing = c->trying = on;
	c->next_call_ns = c->next_conn_ns = c->next_ping_ns = now;
	if (!on)
		(void)world_until(10 * WORLD_S, client_is_still);
}

struct world_held
world_held(void)
{
	struct world_held h = {
	        .rx_mbufs = rte_mempool_in_use_count(world.rx_pool),
	        .tx_mbufs = rte_mempool_in_use_count(world.tx_pool),
	        .target_conns = atomic_load(&world.t->nconns),
	        .regions = weft_mem_count(inside_mem(world.t->stack.ctx)),
	        .heap_bytes = mallinfo2().uordblks + mallinfo2().hblkhd -
	                      weft_handle_kept_bytes(), /* has its own limit: 64 of each kind */
	};

	for (unsigned int i = 0; i < world.a.workers; i++) {
		const struct weft_tcp_stats *st =
		        weft_tcp_stats(weft_engine_tcp(world.t->stack.workers[i]));

		h.conns += st->conns_now;
		h.half_open += st->half_open_now;
	}
	return h;
}
