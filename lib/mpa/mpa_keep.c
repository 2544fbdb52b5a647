/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Incomplete FPDUs: their memory, and which stream ends without memory. */

#include <stdlib.h>

#include "mpa_held.h"
#include "mpa_priv.h"
#include "weft_netif_budget.h"

/** First size of m->compact: large enough for an FPDU of a small MTU without a second copy. */
#define MPA_COMPACT_MIN_BYTES 2048u

void
weft_mpa_keep_init(struct weft_mpa_keep *k, uint64_t heap_max_bytes)
{
	memset(k, 0, sizeof(*k));
	k->heap_max_bytes = heap_max_bytes != 0 ? heap_max_bytes : WEFT_MPA_KEEP_HEAP_BYTES;
	TAILQ_INIT(&k->held);
}

/* ---- The heap ---- */

/** Charge `bytes` to the worker's heap budget for this connection, instead of m->keep_bytes. */
static void
mpa_keep_set(struct weft_mpa *m, uint32_t bytes)
{
	struct weft_mpa_keep *k = mpa_keep(m);

	if (k == NULL || bytes == m->keep_bytes)
		return;
	if (m->keep_bytes == 0)
		TAILQ_INSERT_TAIL(&k->held, m, keep_link);
	else if (bytes == 0)
		TAILQ_REMOVE(&k->held, m, keep_link);
	k->heap_bytes += bytes;
	k->heap_bytes -= m->keep_bytes;
	m->keep_bytes = bytes;
}

void
weft_mpa_keep_drop(struct weft_mpa *m)
{
	weft_mpa_free_chain(m->held_head);
	m->held_head = m->held_tail = NULL;
	m->held_bytes = m->held_segs = 0;
	if (m->lent_segs > 0)
		weft_mpa_unlend(m);
	free(m->compact);
	m->compact = NULL;
	m->compact_bytes = m->compact_size_bytes = 0;
	m->waits = false;
	if (m->keep_bytes > 0)
		mpa_keep_set(m, 0);
}

/** Free the memory of v for other streams. v's stream ends in a turn of its own. */
static void
mpa_shed(struct weft_mpa *v)
{
	mpa_keep(v)->shed++;
	v->stats.fpdus_shed++;
	WEFT_LOG_PEER(mpa, WARNING,
	              "stream ended: no memory left for its incomplete FPDU, the longest silent");
	v->rx_dead = true;
	v->shed = true;
	weft_mpa_keep_drop(v);
	weft_task_queue(v->sched, &v->drain_task);
}

/** Make room for `more` octets in the heap budget, from streams other than m. False: impossible. */
static bool
mpa_keep_room(struct weft_mpa *m, uint32_t more)
{
	struct weft_mpa_keep *k = mpa_keep(m);
	struct weft_mpa *v;

	while (k->heap_bytes + more > k->heap_max_bytes) {
		TAILQ_FOREACH (v, &k->held, keep_link)
			if (v != m && v->drain == NULL)
				break;
		if (v == NULL)
			return false;
		if (v->waits)
			mpa_shed(v);
		else
			weft_mpa_keep_drop(v); /* the buffer holds no incomplete FPDU */
	}
	return true;
}

static int
mpa_grow(struct weft_mpa *m, uint32_t bytes)
{
	uint32_t size, own;
	uint8_t *p;

	size = rte_align32pow2(RTE_MAX(bytes, MPA_COMPACT_MIN_BYTES));
	if (size > MPA_FPDU_MAX_RAW_BYTES / 2)
		size = MPA_FPDU_MAX_RAW_BYTES; /* no further growth for the last few octets */
	own = size > WEFT_MPA_KEEP_OWN_BYTES ? size - WEFT_MPA_KEEP_OWN_BYTES : 0;
	if (mpa_keep(m) != NULL && own > m->keep_bytes && !mpa_keep_room(m, own - m->keep_bytes))
		return -ENOMEM;
	p = realloc(m->compact, size);
	if (p == NULL)
		return -ENOMEM;
	m->compact = p;
	m->compact_size_bytes = size;
	mpa_keep_set(m, own);
	return 0;
}

int
weft_mpa_compact(struct weft_mpa *m, uint32_t n)
{
	if (m->compact_bytes + n > m->compact_size_bytes && mpa_grow(m, m->compact_bytes + n) < 0)
		return -ENOMEM;
	if (mpa_keep(m) != NULL)
		mpa_keep(m)->moved++;
	weft_mpa_watch_arm(m);
	m->compact_used = true;
	weft_mpa_take(m, m->compact + m->compact_bytes, n);
	m->compact_bytes += n;
	return 0;
}

/* ---- Time ---- */

void
weft_mpa_watch_arm(struct weft_mpa *m)
{
	if (!m->startup.armed)
		weft_timer_arm(&m->sched->wheel, &m->startup, m->sched->now_ns + MPA_WATCH_NS);
}

void
weft_mpa_wait_begin(struct weft_mpa *m)
{
	uint64_t now_ns = m->sched->now_ns;

	if (!m->waits) {
		m->waits = true;
		m->begun_ns = now_ns;
	}
	m->got_ns = now_ns;
	if (m->keep_bytes > 0) {
		TAILQ_REMOVE(&mpa_keep(m)->held, m, keep_link);
		TAILQ_INSERT_TAIL(&mpa_keep(m)->held, m, keep_link);
	}
	weft_mpa_watch_arm(m);
}
