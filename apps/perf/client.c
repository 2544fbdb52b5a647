/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The measuring side: one connection of a job, and those of one worker. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "client_wait.h"
#include "client_volume.h"
#include "stack.h"
#include "ui.h"

/** The server is none of this version. */
static void
client_unlike(struct client *c)
{
	c->dead = true;
	c->err = -EPROTO;
	snprintf(c->term, sizeof(c->term),
	         "it is no weft-perf server of this version (it must be %s)", weft_version());
}

/** Whether the connections are made by weft_log's client, and not here. */
static bool
client_is_far(const struct perf_job *j)
{
	return j->hosts != NULL && j->test == PERF_LOG_APPEND;
}

/** The server has accepted: it must be one of this version. A weft-target says nothing. */
static void
client_welcome(struct client *c, const struct weft_event *ev)
{
	if (perf_is_volume(c->job.test)) {
		c->up = true;
		return;
	}
	if (ev->private_data_bytes >= sizeof(c->server))
		memcpy(&c->server, ev->private_data, sizeof(c->server));
	if (memcmp(c->server.magic, PERF_MAGIC, sizeof(c->server.magic)) != 0 ||
	    c->server.version != PERF_VERSION)
		client_unlike(c);
	else
		c->up = true;
}

/** The server has refused, and says why. */
static void
client_refused(struct client *c, const struct weft_event *ev)
{
	const char *said = (const char *)ev->private_data;
	const size_t n = ev->private_data_bytes, busy = sizeof(PERF_BUSY) - 1;

	if (n == sizeof(PERF_UNLIKE) - 1 && memcmp(said, PERF_UNLIKE, n) == 0) {
		client_unlike(c);
		return;
	}
	c->dead = true;
	c->err = n >= busy && memcmp(said, PERF_BUSY, busy) == 0 ? -EAGAIN : -ECONNREFUSED;
	if (n > 0)
		snprintf(c->term, sizeof(c->term), "the server said: %.*s", (int)n, said);
}

static void
client_event(void *user, const struct weft_event *ev)
{
	struct client *c = ev->user;

	(void)user;
	switch (ev->type) {
	case WEFT_EV_ESTABLISHED:
		client_welcome(c, ev);
		break;
	case WEFT_EV_REJECTED:
		client_refused(c, ev);
		break;
	case WEFT_EV_TERMINATED:
		c->terminated = true;
		weft_terminate_str(&ev->term, c->term, sizeof(c->term));
		break;
	case WEFT_EV_CONNECT_ERROR:
	case WEFT_EV_DISCONNECTED:
		c->dead = c->down = true;
		c->closed = c->up && ev->status == 0 && !c->terminated;
		c->err = ev->status != 0 ? ev->status : -ECONNRESET;
		if (c->vol != NULL && c->rpc != NULL)
			weft_rpc_disconnected(c->rpc);
		break;
	default:
		break;
	}
}

/** One receive: a message of the test, or Immediate Data. */
static int
client_post_recv(struct client *c)
{
	struct weft_sge sge = {c->back, c->job.size_bytes < 8 ? 8 : c->job.size_bytes, 0};
	struct weft_recv_wr wr = {.sg_list = &sge, .num_sge = 1};

	if (c->crew->srq != NULL)
		return crew_srq_post(c->crew);
	return weft_post_recv(c->qp, &wr, 1);
}

/** A receive is free: post it, or with --recv_post_list as many as that at once. */
static void
client_repost_recv(struct client *c)
{
	const struct weft_sge sge = {c->back, c->job.size_bytes < 8 ? 8 : c->job.size_bytes, 0};

	if (c->job.recv_list == 0)
		(void)client_post_recv(c);
	else
		flow_repost_recv(&c->f, c->qp, &sge, c->job.recv_list);
}

static void
client_received(struct client *c, const struct weft_wc *wc)
{
	uint64_t value = 0;

	client_repost_recv(c);
	switch (flow_told(wc, &value)) {
	case PERF_CTL_ACK:
		c->f.acked += value;
		break;
	case PERF_CTL_START:
		/* The server counts the receives from here on. */
		if (c->job.reversed)
			c->f.received = c->f.unacked = 0;
		c->started = true;
		break;
	case PERF_CTL_REPORT:
		c->reported = true;
		break;
	default:
		if (perf_is_two_sided(c->job.test))
			c->bad |= ((const struct perf_answer *)(const void *)c->back)->bad != 0;
		if (c->job.latency || perf_is_two_sided(c->job.test)) {
			c->f.received++;
			c->f.acked++; /* an echo shows that the message was taken */
		} else {
			flow_took(&c->f);
		}
		break;
	}
}

