/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Noun: work request. Post send, write, read, flush, verify, atomic-write, atomics,
 * immediate data. */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "console.h"
#include "script.h"

WORD(tok_post, verb, "post");
WORD(tok_send, noun, "send");
WORD(tok_write, noun, "write");
WORD(tok_read, noun, "read");
WORD(tok_flush, noun, "flush");
WORD(tok_verify, noun, "verify");
WORD(tok_atomic, noun, "atomic-write");
WORD(tok_fetch_add, noun, "fetch-add");
WORD(tok_cmp_swap, noun, "cmp-swap");
WORD(tok_imm, noun, "imm");
WORD(tok_flags, s1, "p#v#pv#r");

#define POST_WAIT_MS 5000u

static bool
has_room(void *arg)
{
	(void)arg;
	return console_outstanding() < CONSOLE_POSTED_MAX;
}

/**
 * The QP with this number, with room for one more work request: waits for completions while there
 * is none. NULL after a message.
 */
static struct console_qp *
post_qp(struct cmdline *cl, uint64_t n)
{
	struct console_qp *q = console_qp(cl, n);

	if (q == NULL || has_room(NULL) || console_wait(cl, POST_WAIT_MS, has_room, NULL))
		return q;
	console_fail(cl, "post: none of %u work requests completed in %u s", console_outstanding(),
	             POST_WAIT_MS / 1000);
	return NULL;
}

static void
post(struct cmdline *cl, struct console_qp *q, struct weft_wr *wr)
{
	int rc;

	wr->wr_id = ++con.next_wr;
	rc = weft_post_send(q->qp, wr, 1);
	if (rc != 1) {
		console_fail(cl, "post: %s", strerror(-rc));
		return;
	}
	q->outstanding++;
	vars_result("wr", "%" PRIu64, wr->wr_id);
	con.counting.posted++;
	if (!con.counting.on)
		cmdline_printf(cl, "wr %" PRIu64 " posted\n", wr->wr_id);
}

/** The range a->b (offset), a->c (length) of region s1, as an SGE. */
static bool
sge_of(struct cmdline *cl, const char *region, uint64_t off, uint64_t len, struct weft_sge *sge)
{
	struct console_region *r = console_region(cl, strtoull(region, NULL, 0));

	if (r == NULL)
		return false;
	if (off > r->bytes || len > r->bytes - off || len > UINT32_MAX) {
		console_fail(cl, "region %s has %" PRIu64 " bytes", region, r->bytes);
		return false;
	}
	sge->addr = r->mem + off;
	sge->len_bytes = (uint32_t)len;
	sge->lkey = weft_mr_stag(r->mr);
	return true;
}

static void
cmd_post_send(void *arg, struct cmdline *cl, void *data)
{
	struct cmd_args *a = arg;
	struct console_qp *q = post_qp(cl, a->a);
	/* The text must live until the completion; fewer are under way than texts. */
	char *text = con.text[(con.next_wr + 1) % CONSOLE_TEXTS];
	struct weft_sge sge = {text, (uint32_t)strlen(a->s1), 0};
	struct weft_wr wr = {.opcode = WEFT_WR_SEND, .sg_list = &sge, .num_sge = 1};

	(void)data;
	if (q == NULL)
		return;
	memcpy(text, a->s1, sizeof(a->s1));
	post(cl, q, &wr);
}

static void
post_rdma(struct cmdline *cl, struct cmd_args *a, enum weft_wr_opcode op)
{
	struct console_qp *q = post_qp(cl, a->a);
	struct weft_sge sge;
	struct weft_wr wr = {
	        .opcode = op, .sg_list = &sge, .num_sge = 1, .rdma = {(uint32_t)a->d, a->e}};

	if (q != NULL && sge_of(cl, a->s1, a->b, a->c, &sge))
		post(cl, q, &wr);
}

static void
cmd_post_write(void *arg, struct cmdline *cl, void *data)
{
	(void)data;
	post_rdma(cl, arg, WEFT_WR_WRITE);
}

static void
cmd_post_read(void *arg, struct cmdline *cl, void *data)
{
	(void)data;
	post_rdma(cl, arg, WEFT_WR_READ);
}

