/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Rates of exports: buckets of workers, and turns of clients. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rate.h"

#define NS_PER_MS   1000000ULL
#define NS_PER_S    1e9
#define WEIGHT_UNIT 840U /* a client; divisible by the number of its workers, up to 8 */
#define WEIGH_NS    (2 * NS_PER_MS)
#define ARM_MIN_NS  (NS_PER_MS / 20)
#define ARM_MAX_NS  (5 * NS_PER_MS)
#define ARM_OWES_NS (20 * NS_PER_MS) /* while clients only owe */

static uint64_t
get(const atomic_ullong *n)
{
	return atomic_load_explicit(n, memory_order_relaxed);
}

static void
add(atomic_ullong *n, uint64_t by)
{
	atomic_fetch_add_explicit(n, by, memory_order_relaxed);
}

bool
rate_place_take(atomic_uint *taken, uint32_t most)
{
	unsigned int n = atomic_load_explicit(taken, memory_order_relaxed);

	do {
		if (most != 0 && n >= most)
			return false;
	} while (!atomic_compare_exchange_weak_explicit(taken, &n, n + 1, memory_order_relaxed,
	                                                memory_order_relaxed));
	return true;
}

void
rate_export_init(struct rate_export *x)
{
	memset(x, 0, sizeof(*x));
	pthread_mutex_init(&x->lock, NULL);
	LIST_INIT(&x->clients);
}

void
rate_export_wipe(struct rate_export *x)
{
	atomic_store_explicit(&x->ops, 0, memory_order_relaxed);
	atomic_store_explicit(&x->bytes, 0, memory_order_relaxed);
	atomic_store_explicit(&x->waits, 0, memory_order_relaxed);
	atomic_store_explicit(&x->forgotten, 0, memory_order_relaxed);
}

void
rate_set(struct rate_export *x, const struct rate_limits *l)
{
	atomic_store_explicit(&x->bytes_per_s, l->bytes_per_s, memory_order_relaxed);
	atomic_store_explicit(&x->client_bytes_per_s, l->client_bytes_per_s, memory_order_relaxed);
	atomic_store_explicit(&x->ops_per_s, l->ops_per_s, memory_order_relaxed);
	atomic_store_explicit(&x->client_ops_per_s, l->client_ops_per_s, memory_order_relaxed);
}

/* ---- Buckets ---- */

static void
fill_one(double *have, uint64_t rate, double part, double dt_s)
{
	const double most = (double)rate * part * RATE_BURST_MS / 1000;

	if (rate == 0) {
		*have = 0;
		return;
	}
	*have += (double)rate * part * dt_s;
	if (*have > most)
		*have = most;
}

static void
fill(struct rate_bucket *b, uint64_t bytes_per_s, uint64_t ops_per_s, double part, uint64_t now_ns)
{
	const double dt_s = now_ns > b->at_ns ? (double)(now_ns - b->at_ns) / NS_PER_S : 0;

	fill_one(&b->bytes, bytes_per_s, part, dt_s);
	fill_one(&b->ops, ops_per_s, part, dt_s);
	b->at_ns = now_ns;
}

/** Whether an operation may be charged. A bucket that is not overdrawn takes one of any size. */
static bool
has(const struct rate_bucket *b)
{
	return b->bytes >= 0 && b->ops >= 0;
}

static void
take(struct rate_bucket *b, uint64_t bytes_per_s, uint64_t ops_per_s, uint64_t bytes)
{
	if (bytes_per_s != 0)
		b->bytes -= (double)bytes;
	if (ops_per_s != 0)
		b->ops -= 1;
}

/** Nanoseconds until the bucket is paid. */
static double
wait_ns(const struct rate_bucket *b, uint64_t bytes_per_s, uint64_t ops_per_s, double part)
{
	double t = 0, one;

	if (part <= 0)
		return ARM_MAX_NS;
	if (b->bytes < 0 && bytes_per_s != 0)
		t = -b->bytes / ((double)bytes_per_s * part) * NS_PER_S;
	if (b->ops < 0 && ops_per_s != 0) {
		one = -b->ops / ((double)ops_per_s * part) * NS_PER_S;
		t = one > t ? one : t;
	}
	return t;
}

