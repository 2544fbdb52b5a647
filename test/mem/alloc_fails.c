/* SPDX-License-Identifier: BSD-3-Clause */

#include <errno.h>
#include <stddef.h>

#include "alloc_fails.h"

unsigned int fail_at;
int in_use;

int __real_posix_memalign(void **p, size_t align, size_t n);
int __wrap_posix_memalign(void **p, size_t align, size_t n);
void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);

void __real_free(void *p);
void __wrap_free(void *p);

int
__wrap_posix_memalign(void **p, size_t align, size_t n)
{
	if (fail_at > 0 && --fail_at == 0)
		return ENOMEM;
	__atomic_fetch_add(&in_use, 1, __ATOMIC_RELAXED);
	return __real_posix_memalign(p, align, n);
}

void *
__wrap_calloc(size_t n, size_t size)
{
	if (fail_at > 0 && --fail_at == 0)
		return NULL;
	__atomic_fetch_add(&in_use, 1, __ATOMIC_RELAXED);
	return __real_calloc(n, size);
}

void
__wrap_free(void *p)
{
	__atomic_fetch_sub(&in_use, p != NULL, __ATOMIC_RELAXED);
	__real_free(p);
}
