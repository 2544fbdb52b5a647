/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Codec of the log's format (docs/log-format.md): superblock and records. */

#include <errno.h>
#include <string.h>

#include <isa-l/crc.h>
#include "log_wire.h"
#include <weft/byteorder.h>

/* Superblock. */
enum {
	SB_MAGIC = 0,
	SB_VERSION = 8,
	SB_HEADER_BYTES = 12,
	SB_SIZE = 16,
	SB_RING_OFF = 24,
	SB_RING_BYTES = 32,
	SB_TARGETS = 40,
	SB_QUORUM = 44,
	SB_LOG_ID = 48,
	SB_TARGET_ID = 64,
	SB_CRC = 4092,
};

/* Header of a record. */
enum {
	RH_LOG_ID = 0,
	RH_POSITION = 8,
	RH_SEQ = 16,
	RH_EPOCH = 24,
	RH_PREV = 32,
	RH_LENGTH = 40,
	RH_KIND = 44,
	RH_DATA_CRC = 48,
	RH_LIVES = 52,
	RH_CRC = 60,
};

#define LOG_MAX_BYTES (1ULL << 62)
/** offsets in words have 40 bits, in units of 8 octets; the highest values name no octet */
#define LOG_MAX_RING   (1ULL << 42)
#define LOG_MAX_RECORD (1U << 30) /**< one work request has less than 4 GiB */
#define LOG_CRC_PIECE  (1U << 30) /**< crc32_iscsi() takes an int */

static const uint8_t log_magic[8] = {'W', 'E', 'F', 'T', 'L', 'O', 'G', '1'};
static const uint8_t log_zero[16];

/** CRC32c continued from crc, 0 at first; inverted at both ends, as in RFC 7143. */
uint32_t
log_crc(uint32_t crc, const void *data, size_t len_bytes)
{
	/* Only read: the prototype lacks const. */
	unsigned char *p = (unsigned char *)(uintptr_t)data;

	crc = ~crc;
	while (len_bytes > 0) {
		size_t n = log_min(len_bytes, (size_t)LOG_CRC_PIECE);

		crc = crc32_iscsi(p, (int)n, crc);
		p += n;
		len_bytes -= n;
	}
	return ~crc;
}

uint32_t
log_max_record(uint64_t ring_bytes)
{
	uint64_t n = ring_bytes / 4 / 8 * 8 - WEFT_LOG_HEADER_BYTES;

	return (uint32_t)log_min(n, (uint64_t)LOG_MAX_RECORD);
}

void
log_hdr_encode(const struct log_geom *g, const struct log_hdr *h, uint8_t *out)
{
	memcpy(out + RH_LOG_ID, g->id, 8);
	weft_put_be64(out + RH_POSITION, h->position);
	weft_put_be64(out + RH_SEQ, h->seq);
	weft_put_be64(out + RH_EPOCH, h->epoch);
	weft_put_be64(out + RH_PREV, h->prev);
	weft_put_be32(out + RH_LENGTH, h->len_bytes);
	weft_put_be32(out + RH_KIND, h->kind);
	weft_put_be32(out + RH_DATA_CRC, h->crc);
	weft_put_be64(out + RH_LIVES, h->lives);
	weft_put_be32(out + RH_CRC, log_crc(0, out, RH_CRC));
}

/** Check the header fields in which the versions differ. */
static bool
log_hdr_version_ok(const struct log_geom *g, const struct log_hdr *h)
{
	if (g->version == 1)
		return h->lives == 0;
	return h->epoch <= UINT32_MAX && log_lives_ok(h->lives, g->targets);
}

