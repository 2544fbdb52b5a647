/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The duplicate request cache: shards, each with a hash table and the clients' shares of it,
 * under one lock. A client that reconnects may arrive at another worker, so one cache serves all
 * workers.
 *
 * An entry is found under the lock. The holder of a reference reads it without the lock. A request
 * that waits for an answer being made is woken on its own worker.
 */

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "rpcrdma_drc.h"
#include "rpcrdma_drc_ent.h"
#include "rpcrdma_drc_share.h"
#include "rpcrdma_drc_sum.h"

struct weft_handle_kind rpcrdma_drc_kind = {.name = "duplicate request cache"};

#define DRC_MAX_ENTRIES (1u << 20)
#define DRC_SHARDS      16 /* shards of a cache that is large enough */
#define DRC_SHARD_MIN   64 /* least entries of a shard */
#define DRC_REFUSED     64 /* refused calls that are recorded, the latest ones */
#define DRC_REFUSED_ONE 8  /* of these, at most this many of one client */

LIST_HEAD(rpcrdma_drc_chain, rpcrdma_drc_ent);
LIST_HEAD(drc_waiters, weft_rpc_req);

struct drc_shard {
	pthread_mutex_t lock;
	struct drc_shares shares; /**< shares of the entries with a reply */
	uint32_t mask;
	struct rpcrdma_drc_chain *chain;
	struct drc_waiters owed; /**< requests whose workers could not be called */
	uint64_t reply_bytes;    /**< octets of the replies in shares */
	uint64_t evicted, replayed, waited;
};

/** A call whose chunks could not be read. Its connection is lost, and the client will send it
 * again. */
struct drc_refused {
	uint8_t name[WEFT_RPC_NAME_MAX_BYTES];
	uint32_t name_bytes; /**< 0: free */
	uint32_t xid, vers, len_bytes;
	uint8_t sum[RPCRDMA_DRC_SUM_BYTES]; /**< sum of the part that came by Send */
};

struct weft_rpc_drc {
	struct weft_handle h;
	_Atomic(struct rpcrdma_drc_secret *) secret; /**< made for the first look-up */
	pthread_mutex_t refused_lock;
	struct drc_refused refused[DRC_REFUSED];
	unsigned int next_refused;
	/** bit xid % 64 of each used place of refused; written under refused_lock */
	_Atomic uint64_t refused_xids;
	unsigned int nshards;
	struct drc_shard shard[DRC_SHARDS];
};

static int
drc_shard_init(struct drc_shard *s, uint32_t entries)
{
	uint32_t n = 16;

	while (n < entries)
		n *= 2;
	s->chain = calloc(n, sizeof(s->chain[0]));
	if (s->chain == NULL)
		return -ENOMEM;
	if (drc_shares_init(&s->shares, entries) != 0) {
		free(s->chain);
		return -ENOMEM;
	}
	pthread_mutex_init(&s->lock, NULL);
	s->mask = n - 1;
	/* calloc() has made the chains: a list whose head is zero is empty. */
	return 0;
}

static void drc_free(struct weft_rpc_drc *d);

int
weft_rpc_drc_create(uint32_t entries, struct weft_rpc_drc **out)
{
	struct weft_rpc_drc *d;
	unsigned int n;

	if (out == NULL || entries == 0 || entries > DRC_MAX_ENTRIES)
		return -EINVAL;
	d = calloc(1, sizeof(*d));
	if (d == NULL)
		return -ENOMEM;
	pthread_mutex_init(&d->refused_lock, NULL);
	n = entries >= DRC_SHARDS * DRC_SHARD_MIN ? DRC_SHARDS : 1;
	for (; d->nshards < n; d->nshards++) {
		if (drc_shard_init(&d->shard[d->nshards], (entries + n - 1) / n) != 0) {
			drc_free(d);
			return -ENOMEM;
		}
	}
	weft_handle_init(&d->h, &rpcrdma_drc_kind);
	*out = d;
	return 0;
}

static void
drc_unref(struct rpcrdma_drc_ent *e)
{
	if (--e->refs > 0)
		return;
	free(e->reply);
	free(e);
}

