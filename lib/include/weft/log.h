/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_LOG_H
#define WEFT_LOG_H

/**
 * @file A remote log: records are appended to the memory of one or several targets by one-sided
 * operations. A record is followed by a change of the log pointer, as in
 * draft-talpey-rdma-commit-02 s1.5. Installed; stands alone.
 *
 * A record is sent as Write, Flush, (Verify,) Atomic Write of the log pointer, Flush of the
 * pointer, in one transaction (weft/commit.h). It is durable at a target when the last Flush is
 * answered. An append is durable when this is so at a quorum of the targets. Many appends are under
 * way at a time. A writer, a target or the power may fail at any moment: recovery finds a prefix of
 * what was appended, with everything that was reported durable. docs/log-format.md has the octets,
 * the rules, and what happens at each point of a crash.
 *
 * 	weft_log_create()
 * 	for each target: weft_log_qp_attr(), weft_qp_create(), weft_connect(), and
 * 	when ESTABLISHED weft_log_join()
 * 	weft_log_open()      -> WEFT_LOG_EV_OPEN: head and end of what was recovered
 * 	weft_log_read() ...  from head to end: the application recovers
 * 	weft_log_append() ... weft_log_trim() ...
 * 	weft_log_destroy()
 *
 * One writer. An Atomic Write is not conditional, so only the target can stop a writer that was
 * presumed dead. Each target must admit one writer at a time, and give each connection a grant of
 * its own: a new registration with another STag. It may do so only when the previous grant has
 * ended and none of its operations can access the memory or the medium any more, which is when
 * freed() of weft_mr_dereg() has run. An invalid STag is not enough. A writer that joins again
 * needs a new grant, too, because operations of its lost connection may still be under way.
 * weft/log_host.h does all of this.
 *
 * The log detects two faults of this fence, but cannot repair them:
 *
 * - The grant word of a target holds the STag of the last join. A second join with this STag is
 *   refused (-EALREADY).
 * - Every writer begins an epoch, which stands in its records and at the targets. Records of an
 *   earlier writer are never taken for records of the log. The earlier writer is told when it joins
 *   a target again (-ESTALE). What it has overwritten is lost.
 *
 * Threads. Every function of this header is called on the worker's thread and acts at once.
 * Callbacks run there. While another thread polls the worker a call returns -EPERM;
 * weft_log_destroy() then does nothing, and weft_log_query() and weft_log_qp_attr() fill in zeros.
 * NULL, destroyed logs and attributes of another version: "Misuse" in weft/verbs.h. Callbacks may
 * call every function of this header, weft_log_destroy() included. Nothing blocks, and no clock is
 * read. After weft_log_create() heap memory is used only for one small alarm of the worker, when a
 * call has to report an event. Without memory the event is reported at the next one.
 *
 * Ownership. After a successful weft_log_join() the QP belongs to the log, which destroys it when
 * the target is lost or left; the program posts nothing on it. The data of an append stay memory of
 * the caller and must not change until its released() has run.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/api.h>
#include <weft/log_format.h>
#include <weft/verbs.h>

WEFT_API_BEGIN

struct weft_log;
struct weft_worker;

/* ---- Events ---- */

enum weft_log_event_type {
	/** A target has been examined. When enough targets have joined, the log can be opened. */
	WEFT_LOG_EV_JOINED,
	WEFT_LOG_EV_OPEN, /**< the log is recovered and ready for appends: head, end, epoch */
	WEFT_LOG_EV_LIVE, /**< a target has all records and gets new ones at once */
	/**
	 * A target and its QP are gone; status says why. Appends continue while a quorum is left.
	 * The target may join again over a new connection and then gets the records that it missed.
	 */
	WEFT_LOG_EV_LOST,
	/**
	 * A single target holds up the log; it is live, or at the end of its catching up. An append
	 * was refused (-EAGAIN, -ENOSPC), and all appends before it are durable without this
	 * target. Reported once, until the target answers something. Call weft_log_leave() in order
	 * not to wait as long as TCP does.
	 */
	WEFT_LOG_EV_LAGGING,
	/**
	 * A target has other octets at `position` than it must have; `damage` says which.
	 * Reported once for all damage found before the report. Comes before LOST with -EBADMSG.
	 * For a record that is whole at another target nothing else happens.
	 */
	WEFT_LOG_EV_DAMAGED,
	/** an append was refused with -EAGAIN or -ENOSPC, and there is room again */
	WEFT_LOG_EV_ROOM,
	/**
	 * The log has ended; status says why: too few targets left (-ENOTCONN), replaced by another
	 * writer (-ESTALE), damage (-EBADMSG). Every append has been reported. Only
	 * weft_log_destroy() is left to do.
	 */
	WEFT_LOG_EV_FAILED,
};

