/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_TSAN_H
#define WEFT_TSAN_H

/**
 * @file What ThreadSanitizer must be told of DPDK's ways to hand something from thread to thread;
 * nothing in any other build.
 *
 * rte_ring with several producers: a producer waits for those before it by relaxed loads, or by
 * loads of the eight octets of head and tail, and then stores the tail with release. On the
 * hardware that we run on, and by C11 with the second form, a consumer that acquires the tail sees
 * what all of them wrote. ThreadSanitizer counts only the last store, to the very address that is
 * loaded. So each producer says before its enqueue that it releases, and the consumer after its
 * dequeue that it acquires.
 *
 * An mbuf's reference count: a holder gives one up by an atomic subtraction that releases, but a
 * holder that finds itself the last holder finds that out by a relaxed load. It says that it
 * acquires before it frees.
 */

#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#define WEFT_TSAN_RELEASE(addr) __tsan_release((void *)(addr))
#define WEFT_TSAN_ACQUIRE(addr) __tsan_acquire((void *)(addr))
#else
#define WEFT_TSAN_RELEASE(addr) ((void)(addr))
#define WEFT_TSAN_ACQUIRE(addr) ((void)(addr))
#endif

#endif /* WEFT_TSAN_H */
