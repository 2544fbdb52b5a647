/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VOLCALL_PRIV_H
#define VOLCALL_PRIV_H

/**
 * @file A volume of a client. Each source calls those above it in this list: volcall_status.c
 * (what an answer means), volcall_snap.c (snapshots: their names, arguments and answers),
 * volcall_list.c (the windows of a volume), volcall_run.c (whom to tell, and when),
 * volcall_order.c (which requests wait for which), volcall_kept.c (copies of changes),
 * volcall_req.c (requests and their calls), volcall_window.c (windows and their calls),
 * volcall_conn.c and volcall_link.c (volcall_link.h: a connection of the volume's own), volcall.c
 * (opening, closing), volcall_revoke.c (calls of the target), volcall_wait.c (functions that wait).
 *
 * The worker alone touches a volume, but for its handle and what is constant while it is open. No
 * callback of the owner runs inside a call of the owner to the same volume: such calls set an
 * alarm (volcall_leave()). All other callbacks run where an answer comes in (volcall_go_on()). An
 * owner may poll the worker in a callback, so each thing to tell is taken off its list before it is
 * told.
 */

#include <sys/queue.h>

#include <weft/ulp.h>
#include <weft/volume.h>
#include <weft/worker.h>

#include "volrpc.h"

#define VOLCALL_WHY_BYTES 128 /* as weft_volume_req.why */
/** Calls of one volume under way. Below WEFT_RPC_MAX_CALLS, so that the volumes of one endpoint
 * share. */
#define VOLCALL_CALLS 32
/** weft_volume_attr.timeout_us, if that is 0. */
#define VOLCALL_TIMEOUT_US 30000000ULL
/** Calls of one discard or zeroes under way. Each keeps others from its range until it ends. */
#define VOLCALL_RANGES 4
/** Openings of windows that have timed out and were not answered. Their calls keep credits. */
#define VOLCALL_LATE 4
/** weft_volume_req.sent_bytes when nothing is left to be sent. */
#define VOLCALL_ALL_SENT UINT64_MAX
/** The same: all of it is sent again when the calls that are under way have ended. */
#define VOLCALL_AGAIN (UINT64_MAX - 1)

/** What an answer means. The members are as those of weft_volume_req. */
struct volcall_outcome {
	int status;
	uint64_t done_bytes, at_bytes;
	const char *why; /**< valid as long as the answer; not yet a line */
};

/** One call of a request or a window under way, or free. */
struct volcall_slot {
	SLIST_ENTRY(volcall_slot) next; /**< in free */
	struct weft_volume *v;
	struct weft_volume_req *req;    /**< or */
	struct weft_volume_window *win; /**< the window whose call this is */
	/** the part of the range that is this call's, from the begin of the request's */
	uint64_t from_bytes, len_bytes;
	uint32_t flags;                   /**< of the call, volcall_kept_begin() */
	uint64_t kept_bytes, kept_number; /**< likewise: room for a copy; changes before it */
	union {
		struct weft_volrpc_read_call read;
		weft_volrpc_write_args write;
		weft_volrpc_compare_args compare;
		weft_volrpc_range_args range;
		weft_volrpc_snap_args snap;
	} args; /**< used until the answer */
};

/** The call that opens a window. It outlives its timeout, so that a late answer is not lost: the
 * target would keep a window that no client can name. */
struct volcall_opening {
	LIST_ENTRY(volcall_opening) entry; /**< in late */
	struct weft_volume *v;             /**< NULL: the volume is gone, and its windows are */
	struct volcall_slot *slot;         /**< NULL: timed out */
	struct weft_alarm *alarm;
};

/** A queue of requests, by their `next`. */
struct volcall_queue {
	struct weft_volume_req *first, *last;
};

struct volcall_ops {
	/** Send what can be sent. */
	void (*pump)(struct weft_volume *v);
};

/** What a link does. */
struct volcall_link_ops {
	void (*stands)(struct weft_volume *v); /**< the connection is made */
	void (*lost)(struct weft_volume *v);   /**< it is lost, or cannot be made */
	void (*free)(struct weft_volume *v);
};

enum volcall_state {
	VOLCALL_OPENING,
	VOLCALL_OPEN,
	VOLCALL_FAILED, /**< it was not opened */
};

