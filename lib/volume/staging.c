/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Staging memory: requests, and the turns of the clients that wait for them.
 */

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "staging_pieces.h"
#include "weft_staging.h"

static_assert(WEFT_STAGING_MAX_PIECES <= STAGING_RUN_MAX, "a request has one look at the map");

enum staging_state { STAGING_IDLE, STAGING_WAITS, STAGING_HELD };

struct weft_staging {
	struct weft_staging_attr attr;
	struct weft_staging_stats stats;
	TAILQ_HEAD(, weft_staging_client) turns; /**< clients that wait; the first one is next */
	bool given_back; /**< memory or a share has become free since the last poll */
	bool in_poll;
	uint64_t round; /**< of staging_next(), from 1 on */
	struct staging_pieces pieces;
};

int
weft_staging_create(const struct weft_staging_attr *attr, struct weft_staging **out)
{
	struct weft_staging *s;
	uint64_t most, n;

	if (attr == NULL || out == NULL || attr->memory == NULL || attr->piece_bytes < 4096 ||
	    attr->piece_bytes > 16U << 20 || attr->piece_bytes % 512 != 0 ||
	    attr->bytes % attr->piece_bytes != 0 || (uintptr_t)attr->memory % 4096 != 0)
		return -EINVAL;
	n = attr->bytes / attr->piece_bytes;
	if (n < 2 || n > UINT32_MAX / 2)
		return -EINVAL;
	most = n / 2 < WEFT_STAGING_MAX_PIECES ? n / 2 : WEFT_STAGING_MAX_PIECES;
	if (attr->max_req_bytes % attr->piece_bytes != 0 ||
	    attr->max_req_bytes > most * attr->piece_bytes)
		return -EINVAL;
	s = calloc(1, sizeof(*s));
	if (s == NULL)
		return -ENOMEM;
	s->attr = *attr;
	if (s->attr.max_req_bytes == 0)
		s->attr.max_req_bytes = most * attr->piece_bytes;
	if (staging_pieces_init(&s->pieces, (uint32_t)n,
	                        (uint32_t)(s->attr.max_req_bytes / attr->piece_bytes)) < 0) {
		free(s);
		return -ENOMEM;
	}
	s->stats.free_bytes = s->stats.min_free_bytes = attr->bytes;
	TAILQ_INIT(&s->turns);
	*out = s;
	return 0;
}

int
weft_staging_destroy(struct weft_staging *s)
{
	if (s == NULL)
		return 0;
	if (s->stats.clients > 0 || s->in_poll)
		return -EBUSY;
	staging_pieces_fini(&s->pieces);
	free(s);
	return 0;
}

uint64_t
weft_staging_max_req(const struct weft_staging *s)
{
	return s->attr.max_req_bytes;
}

void
weft_staging_client_init(struct weft_staging_client *client)
{
	void *owner = client->owner;

	*client = (struct weft_staging_client){.owner = owner};
	TAILQ_INIT(&client->lanes);
	weft_staging_lane_init(&client->own, NULL);
}

void
weft_staging_lane_init(struct weft_staging_lane *lane, struct weft_staging_group *group)
{
	*lane = (struct weft_staging_lane){.group = group};
	TAILQ_INIT(&lane->waiting);
}

static bool
staging_is_idle(const struct weft_staging_client *c)
{
	return c->held_bytes == 0 && c->apart_bytes == 0 && c->nwaiting == 0;
}

bool
weft_staging_mark_starved(struct weft_staging *s, uint64_t mark)
{
	const struct weft_staging_client *c;
	bool any = false;

	TAILQ_FOREACH (c, &s->turns, link) {
		struct weft_staging_group *g = TAILQ_FIRST(&c->lanes)->group;

		if (c->held_bytes != 0 || c->apart_bytes != 0)
			continue;
		any = true;
		if (g != NULL)
			g->starved_mark = mark;
	}
	return any;
}

uint64_t
weft_staging_room_waits(const struct weft_staging *s)
{
	return s->stats.room_waits;
}

uint64_t
weft_staging_share(const struct weft_staging *s)
{
	return s->stats.clients > 0 ? s->attr.bytes / s->stats.clients : s->attr.bytes;
}

