/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Staging memory: what is handed out, who waits, and how fair that is.
 */

#include <errno.h>
#include <stdlib.h>

#include "volume_rig.h"
#include "weft_staging.h"

#define PIECE 4096U

static unsigned int order;

struct want {
	struct weft_staging_req req;
	unsigned int granted; /**< its place in the order of grants; 0: not yet */
	uint64_t until;
};

static uint8_t *memory;

static struct weft_staging *
pool(unsigned int pieces, uint64_t max_req)
{
	struct weft_staging_attr a = {
	        .bytes = (uint64_t)pieces * PIECE, .piece_bytes = PIECE, .max_req_bytes = max_req};
	struct weft_staging *s;

	order = 0;
	CHECK(posix_memalign(&a.memory, 4096, a.bytes) == 0);
	memory = a.memory;
	CHECK_EQ(weft_staging_create(&a, &s), 0);
	return s;
}

static void
end(struct weft_staging *s)
{
	CHECK_EQ(weft_staging_destroy(s), 0);
	free(memory);
}

static void
on_granted(struct weft_staging_req *req)
{
	((struct want *)req->owner)->granted = ++order;
}

static int
want(struct weft_staging *s, struct want *w, struct weft_staging_client *c, uint64_t bytes)
{
	int r;

	*w = (struct want){.req = {.client = c, .bytes = bytes, .granted = on_granted, .owner = w}};
	r = weft_staging_get(s, &w->req);
	if (r == 0)
		w->granted = ++order;
	return r;
}

static uint64_t
sum(const struct weft_staging_req *req)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < req->iovs; i++)
		n += req->iov[i].iov_len;
	return n;
}

/** An owner that uses `bytes` for something else gives back what it was given. */
static void
test_changed(void)
{
	struct weft_staging_client c = {0};
	struct weft_staging *s = pool(8, 4 * PIECE);
	struct weft_staging_stats st;
	struct want w;

	weft_staging_client_init(&c);
	for (uint64_t bytes = 1; bytes <= 4 * PIECE; bytes += PIECE - 1) {
		CHECK_EQ(want(s, &w, &c, 2 * PIECE), 0);
		w.req.bytes = bytes;
		weft_staging_put(s, &w.req);
		CHECK_EQ(c.held_bytes, 0);
		weft_staging_query(s, &st);
		CHECK(st.clients == 0 && st.free_bytes == 8 * PIECE);
	}
	end(s);
}

static void
test_edges(void)
{
	struct weft_staging_attr a = {
	        .memory = (void *)PIECE, .bytes = 8 * PIECE, .piece_bytes = PIECE};
	struct weft_staging_client c = {0};
	struct weft_staging_stats st;
	struct weft_staging *s;
	struct want w[3];

#define REFUSED(change)                                                                            \
	do {                                                                                       \
		struct weft_staging_attr keep = a;                                                 \
		change;                                                                            \
		CHECK_EQ(weft_staging_create(&a, &s), -EINVAL);                                    \
		a = keep;                                                                          \
	} while (0)
	REFUSED(a.memory = NULL);
	REFUSED(a.memory = (void *)(PIECE + 512));
	REFUSED(a.bytes++);
	REFUSED(a.bytes = PIECE);
	REFUSED(a.piece_bytes = 2048);
	REFUSED(a.piece_bytes = 32U << 20);
	REFUSED(a.max_req_bytes = 5 * PIECE);
	REFUSED(a.max_req_bytes = PIECE + 1);
#undef REFUSED
	CHECK_EQ(weft_staging_create(NULL, &s), -EINVAL);
	CHECK_EQ(weft_staging_destroy(NULL), 0);
	s = pool(8, 0);
	CHECK_EQ(weft_staging_max_req(s), 4 * PIECE);
	weft_staging_client_init(&c);
	CHECK_EQ(want(s, &w[0], &c, 0), -EINVAL);
	CHECK_EQ(want(s, &w[0], NULL, 1), -EINVAL);
	CHECK_EQ(want(s, &w[0], &c, 4 * PIECE + 1), -EMSGSIZE);
	CHECK_EQ(want(s, &w[0], &c, 2 * PIECE + 5), 0);
	CHECK_EQ(weft_staging_get(s, &w[0].req), -EBUSY);
	CHECK(w[0].req.iovs == 1 && w[0].req.iov[0].iov_base == memory);
	CHECK_EQ(sum(&w[0].req), 2 * PIECE + 5);
	CHECK_EQ(c.held_bytes, 3 * PIECE);
	CHECK_EQ(want(s, &w[1], &c, 4 * PIECE), 0);
	CHECK_EQ(want(s, &w[2], &c, 2 * PIECE), -EINPROGRESS);
	CHECK_EQ(weft_staging_destroy(s), -EBUSY);
	CHECK_EQ(weft_staging_poll(s), 0);
	weft_staging_query(s, &st);
	CHECK(st.free_bytes == PIECE && st.waiting == 1 && st.clients == 1);
	/* scattered pieces are segments of their own */
	weft_staging_put(s, &w[0].req);
	CHECK_EQ(w[2].granted, 0);
	CHECK_EQ(weft_staging_poll(s), 1);
	CHECK(w[2].granted > 0 && sum(&w[2].req) == 2 * PIECE);
	/* one that waits gives up */
	CHECK_EQ(want(s, &w[0], &c, 4 * PIECE), -EINPROGRESS);
	weft_staging_put(s, &w[0].req);
	weft_staging_put(s, &w[0].req);
	weft_staging_put(s, &w[1].req);
	CHECK_EQ(weft_staging_poll(s), 0);
	CHECK_EQ(w[0].granted, 0);
	weft_staging_put(s, &w[2].req);
	weft_staging_query(s, &st);
	CHECK(st.free_bytes == 8 * PIECE && st.min_free_bytes == PIECE && st.waiting == 0 &&
	      st.clients == 0);
	end(s);
}