const char *weft_log_event_str(enum weft_log_event_type t);

/** What is damaged at a target. */
enum weft_log_damage {
	/**
	 * Version 1, head or tail word: not a place of the ring, or the head is not in the log that
	 * the tail ends. position: the value of the word.
	 */
	WEFT_LOG_DAMAGE_WORDS,
	/**
	 * The header that the tail word names. position: the value of the word; in version 2,
	 * modulo the length of the ring.
	 */
	WEFT_LOG_DAMAGE_TAIL,
	WEFT_LOG_DAMAGE_HEAD, /**< the header that the head word names */
	/** Header or data of a record that was read. position: where the read began to fail. */
	WEFT_LOG_DAMAGE_RECORD,
	/**
	 * The superblock, though its magic is good; or the magic of a target that was to be
	 * formatted, which is zero though words behind it are not. position: 0
	 */
	WEFT_LOG_DAMAGE_SUPER,
	/* Version 2 only. position: offset of the word in the region. */
	/** the checksum of the card word, which says what the target is in the log */
	WEFT_LOG_DAMAGE_CARD,
	WEFT_LOG_DAMAGE_TAIL_WORD, /**< the checksum of the tail word */
	WEFT_LOG_DAMAGE_HEAD_WORD, /**< the checksum of the head word */
	/**
	 * Tail or head word: the writer of weft_log_event.epoch wrote it after a later writer had
	 * claimed its epoch. The target did not stop the earlier writer.
	 */
	WEFT_LOG_DAMAGE_UNFENCED,
	/** The target's last record is older than its place in the log. position: that record. */
	WEFT_LOG_DAMAGE_LIFE,
};

/**
 * "words", "last record", "first record", "record", "superblock", "card", "tail word", ...; the
 * string is static.
 */
const char *weft_log_damage_str(enum weft_log_damage d);

struct weft_log_event {
	enum weft_log_event_type type;
	uint32_t target;   /**< index that weft_log_join() returned */
	void *target_user; /**< weft_log_target.user */
	/**
	 * LOST: -ENOTCONN (the connection ended), -EACCES (the target refused STag, bounds or
	 * rights), -EIO (its medium failed), -EILSEQ (a Verify found other data than was sent),
	 * -ECANCELED (weft_log_leave()), and the later errors of weft_log_join(). FAILED: see
	 * there.
	 */
	int status;
	/** OPEN: of this writer. JOINED: the highest epoch claimed there. DAMAGED: of UNFENCED. */
	uint64_t epoch;
	/** OPEN: what can be read. JOINED: what this target has; head.seq is 0. */
	struct weft_log_at head, end;
	enum weft_log_damage damage; /**< DAMAGED */
	uint64_t position;           /**< DAMAGED */
};

typedef void (*weft_log_event_fn)(void *user, const struct weft_log_event *ev);

/* ---- Lifecycle ---- */

struct weft_log_attr {
	size_t size; /**< sizeof(struct weft_log_attr) */
	struct weft_ctx *ctx;
	struct weft_pd *pd;         /**< domain of the QPs and of the log's own small region */
	struct weft_worker *worker; /**< worker of the QPs */
	uint32_t targets;           /**< [1] as in the superblocks */
	uint32_t quorum;            /**< [more than half] as in the superblocks */
	/** [256] appends accepted and not yet released, at most 65536; about 300 octets each */
	uint32_t max_appends;
	uint32_t max_sge; /**< [4] pieces of an append, at most WEFT_LOG_MAX_SGE */
	/**
	 * [8] transactions under way to one target. While there are fewer, an append is sent at
	 * once, in a transaction of its own. Later appends are collected and sent together in the
	 * next transaction, when one is answered. Nothing waits for more appends.
	 */
	uint32_t max_transactions;
	uint32_t transaction_bytes; /**< [262144] most octets of appends that share a transaction */
	/**
	 * [65536] buffer for each target, used to copy records that a target missed; at least 8192
	 */
	uint32_t copy_bytes;
	uint32_t flush_flags; /**< [WEFT_FLUSH_PERSISTENT] */
	/**
	 * Verify every record with this hash, which is that of the targets' regions: the medium is
	 * read back before the pointer moves. NULL: no Verify. Costs the hash on both sides.
	 */
	const char *verify_hash;
	const void *hash_key; /**< key of a keyed hash, copied; else NULL */
	uint32_t hash_key_bytes;
	weft_log_event_fn on_event; /**< required */
	void *user;
	/**
	 * [0] how long an open log without enough targets waits for them. With 0 it ends (FAILED,
	 * -ENOTCONN) when the last target that it needs is lost. Else appends stay under way, and
	 * new ones are taken until the window is full, while targets join again over new
	 * connections (weft_log_join()). Each gets the records that it lacks, at the places that
	 * they have: an append that was sent and not answered is compared with what the target has,
	 * and is never there twice. A target that lacks what only another one has waits for it, and
	 * is lost (-EBADMSG) when no other one can bring it. Reads under way wait as well. When the
	 * time is over, the log ends.
	 */
	uint64_t wait_us;
};

