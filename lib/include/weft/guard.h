/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_GUARD_H
#define WEFT_GUARD_H

/**
 * @file The guard: SIGBUS in mapped media becomes a failure of the medium. Installed; stands alone.
 *
 * The pages of a mapped medium (driver "pmem") can go away: the file is cut, its file system has no
 * block for a hole, or persistent memory is poisoned. The next access to such a page raises SIGBUS
 * on the thread that made the access, usually a polling thread, and the process ends.
 *
 * The guard is a handler of SIGBUS. For an address inside a mapping of a persist driver it replaces
 * the lost page by a page of zeros and records the loss. The access then continues. The page stays
 * lost for the life of the mapping, even if the file becomes long again: its contents are gone, and
 * what is stored there reaches no medium.
 *
 * While a region contains a lost page, requests are refused with these Terminate codes, by whatever
 * STag or window they name it (docs/conformance.md, "Terminate codes of Flush, Verify and Atomic
 * Write"):
 *
 * 	request of the peer	Terminate
 * 	Write, Read, Atomic, Atomic Write	0/2/0D
 * 	Flush	0/2/0A
 * 	Verify	0/2/0C
 *
 * The operation that met the fault is refused with this Terminate, and so are all later ones. No
 * response to a refused operation is sent; a Read Response ends before the lost octets.
 * WEFT_EV_BAD_RANGE with -EIO tells the consumer of each stream that is refused. A local work
 * request with its buffer there completes as WEFT_WC_LOCAL_PROT. Registration of such memory fails
 * with -EIO. Other regions, also those of the same medium, and all other streams continue.
 *
 * Any other SIGBUS goes to the previous handler. Without a previous handler the default action
 * takes place, so real bugs still leave a core dump. This includes memory that the program mapped
 * itself, and broken memory that belongs to no medium: only the program knows what such a loss
 * means.
 *
 * A library does not install signal handlers unasked: the program calls weft_guard_install().
 * Without this call nothing of the above happens. While no page is lost, the guard costs one load
 * of a word that is never written.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/api.h>

WEFT_API_BEGIN

/**
 * Install the handler of SIGBUS, for the whole process. It guards media that are open and media
 * that are opened later. It does not help a thread that blocks SIGBUS: the kernel then kills the
 * process. Any thread. Returns 0, -EALREADY (it is installed), or the error of sigaction(2).
 */
int weft_guard_install(void);
/**
 * Restore the previous handler of SIGBUS. Lost pages stay lost. Any thread. Returns 0, or
 * - -EBUSY: another handler was installed after this one and may call it; nothing was done
 * - -ENOENT: the guard is not installed
 */
int weft_guard_remove(void);

/**
 * Whether a page of [addr, addr+len_bytes) of an open medium is lost; false for NULL. Lock-free.
 * Any thread and any signal handler.
 */
bool weft_guard_lost(const void *addr, uint64_t len_bytes);
/**
 * Read one octet of each page of [addr, addr+len_bytes), so that a page that is gone is found now
 * and not later. Then return what weft_guard_lost() returns. For a program that is about to access
 * a mapping itself. NULL, and a range that ends behind the last address, are not read. Without the
 * guard a page that is gone ends the process here. Memory that is not mapped ends the process with
 * the guard, too.
 */
bool weft_guard_probe(const void *addr, uint64_t len_bytes);

/** Counters since the start of the process. */
struct weft_guard_stats {
	bool installed;
	uint64_t faults;     /**< SIGBUS in guarded mappings that the guard handled */
	uint64_t pages_lost; /**< pages of the system's page size */
	uint64_t passed_on;  /**< signals that went to the previous handler or action */
	/** of passed_on: in a guarded mapping, but no replacement page could be mapped */
	uint64_t unreplaced;
};

/** Copy the counters to *out; does nothing for NULL. Any thread. */
void weft_guard_stats(struct weft_guard_stats *out);

WEFT_API_END

#endif /* WEFT_GUARD_H */