int
log_hdr_decode(const struct log_geom *g, uint64_t position, const uint8_t *in, struct log_hdr *h)
{
	uint64_t left = log_left(g->ring_bytes, position);
	uint64_t bytes;

	if (memcmp(in + RH_LOG_ID, g->id, 8) != 0 ||
	    weft_get_be32(in + RH_CRC) != log_crc(0, in, RH_CRC))
		return -EBADMSG;
	h->position = weft_get_be64(in + RH_POSITION);
	h->seq = weft_get_be64(in + RH_SEQ);
	h->epoch = weft_get_be64(in + RH_EPOCH);
	h->prev = weft_get_be64(in + RH_PREV);
	h->len_bytes = weft_get_be32(in + RH_LENGTH);
	h->kind = weft_get_be32(in + RH_KIND);
	h->crc = weft_get_be32(in + RH_DATA_CRC);
	h->lives = weft_get_be64(in + RH_LIVES);
	bytes = log_record_bytes(h->len_bytes);
	if (h->position != position || h->seq == 0 || h->epoch == 0 || bytes > left ||
	    h->prev >= position || !log_hdr_version_ok(g, h))
		return -EBADMSG;
	switch (h->kind) {
	case LOG_RECORD:
		return h->len_bytes <= log_max_record(g->ring_bytes) ? 0 : -EBADMSG;
	case LOG_FILLER:
		return bytes == left ? 0 : -EBADMSG;
	case LOG_OPENING:
		return h->len_bytes == 0 ? 0 : -EBADMSG;
	}
	return -EBADMSG;
}

int
log_hdr_decode_at(const struct log_geom *g, uint64_t off, const uint8_t *in, struct log_hdr *h)
{
	uint64_t position = weft_get_be64(in + RH_POSITION);

	if (position % g->ring_bytes != off || !log_is_place(g->ring_bytes, position))
		return -EBADMSG;
	return log_hdr_decode(g, position, in, h);
}

int64_t
log_walk(const struct log_geom *g, struct log_walk *w, const uint8_t *p, uint64_t avail)
{
	uint64_t bytes, next;

	if (avail < WEFT_LOG_HEADER_BYTES) {
		w->need_bytes = WEFT_LOG_HEADER_BYTES;
		return 0;
	}
	if (log_hdr_decode(g, w->at.position, p, &w->hdr) != 0 || w->hdr.seq != w->at.seq ||
	    w->hdr.epoch < w->least_epoch)
		return -EBADMSG;
	bytes = log_record_bytes(w->hdr.len_bytes);
	if (w->hdr.kind == LOG_FILLER) {
		w->at.position += bytes;
		return (int64_t)bytes;
	}
	if (avail < bytes) {
		w->need_bytes = bytes;
		return 0;
	}
	w->data = p + WEFT_LOG_HEADER_BYTES;
	if (log_crc(0, w->data, w->hdr.len_bytes) != w->hdr.crc)
		return -EBADMSG;
	next = log_norm(g->ring_bytes, w->at.position + bytes);
	bytes = next - w->at.position;
	w->at = (struct weft_log_at){.seq = w->hdr.seq + 1, .position = next};
	w->least_epoch = w->hdr.epoch;
	return (int64_t)bytes;
}

void
log_geom_of(const struct weft_log_super *s, struct log_geom *g)
{
	memcpy(g->id, s->log_id, sizeof(g->id));
	g->ring_bytes = s->ring_bytes;
	g->version = s->version;
	g->targets = s->targets;
}

/* ---- Superblock ---- */

/** Check the numbers, and fill in defaults. */
static int
log_super_check(struct weft_log_super *s)
{
	if (s->targets == 0)
		s->targets = 1;
	if (s->quorum == 0)
		s->quorum = s->targets / 2 + 1;
	if (s->version == 0)
		s->version = WEFT_LOG_VERSION;
	if (s->version > WEFT_LOG_VERSION || s->targets > WEFT_LOG_MAX_TARGETS ||
	    s->quorum > s->targets || memcmp(s->log_id, log_zero, 8) == 0 ||
	    memcmp(s->target_id, log_zero, 16) == 0)
		return -EINVAL;
	return 0;
}

