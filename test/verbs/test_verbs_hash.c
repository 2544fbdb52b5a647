/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Verify with every registered hash, over the network (draft-talpey-rdma-commit-02 s2.2): with and
 * without an expected value, in slices, with a key, and with a stream that ends in the middle.
 */

#include <errno.h>

#include "rdmap_irq.h"
#include "weft_verbs_qp.h"
#include "vt_fast.h"

#define LEN     300001
#define BASE_TO 0x700000000ull
#define KEY     "the key of the region"
#define KEY2    "the key of another region"

/** Rights that a verified region needs. */
#define VERIFY (WEFT_ACCESS_VERIFY | WEFT_ACCESS_REMOTE_READ)

static uint8_t memory[8 << 20];

/* ---- A hash that counts its calls ---- */

#define COUNT_SLICE_BYTES 4096

static struct {
	unsigned int inits, updates, finals;
	size_t longest_bytes;
} count;

static int
count_init(struct weft_hash_state *st, const void *key, size_t key_bytes)
{
	(void)key;
	st->opaque[0] = (uintptr_t)calloc(1, 8);
	count.inits++;
	return key_bytes > 0 || st->opaque[0] == 0 ? -EINVAL : 0;
}

static void
count_update(struct weft_hash_state *st, const void *data, size_t len_bytes)
{
	uint64_t *sum = (uint64_t *)(uintptr_t)st->opaque[0];

	for (size_t i = 0; i < len_bytes; i++)
		*sum = *sum * 31 + ((const uint8_t *)data)[i];
	count.updates++;
	count.longest_bytes = RTE_MAX(count.longest_bytes, len_bytes);
}

static void
count_final(struct weft_hash_state *st, void *result)
{
	void *sum = (void *)(uintptr_t)st->opaque[0];

	memcpy(result, sum, 8);
	free(sum);
	count.finals++;
}

static const struct weft_hash_ops counting = {
        .name = "counting",
        .result_bytes = 8,
        .slice_bytes = COUNT_SLICE_BYTES,
        .init = count_init,
        .update = count_update,
        .final = count_final,
};

WEFT_HASH_REGISTER(counting, counting)

/* ---- */

static const char *
key_of(const struct weft_hash_ops *h)
{
	return h->key_max_bytes > 0 ? KEY : NULL;
}

static size_t
key_bytes_of(const struct weft_hash_ops *h)
{
	return h->key_max_bytes > 0 ? strlen(KEY) : 0;
}

/** Register a region of node 1: `memory`, or the memory of `p`. */
static struct weft_mr *
reg(struct vt *t, const struct weft_hash_ops *h, struct weft_persist *p)
{
	const struct weft_mr_attr a = {
	        .size = sizeof(a),
	        .addr = p != NULL ? (void *)p->base : memory,
	        .len_bytes = p != NULL ? p->bytes : sizeof(memory),
	        .base_to = BASE_TO,
	        .access = VERIFY,
	        .persist = p,
	        .hash = h->name,
	        .hash_key = key_of(h),
	        .hash_key_bytes = (uint32_t)key_bytes_of(h),
	};
	struct weft_mr *mr;

	CHECK_EQ(weft_mr_reg(t->n[1].pd, &a, &mr), 0);
	return mr;
}

enum expectation { NONE, RIGHT, WRONG, SHORT, LONG, NEXPECTATIONS };

