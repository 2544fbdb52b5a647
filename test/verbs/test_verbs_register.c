/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Registration: every combination of driver, right and hash, which combinations are refused with
 * which error, and the page that documents it (docs/registration.md). The same memory with several
 * STags.
 */

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "medium_test.h"
#include "vt_fast.h"

#define BYTES   65536
#define BASE_TO 0x700000000ull
#define KEY     "a key of the region"

static _Alignas(4096) uint8_t memory[BYTES];

/* ---- The combinations ---- */

static const char *const drivers[] = {NULL, "volatile", "file", "pmem", "sim"};
#define NDRIVERS RTE_DIM(drivers)

static const struct {
	const char *name;
	uint32_t bit;
} rights[] = {
        {"local write", WEFT_ACCESS_LOCAL_WRITE},
        {"remote read", WEFT_ACCESS_REMOTE_READ},
        {"remote write", WEFT_ACCESS_REMOTE_WRITE},
        {"remote atomic", WEFT_ACCESS_REMOTE_ATOMIC},
        {"flush-visible", WEFT_ACCESS_FLUSH_VISIBLE},
        {"flush-persistent", WEFT_ACCESS_FLUSH_PERSISTENT},
        {"verify", WEFT_ACCESS_VERIFY},
        {"window binding", WEFT_ACCESS_MW_BIND},
};

/** Rights that a verified region needs. */
#define VERIFY (WEFT_ACCESS_REMOTE_READ | WEFT_ACCESS_VERIFY)

static const struct {
	const char *name, *hash;
	uint32_t key_bytes;
	bool unknown, needless, keyless, none; /**< what is wrong with the hash or its key */
} hashes[] = {
        {"no hash", NULL, 0, .none = true},
        {"no hash, a key", NULL, 8, .none = true, .needless = true},
        {"`crc32c`", "crc32c", 0},
        {"`crc64-ecma-182`", "crc64-ecma-182", 0},
        {"`crc16-t10-dif`", "crc16-t10-dif", 0},
        {"a CRC, a key", "crc32c", 8, .needless = true},
        {"`sha256`", "sha256", 0},
        {"`sha256`, a key", "sha256", 8, .needless = true},
        {"`hmac-sha256`, a key", "hmac-sha256", 8},
        {"`hmac-sha256`, no key", "hmac-sha256", 0, .keyless = true},
        {"`hmac-sha256`, a key of 257 octets", "hmac-sha256", 257, .needless = true},
        {"an unknown name", "md5", 0, .unknown = true},
};

static struct weft_persist *media[NDRIVERS];

static void
open_media(void)
{
	const char *path;

	for (unsigned int i = 0; i < NDRIVERS; i++) {
		path = NULL;
		if (drivers[i] == NULL)
			continue;
		if (strcmp(drivers[i], "file") == 0 || strcmp(drivers[i], "pmem") == 0) {
			path = scratch_path(drivers[i]);
			put_file(path, BYTES, 0);
		}
		media[i] = must_open(drivers[i], path, BYTES, false);
	}
}

static void
close_media(void)
{
	for (unsigned int i = 0; i < NDRIVERS; i++) {
		weft_persist_close(media[i]);
		media[i] = NULL;
	}
}

/** Register and deregister. Returns the result of the registration. */
static int
try(struct vt *t, unsigned int driver, uint32_t access, unsigned int hash)
{
	static const char key[WEFT_HASH_KEY_MAX_BYTES + 1] = KEY;
	const struct weft_mr_attr a = {
	        .size = sizeof(a),
	        .addr = media[driver] != NULL ? media[driver]->base : memory,
	        .len_bytes = BYTES,
	        .base_to = BASE_TO,
	        .access = access,
	        .persist = media[driver],
	        .hash = hashes[hash].hash,
	        .hash_key = hashes[hash].key_bytes > 0 ? key : NULL,
	        .hash_key_bytes = hashes[hash].key_bytes,
	};
	struct weft_mr *mr;
	int rc = weft_mr_reg(t->n[1].pd, &a, &mr);

	if (rc != 0)
		return rc;
	CHECK_EQ(weft_mr_dereg(mr, NULL, NULL), 0);
	vt_run(t, VT_MS / 10);
	return 0;
}

