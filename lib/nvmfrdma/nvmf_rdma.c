/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Connections of the RDMA transport: see weft_nvmf_rdma.h. Every work request makes a
 * completion, so a connection knows when nothing names it any more.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "nvmf_rdma_wire.h"
#include "weft_nvmf_rdma.h"
#include "weft_nvmf_transport.h"

#define RDMA_ADMIN_DEPTH 32U
#define RDMA_ORD         32U
#define RDMA_SGE         WEFT_MAX_SGE
#define RDMA_CLOSE_NS    2000000000ULL
/** Work requests of an answer: Writes of up to 66 pieces, and the Send. */
#define RDMA_ANSWER_WRS 4U
#define RDMA_CQ_DEPTH   65536U

/** The two low bits of a wr_id say what it belongs to. */
enum rdma_tag { RDMA_RECV, RDMA_READ, RDMA_WRITE, RDMA_SEND };

/** Where a command's Reads are, in its `transport` words. */
enum rdma_word { RDMA_LEFT, RDMA_NEXT, RDMA_STATUS, RDMA_LINK };

struct rdma_capsule {
	STAILQ_ENTRY(rdma_capsule) link;
	uint32_t bytes; /**< received */
	uint8_t data[]; /**< SQE and data */
};

struct rdma_conn {
	LIST_ENTRY(rdma_conn) link;
	struct weft_nvmf_rdma *r;
	struct weft_qp *qp;
	struct weft_nvmf_queue *q; /**< NULL: gone */
	uint32_t depth, ord, capsule_bytes, cq_share;
	uint8_t *capsules;
	uint64_t posted;                              /**< work requests without a completion */
	uint32_t reads;                               /**< outstanding */
	struct weft_nvmf_cmd *pull_first, *pull_last; /**< that have Reads to post */
	STAILQ_HEAD(, rdma_capsule) waiting;          /**< for the end of an answer */
	uint64_t close_ns;                            /**< it is to end; 0: it is not */
	bool lost;
};

struct weft_nvmf_rdma {
	struct weft_nvmf_rdma_attr attr;
	struct weft_pd *pd;
	struct weft_mr *mr;
	struct weft_cq *cq;
	struct weft_evq *evq;
	LIST_HEAD(, rdma_conn) conns;
	uint32_t cq_used; /**< completions that may be outstanding */
	uint64_t now_ns;
	uint64_t close_ns; /**< the first connection that is to end; UINT64_MAX: none */
	struct weft_nvmf_rdma_stats stats;
};

static uint64_t
rdma_id(const void *p, enum rdma_tag tag)
{
	return (uintptr_t)p | (uint64_t)tag;
}

/** It is to end by then. */
static void
rdma_close_by(struct rdma_conn *c, uint64_t close_ns)
{
	c->close_ns = close_ns;
	if (close_ns < c->r->close_ns)
		c->r->close_ns = close_ns;
}

/** The connection cannot go on. */
static void
rdma_fail(struct rdma_conn *c)
{
	if (c->close_ns == 0)
		rdma_close_by(c, c->r->now_ns + RDMA_CLOSE_NS);
	if (!c->lost && weft_abort(c->qp) != 0)
		(void)weft_disconnect(c->qp);
}

static void
rdma_free(struct rdma_conn *c)
{
	LIST_REMOVE(c, link);
	c->r->stats.conns--;
	c->r->cq_used -= c->cq_share;
	free(c->capsules);
	free(c);
}

/** Post, counting. Returns how many were posted; fewer than all end the connection. */
static unsigned int
rdma_post(struct rdma_conn *c, const struct weft_wr *wr, unsigned int n)
{
	int r = weft_post_send(c->qp, wr, n);

	if (r < 0)
		r = 0;
	c->posted += (unsigned int)r;
	if (r < (int)n)
		rdma_fail(c);
	return (unsigned int)r;
}

/* ---- Capsules ---- */

