/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_LOG_HOST_H
#define WEFT_LOG_HOST_H

/**
 * @file The host of a remote log: it grants the memory of one target to one writer at a time
 * (docs/log-format.md, the fence). Installed; stands alone.
 *
 * A log is safe only while one writer can access its memory. An Atomic Write is not conditional, so
 * only the target can stop a writer that was presumed dead. To invalidate the writer's STag is not
 * enough: earlier operations may still be under way, for example a Flush on a slow medium, or a
 * Write on another worker. So each grant is one registration with an STag of its own. The next
 * grant is given only when weft_mr_dereg() of the previous one has called freed().
 *
 * 	weft_log_host_create()
 * 	for each writer's connection: weft_log_host_grant();
 * 	  in granted() weft_accept() with the STag
 * 	when its connection ends: weft_log_host_end()
 * 	weft_log_host_destroy()
 *
 * A grant is for one connection. A writer that connects again needs another grant, like any other
 * writer, because operations of its old connection may still be under way. At each
 * weft_log_host_grant() the caller decides whether the memory may be taken over from the writer
 * that holds it.
 *
 * Threads. Any thread, except that no other call may run beside weft_log_host_destroy(). Nothing
 * blocks except on the locks of weft_mr_reg(). Callbacks run on a worker's thread or inside a call,
 * as each function says, and may call every function of this header. NULL and destroyed hosts,
 * attributes of another version: "Misuse" in weft/verbs.h.
 *
 * Ownership. The memory and its medium belong to the caller and must stay until freed() of
 * weft_log_host_destroy() has run. No other code may register the memory for remote access. A host
 * is destroyed before its context.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/api.h>
#include <weft/verbs.h>

WEFT_API_BEGIN

struct weft_log_host;

/** What a writer needs to know: the values for struct weft_log_target. */
struct weft_log_grant {
	uint32_t stag;
	uint64_t to; /**< offset of the first octet */
	uint64_t len_bytes;
};

/**
 * Result of weft_log_host_grant(). status 0: the memory is granted, and no operation of an earlier
 * grant can access it or its medium any more. Otherwise grant is NULL, and status is -ECANCELED
 * (another caller took over before this one was granted anything, or the host was destroyed) or an
 * error of weft_mr_reg(). grant is valid until the function returns.
 */
typedef void (*weft_log_granted_fn)(void *arg, const struct weft_log_grant *grant, int status);

/**
 * Create a host for this memory. Nothing is granted yet. Each grant registers the memory with the
 * attributes `memory`, in `pd`. A writer needs the rights remote read, remote write, flush, and
 * verify if it verifies. All attributes are copied, also the key of a keyed hash, which is erased
 * at the end. -EINVAL: length 0; WEFT_ACCESS_MW_BIND, because a window would outlive the grant; the
 * name of a hash with more than 31 octets; a bad key length. -ENOMEM. Other errors in the
 * attributes are reported by the first weft_log_host_grant().
 */
int weft_log_host_create(struct weft_pd *pd, const struct weft_mr_attr *memory,
                         struct weft_log_host **out);
/**
 * Grant the memory for one connection. granted(arg) is called once. If there is no earlier grant,
 * it is called during this call. Else it is called on a worker's thread, when the earlier grant has
 * ended and is freed. This takes as long as the medium takes for the operations under way.
 *
 * take_over: the writer that holds the memory loses it at once, and a caller that waits for it is
 * told -ECANCELED during this call. Without take_over: -EBUSY if a writer holds the memory or a
 * caller waits for it. An earlier grant that has ended, but is not freed yet, is waited for.
 * -EINVAL, and the errors of weft_mr_reg(). After an error granted() is not called.
 */
int weft_log_host_grant(struct weft_log_host *host, bool take_over, weft_log_granted_fn granted,
                        void *arg);
/**
 * End the grant of this STag, which is invalid when this returns. Called when the connection has
 * ended, or the writer has nothing more to do. -ENOENT: this STag does not hold the memory; its
 * grant was ended or taken over before.
 */
int weft_log_host_end(struct weft_log_host *host, uint32_t stag);
/**
 * End the grant, if any, and destroy the host. host is invalid when this returns. A caller that
 * waits for the memory is told -ECANCELED during this call. freed(arg), which may be NULL, is
 * called once, when no operation can access the memory any more: during this call if nothing was
 * granted, else on a worker's thread. Then the medium may be closed.
 */
void weft_log_host_destroy(struct weft_log_host *host, void (*freed)(void *arg), void *arg);

enum weft_log_host_state {
	WEFT_LOG_HOST_FREE,    /**< no writer can access the memory */
	WEFT_LOG_HOST_GRANTED, /**< one writer holds the memory */
	/** The STag is invalid, but operations of the grant may be under way. */
	WEFT_LOG_HOST_ENDING,
};

struct weft_log_host_info {
	enum weft_log_host_state state;
	uint32_t stag;       /**< GRANTED: STag of the grant; else 0 */
	bool waiting;        /**< a caller waits for the memory to be freed */
	uint64_t grants;     /**< grants given so far */
	uint64_t taken_over; /**< of grants: ended by take_over */
	uint64_t refused;    /**< calls refused with -EBUSY */
};

void weft_log_host_query(struct weft_log_host *host, struct weft_log_host_info *info);

WEFT_API_END

#endif /* WEFT_LOG_HOST_H */
