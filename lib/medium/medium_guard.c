/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The guard of mapped media: a SIGBUS becomes a lost page.
 *
 * The handler may run on any thread, in the middle of anything. So it takes no lock, and calls only
 * mmap() and sigaction(), which are plain system calls here. It finds the medium in a list that is
 * walked without a lock (medium_walk.h).
 */

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "medium_priv.h"
#include "medium_walk.h"
#include <weft/guard.h>

/** One open medium that is mapped. */
struct medium_guard {
	struct medium_link link; /**< first member */
	uintptr_t base, end;     /**< whole pages */
	_Atomic uint64_t *lost;  /**< one bit for each page */
};

_Atomic uint32_t weft_medium_losses;

static struct medium_list guard_list;
static uint64_t guard_page; /**< page size of the system; set before the first medium is added */

/* for changes of the list, and for installing and removing the handler */
static pthread_mutex_t guard_lock = PTHREAD_MUTEX_INITIALIZER;
static bool guard_on;
static struct sigaction guard_before;

/* counted by the handler */
static _Atomic uint64_t guard_faults, guard_pages, guard_passed, guard_unreplaced;

/* ---- Media ---- */

int
medium_guard_add(const uint8_t *base, uint64_t bytes, struct medium_guard **out)
{
	struct medium_guard *g = calloc(1, sizeof(*g));

	if (g == NULL)
		return -ENOMEM;
	pthread_mutex_lock(&guard_lock);
	guard_page = (uint64_t)sysconf(_SC_PAGESIZE);
	g->base = RTE_ALIGN_FLOOR((uintptr_t)base, guard_page);
	g->end = RTE_ALIGN_CEIL((uintptr_t)base + bytes, guard_page);
	g->lost = calloc((g->end - g->base) / guard_page / 64 + 1, sizeof(*g->lost));
	if (g->lost != NULL)
		medium_link_add(&guard_list, &g->link);
	pthread_mutex_unlock(&guard_lock);
	if (g->lost == NULL) {
		free(g);
		return -ENOMEM;
	}
	*out = g;
	return 0;
}

void
medium_guard_del(struct medium_guard *g)
{
	if (g == NULL)
		return;
	pthread_mutex_lock(&guard_lock);
	medium_link_del(&guard_list, &g->link);
	pthread_mutex_unlock(&guard_lock);
	free(g->lost);
	free(g);
}

/* ---- Lost pages ---- */

/** Whether a bit in [first, last] is set. */
static bool
guard_any(const _Atomic uint64_t *lost, uint64_t first, uint64_t last)
{
	for (uint64_t w = first / 64; w <= last / 64; w++) {
		uint64_t bits = atomic_load_explicit(&lost[w], memory_order_relaxed);

		if (w == first / 64)
			bits &= UINT64_MAX << (first % 64);
		if (w == last / 64)
			bits &= UINT64_MAX >> (63 - last % 64);
		if (bits != 0)
			return true;
	}
	return false;
}

bool
weft_guard_lost(const void *addr, uint64_t len_bytes)
{
	uintptr_t from = (uintptr_t)addr, last = from + (len_bytes - 1);
	bool lost = false;

	if (addr == NULL || len_bytes == 0 ||
	    atomic_load_explicit(&weft_medium_losses, memory_order_acquire) == 0)
		return false;
	if (last < from)
		last = UINTPTR_MAX;
	medium_walk_begin(&guard_list);
	for (struct medium_link *l = medium_first(&guard_list); l != NULL && !lost;
	     l = medium_next(l)) {
		const struct medium_guard *g = (const struct medium_guard *)l;
		uintptr_t a = RTE_MAX(from, g->base), b = RTE_MIN(last, g->end - 1);

		if (a <= b)
			lost = guard_any(g->lost, (a - g->base) / guard_page,
			                 (b - g->base) / guard_page);
	}
	medium_walk_end(&guard_list);
	return lost;
}

bool
weft_guard_probe(const void *addr, uint64_t len_bytes)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	const uintptr_t from = (uintptr_t)addr;

	if (addr == NULL || len_bytes > UINTPTR_MAX - from)
		return weft_guard_lost(addr, len_bytes);
	for (uint64_t at = 0; at < len_bytes; at += page - (from + at) % page)
		(void)*((const volatile uint8_t *)addr + at);
	return weft_guard_lost(addr, len_bytes);
}

/* ---- The signal ---- */

/**
 * Mark [from, to) of g as lost, then replace it by zeros. In this order: another thread that finds
 * the zeros takes no fault, and must get the right answer when it asks.
 */
