/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Work requests on their way to a QP: their options, their places, lists, the chain. */

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "post.h"
#include "script.h"

#define POST_WAIT_MS 5000u
#define TIMES_MAX    1000000000ull
#define LIST_MAX     64u /**< requests of the chain, or of one call */
#define SIGNAL_EVERY 16u

static const char *const option_names[] = {"solicited", "fence", "inline", "unsignaled", "stream"};
static const uint32_t option_flags[] = {WEFT_WR_SOLICITED, WEFT_WR_FENCE, WEFT_WR_INLINE, 0, 0};

#define NOPTIONS (sizeof(option_names) / sizeof(option_names[0]))

/** Requests that are not posted yet: those of the chain, or of a line that posts several. */
static struct {
	unsigned int n;
	struct console_qp *q;
	struct weft_wr wr[LIST_MAX];
	struct weft_sge sge[LIST_MAX];
	uint8_t expect[LIST_MAX][WEFT_HASH_MAX_BYTES];
} list;

char post_has_rest;

static int
options_nb(cmdline_parse_token_hdr_t *tk)
{
	(void)tk;
	return NOPTIONS;
}

static int
options_elt(cmdline_parse_token_hdr_t *tk, int i, char *buf, unsigned int size)
{
	(void)tk;
	if (i < 0 || (size_t)i >= NOPTIONS)
		return -1;
	return snprintf(buf, size, "%s", option_names[i]) < (int)size ? 0 : -1;
}

static struct cmdline_token_ops options_ops = {cmdline_parse_string, options_nb, options_elt,
                                               cmdline_get_help_string};
cmdline_parse_token_string_t tok_post_rest = {{&options_ops, offsetof(struct post_args, rest)},
                                              {TOKEN_STRING_MULTI}};
cmdline_parse_token_string_t tok_post = TOKEN_STRING_INITIALIZER(struct cmd_args, verb, "post");

/** Take one option of n octets. */
static bool
option_take(const char *p, size_t n, struct post_options *o)
{
	char *end;

	if (n > 1 && p[0] == 'x' && isdigit((unsigned char)p[1])) {
		o->times = strtoull(p + 1, &end, 10);
		return end == p + n && o->times >= 1 && o->times <= TIMES_MAX;
	}
	for (unsigned int i = 0; i < NOPTIONS; i++)
		if (strlen(option_names[i]) == n && memcmp(option_names[i], p, n) == 0) {
			o->flags |= option_flags[i];
			o->unsignaled |= strcmp(option_names[i], "unsignaled") == 0;
			o->stream |= strcmp(option_names[i], "stream") == 0;
			return true;
		}
	return false;
}

bool
post_options(struct cmdline *cl, const char *rest, const void *has_rest, struct post_options *o)
{
	*o = (struct post_options){.times = 1};
	for (const char *p = has_rest != NULL ? rest : "";;) {
		size_t n;

		p += strspn(p, " \t\r");
		n = strcspn(p, " \t\r");
		if (n == 0)
			return true;
		if (!option_take(p, n, o)) {
			console_wrong(cl,
			              "post: '%.*s' is no option; they are solicited, fence, "
			              "inline, unsignaled, stream, and x1 to x1000000000",
			              (int)n, p);
			return false;
		}
		p += n;
	}
}

static bool
has_room(void *arg)
{
	(void)arg;
	return con.wrs_used < CONSOLE_POSTED_MAX &&
	       con.wrs[(con.next_wr + 1) % CONSOLE_WRS].q == NULL;
}

struct console_wr *
post_place(struct cmdline *cl, struct console_qp *q)
{
	struct console_wr *p;

	if (!has_room(NULL) && !console_wait(cl, POST_WAIT_MS, has_room, NULL)) {
		console_fail(cl, "post: none of %u work requests completed in %u s", con.wrs_used,
		             POST_WAIT_MS / 1000);
		return NULL;
	}
	p = &con.wrs[++con.next_wr % CONSOLE_WRS];
	p->q = q;
	p->id = con.next_wr;
	p->unsignaled = false;
	con.wrs_used++;
	return p;
}

void
post_cancel(struct console_wr *p)
{
	p->q = NULL;
	con.wrs_used--;
}

void
post_done(struct cmdline *cl, struct console_wr *p)
{
	if (p->unsignaled)
		p->q->unsignaled++;
	else
		p->q->outstanding++;
	con.counting.posted++;
	vars_result("wr", "%" PRIu64, p->id);
	if (!con.counting.on)
		cmdline_printf(cl, "wr %" PRIu64 " posted\n", p->id);
}

/** Forget the list from this one on. */
static void
list_cut(unsigned int from)
{
	for (unsigned int i = from; i < list.n; i++)
		post_cancel(&con.wrs[list.wr[i].wr_id % CONSOLE_WRS]);
	list.n = 0;
}

/** Why a request was refused. */
static const char *
refusal_str(const struct weft_wr *wr, int rc)
{
	if (rc == -EINVAL && wr->opcode == WEFT_WR_READ && (wr->flags & WEFT_WR_INLINE) != 0)
		return "a read sends no data, so it cannot be inline";
	return strerror(-rc);
}

/** Post the list. False after a message: none behind the one that was refused is posted. */
static bool
list_post(struct cmdline *cl)
{
	unsigned int done = 0;
	int rc = 0;

	while (done < list.n && rc >= 0) {
		rc = weft_post_send(list.q->qp, &list.wr[done], list.n - done);
		for (int i = 0; i < rc; i++)
			post_done(cl,
			          &con.wrs[list.wr[done + (unsigned int)i].wr_id % CONSOLE_WRS]);
		done += rc > 0 ? (unsigned int)rc : 0;
	}
	if (rc < 0)
		console_fail(cl, "post: wr %" PRIu64 ": %s", list.wr[done].wr_id,
		             refusal_str(&list.wr[done], rc));
	list_cut(done);
	return rc >= 0;
}

