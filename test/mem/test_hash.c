/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The hashes compared with published vectors and with models that compute bit by bit. Keys.
 *
 * Check values and parameters: G. Cook, Catalogue of parametrised CRC algorithms. SHA-256: FIPS
 * 180-4's examples (NIST). HMAC: RFC 4231.
 */

#include <errno.h>
#include <malloc.h>

#include <rte_memory.h>

#include "weft_mem_fast.h"
#include "weft_test.h"
#include "test_xorshift.h"
#include "weft_vec.h"

#define MAX_LEN 600

struct algo {
	const char *name;
	unsigned int bits;
	uint64_t poly; /**< most significant bit first */
	bool reflected;
	uint64_t init, xorout, check;
};

static const struct algo algos[] = {
        {"crc32c", 32, 0x1edc6f41, true, UINT32_MAX, UINT32_MAX, 0xe3069283},
        {"crc64-ecma-182", 64, 0x42f0e1eba9ea3693, false, 0, 0, 0x6c40df5f0b497347},
        {"crc64-xz", 64, 0x42f0e1eba9ea3693, true, UINT64_MAX, UINT64_MAX, 0x995dc9bbdf1939fa},
        {"crc64-go-iso", 64, 0x000000000000001b, true, UINT64_MAX, UINT64_MAX, 0xb90956c775a41001},
        {"crc64-redis", 64, 0xad93d23594c935a9, true, 0, 0, 0xe9c6d914c4b8d9ca},
        {"crc16-t10-dif", 16, 0x8bb7, false, 0, 0, 0xd0db},
};

/** Compute one bit at a time, as the definition says. The result has its most significant octet
 * first. */
static void
model(const struct algo *a, const uint8_t *p, size_t n, uint8_t *out)
{
	const uint64_t top = 1ull << (a->bits - 1), mask = top | (top - 1);
	uint64_t crc = a->init, back = 0;

	for (size_t i = 0; i < n; i++)
		for (unsigned int b = 0; b < 8; b++) {
			bool in = p[i] >> (a->reflected ? b : 7 - b) & 1;
			bool out_bit = (crc & top) != 0;

			crc = crc << 1 & mask;
			if (in != out_bit)
				crc ^= a->poly;
		}
	for (unsigned int b = 0; a->reflected && b < a->bits; b++)
		back |= (crc >> b & 1) << (a->bits - 1 - b);
	if (a->reflected)
		crc = back;
	crc ^= a->xorout;
	for (unsigned int i = 0; i < a->bits / 8; i++)
		out[i] = (uint8_t)(crc >> (a->bits - 8 - 8 * i));
}

static uint8_t data[MAX_LEN + 16];

static void
fill(void)
{
	uint64_t x = 88172645463325252ull;

	for (unsigned int i = 0; i < sizeof(data); i++) {
		data[i] = (uint8_t)test_xorshift(&x);
	}
}

/** Hash the data in two pieces. */
static void
split(const struct weft_hash_ops *h, const void *key, size_t key_bytes, const uint8_t *p, size_t at,
      size_t n, uint8_t *out)
{
	struct weft_hash_state st;

	CHECK_EQ(h->init(&st, key, key_bytes), 0);
	h->update(&st, p, at);
	h->update(&st, p + at, n - at);
	h->final(&st, out);
}

static void
test_crc_check(void)
{
	for (unsigned int i = 0; i < RTE_DIM(algos); i++) {
		const struct algo *a = &algos[i];
		const struct weft_hash_ops *h = weft_hash_find(a->name);
		uint8_t got[8], want[8];
		struct weft_hash_state st;

		CHECK_MSG(h != NULL, "%s", a->name);
		CHECK_EQ(h->result_bytes, a->bits / 8);
		CHECK(h->key_max_bytes == 0);
		CHECK_EQ(h->init(&st, "key", 3), -EINVAL);
		CHECK_EQ(weft_hash_once(h, "123456789", 9, got), 0);
		/* the catalogue's value, big-endian */
		for (unsigned int b = 0; b < a->bits / 8; b++)
			CHECK_MSG(got[b] == (uint8_t)(a->check >> (a->bits - 8 - 8 * b)),
			          "%s: octet %u is %02x", a->name, b, got[b]);
		model(a, (const uint8_t *)"123456789", 9, want);
		CHECK_MEM(got, want, h->result_bytes);
	}
}

