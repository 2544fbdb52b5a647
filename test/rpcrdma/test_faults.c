/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Invalid input: refusals, transport errors, floods, and seeded mutations. */

#include <errno.h>
#include <stdlib.h>

#include "rig.h"
#include "test_faults.h"
#include "weft_test.h"

static struct rig rig;
static struct rig_answer ans[WEFT_RPC_MAX_CALLS];

static void
start_as(const struct rig_opts *o)
{
	memset(ans, 0, sizeof(ans));
	rig_up(&rig, o);
}

static void
start(void)
{
	memset(ans, 0, sizeof(ans));
	rig_up(&rig, NULL);
}

/* Inject one message to the server. Returns the code of its RDMA2_ERROR. 0: no answer; -1:
 * another message. */
static int
error_for(const void *m, uint32_t len, struct rpcrdma_err *e, struct rpcrdma_prefix *p)
{
	struct rpcrdma_hdr h;
	uint8_t out[4096];
	int n;

	fake_inject(&rig.s.qp, m, len);
	while ((n = fake_take(&rig.s.qp, out, sizeof(out))) >= 0) {
		fake_complete(&rig.s.qp);
		if (weft_get_be32(out + 12) == RDMA2_GRANT)
			continue;
		if (weft_get_be32(out + 12) != RDMA2_ERROR)
			return -1;
		/* ERR_VERS has the same form in every version. */
		CHECK_EQ(weft_rpcrdma_decode(out, (uint32_t)n, NULL, &h),
		         weft_get_be32(out + 4) <= 2 || weft_get_be32(out + 16) == 1
		                 ? RPCRDMA_OK
		                 : RPCRDMA_BAD_VERS);
		if (p != NULL)
			*p = h.p;
		if (e != NULL)
			*e = (struct rpcrdma_err){weft_get_be32(out + 16),
			                          n > 20 ? weft_get_be32(out + 20) : 0,
			                          n > 24 ? weft_get_be32(out + 24) : 0};
		return (int)weft_get_be32(out + 16);
	}
	return 0;
}

void
test_refusals(void)
{
	static const struct {
		uint32_t prog, vers, proc;
		enum weft_rpc_status want;
	} v[] = {
	        {RIG_PROG + 1, 1, RIG_ADD, WEFT_RPC_PROG_UNAVAIL},
	        {RIG_PROG, 2, RIG_ADD, WEFT_RPC_PROG_MISMATCH},
	        {RIG_PROG, 4, 0, WEFT_RPC_PROG_MISMATCH},
	        {RIG_PROG, 1, RIG_HOLE, WEFT_RPC_PROC_UNAVAIL},
	        {RIG_PROG, 1, RIG_NPROCS, WEFT_RPC_PROC_UNAVAIL},
	        {RIG_PROG, 1, UINT32_MAX, WEFT_RPC_PROC_UNAVAIL},
	        {RIG_PROG, 1, RIG_ADD, WEFT_RPC_GARBAGE_ARGS},
	        {RIG_PROG, 1, 0, WEFT_RPC_OK},
	        {RIG_PROG, 3, 0, WEFT_RPC_OK},
	};
	/* Statuses that a serve function may return. Any other status becomes SYSTEM_ERR. */
	static const enum weft_rpc_status said[] = {
	        WEFT_RPC_OK,           WEFT_RPC_DENIED,
	        WEFT_RPC_PROG_UNAVAIL, WEFT_RPC_PROG_MISMATCH,
	        WEFT_RPC_PROC_UNAVAIL, WEFT_RPC_GARBAGE_ARGS,
	        WEFT_RPC_SYSTEM_ERR,
	};

	start();
	for (unsigned int i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		ans[0].n = 0;
		CHECK_EQ(weft_rpc_call(rig.c.rpc, v[i].prog, v[i].vers, v[i].proc, NULL, NULL, NULL,
		                       0, 0, rig_on_none, &ans[0]),
		         0);
		rig_settle(&rig);
		CHECK_EQ(ans[0].n, 1);
		CHECK_EQ(ans[0].status, v[i].want);
	}
	for (unsigned int i = 0; i < sizeof(said) / sizeof(said[0]); i++) {
		CHECK_EQ(rig_call_u32(&rig.c, RIG_STATUS, said[i], &ans[0]), 0);
		rig_settle(&rig);
		CHECK_EQ(ans[0].status, said[i]);
		CHECK(weft_rpc_status_str(said[i])[0] != '\0');
	}
	CHECK_EQ(rig_call_u32(&rig.c, RIG_STATUS, WEFT_RPC_CONNLOST, &ans[0]), 0);
	rig_settle(&rig);
	CHECK_EQ(ans[0].status, WEFT_RPC_SYSTEM_ERR);
	/* A client that did not announce reverse calls is not called (s4.6.3). */
	CHECK_EQ(rig_add(&rig.s, 1, 2, &ans[1]), 0);
	rig_settle(&rig);
	CHECK_EQ(ans[1].status, WEFT_RPC_TRANSPORT);
	rig_down(&rig);
}

