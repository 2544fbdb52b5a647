/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The block driver "fault": requests that are slow, stuck or struck, over another device.
 */

#include <inttypes.h>
#include <stdio.h>

#include "fault_priv.h"

#define FAULT_MAX_BYTES (1U << 20)

/* ---- Requests ---- */

/** Whether a rule strikes at a request; counts it. */
static bool
fault_strikes(struct fault_rule *rule, const struct weft_block_req *req)
{
	const struct weft_block_fault_hit *h = &rule->hit;
	uint64_t nth;

	if (!rule->on || (h->ops != 0 && (h->ops & (1U << req->op)) == 0))
		return false;
	if (h->len_bytes != 0 && (req->off_bytes >= h->off_bytes + h->len_bytes ||
	                          h->off_bytes >= req->off_bytes + req->len_bytes))
		return false;
	nth = rule->seen++;
	return nth >= h->skip && nth - h->skip < (h->count == 0 ? 1 : h->count);
}

static int
fault_submit(struct weft_block_chan *c, struct weft_block_req *req)
{
	struct fault_disk *f = c->block->priv;
	struct fault_req *fr;

	if (fault_chance(f, f->cfg.busy_ppm))
		return -EAGAIN;
	fr = calloc(1, sizeof(*fr));
	if (fr == NULL)
		return -ENOMEM;
	f->requests++;
	fr->req = req;
	fr->entries = f->entries;
	fr->due_ns = req->since_ns + f->cfg.delay_min_ns +
	             fault_draw(f, f->cfg.delay_max_ns - f->cfg.delay_min_ns + 1);
	if (fault_strikes(&f->fail, req))
		fr->fail = f->fail.status;
	else if (fault_chance(f, f->cfg.error_ppm))
		fr->fail = -EIO;
	fr->stuck = fault_strikes(&f->stick, req);
	TAILQ_INSERT_TAIL(&f->reqs, fr, link);
	return 0;
}

/** The octets of a request's memory in one piece; the caller frees it. */
static uint8_t *
fault_gather(const struct weft_block_req *req)
{
	uint8_t *data = calloc(1, req->len_bytes), *at = data;

	for (uint32_t i = 0; data != NULL && req->op != WEFT_BLOCK_ZEROES && i < req->iovs;
	     at += req->iov[i++].iov_len)
		memcpy(at, req->iov[i].iov_base, req->iov[i].iov_len);
	return data;
}

static bool
fault_is_write(const struct weft_block_req *req)
{
	return req->op == WEFT_BLOCK_WRITE || req->op == WEFT_BLOCK_ZEROES;
}

static int
fault_do_read(struct fault_disk *f, const struct weft_block_req *req)
{
	uint8_t *data = malloc(req->len_bytes), *at = data;
	int r = -ENOMEM;

	if (data != NULL && (req->flags & WEFT_BLOCK_MEDIUM) != 0)
		r = fault_inner_io(f, WEFT_BLOCK_READ, req->off_bytes, data, req->len_bytes);
	else if (data != NULL)
		r = fault_cache_read(f, req->off_bytes, data, req->len_bytes);
	for (uint32_t i = 0; r == 0 && i < req->iovs; at += req->iov[i++].iov_len)
		memcpy(req->iov[i].iov_base, at, req->iov[i].iov_len);
	free(data);
	return r;
}

static int
fault_do_write(struct fault_disk *f, const struct weft_block_req *req)
{
	uint8_t *data = fault_gather(req);
	int r = data == NULL ? -ENOMEM : fault_cache_put(f, req->off_bytes, data, req->len_bytes);
	struct weft_block_req flush = {.op = WEFT_BLOCK_FLUSH};

	free(data);
	if (r == 0 && f->ghost != NULL) {
		r = fault_cache_put(f, f->ghost->off_bytes, f->ghost->data, f->ghost->len_bytes);
		free(f->ghost);
		f->ghost = NULL;
	}
	/* Of other writes only what lies under it: it is no flush. */
	if (r == 0 && (req->flags & WEFT_BLOCK_FUA) != 0) {
		r = fault_cache_leak(f, req->off_bytes, req->len_bytes);
		if (r == 0)
			r = fault_inner(f, &flush);
	}
	return r;
}

