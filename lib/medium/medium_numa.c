/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Populated memory on a NUMA node, and finding the node of memory. */

#include <inttypes.h>
#include <numa.h>
#include <numaif.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "medium_priv.h"
#include "weft_medium_file.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

#define MEDIUM_HUGE_BYTES  (2ULL << 20)
#define MEDIUM_NUMA_PROBES 64

/** Length of the mapping behind weft_numa_alloc(bytes). */
static uint64_t
medium_map_bytes(uint64_t bytes)
{
	uint64_t unit = bytes >= MEDIUM_HUGE_BYTES ? MEDIUM_HUGE_BYTES : WEFT_MEDIUM_PAGE;

	return RTE_ALIGN_CEIL(bytes, unit);
}

/**
 * Whether the system has this much memory available now. Populating more would not fail, but start
 * the OOM killer.
 */
static bool
medium_available(uint64_t bytes)
{
	FILE *f = fopen("/proc/meminfo", "re");
	uint64_t kib = UINT64_MAX;
	char line[128];

	if (f == NULL)
		return true;
	while (fgets(line, sizeof(line), f) != NULL) {
		if (sscanf(line, "MemAvailable: %" SCNu64, &kib) == 1)
			break;
	}
	fclose(f);
	return kib == UINT64_MAX || bytes >> 10 < kib;
}

int
weft_numa_populate(uint8_t *mem, uint64_t bytes)
{
	uint64_t len = RTE_ALIGN_CEIL(bytes, WEFT_MEDIUM_PAGE);

	if (madvise(mem, len, MADV_POPULATE_WRITE) == 0)
		return 0;
	if (errno == ENOMEM || errno == EFAULT || errno == EHWPOISON)
		return errno == ENOMEM ? -ENOMEM : -EIO;
	/* An older kernel: write each page without changing its contents. */
	for (uint64_t off = 0; off < bytes; off += WEFT_MEDIUM_PAGE)
		atomic_fetch_or_explicit((_Atomic uint8_t *)&mem[off], 0, memory_order_relaxed);
	return 0;
}

int
weft_numa_node_of(const uint8_t *mem, uint64_t bytes)
{
	uint64_t pages = RTE_ALIGN_CEIL(bytes, WEFT_MEDIUM_PAGE) >> WEFT_PERSIST_PAGE_SHIFT;
	unsigned long n = RTE_MIN(pages, (uint64_t)MEDIUM_NUMA_PROBES);
	void *probe[MEDIUM_NUMA_PROBES];
	int status[MEDIUM_NUMA_PROBES];

	for (unsigned long i = 0; i < n; i++) {
		uint64_t page = n == 1 ? 0 : (pages - 1) / (n - 1) * i;

		probe[i] = (void *)(uintptr_t)(mem + (page << WEFT_PERSIST_PAGE_SHIFT));
		status[i] = -1;
	}
	if (n == 0 || numa_available() < 0 || move_pages(0, n, probe, NULL, status, 0) != 0)
		return -1;
	for (unsigned long i = 0; i < n; i++) {
		if (status[i] < 0 || status[i] != status[0])
			return -1;
	}
	return status[0];
}

/** Ask for pages from a node, for a mapping without pages. */
static void
medium_bind(uint8_t *mem, uint64_t bytes, int node)
{
	struct bitmask *mask;

	if (numa_available() < 0 || node > numa_max_node()) {
		WEFT_LOG(medium, WARNING, "no NUMA node %d here; memory comes from anywhere", node);
		return;
	}
	mask = numa_allocate_nodemask();
	numa_bitmask_setbit(mask, (unsigned int)node);
	/* Preferred, not bound: a full node causes a warning, not the OOM killer. */
	if (mbind(mem, bytes, MPOL_PREFERRED, mask->maskp, mask->size + 1, 0) != 0)
		WEFT_LOG(medium, WARNING, "memory cannot be placed on NUMA node %d: %s", node,
		         strerror(errno));
	numa_bitmask_free(mask);
}

int
weft_numa_alloc(uint64_t bytes, int numa_node, uint8_t **mem, int *node)
{
	uint64_t len, slack;
	uint8_t *raw, *at;
	int r;

	if (bytes == 0)
		return -EINVAL;
	if (bytes > INT64_MAX - 2 * MEDIUM_HUGE_BYTES || !medium_available(bytes))
		return -ENOMEM;
	len = medium_map_bytes(bytes);
	slack = len >= MEDIUM_HUGE_BYTES ? MEDIUM_HUGE_BYTES : 0;
	raw = mmap(NULL, len + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (raw == MAP_FAILED)
		return -ENOMEM;
	at = raw;
	if (slack != 0) { /* align for huge pages, and unmap the rest */
		at = RTE_PTR_ALIGN_CEIL(raw, MEDIUM_HUGE_BYTES);
		if (at != raw)
			munmap(raw, (size_t)(at - raw));
		if (at != raw + slack)
			munmap(at + len, (size_t)(raw + slack - at));
		(void)madvise(at, len, MADV_HUGEPAGE);
	}
	if (numa_node >= 0)
		medium_bind(at, len, numa_node);
	r = weft_numa_populate(at, len);
	if (r != 0) {
		munmap(at, len);
		return r;
	}
	*mem = at;
	*node = weft_numa_node_of(at, bytes);
	return 0;
}

void
weft_numa_free(uint8_t *mem, uint64_t bytes)
{
	if (mem != NULL)
		munmap(mem, medium_map_bytes(bytes));
}
