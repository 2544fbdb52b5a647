/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Returns memory of ended connections, calls and answers to the system. ui_keep_memory()
 * makes the allocator keep freed memory, because polling threads must not fault for memory that
 * calls allocate and free all the time. Without this file the memory of hundreds of connections, or
 * of many long answers at once, would be kept, too.
 */

#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "target.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
/* The look for leaks does not see mapped memory by itself. */
#define TABLE_SEEN(at, bytes)   __lsan_register_root_region(at, bytes)
#define TABLE_UNSEEN(at, bytes) __lsan_unregister_root_region(at, bytes)
#else
#define TABLE_SEEN(at, bytes)   ((void)(at), (void)(bytes))
#define TABLE_UNSEEN(at, bytes) ((void)(at), (void)(bytes))
#endif

#define MEMORY_CONNS 32                   /* with more connections the target counts as busy */
#define MEMORY_BYTES (4ull << 20)         /* with more memory of calls and answers likewise */
#define MEMORY_GREW  (8ull << 20)         /* less growth is not worth a trim */
#define MEMORY_HUGE  ((uintptr_t)2 << 20) /* a page that the kernel makes of 512, where it may */
#define MEMORY_LOOKS 4                    /* looks in a row at which the target was idle */

/** Memory that calls and answers of all workers hold now. */
static uint64_t
memory_held(const struct target *t)
{
	struct weft_rpc_budget_info info;
	uint64_t n = 0;

	for (uint32_t i = 0; i < t->stack.nworkers; i++) {
		weft_rpc_budget_info(t->workers[i].budget, &info);
		n += info.held_bytes;
	}
	return n;
}

/** Resident memory that belongs to no file; 0: unknown. */
static uint64_t
memory_resident(void)
{
	unsigned long long size, resident, shared;
	FILE *f = fopen("/proc/self/statm", "re");
	int n = 0;

	if (f != NULL) {
		n = fscanf(f, "%llu %llu %llu", &size, &resident, &shared);
		fclose(f);
	}
	return n == 3 && resident > shared ? (resident - shared) * (uint64_t)sysconf(_SC_PAGESIZE)
	                                   : 0;
}

void
target_memory_look(struct target *t)
{
	static uint64_t most_conns, least;
	static unsigned int looks;
	uint64_t conns = atomic_load_explicit(&t->nconns, memory_order_relaxed), now;

	if (least == 0)
		least = memory_resident(); /* few or no clients have connected yet */
	if (conns > most_conns)
		most_conns = conns;
	if (memory_held(t) >= MEMORY_BYTES || (conns >= MEMORY_CONNS && conns > most_conns / 4)) {
		looks = 0;
		return;
	}
	if (++looks < MEMORY_LOOKS)
		return;
	looks = 0;
	/* Memory that was allocated and freed between two looks still shows as resident. */
	now = memory_resident();
	if (now < least)
		least = now;
	if (now < least + MEMORY_GREW)
		return;
	/* malloc_trim() holds the allocator's lock for milliseconds, so it does not run while
	 * connections are busy. */
	(void)malloc_trim(0);
	least = memory_resident();
	most_conns = conns;
}

void
target_memory_sparse(void *at, size_t bytes)
{
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	const uintptr_t begin = ((uintptr_t)at + page - 1) & ~(page - 1);
	const uintptr_t end = ((uintptr_t)at + bytes) & ~(page - 1);

	if (begin < end)
		(void)madvise((void *)begin, end - begin, MADV_NOHUGEPAGE);
}

void *
target_staging_make(size_t bytes)
{
	uint8_t *raw, *at;
	size_t page = (size_t)sysconf(_SC_PAGESIZE), len = (bytes + page - 1) & ~(page - 1);

	raw = mmap(NULL, len + MEMORY_HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
	           0);
	if (raw == MAP_FAILED)
		return NULL;
	at = (uint8_t *)(((uintptr_t)raw + MEMORY_HUGE - 1) & ~(MEMORY_HUGE - 1));
	if (at != raw)
		(void)munmap(raw, (size_t)(at - raw));
	if (at != raw + MEMORY_HUGE)
		(void)munmap(at + len, (size_t)(raw + MEMORY_HUGE - at));
	(void)madvise(at, len, MADV_HUGEPAGE);
	if (madvise(at, len, MADV_POPULATE_WRITE) == 0)
		return at;
	if (errno == ENOMEM) {
		(void)munmap(at, len);
		return NULL;
	}
	/* A kernel before 5.14. */
	for (size_t off = 0; off < len; off += page)
		*(volatile uint8_t *)(at + off) = 0;
	return at;
}

void
target_staging_free(void *at, size_t bytes)
{
	if (at != NULL)
		(void)munmap(at, bytes);
}

void *
target_table_make(size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		return NULL;
	target_memory_sparse(at, bytes);
	TABLE_SEEN(at, bytes);
	return at;
}

void
target_table_free(void *at, size_t bytes)
{
	if (at == NULL)
		return;
	TABLE_UNSEEN(at, bytes);
	(void)munmap(at, bytes);
}
