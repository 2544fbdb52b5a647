/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The commands on DPDK's telemetry socket: counters of workers, TCP instances and interfaces, the
 * list of connections and the state of each, captures.
 *
 * Commands run on EAL's telemetry thread. They read counters while the worker counts on. The state
 * of connections is read by their worker itself, by weft_worker_call(). If the worker does not
 * poll, the answer says so.
 */

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include <rte_telemetry.h>

#include "observe_ask.h"
#include "observe_objects.h"
#include "weft_netif.h"
#include "weft_netif_addr.h"
#include "weft_netif_attr.h"
#include "weft_netif_group.h"
#include "weft_netif_port.h"
#include "weft_netif_stats.h"
#include <weft/capture.h>

#define TEL_CONNS    200  /**< connections in one answer; a dictionary holds 256 entries */
#define TEL_LOOKS    1024 /**< connection numbers that a worker tries in one turn */
#define TEL_NAME_LEN 32   /**< size of a port's name, with the final zero */

static int
tel_fields(struct rte_tel_data *d, const void *stats, const struct weft_stat_field *f,
           unsigned int n)
{
	rte_tel_data_start_dict(d);
	for (unsigned int i = 0; i < n; i++)
		rte_tel_data_add_dict_u64(d, f[i].name, weft_stat_read(stats, &f[i]));
	return 0;
}

/* ---- Counters ---- */

static int
tel_workers(const char *cmd, const char *params, struct rte_tel_data *d)
{
	struct weft_worker *w;

	(void)cmd;
	(void)params;
	rte_tel_data_start_array(d, RTE_TEL_STRING_VAL);
	pthread_mutex_lock(&observe_lock);
	for (uint32_t i = 0; i < RTE_TEL_MAX_ARRAY_ENTRIES && (w = observe_worker(i)) != NULL; i++)
		rte_tel_data_add_array_string(d, weft_engine_worker_name(w));
	pthread_mutex_unlock(&observe_lock);
	return 0;
}

static const struct weft_stat_field worker_fields[] = {
#define F(field) WEFT_STAT(weft_worker_stats, field)
        F(polls),
        F(busy_polls),
        F(busy_cycles),
        F(poll_max_ns),
        F(conns),
        F(conns_total),
        F(segs_in),
        F(segs_out),
        F(retrans_segs),
        F(rtos),
        F(fpdus_in),
        F(fpdus_out),
        F(crc_errors),
        F(msgs_in),
        F(msgs_out),
        F(terminates_in),
        F(terminates_out),
        F(wcs),
        F(cq_overruns),
        F(requests_refused),
        F(requests_refused_peer),
        F(requests_evicted),
        F(conns_pushed_out),
        F(left_now),
        F(left_total),
        F(left_timeouts),
        F(left_cut),
        F(medium_waits),
        F(bad_ranges),
        F(revocations),
        F(revocations_reduced),
        F(revocations_invalidated),
        F(revocations_failed),
        F(refused_after_revoke),
        F(conns_refused_peer),
        F(marker_errors),
        F(mpa_fallbacks),
        F(fpdu_timeouts),
        F(fpdus_shed),
        F(fpdus_moved),
        F(fpdus_ahead),
        F(fpdu_heap_bytes),
        F(early_refused),
        F(bad_startup),
#undef F
};

static_assert(RTE_DIM(worker_fields) * sizeof(uint64_t) == sizeof(struct weft_worker_stats),
              "each counter of a worker has a row");

static const struct weft_stat_field port_use_fields[] = {
#define F(field) WEFT_STAT(weft_tcp_port_use, field)
        F(listeners),
        F(conns),
        F(time_wait),
#undef F
};

/** Adds the list "networks" to an interface's counters: each address, with its VLAN, gateway and
 * state. */
