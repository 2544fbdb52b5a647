/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Why a push by windows has failed. A Terminate says that a Flush has failed, or that a
 * window is gone, and has no room for the cause. A call has: its status names it. So weft-cp
 * connects again, opens the volume, and repeats the block that has failed by a call. The push has
 * failed all the same. Each step has the time that --timeout gives.
 */

#include "cp_volume.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "ui.h"

/* The range is another's until the target has ended the windows of the lost connection. */
#define CAUSE_BUSY_NS  3000000000ULL
#define CAUSE_AGAIN_NS 100000000ULL

struct cause {
	struct weft_volume_req req;
	bool done;
};

static void
cause_done(struct weft_volume_req *req)
{
	((struct cause *)req->owner)->done = true;
}

/** Repeat the block by a call; the status, and -EAGAIN when it has none. */
static int
cause_write(struct cp_volume *p, struct cause *c)
{
	int rc;

	c->done = false;
	p->s->last_ns = ui_now_ns();
	rc = weft_volume_submit(p->v, &c->req);
	while (rc == 0 && !c->done)
		if (cp_turn(p->s, true) != 0 && !c->done) {
			/* It is done with that. */
			weft_rpc_disconnected(p->s->rpc);
			return -EAGAIN;
		}
	return rc != 0 ? -EAGAIN : c->req.status;
}

/** The cause, "" if it is not found; the status. */
static int
cause_ask(struct cp_volume *p, uint32_t rights, const struct cp_block *b, char *out, size_t size)
{
	struct cp_session *s = p->s;
	/* A hole has no data, and is longer than the block's memory. */
	const bool zeroes = !b->by_window && b->req.op == WEFT_VOLUME_OP_ZEROES;
	struct cause c = {.req = {.op = zeroes ? WEFT_VOLUME_OP_ZEROES : WEFT_VOLUME_OP_WRITE,
	                          .flags = s->opt->no_flush ? 0 : WEFT_VOLUME_F_DURABLE,
	                          .off_bytes = b->off_bytes,
	                          .len_bytes = b->len_bytes,
	                          .data = zeroes ? NULL : b->buf,
	                          .done = cause_done,
	                          .owner = &c}};
	const uint64_t end = ui_now_ns() + CAUSE_BUSY_NS;
	int rc = cp_connect_again(s);

	if (rc != 0)
		return 0;
	rc = cp_volume_open(p, rights, 0);
	if (rc != 0 && cp_is_connected(s)) {
		snprintf(out, size, "%s", s->err);
		return rc;
	}
	if (rc != 0)
		return 0;
	while ((rc = cause_write(p, &c)) == -EBUSY && ui_now_ns() < end)
		for (uint64_t at = ui_now_ns() + CAUSE_AGAIN_NS; ui_now_ns() < at;)
			if (cp_turn(s, false) != 0)
				return 0;
	if (rc == 0 || rc == -EAGAIN || rc == -EBUSY)
		return 0;
	snprintf(out, size, "%s", c.req.why[0] != '\0' ? c.req.why : strerror(-rc));
	return rc;
}

/** A Flush or Verify that takes longer than revoke_ms ends with its window, and with it the
 * connection. */
static bool
cause_is_taken_back(const struct cp_volume *p)
{
	for (uint32_t i = 0; p->s->terminated && i < p->depth; i++)
		if (p->block[i].give_back)
			return true;
	return false;
}

int
cp_volume_cause(struct cp_volume *p, int rc, uint32_t rights, const struct cp_block *b)
{
	struct cp_session *s = p->s;
	const bool taken_back = cause_is_taken_back(p);
	char first[CP_ERR_MAX], cause[CP_ERR_MAX] = "";
	int found;

	memcpy(first, s->err, sizeof(first));
	s->err[0] = '\0';
	s->on_wc = NULL;
	p->rc = rc; /* requests that end now change nothing */
	weft_volume_close(p->v, NULL, NULL);
	p->v = NULL;
	found = cause_ask(p, rights, b, cause, sizeof(cause));
	s->err[0] = '\0';
	/* A window is asked back for another client, or because the export goes. */
	if (cause[0] == '\0' && taken_back)
		return cp_fail(s, rc,
		               "%.600s. The target has taken a window back before its block was "
		               "durable (its revoke_ms is short for its medium): push again, with "
		               "a smaller --block, or by calls with --pull",
		               first);
	if (cause[0] == '\0')
		return cp_fail(s, rc, "%s", first);
	return cp_fail(s, found, "%.600s; the cause, as the target says: %.400s", first, cause);
}
