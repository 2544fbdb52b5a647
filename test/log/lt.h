/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LT_H
#define LT_H

/**
 * @file
 * A log, its targets, and a check of the media.
 *
 * The writer is node 0. The targets are regions at node 1, each on a medium of its own (persist
 * driver "sim") with a QP of its own. The content of the media at any moment is what remains if all
 * nodes fail then, so it is checked at every step, by the rules of recovery. For each set of
 * targets that could survive, the best target must be a valid log. Its records must be the appended
 * ones in order, with every durable record.
 */

#include "log_priv.h"
#include "log_sabotage.h"
#include "rdmap_sabotage.h"
#include "vt.h"
#include <weft/log_host.h>
#include "weft_persist_sim.h"

#define LT_TARGETS    5
#define LT_SINK_BYTES 65536
#define LT_RECORDS    4096

enum lt_verdict {
	LT_SOUND,
	LT_DAMAGED,  /**< the image that recovery would use is not a valid log */
	LT_LOST,     /**< a durable record, or one that was not trimmed, is missing */
	LT_WRONG,    /**< a record differs from the appended one */
	LT_FAILED,   /**< the log ended with an error */
	LT_UNFENCED, /**< granted while the medium was busy for the former holder */
	LT_VERDICTS
};

struct lt_attr {
	uint64_t seed;
	uint32_t targets, quorum;
	uint32_t spares; /**< media in addition, of targets that replace others */
	uint64_t ring_bytes;
	uint32_t version;     /**< version of the format; 0: the newest */
	unsigned int appends; /**< appends that must become durable */
	unsigned int depth;   /**< appends in flight; 0: random */
	uint32_t max_len;     /**< longest record data; 0: random */
	uint32_t window;      /**< most appends in flight that the log allows; 0: 32 */
	bool any_trim; /**< trims also to places of records in flight and around fillers, and wrong
	                  ones */
	bool verify, no_trim, no_judge, remote_format;
	bool quick;      /**< no loss on links, no delay of media */
	bool same_grant; /**< a holder that reconnects gets the same grant */
	bool no_fence;   /**< the host forgets its former grants */
	struct sim_link_cfg *link;
	enum weft_rdmap_sabotage stack;
	enum log_sabotage log;
	struct weft_log_attr *la; /**< attributes of the log; NULL: defaults */
};

struct lt_record {
	uint32_t len_bytes;
	bool opening;
	uint8_t *data;
	struct weft_log_at at;
};

/** The decoded words of a target's medium: its identity and the ends of its log. */
struct lt_words {
	struct log_card card;
	uint64_t tail, head, end, lives; /**< 0: none */
	bool anew;                       /**< the target was started anew and has no records yet */
	uint32_t knows;                  /**< if anew: sum of the lives that it knows */
	bool bad;                        /**< the words are not a valid state */
};

struct lt_target {
	struct lt *lt;
	unsigned int i;
	struct weft_persist *persist;
	struct weft_log_host *host;
	uint32_t stag; /**< STag of the last grant; 0: none yet */
	struct weft_qp *server, *client;
	bool off; /**< the target has no power */
	/** The target's memory was lost. It does not count until its card says that it is seated,
	 * that is, that it has all records. */
	bool wiped;
	/** The target's words were damaged. It does not count, and no writer may change it before
	 * it is reported. */
	bool rotten;
	uint8_t wipes;
	uint8_t *seen;        /**< the medium at the last check */
	uint64_t seen_writes; /**< changes of the medium until the last check */
	/** records that were compared with the model: position of the first, and the number
	 * behind the last with data; 0: none yet */
	uint64_t same_from, same_end;
	/** the medium at the last check, decoded */
	struct lt_words words;
	struct weft_log_image image;
	int image_rc;
	bool moved; /**< the medium changed since the check before */
	int joined; /**< index in the log; -1: not joined */
	/** the head of the open log when the target joined, or when the log was opened after that;
	 * 0: not yet */
	uint64_t join_head_seq;
	int lost; /**< error of the last loss; 0: none since it joined */
};

