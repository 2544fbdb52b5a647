/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Protection domains and memory regions. */

#include "mem.h"

#include "api.h"
#include "device.h"
#include "engine.h"
#include "mapped.h"
#include "newer.h"

#include <errno.h>
#include <stdlib.h>

#define MEM_ACCESS_KNOWN                                                                           \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED |                   \
	 IBV_ACCESS_HUGETLB | WV_ACCESS_FLUSH_GLOBAL | WV_ACCESS_FLUSH_PERSISTENT)

/** Rights by which memory is written, as the kernel counts them. */
#define MEM_ACCESS_WRITES                                                                          \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC |             \
	 IBV_ACCESS_MW_BIND)

int
wv_access(unsigned int access, uint32_t *out)
{
	const uint32_t writes = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;

	access &= ~(unsigned int)IBV_ACCESS_OPTIONAL_RANGE;
	if ((access & IBV_ACCESS_ON_DEMAND) != 0)
		return -EOPNOTSUPP;
	if ((access & ~(unsigned int)MEM_ACCESS_KNOWN) != 0 ||
	    ((access & writes) != 0 && (access & IBV_ACCESS_LOCAL_WRITE) == 0))
		return -EINVAL;
	*out = ((access & IBV_ACCESS_LOCAL_WRITE) ? WEFT_ACCESS_LOCAL_WRITE : 0) |
	       ((access & IBV_ACCESS_REMOTE_WRITE) ? WEFT_ACCESS_REMOTE_WRITE : 0) |
	       ((access & IBV_ACCESS_REMOTE_READ) ? WEFT_ACCESS_REMOTE_READ : 0) |
	       ((access & IBV_ACCESS_REMOTE_ATOMIC) ? WEFT_ACCESS_REMOTE_ATOMIC : 0) |
	       ((access & IBV_ACCESS_MW_BIND) ? WEFT_ACCESS_MW_BIND : 0) |
	       ((access & WV_ACCESS_FLUSH_GLOBAL) ? WEFT_ACCESS_FLUSH_VISIBLE : 0) |
	       ((access & WV_ACCESS_FLUSH_PERSISTENT) ? WEFT_ACCESS_FLUSH_PERSISTENT : 0);
	return 0;
}

/* ---- Domains ---- */

WV_API struct ibv_pd *
ibv_alloc_pd(struct ibv_context *context)
{
	struct wv_pd *p = calloc(1, sizeof(*p));
	int rc = wv_engine_orphan() ? -EPERM : -ENOMEM;

	if (p != NULL && rc != -EPERM) {
		wv_lock();
		rc = weft_pd_alloc(wv_engine.ctx, &p->pd);
		wv_unlock();
	}
	if (rc < 0) {
		free(p);
		errno = -rc;
		return NULL;
	}
	p->ibv.context = context;
	wv_context_hold(context);
	return &p->ibv;
}

WV_API int
ibv_dealloc_pd(struct ibv_pd *pd)
{
	struct wv_pd *p = wv_pd(pd);
	int rc;

	if (wv_engine_orphan())
		return 0;
	wv_lock();
	rc = p->users > 0 ? -EBUSY : weft_pd_dealloc(p->pd);
	wv_unlock();
	if (rc == 0) {
		wv_context_put(pd->context);
		free(p);
	}
	return -rc;
}

/* ---- Regions ---- */

static int
mem_reg(struct ibv_pd *pd, void *addr, size_t len, uint64_t iova, unsigned int access,
        struct weft_mr **out)
{
	struct weft_mr_attr a = {
	        .size = sizeof(a),
	        .addr = addr,
	        .len_bytes = len,
	        .base_to = (access & IBV_ACCESS_ZERO_BASED) != 0 ? 0 : iova,
	};
	int rc = wv_access(access, &a.access);