static int
fault_do_compare_write(struct fault_disk *f, const struct weft_block_req *req, uint64_t *differs)
{
	const uint8_t *expect = req->expect;
	uint8_t *is = malloc(req->len_bytes);
	int r = is == NULL ? -ENOMEM : fault_cache_read(f, req->off_bytes, is, req->len_bytes);

	for (*differs = 0; r == 0 && *differs < req->len_bytes; ++*differs) {
		if (is[*differs] != expect[*differs])
			r = -EILSEQ;
		if (r != 0)
			break;
	}
	free(is);
	return r != 0 ? r : fault_do_write(f, req);
}

/** Pass a request to the inner device: discards, extents and snapshots. */
static int
fault_do_inner(struct fault_disk *f, struct weft_block_req *req, uint64_t *done)
{
	struct weft_block_req in = {.op = req->op,
	                            .off_bytes = req->off_bytes,
	                            .len_bytes = req->len_bytes,
	                            .extents = req->extents,
	                            .max_extents = req->max_extents,
	                            .snap = req->snap};
	/* A snapshot has what the medium has: of the cache nothing but what was flushed. */
	int r = fault_cache_leak(f, req->off_bytes, req->len_bytes);

	if (r == 0)
		r = fault_inner(f, &in);
	req->extents_found = in.extents_found;
	*done = in.done_bytes;
	return r;
}

/** What a request does that is struck: a write lands in part, a flush loses what it was to save. */
static void
fault_do_fail(struct fault_disk *f, const struct weft_block_req *req)
{
	uint8_t *data;

	if (req->op == WEFT_BLOCK_FLUSH)
		fault_cache_cut(f);
	if (!fault_is_write(req))
		return;
	data = fault_gather(req);
	if (data != NULL)
		fault_cache_tear(f, req->off_bytes, data, req->len_bytes);
	free(data);
}

static int
fault_do(struct fault_disk *f, struct weft_block_req *req, uint64_t entries, uint64_t *done)
{
	switch (req->op) {
	case WEFT_BLOCK_READ:
		return fault_do_read(f, req);
	case WEFT_BLOCK_WRITE:
	case WEFT_BLOCK_ZEROES:
		return fault_do_write(f, req);
	case WEFT_BLOCK_FLUSH:
		return f->cfg.flush_lies ? 0 : fault_cache_drain(f, entries);
	case WEFT_BLOCK_COMPARE_WRITE:
		return fault_do_compare_write(f, req, done);
	default:
		return fault_do_inner(f, req, done);
	}
}

/** End a request that is due. */
static void
fault_run(struct fault_disk *f, struct fault_req *fr)
{
	struct weft_block_req *req = fr->req;
	const uint64_t entries = fr->entries;
	uint64_t done = 0;
	int r = fr->fail;

	TAILQ_REMOVE(&f->reqs, fr, link);
	free(fr);
	if (r != 0)
		fault_do_fail(f, req);
	else
		r = fault_do(f, req, entries, &done);
	weft_block_done(req, r, done);
}

/** A request of the channel that is due, drawn among all that are; NULL: none is. */
static struct fault_req *
fault_pick(struct fault_disk *f, const struct weft_block_chan *c, uint64_t now_ns)
{
	struct fault_req *fr, *pick = NULL;
	uint64_t n = 0;

	TAILQ_FOREACH (fr, &f->reqs, link) {
		if (fr->req->chan != c || fr->stuck || fr->due_ns > now_ns)
			continue;
		if (fault_draw(f, ++n) == 0)
			pick = fr;
	}
	return pick;
}

