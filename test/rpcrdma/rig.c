/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Two connected endpoints, the RPC program that they serve, and the auditor on the wire. */

#include <errno.h>
#include <stdlib.h>

#include "rig.h"
#include "rpcrdma_call.h"
#include "weft_test.h"
#include "test_xorshift.h"
#include "xdr_arg.h"

/* ---- The program ---- */

#define TEXT_MAX 70000

static bool_t
xdr_pair(XDR *x, ...)
{
	struct rig_pair *p;

	XDR_ARG(x, p);
	return xdr_u_int(x, &p->a) && xdr_u_int(x, &p->b);
}

bool_t
rig_xdr_u32(XDR *x, ...)
{
	uint32_t *p;

	XDR_ARG(x, p);
	return xdr_u_int(x, p);
}

bool_t
rig_xdr_text(XDR *x, ...)
{
	char **p;

	XDR_ARG(x, p);
	return xdr_string(x, p, TEXT_MAX);
}

static enum weft_rpc_status
serve_add(void *user, void *args, void *res)
{
	struct rig_side *side = user;
	struct rig_pair *p = args;

	side->served++;
	*(uint32_t *)res = p->a + p->b;
	return WEFT_RPC_OK;
}

static enum weft_rpc_status
serve_echo(void *user, void *args, void *res)
{
	struct rig_side *side = user;

	side->served++;
	*(char **)res = strdup(*(char **)args);
	return WEFT_RPC_OK;
}

static enum weft_rpc_status
serve_status(void *user, void *args, void *res)
{
	(void)user;
	(void)res;
	return *(uint32_t *)args;
}

static enum weft_rpc_status
serve_big(void *user, void *args, void *res)
{
	uint32_t len = *(uint32_t *)args;
	char *text;

	(void)user;
	if (len > TEXT_MAX)
		return WEFT_RPC_SYSTEM_ERR;
	text = malloc(len + 1);
	memset(text, 'x', len);
	text[len] = '\0';
	*(char **)res = text;
	return WEFT_RPC_OK;
}

static void
nested(void *arg, enum weft_rpc_status status, void *res)
{
	struct rig_side *side = arg;

	if (status == WEFT_RPC_OK && *(uint32_t *)res == 42)
		side->nested_ok++;
}

/* Makes a call to the peer while it serves one. */
static enum weft_rpc_status
serve_nest(void *user, void *args, void *res)
{
	struct rig_side *side = user;
	struct rig_pair p = {40, 2};

	(void)args;
	side->last_call_rc = weft_rpc_call(side->rpc, RIG_PROG, 1, RIG_ADD, xdr_pair, &p,
	                                   rig_xdr_u32, sizeof(uint32_t), 0, nested, side);
	*(uint32_t *)res = 1;
	return WEFT_RPC_OK;
}

/* Destroys the endpoint that serves the call, after its QP, as the public header requires. */
static enum weft_rpc_status
serve_suicide(void *user, void *args, void *res)
{
	struct rig_side *side = user;

	(void)args;
	(void)res;
	side->qp.dead = true;
	weft_rpc_destroy(side->rpc);
	side->rpc = NULL;
	return WEFT_RPC_OK;
}

/* ---- RIG_MOVE: octets that may go in chunks ---- */

void
rig_octets(char *buf, uint32_t len_bytes, uint32_t seed)
{
	for (uint32_t i = 0; i < len_bytes; i++)
		buf[i] = (char)(seed * 13 + i * 7 + (i >> 8));
}

bool_t
rig_xdr_move(XDR *x, ...)
{
	struct rig_move *m;

	XDR_ARG(x, m);
	return xdr_u_int(x, &m->seed) && xdr_bytes(x, &m->data, &m->data_len, RIG_MOVE_MAX) &&
	       xdr_string(x, &m->name, 255) && xdr_u_int(x, &m->want);
}

unsigned int
rig_move_items(const void *p, struct weft_rpc_item *items)
{
	const struct rig_move *m = p;

	items[0] = (struct weft_rpc_item){m->data, m->data_len};
	items[1] = (struct weft_rpc_item){m->name, (uint32_t)strlen(m->name)};
	return 2;
}

