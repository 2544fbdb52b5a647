/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Commands of telemetry about verbs: queue pairs with their streams, regions, windows,
 * completion and shared receive queues, timers. All are read by a worker of their context.
 */

#include <stdio.h>

#include "observe_ask.h"
#include "observe_objects.h"
#include "weft_verbs_list.h"

/* Objects in one answer, which has at most 16 KiB. */
#define VERBS_QPS     7
#define VERBS_OBJECTS 36

/* ---- Queue pairs ---- */

struct verbs_qps {
	uint32_t from, n;
	struct weft_qp_info qp[VERBS_QPS];
	int send_cq[VERBS_QPS], recv_cq[VERBS_QPS], srq[VERBS_QPS];
};

static void
verbs_collect_qps(struct weft_worker *w, void *data)
{
	struct weft_vworker *vw = weft_vworker_of(w);
	struct verbs_qps *q = data;

	q->n = weft_verbs_list_qps(vw, q->from, q->qp, VERBS_QPS);
	for (uint32_t i = 0; i < q->n; i++) {
		q->send_cq[i] = weft_verbs_list_cq_at(vw->ctx, q->qp[i].send_cq);
		q->recv_cq[i] = weft_verbs_list_cq_at(vw->ctx, q->qp[i].recv_cq);
		q->srq[i] = weft_verbs_list_srq_at(vw->ctx, q->qp[i].srq);
	}
}

static const char *
verbs_addr(const struct sockaddr_storage *a, char buf[WEFT_ADDR_STR_LEN])
{
	struct weft_ip ip;
	uint16_t port;

	if (a->ss_family == 0 || weft_ip_from_sockaddr((const struct sockaddr *)a, &ip, &port) != 0)
		return "";
	return weft_addr_str(&ip, port, buf);
}

/** What MPA and RDMAP agreed at start-up, and the Terminate. */
static void
verbs_qp_stream(struct rte_tel_data *d, const struct weft_qp_info *i)
{
	char text[RTE_TEL_MAX_STRING_LEN];

	rte_tel_data_add_dict_u64(d, "mpa_rev", i->mpa.rev);
	rte_tel_data_add_dict_u64(d, "crc", i->mpa.crc);
	rte_tel_data_add_dict_u64(d, "rx_markers", i->mpa.rx_markers);
	rte_tel_data_add_dict_u64(d, "tx_markers", i->mpa.tx_markers);
	rte_tel_data_add_dict_u64(d, "peer_to_peer", i->mpa.p2p);
	rte_tel_data_add_dict_u64(d, "rtr", i->mpa.rtr);
	rte_tel_data_add_dict_u64(d, "mulpdu_bytes", i->mulpdu_bytes);
	rte_tel_data_add_dict_u64(d, "ird", i->ird);
	rte_tel_data_add_dict_u64(d, "ord", i->ord);
	rte_tel_data_add_dict_u64(d, "asked_ird", i->asked_ird);
	rte_tel_data_add_dict_u64(d, "asked_ord", i->asked_ord);
	rte_tel_data_add_dict_u64(d, "in_requests", i->in_reads);
	rte_tel_data_add_dict_u64(d, "out_requests", i->out_reads);
	rte_tel_data_add_dict_u64(d, "ord_stalls", i->ord_stalls);
	rte_tel_data_add_dict_string(
	        d, "terminate",
	        i->terminated ? weft_terminate_str(&i->term, text, sizeof(text)) : "");
	rte_tel_data_add_dict_string(d, "terminate_by",
	                             !i->terminated ? ""
	                             : i->term.ours ? "us"
	                                            : "the peer");
}

/** Untagged queue N as qN_tx_msn, qN_rx_msn and qN_rx_mo. */
static void
verbs_qp_queues(struct rte_tel_data *d, const struct weft_qp_info *i)
{
	char key[32];

	for (unsigned int n = 0; n < WEFT_DDP_QUEUES; n++) {
		snprintf(key, sizeof(key), "q%u_tx_msn", n);
		rte_tel_data_add_dict_u64(d, key, i->ddp[n].tx_msn);
		snprintf(key, sizeof(key), "q%u_rx_msn", n);
		rte_tel_data_add_dict_u64(d, key, i->ddp[n].rx_msn);
		snprintf(key, sizeof(key), "q%u_rx_mo", n);
		rte_tel_data_add_dict_u64(d, key, i->ddp[n].rx_mo);
	}
}

