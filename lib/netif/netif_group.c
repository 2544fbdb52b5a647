/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The device of a group's member, between the member's netif and its queue of the port: each
 * received frame goes to the member that owns its connection.
 */

#include <stdatomic.h>

#include <rte_prefetch.h>

#include "netif_group_member.h"
#include "weft_tsan.h"

/** Bursts that one receive call fetches from the port when most frames are for other members. */
#define GROUP_FETCHES 4
/** After a wrong hash: SYNs in a row with a correct hash until the port's hash is trusted again.
 * Twice as many after each further one. */
#define GROUP_HASH_RIGHT 64
#define GROUP_HASH_TWICE 10 /**< so often at most */
/** While the port's hash is trusted, one of so many is checked. */
#define GROUP_HASH_EVERY 64
/** Of GROUP_PLACES checked segments so many were in another member's queue: the port does not
 * place by its table. */
#define GROUP_PLACES    64
#define GROUP_MISPLACED 16
#define GROUP_STRAYS_NS (10 * WEFT_NS_PER_MS)

/* ---- Handing over ---- */

static void
group_wake(struct weft_netif_group *g, unsigned int to)
{
	struct weft_netif *nif = atomic_load_explicit(&g->member[to].nif, memory_order_acquire);

	if (nif != NULL && nif->ops.wake != NULL)
		nif->ops.wake(nif->ops_arg);
}

/** Hands the staged frames to sibling `to`. */
static void
group_flush(struct group_member *me, unsigned int to)
{
	struct group_stage *st = &me->stage[to];
	unsigned int done;

	WEFT_TSAN_RELEASE(me->g->member[to].in);
	done = rte_ring_enqueue_burst(me->g->member[to].in, (void **)st->m, st->n, NULL);
	me->stats.handed_out += done;
	me->stats.handover_drops += st->n - done;
	if (unlikely(done < st->n))
		rte_pktmbuf_free_bulk(st->m + done, st->n - done);
	st->n = 0;
	group_wake(me->g, to);
}

static void
group_stage(struct group_member *me, unsigned int to, struct rte_mbuf *m)
{
	struct group_stage *st = &me->stage[to];

	/* A stage holds a burst. group_sort() flushes it after each burst. */
	st->m[st->n++] = m;
	me->moved++;
}

/* Gives a copy to every other member, so that all caches learn. */
static void
group_copy_to_all(struct group_member *me, const struct rte_mbuf *m)
{
	struct weft_netif_group *g = me->g;

	for (unsigned int i = 0; i < g->steer.members; i++) {
		struct rte_ring *in = g->member[i].in;
		struct rte_mbuf *c;

		if (i == me->index)
			continue;
		/* A flood of such frames leaves half of the ring to segments. */
		if (rte_ring_count(in) >= rte_ring_get_capacity(in) / 2) {
			me->stats.copy_drops++;
			continue;
		}
		c = rte_pktmbuf_copy(m, me->pool, 0, UINT32_MAX);
		WEFT_TSAN_RELEASE(in);
		if (c == NULL || rte_ring_enqueue(in, c) != 0) {
			rte_pktmbuf_free(c);
			me->stats.copy_drops++;
			continue;
		}
		me->stats.copies_out++;
		group_wake(g, i);
	}
}

static void
group_doubt(struct group_member *me, unsigned int family, uint32_t wrongs)
{
	struct group_trust *t = &me->trust[family];

	t->wrongs = wrongs;
	t->left = 0;
	t->doubt = (uint32_t)GROUP_HASH_RIGHT << RTE_MIN(wrongs - 1, (uint32_t)GROUP_HASH_TWICE);
}

/** A hash that some member trusted was wrong: all members doubt from now on. */
static void
group_wrong(struct group_member *me, unsigned int family, const char *what)
{
	uint32_t before =
	        atomic_fetch_add_explicit(&me->g->wrongs[family], 1, memory_order_relaxed);

	group_doubt(me, family, before + 1);
	me->stats.hash_mismatch++;
	if (before == 0)
		WEFT_LOG_PEER(netif, WARNING,
		              "member %u: the port's RSS hash of IPv%c is not used (%s): members "
		              "compute it",
		              me->index, family == 0 ? '4' : '6', what);
}

