/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The RDMA transport of NVMe over Fabrics, over two stacks on a simulated link. Node 0 is the
 * host, as Linux is one: a region for each command, which the answer invalidates; receives of 16
 * octets. Node 1 is the target.
 */

#include <errno.h>

#include "nvmf_rig.h"
#include "vt.h"
#include "weft_nvmf_rdma.h"

#define NEVER(status) ((status) | WEFT_NVMF_DNR)
#define H_CMDS        32U
#define H_CAPSULE     (WEFT_NVMF_SQE_BYTES + 4096)
#define H_STEP_NS     50000
#define H_STEPS       400000
#define MIB           (1U << 20)

/** A command of the host. */
struct hcmd {
	struct weft_mr *mr;
	uint32_t stag; /**< 0: no memory */
	bool busy, answered;
	struct weft_nvmf_cqe cqe;
	uint8_t capsule[H_CAPSULE];
};

/** A queue of the host. */
struct hq {
	struct weft_qp *qp;
	struct hcmd cmd[H_CMDS];
	uint8_t in[H_CMDS][WEFT_NVMF_CQE_BYTES];
	bool established, rejected, ended;
	uint16_t reject_status, crqsize, cntlid;
	uint32_t not_invalidated; /**< answers that did not invalidate the command's key */
	uint64_t result;
};

static struct vt t;
static struct nv n;
static struct weft_nvmf_rdma *rdma;
static struct hq admin, io;
static uint8_t out[4 * MIB], in[4 * MIB];
static uint32_t host_ird = 128; /**< Reads that the host answers at a time */

static void
h_wc(struct hq *q, const struct weft_wc *wc)
{
	struct weft_nvmf_cqe cqe;
	struct weft_sge sge;
	struct weft_recv_wr again = {.wr_id = wc->wr_id, .sg_list = &sge, .num_sge = 1};
	struct hcmd *c;

	if (wc->opcode != WEFT_WC_RECV || wc->status != WEFT_WC_SUCCESS)
		return;
	CHECK_EQ(wc->len_bytes, WEFT_NVMF_CQE_BYTES);
	nv_cqe_decode(q->in[wc->wr_id], &cqe);
	CHECK(cqe.cid < H_CMDS);
	c = &q->cmd[cqe.cid];
	CHECK(c->busy && !c->answered);
	c->cqe = cqe;
	c->answered = true;
	if (c->stag != 0 && ((wc->flags & WEFT_WC_INV) == 0 || wc->inv_stag != c->stag))
		q->not_invalidated++;
	sge = (struct weft_sge){.addr = q->in[wc->wr_id], .len_bytes = WEFT_NVMF_CQE_BYTES};
	CHECK_EQ(weft_post_recv(q->qp, &again, 1), 1);
}

static void
h_event(const struct weft_event *ev)
{
	struct hq *q = ev->user;

	switch (ev->type) {
	case WEFT_EV_ESTABLISHED:
		q->established = true;
		CHECK_EQ(ev->private_data_bytes, 32);
		CHECK_EQ(weft_nvmf_get16(ev->private_data), 0);
		q->crqsize = weft_nvmf_get16(ev->private_data + 2);
		break;
	case WEFT_EV_REJECTED:
		q->rejected = true;
		CHECK_EQ(ev->private_data_bytes, 4);
		CHECK_EQ(weft_nvmf_get16(ev->private_data), 0);
		q->reject_status = weft_nvmf_get16(ev->private_data + 2);
		break;
	case WEFT_EV_DISCONNECTED:
	case WEFT_EV_CONNECT_ERROR:
		q->ended = true;
		break;
	default:
		break;
	}
}

/** A moment on both sides. */
static void
step(void)
{
	struct weft_event ev;
	struct weft_wc wc;

	vt_run(&t, H_STEP_NS);
	n.vol.now_ns += H_STEP_NS;
	nv_poll(&n);
	weft_nvmf_rdma_poll(rdma, n.vol.now_ns);
	while (weft_evq_poll(t.n[1].evq, &ev) == 1)
		if (ev.type == WEFT_EV_CONNECT_REQUEST)
			(void)weft_nvmf_rdma_request(rdma, &ev);
	while (weft_evq_poll(t.n[0].evq, &ev) == 1)
		if (ev.user != NULL)
			h_event(&ev);
	while (weft_cq_poll(t.n[0].cq, &wc, 1) == 1)
		h_wc(wc.qp_user, &wc);
}

