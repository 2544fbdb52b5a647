/* SPDX-License-Identifier: BSD-3-Clause */
/** @file An instance of TCP: its creation, its end, its connections. */

#include <rte_malloc.h>

#include "tcp_conn.h"
#include "tcp_defend.h"
#include "tcp_instance.h"
#include "tcp_life.h"
#include "tcp_math.h"
#include "tcp_ports.h"
#include "tcp_share.h"

void
weft_tcp_change(struct weft_tcp *t, const struct weft_tcp_change *change)
{
	struct weft_tcp_attr *a = &t->attr;

	if (change->cc != WEFT_TCP_CC_DEFAULT)
		a->cc = change->cc;
	if (change->max_half_open != 0)
		a->max_half_open = change->max_half_open;
	if (change->max_time_wait != 0)
		a->max_time_wait = change->max_time_wait;
	if (change->max_accepts_per_s != 0)
		a->max_accepts_per_s =
		        change->max_accepts_per_s != UINT32_MAX ? change->max_accepts_per_s : 0;
	if (change->resets_per_s != 0)
		a->resets_per_s = change->resets_per_s;
	if (change->challenge_acks_per_s != 0)
		a->challenge_acks_per_s = change->challenge_acks_per_s;
}

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
	sched->rand.fill(sched->rand.arg, t->keys.isn, sizeof(t->keys.isn));
	sched->rand.fill(sched->rand.arg, t->keys.ts, sizeof(t->keys.ts));
	sched->rand.fill(sched->rand.arg, t->cookie_key, sizeof(t->cookie_key));
	if (a->ports != NULL)
		tcp_ports_keys(a->ports, &t->keys);
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
