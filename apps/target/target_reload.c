/* SPDX-License-Identifier: BSD-3-Clause */
/** @file SIGHUP: the configuration is read again. What exports no longer grant is revoked; exports
 * that are not served are opened again; clients and their keys are replaced. */

#include <stdio.h>
#include <string.h>

#include "target.h"
#include "target_file.h"
#include "target_grant.h"
#include "target_nvmf.h"
#include "target_slow.h"
#include "target_state.h"
#include "ui.h"

static const struct conf_export *
conf_find(const struct conf *c, const char *name)
{
	for (uint32_t i = 0; i < c->nexports; i++)
		if (strcmp(c->exports[i].name, name) == 0)
			return &c->exports[i];
	return NULL;
}

static void
export_reload(struct target *t, struct target_export *ex, const struct conf_export *now,
              const struct conf *fresh)
{
	const struct conf_export *was = ex->conf;
	uint32_t want = now != NULL ? now->rights & was->rights : 0;
	char rights[64];
	uint32_t old;

	if (atomic_load_explicit(&ex->held, memory_order_relaxed) != TARGET_HELD_NO) {
		ui_msg(UI_WARNING "export %s: kept out of service by weft-ctl", was->name);
		return;
	}
	if (target_export_retry(t, ex, now, fresh))
		return;
	if (now != NULL && !now->of_state && !conf_export_soft_same(was, now)) {
		struct conf_export soft = *was;

		conf_export_soft(&soft, now);
		if (target_export_reconf(t, ex, &soft) != 0)
			ui_msg(UI_WARNING
			       "export %s: the workers have too much to do; send SIGHUP again",
			       was->name);
		else
			ui_msg("export %s: its access lists or limits have changed", soft.name);
	}
	old = atomic_exchange_explicit(&ex->rights, want, memory_order_relaxed);
	if (now != NULL &&
	    (strcmp(now->path, was->path) != 0 || now->size_bytes != was->size_bytes ||
	     now->format != was->format || now->persist != was->persist ||
	     strcmp(now->hash, was->hash) != 0 ||
	     strcmp(now->hash_key_file, was->hash_key_file) != 0 ||
	     strcmp(now->image, was->image) != 0 || strcmp(now->ceph, was->ceph) != 0 ||
	     now->checksums != was->checksums || now->scrub_mb_s != was->scrub_mb_s ||
	     now->snapshots != was->snapshots || now->numa_node != was->numa_node))
		ui_msg(UI_WARNING
		       "export %s: path, image, ceph, size, format, persist, hash, "
		       "hash_key_file, checksums, scrub, snapshots and numa_node change with a "
		       "restart",
		       was->name);
	if (now != NULL && (now->rights & ~was->rights) != 0)
		ui_msg(UI_WARNING "export %s: more rights than it started with come with a restart",
		       was->name);
	if (want != old)
		ui_msg("export %s: grants %s from now on", was->name,
		       target_rights_str(want, rights, sizeof(rights)));
	/* Also without a change, because an earlier call may have failed. */
	target_export_revoke(t, ex);
}

/** An export that the configuration has now. One that cannot be opened is offline. */
static void
export_added(struct target *t, const struct conf_export *conf)
{
	char err[CONF_ERR_MAX + CONF_PATH_MAX];
	struct target_export *ex = NULL;

	for (uint32_t i = 0; i < target_nexports(t); i++)
		if (!target_export_gone(&t->exports[i]) &&
		    target_export_same_file(conf, t->exports[i].conf)) {
			ui_msg(UI_ERR "export %s: %s: export %s has it; it is left out", conf->name,
			       target_place(conf), t->exports[i].conf->name);
			return;
		}
	if (target_export_add(t, conf, true, &ex, err, sizeof(err)) == 0)
		ui_msg("export %s: is served now", conf->name);
	else if (ex == NULL)
		ui_msg(UI_ERR "%s", err);
}

static void
reload_tell(void *arg, const char *section, const char *key)
{
	const struct target *t = arg;

	if (strcmp(section, "target") == 0 &&
	    (strcmp(key, "revoke_ms") == 0 || (strcmp(key, "slow_ms") == 0 && t->metrics != NULL)))
		return;
	ui_msg(UI_WARNING "[%s] %s: changes with a restart", section, key);
}

int
target_reload(struct target *t, const char *who, char *err, size_t err_size)
{
	/* One is in use (target.latest), the other one is read into. */
	static struct conf confs[2];
	struct conf *fresh = &confs[t->latest == &confs[0]];
	int rc = conf_load(t->conf_file, fresh, err, err_size);

	if (rc == 0 && t->state != NULL)
		state_merge(t->state, fresh, ui_msg);
	if (rc == 0)
		rc = target_auth_reload(t, fresh, err, err_size);
	if (rc != 0)
		return rc;
	/* Detect lost files first, so that they are opened again. */
	target_watch(t);
	ui_msg("%s: %s read again", who, t->conf_file);
	conf_differ(&t->conf, fresh, reload_tell, t);
	t->latest = fresh;
	atomic_store_explicit(&t->revoke_ms, fresh->target.revoke_ms, memory_order_relaxed);
	target_slow_set(t, fresh->target.slow_ms);
	for (uint32_t i = 0; i < target_nexports(t); i++) {
		struct target_export *ex = &t->exports[i];

		/* What was made at run time is not the configuration's to change. */
		if (!target_export_gone(ex))
			export_reload(t, ex,
			              ex->conf->of_state ? ex->conf
			                                 : conf_find(fresh, ex->conf->name),
			              fresh);
	}
	for (uint32_t i = 0; i < fresh->nexports; i++)
		if (target_export_find(t, fresh->exports[i].name) == NULL)
			export_added(t, &fresh->exports[i]);
	target_nvmf_reload(t, fresh);
	return 0;
}
