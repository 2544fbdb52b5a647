/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The log's format: every flipped bit and every truncation is detected, and no input makes a
 * reader access memory outside.
 */

#include <stdlib.h>

#include "log_wire.h"
#include "weft_base.h"
#include "weft_test.h"

#define RING   8192u
#define REGION (WEFT_LOG_RING_OFF + RING)

static const struct weft_log_super super = {
        .size = sizeof(super),
        .log_id = {0x4c, 0x4f, 0x47, 1, 2, 3, 4, 5, 6},
        .target_id = {0x54, 9, 8, 7},
        .targets = 3,
        .quorum = 2,
};

/** A log that the test encodes. */
static uint32_t version; /**< version of the encoded log */
struct made {
	uint8_t *region;
	struct log_geom g;
	uint64_t end, seq, prev, epoch, head;
};

static uint64_t
draw(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	*x ^= *x << 17;
	return *x >> 8;
}

static void
made_word(struct made *m, uint32_t off, uint64_t position)
{
	uint64_t word = position;

	if (m->g.version > 1)
		word = log_place_encode(log_word_seed(super.log_id, super.target_id, off, m->epoch),
		                        m->epoch, RING, position);
	weft_put_be64(m->region + off, word);
}

static void
made_open(struct made *m)
{
	struct weft_log_super s = super;

	m->region = malloc(REGION);
	CHECK(m->region != NULL);
	memset(m->region, 0xa5, REGION);
	s.version = version;
	CHECK_EQ(weft_log_format(m->region, REGION, &s), 0);
	CHECK_EQ(weft_log_super_decode(m->region, REGION, &s), 0);
	log_geom_of(&s, &m->g);
	m->end = m->head = RING;
	m->seq = m->epoch = 1;
	m->prev = 0;
	if (s.version > 1) {
		struct log_card card = {.epoch = 1, .seated = true, .place = 1, .life = 1};

		weft_put_be64(m->region + WEFT_LOG_CARD_OFF,
		              log_card_encode(s.log_id, s.target_id, &card));
		made_word(m, WEFT_LOG_TAIL_OFF, LOG_TAIL_NONE);
	}
}

static uint8_t *
made_at(struct made *m, uint64_t position)
{
	return m->region + WEFT_LOG_RING_OFF + position % RING;
}

/** The position word of version 2, computed without the library's append. */
static uint64_t
made_append(struct made *m, uint32_t len)
{
	struct log_hdr h = {.seq = m->seq,
	                    .epoch = m->epoch,
	                    .prev = m->prev,
	                    .lives = m->g.version > 1 ? log_lives_first(m->g.targets) : 0};
	uint64_t need = 64 + (len + 7) / 8 * 8, left = RING - m->end % RING;

	if (need > left) {
		h.position = m->end;
		h.kind = LOG_FILLER;
		h.len_bytes = (uint32_t)left - 64;
		log_hdr_encode(&m->g, &h, made_at(m, m->end));
		m->end += left;
	}
	h.position = m->end;
	h.kind = LOG_RECORD;
	h.len_bytes = len;
	for (uint32_t i = 0; i < len; i++)
		made_at(m, m->end)[64 + i] = (uint8_t)(m->seq * 31 + i);
	h.crc = log_crc(0, made_at(m, m->end) + 64, len);
	log_hdr_encode(&m->g, &h, made_at(m, m->end));
	made_word(m, WEFT_LOG_TAIL_OFF, m->end);
	if (m->prev == 0)
		made_word(m, WEFT_LOG_HEAD_OFF, RING);
	m->prev = m->end;
	m->end += need;
	if (RING - m->end % RING < 64)
		m->end += RING - m->end % RING;
	m->seq++;
	return m->prev;
}

