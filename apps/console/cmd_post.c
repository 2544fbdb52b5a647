/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Noun: work request. Post what goes to the peer: Sends, Writes, Reads, Flushes, Verifies,
 * atomic operations, immediate data; and chains of them. */

#include <stdio.h>
#include <string.h>

#include "post.h"

WORD(tok_send, noun, "send");
WORD(tok_write, noun, "write");
WORD(tok_read, noun, "read");
WORD(tok_flush, noun, "flush");
WORD(tok_verify, noun, "verify");
WORD(tok_atomic, noun, "atomic-write");
WORD(tok_fetch_add, noun, "fetch-add");
WORD(tok_cmp_swap, noun, "cmp-swap");
WORD(tok_imm, noun, "imm");
WORD(tok_send_inv, noun, "send-invalidate");
WORD(tok_write_imm, noun, "write-imm");
WORD(tok_mfetch_add, noun, "masked-fetch-add");
WORD(tok_mcmp_swap, noun, "masked-cmp-swap");
WORD(tok_chain, verb, "chain");
WORD(tok_begin, noun, "begin");
WORD(tok_chain_post, noun, "post");
WORD(tok_drop, noun, "drop");
WORD(tok_flags, s1, "p#v#pv#r");

/** The QP of a line, and its options. NULL after a message. */
static struct console_qp *
begin(struct cmdline *cl, const struct post_args *a, const void *has_rest, struct post_options *o)
{
	return post_options(cl, a->rest, has_rest, o) ? console_qp(cl, a->c.a) : NULL;
}

static void
send_text(struct cmdline *cl, struct post_args *a, const void *data, struct weft_wr *wr)
{
	struct weft_sge sge = {a->c.s1, (uint32_t)strlen(a->c.s1), 0};
	struct post_options o;
	struct console_qp *q = begin(cl, a, data, &o);

	wr->sg_list = &sge;
	wr->num_sge = 1;
	if (q != NULL)
		post_wr(cl, q, wr, &o);
}

static void
cmd_post_send(void *arg, struct cmdline *cl, void *data)
{
	struct weft_wr wr = {.opcode = WEFT_WR_SEND};

	send_text(cl, arg, data, &wr);
}

static void
cmd_post_send_inv(void *arg, struct cmdline *cl, void *data)
{
	struct post_args *a = arg;
	struct weft_wr wr = {.opcode = WEFT_WR_SEND_INV, .send.inv_stag = (uint32_t)a->c.b};

	send_text(cl, a, data, &wr);
}

static void
post_rdma(struct cmdline *cl, struct post_args *a, const void *data, struct weft_wr *wr)
{
	struct post_options o;
	struct console_qp *q = begin(cl, a, data, &o);
	struct weft_sge sge;

	wr->sg_list = &sge;
	wr->num_sge = 1;
	if (q != NULL && post_sge(cl, a->c.s1, a->c.b, a->c.c, &sge))
		post_wr(cl, q, wr, &o);
}

static void
cmd_post_write(void *arg, struct cmdline *cl, void *data)
{
	const struct post_args *a = arg;
	struct weft_wr wr = {.opcode = WEFT_WR_WRITE, .rdma = {(uint32_t)a->c.d, a->c.e}};

	post_rdma(cl, arg, data, &wr);
}

static void
cmd_post_read(void *arg, struct cmdline *cl, void *data)
{
	const struct post_args *a = arg;
	struct weft_wr wr = {.opcode = WEFT_WR_READ, .rdma = {(uint32_t)a->c.d, a->c.e}};

	post_rdma(cl, arg, data, &wr);
}

