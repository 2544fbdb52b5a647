/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Noun: capture. Packets of a port, or of one connection, to a pcapng file. */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "addr.h"
#include "console.h"
#include "options.h"
#include "show_print.h"

WORD(tok_capture, verb, "capture");
WORD(tok_port, noun, "port");
WORD(tok_noun_qp, noun, "qp");
WORD(tok_stop, noun, "stop");

static void
capture_start(struct cmdline *cl, struct weft_port *port, const struct weft_capture_attr *ca)
{
	int rc = weft_capture_start(port, ca);

	if (rc != 0)
		console_fail(cl, "capture: %s: %s", ca->path,
		             rc == -EBUSY ? "the port has a capture already" : strerror(-rc));
	else
		cmdline_printf(cl, "capturing %s to %s\n", weft_port_name(port), ca->path);
}

static struct weft_port *
capture_port(struct cmdline *cl, const char *name)
{
	char names[160] = "";
	int n = 0;

	for (uint32_t i = 0; i < con.stack.nports; i++)
		if (strcmp(weft_port_name(con.stack.ports[i]), name) == 0)
			return con.stack.ports[i];
	for (uint32_t i = 0; i < con.stack.nports && n < (int)sizeof(names); i++)
		n += snprintf(names + n, sizeof(names) - (size_t)n, " %s",
		              weft_port_name(con.stack.ports[i]));
	console_wrong(cl, "capture: no port %s; there are:%s", name, names);
	return NULL;
}

static void
cmd_capture_port(void *arg, struct cmdline *cl, void *data)
{
	struct cmd_args *a = arg;
	struct weft_capture_attr ca = {.size = sizeof(ca), .path = a->s2};
	struct weft_port *port = capture_port(cl, a->s1);

	(void)data;
	if (port != NULL)
		capture_start(cl, port, &ca);
}

static void
cmd_capture_qp(void *arg, struct cmdline *cl, void *data)
{
	struct cmd_args *a = arg;
	struct weft_capture_attr ca = {.size = sizeof(ca), .path = a->s2};
	struct weft_port *port = capture_port(cl, a->s1);
	struct console_qp *q = console_qp(cl, a->a);
	struct weft_qp_info in;

	(void)data;
	if (port == NULL || q == NULL)
		return;
	weft_qp_query(q->qp, &in);
	if (in.local.ss_family == 0) {
		console_fail(cl, "capture: qp %" PRIu64 " was never connected", a->a);
		return;
	}
	ca.local = in.local;
	ca.remote = in.remote;
	capture_start(cl, port, &ca);
}

static void
cmd_capture_stop(void *arg, struct cmdline *cl, void *data)
{
	struct cmd_args *a = arg;
	struct weft_port *port = capture_port(cl, a->s1);
	struct weft_capture_stats st;

	(void)data;
	if (port == NULL)
		return;
	if (weft_capture_stop(port, &st) != 0) {
		console_fail(cl, "capture: %s has none", a->s1);
		return;
	}
	cmdline_printf(cl, "captured %" PRIu64 " packets, %" PRIu64 " bytes, %" PRIu64 " dropped",
	               st.packets, st.file_bytes, st.dropped);
	/* Segments of which the filter by opcode does not know the FPDUs. */
	if (st.unknown > 0)
		cmdline_printf(cl, ", %" PRIu64 " unknown", st.unknown);
	cmdline_printf(cl, "\n");
	if (st.error != 0)
		console_fail(cl, "capture: the file ended early: %s", strerror(-st.error));
}

/* ---- With options ---- */

/** As struct cmd_args, with the rest of the line. */
struct capture_args {
	struct cmd_args c;
	cmdline_multi_string_t rest;
};

/* RFC 5040 s4.3, RFC 7306 s4, draft-talpey-rdma-commit-02 s2 */
static const struct {
	const char *name;
	uint32_t opcodes;
} operations[] = {
        {"write", 1u << 0},
        {"read", 1u << 1 | 1u << 2},
        {"send", 1u << 3 | 1u << 4 | 1u << 5 | 1u << 6},
        {"terminate", 1u << 7},
        {"imm", 1u << 8 | 1u << 9},
        {"atomic", 1u << 10 | 1u << 11},
        {"flush", 1u << 12 | 1u << 13},
        {"verify", 1u << 14 | 1u << 15},
        {"atomic-write", 1u << 16 | 1u << 17},
};

