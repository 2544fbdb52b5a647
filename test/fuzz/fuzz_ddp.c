/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file DDP segments for one stream: raw octets or nearly valid segments, in fragments of any size,
 * while regions and windows are created and destroyed. A model, made from RFC 5041 s5 and s7 and
 * RFC 5042 s2.2.5, predicts for each segment whether it is placed, delivered, refused with which
 * error, or dropped. Memory must equal the model's, in the regions and around them.
 */

#include "redzone.h"
#include "guard.h"

#include "weft_ddp_wire.h"
#include "weft_mpa.h"
#include "weft_mem_fast.h"

#define FUZZ_OPS   250
#define FUZZ_FRAGS 6
#define FUZZ_SEG   1600
#define FUZZ_NOW   (1000 * WEFT_NS_PER_MS)
/* the last octet of the block has the highest possible offset */
#define HIGH_TO (UINT64_MAX - (GUARD_LEN - 1))
#define TO      0x123456789aULL

/** RW and LEND have windows on parts of them. LEND is accessible through windows only. */
enum { RW, LEND, RO, SINK, HIGH, OTHER, FAST, NREGIONS, WIN = NREGIONS, WIN_OTHER, NGRANTS };

static const struct {
	uint64_t to;
	uint32_t access;
	bool other_pd;
} regions[NREGIONS] = {
        [RW] = {TO, WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_REMOTE_WRITE | WEFT_ACCESS_MW_BIND,
                false},
        [LEND] = {0, WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_MW_BIND, false},
        [RO] = {TO, WEFT_ACCESS_REMOTE_READ, false},
        [SINK] = {0, WEFT_ACCESS_LOCAL_WRITE, false},
        [HIGH] = {HIGH_TO, WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_REMOTE_WRITE, false},
        [OTHER] = {TO, WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_REMOTE_WRITE, true},
        [FAST] = {TO, WEFT_ACCESS_REMOTE_WRITE, false},
};

static struct guard guards[NREGIONS];
static struct redzone_pool pieces;

/** The model's state of an STag. */
struct grant {
	struct weft_mem_mr *mr;
	bool valid, ours; /**< ours: this stream may use it */
	uint32_t stag, access;
	uint64_t to, len;
	unsigned int block; /**< the block of memory, */
	uint32_t off;       /**< and the offset of the first octet in it */
	unsigned int windows;
};

static struct {
	struct fuzz_in in;
	struct weft_mem *mem;
	struct weft_mem_pd pd, other_pd, other_stream;
	struct weft_sched sched;
	struct weft_ddp d;
	struct weft_mpa mpa;
	struct grant g[NGRANTS];
	uint32_t stale;
	/* actions of the layer above */
	uint32_t access;
	bool refuse;
	/* the stream of the model */
	uint32_t msn[WEFT_DDP_NQN], mo[WEFT_DDP_NQN];
	bool faulted;
	/* the segment and its result */
	uint8_t seg[FUZZ_SEG];
	uint32_t len;
	unsigned int tagged, placed, untagged, faults, dropped;
	struct weft_term term;
	bool term_hdr;
} z;

/* ---- The layer above ---- */

static void
same_header(const struct weft_ddp_hdr *h)
{
	uint8_t again[WEFT_DDP_UNTAGGED_HDR_BYTES];
	unsigned int n = weft_ddp_hdr_encode(h, again);

	FUZZ_CHECK(n <= z.len && memcmp(again, z.seg, n) == 0);
}

static int
up_tagged(void *user, const struct weft_ddp_hdr *h, uint32_t len, uint32_t *access,
          struct weft_term *term)
{
	FUZZ_CHECK(user == &z && h->tagged && len == z.len - WEFT_DDP_TAGGED_HDR_BYTES);
	same_header(h);
	z.tagged++;
	*access = z.access;
	return z.refuse ? weft_fault(term, 0, 2, 6) : 0;
}

static void
up_placed(void *user, const struct weft_ddp_hdr *h, uint32_t len, uint64_t now_ns)
{
	FUZZ_CHECK(user == &z && h->tagged && now_ns == FUZZ_NOW);
	FUZZ_CHECK(len == z.len - WEFT_DDP_TAGGED_HDR_BYTES);
	z.placed++;
}

static int
up_untagged(void *user, const struct weft_ddp_hdr *h, struct weft_cur *c, uint32_t len,
            struct weft_term *term, uint64_t now_ns)
{
	uint8_t got[FUZZ_SEG];