/* Remove an entry from the table; requests that read its reply may continue. */
static void
drc_remove(struct rpcrdma_drc_ent *e)
{
	if (e->kept.share != NULL) {
		drc_shares_drop(&e->shard->shares, &e->kept);
		e->shard->reply_bytes -= e->reply_bytes;
	}
	LIST_REMOVE(e, chain);
	drc_unref(e);
}

static void
drc_free_waiter(struct weft_rpc_req *req)
{
	req->serving = false;
	req->ops->free(req);
}

static void
drc_free(struct weft_rpc_drc *d)
{
	for (unsigned int i = 0; i < d->nshards; i++) {
		struct drc_shard *s = &d->shard[i];

		for (uint32_t k = 0; k <= s->mask; k++) {
			while (!LIST_EMPTY(&s->chain[k])) {
				struct rpcrdma_drc_ent *e = LIST_FIRST(&s->chain[k]);

				if (e->waiter != NULL)
					drc_free_waiter(e->waiter);
				drc_remove(e);
			}
		}
		while (!LIST_EMPTY(&s->owed)) {
			struct weft_rpc_req *req = LIST_FIRST(&s->owed);

			LIST_REMOVE(req, drc_wait);
			drc_free_waiter(req);
		}
		pthread_mutex_destroy(&s->lock);
		drc_shares_fini(&s->shares);
		free(s->chain);
	}
	weft_rpcrdma_drc_secret_free(atomic_load_explicit(&d->secret, memory_order_acquire));
	pthread_mutex_destroy(&d->refused_lock);
	weft_handle_free(&d->h, sizeof(d->h));
}

void
weft_rpc_drc_destroy(struct weft_rpc_drc *d)
{
	if (d == NULL || weft_handle_claim(d, &rpcrdma_drc_kind, __func__) < 0)
		return;
	weft_handle_end(&d->h, &rpcrdma_drc_kind);
	drc_free(d);
}

void
weft_rpc_drc_info(const struct weft_rpc_drc *drc, struct weft_rpc_drc_info *info)
{
	/* Only the locks are written. */
	struct weft_rpc_drc *d = (struct weft_rpc_drc *)(uintptr_t)drc;

	if (info == NULL)
		return;
	*info = (struct weft_rpc_drc_info){0};
	if (weft_handle_check(drc, &rpcrdma_drc_kind, __func__) < 0)
		return;
	for (unsigned int i = 0; i < d->nshards; i++) {
		struct drc_shard *s = &d->shard[i];

		pthread_mutex_lock(&s->lock);
		info->max_replies += s->shares.max;
		info->replies += s->shares.total;
		info->reply_bytes += s->reply_bytes;
		info->evicted += s->evicted;
		info->replayed += s->replayed;
		info->waited += s->waited;
		pthread_mutex_unlock(&s->lock);
	}
}

/* ---- The key of a call ---- */

/* The secret. It is made of random octets of the worker that needs it first. NULL: no memory. */
static const struct rpcrdma_drc_secret *
drc_secret(struct weft_rpc_drc *d, const struct weft_rpc *rpc)
{
	struct rpcrdma_drc_secret *s, *none = NULL;
	uint8_t key[RPCRDMA_DRC_SUM_KEY_BYTES];

	/* Acquire pairs with the release that publishes the secret below. */
	s = atomic_load_explicit(&d->secret, memory_order_acquire);
	if (s != NULL)
		return s;
	weft_worker_random(rpc->worker, key, sizeof(key));
	s = weft_rpcrdma_drc_secret_new(key);
	explicit_bzero(key, sizeof(key));
	if (s == NULL || atomic_compare_exchange_strong_explicit(
	                         &d->secret, &none, s, memory_order_acq_rel, memory_order_acquire))
		return s;
	weft_rpcrdma_drc_secret_free(s); /* another worker has set the secret first */
	return none;
}

