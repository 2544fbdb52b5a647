/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Copies of changes that were answered and are not durable, of a volume with a link. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "volcall_link.h"

#define KEPT_NOTES 8 /* this part of keep_bytes has no copies */

/* What changes data, and is written again as which call. */
static bool
kept_changes(const struct weft_volume_req *req)
{
	return req->op == WEFT_VOLUME_OP_WRITE || req->op == WEFT_VOLUME_OP_COMPARE_WRITE ||
	       req->op == WEFT_VOLUME_OP_DISCARD || req->op == WEFT_VOLUME_OP_ZEROES;
}

/* A call that leaves behind what is not durable. */
static bool
kept_is_loose(const struct volcall_slot *s)
{
	return kept_changes(s->req) && !(s->flags & WEFT_VOLUME_F_DURABLE) &&
	       (s->v->info.rights & WEFT_VOLUME_RIGHT_FLUSH);
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
	uint64_t n, room;

	s->flags = req->flags;
	s->kept_bytes = 0;
	if (l == NULL)
		return;
	s->kept_number = l->number;
	if (!kept_is_loose(s) || l->attr.keep_bytes == WEFT_VOLUME_KEEP_NONE)
		return;
	n = kept_size(req, s->len_bytes);
	/* The rest is for notes of durable changes. */
	room = l->attr.keep_bytes - l->attr.keep_bytes / KEPT_NOTES;
	if (n > room || l->stats.kept_bytes > room - n) {
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

void
volcall_kept_unsure(struct volcall_slot *s)
{
	s->v->link->unsure |= kept_is_loose(s);
}

static void
kept_add(struct volcall_slot *s)
{
	struct volcall_link *l = s->v->link;
	const struct weft_volume_req *req = s->req;
	struct volcall_kept *k = s->kept_bytes > 0 ? malloc(s->kept_bytes) : NULL;

	l->number++;
	if (k == NULL || volcall_win_writes(s->v, req->off_bytes + s->from_bytes, s->len_bytes)) {
		free(k);
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

/* A durable change has replaced octets of copies, which must not come back. Without room for a note
 * of it the copies are given up. */
static void
kept_durable(struct volcall_slot *s)
{
	struct volcall_link *l = s->v->link;
	struct volcall_kept *k = NULL;

	if (TAILQ_EMPTY(&l->kept))
		return;
	if (l->stats.kept_bytes + sizeof(*k) <= l->attr.keep_bytes)
		k = malloc(sizeof(*k));
	if (k == NULL) {
		volcall_kept_done(l, l->number);
		l->unkept = l->number;
		return;
	}
	*k = (struct volcall_kept){.number = l->number,
	                           .off_bytes = s->req->off_bytes + s->from_bytes,
	                           .len_bytes = s->len_bytes,
	                           .proc = VOLCALL_KEPT_DURABLE};
	TAILQ_INSERT_TAIL(&l->kept, k, entry);
	l->stats.kept_bytes += sizeof(*k);
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
	} else if (kept_is_loose(s)) {
		kept_add(s);
	} else if (kept_changes(s->req)) {
		kept_durable(s);
	}
	return owed;
}

bool
volcall_kept_part(const struct volcall_kept *k, uint64_t *off, uint64_t *end)
{
	const uint64_t last = k->off_bytes + k->len_bytes;
	const struct volcall_kept *d;
	bool moved;

	if (k->proc == VOLCALL_KEPT_DURABLE)
		return false;
	do {
		moved = false;
		*end = last;
		for (d = TAILQ_NEXT(k, entry); d != NULL; d = TAILQ_NEXT(d, entry)) {
			if (d->proc != VOLCALL_KEPT_DURABLE || d->off_bytes >= *end ||
			    d->off_bytes + d->len_bytes <= *off)
				continue;
			if (d->off_bytes > *off) {
				*end = d->off_bytes;
			} else {
				*off = d->off_bytes + d->len_bytes;
				moved = true;
			}
		}
	} while (moved);
	return *off < last;
}

static void
kept_free(struct volcall_link *l, struct volcall_kept *k)
{
	TAILQ_REMOVE(&l->kept, k, entry);
	l->stats.kept_bytes -= sizeof(*k) + (k->proc == WEFT_VOLRPC_WRITE ? k->len_bytes : 0);
	free(k);
}

void
volcall_kept_window(struct weft_volume *v, uint64_t off_bytes, uint64_t len_bytes)
{
	struct volcall_link *l = v->link;
	struct volcall_kept *k = l != NULL ? TAILQ_FIRST(&l->kept) : NULL, *next;

	for (; k != NULL; k = next) {
		next = TAILQ_NEXT(k, entry);
		if (k->proc == VOLCALL_KEPT_DURABLE || k->off_bytes >= off_bytes + len_bytes ||
		    off_bytes >= k->off_bytes + k->len_bytes)
			continue;
		if (l->unkept < k->number)
			l->unkept = k->number;
		kept_free(l, k);
	}
}

void
volcall_kept_failed(struct volcall_slot *s)
{
	struct volcall_link *l = s->v->link;

	if (l == NULL || !kept_changes(s->req))
		return;
	volcall_kept_window(s->v, s->req->off_bytes + s->from_bytes, s->len_bytes);
	if (kept_is_loose(s))
		l->unkept = ++l->number;
}

void
volcall_kept_done(struct volcall_link *l, uint64_t number)
{
	struct volcall_kept *k;

	while ((k = TAILQ_FIRST(&l->kept)) != NULL && k->number <= number)
		kept_free(l, k);
	if (l->unkept <= number)
		l->unkept = 0;
}

bool
volcall_kept_is_much(const struct volcall_link *l)
{
	return l->attr.keep_bytes != WEFT_VOLUME_KEEP_NONE &&
	       l->stats.kept_bytes > l->attr.keep_bytes / 2 && !TAILQ_EMPTY(&l->kept);
}
