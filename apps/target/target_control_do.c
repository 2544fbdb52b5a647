/* SPDX-License-Identifier: BSD-3-Clause */
/** @file What the control socket changes, besides the table of exports. On the program's thread;
 * `drop` on each worker. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "target.h"
#include "target_control.h"
#include "target_control_conns.h"
#include "target_file.h"
#include "target_grant.h"
#include "target_restart.h"
#include "target_runtime.h"
#include "ui.h"

#define DRAIN_MS     30000U
#define DRAIN_MAX_MS 600000U
#define NS_PER_MS    1000000ULL

/** Whether the text is TYPE:LEVEL[,...], as weft_log_levels() takes it. */
static bool
levels_ok(const char *s)
{
	static const char *const levels[] = {"emergency", "alert",  "critical", "error",
	                                     "warning",   "notice", "info",     "debug"};

	for (;;) {
		const size_t item = strcspn(s, ","), type = strcspn(s, ":,");
		size_t i = 0;

		if (type == 0 || type >= item || type >= 64)
			return false;
		while (i < sizeof(levels) / sizeof(levels[0]) &&
		       (strlen(levels[i]) != item - type - 1 ||
		        memcmp(levels[i], s + type + 1, item - type - 1) != 0))
			i++;
		if (i == sizeof(levels) / sizeof(levels[0]))
			return false;
		if (s[item] == '\0')
			return true;
		s += item + 1;
	}
}

bool
control_loglevel(struct control_job *job)
{
	struct target *t = job->t;
	const char *levels = control_param(job, "levels");

	if (levels != NULL && strlen(levels) >= sizeof(t->log_level)) {
		ctl_fail(&job->fault, CTL_BAD_PARAMS, "loglevel: longer than %zu octets",
		         sizeof(t->log_level) - 1);
		return true;
	}
	/* The items before a bad one would be in force. */
	if (levels != NULL && !levels_ok(levels)) {
		ctl_fail(&job->fault, CTL_BAD_PARAMS,
		         "loglevel: \"%.100s\" is not TYPE:LEVEL[,...], as weft.*:info; nothing "
		         "was changed",
		         levels);
		return true;
	}
	if (levels != NULL) {
		if (weft_log_levels(levels) != 0) {
			ctl_fail(&job->fault, CTL_FAILED, "loglevel: not all of \"%.100s\" is set",
			         levels);
			return true;
		}
		snprintf(t->log_level, sizeof(t->log_level), "%s", levels);
	}
	control_job_result(job, json_pack("{s:s}", "levels", t->log_level));
	return true;
}

bool
control_reload(struct control_job *job)
{
	char err[CONF_ERR_MAX + CONF_PATH_MAX];

	if (target_reload(job->t, "weft-ctl", err, sizeof(err)) != 0)
		ctl_fail(&job->fault, CTL_FAILED, "%.*s; nothing was changed", CTL_TEXT_MAX - 32,
		         err);
	else
		control_job_result(
		        job, json_pack("{s:o}", "configuration", control_text(job->t->conf_file)));
	return true;
}

bool
control_stop(struct control_job *job)
{
	job->t->stop_asked = true;
	control_job_result(job, json_pack("{s:i}", "pid", (int)getpid()));
	return true;
}

bool
control_restart(struct control_job *job)
{
	char err[CONF_ERR_MAX + CONF_PATH_MAX];

	if (target_restart_check(job->t, err, sizeof(err)) != 0) {
		ctl_fail(&job->fault, CTL_FAILED, "%.*s; this target goes on", CTL_TEXT_MAX - 32,
		         err);
		return true;
	}
	job->t->restart_asked = true;
	return control_stop(job);
}

/* ---- An export in and out of service ---- */

/** The export that a request names; NULL: the fault is set. */
static struct target_export *
job_export(struct control_job *job)
{
	const char *name = control_param(job, "name");
	struct target_export *ex = target_export_find(job->t, name);

	if (ex == NULL)
		ctl_fail(&job->fault, CTL_NOT_FOUND, "no export is named \"%.64s\"", name);
	return ex;
}