void
test_transport_errors(void)
{
	struct rpcrdma_prefix p;
	struct rpcrdma_err e;
	uint8_t m[512], raw[256];
	uint32_t len;

	start();
	/* Shorter than the fixed part: no answer, and counted. */
	len = rig_raw_add(m, 77, 1000, 1, 2);
	for (uint32_t cut = 0; cut < 16; cut++) {
		fake_inject(&rig.s.qp, m, cut);
		CHECK_EQ(rig.s.served, 0);
	}
	CHECK_EQ(weft_rpc_stats(rig.s.rpc)->short_dropped, 16);
	rig.s.audit.limit =
	        0x7fffffff; /* the auditor saw no credit; the messages below give some */
	/* Truncated at any later octet: the answer names the xid. */
	for (uint32_t cut = 16; cut < len; cut += 4) {
		int code = error_for(m, cut, &e, &p);

		if (cut < 72) {
			CHECK_EQ(code, RDMA2_ERR_BAD_XDR);
			CHECK_EQ(p.xid, 77);
		} else {
			/* only the arguments are truncated: GARBAGE_ARGS in a reply */
			CHECK_EQ(code, -1);
		}
	}
	CHECK_EQ(rig.s.served, 0);
	/* Unknown and unsupported types. */
	weft_put_be32(m + 12, 99);
	CHECK_EQ(error_for(m, len, &e, &p), RDMA2_ERR_INVAL_HTYPE);
	CHECK_EQ(p.xid, 77);
	weft_put_be32(m + 12, RDMA2_CALL_EXTERNAL); /* without a Call chunk */
	CHECK_EQ(error_for(m, len, NULL, NULL), RDMA2_ERR_BAD_XDR);
	weft_put_be32(m + 12, RDMA2_CALL_MIDDLE); /* nothing remains, and there is no xid */
	CHECK_EQ(error_for(m, len, NULL, NULL), RDMA2_ERR_INVAL_CONT);
	/* Replies and errors are answers, so they are not answered. */
	weft_put_be32(m + 12, RDMA2_REPLY_MIDDLE);
	CHECK_EQ(error_for(m, len, NULL, NULL), 0);
	weft_put_be32(m + 12, RDMA2_REPLY_INLINE);
	CHECK_EQ(error_for(m, 20, NULL, NULL), 0);
	weft_put_be32(m + 12, RDMA2_ERROR);
	CHECK_EQ(error_for(m, 18, NULL, NULL), 0);
	weft_put_be32(m + 16, 4711);
	CHECK_EQ(error_for(m, len, NULL, NULL), 0);
	CHECK_EQ(weft_rpc_stats(rig.s.rpc)->errors_in, 0);
	/* More chunks than are accepted: s7.3.1, s7.3.3. */
	for (unsigned int n = 4; n <= 5; n++) {
		const struct rpcrdma_segment seg = {.handle = 1, .len_bytes = 0};
		struct rpcrdma_hdr h;

		weft_rpcrdma_hdr_init(&h, RPCRDMA_V2, RDMA2_CALL_INLINE, 78);
		h.p.credit = 1000;
		for (unsigned int i = 0; i < n; i++)
			CHECK_EQ(weft_rpcrdma_read_add(&h.chunks, 44 + 4 * i, &seg, 1), 0);
		len = weft_rpcrdma_encode(m, sizeof(m), &h);
		rig_raw_add(raw, 78, 1000, 1, 2);
		memcpy(m + len, raw + 32, 48);
		if (n == 4) { /* accepted, but none of them has a place in the arguments */
			CHECK_EQ(error_for(m, len + 48, &e, NULL), -1);
			continue;
		}
		CHECK_EQ(error_for(m, len + 48, &e, NULL), RDMA2_ERR_READ_CHUNKS);
		CHECK_EQ(e.a, 4);
	}
	CHECK_EQ(weft_rpc_stats(rig.s.rpc)->over_limit, 1);
	{
		struct rpcrdma_segment segs[17] = {{.handle = 1, .len_bytes = 4}};
		struct rpcrdma_hdr h;
		uint8_t big[512];

		weft_rpcrdma_hdr_init(&h, RPCRDMA_V2, RDMA2_CALL_INLINE, 79);
		h.p.credit = 1000;
		CHECK_EQ(weft_rpcrdma_write_add(&h.chunks, segs, 17), 0);
		len = weft_rpcrdma_encode(big, sizeof(big), &h);
		memcpy(big + len, raw + 32, 48);
		CHECK_EQ(error_for(big, len + 48, &e, NULL), RDMA2_ERR_SEGMENTS);
		CHECK_EQ(e.a, 16);
	}
	CHECK_EQ(rig.s.served, 1);
	/* A Reply chunk that is not needed does no harm. */
	len = rig_raw_add(m, 80, 1000, 1, 2);
	memmove(m + 36, m + 32, len - 32);
	memset(m + 28, 0, 8);
	m[31] = 1;
	CHECK_EQ(error_for(m, len + 4, &e, NULL), -1);
	CHECK_EQ(rig.s.served, 2);
	rig_down(&rig);
}