	FUZZ_CHECK(user == &z && !h->tagged && now_ns == FUZZ_NOW && c->left_bytes == len);
	FUZZ_CHECK(len == z.len - WEFT_DDP_UNTAGGED_HDR_BYTES);
	same_header(h);
	z.untagged++;
	if (z.refuse)
		return weft_fault(term, 1, 2, WEFT_TERM_UNT_NO_BUFFER);
	FUZZ_CHECK(weft_cur_read(c, got, len) == 0 && c->left_bytes == 0);
	FUZZ_CHECK(memcmp(got, z.seg + WEFT_DDP_UNTAGGED_HDR_BYTES, len) == 0);
	return 0;
}

static void
up_fault(void *user, const struct weft_term *term, const struct weft_ddp_hdr *h, const uint8_t *hdr,
         unsigned int hdr_bytes, uint32_t seg_bytes, uint64_t now_ns)
{
	FUZZ_CHECK(user == &z && now_ns == FUZZ_NOW && seg_bytes == z.len);
	FUZZ_CHECK(hdr_bytes <= z.len && hdr_bytes >= RTE_MIN(z.len, 42u));
	FUZZ_CHECK(memcmp(hdr, z.seg, hdr_bytes) == 0);
	z.faults++;
	z.term = *term;
	z.term_hdr = h != NULL;
	if (h != NULL)
		same_header(h);
}

static void
up_dropped(void *user)
{
	FUZZ_CHECK(user == &z);
	z.dropped++;
}

static const struct weft_ddp_ops up = {.tagged = up_tagged,
                                       .tagged_placed = up_placed,
                                       .untagged = up_untagged,
                                       .fault = up_fault,
                                       .dropped = up_dropped};

/* ---- The model ---- */

static uint64_t
be(const uint8_t *p, unsigned int n)
{
	uint64_t v = 0;

	while (n-- > 0)
		v = v << 8 | *p++;
	return v;
}

/** The expected result for the octets of z.seg: the error as layer << 16 | type << 8 | code, or
 * -1. *place: where the payload is placed. */
static int
foretell_tagged(struct grant **place, uint64_t *at)
{
	uint32_t stag = (uint32_t)be(z.seg + 2, 4), len = z.len - WEFT_DDP_TAGGED_HDR_BYTES;
	uint64_t to = be(z.seg + 6, 8);
	struct grant *g = NULL;

	if (z.refuse)
		return 0x000206;
	if (len == 0)
		return -1;
	for (unsigned int i = 0; i < NGRANTS; i++)
		if (z.g[i].valid && z.g[i].stag == stag)
			g = &z.g[i];
	if (g == NULL)
		return 0x010100;
	if (!g->ours)
		return 0x010102;
	if (to + (len - 1) < to)
		return 0x010103;
	if (to < g->to || to - g->to > g->len || len > g->len - (to - g->to))
		return 0x010101;
	if ((g->access & z.access) != z.access)
		return 0x000102;
	*place = g;
	*at = to - g->to;
	return -1;
}

static int
foretell_untagged(void)
{
	uint32_t qn = (uint32_t)be(z.seg + 6, 4), msn = (uint32_t)be(z.seg + 10, 4);
	uint32_t mo = (uint32_t)be(z.seg + 14, 4), len = z.len - WEFT_DDP_UNTAGGED_HDR_BYTES;

	if (qn > 3)
		return 0x010201;
	if (msn != z.msn[qn])
		return 0x010203;
	if (mo != z.mo[qn])
		return 0x010204;
	if ((uint64_t)mo + len >= 1ull << 32)
		return 0x010205;
	if (z.seg[0] & 0x40) {
		z.msn[qn]++;
		z.mo[qn] = 0;
	} else {
		z.mo[qn] += len;
	}
	return z.refuse ? 0x010202 : -1;
}