static void
client_wc(void *user, struct weft_cq *cq, const struct weft_wc *wc, unsigned int n)
{
	struct client *c = user;

	(void)cq;
	for (unsigned int i = 0; i < n; i++) {
		if (c->rpc != NULL && weft_rpc_wc(c->rpc, &wc[i]))
			continue;
		if (wc[i].status != WEFT_WC_SUCCESS) {
			if (!c->dead) {
				c->dead = true;
				/* A flushed request tells only that the connection has ended. */
				c->err = wc[i].status == WEFT_WC_FLUSHED ? -ECONNRESET : -EIO;
				if (c->term[0] == '\0' && wc[i].status != WEFT_WC_FLUSHED)
					snprintf(c->term, sizeof(c->term), "%s",
					         weft_wc_status_str(wc[i].status));
			}
		} else if (wc[i].opcode == WEFT_WC_RECV || wc[i].opcode == WEFT_WC_RECV_IMM) {
			client_received(c, &wc[i]);
		} else if (c->vol != NULL) {
			client_window_done(c, &wc[i]);
		} else {
			flow_completed(&c->f, &wc[i]);
		}
	}
}

static bool
is_up(const struct client *c)
{
	return c->up;
}

/** Memory: the source of sends and sink of Reads, the buffer for received data, the report. */
static int
client_memory(struct client *c, struct weft_mr_attr *ma)
{
	uint64_t at;

	c->slots = c->job.verify ? c->job.depth : perf_slots(c->job.test, c->job.depth);
	/* With verify the received data are as many as those that are sent. */
	at = (c->slots + (c->job.verify ? c->slots : 1)) * c->job.size_bytes + 64;
	at = (at + 63) & ~63ull;
	ma->len_bytes = at + sizeof(*c->report);
	c->mem = aligned_alloc(4096, (ma->len_bytes + 4095) & ~4095ull);
	if (c->mem == NULL)
		return -ENOMEM;
	memset(c->mem, 0, ma->len_bytes);
	c->back = c->mem + c->slots * c->job.size_bytes;
	c->report = (struct perf_report *)(void *)(c->mem + at);
	ma->addr = c->mem;
	return 0;
}

/** The queues of a QP. */
static void
client_qp_attr(const struct client *c, struct weft_qp_attr *qa)
{
	const struct perf_job *j = &c->job;
	const bool calls = perf_is_rpc(j->test) || perf_is_volume(j->test);
	/* The work requests of one iteration, and those of them that count against ORD; a commit
	 * has the most. */
	uint32_t ord = j->outs != 0 ? j->outs : j->depth * (perf_is_commit(j->test) ? 4u : 1u);

	qa->send_cq = qa->recv_cq = c->cq.cq;
	qa->evq = c->loop->evq;
	qa->sq_depth = j->depth * (perf_is_place(j->test) || calls ? 5 : 1) + FLOW_SQ_EXTRA;
	qa->rq_depth = calls                  ? 128
	               : c->crew->srq != NULL ? 0
	                                      : c->f.rq_depth + CLIENT_RQ + j->recv_list;
	qa->srq = c->crew->srq;
	qa->ord = (uint16_t)(ord < 256 ? ord : 256);
	qa->max_inline_bytes = perf_is_two_sided(j->test) ? sizeof(struct perf_order)
	                       : c->f.is_inline           ? j->size_bytes
	                                                  : 0;
	/* The server reads the data of WRITE calls; with both_ways it reads as we do. */
	qa->ird = calls ? 64 : j->both_ways || j->reversed ? qa->ord : 16;
}