static unsigned int
move_sinks(const void *p, struct weft_rpc_sink *sinks)
{
	const struct rig_move *m = p;
	unsigned int n = 0;

	/* the name is the second of the opaques unless the first is empty */
	if (m->want > 0)
		sinks[n++] = (struct weft_rpc_sink){NULL, m->want, 0};
	sinks[n] = (struct weft_rpc_sink){NULL, 255, n};
	return n + 1;
}

const struct weft_rpc_binding rig_move_binding = {
        .args = rig_move_items, .sinks = move_sinks, .results = rig_move_items};

uint32_t
rig_reply_5000(const void *args)
{
	(void)args;
	return 5000;
}

uint32_t
rig_reply_40000(const void *args)
{
	(void)args;
	return 40000;
}

static enum weft_rpc_status
serve_move(void *user, void *vargs, void *vres)
{
	struct rig_side *side = user;
	struct rig_move *a = vargs, *r = vres;
	char *expect = malloc(a->data_len + 1);

	side->served++;
	rig_octets(expect, a->data_len, a->seed);
	CHECK_MEM(a->data, expect, a->data_len);
	free(expect);
	if (a->want > RIG_MOVE_MAX)
		return WEFT_RPC_SYSTEM_ERR;
	r->seed = a->seed + 1;
	r->data = malloc(a->want + 1);
	r->data_len = a->want;
	rig_octets(r->data, a->want, r->seed);
	r->name = strdup(a->name);
	r->want = a->seed;
	return WEFT_RPC_OK;
}

static void
serve_later(void *user, struct weft_rpc_req *req, void *args, void *res)
{
	struct rig_side *side = user;

	side->served++;
	CHECK(side->later == NULL);
	side->later = req;
	side->later_res = res;
	*(uint32_t *)res = *(uint32_t *)args + 1;
}

static enum weft_rpc_status
serve_tell(void *user, void *args, void *res)
{
	struct rig_side *side = user;

	(void)res;
	side->told += *(uint32_t *)args;
	return WEFT_RPC_OK;
}

unsigned int rig_ran;

static enum weft_rpc_status
serve_count(void *user, void *args, void *res)
{
	(void)user;
	(void)args;
	*(uint32_t *)res = ++rig_ran;
	return WEFT_RPC_OK;
}

const struct weft_rpc_binding rig_count_binding = {.args = rig_move_items};
static const struct weft_rpc_proc count_procs[] = {
        [1] = {rig_xdr_move, rig_xdr_u32, sizeof(struct rig_move), sizeof(uint32_t), serve_count,
               .binding = &rig_count_binding, .once = true}};
static const struct weft_rpc_program count_prog = {RIG_PROG, 1, count_procs, 2};
const struct weft_rpc_program *const rig_count_programs[] = {&count_prog, NULL};

struct weft_rpc_call_attr
rig_count_call(struct rig_move *mv, const struct weft_rpc_binding *b, struct rig_answer *ans,
               uint32_t xid)
{
	return (struct weft_rpc_call_attr){.size = sizeof(struct weft_rpc_call_attr),
	                                   .prog = RIG_PROG,
	                                   .vers = 1,
	                                   .proc = 1,
	                                   .xdr_args = rig_xdr_move,
	                                   .args = mv,
	                                   .xdr_res = rig_xdr_u32,
	                                   .res_bytes = sizeof(uint32_t),
	                                   .binding = b,
	                                   .fn = rig_on_sum,
	                                   .arg = ans,
	                                   .xid = xid};
}

static const struct weft_rpc_binding tell_binding = {.call_only = true};

