/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file "mem": a block device of anonymous memory. It ends with its close. The shortest driver that
 * has every operation: each request is done inside submit().
 *
 * With a path, which names no file, it has snapshots and clones, for tests: copies that live in the
 * process under the names PATH.snap.NAME and PATH.clone.NAME, with which they are opened, until the
 * device is closed, or its last opener if that is later. A
 * snapshot is opened to be read only. A copy of a large device keeps its thread for long.
 */

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/queue.h>

#include "weft_base.h"
#include <weft/atomic_ref.h>
#include <weft/block.h>

#define MEM_MAX_BYTES                                                                              \
	(4U << 20) /**< one request: a fraction of a millisecond of the polling core */
#define MEM_PAGE 4096U

/** A snapshot or clone: memory with a name. */
struct mem_image {
	LIST_ENTRY(mem_image) link;
	char path[256];
	bool snapshot;
	bool ended; /**< its device is closed */
	unsigned int opens;
	uint8_t *base, *used;
	uint64_t bytes, blocks, created_ns;
	uint32_t block_bytes;
};
static LIST_HEAD(, mem_image) mem_images = LIST_HEAD_INITIALIZER(mem_images);
/** For the list. Held for the copy of an image, which only tests make. */
static pthread_mutex_t mem_images_lock = PTHREAD_MUTEX_INITIALIZER;

struct mem_disk {
	char path[128];          /**< "": none */
	struct mem_image *image; /**< whose memory it is; NULL: its own */
	uint8_t *base;
	uint64_t bytes;
	uint32_t block_bytes;
	/** an octet for each block: it was written, and not discarded or zeroed since */
	uint8_t *used;
	uint64_t blocks;
	/** One compare-and-write at a time. No thread holds it for longer than a copy. */
	pthread_mutex_t compare_lock;
};