static void
cmd_post_flush(void *arg, struct cmdline *cl, void *data)
{
	struct post_args *a = arg;
	struct post_options o;
	struct console_qp *q = begin(cl, a, data, &o);
	struct weft_wr wr = {.opcode = WEFT_WR_FLUSH,
	                     .flush = {(uint32_t)a->c.b, a->c.c, (uint32_t)a->c.d, 0}};

	if (q == NULL)
		return;
	if (strchr(a->c.s1, 'p') != NULL)
		wr.flush.flags |= WEFT_FLUSH_PERSISTENT;
	if (strchr(a->c.s1, 'v') != NULL)
		wr.flush.flags |= WEFT_FLUSH_VISIBLE;
	if (strchr(a->c.s1, 'r') != NULL)
		wr.flush.flags |= WEFT_FLUSH_REGION | WEFT_FLUSH_PERSISTENT;
	post_wr(cl, q, &wr, &o);
}

/**
 * Take an expected hash off the front of the rest. Its octets; 0: there is none, because the first
 * word is an option; -1 after a message.
 */
static int
take_hash(struct cmdline *cl, const char **rest, uint8_t hash[WEFT_HASH_MAX_BYTES])
{
	const char *p = *rest + strspn(*rest, " \t");
	const size_t n = strspn(p, "0123456789abcdefABCDEF");

	if (n == 0 || strchr(" \t\r", p[n]) == NULL)
		return 0;
	if (n % 2 != 0 || n / 2 > WEFT_HASH_MAX_BYTES) {
		console_wrong(cl,
		              "verify: the expected hash is not a string of hexadecimal octets");
		return -1;
	}
	for (size_t i = 0; i < n / 2; i++)
		sscanf(&p[2 * i], "%2hhx", &hash[i]);
	*rest = p + n;
	return (int)(n / 2);
}

static void
cmd_post_verify(void *arg, struct cmdline *cl, void *data)
{
	struct post_args *a = arg;
	const char *rest = data != NULL ? a->rest : "";
	struct weft_wr wr = {
	        .opcode = WEFT_WR_VERIFY,
	        .verify = {.stag = (uint32_t)a->c.b, .to = a->c.c, .len_bytes = (uint32_t)a->c.d}};
	uint8_t hash[WEFT_HASH_MAX_BYTES];
	struct post_options o;
	struct console_qp *q;
	const int n = take_hash(cl, &rest, hash);

	if (n < 0 || !post_options(cl, rest, data, &o))
		return;
	q = console_qp(cl, a->c.a);
	if (n > 0) {
		wr.verify.expect = hash;
		wr.verify.expect_bytes = (uint32_t)n;
	}
	if (q != NULL)
		post_wr(cl, q, &wr, &o);
}

/** Eight octets, the most significant first. */
static void
octets_of(uint64_t v, uint8_t octets[8])
{
	for (int i = 0; i < 8; i++)
		octets[i] = (uint8_t)(v >> (56 - 8 * i));
}

/** Post a request that is complete but for its QP and options. */
static void
post_plain(struct cmdline *cl, const struct post_args *a, const void *data, struct weft_wr *wr)
{
	struct post_options o;
	struct console_qp *q = begin(cl, a, data, &o);

	if (q != NULL)
		post_wr(cl, q, wr, &o);
}

static void
cmd_post_atomic(void *arg, struct cmdline *cl, void *data)
{
	struct post_args *a = arg;
	struct weft_wr wr = {.opcode = WEFT_WR_ATOMIC_WRITE,
	                     .atomic_write = {.stag = (uint32_t)a->c.b, .to = a->c.c}};

	octets_of(a->c.d, wr.atomic_write.data);
	post_plain(cl, a, data, &wr);
}

static void
cmd_post_fetch_add(void *arg, struct cmdline *cl, void *data)
{
	struct post_args *a = arg;
	struct weft_wr wr = {.opcode = WEFT_WR_FETCH_ADD,
	                     .atomic = {.stag = (uint32_t)a->c.b, .to = a->c.c, .data = a->c.d}};

	post_plain(cl, a, data, &wr);
}

static void
cmd_post_mfetch_add(void *arg, struct cmdline *cl, void *data)
{
	struct post_args *a = arg;
	struct weft_wr wr = {
	        .opcode = WEFT_WR_MASKED_FETCH_ADD,
	        .atomic = {.stag = (uint32_t)a->c.b, .to = a->c.c, .data = a->c.d, .mask = a->c.e}};

	post_plain(cl, a, data, &wr);
}

