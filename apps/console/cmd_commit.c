/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Noun: transaction. Ranges, and the commit that makes them durable before its word. */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <weft/commit.h>

#include "post.h"

#define HASH "crc32c" /* of the console's regions */

WORD(tok_range, verb, "range");
WORD(tok_add, noun, "add");
WORD(tok_drop, noun, "drop");
WORD(tok_commit, verb, "commit");
WORD(tok_no_word, s1, "no-word");

/** The ranges of the next commit. */
static struct {
	unsigned int n;
	struct weft_commit_range range[WEFT_COMMIT_MAX_RANGES];
	struct weft_sge sge[WEFT_COMMIT_MAX_RANGES];
	bool verify[WEFT_COMMIT_MAX_RANGES]; /**< the hash is computed by the commit */
	uint8_t expect[WEFT_COMMIT_MAX_RANGES][WEFT_HASH_MAX_BYTES];
} tx;

/** The octets of a hexadecimal hash, or -1. */
static int
hash_octets(const char *p, size_t n, uint8_t hash[WEFT_HASH_MAX_BYTES])
{
	if (n == 0 || n % 2 != 0 || n / 2 > WEFT_HASH_MAX_BYTES ||
	    strspn(p, "0123456789abcdefABCDEF") < n)
		return -1;
	for (size_t i = 0; i < n / 2; i++)
		sscanf(&p[2 * i], "%2hhx", &hash[i]);
	return (int)(n / 2);
}

/** Take the words behind a range. False after a message. */
static bool
range_options(struct cmdline *cl, const char *rest, unsigned int i)
{
	struct weft_commit_range *r = &tx.range[i];

	for (const char *p = rest;;) {
		size_t n;
		int octets;

		p += strspn(p, " \t\r");
		n = strcspn(p, " \t\r");
		if (n == 0)
			return true;
		octets = hash_octets(p, n, tx.expect[i]);
		if (n == 6 && memcmp(p, "inline", n) == 0) {
			r->flags |= WEFT_COMMIT_INLINE;
		} else if (n == 7 && memcmp(p, "written", n) == 0) {
			r->num_sge = 0;
		} else if (n == 6 && memcmp(p, "verify", n) == 0) {
			tx.verify[i] = true;
		} else if (octets > 0) {
			r->expect = tx.expect[i];
			r->expect_bytes = (uint32_t)octets;
		} else {
			console_wrong(cl,
			              "range: '%.*s' is none of inline, written, verify, or the "
			              "expected hash in hexadecimal octets",
			              (int)n, p);
			return false;
		}
		p += n;
	}
}

static void
cmd_range_add(void *arg, struct cmdline *cl, void *data)
{
	const struct post_args *a = arg;
	const unsigned int i = tx.n;

	if (i == WEFT_COMMIT_MAX_RANGES) {
		console_fail(cl, "range: a transaction has %d at most", WEFT_COMMIT_MAX_RANGES);
		return;
	}
	if (!post_sge(cl, a->c.s1, a->c.a, a->c.b, &tx.sge[i]))
		return;
	tx.verify[i] = false;
	tx.range[i] = (struct weft_commit_range){.sg_list = &tx.sge[i],
	                                         .num_sge = 1,
	                                         .stag = (uint32_t)a->c.c,
	                                         .len_bytes = tx.sge[i].len_bytes,
	                                         .to = a->c.d};
	if (!range_options(cl, data != NULL ? a->rest : "", i))
		return;
	tx.n++;
	cmdline_printf(cl, "range %u of the next commit\n", i);
}

static void
cmd_range_drop(void *arg, struct cmdline *cl, void *data)
{
	(void)arg;
	(void)cl;
	(void)data;
	tx.n = 0;
}

/** Compute the hashes that `verify` asks for. False after a message. */
static bool
hash_ranges(struct cmdline *cl)
{
	for (unsigned int i = 0; i < tx.n; i++) {
		int n;

		if (!tx.verify[i])
			continue;
		n = weft_commit_hash(HASH, NULL, 0, &tx.sge[i], 1, tx.expect[i],
		                     sizeof(tx.expect[i]));
		if (n < 0) {
			console_fail(cl, "commit: range %u: %s", i, strerror(-n));
			return false;
		}
		tx.range[i].expect = tx.expect[i];
		tx.range[i].expect_bytes = (uint32_t)n;
	}
	return true;
}

