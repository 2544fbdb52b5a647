/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Capsules of NVMe over Fabrics, on queues of two groups, over a volume in memory. The
 * transport holds pulls and answers as the input says, and a host goes at any moment. Each command
 * is answered at most once, all memory that it is given is the group's, capsules come back, and at
 * the end of an input no controller, queue or command is left.
 */

#include <errno.h>

#include "fuzz.h"
#include "nvmf_host.h"
#include "volume_rig.h"
#include "weft_nvmf.h"
#include "weft_nvmf_transport.h"

#define GROUPS    2
#define QUEUES    4
#define HELD      64
#define MDTS      65536U
#define OPS_MAX   400
#define POLLS_MAX 10000
#define SUBSYS    "nqn.2026-01.org.example:fuzz"
#define HOST      "nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555"

struct fq {
	struct weft_nvmf_queue *q;
	unsigned int group;
	bool hold, closed, gone;
	struct weft_nvmf_cmd *pull[HELD], *send[HELD];
	unsigned int pulls, sends, capsules;
	uint64_t taken, answered;
	uint64_t result;
};

static struct rig vol;
static struct weft_nvmf *target;
static struct weft_nvmf_subsys *subsys;
static struct weft_nvmf_group *group[GROUPS];
static uint8_t *memory[GROUPS];
static uint64_t memory_bytes;
static struct fq queue[QUEUES];
static uint16_t cntlid;

/** The pieces are the group's, and as long as they have to be. */
static void
check_iov(const struct fq *q, const struct weft_nvmf_cmd *cmd, uint64_t bytes)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < cmd->iovs; i++) {
		const uint8_t *p = cmd->iov[i].iov_base;

		FUZZ_CHECK(p >= memory[q->group] && cmd->iov[i].iov_len <= memory_bytes &&
		           p + cmd->iov[i].iov_len <= memory[q->group] + memory_bytes);
		sum += cmd->iov[i].iov_len;
	}
	FUZZ_CHECK(sum == bytes);
}

static void
on_release(struct weft_nvmf_queue *wq, void *capsule)
{
	struct fq *q = weft_nvmf_queue_owner(wq);

	FUZZ_CHECK(q->capsules > 0);
	q->capsules--;
	free(capsule);
}

/** What the host has: zeros, or Connect's data where its length is asked for. */
static void
fill(struct weft_nvmf_cmd *cmd)
{
	struct weft_nvmf_connect c = {.cntlid = cntlid, .subnqn = SUBSYS, .hostnqn = HOST};
	uint8_t data[WEFT_NVMF_CONNECT_BYTES];

	if (cmd->sgl.addr % 2 == 1)
		c.cntlid = 0xffff;
	if (cmd->sgl.addr % 3 == 1)
		strcpy(c.subnqn, WEFT_NVMF_DISCOVERY_NQN);
	nv_connect_encode(&c, data);
	for (uint32_t i = 0; i < cmd->iovs; i++)
		memset(cmd->iov[i].iov_base, (int)cmd->sgl.addr, cmd->iov[i].iov_len);
	if (cmd->sgl.bytes == sizeof(data) && cmd->iovs == 1)
		memcpy(cmd->iov[0].iov_base, data, sizeof(data));
}

static void
on_pull(struct weft_nvmf_cmd *cmd)
{
	struct fq *q = weft_nvmf_queue_owner(cmd->queue);

	FUZZ_CHECK(cmd->sgl.kind == WEFT_NVMF_SGL_KEYED && cmd->sgl.bytes <= MDTS);
	check_iov(q, cmd, cmd->sgl.bytes);
	if (q->hold && q->pulls < HELD) {
		q->pull[q->pulls++] = cmd;
		return;
	}
	fill(cmd);
	weft_nvmf_pulled(cmd, 0);
}

static void
on_answer(struct weft_nvmf_cmd *cmd)
{
	struct fq *q = weft_nvmf_queue_owner(cmd->queue);
	struct weft_nvmf_cqe cqe;

	nv_cqe_decode(cmd->answer, &cqe);
	q->result = cqe.result;
	q->answered++;
	FUZZ_CHECK(q->answered <= q->taken);
	FUZZ_CHECK(cmd->push_bytes == 0 || (cmd->push_bytes == cmd->sgl.bytes && cqe.status == 0));
	check_iov(q, cmd, cmd->push_bytes);
	if (q->hold && q->sends < HELD) {
		q->send[q->sends++] = cmd;
		return;
	}
	weft_nvmf_sent(cmd);
}

