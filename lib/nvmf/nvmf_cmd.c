/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The way of a command: memory, the host's data, the work, the answer. A command that needs
 * no memory skips the first two. What the volume says becomes a status of NVMe here.
 */

#include "nvmf_cmd.h"

void
nvmf_finish(struct nvmf_slot *s)
{
	struct weft_nvmf_queue *q = s->queue;

	if (s->capsule != NULL)
		q->attr.ops->release(q, s->capsule);
	s->capsule = NULL;
	if (s->mem.iovs > 0)
		q->group->given = true;
	weft_staging_put(q->group->memory, &s->mem);
	s->mem.iovs = 0;
	if (s->ns != NULL)
		atomic_fetch_sub_explicit(&s->ns->at[q->group->index].under_way, 1,
		                          memory_order_seq_cst);
	s->ns = NULL;
	if (s->state != NVMF_SLOT_ANSWER)
		q->under_way--;
	TAILQ_REMOVE(&q->busy, s, link);
	TAILQ_INSERT_HEAD(&q->idle, s, link);
	if (q->lost && TAILQ_EMPTY(&q->busy))
		atomic_store_explicit(&q->group->attention, true, memory_order_release);
}

/** Note a failure in the controller's error log. */
static void
cmd_note(const struct nvmf_slot *s, uint16_t status)
{
	struct nvmf_ctrl *c = s->queue->ctrl;
	struct nvmf_error *e;

	if (c == NULL)
		return;
	pthread_mutex_lock(&c->lock);
	e = &c->error[c->errors++ % NVMF_ERRORS];
	*e = (struct nvmf_error){.count = c->errors,
	                         .lba = s->sqe.cdw[10] | (uint64_t)s->sqe.cdw[11] << 32,
	                         .nsid = s->sqe.opcode == WEFT_NVMF_OP_FABRICS ? 0 : s->sqe.nsid,
	                         .sqid = s->queue->qid,
	                         .cid = s->sqe.cid,
	                         .status = status};
	if (s->queue->qid == 0)
		e->lba = 0;
	pthread_mutex_unlock(&c->lock);
}

/** The time, for weft_nvmf_ended. */
static uint64_t
cmd_clock(const struct nvmf_slot *s)
{
	const struct weft_nvmf_group *g = s->queue->group;

	return g->attr.ended != NULL ? g->attr.clock(g) : 0;
}

/** The owner of the group wants to know. */
static void
cmd_ended(const struct nvmf_slot *s, uint16_t status)
{
	struct weft_nvmf_group *g = s->queue->group;
	const struct weft_nvmf_ended e = {.owner = s->ns->attr.owner,
	                                  .opcode = s->sqe.opcode,
	                                  .status = status,
	                                  .off_bytes = s->off_bytes,
	                                  .bytes = s->len_bytes,
	                                  .began_ns = s->began_ns,
	                                  .memory_ns = s->memory_ns,
	                                  .data_ns = s->data_ns,
	                                  .hostnqn = s->queue->ctrl->hostnqn};

	g->attr.ended(g, &e);
}

/** Count an answer. */
static void
cmd_count(const struct nvmf_slot *s, uint16_t status)
{
	struct weft_nvmf_queue *q = s->queue;
	struct nvmf_ctrl_at *at = q->ctrl == NULL ? NULL : &q->ctrl->at[q->group->index];

	nvmf_count(&q->group->commands, 1);
	nvmf_count(&q->commands, 1);
	if (at != NULL)
		nvmf_count(&at->commands, 1);
	if (status == WEFT_NVMF_OK)
		return;
	nvmf_count(&q->group->errors, 1);
	nvmf_count(&q->errors, 1);
	if (at != NULL)
		nvmf_count(&at->errors, 1);
	cmd_note(s, status);
}

static void cmd_answer(struct nvmf_slot *s, uint16_t status);

/** The command of an Abort was answered: now the Abort is (NVMe Base 2.0 s5.1). NULL: none. */
static void
cmd_aborted(struct nvmf_slot *aborter, uint16_t status)
{
	if (aborter == NULL)
		return;
	aborter->result = status == WEFT_NVMF_ABORTED ? 0 : 1;
	cmd_answer(aborter, WEFT_NVMF_OK);
}

