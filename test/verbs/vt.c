/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Two complete stacks on a simulated link: set-up, connection, and waiting for results. */

#include <arpa/inet.h>
#include <pthread.h>

#include <rte_mempool.h>

#include "vt.h"
#include "weft_netif_attr.h"
#include "test_xorshift.h"
#include "weft_netif_mbuf.h"

/** Time limit of a start-up. It is long because each lost segment doubles the retransmission
 * timeout, and a burst of losses must not end the start-up. */
#define VT_STARTUP_US 100000000

static struct rte_mempool *
vt_pool(uint16_t mtu)
{
	static const struct {
		const char *name;
		unsigned int mbufs;
		uint16_t mtu_bytes;
	} kinds[] = {{"vt", 8191, 1500}, {"vt_big", 4095, 9000}, {"vt_large", 1023, 65535}};
	static struct rte_mempool *pool[RTE_DIM(kinds)];
	unsigned int i = 0;

	test_eal_init();
	while (mtu > kinds[i].mtu_bytes)
		i++;
	if (pool[i] == NULL)
		CHECK_EQ(weft_netif_pool_create(kinds[i].name, kinds[i].mbufs, kinds[i].mtu_bytes,
		                                -1, &pool[i]),
		         0);
	return pool[i];
}

static void
vt_node_poll(void *arg, uint64_t now_ns)
{
	weft_engine_poll_at(((struct vt_node *)arg)->w, now_ns);
}

static uint64_t
vt_node_next(void *arg)
{
	return weft_engine_next_ns(((struct vt_node *)arg)->w);
}

static void
vt_node_open(struct vt_node *n, const struct vt_attr *a)
{
	struct weft_ctx_attr ca = {.size = sizeof(ca)};
	struct weft_cq_attr qa = {.size = sizeof(qa), .depth = a->cq_depth ? a->cq_depth : 1024};
	struct weft_evq_attr ea = {.size = sizeof(ea)};
	struct weft_rand r = sim_rand(n->t->sim, n->id);
	struct weft_netif_attr na = {
	        .dev = sim_link_dev(),
	        .dev_arg = sim_link_dev_arg(n->t->link, n->id),
	        .pool = n->t->pool,
	        .mac = {{2, 0, 0, 0, 0, (uint8_t)(n->id + 1)}},
	        .addr = weft_ip_from_v4(htonl(0x0a000001 + n->id)),
	        .prefix_len = 24,
	        .addr6 = {.b = {0xfd, 0, 0, 7, [15] = (uint8_t)(n->id + 1)}},
	        .prefix6_len = 64,
	        .vlan_id = a->vlan_id[n->id],
	        .mtu_bytes = n->id == 1 && a->mtu_far_bytes ? a->mtu_far_bytes
	                     : a->mtu_bytes                 ? a->mtu_bytes
	                                                    : 1500,
	        .nnets = a->nnets,
	};
	struct weft_worker_attr wa = {
	        .size = sizeof(wa), .lcore = -1, .max_conns = a->max_conns[n->id]};
	struct sim_node sn = {.poll = vt_node_poll, .next = vt_node_next, .arg = n};

	CHECK_EQ(weft_engine_ctx_create(&ca, &r, NULL, &n->ctx), 0);
	CHECK_EQ(weft_engine_worker_create(n->ctx, &wa, &a->tcp, &r, sim_now_ns(n->t->sim), &n->w),
	         0);
	memcpy(na.nets, a->nets[n->id], a->nnets * sizeof(na.nets[0]));
	CHECK_EQ(weft_engine_add_netif(n->w, &na), 0);
	CHECK_EQ(weft_pd_alloc(n->ctx, &n->pd), 0);
	CHECK_EQ(weft_cq_create(n->ctx, a->cq != NULL ? a->cq : &qa, &n->cq), 0);
	CHECK_EQ(weft_evq_create(n->ctx, a->evq[n->id] != NULL ? a->evq[n->id] : &ea, &n->evq), 0);
	sim_add_node(n->t->sim, &sn);
}