/** What the options say. */
struct capture_want {
	char port[64], peer[ADDR_STR_MAX], local[ADDR_STR_MAX], opcodes[96];
	char unknown[8]; /**< "", "keep" or "drop" */
	uint64_t qp, tcp_port, ring, bytes, snaplen;
};

/** "write,read" as a mask. False after a message. */
static bool
opcodes_parse(struct cmdline *cl, char *text, uint32_t *out)
{
	char *rest = text;

	*out = 0;
	for (const char *word; (word = strsep(&rest, ",")) != NULL;) {
		const uint32_t before = *out;

		for (unsigned int i = 0; i < sizeof(operations) / sizeof(operations[0]); i++)
			if (strcmp(operations[i].name, word) == 0)
				*out |= operations[i].opcodes;
		if (*out != before)
			continue;
		console_wrong(cl,
		              "capture: '%s' is no opcode, or twice there; they are write, read, "
		              "send, terminate, imm, atomic, flush, verify, atomic-write",
		              word);
		return false;
	}
	return true;
}

static bool
address_parse(struct cmdline *cl, const char *text, struct sockaddr_storage *out)
{
	if (text[0] == '\0' || addr_parse(text, 0, out) == 0)
		return true;
	console_wrong(cl, "capture: '%s' is not an IPv4 or IPv6 address", text);
	return false;
}

/** The filter that the options ask for. False after a message. */
static bool
filter_of(struct cmdline *cl, struct capture_want *w, struct weft_capture_attr *ca)
{
	struct console_qp *q;
	struct weft_qp_info in;

	if (w->qp != 0) {
		q = console_qp(cl, w->qp);
		if (q == NULL)
			return false;
		weft_qp_query(q->qp, &in);
		if (in.local.ss_family == 0) {
			console_fail(cl, "capture: qp %" PRIu64 " was never connected", w->qp);
			return false;
		}
		ca->local = in.local;
		ca->remote = in.remote;
	}
	ca->port = w->tcp_port;
	ca->keep_unknown = strcmp(w->unknown, "keep") == 0;
	if (w->unknown[0] != '\0' &&
	    (w->opcodes[0] == '\0' || (!ca->keep_unknown && strcmp(w->unknown, "drop") != 0))) {
		console_wrong(cl, "capture: unknown is keep or drop, and stands beside opcode");
		return false;
	}
	return (w->opcodes[0] == '\0' || opcodes_parse(cl, w->opcodes, &ca->opcodes)) &&
	       address_parse(cl, w->peer, &ca->remote) && address_parse(cl, w->local, &ca->local);
}

/** The port with this address; NULL: none has it. */
static struct weft_port *
port_of_address(const struct sockaddr_storage *local)
{
	struct weft_network_info n;

	for (uint32_t i = 0; i < con.stack.nports; i++)
		for (unsigned int k = 0; weft_port_network(con.stack.ports[i], k, &n) == 0; k++)
			if (addr_same_host(&n.addr, local))
				return con.stack.ports[i];
	return NULL;
}

