/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The TCP transport of NVMe over Fabrics, over two stacks on a simulated link.
 */

#include <errno.h>

#include "test_xorshift.h"
#include "tcp_host.h"

#define NEVER(status) ((status) | WEFT_NVMF_DNR)
#define MIB           (1U << 20)
#define S_NS          1000000000ULL

static struct th h;
static struct th_q admin, io;
static uint8_t out[4 * MIB], in[4 * MIB];
static const struct sim_link_cfg quiet = {.delay_ns = 10000};

/** Queues with these settings. */
static void
set(bool hdgst, bool ddgst, uint8_t hpda)
{
	memset(&admin, 0, sizeof(admin));
	memset(&io, 0, sizeof(io));
	admin.hdgst = io.hdgst = hdgst;
	admin.ddgst = io.ddgst = ddgst;
	admin.hpda = io.hpda = hpda;
}

/** The I/O queue anew, with the settings of the admin queue. */
static void
set_io(void)
{
	th_close(&io);
	memset(&io, 0, sizeof(io));
	io.hdgst = admin.hdgst;
	io.ddgst = admin.ddgst;
	io.hpda = admin.hpda;
}

static void
start(const struct sim_link_cfg *link)
{
	th_start(&h, link);
	vt_fill(out, sizeof(out), 3);
}

static void
both_queues(void)
{
	th_queue(&h, &admin, 0, 0xffff);
	th_enable(&admin);
	th_queue(&h, &io, 1, admin.cntlid);
}

static void
end(void)
{
	th_close(&io);
	th_close(&admin);
	th_end(&h);
}

static struct weft_nvmf_tcp_stats
stats(void)
{
	struct weft_nvmf_tcp_stats s;

	weft_nvmf_tcp_query(h.tcp, &s);
	return s;
}

/** Data of these lengths, both ways. */
static void
lengths(void)
{
	static const uint32_t len[] = {512, 4096, 4608, 32768, 65536, 131072, 1000448, MIB};

	for (unsigned int i = 0; i < sizeof(len) / sizeof(len[0]); i++) {
		CHECK_EQ(th_do(&io, th_rw(WEFT_NVMF_IO_WRITE, i, len[i]), out + i, len[i]), 0);
		memset(in, 0, len[i]);
		CHECK_EQ(th_do(&io, th_rw(WEFT_NVMF_IO_READ, i, len[i]), in, len[i]), 0);
		CHECK_MEM(in, out + i, len[i]);
	}
}

/** A descriptor with a key: keys are RDMA's. */
static void
keyed(void)
{
	const struct weft_nvmf_sgl sgl = {
	        .kind = WEFT_NVMF_SGL_KEYED, .addr = 4096, .bytes = 512, .key = 1};
	struct weft_nvmf_sqe sqe = th_rw(WEFT_NVMF_IO_READ, 0, 512);
	uint8_t head[NVMF_TCP_CMD_BYTES] = {NVMF_TCP_CAPSULE_CMD};

	CHECK(!io.cmd[0].busy);
	io.cmd[0] = (struct th_cmd){.busy = true};
	nv_sgl_encode(&sgl, &sqe);
	nv_sqe_encode(&sqe, head + 8);
	th_pdu(&io, head, sizeof(head), 0, 0, NULL, 0);
	CHECK_EQ(th_wait(&io, 0), NEVER(WEFT_NVMF_SGL_TYPE));
}

static void
test_data(void)
{
	struct weft_nvmf_sqe sqe;

	for (unsigned int digests = 0; digests < 4; digests++) {
		set(digests & 1, digests & 2, digests == 3 ? 31 : 0);
		start(&quiet);
		both_queues();
		CHECK_EQ(th_do(&admin, nv_sqe(WEFT_NVMF_ADMIN_IDENTIFY, 0, 1, 0, 0), in, 4096), 0);
		/* SGLs, data in capsules and of the transport */
		CHECK_EQ(weft_nvmf_get32(in + 536), 0x300001);
		lengths();
		io.h2c_bytes = 4096;
		lengths();
		/* in the capsule */
		sqe = th_rw(WEFT_NVMF_IO_WRITE, 100, 4096);
		CHECK_EQ(th_wait(&io, th_send(&io, &sqe, out + 512, 4096, true)), 0);
		CHECK_EQ(th_do(&io, th_rw(WEFT_NVMF_IO_READ, 100, 4096), in, 4096), 0);
		CHECK_MEM(in, out + 512, 4096);
		CHECK_EQ(th_do(&io, th_rw(WEFT_NVMF_IO_COMPARE, 100, 4096), out, 4096), 0x4285);
		CHECK_EQ(th_do(&io, th_rw(0x55, 0, 512), NULL, 0), NEVER(WEFT_NVMF_INVALID_OPCODE));
		keyed();
		CHECK_EQ(io.successes, 0);
		CHECK_EQ(stats().faults, 0);
		CHECK_EQ(stats().conns, 2);
		end();
	}
}

/** A host without SQ flow control: the last data of a Read is the answer. */
static void
test_success(void)
{
	set(true, true, 0);
	io.no_flow = true;
	start(&quiet);
	both_queues();
	lengths();
	CHECK_EQ(io.successes, 8);
	/* a Read that fails has an answer of its own */
	CHECK_EQ(th_do(&io, th_rw(WEFT_NVMF_IO_READ, 1U << 30, 512), in, 512),
	         NEVER(WEFT_NVMF_LBA_RANGE));
	CHECK_EQ(io.successes, 8);
	end();
}

static uint32_t
h_len(unsigned int i)
{
	return 32768 * (1 + i * 7 % 4);
}

