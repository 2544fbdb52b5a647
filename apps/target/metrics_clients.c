/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Sums of each client. A worker keeps those of connections that have ended, and copies them
 * and those of open ones when the metrics thread asks, a few in each poll, so that no poll becomes
 * long: a pass. A connection that ends in the middle of a pass is copied then, if its octets are
 * not in what was copied already. So a pass misses nothing, and what a worker says of a client
 * becomes less only when the worker has forgotten what ended connections of the client have had.
 * The thread adds up what the client has more from one pass to the next.
 */

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "addr.h"
#include "metrics_read.h"
#include "target.h"
#include "target_grant.h"
#include "target_volume.h"
#include "ui.h"

#define SLICE   16U        /**< connections that are copied in one poll */
#define ROOM    256U       /**< for connections that come during a pass */
#define WAIT_NS 200000000U /**< for one worker */
#define LOOK_US 50

/** What a worker is asked for, and copies. The worker has it while asked != answered. */
struct ask {
	struct metrics_worker *mw;
	struct metrics_client *row;
	uint32_t n, cap, closed_at;
	bool first, more;
	bool alive;           /**< only an answer is wanted */
	bool missed;          /**< the pass has missed some */
	uint32_t asked;       /**< the metrics thread's */
	atomic_uint answered; /**< a release behind the rest */
	uint64_t asked_ns;
};

struct metrics_clients {
	struct metrics *m;
	struct ask ask[CONF_WORKERS_MAX];
	struct metrics_client *all;   /**< by key */
	struct metrics_client *shown; /**< by key; METRICS_CLIENTS_MAX */
	uint32_t nall, nshown;
	uint64_t late;
};

/* ---- On the worker ---- */

void
metrics_client_key(const struct target_conn *c, char key[HOST_AUTH_NAME_MAX + ADDR_STR_MAX + 1])
{
	char host[ADDR_STR_MAX];

	/* A name may look like an address. */
	if (c->auth.state == HOST_AUTH_DONE)
		snprintf(key, HOST_AUTH_NAME_MAX + ADDR_STR_MAX, "=%s", c->auth.name);
	else
		snprintf(key, HOST_AUTH_NAME_MAX + ADDR_STR_MAX, "@%s",
		         addr_host_str(&c->remote, host));
}

/** The client's place in the table of those whose connections have ended; it may be that of
 * another one, which is forgotten. */
static struct metrics_closed *
closed_place(struct metrics_worker *mw, const char *key)
{
	struct metrics_closed *oldest = NULL;
	uint64_t h = mw->closed_key;

	for (const char *p = key; *p != '\0'; p++)
		h = ((h ^ (unsigned char)*p) * 0x9e3779b97f4a7c15ULL) ^ (h >> 29);
	for (unsigned int i = 0; i < METRICS_NEAR; i++) {
		struct metrics_closed *e = &mw->closed[(h + i) % METRICS_CLOSED];

		if (e->used_ns != 0 && strcmp(e->key, key) == 0)
			return e;
		if (oldest == NULL || e->used_ns < oldest->used_ns)
			oldest = e;
	}
	memset(oldest, 0, sizeof(*oldest));
	mw->closed_used[(oldest - mw->closed) / 64] |= 1ULL << ((oldest - mw->closed) % 64);
	snprintf(oldest->key, sizeof(oldest->key), "%s", key);
	return oldest;
}

static void
client_sums(const struct target_conn *c, uint64_t sum[METRICS_SUMS])
{
	struct weft_qp_info info;

	weft_qp_query(c->qp, &info);
	sum[METRICS_RECV_BYTES] += info.recv_bytes;
	sum[METRICS_SENT_BYTES] += info.sent_bytes;
	sum[METRICS_RECV_MSGS] += info.recv_msgs;
	sum[METRICS_SENT_MSGS] += info.sent_msgs;
}