/** Read records from the head on. Returns their number, or the -errno that ended the walk. */
static int
read_all(const struct made *m, unsigned int *n)
{
	struct weft_log_image img;
	struct weft_log_record r;
	struct weft_log_at at;
	int rc = weft_log_image_open(m->region, REGION, &img);

	*n = 0;
	if (rc != 0)
		return rc;
	at = img.head;
	while ((rc = weft_log_image_next(&img, &at, &r)) == 1) {
		(*n)++;
		for (uint32_t i = 0; i < r.len_bytes; i++)
			CHECK_EQ(((const uint8_t *)r.data)[i], (uint8_t)(r.at.seq * 31 + i));
	}
	if (rc == 0)
		CHECK(at.seq == img.end.seq && at.position == img.end.position);
	return rc;
}

/* CRC32c as in RFC 7143 A.4. */
static void
test_crc(void)
{
	uint8_t b[32];

	CHECK_EQ(log_crc(0, "123456789", 9), 0xe3069283);
	CHECK_EQ(log_crc(log_crc(0, "1234", 4), "56789", 5), 0xe3069283);
	memset(b, 0xff, sizeof(b));
	CHECK_EQ(log_crc(0, b, sizeof(b)), 0x62a8ab43);
}

/* The octets that docs/log-format.md shows. */
static void
test_octets(void)
{
	static const uint8_t want[48] = {
	        0x4c, 0x4f, 0x47, 1, 2, 3, 4,    5, /* the log */
	        0,    0,    0,    0, 0, 0, 0x20, 0, /* position 8192 */
	        0,    0,    0,    0, 0, 0, 0,    1, /* number 1 */
	        0,    0,    0,    0, 0, 0, 0,    1, /* epoch 1 */
	        0,    0,    0,    0, 0, 0, 0,    0, /* no record before */
	        0,    0,    0,    4, 0, 0, 0,    1, /* 4 octets of data, a record */
	};
	struct made m;

	made_open(&m);
	CHECK_MEM(m.region, "WEFTLOG1\0\0\0\2\0\0\0\x40", 16);
	CHECK_EQ(weft_get_be64(m.region + 16), REGION);
	CHECK_EQ(weft_get_be64(m.region + 32), RING);
	CHECK_EQ(weft_get_be32(m.region + 4092), log_crc(0, m.region, 4092));
	CHECK_EQ(made_append(&m, 4), RING);
	CHECK_MEM(made_at(&m, RING), want, sizeof(want));
	CHECK_EQ(weft_get_be32(made_at(&m, RING) + 48), log_crc(0, "\x1f\x20\x21\x22", 4));
	CHECK_EQ(weft_get_be32(made_at(&m, RING) + 60), log_crc(0, made_at(&m, RING), 60));
	free(m.region);
}

static void
test_super_refusals(void)
{
	struct weft_log_super s = super, out = {.size = sizeof(out)};
	uint8_t page[WEFT_LOG_RING_OFF];

	s.targets = WEFT_LOG_MAX_TARGETS + 1;
	CHECK_EQ(weft_log_format(page, REGION, &s), -EINVAL);
	s.targets = 2, s.quorum = 3;
	CHECK_EQ(weft_log_format(page, REGION, &s), -EINVAL);
	s = super, memset(s.log_id, 0, 16);
	CHECK_EQ(weft_log_format(page, REGION, &s), -EINVAL);
	s = super, memset(s.target_id, 0, 16);
	CHECK_EQ(weft_log_format(page, REGION, &s), -EINVAL);
	CHECK_EQ(weft_log_format(page, WEFT_LOG_MIN_BYTES - 1, &super), -EINVAL);
	CHECK_EQ(weft_log_format(page, UINT64_MAX, &super), -EINVAL);
	CHECK_EQ(weft_log_format(page, REGION, &super), 0);
	CHECK_EQ(weft_log_super_decode(page, REGION - 1, &out), -EBADMSG);
	CHECK_EQ(weft_log_super_decode(page, REGION + 4096, &out), 0);
	memset(page, 0, 8);
	CHECK_EQ(weft_log_super_decode(page, REGION, &out), -ENODATA);
	page[3] = 1;
	CHECK_EQ(weft_log_super_decode(page, REGION, &out), -EMEDIUMTYPE);
}

