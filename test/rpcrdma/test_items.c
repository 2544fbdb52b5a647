/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Which items are moved by chunks, and which result arrives in which Write chunk: counted
 * arrays and optional data (draft s4.5.3.2, s4.5.3.3), a union with one arm that has no eligible
 * item, missing results, and peers that move an item that is not eligible or leave out an eligible
 * one (RFC 8166 s3.4.4, s4.3.2, s6.1).
 */

#include <stdlib.h>

#include "rpcrdma_call.h"
#include "observer.h"
#include <weft/rpc_xdr.h>
#include "weft_test.h"
#include "xdr_arg.h"

#define PROG     0x20000079
#define BLOB_MAX 100000
#define LIST_MAX 10000

enum { HOLE, DATA };                          /* arms of the union */
enum { AT_A, AT_LIST, AT_OPT, AT_B, NITEMS }; /* eligible, in the order of the XDR */

struct entry {
	uint32_t id;
	char *name;
};

/* union { opaque a<>; void }; string tag; entry list<>; entry *opt; opaque b<>: for arguments
 * and results. */
struct thing {
	uint32_t kind;
	u_int a_len;
	char *a;
	char *tag; /* never eligible */
	u_int n;
	struct entry *list;
	struct entry *opt;
	u_int b_len;
	char *b;
};

static struct rig rig;
static struct obs obs;

/* ---- XDR ---- */

static bool_t
xdr_entry(XDR *x, ...)
{
	struct entry *e;

	XDR_ARG(x, e);
	return xdr_u_int(x, &e->id) && xdr_string(x, &e->name, 255);
}

static bool_t
xdr_list(XDR *x, struct thing *t)
{
	return xdr_array(x, (char **)&t->list, &t->n, LIST_MAX, sizeof(*t->list), xdr_entry);
}

static bool_t
xdr_opt(XDR *x, struct thing *t)
{
	return xdr_pointer(x, (char **)&t->opt, sizeof(*t->opt), xdr_entry);
}

static bool_t
xdr_thing(XDR *x, ...)
{
	struct thing *t;

	XDR_ARG(x, t);
	return xdr_u_int(x, &t->kind) && t->kind <= DATA &&
	       (t->kind == HOLE || xdr_bytes(x, &t->a, &t->a_len, BLOB_MAX)) &&
	       xdr_string(x, &t->tag, 255) && xdr_list(x, t) && xdr_opt(x, t) &&
	       xdr_bytes(x, &t->b, &t->b_len, BLOB_MAX);
}

/* Octets that belong to the caller and are not freed by XDR. */
static bool_t
xdr_thing_kept(XDR *x, ...)
{
	struct thing *t;

	XDR_ARG(x, t);
	if (x->x_op == XDR_FREE)
		t->a = t->tag = t->b = NULL;
	return xdr_thing(x, t);
}

static uint32_t
up4(uint32_t n)
{
	return (n + 3) & ~3u;
}

static uint32_t
entry_bytes(const struct entry *e)
{
	return 8 + up4((uint32_t)strlen(e->name));
}

/* Octets of the item in XDR, without count, flag or padding. 0: the item is missing. */
static uint32_t
item_bytes(const struct thing *t, unsigned int i)
{
	uint32_t sum = 0;

	switch (i) {
	case AT_A:
		return t->kind == DATA ? t->a_len : 0;
	case AT_LIST:
		for (u_int k = 0; k < t->n; k++)
			sum += entry_bytes(&t->list[k]);
		return sum;
	case AT_OPT:
		return t->opt != NULL ? entry_bytes(t->opt) : 0;
	default:
		return t->b_len;
	}
}

static uint32_t
thing_bytes(const struct thing *t)
{
	uint32_t sum = 4 + (t->kind == DATA) * 4 + 4 + up4((uint32_t)strlen(t->tag)) + 4 + 4 + 4;

	for (unsigned int i = 0; i < NITEMS; i++)
		sum += up4(item_bytes(t, i));
	return sum;
}

/* ---- Things ---- */

