/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The registries, the crc32c hash compared with published vectors, the volatile driver. */

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <rte_log.h>

#include "weft_mem.h"
#include "weft_medium_file.h"
#include "weft_test.h"

static int
x_init(struct weft_hash_state *st, const void *key, size_t n)
{
	(void)st;
	(void)key;
	(void)n;
	return -EINVAL;
}

static void
x_update(struct weft_hash_state *st, const void *p, size_t n)
{
	(void)st;
	(void)p;
	(void)n;
}

static void
x_final(struct weft_hash_state *st, void *p)
{
	(void)st;
	(void)p;
}

static void
test_hash_registry(void)
{
	static const struct weft_hash_ops whole = {.name = "x",
	                                           .result_bytes = 4,
	                                           .init = x_init,
	                                           .update = x_update,
	                                           .final = x_final};
	struct weft_hash_ops o;
	unsigned int n = 0;

	while (weft_hash_get(n) != NULL)
		n++;
	CHECK_EQ(weft_hash_register(NULL), -EINVAL);
#define WITHOUT(field)                                                                             \
	o = whole;                                                                                 \
	o.field = 0;                                                                               \
	CHECK_EQ(weft_hash_register(&o), -EINVAL)
	WITHOUT(name);
	WITHOUT(result_bytes);
	WITHOUT(init);
	WITHOUT(update);
	WITHOUT(final);
	o = whole;
	o.result_bytes = WEFT_HASH_MAX_BYTES + 1;
	CHECK_EQ(weft_hash_register(&o), -EINVAL);
#undef WITHOUT
	/* lengths of keys: minimum above maximum, one without the other, beyond the greatest */
	static const uint32_t sizes[][2] = {
	        {2, 1}, {0, 1}, {1, 0}, {1, WEFT_HASH_KEY_MAX_BYTES + 1}};
	for (unsigned int i = 0; i < RTE_DIM(sizes); i++) {
		o = whole;
		o.key_min_bytes = sizes[i][0];
		o.key_max_bytes = sizes[i][1];
		CHECK_EQ(weft_hash_register(&o), -EINVAL);
	}
	o = whole;
	o.name = "crc32c";
	CHECK_EQ(weft_hash_register(&o), -EEXIST);
	CHECK(weft_hash_get(n) == NULL);
	CHECK_EQ(weft_hash_register(&whole), 0);
	CHECK(weft_hash_find("x") == &whole);
	CHECK(weft_hash_get(n) == &whole);
	CHECK(weft_hash_find("md5") == NULL);
	CHECK_EQ(weft_hash_once(&whole, "", 0, &o), -EINVAL);
}

static void
fixed(void *arg, void *buf, size_t n)
{
	(void)arg;
	memset(buf, 0x5a, n);
}

/** The creator of a table is warned of the hashes that do not work on this processor, and of no
 * others. */
static void
test_hash_warning(void)
{
	static const struct weft_hash_ops broken = {.name = "broken",
	                                            .result_bytes = 4,
	                                            .init = x_init,
	                                            .update = x_update,
	                                            .final = x_final};
	const struct weft_rand rand = {.fill = fixed};
	struct weft_mem *m;
	size_t len;
	char *log;
	FILE *f = open_memstream(&log, &len);

	CHECK(f != NULL);
	CHECK_EQ(weft_hash_register(&broken), 0);
	CHECK_EQ(rte_openlog_stream(f), 0);
	CHECK_EQ(weft_mem_create(16, 1, &rand, &m), 0);
	rte_openlog_stream(NULL);
	fclose(f);
	CHECK_MSG(strstr(log, "hash broken cannot be used") != NULL, "%s", log);
	CHECK_MSG(strstr(log, "crc32c") == NULL, "%s", log);
	free(log);
	weft_mem_destroy(m);
}

static int
p_open(struct weft_persist *p, const struct weft_persist_attr *attr)
{
	(void)p;
	(void)attr;
	return -ENXIO;
}

static void
p_close(struct weft_persist *p)
{
	(void)p;
}

static int
p_io(struct weft_persist *p, struct weft_exec *e, struct weft_persist_req *req)
{
	(void)p;
	(void)e;
	(void)req;
	return -ENXIO;
}

