/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VOL_WINDOW_H
#define VOL_WINDOW_H

/**
 * @file What the sources of windows share. From below: vol_window_slot.c (slots and requests),
 * vol_window_flush.c (flushes), vol_window.c (the medium, the pool, read-backs, opening and
 * closing). The worker's thread alone uses all of it, except the marks of the medium and the
 * volume's table of windows.
 *
 * Pages are counted from the start of the medium.
 */

#include <weft/persist.h>

#include "vol_priv.h"
#include "weft_volume_window.h"

#define WIN_PAGE       (1U << WEFT_PERSIST_PAGE_SHIFT)
#define WIN_OPS        8U      /**< writes of a window at once */
#define WIN_AHEAD      32U     /**< flushes of a pool that have begun ahead; of one volume, half */
#define WIN_RUN_PAGES  256U    /**< most pages of one write */
#define WIN_BUFS       8U      /**< read-backs of a pool at once; of one volume, half of them */
#define WIN_BUF_BYTES  262144U /**< most octets of one */
#define WIN_ZERO_BYTES 262144U /**< octets that one poll zeroes */

/** A flush or read-back, in weft_persist_req.drv; or a flush ahead, in the pool. */
struct win_req {
	TAILQ_ENTRY(win_req) link;
	struct weft_persist_req *req; /**< NULL: a flush ahead */
	uint64_t first, end;          /**< its pages */
	uint64_t page;                /**< of a flush: the next one whose mark it looks at */
	uint64_t writes;              /**< of the window, when it looked at the last one */
	uint32_t flags;
	int status;
	bool syncing;        /**< it has a part in the flush of the volume that is under way, */
	bool synced;         /**< or had, in one that has ended */
	struct win_buf *buf; /**< of a read-back: what it holds */
};

TAILQ_HEAD(win_reqs, win_req);

/** An operation of a window. */
struct win_op {
	struct weft_vol_op op;
	struct iovec iov;
	struct weft_vol_window *w;
	uint64_t first, end; /**< of a write: its pages, */
	uint64_t number;     /**< its place among those of the window, */
	bool ahead;          /**< and whether a flush ahead has begun it */
	bool busy;
};

/** Memory of a read-back, which it has until its release(). */
struct win_buf {
	struct weft_vol_op op;
	struct iovec iov;
	uint8_t *mem; /**< WIN_BUF_BYTES and a page */
	struct weft_persist_req *req;
	struct weft_vol_window *w; /**< NULL: its operation is done */
	bool taken;
};

enum win_state {
	WIN_OPENING, /**< it is filled, for ready() */
	WIN_MOVING,  /**< likewise */
	WIN_OPEN,
	WIN_CLOSING, /**< stopped or closed, and not all has ended yet */
	WIN_GONE,    /**< its opening has failed, and ready() is told so */
};

/** What the medium has of a page that was written, in weft_vol_windows.unsynced. */
enum win_sync {
	WIN_DURABLE, /**< also of a page that was never written */
	/* Not durable. A flush of the volume covers pages of one of these; meanwhile those that are
	 * written are of the other one. */
	WIN_EVEN,
	WIN_ODD,
};

struct weft_vol_windows {
	struct weft_persist *medium;
	uint32_t window_bytes, slots, free_slots;
	uint32_t *free_slot;
	struct weft_vol_window **window; /**< of each slot; NULL: it is free */
	uint8_t *unsynced;               /**< of each page: enum win_sync */
	uint8_t *buf_mem;
	struct win_buf buf[WIN_BUFS];
	struct win_req ahead[WIN_AHEAD];
	struct weft_vol_window *ahead_of[WIN_AHEAD]; /**< their windows; NULL: it is free */
	struct weft_vol_windows_stats stats;
};

struct weft_vol_window {
	struct weft_vol_windows *pool;
	struct weft_vol_window_attr attr; /**< off_bytes and len_bytes: where it stands now */
	uint32_t slot;
	struct weft_vol_range range; /**< in the volume's table of windows */
	enum win_state state;
	bool stopped; /**< of WIN_CLOSING: it is not closed yet, and so it keeps its slot */
	uint64_t used_ns;
	/** Callbacks of it that run: it is not freed inside them. */
	uint32_t held;
	uint32_t reads; /**< read-backs under way */

	/* opening and moving; they use op[0] */
	bool filling;     /**< the volume is read */
	uint32_t zero_at; /**< octets of the slot before it are right */
	int fill_status;

	/* flushes */
	struct win_op op[WIN_OPS];
	struct win_op sync;    /**< the flush of the volume */
	uint32_t busy;         /**< operations under way */
	struct win_reqs reqs;  /**< flushes, in the order of their arrival, */
	struct win_reqs ahead; /**< and those that have begun ahead */
	uint64_t writes;       /**< that were begun */
	enum win_sync now;     /**< what a page becomes that is written now */
	bool synced;           /**< a flush of the volume has succeeded since it stands here */
	bool any_unsynced;     /**< there are unsynced pages */
	uint32_t lost_at;      /**< lost flushes when the first of them was written */

	void (*closed)(void *owner);
	void *closed_owner;
};

/* ---- vol_window_slot.c ---- */

/** The request of the pool in a persist request. */
struct win_req *vol_win_req_of(struct weft_persist_req *req);
/** End a request at once. Returns 0. */
int vol_win_answer(struct weft_persist_req *req, int status);
/** The window that has all of the range and is open; NULL: there is none. */
struct weft_vol_window *vol_win_find(const struct weft_vol_windows *pool, uint64_t off_bytes,
                                     uint64_t len_bytes);
/** The first page of w, and the one behind its last. */
uint64_t vol_win_first_page(const struct weft_vol_window *w);
uint64_t vol_win_end_page(const struct weft_vol_window *w);
/** Let go of the slot, and of the client. */
void vol_win_end(struct weft_vol_window *w);
/** If w is closed, not only stopped, and nothing of it is left: free it, and tell its owner. */
void vol_win_settle(struct weft_vol_window *w);

/* ---- vol_window_flush.c ---- */

/** weft_persist_ops.flush, and flush_ahead. */
int vol_win_flush(struct weft_persist *p, struct weft_exec *exec, struct weft_persist_req *req);
void vol_win_flush_ahead(struct weft_persist *p, uint64_t off_bytes, uint64_t len_bytes,
                         uint32_t flags);
/**
 * Go on with w's flushes as far as possible; then vol_win_settle(). Does nothing inside a callback
 * of w, after which it is called. So callbacks may call for a flush, and may close w.
 */
void vol_win_run(struct weft_vol_window *w);
/** Forget all marks of the slot, and which pages are unsynced. */
void vol_win_forget(struct weft_vol_window *w);

#endif /* VOL_WINDOW_H */
