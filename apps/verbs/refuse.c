/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file What iWARP does not have, refused as a device of the kernel refuses it: addresses of
 * datagrams, multicast, import of another process's objects, memory of other devices. And calls
 * that have nothing to do here.
 */

#include "api.h"

#include <errno.h>
#include <infiniband/verbs.h>

static void *
refuse_ptr(void)
{
	errno = EOPNOTSUPP;
	return NULL;
}

WV_API struct ibv_ah *
ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	(void)pd;
	(void)attr;
	return refuse_ptr();
}

WV_API struct ibv_ah *
ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh, uint8_t port)
{
	(void)pd;
	(void)wc;
	(void)grh;
	(void)port;
	return refuse_ptr();
}

WV_API int
ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port, struct ibv_wc *wc,
                    struct ibv_grh *grh, struct ibv_ah_attr *attr)
{
	(void)context;
	(void)port;
	(void)wc;
	(void)grh;
	(void)attr;
	errno = EOPNOTSUPP;
	return -1;
}

WV_API int
ibv_destroy_ah(struct ibv_ah *ah)
{
	(void)ah;
	return EOPNOTSUPP;
}

WV_API int
ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	(void)qp;
	(void)gid;
	(void)lid;
	return EOPNOTSUPP;
}

WV_API int
ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	(void)qp;
	(void)gid;
	(void)lid;
	return EOPNOTSUPP;
}

WV_API int
ibv_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr,
                            uint8_t eth_mac[ETHERNET_LL_SIZE], uint16_t *vid)
{
	(void)context;
	(void)attr;
	(void)eth_mac;
	(void)vid;
	return -EOPNOTSUPP;
}

WV_API struct ibv_context *
ibv_import_device(int fd)
{
	(void)fd;
	return refuse_ptr();
}

WV_API struct ibv_pd *
ibv_import_pd(struct ibv_context *context, uint32_t handle)
{
	(void)context;
	(void)handle;
	return refuse_ptr();
}

WV_API void
ibv_unimport_pd(struct ibv_pd *pd)
{
	(void)pd;
}

WV_API struct ibv_mr *
ibv_import_mr(struct ibv_pd *pd, uint32_t handle)
{
	(void)pd;
	(void)handle;
	return refuse_ptr();
}

WV_API void
ibv_unimport_mr(struct ibv_mr *mr)
{
	(void)mr;
}

WV_API struct ibv_dm *
ibv_import_dm(struct ibv_context *context, uint32_t handle)
{
	(void)context;
	(void)handle;
	return refuse_ptr();
}

WV_API void
ibv_unimport_dm(struct ibv_dm *dm)
{
	(void)dm;
}

WV_API struct ibv_mr *
ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
                  int access)
{
	(void)pd;
	(void)offset;
	(void)length;
	(void)iova;
	(void)fd;
	(void)access;
	return refuse_ptr();
}

WV_API int
ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	(void)qp;
	(void)ece;
	return EOPNOTSUPP;
}

WV_API int
ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	(void)qp;
	ece->vendor_id = 0;
	ece->options = 0;
	ece->comp_mask = 0;
	return EOPNOTSUPP;
}

/* Weft copies what it sends and what arrives by the processor: pages are never shared with a
 * device, so a child's copy-on-write changes nothing. */

WV_API int
ibv_fork_init(void)
{
	return 0;
}

WV_API enum ibv_fork_status
ibv_is_fork_initialized(void)
{
	return IBV_FORK_UNNEEDED;
}