static char *
text(uint32_t len, char c)
{
	char *p = malloc(len + 1);

	memset(p, c, len);
	p[len] = '\0';
	return p;
}

static void
entry_make(struct entry *e, uint32_t i)
{
	*e = (struct entry){.id = i * 7 + 1, .name = text(i % 37, (char)('a' + i % 26))};
}

/* Octets a in the union (0: the other arm), n elements, optional data if opt, and octets b. */
static struct thing
thing_make(uint32_t a, uint32_t n, bool opt, uint32_t b)
{
	struct thing t = {.kind = a > 0, .a_len = a, .tag = text(11, 't'), .n = n, .b_len = b};

	t.a = a > 0 ? malloc(a) : NULL;
	t.b = malloc(b + 1);
	rig_octets(t.a, a, a + 1);
	rig_octets(t.b, b, b + 2);
	t.list = calloc(n + 1, sizeof(*t.list));
	for (uint32_t i = 0; i < n; i++)
		entry_make(&t.list[i], i);
	if (opt) {
		t.opt = malloc(sizeof(*t.opt));
		entry_make(t.opt, 33);
	}
	return t;
}

static void
thing_free(struct thing *t)
{
	for (u_int i = 0; i < t->n; i++)
		free(t->list[i].name);
	if (t->opt != NULL)
		free(t->opt->name);
	free(t->opt);
	free(t->list);
	free(t->a);
	free(t->b);
	free(t->tag);
}

static bool
entry_same(const struct entry *x, const struct entry *y)
{
	return x->id == y->id && strcmp(x->name, y->name) == 0;
}

static bool
thing_same(const struct thing *x, const struct thing *y)
{
	if (x->kind != y->kind || strcmp(x->tag, y->tag) != 0 || x->n != y->n ||
	    x->b_len != y->b_len || (x->b_len > 0 && memcmp(x->b, y->b, y->b_len) != 0) ||
	    (x->opt == NULL) != (y->opt == NULL))
		return false;
	if (x->kind == DATA && (x->a_len != y->a_len || memcmp(x->a, y->a, y->a_len) != 0))
		return false;
	for (u_int i = 0; i < x->n; i++)
		if (!entry_same(&x->list[i], &y->list[i]))
			return false;
	return x->opt == NULL || entry_same(x->opt, y->opt);
}

/* ---- Bindings ---- */

static unsigned int
thing_items(const void *p, struct weft_rpc_item *items)
{
	const struct thing *t = p;

	items[AT_A] = (struct weft_rpc_item){t->a, t->kind == DATA ? t->a_len : 0};
	items[AT_LIST] = (struct weft_rpc_item){t->list, t->n, WEFT_RPC_XDR};
	items[AT_OPT] = (struct weft_rpc_item){t->opt, t->opt != NULL, WEFT_RPC_XDR};
	items[AT_B] = (struct weft_rpc_item){t->b, t->b_len};
	return NITEMS;
}

static uint32_t sink_max[NITEMS];

static unsigned int
thing_sinks(const void *p, struct weft_rpc_sink *sinks)
{
	(void)p;
	for (unsigned int i = 0; i < NITEMS; i++)
		sinks[i] = (struct weft_rpc_sink){NULL, sink_max[i], 99};
	return NITEMS;
}

static uint32_t
long_reply(const void *args)
{
	(void)args;
	return 200000;
}

static const struct weft_rpc_binding honest = {.args = thing_items,
                                               .sinks = thing_sinks,
                                               .results = thing_items,
                                               .placed = thing_items,
                                               .reply_bytes = long_reply};

/* ---- The program: it returns its arguments ---- */

static unsigned int served;
static struct thing answer; /* returned instead of the arguments, if it has a tag */

static enum weft_rpc_status
serve(void *user, void *args, void *res)
{
	struct thing *t = args;

	(void)user;
	served++;
	*(struct thing *)res = answer.tag != NULL ? answer : *t;
	if (answer.tag == NULL)
		memset(t, 0, sizeof(*t));
	memset(&answer, 0, sizeof(answer));
	return WEFT_RPC_OK;
}