static void
tel_networks(struct rte_tel_data *d, const struct weft_netif *nif)
{
	char addr[WEFT_ADDR_STR_LEN], gw[WEFT_ADDR_STR_LEN], text[RTE_TEL_MAX_STRING_LEN];
	struct rte_tel_data *list = rte_tel_data_alloc();
	struct weft_netif_net_info n;

	if (list == NULL)
		return;
	rte_tel_data_start_array(list, RTE_TEL_STRING_VAL);
	for (unsigned int i = 0; weft_netif_net_info(nif, i, &n) == 0; i++) {
		bool via = memcmp(n.net.gateway.b, (uint8_t[16]){0}, 16) != 0;

		snprintf(text, sizeof(text), "%s/%u vlan %u%s%s%s", weft_ip_str(&n.net.addr, addr),
		         n.net.prefix_len, n.net.vlan_id, via ? " gateway " : "",
		         via ? weft_ip_str(&n.net.gateway, gw) : "",
		         n.duplicate   ? " duplicate"
		         : n.tentative ? " tentative"
		                       : "");
		rte_tel_data_add_array_string(list, text);
	}
	rte_tel_data_add_dict_container(d, "networks", list, 0);
}

/** Size and present use of the mbuf pools of an interface's port. The port's rings always hold some
 * of the mbufs. */
static int
tel_pools(struct rte_tel_data *d, const struct weft_netif_attr *a)
{
	const struct rte_mempool *tx = a->tx_pool != NULL ? a->tx_pool : a->pool;

	rte_tel_data_start_dict(d);
	rte_tel_data_add_dict_u64(d, "rx_mbufs", a->pool->size);
	rte_tel_data_add_dict_u64(d, "rx_in_use", rte_mempool_in_use_count(a->pool));
	rte_tel_data_add_dict_u64(d, "tx_mbufs", tx->size);
	rte_tel_data_add_dict_u64(d, "tx_in_use", rte_mempool_in_use_count(tx));
	return 0;
}

/** The messages of a worker by opcode, NAME_in and NAME_out, while it goes on to count. */
static int WEFT_STAT_READER
tel_messages(struct rte_tel_data *d, const struct weft_rdmap_op_stats *s)
{
	char name[32], key[40];

	rte_tel_data_start_dict(d);
	for (uint8_t op = 0; op <= WEFT_RDMAP_AWRITE_RESP; op++) {
		snprintf(name, sizeof(name), "%s", weft_rdmap_op_name(op));
		for (char *c = name; *c != '\0'; c++)
			*c = *c == '-' || *c == ' ' ? '_' : *c;
		snprintf(key, sizeof(key), "%s_in", name);
		rte_tel_data_add_dict_u64(d, key, s->in[op]);
		snprintf(key, sizeof(key), "%s_out", name);
		rte_tel_data_add_dict_u64(d, key, s->out[op]);
	}
	return 0;
}

/** All commands whose answer is one structure of counters. */
static int
tel_counters(const char *cmd, const char *params, struct rte_tel_data *d)
{
	const struct weft_stat_field *f;
	struct weft_tcp_port_use use;
	struct weft_worker_stats ws;
	uint32_t v[OBSERVE_MAX_PARAMS];
	struct weft_worker *w;
	struct weft_netif *nif;
	int n = observe_params(params, v), rc = -ENOENT;
	const bool alone = strcmp(cmd, "/weft/worker") == 0 || strcmp(cmd, "/weft/rdmap") == 0 ||
	                   strcmp(cmd, "/weft/messages") == 0 || strcmp(cmd, "/weft/tcp") == 0;

	/* After the worker some commands take the number of an interface or of a TCP port. */
	if (n < 1 || n > (alone ? 1 : 2))
		return -EINVAL;
	pthread_mutex_lock(&observe_lock);
	w = observe_worker(v[0]);
	if (w == NULL)
		goto out;
	if (strcmp(cmd, "/weft/worker") == 0) {
		weft_worker_stats(w, &ws);
		rc = tel_fields(d, &ws, worker_fields, RTE_DIM(worker_fields));
	} else if (strcmp(cmd, "/weft/rdmap") == 0) {
		unsigned int nf = weft_rdmap_fault_fields(&f);

		rc = tel_fields(d, &weft_engine_op_stats(w)->faults, f, nf);
	} else if (strcmp(cmd, "/weft/messages") == 0) {
		rc = tel_messages(d, weft_engine_op_stats(w));
	} else if (strcmp(cmd, "/weft/tcp") == 0) {
		unsigned int nf = weft_tcp_stat_fields(&f);

		rc = tel_fields(d, weft_tcp_stats(weft_engine_tcp(w)), f, nf);
	} else if (strcmp(cmd, "/weft/local_ports") == 0) {
		weft_tcp_port_use(weft_engine_tcp_ports(weft_engine_ctx(w)),
		                  n > 1 ? (uint16_t)v[1] : 0, &use);
		rc = tel_fields(d, &use, port_use_fields, RTE_DIM(port_use_fields));
	} else if (strcmp(cmd, "/weft/group") == 0) {
		unsigned int nf = weft_netif_group_stat_fields(&f);

		nif = weft_engine_netif(w, n > 1 ? v[1] : 0);
		if (nif != NULL && weft_netif_attr(nif)->group != NULL) {
			const struct weft_netif_attr *a = weft_netif_attr(nif);

			rc = tel_fields(d, weft_netif_group_stats(a->group, a->group_index), f, nf);
		}
	} else if (strcmp(cmd, "/weft/pools") == 0) {
		nif = weft_engine_netif(w, n > 1 ? v[1] : 0);
		if (nif != NULL)
			rc = tel_pools(d, weft_netif_attr(nif));
	} else {
		unsigned int nf = weft_netif_stat_fields(&f);

		nif = weft_engine_netif(w, n > 1 ? v[1] : 0);
		if (nif != NULL)
			rc = tel_fields(d, weft_netif_stats(nif), f, nf);
		if (nif != NULL)
			tel_networks(d, nif);
	}
out:
	pthread_mutex_unlock(&observe_lock);
	return rc;
}

