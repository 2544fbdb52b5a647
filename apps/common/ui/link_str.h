/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_LINK_STR_H
#define WEFT_APPS_LINK_STR_H

/** @file A port's link as text. */

#include <weft/weft.h>

#define LINK_STR_MAX 96

/** "up (10000 Mbit/s, full duplex, pause off, came up 2 times)", "down", "removed". Returns buf. */
const char *link_str(const struct weft_port_stats *st, char buf[LINK_STR_MAX]);

#endif /* WEFT_APPS_LINK_STR_H */
