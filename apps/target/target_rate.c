/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The rates and connections of exports. The buckets are rate.c's. */

#include <errno.h>
#include <stdlib.h>

#include "target.h"
#include "target_grant.h"
#include "target_quota.h"
#include "target_rate.h"
#include "target_volume.h"

#define NS_PER_US 1000U

/** An export's rates on one worker. */
struct target_rate {
	struct rate_node node; /**< first: the functions below cast to it */
	struct target_worker *tw;
	LIST_ENTRY(target_rate) link; /**< in the worker's `rated` */
	bool rated;                   /**< it has, or has had, clients since the last reaping */
	struct weft_alarm *alarm;
	uint64_t alarm_ns;
};

static uint64_t
rate_now(struct rate_node *n)
{
	return weft_worker_now_ns(((struct target_rate *)n)->tw->w);
}

static void
rate_alarm(void *arg)
{
	struct target_rate *r = arg;

	r->alarm = NULL;
	rate_run(&r->node);
}

static int
rate_arm(struct rate_node *n, uint64_t at_ns)
{
	struct target_rate *r = (struct target_rate *)n;
	const uint64_t now_ns = n->now_ns;
	struct weft_alarm *a;
	int rc;

	if (r->alarm != NULL && r->alarm_ns <= at_ns)
		return 0;
	rc = weft_alarm_set(r->tw->w, at_ns > now_ns ? (at_ns - now_ns) / NS_PER_US + 1 : 1,
	                    rate_alarm, r, &a);
	if (rc != 0)
		return r->alarm != NULL ? 0 : rc; /* a later one stands */
	if (r->alarm != NULL)
		weft_alarm_cancel(r->alarm);
	r->alarm = a;
	r->alarm_ns = at_ns;
	return 0;
}

static void
node_init(struct target_worker *tw, uint32_t slot)
{
	struct target_rate *r = &tw->rates[slot];

	rate_node_init(&r->node, &tw->t->rates[slot], rate_now, rate_arm);
	r->tw = tw;
}

int
target_rates_up(struct target_worker *tw)
{
	tw->rates = target_table_make(CONF_EXPORTS_MAX * sizeof(*tw->rates));
	if (tw->rates == NULL)
		return -ENOMEM;
	LIST_INIT(&tw->rated);
	for (uint32_t i = 0; i < target_nexports(tw->t); i++)
		node_init(tw, i);
	return 0;
}

void
target_rates_slot(struct target *t, uint32_t slot)
{
	rate_export_init(&t->rates[slot]);
	for (uint32_t i = 0; i < t->stack.nworkers; i++)
		if (t->workers[i].rates != NULL)
			node_init(&t->workers[i], slot);
}

void
target_rates_down(struct target_worker *tw)
{
	for (uint32_t i = 0; tw->rates != NULL && i < target_nexports(tw->t); i++) {
		if (tw->rates[i].alarm != NULL)
			weft_alarm_cancel(tw->rates[i].alarm);
		rate_node_fini(&tw->rates[i].node);
	}
	target_table_free(tw->rates, CONF_EXPORTS_MAX * sizeof(*tw->rates));
	tw->rates = NULL;
}

static void
rated_add(struct target_rate *r)
{
	if (!r->rated)
		LIST_INSERT_HEAD(&r->tw->rated, r, link);
	r->rated = true;
}

static void
rated_remove(struct target_rate *r)
{
	LIST_REMOVE(r, link);
	r->rated = false;
}

void
target_rates_reap(struct target_worker *tw)
{
	struct target_rate *r, *next;

	for (r = LIST_FIRST(&tw->rated); r != NULL; r = next) {
		next = LIST_NEXT(r, link);
		rate_reap(&r->node);
		if (rate_is_bare(&r->node))
			rated_remove(r);
	}
}

static struct rate_node *
rate_of(struct target_worker *tw, const struct target_export *ex)
{
	return &tw->rates[ex - tw->t->exports].node;
}

void
target_rate_set(struct target *t, const struct target_export *ex)
{
	const struct conf_export *c = ex->conf;
	const struct rate_limits l = {
	        .bytes_per_s = c->max_bytes_per_s,
	        .client_bytes_per_s = c->client_bytes_per_s,
	        .ops_per_s = c->max_ops_per_s,
	        .client_ops_per_s = c->client_ops_per_s,
	};

	rate_set(&t->rates[ex - t->exports], &l);
}

void
target_rate_look(struct target_worker *tw, const struct target_export *ex)
{
	if (tw->rates != NULL) /* a change may be told of while the target ends */
		rate_look(rate_of(tw, ex));
}

bool
target_rate_is_on(const struct target_worker *tw, const struct target_export *ex)
{
	return tw->rates[ex - tw->t->exports].node.on;
}

uint32_t
target_rate_clients(const struct target_worker *tw, const struct target_export *ex,
                    struct rate_walk *walk, uint32_t most,
                    bool (*fn)(void *arg, const struct quota_id *id, uint64_t ops, uint64_t bytes,
                               bool waits),
                    void *arg)
{
	if (!target_rate_is_on(tw, ex) && !walk->open)
		return 0;
	return rate_clients(&tw->rates[ex - tw->t->exports].node, walk, most, fn, arg);
}

/* ---- Connections ---- */

/** Whether the connection has a grant of the export. */
static bool
rate_holds(const struct target_conn *c, const struct target_export *ex)
{
	const struct target_grant *g;
	const struct target_vgrant *v;

	LIST_FOREACH (g, &c->grants, link)
		if (g->ex == ex)
			return true;
	LIST_FOREACH (v, &c->vgrants, link)
		if (v->ex == ex && !v->ended)
			return true;
	return false;
}

bool
target_rate_conn(const struct target_conn *c, struct target_export *ex)
{
	const uint32_t most = ex->conf->max_conns;

	if (most == 0 || atomic_load_explicit(&ex->conns, memory_order_relaxed) < most ||
	    rate_holds(c, ex))
		return true;
	atomic_fetch_add_explicit(&ex->conns_refused, 1, memory_order_relaxed);
	return false;
}

int
target_rate_open(struct target_conn *c, struct target_export *ex, struct rate_pass *p)
{
	const bool first = !rate_holds(c, ex);
	struct quota_id id;
	int rc;

	/* Connections of other workers ask at the same time. */
	if (first && !rate_place_take(&ex->conns, ex->conf->max_conns)) {
		atomic_fetch_add_explicit(&ex->conns_refused, 1, memory_order_relaxed);
		return -EUSERS;
	}
	target_quota_id(c, &id);
	rated_add(&c->w->rates[ex - c->w->t->exports]);
	rc = rate_pass_open(p, rate_of(c->w, ex), &id);
	if (rc != 0 && first)
		atomic_fetch_sub_explicit(&ex->conns, 1, memory_order_relaxed);
	return rc;
}

void
target_rate_end(const struct target_conn *c, struct target_export *ex, struct rate_pass *p)
{
	if (!rate_holds(c, ex))
		atomic_fetch_sub_explicit(&ex->conns, 1, memory_order_relaxed);
	rate_pass_end(p);
}
