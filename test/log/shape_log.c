/* SPDX-License-Identifier: BSD-3-Clause */
/** @file A program with a remote log: it appends and ends without a close. A second run finds
 * every record that was reported durable to the first one. Each run gets its own grant of the
 * memory. */

#include "../verbs/shape.h"

#define RECORDS 200
#define REGION  (1 << 20)

static struct shape s;
static struct weft_evq *evq, *target_evq;
static struct weft_log *wlog;
static struct weft_log_host *host;
static struct weft_mr *sink_mr;
static char sink[65536];
static unsigned int life, durable, found;

/* ---- The target: memory granted to one writer at a time, the latest one that connects ---- */

struct caller {
	struct weft_connreq *connreq;
	struct weft_cq *cq;
};

/* No operation of an earlier grant can access the memory any more. */
static void
granted(void *arg, const struct weft_log_grant *g, int status)
{
	struct caller *c = arg;
	struct weft_conn_attr ca = {.size = sizeof(ca)};

	if (status == 0) {
		/* For this connection only: its QP remembers the grant that ends with it. */
		ca.private_data = &g->stag;
		ca.private_data_bytes = sizeof(g->stag);
		if (weft_accept(
		            c->connreq,
		            shape_qp(&s, s.server, c->cq, target_evq, (void *)(uintptr_t)g->stag),
		            &ca) != 0)
			MUST(weft_log_host_end(host, g->stag) == 0);
	} else {
		weft_reject(c->connreq, NULL, 0);
	}
	free(c);
}

static void
target_event(void *user, const struct weft_event *ev)
{
	struct caller *c;

	if (ev->type == WEFT_EV_CONNECT_REQUEST) {
		c = malloc(sizeof(*c));
		MUST(c != NULL);
		*c = (struct caller){ev->connreq, user};
		MUST(weft_log_host_grant(host, true, granted, c) == 0);
	} else if (ev->type == WEFT_EV_DISCONNECTED) {
		/* -ENOENT: another writer has taken over before */
		(void)weft_log_host_end(host, (uint32_t)(uintptr_t)ev->user);
		weft_qp_destroy(ev->qp);
	}
}

/* ---- The writer ---- */

static void
appended(void *arg, const struct weft_log_at *at, int status)
{
	(void)at;
	MUST(status == 0 && (uintptr_t)arg == durable);
	if (++durable == RECORDS)
		weft_worker_stop_async(s.client); /* the first run ends here */
}

static void
have_read(void *arg, struct weft_log_chunk *chunk)
{
	struct weft_sge buf = {
	        .addr = sink, .len_bytes = sizeof(sink), .lkey = weft_mr_stag(sink_mr)};
	struct weft_log_record rec;

	(void)arg;
	MUST(chunk->status == 0);
	while (weft_log_chunk_next(chunk, &rec) == 1)
		MUST(rec.len_bytes == 4 && memcmp(rec.data, &found, 4) == 0 && ++found > 0);
	if (weft_log_read(wlog, &chunk->at, &buf, have_read, NULL) != 0)
		weft_worker_stop_async(s.client); /* -ENODATA: there are no further records */
}

static void
log_event(void *user, const struct weft_log_event *ev)
{
	static uint32_t data[RECORDS];
	struct weft_log_chunk begin = {.at = ev->head};

	(void)user;
	if (ev->type == WEFT_LOG_EV_JOINED)
		MUST(weft_log_open(wlog) == 0);
	MUST(ev->type != WEFT_LOG_EV_LOST && ev->type != WEFT_LOG_EV_FAILED);
	if (ev->type != WEFT_LOG_EV_OPEN)
		return;
	if (life == 2) {
		have_read(NULL, &begin);
		return;
	}
	for (uint32_t i = 0; i < RECORDS; i++) {
		struct weft_sge sg = {.addr = &data[i], .len_bytes = 4};
		struct weft_log_append a = {.sg_list = &sg,
		                            .num_sge = 1,
		                            .durable = appended,
		                            .arg = (void *)(uintptr_t)i};

		data[i] = i;
		MUST(weft_log_append(wlog, &a, NULL) == 0);
	}
}

