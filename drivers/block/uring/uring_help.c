/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file What helper threads do: flushes, discards, zeroes, extents, snapshots (uring_snap.c), the
 * rest of reads and writes that the kernel has done in part, and all of them where there is no
 * io_uring.
 *
 * A file that was cut, removed or replaced while it is open accepts everything, and a sync of it
 * succeeds. So each flush, and each write that is to be durable when it is done, looks at the file
 * afterwards, and fails if it is not the one that was opened.
 */

#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "uring_priv.h"

#define URING_ZERO_BYTES (64U << 10)

static uint8_t uring_zeros[URING_ZERO_BYTES] __attribute__((aligned(4096)));

static struct uring_chan *
uring_chan_of(const struct weft_block_req *req)
{
	return req->chan->priv;
}

/** One system call of the rest of a read or write. Returns octets or -errno. */
static ssize_t
uring_rw_once(int fd, const struct weft_block_req *req, uint64_t done)
{
	struct iovec iov[URING_MAX_IOVS];
	uint64_t skip = done;
	int n = 0, flags = (req->flags & WEFT_BLOCK_FUA) != 0 ? RWF_DSYNC : 0;
	ssize_t r;

	for (uint32_t i = 0; i < req->iovs; i++) {
		uint64_t off = RTE_MIN(skip, req->iov[i].iov_len);

		skip -= off;
		if (off < req->iov[i].iov_len)
			iov[n++] = (struct iovec){(uint8_t *)req->iov[i].iov_base + off,
			                          req->iov[i].iov_len - off};
	}
	if (req->op == WEFT_BLOCK_READ)
		r = preadv(fd, iov, n, (off_t)(req->off_bytes + done));
	else
		r = pwritev2(fd, iov, n, (off_t)(req->off_bytes + done), flags);
	return r < 0 ? -errno : r;
}

/** The rest of a read or write. A short transfer goes on at the last whole block. */
static int
uring_rw(struct uring_disk *d, struct weft_block_req *req, uint64_t *done)
{
	while (*done < req->len_bytes) {
		ssize_t n = uring_rw_once(d->md.fd, req, *done);
		uint64_t before = *done;

		if (n == -EINTR || n == -EAGAIN)
			continue;
		if (n < 0)
			return (int)n;
		*done += (uint64_t)n;
		if (*done < req->len_bytes)
			*done &= ~(uint64_t)(d->block_bytes - 1);
		if (*done <= before) { /* the medium ends here: it was cut */
			(void)uring_look(req->chan->block);
			return -EIO;
		}
	}
	return 0;
}

static int
uring_sync(const struct uring_disk *d)
{
	return fdatasync(d->md.fd) == 0 ? 0 : -errno;
}

static int
uring_fallocate(const struct uring_disk *d, int mode, uint64_t off_bytes, uint64_t len_bytes)
{
	int r;

	do
		r = fallocate(d->md.fd, mode | FALLOC_FL_KEEP_SIZE, (off_t)off_bytes,
		              (off_t)len_bytes);
	while (r != 0 && errno == EINTR);
	return r == 0 ? 0 : -errno;
}

/** Where the file system or the device has no call for it. */
static int
uring_write_zeros(const struct uring_disk *d, uint64_t off_bytes, uint64_t len_bytes)
{
	int r = 0;

	while (r == 0 && len_bytes > 0) {
		uint64_t n = RTE_MIN(len_bytes, (uint64_t)URING_ZERO_BYTES);

		r = weft_medium_pwrite(d->md.fd, uring_zeros, n, off_bytes);
		off_bytes += n;
		len_bytes -= n;
	}
	return r;
}

static int
uring_zero(const struct uring_disk *d, const struct weft_block_req *req)
{
	bool keep = (req->flags & WEFT_BLOCK_KEEP) != 0;
	/* Of a block device ZERO_RANGE keeps the space, and PUNCH_HOLE gives it back, as of a file.
	 */
	int r = uring_fallocate(d, keep ? FALLOC_FL_ZERO_RANGE : FALLOC_FL_PUNCH_HOLE,
	                        req->off_bytes, req->len_bytes);

	if (r == -EOPNOTSUPP && !keep)
		r = uring_fallocate(d, FALLOC_FL_ZERO_RANGE, req->off_bytes, req->len_bytes);
	if (r == -EOPNOTSUPP)
		r = uring_write_zeros(d, req->off_bytes, req->len_bytes);
	if (r == 0 && (req->flags & WEFT_BLOCK_FUA) != 0)
		r = uring_sync(d);
	return r;
}

