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
want_kind(struct weft_staging *s, struct want *w, struct weft_staging_client *c, uint64_t bytes,
          bool contiguous)
{
	int r;

	*w = (struct want){.req = {.client = c,
	                           .bytes = bytes,
	                           .contiguous = contiguous,
	                           .granted = on_granted,
	                           .owner = w}};
	r = weft_staging_get(s, &w->req);
	if (r == 0)
		w->granted = ++order;
	return r;
}

static int
want_lane(struct weft_staging *s, struct want *w, struct weft_staging_client *c,
          struct weft_staging_lane *lane, uint64_t bytes)
{
	int r;

	*w = (struct want){.req = {.client = c,
	                           .lane = lane,
	                           .bytes = bytes,
	                           .granted = on_granted,
	                           .owner = w}};
	r = weft_staging_get(s, &w->req);
	if (r == 0)
		w->granted = ++order;
	return r;
}

static int
want(struct weft_staging *s, struct want *w, struct weft_staging_client *c, uint64_t bytes)
{
	return want_kind(s, w, c, bytes, false);
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

/** A request for neighbours waits while there are only others, and is not overtaken. */
static void
test_neighbours(void)
{
	struct weft_staging_client a = {0}, b = {0};
	struct weft_staging *s = pool(8, 0);
	struct want w[8], y, z;

	weft_staging_client_init(&a);
	weft_staging_client_init(&b);
	/* the lowest pieces are for others */
	CHECK_EQ(want_kind(s, &y, &b, 3 * PIECE - 7, true), 0);
	CHECK(y.req.iovs == 1 && y.req.iov[0].iov_base == memory + 5 * PIECE);
	CHECK_EQ(y.req.iov[0].iov_len, 3 * PIECE - 7);
	weft_staging_put(s, &y.req);
	for (unsigned int i = 0; i < 8; i++) {
		CHECK_EQ(want(s, &w[i], &a, PIECE), 0);
		CHECK(w[i].req.iov[0].iov_base == memory + i * PIECE);
	}
	for (unsigned int i = 0; i < 8; i += 2)
		weft_staging_put(s, &w[i].req);
	CHECK_EQ(want_kind(s, &y, &b, 2 * PIECE, true), -EINPROGRESS);
	CHECK_EQ(want(s, &z, &b, PIECE), -EINPROGRESS);
	CHECK_EQ(want(s, &w[0], &a, PIECE), -EINPROGRESS);
	CHECK_EQ(weft_staging_poll(s), 0);
	weft_staging_put(s, &w[3].req);
	/* 0, 2, 3, 4 and 6 are free: 3 and 4 go, and then the two that waited behind */
	CHECK_EQ(weft_staging_poll(s), 3);
	CHECK(y.granted < w[0].granted && w[0].granted < z.granted);
	CHECK(y.req.iovs == 1 && y.req.iov[0].iov_base == memory + 3 * PIECE);
	CHECK(w[0].req.iov[0].iov_base == memory && z.req.iov[0].iov_base == memory + 2 * PIECE);
	/* a gap that it fills is better than a longer one: of 0, and 4 to 7, 0 */
	weft_staging_put(s, &y.req);
	weft_staging_put(s, &w[5].req);
	weft_staging_put(s, &w[7].req);
	weft_staging_put(s, &w[0].req);
	CHECK_EQ(weft_staging_poll(s), 0);
	CHECK_EQ(want_kind(s, &w[0], &a, PIECE, true), 0);
	CHECK(w[0].req.iov[0].iov_base == memory);
	weft_staging_put(s, &w[0].req);
	weft_staging_put(s, &w[1].req);
	weft_staging_put(s, &z.req);
	end(s);
}

/** A group at its limit takes no more, and holds up no others of its clients. */
static void
test_groups(void)
{
	struct weft_staging_group g = {.max_bytes = 4 * PIECE};
	struct weft_staging_client a = {0}, b = {0};
	struct weft_staging_lane ag, bg;
	struct weft_staging *s = pool(8, 0);
	struct want w[4], more, other, of_b, more_of_b;

	weft_staging_client_init(&a);
	weft_staging_client_init(&b);
	weft_staging_lane_init(&ag, &g);
	weft_staging_lane_init(&bg, &g);
	for (unsigned int i = 0; i < 4; i++)
		CHECK_EQ(want_lane(s, &w[i], &a, &ag, PIECE), 0);
	CHECK_EQ(g.held_bytes, 4 * PIECE);
	CHECK_EQ(want_lane(s, &more, &a, &ag, PIECE), -EINPROGRESS);
	CHECK_EQ(weft_staging_poll(s), 0);
	/* of the same client, and of another one */
	CHECK_EQ(want(s, &other, &a, PIECE), -EINPROGRESS);
	CHECK_EQ(weft_staging_poll(s), 1);
	CHECK(other.granted > 0);
	CHECK_EQ(want(s, &of_b, &b, PIECE), -EINPROGRESS);
	CHECK_EQ(want_lane(s, &more_of_b, &b, &bg, PIECE), -EINPROGRESS);
	CHECK_EQ(weft_staging_poll(s), 1);
	CHECK(of_b.granted > 0);
	/* the room of the group goes to the client that is below its share */
	weft_staging_put(s, &w[0].req);
	CHECK_EQ(weft_staging_poll(s), 1);
	CHECK(more_of_b.granted > 0 && more.granted == 0);
	CHECK_EQ(g.held_bytes, 4 * PIECE);
	weft_staging_put(s, &more.req); /* it waits no longer */
	for (unsigned int i = 1; i < 4; i++)
		weft_staging_put(s, &w[i].req);
	weft_staging_put(s, &other.req);
	weft_staging_put(s, &of_b.req);
	weft_staging_put(s, &more_of_b.req);
	CHECK_EQ(g.held_bytes, 0);
	/* what it may never have */
	g.max_bytes = 2 * PIECE;
	CHECK_EQ(want_lane(s, &more, &a, &ag, 2 * PIECE + 1), -EMSGSIZE);
	CHECK_EQ(want_lane(s, &more, &a, &ag, 2 * PIECE), 0);
	weft_staging_put(s, &more.req);
	end(s);
}

/** A long request that waits for its group's memory is not overtaken in its group, and holds up no
 * other group. */
static void
test_long_of_group(void)
{
	struct weft_staging_group g = {.max_bytes = 4 * PIECE};
	struct weft_staging_client a = {0}, b = {0}, c = {0};
	struct weft_staging_lane ag, bg, cg;
	struct weft_staging *s = pool(8, 4 * PIECE);
	struct want held, longest, shorter, other;

	weft_staging_client_init(&a);
	weft_staging_client_init(&b);
	weft_staging_client_init(&c);
	weft_staging_lane_init(&ag, &g);
	weft_staging_lane_init(&bg, &g);
	weft_staging_lane_init(&cg, &g);
	CHECK_EQ(want_lane(s, &held, &a, &ag, PIECE), 0);
	CHECK_EQ(want_lane(s, &longest, &b, &bg, 4 * PIECE), -EINPROGRESS);
	for (unsigned int i = 0; i < 8; i++) {
		CHECK_EQ(want_lane(s, &shorter, &c, &cg, PIECE), -EINPROGRESS);
		CHECK_EQ(weft_staging_poll(s), 0);
		weft_staging_put(s, &shorter.req);
	}
	CHECK_EQ(want_lane(s, &shorter, &c, &cg, PIECE), -EINPROGRESS);
	CHECK_EQ(want(s, &other, &c, 2 * PIECE), -EINPROGRESS);
	CHECK_EQ(weft_staging_poll(s), 1);
	CHECK(other.granted > 0);
	weft_staging_put(s, &held.req);
	CHECK_EQ(weft_staging_poll(s), 1);
	CHECK(longest.granted > 0 && shorter.granted == 0);
	weft_staging_put(s, &longest.req);
	CHECK_EQ(weft_staging_poll(s), 1);
	CHECK(shorter.granted > 0);
	weft_staging_put(s, &shorter.req);
	weft_staging_put(s, &other.req);
	end(s);
}

/* ---- A device that keeps what it has ---- */

enum { HUNG_REQS = 256 };

/** Random requests of two groups, each of which may have half. Then one of them keeps all that it
 * has. What the other one's clients ask for is there when that one's others have ended. */
static uint64_t
hung_run(uint64_t seed, unsigned int pieces, unsigned int longest, unsigned int most,
         bool contiguous)
{
	static struct want w[HUNG_REQS];
	struct weft_staging_group g[2] = {{0}};
	struct weft_staging_client c[4];
	struct weft_staging_lane lane[4][2];
	struct weft_staging *s = pool(pieces, (uint64_t)longest * PIECE);
	struct want last[2];
	unsigned int ended;
	uint64_t held;

	for (unsigned int i = 0; i < 4; i++) {
		c[i].owner = NULL;
		weft_staging_client_init(&c[i]);
		for (unsigned int k = 0; k < 2; k++) {
			g[k].max_bytes = pieces / 2 * (uint64_t)PIECE;
			weft_staging_lane_init(&lane[i][k], &g[k]);
		}
	}
	memset(w, 0, sizeof(w));
	for (unsigned int step = 0; step < 20000; step++) {
		struct want *x = &w[rig_draw(&seed, HUNG_REQS)];
		const unsigned int i = (unsigned int)rig_draw(&seed, 4);

		if (x->req.client == NULL) {
			*x = (struct want){.req = {.client = &c[i],
			                           .lane = &lane[i][rig_draw(&seed, 2)],
			                           .bytes = (1 + rig_draw(&seed, most)) * PIECE,
			                           .contiguous = contiguous,
			                           .granted = on_granted,
			                           .owner = x}};
			if (weft_staging_get(s, &x->req) == 0)
				x->granted = 1;
		} else if (x->granted > 0) {
			weft_staging_put(s, &x->req);
			x->req.client = NULL;
		}
		(void)weft_staging_poll(s);
		for (unsigned int k = 0; k < 2; k++)
			CHECK(g[k].held_bytes <= g[k].max_bytes);
	}
	/* Group 1 keeps what it has and gets, and its owner says so. All of group 0 that waits has
	 * its turn. */
	held = g[1].held_bytes;
	do {
		ended = 0;
		for (unsigned int i = 0; i < HUNG_REQS; i++) {
			if (w[i].req.client == NULL || w[i].granted == 0)
				continue;
			if (w[i].req.lane->group == &g[1]) {
				weft_staging_set_apart(s, &w[i].req);
				continue;
			}
			weft_staging_put(s, &w[i].req);
			w[i].req.client = NULL;
			ended++;
		}
		ended += weft_staging_poll(s);
	} while (ended > 0);
	for (unsigned int i = 0; i < HUNG_REQS; i++)
		CHECK(w[i].req.client == NULL || w[i].req.lane->group == &g[1]);
	for (unsigned int k = 0; k < 2; k++) {
		struct want *x = &last[k];

		/* The longest request, of each client that waits for the hung device, too. */
		*x = (struct want){.req = {.client = &c[k],
		                           .lane = &lane[k][0],
		                           .bytes = (uint64_t)longest * PIECE,
		                           .contiguous = true,
		                           .granted = on_granted,
		                           .owner = x}};
		if (weft_staging_get(s, &x->req) == 0)
			x->granted = 1;
		(void)weft_staging_poll(s);
		CHECK(x->granted > 0);
		weft_staging_put(s, &x->req);
	}
	for (unsigned int i = 0; i < HUNG_REQS; i++)
		if (w[i].req.client != NULL)
			weft_staging_put(s, &w[i].req);
	CHECK(g[0].held_bytes == 0 && g[1].held_bytes == 0);
	for (unsigned int k = 0; k < 2; k++) {
		CHECK(g[k].areas.nareas == 0 && LIST_EMPTY(&g[k].held));
		for (unsigned int i = 0; i < WEFT_STAGING_AREAS; i++)
			CHECK_EQ(g[k].areas.pieces[i], 0);
	}
	for (unsigned int i = 0; i < 4; i++)
		CHECK(c[i].held_bytes == 0 && c[i].apart_bytes == 0 && c[i].nwaiting == 0);
	end(s);
	return held;
}

static void
test_hung(void)
{
	static const unsigned int pieces[] = {2, 7, 33, 64, 100, 128, 512, 2048};
	const uint64_t seed = test_seed(1);
	uint64_t held = 0;

	test_seed_note(seed);
	for (unsigned int i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
		const unsigned int longest = pieces[i] / 2 < 16 ? pieces[i] / 2 : 16;

		for (unsigned int run = 0; run < 8; run++)
			held += hung_run(seed + run, pieces[i], longest, run % 2 == 0 ? 1 : longest,
			                 run % 4 < 2);
	}
	CHECK(held > 0);
}

/** What a device keeps is no part of its client's share, when it was set apart. */
static void
test_apart(void)
{
	struct weft_staging_client a = {0}, b = {0};
	struct weft_staging *s = pool(16, 4 * PIECE);
	struct want hung[2], of_b, w[2];

	weft_staging_client_init(&a);
	weft_staging_client_init(&b);
	CHECK_EQ(want(s, &of_b, &b, PIECE), 0);
	for (unsigned int i = 0; i < 2; i++)
		CHECK_EQ(want(s, &hung[i], &a, 4 * PIECE), 0);
	/* a has half of the pool, which is its share */
	CHECK_EQ(want(s, &w[0], &a, PIECE), -EINPROGRESS);
	CHECK_EQ(weft_staging_poll(s), 0);
	weft_staging_set_apart(s, &w[0].req); /* it holds nothing */
	CHECK_EQ(weft_staging_poll(s), 0);
	weft_staging_set_apart(s, &hung[0].req);
	weft_staging_set_apart(s, &hung[0].req);
	CHECK(a.held_bytes == 4 * PIECE && a.apart_bytes == 4 * PIECE);
	CHECK_EQ(weft_staging_poll(s), 1);
	CHECK(w[0].granted > 0);
	weft_staging_put(s, &hung[0].req);
	CHECK(a.held_bytes == 5 * PIECE && a.apart_bytes == 0);
	/* the same request again is a part of the share */
	CHECK_EQ(weft_staging_get(s, &hung[0].req), 0);
	CHECK_EQ(a.held_bytes, 9 * PIECE);
	weft_staging_put(s, &hung[0].req);
	weft_staging_put(s, &hung[1].req);
	weft_staging_put(s, &w[0].req);
	weft_staging_put(s, &of_b.req);
	CHECK(a.held_bytes == 0 && a.apart_bytes == 0);
	end(s);
}

/* ---- Random requests against a model ---- */

enum { MODEL_CLIENTS = 5, MODEL_REQS = 12, MODEL_PIECES = 300 };

static struct {
	struct weft_staging_client c[MODEL_CLIENTS];
	struct want w[MODEL_CLIENTS][MODEL_REQS];
	struct want *queue[MODEL_CLIENTS][MODEL_REQS]; /**< those of a client that wait */
	unsigned int nqueue[MODEL_CLIENTS], nheld[MODEL_CLIENTS];
	unsigned int turns[MODEL_CLIENTS], nturns;
	bool used[MODEL_PIECES];
	unsigned int pieces;
	uint64_t seed, grants, split; /**< split: waits although enough pieces were free */
} m;

static unsigned int
model_count(const struct want *w)
{
	return (unsigned int)((w->req.bytes + PIECE - 1) / PIECE);
}

static bool
model_fits(const struct want *w)
{
	unsigned int nfree = 0, run = 0, longest = 0;

	for (unsigned int i = 0; i < m.pieces; i++) {
		nfree += !m.used[i];
		run = m.used[i] ? 0 : run + 1;
		longest = run > longest ? run : longest;
	}
	m.split += nfree >= model_count(w) && w->req.contiguous && longest < model_count(w);
	return (w->req.contiguous ? longest : nfree) >= model_count(w);
}

static bool
model_has_share(unsigned int c)
{
	unsigned int clients = 0;

	for (unsigned int i = 0; i < MODEL_CLIENTS; i++)
		clients += m.nqueue[i] > 0 || m.nheld[i] > 0;
	return m.nheld[c] == 0 || m.nheld[c] < (double)m.pieces / clients;
}

/** The request whose turn it is; NULL: none. */
static struct want *
model_next(void)
{
	for (unsigned int i = 0; i < m.nturns; i++)
		if (model_has_share(m.turns[i]))
			return m.queue[m.turns[i]][0];
	return NULL;
}

static void
model_turn_over(unsigned int c)
{
	unsigned int i = 0;

	while (m.turns[i] != c)
		i++;
	m.nturns--;
	memmove(&m.turns[i], &m.turns[i + 1], (m.nturns - i) * sizeof(m.turns[0]));
}

static void
model_unwait(struct want *w, bool granted)
{
	const unsigned int c = (unsigned int)(w->req.client - m.c);
	unsigned int i = 0;

	while (m.queue[c][i] != w)
		i++;
	m.nqueue[c]--;
	memmove(&m.queue[c][i], &m.queue[c][i + 1], (m.nqueue[c] - i) * sizeof(m.queue[c][0]));
	if (m.nqueue[c] == 0 || granted)
		model_turn_over(c);
	if (m.nqueue[c] > 0 && granted)
		m.turns[m.nturns++] = c;
}

/** Memory that was handed out: in the pool, of no other request, as long as asked for, and in one
 * piece if that was asked for. */
static void
model_take(struct want *w)
{
	const unsigned int c = (unsigned int)(w->req.client - m.c), n = model_count(w);
	unsigned int pieces = 0;

	CHECK_EQ(sum(&w->req), w->req.bytes);
	CHECK(!w->req.contiguous || w->req.iovs == 1);
	for (uint32_t i = 0; i < w->req.iovs; i++) {
		const uint64_t at = (uint64_t)((uint8_t *)w->req.iov[i].iov_base - memory);
		const uint64_t len = w->req.iov[i].iov_len;

		CHECK(at % PIECE == 0 && at + len <= (uint64_t)m.pieces * PIECE);
		CHECK(i + 1 == w->req.iovs || len % PIECE == 0);
		for (uint64_t k = at / PIECE; k <= (at + len - 1) / PIECE; k++, pieces++) {
			CHECK(!m.used[k]);
			m.used[k] = true;
		}
	}
	CHECK_EQ(pieces, n);
	w->granted = 1;
	m.nheld[c] += n;
	m.grants++;
}

static void
model_granted(struct weft_staging_req *req)
{
	struct want *w = req->owner;

	CHECK(model_next() == w);
	CHECK(model_fits(w));
	model_unwait(w, true);
	model_take(w);
}

static void
model_get(struct weft_staging *s, struct want *w, unsigned int c, unsigned int most)
{
	const uint64_t pieces = 1 + rig_draw(&m.seed, 1 + rig_draw(&m.seed, most));
	bool now;

	*w = (struct want){.req = {.client = &m.c[c],
	                           .bytes = pieces * PIECE - rig_draw(&m.seed, PIECE),
	                           .contiguous = rig_draw(&m.seed, 2) == 0,
	                           .granted = model_granted,
	                           .owner = w}};
	m.nqueue[c]++; /* a client for its share */
	now = m.nturns == 0 && model_has_share(c) && model_fits(w);
	m.nqueue[c]--;
	CHECK_EQ(weft_staging_get(s, &w->req), now ? 0 : -EINPROGRESS);
	if (now) {
		model_take(w);
		return;
	}
	m.queue[c][m.nqueue[c]] = w;
	if (m.nqueue[c]++ == 0)
		m.turns[m.nturns++] = c;
}

static void
model_put(struct weft_staging *s, struct want *w)
{
	const unsigned int c = (unsigned int)(w->req.client - m.c);

	if (w->granted == 0) {
		model_unwait(w, false);
	} else {
		for (uint32_t i = 0; i < w->req.npieces; i++)
			m.used[w->req.pieces[i]] = false;
		m.nheld[c] -= w->req.npieces;
	}
	weft_staging_put(s, &w->req);
	w->req.client = NULL;
}

/** Everything that is held is given back: the one whose turn it is gets its memory. */
static void
model_put_all(struct weft_staging *s)
{
	unsigned int waited;

	for (unsigned int c = 0; c < MODEL_CLIENTS; c++)
		for (unsigned int i = 0; i < MODEL_REQS; i++)
			if (m.w[c][i].req.client != NULL && m.w[c][i].granted > 0)
				model_put(s, &m.w[c][i]);
	waited = m.nturns;
	CHECK_EQ(weft_staging_poll(s) > 0, waited > 0);
}

static void
test_model(void)
{
	const uint64_t seed = test_seed(1);
	uint64_t grants = 0, split = 0;

	test_seed_note(seed);
	for (unsigned int run = 0; run < 60; run++) {
		struct weft_staging *s;
		struct weft_staging_stats st;
		unsigned int most;

		memset(&m, 0, sizeof(m));
		m.seed = seed + run;
		m.pieces = 2 + (unsigned int)rig_draw(&m.seed, MODEL_PIECES - 1);
		most = m.pieces / 2 < 64 ? m.pieces / 2 : 64;
		s = pool(m.pieces, 0);
		for (unsigned int i = 0; i < MODEL_CLIENTS; i++)
			weft_staging_client_init(&m.c[i]);
		for (unsigned int step = 0; step < 4000; step++) {
			const unsigned int c = (unsigned int)rig_draw(&m.seed, MODEL_CLIENTS);
			struct want *w = &m.w[c][rig_draw(&m.seed, MODEL_REQS)];

			if (w->req.client == NULL)
				model_get(s, w, c, most);
			else if (w->granted > 0 || rig_draw(&m.seed, 16) == 0)
				model_put(s, w);
			if (rig_draw(&m.seed, 2) == 0)
				continue;
			(void)weft_staging_poll(s);
			w = model_next();
			CHECK(w == NULL || !model_fits(w));
			if (rig_draw(&m.seed, 200) == 0)
				model_put_all(s);
		}
		while (m.nturns > 0)
			model_put_all(s);
		model_put_all(s);
		weft_staging_query(s, &st);
		CHECK(st.free_bytes == (uint64_t)m.pieces * PIECE && st.waiting == 0);
		grants += m.grants;
		split += m.split;
		end(s);
	}
	test_note("%u grants; %u looks found enough pieces and no neighbours", (unsigned int)grants,
	          (unsigned int)split);
	CHECK(grants > 10000 && split > 1000);
}

/** Two pieces; with neighbours one to three, so that gaps of one are left. */
static void
fair_want(struct weft_staging *s, struct want *w, struct weft_staging_client *c,
          unsigned int of_ten, uint64_t *seed)
{
	const uint64_t pieces = of_ten > 0 ? 1 + rig_draw(seed, 3) : 2;

	(void)want_kind(s, w, c, pieces * PIECE, rig_draw(seed, 10) < of_ten);
}

/** 64 clients, of which some ask for much and some for little, for longer than the pool allows.
 * of_ten: so many of their requests want neighbours. */
static void
fair(unsigned int of_ten)
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
					fair_want(s, x, &c[i], of_ten, &seed);
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
	test_note(
	        "%u of ten in one piece: %u octets each, Jain's index %.4f, %u of %u grants waited",
	        of_ten, (unsigned int)(all / CLIENTS), sum1 * sum1 / (CLIENTS * sum2),
	        (unsigned int)st.waits, (unsigned int)st.grants);
	CHECK(sum1 * sum1 / (CLIENTS * sum2) >= 0.9);
	CHECK(all > (uint64_t)ROUNDS * 128 * PIECE / 8);
	CHECK(st.free_bytes == 128 * PIECE && st.min_free_bytes == 0);
	end(s);
}

