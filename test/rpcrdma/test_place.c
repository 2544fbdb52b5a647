/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Arguments that a Read chunk brings (draft s4.5.1, RFC 8166 s3.4.5), read to where the
 * consumer wants them: no octet outside, nothing without being asked for, and not twice.
 */

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>

#include "rig.h"
#include "weft_test.h"

#define PUT       1
#define PUT_ONCE  2
#define STORE     400000u
#define PUT_MAX   (1u << 20)
#define UNTOUCHED 0xa5

struct put_args {
	uint32_t at;
	u_int data_len;
	char *data;
	char *name;
	uint32_t tail;
};

static struct rig rig;
static struct rig_answer ans[8];
static uint8_t store[STORE];
static struct weft_mr *mr;
static uint32_t store_stag;
static struct {
	unsigned int asked, served, in_place;
	bool refuse; /* place says no */
} sv;

/* As rpcgen has it; the server's decoder lends. */
static bool_t
xdr_put(XDR *x, ...)
{
	struct put_args *p;
	va_list ap;

	va_start(ap, x);
	p = va_arg(ap, struct put_args *);
	va_end(ap);
	if (x->x_op == XDR_FREE) {
		free(p->name);
		return TRUE;
	}
	if (!xdr_u_int(x, &p->at))
		return FALSE;
	if (x->x_op == XDR_ENCODE) {
		if (!xdr_bytes(x, &p->data, &p->data_len, PUT_MAX))
			return FALSE;
	} else {
		if (!xdr_u_int(x, &p->data_len))
			return FALSE;
		if (p->data_len > 0 && (p->data = weft_rpc_xdr_lend(x, p->data_len)) == NULL)
			return FALSE;
	}
	return xdr_string(x, &p->name, 255) && xdr_u_int(x, &p->tail);
}

static bool
put_place(void *user, XDR *xdr, uint32_t len_bytes, struct weft_rpc_place *out)
{
	uint32_t at, len, more;

	CHECK(user == &rig.s);
	sv.asked++;
	CHECK(xdr_u_int(xdr, &at) && xdr_u_int(xdr, &len));
	CHECK(!xdr_u_int(xdr, &more)); /* there the argument begins */
	if (sv.refuse || len != len_bytes || at > STORE || len > STORE - at)
		return false;
	*out = (struct weft_rpc_place){store + at, store_stag};
	return true;
}

static enum weft_rpc_status
put_serve(void *user, void *vargs, void *vres)
{
	const struct put_args *a = vargs;
	char *want = malloc(a->data_len + 1);

	(void)user;
	sv.served++;
	rig_octets(want, a->data_len, a->at);
	CHECK_MEM(a->data, want, a->data_len);
	free(want);
	CHECK_EQ(a->tail, 0x1a17);
	sv.in_place += a->data == (char *)store + a->at;
	*(uint32_t *)vres = a->data_len;
	return WEFT_RPC_OK;
}

static unsigned int
one_item(const void *args, struct weft_rpc_item *items)
{
	const struct put_args *a = args;

	items[0] = (struct weft_rpc_item){a->data, a->data_len};
	return 1;
}

static unsigned int
two_items(const void *args, struct weft_rpc_item *items)
{
	const struct put_args *a = args;

	items[1] = (struct weft_rpc_item){a->name, (uint32_t)strlen(a->name)};
	return one_item(args, items) + 1;
}

static const struct weft_rpc_binding by_one = {.args = one_item}, by_two = {.args = two_items};

static const struct weft_rpc_proc procs[] = {
        [PUT] = {xdr_put, rig_xdr_u32, sizeof(struct put_args), sizeof(uint32_t), put_serve,
                 .binding = &by_two, .place = put_place},
        [PUT_ONCE] = {xdr_put, rig_xdr_u32, sizeof(struct put_args), sizeof(uint32_t), put_serve,
                      .once = true, .binding = &by_two, .place = put_place},
};
static const struct weft_rpc_program program = {RIG_PROG, 1, procs, 3};
static const struct weft_rpc_program *const programs[] = {&program, NULL};

