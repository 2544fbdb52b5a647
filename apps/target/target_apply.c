/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Carries out a plan (target_apply.h), and takes back what was done if a step fails. */

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "target.h"
#include "target_apply.h"
#include "target_file.h"
#include "target_nvmf.h"
#include "target_runtime_check.h"
#include "target_state.h"
#include "target_volume.h"
#include "ui.h"

#define ERR_MAX (CONF_ERR_MAX + CONF_PATH_MAX)

/** Close what is deleted or opened again. Grants of what is deleted end. */
static int
do_shut(struct target *t, struct apply_change *c, char *err, size_t err_size)
{
	bool was_up;
	int rc;

	if (c->ex == NULL || c->kind == APPLY_SET || c->kind == APPLY_CREATE)
		return 0;
	/* One that is not up may still have a volume, which workers have not left. */
	was_up = target_export_up(c->ex);
	rc = target_export_shut(t, c->ex);
	/* A failure may leave it down as well. */
	c->shut = was_up && !target_export_up(c->ex);
	return rc == 0 ? 0
	               : RUNTIME_FAIL(-EBUSY,
	                              "export %s: what was under way has not ended yet; try again",
	                              c->was.name);
}

static int
do_change(struct target *t, struct apply_change *c, char *err, size_t err_size)
{
	int rc = 0;

	switch (c->kind) {
	case APPLY_DELETE:
		if (c->ex != NULL)
			target_export_remove(t, c->ex);
		break;
	case APPLY_CREATE:
		rc = runtime_medium_rc(target_export_add(t, &c->now, false, &c->ex, err, err_size));
		break;
	case APPLY_SET:
		rc = target_export_reconf(t, c->ex, &c->now);
		if (rc != 0)
			snprintf(err, err_size,
			         "export %s: the workers have too much to do; try again",
			         c->now.name);
		break;
	default:
		rc = runtime_medium_rc(target_export_reopen(t, c->ex, &c->now, err, err_size));
		break;
	}
	/* An opening that failed leaves the export shut, as it is before it. */
	c->done = rc == 0;
	return rc;
}

/** Open an export as it was. First what is still open of it is closed, which may have failed
 * before. */
static int
undo_opening(struct target *t, struct apply_change *c, char *err, size_t err_size)
{
	int rc = target_export_shut(t, c->ex);

	return rc == 0 ? target_export_reopen(t, c->ex, &c->was, err, err_size) : rc;
}

/** Reservations of volumes go with the exports that are deleted. An export that is made of the same
 * medium would inherit them, so they stay then. */
static int
do_doom(struct target *t, const struct apply_plan *p, struct apply_change *c, char *err,
        size_t err_size)
{
	if (c->kind != APPLY_DELETE || c->ex == NULL)
		return 0;
	for (uint32_t i = 0; i < p->n; i++)
		if (p->changes[i].kind == APPLY_CREATE &&
		    runtime_same_medium(&p->changes[i].now, &c->was))
			return target_nvmf_resv_stay(t, c->ex, err, err_size);
	return target_nvmf_resv_doom(t, c->ex, c->doomed, err, err_size);
}

/** The plan was carried out, or taken back. */
static void
doom_end(struct target *t, const struct apply_plan *p, bool done)
{
	for (uint32_t i = 0; i < p->n; i++)
		target_nvmf_resv_end(t, p->changes[i].doomed, p->changes[i].was.name, done);
}

/** Take a change back, as far as it went. What cannot be opened again is offline. */
static void
undo_change(struct target *t, struct apply_change *c)
{
	char err[ERR_MAX] = "";
	bool made_file;
	int rc = 0;

	switch (c->kind) {
	case APPLY_CREATE:
		if (!c->done)
			break;
		/* One that is not closed is in use: its slot and its file stay. */
		rc = target_export_shut(t, c->ex);
		if (rc != 0)
			break;
		/* The opening alone knows: a file that appeared before it is another's. */
		made_file = c->ex->created;
		target_export_remove(t, c->ex);
		if (made_file)
			(void)unlink(c->now.path);
		break;
	case APPLY_DELETE:
		if (c->ex != NULL && c->done) {
			rc = target_export_add(t, &c->was, true, &c->ex, err, sizeof(err));
			if (c->held && rc == 0)
				rc = target_export_take(t, c->ex);
		} else if (c->shut) {
			rc = undo_opening(t, c, err, sizeof(err));
		}
		break;
	case APPLY_SET:
		rc = c->done ? target_export_reconf(t, c->ex, &c->was) : 0;
		break;
	default:
		if (c->done || c->shut)
			rc = undo_opening(t, c, err, sizeof(err));
		break;
	}
	if (rc != 0)
		ui_msg(UI_ERR "apply: export %s cannot be put back: %s",
		       c->kind == APPLY_CREATE ? c->now.name : c->was.name,
		       err[0] != '\0' ? err : strerror(-rc));
}

/** Whether memory of volumes is there, and no new name is among the held. */
static int
do_prepare(struct target *t, struct apply_plan *p, char *err, size_t err_size)
{
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < p->n; i++) {
		const struct conf_export *now = &p->changes[i].now;

		if (p->changes[i].kind != APPLY_CREATE)
			continue;
		if (now->format == CONF_FORMAT_VOLUME)
			rc = target_volumes_more(t, err, err_size);
		/* A kill in the middle of a delete or a rename may have left the name. */
		if (rc == 0)
			rc = state_hold(t->state, now->name, false, err, err_size);
	}
	return rc;
}

int
apply_do(struct target *t, struct apply_plan *p, char *err, size_t err_size)
{
	char unused[ERR_MAX];
	bool written = false;
	int rc = do_prepare(t, p, err, err_size);

	for (uint32_t i = 0; rc == 0 && i < p->n; i++)
		rc = do_shut(t, &p->changes[i], err, err_size);
	for (uint32_t i = 0; rc == 0 && i < p->n; i++)
		rc = do_doom(t, p, &p->changes[i], err, err_size);
	if (rc == 0) {
		rc = state_replace(t->state, p->want.exports, p->want.nexports, err, err_size);
		written = rc == 0;
	}
	for (uint32_t i = 0; rc == 0 && i < p->n; i++)
		rc = do_change(t, &p->changes[i], err, err_size);
	if (rc != 0) {
		/* First the file: a crash behind this finds what was before. */
		if (written)
			(void)state_undo(t->state, ui_msg);
		for (uint32_t i = p->n; i > 0; i--)
			undo_change(t, &p->changes[i - 1]);
		doom_end(t, p, false);
		return rc;
	}
	doom_end(t, p, true);
	for (uint32_t i = 0; i < p->n; i++)
		if (p->changes[i].kind == APPLY_DELETE) {
			(void)state_hold(t->state, p->changes[i].was.name, false, unused,
			                 sizeof(unused));
			ui_msg("export %s: deleted; %s stays", p->changes[i].was.name,
			       target_place(&p->changes[i].was));
		}
	return 0;
}
