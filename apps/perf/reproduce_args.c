/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The command line of `weft-perf reproduce`, and the run file that it names. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "perf.h"
#include "port_args.h"
#include "reproduce.h"
#include "seal.h"
#include "ui.h"

static void
reproduce_usage(void)
{
	printf("Usage: weft-perf reproduce [OPTIONS] RUN.json [HOST]\n"
	       "\n"
	       "Make an earlier run again, and compare. RUN.json is what weft-perf --out or\n"
	       "--json wrote. Its hash is checked. The run is made with the options of then,\n"
	       "with the configuration whose text is in the file, and with the server of then,\n"
	       "unless others are given here. The server must be started as it was.\n"
	       "\n"
	       "Printed are the new rows, what differs between then and now (machines,\n"
	       "versions, builds, options), and the comparison of weft-perf compare, in which A\n"
	       "is the earlier run and B the new one. A verdict takes 5 rounds of either:\n"
	       "--rounds of the earlier run. 'sed 2d RUN.json | sha256sum' prints the hash.\n"
	       "The hash does not say who made the file. To run it is to trust its maker: it\n"
	       "names the devices that are opened and the server that is sent to. The command\n"
	       "is printed before it runs.\n"
	       "\n"
	       "Port options in place of the earlier ones:\n"
	       "  -c, --config FILE      use the ports and the first worker of a\n"
	       "                         configuration file\n" PORT_ARGS_HELP "Options:\n"
	       "  -p, --port PORT        TCP port of the server\n"
	       "      --rounds N         so many rounds [as then]\n"
	       "      --metric KEY       the figure to compare, as of weft-perf compare\n"
	       "      --trust            allow what the configuration of RUN.json could use to\n"
	       "                         load code or write files: eal of [weft], net_pcap\n"
	       "      --json             print one JSON document\n"
	       "      --out FILE         write the new run to FILE, a run file as well; an\n"
	       "                         existing file is not touched\n"
	       "  -h, --help             print this text\n"
	       "  -V, --version          print the version\n"
	       "\n"
	       "Exit status: 0 no row is slower, %d some row is slower or --expect of the run\n"
	       "does not hold, 1 the run cannot be made again, 2 wrong command line.\n",
	       COMPARE_EXIT_SLOWER);
}

/* ---- The run file ---- */

/** Take a list of texts. False: it is none. */
static bool
reproduce_command(struct reproduce *r, json_t *list)
{
	json_t *word;
	size_t i;

	r->words = (int)json_array_size(list);
	r->command = calloc((size_t)r->words + 1, sizeof(*r->command));
	if (r->command == NULL)
		ui_die("no memory");
	json_array_foreach(list, i, word)
	{
		if (!json_is_string(word))
			return false;
		r->command[i] = (char *)(uintptr_t)json_string_value(word);
	}
	return r->words >= 2;
}

static void
reproduce_load(struct reproduce *r)
{
	const json_t *conf;
	char why[512];
	size_t len;
	char *text = doc_read(r->file, &len, why, sizeof(why));
	int rc;

	r->then = text != NULL ? doc_parse(r->file, text, len, why, sizeof(why)) : NULL;
	if (r->then == NULL)
		ui_die("%s", why);
	rc = seal_check(text, len);
	free(text);
	if (json_object_get(r->then, "sweep") != NULL)
		ui_die("%s: is of weft-perf sweep; run its plan again, and compare", r->file);
	if (rc == -ENOENT)
		ui_die("%s: has no hash in its second line, so it is no run file of weft-perf "
		       "--out or --json; measure again",
		       r->file);
	if (rc != 0)
		ui_die("%s: was changed after weft-perf wrote it: its hash is that of another text",
		       r->file);
	if (json_is_false(json_object_get(r->then, "complete")))
		ui_msg("%s: is incomplete (%s); what it has is compared", r->file,
		       doc_text(r->then, "failed"));
	conf = json_object_get(r->then, "configuration");
	r->config = json_string_value(json_object_get(conf, "file"));
	r->content = json_string_value(json_object_get(conf, "content"));
	if (!reproduce_command(r, json_object_get(r->then, "command")) ||
	    (conf != NULL && (r->config == NULL || r->content == NULL)))
		ui_die("%s: has no command or configuration as weft-perf writes it", r->file);
	if (r->again.port)
		r->config = r->content = NULL;
}

/* ---- Options ---- */

/** Keep an option of the new run as a word of its command. */
static void
reproduce_word(struct reproduce *r, const char *name, const char *value)
{
	const size_t size = strlen(name) + strlen(value) + 4;
	char *word = malloc(size);

	if (word == NULL)
		ui_die("no memory");
	if (r->again.words == AGAIN_WORDS)
		ui_usage_die("--%s: an option is given several times", name);
	snprintf(word, size, "--%s=%s", name, value);
	r->again.word[r->again.words++] = word;
}

/** Take an option that takes the place of one of the earlier run. False: it is none of these. */
static bool
reproduce_replaces(struct reproduce *r, struct port_args *port, int o)
{
	static const char *const names[] = {"config", "dev", "address", "mtu"};

	if (port_args_take(port, o == 'c' ? PORT_ARG_CONFIG : o, optarg)) {
		reproduce_word(r, names[(o == 'c' ? PORT_ARG_CONFIG : o) - PORT_ARG_CONFIG],
		               optarg);
		r->again.port = true;
		return true;
	}
	if (o == 'p') {
		ui_arg_u64("--port", optarg, 1, 65535);
		reproduce_word(r, "port", optarg);
		r->again.tcp_port = true;
		return true;
	}
	if (o == 'r') {
		ui_arg_u64("--rounds", optarg, 1, PERF_MAX_ROUNDS);
		reproduce_word(r, "rounds", optarg);
		r->again.rounds = true;
		return true;
	}
	return false;
}

void
reproduce_parse(struct reproduce *r, int argc, char **argv)
{
	static const struct option opts[] = {
	        PORT_ARGS_OPTIONS,
	        {"port", required_argument, NULL, 'p'},
	        {"rounds", required_argument, NULL, 'r'},
	        {"metric", required_argument, NULL, 'M'},
	        {"trust", no_argument, NULL, 't'},
	        {"json", no_argument, NULL, 'j'},
	        {"out", required_argument, NULL, 'o'},
	        {"help", no_argument, NULL, 'h'},
	        {"version", no_argument, NULL, 'V'},
	        {NULL, 0, NULL, 0},
	};
	struct port_args port = {0};
	int o;

	opterr = 0;
	optind = 1;
	while ((o = getopt_long(argc, argv, "c:p:hV", opts, NULL)) != -1) {
		if (o != '?' && reproduce_replaces(r, &port, o))
			continue;
		switch (o) {
		case 'M':
			compare_add_metric(&r->compare, optarg);
			break;
		case 't':
			r->trust = true;
			break;
		case 'j':
			r->json = true;
			break;
		case 'o':
			r->out = optarg;
			break;
		case 'h':
			reproduce_usage();
			exit(0);
		case 'V':
			ui_version();
			exit(0);
		default:
			ui_bad_option(argv, opts);
		}
	}
	if (r->again.port && (port.config != NULL) == (port.dev != NULL))
		ui_usage_die("give either --config or --dev with --address");
	if (argc - optind < 1 || argc - optind > 2)
		ui_usage_die("one run file is needed, and no more than a HOST behind it");
	r->file = argv[optind];
	r->again.host = argv[optind + 1];
	if (r->compare.nmetrics == 0) {
		compare_add_metric(&r->compare, "average_mb_s");
		compare_add_metric(&r->compare, "t_typical_us");
	}
	reproduce_load(r);
}
