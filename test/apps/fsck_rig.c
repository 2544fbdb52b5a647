/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Media of exports in memory. */

#include "fsck_rig.h"

#include <errno.h>
#include <stdlib.h>

#include "export_format.h"
#include "log_wire.h"
#include "weft_volume_core.h"
#include "test_xorshift.h"
#include <weft/byteorder.h>

/* ---- Memory ---- */

static int
medium_read(struct fsck_medium *m, uint64_t off, void *buf, size_t len)
{
	CHECK(off <= m->bytes && len <= m->bytes - off);
	rig_get((const struct rig_medium *)m, off, buf, len);
	return 0;
}

static int
medium_write(struct fsck_medium *m, uint64_t off, const void *buf, size_t len)
{
	struct rig_medium *r = (struct rig_medium *)m;

	CHECK(off <= m->bytes && len <= m->bytes - off);
	r->writes++;
	if (r->write_fails >= off && r->write_fails < off + len)
		return -EIO;
	rig_put(r, off, buf, len);
	return 0;
}

static uint64_t
medium_hole(struct fsck_medium *m, uint64_t off, uint64_t len)
{
	const struct rig_medium *r = (const struct rig_medium *)m;
	uint64_t n = 0;

	while (n < len && r->page[(off + n) / RIG_PAGE] == NULL)
		n += RIG_PAGE - (off + n) % RIG_PAGE;
	return n < len ? n : len;
}

void
rig_init(struct rig_medium *r, uint64_t bytes)
{
	CHECK(bytes <= (uint64_t)RIG_MAX_PAGES * RIG_PAGE);
	memset(r, 0, sizeof(*r));
	r->medium = (struct fsck_medium){
	        .bytes = bytes, .read = medium_read, .write = medium_write, .hole = medium_hole};
	r->write_fails = UINT64_MAX;
}

void
rig_free(struct rig_medium *r)
{
	for (unsigned int i = 0; i < RIG_MAX_PAGES; i++)
		free(r->page[i]);
	memset(r->page, 0, sizeof(r->page));
}

void
rig_copy(struct rig_medium *to, const struct rig_medium *from)
{
	rig_init(to, from->medium.bytes);
	for (unsigned int i = 0; i < RIG_MAX_PAGES; i++)
		if (from->page[i] != NULL)
			rig_put(to, (uint64_t)i * RIG_PAGE, from->page[i], RIG_PAGE);
}

bool
rig_equal(const struct rig_medium *a, const struct rig_medium *b, uint64_t begin, uint64_t end)
{
	static const uint8_t zeros[RIG_PAGE];

	for (uint64_t at = begin; at < end;) {
		const uint64_t i = at / RIG_PAGE, in = at % RIG_PAGE;
		const uint64_t n = end - at < RIG_PAGE - in ? end - at : RIG_PAGE - in;
		const uint8_t *p = a->page[i] != NULL ? a->page[i] : zeros;
		const uint8_t *q = b->page[i] != NULL ? b->page[i] : zeros;

		if (memcmp(p + in, q + in, n) != 0)
			return false;
		at += n;
	}
	return true;
}

void
rig_put(struct rig_medium *r, uint64_t off, const void *octets, size_t len)
{
	const uint8_t *from = octets;

	while (len > 0) {
		uint8_t **page = &r->page[off / RIG_PAGE];
		const size_t in = off % RIG_PAGE, n = len < RIG_PAGE - in ? len : RIG_PAGE - in;

		if (*page == NULL)
			*page = calloc(1, RIG_PAGE);
		CHECK(*page != NULL);
		memcpy(*page + in, from, n);
		from += n;
		off += n;
		len -= n;
	}
}

void
rig_get(const struct rig_medium *r, uint64_t off, void *octets, size_t len)
{
	uint8_t *to = octets;

	while (len > 0) {
		const uint8_t *page = r->page[off / RIG_PAGE];
		const size_t in = off % RIG_PAGE, n = len < RIG_PAGE - in ? len : RIG_PAGE - in;

		if (page == NULL)
			memset(to, 0, n);
		else
			memcpy(to, page + in, n);
		to += n;
		off += n;
		len -= n;
	}
}

uint64_t
rig_draw(uint64_t *seed, uint64_t n)
{
	return (test_xorshift(seed) >> 11) % n;
}