static void
cmd_post_flush(void *arg, struct cmdline *cl, void *data)
{
	struct cmd_args *a = arg;
	struct console_qp *q = post_qp(cl, a->a);
	struct weft_wr wr = {.opcode = WEFT_WR_FLUSH,
	                     .flush = {(uint32_t)a->b, a->c, (uint32_t)a->d, 0}};

	(void)data;
	if (q == NULL)
		return;
	if (strchr(a->s1, 'p') != NULL)
		wr.flush.flags |= WEFT_FLUSH_PERSISTENT;
	if (strchr(a->s1, 'v') != NULL)
		wr.flush.flags |= WEFT_FLUSH_VISIBLE;
	if (strchr(a->s1, 'r') != NULL)
		wr.flush.flags |= WEFT_FLUSH_REGION | WEFT_FLUSH_PERSISTENT;
	post(cl, q, &wr);
}

static void
post_verify(struct cmdline *cl, struct cmd_args *a, const uint8_t *expect, uint32_t expect_bytes)
{
	struct console_qp *q = post_qp(cl, a->a);
	struct weft_wr wr = {.opcode = WEFT_WR_VERIFY,
	                     .verify = {(uint32_t)a->b, a->c, (uint32_t)a->d, expect, expect_bytes,
	                                con.hash[(con.next_wr + 1) % 256], WEFT_HASH_MAX_BYTES}};

	if (q != NULL)
		post(cl, q, &wr);
}

static void
cmd_post_verify(void *arg, struct cmdline *cl, void *data)
{
	(void)data;
	post_verify(cl, arg, NULL, 0);
}

static void
cmd_post_verify_expect(void *arg, struct cmdline *cl, void *data)
{
	struct cmd_args *a = arg;
	uint8_t expect[WEFT_HASH_MAX_BYTES];
	size_t n = strlen(a->s1);

	(void)data;
	if (n == 0 || n % 2 != 0 || n / 2 > sizeof(expect) ||
	    strspn(a->s1, "0123456789abcdefABCDEF") != n) {
		console_fail(cl, "verify: the expected hash is not a string of hexadecimal octets");
		return;
	}
	for (size_t i = 0; i < n / 2; i++)
		sscanf(&a->s1[2 * i], "%2hhx", &expect[i]);
	post_verify(cl, a, expect, (uint32_t)(n / 2));
}

/** Eight octets, the most significant first. */
static void
octets_of(uint64_t v, uint8_t octets[8])
{
	for (int i = 0; i < 8; i++)
		octets[i] = (uint8_t)(v >> (56 - 8 * i));
}

static void
cmd_post_atomic(void *arg, struct cmdline *cl, void *data)
{
	struct cmd_args *a = arg;
	struct console_qp *q = post_qp(cl, a->a);
	struct weft_wr wr = {.opcode = WEFT_WR_ATOMIC_WRITE,
	                     .atomic_write = {.stag = (uint32_t)a->b, .to = a->c}};

	(void)data;
	if (q == NULL)
		return;
	octets_of(a->d, wr.atomic_write.data);
	post(cl, q, &wr);
}

/** Post an atomic operation; the original value goes to the place of a Verify's hash. */
static void
post_atomic(struct cmdline *cl, struct cmd_args *a, struct weft_wr *wr)
{
	struct console_qp *q = post_qp(cl, a->a);
	struct weft_sge sge = {con.hash[(con.next_wr + 1) % 256], 8, 0};

	if (q == NULL)
		return;
	wr->sg_list = &sge;
	wr->num_sge = 1;
	wr->atomic.stag = (uint32_t)a->b;
	wr->atomic.to = a->c;
	post(cl, q, wr);
}

static void
cmd_post_fetch_add(void *arg, struct cmdline *cl, void *data)
{
	struct cmd_args *a = arg;
	struct weft_wr wr = {.opcode = WEFT_WR_FETCH_ADD, .atomic.data = a->d};

	(void)data;
	post_atomic(cl, a, &wr);
}

