/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file A commit without Flush, Verify and Atomic Write, for comparison. The client writes and
 * sends a message; an application here makes the data durable, hashes, compares and answers. It
 * runs in the completion callback on the worker, or on a thread of its own that sleeps on the
 * completion queue's descriptor.
 *
 * The application is as fast as possible: it writes short ranges of persistent memory back on the
 * spot, by the driver's own functions. Its hash is of the memory, from the cache, where a Verify
 * reads the medium. With hello.app_medium it hashes the medium, too, by the driver's read-back.
 */

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server.h"
#include <weft/atomic_ref.h>

#define APP_RQ      64
#define APP_WAIT_MS 100

static void
app_flushed(struct weft_persist_req *req)
{
	*(bool *)req->owner = true;
}

/** Flush a range; waits for a driver that cannot do it at once. 0 or -errno. */
static int
app_flush(struct session *s, uint64_t off, uint64_t len)
{
	struct weft_persist *p = s->persist;
	bool done = false;
	struct weft_persist_req req;

	if (!p->ops->persistent) {
		atomic_thread_fence(memory_order_seq_cst);
		return 0;
	}
	req.off_bytes = off;
	req.len_bytes = len;
	req.flags = WEFT_FLUSH_PERSISTENT;
	req.done = app_flushed;
	req.owner = &done;
	if (p->ops->flush(p, NULL, &req) == 0 && done)
		return req.status;
	return weft_persist_flush_wait(p, off, len);
}

static int
app_post_recv(struct session *s, uint64_t i)
{
	struct weft_sge sge = {&s->orders[i], sizeof(s->orders[i]), 0};
	struct weft_recv_wr wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1};

	return weft_post_recv(s->qp, &wr, 1);
}

/** Hash the medium's content; -ENOTSUP where it cannot be read at once. */
static int
app_hash_medium(struct session *s, const struct weft_hash_ops *h, uint64_t off, uint64_t len,
                uint8_t *got)
{
	struct weft_persist *p = s->persist;
	struct weft_hash_state st;
	bool done = false;
	struct weft_persist_req req = {.done = app_flushed, .owner = &done};
	int rc;

	if (p->ops->read_back == NULL)
		return -ENOTSUP;
	rc = h->init(&st, NULL, 0);
	if (rc != 0)
		return rc;
	for (uint64_t at = 0; rc == 0 && at < len; at += req.len_bytes) {
		req.off_bytes = off + at;
		req.len_bytes = len - at;
		if (req.len_bytes > p->ops->read_back_max_bytes)
			req.len_bytes = p->ops->read_back_max_bytes;
		done = false;
		/* without an executor the driver reads at once or not at all */
		rc = p->ops->read_back(p, NULL, &req);
		rc = rc < 0 || !done ? -ENOTSUP : req.status;
		if (rc == 0)
			h->update(&st, req.data, req.len_bytes);
		if (done && p->ops->release != NULL)
			p->ops->release(p, &req);
	}
	/* final() frees the state, so it is called even when the hash is not needed */
	h->final(&st, got);
	return rc;
}

static int
app_hash(struct session *s, const struct weft_hash_ops *h, uint64_t off, uint8_t *got)
{
	if (s->hello.app_medium)
		return app_hash_medium(s, h, off, s->hello.size_bytes, got);
	return weft_hash_once(h, s->mem + off, s->hello.size_bytes, got);
}

/** Make the data durable and check their hash against the client's. */
static bool
app_data(struct session *s, const struct perf_order *o)
{
	const struct weft_hash_ops *h = weft_hash_find(s->medium->hash);
	uint64_t off = (uint64_t)o->slot * s->hello.size_bytes;
	uint8_t got[WEFT_HASH_MAX_BYTES];

	return app_flush(s, off, s->hello.size_bytes) == 0 && app_hash(s, h, off, got) == 0 &&
	       memcmp(got, o->expect, h->result_bytes) == 0;
}

