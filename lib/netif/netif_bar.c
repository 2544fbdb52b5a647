/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Registers of a device that the kernel takes away while drivers read them.
 *
 * Under vfio the kernel waits until the program has given a device back, and a device that was
 * pulled out reads as all ones. Under uio the kernel removes a device at once, and unmaps its
 * registers, which are a file of sysfs: the next access is a SIGBUS on the polling thread, which
 * was not told. Its handler puts a page of ones where the registers were, as an absent PCI device
 * reads, and the access is repeated. So the driver goes on, finds no packets, and the data path has
 * neither a check nor a lock for this.
 *
 * The handler takes no lock, and calls only mmap() and sigaction(), which are plain system calls.
 */

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rte_ethdev.h>

#include "netif_bar.h"
#include "netif_guard.h"

#define BAR_RANGES 8 /* a device has six, and perhaps an expansion ROM */

/** The mapped registers of a port's device. */
struct bar_port {
	_Atomic unsigned int n; /**< written last: the handler reads so many ranges */
	_Atomic uint32_t faults;
	uintptr_t from[BAR_RANGES], to[BAR_RANGES];
};

static struct bar_port bar_ports[RTE_MAX_ETHPORTS];
static struct sigaction bar_old;
static uintptr_t bar_page; /**< page size of the system */
static int bar_ones = -1;  /**< a file of one page of ones */

/** The port whose registers are at `at`; NULL: none. */
static struct bar_port *
bar_find(uintptr_t at)
{
	for (unsigned int i = 0; i < RTE_DIM(bar_ports); i++) {
		struct bar_port *b = &bar_ports[i];
		unsigned int n = atomic_load_explicit(&b->n, memory_order_acquire);

		for (unsigned int k = 0; k < n; k++)
			if (at >= b->from[k] && at < b->to[k])
				return b;
	}
	return NULL;
}

static void
bar_handler(int sig, siginfo_t *si, void *uc)
{
	/* A signal sent by a process (si_code <= 0) has no address. */
	struct bar_port *b = si->si_code > 0 ? bar_find((uintptr_t)si->si_addr) : NULL;
	uintptr_t page = (uintptr_t)si->si_addr & ~(bar_page - 1);
	int saved = errno;

	if (b != NULL && mmap((void *)page, bar_page, PROT_READ | PROT_WRITE,
	                      MAP_PRIVATE | MAP_FIXED, bar_ones, 0) != MAP_FAILED) {
		atomic_fetch_add_explicit(&b->faults, 1, memory_order_relaxed);
		errno = saved;
		return;
	}
	errno = saved;
	netif_guard_pass(&bar_old, sig, si, uc);
}

static bool
bar_install(void)
{
	static bool installed;
	struct sigaction sa = {.sa_sigaction = bar_handler, .sa_flags = SA_SIGINFO | SA_ONSTACK};
	uint8_t ones[4096];

	if (installed)
		return true;
	memset(ones, 0xff, sizeof(ones));
	bar_page = (uintptr_t)sysconf(_SC_PAGESIZE);
	bar_ones = memfd_create("weft-ones", MFD_CLOEXEC);
	if (bar_ones < 0)
		return false;
	for (uintptr_t n = 0; n < bar_page; n += sizeof(ones))
		if (write(bar_ones, ones, sizeof(ones)) != (ssize_t)sizeof(ones))
			goto fail;
	installed = sigaction(SIGBUS, &sa, &bar_old) == 0;
	if (installed)
		return true;
fail:
	close(bar_ones);
	bar_ones = -1;
	return false;
}

void
netif_bar_forget(uint16_t port_id)
{
	atomic_store_explicit(&bar_ports[port_id].n, 0, memory_order_release);
	atomic_store_explicit(&bar_ports[port_id].faults, 0, memory_order_relaxed);
}

void
netif_bar_watch(uint16_t port_id, const char *address)
{
	struct bar_port *b = &bar_ports[port_id];
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512], file[64];
	unsigned int n = 0;

	netif_bar_forget(port_id);
	if (maps == NULL)
		return;
	snprintf(file, sizeof(file), "/%s/resource", address);
	while (n < BAR_RANGES && fgets(line, sizeof(line), maps) != NULL)
		if (strstr(line, file) != NULL &&
		    sscanf(line, "%" SCNxPTR "-%" SCNxPTR, &b->from[n], &b->to[n]) == 2)
			n++;
	fclose(maps);
	if (n == 0 || !bar_install())
		return;
	atomic_store_explicit(&b->faults, 0, memory_order_relaxed);
	atomic_store_explicit(&b->n, n, memory_order_release);
}

bool
netif_bar_faulted(uint16_t port_id)
{
	return atomic_load_explicit(&bar_ports[port_id].faults, memory_order_relaxed) > 0;
}
