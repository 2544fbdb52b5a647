/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The effective MSS and the path MTU: packet-too-big messages (RFC 1191, RFC 8201) as far as they
 * can be trusted (RFC 5927 s7), black holes that send no message (RFC 2923 s2.1, RFC 4821 s7.7), a
 * cache of path MTUs for later connections, and raising the size again.
 *
 * A raise is simple: after pmtu_raise_us the interface's size is used. A path that is still narrow
 * reports it again or is detected again. A separate probe would have to consist of FPDUs, and only
 * MPA can build larger ones, after the MSS is larger.
 */

#include "tcp_conn.h"
#include "tcp_hdr.h"
#include "tcp_instance.h"
#include "tcp_life.h"
#include "tcp_loss.h"
#include "tcp_math.h"
#include "tcp_pmtu.h"
#include "tcp_snd.h"
#include "tcp_timer.h"
#include "weft_siphash.h"
#include "weft_netif_attr.h"
#include "weft_netif_icmp.h"
#include "weft_netif_mbuf.h"
#include "weft_netif.h"

#define TCP_PMTU_FLOOR_V4 576  /* RFC 9293 s3.7.1: every host takes that; narrower paths fragment */
#define TCP_PMTU_FLOOR_V6 1280 /* RFC 8201 s4 */
/** A size found by timeouts alone is questioned 2^6 times sooner than a size that a router
 * reported. */
#define TCP_BLACKHOLE_SHIFT 6

/** RFC 1191 table 7-1: common MTUs of links, for routers that report no MTU. */
static const uint16_t tcp_plateaus[] = {65535, 32000, 17914, 8166, 4352, 2002,
                                        1492,  1006,  508,   296,  68};
/** Fewer steps, so that the last one is tried long before data_retries is reached. The first is
 * that of Ethernet: most black holes are hosts and switches without jumbo frames. */
static const uint16_t tcp_blackhole_steps[] = {1500, 1492, 1280, 576};

static uint16_t
tcp_step_below(const uint16_t *steps, unsigned int n, uint32_t size)
{
	for (unsigned int i = 0; i < n; i++)
		if (steps[i] < size)
			return steps[i];
	return steps[n - 1];
}

/** Octets in front of a segment's payload: IP header, TCP header, options. */
static uint32_t
tcp_hdrs_bytes(const struct weft_tcp_conn *c)
{
	return (weft_ip_is_v4(&c->remote) ? 20u : 40u) + tcp_hdr_len(c);
}

/** The MSS for an MTU. Options do not count (RFC 6691). */
static uint16_t
tcp_mss_of(const struct weft_tcp_conn *c, uint16_t mtu_bytes)
{
	return (uint16_t)(mtu_bytes - (weft_ip_is_v4(&c->remote) ? 20 : 40) - TCP_HDR_LEN);
}

static uint16_t
tcp_pmtu_floor(const struct weft_tcp_conn *c)
{
	uint16_t floor = weft_ip_is_v4(&c->remote) ? TCP_PMTU_FLOOR_V4 : TCP_PMTU_FLOOR_V6;

	return RTE_MIN(floor, weft_netif_attr(c->nif)->mtu_bytes);
}

/* ---- The cache ---- */

static struct tcp_pmtu *
tcp_pmtu_set_of(struct weft_tcp *t, const struct weft_ip *dst)
{
	uint64_t w[2], h;

	memcpy(w, dst, sizeof(w));
	h = weft_siphash(t->hash_key, w, 2, 1, 3);
	return &t->pmtu[h % TCP_PMTU_SETS * TCP_PMTU_WAYS];
}

static struct tcp_pmtu *
tcp_pmtu_find(struct weft_tcp *t, const struct weft_ip *dst, uint64_t now_ns)
{
	struct tcp_pmtu *e = tcp_pmtu_set_of(t, dst);

	for (unsigned int i = 0; i < TCP_PMTU_WAYS; i++)
		if (e[i].until_ns > now_ns && weft_ip_eq(&e[i].dst, dst))
			return &e[i];
	return NULL;
}

/** The entry of dst, which may have ended; NULL: none. */
static struct tcp_pmtu *
tcp_pmtu_entry(struct weft_tcp *t, const struct weft_ip *dst)
{
	struct tcp_pmtu *e = tcp_pmtu_set_of(t, dst);

	for (unsigned int i = 0; i < TCP_PMTU_WAYS; i++)
		if (e[i].until_ns != 0 && weft_ip_eq(&e[i].dst, dst))
			return &e[i];
	return NULL;
}

