/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Changes that are answered and not durable yet. */

#include <stdlib.h>
#include <string.h>

#include "link.h"

struct link_kept *
link_kept_new(const struct weft_volume_req *req)
{
	const bool write = req->op == WEFT_VOLUME_OP_WRITE;
	struct link_kept *k;

	if (!write && req->op != WEFT_VOLUME_OP_ZEROES && req->op != WEFT_VOLUME_OP_DISCARD)
		return NULL;
	k = malloc(sizeof(*k) + (write ? req->len_bytes : 0));
	if (k == NULL)
		return NULL;
	*k = (struct link_kept){.op = req->op,
	                        .flags = req->flags,
	                        .off_bytes = req->off_bytes,
	                        .len_bytes = req->len_bytes};
	if (write)
		memcpy(k->data, req->data, req->len_bytes);
	return k;
}

static uint64_t
kept_bytes(const struct link_kept *k)
{
	return sizeof(*k) + (k->op == WEFT_VOLUME_OP_WRITE ? k->len_bytes : 0);
}

void
link_kept_add(struct link *l, struct link_kept *k)
{
	if ((k->flags & WEFT_VOLUME_F_DURABLE) && TAILQ_EMPTY(&l->kept)) {
		free(k);
		return;
	}
	k->number = ++l->number;
	TAILQ_INSERT_TAIL(&l->kept, k, link);
	l->kept_bytes += kept_bytes(k);
}

void
link_kept_done(struct link *l, uint64_t number)
{
	struct link_kept *k;

	while ((k = TAILQ_FIRST(&l->kept)) != NULL && k->number <= number) {
		TAILQ_REMOVE(&l->kept, k, link);
		l->kept_bytes -= kept_bytes(k);
		free(k);
	}
}

int
link_kept_again(struct link *l, struct weft_volume *v)
{
	struct link_kept *k;
	int rc = 0;

	TAILQ_FOREACH (k, &l->kept, link) {
		struct weft_volume_req req = {.op = k->op,
		                              .flags = k->flags,
		                              .off_bytes = k->off_bytes,
		                              .len_bytes = k->len_bytes,
		                              .data = k->data};

		rc = weft_volume_submit_wait(v, &req);
		if (rc != 0)
			break;
	}
	return rc;
}
