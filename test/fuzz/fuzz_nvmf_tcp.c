/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Octets of hosts that speak NVMe/TCP, on connections over streams that are doubles: they
 * take as much as the input says, in pieces of any length, and end at any moment. PDUs are built
 * from the input, right or wrong, or are its raw octets. What the target sends is a sequence of
 * whole PDUs of its own, each answer is that of a command that has none yet, and at the end of an
 * input no connection, controller, queue or command is left.
 */

#include <errno.h>

#include "fuzz.h"
#include "nvmf_host.h"
#include "nvmf_tcp_wire.h"
#include "volume_rig.h"
#include "weft_nvmf.h"
#include "weft_nvmf_tcp.h"

#define CONNS     3
#define CIDS      16
#define MDTS      16384U
#define OPS_MAX   300
#define POLLS_MAX 100000
#define STALL_NS  5000000000U
#define SUBSYS    "nqn.2026-01.org.example:fuzz"
#define HOST      "nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555"

/** A double of a stream, and what its host knows. */
struct weft_stream {
	const struct weft_stream_ops *ops;
	void *user;
	bool open;          /**< the target has it */
	uint64_t since_ns;  /**< when it was opened */
	bool closed, eof;   /**< by the target; by the host */
	size_t room_bytes;  /**< that a write takes */
	bool short_write;   /**< `writable` is due */
	uint8_t out[65536]; /**< what the target has sent, up to a PDU's end */
	size_t out_bytes;
	/* the host */
	bool ready, hdgst, ddgst, termed;
	uint16_t cntlid;
	uint16_t busy[2 * CIDS]; /**< commands without an answer, by CID */
	bool wild;               /**< the target may have seen other commands than those */
	/** the last R2T */
	bool asked;
	uint16_t cccid, ttag;
	uint32_t off, left;
};

static struct rig vol;
static struct weft_nvmf *target;
static struct weft_nvmf_subsys *subsys;
static struct weft_nvmf_group *group;
static struct weft_nvmf_tcp *tcp;
static uint8_t *memory;
static struct weft_stream stream[CONNS];
static uint16_t cntlid;
static uint64_t answers; /**< of all inputs */
static uint64_t stalls;  /**< likewise */

/* ---- Doubles ---- */

uint64_t
weft_worker_now_ns(const struct weft_worker *w)
{
	(void)w;
	return vol.now_ns;
}

int
weft_stream_set_user(struct weft_stream *s, const struct weft_stream_ops *ops, void *user)
{
	s->ops = ops;
	s->user = user;
	return 0;
}

static void
stream_gone(struct weft_stream *s)
{
	s->open = false;
	s->ops = NULL;
}

void
weft_stream_abort(struct weft_stream *s)
{
	struct weft_nvmf_tcp_stats ts;

	FUZZ_CHECK(s->open);
	/* one that stalls has had its time */
	weft_nvmf_tcp_query(tcp, &ts);
	FUZZ_CHECK(ts.stalls == stalls || vol.now_ns - s->since_ns >= STALL_NS);
	stalls = ts.stalls;
	stream_gone(s);
}

int
weft_stream_close(struct weft_stream *s)
{
	FUZZ_CHECK(s->open);
	s->closed = true;
	return 0;
}

/** The answer to a command. */
static void
on_answer(struct weft_stream *s, uint16_t cid)
{
	answers++;
	FUZZ_CHECK(s->wild || (cid < 2 * CIDS && s->busy[cid] > 0));
	if (cid < 2 * CIDS && s->busy[cid] > 0)
		s->busy[cid]--;
}