void
target_metrics_conn_gone(const struct target_conn *c)
{
	char key[sizeof(((struct metrics_closed *)0)->key)];
	struct metrics_worker *mw = metrics_me;
	struct metrics_closed *e;
	struct metrics_client *r;

	if (mw == NULL)
		return;
	if (mw->next_conn == c)
		mw->next_conn = LIST_NEXT(c, link);
	if (c->qp == NULL)
		return;
	metrics_client_key(c, key);
	e = closed_place(mw, key);
	e->used_ns = weft_worker_now_ns(mw->tw->w);
	client_sums(c, e->sum);
	/* Its client's sum of ended connections was copied without it, and so was not it. */
	if (!mw->pass_open || c->metrics_pass == mw->pass ||
	    (uint32_t)(e - mw->closed) >= mw->closed_at)
		return;
	if (mw->ngone == METRICS_GONE) {
		mw->gone_lost = true;
		return;
	}
	r = &mw->gone[mw->ngone++];
	memset(r, 0, sizeof(*r));
	memcpy(r->key, key, sizeof(key));
	client_sums(c, r->seen);
}

/** A row to fill in; NULL: there is no room. */
static struct metrics_client *
ask_row(struct ask *a)
{
	if (a->n == a->cap) {
		a->missed = true;
		return NULL;
	}
	memset(&a->row[a->n], 0, sizeof(a->row[0]));
	return &a->row[a->n++];
}

static void
copy_closed(struct ask *a, const struct metrics_closed *e)
{
	struct metrics_client *r = ask_row(a);

	if (r == NULL)
		return;
	memcpy(r->key, e->key, sizeof(r->key));
	memcpy(r->seen, e->sum, sizeof(r->seen));
}

static void
copy_conn(struct ask *a, struct target_conn *c)
{
	struct metrics_client *r = ask_row(a);
	const struct target_vgrant *v;

	c->metrics_pass = a->mw->pass;
	if (r == NULL)
		return;
	metrics_client_key(c, r->key);
	r->conns = 1;
	r->grants = c->ngrants;
	LIST_FOREACH (v, &c->vgrants, link)
		r->windows += v->nwindows;
	client_sums(c, r->seen);
}

static void
copy_gone(struct ask *a)
{
	struct metrics_worker *mw = a->mw;
	struct metrics_client *r;

	for (uint32_t i = 0; i < mw->ngone; i++)
		if ((r = ask_row(a)) != NULL)
			*r = mw->gone[i];
	mw->ngone = 0;
	a->missed = a->missed || mw->gone_lost;
}

/** Copy at most `most` clients whose connections have ended. */
static void
copy_some_closed(struct ask *a, unsigned int most)
{
	const struct metrics_worker *mw = a->mw;

	while (a->closed_at < METRICS_CLOSED && most > 0) {
		const uint64_t used = mw->closed_used[a->closed_at / 64] >> (a->closed_at % 64);

		if (used == 0) {
			a->closed_at = (a->closed_at / 64 + 1) * 64;
			continue;
		}
		a->closed_at += (uint32_t)__builtin_ctzll(used);
		copy_closed(a, &mw->closed[a->closed_at++]);
		most--;
	}
}

static void
ask_slice(void *arg)
{
	struct ask *a = arg;
	struct metrics_worker *mw = a->mw;

	if (a->alive) {
		atomic_fetch_add_explicit(&a->answered, 1, memory_order_release);
		return;
	}
	if (a->first) {
		mw->next_conn = LIST_FIRST(&mw->tw->conns);
		mw->pass += mw->pass == UINT32_MAX ? 2 : 1; /* 0: of a connection that is new */
		mw->ngone = 0;
		mw->pass_open = true;
		mw->gone_lost = false;
	}
	copy_gone(a);
	/* Ended ones first: one that ends from now on is never counted twice. */
	copy_some_closed(a, SLICE);
	mw->closed_at = a->closed_at;
	for (unsigned int i = 0; a->closed_at == METRICS_CLOSED && i < SLICE; i++) {
		if (mw->next_conn == NULL)
			break;
		copy_conn(a, mw->next_conn);
		mw->next_conn = LIST_NEXT(mw->next_conn, link);
	}
	a->more = a->closed_at < METRICS_CLOSED || mw->next_conn != NULL;
	mw->pass_open = a->more;
	atomic_fetch_add_explicit(&a->answered, 1, memory_order_release);
}