static const struct weft_rpc_proc procs[RIG_NPROCS] = {
        [RIG_ADD] = {xdr_pair, rig_xdr_u32, sizeof(struct rig_pair), sizeof(uint32_t), serve_add},
        [RIG_ECHO] = {rig_xdr_text, rig_xdr_text, sizeof(char *), sizeof(char *), serve_echo},
        [RIG_STATUS] = {rig_xdr_u32, NULL, sizeof(uint32_t), 0, serve_status},
        [RIG_BIG] = {rig_xdr_u32, rig_xdr_text, sizeof(uint32_t), sizeof(char *), serve_big},
        [RIG_NEST] = {rig_xdr_u32, rig_xdr_u32, sizeof(uint32_t), sizeof(uint32_t), serve_nest},
        [RIG_SUICIDE] = {rig_xdr_u32, NULL, sizeof(uint32_t), 0, serve_suicide},
        [RIG_MOVE] = {rig_xdr_move, rig_xdr_move, sizeof(struct rig_move), sizeof(struct rig_move),
                      serve_move, .binding = &rig_move_binding},
        [RIG_LATER] = {rig_xdr_u32, rig_xdr_u32, sizeof(uint32_t), sizeof(uint32_t),
                       .serve_later = serve_later, .once = true},
        [RIG_TELL] = {rig_xdr_u32, NULL, sizeof(uint32_t), 0, serve_tell, .binding = &tell_binding},
};
static const struct weft_rpc_program prog_v1 = {RIG_PROG, 1, procs, RIG_NPROCS};
static const struct weft_rpc_program prog_v3 = {RIG_PROG, 3, procs, RIG_NPROCS};
static const struct weft_rpc_program *const programs[] = {&prog_v1, &prog_v3, NULL};

/* ---- The auditor ---- */

/* Version 1: RFC 8166 s3.3.1 and s3.3.2. */
static void
audit_post_v1(struct rig_side *side, const uint8_t *b, uint32_t len_bytes)
{
	struct rig_audit *a = &side->audit;
	struct rpcrdma_hdr h;

	CHECK(len_bytes <= RPCRDMA_V1_INLINE_BYTES);
	CHECK_EQ(weft_rpcrdma_decode(b, len_bytes, NULL, &h), RPCRDMA_OK);
	if (h.p.htype == RDMA1_ERROR) {
		a->calls1_in--;
		return;
	}
	if (weft_rpcrdma_dir(&h, b, len_bytes) == RPCRDMA_DIR_REPLY) {
		a->calls1_in--;
		return;
	}
	a->calls1++;
	CHECK_MSG(a->calls1 <= (a->granted1 == 0 ? 1 : a->granted1), "%u calls, %u granted",
	          a->calls1, a->granted1);
}

static void
audit_arrive_v1(struct rig_side *side, const uint8_t *b, uint32_t len_bytes)
{
	struct rig_audit *a = &side->audit;
	struct rpcrdma_hdr h;

	if (weft_rpcrdma_decode(b, len_bytes, NULL, &h) != RPCRDMA_OK)
		return; /* a test made this message */
	if (h.p.htype == RDMA1_ERROR || weft_rpcrdma_dir(&h, b, len_bytes) == RPCRDMA_DIR_REPLY) {
		if (a->calls1 > 0)
			a->calls1--;
		a->granted1 = h.p.credit;
	} else {
		a->calls1_in++;
	}
}

static void
audit_post(struct weft_qp *qp, const void *buf, uint32_t len_bytes)
{
	struct rig_side *side = qp->user;
	struct rig_audit *a = &side->audit;
	const uint8_t *b = buf;
	uint32_t field = weft_get_be32(b + 8), htype = weft_get_be32(b + 12);
	int32_t ahead;

	CHECK(a->messages < 100000); /* the exchange does not end */
	CHECK(len_bytes >= 16);
	CHECK_EQ(len_bytes % 4, 0);
	a->sent++;
	a->messages++;
	if (weft_get_be32(b + 4) == 1) {
		audit_post_v1(side, b, len_bytes);
		return;
	}
	/* Draft s4.2.1: a message uses credit of the last grant. A grant itself may use the one
	 * credit in reserve. */
	ahead = (int32_t)(a->sent - a->limit);
	CHECK_MSG(ahead <= (htype == RDMA2_GRANT ? 1 : 0), "message %u is %d beyond its credit",
	          a->messages, ahead);
	/* Draft s4.3: the client's first message has at most 1024 octets. */
	if (!a->first_done && side == &side->rig->c)
		CHECK(len_bytes <= 1024);
	a->first_done = true;
	if (htype == RDMA2_GRANT) {
		a->grants++;
		CHECK_EQ(weft_get_be32(b), 0);
		CHECK_EQ(len_bytes, 16);
	}
	if (weft_get_be32(b + 4) != 2)
		return;
	/* A grant never decreases. Each granted message has a posted receive, and there is one
	 * receive more. */
	CHECK((int32_t)(field - a->last_field) >= 0);
	a->last_field = field;
	CHECK((int32_t)(field - a->arrived) <= (int32_t)a->window);
	CHECK((int32_t)(field - a->arrived) < (int32_t)qp->nrecvs);
}

