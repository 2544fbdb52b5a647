/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The peer of fuzz_qp: valid and nearly valid segments, answers, and raw octets. */

#include "fuzz_qp.h"
#include "weft_ddp_wire.h"

/* ---- Sending ---- */

static void
send_octets(const uint8_t *p, uint32_t len)
{
	struct qp_peer *r = &z.p;

	while (len > 0 && r->c != NULL && !r->fin) {
		uint32_t n = RTE_MIN(len, (uint32_t)weft_tcp_mss(r->c));
		struct rte_mbuf *m = weft_tcp_alloc(r->c);
		uint8_t *at;

		if (m == NULL) {
			/* More than the connection can hold: the rest would not follow the
			 * octets before it. */
			weft_tcp_abort(r->c, qp_now());
			r->c = NULL;
			return;
		}
		at = (uint8_t *)rte_pktmbuf_append(m, (uint16_t)n);
		FUZZ_CHECK(at != NULL);
		memcpy(at, p, n);
		weft_tcp_send(r->c, m, true, qp_now());
		p += n;
		len -= n;
	}
}

static void
send_ulpdu(const uint8_t *u, uint32_t len, bool bad_crc)
{
	uint8_t out[FPDU_ROOM(2048)];
	uint32_t n;

	if (!z.p.full)
		return;
	n = fpdu_build(&z.p.tx, out, u, (uint16_t)len);
	if (bad_crc)
		out[n - 1] ^= 0x10;
	send_octets(out, n);
}

static void
send_untagged(uint8_t op, uint32_t qn, uint32_t msn, uint32_t mo, bool last, uint32_t inv,
              const uint8_t *p, uint32_t len)
{
	struct weft_ddp_hdr h = {.last = last,
	                         .version = 1,
	                         .rsvdulp = RDMAP_CTRL(op),
	                         .rsvdulp32 = inv,
	                         .qn = qn,
	                         .msn = msn,
	                         .mo = mo};
	uint8_t u[2048];
	unsigned int n = weft_ddp_hdr_encode(&h, u);

	memcpy(u + n, p, len);
	send_ulpdu(u, n + len, false);
	z.p.terminates_out += op == WEFT_RDMAP_TERMINATE;
}

static void
send_tagged(uint8_t op, uint32_t stag, uint64_t to, bool last, const uint8_t *p, uint32_t len)
{
	struct weft_ddp_hdr h = {.tagged = true,
	                         .last = last,
	                         .version = 1,
	                         .rsvdulp = RDMAP_CTRL(op),
	                         .stag = stag,
	                         .to = to};
	uint8_t u[2048];
	unsigned int n = weft_ddp_hdr_encode(&h, u);

	memcpy(u + n, p, len);
	send_ulpdu(u, n + len, false);
}

static void
send_frame(void)
{
	uint8_t buf[600];
	int n = weft_mpa_frame_encode(&z.p.frame, buf, sizeof(buf));

	FUZZ_CHECK(n > 0);
	send_octets(buf, (uint32_t)n);
}

/* ---- Receiving ---- */

static void
took_frame(const struct weft_mpa_frame *f)
{
	struct qp_peer *r = &z.p;

	FUZZ_CHECK(f->reply == r->initiator);
	if (!r->initiator)
		send_frame();
	r->full = !f->reject && !r->frame.reject;
	r->tx.crc = r->rx.crc = f->crc || r->frame.crc;
	r->tx.markers = f->markers;
	r->rx.markers = r->frame.markers;
	/* The stack may send only after the initiator has sent (RFC 5044 s7.1.2 rule 4). */
	if (r->initiator && r->frame.p2p)
		send_ulpdu(NULL, 0, false);
}

static void
took_ulpdu(const uint8_t *u, uint32_t len)
{
	struct weft_frag frag = {u, len};
	struct qp_peer *r = &z.p;
	struct weft_ddp_hdr h;
	struct weft_cur c;
	struct peer_req *a;
	uint8_t op;
	int n;

	if (len == 0)
		return; /* an RTR */
	weft_cur_init(&c, &frag, 1);
	n = weft_ddp_hdr_decode(&c, &h);
	FUZZ_CHECK(n > 0 && h.version == 1 && h.rsvd == 0);
	op = rdmap_op_of(&h);
	FUZZ_CHECK(rdmap_ops[op].name != NULL && rdmap_ops[op].tagged == h.tagged);
	/* Nothing follows a Terminate (RFC 5040 s4.8). */
	FUZZ_CHECK(r->terminates_in == 0);
	if (h.tagged)
		return;
	FUZZ_CHECK(h.qn == rdmap_ops[op].qn);
	r->terminates_in += op == WEFT_RDMAP_TERMINATE;
	if (h.qn != WEFT_DDP_QN_READ)
		return;
	FUZZ_CHECK(r->npending < QP_PENDING && len - (uint32_t)n <= sizeof(a->body));
	a = &r->pending[r->npending++];
	a->op = op;
	a->len = len - (uint32_t)n;
	memcpy(a->body, u + n, a->len);
}

