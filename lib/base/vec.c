/* SPDX-License-Identifier: BSD-3-Clause */
/** @file vzeroupper after vector code of a library: weft_vec.h. */

#include "weft_vec.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

bool weft_vec_wide;

#if defined(__x86_64__) && !defined(__AVX__)
static void __attribute__((constructor)) vec_probe(void)
{
	__builtin_cpu_init();
	weft_vec_wide = __builtin_cpu_supports("avx");
}

void __attribute__((target("avx"))) weft_vec_clear(void)
{
	_mm256_zeroupper();
}
#else
void
weft_vec_clear(void)
{
}
#endif