int
log_super_encode(uint64_t len_bytes, const struct weft_log_super *in, uint8_t *page)
{
	struct weft_log_super s = *in;

	if (in->size != sizeof(*in) || len_bytes < WEFT_LOG_MIN_BYTES ||
	    len_bytes > LOG_MAX_BYTES || log_super_check(&s) != 0)
		return -EINVAL;
	s.ring_bytes =
	        (len_bytes - WEFT_LOG_RING_OFF) / WEFT_LOG_HEADER_BYTES * WEFT_LOG_HEADER_BYTES;
	if (s.version > 1 && s.ring_bytes > LOG_MAX_RING)
		return -EINVAL;
	memset(page, 0, WEFT_LOG_SUPER_BYTES);
	memcpy(page + SB_MAGIC, log_magic, sizeof(log_magic));
	weft_put_be32(page + SB_VERSION, s.version);
	weft_put_be32(page + SB_HEADER_BYTES, WEFT_LOG_HEADER_BYTES);
	weft_put_be64(page + SB_SIZE, WEFT_LOG_RING_OFF + s.ring_bytes);
	weft_put_be64(page + SB_RING_OFF, WEFT_LOG_RING_OFF);
	weft_put_be64(page + SB_RING_BYTES, s.ring_bytes);
	weft_put_be32(page + SB_TARGETS, s.targets);
	weft_put_be32(page + SB_QUORUM, s.quorum);
	memcpy(page + SB_LOG_ID, s.log_id, sizeof(s.log_id));
	memcpy(page + SB_TARGET_ID, s.target_id, sizeof(s.target_id));
	weft_put_be32(page + SB_CRC, log_crc(0, page, SB_CRC));
	return 0;
}

int
weft_log_format(void *region, uint64_t len_bytes, const struct weft_log_super *super)
{
	uint8_t *p = region;
	int rc = p == NULL || super == NULL ? -EINVAL : log_super_encode(len_bytes, super, p);

	if (rc == 0)
		memset(p + WEFT_LOG_SUPER_BYTES, 0, WEFT_LOG_RING_OFF - WEFT_LOG_SUPER_BYTES);
	return rc;
}

int
weft_log_super_decode(const void *page, uint64_t len_bytes, struct weft_log_super *super)
{
	struct weft_log_super s = {.size = sizeof(s)};
	const uint8_t *p = page;
	uint8_t want[WEFT_LOG_SUPER_BYTES];

	if (p == NULL || super == NULL || super->size != sizeof(*super))
		return -EINVAL;
	if (memcmp(p + SB_MAGIC, log_zero, 8) == 0)
		return -ENODATA;
	if (memcmp(p + SB_MAGIC, log_magic, 8) != 0)
		return -EMEDIUMTYPE;
	s.version = weft_get_be32(p + SB_VERSION);
	if (s.version == 0 || s.version > WEFT_LOG_VERSION)
		return -EPROTONOSUPPORT;
	if (weft_get_be32(p + SB_CRC) != log_crc(0, p, SB_CRC))
		return -EBADMSG;
	s.targets = weft_get_be32(p + SB_TARGETS);
	s.quorum = weft_get_be32(p + SB_QUORUM);
	s.ring_bytes = weft_get_be64(p + SB_RING_BYTES);
	memcpy(s.log_id, p + SB_LOG_ID, sizeof(s.log_id));
	memcpy(s.target_id, p + SB_TARGET_ID, sizeof(s.target_id));
	/* Each version has one layout for each length: all other fields follow from it. */
	if (s.targets == 0 || s.quorum == 0 || s.ring_bytes > LOG_MAX_BYTES - WEFT_LOG_RING_OFF ||
	    len_bytes < WEFT_LOG_RING_OFF || s.ring_bytes > len_bytes - WEFT_LOG_RING_OFF ||
	    log_super_encode(WEFT_LOG_RING_OFF + s.ring_bytes, &s, want) != 0 ||
	    memcmp(want, p, sizeof(want)) != 0)
		return -EBADMSG;
	*super = s;
	return 0;
}
