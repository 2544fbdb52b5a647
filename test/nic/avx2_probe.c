/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Executes an instruction of AVX2. On a processor without them it ends by SIGILL. */

#include <immintrin.h>
#include <stdio.h>

int
main(int argc, char **argv)
{
	volatile __m256i v = _mm256_set1_epi32(argc);

	(void)argv;
	v = _mm256_add_epi64(v, v);
	printf("AVX2 works: %d\n", _mm256_extract_epi32(v, 0));
	return 0;
}