static void
one(const struct weft_hash_ops *h, enum expectation how, bool medium)
{
	uint8_t want[WEFT_HASH_MAX_BYTES + 1] = {0}, got[WEFT_HASH_MAX_BYTES] = {0};
	const struct weft_persist_attr pa = {
	        .size = sizeof(pa), .driver = "volatile", .bytes = 1 << 20, .numa_node = -1};
	struct weft_persist *p = NULL;
	struct weft_mr *mr;
	struct weft_event ev;
	struct weft_wr wr;
	struct weft_wc wc;
	uint32_t n = h->result_bytes;
	uint8_t *mem = memory;
	struct vt t;

	open_pair(&t, NULL);
	if (medium) {
		CHECK_EQ(weft_persist_open(&pa, &p), 0);
		mem = p->base;
	}
	vt_fill(mem, LEN + 5, 9);
	mr = reg(&t, h, p);
	CHECK_EQ(weft_hash_once_keyed(h, key_of(h), key_bytes_of(h), mem + 5, LEN, want), 0);
	want[0] ^= how == WRONG;
	n = how == NONE ? 0 : how == SHORT ? n - 1 : how == LONG ? RTE_MIN(n + 1, 64u) : n;
	wr = wr_verify(weft_mr_stag(mr), BASE_TO + 5, LEN, n > 0 ? want : NULL, n, got);
	vt_post(&t.n[0], &wr);
	wc = vt_wc(&t.n[0]);
	if (how == NONE || how == RIGHT) {
		CHECK_MSG(wc.status == WEFT_WC_SUCCESS, "%s: %s", h->name,
		          weft_wc_status_str(wc.status));
		CHECK_EQ(wc.len_bytes, h->result_bytes);
		CHECK_MEM(got, want, h->result_bytes);
	} else if (how == WRONG) {
		CHECK_EQ(wc.status, WEFT_WC_HASH_MISMATCH);
		ev = vt_ev(&t.n[1], WEFT_EV_BAD_RANGE);
		CHECK(ev.bad_range.stag == weft_mr_stag(mr) && ev.bad_range.to == BASE_TO + 5 &&
		      ev.bad_range.len_bytes == LEN);
		want_term(&t.n[1], 0, 2, 0x0b, true);
	} else {
		/* The message is malformed, which is found at once. No range is bad. */
		CHECK(wc.status != WEFT_WC_SUCCESS && wc.status != WEFT_WC_HASH_MISMATCH);
		want_term(&t.n[1], 0, 2, 0xff, true);
	}
	CHECK_EQ(weft_mr_dereg(mr, NULL, NULL), 0);
	vt_run(&t, VT_MS);
	vt_close(&t);
	if (p != NULL)
		weft_persist_close(p);
}

static void
test_every_hash(void)
{
	const struct weft_hash_ops *h;
	unsigned int n = 0;

	for (unsigned int i = 0; (h = weft_hash_get(i)) != NULL; i++, n++)
		for (int how = 0; how < NEXPECTATIONS; how++)
			one(h, how, false);
	CHECK_EQ(n, 9); /* eight of the library and one of this file */
	for (unsigned int i = 0; (h = weft_hash_get(i)) != NULL; i++)
		for (int how = RIGHT; how <= WRONG; how++)
			one(h, how, true);
}

/** No update is longer than the hash's slice. Writes are placed between two updates. */
static void
test_slices(void)
{
	char text[] = "interposed";
	struct weft_sge sge = {.addr = text, .len_bytes = 10};
	const uint32_t len = 2 << 20;
	uint8_t got[WEFT_HASH_MAX_BYTES];
	struct weft_wr wr[2];
	struct weft_mr *mr;
	struct weft_wc wc;
	struct vt t;

	open_pair(&t, NULL);
	vt_mem(&t.n[1], 4096, WEFT_ACCESS_REMOTE_WRITE);
	vt_fill(memory, len, 3);
	mr = reg(&t, &counting, NULL);
	memset(&count, 0, sizeof(count));
	wr[0] = wr_verify(weft_mr_stag(mr), BASE_TO, len, NULL, 0, got);
	wr[1] = wr_rdma(WEFT_WR_WRITE, &sge, weft_mr_stag(t.n[1].mr), 0x200000000ull);
	CHECK_EQ(weft_post_send(t.n[0].qp, wr, 2), 2);
	while (memcmp(t.n[1].mem, "interposed", 10) != 0)
		vt_run(&t, 1000);
	CHECK(count.inits == 1 && count.finals == 0);
	wc = vt_wc(&t.n[0]);
	CHECK(wc.opcode == WEFT_WC_VERIFY && wc.status == WEFT_WC_SUCCESS);
	want_wc(&t.n[0], WEFT_WC_WRITE, WEFT_WC_SUCCESS);
	CHECK_EQ(count.updates, len / COUNT_SLICE_BYTES);
	CHECK_EQ(count.longest_bytes, COUNT_SLICE_BYTES);
	CHECK_EQ(count.finals, 1);
	CHECK_EQ(weft_mr_dereg(mr, NULL, NULL), 0);
	vt_run(&t, VT_MS);
	vt_close(&t);
}

static bool
under_way(void *arg)
{
	const struct weft_rdmap *r = ((struct vt *)arg)->n[1].qp->rdmap;

	return r->work != NULL && r->work->hash != NULL && r->work->hash_pos_bytes > 0;
}

