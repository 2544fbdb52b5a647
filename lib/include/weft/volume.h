/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_VOLUME_H
#define WEFT_VOLUME_H

/**
 * @file Volumes of a target, for programs that use them: raw storage of any size, read and written
 * at any octet (docs/volumes.md). Installed, in libweft_volume; stands on weft/rpcrdma.h and
 * weft/verbs.h.
 *
 * Two ways. *Calls* move data by RPC-over-RDMA: weft_volume_submit(). *Windows* are memory of the
 * target that stands for a range: the program posts RDMA Writes, Flushes, Verifies and Atomic
 * Writes to them on the endpoint's QP (weft/verbs.h, weft/commit.h), with the STag that
 * weft_volume_window gives.
 *
 * A volume is opened by a *link* (struct weft_volume_link): the library connects, and connects
 * again when the connection is lost, see "Lost connections". Or it is opened over an RPC endpoint
 * that the caller has connected, and to which it passes all completions (weft_rpc_wc()) and the end
 * of the connection (weft_rpc_disconnected()). Several volumes may be open over one endpoint. They
 * are closed before weft_rpc_destroy(). "The endpoint" below is also that of a link. A volume has
 * up to 32 calls under way. Further ones wait in the volume, also while WEFT_RPC_MAX_CALLS of the
 * endpoint are outstanding, and its requests take turns.
 *
 * Order. Requests of one opening are done in the order of their submission where one changes what
 * the other one has:
 * - A change (WRITE, COMPARE_WRITE, DISCARD, ZEROES) is done when all requests before it that have
 *   octets of its range have ended, but for FLUSHes.
 * - READ, VERIFY and EXTENTS are done when the changes before them of their range have ended.
 * - FLUSH is done when the changes before it of its range have ended, and covers them. It covers
 *   all changes, too, that had ended when it was submitted, of whatever range.
 * - A window is opened or moved when the changes of its new range that were submitted before have
 *   ended. What is posted to it has no order with requests.
 *
 * For that the later request waits in the volume. Its timeout_us begins when it is sent, and it is
 * done whatever the status of the earlier one is. All others are done in parallel and have no
 * order. In particular nothing waits for a FLUSH: a program that wants a change only behind a FLUSH
 * submits it when done() of the FLUSH has told status 0. Requests of other openings have no order
 * with these but that of the volume (docs/volumes.md).
 *
 * Threads. weft_volume_open(), weft_volume_submit(), weft_volume_close(), weft_volume_window_...()
 * and their callbacks belong to the endpoint's worker and never block; another thread is refused
 * (-EPERM) while the worker is polled. The functions that wait (..._wait(), weft_volume_read() to
 * weft_volume_verify()) may be called by any other thread while a thread polls the worker, and
 * block it. Called on the worker's own thread they poll it; then the endpoint's completions have to
 * come by a callback (weft_cq_attr.on_wc). In a callback of a volume or of the endpoint nothing may
 * wait, because the endpoint sends nothing before the callback returns: there
 * weft_volume_submit_wait() and those that use it return -EDEADLK.
 *
 * Handles are checked as weft/verbs.h says ("Misuse").
 *
 * Callbacks run in weft_worker_poll() or weft_rpc_wc(), not inside the function that they answer.
 *
 * Lost connections, without a link. After the connection is lost each request ends with -ENOTCONN,
 * and it is unknown whether it was done. The volume can only be closed then. What was durable is
 * durable; the program connects again and repeats the rest (all operations but COMPARE_WRITE may be
 * repeated). That includes changes that were answered and not flushed: a flush tells (-EIO,
 * -ENOSPC) of lost changes of its own opening alone.
 *
 * Lost connections, with a link. A target that is restarted, or replaced by another version, and a
 * network that fails for a time make the program wait; they end no request. The library connects
 * again and opens the export again, until reconnect_us without a connection have passed. Then:
 * - A request that was not answered is sent again, in the order above, and one that is submitted
 *   meanwhile waits. Its timeout_us begins anew. A change may so be made twice, with the same
 *   octets. No change of this opening that has an order with it comes between the two, but one of
 *   another client may.
 * - COMPARE_WRITE, SNAPSHOT, SNAPSHOT_REMOVE and CLONE may not be made twice. One that was sent and
 *   not answered ends with -ENOTCONN: it was done or not, and the program finds out (a READ; a list
 *   of snapshots). One that was not sent is sent.
 * - Changes that were answered, were not durable and that no FLUSH has covered may be lost when the
 *   target was started again. The library asks for the target's write verifier before and behind a
 *   FLUSH of its own. When that says that changes may be lost, or the target is too old to have
 *   one, the library writes them again from copies (keep_bytes), in the order of their answers,
 *   before anything else. So the program is told nothing, and the next FLUSH makes them durable.
 *   What another client has written to their ranges in the meantime is overwritten then: clients
 *   that share ranges use durable changes, of which no copy is kept. Changes of which there is no
 *   copy make the next FLUSH end with -EIO: the program writes again what it has written since its
 *   last FLUSH that succeeded.
 * - Windows end. What was posted to them and has not completed may have been done or not, and what
 *   was written and not flushed is lost. revoked() tells of each window that was open, with id 0
 *   and deadline_ms 0. The program opens it again, which is sent when there is a connection, and
 *   repeats what was not flushed. Changes by requests of a range that an open window may write have
 *   no copies, because the library does not see what is written to the window.
 * - A grant that the target has ended (the export was offline for a time) is like a connection that
 *   is lost, four times in a row. Only a request that may not be made twice ends with -ESTALE: it
 *   was not done.
 * - An export that is another volume then (another UUID), that is shorter, or that grants or takes
 *   less than before ends the link at once. So does the end of reconnect_us. Then all requests end
 *   with -ENOTCONN, and the volume can only be closed.
 *
 * A request that ends with -ETIMEDOUT has its memory back. If the target then moves its data all
 * the same, the connection ends, because that memory is not open to it any more.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/api.h>
#include <sys/socket.h>

#include <weft/rpcrdma.h>
#include <weft/verbs.h>

WEFT_API_BEGIN

/**
 * weft_rpc_attr.inline_bytes of an endpoint for volumes: a WRITE of 4096 octets then goes in one
 * message. With the default such octets are fetched by a Read, which costs a round trip. A target
 * of weft has this value.
 */