/** Members that another member has told of a wrong hash doubt, too. */
static inline void
group_hear(struct group_member *me)
{
	for (unsigned int f = 0; f < RTE_DIM(me->trust); f++) {
		uint32_t wrongs = atomic_load_explicit(&me->g->wrongs[f], memory_order_relaxed);

		if (unlikely(wrongs != me->trust[f].wrongs))
			group_doubt(me, f, wrongs);
	}
}

/* Whether the port put the segment into the queue that its table names. */
static void
group_place(struct group_member *me, uint32_t hash)
{
	if (netif_steer_member(&me->g->steer, hash) != me->index) {
		me->stats.queue_mismatch++;
		me->misplaced++;
	}
	if (++me->places < GROUP_PLACES)
		return;
	if (me->misplaced >= GROUP_MISPLACED) {
		if (me->stats.queue_wrong++ == 0)
			WEFT_LOG_PEER(netif, WARNING,
			              "member %u: the port does not distribute by its RSS key and "
			              "table: new connections go by the queue of their SYN",
			              me->index);
		netif_flow_adopt(me->g->flows);
	}
	me->places = me->misplaced = 0;
}

/*
 * Toeplitz of the segment m. The port's hash is used, unless a check showed that it differs from
 * ours. All SYNs are checked, and some other segments. Behind IPv4 options or IPv6 extension
 * headers many ports do not find the TCP ports and hash less. Such a hash is neither used nor
 * counted as wrong. Otherwise any peer could disable the port's hash.
 */
static inline uint32_t
group_hash(struct group_member *me, const struct rte_mbuf *m, const struct steer_flow *f)
{
	unsigned int family = f->addr_bytes == 4 ? 0 : 1;
	struct group_trust *t = &me->trust[family];
	bool port = me->g->rss && f->plain && (m->ol_flags & RTE_MBUF_F_RX_RSS_HASH) != 0;
	uint32_t hash;

	if (likely(port && t->left > 0 && !f->syn)) {
		t->left--;
		return m->hash.rss;
	}
	hash = netif_steer_flow_hash(&me->g->steer, f);
	if (!me->g->rss || !f->plain)
		return hash;
	if (!port) {
		me->stats.hash_missing++;
		if (f->syn)
			group_place(me, hash);
		return hash;
	}
	/* Without trust only SYNs are checked: a connection counts once. */
	if (t->doubt > 0 && !f->syn)
		return hash;
	group_place(me, hash);
	if (unlikely(hash != m->hash.rss)) {
		if (t->doubt > 0)
			group_doubt(me, family, t->wrongs);
		else
			group_wrong(me, family, "it differs from the one that is computed");
		return hash;
	}
	if (t->doubt > 0)
		t->doubt--;
	if (t->doubt == 0)
		t->left = GROUP_HASH_EVERY - 1;
	return hash;
}

bool
weft_netif_stray(struct weft_netif *nif, const struct weft_ip *local, uint16_t local_port,
                 const struct weft_ip *remote, uint16_t remote_port)
{
	struct weft_netif_group *g = nif->attr.group;
	struct group_member *me;

	if (g == NULL || !g->rss)
		return false;
	me = &g->member[nif->attr.group_index];
	if (weft_netif_group_owner(g, local, local_port, remote, remote_port) == me->index)
		return false;
	me->stats.strays++;
	/* Those of one burst tell the same. */
	if (netif_now(nif) - me->stray_ns < GROUP_STRAYS_NS)
		return true;
	me->stray_ns = netif_now(nif);
	group_wrong(me, weft_ip_is_v4(remote) ? 0 : 1, "a segment was brought to a wrong member");
	return true;
}

/** The tuple of a frame, or false: the port may have hashed less. */
static bool
group_tuple(const struct steer_flow *f, struct netif_learn_tuple *t)
{
	unsigned int n = f->addr_bytes;

	memcpy(t->b, f->remote, n);
	memcpy(t->b + n, f->local, n);
	memcpy(t->b + 2 * n, f->remote_port, 2);
	memcpy(t->b + 2 * n + 2, f->local_port, 2);
	t->bytes = 2 * n + 4;
	return f->plain;
}