void
vt_open(struct vt *t, const struct vt_attr *attr)
{
	struct vt_attr a = {0};

	if (attr != NULL)
		a = *attr;
	if (a.link.delay_ns == 0)
		a.link.delay_ns = 20000;
	memset(t, 0, sizeof(*t));
	t->pool = vt_pool(RTE_MAX(a.mtu_bytes, a.mtu_far_bytes));
	t->pool_avail = rte_mempool_avail_count(t->pool);
	t->seed = a.seed ? a.seed : 1;
	t->family = a.family;
	t->sim = sim_create(t->seed, t->pool);
	t->link = sim_link_create(t->sim, (struct sim_link_cfg[2]){a.link, a.link});
	for (unsigned int i = 0; i < 2; i++) {
		t->n[i].t = t;
		t->n[i].id = i;
		vt_node_open(&t->n[i], &a);
	}
	vt_run(t, VT_MS); /* the announcements of both addresses */
}

void
vt_close(struct vt *t)
{
	for (unsigned int i = 0; i < 2; i++) {
		struct vt_node *n = &t->n[i];

		if (n->qp != NULL)
			weft_qp_destroy(n->qp);
		if (n->lsn != NULL)
			weft_unlisten(n->lsn);
		if (n->mr != NULL)
			weft_mr_dereg(n->mr, NULL, NULL);
	}
	vt_run(t, 20 * VT_S);
	for (unsigned int i = 0; i < 2; i++) {
		struct vt_node *n = &t->n[i];

		CHECK_MSG(weft_mem_count(inside_mem(n->ctx)) == 0, "seed %" PRIu64, t->seed);
		CHECK_MSG(weft_tcp_stats(weft_engine_tcp(n->w))->conns_now == 0, "seed %" PRIu64,
		          t->seed);
		CHECK_EQ(weft_cq_destroy(n->cq), 0);
		CHECK_EQ(weft_evq_destroy(n->evq), 0);
		CHECK_EQ(weft_pd_dealloc(n->pd), 0);
	}
	for (unsigned int i = 0; i < 2; i++) {
		weft_ctx_destroy(t->n[i].ctx);
		if (t->n[i].persist != NULL)
			weft_persist_close(t->n[i].persist);
		else
			free(t->n[i].mem);
	}
	sim_destroy(t->sim);
	CHECK_MSG(rte_mempool_avail_count(t->pool) == t->pool_avail,
	          "seed %" PRIu64 ": %u of %u mbufs", t->seed, rte_mempool_avail_count(t->pool),
	          t->pool_avail);
}

void
vt_mem(struct vt_node *n, uint64_t len, uint32_t access)
{
	struct weft_mr_attr a = {
	        .size = sizeof(a),
	        .len_bytes = len,
	        .base_to = 0x100000000ULL * (n->id + 1),
	        .access = access,
	        .hash = access & WEFT_ACCESS_VERIFY ? "crc32c" : NULL,
	};

	if (access & (WEFT_ACCESS_FLUSH_VISIBLE | WEFT_ACCESS_VERIFY)) {
		struct weft_persist_attr pa = {
		        .size = sizeof(pa), .driver = "volatile", .bytes = len, .numa_node = -1};

		CHECK_EQ(weft_persist_open(&pa, &n->persist), 0);
		n->mem = n->persist->base;
		a.persist = n->persist;
	} else {
		n->mem = aligned_alloc(4096, (len + 4095) & ~4095ULL);
		CHECK(n->mem != NULL);
	}
	memset(n->mem, 0, len);
	a.addr = n->mem;
	CHECK_EQ(weft_mr_reg(n->pd, &a, &n->mr), 0);
}

struct weft_qp_attr
vt_qp_attr(struct vt_node *n)
{
	return (struct weft_qp_attr){
	        .size = sizeof(struct weft_qp_attr),
	        .worker = n->w,
	        .send_cq = n->cq,
	        .recv_cq = n->cq,
	        .evq = n->evq,
	        .user = n,
	};
}

