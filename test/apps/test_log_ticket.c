/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The private data that begin a log connection: complete or refused, and the proof. */

#include <errno.h>
#include <string.h>

#include "log_ticket.h"
#include "weft_test.h"

static void
test_ask(void)
{
	struct log_ticket_ask a, b;
	uint8_t octets[LOG_TICKET_ASK_BYTES + 1];

	memset(&a, 0x5a, sizeof(a));
	log_ticket_ask_encode(&a, octets);
	CHECK_EQ(memcmp(octets, "WLOG\1\1\0\0", 8), 0);
	CHECK_EQ(log_ticket_ask_decode(octets, LOG_TICKET_ASK_BYTES, &b), 0);
	CHECK_EQ(memcmp(&a, &b, sizeof(a)), 0);
	/* Every other length is refused, and no octet behind it is read. */
	for (uint32_t n = 0; n <= sizeof(octets); n++)
		if (n != LOG_TICKET_ASK_BYTES)
			CHECK_EQ(log_ticket_ask_decode(octets, n, &b), n < 4 ? -ENOMSG : -EBADMSG);
	for (unsigned int i = 0; i < 8; i++) {
		octets[i] ^= 0x10;
		CHECK_EQ(log_ticket_ask_decode(octets, LOG_TICKET_ASK_BYTES, &b),
		         i < 4    ? -ENOMSG
		         : i == 4 ? -EPROTONOSUPPORT
		                  : -EBADMSG);
		octets[i] ^= 0x10;
	}
}

static void
test_reply(void)
{
	const struct log_ticket_reply a = {
	        .stag = 0x01020304, .rights = 0x16, .to = 8, .len_bytes = 1ULL << 40};
	const struct log_ticket_reply no = {.status = 116};
	uint8_t octets[LOG_TICKET_REPLY_BYTES];
	struct log_ticket_reply b;

	CHECK_EQ(log_ticket_reply_encode(&a, octets), LOG_TICKET_REPLY_BYTES);
	CHECK_EQ(log_ticket_reply_decode(octets, sizeof(octets), &b), 0);
	CHECK_EQ(b.stag, a.stag);
	CHECK_EQ(b.rights, a.rights);
	CHECK_EQ(b.to, a.to);
	CHECK_EQ(b.len_bytes, a.len_bytes);
	CHECK_EQ(log_ticket_reply_decode(octets, sizeof(octets) - 1, &b), -EBADMSG);
	CHECK_EQ(log_ticket_reply_decode(octets, 0, &b), -ENOMSG);
	/* A request is not a reply. */
	octets[5] = 1;
	CHECK_EQ(log_ticket_reply_decode(octets, sizeof(octets), &b), -EBADMSG);
	CHECK_EQ(log_ticket_reply_encode(&no, octets), LOG_TICKET_WHY_BYTES);
	CHECK_EQ(log_ticket_reply_decode(octets, LOG_TICKET_WHY_BYTES, &b), 0);
	CHECK_EQ(b.status, 116);
	CHECK_EQ(b.stag, 0);
}

static void
test_proof(void)
{
	struct host_auth_keys keys, other;
	struct host_auth_place place, elsewhere;
	uint8_t ticket[LOG_TICKET_BYTES], one[HOST_AUTH_PROOF_BYTES], two[HOST_AUTH_PROOF_BYTES];

	memset(&keys, 1, sizeof(keys));
	memset(&other, 2, sizeof(other));
	memset(&place, 3, sizeof(place));
	memset(&elsewhere, 4, sizeof(elsewhere));
	memset(ticket, 5, sizeof(ticket));
	CHECK_EQ(log_ticket_proof(&keys, "alice", &place, ticket, one), 0);
	CHECK_EQ(log_ticket_proof(&keys, "alice", &place, ticket, two), 0);
	CHECK(host_auth_equal(one, two, sizeof(one)));
	/* Another key, name, address or ticket gives another proof. */
	CHECK_EQ(log_ticket_proof(&other, "alice", &place, ticket, two), 0);
	CHECK(!host_auth_equal(one, two, sizeof(one)));
	CHECK_EQ(log_ticket_proof(&keys, "alic", &place, ticket, two), 0);
	CHECK(!host_auth_equal(one, two, sizeof(one)));
	CHECK_EQ(log_ticket_proof(&keys, "alice", &elsewhere, ticket, two), 0);
	CHECK(!host_auth_equal(one, two, sizeof(one)));
	ticket[15] ^= 1;
	CHECK_EQ(log_ticket_proof(&keys, "alice", &place, ticket, two), 0);
	CHECK(!host_auth_equal(one, two, sizeof(one)));
}

WEFT_TEST_MAIN({"ask", test_ask}, {"reply", test_reply},
               {"proof: of key, name, place and ticket", test_proof})
