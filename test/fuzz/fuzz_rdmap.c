/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file ULPDUs for one stream of RDMAP over DDP: raw, or segments with STags, offsets and message
 * numbers close to the valid ones. Meanwhile requests of its user are in flight, and one of its
 * regions has a slow, failing medium.
 */

#include "fuzz.h"

#include "rdmap_rig.h"

#define FUZZ_OPS     150
#define FUZZ_REQS    12
#define FUZZ_REGIONS 4
#define FUZZ_RAM     1000
#define FUZZ_MEDIUM  8192
#define ALL                                                                                        \
	(WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_REMOTE_READ | WEFT_ACCESS_REMOTE_WRITE |            \
	 WEFT_ACCESS_REMOTE_ATOMIC | WEFT_ACCESS_FLUSH_VISIBLE)

static struct {
	struct fuzz_in in;
	struct weft_mem_mr *mr[FUZZ_REGIONS]; /**< NULL: deregistered */
	uint32_t stag[FUZZ_REGIONS];
	struct weft_rdmap_req req[FUZZ_REQS];
	bool busy[FUZZ_REQS];
	struct rig_medium medium;
	uint8_t *ram; /**< of its exact length */
	bool eof;
} z;

static void
on_event(struct rig_side *s, const struct rig_ev *e)
{
	(void)s;
	if (e->kind != EV_DONE)
		return;
	FUZZ_CHECK(e->req >= z.req && e->req < z.req + FUZZ_REQS);
	FUZZ_CHECK(z.busy[e->req - z.req]);
	z.busy[e->req - z.req] = false;
}

static uint32_t
stag(uint8_t how)
{
	return z.stag[how & 3] ^ (how & 0x80 ? fuzz_u32(&z.in) : 0);
}

static uint64_t
offset(uint8_t how)
{
	uint64_t at = fuzz_u16(&z.in) % (FUZZ_MEDIUM + 100);

	return how & 0x40 ? at - FUZZ_RAM : at;
}

static void
segment(uint8_t op)
{
	static const uint8_t ops[8] = {WEFT_RDMAP_SEND,        WEFT_RDMAP_SEND_INV,
	                               WEFT_RDMAP_SEND_SE_INV, WEFT_RDMAP_READ_REQ,
	                               WEFT_RDMAP_FLUSH_REQ,   WEFT_RDMAP_VERIFY_RESP,
	                               WEFT_RDMAP_FLUSH_RESP,  WEFT_RDMAP_TERMINATE};
	static const uint8_t queues[8] = {0, 0, 0, 1, 1, 3, 3, 2};
	uint8_t how = fuzz_u8(&z.in), ctrl = 0x40 | ops[how & 7];
	uint32_t qn = queues[how & 7], msn, mo, inv;
	const uint8_t *text;
	size_t len;

	if (how & 8)
		ctrl = fuzz_u8(&z.in);
	if (how & 16)
		qn = fuzz_u8(&z.in);
	msn = rig.b.ddp->rx_msn[qn & 3] + (how & 32 ? (uint32_t)(int8_t)fuzz_u8(&z.in) : 0);
	mo = rig.b.ddp->rx_mo[qn & 3] + (how & 64 ? (uint32_t)(int8_t)fuzz_u8(&z.in) : 0);
	inv = stag(how);
	text = fuzz_octets(&z.in, fuzz_u8(&z.in), &len);
	rig_inject_untagged(&rig.b, ctrl, qn, msn, mo, (how & 128) == 0 || op & 128, inv, text,
	                    (uint32_t)len);
}

static void
tagged(uint8_t op)
{
	uint8_t how = fuzz_u8(&z.in), zeros[1400] = {0};
	uint32_t len = how & 8 ? fuzz_u16(&z.in) % sizeof(zeros) : fuzz_u8(&z.in), to_stag;
	uint64_t to;

	to_stag = stag(how);
	to = offset(how);
	rig_inject_tagged(&rig.b,
	                  how & 16   ? fuzz_u8(&z.in)
	                  : how & 32 ? 0x42
	                             : 0x40,
	                  to_stag, to, op & 128, zeros, len);
}

