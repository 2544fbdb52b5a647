/* SPDX-License-Identifier: BSD-3-Clause */
/* @file Part of test_conform_term.c: further causes for which Flush, Verify and Atomic Write are
 * refused. */
/* clang-format off */

/* Inject one whole request. ctrl is 0x4c, 0x4e or 0x50, or one of these with other RV bits. */
static void
place_as(uint8_t ctrl, uint32_t qn, uint32_t msn, uint32_t mo, uint32_t len)
{
	uint8_t p[32] = {0};

	weft_put_be32(p, cf.all->stag);
	weft_put_be32(p + 4, 8);
	weft_put_be64(p + 8, CF_BASE);
	p[19] = 1;
	CF_UNTAGGED(ctrl, qn, msn, mo, p, len);
}

/* RFC 5041 s7.1 and RFC 5040 s7.2, for each request; draft s4.2: all fields of the DDP segment */
#define PLACE_FIELDS(name, op, len)                                                                \
	static void name##_short(void) { place_as(0x40 | (op), 1, 1, 0, (len) - 1); }              \
	static void name##_nothing(void) { place_as(0x40 | (op), 1, 1, 0, 0); }                    \
	static void name##_rv(void) { place_as((op), 1, 1, 0, len); }                              \
	static void name##_qn_0(void)                                                              \
	{                                                                                          \
		rig_post_recv(&rig.b, 1);                                                          \
		place_as(0x40 | (op), 0, 1, 0, len);                                               \
	}                                                                                          \
	static void name##_qn_2(void) { place_as(0x40 | (op), 2, 1, 0, len); }                     \
	static void name##_qn_3(void) { place_as(0x40 | (op), 3, 1, 0, len); }                     \
	static void name##_qn_4(void) { place_as(0x40 | (op), 4, 1, 0, len); }                     \
	static void name##_msn_0(void) { place_as(0x40 | (op), 1, 0, 0, len); }                    \
	static void name##_msn_ahead(void) { place_as(0x40 | (op), 1, 2, 0, len); }                \
	static void name##_mo(void) { place_as(0x40 | (op), 1, 1, 4, len); }                       \
	static void name##_ird_0(void) { rig.b.r->ird = 0; place_as(0x40 | (op), 1, 1, 0, len); }  \
	static void name##_beyond_ird(void)                                                        \
	{                                                                                          \
		cf.med.eagain = 1000;                                                              \
		for (uint32_t i = 1; i <= CF_IRD + 1; i++)                                         \
			place_as(i == 1 ? 0x4c : 0x40 | (op), 1, i, 0, i == 1 ? 20 : len);         \
	}                                                                                          \
	/* behind a slow Flush, which is answered */                                               \
	static void name##_behind(void)                                                            \
	{                                                                                          \
		cf.med.eagain = 2;                                                                 \
		flush_flags(1);                                                                    \
		rig_inject_place(&rig.b, op, 2, 0x12345678, CF_BASE, 8, "\0\0\0\1\0\0\0",          \
		                 (len) - 16);                                                      \
		cf_blame();                                                                        \
		flushed_first();                                                                   \
	}                                                                                          \
	/* cut in two; the Terminate has the last segment's header and length */                   \
	static void name##_cut(void)                                                               \
	{                                                                                          \
		uint8_t p[32] = {0x12, 0x34, 0x56, 0x78, 0, 0, 0, 8, [19] = 1};                    \
                                                                                                   \
		rig_inject_untagged(&rig.b, 0x40 | (op), 1, 1, 0, false, 0, p, 9);                 \
		CF_UNTAGGED(0x40 | (op), 1, 1, 9, p + 9, (len) - 9);                               \
	}

static void
flushed_first(void)
{
	static const uint8_t flushed[18] = {0x41, 0x4d, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 1};

	rig.b.space = 1;
	rig_pump();
	EXPECT_ULPDU(&rig.b, flushed, 18);
	rig.b.space = UINT32_MAX;
}

PLACE_FIELDS(flush, 0x0c, 20)
PLACE_FIELDS(verify, 0x0e, 16)
PLACE_FIELDS(awrite, 0x10, 24)

/* ---- Flush ---- */