static void
parse(void)
{
	struct qp_peer *r = &z.p;
	uint32_t at = 0;

	if (!r->full) {
		struct weft_mpa_frame f;
		int n = weft_mpa_frame_decode(r->in, r->nin, &f);
		uint32_t left;

		if (n == -EAGAIN)
			return;
		FUZZ_CHECK(n > 0);
		took_frame(&f);
		/* The following octets belong to the stream and may have markers. */
		left = r->nin - (uint32_t)n;
		FUZZ_CHECK(left == 0);
		r->nin = 0;
		return;
	}
	while (r->nin - at >= 2) {
		uint16_t len = weft_get_be16(r->in + at);
		uint32_t whole = mpa_fpdu_bytes(len);

		if (r->nin - at < whole)
			break;
		took_ulpdu(r->in + at + 2, len);
		at += whole;
	}
	memmove(r->in, r->in + at, r->nin - at);
	r->nin -= at;
}

static void
take_octet(uint8_t v)
{
	struct qp_peer *r = &z.p;

	if (r->full) {
		if (r->rx.markers && r->rx.pos++ % MPA_MARKER_PERIOD < MPA_MARKER_BYTES)
			return;
	}
	FUZZ_CHECK(r->nin < sizeof(r->in));
	r->in[r->nin++] = v;
}

static void
peer_rx(void *user, struct rte_mbuf *m, uint64_t now_ns)
{
	(void)user;
	(void)now_ns;
	for (const struct rte_mbuf *s = m; s != NULL; s = s->next) {
		const uint8_t *p = rte_pktmbuf_mtod(s, const uint8_t *);

		for (uint16_t i = 0; i < s->data_len; i++) {
			take_octet(p[i]);
			if (!z.p.full)
				parse();
		}
	}
	rte_pktmbuf_free(m);
	if (z.p.full)
		parse();
}

static void
peer_established(void *user)
{
	(void)user;
	z.p.connected = true;
	if (z.p.initiator)
		send_frame();
}

static void
peer_nothing(void *user)
{
	(void)user;
}

static void
peer_mss(void *user, uint16_t mss_bytes)
{
	(void)user;
	(void)mss_bytes;
}

static void
peer_closed(void *user, int err)
{
	(void)user;
	(void)err;
	z.p.c = NULL;
}

static const struct weft_tcp_conn_ops peer_ops = {.established = peer_established,
                                                  .rx = peer_rx,
                                                  .writable = peer_nothing,
                                                  .mss = peer_mss,
                                                  .eof = peer_nothing,
                                                  .closed = peer_closed};

static int
peer_accept(void *arg, struct weft_tcp_conn *c)
{
	(void)arg;
	/* One connection only: a second attempt with revision 1 is not accepted. */
	if (z.p.connected)
		return -1;
	z.p.connected = true;
	z.p.c = c;
	weft_tcp_set_user(c, &peer_ops, &z.p);
	return 0;
}

void
peer_open(void)
{
	struct weft_tcp *tcp = weft_engine_tcp(z.t->n[0].w);
	struct weft_ip any = {0};

	for (unsigned int i = 0; i < WEFT_DDP_NQN; i++)
		z.p.msn[i] = 1;
	if (!z.p.initiator)
		FUZZ_CHECK(weft_tcp_listen(tcp, &any, 128, VT_PORT, 4, peer_accept, NULL, &z.p.l) ==
		           0);
}

void
peer_connect(void)
{
	struct weft_vworker *w = weft_vworker_of(z.t->n[0].w);
	struct weft_ip us = weft_ip_from_v4(rte_cpu_to_be_32(0x0a000002));

	FUZZ_CHECK(weft_tcp_connect(w->cm->tcp, w->cm->nif[0], NULL, &us, VT_PORT, &peer_ops, &z.p,
	                            &z.p.c) == 0);
}

void
peer_close(void)
{
	if (z.p.c != NULL)
		weft_tcp_abort(z.p.c, qp_now());
	z.p.c = NULL;
	if (z.p.l != NULL)
		weft_tcp_unlisten(weft_engine_tcp(z.t->n[0].w), z.p.l);
	z.p.l = NULL;
}

