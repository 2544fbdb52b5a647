/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Noun: fault. Inject losses, delays, doubles and changed bits into what a port receives or
 * sends. */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "console.h"
#include "inject.h"
#include "options.h"
#include "show_print.h"

#define OFTEN_BYTES 32

/** As struct cmd_args, with the rest of the line. */
struct inject_args {
	struct cmd_args c;
	cmdline_multi_string_t rest;
};

WORD(tok_inject, verb, "inject");
WORD(tok_start, noun, "start");
WORD(tok_stop, noun, "stop");
WORD(tok_show, verb, "show");
WORD(tok_injected, noun, "injected");
WORD(tok_way, s2, "rx#tx");
WORD(tok_json, s1, "json");
static cmdline_parse_token_string_t inject_rest =
        TOKEN_STRING_INITIALIZER(struct inject_args, rest, TOKEN_STRING_MULTI);

/** The number of a port; -1 after a message. */
static int
port_number(struct cmdline *cl, const char *name)
{
	char names[160] = "";
	int n = 0;

	for (uint32_t i = 0; i < con.stack.nports; i++)
		if (strcmp(weft_port_name(con.stack.ports[i]), name) == 0)
			return (int)i;
	for (uint32_t i = 0; i < con.stack.nports && n < (int)sizeof(names); i++)
		n += snprintf(names + n, sizeof(names) - (size_t)n, " %s",
		              weft_port_name(con.stack.ports[i]));
	console_wrong(cl, "inject: no port %s; there are:%s", name, names);
	return -1;
}

/** "0.01" or "1/100". False after a message. */
static bool
often_parse(struct cmdline *cl, const char *name, const char *text, struct inject_often *o)
{
	char *end;

	if (text[0] == '\0')
		return true;
	if (strncmp(text, "1/", 2) == 0) {
		if (option_number(text + 2, OPTION_NUMBER, &o->every) && o->every > 0)
			return true;
	} else if (text[0] >= '0' && text[0] <= '9') {
		o->probability = strtod(text, &end);
		if (*end == '\0' && o->probability > 0 && o->probability <= 1)
			return true;
	}
	console_wrong(cl,
	              "inject: %s '%s': a probability such as 0.01, or 1/100 for every hundredth "
	              "packet",
	              name, text);
	return false;
}

/** Take "rx" or "tx" off the front of the options; without it the faults are in what arrives. */
static enum inject_way
way_take(const char **rest)
{
	const char *p = *rest;
	char word[8];

	if (option_take(&p, word, sizeof(word)) &&
	    (strcmp(word, "rx") == 0 || strcmp(word, "tx") == 0)) {
		*rest = p;
		return strcmp(word, "tx") == 0 ? INJECT_TX : INJECT_RX;
	}
	return INJECT_RX;
}

/** Whether the port splits packets: their checksums are made behind the faults. */
static bool
port_splits(struct weft_port *port)
{
	struct weft_port_stats st;

	return weft_port_stats(port, &st) == 0 && (st.offloads & WEFT_OFFLOAD_TSO) != 0;
}