static void
tel_collect_limits(struct weft_worker *w, void *data)
{
	weft_tcp_limits(weft_engine_tcp(w), data);
}

/** WORKER: what its TCP may have at once or do in a second, and what it has. */
static int
tel_tcp_limits(const char *cmd, const char *params, struct rte_tel_data *d)
{
	uint32_t v[OBSERVE_MAX_PARAMS] = {0};
	struct weft_tcp_limits *i;
	int rc;

	(void)cmd;
	if (observe_params(params, v) != 1)
		return -EINVAL;
	i = observe_ask_new(sizeof(*i));
	if (i == NULL)
		return -ENOMEM;
	rc = observe_ask(v[0], tel_collect_limits, i);
	if (rc < 0)
		return rc;
	rte_tel_data_start_dict(d);
#define U(field) rte_tel_data_add_dict_u64(d, #field, i->field)
	U(conns), U(max_conns), U(half_open), U(max_half_open), U(time_wait), U(max_time_wait);
	U(accepts), U(max_accepts_per_s), U(resets), U(resets_per_s), U(challenge_acks);
	U(challenge_acks_per_s);
#undef U
	observe_ask_free(i);
	return 0;
}

/** WORKER: the duration of its polls, by the octaves of the histogram that are not empty. */
static int
tel_polls(const char *cmd, const char *params, struct rte_tel_data *d)
{
	static const struct {
		const char *name;
		double pct;
	} pcts[] = {{"p50_ns", 50}, {"p99_ns", 99}, {"p999_ns", 99.9}, {"p99999_ns", 99.999}};
	struct weft_poll_hist *h = calloc(1, sizeof(*h));
	uint32_t v[OBSERVE_MAX_PARAMS];
	struct weft_worker *w = NULL;
	char key[32];

	(void)cmd;
	if (h == NULL)
		return -ENOMEM;
	h->size = sizeof(*h);
	if (observe_params(params, v) != 1) {
		free(h);
		return -EINVAL;
	}
	pthread_mutex_lock(&observe_lock);
	w = observe_worker(v[0]);
	if (w != NULL)
		(void)weft_worker_poll_hist(w, h);
	pthread_mutex_unlock(&observe_lock);
	if (w == NULL) {
		free(h);
		return -ENOENT;
	}
	rte_tel_data_start_dict(d);
	rte_tel_data_add_dict_u64(d, "polls", h->polls);
	rte_tel_data_add_dict_u64(d, "sum_ns", h->sum_ns);
	rte_tel_data_add_dict_u64(d, "max_ns", h->max_ns);
	for (unsigned int i = 0; i < RTE_DIM(pcts); i++)
		rte_tel_data_add_dict_u64(d, pcts[i].name, weft_poll_hist_pct_ns(h, pcts[i].pct));
	for (unsigned int i = 0; i < WEFT_POLL_HIST_BUCKETS; i += 8) {
		uint64_t n = 0;

		for (unsigned int k = i; k < i + 8; k++)
			n += h->bucket[k].polls;
		if (n == 0)
			continue;
		snprintf(key, sizeof(key), "below_%llu_ns",
		         (unsigned long long)h->bucket[i + 7].below_ns);
		rte_tel_data_add_dict_u64(d, key, n);
	}
	free(h);
	return 0;
}