static struct weft_rpc_binding servers;
static const struct weft_rpc_proc procs[] = {
        [1] = {xdr_thing, xdr_thing, sizeof(struct thing), sizeof(struct thing), serve,
               .binding = &servers},
        [2] = {xdr_thing, xdr_thing, sizeof(struct thing), sizeof(struct thing), serve},
        [3] = {xdr_thing, xdr_thing, sizeof(struct thing), sizeof(struct thing), serve,
               .binding = &servers, .once = true},
};
static const struct weft_rpc_program program = {PROG, 1, procs, 4};
static const struct weft_rpc_program *const programs[] = {&program, NULL};

/* ---- Calls ---- */

static struct {
	unsigned int n;
	enum weft_rpc_status status;
	bool same;
	uint32_t xid;
} got;
static struct thing want;

static void
on_answer(void *arg, enum weft_rpc_status status, void *res)
{
	(void)arg;
	got.n++;
	got.status = status;
	got.same = res != NULL && thing_same(res, &want);
}

/* The last call and the last reply without error on the wire: headers and reduced streams. */
static struct {
	struct rpcrdma_hdr h;
	uint8_t buf[70000];
	uint32_t len_bytes;
} seen[2];
static void (*next_on_post)(struct weft_qp *qp, const void *buf, uint32_t len_bytes);

static void
see(struct weft_qp *qp, const void *buf, uint32_t len_bytes)
{
	struct rpcrdma_hdr h;
	enum rpcrdma_dir d;

	if (weft_rpcrdma_decode(buf, len_bytes, NULL, &h) == RPCRDMA_OK) {
		d = weft_rpcrdma_dir(&h, buf, len_bytes);
		if (d != RPCRDMA_DIR_NONE) {
			unsigned int i = d == RPCRDMA_DIR_REPLY;

			seen[i].h = h;
			seen[i].len_bytes = len_bytes - h.len_bytes;
			memcpy(seen[i].buf, (const uint8_t *)buf + h.len_bytes, seen[i].len_bytes);
		}
	}
	next_on_post(qp, buf, len_bytes);
}

static void
start(uint8_t vers, struct weft_rpc_drc *drc)
{
	struct rig_opts o = {.client_max = vers, .programs = programs, .drc = drc};

	servers = honest;
	served = 0;
	memset(seen, 0, sizeof(seen));
	rig_up(&rig, &o);
	CHECK_EQ(weft_rpc_set_peer_name(rig.s.rpc, "a", 1), 0);
	obs_watch(&obs, &rig);
	next_on_post = rig.c.qp.on_post;
	rig.c.qp.on_post = rig.s.qp.on_post = see;
}

static void
finish(void)
{
	rig_settle(&rig);
	CHECK_MSG(obs.fault == NULL, "%s", obs.fault);
	CHECK_EQ(fake_regions(), 0);
	rig_down(&rig);
}

static void
rooms_of(const struct thing *t)
{
	for (unsigned int i = 0; i < NITEMS; i++)
		sink_max[i] = item_bytes(t, i);
}

static uint32_t
call(uint32_t proc, struct thing *args, const struct weft_rpc_binding *b, const void *init,
     uint32_t xid)
{
	struct weft_rpc_call_attr a = {
	        .size = sizeof(a),
	        .prog = PROG,
	        .vers = 1,
	        .proc = proc,
	        .xdr_args = xdr_thing,
	        .args = args,
	        .xdr_res = init != NULL ? xdr_thing_kept : xdr_thing,
	        .res_bytes = sizeof(struct thing),
	        .res_init = init,
	        .binding = b,
	        .fn = on_answer,
	        .xid = xid,
	};

	memset(&got, 0, sizeof(got));
	if (answer.tag == NULL)
		want = *args;
	CHECK_EQ(weft_rpc_call_with(rig.c.rpc, &a), 0);
	xid = LIST_FIRST(&rig.c.rpc->calls)->xid;
	rig_settle(&rig);
	CHECK_EQ(got.n, 1);
	return xid;
}