/** A whole PDU of the target. */
static void
on_pdu(struct weft_stream *s, const uint8_t *pdu, uint32_t plen)
{
	struct weft_nvmf_cqe cqe;

	FUZZ_CHECK(!s->termed);
	FUZZ_CHECK(s->ready || pdu[0] == NVMF_TCP_ICRESP || pdu[0] == NVMF_TCP_C2H_TERM);
	if (s->ready && s->hdgst && pdu[0] != NVMF_TCP_C2H_TERM)
		FUZZ_CHECK(weft_nvmf_get32(pdu + pdu[2]) == nvmf_tcp_digest(pdu, pdu[2]));
	switch (pdu[0]) {
	case NVMF_TCP_ICRESP:
		FUZZ_CHECK(!s->ready && plen == NVMF_TCP_IC_BYTES);
		s->ready = true;
		s->hdgst = pdu[11] & 1;
		s->ddgst = pdu[11] >> 1;
		break;
	case NVMF_TCP_C2H_TERM:
		FUZZ_CHECK(plen >= 24 && plen <= 152);
		s->termed = true;
		break;
	case NVMF_TCP_CAPSULE_RESP:
		nv_cqe_decode(pdu + 8, &cqe);
		on_answer(s, cqe.cid);
		if (cqe.status == 0 && cqe.cid == 0)
			s->cntlid = (uint16_t)cqe.result;
		break;
	case NVMF_TCP_C2H_DATA:
		if ((pdu[1] & NVMF_TCP_SUCCESS) != 0)
			on_answer(s, weft_nvmf_get16(pdu + 8));
		FUZZ_CHECK(weft_nvmf_get32(pdu + 16) + pdu[3] + (s->ddgst ? 4U : 0) == plen);
		break;
	case NVMF_TCP_R2T:
		s->asked = true;
		s->cccid = weft_nvmf_get16(pdu + 8);
		s->ttag = weft_nvmf_get16(pdu + 10);
		s->off = weft_nvmf_get32(pdu + 12);
		s->left = weft_nvmf_get32(pdu + 16);
		FUZZ_CHECK(s->off == 0 && s->left > 0 && s->left <= MDTS);
		break;
	default:
		FUZZ_CHECK(false);
	}
}

ssize_t
weft_stream_write(struct weft_stream *s, const struct iovec *iov, unsigned int n)
{
	size_t taken = 0, all = 0;

	FUZZ_CHECK(s->open);
	if (s->closed)
		return -EPIPE;
	for (unsigned int i = 0; i < n; i++) {
		size_t k = iov[i].iov_len;

		all += k;
		k = k < s->room_bytes - taken ? k : s->room_bytes - taken;
		FUZZ_CHECK(s->out_bytes + k <= sizeof(s->out));
		memcpy(s->out + s->out_bytes, iov[i].iov_base, k);
		s->out_bytes += k;
		taken += k;
	}
	s->room_bytes -= taken;
	s->short_write = taken < all;
	while (s->out_bytes >= 8) {
		const uint32_t plen = weft_nvmf_get32(s->out + 4);

		FUZZ_CHECK(plen >= 24 && plen <= sizeof(s->out));
		if (s->out_bytes < plen)
			break;
		on_pdu(s, s->out, plen);
		s->out_bytes -= plen;
		memmove(s->out, s->out + plen, s->out_bytes);
	}
	return (ssize_t)taken;
}

/* ---- The target ---- */

static void
set_up(void)
{
	const struct weft_nvmf_attr attr = {.mdts_bytes = MDTS, .max_io_queues = 3};
	const struct weft_nvmf_subsys_attr sa = {
	        .nqn = SUBSYS, .serial = "1", .any_host = true, .max_nsid = 4};
	struct weft_nvmf_ns_attr na = {.nsid = 2, .volatile_cache = true};
	struct weft_nvmf_group_attr ga = {0};
	/* never looked at: its double is */
	struct weft_nvmf_tcp_attr ta = {.depth = CIDS, .data_bytes = 8192, .stall_ns = STALL_NS};

	test_bail_aborts = true;
	rig_device(&vol, 2U << 20, 512, 0);
	rig_format(&vol, 0);
	rig_open(&vol, 1, 0);
	na.vol = vol.vol;
	FUZZ_CHECK(weft_nvmf_create(&attr, &target) == 0);
	FUZZ_CHECK(weft_nvmf_subsys_add(target, &sa, &subsys) == 0);
	FUZZ_CHECK(weft_nvmf_ns_add(subsys, &na) == 0);
	ga.bytes = weft_nvmf_group_min_bytes(target);
	FUZZ_CHECK(posix_memalign((void **)&memory, 4096, ga.bytes) == 0);
	ga.memory = memory;
	FUZZ_CHECK(weft_nvmf_group_open(target, &ga, &group) == 0);
	FUZZ_CHECK(weft_nvmf_group_attach(group, subsys, 2, vol.chan[0]) == 0);
	ta.group = group;
	FUZZ_CHECK(weft_nvmf_tcp_open(&ta, &tcp) == 0);
}