static void
test_super_bits(void)
{
	struct weft_log_super out = {.size = sizeof(out)};
	uint8_t page[WEFT_LOG_RING_OFF];

	CHECK_EQ(weft_log_format(page, REGION, &super), 0);
	for (unsigned int bit = 0; bit < WEFT_LOG_SUPER_BYTES * 8; bit++) {
		page[bit / 8] ^= (uint8_t)(1 << bit % 8);
		CHECK_MSG(weft_log_super_decode(page, REGION, &out) < 0, "bit %u", bit);
		page[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	CHECK_EQ(weft_log_super_decode(page, REGION, &out), 0);
	CHECK(out.targets == 3 && out.quorum == 2 && out.ring_bytes == RING);
}

/* Laps of all lengths: fillers, rests without room for a header, records that end at the ring's
 * end. */
static void
ring_laps(void)
{
	struct made m;
	uint64_t x = 88172645463325252ULL, places[256];
	unsigned int n, fillers = 0, rests = 0, exact = 0;

	made_open(&m);
	CHECK_EQ(read_all(&m, &n), 0);
	CHECK_EQ(n, 0);
	for (unsigned int i = 1; i < 20000; i++) {
		uint64_t before = m.end, at;
		unsigned int keep;
		uint32_t len = (uint32_t)(draw(&x) % 1500);

		if (draw(&x) % 8 == 0 && RING - before % RING >= 64 && RING - before % RING <= 1500)
			len = (uint32_t)(RING - before % RING) - 64 -
			      (uint32_t)(draw(&x) % 80 % (RING - before % RING - 63));
		at = made_append(&m, len);
		fillers += at != before;
		rests += m.end - at != 64 + (len + 7) / 8 * 8;
		exact += m.end % RING == 0;
		places[i % 256] = at;
		/* three records stay, so the ring always has room for the next one */
		keep = i < 3 ? 1 : i - 2;
		made_word(&m, WEFT_LOG_HEAD_OFF, places[keep % 256]);
		CHECK_EQ(read_all(&m, &n), 0);
		CHECK_EQ(n, i - keep + 1);
	}
	CHECK(fillers > 100 && rests > 100 && exact > 100);
	/* all of them are trimmed */
	made_word(&m, WEFT_LOG_HEAD_OFF, m.end);
	CHECK_EQ(read_all(&m, &n), 0);
	CHECK_EQ(n, 0);
	free(m.region);
}

static void
test_ring(void)
{
	for (version = 1; version <= 2; version++)
		ring_laps();
	version = 0;
}

/* A reader of only the medium detects every flipped bit in the records that the words name. */
static void
test_record_bits(void)
{
	static const uint32_t lens[] = {0, 1, 7, 8, 9, 64, 333};
	struct made m;
	unsigned int n;

	made_open(&m);
	for (unsigned int i = 0; i < RTE_DIM(lens); i++)
		made_append(&m, lens[i]);
	CHECK_EQ(read_all(&m, &n), 0);
	CHECK_EQ(n, RTE_DIM(lens));
	for (uint64_t p = RING, i = 0; i < RTE_DIM(lens); p += 64 + (lens[i] + 7) / 8 * 8, i++)
		for (uint64_t bit = 0; bit < (64 + lens[i]) * 8; bit++) {
			uint8_t *o = made_at(&m, p + bit / 8);

			*o ^= (uint8_t)(1 << bit % 8);
			CHECK_MSG(read_all(&m, &n) == -EBADMSG && n <= i, "record %u bit %u",
			          (unsigned int)i, (unsigned int)bit);
			*o ^= (uint8_t)(1 << bit % 8);
		}
	free(m.region);
}

/* A walk over a truncated chunk returns all complete records, and the length that the next one
 * needs. */
static void
test_cuts(void)
{
	struct made m;
	uint64_t total;

	made_open(&m);
	for (uint32_t i = 0; i < 6; i++)
		made_append(&m, i * 37);
	total = m.end - RING;
	for (uint64_t cut = 0; cut <= total; cut++) {
		struct log_walk w = {.at = {.seq = 1, .position = RING}};
		uint8_t *copy = malloc(cut + 1);
		uint64_t off = 0;
		int64_t rc;

		memcpy(copy, made_at(&m, RING), cut);
		memmove(copy + 1, copy, cut); /* at any alignment, up to its last octet */
		while ((rc = log_walk(&m.g, &w, copy + 1 + off, cut - off)) > 0)
			off += (uint64_t)rc;
		CHECK_EQ(rc, 0);
		CHECK(w.need_bytes > cut - off && off <= cut);
		CHECK_EQ(w.at.position, RING + off);
		free(copy);
	}
	free(m.region);
}

/* A record of an earlier lap, of another log, or of another writer is not accepted. */
static void
test_stale(void)
{
	struct made m;
	struct log_hdr h;
	struct log_walk w = {.at = {.seq = 1, .position = RING}};
	struct log_geom other;

	made_open(&m);
	made_append(&m, 100);
	CHECK_EQ(log_hdr_decode(&m.g, RING, made_at(&m, RING), &h), 0);
	CHECK_EQ(log_hdr_decode(&m.g, 2 * RING, made_at(&m, RING), &h), -EBADMSG);
	other = m.g;
	other.id[7]++;
	CHECK_EQ(log_hdr_decode(&other, RING, made_at(&m, RING), &h), -EBADMSG);
	w.at.seq = 2;
	CHECK_EQ(log_walk(&m.g, &w, made_at(&m, RING), 200), -EBADMSG);
	w.at.seq = 1;
	w.least_epoch = 2;
	CHECK_EQ(log_walk(&m.g, &w, made_at(&m, RING), 200), -EBADMSG);
	free(m.region);
}

/* Words and octets of any value: a result, and no access outside. */
static void
anything(void)
{
	uint64_t x = test_seed(1) * 0x9e3779b97f4a7c15ULL | 1;
	struct made m;
	unsigned int n;

	made_open(&m);
	for (unsigned int i = 0; i < 12; i++)
		made_append(&m, (uint32_t)(draw(&x) % 700));
	for (unsigned int i = 0; i < 20000; i++) {
		static const uint32_t off[] = {WEFT_LOG_TAIL_OFF, WEFT_LOG_HEAD_OFF};
		uint8_t *w = m.region + off[draw(&x) % 2];
		uint64_t old = weft_get_be64(w), v = draw(&x);

		if (v % 4 == 0)
			v = old + (v >> 8) % 4096 - 2048;
		else if (v % 4 == 1)
			v = RING + (v >> 8) % (4 * RING);
		else
			v = v << 8 | (v >> 8 & 0xff);
		weft_put_be64(w, v);
		(void)read_all(&m, &n);
		weft_put_be64(w, old);
	}
	for (uint64_t v = 0; v < 5 * RING; v++) {
		weft_put_be64(m.region + WEFT_LOG_HEAD_OFF, v);
		(void)read_all(&m, &n);
	}
	free(m.region);
}

static void
test_anything(void)
{
	for (version = 1; version <= 2; version++)
		anything();
	version = 0;
}

/* The example of docs/log-format.md, which names the log and the target. */
static void
test_grant_word(void)
{
	struct weft_log_super s = super;
	const uint64_t word = log_grant_word(s.log_id, s.target_id, 0x12345678);

	CHECK_EQ(word, 0x123456780000bff3ULL);
	CHECK(log_grant_word(s.log_id, s.target_id, 0) != 0);
	s.target_id[15] ^= 1;
	CHECK(log_grant_word(s.log_id, s.target_id, 0x12345678) != word);
	s = super;
	s.log_id[15] ^= 1;
	CHECK(log_grant_word(s.log_id, s.target_id, 0x12345678) != word);
}

WEFT_TEST_MAIN({"crc", test_crc}, {"octets", test_octets},
               {"superblock refusals", test_super_refusals}, {"superblock bits", test_super_bits},
               {"ring", test_ring}, {"record bits", test_record_bits}, {"cuts", test_cuts},
               {"stale", test_stale}, {"anything", test_anything}, {"grant word", test_grant_word})