/* ---- The rules, in the order in which they are checked ---- */

static int
rule(unsigned int driver, uint32_t access, unsigned int hash)
{
	bool persistent = driver >= 2; /* file, pmem, sim */

	if (hashes[hash].unknown)
		return -ENOENT;
	if (access & ~0xffu)
		return -EINVAL;
	if ((access & WEFT_ACCESS_FLUSH_PERSISTENT) && !persistent)
		return -EOPNOTSUPP;
	if (hashes[hash].needless || hashes[hash].keyless)
		return -EINVAL;
	if (!(access & WEFT_ACCESS_VERIFY))
		return 0;
	if (hashes[hash].none)
		return -EOPNOTSUPP;
	/* draft-talpey-rdma-commit-02 s1.7 */
	return !(access & WEFT_ACCESS_REMOTE_READ) ? -EOPNOTSUPP : 0;
}

static void
test_matrix(void)
{
	unsigned int n = 0, good = 0;
	struct vt t;

	open_pair(&t, NULL);
	open_media();
	for (unsigned int d = 0; d < NDRIVERS; d++)
		for (unsigned int h = 0; h < RTE_DIM(hashes); h++)
			for (uint32_t access = 0; access <= 0x100; access++, n++) {
				int want = rule(d, access, h), rc = try(&t, d, access, h);

				CHECK_MSG(rc == want, "%s, rights 0x%x, %s: %d, not %d",
				          drivers[d] != NULL ? drivers[d] : "none", access,
				          hashes[h].name, rc, want);
				good += rc == 0;
			}
	close_media();
	vt_close(&t);
	test_note("%u combinations, %u of them registered", n, good);
}

/* ---- The documentation ---- */

static const char *
cell(int rc)
{
	switch (rc) {
	case 0:
		return "yes";
	case -EINVAL:
		return "-EINVAL";
	case -EOPNOTSUPP:
		return "-EOPNOTSUPP";
	case -ENOENT:
		return "-ENOENT";
	default:
		return "?";
	}
}

static void
print_tables(struct vt *t, FILE *f)
{
	static const char *const names[NDRIVERS] = {"ordinary memory", "`volatile`", "`file`",
	                                            "`pmem`", "`sim` (tests)"};

	fprintf(f, "| right |");
	for (unsigned int d = 0; d < NDRIVERS; d++)
		fprintf(f, " %s |", names[d]);
	fprintf(f, "\n|---|---|---|---|---|---|\n");
	for (unsigned int r = 0; r < RTE_DIM(rights); r++) {
		fprintf(f, "| %s |", rights[r].name);
		for (unsigned int d = 0; d < NDRIVERS; d++) {
			/* the other rights that a Verify needs are in the other table */
			uint32_t with =
			        rights[r].bit == WEFT_ACCESS_VERIFY ? WEFT_ACCESS_REMOTE_READ : 0;

			fprintf(f, " %s |", cell(try(t, d, rights[r].bit | with, 2)));
		}
		fprintf(f, "\n");
	}
	fprintf(f, "\n| hash | without verify | verify | verify and remote read |\n"
	           "|---|---|---|---|\n");
	for (unsigned int h = 0; h < RTE_DIM(hashes); h++)
		fprintf(f, "| %s | %s | %s | %s |\n", hashes[h].name,
		        cell(try(t, 0, WEFT_ACCESS_REMOTE_WRITE, h)),
		        cell(try(t, 0, WEFT_ACCESS_VERIFY, h)),
		        cell(try(t, 0, WEFT_ACCESS_VERIFY | WEFT_ACCESS_REMOTE_READ, h)));
}

