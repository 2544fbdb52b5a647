/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The command line of weft-ctl, made from the table of methods. */

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl.h"
#include "ui.h"

#define INTERVAL_MS  2000U
#define HELP_COLUMNS 78
#define RATES_MS     1000U /* for so long rates are measured */
#define RATES_MAX_MS 5000U /* and at most (docs/control.md) */

/** Print help of the kind of docs/control.md, without its Markdown, in lines of HELP_COLUMNS. The
 * first line stands at `at`, the others at `indent`. */
static void
print_plain(const char *s, size_t at, int indent)
{
	while (*s != '\0') {
		const size_t len = strcspn(s, " ");

		if (at + len > HELP_COLUMNS) {
			printf("\n%*s", indent, "");
			at = (size_t)indent;
		}
		for (size_t i = 0; i < len; i++)
			if (s[i] != '`')
				putchar(s[i]);
		at += len + 1;
		s += len + (s[len] == ' ');
		if (*s != '\0')
			putchar(' ');
	}
	putchar('\n');
}

static void
help_commands(void)
{
	char usage[256];

	for (unsigned int i = 0; i < ctl_nmethods; i++) {
		const struct ctl_method *m = &ctl_methods[i];
		const char *end = strstr(m->help, ". "), *colon = strpbrk(m->help, ":");
		size_t n = end != NULL ? (size_t)(end - m->help) : strlen(m->help) - 1;
		char first[256];

		if (colon != NULL && (size_t)(colon - m->help) < n)
			n = (size_t)(colon - m->help);
		snprintf(first, sizeof(first), "%.*s", (int)n, m->help);
		ctl_usage(m, usage, sizeof(usage));
		printf("  %s%s%s\n      ", m->command, usage[0] != '\0' ? " " : "", usage);
		print_plain(first, 6, 6);
	}
}

static void
help(void)
{
	fputs("usage: weft-ctl [OPTIONS] COMMAND [ARGUMENTS]\n"
	      "       weft-ctl [OPTIONS] watch [--interval SECONDS] [--count N] COMMAND "
	      "[ARGUMENTS]\n"
	      "       weft-ctl [OPTIONS] support-bundle FILE\n"
	      "\n"
	      "Look into a running weft-target and change what it does, by its control socket\n"
	      "(docs/control.md). Each command said twice is harmless.\n"
	      "\n"
	      "  -s, --socket PATH  the target's socket; default: $WEFT_CTL_SOCKET, or\n"
	      "                     " CTL_SOCKET "\n"
	      "  -j, --json         print the result as JSON, on one line\n"
	      "  -w, --wide         print all fields\n"
	      "      --commands     print the names of the commands, one a line\n"
	      "      --reference    print the methods of the socket, as docs/control.md has them\n"
	      "      --version      print the version\n"
	      "  -h, --help         print this text; behind a command: what it does\n"
	      "\n"
	      "Commands:\n",
	      stdout);
	help_commands();
	fputs("\nwatch repeats a command until it is interrupted, each 2 seconds, and shows\n"
	      "counters as rates.\n"
	      "\n"
	      "support-bundle writes a new tar file for the search for a fault: versions,\n"
	      "configuration, counters, exports, clients, slow operations, log. It has no keys,\n"
	      "but names and addresses of clients.\n"
	      "\n"
	      "Exit status; one line on standard error says why:\n"
	      "  0  done\n"
	      "  1  any other error\n"
	      "  2  a wrong command line, or a parameter that the target refuses\n"
	      "  3  the target cannot be reached\n",
	      stdout);
	for (int status = CTL_EXIT_UNREACHABLE + 1; status < 16; status++)
		for (unsigned int i = 0; i < ctl_nerrors; i++)
			if (ctl_errors[i].exit == status) {
				printf("  %d  ", status);
				print_plain(ctl_errors[i].help, 5, 5);
			}
	printf("  %d done; diff found that something differs\n", CTL_EXIT_DIFFERS);
}

static void
help_method(const struct ctl_method *m)
{
	char usage[256];

	printf("usage: weft-ctl %s %s\n\n", m->command, ctl_usage(m, usage, sizeof(usage)));
	print_plain(m->help, 0, 0);
	for (unsigned int i = 0; i < m->nparams; i++) {
		printf("\n  %s: ", m->params[i].name);
		print_plain(m->params[i].help, strlen(m->params[i].name) + 4, 4);
	}
}