static void
start(const struct sim_link_cfg *link)
{
	struct vt_attr va = {.seed = test_seed(7), .link = *link, .cq_depth = 4096};
	struct weft_nvmf_rdma_attr ra = {0};

	memset(&n, 0, sizeof(n));
	n.disk_bytes = 8 * MIB;
	vt_open(&t, &va);
	nv_start(&n);
	ra.ctx = t.n[1].ctx;
	ra.worker = t.n[1].w;
	ra.group = n.group[0];
	ra.memory = n.memory[0];
	ra.bytes = weft_nvmf_group_min_bytes(n.target);
	CHECK_EQ(weft_nvmf_rdma_open(&ra, &rdma), 0);
	vt_listen(&t.n[1]);
	vt_fill(out, sizeof(out), 3);
}

/** Ask for a connection, with this private data, and wait for the answer. */
static void
h_connect(struct hq *q, const void *private_data, uint16_t bytes, uint32_t ird)
{
	struct weft_qp_attr qa = vt_qp_attr(&t.n[0]);
	struct weft_conn_attr ca = {.size = sizeof(ca),
	                            .private_data = private_data,
	                            .private_data_bytes = bytes,
	                            .ird = WEFT_DEPTH(ird),
	                            .ord = WEFT_DEPTH(0)};
	socklen_t len;
	struct sockaddr_storage sa = vt_addr_of(VT_V4, 1, VT_PORT, &len);

	memset(q, 0, sizeof(*q));
	qa.user = q;
	qa.rq_depth = H_CMDS;
	qa.sq_depth = 4 * H_CMDS;
	qa.ird = 128;
	qa.max_inline_bytes = 0;
	CHECK_EQ(weft_qp_create(t.n[0].pd, &qa, &q->qp), 0);
	for (uint32_t i = 0; i < H_CMDS; i++) {
		struct weft_sge sge = {.addr = q->in[i], .len_bytes = WEFT_NVMF_CQE_BYTES};
		struct weft_recv_wr wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1};

		CHECK_EQ(weft_post_recv(q->qp, &wr, 1), 1);
		CHECK_EQ(weft_mr_alloc(t.n[0].pd, &q->cmd[i].mr), 0);
	}
	CHECK_EQ(weft_connect(q->qp, (struct sockaddr *)&sa, len, &ca), 0);
	for (unsigned int i = 0; !q->established && !q->rejected && !q->ended; i++) {
		CHECK(i < H_STEPS);
		step();
	}
}

static void
h_end(struct hq *q)
{
	weft_qp_destroy(q->qp);
	q->qp = NULL;
	for (uint32_t i = 0; i < H_CMDS; i++)
		CHECK_EQ(weft_mr_dereg(q->cmd[i].mr, NULL, NULL), 0);
}

/** Everything of the hosts is gone at the target. */
static void
end(void)
{
	struct weft_nvmf_rdma_stats rs;
	struct weft_nvmf_stats ns;
	unsigned int i = 0;

	do {
		CHECK(i++ < H_STEPS);
		step();
		weft_nvmf_rdma_query(rdma, &rs);
		weft_nvmf_query_stats(n.target, &ns);
	} while (rs.conns > 0 || ns.queues > 0);
	CHECK_EQ(weft_nvmf_rdma_close(rdma), 0);
	nv_end(&n);
	vt_close(&t);
}

/** Send a command. The region is for its data; `inside`: the data is in the capsule. Returns the
 * CID. */
static uint16_t
h_send(struct hq *q, struct weft_nvmf_sqe *sqe, void *data, uint32_t bytes, bool inside)
{
	struct weft_nvmf_sgl sgl = {.kind = WEFT_NVMF_SGL_KEYED, .bytes = bytes};
	struct weft_sge sge = {.len_bytes = WEFT_NVMF_SQE_BYTES};
	struct weft_wr wr[2] = {{.opcode = WEFT_WR_FAST_REG}, {.opcode = WEFT_WR_SEND}};
	struct hcmd *c = q->cmd;
	uint16_t cid = 0;

	while (c->busy) {
		c++;
		cid++;
		CHECK(cid < H_CMDS);
	}
	c->busy = true;
	c->answered = false;
	c->stag = 0;
	if (inside) {
		sgl.kind = WEFT_NVMF_SGL_CAPSULE;
		memcpy(c->capsule + WEFT_NVMF_SQE_BYTES, data, bytes);
		sge.len_bytes += bytes;
	} else if (bytes > 0) {
		c->stag = weft_mr_next_stag(c->mr);
		wr[0].fast_reg.mr = c->mr;
		wr[0].fast_reg.addr = data;
		wr[0].fast_reg.len_bytes = bytes;
		wr[0].fast_reg.base_to = (uintptr_t)data;
		wr[0].fast_reg.access = WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_REMOTE_READ |
		                        WEFT_ACCESS_REMOTE_WRITE;
		wr[0].fast_reg.stream = true;
		sgl.addr = (uintptr_t)data;
		sgl.key = c->stag;
		sgl.invalidate = true;
	}
	sqe->cid = cid;
	nv_sgl_encode(&sgl, sqe);
	nv_sqe_encode(sqe, c->capsule);
	sge.addr = c->capsule;
	wr[1].sg_list = &sge;
	wr[1].num_sge = 1;
	CHECK_EQ(weft_post_send(q->qp, c->stag == 0 ? &wr[1] : wr, c->stag == 0 ? 1 : 2),
	         c->stag == 0 ? 1 : 2);
	return cid;
}