/** docs/registration.md is exactly what registration does. */
static void
test_docs(void)
{
	char *want = NULL, *page;
	size_t want_len = 0;
	struct stat st;
	struct vt t;
	FILE *f = open_memstream(&want, &want_len);
	int fd = open(DOCS_DIR "/registration.md", O_RDONLY);

	CHECK(f != NULL && fd >= 0 && fstat(fd, &st) == 0);
	open_pair(&t, NULL);
	open_media();
	print_tables(&t, f);
	fclose(f);
	close_media();
	vt_close(&t);
	page = calloc(1, (size_t)st.st_size + 1);
	CHECK_EQ(read(fd, page, (size_t)st.st_size), st.st_size);
	close(fd);
	if (strstr(page, want) == NULL)
		printf("# the tables should be:\n%s", want);
	CHECK_MSG(strstr(page, want) != NULL, "docs/registration.md has other tables");
	free(page);
	free(want);
}

/* ---- Ranges and limits ---- */

static void
test_ranges(void)
{
	const struct {
		const char *what;
		int64_t off; /**< of addr in the medium */
		uint64_t len, base_to;
		unsigned int driver;
		int want;
	} rows[] = {
	        {"all of the medium", 0, BYTES, 0, 1, 0},
	        {"its last octet", BYTES - 1, 1, 0, 1, 0},
	        {"no length", 0, 0, 0, 1, -EINVAL},
	        {"one octet too long", 0, BYTES + 1, 0, 1, -ERANGE},
	        {"one octet too far", 1, BYTES, 0, 1, -ERANGE},
	        {"behind the medium", BYTES, 1, 0, 1, -ERANGE},
	        {"before the medium", -1, 2, 0, 1, -ERANGE},
	        {"address wraps", 0, UINT64_MAX, 0, 0, -EINVAL},
	        {"offset wraps", 0, 2, UINT64_MAX, 0, -EINVAL},
	        {"offset reaches 2^64-1", 0, 2, UINT64_MAX - 1, 0, 0},
	};
	struct weft_mr_attr a = {.size = sizeof(a), .access = RW};
	const struct weft_pd_attr pa = {.size = sizeof(pa), .max_regions = 1};
	struct weft_mr *mr, *two;
	struct weft_pd *pd;
	struct vt t;

	open_pair(&t, NULL);
	open_media();
	for (unsigned int i = 0; i < RTE_DIM(rows); i++) {
		int rc;

		a.persist = media[rows[i].driver];
		a.addr = (a.persist != NULL ? a.persist->base : memory) + rows[i].off;
		a.len_bytes = rows[i].len;
		a.base_to = rows[i].base_to;
		rc = weft_mr_reg(t.n[1].pd, &a, &mr);
		CHECK_MSG(rc == rows[i].want, "%s: %d", rows[i].what, rc);
		if (rc == 0)
			CHECK_EQ(weft_mr_dereg(mr, NULL, NULL), 0);
	}
	a = (struct weft_mr_attr){.size = sizeof(a), .len_bytes = 1, .access = RW};
	CHECK_EQ(weft_mr_reg(t.n[1].pd, &a, &mr), -EINVAL); /* without an address */
	a.addr = memory;
	a.size = 3;
	CHECK_EQ(weft_mr_reg(t.n[1].pd, &a, &mr), -EINVAL);
	a.size = sizeof(a);
	CHECK_EQ(weft_pd_alloc_attr(t.n[1].ctx, &pa, &pd), 0);
	CHECK_EQ(weft_mr_reg(pd, &a, &mr), 0);
	CHECK_EQ(weft_mr_reg(pd, &a, &two), -ENOSPC);
	CHECK_EQ(weft_mr_dereg(mr, NULL, NULL), 0);
	vt_run(&t, VT_MS);
	CHECK_EQ(weft_pd_dealloc(pd), 0);
	close_media();
	vt_close(&t);
}

/** Open media in a mount of its own, 64 KiB large. Returns the exit status: the number of the
 * failed step, 99 if mounting is not allowed here. */
static int
small_mount(const char *dir)
{
	char path[256];
	struct stat st;

	snprintf(path, sizeof(path), "%s/x", dir);
	if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount("weft-test", dir, "tmpfs", 0, "size=64k") != 0)
		return 99;
	/* no space: the file is removed again */
	if (try_open("file", path, 1 << 20, true) != -ENOSPC || stat(path, &st) == 0)
		return 1;
	if (try_open("pmem", path, 1 << 20, true) != -ENOSPC || stat(path, &st) == 0)
		return 2;
	if (try_open("file", path, 16384, true) != 0)
		return 3;
	if (mount(NULL, dir, NULL, MS_REMOUNT | MS_RDONLY, NULL) != 0)
		return 99;
	if (try_open("file", path, 16384, false) != -EROFS)
		return 4;
	if (try_open("pmem", path, 16384, false) != -EROFS)
		return 5;
	return 0;
}

