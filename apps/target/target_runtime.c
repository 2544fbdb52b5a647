/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Changes of the table of exports while they are served. First the state file says what is to
 * be, then it is done. If it cannot be done, the state file is put back.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "target.h"
#include "target_file.h"
#include "target_nvmf.h"
#include "target_runtime.h"
#include "target_runtime_check.h"
#include "target_state.h"
#include "target_volume.h"
#include "ui.h"

/** The export, if it was made at run time. */
static int
runtime_find(struct target *t, const char *name, struct target_export **out, char *err,
             size_t err_size)
{
	struct target_export *ex = target_export_find(t, name);
	int rc = runtime_state(t, err, err_size);

	if (rc != 0)
		return rc;
	if (ex == NULL)
		return RUNTIME_FAIL(-ENOENT, "no export is named \"%.64s\"", name);
	if (!ex->conf->of_state)
		return RUNTIME_FAIL(-EPERM,
		                    "export %s is one of %s:%d; change it there, and say reload",
		                    name, t->conf.file, ex->conf->line);
	*out = ex;
	return 0;
}

/** Whether the name is free, here and in the configuration as it was read last. */
static int
name_free(struct target *t, const char *name, char *err, size_t err_size)
{
	const struct target_export *ex = target_export_find(t, name);

	if (ex != NULL && ex->conf->of_state)
		return RUNTIME_FAIL(-EEXIST, "export %s is there already, in %s", name,
		                    state_file(t->state));
	if (ex != NULL)
		return RUNTIME_FAIL(
		        -EEXIST, "export %s is there already, in %s:%d; it cannot be in %s as well",
		        name, t->conf.file, ex->conf->line, state_file(t->state));
	for (uint32_t i = 0; i < t->latest->nexports; i++)
		if (strcmp(t->latest->exports[i].name, name) == 0 &&
		    !t->latest->exports[i].of_state)
			return RUNTIME_FAIL(-EEXIST,
			                    "%s:%d has an export %s; it cannot be in %s as well",
			                    t->conf.file, t->latest->exports[i].line, name,
			                    state_file(t->state));
	return 0;
}

/** Whether another export has the file or the image. */
static int
medium_free(struct target *t, const struct conf_export *conf, const struct target_export *but,
            char *err, size_t err_size)
{
	for (uint32_t i = 0; i < target_nexports(t); i++) {
		const struct target_export *ex = &t->exports[i];

		if (ex == but || target_export_gone(ex))
			continue;
		if (runtime_same_medium(conf, ex->conf))
			return RUNTIME_FAIL(-EEXIST, "export %s: %s: export %s has it", conf->name,
			                    target_place(conf), ex->conf->name);
	}
	return 0;
}

int
target_runtime_create(struct target *t, const char *name, target_pair *pairs, unsigned int n,
                      bool *changed, char *err, size_t err_size)
{
	struct target_export *ex = target_export_find(t, name);
	struct conf_export conf;
	uint64_t taken = 0;
	int rc = runtime_state(t, err, err_size);

	*changed = false;
	if (rc == 0)
		rc = state_parse(t->state, name, NULL, pairs, n, &conf, err, err_size);
	if (rc == 0)
		rc = runtime_access(t, &conf, err, err_size);
	if (rc != 0)
		return rc;
	if (ex != NULL && ex->conf->of_state && runtime_same(ex->conf, &conf))
		return 0;
	rc = name_free(t, name, err, err_size);
	if (rc == 0)
		rc = runtime_fresh_size(&conf, err, err_size);
	if (rc == 0)
		rc = medium_free(t, &conf, NULL, err, err_size);
	if (rc == 0)
		rc = runtime_medium_rc(target_export_check(&conf, &taken, err, err_size));
	/* A kill in the middle of a delete or a rename may have left the name among the held. */
	if (rc == 0)
		rc = state_hold(t->state, name, false, err, err_size);
	if (rc == 0)
		rc = state_put(t->state, name, &conf, err, err_size);
	if (rc != 0)
		return rc;
	rc = runtime_medium_rc(target_export_add(t, &conf, false, &ex, err, err_size));
	if (rc != 0)
		(void)state_undo(t->state, ui_msg);
	*changed = rc == 0;
	return rc;
}

int
target_runtime_delete(struct target *t, const char *name, char *err, size_t err_size)
{
	char unused[CONF_ERR_MAX + CONF_PATH_MAX];
	struct conf_export was;
	struct target_export *ex;
	uint8_t uuid[16];
	bool served;
	int rc = runtime_find(t, name, &ex, err, err_size);

	if (rc != 0)
		return rc;
	was = *ex->conf;
	served = target_export_up(ex);
	if (target_export_shut(t, ex) != 0)
		return RUNTIME_FAIL(
		        -EBUSY, "export %s: what was under way has not ended yet; say delete again",
		        name);
	rc = target_nvmf_resv_doom(t, ex, uuid, err, err_size);
	if (rc == 0) {
		rc = state_remove(t->state, name, err, err_size);
		if (rc != 0)
			target_nvmf_resv_end(t, uuid, name, false);
	}
	if (rc != 0) {
		if (served)
			(void)target_export_reopen(t, ex, &was, unused, sizeof(unused));
		return rc;
	}
	target_export_remove(t, ex);
	target_nvmf_resv_end(t, uuid, name, true);
	(void)state_hold(t->state, name, false, unused, sizeof(unused));
	ui_msg("export %s: deleted; %s stays", name, target_place(&was));
	return 0;
}

