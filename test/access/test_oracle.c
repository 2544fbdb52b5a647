/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Verify as an oracle. A client that may verify reads a secret by it, one octet at a time,
 * with any hash. With an unkeyed hash, the client computes the hashes of all 256 octets. With a
 * keyed hash, it writes the octets into its own part of the region and has the target hash them.
 * The attack must succeed where the client has the read right. It must reveal nothing where the
 * client has not: after registration, after fast registration, through a window, after the read
 * right was revoked, and even for a region whose rights are, by a fault, verify without read.
 */

#include <errno.h>

#include "vt_fast.h"
#include "weft_mem_find.h"

#define KEY     "the key of the region"
#define SECRET  64 /* octets that the client must not learn */
#define OWN     64 /* octets that the client may write */
#define RIGHTS  (RW | WEFT_ACCESS_VERIFY)
#define NO_READ (RIGHTS & ~(uint32_t)WEFT_ACCESS_REMOTE_READ)

static uint8_t memory[4096];

static const void *
key_of(const struct weft_hash_ops *h)
{
	return h->key_max_bytes > 0 ? KEY : NULL;
}

static uint32_t
key_bytes_of(const struct weft_hash_ops *h)
{
	return h->key_max_bytes > 0 ? (uint32_t)strlen(KEY) : 0;
}

static int
reg(struct vt *t, const struct weft_hash_ops *h, uint32_t access, struct weft_mr **mr)
{
	const struct weft_mr_attr a = {.size = sizeof(a),
	                               .addr = memory,
	                               .len_bytes = sizeof(memory),
	                               .access = access,
	                               .hash = h->name,
	                               .hash_key = key_of(h),
	                               .hash_key_bytes = key_bytes_of(h)};

	return weft_mr_reg(t->n[1].pd, &a, mr);
}

/* ---- The client ---- */

/** Ask for the hash of one octet. Returns false if the target refuses and the stream ends. */
static bool
ask(struct vt *t, uint32_t stag, uint64_t to, uint8_t hash[WEFT_HASH_MAX_BYTES])
{
	const struct weft_wr wr = wr_verify(stag, to, 1, NULL, 0, hash);
	struct weft_wc wc;

	memset(hash, 0xee, WEFT_HASH_MAX_BYTES);
	vt_post(&t->n[0], &wr);
	wc = vt_wc(&t->n[0]);
	CHECK_EQ(wc.opcode, WEFT_WC_VERIFY);
	return wc.status == WEFT_WC_SUCCESS;
}

/** The hash of each octet. Only the target has the key, so the target hashes what the client has
 * written. */
static bool
table(struct vt *t, const struct weft_hash_ops *h, uint32_t stag,
      uint8_t of[256][WEFT_HASH_MAX_BYTES])
{
	struct weft_sge sg = {.addr = t->n[0].mem, .len_bytes = 1};
	struct weft_wr wr = wr_rdma(WEFT_WR_WRITE, &sg, stag, SECRET + OWN / 2);

	for (unsigned int v = 0; v < 256; v++) {
		uint8_t octet = (uint8_t)v;

		if (h->key_max_bytes == 0) {
			CHECK_EQ(weft_hash_once(h, &octet, 1, of[v]), 0);
			continue;
		}
		t->n[0].mem[0] = octet;
		vt_post(&t->n[0], &wr);
		want_wc(&t->n[0], WEFT_WC_WRITE, WEFT_WC_SUCCESS);
		if (!ask(t, stag, SECRET + OWN / 2, of[v]))
			return false;
	}
	return true;
}

/** Returns how many octets of the secret the client learns. */
static unsigned int
attack(struct vt *t, const struct weft_hash_ops *h, uint32_t stag)
{
	static uint8_t of[256][WEFT_HASH_MAX_BYTES];
	uint8_t hash[WEFT_HASH_MAX_BYTES];
	unsigned int known = 0;

	if (!table(t, h, stag, of))
		return 0;
	for (unsigned int i = 0; i < SECRET; i++) {
		if (!ask(t, stag, i, hash))
			break;
		for (unsigned int v = 0; v < 256; v++)
			if (memcmp(of[v], hash, h->result_bytes) == 0) {
				known += memory[i] == v;
				break;
			}
	}
	return known;
}

static void
open_attack(struct vt *t, uint64_t seed)
{
	open_pair(t, NULL);
	vt_mem(&t->n[0], 4096, WEFT_ACCESS_LOCAL_WRITE);
	vt_fill(memory, sizeof(memory), seed);
}

static void
close_attack(struct vt *t, struct weft_mr *mr)
{
	if (mr != NULL)
		CHECK_EQ(weft_mr_dereg(mr, NULL, NULL), 0);
	vt_run(t, VT_MS);
	vt_close(t);
}

/** Check the refusal: 0/1/02 on both sides, and no octet of the hash. */
static void
want_refused(struct vt *t, const struct weft_hash_ops *h, uint32_t stag)
{
	uint8_t hash[WEFT_HASH_MAX_BYTES];

	CHECK(!ask(t, stag, 0, hash));
	for (unsigned int i = 0; i < h->result_bytes; i++)
		CHECK_EQ(hash[i], 0xee);
	want_term(&t->n[1], 0, 1, 2, true);
	want_term(&t->n[0], 0, 1, 2, false);
}