/* The first octets of the keyed hash of a and b together. False: no memory. */
static bool
drc_hash(const struct rpcrdma_drc_secret *secret, const void *a, size_t a_bytes, const void *b,
         size_t b_bytes, uint64_t *hash)
{
	struct rpcrdma_drc_sum *sum = weft_rpcrdma_drc_sum_new(secret);
	uint8_t out[RPCRDMA_DRC_SUM_BYTES];

	if (sum == NULL)
		return false;
	weft_rpcrdma_drc_sum_add(sum, a, a_bytes);
	weft_rpcrdma_drc_sum_add(sum, b, b_bytes);
	weft_rpcrdma_drc_sum_end(sum, out);
	memcpy(hash, out, sizeof(*hash));
	return true;
}

/* The chain of the key's caller and xid. It has all entries with them, whatever the rest of the key
 * is. NULL: no memory. */
static struct rpcrdma_drc_chain *
drc_chain(struct weft_rpc_drc *d, const struct rpcrdma_drc_secret *secret,
          const struct rpcrdma_drc_key *k, struct drc_shard **shard)
{
	uint64_t h;

	if (!drc_hash(secret, &k->xid, sizeof(k->xid), k->name, k->name_bytes, &h))
		return NULL;
	*shard = &d->shard[(h >> 32) % d->nshards];
	return &(*shard)->chain[h & (*shard)->mask];
}

static void
drc_key_xid(struct rpcrdma_drc_key *k, const struct weft_rpc *rpc, uint32_t xid)
{
	memset(k, 0, sizeof(*k));
	memcpy(k->name, rpc->peer_name, rpc->peer_name_bytes);
	k->name_bytes = rpc->peer_name_bytes;
	k->xid = xid;
}

/* Make the key from the unreduced call, so that it does not depend on chunks. False: no memory. */
static bool
drc_key(struct rpcrdma_drc_key *k, const struct rpcrdma_drc_secret *secret,
        const struct weft_rpc_req *req)
{
	static const uint8_t zeros[4];
	const struct rpcrdma_in *in = &req->in;
	struct rpcrdma_drc_sum *sum = weft_rpcrdma_drc_sum_new(secret);
	uint32_t used = 0, at = 0;

	if (sum == NULL)
		return false;
	drc_key_xid(k, req->rpc, req->p.xid);
	k->prog = req->prog;
	k->vers = req->vers;
	k->proc = req->procno;
	k->len_bytes = in->len_bytes;
	for (unsigned int i = 0; i < in->nitems; i++) {
		const struct rpcrdma_in_item *it = &in->items[i];
		uint32_t gap = it->where > at ? it->where - at : 0,
		         pad = (4 - it->len_bytes % 4) % 4;

		/* the item has no valid position, and the call will not decode */
		if (gap > in->len_bytes - used)
			gap = in->len_bytes - used;
		weft_rpcrdma_drc_sum_add(sum, in->buf + used, gap);
		weft_rpcrdma_drc_sum_add(sum, it->data, it->len_bytes);
		weft_rpcrdma_drc_sum_add(sum, zeros, pad);
		used += gap;
		at += gap + it->len_bytes + pad;
		k->len_bytes += it->len_bytes + pad;
	}
	weft_rpcrdma_drc_sum_add(sum, in->buf + used, in->len_bytes - used);
	weft_rpcrdma_drc_sum_end(sum, k->sum);
	return true;
}

static struct rpcrdma_drc_ent *
drc_lookup(const struct rpcrdma_drc_chain *chain, const struct rpcrdma_drc_key *k)
{
	struct rpcrdma_drc_ent *e;

	LIST_FOREACH (e, chain, chain)
		if (memcmp(&e->key, k, sizeof(*k)) == 0)
			return e;
	return NULL;
}

/* ---- Requests that wait for the answer of another request ---- */

/* Run woken() of a waiting request on its worker. No lock may be held, because on that worker's
 * thread it runs at once. False: the worker takes no more calls now. The request is in `owed`, and
 * is woken by the shard's next call. */
static bool
drc_wake(struct weft_rpc_req *req)
{
	struct drc_shard *s = req->drc_shard;

	if (weft_worker_call(req->drc_worker, req->ops->woken, req) == 0)
		return true;
	pthread_mutex_lock(&s->lock);
	LIST_INSERT_HEAD(&s->owed, req, drc_wait);
	pthread_mutex_unlock(&s->lock);
	return false;
}

