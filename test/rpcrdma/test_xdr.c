/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Reduced Payload streams (draft s4.4.2, s4.5.2.4, s4.5.3): items are removed by address, and
 * inserted by position or by order. The decoded structure equals the encoded one.
 */

#include <errno.h>
#include <stdlib.h>

#include "rpcrdma_wire.h"
#include "rpcrdma_xdr.h"
#include "weft_test.h"
#include "xdr_arg.h"

/* A member of each kind: numbers between opaques, a string, fixed and counted octets. */
struct thing {
	uint32_t first;
	u_int a_len;
	char *a;
	uint64_t middle;
	char *name;
	char fixed[6];
	u_int b_len;
	char *b;
	uint32_t last;
};

#define THING_MAX 20000

/** Whether every item was taken whole and nothing of the stream is left. */
static bool
drained(const struct rpcrdma_in *in)
{
	return in->next == in->nitems && in->in_item_bytes == 0 && in->pad_bytes == 0 &&
	       in->at_bytes == in->len_bytes;
}

static bool_t
xdr_thing(XDR *x, ...)
{
	struct thing *t;

	XDR_ARG(x, t);
	return xdr_u_int(x, &t->first) && xdr_bytes(x, &t->a, &t->a_len, THING_MAX) &&
	       xdr_u_int64_t(x, &t->middle) && xdr_string(x, &t->name, 255) &&
	       xdr_opaque(x, t->fixed, sizeof(t->fixed)) &&
	       xdr_bytes(x, &t->b, &t->b_len, THING_MAX) && xdr_u_int(x, &t->last);
}

static char a_mem[THING_MAX], b_mem[THING_MAX], name_mem[256];

static void
thing_make(struct thing *t, uint32_t a_len, uint32_t name_len, uint32_t b_len)
{
	for (uint32_t i = 0; i < a_len; i++)
		a_mem[i] = (char)(i * 31 + 7);
	for (uint32_t i = 0; i < b_len; i++)
		b_mem[i] = (char)(i * 17 + 3);
	memset(name_mem, 'n', name_len);
	name_mem[name_len] = '\0';
	*t = (struct thing){.first = 0x80000001,
	                    .a_len = a_len,
	                    .a = a_mem,
	                    .middle = 0x0102030405060708,
	                    .name = name_mem,
	                    .fixed = "fixed",
	                    .b_len = b_len,
	                    .b = b_mem,
	                    .last = 0xfffffffe};
}

static void
thing_check(const struct thing *got, const struct thing *want)
{
	CHECK_EQ(got->first, want->first);
	CHECK_EQ(got->a_len, want->a_len);
	CHECK_MEM(got->a, want->a, want->a_len);
	CHECK_EQ(got->middle, want->middle);
	CHECK_STR(got->name, want->name);
	CHECK_MEM(got->fixed, want->fixed, sizeof(want->fixed));
	CHECK_EQ(got->b_len, want->b_len);
	CHECK_MEM(got->b, want->b, want->b_len);
	CHECK_EQ(got->last, want->last);
}

static uint32_t
up4(uint32_t n)
{
	return (n + 3) & ~3u;
}

/* Encode with the items of `mask` removed: 1 a, 2 name, 4 b. */
static void
encode(struct rpcrdma_out *o, struct thing *t, unsigned int mask)
{
	const struct weft_rpc_item all[] = {
	        {t->a, t->a_len}, {t->name, (uint32_t)strlen(t->name)}, {t->b, t->b_len}};
	XDR x;

	memset(o, 0, sizeof(*o));
	o->max_bytes = 1u << 20;
	for (unsigned int i = 0; i < 3; i++)
		if ((mask & 1u << i) && all[i].len_bytes > 0)
			o->items[o->nitems++] = all[i];
	rpcrdma_out_open(o, &x);
	CHECK(xdr_thing(&x, t));
	CHECK_EQ(xdr_getpos(&x), 4 + 4 + up4(t->a_len) + 8 + 4 + up4((uint32_t)strlen(t->name)) +
	                                 8 + 4 + up4(t->b_len) + 4);
}

