/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Every state of a stream × everything that can happen to it (RFC 5040 s6): what arrives, what its
 * user calls, what the layer below reports. docs/qp-states.md is this table, and
 * docs/internals/states.md has its transitions. Both are compared with the stream's behaviour.
 */

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>

#include "conform.h"

enum col { IDLE, RTS, CLOSING, CLOSED_OURS, TERMINATE, ERROR, NCOLS };

static const char *const col_names[NCOLS] = {"IDLE",      "RTS",  "CLOSING", "CLOSING, our FIN out",
                                             "TERMINATE", "ERROR"};

static struct weft_rdmap_req closing_read, req;

/* ---- Entering a state ---- */

static void
enter(enum col c)
{
	struct rig_ulpdu *u;

	rig.idle = c == IDLE;
	cf_open();
	cf.touched = true;
	rig.b.recv_posted = 4;
	switch (c) {
	case CLOSING: /* it waits for the response to a Read */
		closing_read = (struct weft_rdmap_req){.op = WEFT_RDMAP_READ_REQ,
		                                       .len_bytes = 4,
		                                       .sink_stag = cf.all->stag,
		                                       .sink_to = CF_BASE};
		weft_rdmap_post(rig.b.r, &closing_read);
		weft_rdmap_close(rig.b.r, rig.now_ns);
		break;
	case CLOSED_OURS:
		weft_rdmap_close(rig.b.r, rig.now_ns);
		break;
	case TERMINATE:
		weft_rdmap_terminate(rig.b.r, &(struct weft_term){0, 2, 0xff}, rig.now_ns);
		break;
	case ERROR:
		weft_rdmap_abort(rig.b.r, rig.now_ns);
		break;
	default:
		break;
	}
	rig_pump();
	while ((u = rig_pop(&rig.b)) != NULL)
		free(u);
	rig.b.nev = 0;
	rig.b.live = true; /* the layer below may call at any time */
}

/* ---- Events ---- */

static void
atomic_req(uint8_t aop)
{
	uint8_t p[RDMAP_ATOMIC_REQ_BYTES];
	struct rdmap_atomic_req q = {.aop = aop,
	                             .stag = cf.all->stag,
	                             .to = CF_BASE,
	                             .data = 0x5757575757575757, /* WWWWWWWW */
	                             .mask = UINT64_MAX};

	rdmap_atomic_req_encode(&q, p);
	CF_UNTAGGED(0x4a, 1, 1, 0, p, sizeof(p));
}

#define RX(name, ...)                                                                              \
	static void name(void)                                                                     \
	{                                                                                          \
		__VA_ARGS__;                                                                       \
	}
