/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Which function does which method of the control socket, and on which thread. */

#include <string.h>

#include "target_control.h"

static const struct control_handler handlers[] = {
        {.method = "status", .here = control_status},
        {.method = "exports", .here = control_exports, .sample = control_exports_sample},
        {.method = "clients",
         .prepare = control_conns_prepare,
         .worker = control_conns_collect,
         .finish = control_clients,
         .sample = control_conns_sample},
        {.method = "connections",
         .prepare = control_conns_prepare,
         .worker = control_conns_collect,
         .finish = control_connections},
        {.method = "limits",
         .prepare = control_limits_prepare,
         .worker = control_limits_collect,
         .finish = control_limits,
         .sample = control_limits_sample},
        {.method = "slow",
         .prepare = control_slow_prepare,
         .worker = control_slow_collect,
         .finish = control_slow},
        {.method = "slow.packets", .here = control_slow_packets},
        {.method = "capture.start", .program = control_capture_start},
        {.method = "capture.stop", .program = control_capture_stop},
        {.method = "capture.status", .program = control_capture_status},
        {.method = "support", .program = control_support},
        {.method = "dump", .program = control_dump},
        {.method = "diff", .program = control_diff},
        {.method = "apply", .program = control_apply},
        {.method = "loglevel", .program = control_loglevel},
        {.method = "reload", .program = control_reload},
        {.method = "drain", .program = control_drain},
        {.method = "offline", .program = control_offline},
        {.method = "online", .program = control_online},
        {.method = "drop", .worker = control_drop_collect, .finish = control_drop},
        {.method = "export.create", .program = control_create},
        {.method = "export.set", .program = control_set},
        {.method = "export.resize", .program = control_resize},
        {.method = "export.rename", .program = control_rename},
        {.method = "export.delete", .program = control_delete},
        {.method = "stop", .program = control_stop},
        {.method = "restart", .program = control_restart},
};

const struct control_handler *
control_handler_find(const char *method)
{
	for (unsigned int i = 0; i < sizeof(handlers) / sizeof(handlers[0]); i++)
		if (strcmp(handlers[i].method, method) == 0)
			return &handlers[i];
	return NULL;
}