#define WEFT_LOG_MAX_SGE 16

/**
 * Create a log. -EINVAL, -ENOENT (no such hash), -ENOMEM, and the errors of weft_cq_create() and
 * weft_mr_reg().
 */
int weft_log_create(const struct weft_log_attr *attr, struct weft_log **out);
/**
 * Destroy the log at once: the QPs are destroyed, appends that are not durable end with -ECANCELED,
 * all appends are released, and reads end with -ECANCELED. There is no event. These callbacks may
 * call weft_log_query(); other calls are refused as for a destroyed log. The targets hold a log: of
 * the appends that were not durable it has a prefix, which may be empty.
 */
void weft_log_destroy(struct weft_log *log);

/**
 * Fill in the attributes that a QP of the log needs: worker, CQs and depths. The QP is created in
 * the log's domain. The caller adds evq and user.
 */
void weft_log_qp_attr(struct weft_log *log, struct weft_qp_attr *qa);

/**
 * A target's memory, as its owner announced it (by weft-target's OPEN, a message, or private data).
 */
struct weft_log_target {
	size_t size;        /**< sizeof(struct weft_log_target) */
	struct weft_qp *qp; /**< established, created with the attributes of weft_log_qp_attr() */
	/**
	 * STag of this connection's grant. Rights: remote read, remote write, flush, and with
	 * verify_hash verify.
	 */
	uint32_t stag;
	/**
	 * Offset of the superblock. The words behind it must be 8-octet aligned in the target's
	 * memory.
	 */
	uint64_t to;
	uint64_t len_bytes;
	void *user; /**< returned in events */
	/**
	 * Not NULL: format the memory like this if it is not formatted; ring_bytes is ignored. Its
	 * magic and octets 4096 to 8191 are zero then; with the magic zero alone it is damaged
	 * (-EBADMSG). A target that lost its memory returns in this way, with a new target_id, and
	 * is given the records again. A new target takes the lowest place that no joined target
	 * has: let members that are away for a moment return first.
	 */
	const struct weft_log_super *format;
};

/**
 * Join a target: examine it, and then report WEFT_LOG_EV_JOINED or WEFT_LOG_EV_LOST. Its words are
 * flushed first and then read (s2.3.2: an Atomic Write is not durable by itself), because a pointer
 * that is in the target's memory, but not on its medium, must not be built upon.
 *
 * On an open log the target gets the records that it misses, beside the appends, and then is LIVE.
 * Records that do not belong to the log, left by a writer that died and never durable, are cut off
 * first.
 *
 * Returns the index of the target, or -EINVAL, -ENOSPC (the log has all its targets), -ENOTCONN
 * (the QP is not established), -EAGAIN (its send queue is not empty), -EPIPE (the log has ended).
 * WEFT_LOG_EV_LOST has the errors of weft_log_super_decode(), and
 * - -EEXIST: this target_id has joined already
 * - -EINVAL: it belongs to another log, or its numbers or ring length differ from those of the
 *   other targets
 * - -EREMCHG: it was replaced: another target has its place in the log, and its records are not
 *   used. It returns only with its memory zeroed, as a new target.
 * - -EOVERFLOW: a new target, and its place has had as many targets as the format can count
 * - -ESTALE: another writer has begun a newer epoch; the log then ends (FAILED)
 * - -EALREADY: the target was joined with this STag before. Its host gave one grant to two
 *   connections, so nothing on it is trusted.
 */