static void
test_crc_model(void)
{
	fill();
	for (unsigned int i = 0; i < RTE_DIM(algos); i++) {
		const struct weft_hash_ops *h = weft_hash_find(algos[i].name);
		uint8_t got[8], want[8];

		for (size_t n = 0; n <= MAX_LEN; n++) {
			const uint8_t *p = data + n % 16;

			model(&algos[i], p, n, want);
			CHECK_EQ(weft_hash_once(h, p, n, got), 0);
			CHECK_MSG(memcmp(got, want, h->result_bytes) == 0, "%s, %zu octets",
			          algos[i].name, n);
			for (size_t at = 0; at <= n; at++) {
				split(h, NULL, 0, p, at, n, got);
				CHECK_MSG(memcmp(got, want, h->result_bytes) == 0,
				          "%s, %zu octets, split at %zu", algos[i].name, n, at);
			}
		}
	}
}

static unsigned int
hex(const char *s, uint8_t *out)
{
	unsigned int n = 0, v;

	for (; s[0] != '\0'; s += 2) {
		CHECK(sscanf(s, "%2x", &v) == 1);
		out[n++] = (uint8_t)v;
	}
	return n;
}

static void
test_sha256(void)
{
	static const struct {
		const char *text, *want;
	} rows[] = {
	        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
	        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
	        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
	         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
	};
	const struct weft_hash_ops *h = weft_hash_find("sha256");
	struct weft_hash_state st;
	uint8_t got[32], want[32];
	char a[1000];

	CHECK(h != NULL);
	CHECK_EQ(h->result_bytes, 32);
	CHECK(h->key_max_bytes == 0);
	CHECK(h->slice_bytes > 0);
	CHECK_EQ(h->init(&st, "key", 3), -EINVAL);
	CHECK_EQ(weft_hash_once_keyed(h, "key", 3, "", 0, got), -EINVAL);
	for (unsigned int i = 0; i < RTE_DIM(rows); i++) {
		CHECK_EQ(hex(rows[i].want, want), 32);
		CHECK_EQ(weft_hash_once(h, rows[i].text, strlen(rows[i].text), got), 0);
		CHECK_MEM(got, want, 32);
	}
	/* a million "a", in pieces */
	memset(a, 'a', sizeof(a));
	CHECK_EQ(h->init(&st, NULL, 0), 0);
	for (unsigned int i = 0; i < 1000; i++)
		h->update(&st, a, sizeof(a));
	h->final(&st, got);
	hex("cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0", want);
	CHECK_MEM(got, want, 32);
	fill();
	for (size_t n = 0; n <= 200; n++) {
		CHECK_EQ(weft_hash_once(h, data, n, want), 0);
		for (size_t at = 0; at <= n; at++) {
			split(h, NULL, 0, data, at, n, got);
			CHECK_MSG(memcmp(got, want, 32) == 0, "%zu octets, split at %zu", n, at);
		}
	}
	/* Ended early: the sanitizer checks that nothing is left. */
	CHECK_EQ(h->init(&st, NULL, 0), 0);
	h->update(&st, a, 7);
	h->final(&st, got);
}