static void
flush_of(uint32_t stag, uint64_t to, uint32_t n, uint8_t flags)
{
	uint8_t f[4] = {0, 0, 0, flags};

	rig_inject_place(&rig.b, WEFT_RDMAP_FLUSH_REQ, 1, stag, to, n, f, 4);
}
static uint32_t
stag_of_before(struct weft_mem_mr **mr)
{
	uint32_t stag = (*mr)->stag;

	rig_unreg(&rig.b, *mr);
	*mr = NULL;
	return stag;
}
static void flush_stale(void) { flush_of(stag_of_before(&cf.wo), CF_BASE, 4, 1); }
static void flush_neighbour_key(void) { flush_of(cf.all->stag ^ 1, CF_BASE, 4, 1); }
static void flush_below(void) { flush_of(cf.all->stag, CF_BASE - 1, 1, 1); }
static void flush_longer(void) { flush_of(cf.all->stag, CF_BASE, CF_BYTES + 1, 1); }
static void flush_2_32(void) { flush_of(cf.all->stag, CF_BASE, UINT32_MAX, 1); }
static void flush_visible_access(void) { flush_of(cf.wo->stag, CF_BASE, 4, 2); }
static void flush_both_access(void) { flush_of(cf.ro->stag, CF_BASE, 4, 3); }
static void flush_empty_access(void) { flush_of(cf.ro->stag, CF_BASE, 0, 1); }
static void flush_empty_unknown(void) { flush_of(0x12345678, CF_BASE, 0, 1); }
static void flush_region_unknown(void) { flush_of(0x12345678, 0, 0, 5); }
static void flush_region_alien(void) { flush_of(cf.alien->stag, 0, 0, 6); }
static void flush_region_access(void) { flush_of(cf.ro->stag, CF_BASE, 4, 5); }
static void flush_region_alone(void) { flush_flags(4); }
static void flush_every_flag(void) { flush_flags(0xffffffff); }
static void flush_long(void) { place_as(0x4c, 1, 1, 0, 21); }
/* the right to flush for visibility does not include the right for persistence, nor the reverse */
static void
flush_half_access(void)
{
	cf.lw->access |= WEFT_ACCESS_FLUSH_VISIBLE;
	flush_of(cf.lw->stag, CF_BASE, 4, 3);
}
static void
flush_other_half_access(void)
{
	cf.all->access &= ~(uint32_t)WEFT_ACCESS_FLUSH_VISIBLE;
	flush_of(cf.all->stag, CF_BASE, 4, 3);
}
static void
flush_fails_as(int err)
{
	cf.med.flush_err = err;
	flush_flags(1);
}
static void flush_no_space(void) { flush_fails_as(-ENOSPC); }
static void flush_read_only(void) { flush_fails_as(-EROFS); }
static void
flush_fails_at_once(void)
{
	cf.med.immediate = true;
	flush_fails_as(-EIO);
}
/* The second of several fails. The first is answered, and the third never starts. */
static void
flush_second_fails(void)
{
	static const uint8_t flushed[18] = {0x41, 0x4d, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 1};

	flush_flags(1);
	rig_pump();
	EXPECT_ULPDU(&rig.b, flushed, 18);
	cf.med.flush_err = -EIO;
	rig_inject_place(&rig.b, WEFT_RDMAP_FLUSH_REQ, 2, cf.all->stag, CF_BASE, 4, "\0\0\0\1", 4);
	cf_blame();
	rig_inject_place(&rig.b, WEFT_RDMAP_AWRITE_REQ, 3, cf.all->stag, CF_BASE, 8, zero, 8);
}

/* ---- Verify ---- */

static void verify_stale(void) { verify(stag_of_before(&cf.wo), CF_BASE, 4, 0); }
static void verify_below(void) { verify(cf.all->stag, CF_BASE - 1, 1, 0); }
static void verify_longer(void) { verify(cf.all->stag, CF_BASE, CF_BYTES + 1, 0); }
static void verify_empty_access(void) { verify(cf.ro->stag, CF_BASE, 0, 0); }
static void verify_empty_unknown(void) { verify(0x12345678, CF_BASE, 0, 0); }
static void verify_hash_of_1(void) { verify(cf.all->stag, CF_BASE, 4, 1); }
static void verify_hash_of_64(void) { verify(cf.all->stag, CF_BASE, 4, 64); }
static void verify_empty_mismatch(void) { verify(cf.all->stag, CF_BASE, 0, 8); }
static void
verify_revoked(void)
{
	uint32_t stag;

	cf.med.eagain = 2;
	flush_flags(1);
	rig_step();
	stag = cf.all->stag;
	rig_inject_place(&rig.b, WEFT_RDMAP_VERIFY_REQ, 2, stag, CF_BASE, 4, NULL, 0);
	cf_blame();
	(void)stag_of_before(&cf.all);
	flushed_first();
	cf.all = rig_reg(&rig.b, cf.med.p.base, CF_BYTES, CF_BASE, WEFT_ACCESS_REMOTE_WRITE,
	                 NULL, NULL);
}
static void
verify_revoked_midway(void)
{
	cf.med.eagain = 3;
	verify(cf.all->stag, CF_BASE, 4, 0);
	cf_blame();
	rig_step();
	(void)stag_of_before(&cf.all);
	rig_step();
	cf.all = rig_reg(&rig.b, cf.med.p.base, CF_BYTES, CF_BASE, WEFT_ACCESS_REMOTE_WRITE,
	                 NULL, NULL);
}
/* one bit of the region's last octet differs, on the medium only */
static void
verify_one_bit(void)
{
	struct weft_hash_state st;
	uint8_t hash[8];

	memcpy(cf.med.shadow, cf.med.p.base, CF_BYTES);
	rig_hash.init(&st, NULL, 0);
	rig_hash.update(&st, cf.med.p.base, CF_BYTES);
	rig_hash.final(&st, hash);
	cf.med.shadow[CF_BYTES - 1] ^= 0x80;
	rig_inject_place(&rig.b, WEFT_RDMAP_VERIFY_REQ, 1, cf.all->stag, CF_BASE,
	                 CF_BYTES, hash, 8);
}

/* ---- Atomic Write ---- */

static void awrite_stale(void) { awrite(stag_of_before(&cf.wo), CF_BASE, 8, 8); }
static void awrite_below(void) { awrite(cf.all->stag, CF_BASE - 8, 8, 8); }
static void awrite_beyond(void) { awrite(cf.all->stag, LAST + 1, 8, 8); }
static void awrite_local_only(void) { awrite(cf.lw->stag, CF_BASE, 8, 8); }
static void awrite_length_0(void) { awrite(cf.all->stag, CF_BASE, 0, 8); }
static void awrite_length_7(void) { awrite(cf.all->stag, CF_BASE, 7, 8); }
static void awrite_length_9(void) { awrite(cf.all->stag, CF_BASE, 9, 8); }
static void awrite_length_16(void) { awrite(cf.all->stag, CF_BASE, 16, 8); }
static void awrite_off_1(void) { awrite(cf.all->stag, CF_BASE + 1, 8, 8); }
static void awrite_off_7(void) { awrite(cf.all->stag, CF_BASE + 7, 8, 8); }
/* clang-format on */
