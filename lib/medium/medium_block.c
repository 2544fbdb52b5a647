/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Block devices: the registry of their drivers, options, open and close, the state, and the
 * fence.
 *
 * The state's members are atomic, because each request reads them. They change under the device's
 * lock, and each change is counted. A channel that sees another count takes a snapshot under the
 * lock and tells its owner. So what several changes have in common is never seen by halves.
 */

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "medium_block_priv.h"
#include <weft/ulp.h>

#define BLOCK_MAX_DRIVERS 32

static const struct weft_block_ops *block_driver[BLOCK_MAX_DRIVERS];
static _Atomic unsigned int block_ndrivers;
static pthread_mutex_t block_driver_lock = PTHREAD_MUTEX_INITIALIZER;

static_assert(offsetof(struct block_dev, pub) == 0 && offsetof(struct weft_block, handle) == 0 &&
                      sizeof(((struct weft_block *)0)->handle) == sizeof(struct weft_handle),
              "a device begins with its handle");

/* ---- Registry ---- */

int
weft_block_register(const struct weft_block_ops *ops)
{
	unsigned int n;
	int r = 0;

	if (ops == NULL || ops->name == NULL || ops->name[0] == '\0' || ops->open == NULL ||
	    ops->close == NULL || ops->submit == NULL)
		return -EINVAL;
	pthread_mutex_lock(&block_driver_lock);
	n = atomic_load_explicit(&block_ndrivers, memory_order_relaxed);
	if (weft_block_find(ops->name) != NULL)
		r = -EEXIST;
	else if (n == BLOCK_MAX_DRIVERS)
		r = -ENOSPC;
	if (r == 0) {
		block_driver[n] = ops;
		/* A reader that sees the new number sees the new driver. */
		atomic_store_explicit(&block_ndrivers, n + 1, memory_order_release);
	}
	pthread_mutex_unlock(&block_driver_lock);
	return r;
}

void
weft_block_register_or_die(const struct weft_block_ops *ops)
{
	int r = weft_block_register(ops);

	if (r == 0)
		return;
	fprintf(stderr, "weft: block driver \"%s\" cannot be registered: %s\n",
	        ops == NULL || ops->name == NULL ? "(no name)" : ops->name, strerror(-r));
	abort();
}

const struct weft_block_ops *
weft_block_get(unsigned int i)
{
	return i < atomic_load_explicit(&block_ndrivers, memory_order_acquire) ? block_driver[i]
	                                                                       : NULL;
}

const struct weft_block_ops *
weft_block_find(const char *name)
{
	const struct weft_block_ops *ops;

	for (unsigned int i = 0; name != NULL && (ops = weft_block_get(i)) != NULL; i++) {
		if (strcmp(ops->name, name) == 0)
			return ops;
	}
	return NULL;
}

/* ---- Options ---- */

int
weft_block_refuse(const struct weft_block_attr *attr, int status, const char *fmt, ...)
{
	va_list ap;

	if (attr == NULL || attr->reason == NULL || attr->reason_bytes == 0 || fmt == NULL)
		return status;
	va_start(ap, fmt);
	vsnprintf(attr->reason, attr->reason_bytes, fmt, ap);
	va_end(ap);
	return status;
}

int
weft_block_option(const struct weft_block_attr *attr, const char *key, char *value,
                  size_t value_bytes)
{
	const char *at;
	size_t n;

	if (attr == NULL || key == NULL || key[0] == '\0' || value == NULL)
		return -EINVAL;
	n = strlen(key);
	for (at = attr->options; at != NULL && at[0] != '\0'; at += at[0] == ',') {
		size_t all = strcspn(at, ",");

		if (all > n && strncmp(at, key, n) == 0 && at[n] == '=') {
			if (all - n - 1 >= value_bytes)
				return -ENAMETOOLONG;
			memcpy(value, at + n + 1, all - n - 1);
			value[all - n - 1] = '\0';
			return (int)(all - n - 1);
		}
		at += all;
	}
	return -ENOENT;
}

/** Whether the driver has the key of n octets. */
static bool
block_has_option(const struct weft_block_ops *ops, const char *key, size_t n)
{
	for (const char *const *o = ops->options; o != NULL && *o != NULL; o++) {
		size_t len = strlen(*o);

		if (strncmp(*o, key, len) == 0 && ((*o)[len - 1] == '.' ? n > len : n == len))
			return true;
	}
	return false;
}