static void
writer_event(void *user, const struct weft_event *ev)
{
	struct weft_log_target t = {.size = sizeof(t), .qp = ev->qp, .len_bytes = REGION};

	(void)user;
	if (ev->type != WEFT_EV_ESTABLISHED)
		return;
	memcpy(&t.stag, ev->private_data, sizeof(t.stag));
	MUST(weft_log_join(wlog, &t) >= 0);
}

static void
live(void)
{
	struct weft_log_attr la = {.size = sizeof(la),
	                           .ctx = s.ctx,
	                           .pd = s.pd,
	                           .worker = s.client,
	                           .flush_flags = WEFT_FLUSH_VISIBLE,
	                           .on_event = log_event};
	struct sockaddr_in sa = shape_addr(1);
	struct weft_qp_attr qa;
	struct weft_qp *qp;

	life++;
	MUST(weft_log_create(&la, &wlog) == 0);
	weft_log_qp_attr(wlog, &qa);
	qa.evq = evq;
	MUST(weft_qp_create(s.pd, &qa, &qp) == 0);
	MUST(weft_connect(qp, (struct sockaddr *)&sa, sizeof(sa), NULL) == 0);
	MUST(weft_worker_run(s.client) == 0);
	weft_log_destroy(wlog);
}

int
main(void)
{
	struct weft_evq_attr ea = {.size = sizeof(ea), .on_event = writer_event},
	                     ta = {.size = sizeof(ta), .on_event = target_event};
	struct weft_persist_attr pa = {
	        .size = sizeof(pa), .driver = "volatile", .bytes = REGION, .numa_node = -1};
	struct weft_log_super super = {
	        .size = sizeof(super), .log_id = "an example's id", .target_id = "its only target"};
	struct weft_mr_attr ma = {.size = sizeof(ma),
	                          .len_bytes = REGION,
	                          .access = WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_REMOTE_READ |
	                                    WEFT_ACCESS_REMOTE_WRITE | WEFT_ACCESS_FLUSH_VISIBLE};
	struct weft_mr_attr sa = {.size = sizeof(sa),
	                          .addr = sink,
	                          .len_bytes = sizeof(sink),
	                          .access = WEFT_ACCESS_LOCAL_WRITE};
	struct weft_cq_attr ca = {.size = sizeof(ca), .depth = 64};
	struct weft_listen_attr la = {.size = sizeof(la)};
	struct sockaddr_in addr = shape_addr(1);
	struct weft_log_host_info info;
	struct weft_log_image img;
	struct weft_listener *lsn;
	struct weft_persist *memory;
	struct weft_cq *cq;

	shape_env();
	shape_open(&s);
	MUST(weft_persist_open(&pa, &memory) == 0);
	MUST(weft_log_format(memory->base, REGION, &super) == 0);
	ma.addr = memory->base;
	ma.persist = memory;
	MUST(weft_log_host_create(s.pd, &ma, &host) == 0);
	MUST(weft_mr_reg(s.pd, &sa, &sink_mr) == 0);
	MUST(weft_cq_create(s.ctx, &ca, &cq) == 0);
	ta.user = cq;
	MUST(weft_evq_create(s.ctx, &ta, &target_evq) == 0);
	MUST(weft_evq_create(s.ctx, &ea, &evq) == 0);
	la.evq = target_evq;
	MUST(weft_listen(s.ctx, (struct sockaddr *)&addr, sizeof(addr), &la, &lsn) == 0);
	MUST(weft_worker_start(s.server) == 0);
	live();
	live();
	weft_worker_stop(s.server);
	weft_log_host_query(host, &info);
	MUST(info.grants == 2);
	weft_log_host_destroy(host, NULL, NULL);
	MUST(durable == RECORDS && found == RECORDS);
	MUST(weft_log_image_open(memory->base, REGION, &img) == 0 && img.end.seq == RECORDS + 3);
	weft_ctx_destroy(s.ctx);
	weft_persist_close(memory);
	weft_env_fini();
	shape_ok("a remote log");
	return 0;
}
