/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VOLCALL_LINK_H
#define VOLCALL_LINK_H

/**
 * @file A volume's own connection, which is made again when it is lost (weft/volume.h, "Lost
 * connections"): copies of changes that are not durable (volcall_kept.c), one connection
 * (volcall_conn.c), and what is done on a new one before the volume goes on (volcall_link.c).
 *
 * A connection is begun and ended by an alarm alone, never inside a callback of its own endpoint.
 * What is found elsewhere to be lost is noted (volcall_lost()).
 */

#include <sys/queue.h>
#include <sys/socket.h>

#include "volcall_priv.h"

/** volcall_kept.proc of a durable change behind copies: what is written again must not undo it. */
#define VOLCALL_KEPT_DURABLE 0

/** A change that was answered and may not be durable. At most as long as one call. */
struct volcall_kept {
	TAILQ_ENTRY(volcall_kept) entry; /**< in the order of the answers */
	uint64_t number, off_bytes, len_bytes;
	uint32_t proc, flags; /**< proc: how it is written again, or VOLCALL_KEPT_DURABLE */
	uint8_t data[];
};

/** One connection. It is freed by its own alarm, behind its last completions. */
struct volcall_conn {
	struct weft_volume *v;
	struct weft_evq *evq;
	struct weft_cq *cq;
	struct weft_qp *qp;
	struct weft_rpc *rpc;
	struct weft_alarm *alarm; /**< set: it ends */
	unsigned int entered;     /**< inside callbacks of its queues */
};

/** What the link does on its connection. */
enum volcall_step {
	VOLCALL_STEP_NONE,
	VOLCALL_STEP_CONNECT,
	VOLCALL_STEP_OPEN,
	VOLCALL_STEP_ASK,    /**< for the verifier */
	VOLCALL_STEP_FLUSH,  /**< to know what the verifier is behind it */
	VOLCALL_STEP_REWRITE /**< changes that may be lost */
};

struct volcall_link {
	struct weft_volume_link attr; /**< `to` is not used */
	struct sockaddr_storage to;
	char name[WEFT_VOLRPC_NAME_MAX + 1];
	uint32_t rights;
	/* the connection */
	struct volcall_conn *conn;
	unsigned int conns; /**< that are not freed */
	enum volcall_step step;
	bool up;             /**< calls of the volume may be sent */
	bool ended;          /**< for good */
	bool lost;           /**< `conn` has to be ended */
	bool flushed;        /**< the verifier is asked for behind the link's FLUSH */
	unsigned int tries;  /**< since the loss */
	unsigned int stales; /**< grants that the target ended, since the last call with success */
	uint32_t handle;     /**< of the grant that is made */
	uint64_t verifier;   /**< since when all copies were on the target; 0: it has none */
	uint64_t asked;      /**< of the grant that is made, when copies are written again */
	struct weft_alarm *go; /**< what `lost` asks for, or the next attempt */
	struct weft_alarm *give_up;
	char why[VOLCALL_WHY_BYTES];
	/* what the owner is to be told */
	bool tell;
	/* copies */
	TAILQ_HEAD(volcall_kept_list, volcall_kept) kept;
	uint64_t number;           /**< of the latest change */
	uint64_t unkept;           /**< number of the latest one without a copy; 0: there is none */
	struct volcall_kept *next; /**< to be written again: from next_off to next_end */
	uint64_t next_off, next_end;
	weft_volrpc_write_args write; /**< used until its answer */
	int owed;                     /**< what the next FLUSH tells */
	bool unsure; /**< a change that was not answered, and is not repeated, may have been done */
	bool relieving;
	struct weft_volume_req relief; /**< the link's own FLUSH */
	struct weft_volume_link_stats stats;
};

/* ---- volcall_kept.c ---- */

/**
 * A call of the request is about to be sent: make room for a copy of it, or make it durable. Sets
 * the slot's kept_bytes, kept_number and flags.
 */
void volcall_kept_begin(struct volcall_slot *s);
/** The call was not answered with success: no copy is made. */
void volcall_kept_drop(struct volcall_slot *s);
/** The call was not answered, and is not repeated. */
void volcall_kept_unsure(struct volcall_slot *s);
/** The call was answered with success. The status that it has all the same: a FLUSH tells what the
 * link has found. */
int volcall_kept_end(struct volcall_slot *s);
/**
 * The next part of the copy, from *off on, that no durable change behind it has replaced. False:
 * there is none.
 */
bool volcall_kept_part(const struct volcall_kept *k, uint64_t *off, uint64_t *end);
/** A window by which the range may be written is open: it has no copies from now on, because what
 * is written to the window is not seen. */
void volcall_kept_window(struct weft_volume *v, uint64_t off_bytes, uint64_t len_bytes);
/** The change of the slot has failed, and may have been done, or a part of it: there is no copy of
 * it, and older copies of its range must not come back. */
void volcall_kept_failed(struct volcall_slot *s);
/** All changes up to this number are durable. */
void volcall_kept_done(struct volcall_link *l, uint64_t number);
/** Whether so much is kept that the link flushes by itself. */
bool volcall_kept_is_much(const struct volcall_link *l);

/* ---- volcall_conn.c ---- */

/** Begin a connection with so much time. -errno: there is none. */
int volcall_conn_begin(struct weft_volume *v, uint64_t connect_us);
/** End the link's connection. Its calls end with CONNLOST inside. */
void volcall_conn_end(struct volcall_link *l);

/* ---- volcall_link.c ---- */

/** Make the link of a volume. -EINVAL, -ENOMEM. */
int volcall_link_make(struct weft_volume *v, const struct weft_volume_link *attr, const char *name,
                      uint32_t rights);
/** Begin its first connection. -ENOMEM. */
int volcall_link_begin(struct weft_volume *v);
/** In the pump: what the link wants to send. False: nothing else may be sent now. */
bool volcall_link_pump(struct weft_volume *v);

#endif /* VOLCALL_LINK_H */