void
test_versions(void)
{
	struct rpcrdma_prefix p;
	struct rpcrdma_err e;
	uint8_t m[256];
	uint32_t len, n;

	/* A client of version 1 at a server with version 2 only: ERR_VERS in the form and with
	 * the credits of version 1, that is half of the receives. The other half is for reverse
	 * calls. */
	start_as(&(struct rig_opts){.server_min = 2});
	len = rig_raw_add(m, 5, 32, 1, 2);
	weft_put_be32(m + 4, 1);
	weft_put_be32(m + 12, 0);
	CHECK_EQ(error_for(m, len, &e, &p), RDMA2_ERR_VERS);
	CHECK_EQ(p.xid, 5);
	CHECK_EQ(p.vers, 1);
	CHECK_EQ(p.credit, 4);
	CHECK_EQ(e.a, 2);
	CHECK_EQ(e.b, 2);
	/* Its error, type 4, is not answered. */
	weft_put_be32(m + 12, 4);
	CHECK_EQ(error_for(m, len, NULL, NULL), 0);
	/* The one credit is used. Then version 2 works. */
	len = rig_raw_add(m, 6, 100, 1, 2);
	CHECK_EQ(error_for(m, len, NULL, NULL), -1);
	/* A later change of version is a mismatch (s7.1.2). */
	weft_put_be32(m + 4, 3);
	n = rig.s.served;
	CHECK_EQ(error_for(m, len, NULL, &p), RDMA2_ERR_VERS_MISMATCH);
	CHECK_EQ(p.xid, 6);
	CHECK_EQ(p.vers, 3);
	CHECK_EQ(rig.s.served, n); /* no call is served */
	rig_down(&rig);

	/* A server of version 1: our first call and the calls queued behind it end, and no
	 * further call is accepted. */
	for (uint32_t vers = 1; vers <= 2; vers++) {
		start_as(&(struct rig_opts){.client_min = 2});
		for (unsigned int i = 0; i < 3; i++)
			CHECK_EQ(rig_add(&rig.c, 1, 2, &ans[i]), 0);
		memset(m, 0, sizeof(m));
		m[3] = 1;
		m[7] = (uint8_t)vers;
		m[11] = 32;
		m[15] = RDMA2_ERROR;
		m[19] = RDMA2_ERR_VERS;
		m[23] = m[27] = 1;
		fake_inject(&rig.c.qp, m, 28);
		for (unsigned int i = 0; i < 3; i++) {
			CHECK_EQ(ans[i].n, 1);
			CHECK_EQ(ans[i].status, WEFT_RPC_TRANSPORT);
		}
		CHECK_EQ(rig_add(&rig.c, 1, 2, &ans[4]), -EPROTONOSUPPORT);
		CHECK_EQ(rig.c.audit.messages, 1);
		rig_down(&rig);
	}
}

