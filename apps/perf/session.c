/* SPDX-License-Identifier: BSD-3-Clause */
/** @file One connection of the serving side: its memory, its QP, and what it answers. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "hello.h"
#include "server.h"
#include "stack.h"
#include "ui.h"

/** Whether the server sends messages of the test. */
static bool
session_sends(const struct session *s)
{
	return s->hello.both_ways != 0 || s->hello.reversed != 0;
}

/* ---- Memory ---- */

/** What the registration and the client have to know of the memory. */
static void
session_describe(const struct session *s, struct weft_mr_attr *ma, struct perf_welcome *hi)
{
	if (s->persist == NULL)
		return;
	weft_persist_mark(s->persist, 0, s->mem_bytes);
	ma->persist = s->persist;
	ma->hash = s->medium->hash;
	ma->access |= WEFT_ACCESS_VERIFY | WEFT_ACCESS_FLUSH_VISIBLE;
	if (s->persist->ops->persistent)
		ma->access |= WEFT_ACCESS_FLUSH_PERSISTENT;
	hi->persistent = s->persist->ops->persistent;
	snprintf(hi->hash, sizeof(hi->hash), "%s", s->medium->hash);
	snprintf(hi->mechanism, sizeof(hi->mechanism), "%s", s->persist->mechanism);
}

/** Octets of the region. Two buffers, so that consecutive messages do not touch the same lines. */
static uint64_t
session_bytes(const struct perf_hello *h)
{
	uint64_t slots = perf_slots(h->test, h->depth);

	if (h->verify != 0 && h->test == PERF_SEND &&
	    h->use_srq == 0) /* each receive has a buffer of its own */
		slots = (uint64_t)h->rx_depth + SERVER_CTL_RQ;
	else if (h->verify != 0 && h->test != PERF_SEND)
		slots = h->depth;
	if (h->test == PERF_LOG_APPEND)
		return perf_log_bytes(h->depth, h->size_bytes);
	return perf_is_place(h->test) ? perf_word_at(slots, h->size_bytes) + PERF_WORDS
	                              : (slots + 1) * h->size_bytes + 64;
}

static void
session_granted(void *arg, const struct weft_log_grant *g, int status)
{
	struct session *s = arg;

	if (status == 0)
		s->grant = *g;
}

/** Register the memory. A log's memory is granted by its log host, to this connection alone. */
static int
session_register(struct session *s, struct weft_mr_attr *ma)
{
	struct weft_pd *pd = s->server->all->pd;
	int rc;

	ma->addr = s->mem;
	ma->len_bytes = s->mem_bytes;
	if (s->hello.test == PERF_LOG_APPEND) {
		rc = weft_log_host_create(pd, ma, &s->host);
		if (rc == 0)
			rc = weft_log_host_grant(s->host, false, session_granted, s);
		return rc;
	}
	rc = weft_mr_reg(pd, ma, &s->mr);
	s->grant.stag = rc == 0 ? weft_mr_stag(s->mr) : 0;
	if (rc == 0 && session_sends(s)) {
		struct weft_mr_attr own = {.size = sizeof(own),
		                           .addr = s->out,
		                           .len_bytes = (uint64_t)s->hello.size_bytes + 64,
		                           .access = WEFT_ACCESS_LOCAL_WRITE};

		rc = weft_mr_reg(pd, &own, &s->out_mr);
	}
	return rc;
}

/* ---- Messages ---- */

static int
session_post_recv(struct session *s, uint64_t slot)
{
	/* Two buffers are enough where their content is not compared. */
	const bool sends = s->hello.test == PERF_SEND;
	const uint64_t at = s->hello.verify != 0 && sends ? slot : slot % 2;
	struct weft_sge sge = {s->mem + at * s->hello.size_bytes, s->hello.size_bytes, 0};
	struct weft_recv_wr wr = {.wr_id = slot, .sg_list = &sge, .num_sge = 1};

	if (s->srq != NULL)
		return server_srq_post(s, slot);
	/* Immediate Data needs no buffer, and other tests have no Sends. */
	if (!sends)
		wr.num_sge = 0;
	return weft_post_recv(s->qp, &wr, 1);
}

