/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Chunk lists of both versions: decoded, built, filled, encoded (draft s4.5, RFC 8166 s4.3).
 */

#include <errno.h>
#include <string.h>

#include "rpcrdma_wire_priv.h"

#define READ_ENTRY_BYTES (4 + 4 + RPCRDMA_SEGMENT_BYTES) /* "another", position, segment */

/* The lists being decoded. Beyond a limit the rest is parsed but not kept. */
struct chunks_dec {
	struct wire_cur *cur;
	struct rpcrdma_chunks *c;
	struct rpcrdma_limits limits;
	enum rpcrdma_verdict over; /* RPCRDMA_OK, or the first limit that was met */
};

/* ---- Segments ---- */

static bool
chunk_get_segment(struct wire_cur *cur, struct rpcrdma_segment *s)
{
	if (cur->left_bytes < RPCRDMA_SEGMENT_BYTES)
		return false;
	s->handle = weft_get_be32(cur->p);
	s->len_bytes = weft_get_be32(cur->p + 4);
	s->offset = weft_get_be64(cur->p + 8);
	cur->p += RPCRDMA_SEGMENT_BYTES;
	cur->left_bytes -= RPCRDMA_SEGMENT_BYTES;
	return true;
}

static uint8_t *
chunk_put_segment(uint8_t *p, const struct rpcrdma_segment *s)
{
	weft_put_be32(p, s->handle);
	weft_put_be32(p + 4, s->len_bytes);
	weft_put_be64(p + 8, s->offset);
	return p + RPCRDMA_SEGMENT_BYTES;
}

/*
 * Append a segment to a chunk; there is room. Version 1 allows the segments of several Read chunks
 * to be mixed, so the segments behind may have to move.
 */
static void
chunk_push(struct rpcrdma_chunks *c, struct rpcrdma_chunk *k, const struct rpcrdma_segment *s)
{
	unsigned int at;

	if (k->n_segs == 0)
		k->first = c->n_segs;
	at = k->first + k->n_segs;
	if (at < c->n_segs) {
		memmove(&c->segs[at + 1], &c->segs[at], (c->n_segs - at) * sizeof(c->segs[0]));
		if (c->call.first >= at)
			c->call.first++;
		for (unsigned int i = 0; i < c->n_reads; i++)
			if (&c->reads[i] != k && c->reads[i].first >= at)
				c->reads[i].first++;
	}
	c->segs[at] = *s;
	c->n_segs++;
	k->n_segs++;
	k->len_bytes += s->len_bytes;
}

/* The Read chunk at a position, made in its order if there is none; NULL: no room for another. */
static struct rpcrdma_chunk *
chunk_at(struct rpcrdma_chunks *c, uint32_t position, unsigned int max)
{
	unsigned int i = c->n_reads;

	while (i > 0 && c->reads[i - 1].position >= position)
		i--;
	if (i < c->n_reads && c->reads[i].position == position)
		return &c->reads[i];
	if (c->n_reads >= max)
		return NULL;
	memmove(&c->reads[i + 1], &c->reads[i], (c->n_reads - i) * sizeof(c->reads[0]));
	c->reads[i] = (struct rpcrdma_chunk){.position = position};
	c->n_reads++;
	return &c->reads[i];
}

/* ---- Decoding ---- */

static void
dec_over(struct chunks_dec *d, enum rpcrdma_verdict v)
{
	if (d->over == RPCRDMA_OK)
		d->over = v;
}

/* Keep a segment of chunk k, unless a limit is exceeded. */
static void
dec_keep(struct chunks_dec *d, struct rpcrdma_chunk *k, const struct rpcrdma_segment *s)
{
	if (d->c->n_segs >= d->limits.segs)
		dec_over(d, RPCRDMA_MANY_SEGS);
	if (d->over == RPCRDMA_OK)
		chunk_push(d->c, k, s);
}

/*
 * Decode a list of Read segments. Positions are multiples of four. In version 2 those of rdma_call
 * are 0; those of rdma_reads are not 0 and do not decrease (draft s4.5.1, s4.5.1.1, s6.3.7).
 * Version 1 has one list for both, in any order (RFC 8166 s3.4.5, s4.3.1).
 */
static bool
dec_read_list(struct chunks_dec *d, unsigned int part)
{
	uint32_t position, last = 0;
	struct rpcrdma_segment s;
	struct rpcrdma_chunk *k;
	unsigned int n = 0;
	bool more;

	while (wire_bool(d->cur, &more)) {
		if (!more)
			return part != WIRE_CALL || n > 0;
		if (!wire_u32(d->cur, &position) || !chunk_get_segment(d->cur, &s))
			return false;
		if (position % 4 != 0 || (part == WIRE_CALL && position != 0) ||
		    (part == WIRE_READS && (position == 0 || position < last)))
			return false;
		last = position;
		n++;
		if (d->over != RPCRDMA_OK)
			continue;
		k = position == 0 ? &d->c->call : chunk_at(d->c, position, d->limits.read_chunks);
		if (k == NULL)
			dec_over(d, RPCRDMA_MANY_READS);
		else
			dec_keep(d, k, &s);
	}
	return false;
}