static void
cmd_answer(struct nvmf_slot *s, uint16_t status)
{
	struct weft_nvmf_queue *q = s->queue;
	struct nvmf_slot *aborter = s->aborter;
	struct weft_nvmf_cqe cqe = {.result = s->result, .sqid = q->qid, .cid = s->sqe.cid};

	/* The device is away. Until all groups have let go of it, log page 0Ch does not say so. */
	if (status == WEFT_NVMF_NS_NOT_READY && s->ns != NULL)
		status = nvmf_ana_away(s->ns);
	/* Where the host can, it waits before it sends the command again: the namespace is away
	 * for longer than its few tries take. */
	if ((status == WEFT_NVMF_NS_NOT_READY || status == WEFT_NVMF_INTERRUPTED) &&
	    q->ctrl != NULL && atomic_load_explicit(&q->ctrl->delays, memory_order_relaxed))
		status |= WEFT_NVMF_CRD1;
	cqe.status = status;
	q->under_way--;
	/* Connect may have made the queue shorter. */
	if (++q->sqhd >= q->size)
		q->sqhd = 0;
	cqe.sqhd = q->no_flow ? 0xffff : q->sqhd;
	cmd_count(s, status);
	if (s->ns != NULL && q->qid > 0 && q->group->attr.ended != NULL)
		cmd_ended(s, status);
	s->state = NVMF_SLOT_ANSWER;
	s->aborter = NULL;
	if (q->lost) {
		nvmf_finish(s);
		cmd_aborted(aborter, status);
		return;
	}
	if (s->capsule != NULL)
		q->attr.ops->release(q, s->capsule);
	s->capsule = NULL;
	s->cmd.push_bytes = status == WEFT_NVMF_OK && !s->in ? s->need_bytes : 0;
	s->cmd.iov = s->part;
	s->cmd.iovs = nvmf_part(s, 0, s->cmd.push_bytes, s->part);
	weft_nvmf_cqe_encode(&cqe, s->cmd.answer);
	q->attr.ops->answer(&s->cmd);
	cmd_aborted(aborter, status);
}

void
nvmf_complete(struct nvmf_slot *s, uint16_t status)
{
	struct nvmf_slot *o = s->other;

	if (o == NULL) {
		cmd_answer(s, status);
		return;
	}
	s->other = o->other = NULL;
	if (s->sqe.fuse == 1)
		cmd_answer(s, status);
	cmd_answer(o, status == WEFT_NVMF_OK ? WEFT_NVMF_OK : WEFT_NVMF_FUSED_FAILED);
	if (s->sqe.fuse != 1)
		cmd_answer(s, status);
}

/** The data that the command needs is there. */
static void
cmd_run(struct nvmf_slot *s)
{
	s->state = NVMF_SLOT_RUN;
	s->data_ns = cmd_clock(s);
	if (s->aborted) {
		nvmf_complete(s, WEFT_NVMF_ABORTED);
	} else if (s->ns != NULL && !nvmf_resv_lets(s)) {
		/* a reservation has come while the host gave its data */
		nvmf_count(&s->queue->group->resv.conflicts, 1);
		nvmf_complete(s, NVMF_NEVER(WEFT_NVMF_CONFLICT));
	} else {
		s->row->run(s);
	}
}

/** Memory is there: now the host's data. */
static void
cmd_data(struct nvmf_slot *s)
{
	struct weft_nvmf_queue *q = s->queue;

	s->memory_ns = cmd_clock(s);
	if (!s->in || s->need_bytes == 0) {
		cmd_run(s);
		return;
	}
	if (s->cmd.sgl.kind == WEFT_NVMF_SGL_CAPSULE) {
		nvmf_put(s, 0, (const uint8_t *)s->capsule + WEFT_NVMF_SQE_BYTES + s->cmd.sgl.addr,
		         s->need_bytes);
		q->attr.ops->release(q, s->capsule);
		s->capsule = NULL;
		cmd_run(s);
		return;
	}
	s->state = NVMF_SLOT_PULL;
	s->cmd.iov = s->part;
	s->cmd.iovs = nvmf_part(s, 0, s->need_bytes, s->part);
	q->attr.ops->pull(&s->cmd);
}

static void
cmd_granted(struct weft_staging_req *req)
{
	cmd_data(req->owner);
}

/** The share of which the command's memory is. Before Connect all hosts have one: addresses that
 * may not connect make those of the others no smaller. */
static struct weft_staging_client *
cmd_share(const struct weft_nvmf_queue *q)
{
	if (q->ctrl == NULL)
		return &q->group->connecting;
	return q->share != NULL ? &q->share->client : &q->ctrl->at[q->group->index].client;
}