/* ---- Connections: read by their worker ---- */

/** A question for connections from number `id` on, at most `max`, and its answer. */
struct tel_conns {
	uint32_t id, max, n;
	struct {
		uint32_t id;
		struct weft_tcp_info info;
	} conn[TEL_CONNS];
};

/** Collect the connections. Runs on the worker. */
static void
tel_collect_conns(struct weft_worker *w, void *data)
{
	struct weft_tcp *tcp = weft_engine_tcp(w);
	struct tel_conns *q = data;
	struct weft_tcp_conn *c;

	for (uint32_t looks = TEL_LOOKS; q->n < q->max && q->id != UINT32_MAX && looks > 0;) {
		uint32_t from = q->id;

		c = weft_tcp_conn_next(tcp, &q->id, looks);
		looks -= RTE_MIN(looks, q->id == UINT32_MAX ? looks : q->id - from);
		if (c == NULL)
			continue;
		q->conn[q->n].id = weft_tcp_conn_id(c);
		weft_tcp_info(c, &q->conn[q->n++].info);
	}
}

/** Ask the worker for connections. The caller releases *out by observe_ask_free(). Errors as
 * observe_ask(), -ENOMEM. */
static int
tel_ask(uint32_t worker, uint32_t id, uint32_t max, struct tel_conns **out)
{
	struct tel_conns *q = observe_ask_new(sizeof(*q));
	int rc;

	if (q == NULL)
		return -ENOMEM;
	q->id = id;
	q->max = max;
	rc = observe_ask(worker, tel_collect_conns, q);
	if (rc != 0)
		return rc;
	*out = q;
	return 0;
}

static void
tel_name(const struct weft_tcp_info *i, char *buf, size_t size)
{
	char local[WEFT_ADDR_STR_LEN], remote[WEFT_ADDR_STR_LEN];

	snprintf(buf, size, "%s %s %s", weft_addr_str(&i->local, i->local_port, local),
	         weft_addr_str(&i->remote, i->remote_port, remote), weft_tcp_state_name(i->state));
}

/** WORKER[,FIRST]: entries number -> "local remote state". "next": FIRST of the next command. */
static int
tel_conns(const char *cmd, const char *params, struct rte_tel_data *d)
{
	uint32_t v[OBSERVE_MAX_PARAMS] = {0};
	char key[16], text[RTE_TEL_MAX_STRING_LEN];
	struct tel_conns *q = NULL;
	int rc = observe_params(params, v);

	(void)cmd;
	if (rc < 1 || rc > 2)
		return -EINVAL;
	rc = tel_ask(v[0], v[1], TEL_CONNS, &q);
	if (rc < 0)
		return rc;
	rte_tel_data_start_dict(d);
	for (uint32_t i = 0; i < q->n; i++) {
		snprintf(key, sizeof(key), "%u", q->conn[i].id);
		tel_name(&q->conn[i].info, text, sizeof(text));
		rte_tel_data_add_dict_string(d, key, text);
	}
	if (q->id != UINT32_MAX)
		rte_tel_data_add_dict_u64(d, "next", q->id);
	observe_ask_free(q);
	return 0;
}

/** The times and timers of a connection that are not off. */
static void
tel_conn_times(const struct weft_tcp_info *i, struct rte_tel_data *d)
{
	if (i->last_snd_ms != UINT32_MAX)
		rte_tel_data_add_dict_u64(d, "last_snd_ms", i->last_snd_ms);
	if (i->last_rcv_ms != UINT32_MAX)
		rte_tel_data_add_dict_u64(d, "last_rcv_ms", i->last_rcv_ms);
	rte_tel_data_add_dict_string(d, "xmit_timer", i->xmit_timer);
	if (i->xmit_timer_us != UINT64_MAX)
		rte_tel_data_add_dict_u64(d, "xmit_timer_us", i->xmit_timer_us);
	if (i->delack_timer_us != UINT64_MAX)
		rte_tel_data_add_dict_u64(d, "delack_timer_us", i->delack_timer_us);
	if (i->life_timer_us != UINT64_MAX)
		rte_tel_data_add_dict_u64(d, "life_timer_us", i->life_timer_us);
}