/* ---- On the metrics thread ---- */

static bool
ask_is_open(const struct ask *a)
{
	return atomic_load_explicit(&a->answered, memory_order_acquire) != a->asked;
}

/** Ask; false: the worker has not answered the question before. */
static bool
ask_again(struct ask *a)
{
	if (ask_is_open(a) || weft_worker_call(a->mw->tw->w, ask_slice, a) != 0)
		return false;
	a->asked++;
	a->asked_ns = ui_now_ns();
	return true;
}

static bool
ask_wait(const struct ask *a, uint64_t until_ns)
{
	while (ask_is_open(a)) {
		if (ui_now_ns() >= until_ns)
			return false;
		usleep(LOOK_US);
	}
	return true;
}

/** Begin anew, with room for the connections that there are. */
static bool
ask_begin(struct ask *a)
{
	const uint64_t want =
	        METRICS_CLOSED + ROOM +
	        (uint64_t)atomic_load_explicit(&a->mw->tw->t->nconns, memory_order_relaxed);
	struct metrics_client *row;

	if (want > a->cap) {
		row = realloc(a->row, want * sizeof(*row));
		if (row == NULL)
			return false;
		a->row = row;
		a->cap = (uint32_t)want;
	}
	a->n = a->closed_at = 0;
	a->missed = a->alive = false;
	a->first = true;
	return true;
}

static bool
ask_all(struct ask *a)
{
	const uint64_t until_ns = ui_now_ns() + WAIT_NS;

	if (ask_is_open(a) || !ask_begin(a))
		return false;
	do {
		if (!ask_again(a) || !ask_wait(a, until_ns))
			return false;
		a->first = false;
	} while (a->more);
	return !a->missed;
}

static int
client_order(const void *x, const void *y)
{
	return strcmp(((const struct metrics_client *)x)->key,
	              ((const struct metrics_client *)y)->key);
}

static int
client_busy(const void *x, const void *y)
{
	const struct metrics_client *a = x, *b = y;
	const uint64_t na = a->sum[METRICS_RECV_BYTES] + a->sum[METRICS_SENT_BYTES];
	const uint64_t nb = b->sum[METRICS_RECV_BYTES] + b->sum[METRICS_SENT_BYTES];

	if ((a->conns > 0) != (b->conns > 0))
		return a->conns > 0 ? -1 : 1;
	return (na < nb) - (na > nb);
}

/** Rows of one client become one. */
static uint32_t
clients_merge(struct metrics_client *c, uint32_t n)
{
	uint32_t out = 0;

	qsort(c, n, sizeof(*c), client_order);
	for (uint32_t i = 0; i < n; i++) {
		if (out == 0 || strcmp(c[out - 1].key, c[i].key) != 0) {
			c[out++] = c[i];
			continue;
		}
		c[out - 1].conns += c[i].conns;
		c[out - 1].grants += c[i].grants;
		c[out - 1].windows += c[i].windows;
		for (unsigned int k = 0; k < METRICS_SUMS; k++)
			c[out - 1].seen[k] += c[i].seen[k];
	}
	return out;
}

/** Add to what was shown of the clients what they have more now. */
static void
clients_sum(struct metrics_client *now, uint32_t n, const struct metrics_clients *mc)
{
	for (uint32_t i = 0; i < n; i++) {
		struct metrics_client *c = &now[i];
		const struct metrics_client *b = NULL;

		if (mc->nall > 0)
			b = bsearch(c, mc->all, mc->nall, sizeof(*c), client_order);
		for (unsigned int k = 0; k < METRICS_SUMS; k++) {
			/* Less than before: a worker has forgotten ended connections. */
			c->sum[k] = b == NULL ? c->seen[k] : b->sum[k];
			if (b != NULL && b->seen[k] < c->seen[k])
				c->sum[k] += c->seen[k] - b->seen[k];
		}
	}
}

