/* SPDX-License-Identifier: BSD-3-Clause */
/** @file weft-target's telemetry commands. They run on telemetry's thread. */

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "target.h"
#include "target_nvmf.h"
#include "target_grant.h"
#include "target_volume.h"
#include "ui.h"
#include <weft/telemetry.h>

/** A row of a command's answer: an unsigned member of a structure. */
struct tel_row {
	const char *name;
	size_t off, bytes;
};

#define TEL_ROW(type, name, member)                                                                \
	{                                                                                          \
		name, offsetof(struct type, member), sizeof(((struct type *)0)->member)            \
	}

static void
tel_rows(struct weft_tel *tel, const struct tel_row *row, unsigned int n, const void *from)
{
	for (unsigned int i = 0; i < n; i++) {
		const char *at = (const char *)from + row[i].off;
		uint32_t narrow;
		uint64_t v;

		if (row[i].bytes == sizeof(v)) {
			memcpy(&v, at, sizeof(v));
		} else {
			memcpy(&narrow, at, sizeof(narrow));
			v = narrow;
		}
		weft_tel_u64(tel, row[i].name, v);
	}
}

#define TEL_ROWS(tel, rows, from) tel_rows(tel, rows, sizeof(rows) / sizeof((rows)[0]), from)

/** /weft/target/exports: number and name of each, and the reason of one that is not served. */
static int
tel_exports(void *user, const char *params, struct weft_tel *tel)
{
	struct target *t = user;
	char n[16], why[WEFT_TEL_TEXT_MAX + 1], text[CONF_NAME_MAX + sizeof(why) + 4];

	(void)params;
	pthread_mutex_lock(&t->exports_lock);
	for (uint32_t i = 0; i < target_nexports(t); i++) {
		struct target_export *ex = &t->exports[i];

		if (target_export_gone(ex))
			continue;
		snprintf(n, sizeof(n), "%u", i);
		if (target_export_seen_why(ex, why, sizeof(why)))
			snprintf(text, sizeof(text), "%s: %s", ex->conf->name, why);
		else
			snprintf(text, sizeof(text), "%s", ex->conf->name);
		weft_tel_text(tel, n, text);
	}
	pthread_mutex_unlock(&t->exports_lock);
	return 0;
}

/** A counter that other threads count up; it orders nothing. */
static void
tel_counter(struct weft_tel *tel, const char *name, const atomic_ullong *n)
{
	weft_tel_u64(tel, name, atomic_load_explicit(n, memory_order_relaxed));
}

/** Entries "<prefix>_0" and on; the latest is first. */
static void
tel_bad_ranges(struct weft_tel *tel, const struct target_bad_ranges *of, const char *prefix,
               const char *what)
{
	const uint64_t n = of->n < TARGET_BAD_RANGES ? of->n : TARGET_BAD_RANGES;
	char text[WEFT_TEL_TEXT_MAX + 1], name[32];

	for (uint64_t i = 0; i < n; i++) {
		const struct target_bad_range *s = &of->last[(of->n - 1 - i) % TARGET_BAD_RANGES];

		snprintf(name, sizeof(name), "%s_%llu", prefix, (unsigned long long)i);
		snprintf(text, sizeof(text), "%llu octets at %llu: %s%s%s, %llu s ago",
		         (unsigned long long)s->len_bytes, (unsigned long long)s->off_bytes, what,
		         s->status == -EBADMSG ? "" : ": ",
		         s->status == -EBADMSG ? "" : strerror(-s->status),
		         (unsigned long long)(ui_now_ns() / 1000000000ULL - s->at_s));
		weft_tel_text(tel, name, text);
	}
}

