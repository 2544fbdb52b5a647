/* SPDX-License-Identifier: BSD-3-Clause */
/** @file What the control socket tells of the target and its exports. Control thread. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "export_proto.h"
#include "target.h"
#include "target_control.h"
#include "target_control_conns.h"
#include "target_grant.h"
#include "target_metrics.h"
#include "target_state.h"
#include "ui.h"

#define NS_PER_SEC 1000000000ULL

static json_int_t
count_of(const atomic_ullong *n)
{
	return (json_int_t)atomic_load_explicit(n, memory_order_relaxed);
}

void
control_status(struct control_job *job)
{
	static const char *const mode[] = {
	        [CONF_HOST_AUTH_NONE] = "none",
	        [CONF_HOST_AUTH_OPTIONAL] = "optional",
	        [CONF_HOST_AUTH_REQUIRED] = "required",
	};
	struct target *t = job->t;
	const struct control_counters *c = t->control_counters;
	struct quota_stats s;
	uint32_t exports = 0, served = 0;
	json_t *r;

	quota_stats(t->quota, &s);
	for (uint32_t i = 0; i < target_nexports(t); i++) {
		exports += !target_export_gone(&t->exports[i]);
		served += target_seen_may(&t->exports[i]) != 0;
	}
	r = json_pack("{s:s, s:s, s:i, s:I, s:o, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:s, s:b}",
	              "program", "weft-target", "version", WEFT_VERSION, "pid", (int)getpid(),
	              "uptime_s", (json_int_t)((ui_now_ns() - t->ready_ns) / NS_PER_SEC),
	              "configuration", control_text(t->conf_file), "workers",
	              (int)t->stack.nworkers, "ports", (int)t->conf.nports, "listen",
	              (int)t->conf.target.listen_port, "exports", (int)exports, "exports_served",
	              (int)served, "connections",
	              (int)atomic_load_explicit(&t->nconns, memory_order_relaxed), "grants",
	              (int)s.grants, "host_auth", mode[t->conf.target.host_auth], "stopping",
	              (int)atomic_load_explicit(&t->stopping, memory_order_relaxed));
	if (r != NULL)
		(void)json_object_update_new(
		        r, json_pack("{s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}",
		                     "control_clients",
		                     (int)atomic_load_explicit(&c->clients, memory_order_relaxed),
		                     "control_requests", count_of(&c->requests), "control_refused",
		                     count_of(&c->refused), "control_denied", count_of(&c->denied),
		                     "control_slow", count_of(&c->slow), "control_idle",
		                     count_of(&c->idle), "control_bad", count_of(&c->bad),
		                     "control_too_long", count_of(&c->too_long), "control_late",
		                     count_of(&c->late)));
	control_job_result(job, r);
}

/* ---- Exports ---- */

const char *
control_export_state(const struct target_export *ex)
{
	switch (atomic_load_explicit(&ex->held, memory_order_relaxed)) {
	case TARGET_HELD_DRAINS:
		return "draining";
	case TARGET_HELD_OFFLINE:
		return "held";
	default:
		break;
	}
	if (!target_export_up(ex))
		return "offline";
	return target_file_seen_lost(ex) ? "lost" : "served";
}

/** What print() prints of the export, as a text. */
static json_t *
export_printed(const struct conf_export *conf, void (*print)(FILE *, const struct conf_export *))
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);
	json_t *v = NULL;

	if (f == NULL)
		return json_string("");
	print(f, conf);
	if (fclose(f) == 0)
		v = json_string(text);
	free(text);
	return v != NULL ? v : json_string("");
}

/** Add its lists and limits to a row, and what they have done. */
static void
export_limits(struct target *t, const struct target_export *ex, const struct conf_export *conf,
              json_t *row)
{
	const struct rate_export *x = &t->rates[ex - t->exports];

	(void)json_object_update_new(
	        row, json_pack("{s:o, s:o, s:I, s:I, s:I, s:I, s:I, s:i, s:I}", "access",
	                       export_printed(conf, conf_print_access), "limits",
	                       export_printed(conf, conf_print_limits), "charged_ops",
	                       count_of(&x->ops), "charged_bytes", count_of(&x->bytes), "waits",
	                       count_of(&x->waits), "waiting", count_of(&x->waiting),
	                       "debts_forgotten", count_of(&x->forgotten), "conns",
	                       (int)atomic_load_explicit(&ex->conns, memory_order_relaxed),
	                       "conns_refused", count_of(&ex->conns_refused)));
}

/** What the export has counted so far. */
static struct control_export_sample
export_counted(const struct target *t, const struct target_export *ex)
{
	const struct rate_export *x = &t->rates[ex - t->exports];
	uint64_t flushes, flushed_bytes;

	target_metrics_pushed(t, ex, &flushes, &flushed_bytes);
	return (struct control_export_sample){
	        .read_bytes = (uint64_t)count_of(&ex->io_read_bytes),
	        .write_bytes = (uint64_t)count_of(&ex->io_write_bytes) + flushed_bytes,
	        .ops = (uint64_t)(count_of(&ex->io_reads) + count_of(&ex->io_writes)) + flushes,
	        .charged_bytes = (uint64_t)count_of(&x->bytes),
	        .charged_ops = (uint64_t)count_of(&x->ops),
	};
}

