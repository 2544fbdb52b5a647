/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The files of the state directory. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conf_index.h"
#include "target_state.h"
#include "ui.h"

#define STATE_FILE_MAX (16u << 20)
#define STATE_PATH_MAX (CONF_PATH_MAX + 64)
#define STATE_RESV     "reservations"
#define STATE_GONE     ".gone" /**< behind the name of a volume: its export is being deleted */
#define RESV_NAME      32U     /**< length of that name */

static const char state_head[] =
        "; Exports that were made by weft-ctl. weft-target writes this file; do not edit it while\n"
        "; a target runs.\n";

/** "DIR/NAME"; returns buf. */
static const char *
state_path(const struct state *s, const char *name, char buf[STATE_PATH_MAX])
{
	snprintf(buf, STATE_PATH_MAX, "%s/%.60s", s->dir, name);
	return buf;
}

const char *
state_file(const struct state *s)
{
	return s->file;
}

/* ---- Writing ---- */

/** Make the names in the directory durable. */
static int
state_sync(const struct state *s)
{
	int fd = open(s->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc = 0;

	if (fd < 0)
		return -errno;
	if (fsync(fd) != 0)
		rc = -errno;
	close(fd);
	return rc;
}

static int
write_all(int fd, const char *text, size_t len)
{
	while (len > 0) {
		ssize_t n = write(fd, text, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		text += n;
		len -= (size_t)n;
	}
	return fsync(fd) == 0 ? 0 : -errno;
}

/** Give the file of before its name again. Without one there was none. */
static int
put_back(const char *kept, const char *path)
{
	if (rename(kept, path) == 0)
		return 0;
	/* Whatever else it is, the file that there is may be the only one. */
	if (errno == ENOENT && (unlink(path) == 0 || errno == ENOENT))
		return 0;
	return -errno;
}

/** Replace a file of the directory as a whole, and keep the file of before under the name `old`.
 * *same: after a failure, whether the file is that of before. */
static int
state_write(const struct state *s, const char *name, const char *old, const char *text, size_t len,
            bool *same)
{
	char path[STATE_PATH_MAX], fresh[STATE_PATH_MAX], kept[STATE_PATH_MAX], new[64];
	int fd, rc;

	state_path(s, name, path);
	snprintf(new, sizeof(new), "%s.new", name);
	state_path(s, new, fresh);
	*same = true;
	fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	rc = write_all(fd, text, len);
	if (close(fd) != 0 && rc == 0)
		rc = -errno;
	state_path(s, old, kept);
	if (rc == 0 && unlink(kept) != 0 && errno != ENOENT)
		rc = -errno;
	if (rc == 0 && link(path, kept) != 0 && errno != ENOENT)
		rc = -errno;
	if (rc == 0 && rename(fresh, path) != 0)
		rc = -errno;
	if (rc != 0) {
		(void)unlink(fresh);
		return rc;
	}
	rc = state_sync(s);
	if (rc != 0) {
		*same = put_back(kept, path) == 0;
		(void)state_sync(s);
	}
	return rc;
}

/* ---- Reading ---- */

/** Read a file of the directory; the caller frees *text. -ENOENT: there is none. */
static int
state_read(const struct state *s, const char *name, char **text, size_t *len)
{
	char path[STATE_PATH_MAX];
	int fd = open(state_path(s, name, path), O_RDONLY | O_CLOEXEC | O_NOFOLLOW), rc = 0;
	struct stat st;
	ssize_t n = 0;

	*len = 0;
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) != 0)
		rc = -errno;
	else if (st.st_size > STATE_FILE_MAX)
		rc = -EFBIG;
	else if ((*text = malloc((size_t)st.st_size + 1)) == NULL)
		rc = -ENOMEM;
	while (rc == 0 && *len < (size_t)st.st_size &&
	       (n = read(fd, *text + *len, (size_t)st.st_size - *len)) > 0)
		*len += (size_t)n;
	if (rc == 0 && n < 0)
		rc = -errno;
	close(fd);
	if (rc == 0)
		(*text)[*len] = '\0';
	return rc;
}

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

/* ---- Reservations of deleted exports ---- */

