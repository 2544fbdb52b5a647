/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The command line of weft-perf, in perftest's letters. */

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conf.h"
#include "export_proto.h"
#include "port_args.h"
#include "args.h"
#include "expect.h"
#include "flow.h"
#include "perf.h"
#include "ui.h"
#include "url.h"
#include "addr.h"

static void
usage(void)
{
	printf("Usage: weft-perf --server PORT-OPTIONS [--once]\n"
	       "       weft-perf TEST PORT-OPTIONS [OPTIONS] HOST\n"
	       "       weft-perf log-append PORT-OPTIONS [OPTIONS] weft://HOST[:PORT]/EXPORT...\n"
	       "       weft-perf volume-read PORT-OPTIONS [OPTIONS] weft://HOST[:PORT]/EXPORT\n"
	       "       weft-perf volume-write --overwrite PORT-OPTIONS [OPTIONS]\n"
	       "                 weft://HOST[:PORT]/EXPORT\n"
	       "       weft-perf sweep PLAN ...         many sizes and depths, with diagrams\n"
	       "       weft-perf compare A.json B.json  two runs\n"
	       "       weft-perf reproduce RUN.json     an earlier run again, compared with it;\n"
	       "                                        each of these has a --help of its own\n"
	       "\n"
	       "Measure one connection or several, as perftest does.\n"
	       "\n"
	       "Tests: write, read, send, write-imm, atomic-write, fetch-add, cmp-swap, mix.\n"
	       "Tests on a region of the server's medium:\n"
	       "  flush        a Write and a Flush of it\n"
	       "  verify       a Verify: the hash alone\n"
	       "  commit       weft_commit(): a Write, Flush and Verify of data, an Atomic\n"
	       "               Write of the commit word and a Flush of it, in one pipeline\n"
	       "  commit-bare  the Write and the Atomic Write of a commit\n"
	       "  two-sided    the work of a commit by messages: the client posts Writes and\n"
	       "               a Send; the server's application flushes and hashes the data,\n"
	       "               writes the word, flushes it and replies (needs --lat)\n"
	       "  two-sided-2  the same in two rounds: first the data, then the word (needs\n"
	       "               --lat)\n"
	       "  log-append   weft_log_append() of a record until it is durable. The log is\n"
	       "               on one weft-perf server; or with URLs on weft-targets, whose\n"
	       "               exports have format = log and are blank or hold a log of an\n"
	       "               earlier run\n"
	       "Tests of calls of the export program by RPC-over-RDMA:\n"
	       "  rpc-null (or rpc), rpc-read, rpc-write\n"
	       "  rpc-durable  a WRITE that is on the server's medium before its reply\n"
	       "Tests on a volume of a weft-target:\n"
	       "  volume-read, volume-write  by calls or by windows\n"
	       "Bandwidth is in 10^6 octets a second, a rate in 10^6 messages a second. The\n"
	       "latency of write, send and write-imm is half a ping-pong. The latency of the\n"
	       "others is the time to the completion or the reply. cycles/msg are the TSC\n"
	       "cycles of this side's polls that had work.\n"
	       "\n"
	       "Port options (--config, or --dev and --address):\n"
	       "  -c, --config FILE      use the ports and the first workers of a\n"
	       "                         configuration file\n" PORT_ARGS_HELP
	       "  -m BYTES               the same as --mtu\n"
	       "Options:\n"
	       "      --lat              measure latency instead of bandwidth\n"
	       "  -s, --size BYTES       message size [64 for latency, 65536 for bandwidth,\n"
	       "                         4096 on the medium or a volume]; K, M and G are allowed\n"
	       "  -a, --all              measure every power of two up to 1M\n"
	       "      --sizes LIST       sizes and their shares: 64:80,4096:15,1M:5\n"
	       "      --mix LIST         of the test mix: shares of write, read, atomic-write\n"
	       "                         and fetch-add: write:70,read:30\n"
	       "  -n, --iters N          iterations of each QP [100000 for latency; 1000000 or\n"
	       "                         4 GiB for bandwidth]\n"
	       "  -D, --duration S       measure for S seconds; with --lat --rate R: R times S\n"
	       "                         messages\n"
	       "  -f, --margin S         do not measure the first and the last S seconds of\n"
	       "                         --duration [0]\n"
	       "      --perform_warm_up  has no effect: some iterations always come before the\n"
	       "                         measured ones\n"
	       "      --rounds N         measure all of it N times; weft-perf compare and\n"
	       "                         reproduce judge 5 rounds and more [1]\n"
	       "      --run_infinitely   measure bandwidth until Ctrl-C, a row each second,\n"
	       "                         on standard error with --json and --csv\n"
	       "  -q, --qp N             connections [one for each of --workers]\n"
	       "      --workers N        the first N workers of a configuration file, each with\n"
	       "                         its thread and share of the QPs; of the server, too [1]\n"
	       "  -b, --bidirectional    the server sends as well; both directions are added\n"
	       "      --reversed         the server sends in place of the client\n"
	       "  -t, --tx-depth N       work requests outstanding on each QP [128; 32 by RPC\n"
	       "                         and on a volume]\n"
	       "  -r, --rx-depth N       receives kept posted on each QP [4096]\n"
	       "      --use-srq          send, write-imm: one SRQ of -r receives for all QPs of\n"
	       "                         a side; each QP may use an equal share of them\n"
	       "      --recv_post_list N  send, write-imm: post N receives in one call [1]\n"
	       "  -o, --outs N           Reads, atomics, Flushes and Verifies outstanding on\n"
	       "                         each QP [by --tx-depth, 256 at most]\n"
	       "  -Q, --cq-mod N         one completion for N work requests [by --tx-depth]\n"
	       "  -l, --post_list N      post N work requests in one call [what has room]\n"
	       "      --rate_limit R     messages a second, as 2M, or bits a second, as 9Gb, of\n"
	       "                         all QPs together [no limit]\n"
	       "      --rate R           with --lat: start a message each 1/R seconds, whatever\n"
	       "                         became of those before, and measure from that time\n"
	       "  -e, --events           completions by event: workers and threads of both sides\n"
	       "                         may sleep [they poll]\n"
	       "      --no-crc           connections have no CRC32c\n"
	       "      --markers          MPA's markers in both directions\n"
	       "  -I, --inline_size N    copy messages up to N octets when they are posted [0]\n"
	       "      --verify-data      compare each octet with what was sent; the figures are\n"
	       "                         then those of the comparison\n"
	       "  -p, --port PORT        TCP port [%u]\n"
	       "      --timeout S        longest time to connect [5]\n"
	       "      --wait_server S    try again for S seconds while there is no server [0]\n"
	       "Output:\n"
	       "      --report_gbits     bandwidth in 10^9 bits a second\n"
	       "  -H, --report-histogram print the histogram of a latency test\n"
	       "  -U, --report-unsorted  print each sample of a latency test, in their order;\n"
	       "                         --json has them, too, and --csv has nothing else\n"
	       "      --report-both      with -b: each direction in a row of its own, too\n"
	       "      --json             print one JSON document instead of the table\n"
	       "      --csv              print comma-separated values\n"
	       "      --out FILE         write them to FILE, JSON unless --csv; an existing\n"
	       "                         file is not touched\n"
	       "  -N, --noPeak           do not look for the peak\n"
	       "  -F, --CPU-freq         do not warn that the frequency of the CPU changes\n"
	       "      --expect LIST      exit with status 3 unless all conditions hold, such\n"
	       "                         as 'p99<20us,bw>9G': min, max, avg, stdev, p50 to\n"
	       "                         p99.999, which a sample has to lie beyond; bw in bits\n"
	       "                         a second, rate in messages a second, cycles, retrans\n"
	       "Options of some tests:\n"
	       "      --app-thread       two-sided: the server's application has a thread of\n"
	       "                         its own, which sleeps on the completion queue [it\n"
	       "                         runs on the worker]\n"
	       "      --app-medium       two-sided: the application hashes the content of the\n"
	       "                         medium, as a Verify does, and not of the cache; for\n"
	       "                         pmem on DAX\n"
	       "      --rpc-version N    version of RPC-over-RDMA, 1 or 2 [2]\n"
	       "      --quorum N         log-append on weft-targets: N targets make a record\n"
	       "                         durable [more than half]\n"
	       "      --auth NAME:KEYFILE  on weft-targets: authenticate as NAME\n"
	       "                         (docs/host-auth.md)\n"
	       "      --overwrite        volume-write: the range may be overwritten, which has to\n"
	       "                         be said\n"
	       "      --range OFFSET:BYTES  use this part of the volume alone [all]\n"
	       "      --windows          RDMA Write and Flush, or Read, to windows that move\n"
	       "                         through the range [calls]\n"
	       "      --stable           each WRITE is durable when it is answered [it is not]\n"
	       "      --flush-every N    a FLUSH behind N WRITEs [none]\n"
	       "      --random           places in random order, each once before any comes\n"
	       "                         again [one after the other]\n"
	       "      --seed N           another order of --random [0]\n"
	       "Options of the server:\n"
	       "      --once             exit after the first client\n"
	       "      --medium DRIVER[:PATH]  medium of the region: volatile (the default for\n"
	       "                         flush, verify and commit), or file, pmem or auto and\n"
	       "                         a file. The file is created or enlarged, and\n"
	       "                         overwritten\n"
	       "      --hash NAME        hash of Verify, one without a key [crc32c]\n"
	       "      --app-cpu N        CPU of the application's own thread [any]\n"
	       "  -h, --help             print this text\n"
	       "  -V, --version          print the version\n",
	       PERF_PORT);
}