/** The entries of an open export; its lock is held. */
static void
tel_open_export(struct target *t, struct target_export *ex, struct weft_tel *tel)
{
	char text[WEFT_TEL_TEXT_MAX + 1];

	weft_tel_text(tel, "format",
	              target_is_volume(ex) ? "volume"
	              : target_is_log(ex)  ? "log"
	                                   : "object");
	weft_tel_text(tel, "mechanism", target_export_mechanism(ex, text, sizeof(text)));
	weft_tel_text(tel, "hash", ex->conf->hash);
	weft_tel_u64(tel, "capacity_bytes", target_export_bytes(ex));
	weft_tel_text(tel, "configured", target_rights_str(ex->conf->rights, text, sizeof(text)));
	weft_tel_text(tel, "grants", target_rights_str(target_seen_may(ex), text, sizeof(text)));
	weft_tel_text(tel, "file", target_file_seen_str(ex));
	weft_tel_u64(tel, "files_lost",
	             atomic_load_explicit(&ex->files_lost, memory_order_relaxed));
	weft_tel_u64(tel, "grants_now", atomic_load_explicit(&ex->grants, memory_order_relaxed));
	tel_counter(tel, "rpc_reads", &ex->io_reads);
	tel_counter(tel, "rpc_read_bytes", &ex->io_read_bytes);
	tel_counter(tel, "rpc_writes", &ex->io_writes);
	tel_counter(tel, "rpc_write_bytes", &ex->io_write_bytes);
	tel_counter(tel, "rpc_durable_writes", &ex->io_durable);
	tel_counter(tel, "rpc_refused", &ex->io_refused);
	tel_counter(tel, "access_refused", &ex->access_refused);
	weft_tel_u64(tel, "writer", ex->writer != NULL);
	/* The writer's connection exists while it holds the place. */
	weft_tel_text(tel, "writer_is", ex->writer != NULL ? ex->writer->conn->peer : "");
	weft_tel_u64(tel, "writer_refused", ex->slot.refused);
	weft_tel_u64(tel, "writer_yields", ex->slot.yields);
	weft_tel_u64(tel, "revocations", ex->revocations);
	weft_tel_u64(tel, "revocations_told", ex->told);
	weft_tel_u64(tel, "revocations_reduced", ex->reduced);
	weft_tel_u64(tel, "revocations_invalidated", ex->revoked);
	weft_tel_u64(tel, "bad_ranges", ex->mismatches.n + ex->failures.n);
	weft_tel_u64(tel, "medium_failures", ex->failures.n);
	weft_tel_u64(tel, "medium_lost",
	             ex->persist != NULL && weft_guard_lost(ex->persist->base, ex->persist->bytes));
	tel_bad_ranges(tel, &ex->mismatches, "bad_range", "hash mismatch");
	tel_bad_ranges(tel, &ex->failures, "failed", "the medium failed");
	if (ex->volume != NULL)
		target_tel_volume(t, ex, tel);
}

/** /weft/target/export,NAME */
static int
tel_one_export(struct target *t, const char *params, struct weft_tel *tel)
{
	struct target_export *ex = target_export_find(t, params);
	char text[WEFT_TEL_TEXT_MAX + 1];
	bool off;

	if (ex == NULL)
		return -ENOENT;
	weft_tel_text(tel, "path", target_place(ex->conf));
	off = target_export_seen_why(ex, text, sizeof(text));
	weft_tel_u64(tel, "served", !off);
	weft_tel_text(tel, "why", off ? text : "");
	/* The medium is not closed while the lock is held. */
	pthread_mutex_lock(&ex->lock);
	if (ex->persist != NULL || ex->volume != NULL)
		tel_open_export(t, ex, tel);
	pthread_mutex_unlock(&ex->lock);
	return 0;
}

static int
tel_export(void *user, const char *params, struct weft_tel *tel)
{
	struct target *t = user;
	int rc;

	pthread_mutex_lock(&t->exports_lock);
	rc = tel_one_export(t, params, tel);
	pthread_mutex_unlock(&t->exports_lock);
	return rc;
}

/** /weft/target/clients: authenticated connections, and refusals. */
static int
tel_clients(void *user, const char *params, struct weft_tel *tel)
{
	static const char *const mode[] = {
	        [CONF_HOST_AUTH_NONE] = "none",
	        [CONF_HOST_AUTH_OPTIONAL] = "optional",
	        [CONF_HOST_AUTH_REQUIRED] = "required",
	};
	struct target *t = user;

	(void)params;
	weft_tel_text(tel, "host_auth", mode[t->conf.target.host_auth]);
	weft_tel_u64(tel, "known", target_auth_known(t));
	tel_counter(tel, "passed", &t->auth_passed);
	tel_counter(tel, "refused", &t->auth_refused);
	tel_counter(tel, "late", &t->auth_late);
	tel_counter(tel, "held_off", &t->holdoff.held);
	tel_counter(tel, "held_off_net", &t->holdoff.held_net);
	tel_counter(tel, "held_off_replaced", &t->holdoff.replaced);
	return 0;
}

/** /weft/target/grants: the number of grants, and refusals. */
static int
tel_grants(void *user, const char *params, struct weft_tel *tel)
{
	static const struct tel_row held[] = {
	        TEL_ROW(quota_stats, "grants", grants),
	        TEL_ROW(quota_stats, "grants_max", grants_max),
	        TEL_ROW(quota_stats, "grants_of_strangers", strangers),
	};
	static const struct tel_row limits[] = {
	        TEL_ROW(conf_target, "grants_per_client", max_grants_per_client),
	        TEL_ROW(conf_target, "opens_per_s", max_opens_per_s),
	};
	static const struct tel_row counted[] = {
	        TEL_ROW(quota_stats, "clients", clients),
	        TEL_ROW(quota_stats, "networks", nets),
	        TEL_ROW(quota_stats, "opens", opens),
	        TEL_ROW(quota_stats, "opens_limited", opens_limited),
	        TEL_ROW(quota_stats, "refused_client", refused_client),
	        TEL_ROW(quota_stats, "refused_network", refused_net),
	        TEL_ROW(quota_stats, "refused_all", refused_all),
	        TEL_ROW(quota_stats, "connections_pushed_out", pushed_out),
	        TEL_ROW(quota_stats, "clients_forgotten", forgotten),
	};
	struct target *t = user;
	struct quota_stats s;

	(void)params;
	quota_stats(t->quota, &s);
	TEL_ROWS(tel, held, &s);
	TEL_ROWS(tel, limits, &t->conf.target);
	TEL_ROWS(tel, counted, &s);
	return 0;
}