/** Of whole pieces only: a part of one would be written as zeros through the page cache. */
static int
uring_discard(const struct uring_disk *d, const struct weft_block_req *req)
{
	const uint64_t piece = d->piece_bytes;
	uint64_t range[2] = {RTE_ALIGN_CEIL(req->off_bytes, piece)};
	uint64_t end = RTE_ALIGN_FLOOR(req->off_bytes + req->len_bytes, piece);
	int r;

	if (end <= range[0])
		return 0;
	range[1] = end - range[0];
	r = uring_fallocate(d, FALLOC_FL_PUNCH_HOLE, range[0], range[1]);
	if (r == -EOPNOTSUPP && d->md.block_dev)
		r = ioctl(d->md.fd, BLKDISCARD, range) == 0 ? 0 : -errno;
	/* Of a block device it may be without effect. Of a file it is promised to read as zeros. */
	return r == -EOPNOTSUPP && d->md.block_dev ? 0 : r;
}

/** Data and holes of a file. */
static int
uring_extents(const struct uring_disk *d, struct weft_block_req *req, uint64_t *done)
{
	const uint64_t end = req->off_bytes + req->len_bytes;
	uint64_t at = req->off_bytes;

	while (at < end && req->extents_found < req->max_extents) {
		struct weft_block_extent *e = &req->extents[req->extents_found];
		off_t data = lseek(d->md.fd, (off_t)at, SEEK_DATA);
		off_t to;

		if (data < 0 && errno != ENXIO)
			return -errno;
		/* ENXIO: a hole up to the end of the file. */
		e->hole = data < 0 || (uint64_t)data > at;
		to = data < 0 ? (off_t)end : e->hole ? data : lseek(d->md.fd, (off_t)at, SEEK_HOLE);
		if (to < 0)
			return -errno;
		/* The file system's blocks may be smaller than ours: a hole is one of whole blocks.
		 */
		to = e->hole ? RTE_ALIGN_FLOOR(to, (off_t)d->block_bytes)
		             : RTE_ALIGN_CEIL(to, (off_t)d->block_bytes);
		if ((uint64_t)to <= at) {
			e->hole = false;
			to = (off_t)(at + d->block_bytes);
		}
		e->off_bytes = at;
		e->len_bytes = RTE_MIN((uint64_t)to, end) - at;
		at += e->len_bytes;
		req->extents_found++;
	}
	*done = at - req->off_bytes;
	return 0;
}

static void
uring_help_run(struct weft_job *j)
{
	struct uring_req *ur = (struct uring_req *)j;
	struct weft_block_req *req = (void *)((uint8_t *)ur - offsetof(struct weft_block_req, drv));
	struct uring_disk *d = uring_chan_of(req)->disk;
	bool durable = req->op == WEFT_BLOCK_FLUSH || (req->flags & WEFT_BLOCK_FUA) != 0;

	ur->status = 0;
	switch (req->op) {
	case WEFT_BLOCK_READ:
	case WEFT_BLOCK_WRITE:
		ur->status = uring_rw(d, req, &ur->done_bytes);
		break;
	case WEFT_BLOCK_FLUSH:
		ur->status = uring_sync(d);
		break;
	case WEFT_BLOCK_DISCARD:
		ur->status = uring_discard(d, req);
		break;
	case WEFT_BLOCK_ZEROES:
		ur->status = uring_zero(d, req);
		break;
	case WEFT_BLOCK_EXTENTS:
		ur->status = uring_extents(d, req, &ur->done_bytes);
		break;
	case WEFT_BLOCK_SNAPSHOT:
		ur->status = uring_look(req->chan->block);
		if (ur->status == 0)
			ur->status = uring_snap(d, req->snap);
		break;
	default:
		ur->status = -EOPNOTSUPP;
		break;
	}
	if (ur->status == 0 && durable)
		ur->status = uring_look(req->chan->block);
}

static void
uring_help_done(struct weft_job *j)
{
	struct uring_req *ur = (struct uring_req *)j;
	struct weft_block_req *req = (void *)((uint8_t *)ur - offsetof(struct weft_block_req, drv));

	weft_block_done(req, ur->status, ur->done_bytes);
}

int
uring_help(struct uring_chan *c, struct weft_block_req *req)
{
	struct uring_req *ur = uring_req_of(req);

	ur->job.run = uring_help_run;
	ur->job.done = uring_help_done;
	return weft_exec_submit(c->exec, &ur->job);
}