static void
parse_medium(struct args *a, char *s)
{
	char *colon = strchr(s, ':');

	if (colon != NULL)
		*colon = '\0';
	a->medium.driver = s;
	a->medium.path = colon != NULL ? colon + 1 : NULL;
	if (strcmp(s, "auto") != 0 && weft_persist_find(s) == NULL)
		ui_usage_die("--medium: there is no driver '%s'", s);
	if (strcmp(s, "volatile") == 0 ? colon != NULL : colon == NULL || colon[1] == '\0')
		ui_usage_die("--medium: %s", strcmp(s, "volatile") == 0
		                                     ? "volatile takes no path"
		                                     : "which file? DRIVER:PATH");
}

static void
parse_hash(struct args *a, const char *s)
{
	const struct weft_hash_ops *h = weft_hash_find(s);

	if (h == NULL)
		ui_usage_die("--hash: there is no hash '%s'", s);
	if (h->key_min_bytes > 0)
		ui_usage_die("--hash: %s needs a key, which the two sides do not have", s);
	a->medium.hash = s;
}

static void
parse_hosts(struct args *a, char **urls, unsigned int n)
{
	char why[CONF_ERR_MAX];
	struct url u;

	if (n > WEFT_LOG_MAX_TARGETS)
		ui_usage_die("a log has %u targets at most", WEFT_LOG_MAX_TARGETS);
	for (unsigned int i = 0; i < n; i++) {
		if (url_parse(urls[i], &u, why, sizeof(why)) != 0)
			ui_usage_die("%s: %s", urls[i], why);
		if (u.export_name[0] == '\0')
			ui_usage_die("%s: which export? weft://HOST/EXPORT", urls[i]);
		if (addr_parse(u.host, u.port, &a->hosts.at[i].to) != 0)
			ui_usage_die("'%s' is neither an IPv4 nor an IPv6 address", u.host);
		strcpy(a->hosts.at[i].export_name, u.export_name);
	}
	a->hosts.n = n;
	if (a->hosts.quorum == 0)
		a->hosts.quorum = n / 2 + 1;
	if (a->hosts.quorum > n)
		ui_usage_die("--quorum: there are %u targets", n);
	a->job.hosts = &a->hosts;
}