/** RFC 4231 s4.2-4.8, without the truncated 4.6. */
static void
test_hmac_sha256(void)
{
	static const char big[] = "Test Using Larger Than Block-Size Key - Hash Key First";
	static const char both[] =
	        "This is a test using a larger than block-size key and a larger than block-size "
	        "data. "
	        "The key needs to be hashed before being used by the HMAC algorithm.";
	uint8_t key4[25], a[131], b[20], dd[50], cd[50];
	const struct {
		const void *key;
		unsigned int key_bytes;
		const void *text;
		size_t n;
		const char *want;
	} rows[] = {
	        {b, 20, "Hi There", 8,
	         "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"},
	        {"Jefe", 4, "what do ya want for nothing?", 28,
	         "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"},
	        {a, 20, dd, 50, "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"},
	        {key4, 25, cd, 50,
	         "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b"},
	        {a, 131, big, sizeof(big) - 1,
	         "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"},
	        {a, 131, both, sizeof(both) - 1,
	         "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2"},
	};
	const struct weft_hash_ops *h = weft_hash_find("hmac-sha256");
	uint8_t got[32], want[32], other[32];
	struct weft_hash_state st, st2;

	CHECK(h != NULL);
	CHECK_EQ(h->result_bytes, 32);
	CHECK(h->key_min_bytes > 0);
	memset(a, 0xaa, sizeof(a));
	memset(b, 0x0b, sizeof(b));
	memset(dd, 0xdd, sizeof(dd));
	memset(cd, 0xcd, sizeof(cd));
	for (unsigned int i = 0; i < 25; i++)
		key4[i] = (uint8_t)(i + 1);
	for (unsigned int i = 0; i < RTE_DIM(rows); i++) {
		CHECK_EQ(hex(rows[i].want, want), 32);
		CHECK_EQ(weft_hash_once_keyed(h, rows[i].key, rows[i].key_bytes, rows[i].text,
		                              rows[i].n, got),
		         0);
		CHECK_MEM(got, want, 32);
		for (size_t at = 0; at <= rows[i].n; at++) {
			split(h, rows[i].key, rows[i].key_bytes, rows[i].text, at, rows[i].n, got);
			CHECK_MEM(got, want, 32);
		}
	}
	CHECK_EQ(h->init(&st, NULL, 0), -EINVAL);
	CHECK_EQ(weft_hash_once(h, "x", 1, got), -EINVAL);
	CHECK_EQ(weft_hash_once_keyed(h, data, WEFT_HASH_KEY_MAX_BYTES + 1, "x", 1, got), -EINVAL);
	/* two computations at once, each with its own key */
	CHECK_EQ(weft_hash_once_keyed(h, "k1", 2, "xy", 2, want), 0);
	CHECK_EQ(weft_hash_once_keyed(h, "k2", 2, "xy", 2, other), 0);
	CHECK(memcmp(want, other, 32) != 0);
	CHECK_EQ(h->init(&st, "k1", 2), 0);
	CHECK_EQ(h->init(&st2, "k2", 2), 0);
	h->update(&st, "x", 1);
	h->update(&st2, "xy", 2);
	h->update(&st, "y", 1);
	h->final(&st2, got);
	CHECK_MEM(got, other, 32);
	h->final(&st, got);
	CHECK_MEM(got, want, 32);
}

/* ---- Keys of regions ---- */

static const char secret[] = "a key that nobody else writes down";
static bool watching;
static unsigned int freed_bare, freed_all;

void __real_free(void *p);
void __wrap_free(void *p);

/* Count frees of memory that still contains the key. */
void
__wrap_free(void *p)
{
	if (watching && p != NULL) {
		freed_all++;
		freed_bare += memmem(p, malloc_usable_size(p), secret, sizeof(secret) - 1) != NULL;
	}
	__real_free(p);
}

static void
rand_fill(void *arg, void *buf, size_t len)
{
	uint64_t *x = arg;

	for (size_t i = 0; i < len; i++)
		((uint8_t *)buf)[i] = (uint8_t)((*x = *x * 6364136223846793005ull + 1) >> 56);
}

static struct weft_mem *
table(void)
{
	static uint64_t seed = 1;
	const struct weft_rand rnd = {.fill = rand_fill, .arg = &seed};
	struct weft_mem *m;

	CHECK_EQ(weft_mem_create(16, 1, &rnd, &m), 0);
	CHECK_EQ(weft_mem_reader_register(m, 0), 0);
	weft_mem_online(m, 0);
	return m;
}