static void
on_close(struct weft_nvmf_queue *wq)
{
	struct fq *q = weft_nvmf_queue_owner(wq);

	FUZZ_CHECK(!q->closed);
	q->closed = true;
}

static void
on_gone(struct weft_nvmf_queue *wq)
{
	struct fq *q = weft_nvmf_queue_owner(wq);

	FUZZ_CHECK(q->capsules == 0 && q->pulls == 0 && q->sends == 0);
	q->gone = true;
}

static const struct weft_nvmf_transport_ops ops = {.name = "fuzz",
                                                   .sgl_kinds = 1U << WEFT_NVMF_SGL_CAPSULE |
                                                                1U << WEFT_NVMF_SGL_KEYED,
                                                   .release = on_release,
                                                   .pull = on_pull,
                                                   .answer = on_answer,
                                                   .close = on_close,
                                                   .gone = on_gone};

static void
set_up(void)
{
	const struct weft_nvmf_attr attr = {.mdts_bytes = MDTS, .max_io_queues = 3};
	const struct weft_nvmf_subsys_attr sa = {
	        .nqn = SUBSYS, .serial = "1", .any_host = true, .max_nsid = 4};
	const struct weft_nvmf_listener l = {.trtype = 1, .traddr = "10.0.0.1", .trsvcid = "4420"};
	struct weft_nvmf_ns_attr na = {.nsid = 2, .volatile_cache = true};

	test_bail_aborts = true;
	rig_device(&vol, 2U << 20, 512, 0);
	rig_format(&vol, 0);
	rig_open(&vol, GROUPS, 0);
	na.vol = vol.vol;
	FUZZ_CHECK(weft_nvmf_create(&attr, &target) == 0);
	FUZZ_CHECK(weft_nvmf_subsys_add(target, &sa, &subsys) == 0);
	FUZZ_CHECK(weft_nvmf_listener_add(target, &l) == 0);
	FUZZ_CHECK(weft_nvmf_ns_add(subsys, &na) == 0);
	memory_bytes = weft_nvmf_group_min_bytes(target);
	for (unsigned int i = 0; i < GROUPS; i++) {
		struct weft_nvmf_group_attr ga = {.bytes = memory_bytes};

		FUZZ_CHECK(posix_memalign((void **)&memory[i], 4096, memory_bytes) == 0);
		ga.memory = memory[i];
		FUZZ_CHECK(weft_nvmf_group_open(target, &ga, &group[i]) == 0);
		FUZZ_CHECK(weft_nvmf_group_attach(group[i], subsys, 2, vol.chan[i]) == 0);
	}
}

static void
poll_all(void)
{
	rig_poll(&vol);
	for (unsigned int i = 0; i < GROUPS; i++)
		(void)weft_nvmf_group_poll(group[i], vol.now_ns);
}

static void
open_queue(unsigned int i)
{
	struct fq *q = &queue[i];
	const struct weft_nvmf_queue_attr a = {
	        .ops = &ops, .owner = q, .depth = 16, .inline_bytes = 512, .qid = -1};

	memset(q, 0, sizeof(*q));
	q->group = i % GROUPS;
	FUZZ_CHECK(weft_nvmf_queue_open(group[q->group], &a, &q->q) == 0);
}

/** The host of a queue goes; wait until the target has let go. */
static void
fq_lose(struct fq *q)
{
	const uint64_t before = q->answered;

	if (q->gone)
		return;
	weft_nvmf_queue_lost(q->q);
	while (q->pulls > 0)
		weft_nvmf_pulled(q->pull[--q->pulls], -ECONNRESET);
	while (q->sends > 0)
		weft_nvmf_sent(q->send[--q->sends]);
	for (unsigned int i = 0; !q->gone; i++) {
		FUZZ_CHECK(i < POLLS_MAX);
		poll_all();
	}
	FUZZ_CHECK(q->answered == before);
}

static void
fq_send(struct fq *q, const struct weft_nvmf_sqe *sqe, size_t inline_bytes)
{
	uint8_t *capsule = calloc(1, WEFT_NVMF_SQE_BYTES + inline_bytes);
	int r;

	FUZZ_CHECK(capsule != NULL);
	nv_sqe_encode(sqe, capsule);
	q->capsules++;
	q->taken++;
	r = weft_nvmf_command(q->q, capsule, WEFT_NVMF_SQE_BYTES + inline_bytes);
	if (r == 0)
		return;
	FUZZ_CHECK(r == -EPROTO || r == -EAGAIN || r == -ESHUTDOWN);
	q->capsules--;
	q->taken--;
	free(capsule);
}

