/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_TSAN_H
#define WEFT_TSAN_H

/**
 * @file Annotations for ThreadSanitizer of hand-overs between threads inside DPDK. Empty in other
 * builds.
 *
 * rte_ring with several producers: a producer waits for earlier producers by relaxed loads, or by
 * loads of the eight octets of head and tail, and then stores the tail with release. A consumer
 * that acquires the tail sees what all producers wrote: on the supported hardware, and by C11 with
 * the second form. ThreadSanitizer takes into account only the last store to the loaded address.
 * So each producer annotates a release before its enqueue, and the consumer an acquire after its
 * dequeue.
 *
 * Reference count of an mbuf: a holder drops its reference by an atomic subtraction with release.
 * The last holder sees by a relaxed load that it is the last. It annotates an acquire before it
 * frees the mbuf or writes into it.
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