static double
part_of(const atomic_uint *workers)
{
	const unsigned int n = atomic_load_explicit(workers, memory_order_relaxed);

	return n > 1 ? 1.0 / n : 1.0;
}

static void
lane_fill(struct rate_lane *l)
{
	struct rate_export *x = l->n->x;

	fill(&l->bucket, get(&x->client_bytes_per_s), get(&x->client_ops_per_s),
	     part_of(&l->client->filled), l->n->now_ns);
}

/* ---- Who is active ---- */

/** The lane takes its part of the client's rate, or not. */
static void
lane_filled(struct rate_lane *l, bool filled)
{
	if (l->filled == filled)
		return;
	l->filled = filled;
	l->n->nfilled += filled ? 1 : UINT32_MAX;
	atomic_fetch_add_explicit(&l->client->filled, filled ? 1 : UINT32_MAX,
	                          memory_order_relaxed);
}

static void
lane_active(struct rate_lane *l, bool active)
{
	if (l->active == active)
		return;
	l->active = active;
	l->n->nactive += active ? 1 : UINT32_MAX;
	atomic_fetch_add_explicit(&l->client->workers, active ? 1 : UINT32_MAX,
	                          memory_order_relaxed);
	l->n->weighed_ns = 0;
	if (active)
		lane_filled(l, true);
}

/** Whether the client has used more here than its rate, or than others that wait. */
static bool
owes(const struct rate_lane *l)
{
	return !has(&l->bucket) || (l->turn > l->n->clock && l->n->nwaiting > 0);
}

/** Find out who is active, and tell the other workers this one's part. */
static void
weigh(struct rate_node *n)
{
	uint64_t weight = 0, all;
	struct rate_lane *l;

	if (n->weighed_ns != 0 && n->now_ns - n->weighed_ns < WEIGH_NS)
		return;
	TAILQ_FOREACH (l, &n->lanes, link) {
		if (l->active && TAILQ_EMPTY(&l->waiting) &&
		    n->now_ns - l->seen_ns > RATE_ACTIVE_MS * NS_PER_MS)
			lane_active(l, false);
		/* The time until now counts with the part of then. */
		if (l->filled)
			lane_fill(l);
		if (!l->active && !owes(l))
			lane_filled(l, false);
		if (l->active) {
			unsigned int on =
			        atomic_load_explicit(&l->client->workers, memory_order_relaxed);

			weight += WEIGHT_UNIT / (on > 0 ? on : 1);
		}
	}
	n->weighed_ns = n->now_ns;
	add(&n->x->weight, weight - n->weight);
	n->weight = weight;
	all = get(&n->x->weight);
	n->share = all <= weight ? 1 : (double)weight / (double)all;
}

static void
node_fill(struct rate_node *n)
{
	struct rate_export *x = n->x;

	/* The time until now counts with the part of then. */
	fill(&n->bucket, get(&x->bytes_per_s), get(&x->ops_per_s), n->share, n->now_ns);
	weigh(n);
}

/* ---- Turns ---- */

static void
charge(struct rate_lane *l, uint64_t bytes)
{
	struct rate_node *n = l->n;
	struct rate_export *x = n->x;
	const uint64_t b = get(&x->bytes_per_s), o = get(&x->ops_per_s);
	double cost = 0;

	if (b != 0)
		cost += (double)bytes / (double)b;
	if (o != 0)
		cost += 1.0 / (double)o;
	take(&n->bucket, b, o, bytes);
	take(&l->bucket, get(&x->client_bytes_per_s), get(&x->client_ops_per_s), bytes);
	if (l->turn < n->clock)
		l->turn = n->clock;
	n->clock = l->turn;
	l->turn += cost / part_of(&l->client->filled);
	l->ops++;
	l->bytes += bytes;
	add(&x->ops, 1);
	add(&x->bytes, bytes);
}

/** The lane whose turn it is; NULL: none may go on. */
static struct rate_lane *
next_lane(struct rate_node *n)
{
	struct rate_lane *l, *best = NULL;

	TAILQ_FOREACH (l, &n->lanes, link) {
		if (TAILQ_EMPTY(&l->waiting))
			continue;
		lane_fill(l);
		if (has(&l->bucket) && (best == NULL || l->turn < best->turn))
			best = l;
	}
	return best;
}

