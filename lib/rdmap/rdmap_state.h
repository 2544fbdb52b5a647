/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RDMAP_STATE_H
#define RDMAP_STATE_H

/**
 * @file
 * The states of a stream, the completion of its requests, and our FIN.
 */

#include "rdmap_stream.h"

/** Time for the peer to close after a Terminate. RFC 5040 s6.2.1 gives no value. */
#define RDMAP_TERM_WAIT_NS (5 * WEFT_NS_PER_S)
/** Closing: longest time without progress before our FIN; time for the peer to close after it. */
#define RDMAP_LINGER_NS (60 * WEFT_NS_PER_S)

/** Whether the connection below is open. */
static inline bool
rdmap_stream_lives(const struct weft_rdmap *r)
{
	return !r->gone && weft_ddp_is_open(&r->ddp);
}

/** Change the state to s and call state(). The table must allow the transition. Before ERROR every
 * request is flushed. The caller checks r->dead afterwards. */
void rdmap_set_state(struct weft_rdmap *r, enum weft_rdmap_state s, const struct weft_term *term,
                     bool ours);
/** When a step of the close ends that otherwise ends at end_ns. */
static inline uint64_t
rdmap_no_later(const struct weft_rdmap *r, uint64_t end_ns)
{
	return likely(r->left_end_ns == 0) ? end_ns : RTE_MIN(end_ns, r->left_end_ns);
}

/** A number that changes whenever a message of either direction, or a Verify, makes progress. */
uint64_t rdmap_moved(const struct weft_rdmap *r);
/** Bound the time of closing: arm the timer, note the progress. */
void rdmap_linger(struct weft_rdmap *r, uint64_t now_ns);
/** Return a request to its owner by done(). The Read of rdmap_rtr.c is freed instead. */
void rdmap_done(struct weft_rdmap *r, struct weft_rdmap_req *req, enum weft_rdmap_status status);
/** Complete the oldest outstanding request: its answer has arrived. */
void rdmap_answered(struct weft_rdmap *r, enum weft_rdmap_status status);
/** Return every request of flush_list to its owner. */
void rdmap_drain(struct weft_rdmap *r);
/** Flush every request, those posted outside RTS included. */
void rdmap_flush(struct weft_rdmap *r);
/** Flush the requests posted outside RTS. */
void rdmap_flush_late(struct weft_rdmap *r);
/** Send our FIN, and arm the timer: the peer has wait_ns to close. */
void rdmap_fin(struct weft_rdmap *r, uint64_t wait_ns, uint64_t now_ns);

#endif /* RDMAP_STATE_H */
