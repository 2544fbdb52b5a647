/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file A client of net_memif whose rings have our own mbufs (zero-copy=yes): the peer reads what
 * we send, and writes what we receive, where it lies.
 *
 * The driver of DPDK 22.11 gives the peer all memory of EAL, and describes every mbuf as part of
 * the first of EAL's lists of memory. An mbuf elsewhere would be sent as other octets. A slot of a
 * ring keeps its mbuf until the peer has used it.
 *
 * The driver closes the descriptor of EAL's memory when a connection is up, and when one fails. It
 * is EAL's own: a second port, or a second try, would hand over whatever descriptor has its number
 * by then. So rte_memseg_get_fd() is replaced, and gives a copy of the descriptor, once there is
 * such a port.
 */

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_ethdev.h>
#include <rte_memory.h>
#include <rte_mempool.h>
#include <rte_version.h>

#include "netif_attach.h"
#include "netif_memif.h"
#include "weft_base.h"

WEFT_LOG_DECLARE(netif);

/* The driver gives the peer new buffers when 32 slots are free, which a shorter ring never has
 * while a frame waits in it. */
#define RSIZE_LEAST 6UL

static int (*shared_get_fd)(const struct rte_memseg *seg);
static atomic_bool shared_copies;

static void __attribute__((constructor)) shared_find_get_fd(void)
{
	void *fn = dlsym(RTLD_NEXT, "rte_memseg_get_fd");

	/* ISO C has no conversion from an object pointer to a function pointer. */
	memcpy(&shared_get_fd, &fn, sizeof(fn));
}

/* Replaces EAL's function in the whole process: drivers are loaded after this library. */
__attribute__((visibility("default"))) int
rte_memseg_get_fd(const struct rte_memseg *seg)
{
	const int fd = shared_get_fd != NULL ? shared_get_fd(seg) : -1;

	if (fd < 0 || !atomic_load_explicit(&shared_copies, memory_order_relaxed))
		return fd;
	return fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

/** Whether the driver's table of buffers is as long as it fills it: it was not before this release
 * of each line. */
static bool
shared_driver_ok(void)
{
	unsigned int year = 0, month = 0, minor = 0;

	/* "DPDK 22.11.11"; the functions for its numbers are not in the stable ABI. */
	if (sscanf(rte_version(), "DPDK %u.%u.%u", &year, &month, &minor) < 2)
		return false;
	if (year == 22 && month == 11)
		return minor >= 7;
	if (year == 23 && month == 11)
		return minor >= 2;
	return year * 100 + month >= 2407;
}

/** What the driver describes mbufs by. */
struct shared {
	const void *list; /**< NULL: not seen yet */
	uintptr_t base;
	size_t bytes;
	bool beyond; /**< a pool has memory elsewhere */
};

static int
shared_seg(const struct rte_memseg_list *list, const struct rte_memseg *seg, void *arg)
{
	struct shared *s = arg;

	if (s->list == NULL) {
		s->list = list;
		s->base = (uintptr_t)list->base_va;
	}
	if (s->list == list)
		s->bytes += seg->len;
	return 0;
}

static void
shared_pool(struct rte_mempool *pool, void *arg, struct rte_mempool_memhdr *mem, unsigned int i)
{
	struct shared *s = arg;
	const uintptr_t at = (uintptr_t)mem->addr;

	(void)pool;
	(void)i;
	if (at < s->base || at - s->base > s->bytes || mem->len > s->bytes - (at - s->base))
		s->beyond = true;
}

int
netif_memif_shared_check(const char *dev, struct rte_mempool *rx, struct rte_mempool *tx,
                         uint32_t queues)
{
	const int len = (int)strcspn(dev, ",");
	const char *args = dev[len] == ',' ? dev + len + 1 : "";
	unsigned long rsize = NETIF_MEMIF_SHARED_RSIZE;
	struct shared s = {0};
	char text[16];

	if (netif_dev_arg(args, "rsize", text, sizeof(text)))
		rsize = strtoul(text, NULL, 10);
	if (rsize < RSIZE_LEAST || rsize > 15 ||
	    ((uint64_t)queues << rsize) > RTE_MIN(rx->size, tx->size) / 2) {
		WEFT_LOG(netif, ERR,
		         "%.*s: zero-copy: rsize=%lu is not possible: at least %lu, and the rings "
		         "hold at most half of its buffers; choose another rsize or more mbufs",
		         len, dev, rsize, RSIZE_LEAST);
		return -EINVAL;
	}
	if (!shared_driver_ok()) {
		WEFT_LOG(netif, ERR,
		         "%.*s: zero-copy is not possible with %s, whose net_memif writes beyond a "
		         "table; leave zero-copy out",
		         len, dev, rte_version());
		return -ENOTSUP;
	}
	(void)rte_memseg_walk(shared_seg, &s);
	rte_mempool_mem_iter(rx, shared_pool, &s);
	rte_mempool_mem_iter(tx, shared_pool, &s);
	if (s.beyond) {
		WEFT_LOG(netif, ERR,
		         "%.*s: zero-copy is not possible: its buffers are in several pieces of "
		         "memory; leave zero-copy out",
		         len, dev);
		return -ENOTSUP;
	}
	atomic_store_explicit(&shared_copies, true, memory_order_relaxed);
	return 0;
}
