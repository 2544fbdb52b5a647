/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The receiver's side of selective acknowledgment: the blocks to report (RFC 2018 s4) and the
 * octets that arrived twice (RFC 2883).
 *
 * The last few blocks that changed are kept, newest first. Each is a whole run without gaps in the
 * list of tcp_reass.c. A run whose block is no longer kept is measured in that list again when it
 * changes. Queued octets are dropped only when others need the buffers or when their gap stays too
 * long (tcp_share.c; RFC 2018 s8 permits it). After that no block reports them.
 */

#include "tcp_conn.h"
#include "tcp_rcv.h"
#include "tcp_instance.h"

static void
tcp_sack_drop(struct weft_tcp_conn *c, unsigned int i)
{
	c->nsack--;
	memmove(&c->sack[i], &c->sack[i + 1], (c->nsack - i) * sizeof(c->sack[0]));
}

/** The kept block that contains m; NULL: none. */
static const struct tcp_sack *
tcp_sack_of(const struct weft_tcp_conn *c, struct rte_mbuf *m)
{
	const struct tcp_ooo *o = tcp_ooo(m);

	for (unsigned int i = 0; i < c->nsack; i++)
		if (weft_seq_leq(c->sack[i].left, o->seq) &&
		    weft_seq_leq(o->seq + o->len_bytes, c->sack[i].right))
			return &c->sack[i];
	return NULL;
}

/**
 * The left edge of m's run, from a kept block or from the list. A run too long for the walk is
 * reported in part. The peer chooses its segments, and no segment may cost a walk along a thousand
 * pieces.
 */
static uint32_t
tcp_sack_left(const struct weft_tcp_conn *c, struct rte_mbuf *m)
{
	const struct tcp_ooo *o = tcp_ooo(m);

	for (unsigned int k = 0; o->prev != NULL && k < TCP_REASS_STEPS; k++, c->t->ooo_steps++) {
		const struct tcp_ooo *p = tcp_ooo(o->prev);

		if (p->seq + p->len_bytes != o->seq)
			break;
		for (unsigned int i = 0; i < c->nsack; i++)
			if (c->sack[i].right == o->seq)
				return c->sack[i].left;
		o = p;
	}
	return o->seq;
}

static uint32_t
tcp_sack_right(const struct weft_tcp_conn *c, struct rte_mbuf *m)
{
	const struct tcp_ooo *o = tcp_ooo(m);

	for (unsigned int k = 0; o->next != NULL && k < TCP_REASS_STEPS; k++, c->t->ooo_steps++) {
		const struct tcp_ooo *n = tcp_ooo(o->next);
		uint32_t end = o->seq + o->len_bytes;

		if (n->seq != end)
			break;
		for (unsigned int i = 0; i < c->nsack; i++)
			if (c->sack[i].left == end)
				return c->sack[i].right;
		o = n;
	}
	return o->seq + o->len_bytes;
}

void
tcp_sack_note(struct weft_tcp_conn *c, struct rte_mbuf *m)
{
	const struct tcp_sack *kept;
	struct tcp_sack run;

	if (!c->sack_ok)
		return;
	kept = tcp_sack_of(c, m);
	if (kept != NULL) {
		run = *kept;
	} else {
		run.left = tcp_sack_left(c, m);
		run.right = tcp_sack_right(c, m);
	}
	for (unsigned int i = 0; i < c->nsack;) {
		/* A block that touches the run belongs to it. */
		if (weft_seq_leq(run.left, c->sack[i].right) &&
		    weft_seq_leq(c->sack[i].left, run.right)) {
			if (weft_seq_lt(c->sack[i].left, run.left))
				run.left = c->sack[i].left;
			run.right = weft_seq_max(run.right, c->sack[i].right);
			tcp_sack_drop(c, i);
			i = 0;
		} else {
			i++;
		}
	}
	if (c->nsack == TCP_SACK_MAX)
		c->nsack--;
	memmove(&c->sack[1], &c->sack[0], c->nsack * sizeof(c->sack[0]));
	c->sack[0] = run;
	c->nsack++;
}

void
tcp_sack_prune(struct weft_tcp_conn *c)
{
	for (unsigned int i = 0; i < c->nsack;) {
		if (weft_seq_leq(c->sack[i].right, c->rcv_nxt))
			tcp_sack_drop(c, i);
		else
			i++;
	}
}

void
tcp_sack_cut(struct weft_tcp_conn *c, uint32_t end)
{
	for (unsigned int i = 0; i < c->nsack;) {
		if (weft_seq_leq(end, c->sack[i].left)) {
			tcp_sack_drop(c, i);
			continue;
		}
		if (weft_seq_lt(end, c->sack[i].right))
			c->sack[i].right = end;
		i++;
	}
}

void
tcp_dsack_note(struct weft_tcp_conn *c, uint32_t left, uint32_t right)
{
	if (!c->sack_ok || !weft_seq_lt(left, right))
		return;
	/* Duplicates that follow each other within a burst are one block. */
	if (c->dsack_due && left == c->dsack.right) {
		c->dsack.right = right;
		return;
	}
	c->dsack = (struct tcp_sack){.left = left, .right = right};
	c->dsack_due = true;
}