/** The method whose command the words begin with, the longest one; *n words of it. */
static const struct ctl_method *
find_command(int argc, char **argv, int *n)
{
	const struct ctl_method *best = NULL;

	*n = 0;
	for (unsigned int i = 0; i < ctl_nmethods; i++) {
		char words[64], *save = NULL, *word;
		int k = 0;

		snprintf(words, sizeof(words), "%s", ctl_methods[i].command);
		for (word = strtok_r(words, " ", &save);
		     word != NULL && k < argc && strcmp(word, argv[k]) == 0;
		     word = strtok_r(NULL, " ", &save))
			k++;
		if (word == NULL && k > *n) {
			best = &ctl_methods[i];
			*n = k;
		}
	}
	return best;
}

static void
set_param(struct ctl_wish *w, const struct ctl_param *p, const char *value)
{
	json_t *v = NULL;
	uint64_t n;

	switch (p->type) {
	case CTL_COUNT:
	case CTL_BYTES:
	case CTL_MS:
	case CTL_S:
		if (ui_parse_u64(value, 0, INT64_MAX, &n) != 0)
			ui_usage_die("%s: \"%s\" is not %s", p->name, value, ctl_type_str(p->type));
		v = json_integer((json_int_t)n);
		break;
	case CTL_BOOL:
		v = json_true();
		break;
	default:
		v = json_string(value);
		if (v == NULL)
			ui_usage_die("%s: not UTF-8", p->name);
		break;
	}
	if (json_object_set_new(w->params, p->name, v) != 0)
		ui_die("out of memory");
}

/** "timeout-ms" for "timeout_ms"; both are taken. */
static const struct ctl_param *
find_option(const struct ctl_method *m, const char *name, size_t len)
{
	for (unsigned int i = 0; i < m->nparams; i++) {
		const char *have = m->params[i].name;
		size_t k = 0;

		while (k < len && have[k] != '\0' &&
		       (have[k] == name[k] || (have[k] == '_' && name[k] == '-')))
			k++;
		if (m->params[i].given == CTL_OPTION && k == len && have[k] == '\0')
			return &m->params[i];
	}
	return NULL;
}

static const struct ctl_param *
next_word(const struct ctl_wish *w)
{
	for (unsigned int i = 0; i < w->method->nparams; i++) {
		const struct ctl_param *p = &w->method->params[i];

		if ((p->given == CTL_WORD || p->given == CTL_FILE) &&
		    json_object_get(w->params, p->name) == NULL)
			return p;
		if (p->given == CTL_PAIRS)
			return p;
	}
	return NULL;
}

static void
set_pair(struct ctl_wish *w, const struct ctl_param *p, const char *word)
{
	const char *equals = strchr(word, '=');
	json_t *pairs = json_object_get(w->params, p->name);
	char key[64];

	if (equals == NULL || equals == word || (size_t)(equals - word) >= sizeof(key))
		ui_usage_die("\"%s\" is not KEY=VALUE", word);
	snprintf(key, sizeof(key), "%.*s", (int)(equals - word), word);
	if (pairs == NULL) {
		pairs = json_object();
		(void)json_object_set_new(w->params, p->name, pairs);
	}
	if (json_object_get(pairs, key) != NULL)
		ui_usage_die("%s is given twice", key);
	if (json_object_set_new(pairs, key, json_string(equals + 1)) != 0)
		ui_usage_die("%s: not UTF-8", key);
}

/** The content of a file; "-": of standard input. */
static void
set_file(struct ctl_wish *w, const struct ctl_param *p, const char *name)
{
	const bool std = strcmp(name, "-") == 0;
	int fd = std ? STDIN_FILENO : open(name, O_RDONLY | O_CLOEXEC);
	char *text = malloc(CTL_LINE_MAX);
	size_t len = 0;
	ssize_t n = 0;

	if (fd < 0)
		ui_die("%s: %s", name, strerror(errno));
	if (text == NULL)
		ui_die("out of memory");
	while (len < CTL_LINE_MAX && (n = read(fd, text + len, CTL_LINE_MAX - len)) != 0) {
		if (n < 0 && errno != EINTR)
			ui_die("%s: cannot be read: %s", name, strerror(errno));
		len += n > 0 ? (size_t)n : 0;
	}
	if (!std)
		close(fd);
	if (len == CTL_LINE_MAX)
		ui_die("%s: too long; less than %u octets fit into a request", name, CTL_LINE_MAX);
	if (memchr(text, '\0', len) != NULL)
		ui_die("%s: an octet 0 in it; this is no text file", name);
	text[len] = '\0';
	set_param(w, p, text);
	free(text);
}

