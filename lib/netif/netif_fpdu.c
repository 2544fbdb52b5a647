/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Where FPDUs begin in the TCP segments that a capture sees; see netif_fpdu.h. */

#include "netif_fpdu.h"

#include <string.h>

#include <rte_jhash.h>
#include <rte_mbuf.h>

/** Of an FPDU up to RDMAP's control octet: length, DDP's and RDMAP's control. */
#define FPDU_HEAD 4
/** The shortest DDP headers (RFC 5041 s4.2, s4.3). */
#define TAGGED_MIN   14
#define UNTAGGED_MIN 18
/** Of an untagged DDP segment behind the length: RDMAP's four octets, then the queue number. */
#define UNTAGGED_QN     8
#define UNTAGGED_QN_MAX 3
/** RFC 5044 s7.1.1: key, flags, revision, length of the private data */
#define FRAME_BYTES 20
#define FRAME_KEY   16
#define FRAME_M     0x80
/** RFC 5044 s4.3 */
#define MARKER_PERIOD 512u
#define MARKER_BYTES  4u
/** How far a segment is searched for an FPDU when none is known. */
#define SEARCH_BYTES 2048u

#define SETS    128u /**< a power of two */
#define WAYS    4u
#define GUESSES 256u

/** It has no padding: keys are compared as octets. */
struct key {
	struct weft_ip src, dst;
	uint16_t sport, dport;
};
static_assert(sizeof(struct key) == 36, "no padding");

struct flow {
	struct key key;
	bool used;
	bool known;   /**< where FPDUs begin: the members from nparts on */
	bool started; /**< its start-up frame was seen: wants and phase are known */
	bool framing; /**< whether there are markers is known, and phase if there are */
	bool markers;
	bool wants;     /**< M of the start-up frame: the other direction has markers */
	uint8_t nparts; /**< octets of the next header that the segment before ended with */
	uint8_t part[FPDU_HEAD];
	uint16_t phase;  /**< of the sequence numbers at which markers stand, modulo 512 */
	uint32_t begin;  /**< sequence number of the length field of the last FPDU */
	uint32_t end;    /**< of the octet behind that FPDU */
	uint32_t next;   /**< of the next length field */
	uint32_t opcode; /**< bit of the FPDU at begin, or NETIF_FPDU_STARTUP */
	uint64_t age;
};

/** What may be an FPDU. It is one if another one stands at `next`. */
struct guess {
	struct flow *f; /**< NULL: none */
	uint32_t begin, end, next, opcode;
};

struct netif_fpdu_flows {
	uint64_t age;
	struct flow flow[SETS][WAYS];
	struct guess guess[GUESSES];
	unsigned int next_guess; /**< whose place is taken next */
};

/** What a chain of FPDUs is. */
struct chain {
	unsigned int heads;
	bool whole; /**< the last FPDU ends with the segment */
	uint32_t opcodes, opcode;
	uint32_t first, begin, end, next; /**< of the first FPDU; of the last one */
};

size_t
netif_fpdu_flows_size(void)
{
	return sizeof(struct netif_fpdu_flows);
}

void
netif_fpdu_forget(struct netif_fpdu_flows *fl)
{
	memset(fl, 0, sizeof(*fl));
}

static struct flow *
set_of(struct netif_fpdu_flows *fl, const struct key *k)
{
	return fl->flow[rte_jhash(k, sizeof(*k), 0) & (SETS - 1)];
}

/** The direction with this key; NULL: it is not known. */
static struct flow *
flow_find(struct netif_fpdu_flows *fl, const struct key *k)
{
	struct flow *f = set_of(fl, k);

	for (unsigned int i = 0; i < WAYS; i++)
		if (f[i].used && memcmp(&f[i].key, k, sizeof(*k)) == 0)
			return &f[i];
	return NULL;
}

