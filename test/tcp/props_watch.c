/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The watch: it checks each sent segment against everything sent on the link before, and each
 * connection's state after every turn of its stack. It knows the protocol and not the
 * implementation.
 */

#include <stdlib.h>

#include "props.h"
#include "weft_netif_stats.h"

#define ETHER_LEN 14
#define IPV4_LEN  20
#define IPV6_LEN  40

/** A segment on the link. */
struct seg {
	struct tcp_hdr h;
	struct tcp_opts o;
	const uint8_t *data;
	uint32_t len, ip_len;
};

static bool
parse(const uint8_t *f, uint32_t len, struct seg *s)
{
	uint32_t ip_hdr, tcp_len;

	if (weft_get_be16(f + 12) == 0x0800 && len >= ETHER_LEN + IPV4_LEN && f[23] == 6) {
		ip_hdr = (f[14] & 15) * 4u;
		s->ip_len = weft_get_be16(f + 16);
	} else if (weft_get_be16(f + 12) == 0x86dd && len >= ETHER_LEN + IPV6_LEN && f[20] == 6) {
		ip_hdr = IPV6_LEN;
		s->ip_len = IPV6_LEN + weft_get_be16(f + 18);
	} else {
		return false;
	}
	CHECK(s->ip_len <= len - ETHER_LEN && s->ip_len >= ip_hdr + TCP_HDR_LEN);
	tcp_len = s->ip_len - ip_hdr;
	f += ETHER_LEN + ip_hdr;
	memset(&s->o, 0, sizeof(s->o));
	CHECK(tcp_wire_decode(f, tcp_len, &s->h) > 0);
	CHECK_EQ(tcp_wire_decode_opts(f + TCP_HDR_LEN, s->h.hdr_len_bytes - TCP_HDR_LEN, &s->o), 0);
	s->data = f + s->h.hdr_len_bytes;
	s->len = tcp_len - s->h.hdr_len_bytes;
	return true;
}

static struct props_flow *
flow_find(struct props *p, uint16_t port0, uint16_t port1)
{
	for (unsigned int i = p->nflows; i-- > 0;)
		if (p->flow[i].port[0] == port0 && p->flow[i].port[1] == port1)
			return &p->flow[i];
	return NULL;
}

static struct props_flow *
flow_of_seg(struct props *p, unsigned int from, const struct seg *s)
{
	return from == 0 ? flow_find(p, s->h.src_port, s->h.dst_port)
	                 : flow_find(p, s->h.dst_port, s->h.src_port);
}

static struct props_flow *
flow_new(struct props *p, unsigned int from, const struct seg *s)
{
	static uint8_t store[PROPS_CONNS][2][PROPS_OCTETS];
	struct props_flow *f = &p->flow[p->nflows];

	CHECK(p->nflows < PROPS_CONNS);
	/* Remove what an earlier run left. */
	for (unsigned int i = 0; i < 2; i++) {
		struct props_half *h = &f->half[i];
		uint64_t used = RTE_MIN(h->end + 1, (uint64_t)PROPS_OCTETS);

		if (h->octet != NULL)
			memset(h->octet, 0, used);
		memset(h, 0, sizeof(*h));
		h->octet = store[p->nflows][i];
	}
	f->port[from] = s->h.src_port;
	f->port[1 - from] = s->h.dst_port;
	p->nflows++;
	return f;
}

/** A new connection on the same ports. An end that still waits for an answer to its SYN stays. */
static struct props_flow *
flow_again(struct props *p, const struct props_flow *old, unsigned int from, const struct seg *s)
{
	struct props_half waits = old->half[1 - from];
	struct props_flow *f = flow_new(p, from, s);
	uint8_t *octet = f->half[1 - from].octet;

	if (waits.end == 0 && waits.ack_out == 0 && (s->h.flags & TCP_ACK) != 0 &&
	    s->h.ack == waits.iss + 1) {
		f->half[1 - from] = waits;
		f->half[1 - from].octet = octet;
	}
	return f;
}

struct props_flow *
props_flow_of(struct props *p, const struct net_app *a)
{
	struct weft_tcp_info info;

	if (a->c == NULL)
		return NULL;
	weft_tcp_info(a->c, &info);
	return a->node->id == 0 ? flow_find(p, info.local_port, info.remote_port)
	                        : flow_find(p, info.remote_port, info.local_port);
}