/** Returns the entry. It keeps named_bytes and found_bytes if it was of this destination before. */
static struct tcp_pmtu *
tcp_pmtu_remember(struct weft_tcp_conn *c, uint64_t now_ns, uint64_t until_ns)
{
	struct tcp_pmtu *e = tcp_pmtu_entry(c->t, &c->remote);
	uint16_t named = e != NULL ? e->named_bytes : 0, found = e != NULL ? e->found_bytes : 0;

	if (e == NULL) {
		struct tcp_pmtu *set = tcp_pmtu_set_of(c->t, &c->remote);

		e = set;
		for (unsigned int i = 1; i < TCP_PMTU_WAYS; i++)
			if (set[i].until_ns < e->until_ns)
				e = &set[i];
		if (e->until_ns > now_ns)
			c->t->stats.pmtu_evicted++;
	}
	*e = (struct tcp_pmtu){.dst = c->remote,
	                       .mtu_bytes = c->pmtu_bytes,
	                       .named_bytes = named,
	                       .found_bytes = found,
	                       .until_ns = until_ns};
	return e;
}

/* ---- The effective MSS ---- */

void
tcp_mss_update(struct weft_tcp_conn *c)
{
	uint32_t hdrs = tcp_hdrs_bytes(c), opts = tcp_hdr_len(c) - TCP_HDR_LEN;
	/* A segment lies in one mbuf. */
	uint32_t most = RTE_MIN(c->pmtu_bytes, weft_netif_tx_most(c->nif));
	uint32_t path = tcp_left(most, hdrs), peer = tcp_left(c->mss_peer, opts);
	/* RFC 9293 s3.7.1: Eff.snd.MSS, options subtracted from both */
	uint16_t mss = (uint16_t)tcp_clamp(path, 1, RTE_MAX(peer, 1u));

	if (mss == c->mss)
		return;
	c->mss = mss;
	c->t->grant.conn = NULL;
	if (!tcp_states[c->state].synchronized || c->state == WEFT_TCP_SYN_RCVD)
		return;
	/* A window below one segment would never open again. */
	c->cwnd = RTE_MAX(c->cwnd, (uint32_t)mss);
	c->ssthresh = RTE_MAX(c->ssthresh, 2u * mss); /* RFC 5681 s3.1 equation 4 */
	tcp_work(c, TCP_WORK_MSS);
}

/** Sets the path MTU, never to more than the interface's MTU. */
static void
tcp_pmtu_set(struct weft_tcp_conn *c, uint16_t mtu_bytes)
{
	c->pmtu_bytes = RTE_MIN(mtu_bytes, weft_netif_attr(c->nif)->mtu_bytes);
	tcp_mss_update(c);
}

void
tcp_pmtu_init(struct weft_tcp_conn *c)
{
	uint64_t now_ns = c->t->sched->now_ns;
	const struct tcp_pmtu *e = NULL;

	c->pmtu_bytes = weft_netif_attr(c->nif)->mtu_bytes;
	c->mss_local = tcp_mss_of(c, c->pmtu_bytes);
	c->mss_peer = weft_ip_is_v4(&c->remote) ? TCP_DEFAULT_MSS_V4 : TCP_DEFAULT_MSS_V6;
	c->pmtu_raise_ns = WEFT_NEVER;
	if (!c->t->attr.no_pmtu)
		e = tcp_pmtu_find(c->t, &c->remote, now_ns);
	if (e != NULL && e->mtu_bytes < c->pmtu_bytes) {
		c->pmtu_bytes = e->mtu_bytes;
		c->pmtu_raise_ns = e->until_ns;
	}
	tcp_mss_update(c);
}

/* ---- Down ---- */

static void
tcp_pmtu_lower(struct weft_tcp_conn *c, uint16_t mtu_bytes)
{
	c->t->stats.pmtu_lowered++;
	c->pmtu_claim_bytes = 0;
	tcp_pmtu_set(c, mtu_bytes);
	c->acked_max_bytes = RTE_MIN(c->acked_max_bytes, c->mss);
}

/** Accepts an MTU that a router has reported. */
static void
tcp_pmtu_believe(struct weft_tcp_conn *c, uint16_t mtu_bytes, uint64_t now_ns)
{
	const struct tcp_pmtu *e = tcp_pmtu_find(c->t, &c->remote, now_ns);
	uint16_t floor = tcp_pmtu_floor(c);

	/* Another connection may have learned of a narrower link meanwhile. */
	if (e != NULL)
		mtu_bytes = RTE_MIN(mtu_bytes, e->mtu_bytes);
	c->pmtu_raise_ns = now_ns + c->t->attr.pmtu_raise_us * WEFT_NS_PER_US;
	c->blackhole_from_bytes = 0;
	c->pmtu_claim_bytes = 0;
	/* RFC 1191 s3: "may discontinue setting the DF bit". */
	c->may_fragment = mtu_bytes < floor;
	mtu_bytes = RTE_MAX(mtu_bytes, floor);
	if (mtu_bytes < c->pmtu_bytes)
		tcp_pmtu_lower(c, mtu_bytes);
	tcp_pmtu_remember(c, now_ns, c->pmtu_raise_ns);
}

