/* SPDX-License-Identifier: BSD-3-Clause */
/** @file weft-target's telemetry commands. They run on telemetry's thread. */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "target.h"
#include "ui.h"
#include <weft/telemetry.h>

/** /weft/target/exports: number and name of each, and the reason of one that is not served. */
static int
tel_exports(void *user, const char *params, struct weft_tel *tel)
{
	struct target *t = user;
	char n[16], why[WEFT_TEL_TEXT_MAX + 1], text[CONF_NAME_MAX + sizeof(why) + 4];

	(void)params;
	for (uint32_t i = 0; i < t->nexports; i++) {
		struct target_export *ex = &t->exports[i];

		snprintf(n, sizeof(n), "%u", i);
		if (target_export_why(ex, why, sizeof(why)))
			snprintf(text, sizeof(text), "%s: %s", ex->conf->name, why);
		else
			snprintf(text, sizeof(text), "%s", ex->conf->name);
		weft_tel_text(tel, n, text);
	}
	return 0;
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
		snprintf(text, sizeof(text), "%llu octets at %llu: %s, %llu s ago",
		         (unsigned long long)s->len_bytes, (unsigned long long)s->off_bytes, what,
		         (unsigned long long)(ui_now_ns() / 1000000000ULL - s->at_s));
		weft_tel_text(tel, name, text);
	}
}

/** The entries of an open export; its lock is held. */
static void
tel_open_export(struct target_export *ex, struct weft_tel *tel)
{
	char text[WEFT_TEL_TEXT_MAX + 1];

	weft_tel_text(tel, "format", target_is_log(ex) ? "log" : "object");
	weft_tel_text(tel, "mechanism", ex->persist->mechanism);
	weft_tel_text(tel, "hash", ex->conf->hash);
	weft_tel_u64(tel, "capacity_bytes",
	             target_is_log(ex) ? ex->persist->bytes : ex->super.capacity_bytes);
	weft_tel_text(tel, "configured", target_rights_str(ex->conf->rights, text, sizeof(text)));
	weft_tel_text(tel, "grants", target_rights_str(target_may(ex), text, sizeof(text)));
	weft_tel_text(tel, "file", target_file_str(ex));
	weft_tel_u64(tel, "files_lost", atomic_load(&ex->files_lost));
	weft_tel_u64(tel, "grants_now", atomic_load(&ex->grants));
	weft_tel_u64(tel, "rpc_reads", atomic_load(&ex->io_reads));
	weft_tel_u64(tel, "rpc_read_bytes", atomic_load(&ex->io_read_bytes));
	weft_tel_u64(tel, "rpc_writes", atomic_load(&ex->io_writes));
	weft_tel_u64(tel, "rpc_write_bytes", atomic_load(&ex->io_write_bytes));
	weft_tel_u64(tel, "rpc_durable_writes", atomic_load(&ex->io_durable));
	weft_tel_u64(tel, "rpc_refused", atomic_load(&ex->io_refused));
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
	weft_tel_u64(tel, "medium_lost", weft_guard_lost(ex->persist->base, ex->persist->bytes));
	tel_bad_ranges(tel, &ex->mismatches, "bad_range", "hash mismatch");
	tel_bad_ranges(tel, &ex->failures, "failed", "the medium failed");
}

/** /weft/target/export,NAME */
static int
tel_export(void *user, const char *params, struct weft_tel *tel)
{
	struct target *t = user;
	struct target_export *ex = target_export_find(t, params);
	char text[WEFT_TEL_TEXT_MAX + 1];
	bool off;

	if (ex == NULL)
		return -ENOENT;
	weft_tel_text(tel, "path", ex->conf->path);
	off = target_export_why(ex, text, sizeof(text));
	weft_tel_u64(tel, "served", !off);
	weft_tel_text(tel, "why", off ? text : "");
	/* The medium is not closed while the lock is held. */
	pthread_mutex_lock(&ex->lock);
	if (ex->persist != NULL)
		tel_open_export(ex, tel);
	pthread_mutex_unlock(&ex->lock);
	return 0;
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
	weft_tel_u64(tel, "passed", atomic_load(&t->auth_passed));
	weft_tel_u64(tel, "refused", atomic_load(&t->auth_refused));
	weft_tel_u64(tel, "late", atomic_load(&t->auth_late));
	weft_tel_u64(tel, "held_off", atomic_load(&t->holdoff.held));
	weft_tel_u64(tel, "held_off_net", atomic_load(&t->holdoff.held_net));
	weft_tel_u64(tel, "held_off_replaced", atomic_load(&t->holdoff.replaced));
	return 0;
}

void
target_tel_begin(struct target *t)
{
	if (!t->conf.weft.telemetry)
		return;
	if (weft_telemetry_command("/weft/target/exports", "Names of the exports. No parameters",
	                           tel_exports, t) != 0 ||
	    weft_telemetry_command("/weft/target/export",
	                           "One export: grants, revocations, bad ranges. Parameters: "
	                           "string name",
	                           tel_export, t) != 0 ||
	    weft_telemetry_command("/weft/target/clients",
	                           "Host authentication: passed, refused, held off. No parameters",
	                           tel_clients, t) != 0 ||
	    target_quota_tel(t) != 0 || target_tickets_tel(t) != 0)
		ui_msg("telemetry does not tell of exports and clients");
}

void
target_tel_end(void)
{
	weft_telemetry_forget("/weft/target/exports");
	weft_telemetry_forget("/weft/target/export");
	weft_telemetry_forget("/weft/target/clients");
	weft_telemetry_forget("/weft/target/grants");
	weft_telemetry_forget("/weft/target/calls");
	weft_telemetry_forget("/weft/target/replies");
	weft_telemetry_forget("/weft/target/tickets");
}