static void
fault_poll(struct weft_block_chan *c, uint64_t now_ns)
{
	struct fault_disk *f = c->block->priv;
	struct fault_req *fr, *next;

	if (f->off) {
		for (fr = TAILQ_FIRST(&f->reqs); fr != NULL; fr = next) {
			struct weft_block_req *req = fr->req;

			next = TAILQ_NEXT(fr, link);
			if (req->chan != c)
				continue;
			TAILQ_REMOVE(&f->reqs, fr, link);
			free(fr);
			weft_block_done(req, -ENODEV, 0);
		}
		return;
	}
	fault_cache_leak_some(f);
	while ((fr = fault_pick(f, c, now_ns)) != NULL)
		fault_run(f, fr);
}

static uint64_t
fault_next_ns(const struct weft_block_chan *c)
{
	const struct fault_disk *f = c->block->priv;
	const struct fault_req *fr;
	uint64_t next = UINT64_MAX;

	TAILQ_FOREACH (fr, &f->reqs, link) {
		if (fr->req->chan == c && !fr->stuck)
			next = RTE_MIN(next, fr->due_ns);
	}
	return next;
}

static void
fault_cancel(struct weft_block_chan *c, struct weft_block_req *req)
{
	struct fault_disk *f = c->block->priv;
	struct fault_req *fr;

	TAILQ_FOREACH (fr, &f->reqs, link) {
		if (fr->req == req)
			break;
	}
	if (fr == NULL || fr->stuck)
		return;
	if (f->cfg.ghosts && f->ghost == NULL && req->op == WEFT_BLOCK_WRITE &&
	    fault_do_write(f, req) == 0) {
		/* Out of the cache again, until the next write. */
		f->ghost = TAILQ_LAST(&f->cache, fault_entries);
		TAILQ_REMOVE(&f->cache, f->ghost, link);
	}
	TAILQ_REMOVE(&f->reqs, fr, link);
	free(fr);
	weft_block_done(req, -ECANCELED, 0);
}

/* ---- Open and close ---- */

static void
fault_close(struct weft_block *b)
{
	struct fault_disk *f = b->priv;

	fault_cache_drop(f);
	free(f->ghost);
	(void)weft_block_chan_close(f->chan);
	(void)weft_block_close(f->inner);
	free(f);
}

/** The options with the prefix "inner.", without it. */
static int
fault_inner_options(const struct weft_block_attr *attr, char *out, size_t out_bytes)
{
	size_t n = 0;

	out[0] = '\0';
	for (const char *at = attr->options; at != NULL && at[0] != '\0'; at += at[0] == ',') {
		size_t all = strcspn(at, ",");

		if (strncmp(at, "inner.", 6) == 0) {
			int r = snprintf(out + n, out_bytes - n, "%s%.*s", n > 0 ? "," : "",
			                 (int)all - 6, at + 6);

			if (r < 0 || (size_t)r >= out_bytes - n)
				return -ENAMETOOLONG;
			n += (size_t)r;
		}
		at += all;
	}
	return 0;
}