void
test_properties(void)
{
	/* FINAL with RBSIZ 1024. */
	uint8_t m[256] = {0, 0, 0, 9, 0, 0, 0, 2, 0, 0, 0, 200, 0, 0, 0, 7,
	                  0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 4,   0, 0, 4, 0};
	struct rpcrdma_prefix p;
	uint8_t call[256], out[4096];
	uint32_t len;
	int n;

	start();
	/* A wrong size: refused, and no property of it is kept. */
	m[27] = 3;
	CHECK_EQ(error_for(m, 32, NULL, &p), RDMA2_ERR_BAD_PROPVAL);
	CHECK_EQ(p.xid, 9);
	m[27] = 4;
	CHECK_EQ(rig.s.rpc->peer.recv_bytes, 4096);
	/* No other message is allowed between the parts (s6.3.3). A message that is not a
	 * request is not answered. */
	m[15] = RDMA2_CONNPROP_MIDDLE;
	CHECK_EQ(error_for(m, 32, NULL, NULL), 0);
	len = rig_raw_add(call, 10, 200, 1, 2);
	CHECK_EQ(error_for(call, len, NULL, &p), RDMA2_ERR_INVAL_CONT);
	CHECK_EQ(p.xid, 10);
	CHECK_EQ(rig.s.served, 0);
	/* The last part is answered with our properties and the same xid. */
	m[15] = RDMA2_CONNPROP_FINAL;
	fake_inject(&rig.s.qp, m, 32);
	do
		n = fake_take(&rig.s.qp, out, sizeof(out));
	while (n == 16);
	CHECK_EQ(weft_get_be32(out + 12), RDMA2_CONNPROP_FINAL);
	CHECK_EQ(weft_get_be32(out), 9);
	CHECK_EQ(rig.s.rpc->peer.recv_bytes, 1024);
	/* Only once. */
	CHECK_EQ(error_for(m, 32, NULL, NULL), RDMA2_ERR_INVAL_CONT);
	m[15] = RDMA2_CONNPROP_MIDDLE;
	CHECK_EQ(error_for(m, 32, NULL, NULL), RDMA2_ERR_INVAL_CONT);
	/* The smaller receive size limits our replies. */
	weft_put_be32(call + 52, RIG_BIG);
	weft_put_be32(call + 72, 900);
	CHECK_EQ(error_for(call, len, NULL, NULL), -1);
	weft_put_be32(call + 72, 1000);
	fake_inject(&rig.s.qp, call, len);
	do
		n = fake_take(&rig.s.qp, out, sizeof(out));
	while (n == 16);
	CHECK_EQ(weft_get_be32(out + 12), RDMA2_REPLY_MIDDLE);
	CHECK(n <= 1024);
	rig_down(&rig);

	/* A peer that refuses our properties: the defaults apply, and the calls are sent. */
	start();
	{
		static char text[2001];

		memset(text, 'z', 2000);
		CHECK_EQ(rig_echo(&rig.c, text, &ans[0]), 0);
	}
	n = fake_take(&rig.c.qp, out, sizeof(out));
	CHECK_EQ(weft_get_be32(out + 12), RDMA2_CONNPROP_FINAL);
	memset(m, 0, sizeof(m));
	memcpy(m, out, 4);
	m[7] = 2;
	m[11] = 9;
	m[15] = RDMA2_ERROR;
	m[19] = RDMA2_ERR_INVAL_HTYPE;
	fake_inject(&rig.c.qp, m, 20);
	rig.s.audit.arrived++; /* the peer accepted the properties */
	rig.s.rpc->credit.recvd++;
	rig_settle(&rig);
	CHECK_EQ(ans[0].status, WEFT_RPC_OK);
	rig_down(&rig);
}