static void
cmd_post_cmp_swap(void *arg, struct cmdline *cl, void *data)
{
	struct cmd_args *a = arg;
	struct weft_wr wr = {.opcode = WEFT_WR_CMP_SWAP, .atomic = {.compare = a->d, .data = a->e}};

	(void)data;
	post_atomic(cl, a, &wr);
}

static void
cmd_post_imm(void *arg, struct cmdline *cl, void *data)
{
	struct cmd_args *a = arg;
	struct console_qp *q = post_qp(cl, a->a);
	struct weft_wr wr = {.opcode = WEFT_WR_IMM};

	(void)data;
	if (q == NULL)
		return;
	octets_of(a->b, wr.imm.data);
	post(cl, q, &wr);
}

static CMD(cmd_send_, cmd_post_send, "post send QP TEXT", (void *)&tok_post, (void *)&tok_send,
           (void *)&tok_qp, (void *)&tok_s1);
static CMD(cmd_write_, cmd_post_write, "post write QP REGION OFFSET BYTES STAG REMOTE-OFFSET",
           (void *)&tok_post, (void *)&tok_write, (void *)&tok_qp, (void *)&tok_region_s1,
           (void *)&tok_b, (void *)&tok_c, (void *)&tok_d, (void *)&tok_e);
static CMD(cmd_read_, cmd_post_read, "post read QP REGION OFFSET BYTES STAG REMOTE-OFFSET",
           (void *)&tok_post, (void *)&tok_read, (void *)&tok_qp, (void *)&tok_region_s1,
           (void *)&tok_b, (void *)&tok_c, (void *)&tok_d, (void *)&tok_e);
static CMD(cmd_flush_, cmd_post_flush,
           "post flush QP STAG OFFSET BYTES p|v|pv|r: persistence, visibility, whole region",
           (void *)&tok_post, (void *)&tok_flush, (void *)&tok_qp, (void *)&tok_b, (void *)&tok_c,
           (void *)&tok_d, (void *)&tok_flags);
static CMD(cmd_verify_, cmd_post_verify, "post verify QP STAG OFFSET BYTES: compute the hash",
           (void *)&tok_post, (void *)&tok_verify, (void *)&tok_qp, (void *)&tok_b, (void *)&tok_c,
           (void *)&tok_d);
static CMD(cmd_verify_expect_, cmd_post_verify_expect,
           "post verify QP STAG OFFSET BYTES HASH: and compare with HASH (hexadecimal)",
           (void *)&tok_post, (void *)&tok_verify, (void *)&tok_qp, (void *)&tok_b, (void *)&tok_c,
           (void *)&tok_d, (void *)&tok_s1);
static CMD(cmd_atomic_, cmd_post_atomic,
           "post atomic-write QP STAG OFFSET VALUE: eight octets, most significant first",
           (void *)&tok_post, (void *)&tok_atomic, (void *)&tok_qp, (void *)&tok_b, (void *)&tok_c,
           (void *)&tok_d);

static CMD(cmd_fetch_add_, cmd_post_fetch_add,
           "post fetch-add QP STAG OFFSET VALUE: add to the peer's 64-bit integer",
           (void *)&tok_post, (void *)&tok_fetch_add, (void *)&tok_qp, (void *)&tok_b,
           (void *)&tok_c, (void *)&tok_d);
static CMD(cmd_cmp_swap_, cmd_post_cmp_swap,
           "post cmp-swap QP STAG OFFSET COMPARE SWAP: set it to SWAP if it is COMPARE",
           (void *)&tok_post, (void *)&tok_cmp_swap, (void *)&tok_qp, (void *)&tok_b,
           (void *)&tok_c, (void *)&tok_d, (void *)&tok_e);
static CMD(cmd_imm_, cmd_post_imm,
           "post imm QP VALUE: eight octets of immediate data, most significant first",
           (void *)&tok_post, (void *)&tok_imm, (void *)&tok_qp, (void *)&tok_b);

cmdline_parse_inst_t *const cmds_post[] = {
        &cmd_send_,     &cmd_write_,         &cmd_read_,   &cmd_flush_,
        &cmd_verify_,   &cmd_verify_expect_, &cmd_atomic_, &cmd_fetch_add_,
        &cmd_cmp_swap_, &cmd_imm_,           NULL};