static struct thing
answer_make(uint32_t a, uint32_t n, bool opt, uint32_t b)
{
	answer = thing_make(a, n, opt, b);
	want = thing_make(a, n, opt, b);
	return want;
}

/* ---- Counted arrays, optional data ---- */

/* Check the reduced stream from off on: it is the thing without the items of mask, and each of
 * these has a chunk of its length. */
static void
check_reduced(const uint8_t *p, uint32_t len, const struct thing *t, unsigned int mask)
{
	uint32_t left = thing_bytes(t), at = 0;

	for (unsigned int i = 0; i < NITEMS; i++)
		if (mask & 1u << i)
			left -= up4(item_bytes(t, i));
	CHECK_EQ(len, left);
	CHECK_EQ(weft_get_be32(p), t->kind);
	at = 4;
	if (t->kind == DATA) {
		CHECK_EQ(weft_get_be32(p + at), t->a_len);
		at += 4 + (mask & 1u << AT_A ? 0 : up4(t->a_len));
	}
	at += 4 + up4((uint32_t)strlen(t->tag));
	/* RFC 8166 s3.4.4.1: the count; s3.4.4.2: the flag, whether the data are there or not */
	CHECK_EQ(weft_get_be32(p + at), t->n);
	at += 4 + (mask & 1u << AT_LIST ? 0 : item_bytes(t, AT_LIST));
	CHECK_EQ(weft_get_be32(p + at), t->opt != NULL);
	at += 4 + (mask & 1u << AT_OPT ? 0 : item_bytes(t, AT_OPT));
	CHECK_EQ(weft_get_be32(p + at), t->b_len);
}

static void
check_call(const struct thing *t)
{
	const struct rpcrdma_chunks *c = &seen[0].h.chunks;
	unsigned int k = 0, mask = 0;
	uint32_t pos = 40 + 4;

	for (unsigned int i = 0; i < NITEMS; i++) {
		pos += i == AT_A ? (t->kind == DATA ? 4 : 0) : 4;
		if (i == AT_LIST)
			pos += 4 + up4((uint32_t)strlen(t->tag));
		if (item_bytes(t, i) == 0)
			continue;
		mask |= 1u << i;
		CHECK(k < c->n_reads);
		CHECK_EQ(c->reads[k].len_bytes, item_bytes(t, i));
		CHECK_EQ(c->reads[k++].position, pos);
		pos += up4(item_bytes(t, i));
	}
	CHECK_EQ(c->n_reads, k);
	check_reduced(seen[0].buf + 40, seen[0].len_bytes - 40, t, mask);
}

static void
check_reply(const struct thing *t)
{
	const struct rpcrdma_chunks *c = &seen[1].h.chunks;
	unsigned int k = 0, mask = 0;

	CHECK_EQ(c->n_writes, NITEMS);
	for (unsigned int i = 0; i < NITEMS; i++) {
		if (item_bytes(t, i) == 0)
			continue;
		mask |= 1u << i;
		CHECK_EQ(c->writes[k++].len_bytes, item_bytes(t, i));
	}
	for (; k < NITEMS; k++)
		CHECK_EQ(c->writes[k].len_bytes, 0);
	check_reduced(seen[1].buf + 24, seen[1].len_bytes - 24, t, mask);
}

static void
set_rooms(uint32_t a, uint32_t list, uint32_t opt, uint32_t b)
{
	sink_max[AT_A] = a;
	sink_max[AT_LIST] = list;
	sink_max[AT_OPT] = opt;
	sink_max[AT_B] = b;
}

static void
test_optional(void)
{
	for (unsigned int i = 0; i < 32; i++) {
		/* Long enough that the items do not fit inline. */
		struct thing t = thing_make(i & 2 ? 5001 : 0, i & 4 ? 300 : 0, i & 8,
		                            i & 16 || !(i & 6) ? 6003 : 0);

		start((uint8_t)(1 + i % 2), NULL);
		set_rooms(6003, 20000, 100, 6003);
		call(1, &t, &honest, NULL, 0);
		CHECK_EQ(got.status, WEFT_RPC_OK);
		CHECK(got.same);
		check_call(&t);
		check_reply(&t);
		finish();
		thing_free(&t);
	}
}