/* clang-format off */
RX(rx_write, CF_TAGGED(0x40, cf.all->stag, CF_BASE, "WWWW", 4))
RX(rx_write_empty, CF_TAGGED(0x40, 0x12345678, CF_BASE, "", 0))
RX(rx_write_bad, CF_TAGGED(0x40, 0x12345678, CF_BASE, "WWWW", 4))
RX(rx_read_req, CF_READ(1, cf.ro->stag, CF_BASE, 4))
RX(rx_read_req_bad, CF_READ(1, 0x12345678, CF_BASE, 4))
RX(rx_read_resp, CF_TAGGED(0x42, cf.all->stag, CF_BASE, "WWWW", 4))
RX(rx_send, CF_UNTAGGED(0x43, 0, 1, 0, "send", 4))
RX(rx_send_inv, rig_inject_untagged(&rig.b, 0x44, 0, 1, 0, true, 0xfeed, "send", 4))
RX(rx_send_se, CF_UNTAGGED(0x45, 0, 1, 0, "send", 4))
RX(rx_send_se_inv, rig_inject_untagged(&rig.b, 0x46, 0, 1, 0, true, 0xfeed, "send", 4))
RX(rx_send_part, rig_inject_untagged(&rig.b, 0x43, 0, 1, 0, false, 0, "send", 4))
RX(rx_send_none, rig.b.recv_posted = rig.b.recv_taken; CF_UNTAGGED(0x43, 0, 1, 0, "send", 4))
RX(rx_terminate, CF_UNTAGGED(0x47, 2, 1, 0, "\x02\xff\0\0", 4))
RX(rx_flush_req, rig_inject_place(&rig.b, 0xc, 1, cf.all->stag, CF_BASE, 4, "\0\0\0\1", 4))
RX(rx_flush_bad, rig_inject_place(&rig.b, 0xc, 1, 0x12345678, CF_BASE, 4, "\0\0\0\1", 4))
RX(rx_flush_fails, cf.med.flush_err = -EIO; rx_flush_req())
RX(rx_flush_resp, CF_UNTAGGED(0x4d, 3, 1, 0, NULL, 0))
RX(rx_verify_req, rig_inject_place(&rig.b, 0xe, 1, cf.all->stag, CF_BASE, 4, NULL, 0))
RX(rx_verify_differs, rig_inject_place(&rig.b, 0xe, 1, cf.all->stag, CF_BASE, 4, "nosuch..", 8))
RX(rx_verify_resp, CF_UNTAGGED(0x4f, 3, 1, 0, "12345678", 8))
RX(rx_awrite_req, rig_inject_place(&rig.b, 0x10, 1, cf.all->stag, CF_BASE, 8, "WWWWWWWW", 8))
RX(rx_awrite_bad, rig_inject_place(&rig.b, 0x10, 1, cf.all->stag, CF_BASE + 4, 8, "WWWWWWWW", 8))
RX(rx_awrite_resp, CF_UNTAGGED(0x51, 3, 1, 0, NULL, 0))
RX(rx_imm, CF_UNTAGGED(0x48, 0, 1, 0, "12345678", 8))
RX(rx_imm_se, CF_UNTAGGED(0x49, 0, 1, 0, "12345678", 8))
RX(rx_imm_none, rig.b.recv_posted = rig.b.recv_taken; CF_UNTAGGED(0x48, 0, 1, 0, "12345678", 8))
RX(rx_atomic_req, atomic_req(WEFT_RDMAP_CMP_SWAP))
RX(rx_atomic_bad, atomic_req(1))
RX(rx_atomic_resp, CF_UNTAGGED(0x4b, 3, 1, 0, "\0\0\0\1" "12345678", 12))
RX(rx_misfit, CF_UNTAGGED(0x40, 0, 1, 0, "send", 4))
RX(rx_version, CF_UNTAGGED(0x83, 0, 1, 0, "send", 4))
RX(rx_runt, rig_inject(&rig.b, "\x41\x43", 2))
/* clang-format on */

static void
post(uint8_t op)
{
	static uint8_t data[4];

	req = (struct weft_rdmap_req){.op = op,
	                              .nsge = 1,
	                              .sge = {{data, 4}},
	                              .len_bytes = 4,
	                              .flush_flags = 1,
	                              .sink_stag = cf.all->stag,
	                              .sink_to = CF_BASE};
	weft_rdmap_post(rig.b.r, &req);
}
static void
post_write_imm(void)
{
	req = (struct weft_rdmap_req){.op = WEFT_RDMAP_WRITE, .imm_op = WEFT_RDMAP_IMM};
	weft_rdmap_post(rig.b.r, &req);
}
RX(post_write, post(WEFT_RDMAP_WRITE))
RX(post_send, post(WEFT_RDMAP_SEND))
RX(post_read, post(WEFT_RDMAP_READ_REQ))
RX(post_flush, post(WEFT_RDMAP_FLUSH_REQ))
RX(post_verify, post(WEFT_RDMAP_VERIFY_REQ))
RX(post_awrite, post(WEFT_RDMAP_AWRITE_REQ))
RX(post_imm, post(WEFT_RDMAP_IMM))
RX(post_atomic, post(WEFT_RDMAP_ATOMIC_REQ))
RX(post_recv, rig_post_recv(&rig.b, 1))
RX(call_start, weft_rdmap_start(rig.b.r, 4, 4))
RX(call_close, weft_rdmap_close(rig.b.r, rig.now_ns))
RX(call_terminate, weft_rdmap_terminate(rig.b.r, &(struct weft_term){0, 2, 8}, rig.now_ns))
RX(call_abort, weft_rdmap_abort(rig.b.r, rig.now_ns))
RX(call_destroy, weft_rdmap_destroy(rig.b.r); rig.b.r = NULL)

