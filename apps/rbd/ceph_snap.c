/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Snapshots and clones of the image, by librbd's calls, which block: a thread makes them.
 *
 * A clone is of format 2: its snapshot needs no protection, and may be removed while the clone is
 * there (the cluster keeps it, hidden). A clone of the present state has a snapshot of its own,
 * which is removed at once. The clone is made under a name that no list shows, gets its patches,
 * and is then renamed, so it is there as a whole or not at all.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <weft/block.h>

#include "ceph.h"
#include "weft_snap_name.h"

#define SNAP_MAX        4096 /**< of an image */
#define SNAP_NAME_BYTES (2 * RBD_TEXT_BYTES)
#define SNAP_MAX_IMAGES 16384 /**< of a pool, that are looked at */

static int __attribute__((format(printf, 3, 4)))
snap_refuse(struct rbd_snap *s, int status, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(s->reason, sizeof(s->reason), fmt, ap);
	va_end(ap);
	return status;
}

/* ---- Lists ---- */

static int
snap_order(const void *a, const void *b)
{
	return strcmp(((const struct rbd_snapshot *)a)->name,
	              ((const struct rbd_snapshot *)b)->name);
}

/** All snapshots of the image in the order of their names: how many, or -errno. The caller frees
 * them. */
static int
snap_all(struct rbd_snapshot **out)
{
	int max = SNAP_MAX, n, count = 0;
	rbd_snap_info_t *list = calloc((size_t)max, sizeof(*list));
	struct rbd_snapshot *all = calloc((size_t)max, sizeof(*all));

	*out = all;
	n = list == NULL || all == NULL ? -ENOMEM : rbd_snap_list(ceph.image, list, &max);
	for (int i = 0; i < n; i++) {
		rbd_snap_namespace_type_t type = RBD_SNAP_NAMESPACE_TYPE_USER;
		struct timespec ts = {.tv_sec = 0};

		(void)rbd_snap_get_namespace_type(ceph.image, list[i].id, &type);
		/* Names that are none of weft's are not listed, and do not count. */
		if (type != RBD_SNAP_NAMESPACE_TYPE_USER ||
		    !weft_snap_name_is_ok(list[i].name, RBD_SNAP_NAME_BYTES))
			continue;
		(void)rbd_snap_get_timestamp(ceph.image, list[i].id, &ts);
		snprintf(all[count].name, sizeof(all[count].name), "%.63s", list[i].name);
		all[count].bytes = list[i].size;
		all[count].created_ns = (uint64_t)ts.tv_sec * 1000000000ULL + (uint64_t)ts.tv_nsec;
		count++;
	}
	if (n >= 0)
		rbd_snap_list_end(list);
	free(list);
	if (n < 0) {
		free(all);
		*out = NULL;
		return n;
	}
	qsort(all, (size_t)count, sizeof(*all), snap_order);
	return count;
}

static int
snap_list(struct rbd_snap *s, const char *after, uint32_t max, struct rbd_snapshot *to)
{
	struct rbd_snapshot *all;
	int n = snap_all(&all);

	if (n < 0)
		return n;
	s->found = s->more = 0;
	for (int i = 0; i < n; i++) {
		if (after[0] != '\0' && strcmp(all[i].name, after) <= 0)
			continue;
		if (s->found == max) {
			s->more = 1;
			break;
		}
		to[s->found++] = all[i];
	}
	free(all);
	return 0;
}

/** Refuse one more snapshot if there are so many. */
static int
snap_count(struct rbd_snap *s, uint32_t most)
{
	struct rbd_snapshot *all;
	int n = most == 0 ? 0 : snap_all(&all);

	if (most == 0 || n < 0)
		return n;
	free(all);
	return (uint32_t)n < most
	               ? 0
	               : snap_refuse(s, -EDQUOT, "there are %d already, of at most %u", n, most);
}