static void
rdma_recv(struct rdma_conn *c, struct rdma_capsule *capsule)
{
	const struct weft_sge sge = {.addr = capsule->data, .len_bytes = c->capsule_bytes};
	const struct weft_recv_wr wr = {
	        .wr_id = rdma_id(capsule, RDMA_RECV), .sg_list = &sge, .num_sge = 1};

	if (c->lost)
		return;
	if (weft_post_recv(c->qp, &wr, 1) == 1)
		c->posted++;
	else
		rdma_fail(c);
}

static void
rdma_release(struct weft_nvmf_queue *q, void *data)
{
	struct rdma_capsule *capsule =
	        (struct rdma_capsule *)((uint8_t *)data - offsetof(struct rdma_capsule, data));

	rdma_recv(weft_nvmf_queue_owner(q), capsule);
}

/** Hand a capsule to the queue. False: it has to wait. */
static bool
rdma_command(struct rdma_conn *c, struct rdma_capsule *capsule)
{
	int r = weft_nvmf_command(c->q, capsule->data, capsule->bytes);

	if (r == -EAGAIN)
		return false;
	if (r != 0 && r != -ESHUTDOWN)
		rdma_fail(c);
	return true;
}

/** An answer was sent: capsules that waited for it go on. */
static void
rdma_resume(struct rdma_conn *c)
{
	struct rdma_capsule *capsule;

	while (!c->lost && (capsule = STAILQ_FIRST(&c->waiting)) != NULL &&
	       rdma_command(c, capsule))
		STAILQ_REMOVE_HEAD(&c->waiting, link);
}

static void
rdma_received(struct rdma_conn *c, const struct weft_wc *wc)
{
	struct rdma_capsule *capsule = (struct rdma_capsule *)(uintptr_t)(wc->wr_id & ~3ULL);

	if (wc->status != WEFT_WC_SUCCESS || c->lost)
		return;
	capsule->bytes = wc->len_bytes;
	if (STAILQ_EMPTY(&c->waiting) && rdma_command(c, capsule))
		return;
	STAILQ_INSERT_TAIL(&c->waiting, capsule, link);
	c->r->stats.capsule_waits++;
}

/* ---- The host's data ---- */

static struct weft_nvmf_cmd *
rdma_pull_next(struct rdma_conn *c)
{
	struct weft_nvmf_cmd *cmd = c->pull_first;

	c->pull_first = (struct weft_nvmf_cmd *)(uintptr_t)cmd->transport[RDMA_LINK];
	if (c->pull_first == NULL)
		c->pull_last = NULL;
	return cmd;
}

/** Where in the host's memory a piece is. */
static uint64_t
rdma_to(const struct weft_nvmf_cmd *cmd, uint64_t piece)
{
	uint64_t to = cmd->sgl.addr;

	for (uint64_t i = 0; i < piece; i++)
		to += cmd->iov[i].iov_len;
	return to;
}

/** Post Reads as far as ORD allows. */
static void
rdma_reads(struct rdma_conn *c)
{
	while (c->pull_first != NULL && c->reads < c->ord && !c->lost) {
		struct weft_nvmf_cmd *cmd = c->pull_first;
		const uint64_t i = cmd->transport[RDMA_NEXT]++;
		const struct weft_sge sge = {.addr = cmd->iov[i].iov_base,
		                             .len_bytes = (uint32_t)cmd->iov[i].iov_len,
		                             .lkey = weft_mr_stag(c->r->mr)};
		const struct weft_wr wr = {.wr_id = rdma_id(cmd, RDMA_READ),
		                           .opcode = WEFT_WR_READ,
		                           .flags = WEFT_WR_SIGNALED,
		                           .sg_list = &sge,
		                           .num_sge = 1,
		                           .rdma = {.stag = cmd->sgl.key, .to = rdma_to(cmd, i)}};

		if (cmd->transport[RDMA_NEXT] == cmd->iovs)
			(void)rdma_pull_next(c);
		if (rdma_post(c, &wr, 1) == 0) {
			/* what was not posted will not come */
			cmd->transport[RDMA_STATUS] = 1;
			cmd->transport[RDMA_LEFT] -= cmd->iovs - i;
			if (cmd == c->pull_first)
				(void)rdma_pull_next(c);
			if (cmd->transport[RDMA_LEFT] == 0)
				weft_nvmf_pulled(cmd, -ECONNRESET);
			continue;
		}
		c->reads++;
		c->r->stats.reads++;
	}
}

