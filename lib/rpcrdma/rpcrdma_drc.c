/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The duplicate request cache: shards, each a hash table and the order in which replies were made,
 * under a lock of its own. A client that connects again may come to another worker, so that one
 * cache serves them all.
 *
 * An entry is found by who looks for it under the lock, and read without it by who holds a
 * reference. Whoever waits for an answer that is being made is woken on its own worker.
 */

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "rpcrdma_drc.h"

#define DRC_MAX_ENTRIES (1u << 20)
#define DRC_SHARDS      16  /* of a cache with room enough */
#define DRC_SHARD_MIN   64  /* entries that make a shard worth it */
#define DRC_SUM_BYTES   512 /* of a call's beginning, and of its end */
#define DRC_REFUSED     64  /* the latest of them */

struct rpcrdma_drc_key {
	uint8_t name[64];
	uint32_t name_bytes;
	uint32_t xid, prog, vers, proc;
	uint32_t len_bytes; /**< unreduced */
	uint64_t sum;       /**< of what drc_key() takes of it */
};

/** What chunks may carry of a reply. */
struct rpcrdma_drc_item {
	uint32_t pos_bytes, len_bytes;
};

struct rpcrdma_drc_ent {
	TAILQ_ENTRY(rpcrdma_drc_ent) age;
	LIST_ENTRY(rpcrdma_drc_ent) chain;
	struct drc_shard *shard;
	struct rpcrdma_drc_key key;
	/* under the shard's lock */
	bool busy;
	unsigned int refs;           /**< the table's, and of those that read the reply */
	struct weft_rpc_req *waiter; /**< of a busy one: came again meanwhile, the latest */
	/* constant once it is not busy */
	uint8_t *reply; /**< NULL: it was carried out, and cannot be answered */
	uint32_t reply_bytes;
	struct rpcrdma_drc_item item[WEFT_RPC_MAX_ITEMS]; /**< by growing position */
	unsigned int nitems;
};

LIST_HEAD(rpcrdma_drc_chain, rpcrdma_drc_ent);
LIST_HEAD(drc_waiters, weft_rpc_req);

struct drc_shard {
	pthread_mutex_t lock;
	TAILQ_HEAD(, rpcrdma_drc_ent) age; /**< of those that have a reply, oldest first */
	uint32_t kept, max;
	uint32_t mask;
	struct rpcrdma_drc_chain *chain;
	struct drc_waiters owed; /**< their workers could not be told */
};

/** A call that we could not read: its connection is lost, and it will come again. */
struct drc_refused {
	uint8_t name[WEFT_RPC_NAME_MAX_BYTES];
	uint32_t name_bytes; /**< 0: free */
	uint32_t xid, vers, len_bytes;
	uint64_t sum; /**< of what came by Send */
};

struct weft_rpc_drc {
	pthread_mutex_t refused_lock;
	struct drc_refused refused[DRC_REFUSED];
	unsigned int next_refused;
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
	pthread_mutex_init(&s->lock, NULL);
	s->max = entries;
	s->mask = n - 1;
	TAILQ_INIT(&s->age);
	LIST_INIT(&s->owed);
	for (uint32_t i = 0; i < n; i++)
		LIST_INIT(&s->chain[i]);
	return 0;
}

int
weft_rpc_drc_create(uint32_t entries, struct weft_rpc_drc **out)
{
	struct weft_rpc_drc *d;
	unsigned int n;

	if (entries == 0 || entries > DRC_MAX_ENTRIES)
		return -EINVAL;
	d = calloc(1, sizeof(*d));
	if (d == NULL)
		return -ENOMEM;
	pthread_mutex_init(&d->refused_lock, NULL);
	n = entries >= DRC_SHARDS * DRC_SHARD_MIN ? DRC_SHARDS : 1;
	for (; d->nshards < n; d->nshards++) {
		if (drc_shard_init(&d->shard[d->nshards], (entries + n - 1) / n) != 0) {
			weft_rpc_drc_destroy(d);
			return -ENOMEM;
		}
	}
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

/* Out of the table; who reads its reply may go on. */
static void
drc_remove(struct rpcrdma_drc_ent *e)
{
	if (!e->busy) {
		TAILQ_REMOVE(&e->shard->age, e, age);
		e->shard->kept--;
	}
	LIST_REMOVE(e, chain);
	drc_unref(e);
}

static void
drc_free_waiter(struct weft_rpc_req *req)
{
	req->serving = false;
	weft_rpcrdma_req_free(req);
}

void
weft_rpc_drc_destroy(struct weft_rpc_drc *d)
{
	if (d == NULL)
		return;
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
		free(s->chain);
	}
	pthread_mutex_destroy(&d->refused_lock);
	free(d);
}

