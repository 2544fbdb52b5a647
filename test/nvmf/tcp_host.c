/* SPDX-License-Identifier: BSD-3-Clause */
/** @file A host that speaks NVMe/TCP: see tcp_host.h. */

#include <errno.h>

#include <isa-l/crc.h>

#include "tcp_host.h"

static uint32_t
th_crc(const void *p, size_t bytes)
{
	return ~crc32_iscsi((unsigned char *)(uintptr_t)p, (int)bytes, 0xffffffffU);
}

/* ---- The target ---- */

static int
th_accept(void *user, struct weft_stream *s, struct weft_worker *w,
          const struct sockaddr_storage *remote)
{
	struct sockaddr_storage from = *remote;
	struct th *h = user;

	CHECK(w == h->t.n[1].w);
	CHECK_EQ(remote->ss_family, AF_INET);
	if (h->from != 0)
		((struct sockaddr_in *)&from)->sin_addr.s_addr = htonl(h->from);
	h->accepted = weft_nvmf_tcp_accept(h->tcp, s, &from);
	return h->accepted;
}

static void
th_refused(void *owner, const struct sockaddr_storage *remote, const char *why)
{
	struct th *h = owner;

	CHECK_EQ(remote->ss_family, AF_INET);
	CHECK(strlen(why) < sizeof(h->why));
	h->refusals++;
	strcpy(h->why, why);
}

void
th_start(struct th *h, const struct sim_link_cfg *link)
{
	struct vt_attr va = {.seed = test_seed(7), .link = *link};
	struct weft_stream_listen_attr la = {
	        .size = sizeof(la), .accept = th_accept, .user = h, .max_conns_per_peer = 64};
	const struct sockaddr_in sa = vt_addr(1, TH_PORT);
	const struct weft_nvmf_tcp_attr attr = h->attr;
	const uint64_t staging_bytes = h->staging_bytes == 0 ? 16U << 20 : h->staging_bytes;
	const uint64_t seed = h->seed;

	memset(h, 0, sizeof(*h));
	h->attr = attr;
	h->n.disk_bytes = 8U << 20;
	h->n.staging_bytes = staging_bytes;
	h->n.seed = seed;
	vt_open(&h->t, &va);
	nv_start(&h->n);
	h->attr.worker = h->t.n[1].w;
	h->attr.group = h->n.group[0];
	h->attr.refused = th_refused;
	h->attr.owner = h;
	CHECK_EQ(weft_nvmf_tcp_open(&h->attr, &h->tcp), 0);
	CHECK_EQ(weft_stream_listen(h->t.n[1].ctx, (const struct sockaddr *)&sa, sizeof(sa), &la,
	                            &h->lsn),
	         0);
}

void
th_step(struct th *h)
{
	vt_run(&h->t, TH_STEP_NS);
	h->n.vol.now_ns += TH_STEP_NS;
	nv_poll(&h->n);
	if (!h->frozen)
		weft_nvmf_tcp_poll(h->tcp, sim_now_ns(h->t.sim));
}

void
th_end(struct th *h)
{
	struct weft_nvmf_tcp_stats ts;
	struct weft_nvmf_stats ns;
	unsigned int i = 0;

	do {
		CHECK(i++ < TH_STEPS);
		th_step(h);
		weft_nvmf_tcp_query(h->tcp, &ts);
		weft_nvmf_query_stats(h->n.target, &ns);
	} while (ts.conns > 0 || ns.queues > 0);
	weft_stream_unlisten(h->lsn);
	CHECK_EQ(weft_nvmf_tcp_close(h->tcp), 0);
	nv_end(&h->n);
	vt_close(&h->t);
	memset(&h->attr, 0, sizeof(h->attr));
	h->staging_bytes = h->seed = 0;
}

/* ---- Octets ---- */

static void
th_drain(struct th_q *q)
{
	static uint8_t buf[4096];
	uint8_t *p;
	size_t n = tls_client_out(q->tls, &p), at = 0;

	if (n == 0)
		return;
	if (!q->cut) {
		vt_tcp_send(&q->p, p, n);
		return;
	}
	CHECK(n < sizeof(buf));
	if (q->kept)
		buf[at++] = q->last;
	memcpy(buf + at, p, --n);
	q->last = p[n];
	q->kept = true;
	vt_tcp_send(&q->p, buf, at + n);
}

void
th_pump(struct th_q *q)
{
	if (q->tls == NULL)
		return;
	tls_client_rx(q->tls, q->p.in, q->p.in_bytes);
	vt_tcp_used(&q->p, q->p.in_bytes);
	th_drain(q);
}

void
th_out(struct th_q *q, const void *p, size_t bytes)
{
	if (q->tls == NULL) {
		vt_tcp_send(&q->p, p, bytes);
	} else {
		tls_client_tx(q->tls, p, bytes);
		th_drain(q);
	}
}

