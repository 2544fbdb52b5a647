/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The folder of a sweep: nothing in it is overwritten unasked, and each file appears
 * whole. */

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "page.h"
#include "sweep.h"

#define PARTIAL "results.partial.json"

static const char *const sweep_files[] = {"results.json", "results.csv", "index.html"};

/** DIR/NAME, in memory that the caller frees; suffix: ".tmp" or "". */
static char *
sweep_path(const char *dir, const char *name, const char *suffix)
{
	char *path;

	return asprintf(&path, "%s/%s%s", dir, name, suffix) < 0 ? NULL : path;
}

/** Whether the folder has this file. One without content is left by a sweep that did not begin. */
static bool
sweep_has(const char *dir, const char *name)
{
	char *path = sweep_path(dir, name, "");
	struct stat st;
	bool has = path == NULL || (lstat(path, &st) == 0 && st.st_size > 0);

	free(path);
	return has;
}

int
sweep_dir_take(const char *dir, bool force, char *why, size_t why_bytes)
{
	char *path;
	int fd, rc = 0;

	if (mkdir(dir, 0777) != 0 && errno != EEXIST) {
		rc = -errno;
		snprintf(why, why_bytes, "%s: cannot be created: %s", dir, strerror(-rc));
		return rc;
	}
	for (unsigned int i = 0; i < 3 && !force; i++) {
		if (!sweep_has(dir, sweep_files[i]) && !sweep_has(dir, PARTIAL))
			continue;
		snprintf(why, why_bytes,
		         "%s: has results of another sweep; choose another --out, or "
		         "replace them by --force",
		         dir);
		return -EEXIST;
	}
	path = sweep_path(dir, PARTIAL, "");
	fd = path == NULL ? -1 : open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_TRUNC, 0666);
	if (fd < 0) {
		rc = path == NULL ? -ENOMEM : -errno;
		snprintf(why, why_bytes, "%s: cannot be written: %s", dir, strerror(-rc));
	} else {
		close(fd);
	}
	free(path);
	return rc;
}

/** Close a file and tell whether all of it was written. */
static int
sweep_close(FILE *f)
{
	int bad = ferror(f), rc = 0;

	errno = 0;
	if (fflush(f) != 0 || fsync(fileno(f)) != 0)
		rc = errno != 0 ? -errno : -EIO;
	if (fclose(f) != 0 && rc == 0)
		rc = errno != 0 ? -errno : -EIO;
	return rc == 0 && bad ? -EIO : rc;
}

/** Write one file under its temporary name. */
static int
sweep_write(const char *dir, const char *name, const struct sweep *s, json_t *doc)
{
	char *path = sweep_path(dir, name, ".tmp");
	FILE *f = path != NULL ? fopen(path, "we") : NULL;
	int rc = path == NULL ? -ENOMEM : f == NULL ? -errno : 0;

	free(path);
	if (rc != 0)
		return rc;
	if (strcmp(name, "results.csv") == 0)
		sweep_csv(f, s);
	else if (strcmp(name, "index.html") == 0)
		rc = page_write(f, doc);
	else if (json_dumpf(doc, f, JSON_INDENT(2) | JSON_REAL_PRECISION(12)) != 0 ||
	         fputc('\n', f) == EOF)
		rc = -EIO;
	if (rc == 0)
		return sweep_close(f);
	fclose(f);
	return rc;
}

static int
sweep_rename(const char *dir, const char *name)
{
	char *from = sweep_path(dir, name, ".tmp"), *to = sweep_path(dir, name, "");
	int rc = from == NULL || to == NULL ? -ENOMEM : rename(from, to) != 0 ? -errno : 0;

	free(from);
	free(to);
	return rc;
}

int
sweep_dir_partial(const char *dir, json_t *doc)
{
	int rc = sweep_write(dir, PARTIAL, NULL, doc);

	return rc == 0 ? sweep_rename(dir, PARTIAL) : rc;
}

int
sweep_dir_finish(const char *dir, const struct sweep *s)
{
	char *path;
	int rc = 0;

	for (unsigned int i = 0; i < 3 && rc == 0; i++)
		rc = sweep_write(dir, sweep_files[i], s, s->doc);
	for (unsigned int i = 0; i < 3 && rc == 0; i++)
		rc = sweep_rename(dir, sweep_files[i]);
	path = sweep_path(dir, PARTIAL, "");
	if (rc == 0 && path != NULL)
		unlink(path);
	free(path);
	return rc;
}