/** WORKER,NUMBER: the state and the counters of one connection. */
static int
tel_conn(const char *cmd, const char *params, struct rte_tel_data *d)
{
	char local[WEFT_ADDR_STR_LEN], remote[WEFT_ADDR_STR_LEN];
	uint32_t v[OBSERVE_MAX_PARAMS] = {0};
	const struct weft_tcp_info *i;
	struct tel_conns *q = NULL;
	int rc = observe_params(params, v);

	(void)cmd;
	if (rc != 2)
		return -EINVAL;
	rc = tel_ask(v[0], v[1], 1, &q);
	if (rc < 0)
		return rc;
	if (q->n == 0 || q->conn[0].id != v[1]) {
		observe_ask_free(q);
		return -ENOENT;
	}
	i = &q->conn[0].info;
	rte_tel_data_start_dict(d);
	rte_tel_data_add_dict_string(d, "local", weft_addr_str(&i->local, i->local_port, local));
	rte_tel_data_add_dict_string(d, "remote",
	                             weft_addr_str(&i->remote, i->remote_port, remote));
	rte_tel_data_add_dict_string(d, "state", weft_tcp_state_name(i->state));
	rte_tel_data_add_dict_string(d, "cc", i->cc_name != NULL ? i->cc_name : "");
#define U(field) rte_tel_data_add_dict_u64(d, #field, i->field)
	U(srtt_us), U(rttvar_us), U(rto_us), U(cwnd_bytes), U(ssthresh_bytes), U(snd_wnd_bytes);
	U(rcv_wnd_bytes), U(unacked_bytes), U(queued_bytes), U(mss_bytes), U(pmtu_bytes);
	U(dscp), U(snd_wscale), U(rcv_wscale), U(timestamps), U(sack), U(ecn), U(in_recovery);
	U(rcv_nxt), U(snd_una), U(snd_nxt), U(segs_in), U(segs_out), U(bytes_in), U(bytes_out);
	U(retrans_segs), U(rtos), U(fast_retrans), U(tlp_probes), U(spurious_retrans);
	U(dupacks_in), U(sack_blocks_in), U(ooo_segs), U(dup_bytes_in), U(min_rtt_us);
	U(rcv_mss_bytes), U(backoff), U(reordering), U(lost_bytes), U(sacked_bytes), U(snd_mbufs);
	U(ooo_mbufs), U(ooo_bytes);
#undef U
	tel_conn_times(i, d);
	observe_ask_free(q);
	return 0;
}

/* ---- Captures ---- */

static struct weft_port *
tel_port(const char *name)
{
	struct weft_port *port;
	struct observe_ctx *t;

	TAILQ_FOREACH (t, &observe_ctxs, link)
		for (unsigned int k = 0; (port = weft_engine_port_at(t->ctx, k)) != NULL; k++)
			if (strcmp(weft_port_name(port), name) == 0)
				return port;
	return NULL;
}

/** The names of all ports. */
static int
tel_ports(const char *cmd, const char *params, struct rte_tel_data *d)
{
	struct weft_port *port;
	struct observe_ctx *t;

	(void)cmd;
	(void)params;
	rte_tel_data_start_array(d, RTE_TEL_STRING_VAL);
	pthread_mutex_lock(&observe_lock);
	TAILQ_FOREACH (t, &observe_ctxs, link)
		for (unsigned int k = 0; (port = weft_engine_port_at(t->ctx, k)) != NULL; k++)
			rte_tel_data_add_array_string(d, weft_port_name(port));
	pthread_mutex_unlock(&observe_lock);
	return 0;
}