static void
test_fair(void)
{
	fair(0);
}

static void
test_fair_neighbours(void)
{
	fair(3);
	fair(10);
}

/** Clients that keep what they get leave a part to the next one. */
static void
test_room(void)
{
	enum { PIECES = 64, MOST = 4, CLIENTS = 4 };
	struct weft_staging_attr a = {.bytes = PIECES * PIECE,
	                              .piece_bytes = PIECE,
	                              .max_req_bytes = MOST * PIECE,
	                              .leave_room = true};
	struct weft_staging_group g = {.max_bytes = 16 * PIECE};
	struct weft_staging_client c[CLIENTS] = {0};
	struct weft_staging_lane lane;
	struct weft_staging_stats st;
	static struct want w[CLIENTS][PIECES], in_group[PIECES], late;
	struct weft_staging *s;

	CHECK(posix_memalign(&a.memory, 4096, a.bytes) == 0);
	memory = a.memory;
	CHECK_EQ(weft_staging_create(&a, &s), 0);
	for (unsigned int k = 0; k < CLIENTS; k++) {
		weft_staging_client_init(&c[k]);
		for (unsigned int i = 0; i < PIECES; i++)
			(void)want(s, &w[k][i], &c[k], PIECE);
		(void)weft_staging_poll(s);
		/* half of what was left, but at least as much as a request */
		CHECK_EQ(c[k].held_bytes, (uint64_t)PIECE * (k < 3 ? 32U >> k : 4));
	}
	weft_staging_query(s, &st);
	CHECK_EQ(st.free_bytes, 4 * PIECE);
	/* the first one of each */
	CHECK_EQ(st.room_waits, CLIENTS);
	/* what one gives back, it may have again, and the next ones a part */
	for (unsigned int i = 0; i < 8; i++)
		weft_staging_put(s, &w[0][i].req);
	(void)weft_staging_poll(s);
	CHECK(c[0].held_bytes <= 32 * PIECE && c[0].held_bytes + c[1].held_bytes <= 48 * PIECE);
	for (unsigned int k = 0; k < CLIENTS; k++)
		for (unsigned int i = 0; i < PIECES; i++)
			weft_staging_put(s, &w[k][i].req);
	/* of a group, half of what it may have */
	weft_staging_lane_init(&lane, &g);
	for (unsigned int i = 0; i < PIECES; i++)
		(void)want_lane(s, &in_group[i], &c[0], &lane, PIECE);
	(void)weft_staging_poll(s);
	CHECK_EQ(c[0].held_bytes, 8 * PIECE);
	/* and another client has as much as before of the rest */
	CHECK_EQ(want(s, &late, &c[1], MOST * PIECE), -EINPROGRESS);
	CHECK_EQ(weft_staging_poll(s), 1);
	CHECK(late.granted > 0);
	/* all are served at last */
	for (unsigned int i = 0; i < PIECES; i++) {
		CHECK(in_group[i].granted > 0);
		weft_staging_put(s, &in_group[i].req);
		(void)weft_staging_poll(s);
	}
	weft_staging_put(s, &late.req);
	CHECK(c[0].held_bytes == 0 && c[0].nwaiting == 0);
	end(s);
}

