/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_STAT_H
#define WEFT_STAT_H

/**
 * @file Tables of counters by name, so that telemetry and the console can show a layer's counters
 * without its structure.
 *
 * To add a counter of TCP or netif: a member of struct weft_tcp_stats (weft_tcp.h), or of struct
 * weft_netif_stats (weft_netif_stats.h) or weft_netif_group_stats (weft_netif_group.h); a row in
 * the table of tcp_stats.c or netif_stats.c. test/tcp/test_stat_names.c fails without the row.
 *
 * To add a counter of a worker:
 *
 * 1. a member of struct weft_vworker_stats (lib/verbs/weft_vworker.h), if verbs, place or cm
 *    counts; else a member of the structure of the room that counts
 * 2. a member of struct weft_worker_stats (weft/worker.h)
 * 3. a line in weft_worker_stats() (lib/engine/engine_worker.c)
 * 4. a row in worker_fields (lib/observe/observe_telemetry.c); the compiler finds it missing
 *
 * To add a counter of RDMAP's faults, which a worker counts for all its streams: a member of struct
 * weft_rdmap_faults (weft_rdmap_stat.h) and a row in fault_fields (rdmap_code.c).
 *
 * To add a counter of MPA: a member of struct weft_mpa_stats (weft_mpa.h), a line in cm_count()
 * (cm_worker.c), which adds up the streams of a worker, and the steps of a worker's counter.
 *
 * A counter of RPC is a member of struct weft_rpc_stats (weft/rpcrdma.h), which is one endpoint's.
 * It needs no table. target_tel.c has the counters of weft-target, which telemetry shows.
 *
 * A counter that users need has its meaning in docs/visibility.md.
 */

#include <stddef.h>
#include <stdint.h>

#include <weft/atomic_ref.h>

/**
 * Attribute of a function that reads counters of another thread.
 *
 * A counter is an aligned word. One thread alone adds to it, by plain loads and stores, which cost
 * the data path nothing. The processor reads and writes such a word as a whole. A reader gets each
 * counter at some moment of the call; there is no order between counters. ThreadSanitizer would
 * report this as a race, so it skips functions with this attribute. It checks the functions that
 * count.
 */
#define WEFT_STAT_READER __attribute__((no_sanitize("thread")))

/** One counter of a statistics structure. */
struct weft_stat_field {
	const char *name;
	uint16_t off;   /**< offset in the structure */
	uint16_t bytes; /**< 4 or 8 */
};

#define WEFT_STAT(type, field)                                                                     \
	{                                                                                          \
#field, offsetof(struct type, field), sizeof(((struct type *)0)->field)            \
	}

/** The present value of a counter. Its owner may add to it meanwhile. */
static inline WEFT_STAT_READER uint64_t
weft_stat_read(const void *stats, const struct weft_stat_field *f)
{
	const char *p = (const char *)stats + f->off;

	if (f->bytes == 8)
		return atomic_load_explicit(weft_atomic_const_u64(p), memory_order_relaxed);
	return atomic_load_explicit(WEFT_ATOMIC_REF(*(const uint32_t *)(const void *)p),
	                            memory_order_relaxed);
}

#endif /* WEFT_STAT_H */
