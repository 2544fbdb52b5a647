/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Counts each client's share of a target's grants and OPENs. */

#include "quota.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "addr.h"

#define QUOTA_BUCKETS 1024
#define NS_PER_S      1000000000ULL

TAILQ_HEAD(quota_clients, quota_client);

/** A client, which is a name or an address; or a /64. */
struct quota_client {
	LIST_ENTRY(quota_client) link;
	TAILQ_ENTRY(quota_client) idle; /**< in quota.idle while grants and members are 0 */
	struct quota_id id;
	uint32_t grants;
	uint64_t full_ns; /**< when its bucket will be full */
	/* of an address */
	struct quota_client *net; /**< its /64; NULL: it has none */
	uint64_t sure_ns;         /**< when its bucket of QUOTA_SURE a second will be full */
	TAILQ_ENTRY(quota_client) net_idle; /**< in idlers of net, while it is in quota.idle */
	/* of a /64; its grants are those of its members */
	uint32_t members;
	uint32_t going; /**< grants of displaced connections */
	uint32_t lent;  /**< grants that may be given in place of a displaced connection's */
	uint32_t nidlers;
	struct quota_clients idlers; /**< members that are idle; the latest is last */
	TAILQ_HEAD(, quota_holder) holders;
};

struct quota {
	struct quota_attr a;
	pthread_mutex_t lock;
	LIST_HEAD(, quota_client) bucket[QUOTA_BUCKETS];
	/** idle clients; the one that became idle, or was refused, last is last */
	struct quota_clients idle;
	uint32_t nidle;
	uint32_t pressed; /**< /64s that hold half of what they may */
	uint32_t going;   /**< displaced connections */
	/** Counts the grants of displaced connections until their slots are free. */
	struct quota_client gone;
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
	id->bytes = 1 + 16;
	memcpy(id->octets + 1, &((const struct sockaddr_in6 *)peer)->sin6_addr, 16);
	id->has_net = addr_net6(peer, id->net) > 0;
}

const char *
quota_id_str(const struct quota_id *id, char buf[QUOTA_ID_STR_MAX])
{
	buf[0] = '\0';
	if (id->bytes > 0 && id->octets[0] == '=')
		snprintf(buf, QUOTA_ID_STR_MAX, "%.*s", id->bytes - 1,
		         (const char *)id->octets + 1);
	else if (id->bytes > 0)
		(void)inet_ntop(id->octets[0] == '4' ? AF_INET : AF_INET6, id->octets + 1, buf,
		                QUOTA_ID_STR_MAX);
	return buf;
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

static bool
quota_is_net(const struct quota_client *c)
{
	return c->id.octets[0] == 'n';
}

/** The time until which the client is remembered. */
static uint64_t
quota_until(const struct quota_client *c)
{
	return c->full_ns > c->sure_ns ? c->full_ns : c->sure_ns;
}

/** The client holds no grant: make it idle. */
static void
quota_idle(struct quota *q, struct quota_client *c)
{
	TAILQ_INSERT_TAIL(&q->idle, c, idle);
	q->nidle++;
	if (c->net != NULL) {
		TAILQ_INSERT_TAIL(&c->net->idlers, c, net_idle);
		c->net->nidlers++;
	}
}

static void
quota_busy(struct quota *q, struct quota_client *c)
{
	TAILQ_REMOVE(&q->idle, c, idle);
	q->nidle--;
	if (c->net != NULL) {
		TAILQ_REMOVE(&c->net->idlers, c, net_idle);
		c->net->nidlers--;
	}
}

static void
quota_forget(struct quota *q, struct quota_client *c)
{
	struct quota_client *net = c->net;

	quota_busy(q, c);
	*(quota_is_net(c) ? &q->s.nets : &q->s.clients) -= 1;
	LIST_REMOVE(c, link);
	free(c);
	if (net != NULL && --net->members == 0)
		quota_idle(q, net);
}

/** Forget clients whose time is over, a few at each call, and those beyond the limit. */
static void
quota_prune(struct quota *q, uint64_t now_ns)
{
	struct quota_client *c;

	for (int i = 0; i < 4 && (c = TAILQ_FIRST(&q->idle)) != NULL && quota_until(c) <= now_ns;
	     i++)
		quota_forget(q, c);
	while (q->nidle > QUOTA_IDLE_MAX) {
		c = TAILQ_FIRST(&q->idle);
		q->s.forgotten += quota_until(c) > now_ns;
		quota_forget(q, c);
	}
}

/** Forget the address that was idle the longest, of a /64 with too many idle addresses. */
static void
quota_prune_net(struct quota *q, struct quota_client *net, uint64_t now_ns)
{
	while (net->nidlers > QUOTA_NET_IDLE_MAX) {
		struct quota_client *c = TAILQ_FIRST(&net->idlers);

		q->s.forgotten += quota_until(c) > now_ns;
		quota_forget(q, c);
	}
}

/** Find a client or make it; a new one is idle and has no /64. */
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
	TAILQ_INIT(&c->idlers);
	TAILQ_INIT(&c->holders);
	LIST_INSERT_HEAD(&q->bucket[b], c, link);
	quota_idle(q, c);
	*(quota_is_net(c) ? &q->s.nets : &q->s.clients) += 1;
	return c;
}