void
control_exports_sample(struct control_job *job)
{
	const struct target *t = job->t;
	const uint32_t n = target_nexports(t);

	job->before = calloc(CONF_EXPORTS_MAX, sizeof(*job->before));
	if (job->before == NULL) {
		ctl_fail(&job->fault, CTL_INTERNAL, "out of memory");
		return;
	}
	for (uint32_t i = 0; i < n; i++)
		job->before[i] = export_counted(t, &t->exports[i]);
}

static void
export_rates(const struct control_job *job, const struct target_export *ex, json_t *row)
{
	const struct control_export_sample now = export_counted(job->t, ex), none = {0};
	const struct control_export_sample *was =
	        job->before != NULL ? &job->before[ex - job->t->exports] : &none;

	(void)json_object_update_new(
	        row, json_pack("{s:o, s:o, s:o}", "read_bytes_per_s",
	                       control_rate(job, control_since(was->read_bytes, now.read_bytes)),
	                       "write_bytes_per_s",
	                       control_rate(job, control_since(was->write_bytes, now.write_bytes)),
	                       "ops_per_s", control_rate(job, control_since(was->ops, now.ops))));
}

static json_t *
export_row(const struct control_job *job, struct target *t, struct target_export *ex)
{
	char why[CTL_TEXT_MAX] = "", rights[64], configured[64], mechanism[160] = "", source[1200];
	const struct conf_export *conf;
	const char *writer = "";
	uint64_t bytes = 0, bad;
	json_t *row;

	/* target_export_seen_why() takes the lock itself. */
	if (!target_export_seen_why(ex, why, sizeof(why)))
		why[0] = '\0';
	/* The medium is not closed, and the writer's connection exists, while it is held. */
	pthread_mutex_lock(&ex->lock);
	conf = ex->conf;
	if (ex->persist != NULL || ex->volume != NULL) {
		bytes = target_export_bytes(ex);
		target_export_mechanism(ex, mechanism, sizeof(mechanism));
	}
	if (ex->writer != NULL)
		writer = ex->writer->conn->peer;
	bad = ex->mismatches.n + ex->failures.n;
	if (conf->of_state)
		snprintf(source, sizeof(source), "%s", state_file(t->state));
	else
		snprintf(source, sizeof(source), "%s:%d", t->conf.file, conf->line);
	row = json_pack("{s:s, s:s, s:s, s:I, s:s, s:i, s:s, s:o, s:o, s:o, s:s, s:s, s:o}", "name",
	                conf->name, "state", control_export_state(ex), "format",
	                target_is_volume(ex) ? "volume"
	                : target_is_log(ex)  ? "log"
	                                     : "object",
	                "capacity_bytes", (json_int_t)bytes, "rights",
	                target_rights_str(target_seen_may(ex), rights, sizeof(rights)), "grants",
	                (int)atomic_load_explicit(&ex->grants, memory_order_relaxed), "writer",
	                writer, "place", control_text(target_place(conf)), "why", control_text(why),
	                "mechanism", control_text(mechanism), "hash", conf->hash, "configured",
	                target_rights_str(conf->rights, configured, sizeof(configured)), "source",
	                control_text(source));
	pthread_mutex_unlock(&ex->lock);
	if (row != NULL)
		export_limits(t, ex, conf, row);
	if (row != NULL)
		export_rates(job, ex, row);
	if (row != NULL)
		(void)json_object_update_new(
		        row,
		        json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "access_refused",
		                  count_of(&ex->access_refused), "reads", count_of(&ex->io_reads),
		                  "read_bytes", count_of(&ex->io_read_bytes), "writes",
		                  count_of(&ex->io_writes), "write_bytes",
		                  count_of(&ex->io_write_bytes), "refused",
		                  count_of(&ex->io_refused), "bad_ranges", (json_int_t)bad,
		                  "files_lost",
		                  (json_int_t)atomic_load_explicit(&ex->files_lost,
		                                                   memory_order_relaxed)));
	return row;
}

void
control_exports(struct control_job *job)
{
	struct target *t = job->t;
	const char *name = control_param(job, "name");
	json_t *rows = json_array();

	pthread_mutex_lock(&t->exports_lock);
	for (uint32_t i = 0; i < target_nexports(t); i++)
		if (!target_export_gone(&t->exports[i]) &&
		    (name == NULL || strcmp(t->exports[i].conf->name, name) == 0))
			(void)json_array_append_new(rows, export_row(job, t, &t->exports[i]));
	pthread_mutex_unlock(&t->exports_lock);
	if (name != NULL && json_array_size(rows) == 0) {
		ctl_fail(&job->fault, CTL_NOT_FOUND, "no export is named \"%.64s\"", name);
		json_decref(rows);
		return;
	}
	control_job_result(job, json_pack("{s:I, s:o}", "interval_ms",
	                                  (json_int_t)(job->took_s * 1000), "exports", rows));
}