/* Decode a counted array of segments into k, which is kept or, past a limit, discarded. */
static bool
dec_write_chunk(struct chunks_dec *d, struct rpcrdma_chunk *k)
{
	struct rpcrdma_segment s;
	uint32_t n;

	*k = (struct rpcrdma_chunk){.first = d->c->n_segs};
	/* A count is valid only as far as the message goes. */
	if (!wire_u32(d->cur, &n) || n > d->cur->left_bytes / RPCRDMA_SEGMENT_BYTES)
		return false;
	for (; n > 0; n--) {
		if (!chunk_get_segment(d->cur, &s))
			return false;
		dec_keep(d, k, &s);
	}
	return true;
}

static bool
dec_write_list(struct chunks_dec *d)
{
	struct rpcrdma_chunk nobodys;
	bool more;

	while (wire_bool(d->cur, &more)) {
		if (!more)
			return true;
		if (d->c->n_writes >= d->limits.write_chunks)
			dec_over(d, RPCRDMA_MANY_WRITES);
		if (!dec_write_chunk(d, d->over == RPCRDMA_OK ? &d->c->writes[d->c->n_writes]
		                                              : &nobodys))
			return false;
		if (d->over == RPCRDMA_OK)
			d->c->n_writes++;
	}
	return false;
}

static bool
dec_reply_chunk(struct chunks_dec *d)
{
	bool there;

	if (!wire_bool(d->cur, &there))
		return false;
	d->c->has_reply = there;
	return !there || dec_write_chunk(d, &d->c->reply);
}

static void
chunks_init(struct rpcrdma_chunks *c)
{
	/* Clear all but the arrays; the counts tell which entries of those are valid. */
	memset(c, 0, offsetof(struct rpcrdma_chunks, reads));
}

static uint16_t
limit(uint16_t want, uint16_t max)
{
	return want < max ? want : max;
}

enum rpcrdma_verdict
weft_rpcrdma_chunks_decode(struct wire_cur *cur, unsigned int parts,
                           const struct rpcrdma_limits *limits, struct rpcrdma_chunks *c)
{
	struct chunks_dec d = {
	        .cur = cur,
	        .c = c,
	        .limits = {RPCRDMA_MAX_READ_CHUNKS, RPCRDMA_MAX_WRITE_CHUNKS, RPCRDMA_MAX_SEGS},
	};

	if (limits != NULL) {
		d.limits.read_chunks = limit(limits->read_chunks, RPCRDMA_MAX_READ_CHUNKS);
		d.limits.write_chunks = limit(limits->write_chunks, RPCRDMA_MAX_WRITE_CHUNKS);
		d.limits.segs = limit(limits->segs, RPCRDMA_MAX_SEGS);
	}
	chunks_init(c);
	if (((parts & WIRE_INV) && !wire_u32(cur, &c->inv_handle)) ||
	    ((parts & WIRE_CALL) && !dec_read_list(&d, WIRE_CALL)) ||
	    ((parts & WIRE_READS) && !dec_read_list(&d, WIRE_READS)) ||
	    ((parts & WIRE_READS_1) && !dec_read_list(&d, WIRE_READS_1)) ||
	    ((parts & WIRE_WRITES) && !dec_write_list(&d)) ||
	    ((parts & WIRE_REPLY) && !dec_reply_chunk(&d)))
		return RPCRDMA_BAD_XDR;
	return d.over;
}

/* ---- Building ---- */

static int
chunk_set(struct rpcrdma_chunks *c, struct rpcrdma_chunk *k, uint32_t position,
          const struct rpcrdma_segment *segs, unsigned int n)
{
	if (n > (unsigned int)RPCRDMA_MAX_SEGS - c->n_segs)
		return -ENOSPC;
	*k = (struct rpcrdma_chunk){.position = position, .first = c->n_segs};
	for (unsigned int i = 0; i < n; i++)
		chunk_push(c, k, &segs[i]);
	return 0;
}

int
weft_rpcrdma_call_set(struct rpcrdma_chunks *c, const struct rpcrdma_segment *segs, unsigned int n)
{
	if (n == 0 || c->call.n_segs > 0)
		return -EINVAL;
	return chunk_set(c, &c->call, 0, segs, n);
}

int
weft_rpcrdma_read_add(struct rpcrdma_chunks *c, uint32_t position,
                      const struct rpcrdma_segment *segs, unsigned int n)
{
	int rc;

	if (n == 0 || position == 0 || position % 4 != 0 ||
	    (c->n_reads > 0 && position <= c->reads[c->n_reads - 1].position))
		return -EINVAL;
	if (c->n_reads >= RPCRDMA_MAX_READ_CHUNKS)
		return -ENOSPC;
	rc = chunk_set(c, &c->reads[c->n_reads], position, segs, n);
	if (rc == 0)
		c->n_reads++;
	return rc;
}

