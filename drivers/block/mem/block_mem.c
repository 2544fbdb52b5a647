/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file "mem": a block device of anonymous memory. It ends with its close. The shortest driver that
 * has every operation: each request is done inside submit().
 */

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "weft_base.h"
#include <weft/atomic_ref.h>
#include <weft/block.h>

#define MEM_MAX_BYTES                                                                              \
	(4U << 20) /**< one request: a fraction of a millisecond of the polling core */
#define MEM_PAGE 4096U

struct mem_disk {
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

static void
mem_close(struct weft_block *b)
{
	struct mem_disk *m = b->priv;

	if (m->base != NULL)
		munmap(m->base, m->bytes);
	if (m->used != NULL)
		munmap(m->used, m->blocks);
	pthread_mutex_destroy(&m->compare_lock);
	free(m);
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

static int
mem_open(struct weft_block *b, const struct weft_block_attr *attr, uint64_t *bytes)
{
	struct mem_disk *m;
	uint32_t block_bytes;
	int r = mem_block_bytes(attr, &block_bytes);

	if (r != 0)
		return r;
	if (attr->bytes == 0 || attr->bytes % block_bytes != 0)
		return weft_block_refuse(attr, -EINVAL,
		                         "mem: a length of %" PRIu64
		                         " octets is no multiple of %" PRIu32,
		                         attr->bytes, block_bytes);
	m = calloc(1, sizeof(*m));
	if (m == NULL)
		return -ENOMEM;
	b->priv = m;
	pthread_mutex_init(&m->compare_lock, NULL);
	*bytes = m->bytes = attr->bytes;
	m->block_bytes = block_bytes;
	m->blocks = m->bytes / block_bytes;
	m->base = mem_map(m->bytes);
	m->used = mem_map(m->blocks);
	if (m->base == NULL || m->used == NULL) {
		mem_close(b);
		return weft_block_refuse(attr, -ENOMEM, "mem: no memory");
	}
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
	        .mechanism = "none: volatile memory",
	};
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
