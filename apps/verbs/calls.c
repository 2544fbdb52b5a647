/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The tables of a context, by which inline functions of programs call. */

#include "cq.h"
#include "device.h"
#include "mem.h"
#include "qp.h"
#include "query.h"
#include "srq.h"

#include <errno.h>

/* What is not set here is refused by the inline functions with EOPNOTSUPP: flow steering, work
 * queues, XRC, device memory, counters, thread domains. */
void
wv_calls_set(struct verbs_context *v)
{
	v->context.ops.alloc_mw = wv_alloc_mw;
	v->context.ops.dealloc_mw = wv_dealloc_mw;
	v->context.ops.bind_mw = wv_bind_mw;
	v->context.ops.poll_cq = wv_poll_cq;
	v->context.ops.req_notify_cq = wv_req_notify_cq;
	v->context.ops.post_send = wv_post_send;
	v->context.ops.post_recv = wv_post_recv;
	v->context.ops.post_srq_recv = wv_post_srq_recv;
	v->query_port = wv_query_port;
	v->query_device_ex = wv_query_device_ex;
	v->query_rt_values = wv_query_rt_values;
	v->create_cq_ex = wv_create_cq_ex;
	v->create_qp_ex = wv_create_qp_ex;
	v->create_srq_ex = wv_create_srq_ex;
	v->get_srq_num = wv_get_srq_num;
}