/* ---- Which chunk ---- */

/* RFC 8166 s4.3.2.2: a missing result leaves its chunk to the next result. Unused chunks are
 * returned empty. */
static void
test_unused(void)
{
	for (uint8_t vers = 1; vers <= 2; vers++) {
		struct thing t = thing_make(0, 0, true, 10);
		const struct rpcrdma_chunks *c = &seen[1].h.chunks;

		start(vers, NULL);
		set_rooms(100, 400, 600, 500);
		answer_make(0, 0, true, 500);
		call(1, &t, &honest, NULL, 0);
		CHECK_EQ(got.status, WEFT_RPC_OK);
		CHECK(got.same);
		CHECK_EQ(c->n_writes, NITEMS);
		CHECK_EQ(c->writes[0].len_bytes, item_bytes(&want, AT_OPT));
		CHECK_EQ(c->writes[1].len_bytes, 500);
		for (unsigned int i = 0; i < NITEMS; i++)
			CHECK_EQ(c->writes[i].n_segs, seen[0].h.chunks.writes[i].n_segs);
		CHECK_EQ(c->writes[2].len_bytes + c->writes[3].len_bytes, 0);
		check_reply(&want);
		finish();
		thing_free(&t);
		thing_free(&want);
	}
}

/* RFC 8166 s4.3.2.2: therefore each chunk has room for the longest result that may arrive in it. */
static void
test_room(void)
{
	for (uint8_t vers = 1; vers <= 2; vers++) {
		struct thing t = thing_make(0, 0, false, 10);
		const struct rpcrdma_chunks *c = &seen[0].h.chunks;

		start(vers, NULL);
		set_rooms(100, 9000, 50, 777);
		answer_make(0, 300, false, 0);
		CHECK(item_bytes(&want, AT_LIST) > 100 && item_bytes(&want, AT_LIST) <= 9000);
		call(1, &t, &honest, NULL, 0);
		CHECK_EQ(c->writes[0].len_bytes, 9000);
		CHECK_EQ(c->writes[1].len_bytes, 9000);
		CHECK_EQ(c->writes[2].len_bytes, 777);
		CHECK_EQ(c->writes[3].len_bytes, 777);
		CHECK_EQ(got.status, WEFT_RPC_OK);
		CHECK(got.same);
		finish();
		thing_free(&t);
		thing_free(&want);
	}
}

/* RFC 8166 s4.3.2.3: a result whose chunk is empty is sent inline, and the chunk is returned
 * empty. */
static void
test_empty(void)
{
	for (unsigned int i = 0; i < 2 * NITEMS; i++) {
		struct thing t = thing_make(0, 0, false, 10);
		const struct rpcrdma_chunks *c = &seen[1].h.chunks;
		uint32_t left;

		start((uint8_t)(1 + i % 2), NULL);
		answer_make(201, 10, true, 303);
		rooms_of(&want);
		sink_max[i / 2] = 0;
		left = thing_bytes(&want) + up4(item_bytes(&want, i / 2));
		call(1, &t, &honest, NULL, 0);
		CHECK_EQ(got.status, WEFT_RPC_OK);
		CHECK(got.same);
		CHECK_EQ(c->n_writes, NITEMS);
		for (unsigned int k = 0; k < NITEMS; k++) {
			left -= up4(item_bytes(&want, k));
			CHECK_EQ(c->writes[k].len_bytes, k == i / 2 ? 0 : item_bytes(&want, k));
			CHECK_EQ(c->writes[k].n_segs == 0, k == i / 2);
		}
		CHECK_EQ(seen[1].len_bytes - 24, left);
		finish();
		thing_free(&t);
		thing_free(&want);
	}
}

