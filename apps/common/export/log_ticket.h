/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_LOG_TICKET_H
#define WEFT_APPS_LOG_TICKET_H

/**
 * @file The private data of the MPA Request and Reply with which a log connection begins
 * (docs/log-host.md): the ticket that OPEN_LOG issued, and the memory granted for it. Pure
 * functions, except for the hash driver of the proof.
 *
 * 	Request   "WLOG", 1, 1, 0, 0, ticket (16 octets),
 * 	          proof (32 octets; zeros of a client without a name)
 * 	Reply     "WLOG", 1, 2, status (2 octets), STag (4), rights (4),
 * 	          tagged offset (8), length (8)
 *
 * Numbers are big-endian. The Reply of a rejection ends after the status, a value of enum
 * weft_export_status.
 */

#include <stdbool.h>
#include <stdint.h>

#include "host_auth.h"

#define LOG_TICKET_BYTES       16
#define LOG_TICKET_VERSION     1
#define LOG_TICKET_ASK_BYTES   (8 + LOG_TICKET_BYTES + HOST_AUTH_PROOF_BYTES)
#define LOG_TICKET_REPLY_BYTES 32
#define LOG_TICKET_WHY_BYTES   8 /**< length of a rejection */

struct log_ticket_ask {
	uint8_t ticket[LOG_TICKET_BYTES];
	uint8_t proof[HOST_AUTH_PROOF_BYTES];
};

struct log_ticket_reply {
	uint16_t status; /**< weft_export_status; the members below are valid only when it is 0 */
	uint32_t stag, rights;
	uint64_t to, len_bytes;
};

void log_ticket_ask_encode(const struct log_ticket_ask *a, uint8_t out[LOG_TICKET_ASK_BYTES]);
/** 0; -ENOMSG: other private data, or none; -EPROTONOSUPPORT: another version; -EBADMSG:
 * malformed. */
int log_ticket_ask_decode(const uint8_t *in, uint32_t in_bytes, struct log_ticket_ask *a);
/** Returns the octets written; a rejection is shorter. */
uint16_t log_ticket_reply_encode(const struct log_ticket_reply *r,
                                 uint8_t out[LOG_TICKET_REPLY_BYTES]);
/** Errors as log_ticket_ask_decode(). */
int log_ticket_reply_decode(const uint8_t *in, uint32_t in_bytes, struct log_ticket_reply *r);
/**
 * Compute the proof that the user of a ticket has the key of the client that asked for it:
 * HMAC-SHA-256 by the client's key of "weft log ticket 1", the length of the name, the name, the
 * called place and the ticket. -ENOSYS.
 */
int log_ticket_proof(const struct host_auth_keys *keys, const char *name,
                     const struct host_auth_place *place, const uint8_t ticket[LOG_TICKET_BYTES],
                     uint8_t out[HOST_AUTH_PROOF_BYTES]);

#endif /* WEFT_APPS_LOG_TICKET_H */