/* FNV-1a: tells calls apart that were given one xid by mistake; nobody's secret. */
static uint64_t
drc_sum(uint64_t h, const uint8_t *p, size_t n)
{
	while (n-- > 0)
		h = (h ^ *p++) * 0x100000001b3ULL;
	return h;
}

/* By caller and xid alone: what else an entry with that xid says, it is in the same chain. */
static struct rpcrdma_drc_chain *
drc_chain(struct weft_rpc_drc *d, const struct rpcrdma_drc_key *k, struct drc_shard **shard)
{
	uint64_t h = drc_sum(0xcbf29ce484222325ULL, k->name, k->name_bytes);

	h = drc_sum(h, (const uint8_t *)&k->xid, sizeof(k->xid));
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

/* A call as it is unreduced, gone through from its beginning. */
struct drc_whole {
	uint64_t sum;
	uint32_t at_bytes;
	uint32_t end_bytes; /**< from here on it is summed again */
};

static void
drc_sum_piece(struct drc_whole *w, const uint8_t *p, uint32_t n)
{
	uint32_t at = w->at_bytes, head = at < DRC_SUM_BYTES ? DRC_SUM_BYTES - at : 0;
	uint32_t skip = at < w->end_bytes ? w->end_bytes - at : 0;

	w->sum = drc_sum(w->sum, p, n < head ? n : head);
	if (skip < n)
		w->sum = drc_sum(w->sum, p + skip, n - skip);
	w->at_bytes = at + n;
}

/*
 * Of the unreduced call, so that it is the same one by whichever chunks it comes, or by none. Its
 * beginning and its end: a megabyte would take as long as the call.
 */
static void
drc_key(struct rpcrdma_drc_key *k, const struct weft_rpc_req *req)
{
	static const uint8_t zeros[4];
	const struct rpcrdma_in *in = &req->in;
	struct drc_whole w = {.sum = 0xcbf29ce484222325ULL};
	uint32_t used = 0;

	drc_key_xid(k, req->rpc, req->p.xid);
	k->prog = req->prog;
	k->vers = req->vers;
	k->proc = req->procno;
	k->len_bytes = in->len_bytes;
	for (unsigned int i = 0; i < in->nitems; i++)
		k->len_bytes += (in->items[i].len_bytes + 3) & ~3u;
	w.end_bytes = DRC_SUM_BYTES;
	if (k->len_bytes > 2 * DRC_SUM_BYTES)
		w.end_bytes = k->len_bytes - DRC_SUM_BYTES;
	for (unsigned int i = 0; i < in->nitems; i++) {
		const struct rpcrdma_in_item *it = &in->items[i];
		uint32_t gap = it->where > w.at_bytes ? it->where - w.at_bytes : 0;

		if (gap > in->len_bytes - used) /* it belongs nowhere, and will not decode */
			gap = in->len_bytes - used;
		drc_sum_piece(&w, in->buf + used, gap);
		used += gap;
		drc_sum_piece(&w, it->data, it->len_bytes);
		drc_sum_piece(&w, zeros, (4 - it->len_bytes % 4) % 4);
	}
	drc_sum_piece(&w, in->buf + used, in->len_bytes - used);
	k->sum = w.sum;
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

/* ---- Those that wait ---- */

/* No lock is held: on its own worker it runs at once. False: later, with the shard's next call. */
static bool
drc_wake(struct weft_rpc_req *req)
{
	struct drc_shard *s = req->drc_shard;

	if (weft_worker_call(req->drc_worker, weft_rpcrdma_drc_woken, req) == 0)
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

static void
drc_refused_key(struct drc_refused *k, const struct weft_rpc_req *req)
{
	const struct weft_rpc *rpc = req->rpc;

	memset(k, 0, sizeof(*k));
	memcpy(k->name, rpc->peer_name, rpc->peer_name_bytes);
	k->name_bytes = rpc->peer_name_bytes;
	k->xid = req->p.xid;
	k->vers = req->p.vers;
	k->len_bytes = req->payload_bytes;
	k->sum = drc_sum(0xcbf29ce484222325ULL, req->payload, req->payload_bytes);
}

void
weft_rpcrdma_drc_refused(struct weft_rpc_drc *d, const struct weft_rpc_req *req)
{
	struct drc_refused k;

	drc_refused_key(&k, req);
	if (k.name_bytes == 0)
		return;
	pthread_mutex_lock(&d->refused_lock);
	d->refused[d->next_refused++ % DRC_REFUSED] = k;
	pthread_mutex_unlock(&d->refused_lock);
}

bool
weft_rpcrdma_drc_was_refused(struct weft_rpc_drc *d, const struct weft_rpc_req *req)
{
	struct drc_refused k;
	bool found = false;

	drc_refused_key(&k, req);
	pthread_mutex_lock(&d->refused_lock);
	for (unsigned int i = 0; i < DRC_REFUSED && k.name_bytes > 0 && !found; i++) {
		found = memcmp(&d->refused[i], &k, sizeof(k)) == 0;
		if (found)
			d->refused[i].name_bytes = 0;
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
	struct rpcrdma_drc_key k;
	struct drc_shard *s;
	bool known = false;

	drc_key_xid(&k, rpc, xid);
	chain = drc_chain(d, &k, &s);
	pthread_mutex_lock(&s->lock);
	LIST_FOREACH (e, chain, chain)
		known = known || (e->key.xid == xid && e->key.name_bytes == k.name_bytes &&
		                  memcmp(e->key.name, k.name, sizeof(k.name)) == 0);
	pthread_mutex_unlock(&s->lock);
	return known;
}

enum rpcrdma_drc_found
weft_rpcrdma_drc_find(struct weft_rpc_drc *d, struct weft_rpc_req *req)
{
	struct rpcrdma_drc_ent *e, *fresh = calloc(1, sizeof(*fresh));
	enum rpcrdma_drc_found found = RPCRDMA_DRC_NEW;
	struct weft_rpc_req *former = NULL;
	struct rpcrdma_drc_chain *chain;
	struct rpcrdma_drc_key k;
	struct drc_shard *s;
	bool owed;

	drc_key(&k, req);
	chain = drc_chain(d, &k, &s);
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
		former = e->waiter;
		req->serving = true;
		req->drc_worker = req->rpc->worker;
		req->drc_shard = s;
		e->waiter = req;
	} else if (e != NULL) {
		found = RPCRDMA_DRC_REPLAY;
		e->refs++;
		req->drc = e;
	}
	owed = !LIST_EMPTY(&s->owed);
	pthread_mutex_unlock(&s->lock);
	free(fresh);
	/* Asked for once more: the connection of the one before is given up, or its caller is
	 * confused. */
	if (former != NULL) {
		former->drc_replaced = true;
		(void)drc_wake(former);
	}
	if (owed)
		drc_wake_owed(s);
	return found;
}

/* Where in the whole reply the items are. */
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
	pthread_mutex_lock(&s->lock);
	waiter = e->waiter;
	e->waiter = NULL;
	e->busy = false;
	e->reply = o.buf;
	e->reply_bytes = o.len_bytes;
	TAILQ_INSERT_TAIL(&s->age, e, age);
	if (++s->kept > s->max)
		drc_remove(TAILQ_FIRST(&s->age));
	pthread_mutex_unlock(&s->lock);
	return waiter;
}

/* An item is put by itself, as XDR does: that is how the stream knows it. */
static bool
drc_encode(void *arg, XDR *xdr)
{
	const struct rpcrdma_drc_ent *e = arg;
	const char *p = (const char *)e->reply;
	uint32_t at = 0;

	for (unsigned int i = 0; i < e->nitems; i++) {
		uint32_t len = e->item[i].len_bytes, end = e->item[i].pos_bytes + len;

		if (!XDR_PUTBYTES(xdr, p + at, e->item[i].pos_bytes - at) ||
		    !XDR_PUTBYTES(xdr, p + e->item[i].pos_bytes, len) ||
		    !XDR_PUTBYTES(xdr, p + end, (4 - len % 4) % 4))
			return false;
		at = end + (4 - len % 4) % 4;
	}
	return XDR_PUTBYTES(xdr, p + at, e->reply_bytes - at);
}

static void
drc_answer(struct weft_rpc_req *req, struct rpcrdma_drc_ent *e)
{
	struct weft_rpc_item items[WEFT_RPC_MAX_ITEMS];
	struct rpcrdma_prefix p = req->p;
	struct weft_rpc *rpc = req->rpc;

	if (e->reply == NULL) {
		weft_rpcrdma_req_free(req);
		weft_rpcrdma_error(rpc, &p, &(struct rpcrdma_err){.code = RDMA2_ERR_SYSTEM});
		return;
	}
	for (unsigned int i = 0; i < e->nitems; i++)
		items[i] = (struct weft_rpc_item){e->reply + e->item[i].pos_bytes,
		                                  e->item[i].len_bytes, WEFT_RPC_OCTETS};
	req->raw = true; /* the entry may be gone before its items have been written */
	weft_rpcrdma_answer(req, drc_encode, e, items, e->nitems);
}

void
weft_rpcrdma_drc_replay(struct weft_rpc_req *req)
{
	struct rpcrdma_drc_ent *e = req->drc;
	struct drc_shard *s = e->shard;

	req->drc = NULL;
	drc_answer(req, e);
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