	if (rc == 0 && wv_engine_orphan())
		rc = -EPERM;
	/* Else a peer's Write would end the process. */
	if (rc == 0)
		rc = wv_mapped(addr, len, (access & MEM_ACCESS_WRITES) != 0);
	if (rc < 0)
		return rc;
	wv_lock();
	rc = weft_mr_reg(wv_pd(pd)->pd, &a, out);
	wv_unlock();
	/* Out of regions is what a NIC calls out of memory. */
	return rc == -ENOSPC ? -ENOMEM : rc;
}

WV_API struct ibv_mr *
ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access)
{
	struct wv_mr *m = calloc(1, sizeof(*m));
	int rc = m == NULL ? -ENOMEM : mem_reg(pd, addr, length, iova, access, &m->mr);

	if (rc < 0) {
		free(m);
		errno = -rc;
		return NULL;
	}
	m->iova = iova;
	m->access = access;
	m->ibv = (struct ibv_mr){.context = pd->context,
	                         .pd = pd,
	                         .addr = addr,
	                         .length = length,
	                         .lkey = weft_mr_stag(m->mr),
	                         .rkey = weft_mr_stag(m->mr)};
	return &m->ibv;
}

#undef ibv_reg_mr
WV_API struct ibv_mr *
ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return ibv_reg_mr_iova2(pd, addr, length, (uintptr_t)addr, (unsigned int)access);
}

#undef ibv_reg_mr_iova
WV_API struct ibv_mr *
ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access)
{
	return ibv_reg_mr_iova2(pd, addr, length, iova, (unsigned int)access);
}

static void
mem_freed(void *arg)
{
	atomic_store_explicit((atomic_bool *)arg, true, memory_order_release);
}

/** Returns when no operation uses the memory any more. */
static int
mem_dereg(struct weft_mr *mr)
{
	atomic_bool freed = false;
	int rc;

	if (wv_engine_orphan())
		return 0;
	wv_lock();
	rc = weft_mr_dereg(mr, mem_freed, &freed);
	while (rc == 0 && !atomic_load_explicit(&freed, memory_order_acquire))
		(void)wv_poll_locked();
	wv_unlock();
	return rc;
}

WV_API int
ibv_dereg_mr(struct ibv_mr *mr)
{
	int rc = mem_dereg(wv_mr(mr)->mr);

	if (rc == 0)
		free(mr);
	return -rc;
}

WV_API int
ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length, int access)
{
	struct wv_mr *m = wv_mr(mr);
	struct weft_mr *old = m->mr, *now;
	int rc;

	if ((flags & ~(IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD |
	               IBV_REREG_MR_CHANGE_ACCESS)) != 0 ||
	    flags == 0 || ((flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0 && length == 0) ||
	    ((flags & IBV_REREG_MR_CHANGE_PD) != 0 &&
	     (pd == NULL || wv_context_number(pd->context) != wv_context_number(mr->context)))) {
		errno = EINVAL;
		return IBV_REREG_MR_ERR_INPUT;
	}
	if ((flags & IBV_REREG_MR_CHANGE_TRANSLATION) == 0) {
		addr = mr->addr;
		length = mr->length;
	}
	if ((flags & IBV_REREG_MR_CHANGE_PD) == 0)
		pd = mr->pd;
	if ((flags & IBV_REREG_MR_CHANGE_ACCESS) == 0)
		access = (int)m->access;
	rc = mem_reg(pd, addr, length,
	             (flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0 ? (uintptr_t)addr : m->iova,
	             (unsigned int)access, &now);
	if (rc < 0) {
		errno = -rc;
		return IBV_REREG_MR_ERR_CMD;
	}
	rc = mem_dereg(old);
	if (rc < 0) {
		(void)mem_dereg(now);
		errno = -rc;
		return IBV_REREG_MR_ERR_CMD;
	}
	m->mr = now;
	m->access = (unsigned int)access;
	if ((flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0)
		m->iova = (uintptr_t)addr;
	mr->pd = pd;
	mr->addr = addr;
	mr->length = length;
	mr->lkey = mr->rkey = weft_mr_stag(now);
	return 0;
}