static void
poll_all(void)
{
	rig_poll(&vol);
	(void)weft_nvmf_group_poll(group, vol.now_ns);
	weft_nvmf_tcp_poll(tcp, vol.now_ns);
}

/* ---- Hosts ---- */

static void
open_stream(struct weft_stream *s)
{
	const struct sockaddr_storage remote = {0};

	memset(s, 0, sizeof(*s));
	s->open = true;
	s->room_bytes = 1U << 20;
	s->since_ns = vol.now_ns;
	/* those that ended are there until the next polls */
	if (weft_nvmf_tcp_accept(tcp, s, &remote) != 0)
		s->open = false;
}

/** The host goes. */
static void
lose(struct weft_stream *s)
{
	const struct weft_stream_ops *ops = s->ops;

	if (!s->open)
		return;
	stream_gone(s);
	ops->ended(s->user, -ECONNRESET);
}

/** Octets arrive, in pieces of `cut` octets, each in an allocation of its length. */
static void
deliver(struct weft_stream *s, const uint8_t *p, size_t bytes, size_t cut)
{
	while (bytes > 0 && s->open) {
		const size_t n = cut > 0 && cut < bytes ? cut : bytes;
		uint8_t *exact = malloc(n);

		FUZZ_CHECK(exact != NULL);
		memcpy(exact, p, n);
		s->ops->received(s->user, exact, n);
		free(exact);
		p += n;
		bytes -= n;
	}
}

/** A PDU with digests as agreed; how: what is wrong with it. */
static void
pdu(struct weft_stream *s, uint8_t *head, uint8_t hlen, uint8_t flags, const uint8_t *data,
    uint32_t bytes, uint8_t how, size_t cut)
{
	const bool ic = head[0] == NVMF_TCP_ICREQ || head[0] == NVMF_TCP_H2C_TERM;
	const bool hdgst = s->ready && s->hdgst && !ic;
	const bool ddgst = s->ready && s->ddgst && bytes > 0;
	uint8_t all[256 + 16384 + 8];
	uint32_t n = hlen;

	FUZZ_CHECK(bytes <= 16384);
	head[1] = (uint8_t)(flags | (hdgst ? 1 : 0) | (ddgst ? 2 : 0));
	head[2] = hlen;
	head[3] = (uint8_t)(bytes > 0 ? hlen + (hdgst ? 4 : 0) + (how & 8 ? 4 : 0) : 0);
	weft_nvmf_put32(head + 4,
	                bytes > 0 ? head[3] + bytes + (ddgst ? 4U : 0) : hlen + (hdgst ? 4U : 0));
	if (how & 1) {
		head[how >> 4] ^= (uint8_t)(1U << (how >> 1 & 7));
		s->wild = true; /* its length may be wrong: what follows is read otherwise */
	}
	memcpy(all, head, hlen);
	if (hdgst) {
		weft_nvmf_put32(all + n, nvmf_tcp_digest(head, hlen) ^ (how & 2 ? 1U : 0));
		n += 4;
	}
	if (bytes > 0) {
		if (how & 8)
			memset(all + n, 0, 4);
		n += how & 8 ? 4 : 0;
		memcpy(all + n, data, bytes);
		n += bytes;
		if (ddgst) {
			weft_nvmf_put32(all + n, nvmf_tcp_digest(data, bytes) ^ (how & 4 ? 1U : 0));
			n += 4;
		}
	}
	deliver(s, all, n, cut);
}

static void
icreq(struct weft_stream *s, uint8_t dgst, uint8_t hpda, uint8_t how)
{
	uint8_t head[NVMF_TCP_IC_BYTES] = {NVMF_TCP_ICREQ};

	head[10] = hpda;
	head[11] = dgst;
	pdu(s, head, sizeof(head), 0, NULL, 0, how, 0);
}

static void
send_cmd(struct weft_stream *s, struct weft_nvmf_sqe *sqe, const uint8_t *data, uint32_t bytes,
         uint8_t how, size_t cut)
{
	uint8_t head[NVMF_TCP_CMD_BYTES] = {NVMF_TCP_CAPSULE_CMD};

	/* a CID that is in use would be answered twice */
	if (s->busy[sqe->cid] > 0)
		sqe->cid = (uint16_t)(sqe->cid + CIDS);
	s->busy[sqe->cid]++;
	nv_sqe_encode(sqe, head + 8);
	/* what is wrong may be the CID */
	if ((how & 1) && how >> 4 >= 8)
		how &= 0x7f;
	pdu(s, head, sizeof(head), 0, data, bytes, how, cut);
}