/** The directory of reservations, as a state of its own, and the names of a volume's file there. */
static void
resv_names(const struct state *s, const uint8_t uuid[16], struct state *sub, char name[40],
           char old[40])
{
	memset(sub, 0, sizeof(*sub));
	snprintf(sub->dir, sizeof(sub->dir), "%.*s/" STATE_RESV,
	         (int)(sizeof(sub->dir) - sizeof(STATE_RESV) - 1), s->dir);
	for (unsigned int i = 0; i < 16; i++)
		snprintf(name + 2 * (size_t)i, 40 - 2 * (size_t)i, "%02x", uuid[i]);
	snprintf(old, 40, "%.32s.old", name);
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
	char name[40], old[40], *text;
	struct dirent *e;
	struct state sub;
	size_t len;
	DIR *d;
	int rc = 0;

	resv_names(a->s, none, &sub, name, old);
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

/* ---- Exports ---- */

/** Whether a value is one line that the parser of configurations takes as it is. */
static bool
value_ok(const char *v)
{
	for (const char *p = v; *p != '\0'; p++)
		if ((unsigned char)*p < ' ' || *p == 0x7f || (*p == ';' && p > v && p[-1] == ' '))
			return false;
	return *v != '\0' && *v != ' ' && v[strlen(v) - 1] != ' ';
}

static bool
key_ok(const char *k)
{
	return *k != '\0' && k[strspn(k, "abcdefghijklmnopqrstuvwxyz_")] == '\0';
}

/** The lines of `text` whose key is not among the pairs. */
static void
print_others(FILE *out, char *text, const char *const (*pairs)[2], unsigned int npairs)
{
	char *save = NULL;

	for (char *line = strtok_r(text, "\n", &save); line != NULL;
	     line = strtok_r(NULL, "\n", &save)) {
		size_t n = strcspn(line, " ");
		bool given = false;

		for (unsigned int i = 0; i < npairs; i++)
			given = given ||
			        (strlen(pairs[i][0]) == n && memcmp(pairs[i][0], line, n) == 0);
		if (!given && line[0] != '[')
			fprintf(out, "%s\n", line);
	}
}

/** The text of an export as a section; the caller frees it. NULL: no memory. */
static char *
export_text(const struct conf_export *e)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	if (f == NULL)
		return NULL;
	conf_print_export(f, e);
	if (fclose(f) == 0)
		return text;
	free(text);
	return NULL;
}

/** Messages of the parser name a file and a line, which the operator has not seen. */
static void
without_place(char *err, const char *name)
{
	char *at = strstr(err, "[export ");

	if (strncmp(err, name, strlen(name)) == 0 && at != NULL)
		memmove(err, at, strlen(at) + 1);
}

/** What is written has to be read as what it was. It is of the state from now on. */
static int
kept_as_it_is(struct conf_export *e, const char *place, char *err, size_t err_size)
{
	char *once = NULL, *again;
	struct conf_export second;
	int rc;

	e->of_state = true;
	again = export_text(e);
	rc = again == NULL ? -ENOMEM : conf_parse_export(place, again, &second, err, err_size);
	if (rc == 0) {
		once = export_text(&second);
		if (once == NULL || strcmp(once, again) != 0) {
			snprintf(err, err_size, "[export %.60s]: a value that cannot be kept",
			         e->name);
			rc = -EINVAL;
		}
	}
	free(again);
	free(once);
	return rc;
}

int
state_parse(const struct state *s, const char *name, const struct conf_export *base,
            const char *const (*pairs)[2], unsigned int npairs, struct conf_export *out, char *err,
            size_t err_size)
{
	char place[STATE_PATH_MAX], *text = NULL, *before = NULL;
	size_t len;
	FILE *f;
	int rc = -ENOMEM;

	snprintf(err, err_size, "out of memory");
	for (unsigned int i = 0; i < npairs; i++)
		if (!key_ok(pairs[i][0]) || !value_ok(pairs[i][1])) {
			snprintf(err, err_size,
			         "[export %.60s] %.60s: not a value of one line, or with a comment "
			         "in it",
			         name, key_ok(pairs[i][0]) ? pairs[i][0] : "a key");
			return -EINVAL;
		}
	if (!value_ok(name) || strpbrk(name, "[]") != NULL) {
		snprintf(err, err_size,
		         "\"%.60s\": bad name; use letters, digits, '.', '_' and '-' only",
		         value_ok(name) ? name : "");
		return -EINVAL;
	}
	f = open_memstream(&text, &len);
	if (f == NULL)
		return -ENOMEM;
	fprintf(f, "[export %s]\n", name);
	if (base != NULL && (before = export_text(base)) != NULL)
		print_others(f, before, pairs, npairs);
	for (unsigned int i = 0; i < npairs; i++)
		fprintf(f, "%s = %s\n", pairs[i][0], pairs[i][1]);
	if (fclose(f) == 0 && (base == NULL || before != NULL)) {
		rc = conf_parse_export(state_path(s, "request", place), text, out, err, err_size);
		without_place(err, place);
	}
	if (rc == 0)
		rc = kept_as_it_is(out, place, err, err_size);
	if (rc == 0 && strcmp(out->name, name) != 0) {
		snprintf(err, err_size, "[export %.60s]: a name that cannot be kept", name);
		rc = -EINVAL;
	}
	free(text);
	free(before);
	return rc;
}

