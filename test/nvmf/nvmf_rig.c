/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file An NVMe-oF target on volumes in memory, and hosts without a network: see nvmf_rig.h.
 */

#include <errno.h>
#include <stdlib.h>

#include "nvmf_rig.h"

#define NV_POLLS 100000 /**< a command that takes more is taken for stuck */

/* ---- The transport ---- */

static void
nv_release(struct weft_nvmf_queue *wq, void *capsule)
{
	struct nv_queue *q = weft_nvmf_queue_owner(wq);

	CHECK(q->capsules > 0);
	q->capsules--;
	free(capsule);
}

/** Copy between the host's memory and the target's. */
static void
nv_move(struct weft_nvmf_cmd *cmd, bool push)
{
	uint8_t *host = (uint8_t *)(uintptr_t)cmd->sgl.addr;

	CHECK_EQ(cmd->sgl.kind, WEFT_NVMF_SGL_KEYED);
	CHECK_EQ(cmd->sgl.key, NV_KEY);
	for (uint32_t i = 0; i < cmd->iovs; i++) {
		if (push)
			memcpy(host, cmd->iov[i].iov_base, cmd->iov[i].iov_len);
		else
			memcpy(cmd->iov[i].iov_base, host, cmd->iov[i].iov_len);
		host += cmd->iov[i].iov_len;
	}
	CHECK_EQ(host - (uint8_t *)(uintptr_t)cmd->sgl.addr,
	         push ? cmd->push_bytes : cmd->sgl.bytes);
}

static void
nv_pull(struct weft_nvmf_cmd *cmd)
{
	struct nv_queue *q = weft_nvmf_queue_owner(cmd->queue);

	if (q->hold_pulls) {
		CHECK(q->pulls < NV_ANSWERS);
		q->pull[q->pulls++] = cmd;
		return;
	}
	nv_move(cmd, false);
	weft_nvmf_pulled(cmd, 0);
}

static void
nv_answer(struct weft_nvmf_cmd *cmd)
{
	struct nv_queue *q = weft_nvmf_queue_owner(cmd->queue);

	CHECK(q->answers < NV_ANSWERS);
	nv_cqe_decode(cmd->answer, &q->answer[q->answers++]);
	if (cmd->push_bytes > 0)
		nv_move(cmd, true);
	if (cmd->sgl.invalidate)
		q->invalidated = cmd->sgl.key;
	if (q->hold_answers) {
		CHECK(q->sends < NV_ANSWERS);
		q->send[q->sends++] = cmd;
		return;
	}
	weft_nvmf_sent(cmd);
}

static void
nv_on_close(struct weft_nvmf_queue *wq)
{
	struct nv_queue *q = weft_nvmf_queue_owner(wq);

	CHECK(!q->closed);
	q->closed = true;
}

static void
nv_gone(struct weft_nvmf_queue *wq)
{
	struct nv_queue *q = weft_nvmf_queue_owner(wq);

	CHECK_EQ(q->capsules, 0);
	q->gone = true;
	q->q = NULL;
}

static const struct weft_nvmf_transport_ops nv_ops = {.name = "test",
                                                      .sgl_kinds = 1U << WEFT_NVMF_SGL_CAPSULE |
                                                                   1U << WEFT_NVMF_SGL_KEYED,
                                                      .release = nv_release,
                                                      .pull = nv_pull,
                                                      .answer = nv_answer,
                                                      .close = nv_on_close,
                                                      .gone = nv_gone};

/* ---- The target ---- */

static void
nv_wake(struct weft_nvmf_group *g)
{
	((struct nv *)weft_nvmf_group_owner(g))->wakes++;
}

