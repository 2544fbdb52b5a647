/* SPDX-License-Identifier: BSD-3-Clause */
/** @file weft-console: runs commands from a prompt, a script or a pipe on a stack of its own. */

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmdline_socket.h>

#include "attach.h"
#include "conf.h"
#include "console.h"
#include "file_open.h"
#include "inbox.h"
#include "inject.h"
#include "port_args.h"
#include "script.h"
#include "show.h"
#include "ui.h"

/* A QP that ends completes all it has. */
#define CQ_DEPTH                                                                                   \
	(CONSOLE_MAX_QPS * (CONSOLE_RECVS + CONSOLE_POSTED_MAX) +                                  \
	 CONSOLE_MAX_SRQS * CONSOLE_SRQ_DEPTH)
/** Value of getopt_long(), beside those of port_args.h. */
#define OPT_ATTACH 2048

static void
usage(void)
{
	printf("Usage: weft-console PORT-OPTIONS [-D NAME=VALUE]... [-f SCRIPT]\n"
	       "       weft-console --attach [PROGRAM] [-D NAME=VALUE]... [-f SCRIPT]\n"
	       "\n"
	       "A prompt to a running RDMA stack, with commands to listen, connect, register\n"
	       "memory, post work requests and show state. Commands come from a terminal (Tab\n"
	       "completes, the arrow keys recall), from a script or from a pipe. A script or\n"
	       "a pipe ends at the first command that fails, with exit status 1.\n"
	       "\n"
	       "Port options (--config, or --dev and --address):\n"
	       "  -c, --config FILE      use the ports and workers of a configuration "
	       "file\n" PORT_ARGS_HELP "Options:\n"
	       "      --attach [PROGRAM] no stack: show the state of a running program with\n"
	       "                         telemetry, by its process id, EAL prefix or telemetry\n"
	       "                         socket; by default the only one that runs\n"
	       "  -D, --define NAME=VALUE  set a variable, which lines name as $NAME\n"
	       "  -f, --file SCRIPT      run a script, then exit. Lines of a FIFO, such as\n"
	       "                         <(...), are run as they arrive\n"
	       "  -h, --help             print this text\n"
	       "  -V, --version          print the version\n"
	       "\n"
	       "The prompt's history is kept in $XDG_STATE_HOME/weft/console_history, or in\n"
	       "~/.local/state/weft. WEFT_CONSOLE_HISTORY=FILE names another file; empty: none.\n");
}

/** Set the variable of -D NAME=VALUE. */
static void
define(char *text)
{
	char *equals = strchr(text, '=');
	int rc;

	if (equals == NULL)
		ui_usage_die("-D '%s': it is NAME=VALUE", text);
	*equals = '\0';
	rc = vars_set(text, equals + 1);
	if (rc != 0)
		ui_usage_die("-D '%s': %s", text, vars_strerror(rc));
}

static void
bring_up(const struct port_args *args)
{
	const struct stack_opt so = {.progname = "weft-console"};
	struct weft_evq_attr ea = {.size = sizeof(ea)};
	static struct conf c;
	char err[CONF_ERR_MAX];
	int rc;

	if (port_args_conf(args, &c, err, sizeof(err)) != 0)
		ui_die("%s", err);
	c.weft.telemetry = true; /* `show` asks it */
	if (stack_up(&c, &so, &con.stack, err, sizeof(err)) != 0)
		ui_die("%s", err);
	if (con.stack.nworkers == 0)
		ui_die("%s: there is no [port]", args->config);
	inject_init(&c);
	rc = weft_pd_alloc(con.stack.ctx, &con.pd);
	if (rc == 0)
		rc = inbox_create(con.stack.ctx, CQ_DEPTH, &con.cq);
	if (rc == 0)
		rc = weft_evq_create(con.stack.ctx, &ea, &con.evq);
	if (rc != 0)
		ui_die("cannot set up: %s", strerror(-rc));
	if (stack_start(&con.stack, err, sizeof(err)) != 0)
		ui_die("%s", err);
}