static int
prepare_never(void)
{
	return -ENOTSUP;
}

static void
test_key_refusals(void)
{
	static struct weft_hash_ops never;
	const struct weft_hash_ops *mac = weft_hash_find("hmac-sha256"),
	                           *sha = weft_hash_find("sha256"), *crc = weft_hash_find("crc32c");
	const uint32_t v = WEFT_MEM_TO_VERIFY, r = WEFT_ACCESS_REMOTE_READ;
	const uint8_t *k = (const uint8_t *)secret;
	const struct {
		const char *what;
		struct weft_mem_attr a;
		int r;
	} rows[] = {
	        {"no key, needs one", {data, 64, 0, v, NULL, mac}, -EINVAL},
	        {"key", {data, 64, 0, v, NULL, mac, k, 20}, 0},
	        {"key of no octets", {data, 64, 0, v, NULL, mac, k, 0}, -EINVAL},
	        {"octets of no key", {data, 64, 0, v, NULL, mac, NULL, 20}, -EINVAL},
	        {"key too long", {data, 64, 0, v, NULL, mac, data, 257}, -EINVAL},
	        {"longest key", {data, 64, 0, v, NULL, mac, data, 256}, 0},
	        {"sha256 takes none", {data, 64, 0, v, NULL, sha, k, 20}, -EINVAL},
	        {"sha256", {data, 64, 0, v, NULL, sha}, 0},
	        {"crc32c takes none", {data, 64, 0, v, NULL, crc, k, 20}, -EINVAL},
	        {"a key and no hash", {data, 64, 0, r, NULL, NULL, k, 20}, -EINVAL},
	        {"no right to verify, but a hash without its key",
	         {data, 64, 0, r, NULL, mac},
	         -EINVAL},
	        {"cannot be prepared", {data, 64, 0, v, NULL, &never}, -EOPNOTSUPP},
	};
	struct weft_mem *m = table();
	struct weft_mem_pd pd = {.mem = m};

	never = *sha;
	never.prepare = prepare_never;
	for (unsigned int i = 0; i < RTE_DIM(rows); i++) {
		struct weft_mem_mr *mr;
		int rc = weft_mem_reg(m, &pd, &rows[i].a, &mr);

		CHECK_MSG(rc == rows[i].r, "%s: %d, not %d", rows[i].what, rc, rows[i].r);
		CHECK_EQ(weft_mem_check_attr(&rows[i].a), rows[i].r);
		if (rc == 0) {
			weft_mem_invalidate(m, mr, NULL, NULL);
			weft_mem_quiescent(m, 0);
			CHECK_EQ(weft_mem_reclaim(m), 1);
		}
	}
	weft_mem_destroy(m);
}

/** Check that a hash with region mr's key equals a hash with this key. */
static void
check_hash(const struct weft_mem_mr *mr, const char *key, size_t key_bytes)
{
	const struct weft_hash_ops *h = weft_hash_find("hmac-sha256");
	uint8_t got[32], want[32];
	struct weft_hash_state st;

	CHECK_EQ(weft_mem_hash_init(mr, &st), 0);
	h->update(&st, data, 64);
	h->final(&st, got);
	CHECK_EQ(weft_hash_once_keyed(h, key, key_bytes, data, 64, want), 0);
	CHECK_MEM(got, want, 32);
}

