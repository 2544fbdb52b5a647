/* SPDX-License-Identifier: BSD-3-Clause */
/** @file weft-perf: reads the arguments and runs one job after the other. */

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conf.h"
#include "export_proto.h"
#include "port_args.h"
#include "perf.h"
#include "stack.h"
#include "ui.h"
#include "url.h"
#include "addr.h"

#define MAX_SIZES 32
#define BUSY_S    5

static volatile sig_atomic_t stop;

static void
on_signal(int sig)
{
	(void)sig;
	stop = 1;
}

static void
usage(void)
{
	printf("Usage: weft-perf --server PORT-OPTIONS [--once]\n"
	       "       weft-perf TEST PORT-OPTIONS [OPTIONS] HOST\n"
	       "       weft-perf log-append PORT-OPTIONS [OPTIONS] weft://HOST[:PORT]/EXPORT...\n"
	       "\n"
	       "Measure one connection, as perftest does. CRC32c is always on.\n"
	       "\n"
	       "Tests: write, read, send, write-imm, atomic-write, fetch-add, cmp-swap.\n"
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
	       "Bandwidth is in 10^6 octets a second, a rate in 10^6 messages a second. The\n"
	       "latency of write, send and write-imm is half a ping-pong. The latency of the\n"
	       "others is the time to the completion or the reply. cycles/msg are the TSC\n"
	       "cycles of this side's polls that had work.\n"
	       "\n"
	       "Port options (--config, or --dev and --address):\n"
	       "  -c, --config FILE      use the ports and the first worker of a\n"
	       "                         configuration file\n" PORT_ARGS_HELP "Options:\n"
	       "      --lat              measure latency instead of bandwidth\n"
	       "  -s, --size BYTES       message size [64 for latency, 65536 for bandwidth,\n"
	       "                         4096 on the medium]; K, M and G are allowed\n"
	       "  -a, --all              measure every power of two up to 1M\n"
	       "  -n, --iters N          iterations [100000 for latency; 1000000 or 4 GiB for\n"
	       "                         bandwidth]\n"
	       "  -D, --duration S       measure bandwidth for S seconds\n"
	       "  -q, --depth N          work requests outstanding [128]\n"
	       "  -p, --port PORT        TCP port [%u]\n"
	       "      --json             print one JSON document instead of the table\n"
	       "      --app-thread       two-sided: the server's application has a thread of\n"
	       "                         its own, which sleeps on the completion queue [it\n"
	       "                         runs on the worker]\n"
	       "      --app-medium       two-sided: the application hashes the content of the\n"
	       "                         medium, as a Verify does, and not of the cache; for\n"
	       "                         pmem on DAX\n"
	       "      --rpc-version N    version of RPC-over-RDMA, 1 or 2 [2]\n"
	       "      --quorum N         log-append on weft-targets: N targets make a record\n"
	       "                         durable [more than half]\n"
	       "      --auth NAME:KEYFILE  log-append on weft-targets: authenticate as NAME\n"
	       "                         (docs/host-auth.md)\n"
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

struct args {
	struct conf conf;
	struct perf_job job;
	bool server, once, json, all;
	bool size_given;
	struct perf_medium medium;
	struct perf_hosts hosts;
	uint16_t port;
	struct port_args port_args;
	const char *host;
};

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

/** Check that a test supports the options given. */
static void
check_job(const struct args *a)
{
	const struct perf_job *j = &a->job;
	const char *name = perf_test_names[j->test];
	uint64_t most = PERF_MAX_SLOTS_BYTES / perf_slots(j->test, j->depth);

	if (j->latency && j->duration_s != 0)
		ui_usage_die("--duration is for bandwidth; use --iters with --lat");
	if (perf_is_word(j->test) && (a->all || (a->size_given && j->size_bytes != 8)))
		ui_usage_die("%s is always of 8 octets", name);
	if (perf_is_two_sided(j->test) && !j->latency)
		ui_usage_die("%s measures latency: --lat", name);
	if (j->app_thread && !perf_is_two_sided(j->test))
		ui_usage_die("--app-thread is for two-sided and two-sided-2");
	if (j->app_medium && !perf_is_two_sided(j->test))
		ui_usage_die("--app-medium is for two-sided and two-sided-2");
	if (perf_is_rpc(j->test) && j->size_bytes > WEFT_EXPORT_IO_MAX)
		ui_usage_die("%s takes sizes up to 1M", name);
	if (j->rpc_version != 2 && !perf_is_rpc(j->test))
		ui_usage_die("--rpc-version is for tests by RPC");
	if (perf_is_place(j->test) && (a->all ? 1u << 20 : j->size_bytes) > most)
		ui_usage_die(
		        "%s keeps every one of --depth apart, 1G in all: --size can be %llu at "
		        "most",
		        name, (unsigned long long)most);
}

static void
parse_args(int argc, char **argv, struct args *a)
{
	static const struct option opts[] = {
	        {"server", no_argument, NULL, 'S'},
	        PORT_ARGS_OPTIONS,
	        {"lat", no_argument, NULL, 'l'},
	        {"size", required_argument, NULL, 's'},
	        {"all", no_argument, NULL, 'a'},
	        {"iters", required_argument, NULL, 'n'},
	        {"duration", required_argument, NULL, 'D'},
	        {"depth", required_argument, NULL, 'q'},
	        {"port", required_argument, NULL, 'p'},
	        {"json", no_argument, NULL, 'j'},
	        {"once", no_argument, NULL, 'o'},
	        {"medium", required_argument, NULL, 'M'},
	        {"hash", required_argument, NULL, 'H'},
	        {"app-thread", no_argument, NULL, 't'},
	        {"app-medium", no_argument, NULL, 'W'},
	        {"app-cpu", required_argument, NULL, 'C'},
	        {"rpc-version", required_argument, NULL, 'r'},
	        {"quorum", required_argument, NULL, 'Q'},
	        {"auth", required_argument, NULL, 'u'},
	        {"help", no_argument, NULL, 'h'},
	        {"version", no_argument, NULL, 'V'},
	        {NULL, 0, NULL, 0},
	};
	uint64_t size;
	int o;

	a->port = PERF_PORT;
	a->job.depth = 0;
	a->job.rpc_version = 2;
	a->medium.hash = "crc32c";
	a->medium.app_cpu = -1;
	opterr = 0;
	while ((o = getopt_long(argc, argv, "c:s:an:D:q:p:hV", opts, NULL)) != -1) {
		if (port_args_take(&a->port_args, o == 'c' ? PORT_ARG_CONFIG : o, optarg))
			continue;
		switch (o) {
		case 'S':
			a->server = true;
			break;
		case 'l':
			a->job.latency = true;
			break;
		case 's':
			if (conf_parse_size(optarg, &size) != 0 || size < 1 ||
			    size > PERF_MAX_BYTES)
				ui_usage_die("--size: '%s' is not a size from 1 to 256M", optarg);
			a->job.size_bytes = (uint32_t)size;
			a->size_given = true;
			break;
		case 'a':
			a->all = true;
			break;
		case 'n':
			a->job.iterations = ui_arg_u64("--iters", optarg, 1, 1000000000000ull);
			break;
		case 'D':
			a->job.duration_s = (uint32_t)ui_arg_u64("--duration", optarg, 1, 86400);
			break;
		case 'q':
			a->job.depth = (uint32_t)ui_arg_u64("--depth", optarg, 1, PERF_MAX_DEPTH);
			break;
		case 'p':
			a->port = (uint16_t)ui_arg_u64("--port", optarg, 1, 65535);
			break;
		case 'j':
			a->json = true;
			break;
		case 'o':
			a->once = true;
			break;
		case 'M':
			parse_medium(a, optarg);
			break;
		case 'H':
			parse_hash(a, optarg);
			break;
		case 't':
			a->job.app_thread = true;
			break;
		case 'W':
			a->job.app_medium = true;
			break;
		case 'C':
			a->medium.app_cpu =
			        (int)ui_arg_u64("--app-cpu", optarg, 0, CPU_SETSIZE - 1);
			break;
		case 'r':
			a->job.rpc_version = (uint8_t)ui_arg_u64("--rpc-version", optarg, 1, 2);
			break;
		case 'Q':
			a->hosts.quorum =
			        (uint32_t)ui_arg_u64("--quorum", optarg, 1, WEFT_LOG_MAX_TARGETS);
			break;
		case 'u':
			auth_arg_take(&a->hosts.auth, optarg);
			break;
		case 'h':
			usage();
			exit(0);
		case 'V':
			ui_version();
			exit(0);
		default:
			ui_bad_option(argv, opts);
		}
	}
	argv += optind;
	argc -= optind;
	if (a->server) {
		if (argc != 0)
			ui_usage_die("--server takes no '%s'", argv[0]);
	} else {
		unsigned int t;

		if (argc >= 2 && url_is(argv[1]))
			parse_hosts(a, argv + 1, (unsigned int)argc - 1);
		else if (argc != 2)
			ui_usage_die("a TEST and a HOST are needed");
		for (t = 0; t < PERF_NTESTS; t++)
			if (strcmp(argv[0], perf_test_names[t]) == 0 ||
			    (t == PERF_RPC_NULL && strcmp(argv[0], "rpc") == 0))
				break;
		if (t == PERF_NTESTS)
			ui_usage_die("'%s' is no test; --help names them", argv[0]);
		a->job.test = t;
		if (a->job.depth == 0)
			a->job.depth = perf_is_rpc(t) ? 32 : 128;
		else if (perf_is_rpc(t) && a->job.depth > WEFT_RPC_MAX_CALLS)
			ui_usage_die("%s: --depth is %u at most", perf_test_names[t],
			             WEFT_RPC_MAX_CALLS);
		a->host = argv[1];
		if (a->job.hosts == NULL && (a->hosts.quorum != 0 || a->hosts.auth.name[0] != '\0'))
			ui_usage_die(
			        "--quorum and --auth are for log-append with weft://HOST/EXPORT");
		if (a->job.hosts != NULL && t != PERF_LOG_APPEND)
			ui_usage_die("%s takes no URL; log-append does", argv[0]);
		check_job(a);
	}
}

static void
bring_up(struct args *a, struct stack *st)
{
	const struct stack_opt so = {.progname = "weft-perf", .one_worker = true};
	char err[CONF_ERR_MAX];

	if (port_args_conf(&a->port_args, &a->conf, err, sizeof(err)) != 0)
		ui_die("%s", err);
	if (stack_up(&a->conf, &so, st, err, sizeof(err)) != 0)
		ui_die("%s", err);
	if (st->nworkers == 0)
		ui_die("%s: there is no [port]", a->port_args.config);
}

/** The sizes and iterations of all runs of this command. */
static unsigned int
plan(const struct args *a, struct perf_job jobs[MAX_SIZES])
{
	unsigned int n = 0;
	uint32_t first = a->job.size_bytes, last;

	if (perf_is_word(a->job.test))
		first = 8;
	else if (a->all)
		first = 2;
	else if (first == 0 && a->job.test == PERF_RPC_NULL)
		first = 1;
	else if (first == 0)
		first = perf_is_place(a->job.test) || a->job.test == PERF_RPC_DURABLE ? 4096
		        : a->job.latency                                              ? 64
		                                                                      : 65536;
	last = a->all ? 1u << 20 : first;
	for (uint64_t size = first; size <= last && n < MAX_SIZES; size *= 2) {
		struct perf_job *j = &jobs[n++];

		*j = a->job;
		j->size_bytes = (uint32_t)size;
		if (j->latency) /* queues no longer than used, so that they stay in the cache */
			j->depth = 1;
		if (j->iterations == 0 && j->duration_s == 0) {
			j->iterations = j->latency ? 100000 : 1000000;
			if (j->iterations * size > 4ull << 30)
				j->iterations = (4ull << 30) / size;
			if (j->iterations < 100)
				j->iterations = 100;
		}
		j->warmup = j->duration_s != 0 || j->iterations > 10000
		                    ? 1000
		                    : (uint32_t)(j->iterations / 10);
		if ((uint64_t)j->warmup * size > 256u << 20)
			j->warmup = (uint32_t)((256u << 20) / size);
	}
	return n;
}

/** Run one job. The server may still be busy with the previous client for a moment, so it is
 * tried again. */
static int
run_job(struct stack *st, const struct sockaddr_storage *to, struct perf_job *job,
        struct perf_result *res, char *why, size_t why_bytes)
{
	uint64_t give_up = ui_now_ns() + BUSY_S * 1000000000ull;
	int rc;

	for (;;) {
		rc = perf_client_run(st->ctx, st->workers[0], (const struct sockaddr *)to,
		                     addr_len(to), job, res, why, why_bytes);
		if (rc == -EMEDIUMTYPE && !job->visible) {
			job->visible = true;
			continue;
		}
		if (rc != -EAGAIN || stop || ui_now_ns() > give_up)
			return rc;
		usleep(100000);
	}
}

int
main(int argc, char **argv)
{
	static struct args a;
	static struct perf_result res[MAX_SIZES];
	struct perf_job jobs[MAX_SIZES];
	struct sockaddr_storage to;
	struct sigaction sa = {.sa_handler = on_signal};
	struct stack st = {0};
	unsigned int njobs = 0, done = 0;
	char why[256], port[8] = "";
	int rc = 0;

	ui_init("weft-perf");
	ui_keep_memory();
	if (sched_getaffinity(0, sizeof(a.medium.cpus), &a.medium.cpus) != 0)
		CPU_ZERO(&a.medium.cpus);
	parse_args(argc, argv, &a);
	if (a.job.hosts != NULL)
		to = a.hosts.at[0].to;
	else if (addr_parse(a.server ? "::" : a.host, a.port, &to) != 0)
		ui_usage_die("'%s' is neither an IPv4 nor an IPv6 address", a.host);
	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	bring_up(&a, &st);
	if (a.job.hosts == NULL)
		snprintf(port, sizeof(port), ":%u", a.port);
	if (a.server) {
		fprintf(stderr, "weft-perf: waiting for clients on port %u\n", a.port);
		rc = perf_server_run(st.ctx, st.workers[0], (struct sockaddr *)&to, addr_len(&to),
		                     &a.medium, a.once, &stop);
		if (rc != 0)
			ui_msg("cannot serve: %s",
			       rc == -ENODEV ? "the port's device was removed" : strerror(-rc));
	} else {
		stack_await_partner(&st, &stop);
		njobs = plan(&a, jobs);
		if (!a.json)
			perf_print_head(stdout, &jobs[0]);
		for (unsigned int i = 0; i < njobs && rc == 0 && !stop; i++) {
			rc = run_job(&st, &to, &jobs[i], &res[i], why, sizeof(why));
			if (rc != 0) {
				ui_msg("%s%s: %s %s of %u octets: %s", a.host, port,
				       perf_test_names[jobs[i].test],
				       jobs[i].latency ? "latency" : "bandwidth",
				       jobs[i].size_bytes, why);
			} else {
				done++;
				if (!a.json)
					perf_print_row(stdout, &res[i]);
			}
		}
		if (a.json)
			perf_print_json(stdout, res, done);
		else if (done > 0 && res[0].region[0] != '\0')
			printf(" region: %s\n", res[0].region);
	}
	stack_down(&st);
	return rc != 0 ? UI_EXIT_FAIL : 0;
}