static void
fill(uint64_t *seed, uint8_t *mem, size_t len)
{
	for (size_t i = 0; i < len; i++)
		mem[i] = (uint8_t)rig_draw(seed, 256);
}

static uint32_t
crc_of(const uint8_t *mem, size_t len)
{
	return log_crc(0, mem, len);
}

/* ---- An object ---- */

/**
 * One push: into the slot that is free. stage 0: part of the data; 1: all of it; 2: the header,
 * too; 3: committed.
 */
static void
object_push(struct rig_medium *r, const struct expfmt_super *s, struct expfmt_commit *word,
            int stage, uint64_t *seed)
{
	const uint32_t slot = word->generation == 0 ? 0 : 1 - word->slot;
	struct expfmt_slot h = {.generation = word->generation + 1,
	                        .length_bytes = rig_draw(seed, s->capacity_bytes + 1),
	                        .name = "file"};
	uint8_t page[EXPFMT_HEADER_BYTES], octets[8];
	uint8_t *data = malloc(h.length_bytes + 1);

	CHECK(data != NULL);
	fill(seed, data, h.length_bytes);
	weft_put_be32(h.data_crc, crc_of(data, h.length_bytes));
	rig_put(r, s->slot_off[slot] + EXPFMT_HEADER_BYTES, data,
	        stage == 0 ? rig_draw(seed, h.length_bytes + 1) : h.length_bytes);
	free(data);
	expfmt_slot_encode(&h, page);
	if (stage >= 2)
		rig_put(r, s->slot_off[slot], page, sizeof(page));
	if (stage < 3)
		return;
	*word = (struct expfmt_commit){.generation = h.generation, .slot = slot};
	expfmt_commit_encode(word, octets);
	rig_put(r, EXPFMT_COMMIT_OFF, octets, sizeof(octets));
}

void
rig_object(struct rig_medium *r, struct rig_facts *facts, uint64_t *seed)
{
	const uint64_t bytes = EXPFMT_MIN_BYTES + rig_draw(seed, 100000);
	const uint64_t pushes = rig_draw(seed, 5);
	struct expfmt_commit word = {0};
	uint8_t page[EXPFMT_PAGE_BYTES], uuid[16];
	struct expfmt_super s;

	rig_init(r, bytes);
	fill(seed, uuid, sizeof(uuid));
	CHECK_EQ(expfmt_layout(bytes, uuid, &s), 0);
	expfmt_super_encode(&s, page);
	rig_put(r, 0, page, sizeof(page));
	for (uint64_t i = 0; i < pushes; i++)
		object_push(r, &s, &word, 3, seed);
	*facts = (struct rig_facts){.format = FSCK_OBJECT,
	                            .data_at = EXPFMT_SLOTS_OFF,
	                            .data_end = bytes,
	                            .generation = word.generation};
	if (rig_draw(seed, 2) == 0)
		object_push(r, &s, &word, (int)rig_draw(seed, 3), seed);
}

int64_t
rig_object_reads(const struct rig_medium *r)
{
	uint8_t page[RIG_PAGE], octets[8], *data;
	struct expfmt_super s;
	struct expfmt_commit word;
	struct expfmt_slot h;
	bool good;

	rig_get(r, 0, page, sizeof(page));
	if (expfmt_super_decode(page, &s) != EXPFMT_OK || s.size_bytes > r->medium.bytes)
		return -1;
	rig_get(r, EXPFMT_COMMIT_OFF, octets, sizeof(octets));
	expfmt_commit_decode(octets, &word);
	if (word.generation == 0)
		return 0;
	rig_get(r, s.slot_off[word.slot], page, sizeof(page));
	if (expfmt_slot_decode(page, s.capacity_bytes, &h) != EXPFMT_OK ||
	    h.generation != word.generation)
		return -1;
	data = malloc(h.length_bytes + 1);
	CHECK(data != NULL);
	rig_get(r, s.slot_off[word.slot] + EXPFMT_HEADER_BYTES, data, h.length_bytes);
	good = crc_of(data, h.length_bytes) == weft_get_be32(h.data_crc);
	free(data);
	return good ? (int64_t)h.generation : -1;
}

/* ---- A log ---- */

