/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The simulated network: one clock, one heap of packets in flight, links and nodes. */

#include <stdio.h>
#include <stdlib.h>

#include <rte_mbuf.h>

#include "sim.h"

#define SIM_ETHER_LEN     14
#define SIM_DEFAULT_QUEUE 1000
/** After this many rounds of polling at one instant, the clock advances by SIM_STUCK_NS. */
#define SIM_ROUNDS   64
#define SIM_STUCK_NS 1000
#define PPM          1000000u

struct sim_pkt {
	uint64_t at_ns; /**< arrival time */
	uint64_t order; /**< order of sending; decides between equal at_ns */
	struct sim_dir *dir;
	struct sim_pkt *next; /**< next in the far end's receive queue */
	bool damaged, alien;  /**< the link changed an octet; the packet was injected */
	uint32_t len_bytes;
	uint8_t data[];
};

/** One direction of a link. */
struct sim_dir {
	struct sim *sim;
	struct sim_link *link;
	unsigned int from; /**< the sending end */
	struct sim_link_cfg cfg;
	struct sim_link_stats stats;
	/** IP packets since the configuration was set: the index into loss_mask */
	uint64_t ip_packets;
	uint32_t burst_left;
	uint32_t on_link; /**< packets in flight */
	uint64_t line_free_ns;
	struct rte_mempool *pool; /**< the far end's pool; NULL: the simulation's */
	/** arrival time of the last packet that was not reordered */
	uint64_t last_at_ns;
	struct sim_pkt *rxq, **rxq_tail; /**< packets that the far end has not fetched */
};

struct sim_end {
	struct sim_dir *out, *in;
};

struct sim_link {
	struct sim_link *next;
	struct sim_dir dir[2];
	struct sim_end end[2];
	sim_tap_fn tap;
	void *tap_arg;
	sim_watch_fn watch;
	void *watch_arg;
};

struct sim_rand_state {
	struct sim_rand_state *next;
	unsigned int id;
	uint64_t s;
};

struct sim {
	uint64_t seed;
	uint64_t now_ns;
	uint64_t rng;
	uint64_t order;
	uint64_t moved; /**< packets sent or fetched; unchanged by a round that did nothing */
	struct rte_mempool *pool;
	struct sim_link *links;
	struct sim_rand_state *rands;
	struct sim_pkt **heap;
	unsigned int heap_len, heap_cap;
	struct sim_node *nodes;
	unsigned int nnodes;
};

static void *
xrealloc(void *p, size_t n)
{
	p = realloc(p, n);
	if (p == NULL) {
		fprintf(stderr, "sim: out of memory\n");
		abort();
	}
	return p;
}

static void *
xcalloc(size_t n)
{
	return memset(xrealloc(NULL, n), 0, n);
}

/* ---- Randomness ---- */

