/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_LOG_H
#define WEFT_LOG_H

/**
 * @file A remote log: append records to the memory of one target or several, one-sided, in the log
 * record and log pointer way of draft-talpey-rdma-commit-02 s1.5. Installed; stands alone.
 *
 * A record travels as Write, Flush, (Verify,) Atomic Write of the log pointer, Flush of the
 * pointer, in one breath (weft/commit.h); it is durable when that last Flush is answered, and an
 * append is when so many targets as the quorum says have done so. Many are under way at once.
 * Whatever dies whenever, writer, target, power: what recovery finds is a prefix of what was
 * appended, with all that was reported durable. docs/log-format.md has the octets, the rules and
 * what happens at each point of a crash.
 *
 * 	weft_log_create() for each target: weft_log_qp_attr(), weft_qp_create(), weft_connect(), and
 * 	once ESTABLISHED weft_log_join()
 * 	weft_log_open()      -> WEFT_LOG_EV_OPEN: head and end of what was recovered
 * 	weft_log_read() ...  from head to end: the application recovers
 * 	weft_log_append() ... weft_log_trim() ...
 * 	weft_log_destroy()
 *
 * One writer. Each target must let one writer in at a time, and give each connection a grant of its
 * own: a registration with another STag, given when the one before has ended and nothing that came
 * by it can touch memory or medium any more, which is when freed() of its weft_mr_dereg() has run.
 * That the old STag resolves no more is not enough. weft/log_host.h does all of this. An Atomic
 * Write is not conditional, so nothing else can stop a writer that was presumed dead; and a writer
 * that joins again is no other case, what it sent by the connection it lost may still be under way.
 * What the log adds: the STag that a target was joined with last stands in its grant word, and a
 * second join with it is refused (-EALREADY). Every writer begins an epoch, which stands in its
 * records and at the targets. Records of one that was overtaken are never mistaken for records of
 * the log, and it learns that it was overtaken when it joins a target again (-ESTALE). What it may
 * have destroyed stays destroyed: the log finds that the fence was missing, it cannot replace it.
 *
 * Threads: every function here is called on the worker's thread, and acts at once; callbacks run
 * there. While another thread polls the worker a call is -EPERM; weft_log_destroy() then does
 * nothing, weft_log_query() and weft_log_qp_attr() fill in zeros. NULL, destroyed logs and
 * attributes of another version: "Misuse" in weft/verbs.h. Callbacks may call every function here,
 * weft_log_destroy() too. Nothing blocks; no clock. No heap once a log is made but for one small
 * alarm of the worker's when there is something to tell from inside a call; without memory it is
 * told at the next one.
 *
 * Ownership: a QP belongs to the log from a successful weft_log_join(), which destroys it when the
 * target is lost or left; nothing else is posted on it. The data of an append stay the caller's
 * memory and must not change until released() of it has run.
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
	/** target: it has been looked at; enough of them, and the log can be opened */
	WEFT_LOG_EV_JOINED,
	WEFT_LOG_EV_OPEN, /**< recovered and ready for appends: head, end, epoch */
	WEFT_LOG_EV_LIVE, /**< target: it has all records, and gets the new ones at once */
	/**
	 * target: it is gone, and its QP with it; status says why. What is appended goes on while a
	 * quorum is left. It may join again over a new connection, and then gets what it missed.
	 */
	WEFT_LOG_EV_LOST,
	/**
	 * target: it alone holds up the log, live or at the end of its catching up. An append was
	 * refused (-EAGAIN, -ENOSPC), and all before it is durable without this one. Told once,
	 * until it answers something. Who does not want to wait, for as long as TCP does, calls
	 * weft_log_leave().
	 */
	WEFT_LOG_EV_LAGGING,
	/**
	 * target: what it holds at `position` is not what it must be, and `damage` says what that
	 * is. Told once for all that is found before it can be told. Told before LOST with
	 * -EBADMSG; of a record that another target has whole, nothing else happens.
	 */
	WEFT_LOG_EV_DAMAGED,
	WEFT_LOG_EV_ROOM, /**< after -EAGAIN or -ENOSPC of an append: there is room again */
	/**
	 * The log has ended, status says why: too few targets left (-ENOTCONN), overtaken by
	 * another writer (-ESTALE), damage (-EBADMSG). Every append was told. weft_log_destroy() is
	 * what is left to do.
	 */
	WEFT_LOG_EV_FAILED,
};

const char *weft_log_event_str(enum weft_log_event_type t);

