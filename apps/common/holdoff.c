/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Addresses that failed, and how long they wait. */

#include "holdoff.h"

#include <netinet/in.h>
#include <string.h>

#include "addr.h"

static void
holdoff_host(const struct sockaddr_storage *a, uint8_t host[17])
{
	memset(host, 0, 17);
	host[0] = (uint8_t)a->ss_family;
	if (a->ss_family == AF_INET)
		memcpy(host + 1, &((const struct sockaddr_in *)a)->sin_addr, 4);
	else if (a->ss_family == AF_INET6)
		memcpy(host + 1, &((const struct sockaddr_in6 *)a)->sin6_addr,
		       addr_is_link_local(a) ? 16 : 8);
}

static struct holdoff_entry *
holdoff_find(struct holdoff *h, const uint8_t host[17])
{
	for (unsigned int i = 0; i < HOLDOFF_ENTRIES; i++)
		if (h->e[i].fails > 0 && memcmp(h->e[i].host, host, 17) == 0)
			return &h->e[i];
	return NULL;
}

/* A free one, else one whose time is over, else the one that would be soonest. */
static struct holdoff_entry *
holdoff_take(struct holdoff *h, uint64_t now_ns)
{
	struct holdoff_entry *e = &h->e[0];

	for (unsigned int i = 0; i < HOLDOFF_ENTRIES; i++) {
		struct holdoff_entry *k = &h->e[i];

		if (k->fails == 0) {
			atomic_fetch_add(&h->used, 1);
			return k;
		}
		if (k->until_ns < e->until_ns ||
		    (k->until_ns == e->until_ns && k->last_ns < e->last_ns))
			e = k;
	}
	if (now_ns < e->until_ns || now_ns - e->last_ns < HOLDOFF_FORGET_NS)
		atomic_fetch_add(&h->replaced, 1);
	return e;
}

bool
holdoff_held(struct holdoff *h, const struct sockaddr_storage *a, uint64_t now_ns)
{
	const struct holdoff_entry *e;
	uint8_t host[17];
	bool held;

	if (atomic_load(&h->used) == 0)
		return false;
	holdoff_host(a, host);
	pthread_mutex_lock(&h->lock);
	e = holdoff_find(h, host);
	held = e != NULL && now_ns < e->until_ns;
	pthread_mutex_unlock(&h->lock);
	if (held)
		atomic_fetch_add(&h->held, 1);
	return held;
}

void
holdoff_failed(struct holdoff *h, const struct sockaddr_storage *a, uint64_t now_ns)
{
	uint64_t wait_ns = HOLDOFF_FIRST_NS;
	struct holdoff_entry *e;
	uint8_t host[17];

	holdoff_host(a, host);
	pthread_mutex_lock(&h->lock);
	e = holdoff_find(h, host);
	if (e == NULL) {
		e = holdoff_take(h, now_ns);
		*e = (struct holdoff_entry){0};
		memcpy(e->host, host, sizeof(host));
	} else if (now_ns >= e->until_ns && now_ns - e->last_ns >= HOLDOFF_FORGET_NS) {
		e->fails = 0;
	}
	e->fails++;
	e->last_ns = now_ns;
	for (unsigned int i = HOLDOFF_FREE + 1; i < e->fails && wait_ns < HOLDOFF_MAX_NS; i++)
		wait_ns *= 2;
	if (e->fails > HOLDOFF_FREE)
		e->until_ns = now_ns + wait_ns;
	pthread_mutex_unlock(&h->lock);
}

void
holdoff_passed(struct holdoff *h, const struct sockaddr_storage *a)
{
	struct holdoff_entry *e;
	uint8_t host[17];

	if (atomic_load(&h->used) == 0)
		return;
	holdoff_host(a, host);
	pthread_mutex_lock(&h->lock);
	e = holdoff_find(h, host);
	if (e != NULL) {
		e->fails = 0;
		atomic_fetch_sub(&h->used, 1);
	}
	pthread_mutex_unlock(&h->lock);
}