void
nv_start(struct nv *n)
{
	const struct weft_nvmf_subsys_attr sa = {.nqn = NV_SUBSYS,
	                                         .serial = "WEFT-1234",
	                                         .any_host = true,
	                                         .max_nsid = 8,
	                                         .ana = n->ana,
	                                         .cntlid_min = n->cntlid_min,
	                                         .cntlid_max = n->cntlid_max};

	rig_device(&n->vol, n->disk_bytes == 0 ? 4U << 20 : n->disk_bytes,
	           n->disk_block == 0 ? 512 : n->disk_block, n->seed);
	n->vol.sums = n->sums;
	/* "fault" tears nothing that is shorter than a block */
	if (n->seed != 0)
		n->vol.block->info.atomic_bytes = n->vol.block->info.block_bytes;
	rig_format(&n->vol, 0);
	rig_open(&n->vol, NV_GROUPS, 0);
	strcpy(n->attr.firmware, "1.0");
	CHECK_EQ(weft_nvmf_create(&n->attr, &n->target), 0);
	CHECK_EQ(weft_nvmf_subsys_add(n->target, &sa, &n->subsys), 0);
	n->ns.vol = n->vol.vol;
	n->ns.nsid = 1;
	n->ns.persistent = n->seed != 0;
	CHECK_EQ(weft_nvmf_ns_add(n->subsys, &n->ns), 0);
	for (unsigned int i = 0; i < NV_GROUPS; i++) {
		struct weft_nvmf_group_attr ga = {
		        .bytes = n->staging_bytes, .wake = nv_wake, .owner = n};

		if (ga.bytes == 0)
			ga.bytes = weft_nvmf_group_min_bytes(n->target);
		CHECK(posix_memalign((void **)&n->memory[i], 4096, ga.bytes) == 0);
		ga.memory = n->memory[i];
		CHECK_EQ(weft_nvmf_group_open(n->target, &ga, &n->group[i]), 0);
		CHECK_EQ(weft_nvmf_group_attach(n->group[i], n->subsys, 1, n->vol.chan[i]), 0);
		(void)weft_nvmf_group_poll(n->group[i], n->vol.now_ns);
	}
}

void
nv_end(struct nv *n)
{
	struct weft_nvmf_stats stats;

	weft_nvmf_query_stats(n->target, &stats);
	CHECK_EQ(stats.ctrls, 0);
	CHECK_EQ(stats.queues, 0);
	for (unsigned int i = 0; i < NV_GROUPS; i++) {
		(void)weft_nvmf_group_detach(n->group[i], n->subsys, 1);
		CHECK_EQ(weft_nvmf_group_close(n->group[i]), 0);
		free(n->memory[i]);
	}
	CHECK_EQ(weft_nvmf_destroy(n->target), 0);
	rig_end(&n->vol);
}

void
nv_poll(struct nv *n)
{
	rig_poll(&n->vol);
	for (unsigned int i = 0; i < NV_GROUPS; i++)
		if (n->group[i] != NULL)
			(void)weft_nvmf_group_poll(n->group[i], n->vol.now_ns);
}

void
nv_of_thread(const struct nv *n, unsigned int group, struct nv *out)
{
	*out = *n;
	for (unsigned int i = 0; i < NV_GROUPS; i++)
		if (i != group)
			out->group[i] = NULL;
	out->vol.chan[0] = n->vol.chan[group];
	out->vol.nchans = 1;
}

void
nv_pass(struct nv *n, uint64_t ms)
{
	n->vol.now_ns += ms * 1000000;
	nv_poll(n);
	nv_poll(n);
}

/* ---- Hosts ---- */

void
nv_open(struct nv *n, unsigned int group, struct nv_queue *q)
{
	struct weft_nvmf_queue_attr a = {
	        .ops = &nv_ops, .owner = q, .depth = 32, .inline_bytes = 4096, .qid = -1};

	memset(q, 0, sizeof(*q));
	q->nv = n;
	CHECK_EQ(weft_nvmf_queue_open(n->group[group], &a, &q->q), 0);
}

void
nv_close(struct nv_queue *q)
{
	if (q->gone)
		return;
	weft_nvmf_queue_lost(q->q);
	for (unsigned int i = 0; i < q->pulls; i++)
		weft_nvmf_pulled(q->pull[i], -ECONNRESET);
	for (unsigned int i = 0; i < q->sends; i++)
		weft_nvmf_sent(q->send[i]);
	q->pulls = q->sends = 0;
	for (unsigned int i = 0; !q->gone; i++) {
		CHECK(i < NV_POLLS);
		nv_poll(q->nv);
	}
}

