/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Tables of addresses that failed to authenticate, and of their waiting times. */

#include "holdoff.h"

#include <netinet/in.h>
#include <string.h>

#include "addr.h"

#define HOST_BYTES 17
#define NET_BYTES  9 /* of these, family and /64 */

static void
holdoff_host(const struct sockaddr_storage *a, uint8_t host[HOST_BYTES])
{
	memset(host, 0, HOST_BYTES);
	host[0] = (uint8_t)a->ss_family;
	if (a->ss_family == AF_INET)
		memcpy(host + 1, &((const struct sockaddr_in *)a)->sin_addr, 4);
	else if (a->ss_family == AF_INET6)
		memcpy(host + 1, &((const struct sockaddr_in6 *)a)->sin6_addr, 16);
}

/* The address's /64, or the common prefix of link-local addresses; the rest of net is zero. */
static void
holdoff_net(const uint8_t host[HOST_BYTES], uint8_t net[HOST_BYTES])
{
	memset(net, 0, HOST_BYTES);
	memcpy(net, host, NET_BYTES);
	if (host[0] == AF_INET6 && host[1] == 0xfe && (host[2] & 0xc0) == 0x80) {
		memset(net + 2, 0, NET_BYTES - 2);
		net[2] = 0x80;
	}
}

static bool
holdoff_has_net(const struct sockaddr_storage *a)
{
	return a->ss_family == AF_INET6;
}

static struct holdoff_entry *
holdoff_find(struct holdoff_entry *e, unsigned int n, const uint8_t host[HOST_BYTES])
{
	for (unsigned int i = 0; i < n; i++)
		if (e[i].fails > 0 && memcmp(e[i].host, host, HOST_BYTES) == 0)
			return &e[i];
	return NULL;
}

static bool
holdoff_sooner(const struct holdoff_entry *a, const struct holdoff_entry *b)
{
	return a->until_ns < b->until_ns || (a->until_ns == b->until_ns && a->last_ns < b->last_ns);
}

/*
 * Take an entry for host: of its own /64 when that has filled its part of the table; else a free
 * one, one whose time is over, or the one whose time ends first.
 */
static struct holdoff_entry *
holdoff_take(struct holdoff_entry *e, unsigned int n, const uint8_t host[HOST_BYTES], bool has_net)
{
	uint8_t net[HOST_BYTES], its[HOST_BYTES];
	struct holdoff_entry *any = &e[0], *own = NULL;
	unsigned int nown = 0;

	holdoff_net(host, net);
	for (unsigned int i = 0; i < n; i++) {
		struct holdoff_entry *k = &e[i];

		holdoff_net(k->host, its);
		if (k->fails > 0 && has_net && memcmp(its, net, HOST_BYTES) == 0) {
			nown++;
			if (own == NULL || holdoff_sooner(k, own))
				own = k;
		}
		if (any->fails > 0 && (k->fails == 0 || holdoff_sooner(k, any)))
			any = k;
	}
	return nown >= HOLDOFF_NET_PART ? own : any;
}

static struct holdoff_entry *
holdoff_make(struct holdoff *h, struct holdoff_entry *e, unsigned int n,
             const uint8_t host[HOST_BYTES], bool has_net, uint64_t now_ns)
{
	struct holdoff_entry *k = holdoff_take(e, n, host, has_net);

	if (k->fails == 0)
		atomic_fetch_add_explicit(&h->used, 1, memory_order_relaxed);
	else if (now_ns < k->until_ns || now_ns - k->last_ns < HOLDOFF_FORGET_NS)
		atomic_fetch_add_explicit(&h->replaced, 1, memory_order_relaxed);
	*k = (struct holdoff_entry){0};
	memcpy(k->host, host, HOST_BYTES);
	return k;
}

static void
holdoff_count(struct holdoff_entry *e, unsigned int free, uint64_t max_ns, uint64_t now_ns)
{
	uint64_t wait_ns = HOLDOFF_FIRST_NS;

	if (e->fails > 0 && now_ns >= e->until_ns && now_ns - e->last_ns >= HOLDOFF_FORGET_NS)
		e->fails = 0;
	e->fails++;
	e->last_ns = now_ns;
	for (unsigned int i = free + 1; i < e->fails && wait_ns < max_ns; i++)
		wait_ns *= 2;
	if (e->fails > free)
		e->until_ns = now_ns + wait_ns;
}