/** An option behind the command. Returns how many words it took. */
static int
take_option(struct ctl_wish *w, int argc, char **argv)
{
	const char *name = argv[0] + 2, *equals = strchr(name, '=');
	const size_t len = equals != NULL ? (size_t)(equals - name) : strlen(name);
	const struct ctl_param *p = find_option(w->method, name, len);

	if (strcmp(argv[0], "--json") == 0 || strcmp(argv[0], "-j") == 0) {
		w->json = true;
		return 1;
	}
	if (strcmp(argv[0], "--wide") == 0 || strcmp(argv[0], "-w") == 0) {
		w->wide = true;
		return 1;
	}
	if (strcmp(argv[0], "--help") == 0 || strcmp(argv[0], "-h") == 0) {
		help_method(w->method);
		exit(0);
	}
	if (p == NULL)
		ui_usage_die("%s: no such option of %s", argv[0], w->method->command);
	if (p->type == CTL_BOOL && equals == NULL) {
		set_param(w, p, "");
		return 1;
	}
	if (equals == NULL && argc < 2)
		ui_usage_die("%s needs a value", argv[0]);
	set_param(w, p, equals != NULL ? equals + 1 : argv[1]);
	return equals != NULL ? 1 : 2;
}

static void
take_arguments(struct ctl_wish *w, int argc, char **argv)
{
	bool words = false; /* behind "--" there are no options */

	for (int i = 0; i < argc;) {
		const struct ctl_param *p;

		if (!words && strcmp(argv[i], "--") == 0) {
			words = true;
			i++;
			continue;
		}
		if (!words && argv[i][0] == '-' && argv[i][1] != '\0') {
			i += take_option(w, argc - i, argv + i);
			continue;
		}
		p = next_word(w);
		if (p == NULL && w->method->saves != NULL && w->save == NULL) {
			w->save = argv[i++];
			continue;
		}
		if (p == NULL)
			ui_usage_die("%s: %s takes no such argument", argv[i], w->method->command);
		if (p->given == CTL_PAIRS)
			set_pair(w, p, argv[i]);
		else if (p->given == CTL_FILE)
			set_file(w, p, argv[i]);
		else
			set_param(w, p, argv[i]);
		i++;
	}
	for (unsigned int i = 0; i < w->method->nparams; i++) {
		const struct ctl_param *p = &w->method->params[i];

		if (p->required && json_object_get(w->params, p->name) == NULL)
			ui_usage_die("%s: %s%s is missing", w->method->command,
			             p->given == CTL_OPTION ? "--" : "", p->name);
	}
	if (w->method->saves != NULL && (w->save == NULL) != w->json)
		ui_usage_die("%s: %s", w->method->command,
		             w->json ? "--json prints the result, and takes no FILE"
		                     : "FILE is missing");
}

/** "0.5" seconds, at least 0.1. */
static uint32_t
interval_ms(const char *s)
{
	char *end;
	double v = strtod(s, &end);

	if (*end != '\0' || end == s || !(v >= 0.1 && v <= 86400))
		ui_usage_die("--interval: \"%s\" is no number of seconds from 0.1 to 86400", s);
	return (uint32_t)(v * 1000);
}

/** Have rates measured by a method that can, unless the user has said for how long. */
static void
want_rates(struct ctl_wish *w)
{
	uint32_t ms = !w->watch                       ? RATES_MS
	              : w->interval_ms < RATES_MAX_MS ? w->interval_ms
	                                              : RATES_MAX_MS;

	for (unsigned int i = 0; i < w->method->nparams; i++)
		if (strcmp(w->method->params[i].name, "interval_ms") == 0 &&
		    json_object_get(w->params, "interval_ms") == NULL &&
		    json_object_set_new(w->params, "interval_ms", json_integer(ms)) != 0)
			ui_die("out of memory");
}