static void
audit_arrive(struct weft_qp *to, const void *buf, uint32_t len_bytes)
{
	struct rig_side *side = to->user;
	const uint8_t *b = buf;

	side->audit.arrived++;
	if (len_bytes >= 16 && weft_get_be32(b + 4) == 1)
		audit_arrive_v1(side, b, len_bytes);
	if (len_bytes >= 16 && weft_get_be32(b + 4) == 2)
		side->audit.limit = weft_get_be32(b + 8);
}

static void
on_wc(void *user, const struct weft_wc *wc)
{
	struct rig_side *side = user;

	if (side->rpc != NULL)
		CHECK(weft_rpc_wc(side->rpc, wc));
}

/* ---- Up and down ---- */

static void
side_up(struct rig *r, struct rig_side *side, const struct rig_opts *o, uint32_t credits,
        uint32_t inline_bytes, bool serves, const uint8_t vers[2])
{
	struct weft_rpc_attr attr = {
	        .size = sizeof(attr),
	        .qp = &side->qp,
	        .credits = credits,
	        .inline_bytes = inline_bytes,
	        .programs = !serves                                ? NULL
	                    : side == &r->s && o->programs != NULL ? o->programs
	                                                           : programs,
	        .user = side,
	        .server = side == &r->s,
	        .min_vers = vers[0],
	        .max_vers = vers[1],
	        .auth = side == &r->s ? o->server_auth : o->client_auth,
	        .drc = side == &r->s ? o->drc : NULL,
	        .budget = o->budget,
	        .max_segment_bytes =
	                side == &r->s && o->server_segment_bytes != 0   ? o->server_segment_bytes
	                : side == &r->c && o->client_segment_bytes != 0 ? o->client_segment_bytes
	                                                                : o->max_segment_bytes,
	        .max_segments = side == &r->s ? o->server_segments : 0,
	        .no_invalidate = o->no_invalidate,
	        .timed = o->timed,
	        .reverse = side == &r->c ? o->reverse : WEFT_RPC_REVERSE_AUTO,
	};

	side->rig = r;
	fake_qp_init(&side->qp, &r->worker, side, on_wc);
	side->qp.on_post = audit_post;
	side->qp.on_arrive = audit_arrive;
	CHECK_EQ(weft_rpc_create(&attr, &side->rpc), 0);
	side->audit.window = credits != 0 ? credits : 8;
	CHECK_EQ(side->qp.nrecvs, 1 + (weft_rpcrdma_stranger(side->rpc) &&
	                                               side->audit.window > RPCRDMA_STRANGER_CREDITS
	                                       ? RPCRDMA_STRANGER_CREDITS
	                                       : side->audit.window));
}

void
rig_up(struct rig *r, const struct rig_opts *o)
{
	static const struct rig_opts none;

	if (o == NULL)
		o = &none;
	memset(r, 0, sizeof(*r));
	r->rand = 1;
	fake_worker_init(&r->worker);
	r->worker.random = o->random;
	side_up(r, &r->c, o, o->client_credits, o->client_inline, o->client_serves,
	        (const uint8_t[2]){o->client_min, o->client_max});
	side_up(r, &r->s, o, o->server_credits, o->server_inline, true,
	        (const uint8_t[2]){o->server_min, o->server_max});
	if (o->client_serves && !o->untold)
		weft_rpc_peer_serves(r->s.rpc);
	rig_set_base(r, 0);
	if (!o->no_connect)
		fake_connect(&r->c.qp, &r->s.qp);
}