/* Here the tag may be moved, too. */
static unsigned int
octets(const void *p, struct weft_rpc_item *items)
{
	const struct thing *t = p;

	items[0] = (struct weft_rpc_item){t->a, t->kind == DATA ? t->a_len : 0};
	items[1] = (struct weft_rpc_item){t->tag, t->tag != NULL ? (uint32_t)strlen(t->tag) : 0};
	items[2] = (struct weft_rpc_item){t->b, t->b_len};
	return 3;
}

/* During decoding: the octets of the string have not been decoded yet. */
static unsigned int
octets_placed(const void *p, struct weft_rpc_item *items)
{
	const struct thing *t = p;

	items[0] = (struct weft_rpc_item){t->a};
	items[1] = (struct weft_rpc_item){t->tag};
	items[2] = (struct weft_rpc_item){t->b};
	return 3;
}

static char in_place[3][400];
static char arrived[400]; /* content of the first buffer when the reply arrived */
static void (*next_on_arrive)(struct weft_qp *to, const void *buf, uint32_t len_bytes);

static void
look_in_place(struct weft_qp *to, const void *buf, uint32_t len_bytes)
{
	memcpy(arrived, in_place[0], sizeof(arrived));
	next_on_arrive(to, buf, len_bytes);
}

static unsigned int
octets_sinks(const void *p, struct weft_rpc_sink *sinks)
{
	(void)p;
	for (unsigned int i = 0; i < 3; i++)
		sinks[i] = (struct weft_rpc_sink){in_place[i], 400};
	return 3;
}

/* Memory of the caller: the first is used in place, and no result overwrites another one before
 * it is decoded. */
static void
test_in_place(void)
{
	static const struct weft_rpc_binding b = {
	        .sinks = octets_sinks, .placed = octets_placed, .reply_bytes = long_reply};

	for (unsigned int i = 0; i < 8; i++) {
		struct thing t = thing_make(0, 0, false, 10);
		struct thing init = {.a = in_place[0], .tag = in_place[1], .b = in_place[2]};

		start((uint8_t)(1 + i % 2), NULL);
		next_on_arrive = rig.c.qp.on_arrive;
		rig.c.qp.on_arrive = look_in_place;
		servers.results = octets;
		memset(in_place, 0, sizeof(in_place));
		answer_make(i & 2 ? 400 : 0, 5, false, i & 4 ? 400 : 301);
		call(1, &t, &b, &init, 0);
		if (i & 2) /* written there by the peer, not copied */
			CHECK_MEM(arrived, want.a, 400);
		CHECK_EQ(got.status, WEFT_RPC_OK);
		CHECK(got.same);
		CHECK_EQ(seen[1].h.chunks.writes[i & 2 ? 1 : 0].len_bytes, strlen(want.tag));
		finish();
		thing_free(&t);
		thing_free(&want);
	}
}

/* ---- Peers that do not follow the binding ---- */

static unsigned int
with_tag(const void *p, struct weft_rpc_item *items)
{
	const struct thing *t = p;

	items[0] = (struct weft_rpc_item){t->tag, (uint32_t)strlen(t->tag)};
	items[1] = (struct weft_rpc_item){t->b, t->b_len};
	return 2;
}

static unsigned int
b_only(const void *p, struct weft_rpc_item *items)
{
	const struct thing *t = p;

	items[0] = (struct weft_rpc_item){t->b, t->b_len};
	return 1;
}

static unsigned int
none(const void *p, struct weft_rpc_item *items)
{
	(void)p;
	(void)items;
	return 0;
}

/* RFC 8166 s6.1: the call is not processed. The error is that of s4.5.2 for arguments that
 * cannot be parsed. */