/** Tell the name of what was made, in the pool of the image; nothing, if it is too long. */
static void
snap_place(struct rbd_snap *s, const char *image, const char *at, const char *snapshot)
{
	const int n = snprintf(s->place, sizeof(s->place), "%s%s%s", image, at, snapshot);

	if (n < 0 || (size_t)n >= sizeof(s->place))
		s->place[0] = '\0';
}

/** Refuse one more clone if there are so many, or one of that name. */
static int
clone_count(struct rbd_snap *s, const char *name, uint32_t most)
{
	char prefix[SNAP_NAME_BYTES];
	size_t max = SNAP_MAX_IMAGES;
	rbd_image_spec_t *list = calloc(max, sizeof(*list));
	int r = list == NULL ? -ENOMEM : rbd_list2(ceph.io, list, &max), status = 0;
	uint32_t count = 0;

	/* -ERANGE: too many images to look at. The rename finds the name all the same. */
	snprintf(prefix, sizeof(prefix), "%s.clone.", ceph.name);
	for (size_t i = 0; r >= 0 && i < max; i++) {
		count += strncmp(list[i].name, prefix, strlen(prefix)) == 0;
		if (strcmp(list[i].name, name) == 0)
			status = snap_refuse(s, -EEXIST, "image %s exists", name);
	}
	if (r >= 0)
		rbd_image_spec_list_cleanup(list, max);
	free(list);
	if (r == -ERANGE && most != 0)
		return snap_refuse(s, -EDQUOT,
		                   "the pool has more than %d images, too many to count clones",
		                   SNAP_MAX_IMAGES);
	if (status != 0 || (r < 0 && r != -ERANGE))
		return status != 0 ? status : r;
	return most == 0 || count < most
	               ? 0
	               : snap_refuse(s, -EDQUOT, "there are %u already, of at most %u", count,
	                             most);
}

/* ---- Clones ---- */

/** Make the patches in an image. */
static int
clone_patch(struct rbd_snap *s, const char *name, const struct rbd_snap *args,
            const struct rbd_snap_data *data)
{
	uint8_t is[RBD_SNAP_PATCH];
	rbd_image_t image;
	int r = args->patches == 0 ? 0 : rbd_open(ceph.io, name, &image, NULL);

	if (r < 0 || args->patches == 0)
		return r;
	for (uint32_t i = 0; i < args->patches && r == 0; i++) {
		const uint64_t off = args->patch[i].off_bytes;
		const size_t len = args->patch[i].len_bytes, guard = args->patch[i].guard_bytes;
		ssize_t n = guard == 0 ? 0
		                       : rbd_read(image, off + args->patch[i].guard_off_bytes,
		                                  guard, (char *)is);

		if (n < 0)
			r = (int)n;
		else if (guard > 0 &&
		         ((size_t)n != guard || memcmp(is, data->guard[i], guard) != 0))
			r = snap_refuse(
			        s, -ESTALE,
			        "the snapshot is of another volume, or of another length of it");
		if (r == 0)
			n = rbd_write(image, off, len, (const char *)data->data[i]);
		if (r == 0 && n != (ssize_t)len)
			r = n < 0 ? (int)n : -EIO;
	}
	if (r == 0)
		r = rbd_flush(image);
	(void)rbd_close(image);
	return r;
}

/** Clone a snapshot to an image of another name, and give it its name. */
static int
clone_make(struct rbd_snap *s, const char *snapshot, const char *name, const struct rbd_snap *args,
           const struct rbd_snap_data *data)
{
	char hidden[SNAP_NAME_BYTES];
	rbd_image_options_t opts;
	int r;

	snprintf(hidden, sizeof(hidden), ".weft.%s", name);
	/* of a process that has ended in here */
	(void)rbd_remove(ceph.io, hidden);
	rbd_image_options_create(&opts);
	r = rbd_image_options_set_uint64(opts, RBD_IMAGE_OPTION_CLONE_FORMAT, 2);
	if (r == 0)
		r = rbd_clone3(ceph.io, ceph.name, snapshot, ceph.io, hidden, opts);
	rbd_image_options_destroy(opts);
	if (r == -ENOENT)
		return snap_refuse(s, r, "there is no snapshot %s", snapshot);
	if (r == -EINVAL)
		return snap_refuse(s, -EOPNOTSUPP,
		                   "the cluster has no clones of format 2 (ceph osd "
		                   "set-require-min-compat-client mimic)");
	if (r < 0)
		return r;
	r = clone_patch(s, hidden, args, data);
	if (r == 0) {
		r = rbd_rename(ceph.io, hidden, name);
		if (r == -EEXIST)
			(void)snap_refuse(s, r, "image %s exists", name);
	}
	if (r < 0)
		(void)rbd_remove(ceph.io, hidden);
	return r;
}

