/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_FUZZ_H
#define WEFT_FUZZ_H

/**
 * @file Shared by the fuzz entries. An entry defines LLVMFuzzerTestOneInput(). libFuzzer calls it
 * with its own inputs, and replay.c with the stored ones.
 *
 * The address sanitizer does not see the ends of mbufs. fuzz_mbuf() therefore attaches octets as
 * external buffers of their exact length.
 */

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_mbuf.h>

#include "weft_base.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/**
 * Defined by an entry whose decoder keeps no state. burst.c then defines LLVMFuzzerTestOneInput(),
 * and executes each input unchanged and in FUZZ_VARIATIONS variations.
 */
void fuzz_one(const uint8_t *data, size_t size);
#define FUZZ_VARIATIONS 255

/** Whether to print each executed input on stderr, so that the last line before a crash names
 * it. */
static inline bool
fuzz_verbose(void)
{
	static int yes = -1;

	if (yes < 0)
		yes = getenv("WEFT_FUZZ_VERBOSE") != NULL;
	return yes;
}

/** A condition that no input may violate. */
#define FUZZ_CHECK(cond)                                                                           \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, "%s:%d: FUZZ_CHECK(%s)\n", __FILE__, __LINE__, #cond);     \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

/** The input, read from the front. Behind its end there are zeros. */
struct fuzz_in {
	const uint8_t *p;
	size_t left;
};

static inline uint8_t
fuzz_u8(struct fuzz_in *in)
{
	if (in->left == 0)
		return 0;
	in->left--;
	return *in->p++;
}

static inline uint16_t
fuzz_u16(struct fuzz_in *in)
{
	uint16_t hi = fuzz_u8(in);

	return (uint16_t)(hi << 8 | fuzz_u8(in));
}

static inline uint32_t
fuzz_u32(struct fuzz_in *in)
{
	uint32_t hi = fuzz_u16(in);

	return hi << 16 | fuzz_u16(in);
}

/** Read at most max octets. *len is set to their number. */
static inline const uint8_t *
fuzz_octets(struct fuzz_in *in, size_t max, size_t *len)
{
	const uint8_t *p = in->p;

	*len = max < in->left ? max : in->left;
	in->p += *len;
	in->left -= *len;
	return p;
}

/** Initialize EAL and the pool once. */
struct rte_mempool *fuzz_pool(void);
/** The number of mbufs in use, and of free ones. */
unsigned int fuzz_pool_used(void);
unsigned int fuzz_pool_avail(void);
/**
 * len octets as a chain: `cuts` octets each in the first segments (0: a segment without octets),
 * the rest in the last. Each segment's buffer has its exact length. NULL: pool empty.
 */
struct rte_mbuf *fuzz_mbuf(const uint8_t *data, uint32_t len, const uint8_t *cuts,
                           unsigned int ncuts);
/** Deterministic random numbers, which start again with every input. */
struct weft_rand fuzz_rand(void);

#endif /* WEFT_FUZZ_H */