static void
side_base(struct rig_side *side, uint32_t base)
{
	struct rpcrdma_credit *c = &side->rpc->credit;

	side->audit.sent = side->audit.arrived = base;
	side->audit.limit = side->audit.last_field = base + 1;
	if (base == 0)
		return; /* the endpoint's own initial state is under test */
	c->sent = c->recvd = base;
	c->limit = c->promised = base + 1;
}

void
rig_set_base(struct rig *r, uint32_t base)
{
	side_base(&r->c, base);
	side_base(&r->s, base);
}

void
rig_down(struct rig *r)
{
	CHECK_EQ(r->c.qp.overruns + r->s.qp.overruns, 0);
	CHECK_EQ(r->c.qp.sink_errors + r->s.qp.sink_errors, 0);
	if (r->c.rpc != NULL)
		weft_rpc_destroy(r->c.rpc);
	if (r->s.rpc != NULL)
		weft_rpc_destroy(r->s.rpc);
	r->c.rpc = r->s.rpc = NULL;
	CHECK_EQ(fake_alarms(&r->worker), 0);
	fake_qp_fini(&r->c.qp);
	fake_qp_fini(&r->s.qp);
	CHECK_EQ(fake_regions(), 0);
	CHECK_EQ(fake_mrs(), 0);
}

void
rig_break_down(struct rig *r)
{
	if (!r->c.qp.dead)
		fake_break(&r->c.qp);
	rig_down(r);
}

void
rig_settle(struct rig *r)
{
	fake_settle(&r->c.qp);
}

uint64_t
rig_rand(struct rig *r)
{
	return test_xorshift(&r->rand);
}

void
rig_shuffle(struct rig *r)
{
	unsigned int idle = 0;

	while (idle < 64) {
		struct rig_side *side = rig_rand(r) & 1 ? &r->c : &r->s;
		bool moved = rig_rand(r) & 1 ? fake_deliver(&side->qp) : fake_complete(&side->qp);

		idle = moved ? 0 : idle + 1;
	}
	rig_settle(r);
}

/* ---- Calls ---- */

void
rig_on_sum(void *arg, enum weft_rpc_status status, void *res)
{
	struct rig_answer *ans = arg;

	ans->n++;
	ans->status = status;
	CHECK_EQ(res != NULL, status == WEFT_RPC_OK);
	if (res != NULL)
		ans->sum = *(uint32_t *)res;
}

static void
on_text(void *arg, enum weft_rpc_status status, void *res)
{
	struct rig_answer *ans = arg;

	ans->n++;
	ans->status = status;
	CHECK_EQ(res != NULL, status == WEFT_RPC_OK);
	if (res != NULL)
		snprintf(ans->text, sizeof(ans->text), "%s", *(char **)res);
}

void
rig_on_none(void *arg, enum weft_rpc_status status, void *res)
{
	struct rig_answer *ans = arg;

	(void)res;
	ans->n++;
	ans->status = status;
}

int
rig_add(struct rig_side *side, uint32_t a, uint32_t b, struct rig_answer *ans)
{
	struct rig_pair p = {a, b};

	return weft_rpc_call(side->rpc, RIG_PROG, 1, RIG_ADD, xdr_pair, &p, rig_xdr_u32,
	                     sizeof(uint32_t), 0, rig_on_sum, ans);
}

int
rig_echo(struct rig_side *side, const char *text, struct rig_answer *ans)
{
	return weft_rpc_call(side->rpc, RIG_PROG, 1, RIG_ECHO, rig_xdr_text, &text, rig_xdr_text,
	                     sizeof(char *), 0, on_text, ans);
}

int
rig_big(struct rig_side *side, uint32_t len_bytes, struct rig_answer *ans)
{
	return weft_rpc_call(side->rpc, RIG_PROG, 1, RIG_BIG, rig_xdr_u32, &len_bytes, rig_xdr_text,
	                     sizeof(char *), 0, on_text, ans);
}

