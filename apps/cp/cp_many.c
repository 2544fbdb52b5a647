/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Which file goes where: the operands of the command line as pairs of a file and an
 * export. */

#include "cp_many.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ui.h"

#define MANY_DEPTH_MAX 64 /* folders in folders */

static void *
many_memory(void *p)
{
	if (p == NULL)
		ui_die("not enough memory");
	return p;
}

static char *
many_join(const char *a, const char *b)
{
	const size_t n = strlen(a);
	const bool slash = n > 0 && a[n - 1] != '/';
	char *s = many_memory(malloc(n + strlen(b) + 2));

	sprintf(s, "%s%s%s", a, slash ? "/" : "", b);
	return s;
}

static const char *
many_base(const char *file)
{
	const char *slash = strrchr(file, '/');

	return slash != NULL ? slash + 1 : file;
}

static void
many_add(struct cp_jobs *jobs, const char *source, const char *destination, bool push)
{
	char err[512];
	struct cp_job *j;

	jobs->job = many_memory(realloc(jobs->job, ((size_t)jobs->n + 1) * sizeof(*jobs->job)));
	j = &jobs->job[jobs->n];
	*j = (struct cp_job){
	        .source = many_memory(strdup(source)),
	        .destination = many_memory(strdup(destination)),
	        .push = push,
	};
	j->file = push ? j->source : j->destination;
	if (url_parse(push ? j->destination : j->source, &j->url, err, sizeof(err)) != 0)
		ui_usage_die("%s", err);
	if (j->url.export_name[0] == '\0')
		ui_usage_die("%s: no export named; write weft://HOST[:PORT]/EXPORT",
		             push ? j->destination : j->source);
	jobs->n++;
}

/** A file that goes to the export of its name. */
static void
many_push(struct cp_jobs *jobs, const char *file, const char *target)
{
	const char *base = many_base(file);
	char *url;

	/* What url_parse() would say of the name is a failure of this file alone. */
	if (strlen(base) > sizeof(jobs->job[0].url.export_name) - 1) {
		ui_msg("%s: no export has so long a name", file);
		jobs->failed++;
		return;
	}
	url = many_join(target, base);
	many_add(jobs, file, url, true);
	free(url);
}

static int
many_order(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

/** The regular files in a folder and below, in the order of their names. A symbolic link stands for
 * a file, not for a folder. */
static void
many_folder(struct cp_jobs *jobs, const char *folder, const char *target, unsigned int depth)
{
	struct dirent **list;
	int n = depth < MANY_DEPTH_MAX ? scandir(folder, &list, NULL, many_order) : -1;

	if (n < 0) {
		ui_msg("%s: cannot be read: %s", folder,
		       depth < MANY_DEPTH_MAX ? strerror(errno) : "too many folders in folders");
		jobs->failed++;
		return;
	}
	for (int i = 0; i < n; i++) {
		const char *name = list[i]->d_name;
		char *path = many_join(folder, name);
		struct stat st, link;

		if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
			/* not below */
		} else if (lstat(path, &link) != 0 || stat(path, &st) != 0) {
			ui_msg("%s: %s", path, strerror(errno));
			jobs->failed++;
		} else if (S_ISREG(st.st_mode)) {
			many_push(jobs, path, target);
		} else if (S_ISDIR(link.st_mode)) {
			many_folder(jobs, path, target, depth + 1);
		} else {
			ui_msg("%s: is neither a regular file nor a folder", path);
			jobs->failed++;
		}
		free(path);
		free(list[i]);
	}
	free(list);
}

static int
many_compare(const void *a, const void *b)
{
	const struct cp_job *x = *(const struct cp_job *const *)a,
	                    *y = *(const struct cp_job *const *)b;

	return strcmp(x->destination, y->destination);
}

/** Two sources for one place: the later one would replace the earlier one. */
static void
many_check(const struct cp_jobs *jobs)
{
	const struct cp_job **order =
	        many_memory(malloc(((size_t)jobs->n + 1) * sizeof(struct cp_job *)));

	for (uint32_t i = 0; i < jobs->n; i++)
		order[i] = &jobs->job[i];
	qsort(order, jobs->n, sizeof(struct cp_job *), many_compare);
	for (uint32_t i = 1; i < jobs->n; i++)
		if (many_compare(&order[i - 1], &order[i]) == 0)
			ui_usage_die("%s and %s would both go to %s", order[i - 1]->source,
			             order[i]->source, order[i]->destination);
	free(order);
}

static bool
many_is_folder(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/** Whether a destination stands for names. */
static bool
many_names(const char *dst)
{
	const size_t n = strlen(dst);
	struct url u;
	char err[512];

	if (n == 0 || dst[n - 1] != '/')
		return false;
	if (!url_is(dst))
		return true;
	return url_parse(dst, &u, err, sizeof(err)) == 0;
}

static void
many_pull(struct cp_jobs *jobs, const char *source, const char *folder)
{
	const char *base = many_base(source);
	char *file;

	if (*base == '\0' || strcmp(base, ".") == 0 || strcmp(base, "..") == 0)
		ui_usage_die("%s: names no export that a file can be called after", source);
	file = many_join(folder, base);
	many_add(jobs, source, file, false);
	free(file);
}

void
cp_jobs_make(char *const *operands, int n, struct cp_jobs *jobs)
{
	const char *dst = operands[n - 1];
	const bool push = url_is(dst), names = many_names(dst);

	*jobs = (struct cp_jobs){0};
	for (int i = 0; i < n - 1; i++)
		if (url_is(operands[i]) == push)
			ui_usage_die(push ? "both SRC and DST are remote; one of them must be a "
			                    "file"
			                  : "neither SRC nor DST is weft://HOST[:PORT]/EXPORT");
	if (n > 2 && !names)
		ui_usage_die("%s: several files go to names: write %s", dst,
		             push ? "weft://HOST[:PORT]/" : "FOLDER/");
	if (!push && names && !many_is_folder(dst))
		ui_usage_die("%s: there is no such folder", dst);
	for (int i = 0; i < n - 1; i++) {
		const char *src = operands[i];

		if (names && strcmp(src, "-") == 0)
			ui_usage_die("-: has no name for an export; write "
			             "weft://HOST[:PORT]/EXPORT");
		if (!names)
			many_add(jobs, src, dst, push);
		else if (!push)
			many_pull(jobs, src, dst);
		else if (many_is_folder(src))
			many_folder(jobs, src, dst, 0);
		else
			many_push(jobs, src, dst);
	}
	many_check(jobs);
}

void
cp_jobs_free(struct cp_jobs *jobs)
{
	for (uint32_t i = 0; i < jobs->n; i++) {
		free(jobs->job[i].source);
		free(jobs->job[i].destination);
	}
	free(jobs->job);
}