/** The octets of the IP packet in which octet seq was sent; 0: seq was not sent, or has arrived. */
static uint32_t
tcp_packet_bytes(const struct weft_tcp_conn *c, uint32_t seq)
{
	for (struct rte_mbuf *m = c->sq_head; m != NULL; m = tcp_seg(m)->next) {
		const struct tcp_seg *s = tcp_seg(m);

		if (seq - s->seq >= s->len_bytes)
			continue;
		if (s->xmits == 0 || s->flags & TCP_SEG_SACKED)
			return 0;
		return s->len_bytes + tcp_hdrs_bytes(c);
	}
	return 0;
}

/** Whether an octet that a message quotes has arrived, so that the message was wrong. */
static bool
tcp_pmtu_disproved(const struct weft_tcp_conn *c, uint32_t seq)
{
	return weft_seq_lt(seq, c->snd_una) || tcp_packet_bytes(c, seq) == 0;
}

/** Forget messages about octets that have arrived. */
static void
tcp_pmtu_recheck(struct weft_tcp_conn *c)
{
	bool first = tcp_pmtu_disproved(c, c->pmtu_claim_seq);
	bool last = tcp_pmtu_disproved(c, c->pmtu_claim_last);

	if (first && last) {
		c->pmtu_claim_bytes = 0;
		c->t->stats.pmtu_ignored++;
	} else if (first) {
		c->pmtu_claim_seq = c->pmtu_claim_last;
	} else if (last) {
		c->pmtu_claim_last = c->pmtu_claim_seq;
	}
}

/** Segments in flight that are longer than the path takes do not arrive: marks them lost. */
static void
tcp_pmtu_resend(struct weft_tcp_conn *c)
{
	for (struct rte_mbuf *m = c->sq_head; m != NULL && m != c->sq_nxt; m = tcp_seg(m)->next)
		if (tcp_seg(m)->flags & TCP_SEG_FLIGHT && tcp_seg(m)->len_bytes > c->mss)
			tcp_seg_lost(c, m);
}

bool
tcp_pmtu_too_big(struct weft_tcp_conn *c, const struct weft_icmp_error *e, uint64_t now_ns)
{
	uint32_t size = c->t->attr.no_pmtu ? 0 : tcp_packet_bytes(c, e->seq);
	uint16_t mtu = e->mtu_bytes, floor = tcp_pmtu_floor(c);

	/* RFC 1191 s5: an old router reports no MTU. It may report a whole burst, whose first
	 * message was already handled (s6.4). */
	if (mtu == 0 && e->quoted_bytes > c->pmtu_bytes)
		goto ignored;
	if (mtu == 0 && size > 0)
		mtu = tcp_step_below(tcp_plateaus, RTE_DIM(tcp_plateaus), size);
	if (mtu >= size || mtu >= c->pmtu_bytes)
		goto ignored;
	/* RFC 8201 s4: such a message is discarded. */
	if (mtu < floor && !weft_ip_is_v4(&c->remote))
		goto ignored;
	if (mtu < floor && c->may_fragment && floor >= c->pmtu_bytes)
		return false;
	if (mtu < c->acked_max_bytes + tcp_hdrs_bytes(c)) {
		/* RFC 5927 s7.2: larger segments have arrived. Believe this once the quoted one is
		 * lost. Of a burst two messages count: about the lowest octet, which a timeout
		 * sends again, and about the highest one, which a loss probe sends again. */
		if (c->pmtu_claim_bytes == 0 || weft_seq_lt(e->seq, c->pmtu_claim_seq))
			c->pmtu_claim_seq = e->seq;
		if (c->pmtu_claim_bytes == 0 || weft_seq_lt(c->pmtu_claim_last, e->seq))
			c->pmtu_claim_last = e->seq;
		c->pmtu_claim_bytes = mtu;
		return false;
	}
	tcp_pmtu_believe(c, mtu, now_ns);
	/* RFC 1191 s6.4: dropped segments are sent again at once. Congestion was not the cause. */
	tcp_pmtu_resend(c);
	return true;
ignored:
	c->t->stats.pmtu_ignored++;
	return false;
}