int weft_log_join(struct weft_log *log, const struct weft_log_target *target);
/**
 * Give up a target: its QP is destroyed, and WEFT_LOG_EV_LOST comes before this returns (called in
 * a callback: after it). For a target that lags, and to report a WEFT_EV_DISCONNECTED that comes
 * while nothing is under way. -ENOENT: the QP does not belong to the log, or not any more.
 */
int weft_log_leave(struct weft_log *log, struct weft_qp *qp);

/**
 * Recover from the targets that have joined, and begin an epoch. WEFT_LOG_EV_OPEN or
 * WEFT_LOG_EV_FAILED follows.
 *
 * With n targets and quorum q, max(q, n - q + 1) targets are needed, so that they share a target
 * with any q of them. The log continues from the target whose last record has the highest epoch and
 * then the highest number. Targets that have never been part of the log (newly formatted) do not
 * count, unless all n have joined and none has a record. OPEN comes when the record that begins the
 * epoch is durable at q targets. Then every record that was found is durable at q targets, also if
 * it had reached fewer before.
 *
 * -ENOTCONN: too few targets have joined; wait for more. -EALREADY. -EPIPE.
 */
int weft_log_open(struct weft_log *log);
/**
 * Open the log and at once trim all records before `keep`, which is the weft_log_at of a record or
 * the end. This helps a log that was opened again and again while it was full and was never
 * trimmed: each open takes 64 octets of the space that appends leave free. When these are used up,
 * weft_log_open() ends with FAILED, -ENOSPC. A writer of this log must have been told that all
 * records before `keep` are durable (by durable(), OPEN, or a reader of an open log); else durable
 * records can be lost.
 * FAILED with -EINVAL: `keep` is behind the end, or not a place of a record. `keep` before the
 * head, or NULL: as weft_log_open().
 */
int weft_log_open_trim(struct weft_log *log, const struct weft_log_at *keep);

/* ---- Append and trim ---- */

struct weft_log_append {
	const struct weft_sge *sg_list; /**< copied; lkeys as in struct weft_sge */
	uint32_t num_sge;               /**< 0: a record without data */
	/**
	 * Called in the order of the appends. status 0: durable at a quorum. Otherwise the log has
	 * ended (FAILED, or destroyed), and it is unknown whether recovery will find the record. If
	 * it does not, it finds none of the later records either.
	 */
	void (*durable)(void *arg, const struct weft_log_at *at, int status);
	/**
	 * The data belong to the caller again: no target needs them any more. Called after
	 * durable(). May be NULL.
	 */
	void (*released)(void *arg, const struct weft_log_at *at);
	void *arg;
};

/**
 * Append a record. *at, which may be NULL, gets its place. The data are read once here, for their
 * CRC, and are not copied. Returns 0, or
 * - -ENOTCONN: the log is not open
 * - -EPIPE: the log has ended
 * - -EINVAL
 * - -EMSGSIZE: longer than weft_log_info.max_record_bytes
 * - -EAGAIN: max_appends are not released yet, or it has to wait as long as the log waits for
 *   targets (wait_us); WEFT_LOG_EV_ROOM follows
 * - -ENOSPC: the ring is full, so trim; WEFT_LOG_EV_ROOM follows
 */
int weft_log_append(struct weft_log *log, const struct weft_log_append *append,
                    struct weft_log_at *at);
/**
 * Give up all records before `keep`: the place of a record, as weft_log_append(), a reader or an
 * event named it, or the end of what is durable. The record at `keep` need not be durable, if all
 * records before it are: the log's head is then the durable end, which is the same place. Each
 * target executes this in turn; it is durable there before the memory is used again. Returns 0,
 * also if these records are trimmed already, or
 * - -EINVAL: a record before `keep` is not durable yet, or `keep` is not a place of a record as far
 *   as can be seen here
 * - -ENOTCONN, -EPIPE
 *
 * A log whose head names no record could not be opened. So the place must be proven: the last
 * max_appends records that this writer appended are known; of an older one the header is read from
 * a target first. If no target has a record of this number there, nothing is trimmed, and
 * weft_log_info.bad_trims counts it. While such a read is under way, the highest of the other old
 * places that come waits for it.
 */
int weft_log_trim(struct weft_log *log, const struct weft_log_at *keep);

/* ---- Read ---- */