/** Full queues. R2Ts are served in pieces, of one command and another by turns. */
static void
full_queues(const struct sim_link_cfg *link, unsigned int rounds, uint32_t piece)
{
	uint64_t seed = test_seed(11);

	set(true, true, 0);
	io.hold = true;
	io.p.piece_bytes = piece;
	start(link);
	both_queues();
	for (unsigned int round = 0; round < rounds; round++) {
		uint16_t cid[TH_CMDS];
		unsigned int done = 0;
		struct weft_nvmf_sqe sqe;

		for (unsigned int i = 0; i < TH_CMDS; i++) {
			sqe = th_rw(WEFT_NVMF_IO_WRITE, i * 256, h_len(i + round));
			cid[i] = th_send(&io, &sqe, out + ((i + round) % 32) * 131072,
			                 h_len(i + round), false);
		}
		for (unsigned int turns = 0; done < TH_CMDS; turns++) {
			CHECK(turns < TH_STEPS);
			th_step(&h);
			th_look(&io);
			done = 0;
			for (unsigned int i = 0; i < TH_CMDS; i++) {
				struct th_cmd *c = &io.cmd[test_xorshift(&seed) % TH_CMDS];
				uint32_t n = 1 + (uint32_t)(test_xorshift(&seed) % 30000);

				done += io.cmd[i].answered;
				if (c->asked)
					th_serve(&io, (uint16_t)(c - io.cmd),
					         n < c->asked_left ? n : c->asked_left);
			}
		}
		for (unsigned int i = 0; i < TH_CMDS; i++)
			CHECK_EQ(th_wait(&io, cid[i]), 0);
		for (unsigned int i = 0; i < TH_CMDS; i++) {
			sqe = th_rw(WEFT_NVMF_IO_READ, i * 256, h_len(i + round));
			cid[i] = th_send(&io, &sqe, in + i * 131072, h_len(i + round), false);
		}
		for (unsigned int i = 0; i < TH_CMDS; i++) {
			CHECK_EQ(th_wait(&io, cid[i]), 0);
			CHECK_MEM(in + i * 131072, out + ((i + round) % 32) * 131072,
			          h_len(i + round));
		}
	}
	CHECK_EQ(io.r2ts, rounds * TH_CMDS);
	end();
}

static void
test_full(void)
{
	full_queues(&quiet, 3, 0);
}

static void
test_loss(void)
{
	const struct sim_link_cfg lossy = {
	        .delay_ns = 10000, .loss_ppm = 5000, .reorder_ppm = 5000, .reorder_ns = 100000};

	full_queues(&lossy, 1, 0);
}

/** PDUs that are cut at every octet: the whole of a session, in segments of n octets. */
static void
test_cuts(void)
{
	for (uint32_t n = 1; n <= 200; n += n < 32 ? 1 : 29) {
		struct weft_nvmf_sqe sqe = th_rw(WEFT_NVMF_IO_WRITE, n, 512);

		set(n % 2, n % 3 == 0, (uint8_t)(n % 32));
		admin.p.piece_bytes = io.p.piece_bytes = n;
		start(&quiet);
		both_queues();
		CHECK_EQ(th_wait(&io, th_send(&io, &sqe, out + n, 512, true)), 0);
		CHECK_EQ(th_do(&io, th_rw(WEFT_NVMF_IO_WRITE, n + 1, 1024), out + n + 512, 1024),
		         0);
		CHECK_EQ(th_do(&io, th_rw(WEFT_NVMF_IO_READ, n, 1536), in, 1536), 0);
		CHECK_MEM(in, out + n, 1536);
		end();
	}
}

/** Several queues of several hosts at once. */
static void
test_queues(void)
{
	static struct th_q q[8];
	uint16_t cid[8][4];

	set(false, true, 0);
	memset(q, 0, sizeof(q));
	start(&quiet);
	both_queues();
	for (uint16_t k = 0; k < 8; k++) {
		q[k].hdgst = k % 2;
		q[k].ddgst = k % 3 == 0;
		th_queue(&h, &q[k], (uint16_t)(2 + k), admin.cntlid);
	}
	for (unsigned int k = 0; k < 8; k++)
		for (unsigned int i = 0; i < 4; i++) {
			struct weft_nvmf_sqe sqe =
			        th_rw(WEFT_NVMF_IO_WRITE, (k * 4 + i) * 256, 131072);

			cid[k][i] = th_send(&q[k], &sqe, out + (k * 4 + i) * 65536, 131072, false);
		}
	for (unsigned int k = 0; k < 8; k++)
		for (unsigned int i = 0; i < 4; i++)
			CHECK_EQ(th_wait(&q[k], cid[k][i]), 0);
	for (unsigned int k = 0; k < 8; k++)
		for (unsigned int i = 0; i < 4; i++) {
			CHECK_EQ(th_do(&q[7 - k],
			               th_rw(WEFT_NVMF_IO_READ, (k * 4 + i) * 256, 131072), in,
			               131072),
			         0);
			CHECK_MEM(in, out + (k * 4 + i) * 65536, 131072);
		}
	for (unsigned int k = 0; k < 8; k++)
		th_close(&q[k]);
	end();
}

/** Capsules whose data waits for memory that R2Ts keep: they are done when these are served. */
static void
test_waits(void)
{
	struct weft_nvmf_stats ns;
	uint16_t big[6], small[24];
	struct weft_nvmf_sqe sqe;

	set(false, true, 0);
	io.hold = true;
	h.staging_bytes = 4 * MIB;
	start(&quiet);
	both_queues();
	for (unsigned int i = 0; i < 6; i++) {
		sqe = th_rw(WEFT_NVMF_IO_WRITE, i * 2048, MIB);
		big[i] = th_send(&io, &sqe, out + i * 1000, MIB, false);
	}
	for (unsigned int i = 0; i < 24; i++) {
		sqe = th_rw(WEFT_NVMF_IO_WRITE, 13000 + i * 8, 4096);
		small[i] = th_send(&io, &sqe, out + i * 500, 4096, true);
	}
	for (unsigned int i = 0; i < 200; i++) {
		th_step(&h);
		th_look(&io);
	}
	weft_nvmf_query_stats(h.n.target, &ns);
	CHECK(ns.memory_waits > 0);
	CHECK(io.r2ts < 6);
	for (unsigned int i = 0; io.r2ts < 6 || io.cmd[big[5]].asked; i++) {
		CHECK(i < TH_STEPS);
		th_step(&h);
		th_look(&io);
		for (unsigned int k = 0; k < 6; k++)
			if (io.cmd[big[k]].asked)
				th_serve(&io, big[k], io.cmd[big[k]].asked_left);
	}
	for (unsigned int i = 0; i < 6; i++)
		CHECK_EQ(th_wait(&io, big[i]), 0);
	for (unsigned int i = 0; i < 24; i++)
		CHECK_EQ(th_wait(&io, small[i]), 0);
	for (unsigned int i = 0; i < 6; i++) {
		CHECK_EQ(th_do(&io, th_rw(WEFT_NVMF_IO_READ, i * 2048, MIB), in, MIB), 0);
		CHECK_MEM(in, out + i * 1000, MIB);
	}
	for (unsigned int i = 0; i < 24; i++) {
		CHECK_EQ(th_do(&io, th_rw(WEFT_NVMF_IO_READ, 13000 + i * 8, 4096), in, 4096), 0);
		CHECK_MEM(in, out + i * 500, 4096);
	}
	end();
}