/** Show the clients that are connected, then those that have moved most. */
static void
clients_show(struct metrics_clients *mc)
{
	struct metrics_client *by = NULL;

	mc->nshown = mc->nall;
	if (mc->nall > METRICS_CLIENTS_MAX && (by = malloc(mc->nall * sizeof(*by))) != NULL) {
		memcpy(by, mc->all, mc->nall * sizeof(*by));
		qsort(by, mc->nall, sizeof(*by), client_busy);
	}
	if (mc->nshown > METRICS_CLIENTS_MAX)
		mc->nshown = METRICS_CLIENTS_MAX;
	if (mc->nshown > 0)
		memcpy(mc->shown, by != NULL ? by : mc->all, mc->nshown * sizeof(*mc->shown));
	free(by);
	qsort(mc->shown, mc->nshown, sizeof(*mc->shown), client_order);
}

void
metrics_clients_refresh(struct metrics_clients *mc)
{
	struct metrics_client *all;
	uint32_t n = 0;

	for (uint32_t i = 0; i < mc->m->nworkers; i++) {
		if (!ask_all(&mc->ask[i])) {
			mc->late++;
			return;
		}
		n += mc->ask[i].n;
	}
	all = malloc((n + 1) * sizeof(*all));
	if (all == NULL)
		return;
	n = 0;
	for (uint32_t i = 0; i < mc->m->nworkers; i++) {
		const struct ask *a = &mc->ask[i];

		if (a->n > 0)
			memcpy(all + n, a->row, a->n * sizeof(*all));
		n += a->n;
	}
	n = clients_merge(all, n);
	clients_sum(all, n, mc);
	free(mc->all);
	mc->all = all;
	mc->nall = n;
	clients_show(mc);
}

const struct metrics_client *
metrics_clients_all(const struct metrics_clients *mc, uint32_t *n, uint32_t *left_out,
                    uint64_t *late)
{
	*n = mc->nshown;
	*left_out = mc->nall - mc->nshown;
	*late = mc->late;
	return mc->shown;
}

bool
metrics_clients_alive(struct metrics_clients *mc, uint32_t *silent, uint64_t *silent_ns)
{
	const uint64_t now = ui_now_ns();
	bool alive = true;

	for (uint32_t i = 0; i < mc->m->nworkers; i++) {
		struct ask *a = &mc->ask[i];
		bool asked = true;

		if (!ask_is_open(a)) {
			a->alive = true;
			asked = ask_again(a); /* false: it has not taken the calls before */
			(void)ask_wait(a, now + WAIT_NS / 2);
		}
		if (alive && (!asked || ask_is_open(a))) {
			alive = false;
			*silent = i;
			*silent_ns = a->asked_ns != 0 ? ui_now_ns() - a->asked_ns : 0;
		}
	}
	return alive;
}

bool
metrics_clients_rest(struct metrics_clients *mc)
{
	bool rest = true;

	for (uint32_t i = 0; i < mc->m->nworkers; i++)
		rest = ask_wait(&mc->ask[i], ui_now_ns() + 5 * (uint64_t)WAIT_NS) && rest;
	return rest;
}

struct metrics_clients *
metrics_clients_make(struct metrics *m)
{
	struct metrics_clients *mc = calloc(1, sizeof(*mc));

	if (mc == NULL)
		return NULL;
	mc->m = m;
	mc->shown = calloc(METRICS_CLIENTS_MAX, sizeof(*mc->shown));
	if (mc->shown == NULL) {
		free(mc);
		return NULL;
	}
	for (uint32_t i = 0; i < m->nworkers; i++)
		mc->ask[i].mw = m->worker[i];
	return mc;
}

void
metrics_clients_free(struct metrics_clients *mc)
{
	if (mc == NULL)
		return;
	for (uint32_t i = 0; i < mc->m->nworkers; i++)
		free(mc->ask[i].row);
	free(mc->all);
	free(mc->shown);
	free(mc);
}
