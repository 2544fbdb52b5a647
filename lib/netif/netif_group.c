/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Groups: a device between a member's netif and the member's queue of the port. */

#include <stdatomic.h>

#include <rte_malloc.h>
#include <rte_prefetch.h>

#include "netif_flow.h"
#include "netif_group_priv.h"
#include "netif_learn.h"
#include "netif_priv.h"
#include "weft_tsan.h"

#define GROUP_RING     1024
#define GROUP_RING_MIN 32
#define GROUP_RETA     128
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

/** Frames that wait to be handed to one sibling. */
struct group_stage {
	unsigned int n;
	struct rte_mbuf *m[WEFT_NETIF_BURST];
};

/** How far a member believes the port's hash. */
struct group_trust {
	uint32_t left;   /**< hashes that are used before the next check; 0: check */
	uint32_t doubt;  /**< SYNs with a correct hash that are still needed; 0: trusted */
	uint32_t wrongs; /**< the group's count that `doubt` knows of */
};

struct group_member {
	struct weft_netif_group *g;
	unsigned int index;
	bool joined;
	bool rx, tx;                    /**< the member has a queue of the port in this direction */
	struct weft_netif *_Atomic nif; /**< siblings wake the netif */
	const struct weft_netif_dev *dev; /**< device of that queue */
	void *dev_arg;
	struct rte_mempool *pool;
	struct rte_ring *in;    /**< frames from siblings; only this member empties the ring */
	struct rte_ring *relay; /**< frames for member 0 to send; NULL: this member sends itself */
	struct group_trust trust[2]; /**< IPv4, IPv6 */
	uint64_t stray_ns;           /**< time of the last stray that counted */
	uint8_t places, misplaced;   /**< segments checked for their queue; those in a wrong one */
	bool ring_next;              /**< of one frame: it is the ring's turn, not the port's */
	unsigned int moved;
	struct weft_netif_group_stats stats;
	struct group_stage stage[WEFT_GROUP_MEMBERS];
	/** the member's own frames that the port gave beyond those that netif asked for */
	unsigned int kept_first;
	_Atomic uint32_t kept_n; /**< weft_netif_group_pending() reads it */
	struct rte_mbuf *kept[NETIF_RX_ASK];
	/* Member 0, when it sends for all: the frames that the port has not taken yet. */
	unsigned int relay_next; /**< the next member whose ring is emptied */
	unsigned int pend_first, pend_n;
	struct rte_mbuf *pend[WEFT_NETIF_BURST];
} __rte_cache_aligned;

struct weft_netif_group {
	struct netif_steer steer;
	bool rss;
	_Atomic uint32_t link_down; /**< written by member 0 */
	/** times that a member's trust in the port's hash ended, for IPv4 and IPv6; all members
	 * then doubt it */
	_Atomic uint32_t wrongs[2];
	uint32_t ring_mbufs;       /**< received frames that all rings can hold */
	struct netif_flows *flows; /**< of a port with RSS; else NULL */
	struct netif_learn *learn; /**< likewise */
	struct group_member member[];
};

/** The member that owns the connections with this hash. */
static inline unsigned int
group_owner(const struct weft_netif_group *g, uint32_t hash)
{
	if (unlikely(g->flows != NULL && netif_flow_adopts(g->flows)))
		return netif_flow_owner(g->flows, hash);
	return netif_steer_member(&g->steer, hash);
}

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

/* Frees the frames in the ring. Returns how many. */
static unsigned int
group_ring_drop(struct rte_ring *r)
{
	unsigned int n = 0;
	void *m;

	for (; rte_ring_sc_dequeue(r, &m) == 0; n++)
		rte_pktmbuf_free(m);
	return n;
}

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
			g->member[i].stats.leave_drops += group_ring_drop(g->member[i].relay);
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

/* ---- Creation and end ---- */

static struct rte_ring *
group_ring(unsigned int size, int socket, unsigned int flags)
{
	ssize_t bytes = rte_ring_get_memsize(size);
	struct rte_ring *r;

	if (bytes < 0)
		return NULL;
	r = rte_zmalloc_socket("weft_ring", (size_t)bytes, RTE_CACHE_LINE_SIZE, socket);
	if (r != NULL && rte_ring_init(r, "weft_group", size, flags) != 0) {
		rte_free(r);
		return NULL;
	}
	return r;
}