/** The same, with its /64. */
static struct quota_client *
quota_find_client(struct quota *q, const struct quota_id *id)
{
	struct quota_id net_id = {.octets = {'n'}, .bytes = 1 + sizeof(id->net)};
	struct quota_client *c = quota_find(q, id), *net;

	if (c == NULL || !id->has_net || c->net != NULL)
		return c;
	memcpy(net_id.octets + 1, id->net, sizeof(id->net));
	net = quota_find(q, &net_id);
	if (net == NULL) {
		quota_forget(q, c);
		return NULL;
	}
	quota_busy(q, c);
	if (net->members++ == 0)
		quota_busy(q, net);
	c->net = net;
	quota_idle(q, c);
	return c;
}

/** Take one token, worth one_ns, from a bucket of one second's worth. False: the bucket lacks
 * it, or would have less than `rest_ns`. */
static bool
quota_bucket(uint64_t *full_ns, uint64_t one_ns, uint64_t rest_ns, uint64_t now_ns)
{
	uint64_t then_ns = (*full_ns > now_ns ? *full_ns : now_ns) + one_ns;

	if (then_ns + rest_ns > now_ns + NS_PER_S)
		return false;
	*full_ns = then_ns;
	return true;
}

/** Take one OPEN from a /64's bucket. The last quarter is for the sure OPENs of each of its
 * addresses. */
static bool
quota_net_token(struct quota_client *net, struct quota_client *c, uint64_t one_ns, uint64_t now_ns)
{
	if (quota_bucket(&net->full_ns, one_ns, NS_PER_S / 4, now_ns))
		return true;
	return net->full_ns + one_ns <= now_ns + NS_PER_S &&
	       quota_bucket(&c->sure_ns, NS_PER_S / QUOTA_SURE, 0, now_ns) &&
	       quota_bucket(&net->full_ns, one_ns, 0, now_ns);
}

/** Take one OPEN from the client's bucket and its /64's. False: one of them is empty. */
static bool
quota_token(const struct quota *q, struct quota_client *c, uint64_t now_ns)
{
	uint64_t one_ns, was_ns = c->full_ns;

	if (q->a.opens_per_s == 0)
		return true;
	one_ns = NS_PER_S / q->a.opens_per_s;
	if (!quota_bucket(&c->full_ns, one_ns, 0, now_ns))
		return false;
	if (c->net == NULL || quota_net_token(c->net, c, one_ns / QUOTA_NET, now_ns))
		return true;
	c->full_ns = was_ns;
	return false;
}

static bool
quota_named(const struct quota_client *c)
{
	return c->id.octets[0] == '=';
}

/** The most grants of a /64. */
static uint64_t
quota_net_most(const struct quota *q)
{
	return (uint64_t)QUOTA_NET * q->a.grants_per_client;
}

/** Count one grant more, or less, for the client and its /64. */
static void
quota_count(struct quota *q, struct quota_client *c, int by)
{
	if (c == &q->gone) {
		c->grants += (uint32_t)by;
		return;
	}
	if (c->grants == 0)
		quota_busy(q, c);
	c->grants += (uint32_t)by;
	if (c->net != NULL) {
		const uint64_t half = (quota_net_most(q) + 1) / 2;

		q->pressed -= c->net->grants >= half;
		c->net->grants += (uint32_t)by;
		q->pressed += c->net->grants >= half;
	}
	if (c->grants > 0)
		return;
	quota_idle(q, c);
	/* Forget it now if its time is over, so that many clients that leave at once leave
	 * nothing behind. */
	if (quota_until(c) <= q->asked_ns)
		quota_forget(q, c);
}

/** Whether the grants left are reserved for clients with a name, or for those that hold fewer. */
static bool
quota_is_full(const struct quota *q, const struct quota_client *c)
{
	const struct quota_client *one = c->net != NULL ? c->net : c;
	uint32_t left = q->a.grants - q->s.grants, of = q->a.for_named;
	bool less =
	        one->grants - one->going < QUOTA_SURE || (one->lent > 0 && c->grants < QUOTA_SURE);

	if (!quota_named(c) || of == 0) {
		of = q->a.grants - q->a.for_named;
		left = left < of - q->s.strangers ? left : of - q->s.strangers;
	}
	return left == 0 || (!less && left <= of / 4);
}

/** Whether the grants left of its /64 are reserved for that /64's other addresses. */
static bool
quota_is_net_full(const struct quota *q, const struct quota_client *c)
{
	uint64_t most = quota_net_most(q);
	uint64_t has = c->net != NULL ? c->net->grants - c->net->going : 0;

	return has >= most || (c->grants >= QUOTA_SURE && most - has <= most / 4);
}

