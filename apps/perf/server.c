/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The serving side: one client at a time, run to completion on the calling thread. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "server.h"
#include "ui.h"
#include "stack.h"

static void
server_close_medium(void *arg)
{
	struct server *s = arg;

	weft_persist_close(s->persist);
	s->persist = NULL;
	s->closing = false;
}

static void
server_release(struct server *s)
{
	if (s->closing)
		return; /* nothing else of this client is left */
	server_app_end(s);
	if (s->qp != NULL)
		weft_qp_destroy(s->qp);
	s->qp = NULL;
	server_rpc_end(s);
	/* The next client may use the same medium, so it waits until nothing accesses it for
	 * this one. */
	s->closing = s->persist != NULL;
	if (s->host != NULL)
		weft_log_host_destroy(s->host, server_close_medium, s);
	else if (s->persist != NULL && s->mr != NULL)
		weft_mr_dereg(s->mr, server_close_medium, s);
	else if (s->persist != NULL)
		server_close_medium(s);
	else if (s->mr != NULL)
		weft_mr_dereg(s->mr, free, s->mem);
	else
		free(s->mem);
	s->host = NULL;
	s->mr = NULL;
	s->mem = NULL;
	free(s->out);
	s->out = NULL;
	s->gone = false;
	s->pings = 0;
	s->unacked = 0;
}

static int
server_post_recv(struct server *s, uint64_t slot)
{
	struct weft_sge sge = {s->mem + (slot % 2) * s->hello.size_bytes, s->hello.size_bytes, 0};
	struct weft_recv_wr wr = {.wr_id = slot, .sg_list = &sge, .num_sge = 1};

	return weft_post_recv(s->qp, &wr, 1);
}

static int
server_send(struct server *s, uint32_t len)
{
	struct weft_sge sge = {s->out, len, 0};
	struct weft_wr wr = {.opcode = WEFT_WR_SEND, .sg_list = &sge, .num_sge = 1};

	return weft_post_send(s->qp, &wr, 1);
}

/** Answer one half of a ping-pong in the same way. */
static int
server_echo(struct server *s)
{
	struct weft_sge sge = {s->out, s->hello.size_bytes, 0};
	struct weft_wr wr = {.opcode = WEFT_WR_WRITE_IMM,
	                     .sg_list = &sge,
	                     .num_sge = 1,
	                     .write_imm = {.stag = s->hello.stag, .to = s->hello.to}};

	if (s->hello.test == PERF_SEND)
		return server_send(s, s->hello.size_bytes);
	return weft_post_send(s->qp, &wr, 1);
}

/** Get the memory of the test: on the medium if one was named or the test needs one. 0 or
 * -errno. */
static int
server_memory(struct server *s, struct weft_mr_attr *ma, struct perf_welcome *hi)
{
	const struct perf_medium *m = s->medium;
	bool place = perf_is_place(s->hello.test);
	bool medium = place || s->hello.test == PERF_RPC_DURABLE;
	struct weft_persist_attr pa = {.size = sizeof(pa),
	                               .driver = m->driver != NULL ? m->driver : "volatile",
	                               .path = m->path,
	                               .create = true,
	                               .numa_node = -1};
	int rc;

	s->slots = perf_slots(s->hello.test, s->hello.depth);
	/* Two buffers, so that consecutive messages do not touch the same lines. */
	if (s->hello.test == PERF_LOG_APPEND)
		s->mem_bytes = perf_log_bytes(s->hello.depth, s->hello.size_bytes);
	else
		s->mem_bytes = place ? perf_word_at(s->slots, s->hello.size_bytes) + PERF_WORDS
		                     : (s->slots + 1) * s->hello.size_bytes + 64;
	if (!medium && m->driver == NULL) {
		s->mem = aligned_alloc(4096, (s->mem_bytes + 4095) & ~4095ull);
		if (s->mem == NULL)
			return -ENOMEM;
	} else {
		pa.bytes = (s->mem_bytes + 4095) & ~4095ull;
		rc = weft_persist_open(&pa, &s->persist);
		if (rc != 0)
			return rc;
		s->mem = s->persist->base;
		ma->persist = s->persist;
		ma->hash = m->hash;
		ma->access |= WEFT_ACCESS_VERIFY | WEFT_ACCESS_FLUSH_VISIBLE;
		if (s->persist->ops->persistent)
			ma->access |= WEFT_ACCESS_FLUSH_PERSISTENT;
		hi->persistent = s->persist->ops->persistent;
		snprintf(hi->hash, sizeof(hi->hash), "%s", m->hash);
		snprintf(hi->mechanism, sizeof(hi->mechanism), "%s", s->persist->mechanism);
	}
	memset(s->mem, 0, s->mem_bytes);
	if (s->persist != NULL)
		weft_persist_mark(s->persist, 0, s->mem_bytes);
	return 0;
}