/* ---- PDUs to the target ---- */

void
th_pdu(struct th_q *q, uint8_t *head, uint8_t hlen, uint8_t flags, uint8_t pdo, const void *data,
       uint32_t bytes)
{
	const bool ic = head[0] == NVMF_TCP_ICREQ || head[0] == NVMF_TCP_H2C_TERM;
	const bool hdgst = q->ready && q->hdgst && !ic, ddgst = q->ready && q->ddgst && bytes > 0;
	const uint32_t least = hlen + (hdgst ? 4U : 0);
	uint8_t digest[4], pad[256] = {0};

	if (bytes > 0 && pdo == 0)
		pdo = (uint8_t)least;
	head[1] = (uint8_t)(flags | (hdgst ? NVMF_TCP_HDGST : 0) | (ddgst ? NVMF_TCP_DDGST : 0));
	head[2] = hlen;
	head[3] = pdo;
	weft_nvmf_put32(head + 4, bytes > 0 ? pdo + bytes + (ddgst ? 4U : 0) : least);
	th_out(q, head, hlen);
	if (hdgst) {
		weft_nvmf_put32(digest, th_crc(head, hlen) ^ (q->spoil_head ? 1U : 0));
		th_out(q, digest, 4);
		q->spoil_head = false;
	}
	if (bytes == 0)
		return;
	th_out(q, pad, pdo - least);
	th_out(q, data, bytes);
	if (ddgst) {
		weft_nvmf_put32(digest, th_crc(data, bytes) ^ (q->spoil_data ? 0x80000000U : 0));
		th_out(q, digest, 4);
		q->spoil_data = false;
	}
}

void
th_open(struct th *h, struct th_q *q)
{
	const struct th_q was = *q;

	memset(q, 0, sizeof(*q));
	q->h = h;
	q->hdgst = was.hdgst;
	q->ddgst = was.ddgst;
	q->hpda = was.hpda;
	q->no_flow = was.no_flow;
	q->h2c_bytes = was.h2c_bytes;
	q->tls = was.tls;
	q->hold = was.hold;
	vt_tcp_open(&h->t, &q->p, TH_PORT);
	q->p.piece_bytes = was.p.piece_bytes;
}

void
th_init(struct th_q *q)
{
	uint8_t head[NVMF_TCP_IC_BYTES] = {NVMF_TCP_ICREQ};

	for (unsigned int i = 0; q->tls != NULL && !q->tls->done; i++) {
		CHECK_MSG(i < TH_STEPS && !q->p.ended && q->tls->failed == 0, "no handshake: %s",
		          q->h->why);
		th_pump(q);
		th_step(q->h);
	}
	head[10] = q->hpda;
	head[11] = (uint8_t)(q->hdgst | q->ddgst << 1);
	th_pdu(q, head, sizeof(head), 0, 0, NULL, 0);
	for (unsigned int i = 0; !q->ready; i++) {
		CHECK_MSG(i < TH_STEPS && !q->p.ended && !q->termed, "no ICResp");
		th_step(q->h);
		th_look(q);
	}
	CHECK_EQ(q->ic.hdgst, q->hdgst);
	CHECK_EQ(q->ic.ddgst, q->ddgst);
}

uint16_t
th_send(struct th_q *q, struct weft_nvmf_sqe *sqe, void *data, uint32_t bytes, bool inside)
{
	const uint8_t way = sqe->opcode == WEFT_NVMF_OP_FABRICS ? sqe->fctype : sqe->opcode;
	const struct weft_nvmf_sgl sgl = {
	        .kind = inside ? WEFT_NVMF_SGL_CAPSULE : WEFT_NVMF_SGL_TRANSPORT, .bytes = bytes};
	uint8_t head[NVMF_TCP_CMD_BYTES] = {NVMF_TCP_CAPSULE_CMD};
	uint16_t cid = 0;

	while (q->cmd[cid].busy)
		CHECK(++cid < TH_CMDS);
	q->cmd[cid] = (struct th_cmd){
	        .busy = true, .in = (way & 3) == 1, .inside = inside, .data = data, .bytes = bytes};
	sqe->cid = cid;
	nv_sgl_encode(&sgl, sqe);
	nv_sqe_encode(sqe, head + 8);
	th_pdu(q, head, sizeof(head), 0, 0, data, inside ? bytes : 0);
	return cid;
}

