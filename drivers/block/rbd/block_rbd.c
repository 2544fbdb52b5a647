/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file "rbd": an image of a Ceph cluster. A process of its own, weft-rbd, has librbd, its threads
 * and its assertions; this driver talks to it through shared memory, and needs no part of Ceph.
 */

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "rbd_priv.h"

#define RBD_BLOCK       512U
#define RBD_PHYSICAL    4096U
#define RBD_OPTIMAL     65536U
#define RBD_LONG_BYTES  (256U << 20) /**< longest discard: 64 objects of the usual size */
#define RBD_MAX_TIMEOUT 3600

/** "pool/image" or "pool/namespace/image", or "...@snapshot". */
static int
rbd_check_path(const struct weft_block_attr *attr)
{
	const char *p = attr->path, *at;
	unsigned int parts = 1;

	if (p == NULL || p[0] == '\0')
		return weft_block_refuse(attr, -EINVAL, "rbd: no path: POOL/IMAGE is wanted");
	at = strchr(p, '@');
	if (at != NULL && (at == p || at[-1] == '/' || !weft_block_snap_name_ok(at + 1)))
		return weft_block_refuse(attr, -EINVAL, "%s: POOL/IMAGE@SNAPSHOT is wanted", p);
	if (at != NULL && !attr->read_only)
		return weft_block_refuse(attr, -EROFS, "%s: a snapshot is opened to be read only",
		                         p);
	for (const char *c = p; *c != '\0'; c++)
		parts += *c == '/';
	if (parts < 2 || parts > 3 || p[0] == '/' || p[strlen(p) - 1] == '/' ||
	    strstr(p, "//") != NULL || strlen(p) >= RBD_ARG_BYTES)
		return weft_block_refuse(attr, -EINVAL,
		                         "%s: POOL/IMAGE or POOL/NAMESPACE/IMAGE is wanted", p);
	return 0;
}

/** An option that is copied; it is empty if it is not given. */
static int
rbd_text(const struct weft_block_attr *attr, const char *key, char *value, size_t value_bytes)
{
	int r = weft_block_option(attr, key, value, value_bytes);

	if (r == -ENOENT)
		value[0] = '\0';
	if (r < 0 && r != -ENOENT)
		return weft_block_refuse(attr, -EINVAL, "option %s is too long", key);
	return r == 0 ? weft_block_refuse(attr, -EINVAL, "option %s is empty", key) : 0;
}

static int
rbd_options_of(struct rbd_disk *d, const struct weft_block_attr *attr, bool *take_over)
{
	char value[8];
	char *end;
	int r = rbd_text(attr, "conf", d->conf, sizeof(d->conf));

	if (r == 0)
		r = rbd_text(attr, "id", d->id, sizeof(d->id));
	if (r == 0)
		r = rbd_text(attr, "keyring", d->keyring, sizeof(d->keyring));
	if (r == 0)
		r = rbd_text(attr, "timeout", d->timeout, sizeof(d->timeout));
	if (r != 0)
		return r;
	d->timeout_s = RBD_DEFAULT_TIMEOUT;
	if (d->timeout[0] != '\0') {
		unsigned long n = strtoul(d->timeout, &end, 10);

		if (*end != '\0' || d->timeout[0] < '0' || d->timeout[0] > '9' || n == 0 ||
		    n > RBD_MAX_TIMEOUT)
			return weft_block_refuse(attr, -EINVAL, "option timeout: 1 to %d seconds",
			                         RBD_MAX_TIMEOUT);
		d->timeout_s = (unsigned int)n;
	}
	r = weft_block_option(attr, "takeover", value, sizeof(value));
	*take_over = r > 0 && strcmp(value, "yes") == 0;
	if (r != -ENOENT && !*take_over && (r < 0 || strcmp(value, "no") != 0))
		return weft_block_refuse(attr, -EINVAL, "option takeover: yes or no");
	return 0;
}

/** Whether what the process says of the image can be right. */
static int
rbd_check_hello(const struct rbd_disk *d, const struct weft_block_attr *attr, uint64_t *bytes)
{
	const struct rbd_hello *h = &d->hello;
	uint64_t have = h->bytes & ~(uint64_t)(RBD_BLOCK - 1);

	if (h->address[0] == '\0' || h->atomic_bytes == 0 || h->discard_bytes == 0 ||
	    h->compare_write_bytes > RBD_SLOT_BYTES ||
	    (h->cut_bytes != 0 && h->cut_bytes < h->compare_write_bytes))
		return weft_block_refuse(attr, -EIO, "%s contradicts itself", d->program);
	if (have == 0)
		return weft_block_refuse(attr, -EINVAL, "%s: it is empty", attr->path);
	if (attr->bytes > have)
		return weft_block_refuse(attr, -EINVAL, "%s: shorter than asked for", attr->path);
	*bytes = attr->bytes != 0 ? attr->bytes : have;
	return 0;
}

