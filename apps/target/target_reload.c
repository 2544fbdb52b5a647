/* SPDX-License-Identifier: BSD-3-Clause */
/** @file SIGHUP: the configuration is read again. What exports no longer grant is revoked; exports
 * that are not served are opened again; clients and their keys are replaced. */

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "conf_index.h"
#include "target.h"
#include "target_file.h"
#include "target_grant.h"
#include "target_lines.h"
#include "target_media.h"
#include "target_nvmf.h"
#include "target_size.h"
#include "target_slow.h"
#include "target_state.h"
#include "ui.h"

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
export_added(struct target *t, const struct conf_export *conf, struct media *media)
{
	char err[CONF_ERR_MAX + CONF_PATH_MAX];
	const struct conf_export *has;
	struct target_export *ex = NULL;
	const int rc = conf->path[0] != '\0' ? media_add(media, conf, &has) : 0;

	if (rc != 0) {
		if (rc == -EEXIST)
			ui_msg(UI_ERR "export %s: %s: export %s has it; it is left out", conf->name,
			       target_place(conf), has->name);
		else
			ui_msg(UI_ERR "export %s: out of memory; it is left out", conf->name);
		return;
	}
	if (target_export_add(t, conf, true, &ex, err, sizeof(err)) == 0)
		ui_msg("export %s: is served now", conf->name);
	else if (ex == NULL)
		ui_msg(UI_ERR "%s", err);
}

/** Those that the configuration has now, and the target has not. */
static void
exports_added(struct target *t, const struct conf *fresh)
{
	const struct conf_export *has;
	bool looked = false;
	struct media media;

	media_begin(&media);
	for (uint32_t i = 0; i < fresh->nexports; i++) {
		if (target_export_find(t, fresh->exports[i].name) != NULL)
			continue;
		for (uint32_t k = 0; !looked && k < target_nexports(t); k++)
			if (!target_export_gone(&t->exports[k]) &&
			    t->exports[k].conf->path[0] != '\0')
				(void)media_add(&media, t->exports[k].conf, &has);
		looked = true;
		export_added(t, &fresh->exports[i], &media);
	}
	media_end(&media);
}

static void
reload_tell(void *arg, const char *section, const char *key)
{
	const struct target *t = arg;

	if (strcmp(section, "target") == 0 &&
	    (strcmp(key, "revoke_ms") == 0 || strcmp(key, "log_format") == 0 ||
	     (strcmp(key, "slow_ms") == 0 && t->metrics != NULL)))
		return;
	/* target_nvmf_reload(); without [nvmf] at the start there is no discovery */
	if (strcmp(section, "nvmf") == 0 && strcmp(key, "discovery_secrets") == 0 &&
	    t->nvmf != NULL)
		return;
	ui_msg(UI_WARNING "[%s] %s: changes with a restart", section, key);
}

int
target_reload(struct target *t, const char *who, char *err, size_t err_size)
{
	/* One is in use (target.latest), the other one is read into. */
	static struct conf confs[2];
	struct conf *fresh = &confs[t->latest == &confs[0]];
	struct conf_index index;
	struct size_room room;
	int rc;

	size_room("", (uint64_t)getpid(), &room);
	/* Not all that it has reserved is populated. */
	if (room.beside_bytes < (uint64_t)t->conf.weft.memory_mb << 20)
		room.beside_bytes = (uint64_t)t->conf.weft.memory_mb << 20;
	conf_memory_had(room.beside_bytes, room.beside_huge_bytes);

	conf_free(fresh);
	rc = conf_load(t->conf_file, fresh, err, err_size);
	if (rc == 0 && t->state != NULL)
		state_merge(t->state, fresh, ui_msg);
	if (rc != 0)
		return rc;
	if (conf_index_make(&index, fresh->exports, fresh->nexports) != 0) {
		snprintf(err, err_size, "out of memory");
		return -ENOMEM;
	}
	rc = target_auth_reload(t, fresh, err, err_size);
	if (rc != 0) {
		conf_index_free(&index);
		return rc;
	}
	if (!t->log_format_given)
		target_lines_format(fresh->target.log_format);
	/* Detect lost files first, so that they are opened again. */
	target_watch(t);
	ui_msg("%s: %s read again", who, t->conf_file);
	conf_differ(&t->conf, fresh, reload_tell, t);
	t->latest = fresh;
	atomic_store_explicit(&t->revoke_ms, fresh->target.revoke_ms, memory_order_relaxed);
	target_slow_set(t, fresh->target.slow_ms);
	for (uint32_t i = 0; i < target_nexports(t); i++) {
		struct target_export *ex = &t->exports[i];
		const struct conf_export *now;
		uint32_t k;

		if (target_export_gone(ex))
			continue;
		k = conf_index_find(&index, fresh->exports, fresh->nexports, ex->conf->name);
		now = k < fresh->nexports ? &fresh->exports[k] : NULL;
		/* What was made at run time is not the configuration's to change. */
		export_reload(t, ex, ex->conf->of_state ? ex->conf : now, fresh);
	}
	conf_index_free(&index);
	exports_added(t, fresh);
	target_nvmf_reload(t, fresh);
	return 0;
}
