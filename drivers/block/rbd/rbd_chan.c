/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The rings of a channel: requests go to the process weft-rbd, and results come back.
 *
 * The caller's memory is its own: the process cannot see it. So the octets of a write are copied
 * into slots of the shared memory, and those of a read out of them, once, by the channel's thread.
 * A poll copies RBD_COPY_BYTES at most. What finds no slots, no tag, or no time waits in a queue of
 * the channel.
 *
 * Nothing that the process writes is believed. Its index must not be further than the requests that
 * it has, a completion must name one of them, and extents must cover a range without a gap. What is
 * checked is a copy, which the process cannot change any more. If it is wrong, the ring is not read
 * again, and the process is killed.
 */

#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "rbd_priv.h"

#define RBD_COPY_BYTES RBD_MAX_BYTES /**< of one poll: some 50 us of the polling core */
#define RBD_NO_TAG     UINT32_MAX
#define RBD_BLOCK      512U
#define RBD_LOOK_NS    1000000000ULL

/* ---- Open and close ---- */

static int
rbd_chan_room(struct rbd_chan *c)
{
	c->tag = calloc(c->tags, sizeof(*c->tag));
	c->free_tag = calloc(c->tags, sizeof(*c->free_tag));
	c->free_slot = calloc(c->slots, sizeof(*c->free_slot));
	if (c->tag == NULL || c->free_tag == NULL || c->free_slot == NULL)
		return -ENOMEM;
	while (c->nfree_tags < c->tags) {
		c->free_tag[c->nfree_tags] = c->tags - 1 - c->nfree_tags;
		c->nfree_tags++;
	}
	while (c->nfree_slots < c->slots) {
		c->free_slot[c->nfree_slots] = (uint16_t)(c->slots - 1 - c->nfree_slots);
		c->nfree_slots++;
	}
	return 0;
}

/** Give the channel a number. -ENOSPC: none is left. */
static int
rbd_chan_enter(struct rbd_chan *c)
{
	int r = -ENOSPC;

	pthread_mutex_lock(&c->disk->chan_lock);
	for (uint32_t i = 0; i < RBD_MAX_CHANS; i++) {
		if (c->disk->chan[i] == NULL) {
			c->disk->chan[i] = c;
			c->number = i;
			r = 0;
			break;
		}
	}
	pthread_mutex_unlock(&c->disk->chan_lock);
	return r;
}

static void
rbd_chan_free(struct rbd_chan *c)
{
	if (c->number != RBD_MAX_CHANS) {
		pthread_mutex_lock(&c->disk->chan_lock);
		c->disk->chan[c->number] = NULL;
		pthread_mutex_unlock(&c->disk->chan_lock);
	}
	if (c->base != NULL)
		munmap(c->base, c->base_bytes);
	if (c->bell_fd >= 0)
		close(c->bell_fd);
	if (c->kick_fd >= 0)
		close(c->kick_fd);
	free(c->tag);
	free(c->free_tag);
	free(c->free_slot);
	free(c);
}

/** Share memory with the process. */
static int
rbd_chan_share(struct rbd_chan *c)
{
	struct rbd_call call = {
	        .what = RBD_CHAN_OPEN, .chan = c->number, .tags = c->tags, .slots = c->slots};
	int fds[3], r;

	c->base_bytes = rbd_ring_bytes(c->tags, c->slots);
	r = rbd_memory(c->base_bytes, &c->base, &fds[0]);
	if (r != 0) {
		c->base = NULL;
		return r;
	}
	c->ring = c->base;
	c->sq = rbd_sq(c->base);
	c->cq = rbd_cq(c->base, c->tags);
	c->data = (uint8_t *)c->base + rbd_slots_off(c->tags);
	c->ring->magic = RBD_MAGIC;
	c->ring->tags = c->tags;
	c->ring->slots = c->slots;
	fds[1] = c->kick_fd;
	fds[2] = c->bell_fd;
	r = rbd_call(c->disk, &call, fds);
	close(fds[0]);
	if (r == -EIO || r == -EPROTO)
		rbd_fail(c->disk, "it does not answer a call");
	return r;
}