static void
verbs_qp(struct rte_tel_data *d, const struct weft_qp_info *i)
{
	char addr[WEFT_ADDR_STR_LEN];

	rte_tel_data_add_dict_string(d, "state", weft_qp_state_str(i->state));
	rte_tel_data_add_dict_string(d, "local", verbs_addr(&i->local, addr));
	rte_tel_data_add_dict_string(d, "remote", verbs_addr(&i->remote, addr));
#define U(field) rte_tel_data_add_dict_u64(d, #field, i->field)
	U(sq_used), U(sq_depth), U(rq_used), U(rq_depth), U(max_send_sge), U(max_sge);
	U(max_inline_bytes), U(all_signaled), U(sent_msgs), U(sent_bytes), U(recv_msgs);
	U(recv_bytes), U(retrans_segs), U(srtt_us);
#undef U
	verbs_qp_stream(d, i);
	verbs_qp_queues(d, i);
}

int
observe_qps(const char *cmd, const char *params, struct rte_tel_data *d)
{
	uint32_t v[OBSERVE_MAX_PARAMS] = {0};
	struct verbs_qps *q;
	int rc = observe_params(params, v);

	(void)cmd;
	if (rc < 1 || rc > 2)
		return -EINVAL;
	q = observe_ask_new(sizeof(*q));
	if (q == NULL)
		return -ENOMEM;
	q->from = v[1];
	rc = observe_ask(v[0], verbs_collect_qps, q);
	if (rc < 0)
		return rc;
	rte_tel_data_start_dict(d);
	for (uint32_t i = 0; i < q->n; i++) {
		struct rte_tel_data *one = observe_item(d, q->qp[i].qpn);

		if (one == NULL)
			continue;
		verbs_qp(one, &q->qp[i]);
		rte_tel_data_add_dict_int(one, "send_cq", q->send_cq[i]);
		rte_tel_data_add_dict_int(one, "recv_cq", q->recv_cq[i]);
		rte_tel_data_add_dict_int(one, "srq", q->srq[i]);
	}
	if (q->n == VERBS_QPS)
		rte_tel_data_add_dict_u64(d, "next", q->qp[q->n - 1].qpn + 1);
	observe_ask_free(q);
	return 0;
}

/* ---- Objects of a context ---- */

union verbs_item {
	struct weft_verbs_mr_item mr;
	struct weft_mw_info mw;
	struct weft_cq_info cq;
	struct weft_srq_info srq;
};

/** How one kind of object is listed, and shown. */
struct verbs_kind {
	const char *cmd;
	unsigned int (*list)(struct weft_vctx *v, uint32_t from, void *out, size_t each_bytes,
	                     unsigned int max);
	void (*show)(struct rte_tel_data *d, const union verbs_item *i);
};

struct verbs_objects {
	const struct verbs_kind *kind;
	uint32_t from, n;
	union verbs_item item[VERBS_OBJECTS];
};

static void
verbs_rights(struct rte_tel_data *d, uint32_t access)
{
	/* In the order of WEFT_ACCESS_*. */
	static const char *const name[] = {"local-write", "read",    "write",  "atomic",
	                                   "flush",       "visible", "verify", "bind"};
	char text[RTE_TEL_MAX_STRING_LEN] = "";
	size_t n = 0;

	for (unsigned int i = 0; i < RTE_DIM(name); i++)
		if ((access & 1u << i) != 0)
			n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s", n > 0 ? " " : "",
			                      name[i]);
	rte_tel_data_add_dict_string(d, "rights", text);
}

static void
verbs_stag(struct rte_tel_data *d, uint32_t stag, bool valid)
{
	char text[16];

	snprintf(text, sizeof(text), "0x%08x", stag);
	rte_tel_data_add_dict_string(d, "stag", text);
	rte_tel_data_add_dict_u64(d, "valid", valid);
}