#define WEFT_VOLUME_INLINE_BYTES 4608

struct weft_ctx;
struct weft_volume;

/** Rights: WEFT_VOLUME_READ, ... as weft_export.x. */
#define WEFT_VOLUME_RIGHT_READ   0x02
#define WEFT_VOLUME_RIGHT_WRITE  0x04
#define WEFT_VOLUME_RIGHT_FLUSH  0x10
#define WEFT_VOLUME_RIGHT_VERIFY 0x40

/** For weft_volume_link.keep_bytes. */
#define WEFT_VOLUME_KEEP_NONE UINT64_MAX

/**
 * A connection that the library makes, and makes again. It has QP, endpoint, CQ and event queue of
 * its own, on the volume's worker, which delivers completions by callback.
 */
struct weft_volume_link {
	size_t size;               /**< sizeof(struct weft_volume_link) */
	struct weft_ctx *ctx;      /**< the worker's */
	struct weft_pd *pd;        /**< of the QPs; outlives the volume */
	const struct sockaddr *to; /**< the target; copied */
	socklen_t to_bytes;
	/**
	 * [60 s] longest time without a connection, from its loss on, after which the link ends. It
	 * begins anew with each change that is written again over the next one.
	 * The first connection of weft_volume_open() is tried once.
	 */
	uint64_t reconnect_us;
	/**
	 * [2 s] of one attempt, at most. The first attempts after a loss have less time, because
	 * the target may have come up in between.
	 */
	uint32_t connect_us;
	uint32_t keepalive_us; /**< [500 ms] idle time before the first TCP keepalive probe */
	/**
	 * [64 MiB] copies of changes that are not durable; WEFT_VOLUME_KEEP_NONE: there are none.
	 * Beyond half of it the library flushes by itself. A change that would exceed it is made
	 * durable at once. Without the right to flush there are none, either.
	 */
	uint64_t keep_bytes;
	/**
	 * May be NULL. Before each connection: change the attributes of its QP and of its endpoint,
	 * for example auth and user of the latter. The library sets `qp`, CQs, event queue and user
	 * of the QP itself afterwards. -errno: the attempt has failed.
	 */
	int (*prepare)(void *user, struct weft_qp_attr *qp, struct weft_rpc_attr *rpc);
	/** May be NULL. Completions of what the program has posted to weft_volume_qp(). */
	void (*on_wc)(void *user, const struct weft_wc *wc);
	/**
	 * May be NULL. The connection is lost (up false), stands again (up true, all is repeated),
	 * or the link has ended (up false, ended true). why: one line, "" if up. In
	 * weft_worker_poll().
	 */
	void (*moved)(void *user, bool up, bool ended, const char *why);
	void *user;
};

