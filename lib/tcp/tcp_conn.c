/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Connections: their states, table and pool, their start and end, and what the layer above may read
 * of them.
 */

#include <rte_debug.h>
#include <rte_malloc.h>

#include "tcp_cc.h"
#include "tcp_conn.h"
#include "tcp_defend.h"
#include "tcp_hdr.h"
#include "tcp_instance.h"
#include "tcp_life.h"
#include "tcp_loss.h"
#include "tcp_math.h"
#include "tcp_pmtu.h"
#include "tcp_ports.h"
#include "tcp_rcv.h"
#include "tcp_share.h"
#include "tcp_snd.h"
#include "tcp_timer.h"
#include "weft_netif_addr.h"
#include "weft_netif_budget.h"
#include "weft_netif_neigh.h"
#include "weft_netif.h"

WEFT_LOG_REGISTER(tcp);

#define S(s) (1u << WEFT_TCP_##s)

/** RFC 9293 s3.3.2 figure 5. CLOSED may follow every state (reset, timeout, abort). */
const struct tcp_state_row tcp_states[WEFT_TCP_NSTATES] = {
        [WEFT_TCP_CLOSED] = {.name = "closed", .next = S(SYN_SENT) | S(SYN_RCVD)},
        [WEFT_TCP_SYN_SENT] = {.name = "syn-sent",
                               .next = S(CLOSED) | S(SYN_RCVD) | S(ESTABLISHED)},
        [WEFT_TCP_SYN_RCVD] = {.name = "syn-rcvd",
                               .next = S(CLOSED) | S(ESTABLISHED),
                               .synchronized = true,
                               .may_rcv = true},
        [WEFT_TCP_ESTABLISHED] = {.name = "established",
                                  .next = S(CLOSED) | S(FIN_WAIT_1) | S(CLOSE_WAIT),
                                  .synchronized = true,
                                  .may_send = true,
                                  .may_rcv = true},
        [WEFT_TCP_FIN_WAIT_1] = {.name = "fin-wait-1",
                                 .next = S(CLOSED) | S(FIN_WAIT_2) | S(CLOSING) | S(TIME_WAIT),
                                 .synchronized = true,
                                 .may_rcv = true},
        [WEFT_TCP_FIN_WAIT_2] = {.name = "fin-wait-2",
                                 .next = S(CLOSED) | S(TIME_WAIT),
                                 .synchronized = true,
                                 .may_rcv = true},
        [WEFT_TCP_CLOSE_WAIT] = {.name = "close-wait",
                                 .next = S(CLOSED) | S(LAST_ACK),
                                 .synchronized = true,
                                 .may_send = true},
        [WEFT_TCP_CLOSING] = {.name = "closing",
                              .next = S(CLOSED) | S(TIME_WAIT),
                              .synchronized = true},
        [WEFT_TCP_LAST_ACK] = {.name = "last-ack", .next = S(CLOSED), .synchronized = true},
        [WEFT_TCP_TIME_WAIT] = {.name = "time-wait", .next = S(CLOSED), .synchronized = true},
};

#undef S

const char *
weft_tcp_state_name(enum weft_tcp_state s)
{
	return (unsigned int)s < WEFT_TCP_NSTATES ? tcp_states[s].name : "?";
}

void
tcp_set_state(struct weft_tcp_conn *c, enum weft_tcp_state s)
{
	struct weft_tcp *t = c->t;

	RTE_ASSERT((tcp_states[c->state].next & 1u << s) != 0);
	WEFT_LOG(tcp, DEBUG, "port %u to %u: %s -> %s", c->local_port, c->remote_port,
	         tcp_states[c->state].name, tcp_states[s].name);
	if (c->state != WEFT_TCP_CLOSED)
		t->in_state[c->state]--;
	if (s != WEFT_TCP_CLOSED)
		t->in_state[s]++;
	if (c->state == WEFT_TCP_TIME_WAIT || s == WEFT_TCP_TIME_WAIT)
		tcp_port_count(t, TCP_PORT_TIME_WAIT, c->local_port,
		               s == WEFT_TCP_TIME_WAIT ? 1 : -1);
	c->state = (uint8_t)s;
}

/* ---- The table ---- */

