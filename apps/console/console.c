/* SPDX-License-Identifier: BSD-3-Clause */
/** @file weft-console: runs commands from a prompt, a script or a pipe on a stack of its own. */

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmdline_socket.h>

#include "conf.h"
#include "console.h"
#include "file_open.h"
#include "port_args.h"
#include "ui.h"

#define LINE_MAX_BYTES 512

/** Reader of a script's or a pipe's lines that takes events and completions meanwhile. */
struct lines {
	int fd;
	bool eof;
	size_t have;
	char buf[LINE_MAX_BYTES];
};

/**
 * Read the next line, with its newline, into line (LINE_MAX_BYTES + 1 octets). 1; 0 at the end;
 * -E2BIG: too long; -errno of reading.
 */
static int
next_line(struct cmdline *cl, struct lines *l, char *line)
{
	for (;;) {
		char *nl = memchr(l->buf, '\n', l->have);
		size_t n = nl != NULL ? (size_t)(nl - l->buf) + 1 : l->have;
		ssize_t got;

		if (nl != NULL || (l->eof && n > 0)) {
			if (nl == NULL && n == LINE_MAX_BYTES)
				return -E2BIG;
			memcpy(line, l->buf, n);
			if (nl == NULL)
				line[n++] = '\n';
			line[n] = '\0';
			l->have -= nl != NULL ? n : l->have;
			memmove(l->buf, l->buf + n, l->have);
			return 1;
		}
		if (l->eof)
			return 0;
		if (l->have == sizeof(l->buf))
			return -E2BIG;
		console_until_readable(cl, l->fd);
		got = read(l->fd, l->buf + l->have, sizeof(l->buf) - l->have);
		if (got < 0 && errno != EINTR && errno != EAGAIN)
			return -errno;
		if (got == 0)
			l->eof = true;
		else if (got > 0)
			l->have += (size_t)got;
	}
}

/**
 * Run lines until the first one that fails. 0, or -EINVAL after a message.
 * Empty lines and those that begin with # are skipped.
 */
static int
run_lines(struct cmdline *cl, int fd, const char *name)
{
	static struct lines l;
	char line[LINE_MAX_BYTES + 1];
	unsigned int number = 0;
	int rc = 0;

	l.fd = fd;
	while (!con.quit && (rc = next_line(cl, &l, line)) > 0) {
		const char *text = line + strspn(line, " \t"), *why;

		number++;
		why = console_run(cl, text);
		if (why != NULL || con.failed) {
			ui_msg("%s:%u: %s: %.*s", name, number, why != NULL ? why : "failed",
			       (int)strcspn(text, "\n"), text);
			if (why != NULL)
				console_usage(text);
			return -EINVAL;
		}
	}
	if (rc < 0) {
		ui_msg("%s:%u: %s", name, number + 1,
		       rc == -E2BIG ? "the line is too long" : strerror(-rc));
		return -EINVAL;
	}
	return 0;
}

static void
usage(void)
{
	printf("Usage: weft-console PORT-OPTIONS [-f SCRIPT]\n"
	       "\n"
	       "A prompt to a running RDMA stack, with commands to listen, connect, register\n"
	       "memory, post work requests and show state. Commands come from a terminal (Tab\n"
	       "completes, the arrow keys recall), from a script or from a pipe. A script or\n"
	       "a pipe ends at the first command that fails, with exit status 1.\n"
	       "\n"
	       "Port options (--config, or --dev and --address):\n"
	       "  -c, --config FILE      use the ports and workers of a configuration "
	       "file\n" PORT_ARGS_HELP "Options:\n"
	       "  -f, --file SCRIPT      run a script, then exit. Lines of a FIFO, such as\n"
	       "                         <(...), are run as they arrive\n"
	       "  -h, --help             print this text\n"
	       "  -V, --version          print the version\n");
}

static void
bring_up(const struct port_args *args)
{
	const struct stack_opt so = {.progname = "weft-console"};
	struct weft_cq_attr ca = {.size = sizeof(ca), .depth = 4096, .want_fd = true};
	struct weft_evq_attr ea = {.size = sizeof(ea)};
	static struct conf c;
	char err[CONF_ERR_MAX];
	int rc;

	if (port_args_conf(args, &c, err, sizeof(err)) != 0)
		ui_die("%s", err);
	if (stack_up(&c, &so, &con.stack, err, sizeof(err)) != 0)
		ui_die("%s", err);
	if (con.stack.nworkers == 0)
		ui_die("%s: there is no [port]", args->config);
	rc = weft_pd_alloc(con.stack.ctx, &con.pd);
	if (rc == 0)
		rc = weft_cq_create(con.stack.ctx, &ca, &con.cq);
	if (rc == 0)
		rc = weft_evq_create(con.stack.ctx, &ea, &con.evq);
	if (rc != 0)
		ui_die("cannot set up: %s", strerror(-rc));
	if (stack_start(&con.stack, err, sizeof(err)) != 0)
		ui_die("%s", err);
}

int
main(int argc, char **argv)
{
	static const struct option opts[] = {
	        PORT_ARGS_OPTIONS,
	        {"file", required_argument, NULL, 'f'},
	        {"help", no_argument, NULL, 'h'},
	        {"version", no_argument, NULL, 'V'},
	        {NULL, 0, NULL, 0},
	};
	struct port_args args = {0};
	const char *script = NULL;
	struct cmdline *cl;
	char err[CONF_ERR_MAX];
	bool waits = false;
	int o, fd = -1, rc = 0;

	ui_init("weft-console");
	opterr = 0;
	while ((o = getopt_long(argc, argv, "c:f:hV", opts, NULL)) != -1) {
		if (port_args_take(&args, o == 'c' ? PORT_ARG_CONFIG : o, optarg))
			continue;
		switch (o) {
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
	bring_up(&args);
	if (script == NULL && isatty(STDIN_FILENO)) {
		cl = cmdline_stdin_new(console_commands(), "");
		if (cl == NULL)
			ui_die("the terminal cannot be set up");
		printf("weft-console %s; 'help' lists the commands\n", weft_version());
		fflush(stdout);
		if (console_prompt(cl) < 0)
			ui_die("no memory");
		cmdline_stdin_exit(cl);
	} else {
		cl = cmdline_new(console_commands(), "", -1, STDOUT_FILENO);
		if (cl == NULL)
			ui_die("no memory");
		if (waits)
			ui_msg("%s: not a regular file; commands are run as they come", script);
		rc = run_lines(cl, script != NULL ? fd : STDIN_FILENO,
		               script != NULL ? script : "stdin");
		cmdline_free(cl);
	}
	if (fd >= 0)
		close(fd);
	console_shutdown();
	return rc != 0 ? UI_EXIT_FAIL : 0;
}
