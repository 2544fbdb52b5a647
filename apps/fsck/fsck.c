/* SPDX-License-Identifier: BSD-3-Clause */
/** @file weft-fsck: examines the medium of an export that no target has open, and repairs it. */

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fsck_file.h"
#include "fsck_print.h"
#include "ui.h"

/** As e2fsck's. MENDED and LEFT may come together. */
enum {
	STATUS_MENDED = 1,
	STATUS_LEFT = 4,
	STATUS_FAILED = 8,
	STATUS_USAGE = 16,
};

static void
usage(void)
{
	fputs("usage: weft-fsck [--repair] [--data] [--json] FILE\n"
	      "\n"
	      "Examine the medium of an export, a file or a block device: an object, a log or\n"
	      "a volume. No target may have it open; one that has is not disturbed. Nothing\n"
	      "is written without --repair. Each finding has its place, what is wrong, what\n"
	      "follows from it and what can be done. Its first word is\n"
	      "  note      it is no damage\n"
	      "  mendable  --repair mends it\n"
	      "  mended    it was mended\n"
	      "  damaged   it cannot be mended without a guess\n"
	      "\n"
	      "  -r, --repair          mend what has one right content: a copy of a\n"
	      "                        superblock, octets that the rest of the medium proves,\n"
	      "                        what has to be zero. Data is never written\n"
	      "  -d, --data            volumes with checksums: read all data and compare it.\n"
	      "                        With --repair, what was being written when the target\n"
	      "                        ended gets its checksums anew, as by a scrub. Objects\n"
	      "                        and logs are always read\n"
	      "      --previous        with --repair: if the object is damaged, and the one\n"
	      "                        that was pushed before it is whole, go back to that\n"
	      "                        one. The damaged object is lost\n"
	      "      --format FORMAT   object, log or volume: examine a medium as this format\n"
	      "                        if its first octets do not show one\n"
	      "      --json            print one JSON document\n"
	      "  -q, --quiet           show no progress\n"
	      "  -h, --help            print this text\n"
	      "      --version         print the version\n"
	      "\n"
	      "Exit status, a sum: 0 clean; 1 damage was mended; 4 damage is left; 8 the\n"
	      "medium cannot be examined: in use, unreadable, or no export of weft; 16 a wrong\n"
	      "command line.\n",
	      stdout);
}

struct args {
	struct fsck_options o;
	const char *path;
	bool json, quiet;
};

static enum fsck_format
parse_format(const char *word)
{
	for (enum fsck_format i = FSCK_OBJECT; i <= FSCK_VOLUME; i++)
		if (strcmp(word, fsck_format_str(i)) == 0)
			return i;
	ui_usage_die("--format: '%s' is not object, log or volume", word);
}

static void
parse_args(int argc, char **argv, struct args *a)
{
	enum { PREVIOUS = 256, FORMAT, JSON, VERSION };
	static const struct option opts[] = {
	        {"repair", no_argument, NULL, 'r'},
	        {"data", no_argument, NULL, 'd'},
	        {"previous", no_argument, NULL, PREVIOUS},
	        {"format", required_argument, NULL, FORMAT},
	        {"json", no_argument, NULL, JSON},
	        {"quiet", no_argument, NULL, 'q'},
	        {"help", no_argument, NULL, 'h'},
	        {"version", no_argument, NULL, VERSION},
	        {NULL, 0, NULL, 0},
	};
	int c;

	opterr = 0;
	while ((c = getopt_long(argc, argv, "rdqh", opts, NULL)) != -1) {
		switch (c) {
		case 'r':
			a->o.repair = true;
			break;
		case 'd':
			a->o.data = true;
			break;
		case PREVIOUS:
			a->o.previous = true;
			break;
		case FORMAT:
			a->o.format = parse_format(optarg);
			break;
		case JSON:
			a->json = true;
			break;
		case 'q':
			a->quiet = true;
			break;
		case 'h':
			usage();
			exit(0);
		case VERSION:
			ui_version();
			exit(0);
		default:
			ui_bad_option(argv, opts);
		}
	}
	if (optind == argc)
		ui_usage_die("no medium; give the path of the export");
	if (optind + 1 < argc)
		ui_usage_die("'%s': no such argument; one medium at a time", argv[optind + 1]);
	if (a->o.previous && !a->o.repair)
		ui_usage_die("--previous is for --repair");
	a->path = argv[optind];
}

/** What the callbacks need. */
struct show {
	struct fsck_print print;
	struct ui_progress bar;
};

static void
show_found(void *owner, const struct fsck_finding *f)
{
	struct show *s = owner;

	ui_progress_end(&s->bar);
	fsck_print_finding(&s->print, f);
}

static void
show_progress(void *owner, uint64_t done, uint64_t total)
{
	struct show *s = owner;

	s->bar.total = total;
	ui_progress_update(&s->bar, done);
}

int
main(int argc, char **argv)
{
	struct args a = {.o = {.found = show_found, .progress = show_progress}};
	struct fsck_result r;
	struct fsck_file file;
	struct show s = {0};
	char err[256];
	int rc, status = 0;

	ui_init("weft-fsck");
	ui_exit_statuses(STATUS_FAILED, STATUS_USAGE);
	parse_args(argc, argv, &a);
	if (fsck_file_open(&file, a.path, a.o.repair, err, sizeof(err)) != 0)
		ui_die("%s: %s", a.path, err);
	s.print = (struct fsck_print){.out = stdout, .path = a.path, .as_json = a.json};
	a.o.owner = &s;
	fsck_print_begin(&s.print);
	ui_progress_start(&s.bar, "examined", file.medium.bytes, a.quiet);
	rc = fsck_run(&file.medium, &a.o, &r);
	ui_progress_end(&s.bar);
	fsck_file_close(&file);
	if (r.count[FSCK_MENDED] > 0)
		status |= STATUS_MENDED;
	if (r.count[FSCK_LEFT] + r.count[FSCK_CAN_MEND] > 0)
		status |= STATUS_LEFT;
	if (rc != 0)
		status |= STATUS_FAILED;
	fsck_print_end(&s.print, &r, rc, status);
	if (rc != 0 && !a.json)
		ui_msg("%s: %s", a.path, r.reason);
	if (fflush(stdout) != 0)
		ui_die("the report cannot be written");
	return status;
}