static int
clone_do(struct rbd_snap *s, const struct rbd_snap *args, const struct rbd_snap_data *data)
{
	char name[SNAP_NAME_BYTES], own[RBD_SNAP_NAME_BYTES + 16];
	int r;

	snprintf(name, sizeof(name), "%s.clone.%s", ceph.name, args->name);
	r = clone_count(s, name, args->most);
	if (r < 0)
		return r;
	if (args->from[0] != '\0') {
		r = clone_make(s, args->from, name, args, data);
	} else {
		snprintf(own, sizeof(own), ".weft-clone.%s", args->name);
		(void)rbd_snap_remove(ceph.image, own);
		r = rbd_snap_create(ceph.image, own);
		if (r == 0)
			r = clone_make(s, own, name, args, data);
		(void)rbd_snap_remove(ceph.image, own);
	}
	if (r == 0)
		snap_place(s, name, "", "");
	return r;
}

/* ---- Requests ---- */

static int
snap_create(struct rbd_snap *s, const struct rbd_snap *args)
{
	int r = snap_count(s, args->most);

	if (r == 0)
		r = rbd_snap_create(ceph.image, args->name);
	if (r == -EEXIST)
		return snap_refuse(s, r, "snapshot %s exists", args->name);
	if (r == 0)
		snap_place(s, ceph.name, "@", args->name);
	return r;
}

static int
snap_remove(struct rbd_snap *s, const struct rbd_snap *args)
{
	int r = rbd_snap_remove(ceph.image, args->name);

	if (r == -ENOENT)
		return snap_refuse(s, r, "there is no snapshot %s", args->name);
	if (r == -EBUSY)
		return snap_refuse(s, r, "snapshot %s is protected, or has clones of format 1",
		                   args->name);
	return r;
}

static int64_t
snap_run(struct serve_req *r)
{
	static struct rbd_snap_data data; /* one thread */
	struct rbd_snap args, *s = r->snap;
	int e = -EINVAL;

	/* A copy, which the driver cannot change any more. */
	args = *s;
	args.name[sizeof(args.name) - 1] = args.from[sizeof(args.from) - 1] = '\0';
	s->found = s->more = 0;
	s->place[0] = s->reason[0] = '\0';
	if (args.patches > RBD_SNAP_PATCHES)
		return -EINVAL;
	for (uint32_t i = 0; i < args.patches; i++)
		if (args.patch[i].len_bytes > RBD_SNAP_PATCH ||
		    args.patch[i].guard_bytes > RBD_SNAP_PATCH)
			return -EINVAL;
	if (args.what != WEFT_BLOCK_SNAP_LIST)
		memcpy(&data, r->snap_data, sizeof(data));
	switch (args.what) {
	case WEFT_BLOCK_SNAP_CREATE:
		e = snap_create(s, &args);
		break;
	case WEFT_BLOCK_SNAP_REMOVE:
		e = snap_remove(s, &args);
		break;
	case WEFT_BLOCK_SNAP_CLONE:
		e = clone_do(s, &args, &data);
		break;
	case WEFT_BLOCK_SNAP_LIST:
		e = snap_list(s, args.name,
		              args.max_list < RBD_MAX_SNAPSHOTS ? args.max_list : RBD_MAX_SNAPSHOTS,
		              r->snap_data);
		break;
	default:
		break;
	}
	return e > 0 ? 0 : e;
}

struct ceph_task ceph_snaps = {.run = snap_run};
