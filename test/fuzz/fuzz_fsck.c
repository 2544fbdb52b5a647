/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file weft-fsck's examination of a medium that another program has written to. The input: the
 * format, the medium that it begins with, what is done at the end (CRC of the first page made
 * right, cut), and changes: an offset, a length, octets. Data is never written, and a second
 * examination agrees.
 */

#include <isa-l.h>

#include "fsck_rig.h"
#include "fuzz.h"
#include <weft/byteorder.h>

#define MEDIA      3
#define MAX_CHANGE 64

/** What the changes begin with: made once. */
static struct rig_medium media[3][MEDIA];
static struct rig_facts facts[3][MEDIA];

static void
make(unsigned int format, unsigned int i)
{
	uint64_t seed = 4711 + 3 * i + format;

	if (media[format][i].medium.bytes != 0)
		return;
	if (format == 0)
		rig_object(&media[format][i], &facts[format][i], &seed);
	else if (format == 1)
		rig_log(&media[format][i], &facts[format][i], &seed);
	else
		rig_volume(&media[format][i], &facts[format][i], &seed);
}

static uint64_t
run(struct rig_medium *r, bool repair, struct fsck_result *res)
{
	const struct fsck_options o = {.repair = repair, .data = true};
	int rc = fsck_run(&r->medium, &o, res);

	FUZZ_CHECK((rc == 0) == (res->reason[0] == '\0'));
	FUZZ_CHECK(repair || r->writes == 0);
	return res->count[FSCK_LEFT];
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rig_medium r, damaged;
	struct fsck_result first, res;
	unsigned int format, i, end;
	uint64_t left;

	if (size < 3)
		return 0;
	test_bail_aborts = true;
	test_eal_init();
	format = data[0] % 3;
	i = data[1] % MEDIA;
	end = data[2];
	make(format, i);
	rig_copy(&r, &media[format][i]);
	for (data += 3, size -= 3; size >= 4;) {
		const uint64_t off = ((uint64_t)data[0] << 16 | (uint64_t)data[1] << 8 | data[2]) %
		                     (r.medium.bytes - MAX_CHANGE);
		size_t len = data[3] % MAX_CHANGE;

		len = len < size - 4 ? len : size - 4;
		rig_put(&r, off, data + 4, len);
		data += 4 + len;
		size -= 4 + len;
	}
	if (end & 1) {
		uint8_t page[RIG_PAGE];

		rig_get(&r, 0, page, sizeof(page));
		weft_put_be32(page + sizeof(page) - 4,
		              ~crc32_iscsi(page, sizeof(page) - 4, UINT32_MAX));
		rig_put(&r, 0, page, sizeof(page));
	}
	if (end & 2)
		r.medium.bytes = r.medium.bytes * (end >> 2) / 64;
	rig_copy(&damaged, &r);
	left = run(&r, false, &first);
	FUZZ_CHECK(run(&r, true, &res) == left);
	FUZZ_CHECK(res.count[FSCK_CAN_MEND] == 0 &&
	           res.count[FSCK_MENDED] >= first.count[FSCK_CAN_MEND]);
	if (!(end & 1))
		FUZZ_CHECK(rig_equal(&r, &damaged, facts[format][i].data_at,
		                     facts[format][i].data_end));
	r.writes = 0;
	FUZZ_CHECK(run(&r, false, &res) == left && res.count[FSCK_CAN_MEND] == 0);
	rig_free(&r);
	rig_free(&damaged);
	return 0;
}