/** Check the options that are not of the job, and what they exclude. */
static void
check_options(const struct args *a)
{
	const struct perf_job *j = &a->job;

	if (j->test == PERF_VOLUME_WRITE && !a->overwrite)
		ui_usage_die("volume-write destroys what the volume holds in --range: say "
		             "--overwrite");
	if (a->overwrite && j->test != PERF_VOLUME_WRITE)
		ui_usage_die("--overwrite is for volume-write");
	if (j->windows && a->all)
		ui_usage_die("--windows takes multiples of 4096: --size, not --all");
	if (!perf_is_plain(j->test) && j->rx_depth != 0)
		ui_usage_die("%s takes no --rx-depth", perf_test_names[j->test]);
	if (j->hosts != NULL && (j->no_crc || j->markers))
		ui_usage_die("with weft-targets --no-crc and --markers stand in [mpa] of both "
		             "sides");
	if (j->hosts != NULL && !perf_is_volume(j->test) &&
	    (j->connect_s != PERF_CONNECT_S || a->wait_s != 0))
		ui_usage_die("--timeout and --wait_server are for a weft-perf server");
	if (j->iterations != 0 && j->duration_s != 0)
		ui_usage_die("--iters or --duration, not both");
	if (a->forever && (j->both_ways || j->reversed || j->margin_s != 0))
		ui_usage_die(
		        "--run_infinitely shows one direction, the client's: no --bidirectional, "
		        "--reversed or --margin");
	if (a->mix.sizes != NULL && (a->all || a->size_given))
		ui_usage_die("--sizes is in place of --size and --all");
	if (a->mix.tests != NULL && a->all)
		ui_usage_die("--mix takes --sizes, not --all");
	if ((a->mix.sizes != NULL || a->mix.tests != NULL) &&
	    ((!perf_is_plain(j->test) && !perf_is_volume(j->test)) || perf_is_word(j->test) ||
	     j->latency || j->both_ways || j->reversed || j->verify))
		ui_usage_die("--sizes and --mix are for the bandwidth of write, read, send, "
		             "write-imm and mix in one direction, and --sizes for that of a "
		             "volume");
	if (j->verify && a->forever)
		ui_usage_die("--verify-data goes round by round: no --run_infinitely");
	if (a->forever &&
	    (j->latency || j->iterations != 0 || j->duration_s != 0 || a->all || a->rounds > 1))
		ui_usage_die("--run_infinitely measures bandwidth until Ctrl-C: no --lat, "
		             "--iters, --duration, --rounds or --all");
	if ((a->json && a->csv) || (a->out != NULL && a->histogram))
		ui_usage_die(a->csv ? "--json or --csv, not both"
		                    : "--report-histogram prints text; it cannot go with --out");
	if (a->both && (!j->both_ways || a->json || a->csv))
		ui_usage_die(
		        "--report-both is for --bidirectional and for people; --json and --csv "
		        "have both anyway");
	if (a->histogram && (!j->latency || a->json || a->csv))
		ui_usage_die("--report-histogram is for --lat and for people: no --json or --csv");
	if (perf_is_word(j->test) && (a->all || (a->size_given && j->size_bytes != 8)))
		ui_usage_die("%s is always of 8 octets", perf_test_names[j->test]);
	if (j->app_thread && !perf_is_two_sided(j->test))
		ui_usage_die("--app-thread is for two-sided and two-sided-2");
	if (j->app_medium && !perf_is_two_sided(j->test))
		ui_usage_die("--app-medium is for two-sided and two-sided-2");
	if (j->rpc_version != 2 && !perf_is_rpc(j->test))
		ui_usage_die("--rpc-version is for tests by RPC");
}

