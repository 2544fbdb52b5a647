/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Each client's share of the duplicate request cache, against a model. */

#include <string.h>

#include "rpcrdma_drc_share.h"
#include "weft_test.h"

#define CLIENTS      8
#define MODEL_MAX    48
#define MODEL_ROUNDS 20000

struct kept {
	struct drc_kept k; /* first member */
	unsigned int who;
	unsigned int number; /* number of this call of its client */
	bool in;
};

/* Random clients and calls: the table never exceeds its limit, and each client keeps at least
 * its latest max / clients replies. */
static void
shares(uint64_t seed)
{
	static struct kept all[MODEL_ROUNDS];
	unsigned int count[CLIENTS] = {0}, kept[CLIENTS] = {0}, clients, total = 0, of[2] = {0};
	/* Which clients are authenticated: none, all, the first, or every second. */
	const unsigned int known = (const unsigned int[]){0, ~0u, 1, 0x55}[seed / CLIENTS % 4];
	uint64_t rnd = seed * 2654435761u + 1;
	struct drc_shares s;

	clients = 1 + seed % CLIENTS;
	CHECK_EQ(drc_shares_init(&s, MODEL_MAX), 0);
	for (unsigned int i = 0; i < MODEL_ROUNDS; i++) {
		struct kept *k = &all[i], *v;
		uint8_t name;

		rnd = rnd * 6364136223846793005u + 1442695040888963407u;
		/* the first clients make the most calls */
		k->who = (rnd >> 33) % (1 + (rnd >> 50) % clients);
		k->number = count[k->who]++;
		k->in = true;
		name = (uint8_t)k->who;
		CHECK_EQ(drc_shares_keep(&s, known >> k->who & 1, &name, 1, seed % 2 ? k->who : 0,
		                         &k->k),
		         0);
		kept[k->who]++;
		of[known >> k->who & 1]++;
		total++;
		v = (struct kept *)drc_shares_victim(&s);
		CHECK_EQ(v != NULL, total > MODEL_MAX);
		if (v == NULL)
			continue;
		CHECK(v->in);
		/* Replies of unauthenticated clients are evicted down to a quarter, then those
		 * of the others. Among them, the client with the most replies loses one. */
		CHECK_EQ(known >> v->who & 1, of[0] <= MODEL_MAX / 4);
		for (unsigned int c = 0; c < clients; c++)
			CHECK((known >> c & 1) != (known >> v->who & 1) || kept[v->who] >= kept[c]);
		CHECK_EQ(v->number, count[v->who] - kept[v->who]); /* its oldest reply */
		if (of[0] == 0 || of[1] == 0)
			CHECK(v != k && kept[v->who] > MODEL_MAX / clients);
		of[known >> v->who & 1]--;
		drc_shares_drop(&s, &v->k);
		v->in = false;
		kept[v->who]--;
		total--;
	}
	for (unsigned int i = 0; i < MODEL_ROUNDS; i++)
		if (all[i].in)
			drc_shares_drop(&s, &all[i].k);
	CHECK_EQ(s.total, 0);
	CHECK(drc_shares_victim(&s) == NULL);
	drc_shares_fini(&s);
}

static void
test_model(void)
{
	if (test_seed_given()) {
		shares(test_seed(0));
		return;
	}
	for (uint64_t seed = 0; seed < 40; seed++) {
		test_seed_note(seed);
		shares(seed);
	}
}

WEFT_TEST_MAIN({"shares against a model", test_model})