/** Requests that are held back in one group keep none of another group, or of no group, back. */
static void
test_room_of_others(void)
{
	enum { PIECES = 64, MOST = 4 };
	struct weft_staging_attr a = {.bytes = PIECES * PIECE,
	                              .piece_bytes = PIECE,
	                              .max_req_bytes = MOST * PIECE,
	                              .leave_room = true};
	struct weft_staging_group slow = {.max_bytes = 48 * PIECE},
	                          fast = {.max_bytes = 48 * PIECE};
	struct weft_staging_client c;
	static struct weft_staging_lane lane[PIECES], other, own;
	static struct want w[PIECES], one, alone;
	struct weft_staging *s;

	CHECK(posix_memalign(&a.memory, 4096, a.bytes) == 0);
	memory = a.memory;
	CHECK_EQ(weft_staging_create(&a, &s), 0);
	weft_staging_client_init(&c);
	/* as commands of NVMe have, each a lane of its own */
	for (unsigned int i = 0; i < PIECES; i++) {
		weft_staging_lane_init(&lane[i], &slow);
		(void)want_lane(s, &w[i], &c, &lane[i], PIECE);
	}
	(void)weft_staging_poll(s);
	CHECK_EQ(c.held_bytes, 24 * PIECE);
	weft_staging_lane_init(&other, &fast);
	weft_staging_lane_init(&own, NULL);
	CHECK_EQ(want_lane(s, &one, &c, &other, PIECE), -EINPROGRESS);
	CHECK_EQ(want_lane(s, &alone, &c, &own, PIECE), -EINPROGRESS);
	weft_staging_put(s, &w[0].req);
	(void)weft_staging_poll(s);
	CHECK(one.granted > 0);
	CHECK(alone.granted > 0);
	for (unsigned int i = 1; i < PIECES; i++)
		weft_staging_put(s, &w[i].req);
	weft_staging_put(s, &one.req);
	weft_staging_put(s, &alone.req);
	CHECK(c.held_bytes == 0 && c.nwaiting == 0);
	end(s);
}