struct sockaddr_in
vt_addr(unsigned int node, uint16_t port)
{
	return (struct sockaddr_in){.sin_family = AF_INET,
	                            .sin_port = htons(port),
	                            .sin_addr.s_addr = htonl(0x0a000001 + node)};
}

struct sockaddr_storage
vt_addr_of(enum vt_family family, unsigned int node, uint16_t port, socklen_t *len)
{
	struct sockaddr_in sin = vt_addr(node, port);
	struct sockaddr_in6 sin6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
	struct sockaddr_storage ss = {0};

	/* The link-local address is made from the node's MAC (RFC 4291 appendix A). */
	if (family == VT_V6)
		sin6.sin6_addr = (struct in6_addr){{{0xfd, 0, 0, 7, [15] = (uint8_t)(node + 1)}}};
	else
		sin6.sin6_addr = (struct in6_addr){
		        {{0xfe, 0x80, [11] = 0xff, 0xfe, [15] = (uint8_t)(node + 1)}}};
	*len = family == VT_V4 ? sizeof(sin) : sizeof(sin6);
	memcpy(&ss, family == VT_V4 ? (void *)&sin : (void *)&sin6, *len);
	return ss;
}

void
vt_listen(struct vt_node *n)
{
	struct weft_listen_attr la = {
	        .size = sizeof(la), .evq = n->evq, .startup_timeout_us = VT_STARTUP_US, .user = n};
	socklen_t len;
	struct sockaddr_storage sa = vt_addr_of(n->t->family, n->id, VT_PORT, &len);

	CHECK_EQ(weft_listen(n->ctx, (struct sockaddr *)&sa, len, &la, &n->lsn), 0);
}

void
vt_connect(struct vt *t, const struct weft_qp_attr *a0, const struct weft_qp_attr *a1)
{
	const struct weft_qp_attr qa[2] = {a0 != NULL ? *a0 : vt_qp_attr(&t->n[0]),
	                                   a1 != NULL ? *a1 : vt_qp_attr(&t->n[1])};
	const struct weft_conn_attr ca[2] = {{.size = sizeof(ca[0])}, {.size = sizeof(ca[1])}};

	vt_connect_as(t, qa, ca);
}

void
vt_connect_as(struct vt *t, const struct weft_qp_attr qa[2], const struct weft_conn_attr ca[2])
{
	struct weft_conn_attr ca0 = ca[0];
	socklen_t len;
	struct sockaddr_storage sa = vt_addr_of(t->family, 1, VT_PORT, &len);
	struct weft_event ev;

	if (t->n[1].lsn == NULL)
		vt_listen(&t->n[1]);
	if (ca0.timeout_us == 0)
		ca0.timeout_us = VT_STARTUP_US;
	for (unsigned int i = 0; i < 2; i++)
		CHECK_EQ(weft_qp_create(t->n[i].pd, &qa[i], &t->n[i].qp), 0);
	CHECK_EQ(weft_connect(t->n[0].qp, (struct sockaddr *)&sa, len, &ca0), 0);
	ev = vt_ev(&t->n[1], WEFT_EV_CONNECT_REQUEST);
	CHECK(weft_connreq_worker(ev.connreq) == t->n[1].w);
	CHECK_EQ(weft_accept(ev.connreq, t->n[1].qp, &ca[1]), 0);
	vt_ev(&t->n[1], WEFT_EV_ESTABLISHED);
	vt_ev(&t->n[0], WEFT_EV_ESTABLISHED);
}

void
vt_speak(struct vt *t)
{
	struct weft_wr wr = {.opcode = WEFT_WR_SEND};
	uint8_t in[1];

	vt_post_recv(&t->n[1], in, 1, 0);
	vt_post(&t->n[0], &wr);
	CHECK_EQ(vt_wc(&t->n[1]).status, WEFT_WC_SUCCESS);
}

void
vt_second_stream(struct vt *t, struct weft_qp *qp[2])
{
	qp[0] = t->n[0].qp;
	qp[1] = t->n[1].qp;
	vt_connect(t, NULL, NULL);
	vt_speak(t);
}

