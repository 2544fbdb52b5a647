/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RPCRDMA_BUDGET_H
#define RPCRDMA_BUDGET_H

/** @file The state of weft/rpc_budget.h: which endpoint holds how much. Knows nothing of
 * endpoints' insides. */

#include <stdbool.h>
#include <sys/queue.h>

#include <weft/ulp.h>
#include <weft/rpc_budget.h>
#include <weft/rpcrdma.h>

struct rpcrdma_budget_peer;

/** A holder that gives nothing back for so long has stopped. (A link of 100 Mbit/s carries a
 * call of 1 MiB in 84 ms.) */
#define RPCRDMA_BUDGET_STALL_NS 500000000ull

/** The part of an endpoint that the budget knows. */
struct rpcrdma_holder {
	TAILQ_ENTRY(rpcrdma_holder) link;
	TAILQ_ENTRY(rpcrdma_holder) wait_link;
	/** NULL: the holder has no more than its own free octets */
	struct rpcrdma_budget_peer *peer;
	uint64_t bytes;
	uint64_t since_ns; /**< when it was first charged, or its peer last took an answer */
	/** octets last refused because of the worker's limit; 0: because of its peer's part */
	uint64_t wants;
	/** number of its calls that wait for the consumer: while there are any, it is not ended
	 * for others */
	unsigned int busy;
	bool known; /**< it has authenticated: it is ended only for others that have */
	bool waits; /**< in waiters */
	bool gone;  /**< it was ended, and gives back what it still holds */
	/** For a holder that waits: octets were given back. It tries again, soon and not inside
	 * this call. */
	void (*wake)(struct rpcrdma_holder *h);
	/** Give back memory that rests between calls. False: none does. NULL: it never has any. */
	bool (*rest)(struct rpcrdma_holder *h);
};

/** A peer that holds more than its connections' free octets. */
struct rpcrdma_budget_peer {
	LIST_ENTRY(rpcrdma_budget_peer) link;
	TAILQ_HEAD(, rpcrdma_holder) holders; /**< by since_ns */
	uint64_t bytes;                       /**< octets charged */
	uint64_t going;                       /**< of these, octets of holders that are gone */
	uint32_t name_bytes;
	uint8_t name[WEFT_RPC_NAME_MAX_BYTES];
};

extern struct weft_handle_kind rpcrdma_budget_kind;

struct weft_rpc_budget {
	struct weft_handle h;
	struct weft_rpc_budget_info info;
	LIST_HEAD(, rpcrdma_budget_peer) peers;
	TAILQ_HEAD(, rpcrdma_holder) waiters; /**< in the order of their turns */
	uint64_t going;
};

/** End a holder: it calls rpcrdma_budget_give() for all that it holds, before the return or soon
 * after. */
typedef void (*rpcrdma_shed_fn)(struct rpcrdma_holder *h);

/** Charge n octets to h. False: they do not fit, or not yet, or no memory; nothing changed,
 * except that holders may have been ended. b NULL: true. */
bool rpcrdma_budget_take(struct weft_rpc_budget *b, struct rpcrdma_holder *h, const uint8_t *name,
                         uint32_t name_bytes, uint64_t n, uint64_t now_ns, rpcrdma_shed_fn shed);
/** Whether n more octets of h, which could fit, are now beyond its peer's half, or the whole. */
bool rpcrdma_budget_tight(const struct weft_rpc_budget *b, const struct rpcrdma_holder *h,
                          uint64_t n);
/** Whether a holder waits that what h gives back may help: then nothing is to rest at h. */
bool rpcrdma_budget_wanted(const struct weft_rpc_budget *b, const struct rpcrdma_holder *h);
/** Whether n octets are more than any holder can ever get, even alone. */
bool rpcrdma_budget_never(const struct weft_rpc_budget *b, uint64_t n);
/** Give back n octets of h. */
void rpcrdma_budget_give(struct weft_rpc_budget *b, struct rpcrdma_holder *h, uint64_t n);
/** The peer took an answer, so the holder makes progress. */
void rpcrdma_budget_moved(struct rpcrdma_holder *h, uint64_t now_ns);
/**
 * h was refused, and waits to be woken; `again`: it tried again in vain. Its turn comes before that
 * of later holders which have more. A holder whose peer has its part lets others go first.
 */
void rpcrdma_budget_wait(struct weft_rpc_budget *b, struct rpcrdma_holder *h, bool again);
/** h waits no more; the next one has its turn. */
void rpcrdma_budget_unwait(struct weft_rpc_budget *b, struct rpcrdma_holder *h);

#endif /* RPCRDMA_BUDGET_H */