static void
drc_wake_owed(struct drc_shard *s)
{
	struct weft_rpc_req *req;

	do {
		pthread_mutex_lock(&s->lock);
		req = LIST_FIRST(&s->owed);
		if (req != NULL)
			LIST_REMOVE(req, drc_wait);
		pthread_mutex_unlock(&s->lock);
	} while (req != NULL && drc_wake(req));
}

void
weft_rpcrdma_drc_wake(struct weft_rpc_req *waiter)
{
	if (waiter != NULL)
		(void)drc_wake(waiter);
}

/* ---- Calls that cannot be read ---- */

/* Make the key of a refused call. False: the caller has no name, or no memory. */
static bool
drc_refused_key(struct drc_refused *k, struct weft_rpc_drc *d, const struct weft_rpc_req *req)
{
	const struct weft_rpc *rpc = req->rpc;
	const struct rpcrdma_drc_secret *secret = drc_secret(d, rpc);
	struct rpcrdma_drc_sum *sum;

	if (rpc->peer_name_bytes == 0 || secret == NULL)
		return false;
	sum = weft_rpcrdma_drc_sum_new(secret);
	if (sum == NULL)
		return false;
	memset(k, 0, sizeof(*k));
	memcpy(k->name, rpc->peer_name, rpc->peer_name_bytes);
	k->name_bytes = rpc->peer_name_bytes;
	k->xid = req->p.xid;
	k->vers = req->p.vers;
	k->len_bytes = req->payload_bytes;
	weft_rpcrdma_drc_sum_add(sum, req->payload, req->payload_bytes);
	weft_rpcrdma_drc_sum_end(sum, k->sum);
	return true;
}

/* The place of one more refused call: a client that has its part gives its oldest. Places are
 * used in turn, so the oldest is the first from next_refused on. */
static struct drc_refused *
drc_refused_place(struct weft_rpc_drc *d, const struct drc_refused *k)
{
	struct drc_refused *own = NULL;
	unsigned int n = 0;

	for (unsigned int i = 0; i < DRC_REFUSED; i++) {
		struct drc_refused *r = &d->refused[(d->next_refused + i) % DRC_REFUSED];

		if (r->name_bytes != k->name_bytes || memcmp(r->name, k->name, k->name_bytes) != 0)
			continue;
		if (n++ == 0)
			own = r;
	}
	return n >= DRC_REFUSED_ONE ? own : &d->refused[d->next_refused++ % DRC_REFUSED];
}

/* After a change of a place, under the lock. */
static void
drc_refused_changed(struct weft_rpc_drc *d)
{
	uint64_t bits = 0;

	for (unsigned int i = 0; i < DRC_REFUSED; i++)
		if (d->refused[i].name_bytes > 0)
			bits |= UINT64_C(1) << d->refused[i].xid % 64;
	atomic_store_explicit(&d->refused_xids, bits, memory_order_release);
}

void
weft_rpcrdma_drc_refused(struct weft_rpc_drc *d, const struct weft_rpc_req *req)
{
	struct drc_refused k;

	if (!drc_refused_key(&k, d, req))
		return;
	pthread_mutex_lock(&d->refused_lock);
	*drc_refused_place(d, &k) = k;
	drc_refused_changed(d);
	pthread_mutex_unlock(&d->refused_lock);
}

/*
 * Whether a refused call has what is cheap to compare with req. Only then is req's sum made. Most
 * calls have no record. A record of a call that never comes again stays until others take its
 * place, so the lock is taken only for one call in 64 then.
 */
static bool
drc_refused_maybe(struct weft_rpc_drc *d, const struct weft_rpc_req *req)
{
	bool found = false;

	if ((atomic_load_explicit(&d->refused_xids, memory_order_acquire) &
	     UINT64_C(1) << req->p.xid % 64) == 0)
		return false;
	pthread_mutex_lock(&d->refused_lock);
	for (unsigned int i = 0; i < DRC_REFUSED && !found; i++) {
		const struct drc_refused *r = &d->refused[i];

		found = r->name_bytes > 0 && r->xid == req->p.xid &&
		        r->len_bytes == req->payload_bytes;
	}
	pthread_mutex_unlock(&d->refused_lock);
	return found;
}