static void
run_prompt(void)
{
	struct cmdline *cl = cmdline_stdin_new(con.commands, "");

	if (cl == NULL)
		ui_die("the terminal cannot be set up");
	printf("weft-console %s; 'help' lists the commands\n", weft_version());
	fflush(stdout);
	if (console_prompt(cl) < 0)
		ui_die("no memory");
	cmdline_stdin_exit(cl);
}

static int
run_script(int fd, bool waits, const char *name)
{
	struct cmdline *cl = cmdline_new(con.commands, "", -1, STDOUT_FILENO);
	int rc;

	if (cl == NULL)
		ui_die("no memory");
	if (waits && fd != STDIN_FILENO)
		ui_msg("%s: not a regular file; commands are run as they come", name);
	rc = script_fd(cl, fd, waits, name);
	cmdline_free(cl);
	return rc;
}

/** --attach [PROGRAM]: getopt_long() takes only a value behind "=". Here the next word is one. */
static const char *
attach_value(int argc, char **argv)
{
	if (optarg == NULL && optind < argc && argv[optind][0] != '-')
		optarg = argv[optind++];
	return optarg;
}

/** Connect to a running program in place of a stack. */
static void
attach(const struct port_args *args, const char *program)
{
	char err[CONF_ERR_MAX];

	if (args->config != NULL || args->dev != NULL || args->address != NULL)
		ui_usage_die("--attach has no stack of its own, so no --config, --dev or "
		             "--address");
	if (attach_open(&show_tel, program, err, sizeof(err)) != 0)
		ui_die("%s", err);
	con.attached = true;
}

int
main(int argc, char **argv)
{
	static const struct option opts[] = {
	        PORT_ARGS_OPTIONS,
	        {"attach", optional_argument, NULL, OPT_ATTACH},
	        {"define", required_argument, NULL, 'D'},
	        {"file", required_argument, NULL, 'f'},
	        {"help", no_argument, NULL, 'h'},
	        {"version", no_argument, NULL, 'V'},
	        {NULL, 0, NULL, 0},
	};
	struct port_args args = {0};
	const char *script = NULL, *program = NULL;
	char err[CONF_ERR_MAX];
	bool waits = true, attaches = false;
	int o, fd = STDIN_FILENO, rc = 0;

	ui_init("weft-console");
	opterr = 0;
	while ((o = getopt_long(argc, argv, "c:D:f:hV", opts, NULL)) != -1) {
		if (port_args_take(&args, o == 'c' ? PORT_ARG_CONFIG : o, optarg))
			continue;
		switch (o) {
		case OPT_ATTACH:
			attaches = true;
			program = attach_value(argc, argv);
			break;
		case 'D':
			define(optarg);
			break;
		case 'f':
			script = optarg;
			break;
		case 'h':
			usage();
			return 0;
		case 'V':
			ui_version();
			return 0;
		default:
			ui_bad_option(argv, opts);
		}
	}
	if (optind != argc)
		ui_usage_die("'%s' was not expected", argv[optind]);
	if (script != NULL && (fd = file_open_stream(script, &waits, err, sizeof(err))) < 0)
		ui_die("%s: %s", script, err);
	con.commands = console_commands();
	if (attaches)
		attach(&args, program);
	else
		bring_up(&args);
	rc = interrupt_init();
	if (rc != 0)
		ui_die("SIGINT: %s", strerror(-rc));
	if (script == NULL && isatty(STDIN_FILENO))
		run_prompt();
	else
		rc = run_script(fd, waits, script != NULL ? script : "stdin");
	if (script != NULL)
		close(fd);
	if (attaches)
		tel_client_close(&show_tel);
	else
		console_shutdown();
	return rc != 0 || con.lost ? UI_EXIT_FAIL : 0;
}