void
server_app_take(struct session *s, const struct weft_wc *wc)
{
	const struct perf_order *o = &s->orders[wc->wr_id];
	uint64_t word = perf_word_at(s->slots, s->hello.size_bytes);
	struct perf_answer a = {.slot = o->slot};
	struct weft_sge sge = {&a, sizeof(a), 0};
	struct weft_wr wr = {
	        .opcode = WEFT_WR_SEND, .flags = WEFT_WR_INLINE, .sg_list = &sge, .num_sge = 1};

	if (wc->len_bytes != sizeof(*o) || o->slot >= s->slots)
		a.bad = 1;
	if (!a.bad && o->round != 2)
		a.bad = !app_data(s, o);
	if (!a.bad && o->round == 0) {
		uint64_t next;

		memcpy(&next, s->mem + word + PERF_NEXT_WORD, sizeof(next));
		atomic_store_explicit(weft_atomic_u64(s->mem + word), next, memory_order_release);
		weft_persist_mark(s->persist, word, sizeof(next));
	}
	if (!a.bad && o->round != 1)
		a.bad = app_flush(s, word, 8) != 0;
	app_post_recv(s, wc->wr_id);
	weft_post_send(s->qp, &wr, 1);
}

/* ---- A thread of its own ---- */

static void *
app_main(void *arg)
{
	struct session *s = arg;
	struct pollfd fd = {.fd = weft_cq_fd(s->app_cq), .events = POLLIN};
	struct weft_wc wc[16];
	uint64_t drop;

	while (!atomic_load_explicit(&s->app_stop, memory_order_acquire)) {
		int n = weft_cq_poll(s->app_cq, wc, 16);

		for (int i = 0; i < n; i++)
			if (wc[i].status == WEFT_WC_SUCCESS && wc[i].opcode == WEFT_WC_RECV)
				server_app_take(s, &wc[i]);
		if (n != 0 || weft_cq_arm(s->app_cq, false) != 0)
			continue;
		if (poll(&fd, 1, APP_WAIT_MS) > 0 && read(fd.fd, &drop, sizeof(drop)) < 0) {
			/* The descriptor was cleared already. */
		}
	}
	return NULL;
}

static void
app_count(struct session *s, int n)
{
	struct served *all = s->server->all;

	pthread_mutex_lock(&all->lock);
	all->threads += (unsigned int)n;
	pthread_mutex_unlock(&all->lock);
}

static int
app_start(struct session *s)
{
	pthread_attr_t attr;
	cpu_set_t cpus;
	int rc;

	if (pthread_attr_init(&attr) != 0)
		return -ENOMEM;
	/* The thread may use every CPU that the process could use before EAL pinned the worker,
	 * or app_cpu alone. */
	cpus = s->medium->cpus;
	if (s->medium->app_cpu >= 0) {
		CPU_ZERO(&cpus);
		CPU_SET((unsigned int)s->medium->app_cpu, &cpus);
	}
	pthread_attr_setaffinity_np(&attr, sizeof(cpus), &cpus);
	atomic_init(&s->app_stop, 0);
	rc = pthread_create(&s->app, &attr, app_main, s);
	pthread_attr_destroy(&attr);
	s->app_runs = rc == 0;
	app_count(s, s->app_runs ? 1 : 0);
	return -rc;
}

int
server_app_begin(struct session *s)
{
	int rc = 1;

	if (s->hello.app_medium) {
		uint8_t got[WEFT_HASH_MAX_BYTES];

		rc = app_hash_medium(s, weft_hash_find(s->medium->hash), 0, 8, got);
		if (rc != 0)
			return rc;
		rc = 1;
	}
	s->orders = calloc(APP_RQ, sizeof(s->orders[0]));
	if (s->orders == NULL)
		return -ENOMEM;
	for (uint64_t i = 0; i < APP_RQ && rc == 1; i++)
		rc = app_post_recv(s, i);
	if (rc < 0)
		return rc;
	return s->hello.app_thread ? app_start(s) : 0;
}

void
server_app_end(struct session *s)
{
	if (s->app_runs) {
		atomic_store_explicit(&s->app_stop, 1, memory_order_release);
		pthread_join(s->app, NULL);
		app_count(s, -1);
	}
	s->app_runs = false;
	free(s->orders);
	s->orders = NULL;
}