static void
server_granted(void *arg, const struct weft_log_grant *g, int status)
{
	struct server *s = arg;

	if (status == 0)
		s->grant = *g;
}

/** Register the memory. A log's memory is granted by its log host, to this connection alone. */
static int
server_register(struct server *s, const struct weft_mr_attr *ma)
{
	int rc;

	if (s->hello.test != PERF_LOG_APPEND) {
		rc = weft_mr_reg(s->pd, ma, &s->mr);
		s->grant.stag = rc == 0 ? weft_mr_stag(s->mr) : 0;
		return rc;
	}
	rc = weft_log_host_create(s->pd, ma, &s->host);
	if (rc == 0)
		rc = weft_log_host_grant(s->host, false, server_granted, s);
	return rc;
}

/** Accept a client: allocate what its test needs. 0 or -errno. */
static int
server_admit(struct server *s, const struct weft_event *ev)
{
	struct weft_qp_attr qa = {.size = sizeof(qa),
	                          .worker = s->w,
	                          .send_cq = s->cq,
	                          .recv_cq = s->cq,
	                          .evq = s->evq,
	                          .sq_depth = 1024,
	                          .rq_depth = SERVER_RQ,
	                          .ird = 256,
	                          .ord = 16,
	                          .user = s,
	                          .max_inline_bytes = sizeof(struct perf_answer)};
	struct weft_mr_attr ma = {.size = sizeof(ma),
	                          .access = WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_REMOTE_READ |
	                                    WEFT_ACCESS_REMOTE_WRITE | WEFT_ACCESS_REMOTE_ATOMIC};
	struct perf_welcome hi = {
	        .magic = PERF_MAGIC, .version = PERF_VERSION, .rq_depth = SERVER_RQ};
	struct weft_conn_attr ca = {.size = sizeof(ca),
	                            .private_data = &hi,
	                            .private_data_bytes = sizeof(hi),
	                            .keepalive_us = 2000000};
	uint32_t ird;
	int rc;

	memcpy(&s->hello, ev->private_data, sizeof(s->hello));
	s->out = calloc(1, (size_t)s->hello.size_bytes + 64);
	if (s->out == NULL)
		return -ENOMEM;
	rc = server_memory(s, &ma, &hi);
	if (rc != 0)
		return rc;
	ma.addr = s->mem;
	ma.len_bytes = s->mem_bytes;
	/* A commit is four requests. */
	ird = s->hello.test == PERF_LOG_APPEND ? 256 : s->hello.depth * 4;
	qa.ird = (uint16_t)(ird < 16 ? 16 : ird > 256 ? 256 : ird);
	if (perf_is_two_sided(s->hello.test) && s->hello.app_thread)
		qa.recv_cq = s->app_cq;
	rc = server_register(s, &ma);
	if (rc == 0)
		rc = weft_qp_create(s->pd, &qa, &s->qp);
	if (rc == 0 && perf_is_two_sided(s->hello.test))
		rc = server_app_begin(s);
	if (rc == 0 && perf_is_rpc(s->hello.test))
		rc = server_rpc_begin(s);
	if (rc != 0)
		return rc;
	if (perf_takes_receive(s->hello.test))
		for (uint64_t i = 0; i < SERVER_RQ && rc >= 0; i++)
			rc = server_post_recv(s, i);
	if (rc < 0)
		return rc;
	hi.stag = s->grant.stag;
	hi.len_bytes = s->mem_bytes;
	return weft_accept(ev->connreq, s->qp, &ca);
}

static bool
hello_ok(const struct weft_event *ev)
{
	struct perf_hello h;

	if (ev->private_data_bytes < sizeof(h))
		return false;
	memcpy(&h, ev->private_data, sizeof(h));
	return memcmp(h.magic, PERF_MAGIC, 8) == 0 && h.version == PERF_VERSION &&
	       h.test < PERF_NTESTS && h.size_bytes >= 1 && h.size_bytes <= PERF_MAX_BYTES &&
	       h.depth >= 1 && h.depth <= PERF_MAX_DEPTH &&
	       perf_slots(h.test, h.depth) * h.size_bytes <= PERF_MAX_SLOTS_BYTES;
}

static void
server_event(void *user, const struct weft_event *ev)
{
	struct server *s = user;
	int rc;

	switch (ev->type) {
	case WEFT_EV_CONNECT_REQUEST:
		if (s->qp != NULL || s->closing || !hello_ok(ev)) {
			const char *why = s->qp != NULL || s->closing
			                          ? PERF_BUSY
			                          : "not a weft-perf client of this version";

			weft_reject(ev->connreq, why, (uint16_t)strlen(why));
			break;
		}
		rc = server_admit(s, ev);
		if (rc != 0) {
			const char *why = strerror(-rc);

			weft_reject(ev->connreq, why, (uint16_t)strlen(why));
			server_release(s);
		}
		break;
	case WEFT_EV_DISCONNECTED:
	case WEFT_EV_CONNECT_ERROR:
		s->gone = true;
		break;
	default:
		break;
	}
}

