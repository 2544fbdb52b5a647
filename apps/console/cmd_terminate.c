/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Terminate provoked: a request that the peer must refuse, so that it ends the stream. */

#include <string.h>

#include "post.h"

#define TERMINATE_MS 5000u
/** No region or window of weft has this STag. */
#define NO_STAG 0

WORD(tok_terminate, verb, "terminate");
WORD(tok_cause, s1, "write#flush#verify#atomic-write#fetch-add#send-invalidate");

static bool
closed(void *arg)
{
	return ((struct console_qp *)arg)->closed;
}

/** A request that names memory which the peer does not have. */
static void
request(const char *cause, struct weft_sge *text, struct weft_wr *wr)
{
	if (strcmp(cause, "write") == 0 || strcmp(cause, "send-invalidate") == 0) {
		wr->opcode = cause[0] == 'w' ? WEFT_WR_WRITE : WEFT_WR_SEND_INV;
		wr->flags = WEFT_WR_INLINE;
		wr->sg_list = text;
		wr->num_sge = 1;
	} else if (strcmp(cause, "flush") == 0) {
		wr->opcode = WEFT_WR_FLUSH;
		wr->flush.len_bytes = 8;
		wr->flush.flags = WEFT_FLUSH_VISIBLE;
	} else if (strcmp(cause, "verify") == 0) {
		wr->opcode = WEFT_WR_VERIFY;
		wr->verify.len_bytes = 8;
	} else {
		wr->opcode = cause[0] == 'f' ? WEFT_WR_FETCH_ADD : WEFT_WR_ATOMIC_WRITE;
	}
}

static void
cmd_terminate(void *arg, struct cmdline *cl, void *data)
{
	const struct cmd_args *a = arg;
	struct console_qp *q = console_qp(cl, a->a);
	const struct post_options once = {.times = 1};
	struct weft_sge text = {(void *)(uintptr_t)a->s1, (uint32_t)strlen(a->s1), 0};
	struct weft_wr wr = {.opcode = WEFT_WR_SEND};

	(void)data;
	if (q == NULL)
		return;
	if (!q->up || con.chain.open) {
		console_fail(cl, q->up ? "terminate: a chain has begun"
		                       : "terminate: the QP is not connected");
		return;
	}
	request(a->s1, &text, &wr);
	if (!post_wr(cl, q, &wr, &once))
		return;
	console_wait(cl, TERMINATE_MS, closed, q);
	/* The failed completions are what was asked for. */
	con.failed = false;
	con.error[0] = '\0';
	if (!q->terminated)
		console_fail(cl, "terminate: the peer sent no Terminate within %u s",
		             TERMINATE_MS / 1000);
}

static CMD(cmd_terminate_, cmd_terminate,
           "terminate QP write|flush|verify|atomic-write|fetch-add|send-invalidate: provoke one",
           (void *)&tok_terminate, (void *)&tok_qp, (void *)&tok_cause);

cmdline_parse_inst_t *const cmds_terminate[] = {&cmd_terminate_, NULL};