/** A long request that is held back is served, although short ones of its client keep coming behind
 * it; and the groups are known for whose memory clients wait that have none. */
static void
test_room_long(void)
{
	enum { PIECES = 64, MOST = 16, SHORT = 200 };
	struct weft_staging_attr a = {.bytes = PIECES * PIECE,
	                              .piece_bytes = PIECE,
	                              .max_req_bytes = MOST * PIECE,
	                              .leave_room = true};
	struct weft_staging_group g = {.max_bytes = 48 * PIECE}, h[2] = {0};
	struct weft_staging_client c, poor[2];
	static struct weft_staging_lane lane[SHORT], far, other[2];
	static struct want w[SHORT], all, starved[2];
	struct weft_staging *s;
	unsigned int done = 0;

	CHECK(posix_memalign(&a.memory, 4096, a.bytes) == 0);
	memory = a.memory;
	CHECK_EQ(weft_staging_create(&a, &s), 0);
	weft_staging_client_init(&c);
	for (unsigned int i = 0; i < SHORT; i++) {
		/* the long one comes when the client has what it may have */
		if (i == 100) {
			weft_staging_lane_init(&far, &g);
			CHECK_EQ(want_lane(s, &all, &c, &far, MOST * PIECE), -EINPROGRESS);
		}
		weft_staging_lane_init(&lane[i], &g);
		(void)want_lane(s, &w[i], &c, &lane[i], PIECE);
		if (i >= 24) {
			CHECK(w[done].granted > 0);
			weft_staging_put(s, &w[done++].req);
		}
		(void)weft_staging_poll(s);
	}
	CHECK(all.granted > 0);
	CHECK(!weft_staging_mark_starved(s, 1));
	/* others have no memory, of two groups that have none left */
	for (unsigned int k = 0; k < 2; k++) {
		h[k].max_bytes = MOST * PIECE;
		h[k].held_bytes = MOST * PIECE;
		weft_staging_client_init(&poor[k]);
		weft_staging_lane_init(&other[k], &h[k]);
		CHECK_EQ(want_lane(s, &starved[k], &poor[k], &other[k], PIECE), -EINPROGRESS);
	}
	CHECK(weft_staging_mark_starved(s, 7));
	CHECK_EQ(h[0].starved_mark, 7);
	CHECK_EQ(h[1].starved_mark, 7);
	CHECK(g.starved_mark != 7);
	for (unsigned int k = 0; k < 2; k++)
		weft_staging_put(s, &starved[k].req);
	for (unsigned int i = done; i < SHORT; i++)
		weft_staging_put(s, &w[i].req);
	weft_staging_put(s, &all.req);
	end(s);
}

WEFT_TEST_MAIN({"a length that the owner changes", test_changed}, {"edges", test_edges},
               {"turns", test_turns}, {"neighbours", test_neighbours}, {"groups", test_groups},
               {"a long one of a group", test_long_of_group}, {"hung", test_hung},
               {"apart", test_apart}, {"room", test_room}, {"room of others", test_room_of_others},
               {"room for a long one", test_room_long}, {"model", test_model}, {"fair", test_fair},
               {"fair with neighbours", test_fair_neighbours})