/** A complete request: Read, Atomic, Flush, Verify or Atomic Write. */
static void
request(void)
{
	static const uint8_t ops[4] = {WEFT_RDMAP_FLUSH_REQ, WEFT_RDMAP_VERIFY_REQ,
	                               WEFT_RDMAP_AWRITE_REQ, WEFT_RDMAP_READ_REQ};
	uint8_t how = fuzz_u8(&z.in), rest[80] = {0};
	uint32_t msn = rig.b.ddp->rx_msn[1], len = fuzz_u16(&z.in) % (FUZZ_MEDIUM + 10), n = 0;
	uint8_t op = ops[how >> 2 & 3];
	uint32_t to_stag = stag(how);
	uint64_t to = offset(how);

	if (how & 0x10) {
		rdmap_atomic_req_encode(
		        &(struct rdmap_atomic_req){.aop = how & 8 ? fuzz_u8(&z.in) : how >> 1 & 2,
		                                   .id = fuzz_u16(&z.in),
		                                   .stag = to_stag,
		                                   .to = how & 0x20 ? to : to & ~7ull,
		                                   .data = len,
		                                   .mask = UINT64_MAX,
		                                   .cmp_mask = how & 1 ? UINT64_MAX : 0},
		        rest);
		rig_inject_untagged(&rig.b, 0x4a, 1, msn, 0, true, 0, rest, RDMAP_ATOMIC_REQ_BYTES);
		return;
	}
	if (op == WEFT_RDMAP_READ_REQ) {
		struct rdmap_read_req q = {.sink_stag = fuzz_u32(&z.in),
		                           .sink_to = to,
		                           .len_bytes = len,
		                           .src_stag = to_stag,
		                           .src_to = to};

		rig_inject_read(&rig.b, msn, &q);
		return;
	}
	if (op == WEFT_RDMAP_FLUSH_REQ) {
		rest[3] = fuzz_u8(&z.in);
		n = 4;
	} else if (op == WEFT_RDMAP_AWRITE_REQ) {
		n = 8;
		len = how & 0x20 ? len : 8;
	} else {
		n = how & 0x20 ? fuzz_u8(&z.in) % sizeof(rest) : 0;
	}
	rig_inject_place(&rig.b, op, msn, to_stag, to, len, rest, n);
}

static void
post(void)
{
	static const uint8_t more[4] = {WEFT_RDMAP_ATOMIC_REQ, WEFT_RDMAP_IMM, WEFT_RDMAP_IMM_SE,
	                                WEFT_RDMAP_ATOMIC_REQ};
	static const uint8_t ops[8] = {WEFT_RDMAP_WRITE,      WEFT_RDMAP_SEND,
	                               WEFT_RDMAP_SEND_INV,   WEFT_RDMAP_READ_REQ,
	                               WEFT_RDMAP_FLUSH_REQ,  WEFT_RDMAP_VERIFY_REQ,
	                               WEFT_RDMAP_AWRITE_REQ, WEFT_RDMAP_SEND_SE};
	uint8_t how = fuzz_u8(&z.in);
	struct weft_rdmap_req *q;
	unsigned int i = 0;

	while (i < FUZZ_REQS && z.busy[i])
		i++;
	if (i == FUZZ_REQS || rig.b.r == NULL)
		return;
	q = &z.req[i];
	*q = (struct weft_rdmap_req){.op = ops[how & 7],
	                             .fence = how & 8,
	                             .stag = 0x1234,
	                             .to = 100,
	                             .sink_stag = z.stag[how >> 4 & 3],
	                             .len_bytes = fuzz_u16(&z.in) % FUZZ_RAM};
	if (q->op == WEFT_RDMAP_AWRITE_REQ)
		q->len_bytes = 8;
	if (q->op == WEFT_RDMAP_FLUSH_REQ)
		q->flush_flags = WEFT_FLUSH_VISIBLE;
	if (q->op == WEFT_RDMAP_VERIFY_REQ && how & 0x40)
		q->hash_bytes = 8;
	if (how & 0x80 && (how & 7) > 3) {
		q->op = more[how & 3];
		q->len_bytes = 8;
		q->atomic.aop = how & 4 ? WEFT_RDMAP_CMP_SWAP : WEFT_RDMAP_FETCH_ADD;
		if (rdmap_ops[q->op].imm)
			memset(&q->atomic, 0, sizeof(q->atomic));
	} else if ((how & 7) < 3 || (how & 7) == 7) {
		if (how & 0x80 && (how & 7) == 0)
			q->imm_op = WEFT_RDMAP_IMM;
		q->nsge = 2;
		q->sge[0] = (struct weft_rdmap_sge){z.ram, q->len_bytes / 3};
		q->sge[1] = (struct weft_rdmap_sge){z.ram + q->len_bytes / 3,
		                                    q->len_bytes - q->len_bytes / 3};
	}
	z.busy[i] = true;
	weft_rdmap_post(rig.b.r, q);
}

