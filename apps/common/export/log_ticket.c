/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Codec of a log connection's private data. */

#include "log_ticket.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#include <weft/weft.h>

static const uint8_t ticket_magic[4] = {'W', 'L', 'O', 'G'};
static const char proof_of[] = "weft log ticket 1"; /* its 0 is hashed, too */

enum { KIND_ASK = 1, KIND_REPLY = 2 };

static void
head_encode(uint8_t *out, uint8_t kind, uint16_t status)
{
	memcpy(out, ticket_magic, sizeof(ticket_magic));
	out[4] = LOG_TICKET_VERSION;
	out[5] = kind;
	out[6] = (uint8_t)(status >> 8);
	out[7] = (uint8_t)status;
}

static int
head_decode(const uint8_t *in, uint32_t in_bytes, uint8_t kind, uint16_t *status)
{
	if (in_bytes < sizeof(ticket_magic) || memcmp(in, ticket_magic, sizeof(ticket_magic)) != 0)
		return -ENOMSG;
	if (in_bytes < 8 || in[5] != kind)
		return -EBADMSG;
	if (in[4] != LOG_TICKET_VERSION)
		return -EPROTONOSUPPORT;
	*status = (uint16_t)(in[6] << 8 | in[7]);
	return 0;
}

void
log_ticket_ask_encode(const struct log_ticket_ask *a, uint8_t out[LOG_TICKET_ASK_BYTES])
{
	head_encode(out, KIND_ASK, 0);
	memcpy(out + 8, a->ticket, LOG_TICKET_BYTES);
	memcpy(out + 8 + LOG_TICKET_BYTES, a->proof, HOST_AUTH_PROOF_BYTES);
}

int
log_ticket_ask_decode(const uint8_t *in, uint32_t in_bytes, struct log_ticket_ask *a)
{
	uint16_t zero;
	int rc = head_decode(in, in_bytes, KIND_ASK, &zero);

	if (rc != 0)
		return rc;
	if (in_bytes != LOG_TICKET_ASK_BYTES || zero != 0)
		return -EBADMSG;
	memcpy(a->ticket, in + 8, LOG_TICKET_BYTES);
	memcpy(a->proof, in + 8 + LOG_TICKET_BYTES, HOST_AUTH_PROOF_BYTES);
	return 0;
}

uint16_t
log_ticket_reply_encode(const struct log_ticket_reply *r, uint8_t out[LOG_TICKET_REPLY_BYTES])
{
	const uint32_t half[] = {htobe32(r->stag), htobe32(r->rights)};
	const uint64_t whole[] = {htobe64(r->to), htobe64(r->len_bytes)};

	head_encode(out, KIND_REPLY, r->status);
	if (r->status != 0)
		return LOG_TICKET_WHY_BYTES;
	memcpy(out + 8, half, sizeof(half));
	memcpy(out + 16, whole, sizeof(whole));
	return LOG_TICKET_REPLY_BYTES;
}

int
log_ticket_reply_decode(const uint8_t *in, uint32_t in_bytes, struct log_ticket_reply *r)
{
	uint32_t half[2];
	uint64_t whole[2];
	int rc;

	memset(r, 0, sizeof(*r));
	rc = head_decode(in, in_bytes, KIND_REPLY, &r->status);
	if (rc != 0 || r->status != 0)
		return rc;
	if (in_bytes != LOG_TICKET_REPLY_BYTES)
		return -EBADMSG;
	memcpy(half, in + 8, sizeof(half));
	memcpy(whole, in + 16, sizeof(whole));
	r->stag = be32toh(half[0]);
	r->rights = be32toh(half[1]);
	r->to = be64toh(whole[0]);
	r->len_bytes = be64toh(whole[1]);
	return 0;
}

int
log_ticket_proof(const struct host_auth_keys *keys, const char *name,
                 const struct host_auth_place *place, const uint8_t ticket[LOG_TICKET_BYTES],
                 uint8_t out[HOST_AUTH_PROOF_BYTES])
{
	const struct weft_hash_ops *hmac = weft_hash_find("hmac-sha256");
	uint8_t text[sizeof(proof_of) + 1 + HOST_AUTH_NAME_MAX + HOST_AUTH_PLACE_BYTES +
	             LOG_TICKET_BYTES];
	const size_t n = strnlen(name, HOST_AUTH_NAME_MAX);
	uint8_t *p = text;

	if (hmac == NULL || hmac->result_bytes != HOST_AUTH_PROOF_BYTES)
		return -ENOSYS;
	memcpy(p, proof_of, sizeof(proof_of));
	p += sizeof(proof_of);
	*p++ = (uint8_t)n;
	memcpy(p, name, n);
	p += n;
	memcpy(p, place->octets, HOST_AUTH_PLACE_BYTES);
	p += HOST_AUTH_PLACE_BYTES;
	memcpy(p, ticket, LOG_TICKET_BYTES);
	p += LOG_TICKET_BYTES;
	return weft_hash_once_keyed(hmac, keys->client, HOST_AUTH_KEY_BYTES, text,
	                            (size_t)(p - text), out);
}