static uint16_t
h_wait(struct hq *q, uint16_t cid)
{
	struct hcmd *c = &q->cmd[cid];

	for (unsigned int i = 0; !c->answered; i++) {
		CHECK_MSG(i < H_STEPS && !q->ended, "command %u: no answer", cid);
		step();
	}
	c->busy = false;
	q->result = c->cqe.result;
	return c->cqe.status;
}

static uint16_t
h_do(struct hq *q, struct weft_nvmf_sqe sqe, void *data, uint32_t bytes)
{
	return h_wait(q, h_send(q, &sqe, data, bytes, false));
}

/** A queue as Linux makes it: private data, Connect. */
static void
h_queue(struct hq *q, uint16_t qid, uint16_t cntlid)
{
	struct weft_nvmf_connect c = {.cntlid = cntlid, .subnqn = NV_SUBSYS, .hostnqn = NV_HOST};
	struct weft_nvmf_sqe sqe =
	        nv_sqe(WEFT_NVMF_OP_FABRICS, 0, (uint32_t)qid << 16, H_CMDS - 1, 0);
	uint8_t private_data[32] = {0}, data[WEFT_NVMF_CONNECT_BYTES];

	weft_nvmf_put16(private_data + 2, qid);
	weft_nvmf_put16(private_data + 4, H_CMDS);
	weft_nvmf_put16(private_data + 6, H_CMDS - 1);
	h_connect(q, private_data, sizeof(private_data), host_ird);
	CHECK(q->established);
	CHECK_EQ(q->crqsize, H_CMDS);
	sqe.fctype = WEFT_NVMF_FC_CONNECT;
	nv_connect_encode(&c, data);
	/* an I/O queue's is in the capsule */
	CHECK_EQ(h_wait(q, h_send(q, &sqe, data, sizeof(data), qid > 0)), 0);
	q->cntlid = (uint16_t)q->result;
}

static void
h_enable(struct hq *q)
{
	struct weft_nvmf_sqe sqe = nv_sqe(WEFT_NVMF_OP_FABRICS, 0, 0, WEFT_NVMF_PROP_CC, 0x460001);

	sqe.fctype = WEFT_NVMF_FC_PROPERTY_SET;
	CHECK_EQ(h_do(q, sqe, NULL, 0), 0);
}

static void
both_queues(void)
{
	h_queue(&admin, 0, 0xffff);
	h_enable(&admin);
	h_queue(&io, 1, admin.cntlid);
}

static struct weft_nvmf_sqe
rw(uint8_t opcode, uint32_t slba, uint32_t bytes)
{
	return nv_sqe(opcode, 1, slba, 0, bytes / 512 - 1);
}

static const struct sim_link_cfg quiet = {.delay_ns = 10000};