static void
cmd_capture_start(void *arg, struct cmdline *cl, void *data)
{
	struct capture_args *a = arg;
	struct capture_want w = {0};
	struct weft_capture_attr ca = {.size = sizeof(ca), .path = a->c.s1};
	const struct option_word words[] = {
	        {"on", OPTION_TEXT, 0, sizeof(w.port), {.text = w.port}},
	        {"qp", OPTION_NUMBER, 1, CONSOLE_MAX_QPS, {.number = &w.qp}},
	        {"peer", OPTION_TEXT, 0, sizeof(w.peer), {.text = w.peer}},
	        {"local", OPTION_TEXT, 0, sizeof(w.local), {.text = w.local}},
	        {"port", OPTION_NUMBER, 1, 65535, {.number = &w.tcp_port}},
	        {"opcode", OPTION_TEXT, 0, sizeof(w.opcodes), {.text = w.opcodes}},
	        {"unknown", OPTION_TEXT, 0, sizeof(w.unknown), {.text = w.unknown}},
	        {"ring", OPTION_NUMBER, 1, WEFT_CAPTURE_FILES_MAX, {.number = &w.ring}},
	        {"size", OPTION_BYTES, WEFT_CAPTURE_FILE_MIN, UINT64_MAX, {.number = &w.bytes}},
	        {"snap", OPTION_BYTES, 64, 65535, {.number = &w.snaplen}},
	};
	const char *why =
	        options_take(data != NULL ? a->rest : "", words, sizeof(words) / sizeof(words[0]));
	struct weft_port *port = con.stack.ports[0];

	if (why != NULL) {
		console_misuse(cl, "capture start", why);
		return;
	}
	if (w.ring != 0 && w.bytes == 0) {
		console_wrong(cl, "capture: a ring needs the size of its files: ring 4 size 10M");
		return;
	}
	if (!filter_of(cl, &w, &ca))
		return;
	if (w.port[0] != '\0')
		port = capture_port(cl, w.port);
	else if (ca.local.ss_family != 0 && port_of_address(&ca.local) != NULL)
		port = port_of_address(&ca.local);
	ca.ring_files = (uint32_t)w.ring;
	ca.max_bytes = w.bytes;
	ca.snaplen_bytes = (uint32_t)w.snaplen;
	if (port != NULL)
		capture_start(cl, port, &ca);
}

static void
cmd_set_capture(void *arg, struct cmdline *cl, void *data)
{
	struct capture_args *a = arg;
	struct capture_want w = {0};
	struct weft_capture_attr ca = {.size = sizeof(ca)};
	const struct option_word words[] = {
	        {"qp", OPTION_NUMBER, 1, CONSOLE_MAX_QPS, {.number = &w.qp}},
	        {"peer", OPTION_TEXT, 0, sizeof(w.peer), {.text = w.peer}},
	        {"local", OPTION_TEXT, 0, sizeof(w.local), {.text = w.local}},
	        {"port", OPTION_NUMBER, 1, 65535, {.number = &w.tcp_port}},
	        {"opcode", OPTION_TEXT, 0, sizeof(w.opcodes), {.text = w.opcodes}},
	        {"unknown", OPTION_TEXT, 0, sizeof(w.unknown), {.text = w.unknown}},
	};
	const char *why = data != NULL
	                          ? options_take(a->rest, words, sizeof(words) / sizeof(words[0]))
	                          : NULL;
	struct weft_port *port = capture_port(cl, a->c.s1);
	int rc;

	if (port == NULL)
		return;
	if (why != NULL) {
		console_wrong(cl, "set capture: %s", why);
		return;
	}
	if (!filter_of(cl, &w, &ca))
		return;
	rc = weft_capture_filter(port, &ca);
	if (rc != 0)
		console_fail(cl, "set capture: %s: %s", a->c.s1,
		             rc == -ENOENT ? "the port has no capture" : strerror(-rc));
}

static json_t *
capture_object(const char *port, const struct weft_capture_stats *st)
{
	json_t *o = json_object();

	json_object_set_new(o, "port", json_string(port));
	json_object_set_new(o, "packets", json_integer((json_int_t)st->packets));
	json_object_set_new(o, "file_bytes", json_integer((json_int_t)st->file_bytes));
	json_object_set_new(o, "files", json_integer((json_int_t)st->files));
	json_object_set_new(o, "dropped", json_integer((json_int_t)st->dropped));
	json_object_set_new(o, "unknown", json_integer((json_int_t)st->unknown));
	if (st->error != 0)
		json_object_set_new(o, "ended", json_string(strerror(-st->error)));
	return o;
}

static void
print_capture(struct cmdline *cl, const char *port, const struct weft_capture_stats *st)
{
	cmdline_printf(cl,
	               "%s: %" PRIu64 " packets, %" PRIu64 " bytes, %" PRIu64 " files, %" PRIu64
	               " dropped, %" PRIu64 " unknown%s%s\n",
	               port, st->packets, st->file_bytes, st->files, st->dropped, st->unknown,
	               st->error != 0 ? "; ended: " : "",
	               st->error != 0 ? strerror(-st->error) : "");
}

