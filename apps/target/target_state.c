/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The state directory: its exports, and which of them are held. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "conf_index.h"
#include "target_state_file.h"
#include "ui.h"

static const char state_head[] =
        "; Exports that were made by weft-ctl. weft-target writes this file; do not edit it while\n"
        "; a target runs.\n";

const char *
state_file(const struct state *s)
{
	return s->file;
}

/* ---- Reading ---- */

/** Read exports.ini. After a failure the exports are as they were. */
static int
read_exports(struct state *s, char *err, size_t err_size)
{
	struct conf *c = calloc(1, sizeof(*c));
	char *text = NULL;
	size_t len;
	int rc = state_read(s, "exports.ini", &text, &len);

	if (rc == 0 && c == NULL)
		rc = -ENOMEM;
	if (rc == 0) {
		rc = conf_load_sections(s->file, text, len, c, err, err_size);
		for (uint32_t i = 0; rc == 0 && i < c->nexports; i++)
			c->exports[i].of_state = true;
		if (rc == 0) {
			free(s->exports);
			s->exports = c->exports;
			s->nexports = c->nexports;
		}
	} else if (rc == -ENOENT) {
		s->nexports = 0;
		rc = 0;
	} else {
		snprintf(err, err_size, "%s: cannot be read: %s", s->file, strerror(-rc));
	}
	free(text);
	free(c);
	return rc;
}

/** Add a name to the held ones. -ENOMEM. */
static int
held_add(struct state *s, const char *name)
{
	char(*more)[CONF_NAME_MAX + 1] = realloc(s->held, (s->nheld + 1) * sizeof(*more));

	if (more == NULL)
		return -ENOMEM;
	s->held = more;
	snprintf(s->held[s->nheld++], sizeof(*more), "%s", name);
	return 0;
}

static int
read_held(struct state *s, char *err, size_t err_size)
{
	char *text = NULL, *save = NULL;
	size_t len;
	int rc = state_read(s, "held", &text, &len);

	if (rc != 0 && rc != -ENOENT)
		snprintf(err, err_size, "%s/held: cannot be read: %s", s->dir, strerror(-rc));
	for (char *name = rc == 0 ? strtok_r(text, "\n", &save) : NULL;
	     name != NULL && s->nheld < CONF_EXPORTS_MAX && rc == 0;
	     name = strtok_r(NULL, "\n", &save)) {
		rc = held_add(s, name);
		if (rc != 0)
			snprintf(err, err_size, "%s/held: out of memory", s->dir);
	}
	free(text);
	return rc == -ENOENT ? 0 : rc;
}