struct made {
	uint8_t *region;
	struct weft_log_super s;
	struct log_geom g;
	uint64_t end, seq, prev, epoch;
};

static void
made_word(struct made *m, uint32_t off, uint64_t position)
{
	uint64_t word = position;

	if (m->g.version > 1)
		word = log_place_encode(log_word_seed(m->s.log_id, m->s.target_id, off, m->epoch),
		                        m->epoch, m->g.ring_bytes, position);
	weft_put_be64(m->region + off, word);
}

static uint8_t *
made_at(struct made *m, uint64_t position)
{
	return m->region + WEFT_LOG_RING_OFF + position % m->g.ring_bytes;
}

/** Append a record; in front of it a filler if it does not fit. Trims what it overwrites. */
static void
made_append(struct made *m, uint32_t len, uint32_t kind, uint64_t *seed)
{
	const uint64_t ring = m->g.ring_bytes, need = log_record_bytes(len);
	struct log_hdr h = {.seq = m->seq,
	                    .epoch = m->epoch,
	                    .prev = m->prev,
	                    .lives = m->g.version > 1 ? log_lives_first(m->g.targets) : 0};

	if (need > log_left(ring, m->end)) {
		h.position = m->end;
		h.kind = LOG_FILLER;
		h.len_bytes = (uint32_t)log_left(ring, m->end) - WEFT_LOG_HEADER_BYTES;
		log_hdr_encode(&m->g, &h, made_at(m, m->end));
		m->end += log_left(ring, m->end);
	}
	h.position = m->end;
	h.kind = kind;
	h.len_bytes = len;
	fill(seed, made_at(m, m->end) + WEFT_LOG_HEADER_BYTES, len);
	h.crc = log_crc(0, made_at(m, m->end) + WEFT_LOG_HEADER_BYTES, len);
	log_hdr_encode(&m->g, &h, made_at(m, m->end));
	m->prev = m->end;
	m->end = log_norm(ring, m->end + need);
	m->seq++;
}

/** Append n records, and set tail and head. Returns how many are there from the head on. */
static uint64_t
made_records(struct made *m, uint64_t n, uint64_t *seed)
{
	uint64_t at[128], count = 0, first;

	for (uint64_t i = 0; i < n; i++) {
		const bool opening = i == 0 || rig_draw(seed, 12) == 0;

		m->epoch += opening && i != 0;
		made_append(m, opening ? 0 : (uint32_t)rig_draw(seed, 600),
		            opening ? LOG_OPENING : LOG_RECORD, seed);
		at[count++] = m->prev;
	}
	if (n == 0) {
		made_word(m, WEFT_LOG_TAIL_OFF, m->g.version > 1 ? LOG_TAIL_NONE : 0);
		return 0;
	}
	for (first = 0; m->end - at[first] > m->g.ring_bytes; first++)
		;
	first += rig_draw(seed, count - first);
	made_word(m, WEFT_LOG_TAIL_OFF, m->prev);
	made_word(m, WEFT_LOG_HEAD_OFF, at[first]);
	return count - first;
}

void
rig_log(struct rig_medium *r, struct rig_facts *facts, uint64_t *seed)
{
	const uint64_t bytes = WEFT_LOG_MIN_BYTES + rig_draw(seed, 400) * 64;
	struct made m = {.s = {.size = sizeof(m.s),
	                       .targets = 1 + (uint32_t)rig_draw(seed, 8),
	                       .version = rig_draw(seed, 6) == 0 ? 1 : 2},
	                 .seq = 1,
	                 .epoch = 1 + rig_draw(seed, 1000)};

	m.s.quorum = 1 + (uint32_t)rig_draw(seed, m.s.targets);
	fill(seed, m.s.log_id, 16);
	fill(seed, m.s.target_id, 16);
	m.s.log_id[0] |= 1;
	m.s.target_id[0] |= 1;
	m.region = calloc(1, bytes);
	CHECK(m.region != NULL);
	CHECK_EQ(weft_log_format(m.region, bytes, &m.s), 0);
	CHECK_EQ(weft_log_super_decode(m.region, bytes, &m.s), 0);
	log_geom_of(&m.s, &m.g);
	m.end = log_first(m.g.ring_bytes);
	*facts = (struct rig_facts){
	        .format = FSCK_LOG, .data_at = WEFT_LOG_RING_OFF, .data_end = bytes};
	if (rig_draw(seed, 10) != 0) {
		facts->records = made_records(&m, rig_draw(seed, 100), seed);
		if (m.g.version == 1)
			weft_put_be64(m.region + WEFT_LOG_CARD_OFF, m.epoch);
		else
			weft_put_be64(m.region + WEFT_LOG_CARD_OFF,
			              log_card_encode(m.s.log_id, m.s.target_id,
			                              &(struct log_card){.epoch = m.epoch,
			                                                 .seated = true,
			                                                 .life = 1}));
		weft_put_be64(m.region + WEFT_LOG_GRANT_OFF,
		              log_grant_word(m.s.log_id, m.s.target_id,
		                             (uint32_t)rig_draw(seed, UINT32_MAX)));
	}
	rig_init(r, bytes);
	rig_put(r, 0, m.region, bytes);
	free(m.region);
}