/** A receive is free: post it, or with a list as many as that at once. */
static void
session_repost_recv(struct session *s, uint64_t slot)
{
	const struct weft_sge sge = {s->hello.test == PERF_SEND ? s->mem : NULL,
	                             s->hello.size_bytes, 0};

	if (s->hello.recv_list == 0)
		(void)session_post_recv(s, slot);
	else
		flow_repost_recv(&s->f, s->qp, &sge, s->hello.recv_list);
}

/** Answer one half of a ping-pong in the same way. */
static int
session_echo(struct session *s)
{
	struct weft_sge sge = {s->out, s->hello.size_bytes, 0};
	struct weft_wr wr = {.opcode = WEFT_WR_WRITE_IMM,
	                     .sg_list = &sge,
	                     .num_sge = 1,
	                     .write_imm = {.stag = s->hello.stag, .to = s->hello.to}};

	if (s->hello.test == PERF_SEND)
		wr.opcode = WEFT_WR_SEND;
	return weft_post_send(s->qp, &wr, 1);
}

/** The measured part begins, or with reversed the warm-up; the server sends n messages, or until it
 * is told to stop if n is 0. */
static void
session_start(struct session *s, uint64_t n)
{
	weft_qp_query(s->qp, &s->before);
	perf_self_now(&s->server->loop, &s->from);
	s->report = (struct perf_report){0};
	s->flows = session_sends(s);
	s->limit = n != 0 ? n : UINT64_MAX;
	s->stopping = s->barrier = false;
	s->f.posted = s->f.completed = 0;
	s->f.unsignaled = 0;
	s->f.acked = 0;
}

static void
session_told(struct session *s, enum perf_ctl what, uint64_t value)
{
	if (what == PERF_CTL_START) {
		session_start(s, value);
		(void)flow_tell(s->qp, PERF_CTL_START, 0);
	} else if (what == PERF_CTL_STOP) {
		s->used = perf_self_since(&s->server->loop, &s->from);
		s->stopping = true;
	} else if (what == PERF_CTL_ACK) {
		s->f.acked += value;
	}
}

/** Compare a received message with what its number says. */
static void
session_verify(struct session *s, const struct weft_wc *wc)
{
	const uint32_t bytes = s->hello.size_bytes;
	const uint8_t *buf =
	        s->srq != NULL ? server_srq_buf(s, wc->wr_id) : s->mem + wc->wr_id * bytes;

	s->report.verified++;
	if (wc->len_bytes != bytes || flow_compare(buf, bytes, s->f.received) != bytes)
		s->report.bad++;
}

static void
session_received(struct session *s, const struct weft_wc *wc)
{
	uint64_t value = 0;
	enum perf_ctl what = flow_told(wc, &value);

	if (what == PERF_CTL_NONE && s->hello.verify != 0 && s->hello.test == PERF_SEND)
		session_verify(s, wc);
	session_repost_recv(s, wc->wr_id);
	if (what != PERF_CTL_NONE)
		session_told(s, what, value);
	else if (s->hello.latency)
		session_echo(s);
	else
		flow_took(&s->f);
}

static void
session_wc(void *user, struct weft_cq *cq, const struct weft_wc *wc, unsigned int n)
{
	struct session *s = user;

	(void)cq;
	for (unsigned int i = 0; i < n; i++) {
		if (s->rpc != NULL) {
			(void)weft_rpc_wc(s->rpc, &wc[i]);
			continue;
		}
		if (wc[i].status != WEFT_WC_SUCCESS || s->qp == NULL) {
			/* A receive that the QP held is for the others. */
			if (s->srq != NULL && wc[i].opcode >= WEFT_WC_RECV)
				(void)server_srq_post(s, wc[i].wr_id);
			continue;
		}
		if (wc[i].opcode != WEFT_WC_RECV && wc[i].opcode != WEFT_WC_RECV_IMM)
			flow_completed(&s->f, &wc[i]);
		else if (perf_is_two_sided(s->hello.test))
			server_app_take(s, &wc[i]);
		else
			session_received(s, &wc[i]);
	}
}

/* ---- What falls due ---- */

/** Write latency: the client's Write ends in a counter octet; answer when that changes. */
static void
session_pong(struct session *s)
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