/* ---- Digests ---- */

static void
test_data_digest(void)
{
	struct weft_nvmf_sqe sqe = th_rw(WEFT_NVMF_IO_WRITE, 0, 4096);
	uint16_t cid;

	set(true, true, 0);
	start(&quiet);
	both_queues();
	CHECK_EQ(th_do(&io, th_rw(WEFT_NVMF_IO_WRITE, 0, 8192), out, 8192), 0);
	/* in the capsule */
	io.spoil_data = true;
	CHECK_EQ(th_wait(&io, th_send(&io, &sqe, out + 9000, 4096, true)),
	         WEFT_NVMF_TRANSPORT_ERROR);
	/* of an R2T, in its first piece: the rest is taken all the same */
	io.hold = true;
	sqe = th_rw(WEFT_NVMF_IO_WRITE, 0, 8192);
	cid = th_send(&io, &sqe, out + 9000, 8192, false);
	for (unsigned int i = 0; !io.cmd[cid].asked; i++) {
		CHECK(i < TH_STEPS);
		th_step(&h);
		th_look(&io);
	}
	io.spoil_data = true;
	th_serve(&io, cid, 4096);
	th_step(&h);
	th_look(&io);
	CHECK(!io.cmd[cid].answered);
	th_serve(&io, cid, 4096);
	CHECK_EQ(th_wait(&io, cid), WEFT_NVMF_TRANSPORT_ERROR);
	/* nothing of it was written, and the connection lives */
	CHECK_EQ(th_do(&io, th_rw(WEFT_NVMF_IO_READ, 0, 8192), in, 8192), 0);
	CHECK_MEM(in, out, 8192);
	CHECK_EQ(stats().data_digests, 2);
	CHECK_EQ(stats().faults, 0);
	end();
}

static void
test_header_digest(void)
{
	struct weft_nvmf_sqe sqe = th_rw(WEFT_NVMF_IO_WRITE, 0, 4096);

	set(true, true, 0);
	start(&quiet);
	both_queues();
	CHECK_EQ(th_do(&io, th_rw(WEFT_NVMF_IO_WRITE, 0, 4096), out, 4096), 0);
	io.spoil_head = true;
	(void)th_send(&io, &sqe, out + 9000, 4096, true);
	th_wait_end(&io);
	CHECK(io.termed);
	CHECK_EQ(io.term.fes, NVMF_TCP_FES_DIGEST);
	CHECK_EQ(io.echo_bytes, NVMF_TCP_CMD_BYTES);
	CHECK_EQ(stats().header_digests, 1);
	th_close(&io);
	/* the other queue notices nothing, and the command was not done */
	CHECK_EQ(th_do(&admin, nv_sqe(WEFT_NVMF_ADMIN_KEEP_ALIVE, 0, 0, 0, 0), NULL, 0), 0);
	end();
}

/* ---- Faults ---- */

/** Ready for a fault on io: a Write of 8192 octets whose R2T has come. */
static uint16_t
asked(void)
{
	struct weft_nvmf_sqe sqe = th_rw(WEFT_NVMF_IO_WRITE, 0, 8192);
	uint16_t cid;

	io.hold = true;
	th_queue(&h, &io, 1, admin.cntlid);
	cid = th_send(&io, &sqe, out, 8192, false);
	for (unsigned int i = 0; !io.cmd[cid].asked; i++) {
		CHECK(i < TH_STEPS);
		th_step(&h);
		th_look(&io);
	}
	return cid;
}

static void
expect(enum nvmf_tcp_fes fes, uint32_t fei, uint32_t echo)
{
	th_wait_end(&io);
	CHECK(io.termed);
	CHECK_MSG(io.term.fes == fes && io.term.fei == fei, "FES %d FEI %u", (int)io.term.fes,
	          io.term.fei);
	CHECK_EQ(io.echo_bytes, echo);
	th_close(&io);
	/* the queue's number is free when the target has let go */
	for (unsigned int i = 0; stats().conns > 1; i++) {
		CHECK(i < TH_STEPS);
		th_step(&h);
	}
}

/** H2CData that does not fit its R2T. */
static void
test_bad_data(void)
{
	static const struct {
		uint16_t cid, ttag;
		uint32_t off, len;
		uint8_t flags;
		enum nvmf_tcp_fes fes;
		uint32_t fei;
	} bad[] = {{1, 0, 0, 4096, 0, NVMF_TCP_FES_FIELD, NVMF_TCP_AT_CCCID},
	           {0, 1, 0, 4096, 0, NVMF_TCP_FES_FIELD, NVMF_TCP_AT_TTAG},
	           {0, 0xffff, 0, 4096, 0, NVMF_TCP_FES_FIELD, NVMF_TCP_AT_TTAG},
	           {0, 0, 4096, 4096, NVMF_TCP_LAST, NVMF_TCP_FES_RANGE, 0},
	           {0, 0, 0, 8193, NVMF_TCP_LAST, NVMF_TCP_FES_RANGE, 0},
	           {0, 0, 0xffffffff, 4096, 0, NVMF_TCP_FES_RANGE, 0},
	           {0, 0, 0, 8192, 0, NVMF_TCP_FES_FIELD, NVMF_TCP_AT_FLAGS},
	           {0, 0, 0, 4096, NVMF_TCP_LAST, NVMF_TCP_FES_FIELD, NVMF_TCP_AT_FLAGS},
	           {0, 0, 0, 70000, 0, NVMF_TCP_FES_LIMIT, 0}};

	set(false, false, 0);
	h.attr.data_bytes = 65536;
	start(&quiet);
	th_queue(&h, &admin, 0, 0xffff);
	th_enable(&admin);
	for (unsigned int i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		uint8_t head[NVMF_TCP_DATA_BYTES] = {NVMF_TCP_H2C_DATA};
		const uint16_t cid = asked();

		weft_nvmf_put16(head + 8, (uint16_t)(bad[i].cid ^ cid));
		weft_nvmf_put16(head + 10, (uint16_t)(bad[i].ttag ^ io.cmd[cid].ttag));
		weft_nvmf_put32(head + 12, bad[i].off);
		weft_nvmf_put32(head + 16, bad[i].len);
		th_pdu(&io, head, sizeof(head), bad[i].flags, 0, out, bad[i].len);
		/* a limit is seen in the common header */
		expect(bad[i].fes, bad[i].fei,
		       bad[i].fes == NVMF_TCP_FES_LIMIT ? NVMF_TCP_CH_BYTES : NVMF_TCP_DATA_BYTES);
		memset(&io, 0, sizeof(io));
	}
	CHECK_EQ(stats().faults, sizeof(bad) / sizeof(bad[0]));
	end();
}