int64_t
rig_log_reads(const struct rig_medium *r)
{
	uint8_t *region = malloc(r->medium.bytes);
	struct weft_log_image img;
	struct weft_log_record rec;
	struct weft_log_at at;
	int64_t n = 0;
	int rc;

	CHECK(region != NULL);
	rig_get(r, 0, region, r->medium.bytes);
	rc = weft_log_image_open(region, r->medium.bytes, &img);
	if (rc == 0) {
		at = img.head;
		while ((rc = weft_log_image_next(&img, &at, &rec)) > 0)
			n++;
	} else if (rc == -ENODATA) {
		rc = 0; /* it says that it has none */
	}
	free(region);
	return rc == 0 ? n : -1;
}

/* ---- A volume ---- */

/** Formatted by the volume's own code, on a device in memory. */
static void
volume_format(struct rig_medium *r, bool sums, uint64_t bytes, uint64_t disk)
{
	static uint8_t mem[1 << 20] __attribute__((aligned(4096)));
	struct weft_vol_format f = {
	        .bytes = bytes, .uuid = {1, 2, 3}, .created_ns = 4, .sums = sums};
	struct weft_block_attr a = {
	        .size = sizeof(a), .driver = "mem", .options = "block=512", .bytes = disk};
	struct weft_block *b;
	char reason[160] = "";

	CHECK_EQ(weft_block_open(&a, &b), 0);
	CHECK_MSG(weft_vol_format(b, &f, reason, sizeof(reason)) == 0, "%s", reason);
	rig_init(r, disk);
	for (uint64_t at = 0; at < disk; at += sizeof(mem)) {
		const uint64_t n = disk - at < sizeof(mem) ? disk - at : sizeof(mem);
		struct iovec iov = {mem, n};
		struct weft_block_req req = {.op = WEFT_BLOCK_READ,
		                             .off_bytes = at,
		                             .len_bytes = n,
		                             .iov = &iov,
		                             .iovs = 1};

		CHECK_EQ(weft_block_wait(b, &req), 0);
		for (uint64_t i = 0; i < n; i += RIG_PAGE)
			if (mem[i] != 0 || memcmp(mem + i, mem + i + 1, RIG_PAGE - 1) != 0)
				rig_put(r, at + i, mem + i, RIG_PAGE);
	}
	CHECK_EQ(weft_block_close(b), 0);
}

/** Formatted media are made once. */
static const struct rig_medium *
volume_base(bool sums, uint64_t which)
{
	static const uint64_t lengths[] = {40960, 5000, (4U << 20) + 20000};
	static struct rig_medium base[2][3];
	struct rig_medium *b = &base[sums][which];
	const uint64_t bytes = sums ? lengths[which] : (lengths[which] + 511) / 512 * 512;

	if (b->medium.bytes == 0)
		volume_format(b, sums, bytes,
		              (sums ? 6U << 20 : 1U << 20) + (lengths[which] + 4095) / 4096 * 4096);
	return b;
}

static void
volume_super(const struct rig_medium *r, unsigned int i, int *rc, struct weft_vol_super *s)
{
	uint8_t page[RIG_PAGE];
	const char *why;

	rig_get(r, i * (uint64_t)WEFT_VOL_COPY_AT, page, sizeof(page));
	*rc = weft_vol_super_decode(page, sizeof(page), s, &why);
}