/** A computation ends with its stream, however the stream ends. The sanitizer checks that
 * libcrypto's contexts are freed. */
static void
test_death(void)
{
	static const char *const names[] = {"counting", "sha256", "hmac-sha256"};
	enum { PEER_ABORTS, PEER_GONE, ABORTED, DISCONNECTED, DESTROYED, REVOKED, NWAYS };

	for (unsigned int i = 0; i < RTE_DIM(names); i++)
		for (int way = 0; way < NWAYS; way++) {
			const struct weft_hash_ops *h = weft_hash_find(names[i]);
			struct weft_mr *mr;
			struct weft_wr wr[2];
			struct vt t;

			open_pair(&t, NULL);
			mr = reg(&t, h, NULL);
			memset(&count, 0, sizeof(count));
			wr[0] = wr_verify(weft_mr_stag(mr), BASE_TO, sizeof(memory), NULL, 0, NULL);
			CHECK_EQ(weft_post_send(t.n[0].qp, wr, 1), 1);
			CHECK(vt_until(&t, VT_S, under_way, &t));
			switch (way) {
			case PEER_ABORTS:
				weft_verbs_qp_abort_later(t.n[0].qp);
				break;
			case PEER_GONE:
				weft_qp_destroy(t.n[0].qp);
				t.n[0].qp = NULL;
				break;
			case ABORTED:
				weft_verbs_qp_abort_later(t.n[1].qp);
				break;
			case DISCONNECTED:
				weft_disconnect(t.n[1].qp);
				break;
			case DESTROYED:
				weft_qp_destroy(t.n[1].qp);
				t.n[1].qp = NULL;
				break;
			default:
				CHECK_EQ(weft_mr_dereg(mr, NULL, NULL), 0);
				mr = NULL;
				break;
			}
			vt_run(&t, 100 * VT_MS);
			if (mr != NULL)
				CHECK_EQ(weft_mr_dereg(mr, NULL, NULL), 0);
			vt_run(&t, VT_S);
			vt_close(&t);
			if (h == &counting) {
				CHECK_EQ(count.inits, 1);
				CHECK_EQ(count.finals, 1);
				CHECK_MSG(count.updates < sizeof(memory) / COUNT_SLICE_BYTES ||
				                  way == DISCONNECTED,
				          "way %d: %u", way, count.updates);
			}
		}
}

/* ---- Keys ---- */

static void
want_hash(struct vt *t, uint32_t stag, uint64_t to, const char *hash, const char *key,
          const uint8_t *mem, uint32_t len)
{
	const struct weft_hash_ops *h = weft_hash_find(hash);
	uint8_t got[WEFT_HASH_MAX_BYTES], want[WEFT_HASH_MAX_BYTES];
	struct weft_wr wr = wr_verify(stag, to, len, NULL, 0, got);

	CHECK_EQ(weft_hash_once_keyed(h, key, key != NULL ? strlen(key) : 0, mem, len, want), 0);
	vt_post(&t->n[0], &wr);
	want_wc(&t->n[0], WEFT_WC_VERIFY, WEFT_WC_SUCCESS);
	CHECK_MSG(memcmp(got, want, h->result_bytes) == 0, "%s by %s", hash, key);
}

/** The same memory is registered with several STags, each with its own hash or key. */
static void
test_several(void)
{
	static const struct {
		const char *hash, *key;
	} rows[] = {{"hmac-sha256", KEY},     {"hmac-sha256", KEY2}, {"sha256", NULL},
	            {"crc64-ecma-182", NULL}, {"crc32c", NULL},      {"crc16-t10-dif", NULL}};
	struct weft_mr *mr[RTE_DIM(rows)], *none;
	char key[64];
	struct vt t;

	open_pair(&t, NULL);
	vt_fill(memory, 10000, 21);
	for (unsigned int i = 0; i < RTE_DIM(rows); i++) {
		struct weft_mr_attr a = {
		        .size = sizeof(a),
		        .addr = memory + i, /* each region begins at another octet */
		        .len_bytes = 10000,
		        .base_to = i * 1000,
		        .access = VERIFY,
		        .hash = rows[i].hash,
		};

		if (rows[i].key != NULL) {
			a.hash_key = strcpy(key, rows[i].key);
			a.hash_key_bytes = (uint32_t)strlen(key);
		}
		CHECK_EQ(weft_mr_reg(t.n[1].pd, &a, &mr[i]), 0);
		memset(key, 0, sizeof(key)); /* the key was copied */
		a.hash_key = rows[i].key != NULL ? NULL : "key";
		a.hash_key_bytes = rows[i].key != NULL ? 0 : 3;
		CHECK_EQ(weft_mr_reg(t.n[1].pd, &a, &none), -EINVAL);
	}
	for (unsigned int i = 0; i < RTE_DIM(rows); i++)
		want_hash(&t, weft_mr_stag(mr[i]), i * 1000 + 7, rows[i].hash, rows[i].key,
		          memory + i + 7, 9000);
	for (unsigned int i = 0; i < RTE_DIM(rows); i++)
		CHECK_EQ(weft_mr_dereg(mr[i], NULL, NULL), 0);
	vt_close(&t);
}