/** Memory for the command. */
static void
cmd_memory(struct nvmf_slot *s)
{
	struct weft_nvmf_queue *q = s->queue;
	struct weft_nvmf_group *g = q->group;
	int r;

	weft_staging_lane_init(&s->lane, s->ns == NULL ? NULL : &s->ns->at[g->index].memory);
	s->mem.client = cmd_share(q);
	s->mem.lane = &s->lane;
	s->mem.bytes = s->room_bytes;
	s->mem.contiguous = s->row->contiguous;
	s->mem.granted = cmd_granted;
	s->mem.owner = s;
	s->state = NVMF_SLOT_MEMORY;
	r = weft_staging_get(g->memory, &s->mem);
	if (r == 0) {
		cmd_data(s);
	} else if (r == -EINPROGRESS) {
		nvmf_count(&g->memory_waits, 1);
		g->next_ns = NVMF_MIN(g->next_ns, g->now_ns + NVMF_LOOK_NS);
	} else {
		nvmf_complete(s, WEFT_NVMF_INTERNAL);
	}
}

/** Whether the descriptor has what the command needs. */
static uint16_t
cmd_check_sgl(const struct nvmf_slot *s, uint16_t status)
{
	const struct weft_nvmf_sgl *sgl = &s->cmd.sgl;

	if (status != WEFT_NVMF_OK)
		return status;
	if (sgl->kind == WEFT_NVMF_SGL_CAPSULE && !s->in)
		return NVMF_NEVER(WEFT_NVMF_SGL_TYPE);
	if (sgl->bytes != s->need_bytes)
		return NVMF_NEVER(WEFT_NVMF_SGL_LENGTH);
	return WEFT_NVMF_OK;
}

void
nvmf_start(struct nvmf_slot *s)
{
	struct weft_nvmf_queue *q = s->queue;
	uint16_t status, sgl;

	s->began_ns = s->memory_ns = s->data_ns = cmd_clock(s);
	sgl = weft_nvmf_sgl_decode(&s->sqe, q->attr.ops->sgl_kinds, s->inline_bytes, &s->cmd.sgl);
	if (s->row == NULL)
		status = NVMF_NEVER(WEFT_NVMF_INVALID_OPCODE);
	else if (s->sqe.psdt != 1 || s->sqe.fuse == 3 || (s->sqe.fuse != 0 && !s->row->fusable))
		status = NVMF_NEVER(WEFT_NVMF_INVALID_FIELD);
	else
		status = s->row->start(s);
	if (status == WEFT_NVMF_OK && s->need_bytes > 0)
		status = cmd_check_sgl(s, sgl);
	if (status != WEFT_NVMF_OK) {
		nvmf_complete(s, status);
		return;
	}
	if (s->capsule != NULL &&
	    !(s->in && s->need_bytes > 0 && s->cmd.sgl.kind == WEFT_NVMF_SGL_CAPSULE)) {
		q->attr.ops->release(q, s->capsule);
		s->capsule = NULL;
	}
	s->room_bytes = NVMF_MAX(s->room_bytes, s->need_bytes);
	if (s->from != &s->mem)
		cmd_data(s);
	else if (s->room_bytes > 0)
		cmd_memory(s);
	else
		cmd_run(s);
}

bool
nvmf_cancel(struct nvmf_slot *s)
{
	switch (s->state) {
	case NVMF_SLOT_MEMORY:
		weft_staging_put(s->queue->group->memory, &s->mem);
		nvmf_complete(s, WEFT_NVMF_ABORTED);
		return true;
	case NVMF_SLOT_HELD:
		return false;
	case NVMF_SLOT_FUSED:
		if (s->other != NULL)
			return false;
		if (s->queue->fused == s)
			s->queue->fused = NULL;
		nvmf_complete(s, WEFT_NVMF_ABORTED);
		return true;
	case NVMF_SLOT_PULL:
		s->aborted = true;
		return true;
	case NVMF_SLOT_RUN:
		if (s->resv_step == NVMF_STEP_WAITS) {
			nvmf_resv_leave(s);
			nvmf_complete(s, WEFT_NVMF_ABORTED);
			return true;
		}
		s->aborted = true;
		if (!s->on_volume)
			return false;
		(void)weft_vol_cancel(s->ns->at[s->queue->group->index].chan, &s->op);
		return true;
	case NVMF_SLOT_ANSWER:
		break;
	}
	return false;
}

void
weft_nvmf_pulled(struct weft_nvmf_cmd *cmd, int status)
{
	struct nvmf_slot *s = (struct nvmf_slot *)((char *)cmd - offsetof(struct nvmf_slot, cmd));

	if (status != 0)
		nvmf_complete(s, status == -EBADMSG ? WEFT_NVMF_TRANSPORT_ERROR
		                                    : WEFT_NVMF_TRANSFER_ERROR);
	else
		cmd_run(s);
}

void
weft_nvmf_sent(struct weft_nvmf_cmd *cmd)
{
	nvmf_finish((struct nvmf_slot *)((char *)cmd - offsetof(struct nvmf_slot, cmd)));
}