/* Whether the address's /64 has failed too often and the address did not pass lately. */
static bool
holdoff_net_held(struct holdoff *h, const uint8_t host[HOST_BYTES], uint64_t now_ns)
{
	const struct holdoff_entry *e, *p;
	uint8_t net[HOST_BYTES];

	holdoff_net(host, net);
	e = holdoff_find(h->net, HOLDOFF_NETS, net);
	if (e == NULL || now_ns >= e->until_ns)
		return false;
	p = holdoff_find(h->passed, HOLDOFF_PASSED, host);
	return p == NULL || now_ns - p->last_ns >= HOLDOFF_LATELY_NS;
}

bool
holdoff_held(struct holdoff *h, const struct sockaddr_storage *a, uint64_t now_ns)
{
	const struct holdoff_entry *e;
	uint8_t host[HOST_BYTES];
	bool held, net;

	if (atomic_load_explicit(&h->used, memory_order_relaxed) == 0)
		return false;
	holdoff_host(a, host);
	pthread_mutex_lock(&h->lock);
	e = holdoff_find(h->e, HOLDOFF_ENTRIES, host);
	held = e != NULL && now_ns < e->until_ns;
	net = !held && holdoff_has_net(a) && holdoff_net_held(h, host, now_ns);
	pthread_mutex_unlock(&h->lock);
	if (held || net)
		atomic_fetch_add_explicit(&h->held, 1, memory_order_relaxed);
	if (net)
		atomic_fetch_add_explicit(&h->held_net, 1, memory_order_relaxed);
	return held || net;
}

void
holdoff_failed(struct holdoff *h, const struct sockaddr_storage *a, uint64_t now_ns)
{
	uint8_t host[HOST_BYTES], net[HOST_BYTES];
	bool has_net = holdoff_has_net(a);
	struct holdoff_entry *e;

	holdoff_host(a, host);
	holdoff_net(host, net);
	pthread_mutex_lock(&h->lock);
	e = holdoff_find(h->e, HOLDOFF_ENTRIES, host);
	if (e == NULL)
		e = holdoff_make(h, h->e, HOLDOFF_ENTRIES, host, has_net, now_ns);
	holdoff_count(e, HOLDOFF_FREE, HOLDOFF_MAX_NS, now_ns);
	/* One address can use up only a little of its neighbours' common budget, however often
	 * it fails. */
	if (has_net && e->fails <= HOLDOFF_FREE + 1) {
		e = holdoff_find(h->net, HOLDOFF_NETS, net);
		if (e == NULL)
			e = holdoff_make(h, h->net, HOLDOFF_NETS, net, false, now_ns);
		holdoff_count(e, HOLDOFF_NET_FREE, HOLDOFF_NET_MAX_NS, now_ns);
	}
	pthread_mutex_unlock(&h->lock);
}

void
holdoff_passed(struct holdoff *h, const struct sockaddr_storage *a, uint64_t now_ns)
{
	struct holdoff_entry *e;
	uint8_t host[HOST_BYTES];

	holdoff_host(a, host);
	pthread_mutex_lock(&h->lock);
	e = holdoff_find(h->e, HOLDOFF_ENTRIES, host);
	if (e != NULL) {
		e->fails = 0;
		atomic_fetch_sub_explicit(&h->used, 1, memory_order_relaxed);
	}
	if (holdoff_has_net(a)) { /* else there is nothing to be exempt from */
		e = holdoff_find(h->passed, HOLDOFF_PASSED, host);
		if (e == NULL)
			e = holdoff_take(h->passed, HOLDOFF_PASSED, host, true);
		*e = (struct holdoff_entry){.fails = 1, .last_ns = now_ns};
		memcpy(e->host, host, HOST_BYTES);
	}
	pthread_mutex_unlock(&h->lock);
}
