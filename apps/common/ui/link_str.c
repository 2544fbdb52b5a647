/* SPDX-License-Identifier: BSD-3-Clause */
/** @file A port's link as text. */

#include "link_str.h"

#include <inttypes.h>
#include <stdio.h>

static const char *
pause_str(const struct weft_port_stats *st)
{
	static const char *const text[] = {"off", "sent", "obeyed", "on"};

	return text[(st->pause_rx > 0) << 1 | (st->pause_tx > 0)];
}

const char *
link_str(const struct weft_port_stats *st, char buf[LINK_STR_MAX])
{
	const char *sep = " (", *end = "";
	size_t at;

	at = (size_t)snprintf(buf, LINK_STR_MAX, "%s",
	                      st->removed   ? "removed"
	                      : st->link_up ? "up"
	                                    : "down");
	if (st->removed)
		return buf;
	if (st->link_up && st->speed_mbps != 0) {
		at += (size_t)snprintf(buf + at, LINK_STR_MAX - at,
		                       "%s%" PRIu32 " Mbit/s, %s duplex", sep, st->speed_mbps,
		                       st->full_duplex ? "full" : "half");
		sep = ", ";
		end = ")";
	}
	if (st->link_up && st->pause_rx >= 0) {
		at += (size_t)snprintf(buf + at, LINK_STR_MAX - at, "%spause %s", sep,
		                       pause_str(st));
		sep = ", ";
		end = ")";
	}
	if (st->link_downs > 0) {
		at += (size_t)snprintf(buf + at, LINK_STR_MAX - at, "%swent down %" PRIu64 " times",
		                       sep, st->link_downs);
		end = ")";
	}
	snprintf(buf + at, LINK_STR_MAX - at, "%s", end);
	return buf;
}