/** H2CData that comes before its R2T was sent: TTAGs can be guessed, and an R2T waits while the
 * host takes nothing. */
static void
test_early_data(void)
{
	static const struct sim_link_cfg blocked = {.delay_ns = 10000, .loss_ppm = 1000000};
	struct weft_nvmf_sqe read = th_rw(WEFT_NVMF_IO_READ, 2048, MIB);
	struct weft_nvmf_sqe write = th_rw(WEFT_NVMF_IO_WRITE, 0, 4096);
	uint8_t head[NVMF_TCP_DATA_BYTES] = {NVMF_TCP_H2C_DATA};
	uint16_t cid;

	set(false, false, 0);
	start(&quiet);
	both_queues();
	CHECK_EQ(th_do(&io, th_rw(WEFT_NVMF_IO_WRITE, 0, 4096), out, 4096), 0);
	CHECK_EQ(stats().r2ts, 1);
	/* the answer of Reads fills TCP, and the R2T waits behind it */
	sim_link_set(h.t.link, 1, &blocked);
	(void)th_send(&io, &read, in, MIB, false);
	for (unsigned int i = 0; i < 100; i++)
		th_step(&h);
	cid = th_send(&io, &write, out + 9000, 4096, false);
	for (unsigned int i = 0; i < 100; i++)
		th_step(&h);
	CHECK_EQ(stats().r2ts, 1);
	/* the tag is the one that was free last */
	weft_nvmf_put16(head + 8, cid);
	weft_nvmf_put32(head + 16, 4096);
	th_pdu(&io, head, sizeof(head), NVMF_TCP_LAST, 0, out + 9000, 4096);
	for (unsigned int i = 0; i < 100; i++)
		th_step(&h);
	CHECK_EQ(stats().faults, 1);
	CHECK_EQ(stats().r2ts, 1);
	CHECK_EQ(stats().read_bytes, 4096);
	sim_link_set(h.t.link, 1, &quiet);
	expect(NVMF_TCP_FES_FIELD, NVMF_TCP_AT_TTAG, NVMF_TCP_DATA_BYTES);
	/* nothing of it was written */
	set_io();
	th_queue(&h, &io, 1, admin.cntlid);
	CHECK_EQ(th_do(&io, th_rw(WEFT_NVMF_IO_READ, 0, 4096), in, 4096), 0);
	CHECK_MEM(in, out, 4096);
	end();
}

/** PDUs that may not come, or not now. */
static void
test_sequence(void)
{
	uint8_t head[NVMF_TCP_IC_BYTES];
	uint8_t cmd[NVMF_TCP_CMD_BYTES] = {NVMF_TCP_CAPSULE_CMD};

	set(false, false, 0);
	start(&quiet);
	th_queue(&h, &admin, 0, 0xffff);
	/* a command before ICReq */
	th_open(&h, &io);
	th_pdu(&io, cmd, sizeof(cmd), 0, 0, NULL, 0);
	expect(NVMF_TCP_FES_SEQUENCE, 0, NVMF_TCP_CH_BYTES);
	/* a second ICReq */
	memset(&io, 0, sizeof(io));
	th_open(&h, &io);
	th_init(&io);
	memset(head, 0, sizeof(head));
	th_pdu(&io, head, sizeof(head), 0, 0, NULL, 0);
	expect(NVMF_TCP_FES_SEQUENCE, 0, NVMF_TCP_CH_BYTES);
	/* another format */
	memset(&io, 0, sizeof(io));
	th_open(&h, &io);
	memset(head, 0, sizeof(head));
	head[8] = 1;
	th_pdu(&io, head, sizeof(head), 0, 0, NULL, 0);
	expect(NVMF_TCP_FES_UNSUPPORTED, NVMF_TCP_AT_PFV, NVMF_TCP_IC_BYTES);
	/* a PDU of controllers */
	memset(&io, 0, sizeof(io));
	th_open(&h, &io);
	th_init(&io);
	memset(head, 0, sizeof(head));
	head[0] = NVMF_TCP_CAPSULE_RESP;
	th_pdu(&io, head, 24, 0, 0, NULL, 0);
	expect(NVMF_TCP_FES_FIELD, NVMF_TCP_AT_TYPE, NVMF_TCP_CH_BYTES);
	CHECK_EQ(stats().faults, 4);
	/* the host ends it */
	memset(&io, 0, sizeof(io));
	th_open(&h, &io);
	th_init(&io);
	memset(head, 0, sizeof(head));
	head[0] = NVMF_TCP_H2C_TERM;
	head[8] = 5;
	th_pdu(&io, head, 24, 0, 0, NULL, 0);
	th_wait_end(&io);
	CHECK(!io.termed);
	CHECK_EQ(stats().terms, 1);
	CHECK_EQ(stats().term_fes, 5);
	end();
}

/** Data in capsules: an I/O queue may have as much as IOCCSZ says, an admin queue 8 KiB. */
static void
test_capsule_limit(void)
{
	struct weft_nvmf_sqe sqe = nv_sqe(WEFT_NVMF_ADMIN_KEEP_ALIVE, 0, 0, 0, 0);

	set(false, false, 0);
	start(&quiet);
	both_queues();
	CHECK_EQ(th_wait(&admin, th_send(&admin, &sqe, out, 8192, true)), 0);
	sqe = th_rw(WEFT_NVMF_IO_WRITE, 0, 4096);
	CHECK_EQ(th_wait(&io, th_send(&io, &sqe, out, 4096, true)), 0);
	sqe = th_rw(WEFT_NVMF_IO_WRITE, 0, 4608);
	(void)th_send(&io, &sqe, out, 4608, true);
	expect(NVMF_TCP_FES_LIMIT, 0, NVMF_TCP_CH_BYTES);
	/* the other queue goes on */
	sqe = nv_sqe(WEFT_NVMF_ADMIN_KEEP_ALIVE, 0, 0, 0, 0);
	CHECK_EQ(th_wait(&admin, th_send(&admin, &sqe, out, 8192, true)), 0);
	end();
}