int
rbd_chan_open(struct weft_block_chan *chan)
{
	struct rbd_disk *d = chan->block->priv;
	struct rbd_chan *c;
	int r;

	if (atomic_load_explicit(&d->phase, memory_order_acquire) != RBD_UP)
		return -ENODEV;
	c = calloc(1, sizeof(*c));
	if (c == NULL)
		return -ENOMEM;
	c->disk = d;
	c->chan = chan;
	c->number = RBD_MAX_CHANS;
	for (c->tags = 16; c->tags < chan->depth; c->tags *= 2)
		;
	c->slots = RTE_MAX(2 * c->tags, 4 * RBD_REQ_SLOTS);
	c->slots = RTE_MIN(c->slots, RBD_MAX_SLOTS);
	c->bell_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	c->kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r = c->bell_fd < 0 || c->kick_fd < 0 ? -EMFILE : rbd_chan_room(c);
	if (r == 0)
		r = rbd_chan_enter(c);
	if (r == 0)
		r = rbd_chan_share(c);
	if (r != 0) {
		rbd_chan_free(c);
		return r;
	}
	chan->priv = c;
	return 0;
}

void
rbd_chan_close(struct weft_block_chan *chan)
{
	struct rbd_chan *c = chan->priv;
	const struct rbd_call call = {.what = RBD_CHAN_CLOSE, .chan = c->number};

	/* Requests that were canceled may be under way: the process has a mapping of its own. */
	if (atomic_load_explicit(&c->disk->phase, memory_order_acquire) == RBD_UP)
		(void)rbd_call(c->disk, &call, NULL);
	rbd_chan_free(c);
}

/* ---- Slots ---- */

/** How many slots a request needs. */
static uint32_t
rbd_slots_of(const struct weft_block_req *req)
{
	switch (req->op) {
	case WEFT_BLOCK_READ:
	case WEFT_BLOCK_WRITE:
		return (uint32_t)((req->len_bytes + RBD_SLOT_BYTES - 1) / RBD_SLOT_BYTES);
	case WEFT_BLOCK_COMPARE_WRITE:
	case WEFT_BLOCK_SNAPSHOT:
		return 2;
	case WEFT_BLOCK_EXTENTS:
		return 1;
	default:
		return 0;
	}
}

static uint8_t *
rbd_slot(const struct rbd_chan *c, const struct rbd_tag *t, unsigned int i)
{
	return c->data + (uint64_t)t->slot[i] * RBD_SLOT_BYTES;
}

/** Copy between the caller's segments and the slots. */
static void
rbd_copy(struct rbd_chan *c, const struct rbd_tag *t, const struct weft_block_req *req, bool in)
{
	uint64_t at = 0; /* in the slots */

	for (uint32_t i = 0; i < req->iovs; i++) {
		uint8_t *p = req->iov[i].iov_base;
		uint64_t left = req->iov[i].iov_len;

		while (left > 0) {
			uint64_t off = at % RBD_SLOT_BYTES;
			uint64_t n = RTE_MIN(left, RBD_SLOT_BYTES - off);
			uint8_t *s = rbd_slot(c, t, (unsigned int)(at / RBD_SLOT_BYTES)) + off;

			if (in)
				memcpy(s, p, n);
			else
				memcpy(p, s, n);
			p += n;
			at += n;
			left -= n;
		}
	}
	c->copied += (uint32_t)at;
}

static bool
rbd_has_time(const struct rbd_chan *c, const struct weft_block_req *req)
{
	return c->copied == 0 || c->copied + req->len_bytes <= RBD_COPY_BYTES;
}

/* ---- To the process ---- */

static bool
rbd_changes(const struct weft_block_req *req)
{
	return req->op != WEFT_BLOCK_READ && req->op != WEFT_BLOCK_FLUSH &&
	       req->op != WEFT_BLOCK_EXTENTS;
}

/** The whole pieces of a discard. */
static void
rbd_pieces(const struct rbd_disk *d, const struct weft_block_req *req, uint64_t *off, uint64_t *len)
{
	const uint64_t piece = d->hello.discard_bytes;
	uint64_t from = (req->off_bytes + piece - 1) / piece * piece;
	uint64_t to = (req->off_bytes + req->len_bytes) / piece * piece;

	*off = from;
	*len = to > from ? to - from : 0;
}

