/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The numbers of the console's own objects in what telemetry answers (show_own.h). */

#include "show_own.h"

#include <stdlib.h>
#include <string.h>

#include "console.h"

/** The number of the QP that the stack calls qpn; 0: no command names it. */
static unsigned int
qp_number(json_int_t qpn)
{
	struct weft_qp_info in;

	for (unsigned int n = 1; n <= CONSOLE_MAX_QPS; n++) {
		if (!con.qps[n].used)
			continue;
		weft_qp_query(con.qps[n].qp, &in);
		if (in.qpn == qpn)
			return n;
	}
	return 0;
}

static void
number_qp(json_t *row)
{
	const json_int_t qpn = json_integer_value(json_object_get(row, "number"));
	const unsigned int n = qp_number(qpn);

	json_object_set_new(row, "number", json_integer(n != 0 ? n : SHOW_OWN_OTHERS + qpn));
}

static unsigned int
region_number(uint32_t stag)
{
	for (unsigned int n = 1; n <= CONSOLE_MAX_REGIONS; n++)
		if (con.regions[n].used && weft_mr_stag(con.regions[n].mr) == stag)
			return n;
	return 0;
}

static unsigned int
window_number(uint32_t stag)
{
	for (unsigned int n = 1; n <= CONSOLE_MAX_WINDOWS; n++)
		if (con.windows[n].used && weft_mw_stag(con.windows[n].mw) == stag)
			return n;
	return 0;
}

static void
number_stag(json_t *row, unsigned int (*number_of)(uint32_t stag))
{
	const char *stag = json_string_value(json_object_get(row, "stag"));
	const unsigned int n = stag != NULL ? number_of((uint32_t)strtoul(stag, NULL, 16)) : 0;

	if (n != 0)
		json_object_set_new(row, "number", json_integer(n));
	else
		json_object_del(row, "number");
}

void
show_own_numbers(const struct show_noun *n, json_t *rows)
{
	json_t *row;
	size_t i;

	if (n->cmd == NULL)
		return;
	json_array_foreach(rows, i, row)
	{
		if (strcmp(n->cmd, "/weft/qps") == 0)
			number_qp(row);
		else if (strcmp(n->cmd, "/weft/regions") == 0)
			number_stag(row, region_number);
		else if (strcmp(n->cmd, "/weft/windows") == 0)
			number_stag(row, window_number);
	}
}