/** Check that a test supports the options given, and complete the job. */
static void
check_job(struct args *a)
{
	struct perf_job *j = &a->job, most;
	char why[256];

	j->workers = a->workers;
	if (j->qps == 0)
		j->qps = j->workers;
	if (j->depth == 0)
		j->depth = perf_default_depth(j->test);
	check_options(a);
	if (j->rx_depth == 0)
		j->rx_depth = j->verify && !j->use_srq ? j->depth + 4 : PERF_RX_DEPTH;
	most = *j;
	most.rate = a->rate;
	if (a->all)
		most.size_bytes = 1u << 20;
	if (!perf_job_check(&most, why, sizeof(why)))
		ui_usage_die("%s", why);
}

/** The test and the host, or the targets. */
static void
take_names(struct args *a, int argc, char **argv)
{
	const uint32_t quorum = a->hosts.quorum;
	unsigned int t;

	if (argc >= 2 && url_is(argv[1]))
		parse_hosts(a, argv + 1, (unsigned int)argc - 1);
	else if (argc != 2)
		ui_usage_die("a TEST and a HOST are needed");
	for (t = 0; t < PERF_NTESTS; t++)
		if (strcmp(argv[0], perf_test_names[t]) == 0 ||
		    (t == PERF_RPC_NULL && strcmp(argv[0], "rpc") == 0))
			break;
	if (t == PERF_NTESTS && strcmp(argv[0], "mix") == 0 && a->mix.tests != NULL)
		t = PERF_WRITE;
	else if (a->mix.tests != NULL)
		ui_usage_die("--mix is for the test named mix");
	if (t == PERF_NTESTS && strcmp(argv[0], "mix") == 0)
		ui_usage_die("mix needs the tests and their shares: --mix write:70,read:30");
	if (t == PERF_NTESTS)
		ui_usage_die("'%s' is no test; --help names them", argv[0]);
	a->job.test = t;
	a->host = argv[1];
	if (perf_is_volume(t) && (a->job.hosts == NULL || argc != 2))
		ui_usage_die("%s takes one volume, weft://HOST/EXPORT", argv[0]);
	if (perf_is_volume(t) && quorum != 0)
		ui_usage_die("--quorum is for log-append");
	if (a->job.hosts == NULL && (a->hosts.quorum != 0 || a->hosts.auth.name[0] != '\0'))
		ui_usage_die(
		        "--quorum and --auth are for log-append with weft://HOST/EXPORT, --auth "
		        "for volumes, too");
	if (a->job.hosts != NULL && t != PERF_LOG_APPEND && !perf_is_volume(t))
		ui_usage_die("%s takes no URL; log-append and the tests on a volume do", argv[0]);
}

