/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef MPA_PRIV_H
#define MPA_PRIV_H

/** @file What the sources of lib/mpa share. */

#include <rte_debug.h>
#include <rte_mbuf.h>

#include "mpa_wire.h"
#include "weft_mpa.h"
#include "weft_tcp.h"

WEFT_LOG_DECLARE(mpa);

#define MPA_STARTUP_TIMEOUT_US 10000000u
/** After a reject: how long the peer may take to close before we do. */
#define MPA_REJECT_WAIT_US 1000000u
/** What may wait while the consumer decides on a Request: a rule-abiding peer sends nothing then.
 */
#define MPA_EARLY_MAX_BYTES 65536u
#define MPA_EARLY_MAX_SEGS  64u

/**
 * An FPDU that is not complete stays in the mbufs it came in while they are few, or well filled
 * and not many; else it is copied together. One that fits a segment, as RFC 5044 s4.5 wants them,
 * lies in two or three.
 */
#define MPA_HELD_FREE_SEGS      4u
#define MPA_HELD_MIN_FILL_BYTES 512u
#define MPA_HELD_MAX_SEGS       16u

/**
 * An incomplete FPDU is looked after so often: then its mbufs go back to the port. The copy's
 * buffer is given back when it was not used for so long.
 */
#define MPA_WATCH_NS        (1 * WEFT_NS_PER_S)
#define MPA_FPDU_TIMEOUT_US 60000000u
/** Deadline of the whole FPDU, in times of the one for its next octet. */
#define MPA_FPDU_TIMEOUTS 4u

/** Only during start-up, on the heap. */
struct mpa_startup {
	uint32_t timeout_us;
	struct weft_mpa_opts opts;
	struct weft_mpa_frame req; /**< the Request, sent or received */
	uint16_t raw_bytes;        /**< octets of the peer's frame so far */
	uint8_t raw[MPA_FRAME_MAX_BYTES];
};

/**
 * The receive loop's own record on the stack. An up-call may release the MPA and free its owner:
 * the memory under the fragments is then left here for the loop to free, and nothing else is
 * touched.
 */
struct mpa_drain {
	bool gone;
	struct rte_mbuf *orphan;
	uint8_t *orphan_compact;
};

extern const struct weft_tcp_conn_ops weft_mpa_tcp_ops;

/** The only place that assigns m->state. */
void weft_mpa_set_state(struct weft_mpa *m, enum weft_mpa_state to);
/** Let go of everything but the connection; idle afterwards. */
void weft_mpa_release(struct weft_mpa *m);
/** Reset the connection, release, up-call closed(err). Touches nothing afterwards. */
void weft_mpa_fail(struct weft_mpa *m, int err, uint64_t now_ns);

/** Bound the start-up, or what is left of it. */
void weft_mpa_startup_arm(struct weft_mpa *m, uint32_t timeout_us, uint64_t now_ns);
/** Give up during start-up: FIN, and a bound on how long the peer may take to follow. */
void weft_mpa_give_up(struct weft_mpa *m, uint64_t now_ns);
/** Start-up frames under `held`; false: wait for more (or gone). */
bool weft_mpa_startup_step(struct weft_mpa *m, uint64_t now_ns);

/** Take ownership of a received chain. */
void weft_mpa_hold(struct weft_mpa *m, struct rte_mbuf *chain);
/** Copy n (<= held_bytes) octets out of the held chain. */
void weft_mpa_take(struct weft_mpa *m, uint8_t *dst, uint32_t n);
/** An FPDU was bad, or cannot be kept: nothing more is handed up. May release m. */
void weft_mpa_fault(struct weft_mpa *m, uint8_t code);
void weft_mpa_no_memory(struct weft_mpa *m);

/* mpa_keep.c */
/** Charge what m holds in mbufs to the port's budget. False: no room, nothing is charged anew. */
bool weft_mpa_lend(struct weft_mpa *m);
/** Fewer mbufs are held than charged. */
void weft_mpa_unlend(struct weft_mpa *m);
/** Move n octets from the chain to the bounce buffer, behind what is there. -ENOMEM: also by the
 * budget. */
int weft_mpa_compact(struct weft_mpa *m, uint32_t n);
/** Let go of all received octets. */
void weft_mpa_keep_drop(struct weft_mpa *m);
/** Octets of an FPDU came, and it is not complete. */
void weft_mpa_wait_begin(struct weft_mpa *m);
/** From full operation on the start-up's timer is the one that looks after incomplete FPDUs. */
void weft_mpa_watch_init(struct weft_mpa *m);
void weft_mpa_watch_arm(struct weft_mpa *m);

/** Hand up everything that is complete. False when an up-call released the MPA: do not touch it. */
bool weft_mpa_drain(struct weft_mpa *m, uint64_t now_ns);
void weft_mpa_free_chain(struct rte_mbuf *m);

#endif /* MPA_PRIV_H */
