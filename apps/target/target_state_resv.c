/* SPDX-License-Identifier: BSD-3-Clause */
/** @file What the state directory keeps of the reservations of volumes, and the notes of exports
 * that are being deleted. */

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "target_state_file.h"
#include "ui.h"

#define STATE_GONE ".gone" /**< behind the name of a volume: its export is being deleted */
#define RESV_NAME  32U     /**< length of that name */

/* ---- Files and notes of volumes ---- */

/** The directory of reservations, as a state of its own, and the name of a volume's file there. */
static void
resv_names(const struct state *s, const uint8_t uuid[16], struct state *sub, char name[40])
{
	memset(sub, 0, sizeof(*sub));
	snprintf(sub->dir, sizeof(sub->dir), "%.*s/" STATE_RESV,
	         (int)(sizeof(sub->dir) - sizeof(STATE_RESV) - 1), s->dir);
	for (unsigned int i = 0; i < 16; i++)
		snprintf(name + 2 * (size_t)i, 40 - 2 * (size_t)i, "%02x", uuid[i]);
}

/** Remove a file of the directory; one that is not there is removed. */
static int
resv_unlink(const struct state *sub, const char *name, const char *more)
{
	char path[STATE_PATH_MAX], whole[64];

	snprintf(whole, sizeof(whole), "%.40s%s", name, more);
	return unlink(state_path(sub, whole, path)) == 0 || errno == ENOENT ? 0 : -errno;
}

/** Remove the note of volume `name`, and with `too` what it is about before. */
static int
resv_note_ends(const struct state *sub, const char *name, bool too)
{
	int rc = 0;

	if (too) {
		rc = resv_unlink(sub, name, ".old");
		rc = rc == 0 ? resv_unlink(sub, name, ".new") : rc;
		rc = rc == 0 ? resv_unlink(sub, name, "") : rc;
		/* A note that goes first would leave what it is about. */
		rc = rc == 0 ? state_sync(sub) : rc;
	}
	rc = rc == 0 ? resv_unlink(sub, name, STATE_GONE) : rc;
	/* what state_write() leaves beside it is no note */
	(void)resv_unlink(sub, name, STATE_GONE ".old");
	(void)resv_unlink(sub, name, STATE_GONE ".new");
	return rc == 0 ? state_sync(sub) : rc;
}

struct resv_ask {
	const struct state *s;
	const char *export; /**< of which the notes are; NULL: of all */
	void (*say)(const char *fmt, ...);
};

/** What to do with a note of volume `name`. rc: 0, and export is its text, or it cannot be read. An
 * error ends resv_notes(). */
typedef int (*resv_note)(const struct resv_ask *a, const struct state *sub, const char *name,
                         int rc, const char *export);

/** Whether the name is of a volume and ends so. */
static bool
resv_ends(const char *file, const char *more)
{
	return strlen(file) == RESV_NAME + strlen(more) && strcmp(file + RESV_NAME, more) == 0;
}

/** Call fn for each note that there is. -errno: that of fn, or of the directory. */
static int
resv_notes(const struct resv_ask *a, resv_note fn)
{
	static const uint8_t none[16];
	char name[40], *text;
	struct dirent *e;
	struct state sub;
	size_t len;
	DIR *d;
	int rc = 0;

	resv_names(a->s, none, &sub, name);
	d = opendir(sub.dir);
	if (d == NULL)
		return errno == ENOENT ? 0 : -errno;
	while (rc == 0) {
		errno = 0;
		e = readdir(d);
		if (e == NULL) {
			rc = -errno;
			break;
		}
		snprintf(name, sizeof(name), "%.*s", (int)RESV_NAME, e->d_name);
		/* a crash in the middle of writing one */
		if (a->export == NULL && resv_ends(e->d_name, STATE_GONE ".new"))
			(void)resv_unlink(&sub, name, STATE_GONE ".new");
		if (a->export == NULL && resv_ends(e->d_name, STATE_GONE ".old"))
			(void)resv_unlink(&sub, name, STATE_GONE ".old");
		if (!resv_ends(e->d_name, STATE_GONE))
			continue;
		text = NULL;
		rc = state_read(&sub, e->d_name, &text, &len);
		rc = fn(a, &sub, name, rc, text);
		free(text);
	}
	closedir(d);
	return rc;
}