static void
unwait(struct weft_gate_wait *w)
{
	struct rate_pass *p = (struct rate_pass *)w->gate;
	struct rate_lane *l = p->lane;

	TAILQ_REMOVE(&p->waiting, w, link);
	if (TAILQ_EMPTY(&p->waiting))
		TAILQ_REMOVE(&l->waiting, p, turn);
	w->gate = NULL;
	l->n->nwaiting--;
	add(&l->n->x->waiting, UINT64_MAX);
}

static void
wait(struct rate_pass *p, struct weft_gate_wait *w)
{
	struct rate_lane *l = p->lane;

	w->gate = &p->gate;
	if (TAILQ_EMPTY(&p->waiting))
		TAILQ_INSERT_TAIL(&l->waiting, p, turn);
	TAILQ_INSERT_TAIL(&p->waiting, w, link);
	l->n->nwaiting++;
	add(&l->n->x->waiting, 1);
}

/** The first one that waits in the lane; the next one is of another pass, if others wait. */
static struct weft_gate_wait *
unwait_first(struct rate_lane *l)
{
	struct rate_pass *p = TAILQ_FIRST(&l->waiting);
	struct weft_gate_wait *w = TAILQ_FIRST(&p->waiting);

	unwait(w);
	if (w == p->gated)
		p->waited_ns = l->n->now_ns - p->since_ns;
	if (!TAILQ_EMPTY(&p->waiting)) {
		TAILQ_REMOVE(&l->waiting, p, turn);
		TAILQ_INSERT_TAIL(&l->waiting, p, turn);
	}
	return w;
}

/** Ask for the time at which something may go on, or a client is active no more. False: that cannot
 * be asked for, so what waits would wait without a limit. */
static bool
ask(struct rate_node *n)
{
	struct rate_export *x = n->x;
	double t = ARM_MAX_NS, one, first = ARM_MAX_NS;
	struct rate_lane *l;

	if (n->nfilled == 0 || n->arm == NULL)
		return true;
	if (n->nactive == 0)
		return n->arm(n, n->now_ns + ARM_OWES_NS) == 0;
	if (n->nwaiting > 0) {
		TAILQ_FOREACH (l, &n->lanes, link) {
			if (TAILQ_EMPTY(&l->waiting))
				continue;
			one = wait_ns(&l->bucket, get(&x->client_bytes_per_s),
			              get(&x->client_ops_per_s), part_of(&l->client->filled));
			first = one < first ? one : first;
		}
		t = wait_ns(&n->bucket, get(&x->bytes_per_s), get(&x->ops_per_s), n->share);
		t = first > t ? first : t;
	}
	if (t > ARM_MAX_NS)
		t = ARM_MAX_NS;
	return n->arm(n, n->now_ns + (uint64_t)t + ARM_MIN_NS) == 0;
}

static void
pump(struct rate_node *n)
{
	struct rate_lane *l;

	if (n->running)
		return;
	n->running = true;
	while (n->nwaiting > 0 && (!n->on || has(&n->bucket)) && (l = next_lane(n)) != NULL) {
		struct weft_gate_wait *w = unwait_first(l);

		l->seen_ns = n->now_ns;
		charge(l, w->bytes);
		w->go(w);
	}
	n->running = false;
}

/** Nothing would end a wait: all that waits goes on. */
static void
release(struct rate_node *n)
{
	struct weft_gate_wait *w;
	struct rate_lane *l;

	TAILQ_FOREACH (l, &n->lanes, link)
		while (!TAILQ_EMPTY(&l->waiting)) {
			w = unwait_first(l);
			charge(l, w->bytes);
			w->go(w);
		}
}

void
rate_run(struct rate_node *n)
{

	n->now_ns = n->now(n);
	node_fill(n);
	pump(n);
	if (!ask(n))
		release(n);
}