static uint64_t
mix(uint64_t z)
{
	z += 0x9e3779b97f4a7c15ULL;
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

static uint64_t
xorshift(uint64_t *s)
{
	uint64_t x = *s;

	x ^= x >> 12;
	x ^= x << 25;
	x ^= x >> 27;
	*s = x;
	return x * 0x2545f4914f6cdd1dULL;
}

uint64_t
sim_random(struct sim *s)
{
	return xorshift(&s->rng);
}

static bool
chance(struct sim *s, uint32_t ppm)
{
	return ppm != 0 && (xorshift(&s->rng) >> 11) % PPM < ppm;
}

static void
rand_fill(void *arg, void *buf, size_t len)
{
	struct sim_rand_state *r = arg;
	uint8_t *p = buf;

	while (len > 0) {
		uint64_t v = xorshift(&r->s);
		size_t n = RTE_MIN(len, sizeof(v));

		memcpy(p, &v, n);
		p += n;
		len -= n;
	}
}

struct weft_rand
sim_rand(struct sim *s, unsigned int id)
{
	struct sim_rand_state *r;

	for (r = s->rands; r != NULL; r = r->next)
		if (r->id == id)
			return (struct weft_rand){.fill = rand_fill, .arg = r};
	r = xcalloc(sizeof(*r));
	r->id = id;
	r->s = mix(s->seed ^ mix(id + 1)) | 1;
	r->next = s->rands;
	s->rands = r;
	return (struct weft_rand){.fill = rand_fill, .arg = r};
}

/* ---- The heap of packets in flight ---- */

static bool
earlier(const struct sim_pkt *a, const struct sim_pkt *b)
{
	return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

static void
heap_push(struct sim *s, struct sim_pkt *p)
{
	unsigned int i = s->heap_len++;

	if (s->heap_len > s->heap_cap) {
		s->heap_cap = s->heap_cap == 0 ? 256 : 2 * s->heap_cap;
		s->heap = xrealloc(s->heap, s->heap_cap * sizeof(*s->heap));
	}
	while (i > 0 && earlier(p, s->heap[(i - 1) / 2])) {
		s->heap[i] = s->heap[(i - 1) / 2];
		i = (i - 1) / 2;
	}
	s->heap[i] = p;
}

static struct sim_pkt *
heap_pop(struct sim *s)
{
	struct sim_pkt *top = s->heap[0], *last = s->heap[--s->heap_len];
	unsigned int i = 0, child;

	while ((child = 2 * i + 1) < s->heap_len) {
		if (child + 1 < s->heap_len && earlier(s->heap[child + 1], s->heap[child]))
			child++;
		if (!earlier(s->heap[child], last))
			break;
		s->heap[i] = s->heap[child];
		i = child;
	}
	s->heap[i] = last;
	return top;
}

/* ---- What a link looks at in a packet ---- */

#define ETHER_IPV4 0x0800
#define ETHER_ARP  0x0806
#define ETHER_IPV6 0x86dd
#define IPV4_LEN   20
#define IPV6_LEN   40
#define PROTO_TCP  6

static uint16_t
ether_type(const struct sim_pkt *p)
{
	return weft_get_be16(p->data + 12);
}

/** Offset of the TCP header; *end is the end of the IP packet. 0: the packet is not TCP, or has
 * IPv4 options or IPv6 extension headers. */
static uint32_t
tcp_offset(const struct sim_pkt *p, uint32_t *end)
{
	const uint8_t *ip = p->data + SIM_ETHER_LEN;

	if (ether_type(p) == ETHER_IPV4 && p->len_bytes >= SIM_ETHER_LEN + IPV4_LEN + 20 &&
	    ip[0] == 0x45 && ip[9] == PROTO_TCP) {
		*end = SIM_ETHER_LEN + weft_get_be16(ip + 2);
		return SIM_ETHER_LEN + IPV4_LEN;
	}
	if (ether_type(p) == ETHER_IPV6 && p->len_bytes >= SIM_ETHER_LEN + IPV6_LEN + 20 &&
	    ip[6] == PROTO_TCP) {
		*end = SIM_ETHER_LEN + IPV6_LEN + weft_get_be16(ip + 4);
		return SIM_ETHER_LEN + IPV6_LEN;
	}
	return 0;
}

static bool
is_pure_ack(const struct sim_pkt *p)
{
	uint32_t end, off = tcp_offset(p, &end);

	return off != 0 && off + (p->data[off + 12] >> 4) * 4u == end &&
	       (p->data[off + 13] & 0x17) == 0x10; /* ACK without FIN, SYN, RST */
}

static uint16_t
ones_sum(const uint8_t *p, uint32_t len)
{
	uint32_t sum = 0;

	for (uint32_t i = 0; i < len; i++)
		sum += i % 2 == 0 ? (uint32_t)p[i] << 8 : p[i];
	while (sum >> 16 != 0)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

/** Mark the packet CE, as a router does instead of dropping it (RFC 3168 s5). */
static void
mark_ce(struct sim_dir *d, struct sim_pkt *p)
{
	uint8_t *ip = p->data + SIM_ETHER_LEN;

	if (ether_type(p) != ETHER_IPV4 || (ip[1] & 3) == 0)
		return;
	ip[1] |= 3;
	weft_put_be16(ip + 10, 0);
	weft_put_be16(ip + 10, ones_sum(ip, IPV4_LEN));
	d->stats.ce_marked++;
}

/* ---- Links ---- */

static void
tell(struct sim_dir *d, enum sim_event what, const struct sim_pkt *p)
{
	if (d->link->watch != NULL)
		d->link->watch(d->link->watch_arg, d->from, what, p->data, p->len_bytes,
		               d->sim->now_ns);
}

static void
put_on_link(struct sim_dir *d, const struct sim_pkt *p, uint64_t at_ns, bool corrupt)
{
	struct sim *s = d->sim;
	struct sim_pkt *copy = xrealloc(NULL, sizeof(*copy) + p->len_bytes);

	memcpy(copy, p, sizeof(*copy) + p->len_bytes);
	copy->at_ns = at_ns;
	copy->order = s->order++;
	copy->dir = d;
	copy->next = NULL;
	copy->damaged = corrupt;
	copy->alien = false;
	if (corrupt) {
		uint32_t off = SIM_ETHER_LEN + sim_random(s) % (copy->len_bytes - SIM_ETHER_LEN);

		copy->data[off] ^= (uint8_t)(1 + sim_random(s) % 255);
		d->stats.corrupted++;
	}
	d->on_link++;
	heap_push(s, copy);
}

static uint32_t
ip_header(uint8_t *ip, uint32_t payload_len, uint8_t proto, const uint8_t *src, const uint8_t *dst)
{
	memset(ip, 0, IPV4_LEN);
	ip[0] = 0x45;
	weft_put_be16(ip + 2, (uint16_t)(IPV4_LEN + payload_len));
	ip[8] = 64;
	ip[9] = proto;
	memcpy(ip + 12, src, 4);
	memcpy(ip + 16, dst, 4);
	weft_put_be16(ip + 10, ones_sum(ip, IPV4_LEN));
	return IPV4_LEN;
}

/** Send the ICMP error of a router whose next link is too small for the packet (RFC 1191 s4). */
static void
too_big(struct sim_dir *d, const struct sim_pkt *p)
{
	/* The IP header and 28 octets. RFC 792 asks for 8 at least; RFC 1812 s4.3.2.3 for as many
	 * as fit into a datagram of 576 octets. */
	enum { QUOTE = IPV4_LEN + 28 };
	static const uint8_t router[4] = {10, 0, 0, 250};
	uint8_t f[SIM_ETHER_LEN + IPV4_LEN + 8 + QUOTE], *icmp = f + SIM_ETHER_LEN + IPV4_LEN;
	const uint8_t *ip = p->data + SIM_ETHER_LEN;

	if (ether_type(p) != ETHER_IPV4 || (ip[6] & 0x40) == 0)
		return; /* a router would fragment a packet without DF; this one drops it */
	memcpy(f, p->data + 6, 6);
	memcpy(f + 6, p->data, 6);
	memcpy(f + 12, p->data + 12, 2);
	ip_header(f + SIM_ETHER_LEN, 8 + QUOTE, 1, router, ip + 12);
	memset(icmp, 0, 8);
	icmp[0] = 3;
	icmp[1] = 4;
	weft_put_be16(icmp + 6, d->cfg.mtu_old ? 0 : d->cfg.mtu_bytes);
	memcpy(icmp + 8, ip, QUOTE);
	weft_put_be16(icmp + 2, ones_sum(icmp, 8 + QUOTE));
	d->stats.icmp_sent++;
	sim_link_inject(d->link, d->from, f, sizeof(f), d->cfg.delay_ns);
}

/** Whether the packet exceeds the link's MTU and is dropped. */
static bool
mtu_stops(struct sim_dir *d, const struct sim_pkt *p)
{
	if (d->cfg.mtu_bytes == 0 || p->len_bytes <= (uint32_t)SIM_ETHER_LEN + d->cfg.mtu_bytes)
		return false;
	d->stats.mtu_drops++;
	if (!d->cfg.mtu_silent)
		too_big(d, p);
	return true;
}

/** Decide whether and when a packet that leaves an end arrives at the far end. */
static void
dir_send(struct sim_dir *d, struct sim_pkt *p)
{
	const struct sim_link_cfg *c = &d->cfg;
	struct sim *s = d->sim;
	bool ip = p->len_bytes > SIM_ETHER_LEN && ether_type(p) != ETHER_ARP;
	bool lost = false, corrupt, dup;
	uint64_t at;

	d->stats.sent++;
	s->moved++;
	if (d->link->tap != NULL)
		d->link->tap(d->link->tap_arg, d->from, false, p->data, p->len_bytes, s->now_ns);
	tell(d, SIM_SENT, p);
	if (ip) {
		lost = d->ip_packets < 64 && (c->loss_mask >> d->ip_packets & 1) != 0;
		d->ip_packets++;
	}
	if (d->burst_left == 0 && chance(s, c->burst_loss_ppm))
		d->burst_left = c->burst_len;
	if (d->burst_left > 0) {
		d->burst_left--;
		lost = true;
	}
	if (chance(s, c->loss_ppm) || c->down)
		lost = true;
	if (c->ack_loss_ppm != 0 && is_pure_ack(p) && chance(s, c->ack_loss_ppm))
		lost = true;
	if (lost) {
		d->stats.lost++;
		tell(d, SIM_LOST, p);
		return;
	}
	if (ip && mtu_stops(d, p)) {
		tell(d, SIM_LOST, p);
		return;
	}
	if (d->on_link >= (c->queue_pkts == 0 ? SIM_DEFAULT_QUEUE : c->queue_pkts)) {
		d->stats.queue_drops++;
		tell(d, SIM_LOST, p);
		return;
	}
	if (chance(s, c->ce_ppm))
		mark_ce(d, p);
	at = s->now_ns;
	if (c->rate_bps != 0) {
		at = RTE_MAX(at, d->line_free_ns) +
		     (uint64_t)p->len_bytes * 8 * WEFT_NS_PER_S / c->rate_bps;
		d->line_free_ns = at;
	}
	at += c->delay_ns;
	if (c->jitter_ns != 0)
		at += sim_random(s) % (c->jitter_ns + 1);
	if (chance(s, c->reorder_ppm)) {
		at += c->reorder_ns;
		d->stats.reordered++;
	} else if (!c->jitter_reorders) {
		at = RTE_MAX(at, d->last_at_ns);
		d->last_at_ns = at;
	}
	corrupt = ip && chance(s, c->corrupt_ppm);
	dup = chance(s, c->dup_ppm);
	put_on_link(d, p, at, corrupt);
	if (dup) {
		put_on_link(d, p, at, false);
		d->stats.duplicated++;
	}
}

static uint16_t
dev_tx(void *dev, struct rte_mbuf **pkts, uint16_t n)
{
	struct sim_end *e = dev;

	for (uint16_t i = 0; i < n; i++) {
		struct sim_pkt *p = xrealloc(NULL, sizeof(*p) + pkts[i]->pkt_len);
		uint32_t off = 0;

		p->len_bytes = pkts[i]->pkt_len;
		for (const struct rte_mbuf *m = pkts[i]; m != NULL; m = m->next) {
			if (off + m->data_len > p->len_bytes) {
				fprintf(stderr, "sim: pkt_len %u is less than the segments hold\n",
				        p->len_bytes);
				abort();
			}
			memcpy(p->data + off, rte_pktmbuf_mtod(m, const void *), m->data_len);
			off += m->data_len;
		}
		if (off != p->len_bytes || off < SIM_ETHER_LEN) {
			fprintf(stderr, "sim: pkt_len %u but %u octets in the segments\n",
			        p->len_bytes, off);
			abort();
		}
		rte_pktmbuf_free(pkts[i]);
		dir_send(e->out, p);
		free(p);
	}
	return n;
}

static uint16_t
dev_rx(void *dev, struct rte_mbuf **pkts, uint16_t n)
{
	struct sim_end *e = dev;
	struct sim_dir *d = e->in;
	uint16_t got = 0;

	while (got < n && d->rxq != NULL) {
		struct sim_pkt *p = d->rxq;
		struct rte_mbuf *m = rte_pktmbuf_alloc(d->pool != NULL ? d->pool : d->sim->pool);
		char *dst;

		d->rxq = p->next;
		if (d->rxq == NULL)
			d->rxq_tail = &d->rxq;
		d->sim->moved++;
		dst = m == NULL ? NULL : rte_pktmbuf_append(m, (uint16_t)p->len_bytes);
		if (dst == NULL) {
			rte_pktmbuf_free(m);
			d->stats.queue_drops++;
			if (!p->alien)
				tell(d, p->damaged ? SIM_DAMAGED : SIM_LOST, p);
		} else {
			memcpy(dst, p->data, p->len_bytes);
			pkts[got++] = m;
			d->stats.delivered++;
			if (!p->alien)
				tell(d, p->damaged ? SIM_DAMAGED : SIM_DELIVERED, p);
			if (d->link->tap != NULL && !p->alien)
				d->link->tap(d->link->tap_arg, d->from, true, p->data, p->len_bytes,
				             d->sim->now_ns);
		}
		free(p);
	}
	return got;
}

const struct weft_netif_dev *
sim_link_dev(void)
{
	static const struct weft_netif_dev dev = {.rx = dev_rx, .tx = dev_tx};

	return &dev;
}

void *
sim_link_dev_arg(struct sim_link *l, unsigned int end)
{
	return &l->end[end];
}

struct sim_link *
sim_link_create(struct sim *s, const struct sim_link_cfg cfg[2])
{
	struct sim_link *l = xcalloc(sizeof(*l));

	for (unsigned int i = 0; i < 2; i++) {
		l->dir[i].sim = s;
		l->dir[i].link = l;
		l->dir[i].from = i;
		l->dir[i].cfg = cfg[i];
		l->dir[i].rxq_tail = &l->dir[i].rxq;
		l->end[i].out = &l->dir[i];
		l->end[i].in = &l->dir[1 - i];
	}
	l->next = s->links;
	s->links = l;
	return l;
}

void
sim_link_pool(struct sim_link *l, unsigned int end, struct rte_mempool *pool)
{
	l->end[end].in->pool = pool;
}

void
sim_link_set(struct sim_link *l, unsigned int end, const struct sim_link_cfg *cfg)
{
	l->dir[end].cfg = *cfg;
	l->dir[end].ip_packets = 0;
	l->dir[end].burst_left = 0;
}

const struct sim_link_stats *
sim_link_stats(const struct sim_link *l, unsigned int end)
{
	return &l->dir[end].stats;
}

void
sim_link_tap(struct sim_link *l, sim_tap_fn fn, void *arg)
{
	l->tap = fn;
	l->tap_arg = arg;
}

void
sim_link_watch(struct sim_link *l, sim_watch_fn fn, void *arg)
{
	l->watch = fn;
	l->watch_arg = arg;
}

void
sim_link_inject(struct sim_link *l, unsigned int end, const uint8_t *frame, uint32_t len_bytes,
                uint64_t delay_ns)
{
	struct sim_dir *d = l->end[end].in;
	struct sim_pkt *p = xcalloc(sizeof(*p) + len_bytes);

	memcpy(p->data, frame, len_bytes);
	p->len_bytes = len_bytes;
	p->at_ns = d->sim->now_ns + delay_ns;
	p->order = d->sim->order++;
	p->dir = d;
	p->alien = true;
	d->stats.injected++;
	d->on_link++;
	heap_push(d->sim, p);
}

/* ---- The simulation ---- */

struct sim *
sim_create(uint64_t seed, struct rte_mempool *pool)
{
	struct sim *s = xcalloc(sizeof(*s));

	s->seed = seed;
	s->rng = mix(seed) | 1;
	s->pool = pool;
	s->now_ns = SIM_START_NS;
	return s;
}

void
sim_reserve(struct sim *s, unsigned int packets)
{
	if (packets <= s->heap_cap)
		return;
	s->heap_cap = packets;
	s->heap = xrealloc(s->heap, s->heap_cap * sizeof(*s->heap));
}

void
sim_destroy(struct sim *s)
{
	while (s->heap_len > 0)
		free(heap_pop(s));
	free(s->heap);
	while (s->links != NULL) {
		struct sim_link *l = s->links;

		s->links = l->next;
		for (unsigned int i = 0; i < 2; i++)
			while (l->dir[i].rxq != NULL) {
				struct sim_pkt *p = l->dir[i].rxq;

				l->dir[i].rxq = p->next;
				free(p);
			}
		free(l);
	}
	while (s->rands != NULL) {
		struct sim_rand_state *r = s->rands;

		s->rands = r->next;
		free(r);
	}
	free(s->nodes);
	free(s);
}

uint64_t
sim_now_ns(const struct sim *s)
{
	return s->now_ns;
}

unsigned int
sim_in_flight(const struct sim *s)
{
	unsigned int n = s->heap_len;

	for (const struct sim_link *l = s->links; l != NULL; l = l->next)
		for (unsigned int i = 0; i < 2; i++)
			for (const struct sim_pkt *p = l->dir[i].rxq; p != NULL; p = p->next)
				n++;
	return n;
}

void
sim_add_node(struct sim *s, const struct sim_node *n)
{
	s->nodes = xrealloc(s->nodes, (s->nnodes + 1) * sizeof(*s->nodes));
	s->nodes[s->nnodes++] = *n;
}

/** Move the packets that have arrived to the far ends' receive queues. */
static void
arrive(struct sim *s)
{
	while (s->heap_len > 0 && s->heap[0]->at_ns <= s->now_ns) {
		struct sim_pkt *p = heap_pop(s);
		struct sim_dir *d = p->dir;

		d->on_link--;
		*d->rxq_tail = p;
		d->rxq_tail = &p->next;
	}
}

/** Time of the next arrival or of the next turn that a node asks for. */
static uint64_t
next_event(const struct sim *s)
{
	uint64_t t = s->heap_len > 0 ? s->heap[0]->at_ns : WEFT_NEVER;

	for (unsigned int i = 0; i < s->nnodes; i++)
		t = RTE_MIN(t, s->nodes[i].next(s->nodes[i].arg));
	return t;
}

bool
sim_run(struct sim *s, uint64_t until_ns, bool (*done)(void *arg), void *arg)
{
	unsigned int rounds = 0;

	for (;;) {
		uint64_t moved = s->moved, next;

		arrive(s);
		for (unsigned int i = 0; i < s->nnodes; i++)
			s->nodes[i].poll(s->nodes[i].arg, s->now_ns);
		if (done != NULL && done(arg))
			return true;
		next = next_event(s);
		if (next <= s->now_ns || moved != s->moved) {
			/* A node that always asks for another turn must not stop the clock. */
			if (++rounds < SIM_ROUNDS)
				continue;
			next = s->now_ns + SIM_STUCK_NS;
		}
		rounds = 0;
		if (next > until_ns) {
			s->now_ns = RTE_MAX(s->now_ns, until_ns);
			return false;
		}
		s->now_ns = next;
	}
}