static bool
commit_options(struct cmdline *cl, const char *rest, struct weft_commit *c)
{
	static const struct {
		const char *name;
		uint32_t flags, flush_flags;
	} options[] = {
	        {"no-flush", WEFT_COMMIT_NO_FLUSH, 0},
	        {"fence", WEFT_COMMIT_FENCE, 0},
	        {"visible", 0, WEFT_FLUSH_VISIBLE},
	        {"region", 0, WEFT_FLUSH_PERSISTENT | WEFT_FLUSH_REGION},
	};

	for (const char *p = rest;;) {
		unsigned int i = 0;
		size_t n;

		p += strspn(p, " \t\r");
		n = strcspn(p, " \t\r");
		if (n == 0)
			return true;
		while (i < 4 &&
		       (strlen(options[i].name) != n || memcmp(options[i].name, p, n) != 0))
			i++;
		if (i == 4) {
			console_wrong(cl,
			              "commit: '%.*s' is none of no-flush, visible, region, fence",
			              (int)n, p);
			return false;
		}
		c->flags |= options[i].flags;
		c->flush_flags |= options[i].flush_flags;
		p += n;
	}
}

/** c: with its word, and its flags. */
static void
commit(struct cmdline *cl, const struct post_args *a, const void *has_rest, struct weft_commit *c)
{
	struct console_qp *q = console_qp(cl, a->c.a);
	struct console_wr *p;
	int rc;

	if (q == NULL || !commit_options(cl, has_rest != NULL ? a->rest : "", c) ||
	    !hash_ranges(cl))
		return;
	if (con.chain.open) {
		console_fail(cl, "commit: a chain has begun, and takes no transactions");
		return;
	}
	c->ranges = tx.range;
	c->num_ranges = tx.n;
	p = post_place(cl, q);
	if (p == NULL)
		return;
	c->wr_id = p->id;
	rc = weft_commit(q->qp, c);
	if (rc != 0) {
		post_cancel(p);
		console_fail(cl, "commit: %s",
		             rc == -EBUSY    ? "a Verify of one of the ranges is under way"
		             : rc == -EAGAIN ? "the send queue has too few places now; wait"
		                             : strerror(-rc));
		return;
	}
	tx.n = 0;
	post_done(cl, p);
}

static void
cmd_commit(void *arg, struct cmdline *cl, void *data)
{
	const struct post_args *a = arg;
	struct weft_commit c = {.word = {.stag = (uint32_t)a->c.b, .to = a->c.c}};

	for (int i = 0; i < 8; i++)
		c.word.data[i] = (uint8_t)(a->c.d >> (56 - 8 * i));
	commit(cl, a, data, &c);
}

static void
cmd_commit_no_word(void *arg, struct cmdline *cl, void *data)
{
	struct weft_commit c = {.flags = WEFT_COMMIT_NO_WORD};

	commit(cl, arg, data, &c);
}

/** Two instructions with one usage: without the rest of the line, and with it. */
#define REST_CMD(id, fn_, help_, ...)                                                              \
	static const char id##_help[] = help_;                                                     \
	static cmdline_parse_inst_t id = {                                                         \
	        .f = fn_, .data = NULL, .help_str = id##_help, .tokens = {__VA_ARGS__, NULL}};     \
	static cmdline_parse_inst_t id##_rest = {                                                  \
	        .f = fn_,                                                                          \
	        .data = &post_has_rest,                                                            \
	        .help_str = id##_help,                                                             \
	        .tokens = {__VA_ARGS__, (void *)&tok_rest_words, NULL}}

static cmdline_parse_token_string_t tok_rest_words =
        TOKEN_STRING_INITIALIZER(struct post_args, rest, TOKEN_STRING_MULTI);

REST_CMD(
        range_add, cmd_range_add,
        "range add REGION OFFSET BYTES STAG REMOTE-OFFSET [OPTIONS]: verify, HASH, inline, written",
        (void *)&tok_range, (void *)&tok_add, (void *)&tok_region_s1, (void *)&tok_a,
        (void *)&tok_b, (void *)&tok_c, (void *)&tok_d);
static CMD(range_drop, cmd_range_drop, "range drop: forget the ranges of the next commit",
           (void *)&tok_range, (void *)&tok_drop);
REST_CMD(commit_word, cmd_commit,
         "commit QP STAG OFFSET VALUE [no-flush] [visible] [region] [fence]: the ranges, then the "
         "word",
         (void *)&tok_commit, (void *)&tok_qp, (void *)&tok_b, (void *)&tok_c, (void *)&tok_d);
REST_CMD(commit_no_word, cmd_commit_no_word,
         "commit QP no-word [no-flush] [visible] [region] [fence]: the ranges alone",
         (void *)&tok_commit, (void *)&tok_qp, (void *)&tok_no_word);

cmdline_parse_inst_t *const cmds_commit[] = {
        &range_add,        &range_add_rest, &range_drop,          &commit_word,
        &commit_word_rest, &commit_no_word, &commit_no_word_rest, NULL};
