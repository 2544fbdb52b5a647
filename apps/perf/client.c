/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The measuring side: one job over one connection, polled on the calling thread. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "stack.h"
#include "ui.h"

#define WINDOWS 64 /**< parts of a run; the peak is the fastest part */

static void
client_event(void *user, const struct weft_event *ev)
{
	struct client *c = user;

	switch (ev->type) {
	case WEFT_EV_ESTABLISHED:
		if (ev->private_data_bytes < sizeof(c->server)) {
			c->dead = true;
			c->err = -EPROTO;
			break;
		}
		memcpy(&c->server, ev->private_data, sizeof(c->server));
		c->up = true;
		break;
	case WEFT_EV_REJECTED:
		c->dead = true;
		c->err = ev->private_data_bytes == sizeof(PERF_BUSY) - 1 &&
		                         memcmp(ev->private_data, PERF_BUSY,
		                                sizeof(PERF_BUSY) - 1) == 0
		                 ? -EAGAIN
		                 : -EBUSY;
		snprintf(c->term, sizeof(c->term), "the server said: %.*s",
		         (int)ev->private_data_bytes, (const char *)ev->private_data);
		break;
	case WEFT_EV_TERMINATED:
		weft_terminate_str(&ev->term, c->term, sizeof(c->term));
		break;
	case WEFT_EV_CONNECT_ERROR:
	case WEFT_EV_DISCONNECTED:
		c->dead = true;
		c->err = ev->status != 0 ? ev->status : -ECONNRESET;
		break;
	default:
		break;
	}
}

/** One receive: an echo, or an acknowledgement of four octets. */
static int
client_post_recv(struct client *c)
{
	struct weft_sge sge = {c->back, c->job.size_bytes < 8 ? 8 : c->job.size_bytes, 0};
	struct weft_recv_wr wr = {.sg_list = &sge, .num_sge = 1};

	return weft_post_recv(c->qp, &wr, 1);
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
				c->err = -EIO;
				if (c->term[0] == '\0')
					snprintf(c->term, sizeof(c->term), "%s",
					         weft_wc_status_str(wc[i].status));
			}
		} else if (wc[i].opcode == WEFT_WC_RECV || wc[i].opcode == WEFT_WC_RECV_IMM) {
			if (perf_is_two_sided(c->job.test))
				c->bad |=
				        ((const struct perf_answer *)(const void *)c->back)->bad !=
				        0;
			c->received++;
			c->acked += c->server.rq_depth / 4;
			client_post_recv(c);
		} else if (wc[i].wr_id == BARRIER_ID) {
			/* the unsignaled work requests before it are done */
			c->completed = c->posted;
		} else {
			/* wr_id is the number of work requests that this completion covers. */
			c->completed += wc[i].wr_id;
		}
	}
}

/** Fill in one work request of the test. */
static void
client_wr(struct client *c, struct weft_wr *wr, struct weft_sge *sge, uint64_t seq)
{
	memset(wr, 0, sizeof(*wr));
	sge->addr = c->mem;
	sge->len_bytes = c->job.size_bytes;
	sge->lkey = c->lkey;
	wr->sg_list = sge;
	wr->num_sge = 1;
	switch (c->job.test) {
	case PERF_WRITE:
		wr->opcode = WEFT_WR_WRITE;
		wr->rdma.stag = c->server.stag;
		wr->rdma.to = c->server.to;
		break;
	case PERF_READ:
		wr->opcode = WEFT_WR_READ;
		wr->rdma.stag = c->server.stag;
		wr->rdma.to = c->server.to;
		break;
	case PERF_SEND:
		wr->opcode = WEFT_WR_SEND;
		break;
	case PERF_FETCH_ADD:
		wr->opcode = WEFT_WR_FETCH_ADD;
		wr->atomic.stag = c->server.stag;
		wr->atomic.to = c->server.to;
		wr->atomic.data = 1;
		break;
	case PERF_CMP_SWAP: /* the server's word counts up with seq, so that each one swaps */
		wr->opcode = WEFT_WR_CMP_SWAP;
		wr->atomic.stag = c->server.stag;
		wr->atomic.to = c->server.to;
		wr->atomic.compare = seq;
		wr->atomic.data = seq + 1;
		break;
	case PERF_WRITE_IMM:
		wr->opcode = WEFT_WR_WRITE_IMM;
		wr->write_imm.stag = c->server.stag;
		wr->write_imm.to = c->server.to;
		memcpy(wr->write_imm.data, &seq, 8);
		break;
	default:
		wr->opcode = WEFT_WR_ATOMIC_WRITE;
		wr->num_sge = 0;
		wr->atomic_write.stag = c->server.stag;
		wr->atomic_write.to = c->server.to;
		memcpy(wr->atomic_write.data, &seq, 8);
		break;
	}
}

