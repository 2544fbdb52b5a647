/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LT_H
#define LT_H

/**
 * @file
 * A log, its targets, and a judge.
 *
 * The writer is node 0, the targets are regions at node 1, each on a medium of its own (persist
 * driver "sim") and behind a QP of its own. What the media hold at a moment is what is left if
 * everybody dies then, so it is judged at every step, as recovery would: of each set of targets
 * that could be the ones that are left, the best one is a log, its records are those that were
 * appended, in order, and every durable one is there.
 */

#include "log_priv.h"
#include "vt.h"
#include <weft/log_host.h>
#include "weft_persist_sim.h"

#define LT_TARGETS    5
#define LT_SINK_BYTES 65536
#define LT_RECORDS    4096

enum lt_verdict {
	LT_SOUND,
	LT_DAMAGED,  /**< what recovery would take is no log */
	LT_LOST,     /**< it lacks what was durable, or what was not trimmed */
	LT_WRONG,    /**< a record that is not what was appended there */
	LT_FAILED,   /**< the log ended by itself */
	LT_UNFENCED, /**< memory was granted while the medium was busy for who had it before */
	LT_VERDICTS
};

struct lt_attr {
	uint64_t seed;
	uint32_t targets, quorum;
	uint32_t spares; /**< more media, of targets that come in the place of others */
	uint64_t ring_bytes;
	uint32_t version;     /**< of the format; 0: the newest */
	unsigned int appends; /**< to be durable */
	unsigned int depth;   /**< appends in flight; 0: drawn */
	uint32_t max_len;     /**< of data; 0: drawn */
	bool verify, no_trim, no_judge, remote_format;
	bool quick;      /**< links without loss, media without delay */
	bool same_grant; /**< who has a grant and connects again gets the same */
	bool no_fence;   /**< who hosts the targets forgets what it granted before */
	struct sim_link_cfg *link;
	enum weft_rdmap_sabotage stack;
	enum log_sabotage log;
	struct weft_log_attr *la; /**< numbers of it */
};

struct lt_record {
	uint32_t len_bytes;
	bool opening;
	uint8_t *data;
	struct weft_log_at at;
};

struct lt_target {
	struct lt *lt;
	unsigned int i;
	struct weft_persist *persist;
	struct weft_log_host *host;
	uint32_t stag; /**< granted last; 0: not yet */
	struct weft_qp *server, *client;
	bool off; /**< its power is gone */
	/** its memory was lost; until its epoch word says that it has all it counts for nothing */
	bool wiped;
	/** what its words say was damaged: nobody may count it, or touch it before it was named */
	bool rotten;
	uint8_t wipes;
	uint8_t *seen; /**< the medium as it was judged last */
	int joined;    /**< index in the log, -1: none */
	int lost;      /**< why it was lost last; 0: it was not since it joined */
};

struct lt {
	struct vt t;
	struct lt_attr a;
	struct weft_persist_sim_cfg cfg;
	struct lt_target target[LT_TARGETS];
	uint32_t media; /**< targets and spares */
	struct weft_log *log;
	uint64_t region_bytes, rng, next_content;
	unsigned int depth;
	uint32_t max_len;
	/* the model: by number of the record */
	struct lt_record rec[LT_RECORDS];
	uint64_t appended, durable, told, released; /**< numbers: the next one, each */
	uint64_t trim_seq;                          /**< asked for, of the log as it was opened */
	uint64_t trim_max; /**< of all times: a target may have done it when its writer died */
	uint64_t epoch;
	unsigned int in_flight, bufs;
	uint64_t done; /**< appends that became durable */
	/* running */
	bool pump, open, recovered, failed, cut;
	int fail_status;
	uint64_t steps, cut_at;
	enum lt_verdict verdict;
	uint64_t judged, judged_promise, events[WEFT_LOG_EV_FAILED + 1];
	int lost_status;
	unsigned int damaged; /**< targets that were said to hold something damaged: bits */
	enum weft_log_damage damage;
	uint64_t damage_pos, damage_epoch;
	struct weft_log_at head, end; /**< of the open */
	/* reading */
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
/** Make the log; its targets are not there yet. */
void lt_log(struct lt *l);
/** Connect and join one. 0 or the error of the join; EV_JOINED or EV_LOST comes later. */
int lt_join(struct lt *l, unsigned int i);
/** Wait for a condition, for a while. */
bool lt_until(struct lt *l, bool (*cond)(void *arg));
/** Join these (bits), open, and read it all. */
void lt_recover(struct lt *l, unsigned int which);
/** The same, trimming with the open. */
void lt_recover_trim(struct lt *l, unsigned int which, const struct weft_log_at *keep);
/** Until a.appends are durable, or something is wrong, or the step of the cut. */
void lt_run(struct lt *l);
/** The writer dies: nothing of it is left but what it sent. */
void lt_kill_writer(struct lt *l);
/** The grants end; who had them hears nothing. Whoever joins gets another when nothing of the old
 * one is under way. */
void lt_revoke(struct lt *l);
void lt_revoke_one(struct lt *l, unsigned int i);
/** Other octets at its medium, while nobody has a grant: so many of the region, at this offset. */
void lt_poke(struct lt *l, unsigned int i, uint64_t off, const void *octets, uint32_t len);
/** Another medium of zeros in the place of its own. */
void lt_wipe_target(struct lt *l, unsigned int i);
/** A target's power goes, and its connection with it. */
void lt_cut_target(struct lt *l, unsigned int i);
void lt_boot_target(struct lt *l, unsigned int i);
/** Read from head to end, and compare; what is wrong, or NULL. */
const char *lt_read_all(struct lt *l);
/** Append one of so many octets; the error of it. */
int lt_append(struct lt *l, uint32_t len);
void lt_judge(struct lt *l);
/** What a target's medium says it is, and where its log ends. */
struct lt_words {
	struct log_card card;
	uint64_t tail, head, end, lives; /**< 0: none */
	bool anew;                       /**< it was begun anew and has nothing yet */
	uint32_t knows;                  /**< then: of so many lives in all */
	bool bad;                        /**< what it says is no state of a target */
};
struct lt_words lt_words(const struct lt *l, unsigned int i);
/** Records that the log appended by itself: the seats of targets. */
void lt_sync(struct lt *l);
/** Whether these are the data of the record of that number. */
bool lt_same(const struct lt *l, uint64_t seq, const void *data, uint32_t len);
void lt_remember(struct lt *l, uint64_t seq, struct lt_record r);
void lt_link(struct lt *l, bool down);
/** So much may be trimmed. */
static inline void
lt_trimmed(struct lt *l)
{
	l->trim_max = RTE_MAX(l->trim_max, l->trim_seq);
	l->trim_max = RTE_MAX(l->trim_max, 1UL);
}

const char *lt_verdict_str(enum lt_verdict v);
struct weft_log_info lt_info(struct lt *l);

#endif /* LT_H */