struct weft_volume_attr {
	size_t size;                /**< sizeof(struct weft_volume_attr) */
	struct weft_rpc *rpc;       /**< a connected endpoint; NULL with a link */
	struct weft_worker *worker; /**< the endpoint's */
	const char *name;           /**< of the export */
	uint32_t rights;     /**< to ask for; 0: all that the target grants, see info.rights */
	uint64_t timeout_us; /**< of each call; 0: 30 s */
	void *user;
	const struct weft_volume_link *link; /**< instead of rpc; copied */
};

/** Abilities: weft_volume_info.can. */
#define WEFT_VOLUME_DISCARDS 0x1 /**< a discard has an effect */
#define WEFT_VOLUME_HOLES    0x2 /**< extents are known */
#define WEFT_VOLUME_MEDIUM   0x4 /**< a verify reads past every cache of the target's host */
#define WEFT_VOLUME_SUMS     0x8 /**< blocks are compared with checksums */

/** Constant while the volume is open. */
struct weft_volume_info {
	uint64_t bytes;
	uint32_t rights, can;
	uint32_t block_bytes;   /**< operations at its multiples are fastest */
	uint32_t atomic_bytes;  /**< a write inside one aligned piece is old or new after a crash */
	uint32_t io_bytes;      /**< longest read or write of one call; longer ones are cut */
	uint32_t compare_bytes; /**< longest compare-and-write */
	/** longest verify; longest discard or zeroes of one call: longer ones are cut */
	uint32_t range_bytes;
	uint32_t window_bytes; /**< longest window; 0: there are none */
	uint32_t window_align; /**< an offset of a window is a multiple of it */
	uint32_t windows;      /**< of this opening at once, if the target has memory */
	uint8_t uuid[16];
	char hash[32]; /**< hash driver of a verify */
	uint32_t hash_bytes;
	bool persistent;     /**< what is durable survives a power failure */
	char mechanism[128]; /**< for people */
};

enum weft_volume_op {
	WEFT_VOLUME_OP_READ,
	WEFT_VOLUME_OP_WRITE,
	/** of a range; 0 octets at 0: of the whole volume. What it covers: see "Order" above */
	WEFT_VOLUME_OP_FLUSH,
	WEFT_VOLUME_OP_VERIFY, /**< hash of a range, as the medium has it */
	WEFT_VOLUME_OP_COMPARE_WRITE,
	WEFT_VOLUME_OP_DISCARD,
	WEFT_VOLUME_OP_ZEROES,
	WEFT_VOLUME_OP_EXTENTS,
	/*
	 * Snapshots and clones have no range, and names. A target of an older version has none, nor
	 * has every medium: -EOPNOTSUPP, and `why` says which. All but the list want the right to
	 * write, and a target that lets clients make them.
	 */
	/** Make the snapshot `name`: all of the volume, with what was answered before the request
	 * was submitted, to whatever client, and with what was flushed of windows. It is never
	 * written; another export reads it. */
	WEFT_VOLUME_OP_SNAPSHOT,
	/** List snapshots in the order of their names, those behind `name` (NULL: all). */
	WEFT_VOLUME_OP_SNAPSHOTS,
	WEFT_VOLUME_OP_SNAPSHOT_REMOVE, /**< remove the snapshot `name` */
	/** Make the clone `name`, a volume of its own with another UUID, of the snapshot `from`, or
	 * as a snapshot of the present state (NULL). */
	WEFT_VOLUME_OP_CLONE,
	WEFT_VOLUME_OPS
};

/** Flags of a request. */
#define WEFT_VOLUME_F_DURABLE 0x1 /**< a change: on the medium when it is done */
#define WEFT_VOLUME_F_WHOLE   0x2 /**< a write: refuse it unless it is old or new after a crash */
#define WEFT_VOLUME_F_KEEP    0x4 /**< zeroes: keep the space */