struct weft_tcp_conn *
tcp_lookup(struct weft_tcp *t, uint64_t hash, const struct weft_ip *local, uint16_t local_port,
           const struct weft_ip *remote, uint16_t remote_port)
{
	struct weft_tcp_conn *c = t->buckets[hash & t->bucket_mask];

	while (c != NULL &&
	       !(c->hash == hash && c->local_port == local_port && c->remote_port == remote_port &&
	         weft_ip_eq(&c->remote, remote) && weft_ip_eq(&c->local, local)))
		c = c->hash_next;
	return c;
}

static void
tcp_table_add(struct weft_tcp_conn *c)
{
	struct weft_tcp_conn **b = &c->t->buckets[c->hash & c->t->bucket_mask];

	c->hash_next = *b;
	*b = c;
	c->in_table = true;
	tcp_port_count(c->t, TCP_PORT_CONN, c->local_port, 1);
}

static void
tcp_table_del(struct weft_tcp_conn *c)
{
	struct weft_tcp_conn **p = &c->t->buckets[c->hash & c->t->bucket_mask];

	if (!c->in_table)
		return;
	while (*p != c)
		p = &(*p)->hash_next;
	*p = c->hash_next;
	c->in_table = false;
	tcp_port_count(c->t, TCP_PORT_CONN, c->local_port, -1);
}

/* ---- Start and end of a connection ---- */

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
	if (work & TCP_WORK_ACK && c->rcv_unacked_bytes != 0)
		tcp_send_ack(c, now_ns);
	tcp_tell_writable(c);
out:
	tcp_release(c);
}

static void
tcp_task(struct weft_task *task, uint64_t now_ns)
{
	tcp_turn(container_of(task, struct weft_tcp_conn, task), now_ns);
}

void
tcp_work(struct weft_tcp_conn *c, uint8_t bits)
{
	if (unlikely(c->dead))
		return;
	c->work |= bits;
	weft_task_queue(c->t->sched, &c->task);
}

void
tcp_wait(struct weft_tcp_conn *c, uint8_t bits)
{
	struct weft_tcp *t = c->t;

	if (unlikely(c->dead))
		return;
	c->work |= bits;
	/* A connection whose task is queued will check for room by itself. */
	if (c->waiting || c->task.queued)
		return;
	c->waiting = true;
	t->nwaiting++;
	TAILQ_INSERT_TAIL(&t->waiting, c, wait_link);
	weft_task_queue(t->sched, &t->waker);
}