/** What is damaged at a target. */
enum weft_log_damage {
	/** version 1, head or tail word: no place of the ring, or the head is not in the log that
	 * the tail ends; position: what it names */
	WEFT_LOG_DAMAGE_WORDS,
	/** the header that the tail word names; position: that; version 2: modulo the ring's length
	 */
	WEFT_LOG_DAMAGE_TAIL,
	WEFT_LOG_DAMAGE_HEAD, /**< the header that the head word names */
	/** header or data of a record that was read; position: where the read began to fail */
	WEFT_LOG_DAMAGE_RECORD,
	WEFT_LOG_DAMAGE_SUPER, /**< the superblock behind a good magic; position: 0 */
	/* Version 2 alone. position: the word's offset in the region */
	/** the check of the word that says what the target is in the log */
	WEFT_LOG_DAMAGE_CARD,
	WEFT_LOG_DAMAGE_TAIL_WORD, /**< the check of the tail word */
	WEFT_LOG_DAMAGE_HEAD_WORD, /**< the check of the head word */
	/** tail or head word: a writer of weft_log_event.epoch wrote it when a later one had been
	 * claimed: the target did not stop it */
	WEFT_LOG_DAMAGE_UNFENCED,
	/** its last record is older than its place in the log; position: that record */
	WEFT_LOG_DAMAGE_LIFE,
};

/** "words", "last record", "first record", "record", "superblock", "card", "tail word", ...;
 * static. */
const char *weft_log_damage_str(enum weft_log_damage d);

struct weft_log_event {
	enum weft_log_event_type type;
	uint32_t target;   /**< index that weft_log_join() gave */
	void *target_user; /**< weft_log_target.user */
	/**
	 * LOST: -ENOTCONN (the connection ended), -EACCES (the target refused: STag, bounds,
	 * rights), -EIO (its medium failed), -EILSEQ (a Verify found something else than was sent),
	 * -ECANCELED (weft_log_leave()), and what weft_log_join() finds out later (there). FAILED:
	 * above.
	 */
	int status;
	/** OPEN; JOINED: the highest claimed there; DAMAGED: of UNFENCED */
	uint64_t epoch;
	struct weft_log_at head, end; /**< OPEN: what can be read. JOINED: what this target has */
	enum weft_log_damage damage;  /**< DAMAGED */
	uint64_t position;            /**< DAMAGED */
};

typedef void (*weft_log_event_fn)(void *user, const struct weft_log_event *ev);

/* ---- Lifecycle ---- */

struct weft_log_attr {
	size_t size; /**< sizeof(struct weft_log_attr) */
	struct weft_ctx *ctx;
	struct weft_pd *pd;         /**< of the QPs, and of the log's own small region */
	struct weft_worker *worker; /**< of the QPs */
	uint32_t targets;           /**< [1] as in the superblocks */
	uint32_t quorum;            /**< [more than half] likewise */
	/** [256] accepted and not released yet, at most 65536; some 300 octets each */
	uint32_t max_appends;
	uint32_t max_sge; /**< [4] pieces of an append, at most WEFT_LOG_MAX_SGE */
	/**
	 * [8] pipelined units to a target. While fewer are under way an append leaves at once, as a
	 * unit of its own; what is appended meanwhile leaves together as the next unit, when one is
	 * answered. Nothing waits for more.
	 */
	uint32_t max_units;
	uint32_t unit_bytes; /**< [262144] of appends that share a unit */
	/** [65536] buffer of each target to copy records to one that missed some; at least 8192 */
	uint32_t copy_bytes;
	uint32_t flush_flags; /**< [WEFT_FLUSH_PERSISTENT] */
	/**
	 * Verify every record with this hash, that of the targets' regions: the medium is read back
	 * before the pointer moves. NULL: not. Costs the hash here and there.
	 */
	const char *verify_hash;
	const void *hash_key; /**< of a keyed one, copied; else NULL */
	uint32_t hash_key_bytes;
	weft_log_event_fn on_event; /**< needed */
	void *user;
};

#define WEFT_LOG_MAX_SGE 16

/** -EINVAL, -ENOENT (no such hash), -ENOMEM, and what weft_cq_create() and weft_mr_reg() say. */
int weft_log_create(const struct weft_log_attr *attr, struct weft_log **out);
/**
 * At once: the QPs are destroyed, appends not durable end with -ECANCELED, all are released, reads
 * end with -ECANCELED; no event. Those that are told so may still call weft_log_query(); other
 * calls are refused as if it were over. What the targets hold is a log: each append that was not
 * durable is there, or not, a prefix of them in any case.
 */
void weft_log_destroy(struct weft_log *log);

/**
 * The attributes a QP of the log needs: pd is the log's, worker, CQs and depths are filled in; the
 * caller adds evq and user.
 */
void weft_log_qp_attr(struct weft_log *log, struct weft_qp_attr *qa);