/* s7.1 to s7.4: for every error, its call ends once and the others continue. */
void
test_error_codes(void)
{
	static const uint32_t codes[] = {
	        RDMA2_ERR_BAD_XDR,       RDMA2_ERR_BAD_PROPVAL,    RDMA2_ERR_INVAL_HTYPE,
	        RDMA2_ERR_INVAL_CONT,    RDMA2_ERR_READ_CHUNKS,    RDMA2_ERR_WRITE_CHUNKS,
	        RDMA2_ERR_SEGMENTS,      RDMA2_ERR_WRITE_RESOURCE, RDMA2_ERR_REPLY_RESOURCE,
	        RDMA2_ERR_VERS_MISMATCH, RDMA2_ERR_SYSTEM,
	};
	struct rpcrdma_hdr h;
	uint8_t m[64];
	uint32_t len;

	for (unsigned int i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
		start();
		CHECK_EQ(rig_add(&rig.c, 1, 2, &ans[0]), 0);
		rig_settle(&rig);
		CHECK_EQ(rig_add(&rig.c, 3, 4, &ans[1]), 0);
		CHECK_EQ(rig_add(&rig.c, 5, 6, &ans[2]), 0);
		weft_rpcrdma_hdr_init(&h, 2, RDMA2_ERROR, rig.c.rpc->next_xid - 2);
		h.err = (struct rpcrdma_err){codes[i], 0, 0}; /* other resources would not help */
		h.p.credit = 100;
		len = weft_rpcrdma_encode(m, sizeof(m), &h);
		fake_inject(&rig.c.qp, m, len);
		CHECK_EQ(ans[1].n, 1);
		CHECK_EQ(ans[1].status, codes[i] == RDMA2_ERR_WRITE_RESOURCE ||
		                                        codes[i] == RDMA2_ERR_REPLY_RESOURCE
		                                ? WEFT_RPC_TOO_LONG
		                                : WEFT_RPC_TRANSPORT);
		CHECK_EQ(ans[2].n, 0);
		CHECK_EQ(weft_rpc_stats(rig.c.rpc)->errors_in, 1);
		weft_rpc_disconnected(rig.c.rpc);
		CHECK_EQ(ans[1].n, 1);
		CHECK_EQ(ans[2].n, 1);
		rig_down(&rig);
	}
}

void
test_bad_replies(void)
{
	/* A reply that the test encodes, truncated at every length: it is never accepted, and it
	 * ends its call. */
	for (uint32_t cut = 16; cut < 48; cut += 4) {
		uint8_t m[64] = {0};
		const uint32_t words[] = {1, 2, 100, RDMA2_REPLY_INLINE, 0, 1, 1, 0, 0, 0, 0, 42};

		for (unsigned int i = 0; i < 12; i++)
			weft_put_be32(m + 4 * i, words[i]);
		start();
		CHECK_EQ(rig_add(&rig.c, 40, 2, &ans[0]), 0);
		fake_inject(&rig.c.qp, m, cut);
		CHECK_EQ(ans[0].n, 1);
		CHECK_EQ(ans[0].status, WEFT_RPC_BAD_REPLY);
		/* None of these may be answered. */
		CHECK_EQ(rig.c.audit.messages - rig.c.audit.grants, 1);
		rig_down(&rig);

		/* With another status word at the end: never OK without a result. */
		start();
		CHECK_EQ(rig_add(&rig.c, 40, 2, &ans[0]), 0);
		weft_put_be32(m + cut, 0xffffff01);
		fake_inject(&rig.c.qp, m, 48);
		CHECK(ans[0].n <= 1);
		/* 32: the flavor of the verifier, which may be any */
		if (cut < 44 && cut != 16 && cut != 32)
			CHECK(ans[0].status != WEFT_RPC_OK || ans[0].n == 0);
		rig_down(&rig);
	}

	/* Answers to unknown xids, and to a call that has not been sent yet. */
	start();
	{
		uint8_t m[64] = {0};
		const uint32_t words[] = {2, 2, 1, RDMA2_REPLY_INLINE, 0, 2, 1, 0, 0, 0, 0, 42};

		for (unsigned int i = 0; i < 12; i++)
			weft_put_be32(m + 4 * i, words[i]);
		fake_inject(&rig.c.qp, m, 48);
		CHECK_EQ(rig_add(&rig.c, 1, 1, &ans[0]), 0);
		CHECK_EQ(rig_add(&rig.c, 2, 2, &ans[1]), 0);
		fake_inject(&rig.c.qp, m, 48);
		CHECK_EQ(weft_rpc_stats(rig.c.rpc)->bad_xid, 2);
		CHECK_EQ(ans[0].n + ans[1].n, 0);
	}
	rig_down(&rig);
	/* RFC 5531 s9: accept_stat has six values, and no other value is valid. */
	for (uint32_t stat = 1; stat <= 12; stat++) {
		uint8_t m[64] = {0};
		const uint32_t words[] = {1,
		                          2,
		                          100,
		                          RDMA2_REPLY_INLINE,
		                          0,
		                          1,
		                          1,
		                          0,
		                          0,
		                          0,
		                          stat < 12 ? stat : UINT32_MAX,
		                          42,
		                          42};

		for (unsigned int k = 0; k < 13; k++)
			weft_put_be32(m + 4 * k, words[k]);
		start();
		CHECK_EQ(rig_add(&rig.c, 40, 2, &ans[0]), 0);
		fake_inject(&rig.c.qp, m, 52);
		CHECK_EQ(ans[0].n, 1);
		CHECK(stat > 5 ? ans[0].status == WEFT_RPC_BAD_REPLY
		               : ans[0].status != WEFT_RPC_OK &&
		                         ans[0].status != WEFT_RPC_BAD_REPLY);
		rig_down(&rig);
	}
}