struct weft_volume {
	struct weft_handle h;
	LIST_ENTRY(weft_volume) entry; /**< in the list of volcall_run.c */
	const struct volcall_ops *ops;
	struct weft_rpc *rpc;      /**< with a link: NULL while there is no connection */
	struct volcall_link *link; /**< NULL: the owner has made the connection */
	const struct volcall_link_ops *link_ops;
	struct weft_worker *worker;
	void *user;
	uint64_t timeout_us;
	struct weft_volume_info info;
	uint32_t handle; /**< of the grant */
	enum volcall_state state;
	bool down;    /**< the connection is lost; with a link: for good */
	bool closing; /**< by its owner; the handle is not live any more */
	/* requests */
	struct volcall_queue pending;  /**< have octets that were not sent, and wait for no other */
	struct volcall_queue finished; /**< their owners have to be told */
	/** Those that were taken and have not ended, in the order of their submission. */
	struct weft_volume_req *live_first, *live_last;
	uint64_t changes; /**< of them: that change data */
	uint64_t taken;   /**< requests ever */
	/* windows */
	struct weft_volume_window *windows;
	unsigned int win_wants; /**< windows with a call that was not sent */
	unsigned int win_tells; /**< windows whose owner has to be told */
	LIST_HEAD(, volcall_opening) late;
	unsigned int nlate;
	/* calls */
	SLIST_HEAD(, volcall_slot) free;
	struct volcall_slot slot[VOLCALL_CALLS];
	unsigned int calls; /**< under way, those to open and to close included */
	/* the opening */
	weft_volume_fn open_fn; /**< NULL: told */
	void *open_arg;
	int open_status; /**< 1: not known yet */
	/* the close */
	weft_volume_fn close_fn;
	void *close_arg;
	bool close_sent, close_told;
	int close_status;
	char why[VOLCALL_WHY_BYTES]; /**< of the opening, then of the close */
	/* what follows */
	struct weft_alarm *alarm;
	bool alarm_soon;      /**< it is to tell */
	bool pumping;         /**< inside ops->pump() */
	unsigned int entered; /**< inside calls of the owner */
	unsigned int pins;    /**< inside volcall_tell() */
};

extern struct weft_handle_kind volcall_kind;

/* ---- volcall_status.c ---- */

/** The errno of a call that was not answered with results; 0 for WEFT_RPC_OK. */
int volcall_rpc_errno(enum weft_rpc_status status);
/**
 * What a fault means for a call of `len_bytes` octets at `off_bytes` of a volume of `bytes` octets.
 * -EPROTO: a status that is none, or that this call cannot have, or numbers outside of the range.
 */
void volcall_fault(struct volcall_outcome *out, weft_volrpc_status status,
                   const weft_volrpc_fault *fault, uint64_t off_bytes, uint64_t len_bytes,
                   uint64_t bytes);
/** Copy a text of the peer as one line without control characters; NULL: "". */
void volcall_why(char why[VOLCALL_WHY_BYTES], const char *text);
/** The answer to an OPEN: its status, the grant as the volume's constants, and its handle. */
int volcall_open_result(char why[VOLCALL_WHY_BYTES], enum weft_rpc_status status,
                        const weft_volrpc_open_res *r, struct weft_volume_info *info,
                        uint32_t *handle);
/** Whether the extents are those of a range: they begin at its begin, adjoin and end inside. */
bool volcall_extents_ok(const weft_volrpc_extents *e, uint64_t off_bytes, uint64_t len_bytes);

/* ---- volcall_snap.c ---- */

/** Whether the operation is one of snapshots and clones. */
bool volcall_is_snap(enum weft_volume_op op);
/** Whether the request has what its operation needs. */
bool volcall_snap_ok(const struct weft_volume_req *req);
/** Fill in the call of a request for snapshots. */
void volcall_snap_args(struct volcall_slot *s, struct weft_rpc_call_attr *a);
/** The fault of an answer whose status is not OK. */
const weft_volrpc_fault *volcall_snap_fault(enum weft_volume_op op, const void *res);
/** Take the results over; req's own are set. NULL: they are good; else what is wrong with them. */
const char *volcall_snap_results(struct weft_volume_req *req, const void *res);

/* ---- volcall_list.c ---- */

/** What a window is at: the low octet of weft_volume_window.state. 0: closed. */
enum volcall_win_state {
	VOLCALL_WIN_CLOSED,
	VOLCALL_WIN_WANT_OPEN, /**< the call could not be sent yet */
	VOLCALL_WIN_OPENING,   /**< the call is under way */
	VOLCALL_WIN_OPEN,
	VOLCALL_WIN_WANT_MOVE,
	VOLCALL_WIN_MOVING,
	VOLCALL_WIN_WANT_CLOSE,
	VOLCALL_WIN_CLOSING,
};
#define VOLCALL_WIN_TELL    0x100u /**< fn has to be called */
#define VOLCALL_WIN_REVOKED 0x200u /**< revoked() has to be called */
#define VOLCALL_WIN_OURS    0x400u /**< memory of this library, freed when it is closed */