static void
rdma_pull(struct weft_nvmf_cmd *cmd)
{
	struct rdma_conn *c = weft_nvmf_queue_owner(cmd->queue);

	cmd->transport[RDMA_LEFT] = cmd->iovs;
	if (c->pull_last == NULL)
		c->pull_first = cmd;
	else
		c->pull_last->transport[RDMA_LINK] = (uintptr_t)cmd;
	c->pull_last = cmd;
	if (c->reads >= c->ord)
		c->r->stats.read_waits++;
	rdma_reads(c);
}

static void
rdma_read_done(struct rdma_conn *c, const struct weft_wc *wc)
{
	struct weft_nvmf_cmd *cmd = (struct weft_nvmf_cmd *)(uintptr_t)(wc->wr_id & ~3ULL);

	c->reads--;
	if (wc->status != WEFT_WC_SUCCESS)
		cmd->transport[RDMA_STATUS] = 1;
	else
		c->r->stats.read_bytes += wc->len_bytes;
	if (--cmd->transport[RDMA_LEFT] == 0)
		weft_nvmf_pulled(cmd, cmd->transport[RDMA_STATUS] != 0 ? -ECONNRESET : 0);
	rdma_reads(c);
}

/* ---- Answers ---- */

static void
rdma_answer(struct weft_nvmf_cmd *cmd)
{
	struct rdma_conn *c = weft_nvmf_queue_owner(cmd->queue);
	const struct weft_sge capsule = {.addr = cmd->answer, .len_bytes = WEFT_NVMF_CQE_BYTES};
	struct weft_wr wr[RDMA_ANSWER_WRS] = {{.wr_id = 0}};
	struct weft_sge sge[RDMA_ANSWER_WRS * RDMA_SGE];
	const uint32_t pieces = cmd->push_bytes > 0 ? cmd->iovs : 0;
	uint32_t n = 0, posted;

	cmd->transport[RDMA_STATUS] = 0;
	for (uint32_t i = 0; i < pieces; i++) {
		sge[i] = (struct weft_sge){.addr = cmd->iov[i].iov_base,
		                           .len_bytes = (uint32_t)cmd->iov[i].iov_len};
		if (i % RDMA_SGE == 0) {
			wr[n].wr_id = rdma_id(cmd, RDMA_WRITE);
			wr[n].opcode = WEFT_WR_WRITE;
			wr[n].flags = WEFT_WR_SIGNALED;
			wr[n].sg_list = &sge[i];
			wr[n].rdma.stag = cmd->sgl.key;
			wr[n++].rdma.to = rdma_to(cmd, i);
		}
		wr[n - 1].num_sge++;
	}
	wr[n].wr_id = rdma_id(cmd, RDMA_SEND);
	wr[n].opcode = cmd->sgl.invalidate ? WEFT_WR_SEND_INV : WEFT_WR_SEND;
	wr[n].flags = WEFT_WR_SIGNALED;
	wr[n].sg_list = &capsule;
	wr[n].num_sge = 1;
	if (cmd->sgl.invalidate)
		wr[n].send.inv_stag = cmd->sgl.key;
	posted = rdma_post(c, wr, n + 1);
	if (posted > n)
		return;
	/* There will be no Send: the memory is used until the last Write is done. */
	cmd->transport[RDMA_STATUS] = 1;
	cmd->transport[RDMA_LEFT] = posted;
	if (posted == 0)
		weft_nvmf_sent(cmd);
}

