/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Reducing the rights and the length of a region under the same STag, while peers use it.
 *
 * Rights and length of a valid region are two words that only become smaller. A reader loads each
 * word once and decides by the loaded value, so it never grants more than the region had. From its
 * worker's next quiescent state on it sees the reduced values. Nothing is copied or replaced:
 * windows, handles and operations under way keep the structure.
 */

#include "mem_priv.h"
#include "weft_mem_fast.h"

/** Check what remains by the rules of registration. */
static int
mem_check_rest(const struct weft_mem_mr *mr, uint32_t access, uint64_t len_bytes)
{
	uint32_t have = weft_mem_access(mr);

	if ((access & ~have) != 0 || len_bytes == 0 || len_bytes > weft_mem_len(mr))
		return -EINVAL;
	if (!weft_mem_verify_may_read(access))
		return -EOPNOTSUPP;
	return 0;
}

int
weft_mem_narrow(struct weft_mem *m, uint32_t stag, uint32_t access, uint64_t len_bytes,
                uint64_t *token)
{
	struct weft_mem_mr *mr = weft_mem_lookup(m, stag);
	uint32_t bound = 0;
	int r;

	if (mr == NULL || mr->kind == WEFT_MEM_WINDOW)
		return -ENOENT;
	/*
	 * No window may be bound to a part that is taken away, and only one thread may reduce a
	 * region at a time.
	 */
	if (!atomic_compare_exchange_strong_explicit(mr->bound, &bound, WEFT_MEM_NARROWING,
	                                             memory_order_acq_rel, memory_order_relaxed))
		return bound == WEFT_MEM_CLOSED ? -ENOENT : -EBUSY;
	r = mem_check_rest(mr, access, len_bytes);
	if (r == 0) {
		/*
		 * Another thread may invalidate the region meanwhile. It is then not filled again
		 * before this worker is quiescent, so the values written here are never seen.
		 */
		atomic_fetch_add_explicit(&mr->version, 1, memory_order_acq_rel);
		atomic_thread_fence(memory_order_release);
		atomic_store_explicit(&mr->access, access, memory_order_relaxed);
		atomic_store_explicit(&mr->len_bytes, len_bytes, memory_order_relaxed);
		atomic_fetch_add_explicit(&mr->version, 1, memory_order_release);
		weft_mem_set_revoked(m, stag);
		*token = rte_rcu_qsbr_start(m->rcu);
	}
	bound = WEFT_MEM_NARROWING;
	if (!atomic_compare_exchange_strong_explicit(mr->bound, &bound, 0, memory_order_acq_rel,
	                                             memory_order_relaxed))
		return -ENOENT;
	return r;
}

bool
weft_mem_narrowed(struct weft_mem *m, uint64_t token)
{
	return rte_rcu_qsbr_check(m->rcu, token, false) == 1;
}