static void
test_data(void)
{
	static const uint32_t lengths[] = {512, 4096, 4608, 32768, 65536, 131072, 1000448, MIB};
	struct weft_nvmf_sqe sqe;

	start(&quiet);
	both_queues();
	CHECK_EQ(h_do(&admin, nv_sqe(WEFT_NVMF_ADMIN_IDENTIFY, 0, 1, 0, 0), in, 4096), 0);
	CHECK_EQ(weft_nvmf_get32(in + 536), 0x100005);
	for (unsigned int i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		const uint32_t len = lengths[i];

		CHECK_EQ(h_do(&io, rw(WEFT_NVMF_IO_WRITE, i, len), out, len), 0);
		memset(in, 0, len);
		CHECK_EQ(h_do(&io, rw(WEFT_NVMF_IO_READ, i, len), in, len), 0);
		CHECK_MEM(in, out, len);
	}
	/* in the capsule */
	sqe = rw(WEFT_NVMF_IO_WRITE, 100, 4096);
	CHECK_EQ(h_wait(&io, h_send(&io, &sqe, out + 512, 4096, true)), 0);
	CHECK_EQ(h_do(&io, rw(WEFT_NVMF_IO_READ, 100, 4096), in, 4096), 0);
	CHECK_MEM(in, out + 512, 4096);
	CHECK_EQ(h_do(&io, rw(WEFT_NVMF_IO_COMPARE, 100, 4096), out, 4096), 0x4285);
	/* each key was invalidated, of failed commands, too */
	CHECK_EQ(h_do(&io, rw(0x55, 0, 512), in, 512), NEVER(WEFT_NVMF_INVALID_OPCODE));
	CHECK_EQ(admin.not_invalidated + io.not_invalidated, 0);
	h_end(&io);
	h_end(&admin);
	end();
}

static uint32_t
h_len(unsigned int i)
{
	return 32768 * (1 + i * 7 % 4);
}

/** Full queues: Reads wait for ORD, answers do not wait behind them, all data is right. */
static void
full_queues(const struct sim_link_cfg *link, unsigned int rounds)
{
	struct weft_nvmf_rdma_stats stats;
	struct weft_qp_info info;

	start(link);
	both_queues();
	for (unsigned int round = 0; round < rounds; round++) {
		uint16_t cid[H_CMDS];
		struct weft_nvmf_sqe sqe;

		/* lengths that leave gaps, so that memory comes in pieces */
		for (unsigned int i = 0; i < H_CMDS; i++) {
			sqe = rw(WEFT_NVMF_IO_WRITE, i * 256, h_len(i + round));
			cid[i] = h_send(&io, &sqe, out + ((i + round) % 32) * 131072,
			                h_len(i + round), false);
		}
		for (unsigned int i = 0; i < H_CMDS; i++)
			CHECK_EQ(h_wait(&io, cid[i]), 0);
		for (unsigned int i = 0; i < H_CMDS; i++) {
			sqe = rw(WEFT_NVMF_IO_READ, i * 256, h_len(i + round));
			cid[i] = h_send(&io, &sqe, in + i * 131072, h_len(i + round), false);
		}
		for (unsigned int i = 0; i < H_CMDS; i++) {
			CHECK_EQ(h_wait(&io, cid[i]), 0);
			CHECK_MEM(in + i * 131072, out + ((i + round) % 32) * 131072,
			          h_len(i + round));
		}
	}
	weft_qp_query(io.qp, &info);
	CHECK_EQ(info.ord, 0);
	weft_nvmf_rdma_query(rdma, &stats);
	CHECK(stats.reads >= rounds * H_CMDS);
	CHECK_EQ(stats.read_waits > 0, host_ird < H_CMDS);
	CHECK_EQ(io.not_invalidated, 0);
	h_end(&io);
	h_end(&admin);
	end();
}

static void
test_full(void)
{
	full_queues(&quiet, 4);
}

/** A host that answers four Reads at a time: the others wait, and come. */
static void
test_ord(void)
{
	host_ird = 4;
	full_queues(&quiet, 1);
	host_ird = 128;
}

static void
test_loss(void)
{
	const struct sim_link_cfg lossy = {.delay_ns = 10000, .loss_ppm = 5000};

	full_queues(&lossy, 1);
}

static void
test_rejects(void)
{
	static const struct {
		uint8_t at, value;
		uint16_t status;
	} wrong[] = {{0, 1, 2}, {3, 0xff, 3}, {4, 1, 5}, {6, 0, 4}};
	uint8_t private_data[32] = {0};
	struct hq q;
	struct weft_nvmf_rdma_stats stats;

	start(&quiet);
	for (unsigned int i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		memset(private_data, 0, sizeof(private_data));
		private_data[4] = 32;
		private_data[6] = 31;
		private_data[wrong[i].at] = wrong[i].value;
		if (wrong[i].status == 3)
			private_data[2] = 0xff;
		h_connect(&q, private_data, 32, 128);
		CHECK(q.rejected);
		CHECK_EQ(q.reject_status, wrong[i].status);
		h_end(&q);
	}
	private_data[6] = 31;
	h_connect(&q, private_data, 31, 128);
	CHECK_EQ(q.reject_status, 1);
	h_end(&q);
	/* a host that answers no Read */
	h_connect(&q, private_data, 32, 0);
	CHECK_EQ(q.reject_status, 7);
	h_end(&q);
	weft_nvmf_rdma_query(rdma, &stats);
	CHECK_EQ(stats.rejected, 6);
	CHECK_EQ(stats.accepted, 0);
	end();
}