/* ---- Actions of the peer ---- */

static uint64_t
offset(uint8_t how)
{
	uint64_t at = fuzz_u16(&z.in) % (GUARD_LEN + 100);

	return how & 0x40 ? at - 100 : (how & 0x20 ? TO + GUARD_LEN - at % 64 : TO + at);
}

static void
fill(uint8_t *p, uint32_t len)
{
	uint8_t first = fuzz_u8(&z.in);

	for (uint32_t i = 0; i < len; i++)
		p[i] = (uint8_t)(first + i * 7);
}

/** A segment of a Send of any kind, or Immediate Data. */
static void
peer_send(uint8_t op)
{
	static const uint8_t kinds[8] = {
	        WEFT_RDMAP_SEND, WEFT_RDMAP_SEND_INV, WEFT_RDMAP_SEND_SE, WEFT_RDMAP_SEND_SE_INV,
	        WEFT_RDMAP_IMM,  WEFT_RDMAP_IMM_SE,   WEFT_RDMAP_SEND,    WEFT_RDMAP_SEND_INV};
	uint8_t how = fuzz_u8(&z.in), p[1024], kind = kinds[how & 7];
	uint32_t len = how & 8 ? fuzz_u16(&z.in) % sizeof(p) : fuzz_u8(&z.in), inv,
	         msn = z.p.msn[0];
	bool last = (op & 0x80) == 0;

	if (kind == WEFT_RDMAP_IMM || kind == WEFT_RDMAP_IMM_SE)
		len = how & 0x10 ? len : 8;
	inv = qp_stag(fuzz_u8(&z.in));
	if (how & 0x20)
		msn += (uint32_t)(int8_t)fuzz_u8(&z.in);
	fill(p, len);
	send_untagged(kind, 0, msn, z.p.mo + (how & 0x40), last, inv, p, len);
	z.p.mo = last ? 0 : z.p.mo + len;
	z.p.msn[0] += last;
}

static void
peer_write(uint8_t op)
{
	uint8_t how = fuzz_u8(&z.in), p[1024];
	uint32_t len = how & 8 ? fuzz_u16(&z.in) % sizeof(p) : fuzz_u8(&z.in), stag = qp_stag(how);
	uint64_t to = offset(how);

	fill(p, len);
	send_tagged(how & 0x10 ? fuzz_u8(&z.in) & 15 : WEFT_RDMAP_WRITE, stag, to, !(op & 0x80), p,
	            len);
}

static void
peer_request(uint8_t op)
{
	static const uint8_t kinds[8] = {WEFT_RDMAP_READ_REQ,   WEFT_RDMAP_READ_REQ,
	                                 WEFT_RDMAP_ATOMIC_REQ, WEFT_RDMAP_ATOMIC_REQ,
	                                 WEFT_RDMAP_FLUSH_REQ,  WEFT_RDMAP_VERIFY_REQ,
	                                 WEFT_RDMAP_AWRITE_REQ, WEFT_RDMAP_READ_REQ};
	uint8_t how = fuzz_u8(&z.in), b[RDMAP_CTL_MAX_BYTES + 80], kind = kinds[how >> 4 & 7];
	uint32_t stag = qp_stag(how), len = fuzz_u16(&z.in) % (GUARD_LEN + 10), n;
	uint64_t to = offset(op);

	if (kind == WEFT_RDMAP_READ_REQ) {
		n = rdmap_read_req_encode(&(struct rdmap_read_req){.sink_stag = 0x11223344,
		                                                   .sink_to = len,
		                                                   .len_bytes = len,
		                                                   .src_stag = stag,
		                                                   .src_to = to},
		                          b);
	} else if (kind == WEFT_RDMAP_ATOMIC_REQ) {
		n = rdmap_atomic_req_encode(
		        &(struct rdmap_atomic_req){.aop = len & 0x100 ? len & 15 : len & 2,
		                                   .id = len,
		                                   .stag = stag,
		                                   .to = op & 8 ? to : to & ~7ull,
		                                   .data = len * 0x0101010101ull,
		                                   .mask = UINT64_MAX,
		                                   .cmp_mask = len & 1 ? UINT64_MAX : 0},
		        b);
	} else {
		struct rdmap_ext_req q = {.stag = stag,
		                          .len_bytes = len,
		                          .to = op & 8 ? to : to & ~7ull,
		                          .flags = len & 7,
		                          .hash_bytes = len & 0x10 ? 4 : 0};

		if (kind == WEFT_RDMAP_AWRITE_REQ && !(len & 0x20))
			q.len_bytes = 8;
		n = rdmap_ext_req_encode(kind, &q, b);
	}
	if (op & 0x80)
		n = fuzz_u8(&z.in) % (n + 8);
	send_untagged(kind, 1, z.p.msn[1]++, 0, true, 0, b, n);
}