bool
rate_enter(struct rate_pass *p, struct weft_gate_wait *w)
{
	struct rate_lane *l = p->lane;
	struct rate_node *n = l->n;

	w->gate = NULL;
	w->refused = false;
	if (!n->on)
		return true;
	n->now_ns = n->now(n);
	l->seen_ns = n->now_ns;
	lane_active(l, true);
	node_fill(n);
	lane_fill(l);
	if (p->ended) { /* it is executed whatever is said here, so it is paid for */
		charge(l, w->bytes);
		(void)ask(n);
		return true;
	}
	if (n->nwaiting > 0)
		pump(n);
	if (TAILQ_EMPTY(&l->waiting) && has(&n->bucket) && has(&l->bucket)) {
		charge(l, w->bytes);
		(void)ask(n);
		return true;
	}
	wait(p, w);
	if (!ask(n)) {
		unwait(w);
		charge(l, w->bytes);
		return true;
	}
	add(&n->x->waits, 1);
	return false;
}

void
rate_leave(struct weft_gate_wait *w)
{
	if (w->gate != NULL)
		unwait(w);
}

static bool
gate_enter(struct weft_gate *g, struct weft_gate_wait *w)
{
	struct rate_pass *p = (struct rate_pass *)g;
	const bool may = rate_enter(p, w);

	p->gated = may ? NULL : w;
	p->since_ns = p->lane->n->now_ns;
	p->waited_ns = 0;
	return may;
}

static void
gate_leave(struct weft_gate *g, struct weft_gate_wait *w)
{
	(void)g;
	rate_leave(w);
}

/* ---- Nodes and lanes ---- */

void
rate_node_init(struct rate_node *n, struct rate_export *x, uint64_t (*now)(struct rate_node *n),
               int (*arm)(struct rate_node *n, uint64_t at_ns))
{
	*n = (struct rate_node){.x = x, .now = now, .arm = arm, .share = 1};
	TAILQ_INIT(&n->lanes);
}

void
rate_look(struct rate_node *n)
{
	struct rate_export *x = n->x;
	const bool on = (get(&x->bytes_per_s) | get(&x->client_bytes_per_s) | get(&x->ops_per_s) |
	                 get(&x->client_ops_per_s)) != 0;
	struct rate_lane *l;
	struct rate_pass *p;

	n->now_ns = n->now(n);
	if (on && !n->on)
		n->bucket = (struct rate_bucket){.at_ns = n->now_ns};
	n->on = on;
	TAILQ_FOREACH (l, &n->lanes, link)
		LIST_FOREACH (p, &l->passes, link)
			p->gate.on = on;
	rate_run(n);
}

static void
client_put(struct rate_export *x, struct rate_client *c)
{
	pthread_mutex_lock(&x->lock);
	if (--c->refs == 0) {
		LIST_REMOVE(c, link);
		free(c);
	}
	pthread_mutex_unlock(&x->lock);
}

/** A client of all workers, with a reference. NULL: no memory. */
static struct rate_client *
client_get(struct rate_export *x, const struct quota_id *id)
{
	struct rate_client *c;

	pthread_mutex_lock(&x->lock);
	LIST_FOREACH (c, &x->clients, link)
		if (c->id.bytes == id->bytes && memcmp(c->id.octets, id->octets, id->bytes) == 0)
			break;
	if (c == NULL && (c = calloc(1, sizeof(*c))) != NULL) {
		c->id = *id;
		LIST_INSERT_HEAD(&x->clients, c, link);
	}
	if (c != NULL)
		c->refs++;
	pthread_mutex_unlock(&x->lock);
	return c;
}

static void
lane_free(struct rate_lane *l)
{
	struct rate_node *n = l->n;
	struct rate_walk *walk;

	LIST_FOREACH (walk, &n->walks, link)
		if (walk->next == l)
			walk->next = TAILQ_NEXT(l, link);
	lane_active(l, false);
	lane_filled(l, false);
	TAILQ_REMOVE(&n->lanes, l, link);
	client_put(n->x, l->client);
	free(l);
}

/** Whether the client would gain by being forgotten. */
static bool
lane_owes(struct rate_lane *l)
{
	if (!l->n->on)
		return false;
	lane_fill(l);
	return owes(l);
}