static void
raw_never(void *user, struct weft_rpc_req *req, XDR *xdr)
{
	(void)user;
	(void)xdr;
	CHECK(false);
	weft_rpc_raw_reply(req, NULL, NULL, NULL, 0);
}

void
test_rpc_header(void)
{
	uint8_t m[1024], out[256];
	uint32_t len;

	/* RPC version 3: MSG_DENIED, RPC_MISMATCH, 2 to 2 (RFC 5531 s9). The same where a
	 * dispatcher that knows only version 2 serves whole messages. */
	for (unsigned int raw = 0; raw < 2; raw++) {
		start();
		if (raw)
			weft_rpc_set_raw(rig.s.rpc, raw_never);
		len = rig_raw_add(m, 1, 100, 1, 2);
		weft_put_be32(m + 40, 3);
		fake_inject(&rig.s.qp, m, len);
		CHECK_EQ(fake_take(&rig.s.qp, out, sizeof(out)), 20 + 24);
		CHECK_EQ(weft_get_be32(out + 28), 1);
		CHECK_EQ(weft_get_be32(out + 32), 0);
		CHECK_EQ(weft_get_be32(out + 36), 2);
		CHECK_EQ(weft_get_be32(out + 40), 2);
		rig_down(&rig);
	}
	start();
	/* AUTH_SYS credentials, 8 octets: MSG_DENIED, AUTH_ERROR. */
	len = rig_raw_add(m, 2, 100, 1, 2);
	memmove(m + 64 + 8, m + 64, len - 64);
	weft_put_be32(m + 56, 1);
	weft_put_be32(m + 60, 8);
	fake_inject(&rig.s.qp, m, len + 8);
	CHECK_EQ(fake_take(&rig.s.qp, out, sizeof(out)), 20 + 20);
	CHECK_EQ(weft_get_be32(out + 28), 1);
	CHECK_EQ(weft_get_be32(out + 32), 1);
	/* A reply sent as a call, and credentials longer than RFC 5531 allows. */
	len = rig_raw_add(m, 3, 100, 1, 2);
	weft_put_be32(m + 36, 1);
	CHECK_EQ(error_for(m, len, NULL, NULL), RDMA2_ERR_BAD_XDR);
	len = rig_raw_add(m, 4, 100, 1, 2);
	weft_put_be32(m + 60, 401);
	CHECK_EQ(error_for(m, 1000, NULL, NULL), RDMA2_ERR_BAD_XDR);
	weft_put_be32(m + 60, 0xffffffff);
	CHECK_EQ(error_for(m, 1000, NULL, NULL), RDMA2_ERR_BAD_XDR);
	CHECK_EQ(rig.s.served, 0);
	rig_down(&rig);
}

