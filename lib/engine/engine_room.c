/* SPDX-License-Identifier: BSD-3-Clause */
/** @file What the buffers of a port suffice for, and what memory they take. */

#include <rte_common.h>
#include <rte_mbuf.h>

#include "weft_netif_plan.h"
#include <weft/room.h>
#include "weft_tcp_plan.h"
#include "weft_vworker.h"

#define ROOM_DEFAULT_MBUFS 8192       /* weft_port_attr.mbufs */
#define ROOM_MAX_MBUFS     (1u << 30) /* a pool of more cannot be made */

uint32_t
weft_room_conns(const struct weft_tcp_attr *tcp, uint32_t mbufs, uint32_t workers)
{
	static const struct weft_tcp_attr defaults;

	workers = workers == 0 ? 1 : RTE_MIN(workers, (uint32_t)WEFT_MAX_WORKERS);
	return weft_tcp_plan_conns(
	        tcp != NULL ? tcp : &defaults,
	        weft_netif_plan_snd(mbufs != 0 ? mbufs : ROOM_DEFAULT_MBUFS, workers));
}

uint64_t
weft_room_bytes(const struct weft_port_attr *attr, uint32_t page_bytes)
{
	struct weft_port_attr a = {0};

	if (attr == NULL || weft_attr_copy(&a, sizeof(a), attr) < 0 || a.dev == NULL ||
	    a.mbufs == 1 || a.mbufs > ROOM_MAX_MBUFS || a.queues > WEFT_MAX_WORKERS ||
	    !rte_is_power_of_2(page_bytes))
		return 0;
	return weft_netif_plan_bytes(a.dev, a.mtu_bytes,
	                             a.mbufs != 0 ? a.mbufs : ROOM_DEFAULT_MBUFS,
	                             a.queues != 0 ? a.queues : 1, page_bytes);
}
