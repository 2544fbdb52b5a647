/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The end of connections: CLOSE and ABORT by the layer above, FIN-WAIT-2, TIME-WAIT. */

#include "tcp_conn.h"
#include "tcp_defend.h"
#include "tcp_hdr.h"
#include "tcp_instance.h"
#include "tcp_life.h"
#include "tcp_share.h"
#include "tcp_snd.h"
#include "tcp_timer.h"

/* ---- Closing ---- */

void
weft_tcp_close(struct weft_tcp_conn *c, uint64_t now_ns)
{
	if (c->dead || c->detached || c->fin_out)
		return;
	switch (c->state) {
	case WEFT_TCP_SYN_SENT:
		tcp_rto_stop(c);
		tcp_work(c, TCP_WORK_ABORT);
		return;
	case WEFT_TCP_SYN_RCVD: /* RFC 9293 s3.10.4: after entering ESTABLISHED */
		c->close_asked = true;
		return;
	case WEFT_TCP_ESTABLISHED:
		tcp_set_state(c, WEFT_TCP_FIN_WAIT_1);
		break;
	case WEFT_TCP_CLOSE_WAIT:
		tcp_set_state(c, WEFT_TCP_LAST_ACK);
		break;
	default:
		return;
	}
	c->fin_out = true;
	c->starved = false;
	if (c->sq_head == NULL)
		tcp_progress_begin(c, now_ns);
	tcp_hold(c);
	tcp_output(c, now_ns);
	tcp_release(c);
}

/** RFC 9293 s3.10.5: whether ABORT sends a RST. */
static bool
tcp_abort_resets(const struct weft_tcp_conn *c)
{
	switch (c->state) {
	case WEFT_TCP_CLOSED:
	case WEFT_TCP_SYN_SENT:
	case WEFT_TCP_TIME_WAIT:
		return false;
	case WEFT_TCP_CLOSING:
	case WEFT_TCP_LAST_ACK:
		/* The RFC enters these states when the FIN is sent. weft enters them when the user
		 * closes, and data may still be queued before the FIN. */
		return !tcp_fin_sent(c);
	default:
		return true;
	}
}

void
weft_tcp_abort(struct weft_tcp_conn *c, uint64_t now_ns)
{
	if (c->dead || (c->detached && c->state != WEFT_TCP_TIME_WAIT))
		return;
	if (tcp_abort_resets(c)) {
		if (tcp_send_ctl(c, TCP_RST | TCP_ACK, tcp_ctl_seq(c), now_ns))
			c->t->stats.resets_out++;
	}
	if (c->ops != NULL)
		c->t->stats.conns_closed++;
	c->detached = true;
	c->ops = NULL;
	tcp_conn_free(c);
}

void
weft_tcp_netif_removed(struct weft_tcp *t, const struct weft_netif *nif)
{
	for (uint32_t i = 0; i < t->attr.max_conns; i++)
		if (t->conns[i].nif == nif)
			tcp_conn_drop(&t->conns[i], -ENODEV);
}

void
tcp_fin_wait_2(struct weft_tcp_conn *c)
{
	tcp_set_state(c, WEFT_TCP_FIN_WAIT_2);
	tcp_life_restart(c);
}

/* ---- TIME-WAIT ---- */

void
tcp_time_wait(struct weft_tcp_conn *c, uint64_t now_ns)
{
	struct weft_tcp *t = c->t;

	/* Two: the limit may have become smaller, and is then reached little by little. */
	for (unsigned int i = 0; i < 2 && t->stats.time_wait_now >= t->attr.max_time_wait; i++) {
		t->stats.time_wait_evicted++;
		tcp_conn_free(TAILQ_FIRST(&t->time_wait));
	}
	tcp_set_state(c, WEFT_TCP_TIME_WAIT);
	tcp_share_leave(c);
	t->stats.time_wait_now++;
	TAILQ_INSERT_TAIL(&t->time_wait, c, link);
	tcp_peer_uncount(c);
	tcp_timers_stop(c);
	tcp_timer_set(c, &c->t_life, now_ns + t->attr.time_wait_us * WEFT_NS_PER_US);
	tcp_hold(c);
	tcp_detach(c, 0);
	tcp_release(c);
}