static void
cmd_inject_start(void *arg, struct cmdline *cl, void *data)
{
	struct inject_args *a = arg;
	char often[INJECT_FAULTS][OFTEN_BYTES] = {0};
	struct inject_want want = {.delay_us = 1000, .seed = 1};
	const struct option_word words[] = {
	        {"drop", OPTION_TEXT, 0, OFTEN_BYTES, {.text = often[INJECT_DROP]}},
	        {"delay", OPTION_TEXT, 0, OFTEN_BYTES, {.text = often[INJECT_DELAY]}},
	        {"duplicate", OPTION_TEXT, 0, OFTEN_BYTES, {.text = often[INJECT_DUPLICATE]}},
	        {"corrupt", OPTION_TEXT, 0, OFTEN_BYTES, {.text = often[INJECT_CORRUPT]}},
	        {"by", OPTION_NUMBER, 1, 10000000, {.number = &want.delay_us}},
	        {"seed", OPTION_NUMBER, 0, UINT64_MAX, {.number = &want.seed}},
	};
	const char *rest = a->rest;
	const enum inject_way way = way_take(&rest);
	const char *why = options_take(rest, words, sizeof(words) / sizeof(words[0]));
	const int port = port_number(cl, a->c.s1);
	bool any = false;
	int rc;

	(void)data;
	if (port < 0)
		return;
	if (why != NULL) {
		console_misuse(cl, "inject start", why);
		return;
	}
	for (unsigned int i = 0; i < INJECT_FAULTS; i++) {
		if (!often_parse(cl, inject_fault_str(i), often[i], &want.often[i]))
			return;
		any = any || often[i][0] != '\0';
	}
	if (!any) {
		console_wrong(cl, "inject: which fault? drop, delay, duplicate or corrupt, each "
		                  "with how often it happens");
		return;
	}
	if (way == INJECT_TX && often[INJECT_CORRUPT][0] != '\0' &&
	    port_splits(con.stack.ports[port])) {
		console_fail(
		        cl,
		        "inject: %s splits packets itself (TSO) and makes their checksums "
		        "behind the fault, so it cannot corrupt what it sends; give its [port] "
		        "no_tso, or corrupt at the other end (rx)",
		        a->c.s1);
		return;
	}
	rc = inject_start((unsigned int)port, way, &want);
	if (rc != 0)
		console_fail(cl, "inject: %s: %s", a->c.s1, strerror(-rc));
}

static void
print_injected(struct cmdline *cl, const char *name, enum inject_way way,
               const struct inject_figures *f)
{
	const struct inject_often *delay = &f->want.often[INJECT_DELAY];

	cmdline_printf(cl, "%s:%s", name, way == INJECT_TX ? " tx" : "");
	for (unsigned int i = 0; i < INJECT_FAULTS; i++)
		if (f->want.often[i].every > 0)
			cmdline_printf(cl, " %s 1/%" PRIu64, inject_fault_str(i),
			               f->want.often[i].every);
		else if (f->want.often[i].probability > 0)
			cmdline_printf(cl, " %s %g", inject_fault_str(i),
			               f->want.often[i].probability);
	if (delay->every > 0 || delay->probability > 0)
		cmdline_printf(cl, " by %" PRIu64 " us", f->want.delay_us);
	cmdline_printf(cl, " seed %" PRIu64 "\n", f->want.seed);
	cmdline_printf(cl,
	               "  %" PRIu64 " packets: %" PRIu64 " dropped, %" PRIu64 " delayed, %" PRIu64
	               " duplicated, %" PRIu64 " corrupted\n  %" PRIu64 " held, %" PRIu64
	               " faults not done\n",
	               f->packets, f->done[INJECT_DROP], f->done[INJECT_DELAY],
	               f->done[INJECT_DUPLICATE], f->done[INJECT_CORRUPT], f->held, f->undone);
}

/** The same as an object of JSON: a fault that was not asked for has no member. */
static json_t *
injected_object(const char *name, enum inject_way way, const struct inject_figures *f)
{
	static const char *const done[] = {"dropped", "delayed", "duplicated", "corrupted"};
	json_t *o = json_object();

	json_object_set_new(o, "port", json_string(name));
	json_object_set_new(o, "way", json_string(inject_way_str(way)));
	for (unsigned int i = 0; i < INJECT_FAULTS; i++) {
		const struct inject_often *often = &f->want.often[i];

		if (often->every > 0)
			json_object_set_new(o, inject_fault_str(i),
			                    json_real(1.0 / (double)often->every));
		else if (often->probability > 0)
			json_object_set_new(o, inject_fault_str(i), json_real(often->probability));
	}
	json_object_set_new(o, "delay_us", json_integer((json_int_t)f->want.delay_us));
	json_object_set_new(o, "seed", json_integer((json_int_t)f->want.seed));
	json_object_set_new(o, "packets", json_integer((json_int_t)f->packets));
	for (unsigned int i = 0; i < INJECT_FAULTS; i++)
		json_object_set_new(o, done[i], json_integer((json_int_t)f->done[i]));
	json_object_set_new(o, "held", json_integer((json_int_t)f->held));
	json_object_set_new(o, "not_done", json_integer((json_int_t)f->undone));
	return o;
}