/* ---- Cases, each with every hash ---- */

/** The attack succeeds for a client with read and verify rights: it learns all octets. */
static void
test_attack_works(void)
{
	const struct weft_hash_ops *h;

	for (unsigned int i = 0; (h = weft_hash_get(i)) != NULL; i++) {
		struct weft_mr *mr;
		struct vt t;

		open_attack(&t, 100 + i);
		CHECK_EQ(reg(&t, h, RIGHTS, &mr), 0);
		CHECK_MSG(attack(&t, h, weft_mr_stag(mr)) == SECRET, "%s", h->name);
		close_attack(&t, mr);
	}
}

/** No region, fast region or window has verify without read. */
static void
test_never_granted(void)
{
	const struct weft_hash_ops *h;

	for (unsigned int i = 0; (h = weft_hash_get(i)) != NULL; i++) {
		struct weft_mr *mr, *fast;
		struct weft_mw *mw;
		struct weft_wr wr;
		struct vt t;

		open_attack(&t, 200 + i);
		for (uint32_t access = 0; access < 0x100; access++) {
			bool oracle = (access & WEFT_ACCESS_VERIFY) != 0 &&
			              (access & WEFT_ACCESS_REMOTE_READ) == 0;
			int rc;

			if (access & WEFT_ACCESS_FLUSH_PERSISTENT)
				continue; /* refused because there is no medium */
			rc = reg(&t, h, access, &mr);
			CHECK_MSG(rc == (oracle ? -EOPNOTSUPP : 0), "%s, rights 0x%x: %d", h->name,
			          access, rc);
			if (rc == 0)
				CHECK_EQ(weft_mr_dereg(mr, NULL, NULL), 0);
		}
		CHECK_EQ(weft_mr_alloc_keyed(t.n[1].pd, key_of(h), key_bytes_of(h), &fast), 0);
		wr = wr_fast(fast, memory, sizeof(memory), 0, NO_READ);
		wr.fast_reg.hash = h->name;
		CHECK_EQ(weft_post_send(t.n[1].qp, &wr, 1), -EOPNOTSUPP);
		CHECK_EQ(weft_mr_dereg(fast, NULL, NULL), 0);

		/* The region permits reads, and the window does not. */
		CHECK_EQ(reg(&t, h, RIGHTS | WEFT_ACCESS_MW_BIND, &mr), 0);
		CHECK_EQ(weft_mw_alloc(t.n[1].pd, &mw), 0);
		wr = wr_bind(mw, mr, memory, SECRET, 0, WEFT_ACCESS_VERIFY);
		vt_post(&t.n[1], &wr);
		want_wc(&t.n[1], WEFT_WC_BIND_MW, WEFT_WC_LOCAL_PROT);
		weft_mw_dealloc(mw);
		close_attack(&t, mr);
	}
}

/** Before the read right is revoked the client learns all octets, and after it none. */
static void
test_taken_back(void)
{
	const struct weft_hash_ops *h;

	for (unsigned int i = 0; (h = weft_hash_get(i)) != NULL; i++) {
		struct weft_revoke_attr ra = {.size = sizeof(ra),
		                              .access = WEFT_ACCESS_REMOTE_WRITE |
		                                        WEFT_ACCESS_VERIFY};
		struct weft_mr_info info;
		struct weft_mr *mr;
		struct vt t;

		open_attack(&t, 300 + i);
		CHECK_EQ(reg(&t, h, RIGHTS, &mr), 0);
		CHECK_EQ(attack(&t, h, weft_mr_stag(mr)), SECRET);
		/* A revocation must not leave the verify right alone. */
		CHECK_EQ(weft_mr_revoke(mr, &ra), -EOPNOTSUPP);
		ra.access = WEFT_ACCESS_REMOTE_WRITE;
		CHECK_EQ(weft_mr_revoke(mr, &ra), 0);
		vt_run(&t, 10 * VT_MS);
		weft_mr_query(mr, &info);
		CHECK(info.valid);
		CHECK_EQ(info.access & (WEFT_ACCESS_VERIFY | WEFT_ACCESS_REMOTE_READ), 0);
		vt_fill(memory, SECRET, 400 + i); /* a new secret */
		want_refused(&t, h, weft_mr_stag(mr));
		close_attack(&t, mr);
	}
}

/** A region whose rights are verify without read, by a fault of this stack: each request is
 * checked for both rights. */
static void
test_both_rights_asked(void)
{
	const struct weft_hash_ops *h;

	for (unsigned int i = 0; (h = weft_hash_get(i)) != NULL; i++) {
		struct weft_mem_mr *m;
		struct weft_mr *mr;
		struct vt t;

		open_attack(&t, 500 + i);
		CHECK_EQ(reg(&t, h, RIGHTS, &mr), 0);
		m = weft_mem_lookup(inside_mem(t.n[1].ctx), weft_mr_stag(mr));
		CHECK(m != NULL);
		atomic_store_explicit(&m->access, NO_READ, memory_order_relaxed);
		want_refused(&t, h, weft_mr_stag(mr));
		close_attack(&t, mr);
	}
}

WEFT_TEST_MAIN({"the attack works where reading is allowed", test_attack_works},
               {"verify is never granted without read", test_never_granted},
               {"nothing is learnt once read is taken back", test_taken_back},
               {"each request needs both rights", test_both_rights_asked})
