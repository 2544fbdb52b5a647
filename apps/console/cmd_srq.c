/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Noun: shared receive queue. Create, post receives, arm the limit, show, destroy. */

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "console.h"
#include "script.h"

WORD(tok_create, verb, "create");
WORD(tok_destroy, verb, "destroy");
WORD(tok_arm, verb, "arm");
WORD(tok_post, verb, "post");
WORD(tok_show, verb, "show");
WORD(tok_noun_srq, noun, "srq");
WORD(tok_receives, noun, "receives");
WORD(tok_srqs, noun, "srqs");

/** 0, or -errno; then nothing is left. */
static int
srq_make(struct console_srq *s, uint32_t depth)
{
	struct weft_srq_attr sa = {.size = sizeof(sa), .depth = depth, .evq = con.evq, .user = s};
	int rc = -ENOMEM;

	memset(s, 0, sizeof(*s));
	s->depth = depth;
	s->mem = malloc((size_t)depth * CONSOLE_RECV_BYTES);
	s->posted = calloc(depth, sizeof(*s->posted));
	if (s->mem != NULL && s->posted != NULL)
		rc = weft_srq_create(con.pd, &sa, &s->srq);
	if (rc != 0) {
		free(s->mem);
		free(s->posted);
	}
	s->used = rc == 0;
	return rc;
}

static void
cmd_create(void *arg, struct cmdline *cl, void *data)
{
	const struct cmd_args *a = arg;
	unsigned int n = 1;
	int rc;

	(void)data;
	while (n <= CONSOLE_MAX_SRQS && con.srqs[n].used)
		n++;
	if (n > CONSOLE_MAX_SRQS || a->a < 1 || a->a > CONSOLE_SRQ_DEPTH) {
		console_wrong(cl,
		              "create: the depth must be from 1 to %d, and %d srqs are the most",
		              CONSOLE_SRQ_DEPTH, CONSOLE_MAX_SRQS);
		return;
	}
	rc = srq_make(&con.srqs[n], (uint32_t)a->a);
	if (rc != 0) {
		console_fail(cl, "create: %s", strerror(-rc));
		return;
	}
	vars_result("srq", "%u", n);
	cmdline_printf(cl, "srq %u: depth %" PRIu64 ", no receives\n", n, a->a);
}

static void
cmd_post_receives(void *arg, struct cmdline *cl, void *data)
{
	const struct cmd_args *a = arg;
	struct console_srq *s = console_srq(cl, a->a);
	uint64_t n = 0;
	int rc = 1;

	(void)data;
	if (s == NULL)
		return;
	console_drain(cl);
	for (uint32_t i = 0; i < s->depth && n < a->b && rc > 0; i++)
		if (!s->posted[i] && (rc = console_srq_post(s, i)) > 0)
			n++;
	if (rc < 0)
		console_fail(cl, "post: %s", strerror(-rc));
	else if (n < a->b)
		console_fail(cl, "post: %" PRIu64 " receives posted; the srq holds no more than %u",
		             n, s->depth);
	else
		cmdline_printf(cl, "%" PRIu64 " receives posted\n", n);
}

static void
cmd_arm(void *arg, struct cmdline *cl, void *data)
{
	const struct cmd_args *a = arg;
	struct console_srq *s = console_srq(cl, a->a);
	int rc;

	(void)data;
	if (s == NULL)
		return;
	rc = a->b > s->depth ? -EINVAL : weft_srq_modify(s->srq, (uint32_t)a->b);
	if (rc < 0) {
		console_fail(cl, "arm: %s",
		             rc == -EINVAL ? "the limit is more than the depth" : strerror(-rc));
		return;
	}
	s->limit = (uint32_t)a->b;
	if (rc > 0)
		cmdline_printf(cl, "fewer than %u are posted already\n", s->limit);
}

static void
cmd_destroy(void *arg, struct cmdline *cl, void *data)
{
	struct console_srq *s = console_srq(cl, ((struct cmd_args *)arg)->a);
	int rc;

	(void)data;
	if (s == NULL)
		return;
	console_drain(cl);
	rc = s->listeners > 0 ? -EBUSY : weft_srq_destroy(s->srq);
	if (rc != 0) {
		console_fail(cl, "destroy: %s",
		             s->listeners > 0 ? "a listener gives it to the QPs that it accepts"
		             : rc == -EBUSY   ? "a QP uses it"
		                              : strerror(-rc));
		return;
	}
	s->used = false;
	free(s->mem);
	free(s->posted);
}

static void
show_srqs(void *arg, struct cmdline *cl, void *data)
{
	struct weft_srq_info in;
	bool any = false;

	(void)arg;
	(void)data;
	console_drain(cl);
	for (unsigned int n = 1; n <= CONSOLE_MAX_SRQS; n++) {
		if (!con.srqs[n].used)
			continue;
		any = true;
		weft_srq_query(con.srqs[n].srq, &in);
		cmdline_printf(cl,
		               "srq %u: depth %u, posted %u, limit %u, qps %u, no receive %" PRIu64
		               ", limit events %" PRIu64 "\n",
		               n, in.depth, in.posted, in.limit, in.qps, in.no_buffer,
		               in.limit_events);
	}
	if (!any)
		cmdline_printf(cl, "no srqs\n");
}

static CMD(cmd_create_, cmd_create,
           "create srq DEPTH: a shared receive queue, without receives yet", (void *)&tok_create,
           (void *)&tok_noun_srq, (void *)&tok_a);
static CMD(cmd_destroy_, cmd_destroy, "destroy srq SRQ: free it, when no QP uses it any more",
           (void *)&tok_destroy, (void *)&tok_noun_srq, (void *)&tok_srq);
static CMD(cmd_receives_, cmd_post_receives, "post receives SRQ N: N receives, of 8192 octets each",
           (void *)&tok_post, (void *)&tok_receives, (void *)&tok_srq, (void *)&tok_b);
static CMD(cmd_arm_, cmd_arm, "arm srq SRQ LIMIT: an event when fewer receives are left; 0: none",
           (void *)&tok_arm, (void *)&tok_noun_srq, (void *)&tok_srq, (void *)&tok_b);
static CMD(cmd_srqs_, show_srqs, "show srqs: receives, limits, QPs", (void *)&tok_show,
           (void *)&tok_srqs);

cmdline_parse_inst_t *const cmds_srq[] = {&cmd_create_, &cmd_destroy_, &cmd_receives_,
                                          &cmd_arm_,    &cmd_srqs_,    NULL};
