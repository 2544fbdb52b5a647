/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Copies of changes that were answered and are not durable, of a volume with a link. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "volcall_link.h"

/* What changes data, and is written again as which call. */
static bool
kept_changes(const struct weft_volume_req *req)
{
	return req->op == WEFT_VOLUME_OP_WRITE || req->op == WEFT_VOLUME_OP_COMPARE_WRITE ||
	       req->op == WEFT_VOLUME_OP_DISCARD || req->op == WEFT_VOLUME_OP_ZEROES;
}

static uint64_t
kept_size(const struct weft_volume_req *req, uint64_t len_bytes)
{
	const bool data =
	        req->op == WEFT_VOLUME_OP_WRITE || req->op == WEFT_VOLUME_OP_COMPARE_WRITE;

	return sizeof(struct volcall_kept) + (data ? len_bytes : 0);
}

void
volcall_kept_begin(struct volcall_slot *s)
{
	struct volcall_link *l = s->v->link;
	const struct weft_volume_req *req = s->req;
	uint64_t n;

	s->flags = req->flags;
	s->kept_bytes = 0;
	if (l == NULL)
		return;
	s->kept_number = l->number;
	if (!kept_changes(req) || (req->flags & WEFT_VOLUME_F_DURABLE) ||
	    !(s->v->info.rights & WEFT_VOLUME_RIGHT_FLUSH) ||
	    l->attr.keep_bytes == WEFT_VOLUME_KEEP_NONE)
		return;
	n = kept_size(req, s->len_bytes);
	if (n > l->attr.keep_bytes || l->stats.kept_bytes > l->attr.keep_bytes - n) {
		s->flags |= WEFT_VOLUME_F_DURABLE;
		return;
	}
	s->kept_bytes = n;
	l->stats.kept_bytes += n;
}

void
volcall_kept_drop(struct volcall_slot *s)
{
	if (s->kept_bytes > 0)
		s->v->link->stats.kept_bytes -= s->kept_bytes;
	s->kept_bytes = 0;
}

static void
kept_add(struct volcall_slot *s)
{
	struct volcall_link *l = s->v->link;
	const struct weft_volume_req *req = s->req;
	struct volcall_kept *k = s->kept_bytes > 0 ? malloc(s->kept_bytes) : NULL;

	l->number++;
	if (k == NULL) {
		volcall_kept_drop(s);
		l->unkept = l->number;
		return;
	}
	*k = (struct volcall_kept){.number = l->number,
	                           .off_bytes = req->off_bytes + s->from_bytes,
	                           .len_bytes = s->len_bytes,
	                           .flags = s->flags};
	k->proc = req->op == WEFT_VOLUME_OP_DISCARD  ? WEFT_VOLRPC_DISCARD
	          : req->op == WEFT_VOLUME_OP_ZEROES ? WEFT_VOLRPC_ZEROES
	                                             : WEFT_VOLRPC_WRITE;
	if (k->proc == WEFT_VOLRPC_WRITE)
		memcpy(k->data, (const uint8_t *)req->data + s->from_bytes, s->len_bytes);
	TAILQ_INSERT_TAIL(&l->kept, k, entry);
	s->kept_bytes = 0; /* it is the copy's now */
}

int
volcall_kept_end(struct volcall_slot *s)
{
	struct volcall_link *l = s->v->link;
	int owed = 0;

	if (l == NULL)
		return 0;
	if (s->req->op == WEFT_VOLUME_OP_FLUSH) {
		volcall_kept_done(l, s->kept_number);
		if (s->req != &l->relief) {
			owed = l->owed;
			l->owed = 0;
		}
	} else if (kept_changes(s->req) && !(s->flags & WEFT_VOLUME_F_DURABLE) &&
	           (s->v->info.rights & WEFT_VOLUME_RIGHT_FLUSH)) {
		kept_add(s);
	}
	return owed;
}

void
volcall_kept_done(struct volcall_link *l, uint64_t number)
{
	struct volcall_kept *k;

	while ((k = TAILQ_FIRST(&l->kept)) != NULL && k->number <= number) {
		TAILQ_REMOVE(&l->kept, k, entry);
		l->stats.kept_bytes -=
		        sizeof(*k) + (k->proc == WEFT_VOLRPC_WRITE ? k->len_bytes : 0);
		free(k);
	}
	if (l->unkept <= number)
		l->unkept = 0;
}

bool
volcall_kept_is_much(const struct volcall_link *l)
{
	return l->attr.keep_bytes != WEFT_VOLUME_KEEP_NONE &&
	       l->stats.kept_bytes > l->attr.keep_bytes / 2 && !TAILQ_EMPTY(&l->kept);
}