static struct net_app *
app_of(struct props *p, const struct props_flow *f, unsigned int node)
{
	for (unsigned int i = 0; i < p->net.napps; i++) {
		struct net_app *a = &p->net.app[i];

		if (a->node == &p->net.node[node] && a->c != NULL && props_flow_of(p, a) == f)
			return a;
	}
	return NULL;
}

static uint64_t
offset(const struct props_half *h, uint32_t seq)
{
	return seq - h->iss - 1;
}

/* ---- A segment is sent ---- */

static void
sent_syn(struct props_half *h, const struct seg *s)
{
	CHECK_EQ(s->len, 0);
	if (h->syn) {
		CHECK_EQ(s->h.seq, h->iss);
		/* RFC 7323 s1.3, s2.2: a SYN-ACK has at most the options that the first SYN
		 * offered. */
		return;
	}
	h->syn = true;
	h->iss = s->h.seq;
	h->mss = s->o.mss_bytes != 0 ? s->o.mss_bytes : 536;
	h->wscale_ok = s->o.has_wscale;
	h->wscale = s->o.wscale;
	h->has_ts = s->o.has_ts;
}

/** RFC 2018 s3: a block covers only octets that have arrived, and all of them. */
static void
sent_sack(const struct props *p, const struct props_half *other, const struct seg *s)
{
	for (unsigned int i = 0; i < s->o.nsack; i++) {
		uint64_t l = offset(other, s->o.sack[i].left),
		         r = offset(other, s->o.sack[i].right);

		/* RFC 2883 s4: a duplicate is reported, regardless of its sender. */
		if (i == 0 && p->attacked && (int32_t)(s->o.sack[i].right - s->h.ack) <= 0)
			continue;
		if (other->fin_arrived && r == other->fin_off + 1)
			r--; /* an implementation may count the FIN */
		CHECK_MSG(l <= r && r <= other->end, "SACK block %" PRIu64 " to %" PRIu64, l, r);
		for (uint64_t x = l; x < r; x++)
			CHECK_MSG(other->octet[x] & PROPS_ARRIVED,
			          "SACK block %" PRIu64 " to %" PRIu64 ", %" PRIu64 " never came",
			          l, r, x);
	}
}

static void
sent_ack(const struct props *p, struct props_half *h, const struct props_half *other,
         const struct seg *s)
{
	uint64_t ack, wnd;

	CHECK(other->syn);
	ack = offset(other, s->h.ack);
	wnd = s->h.flags & TCP_SYN || !h->wscale_ok || !other->wscale_ok
	              ? s->h.wnd
	              : (uint64_t)s->h.wnd << h->wscale;
	/* RFC 9293 s3.4: RCV.NXT: all octets before it have arrived, and it never decreases. */
	CHECK_MSG(ack <= other->arrived || (other->fin_arrived && ack == other->fin_off + 1 &&
	                                    other->arrived == other->fin_off),
	          "ACK %" PRIu64 " of octets that have not come (%" PRIu64 ")", ack,
	          other->arrived);
	CHECK_MSG(ack >= h->ack_out, "ACK went back from %" PRIu64 " to %" PRIu64, h->ack_out, ack);
	h->ack_out = ack;
	/* RFC 9293 s3.8.6.2.2: the right edge of the window does not move to the left (SHLD-14). */
	CHECK_MSG(p->window_moves || ack + wnd >= h->edge_out,
	          "window shrunk from %" PRIu64 " to %" PRIu64, h->edge_out, ack + wnd);
	h->edge_out = ack + wnd;
	sent_sack(p, other, s);
}

/** The largest cwnd within this turn, before another event reduced it again (RFC 5681 s3.1). */
static uint64_t
most_cwnd(const struct props *p, const struct net_app *a, const struct props_half *h)
{
	unsigned int i = (unsigned int)(a - p->net.app);

	if (p->cwnd_before[i] == 0)
		return 14600; /* RFC 6928 s2 */
	return p->cwnd_before[i] + (h->acked - RTE_MIN(p->acked_before[i], h->acked));
}