/** ICReq, Connect and CC.EN, so that short inputs reach commands. */
static void
connected(struct weft_stream *s, unsigned int qid, uint8_t how)
{
	const struct weft_nvmf_sgl sgl = {.kind = WEFT_NVMF_SGL_CAPSULE,
	                                  .bytes = WEFT_NVMF_CONNECT_BYTES};
	struct weft_nvmf_connect c = {.cntlid = cntlid, .subnqn = SUBSYS, .hostnqn = HOST};
	struct weft_nvmf_sqe e = {.opcode = WEFT_NVMF_OP_FABRICS, .fctype = WEFT_NVMF_FC_CONNECT};
	uint8_t data[WEFT_NVMF_CONNECT_BYTES];

	icreq(s, how & 3, (how & 4) ? 7 : 0, 0);
	if (qid == 0)
		c.cntlid = 0xffff;
	nv_connect_encode(&c, data);
	nv_sgl_encode(&sgl, &e);
	e.cdw[10] = qid << 16;
	e.cdw[11] = (CIDS - 1) | (how & 8 ? 4U << 16 : 0);
	send_cmd(s, &e, data, sizeof(data), 0, 0);
	poll_all();
	if (qid > 0)
		return;
	cntlid = s->cntlid;
	memset(&e, 0, sizeof(e));
	e.opcode = WEFT_NVMF_OP_FABRICS;
	e.fctype = WEFT_NVMF_FC_PROPERTY_SET;
	e.cdw[11] = WEFT_NVMF_PROP_CC;
	e.cdw[12] = 0x460001;
	e.psdt = 1;
	e.cdw[9] = 0x5aU << 24;
	send_cmd(s, &e, NULL, 0, 0, 0);
}

/** A command of the input: its fields, most of them small. */
static void
command(struct fuzz_in *in, struct weft_stream *s)
{
	static const uint8_t data[8192 + 64];
	const uint8_t how = fuzz_u8(in), wrong = how & 1 ? fuzz_u8(in) : 0;
	struct weft_nvmf_sgl sgl = {.kind = WEFT_NVMF_SGL_TRANSPORT};
	struct weft_nvmf_sqe e = {.nsid = 2, .cid = fuzz_u8(in) % CIDS};
	uint32_t inside = 0;

	e.opcode = fuzz_u8(in) & 0x1f;
	if (how & 2)
		e.opcode = WEFT_NVMF_OP_FABRICS;
	e.fctype = fuzz_u8(in) & 7;
	e.fuse = how & 4 ? fuzz_u8(in) & 3 : 0;
	e.cdw[10] = fuzz_u8(in);
	e.cdw[11] = how & 8 ? fuzz_u32(in) : 0;
	e.cdw[12] = how & 16 ? fuzz_u32(in) : fuzz_u8(in) & 31;
	sgl.bytes = how & 32 ? fuzz_u16(in) : 512U * ((e.cdw[12] & 0xff) + 1);
	if (how & 64) {
		sgl.kind = WEFT_NVMF_SGL_CAPSULE;
		inside = how & 128 ? fuzz_u16(in) % sizeof(data) : sgl.bytes % 8193;
	}
	nv_sgl_encode(&sgl, &e);
	send_cmd(s, &e, data, inside, wrong, fuzz_u8(in));
}

