/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WINDOW_RIG_H
#define WINDOW_RIG_H

/**
 * @file A pool of windows over volume_rig.h: windows that are waited for, and flushes and
 * read-backs with what their callbacks saw.
 */

#include <weft/persist.h>

#include "volume_rig.h"
#include "weft_volume_window.h"

#define WIN_PAGE 4096U

/** A window, and what its callbacks saw. */
struct win {
	struct weft_vol_window *w; /**< NULL: it is not open */
	unsigned int ready, closed;
	int status; /**< of ready() */
};

/** A flush or read-back. */
struct preq {
	struct weft_persist_req req;
	unsigned int done;
	unsigned int at; /**< when done() was called: a number that grows */
	void *owner;
	void (*then)(struct preq *q); /**< may be NULL: called in done() */
};

/** slots of window_bytes each. */
struct weft_vol_windows *win_pool(uint32_t slots, uint32_t window_bytes);
/** Attributes of a window that reports to `win`. */
struct weft_vol_window_attr win_attr(struct rig *r, unsigned int chan,
                                     struct weft_vol_client *client, struct win *win, uint64_t off,
                                     uint32_t len);
/** Open a window and wait; it has to succeed. */
void win_open(struct rig *r, struct weft_vol_windows *p, const struct weft_vol_window_attr *a);
/** Wait until ready() was called, and set `ready` back; returns its status. */
int win_wait(struct rig *r, struct win *win);
/** Close it. win_closed() waits for closed(). */
void win_close(struct win *win);
void win_closed(struct rig *r, struct win *win);
/** The memory of a window. */
uint8_t *win_mem(struct weft_vol_windows *p, const struct win *win);
/** Place octets in a window, as a peer does. */
void win_place(struct weft_vol_windows *p, const struct win *win, uint64_t at, const void *data,
               uint64_t len);
/** Whether the page of a window is marked. */
bool win_marked(struct weft_vol_windows *p, const struct win *win, uint64_t page);

/** Submit a flush or read-back of a part of a window; returns what the driver returns. */
int preq_flush(struct weft_vol_windows *p, const struct win *win, struct preq *q, uint64_t at,
               uint64_t len, uint32_t flags);
/** Let a flush begin ahead: preq_flush() of the same part follows. */
void win_ahead(struct weft_vol_windows *p, const struct win *win, uint64_t at, uint64_t len,
               uint32_t flags);
int preq_read(struct weft_vol_windows *p, const struct win *win, struct preq *q, uint64_t at,
              uint64_t len);
/** Wait for done(); returns the status. */
int preq_wait(struct rig *r, struct preq *q);
/** Both. Of a read-back: compare all octets with `expect`, and release. */
int win_flush(struct rig *r, struct weft_vol_windows *p, const struct win *win, uint64_t at,
              uint64_t len, uint32_t flags);
void win_check_medium(struct rig *r, struct weft_vol_windows *p, const struct win *win, uint64_t at,
                      const uint8_t *expect, uint64_t len);

#endif /* WINDOW_RIG_H */