/** Whether a client may have more: it holds less than its share. */
static bool
staging_has_share(const struct weft_staging *s, const struct weft_staging_client *c)
{
	return c->held_bytes == 0 || c->held_bytes < weft_staging_share(s);
}

static uint32_t
staging_count(const struct weft_staging *s, uint64_t bytes)
{
	return (uint32_t)((bytes + s->attr.piece_bytes - 1) / s->attr.piece_bytes);
}

static struct weft_staging_lane *
staging_lane(struct weft_staging_req *req)
{
	return req->lane != NULL ? req->lane : &req->client->own;
}

/** Whether the request's group may hold so much more; with held_bytes 0, whether it ever may. */
static bool
staging_group_may(const struct weft_staging *s, struct weft_staging_req *req, uint64_t held_bytes)
{
	const struct weft_staging_group *g = staging_lane(req)->group;
	const uint64_t n = (uint64_t)staging_count(s, req->bytes) * s->attr.piece_bytes;

	return g == NULL || g->max_bytes == 0 || held_bytes + n <= g->max_bytes;
}

static bool
staging_group_has_room(const struct weft_staging *s, struct weft_staging_req *req)
{
	const struct weft_staging_group *g = staging_lane(req)->group;

	return g == NULL || staging_group_may(s, req, g->held_bytes);
}

/** Whether the client leaves as much to others as it holds with the request. */
static bool
staging_leaves_room(const struct weft_staging *s, struct weft_staging_req *req)
{
	const struct weft_staging_group *g = staging_lane(req)->group;
	const uint64_t n = (uint64_t)staging_count(s, req->bytes) * s->attr.piece_bytes;
	const uint64_t then = req->client->held_bytes + n;
	uint64_t left = s->stats.free_bytes;

	if (!s->attr.leave_room || then <= s->attr.max_req_bytes)
		return true;
	if (g != NULL && g->max_bytes != 0 && g->max_bytes - g->held_bytes < left)
		left = g->max_bytes - g->held_bytes;
	return then + n <= left;
}

/** Describe the pieces of a request. */
static void
staging_describe(const struct weft_staging *s, struct weft_staging_req *req)
{
	uint64_t left = req->bytes;

	req->iovs = 0;
	for (uint32_t i = 0; i < req->npieces; i++) {
		uint8_t *at =
		        (uint8_t *)s->attr.memory + (uint64_t)req->pieces[i] * s->attr.piece_bytes;
		uint64_t n = left < s->attr.piece_bytes ? left : s->attr.piece_bytes;
		struct iovec *last = req->iovs > 0 ? &req->iov[req->iovs - 1] : NULL;

		if (last != NULL && (uint8_t *)last->iov_base + last->iov_len == at)
			last->iov_len += n;
		else
			req->iov[req->iovs++] = (struct iovec){at, n};
		left -= n;
	}
}

/** The areas in which a group may hold pieces. */
static uint32_t
staging_group_areas(const struct weft_staging *s, const struct weft_staging_group *g)
{
	const uint64_t n = g->max_bytes / s->attr.piece_bytes / s->pieces.area_pieces;

	return n < 1 ? 1 : n < s->pieces.nareas ? (uint32_t)n : s->pieces.nareas;
}

static bool
staging_is_limited(const struct weft_staging_group *g)
{
	return g != NULL && g->max_bytes != 0;
}

/** Take a request's pieces. False: they are not free, or are no neighbours; nothing is taken. */
static bool
staging_take(struct weft_staging *s, struct weft_staging_req *req)
{
	struct weft_staging_group *g = staging_lane(req)->group;
	const uint32_t n = staging_count(s, req->bytes);

	if (staging_is_limited(g)
	            ? !staging_pieces_take_in(&s->pieces, n, req->contiguous, &g->areas,
	                                      staging_group_areas(s, g), req->pieces)
	            : !staging_pieces_take(&s->pieces, n, req->contiguous, req->pieces))
		return false;
	req->npieces = n;
	return true;
}

/** Whether what does not fit waits for memory of its own group alone, which has all its areas. */
static bool
staging_waits_for_group(const struct weft_staging *s, struct weft_staging_req *req)
{
	const struct weft_staging_group *g = staging_lane(req)->group;

	return staging_is_limited(g) && g->areas.nareas >= staging_group_areas(s, g);
}