struct weft_volume_piece {
	uint64_t off_bytes, len_bytes;
	bool hole;
};

/** Room for the name of a snapshot or clone, of 1 to 63 characters: A-Z a-z 0-9 . _ -, and a letter
 * or digit in front. */
#define WEFT_VOLUME_SNAP_NAME 64

struct weft_volume_snapshot {
	char name[WEFT_VOLUME_SNAP_NAME];
	uint64_t bytes;      /**< of the medium then */
	uint64_t created_ns; /**< since 1970, by the clock of the target's medium */
};

/**
 * One request. Its owner zeroes it before its first use, and keeps it and its memory until done().
 */
struct weft_volume_req {
	enum weft_volume_op op;
	uint32_t flags;
	/**
	 * Reads and writes that are longer than io_bytes, and discards and zeroes that are longer
	 * than range_bytes, are several calls at once. Each call is an operation of its own for
	 * other clients.
	 */
	uint64_t off_bytes, len_bytes;
	void *data;         /**< read: where to; write, compare-and-write: what */
	const void *expect; /**< compare-and-write */
	/** Extents: room for so many; how many were found. They begin at off_bytes and adjoin. */
	struct weft_volume_piece *pieces;
	uint32_t max_pieces, found;
	const char *name, *from; /**< snapshots and clones; each as WEFT_VOLUME_SNAP_NAME says */
	/** List: room for so many; `found` tells how many there are, and `more` that there are
	 * others behind the last one. An answer has up to 32. */
	struct weft_volume_snapshot *snapshots;
	uint32_t max_snapshots;
	bool more;
	/** On the worker. May submit requests, this one too. */
	void (*done)(struct weft_volume_req *req);
	void *owner;
	/* results */
	/**
	 * 0, or the error of the first octet that failed:
	 * - -EILSEQ: compare-and-write: at_bytes is the first octet that differs
	 * - -EBADMSG: the block at at_bytes does not have its checksum
	 * - -EIO: the medium failed, or lost what was written since the last flush
	 * - -EBUSY: a window has a part of the range; the snapshot is in use
	 * - -EEXIST, -ENOENT: there is a snapshot or clone of that name, or no snapshot
	 * - -ENOSPC: the medium has no room; of a flush also: what was written since the last one
	 *   was lost for that
	 * - -EOPNOTSUPP, -EINVAL, -EACCES, -EMSGSIZE, -ENOMEM: as the target says
	 * - -ENODEV: the volume is offline. -ESHUTDOWN: another owner has the medium
	 * - -ESTALE: the target has ended the grant
	 * - -ETIMEDOUT: no answer in time, and it is unknown whether it was done; or the medium did
	 *   not take it in time, and `why` says so
	 * - -ENOTCONN: the connection ended; likewise. With a link: see "Lost connections"
	 * - -EPROTO: an answer that makes no sense
	 * - -ECANCELED: the volume was closed, or the target gave it up before it changed anything
	 */
	int status;
	/**
	 * Octets from the beginning of the range that are done (extents: covered). After an error
	 * others behind them may be done, too.
	 */
	uint64_t done_bytes;
	uint64_t at_bytes; /**< an offset in the volume; see status */
	uint8_t hash[64];  /**< verify: info.hash_bytes octets */
	char why[128];     /**< the target's reason, one line; "" if there is none */
	/** Snapshot, clone: the name of its file or image at the target, which an export names; "":
	 * it is too long. */
	char place[128];
	/* for weft */
	struct weft_volume *volume;
	struct weft_volume_req *next, *live_next, *live_prev;
	uint64_t sent_bytes, number, waits;
	uint32_t calls;
};

/** status as of weft_volume_req; why: one line, "" when it is 0. */
typedef void (*weft_volume_fn)(void *arg, int status, const char *why);

/**
 * Open a volume. 0: fn follows, once, and *out is the volume, which can be used when fn has told
 * status 0, and which is closed by its owner in either case. -EINVAL, -ENOMEM, -EPERM, and the
 * errors of weft_rpc_call(). Status also: -ENOENT: no export of that name. -EPROTONOSUPPORT: the
 * target has no volumes (an older version). -ECANCELED: it was closed. With a link also those of
 * weft_qp_create(), weft_rpc_create() and weft_connect(); -ENOTCONN: there is no connection.
 */
