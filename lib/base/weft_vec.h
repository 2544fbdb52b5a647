/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_VEC_H
#define WEFT_VEC_H

/**
 * @file vzeroupper after vector code of a library.
 *
 * Code that uses AVX or AVX-512 should execute vzeroupper before it returns. ISA-L's CRCs of 256
 * octets and more do not. weft is compiled for SSE, for portability. Its next vector instruction,
 * which may be the assignment of a structure, then costs 100 ns and more.
 */

#include <stdbool.h>

/** Set before main(): the processor has AVX, and weft is compiled without it. */
extern bool weft_vec_wide;
/** Execute vzeroupper. */
void weft_vec_clear(void);

/** Call after a library function that may use AVX. The cost is negligible. */
static inline void
weft_vec_done(void)
{
	if (weft_vec_wide)
		weft_vec_clear();
}

#endif /* WEFT_VEC_H */