static void
test_fast(void)
{
	char key[] = KEY;
	struct weft_mr *mr, *plain;
	struct weft_mr_info info;
	struct weft_mw *mw;
	struct weft_wr wr;
	struct vt t;

	open_pair(&t, NULL);
	vt_fill(memory, 10000, 22);
	CHECK_EQ(weft_mr_alloc_keyed(t.n[1].pd, memory, WEFT_HASH_KEY_MAX_BYTES + 1, &mr), -EINVAL);
	CHECK_EQ(weft_mr_alloc_keyed(t.n[1].pd, NULL, 1, &mr), -EINVAL);
	CHECK_EQ(weft_mr_alloc_keyed(t.n[1].pd, key, sizeof(key) - 1, &mr), 0);
	memset(key, 0, sizeof(key));
	CHECK_EQ(weft_mr_alloc(t.n[1].pd, &plain), 0);
	CHECK_EQ(weft_mw_alloc(t.n[1].pd, &mw), 0);
	/* a region without a key */
	wr = wr_fast(plain, memory, 5000, 0, VERIFY);
	wr.fast_reg.hash = "hmac-sha256";
	CHECK_EQ(weft_post_send(t.n[1].qp, &wr, 1), -EINVAL);
	wr.fast_reg.hash = "md5";
	CHECK_EQ(weft_post_send(t.n[1].qp, &wr, 1), -ENOENT);
	for (unsigned int i = 0; i < 6; i++) {
		/* the key serves only a hash that takes one */
		const char *hash = i % 2 == 0 ? "hmac-sha256" : "sha256";
		const char *k = i % 2 == 0 ? KEY : NULL;
		uint32_t stag;

		wr = wr_fast(mr, memory + i, 5000, 0, VERIFY | WEFT_ACCESS_MW_BIND);
		wr.fast_reg.hash = hash;
		vt_post(&t.n[1], &wr);
		want_wc(&t.n[1], WEFT_WC_FAST_REG, WEFT_WC_SUCCESS);
		stag = weft_mr_stag(mr);
		weft_mr_query(mr, &info);
		CHECK_STR(info.hash, hash);
		want_hash(&t, stag, 3, hash, k, memory + i + 3, 4000);
		wr = (struct weft_wr){.opcode = WEFT_WR_BIND_MW,
		                      .flags = WEFT_WR_SIGNALED,
		                      .bind_mw = {.mw = mw,
		                                  .mr = mr,
		                                  .addr = memory + 100,
		                                  .len_bytes = 1000,
		                                  .access = VERIFY}};
		vt_post(&t.n[1], &wr);
		want_wc(&t.n[1], WEFT_WC_BIND_MW, WEFT_WC_SUCCESS);
		want_hash(&t, weft_mw_stag(mw), 1, hash, k, memory + 101, 999);
		wr = wr_inv(weft_mw_stag(mw));
		vt_post(&t.n[1], &wr);
		want_wc(&t.n[1], WEFT_WC_LOCAL_INV, WEFT_WC_SUCCESS);
		wr = wr_inv(stag);
		vt_post(&t.n[1], &wr);
		want_wc(&t.n[1], WEFT_WC_LOCAL_INV, WEFT_WC_SUCCESS);
	}
	weft_mw_dealloc(mw);
	CHECK_EQ(weft_mr_dereg(mr, NULL, NULL), 0);
	CHECK_EQ(weft_mr_dereg(plain, NULL, NULL), 0);
	vt_close(&t);
}

WEFT_TEST_MAIN({"every hash", test_every_hash}, {"slices", test_slices}, {"death", test_death},
               {"several STags", test_several}, {"fast", test_fast})