static void
test_call_reduces(void)
{
	static unsigned int (*const takes[])(const void *, struct weft_rpc_item *) = {b_only, none,
	                                                                              NULL};

	for (unsigned int i = 0; i < 6; i++) {
		struct weft_rpc_binding cheat = honest;
		struct thing t = thing_make(0, 3, true, 5000);

		start((uint8_t)(1 + i % 2), NULL);
		rooms_of(&t);
		servers.args = takes[i / 2];
		cheat.args = with_tag;
		call(1, &t, &cheat, NULL, 0);
		CHECK_EQ(got.status, WEFT_RPC_GARBAGE_ARGS);
		cheat.args = thing_items; /* an array, and optional data */
		call(1, &t, &cheat, NULL, 0);
		CHECK_EQ(got.status, WEFT_RPC_GARBAGE_ARGS);
		call(2, &t, &cheat, NULL, 0); /* no binding at all */
		CHECK_EQ(got.status, WEFT_RPC_GARBAGE_ARGS);
		CHECK_EQ(served, 0);
		cheat.args = b_only;
		call(1, &t, &cheat, NULL, 0);
		CHECK_EQ(got.status, i / 2 == 0 ? WEFT_RPC_OK : WEFT_RPC_GARBAGE_ARGS);
		finish();
		thing_free(&t);
	}
}

/* RFC 8166 s6.1: the call ends with an error, even if the reply could be decoded. */
static void
test_reply_reduces(void)
{
	for (unsigned int i = 0; i < 6; i++) {
		struct thing t = thing_make(0, 0, false, 40);

		start((uint8_t)(1 + i % 2), NULL);
		/* The tag has the length of an eligible result, or no eligible result exists. */
		set_rooms(11, 11, 11, 40);
		answer_make(0, 0, false, i / 2 == 0 ? 11 : i / 2 == 1 ? 0 : 40);
		servers.results = with_tag;
		call(1, &t, &honest, NULL, 0);
		CHECK_EQ(got.status, WEFT_RPC_BAD_REPLY);
		finish();
		thing_free(&t);
		thing_free(&want);
	}
}

/* A Write chunk is filled although the reply, which is valid by itself, has no item for it. */
static void
test_reply_filled(void)
{
	for (uint8_t vers = 1; vers <= 2; vers++) {
		struct thing t = thing_make(0, 0, false, 0);
		struct rpcrdma_chunks *c;
		struct rpcrdma_hdr h;
		uint8_t m[4096];
		uint32_t len;

		for (unsigned int filled = 0; filled < 2; filled++) {
			struct weft_rpc_call_attr a = {.size = sizeof(a),
			                               .prog = PROG,
			                               .vers = 1,
			                               .proc = 1,
			                               .xdr_args = xdr_thing,
			                               .args = &t,
			                               .xdr_res = xdr_thing,
			                               .res_bytes = sizeof(t),
			                               .binding = &honest,
			                               .fn = on_answer};

			start(vers, NULL);
			set_rooms(40, 40, 40, 40);
			call(1, &t, &honest, NULL, 0);
			CHECK_EQ(got.status, WEFT_RPC_OK);
			memset(&got, 0, sizeof(got));
			CHECK_EQ(weft_rpc_call_with(rig.c.rpc, &a), 0);
			while (fake_deliver(&rig.c.qp) && rig.s.qp.wire.stqh_first == NULL)
				;
			h = seen[1].h;
			c = &h.chunks;
			weft_rpcrdma_chunks_return(c, &seen[0].h.chunks, vers == 1);
			for (unsigned int i = 0; i < NITEMS; i++)
				weft_rpcrdma_chunk_fill(c, &c->writes[i], filled && i == 2 ? 8 : 0);
			if (vers == 1)
				weft_rpcrdma_chunk_fill(c, &c->reply, 0);
			h.p.xid = seen[0].h.p.xid;
			len = weft_rpcrdma_encode(m, sizeof(m), &h);
			CHECK(len > 0);
			memcpy(m + len, seen[1].buf, seen[1].len_bytes);
			weft_put_be32(m + len, h.p.xid);
			fake_inject(&rig.c.qp, m, len + seen[1].len_bytes);
			while (fake_complete(&rig.c.qp) || fake_deliver(&rig.c.qp))
				;
			CHECK_EQ(got.n, 1);
			CHECK_EQ(got.status, filled ? WEFT_RPC_BAD_REPLY : WEFT_RPC_OK);
			fake_break(&rig.c.qp);
			rig_down(&rig);
		}
		thing_free(&t);
	}
}