static void
test_persist_registry(void)
{
	static const struct weft_persist_ops whole = {.name = "y",
	                                              .persistent = true,
	                                              .open = p_open,
	                                              .close = p_close,
	                                              .flush = p_io,
	                                              .read_back = p_io,
	                                              .read_back_max_bytes = 1};
	struct weft_persist_attr a = {.size = sizeof(a), .driver = "y"};
	struct weft_persist_ops o;
	struct weft_persist *p;
	unsigned int n = 0;

	CHECK_EQ(weft_persist_register(NULL), -EINVAL);
	o = whole;
	o.name = NULL;
	CHECK_EQ(weft_persist_register(&o), -EINVAL);
	o = whole;
	o.open = NULL;
	CHECK_EQ(weft_persist_register(&o), -EINVAL);
	o = whole;
	o.close = NULL;
	CHECK_EQ(weft_persist_register(&o), -EINVAL);
	o = whole;
	o.flush = NULL;
	CHECK_EQ(weft_persist_register(&o), -EINVAL);
	o = whole;
	o.read_back = NULL; /* a persistent driver must have it */
	CHECK_EQ(weft_persist_register(&o), -EINVAL);
	o = whole;
	o.read_back_max_bytes = 0;
	CHECK_EQ(weft_persist_register(&o), -EINVAL);
	o = whole;
	o.name = "file";
	CHECK_EQ(weft_persist_register(&o), -EEXIST);
	o.name = "auto"; /* no driver may take this name */
	CHECK_EQ(weft_persist_register(&o), -EEXIST);
	while (weft_persist_get(n) != NULL)
		n++;
	CHECK_EQ(weft_persist_register(&whole), 0);
	CHECK(weft_persist_find("y") == &whole);
	CHECK(weft_persist_get(n) == &whole);
	CHECK(weft_persist_get(n + 1) == NULL);
	CHECK_EQ(weft_persist_open(&a, &p), -ENXIO);
	a.driver = "tape";
	CHECK_EQ(weft_persist_open(&a, &p), -ENODEV);
	a.driver = NULL;
	CHECK_EQ(weft_persist_open(&a, &p), -EINVAL);
	a.driver = "volatile";
	a.bytes = 4096;
	a.numa_node = -1;
	a.size--;
	CHECK_EQ(weft_persist_open(&a, &p), -EINVAL);
	weft_persist_close(NULL);
}

static void
test_crc32c(void)
{
	static const uint8_t read10[48] = {/* RFC 7143 appendix A.4, the SCSI Read PDU */
	                                   0x01, 0xc0, 0, 0,    0,    0, 0, 0,    0,    0, 0, 0,
	                                   0,    0,    0, 0,    0x14, 0, 0, 0,    0,    0, 4, 0,
	                                   0,    0,    0, 0x14, 0,    0, 0, 0x18, 0x28, 0, 0, 0,
	                                   0,    0,    0, 0,    2,    0, 0, 0,    0,    0, 0, 0};
	uint8_t zeros[32], ones[32], up[32], down[32], big[5000], r[4], r2[4];
	const struct {
		const void *p;
		size_t n;
		uint8_t want[4];
	} rows[] = {
	        {"123456789", 9, {0xe3, 0x06, 0x92, 0x83}}, {"", 0, {0, 0, 0, 0}},
	        {zeros, 32, {0x8a, 0x91, 0x36, 0xaa}},      {ones, 32, {0x62, 0xa8, 0xab, 0x43}},
	        {up, 32, {0x46, 0xdd, 0x79, 0x4e}},         {down, 32, {0x11, 0x3f, 0xdb, 0x5c}},
	        {read10, 48, {0xd9, 0x96, 0x3a, 0x56}},
	};
	const struct weft_hash_ops *h = weft_hash_find("crc32c");
	struct weft_hash_state st;

	CHECK(h != NULL);
	CHECK_EQ(h->result_bytes, 4);
	CHECK_EQ(h->init(&st, "key", 3), -EINVAL);
	memset(zeros, 0, 32);
	memset(ones, 0xff, 32);
	for (unsigned int i = 0; i < 32; i++) {
		up[i] = (uint8_t)i;
		down[i] = (uint8_t)(31 - i);
	}
	for (unsigned int i = 0; i < RTE_DIM(rows); i++) {
		CHECK_EQ(weft_hash_once(h, rows[i].p, rows[i].n, r), 0);
		CHECK_MEM(r, rows[i].want, 4);
	}
	/* Slices of every size have the same result as one call, at every alignment. */
	for (unsigned int i = 0; i < sizeof(big); i++)
		big[i] = (uint8_t)(i * 31 >> 3);
	for (unsigned int step = 1; step < 300; step += 7) {
		const uint8_t *p = big + step % 9;
		size_t n = sizeof(big) - 9;

		CHECK_EQ(weft_hash_once(h, p, n, r), 0);
		CHECK_EQ(h->init(&st, NULL, 0), 0);
		for (size_t off = 0; off < n; off += step)
			h->update(&st, p + off, RTE_MIN((size_t)step, n - off));
		h->final(&st, r2);
		CHECK_MEM(r, r2, 4);
	}
}

