/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The duplicate request cache against hostile clients. Two calls are the same call only if
 * all their octets are the same, and no client's calls evict the replies of another client beyond
 * the shares.
 */

#include <string.h>

#include "rig.h"
#include "rpcrdma_priv.h"
#include "weft_test.h"

#define XID     0x77001
#define CLIENTS 3

static struct weft_rpc_drc *drc;
static struct rig rigs[CLIENTS];
static struct rig_answer ans;

/* One word from each side completes the authentication. */
static int
show(void *user, const uint8_t *in, uint32_t in_bytes, uint8_t *out, uint32_t *out_bytes)
{
	(void)user;
	(void)in_bytes;
	out[0] = 1;
	*out_bytes = 1;
	return in != NULL;
}

static const struct weft_rpc_auth shown = {.step = show};

static void
up(struct rig *r, const char *name)
{
	rig_up(r, &(struct rig_opts){.drc = drc, .programs = rig_count_programs, .random = 7});
	CHECK_EQ(weft_rpc_set_peer_name(r->s.rpc, name, (uint32_t)strlen(name)), 0);
}

/* Make a call. Returns the number of the execution whose result came: a new one, or an earlier
 * one. */
static uint32_t
move(struct rig *r, uint32_t xid, struct rig_move *mv, bool chunks)
{
	struct weft_rpc_call_attr c =
	        rig_count_call(mv, chunks ? &rig_count_binding : NULL, &ans, xid);

	memset(&ans, 0, sizeof(ans));
	CHECK_EQ(weft_rpc_call_with(r->c.rpc, &c), 0);
	rig_settle(r);
	CHECK_EQ(ans.n, 1);
	CHECK_EQ(ans.status, WEFT_RPC_OK);
	return ans.sum;
}

static uint32_t
small(struct rig *r, uint32_t xid)
{
	static char name[] = "n", data[4] = "abc";
	struct rig_move mv = {.data = data, .data_len = sizeof(data), .name = name};

	return move(r, xid, &mv, false);
}

/* A difference in any octet, of a message or of a chunk, makes another call. */
static void
test_every_octet(void)
{
	static char data[6001], name[] = "name";
	struct rig_move mv = {.data = data, .data_len = sizeof(data), .name = name};

	for (unsigned int chunks = 0; chunks < 2; chunks++) {
		CHECK_EQ(weft_rpc_drc_create(4096, &drc), 0);
		up(&rigs[0], "a");
		rig_ran = 0;
		rig_octets(data, sizeof(data), 3);
		CHECK_EQ(move(&rigs[0], XID, &mv, chunks), 1);
		for (unsigned int at = 0; at < sizeof(data); at += 1 + at % 61) {
			unsigned int before = rig_ran;

			data[at] ^= 1;
			CHECK_MSG(move(&rigs[0], XID, &mv, chunks) == before + 1,
			          "octet %u is not compared", at);
			data[at] ^= 1;
			CHECK_EQ(move(&rigs[0], XID, &mv, chunks), 1);
		}
		/* two octets whose changes cancel out in a plain sum; all zeros; a shorter call */
		for (unsigned int how = 0; how < 3; how++) {
			unsigned int before = rig_ran;

			if (how == 0)
				data[3000] ^= 5, data[3004] ^= 5;
			else
				memset(data, 0, sizeof(data));
			mv.data_len = sizeof(data) - (how == 2 ? 4 : 0);
			CHECK_EQ(move(&rigs[0], XID, &mv, chunks), before + 1);
		}
		mv.data_len = sizeof(data);
		rig_down(&rigs[0]);
		weft_rpc_drc_destroy(drc);
	}
}

/* One client makes calls all the time. The other clients keep at least a fair share of their
 * replies. */
static void
test_pushed_out(void)
{
	const uint32_t entries = 64, own = 16;
	uint32_t first[2][16];

	CHECK_EQ(weft_rpc_drc_create(entries, &drc), 0);
	up(&rigs[0], "honest");
	up(&rigs[1], "other");
	up(&rigs[2], "hostile");
	rig_ran = 0;
	for (uint32_t i = 0; i < own; i++)
		for (unsigned int c = 0; c < 2; c++)
			first[c][i] = small(&rigs[c], XID + i);
	for (uint32_t i = 0; i < 10 * entries; i++)
		(void)small(&rigs[2], i + 1);
	for (uint32_t i = 0; i < own; i++)
		for (unsigned int c = 0; c < 2; c++)
			CHECK_EQ(small(&rigs[c], XID + i), first[c][i]);
	for (unsigned int c = 0; c < 3; c++)
		rig_down(&rigs[c]);
	weft_rpc_drc_destroy(drc);
}

/* Many names of one peer share one share. */
static void
test_one_share(void)
{
	const uint32_t entries = 64;
	uint32_t first[32];
	char name[16];

	CHECK_EQ(weft_rpc_drc_create(entries, &drc), 0);
	up(&rigs[0], "honest");
	rig_ran = 0;
	for (uint32_t i = 0; i < 32; i++)
		first[i] = small(&rigs[0], XID + i);
	for (uint32_t i = 0; i < 4 * entries; i++) {
		snprintf(name, sizeof(name), "host %u", i);
		up(&rigs[1], name);
		CHECK_EQ(weft_rpc_set_peer_share(rigs[1].s.rpc, "net", 3), 0);
		(void)small(&rigs[1], i + 1);
		rig_down(&rigs[1]);
	}
	for (uint32_t i = 0; i < 32; i++)
		CHECK_EQ(small(&rigs[0], XID + i), first[i]);
	rig_down(&rigs[0]);
	weft_rpc_drc_destroy(drc);
}

/* Any number of unauthenticated clients with one call each leave an authenticated client three
 * quarters of the table. */
static void
test_strangers(void)
{
	const uint32_t entries = 64, own = 48;
	uint32_t first[48];
	char name[16];

	CHECK_EQ(weft_rpc_drc_create(entries, &drc), 0);
	rig_up(&rigs[0], &(struct rig_opts){.drc = drc,
	                                    .programs = rig_count_programs,
	                                    .random = 7,
	                                    .server_auth = &shown,
	                                    .client_auth = &shown});
	CHECK_EQ(weft_rpc_set_peer_name(rigs[0].s.rpc, "alice", 5), 0);
	rig_ran = 0;
	CHECK_EQ(small(&rigs[0], XID - 1), 1);
	CHECK(weft_rpcrdma_known(rigs[0].s.rpc));
	rig_ran = 0;
	for (uint32_t i = 0; i < own; i++)
		first[i] = small(&rigs[0], XID + i);
	for (uint32_t i = 0; i < 4 * entries; i++) {
		snprintf(name, sizeof(name), "10.0.0.%u", i);
		up(&rigs[1], name);
		(void)small(&rigs[1], i + 1);
		/* An unauthenticated client's own reply is still there for its repeated call. */
		CHECK_EQ(small(&rigs[1], i + 1), own + i + 1);
		rig_down(&rigs[1]);
	}
	for (uint32_t i = 0; i < own; i++)
		CHECK_EQ(small(&rigs[0], XID + i), first[i]);
	rig_down(&rigs[0]);
	weft_rpc_drc_destroy(drc);
}

WEFT_TEST_MAIN({"every octet of a call counts", test_every_octet},
               {"one client's calls push out no other's answers", test_pushed_out},
               {"many names with one share", test_one_share},
               {"strangers push out no answers of a client that is known", test_strangers})