/** Options without a letter. */
enum {
	ARG_LAT = 2048,
	ARG_REVERSED,
	ARG_RECV_LIST,
	ARG_TIMEOUT,
	ARG_WAIT,
	ARG_ROUNDS,
	ARG_FOREVER,
	ARG_WARM_UP,
	ARG_GBITS,
	ARG_BOTH,
	ARG_RATE,
	ARG_VERIFY,
	ARG_SIZES,
	ARG_MIX,
	ARG_WORKERS,
	ARG_SRQ,
	ARG_NO_CRC,
	ARG_MARKERS,
	ARG_JSON,
	ARG_CSV,
	ARG_OUT,
	ARG_EXPECT,
	ARG_ONCE,
	ARG_MEDIUM,
	ARG_HASH,
	ARG_APP_THREAD,
	ARG_APP_MEDIUM,
	ARG_APP_CPU,
	ARG_RPC_VERSION,
	ARG_QUORUM,
	ARG_AUTH,
	ARG_OVERWRITE,
	ARG_RANGE,
	ARG_WINDOWS,
	ARG_STABLE,
	ARG_FLUSH_EVERY,
	ARG_RANDOM,
	ARG_SEED,
};

/** Messages a second, with K or M; or bits a second, with Mb or Gb, once the size is known. */
static void
parse_rate(struct args *a, const char *s)
{
	static const struct {
		const char *unit;
		double factor;
		bool bits;
	} units[] = {{"", 1, false},
	             {"K", 1e3, false},
	             {"M", 1e6, false},
	             {"Mb", 1e6, true},
	             {"Gb", 1e9, true}};
	char *end;
	double v = strtod(s, &end);

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (end != s && strcmp(end, units[i].unit) == 0 && v * units[i].factor >= 1 &&
		    v * units[i].factor <= 1e12) {
			a->rate = v * units[i].factor;
			a->rate_is_bits = units[i].bits;
			return;
		}
	ui_usage_die("--rate_limit: '%s' is no rate: messages a second as 5000 or 2M, or bits a "
	             "second as 100Mb or 9Gb",
	             s);
}

static uint32_t
arg_u32(const char *name, uint32_t min, uint32_t max)
{
	return (uint32_t)ui_arg_u64(name, optarg, min, max);
}