static void
test_by_position(void)
{
	for (uint32_t len = 0; len < 40; len++) {
		for (unsigned int mask = 0; mask < 8; mask++) {
			struct thing t, got = {0};
			struct rpcrdma_out o;
			struct rpcrdma_in in = {0};
			uint8_t *buf;
			XDR x;

			thing_make(&t, len, (len * 7) % 19, 40 - len);
			encode(&o, &t, mask);
			for (unsigned int i = 0; i < o.nitems; i++) {
				CHECK(o.pos[i] != UINT32_MAX);
				CHECK_EQ(o.pos[i] % 4, 0); /* s4.5.1 */
				in.items[i] = (struct rpcrdma_in_item){
				        o.items[i].addr, o.items[i].len_bytes, o.pos[i]};
			}
			in.nitems = o.nitems;
			in.buf = buf = test_heap_copy(o.buf, o.len_bytes);
			in.len_bytes = o.len_bytes;
			rpcrdma_in_open(&in, &x);
			CHECK(xdr_thing(&x, &got));
			thing_check(&got, &t);
			CHECK(drained(&in));
			xdr_free(xdr_thing, (char *)&got);
			free(buf);
			rpcrdma_out_free(&o);
		}
	}
}

/* Results have no positions. Only counted opaques that are not empty are counted. */
static void
test_by_order(void)
{
	for (uint32_t len = 1; len < 40; len++) {
		for (unsigned int mask = 0; mask < 8; mask++) {
			/* a, name, fixed, b */
			static const uint32_t nth[] = {0, 1, 3};
			struct thing t, got = {0};
			struct rpcrdma_out o;
			struct rpcrdma_in in = {.by_order = true};
			char *placed = malloc(THING_MAX);
			XDR x;

			thing_make(&t, len, 1 + (len * 7) % 19, 41 - len);
			encode(&o, &t, mask);
			for (unsigned int i = 0, k = 0; i < 3; i++) {
				if (!(mask & 1u << i))
					continue;
				in.items[k] = (struct rpcrdma_in_item){
				        o.items[k].addr, o.items[k].len_bytes, nth[i], true};
				k++;
			}
			in.nitems = o.nitems;
			/* the peer placed b where the structure has it */
			if (mask & 4) {
				memcpy(placed, t.b, t.b_len);
				in.items[in.nitems - 1].data = (uint8_t *)placed;
				got.b = placed;
			}
			in.buf = o.buf;
			in.len_bytes = o.len_bytes;
			rpcrdma_in_open(&in, &x);
			rpcrdma_in_results(&in, &got);
			CHECK(xdr_thing(&x, &got));
			thing_check(&got, &t);
			CHECK(drained(&in));
			if (mask & 4) {
				CHECK(got.b == placed);
				got.b = NULL;
				got.b_len = 0;
			}
			xdr_free(xdr_thing, (char *)&got);
			free(placed);
			rpcrdma_out_free(&o);
		}
	}
}

/*
 * An empty opaque before the result is not visible, yet `b` is still the fourth. If the message
 * could hold the item, the next octets are taken for it. A wrong guess is detected.
 */
static void
test_behind_empty(void)
{
	for (uint32_t len = 1; len < 60; len++) {
		for (unsigned int empty = 0; empty < 4; empty++) {
			struct thing t, got = {0};
			struct rpcrdma_out o;
			struct rpcrdma_in in = {.by_order = true, .nitems = 1};
			bool ok;
			XDR x;

			thing_make(&t, empty & 1 ? 0 : 21, empty & 2 ? 0 : 9, len);
			encode(&o, &t, 4);
			in.items[0] = (struct rpcrdma_in_item){(uint8_t *)t.b, len, 3, true};
			in.buf = o.buf;
			in.len_bytes = o.len_bytes;
			rpcrdma_in_open(&in, &x);
			rpcrdma_in_results(&in, &got);
			ok = xdr_thing(&x, &got) && drained(&in);
			/* one word follows it */
			CHECK_EQ(ok, empty == 0 || len > 4);
			if (ok)
				thing_check(&got, &t);
			xdr_free(xdr_thing, (char *)&got);
			rpcrdma_out_free(&o);
		}
	}
}

/* Without a zero before it there is no empty opaque: the next opaque is the item, whatever its
 * length. */