/** Each option is "key=value", of a key that the driver has, once. */
static int
block_check_options(const struct weft_block_ops *ops, const struct weft_block_attr *attr)
{
	const char *at, *other;

	for (at = attr->options; at != NULL && at[0] != '\0'; at += at[0] == ',') {
		size_t all = strcspn(at, ","), n = strcspn(at, "=,");

		if (n == 0 || n == all)
			return weft_block_refuse(attr, -EINVAL,
			                         "option \"%.*s\" of driver %s is not KEY=VALUE",
			                         (int)all, at, ops->name);
		if (!block_has_option(ops, at, n))
			return weft_block_refuse(attr, -EINVAL, "driver %s has no option \"%.*s\"",
			                         ops->name, (int)n, at);
		for (other = attr->options; other < at; other += strcspn(other, ",") + 1) {
			if (strcspn(other, "=,") == n && strncmp(other, at, n) == 0)
				return weft_block_refuse(attr, -EINVAL,
				                         "option \"%.*s\" is given twice", (int)n,
				                         at);
		}
		at += all;
	}
	return 0;
}

/* ---- State ---- */

uint32_t
medium_block_state(struct block_dev *d, struct weft_block_state *state)
{
	uint32_t changes;

	pthread_mutex_lock(&d->lock);
	*state = (struct weft_block_state){
	        .bytes = atomic_load_explicit(&d->bytes, memory_order_relaxed),
	        .status = atomic_load_explicit(&d->status, memory_order_relaxed),
	        .lost_flushes = atomic_load_explicit(&d->lost_flushes, memory_order_relaxed),
	        .lost_status = atomic_load_explicit(&d->lost_status, memory_order_relaxed),
	        .fenced = atomic_load_explicit(&d->fenced, memory_order_relaxed),
	};
	changes = atomic_load_explicit(&d->changes, memory_order_relaxed);
	pthread_mutex_unlock(&d->lock);
	return changes;
}

/** Under the lock: a member of the state has changed. */
static void
block_changed(struct block_dev *d)
{
	atomic_fetch_add_explicit(&d->changes, 1, memory_order_release);
}

void
medium_block_flush_lost(struct block_dev *d, int status)
{
	if (weft_block_class_of(status) != WEFT_BLOCK_SPACE)
		status = -EIO;
	pthread_mutex_lock(&d->lock);
	atomic_store_explicit(&d->lost_status, status, memory_order_relaxed);
	atomic_fetch_add_explicit(&d->lost_flushes, 1, memory_order_release);
	block_changed(d);
	pthread_mutex_unlock(&d->lock);
}

bool
medium_block_flushes_ended(struct block_dev *d, uint64_t upto)
{
	bool ended = true;

	pthread_mutex_lock(&d->lock);
	for (const struct block_chan *c = d->chans; c != NULL && ended; c = c->next_chan) {
		uint64_t flush = atomic_load_explicit(&c->flush, memory_order_acquire);

		ended = flush == 0 || flush > upto;
	}
	pthread_mutex_unlock(&d->lock);
	return ended;
}

void
weft_block_set_state(struct weft_block *b, uint64_t bytes, int status)
{
	struct block_dev *d = block_dev_of(b);

	/* A driver may call this during its open, before the handle is valid. */
	if (b == NULL || status > 0)
		return;
	pthread_mutex_lock(&d->lock);
	if (atomic_load_explicit(&d->bytes, memory_order_relaxed) != bytes ||
	    atomic_load_explicit(&d->status, memory_order_relaxed) != status) {
		atomic_store_explicit(&d->bytes, bytes, memory_order_relaxed);
		atomic_store_explicit(&d->status, status, memory_order_relaxed);
		block_changed(d);
	}
	pthread_mutex_unlock(&d->lock);
}

void
weft_block_query(const struct weft_block *b, struct weft_block_info *info)
{
	if (info == NULL)
		return;
	memset(info, 0, sizeof(*info));
	if (!WEFT_HANDLE_BAD(b, BLOCK))
		*info = b->info;
}

void
weft_block_query_state(const struct weft_block *b, struct weft_block_state *state)
{
	if (state == NULL)
		return;
	memset(state, 0, sizeof(*state));
	if (!WEFT_HANDLE_BAD(b, BLOCK))
		(void)medium_block_state(block_dev_of(b), state);
}

int
weft_block_check(struct weft_block *b)
{
	if (WEFT_HANDLE_BAD(b, BLOCK))
		return -EINVAL;
	if (b->ops->check != NULL)
		b->ops->check(b);
	return atomic_load_explicit(&block_dev_of(b)->status, memory_order_relaxed);
}

/* ---- Open and close ---- */

static bool
block_is_pow2(uint64_t v)
{
	return v != 0 && (v & (v - 1)) == 0;
}