/** Take an option that says how much is sent, and how. False: it is none of these. */
static bool
take_shape(struct args *a, int o)
{
	struct perf_job *j = &a->job;
	uint64_t size;

	switch (o) {
	case 's':
		if (conf_parse_size(optarg, &size) != 0 || size < 1 || size > PERF_MAX_BYTES)
			ui_usage_die("--size: '%s' is not a size from 1 to 256M", optarg);
		j->size_bytes = (uint32_t)size;
		a->size_given = true;
		return true;
	case 'a':
		a->all = true;
		return true;
	case 'n':
		j->iterations = ui_arg_u64("--iters", optarg, 1, 1000000000000ull);
		return true;
	case 'D':
		j->duration_s = arg_u32("--duration", 1, 86400);
		return true;
	case ARG_ROUNDS:
		a->rounds = arg_u32("--rounds", 1, PERF_MAX_ROUNDS);
		return true;
	case ARG_FOREVER:
		a->forever = true;
		return true;
	case 'q':
		j->qps = arg_u32("--qp", 1, PERF_MAX_QPS);
		return true;
	case 'b':
		j->both_ways = true;
		return true;
	case ARG_REVERSED:
		j->reversed = true;
		return true;
	case ARG_RECV_LIST:
		j->recv_list = arg_u32("--recv_post_list", 1, FLOW_BATCH);
		return true;
	case 'o':
		j->outs = arg_u32("--outs", 1, PERF_MAX_OUTS);
		return true;
	case 'f':
		j->margin_s = arg_u32("--margin", 0, 86400);
		return true;
	case ARG_TIMEOUT:
		j->connect_s = arg_u32("--timeout", 1, 3600);
		return true;
	case ARG_WAIT:
		a->wait_s = arg_u32("--wait_server", 0, 86400);
		return true;
	case 't':
		j->depth = arg_u32("--tx-depth", 1, PERF_MAX_DEPTH);
		return true;
	case 'r':
		j->rx_depth = arg_u32("--rx-depth", 4, PERF_MAX_DEPTH);
		return true;
	case 'Q':
		j->cq_mod = arg_u32("--cq-mod", 1, PERF_MAX_DEPTH);
		return true;
	case 'l':
		j->post_list = arg_u32("--post_list", 1, FLOW_BATCH);
		return true;
	case ARG_WARM_UP: /* there is one anyway */
		return true;
	case ARG_SIZES:
		a->mix.sizes = optarg;
		return true;
	case ARG_MIX:
		a->mix.tests = optarg;
		return true;
	case ARG_VERIFY:
		j->verify = true;
		return true;
	case ARG_RATE:
		parse_rate(a, optarg);
		return true;
	case ARG_SRQ:
		j->use_srq = true;
		return true;
	case ARG_NO_CRC:
		j->no_crc = true;
		return true;
	case ARG_MARKERS:
		j->markers = true;
		return true;
	case 'e':
		j->events = true;
		return true;
	case 'I':
		j->inline_bytes = arg_u32("--inline_size", 0, WEFT_MAX_INLINE);
		return true;
	default:
		return false;
	}
}

/** Take an option that says what is printed, and where. */
static bool
take_output(struct args *a, int o)
{
	switch (o) {
	case 'N':
		a->job.no_peak = true;
		return true;
	case 'F':
		a->any_freq = true;
		return true;
	case 'H':
		a->histogram = true;
		return true;
	case 'U':
		a->job.keep_samples = true;
		return true;
	case ARG_BOTH:
		a->both = true;
		return true;
	case ARG_GBITS:
		a->gbits = true;
		return true;
	case ARG_JSON:
		a->json = true;
		return true;
	case ARG_CSV:
		a->csv = true;
		return true;
	case ARG_OUT:
		a->out = optarg;
		return true;
	case ARG_EXPECT:
		expect_parse(&a->expect, optarg);
		return true;
	case 'h':
		usage();
		exit(0);
	case 'V':
		ui_version();
		exit(0);
	default:
		return false;
	}
}

