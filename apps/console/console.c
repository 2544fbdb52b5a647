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
#include "ui.h"

#define MAX_CMDS       64
#define LINE_MAX_BYTES 512

struct console con;

cmdline_parse_token_string_t tok_s1 = TOKEN_STRING_INITIALIZER(struct cmd_args, s1, NULL);
cmdline_parse_token_string_t tok_s2 = TOKEN_STRING_INITIALIZER(struct cmd_args, s2, NULL);
cmdline_parse_token_num_t tok_a = TOKEN_NUM_INITIALIZER(struct cmd_args, a, RTE_UINT64);
cmdline_parse_token_num_t tok_b = TOKEN_NUM_INITIALIZER(struct cmd_args, b, RTE_UINT64);
cmdline_parse_token_num_t tok_c = TOKEN_NUM_INITIALIZER(struct cmd_args, c, RTE_UINT64);
cmdline_parse_token_num_t tok_d = TOKEN_NUM_INITIALIZER(struct cmd_args, d, RTE_UINT64);
cmdline_parse_token_num_t tok_e = TOKEN_NUM_INITIALIZER(struct cmd_args, e, RTE_UINT64);

static cmdline_parse_ctx_t commands[MAX_CMDS + 1];

WORD(tok_help, verb, "help");
WORD(tok_quit, verb, "quit#exit");

static void
cmd_help(void *arg, struct cmdline *cl, void *data)
{
	(void)arg;
	(void)data;
	for (unsigned int i = 0; commands[i] != NULL; i++)
		cmdline_printf(cl, "  %s\n", commands[i]->help_str);
	cmdline_printf(cl, "Numbers may be hexadecimal (0x...). Offsets are tagged offsets.\n");
}

/** help VERB: help of the commands that begin with VERB. */
static void
cmd_help_verb(void *arg, struct cmdline *cl, void *data)
{
	struct cmd_args *a = arg;
	unsigned int n = 0;

	(void)data;
	for (unsigned int i = 0; commands[i] != NULL; i++)
		if (strncmp(commands[i]->help_str, a->s1, strlen(a->s1)) == 0) {
			cmdline_printf(cl, "  %s\n", commands[i]->help_str);
			n++;
		}
	if (n == 0)
		console_fail(cl, "help: no command begins with '%s'", a->s1);
}

static void
cmd_quit(void *arg, struct cmdline *cl, void *data)
{
	(void)arg;
	(void)data;
	con.quit = true;
	cmdline_quit(cl);
}

static CMD(cmd_help_, cmd_help, "help: this list", (void *)&tok_help);
static CMD(cmd_help_verb_, cmd_help_verb, "help VERB: the commands that begin so",
           (void *)&tok_help, (void *)&tok_s1);
static CMD(cmd_quit_, cmd_quit, "quit: close everything and leave", (void *)&tok_quit);

static void
collect(cmdline_parse_inst_t *const *table)
{
	unsigned int n = 0;

	while (commands[n] != NULL)
		n++;
	for (; *table != NULL && n < MAX_CMDS; table++)
		commands[n++] = *table;
}

void
console_fail(struct cmdline *cl, const char *fmt, ...)
{
	char line[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	cmdline_printf(cl, "error: %s\n", line);
	con.failed = true;
}

struct console_qp *
console_qp(struct cmdline *cl, uint64_t n)
{
	if (n >= 1 && n <= CONSOLE_MAX_QPS && con.qps[n].used)
		return &con.qps[n];
	console_fail(cl, "there is no qp %llu; 'show qps' lists them", (unsigned long long)n);
	return NULL;
}

struct console_region *
console_region(struct cmdline *cl, uint64_t n)
{
	if (n >= 1 && n <= CONSOLE_MAX_REGIONS && con.regions[n].used)
		return &con.regions[n];
	console_fail(cl, "there is no region %llu; 'show regions' lists them",
	             (unsigned long long)n);
	return NULL;
}

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

void
console_usage(const char *text)
{
	const char *word = text + strspn(text, " \t");
	const size_t n = strcspn(word, " \t\n");

	for (unsigned int i = 0; commands[i] != NULL; i++)
		if (strncmp(commands[i]->help_str, word, n) == 0 &&
		    strchr(" :", commands[i]->help_str[n]) != NULL)
			ui_msg("usage: %s", commands[i]->help_str);
}

const char *
console_run(struct cmdline *cl, const char *text)
{
	const char first = text[strspn(text, " \t")];
	int rc;

	if (first == '\n' || first == '\0' || first == '#')
		return NULL;
	rc = cmdline_parse(cl, text);
	return rc == CMDLINE_PARSE_AMBIGUOUS ? "ambiguous command"
	       : rc == CMDLINE_PARSE_NOMATCH ? "no such command ('help' lists them)"
	       : rc < 0                      ? "bad arguments ('help' shows them)"
	                                     : NULL;
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
	       "A prompt over a live RDMA stack: listen, connect, register, post, look. Commands "
	       "come\n"
	       "from a terminal (completion by Tab, history by arrow keys), from a script, or from "
	       "a pipe;\n"
	       "script and pipe stop at the first command that fails, with exit status 1.\n"
	       "\n"
	       "Port options (one of the two):\n"
	       "  -c, --config FILE      take ports and workers from a configuration file\n"
	       "      --dev VDEV         DPDK device, for example net_memif0,role=client,...\n"
	       "      --address CIDR     our address on it, for example 10.0.0.2/24 or\n"
	       "                         fd00::2/64 or both: 10.0.0.2/24,fd00::2/64\n"
	       "      --mtu BYTES        [1500]\n"
	       "Options:\n"
	       "  -f, --file SCRIPT      run a script, then leave; of a FIFO, <(...) included, the "
	       "lines are\n"
	       "                         run as they come\n"
	       "  -h, --help\n"
	       "  -V, --version\n");
}