/** A target's memory, as its owner told of it (weft-target's OPEN, a message, private data). */
struct weft_log_target {
	size_t size;        /**< sizeof(struct weft_log_target) */
	struct weft_qp *qp; /**< established, made as weft_log_qp_attr() says */
	/** of this connection's grant; rights: remote read, remote write, flush, and verify with
	 * verify_hash */
	uint32_t stag;
	/** of the superblock; the words behind it must be 8-octet aligned in the target's memory */
	uint64_t to;
	uint64_t len_bytes;
	void *user; /**< returned in events */
	/**
	 * Not NULL: format it when it is not formatted (magic of zeros), as this says; ring_bytes
	 * is not looked at. A target that lost its memory comes back so, with a new target_id, and
	 * is given the records again.
	 */
	const struct weft_log_super *format;
};

/**
 * Look at a target: WEFT_LOG_EV_JOINED, or WEFT_LOG_EV_LOST with the errors of
 * weft_log_super_decode(), -EEXIST (the target is there already: its target_id), -EINVAL (of
 * another log, other numbers or ring length than the targets before), -ESTALE (another writer has
 * begun a newer epoch: the log is told that it FAILED), -EALREADY (the target was joined with this
 * STag before: its host gave one grant for two connections, and nothing there is believed).
 *
 * First the words are flushed, then read (s2.3.2: an Atomic Write is not durable by itself): a
 * pointer that the target's memory has and its medium has not must not be built upon.
 *
 * On an open log it gets the records it misses, beside the appends, and then is LIVE. Records it
 * has that are not the log's (a writer that died left them, never durable) are cut off first.
 *
 * The index of the target, or -EINVAL, -ENOSPC (as many as the log has are there), -ENOTCONN (QP
 * not established), -EAGAIN (its send queue is not empty), -EPIPE (the log has ended).
 */
int weft_log_join(struct weft_log *log, const struct weft_log_target *target);
/**
 * Do without this target: its QP is destroyed, WEFT_LOG_EV_LOST comes before the return (called
 * from inside a callback: behind it). For one that lags, and to hand over a WEFT_EV_DISCONNECTED
 * that comes while nothing is under way. -ENOENT: the QP is none of the log's (any more).
 */
int weft_log_leave(struct weft_log *log, struct weft_qp *qp);

/**
 * Recover with the targets that have JOINED, and begin an epoch: WEFT_LOG_EV_OPEN or
 * WEFT_LOG_EV_FAILED.
 *
 * Of n targets with quorum q max(q, n - q + 1) are needed, so that they and any q have one in
 * common; of these the one whose last record has the highest epoch, then the highest number, is
 * right. Targets that have never been part of the log (formatted anew) do not count, unless all n
 * are there and none has a record. OPEN comes when the record by which the epoch begins is durable
 * at q targets: records that were found, but had reached fewer, are so as well.
 *
 * -ENOTCONN: too few have joined, wait for more. -EALREADY. -EPIPE.
 */
int weft_log_open(struct weft_log *log);
/**
 * The same, and give up all records before `keep` (weft_log_at of a record, or the end) at once.
 * The way out for a log that was opened again and again while it was full, and never trimmed: each
 * open takes 64 octets of what appends left free, and when these have been taken weft_log_open()
 * ends with FAILED, -ENOSPC. `keep` must be something that a writer of this log was told is durable
 * (durable(), OPEN, a reader of an open log), else records that are durable can be lost. FAILED
 * with -EINVAL: behind the end, or no place of a record. Before the head, or NULL: as
 * weft_log_open().
 */
int weft_log_open_trim(struct weft_log *log, const struct weft_log_at *keep);

/* ---- Append and trim ---- */

struct weft_log_append {
	const struct weft_sge *sg_list; /**< copied; lkeys as in struct weft_sge */
	uint32_t num_sge;               /**< 0: a record without data */
	/**
	 * Durable at a quorum (status 0), in the order of the appends. Or the log ended (FAILED,
	 * destroyed): status says why, and whether recovery will find the record is not known; if
	 * it does not, it finds none of those behind it either.
	 */
	void (*durable)(void *arg, const struct weft_log_at *at, int status);
	/** The data are the caller's again: no target needs them any more. After durable(). May be
	 * NULL. */
	void (*released)(void *arg, const struct weft_log_at *at);
	void *arg;
};

/**
 * Append. *at (may be NULL) is where the record is. The data are read once here, for their CRC, and
 * not copied. -ENOTCONN (not open), -EPIPE (the log has ended), -EINVAL, -EMSGSIZE (longer than
 * weft_log_info.max_record_bytes), -EAGAIN (max_appends are not released yet), -ENOSPC (the ring is
 * full: trim). After the last two WEFT_LOG_EV_ROOM.
 */
