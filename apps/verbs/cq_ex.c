/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Extended completion queues: read one completion member by member. */

#include "cq.h"

#include "engine.h"

#include <errno.h>
#include <time.h>

#define CQ_EX_FLAGS                                                                                \
	(IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM | IBV_WC_EX_WITH_QP_NUM |                    \
	 IBV_WC_EX_WITH_SRC_QP | IBV_WC_EX_WITH_SLID | IBV_WC_EX_WITH_SL |                         \
	 IBV_WC_EX_WITH_DLID_PATH_BITS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |                     \
	 IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)

static struct wv_cq *
ex_cq(struct ibv_cq_ex *e)
{
	return (struct wv_cq *)(void *)e;
}

static int
ex_next(struct ibv_cq_ex *e)
{
	struct wv_cq *c = ex_cq(e);

	if (!wv_cq_take(c, &c->now))
		return ENOENT;
	wv_channel_took(c);
	e->status = c->now.wc.status;
	e->wr_id = c->now.wc.wr_id;
	return 0;
}

/**
 * ibv_create_cq_ex(3): from a start that found something to the end other threads that start wait.
 * The engine fills the ring without this lock. In a child of fork() its holder may be a thread of
 * the parent.
 */
static bool
ex_locks(const struct wv_cq *c)
{
	return c->shared && !wv_engine_orphan();
}

static int
ex_first(struct ibv_cq_ex *e)
{
	struct wv_cq *c = ex_cq(e);
	int rc;

	if (wv_cq_unread(c) == 0)
		return ENOENT;
	if (ex_locks(c))
		pthread_mutex_lock(&c->reading);
	rc = ex_next(e);
	if (rc != 0 && ex_locks(c))
		pthread_mutex_unlock(&c->reading);
	return rc;
}

static int
ex_start(struct ibv_cq_ex *e, struct ibv_poll_cq_attr *attr)
{
	struct wv_cq *c = ex_cq(e);
	uint32_t head;

	if (attr->comp_mask != 0)
		return EINVAL;
	if (ex_first(e) == 0)
		return 0;
	wv_progress();
	head = atomic_load_explicit(&c->head, memory_order_relaxed);
	if (ex_first(e) == 0)
		return 0;
	wv_channel_saw_empty(c, head);
	return ENOENT;
}

static void
ex_end(struct ibv_cq_ex *e)
{
	if (ex_locks(ex_cq(e)))
		pthread_mutex_unlock(&ex_cq(e)->reading);
}

static enum ibv_wc_opcode
ex_opcode(struct ibv_cq_ex *e)
{
	return ex_cq(e)->now.wc.opcode;
}

static uint32_t
ex_vendor_err(struct ibv_cq_ex *e)
{
	return ex_cq(e)->now.wc.vendor_err;
}

static uint32_t
ex_byte_len(struct ibv_cq_ex *e)
{
	return ex_cq(e)->now.wc.byte_len;
}

static __be32
ex_imm(struct ibv_cq_ex *e)
{
	return ex_cq(e)->now.wc.imm_data;
}

static uint32_t
ex_qp_num(struct ibv_cq_ex *e)
{
	return ex_cq(e)->now.wc.qp_num;
}

static unsigned int
ex_flags(struct ibv_cq_ex *e)
{
	return ex_cq(e)->now.wc.wc_flags;
}

/* Members that iWARP does not have. */

static uint32_t
ex_zero(struct ibv_cq_ex *e)
{
	(void)e;
	return 0;
}

static uint8_t
ex_zero8(struct ibv_cq_ex *e)
{
	(void)e;
	return 0;
}

static uint64_t
ex_time(struct ibv_cq_ex *e)
{
	return ex_cq(e)->now.time_ns;
}

static uint64_t
ex_wallclock(struct ibv_cq_ex *e)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ULL + (uint64_t)ts.tv_nsec -
	       (wv_now_ns() - ex_cq(e)->now.time_ns);
}

struct ibv_cq_ex *
wv_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
	const uint32_t flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
	struct wv_cq *c;

	if ((attr->wc_flags & ~(uint64_t)CQ_EX_FLAGS) != 0 ||
	    (attr->comp_mask & ~(uint32_t)IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0 ||
	    ((attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0 && (attr->flags & ~flags) != 0)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	c = wv_cq_new(context, attr->cqe, attr->cq_context, attr->channel, attr->comp_vector);
	if (c == NULL)
		return NULL;
	c->timed = (attr->wc_flags & (IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
	                              IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)) != 0;
	c->shared = (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) == 0 ||
	            (attr->flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED) == 0;
	c->ex.start_poll = ex_start;
	c->ex.next_poll = ex_next;
	c->ex.end_poll = ex_end;
	c->ex.read_opcode = ex_opcode;
	c->ex.read_vendor_err = ex_vendor_err;
	c->ex.read_byte_len = ex_byte_len;
	c->ex.read_imm_data = ex_imm;
	c->ex.read_qp_num = ex_qp_num;
	c->ex.read_src_qp = ex_zero;
	c->ex.read_wc_flags = ex_flags;
	c->ex.read_slid = ex_zero;
	c->ex.read_sl = ex_zero8;
	c->ex.read_dlid_path_bits = ex_zero8;
	c->ex.read_completion_ts = ex_time;
	c->ex.read_completion_wallclock_ns = ex_wallclock;
	return &c->ex;
}