/** Post as much as the queue has room for, up to `end` in all. */
static void
client_fill(struct client *c, uint64_t end)
{
	struct weft_wr wr[32];
	struct weft_sge sge[32];
	unsigned int n = 0;

	if (perf_is_place(c->job.test)) {
		client_place_fill(c, end);
		return;
	}
	if (perf_is_rpc(c->job.test)) {
		client_rpc_fill(c, end);
		return;
	}
	while (n < 32 && c->posted + n < end && c->posted + n - c->completed < c->job.depth) {
		uint64_t seq = c->posted + n;

		if (perf_takes_receive(c->job.test) && seq - c->acked >= c->server.rq_depth)
			break;
		client_wr(c, &wr[n], &sge[n], seq);
		if ((seq + 1) % c->signal_every == 0 || seq + 1 == end) {
			uint64_t part = (seq + 1) % c->signal_every;

			wr[n].flags = WEFT_WR_SIGNALED;
			wr[n].wr_id = part != 0 ? part : c->signal_every;
		}
		n++;
	}
	if (n > 0) {
		int rc = weft_post_send(c->qp, wr, n);

		if (rc > 0)
			c->posted += (unsigned int)rc;
		else if (rc != -EAGAIN) {
			c->dead = true;
			c->err = rc;
		}
	}
}

static bool
is_up(const struct client *c)
{
	return c->up;
}

/** A Write completes when it is copied. The completion of a Read behind it shows that it was
 * placed. */
static int
client_barrier(struct client *c)
{
	struct weft_sge sge = {c->mem, 1, c->lkey};
	struct weft_wr wr = {.opcode = WEFT_WR_READ,
	                     .flags = WEFT_WR_SIGNALED,
	                     .wr_id = BARRIER_ID,
	                     .sg_list = &sge,
	                     .num_sge = 1,
	                     .rdma = {c->server.stag, c->server.to}};
	/* each of these is acknowledged by its own answer */
	bool told = c->log != NULL || c->rpc != NULL;
	int rc = told ? 1 : weft_post_send(c->qp, &wr, 1);

	if (rc < 1)
		return rc;
	c->posted += !told;
	return client_wait(c, client_is_drained);
}

/** Iterations of the poll loop since `from`. */
static void
client_polls(struct client *c, const struct weft_poll_hist *from, struct perf_result *r)
{
	static struct weft_poll_hist h;

	h.size = sizeof(h);
	if (weft_worker_poll_hist(c->w, &h) != 0)
		return;
	weft_poll_hist_since(&h, from);
	r->poll_p50_us = (double)weft_poll_hist_pct_ns(&h, 50) / 1e3;
	r->poll_p99_us = (double)weft_poll_hist_pct_ns(&h, 99) / 1e3;
	r->poll_max_us = (double)h.max_ns / 1e3;
}