void
test_flood(void)
{
	uint8_t m[256];
	unsigned int n = 0;

	/* A peer that calls and never gives credit: the number of waiting answers is limited,
	 * then the connection is closed. */
	start();
	rig.c.qp.peer = NULL;
	while (rig.s.qp.disconnects == 0 && n < 10000) {
		n++;
		fake_inject(&rig.s.qp, m, rig_raw_add(m, n, 1, 1, 1));
	}
	CHECK_EQ(rig.s.qp.disconnects, 1);
	CHECK(n < 200);
	fake_inject(&rig.s.qp, m, rig_raw_add(m, n, 1, 1, 1));
	CHECK_EQ(rig.s.qp.disconnects, 1);
	rig_down(&rig);
}

/* Change a few octets, preferably the low octet of a word, and sometimes the length. */
static uint32_t
mutate(uint8_t *m, uint32_t len)
{
	for (unsigned int k = rig_rand(&rig) % 4; k > 0; k--) {
		if (rig_rand(&rig) & 1)
			m[rig_rand(&rig) % len] = (uint8_t)rig_rand(&rig);
		else
			m[rig_rand(&rig) % (len / 4) * 4 + 3] = (uint8_t)(rig_rand(&rig) % 16);
	}
	return rig_rand(&rig) % 4 == 0 ? rig_rand(&rig) % (len + 1) : len;
}

static void
no_audit(void)
{
	rig.c.qp.on_post = rig.s.qp.on_post = NULL;
	rig.c.qp.on_arrive = rig.s.qp.on_arrive = NULL;
}

void
test_fuzz_server(void)
{
	uint64_t seed = test_seed(0xf00d);
	uint8_t m[256], out[8192];

	for (unsigned int run = 0; run < 60; run++) {
		start();
		no_audit();
		rig.rand = seed + run;
		for (unsigned int i = 0; i < 1000 && !rig.s.rpc->down; i++) {
			uint32_t len = rig_raw_add(m, i, 1u << 20, 1, 2);

			m[55] = (uint8_t)(rig_rand(&rig) %
			                  5); /* any procedure but those that end the endpoint */
			if (rig_rand(&rig) % 8 == 0)
				len = rig_raw_props(m, i, 4096);
			len = mutate(m, len);
			if (len >= 56 && (m[55] > 6 || m[54] || m[53] || m[52]))
				m[55] = 1;
			fake_inject(&rig.s.qp, m, len);
			while (fake_take(&rig.s.qp, out, sizeof(out)) >= 0)
				fake_complete(&rig.s.qp);
		}
		rig_down(&rig);
	}
}

void
test_fuzz_client(void)
{
	uint64_t seed = test_seed(0xcafe);
	uint8_t m[256];

	for (unsigned int run = 0; run < 300; run++) {
		unsigned int done = 0;

		start();
		no_audit();
		rig.rand = seed + run;
		for (unsigned int i = 0; i < WEFT_RPC_MAX_CALLS; i++)
			CHECK_EQ(rig_add(&rig.c, i, 1, &ans[i]), 0);
		for (unsigned int i = 0; i < 200 && !rig.c.rpc->down; i++) {
			const uint32_t words[] = {
			        i % 64 + 1, 2, 1u << 20, RDMA2_REPLY_INLINE, 0, i % 64 + 1, 1, 0, 0,
			        0,          0, 42};
			uint32_t len = sizeof(words);

			for (unsigned int k = 0; k < len / 4; k++)
				weft_put_be32(m + 4 * k, words[k]);
			if (rig_rand(&rig) % 8 == 0)
				len = rig_raw_error(m, i, 1 + rig_rand(&rig) % 11, 1, 1);
			fake_inject(&rig.c.qp, m, mutate(m, len));
			while (fake_take(&rig.c.qp, m, sizeof(m)) >= 0)
				fake_complete(&rig.c.qp);
		}
		weft_rpc_disconnected(rig.c.rpc);
		for (unsigned int i = 0; i < WEFT_RPC_MAX_CALLS; i++) {
			CHECK_MSG(ans[i].n == 1, "seed %#" PRIx64 " run %u: call %u has %u answers",
			          seed, run, i, ans[i].n);
			done += ans[i].status == WEFT_RPC_OK;
		}
		CHECK(done > 0 || run > 0);
		rig_down(&rig);
	}
}
