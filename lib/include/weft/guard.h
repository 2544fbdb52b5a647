/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_GUARD_H
#define WEFT_GUARD_H

/**
 * @file Media whose pages the system takes away: a file that is mapped (driver "pmem") is cut, its
 * file system has no block for a hole, persistent memory is poisoned. The next access to such a
 * page is a SIGBUS on the thread that made it, a polling one as a rule, and the process ends. With
 * the guard it is a failure of the medium instead. Installed; stands alone.
 *
 * The guard is a handler of SIGBUS. For an address inside a mapping that a persist driver made it
 * puts a page of zeros in the place of the lost one, notes it, and the access goes on. From then on
 * the page is lost for the life of the mapping, even when the file is long again: whatever it held
 * is gone, and what is stored there reaches no medium.
 *
 * What follows, for a region that a lost page lies in, by whichever STag or window:
 *
 * 	the peer's	Terminate	(docs/conformance.md, row 9)
 * 	Write, Read, Atomic, Atomic Write	0/2/0D
 * 	Flush	0/2/0A
 * 	Verify	0/2/0C
 *
 * The operation that met the fault is refused so, and all that come later: no response to it
 * leaves, a Read Response is cut off before the octets in question, and WEFT_EV_BAD_RANGE with -EIO
 * tells the consumer of each stream that is refused. Local work whose buffer it is ends as
 * WEFT_WC_LOCAL_PROT. Registering it is refused with -EIO. Regions without a lost page, of the same
 * medium too, and all other streams go on.
 *
 * Any other SIGBUS goes to the handler there was before, or does what it did without one: a core
 * dump tells of real bugs as ever. That includes memory that the program mapped by itself, and
 * broken memory that is no medium's: only the program knows what their loss means.
 *
 * A library does not take a signal by itself: the program asks for it. Without the guard nothing
 * here ever happens. It costs one load of a word that is never written while there is no loss.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/api.h>

WEFT_API_BEGIN

/**
 * Take SIGBUS for the whole process; media opened before and after are guarded. Threads that block
 * SIGBUS are not: the kernel kills the process there. -EALREADY: it is installed. Else what
 * sigaction(2) says. Any thread.
 */
int weft_guard_install(void);
/**
 * Give SIGBUS back as it was. -EBUSY: another handler was put over ours, and may call it; nothing
 * was done. -ENOENT: it is not installed. What is lost stays lost. Any thread.
 */
int weft_guard_remove(void);

/** Whether a page was lost in [addr, addr+len) of an open medium; of NULL none was. Any thread and
 * any signal handler; lock-free. */
bool weft_guard_lost(const void *addr, uint64_t len_bytes);
/**
 * Read one octet of each page of [addr, addr+len), so that a page that is gone is lost now and not
 * later; then as weft_guard_lost(). For who is about to use a mapping by itself. Without the guard
 * a page that is gone ends the process here, and so does, with it too, memory that is not mapped.
 * NULL, and a range that ends behind the last address, are not read.
 */
bool weft_guard_probe(const void *addr, uint64_t len_bytes);

/** Since the process began. */
struct weft_guard_stats {
	bool installed;
	uint64_t faults;     /**< in guarded mappings, and dealt with */
	uint64_t pages_lost; /**< pages of the machine's size */
	uint64_t passed_on;  /**< signals that were none of ours */
	/** of those: in a guarded mapping, but the kernel had no page to put there */
	uint64_t unreplaced;
};

/** Of NULL: nothing is done. Any thread. */
void weft_guard_stats(struct weft_guard_stats *out);

WEFT_API_END

#endif /* WEFT_GUARD_H */