/** Capture only the connection "WORKER,NUMBER": set its addresses in *ca. */
static int
tel_capture_conn(const char *params, struct weft_capture_attr *ca)
{
	uint32_t v[OBSERVE_MAX_PARAMS];
	struct tel_conns *q = NULL;
	int rc;

	if (observe_params(params, v) != 2)
		return -EINVAL;
	rc = tel_ask(v[0], v[1], 1, &q);
	if (rc < 0)
		return rc;
	if (q->n == 0 || q->conn[0].id != v[1]) {
		rc = -ENOENT;
	} else {
		const struct weft_tcp_info *i = &q->conn[0].info;

		weft_ip_to_sockaddr(&i->local, i->local_port, &ca->local);
		weft_ip_to_sockaddr(&i->remote, i->remote_port, &ca->remote);
	}
	observe_ask_free(q);
	return rc;
}

/** PORT,FILE[,WORKER,NUMBER] */
static int
tel_capture(const char *cmd, const char *params, struct rte_tel_data *d)
{
	struct weft_capture_attr ca = {.size = sizeof(ca)};
	char name[TEL_NAME_LEN], path[PATH_MAX];
	struct weft_port *port;
	int end = 0, rc = 0;

	(void)cmd;
	if (params == NULL || sscanf(params, "%31[^,],%4095[^,]%n", name, path, &end) != 2)
		return -EINVAL;
	ca.path = path;
	if (params[end] == ',')
		rc = tel_capture_conn(params + end + 1, &ca);
	if (rc < 0)
		return rc;
	pthread_mutex_lock(&observe_lock);
	port = tel_port(name);
	rc = port != NULL ? weft_capture_start(port, &ca) : -ENOENT;
	pthread_mutex_unlock(&observe_lock);
	if (rc < 0)
		return rc;
	rte_tel_data_string(d, path);
	return 0;
}

/** PORT */
static int
tel_capture_stop(const char *cmd, const char *params, struct rte_tel_data *d)
{
	struct weft_capture_stats st;
	struct weft_port *port;
	int rc;

	(void)cmd;
	pthread_mutex_lock(&observe_lock);
	port = params != NULL ? tel_port(params) : NULL;
	rc = port != NULL ? weft_capture_stop(port, &st) : -ENOENT;
	pthread_mutex_unlock(&observe_lock);
	if (rc < 0)
		return rc;
	rte_tel_data_start_dict(d);
	rte_tel_data_add_dict_u64(d, "packets", st.packets);
	rte_tel_data_add_dict_u64(d, "file_bytes", st.file_bytes);
	rte_tel_data_add_dict_u64(d, "dropped", st.dropped);
	rte_tel_data_add_dict_int(d, "error", st.error);
	return 0;
}

/** The names of these offloads with blanks between. */
static const char *
tel_offloads(uint32_t offloads, char *buf, size_t size)
{
	/* In the order of enum weft_offload. */
	static const char *const name[] = {"rx-checksum", "tx-checksum", "tso",
	                                   "scatter",     "gather",      "rss",
	                                   "vlan-strip",  "vlan-insert", "vlan-filter"};
	size_t n = 0;

	buf[0] = '\0';
	for (unsigned int i = 0; i < RTE_DIM(name) && n < size; i++)
		if ((offloads & 1u << i) != 0)
			n += (size_t)snprintf(buf + n, size - n, "%s%s", n > 0 ? " " : "", name[i]);
	return buf;
}

/** What was agreed with the port's driver when it was opened, and what is in use of it. */
static void
tel_port_dev(const struct weft_netif_port *dev, const struct weft_port_stats *st,
             struct rte_tel_data *d)
{
	char text[RTE_TEL_MAX_STRING_LEN];