/** Put the report into the client's memory, and say so. */
static void
session_report(struct session *s)
{
	struct perf_report *r = &s->report;
	struct weft_sge sge = {r, sizeof(*r), 0};
	struct weft_wr wr = {.opcode = WEFT_WR_WRITE,
	                     .flags = WEFT_WR_INLINE,
	                     .sg_list = &sge,
	                     .num_sge = 1,
	                     .rdma = {s->hello.stag, s->hello.report_to}};
	struct weft_qp_info now;

	weft_qp_query(s->qp, &now);
	r->worker = (uint64_t)(s->server - s->server->all->server);
	r->ns = s->used.at_ns;
	r->recv_msgs = now.recv_msgs - s->before.recv_msgs;
	r->recv_bytes = now.recv_bytes - s->before.recv_bytes;
	r->out_msgs = now.sent_msgs - s->before.sent_msgs;
	r->out_bytes = now.sent_bytes - s->before.sent_bytes;
	r->mpa_rev = now.mpa.rev;
	r->crc = now.mpa.crc;
	r->rx_markers = now.mpa.rx_markers;
	r->tx_markers = now.mpa.tx_markers;
	r->retrans_segs = now.retrans_segs - s->before.retrans_segs;
	r->cpu_ns = s->used.cpu_ns;
	r->waited_ns = s->used.waited_ns;
	r->cycles = s->used.cycles;
	r->busy_ns = s->used.busy_ns;
	s->stopping = false;
	if (weft_post_send(s->qp, &wr, 1) == 1)
		(void)flow_tell(s->qp, PERF_CTL_REPORT, 0);
}

/** The server's own direction: send, and after PERF_CTL_STOP wait until the last is placed. */
static void
session_flow(struct session *s)
{
	if (!s->stopping) {
		uint64_t before;

		/* Nothing but a completion ends a sleep, so all that has room is posted. */
		do {
			before = s->f.posted;
			(void)flow_fill(&s->f, s->limit);
		} while (s->hello.events && s->f.posted != before);
		s->stopping = s->f.posted == s->limit;
		return;
	}
	if (!s->barrier) {
		s->report.sent_msgs = s->f.posted;
		s->report.sent_bytes = s->f.posted * s->hello.size_bytes;
		s->barrier = flow_barrier(&s->f) == 0;
	}
	if (s->barrier && s->f.completed == s->f.posted) {
		s->report.sent_ns = ui_now_ns() - s->from.at_ns;
		if (s->hello.reversed != 0)
			s->used = perf_self_since(&s->server->loop, &s->from);
		s->flows = false;
	}
}

/* ---- Begin and end ---- */

static int
session_qp(struct session *s)
{
	struct weft_cq_attr aa = {.size = sizeof(aa), .depth = 1024, .want_fd = true};
	struct weft_qp_attr qa = {.size = sizeof(qa),
	                          .worker = s->w,
	                          .evq = s->server->loop.evq,
	                          .ord = 16,
	                          .user = s,
	                          .max_inline_bytes = sizeof(struct perf_report)};
	uint32_t ird, rq_depth;
	int rc;

	if (s->f.is_inline && qa.max_inline_bytes < s->hello.size_bytes)
		qa.max_inline_bytes = s->hello.size_bytes;
	rq_depth = s->f.rq_depth + SERVER_CTL_RQ + s->hello.recv_list;
	if (s->srq != NULL) {
		rq_depth = server_srq_depth(s);
		qa.srq = server_srq_of(s);
	} else {
		qa.rq_depth = rq_depth;
	}
	qa.sq_depth = session_sends(s) ? s->hello.depth + 1024 : 1024;
	if (session_sends(s) && s->hello.outs != 0)
		qa.ord = (uint16_t)s->hello.outs;
	else if (session_sends(s) && s->hello.depth > qa.ord)
		qa.ord = (uint16_t)(s->hello.depth < 256 ? s->hello.depth : 256);
	/* A commit is four requests. */
	ird = s->hello.test == PERF_LOG_APPEND ? 256 : s->hello.depth * 4;
	qa.ird = (uint16_t)(ird < 16 ? 16 : ird > 256 ? 256 : ird);
	rc = loop_cq_create(&s->server->loop, s->server->all->ctx, rq_depth + qa.sq_depth + 1024,
	                    session_wc, s, &s->cq);
	if (rc == 0 && perf_is_two_sided(s->hello.test) && s->hello.app_thread)
		rc = weft_cq_create(s->server->all->ctx, &aa, &s->app_cq);
	qa.send_cq = s->cq.cq;
	qa.recv_cq = s->app_cq != NULL ? s->app_cq : s->cq.cq;
	if (rc == 0)
		rc = weft_qp_create(s->server->all->pd, &qa, &s->qp);
	return rc;
}

