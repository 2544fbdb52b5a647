/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Noun: capture. Packets of a port, or of one connection, to a pcapng file. */

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "console.h"

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
	for (uint32_t i = 0; i < con.stack.nports; i++)
		if (strcmp(weft_port_name(con.stack.ports[i]), name) == 0)
			return con.stack.ports[i];
	console_fail(cl, "capture: no port %s", name);
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
	cmdline_printf(cl, "captured %" PRIu64 " packets, %" PRIu64 " bytes, %" PRIu64 " dropped\n",
	               st.packets, st.file_bytes, st.dropped);
	if (st.error != 0)
		console_fail(cl, "capture: the file ended early: %s", strerror(-st.error));
}

static CMD(cmd_port, cmd_capture_port, "capture port NAME FILE: all its packets, as pcapng",
           (void *)&tok_capture, (void *)&tok_port, (void *)&tok_port_s1, (void *)&tok_s2);
static CMD(cmd_qp, cmd_capture_qp, "capture qp QP PORT FILE: of its connection alone",
           (void *)&tok_capture, (void *)&tok_noun_qp, (void *)&tok_qp, (void *)&tok_port_s1,
           (void *)&tok_s2);
static CMD(cmd_stop, cmd_capture_stop, "capture stop NAME: of a port; says how much was written",
           (void *)&tok_capture, (void *)&tok_stop, (void *)&tok_port_s1);

cmdline_parse_inst_t *const cmds_capture[] = {&cmd_port, &cmd_qp, &cmd_stop, NULL};