/** /weft/target/calls: memory that calls and their answers hold, of all workers. */
static int
tel_calls(void *user, const char *params, struct weft_tel *tel)
{
	static const struct tel_row rows[] = {
	        TEL_ROW(weft_rpc_budget_info, "limit_bytes", limit_bytes),
	        TEL_ROW(weft_rpc_budget_info, "held_bytes", held_bytes),
	        TEL_ROW(weft_rpc_budget_info, "most_bytes", most_bytes),
	        TEL_ROW(weft_rpc_budget_info, "shed", shed),
	        TEL_ROW(weft_rpc_budget_info, "refused", refused),
	};
	struct weft_rpc_budget_info all = {0}, one;
	struct target *t = user;

	(void)params;
	for (uint32_t i = 0; i < t->stack.nworkers; i++) {
		if (t->workers[i].budget == NULL)
			continue;
		weft_rpc_budget_info(t->workers[i].budget, &one);
		all.limit_bytes += one.limit_bytes;
		all.held_bytes += one.held_bytes;
		all.most_bytes += one.most_bytes;
		all.shed += one.shed;
		all.refused += one.refused;
	}
	TEL_ROWS(tel, rows, &all);
	return 0;
}

/** /weft/target/replies: the duplicate request cache, of all workers. */
static int
tel_replies(void *user, const char *params, struct weft_tel *tel)
{
	static const struct tel_row rows[] = {
	        TEL_ROW(weft_rpc_drc_info, "replies_max", max_replies),
	        TEL_ROW(weft_rpc_drc_info, "replies", replies),
	        TEL_ROW(weft_rpc_drc_info, "reply_bytes", reply_bytes),
	        TEL_ROW(weft_rpc_drc_info, "evicted", evicted),
	        TEL_ROW(weft_rpc_drc_info, "replayed", replayed),
	        TEL_ROW(weft_rpc_drc_info, "waited", waited),
	};
	struct weft_rpc_drc_info info;
	struct target *t = user;

	(void)params;
	weft_rpc_drc_info(t->drc, &info);
	TEL_ROWS(tel, rows, &info);
	return 0;
}

static const struct {
	const char *path, *help;
	int (*fn)(void *user, const char *params, struct weft_tel *tel);
} tel_commands[] = {
        {"/weft/target/exports", "Names of the exports. No parameters", tel_exports},
        {"/weft/target/export",
         "One export: grants, revocations, bad ranges. Parameters: string name", tel_export},
        {"/weft/target/clients", "Host authentication: passed, refused, held off. No parameters",
         tel_clients},
        {"/weft/target/calls", "Memory of calls and answers. No parameters", tel_calls},
        {"/weft/target/volumes",
         "Memory of volumes: staging, windows, flushes of windows. No parameters",
         target_tel_volumes},
        {"/weft/target/replies", "Replies kept for calls that come again. No parameters",
         tel_replies},
        {"/weft/target/grants", "Grants, and OPENs refused by share and rate. No parameters",
         tel_grants},
        {"/weft/target/tickets", "Tickets for logs: given, used, refused. No parameters",
         target_tel_tickets},
        {"/weft/target/nvmf", "NVMe hosts: controllers, commands, refusals. No parameters",
         target_tel_nvmf},
        {"/weft/target/nvmf_controller",
         "Controllers of NVMe hosts. Parameters: int number of one, with its queues",
         target_tel_nvmf_ctrl},
        {"/weft/target/nvmf_subsystem",
         "Subsystems. Parameters: string NQN of one, with its namespaces", target_tel_nvmf_ns},
};

#define TEL_COMMANDS (sizeof(tel_commands) / sizeof(tel_commands[0]))

void
target_tel_begin(struct target *t)
{
	int rc = 0;

	if (!t->conf.weft.telemetry)
		return;
	for (unsigned int i = 0; rc == 0 && i < TEL_COMMANDS; i++)
		rc = weft_telemetry_command(tel_commands[i].path, tel_commands[i].help,
		                            tel_commands[i].fn, t);
	if (rc != 0)
		ui_msg(UI_WARNING "telemetry has no commands for exports and clients");
}

void
target_tel_end(void)
{
	for (unsigned int i = 0; i < TEL_COMMANDS; i++)
		weft_telemetry_forget(tel_commands[i].path);
}