/** What the session sends, and how many receives the client's messages get. */
static void
session_flow_init(struct session *s)
{
	const struct perf_job job = {.test = s->hello.test,
	                             .size_bytes = s->hello.size_bytes,
	                             .depth = s->hello.depth,
	                             .cq_mod = s->hello.cq_mod,
	                             .post_list = s->hello.post_list,
	                             .inline_bytes = s->hello.inline_bytes};

	flow_init(&s->f, &job);
	if (perf_takes_receive(s->hello.test))
		s->f.rq_depth =
		        perf_rx_share(s->hello.use_srq != 0, s->hello.rx_depth, s->hello.qps);
	else if (perf_is_rpc(s->hello.test) || perf_is_two_sided(s->hello.test))
		s->f.rq_depth = SERVER_RQ;
}

/** With the memory there: allocate what the test needs beside it, and accept the connection. 0 or
 * -errno. */
static int
session_admit(struct session *s)
{
	struct weft_mr_attr ma = {.size = sizeof(ma),
	                          .access = WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_REMOTE_READ |
	                                    WEFT_ACCESS_REMOTE_WRITE | WEFT_ACCESS_REMOTE_ATOMIC};
	struct perf_welcome hi = {.magic = PERF_MAGIC, .version = PERF_VERSION};
	struct weft_mpa_policy mpa = s->server->all->mpa;
	struct weft_conn_attr ca = {.size = sizeof(ca),
	                            .mpa = &mpa,
	                            .private_data = &hi,
	                            .private_data_bytes = sizeof(hi),
	                            .keepalive_us = 2000000};
	struct weft_connreq *request = s->request;
	int rc;

	hi.host = s->server->all->host;
	session_flow_init(s);
	s->slots = perf_slots(s->hello.test, s->hello.depth);
	s->out = calloc(1, (size_t)s->hello.size_bytes + 64);
	if (s->out == NULL)
		return -ENOMEM;
	session_describe(s, &ma, &hi);
	rc = session_register(s, &ma);
	if (rc == 0 && s->hello.use_srq)
		rc = server_srq_begin(s, &s->from_addr);
	if (rc == 0)
		rc = session_qp(s);
	if (rc == 0 && perf_is_two_sided(s->hello.test))
		rc = server_app_begin(s);
	if (rc == 0 && perf_is_rpc(s->hello.test))
		rc = server_rpc_begin(s);
	if (rc != 0)
		return rc;
	for (uint32_t i = 0; perf_is_told(s->hello.test) && s->srq == NULL && rc >= 0 &&
	                     i < s->f.rq_depth + SERVER_CTL_RQ + s->hello.recv_list;
	     i++)
		rc = session_post_recv(s, i);
	if (rc < 0)
		return rc;
	s->f.qp = s->qp;
	s->f.mem = s->out;
	s->f.lkey = s->out_mr != NULL ? weft_mr_stag(s->out_mr) : 0;
	s->f.stag = s->hello.stag;
	s->f.to = s->hello.to;
	s->f.peer_rq = perf_rx_share(s->hello.use_srq != 0, s->hello.rx_depth, s->hello.qps);
	hi.rq_depth = s->f.rq_depth;
	hi.stag = s->grant.stag;
	hi.len_bytes = s->mem_bytes;
	mpa.no_crc |= s->hello.no_crc != 0;
	mpa.markers |= s->hello.markers != 0;
	s->request = NULL;
	return weft_accept(request, s->qp, &ca);
}

/** Memory that a session takes: its region and what the server sends from. */
static uint64_t
session_takes(const struct perf_hello *h)
{
	return session_bytes(h) + h->size_bytes;
}