/** A delete was carried out if there is no such export, and else it was not. */
static int
note_settle(const struct resv_ask *a, const struct state *sub, const char *name, int rc,
            const char *export)
{
	bool there = false;

	for (uint32_t i = 0; rc == 0 && i < a->s->nexports; i++)
		there = there || strcmp(a->s->exports[i].name, export) == 0;
	if (rc == 0)
		rc = resv_note_ends(sub, name, !there);
	if (rc != 0)
		a->say(UI_WARNING "%s/%s" STATE_GONE
		                  ": a delete has left it, and it cannot be removed: %s; remove "
		                  "it by hand, and the reservations of that volume stay",
		       sub->dir, name, strerror(-rc));
	return 0;
}

void
state_resv_settle(const struct state *s, void (*say)(const char *fmt, ...))
{
	const int rc = resv_notes(&(struct resv_ask){.s = s, .say = say}, note_settle);

	if (rc != 0)
		say(UI_WARNING "%s/" STATE_RESV ": what deletes have left cannot be read: %s",
		    s->dir, strerror(-rc));
}

static int
note_stay(const struct resv_ask *a, const struct state *sub, const char *name, int rc,
          const char *export)
{
	/* no start can read it, so it takes nothing */
	if (rc == -EISDIR || rc == -ELOOP || rc == -EFBIG)
		return 0;
	if (rc != 0)
		return rc;
	return strcmp(export, a->export) == 0 ? resv_note_ends(sub, name, false) : 0;
}

int
state_resv_stay(const struct state *s, const char *name)
{
	return resv_notes(&(struct resv_ask){.s = s, .export = name}, note_stay);
}

/* ---- One volume ---- */

int
state_resv_room(const struct state *s)
{
	char path[STATE_PATH_MAX];

	if (mkdir(state_path(s, STATE_RESV, path), 0700) != 0)
		return errno == EEXIST ? 0 : -errno;
	return state_sync(s);
}

int
state_resv_doom(const struct state *s, const uint8_t uuid[16], const char *name)
{
	char file[40], path[STATE_PATH_MAX], note[48];
	struct state sub;
	bool same;
	int rc;

	resv_names(s, uuid, &sub, file);
	if (access(state_path(&sub, file, path), F_OK) != 0)
		return errno == ENOENT ? 0 : -errno;
	snprintf(note, sizeof(note), "%s" STATE_GONE, file);
	rc = state_write(&sub, note, name, strlen(name), &same);
	/* The export stays, so a note may not. */
	if (rc != 0)
		(void)resv_note_ends(&sub, file, false);
	return rc;
}

static int
resv_end(const struct state *s, const uint8_t uuid[16], bool too)
{
	char name[40], path[STATE_PATH_MAX], note[48];
	struct state sub;

	resv_names(s, uuid, &sub, name);
	snprintf(note, sizeof(note), "%s" STATE_GONE, name);
	if (access(state_path(&sub, note, path), F_OK) != 0)
		return errno == ENOENT ? 0 : -errno;
	return resv_note_ends(&sub, name, too);
}

int
state_resv_spare(const struct state *s, const uint8_t uuid[16])
{
	return resv_end(s, uuid, false);
}

int
state_resv_bury(const struct state *s, const uint8_t uuid[16])
{
	return resv_end(s, uuid, true);
}

const char *
state_resv_path(const struct state *s, const uint8_t uuid[16], char *buf, size_t size)
{
	char name[40];
	struct state sub;

	resv_names(s, uuid, &sub, name);
	snprintf(buf, size, "%s/%.32s", sub.dir, name);
	return buf;
}

int
state_resv_keep(const struct state *s, const uint8_t uuid[16], const void *data, size_t bytes)
{
	char name[40];
	struct state sub;
	bool same;
	int rc = state_resv_spare(s, uuid);

	/* The next start would remove what is kept now. */
	if (rc != 0)
		return rc;
	resv_names(s, uuid, &sub, name);
	return state_write(&sub, name, data, bytes, &same);
}

int
state_resv_kept(const struct state *s, const uint8_t uuid[16], char **data, size_t *bytes)
{
	char name[40];
	struct state sub;

	resv_names(s, uuid, &sub, name);
	return state_read(&sub, name, data, bytes);
}
