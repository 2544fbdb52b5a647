/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_LOG_HOST_H
#define WEFT_LOG_HOST_H

/**
 * @file The host's side of a remote log's fence (docs/log-format.md): the memory of one target,
 * granted to one writer at a time. Installed; stands alone.
 *
 * A log is safe only while one writer can touch its memory: an Atomic Write is not conditional, so
 * a writer that was presumed dead is stopped by the target, or by nobody. It is not enough that its
 * STag resolves no more. What it asked for before may still be under way: a Flush on a slow medium,
 * a Write on another worker. So a grant here is one registration, with an STag of its own, and the
 * next one is given only when weft_mr_dereg() of the last one has said that it is freed.
 *
 * 	weft_log_host_create()
 * 	for each writer's connection: weft_log_host_grant();
 * 	  in granted() weft_accept() with the STag
 * 	when its connection ends: weft_log_host_end()
 * 	weft_log_host_destroy()
 *
 * A grant is given for one connection. A writer that connects again gets another, as any other
 * writer does: what it sent by the old connection may still be under way. Whether somebody may take
 * the memory over from a writer that holds it is the caller's to say, at each
 * weft_log_host_grant().
 *
 * Threads: any, but for weft_log_host_destroy(), which no other call may run beside. Nothing blocks
 * but for the locks of weft_mr_reg(). Callbacks run on a worker's thread or inside a call, as each
 * says, and may call every function here. NULL and destroyed hosts, attributes of another version:
 * "Misuse" in weft/verbs.h.
 *
 * Ownership: the memory and its medium stay the caller's, and must stay until freed() of
 * weft_log_host_destroy() has run. Nobody else may register the memory for remote access. A host is
 * destroyed before its context.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/api.h>
#include <weft/verbs.h>

WEFT_API_BEGIN

struct weft_log_host;

/** What a writer needs to know: the values of struct weft_log_target. */
struct weft_log_grant {
	uint32_t stag;
	uint64_t to; /**< of the first octet */
	uint64_t len_bytes;
};

/**
 * Status 0: the memory is granted, and nothing that came by an earlier grant can touch it or its
 * medium any more. Otherwise grant is NULL: -ECANCELED (another one took over before this one was
 * granted anything, or the host was destroyed), or what weft_mr_reg() says. grant is good until the
 * return.
 */
typedef void (*weft_log_granted_fn)(void *arg, const struct weft_log_grant *grant, int status);

/**
 * A host for this memory; nothing is granted yet. `memory` is what each grant is registered as, in
 * `pd`: the rights that a writer needs are remote read, remote write, flush, and verify if it
 * verifies. All of it is copied, the key of a keyed hash too (wiped at the end). -EINVAL (no
 * length, WEFT_ACCESS_MW_BIND: a window would outlive the grant, a hash name of more than 31
 * octets, a bad key length), -ENOMEM. What else may be wrong with it is said by the first
 * weft_log_host_grant().
 */
int weft_log_host_create(struct weft_pd *pd, const struct weft_mr_attr *memory,
                         struct weft_log_host **out);
/**
 * Grant the memory for one connection. granted(arg) comes once: inside this call when no earlier
 * grant is there, else on a worker's thread, once the earlier grant has ended and is freed. That
 * takes as long as the medium takes for what is under way.
 *
 * take_over: who holds the memory loses it at once, whoever is waiting for it is told -ECANCELED
 * inside this call. Without it -EBUSY: somebody holds it, or waits for it. An earlier grant that
 * has been ended and is not freed yet is waited for. -EINVAL, and what weft_mr_reg() says;
 * granted() does not come then.
 */
int weft_log_host_grant(struct weft_log_host *host, bool take_over, weft_log_granted_fn granted,
                        void *arg);
/**
 * End the grant of this STag: it resolves no more when this returns. When its connection has ended,
 * or its writer has nothing more to do. -ENOENT: it is not the one that holds the memory; it was
 * ended or taken over before.
 */
int weft_log_host_end(struct weft_log_host *host, uint32_t stag);
/**
 * End the grant, if there is one, and the host. host is invalid at return. Who waits is told
 * -ECANCELED inside this call. freed(arg), which may be NULL, runs once when nothing can touch the
 * memory any more: inside this call when nothing was granted, else on a worker's thread. The medium
 * may be closed then.
 */
void weft_log_host_destroy(struct weft_log_host *host, void (*freed)(void *arg), void *arg);

enum weft_log_host_state {
	WEFT_LOG_HOST_FREE,    /**< nobody can touch the memory */
	WEFT_LOG_HOST_GRANTED, /**< one writer has it */
	/** its STag resolves no more, and what came by it may be under way */
	WEFT_LOG_HOST_ENDING,
};

struct weft_log_host_info {
	enum weft_log_host_state state;
	uint32_t stag;       /**< GRANTED: whose; else 0 */
	bool waiting;        /**< somebody is to have it when it is freed */
	uint64_t grants;     /**< given so far */
	uint64_t taken_over; /**< of these, ended because somebody else was to have the memory */
	uint64_t refused;    /**< -EBUSY */
};

void weft_log_host_query(struct weft_log_host *host, struct weft_log_host_info *info);

WEFT_API_END

#endif /* WEFT_LOG_HOST_H */