static bool
answer_export(struct control_job *job, const struct target_export *ex, bool changed)
{
	control_job_result(job, json_pack("{s:s, s:s, s:b}", "name", ex->conf->name, "state",
	                                  control_export_state(ex), "changed", (int)changed));
	return true;
}

bool
control_offline(struct control_job *job)
{
	struct target_export *ex = job_export(job);
	char err[CONF_ERR_MAX + CONF_PATH_MAX];
	bool held;

	if (ex == NULL)
		return true;
	held = atomic_load_explicit(&ex->held, memory_order_relaxed) == TARGET_HELD_OFFLINE;
	if (held)
		return answer_export(job, ex, false);
	/* In this order an export that was said to be held stays so over a kill. */
	if (target_runtime_hold(job->t, ex->conf->name, true, err, sizeof(err)) != 0) {
		ctl_fail(&job->fault, CTL_FAILED, "%.*s", CTL_TEXT_MAX - 1, err);
		return true;
	}
	if (target_export_take(job->t, ex) != 0) {
		(void)target_runtime_hold(job->t, ex->conf->name, false, err, sizeof(err));
		ctl_fail(&job->fault, CTL_BUSY,
		         "export %s: what was under way has not ended yet; say offline again",
		         ex->conf->name);
		return true;
	}
	return answer_export(job, ex, true);
}

bool
control_online(struct control_job *job)
{
	struct target_export *ex = job_export(job);
	char err[CONF_ERR_MAX + CONF_PATH_MAX];
	int rc;

	if (ex == NULL)
		return true;
	if (atomic_load_explicit(&ex->held, memory_order_relaxed) == TARGET_HELD_NO &&
	    target_export_up(ex) && !target_file_lost(ex))
		return answer_export(job, ex, false);
	rc = target_export_give(job->t, ex, err, sizeof(err));
	if (rc == 0)
		rc = target_runtime_hold(job->t, ex->conf->name, false, err, sizeof(err));
	if (rc == 0)
		return answer_export(job, ex, true);
	ctl_fail(&job->fault, rc == -EBUSY ? CTL_BUSY : CTL_FAILED, "%.*s", CTL_TEXT_MAX - 1, err);
	return true;
}

bool
control_drain(struct control_job *job)
{
	struct target_export *ex = job_export(job);
	const json_t *limit = json_object_get(job->params, "timeout_ms");
	const json_int_t ms = limit != NULL ? json_integer_value(limit) : DRAIN_MS;
	unsigned int left;

	if (ex == NULL)
		return true;
	if (ms > DRAIN_MAX_MS) {
		ctl_fail(&job->fault, CTL_BAD_PARAMS, "drain: timeout_ms: %u at most",
		         DRAIN_MAX_MS);
		return true;
	}
	if (!job->begun) {
		if (atomic_load_explicit(&ex->held, memory_order_relaxed) == TARGET_HELD_OFFLINE)
			return answer_export(job, ex, false);
		job->end_ns = ui_now_ns() + (uint64_t)ms * NS_PER_MS;
		target_export_drain(job->t, ex);
	}
	/* Another client may have said online, or offline. */
	if (atomic_load_explicit(&ex->held, memory_order_relaxed) != TARGET_HELD_DRAINS)
		return answer_export(job, ex, true);
	left = target_export_users(ex);
	if (left == 0)
		return control_offline(job);
	if (ui_now_ns() < job->end_ns)
		return false;
	ctl_fail(&job->fault, CTL_BUSY,
	         "export %s: %u grants and calls are left; it stays draining (drain, offline and "
	         "online go on from there)",
	         ex->conf->name, left);
	return true;
}

/* ---- Clients ---- */

void
control_drop(struct control_job *job)
{
	json_int_t n = 0;

	for (uint32_t i = 0; i < job->t->stack.nworkers; i++)
		n += job->part[i].closed;
	n += control_nvmf_drop(job, control_param(job, "client"));
	if (n == 0)
		ctl_fail(&job->fault, CTL_NOT_FOUND, "no connection is of \"%.223s\"",
		         control_param(job, "client"));
	else
		control_job_result(job, json_pack("{s:I}", "connections", n));
}
