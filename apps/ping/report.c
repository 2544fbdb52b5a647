/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Output: data, steps, the table with perftest's columns, JSON. */

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* Text that standard output has not accepted yet. */
static struct {
	char *text;
	size_t len, done;
} said;

void
ping_say(const char *what, const uint8_t *data, uint32_t size_bytes)
{
	size_t room = said.len + strlen(what) + size_bytes + sizeof(": \n");
	char *text = realloc(said.text, room);

	if (text == NULL)
		return;
	said.text = text;
	said.len += (size_t)sprintf(text + said.len, "%s: ", what);
	said.len += ping_text(data, size_bytes, text + said.len);
	text[said.len++] = '\n';
}

bool
ping_shown(void)
{
	while (said.done < said.len) {
		struct pollfd fd = {.fd = STDOUT_FILENO, .events = POLLOUT};
		size_t left = said.len - said.done;
		ssize_t n;

		/* A writable pipe takes this much without blocking. */
		if (poll(&fd, 1, 0) == 0)
			return false;
		n = write(STDOUT_FILENO, said.text + said.done, left < PIPE_BUF ? left : PIPE_BUF);
		if (n < 0 && errno == EINTR)
			continue;
		/* an error: drop the text, there is no reader */
		said.done = n > 0 ? said.done + (size_t)n : said.len;
	}
	free(said.text);
	said.text = NULL;
	said.len = said.done = 0;
	return true;
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