/** OFFSET:BYTES */
static void
parse_range(struct perf_job *j, const char *s)
{
	char copy[64];
	char *colon;

	snprintf(copy, sizeof(copy), "%s", s);
	colon = strchr(copy, ':');
	if (colon != NULL)
		*colon = '\0';
	if (colon == NULL || conf_parse_size(copy, &j->range_off_bytes) != 0 ||
	    conf_parse_size(colon + 1, &j->range_bytes) != 0 || j->range_bytes == 0)
		ui_usage_die("--range: '%s' is not OFFSET:BYTES, such as 1G:256M", s);
}

/** Take an option of the tests on a volume. False: it is none of these. */
static bool
take_volume(struct args *a, int o)
{
	struct perf_job *j = &a->job;

	switch (o) {
	case ARG_OVERWRITE:
		a->overwrite = true;
		return true;
	case ARG_RANGE:
		parse_range(j, optarg);
		return true;
	case ARG_WINDOWS:
		j->windows = true;
		return true;
	case ARG_STABLE:
		j->stable = true;
		return true;
	case ARG_FLUSH_EVERY:
		j->flush_every = arg_u32("--flush-every", 1, 1000000000);
		return true;
	case ARG_RANDOM:
		j->random = true;
		return true;
	case ARG_SEED:
		j->seed = ui_arg_u64("--seed", optarg, 0, UINT64_MAX);
		return true;
	default:
		return false;
	}
}

static void
take_test(struct args *a, int o)
{
	switch (o) {
	case 'S':
		a->server = true;
		break;
	case ARG_LAT:
		a->of_client = true;
		a->job.latency = true;
		break;
	case ARG_WORKERS:
		a->workers = arg_u32("--workers", 1, PERF_MAX_WORKERS);
		break;
	case 'p':
		a->port = (uint16_t)arg_u32("--port", 1, 65535);
		break;
	case ARG_ONCE:
		a->of_server = true;
		a->once = true;
		break;
	case ARG_MEDIUM:
		a->of_server = true;
		parse_medium(a, optarg);
		break;
	case ARG_HASH:
		a->of_server = true;
		parse_hash(a, optarg);
		break;
	case ARG_APP_THREAD:
		a->of_client = true;
		a->job.app_thread = true;
		break;
	case ARG_APP_MEDIUM:
		a->of_client = true;
		a->job.app_medium = true;
		break;
	case ARG_APP_CPU:
		a->of_server = true;
		a->medium.app_cpu = (int)arg_u32("--app-cpu", 0, CPU_SETSIZE - 1);
		break;
	case ARG_RPC_VERSION:
		a->of_client = true;
		a->job.rpc_version = (uint8_t)arg_u32("--rpc-version", 1, 2);
		break;
	case ARG_QUORUM:
		a->of_client = true;
		a->hosts.quorum = arg_u32("--quorum", 1, WEFT_LOG_MAX_TARGETS);
		break;
	case ARG_AUTH:
		a->of_client = true;
		auth_arg_take(&a->hosts.auth, optarg);
		break;
	default:
		break;
	}
}