static void
cmd_post_cmp_swap(void *arg, struct cmdline *cl, void *data)
{
	struct post_args *a = arg;
	struct weft_wr wr = {
	        .opcode = WEFT_WR_CMP_SWAP,
	        .atomic = {
	                .stag = (uint32_t)a->c.b, .to = a->c.c, .compare = a->c.d, .data = a->c.e}};

	post_plain(cl, a, data, &wr);
}

static void
cmd_post_mcmp_swap(void *arg, struct cmdline *cl, void *data)
{
	struct post_args *a = arg;
	struct weft_wr wr = {.opcode = WEFT_WR_MASKED_CMP_SWAP,
	                     .atomic = {.stag = (uint32_t)a->c.b,
	                                .to = a->c.c,
	                                .compare = a->c.d,
	                                .data = a->c.e,
	                                .compare_mask = a->c.f,
	                                .mask = a->c.g}};

	post_plain(cl, a, data, &wr);
}

static void
cmd_post_imm(void *arg, struct cmdline *cl, void *data)
{
	struct post_args *a = arg;
	struct weft_wr wr = {.opcode = WEFT_WR_IMM};

	octets_of(a->c.b, wr.imm.data);
	post_plain(cl, a, data, &wr);
}

static void
cmd_post_write_imm(void *arg, struct cmdline *cl, void *data)
{
	struct post_args *a = arg;
	struct weft_wr wr = {.opcode = WEFT_WR_WRITE_IMM,
	                     .write_imm = {.stag = (uint32_t)a->c.d, .to = a->c.e}};

	octets_of(a->c.f, wr.write_imm.data);
	post_rdma(cl, a, data, &wr);
}

static void
cmd_chain_begin(void *arg, struct cmdline *cl, void *data)
{
	(void)arg;
	(void)data;
	if (con.chain.open)
		console_fail(cl, "chain: one has begun; 'chain post' or 'chain drop' ends it");
	con.chain.open = true;
}

static void
cmd_chain_post(void *arg, struct cmdline *cl, void *data)
{
	(void)arg;
	(void)data;
	post_chain(cl);
}

static void
cmd_chain_drop(void *arg, struct cmdline *cl, void *data)
{
	(void)arg;
	(void)cl;
	(void)data;
	post_chain_drop();
}

POST_CMD(post_send, cmd_post_send, "post send QP TEXT [OPTIONS]", (void *)&tok_send,
         (void *)&tok_qp, (void *)&tok_s1);
POST_CMD(post_send_inv, cmd_post_send_inv,
         "post send-invalidate QP STAG TEXT [OPTIONS]: the peer's STag becomes invalid",
         (void *)&tok_send_inv, (void *)&tok_qp, (void *)&tok_b, (void *)&tok_s1);
POST_CMD(post_write, cmd_post_write,
         "post write QP REGION OFFSET BYTES STAG REMOTE-OFFSET [OPTIONS]", (void *)&tok_write,
         (void *)&tok_qp, (void *)&tok_region_s1, (void *)&tok_b, (void *)&tok_c, (void *)&tok_d,
         (void *)&tok_e);
POST_CMD(post_write_imm, cmd_post_write_imm,
         "post write-imm QP REGION OFFSET BYTES STAG REMOTE-OFFSET VALUE [OPTIONS]: a Write, "
         "then immediate data",
         (void *)&tok_write_imm, (void *)&tok_qp, (void *)&tok_region_s1, (void *)&tok_b,
         (void *)&tok_c, (void *)&tok_d, (void *)&tok_e, (void *)&tok_f);
POST_CMD(post_read, cmd_post_read, "post read QP REGION OFFSET BYTES STAG REMOTE-OFFSET [OPTIONS]",
         (void *)&tok_read, (void *)&tok_qp, (void *)&tok_region_s1, (void *)&tok_b, (void *)&tok_c,
         (void *)&tok_d, (void *)&tok_e);
