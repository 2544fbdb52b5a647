/* SPDX-License-Identifier: BSD-3-Clause */
/** @file All metrics as a text. Metrics thread. */

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "metrics_read.h"
#include "target.h"
#include "target_volume.h"
#include "ui.h"

#define NS_PER_SEC 1000000000ULL

static void
one(struct metrics_text *tx, enum metrics_family f, uint64_t value)
{
	metrics_text_family(tx, f);
	metrics_text_u64(tx, "", value);
}

static void
render_target(const struct target *t, const struct metrics_exports_sum *sum,
              struct metrics_text *tx, uint64_t now_ns)
{
	char labels[METRICS_LABELS_MAX];
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	metrics_text_family(tx, METRICS_F_INFO);
	metrics_text_u64(tx, metrics_labels(labels, "version", WEFT_VERSION, NULL), 1);
	metrics_text_family(tx, METRICS_F_START);
	metrics_text_ns(tx, "",
	                (uint64_t)ts.tv_sec * NS_PER_SEC + (uint64_t)ts.tv_nsec -
	                        (now_ns - t->ready_ns));
	one(tx, METRICS_F_READY, metrics_is_ready(t, sum->exports, sum->served));
	one(tx, METRICS_F_SAFE, !sum->busy);
	one(tx, METRICS_F_CONNS, atomic_load_explicit(&t->nconns, memory_order_relaxed));
	one(tx, METRICS_F_AUTH_PASSED, metrics_get(&t->auth_passed));
	one(tx, METRICS_F_AUTH_REFUSED, metrics_get(&t->auth_refused));
	one(tx, METRICS_F_AUTH_LATE, metrics_get(&t->auth_late));
}

/* ---- Clients ---- */

static uint64_t
client_value(const struct metrics_client *c, enum metrics_family f)
{
	switch (f) {
	case METRICS_F_CL_CONNS:
		return c->conns;
	case METRICS_F_CL_GRANTS:
		return c->grants;
	case METRICS_F_CL_WINDOWS:
		return c->windows;
	case METRICS_F_CL_RECV:
		return c->sum[METRICS_RECV_BYTES];
	case METRICS_F_CL_SENT:
		return c->sum[METRICS_SENT_BYTES];
	case METRICS_F_CL_RECV_MSGS:
		return c->sum[METRICS_RECV_MSGS];
	default:
		return c->sum[METRICS_SENT_MSGS];
	}
}

static void
render_clients(const struct metrics_client *c, uint32_t n, struct metrics_text *tx)
{
	char labels[METRICS_LABELS_MAX];

	for (enum metrics_family f = METRICS_F_CL_CONNS; f <= METRICS_F_CL_SENT_MSGS; f++) {
		metrics_text_family(tx, f);
		for (uint32_t i = 0; i < n; i++)
			metrics_text_u64(tx,
			                 metrics_labels(labels, "client", c[i].key + 1,
			                                "authenticated",
			                                c[i].key[0] == '=' ? "yes" : "no", NULL),
			                 client_value(&c[i], f));
	}
}

/* ---- Workers ---- */

/** What is shown of one worker, copied once. */
struct worker_shown {
	char label[METRICS_LABELS_MAX];
	struct weft_worker_stats st;
	struct weft_poll_hist poll;
	struct weft_rpc_budget_info calls;
	uint64_t vshown[TARGET_VSHOWN];
	bool volumes;
};

static void
worker_copy(const struct target_worker *tw, uint32_t number, struct worker_shown *s)
{
	char name[16];

	snprintf(name, sizeof(name), "%u", number);
	metrics_labels(s->label, "worker", name, NULL);
	weft_worker_stats(tw->w, &s->st);
	s->poll.size = sizeof(s->poll);
	(void)weft_worker_poll_hist(tw->w, &s->poll);
	if (tw->budget != NULL)
		weft_rpc_budget_info(tw->budget, &s->calls);
	s->volumes = tw->volumes != NULL;
	for (unsigned int i = 0; s->volumes && i < TARGET_VSHOWN; i++)
		s->vshown[i] = metrics_get(&tw->volumes->shown[i]);
}

static uint64_t
worker_value(const struct worker_shown *s, enum metrics_family f)
{
	const struct weft_worker_stats *st = &s->st;

	switch (f) {
	case METRICS_F_W_POLLS:
		return st->polls;
	case METRICS_F_W_BUSY:
		return st->busy_polls;
	case METRICS_F_W_CONNS:
		return st->conns;
	case METRICS_F_W_ALL_CONNS:
		return st->conns_total;
	case METRICS_F_W_SEGS_IN:
		return st->segs_in;
	case METRICS_F_W_SEGS_OUT:
		return st->segs_out;
	case METRICS_F_W_RETRANS:
		return st->retrans_segs;
	case METRICS_F_W_RTOS:
		return st->rtos;
	case METRICS_F_W_CRC:
		return st->crc_errors;
	case METRICS_F_W_MSGS_IN:
		return st->msgs_in;
	case METRICS_F_W_MSGS_OUT:
		return st->msgs_out;
	case METRICS_F_W_TERM_IN:
		return st->terminates_in;
	case METRICS_F_W_TERM_OUT:
		return st->terminates_out;
	case METRICS_F_W_REFUSED:
		return st->requests_refused + st->requests_refused_peer + st->conns_refused_peer +
		       st->requests_evicted + st->early_refused;
	case METRICS_F_W_CALLS:
		return s->calls.held_bytes;
	case METRICS_F_W_CALLS_MAX:
		return s->calls.limit_bytes;
	case METRICS_F_W_STAGING:
		return s->vshown[TARGET_VSHOWN_STAGING_FREE];
	case METRICS_F_W_STAGING_WAIT:
		return s->vshown[TARGET_VSHOWN_STAGING_WAITING];
	case METRICS_F_W_WINDOWS:
		return s->vshown[TARGET_VSHOWN_WINDOWS_OPEN];
	default:
		return s->vshown[TARGET_VSHOWN_WINDOWS];
	}
}