/** Give a request the pieces that were taken for it. */
static void
staging_grant(struct weft_staging *s, struct weft_staging_req *req)
{
	struct weft_staging_group *g = staging_lane(req)->group;
	const uint64_t bytes = (uint64_t)req->npieces * s->attr.piece_bytes;

	staging_describe(s, req);
	req->state = STAGING_HELD;
	req->apart = false;
	req->client->held_bytes += bytes;
	if (g != NULL) {
		g->held_bytes += bytes;
		LIST_INSERT_HEAD(&g->held, req, group_link);
	}
	req->client->grants++;
	s->stats.grants++;
	s->stats.free_bytes = (uint64_t)s->pieces.nfree * s->attr.piece_bytes;
	if (s->stats.free_bytes < s->stats.min_free_bytes)
		s->stats.min_free_bytes = s->stats.free_bytes;
}

/** It waits to leave room. */
static void
staging_hold_back(struct weft_staging *s, struct weft_staging_req *req)
{
	if (!req->for_room)
		s->stats.room_waits++;
	req->for_room = true;
}

int
weft_staging_get(struct weft_staging *s, struct weft_staging_req *req)
{
	struct weft_staging_client *c;
	struct weft_staging_lane *lane;

	if (s == NULL || req == NULL || req->client == NULL || req->granted == NULL ||
	    req->bytes == 0)
		return -EINVAL;
	if (req->state != STAGING_IDLE)
		return -EBUSY;
	if (req->bytes > s->attr.max_req_bytes || !staging_group_may(s, req, 0))
		return -EMSGSIZE;
	c = req->client;
	if (staging_is_idle(c))
		s->stats.clients++;
	if (TAILQ_EMPTY(&s->turns) && staging_has_share(s, c) && staging_group_has_room(s, req) &&
	    staging_leaves_room(s, req) && staging_take(s, req)) {
		staging_grant(s, req);
		return 0;
	}
	req->state = STAGING_WAITS;
	req->for_room = false;
	lane = staging_lane(req);
	if (TAILQ_EMPTY(&lane->waiting)) {
		TAILQ_INSERT_TAIL(&c->lanes, lane, link);
		if (staging_has_share(s, c) && staging_group_has_room(s, req) &&
		    !staging_leaves_room(s, req))
			staging_hold_back(s, req);
	}
	TAILQ_INSERT_TAIL(&lane->waiting, req, link);
	if (c->nwaiting++ == 0)
		TAILQ_INSERT_TAIL(&s->turns, c, link);
	c->waits++;
	s->stats.waits++;
	s->stats.waiting++;
	/* Those before it may all be over their share, which this one is perhaps not. */
	s->given_back = true;
	return -EINPROGRESS;
}

/** A request waits no longer. */
static void
staging_unwait(struct weft_staging *s, struct weft_staging_req *req)
{
	struct weft_staging_lane *lane = staging_lane(req);
	struct weft_staging_client *c = req->client;

	TAILQ_REMOVE(&lane->waiting, req, link);
	if (TAILQ_EMPTY(&lane->waiting))
		TAILQ_REMOVE(&c->lanes, lane, link);
	if (--c->nwaiting == 0)
		TAILQ_REMOVE(&s->turns, c, link);
	s->stats.waiting--;
	req->state = STAGING_IDLE;
}

/** A request gives its memory back. */
static void
staging_give(struct weft_staging *s, struct weft_staging_req *req)
{
	/* Not of req->bytes, which its owner may have changed since. */
	const uint64_t bytes = (uint64_t)req->npieces * s->attr.piece_bytes;
	struct weft_staging_group *g = staging_lane(req)->group;
	struct weft_staging_client *c = req->client;

	if (req->apart)
		c->apart_bytes -= bytes;
	else
		c->held_bytes -= bytes;
	if (g != NULL) {
		g->held_bytes -= bytes;
		LIST_REMOVE(req, group_link);
	}
	staging_pieces_give(&s->pieces, req->pieces, req->npieces,
	                    staging_is_limited(g) ? &g->areas : NULL);
	req->npieces = 0;
	req->apart = false;
	s->stats.free_bytes = (uint64_t)s->pieces.nfree * s->attr.piece_bytes;
	req->iovs = 0;
	req->state = STAGING_IDLE;
}