static uint8_t *
mem_map(uint64_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
	               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

/** The image of a path; NULL: there is none. The lock is held. */
static struct mem_image *
mem_find(const char *path)
{
	struct mem_image *i;

	LIST_FOREACH (i, &mem_images, link) {
		if (strcmp(i->path, path) == 0)
			return i;
	}
	return NULL;
}

static void
mem_image_free(struct mem_image *i)
{
	if (i->base != NULL)
		munmap(i->base, i->bytes);
	if (i->used != NULL)
		munmap(i->used, i->blocks);
	free(i);
}

/** The device of this path is closed: its snapshots and clones end. The lock is held. */
static void
mem_end_images(const char *path)
{
	struct mem_image *i, *next;
	const size_t n = strlen(path);

	for (i = LIST_FIRST(&mem_images); i != NULL; i = next) {
		next = LIST_NEXT(i, link);
		if (strncmp(i->path, path, n) != 0 || (strncmp(i->path + n, ".snap.", 6) != 0 &&
		                                       strncmp(i->path + n, ".clone.", 7) != 0))
			continue;
		LIST_REMOVE(i, link);
		i->ended = true;
		if (i->opens == 0)
			mem_image_free(i);
	}
}

static void
mem_close(struct weft_block *b)
{
	struct mem_disk *m = b->priv;

	pthread_mutex_lock(&mem_images_lock);
	if (m->path[0] != '\0')
		mem_end_images(m->path);
	if (m->image != NULL && --m->image->opens == 0 && m->image->ended)
		mem_image_free(m->image);
	pthread_mutex_unlock(&mem_images_lock);
	if (m->image == NULL) {
		if (m->base != NULL)
			munmap(m->base, m->bytes);
		if (m->used != NULL)
			munmap(m->used, m->blocks);
	}
	pthread_mutex_destroy(&m->compare_lock);
	free(m);
}

/** The memory of a snapshot or clone, if the path names one. 1: it does not. */
static int
mem_open_image(struct mem_disk *m, const struct weft_block_attr *attr)
{
	struct mem_image *i;
	int r = 1;

	pthread_mutex_lock(&mem_images_lock);
	i = mem_find(m->path);
	if (i != NULL && i->snapshot && !attr->read_only)
		r = weft_block_refuse(attr, -EROFS, "%s: a snapshot is opened to be read only",
		                      m->path);
	else if (i != NULL && i->opens > 0 && !attr->read_only)
		r = -EBUSY;
	else if (i != NULL && attr->bytes != 0 && attr->bytes != i->bytes)
		r = weft_block_refuse(attr, -EINVAL, "%s: it has another length", m->path);
	else if (i != NULL)
		r = 0;
	if (r == 0) {
		i->opens++;
		m->image = i;
		m->base = i->base;
		m->used = i->used;
		m->bytes = i->bytes;
		m->blocks = i->blocks;
		m->block_bytes = i->block_bytes;
	}
	pthread_mutex_unlock(&mem_images_lock);
	return r;
}

static int
mem_block_bytes(const struct weft_block_attr *attr, uint32_t *block_bytes)
{
	char value[8];
	int r = weft_block_option(attr, "block", value, sizeof(value));

	*block_bytes = 512;
	if (r == -ENOENT || (r > 0 && strcmp(value, "512") == 0))
		return 0;
	*block_bytes = 4096;
	if (r > 0 && strcmp(value, "4096") == 0)
		return 0;
	return weft_block_refuse(attr, -EINVAL, "option block: 512 or 4096");
}

/** Memory of its own. */
static int
mem_open_new(struct mem_disk *m, const struct weft_block_attr *attr)
{
	int r = mem_block_bytes(attr, &m->block_bytes);

	if (r != 0)
		return r;
	if (attr->bytes == 0 || attr->bytes % m->block_bytes != 0)
		return weft_block_refuse(attr, -EINVAL,
		                         "mem: a length of %" PRIu64
		                         " octets is no multiple of %" PRIu32,
		                         attr->bytes, m->block_bytes);
	m->bytes = attr->bytes;
	m->blocks = m->bytes / m->block_bytes;
	m->base = mem_map(m->bytes);
	m->used = mem_map(m->blocks);
	if (m->base == NULL || m->used == NULL)
		return weft_block_refuse(attr, -ENOMEM, "mem: no memory");
	return 0;
}

static int
mem_open(struct weft_block *b, const struct weft_block_attr *attr, uint64_t *bytes)
{
	struct mem_disk *m;
	uint32_t block_bytes;
	int r = 1;

	if (attr->path != NULL && strlen(attr->path) >= sizeof(m->path))
		return -ENAMETOOLONG;
	m = calloc(1, sizeof(*m));
	if (m == NULL)
		return -ENOMEM;
	b->priv = m;
	pthread_mutex_init(&m->compare_lock, NULL);
	if (attr->path != NULL && attr->path[0] != '\0') {
		strcpy(m->path, attr->path);
		r = mem_open_image(m, attr);
	}
	if (r == 1)
		r = mem_open_new(m, attr);
	if (r != 0) {
		mem_close(b);
		return r;
	}
	*bytes = m->bytes;
	block_bytes = m->block_bytes;
	b->info = (struct weft_block_info){
	        .can = WEFT_BLOCK_CAN_WRITE | WEFT_BLOCK_CAN_FUA | WEFT_BLOCK_CAN_DISCARD |
	               WEFT_BLOCK_CAN_ZEROES | WEFT_BLOCK_CAN_EXTENTS |
	               WEFT_BLOCK_CAN_COMPARE_WRITE | WEFT_BLOCK_CAN_MEDIUM |
	               WEFT_BLOCK_CAN_UNALIGNED | WEFT_BLOCK_CAN_DISCARD_ZEROES,
	        .block_bytes = block_bytes,
	        .physical_bytes = block_bytes,
	        .optimal_bytes = MEM_PAGE,
	        .max_bytes = MEM_MAX_BYTES,
	        .max_iovs = 1024,
	        .mem_align_bytes = 1,
	        .atomic_bytes = 8,
	        .compare_write_bytes = MEM_PAGE,
	        .discard_bytes = block_bytes,
	        .max_discard_bytes = MEM_MAX_BYTES,
	        .max_zeroes_bytes = MEM_MAX_BYTES,
	        .fencing = WEFT_BLOCK_FENCING_NONE,
	        .numa_node = -1,
	        .no_snapshot = "memory has no snapshots that outlive it",
	        .mechanism = "none: volatile memory",
	};
	if (m->path[0] != '\0') {
		b->info.can |= WEFT_BLOCK_CAN_SNAPSHOT;
		b->info.no_snapshot = NULL;
	}
	return 0;
}

/** Note which blocks of a range are in use. Other channels do the same meanwhile. */
static void
mem_use(struct mem_disk *m, const struct weft_block_req *req, uint8_t used)
{
	for (uint64_t i = req->off_bytes / m->block_bytes;
	     i <= (req->off_bytes + req->len_bytes - 1) / m->block_bytes; i++)
		atomic_store_explicit(WEFT_ATOMIC_REF(m->used[i]), used, memory_order_relaxed);
}

static bool
mem_is_used(const struct mem_disk *m, uint64_t i)
{
	return atomic_load_explicit(WEFT_ATOMIC_REF(m->used[i]), memory_order_relaxed) != 0;
}

static void
mem_read(const struct mem_disk *m, const struct weft_block_req *req)
{
	const uint8_t *at = m->base + req->off_bytes;

	for (uint32_t i = 0; i < req->iovs; at += req->iov[i++].iov_len)
		memcpy(req->iov[i].iov_base, at, req->iov[i].iov_len);
}

static void
mem_write(struct mem_disk *m, const struct weft_block_req *req)
{
	uint8_t *at = m->base + req->off_bytes;

	mem_use(m, req, 1);
	for (uint32_t i = 0; i < req->iovs; at += req->iov[i++].iov_len)
		memcpy(at, req->iov[i].iov_base, req->iov[i].iov_len);
}

static void
mem_zero(struct mem_disk *m, const struct weft_block_req *req)
{
	/* Blocks that were never written need no memory to be zero. */
	for (uint64_t i = req->off_bytes / m->block_bytes;
	     i < (req->off_bytes + req->len_bytes) / m->block_bytes; i++) {
		if (mem_is_used(m, i))
			memset(m->base + i * m->block_bytes, 0, m->block_bytes);
	}
	mem_use(m, req, (req->flags & WEFT_BLOCK_KEEP) != 0);
}

/** Returns 0, or -EILSEQ with the offset of the first octet that differs. */
static int
mem_compare_write(struct mem_disk *m, const struct weft_block_req *req, uint64_t *differs)
{
	const uint8_t *is = m->base + req->off_bytes, *expect = req->expect;
	int r = 0;

	pthread_mutex_lock(&m->compare_lock);
	for (*differs = 0; *differs < req->len_bytes; ++*differs) {
		if (is[*differs] != expect[*differs]) {
			r = -EILSEQ;
			break;
		}
	}
	if (r == 0)
		mem_write(m, req);
	pthread_mutex_unlock(&m->compare_lock);
	return r;
}

static uint64_t
mem_extents(const struct mem_disk *m, struct weft_block_req *req)
{
	uint64_t i = req->off_bytes / m->block_bytes;
	const uint64_t end = (req->off_bytes + req->len_bytes) / m->block_bytes;

	while (i < end && req->extents_found < req->max_extents) {
		struct weft_block_extent *e = &req->extents[req->extents_found++];
		const bool used = mem_is_used(m, i);

		*e = (struct weft_block_extent){.off_bytes = i * m->block_bytes, .hole = !used};
		while (i < end && mem_is_used(m, i) == used)
			i++;
		e->len_bytes = i * m->block_bytes - e->off_bytes;
	}
	return i * m->block_bytes - req->off_bytes;
}

/* ---- Snapshots ---- */

/** The path of a snapshot or clone of the device. */
static void
mem_image_path(const struct mem_disk *m, const char *kind, const char *name, char path[256])
{
	snprintf(path, 256, "%s.%s.%s", m->path, kind, name);
}

/** How many images there are of this kind. The lock is held. */
static uint32_t
mem_image_count(const struct mem_disk *m, const char *kind)
{
	const struct mem_image *i;
	char prefix[256];
	uint32_t n = 0;

	mem_image_path(m, kind, "", prefix);
	LIST_FOREACH (i, &mem_images, link)
		n += strncmp(i->path, prefix, strlen(prefix)) == 0;
	return n;
}

/** Make the patches. -ESTALE. */
static int
mem_patch(struct mem_image *i, const struct weft_block_snap *s)
{
	for (uint32_t p = 0; p < s->patches; p++) {
		const struct weft_block_patch *at = &s->patch[p];
		uint8_t *to = i->base + at->off_bytes;

		if (at->off_bytes > i->bytes || i->bytes - at->off_bytes < MEM_PAGE)
			return -EINVAL;
		if (at->guard_bytes > 0 &&
		    memcmp(to + at->guard_off_bytes, at->guard, at->guard_bytes) != 0)
			return -ESTALE;
		memcpy(to, at->data, at->len_bytes);
	}
	return 0;
}

/** A copy with a name: `kind` "snap" or "clone". The lock is held. */
static int
mem_copy(const struct mem_disk *m, struct weft_block_snap *s, const char *kind, const uint8_t *base,
         const uint8_t *used)
{
	struct mem_image *i = calloc(1, sizeof(*i));
	int r = 0;

	if (i == NULL)
		return -ENOMEM;
	mem_image_path(m, kind, s->name, i->path);
	if (mem_find(i->path) != NULL)
		r = weft_block_snap_refuse(s, -EEXIST, "%s exists", i->path);
	else if (s->most != 0 && mem_image_count(m, kind) >= s->most)
		r = weft_block_snap_refuse(s, -EDQUOT, "there are %u already", s->most);
	if (r == 0) {
		i->created_ns = s->created_ns;
		i->snapshot = strcmp(kind, "snap") == 0;
		i->bytes = m->bytes;
		i->blocks = m->blocks;
		i->block_bytes = m->block_bytes;
		i->base = mem_map(i->bytes);
		i->used = mem_map(i->blocks);
		r = i->base == NULL || i->used == NULL ? -ENOMEM : 0;
	}
	if (r == 0) {
		/* Blocks that are not in use need no memory in the copy, either. */
		for (uint64_t k = 0; k < i->blocks; k++) {
			i->used[k] = used[k];
			if (used[k] != 0)
				memcpy(i->base + k * i->block_bytes, base + k * i->block_bytes,
				       i->block_bytes);
		}
		r = mem_patch(i, s);
	}
	if (r != 0) {
		mem_image_free(i);
		return r;
	}
	snprintf(s->place, sizeof(s->place), "%.127s", i->path);
	LIST_INSERT_HEAD(&mem_images, i, link);
	return 0;
}

static int
mem_clone(const struct mem_disk *m, struct weft_block_snap *s)
{
	const struct mem_image *from;
	char path[256];

	if (s->from == NULL)
		return mem_copy(m, s, "clone", m->base, m->used);
	mem_image_path(m, "snap", s->from, path);
	from = mem_find(path);
	if (from == NULL)
		return weft_block_snap_refuse(s, -ENOENT, "there is no snapshot %s", s->from);
	if (from->bytes != m->bytes || from->block_bytes != m->block_bytes)
		return weft_block_snap_refuse(s, -ESTALE, "the snapshot is of another device");
	return mem_copy(m, s, "clone", from->base, from->used);
}

static int
mem_unsnap(const struct mem_disk *m, struct weft_block_snap *s)
{
	struct mem_image *i;
	char path[256];

	mem_image_path(m, "snap", s->name, path);
	i = mem_find(path);
	if (i == NULL)
		return weft_block_snap_refuse(s, -ENOENT, "there is no snapshot %s", s->name);
	if (i->opens > 0)
		return weft_block_snap_refuse(s, -EBUSY, "snapshot %s is in use", s->name);
	LIST_REMOVE(i, link);
	mem_image_free(i);
	return 0;
}

static void
mem_list(const struct mem_disk *m, struct weft_block_snap *s)
{
	const struct mem_image *i;
	char prefix[256];

	mem_image_path(m, "snap", "", prefix);
	LIST_FOREACH (i, &mem_images, link) {
		struct weft_block_snapshot at = {.bytes = i->bytes, .created_ns = i->created_ns};

		if (strncmp(i->path, prefix, strlen(prefix)) != 0)
			continue;
		snprintf(at.name, sizeof(at.name), "%.63s", i->path + strlen(prefix));
		weft_block_snap_found(s, &at);
	}
}

static int
mem_snap(const struct mem_disk *m, struct weft_block_snap *s)
{
	int r = 0;

	pthread_mutex_lock(&mem_images_lock);
	switch (s->what) {
	case WEFT_BLOCK_SNAP_CREATE:
		r = mem_copy(m, s, "snap", m->base, m->used);
		break;
	case WEFT_BLOCK_SNAP_CLONE:
		r = mem_clone(m, s);
		break;
	case WEFT_BLOCK_SNAP_REMOVE:
		r = mem_unsnap(m, s);
		break;
	default:
		mem_list(m, s);
		break;
	}
	pthread_mutex_unlock(&mem_images_lock);
	return r;
}

static int
mem_submit(struct weft_block_chan *c, struct weft_block_req *req)
{
	struct mem_disk *m = c->block->priv;
	uint64_t done = 0;
	int r = 0;

	switch (req->op) {
	case WEFT_BLOCK_READ:
		mem_read(m, req);
		break;
	case WEFT_BLOCK_WRITE:
		mem_write(m, req);
		break;
	case WEFT_BLOCK_DISCARD:
	case WEFT_BLOCK_ZEROES:
		mem_zero(m, req);
		break;
	case WEFT_BLOCK_COMPARE_WRITE:
		r = mem_compare_write(m, req, &done);
		break;
	case WEFT_BLOCK_EXTENTS:
		done = mem_extents(m, req);
		break;
	case WEFT_BLOCK_SNAPSHOT:
		r = mem_snap(m, req->snap);
		break;
	default: /* a flush: nothing is cached */
		break;
	}
	weft_block_done(req, r, done);
	return 0;
}

static const char *const mem_options[] = {"block", NULL};

static const struct weft_block_ops mem_ops = {
        .name = "mem",
        .options = mem_options,
        .open = mem_open,
        .close = mem_close,
        .submit = mem_submit,
};

WEFT_BLOCK_REGISTER(mem, mem_ops)