static void
verbs_show_mr(struct rte_tel_data *d, const union verbs_item *i)
{
	verbs_stag(d, i->mr.info.stag, i->mr.info.valid);
	rte_tel_data_add_dict_u64(d, "len_bytes", i->mr.info.len_bytes);
	rte_tel_data_add_dict_u64(d, "base_to", i->mr.info.base_to);
	verbs_rights(d, i->mr.info.access);
	rte_tel_data_add_dict_string(d, "medium", i->mr.mechanism);
	rte_tel_data_add_dict_string(d, "hash", i->mr.info.hash != NULL ? i->mr.info.hash : "");
	rte_tel_data_add_dict_u64(d, "fast", i->mr.info.fast);
	rte_tel_data_add_dict_u64(d, "windows", i->mr.info.windows);
	rte_tel_data_add_dict_u64(d, "bad_ranges", i->mr.info.bad_ranges);
}

static void
verbs_show_mw(struct rte_tel_data *d, const union verbs_item *i)
{
	verbs_stag(d, i->mw.stag, i->mw.valid);
	rte_tel_data_add_dict_u64(d, "len_bytes", i->mw.len_bytes);
	rte_tel_data_add_dict_u64(d, "base_to", i->mw.base_to);
	verbs_rights(d, i->mw.access);
}

static void
verbs_show_cq(struct rte_tel_data *d, const union verbs_item *i)
{
	rte_tel_data_add_dict_u64(d, "depth", i->cq.depth);
	rte_tel_data_add_dict_u64(d, "workers", i->cq.workers);
	rte_tel_data_add_dict_u64(d, "waiting", i->cq.waiting);
	rte_tel_data_add_dict_u64(d, "queues", i->cq.users);
	rte_tel_data_add_dict_u64(d, "overruns", i->cq.overruns);
	rte_tel_data_add_dict_string(d, "armed",
	                             i->cq.armed             ? "any"
	                             : i->cq.armed_solicited ? "solicited"
	                                                     : "");
}

static void
verbs_show_srq(struct rte_tel_data *d, const union verbs_item *i)
{
#define U(field) rte_tel_data_add_dict_u64(d, #field, i->srq.field)
	U(depth), U(max_sge), U(limit), U(posted), U(used), U(qps), U(no_buffer), U(limit_events);
#undef U
}

static const struct verbs_kind verbs_kinds[] = {
        {"/weft/regions", weft_verbs_list_mrs, verbs_show_mr},
        {"/weft/windows", weft_verbs_list_mws, verbs_show_mw},
        {"/weft/cqs", weft_verbs_list_cqs, verbs_show_cq},
        {"/weft/srqs", weft_verbs_list_srqs, verbs_show_srq},
};

static void
verbs_collect(struct weft_worker *w, void *data)
{
	struct verbs_objects *q = data;

	q->n = q->kind->list(weft_vworker_of(w)->ctx, q->from, q->item, sizeof(q->item[0]),
	                     VERBS_OBJECTS);
}

/** The number of the first worker of a context, or -ENOENT. */
static int
verbs_worker_of(uint32_t context)
{
	struct observe_ctx *t;
	int number = 0;

	pthread_mutex_lock(&observe_lock);
	TAILQ_FOREACH (t, &observe_ctxs, link) {
		if (context-- == 0)
			break;
		for (unsigned int k = 0; weft_engine_worker_at(t->ctx, k) != NULL; k++)
			number++;
	}
	if (t == NULL)
		number = -ENOENT;
	pthread_mutex_unlock(&observe_lock);
	return number;
}

int
observe_objects(const char *cmd, const char *params, struct rte_tel_data *d)
{
	uint32_t v[OBSERVE_MAX_PARAMS] = {0};
	struct verbs_objects *q;
	int rc = observe_params(params, v), worker;

	if (rc < 1 || rc > 2)
		return -EINVAL;
	worker = verbs_worker_of(v[0]);
	if (worker < 0)
		return worker;
	q = observe_ask_new(sizeof(*q));
	if (q == NULL)
		return -ENOMEM;
	q->from = v[1];
	q->kind = &verbs_kinds[0];
	while (strcmp(q->kind->cmd, cmd) != 0)
		q->kind++;
	rc = observe_ask((uint32_t)worker, verbs_collect, q);
	if (rc < 0)
		return rc;
	rte_tel_data_start_dict(d);
	for (uint32_t i = 0; i < q->n; i++) {
		struct rte_tel_data *one = observe_item(d, v[1] + i);

		if (one != NULL)
			q->kind->show(one, &q->item[i]);
	}
	if (q->n == VERBS_OBJECTS)
		rte_tel_data_add_dict_u64(d, "next", v[1] + q->n);
	observe_ask_free(q);
	return 0;
}