static void
guesses_drop(struct netif_fpdu_flows *fl, const struct flow *f)
{
	for (unsigned int i = 0; i < GUESSES; i++)
		if (fl->guess[i].f == f)
			fl->guess[i].f = NULL;
}

/** The same; it takes the place of the one that was used the longest time ago. */
static struct flow *
flow_get(struct netif_fpdu_flows *fl, const struct key *k)
{
	struct flow *f = flow_find(fl, k), *set = set_of(fl, k);

	if (f == NULL) {
		f = set;
		for (unsigned int i = 0; i < WAYS; i++)
			if (!set[i].used || (f->used && set[i].age < f->age))
				f = &set[i];
		guesses_drop(fl, f);
		memset(f, 0, sizeof(*f));
		f->key = *k;
		f->used = true;
	}
	f->age = ++fl->age;
	return f;
}

/* ---- Headers and markers ---- */

static uint32_t
until(uint32_t from, uint32_t to)
{
	return to - from;
}

/** Whether `seq` is before `than`. */
static bool
before(uint32_t seq, uint32_t than)
{
	return (int32_t)(seq - than) < 0;
}

/** Octets of the segment, `seq` of which is the first. NULL: they are not all there. */
static const uint8_t *
octets(const struct netif_fpdu_seg *g, uint32_t seq, uint32_t n, uint8_t *buf)
{
	const uint32_t at = until(g->seq, seq);

	if (before(seq, g->seq) || at > g->len || n > g->len - at)
		return NULL;
	return rte_pktmbuf_read(g->m, g->off + at, n, buf);
}

/**
 * Whether this can be the begin of an FPDU: versions, reserved bits, and lengths (RFC 5041 s4.1,
 * RFC 5040 s4.1; an opcode has five bits, draft-talpey-rdma-commit-02 s2).
 */
static bool
head_valid(const uint8_t h[FPDU_HEAD])
{
	const uint32_t ulpdu = weft_get_be16(h), opcode = h[3] & 0x1f;
	const bool tagged = (h[2] & 0x80) != 0;

	if ((h[2] & 0x3f) != 0x01 || (h[3] & 0xe0) != 0x40 || opcode > 17 ||
	    ulpdu < (tagged ? TAGGED_MIN : UNTAGGED_MIN))
		return false;
	/* RDMA Write and Read Response are tagged, all others are not. */
	return tagged == (opcode == 0 || opcode == 2);
}

/** Whether the rest of an untagged header, as far as it is in the segment, can be one. */
static bool
queue_valid(const struct netif_fpdu_seg *g, uint32_t pos, const uint8_t h[FPDU_HEAD])
{
	uint8_t buf[4];
	const uint8_t *p = (h[2] & 0x80) == 0 ? octets(g, pos + UNTAGGED_QN, 4, buf) : NULL;

	return p == NULL || weft_get_be32(p) <= UNTAGGED_QN_MAX;
}

static bool
marker_at(bool markers, uint16_t phase, uint32_t seq)
{
	return markers && (seq - phase) % MARKER_PERIOD == 0;
}

/** Where the length field stands of an FPDU that begins here. */
static uint32_t
past_marker(bool markers, uint16_t phase, uint32_t seq)
{
	return marker_at(markers, phase, seq) ? seq + MARKER_BYTES : seq;
}

/** The end of the FPDU whose length field is at pos. RFC 5044 s4.1: length, ULPDU, pad, CRC. */
static uint32_t
fpdu_end(bool markers, uint16_t phase, uint32_t pos, uint32_t ulpdu)
{
	uint32_t len = RTE_ALIGN_CEIL(2 + ulpdu, 4u) + 4, to_marker;

	if (!markers)
		return pos + len;
	to_marker = MARKER_PERIOD - (pos - phase) % MARKER_PERIOD;
	if (len > to_marker)
		len += MARKER_BYTES * (1 + (len - to_marker - 1) / (MARKER_PERIOD - MARKER_BYTES));
	return pos + len;
}