void
weft_staging_set_apart(struct weft_staging *s, struct weft_staging_req *req)
{
	const uint64_t bytes = (uint64_t)req->npieces * s->attr.piece_bytes;

	if (req->state != STAGING_HELD || req->apart)
		return;
	req->apart = true;
	req->client->held_bytes -= bytes;
	req->client->apart_bytes += bytes;
	/* The client may be below its share now. */
	s->given_back = true;
}

void
weft_staging_put(struct weft_staging *s, struct weft_staging_req *req)
{
	struct weft_staging_client *c = req->client;

	if (req->state == STAGING_IDLE)
		return;
	if (req->state == STAGING_WAITS) {
		staging_unwait(s, req);
	} else {
		staging_give(s, req);
	}
	if (staging_is_idle(c))
		s->stats.clients--;
	s->given_back = true;
}

/** Whether a client could have the shortest request that there is, and leave room. */
static bool
staging_client_may(const struct weft_staging *s, const struct weft_staging_client *c)
{
	const uint64_t then = c->held_bytes + s->attr.piece_bytes;

	return !s->attr.leave_room || then <= s->attr.max_req_bytes ||
	       then + s->attr.piece_bytes <= s->stats.free_bytes;
}

/** Whether requests of the client in this group wait behind another one, in this round. alone: one
 * without a group was held back. */
static bool
staging_is_behind(const struct weft_staging *s, const struct weft_staging_client *c,
                  const struct weft_staging_group *g, bool alone)
{
	if (g == NULL)
		return alone;
	return g->waits_round == s->round || (g->room_round == s->round && g->room_of == c);
}

/**
 * The request whose turn it is: of the first client that is below its share, the first whose group
 * has room. Its pieces are taken. NULL: there is none, or it does not fit yet and all wait.
 */
static struct weft_staging_req *
staging_next(struct weft_staging *s)
{
	struct weft_staging_client *c;
	struct weft_staging_lane *lane;

	s->round++;
	TAILQ_FOREACH (c, &s->turns, link) {
		bool alone = false;

		if (!staging_has_share(s, c)) {
			s->stats.passed++;
			continue;
		}
		if (!staging_client_may(s, c)) {
			s->stats.passed++;
			staging_hold_back(s, TAILQ_FIRST(&TAILQ_FIRST(&c->lanes)->waiting));
			continue;
		}
		TAILQ_FOREACH (lane, &c->lanes, link) {
			struct weft_staging_req *req = TAILQ_FIRST(&lane->waiting);
			struct weft_staging_group *g = lane->group;
			bool room;

			if (staging_is_behind(s, c, g, alone))
				continue;
			room = staging_group_has_room(s, req);
			if (room && !staging_leaves_room(s, req)) {
				/* Those behind it in its group do not overtake it. */
				s->stats.passed++;
				staging_hold_back(s, req);
				alone = alone || g == NULL;
				if (g != NULL) {
					g->room_round = s->round;
					g->room_of = c;
				}
				continue;
			}
			if (room && staging_take(s, req))
				return req;
			if (room && !staging_waits_for_group(s, req))
				return NULL;
			/* Those of other groups go on; those behind it in its group do not. */
			g->waits_round = s->round;
		}
	}
	return NULL;
}

unsigned int
weft_staging_poll(struct weft_staging *s)
{
	struct weft_staging_client *c;
	struct weft_staging_lane *lane;
	struct weft_staging_req *req;
	unsigned int n = 0;

	if (s == NULL || s->in_poll || !s->given_back)
		return 0;
	s->in_poll = true;
	s->given_back = false;
	while ((req = staging_next(s)) != NULL) {
		c = req->client;
		lane = staging_lane(req);
		staging_unwait(s, req);
		if (!TAILQ_EMPTY(&lane->waiting)) {
			TAILQ_REMOVE(&c->lanes, lane, link);
			TAILQ_INSERT_TAIL(&c->lanes, lane, link);
		}
		/* The others come before its next request. */
		if (c->nwaiting > 0) {
			TAILQ_REMOVE(&s->turns, c, link);
			TAILQ_INSERT_TAIL(&s->turns, c, link);
		}
		staging_grant(s, req);
		n++;
		req->granted(req);
	}
	s->in_poll = false;
	return n;
}

void
weft_staging_query(const struct weft_staging *s, struct weft_staging_stats *stats)
{
	*stats = s->stats;
}