/* ---- Memory ---- */

uint32_t
nvmf_part(const struct nvmf_slot *s, uint64_t off_bytes, uint64_t bytes,
          struct iovec out[WEFT_STAGING_MAX_PIECES + 2])
{
	const struct weft_staging_req *m = s->from;
	uint32_t n = 0;

	off_bytes += s->from_bytes;
	for (uint32_t i = 0; i < m->iovs && bytes > 0; i++) {
		uint64_t len = m->iov[i].iov_len;

		if (off_bytes >= len) {
			off_bytes -= len;
			continue;
		}
		len = NVMF_MIN(len - off_bytes, bytes);
		out[n++] = (struct iovec){(uint8_t *)m->iov[i].iov_base + off_bytes, len};
		bytes -= len;
		off_bytes = 0;
	}
	return n;
}

void
nvmf_put(struct nvmf_slot *s, uint64_t off_bytes, const void *from, uint64_t bytes)
{
	struct iovec iov[WEFT_STAGING_MAX_PIECES + 2];
	const uint32_t n = nvmf_part(s, off_bytes, bytes, iov);
	const uint8_t *p = from;

	for (uint32_t i = 0; i < n; i++) {
		memcpy(iov[i].iov_base, p, iov[i].iov_len);
		p += iov[i].iov_len;
	}
}

void
nvmf_get(const struct nvmf_slot *s, uint64_t off_bytes, void *to, uint64_t bytes)
{
	struct iovec iov[WEFT_STAGING_MAX_PIECES + 2];
	const uint32_t n = nvmf_part(s, off_bytes, bytes, iov);
	uint8_t *p = to;

	for (uint32_t i = 0; i < n; i++) {
		memcpy(p, iov[i].iov_base, iov[i].iov_len);
		p += iov[i].iov_len;
	}
}

void
nvmf_zero(struct nvmf_slot *s)
{
	const uint32_t n = nvmf_part(s, 0, s->room_bytes, s->part);

	for (uint32_t i = 0; i < n; i++)
		memset(s->part[i].iov_base, 0, s->part[i].iov_len);
}

/* ---- The volume ---- */

static void
cmd_volume_done(struct weft_vol_op *op)
{
	struct nvmf_slot *s = op->owner;

	s->on_volume = false;
	s->ns->at[s->queue->group->index].ended++;
	s->done(s, op->status);
}

void
nvmf_volume(struct nvmf_slot *s, enum weft_vol_kind kind, uint32_t flags, uint64_t off_bytes,
            uint64_t len_bytes, uint32_t iovs, void (*done)(struct nvmf_slot *s, int status))
{
	struct weft_nvmf_group *group = s->queue->group;
	struct weft_vol_chan *chan = s->ns->at[group->index].chan;
	int r = -ECANCELED;

	s->op.kind = kind;
	s->op.flags = flags;
	s->op.off_bytes = off_bytes;
	s->op.len_bytes = len_bytes;
	s->op.iov = s->part;
	s->op.iovs = iovs;
	s->op.done = cmd_volume_done;
	s->op.owner = s;
	s->done = done;
	if (!s->aborted)
		r = weft_vol_submit(chan, &s->op);
	if (r == 0) {
		s->on_volume = true;
		group->next_ns = NVMF_MIN(group->next_ns, group->now_ns + NVMF_LOOK_NS);
	} else
		done(s, r);
}

uint16_t
nvmf_status(int status, bool change)
{
	switch (status) {
	case 0:
		return WEFT_NVMF_OK;
	case -EILSEQ:
		return NVMF_NEVER(WEFT_NVMF_COMPARE_FAILED);
	case -ECANCELED:
		return WEFT_NVMF_ABORTED;
	case -ENOSPC:
	case -EDQUOT:
		return NVMF_NEVER(WEFT_NVMF_CAPACITY);
	case -EROFS:
		return NVMF_NEVER(WEFT_NVMF_READ_ONLY);
	case -EBUSY: /* a window that may write has the range: later it has not */
	case -ETIMEDOUT:
		return WEFT_NVMF_INTERRUPTED;
	case -ENODEV:
	case -ESHUTDOWN:
		return WEFT_NVMF_NS_NOT_READY;
	case -EOPNOTSUPP:
		return NVMF_NEVER(WEFT_NVMF_INVALID_FIELD);
	case -EINVAL:
		return NVMF_NEVER(WEFT_NVMF_INTERNAL);
	default: /* -EIO, -EBADMSG, and what else a medium has */
		return change ? WEFT_NVMF_WRITE_FAULT : NVMF_NEVER(WEFT_NVMF_READ_FAULT);
	}
}