int
observe_context(const char *cmd, const char *params, struct rte_tel_data *d)
{
	uint32_t v[OBSERVE_MAX_PARAMS];
	struct weft_ctx_info i;
	struct observe_ctx *t;

	(void)cmd;
	if (observe_params(params, v) != 1)
		return -EINVAL;
	pthread_mutex_lock(&observe_lock);
	TAILQ_FOREACH (t, &observe_ctxs, link)
		if (v[0]-- == 0)
			break;
	if (t != NULL)
		weft_ctx_query(t->ctx, &i);
	pthread_mutex_unlock(&observe_lock);
	if (t == NULL)
		return -ENOENT;
	rte_tel_data_start_dict(d);
#define U(field) rte_tel_data_add_dict_u64(d, #field, i.field)
	U(workers), U(qps), U(max_qps), U(regions), U(max_regions), U(pds), U(cqs), U(srqs);
	U(evqs), U(listeners), U(max_sq_depth), U(max_rq_depth), U(max_srq_depth), U(max_cq_depth);
	U(max_sge), U(max_inline_bytes), U(max_ird), U(max_ord);
#undef U
	return 0;
}

/* ---- Drivers, timers ---- */

int
observe_drivers(const char *cmd, const char *params, struct rte_tel_data *d)
{
	const struct weft_persist_ops *p;
	const struct weft_hash_ops *h;
	struct rte_tel_data *one;
	uint32_t n = 0;

	(void)cmd;
	(void)params;
	rte_tel_data_start_dict(d);
	for (unsigned int i = 0; (p = weft_persist_get(i)) != NULL; i++) {
		one = observe_item(d, n++);
		if (one == NULL)
			continue;
		rte_tel_data_add_dict_string(one, "kind", "persist");
		rte_tel_data_add_dict_string(one, "name", p->name);
		rte_tel_data_add_dict_string(one, "makes",
		                             p->persistent ? "persistent" : "visible");
	}
	for (unsigned int i = 0; (h = weft_hash_get(i)) != NULL; i++) {
		one = observe_item(d, n++);
		if (one == NULL)
			continue;
		rte_tel_data_add_dict_string(one, "kind", "hash");
		rte_tel_data_add_dict_string(one, "name", h->name);
		rte_tel_data_add_dict_u64(one, "result_bytes", h->result_bytes);
	}
	return 0;
}

struct verbs_timers {
	uint32_t armed, tasks;
	uint64_t next_ns, now_ns;
};

static void
verbs_collect_timers(struct weft_worker *w, void *data)
{
	const struct weft_sched *s = &weft_vworker_of(w)->sched;
	const struct weft_task *task;
	struct verbs_timers *q = data;

	q->armed = s->wheel.armed;
	q->next_ns = weft_timer_next(&s->wheel);
	q->now_ns = s->now_ns;
	TAILQ_FOREACH (task, &s->run, link)
		q->tasks++;
}

int
observe_timers(const char *cmd, const char *params, struct rte_tel_data *d)
{
	uint32_t v[OBSERVE_MAX_PARAMS];
	struct verbs_timers *q;
	int rc;

	(void)cmd;
	if (observe_params(params, v) != 1)
		return -EINVAL;
	q = observe_ask_new(sizeof(*q));
	if (q == NULL)
		return -ENOMEM;
	rc = observe_ask(v[0], verbs_collect_timers, q);
	if (rc < 0)
		return rc;
	rte_tel_data_start_dict(d);
	rte_tel_data_add_dict_u64(d, "armed", q->armed);
	if (q->next_ns != WEFT_NEVER)
		rte_tel_data_add_dict_u64(
		        d, "next_us", q->next_ns > q->now_ns ? (q->next_ns - q->now_ns) / 1000 : 0);
	rte_tel_data_add_dict_u64(d, "tasks", q->tasks);
	observe_ask_free(q);
	return 0;
}
