/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Compares a run that was made again with the earlier one. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "perf.h"
#include "reproduce.h"
#include "ui.h"

int
reproduce_config(const struct reproduce *r)
{
	const size_t len = strlen(r->content);
	int fd = memfd_create("configuration", MFD_CLOEXEC);

	if (fd < 0)
		return -errno;
	for (size_t at = 0; at < len;) {
		ssize_t n = write(fd, r->content + at, len - at);

		if (n <= 0) {
			close(fd);
			return n < 0 ? -errno : -EIO;
		}
		at += (size_t)n;
	}
	return fd;
}

/** Whether the configuration file is today what it was. */
static const char *
reproduce_config_now(const struct reproduce *r)
{
	char why[512];
	size_t len;
	char *text = doc_read(r->config, &len, why, sizeof(why));
	const char *is = "another text, not used";

	if (text == NULL)
		return "not there; the run file has its text";
	if (len == strlen(r->content) && memcmp(text, r->content, len) == 0)
		is = "as it was";
	free(text);
	return is;
}

/** All differences. */
static json_t *
reproduce_differences(const struct reproduce *r, const json_t *now)
{
	const struct again as_it_was = {0};
	char **then_argv = NULL, **now_argv = NULL, *then_line, *now_line, why[256];
	json_t *list = NULL;

	if (again_command(r->words, r->command, &as_it_was, &then_argv, why, sizeof(why)) == 0 &&
	    again_command(r->words, r->command, &r->again, &now_argv, why, sizeof(why)) == 0) {
		then_line = again_line(then_argv);
		now_line = again_line(now_argv);
		if (then_line != NULL && now_line != NULL)
			list = reproduce_diff(r->then, now, then_line, now_line);
		free(then_line);
		free(now_line);
	}
	again_free(then_argv);
	again_free(now_argv);
	if (list == NULL)
		ui_die("no memory");
	if (r->content != NULL)
		reproduce_diff_add(list, r->config, "as it was", reproduce_config_now(r));
	return list;
}

static void
reproduce_print(const struct reproduce *r, const json_t *differences)
{
	char a[512], b[512], c[512];
	const json_t *d;
	size_t i;

	printf("\nthen: %s\n", ui_printable(doc_text(r->then, "started"), a, sizeof(a)));
	if (json_array_size(differences) == 0)
		printf("no difference between the machines, versions and options of then and "
		       "now\n");
	json_array_foreach(differences, i, d)
	{
		printf("differs: %s\n  then %s\n  now  %s\n",
		       ui_printable(doc_text(d, "what"), a, sizeof(a)),
		       ui_printable(doc_text(d, "then"), b, sizeof(b)),
		       ui_printable(doc_text(d, "now"), c, sizeof(c)));
	}
	printf("\n");
	compare_print(stdout, &r->compare);
	if (compare_count(&r->compare, COMPARE_FEW) > 0)
		printf("a verdict takes 5 rounds of either run: --rounds 5\n");
}

static void
reproduce_print_json(const struct reproduce *r, json_t *differences)
{
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);
	json_t *doc = NULL;

	if (f != NULL) {
		compare_print_json(f, &r->compare);
		if (fclose(f) == 0)
			doc = json_loadb(text, len, 0, NULL);
	}
	free(text);
	if (doc == NULL || json_object_set(doc, "differences", differences) != 0)
		ui_die("no memory");
	json_dumpf(doc, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(8));
	printf("\n");
	json_decref(doc);
}

int
reproduce_judge(struct reproduce *r, json_t *now)
{
	static char now_name[] = "now";
	struct compare *c = &r->compare;
	json_t *differences = reproduce_differences(r, now);
	char *files[2] = {(char *)(uintptr_t)r->file,
	                  r->out != NULL ? (char *)(uintptr_t)r->out : now_name};
	json_t *docs[2] = {r->then, now};
	char why[512];
	int rc;

	for (unsigned int s = 0; s < 2; s++)
		c->side[s] =
		        (struct compare_side){.files = &files[s], .nfiles = 1, .docs = &docs[s]};
	if (compare_do(c, why, sizeof(why)) != 0)
		ui_die("%s", why);
	if (r->json)
		reproduce_print_json(r, differences);
	else
		reproduce_print(r, differences);
	if (fflush(stdout) != 0 || ferror(stdout))
		ui_die("standard output cannot be written");
	rc = compare_count(c, COMPARE_SLOWER) > 0 ? COMPARE_EXIT_SLOWER : 0;
	json_decref(differences);
	compare_free(c);
	r->then = NULL;
	return rc;
}

void
reproduce_end(struct reproduce *r)
{
	json_decref(r->then);
	free(r->command);
	for (unsigned int i = 0; i < r->again.words; i++)
		free((char *)(uintptr_t)r->again.word[i]);
}
