/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Connects to the cluster, opens the image, and finds out what it is. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/block.h>

#include "ceph.h"

#define CEPH_TIMEOUT     "30"
#define CEPH_MAX_OPTIONS 1024
#define CEPH_SECTOR      512U
#define CEPH_SMALLEST    65536U /**< what librbd discards at least, if nothing else is set */

/** Settings of this client. A key that this version of Ceph does not have does not matter, but for
 * those that keep a promise. */
static int
ceph_settings(const struct ceph_args *a, struct rbd_hello *h)
{
	const char *timeout = a->timeout != NULL ? a->timeout : CEPH_TIMEOUT;
	const struct {
		const char *key, *value;
		bool needed;
	} set[] = {
	        {"rbd_cache", "false", true},
	        {"rbd_disable_zero_copy_writes", "false", false}, /* slots stay until the end */
	        {"rbd_blocklist_on_break_lock", "true", true},
	        {"rados_osd_op_timeout", timeout, true},
	        {"rados_mon_op_timeout", timeout, true},
	        {"client_mount_timeout", timeout, true},
	        {"ms_async_op_threads", "1", false},
	};

	for (unsigned int i = 0; i < sizeof(set) / sizeof(set[0]); i++) {
		int r = rados_conf_set(ceph.cluster, set[i].key, set[i].value);

		if (r < 0 && set[i].needed)
			return ceph_refuse(h, -ENOTSUP, "this version of Ceph has no setting %s",
			                   set[i].key);
	}
	if (a->keyring != NULL && rados_conf_set(ceph.cluster, "keyring", a->keyring) < 0)
		return ceph_refuse(h, -EINVAL, "keyring %s is not accepted", a->keyring);
	return 0;
}

int
ceph_connect(const struct ceph_args *a, struct rbd_hello *h)
{
	char *address = NULL;
	int r = rados_create(&ceph.cluster, a->id);

	if (r < 0)
		return ceph_refuse(h, r, "librados cannot be used: %s", strerror(-r));
	r = rados_conf_read_file(ceph.cluster, a->conf);
	if (r < 0) {
		rados_shutdown(ceph.cluster);
		return ceph_refuse(h, r, "the configuration %s cannot be read: %s",
		                   a->conf != NULL ? a->conf : "/etc/ceph/ceph.conf", strerror(-r));
	}
	r = ceph_settings(a, h);
	if (r == 0) {
		r = rados_connect(ceph.cluster);
		if (r < 0)
			(void)ceph_refuse(h, r, "no connection to the cluster as client.%s: %s",
			                  a->id != NULL ? a->id : "admin", strerror(-r));
	}
	if (r == 0) {
		r = rados_getaddrs(ceph.cluster, &address);
		if (r < 0)
			(void)ceph_refuse(h, r, "the cluster does not tell this client's address");
	}
	if (r < 0) {
		rados_shutdown(ceph.cluster);
		return r;
	}
	snprintf(h->address, sizeof(h->address), "%s", address);
	free(address);
	ceph.connected = true;
	return 0;
}

/** Cut "pool/namespace/image" into its parts. */
static void
ceph_parts(char *name, char **pool, char **space, char **image)
{
	char *slash = strchr(name, '/');

	*pool = name;
	*space = NULL;
	*slash = '\0';
	*image = slash + 1;
	slash = strchr(*image, '/');
	if (slash != NULL) {
		*slash = '\0';
		*space = *image;
		*image = slash + 1;
	}
}

static int
ceph_open_image(const struct ceph_args *a, struct rbd_hello *h)
{
	char name[RBD_TEXT_BYTES], *pool, *space, *image, *snap;
	int r;

	snprintf(name, sizeof(name), "%s", a->image);
	ceph_parts(name, &pool, &space, &image);
	snap = strchr(image, '@');
	if (snap != NULL)
		*snap++ = '\0';
	snprintf(ceph.name, sizeof(ceph.name), "%s", image);
	snprintf(ceph.pool, sizeof(ceph.pool), "%s/%s%s", pool, space != NULL ? space : "",
	         space != NULL ? "/" : "");
	ceph.is_snapshot = snap != NULL;
	r = rados_ioctx_create(ceph.cluster, pool, &ceph.io);
	if (r < 0)
		return ceph_refuse(h, r, "pool %s: %s", pool, strerror(-r));
	ceph.has_io = true;
	if (space != NULL)
		rados_ioctx_set_namespace(ceph.io, space);
	r = a->read_only ? rbd_open_read_only(ceph.io, image, &ceph.image, snap)
	                 : rbd_open(ceph.io, image, &ceph.image, NULL);
	if (r == -ENOENT && snap != NULL)
		return ceph_refuse(h, r, "%s: no such image or snapshot", a->image);
	if (r == -ENOENT)
		return ceph_refuse(h, r, "%s: no such image (rbd create --size SIZE %s makes one)",
		                   a->image, a->image);
	if (r < 0)
		return ceph_refuse(h, r, "%s: %s", a->image, strerror(-r));
	ceph.open = true;
	return 0;
}