/** A Write is done. The end of the answer is its Send's, if that was posted. */
static void
rdma_written(const struct weft_wc *wc)
{
	struct weft_nvmf_cmd *cmd = (struct weft_nvmf_cmd *)(uintptr_t)(wc->wr_id & ~3ULL);

	if (cmd->transport[RDMA_STATUS] != 0 && --cmd->transport[RDMA_LEFT] == 0)
		weft_nvmf_sent(cmd);
}

static void
rdma_on_wc(void *user, struct weft_cq *cq, const struct weft_wc *wc, unsigned int n)
{
	(void)user;
	(void)cq;
	for (unsigned int i = 0; i < n; i++) {
		struct rdma_conn *c = wc[i].qp_user;

		c->posted--;
		switch ((enum rdma_tag)(wc[i].wr_id & 3)) {
		case RDMA_RECV:
			rdma_received(c, &wc[i]);
			break;
		case RDMA_READ:
			rdma_read_done(c, &wc[i]);
			break;
		case RDMA_WRITE:
			rdma_written(&wc[i]);
			break;
		case RDMA_SEND:
			weft_nvmf_sent((struct weft_nvmf_cmd *)(uintptr_t)(wc[i].wr_id & ~3ULL));
			rdma_resume(c);
			break;
		}
		if (c->q == NULL && c->posted == 0)
			rdma_free(c);
	}
}

/* ---- Connections ---- */

static void
rdma_close(struct weft_nvmf_queue *q)
{
	struct rdma_conn *c = weft_nvmf_queue_owner(q);

	rdma_close_by(c, c->r->now_ns + RDMA_CLOSE_NS);
	(void)weft_disconnect(c->qp);
}

static void
rdma_gone(struct weft_nvmf_queue *q)
{
	struct rdma_conn *c = weft_nvmf_queue_owner(q);

	/* what is left completes as flushed: here, or in a later poll */
	weft_qp_destroy(c->qp);
	c->qp = NULL;
	c->q = NULL;
	if (c->posted == 0)
		rdma_free(c);
}

static const struct weft_nvmf_transport_ops rdma_ops = {.name = "RDMA",
                                                        .sgl_kinds = 1U << WEFT_NVMF_SGL_CAPSULE |
                                                                     1U << WEFT_NVMF_SGL_KEYED,
                                                        .release = rdma_release,
                                                        .pull = rdma_pull,
                                                        .answer = rdma_answer,
                                                        .close = rdma_close,
                                                        .gone = rdma_gone};

/** The connection has ended. */
static void
rdma_lost(struct rdma_conn *c)
{
	if (c->lost)
		return;
	c->lost = true;
	c->close_ns = 0;
	STAILQ_INIT(&c->waiting);
	weft_nvmf_queue_lost(c->q);
	/* Reads that were not posted will not come. */
	while (c->pull_first != NULL) {
		struct weft_nvmf_cmd *cmd = rdma_pull_next(c);

		cmd->transport[RDMA_STATUS] = 1;
		cmd->transport[RDMA_LEFT] -= cmd->iovs - cmd->transport[RDMA_NEXT];
		if (cmd->transport[RDMA_LEFT] == 0)
			weft_nvmf_pulled(cmd, -ECONNRESET);
	}
}

static void
rdma_on_event(void *user, const struct weft_event *ev)
{
	(void)user;
	if (ev->user == NULL || ev->qp == NULL)
		return;
	if (ev->type == WEFT_EV_DISCONNECTED || ev->type == WEFT_EV_CONNECT_ERROR)
		rdma_lost(ev->user);
}

/** The capsules of a connection, and a receive for each. */
static int
rdma_capsules(struct rdma_conn *c)
{
	const size_t stride = (sizeof(struct rdma_capsule) + c->capsule_bytes + 15) & ~15UL;

	c->capsules = calloc(c->depth, stride);
	if (c->capsules == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < c->depth; i++)
		rdma_recv(c, (struct rdma_capsule *)(c->capsules + i * stride));
	return c->posted == c->depth ? 0 : -ENOMEM;
}