/** Fill the slots of a request for snapshots. */
static void
rbd_put_snap(const struct rbd_chan *c, const struct rbd_tag *t, const struct weft_block_snap *s)
{
	struct rbd_snap *to = (struct rbd_snap *)(void *)rbd_slot(c, t, 0);
	struct rbd_snap_data *data = (struct rbd_snap_data *)(void *)rbd_slot(c, t, 1);

	*to = (struct rbd_snap){.what = s->what,
	                        .most = s->most,
	                        .patches = s->patches,
	                        .max_list = RTE_MIN(s->max_list, RBD_MAX_SNAPSHOTS)};
	snprintf(to->name, sizeof(to->name), "%s", s->name != NULL ? s->name : "");
	snprintf(to->from, sizeof(to->from), "%s", s->from != NULL ? s->from : "");
	for (uint32_t i = 0; i < s->patches; i++) {
		const struct weft_block_patch *p = &s->patch[i];

		to->patch[i].off_bytes = p->off_bytes;
		to->patch[i].len_bytes = p->len_bytes;
		to->patch[i].guard_off_bytes = p->guard_off_bytes;
		to->patch[i].guard_bytes = p->guard_bytes;
		memcpy(data->data[i], p->data, p->len_bytes);
		if (p->guard_bytes > 0)
			memcpy(data->guard[i], p->guard, p->guard_bytes);
	}
}

/** Give the first request of the queue a tag, slots, and its place in the ring. */
static void
rbd_push_one(struct rbd_chan *c, struct weft_block_req *req)
{
	uint32_t number = c->free_tag[--c->nfree_tags];
	struct rbd_tag *t = &c->tag[number];
	struct rbd_sqe *e = &c->sq[c->sq_tail & (c->tags - 1)];

	c->first = rbd_req_of(req)->next;
	if (c->first == NULL)
		c->last = NULL;
	rbd_req_of(req)->tag = number;
	*t = (struct rbd_tag){.req = req,
	                      .run = ++c->run,
	                      .busy = true,
	                      .slots = (uint16_t)rbd_slots_of(req),
	                      .changes = rbd_changes(req),
	                      .patient = req->op == WEFT_BLOCK_SNAPSHOT};
	for (unsigned int i = 0; i < t->slots; i++)
		t->slot[i] = c->free_slot[--c->nfree_slots];
	*e = (struct rbd_sqe){.tag = number,
	                      .run = t->run,
	                      .op = (uint16_t)req->op,
	                      .flags = (uint16_t)(req->flags & WEFT_BLOCK_KEEP),
	                      .max_extents = RTE_MIN(req->max_extents, RBD_MAX_EXTENTS),
	                      .off_bytes = req->off_bytes,
	                      .len_bytes = req->len_bytes};
	memcpy(e->slot, t->slot, sizeof(e->slot));
	if (req->op == WEFT_BLOCK_DISCARD)
		rbd_pieces(c->disk, req, &e->off_bytes, &e->len_bytes);
	if (req->op == WEFT_BLOCK_WRITE || req->op == WEFT_BLOCK_COMPARE_WRITE)
		rbd_copy(c, t, req, true);
	if (req->op == WEFT_BLOCK_COMPARE_WRITE)
		memcpy(rbd_slot(c, t, 1), req->expect, req->len_bytes);
	if (req->op == WEFT_BLOCK_SNAPSHOT)
		rbd_put_snap(c, t, req->snap);
	if (t->changes)
		atomic_fetch_add_explicit(&c->disk->changing, 1, memory_order_relaxed);
	c->sq_tail++;
}

/** Hand over what waits, as far as there is room and time. */
static void
rbd_push(struct rbd_chan *c)
{
	struct weft_block_req *req;
	const uint32_t before = c->sq_tail;

	if (c->broken || c->seen != RBD_UP)
		return;
	while ((req = c->first) != NULL && c->nfree_tags > 0 &&
	       c->nfree_slots >= rbd_slots_of(req)) {
		if ((req->op == WEFT_BLOCK_WRITE || req->op == WEFT_BLOCK_COMPARE_WRITE) &&
		    !rbd_has_time(c, req)) {
			c->more = true;
			break;
		}
		rbd_push_one(c, req);
	}
	if (c->sq_tail != before)
		atomic_store_explicit(&c->ring->sq_tail, c->sq_tail, memory_order_release);
}

