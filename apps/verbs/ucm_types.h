/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_VERBS_UCM_TYPES_H
#define WEFT_APPS_VERBS_UCM_TYPES_H

/**
 * @file Types of events as the kernel counts them. No header of the kernel has them, and
 * rdma/rdma_cma.h, which has, cannot be included beside rdma/rdma_user_cm.h.
 */

enum cm_type {
	CM_EV_ADDR_RESOLVED = 0,
	CM_EV_ROUTE_RESOLVED = 2,
	CM_EV_CONNECT_REQUEST = 4,
	CM_EV_CONNECT_ERROR = 6,
	CM_EV_UNREACHABLE = 7,
	CM_EV_REJECTED = 8,
	CM_EV_ESTABLISHED = 9,
	CM_EV_DISCONNECTED = 10,
	CM_EV_DEVICE_REMOVAL = 11,
};

#endif /* WEFT_APPS_VERBS_UCM_TYPES_H */