/** New octets: check that the peer's window and our cwnd permit them. */
static void
sent_new(struct props *p, struct props_flow *f, unsigned int from, const struct seg *s,
         uint64_t off)
{
	struct props_half *h = &f->half[from];
	uint64_t end = off + s->len, flight, allowed;
	struct net_app *a = app_of(p, f, from);
	struct weft_tcp_info info;

	if (off > h->end) {
		/* A segment that is dropped while it waits for the next hop's address does not
		 * appear here. */
		CHECK_MSG(weft_netif_stats(p->net.node[from].nif)->tx_unresolved > 0,
		          "a gap: %" PRIu64 " after %" PRIu64, off, h->end);
		memset(h->octet + h->end, PROPS_UNSEEN, off - h->end);
		h->end = off;
	}
	if (p->window_moves) {
		uint64_t edge = h->edge;

		/* Earlier segments of a burst take effect first. */
		if (h->edge_ns == sim_now_ns(p->net.sim))
			edge = RTE_MAX(edge, h->edge_was);
		/* RFC 9293 s3.8.6.1: one octet into a closed window. Otherwise within the
		 * present window. */
		CHECK_MSG(end <= edge || s->len == 1,
		          "octets to %" PRIu64 " beyond the window's edge %" PRIu64, end, edge);
	} else {
		CHECK_MSG(end <= h->edge_max,
		          "octets to %" PRIu64 " beyond the window's edge %" PRIu64, end,
		          h->edge_max);
	}
	if (off == h->end)
		h->octet[off] |= PROPS_START;
	else
		CHECK_MSG(p->may_split, "a segment of old and new octets");
	h->end = end;
	if (a == NULL || p->stale_port)
		return;
	CHECK_MSG(end <= a->sent, "octets that the application has not sent");
	weft_tcp_info(a->c, &info);
	/* RFC 8985 s7.3: a probe is sent regardless of cwnd, even if ECE has just halved it. */
	if (info.in_recovery || info.tlp_probes != p->probes_before[a - p->net.app])
		return;
	/*
	 * Outside recovery no segment is considered lost, so all unacknowledged octets are in
	 * flight. RFC 3042 permits two segments beyond cwnd, and one more may be an earlier probe.
	 */
	flight = end - h->acked;
	for (uint64_t x = h->acked; x < end; x++)
		flight -= (h->octet[x] & PROPS_SACKED) != 0;
	allowed = RTE_MAX((uint64_t)info.cwnd_bytes, most_cwnd(p, a, h)) + 3u * info.mss_bytes;
	CHECK_MSG(flight <= allowed, "%" PRIu64 " octets in flight, cwnd %u", flight,
	          info.cwnd_bytes);
}

static void
sent_again(const struct props *p, unsigned int from, struct props_half *h, const struct seg *s,
           uint64_t off)
{
	uint64_t end = off + s->len;

	if (h->octet[off] & PROPS_UNSEEN) {
		for (uint64_t x = off; x < end; x++)
			h->octet[x] &= (uint8_t)~PROPS_UNSEEN;
		h->octet[off] |= PROPS_START;
	} else {
		h->retrans_segs++;
		h->retrans_octets += s->len;
	}
	if (h->acked_new_ns != sim_now_ns(p->net.sim))
		h->acked_sure = h->acked_new;
	if (!p->stale_port)
		CHECK_MSG(end > h->acked_sure,
		          "sent again to %" PRIu64 ", acknowledged to %" PRIu64, end,
		          h->acked_sure);
	if (p->may_split || weft_tcp_stats(p->net.node[from].tcp)->blackholes > 0)
		return;
	/* RFC 5044 appendix A: a retransmitted segment has the same boundaries. */
	CHECK_MSG(h->octet[off] & PROPS_START, "sent again from %" PRIu64 " within a segment", off);
	CHECK_MSG(end == h->end || h->octet[end] & (PROPS_START | PROPS_UNSEEN),
	          "sent again to %" PRIu64 " within a segment", end);
	for (uint64_t x = off + 1; x < end; x++)
		CHECK_MSG((h->octet[x] & PROPS_START) == 0,
		          "two segments sent again as one at %" PRIu64, x);
}

static void
sent_text(struct props *p, struct props_flow *f, unsigned int from, const struct seg *s)
{
	struct props_half *h = &f->half[from];
	uint64_t off = offset(h, s->h.seq), end = off + s->len;
	uint8_t key = from == 0 ? 100 : 200;

	CHECK_MSG(end < PROPS_OCTETS, "seq %u is not of this stream", s->h.seq);
	for (uint32_t i = 0; i < s->len; i++)
		CHECK_MSG(s->data[i] == net_stream(key, off + i), "octet %" PRIu64 " is wrong",
		          off + i);
	/* RFC 9293 s3.7.1 (MUST-16), RFC 6691: the offered MSS includes options. */
	CHECK_MSG(s->len + s->h.hdr_len_bytes - TCP_HDR_LEN <= f->half[1 - from].mss,
	          "%u octets of text and %u of options, MSS %u", s->len,
	          s->h.hdr_len_bytes - TCP_HDR_LEN, f->half[1 - from].mss);
	CHECK(!h->fin || end <= h->fin_off);
	h->segs++;
	h->octets += s->len;
	if (end > h->end)
		sent_new(p, f, from, s, off);
	else
		sent_again(p, from, h, s, off);
}