int
rig_call_u32(struct rig_side *side, uint32_t proc, uint32_t arg, struct rig_answer *ans)
{
	return weft_rpc_call(side->rpc, RIG_PROG, 1, proc, rig_xdr_u32, &arg, NULL, 0, 0,
	                     rig_on_none, ans);
}

static void
on_move(void *arg, enum weft_rpc_status status, void *res)
{
	struct rig_answer *ans = arg;
	struct rig_move *r = res;
	char *expect;

	ans->n++;
	ans->status = status;
	free(ans->there_mem);
	ans->there_mem = NULL;
	if (r == NULL)
		return;
	CHECK_EQ(r->data_len, ans->back);
	CHECK_EQ(r->seed, ans->args.seed + 1);
	CHECK_EQ(r->want, ans->args.seed);
	CHECK_STR(r->name, ans->args.name);
	expect = malloc(ans->back + 1);
	rig_octets(expect, ans->back, r->seed);
	CHECK_MEM(r->data, expect, ans->back);
	free(expect);
}

int
rig_move(struct rig_side *side, uint32_t there, uint32_t back, const struct weft_rpc_binding *b,
         struct rig_answer *ans)
{
	static char names[256];
	struct weft_rpc_call_attr a = {
	        .size = sizeof(a),
	        .prog = RIG_PROG,
	        .vers = 1,
	        .proc = RIG_MOVE,
	        .xdr_args = rig_xdr_move,
	        .args = &ans->args,
	        .xdr_res = rig_xdr_move,
	        .res_bytes = sizeof(struct rig_move),
	        .binding = b,
	        .fn = on_move,
	        .arg = ans,
	};
	int rc;

	memset(names, 'm', sizeof(names) - 1);
	ans->there_mem = malloc(there + 1);
	ans->back = back;
	ans->args = (struct rig_move){.seed = there + 3 * back,
	                              .data_len = there,
	                              .data = ans->there_mem,
	                              .name = names + (there + back) % 251,
	                              .want = back};
	rig_octets(ans->there_mem, there, ans->args.seed);
	rc = weft_rpc_call_with(side->rpc, &a);
	if (rc != 0) {
		free(ans->there_mem);
		ans->there_mem = NULL;
	}
	return rc;
}

uint32_t
rig_raw_add(uint8_t *buf, uint32_t xid, uint32_t credit, uint32_t a, uint32_t b)
{
	const uint32_t words[] = {
	        xid, 2, credit, RDMA2_CALL_INLINE, 0, 0,       0, 0, /* transport */
	        xid, 0, 2,      RIG_PROG,          1, RIG_ADD, 0, 0,
	        0,   0, /* RPC call; AUTH_NONE as credential and verifier */
	        a,   b,
	};

	for (unsigned int i = 0; i < sizeof(words) / 4; i++)
		weft_put_be32(buf + 4 * i, words[i]);
	return sizeof(words);
}

uint32_t
rig_raw_props(uint8_t *buf, uint32_t xid, uint32_t inline_bytes)
{
	struct rpcrdma_hdr h;

	weft_rpcrdma_hdr_init(&h, RPCRDMA_V2, RDMA2_CONNPROP_FINAL, xid);
	h.props.present = 1u << RDMA2_PROPID_SBSIZ | 1u << RDMA2_PROPID_RBSIZ;
	h.props.send_bytes = h.props.recv_bytes = inline_bytes;
	return weft_rpcrdma_encode(buf, 256, &h);
}

uint32_t
rig_raw_error(uint8_t *buf, uint32_t xid, uint32_t code, uint32_t a, uint32_t b)
{
	struct rpcrdma_hdr h;

	weft_rpcrdma_hdr_init(&h, RPCRDMA_V2, RDMA2_ERROR, xid);
	h.err = (struct rpcrdma_err){code, a, b};
	return weft_rpcrdma_encode(buf, 256, &h);
}

uint32_t
rig_last_xid(const struct rig *r)
{
	return LIST_FIRST(&r->c.rpc->calls)->xid;
}
