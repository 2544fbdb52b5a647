/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Records: see nvmf_tls_record.h.
 */

#include <string.h>

#include "nvmf_tls_record.h"

#define RECORD_HANDSHAKE 22U

/** Fill a head. Returns how many octets it took. */
static size_t
record_head(uint8_t *head, uint8_t *have, size_t size, const uint8_t *p, size_t bytes)
{
	const size_t n = bytes < size - *have ? bytes : size - *have;

	memcpy(head + *have, p, n);
	*have = (uint8_t)(*have + n);
	return n;
}

/** Octets of messages, which begin anywhere in a record. */
static void
record_messages(struct nvmf_tls_record *r, const uint8_t *p, size_t bytes)
{
	while (bytes > 0) {
		size_t n = r->message_left;

		if (n == 0) {
			n = record_head(r->message, &r->message_have, sizeof(r->message), p, bytes);
			if (r->message_have == sizeof(r->message)) {
				r->message_have = 0;
				r->message_left = (uint32_t)r->message[1] << 16 |
				                  (uint32_t)r->message[2] << 8 | r->message[3];
				if (r->message_left > r->longest)
					r->longest = r->message_left;
			}
		} else {
			n = n < bytes ? n : bytes;
			r->message_left -= (uint32_t)n;
		}
		p += n;
		bytes -= n;
	}
}

void
nvmf_tls_record_look(struct nvmf_tls_record *r, const uint8_t *p, size_t bytes)
{
	while (bytes > 0) {
		size_t n;

		if (r->have < sizeof(r->head)) {
			n = record_head(r->head, &r->have, sizeof(r->head), p, bytes);
			r->left = (uint32_t)r->head[3] << 8 | r->head[4];
		} else {
			n = bytes < r->left ? bytes : r->left;
			if (r->head[0] == RECORD_HANDSHAKE)
				record_messages(r, p, n);
			r->left -= (uint32_t)n;
		}
		p += n;
		bytes -= n;
		if (r->have == sizeof(r->head) && r->left == 0) {
			r->have = 0;
			r->whole++;
		}
	}
}