/** Options in front of the command. Returns the number of words that they took. */
static int
take_options(struct ctl_wish *w, int argc, char **argv)
{
	enum { OPT_COMMANDS = 256, OPT_REFERENCE, OPT_VERSION, OPT_INTERVAL, OPT_COUNT };
	static const struct option longopts[] = {
	        {"socket", required_argument, NULL, 's'},
	        {"json", no_argument, NULL, 'j'},
	        {"wide", no_argument, NULL, 'w'},
	        {"commands", no_argument, NULL, OPT_COMMANDS},
	        {"reference", no_argument, NULL, OPT_REFERENCE},
	        {"version", no_argument, NULL, OPT_VERSION},
	        {"interval", required_argument, NULL, OPT_INTERVAL},
	        {"count", required_argument, NULL, OPT_COUNT},
	        {"help", no_argument, NULL, 'h'},
	        {0},
	};
	int opt;

	optind = 1;
	opterr = 0;
	while ((opt = getopt_long(argc, argv, "+s:jwh", longopts, NULL)) != -1) {
		switch (opt) {
		case 's':
			w->socket = optarg;
			break;
		case 'j':
			w->json = true;
			break;
		case 'w':
			w->wide = true;
			break;
		case OPT_COMMANDS:
			for (unsigned int i = 0; i < ctl_nmethods; i++)
				puts(ctl_methods[i].command);
			puts("support-bundle");
			puts("watch");
			exit(0);
		case OPT_REFERENCE:
			ctl_print_reference(stdout);
			exit(0);
		case OPT_VERSION:
			printf("weft-ctl %s\n", WEFT_VERSION);
			exit(0);
		case OPT_INTERVAL:
			w->interval_ms = interval_ms(optarg);
			break;
		case OPT_COUNT:
			w->rounds = ui_arg_u64("--count", optarg, 1, UINT32_MAX);
			break;
		case 'h':
			help();
			exit(0);
		default:
			ui_bad_option(argv, longopts);
		}
	}
	return optind;
}

/** The arguments of support-bundle. */
static void
take_bundle(struct ctl_wish *w, int argc, char **argv)
{
	if (w->watch)
		ui_usage_die("watch: support-bundle writes a file");
	for (int i = 0; i < argc; i++)
		if (strcmp(argv[i], "--json") == 0 || strcmp(argv[i], "-j") == 0) {
			w->json = true;
		} else if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
			help();
			exit(0);
		} else if (argv[i][0] == '-' || w->bundle != NULL) {
			ui_usage_die("%s: support-bundle takes one name of a new file", argv[i]);
		} else {
			w->bundle = argv[i];
		}
	if (w->bundle == NULL)
		ui_usage_die("support-bundle: FILE is missing");
}

void
ctl_words(int argc, char **argv, struct ctl_wish *w)
{
	const char *env = getenv("WEFT_CTL_SOCKET");
	int n = 0, at;

	*w = (struct ctl_wish){.socket = env != NULL && *env != '\0' ? env : CTL_SOCKET,
	                       .interval_ms = INTERVAL_MS};
	at = take_options(w, argc, argv);
	if (at < argc && strcmp(argv[at], "watch") == 0) {
		w->watch = true;
		/* getopt takes the word before the options for the program's name. */
		at += take_options(w, argc - at, argv + at);
	}
	if (at == argc)
		ui_usage_die("no command");
	if (strcmp(argv[at], "support-bundle") == 0) {
		take_bundle(w, argc - at - 1, argv + at + 1);
		return;
	}
	w->method = find_command(argc - at, argv + at, &n);
	if (w->method == NULL)
		ui_usage_die("%s%s%s: no such command", argv[at],
		             at + 1 < argc && argv[at + 1][0] != '-' ? " " : "",
		             at + 1 < argc && argv[at + 1][0] != '-' ? argv[at + 1] : "");
	if (w->watch && (w->method->changes || w->method->saves != NULL))
		ui_usage_die("watch: %s %s", w->method->command,
		             w->method->changes ? "changes something" : "writes a file");
	w->params = json_object();
	take_arguments(w, argc - at - n, argv + at + n);
	want_rates(w);
}