static void
test_not_behind_empty(void)
{
	struct rpcrdma_in in = {.by_order = true, .nitems = 1};
	struct thing t, got = {0};
	struct rpcrdma_out o;
	XDR x;

	thing_make(&t, 21, 9, 400);
	encode(&o, &t, 4);
	in.items[0] = (struct rpcrdma_in_item){(uint8_t *)t.b, 400, 4, true};
	in.buf = o.buf;
	in.len_bytes = o.len_bytes;
	rpcrdma_in_open(&in, &x);
	rpcrdma_in_results(&in, &got);
	CHECK(!xdr_thing(&x, &got));
	xdr_free(xdr_thing, (char *)&got);
	rpcrdma_out_free(&o);
}

/* Truncated at every octet; every item too short, too long, or elsewhere: refused or decoded,
 * and never read beyond its end. */
static void
test_wrong(void)
{
	struct thing t;
	struct rpcrdma_out o;
	uint32_t pos;

	thing_make(&t, 13, 5, 22);
	encode(&o, &t, 1);
	pos = o.pos[0];
	CHECK_EQ(pos, 8);
	for (uint32_t cut = 0; cut < o.len_bytes; cut++) {
		struct thing got = {0};
		uint8_t *buf = test_heap_copy(o.buf, cut);
		struct rpcrdma_in in = {.buf = buf,
		                        .len_bytes = cut,
		                        .items = {{(uint8_t *)t.a, t.a_len, pos}},
		                        .nitems = 1};
		XDR x;

		rpcrdma_in_open(&in, &x);
		CHECK(!xdr_thing(&x, &got));
		xdr_free(xdr_thing, (char *)&got);
		free(buf);
	}
	for (uint32_t len = 0; len < 30; len++) {
		for (uint32_t at = 0; at < 100; at += 4) {
			struct thing got = {0};
			uint8_t *data = test_heap_copy((uint8_t *)a_mem, len);
			struct rpcrdma_in in = {.buf = o.buf,
			                        .len_bytes = o.len_bytes,
			                        .items = {{data, len, at}},
			                        .nitems = len > 0};
			bool ok;
			XDR x;

			rpcrdma_in_open(&in, &x);
			ok = xdr_thing(&x, &got) && drained(&in);
			/* with the padding inside the chunk it is the same message (RFC 8166
			 * s3.4.5) */
			CHECK_EQ(ok, at == pos && (len == t.a_len || len == up4(t.a_len)));
			xdr_free(xdr_thing, (char *)&got);
			free(data);
		}
	}
	rpcrdma_out_free(&o);
}

/* Like xdr_thing when decoding, but long members are lent. */
static bool
lent_thing(XDR *x, struct thing *t)
{
	if (!xdr_u_int(x, &t->first) || !xdr_u_int(x, &t->a_len))
		return false;
	t->a = t->a_len > 0 ? weft_rpc_xdr_lend(x, t->a_len) : name_mem;
	if (t->a == NULL || !xdr_u_int64_t(x, &t->middle) || !xdr_string(x, &t->name, 255) ||
	    !xdr_opaque(x, t->fixed, sizeof(t->fixed)) || !xdr_u_int(x, &t->b_len))
		return false;
	t->b = t->b_len > 0 ? weft_rpc_xdr_lend(x, t->b_len) : name_mem;
	return t->b != NULL && xdr_u_int(x, &t->last);
}

/* In the message or in a chunk, with or without padding in the chunk: lent in place, and never
 * beyond the end. */