static void
test_key_copied_and_wiped(void)
{
	uint8_t key[sizeof(secret) - 1];
	struct weft_mem_attr a = {data, 64,
	                          0,    WEFT_MEM_TO_VERIFY | WEFT_ACCESS_MW_BIND,
	                          NULL, weft_hash_find("hmac-sha256"),
	                          key,  sizeof(key)};
	struct weft_mem *m = table();
	struct weft_mem_pd pd = {.mem = m};
	struct weft_mem_mr *mr, *fast, *win, copy;

	memcpy(key, secret, sizeof(key));
	fill();
	CHECK_EQ(weft_mem_reg(m, &pd, &a, &mr), 0);
	CHECK_EQ(weft_mem_alloc_keyed(m, &pd, WEFT_MEM_FAST, NULL, NULL, key, sizeof(key), &fast),
	         0);
	CHECK_EQ(weft_mem_alloc(m, &pd, WEFT_MEM_WINDOW, NULL, NULL, &win), 0);
	explicit_bzero(key, sizeof(key)); /* the regions have copies */
	check_hash(mr, secret, sizeof(key));

	/* A reserved region keeps its key across registrations. A window uses the key of its
	 * region. */
	for (unsigned int i = 0; i < 3; i++) {
		a.hash_key = fast->hash_key;
		a.hash_key_bytes = fast->hash_key_bytes;
		CHECK_EQ(weft_mem_check_attr(&a), 0);
		CHECK_EQ(weft_mem_fill(m, fast, &pd, NULL, &a, weft_mem_take_stag(m, fast)), 0);
		check_hash(fast, secret, sizeof(key));
		atomic_fetch_add_explicit(fast->bound, 1, memory_order_relaxed);
		CHECK_EQ(weft_mem_fill(m, win, &pd, fast, &a, weft_mem_take_stag(m, win)), 0);
		check_hash(win, secret, sizeof(key));
		CHECK_EQ(weft_mem_fast_invalidate(m, win), 0);
		CHECK_EQ(weft_mem_fast_invalidate(m, fast), 0);
		weft_mem_quiescent(m, 0);
	}
	weft_mem_snapshot(m, mr, &copy);
	CHECK(copy.hash_key == NULL && copy.hash_key_bytes == 0);

	watching = true;
	weft_mem_invalidate(m, mr, NULL, NULL);
	CHECK_EQ(weft_mem_dealloc(m, fast, NULL, NULL), 0);
	CHECK_EQ(weft_mem_dealloc(m, win, NULL, NULL), 0);
	weft_mem_quiescent(m, 0);
	CHECK_EQ(weft_mem_reclaim(m), 3);
	watching = false;
	CHECK(freed_all >= 3);
	CHECK_EQ(freed_bare, 0);
	weft_mem_destroy(m);
}

#if defined(__x86_64__)
#include <cpuid.h>

/** The register state that the processor would have to save now. 0x04 and 0x40 are the upper parts
 * of vector registers. 0: the processor does not report it. */
static uint64_t
state_in_use(void)
{
	unsigned int a, b, c, d;

	if (!__get_cpuid_count(13, 1, &a, &b, &c, &d) || (a & 4) == 0 || !weft_vec_wide)
		return 0;
	__asm__ volatile("xgetbv" : "=a"(a), "=d"(d) : "c"(1));
	return a;
}
#else
static uint64_t
state_in_use(void)
{
	return 0;
}
#endif

/** No hash returns with dirty wide vector registers, because code compiled for SSE becomes slow
 * then (weft_vec.h). */
static void
test_vectors_clean(void)
{
	static uint8_t zeros[4096];
	const struct weft_hash_ops *h;
	uint8_t got[WEFT_HASH_MAX_BYTES];
	struct weft_hash_state st;

	for (unsigned int i = 0; (h = weft_hash_get(i)) != NULL; i++) {
		const void *key = h->key_min_bytes > 0 ? "key" : NULL;
		uint64_t dirty;

		CHECK_EQ(h->init(&st, key, key != NULL ? 3 : 0), 0);
		h->update(&st, zeros, sizeof(zeros));
		dirty = state_in_use();
		h->final(&st, got);
		CHECK_MSG((dirty & 0x44) == 0, "%s: state %#" PRIx64, h->name, dirty);
	}
}

WEFT_TEST_MAIN({"crc_check", test_crc_check}, {"crc_model", test_crc_model},
               {"sha256", test_sha256}, {"hmac_sha256", test_hmac_sha256},
               {"key_refusals", test_key_refusals}, {"key_wiped", test_key_copied_and_wiped},
               {"vectors_clean", test_vectors_clean})