static int
fault_open(struct weft_block *b, const struct weft_block_attr *attr, uint64_t *bytes)
{
	const struct weft_block_chan_attr chan = {.size = sizeof(chan)};
	struct weft_block_attr inner = *attr;
	char driver[32], options[256], seed[24];
	struct weft_block_state state;
	struct fault_disk *f;
	int r = weft_block_option(attr, "inner", driver, sizeof(driver));

	if (r < 0)
		return weft_block_refuse(attr, -EINVAL, "fault: option inner is missing");
	inner.driver = driver;
	inner.options = options;
	r = fault_inner_options(attr, options, sizeof(options));
	if (r < 0)
		return r;
	f = calloc(1, sizeof(*f));
	if (f == NULL)
		return -ENOMEM;
	r = weft_block_open(&inner, &f->inner);
	if (r == 0)
		r = weft_block_chan_open(f->inner, &chan, &f->chan);
	if (r != 0) {
		(void)weft_block_close(f->inner);
		free(f);
		return r;
	}
	b->priv = f;
	TAILQ_INIT(&f->cache);
	TAILQ_INIT(&f->reqs);
	f->rand = 0x9e3779b97f4a7c15ULL;
	if (weft_block_option(attr, "seed", seed, sizeof(seed)) > 0)
		f->rand ^= strtoull(seed, NULL, 0) * 0xbf58476d1ce4e5b9ULL + 1;
	if (f->rand == 0)
		f->rand = 1;
	(void)fault_draw(f, 2);
	weft_block_query_state(f->inner, &state);
	*bytes = f->bytes = state.bytes;
	b->info = f->inner->info;
	f->block_bytes = b->info.block_bytes;
	b->info.can |= WEFT_BLOCK_CAN_FUA | WEFT_BLOCK_CAN_ZEROES | WEFT_BLOCK_CAN_MEDIUM;
	b->info.can &= ~(uint32_t)WEFT_BLOCK_CAN_UNALIGNED;
	b->info.max_bytes = FAULT_MAX_BYTES;
	b->info.max_zeroes_bytes = FAULT_MAX_BYTES;
	b->info.mem_align_bytes = 1;
	b->info.persistent = true;
	b->info.volatile_cache = true;
	snprintf(b->info.mechanism, sizeof(b->info.mechanism), "faults in front of %s", driver);
	return 0;
}

static void
fault_check(struct weft_block *b)
{
	struct fault_disk *f = b->priv;
	struct weft_block_state inner;
	int r = weft_block_check(f->inner);

	weft_block_query_state(f->inner, &inner);
	f->bytes = inner.bytes;
	weft_block_set_state(b, inner.bytes, f->off ? -ENODEV : r);
}

static const char *const fault_options[] = {"inner", "inner.", "seed", NULL};

static const struct weft_block_ops fault_ops = {
        .name = "fault",
        .options = fault_options,
        .open = fault_open,
        .close = fault_close,
        .check = fault_check,
        .submit = fault_submit,
        .poll = fault_poll,
        .cancel = fault_cancel,
        .next_ns = fault_next_ns,
};

WEFT_BLOCK_REGISTER(fault, fault_ops)

/* ---- For tests ---- */

static void
fault_set_rule(struct fault_rule *rule, const struct weft_block_fault_hit *hit, int status)
{
	*rule = (struct fault_rule){.on = hit != NULL, .status = status};
	if (hit != NULL)
		rule->hit = *hit;
}

void
weft_block_fault_set(struct weft_block *b, const struct weft_block_fault_cfg *cfg)
{
	((struct fault_disk *)b->priv)->cfg = *cfg;
}

void
weft_block_fault_fail(struct weft_block *b, const struct weft_block_fault_hit *hit, int status)
{
	fault_set_rule(&((struct fault_disk *)b->priv)->fail, hit, status);
}

void
weft_block_fault_stick(struct weft_block *b, const struct weft_block_fault_hit *hit)
{
	struct fault_disk *f = b->priv;
	struct fault_req *fr;

	fault_set_rule(&f->stick, hit, 0);
	TAILQ_FOREACH (fr, &f->reqs, link) {
		if (hit == NULL)
			fr->stuck = false;
	}
}

uint64_t
weft_block_fault_requests(const struct weft_block *b)
{
	return ((const struct fault_disk *)b->priv)->requests;
}

void
weft_block_fault_cut(struct weft_block *b)
{
	struct fault_disk *f = b->priv;
	struct fault_req *fr;

	/* What is under way may land as well, behind the cache. */
	TAILQ_FOREACH (fr, &f->reqs, link) {
		if (fault_is_write(fr->req)) {
			uint8_t *data = fault_gather(fr->req);

			if (data != NULL)
				(void)fault_cache_put(f, fr->req->off_bytes, data,
				                      fr->req->len_bytes);
			free(data);
		}
	}
	fault_cache_cut(f);
	f->off = true;
	weft_block_set_state(b, f->bytes, -ENODEV);
}

void
weft_block_fault_boot(struct weft_block *b)
{
	struct fault_disk *f = b->priv;

	f->off = false;
	weft_block_set_state(b, f->bytes, 0);
}