	rte_tel_data_add_dict_string(d, "driver", dev->driver);
	rte_tel_data_add_dict_u64(d, "port_id", dev->port_id);
	snprintf(text, sizeof(text), "%02x:%02x:%02x:%02x:%02x:%02x", st->mac[0], st->mac[1],
	         st->mac[2], st->mac[3], st->mac[4], st->mac[5]);
	rte_tel_data_add_dict_string(d, "mac", text);
	rte_tel_data_add_dict_int(d, "numa_node", st->numa_node);
	rte_tel_data_add_dict_string(d, "offloads", tel_offloads(st->offloads, text, sizeof(text)));
	rte_tel_data_add_dict_string(d, "offloads_failed",
	                             tel_offloads(st->offloads_failed, text, sizeof(text)));
	rte_tel_data_add_dict_u64(d, "selftest_frames", st->selftest_frames);
	rte_tel_data_add_dict_u64(d, "selftest_wrong", st->selftest_wrong);
	rte_tel_data_add_dict_u64(d, "workers", st->queues);
	rte_tel_data_add_dict_u64(d, "rx_queues", dev->rx_queues);
	rte_tel_data_add_dict_u64(d, "tx_queues", dev->tx_queues);
	rte_tel_data_add_dict_u64(d, "rx_descriptors", dev->rx_desc);
	rte_tel_data_add_dict_u64(d, "rx_interrupts", dev->rx_intr);
	rte_tel_data_add_dict_u64(d, "rss", st->rss);
	rte_tel_data_add_dict_u64(d, "rss_table_entries", dev->rss ? dev->reta_size : 0);
	rte_tel_data_add_dict_u64(d, "handed_over", st->handed_over);
	rte_tel_data_add_dict_u64(d, "handover_dropped", st->handover_dropped);
}

/** PORT: its link, as show port of weft-console says it, and its packets. */
static int
tel_port_show(const char *cmd, const char *params, struct rte_tel_data *d)
{
	struct weft_netif_port dev;
	struct weft_port_stats st;
	struct weft_port *port;
	int rc;

	(void)cmd;
	pthread_mutex_lock(&observe_lock);
	port = params != NULL ? tel_port(params) : NULL;
	rc = port != NULL ? weft_port_stats(port, &st) : -ENOENT;
	if (rc == 0)
		dev = *weft_engine_port_dev(port);
	pthread_mutex_unlock(&observe_lock);
	if (rc < 0)
		return rc;
	rte_tel_data_start_dict(d);
	rte_tel_data_add_dict_string(d, "link",
	                             st.removed   ? "removed"
	                             : st.link_up ? "up"
	                                          : "down");
	rte_tel_data_add_dict_u64(d, "speed_mbps", st.speed_mbps);
	rte_tel_data_add_dict_int(d, "full_duplex", st.full_duplex);
	rte_tel_data_add_dict_int(d, "pause_rx", st.pause_rx);
	rte_tel_data_add_dict_int(d, "pause_tx", st.pause_tx);
	rte_tel_data_add_dict_u64(d, "mtu_bytes", st.mtu_bytes);
	if (st.slaves[0] != '\0')
		rte_tel_data_add_dict_string(d, "slaves", st.slaves);
#define U(field) rte_tel_data_add_dict_u64(d, #field, st.field)
	U(link_ups), U(link_downs), U(rx_packets), U(rx_bytes), U(tx_packets), U(tx_bytes);
	U(rx_bad), U(rx_dropped), U(tx_dropped), U(rx_missed);
#undef U
	tel_port_dev(&dev, &st, d);
	return 0;
}

static int
tel_guard(const char *cmd, const char *params, struct rte_tel_data *d)
{
	struct weft_guard_stats st;

	(void)cmd;
	(void)params;
	weft_guard_stats(&st);
	rte_tel_data_start_dict(d);
	rte_tel_data_add_dict_int(d, "installed", st.installed);
	rte_tel_data_add_dict_u64(d, "faults", st.faults);
	rte_tel_data_add_dict_u64(d, "pages_lost", st.pages_lost);
	rte_tel_data_add_dict_u64(d, "passed_on", st.passed_on);
	rte_tel_data_add_dict_u64(d, "unreplaced", st.unreplaced);
	rte_tel_data_add_dict_u64(d, "memif_gone", weft_netif_memif_gone());
	return 0;
}

/* ---- Registration ---- */