static void
rbd_info(const struct rbd_disk *d, struct weft_block *b)
{
	const struct rbd_hello *h = &d->hello;

	b->info = (struct weft_block_info){
	        .can = h->can &
	               (WEFT_BLOCK_CAN_WRITE | WEFT_BLOCK_CAN_FUA | WEFT_BLOCK_CAN_DISCARD |
	                WEFT_BLOCK_CAN_ZEROES | WEFT_BLOCK_CAN_EXTENTS |
	                WEFT_BLOCK_CAN_COMPARE_WRITE | WEFT_BLOCK_CAN_UNALIGNED |
	                WEFT_BLOCK_CAN_DISCARD_ZEROES | WEFT_BLOCK_CAN_SNAPSHOT),
	        .block_bytes = RBD_BLOCK,
	        .physical_bytes = RBD_PHYSICAL,
	        .optimal_bytes = RBD_OPTIMAL,
	        .max_bytes = RBD_MAX_BYTES,
	        .max_iovs = 256,
	        .mem_align_bytes = 1,
	        .atomic_bytes = RTE_MIN(h->atomic_bytes, RBD_MAX_BYTES),
	        .compare_write_bytes = h->compare_write_bytes,
	        .discard_bytes = h->discard_bytes,
	        .max_discard_bytes = RBD_LONG_BYTES,
	        .max_zeroes_bytes = RBD_LONG_BYTES,
	        .persistent = true,
	        .volatile_cache = false,
	        .fencing = WEFT_BLOCK_FENCING_BACKEND,
	        .numa_node = -1,
	        .no_snapshot = "a snapshot of an image has no snapshots",
	};
	snprintf(b->info.mechanism, sizeof(b->info.mechanism), "%.90s", h->mechanism);
}

static void
rbd_disk_free(struct rbd_disk *d)
{
	pthread_mutex_destroy(&d->call_lock);
	pthread_mutex_destroy(&d->chan_lock);
	free(d);
}

static void
rbd_close(struct weft_block *b)
{
	struct rbd_disk *d = b->priv;

	rbd_unwatch(d);
	rbd_stop(d);
	rbd_disk_free(d);
}

static int
rbd_open(struct weft_block *b, const struct weft_block_attr *attr, uint64_t *bytes)
{
	struct rbd_disk *d;
	bool take_over = false;
	int r = rbd_check_path(attr);

	if (r != 0)
		return r;
	d = calloc(1, sizeof(*d));
	if (d == NULL)
		return -ENOMEM;
	d->block = b;
	snprintf(d->path, sizeof(d->path), "%s", attr->path);
	d->proc.pidfd = d->call_fd = d->event_fd = d->wake_fd = -1;
	pthread_mutex_init(&d->call_lock, NULL);
	pthread_mutex_init(&d->chan_lock, NULL);
	b->priv = d;
	r = rbd_options_of(d, attr, &take_over);
	if (r == 0)
		r = rbd_find_program(d, attr);
	if (r == 0)
		r = rbd_start(d, attr, take_over);
	if (r != 0) {
		rbd_disk_free(d);
		return r;
	}
	r = rbd_check_hello(d, attr, bytes);
	d->most_bytes = attr->bytes != 0 ? attr->bytes : UINT64_MAX;
	if (r == 0)
		r = rbd_watch(d);
	if (r != 0) {
		rbd_close(b);
		return r;
	}
	rbd_info(d, b);
	return 0;
}

static const char *const rbd_options[] = {"conf", "id", "keyring", "takeover", "timeout", NULL};

static const struct weft_block_ops rbd_ops = {
        .name = "rbd",
        .options = rbd_options,
        .max_channels = RBD_MAX_CHANS,
        .open = rbd_open,
        .close = rbd_close,
        .chan_open = rbd_chan_open,
        .chan_close = rbd_chan_close,
        .submit = rbd_submit,
        .poll = rbd_poll,
        .cancel = rbd_cancel,
        .fd = rbd_fd,
        .next_ns = rbd_next_ns,
};

WEFT_BLOCK_REGISTER(rbd, rbd_ops)