/** Free lanes that no grant has; all: also those that owe. Of these RATE_KEPT_MAX stay. */
static void
reap(struct rate_node *n, bool all)
{
	struct rate_export *x = n->x;
	struct rate_lane *l, *next, *least;
	double least_ns, ns;
	uint32_t kept;

	do {
		kept = 0;
		least = NULL;
		least_ns = 0;
		for (l = TAILQ_FIRST(&n->lanes); l != NULL; l = next) {
			next = TAILQ_NEXT(l, link);
			if (atomic_load_explicit(&l->refs, memory_order_acquire) > 0)
				continue;
			if (all || !lane_owes(l)) {
				lane_free(l);
				continue;
			}
			kept++;
			ns = wait_ns(&l->bucket, get(&x->client_bytes_per_s),
			             get(&x->client_ops_per_s), 1);
			if (least == NULL || ns < least_ns) {
				least = l;
				least_ns = ns;
			}
		}
		if (kept > RATE_KEPT_MAX) {
			lane_free(least);
			add(&x->forgotten, 1);
		}
	} while (kept > RATE_KEPT_MAX + 1);
}

void
rate_walk_end(struct rate_walk *walk)
{
	if (walk->open)
		LIST_REMOVE(walk, link);
	*walk = (struct rate_walk){0};
}

uint32_t
rate_clients(struct rate_node *n, struct rate_walk *walk, uint32_t most,
             bool (*fn)(void *arg, const struct quota_id *id, uint64_t ops, uint64_t bytes,
                        bool waits),
             void *arg)
{
	uint32_t told = 0;

	if (!walk->open) {
		LIST_INSERT_HEAD(&n->walks, walk, link);
		walk->next = TAILQ_FIRST(&n->lanes);
		walk->open = true;
	}
	while (walk->next != NULL && told < most) {
		const struct rate_lane *l = walk->next;

		walk->next = TAILQ_NEXT(l, link);
		told++;
		if (!fn(arg, &l->client->id, l->ops, l->bytes, !TAILQ_EMPTY(&l->waiting)))
			walk->next = NULL;
	}
	if (walk->next == NULL)
		rate_walk_end(walk);
	return told;
}

void
rate_reap(struct rate_node *n)
{
	if (TAILQ_EMPTY(&n->lanes))
		return;
	n->now_ns = n->now(n);
	reap(n, false);
}

void
rate_node_fini(struct rate_node *n)
{
	reap(n, true);
	add(&n->x->weight, 0 - n->weight);
	n->weight = 0;
}

/** The client's lane. NULL: no memory. */
static struct rate_lane *
lane_get(struct rate_node *n, const struct quota_id *id)
{
	struct rate_lane *l;

	TAILQ_FOREACH (l, &n->lanes, link)
		if (l->client->id.bytes == id->bytes &&
		    memcmp(l->client->id.octets, id->octets, id->bytes) == 0)
			return l;
	l = calloc(1, sizeof(*l));
	if (l == NULL)
		return NULL;
	l->client = client_get(n->x, id);
	if (l->client == NULL) {
		free(l);
		return NULL;
	}
	l->n = n;
	l->bucket.at_ns = n->now_ns;
	LIST_INIT(&l->passes);
	TAILQ_INIT(&l->waiting);
	TAILQ_INSERT_TAIL(&n->lanes, l, link);
	return l;
}

static void
pass_begin(struct rate_pass *p, struct rate_lane *l)
{
	*p = (struct rate_pass){
	        .lane = l,
	        .gate = {.on = l->n->on, .enter = gate_enter, .leave = gate_leave},
	};
	TAILQ_INIT(&p->waiting);
	LIST_INSERT_HEAD(&l->passes, p, link);
	atomic_fetch_add_explicit(&l->refs, 1, memory_order_relaxed);
}

int
rate_pass_open(struct rate_pass *p, struct rate_node *n, const struct quota_id *id)
{
	struct rate_lane *l;

	rate_look(n);
	l = lane_get(n, id);
	if (l == NULL)
		return -ENOMEM;
	pass_begin(p, l);
	rate_reap(n);
	return 0;
}

void
rate_pass_beside(struct rate_pass *p, const struct rate_pass *of)
{
	pass_begin(p, of->lane);
}

void
rate_pass_end(struct rate_pass *p)
{
	struct weft_gate_wait *w;

	if (p->ended)
		return;
	p->ended = true;
	LIST_REMOVE(p, link);
	while ((w = TAILQ_FIRST(&p->waiting)) != NULL) {
		unwait(w);
		w->refused = true;
		w->go(w);
	}
}

void
rate_pass_put(struct rate_pass *p)
{
	atomic_fetch_sub_explicit(&p->lane->refs, 1, memory_order_release);
}
