/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_MPA_KEEP_H
#define WEFT_MPA_KEEP_H

/**
 * @file The memory budget for incomplete FPDUs of one worker's connections. Internal. Each worker
 * has one; its struct weft_sched points to it.
 *
 * The octets of an incomplete FPDU stay in their mbufs while these are few, younger than a second,
 * and within the port's budget (weft_netif_budgets.fpdu). Otherwise they are copied to the heap.
 * Each connection may always use WEFT_MPA_KEEP_OWN_BYTES of heap, enough for any FPDU of one TCP
 * segment. Heap beyond that counts against the budget here, which all connections share. When the
 * budget is used up, the stream that has gone longest without an octet ends.
 *
 * An incomplete FPDU has a deadline: weft_mpa_opts.fpdu_timeout_us.
 */

#include <stdint.h>
#include <sys/queue.h>

#define WEFT_MPA_KEEP_OWN_BYTES  16384u
#define WEFT_MPA_KEEP_HEAP_BYTES (16u << 20)

struct weft_mpa;
TAILQ_HEAD(weft_mpa_keep_list, weft_mpa);

/** The budget of one worker, and its counters. */
struct weft_mpa_keep {
	uint64_t heap_max_bytes; /**< the limit, beyond WEFT_MPA_KEEP_OWN_BYTES per connection */
	uint64_t heap_bytes;     /**< in use of the limit */
	/** connections charged to the budget; the longest without an octet first */
	struct weft_mpa_keep_list held;
	uint64_t timeouts; /**< streams ended because an FPDU was not completed in time */
	uint64_t shed;     /**< streams ended because others needed the heap */
	uint64_t moved;    /**< times that octets were copied to the heap */
	uint64_t ahead;    /**< FPDUs handed up behind a gap */
	/** start-ups ended: octets before the Reply were too many, or beyond the port's budget */
	uint64_t early_refused;
	uint64_t bad_startup; /**< start-ups that failed, but not by a RST */
};

/** Set the limit; heap_max_bytes 0: WEFT_MPA_KEEP_HEAP_BYTES. */
void weft_mpa_keep_init(struct weft_mpa_keep *k, uint64_t heap_max_bytes);

#endif /* WEFT_MPA_KEEP_H */