struct elsewhere {
	void (*fn)(void *arg);
	void *arg;
};

static void *
elsewhere_main(void *arg)
{
	struct elsewhere *e = arg;

	e->fn(e->arg);
	return NULL;
}

void
vt_elsewhere(void (*fn)(void *arg), void *arg)
{
	struct elsewhere e = {fn, arg};
	pthread_t th;

	CHECK_EQ(pthread_create(&th, NULL, elsewhere_main, &e), 0);
	CHECK_EQ(pthread_join(th, NULL), 0);
}

void
vt_run(struct vt *t, uint64_t ns)
{
	sim_run(t->sim, sim_now_ns(t->sim) + ns, NULL, NULL);
	/* A worker without events was not polled. This poll tells it the time at which the test
	 * goes on. */
	for (unsigned int i = 0; i < 2; i++)
		weft_engine_poll_at(t->n[i].w, sim_now_ns(t->sim));
}

bool
vt_until(struct vt *t, uint64_t ns, bool (*cond)(void *arg), void *arg)
{
	return sim_run(t->sim, sim_now_ns(t->sim) + ns, cond, arg);
}

struct vt_wait {
	struct vt_node *n;
	struct weft_wc wc;
	struct weft_event ev;
};

static bool
vt_have_wc(void *arg)
{
	struct vt_wait *w = arg;
	int rc = weft_cq_poll(w->n->cq, &w->wc, 1);

	CHECK(rc >= 0);
	return rc == 1;
}

struct weft_wc
vt_wc(struct vt_node *n)
{
	struct vt_wait w = {.n = n};

	CHECK_MSG(vt_until(n->t, 120 * VT_S, vt_have_wc, &w), "node %u, seed %" PRIu64, n->id,
	          n->t->seed);
	return w.wc;
}

static bool
vt_have_ev(void *arg)
{
	struct vt_wait *w = arg;

	return weft_evq_poll(w->n->evq, &w->ev) == 1;
}

struct weft_event
vt_ev(struct vt_node *n, enum weft_event_type type)
{
	struct vt_wait w = {.n = n};

	CHECK_MSG(vt_until(n->t, 120 * VT_S, vt_have_ev, &w),
	          "node %u, seed %" PRIu64 ": no event, %s wanted", n->id, n->t->seed,
	          weft_event_str(type));
	CHECK_MSG(w.ev.type == type, "node %u, seed %" PRIu64 ": event %s (status %d), %s wanted",
	          n->id, n->t->seed, weft_event_str(w.ev.type), w.ev.status, weft_event_str(type));
	return w.ev;
}

void
vt_post(struct vt_node *n, const struct weft_wr *wr)
{
	CHECK_EQ(weft_post_send(n->qp, wr, 1), 1);
}

void
vt_post_recv(struct vt_node *n, void *buf, uint32_t len, uint64_t wr_id)
{
	struct weft_sge sg = {.addr = buf, .len_bytes = len};
	struct weft_recv_wr wr = {.wr_id = wr_id, .sg_list = &sg, .num_sge = 1};

	CHECK_EQ(weft_post_recv(n->qp, &wr, 1), 1);
}

void
vt_fill(uint8_t *buf, size_t len, uint64_t seed)
{
	uint64_t x = seed * 0x9e3779b97f4a7c15ULL + 1;

	for (size_t i = 0; i < len; i += sizeof(x)) {
		(void)test_xorshift(&x);
		memcpy(buf + i, &x, RTE_MIN(sizeof(x), len - i));
	}
}

uint32_t
vt_crc32c(const void *buf, size_t len, uint8_t out[4])
{
	const struct weft_hash_ops *h = weft_hash_find("crc32c");
	uint32_t v;

	CHECK(h != NULL && h->result_bytes == 4);
	CHECK_EQ(weft_hash_once(h, buf, len, out), 0);
	memcpy(&v, out, 4);
	return v;
}