const struct option args_options[] = {
        {"server", no_argument, NULL, 'S'},
        PORT_ARGS_OPTIONS,
        {"lat", no_argument, NULL, ARG_LAT},
        {"size", required_argument, NULL, 's'},
        {"all", no_argument, NULL, 'a'},
        {"iters", required_argument, NULL, 'n'},
        {"duration", required_argument, NULL, 'D'},
        {"rounds", required_argument, NULL, ARG_ROUNDS},
        {"run_infinitely", no_argument, NULL, ARG_FOREVER},
        {"perform_warm_up", no_argument, NULL, ARG_WARM_UP},
        {"qp", required_argument, NULL, 'q'},
        {"bidirectional", no_argument, NULL, 'b'},
        {"reversed", no_argument, NULL, ARG_REVERSED},
        {"recv_post_list", required_argument, NULL, ARG_RECV_LIST},
        {"outs", required_argument, NULL, 'o'},
        {"margin", required_argument, NULL, 'f'},
        {"timeout", required_argument, NULL, ARG_TIMEOUT},
        {"wait_server", required_argument, NULL, ARG_WAIT},
        {"tx-depth", required_argument, NULL, 't'},
        {"rx-depth", required_argument, NULL, 'r'},
        {"cq-mod", required_argument, NULL, 'Q'},
        {"post_list", required_argument, NULL, 'l'},
        {"use-srq", no_argument, NULL, ARG_SRQ},
        {"no-crc", no_argument, NULL, ARG_NO_CRC},
        {"markers", no_argument, NULL, ARG_MARKERS},
        {"events", no_argument, NULL, 'e'},
        {"inline_size", required_argument, NULL, 'I'},
        {"workers", required_argument, NULL, ARG_WORKERS},
        {"port", required_argument, NULL, 'p'},
        {"sizes", required_argument, NULL, ARG_SIZES},
        {"mix", required_argument, NULL, ARG_MIX},
        {"verify-data", no_argument, NULL, ARG_VERIFY},
        {"rate", required_argument, NULL, ARG_RATE},
        {"rate_limit", required_argument, NULL, ARG_RATE},
        {"noPeak", no_argument, NULL, 'N'},
        {"CPU-freq", no_argument, NULL, 'F'},
        {"report-histogram", no_argument, NULL, 'H'},
        {"report-unsorted", no_argument, NULL, 'U'},
        {"report-both", no_argument, NULL, ARG_BOTH},
        {"report_gbits", no_argument, NULL, ARG_GBITS},
        {"json", no_argument, NULL, ARG_JSON},
        {"csv", no_argument, NULL, ARG_CSV},
        {"out", required_argument, NULL, ARG_OUT},
        {"expect", required_argument, NULL, ARG_EXPECT},
        {"once", no_argument, NULL, ARG_ONCE},
        {"medium", required_argument, NULL, ARG_MEDIUM},
        {"hash", required_argument, NULL, ARG_HASH},
        {"app-thread", no_argument, NULL, ARG_APP_THREAD},
        {"app-medium", no_argument, NULL, ARG_APP_MEDIUM},
        {"app-cpu", required_argument, NULL, ARG_APP_CPU},
        {"rpc-version", required_argument, NULL, ARG_RPC_VERSION},
        {"quorum", required_argument, NULL, ARG_QUORUM},
        {"auth", required_argument, NULL, ARG_AUTH},
        {"overwrite", no_argument, NULL, ARG_OVERWRITE},
        {"range", required_argument, NULL, ARG_RANGE},
        {"windows", no_argument, NULL, ARG_WINDOWS},
        {"stable", no_argument, NULL, ARG_STABLE},
        {"flush-every", required_argument, NULL, ARG_FLUSH_EVERY},
        {"random", no_argument, NULL, ARG_RANDOM},
        {"seed", required_argument, NULL, ARG_SEED},
        {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},
        {NULL, 0, NULL, 0},
};
const char args_letters[] = "c:m:s:an:D:f:q:bo:t:r:Q:l:eI:p:NFHUhV";

int
args_long(int o)
{
	return o == 'c' ? PORT_ARG_CONFIG : o == 'm' ? PORT_ARG_MTU : o;
}

void
args_parse(int argc, char **argv, struct args *a)
{
	int o;

	a->port = PERF_PORT;
	a->job.rpc_version = 2;
	a->job.connect_s = PERF_CONNECT_S;
	a->workers = 1;
	a->rounds = 1;
	a->medium.hash = "crc32c";
	a->medium.app_cpu = -1;
	opterr = 0;
	while ((o = getopt_long(argc, argv, args_letters, args_options, NULL)) != -1) {
		if (port_args_take(&a->port_args, args_long(o), optarg))
			continue;
		if (o == '?')
			ui_bad_option(argv, args_options);
		if (take_shape(a, o) || take_volume(a, o) || take_output(a, o))
			a->of_client = true;
		else
			take_test(a, o);
	}
	argv += optind;
	argc -= optind;
	if (a->server) {
		if (argc != 0)
			ui_usage_die("--server takes no '%s'", argv[0]);
		if (a->of_client)
			ui_usage_die("--server takes port options, --workers, --port, --once, "
			             "--medium, --hash and --app-cpu; the test is the client's");
		return;
	}
	if (a->of_server)
		ui_usage_die("--once, --medium, --hash and --app-cpu are options of --server");
	take_names(a, argc, argv);
	check_job(a);
}