/** A driver that contradicts itself would do harm later. */
static int
block_check_info(const struct weft_block_attr *attr, const struct weft_block_info *i,
                 uint64_t bytes)
{
	if (!block_is_pow2(i->block_bytes) || !block_is_pow2(i->physical_bytes) ||
	    !block_is_pow2(i->mem_align_bytes) || !block_is_pow2(i->atomic_bytes) ||
	    i->physical_bytes < i->block_bytes || i->optimal_bytes < i->physical_bytes ||
	    i->max_bytes < i->block_bytes || i->max_bytes % i->block_bytes != 0 || i->max_iovs == 0)
		return weft_block_refuse(attr, -EIO, "driver %s contradicts itself", attr->driver);
	if (bytes == 0 || bytes % i->block_bytes != 0)
		return weft_block_refuse(attr, -EINVAL,
		                         "%s: a length of %" PRIu64
		                         " octets is no multiple of the logical block, %u",
		                         attr->path == NULL ? attr->driver : attr->path, bytes,
		                         i->block_bytes);
	return 0;
}

static int
block_open_by(const struct weft_block_ops *ops, const struct weft_block_attr *attr,
              struct weft_block **out)
{
	const char *name = attr->path == NULL ? ops->name : attr->path;
	struct block_dev *d = calloc(1, sizeof(*d));
	uint64_t bytes = 0;
	int r;

	if (d == NULL)
		return weft_block_refuse(attr, -ENOMEM, "%s: no memory", name);
	pthread_mutex_init(&d->lock, NULL);
	d->pub.ops = ops;
	d->pub.info.numa_node = -1;
	d->max_chans = attr->channels == 0 ? BLOCK_DFLT_CHANNELS : attr->channels;
	if (ops->max_channels != 0)
		d->max_chans = RTE_MIN(d->max_chans, ops->max_channels);
	r = ops->open(&d->pub, attr, &bytes);
	if (r == 0) {
		r = block_check_info(attr, &d->pub.info, bytes);
		if (r != 0)
			ops->close(&d->pub);
	}
	if (r != 0) {
		if (attr->reason != NULL && attr->reason_bytes > 0 && attr->reason[0] == '\0')
			(void)weft_block_refuse(attr, r, "%s: %s", name, strerror(-r));
		pthread_mutex_destroy(&d->lock);
		free(d);
		return r;
	}
	d->pub.info.driver = ops->name;
	if (attr->read_only)
		d->pub.info.can &= ~(uint32_t)WEFT_BLOCK_CAN_WRITE;
	atomic_store_explicit(&d->bytes, bytes, memory_order_relaxed);
	weft_handle_init(WEFT_HANDLE_OF(d), WEFT_KIND(BLOCK));
	WEFT_LOG(medium, INFO, "block device %s: %" PRIu64 " bytes in blocks of %u, %s", name,
	         bytes, d->pub.info.block_bytes, d->pub.info.mechanism);
	*out = &d->pub;
	return 0;
}

int
weft_block_open(const struct weft_block_attr *attr, struct weft_block **out)
{
	const struct weft_block_ops *ops;
	struct weft_block_attr a;
	int r = weft_attr_copy(&a, sizeof(a), attr);

	if (r < 0 || out == NULL)
		return -EINVAL;
	if (a.reason != NULL && a.reason_bytes > 0)
		a.reason[0] = '\0';
	if (a.driver == NULL)
		return weft_block_refuse(&a, -EINVAL, "no driver is named");
	ops = weft_block_find(a.driver);
	if (ops == NULL)
		return weft_block_refuse(&a, -ENODEV, "there is no block driver \"%s\"", a.driver);
	r = block_check_options(ops, &a);
	return r != 0 ? r : block_open_by(ops, &a, out);
}

int
weft_block_close(struct weft_block *b)
{
	struct block_dev *d = block_dev_of(b);

	if (b == NULL)
		return 0;
	if (WEFT_HANDLE_CLAIM(b, BLOCK) < 0)
		return -EINVAL;
	pthread_mutex_lock(&d->lock);
	if (d->nchans > 0) {
		pthread_mutex_unlock(&d->lock);
		weft_handle_unclaim(WEFT_HANDLE_OF(b), WEFT_KIND(BLOCK));
		return -EBUSY;
	}
	pthread_mutex_unlock(&d->lock);
	b->ops->close(b);
	weft_handle_end(WEFT_HANDLE_OF(b), WEFT_KIND(BLOCK));
	pthread_mutex_destroy(&d->lock);
	weft_handle_free(WEFT_HANDLE_OF(b), sizeof(struct weft_handle));
	return 0;
}