int weft_volume_open(const struct weft_volume_attr *attr, weft_volume_fn fn, void *arg,
                     struct weft_volume **out);
/**
 * As weft_volume_open(), and wait: the status. After an error there is nothing to close. why: of
 * why_bytes octets, may be NULL. Also the errors of weft_worker_call().
 */
int weft_volume_open_wait(const struct weft_volume_attr *attr, char *why, size_t why_bytes,
                          struct weft_volume **out);
/**
 * Close. fn (may be NULL) is called when the target has answered, or cannot any more (-ENOTCONN):
 * then it reaches no memory of the volume's requests. Requests end before it: those of which
 * something was not sent with -ECANCELED, others as the target answers. So do calls of windows; all
 * windows of the volume end, and their memory is the owner's. The handle is invalid from the call
 * on. Status -ENOMEM: it could not be sent, and the target keeps grant and windows until the
 * connection ends. Does nothing for NULL.
 */
void weft_volume_close(struct weft_volume *v, weft_volume_fn fn, void *arg);
/** As weft_volume_close(), and wait, except in a callback of the volume. Does nothing for NULL. */
void weft_volume_close_wait(struct weft_volume *v);
/** Any thread. NULL: it is not open. */
const struct weft_volume_info *weft_volume_info(const struct weft_volume *v);
void *weft_volume_user(const struct weft_volume *v);

/** What a link has done. Counters. */
struct weft_volume_link_stats {
	uint64_t attempts;   /**< connections that were tried, the first one included */
	uint64_t reconnects; /**< that stood again */
	uint64_t repeated;   /**< requests that were sent again */
	uint64_t rewritten;  /**< changes that were written again because they may have been lost */
	uint64_t lost;       /**< times that changes without a copy may have been lost */
	uint64_t kept_bytes; /**< now */
};

/** -EINVAL: no volume, or one without a link. On the worker. */
int weft_volume_link_stats(const struct weft_volume *v, struct weft_volume_link_stats *out);
/**
 * The QP of the link now, for what is posted to windows; NULL: there is no connection, or no link.
 * It is valid until the worker is polled again. On the worker.
 */
struct weft_qp *weft_volume_qp(const struct weft_volume *v);

/**
 * Submit a request. 0: taken; done() follows, not inside the call. A read, a change or extents of 0
 * octets are done at once.
 * - -EINVAL: a range outside of the volume, no done(), no data, a flag that op does not take, a
 *   name that cannot be
 * - -EBUSY: it is under way
 * - -EMSGSIZE: a compare-and-write longer than compare_bytes, a write with WHOLE longer than
 *   io_bytes, or a verify longer than range_bytes (the caller verifies pieces, each with a hash of
 *   its own)
 * - -ENOTCONN, -EPERM
 */
int weft_volume_submit(struct weft_volume *v, struct weft_volume_req *req);
/**
 * Submit and wait: returns req->status, or the errors of weft_volume_submit() and
 * weft_worker_call(). done and owner are overwritten. -EDEADLK: in a callback of the volume.
 */
int weft_volume_submit_wait(struct weft_volume *v, struct weft_volume_req *req);

/* Blocking calls for the usual work: the status of the request. */
int weft_volume_read(struct weft_volume *v, uint64_t off_bytes, void *data, uint64_t len_bytes);
int weft_volume_write(struct weft_volume *v, uint64_t off_bytes, const void *data,
                      uint64_t len_bytes, uint32_t flags);
int weft_volume_flush(struct weft_volume *v, uint64_t off_bytes, uint64_t len_bytes);
/** hash: info.hash_bytes octets. -EMSGSIZE: longer than info.range_bytes. */
int weft_volume_verify(struct weft_volume *v, uint64_t off_bytes, uint64_t len_bytes, void *hash);

/** Snapshots and clones, as the operations; why (of why_bytes octets, may be NULL): the target's
 * reason of a failure, "" if there is none. */
int weft_volume_snapshot(struct weft_volume *v, const char *name, char *why, size_t why_bytes);
int weft_volume_snapshot_remove(struct weft_volume *v, const char *name, char *why,
                                size_t why_bytes);
int weft_volume_clone(struct weft_volume *v, const char *name, const char *from, char *why,
                      size_t why_bytes);