void
th_serve(struct th_q *q, uint16_t cid, uint32_t bytes)
{
	struct th_cmd *c = &q->cmd[cid];
	uint8_t head[NVMF_TCP_DATA_BYTES] = {NVMF_TCP_H2C_DATA};

	CHECK(c->asked && bytes > 0 && bytes <= c->asked_left);
	weft_nvmf_put16(head + 8, cid);
	weft_nvmf_put16(head + 10, c->ttag);
	weft_nvmf_put32(head + 12, c->asked_off);
	weft_nvmf_put32(head + 16, bytes);
	th_pdu(q, head, sizeof(head), bytes == c->asked_left ? NVMF_TCP_LAST : 0, 0,
	       c->data + c->asked_off, bytes);
	c->asked_off += bytes;
	c->asked_left -= bytes;
	c->moved_bytes += bytes;
	c->asked = c->asked_left > 0;
}

/* ---- PDUs of the target ---- */

static struct th_cmd *
th_cmd_of(struct th_q *q, uint16_t cid)
{
	CHECK(cid < TH_CMDS);
	CHECK(q->cmd[cid].busy && !q->cmd[cid].answered);
	return &q->cmd[cid];
}

static void
th_answered(struct th_q *q, struct th_cmd *c, const struct weft_nvmf_cqe *cqe)
{
	c->cqe = *cqe;
	c->answered = true;
	if (cqe->status == 0 && c->data != NULL && !c->inside)
		CHECK_EQ(c->moved_bytes, c->bytes);
	q->result = cqe->result;
}

static void
th_on_data(struct th_q *q, const uint8_t *pdu, uint32_t plen)
{
	const uint32_t off = weft_nvmf_get32(pdu + 12), len = weft_nvmf_get32(pdu + 16);
	struct th_cmd *c = th_cmd_of(q, weft_nvmf_get16(pdu + 8));

	CHECK_EQ(pdu[2], NVMF_TCP_DATA_BYTES);
	CHECK_EQ(pdu[3] % ((q->hpda + 1) * 4), 0);
	CHECK_EQ(plen, pdu[3] + len + (q->ddgst ? 4U : 0));
	CHECK_EQ((pdu[1] & NVMF_TCP_DDGST) != 0, q->ddgst);
	if (q->ddgst)
		CHECK_EQ(weft_nvmf_get32(pdu + pdu[3] + len), th_crc(pdu + pdu[3], len));
	CHECK(!c->in && len > 0);
	CHECK_EQ(off, c->moved_bytes);
	CHECK(len <= c->bytes - off);
	memcpy(c->data + off, pdu + pdu[3], len);
	c->moved_bytes += len;
	CHECK_EQ((pdu[1] & NVMF_TCP_LAST) != 0, c->moved_bytes == c->bytes);
	q->data_pdus++;
	if ((pdu[1] & NVMF_TCP_SUCCESS) != 0) {
		const struct weft_nvmf_cqe ok = {0};

		CHECK(q->no_flow && (pdu[1] & NVMF_TCP_LAST) != 0);
		q->successes++;
		c->success = true;
		th_answered(q, c, &ok);
	}
}

static void
th_on_r2t(struct th_q *q, const uint8_t *pdu)
{
	struct th_cmd *c = th_cmd_of(q, weft_nvmf_get16(pdu + 8));
	uint16_t cid = (uint16_t)(c - q->cmd);

	CHECK_EQ(pdu[2], NVMF_TCP_R2T_BYTES);
	CHECK(c->in && !c->inside && !c->asked);
	c->ttag = weft_nvmf_get16(pdu + 10);
	c->asked_off = weft_nvmf_get32(pdu + 12);
	c->asked_left = weft_nvmf_get32(pdu + 16);
	CHECK_EQ(c->asked_off, c->moved_bytes);
	CHECK(c->asked_left > 0 && c->asked_left <= c->bytes - c->asked_off);
	c->asked = true;
	q->r2ts++;
	while (!q->hold && c->asked) {
		uint32_t n = q->ic.max;

		n = q->h2c_bytes > 0 && q->h2c_bytes < n ? q->h2c_bytes : n;
		th_serve(q, cid, n < c->asked_left ? n : c->asked_left);
	}
}