/* RFC 8166 s6.1: octets, an array, or optional data are sent inline although a chunk was offered
 * for them. */
static void
test_reply_leaves(void)
{
	for (unsigned int i = 0; i < 2 * NITEMS; i++) {
		struct thing t = thing_make(0, 0, false, 40);

		start((uint8_t)(1 + i % 2), NULL);
		set_rooms(1000, 1000, 1000, 1000);
		answer_make(i / 2 == AT_A ? 100 : 0, i / 2 == AT_LIST ? 3 : 0, i / 2 == AT_OPT,
		            i / 2 == AT_B ? 40 : 0);
		servers.results = none;
		call(1, &t, &honest, NULL, 0);
		CHECK_EQ(got.status, WEFT_RPC_BAD_REPLY);
		thing_free(&want);
		/* But where no chunk is left, the item must be inline. */
		answer_make(0, 0, false, 0);
		call(1, &t, &honest, NULL, 0);
		CHECK_EQ(got.status, WEFT_RPC_OK);
		finish();
		thing_free(&t);
		thing_free(&want);
	}
}

/* ---- Repeated calls ---- */

/* A kept reply is written to the chunks that the repeated call offers. */
static void
test_again(void)
{
	for (uint8_t vers = 1; vers <= 2; vers++) {
		struct thing t = thing_make(5001, 300, true, 0);
		struct weft_rpc_drc *drc;
		uint32_t xid;

		CHECK_EQ(weft_rpc_drc_create(4, &drc), 0);
		start(vers, drc);
		set_rooms(6003, 20000, 100, 6003);
		xid = call(3, &t, &honest, NULL, 0);
		CHECK(got.same);
		for (unsigned int i = 0; i < 2; i++) {
			memset(&seen[1], 0, sizeof(seen[1]));
			call(3, &t, &honest, NULL, xid);
			CHECK_EQ(got.status, WEFT_RPC_OK);
			CHECK(got.same);
			check_reply(&t);
		}
		CHECK_EQ(served, 1);
		CHECK_EQ(rig.s.rpc->stats.replayed, 2);
		finish();
		weft_rpc_drc_destroy(drc);
		thing_free(&t);
	}
}

/* ---- Random things ---- */

static void
test_any(void)
{
	uint64_t first = test_seed(1), n = test_seed_given() ? 1 : 400;

	for (uint64_t seed = first; seed < first + n; seed++) {
		struct thing t;

		test_seed_note(seed);
		start((uint8_t)(1 + seed % 2), NULL);
		rig.rand = seed * 0x9e3779b97f4a7c15ULL + 1;
		t = thing_make((uint32_t)(rig_rand(&rig) % 3 * (rig_rand(&rig) % 4000)),
		               (uint32_t)(rig_rand(&rig) % 3 * (rig_rand(&rig) % 120)),
		               rig_rand(&rig) & 1,
		               (uint32_t)(rig_rand(&rig) % 3 * (rig_rand(&rig) % 4000)));
		rooms_of(&t);
		for (unsigned int i = 0; i < NITEMS; i++)
			if (sink_max[i] > 0 || rig_rand(&rig) % 3 == 0)
				sink_max[i] += (uint32_t)(rig_rand(&rig) % 3);
		call(1, &t, &honest, NULL, 0);
		CHECK_MSG(got.status == WEFT_RPC_OK && got.same, "seed %" PRIu64 ": %s", seed,
		          weft_rpc_status_str(got.status));
		finish();
		thing_free(&t);
	}
}

WEFT_TEST_MAIN({"arrays and optional data", test_optional}, {"unused chunks", test_unused},
               {"room", test_room}, {"empty chunks", test_empty},
               {"memory of the caller's", test_in_place},
               {"a call that reduces something else", test_call_reduces},
               {"a reply that reduces something else", test_reply_reduces},
               {"a reply that fills for nothing", test_reply_filled},
               {"a reply that leaves something", test_reply_leaves}, {"again", test_again},
               {"any", test_any})
