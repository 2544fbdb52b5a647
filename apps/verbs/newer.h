/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_VERBS_NEWER_H
#define WEFT_APPS_VERBS_NEWER_H

/**
 * @file What rdma-core 45 added to the interface of version 44, for programs that are built with
 * newer headers: Flush. All of it is inline in the program, so it runs with the libraries of
 * version 44. The values and places are those of versions 45 to 64.
 */

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

/* enum ibv_access_flags */
#define WV_ACCESS_FLUSH_GLOBAL     (1u << 8)
#define WV_ACCESS_FLUSH_PERSISTENT (1u << 9)
/* enum ibv_qp_create_send_ops_flags */
#define WV_QP_EX_WITH_FLUSH (1u << 11)
/* enum ibv_wc_opcode; of type int, for a place where that enum is wanted */
#define WV_WC_FLUSH 8
/* enum ibv_placement_type */
#define WV_FLUSH_GLOBAL     1u
#define WV_FLUSH_PERSISTENT 2u
/* enum ibv_selectivity_level */
#define WV_FLUSH_RANGE 0u
#define WV_FLUSH_MR    1u
/* ibv_device_attr_ex.device_cap_flags_ex: enum ib_uverbs_device_cap_flags of Linux 6.2 */
#define WV_DEVICE_FLUSH_GLOBAL (1ULL << 38)
#define WV_DEVICE_ATOMIC_WRITE (1ULL << 40)

/** struct ibv_qp_ex of version 45: the one of version 44, and one more function. */
struct wv_qp_ex {
	union {
		struct ibv_qp_ex ex; /**< of the installed headers, with or without that function */
		struct {
			char v44[offsetof(struct ibv_qp_ex, wr_atomic_write) +
			         sizeof(void (*)(void))];
			void (*wr_flush)(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr,
			                 size_t len, uint8_t type, uint8_t level);
		} v45;
	};
};

#endif /* WEFT_APPS_VERBS_NEWER_H */