static void
tcp_not_waiting(struct weft_tcp_conn *c)
{
	if (!c->waiting)
		return;
	c->waiting = false;
	c->t->nwaiting--;
	TAILQ_REMOVE(&c->t->waiting, c, wait_link);
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
static void
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

static void
tcp_retry(struct weft_timer *timer, uint64_t now_ns)
{
	struct weft_tcp *t = container_of(timer, struct weft_tcp, retry);

	(void)now_ns;
	if (t->nwaiting > 0)
		tcp_released(t);
}

int
tcp_conn_new(struct weft_tcp *t, struct weft_netif *nif, const struct weft_ip *local,
             uint16_t local_port, const struct weft_ip *remote, uint16_t remote_port,
             struct weft_tcp_conn **out)
{
	struct tcp_share *share = tcp_share_of(t, nif);
	struct weft_neigh *neigh;
	struct weft_tcp_conn *c;
	int rc;

	if (share == NULL)
		return -ENOBUFS;
	if (TAILQ_EMPTY(&t->free) && !TAILQ_EMPTY(&t->time_wait)) {
		/* TIME-WAIT protects later connections; a new connection is more important. */
		t->stats.time_wait_evicted++;
		tcp_conn_free(TAILQ_FIRST(&t->time_wait));
	}
	c = TAILQ_FIRST(&t->free);
	if (c == NULL) {
		t->stats.conn_limit++;
		return -EMFILE;
	}
	rc = weft_netif_neigh_get(nif, remote, &neigh);
	if (rc != 0)
		return rc;
	TAILQ_REMOVE(&t->free, c, link);
	memset(c, 0, sizeof(*c));
	c->t = t;
	c->nif = nif;
	c->share = share;
	share->conns++;
	c->neigh = neigh;
	c->local = *local;
	c->remote = *remote;
	c->local_port = local_port;
	c->remote_port = remote_port;
	c->hash = tcp_tuple_hash(t, local, local_port, remote, remote_port);
	tcp_offer_init(c);
	tcp_pmtu_init(c);
	if (!t->attr.no_tso)
		c->tso = weft_netif_tso(nif, remote);
	c->rcv_mss = c->mss;
	c->rcv_wnd = RTE_MIN(t->rcv_wnd, (uint32_t)UINT16_MAX);
	c->keep_idle_us = t->attr.keepalive_us;
	c->keep_intvl_us = t->attr.keepalive_intvl_us;
	c->keep_probes = t->attr.keepalive_probes;
	c->last_rx_ns = t->sched->now_ns;
	weft_task_init(&c->task, tcp_task);
	tcp_timers_init(c);
	tcp_rtt_init(c);
	c->reo_mult = 1;
	c->tlp_sampled = true;
	weft_tcp_set_cc(c, WEFT_TCP_CC_DEFAULT);
	tcp_table_add(c);
	t->stats.conns_now++;
	*out = c;
	return 0;
}

static void
tcp_pool_put(struct weft_tcp_conn *c)
{
	TAILQ_INSERT_HEAD(&c->t->free, c, link);
}

void
tcp_conn_free(struct weft_tcp_conn *c)
{
	struct weft_tcp *t = c->t;

	if (c->dead)
		return;
	c->dead = true;
	if (c->state == WEFT_TCP_TIME_WAIT) {
		TAILQ_REMOVE(&t->time_wait, c, link);
		t->stats.time_wait_now--;
	}
	if (c->state != WEFT_TCP_CLOSED)
		tcp_set_state(c, WEFT_TCP_CLOSED);
	tcp_not_half_open(c);
	tcp_peer_uncount(c);
	tcp_timers_stop(c);
	weft_task_cancel(t->sched, &c->task);
	tcp_not_waiting(c);
	tcp_sq_free(c);
	tcp_reass_free(c);
	tcp_share_leave(c);
	c->share->conns--;
	tcp_table_del(c);
	weft_netif_neigh_put(c->nif, c->neigh);
	c->ops = NULL;
	if (--t->stats.conns_now == 0)
		weft_timer_cancel(&t->sched->wheel, &t->sweep);
	if (c->hold == 0)
		tcp_pool_put(c);
}

void
tcp_release(struct weft_tcp_conn *c)
{
	RTE_ASSERT(c->hold > 0);
	if (--c->hold == 0 && c->dead)
		tcp_pool_put(c);
}

void
tcp_detach(struct weft_tcp_conn *c, int err)
{
	const struct weft_tcp_conn_ops *ops = c->ops;

	if (c->detached)
		return;
	c->detached = true;
	c->ops = NULL;
	if (ops != NULL)
		c->t->stats.conns_closed++;
	if (ops != NULL && ops->closed != NULL)
		ops->closed(c->user, err);
}

void
tcp_conn_drop(struct weft_tcp_conn *c, int err)
{
	if (c->dead)
		return;
	tcp_hold(c);
	tcp_detach(c, err);
	tcp_conn_free(c);
	tcp_release(c);
}

void
tcp_established(struct weft_tcp_conn *c, const struct tcp_in *in, uint64_t now_ns)
{
	struct weft_tcp *t = c->t;
	struct weft_tcp_listener *l = c->listener;
	bool syn_lost = c->retries > 0;
	uint32_t rtt_us;

	tcp_set_state(c, WEFT_TCP_ESTABLISHED);
	if (c->rtt_unknown) {
		c->rto_us = tcp_clamp(t->attr.rto_initial_us, 0, t->attr.rto_max_us);
	} else if (!syn_lost) {
		tcp_rtt_sample(c, (uint32_t)((now_ns - c->syn_sent_ns) / WEFT_NS_PER_US));
		tcp_rack_min_rtt(c, now_ns - c->syn_sent_ns, now_ns);
	} else if (tcp_ts_rtt(c, in, now_ns, &rtt_us)) /* the echo tells which SYN was answered */
		tcp_rtt_sample(c, rtt_us);
	else /* RFC 6298 s5.7: after a lost SYN the RTO is 3 s, three times the first RTO */
		c->rto_us = tcp_clamp(3 * (uint64_t)t->attr.rto_initial_us, 0, t->attr.rto_max_us);
	c->retries = 0;
	c->backoff = 0;
	c->quick_acks = TCP_QUICK_ACKS;
	tcp_rto_stop(c);
	if (l != NULL && l->cc != WEFT_TCP_CC_DEFAULT)
		weft_tcp_set_cc(c, l->cc);
	tcp_cc_init(c, syn_lost);
	tcp_keepalive_restart(c, now_ns);
	if ((l != NULL && !tcp_make_share_room(t, c->nif, l, &c->remote)) || !tcp_share_join(c)) {
		t->stats.conns_no_buffers++;
		tcp_give_up(c, -ENOBUFS, now_ns);
		return;
	}
	if (l != NULL) {
		tcp_not_half_open(c);
		tcp_accept_count(t, now_ns);
		if (l->accept(l->arg, c) != 0) {
			if (!c->dead) {
				c->ops = NULL;
				t->stats.accept_refused++;
				weft_tcp_abort(c, now_ns);
			}
			return;
		}
		t->stats.conns_accepted++;
		return;
	}
	t->stats.conns_opened++;
	if (c->ops != NULL && c->ops->established != NULL)
		c->ops->established(c->user);
	if (!c->dead && c->close_asked)
		weft_tcp_close(c, now_ns);
}

/* ---- The TCP instance ---- */

int
weft_tcp_create(const struct weft_tcp_attr *attr, struct weft_sched *sched, struct weft_tcp **out)
{
	struct weft_tcp *t = rte_zmalloc("weft_tcp", sizeof(*t), RTE_CACHE_LINE_SIZE);
	struct weft_tcp_attr *a;
	uint32_t nbuckets;

	if (t == NULL)
		return -ENOMEM;
	a = &t->attr;
	if (attr != NULL)
		*a = *attr;
#define TCP_DEFAULT(field, value)                                                                  \
	do {                                                                                       \
		if (a->field == 0)                                                                 \
			a->field = (value);                                                        \
	} while (0)
	TCP_DEFAULT(max_conns, 1024);
	TCP_DEFAULT(rcv_buf_bytes, 1u << 20);
	TCP_DEFAULT(snd_buf_bytes, 4u << 20);
	/* The default of an attribute respects the attributes that are set. */
	TCP_DEFAULT(rto_max_us, 60000000);
	TCP_DEFAULT(rto_min_us, RTE_MIN(200000u, a->rto_max_us));
	TCP_DEFAULT(rto_initial_us, tcp_clamp(1000000, a->rto_min_us, a->rto_max_us));
	if (a->rto_initial_us < a->rto_min_us || a->rto_initial_us > a->rto_max_us ||
	    a->rto_min_us > a->rto_max_us) {
		WEFT_LOG(tcp, ERR,
		         "of the retransmission timeouts, the first (%u us) is not between the "
		         "least (%u us) and the greatest (%u us)",
		         a->rto_initial_us, a->rto_min_us, a->rto_max_us);
		rte_free(t);
		return -EINVAL;
	}
	TCP_DEFAULT(syn_retries, 7); /* RFC 9293 s3.8.3: R2 at least 3 min: 183 s */
	TCP_DEFAULT(data_retries, 8);
	TCP_DEFAULT(delack_us, 500);
	TCP_DEFAULT(time_wait_us, 1000000);
	TCP_DEFAULT(keepalive_intvl_us, RTE_MAX(a->keepalive_us / 3, 1u));
	TCP_DEFAULT(keepalive_probes, 3);
	TCP_DEFAULT(initial_cwnd_segs, 10);
	TCP_DEFAULT(user_timeout_us, 100000000); /* RFC 9293 s3.8.3: R2 at least 100 s */
	TCP_DEFAULT(max_snd_segs, 2048);
	TCP_DEFAULT(max_ooo_mbufs, 1024);
	TCP_DEFAULT(ooo_timeout_us, 30000000);
	TCP_DEFAULT(snd_stall_us, 30000000);
	TCP_DEFAULT(max_half_open, RTE_MAX(a->max_conns / 4, 1u));
	t->peer_default = a->max_conns_per_peer == 0;
	TCP_DEFAULT(
	        max_conns_per_peer,
	        tcp_clamp(a->max_conns / 2, RTE_MIN(TCP_PEER_CONNS_MIN, a->max_conns), UINT32_MAX));
	TCP_DEFAULT(max_time_wait, RTE_MAX(a->max_conns / 2, 1u));
	TCP_DEFAULT(challenge_acks_per_s, 1000);
	TCP_DEFAULT(resets_per_s, 1000);
	TCP_DEFAULT(fin_wait2_us, 60000000);
	TCP_DEFAULT(min_mss_bytes, 64);        /* a peer must not force tiny segments */
	TCP_DEFAULT(pmtu_raise_us, 600000000); /* RFC 1191 s6.3 */
	TCP_DEFAULT(blackhole_rtos, 3);
#undef TCP_DEFAULT
	/* The largest window that a scale of 14 can express and serial arithmetic can compare. */
	a->rcv_buf_bytes = RTE_MIN(a->rcv_buf_bytes, (uint32_t)UINT16_MAX << TCP_WSCALE_MAX);
	a->snd_buf_bytes = RTE_MIN(a->snd_buf_bytes, 1u << 30);
	a->max_conns = RTE_MIN(a->max_conns, 1u << 24);
	if (a->max_ooo_bytes == 0)
		a->max_ooo_bytes = a->rcv_buf_bytes;
	while (a->rcv_buf_bytes >> t->rcv_wscale > UINT16_MAX)
		t->rcv_wscale++;
	t->rcv_wnd = a->rcv_buf_bytes >> t->rcv_wscale << t->rcv_wscale;

	t->sched = sched;
	sched->rand.fill(sched->rand.arg, t->hash_key, sizeof(t->hash_key));
	sched->rand.fill(sched->rand.arg, t->isn_key, sizeof(t->isn_key));
	sched->rand.fill(sched->rand.arg, t->ts_key, sizeof(t->ts_key));
	sched->rand.fill(sched->rand.arg, t->cookie_key, sizeof(t->cookie_key));
	nbuckets = rte_align32pow2(2 * a->max_conns);
	t->bucket_mask = nbuckets - 1;
	t->buckets = rte_zmalloc("weft_tcp", nbuckets * sizeof(t->buckets[0]), RTE_CACHE_LINE_SIZE);
	t->conns = rte_zmalloc("weft_tcp", (size_t)a->max_conns * sizeof(t->conns[0]),
	                       RTE_CACHE_LINE_SIZE);
	if (t->buckets == NULL || t->conns == NULL || tcp_peers_create(t) != 0) {
		rte_free(t->buckets);
		rte_free(t->conns);
		rte_free(t);
		return -ENOMEM;
	}
	TAILQ_INIT(&t->free);
	TAILQ_INIT(&t->waiting);
	weft_task_init(&t->waker, tcp_wake);
	weft_timer_init(&t->retry, tcp_retry);
	t->vain_room = UINT32_MAX;
	tcp_share_init(t);
	TAILQ_INIT(&t->time_wait);
	TAILQ_INIT(&t->listeners);
	for (uint32_t i = 0; i < a->max_conns; i++) {
		t->conns[i].t = t;
		t->conns[i].dead = true;
		TAILQ_INSERT_TAIL(&t->free, &t->conns[i], link);
	}
	*out = t;
	return 0;
}

void
weft_tcp_destroy(struct weft_tcp *t)
{
	struct weft_tcp_listener *l;

	if (t == NULL)
		return;
	for (uint32_t i = 0; i < t->attr.max_conns; i++) {
		struct weft_tcp_conn *c = &t->conns[i];

		if (c->dead)
			continue;
		c->detached = false;
		c->ops = NULL;
		weft_tcp_abort(c, t->sched->now_ns);
	}
	while ((l = TAILQ_FIRST(&t->listeners)) != NULL) {
		TAILQ_REMOVE(&t->listeners, l, link);
		tcp_port_count(t, TCP_PORT_LISTENER, l->port, -1);
		rte_free(l);
	}
	tcp_peers_destroy(t);
	weft_task_cancel(t->sched, &t->waker);
	weft_timer_cancel(&t->sched->wheel, &t->retry);
	weft_timer_cancel(&t->sched->wheel, &t->sweep);
	rte_free(t->conns);
	rte_free(t->buckets);
	rte_free(t);
}

const struct weft_tcp_stats *
weft_tcp_stats(const struct weft_tcp *t)
{
	return &t->stats;
}

/* ---- Opening ---- */

int
tcp_open(struct weft_tcp *t, struct weft_netif *nif, uint16_t src_port, const struct weft_ip *dst,
         uint16_t dst_port, const struct weft_tcp_conn_ops *ops, void *user,
         struct weft_tcp_conn **out)
{
	uint64_t now_ns = t->sched->now_ns;
	struct weft_tcp_conn *c;
	int rc;

	rc = tcp_conn_new(t, nif, weft_netif_src(nif, dst), src_port, dst, dst_port, &c);
	if (rc != 0)
		return rc == -ENOBUFS ? -ENOMEM : rc;
	c->active = true;
	c->iss = tcp_isn(c, now_ns);
	c->snd_una = c->recover = c->rtt_seq = c->ts_rtt_seq = c->ece_recover = c->fack =
	        c->cwnd_used = c->iss;
	c->snd_nxt = c->snd_max = c->snd_end = c->iss + 1;
	weft_tcp_set_user(c, ops, user);
	tcp_set_state(c, WEFT_TCP_SYN_SENT);
	c->syn_sent_ns = c->syn_first_ns = now_ns;
	*out = c;
	tcp_send_syn(c, now_ns);
	tcp_rto_restart(c, now_ns);
	return 0;
}

int
weft_tcp_connect(struct weft_tcp *t, struct weft_netif *nif, const struct weft_ip *dst,
                 uint16_t dst_port, const struct weft_tcp_conn_ops *ops, void *user,
                 struct weft_tcp_conn **out)
{
	const struct weft_ip *src = weft_netif_src(nif, dst);
	int port;

	if (dst_port == 0 || src == NULL)
		return -EADDRNOTAVAIL;
	port = tcp_pick_port(t, nif, src, dst, dst_port);
	return port < 0 ? port : tcp_open(t, nif, (uint16_t)port, dst, dst_port, ops, user, out);
}

void
weft_tcp_set_user(struct weft_tcp_conn *c, const struct weft_tcp_conn_ops *ops, void *user)
{
	c->ops = ops;
	c->user = user;
}

/* ---- Queries ---- */

uint16_t
weft_tcp_mss(const struct weft_tcp_conn *c)
{
	return c->mss;
}

uint64_t
weft_tcp_moved_ns(const struct weft_tcp_conn *c)
{
	return RTE_MAX(c->last_text_ns, c->progress_ns);
}

struct weft_netif_budget *
weft_tcp_fpdu_budget(const struct weft_tcp_conn *c)
{
	return &weft_netif_budgets(c->nif)->fpdu;
}

void
weft_tcp_info(const struct weft_tcp_conn *c, struct weft_tcp_info *info)
{
	*info = (struct weft_tcp_info){
	        .state = c->state,
	        .local = c->local,
	        .remote = c->remote,
	        .local_port = c->local_port,
	        .remote_port = c->remote_port,
	        .srtt_us = c->srtt8_us / 8,
	        .rttvar_us = c->rttvar4_us / 4,
	        .rto_us = c->rto_us,
	        .cwnd_bytes = c->cwnd,
	        .ssthresh_bytes = c->ssthresh,
	        .snd_wnd_bytes = c->snd_wnd,
	        .rcv_wnd_bytes = c->rcv_wnd,
	        .unacked_bytes = c->snd_max - c->snd_una,
	        .queued_bytes = c->snd_end - c->snd_una,
	        .mss_bytes = c->mss,
	        .pmtu_bytes = c->pmtu_bytes,
	        .retrans_segs = c->n_retrans,
	        .rtos = c->n_rtos,
	        .snd_wscale = c->snd_wscale,
	        .rcv_wscale = c->rcv_wscale,
	        .timestamps = c->ts_ok,
	        .sack = c->sack_ok,
	        .ecn = c->ecn_ok,
	        .rcv_nxt = c->rcv_nxt,
	        .snd_una = c->snd_una,
	        .snd_nxt = c->snd_nxt,
	        .cc_name = c->cc->name,
	        .in_recovery = c->in_recovery || c->after_rto,
	        .dupacks_in = c->n_dupacks,
	        .sack_blocks_in = c->n_sack_blocks,
	        .segs_in = c->n_segs_in,
	        .segs_out = c->n_segs_out,
	        .bytes_in = c->n_bytes_in,
	        .bytes_out = c->n_bytes_out,
	        .ooo_segs = c->n_ooo_segs,
	        .dup_bytes_in = c->n_dup_bytes_in,
	        .fast_retrans = c->n_fast_retrans,
	        .tlp_probes = c->n_tlp,
	        .spurious_retrans = c->n_spurious,
	};
}