/** Connect and enable, so that short inputs reach commands. */
static void
connected(unsigned int i, uint32_t addr)
{
	struct weft_nvmf_sqe s = {.opcode = WEFT_NVMF_OP_FABRICS, .fctype = WEFT_NVMF_FC_CONNECT};
	const struct weft_nvmf_sgl sgl = {
	        .kind = WEFT_NVMF_SGL_KEYED, .bytes = WEFT_NVMF_CONNECT_BYTES, .addr = addr};

	nv_sgl_encode(&sgl, &s);
	s.cdw[10] = i << 16;
	s.cdw[11] = 15;
	fq_send(&queue[i], &s, 0);
	poll_all();
	if (i > 0)
		return;
	cntlid = (uint16_t)queue[0].result;
	s.fctype = WEFT_NVMF_FC_PROPERTY_SET;
	s.cdw[10] = 0;
	s.cdw[11] = WEFT_NVMF_PROP_CC;
	s.cdw[12] = 0x460001;
	fq_send(&queue[0], &s, 0);
}

/** A command of the input: its fields, most of them small. */
static void
command(struct fuzz_in *in, struct fq *q)
{
	const uint8_t how = fuzz_u8(in);
	struct weft_nvmf_sgl sgl = {.kind = WEFT_NVMF_SGL_KEYED};
	struct weft_nvmf_sqe s = {.nsid = 2, .cid = fuzz_u8(in)};
	size_t inline_bytes = 0;

	s.opcode = fuzz_u8(in);
	s.fctype = fuzz_u8(in) & 7;
	s.fuse = how & 1 ? fuzz_u8(in) & 3 : 0;
	s.cdw[10] = fuzz_u32(in);
	s.cdw[11] = how & 2 ? fuzz_u32(in) : 0;
	s.cdw[12] = how & 4 ? fuzz_u32(in) : fuzz_u8(in);
	sgl.bytes = how & 8 ? fuzz_u32(in) & 0x1ffff : 512U * ((s.cdw[12] & 0xff) + 1);
	sgl.addr = fuzz_u8(in);
	if (how & 16) {
		s.nsid = fuzz_u32(in);
		s.cdw[13] = fuzz_u32(in);
		s.cdw[14] = fuzz_u32(in);
	}
	if (how & 32) {
		sgl.kind = WEFT_NVMF_SGL_CAPSULE;
		inline_bytes = fuzz_u16(in) % 600;
	}
	nv_sgl_encode(&sgl, &s);
	if (how & 64) {
		s.psdt = fuzz_u8(in) & 3;
		s.cdw[9] = fuzz_u32(in);
	}
	fq_send(q, &s, inline_bytes);
}

/** End something that the transport holds. */
static void
end_one(struct fuzz_in *in, struct fq *q)
{
	const uint8_t how = fuzz_u8(in);
	struct weft_nvmf_cmd *cmd;

	if ((how & 1) == 0 && q->pulls > 0) {
		cmd = q->pull[--q->pulls];
		fill(cmd);
		weft_nvmf_pulled(cmd, (how & 6) == 6 ? -EIO : 0);
	} else if (q->sends > 0) {
		weft_nvmf_sent(q->send[--q->sends]);
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_in in = {data, size};
	struct weft_nvmf_stats stats;
	uint8_t begin;

	if (target == NULL)
		set_up();
	for (unsigned int i = 0; i < QUEUES; i++)
		open_queue(i);
	begin = fuzz_u8(&in);
	if (begin & 1)
		connected(0, begin & 2 ? 1 : 3);
	for (unsigned int i = 1; i < QUEUES && (begin & 4); i++)
		connected(i, 0);
	for (unsigned int n = 0; in.left > 0 && n < OPS_MAX; n++) {
		const uint8_t op = fuzz_u8(&in);
		const unsigned int at = op % QUEUES;
		struct fq *q = &queue[at];

		switch (op >> 4) {
		default:
			if (!q->gone)
				command(&in, q);
			break;
		case 10:
		case 11:
			poll_all();
			break;
		case 12:
			q->hold = !q->hold;
			break;
		case 13:
			if (!q->gone)
				end_one(&in, q);
			break;
		case 14:
			fq_lose(q);
			open_queue(at);
			if (fuzz_u8(&in) & 1)
				connected(at, 0);
			break;
		case 15:
			vol.now_ns += (uint64_t)fuzz_u8(&in) * 100000000;
			poll_all();
			break;
		}
	}
	for (unsigned int i = 0; i < QUEUES; i++)
		fq_lose(&queue[i]);
	weft_nvmf_query_stats(target, &stats);
	FUZZ_CHECK(stats.ctrls == 0 && stats.queues == 0);
	return 0;
}
