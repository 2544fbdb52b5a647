/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file "volatile": populated anonymous memory that is its own medium. It supports Flush for
 * visibility and Verify, but not Flush for persistence: registration refuses that right.
 */

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>

#include "weft_base.h"
#include "weft_medium_file.h"
#include <weft/persist.h>

static int
volatile_open(struct weft_persist *p, const struct weft_persist_attr *attr)
{
	int r = weft_numa_alloc(attr->bytes, attr->numa_node, &p->base, &p->numa_node);

	if (r != 0)
		return r;
	p->bytes = attr->bytes;
	snprintf(p->mechanism, sizeof(p->mechanism), "none: volatile memory");
	return 0;
}

static void
volatile_close(struct weft_persist *p)
{
	weft_numa_free(p->base, p->bytes);
}

static bool
volatile_inside(const struct weft_persist *p, const struct weft_persist_req *req)
{
	return req->off_bytes <= p->bytes && req->len_bytes <= p->bytes - req->off_bytes;
}

static int
volatile_flush(struct weft_persist *p, struct weft_exec *exec, struct weft_persist_req *req)
{
	RTE_SET_USED(exec);
	if (!volatile_inside(p, req))
		return -EINVAL;
	if (req->flags & WEFT_FLUSH_PERSISTENT)
		return -EOPNOTSUPP;
	atomic_thread_fence(memory_order_seq_cst);
	req->status = 0;
	req->done(req);
	return 0;
}

static int
volatile_read_back(struct weft_persist *p, struct weft_exec *exec, struct weft_persist_req *req)
{
	RTE_SET_USED(exec);
	if (!volatile_inside(p, req))
		return -EINVAL;
	req->data = p->base + req->off_bytes;
	req->status = 0;
	req->done(req);
	return 0;
}

static const struct weft_persist_ops volatile_ops = {
        .name = "volatile",
        .persistent = false,
        .open = volatile_open,
        .close = volatile_close,
        .flush = volatile_flush,
        .read_back = volatile_read_back,
        .read_back_max_bytes = 1U << 20,
};

WEFT_PERSIST_REGISTER(volatile, volatile_ops)
