/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Requests that make and change exports. On the program's thread. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "target.h"
#include "target_apply.h"
#include "target_control.h"
#include "target_runtime.h"
#include "target_state.h"

#define PAIRS_MAX 64U
#define ERR_MAX   (CONF_ERR_MAX + CONF_PATH_MAX)

static enum ctl_code
code_of(int rc)
{
	switch (rc) {
	case -ENOENT:
		return CTL_NOT_FOUND;
	case -EEXIST:
		return CTL_EXISTS;
	case -EBUSY:
		return CTL_BUSY;
	case -EINVAL:
		return CTL_BAD_PARAMS;
	case -ENOMEM:
		return CTL_INTERNAL;
	default:
		return CTL_FAILED;
	}
}

/** The answer of a change: the export of this name as it is now, or the failure. */
static bool
answer(struct control_job *job, int rc, const char *err, const char *name, bool changed)
{
	const struct target_export *ex = target_export_find(job->t, name);

	if (rc != 0)
		ctl_fail(&job->fault, code_of(rc), "%.*s", CTL_TEXT_MAX - 1, err);
	else
		control_job_result(job, json_pack("{s:s, s:s, s:b}", "name", name, "state",
		                                  ex != NULL ? control_export_state(ex) : "deleted",
		                                  "changed", (int)changed));
	return true;
}

/** The keys of a request, as pairs that belong to it. */
static unsigned int
pairs_of(const struct control_job *job, const char *(*pairs)[2])
{
	json_t *keys = json_object_get(job->params, "keys"), *value;
	unsigned int n = 0;
	const char *key;

	json_object_foreach(keys, key, value) if (n < PAIRS_MAX)
	{
		pairs[n][0] = key;
		pairs[n++][1] = json_string_value(value);
	}
	return n;
}

bool
control_dump(struct control_job *job)
{
	char *text = NULL;
	size_t len;
	FILE *f;

	if (job->t->state == NULL) {
		ctl_fail(&job->fault, CTL_FAILED,
		         "no export can be made at run time without a state directory; name one "
		         "([target] state)");
		return true;
	}
	f = open_memstream(&text, &len);
	if (f != NULL)
		for (uint32_t i = 0; i < job->t->state->nexports; i++) {
			fputs(i > 0 ? "\n" : "", f);
			conf_print_export(f, &job->t->state->exports[i]);
		}
	if (f != NULL && fclose(f) == 0)
		control_job_result(job, json_pack("{s:o}", "exports", control_text(text)));
	else
		control_job_result(job, NULL);
	free(text);
	return true;
}

bool
control_create(struct control_job *job)
{
	const char *name = control_param(job, "name"), *pairs[PAIRS_MAX][2];
	const unsigned int n = pairs_of(job, pairs);
	char err[ERR_MAX];
	bool changed;
	int rc = target_runtime_create(job->t, name, (target_pair *)pairs, n, &changed, err,
	                               sizeof(err));

	return answer(job, rc, err, name, changed);
}

bool
control_set(struct control_job *job)
{
	const char *name = control_param(job, "name"), *pairs[PAIRS_MAX][2];
	const unsigned int n = pairs_of(job, pairs);
	char err[ERR_MAX];
	bool changed;
	int rc = target_runtime_set(job->t, name, (target_pair *)pairs, n, &changed, err,
	                            sizeof(err));

	return answer(job, rc, err, name, changed);
}

bool
control_resize(struct control_job *job)
{
	const char *name = control_param(job, "name");
	const json_t *size = json_object_get(job->params, "size");
	char err[ERR_MAX], octets[32];
	bool changed;
	int rc;

	snprintf(octets, sizeof(octets), "%lld", (long long)json_integer_value(size));
	rc = target_runtime_resize(
	        job->t, name, json_is_string(size) ? json_string_value(size) : octets,
	        json_is_true(json_object_get(job->params, "shrink")), &changed, err, sizeof(err));
	return answer(job, rc, err, name, changed);
}

bool
control_delete(struct control_job *job)
{
	const char *name = control_param(job, "name");
	char err[ERR_MAX];

	if (strcmp(name, control_param(job, "confirm")) != 0) {
		ctl_fail(&job->fault, CTL_BAD_PARAMS,
		         "export.delete: confirm is not the name of the export; nothing was "
		         "deleted");
		return true;
	}
	return answer(job, target_runtime_delete(job->t, name, err, sizeof(err)), err, name, true);
}

bool
control_rename(struct control_job *job)
{
	const char *to = control_param(job, "to");
	char err[ERR_MAX];
	int rc = target_runtime_rename(job->t, control_param(job, "name"), to, err, sizeof(err));

	return answer(job, rc, err, to, true);
}

/** Find what differs and, unless `diff` asks, check it and do it. */
static int
job_apply(struct control_job *job, struct apply_plan *p, bool look, bool *done, char *err)
{
	const struct apply_wish w = {
	        .text = control_param(job, "exports"),
	        .confirm = control_param(job, "confirm"),
	        .shrink = json_is_true(json_object_get(job->params, "shrink")),
	        .dry = json_is_true(json_object_get(job->params, "dry_run")),
	};
	int rc = apply_plan(job->t, w.text, p, err, ERR_MAX);

	*done = false;
	if (rc == 0 && !look)
		rc = apply_check(job->t, p, &w, err, ERR_MAX);
	if (rc == 0 && !look && !w.dry && p->n > 0) {
		rc = apply_do(job->t, p, err, ERR_MAX);
		*done = rc == 0;
	}
	return rc;
}

static bool
answer_set(struct control_job *job, bool look)
{
	struct apply_plan *p = calloc(1, sizeof(*p));
	char err[ERR_MAX] = "out of memory";
	bool done = false;
	json_t *rows = NULL;
	int rc = p != NULL ? job_apply(job, p, look, &done, err) : -ENOMEM;

	if (rc == 0)
		rows = apply_rows(p);
	apply_plan_free(p);
	if (rc != 0)
		ctl_fail(&job->fault, code_of(rc), "%.*s", CTL_TEXT_MAX - 1, err);
	else if (rows == NULL)
		control_job_result(job, NULL);
	else if (look)
		control_job_result(job,
		                   json_pack("{s:b, s:o}", "differs",
		                             (int)(json_array_size(rows) > 0), "changes", rows));
	else
		control_job_result(job,
		                   json_pack("{s:b, s:o}", "changed", (int)done, "changes", rows));
	return true;
}

bool
control_diff(struct control_job *job)
{
	return answer_set(job, true);
}

bool
control_apply(struct control_job *job)
{
	return answer_set(job, false);
}