/** Whether the markers between pos and end, as far as the segment has them, point to pos. */
static bool
markers_valid(const struct netif_fpdu_seg *g, uint16_t phase, uint32_t pos, uint32_t end)
{
	uint32_t at = pos + MARKER_PERIOD - (pos - phase) % MARKER_PERIOD;
	uint8_t buf[4];
	const uint8_t *p;

	for (; before(at, end) && (p = octets(g, at, 4, buf)) != NULL; at += MARKER_PERIOD)
		if (weft_get_be32(p) != until(pos, at))
			return false;
	return true;
}

/** The FPDUs one behind the other from pos on. False: they are none. */
static bool
chain_at(const struct netif_fpdu_seg *g, bool markers, uint16_t phase, uint32_t pos,
         struct chain *c)
{
	const uint32_t end = g->seq + g->len;
	uint8_t buf[FPDU_HEAD];
	const uint8_t *h;

	memset(c, 0, sizeof(*c));
	while (before(pos, end)) {
		pos = past_marker(markers, phase, pos);
		h = octets(g, pos, FPDU_HEAD, buf);
		/* A header that the segment ends within is believed. */
		if (h == NULL)
			break;
		if (!head_valid(h) || (!markers && !queue_valid(g, pos, h)))
			return false;
		if (c->heads++ == 0)
			c->first = pos;
		c->opcode = 1u << (h[3] & 0x1f);
		c->opcodes |= c->opcode;
		c->begin = pos;
		pos = fpdu_end(markers, phase, pos, weft_get_be16(h));
		if (markers && !markers_valid(g, phase, c->begin, pos))
			return false;
	}
	c->whole = pos == end;
	c->end = pos;
	c->next = past_marker(markers, phase, pos);
	return c->heads > 0;
}

static bool
chain_sure(const struct chain *c)
{
	return c->heads > 1 || c->whole;
}

/* ---- A direction that is followed ---- */

/** Keep the octets of a header that the segment ends within. */
static void
keep_part(struct flow *f, const struct netif_fpdu_seg *g)
{
	const uint32_t n = until(f->next, g->seq + g->len);
	const uint8_t *p = n > f->nparts && n < FPDU_HEAD ? octets(g, f->next, n, f->part) : NULL;

	if (p == NULL)
		return;
	memmove(f->part, p, n);
	f->nparts = (uint8_t)n;
}

static void
flow_take(struct flow *f, const struct netif_fpdu_seg *g, const struct chain *c)
{
	f->known = true;
	f->begin = c->begin;
	f->end = c->end;
	f->next = c->next;
	f->opcode = c->opcode;
	f->nparts = 0;
	keep_part(f, g);
}

/** The header at f->next, of which the segment before may have had a part. NULL: not all of it. */
static const uint8_t *
next_head(const struct flow *f, const struct netif_fpdu_seg *g, uint8_t buf[FPDU_HEAD])
{
	uint8_t rest[FPDU_HEAD];
	const uint8_t *p;

	if (!before(f->next, g->seq))
		return octets(g, f->next, FPDU_HEAD, buf);
	p = octets(g, f->next + f->nparts, FPDU_HEAD - f->nparts, rest);
	if (p == NULL)
		return NULL;
	memcpy(buf, f->part, f->nparts);
	memcpy(buf + f->nparts, p, FPDU_HEAD - f->nparts);
	return buf;
}

/**
 * Follow the FPDUs from f->next to the end of the segment; their opcodes are added. False: there is
 * no FPDU where one must begin.
 */
