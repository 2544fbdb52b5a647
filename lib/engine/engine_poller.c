/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Pollers: other sources of work, which a program adds to a worker. */

#include "engine_priv.h"

int
weft_poller_add(struct weft_worker *w, struct weft_poller *p)
{
	struct engine_pollers *ps;

	if (WEFT_HANDLE_BAD(w, WORKER) || p == NULL || p->poll == NULL || p->next_ns == NULL)
		return -EINVAL;
	if (weft_vworker_is_others(&w->v))
		return weft_wrong_thread(__func__);
	if (p->worker != NULL)
		return -EALREADY;
	ps = &w->pollers;
	if (ps->n == WEFT_POLLERS_MAX)
		return -ENOSPC;
	ps->poller[ps->n++] = p;
	p->worker = w;
	return 0;
}

void
weft_poller_remove(struct weft_poller *p)
{
	struct engine_pollers *ps;
	unsigned int i = 0;

	if (p == NULL || p->worker == NULL)
		return;
	if (weft_vworker_is_others(&p->worker->v)) {
		(void)weft_wrong_thread(__func__);
		return;
	}
	ps = &p->worker->pollers;
	while (i < ps->n && ps->poller[i] != p)
		i++;
	if (i == ps->n) /* a copy of one that was added */
		return;
	p->worker = NULL;
	ps->n--;
	memmove(&ps->poller[i], &ps->poller[i + 1], (ps->n - i) * sizeof(ps->poller[0]));
	/* Those behind it have moved; weft_engine_pollers_poll() goes on with the next one. */
	ps->end -= i < ps->end;
	ps->next -= i < ps->next;
}

unsigned int
weft_engine_pollers_poll(struct weft_worker *w, uint64_t now_ns)
{
	struct engine_pollers *ps = &w->pollers;
	unsigned int n = 0;

	if (ps->polled) /* a poller polls the worker */
		return 0;
	ps->polled = true;
	ps->end = ps->n;
	ps->next = 0;
	while (ps->next < ps->end) {
		const struct weft_poller *p = ps->poller[ps->next++];

		n += p->poll(p->arg, now_ns);
	}
	ps->next = ps->end = 0;
	ps->polled = false;
	return n;
}

uint64_t
weft_engine_pollers_next_ns(const struct weft_worker *w)
{
	uint64_t next_ns = UINT64_MAX;

	for (unsigned int i = 0; i < w->pollers.n; i++) {
		const struct weft_poller *p = w->pollers.poller[i];

		next_ns = RTE_MIN(next_ns, p->next_ns(p->arg));
	}
	return next_ns;
}

void
weft_engine_pollers_end(struct weft_worker *w)
{
	for (unsigned int i = 0; i < w->pollers.n; i++)
		w->pollers.poller[i]->worker = NULL;
	w->pollers.n = 0;
}
