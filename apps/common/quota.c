/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Shares of clients in what a target grants. */

#include "quota.h"

#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "addr.h"

#define QUOTA_BUCKETS 1024
#define NS_PER_S      1000000000ULL

struct quota_client {
	LIST_ENTRY(quota_client) link;
	TAILQ_ENTRY(quota_client) idle; /**< in quota.idle while grants is 0 */
	struct quota_id id;
	uint32_t grants;
	uint64_t full_ns; /**< when its bucket will be full */
};

struct quota {
	struct quota_attr a;
	pthread_mutex_t lock;
	LIST_HEAD(, quota_client) bucket[QUOTA_BUCKETS];
	TAILQ_HEAD(, quota_client)
	idle; /**< the one that became idle, or asked in vain, last is last */
	uint32_t nidle;
	uint64_t asked_ns; /**< the last OPEN */
	struct quota_stats s;
};

void
quota_id(struct quota_id *id, const char *name, const struct sockaddr_storage *peer)
{
	memset(id, 0, sizeof(*id));
	if (name != NULL) {
		id->octets[0] = '=';
		id->bytes = (uint8_t)(1 + strnlen(name, QUOTA_ID_MAX - 1));
		memcpy(id->octets + 1, name, id->bytes - 1U);
		return;
	}
	if (peer->ss_family == AF_INET) {
		id->octets[0] = '4';
		id->bytes = 1 + 4;
		memcpy(id->octets + 1, &((const struct sockaddr_in *)peer)->sin_addr, 4);
		return;
	}
	id->octets[0] = '6';
	id->bytes = (uint8_t)(1 + addr_net6(peer, id->octets + 1));
}

int
quota_create(const struct quota_attr *attr, struct quota **out)
{
	struct quota *q = calloc(1, sizeof(*q));

	if (q == NULL)
		return -ENOMEM;
	q->a = *attr;
	q->s.grants_max = attr->grants;
	pthread_mutex_init(&q->lock, NULL);
	TAILQ_INIT(&q->idle);
	*out = q;
	return 0;
}

/* ---- Clients; under the lock ---- */

static unsigned int
quota_hash(const struct quota *q, const struct quota_id *id)
{
	uint64_t h = q->a.key[0], w;

	/* Two multiplications of 64 by 64 bits for each 8 octets; both factors depend on the key.
	 */
	for (unsigned int i = 0; i < QUOTA_ID_MAX; i += 8) {
		unsigned __int128 p;

		memcpy(&w, id->octets + i, 8);
		p = (unsigned __int128)(h ^ w) * (q->a.key[1] | 1);
		h = (uint64_t)(p >> 64) ^ (uint64_t)p;
	}
	return (unsigned int)(h ^ h >> 32) % QUOTA_BUCKETS;
}

static void
quota_forget(struct quota *q, struct quota_client *c)
{
	TAILQ_REMOVE(&q->idle, c, idle);
	q->nidle--;
	q->s.clients--;
	LIST_REMOVE(c, link);
	free(c);
}

static void
quota_idle(struct quota *q, struct quota_client *c)
{
	TAILQ_INSERT_TAIL(&q->idle, c, idle);
	q->nidle++;
}

/** Those of which nothing is to be remembered: a few at each call, and what is too many. */
static void
quota_prune(struct quota *q, uint64_t now_ns)
{
	struct quota_client *c;

	for (int i = 0; i < 4 && (c = TAILQ_FIRST(&q->idle)) != NULL && c->full_ns <= now_ns; i++)
		quota_forget(q, c);
	while (q->nidle > QUOTA_IDLE_MAX) {
		c = TAILQ_FIRST(&q->idle);
		q->s.forgotten += c->full_ns > now_ns;
		quota_forget(q, c);
	}
}

static struct quota_client *
quota_find(struct quota *q, const struct quota_id *id)
{
	unsigned int b = quota_hash(q, id);
	struct quota_client *c;

	LIST_FOREACH (c, &q->bucket[b], link)
		if (c->id.bytes == id->bytes && memcmp(c->id.octets, id->octets, id->bytes) == 0)
			return c;
	c = calloc(1, sizeof(*c));
	if (c == NULL)
		return NULL;
	c->id = *id;
	LIST_INSERT_HEAD(&q->bucket[b], c, link);
	quota_idle(q, c);
	q->s.clients++;
	return c;
}

/** One OPEN of its bucket; false: it is empty. */
static bool
quota_token(const struct quota *q, struct quota_client *c, uint64_t now_ns)
{
	uint64_t one_ns, full_ns = c->full_ns > now_ns ? c->full_ns : now_ns;

	if (q->a.opens_per_s == 0)
		return true;
	one_ns = NS_PER_S / q->a.opens_per_s;
	if (full_ns + one_ns > now_ns + NS_PER_S)
		return false;
	c->full_ns = full_ns + one_ns;
	return true;
}

static bool
quota_named(const struct quota_client *c)
{
	return c->id.octets[0] == '=';
}

/** Whether what is left is for others: for clients with a name, or for those that have less. */
static bool
quota_is_full(const struct quota *q, const struct quota_client *c)
{
	uint32_t left = q->a.grants - q->s.grants, of = q->a.for_named;

	if (!quota_named(c) || of == 0) {
		of = q->a.grants - q->a.for_named;
		left = left < of - q->s.strangers ? left : of - q->s.strangers;
	}
	return left == 0 || (c->grants >= QUOTA_SURE && left <= of / 4);
}

/* ---- From outside ---- */

int
quota_open(struct quota *q, const struct quota_id *id, uint64_t now_ns, struct quota_client **out)
{
	struct quota_client *c;
	int rc = 0;

	pthread_mutex_lock(&q->lock);
	q->s.opens++;
	q->asked_ns = now_ns;
	quota_prune(q, now_ns);
	c = quota_find(q, id);
	if (c == NULL) {
		rc = -ENOMEM;
	} else if (!quota_token(q, c, now_ns)) {
		q->s.opens_limited++;
		rc = -EBUSY;
	} else if (c->grants >= q->a.grants_per_client) {
		q->s.refused_client++;
		rc = -EDQUOT;
	} else if (quota_is_full(q, c)) {
		q->s.refused_all++;
		rc = -ENOSPC;
	}
	if (c != NULL && c->grants == 0) {
		TAILQ_REMOVE(&q->idle, c, idle);
		q->nidle--;
		if (rc != 0)
			quota_idle(q, c);
	}
	if (rc == 0) {
		c->grants++;
		q->s.grants++;
		q->s.strangers += !quota_named(c);
		*out = c;
	}
	pthread_mutex_unlock(&q->lock);
	return rc;
}

void
quota_close(struct quota *q, struct quota_client *c)
{
	pthread_mutex_lock(&q->lock);
	q->s.grants--;
	q->s.strangers -= !quota_named(c);
	if (--c->grants == 0) {
		quota_idle(q, c);
		/* Nothing of it is to be remembered: many that leave at once leave nothing behind.
		 */
		if (c->full_ns <= q->asked_ns)
			quota_forget(q, c);
	}
	pthread_mutex_unlock(&q->lock);
}

void
quota_stats(struct quota *q, struct quota_stats *s)
{
	pthread_mutex_lock(&q->lock);
	*s = q->s;
	pthread_mutex_unlock(&q->lock);
}

void
quota_destroy(struct quota *q)
{
	struct quota_client *c;

	if (q == NULL)
		return;
	while ((c = TAILQ_FIRST(&q->idle)) != NULL)
		quota_forget(q, c);
	pthread_mutex_destroy(&q->lock);
	free(q);
}