/** Wake the process if it sleeps. */
static void
rbd_kick(struct rbd_chan *c)
{
	const uint64_t one = 1;

	if (c->kicked == c->sq_tail)
		return;
	c->kicked = c->sq_tail;
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load_explicit(&c->ring->process_sleeps, memory_order_relaxed) == 0)
		return;
	atomic_store_explicit(&c->ring->process_sleeps, 0, memory_order_relaxed);
	(void)!write(c->kick_fd, &one, sizeof(one));
}

int
rbd_submit(struct weft_block_chan *chan, struct weft_block_req *req)
{
	struct rbd_chan *c = chan->priv;
	const uint32_t cut = c->disk->hello.cut_bytes;
	uint64_t off, len;

	if (req->op == WEFT_BLOCK_DISCARD) {
		rbd_pieces(c->disk, req, &off, &len);
		if (len == 0) {
			weft_block_done(req, 0, 0);
			return 0;
		}
	}
	if (req->op == WEFT_BLOCK_COMPARE_WRITE && cut != 0 &&
	    req->off_bytes / cut != (req->off_bytes + req->len_bytes - 1) / cut) {
		weft_block_done(req, -EOPNOTSUPP, 0);
		return 0;
	}
	*rbd_req_of(req) = (struct rbd_req){.next = NULL, .tag = RBD_NO_TAG};
	if (c->last != NULL)
		rbd_req_of(c->last)->next = req;
	else
		c->first = req;
	c->last = req;
	rbd_push(c);
	return 0;
}

/* ---- From the process ---- */

static void
rbd_tag_free(struct rbd_chan *c, struct rbd_tag *t)
{
	for (unsigned int i = 0; i < t->slots; i++)
		c->free_slot[c->nfree_slots++] = t->slot[i];
	c->free_tag[c->nfree_tags++] = (uint32_t)(t - c->tag);
	if (t->changes)
		atomic_fetch_sub_explicit(&c->disk->changing, 1, memory_order_release);
	*t = (struct rbd_tag){.req = NULL};
}

/** Take extents over, and check that they cover a range from the request's offset on. */
static bool
rbd_take_extents(struct rbd_chan *c, const struct rbd_tag *t, const struct rbd_cqe *e,
                 uint64_t *covered)
{
	struct weft_block_req *req = t->req;
	const uint32_t most = RTE_MIN(req->max_extents, RBD_MAX_EXTENTS);
	uint64_t at = req->off_bytes, end = req->off_bytes + req->len_bytes;

	if (e->extents == 0 || e->extents > most)
		return false;
	for (uint32_t i = 0; i < e->extents; i++) {
		struct rbd_extent x;

		memcpy(&x, rbd_slot(c, t, 0) + i * sizeof(x), sizeof(x));
		if (x.off_bytes != at || x.len_bytes == 0 || x.len_bytes > end - at ||
		    x.len_bytes % RBD_BLOCK != 0)
			return false;
		req->extents[i] = (struct weft_block_extent){
		        .off_bytes = at, .len_bytes = x.len_bytes, .hole = x.hole != 0};
		at += x.len_bytes;
	}
	req->extents_found = e->extents;
	*covered = at - req->off_bytes;
	return true;
}

/** A text of the process, as one line without control characters. */
static void
rbd_take_text(char *to, const char *from, size_t bytes)
{
	size_t n = 0;

	for (; n < bytes - 1 && from[n] != '\0'; n++)
		to[n] = (char)((unsigned char)from[n] < ' ' || from[n] == 0x7f ? '?' : from[n]);
	to[n] = '\0';
}

/** Take the results of a request for snapshots over. False: they are nonsense. */
static bool
rbd_take_snap(const struct rbd_chan *c, const struct rbd_tag *t, struct weft_block_snap *s,
              int status)
{
	struct rbd_snap r;

	memcpy(&r, rbd_slot(c, t, 0), sizeof(r));
	rbd_take_text(s->reason, r.reason, sizeof(s->reason));
	rbd_take_text(s->place, r.place, sizeof(s->place));
	if (status != 0 || s->what != WEFT_BLOCK_SNAP_LIST)
		return true;
	if (r.found > RTE_MIN(s->max_list, RBD_MAX_SNAPSHOTS))
		return false;
	for (uint32_t i = 0; i < r.found; i++) {
		struct weft_block_snapshot at = {.bytes = 0};
		struct rbd_snapshot from;

		memcpy(&from, rbd_slot(c, t, 1) + i * sizeof(from), sizeof(from));
		memcpy(at.name, from.name, sizeof(at.name) - 1);
		at.bytes = from.bytes;
		at.created_ns = from.created_ns;
		weft_block_snap_found(s, &at);
		if (s->found != i + 1) /* no name of a snapshot */
			return false;
	}
	s->more = r.more != 0;
	return true;
}