static void
deliver(void)
{
	struct weft_frag frag[FUZZ_FRAGS + 1];
	uint8_t *piece[FUZZ_FRAGS + 1];
	unsigned int n = 0, cuts = fuzz_u8(&z.in) % (FUZZ_FRAGS + 1);
	bool faulted = z.faulted, tagged = z.len > 0 && z.seg[0] & 0x80, whole;
	unsigned int tagged_before = z.tagged, untagged_before = z.untagged, placed = z.placed;
	unsigned int faults = z.faults, dropped = z.dropped;
	struct grant *g = NULL;
	uint64_t at = 0;
	int want = -1;

	whole = z.len >=
	        (tagged ? WEFT_DDP_TAGGED_HDR_BYTES : (uint32_t)WEFT_DDP_UNTAGGED_HDR_BYTES);
	if (faulted)
		;
	else if (!whole)
		want = 0x010000;
	else if ((z.seg[0] & 3) != 1)
		want = tagged ? 0x010104 : 0x010206;
	else
		want = tagged ? foretell_tagged(&g, &at) : foretell_untagged();

	for (uint32_t pos = 0; n == 0 || pos < z.len; n++) {
		uint32_t k = n < cuts ? RTE_MIN(fuzz_u8(&z.in), z.len - pos) : z.len - pos;

		/* of exact length, sometimes without octets */
		piece[n] = redzone_copy(&pieces, z.seg + pos, k);
		frag[n] = (struct weft_frag){piece[n], k};
		pos += k;
	}
	weft_ddp_mpa_ops.ulpdu(&z.d, frag, n, z.len, FUZZ_NOW);
	for (unsigned int i = 0; i < n; i++)
		redzone_free(&pieces, piece[i]);

	FUZZ_CHECK(z.dropped - dropped == faulted);
	FUZZ_CHECK(z.faults - faults == (want >= 0));
	if (want >= 0) {
		FUZZ_CHECK((z.term.layer << 16 | z.term.etype << 8 | z.term.code) == want);
		FUZZ_CHECK(z.term_hdr == whole);
		z.faulted = true;
	}
	if (!faulted && whole && want < 0) {
		FUZZ_CHECK(z.placed - placed == tagged && z.tagged - tagged_before == tagged);
		FUZZ_CHECK(z.untagged - untagged_before == !tagged);
	} else {
		FUZZ_CHECK(z.placed == placed);
	}
	FUZZ_CHECK(z.d.faulted == z.faulted);
	for (unsigned int i = 0; i < WEFT_DDP_NQN; i++)
		FUZZ_CHECK(z.d.rx_msn[i] == z.msn[i] && z.d.rx_mo[i] == z.mo[i]);
	if (g != NULL)
		memcpy(guards[g->block].shadow + g->off + at, z.seg + WEFT_DDP_TAGGED_HDR_BYTES,
		       z.len - WEFT_DDP_TAGGED_HDR_BYTES);
	for (unsigned int i = 0; i < NREGIONS; i++)
		guard_check(&guards[i]);
}

/* ---- Grants ---- */

static void
quiet(void)
{
	weft_mem_quiescent(z.mem, 0);
	weft_mem_reclaim(z.mem);
}

static void
reg(unsigned int i)
{
	struct weft_mem_pd *pd = regions[i].other_pd ? &z.other_pd : &z.pd;
	struct grant *g = &z.g[i];
	struct weft_mem_attr a = {.addr = guards[i].mem,
	                          .len_bytes = GUARD_LEN,
	                          .base_to = regions[i].to,
	                          .access = regions[i].access};

	if (i == FAST) {
		if (g->mr == NULL)
			FUZZ_CHECK(weft_mem_alloc(z.mem, pd, WEFT_MEM_FAST, NULL, NULL, &g->mr) ==
			           0);
		g->stag = weft_mem_take_stag(z.mem, g->mr);
		FUZZ_CHECK(weft_mem_fill(z.mem, g->mr, pd, NULL, &a, g->stag) == 0);
	} else {
		FUZZ_CHECK(weft_mem_reg(z.mem, pd, &a, &g->mr) == 0);
		g->stag = g->mr->stag;
	}
	*g = (struct grant){
	        g->mr, true, !regions[i].other_pd, g->stag, a.access, a.base_to, GUARD_LEN, i,
	        0,     0};
}

static void
unbind(struct grant *g)
{
	if (!g->valid)
		return;
	FUZZ_CHECK(weft_mem_fast_invalidate(z.mem, g->mr) == 0);
	z.g[g->block].windows--;
	g->valid = false;
	z.stale = g->stag;
	quiet();
	FUZZ_CHECK(weft_mem_drained(z.mem, g->mr));
}