static const struct tel_row {
	const char *cmd;
	telemetry_cb fn;
	const char *help;
} tel_rows[] = {
        {"/weft/guard", tel_guard, "What the process's guards caught. No parameters"},
        {"/weft/port", tel_port_show,
         "A port's link: speed, duplex, pause frames, MTU, and its packets. Parameters: string "
         "port"},
        {"/weft/workers", tel_workers, "Names of the workers. No parameters"},
        {"/weft/worker", tel_counters, "A worker's counters. Parameters: int worker"},
        {"/weft/worker/polls", tel_polls, "How long its iterations take. Parameters: int worker"},
        {"/weft/rdmap", tel_counters,
         "Its Terminates and refusals by cause. Parameters: int worker"},
        {"/weft/messages", tel_counters,
         "Its messages by operation, received and sent. Parameters: int worker"},
        {"/weft/tcp", tel_counters, "Its TCP's counters. Parameters: int worker"},
        {"/weft/tcp_limits", tel_tcp_limits,
         "What its TCP may have at once or do in a second, and what it has. Parameters: int "
         "worker"},
        {"/weft/group", tel_counters,
         "What an interface passes to the port's other workers. Parameters: int worker[, int "
         "interface]"},
        {"/weft/local_ports", tel_counters,
         "Listeners, connections and TIME-WAITs of all workers of the worker's context. "
         "Parameters: int worker[, int port]"},
        {"/weft/netif", tel_counters,
         "Counters of one of its interfaces. Parameters: int worker, [int interface]"},
        {"/weft/pools", tel_counters,
         "The mbufs of an interface's port, and those in use. Parameters: int worker, [int "
         "interface]"},
        {"/weft/ports", tel_ports, "Names of the ports. No parameters"},
        {"/weft/qps", observe_qps, "Its QPs by number. Parameters: int worker[, int first number]"},
        {"/weft/regions", observe_objects,
         "Memory regions of a context. Parameters: int context[, int first number]"},
        {"/weft/windows", observe_objects,
         "Memory windows of a context. Parameters: int context[, int first number]"},
        {"/weft/cqs", observe_objects,
         "Completion queues of a context. Parameters: int context[, int first number]"},
        {"/weft/srqs", observe_objects,
         "Shared receive queues of a context. Parameters: int context[, int first number]"},
        {"/weft/context", observe_context,
         "How many objects a context has, and may have. Parameters: int context"},
        {"/weft/timers", observe_timers, "Its timers and queued tasks. Parameters: int worker"},
        {"/weft/neighbours", observe_neighbours,
         "Next hops of an interface. Parameters: int worker, int interface[, int first number]"},
        {"/weft/routes", observe_routes,
         "Addresses, networks and gateways of an interface. Parameters: int worker, int "
         "interface"},
        {"/weft/drivers", observe_drivers, "Persist and hash drivers. No parameters"},
        {"/weft/conns", tel_conns,
         "Its connections by number. Parameters: int worker, [int first number]"},
        {"/weft/conn", tel_conn, "One connection's figures. Parameters: int worker, int number"},
        {"/weft/capture", tel_capture,
         "Capture a port to a pcapng file. Parameters: string port, string file, [int worker, int "
         "connection]"},
        {"/weft/capture_stop", tel_capture_stop, "End it. Parameters: string port"},
};

/** The entry point of all commands. DPDK answers an error with null; this gives its reason. */
static int
tel_serve(const char *cmd, const char *params, struct rte_tel_data *d)
{
	for (unsigned int i = 0; i < RTE_DIM(tel_rows); i++)
		if (strcmp(tel_rows[i].cmd, cmd) == 0)
			return observe_answer(tel_rows[i].fn(cmd, params, d), d);
	return observe_answer(-ENOENT, d);
}

static void
tel_register(void)
{
	for (unsigned int i = 0; i < RTE_DIM(tel_rows); i++)
		rte_telemetry_register_cmd(tel_rows[i].cmd, tel_serve, tel_rows[i].help);
}

int
observe_telemetry_add(struct weft_ctx *ctx)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct observe_ctx *t = calloc(1, sizeof(*t));

	if (t == NULL)
		return -ENOMEM;
	t->ctx = ctx;
	pthread_once(&once, tel_register);
	pthread_mutex_lock(&observe_lock);
	TAILQ_INSERT_TAIL(&observe_ctxs, t, link);
	pthread_mutex_unlock(&observe_lock);
	return 0;
}

void
observe_telemetry_del(struct weft_ctx *ctx)
{
	struct observe_ctx *t;

	pthread_mutex_lock(&observe_lock);
	TAILQ_FOREACH (t, &observe_ctxs, link)
		if (t->ctx == ctx)
			break;
	if (t != NULL)
		TAILQ_REMOVE(&observe_ctxs, t, link);
	pthread_mutex_unlock(&observe_lock);
	free(t);
}