POST_CMD(post_flush, cmd_post_flush,
         "post flush QP STAG OFFSET BYTES p|v|pv|r [OPTIONS]: persistence, visibility, whole "
         "region",
         (void *)&tok_flush, (void *)&tok_qp, (void *)&tok_b, (void *)&tok_c, (void *)&tok_d,
         (void *)&tok_flags);
POST_CMD(post_verify, cmd_post_verify,
         "post verify QP STAG OFFSET BYTES [HASH] [OPTIONS]: compute the hash, or compare it",
         (void *)&tok_verify, (void *)&tok_qp, (void *)&tok_b, (void *)&tok_c, (void *)&tok_d);
POST_CMD(post_atomic, cmd_post_atomic,
         "post atomic-write QP STAG OFFSET VALUE [OPTIONS]: eight octets, most significant first",
         (void *)&tok_atomic, (void *)&tok_qp, (void *)&tok_b, (void *)&tok_c, (void *)&tok_d);
POST_CMD(post_fetch_add, cmd_post_fetch_add,
         "post fetch-add QP STAG OFFSET VALUE [OPTIONS]: add to the peer's 64-bit integer",
         (void *)&tok_fetch_add, (void *)&tok_qp, (void *)&tok_b, (void *)&tok_c, (void *)&tok_d);
POST_CMD(post_mfetch_add, cmd_post_mfetch_add,
         "post masked-fetch-add QP STAG OFFSET VALUE MASK [OPTIONS]: each set bit ends a field",
         (void *)&tok_mfetch_add, (void *)&tok_qp, (void *)&tok_b, (void *)&tok_c, (void *)&tok_d,
         (void *)&tok_e);
POST_CMD(post_cmp_swap, cmd_post_cmp_swap,
         "post cmp-swap QP STAG OFFSET COMPARE SWAP [OPTIONS]: set it to SWAP if it is COMPARE",
         (void *)&tok_cmp_swap, (void *)&tok_qp, (void *)&tok_b, (void *)&tok_c, (void *)&tok_d,
         (void *)&tok_e);
POST_CMD(post_mcmp_swap, cmd_post_mcmp_swap,
         "post masked-cmp-swap QP STAG OFFSET COMPARE SWAP MASK SWAP-MASK [OPTIONS]",
         (void *)&tok_mcmp_swap, (void *)&tok_qp, (void *)&tok_b, (void *)&tok_c, (void *)&tok_d,
         (void *)&tok_e, (void *)&tok_f, (void *)&tok_g);
POST_CMD(post_imm, cmd_post_imm,
         "post imm QP VALUE [OPTIONS]: eight octets of immediate data, most significant first",
         (void *)&tok_imm, (void *)&tok_qp, (void *)&tok_b);
static CMD(cmd_begin, cmd_chain_begin, "chain begin: keep the work requests that are posted now",
           (void *)&tok_chain, (void *)&tok_begin);
static CMD(cmd_chain, cmd_chain_post, "chain post: post what was kept, in one call",
           (void *)&tok_chain, (void *)&tok_chain_post);
static CMD(cmd_drop, cmd_chain_drop, "chain drop: give up what was kept", (void *)&tok_chain,
           (void *)&tok_drop);

cmdline_parse_inst_t *const cmds_post[] = {&post_send,       &post_send_rest,
                                           &post_send_inv,   &post_send_inv_rest,
                                           &post_write,      &post_write_rest,
                                           &post_write_imm,  &post_write_imm_rest,
                                           &post_read,       &post_read_rest,
                                           &post_flush,      &post_flush_rest,
                                           &post_verify,     &post_verify_rest,
                                           &post_atomic,     &post_atomic_rest,
                                           &post_fetch_add,  &post_fetch_add_rest,
                                           &post_mfetch_add, &post_mfetch_add_rest,
                                           &post_cmp_swap,   &post_cmp_swap_rest,
                                           &post_mcmp_swap,  &post_mcmp_swap_rest,
                                           &post_imm,        &post_imm_rest,
                                           &cmd_begin,       &cmd_chain,
                                           &cmd_drop,        NULL};