/** The first line that begins a section of another kind; 0: there is none. */
static int
other_section(const char *text)
{
	for (int line = 1; text != NULL; line++) {
		text += strspn(text, " \t");
		if (*text == '[' &&
		    (strncmp(text + 1, "export", 6) != 0 || strchr(" \t", text[7]) == NULL))
			return line;
		text = strchr(text, '\n');
		text = text != NULL ? text + 1 : NULL;
	}
	return 0;
}

int
state_parse_set(const struct state *s, const char *text, struct conf *out, char *err,
                size_t err_size)
{
	char place[STATE_PATH_MAX];
	const int other = other_section(text);
	int rc;

	if (other != 0) {
		snprintf(err, err_size, "line %d: not an [export NAME]; a set has nothing else",
		         other);
		return -EINVAL;
	}
	state_path(s, "set", place);
	rc = conf_load_sections(place, text, strlen(text), out, err, err_size);
	/* The operator knows the line, and another name of the file. */
	if (rc != 0 && strncmp(err, place, strlen(place)) == 0 && err[strlen(place)] == ':') {
		const char *rest = err + strlen(place) + 1;

		memmove(err + 5, rest, strlen(rest) + 1);
		memcpy(err, "line ", 5);
	}
	for (uint32_t i = 0; rc == 0 && i < out->nexports; i++)
		rc = kept_as_it_is(&out->exports[i], place, err, err_size);
	return rc;
}

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
		rc = state_write(s, "exports.ini", "exports.ini.old", text, len, &same);
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
	int rc = put_back(state_path(s, "exports.ini.old", old), s->file), read;

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
	rc = state_write(s, "held", "held.old", text, len, &same);
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

/* ---- Reservations ---- */

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
	char file[40], old[40], path[STATE_PATH_MAX], note[48], older[64];
	struct state sub;
	bool same;
	int rc;

	resv_names(s, uuid, &sub, file, old);
	if (access(state_path(&sub, file, path), F_OK) != 0)
		return errno == ENOENT ? 0 : -errno;
	snprintf(note, sizeof(note), "%s" STATE_GONE, file);
	snprintf(older, sizeof(older), "%s.old", note);
	rc = state_write(&sub, note, older, name, strlen(name), &same);
	/* The export stays, so a note may not. */
	if (rc != 0)
		(void)resv_note_ends(&sub, file, false);
	return rc;
}

static int
resv_end(const struct state *s, const uint8_t uuid[16], bool too)
{
	char name[40], old[40], path[STATE_PATH_MAX], note[48];
	struct state sub;

	resv_names(s, uuid, &sub, name, old);
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
	char name[40], old[40];
	struct state sub;

	resv_names(s, uuid, &sub, name, old);
	snprintf(buf, size, "%s/%.32s", sub.dir, name);
	return buf;
}

int
state_resv_keep(const struct state *s, const uint8_t uuid[16], const void *data, size_t bytes)
{
	char name[40], old[40];
	struct state sub;
	bool same;
	int rc = state_resv_spare(s, uuid);

	/* The next start would remove what is kept now. */
	if (rc != 0)
		return rc;
	resv_names(s, uuid, &sub, name, old);
	return state_write(&sub, name, old, data, bytes, &same);
}

int
state_resv_kept(const struct state *s, const uint8_t uuid[16], char **data, size_t *bytes)
{
	char name[40], old[40];
	struct state sub;

	resv_names(s, uuid, &sub, name, old);
	return state_read(&sub, name, data, bytes);
}
