/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Checks at build time of what librdmacm shares with the kernel. */

#include "ucm_types.h"

#include <assert.h>
#include <rdma/rdma_cma.h>

static_assert((int)CM_EV_ADDR_RESOLVED == RDMA_CM_EVENT_ADDR_RESOLVED &&
                      (int)CM_EV_ROUTE_RESOLVED == RDMA_CM_EVENT_ROUTE_RESOLVED &&
                      (int)CM_EV_CONNECT_REQUEST == RDMA_CM_EVENT_CONNECT_REQUEST &&
                      (int)CM_EV_CONNECT_ERROR == RDMA_CM_EVENT_CONNECT_ERROR &&
                      (int)CM_EV_UNREACHABLE == RDMA_CM_EVENT_UNREACHABLE &&
                      (int)CM_EV_REJECTED == RDMA_CM_EVENT_REJECTED &&
                      (int)CM_EV_ESTABLISHED == RDMA_CM_EVENT_ESTABLISHED &&
                      (int)CM_EV_DISCONNECTED == RDMA_CM_EVENT_DISCONNECTED,
              "types of events");