static void
on_sent(struct props *p, unsigned int from, const struct seg *s)
{
	struct props_flow *f = flow_of_seg(p, from, s);
	struct props_half *h;

	CHECK_MSG(s->ip_len <= p->mtu_bytes, "a packet of %u octets, MTU %u", s->ip_len,
	          p->mtu_bytes);
	if (f == NULL && p->strangers)
		return;
	if (s->h.flags & TCP_RST)
		return;
	if (f == NULL) {
		CHECK_MSG(s->h.flags & TCP_SYN, "a segment before any SYN");
		f = flow_new(p, from, s);
	}
	if (p->strangers && s->h.flags & TCP_SYN && f->half[from].syn &&
	    f->half[from].iss != s->h.seq)
		f = flow_again(p, f, from, s);
	h = &f->half[from];
	if (s->h.flags & TCP_SYN)
		sent_syn(h, s);
	if (!h->syn && (p->strangers || p->window_moves))
		return; /* of an earlier connection */
	CHECK_MSG(h->syn, "a segment before this end's SYN");
	if (s->h.flags & TCP_ACK)
		sent_ack(p, h, &f->half[1 - from], s);
	if (s->len > 0)
		sent_text(p, f, from, s);
	if (s->h.flags & TCP_FIN) {
		uint64_t off = offset(h, s->h.seq) + s->len;

		CHECK_MSG(!h->fin || h->fin_off == off, "another FIN at %" PRIu64, off);
		CHECK_MSG(off == h->end, "FIN at %" PRIu64 ", octets to %" PRIu64, off, h->end);
		h->fin = true;
		h->fin_off = off;
	}
}

/* ---- A segment arrives ---- */

static void
on_arrived(struct props *p, unsigned int from, const struct seg *s)
{
	struct props_flow *f = flow_of_seg(p, from, s);
	struct props_half *h, *other;
	uint64_t off, ack, edge, before;
	bool acceptable;

	if (f == NULL || s->h.flags & TCP_RST || !f->half[from].syn)
		return;
	h = &f->half[from];
	other = &f->half[1 - from];
	off = offset(h, s->h.seq);
	if (p->strangers && off + s->len > h->end && s->len > 0)
		return; /* of an earlier connection */
	before = h->arrived + (h->fin_arrived && h->arrived == h->fin_off);
	if (s->len > 0) {
		h->arrived_segs++;
		for (uint32_t i = 0; i < s->len; i++)
			h->octet[off + i] |= PROPS_ARRIVED;
		while (h->octet[h->arrived] & PROPS_ARRIVED)
			h->arrived++;
	}
	if (s->h.flags & TCP_FIN)
		h->fin_arrived = true;
	if ((s->h.flags & TCP_ACK) == 0 || !other->syn)
		return;
	ack = offset(other, s->h.ack);
	edge = ack + (s->h.flags & TCP_SYN || !h->wscale_ok || !other->wscale_ok
	                      ? s->h.wnd
	                      : (uint64_t)s->h.wnd << h->wscale);
	if (ack >= other->acked) {
		if (other->edge_ns != sim_now_ns(p->net.sim))
			other->edge_was = other->edge;
		else
			other->edge_was = RTE_MAX(other->edge_was, other->edge);
		other->edge_ns = sim_now_ns(p->net.sim);
		other->edge = edge;
	}
	other->acked = RTE_MAX(other->acked, ack);
	other->edge_max = RTE_MAX(other->edge_max, edge);
	for (unsigned int i = 0; i < s->o.nsack; i++) {
		uint64_t l = offset(other, s->o.sack[i].left),
		         r = offset(other, s->o.sack[i].right);

		if (l >= PROPS_OCTETS || r > other->end)
			continue;
		for (uint64_t x = l; x < r; x++)
			other->octet[x] |= PROPS_SACKED;
	}
	/* RFC 9293 s3.10.7.4, first step: nothing of an old segment is used, not even its ACK. */
	acceptable = s->len + (s->h.flags & TCP_FIN) > 0
	                     ? off + s->len + (s->h.flags & TCP_FIN) > before
	                     : off >= before;
	if (!acceptable || ack <= other->acked_new)
		return;
	if (other->acked_new_ns != sim_now_ns(p->net.sim))
		other->acked_sure = other->acked_new;
	other->acked_new = ack;
	other->acked_new_ns = sim_now_ns(p->net.sim);
}