static void
test_turns(void)
{
	struct weft_staging_client a = {0}, b = {0}, c = {0};
	struct weft_staging *s = pool(8, 0);
	struct want w[8], y[2], z;

	weft_staging_client_init(&a);
	weft_staging_client_init(&b);
	weft_staging_client_init(&c);
	/* a has all; then b and c come, and a comes again */
	for (unsigned int i = 0; i < 8; i++)
		CHECK_EQ(want(s, &w[i], &a, PIECE), 0);
	CHECK_EQ(want(s, &y[0], &b, 3 * PIECE), -EINPROGRESS);
	CHECK_EQ(want(s, &y[1], &b, PIECE), -EINPROGRESS);
	CHECK_EQ(want(s, &z, &c, PIECE), -EINPROGRESS);
	for (unsigned int i = 0; i < 2; i++)
		weft_staging_put(s, &w[i].req);
	CHECK_EQ(want(s, &w[0], &a, PIECE), -EINPROGRESS);
	/* two pieces are free: b's first request needs three, and is not overtaken */
	CHECK_EQ(weft_staging_poll(s), 0);
	weft_staging_put(s, &w[2].req);
	CHECK_EQ(weft_staging_poll(s), 1);
	CHECK(y[0].granted > 0);
	/* a holds 5 of 8, more than a third: c, then b, come before it */
	weft_staging_put(s, &w[3].req);
	CHECK_EQ(weft_staging_poll(s), 1);
	CHECK(z.granted > 0 && y[1].granted == 0);
	weft_staging_put(s, &w[4].req);
	weft_staging_put(s, &y[0].req);
	CHECK_EQ(weft_staging_poll(s), 1);
	CHECK(y[1].granted > 0 && w[0].granted == 0);
	weft_staging_put(s, &w[5].req);
	CHECK_EQ(weft_staging_poll(s), 1);
	CHECK(w[0].granted > 0);
	weft_staging_put(s, &w[0].req);
	weft_staging_put(s, &w[6].req);
	weft_staging_put(s, &w[7].req);
	weft_staging_put(s, &y[1].req);
	weft_staging_put(s, &z.req);
	end(s);
}

/** 64 clients, of which some ask for much and some for little, for longer than the pool allows. */
static void
test_fair(void)
{
	enum { CLIENTS = 64, EACH = 6, ROUNDS = 20000 };
	static struct weft_staging_client c[CLIENTS];
	static struct want w[CLIENTS][EACH];
	static uint64_t got[CLIENTS];
	struct weft_staging *s = pool(128, 0);
	struct weft_staging_stats st;
	uint64_t seed = test_seed(1), all = 0;
	double sum1 = 0, sum2 = 0;
	bool used[128];

	test_seed_note(seed);
	for (unsigned int i = 0; i < CLIENTS; i++)
		weft_staging_client_init(&c[i]);
	memset(w, 0, sizeof(w));
	memset(got, 0, sizeof(got));
	for (uint64_t now = 1; now <= ROUNDS; now++) {
		/* a tenth of the clients is greedy: six requests at once, and each for long */
		for (unsigned int i = 0; i < CLIENTS; i++) {
			unsigned int many = i % 10 == 0 ? EACH : 2;

			for (unsigned int k = 0; k < many; k++) {
				struct want *x = &w[i][k];

				if (x->granted > 0 && x->until == 0)
					x->until = now + 1 + rig_draw(&seed, 8);
				if (x->until != 0 && x->until <= now) {
					got[i] += x->req.bytes;
					weft_staging_put(s, &x->req);
					memset(x, 0, sizeof(*x));
				}
				if (x->req.client == NULL)
					(void)want(s, x, &c[i], 2 * PIECE);
			}
		}
		(void)weft_staging_poll(s);
		/* no piece twice */
		if (now % 100 != 0)
			continue;
		memset(used, 0, sizeof(used));
		for (unsigned int i = 0; i < CLIENTS; i++) {
			for (unsigned int k = 0; k < EACH; k++) {
				for (uint32_t p = 0; p < w[i][k].req.npieces; p++) {
					CHECK(!used[w[i][k].req.pieces[p]]);
					used[w[i][k].req.pieces[p]] = true;
				}
			}
		}
	}
	for (unsigned int i = 0; i < CLIENTS; i++) {
		all += got[i];
		sum1 += (double)got[i];
		sum2 += (double)got[i] * (double)got[i];
		for (unsigned int k = 0; k < EACH; k++) {
			if (w[i][k].req.client != NULL)
				weft_staging_put(s, &w[i][k].req);
		}
	}
	weft_staging_query(s, &st);
	test_note("%u octets each, Jain's index %.4f, %u of %u grants waited",
	          (unsigned int)(all / CLIENTS), sum1 * sum1 / (CLIENTS * sum2),
	          (unsigned int)st.waits, (unsigned int)st.grants);
	CHECK(sum1 * sum1 / (CLIENTS * sum2) >= 0.9);
	CHECK(all > (uint64_t)ROUNDS * 128 * PIECE / 8);
	CHECK(st.free_bytes == 128 * PIECE && st.min_free_bytes == 0);
	end(s);
}

WEFT_TEST_MAIN({"a length that the owner changes", test_changed}, {"edges", test_edges},
               {"turns", test_turns}, {"fair", test_fair})