bool
weft_rpcrdma_drc_was_refused(struct weft_rpc_drc *d, const struct weft_rpc_req *req)
{
	struct drc_refused k;
	bool found = false;

	if (!drc_refused_maybe(d, req) || !drc_refused_key(&k, d, req))
		return false;
	pthread_mutex_lock(&d->refused_lock);
	for (unsigned int i = 0; i < DRC_REFUSED && !found; i++) {
		found = memcmp(&d->refused[i], &k, sizeof(k)) == 0;
		if (found) {
			d->refused[i].name_bytes = 0;
			drc_refused_changed(d);
		}
	}
	pthread_mutex_unlock(&d->refused_lock);
	return found;
}

/* ---- A call that must not be done twice ---- */

bool
weft_rpcrdma_drc_known(struct weft_rpc_drc *d, const struct weft_rpc *rpc, uint32_t xid)
{
	const struct rpcrdma_drc_ent *e;
	struct rpcrdma_drc_chain *chain;
	const struct rpcrdma_drc_secret *secret = drc_secret(d, rpc);
	struct rpcrdma_drc_key k;
	struct drc_shard *s;
	bool known = false;

	drc_key_xid(&k, rpc, xid);
	chain = secret != NULL ? drc_chain(d, secret, &k, &s) : NULL;
	if (chain == NULL)
		return true; /* no memory: it may be the same call */
	pthread_mutex_lock(&s->lock);
	LIST_FOREACH (e, chain, chain)
		known = known || (e->key.xid == xid && e->key.name_bytes == k.name_bytes &&
		                  memcmp(e->key.name, k.name, sizeof(k.name)) == 0);
	pthread_mutex_unlock(&s->lock);
	return known;
}

/* Set the client in whose share the reply will count. False: no memory for that. */
static bool
drc_ent_share(struct rpcrdma_drc_ent *e, const struct rpcrdma_drc_secret *secret,
              const struct weft_rpc *rpc)
{
	memcpy(e->share, rpc->peer_share, rpc->peer_share_bytes);
	e->share_bytes = rpc->peer_share_bytes;
	e->known = weft_rpcrdma_known(rpc);
	return drc_hash(secret, e->share, e->share_bytes, NULL, 0, &e->share_hash);
}

enum rpcrdma_drc_found
weft_rpcrdma_drc_find(struct weft_rpc_drc *d, struct weft_rpc_req *req)
{
	struct rpcrdma_drc_ent *e, *fresh = weft_spare_zeroed(sizeof(*fresh));
	enum rpcrdma_drc_found found = RPCRDMA_DRC_NEW;
	struct weft_rpc_req *former = NULL;
	struct rpcrdma_drc_chain *chain;
	const struct rpcrdma_drc_secret *secret = drc_secret(d, req->rpc);
	struct rpcrdma_drc_key k;
	struct drc_shard *s;
	bool owed;

	chain = secret != NULL && drc_key(&k, secret, req) ? drc_chain(d, secret, &k, &s) : NULL;
	/* Without an entry the call is served as without a cache. A wrong hash would give a
	 * client two shares. */
	if (fresh != NULL && secret != NULL && !drc_ent_share(fresh, secret, req->rpc)) {
		free(fresh);
		fresh = NULL;
	}
	if (chain == NULL) {
		free(fresh);
		return RPCRDMA_DRC_NEW;
	}
	pthread_mutex_lock(&s->lock);
	e = drc_lookup(chain, &k);
	if (e == NULL && fresh != NULL) {
		fresh->shard = s;
		fresh->key = k;
		fresh->busy = true;
		fresh->refs = 1;
		LIST_INSERT_HEAD(chain, fresh, chain);
		req->drc = fresh;
		fresh = NULL;
	} else if (e != NULL && e->busy) {
		found = RPCRDMA_DRC_BUSY;
		s->waited++;
		former = e->waiter;
		req->serving = true;
		req->drc_worker = req->rpc->worker;
		req->drc_shard = s;
		e->waiter = req;
	} else if (e != NULL) {
		found = RPCRDMA_DRC_REPLAY;
		s->replayed++;
		e->refs++;
		req->drc = e;
	}
	owed = !LIST_EMPTY(&s->owed);
	pthread_mutex_unlock(&s->lock);
	free(fresh);
	/* The call came again: the previous request's connection is given up, or its caller is
	 * in error. */
	if (former != NULL) {
		former->drc_replaced = true;
		(void)drc_wake(former);
	}
	if (owed)
		drc_wake_owed(s);
	return found;
}