static int
client_bandwidth(struct client *c, struct perf_result *r)
{
	static struct weft_poll_hist h0;
	struct weft_worker_stats st0, st1;
	uint64_t end = c->job.duration_s ? UINT64_MAX : c->job.iterations;
	uint64_t t0, t1, mark_t, mark_n, base, last_progress, until = 0;
	uint64_t window;
	int rc;

	/* Warm up, then measure. */
	base = c->job.warmup;
	while (c->completed < base && !c->dead) {
		client_fill(c, base);
		weft_worker_poll(c->w);
	}
	if (c->dead)
		return c->err;
	if (c->job.test == PERF_WRITE && (rc = client_barrier(c)) != 0)
		return rc;
	base = c->completed;
	h0.size = sizeof(h0);
	weft_worker_poll_hist(c->w, &h0);
	weft_worker_stats(c->w, &st0);
	t0 = mark_t = last_progress = ui_now_ns();
	mark_n = base;
	if (c->job.duration_s)
		until = t0 + c->job.duration_s * 1000000000ull;
	else
		end += base;
	window = c->job.duration_s ? 0 : (end - base) / WINDOWS;
	while (!c->dead) {
		uint64_t seen = c->completed, now;

		client_fill(c, end);
		weft_worker_poll(c->w);
		if (c->completed == seen) {
			now = ui_now_ns();
			if (now - last_progress > STALL_S * 1000000000ull)
				return -ETIMEDOUT;
		} else if (c->completed - mark_n >= window) {
			now = last_progress = ui_now_ns();
			if (now - mark_t >= 1000000) {
				double mbps = (double)(c->completed - mark_n) * c->job.size_bytes *
				              1e3 / (double)(now - mark_t);

				if (mbps > r->peak_mbps)
					r->peak_mbps = mbps;
				mark_t = now;
				mark_n = c->completed;
			}
		} else {
			continue;
		}
		if (until != 0 && now >= until) {
			break; /* the barrier below waits for the work requests outstanding */
		}
		if (c->completed >= end)
			break;
	}
	if (c->dead)
		return c->err;
	r->iterations = c->posted - base;
	if ((rc = client_barrier(c)) != 0)
		return rc;
	t1 = ui_now_ns();
	weft_worker_stats(c->w, &st1);
	client_polls(c, &h0, r);
	r->seconds = (double)(t1 - t0) / 1e9;
	r->avg_mbps = (double)r->iterations * c->job.size_bytes / r->seconds / 1e6;
	r->mmsgs = (double)r->iterations / r->seconds / 1e6;
	if (r->peak_mbps < r->avg_mbps)
		r->peak_mbps = r->avg_mbps;
	r->cycles_per_msg = (double)(st1.busy_cycles - st0.busy_cycles) / (double)r->iterations;
	return 0;
}

/** Write latency: the server's Write ends in the number of the client's. */
static bool
client_is_ponged(const struct client *c)
{
	const volatile uint8_t *last = c->back + c->job.size_bytes - 1;

	return *last == (uint8_t)c->posted;
}

/** Send latency: every message came back. */
static bool
client_is_echoed(const struct client *c)
{
	return c->received == c->posted;
}

/** Run one round of a latency test; each test has its own sign of completion. */
static int
client_round(struct client *c, uint64_t seq)
{
	struct weft_wr wr;
	struct weft_sge sge;
	int rc;

	if (perf_is_place(c->job.test))
		return client_place_round(c, seq);
	if (perf_is_rpc(c->job.test))
		return client_rpc_round(c);
	client_wr(c, &wr, &sge, seq);
	wr.flags = WEFT_WR_SIGNALED;
	wr.wr_id = 1;
	if (c->job.test == PERF_WRITE)
		c->mem[c->job.size_bytes - 1] = (uint8_t)(seq + 1);
	rc = weft_post_send(c->qp, &wr, 1);
	if (rc < 1)
		return rc;
	c->posted++;
	return client_wait(c, c->job.test == PERF_WRITE         ? client_is_ponged
	                      : perf_takes_receive(c->job.test) ? client_is_echoed
	                                                        : client_is_drained);
}