void
nv_take(struct nv_queue *q)
{
	q->hold_answers = false;
	for (unsigned int i = 0; i < q->sends; i++)
		weft_nvmf_sent(q->send[i]);
	q->sends = 0;
}

struct weft_nvmf_sqe
nv_sqe(uint8_t opcode, uint32_t nsid, uint32_t cdw10, uint32_t cdw11, uint32_t cdw12)
{
	struct weft_nvmf_sqe sqe = {.opcode = opcode, .nsid = nsid};

	sqe.cdw[10] = cdw10;
	sqe.cdw[11] = cdw11;
	sqe.cdw[12] = cdw12;
	nv_keyed(&sqe, NULL, 0);
	return sqe;
}

void
nv_keyed(struct weft_nvmf_sqe *sqe, void *data, uint32_t bytes)
{
	const struct weft_nvmf_sgl none = {.kind = WEFT_NVMF_SGL_KEYED};
	const struct weft_nvmf_sgl sgl = {.kind = WEFT_NVMF_SGL_KEYED,
	                                  .bytes = bytes,
	                                  .addr = (uintptr_t)data,
	                                  .key = NV_KEY,
	                                  .invalidate = true};

	nv_sgl_encode(data == NULL ? &none : &sgl, sqe);
}

int
nv_send(struct nv_queue *q, struct weft_nvmf_sqe *sqe, const void *data, size_t inline_bytes)
{
	uint8_t capsule[WEFT_NVMF_SQE_BYTES + 8192];
	uint8_t *exact;
	int r;

	CHECK(inline_bytes <= 8192);
	sqe->cid = (uint16_t)(0x1000 + q->cid++);
	nv_sqe_encode(sqe, capsule);
	if (inline_bytes > 0)
		memcpy(capsule + WEFT_NVMF_SQE_BYTES, data, inline_bytes);
	exact = test_heap_copy(capsule, WEFT_NVMF_SQE_BYTES + inline_bytes);
	q->capsules++;
	r = (q->spoil ? weft_nvmf_command_damaged
	              : weft_nvmf_command)(q->q, exact, WEFT_NVMF_SQE_BYTES + inline_bytes);
	q->spoil = false;
	if (r != 0) {
		q->capsules--;
		free(exact);
	}
	return r;
}

bool
nv_answered(struct nv_queue *q, uint16_t cid, uint16_t *status)
{
	for (unsigned int i = 0; i < q->answers; i++) {
		if (q->answer[i].cid != cid)
			continue;
		*status = q->answer[i].status;
		q->result = q->answer[i].result;
		q->sqhd = q->answer[i].sqhd;
		memmove(&q->answer[i], &q->answer[i + 1],
		        (--q->answers - i) * sizeof(q->answer[0]));
		return true;
	}
	return false;
}

uint16_t
nv_wait(struct nv_queue *q, uint16_t cid)
{
	uint16_t status = 0;

	for (unsigned int i = 0; !nv_answered(q, cid, &status); i++) {
		CHECK_MSG(i < NV_POLLS, "command %x has no answer", cid);
		nv_poll(q->nv);
	}
	return status;
}

uint16_t
nv_do(struct nv_queue *q, struct weft_nvmf_sqe *sqe, void *data, uint32_t bytes)
{
	if (data != NULL)
		nv_keyed(sqe, data, bytes);
	CHECK_EQ(nv_send(q, sqe, NULL, 0), 0);
	return nv_wait(q, sqe->cid);
}

