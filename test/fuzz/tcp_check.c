/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Invariants of every connection at any time. */

#include "tcp_fuzz.h"
#include "tcp_life.h"
#include "tcp_rcv.h"
#include "tcp_snd.h"

/** Compare the scoreboard's sums and lists with the queue itself. */
static void
check_queue(const struct weft_tcp_conn *c)
{
	uint32_t seq = c->snd_una, n = 0, lost = 0, sacked = 0, nsacked = 0, flight = 0, k = 0;

	for (struct rte_mbuf *m = c->sq_head; m != NULL; m = tcp_seg(m)->next, n++) {
		const struct tcp_seg *s = tcp_seg(m);
		uint8_t f = s->flags & (TCP_SEG_FLIGHT | TCP_SEG_LOST | TCP_SEG_SACKED);

		/* The SYN precedes the first segment until it is acknowledged. */
		if (n == 0 && c->snd_una == c->iss)
			seq = s->seq;
		FUZZ_CHECK(s->seq == seq && s->len_bytes > 0);
		seq += s->len_bytes;
		FUZZ_CHECK((f & (f - 1)) == 0);
		lost += f & TCP_SEG_LOST ? s->len_bytes : 0;
		sacked += f & TCP_SEG_SACKED ? s->len_bytes : 0;
		nsacked += (f & TCP_SEG_SACKED) != 0;
		flight += (f & TCP_SEG_FLIGHT) != 0;
		FUZZ_CHECK(m->next != NULL || tcp_seg(m)->next != NULL || m == c->sq_tail);
	}
	FUZZ_CHECK(c->sq_head == NULL || seq == c->snd_end);
	FUZZ_CHECK(n == c->snd_segs && lost == c->lost_bytes && sacked == c->sacked_bytes &&
	           nsacked == c->sacked_segs);
	for (struct rte_mbuf *m = c->flight.head; m != NULL; m = tcp_seg(m)->later, k++)
		FUZZ_CHECK(k < flight && tcp_seg(m)->flags & TCP_SEG_FLIGHT);
	FUZZ_CHECK(k == flight);
	FUZZ_CHECK(lost + sacked <= c->snd_max - c->snd_una);
}

/** Out-of-order segments: in order, separate, beyond rcv_nxt, and counted. */
static void
check_ooo(const struct weft_tcp_conn *c)
{
	uint32_t bytes = 0, mbufs = 0;

	for (struct rte_mbuf *m = c->ooo_head; m != NULL; m = tcp_ooo(m)->next) {
		const struct tcp_ooo *o = tcp_ooo(m);

		FUZZ_CHECK(weft_seq_lt(c->rcv_nxt, o->seq) && o->len_bytes == m->pkt_len);
		FUZZ_CHECK(o->next == NULL ||
		           weft_seq_leq(o->seq + o->len_bytes, tcp_ooo(o->next)->seq));
		bytes += o->charge_bytes;
		mbufs += o->mbufs;
	}
	FUZZ_CHECK(bytes == c->ooo_bytes && mbufs == c->ooo_mbufs);
	for (unsigned int i = 0; i < c->nsack; i++)
		FUZZ_CHECK(weft_seq_lt(c->sack[i].left, c->sack[i].right) &&
		           weft_seq_lt(c->rcv_nxt, c->sack[i].left));
}

void
check_conn(struct weft_tcp_conn *c)
{
	struct weft_tcp_info i;

	weft_tcp_info(c, &i);
	FUZZ_CHECK(i.state > WEFT_TCP_CLOSED && i.state < WEFT_TCP_NSTATES);
	FUZZ_CHECK(weft_seq_leq(c->snd_una, c->snd_nxt) && weft_seq_leq(c->snd_nxt, c->snd_max));
	FUZZ_CHECK(i.rto_us <= z.tcp->attr.rto_max_us);
	FUZZ_CHECK(i.mss_bytes > 0 && i.mss_bytes <= 1460);
	if (tcp_states[c->state].synchronized && c->state != WEFT_TCP_SYN_RCVD &&
	    c->state != WEFT_TCP_TIME_WAIT) {
		FUZZ_CHECK(i.rto_us >= z.tcp->attr.rto_min_us);
		FUZZ_CHECK(i.cwnd_bytes >= i.mss_bytes);
	}
	check_queue(c);
	check_ooo(c);
}