static int
client_setup(struct client *c, struct weft_ctx *ctx, struct weft_pd *pd)
{
	struct weft_qp_attr qa = {.size = sizeof(qa), .worker = c->w, .user = c};
	struct weft_mr_attr ma = {.size = sizeof(ma),
	                          .access = WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_REMOTE_WRITE};
	int rc = client_memory(c, &ma);

	if (rc != 0)
		return rc;
	c->pd = pd;
	flow_init(&c->f, &c->job);
	if ((c->job.both_ways || c->job.reversed) && perf_takes_receive(c->job.test))
		c->f.rq_depth = perf_rx_share(c->job.use_srq, c->job.rx_depth, c->crew->job->qps);
	else if (c->job.latency && perf_takes_receive(c->job.test))
		c->f.rq_depth = c->job.depth; /* for the echoes */
	if (c->job.both_ways || c->job.reversed)
		ma.access |= WEFT_ACCESS_REMOTE_READ;
	rc = loop_cq_create(c->loop, ctx,
	                    c->job.depth * 5 + c->f.rq_depth + c->job.recv_list +
	                            c->crew->srq_depth + 1024,
	                    client_wc, c, &c->cq);
	if (rc == 0)
		rc = weft_mr_reg(pd, &ma, &c->mr);
	if (rc != 0)
		return rc;
	c->lkey = weft_mr_stag(c->mr);
	client_qp_attr(c, &qa);
	if (c->job.test == PERF_LOG_APPEND) {
		rc = client_log_make(c, ctx, &qa);
		if (rc != 0)
			return rc;
	}
	if (client_is_far(&c->job))
		return 0; /* each weft-target gets a QP later */
	rc = weft_qp_create(pd, &qa, &c->qp);
	if (rc == 0 && perf_is_rpc(c->job.test))
		rc = client_rpc_make(c);
	else if (rc == 0 && perf_is_volume(c->job.test))
		rc = client_volume_make(c);
	return rc;
}

static void
client_teardown(struct client *c)
{
	if (c->log_joined)
		client_log_end(c);
	client_volume_close(c);
	if (c->qp != NULL) {
		uint64_t until = ui_now_ns() + 1000000000ull;

		if (!c->dead && c->up)
			weft_disconnect(c->qp);
		while (!c->dead && c->up && ui_now_ns() < until)
			loop_turn(c->loop, LOOP_WAIT_NS);
		weft_qp_destroy(c->qp);
	}
	client_rpc_end(c);
	client_volume_end(c);
	client_log_end(c);
	if (client_is_far(&c->job))
		client_hosts_end(c);
	if (c->mr != NULL)
		weft_mr_dereg(c->mr, free, c->mem);
	else
		free(c->mem);
	stack_release(c->w, NULL, NULL, NULL);
	(void)loop_cq_destroy(c->loop, &c->cq);
}

static int
client_connect(struct client *c, uint64_t run, const struct sockaddr *addr, socklen_t addr_len)
{
	const struct perf_job *j = &c->job;
	const struct perf_hello hello = {
	        .magic = PERF_MAGIC,
	        .version = PERF_VERSION,
	        .test = j->test,
	        .latency = j->latency,
	        .size_bytes = j->size_bytes,
	        .depth = j->depth,
	        .rx_depth = j->rx_depth,
	        .cq_mod = j->cq_mod,
	        .post_list = j->post_list,
	        .inline_bytes = j->inline_bytes,
	        .both_ways = j->both_ways,
	        .reversed = j->reversed,
	        .outs = j->outs,
	        .recv_list = j->recv_list,
	        .verify = j->verify,
	        .use_srq = j->use_srq,
	        .qps = c->crew->job->qps,
	        .no_crc = j->no_crc,
	        .markers = j->markers,
	        .events = j->events,
	        .run = run,
	        .app_thread = j->app_thread,
	        .app_medium = j->app_medium,
	        .stag = c->lkey,
	        .to = c->slots * j->size_bytes,
	        .report_to = (uint64_t)((const uint8_t *)c->report - c->mem),
	};
	const bool volume = perf_is_volume(j->test);
	struct weft_mpa_policy mpa = c->crew->side->mpa;
	const struct weft_conn_attr ca = {.size = sizeof(ca),
	                                  .mpa = &mpa,
	                                  .private_data = volume ? NULL : &hello,
	                                  .private_data_bytes = volume ? 0 : sizeof(hello),
	                                  .timeout_us = j->connect_s * 1000000ull};

	mpa.no_crc |= j->no_crc;
	mpa.markers |= j->markers;
	return weft_connect(c->qp, addr, addr_len, &ca);
}

/** Keep what the server says of its host. Each text ends within its room. */
static void
host_said(const struct perf_host *said, struct perf_host *out)
{
	*out = *said;
	out->host[sizeof(out->host) - 1] = '\0';
	out->kernel[sizeof(out->kernel) - 1] = '\0';
	out->cpu[sizeof(out->cpu) - 1] = '\0';
	out->architecture[sizeof(out->architecture) - 1] = '\0';
	out->governor[sizeof(out->governor) - 1] = '\0';
	out->version[sizeof(out->version) - 1] = '\0';
}