/** Data for the last R2T, right or wrong. */
static void
serve(struct fuzz_in *in, struct weft_stream *s)
{
	static const uint8_t data[16384];
	const uint8_t how = fuzz_u8(in), wrong = how & 1 ? fuzz_u8(in) : 0;
	uint8_t head[NVMF_TCP_DATA_BYTES] = {NVMF_TCP_H2C_DATA};
	uint32_t n = s->left < 8192 ? s->left : 8192;
	uint8_t flags;

	if (!s->asked)
		return;
	if (how & 2)
		n = 1 + fuzz_u16(in) % n;
	flags = n == s->left ? NVMF_TCP_LAST : 0;
	weft_nvmf_put16(head + 8, (uint16_t)(s->cccid ^ (how & 4 ? fuzz_u8(in) : 0)));
	weft_nvmf_put16(head + 10, (uint16_t)(s->ttag ^ (how & 8 ? fuzz_u16(in) : 0)));
	weft_nvmf_put32(head + 12, s->off ^ (how & 16 ? fuzz_u32(in) : 0));
	weft_nvmf_put32(head + 16, n ^ (how & 32 ? fuzz_u32(in) : 0));
	s->off += n;
	s->left -= n;
	s->asked = s->left > 0;
	pdu(s, head, sizeof(head), flags ^ (how & 64 ? NVMF_TCP_LAST : 0), data, n, wrong,
	    how & 128 ? 1 + fuzz_u8(in) : 0);
}

/** Data for an R2T that may be there, or not: CCCID and TTAG are guessed. */
static void
guess(struct fuzz_in *in, struct weft_stream *s)
{
	static const uint8_t data[8192];
	uint8_t head[NVMF_TCP_DATA_BYTES] = {NVMF_TCP_H2C_DATA};
	const uint8_t what = fuzz_u8(in), size = fuzz_u8(in);
	const uint32_t n = 512 * (1 + (size & 15U));

	weft_nvmf_put16(head + 8, what % (2 * CIDS));
	weft_nvmf_put16(head + 10, (uint16_t)(what >> 5 & 3));
	weft_nvmf_put32(head + 16, n);
	pdu(s, head, sizeof(head), size & 16 ? 0 : NVMF_TCP_LAST, data, n, 0, 0);
}

/** A stream takes octets again. */
static void
take(struct weft_stream *s, size_t bytes)
{
	s->room_bytes = bytes;
	if (!s->short_write || s->closed || bytes == 0)
		return;
	s->short_write = false;
	s->ops->writable(s->user);
}

static void
step(struct fuzz_in *in, uint8_t op)
{
	struct weft_stream *s = &stream[op % CONNS];
	const uint8_t *p;
	size_t n;

	if (!s->open && op >> 4 < 13)
		return;
	switch (op >> 4) {
	default:
		command(in, s);
		break;
	case 6:
	case 7:
		serve(in, s);
		break;
	case 8:
		n = fuzz_u8(in);
		p = fuzz_octets(in, n, &n);
		s->wild = s->wild || n > 0;
		deliver(s, p, n, op & 8 ? 1 : 0);
		break;
	case 9:
		if (op & 8)
			guess(in, s);
		else
			icreq(s, fuzz_u8(in), fuzz_u8(in), fuzz_u8(in));
		break;
	case 10:
	case 11:
		take(s, op & 8 ? 1U << 20 : fuzz_u16(in));
		break;
	case 12:
		if (!s->eof)
			s->ops->eof(s->user);
		s->eof = true;
		break;
	case 13:
		poll_all();
		break;
	case 14:
		lose(s);
		open_stream(s);
		if ((op & 8) && s->open)
			connected(s, op % CONNS, fuzz_u8(in));
		break;
	case 15:
		vol.now_ns += (uint64_t)fuzz_u8(in) * 100000000;
		poll_all();
		break;
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_in in = {data, size};
	struct weft_nvmf_tcp_stats ts;
	struct weft_nvmf_stats stats;
	uint8_t begin;

	if (target == NULL)
		set_up();
	for (unsigned int i = 0; i < CONNS; i++)
		open_stream(&stream[i]);
	begin = fuzz_u8(&in);
	for (unsigned int i = 0; i < CONNS && (begin & 1); i++)
		connected(&stream[i], i, begin >> 1);
	for (unsigned int n = 0; in.left > 0 && n < OPS_MAX; n++)
		step(&in, fuzz_u8(&in));
	for (unsigned int i = 0; i < CONNS; i++)
		lose(&stream[i]);
	for (unsigned int i = 0;; i++) {
		FUZZ_CHECK(i < POLLS_MAX);
		poll_all();
		weft_nvmf_tcp_query(tcp, &ts);
		if (ts.conns == 0)
			break;
	}
	FUZZ_CHECK(answers <= ts.pdus_in);
	weft_nvmf_query_stats(target, &stats);
	FUZZ_CHECK(stats.ctrls == 0 && stats.queues == 0);
	return 0;
}
