/* SPDX-License-Identifier: BSD-3-Clause */
/** @file weft-ping: reads the arguments and makes the stack. */

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "addr.h"
#include "conf.h"
#include "ping.h"
#include "port_args.h"
#include "stack.h"
#include "ui.h"

static void
on_signal(int sig)
{
	(void)sig;
	ping_stop = 1;
}

static void
usage(void)
{
	printf("usage: weft-ping -s PORT-OPTIONS [-P] [-vVdq] [-S SIZE] [-C COUNT] [-a ADDRESS] "
	       "[-p PORT]\n"
	       "       weft-ping -c PORT-OPTIONS [-vVdq] [-S SIZE] [-C COUNT] [-I ADDRESS] -a "
	       "ADDRESS [-p PORT]\n"
	       "\n"
	       "Speak rping's protocol with an rping (package rdmacm-utils) or a weft-ping.\n"
	       "In each ping the server reads the client's data by RDMA Read and returns it\n"
	       "by RDMA Write. Choose a side:\n"
	       "  -s                     run as server\n"
	       "  -c                     run as client\n"
	       "\n"
	       "Port options (--config, or --dev and --address):\n"
	       "      --config FILE      use the ports and workers of a configuration "
	       "file\n" PORT_ARGS_HELP "Options of rping:\n"
	       "  -a ADDRESS       client: address of the server; server: address to listen\n"
	       "                   on [any, IPv4 and IPv6]\n"
	       "  -I ADDRESS       client: use the port that has this address\n"
	       "  -p PORT          TCP port [%u]\n"
	       "  -S SIZE          client: octets of a ping [%u]; server: the largest ping it\n"
	       "                   accepts [%u]; from %u to 16M (rping: below 64K)\n"
	       "  -C COUNT         client: number of pings [until interrupted]. A server\n"
	       "                   ignores COUNT and continues until its client closes the\n"
	       "                   connection\n"
	       "  -v               print the data of every ping\n"
	       "  -V               verify the data: the client compares the answer with what\n"
	       "                   it sent; the server checks the content of each ping\n"
	       "  -d               print every step on standard error\n"
	       "  -P               server: accept clients until interrupted, at most %u at\n"
	       "                   once\n"
	       "Options of weft-ping:\n"
	       "  -q, --quiet      print neither the summary nor notices (rping's -q has\n"
	       "                   another meaning)\n"
	       "      --json       print one JSON document instead of the summary; not with\n"
	       "                   -v\n"
	       "      --timeout S  client: seconds that a ping may take [%u]\n"
	       "      --mpa-rev N  client: MPA revision, 1 or 2 [2]\n"
	       "      --settle MS  client: milliseconds to wait before the first ping [%u];\n"
	       "                   Linux's siw needs this\n"
	       "  -h, --help       print this text\n"
	       "      --version    print the version\n"
	       "\n"
	       "At the end the client prints the latencies of whole pings in microseconds.\n"
	       "Exit status: 0 all pings were answered, or all clients closed in order; 1 an\n"
	       "error, which one line describes; 2 a wrong command line.\n",
	       PING_PORT, PING_SIZE, PING_ROOM, PING_SIZE_MIN, PING_MAX_SESSIONS, PING_TIMEOUT_S,
	       PING_SETTLE_MS);
}

struct args {
	struct conf conf;
	struct ping_opt opt;
	bool client;
	uint16_t port;
	struct port_args port_args;
	const char *address, *from;
};

static void
check_args(const struct args *a)
{
	if (a->opt.server == a->client)
		ui_usage_die("give one of -s (server) and -c (client)");
	if (a->client && a->address == NULL)
		ui_usage_die("the client needs the server's address: -a ADDRESS");
	if (a->client && a->opt.persistent)
		ui_usage_die("-P is for the server");
	if (a->opt.server && a->from != NULL)
		ui_usage_die("-I is for the client; a server listens on -a ADDRESS");
	if (a->opt.json && a->opt.verbose)
		ui_usage_die("--json and -v both want standard output; give one of them");
	port_args_check(&a->port_args);
}