static void
life(void)
{
	uint8_t how = fuzz_u8(&z.in);
	struct weft_term term = {.layer = 1, .etype = 2, .code = 3};

	switch (how & 15) {
	case 0:
		weft_rdmap_close(rig.b.r, rig.now_ns);
		break;
	case 1:
		weft_rdmap_abort(rig.b.r, rig.now_ns);
		break;
	case 2:
		weft_rdmap_terminate(rig.b.r, &term, rig.now_ns);
		break;
	case 3:
		if (rig.b.live && !z.eof) {
			z.eof = true;
			rig.b.ddp->mpa->ops->eof(rig.b.ddp->mpa->user);
		}
		break;
	case 4:
	case 5: /* deregister one region */
		if (z.mr[how >> 4 & 3] != NULL)
			rig_unreg(&rig.b, z.mr[how >> 4 & 3]);
		z.mr[how >> 4 & 3] = NULL;
		break;
	case 6:
		z.medium.flush_err = how & 16 ? -EIO : 0;
		z.medium.read_err = how & 32 ? -EIO : 0;
		z.medium.immediate = how & 64;
		z.medium.eagain = how >> 7;
		break;
	case 7:
		rig.b.inv_rc = how & 16 ? -1 : 0;
		break;
	case 8:
		rig.b.abort_at = 1 + (how >> 4);
		break;
	case 9:
	case 10:
		rig.b.space = how & 16 ? how >> 5 : UINT32_MAX;
		break;
	default:
		rig_advance((uint64_t)(how >> 4) * WEFT_NS_PER_S);
		break;
	}
}

static void
start(void)
{
	uint8_t a = fuzz_u8(&z.in);
	struct weft_rdmap_attr attr = {0};

	test_eal_init();
	test_bail_aborts = true;
	rig.mulpdu = a & 8 ? 128 : 1400;
	rig.rng = 7;
	rig_open_attr(&attr, 1 + (a & 3), 1 + (a >> 4 & 3), true);
	rig.b.hook = on_event;
	z.ram = malloc(FUZZ_RAM);
	FUZZ_CHECK(z.ram != NULL);
	memset(z.ram, 1, FUZZ_RAM);
	rig_medium_open(&z.medium, FUZZ_MEDIUM);
	z.mr[0] = rig_reg(&rig.b, z.ram, FUZZ_RAM, 0, ALL, NULL, NULL);
	z.mr[1] = rig_reg(&rig.b, z.medium.p.base, FUZZ_MEDIUM, 0,
	                  ALL | WEFT_ACCESS_FLUSH_PERSISTENT | WEFT_ACCESS_VERIFY, &z.medium.p,
	                  &rig_hash);
	z.mr[2] = rig_reg(&rig.b, z.ram, FUZZ_RAM, UINT64_MAX - FUZZ_RAM, ALL, NULL, NULL);
	z.mr[3] = rig_reg(&rig.b, z.ram, FUZZ_RAM, 100, WEFT_ACCESS_REMOTE_READ, NULL, NULL);
	for (unsigned int i = 0; i < FUZZ_REGIONS; i++)
		z.stag[i] = z.mr[i]->stag;
}

static void
finish(void)
{
	for (unsigned int i = 0; i < FUZZ_REGIONS; i++)
		if (z.mr[i] != NULL)
			rig_unreg(&rig.b, z.mr[i]);
	/* The stream has ended by itself: every request is completed once. */
	rig.b.space = UINT32_MAX;
	rig.b.abort_at = 0;
	z.medium.eagain = 0;
	weft_rdmap_abort(rig.b.r, rig.now_ns);
	rig_pump();
	for (unsigned int i = 0; i < FUZZ_REQS; i++)
		FUZZ_CHECK(!z.busy[i]);
	FUZZ_CHECK(weft_rdmap_state(rig.b.r) == WEFT_RDMAP_ST_ERROR);
	for (struct rig_ulpdu *u; (u = rig_pop(&rig.b)) != NULL;)
		free(u);
	rig_close();
	rig_medium_close(&z.medium);
	free(z.ram);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	memset(&z, 0, sizeof(z));
	z.in = (struct fuzz_in){data, size};
	start();
	for (unsigned int i = 0; i < FUZZ_OPS && z.in.left > 0; i++) {
		uint8_t op = fuzz_u8(&z.in);
		const uint8_t *raw;
		size_t n;

		switch (op & 7) {
		case 0:
			raw = fuzz_octets(&z.in, fuzz_u8(&z.in), &n);
			rig_inject(&rig.b, raw, (uint32_t)n);
			break;
		case 1:
		case 2:
			segment(op);
			break;
		case 3:
			tagged(op);
			break;
		case 4:
			request();
			break;
		case 5:
			post();
			break;
		case 6:
			rig_post_recv(&rig.b, 1 + (op >> 4 & 3));
			break;
		default:
			life();
			break;
		}
		if ((op & 0x40) == 0)
			rig_pump();
		else
			rig_step();
		for (struct rig_ulpdu *u; (u = rig_pop(&rig.b)) != NULL;)
			free(u);
		rig.b.nev = 0;
	}
	finish();
	return 0;
}
