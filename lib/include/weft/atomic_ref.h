/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_ATOMIC_REF_H
#define WEFT_ATOMIC_REF_H

/**
 * @file Atomic access to memory that is not declared _Atomic, as by C++20's std::atomic_ref. For
 * registered memory, which peers change by RDMA (Atomics, Atomic Write) and programs as octets; for
 * structures of public headers, which C++ programs include; for structures of other libraries; and
 * for fields that one thread uses plainly while it alone has them. All other atomic objects are
 * declared _Atomic.
 *
 * C11 leaves the representation of `_Atomic T` to the implementation. For integers and pointers of
 * 1, 2, 4 and 8 octets GCC and clang represent it as T, access it by one instruction, and let an
 * lvalue of one type alias an object of the other. The assertions below check what can be checked.
 * The address must be a multiple of the size, and threads that access the object at the same time
 * must all access it atomically.
 *
 * A C++ program uses std::atomic_ref; it gets nothing from this header.
 */

#ifndef __cplusplus

#include <stdatomic.h>
#include <stdint.h>

_Static_assert(sizeof(_Atomic uint64_t) == sizeof(uint64_t) &&
                       _Alignof(_Atomic uint64_t) == _Alignof(uint64_t) &&
                       sizeof(_Atomic uint8_t) == sizeof(uint8_t) &&
                       sizeof(void *_Atomic) == sizeof(void *) &&
                       _Alignof(void *_Atomic) == _Alignof(void *),
               "an atomic type has the representation of its plain type");
_Static_assert(ATOMIC_CHAR_LOCK_FREE == 2 && ATOMIC_SHORT_LOCK_FREE == 2 &&
                       ATOMIC_INT_LOCK_FREE == 2 && ATOMIC_LLONG_LOCK_FREE == 2 &&
                       ATOMIC_POINTER_LOCK_FREE == 2,
               "atomic accesses take no lock");

/**
 * The atomic object at an lvalue, for the functions of <stdatomic.h>:
 * atomic_load_explicit(WEFT_ATOMIC_REF(s->word), memory_order_acquire).
 */
#define WEFT_ATOMIC_REF(lvalue) ((_Atomic __typeof__(lvalue) *)&(lvalue))

/** The atomic word at an address of registered memory, a multiple of 8. */
static inline _Atomic uint64_t *
weft_atomic_u64(void *addr)
{
	return (_Atomic uint64_t *)addr;
}

/** The same, only to be read. */
static inline const _Atomic uint64_t *
weft_atomic_const_u64(const void *addr)
{
	return (const _Atomic uint64_t *)addr;
}

#endif

#endif /* WEFT_ATOMIC_REF_H */