/** A window of a part of RW or LEND, for this stream or another one of the domain. */
static void
lend(unsigned int i, uint8_t how)
{
	static const uint64_t bases[4] = {0, TO, UINT64_MAX, 1};
	struct grant *g = &z.g[i], *parent = &z.g[how & 1];
	uint32_t off = fuzz_u16(&z.in) % GUARD_LEN, len = fuzz_u16(&z.in) % (GUARD_LEN - off) + 1;
	struct weft_mem_attr a = {.addr = guards[how & 1].mem + off,
	                          .len_bytes = len,
	                          .base_to = bases[how >> 1 & 3],
	                          .access = how & 8 ? WEFT_ACCESS_REMOTE_WRITE
	                                            : WEFT_ACCESS_REMOTE_READ};

	unbind(g);
	if (!parent->valid)
		return;
	if (a.base_to == UINT64_MAX)
		a.base_to -= len - 1;
	if (g->mr == NULL)
		FUZZ_CHECK(weft_mem_alloc(z.mem, &z.pd, WEFT_MEM_WINDOW, NULL, NULL, &g->mr) == 0);
	g->stag = weft_mem_take_stag(z.mem, g->mr);
	FUZZ_CHECK(weft_mem_check_attr(&a) == 0);
	atomic_fetch_add_explicit(parent->mr->bound, 1, memory_order_relaxed);
	parent->windows++;
	FUZZ_CHECK(weft_mem_fill(z.mem, g->mr, i == WIN ? &z.d.scope : &z.other_stream, parent->mr,
	                         &a, g->stag) == 0);
	*g = (struct grant){g->mr,     true, i == WIN, g->stag, a.access,
	                    a.base_to, len,  how & 1,  off,     0};
}

static void
revoke(unsigned int i)
{
	struct grant *g = &z.g[i];

	if (i >= NREGIONS) {
		unbind(g);
		return;
	}
	if (i == FAST) {
		FUZZ_CHECK(weft_mem_fast_invalidate(z.mem, g->mr) == (g->valid ? 0 : -ENOENT));
	} else if (g->valid) {
		int rc = weft_mem_close(g->mr->bound);

		FUZZ_CHECK(rc == (g->windows > 0 ? -EBUSY : 0));
		if (rc != 0)
			return;
		weft_mem_invalidate(z.mem, g->mr, NULL, NULL);
	}
	if (g->valid)
		z.stale = g->stag;
	g->valid = false;
	quiet();
}

/* ---- Operations ---- */

static uint32_t
stag(uint8_t how)
{
	return (how & 15) < NGRANTS ? z.g[how & 15].stag
	       : (how & 15) < 13    ? z.stale
	                            : fuzz_u32(&z.in);
}

static void
payload(uint32_t hdr, uint8_t how)
{
	uint32_t len = how & 0x80 ? fuzz_u16(&z.in) % (FUZZ_SEG - hdr) : fuzz_u8(&z.in);
	static uint8_t counting[256 + FUZZ_SEG];
	uint8_t first = fuzz_u8(&z.in);

	if (counting[1] == 0)
		for (uint32_t i = 0; i < sizeof(counting); i++)
			counting[i] = (uint8_t)i;
	memcpy(z.seg + hdr, counting + first, len);
	z.len = hdr + len;
}

static void
tagged(uint8_t op)
{
	static const uint32_t rights[4] = {WEFT_ACCESS_REMOTE_WRITE, WEFT_ACCESS_LOCAL_WRITE,
	                                   WEFT_ACCESS_REMOTE_WRITE,
	                                   WEFT_ACCESS_REMOTE_WRITE | WEFT_ACCESS_LOCAL_WRITE};
	uint8_t how = fuzz_u8(&z.in), at = fuzz_u8(&z.in);
	struct weft_ddp_hdr h = {.tagged = true,
	                         .last = op & 0x40,
	                         .version = 1,
	                         .rsvdulp = 0x40,
	                         .stag = stag(how)};
	const struct grant *g = &z.g[(how & 15) % NGRANTS];

	z.access = rights[how >> 4 & 3];
	payload(WEFT_DDP_TAGGED_HDR_BYTES, how);
	/* At the beginning of the grant, near its end, or anywhere. */
	switch (at & 3) {
	case 0:
		h.to = g->to + fuzz_u16(&z.in) % 4096;
		break;
	case 1:
		h.to = g->to + g->len - (z.len - WEFT_DDP_TAGGED_HDR_BYTES) +
		       (uint64_t)(int64_t)((int8_t)at >> 2);
		break;
	case 2:
		h.to = g->to + (uint64_t)(int64_t)((int8_t)at >> 2);
		break;
	default:
		h.to = (uint64_t)fuzz_u32(&z.in) << 32 | fuzz_u32(&z.in);
		break;
	}
	weft_ddp_hdr_encode(&h, z.seg);
	if (op & 0x80)
		z.seg[fuzz_u8(&z.in) % 14] ^= fuzz_u8(&z.in);
	deliver();
}