static void
server_wc(void *user, struct weft_cq *cq, const struct weft_wc *wc, unsigned int n)
{
	struct server *s = user;

	(void)cq;
	for (unsigned int i = 0; i < n; i++) {
		if (s->rpc != NULL) {
			(void)weft_rpc_wc(s->rpc, &wc[i]);
			continue;
		}
		if (wc[i].status != WEFT_WC_SUCCESS ||
		    (wc[i].opcode != WEFT_WC_RECV && wc[i].opcode != WEFT_WC_RECV_IMM) ||
		    s->qp == NULL)
			continue;
		if (perf_is_two_sided(s->hello.test)) {
			server_app_take(s, &wc[i]);
			continue;
		}
		server_post_recv(s, wc[i].wr_id);
		if (s->hello.latency)
			server_echo(s);
		else if (++s->unacked == ACK_EVERY) {
			s->unacked = 0;
			server_send(s, 4);
		}
	}
}

/** Write latency: the client's Write ends in a counter octet; answer when that changes. */
static void
server_pong(struct server *s)
{
	volatile uint8_t *last = s->mem + s->hello.size_bytes - 1;
	uint8_t want = (uint8_t)(s->pings + 1);
	struct weft_sge sge = {s->out, s->hello.size_bytes, 0};
	struct weft_wr wr = {.opcode = WEFT_WR_WRITE,
	                     .sg_list = &sge,
	                     .num_sge = 1,
	                     .rdma = {s->hello.stag, s->hello.to}};

	if (*last != want)
		return;
	s->out[s->hello.size_bytes - 1] = want;
	if (weft_post_send(s->qp, &wr, 1) == 1)
		s->pings++;
}

/** Sleep while there is no client. *since_ns: the first call since a packet came; 0: this one. */
static void
server_nap(struct weft_worker *w, uint64_t *since_ns)
{
	uint64_t now_ns = ui_now_ns(), nap_us;

	if (*since_ns == 0)
		*since_ns = now_ns;
	nap_us = (now_ns - *since_ns) / 1000 / SERVER_NAP_SHARE;
	weft_worker_idle(w, nap_us < SERVER_IDLE_US ? (uint32_t)nap_us : SERVER_IDLE_US);
}

int
perf_server_run(struct weft_ctx *ctx, struct weft_worker *w, const struct sockaddr *addr,
                socklen_t addr_len, const struct perf_medium *medium, bool once,
                const volatile sig_atomic_t *stop)
{
	struct server s = {.ctx = ctx, .w = w, .medium = medium};
	struct weft_evq_attr ea = {.size = sizeof(ea), .on_event = server_event, .user = &s};
	struct weft_cq_attr ca = {
	        .size = sizeof(ca), .depth = 2 * SERVER_RQ, .on_wc = server_wc, .user = &s};
	struct weft_cq_attr aa = {.size = sizeof(aa), .depth = 1024, .want_fd = true};
	struct weft_listen_attr la = {.size = sizeof(la), .keepalive_us = 2000000, .user = &s};
	struct weft_listener *l = NULL;
	uint64_t since_ns = 0;
	int rc;

	rc = weft_evq_create(ctx, &ea, &s.evq);
	if (rc == 0)
		rc = weft_cq_create(ctx, &ca, &s.cq);
	if (rc == 0)
		rc = weft_cq_create(ctx, &aa, &s.app_cq);
	if (rc == 0)
		rc = weft_pd_alloc(ctx, &s.pd);
	la.evq = s.evq;
	if (rc == 0)
		rc = weft_listen(ctx, addr, addr_len, &la, &l);
	while (rc == 0 && !*stop) {
		if (weft_worker_poll(w) > 0 || s.qp != NULL)
			since_ns = 0;
		else
			server_nap(w, &since_ns);
		if (s.qp == NULL && weft_port_removed(weft_port_get(ctx, 0)))
			rc = -ENODEV;
		if (s.qp != NULL && !s.gone && s.hello.test == PERF_WRITE && s.hello.latency)
			server_pong(&s);
		if (s.gone) {
			server_release(&s);
			s.served++;
			if (once)
				break;
		}
	}
	if (l != NULL)
		weft_unlisten(l);
	server_release(&s);
	while (s.closing)
		weft_worker_poll(w);
	stack_release(w, s.cq, s.evq, s.pd);
	stack_release(NULL, s.app_cq, NULL, NULL);
	return rc;
}