/** Records as they came from a target. They lie in the caller's buffer. */
struct weft_log_chunk {
	/**
	 * 0; -EMSGSIZE: the record is longer than the buffer; -EBADMSG: damaged at every target
	 * that was asked
	 */
	int status;
	/** place of the next weft_log_chunk_next(); after the last record, where to read on */
	struct weft_log_at at;
	uint64_t need_bytes; /**< with -EMSGSIZE: a buffer of this length suffices */
	/* internal */
	const struct weft_log *log;
	const uint8_t *data;
	uint32_t left_bytes;
};

/**
 * The next record of a chunk, with CRC, number and epoch checked. 1, or 0: no further whole record.
 */
int weft_log_chunk_next(struct weft_log_chunk *chunk, struct weft_log_record *rec);

/**
 * chunk belongs to the log and is valid until the function returns; its records lie in the buffer.
 */
typedef void (*weft_log_read_fn)(void *arg, struct weft_log_chunk *chunk);

/**
 * Read durable records from `at` on into buf by RDMA Read, as many as fit. `at` is a place of this
 * log: the head or end that WEFT_LOG_EV_OPEN reported, a chunk's `at`, or the place of an append
 * that was reported as durable. The place of an append that an earlier writer lost is none, and
 * may be read as the lost record (docs/log-format.md, filler). fn is called once, with
 * whole and checked records. If the copy of one target is damaged, this is counted
 * (weft_log_info.bad_reads) and the next target is asked. buf has at least WEFT_LOG_HEADER_BYTES
 * and an lkey with WEFT_ACCESS_LOCAL_WRITE; it belongs to the log until fn is called. Returns 0,
 * and fn is called (with -ECANCELED or -ENOTCONN if the log ends), or
 * - -ENODATA: `at` is the end
 * - -EINVAL: `at` is before the head, or not a place of a record
 * - -EAGAIN: WEFT_LOG_MAX_READS reads are under way, or no target can take one now
 * - -ENOTCONN, -EPIPE
 */
int weft_log_read(struct weft_log *log, const struct weft_log_at *at, const struct weft_sge *buf,
                  weft_log_read_fn fn, void *arg);

#define WEFT_LOG_MAX_READS 16

/* ---- Counters ---- */

enum weft_log_state { WEFT_LOG_NEW, WEFT_LOG_OPENING, WEFT_LOG_OPENED, WEFT_LOG_FAILED };

enum weft_log_target_state {
	WEFT_LOG_TARGET_NONE,
	WEFT_LOG_TARGET_LOOKING,  /**< being examined */
	WEFT_LOG_TARGET_JOINED,   /**< waits for weft_log_open() */
	WEFT_LOG_TARGET_CATCHING, /**< gets the records that it missed */
	WEFT_LOG_TARGET_LIVE,
};

struct weft_log_info {
	enum weft_log_state state;
	uint32_t version; /**< version of the format, 1 or 2; 0: no target has been examined yet */
	uint64_t epoch;
	struct weft_log_at head;    /**< as last trimmed */
	struct weft_log_at durable; /**< behind the last durable record */
	struct weft_log_at end;     /**< behind the last appended record */
	uint64_t ring_bytes;
	uint32_t max_record_bytes;      /**< longest data of an append */
	uint64_t appends, append_bytes; /**< accepted appends; octets of their data */
	/**
	 * transactions sent to targets, and the records in them; tells how many appends share one
	 */
	uint64_t transactions, transaction_records;
	uint64_t full_window, full_ring; /**< appends refused with -EAGAIN, with -ENOSPC */
	/** executed; given up, because no target has a record of this number at the place */
	uint64_t trims, bad_trims;
	uint64_t reads, bad_reads;
	/** targets lost, including those left by weft_log_leave() */
	uint64_t lost;
	uint64_t copied_records, copied_bytes; /**< copied to targets that had missed them */
	/** targets that had other records cut off; targets that were begun anew */
	uint64_t cuts, resets;
	struct {
		enum weft_log_target_state state;
		void *user;
		uint8_t id[16];
		/** behind the last record that is durable at this target */
		struct weft_log_at durable;
		uint64_t head;         /**< position of the target's first record */
		uint32_t transactions; /**< transactions under way */
		/**
		 * Identity: its place among the targets, and which target in that place it is,
		 * counted from 1. 0: none (yet), and always in version 1.
		 */
		uint32_t place, life;
	} target[WEFT_LOG_MAX_TARGETS];
	uint64_t waits; /**< times that the log waited for targets (weft_log_attr.wait_us) */
};

void weft_log_query(const struct weft_log *log, struct weft_log_info *info);

WEFT_API_END

#endif /* WEFT_LOG_H */