int
weft_rpcrdma_write_add(struct rpcrdma_chunks *c, const struct rpcrdma_segment *segs, unsigned int n)
{
	int rc;

	if (c->n_writes >= RPCRDMA_MAX_WRITE_CHUNKS)
		return -ENOSPC;
	rc = chunk_set(c, &c->writes[c->n_writes], 0, segs, n);
	if (rc == 0)
		c->n_writes++;
	return rc;
}

int
weft_rpcrdma_reply_set(struct rpcrdma_chunks *c, const struct rpcrdma_segment *segs, unsigned int n)
{
	int rc;

	if (c->has_reply)
		return -EINVAL;
	rc = chunk_set(c, &c->reply, 0, segs, n);
	c->has_reply = rc == 0;
	return rc;
}

void
weft_rpcrdma_chunks_return(struct rpcrdma_chunks *reply, const struct rpcrdma_chunks *call,
                           bool with_reply)
{
	chunks_init(reply);
	/* This cannot fail: `reply` has as many places for chunks as `call`. */
	for (unsigned int i = 0; i < call->n_writes; i++)
		(void)weft_rpcrdma_write_add(reply, weft_rpcrdma_segs(call, &call->writes[i]),
		                             call->writes[i].n_segs);
	if (with_reply && call->has_reply)
		(void)weft_rpcrdma_reply_set(reply, weft_rpcrdma_segs(call, &call->reply),
		                             call->reply.n_segs);
}

uint64_t
weft_rpcrdma_chunk_fill(struct rpcrdma_chunks *c, struct rpcrdma_chunk *k, uint64_t len_bytes)
{
	struct rpcrdma_segment *s = &c->segs[k->first];

	k->len_bytes = 0;
	for (unsigned int i = 0; i < k->n_segs; i++) {
		if (s[i].len_bytes > len_bytes)
			s[i].len_bytes = (uint32_t)len_bytes;
		len_bytes -= s[i].len_bytes;
		k->len_bytes += s[i].len_bytes;
	}
	return len_bytes;
}

/* ---- Encoding ---- */

uint32_t
weft_rpcrdma_chunks_bytes(const struct rpcrdma_chunks *c, unsigned int parts)
{
	uint32_t n = 0;

	if (parts & WIRE_INV)
		n += 4;
	if (parts & (WIRE_CALL | WIRE_READS_1))
		n += c->call.n_segs * READ_ENTRY_BYTES;
	if (parts & WIRE_CALL)
		n += 4;
	if (parts & (WIRE_READS | WIRE_READS_1)) {
		for (unsigned int i = 0; i < c->n_reads; i++)
			n += c->reads[i].n_segs * READ_ENTRY_BYTES;
		n += 4;
	}
	if (parts & WIRE_WRITES) {
		for (unsigned int i = 0; i < c->n_writes; i++)
			n += 4 + 4 + c->writes[i].n_segs * RPCRDMA_SEGMENT_BYTES;
		n += 4;
	}
	if (parts & WIRE_REPLY)
		n += 4 + (c->has_reply ? 4 + c->reply.n_segs * RPCRDMA_SEGMENT_BYTES : 0);
	return n;
}

static uint8_t *
enc_word(uint8_t *p, uint32_t v)
{
	weft_put_be32(p, v);
	return p + 4;
}

static uint8_t *
enc_read_chunk(uint8_t *p, const struct rpcrdma_chunks *c, const struct rpcrdma_chunk *k)
{
	for (unsigned int i = 0; i < k->n_segs; i++) {
		p = enc_word(p, 1);
		p = enc_word(p, k->position);
		p = chunk_put_segment(p, &c->segs[k->first + i]);
	}
	return p;
}

static uint8_t *
enc_write_chunk(uint8_t *p, const struct rpcrdma_chunks *c, const struct rpcrdma_chunk *k)
{
	p = enc_word(p, k->n_segs);
	for (unsigned int i = 0; i < k->n_segs; i++)
		p = chunk_put_segment(p, &c->segs[k->first + i]);
	return p;
}

uint8_t *
weft_rpcrdma_chunks_encode(uint8_t *p, const struct rpcrdma_chunks *c, unsigned int parts)
{
	if (parts & WIRE_INV)
		p = enc_word(p, c->inv_handle);
	if (parts & (WIRE_CALL | WIRE_READS_1))
		p = enc_read_chunk(p, c, &c->call);
	if (parts & WIRE_CALL)
		p = enc_word(p, 0);
	if (parts & (WIRE_READS | WIRE_READS_1)) {
		for (unsigned int i = 0; i < c->n_reads; i++)
			p = enc_read_chunk(p, c, &c->reads[i]);
		p = enc_word(p, 0);
	}
	if (parts & WIRE_WRITES) {
		for (unsigned int i = 0; i < c->n_writes; i++)
			p = enc_write_chunk(enc_word(p, 1), c, &c->writes[i]);
		p = enc_word(p, 0);
	}
	if (parts & WIRE_REPLY) {
		p = enc_word(p, c->has_reply);
		if (c->has_reply)
			p = enc_write_chunk(p, c, &c->reply);
	}
	return p;
}