static bool
guard_replace(const struct medium_guard *g, uintptr_t from, uintptr_t to)
{
	for (uintptr_t at = from; at < to; at += guard_page) {
		uint64_t pg = (at - g->base) / guard_page;

		atomic_fetch_or_explicit(&g->lost[pg / 64], UINT64_C(1) << pg % 64,
		                         memory_order_relaxed);
	}
	atomic_fetch_add_explicit(&weft_medium_losses, 1, memory_order_release);
	if (mmap((void *)from, to - from, PROT_READ | PROT_WRITE,
	         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
		return false;
	atomic_fetch_add_explicit(&guard_pages, (to - from) / guard_page, memory_order_relaxed);
	return true;
}

/** Whether the fault was in a medium, so that the access may be repeated. */
static bool
guard_take(const siginfo_t *si)
{
	uintptr_t at = (uintptr_t)si->si_addr, unit;
	bool taken = false;

	/* A signal sent by a process, and a misaligned access, have no page to replace. */
	if (si->si_code != BUS_ADRERR && si->si_code != BUS_OBJERR &&
	    si->si_code != BUS_MCEERR_AR && si->si_code != BUS_MCEERR_AO)
		return false;
	medium_walk_begin(&guard_list);
	for (struct medium_link *l = medium_first(&guard_list); l != NULL; l = medium_next(l)) {
		const struct medium_guard *g = (const struct medium_guard *)l;

		if (at < g->base || at >= g->end)
			continue;
		unit = guard_page;
		/* Poison tells its own size, which may be a huge page. */
		if ((si->si_code == BUS_MCEERR_AR || si->si_code == BUS_MCEERR_AO) &&
		    si->si_addr_lsb > 0 && si->si_addr_lsb < 40)
			unit = RTE_MAX(unit, UINT64_C(1) << si->si_addr_lsb);
		at = RTE_ALIGN_FLOOR(at, unit);
		taken = guard_replace(g, RTE_MAX(at, g->base), RTE_MIN(at + unit, g->end));
		atomic_fetch_add_explicit(taken ? &guard_faults : &guard_unreplaced, 1,
		                          memory_order_relaxed);
		break;
	}
	medium_walk_end(&guard_list);
	return taken;
}

/** Do what would happen without the guard. */
static void
guard_pass(int sig, siginfo_t *si, void *context)
{
	static const struct sigaction fatal = {.sa_handler = SIG_DFL};
	const struct sigaction *b = &guard_before;

	/* A signal that was sent, or poison that was not accessed, is delivered only once. */
	bool once = si->si_code <= 0 || si->si_code == BUS_MCEERR_AO;

	atomic_fetch_add_explicit(&guard_passed, 1, memory_order_relaxed);
	if (b->sa_flags & SA_SIGINFO) {
		b->sa_sigaction(sig, si, context);
		return;
	}
	if (b->sa_handler == SIG_IGN && once)
		return;
	if (b->sa_handler != SIG_DFL && b->sa_handler != SIG_IGN) {
		b->sa_handler(sig);
		return;
	}
	/* A fault is raised again after the return, by the same instruction. */
	(void)sigaction(sig, &fatal, NULL);
	if (once)
		(void)raise(sig);
}

static void
guard_handler(int sig, siginfo_t *si, void *context)
{
	int saved = errno;

	if (!guard_take(si))
		guard_pass(sig, si, context);
	errno = saved;
}

int
weft_guard_install(void)
{
	struct sigaction sa = {.sa_sigaction = guard_handler, .sa_flags = SA_SIGINFO | SA_ONSTACK};
	int r = 0;

	sigemptyset(&sa.sa_mask);
	pthread_mutex_lock(&guard_lock);
	if (guard_on)
		r = -EALREADY;
	/* The old handler is read first, for a signal that arrives between the two calls. */
	else if (sigaction(SIGBUS, NULL, &guard_before) != 0 || sigaction(SIGBUS, &sa, NULL) != 0)
		r = -errno;
	guard_on = guard_on || r == 0;
	pthread_mutex_unlock(&guard_lock);
	return r;
}

int
weft_guard_remove(void)
{
	struct sigaction now;
	int r = 0;

	pthread_mutex_lock(&guard_lock);
	if (!guard_on)
		r = -ENOENT;
	else if (sigaction(SIGBUS, NULL, &now) != 0)
		r = -errno;
	else if (!(now.sa_flags & SA_SIGINFO) || now.sa_sigaction != guard_handler)
		r = -EBUSY;
	else if (sigaction(SIGBUS, &guard_before, NULL) != 0)
		r = -errno;
	if (r == 0)
		guard_on = false;
	pthread_mutex_unlock(&guard_lock);
	return r;
}

void
weft_guard_stats(struct weft_guard_stats *out)
{
	if (out == NULL)
		return;
	pthread_mutex_lock(&guard_lock);
	out->installed = guard_on;
	pthread_mutex_unlock(&guard_lock);
	out->faults = atomic_load_explicit(&guard_faults, memory_order_relaxed);
	out->pages_lost = atomic_load_explicit(&guard_pages, memory_order_relaxed);
	out->passed_on = atomic_load_explicit(&guard_passed, memory_order_relaxed);
	out->unreplaced = atomic_load_explicit(&guard_unreplaced, memory_order_relaxed);
}