/** The connection is up, or goes to weft-targets: prepare what the test needs. */
static int
client_begin(struct client *c, struct weft_ctx *ctx, char region[128], struct perf_host *server)
{
	const struct perf_job *j = &c->job;
	int rc = 0;

	if (perf_is_volume(j->test)) {
		rc = client_volume_begin(c);
		if (rc == 0)
			snprintf(region, 128, "%.127s", client_volume_medium(c));
		return rc;
	}
	if (client_is_far(j)) {
		snprintf(region, 128, "a log at %u targets with quorum %u", j->hosts->n,
		         j->hosts->quorum);
		return client_hosts_begin(c, ctx);
	}
	host_said(&c->server.host, server);
	c->f.qp = c->qp;
	c->f.mem = c->mem;
	c->f.lkey = c->lkey;
	c->f.stag = c->server.stag;
	c->f.to = c->server.to;
	c->f.peer_rq = c->server.rq_depth;
	/* Each message of the client holds one of its receives until the echo has come. */
	if (j->latency && perf_takes_receive(j->test) && j->depth < c->f.peer_rq)
		c->f.peer_rq = j->depth;
	if (perf_is_place(j->test)) {
		rc = client_place_begin(c);
		snprintf(region, 128, "%.95s, hash %.23s", c->server.mechanism, c->server.hash);
	}
	if (j->test == PERF_RPC_DURABLE)
		snprintf(region, 128, "%.95s", c->server.mechanism);
	if (c->crew->srq == NULL && (perf_is_told(j->test) || perf_is_two_sided(j->test))) {
		for (uint32_t i = 0; i < c->f.rq_depth + CLIENT_RQ + j->recv_list && rc >= 0; i++)
			rc = client_post_recv(c);
		rc = rc > 0 ? 0 : rc;
	}
	return rc;
}

/** Make all connections. 0, or -errno of *bad, the one that has failed. */
static int
run_connect(struct run *r, struct client **bad)
{
	const struct crew *crew = r->crew;
	const bool far = client_is_far(&r->job);
	int rc = 0;

	for (uint32_t i = 0; i < r->job.qps && rc == 0; i++) {
		*bad = &r->lane[i];
		rc = client_setup(*bad, crew->ctx, crew->pd);
		if (rc == 0 && !far)
			rc = client_connect(*bad, crew->id, crew->addr, crew->addr_len);
	}
	for (uint32_t i = 0; i < r->job.qps && rc == 0; i++) {
		*bad = &r->lane[i];
		if (!far)
			rc = client_wait(*bad, is_up);
		if (rc == 0)
			rc = client_begin(*bad, crew->ctx, r->out.region, &r->out.server);
	}
	return rc;
}

int
run_begin(struct run *r, struct weft_worker *w, struct client **bad)
{
	uint32_t first = 0;
	int rc;

	r->lane = calloc(r->job.qps, sizeof(*r->lane));
	rc = r->lane == NULL ? -ENOMEM : loop_begin(&r->loop, r->crew->ctx, w, client_event, r);
	if (rc != 0)
		return rc;
	for (const struct run *k = r->crew->run; k < r; k++)
		first += k->job.qps;
	for (uint32_t i = 0; i < r->job.qps; i++) {
		r->lane[i].number = first + i;
		r->lane[i].w = w;
		r->lane[i].loop = &r->loop;
		r->lane[i].job = r->job;
		r->lane[i].crew = r->crew;
	}
	rc = loop_set_events(&r->loop, r->job.events);
	return rc == 0 ? run_connect(r, bad) : rc;
}

void
run_end(struct run *r)
{
	struct weft_qp_info info;

	/* What is freed here is freed by polls of this thread. */
	loop_set_events(&r->loop, false);
	for (uint32_t i = 0; r->lane != NULL && i < r->job.qps; i++) {
		if (r->lane[i].qp != NULL) {
			weft_qp_query(r->lane[i].qp, &info);
			r->out.mpa = info.mpa;
			r->out.retrans_segs += info.retrans_segs - r->lane[i].resent_before;
		}
		if (r->loop.w != NULL)
			client_teardown(&r->lane[i]);
	}
}
