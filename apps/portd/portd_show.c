/* SPDX-License-Identifier: BSD-3-Clause */
/** @file What is shown of the daemon: telemetry commands, which run on telemetry's thread. */

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "json.h"
#include "portd.h"
#include "ui.h"
#include <weft/telemetry.h>

/** A counter: a member of a structure. */
struct show_row {
	const char *name;
	size_t off;
};

#define ROW(type, member)                                                                          \
	{                                                                                          \
#member, offsetof(struct type, member)                                             \
	}

static const struct show_row show_control[] = {
        ROW(portd_control_counts, came),           ROW(portd_control_counts, left),
        ROW(portd_control_counts, claims),         ROW(portd_control_counts, claims_refused),
        ROW(portd_control_counts, releases),       ROW(portd_control_counts, blocks),
        ROW(portd_control_counts, blocks_refused), ROW(portd_control_counts, refused_user),
        ROW(portd_control_counts, refused_full),   ROW(portd_control_counts, failed),
        ROW(portd_control_counts, no_fd),          ROW(portd_control_counts, bad),
        ROW(portd_control_counts, silent),         ROW(portd_control_counts, unread),
        ROW(portd_control_counts, throttled),
};
static const struct show_row show_proc[] = {
        ROW(portd_counts, in_frames),  ROW(portd_counts, in_bytes),  ROW(portd_counts, in_full),
        ROW(portd_counts, out_frames), ROW(portd_counts, out_bytes), ROW(portd_counts, out_local),
        ROW(portd_counts, out_waits),  ROW(portd_counts, resets),    ROW(portd_counts, faults),
};
#define ROWS(rows) (sizeof(rows) / sizeof((rows)[0]))

static uint64_t
show_value(const void *from, const struct show_row *row)
{
	const _Atomic uint64_t *at = (const void *)((const uint8_t *)from + row->off);

	return atomic_load_explicit(at, memory_order_relaxed);
}

/** Where counters go: a dictionary of telemetry, or an object of JSON. */
struct show {
	struct weft_tel *tel;
	struct json *json;
};

static void
show_u64(const struct show *s, const char *name, uint64_t v)
{
	if (s->tel != NULL)
		weft_tel_u64(s->tel, name, v);
	else
		json_u64(s->json, name, v);
}

static void
show_text(const struct show *s, const char *name, const char *v)
{
	if (s->tel != NULL)
		weft_tel_text(s->tel, name, v);
	else
		json_str(s->json, name, v);
}

static void
show_counts(const struct show *s, const struct portd_counts *c)
{
	char name[32];

	for (size_t i = 0; i < ROWS(show_proc); i++)
		show_u64(s, show_proc[i].name, show_value(c, &show_proc[i]));
	for (unsigned int i = 0; i < PORTD_WHYS; i++) {
		snprintf(name, sizeof(name), "dropped_%s", portd_why_names[i]);
		show_u64(s, name, atomic_load_explicit(&c->dropped[i], memory_order_relaxed));
	}
}

static void
show_all(const struct show *s, const struct portd *d)
{
	const struct portd_control_counts *c = portd_control_counts(d->control);
	struct portd_control_proc p;
	struct portd_counts sum;
	uint64_t now = 0;

	for (uint32_t i = 0; i < d->max_procs; i++)
		now += portd_control_proc(d->control, i, &p);
	show_u64(s, "processes", now);
	show_u64(s, "max_processes", d->max_procs);
	show_u64(s, "max_claims", d->max_claims);
	show_u64(s, "max_blocks", d->max_blocks);
	show_u64(s, "dead_us", d->dead_us);
	for (size_t i = 0; i < ROWS(show_control); i++)
		show_u64(s, show_control[i].name, show_value(c, &show_control[i]));
	show_u64(s, "wire_frames", portd_forward_taken(d->forward));
	portd_forward_sum(d->forward, &sum);
	show_counts(s, &sum);
}

/** -ENOENT: there is no such process. */
static int
show_one(const struct show *s, const struct portd *d, uint32_t proc)
{
	const struct portd_counts *c;
	struct portd_control_proc p;
	char name[32];

	if (proc >= d->max_procs || !portd_control_proc(d->control, proc, &p))
		return -ENOENT;
	c = portd_forward_counts(d->forward, proc);
	show_u64(s, "pid", (uint64_t)p.pid);
	show_text(s, "program", ui_printable(p.name, name, sizeof(name)));
	show_counts(s, c);
	return 0;
}

static int
tel_all(void *user, const char *params, struct weft_tel *t)
{
	const struct show s = {.tel = t};

	if (*params != '\0')
		return -EINVAL;
	show_all(&s, user);
	return 0;
}

static int
tel_processes(void *user, const char *params, struct weft_tel *t)
{
	const struct portd *d = user;
	struct portd_control_proc p;
	char n[16], name[16], text[64];

	if (*params != '\0')
		return -EINVAL;
	for (uint32_t i = 0; i < d->max_procs; i++) {
		if (!portd_control_proc(d->control, i, &p))
			continue;
		snprintf(n, sizeof(n), "%u", i);
		snprintf(text, sizeof(text), "%ld %s", (long)p.pid,
		         ui_printable(p.name, name, sizeof(name)));
		weft_tel_text(t, n, text);
	}
	return 0;
}

static int
tel_process(void *user, const char *params, struct weft_tel *t)
{
	const struct portd *d = user;
	const struct show s = {.tel = t};
	uint64_t proc;

	if (ui_parse_u64(params, 0, d->max_procs - 1, &proc) != 0)
		return -EINVAL;
	return show_one(&s, d, (uint32_t)proc);
}

static const struct {
	const char *cmd, *help;
	weft_tel_fn fn;
} show_commands[] = {
        {"/weft/portd/stats", "Limits and counters of weft-portd", tel_all},
        {"/weft/portd/processes", "Processes of weft-portd: pid and program of each",
         tel_processes},
        {"/weft/portd/process", "Counters of one process. Parameter: its number", tel_process},
};

int
portd_show_begin(struct portd *d)
{
	for (size_t i = 0; i < ROWS(show_commands); i++) {
		int rc = weft_telemetry_command(show_commands[i].cmd, show_commands[i].help,
		                                show_commands[i].fn, d);

		if (rc != 0)
			return rc;
	}
	return 0;
}

void
portd_show_end(void)
{
	for (size_t i = 0; i < ROWS(show_commands); i++)
		weft_telemetry_forget(show_commands[i].cmd);
}

void
portd_show_json(const struct portd *d)
{
	struct json j;
	const struct show s = {.json = &j};

	json_start(&j, stdout);
	json_obj(&j, NULL);
	show_all(&s, d);
	json_obj_end(&j);
	json_finish(&j);
}
