/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The duplicate request cache: a hash table, and the order in which replies were made. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rpcrdma_drc.h"

#define DRC_MAX_ENTRIES (1u << 20)
#define DRC_SUM_BYTES   256 /* of an item */

struct rpcrdma_drc_key {
	uint8_t name[64];
	uint32_t name_bytes;
	uint32_t xid, prog, vers, proc;
	uint32_t len_bytes;
	uint64_t sum; /**< of the message */
};

struct rpcrdma_drc_ent {
	TAILQ_ENTRY(rpcrdma_drc_ent) age;
	LIST_ENTRY(rpcrdma_drc_ent) chain;
	struct weft_rpc_drc *drc;
	struct rpcrdma_drc_key key;
	bool busy;
	uint8_t *reply;
	uint32_t reply_bytes;
};

LIST_HEAD(rpcrdma_drc_chain, rpcrdma_drc_ent);

struct weft_rpc_drc {
	TAILQ_HEAD(, rpcrdma_drc_ent) age; /**< of those that have a reply, oldest first */
	uint32_t kept, max;
	uint32_t mask;
	struct rpcrdma_drc_chain chain[];
};

int
weft_rpc_drc_create(uint32_t entries, struct weft_rpc_drc **out)
{
	struct weft_rpc_drc *d;
	uint32_t n = 16;

	if (entries == 0 || entries > DRC_MAX_ENTRIES)
		return -EINVAL;
	while (n < entries)
		n *= 2;
	d = calloc(1, sizeof(*d) + n * sizeof(d->chain[0]));
	if (d == NULL)
		return -ENOMEM;
	d->max = entries;
	d->mask = n - 1;
	TAILQ_INIT(&d->age);
	for (uint32_t i = 0; i < n; i++)
		LIST_INIT(&d->chain[i]);
	*out = d;
	return 0;
}

static void
drc_free(struct rpcrdma_drc_ent *e)
{
	if (!e->busy) {
		TAILQ_REMOVE(&e->drc->age, e, age);
		e->drc->kept--;
	}
	LIST_REMOVE(e, chain);
	free(e->reply);
	free(e);
}

void
weft_rpc_drc_destroy(struct weft_rpc_drc *d)
{
	if (d == NULL)
		return;
	for (uint32_t i = 0; i <= d->mask; i++)
		while (!LIST_EMPTY(&d->chain[i]))
			drc_free(LIST_FIRST(&d->chain[i]));
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

static void
drc_key(struct rpcrdma_drc_key *k, const struct weft_rpc_req *req)
{
	const struct weft_rpc *rpc = req->rpc;

	memset(k, 0, sizeof(*k));
	memcpy(k->name, rpc->peer_name, rpc->peer_name_bytes);
	k->name_bytes = rpc->peer_name_bytes;
	k->xid = req->p.xid;
	k->prog = req->prog;
	k->vers = req->vers;
	k->proc = req->procno;
	k->len_bytes = req->in.len_bytes;
	k->sum = drc_sum(0xcbf29ce484222325ULL, req->in.buf, req->in.len_bytes);
	/* Of an item that came by a chunk, its beginning: a megabyte would take as long as the call. */
	for (unsigned int i = 0; i < req->in.nitems; i++) {
		const struct rpcrdma_in_item *it = &req->in.items[i];

		k->sum = drc_sum(k->sum, (const uint8_t *)&it->len_bytes, sizeof(it->len_bytes));
		k->sum = drc_sum(k->sum, it->data,
		                 it->len_bytes < DRC_SUM_BYTES ? it->len_bytes : DRC_SUM_BYTES);
	}
}

enum rpcrdma_drc_found
weft_rpcrdma_drc_find(struct weft_rpc_drc *d, struct weft_rpc_req *req)
{
	struct rpcrdma_drc_chain *chain;
	struct rpcrdma_drc_ent *e;
	struct rpcrdma_drc_key k;

	drc_key(&k, req);
	chain = &d->chain[drc_sum(k.sum, (const uint8_t *)&k, sizeof(k)) & d->mask];
	LIST_FOREACH (e, chain, chain) {
		if (memcmp(&e->key, &k, sizeof(k)) != 0)
			continue;
		if (e->busy)
			return RPCRDMA_DRC_BUSY;
		req->drc = e;
		return RPCRDMA_DRC_REPLAY;
	}
	e = calloc(1, sizeof(*e));
	if (e != NULL) {
		e->drc = d;
		e->key = k;
		e->busy = true;
		LIST_INSERT_HEAD(chain, e, chain);
	}
	req->drc = e;
	return RPCRDMA_DRC_NEW;
}

void
weft_rpcrdma_drc_keep(struct weft_rpc_req *req, bool (*encode)(void *arg, XDR *xdr), void *arg)
{
	struct rpcrdma_out o = {.max_bytes = RPCRDMA_MESSAGE_MAX_BYTES};
	struct rpcrdma_drc_ent *e = req->drc;
	XDR xdr;

	req->drc = NULL;
	rpcrdma_out_open(&o, &xdr);
	if (!encode(arg, &xdr)) {
		rpcrdma_out_free(&o);
		drc_free(e);
		return;
	}
	e->busy = false;
	e->reply = o.buf;
	e->reply_bytes = o.len_bytes;
	TAILQ_INSERT_TAIL(&e->drc->age, e, age);
	if (++e->drc->kept > e->drc->max)
		drc_free(TAILQ_FIRST(&e->drc->age));
}

static bool
drc_encode(void *arg, XDR *xdr)
{
	const struct rpcrdma_drc_ent *e = arg;

	return XDR_PUTBYTES(xdr, (const char *)e->reply, e->reply_bytes);
}

void
weft_rpcrdma_drc_replay(struct weft_rpc_req *req)
{
	struct rpcrdma_drc_ent *e = req->drc;

	req->drc = NULL;
	weft_rpcrdma_answer(req, drc_encode, e, NULL, 0);
}

void
weft_rpcrdma_drc_drop(struct rpcrdma_drc_ent *e)
{
	if (e->busy)
		drc_free(e);
}