static int
state_lock(struct state *s, char *err, size_t err_size)
{
	char path[STATE_PATH_MAX];

	s->lock_fd =
	        open(state_path(s, "lock", path), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (s->lock_fd >= 0 && flock(s->lock_fd, LOCK_EX | LOCK_NB) == 0)
		return 0;
	if (errno == EWOULDBLOCK) {
		snprintf(err, err_size, "[target] state: %s: another target has it", s->dir);
		return -EBUSY;
	}
	snprintf(err, err_size, "[target] state: %s: %s", path, strerror(errno));
	return -errno;
}

/* ---- Begin and end ---- */

int
state_open(const char *dir, bool lock, struct state **out, char *err, size_t err_size)
{
	struct state *s = calloc(1, sizeof(*s));
	char *real = realpath(dir, NULL);
	int rc = 0;

	if (real == NULL || s == NULL || strlen(real) >= sizeof(s->dir)) {
		rc = s == NULL ? -ENOMEM : real == NULL ? -errno : -ENAMETOOLONG;
		snprintf(err, err_size, "[target] state: %s: %s%s", dir, strerror(-rc),
		         rc == -ENOENT ? "; make the directory" : "");
		free(real);
		free(s);
		return rc;
	}
	s->lock_fd = -1;
	/* Paths in the file have to stay the same whatever the working directory is. */
	strcpy(s->dir, real);
	free(real);
	snprintf(s->file, sizeof(s->file), "%s/exports.ini", s->dir);
	if (lock)
		rc = state_lock(s, err, err_size);
	if (rc == 0)
		rc = read_exports(s, err, err_size);
	if (rc == 0)
		rc = read_held(s, err, err_size);
	if (rc != 0) {
		state_close(s);
		return rc;
	}
	*out = s;
	return 0;
}

void
state_close(struct state *s)
{
	if (s == NULL)
		return;
	if (s->lock_fd >= 0)
		close(s->lock_fd);
	free(s->exports);
	free(s->held);
	free(s);
}

void
state_merge(const struct state *s, struct conf *c, void (*say)(const char *fmt, ...))
{
	const uint32_t n = c->nexports; /* of the state no two have the same name */
	struct conf_index index;
	bool room = conf_index_make(&index, c->exports, n) == 0;

	for (uint32_t i = 0; i < s->nexports && room; i++) {
		const struct conf_export *e = &s->exports[i];
		const uint32_t k = conf_index_find(&index, c->exports, n, e->name);

		if (k < n)
			say(UI_ERR
			    "export %s: %s:%d has this name, and so has %s:%d, which is left out; "
			    "rename one of them",
			    e->name, c->file, c->exports[k].line, s->file, e->line);
		else if (c->nexports == CONF_EXPORTS_MAX)
			say(UI_ERR "export %s of %s is left out: more than %u exports", e->name,
			    s->file, CONF_EXPORTS_MAX);
		else if ((room = conf_exports_room(&c->exports, c->nexports) == 0))
			c->exports[c->nexports++] = *e;
	}
	conf_index_free(&index);
	if (!room)
		say(UI_ERR "%s: out of memory; the exports of it that are not here are left out",
		    s->file);
}

/* ---- Changes ---- */

static int
save_exports(struct state *s, char *err, size_t err_size)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);
	bool same = true;
	int rc = -ENOMEM;

	if (f != NULL) {
		fputs(state_head, f);
		for (uint32_t i = 0; i < s->nexports; i++) {
			fputc('\n', f);
			conf_print_export(f, &s->exports[i]);
		}
		rc = fclose(f) == 0 ? 0 : -ENOMEM;
	}
	if (rc == 0)
		rc = state_write(s, "exports.ini", text, len, &same);
	if (rc != 0)
		snprintf(err, err_size, "%s: cannot be written: %s; %s", s->file, strerror(-rc),
		         same ? "nothing was changed" : "the change may be there after a restart");
	free(text);
	/* Whatever it was: no export is missing, and no name is taken. */
	return rc == 0 ? 0 : -EIO;
}

static uint32_t
export_number(const struct state *s, const char *name)
{
	uint32_t i = 0;

	while (i < s->nexports && strcmp(s->exports[i].name, name) != 0)
		i++;
	return i;
}

int
state_put(struct state *s, const char *name, const struct conf_export *e, char *err,
          size_t err_size)
{
	const uint32_t i = export_number(s, name), n = s->nexports;
	struct conf_export was = {0};
	int rc;

	if (i == CONF_EXPORTS_MAX) {
		snprintf(err, err_size, "%s: more than %u exports", s->file, CONF_EXPORTS_MAX);
		return -ENOSPC;
	}
	if (i == n && conf_exports_room(&s->exports, n) != 0) {
		snprintf(err, err_size, "%s: out of memory; nothing was changed", s->file);
		return -ENOMEM;
	}
	if (i < n)
		was = s->exports[i];
	/* For the next start an export without a name that a note has would be deleted. */
	rc = i < n && strcmp(name, e->name) != 0 ? state_resv_stay(s, name) : 0;
	if (rc != 0) {
		snprintf(err, err_size,
		         "%s/" STATE_RESV ": cannot be written: %s; nothing was changed", s->dir,
		         strerror(-rc));
		return -EIO;
	}
	s->exports[i] = *e;
	s->nexports = i < n ? n : n + 1;
	rc = save_exports(s, err, err_size);
	if (rc != 0) {
		s->exports[i] = was;
		s->nexports = n;
	}
	return rc;
}

