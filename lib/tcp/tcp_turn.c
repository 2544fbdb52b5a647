/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The turn of a connection: the work that was put off. When buffers were released, the connections
 * that wait for room have their turns in the order of waiting.
 */

#include "tcp_conn.h"
#include "tcp_instance.h"
#include "tcp_life.h"
#include "tcp_math.h"
#include "tcp_snd.h"
#include "tcp_timer.h"
#include "weft_netif.h"

/** Does the connection's work that was put off to the end of the burst or to the next poll. */
static void
tcp_turn(struct weft_tcp_conn *c, uint64_t now_ns)
{
	uint8_t work = c->work;

	c->work = 0;
	tcp_hold(c);
	if (work & TCP_WORK_ABORT) {
		/* weft_tcp_close() in SYN-SENT: there is nothing to wait for. */
		tcp_conn_drop(c, -ECONNABORTED);
		goto out;
	}
	if (unlikely(work & TCP_WORK_MSS) && c->ops != NULL && c->ops->mss != NULL)
		c->ops->mss(c->user, c->mss);
	if (unlikely(c->dead))
		goto out;
	if (work & TCP_WORK_OUTPUT)
		tcp_output(c, now_ns);
	if (work & TCP_WORK_PROBE)
		tcp_pto_restart(c, now_ns);
	if (work & TCP_WORK_ACK && c->rcv_unacked_bytes != 0)
		tcp_send_ack(c, now_ns);
	tcp_tell_writable(c);
out:
	tcp_release(c);
}

void
tcp_task(struct weft_task *task, uint64_t now_ns)
{
	tcp_turn(container_of(task, struct weft_tcp_conn, task), now_ns);
}

/** After this many connections in a row found no room, the next ones would find none either. */
#define TCP_WAKE_VAIN 32
/** How often the waker looks for buffers that other threads have released. */
#define TCP_RETRY_NS (100 * WEFT_NS_PER_US)

/**
 * Plans the waker's next run when it found nothing for the waiting connections. It looks at a
 * non-empty queue of a port once a poll, at no cost: the worker polls anyway. Other threads use the
 * pool, too, and do not report what they release, so a timer looks again.
 */
static void
tcp_wake_later(struct weft_tcp *t, const struct weft_tcp_conn *first, uint64_t now_ns)
{
	if (weft_netif_tx_room(first->nif) < WEFT_NETIF_TXQ)
		weft_task_queue(t->sched, &t->waker);
	if (!t->retry.armed)
		weft_timer_arm(&t->sched->wheel, &t->retry, now_ns + TCP_RETRY_NS);
}

/**
 * Gives waiting connections a turn, in the order of waiting, after buffers were released. At most
 * as many have a turn as there is room for now. Others would be told of room that is taken before
 * they use it.
 */
void
tcp_wake(struct weft_task *task, uint64_t now_ns)
{
	struct weft_tcp *t = container_of(task, struct weft_tcp, waker);
	struct weft_tcp_conn *c = TAILQ_FIRST(&t->waiting);
	uint32_t n = t->nwaiting, vain = 0, room;

	if (c == NULL)
		return;
	room = weft_netif_tx_room(c->nif);
	if (!t->released && t->vain_room != UINT32_MAX && room <= t->vain_room) {
		tcp_wake_later(t, c, now_ns);
		return;
	}
	t->released = false;
	n = RTE_MIN(n, tcp_clamp(tcp_left(room, TCP_TX_SLACK), TCP_WAKE_VAIN, UINT32_MAX));
	for (; n > 0 && vain < TCP_WAKE_VAIN && (c = TAILQ_FIRST(&t->waiting)) != NULL; n--) {
		tcp_not_waiting(c);
		tcp_hold(c);
		tcp_turn(c, now_ns);
		vain = c->waiting ? vain + 1 : 0;
		tcp_release(c);
	}
	c = TAILQ_FIRST(&t->waiting);
	t->vain_room = c != NULL && vain > 0 ? weft_netif_tx_room(c->nif) : UINT32_MAX;
	if (c == NULL)
		return;
	if (vain > 0 && !t->released)
		tcp_wake_later(t, c, now_ns);
	else
		weft_task_queue(t->sched, &t->waker);
}

void
tcp_retry(struct weft_timer *timer, uint64_t now_ns)
{
	struct weft_tcp *t = container_of(timer, struct weft_tcp, retry);

	(void)now_ns;
	if (t->nwaiting > 0)
		tcp_released(t);
}