/** Displace an idle connection of the client's /64. False: there is none. */
static bool
quota_push_out(struct quota *q, const struct quota_client *c, uint64_t now_ns)
{
	struct quota_holder *h, *victim = NULL;
	uint32_t most = c->grants;

	if (c->net == NULL || c->grants >= QUOTA_SURE)
		return false;
	TAILQ_FOREACH (h, &c->net->holders, link) {
		if (h->kept || h->going || h->grants <= most ||
		    now_ns < h->moved_ns + QUOTA_IDLE_NS)
			continue;
		most = h->grants;
		victim = h;
	}
	if (victim == NULL)
		return false;
	victim->going = true;
	q->going++;
	c->net->going += victim->grants;
	c->net->lent = victim->grants;
	q->s.pushed_out++;
	return true;
}

/** Judge whether the client may have one more grant; results of quota_open(). */
static int
quota_judge(struct quota *q, struct quota_client *c, uint64_t now_ns)
{
	if (!quota_token(q, c, now_ns)) {
		q->s.opens_limited++;
		return -EBUSY;
	}
	if (c->grants >= q->a.grants_per_client) {
		q->s.refused_client++;
		return -EDQUOT;
	}
	if (quota_is_net_full(q, c) && !quota_push_out(q, c, now_ns)) {
		q->s.refused_net++;
		return -EUSERS;
	}
	/* Another client may take the grant of the displaced connection first. The next OPEN
	 * then displaces again. */
	if (quota_is_full(q, c) && ((c->net != NULL && c->net->going > 0) ||
	                            !quota_push_out(q, c, now_ns) || quota_is_full(q, c))) {
		q->s.refused_all++;
		return -ENOSPC;
	}
	return 0;
}

/* ---- Functions of quota.h ---- */

int
quota_open(struct quota *q, const struct quota_id *id, uint64_t now_ns, struct quota_client **out)
{
	struct quota_client *c, *net;
	int rc = -ENOMEM;

	pthread_mutex_lock(&q->lock);
	q->s.opens++;
	q->asked_ns = now_ns;
	quota_prune(q, now_ns);
	c = quota_find_client(q, id);
	if (c != NULL) {
		net = c->net;
		rc = quota_judge(q, c, now_ns);
		if (rc == 0) {
			if (net != NULL && net->lent > 0 && c->grants < QUOTA_SURE)
				net->lent--;
			quota_count(q, c, 1);
			q->s.grants++;
			q->s.strangers += !quota_named(c);
			*out = c;
		} else if (c->grants == 0) {
			quota_busy(q, c); /* it is the latest */
			quota_idle(q, c);
		}
		if (net != NULL)
			quota_prune_net(q, net, now_ns);
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
	quota_count(q, c, -1);
	pthread_mutex_unlock(&q->lock);
}

void
quota_hold(struct quota *q, struct quota_client *c, struct quota_holder *h, uint64_t seen,
           uint64_t now_ns)
{
	pthread_mutex_lock(&q->lock);
	/* A connection that authenticates later has grants of its address, which are kept. */
	if (c->net != NULL && (h->net == NULL || h->net == c->net)) {
		if (h->grants == 0) {
			TAILQ_INSERT_TAIL(&c->net->holders, h, link);
			h->net = c->net;
		}
		h->grants++;
		h->seen = seen;
		h->moved_ns = now_ns;
		c->net->going += h->going;
	}
	pthread_mutex_unlock(&q->lock);
}

struct quota_client *
quota_let_go(struct quota *q, struct quota_client *c, struct quota_holder *h)
{
	pthread_mutex_lock(&q->lock);
	if (c->net != NULL && h->net == c->net) {
		struct quota_client *net = c->net;
		const bool going = h->going;

		if (--h->grants == 0) {
			TAILQ_REMOVE(&net->holders, h, link);
			h->net = NULL;
			h->going = false;
			q->going -= going;
		}
		if (going) {
			net->going--;
			quota_count(q, &q->gone, 1);
			quota_count(q, c, -1);
			c = &q->gone;
		}
	}
	pthread_mutex_unlock(&q->lock);
	return c;
}

void
quota_keep(struct quota *q, struct quota_holder *h)
{
	pthread_mutex_lock(&q->lock);
	h->kept = true;
	pthread_mutex_unlock(&q->lock);
}

bool
quota_is_pressed(struct quota *q)
{
	bool pressed;

	pthread_mutex_lock(&q->lock);
	pressed = q->pressed > 0 || q->going > 0 ||
	          q->s.strangers >= (q->a.grants - q->a.for_named) / 2;
	pthread_mutex_unlock(&q->lock);
	return pressed;
}

bool
quota_look(struct quota *q, struct quota_holder *h, uint64_t seen, bool busy, uint64_t now_ns)
{
	bool going;

	pthread_mutex_lock(&q->lock);
	if (busy || seen != h->seen)
		h->moved_ns = now_ns;
	h->seen = seen;
	going = h->going;
	pthread_mutex_unlock(&q->lock);
	return going;
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
