/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NVMF_TLS_RECORD_H
#define NVMF_TLS_RECORD_H

/**
 * @file Where records of TLS begin and end in the octets that have come (RFC 8446 s5.1), and how
 * long the messages of a handshake say that they are (s4): libssl tells neither. Any octets may be
 * given. Any thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NVMF_TLS_RECORD_HEAD  5U
#define NVMF_TLS_MESSAGE_HEAD 4U

/** All zero: nothing has come. */
struct nvmf_tls_record {
	uint8_t head[NVMF_TLS_RECORD_HEAD];
	uint8_t have;   /**< octets of head; 0: between two records */
	uint32_t left;  /**< of the record, behind its head */
	uint64_t whole; /**< records that have come whole */
	uint8_t message[NVMF_TLS_MESSAGE_HEAD];
	uint8_t message_have;  /**< octets of it */
	uint32_t message_left; /**< of the message, behind its head */
	uint32_t longest;      /**< length of a message in the clear, as its head says */
};

/** Octets have come. */
void nvmf_tls_record_look(struct nvmf_tls_record *r, const uint8_t *p, size_t bytes);
/** Whether a record has come in part. */
static inline bool
nvmf_tls_record_partial(const struct nvmf_tls_record *r)
{
	return r->have > 0;
}

#endif /* NVMF_TLS_RECORD_H */