/** A change that failed: the next flush says so, whatever the cluster answers it. */
static bool
rbd_is_loss(const struct weft_block_req *req, int status)
{
	if (req->op == WEFT_BLOCK_SNAPSHOT)
		return false;
	return status != 0 && status != -EINVAL && status != -EOPNOTSUPP &&
	       !(req->op == WEFT_BLOCK_COMPARE_WRITE && status == -EILSEQ);
}

/** End the request of a tag, which no more belongs to it. */
static void
rbd_end_req(struct rbd_chan *c, struct weft_block_req *req, int status, uint64_t done)
{
	if (rbd_changes(req) && rbd_is_loss(req, status))
		atomic_store_explicit(&c->disk->lost, true, memory_order_release);
	if (req->op == WEFT_BLOCK_FLUSH && status == 0 &&
	    atomic_exchange_explicit(&c->disk->lost, false, memory_order_acq_rel))
		status = -EIO;
	weft_block_done(req, status, done);
}

/** One completion. False: it is nonsense. */
static bool
rbd_complete(struct rbd_chan *c, const struct rbd_cqe *e)
{
	struct rbd_tag *t = &c->tag[e->tag];
	struct weft_block_req *req = t->req;
	int status = e->status;
	uint64_t done = 0;

	if (status > 0)
		return false;
	/* This would say that nothing was changed. */
	if (status == -ECANCELED)
		status = -EIO;
	if (t->changes && status == -ETIMEDOUT) {
		/* It may still land: the client has to be blocklisted first. */
		t->unknown = true;
		rbd_fail(c->disk, "the cluster does not answer");
		if (req != NULL)
			weft_block_late(req);
		return true;
	}
	if (req != NULL && status == 0) {
		if (req->op == WEFT_BLOCK_EXTENTS && !rbd_take_extents(c, t, e, &done))
			return false;
		if (req->op == WEFT_BLOCK_READ)
			rbd_copy(c, t, req, false);
	}
	if (req != NULL && req->op == WEFT_BLOCK_SNAPSHOT &&
	    !rbd_take_snap(c, t, req->snap, status))
		return false;
	if (req != NULL && req->op == WEFT_BLOCK_COMPARE_WRITE && status == -EILSEQ) {
		if (e->done_bytes >= req->len_bytes)
			return false;
		done = e->done_bytes;
	}
	rbd_tag_free(c, t);
	if (req != NULL)
		rbd_end_req(c, req, status, done);
	return true;
}

static void
rbd_break(struct rbd_chan *c)
{
	c->broken = true;
	rbd_fail(c->disk, "it has written nonsense into a ring");
}

/** Take completions, as far as there is time. */
static void
rbd_take(struct rbd_chan *c)
{
	uint32_t tail;

	if (c->broken)
		return;
	tail = atomic_load_explicit(&c->ring->cq_tail, memory_order_acquire);
	if (unlikely(tail - c->cq_head > c->tags)) {
		rbd_break(c);
		return;
	}
	while (c->cq_head != tail) {
		struct rbd_cqe e;
		const struct rbd_tag *t;

		memcpy(&e, &c->cq[c->cq_head & (c->tags - 1)], sizeof(e));
		t = e.tag < c->tags ? &c->tag[e.tag] : NULL;
		if (unlikely(t == NULL || !t->busy || t->unknown || t->run != e.run)) {
			rbd_break(c);
			return;
		}
		if (t->req != NULL && t->req->op == WEFT_BLOCK_READ && !rbd_has_time(c, t->req)) {
			c->more = true;
			return;
		}
		c->cq_head++;
		if (unlikely(!rbd_complete(c, &e))) {
			rbd_break(c);
			return;
		}
	}
}

/** The process is dead; with RBD_FENCED nothing of it lands any more. All results that it had are
 * taken. */
