/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_VERBS_RQ_H
#define WEFT_APPS_VERBS_RQ_H

/**
 * @file Receive queues that run out while the program is on its way.
 *
 * A Send that finds no receive ends the connection (RFC 5041 s7.1); InfiniBand sends it again
 * (RNR). Programs without flow control (qperf's rc_bw) rely on that their thread posts receives as
 * fast as the device takes Sends. The helper thread is a device that may run while the program's
 * thread waits for a processor. So it stops to poll when half of a queue's receives are used up
 * and the program has not caught up: the peer's TCP waits then. This lasts for at most RQ_HOLD_NS
 * for a queue, and for all queues together until the program gives a sign that it runs.
 */

#include <stdbool.h>
#include <stdint.h>

struct wv_qp;

/** A queue pair's receives. Under the engine's lock. */
struct wv_rq {
	uint32_t posted; /**< receives that no message has taken */
	uint32_t most;   /**< of `posted` */
	bool waived;     /**< was waited for long enough, until the program has posted again */
};

/** n receives were posted. Under the engine's lock. */
void wv_rq_posted(struct wv_qp *q, uint32_t n);
/** Messages took n of them. Under the engine's lock. */
void wv_rq_taken(struct wv_qp *q, uint32_t n);
/** The queue pair goes, or begins anew. Under the engine's lock. */
void wv_rq_forget(struct wv_qp *q);
/** Whether a queue runs out: a hint, any thread without a lock. */
bool wv_rq_low(void);
/**
 * Whether the helper shall not poll now, because the program has completions of receives to take
 * or is posting receives. now_ns: of wv_now_ns(). signs: changes with each sign that the program
 * runs. The helper thread, with the engine's lock held.
 */
bool wv_rq_hold(uint64_t now_ns, uint64_t signs);

#endif /* WEFT_APPS_VERBS_RQ_H */