static void
parse_args(int argc, char **argv, struct args *a)
{
	enum { JSON = 256, TIMEOUT, MPA_REV, SETTLE, VERSION };
	static const struct option opts[] = {
	        PORT_ARGS_OPTIONS,
	        {"quiet", no_argument, NULL, 'q'},
	        {"json", no_argument, NULL, JSON},
	        {"timeout", required_argument, NULL, TIMEOUT},
	        {"mpa-rev", required_argument, NULL, MPA_REV},
	        {"settle", required_argument, NULL, SETTLE},
	        {"help", no_argument, NULL, 'h'},
	        {"version", no_argument, NULL, VERSION},
	        {NULL, 0, NULL, 0},
	};
	uint64_t size;
	int o;

	a->port = PING_PORT;
	a->opt.timeout_s = PING_TIMEOUT_S;
	a->opt.mpa_rev = 2;
	a->opt.settle_ms = PING_SETTLE_MS;
	opterr = 0;
	while ((o = getopt_long(argc, argv, "scvVdPqa:I:p:S:C:h", opts, NULL)) != -1) {
		if (port_args_take(&a->port_args, o, optarg))
			continue;
		switch (o) {
		case 's':
			a->opt.server = true;
			break;
		case 'c':
			a->client = true;
			break;
		case 'v':
			a->opt.verbose = true;
			break;
		case 'V':
			a->opt.verify = true;
			break;
		case 'd':
			a->opt.debug = true;
			break;
		case 'P':
			a->opt.persistent = true;
			break;
		case 'q':
			a->opt.quiet = true;
			break;
		case 'a':
			a->address = optarg;
			break;
		case 'I':
			a->from = optarg;
			break;
		case 'p':
			a->port = (uint16_t)ui_arg_u64("-p", optarg, 1, 65535);
			break;
		case 'S':
			if (conf_parse_size(optarg, &size) != 0 || size < PING_SIZE_MIN ||
			    size > PING_SIZE_MAX)
				ui_usage_die("-S: '%s' is not a size from %u to 16M", optarg,
				             PING_SIZE_MIN);
			a->opt.size_bytes = (uint32_t)size;
			break;
		case 'C':
			a->opt.count = ui_arg_u64("-C", optarg, 1, INT64_MAX);
			break;
		case JSON:
			a->opt.json = true;
			break;
		case TIMEOUT:
			a->opt.timeout_s = (uint32_t)ui_arg_u64("--timeout", optarg, 1, 3600);
			break;
		case MPA_REV:
			a->opt.mpa_rev = (uint8_t)ui_arg_u64("--mpa-rev", optarg, 1, 2);
			break;
		case SETTLE:
			a->opt.settle_ms = (uint32_t)ui_arg_u64("--settle", optarg, 0, 60000);
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
	if (a->opt.size_bytes == 0)
		a->opt.size_bytes = a->opt.server ? PING_ROOM : PING_SIZE;
	if (optind < argc)
		ui_usage_die("'%s': no such argument", argv[optind]);
	check_args(a);
}

/** Set addresses and ports. When an address tells which port is needed, use that one alone. */
static void
choose_port(struct args *a)
{
	static struct conf one;
	struct sockaddr_storage from = {0};
	char err[CONF_ERR_MAX];
	const char *unknown =
	        addr_resolve(a->address != NULL ? a->address : "::", a->port, &a->opt.addr);

	if (unknown != NULL)
		ui_die("-a: host %s cannot be resolved: %s", a->address, unknown);
	if (a->from != NULL && addr_parse(a->from, 0, &from) != 0)
		ui_usage_die("-I: '%s' is neither an IPv4 nor an IPv6 address", a->from);
	if (a->from != NULL && from.ss_family != a->opt.addr.ss_family)
		ui_usage_die("-I %s and -a %s are of two families", a->from, a->address);
	a->opt.from = from;
	if (a->opt.server && (addr_is_any(&a->opt.addr) || addr_is_link_local(&a->opt.addr)))
		return;
	if (a->client && addr_is_any(&a->opt.addr))
		ui_usage_die("-a %s: name the server", a->address);
	if (conf_one_port(&a->conf, a->client ? &a->opt.addr : NULL,
	                  a->opt.server     ? &a->opt.addr
	                  : a->from != NULL ? &from
	                                    : NULL,
	                  &one, err, sizeof(err)) != 0)
		ui_die("%s", err);
	a->conf = one;
}

static void
bring_up(struct args *a, struct stack *st)
{
	const struct stack_opt so = {
	        .progname = "weft-ping", .one_worker = true, .quiet = !a->opt.debug};
	char err[CONF_ERR_MAX];

	if (port_args_conf(&a->port_args, &a->conf, err, sizeof(err)) != 0)
		ui_die("%s", err);
	choose_port(a);
	if (stack_up(&a->conf, &so, st, err, sizeof(err)) != 0)
		ui_die("%s", err);
}

int
main(int argc, char **argv)
{
	static struct args a;
	static struct ping_result res;
	struct sigaction sa = {.sa_handler = on_signal};
	char why[PING_WHY_MAX] = "", where[ADDR_STR_MAX], line[sizeof(why) + ADDR_STR_MAX + 2];
	struct stack st = {0};
	int rc;

	ui_init("weft-ping");
	parse_args(argc, argv, &a);
	/* Line by line, so that a reader of a pipe sees every ping when it happens. */
	setvbuf(stdout, NULL, _IOLBF, 0);
	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	bring_up(&a, &st);
	if (a.conf.weft.telemetry && !a.opt.quiet)
		ui_msg("telemetry: dpdk-telemetry.py -f weft-%ld", (long)getpid());
	addr_str(&a.opt.addr, where);
	if (a.opt.server) {
		rc = ping_server_run(st.ctx, st.workers[0], &a.opt, &res);
		if (rc != 0)
			snprintf(why, sizeof(why), "%s%s", rc == -ENODEV ? "" : "cannot listen: ",
			         rc == -ENODEV ? "the port's device was removed" : strerror(-rc));
	} else {
		stack_await_partner(&st, &ping_stop);
		rc = ping_client_run(st.ctx, st.workers[0], &a.opt, &res, why, sizeof(why));
	}
	snprintf(line, sizeof(line), "%s: %s", where, why);
	if (rc != 0)
		ui_msg("%s", line);
	if (a.opt.json)
		ping_print_json(&a.opt, &res, rc != 0 ? line : NULL);
	else if (!a.opt.quiet && !a.opt.server)
		ping_print_table(&a.opt, &res);
	stack_down(&st);
	return rc != 0 || res.failed != 0 ? UI_EXIT_FAIL : 0;
}
