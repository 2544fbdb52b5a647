/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file A preloaded library that gives queue pairs room for one request where a program asks for
 * none: siw refuses a queue pair without a send queue or without a receive queue.
 */

#include <dlfcn.h>
#include <rdma/rdma_cma.h>
#include <stdlib.h>

int
rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	static int (*next)(struct rdma_cm_id *, struct ibv_pd *, struct ibv_qp_init_attr *);

	if (next == NULL)
		*(void **)&next = dlsym(RTLD_NEXT, "rdma_create_qp");
	if (next == NULL)
		abort();
	if (attr->cap.max_send_wr == 0)
		attr->cap.max_send_wr = 1;
	if (attr->cap.max_recv_wr == 0)
		attr->cap.max_recv_wr = 1;
	return next(id, pd, attr);
}