/** More commands than the queue has entries. */
static void
test_overrun(void)
{
	struct weft_nvmf_sqe sqe = th_rw(WEFT_NVMF_IO_WRITE, 0, 8192);
	uint8_t cmd[NVMF_TCP_CMD_BYTES] = {NVMF_TCP_CAPSULE_CMD};

	set(false, false, 0);
	io.hold = true;
	start(&quiet);
	both_queues();
	for (unsigned int i = 0; i < TH_CMDS; i++)
		(void)th_send(&io, &sqe, out, 8192, false);
	for (unsigned int i = 0; i < 100; i++) {
		th_step(&h);
		th_look(&io);
	}
	CHECK_EQ(io.r2ts, TH_CMDS);
	nv_sqe_encode(&sqe, cmd + 8);
	th_pdu(&io, cmd, sizeof(cmd), 0, 0, NULL, 0);
	expect(NVMF_TCP_FES_SEQUENCE, 0, NVMF_TCP_CMD_BYTES);
	CHECK_EQ(stats().overruns, 1);
	end();
}

/* ---- Hosts that stop ---- */

/** Wait, at most for so long, until the host's connection was reset. Returns how long. */
static uint64_t
until_reset(uint64_t max_ns)
{
	const uint64_t from = sim_now_ns(h.t.sim);

	while (!io.p.ended && sim_now_ns(h.t.sim) - from < max_ns)
		th_step(&h);
	return sim_now_ns(h.t.sim) - from;
}

static void
test_stalls(void)
{
	uint8_t head[NVMF_TCP_CMD_BYTES] = {NVMF_TCP_CAPSULE_CMD, 0, 72, 72};
	const struct sim_link_cfg mute = {.delay_ns = 10000, .ack_loss_ppm = 1000000};
	struct weft_nvmf_sqe sqe;
	uint64_t ns;

	set(false, false, 0);
	h.attr.stall_ns = 2 * S_NS;
	start(&quiet);
	both_queues();
	/* an idle host may be silent */
	ns = until_reset(10 * S_NS);
	CHECK_EQ(stats().stalls, 0);
	CHECK(!io.p.ended);
	/* in the middle of a header */
	weft_nvmf_put32(head + 4, 72);
	vt_tcp_send(&io.p, head, 30);
	ns = until_reset(10 * S_NS);
	CHECK(ns >= 2 * S_NS && ns < 3 * S_NS);
	CHECK_EQ(stats().stalls, 1);
	th_close(&io);
	/* in the middle of data, a drop now and then */
	set_io();
	th_queue(&h, &io, 2, 1);
	weft_nvmf_put32(head + 4, 72 + 4096);
	sqe = th_rw(WEFT_NVMF_IO_WRITE, 0, 4096);
	nv_sqe_encode(&sqe, head + 8);
	vt_tcp_send(&io.p, head, 72);
	for (unsigned int i = 0; i < 10 && !io.p.ended; i++) {
		vt_tcp_send(&io.p, out, 1);
		(void)until_reset(S_NS / 2);
	}
	CHECK(io.p.ended);
	CHECK_EQ(stats().stalls, 2);
	th_close(&io);
	/* an R2T that is not served; other commands go on */
	set_io();
	io.hold = true;
	th_queue(&h, &io, 3, 1);
	sqe = th_rw(WEFT_NVMF_IO_WRITE, 0, 8192);
	(void)th_send(&io, &sqe, out, 8192, false);
	for (unsigned int i = 0; i < 10 && !io.p.ended; i++) {
		CHECK_EQ(th_do(&io, th_rw(WEFT_NVMF_IO_READ, 0, 512), in, 512), 0);
		(void)until_reset(S_NS / 4);
	}
	CHECK(io.p.ended);
	CHECK_EQ(stats().stalls, 3);
	th_close(&io);
	/* data that is not taken */
	set_io();
	th_queue(&h, &io, 4, 1);
	for (unsigned int i = 0; i < 8; i++) {
		sqe = th_rw(WEFT_NVMF_IO_READ, 0, MIB);
		(void)th_send(&io, &sqe, in, MIB, false);
	}
	th_step(&h);
	sim_link_set(h.t.link, 0, &mute);
	(void)until_reset(4 * S_NS);
	CHECK_EQ(stats().stalls, 4);
	sim_link_set(h.t.link, 0, &quiet);
	/* no ICReq */
	th_close(&io);
	set_io();
	th_open(&h, &io);
	ns = until_reset(10 * S_NS);
	CHECK(ns >= 2 * S_NS && ns < 3 * S_NS);
	CHECK_EQ(stats().stalls, 5);
	end();
}

/** An R2T that is never served, while others are: it alone keeps memory for as long as it likes. */
static void
test_starved(void)
{
	struct weft_nvmf_sqe sqe = th_rw(WEFT_NVMF_IO_WRITE, 0, 8192);
	const uint64_t stall_ns = 2 * S_NS;
	uint64_t from;
	uint16_t never, slow;

	set(false, false, 0);
	h.attr.stall_ns = stall_ns;
	io.hold = true;
	start(&quiet);
	both_queues();
	/* data of one that comes slowly is no stall */
	slow = th_send(&io, &sqe, out, 8192, false);
	for (unsigned int i = 0; i < 16; i++) {
		(void)until_reset(stall_ns / 4);
		th_look(&io);
		th_serve(&io, slow, 512);
	}
	CHECK_EQ(th_wait(&io, slow), 0);
	from = sim_now_ns(h.t.sim);
	never = th_send(&io, &sqe, out, 8192, false);
	for (unsigned int i = 0; i < 40 && !io.p.ended; i++) {
		const uint16_t cid = th_send(&io, &sqe, out, 8192, false);

		for (unsigned int k = 0; k < 2 && !io.p.ended; k++) {
			(void)until_reset(stall_ns / 16);
			th_look(&io);
			if (!io.p.ended && io.cmd[cid].asked)
				th_serve(&io, cid, 8192);
		}
		CHECK(io.p.ended || io.cmd[cid].answered);
		io.cmd[cid].busy = false;
	}
	CHECK(io.p.ended && io.cmd[never].asked);
	CHECK(sim_now_ns(h.t.sim) - from < 2 * stall_ns);
	CHECK_EQ(stats().stalls, 1);
	end();
}

