/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file "file": an ordinary file or block device behind populated anonymous memory.
 *
 * The open reads the content in. A Flush for persistence writes the dirty pages of its range on a
 * helper thread and makes them durable (file_flush.c). Data that was not flushed ends with the
 * process. A read-back reads the medium, past the page cache where the file system allows that.
 */

#include <stdio.h>
#include <stdlib.h>

#include "file_priv.h"

/* ---- Read-back ---- */

static void
file_read_done(struct weft_job *j)
{
	struct weft_persist_req *req = ((struct file_req *)j)->req;

	req->done(req);
}

static void
file_read_run(struct weft_job *j)
{
	struct file_req *fr = (struct file_req *)j;
	struct file_priv *f = fr->p->priv;
	struct weft_persist_req *req = fr->req;
	/* Between the drop of the page cache and the read, no Flush or read-back may fill the
	 * cache again. */
	const bool cached = f->md.direct_fd < 0;

	if (cached)
		weft_line_lock(&f->flush_lock);
	req->status = weft_bounce_read(&f->bounce, fr->buf, &f->md, req->off_bytes, req->len_bytes,
	                               &req->data);
	if (cached)
		weft_line_unlock(&f->flush_lock);
	/* A range that was cut off and extended again is zeros, which may even be the expected
	 * data. */
	if (req->status == 0)
		req->status = weft_medium_check(&f->md, req->off_bytes + req->len_bytes);
	if (req->status != 0)
		req->data = NULL;
}

static void
file_release(struct weft_persist *p, struct weft_persist_req *req)
{
	struct file_priv *f = p->priv;
	struct file_req *fr = file_req_of(req);

	if (fr->buf >= 0)
		weft_bounce_put(&f->bounce, fr->buf);
	fr->buf = -1;
	req->data = NULL;
}

static int
file_read_back(struct weft_persist *p, struct weft_exec *exec, struct weft_persist_req *req)
{
	struct file_priv *f = p->priv;
	struct file_req *fr = file_req_of(req);
	int r;

	fr->buf = -1;
	req->data = NULL;
	if (!file_inside(p, req) || req->len_bytes > WEFT_BOUNCE_MAX_BYTES || exec == NULL)
		return -EINVAL;
	fr->job.run = file_read_run;
	fr->job.done = file_read_done;
	fr->p = p;
	fr->req = req;
	r = weft_bounce_get(&f->bounce);
	if (r < 0)
		return r;
	fr->buf = r;
	r = weft_exec_submit(exec, &fr->job);
	if (r != 0)
		file_release(p, req);
	return r;
}

/* ---- Open and close ---- */

static void
file_free(struct weft_persist *p)
{
	struct file_priv *f = p->priv;

	file_io_close(f->io);
	file_seal_close(f);
	weft_numa_free(p->base, p->bytes);
	free(p->dirty);
	weft_bounce_fini(&f->bounce);
	weft_medium_close(&f->md);
	weft_line_lock_fini(&f->flush_lock);
	free(f);
}

/** Read the content in, past the page cache where possible, which would only hold a second copy. */
static int
file_load(const struct weft_persist *p)
{
	const struct file_priv *f = p->priv;
	uint64_t whole = f->md.direct_fd < 0 ? 0 : p->bytes & ~(uint64_t)(WEFT_MEDIUM_PAGE - 1);
	int r = weft_medium_pread(f->md.direct_fd, p->base, whole, 0);

	return r != 0 ? r : weft_medium_pread(f->md.fd, p->base + whole, p->bytes - whole, whole);
}

static int
file_open(struct weft_persist *p, const struct weft_persist_attr *attr)
{
	struct file_priv *f = calloc(1, sizeof(*f));
	int r;

	if (f == NULL)
		return -ENOMEM;
	weft_line_lock_init(&f->flush_lock);
	p->priv = f;
	r = weft_medium_open(attr, &f->md);
	if (r == 0 && f->md.char_dev)
		r = -ENOTSUP;
	if (r != 0)
		goto fail;
	weft_medium_watch(&f->md, true);
	p->bytes = f->md.bytes;
	f->pages = RTE_ALIGN_CEIL(p->bytes, (uint64_t)WEFT_MEDIUM_PAGE) >> WEFT_PERSIST_PAGE_SHIFT;
	r = weft_numa_alloc(p->bytes, attr->numa_node, &p->base, &p->numa_node);
	if (r != 0)
		goto fail;
	/* The marks, then the marks of this driver; word-aligned for the scan. */
	r = posix_memalign((void **)&p->dirty, RTE_CACHE_LINE_SIZE, 2 * f->pages) != 0 ? -ENOMEM
	                                                                               : 0;
	if (r != 0) {
		p->dirty = NULL;
		goto fail;
	}
	f->unsynced = p->dirty + f->pages;
	memset(p->dirty, 0, 2 * f->pages); /* populates them, too: a placement must not fault */
	r = weft_bounce_init(&f->bounce);
	if (r == 0)
		r = file_io_open(weft_persist_option(attr), &f->md, &f->io);
	if (r == 0)
		r = file_load(p);
	if (r != 0)
		goto fail;
	file_seal_open(f);
	snprintf(p->mechanism, sizeof(p->mechanism), "%s to %s%s",
	         f->md.direct_fd < 0       ? "buffered I/O and fdatasync"
	         : file_io_is_uring(f->io) ? "direct I/O by io_uring"
	                                   : "direct I/O by pwrite",
	         f->md.block_dev ? "a block device" : "an ordinary file",
	         f->md.tmpfs ? " on tmpfs, which is memory" : "");
	return 0;
fail:
	weft_medium_undo(attr, &f->md);
	file_free(p);
	return r;
}

static int
file_check(struct weft_persist *p)
{
	struct file_priv *f = p->priv;
	int r = weft_medium_check(&f->md, p->bytes);

	/* Do not wait for a Flush under way, which checks the page itself. */
	if (r == 0 && weft_line_trylock(&f->flush_lock)) {
		r = file_seal_look(f);
		weft_line_unlock(&f->flush_lock);
	}
	return r;
}

static const char *const file_options[] = {"uring", "pwrite", NULL};

static const struct weft_persist_ops file_ops = {
        .name = "file",
        .options = file_options,
        .persistent = true,
        .open = file_open,
        .close = file_free,
        .flush = file_flush,
        .read_back = file_read_back,
        .release = file_release,
        .check = file_check,
        .read_back_max_bytes = WEFT_BOUNCE_MAX_BYTES,
};

WEFT_PERSIST_REGISTER(file, file_ops)