/** A SYN of a port that places otherwise than its table says. Returns the owner. */
static unsigned int
group_adopt(struct group_member *me, const struct rte_mbuf *m, const struct steer_flow *f,
            uint32_t hash, unsigned int owner)
{
	const struct netif_learn_seen seen = {.told = (m->ol_flags & RTE_MBUF_F_RX_RSS_HASH) != 0,
	                                      .hash = m->hash.rss,
	                                      .queue = me->index};
	const struct weft_netif *nif = atomic_load_explicit(&me->nif, memory_order_relaxed);
	struct netif_learn_tuple t;

	if (group_tuple(f, &t))
		me->stats.learn_wrong += netif_learn_add(me->g->learn, &t, &seen);
	/* A SYN with ACK answers a connection of the owner. */
	if (owner == me->index && !f->ack)
		return netif_flow_keep(me->g->flows, me->index, hash, netif_now(nif));
	if (owner == me->index || f->ack ||
	    !netif_flow_claim(me->g->flows, me->index, hash, false, netif_now(nif)))
		return owner;
	me->stats.adopted++;
	return me->index;
}

/* Keeps the member's own frames at the front of the burst and hands the others to their owners.
 * Returns how many are kept. */
static unsigned int
group_sort(struct group_member *me, struct rte_mbuf **m, unsigned int n)
{
	const struct netif_steer *s = &me->g->steer;
	unsigned int kept = 0, others = 0;
	struct steer_flow f;

	for (unsigned int i = 0; i < n; i++)
		rte_prefetch0(rte_pktmbuf_mtod(m[i], void *));
	for (unsigned int i = 0; i < n; i++) {
		enum steer_verdict v = netif_steer_look(m[i], &f);
		unsigned int to = me->index;

		if (likely(v == STEER_OWNER)) {
			uint32_t hash = group_hash(me, m[i], &f);

			to = group_owner(me->g, hash);
			if (unlikely(f.syn) && me->g->rss && netif_flow_adopts(me->g->flows))
				to = group_adopt(me, m[i], &f, hash, to);
		} else if (v == STEER_ICMP) {
			to = group_owner(me->g, netif_steer_flow_hash(s, &f));
			me->stats.icmp_handed += to != me->index;
		} else if (v == STEER_ALL) {
			group_copy_to_all(me, m[i]);
		}
		if (to == me->index) {
			m[kept++] = m[i];
			continue;
		}
		group_stage(me, to, m[i]);
		others++;
	}
	if (others > 0)
		for (unsigned int to = 0; to < s->members; to++)
			if (me->stage[to].n > 0)
				group_flush(me, to);
	return kept;
}

/* ---- Sending for siblings ---- */

/* Member 0: gives the siblings' frames to the port, one burst of each sibling in turn. */
static void
group_relay(struct group_member *me)
{
	struct weft_netif_group *g = me->g;
	unsigned int n = g->steer.members;

	for (unsigned int turn = 0; turn < n; turn++) {
		if (me->pend_n == 0) {
			struct rte_ring *r = g->member[me->relay_next].relay;

			me->relay_next = (me->relay_next + 1) % n;
			if (r == NULL)
				continue;
			me->pend_first = 0;
			me->pend_n = rte_ring_sc_dequeue_burst(r, (void **)me->pend,
			                                       WEFT_NETIF_BURST, NULL);
		}
		if (me->pend_n > 0) {
			uint16_t sent = me->dev->tx(me->dev_arg, me->pend + me->pend_first,
			                            (uint16_t)me->pend_n);

			me->pend_first += sent;
			me->pend_n -= sent;
			me->moved += sent;
			if (me->pend_n > 0)
				return; /* the port is full */
		}
	}
}

/* ---- The device of a member ---- */

/** Takes up to n frames from the ring. */
static unsigned int
group_take_ring(struct group_member *me, struct rte_mbuf **pkts, unsigned int n)
{
	unsigned int got = rte_ring_sc_dequeue_burst(me->in, (void **)pkts, n, NULL);

	WEFT_TSAN_ACQUIRE(me->in);
	me->stats.handed_in += got;
	return got;
}