/** Open the export again, by another configuration. */
static int
runtime_reopen(struct target *t, struct target_export *ex, const struct conf_export *now, char *err,
               size_t err_size)
{
	char unused[CONF_ERR_MAX + CONF_PATH_MAX];
	const struct conf_export was = *ex->conf;
	int rc;

	if (target_export_users(ex) > 0)
		return RUNTIME_FAIL(
		        -EBUSY,
		        "export %s: clients have %u grants and calls; drain it, set the key, "
		        "and say "
		        "online",
		        now->name, target_export_users(ex));
	rc = state_put(t->state, now->name, now, err, err_size);
	if (rc != 0)
		return rc;
	rc = target_export_shut(t, ex);
	if (rc != 0)
		snprintf(err, err_size,
		         "export %s: what was under way has not ended yet; try again", now->name);
	else
		rc = runtime_medium_rc(target_export_reopen(t, ex, now, err, err_size));
	if (rc == 0)
		return 0;
	(void)state_undo(t->state, ui_msg);
	if (!target_export_up(ex))
		(void)target_export_reopen(t, ex, &was, unused, sizeof(unused));
	return rc;
}

int
target_runtime_set(struct target *t, const char *name, target_pair *pairs, unsigned int n,
                   bool *changed, char *err, size_t err_size)
{
	struct conf_export now;
	struct target_export *ex;
	enum runtime_change what;
	bool open;
	int rc = runtime_find(t, name, &ex, err, err_size);

	*changed = false;
	if (rc == 0)
		rc = state_parse(t->state, name, ex->conf, pairs, n, &now, err, err_size);
	if (rc == 0)
		rc = runtime_access(t, &now, err, err_size);
	if (rc != 0)
		return rc;
	what = runtime_change(ex->conf, &now);
	open = target_export_up(ex) || ex->volume != NULL;
	if (what == RUNTIME_NOTHING)
		return 0;
	if (what == RUNTIME_MEDIUM)
		return RUNTIME_FAIL(
		        -EINVAL,
		        "export %s: path, image, size, format and checksums are as the medium was "
		        "made; create another export",
		        name);
	if (what == RUNTIME_RIGHTS)
		rc = runtime_rights(ex, &now, err, err_size);
	if (rc == 0 && what == RUNTIME_MORE && open) {
		rc = runtime_reopen(t, ex, &now, err, err_size);
		*changed = rc == 0;
		return rc;
	}
	if (rc == 0)
		rc = state_put(t->state, name, &now, err, err_size);
	if (rc != 0)
		return rc;
	rc = target_export_reconf(t, ex, &now);
	if (rc != 0) {
		(void)state_undo(t->state, ui_msg);
		return RUNTIME_FAIL(rc, "export %s: the workers have too much to do; try again",
		                    name);
	}
	*changed = true;
	return 0;
}

int
target_runtime_resize(struct target *t, const char *name, const char *size, bool shrink,
                      bool *changed, char *err, size_t err_size)
{
	const char *const pair[][2] = {{"size", size}};
	struct conf_export now;
	struct target_export *ex;
	uint64_t have;
	int rc = runtime_find(t, name, &ex, err, err_size);

	*changed = false;
	if (rc == 0)
		rc = state_parse(t->state, name, ex->conf, pair, 1, &now, err, err_size);
	if (rc != 0)
		return rc;
	have = runtime_resizable(ex, err, err_size);
	if (have == 0)
		return target_export_up(ex) ? -EINVAL : -EBUSY;
	if (now.size_bytes == have && ex->conf->size_bytes == have)
		return 0;
	if (now.size_bytes < have && !shrink)
		return RUNTIME_FAIL(-EINVAL,
		                    "export %s has %" PRIu64 " octets; what is beyond %" PRIu64
		                    " would be lost; say --shrink if it may be",
		                    name, have, now.size_bytes);
	rc = runtime_reopen(t, ex, &now, err, err_size);
	*changed = rc == 0;
	return rc;
}

int
target_runtime_rename(struct target *t, const char *name, const char *to, char *err,
                      size_t err_size)
{
	char unused[CONF_ERR_MAX + CONF_PATH_MAX];
	struct conf_export now;
	struct target_export *ex;
	const char *nqn;
	bool held;
	int rc = runtime_find(t, name, &ex, err, err_size);

	if (rc == 0 && target_nvmf_has(t, ex, &nqn))
		return RUNTIME_FAIL(-EBUSY,
		                    "export %s is a namespace of %s, which names it; take it from "
		                    "[subsystem %s], and say reload",
		                    name, nqn, nqn);
	if (rc == 0)
		rc = state_parse(t->state, to, ex->conf, NULL, 0, &now, err, err_size);
	if (rc == 0)
		rc = name_free(t, to, err, err_size);
	if (rc != 0)
		return rc;
	/* In this order a held export stays held wherever a kill falls. */
	held = state_is_held(t->state, name);
	if (held)
		rc = state_hold(t->state, to, true, err, err_size);
	else
		rc = state_hold(t->state, to, false, err, err_size); /* as in create */
	if (rc == 0)
		rc = state_put(t->state, name, &now, err, err_size);
	if (rc == 0) {
		rc = target_export_reconf(t, ex, &now);
		if (rc != 0) {
			(void)state_undo(t->state, ui_msg);
			snprintf(err, err_size,
			         "export %s: the workers have too much to do; try again", name);
		}
	}
	if (held)
		(void)state_hold(t->state, rc == 0 ? name : to, false, unused, sizeof(unused));
	return rc;
}

int
target_runtime_hold(struct target *t, const char *name, bool held, char *err, size_t err_size)
{
	return t->state != NULL ? state_hold(t->state, name, held, err, err_size) : 0;
}
