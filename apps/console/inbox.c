/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Completions on their way from the workers to the main thread; see inbox.h. */

#define ALLOW_EXPERIMENTAL_API /* rings of elements, which DPDK 22.11 has as such */

#include "inbox.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <rte_lcore.h>
#include <rte_pause.h>
#include <rte_ring_elem.h>

#include "traffic.h"

static struct rte_ring *ring;
static int fd = -1;
static atomic_bool armed;

static void
wake(void)
{
	const uint64_t one = 1;

	/* Here: put, then read armed. inbox_arm(): write armed, then look for completions. */
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load_explicit(&armed, memory_order_relaxed) &&
	    atomic_exchange_explicit(&armed, false, memory_order_acq_rel) &&
	    write(fd, &one, sizeof(one)) < 0) {
		/* EAGAIN: readable already. */
	}
}

static void
on_wc(void *user, struct weft_cq *cq, const struct weft_wc *wc, unsigned int n)
{
	bool news = false;

	(void)user;
	(void)cq;
	for (unsigned int i = 0; i < n; i++) {
		const enum traffic_taken t = traffic_take(&wc[i]);

		news = news || t != TRAFFIC_TAKEN;
		/* Never full: the ring has a place for each work request and each receive. */
		if (t == TRAFFIC_NOT_MINE)
			while (rte_ring_mp_enqueue_elem(ring, (void *)(uintptr_t)&wc[i],
			                                sizeof(*wc)) != 0)
				rte_pause();
	}
	if (news)
		wake();
}

int
inbox_create(struct weft_ctx *ctx, uint32_t depth, struct weft_cq **out)
{
	struct weft_cq_attr ca = {.size = sizeof(ca), .depth = depth, .on_wc = on_wc};

	ring = rte_ring_create_elem("console_inbox", sizeof(struct weft_wc), depth, SOCKET_ID_ANY,
	                            RING_F_EXACT_SZ | RING_F_SC_DEQ);
	if (ring == NULL)
		return -ENOMEM;
	fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	traffic_on_end(wake);
	return weft_cq_create(ctx, &ca, out);
}

unsigned int
inbox_take(struct weft_wc *wc, unsigned int n)
{
	return rte_ring_sc_dequeue_burst_elem(ring, wc, sizeof(*wc), n, NULL);
}

bool
inbox_arm(void)
{
	atomic_store_explicit(&armed, true, memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst);
	return !rte_ring_empty(ring);
}

int
inbox_fd(void)
{
	return fd;
}
