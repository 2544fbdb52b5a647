/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Makes the command of a new run from that of an earlier one (again.h). */

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "again.h"
#include "args.h"
#include "perf.h"
#include "url.h"

/** Options that say what is printed and where. */
static const char *const again_output[] = {"json", "csv",    "out", "report-histogram",
                                           "help", "version"};
static const char *const again_port[] = {"config", "dev", "address", "mtu"};

static bool
again_is_one_of(const char *name, const char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(name, list[i]) == 0)
			return true;
	return false;
}

/** The long name of an option that getopt_long() returned. */
static const struct option *
again_option(int o)
{
	const struct option *opt = args_options;

	o = args_long(o);
	while (opt->name != NULL && opt->val != o)
		opt++;
	return opt;
}

/** Whether the new run does not take an option. */
static bool
again_drops(const struct again *a, const char *name)
{
	return again_is_one_of(name, again_output, sizeof(again_output) / sizeof(*again_output)) ||
	       (a->port &&
	        again_is_one_of(name, again_port, sizeof(again_port) / sizeof(*again_port))) ||
	       (a->tcp_port && strcmp(name, "port") == 0) ||
	       (a->rounds && strcmp(name, "rounds") == 0);
}

static int
again_add(char ***out, size_t *n, const char *name, const char *value)
{
	const size_t size = strlen(name) + (value != NULL ? strlen(value) : 0) + 4;
	char *word = malloc(size), **more = realloc(*out, (*n + 2) * sizeof(*more));

	if (more != NULL)
		*out = more;
	if (word == NULL || more == NULL) {
		free(word);
		return -ENOMEM;
	}
	snprintf(word, size, "%s%s%s", name, value != NULL ? "=" : "", value != NULL ? value : "");
	more[(*n)++] = word;
	more[*n] = NULL;
	return 0;
}

/** Whether this build has the test. */
static bool
again_knows(const char *test)
{
	if (strcmp(test, "rpc") == 0 || strcmp(test, "mix") == 0)
		return true;
	for (unsigned int t = 0; t < PERF_NTESTS; t++)
		if (strcmp(test, perf_test_names[t]) == 0)
			return true;
	return false;
}

/** The test and the host, or the targets. */
static int
again_names(char **argv, int argc, const struct again *a, char ***out, size_t *n, char *why,
            size_t why_bytes)
{
	int rc = 0;

	if (argc < 2 || !again_knows(argv[0])) {
		snprintf(why, why_bytes, "this build has no test '%s'", argc > 0 ? argv[0] : "");
		return -ENOTSUP;
	}
	if (a->host != NULL && (argc != 2 || url_is(argv[1]))) {
		snprintf(why, why_bytes,
		         "the run was on %s and others; no HOST can take their place", argv[1]);
		return -EINVAL;
	}
	for (int i = 0; i < argc && rc == 0; i++)
		rc = again_add(out, n, i > 0 && a->host != NULL ? a->host : argv[i], NULL);
	return rc;
}

/** Go through the options of argv, which getopt_long() sorts. */
static int
again_options(int argc, char **argv, const struct again *a, char ***out, size_t *n, char *why,
              size_t why_bytes)
{
	int o, rc = again_add(out, n, argv[0], NULL);

	opterr = 0;
	optind = 0;
	while (rc == 0 && (o = getopt_long(argc, argv, args_letters, args_options, NULL)) != -1) {
		char name[64] = "--";

		if (o == '?') {
			snprintf(
			        why, why_bytes,
			        "this build lacks the option '%s', or has another one of this name",
			        argv[optind - 1]);
			return -ENOTSUP;
		}
		snprintf(name + 2, sizeof(name) - 2, "%s", again_option(o)->name);
		if (!again_drops(a, name + 2))
			rc = again_add(out, n, name, optarg);
	}
	for (unsigned int i = 0; i < a->words && rc == 0; i++)
		rc = again_add(out, n, a->word[i], NULL);
	if (rc == 0)
		rc = again_names(argv + optind, argc - optind, a, out, n, why, why_bytes);
	return rc;
}

int
again_command(int argc, char *const *argv, const struct again *a, char ***out, char *why,
              size_t why_bytes)
{
	char **sorted = calloc((size_t)argc + 1, sizeof(*sorted));
	size_t n = 0;
	int rc = -ENOMEM;

	*out = NULL;
	snprintf(why, why_bytes, "%s", strerror(ENOMEM));
	if (sorted != NULL) {
		memcpy(sorted, argv, (size_t)argc * sizeof(*sorted));
		rc = again_options(argc, sorted, a, out, &n, why, why_bytes);
	}
	free(sorted);
	/* getopt_long() begins anew */
	optind = 0;
	if (rc != 0) {
		again_free(*out);
		*out = NULL;
	}
	return rc;
}

char *
again_line(char *const *argv)
{
	char *line = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&line, &len);

	if (f == NULL)
		return NULL;
	for (unsigned int i = 1; argv != NULL && argv[0] != NULL && argv[i] != NULL; i++)
		fprintf(f, "%s%s", i > 1 ? " " : "", argv[i]);
	if (fclose(f) == 0)
		return line;
	free(line);
	return NULL;
}

void
again_free(char **argv)
{
	for (unsigned int i = 0; argv != NULL && argv[i] != NULL; i++)
		free(argv[i]);
	free(argv);
}