static void
rbd_bury(struct rbd_chan *c, int phase)
{
	struct weft_block_req *req, *next;

	for (req = c->first; req != NULL; req = next) {
		next = rbd_req_of(req)->next;
		weft_block_done(req, -EIO, 0);
	}
	c->first = c->last = NULL;
	for (uint32_t i = 0; i < c->tags; i++) {
		struct rbd_tag *t = &c->tag[i];

		req = t->req;
		if (!t->busy)
			continue;
		if (t->changes && phase != RBD_FENCED) {
			if (req != NULL)
				weft_block_late(req);
			continue;
		}
		rbd_tag_free(c, t);
		if (req != NULL)
			rbd_end_req(c, req, -EIO, 0);
	}
	c->seen = phase;
}

/**
 * A process that is stopped, or stuck in a place where librbd's own limit does not count, answers
 * nothing for longer than the cluster may take. It is given up on like one that has ended.
 */
static void
rbd_look(struct rbd_chan *c)
{
	c->look_ns = c->now_ns + RBD_LOOK_NS;
	for (uint32_t i = 0; i < c->tags; i++) {
		struct rbd_tag *t = &c->tag[i];

		if (!t->busy || t->unknown || t->patient)
			continue;
		/* A request is taken at times that are not told. */
		if (t->seen_ns == 0)
			t->seen_ns = c->now_ns;
		if (c->now_ns - t->seen_ns > RBD_ANSWER_S(c->disk) * 1000000000ULL) {
			rbd_fail(c->disk, "it has not answered a request in time");
			return;
		}
	}
}

void
rbd_poll(struct weft_block_chan *chan, uint64_t now_ns)
{
	struct rbd_chan *c = chan->priv;
	int phase;
	uint64_t n;

	c->now_ns = now_ns;
	c->copied = 0;
	c->more = false;
	if (c->armed) {
		c->armed = false;
		atomic_store_explicit(&c->ring->driver_sleeps, 0, memory_order_relaxed);
		(void)!read(c->bell_fd, &n, sizeof(n));
	}
	/* Before the results: what a process has answered before its end counts. */
	phase = atomic_load_explicit(&c->disk->phase, memory_order_acquire);
	rbd_take(c);
	if (unlikely(phase != RBD_UP) && !c->more && (phase != c->seen || c->first != NULL))
		rbd_bury(c, phase);
	rbd_push(c);
	rbd_kick(c);
	if (now_ns >= c->look_ns && c->nfree_tags < c->tags)
		rbd_look(c);
}

void
rbd_cancel(struct weft_block_chan *chan, struct weft_block_req *req)
{
	struct rbd_chan *c = chan->priv;
	struct rbd_req *rr = rbd_req_of(req);
	struct weft_block_state state;
	struct weft_block_req **at = &c->first, *before = NULL;

	if (rr->tag == RBD_NO_TAG) {
		for (; *at != req; at = &rbd_req_of(*at)->next)
			before = *at;
		*at = rr->next;
		if (c->last == req)
			c->last = before;
		weft_block_done(req, -ECANCELED, 0);
		return;
	}
	if (!c->tag[rr->tag].changes) {
		/* The process keeps the slots until it is done. */
		c->tag[rr->tag].req = NULL;
		weft_block_done(req, -ECANCELED, 0);
		return;
	}
	weft_block_query_state(chan->block, &state);
	if (state.fenced)
		rbd_give_up(c->disk);
}

int
rbd_fd(const struct weft_block_chan *chan)
{
	return ((const struct rbd_chan *)chan->priv)->bell_fd;
}

uint64_t
rbd_next_ns(const struct weft_block_chan *chan)
{
	struct rbd_chan *c = chan->priv;
	int phase;

	if (c->more || c->kicked != c->sq_tail)
		return 0;
	c->armed = true;
	atomic_store_explicit(&c->ring->driver_sleeps, 1, memory_order_seq_cst);
	phase = atomic_load_explicit(&c->disk->phase, memory_order_seq_cst);
	if (phase != c->seen || (phase != RBD_UP && c->first != NULL))
		return 0;
	if (!c->broken &&
	    atomic_load_explicit(&c->ring->cq_tail, memory_order_seq_cst) != c->cq_head)
		return 0;
	return c->nfree_tags < c->tags && phase == RBD_UP ? c->look_ns : UINT64_MAX;
}