/** Takes up to n of the frames that were kept. */
static unsigned int
group_take_kept(struct group_member *me, struct rte_mbuf **pkts, unsigned int n)
{
	const unsigned int has = atomic_load_explicit(&me->kept_n, memory_order_relaxed);

	if (likely(has == 0))
		return 0;
	n = RTE_MIN(n, has);
	memcpy(pkts, me->kept + me->kept_first, n * sizeof(pkts[0]));
	me->kept_first += n;
	atomic_store_explicit(&me->kept_n, has - n, memory_order_relaxed);
	return n;
}

/**
 * Asks the port for n frames, of which pkts has room for `room`, and sorts them. n is more only if
 * no frames are kept: those beyond `room` are kept then. *all: the port gave all n. Returns how
 * many are in pkts.
 */
static unsigned int
group_ask(struct group_member *me, struct rte_mbuf **pkts, unsigned int room, unsigned int n,
          bool *all)
{
	struct rte_mbuf **to = n > room ? me->kept : pkts;
	unsigned int got = me->dev->rx(me->dev_arg, to, (uint16_t)n);

	*all = got == n;
	if (got > 0)
		got = group_sort(me, to, got);
	if (n == room)
		return got;
	me->kept_first = 0;
	atomic_store_explicit(&me->kept_n, got, memory_order_relaxed);
	return group_take_kept(me, pkts, room);
}

static uint16_t
group_rx(void *arg, struct rte_mbuf **pkts, uint16_t n)
{
	struct group_member *me = arg;
	unsigned int got, room, ring;
	bool more = true;

	if (me->index == 0 && me->g->steer.members > 1 && me->g->member[1].relay != NULL)
		group_relay(me);
	if (!me->rx)
		return (uint16_t)group_take_ring(me, pkts, n);
	group_hear(me);
	got = group_take_kept(me, pkts, n);
	/* Each source, the ring and the port, gets a share, of a single frame in turn. */
	me->ring_next = !me->ring_next;
	room = n > 1 ? n / 2u : me->ring_next;
	room = RTE_MIN(room, n - got);
	ring = group_take_ring(me, pkts + got, room);
	got += ring;
	for (unsigned int i = 0; i < GROUP_FETCHES && more && got < n; i++) {
		const unsigned int least = RTE_MIN((unsigned int)n, (unsigned int)NETIF_RX_ASK);

		got += group_ask(me, pkts + got, n - got, RTE_MAX(n - got, least), &more);
	}
	/* What the port does not need is the ring's. */
	if (ring == room && got < n)
		got += group_take_ring(me, pkts + got, n - got);
	return (uint16_t)got;
}

static uint16_t
group_tx(void *arg, struct rte_mbuf **pkts, uint16_t n)
{
	struct group_member *me = arg;
	unsigned int done;

	if (me->relay == NULL)
		return me->dev->tx(me->dev_arg, pkts, n);
	done = rte_ring_sp_enqueue_burst(me->relay, (void **)pkts, n, NULL);
	me->stats.relay_out += done;
	me->stats.relay_full += done < n;
	group_wake(me->g, 0);
	return (uint16_t)done;
}

static bool
group_link(void *arg)
{
	const struct group_member *me = arg;

	return me->dev->link == NULL || me->dev->link(me->dev_arg);
}

/* Packets that another member passes on come with a wake-up of their own. */
static int
group_arm(void *arg, bool on)
{
	const struct group_member *me = arg;

	if (!me->rx)
		return -EALREADY;
	return me->dev->arm != NULL ? me->dev->arm(me->dev_arg, on) : -ENOTSUP;
}

static int
group_tx_reset(void *arg)
{
	const struct group_member *me = arg;

	return me->relay == NULL && me->dev->tx_reset != NULL ? me->dev->tx_reset(me->dev_arg)
	                                                      : -ENOTSUP;
}

static int
group_tx_count(void *arg, uint64_t *packets)
{
	const struct group_member *me = arg;

	return me->relay == NULL && me->dev->tx_count != NULL
	               ? me->dev->tx_count(me->dev_arg, packets)
	               : -ENOTSUP;
}

static const struct weft_netif_dev group_dev = {.rx = group_rx,
                                                .tx = group_tx,
                                                .link = group_link,
                                                .tx_reset = group_tx_reset,
                                                .tx_count = group_tx_count,
                                                .arm = group_arm};

