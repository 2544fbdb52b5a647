/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_GATE_H
#define WEFT_GATE_H

/**
 * @file A gate before a region: its owner may let requests of the peer wait, for example because a
 * client has used up its share. Installed; stands alone.
 *
 * A gate is asked before a request of the peer is executed that the responder answers: RDMA Read,
 * Flush, Verify, Atomic Write and the Atomics. Requests of a stream are executed in order (RFC 5040
 * s5.5, draft-talpey-rdma-commit-02 s2.4), so those behind one that waits do, too, and the peer
 * sends no more than IRD of them. RDMA Writes and Sends are not asked for: they have no answer.
 *
 * All of it is on the worker of the stream. One gate may be that of many regions. It must exist
 * until the regions are free (freed() of weft_mr_dereg()). A region is not free while a request
 * waits at its gate, so the owner that ends the region lets such requests go, and sets `refused`
 * if they are not to be executed. A request whose STag is then no longer valid is refused in any
 * case, except for a Flush: it holds its region.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include <weft/api.h>

WEFT_API_BEGIN

struct weft_gate;

/** A request at a gate. The asker's memory. */
struct weft_gate_wait {
	TAILQ_ENTRY(weft_gate_wait) link; /**< the gate's, while it waits */
	struct weft_gate *gate;           /**< where it waits; NULL: it does not */
	/** Octets that it is charged: those that it names, and except for a Read at most those that
	 * the stream has received and that no request was charged since it last had none for a
	 * second or two. */
	uint64_t bytes;
	/** The gate calls it when the request may go on. Not during enter(). */
	void (*go)(struct weft_gate_wait *w);
	void *owner; /**< the asker's */
	/** The gate's, before go(): the request is not executed. A stream answers it with a
	 * Terminate, as if its STag were invalid (RFC 5040 s4.8). */
	bool refused;
};

struct weft_gate {
	bool on; /**< false: everything may pass, and enter() is not called */
	/** True: the request may go on. False: it waits, w->gate is set, and go() follows. */
	bool (*enter)(struct weft_gate *g, struct weft_gate_wait *w);
	/** The request ends without having gone on; w->gate is this gate. */
	void (*leave)(struct weft_gate *g, struct weft_gate_wait *w);
};

WEFT_API_END

#endif /* WEFT_GATE_H */