static int
client_latency(struct client *c, struct perf_result *r)
{
	uint64_t n = c->job.iterations, t0, t1;
	static struct weft_poll_hist h0;
	struct weft_worker_stats st0, st1;
	struct hist *h = calloc(1, sizeof(*h));
	int rc = 0;

	if (h == NULL)
		return -ENOMEM;
	for (uint64_t i = 0; i < c->job.warmup && rc == 0; i++)
		rc = client_round(c, i);
	h0.size = sizeof(h0);
	weft_worker_poll_hist(c->w, &h0);
	weft_worker_stats(c->w, &st0);
	t0 = t1 = ui_now_ns();
	for (uint64_t i = 0; i < n && rc == 0; i++) {
		uint64_t t = t1;

		rc = client_round(c, c->job.warmup + i);
		t1 = ui_now_ns();
		hist_add(h, t1 - t);
	}
	weft_worker_stats(c->w, &st1);
	if (rc == 0) {
		client_polls(c, &h0, r);
		r->iterations = n;
		r->seconds = (double)(t1 - t0) / 1e9;
		r->cycles_per_msg = (double)(st1.busy_cycles - st0.busy_cycles) / (double)n;
		perf_latency(r, h, c->job.test == PERF_WRITE || perf_takes_receive(c->job.test));
	}
	free(h);
	return rc;
}

static int
client_setup(struct client *c, struct weft_ctx *ctx)
{
	struct weft_evq_attr ea = {.size = sizeof(ea), .on_event = client_event, .user = c};
	struct weft_cq_attr ca = {.size = sizeof(ca), .depth = 8192, .on_wc = client_wc, .user = c};
	struct weft_qp_attr qa = {.size = sizeof(qa), .worker = c->w, .user = c, .rq_depth = 64};
	struct weft_mr_attr ma = {.size = sizeof(ma),
	                          .access = WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_REMOTE_WRITE};
	uint32_t ord;
	int rc;

	/* First the source of sends and the sink of Reads, then the buffer for received data. */
	c->slots = perf_slots(c->job.test, c->job.depth);
	ma.len_bytes = (c->slots + 1) * c->job.size_bytes + 64;
	c->mem = aligned_alloc(4096, (ma.len_bytes + 4095) & ~4095ull);
	if (c->mem == NULL)
		return -ENOMEM;
	memset(c->mem, 0, ma.len_bytes);
	c->back = c->mem + c->slots * c->job.size_bytes;
	ma.addr = c->mem;
	rc = weft_evq_create(ctx, &ea, &c->evq);
	if (rc == 0)
		rc = weft_cq_create(ctx, &ca, &c->cq);
	if (rc == 0)
		rc = weft_pd_alloc(ctx, &c->pd);
	if (rc == 0)
		rc = weft_mr_reg(c->pd, &ma, &c->mr);
	if (rc != 0)
		return rc;
	c->lkey = weft_mr_stag(c->mr);
	qa.send_cq = qa.recv_cq = c->cq;
	qa.evq = c->evq;
	/* The work requests of one iteration, and those of them that count against ORD; a commit
	 * has the most. */
	qa.sq_depth =
	        c->job.depth * (perf_is_place(c->job.test) || perf_is_rpc(c->job.test) ? 5 : 1) +
	        16;
	ord = c->job.depth * (perf_is_commit(c->job.test) ? 4u : 1u);
	qa.ord = (uint16_t)(ord < 256 ? ord : 256);
	qa.max_inline_bytes = perf_is_two_sided(c->job.test) ? sizeof(struct perf_order) : 0;
	qa.ird = 16;
	if (perf_is_rpc(c->job.test)) {
		qa.rq_depth = 128;
		qa.ird = 64; /* the server reads the data of RPC WRITEs */
	}
	if (c->job.test == PERF_LOG_APPEND) {
		rc = client_log_make(c, ctx, &qa);
		if (rc != 0)
			return rc;
	}
	if (c->job.hosts != NULL)
		return 0; /* each weft-target gets a QP later */
	rc = weft_qp_create(c->pd, &qa, &c->qp);
	if (rc == 0 && perf_is_rpc(c->job.test))
		rc = client_rpc_make(c);
	return rc;
}