/** The host goes at every moment of its commands; another one notices nothing. */
static void
test_lost(void)
{
	static struct th_q other;

	set(true, true, 0);
	memset(&other, 0, sizeof(other));
	start(&quiet);
	th_queue(&h, &admin, 0, 0xffff);
	th_enable(&admin);
	th_queue(&h, &other, 1, admin.cntlid);
	for (unsigned int round = 0; round < 24; round++) {
		set_io();
		th_queue(&h, &io, (uint16_t)(2 + round % 4), other.cntlid);
		for (unsigned int i = 0; i < 8; i++) {
			struct weft_nvmf_sqe sqe =
			        th_rw(i % 2 ? WEFT_NVMF_IO_READ : WEFT_NVMF_IO_WRITE, 2048, 131072);

			(void)th_send(&io, &sqe, i % 2 ? in : out, 131072, false);
		}
		for (unsigned int i = 0; i < round; i++) {
			th_step(&h);
			th_look(&io);
		}
		if (round % 3 == 0)
			vt_tcp_fin(&io.p);
		else
			th_close(&io);
		CHECK_EQ(th_do(&other, th_rw(WEFT_NVMF_IO_WRITE, 0, 4096), out, 4096), 0);
		CHECK_EQ(th_do(&other, th_rw(WEFT_NVMF_IO_READ, 0, 4096), in, 4096), 0);
		CHECK_MEM(in, out, 4096);
		for (unsigned int i = 0; stats().conns > 2; i++) {
			CHECK(i < TH_STEPS);
			th_step(&h);
		}
		th_close(&io);
	}
	th_close(&other);
	end();
}

/** The target closes: what is answered comes, then the end; a host that does not go is reset. */
static void
test_close(void)
{
	struct weft_nvmf_sqe sqe;

	set(false, false, 0);
	start(&quiet);
	both_queues();
	sqe = nv_sqe(WEFT_NVMF_OP_FABRICS, 0, 0, WEFT_NVMF_PROP_CC, 0x460000);
	sqe.fctype = WEFT_NVMF_FC_PROPERTY_SET;
	CHECK_EQ(th_do(&admin, sqe, NULL, 0), 0);
	th_wait_end(&io);
	CHECK(io.p.eof && !io.p.ended && !io.termed);
	vt_tcp_fin(&io.p);
	while (stats().conns > 1)
		th_step(&h);
	CHECK_EQ(stats().aborted, 0);
	th_close(&io);
	set_io();
	th_enable(&admin);
	th_queue(&h, &io, 1, 1);
	CHECK_EQ(weft_nvmf_host_drop(h.n.target, NV_HOST, 0), 1);
	th_wait_end(&io);
	CHECK(!io.p.ended);
	for (unsigned int i = 0; !io.p.ended; i++) {
		CHECK(i < TH_STEPS);
		th_step(&h);
	}
	CHECK(stats().aborted >= 1);
	end();
}

/** The volume answers when the connection was closed already: what was answered before comes all
 * the same, and nothing is reset. */
static void
test_close_late(void)
{
	static const struct sim_link_cfg blocked = {.delay_ns = 10000, .loss_ppm = 1000000};
	const struct weft_block_fault_hit reads = {.ops = 1U << WEFT_BLOCK_READ};
	struct weft_nvmf_sqe sqe = th_rw(WEFT_NVMF_IO_READ, 0, 4096);
	uint16_t before, behind;

	set(false, false, 0);
	h.seed = 5;
	start(&quiet);
	both_queues();
	CHECK_EQ(th_do(&io, th_rw(WEFT_NVMF_IO_WRITE, 0, 4096), out, 4096), 0);
	sim_link_set(h.t.link, 1, &blocked);
	before = th_send(&io, &sqe, in, 4096, false);
	for (unsigned int i = 0; i < 20; i++)
		th_step(&h);
	weft_block_fault_stick(h.n.vol.block, &reads);
	behind = th_send(&io, &sqe, in + 4096, 4096, false);
	for (unsigned int i = 0; i < 20; i++)
		th_step(&h);
	CHECK_EQ(weft_nvmf_host_drop(h.n.target, NV_HOST, 0), 1);
	for (unsigned int i = 0; i < 20; i++)
		th_step(&h);
	weft_block_fault_stick(h.n.vol.block, NULL);
	for (unsigned int i = 0; i < 20; i++)
		th_step(&h);
	sim_link_set(h.t.link, 1, &quiet);
	th_wait_end(&io);
	CHECK(io.p.eof && !io.p.ended);
	CHECK(io.cmd[before].answered && !io.cmd[behind].answered);
	CHECK_MEM(in, out, 4096);
	vt_tcp_fin(&io.p);
	vt_tcp_fin(&admin.p);
	for (unsigned int i = 0; stats().conns > 0; i++) {
		CHECK(i < TH_STEPS);
		th_step(&h);
	}
	CHECK_EQ(stats().aborted, 0);
	end();
}

/** Limits of connections, of the transport and of the target. */
static void
test_limits(void)
{
	struct weft_nvmf_tcp_attr bad = {.data_bytes = 4095};
	struct weft_nvmf_tcp *none;

	set(false, false, 0);
	h.attr.max_conns = 2;
	start(&quiet);
	CHECK_EQ(weft_nvmf_tcp_open(&bad, &none), -EINVAL);
	bad = (struct weft_nvmf_tcp_attr){.depth = 1025};
	CHECK_EQ(weft_nvmf_tcp_open(&bad, &none), -EINVAL);
	both_queues();
	CHECK_EQ(weft_nvmf_tcp_close(h.tcp), -EBUSY);
	{
		static struct th_q third;

		memset(&third, 0, sizeof(third));
		th_open(&h, &third);
		th_wait_end(&third);
		CHECK_EQ(h.accepted, -ENOSPC);
		CHECK_EQ(stats().rejected, 1);
		th_close(&third);
	}
	weft_nvmf_tcp_abort(h.tcp);
	th_wait_end(&io);
	CHECK(io.p.ended);
	CHECK_EQ(stats().aborted, 2);
	end();
}

