/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file A volume on a simulated device.
 */

#include <stdlib.h>
#include <unistd.h>

#include "volume_rig.h"

#define RIG_POLLS 1000000 /**< an operation that takes more is taken for stuck */

static _Thread_local unsigned int rig_order;

void
rig_device(struct rig *r, uint64_t bytes, uint32_t block_bytes, uint64_t seed)
{
	char options[96], reason[128] = "";
	struct weft_block_attr a = {.size = sizeof(a),
	                            .driver = seed == 0 ? "mem" : "fault",
	                            .options = options,
	                            .bytes = bytes,
	                            .reason = reason,
	                            .reason_bytes = sizeof(reason)};
	int n;

	*r = (struct rig){0};
	if (seed == 0)
		snprintf(options, sizeof(options), "block=%u", block_bytes);
	else
		snprintf(options, sizeof(options), "inner=mem,inner.block=%u,seed=%" PRIu64,
		         block_bytes, seed);
	n = weft_block_open(&a, &r->block);
	CHECK_MSG(n == 0, "%d %s", n, reason);
}

void
rig_file(struct rig *r, const char *path, uint64_t bytes)
{
	char reason[128] = "";
	struct weft_block_attr a = {.size = sizeof(a),
	                            .driver = "uring",
	                            .path = path,
	                            .bytes = bytes,
	                            .create = true,
	                            .reason = reason,
	                            .reason_bytes = sizeof(reason)};
	int n;

	*r = (struct rig){.real = true};
	n = weft_block_open(&a, &r->block);
	CHECK_MSG(n == 0, "%d %s", n, reason);
}

void
rig_format(struct rig *r, uint64_t bytes)
{
	struct weft_vol_format f = {
	        .bytes = bytes, .uuid = {1, 2, 3}, .created_ns = 4, .sums = r->sums};
	char reason[160] = "";
	int n = weft_vol_format(r->block, &f, reason, sizeof(reason));

	CHECK_MSG(n == 0, "%d %s", n, reason);
}

static void
rig_wake(struct weft_vol_chan *c)
{
	((struct rig *)weft_vol_chan_owner(c))->wakes++;
}

static void
rig_event(struct weft_vol_chan *c, const struct weft_block_state *state)
{
	((struct rig *)weft_vol_chan_owner(c))->state = *state;
}

void
rig_open(struct rig *r, unsigned int nchans, uint32_t pieces)
{
	char reason[160] = "";
	struct weft_vol_attr a = {.channels = nchans,
	                          .scratch = pieces,
	                          .reason = reason,
	                          .reason_bytes = sizeof(reason)};
	struct weft_vol_chan_attr ca = {.wake = rig_wake, .event = rig_event, .owner = r};
	int n;

	CHECK(posix_memalign((void **)&r->scratch, 4096, weft_vol_scratch_bytes(&a)) == 0);
	a.memory = r->scratch;
	n = weft_vol_open(r->block, &a, &r->vol);
	CHECK_MSG(n == 0, "%d %s", n, reason);
	r->nchans = nchans;
	for (unsigned int i = 0; i < nchans; i++)
		CHECK_EQ(weft_vol_chan_open(r->vol, &ca, &r->chan[i]), 0);
}

void
rig_close(struct rig *r)
{
	for (unsigned int i = 0; i < r->nchans; i++)
		CHECK_EQ(weft_vol_chan_close(r->chan[i]), 0);
	CHECK_EQ(weft_vol_close(r->vol), 0);
	free(r->scratch);
	r->nchans = 0;
	r->vol = NULL;
	r->scratch = NULL;
}

void
rig_end(struct rig *r)
{
	if (r->vol != NULL)
		rig_close(r);
	CHECK_EQ(weft_block_close(r->block), 0);
}

static void
rig_done(struct weft_vol_op *op)
{
	struct rig_op *o = op->owner;

	o->done++;
	o->at = ++rig_order;
}

static void
rig_late(struct weft_vol_op *op)
{
	((struct rig_op *)op->owner)->late++;
}

struct rig_op *
rig_op(struct rig_op *o, enum weft_vol_kind kind, uint64_t off, uint64_t len, void *mem)
{
	memset(o, 0, sizeof(*o));
	o->op.kind = kind;
	o->op.off_bytes = off;
	o->op.len_bytes = len;
	o->op.done = rig_done;
	o->op.late = rig_late;
	o->op.owner = o;
	if (mem != NULL) {
		o->iov[0] = (struct iovec){mem, len};
		o->op.iov = o->iov;
		o->op.iovs = 1;
	}
	return o;
}

void
rig_submit(struct rig *r, unsigned int chan, struct rig_op *o)
{
	CHECK_EQ(weft_vol_submit(r->chan[chan], &o->op), 0);
	CHECK_EQ(o->done, 0); /* never inside the submission */
}

unsigned int
rig_poll(struct rig *r)
{
	unsigned int n = 0;

	r->now_ns += 1000;
	for (unsigned int i = 0; i < r->nchans; i++)
		n += weft_vol_poll(r->chan[i], r->now_ns);
	if (n == 0 && r->real)
		usleep(20);
	return n;
}

int
rig_wait(struct rig *r, struct rig_op *o)
{
	for (unsigned int i = 0; o->done == 0; i++) {
		CHECK_MSG(i < RIG_POLLS, "operation %u is stuck in state %u", o->op.kind,
		          o->op.state);
		rig_poll(r);
	}
	CHECK_EQ(o->done, 1);
	return o->op.status;
}

int
rig_do(struct rig *r, struct rig_op *o)
{
	rig_submit(r, 0, o);
	return rig_wait(r, o);
}

int
rig_io(struct rig *r, enum weft_vol_kind kind, uint64_t off, uint64_t len, void *mem,
       uint32_t flags)
{
	struct rig_op o;

	rig_op(&o, kind, off, len, mem);
	o.op.flags = flags;
	return rig_do(r, &o);
}

int
rig_flush(struct rig *r)
{
	return rig_io(r, WEFT_VOL_FLUSH, 0, 0, NULL, 0);
}

uint64_t
rig_draw(uint64_t *seed, uint64_t n)
{
	uint64_t z = *seed += 0x9e3779b97f4a7c15ULL;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return n == 0 ? 0 : (z ^ z >> 31) % n;
}