static void
bring_up(const char *config, const char *dev, const char *address, uint32_t mtu)
{
	const struct stack_opt so = {.progname = "weft-console"};
	struct weft_cq_attr ca = {.size = sizeof(ca), .depth = 4096, .want_fd = true};
	struct weft_evq_attr ea = {.size = sizeof(ea)};
	static struct conf c;
	char err[CONF_ERR_MAX];
	int rc;

	if ((config != NULL) == (dev != NULL))
		ui_usage_die("give either --config or --dev with --address");
	if (config != NULL) {
		if (conf_load(config, &c, err, sizeof(err)) != 0)
			ui_die("%s", err);
	} else {
		conf_defaults(&c);
		if (address == NULL)
			ui_usage_die("--dev needs --address");
		if (conf_add_port(&c, "p0", dev, address, mtu, err, sizeof(err)) != 0 ||
		    conf_finish(&c, err, sizeof(err)) != 0)
			ui_die("%s", err);
	}
	if (stack_up(&c, &so, &con.stack, err, sizeof(err)) != 0)
		ui_die("%s", err);
	if (con.stack.nworkers == 0)
		ui_die("%s: there is no [port]", config);
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
	        {"config", required_argument, NULL, 'c'},  {"dev", required_argument, NULL, 'd'},
	        {"address", required_argument, NULL, 'A'}, {"mtu", required_argument, NULL, 'm'},
	        {"file", required_argument, NULL, 'f'},    {"help", no_argument, NULL, 'h'},
	        {"version", no_argument, NULL, 'V'},       {NULL, 0, NULL, 0},
	};
	static cmdline_parse_inst_t *const general[] = {&cmd_help_, &cmd_help_verb_, &cmd_quit_,
	                                                NULL};
	const char *config = NULL, *dev = NULL, *address = NULL, *script = NULL;
	struct cmdline *cl;
	char err[CONF_ERR_MAX];
	uint64_t mtu = 0;
	bool waits = false;
	int o, fd = -1, rc = 0;

	ui_init("weft-console");
	opterr = 0;
	while ((o = getopt_long(argc, argv, "c:f:hV", opts, NULL)) != -1) {
		switch (o) {
		case 'c':
			config = optarg;
			break;
		case 'd':
			dev = optarg;
			break;
		case 'A':
			address = optarg;
			break;
		case 'm':
			if (ui_parse_u64(optarg, 576, 9600, &mtu) != 0)
				ui_usage_die("--mtu: '%s' is not a number from 576 to 9600",
				             optarg);
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
	collect(general);
	collect(cmds_show);
	collect(cmds_conn);
	collect(cmds_mem);
	collect(cmds_post);
	collect(cmds_capture);
	bring_up(config, dev, address, (uint32_t)mtu);
	if (script == NULL && isatty(STDIN_FILENO)) {
		cl = cmdline_stdin_new(commands, "");
		if (cl == NULL)
			ui_die("the terminal cannot be set up");
		printf("weft-console %s; 'help' lists the commands\n", weft_version());
		fflush(stdout);
		if (console_prompt(cl) < 0)
			ui_die("no memory");
		cmdline_stdin_exit(cl);
	} else {
		cl = cmdline_new(commands, "", -1, STDOUT_FILENO);
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