/** Answer one of the stack's requests, correctly or almost. */
static void
peer_answer(uint8_t op)
{
	uint8_t how = fuzz_u8(&z.in), p[1024];
	struct qp_peer *r = &z.p;
	unsigned int i = how & 1 && r->npending > 1;
	struct peer_req a;

	if (r->npending == 0)
		return;
	a = r->pending[i];
	memmove(&r->pending[i], &r->pending[i + 1], (--r->npending - i) * sizeof(a));
	fill(p, sizeof(p));
	if (a.op == WEFT_RDMAP_READ_REQ) {
		struct rdmap_read_req q;

		FUZZ_CHECK(rdmap_read_req_decode(a.body, a.len, &q) > 0);
		if (how & 2)
			q.sink_stag = qp_stag(fuzz_u8(&z.in));
		if (how & 4)
			q.sink_to += (uint64_t)(int64_t)(int8_t)fuzz_u8(&z.in);
		if (how & 8)
			q.len_bytes += (uint32_t)(int8_t)fuzz_u8(&z.in);
		if (q.len_bytes > 2 * GUARD_LEN)
			q.len_bytes = 0;
		do {
			uint32_t n = RTE_MIN(q.len_bytes, (uint32_t)sizeof(p));

			send_tagged(WEFT_RDMAP_READ_RESP, q.sink_stag, q.sink_to,
			            n == q.len_bytes && !(how & 16), p, n);
			q.sink_to += n;
			q.len_bytes -= n;
		} while (q.len_bytes > 0 && !(how & 32));
	} else {
		uint32_t n = 0;

		if (a.op == WEFT_RDMAP_ATOMIC_REQ) {
			struct rdmap_atomic_req q;

			FUZZ_CHECK(rdmap_atomic_req_decode(a.body, a.len, &q) > 0);
			n = rdmap_atomic_resp_encode(
			        &(struct rdmap_atomic_resp){q.id + !!(how & 2), 5}, p);
		} else if (a.op == WEFT_RDMAP_VERIFY_REQ) {
			n = 4;
		}
		n = how & 4 ? fuzz_u8(&z.in) : n;
		send_untagged(a.op + 1 + (how & 8 ? 2 : 0), 3, r->msn[3] + !!(how & 16), 0,
		              !(op & 0x80), 0, p, n);
		r->msn[3]++;
	}
}

static void
peer_terminate(void)
{
	uint8_t how = fuzz_u8(&z.in), p[64];
	struct rdmap_terminate t = {.term = {how >> 6, how >> 4 & 3, fuzz_u8(&z.in) & 15}};
	uint32_t n = rdmap_terminate_encode(&t, p);

	if (how & 1)
		n = fuzz_u8(&z.in) % sizeof(p);
	send_untagged(WEFT_RDMAP_TERMINATE, 2, z.p.msn[2]++, 0, true, 0, p, n);
}

static void
peer_raw(uint8_t op)
{
	const uint8_t *raw;
	uint8_t u[256];
	size_t n;

	raw = fuzz_octets(&z.in, fuzz_u8(&z.in), &n);
	if (op & 0x80) {
		z.p.broken = true;
		send_octets(raw, (uint32_t)n);
		return;
	}
	if (n > 0)
		memcpy(u, raw, n);
	send_ulpdu(u, (uint32_t)n, op & 0x40);
}

void
peer_step(uint8_t op)
{
	if (z.p.c == NULL || z.p.fin)
		return;
	switch (op >> 1 & 7) {
	case 0:
		peer_raw(op);
		break;
	case 1:
		peer_send(op);
		break;
	case 2:
		peer_write(op);
		break;
	case 3:
		peer_request(op);
		break;
	case 4:
	case 5:
		peer_answer(op);
		break;
	case 6:
		peer_terminate();
		break;
	default:
		if (op & 0x80) {
			weft_tcp_abort(z.p.c, qp_now());
			z.p.c = NULL;
		} else if (op & 0x40) {
			weft_tcp_close(z.p.c, qp_now());
			z.p.fin = true;
		} else {
			peer_send(op);
		}
		break;
	}
}
