/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The command line of `weft-perf sweep`. */

#include <stdlib.h>
#include <string.h>

#include "sweep.h"
#include "ui.h"

static void
sweep_usage(void)
{
	printf("Usage: weft-perf sweep PLAN PORT-OPTIONS --out DIR [OPTIONS] HOST\n"
	       "\n"
	       "Run each test of a plan with each size and depth, round after round, and write\n"
	       "DIR/results.json (as --json, for weft-perf compare), DIR/results.csv and\n"
	       "DIR/index.html: a page with diagrams and tables, which needs no network.\n"
	       "HOST has a weft-perf --server without --once.\n"
	       "\n"
	       "PLAN is an INI file. Lists have commas:\n"
	       "  [sweep]                    or several: [sweep NAME]\n"
	       "  tests = write, read        as weft-perf --help names them\n"
	       "  modes = bandwidth, latency [bandwidth]\n"
	       "  sizes = 64, 4K..1M         a range doubles [64, 4K, 64K, 1M]\n"
	       "  depths = 1, 16, 128        of bandwidth [128, 32 of calls]\n"
	       "  rounds = 5                 [5], the least that weft-perf compare judges\n"
	       "  duration = 2               seconds of a bandwidth run\n"
	       "  iterations = 10000         of the other runs [as weft-perf chooses]\n"
	       "  qps = 1, 4                 QPs of a bandwidth run [1]\n"
	       "  post_lists = 0, 16         messages in one call; 0: what has room [0]\n"
	       "  rates = 0, 5000            messages a second; 0: no limit [0]\n"
	       "  bidirectional = no, yes    the server sends as well [no]\n"
	       "  events = no, yes           completions by event [no]\n"
	       "  workers = 1, 2             workers of the configuration file [1]\n"
	       "\n"
	       "Ctrl-C ends the sweep; a latency run ends first. What was measured is kept, and\n"
	       "marked as incomplete; so it is when runs fail. %u failures in a row end a sweep.\n"
	       "\n"
	       "Port options (--config, or --dev and --address):\n"
	       "  -c, --config FILE      use the ports and the first workers of a\n"
	       "                         configuration file\n" PORT_ARGS_HELP "Options:\n"
	       "  -o, --out DIR          folder of the results; it is created\n"
	       "      --force            replace the results in DIR\n"
	       "  -p, --port PORT        TCP port [%u]\n"
	       "  -h, --help             print this text\n"
	       "  -V, --version          print the version\n"
	       "\n"
	       "Exit status: 0 all was measured, 1 something is missing, 2 wrong command line.\n",
	       SWEEP_GIVE_UP, PERF_PORT);
}

void
sweep_parse(struct sweep *s, int argc, char **argv)
{
	static const struct option opts[] = {
	        PORT_ARGS_OPTIONS,
	        {"out", required_argument, NULL, 'o'},
	        {"force", no_argument, NULL, 'f'},
	        {"port", required_argument, NULL, 'p'},
	        {"help", no_argument, NULL, 'h'},
	        {"version", no_argument, NULL, 'V'},
	        {NULL, 0, NULL, 0},
	};
	int o;

	s->port = PERF_PORT;
	opterr = 0;
	optind = 1;
	while ((o = getopt_long(argc, argv, "c:o:p:hV", opts, NULL)) != -1) {
		if (port_args_take(&s->port_args, o == 'c' ? PORT_ARG_CONFIG : o, optarg))
			continue;
		switch (o) {
		case 'o':
			s->out = optarg;
			break;
		case 'f':
			s->force = true;
			break;
		case 'p':
			s->port = (uint16_t)ui_arg_u64("--port", optarg, 1, 65535);
			break;
		case 'h':
			sweep_usage();
			exit(0);
		case 'V':
			ui_version();
			exit(0);
		default:
			ui_bad_option(argv, opts);
		}
	}
	if (argc - optind != 2)
		ui_usage_die("a PLAN and a HOST are needed");
	if (s->out == NULL || s->out[0] == '\0')
		ui_usage_die("--out: which folder gets the results?");
	s->plan_path = argv[optind];
	s->host = argv[optind + 1];
}