/** A full or read-only device is refused when the medium is opened. */
static void
test_devices(void)
{
	const char *dir = scratch_path("mnt");
	int status;
	pid_t pid;

	CHECK_EQ(mkdir(dir, 0700), 0);
	fflush(stdout);
	pid = fork();
	if (pid == 0)
		_exit(small_mount(dir));
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	rmdir(dir);
	if (WEXITSTATUS(status) == 99)
		test_note("no mounts allowed here: not tried");
	else
		CHECK_EQ(WEXITSTATUS(status), 0);
	/* No file, not a regular file, no such driver. */
	CHECK_EQ(try_open("file", scratch_path("missing"), 0, false), -ENOENT);
	CHECK_EQ(try_open("file", "/tmp", 0, false), -EISDIR);
	CHECK_EQ(try_open("tape", scratch_path("missing"), 0, false), -ENODEV);
}

/* ---- The same memory with several STags ---- */

struct view {
	uint64_t off, len, base_to;
	uint32_t access;
	const char *hash, *key;
	bool medium;
};

/** Each registration works by its own attributes, all at the same time. The end of one leaves the
 * others unchanged. */
static void
test_views(void)
{
	static const struct view views[] = {
	        {0, BYTES, BASE_TO, RW, NULL, NULL, true},
	        {0, BYTES, BASE_TO, WEFT_ACCESS_REMOTE_READ, NULL, NULL, true},
	        {4096, 4096, 0, RW | WEFT_ACCESS_FLUSH_PERSISTENT, NULL, NULL, true},
	        {4096, 8192, 0, VERIFY, "crc32c", NULL, true},
	        {4096, 8192, 0, VERIFY, "hmac-sha256", KEY, true},
	        {4096, 8192, 0, VERIFY, "hmac-sha256", "another key", true},
	        {4096, 8192, 0, VERIFY, "sha256", NULL, false},
	};
	const struct weft_persist_attr pa = {
	        .size = sizeof(pa), .driver = "sim", .bytes = BYTES, .numa_node = -1};
	struct weft_mr *mr[RTE_DIM(views)];
	uint8_t want[WEFT_HASH_MAX_BYTES], got[WEFT_HASH_MAX_BYTES];
	struct weft_persist *p;
	struct weft_sge sg;
	struct weft_wr wr;
	struct vt t;

	open_pair(&t, NULL);
	vt_mem(&t.n[0], 4096, RW);
	CHECK_EQ(weft_persist_open(&pa, &p), 0);
	for (unsigned int i = 0; i < RTE_DIM(views); i++) {
		const struct view *v = &views[i];
		struct weft_mr_attr a = {.size = sizeof(a),
		                         .addr = p->base + v->off,
		                         .len_bytes = v->len,
		                         .base_to = v->base_to,
		                         .access = v->access,
		                         .persist = v->medium ? p : NULL,
		                         .hash = v->hash,
		                         .hash_key = v->key,
		                         .hash_key_bytes =
		                                 v->key != NULL ? (uint32_t)strlen(v->key) : 0};

		CHECK_EQ(weft_mr_reg(t.n[1].pd, &a, &mr[i]), 0);
		for (unsigned int k = 0; k < i; k++)
			CHECK(weft_mr_stag(mr[k]) != weft_mr_stag(mr[i]));
	}
	/* Written by the first STag, read by the second, at offsets of the third. */
	memset(t.n[0].mem, 0x5a, 64);
	sg = (struct weft_sge){t.n[0].mem, 64, weft_mr_stag(t.n[0].mr)};
	wr = wr_rdma(WEFT_WR_WRITE, &sg, weft_mr_stag(mr[0]), BASE_TO + 4096);
	vt_post(&t.n[0], &wr);
	want_wc(&t.n[0], WEFT_WC_WRITE, WEFT_WC_SUCCESS);
	for (unsigned int i = 1; i < 3; i++) {
		memset(t.n[0].mem, 0, 64);
		wr = wr_rdma(WEFT_WR_READ, &sg, weft_mr_stag(mr[i]), i == 1 ? BASE_TO + 4096 : 0);
		vt_post(&t.n[0], &wr);
		want_wc(&t.n[0], WEFT_WC_READ, WEFT_WC_SUCCESS);
		CHECK_EQ(t.n[0].mem[63], 0x5a);
	}
	/* Before the Flush the medium and the memory differ: two regions hash the memory, one the
	 * medium. */
	for (int flushed = 0; flushed < 2; flushed++) {
		for (unsigned int i = 3; i < RTE_DIM(views); i++) {
			const struct view *v = &views[i];
			const struct weft_hash_ops *h = weft_hash_find(v->hash);
			static uint8_t zero[64];

			CHECK_EQ(weft_hash_once_keyed(
			                 h, v->key, v->key != NULL ? strlen(v->key) : 0,
			                 v->medium && !flushed ? zero : p->base + 4096, 64, want),
			         0);
			wr = (struct weft_wr){.opcode = WEFT_WR_VERIFY,
			                      .flags = WEFT_WR_SIGNALED,
			                      .verify = {.stag = weft_mr_stag(mr[i]),
			                                 .len_bytes = 64,
			                                 .expect = want,
			                                 .expect_bytes = h->result_bytes,
			                                 .result = got,
			                                 .result_bytes = sizeof(got)}};
			vt_post(&t.n[0], &wr);
			want_wc(&t.n[0], WEFT_WC_VERIFY, WEFT_WC_SUCCESS);
			CHECK_MEM(got, want, h->result_bytes);
		}
		if (!flushed) {
			wr = (struct weft_wr){.opcode = WEFT_WR_FLUSH,
			                      .flags = WEFT_WR_SIGNALED,
			                      .flush = {.stag = weft_mr_stag(mr[2]),
			                                .len_bytes = 4096,
			                                .flags = WEFT_FLUSH_PERSISTENT}};
			vt_post(&t.n[0], &wr);
			want_wc(&t.n[0], WEFT_WC_FLUSH, WEFT_WC_SUCCESS);
		}
	}
	/* Two are deregistered. Those that overlap them work as before. */
	CHECK_EQ(weft_mr_dereg(mr[4], NULL, NULL), 0);
	CHECK_EQ(weft_mr_dereg(mr[0], NULL, NULL), 0);
	vt_run(&t, VT_MS);
	for (unsigned int i = 1; i < 3; i++) {
		wr = wr_rdma(WEFT_WR_READ, &sg, weft_mr_stag(mr[i]), views[i].base_to);
		vt_post(&t.n[0], &wr);
		want_wc(&t.n[0], WEFT_WC_READ, WEFT_WC_SUCCESS);
	}
	wr = wr_rdma(WEFT_WR_WRITE, &sg, weft_mr_stag(mr[2]), 4096 - 64);
	vt_post(&t.n[0], &wr);
	want_wc(&t.n[0], WEFT_WC_WRITE, WEFT_WC_SUCCESS);
	/* The second never had the right to write. */
	wr = wr_rdma(WEFT_WR_WRITE, &sg, weft_mr_stag(mr[1]), BASE_TO);
	vt_post(&t.n[0], &wr);
	(void)vt_wc(&t.n[0]);
	want_term(&t.n[1], 0, 1, 2, true);
	CHECK_EQ(p->base[0], 0);
	for (unsigned int i = 1; i < RTE_DIM(views); i++)
		if (i != 4)
			CHECK_EQ(weft_mr_dereg(mr[i], NULL, NULL), 0);
	vt_run(&t, VT_MS);
	vt_close(&t);
	weft_persist_close(p);
}

WEFT_TEST_MAIN({"matrix", test_matrix}, {"docs/registration.md", test_docs},
               {"ranges and limits", test_ranges}, {"devices", test_devices},
               {"views of the same memory", test_views})