static bool
walk(struct flow *f, const struct netif_fpdu_seg *g, uint32_t *opcodes)
{
	const uint32_t end = g->seq + g->len;
	uint8_t buf[FPDU_HEAD];
	const uint8_t *h;

	while (before(f->next, end)) {
		h = next_head(f, g, buf);
		if (h == NULL)
			break;
		if (!head_valid(h))
			return false;
		f->nparts = 0;
		f->begin = f->next;
		f->opcode = 1u << (h[3] & 0x1f);
		*opcodes |= f->opcode;
		f->end = fpdu_end(f->markers, f->phase, f->begin, weft_get_be16(h));
		f->next = past_marker(f->markers, f->phase, f->end);
	}
	/* A segment of less than a header's rest. */
	if (before(f->next, g->seq) && before(f->next + f->nparts, end)) {
		const uint32_t n = until(f->next + f->nparts, end);
		const uint8_t *p = octets(g, f->next + f->nparts, n, buf);

		if (p == NULL || f->nparts + n > FPDU_HEAD)
			return false;
		memcpy(f->part + f->nparts, p, n);
		f->nparts = (uint8_t)(f->nparts + n);
	} else if (!before(f->next, g->seq)) {
		keep_part(f, g);
	}
	return true;
}

/** A segment that begins before the FPDU that is known: it was sent again. */
static uint32_t
again(const struct flow *f, const struct netif_fpdu_seg *g, bool *unknown)
{
	struct chain c;

	if (chain_at(g, f->markers, f->phase, g->seq, &c) && chain_sure(&c))
		return c.opcodes;
	*unknown = true;
	return 0;
}

/** A segment of a direction that is followed. False: there is no FPDU where one must begin. */
static bool
follow(struct flow *f, const struct netif_fpdu_seg *g, uint32_t *opcodes, bool *unknown)
{
	if (before(g->seq, f->begin))
		*opcodes = again(f, g, unknown);
	else if (before(g->seq, f->end))
		*opcodes = f->opcode;
	return walk(f, g, opcodes);
}

/* ---- A direction of which nothing is known ---- */

/** The frames of both directions were seen: each says whether the other direction has markers. */
static void
agree(struct flow *f, bool markers)
{
	f->framing = true;
	f->markers = markers;
	f->next = past_marker(markers, f->phase, f->next);
}

/** A start-up frame: FPDUs follow it, and markers begin with them (RFC 5044 s4.3, s7.1.1). */
static bool
take_frame(struct netif_fpdu_flows *fl, struct flow *f, const struct netif_fpdu_seg *g)
{
	uint8_t buf[FRAME_BYTES];
	const uint8_t *p = octets(g, g->seq, FRAME_BYTES, buf);
	const struct key k = {f->key.dst, f->key.src, f->key.dport, f->key.sport};
	struct flow *back;

	if (p == NULL || (memcmp(p, "MPA ID Req Frame", FRAME_KEY) != 0 &&
	                  memcmp(p, "MPA ID Rep Frame", FRAME_KEY) != 0))
		return false;
	/* It was sent again. */
	if (f->started)
		return true;
	f->started = true;
	f->known = true;
	f->opcode = NETIF_FPDU_STARTUP;
	f->begin = g->seq;
	f->end = f->next = g->seq + FRAME_BYTES + weft_get_be16(p + FRAME_BYTES - 2);
	f->nparts = 0;
	f->phase = (uint16_t)(f->next % MARKER_PERIOD);
	f->wants = (p[FRAME_KEY] & FRAME_M) != 0;
	back = flow_find(fl, &k);
	if (back != NULL && back->started) {
		agree(f, back->wants);
		agree(back, f->wants);
	}
	return true;
}

/**
 * A chain of FPDUs with markers whose places are not known. A marker tells where its FPDU begins
 * (RFC 5044 s4.3), so one header is enough.
 */
static bool
find_marked(struct flow *f, const struct netif_fpdu_seg *g, const uint8_t *p, uint32_t n,
            struct chain *c)
{
	for (uint32_t k = 0; k + MARKER_BYTES <= n; k++) {
		const uint32_t back = weft_get_be32(p + k);
		const uint32_t at = g->seq + k;
		const uint16_t phase = (uint16_t)(at % MARKER_PERIOD);

		if (back > k || back % 4 != 0 || !chain_at(g, true, phase, at - back, c) ||
		    (back == 0 && !chain_sure(c)))
			continue;
		f->framing = true;
		f->markers = true;
		f->phase = phase;
		return true;
	}
	return false;
}