static void
untagged(uint8_t op)
{
	uint8_t how = fuzz_u8(&z.in);
	uint32_t qn = how & 3;
	struct weft_ddp_hdr h = {.last = op & 0x40,
	                         .version = 1,
	                         .rsvdulp = 0x43,
	                         .rsvdulp32 = op,
	                         .qn = qn,
	                         .msn = z.msn[qn],
	                         .mo = z.mo[qn]};

	if (how & 4)
		h.qn = fuzz_u32(&z.in);
	if (how & 8)
		h.msn += (uint32_t)(int8_t)fuzz_u8(&z.in);
	if (how & 16)
		h.mo += (uint32_t)(int8_t)fuzz_u8(&z.in);
	weft_ddp_hdr_encode(&h, z.seg);
	payload(WEFT_DDP_UNTAGGED_HDR_BYTES, how);
	if (op & 0x80)
		z.seg[fuzz_u8(&z.in) % 18] ^= fuzz_u8(&z.in);
	deliver();
}

/** The stream ends, and its windows with it. Begin another one, whose numbers may be near the
 * maximum. */
static void
renew(void)
{
	uint8_t how = fuzz_u8(&z.in);

	unbind(&z.g[WIN]);
	weft_ddp_init(&z.d, &z.mpa, z.mem, &z.pd, &up, &z);
	z.d.mpa->sched = &z.sched;
	z.faulted = false;
	for (unsigned int i = 0; i < WEFT_DDP_NQN; i++) {
		if (how & 1)
			z.d.rx_msn[i] = UINT32_MAX - (how >> 4);
		if (how & 2)
			z.d.rx_mo[i] = UINT32_MAX - (how >> 4) * 16u;
		z.msn[i] = z.d.rx_msn[i];
		z.mo[i] = z.d.rx_mo[i];
	}
}

static void
step(uint8_t op)
{
	const uint8_t *raw;
	uint8_t how;
	size_t n;

	switch (op & 7) {
	case 0:
		raw = fuzz_octets(&z.in, fuzz_u8(&z.in), &n);
		if (n > 0)
			memcpy(z.seg, raw, n);
		z.len = (uint32_t)n;
		deliver();
		break;
	case 1:
	case 2:
		tagged(op);
		break;
	case 3:
		untagged(op);
		break;
	case 4:
		lend(op & 8 ? WIN_OTHER : WIN, op >> 4);
		break;
	case 5:
		how = (op >> 3) % NGRANTS;
		revoke(how);
		if (how < NREGIONS && !z.g[how].valid && fuzz_u8(&z.in) & 1)
			reg(how);
		break;
	case 6:
		renew();
		break;
	default:
		z.refuse = op & 0x80;
		if (z.faulted && op & 0x40)
			renew();
		break;
	}
}

static void
start(void)
{
	struct weft_rand r = fuzz_rand();

	rte_log_set_global_level(RTE_LOG_ERR);
	FUZZ_CHECK(weft_mem_create(16, 1, &r, &z.mem) == 0);
	FUZZ_CHECK(weft_mem_reader_register(z.mem, 0) == 0);
	weft_mem_online(z.mem, 0);
	z.pd.mem = z.other_pd.mem = z.mem;
	z.other_stream = (struct weft_mem_pd){.mem = z.mem, .home = &z.pd};
	z.sched.now_ns = FUZZ_NOW;
	for (unsigned int i = 0; i < NREGIONS; i++) {
		guard_open(&guards[i]);
		reg(i);
	}
	renew();
}

static void
finish(void)
{
	for (unsigned int i = NGRANTS; i-- > 0;) {
		revoke(i);
		if (i >= FAST && z.g[i].mr != NULL)
			FUZZ_CHECK(weft_mem_dealloc(z.mem, z.g[i].mr, NULL, NULL) == 0);
	}
	quiet();
	FUZZ_CHECK(weft_mem_count(z.mem) == 0);
	FUZZ_CHECK(z.pd.regions == 0 && z.pd.windows == 0 && z.other_pd.regions == 0);
	weft_mem_reader_unregister(z.mem, 0);
	weft_mem_destroy(z.mem);
	for (unsigned int i = 0; i < NREGIONS; i++)
		guard_check(&guards[i]);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	memset(&z, 0, sizeof(z));
	z.in = (struct fuzz_in){data, size};
	start();
	for (unsigned int i = 0; i < FUZZ_OPS && z.in.left > 0; i++)
		step(fuzz_u8(&z.in));
	finish();
	return 0;
}