/** The host goes at every moment of its commands; another one notices nothing. */
static void
test_lost(void)
{
	struct hq other;

	start(&quiet);
	h_queue(&admin, 0, 0xffff);
	h_enable(&admin);
	h_queue(&other, 1, admin.cntlid);
	for (unsigned int round = 0; round < 16; round++) {
		h_queue(&io, (uint16_t)(2 + round % 4), admin.cntlid);
		for (unsigned int i = 0; i < 8; i++) {
			struct weft_nvmf_sqe sqe =
			        rw(i % 2 ? WEFT_NVMF_IO_READ : WEFT_NVMF_IO_WRITE, 2048, 131072);

			(void)h_send(&io, &sqe, i % 2 ? in : out, 131072, false);
		}
		for (unsigned int i = 0; i < round; i++)
			step();
		h_end(&io);
		CHECK_EQ(h_do(&other, rw(WEFT_NVMF_IO_WRITE, 0, 4096), out, 4096), 0);
		CHECK_EQ(h_do(&other, rw(WEFT_NVMF_IO_READ, 0, 4096), in, 4096), 0);
		CHECK_MEM(in, out, 4096);
	}
	h_end(&other);
	h_end(&admin);
	end();
}

/** A wrong key ends this connection alone. A reset ends the I/O queue's, and not the admin's. */
static void
test_faults(void)
{
	struct weft_nvmf_sqe sqe = rw(WEFT_NVMF_IO_WRITE, 0, 4096);
	struct weft_nvmf_sgl sgl = {
	        .kind = WEFT_NVMF_SGL_KEYED, .bytes = 4096, .addr = 4096, .key = 0x12345678};
	struct weft_sge sge = {.addr = io.cmd[0].capsule, .len_bytes = WEFT_NVMF_SQE_BYTES};
	struct weft_wr wr = {.opcode = WEFT_WR_SEND, .sg_list = &sge, .num_sge = 1};

	start(&quiet);
	both_queues();
	nv_sgl_encode(&sgl, &sqe);
	nv_sqe_encode(&sqe, io.cmd[0].capsule);
	CHECK_EQ(weft_post_send(io.qp, &wr, 1), 1);
	for (unsigned int i = 0; !io.ended; i++) {
		CHECK(i < H_STEPS);
		step();
	}
	h_end(&io);
	CHECK_EQ(h_do(&admin, nv_sqe(WEFT_NVMF_ADMIN_KEEP_ALIVE, 0, 0, 0, 0), NULL, 0), 0);
	h_queue(&io, 2, admin.cntlid);
	/* shorter than a command */
	sge.len_bytes = 63;
	CHECK_EQ(weft_post_send(io.qp, &wr, 1), 1);
	for (unsigned int i = 0; !io.ended; i++) {
		CHECK(i < H_STEPS);
		step();
	}
	h_end(&io);
	h_queue(&io, 3, admin.cntlid);
	sqe = nv_sqe(WEFT_NVMF_OP_FABRICS, 0, 0, WEFT_NVMF_PROP_CC, 0x460000);
	sqe.fctype = WEFT_NVMF_FC_PROPERTY_SET;
	CHECK_EQ(h_do(&admin, sqe, NULL, 0), 0);
	for (unsigned int i = 0; !io.ended; i++) {
		CHECK(i < H_STEPS);
		step();
	}
	h_end(&io);
	do {
		sqe = nv_sqe(WEFT_NVMF_OP_FABRICS, 0, 0, WEFT_NVMF_PROP_CSTS, 0);
		sqe.fctype = WEFT_NVMF_FC_PROPERTY_GET;
		CHECK_EQ(h_do(&admin, sqe, NULL, 0), 0);
	} while (admin.result != 0);
	h_end(&admin);
	end();
}

WEFT_TEST_MAIN({"data of every length", test_data}, {"full queues", test_full},
               {"full queues, ORD 4", test_ord}, {"full queues, loss", test_loss},
               {"rejects", test_rejects}, {"lost at every moment", test_lost},
               {"faults, reset", test_faults})