int
netif_group_join(struct weft_netif *nif)
{
	struct weft_netif_attr *a = &nif->attr;
	struct weft_netif_group *g = a->group;
	struct group_member *me;

	if (a->group_index >= g->steer.members)
		return -EINVAL;
	me = &g->member[a->group_index];
	if (me->joined)
		return -EINVAL;
	me->dev = a->dev;
	me->dev_arg = a->dev_arg;
	me->pool = a->pool;
	me->joined = true;
	atomic_store_explicit(&me->nif, nif, memory_order_release);
	if (me->index == 0)
		/* until member 0 has checked the link */
		netif_group_set_link(nif, me->dev->link == NULL);
	a->dev = &group_dev;
	a->dev_arg = me;
	return 0;
}

void
netif_group_leave(struct weft_netif *nif)
{
	struct weft_netif_group *g = nif->attr.group;
	struct group_member *me = &g->member[nif->attr.group_index], *first = &g->member[0];
	unsigned int moved;

	/*
	 * Send what is queued. It may be more than a ring holds, so the member that sends for all
	 * empties the ring meanwhile. This ends when nothing is left or the port takes no more.
	 */
	do {
		moved = weft_netif_flush(nif, nif->now_ns);
		if (first->joined) {
			unsigned int before = first->moved;

			group_relay(first);
			moved += first->moved - before;
		}
	} while (moved > 0);
	me->stats.leave_drops += nif->tail - nif->head;
	if (me->index == 0) {
		me->stats.leave_drops += me->pend_n;
		rte_pktmbuf_free_bulk(me->pend + me->pend_first, me->pend_n);
		me->pend_n = 0;
	}
	rte_pktmbuf_free_bulk(me->kept + me->kept_first,
	                      atomic_load_explicit(&me->kept_n, memory_order_relaxed));
	atomic_store_explicit(&me->kept_n, 0, memory_order_relaxed);
	me->joined = false;
	atomic_store_explicit(&me->nif, NULL, memory_order_release);
	if (first->joined)
		return;
	/* No member sends for the others any more. */
	for (unsigned int i = 1; i < g->steer.members; i++)
		if (g->member[i].relay != NULL)
			g->member[i].stats.leave_drops += netif_group_ring_drop(g->member[i].relay);
}

void
netif_group_set_dev(struct weft_netif *nif, const struct weft_netif_dev *dev, void *dev_arg)
{
	struct group_member *me = &nif->attr.group->member[nif->attr.group_index];

	me->dev = dev;
	me->dev_arg = dev_arg;
}

void
netif_group_set_link(struct weft_netif *nif, bool up)
{
	atomic_store_explicit(&nif->attr.group->link_down, !up, memory_order_relaxed);
}

bool
netif_group_link(const struct weft_netif *nif)
{
	return atomic_load_explicit(&nif->attr.group->link_down, memory_order_relaxed) == 0;
}

unsigned int
netif_group_moved(struct weft_netif *nif)
{
	struct group_member *me = &nif->attr.group->member[nif->attr.group_index];
	unsigned int moved = me->moved;

	me->moved = 0;
	return moved;
}

bool
weft_netif_group_pending(const struct weft_netif_group *g, unsigned int member)
{
	if (!rte_ring_empty(g->member[member].in) ||
	    atomic_load_explicit(&g->member[member].kept_n, memory_order_relaxed) != 0)
		return true;
	if (member != 0)
		return false;
	for (unsigned int i = 1; i < g->steer.members; i++)
		if (g->member[i].relay != NULL && !rte_ring_empty(g->member[i].relay))
			return true;
	return false;
}

bool
weft_netif_handed(const struct weft_netif *nif)
{
	const struct weft_netif_group *g = nif->attr.group;
	const struct group_member *me;

	if (g == NULL)
		return false;
	me = &g->member[nif->attr.group_index];
	/* Frames that a full port left wait for the port. So do the frames behind them. */
	if (me->pend_n > 0)
		return !rte_ring_empty(me->in) ||
		       atomic_load_explicit(&me->kept_n, memory_order_relaxed) != 0;
	return weft_netif_group_pending(g, me->index);
}