/* Record the items' positions in the whole reply. */
static bool
drc_keep_items(struct rpcrdma_drc_ent *e, bool (*encode)(void *arg, XDR *xdr), void *arg,
               const struct weft_rpc_item *items, unsigned int nitems)
{
	struct rpcrdma_out o = {.max_bytes = RPCRDMA_MESSAGE_MAX_BYTES, .nitems = nitems};
	uint32_t end = 0;
	bool ok;
	XDR xdr;

	memcpy(o.items, items, nitems * sizeof(items[0]));
	rpcrdma_out_open(&o, &xdr);
	ok = encode(arg, &xdr);
	for (unsigned int i = 0; ok && i < nitems; i++) {
		if (items[i].len_bytes == 0 || o.pos[i] == UINT32_MAX || o.pos[i] < end)
			continue;
		e->item[e->nitems++] = (struct rpcrdma_drc_item){o.pos[i], o.items[i].len_bytes};
		end = o.pos[i] + o.items[i].len_bytes;
	}
	rpcrdma_out_free(&o);
	return ok;
}

/* Drop one reply if too many are kept. The shard's lock is held. */
static void
drc_make_room(struct drc_shard *s)
{
	struct drc_kept *victim = drc_shares_victim(&s->shares);

	if (victim == NULL)
		return;
	s->evicted++;
	drc_remove((struct rpcrdma_drc_ent *)((uint8_t *)victim -
	                                      offsetof(struct rpcrdma_drc_ent, kept)));
}

/* A reply is kept long, so give back unused memory. */
static void
drc_trim(struct rpcrdma_out *o)
{
	void *less = o->len_bytes > 0 ? realloc(o->buf, o->len_bytes) : NULL;

	if (less != NULL)
		o->buf = less;
}

struct weft_rpc_req *
weft_rpcrdma_drc_keep(struct weft_rpc_req *req, bool (*encode)(void *arg, XDR *xdr), void *arg,
                      const struct weft_rpc_item *items, unsigned int nitems)
{
	struct rpcrdma_out o = {.max_bytes = RPCRDMA_MESSAGE_MAX_BYTES};
	struct rpcrdma_drc_ent *e = req->drc;
	struct drc_shard *s = e->shard;
	struct weft_rpc_req *waiter;
	XDR xdr;

	req->drc = NULL;
	rpcrdma_out_open(&o, &xdr);
	if (!encode(arg, &xdr) || (nitems > 0 && !drc_keep_items(e, encode, arg, items, nitems)))
		rpcrdma_out_free(&o);
	drc_trim(&o);
	pthread_mutex_lock(&s->lock);
	waiter = e->waiter;
	e->waiter = NULL;
	e->busy = false;
	e->reply = o.buf;
	e->reply_bytes = o.len_bytes;
	if (drc_shares_keep(&s->shares, e->known, e->share, e->share_bytes, e->share_hash,
	                    &e->kept) != 0) {
		drc_remove(e);
	} else {
		s->reply_bytes += e->reply_bytes;
		drc_make_room(s);
	}
	pthread_mutex_unlock(&s->lock);
	return waiter;
}

void
weft_rpcrdma_drc_release(struct rpcrdma_drc_ent *e)
{
	struct drc_shard *s = e->shard;

	pthread_mutex_lock(&s->lock);
	drc_unref(e);
	pthread_mutex_unlock(&s->lock);
}

void
weft_rpcrdma_drc_drop(struct rpcrdma_drc_ent *e)
{
	struct drc_shard *s = e->shard;
	struct weft_rpc_req *waiter;

	pthread_mutex_lock(&s->lock);
	waiter = e->waiter;
	e->waiter = NULL;
	drc_remove(e);
	pthread_mutex_unlock(&s->lock);
	weft_rpcrdma_drc_wake(waiter);
}