static void
closed(int err)
{
	rig.b.live = false;
	rig.b.ddp->mpa->tcp = NULL;
	weft_ddp_mpa_ops.closed(rig.b.ddp, err);
}
RX(ev_eof, weft_ddp_mpa_ops.eof(rig.b.ddp))
RX(ev_reset, closed(-ECONNRESET))
RX(ev_closed, closed(0))
RX(ev_writable, weft_ddp_mpa_ops.writable(rig.b.ddp))
RX(ev_crc, weft_ddp_mpa_ops.fault(rig.b.ddp, &(struct weft_term){2, 0, WEFT_MPA_ERR_CRC}))
RX(ev_6_s, rig_advance(6 * WEFT_NS_PER_S))
RX(ev_2_min, rig_advance(61 * WEFT_NS_PER_S); rig_advance(61 * WEFT_NS_PER_S))

/* ---- Results ---- */

static char said[512];

static void __attribute__((format(printf, 1, 2))) say(const char *fmt, ...)
{
	size_t n = strlen(said);
	va_list ap;

	if (n > 0)
		n += (size_t)snprintf(said + n, sizeof(said) - n, ", ");
	va_start(ap, fmt);
	vsnprintf(said + n, sizeof(said) - n, fmt, ap);
	va_end(ap);
}

static void
say_event(const struct rig_ev *e)
{
	switch (e->kind) {
	case EV_DONE:
		say(e->status == WEFT_RDMAP_OK ? "done" : "flushed");
		break;
	case EV_RECV:
		if (e->status != WEFT_RDMAP_OK)
			say("receive flushed");
		else
			say("received%s%s", e->solicited ? " solicited" : "",
			    e->inv_stag != 0 ? " invalidated" : "");
		break;
	case EV_IMM:
		say("received immediate%s", e->solicited ? " solicited" : "");
		break;
	case EV_STATE:
		say("**%s**", weft_rdmap_state_name((enum weft_rdmap_state)e->status));
		break;
	case EV_CLOSED:
		say("closed %s", e->status == 0             ? "in order"
		                 : e->status == -ECONNRESET ? "by reset"
		                                            : "by timeout");
		break;
	case EV_BAD_RANGE:
		say("bad range");
		break;
	default:
		break;
	}
}

static void
say_sent(const struct rig_ulpdu *u)
{
	uint8_t op = u->data[1] & 0x1f;

	if (op == WEFT_RDMAP_TERMINATE)
		say("Terminate %u/%u/%02X", u->data[18] >> 4, u->data[18] & 0xf, u->data[19]);
	else
		say("sends %s", weft_rdmap_op_name(op));
}

static void
observe(enum col c, void (*happens)(void))
{
	struct rig_ulpdu *u;
	bool fin, aborted;

	enter(c);
	fin = rig.b.fin;
	aborted = rig.b.aborted;
	said[0] = '\0';
	happens();
	rig_pump();
	for (unsigned int i = 0; i < rig.b.nev; i++)
		say_event(&rig.b.ev[i]);
	if (cf.med.p.base[0] == 'W')
		say("placed");
	while ((u = rig_pop(&rig.b)) != NULL) {
		say_sent(u);
		free(u);
	}
	if (rig.b.fin && !fin)
		say("FIN");
	if (rig.b.aborted && !aborted)
		say("reset");
	if (said[0] == '\0')
		say("-");
	cf_close();
}

/* ---- The table ---- */

static const struct row {
	const char *name;
	void (*happens)(void);
	const char *want[NCOLS];
} rows[] = {
#include "qp_states_rx.h"

#include "qp_states_local.h"
};

static void
run_row(void)
{
	const struct row *t = &rows[test_case_index()];

	for (enum col c = 0; c < NCOLS; c++) {
		observe(c, t->happens);
		CHECK_MSG(strcmp(said, t->want[c]) == 0, "in %s: \"%s\", not \"%s\"", col_names[c],
		          said, t->want[c]);
	}
}

/* ---- The documents ---- */