void
tcp_pmtu_lost(struct weft_tcp_conn *c, const struct tcp_seg *s, uint64_t now_ns)
{
	if (c->pmtu_claim_seq - s->seq < s->len_bytes || c->pmtu_claim_last - s->seq < s->len_bytes)
		tcp_pmtu_believe(c, c->pmtu_claim_bytes, now_ns);
}

/** The sizes that were tried were not the reason: back to the first one. */
static void
tcp_pmtu_restore(struct weft_tcp_conn *c, uint64_t now_ns)
{
	tcp_pmtu_set(c, c->blackhole_from_bytes);
	c->blackhole_from_bytes = 0;
	c->t->stats.pmtu_raised++;
	if (c->pmtu_bytes < weft_netif_attr(c->nif)->mtu_bytes)
		c->pmtu_raise_ns = now_ns + c->t->attr.pmtu_raise_us * WEFT_NS_PER_US;
}

void
tcp_pmtu_link_up(struct weft_tcp_conn *c, uint64_t now_ns)
{
	if (c->blackhole_from_bytes == 0 || !c->pmtu_watch)
		return;
	tcp_pmtu_restore(c, now_ns);
	c->pmtu_watch = false;
}

void
tcp_pmtu_timeout(struct weft_tcp_conn *c, uint64_t now_ns)
{
	const struct tcp_pmtu *e;
	uint16_t next, floor = tcp_pmtu_floor(c);
	uint32_t size, wait;

	/* Without a link nothing passes, whatever its size. */
	if (c->t->attr.no_pmtu || c->sq_head == NULL || !weft_netif_link_up(c->nif))
		return;
	/* Before the timeout makes TCP forget what was SACKed. */
	if (c->pmtu_claim_bytes != 0)
		tcp_pmtu_recheck(c);
	e = tcp_pmtu_find(c->t, &c->remote, now_ns);
	if (e != NULL && e->mtu_bytes < c->pmtu_bytes) {
		/* Another connection to the address has found a smaller size. */
		c->pmtu_raise_ns = e->until_ns;
		tcp_pmtu_lower(c, e->mtu_bytes);
		return;
	}
	size = tcp_seg(c->sq_head)->len_bytes + tcp_hdrs_bytes(c);
	/* If this size arrived before, the path is more likely down than narrow. */
	wait = c->t->attr.blackhole_rtos;
	if (c->blackhole_from_bytes == 0 && tcp_seg(c->sq_head)->len_bytes <= c->acked_max_bytes)
		wait++;
	/* A closed window also keeps the segment from being sent. */
	if (c->retries < wait || c->snd_wnd < tcp_seg(c->sq_head)->len_bytes)
		return;
	size = RTE_MIN(size, (uint32_t)c->pmtu_bytes);
	next = c->pmtu_low_bytes != 0 && c->pmtu_low_bytes < size
	               ? c->pmtu_low_bytes
	               : tcp_step_below(tcp_blackhole_steps, RTE_DIM(tcp_blackhole_steps), size);
	next = RTE_MAX(next, floor);
	if (next < size) {
		if (c->blackhole_from_bytes == 0) {
			c->blackhole_from_bytes = c->pmtu_bytes;
			c->t->stats.blackholes++;
		}
		c->pmtu_raise_ns = WEFT_NEVER; /* until a segment gets through */
		tcp_pmtu_lower(c, next);
		c->pmtu_watch = true;
	} else if (c->blackhole_from_bytes != 0 && c->pmtu_watch) {
		/* Not even the smallest size gets through. */
		tcp_pmtu_restore(c, now_ns);
	}
}

/** A smaller size passes and the larger one does not, for the second time: names the peer, once for
 * each larger size. The first time may have been an interruption of the path. */
static void
tcp_pmtu_name(const struct weft_tcp_conn *c, struct tcp_pmtu *e)
{
	char peer[WEFT_ADDR_STR_LEN];

	if (e->named_bytes == c->blackhole_from_bytes)
		return;
	if (e->found_bytes != c->blackhole_from_bytes) {
		e->found_bytes = c->blackhole_from_bytes;
		return;
	}
	e->named_bytes = c->blackhole_from_bytes;
	c->t->stats.blackhole_peers++;
	WEFT_LOG_PEER(tcp, WARNING,
	              "peer %s: its %u-octet segments vanish; using %u (is its mtu, or a "
	              "switch's, smaller?)",
	              weft_ip_str(&c->remote, peer), c->blackhole_from_bytes, c->pmtu_bytes);
}

/* ---- Raising the path MTU ---- */