static void
start(const struct rig_opts *o)
{
	struct weft_wr wr = {.opcode = WEFT_WR_FAST_REG, .wr_id = 7};

	memset(ans, 0, sizeof(ans));
	memset(&sv, 0, sizeof(sv));
	memset(store, UNTOUCHED, sizeof(store));
	rig_up(&rig, o);
	rig.s.rpc->a.programs = programs;
	CHECK_EQ(weft_mr_alloc(NULL, &mr), 0);
	store_stag = weft_mr_next_stag(mr);
	wr.fast_reg.mr = mr;
	wr.fast_reg.addr = store;
	wr.fast_reg.len_bytes = sizeof(store);
	wr.fast_reg.access = WEFT_ACCESS_LOCAL_WRITE;
	CHECK_EQ(weft_post_send(&rig.s.qp, &wr, 1), 1);
	rig_settle(&rig);
	CHECK_EQ(fake_regions(), 1);
}

static void
finish(void)
{
	CHECK(LIST_EMPTY(&rig.s.rpc->regs_used));
	CHECK(LIST_EMPTY(&rig.s.rpc->reqs));
	CHECK_EQ(weft_mr_dereg(mr, NULL, NULL), 0);
	rig_down(&rig);
}

static char data_mem[STORE], name_mem[2000];

static int
put(uint32_t proc, uint32_t at, uint32_t len, const struct weft_rpc_binding *b, uint32_t xid,
    struct rig_answer *a)
{
	struct put_args args = {at, len, data_mem, name_mem, 0x1a17};
	static struct put_args kept;
	struct weft_rpc_call_attr ca = {
	        .size = sizeof(ca),
	        .prog = RIG_PROG,
	        .vers = 1,
	        .proc = proc,
	        .xdr_args = xdr_put,
	        .args = &kept,
	        .xdr_res = rig_xdr_u32,
	        .res_bytes = sizeof(uint32_t),
	        .binding = b,
	        .fn = rig_on_sum,
	        .arg = a,
	        .xid = xid,
	};

	kept = args;
	rig_octets(data_mem, len, at);
	strcpy(name_mem, "somebody");
	return weft_rpc_call_with(rig.c.rpc, &ca);
}

static void
check_store(uint32_t at, uint32_t len, bool there)
{
	for (uint32_t i = 0; i < STORE; i++) {
		uint8_t want =
		        there && i >= at && i < at + len ? (uint8_t)data_mem[i - at] : UNTOUCHED;

		CHECK_MSG(store[i] == want, "octet %u of %u at %u", i, len, at);
	}
}

static void
test_placed(void)
{
	static const uint32_t len[] = {4097, 5000, 65536, 65539, 200001};

	for (uint8_t vers = 1; vers <= 2; vers++) {
		for (unsigned int i = 0; i < sizeof(len) / sizeof(len[0]); i++) {
			for (unsigned int cut = 0; cut < 2; cut++) {
				const struct rig_opts o = {.client_max = vers,
				                           .max_segment_bytes = cut ? 30000 : 0};
				const struct weft_rpc_stats *s;

				start(&o);
				s = weft_rpc_stats(rig.s.rpc);
				CHECK_EQ(put(PUT, 1003, len[i], &by_one, 0, &ans[0]), 0);
				rig_settle(&rig);
				CHECK_EQ(ans[0].status, WEFT_RPC_OK);
				CHECK_EQ(ans[0].sum, len[i]);
				CHECK_EQ(sv.asked, 1);
				CHECK_EQ(sv.in_place, 1);
				CHECK_EQ(s->read_chunks, 1);
				CHECK_EQ(s->read_bytes, len[i]);
				check_store(1003, len[i], true);
				CHECK_EQ(fake_regions(), 1);
				finish();
			}
		}
	}
}

/* Nobody is asked, or says no: memory of weft's, and the store is as it was. */
static void
test_not_placed(void)
{
	for (unsigned int how = 0; how < 5; how++) {
		const struct weft_rpc_binding *b = how == 1 ? &by_two : how == 2 ? NULL : &by_one;
		uint32_t at = how == 3 ? STORE - 100 : 1003;

		start(NULL);
		sv.refuse = how == 0;
		CHECK_EQ(put(PUT, at, how == 4 ? 200 : 60000, b, 0, &ans[0]), 0);
		rig_settle(&rig);
		CHECK_EQ(ans[0].status, WEFT_RPC_OK);
		CHECK_EQ(sv.served, 1);
		CHECK_EQ(sv.in_place, 0);
		/* with two Read chunks, a Call chunk, or inline it is not even asked for */
		CHECK_EQ(sv.asked, how == 0 || how == 3);
		check_store(0, 0, false);
		finish();
	}
}

/* A call that comes again, on another connection, is answered, and not written over what came
 * since. */