struct lt {
	struct vt t;
	struct lt_attr a;
	struct weft_persist_sim_cfg cfg;
	struct lt_target target[LT_TARGETS];
	uint32_t media; /**< number of targets and spares */
	struct weft_log *log;
	uint64_t region_bytes, rng, next_content;
	unsigned int depth;
	uint32_t max_len;
	/* The model of the log. Records are indexed by their sequence number. */
	struct lt_record rec[LT_RECORDS];
	uint64_t appended, durable, told, released; /**< each: the next sequence number */
	uint64_t trim_seq;                          /**< trim requested since the log was opened */
	/** Highest trim ever requested. A target may have executed a trim of a writer that died. */
	uint64_t trim_max;
	uint64_t epoch;
	unsigned int in_flight, bufs;
	uint64_t done; /**< durable appends */
	bool ahead;    /**< the run ends here: a trim went to a record in flight behind a filler */
	/** trims to a record in flight, to the end in front of a filler; of trims to a wrong
	 * position, those refused at once, and those looked up at a target first */
	uint64_t trims_ahead, trims_before, trims_refused, trims_looked_up;
	/* state of a run */
	bool pump, open, recovered, failed, cut;
	int fail_status;
	uint64_t steps, cut_at;
	enum lt_verdict verdict;
	uint64_t judged, judged_promise, events[WEFT_LOG_EV_FAILED + 1];
	int lost_status;
	unsigned int damaged; /**< bit mask of the targets reported as damaged */
	enum weft_log_damage damage;
	uint64_t damage_pos, damage_epoch;
	struct weft_log_at head, end; /**< result of the open */
	/* state of a read */
	uint8_t *sink;
	struct weft_mr *sink_mr;
	bool read_done;
	struct weft_log_chunk chunk;
	uint64_t read_seq;
	const char *read_fault;
};

void lt_open(struct lt *l, const struct lt_attr *a);
void lt_close(struct lt *l);
uint64_t lt_draw(struct lt *l, uint64_t n);
/** Create the log without targets. */
void lt_log(struct lt *l);
/** Connect and join target i. Returns 0 or the error of the join. EV_JOINED or EV_LOST follows. */
int lt_join(struct lt *l, unsigned int i);
/** Run until a condition is true, for a limited time. Returns whether it became true. */
bool lt_until(struct lt *l, bool (*cond)(void *arg));
/** Join the targets of the bit mask, open the log and read all of it. */
void lt_recover(struct lt *l, unsigned int which);
/** The same; the open trims to keep. */
void lt_recover_trim(struct lt *l, unsigned int which, const struct weft_log_at *keep);
/** Append until a.appends are durable, a check fails, or step cut_at is reached. */
void lt_run(struct lt *l);
/** The writer crashes. Only the packets that it sent may still arrive. */
void lt_kill_writer(struct lt *l);
/** Revoke all grants without a notice to the holder. A target that joins later gets a new grant
 * when no work of the old one is in flight. */
void lt_revoke(struct lt *l);
void lt_revoke_one(struct lt *l, unsigned int i);
/** Overwrite len octets of target i's medium at offset off of the region. No writer may have a
 * grant of it. */
void lt_poke(struct lt *l, unsigned int i, uint64_t off, const void *octets, uint32_t len);
/** Replace the medium of target i by one with zeros. */
void lt_wipe_target(struct lt *l, unsigned int i);
/** Cut the power of target i. Its connection is lost too. */
void lt_cut_target(struct lt *l, unsigned int i);
void lt_boot_target(struct lt *l, unsigned int i);
/** Read the log from head to end and compare it with the model. Returns the difference, or NULL. */
const char *lt_read_all(struct lt *l);
/** Append one record of len octets. Returns 0 or the error of weft_log_append(). */
int lt_append(struct lt *l, uint32_t len);
/**
 * Trim to this record with a wrong position, off octets behind the right one: the log must refuse
 * the trim, or find at a target that no record is there. Does nothing if that position is the end
 * of the record in front.
 */
void lt_trim_wrong(struct lt *l, uint64_t seq, int64_t off);
void lt_judge(struct lt *l);
struct lt_words lt_words(const struct lt *l, unsigned int i);
/** Add to the model the records that the log appended by itself (the seats of targets). */
void lt_sync(struct lt *l);
/** Whether the record with this sequence number has these data. */
bool lt_same(const struct lt *l, uint64_t seq, const void *data, uint32_t len);
void lt_remember(struct lt *l, uint64_t seq, struct lt_record r);
void lt_link(struct lt *l, bool down);
/** Raise trim_max to the trim requested last. */
static inline void
lt_trimmed(struct lt *l)
{
	l->trim_max = RTE_MAX(l->trim_max, l->trim_seq);
	l->trim_max = RTE_MAX(l->trim_max, 1UL);
}

const char *lt_verdict_str(enum lt_verdict v);
struct weft_log_info lt_info(struct lt *l);

#endif /* LT_H */