/** The finer buckets of the poll loop, put together into ours. */
static void
render_polls(const struct worker_shown *s, struct metrics_text *tx)
{
	uint64_t n[METRICS_BUCKETS] = {0};

	for (unsigned int i = 0; i < WEFT_POLL_HIST_BUCKETS; i++) {
		const uint64_t below = s->poll.bucket[i].below_ns;

		n[metrics_bucket(below > 0 ? below - 1 : 0)] += s->poll.bucket[i].polls;
	}
	metrics_text_hist(tx, s->label, n, s->poll.sum_ns, 1);
}

static void
render_workers(const struct target *t, struct metrics_text *tx)
{
	struct worker_shown *s = calloc(t->stack.nworkers, sizeof(*s));

	if (s == NULL) {
		tx->failed = true;
		return;
	}
	for (uint32_t i = 0; i < t->stack.nworkers; i++)
		worker_copy(&t->workers[i], i, &s[i]);
	for (enum metrics_family f = METRICS_F_W_POLLS; f <= METRICS_F_W_WINDOWS_MAX; f++) {
		metrics_text_family(tx, f);
		for (uint32_t i = 0; i < t->stack.nworkers; i++)
			if (f == METRICS_F_W_POLL)
				render_polls(&s[i], tx);
			else if (f < METRICS_F_W_STAGING || s[i].volumes)
				metrics_text_u64(tx, s[i].label, worker_value(&s[i], f));
	}
	free(s);
}

/* ---- Ports ---- */

static uint64_t
port_value(const struct weft_port_stats *p, enum metrics_family f)
{
	switch (f) {
	case METRICS_F_P_UP:
		return p->link_up;
	case METRICS_F_P_SPEED:
		return p->speed_mbps * 125000ULL;
	case METRICS_F_P_RX:
		return p->rx_packets;
	case METRICS_F_P_RX_BYTES:
		return p->rx_bytes;
	case METRICS_F_P_TX:
		return p->tx_packets;
	case METRICS_F_P_TX_BYTES:
		return p->tx_bytes;
	case METRICS_F_P_BAD:
		return p->rx_bad;
	case METRICS_F_P_DROPPED:
		return p->rx_dropped + p->tx_dropped;
	default:
		return p->rx_missed;
	}
}

static void
render_ports(const struct target *t, struct metrics_text *tx)
{
	struct weft_port_stats st[CONF_PORTS_MAX];
	char labels[CONF_PORTS_MAX][METRICS_LABELS_MAX];
	bool has[CONF_PORTS_MAX];

	for (uint32_t i = 0; i < t->conf.nports; i++) {
		has[i] = weft_port_stats(t->stack.ports[i], &st[i]) == 0;
		metrics_labels(labels[i], "port", t->conf.ports[i].name, NULL);
	}
	for (enum metrics_family f = METRICS_F_P_UP; f <= METRICS_F_P_MISSED; f++) {
		metrics_text_family(tx, f);
		for (uint32_t i = 0; i < t->conf.nports; i++)
			if (has[i])
				metrics_text_u64(tx, labels[i], port_value(&st[i], f));
	}
}

static void
render_self(const struct metrics_self *self, uint64_t late, struct metrics_text *tx)
{
	one(tx, METRICS_F_SELF_CONNS, self->conns);
	one(tx, METRICS_F_SELF_REQUESTS, self->requests);
	one(tx, METRICS_F_SELF_REFUSED, self->refused);
	metrics_text_family(tx, METRICS_F_SELF_CLOSED);
	metrics_text_u64(tx, "why=\"slow\"", self->slow);
	metrics_text_u64(tx, "why=\"idle\"", self->idle);
	metrics_text_u64(tx, "why=\"pushed_out\"", self->pushed_out);
	one(tx, METRICS_F_SELF_LATE, late);
	metrics_text_family(tx, METRICS_F_SELF_SECONDS);
	metrics_text_ns(tx, "", self->render_ns);
}

void
metrics_render(struct metrics *m, struct metrics_shown *ms, const struct metrics_clients *mc,
               const struct metrics_self *self, struct metrics_text *tx)
{
	const struct metrics_client *clients;
	const uint64_t now_ns = ui_now_ns();
	uint32_t n, left_out;
	uint64_t late;

	clients = metrics_clients_all(mc, &n, &left_out, &late);
	if (!metrics_shown_read(ms)) {
		tx->failed = true;
		return;
	}
	render_target(m->t, metrics_shown_sum(ms), tx, now_ns);
	metrics_render_exports(m, ms, tx, now_ns);
	render_clients(clients, n, tx);
	one(tx, METRICS_F_CL_LEFT, left_out);
	render_workers(m->t, tx);
	render_ports(m->t, tx);
	render_self(self, late, tx);
}
