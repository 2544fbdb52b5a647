/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The command line of `weft-perf compare`. */

#include <stdlib.h>
#include <string.h>

#include "compare.h"
#include "ui.h"

static void
compare_usage(void)
{
	printf("Usage: weft-perf compare [OPTIONS] A.json B.json\n"
	       "       weft-perf compare [OPTIONS] A1.json A2.json... -- B1.json B2.json...\n"
	       "\n"
	       "Compare two sets of results of weft-perf --json or weft-perf sweep, row by row.\n"
	       "A row is one job: test, mode, bytes, depth and what else was asked for. Several\n"
	       "results of one job, in one file or in several, are its rounds.\n"
	       "\n"
	       "For each row: the median of A and of B, the ratio B/A, its 95 %% confidence\n"
	       "interval and a verdict. B/A is the median of the ratios of all pairs of rounds\n"
	       "(Hodges and Lehmann); the interval is that of Mann and Whitney's test. It is\n"
	       "exact up to 60 rounds a side. The verdict is \"faster\" or \"slower\" when the\n"
	       "interval lies on one side of 1, else \"no difference seen\". With fewer than 5\n"
	       "rounds on a side there is no interval: \"too few rounds\".\n"
	       "\n"
	       "Measure A and B in turn (A1 B1 A2 B2 ...), so that a drift of the machine\n"
	       "reaches both. Of 20 rows without any difference, one gets a verdict by chance.\n"
	       "\n"
	       "Options:\n"
	       "  -m, --metric KEY     the figure to compare; repeat it for more [average_mb_s\n"
	       "                       of bandwidth, t_typical_us of latency]. Others:\n"
	       "                       mmsg_s, cycles_per_message, t_avg_us, t_p99_us,\n"
	       "                       t_p999_us. KEY:higher or KEY:lower says which is\n"
	       "                       better, where weft-perf does not know\n"
	       "  -i, --ignore KEY     compare rows that differ in this key of their jobs, such\n"
	       "                       as post_list or depth; repeat it for more\n"
	       "      --json           print one JSON document instead of the table\n"
	       "  -h, --help           print this text\n"
	       "  -V, --version        print the version\n"
	       "\n"
	       "Exit status: 0 no row is slower, %d some row is slower, 1 the files cannot be\n"
	       "compared, 2 wrong command line.\n",
	       COMPARE_EXIT_SLOWER);
}

void
compare_add_metric(struct compare *c, const char *arg)
{
	if (c->nmetrics == COMPARE_MAX_METRICS)
		ui_usage_die("--metric: %u metrics at most", COMPARE_MAX_METRICS);
	if (!compare_metric_take(arg, &c->metric[c->nmetrics]))
		ui_usage_die("--metric: is more or less of '%s' better? KEY:higher or KEY:lower",
		             arg);
	c->nmetrics++;
}

/** A file that is given twice on one side would count twice. */
static void
compare_twice(char *const *files, unsigned int n)
{
	for (unsigned int i = 1; i < n; i++)
		for (unsigned int k = 0; k < i; k++)
			if (strcmp(files[i], files[k]) == 0)
				ui_usage_die("%s is named twice on one side", files[i]);
}

/** Divide the files: n before "--" or without it, nbehind behind it. split: there is a "--". */
static void
compare_files(struct compare *c, char **files, int n, char **behind, int nbehind, bool split)
{
	if (!split && n != 2)
		ui_usage_die("two files are needed, or several with -- between A's and B's");
	if (split && (n == 0 || nbehind == 0))
		ui_usage_die("files are needed on both sides of the --");
	for (int i = 0; i < nbehind; i++)
		if (behind[i][0] == '-')
			ui_usage_die("%s: options stand before the --", behind[i]);
	c->side[0].files = files;
	c->side[0].nfiles = split ? (unsigned int)n : 1;
	c->side[1].files = split ? behind : files + 1;
	c->side[1].nfiles = split ? (unsigned int)nbehind : 1;
	compare_twice(c->side[0].files, c->side[0].nfiles);
	compare_twice(c->side[1].files, c->side[1].nfiles);
}

/** Returns whether to print JSON. */
static bool
compare_parse(int argc, char **argv, struct compare *c)
{
	static const struct option opts[] = {
	        {"metric", required_argument, NULL, 'm'}, {"ignore", required_argument, NULL, 'i'},
	        {"json", no_argument, NULL, 'j'},         {"help", no_argument, NULL, 'h'},
	        {"version", no_argument, NULL, 'V'},      {NULL, 0, NULL, 0},
	};
	bool json = false;
	int split = 1, o;

	while (split < argc && strcmp(argv[split], "--") != 0)
		split++;
	opterr = 0;
	optind = 1;
	while ((o = getopt_long(split, argv, "m:i:hV", opts, NULL)) != -1) {
		switch (o) {
		case 'm':
			compare_add_metric(c, optarg);
			break;
		case 'i':
			if (c->nignore == COMPARE_MAX_METRICS)
				ui_usage_die("--ignore: at most %u keys", COMPARE_MAX_METRICS);
			c->ignore[c->nignore++] = optarg;
			break;
		case 'j':
			json = true;
			break;
		case 'h':
			compare_usage();
			exit(0);
		case 'V':
			ui_version();
			exit(0);
		default:
			ui_bad_option(argv, opts);
		}
	}
	compare_files(c, argv + optind, split - optind, argv + split + 1,
	              split < argc ? argc - split - 1 : 0, split < argc);
	if (c->nmetrics == 0) {
		compare_add_metric(c, "average_mb_s");
		compare_add_metric(c, "t_typical_us");
	}
	return json;
}

static void
compare_load(struct compare_side *s)
{
	char why[512];

	s->docs = calloc(s->nfiles, sizeof(json_t *));
	if (s->docs == NULL)
		ui_die("out of memory");
	for (unsigned int i = 0; i < s->nfiles; i++) {
		s->docs[i] = doc_load(s->files[i], why, sizeof(why));
		if (s->docs[i] == NULL)
			ui_die("%s", why);
	}
}

int
compare_main(int argc, char **argv)
{
	struct compare c = {0};
	char why[512];
	bool json, slower;

	ui_init("weft-perf compare");
	json = compare_parse(argc, argv, &c);
	compare_load(&c.side[0]);
	compare_load(&c.side[1]);
	if (compare_do(&c, why, sizeof(why)) != 0)
		ui_die("%s", why);
	if (json)
		compare_print_json(stdout, &c);
	else
		compare_print(stdout, &c);
	if (fflush(stdout) != 0 || ferror(stdout))
		ui_die("standard output cannot be written");
	slower = compare_count(&c, COMPARE_SLOWER) > 0;
	compare_free(&c);
	free(c.side[0].docs);
	free(c.side[1].docs);
	return slower ? COMPARE_EXIT_SLOWER : 0;
}