static unsigned int dones;

static void
req_done(struct weft_persist_req *req)
{
	(void)req;
	dones++;
}

static void
test_volatile(void)
{
	struct weft_persist_attr a = {
	        .size = sizeof(a), .driver = "volatile", .bytes = 3 << 20, .numa_node = -1};
	struct weft_persist_req req = {.done = req_done};
	struct weft_rand rand = {weft_rand_system, NULL};
	struct weft_mem_attr ma = {0};
	struct weft_persist *p;
	struct weft_mem_pd pd = {0};
	struct weft_mem_mr *mr;
	static unsigned char core[(3 << 20) / 4096];
	struct weft_mem *m;

	CHECK_EQ(weft_persist_open(&a, &p), 0);
	CHECK_EQ(p->bytes, 3 << 20);
	CHECK_EQ((uintptr_t)p->base % 4096, 0);
	CHECK(p->mechanism[0] != '\0');
	CHECK(p->dirty == NULL);
	CHECK(!p->ops->persistent);
	CHECK_EQ(mincore(p->base, p->bytes, core), 0);
	for (unsigned int i = 0; i < sizeof(core); i++)
		CHECK_MSG(core[i] & 1, "page %u is not populated", i);
	p->base[0] = 1;
	p->base[p->bytes - 1] = 2;
	weft_persist_mark(p, 0, 10);

	req.off_bytes = 0;
	req.len_bytes = p->bytes;
	req.flags = WEFT_FLUSH_VISIBLE;
	req.status = -1;
	CHECK_EQ(p->ops->flush(p, NULL, &req), 0);
	CHECK_EQ(req.status, 0);
	CHECK_EQ(dones, 1);
	req.flags = WEFT_FLUSH_PERSISTENT;
	CHECK_EQ(p->ops->flush(p, NULL, &req), -EOPNOTSUPP);
	req.off_bytes = 1;
	req.flags = WEFT_FLUSH_VISIBLE;
	CHECK_EQ(p->ops->flush(p, NULL, &req), -EINVAL);
	req.off_bytes = UINT64_MAX;
	CHECK_EQ(p->ops->flush(p, NULL, &req), -EINVAL);
	CHECK_EQ(p->ops->read_back(p, NULL, &req), -EINVAL);
	req.off_bytes = p->bytes - 100;
	req.len_bytes = 100;
	CHECK_EQ(p->ops->read_back(p, NULL, &req), 0);
	CHECK(req.data == p->base + p->bytes - 100); /* memory is the medium */
	CHECK_EQ(dones, 2);
	CHECK_EQ(weft_persist_flush_wait(p, 0, p->bytes), 0);

	CHECK_EQ(weft_mem_create(1, 1, &rand, &m), 0);
	pd.mem = m;
	ma.addr = p->base;
	ma.len_bytes = p->bytes;
	ma.persist = p;
	ma.access = WEFT_ACCESS_REMOTE_WRITE | WEFT_ACCESS_FLUSH_PERSISTENT;
	CHECK_EQ(weft_mem_reg(m, &pd, &ma, &mr), -EOPNOTSUPP);
	ma.access = WEFT_ACCESS_REMOTE_WRITE | WEFT_ACCESS_REMOTE_READ | WEFT_ACCESS_FLUSH_VISIBLE |
	            WEFT_ACCESS_VERIFY;
	ma.hash = weft_hash_find("crc32c");
	CHECK_EQ(weft_mem_reg(m, &pd, &ma, &mr), 0);
	weft_mem_invalidate(m, mr, NULL, NULL);
	weft_mem_destroy(m);
	weft_persist_close(p);

	a.bytes = 0;
	CHECK_EQ(weft_persist_open(&a, &p), -EINVAL);
	/* more than the computer's memory: refused, and the process is not killed */
	a.bytes = 1ULL << 45;
	CHECK_EQ(weft_persist_open(&a, &p), -ENOMEM);
	a.bytes = UINT64_MAX;
	CHECK_EQ(weft_persist_open(&a, &p), -ENOMEM);
	a.bytes = 1;
	a.numa_node = 0;
	CHECK_EQ(weft_persist_open(&a, &p), 0);
	CHECK(p->numa_node == 0 || p->numa_node == -1);
	weft_persist_close(p);
	a.numa_node = 1000; /* no such node: any memory, with a warning */
	CHECK_EQ(weft_persist_open(&a, &p), 0);
	weft_persist_close(p);
}