/** *found: how many there are in `list`, which has room for max. `after`: the last one of an
 * earlier list, or NULL. An answer may have fewer than there are: go on until *found is 0. */
int weft_volume_snapshots(struct weft_volume *v, const char *after,
                          struct weft_volume_snapshot *list, uint32_t max, uint32_t *found,
                          char *why, size_t why_bytes);

/* ---- Windows ---- */

/**
 * A window. Its owner zeroes it before its first opening, sets revoked and owner, and keeps it
 * until it is closed: until fn of the close, of an opening that failed, or of a move that left it
 * closed, or until the volume is closed.
 */
struct weft_volume_window {
	struct weft_volume *volume;
	uint64_t off_bytes;
	uint32_t len_bytes;
	uint32_t id;   /**< 0: not open */
	uint32_t stag; /**< of RDMA Write, Read, Flush, Verify, Atomic Write */
	uint64_t to;   /**< tagged offset of off_bytes */
	/**
	 * May be NULL. The target takes the window back (weft_volume_revokes): it is gone after
	 * deadline_ms at the latest, and what is posted to it later ends the connection. The owner
	 * closes it when it has flushed what it needs. With id 0 it has ended with the connection
	 * of a link, and is the owner's.
	 */
	void (*revoked)(struct weft_volume_window *w, uint32_t deadline_ms);
	void *owner;
	/* for weft */
	struct weft_volume_window *next, *prev;
	weft_volume_fn fn;
	void *arg;
	uint32_t state, rights, flags;
	uint64_t want_off_bytes, behind;
	uint32_t want_len_bytes;
	uint32_t deadline_ms;
	int status;
	char why[128];
};

/** Of an opening or a move: begin with the volume's octets, not with zeros. */
#define WEFT_VOLUME_WINDOW_F_FILL 0x1

/**
 * Open a window: fn, which must not be NULL, tells when. rights: of those of the volume; 0: all.
 * Without FILL it begins with zeros, and a Flush writes whole pages of window_align octets, so the
 * program writes each page that it flushes as a whole. -EINVAL: also a length that is no multiple
 * of window_align and does not end with the volume; -EBUSY: it is open; -EOPNOTSUPP: the volume has
 * no windows; -ENOTCONN, -EPERM. Status also: -EBUSY: another window overlaps, and one of the two
 * may write; -ENOMEM: all windows of the target are in use, try again later, or earlier openings
 * have timed out and were not answered yet. When the answer to one that has timed out comes all the
 * same, the library closes the window at the target.
 */
int weft_volume_window_open(struct weft_volume *v, struct weft_volume_window *w, uint64_t off_bytes,
                            uint32_t len_bytes, uint32_t rights, uint32_t flags, weft_volume_fn fn,
                            void *arg);
/**
 * Move it; nothing that was posted to it is outstanding. STag and `to` stay, and `to` then stands
 * for the new off_bytes. A status with which the target refuses the move before it changes anything
 * (-EINVAL, -EBUSY, -EOPNOTSUPP, -EACCES) leaves the window as it was. So does an error that is
 * found before the call is sent (-ENOMEM). After any other status the window is closed, and what is
 * posted to it ends the connection. When fn is called, id says which: 0 if it is closed.
 * -EBUSY: a call of it is under way. Else as weft_volume_window_open().
 */
int weft_volume_window_move(struct weft_volume_window *w, uint64_t off_bytes, uint32_t len_bytes,
                            uint32_t flags, weft_volume_fn fn, void *arg);
/**
 * Close it. What was not flushed is lost. A call that cannot be sent is sent later. Status -ENOMEM,
 * when memory is missing even for that, leaves the window open; id says so (0: it is closed). After
 * any other status it is closed. fn may be NULL: then w is the owner's at once, and only -ENOMEM as
 * the result leaves it open. -EINVAL: it is not open; -EBUSY, as above; -EPERM.
 */
int weft_volume_window_close(struct weft_volume_window *w, weft_volume_fn fn, void *arg);

/**
 * The program that a client serves so that the target can take windows back: for the list
 * weft_rpc_attr.programs, with weft_rpc_attr.user as the client likes. The window is found by the
 * endpoint on which the call came. Without it the target takes windows back unannounced.
 */
extern const struct weft_rpc_program weft_volume_revokes;

WEFT_API_END

#endif /* WEFT_VOLUME_H */
