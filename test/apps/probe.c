/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The common part of the clients that tests command. */

#include "probe.h"

#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ui.h"

void
probe_up(struct stack *st, const char *name, const char *dev, const char *cidr)
{
	static struct conf conf;
	const struct stack_opt so = {.progname = name, .quiet = true};
	char err[CONF_ERR_MAX];

	conf_defaults(&conf);
	if (conf_add_port(&conf, "p0", dev, cidr, 0, err, sizeof(err)) != 0 ||
	    conf_finish(&conf, err, sizeof(err)) != 0 ||
	    stack_up(&conf, &so, st, err, sizeof(err)) != 0)
		ui_die("%s", err);
}

bool
probe_wait(struct weft_worker *w, const bool *flag, const bool *gone, uint64_t timeout_ns)
{
	uint64_t end = ui_now_ns() + timeout_ns;

	while (!*flag && (gone == NULL || !*gone) && ui_now_ns() < end)
		if (weft_worker_poll(w) == 0)
			weft_worker_idle(w, 50);
	return *flag;
}

bool
probe_next_line(struct weft_worker *w, char *line, size_t size)
{
	struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};

	while (poll(&in, 1, 0) == 0)
		if (weft_worker_poll(w) == 0)
			weft_worker_idle(w, 50);
	return fgets(line, (int)size, stdin) != NULL;
}

uint32_t
probe_record_bytes(uint64_t n)
{
	return 16 + (uint32_t)((n * 0x9e3779b97f4a7c15ull) >> 33) % (PROBE_RECORD_MAX - 16);
}

void
probe_record_fill(uint8_t *rec, uint64_t n, uint64_t writer)
{
	uint64_t be[2] = {htobe64(n), htobe64(writer)};
	uint32_t len = probe_record_bytes(n);

	memcpy(rec, be, sizeof(be));
	for (uint32_t i = sizeof(be); i < len; i++)
		rec[i] = (uint8_t)(n * 31 + i * 7 + (i >> 8)) ^ (uint8_t)writer;
}

/** Write a line of numbers at once. */
static void
probe_line(const char *fmt, unsigned long long a, unsigned long long b, unsigned long long c)
{
	char line[100];
	int len = snprintf(line, sizeof(line), fmt, a, b, c);

	if (write(STDOUT_FILENO, line, (size_t)len) != len)
		ui_die("standard output: %s", strerror(errno));
}

uint64_t
probe_record_had(const struct weft_log_record *rec, uint64_t last)
{
	uint8_t want[PROBE_RECORD_MAX];
	uint64_t be[2], n, writer;

	if (rec->len_bytes < sizeof(be))
		ui_die("a record of %u octets", rec->len_bytes);
	memcpy(be, rec->data, sizeof(be));
	n = be64toh(be[0]);
	writer = be64toh(be[1]);
	if (rec->len_bytes != probe_record_bytes(n) || (last != 0 && n != last + 1))
		ui_die("record %llu of %u octets behind %llu", (unsigned long long)n,
		       rec->len_bytes, (unsigned long long)last);
	probe_record_fill(want, n, writer);
	if (memcmp(rec->data, want, rec->len_bytes) != 0)
		ui_die("record %llu has other octets", (unsigned long long)n);
	probe_line("had %llu %llu %llu\n", n, rec->at.position, writer);
	return n;
}

void
probe_acknowledged(uint64_t n, const struct weft_log_at *at)
{
	probe_line("%llu %llu\n", n, at->position, 0);
}

void
probe_trims(uint64_t n)
{
	probe_line("trim %llu\n", n, 0, 0);
}