static void
client_teardown(struct client *c)
{
	if (c->log_joined)
		client_log_end(c);
	if (c->qp != NULL) {
		uint64_t until = ui_now_ns() + 1000000000ull;

		if (!c->dead && c->up)
			weft_disconnect(c->qp);
		while (!c->dead && c->up && ui_now_ns() < until)
			weft_worker_poll(c->w);
		weft_qp_destroy(c->qp);
	}
	client_rpc_end(c);
	client_log_end(c);
	if (c->job.hosts != NULL)
		client_hosts_end(c);
	if (c->mr != NULL)
		weft_mr_dereg(c->mr, free, c->mem);
	else
		free(c->mem);
	stack_release(c->w, c->cq, c->evq, c->pd);
}

int
perf_client_run(struct weft_ctx *ctx, struct weft_worker *w, const struct sockaddr *addr,
                socklen_t addr_len, const struct perf_job *job, struct perf_result *out, char *why,
                size_t why_bytes)
{
	struct client c = {.w = w, .job = *job};
	struct perf_hello hello = {.magic = PERF_MAGIC, .version = PERF_VERSION};
	struct weft_conn_attr ca = {.size = sizeof(ca),
	                            .private_data = &hello,
	                            .private_data_bytes = sizeof(hello),
	                            .timeout_us = 5000000};
	struct weft_qp_info info;
	int rc;

	memset(out, 0, sizeof(*out));
	out->job = *job;
	c.signal_every = job->depth >= 64 && job->test != PERF_READ ? job->depth / 16 : 1;
	rc = client_setup(&c, ctx);
	if (rc == 0 && job->hosts != NULL) {
		rc = client_hosts_begin(&c, ctx);
		snprintf(out->region, sizeof(out->region), "a log at %u targets with quorum %u",
		         job->hosts->n, job->hosts->quorum);
	} else if (rc == 0) {
		hello.test = job->test;
		hello.latency = job->latency;
		hello.size_bytes = job->size_bytes;
		hello.depth = job->depth;
		hello.stag = c.lkey;
		hello.to = c.slots * job->size_bytes;
		hello.app_thread = job->app_thread;
		hello.app_medium = job->app_medium;
		rc = weft_connect(c.qp, addr, addr_len, &ca);
	}
	if (rc == 0 && job->hosts == NULL)
		rc = client_wait(&c, is_up);
	if (rc == 0 && job->hosts == NULL && perf_is_place(job->test)) {
		rc = client_place_begin(&c);
		snprintf(out->region, sizeof(out->region), "%.95s, hash %.23s", c.server.mechanism,
		         c.server.hash);
	}
	if (rc == 0 && job->test == PERF_RPC_DURABLE)
		snprintf(out->region, sizeof(out->region), "%.95s", c.server.mechanism);
	if (rc == 0 && (perf_takes_receive(job->test) || perf_is_two_sided(job->test))) {
		for (int i = 0; i < 32 && rc >= 0; i++)
			rc = client_post_recv(&c);
		rc = rc > 0 ? 0 : rc;
	}
	if (rc == 0)
		rc = job->latency ? client_latency(&c, out) : client_bandwidth(&c, out);
	if (rc != 0)
		snprintf(why, why_bytes, "%s%s%s", strerror(-rc), c.term[0] != '\0' ? ": " : "",
		         c.term);
	if (c.qp != NULL) {
		weft_qp_query(c.qp, &info);
		out->retrans_segs = info.retrans_segs;
	}
	client_teardown(&c);
	return rc;
}