/** What must live longer than the line: the text of a Send, the pieces, an expected hash. */
static void
list_own(struct weft_wr *wr, struct console_wr *p, unsigned int i)
{
	if (wr->num_sge > 0) {
		list.sge[i] = wr->sg_list[0];
		wr->sg_list = &list.sge[i];
	}
	switch (wr->opcode) {
	case WEFT_WR_SEND:
	case WEFT_WR_SEND_INV:
		memcpy(p->text, list.sge[i].addr, list.sge[i].len_bytes);
		list.sge[i].addr = p->text;
		return;
	case WEFT_WR_VERIFY:
		wr->verify.result = p->hash;
		wr->verify.result_bytes = sizeof(p->hash);
		if (wr->verify.expect != NULL) {
			memcpy(list.expect[i], wr->verify.expect, wr->verify.expect_bytes);
			wr->verify.expect = list.expect[i];
		}
		return;
	case WEFT_WR_FETCH_ADD:
	case WEFT_WR_MASKED_FETCH_ADD:
	case WEFT_WR_CMP_SWAP:
	case WEFT_WR_MASKED_CMP_SWAP:
		list.sge[i] = (struct weft_sge){p->hash, 8, 0};
		wr->sg_list = &list.sge[i];
		wr->num_sge = 1;
		return;
	default:
		return;
	}
}

/** Append a request to the list; posts what is there before it waits. False after a message. */
static bool
list_add(struct cmdline *cl, struct console_qp *q, const struct weft_wr *wr, bool signaled)
{
	struct console_wr *p;

	if (!con.chain.open && (list.n == LIST_MAX || !has_room(NULL)) && !list_post(cl))
		return false;
	p = post_place(cl, q);
	if (p == NULL)
		return false;
	p->unsignaled = !signaled;
	list.q = q;
	list.wr[list.n] = *wr;
	list.wr[list.n].wr_id = p->id;
	list.wr[list.n].flags |= signaled ? WEFT_WR_SIGNALED : 0;
	list_own(&list.wr[list.n], p, list.n);
	list.n++;
	return true;
}

/** Put requests into the chain. False after a message. */
static bool
chain_add(struct cmdline *cl, struct console_qp *q, const struct weft_wr *wr,
          const struct post_options *o)
{
	if (con.chain.q == NULL)
		list.n = 0; /* also after the QP of the chain was freed */
	if (con.chain.q != NULL && con.chain.q != q) {
		console_fail(cl, "post: the chain has requests of qp %u, and takes no others",
		             (unsigned int)(con.chain.q - con.qps));
		return false;
	}
	if (o->times > LIST_MAX - list.n) {
		console_fail(cl, "post: the chain takes %u requests at most", LIST_MAX);
		return false;
	}
	con.chain.q = q;
	for (uint64_t i = 1; i <= o->times; i++) {
		if (!list_add(cl, q, wr, !o->unsignaled))
			return false;
		vars_result("wr", "%" PRIu64, con.next_wr);
		cmdline_printf(cl, "wr %" PRIu64 " in the chain\n", con.next_wr);
	}
	con.chain.n = list.n;
	return true;
}

bool
post_wr(struct cmdline *cl, struct console_qp *q, struct weft_wr *wr, const struct post_options *o)
{
	bool ok = true, counts;

	wr->flags |= o->flags;
	if (con.chain.open)
		return chain_add(cl, q, wr, o);
	counts = o->times > 1 && console_count_begin(cl);
	list.n = 0;
	for (uint64_t i = 1; i <= o->times && ok; i++)
		ok = !con.failed && !interrupted() &&
		     list_add(cl, q, wr,
		              !o->unsignaled ||
		                      (o->times > 1 && (i % SIGNAL_EVERY == 0 || i == o->times)));
	if (ok)
		ok = list_post(cl);
	else
		list_cut(0);
	if (counts)
		console_count_end(cl, "post");
	return ok;
}

bool
post_chained(const void *mr_or_mw)
{
	for (unsigned int i = 0; con.chain.q != NULL && i < list.n; i++)
		if ((list.wr[i].opcode == WEFT_WR_FAST_REG && list.wr[i].fast_reg.mr == mr_or_mw) ||
		    (list.wr[i].opcode == WEFT_WR_BIND_MW && list.wr[i].bind_mw.mw == mr_or_mw))
			return true;
	return false;
}

bool
post_sge(struct cmdline *cl, const char *region, uint64_t off, uint64_t len, struct weft_sge *sge)
{
	struct console_region *r = console_region_named(cl, region);

	if (r == NULL)
		return false;
	if (off > r->bytes || len > r->bytes - off || len > UINT32_MAX) {
		console_wrong(cl, "region %s has %" PRIu64 " bytes", region, r->bytes);
		return false;
	}
	sge->addr = r->mem + off;
	sge->len_bytes = (uint32_t)len;
	sge->lkey = weft_mr_stag(r->mr);
	return true;
}

bool
post_chain(struct cmdline *cl)
{
	bool ok = true;

	if (con.chain.q == NULL) {
		console_fail(cl, "chain: it has no requests");
		ok = false;
	} else {
		ok = list_post(cl);
	}
	memset(&con.chain, 0, sizeof(con.chain));
	return ok;
}

void
post_chain_drop(void)
{
	if (con.chain.q != NULL)
		list_cut(0);
	memset(&con.chain, 0, sizeof(con.chain));
}
