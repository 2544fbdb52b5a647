/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The text of every Terminate code of the registries (RFC 6580 s3.1-3.3, RFC 6581 s8, RFC
 * 7306 s8.2). */

#include "weft_test.h"
#include <weft/verbs.h>

/* clang-format off */
static const struct {
	uint8_t layer, etype, code;
	const char *text;
} rows[] = {
	{0, 0, 0x00, "RDMA layer: local error: local catastrophic error"},
	{0, 0, 0x01, "RDMA layer: local error: local catastrophic error"},
	{0, 0, 0xff, "RDMA layer: local error: local catastrophic error"},
	{0, 1, 0x00, "RDMA layer: remote protection error: invalid STag"},
	{0, 1, 0x01, "RDMA layer: remote protection error: base or bounds violation"},
	{0, 1, 0x02, "RDMA layer: remote protection error: access rights violation"},
	{0, 1, 0x03, "RDMA layer: remote protection error: STag not associated with the stream"},
	{0, 1, 0x04, "RDMA layer: remote protection error: tagged offset wraps"},
	{0, 1, 0x05, "RDMA layer: remote protection error: code 0x05"},
	{0, 1, 0x09, "RDMA layer: remote protection error: STag cannot be invalidated"},
	{0, 1, 0xff, "RDMA layer: remote protection error: unspecified"},
	{0, 2, 0x00, "RDMA layer: remote operation error: code 0x00"},
	{0, 2, 0x05, "RDMA layer: remote operation error: invalid RDMAP version"},
	{0, 2, 0x06, "RDMA layer: remote operation error: unexpected opcode"},
	{0, 2, 0x07, "RDMA layer: remote operation error: catastrophic, this stream"},
	{0, 2, 0x08, "RDMA layer: remote operation error: catastrophic, all streams"},
	{0, 2, 0x09, "RDMA layer: remote operation error: STag cannot be invalidated"},
	{0, 2, 0x0a, "RDMA layer: remote operation error: flush failed"},
	{0, 2, 0x0b, "RDMA layer: remote operation error: hash mismatch"},
	{0, 2, 0x0c, "RDMA layer: remote operation error: verify could not read the medium"},
	{0, 2, 0xff, "RDMA layer: remote operation error: unspecified"},
	{0, 3, 0x00, "RDMA layer: unknown type: code 0x00"},
	{1, 0, 0x00, "DDP layer: local error: local catastrophic error"},
	{1, 0, 0x01, "DDP layer: local error: code 0x01"},
	{1, 1, 0x00, "DDP layer: tagged buffer error: invalid STag"},
	{1, 1, 0x01, "DDP layer: tagged buffer error: base or bounds violation"},
	{1, 1, 0x02, "DDP layer: tagged buffer error: STag not associated with the stream"},
	{1, 1, 0x03, "DDP layer: tagged buffer error: tagged offset wraps"},
	{1, 1, 0x04, "DDP layer: tagged buffer error: invalid DDP version"},
	{1, 2, 0x00, "DDP layer: untagged buffer error: code 0x00"},
	{1, 2, 0x01, "DDP layer: untagged buffer error: invalid queue number"},
	{1, 2, 0x02,
	 "DDP layer: untagged buffer error: "
	 "no buffer: no receive posted, or more requests than IRD"},
	{1, 2, 0x03, "DDP layer: untagged buffer error: message sequence number out of range"},
	{1, 2, 0x04, "DDP layer: untagged buffer error: invalid message offset"},
	{1, 2, 0x05, "DDP layer: untagged buffer error: message longer than the receive"},
	{1, 2, 0x06, "DDP layer: untagged buffer error: invalid DDP version"},
	{1, 3, 0x00, "DDP layer: lower layer error: reserved for the layer below"},
	{1, 3, 0x7f, "DDP layer: lower layer error: reserved for the layer below"},
	{2, 0, 0x00, "MPA layer: stream error: code 0x00"},
	{2, 0, 0x01, "MPA layer: stream error: stream closed"},
	{2, 0, 0x02, "MPA layer: stream error: CRC error"},
	{2, 0, 0x03, "MPA layer: stream error: marker mismatch"},
	{2, 0, 0x04, "MPA layer: stream error: invalid start-up frame"},
	{2, 0, 0x05, "MPA layer: stream error: local catastrophic error"},
	{2, 0, 0x06, "MPA layer: stream error: insufficient IRD resources"},
	{2, 0, 0x07, "MPA layer: stream error: no matching RTR option"},
	{2, 1, 0x02, "MPA layer: unknown type: code 0x02"},
	{3, 0, 0x00, "?: unknown type: code 0x00"},
	{15, 15, 0xff, "?: unknown type: code 0xff"},
};
/* clang-format on */

static void
test_words(void)
{
	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct weft_terminate t = {
		        .layer = rows[i].layer, .etype = rows[i].etype, .code = rows[i].code};
		char text[128], small[8];

		CHECK_STR(weft_terminate_str(&t, text, sizeof(text)), rows[i].text);
		weft_terminate_str(&t, small, sizeof(small));
		CHECK(strlen(small) < sizeof(small));
	}
}

WEFT_TEST_MAIN({"every code in words", test_words})