/** Count a session in. NULL; or why it has to wait. */
static const char *
session_count_in(struct served *all, uint64_t bytes)
{
	const char *busy = NULL;

	pthread_mutex_lock(&all->lock);
	if (all->n > 0 && all->medium->path != NULL)
		busy = PERF_BUSY "its --medium serves one QP at a time";
	else if (all->n >= SERVER_MAX_SESSIONS)
		busy = PERF_BUSY "it has as many connections as it serves at once";
	else if (all->mem_bytes + bytes > SERVER_MAX_MEM_BYTES)
		busy = PERF_BUSY "other connections use the memory that it gives";
	else if (all->threads >= SERVER_MAX_THREADS)
		busy = PERF_BUSY "other connections use all threads for --app-thread";
	if (busy == NULL) {
		all->n++;
		all->mem_bytes += bytes;
	}
	pthread_mutex_unlock(&all->lock);
	return busy;
}

/** Why a client of the other kind has to wait. */
static const char *
session_other_kind(const struct server *server)
{
	return server->loop.events ? PERF_BUSY "it serves a client with --events; one without waits"
	                           : PERF_BUSY "it serves a client without --events; one with "
	                                       "waits";
}

bool
session_wants_events(const struct weft_event *ev)
{
	struct perf_hello h;
	char why[256];

	return hello_read(ev->private_data, ev->private_data_bytes, &h, why, sizeof(why)) == 0 &&
	       h.events != 0;
}

/** The memory is there, or could not be had: accept the connection, or say why not. */
static void
session_answer(struct session *s, int rc)
{
	const char *why;

	if (rc == 0)
		rc = session_admit(s);
	s->admitted = rc == 0;
	if (rc == 0)
		return;
	/* The caller ends it, outside of this callback. */
	s->gone = true;
	why = strerror(-rc);
	if (s->request != NULL)
		weft_reject(s->request, why, (uint16_t)strlen(why));
	s->request = NULL;
}

void
session_turn(struct session *s)
{
	int rc;

	if (s->making && session_memory_ready(s, &rc))
		session_answer(s, rc);
	if (s->gone || s->qp == NULL)
		return;
	if (s->hello.test == PERF_WRITE && s->hello.latency)
		session_pong(s);
	if (s->flows)
		session_flow(s);
	else if (s->stopping)
		session_report(s);
}

struct session *
session_begin(struct server *server, const struct weft_event *ev)
{
	char no[256] = "";
	const char *why = no;
	struct session *s = calloc(1, sizeof(*s));
	int rc;

	if (s == NULL) {
		why = strerror(ENOMEM);
	} else if (hello_read(ev->private_data, ev->private_data_bytes, &s->hello, no,
	                      sizeof(no)) == 0) {
		s->server = server;
		s->w = server->loop.w;
		s->medium = server->all->medium;
		s->mem_bytes = session_bytes(&s->hello);
		s->takes_bytes = session_takes(&s->hello);
		s->request = ev->connreq;
		s->from_addr = ev->remote;
		if (s->takes_bytes > SERVER_MAX_MEM_BYTES) {
			why = "the test needs more memory than the server gives";
		} else if ((s->hello.events != 0) != server->loop.events) {
			why = session_other_kind(server);
		} else if ((why = session_count_in(server->all, s->takes_bytes)) == NULL) {
			rc = session_memory_begin(s);
			if (rc != -EINPROGRESS)
				session_answer(s, rc);
			return s;
		}
	}
	weft_reject(ev->connreq, why, (uint16_t)strlen(why));
	free(s);
	return NULL;
}

/** What can be freed only behind a QP that has ended. */
static void
session_free_memory(struct session *s)
{
	session_memory_end(s);
	if (s->out_mr != NULL)
		weft_mr_dereg(s->out_mr, free, s->out);
	else
		free(s->out);
	s->out_mr = NULL;
	s->out = NULL;
}

/** End what uses the CQs, once. */
static void
session_free(struct session *s)
{
	struct weft_qp *qp = s->qp;

	if (s->request != NULL)
		weft_reject(s->request, NULL, 0);
	s->request = NULL;
	server_app_end(s);
	s->qp = NULL;
	if (qp != NULL)
		weft_qp_destroy(qp);
	server_rpc_end(s);
	session_free_memory(s);
	if (!s->server->loop.events)
		stack_release(s->w, NULL, NULL, NULL);
	stack_release(NULL, s->app_cq, NULL, NULL);
	s->app_cq = NULL;
	s->freed = true;
}

bool
session_end(struct session *s)
{
	if (!s->freed)
		session_free(s);
	/* With events the worker ends the QP in its time. */
	return loop_cq_destroy(&s->server->loop, &s->cq) == 0 && server_srq_end(s) && !s->closing;
}
