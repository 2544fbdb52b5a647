/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef MPA_PRIV_H
#define MPA_PRIV_H

/** @file Limits, start-up state and functions that the sources of lib/mpa share. */

#include <rte_debug.h>
#include <rte_mbuf.h>

#include "mpa_wire.h"
#include "weft_mpa.h"
#include "weft_mpa_startup.h"
#include "weft_tcp.h"

WEFT_LOG_DECLARE(mpa);

#define MPA_REV_MAX            2
#define MPA_STARTUP_TIMEOUT_US 10000000u
/** After a reject: time for the peer to close before this side closes. */
#define MPA_REJECT_WAIT_US 1000000u
/** Octets and mbufs kept while a Request waits for its answer. A peer that conforms sends none. */
#define MPA_EARLY_MAX_BYTES 65536u
#define MPA_EARLY_MAX_SEGS  64u

/**
 * An incomplete FPDU stays in its mbufs up to FREE_SEGS of them, and up to MAX_SEGS if they hold
 * MIN_FILL_BYTES each on average. Beyond that it is copied into one buffer. An FPDU that fits a
 * segment, as RFC 5044 s4.5 asks, is in two or three mbufs.
 */
#define MPA_HELD_FREE_SEGS      4u
#define MPA_HELD_MIN_FILL_BYTES 512u
#define MPA_HELD_MAX_SEGS       16u

/**
 * Interval of the timer for incomplete FPDUs. After this time the mbufs of one are copied and go
 * back to the port, and the buffer of the copy is freed if it was not used.
 */
#define MPA_WATCH_NS        (1 * WEFT_NS_PER_S)
#define MPA_FPDU_TIMEOUT_US 60000000u
/** Deadline of a whole FPDU, in multiples of the deadline for its next octet. */
#define MPA_FPDU_TIMEOUTS 4u

/** State of start-up, on the heap until full operation. */
struct mpa_startup {
	uint32_t timeout_us;
	struct weft_mpa_opts opts;
	struct weft_mpa_frame req; /**< the Request, sent or received */
	uint16_t raw_bytes;        /**< octets of the peer's frame received so far */
	uint8_t raw[MPA_FRAME_MAX_BYTES];
};

/**
 * Record of the receive loop, on its stack. An up-call may release the MPA and free its owner.
 * weft_mpa_release() then leaves the memory of the fragments here. The loop frees it and uses
 * nothing else.
 */
struct mpa_drain {
	bool gone;
	struct rte_mbuf *orphan;
	uint8_t *orphan_compact;
};

/** The only place that assigns m->state. */
void weft_mpa_set_state(struct weft_mpa *m, enum weft_mpa_state to);
/** Free everything but the connection, and go to IDLE. */
void weft_mpa_release(struct weft_mpa *m);
/** Reset the connection, release, up-call closed(err). m may be freed when this returns. */
void weft_mpa_fail(struct weft_mpa *m, int err, uint64_t now_ns);

/** Arm the timer of the start-up, or of the close that ends it. */
void weft_mpa_startup_arm(struct weft_mpa *m, uint32_t timeout_us, uint64_t now_ns);
/** End the start-up: send FIN, and bound the time until the peer closes. */
void weft_mpa_give_up(struct weft_mpa *m, uint64_t now_ns);
/** Set the RTR forms that a frame offers or accepts. */
void mpa_rtr_flags(struct weft_mpa_frame *f, uint8_t rtr);
/** Send a start-up frame in segments of at most the MSS. 0, -ENOBUFS (nothing was sent), or an
 * error of weft_tcp_send(). */
int mpa_send_octets(struct weft_mpa *m, struct weft_tcp_conn *c, const uint8_t *buf, uint32_t len,
                    uint64_t now_ns);
/** Take a start-up frame from `held`. False: no FPDU can be parsed now, or m may be freed. */
bool weft_mpa_startup_step(struct weft_mpa *m, uint64_t now_ns);

/** An FPDU was bad or cannot be kept: drop received octets, up-call fault(). May release m. */
void weft_mpa_fault(struct weft_mpa *m, uint8_t code);
/** weft_mpa_fault() for lack of memory. */
void weft_mpa_no_memory(struct weft_mpa *m);

/* mpa_keep.c */
/** Move n octets from the held chain to the end of m->compact. -ENOMEM: no memory, or the heap
 * budget is used up. */
int weft_mpa_compact(struct weft_mpa *m, uint32_t n);
/** Free all received octets. */
void weft_mpa_keep_drop(struct weft_mpa *m);
/** What the worker keeps for its streams. */
static inline struct weft_mpa_keep *
mpa_keep(const struct weft_mpa *m)
{
	return m->sched->mpa_keep;
}

/** A start-up has failed: count it, for the stream and for its worker. */
static inline void
mpa_startup_failed(struct weft_mpa *m)
{
	m->stats.bad_startup++;
	if (mpa_keep(m) != NULL)
		mpa_keep(m)->bad_startup++;
}

/** Octets of an incomplete FPDU have arrived: note the time, arm the timer. */
void weft_mpa_wait_begin(struct weft_mpa *m);
/** At full operation: m->startup becomes the timer for incomplete FPDUs. */
void weft_mpa_watch_init(struct weft_mpa *m);
void weft_mpa_watch_arm(struct weft_mpa *m);

/** Hand up everything that is complete. False: an up-call released m, which may be freed. */
bool weft_mpa_drain(struct weft_mpa *m, uint64_t now_ns);

#endif /* MPA_PRIV_H */
