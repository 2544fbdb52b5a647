/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file For entries whose decoder keeps no state: an input is executed unchanged and in
 * FUZZ_VARIATIONS variations.
 *
 * libFuzzer's work around a run (a copy on the heap, counters that are cleared and evaluated, a
 * mutation by tables) takes ten times as long as such a decoder. Within a burst none of it is done:
 * a variation is a few edits at the end of a static buffer, where the sanitizer's red zone follows
 * the last octet. The variations depend only on the input, so that a failing input fails again.
 * libFuzzer sees the coverage of all of them, and keeps an input for any. With WEFT_FUZZ_ALONE set
 * there are no variations: a corpus is minimised by what its inputs reach themselves.
 */

#include <string.h>

#include "test_xorshift.h"
#include "fuzz.h"

#define BURST_ROOM 4096u

/** only the red zone follows it */
static uint8_t room[BURST_ROOM];
static uint64_t executions;

static void
burst_edit(uint8_t *p, uint32_t len, uint64_t r)
{
	static const uint32_t odd[8] = {0, 1, 4, 0x7f, 0x80, 0xffff, 0x7fffffff, UINT32_MAX};
	uint32_t at = (uint32_t)(r >> 16 & 0xffff) * len >> 16, word;

	switch (r & 7) {
	case 0:
	case 1:
		p[at] ^= (uint8_t)(1u << (r >> 3 & 7));
		break;
	case 2:
		p[at] = (uint8_t)(r >> 40);
		break;
	case 3:
		p[at] = (uint8_t)odd[r >> 3 & 7];
		break;
	case 4:
		p[at] = (uint8_t)(p[at] + (r >> 40 & 15) - 8);
		break;
	case 5: /* a number in network order, aligned as in headers */
		at &= ~3u;
		if (len - at < 4)
			break;
		word = weft_get_be32(p + at) + (uint32_t)(r >> 40 & 7) - 4;
		weft_put_be32(p + at, r & 8 ? odd[r >> 4 & 7] : word);
		break;
	case 6:
		if (len - at < 2)
			break;
		weft_put_be16(p + at, (uint16_t)odd[r >> 3 & 7]);
		break;
	default: { /* a copy of a piece to another place */
		uint32_t from = (uint32_t)(r >> 32 & 0xffff) * len >> 16;
		uint32_t n = (uint32_t)(r >> 48 & 15) + 1, left = len - RTE_MAX(at, from);

		memmove(p + at, p + from, RTE_MIN(n, left));
		break;
	}
	}
}

/** Unchanged, truncated, or with a few more octets. */
static void
burst_one(const uint8_t *data, uint32_t size, uint64_t *x)
{
	uint64_t r = test_xorshift(x);
	uint32_t len = size, keep;
	uint8_t *p;

	if ((r & 7) == 0)
		len = (uint32_t)(r >> 8) % (size + 1);
	else if ((r & 15) == 1)
		len = size + (uint32_t)(r >> 8 & 31);
	keep = RTE_MIN(len, size);
	p = room + BURST_ROOM - len;
	memcpy(p, data, keep);
	for (uint32_t i = keep; i < len; i++)
		p[i] = size > 0 ? data[i % size] : (uint8_t)(r >> 16);
	for (uint64_t edits = 1 + (r >> 60 & 3); len > 0 && edits > 0; edits--)
		burst_edit(p, len, test_xorshift(x));
	if (fuzz_verbose()) {
		for (uint32_t i = 0; i < len; i++)
			fprintf(stderr, "%02x", p[i]);
		fputc('\n', stderr);
	}
	fuzz_one(p, len);
}

static void
burst_tell(void)
{
	fprintf(stderr, "stat::executions_in_bursts: %" PRIu64 "\n", executions);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint32_t len = (uint32_t)RTE_MIN(size, (size_t)BURST_ROOM / 2);
	uint64_t x = 0x9e3779b97f4a7c15ull + len;
	static bool alone;

	if (executions == 0) {
		atexit(burst_tell);
		alone = getenv("WEFT_FUZZ_ALONE") != NULL;
	}
	fuzz_one(data, size);
	executions++;
	if (alone)
		return 0;
	for (uint32_t i = 0; i < len; i++)
		x = (x ^ data[i]) * 0x100000001b3ull;
	x |= 1;
	for (unsigned int i = 0; i < FUZZ_VARIATIONS; i++)
		burst_one(data, len, &x);
	executions += FUZZ_VARIATIONS;
	return 0;
}