static void
test_lent(void)
{
	for (uint32_t len = 0; len < 40; len++) {
		for (unsigned int mask = 0; mask < 16; mask++) {
			bool padded = mask & 8; /* items are followed by their padding */
			struct thing t, got = {0};
			struct rpcrdma_out o;
			struct rpcrdma_in in = {0};
			uint8_t *buf, *item[3] = {0};
			XDR x;

			thing_make(&t, len, (len * 7) % 19, 40 - len);
			encode(&o, &t, mask & 7);
			for (unsigned int i = 0; i < o.nitems; i++) {
				uint32_t n = o.items[i].len_bytes;

				if (padded && o.items[i].addr != t.name)
					n = up4(n);
				item[i] = calloc(1, n);
				memcpy(item[i], o.items[i].addr, o.items[i].len_bytes);
				in.items[i] = (struct rpcrdma_in_item){item[i], n, o.pos[i]};
			}
			in.nitems = o.nitems;
			buf = test_heap_copy(o.buf, o.len_bytes);
			for (uint32_t cut = 0; cut <= o.len_bytes; cut++) {
				uint8_t *part = test_heap_copy(buf, cut);
				bool ok;

				in.buf = part;
				in.len_bytes = cut;
				memset(&got, 0, sizeof(got));
				rpcrdma_in_open(&in, &x);
				ok = lent_thing(&x, &got);
				CHECK_EQ(ok, cut == o.len_bytes);
				if (ok) {
					thing_check(&got, &t);
					CHECK(drained(&in));
					if ((mask & 1) && len > 0)
						CHECK(got.a == (char *)item[0]);
				}
				free(got.name);
				free(part);
			}
			for (unsigned int i = 0; i < 3; i++)
				free(item[i]);
			free(buf);
			rpcrdma_out_free(&o);
		}
	}
}

/* Half an item, results, a stream of another library, an empty stream: not lent. */
static void
test_not_lent(void)
{
	uint8_t octets[64] = {0};
	struct rpcrdma_in in = {
	        .buf = octets, .len_bytes = 16, .items = {{octets + 32, 16, 8}}, .nitems = 1};
	uint32_t v;
	XDR x;

	rpcrdma_in_open(&in, &x);
	CHECK(weft_rpc_xdr_lend(&x, 0) == NULL);
	CHECK(weft_rpc_xdr_lend(&x, 12) == NULL); /* in the middle of the item */
	CHECK(weft_rpc_xdr_lend(&x, UINT32_MAX) == NULL);
	CHECK(weft_rpc_xdr_lend(&x, 8) == octets);
	CHECK(weft_rpc_xdr_lend(&x, 12) == NULL);
	CHECK(weft_rpc_xdr_lend(&x, 17) == NULL);
	CHECK(xdr_u_int(&x, &v));
	CHECK(weft_rpc_xdr_lend(&x, 12) == NULL); /* already begun */
	in.by_order = true;
	rpcrdma_in_open(&in, &x);
	CHECK(weft_rpc_xdr_lend(&x, 8) == NULL);
	xdrmem_create(&x, (char *)octets, sizeof(octets), XDR_DECODE);
	CHECK(weft_rpc_xdr_lend(&x, 8) == NULL);
}

static void
test_limits(void)
{
	struct thing t;
	struct rpcrdma_out o = {.max_bytes = 99};
	XDR x;

	thing_make(&t, 40, 3, 40);
	rpcrdma_out_open(&o, &x);
	CHECK(!xdr_thing(&x, &t));
	CHECK_EQ(o.error, -EMSGSIZE);
	/* removed items count as well */
	o.items[0] = (struct weft_rpc_item){t.b, t.b_len};
	o.nitems = 1;
	rpcrdma_out_open(&o, &x);
	CHECK(!xdr_thing(&x, &t));
	CHECK_EQ(o.error, -EMSGSIZE);
	o.max_bytes = 200;
	rpcrdma_out_open(&o, &x);
	CHECK(xdr_thing(&x, &t));
	CHECK_EQ(o.error, 0);
	rpcrdma_out_free(&o);
	/* the same octets twice: the first is the item */
	o = (struct rpcrdma_out){.max_bytes = 1000, .nitems = 1};
	t.a = t.b;
	o.items[0] = (struct weft_rpc_item){t.b, t.b_len};
	rpcrdma_out_open(&o, &x);
	CHECK(xdr_thing(&x, &t));
	CHECK_EQ(o.pos[0], 8);
	CHECK_EQ(o.removed_bytes, 40);
	rpcrdma_out_free(&o);
}

WEFT_TEST_MAIN({"s4.5.1 items by position", test_by_position},
               {"s4.5.2 items by order", test_by_order}, {"behind empty", test_behind_empty},
               {"not behind empty", test_not_behind_empty},
               {"streams and items that do not fit", test_wrong}, {"limits", test_limits},
               {"lent", test_lent}, {"not lent", test_not_lent})