/** Make the connection and its queue. */
static int
rdma_make(struct weft_nvmf_rdma *r, const struct weft_event *ev,
          const struct nvmf_rdma_request *req, struct rdma_conn **out)
{
	struct weft_nvmf_queue_attr qa = {.ops = &rdma_ops, .qid = req->qid, .remote = &ev->remote};
	struct weft_qp_attr attr = {.size = sizeof(attr),
	                            .worker = r->attr.worker,
	                            .send_cq = r->cq,
	                            .recv_cq = r->cq,
	                            .evq = r->evq,
	                            .ord = RDMA_ORD,
	                            .max_sge = 1,
	                            .max_send_sge = RDMA_SGE};
	struct rdma_conn *c = calloc(1, sizeof(*c));
	uint32_t own = req->qid == 0 ? RDMA_ADMIN_DEPTH : r->attr.depth;
	int rc;

	if (c == NULL)
		return -ENOMEM;
	own = own < req->hrqsize ? own : req->hrqsize;
	c->depth = own < req->hsqsize + 1U ? own : req->hsqsize + 1U;
	c->r = r;
	c->ord = ev->ird < RDMA_ORD ? ev->ird : RDMA_ORD;
	c->capsule_bytes = WEFT_NVMF_SQE_BYTES + r->attr.inline_bytes;
	STAILQ_INIT(&c->waiting);
	LIST_INSERT_HEAD(&r->conns, c, link);
	r->stats.conns++;
	attr.user = c;
	attr.rq_depth = c->depth;
	attr.sq_depth = c->depth * RDMA_ANSWER_WRS + RDMA_ORD;
	c->cq_share = attr.rq_depth + attr.sq_depth;
	r->cq_used += c->cq_share;
	rc = r->cq_used > RDMA_CQ_DEPTH ? -ENOSPC : weft_qp_create(r->pd, &attr, &c->qp);
	if (rc == 0) {
		qa.owner = c;
		qa.depth = c->depth;
		qa.inline_bytes = r->attr.inline_bytes;
		rc = weft_nvmf_queue_open(r->attr.group, &qa, &c->q);
		if (rc == 0) {
			rc = rdma_capsules(c);
			if (rc == 0) {
				*out = c;
				return 0;
			}
			rdma_lost(c);
			return rc;
		}
		weft_qp_destroy(c->qp);
	}
	rdma_free(c);
	return rc;
}

int
weft_nvmf_rdma_request(struct weft_nvmf_rdma *r, const struct weft_event *ev)
{
	uint8_t reject[NVMF_RDMA_REJECT_BYTES], accept[NVMF_RDMA_ACCEPT_BYTES];
	struct nvmf_rdma_request req;
	struct weft_conn_attr attr = {.size = sizeof(attr), .keepalive_us = r->attr.keepalive_us};
	enum nvmf_rdma_status why =
	        nvmf_rdma_request_decode(ev->private_data, ev->private_data_bytes, &req);
	struct rdma_conn *c;
	int rc = -EPROTO;

	if (why == NVMF_RDMA_OK && ev->ird == 0)
		why = NVMF_RDMA_IRD;
	if (why == NVMF_RDMA_OK) {
		rc = r->stats.conns >= r->attr.max_conns ? -ENOSPC : rdma_make(r, ev, &req, &c);
		if (rc != 0)
			why = NVMF_RDMA_RESOURCES;
	}
	if (why != NVMF_RDMA_OK) {
		r->stats.rejected++;
		nvmf_rdma_reject_encode(why, reject);
		weft_reject(ev->connreq, reject, sizeof(reject));
		return rc;
	}
	nvmf_rdma_accept_encode((uint16_t)c->depth, accept);
	attr.private_data = accept;
	attr.private_data_bytes = sizeof(accept);
	/* the host never reads here */
	attr.ird = WEFT_DEPTH(0);
	attr.ord = WEFT_DEPTH(c->ord);
	rc = weft_accept(ev->connreq, c->qp, &attr);
	if (rc != 0)
		rdma_lost(c);
	else
		r->stats.accepted++;
	return rc;
}

