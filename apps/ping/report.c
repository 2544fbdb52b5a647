/* SPDX-License-Identifier: BSD-3-Clause */
/** @file What is said: data, steps, the table in perftest's manner, JSON. */

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "addr.h"
#include "json.h"
#include "ping.h"
#include "ui.h"

void
ping_debug(const struct ping_opt *o, const char *fmt, ...)
{
	char text[PING_WHY_MAX];
	va_list ap;

	if (!o->debug)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	ui_msg("%s", text);
}

void
ping_say(const char *what, const uint8_t *data, uint32_t size_bytes)
{
	char *text = malloc((size_t)size_bytes + 1);

	if (text == NULL)
		return;
	(void)ping_text(data, size_bytes, text);
	printf("%s: %s\n", what, text);
	free(text);
}

void
ping_print_table(const struct ping_opt *opt, const struct ping_result *res)
{
	const struct hist *h = &res->rtt;

	if (h->n == 0)
		return;
	printf(" #bytes #iterations    t_min[usec]    t_avg[usec]    t_typical[usec]    99%% "
	       "percentile[usec]   t_max[usec]\n");
	printf(" %-7u %-10" PRIu64 "     %-12.2f   %-11.2f    %-15.2f    %-20.2f   %.2f\n",
	       opt->size_bytes, h->n, (double)h->min / 1e3, hist_mean(h) / 1e3,
	       (double)hist_pct(h, 50) / 1e3, (double)hist_pct(h, 99) / 1e3, (double)h->max / 1e3);
}

void
ping_print_json(const struct ping_opt *opt, const struct ping_result *res, const char *error)
{
	const struct hist *h = &res->rtt;
	const double us = h->n != 0 ? 1e-3 : NAN; /* without a ping there is no time: null */
	char where[ADDR_STR_MAX];
	struct json j;

	json_start(&j, stdout);
	json_obj(&j, NULL);
	json_str(&j, "version", weft_version());
	json_str(&j, "role", opt->server ? "server" : "client");
	json_str(&j, "server", addr_str(&opt->addr, where));
	json_u64(&j, "bytes", opt->size_bytes);
	json_bool(&j, "verified", opt->verify);
	json_u64(&j, "pings", res->pings);
	if (opt->server) {
		json_u64(&j, "clients", res->clients + res->failed);
		json_u64(&j, "failed", res->failed);
	} else {
		json_dbl(&j, "seconds", res->seconds, 6);
		json_dbl(&j, "t_min_us", (double)h->min * us, 3);
		json_dbl(&j, "t_avg_us", hist_mean(h) * us, 3);
		json_dbl(&j, "t_stdev_us", hist_stdev(h) * us, 3);
		json_dbl(&j, "t_p50_us", (double)hist_pct(h, 50) * us, 3);
		json_dbl(&j, "t_p99_us", (double)hist_pct(h, 99) * us, 3);
		json_dbl(&j, "t_max_us", (double)h->max * us, 3);
	}
	json_str(&j, "error", error);
	json_obj_end(&j);
	json_finish(&j);
}