/** Write a block, and its checksum, each or both. */
static void
volume_write(struct rig_medium *r, const struct weft_vol_super *s, uint64_t block, bool data,
             bool sum, uint64_t *seed)
{
	static const uint8_t zeros[RIG_PAGE];
	uint8_t mem[RIG_PAGE], octets[4];

	fill(seed, mem, 64);
	memset(mem + 64, (int)rig_draw(seed, 256), sizeof(mem) - 64);
	if (data)
		rig_put(r, s->data_at + block * RIG_PAGE, mem, sizeof(mem));
	if (!sum || s->sums_at == 0)
		return;
	weft_put_be32(octets, crc_of(mem, sizeof(mem)) ^ crc_of(zeros, sizeof(zeros)));
	rig_put(r, s->sums_at + 4 * block, octets, sizeof(octets));
}

void
rig_volume(struct rig_medium *r, struct rig_facts *facts, uint64_t *seed)
{
	const bool sums = rig_draw(seed, 3) != 0;
	struct weft_vol_super s;
	uint64_t blocks;
	int rc;

	rig_copy(r, volume_base(sums, rig_draw(seed, 3)));
	volume_super(r, 0, &rc, &s);
	CHECK_EQ(rc, 0);
	blocks = (s.bytes + RIG_PAGE - 1) / RIG_PAGE;
	for (uint64_t i = rig_draw(seed, 20); i > 0; i--)
		volume_write(r, &s, rig_draw(seed, blocks), true, true, seed);
	*facts = (struct rig_facts){.format = FSCK_VOLUME,
	                            .data_at = s.data_at,
	                            .data_end = r->medium.bytes,
	                            .sums = sums,
	                            .bytes = s.bytes};
	if (!sums || rig_draw(seed, 3) != 0)
		return;
	/* It was not closed: a group was being written, by some worker. */
	facts->doubt = true;
	for (uint64_t i = 1 + rig_draw(seed, 4); i > 0; i--) {
		const uint64_t block = rig_draw(seed, blocks), group = block / 1024;
		const uint64_t at =
		        s.map_at + rig_draw(seed, WEFT_VOL_MAPS) * weft_vol_map_bytes(s.bytes);
		uint8_t octet;

		rig_get(r, at, &octet, 1);
		octet |= (uint8_t)(1U << group);
		rig_put(r, at, &octet, 1);
		volume_write(r, &s, block, rig_draw(seed, 2) == 0, rig_draw(seed, 2) == 0, seed);
	}
}

int64_t
rig_volume_reads(const struct rig_medium *r)
{
	struct weft_vol_super s[2];
	int rc[2];
	uint64_t doubt = 0, blocks;
	int64_t wrong = 0;

	/* As docs/volumes.md says of an open. */
	for (unsigned int i = 0; i < 2; i++)
		volume_super(r, i, &rc[i], &s[i]);
	if (rc[0] == -EMEDIUMTYPE || rc[0] == -EPROTONOSUPPORT || rc[1] == -EPROTONOSUPPORT ||
	    (rc[0] != 0 && rc[1] != 0))
		return -1;
	if (rc[0] != 0)
		s[0] = s[1];
	blocks = (s[0].bytes + RIG_PAGE - 1) / RIG_PAGE;
	if (r->medium.bytes < s[0].data_at + (s[0].sums_at != 0 ? blocks * RIG_PAGE : s[0].bytes))
		return -1;
	if (s[0].sums_at == 0)
		return 0;
	for (uint64_t i = 0; i < WEFT_VOL_MAPS; i++) {
		uint8_t octet;

		rig_get(r, s[0].map_at + i * weft_vol_map_bytes(s[0].bytes), &octet, 1);
		doubt |= octet;
	}
	for (uint64_t b = 0; b < blocks; b++) {
		static const uint8_t zeros[RIG_PAGE];
		uint8_t mem[RIG_PAGE], octets[4];

		rig_get(r, s[0].data_at + b * RIG_PAGE, mem, sizeof(mem));
		rig_get(r, s[0].sums_at + 4 * b, octets, sizeof(octets));
		wrong += (doubt >> b / 1024 & 1) == 0 &&
		         (crc_of(mem, sizeof(mem)) ^ crc_of(zeros, sizeof(zeros))) !=
		                 weft_get_be32(octets);
	}
	return wrong;
}