static void
cmd_show_captures(void *arg, struct cmdline *cl, void *data)
{
	struct weft_capture_stats st;
	json_t *rows;
	bool any = false;

	(void)arg;
	if (!console_has_stack(cl))
		return;
	rows = json_array();
	for (uint32_t i = 0; i < con.stack.nports; i++) {
		const char *port = weft_port_name(con.stack.ports[i]);

		if (weft_capture_stats(con.stack.ports[i], &st) != 0)
			continue;
		any = true;
		/* data: as JSON. */
		if (data == NULL)
			print_capture(cl, port, &st);
		else
			json_array_append_new(rows, capture_object(port, &st));
	}
	if (data != NULL)
		show_print_json(cl, rows);
	else if (!any)
		cmdline_printf(cl, "no captures\n");
	json_decref(rows);
}

static char has_rest;
static cmdline_parse_token_string_t capture_rest =
        TOKEN_STRING_INITIALIZER(struct capture_args, rest, TOKEN_STRING_MULTI);
WORD(tok_capture_start, noun, "start");
WORD(tok_set, verb, "set");
WORD(tok_show, verb, "show");
WORD(tok_noun_capture, noun, "capture");
WORD(tok_captures, noun, "captures");
WORD(tok_json, s1, "json");

static CMD(cmd_start, cmd_capture_start, "capture start FILE: packets of the first port",
           (void *)&tok_capture, (void *)&tok_capture_start, (void *)&tok_s1);
static cmdline_parse_inst_t cmd_start_rest = {
        .f = cmd_capture_start,
        .data = &has_rest,
        .help_str = "capture start FILE OPTIONS: on, qp, peer, local, port, opcode, unknown, ring, "
                    "size, snap",
        .tokens = {(void *)&tok_capture, (void *)&tok_capture_start, (void *)&tok_s1,
                   (void *)&capture_rest, NULL}};
static CMD(cmd_set_all, cmd_set_capture, "set capture NAME: all packets from now on",
           (void *)&tok_set, (void *)&tok_noun_capture, (void *)&tok_port_s1);
static cmdline_parse_inst_t cmd_set_rest = {
        .f = cmd_set_capture,
        .data = &has_rest,
        .help_str = "set capture NAME OPTIONS: qp, peer, local, port, opcode, unknown",
        .tokens = {(void *)&tok_set, (void *)&tok_noun_capture, (void *)&tok_port_s1,
                   (void *)&capture_rest, NULL}};
static CMD(cmd_captures, cmd_show_captures, "show captures: packets, bytes and files so far",
           (void *)&tok_show, (void *)&tok_captures);
static cmdline_parse_inst_t cmd_captures_json = {
        .f = cmd_show_captures,
        .data = &has_rest,
        .help_str = "show captures json: the same as JSON",
        .tokens = {(void *)&tok_show, (void *)&tok_captures, (void *)&tok_json, NULL}};

static CMD(cmd_port, cmd_capture_port, "capture port NAME FILE: all its packets, as pcapng",
           (void *)&tok_capture, (void *)&tok_port, (void *)&tok_port_s1, (void *)&tok_s2);
static CMD(cmd_qp, cmd_capture_qp, "capture qp QP PORT FILE: of its connection alone",
           (void *)&tok_capture, (void *)&tok_noun_qp, (void *)&tok_qp, (void *)&tok_port_s1,
           (void *)&tok_s2);
static CMD(cmd_stop, cmd_capture_stop, "capture stop NAME: of a port; says how much was written",
           (void *)&tok_capture, (void *)&tok_stop, (void *)&tok_port_s1);

cmdline_parse_inst_t *const cmds_capture[] = {&cmd_start, &cmd_start_rest, &cmd_port,     &cmd_qp,
                                              &cmd_stop,  &cmd_set_all,    &cmd_set_rest, NULL};
/* As cmds_own_show. */
cmdline_parse_inst_t *const cmds_show_capture[] = {&cmd_captures, &cmd_captures_json, NULL};