/** A whole PDU. */
static void
th_on_pdu(struct th_q *q, const uint8_t *pdu, uint32_t plen)
{
	struct weft_nvmf_cqe cqe;

	switch (pdu[0]) {
	case NVMF_TCP_ICRESP:
		CHECK(!q->ready);
		CHECK_EQ(plen, NVMF_TCP_IC_BYTES);
		CHECK_EQ(weft_nvmf_get16(pdu + 8), 0);
		q->ic = (struct nvmf_tcp_ic){.pda = pdu[10],
		                             .hdgst = pdu[11] & 1,
		                             .ddgst = pdu[11] >> 1,
		                             .max = weft_nvmf_get32(pdu + 12)};
		CHECK(q->ic.max >= 4096);
		q->ready = true;
		return;
	case NVMF_TCP_C2H_TERM:
		CHECK(!q->termed);
		q->termed = true;
		q->term = nvmf_tcp_term_decode(pdu);
		q->echo_bytes = plen - NVMF_TCP_TERM_BYTES;
		return;
	default:
		break;
	}
	CHECK(q->ready);
	CHECK_EQ((pdu[1] & NVMF_TCP_HDGST) != 0, q->hdgst);
	if (q->hdgst)
		CHECK_EQ(weft_nvmf_get32(pdu + pdu[2]), th_crc(pdu, pdu[2]));
	switch (pdu[0]) {
	case NVMF_TCP_CAPSULE_RESP:
		CHECK_EQ(plen, q->hdgst ? 28 : 24);
		nv_cqe_decode(pdu + 8, &cqe);
		th_answered(q, th_cmd_of(q, cqe.cid), &cqe);
		break;
	case NVMF_TCP_C2H_DATA:
		th_on_data(q, pdu, plen);
		break;
	case NVMF_TCP_R2T:
		CHECK_EQ(plen, q->hdgst ? 28 : 24);
		th_on_r2t(q, pdu);
		break;
	default:
		CHECK_MSG(false, "PDU of type %u", pdu[0]);
	}
}

void
th_look(struct th_q *q)
{
	const uint8_t *in;
	size_t at = 0, bytes;

	th_pump(q);
	in = q->tls != NULL ? q->tls->text : q->p.in;
	bytes = q->tls != NULL ? q->tls->text_bytes : q->p.in_bytes;
	while (bytes - at >= NVMF_TCP_CH_BYTES) {
		const uint32_t plen = weft_nvmf_get32(in + at + 4);

		CHECK(plen >= NVMF_TCP_CH_BYTES && plen <= (1U << 21));
		if (bytes - at < plen)
			break;
		CHECK(!q->termed); /* the last PDU */
		th_on_pdu(q, in + at, plen);
		at += plen;
	}
	if (q->tls != NULL)
		tls_client_used(q->tls, at);
	else
		vt_tcp_used(&q->p, at);
}

/* ---- Commands ---- */

uint16_t
th_wait(struct th_q *q, uint16_t cid)
{
	struct th_cmd *c = &q->cmd[cid];

	for (unsigned int i = 0; !c->answered; i++) {
		CHECK_MSG(i < TH_STEPS && !q->p.ended && !q->termed,
		          "command %u: no answer (FES %d, FEI %u)", cid, (int)q->term.fes,
		          q->term.fei);
		th_step(q->h);
		th_look(q);
	}
	c->busy = false;
	q->result = c->cqe.result;
	return c->cqe.status;
}

uint16_t
th_do(struct th_q *q, struct weft_nvmf_sqe sqe, void *data, uint32_t bytes)
{
	return th_wait(q, th_send(q, &sqe, data, bytes, false));
}

void
th_queue(struct th *h, struct th_q *q, uint16_t qid, uint16_t cntlid)
{
	struct weft_nvmf_connect c = {.cntlid = cntlid, .subnqn = NV_SUBSYS, .hostnqn = NV_HOST};
	struct weft_nvmf_sqe sqe = nv_sqe(WEFT_NVMF_OP_FABRICS, 0, (uint32_t)qid << 16,
	                                  (TH_CMDS - 1) | (q->no_flow ? 4U << 16 : 0), 0);
	uint8_t data[WEFT_NVMF_CONNECT_BYTES];

	th_open(h, q);
	th_init(q);
	sqe.fctype = WEFT_NVMF_FC_CONNECT;
	nv_connect_encode(&c, data);
	CHECK_EQ(th_wait(q, th_send(q, &sqe, data, sizeof(data), true)), 0);
	q->cntlid = (uint16_t)q->result;
}

void
th_enable(struct th_q *q)
{
	struct weft_nvmf_sqe sqe = nv_sqe(WEFT_NVMF_OP_FABRICS, 0, 0, WEFT_NVMF_PROP_CC, 0x460001);

	sqe.fctype = WEFT_NVMF_FC_PROPERTY_SET;
	CHECK_EQ(th_do(q, sqe, NULL, 0), 0);
}

void
th_close(struct th_q *q)
{
	vt_tcp_end(&q->p);
}

void
th_wait_end(struct th_q *q)
{
	for (unsigned int i = 0; !q->p.ended && !q->p.eof; i++) {
		CHECK_MSG(i < TH_STEPS, "the connection does not end");
		th_step(q->h);
		th_look(q);
	}
	th_look(q);
}

struct weft_nvmf_sqe
th_rw(uint8_t opcode, uint32_t slba, uint32_t bytes)
{
	return nv_sqe(opcode, 1, slba, 0, bytes / 512 - 1);
}