static void
on_link(void *arg, unsigned int from, enum sim_event what, const uint8_t *frame, uint32_t len,
        uint64_t now_ns)
{
	struct props *p = arg;
	struct props_flow *f;
	struct seg s;

	(void)now_ns;
	if (what == SIM_DAMAGED || !parse(frame, len, &s))
		return;
	switch (what) {
	case SIM_SENT:
		on_sent(p, from, &s);
		break;
	case SIM_DELIVERED:
		on_arrived(p, from, &s);
		break;
	default:
		f = flow_of_seg(p, from, &s);
		if (f != NULL && s.len > 0)
			f->half[from].lost_segs++;
		break;
	}
}

/* ---- After each turn ---- */

/**
 * A retransmission timer has expired: all unacknowledged octets may be sent again, also those that
 * the receiver reported by SACK, because it may have dropped them (RFC 2018 s8).
 */
static void
count_timeout(struct props_half *h)
{
	for (uint64_t x = h->acked; x < h->end; x++)
		h->timeout_segs += (h->octet[x] & PROPS_START) != 0;
}

static void
sample(struct props *p, struct net_app *a)
{
	const struct weft_tcp_attr *at = &p->attr[a->node->id];
	uint32_t rto_min = at->rto_min_us != 0 ? at->rto_min_us : 200000;
	uint32_t rto_max = at->rto_max_us != 0 ? at->rto_max_us : 60000000;
	uint64_t snd_buf = at->snd_buf_bytes != 0 ? at->snd_buf_bytes : 4u << 20;
	struct weft_tcp_info i;
	struct props_flow *f;
	uint64_t most;

	weft_tcp_info(a->c, &i);
	/* RFC 6298 s2.4, s2.5, with the bounds as configured */
	CHECK_MSG(i.rto_us >= rto_min && i.rto_us <= rto_max, "RTO %u us", i.rto_us);
	p->probes_before[a - p->net.app] = i.tlp_probes;
	if (i.state < WEFT_TCP_ESTABLISHED)
		return;
	p->cwnd_before[a - p->net.app] = i.cwnd_bytes;
	/* RFC 5681 s3.1: the loss window is one segment, equation 4's floor two. */
	CHECK_MSG(i.cwnd_bytes >= i.mss_bytes, "cwnd %u, MSS %u", i.cwnd_bytes, i.mss_bytes);
	CHECK_MSG(i.ssthresh_bytes >= 2u * i.mss_bytes, "ssthresh %u, MSS %u", i.ssthresh_bytes,
	          i.mss_bytes);
	f = props_flow_of(p, a);
	if (f == NULL)
		return;
	/*
	 * RFC 5681 s3.1: no ACK raises cwnd by more octets than it acknowledges. There are ten
	 * segments at first (RFC 6928), and three and one for each duplicate ACK in fast recovery
	 * (s3.2).
	 */
	most = 14600u + 13ull * i.mss_bytes + f->half[a->node->id].acked +
	       weft_tcp_stats(a->node->tcp)->dupacks_in * i.mss_bytes;
	snd_buf += 14600u + 13ull * i.mss_bytes;
	most = RTE_MIN(most, snd_buf);
	if (i.rtos != p->rtos_before[a - p->net.app])
		count_timeout(&f->half[a->node->id]);
	p->rtos_before[a - p->net.app] = i.rtos;
	p->acked_before[a - p->net.app] = f->half[a->node->id].acked;
	CHECK_MSG(i.cwnd_bytes <= most, "cwnd %u, at most %" PRIu64, i.cwnd_bytes, most);
}

static void
turn(void *arg, uint64_t now_ns)
{
	struct props *p = arg;

	for (unsigned int i = 0; i < p->net.napps; i++)
		if (p->net.app[i].c != NULL)
			sample(p, &p->net.app[i]);
	while (p->act != NULL && p->next_ns <= now_ns) {
		p->next_ns = WEFT_NEVER;
		p->acts++;
		p->act(p);
	}
}

static uint64_t
turn_next(void *arg)
{
	return ((struct props *)arg)->next_ns;
}

void
props_watch(struct props *p)
{
	sim_link_watch(p->net.link, on_link, p);
	sim_add_node(p->net.sim, &(struct sim_node){.poll = turn, .next = turn_next, .arg = p});
}
