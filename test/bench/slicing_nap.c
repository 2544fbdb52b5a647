/* SPDX-License-Identifier: BSD-3-Clause */
/** @file "nap", a medium whose flush blocks in the kernel: it sleeps. */

#include <assert.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "weft_base.h"
#include <weft/persist.h>

#define NAP_US 20000

struct nap_req {
	struct weft_job job;
	struct weft_persist_req *req;
};
static_assert(sizeof(struct nap_req) <= sizeof(((struct weft_persist_req *)0)->drv), "fits");

static int
nap_open(struct weft_persist *p, const struct weft_persist_attr *attr)
{
	p->base = mmap(NULL, attr->bytes, PROT_READ | PROT_WRITE,
	               MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (p->base == MAP_FAILED)
		return -ENOMEM;
	p->bytes = attr->bytes;
	snprintf(p->mechanism, sizeof(p->mechanism), "a sleep of %u us", NAP_US);
	return 0;
}

static void
nap_close(struct weft_persist *p)
{
	munmap(p->base, p->bytes);
}

static void
nap_run(struct weft_job *j)
{
	(void)j;
	usleep(NAP_US);
}

static void
nap_done(struct weft_job *j)
{
	struct weft_persist_req *req = ((struct nap_req *)j)->req;

	req->status = 0;
	req->done(req);
}

static int
nap_flush(struct weft_persist *p, struct weft_exec *exec, struct weft_persist_req *req)
{
	struct nap_req *nr = (struct nap_req *)req->drv;

	(void)p;
	nr->job.run = nap_run;
	nr->job.done = nap_done;
	nr->req = req;
	return weft_exec_submit(exec, &nr->job);
}

static int
nap_read_back(struct weft_persist *p, struct weft_exec *exec, struct weft_persist_req *req)
{
	(void)exec;
	req->data = p->base + req->off_bytes;
	req->status = 0;
	req->done(req);
	return 0;
}

static const struct weft_persist_ops nap_ops = {.name = "nap",
                                                .persistent = true,
                                                .open = nap_open,
                                                .close = nap_close,
                                                .flush = nap_flush,
                                                .read_back = nap_read_back,
                                                .read_back_max_bytes = 1 << 20};

WEFT_PERSIST_REGISTER(nap, nap_ops)
