/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The number of connections for which a port has buffers. */

#include <rte_common.h>

#include "weft_netif_plan.h"
#include <weft/room.h>
#include "weft_tcp_plan.h"
#include "weft_vworker.h"

#define ROOM_DEFAULT_MBUFS 8192 /* weft_port_attr.mbufs */

uint32_t
weft_room_conns(const struct weft_tcp_attr *tcp, uint32_t mbufs, uint32_t workers)
{
	static const struct weft_tcp_attr defaults;

	workers = workers == 0 ? 1 : RTE_MIN(workers, (uint32_t)WEFT_MAX_WORKERS);
	return weft_tcp_plan_conns(
	        tcp != NULL ? tcp : &defaults,
	        weft_netif_plan_snd(mbufs != 0 ? mbufs : ROOM_DEFAULT_MBUFS, workers));
}