uint16_t
nv_connect(struct nv_queue *q, const char *subnqn, const char *hostnqn, uint16_t cntlid,
           uint16_t qid, uint16_t sqsize, uint32_t kato_ms)
{
	struct weft_nvmf_sqe sqe =
	        nv_sqe(WEFT_NVMF_OP_FABRICS, 0, (uint32_t)qid << 16, sqsize, kato_ms);
	struct weft_nvmf_connect c = {.hostid = {5, 6, 7}, .cntlid = cntlid};
	uint8_t data[WEFT_NVMF_CONNECT_BYTES];
	uint16_t status;

	sqe.fctype = WEFT_NVMF_FC_CONNECT;
	c.hostid[15] = q->nv->host;
	strcpy(c.subnqn, subnqn);
	strcpy(c.hostnqn, hostnqn);
	nv_connect_encode(&c, data);
	status = nv_do(q, &sqe, data, sizeof(data));
	if (status == 0)
		q->cntlid = (uint16_t)q->result;
	return status;
}

uint16_t
nv_property_get(struct nv_queue *q, uint32_t at, bool eight, uint64_t *value)
{
	struct weft_nvmf_sqe sqe = nv_sqe(WEFT_NVMF_OP_FABRICS, 0, eight, at, 0);
	uint16_t status;

	sqe.fctype = WEFT_NVMF_FC_PROPERTY_GET;
	status = nv_do(q, &sqe, NULL, 0);
	*value = q->result;
	return status;
}

uint16_t
nv_property_set(struct nv_queue *q, uint32_t at, uint64_t value)
{
	struct weft_nvmf_sqe sqe = nv_sqe(WEFT_NVMF_OP_FABRICS, 0, 0, at, (uint32_t)value);

	sqe.fctype = WEFT_NVMF_FC_PROPERTY_SET;
	return nv_do(q, &sqe, NULL, 0);
}

void
nv_admin(struct nv *n, unsigned int group, struct nv_queue *q, const char *subnqn)
{
	uint64_t v;

	nv_open(n, group, q);
	CHECK_EQ(nv_connect(q, subnqn, NV_HOST, 0xffff, 0, 31, 0), 0);
	CHECK_EQ(nv_property_set(q, WEFT_NVMF_PROP_CC, 0x460000), 0);
	CHECK_EQ(nv_property_set(q, WEFT_NVMF_PROP_CC, 0x460001), 0);
	CHECK_EQ(nv_property_get(q, WEFT_NVMF_PROP_CSTS, false, &v), 0);
	CHECK_EQ(v, WEFT_NVMF_CSTS_RDY);
}

void
nv_io(struct nv *n, unsigned int group, struct nv_queue *q, const struct nv_queue *admin,
      uint16_t qid)
{
	nv_open(n, group, q);
	CHECK_EQ(nv_connect(q, NV_SUBSYS, NV_HOST, admin->cntlid, qid, 31, 0), 0);
	CHECK_EQ(q->cntlid, admin->cntlid);
}

uint16_t
nv_identify(struct nv_queue *q, uint32_t cns, uint32_t nsid, uint8_t page[4096])
{
	struct weft_nvmf_sqe sqe = nv_sqe(WEFT_NVMF_ADMIN_IDENTIFY, nsid, cns, 0, 0);

	memset(page, 0xee, 4096);
	return nv_do(q, &sqe, page, 4096);
}

uint16_t
nv_log(struct nv_queue *q, uint8_t lid, bool rae, uint64_t off, void *data, uint32_t bytes)
{
	struct weft_nvmf_sqe sqe = nv_sqe(WEFT_NVMF_ADMIN_GET_LOG, WEFT_NVMF_NSID_ALL,
	                                  lid | (uint32_t)rae << 15 | (bytes / 4 - 1) << 16,
	                                  (bytes / 4 - 1) >> 16, (uint32_t)off);

	sqe.cdw[13] = (uint32_t)(off >> 32);
	return nv_do(q, &sqe, data, bytes);
}

uint16_t
nv_rw(struct nv_queue *q, uint8_t opcode, uint64_t slba, uint32_t n, void *data, uint32_t bytes,
      uint32_t flags)
{
	struct weft_nvmf_sqe sqe =
	        nv_sqe(opcode, 1, (uint32_t)slba, (uint32_t)(slba >> 32), (n - 1) | flags);

	return nv_do(q, &sqe, data, bytes);
}