static bool
group_attr_ok(const struct weft_netif_group_attr *a)
{
	if (a->members == 0 || a->members > WEFT_GROUP_MEMBERS)
		return false;
	if ((a->rx_queues != 1 && a->rx_queues != a->members) ||
	    (a->tx_queues != 1 && a->tx_queues != a->members))
		return false;
	if (a->key != NULL &&
	    (a->key_bytes < WEFT_GROUP_KEY_MIN || a->key_bytes > WEFT_GROUP_KEY_MAX))
		return false;
	/* The size of a ring is a power of two. One entry stays empty. */
	if (a->ring_size != 0 && (!rte_is_power_of_2(a->ring_size) || a->ring_size < 2))
		return false;
	if (a->reta == NULL)
		return true;
	if (!rte_is_power_of_2(a->reta_size) || a->reta_size > WEFT_GROUP_RETA_MAX)
		return false;
	for (unsigned int i = 0; i < a->reta_size; i++)
		if (a->reta[i] >= a->members)
			return false;
	return true;
}

/** Rings for received frames. Without RSS the ring of member 0 stays empty. */
static unsigned int
group_rings(const struct weft_netif_group_attr *a)
{
	return a->rx_queues > 1 ? a->members : a->members - 1;
}

static unsigned int
group_ring_size(const struct weft_netif_group_attr *a)
{
	unsigned int most;

	if (a->ring_size != 0 || a->pool_mbufs == 0 || group_rings(a) == 0)
		return a->ring_size != 0 ? a->ring_size : GROUP_RING;
	most = rte_align32prevpow2(RTE_MAX(a->pool_mbufs / 8 / group_rings(a), 1u));
	most = RTE_MAX(most, (unsigned int)GROUP_RING_MIN);
	return RTE_MIN(most, (unsigned int)GROUP_RING);
}

int
weft_netif_group_create(const struct weft_netif_group_attr *a, struct weft_netif_group **out)
{
	unsigned int ring;
	bool rss = a->rx_queues > 1;
	uint16_t reta[GROUP_RETA];
	struct weft_netif_group *g;

	if (!group_attr_ok(a))
		return -EINVAL;
	ring = group_ring_size(a);
	g = rte_zmalloc_socket("weft_group", sizeof(*g) + a->members * sizeof(g->member[0]),
	                       RTE_CACHE_LINE_SIZE, a->socket);
	if (g == NULL)
		return -ENOMEM;
	g->rss = rss;
	if (rss) {
		g->flows = rte_zmalloc_socket("weft_flows", sizeof(*g->flows), RTE_CACHE_LINE_SIZE,
		                              a->socket);
		g->learn = rte_zmalloc_socket("weft_learn", sizeof(*g->learn), RTE_CACHE_LINE_SIZE,
		                              a->socket);
	}
	if (rss && (g->flows == NULL || g->learn == NULL)) {
		weft_netif_group_destroy(g);
		return -ENOMEM;
	}
	g->ring_mbufs = group_rings(a) * ring;
	for (unsigned int i = 0; i < GROUP_RETA; i++)
		reta[i] = (uint16_t)(i % a->members);
	netif_steer_init(&g->steer, a->members, a->key != NULL ? a->key : netif_rss_key,
	                 a->reta != NULL ? a->reta : reta,
	                 a->reta != NULL ? a->reta_size : GROUP_RETA);
	if (rss) {
		netif_flow_init(g->flows, a->members, g->steer.reta, g->steer.reta_mask + 1);
		netif_learn_init(g->learn, g->steer.reta, g->steer.reta_mask + 1);
		if (a->astray)
			netif_flow_adopt(g->flows);
	}
	for (unsigned int i = 0; i < a->members; i++) {
		struct group_member *m = &g->member[i];

		m->g = g;
		m->index = i;
		m->rx = rss || i == 0;
		m->tx = a->tx_queues > 1 || i == 0;
		/*
		 * Only members with a receive queue hand frames over. With several producers, none
		 * waits for another that was interrupted (relaxed tail sync).
		 */
		m->in = group_ring(ring, a->socket,
		                   RING_F_SC_DEQ | (rss ? RING_F_MP_RTS_ENQ : RING_F_SP_ENQ));
		if (m->in != NULL && !m->tx)
			/* Its frames are from the transmit pool, and counted there. */
			m->relay = group_ring(a->ring_size != 0 ? a->ring_size : GROUP_RING,
			                      a->socket, RING_F_SP_ENQ | RING_F_SC_DEQ);
		if (m->in == NULL || (!m->tx && m->relay == NULL)) {
			weft_netif_group_destroy(g);
			return -ENOMEM;
		}
	}
	*out = g;
	return 0;
}

static void
group_ring_free(struct rte_ring *r)
{
	if (r == NULL)
		return;
	(void)group_ring_drop(r);
	rte_free(r);
}

void
weft_netif_group_destroy(struct weft_netif_group *g)
{
	if (g == NULL)
		return;
	for (unsigned int i = 0; i < g->steer.members; i++) {
		group_ring_free(g->member[i].in);
		group_ring_free(g->member[i].relay);
	}
	rte_free(g->flows);
	rte_free(g->learn);
	rte_free(g);
}