int weft_log_append(struct weft_log *log, const struct weft_log_append *append,
                    struct weft_log_at *at);
/**
 * Give up all records before `keep`: one that weft_log_append(), a reader or an event told of, or
 * the end of what is durable. Takes effect at each target in its turn, durably there before its
 * memory is used again. -EINVAL (not durable yet, or no place of a record, as far as that can be
 * seen from here: a log whose head names no record cannot be opened), -ENOTCONN, -EPIPE; 0 also
 * when it is trimmed already.
 */
int weft_log_trim(struct weft_log *log, const struct weft_log_at *keep);

/* ---- Read ---- */

/** Records as they came from a target, in the buffer that was given. */
struct weft_log_chunk {
	/** 0; -EMSGSIZE: the record is longer than the buffer; -EBADMSG: damaged at every target
	 * asked */
	int status;
	/** of the next weft_log_chunk_next(); behind the last one: where to read on */
	struct weft_log_at at;
	uint64_t need_bytes; /**< -EMSGSIZE: a buffer of that length will do */
	/* internal */
	const struct weft_log *log;
	const uint8_t *data;
	uint32_t left_bytes;
};

/** The next record of a chunk, checked (CRC, number, epoch): 1, or 0: no more whole ones. */
int weft_log_chunk_next(struct weft_log_chunk *chunk, struct weft_log_record *rec);

/** chunk is the log's, good until the return; the records in it lie in the buffer. */
typedef void (*weft_log_read_fn)(void *arg, struct weft_log_chunk *chunk);

/**
 * RDMA Read what is durable from `at` on into buf, as much as it holds; fn comes once. Whole
 * records are delivered, and checked: a target whose copy is damaged is counted
 * (weft_log_info.bad_reads), and the next is asked. buf: at least WEFT_LOG_HEADER_BYTES, lkey with
 * WEFT_ACCESS_LOCAL_WRITE, the log's until fn. -ENODATA: `at` is the end. -EINVAL: before the head,
 * or no place of a record. -EAGAIN: WEFT_LOG_MAX_READS are under way, or no target can take it now.
 * -ENOTCONN, -EPIPE. Otherwise 0, and fn comes (-ECANCELED, -ENOTCONN when the log ends).
 */
int weft_log_read(struct weft_log *log, const struct weft_log_at *at, const struct weft_sge *buf,
                  weft_log_read_fn fn, void *arg);

#define WEFT_LOG_MAX_READS 16

/* ---- Counters ---- */

enum weft_log_state { WEFT_LOG_NEW, WEFT_LOG_OPENING, WEFT_LOG_OPENED, WEFT_LOG_FAILED };

enum weft_log_target_state {
	WEFT_LOG_TARGET_NONE,
	WEFT_LOG_TARGET_LOOKING,  /**< being looked at */
	WEFT_LOG_TARGET_JOINED,   /**< waits for weft_log_open() */
	WEFT_LOG_TARGET_CATCHING, /**< gets what it missed */
	WEFT_LOG_TARGET_LIVE,
};

struct weft_log_info {
	enum weft_log_state state;
	uint32_t version; /**< of the format: 1 or 2; 0: no target was looked at yet */
	uint64_t epoch;
	struct weft_log_at head;    /**< as trimmed last */
	struct weft_log_at durable; /**< behind the last durable record */
	struct weft_log_at end;     /**< behind the last appended one */
	uint64_t ring_bytes;
	uint32_t max_record_bytes;      /**< longest data of an append */
	uint64_t appends, append_bytes; /**< accepted; octets of data */
	/** sent to targets, and records in them: how much was shared */
	uint64_t units, unit_records;
	uint64_t full_window, full_ring; /**< appends refused with -EAGAIN, with -ENOSPC */
	uint64_t trims, reads, bad_reads;
	uint64_t lost;                         /**< targets lost, left ones too */
	uint64_t copied_records, copied_bytes; /**< to targets that had missed them */
	/** targets that had other records cut off; that were begun anew */
	uint64_t cuts, resets;
	struct {
		enum weft_log_target_state state;
		void *user;
		uint8_t id[16];
		struct weft_log_at durable; /**< behind the last record that is durable there */
		uint64_t head;              /**< position of its first record */
		uint32_t units;             /**< under way */
		/** who it is: its place among the targets, and which one in that place, from 1; 0:
		 * it has none (yet). Version 1: 0 */
		uint32_t place, life;
	} target[WEFT_LOG_MAX_TARGETS];
};

void weft_log_query(const struct weft_log *log, struct weft_log_info *info);

WEFT_API_END

#endif /* WEFT_LOG_H */
