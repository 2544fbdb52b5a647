/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_VEC_H
#define WEFT_VEC_H

/**
 * @file After a library's vector code. Whoever picks AVX or AVX-512 at run time should leave by
 * vzeroupper; ISA-L's CRCs of 256 octets and more do not. What is compiled for SSE, as weft is for
 * portability, then pays 100 ns and more at its next vector instruction, a structure's assignment
 * for one.
 */

#include <stdbool.h>

/** Set before main(): the processor has such registers, and we are compiled without using them. */
extern bool weft_vec_wide;
void weft_vec_clear(void);

/** Call behind such a function. No cost to speak of. */
static inline void
weft_vec_done(void)
{
	if (weft_vec_wide)
		weft_vec_clear();
}

#endif /* WEFT_VEC_H */