/* ---- Queries, and source ports ---- */

unsigned int
weft_netif_group_owner(const struct weft_netif_group *g, const struct weft_ip *local,
                       uint16_t local_port, const struct weft_ip *remote, uint16_t remote_port)
{
	/* The port hashes what is in the packets. */
	const struct weft_ip to = weft_ip_bare(local), from = weft_ip_bare(remote);

	return group_owner(g, netif_steer_hash(&g->steer, &from, remote_port, &to, local_port));
}

/** The member's group, if its connections are counted, and the hash of a connection. */
static struct group_member *
group_counts(struct weft_netif *nif, const struct weft_netif_flow *f, uint32_t *hash)
{
	struct weft_netif_group *g = nif->attr.group;
	struct weft_ip to, from;

	if (g == NULL || !g->rss)
		return NULL;
	to = weft_ip_bare(f->local);
	from = weft_ip_bare(f->remote);
	*hash = netif_steer_hash(&g->steer, &from, f->remote_port, &to, f->local_port);
	return &g->member[nif->attr.group_index];
}

bool
weft_netif_flow_hold(struct weft_netif *nif, const struct weft_netif_flow *f)
{
	uint32_t hash;
	struct group_member *me = group_counts(nif, f, &hash);

	if (me == NULL || netif_flow_hold(me->g->flows, me->index, hash))
		return true;
	me->stats.owner_changed++;
	return false;
}

void
weft_netif_flow_release(struct weft_netif *nif, const struct weft_netif_flow *f)
{
	uint32_t hash;
	struct group_member *me = group_counts(nif, f, &hash);

	if (me != NULL)
		netif_flow_release(me->g->flows, me->index, hash);
}

void
weft_netif_flow_full(struct weft_netif *nif, bool full)
{
	struct weft_netif_group *g = nif->attr.group;

	if (g != NULL && g->rss)
		netif_flow_full(g->flows, nif->attr.group_index, full);
}

bool
weft_netif_flow_pin(struct weft_netif *nif, const struct weft_netif_flow *f)
{
	uint32_t hash;
	struct group_member *me = group_counts(nif, f, &hash);

	if (me == NULL || netif_flow_pin(me->g->flows, me->index, hash, netif_now(nif)))
		return true;
	me->stats.owner_changed++;
	return false;
}

uint32_t
weft_netif_group_ring_mbufs(const struct weft_netif_group *g)
{
	return g->ring_mbufs;
}

unsigned int
weft_netif_group_members(const struct weft_netif_group *g)
{
	return g->steer.members;
}

bool
weft_netif_group_has_rss(const struct weft_netif_group *g)
{
	return g->rss;
}

const struct weft_netif_group_stats *
weft_netif_group_stats(const struct weft_netif_group *g, unsigned int member)
{
	return &g->member[member].stats;
}

int
weft_netif_pick_port(struct weft_netif *nif, const struct weft_ip *src, const struct weft_ip *dst,
                     uint16_t dst_port, const struct weft_rand *rand,
                     bool (*usable)(void *arg, uint16_t port), void *arg)
{
	const struct weft_ip from = weft_ip_bare(src), to = weft_ip_bare(dst);
	struct weft_netif_group *g = nif->attr.group;
	uint32_t first;
	int port;

	if (g != NULL && g->rss && netif_flow_adopts(g->flows)) {
		const struct netif_pick k = {.steer = &g->steer,
		                             .flows = g->flows,
		                             .learn = g->learn,
		                             .member = nif->attr.group_index,
		                             .src = &from,
		                             .dst = &to,
		                             .dst_port = dst_port,
		                             .now_ns = netif_now(nif),
		                             .rand = rand,
		                             .usable = usable,
		                             .arg = arg};
		struct weft_netif_group_stats *st = &g->member[k.member].stats;

		port = netif_pick_port(&k, &st->ports_learnt);
		st->no_port += port < 0;
		return port;
	}
	if (g != NULL) {
		port = netif_steer_pick(&g->steer, nif->attr.group_index, &from, &to, dst_port,
		                        rand, usable, arg);
		g->member[nif->attr.group_index].stats.no_port += port < 0;
		return port;
	}
	/* RFC 6056 s3.3.1. */
	first = weft_rand_u32(rand) % WEFT_PORT_COUNT;
	for (uint32_t i = 0; i < WEFT_PORT_COUNT; i++) {
		uint16_t p = (uint16_t)(WEFT_PORT_FIRST + (first + i) % WEFT_PORT_COUNT);

		if (usable(arg, p))
			return p;
	}
	return -EADDRNOTAVAIL;
}