static void
test_once(void)
{
	struct weft_rpc_drc *drc;
	struct rig_opts o;

	CHECK_EQ(weft_rpc_drc_create(4, &drc), 0);
	o = (struct rig_opts){.drc = drc};
	start(&o);
	CHECK_EQ(weft_rpc_set_peer_name(rig.s.rpc, "a", 1), 0);
	CHECK_EQ(put(PUT_ONCE, 1003, 60000, &by_one, 77, &ans[0]), 0);
	rig_settle(&rig);
	CHECK_EQ(sv.in_place, 1);
	finish();
	for (unsigned int other = 0; other < 3; other++) {
		start(&o);
		CHECK_EQ(weft_rpc_set_peer_name(rig.s.rpc, other == 1 ? "b" : "a", 1), 0);
		CHECK_EQ(put(PUT_ONCE, 1003, 60000, &by_one, other == 2 ? 78 : 77, &ans[0]), 0);
		rig_settle(&rig);
		CHECK_EQ(ans[0].status, WEFT_RPC_OK);
		CHECK_EQ(ans[0].sum, 60000);
		CHECK_EQ(weft_rpc_stats(rig.s.rpc)->replayed, other == 0);
		CHECK_EQ(sv.asked, other != 0);
		CHECK_EQ(sv.served, other != 0);
		check_store(1003, 60000, other != 0);
		finish();
	}
	weft_rpc_drc_destroy(drc);
}

/* The region is taken away under the Reads: not an octet more, no serving, the connection ends. */
static void
test_taken_back(void)
{
	const struct rig_opts o = {.max_segment_bytes = 30000};
	unsigned int ended = 0;

	for (unsigned int step = 0; step < 40; step++) {
		bool done;

		start(&o);
		rig.rand = step + 1;
		CHECK_EQ(put(PUT, 1003, 90000, &by_one, 0, &ans[0]), 0);
		for (unsigned int k = 0; k < step; k++) {
			struct rig_side *side = rig_rand(&rig) & 1 ? &rig.c : &rig.s;

			rig_rand(&rig) & 1 ? fake_deliver(&side->qp) : fake_complete(&side->qp);
		}
		done = sv.served > 0;
		/* At once, as by weft_mr_dereg(), which waits for no queue. */
		CHECK_EQ(weft_mr_dereg(mr, NULL, NULL), 0);
		mr = NULL;
		rig_settle(&rig);
		if (rig.s.qp.sink_errors > 0) {
			ended++;
			CHECK_EQ(sv.served, 0);
			rig.s.qp.sink_errors = 0;
			weft_rpc_disconnected(rig.c.rpc);
			weft_rpc_disconnected(rig.s.rpc);
			CHECK_EQ(ans[0].status, WEFT_RPC_CONNLOST);
		} else if (done) {
			CHECK_EQ(ans[0].status, WEFT_RPC_OK);
		}
		CHECK(ans[0].n <= 1);
		fake_break(&rig.c.qp);
		weft_rpc_disconnected(rig.c.rpc);
		weft_rpc_disconnected(rig.s.rpc);
		CHECK_EQ(ans[0].n, 1);
		rig_down(&rig);
	}
	CHECK(ended > 5);
}

/* The connection ends at every step: each call is answered once, nothing stays, nothing is outside.
 */
static void
test_broken(void)
{
	const struct rig_opts o = {.max_segment_bytes = 30000};

	for (unsigned int step = 0; step < 60; step++) {
		start(&o);
		rig.rand = step + 1;
		CHECK_EQ(put(PUT, 1003, 90000, &by_one, 0, &ans[0]), 0);
		for (unsigned int k = 0; k < step; k++) {
			struct rig_side *side = rig_rand(&rig) & 1 ? &rig.c : &rig.s;

			rig_rand(&rig) & 1 ? fake_deliver(&side->qp) : fake_complete(&side->qp);
		}
		fake_break(&rig.c.qp);
		weft_rpc_disconnected(rig.c.rpc);
		weft_rpc_disconnected(rig.s.rpc);
		CHECK_EQ(ans[0].n, 1);
		for (uint32_t i = 0; i < STORE; i++)
			CHECK(store[i] == UNTOUCHED || (i >= 1003 && i < 91003));
		CHECK_EQ(weft_mr_dereg(mr, NULL, NULL), 0);
		CHECK_EQ(fake_mrs(), 0);
		rig_down(&rig);
	}
}

WEFT_TEST_MAIN({"placed", test_placed}, {"not placed", test_not_placed}, {"once", test_once},
               {"taken back", test_taken_back}, {"broken at every step", test_broken})