/* ---- The transport of a worker ---- */

int
weft_nvmf_rdma_open(const struct weft_nvmf_rdma_attr *attr, struct weft_nvmf_rdma **out)
{
	struct weft_nvmf_rdma *r = calloc(1, sizeof(*r));
	struct weft_mr_attr ma = {.size = sizeof(ma), .access = WEFT_ACCESS_LOCAL_WRITE};
	struct weft_cq_attr ca = {.size = sizeof(ca), .on_wc = rdma_on_wc};
	struct weft_evq_attr ea = {.size = sizeof(ea), .on_event = rdma_on_event};
	int rc;

	if (r == NULL)
		return -ENOMEM;
	r->attr = *attr;
	r->attr.depth = attr->depth == 0 ? 128 : attr->depth;
	r->attr.inline_bytes = attr->inline_bytes == 0 ? 4096 : attr->inline_bytes;
	r->attr.max_conns = attr->max_conns == 0 ? 256 : attr->max_conns;
	r->close_ns = UINT64_MAX;
	LIST_INIT(&r->conns);
	ma.addr = attr->memory;
	ma.len_bytes = attr->bytes;
	ca.depth = RDMA_CQ_DEPTH;
	rc = weft_pd_alloc(attr->ctx, &r->pd);
	if (rc == 0)
		rc = weft_mr_reg(r->pd, &ma, &r->mr);
	if (rc == 0)
		rc = weft_cq_create(attr->ctx, &ca, &r->cq);
	if (rc == 0)
		rc = weft_evq_create(attr->ctx, &ea, &r->evq);
	if (rc != 0) {
		(void)weft_nvmf_rdma_close(r);
		return rc;
	}
	*out = r;
	return 0;
}

int
weft_nvmf_rdma_close(struct weft_nvmf_rdma *r)
{
	if (r == NULL)
		return 0;
	if (!LIST_EMPTY(&r->conns))
		return -EBUSY;
	if (r->evq != NULL)
		(void)weft_evq_destroy(r->evq);
	if (r->cq != NULL)
		(void)weft_cq_destroy(r->cq);
	if (r->mr != NULL)
		(void)weft_mr_dereg(r->mr, NULL, NULL);
	if (r->pd != NULL)
		(void)weft_pd_dealloc(r->pd);
	free(r);
	return 0;
}

void
weft_nvmf_rdma_poll(struct weft_nvmf_rdma *r, uint64_t now_ns)
{
	struct rdma_conn *c;

	r->now_ns = now_ns;
	if (now_ns < r->close_ns)
		return;
	r->close_ns = UINT64_MAX;
	LIST_FOREACH (c, &r->conns, link) {
		if (c->lost || c->close_ns == 0)
			continue;
		if (now_ns < c->close_ns) {
			rdma_close_by(c, c->close_ns);
			continue;
		}
		/* the host does not take what was posted for it */
		rdma_close_by(c, now_ns + RDMA_CLOSE_NS);
		r->stats.aborted++;
		(void)weft_abort(c->qp);
	}
}

void
weft_nvmf_rdma_abort(struct weft_nvmf_rdma *r)
{
	struct rdma_conn *c;

	LIST_FOREACH (c, &r->conns, link)
		if (!c->lost)
			rdma_close_by(c, r->now_ns > 0 ? r->now_ns : 1);
}

uint64_t
weft_nvmf_rdma_next_ns(const struct weft_nvmf_rdma *r)
{
	return r->close_ns;
}

void
weft_nvmf_rdma_query(const struct weft_nvmf_rdma *r, struct weft_nvmf_rdma_stats *stats)
{
	*stats = r->stats;
}