static int
numa_open(struct weft_persist *p, const struct weft_persist_attr *attr)
{
	p->numa_node = (int)attr->bytes - 2;
	return 0;
}

/** A caller that asks for a node is warned if the memory is, or may be, on another one. */
static void
test_numa_warning(void)
{
	static const struct weft_persist_ops ops = {
	        .name = "numa", .open = numa_open, .close = p_close, .flush = p_io};
	static const struct {
		int asked, is;
		bool warn;
	} row[] = {{-1, -1, false}, {-1, 1, false}, {0, 0, false}, {1, 1, false},
	           {0, 1, true},    {0, -1, true},  {1, -1, true}};

	CHECK_EQ(weft_persist_register(&ops), 0);
	for (unsigned int i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct weft_persist_attr a = {.size = sizeof(a),
		                              .driver = "numa",
		                              .bytes = (uint64_t)(row[i].is + 2),
		                              .numa_node = row[i].asked};
		struct weft_persist *p;
		size_t len;
		char *log;
		FILE *f = open_memstream(&log, &len);

		CHECK(f != NULL);
		CHECK_EQ(rte_openlog_stream(f), 0);
		CHECK_EQ(weft_persist_open(&a, &p), 0);
		rte_openlog_stream(NULL);
		fclose(f);
		CHECK_MSG((strstr(log, "as asked") != NULL) == row[i].warn, "row %u: %s", i, log);
		free(log);
		weft_persist_close(p);
	}
}

/** Missing memory is an error: -ENOMEM if it is not mapped, -EIO if the medium behind it fails. */
static void
test_populate(void)
{
	uint8_t *anon = mmap(NULL, 4 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
	                     -1, 0),
	        *cut;
	int fd = memfd_create("cut", MFD_CLOEXEC);

	CHECK(anon != MAP_FAILED && fd >= 0);
	memset(anon, 7, 4096);
	CHECK_EQ(weft_numa_populate(anon, 2 * 4096), 0);
	CHECK_EQ(anon[0], 7);
	/* This page is not mapped. */
	CHECK_EQ(munmap(anon + 2 * 4096, 4096), 0);
	CHECK_EQ(weft_numa_populate(anon, 4 * 4096), -ENOMEM);
	munmap(anon, 4 * 4096);
	/* The file ends before its mapping does. */
	CHECK_EQ(ftruncate(fd, 4096), 0);
	cut = mmap(NULL, 2 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(cut != MAP_FAILED);
	CHECK_EQ(weft_numa_populate(cut, 4096), 0);
	CHECK_EQ(weft_numa_populate(cut, 2 * 4096), -EIO);
	munmap(cut, 2 * 4096);
	close(fd);
}

/** The kernel reports the node of memory, and none for memory without pages. */
static void
test_node_of(void)
{
	uint8_t *m =
	        mmap(NULL, 64 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void *page = m;
	int node = -1;

	CHECK(m != MAP_FAILED);
	CHECK_EQ(weft_numa_node_of(m, 64 * 4096), -1);
	memset(m, 1, 64 * 4096);
	if (syscall(SYS_move_pages, 0, 1UL, &page, NULL, &node, 0) != 0)
		test_skip("this kernel does not say where pages are");
	CHECK_EQ(weft_numa_node_of(m, 4096), node);
	CHECK_EQ(weft_numa_node_of(m, 1), node);
	CHECK(weft_numa_node_of(m, 64 * 4096) == node || weft_numa_node_of(m, 64 * 4096) == -1);
	CHECK_EQ(weft_numa_node_of(m, 0), -1);
	munmap(m, 64 * 4096);
}

WEFT_TEST_MAIN({"populate", test_populate}, {"node_of", test_node_of},
               {"hash_registry", test_hash_registry}, {"hash_warning", test_hash_warning},
               {"persist_registry", test_persist_registry}, {"crc32c", test_crc32c},
               {"volatile", test_volatile}, {"numa_warning", test_numa_warning})
