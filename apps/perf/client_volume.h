/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_PERF_CLIENT_VOLUME_H
#define WEFT_PERF_CLIENT_VOLUME_H

/** @file What the sources of tests on a volume share (client_volume.c, client_window.c). */

#include <inttypes.h>
#include <string.h>

#include "client.h"
#include "host_auth.h"
#include "volume_place.h"
#include <weft/volume.h>

/** A call under way, or a free entry. */
struct volume_call {
	struct client *c;
	struct volume_call *next; /**< free */
	uint8_t *mem;             /**< its slot of data */
	bool check;               /**< it reads back what was written */
	struct weft_volume_req req;
};

/** A window of a connection. Messages go to its places in order. */
struct volume_window {
	struct client *c;
	uint64_t at_bytes;  /**< what it stands for, or is going to */
	uint32_t used, out; /**< of its places; of these, not completed */
	bool ready;         /**< open, at its range */
	bool give_back;     /**< the target wants it: it is closed, and opened again */
	bool gone;          /**< the target had none when it was to be opened: not used any more */
	struct weft_volume_window win;
};

struct client_volume {
	struct weft_volume *v;
	const struct weft_volume_info *info; /**< NULL: not open */
	bool told;                           /**< the opening was answered */
	bool closed;
	struct host_auth auth;
	struct volume_place place;
	struct volume_call *idle;
	struct volume_call *call; /**< depth of them */
	uint64_t *at;             /**< by slot of data: where the latest message went */
	uint64_t checks, checked; /**< reads back: made, answered */
	bool flushing;
	uint64_t flushed_at; /**< messages posted when the last FLUSH was made */
	struct weft_volume_req flush;
	/* windows */
	struct volume_window *window; /**< nwindows of them; they are used in turn */
	uint32_t nwindows, turn;
	/** the ranges of windows that are gone, whose places were used in part; nleft of them */
	struct volume_left {
		uint64_t at_bytes;
		uint32_t used;
	} * left;
	uint32_t nleft;
	uint32_t each;         /**< messages of a window */
	uint64_t next, places; /**< the number of the place of the next move; of all windows */
};

/** Say what has failed; the connection is dead. why: "": by status. */
static inline void
client_volume_fail(struct client *c, int status, const char *what, uint64_t off_bytes,
                   const char *why)
{
	const struct client_volume *x = c->vol;

	if (c->dead || (x != NULL && x->closed))
		return;
	c->dead = true;
	c->err = status;
	snprintf(c->term, sizeof(c->term), "%s at octet %" PRIu64 " failed: %.160s", what,
	         off_bytes, why[0] != '\0' ? why : strerror(-status));
}

/* ---- client_window.c ---- */

/** Places for the windows of a connection, and the windows, which are then opened. 0 or -errno. */
int client_window_begin(struct client *c);
/** Octets that a window stands for. */
uint64_t client_window_span(const struct client *c);
/** Post as much as depth and windows have room for, up to `end` messages in all. */
void client_window_fill(struct client *c, uint64_t end);
/** A message to window number wc->wr_id is done. */
void client_window_done(struct client *c, const struct weft_wc *wc);

/* ---- client_volume.c: what a client calls ---- */

/** Create the RPC endpoint on a QP that is not connected yet. */
int client_volume_make(struct client *c);
/** With the connection up: open the volume. 0, or -errno with its text in c->term. */
int client_volume_begin(struct client *c);
/** How the volume is made durable, for people. */
const char *client_volume_medium(const struct client *c);
/** Close it, while the endpoint still exists. */
void client_volume_close(struct client *c);
/** Free what the test had. */
void client_volume_end(struct client *c);
/** Start messages, up to `end` in all and depth at once. */
void client_volume_fill(struct client *c, uint64_t end);
/** Send one message and wait for its end. */
int client_volume_round(struct client *c);
/** Write n messages from number `first` on, read them back and compare. -EILSEQ: an octet is wrong.
 */
int client_volume_verify(struct client *c, uint64_t first, uint64_t n);
/** How many of the n messages from number `first` on have places of their own. */
uint64_t client_volume_part(const struct client *c, uint64_t first, uint64_t n);

#endif /* WEFT_PERF_CLIENT_VOLUME_H */