void
tcp_pmtu_progress(struct weft_tcp_conn *c)
{
	uint64_t now_ns = c->t->sched->now_ns;

	if (c->pmtu_claim_bytes != 0 && weft_seq_lt(c->pmtu_claim_seq, c->snd_una))
		tcp_pmtu_recheck(c);
	if (!c->pmtu_watch)
		return;
	if (c->blackhole_from_bytes != 0) {
		uint64_t wait_us = c->t->attr.pmtu_raise_us;

		wait_us = RTE_MIN(wait_us >> TCP_BLACKHOLE_SHIFT << c->blackhole_again, wait_us);
		c->pmtu_raise_ns = now_ns + wait_us * WEFT_NS_PER_US;
		if (c->blackhole_again < TCP_BLACKHOLE_SHIFT)
			c->blackhole_again++;
		tcp_pmtu_name(c, tcp_pmtu_remember(c, now_ns, c->pmtu_raise_ns));
		c->pmtu_watch = false;
	} else if (c->acked_max_bytes + tcp_hdrs_bytes(c) > c->pmtu_low_bytes) {
		struct tcp_pmtu *e = tcp_pmtu_entry(c->t, &c->remote);

		/* The larger size is confirmed. If it vanishes again, that is logged again. */
		if (e != NULL)
			e->named_bytes = e->found_bytes = 0;
		c->pmtu_low_bytes = 0;
		c->blackhole_again = 0;
		c->pmtu_watch = false;
	}
}

/**
 * Whether a wrong raise would cost too much of the user timeout. Only timeouts reveal a size that
 * is dropped silently, and each timeout is twice the one before.
 */
static bool
tcp_pmtu_too_slow(const struct weft_tcp_conn *c)
{
	const struct weft_tcp_attr *a = &c->t->attr;
	unsigned int rtos = RTE_MIN(a->blackhole_rtos + 1, 30u);

	return c->blackhole_from_bytes != 0 &&
	       tcp_rto_ns(c) << rtos > a->user_timeout_us * WEFT_NS_PER_US / 4;
}

void
tcp_pmtu_raise(struct weft_tcp_conn *c, uint64_t now_ns)
{
	const struct tcp_pmtu *e = tcp_pmtu_find(c->t, &c->remote, now_ns);
	uint16_t mtu = weft_netif_attr(c->nif)->mtu_bytes;

	if (c->retries > 0 || c->in_recovery || c->after_rto)
		return; /* not now: a loss must not look like a result of the raise */
	if (tcp_pmtu_too_slow(c))
		return;
	if (e != NULL && e->mtu_bytes < mtu) {
		mtu = e->mtu_bytes;
		c->pmtu_raise_ns = e->until_ns;
	} else {
		c->pmtu_raise_ns = WEFT_NEVER;
		c->may_fragment = false;
	}
	if (mtu <= c->pmtu_bytes)
		return;
	c->t->stats.pmtu_raised++;
	c->pmtu_low_bytes = c->pmtu_bytes;
	c->blackhole_from_bytes = 0;
	c->pmtu_watch = true;
	tcp_pmtu_set(c, mtu);
}

/* ---- The interface ---- */

bool
tcp_pmtu_clamp(struct weft_tcp_conn *c)
{
	uint16_t mtu = weft_netif_attr(c->nif)->mtu_bytes;

	c->mss_local = tcp_mss_of(c, mtu);
	/* What was learned about sizes above the interface's MTU is useless. */
	if (c->pmtu_claim_bytes >= mtu)
		c->pmtu_claim_bytes = 0;
	if (c->pmtu_low_bytes >= mtu)
		c->pmtu_low_bytes = 0;
	c->blackhole_from_bytes = RTE_MIN(c->blackhole_from_bytes, mtu);
	if (mtu >= c->pmtu_bytes)
		return false;
	c->blackhole_from_bytes = 0;
	c->t->stats.pmtu_lowered++;
	tcp_pmtu_set(c, mtu);
	return true;
}

void
weft_tcp_mtu_changed(struct weft_tcp *t, struct weft_netif *nif)
{
	uint16_t mtu = weft_netif_attr(nif)->mtu_bytes;

	for (uint32_t i = 0; i < t->attr.max_conns; i++) {
		struct weft_tcp_conn *c = &t->conns[i];

		if (c->dead || c->nif != nif || tcp_pmtu_clamp(c))
			continue;
		/* In all other cases the path is, or may be, narrower than the interface. */
		if (mtu > c->pmtu_bytes && c->pmtu_raise_ns == WEFT_NEVER &&
		    c->blackhole_from_bytes == 0) {
			t->stats.pmtu_raised++;
			tcp_pmtu_set(c, mtu);
		}
	}
}