enum volcall_win_state volcall_win_state(const struct weft_volume_window *w);
/** Set the state; weft_volume.win_wants is kept. */
void volcall_win_set(struct weft_volume_window *w, enum volcall_win_state state);
void volcall_win_link(struct weft_volume *v, struct weft_volume_window *w);
/** The window does not belong to its volume any more. What was to be told is not told. */
void volcall_win_unlink(struct weft_volume_window *w);
/** Whether a window by which the range may be written is open. */
bool volcall_win_writes(const struct weft_volume *v, uint64_t off_bytes, uint64_t len_bytes);
/** Note that fn, or revoked(), has to be called. */
void volcall_win_tell(struct weft_volume_window *w, int status, const char *why);
void volcall_win_tell_revoked(struct weft_volume_window *w, uint32_t deadline_ms);
/** Call one function of one window of which there is something to tell. */
void volcall_win_told(struct weft_volume *v);

/* ---- volcall_run.c ---- */

void volcall_push(struct volcall_queue *q, struct weft_volume_req *req);
void volcall_push_front(struct volcall_queue *q, struct weft_volume_req *req);
/** NULL: it is empty. */
struct weft_volume_req *volcall_pop(struct volcall_queue *q);
/** Does nothing if the request is not in the queue. */
void volcall_remove(struct volcall_queue *q, struct weft_volume_req *req);

/** Make the volume known to volcall_of(). */
void volcall_list(struct weft_volume *v);
/**
 * The open volume over this endpoint to which match() returns true, or NULL. On the endpoint's
 * worker.
 */
struct weft_volume *volcall_of(const struct weft_rpc *rpc,
                               bool (*match)(const struct weft_volume *v, const void *arg),
                               const void *arg);
/** Free a slot. */
void volcall_slot_put(struct volcall_slot *s);
/** NULL: as many calls as may be are under way. */
struct volcall_slot *volcall_slot_get(struct weft_volume *v);

/** Send what can be sent. Inside a call of the owner, or of volcall_go_on(). */
void volcall_pump(struct weft_volume *v);
/** A call of the owner begins. */
void volcall_enter(struct weft_volume *v);
/** It ends: what there is to tell is told soon, by an alarm. */
void volcall_leave(struct weft_volume *v);
/** An answer came: send what can be sent now, and tell. May free the volume. */
void volcall_go_on(struct weft_volume *v);
/** Pump again a little later, because too many calls are outstanding. -ENOMEM. */
int volcall_later(struct weft_volume *v);
/** The connection is lost, or was before, and is not made again. */
bool volcall_is_down(struct weft_volume *v);
/** A call was not answered because the connection is lost. */
void volcall_lost(struct weft_volume *v);
/** Whether what was not answered for that is sent again. */
bool volcall_repeats(const struct weft_volume *v);
/** Calls go by this endpoint from now on; NULL: by none. */
void volcall_endpoint(struct weft_volume *v, struct weft_rpc *rpc);

/* ---- volcall_order.c ---- */

/** A request is taken. False: it waits for others, and comes into `pending` when they end. */
bool volcall_order_take(struct weft_volume *v, struct weft_volume_req *req);
/** A request has ended. */
void volcall_order_end(struct weft_volume *v, struct weft_volume_req *req);
/** Whether the opening or move of a window has to wait for a change. */
bool volcall_order_holds(const struct weft_volume *v, const struct weft_volume_window *w);

/* ---- volcall_req.c ---- */

/** Check a request. -errno as weft_volume_submit(). */
int volcall_req_check(const struct weft_volume *v, const struct weft_volume_req *req);
/** Take a request that was checked. */
void volcall_req_begin(struct weft_volume *v, struct weft_volume_req *req);
/** Send calls of the requests. True: too many are outstanding at the endpoint. */
bool volcall_req_pump(struct weft_volume *v);
/** End all requests with this status, those with calls under way when these have ended. */
void volcall_req_end_all(struct weft_volume *v, int status);

/* ---- volcall_window.c ---- */

/** Send calls of the windows. True: too many are outstanding at the endpoint. */
bool volcall_window_pump(struct weft_volume *v);
/** End all windows with this status, those with calls under way when these have ended. */
void volcall_window_end_all(struct weft_volume *v, int status);
/** The connection is lost: all windows end but those that were not opened yet. */
void volcall_window_lost(struct weft_volume *v);
/** End all calls of windows that were not sent. Other windows stay as they are. */
void volcall_window_unsent(struct weft_volume *v, int status);
/** Note that the target takes back the window with this id; 0: all. False: there is no such one. */
bool volcall_window_revoked(struct weft_volume *v, uint32_t id, uint32_t deadline_ms);

#endif /* VOLCALL_PRIV_H */