int
state_remove(struct state *s, const char *name, char *err, size_t err_size)
{
	const uint32_t i = export_number(s, name);
	struct conf_export was;
	int rc;

	if (i == s->nexports)
		return 0;
	was = s->exports[i];
	memmove(&s->exports[i], &s->exports[i + 1], (--s->nexports - i) * sizeof(s->exports[0]));
	rc = save_exports(s, err, err_size);
	if (rc != 0)
		s->exports[s->nexports++] = was;
	return rc;
}

int
state_replace(struct state *s, const struct conf_export *set, uint32_t n, char *err,
              size_t err_size)
{
	struct conf_export *const was = s->exports, *now = NULL;
	const uint32_t nwas = s->nexports;
	int rc = n <= CONF_EXPORTS_MAX ? 0 : -ENOSPC;

	for (uint32_t i = 0; rc == 0 && i < n; i++) {
		rc = conf_exports_room(&now, i);
		if (rc == 0)
			now[i] = set[i];
	}
	if (rc != 0) {
		free(now);
		snprintf(err, err_size,
		         rc == -ENOSPC ? "more exports than can be" : "out of memory");
		return rc;
	}
	s->exports = now;
	s->nexports = n;
	rc = save_exports(s, err, err_size);
	if (rc != 0) {
		s->exports = was;
		s->nexports = nwas;
	}
	free(rc == 0 ? was : now);
	return rc;
}

int
state_undo(struct state *s, void (*say)(const char *fmt, ...))
{
	char old[STATE_PATH_MAX], err[CONF_ERR_MAX + CONF_PATH_MAX];
	int rc = state_put_back(state_path(s, "exports.ini.old", old), s->file), read;

	if (rc == 0)
		rc = state_sync(s);
	if (rc != 0)
		say(UI_ERR
		    "%s: cannot be put back: %s; a change that failed may be there after a restart",
		    s->file, strerror(-rc));
	read = read_exports(s, err, sizeof(err));
	if (read != 0)
		say(UI_ERR "%s", err);
	return rc != 0 ? rc : read;
}

/* ---- Held exports ---- */

static uint32_t
held_number(const struct state *s, const char *name)
{
	uint32_t i = 0;

	while (i < s->nheld && strcmp(s->held[i], name) != 0)
		i++;
	return i;
}

bool
state_is_held(const struct state *s, const char *name)
{
	return held_number(s, name) < s->nheld;
}

int
state_hold(struct state *s, const char *name, bool held, char *err, size_t err_size)
{
	const uint32_t at = held_number(s, name);
	size_t len = 0;
	bool same;
	char *text;
	int rc;

	if ((at < s->nheld) == held || (held && s->nheld == CONF_EXPORTS_MAX))
		return 0;
	text = calloc(s->nheld + 1, CONF_NAME_MAX + 2);
	/* First the memory: what is written is not taken back. */
	if (text == NULL || (held && held_add(s, name) != 0)) {
		free(text);
		snprintf(err, err_size, "%s/held: out of memory; nothing was changed", s->dir);
		return -ENOMEM;
	}
	s->nheld -= held;
	for (uint32_t i = 0; i < s->nheld; i++)
		if (i != at)
			len += (size_t)sprintf(text + len, "%s\n", s->held[i]);
	if (held)
		len += (size_t)sprintf(text + len, "%.*s\n", CONF_NAME_MAX, name);
	rc = state_write(s, "held", text, len, &same);
	free(text);
	if (rc != 0) {
		snprintf(err, err_size, "%s/held: cannot be written: %s%s", s->dir, strerror(-rc),
		         same ? "" : "; the change may be there after a restart");
		return -EIO;
	}
	if (held)
		s->nheld++;
	else
		memmove(&s->held[at], &s->held[at + 1], (--s->nheld - at) * sizeof(s->held[0]));
	return 0;
}
