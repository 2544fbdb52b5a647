/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_MPA_KEEP_H
#define WEFT_MPA_KEEP_H

/**
 * @file What the incomplete FPDUs of one worker's connections may take. Internal; one for each
 * worker, named in its struct weft_sched.
 *
 * The octets of an incomplete FPDU lie in the mbufs in which they came while these are few, the
 * port's budget for them (weft_netif_budgets.fpdu) has room, and they are young; else they are
 * copied to the heap. Of the heap each connection may always have WEFT_MPA_KEEP_OWN_BYTES, which
 * holds any FPDU of one segment. What is beyond that is of a budget of all connections together.
 * When that is used up, the stream ends that has gone longest without an octet.
 *
 * An incomplete FPDU has a deadline: weft_mpa_opts.fpdu_timeout_us.
 */

#include <stdint.h>
#include <sys/queue.h>

#define WEFT_MPA_KEEP_OWN_BYTES  16384u
#define WEFT_MPA_KEEP_HEAP_BYTES (16u << 20)

struct weft_mpa;
TAILQ_HEAD(weft_mpa_keep_list, weft_mpa);

/** Worker of the connections. */
struct weft_mpa_keep {
	uint64_t heap_max_bytes; /**< beyond what connections have for themselves */
	uint64_t heap_bytes;     /**< of that, in use */
	/** connections that use it; the longest without an octet first */
	struct weft_mpa_keep_list held;
	uint64_t timeouts; /**< streams ended because an FPDU was not completed in time */
	uint64_t shed;     /**< streams ended because others needed the heap */
	uint64_t moved;    /**< times that octets were copied to the heap */
	/** start-ups ended by octets ahead of the Reply that were too many or met no budget */
	uint64_t early_refused;
};

/** heap_max_bytes 0: WEFT_MPA_KEEP_HEAP_BYTES. */
void weft_mpa_keep_init(struct weft_mpa_keep *k, uint64_t heap_max_bytes);

#endif /* WEFT_MPA_KEEP_H */