/** One setting as it is for this image, which may have its own. */
static int
ceph_setting(const struct ceph_args *a, struct rbd_hello *h, const rbd_config_option_t *o)
{
	static const char *const at[] = {
	        [RBD_CONFIG_SOURCE_CONFIG] = "configuration",
	        [RBD_CONFIG_SOURCE_POOL] = "pool",
	        [RBD_CONFIG_SOURCE_IMAGE] = "image",
	};
	bool cache = strcmp(o->name, "rbd_cache") == 0 && strcmp(o->value, "true") == 0;
	bool disk = strcmp(o->name, "rbd_persistent_cache_mode") == 0 &&
	            strcmp(o->value, "disabled") != 0 && o->value[0] != '\0';

	if ((cache || disk) && !a->read_only)
		return ceph_refuse(
		        h, -ENOTSUP,
		        "%s: its %s has %s = %s, so its writes are not durable when they "
		        "are done (rbd config %s rm ...)",
		        a->image, at[o->source], o->name, o->value,
		        o->source == RBD_CONFIG_SOURCE_POOL ? "pool" : "image");
	if (strcmp(o->name, "rbd_discard_granularity_bytes") == 0)
		ceph.discard_bytes = strtoull(o->value, NULL, 10);
	return 0;
}

static int
ceph_effective(const struct ceph_args *a, struct rbd_hello *h)
{
	rbd_config_option_t *o = calloc(CEPH_MAX_OPTIONS, sizeof(*o));
	int n = CEPH_MAX_OPTIONS, r;

	if (o == NULL)
		return ceph_refuse(h, -ENOMEM, "no memory");
	r = rbd_config_image_list(ceph.image, o, &n);
	if (r < 0) {
		free(o);
		return ceph_refuse(h, r, "%s: its settings cannot be read: %s", a->image,
		                   strerror(-r));
	}
	for (int i = 0; i < n && r == 0; i++)
		r = ceph_setting(a, h, &o[i]);
	rbd_config_image_list_cleanup(o, n);
	free(o);
	return r;
}

/** The largest power of 2 that divides v, up to 1 GiB. */
static uint32_t
ceph_pow2(uint64_t v)
{
	uint64_t p = v & (~v + 1);

	return (uint32_t)(p == 0 || p > 1U << 30 ? 1U << 30 : p);
}

static int
ceph_info(const struct ceph_args *a, struct rbd_hello *h)
{
	uint64_t unit = 0, count = 1, features = 0;
	rbd_image_info_t info;
	int r = rbd_stat(ceph.image, &info, sizeof(info));

	if (r == 0)
		r = rbd_get_features(ceph.image, &features);
	if (r == 0)
		r = rbd_get_stripe_unit(ceph.image, &unit);
	if (r == 0)
		r = rbd_get_stripe_count(ceph.image, &count);
	if (r < 0)
		return ceph_refuse(h, r, "%s: %s", a->image, strerror(-r));
	if (!a->read_only && (features & RBD_FEATURE_EXCLUSIVE_LOCK) == 0)
		return ceph_refuse(h, -ENOTSUP,
		                   "%s: it has no exclusive lock (rbd feature enable %s "
		                   "exclusive-lock)",
		                   a->image, a->image);
	ceph.object_bytes = info.obj_size;
	if (unit == 0)
		unit = info.obj_size;
	ceph.unit_bytes = unit;
	h->bytes = info.size;
	h->can = WEFT_BLOCK_CAN_FUA | WEFT_BLOCK_CAN_DISCARD | WEFT_BLOCK_CAN_ZEROES |
	         WEFT_BLOCK_CAN_COMPARE_WRITE | WEFT_BLOCK_CAN_UNALIGNED |
	         WEFT_BLOCK_CAN_DISCARD_ZEROES | WEFT_BLOCK_CAN_EXTENTS;
	if (!a->read_only)
		h->can |= WEFT_BLOCK_CAN_WRITE;
	if (!ceph.is_snapshot)
		h->can |= WEFT_BLOCK_CAN_SNAPSHOT;
	/* Of a striped image a piece is cut into smaller ones, which librbd may leave. */
	if (count > 1)
		h->can &= ~(uint32_t)WEFT_BLOCK_CAN_DISCARD_ZEROES;
	h->atomic_bytes = ceph_pow2(unit);
	/* librbd 1.16 compares inside one sector. */
	h->compare_write_bytes = h->cut_bytes = CEPH_SECTOR;
	/* librbd takes the whole object for the least, if that is smaller. */
	if (ceph.discard_bytes == 0)
		ceph.discard_bytes = CEPH_SMALLEST;
	if (ceph.discard_bytes > ceph.object_bytes)
		ceph.discard_bytes = ceph.object_bytes;
	h->discard_bytes = (uint32_t)ceph.discard_bytes;
	snprintf(h->mechanism, sizeof(h->mechanism),
	         "a Ceph image of objects of %u KiB, served by weft-rbd without a cache",
	         (unsigned int)(info.obj_size >> 10));
	return 0;
}

int
ceph_open(const struct ceph_args *a, struct rbd_hello *h)
{
	int r = ceph_connect(a, h);

	if (r == 0)
		r = ceph_open_image(a, h);
	if (r == 0)
		r = ceph_effective(a, h);
	if (r == 0)
		r = ceph_info(a, h);
	if (r == 0 && !a->read_only)
		r = ceph_lock(a, h);
	ceph.read_only = a->read_only;
	return r;
}

void
ceph_close(void)
{
	if (ceph.locked)
		(void)rbd_lock_release(ceph.image);
	/* With an image that is open rados_shutdown() aborts. */
	if (ceph.open)
		(void)rbd_close(ceph.image);
	if (ceph.has_io)
		rados_ioctx_destroy(ceph.io);
	if (ceph.connected)
		rados_shutdown(ceph.cluster);
	ceph = (struct ceph){.open = false};
}