#define TURN_QUEUES 4U
#define TURN_READS  31U
#define TURN_READ   16384U
#define TURN_ONE    65536U  /* what a connection sends in a turn, */
#define TURN_ALL    131072U /* and all of them */

static void
turn_reads(struct th_q *q, uint8_t *to)
{
	for (unsigned int i = 0; i < TURN_READS; i++) {
		struct weft_nvmf_sqe sqe = th_rw(WEFT_NVMF_IO_READ, 32 * i, TURN_READ);

		CHECK_EQ(th_send(q, &sqe, to + (size_t)i * TURN_READ, TURN_READ, false), i);
	}
}

/** Data that has come of the reads. */
static uint32_t
turn_moved(const struct th_q *q)
{
	uint32_t bytes = 0;

	for (unsigned int i = 0; i < TURN_READS; i++)
		bytes += q->cmd[i].moved_bytes;
	return bytes;
}

/** Many answers at once, each short: what is sent in a turn has a limit for a connection, and one
 * for all. The rest waits, and no connection is left behind. */
static void
test_turns(void)
{
	static struct th_q q[TURN_QUEUES];
	const uint32_t all = TURN_READS * TURN_READ;
	uint64_t most = 0;
	bool left = true;

	set(false, false, 0);
	memset(q, 0, sizeof(q));
	start(&quiet);
	both_queues();
	CHECK_EQ(th_do(&io, th_rw(WEFT_NVMF_IO_WRITE, 0, MIB), out, MIB), 0);
	for (unsigned int k = 0; k < TURN_QUEUES; k++) {
		th_queue(&h, &q[k], (uint16_t)(2 + k), admin.cntlid);
		/* TCP has opened its window then */
		for (unsigned int i = 0; i < 4; i++)
			CHECK_EQ(th_do(&q[k], th_rw(WEFT_NVMF_IO_READ, 0, MIB), in, MIB), 0);
	}
	memset(in, 0, sizeof(in));
	for (unsigned int k = 0; k < TURN_QUEUES; k++)
		turn_reads(&q[k], in + (size_t)k * all);
	for (unsigned int i = 0; left; i++) {
		uint64_t sent;

		CHECK(i < TH_STEPS);
		vt_run(&h.t, TH_STEP_NS);
		h.n.vol.now_ns += TH_STEP_NS;
		sent = stats().sent_bytes;
		nv_poll(&h.n);
		weft_nvmf_tcp_poll(h.tcp, sim_now_ns(h.t.sim));
		sent = stats().sent_bytes - sent;
		most = sent > most ? sent : most;
		left = false;
		for (unsigned int k = 0; k < TURN_QUEUES; k++) {
			th_look(&q[k]);
			for (unsigned int r = 0; r < TURN_READS; r++)
				left = left || !q[k].cmd[r].answered;
		}
	}
	/* a PDU that was begun and waits is counted, but none is made without a share */
	CHECK_MSG(most > TURN_ONE && most <= TURN_ALL + TURN_READ, "%llu octets in a turn",
	          (unsigned long long)most);
	CHECK(stats().turn_waits > 0);
	for (unsigned int k = 0; k < TURN_QUEUES; k++)
		CHECK_MEM(in + (size_t)k * all, out, all);
	/* a connection goes on in a poll alone */
	memset(&q[0].cmd, 0, sizeof(q[0].cmd));
	h.frozen = true;
	turn_reads(&q[0], in);
	for (unsigned int i = 0; i < 200; i++) {
		th_step(&h);
		th_look(&q[0]);
	}
	CHECK(turn_moved(&q[0]) <= TURN_ONE);
	CHECK_EQ(weft_nvmf_tcp_next_ns(h.tcp), 0);
	h.frozen = false;
	for (unsigned int i = 0; i < TURN_READS; i++)
		CHECK_EQ(th_wait(&q[0], (uint16_t)i), 0);
	CHECK(weft_nvmf_tcp_next_ns(h.tcp) != 0);
	/* one that ends while it waits */
	h.frozen = true;
	turn_reads(&q[0], in);
	for (unsigned int i = 0; i < 200; i++)
		th_step(&h);
	CHECK_EQ(weft_nvmf_tcp_next_ns(h.tcp), 0);
	for (unsigned int k = 0; k < TURN_QUEUES; k++)
		th_close(&q[k]);
	for (unsigned int i = 0; i < 200; i++)
		th_step(&h);
	h.frozen = false;
	end();
}

/* ---- Silent hosts ---- */

#define BAD_SILENT 24 /* connections that say nothing, */
#define BAD_MUTE   12 /* or nothing behind ICReq */
#define RATE_DEPTH 8U
#define RATE_BYTES 65536U
#define RATE_STEPS 400U

/** How many reads and writes of a host end in so much time. */
static unsigned int
rate(struct th_q *q)
{
	unsigned int done = 0;

	for (unsigned int i = 0; i < RATE_STEPS; i++) {
		for (uint16_t k = 0; k < RATE_DEPTH; k++) {
			struct weft_nvmf_sqe sqe =
			        th_rw(k % 2 == 0 ? WEFT_NVMF_IO_READ : WEFT_NVMF_IO_WRITE, 128 * k,
			              RATE_BYTES);

			if (q->cmd[k].busy && !q->cmd[k].answered)
				continue;
			if (q->cmd[k].busy) {
				CHECK_EQ(q->cmd[k].cqe.status, 0);
				done++;
			}
			q->cmd[k].busy = false;
			CHECK_EQ(th_send(q, &sqe, (k % 2 == 0 ? in : out) + (size_t)k * RATE_BYTES,
			                 RATE_BYTES, false),
			         k);
		}
		th_step(&h);
		th_look(q);
		CHECK(!q->p.ended);
	}
	for (uint16_t k = 0; k < RATE_DEPTH; k++)
		CHECK_EQ(th_wait(q, k), 0);
	return done;
}

/** Hosts that connect and say nothing, or nothing but ICReq, do not bring another one below half of
 * its rate. */