/**
 * A chain of FPDUs anywhere in the segment. Single headers, which may be none, become guesses.
 * False: there is no such chain.
 */
static bool
find_plain(struct netif_fpdu_flows *fl, struct flow *f, const struct netif_fpdu_seg *g,
           const uint8_t *p, uint32_t n, struct chain *c)
{
	for (uint32_t k = 0; k + FPDU_HEAD <= n; k++) {
		if (marker_at(f->markers, f->phase, g->seq + k) || !head_valid(p + k) ||
		    !chain_at(g, f->markers, f->phase, g->seq + k, c))
			continue;
		if (chain_sure(c))
			return true;
		fl->guess[fl->next_guess++ % GUESSES] =
		        (struct guess){f, c->begin, c->end, c->next, c->opcode};
	}
	return false;
}

/** A guess is right if an FPDU begins where it ends. Those that this segment decides are dropped.
 * False: none is right. */
static bool
find_guessed(struct netif_fpdu_flows *fl, struct flow *f, const struct netif_fpdu_seg *g)
{
	struct guess *right = NULL;
	struct chain c;

	for (unsigned int i = 0; i < GUESSES && right == NULL; i++) {
		struct guess *u = &fl->guess[i];

		if (u->f != f || !before(u->next, g->seq + g->len))
			continue;
		if (chain_at(g, f->markers, f->phase, u->next, &c))
			right = u;
		else
			u->f = NULL;
	}
	if (right == NULL)
		return false;
	f->known = true;
	f->begin = right->begin;
	f->end = right->end;
	f->next = right->next;
	f->opcode = right->opcode;
	f->nparts = 0;
	return true;
}

/** The opcodes of a segment of a direction that is not followed; follow it from here if possible.
 */
static uint32_t
search(struct netif_fpdu_flows *fl, struct flow *f, const struct netif_fpdu_seg *g, bool *unknown)
{
	const uint32_t n = RTE_MIN(g->len, SEARCH_BYTES);
	uint8_t buf[SEARCH_BYTES];
	const uint8_t *p = rte_pktmbuf_read(g->m, g->off, n, buf);
	uint32_t opcodes = 0;
	struct chain c;

	f->known = false;
	*unknown = true;
	if (p == NULL)
		return 0;
	/* Segments of many peers, weft's own among them, begin with an FPDU. */
	if (chain_at(g, f->markers, f->phase, g->seq, &c) && chain_sure(&c)) {
		/* It is c. */
	} else if (find_guessed(fl, f, g)) {
		*unknown = false;
		guesses_drop(fl, f);
		return follow(f, g, &opcodes, unknown) ? opcodes : 0;
	} else if ((f->framing || !find_marked(f, g, p, n, &c)) &&
	           !find_plain(fl, f, g, p, n, &c)) {
		return 0;
	}
	guesses_drop(fl, f);
	flow_take(f, g, &c);
	*unknown = c.first != past_marker(f->markers, f->phase, g->seq);
	return c.opcodes;
}

uint32_t
netif_fpdu_opcodes(struct netif_fpdu_flows *fl, const struct netif_fpdu_seg *g, bool *unknown)
{
	const struct key k = {g->src, g->dst, g->sport, g->dport};
	struct flow *f = flow_get(fl, &k);
	uint32_t opcodes = 0;

	*unknown = false;
	if (g->syn) {
		f->started = f->framing = f->markers = f->known = false;
		guesses_drop(fl, f);
	}
	if (g->len == 0)
		return 0;
	if (take_frame(fl, f, g))
		return NETIF_FPDU_STARTUP;
	if (f->known && !before(f->next + f->nparts, g->seq) && follow(f, g, &opcodes, unknown))
		return opcodes;
	return search(fl, f, g, unknown);
}