int
weft_block_mem_add(struct weft_block *b, void *base, uint64_t bytes)
{
	struct block_dev *d = block_dev_of(b);
	int r = 0;

	if (WEFT_HANDLE_BAD(b, BLOCK) || base == NULL || bytes == 0)
		return -EINVAL;
	pthread_mutex_lock(&d->lock);
	if (d->nchans > 0)
		r = -EBUSY;
	else if (d->nmem == BLOCK_MAX_MEM)
		r = -ENOSPC;
	else if (b->ops->mem_add != NULL)
		r = b->ops->mem_add(b, base, bytes);
	if (r == 0)
		d->nmem++;
	pthread_mutex_unlock(&d->lock);
	return r;
}

/* ---- Fence ---- */

/** Whether no channel gives the driver anything any more, and the driver has nothing. */
static bool
block_is_drained(const struct block_dev *d)
{
	for (const struct block_chan *c = d->chans; c != NULL; c = c->next_chan) {
		if (!atomic_load_explicit(&c->fenced, memory_order_acquire) ||
		    atomic_load_explicit(&c->under_way, memory_order_acquire) != 0)
			return false;
	}
	return true;
}

int
weft_block_fence(struct weft_block *b)
{
	struct block_dev *d = block_dev_of(b);
	bool quiet, drained;
	int r = 0;

	if (WEFT_HANDLE_BAD(b, BLOCK))
		return -EINVAL;
	pthread_mutex_lock(&d->lock);
	if (!atomic_load_explicit(&d->fenced, memory_order_relaxed)) {
		atomic_store_explicit(&d->fenced, true, memory_order_release);
		block_changed(d);
	}
	drained = block_is_drained(d);
	quiet = d->quiet;
	pthread_mutex_unlock(&d->lock);
	if (quiet)
		return 0;
	if (!drained)
		return -EINPROGRESS;
	/* No channel is opened or used for requests any more, so this may take its time. */
	if (b->ops->fence != NULL)
		r = b->ops->fence(b);
	if (r == 0) {
		pthread_mutex_lock(&d->lock);
		d->quiet = true;
		pthread_mutex_unlock(&d->lock);
	}
	return r;
}

/* ---- Errors and counters ---- */

enum weft_block_class
weft_block_class_of(int status)
{
	switch (status) {
	case 0:
		return WEFT_BLOCK_OK;
	case -EILSEQ:
		return WEFT_BLOCK_MISMATCH;
	case -ECANCELED:
	case -ETIMEDOUT:
		return WEFT_BLOCK_GIVEN_UP;
	case -ENOSPC:
	case -EDQUOT:
		return WEFT_BLOCK_SPACE;
	case -ENODEV:
		return WEFT_BLOCK_OFFLINE;
	case -ESHUTDOWN:
		return WEFT_BLOCK_FENCED;
	case -EOPNOTSUPP:
		return WEFT_BLOCK_CALLER;
	default:
		return WEFT_BLOCK_MEDIUM_FAILED;
	}
}

static uint64_t
block_read(const _Atomic uint64_t *counter)
{
	return atomic_load_explicit(counter, memory_order_relaxed);
}

static void
block_sum(struct weft_block_stats *s, const struct block_counters *c)
{
	for (unsigned int i = 0; i < WEFT_BLOCK_OPS; i++) {
		s->requests[i] += block_read(&c->requests[i]);
		s->errors[i] += block_read(&c->errors[i]);
		s->octets[i] += block_read(&c->octets[i]);
	}
	s->late += block_read(&c->late);
	s->merged += block_read(&c->merged);
	s->max_ns = RTE_MAX(s->max_ns, block_read(&c->max_ns));
}

void
weft_block_query_stats(const struct weft_block *b, struct weft_block_stats *stats)
{
	struct block_dev *d = block_dev_of(b);

	if (stats == NULL)
		return;
	memset(stats, 0, sizeof(*stats));
	if (WEFT_HANDLE_BAD(b, BLOCK))
		return;
	stats->oldest_ns = UINT64_MAX;
	pthread_mutex_lock(&d->lock);
	block_sum(stats, &d->closed);
	for (const struct block_chan *c = d->chans; c != NULL; c = c->next_chan) {
		block_sum(stats, &c->count);
		stats->channels++;
		stats->waiting += atomic_load_explicit(&c->waiting, memory_order_relaxed);
		stats->under_way += atomic_load_explicit(&c->under_way, memory_order_relaxed);
		stats->oldest_ns = RTE_MIN(stats->oldest_ns, block_read(&c->oldest_ns));
	}
	stats->events = atomic_load_explicit(&d->changes, memory_order_relaxed);
	pthread_mutex_unlock(&d->lock);
}