/** End the faults of a port one way, with their figures. False: it has none. */
static bool
stop(struct cmdline *cl, const char *name, unsigned int port, enum inject_way way)
{
	struct inject_figures f;

	if (!inject_get(port, way, &f))
		return false;
	print_injected(cl, name, way, &f);
	if (inject_stop(port, way) == -ETIMEDOUT)
		console_fail(cl, "inject: a worker does not answer; what it holds stays");
	return true;
}

static void
cmd_inject_stop(void *arg, struct cmdline *cl, void *data)
{
	const struct cmd_args *a = arg;
	const int port = port_number(cl, a->s1);
	bool any = false;

	if (port < 0)
		return;
	/* data: one way is asked for. */
	for (int way = 0; way < INJECT_WAYS; way++)
		if (data == NULL || strcmp(a->s2, inject_way_str((enum inject_way)way)) == 0)
			any = stop(cl, a->s1, (unsigned int)port, (enum inject_way)way) || any;
	if (!any)
		console_fail(cl, "inject: %s has no faults%s%s", a->s1, data != NULL ? " of " : "",
		             data != NULL ? a->s2 : "");
}

static void
cmd_show_injected(void *arg, struct cmdline *cl, void *data)
{
	json_t *rows;
	struct inject_figures f;
	bool any = false;

	(void)arg;
	if (!console_has_stack(cl))
		return;
	rows = json_array();
	for (uint32_t i = 0; i < con.stack.nports; i++)
		for (int way = 0; way < INJECT_WAYS; way++) {
			const char *name = weft_port_name(con.stack.ports[i]);

			if (!inject_get(i, (enum inject_way)way, &f))
				continue;
			any = true;
			/* data: as JSON. */
			if (data == NULL)
				print_injected(cl, name, (enum inject_way)way, &f);
			else
				json_array_append_new(
				        rows, injected_object(name, (enum inject_way)way, &f));
		}
	if (data != NULL)
		show_print_json(cl, rows);
	else if (!any)
		cmdline_printf(cl, "no faults\n");
	json_decref(rows);
}

/** Beside the function, cmdline passes data: something is there. */
static char given;

static CMD(cmd_start, cmd_inject_start,
           "inject start NAME [rx|tx] OPTIONS: drop, delay, by, duplicate, corrupt, seed",
           (void *)&tok_inject, (void *)&tok_start, (void *)&tok_port_s1, (void *)&inject_rest);
static CMD(cmd_stop, cmd_inject_stop, "inject stop NAME: no faults on a port any more",
           (void *)&tok_inject, (void *)&tok_stop, (void *)&tok_port_s1);
static cmdline_parse_inst_t cmd_stop_way = {
        .f = cmd_inject_stop,
        .data = &given,
        .help_str = "inject stop NAME rx|tx: none in what it receives, or sends",
        .tokens = {(void *)&tok_inject, (void *)&tok_stop, (void *)&tok_port_s1, (void *)&tok_way,
                   NULL}};
static CMD(cmd_injected, cmd_show_injected, "show injected: the faults that were injected",
           (void *)&tok_show, (void *)&tok_injected);
static cmdline_parse_inst_t cmd_injected_json = {
        .f = cmd_show_injected,
        .data = &given,
        .help_str = "show injected json: the same as JSON",
        .tokens = {(void *)&tok_show, (void *)&tok_injected, (void *)&tok_json, NULL}};

cmdline_parse_inst_t *const cmds_inject[] = {&cmd_start, &cmd_stop, &cmd_stop_way, NULL};
/* As cmds_own_show. */
cmdline_parse_inst_t *const cmds_show_inject[] = {&cmd_injected, &cmd_injected_json, NULL};
