/* SPDX-License-Identifier: BSD-3-Clause */
/** @file What telemetry shows of volumes. */

#include "target.h"
#include "target_volume.h"
#include <weft/telemetry.h>

void
target_tel_volume(struct target *t, struct target_export *ex, struct weft_tel *tel)
{
	const struct weft_vol_info *i = weft_vol_info(ex->volume->vol);
	unsigned long long damaged = 0, lost = 0, late = 0, waits = 0, doubt = 0;
	struct weft_block_state state;
	struct weft_block_stats dev;
	static const char *const shown[WEFT_BLOCK_SNAP_WHATS] = {
	        [WEFT_BLOCK_SNAP_CREATE] = "snapshots_made",
	        [WEFT_BLOCK_SNAP_REMOVE] = "snapshots_removed",
	        [WEFT_BLOCK_SNAP_CLONE] = "clones_made",
	};
	uint64_t requests = 0, errors = 0;

	for (uint32_t n = 0; n < t->stack.nworkers; n++) {
		const struct target_vchan *vc = target_vchan_of(&t->workers[n], ex);

		damaged += atomic_load_explicit(&vc->damaged, memory_order_relaxed);
		lost += atomic_load_explicit(&vc->told_lost, memory_order_relaxed);
		late += atomic_load_explicit(&vc->late, memory_order_relaxed);
		waits += atomic_load_explicit(&vc->range_waits, memory_order_relaxed);
		doubt += atomic_load_explicit(&vc->in_doubt, memory_order_relaxed);
	}
	weft_block_query_state(ex->volume->block, &state);
	weft_block_query_stats(ex->volume->block, &dev);
	for (unsigned int op = 0; op < WEFT_BLOCK_OPS; op++) {
		requests += dev.requests[op];
		errors += dev.errors[op];
	}
	weft_tel_u64(tel, "block_bytes", i->block_bytes);
	weft_tel_u64(tel, "atomic_bytes", i->atomic_bytes);
	weft_tel_u64(tel, "checksums", i->sums);
	weft_tel_u64(tel, "checksums_in_doubt", weft_vol_in_doubt(ex->volume->vol));
	weft_tel_u64(tel, "damaged_blocks", damaged);
	weft_tel_u64(tel, "unverified_reads", doubt);
	weft_tel_u64(tel, "lost_flushes", state.lost_flushes);
	weft_tel_u64(tel, "lost_flushes_told", lost);
	weft_tel_u64(tel, "late_operations", late);
	weft_tel_u64(tel, "range_waits", waits);
	for (unsigned int k = 0; k < WEFT_BLOCK_SNAP_WHATS; k++) {
		if (shown[k] != NULL)
			weft_tel_u64(
			        tel, shown[k],
			        atomic_load_explicit(&ex->volume->snaps[k], memory_order_relaxed));
	}
	weft_tel_u64(tel, "snapshots_refused",
	             atomic_load_explicit(&ex->volume->snaps_refused, memory_order_relaxed));
	weft_tel_u64(tel, "device_requests", requests);
	weft_tel_u64(tel, "device_errors", errors);
	weft_tel_u64(tel, "device_under_way", dev.under_way + dev.waiting);
	weft_tel_u64(tel, "device_octets_read", dev.octets[WEFT_BLOCK_READ]);
	weft_tel_u64(tel, "device_octets_written", dev.octets[WEFT_BLOCK_WRITE]);
	weft_tel_u64(tel, "device_longest_us", dev.max_ns / 1000);
}

/** /weft/target/volumes: memory of volumes, of all workers. */
int
target_tel_volumes(void *user, const char *params, struct weft_tel *tel)
{
	static const char *const names[TARGET_VSHOWN] = {
	        [TARGET_VSHOWN_STAGING_FREE] = "staging_free_bytes",
	        [TARGET_VSHOWN_STAGING_LEAST_FREE] = "staging_least_free_bytes",
	        [TARGET_VSHOWN_STAGING_GRANTS] = "staging_grants",
	        [TARGET_VSHOWN_STAGING_WAITS] = "staging_waits",
	        [TARGET_VSHOWN_STAGING_WAITING] = "staging_waiting",
	        [TARGET_VSHOWN_STAGING_CLIENTS] = "staging_clients",
	        [TARGET_VSHOWN_WINDOWS] = "windows_max",
	        [TARGET_VSHOWN_WINDOWS_OPEN] = "windows_open",
	        [TARGET_VSHOWN_WINDOWS_OPENED] = "windows_opened",
	        [TARGET_VSHOWN_WINDOWS_MOVED] = "windows_moved",
	        [TARGET_VSHOWN_WINDOWS_OVERLAP] = "windows_refused_overlap",
	        [TARGET_VSHOWN_FLUSHES] = "flushes",
	        [TARGET_VSHOWN_FLUSH_ERRORS] = "flush_errors",
	        [TARGET_VSHOWN_FLUSHED] = "flushed_octets",
	        [TARGET_VSHOWN_AHEAD] = "flushes_ahead",
	        [TARGET_VSHOWN_AHEAD_REFUSED] = "flushes_ahead_refused",
	        [TARGET_VSHOWN_VERIFIED] = "verified_octets",
	};
	struct target *t = user;
	uint64_t sum[TARGET_VSHOWN] = {0}, taken = 0, waited = 0, shed = 0;

	(void)params;
	for (uint32_t n = 0; n < t->stack.nworkers; n++) {
		const struct target_vworker *vw = t->workers[n].volumes;

		if (vw == NULL)
			continue;
		for (unsigned int i = 0; i < TARGET_VSHOWN; i++)
			sum[i] += atomic_load_explicit(&vw->shown[i], memory_order_relaxed);
		shed += atomic_load_explicit(&vw->staging_shed, memory_order_relaxed);
		taken += atomic_load_explicit(&vw->windows_taken_back, memory_order_relaxed);
		waited += atomic_load_explicit(&vw->windows_waited, memory_order_relaxed);
	}
	for (unsigned int i = 0; i < TARGET_VSHOWN; i++)
		weft_tel_u64(tel, names[i], sum[i]);
	weft_tel_u64(tel, "staging_shed", shed);
	weft_tel_u64(tel, "windows_waited", waited);
	weft_tel_u64(tel, "windows_taken_back", taken);
	return 0;
}