static char *
doc(const char *name)
{
	char path[512], *text;
	long n;
	FILE *f;

	snprintf(path, sizeof(path), "%s/docs/%s", WEFT_SOURCE_DIR, name);
	f = fopen(path, "r");
	if (f == NULL)
		test_skip("%s is not here", path);
	fseek(f, 0, SEEK_END);
	n = ftell(f);
	rewind(f);
	text = calloc(1, (size_t)n + 1);
	CHECK_EQ(fread(text, 1, (size_t)n, f), n);
	fclose(f);
	return text;
}

static void
test_doc_table(void)
{
	char *text = doc("qp-states.md");
	unsigned int lines = 0;

	for (unsigned int i = 0; i < RTE_DIM(rows); i++) {
		char line[1024];
		int n = snprintf(line, sizeof(line), "\n| %s |", rows[i].name);

		for (enum col c = 0; c < NCOLS; c++)
			n += snprintf(line + n, sizeof(line) - (size_t)n, " %s |", rows[i].want[c]);
		snprintf(line + n, sizeof(line) - (size_t)n, "\n");
		CHECK_MSG(strstr(text, line) != NULL, "docs/qp-states.md lacks%s", line);
	}
	for (const char *p = text; (p = strstr(p, "\n| ")) != NULL; p += 3)
		lines++;
	CHECK_EQ(lines, RTE_DIM(rows) + 1); /* with the head of the table */
	free(text);
}

/** Whether a row of the table in internals/states.md leads from one state to the other. */
static bool
documented(const char *text, const char *from, const char *to)
{
	const char *p = strstr(text, "\n| from | event | to |\n");

	CHECK(p != NULL);
	while ((p = strstr(p, "\n| ")) != NULL) {
		const char *bar1 = strchr(p + 2, '|'), *eol = strchr(p + 1, '\n');
		const char *bar2 = strchr(bar1 + 1, '|'), *f = strstr(p, from),
		           *t = strstr(bar2, to);

		if (f != NULL && f < bar1 && t != NULL && t < eol)
			return true;
		p = eol - 1;
		p++;
	}
	return false;
}

/* Each transition of this table is in internals/states.md, and the reverse. */
static void
test_doc_transitions(void)
{
	static const char *const names[] = {"IDLE", "RTS", "CLOSING", "TERMINATE", "ERROR"};
	static const uint8_t state_of[NCOLS] = {0, 1, 2, 2, 3, 4};
	bool seen[5][5] = {{false}};
	char *text = doc("internals/states.md");

	for (unsigned int i = 0; i < RTE_DIM(rows); i++)
		for (enum col c = 0; c < NCOLS; c++) {
			unsigned int at = state_of[c];

			for (const char *p = rows[i].want[c]; (p = strstr(p, "**")) != NULL;) {
				unsigned int to = 0;

				p += 2;
				while (to < 5 && strncmp(p, names[to], strlen(names[to])) != 0)
					to++;
				CHECK(to < 5);
				seen[at][to] = true;
				at = to;
				p = strstr(p, "**") + 2;
			}
		}
	for (unsigned int a = 0; a < 5; a++)
		for (unsigned int b = 0; b < 5; b++)
			CHECK_MSG(seen[a][b] == documented(text, names[a], names[b]),
			          "%s to %s: %s", names[a], names[b],
			          seen[a][b] ? "happens and is not told" : "told, never happens");
	free(text);
}

int
main(int argc, char **argv)
{
	static struct weft_test_case cases[RTE_DIM(rows) + 2];
	unsigned int n = 0;

	if (argc == 2 && strcmp(argv[1], "--table") == 0) {
		for (unsigned int i = 0; i < RTE_DIM(rows); i++) {
			printf("%s", rows[i].name);
			for (enum col c = 0; c < NCOLS; c++) {
				observe(c, rows[i].happens);
				printf("\t%s", said);
			}
			printf("\n");
		}
		return 0;
	}
	for (; n < RTE_DIM(rows); n++)
		cases[n] = (struct weft_test_case){rows[n].name, run_row};
	cases[n++] = (struct weft_test_case){"docs/qp-states.md", test_doc_table};
	cases[n++] = (struct weft_test_case){"docs/internals/states.md", test_doc_transitions};
	return test_main(argc, argv, cases, n);
}