static void
test_silent(void)
{
	static struct th_q silent[BAD_SILENT], mute[BAD_MUTE];
	unsigned int alone, beside;

	set(false, false, 0);
	memset(silent, 0, sizeof(silent));
	memset(mute, 0, sizeof(mute));
	start(&quiet);
	both_queues();
	alone = rate(&io);
	for (unsigned int i = 0; i < BAD_SILENT; i++)
		th_open(&h, &silent[i]);
	for (unsigned int i = 0; i < BAD_MUTE; i++) {
		th_open(&h, &mute[i]);
		th_init(&mute[i]);
	}
	beside = rate(&io);
	CHECK_MSG(beside * 2 >= alone && alone > RATE_DEPTH, "%u commands alone, %u beside them",
	          alone, beside);
	CHECK_EQ(stats().conns, 2 + BAD_SILENT + BAD_MUTE);
	for (unsigned int i = 0; i < BAD_SILENT; i++)
		th_close(&silent[i]);
	for (unsigned int i = 0; i < BAD_MUTE; i++)
		th_close(&mute[i]);
	end();
}

/* ---- Hosts that keep memory ---- */

#define THIEVES      12U /* controllers, */
#define THIEF_WRITES 31U /* each with so many Writes of 1 MiB whose data does not come */

static struct th_q thief_admin[THIEVES], thief[THIEVES];

/** Controllers at so many addresses that hold all the memory that they get. */
static void
thieves(uint32_t addresses)
{
	memset(thief_admin, 0, sizeof(thief_admin));
	memset(thief, 0, sizeof(thief));
	for (unsigned int i = 0; i < THIEVES; i++) {
		h.from = 0x0a090001 + i % addresses;
		th_queue(&h, &thief_admin[i], 0, 0xffff);
		th_enable(&thief_admin[i]);
		thief[i].hold = true;
		th_queue(&h, &thief[i], 1, thief_admin[i].cntlid);
	}
	h.from = 0;
	/* each takes what those before it have left */
	for (unsigned int i = 0; i < THIEVES; i++) {
		for (unsigned int k = 0; k < THIEF_WRITES; k++) {
			struct weft_nvmf_sqe sqe = th_rw(WEFT_NVMF_IO_WRITE, 0, MIB);

			(void)th_send(&thief[i], &sqe, out, MIB, false);
		}
		for (unsigned int k = 0; k < 20; k++)
			th_step(&h);
	}
}

/** A host beside those that announce data and do not give it: at least half of its rate. */
static void
thieves_at(uint32_t addresses)
{
	unsigned int alone, beside, newcomer;
	struct weft_nvmf_stats ns;

	set(false, false, 0);
	h.staging_bytes = 64 * MIB;
	start(&quiet);
	both_queues();
	alone = rate(&io);
	weft_nvmf_query_stats(h.n.target, &ns);
	CHECK_EQ(ns.memory_waits, 0);
	thieves(addresses);
	weft_nvmf_query_stats(h.n.target, &ns);
	CHECK(ns.memory_waits > THIEF_WRITES);
	beside = rate(&io);
	/* and as a host that comes later */
	set_io();
	th_queue(&h, &io, 2, admin.cntlid);
	newcomer = rate(&io);
	CHECK_MSG(beside * 2 >= alone && newcomer * 2 >= alone && alone > RATE_DEPTH,
	          "%u commands alone, %u beside them, %u when it has come later", alone, beside,
	          newcomer);
	CHECK_EQ(stats().stalls, 0);
	weft_nvmf_query_stats(h.n.target, &ns);
	CHECK(ns.memory_room_waits > THIEF_WRITES && ns.memory_room_waits <= ns.memory_waits);
	for (unsigned int i = 0; i < THIEVES; i++) {
		CHECK(!thief[i].p.ended);
		th_close(&thief[i]);
		th_close(&thief_admin[i]);
	}
	end();
}

static void
test_thieves(void)
{
	thieves_at(1);
}

static void
test_thieves_addresses(void)
{
	thieves_at(3);
}

/** So many addresses that nothing is left: another host waits for the first of them, and not for
 * the time of a host that stops. */
static void
test_thieves_all(void)
{
	struct weft_nvmf_sqe sqe = th_rw(WEFT_NVMF_IO_READ, 0, MIB);
	struct weft_nvmf_stats ns;
	uint64_t from;
	uint16_t cid;

	set(false, false, 0);
	h.staging_bytes = 64 * MIB;
	start(&quiet);
	both_queues();
	thieves(THIEVES);
	from = sim_now_ns(h.t.sim);
	cid = th_send(&io, &sqe, in, MIB, false);
	while (!io.cmd[cid].answered && sim_now_ns(h.t.sim) - from < 30 * S_NS) {
		th_step(&h);
		th_look(&io);
	}
	from = sim_now_ns(h.t.sim) - from;
	CHECK_MSG(from > 5 * S_NS && from < 8 * S_NS, "after %llu ms",
	          (unsigned long long)(from / 1000000));
	CHECK_EQ(th_wait(&io, cid), 0);
	weft_nvmf_query_stats(h.n.target, &ns);
	CHECK_EQ(ns.memory_expired, 1);
	CHECK_EQ(stats().stalls, 0);
	for (unsigned int i = 0; i < THIEVES; i++) {
		th_close(&thief[i]);
		th_close(&thief_admin[i]);
	}
	end();
}

WEFT_TEST_MAIN({"data of every length, with and without digests", test_data},
               {"the last data is the answer", test_success}, {"full queues", test_full},
               {"full queues, loss", test_loss}, {"PDUs cut at every octet", test_cuts},
               {"several queues", test_queues},
               {"many short answers in a turn of the worker", test_turns},
               {"capsules wait for memory", test_waits},
               {"data with a wrong digest", test_data_digest},
               {"a header with a wrong digest", test_header_digest},
               {"H2CData that was not asked for", test_bad_data},
               {"H2CData before its R2T", test_early_data}, {"PDUs out of sequence", test_sequence},
               {"capsules with too much data", test_capsule_limit},
               {"more commands than entries", test_overrun}, {"hosts that stop", test_stalls},
               {"silent hosts do not halve the rate of another one", test_silent},
               {"hosts that keep memory do not, either", test_thieves},
               {"nor do some of several addresses", test_thieves_addresses},
               {"those of many addresses give way", test_thieves_all},
               {"an R2T that is never served", test_starved}, {"lost at every moment", test_lost},
               {"closed by the target", test_close},
               {"closed by the target, a command on the volume", test_close_late},
               {"limits", test_limits})
