/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Ranges that failed a Flush or a Verify (draft-talpey-rdma-commit-02 s2.1.2, s2.2.2): every medium
 * that can fail, the reports at both sides, and the bad ranges that a region keeps.
 */

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <libpmem.h>

#include "medium_test.h"
#include "verbs_queue.h"
#include "vt_fast.h"
#include "weft_medium_file.h"
#include "weft_persist_sim.h"
#include "weft_mem_find.h"
#include <weft/bad_range.h>

#define BASE_TO 0x700000000ull
#define PG      4096
#define BYTES   (16 * PG)

static _Alignas(4096) uint8_t memory[BYTES];

/* ---- Media that fail ---- */

static bool msync_fails, read_fails;

/* A cut file stays cut. The read-back of its medium fails in another way here, which can be
 * repaired. */
int __real_weft_bounce_read(struct weft_bounce *b, int i, const struct weft_medium *md,
                            uint64_t off_bytes, uint64_t len_bytes, const uint8_t **data);
int __wrap_weft_bounce_read(struct weft_bounce *b, int i, const struct weft_medium *md,
                            uint64_t off_bytes, uint64_t len_bytes, const uint8_t **data);

int
__wrap_weft_bounce_read(struct weft_bounce *b, int i, const struct weft_medium *md,
                        uint64_t off_bytes, uint64_t len_bytes, const uint8_t **data)
{
	if (read_fails && off_bytes + len_bytes > 4 * PG)
		return -EIO;
	return __real_weft_bounce_read(b, i, md, off_bytes, len_bytes, data);
}

int __real_pmem_msync(const void *addr, size_t len);
int __wrap_pmem_msync(const void *addr, size_t len);

int
__wrap_pmem_msync(const void *addr, size_t len)
{
	if (!msync_fails)
		return __real_pmem_msync(addr, len);
	errno = EIO;
	return -1;
}

enum failure { FLUSH, READ_BACK, CONTENT, NFAILURES };

struct medium {
	const char *driver; /**< NULL: ordinary memory */
	bool can[NFAILURES];
	uint32_t flags; /**< flags of its Flushes */
};

static const struct medium media[] = {
        {NULL, {[CONTENT] = true}, WEFT_FLUSH_VISIBLE},
        {"volatile", {[CONTENT] = true}, WEFT_FLUSH_VISIBLE},
        {"file", {true, true, true}, WEFT_FLUSH_PERSISTENT},
        {"pmem", {true, true, true}, WEFT_FLUSH_PERSISTENT},
        {"sim", {true, true, true}, WEFT_FLUSH_PERSISTENT},
};

/** From now on the pages 4 and 5 fail. */
static void
fail(const struct medium *m, enum failure how, struct weft_persist *p, uint8_t *mem,
     const char *path)
{
	struct rlimit low;
	bool sim = m->driver != NULL && strcmp(m->driver, "sim") == 0;
	uint8_t octet = 0xbd;

	if (sim && how == CONTENT) {
		weft_persist_sim_flip(p, (4 * PG + 7) * 8);
	} else if (sim) {
		weft_persist_sim_fault(p, how == FLUSH ? WEFT_SIM_FLUSH_ERR : WEFT_SIM_READ_ERR,
		                       4 * PG, PG, 0);
	} else if (how == CONTENT && path == NULL) {
		mem[4 * PG + 7] ^= 1;
	} else if (how == CONTENT) {
		poke_file(path, &octet, 1, 4 * PG + 7);
	} else if (how == READ_BACK) {
		read_fails = true;
	} else if (strcmp(m->driver, "pmem") == 0) {
		msync_fails = true;
	} else {
		signal(SIGXFSZ, SIG_IGN);
		CHECK_EQ(getrlimit(RLIMIT_FSIZE, &low), 0);
		low.rlim_cur = 4 * PG;
		CHECK_EQ(setrlimit(RLIMIT_FSIZE, &low), 0);
	}
}

static void
heal(const struct medium *m, enum failure how, struct weft_persist *p)
{
	struct rlimit most;

	msync_fails = false;
	CHECK_EQ(getrlimit(RLIMIT_FSIZE, &most), 0);
	most.rlim_cur = most.rlim_max;
	CHECK_EQ(setrlimit(RLIMIT_FSIZE, &most), 0);
	read_fails = false;
	if (m->driver != NULL && strcmp(m->driver, "sim") == 0 && how == CONTENT)
		/* a Flush does not repair the flipped bit */
		weft_persist_sim_flip(p, (4 * PG + 7) * 8);
}

static struct weft_mr *
reg(struct vt *t, void *addr, struct weft_persist *p, uint32_t access)
{
	const struct weft_mr_attr a = {.size = sizeof(a),
	                               .addr = addr,
	                               .len_bytes = BYTES,
	                               .base_to = BASE_TO,
	                               .access = access,
	                               .persist = p,
	                               .hash = "crc32c"};
	struct weft_mr *mr;

	CHECK_EQ(weft_mr_reg(t->n[1].pd, &a, &mr), 0);
	return mr;
}

/** Each failure has its own code. The event comes before the Terminate's event. The range is
 * marked, and no other stream is affected. */
static void
one(const struct medium *m, enum failure how)
{
	static const uint8_t code[NFAILURES] = {0x0a, 0x0c, 0x0b};
	static const int status[NFAILURES] = {-EIO, -EIO, -EBADMSG};
	static const enum weft_wc_status wcs[NFAILURES] = {WEFT_WC_REMOTE_OP, WEFT_WC_REMOTE_OP,
	                                                   WEFT_WC_HASH_MISMATCH};
	uint32_t access = RW | WEFT_ACCESS_VERIFY |
	                  (m->flags == WEFT_FLUSH_VISIBLE ? WEFT_ACCESS_FLUSH_VISIBLE
	                                                  : WEFT_ACCESS_FLUSH_PERSISTENT);
	bool on_file = m->driver != NULL &&
	               (strcmp(m->driver, "file") == 0 || strcmp(m->driver, "pmem") == 0);
	const char *path = on_file ? scratch_path("medium") : NULL;
	struct weft_persist *p = NULL;
	struct weft_mr *mr, *other;
	struct weft_bad_range s[2];
	struct weft_worker_stats st;
	struct weft_mr_info info;
	struct weft_qp *first[2];
	uint8_t *mem = memory, crc[4];
	struct weft_event ev;
	struct weft_sge sg;
	struct weft_wr wr;
	struct vt t;
	int want;

	open_pair(&t, NULL);
	vt_second_stream(&t, first);
	vt_mem(&t.n[0], BYTES, RW);
	if (path != NULL) {
		unlink(path);
		put_file(path, BYTES, 0);
	}
	if (m->driver != NULL) {
		p = must_open(m->driver, path, BYTES, false);
		mem = p->base;
	}
	mr = reg(&t, mem, p, access);
	other = reg(&t, mem, p, access);
	vt_fill(t.n[0].mem, BYTES, 5);
	sg = (struct weft_sge){t.n[0].mem, BYTES, 0};
	wr = wr_rdma(WEFT_WR_WRITE, &sg, weft_mr_stag(mr), BASE_TO);
	vt_post(&t.n[0], &wr);
	want_wc(&t.n[0], WEFT_WC_WRITE, WEFT_WC_SUCCESS);
	if (how != FLUSH) {
		wr = wr_flush(weft_mr_stag(mr), BASE_TO, BYTES, m->flags);
		vt_post(&t.n[0], &wr);
		want_wc(&t.n[0], WEFT_WC_FLUSH, WEFT_WC_SUCCESS);
	} else {
		vt_run(&t, VT_MS);
	}
	vt_crc32c(t.n[0].mem + 4 * PG, 2 * PG, crc);
	fail(m, how, p, mem, path);
	wr = how == FLUSH ? wr_flush(weft_mr_stag(mr), BASE_TO + 4 * PG, 2 * PG, m->flags)
	                  : wr_verify(weft_mr_stag(mr), BASE_TO + 4 * PG, 2 * PG, crc, 4, NULL);
	vt_post(&t.n[0], &wr);
	want_wc(&t.n[0], how == FLUSH ? WEFT_WC_FLUSH : WEFT_WC_VERIFY, wcs[how]);
	ev = vt_ev(&t.n[1], WEFT_EV_BAD_RANGE);
	/* A file fails the Flush with the cause: the limit of its length. */
	want = how == FLUSH && m->driver != NULL && strcmp(m->driver, "file") == 0 ? -EFBIG
	                                                                           : status[how];
	CHECK_MSG(ev.status == want && ev.bad_range.stag == weft_mr_stag(mr) &&
	                  ev.bad_range.to == BASE_TO + 4 * PG && ev.bad_range.len_bytes == 2 * PG,
	          "%s, %d: status %d", m->driver, how, ev.status);
	want_term(&t.n[1], 0, 2, code[how], true);
	want_term(&t.n[0], 0, 2, code[how], false);
	vt_ev(&t.n[1], WEFT_EV_DISCONNECTED);
	vt_ev(&t.n[0], WEFT_EV_DISCONNECTED);
	/* marked in the region whose STag the request named */
	CHECK_EQ(weft_mr_bad_ranges(mr, s, 2), 1);
	CHECK(s[0].to == BASE_TO + 4 * PG && s[0].len_bytes == 2 * PG &&
	      s[0].status == status[how] && s[0].failures == 1 && !s[0].wide);
	CHECK_EQ(weft_mr_bad_ranges(other, NULL, 0), 0);
	weft_mr_query(mr, &info);
	CHECK(info.valid && info.bad_ranges == 1);
	weft_worker_stats(t.n[1].w, &st);
	CHECK_EQ(st.bad_ranges, 1);
	heal(m, how, p);
	/* The other stream goes on. A later success removes no mark. Only the owner of the region
	 * does. */
	wr = wr_rdma(WEFT_WR_WRITE, &sg, weft_mr_stag(mr), BASE_TO);
	CHECK_EQ(weft_post_send(first[0], &wr, 1), 1);
	want_wc(&t.n[0], WEFT_WC_WRITE, WEFT_WC_SUCCESS);
	wr = wr_flush(weft_mr_stag(mr), BASE_TO, BYTES, m->flags);
	CHECK_EQ(weft_post_send(first[0], &wr, 1), 1);
	want_wc(&t.n[0], WEFT_WC_FLUSH, WEFT_WC_SUCCESS);
	wr = wr_verify(weft_mr_stag(mr), BASE_TO + 4 * PG, 2 * PG, crc, 4, NULL);
	CHECK_EQ(weft_post_send(first[0], &wr, 1), 1);
	want_wc(&t.n[0], WEFT_WC_VERIFY, WEFT_WC_SUCCESS);
	CHECK_EQ(weft_mr_bad_ranges(mr, NULL, 0), 1);
	CHECK_EQ(weft_mr_clear_bad_ranges(mr, BASE_TO + 4 * PG, 2 * PG), 0);
	CHECK_EQ(weft_mr_bad_ranges(mr, NULL, 0), 0);
	CHECK_EQ(weft_mr_dereg(mr, NULL, NULL), 0);
	CHECK_EQ(weft_mr_dereg(other, NULL, NULL), 0);
	weft_qp_destroy(first[0]);
	weft_qp_destroy(first[1]);
	vt_run(&t, VT_MS);
	vt_close(&t);
	weft_persist_close(p);
}

static void
test_media(void)
{
	unsigned int n = 0;

	scratch(NULL);
	for (unsigned int i = 0; i < RTE_DIM(media); i++)
		for (int how = 0; how < NFAILURES; how++)
			if (media[i].can[how]) {
				one(&media[i], how);
				n++;
			}
	test_note("%u ways to fail of %u media", n, (unsigned int)RTE_DIM(media));
}

/* ---- The list ---- */

#define SPAN 2000

struct model {
	bool bad[SPAN];
};

static void
compare(struct weft_mr *mr, const struct model *m)
{
	struct weft_bad_range s[WEFT_MAX_BAD_RANGES];
	unsigned int n = weft_mr_bad_ranges(mr, s, WEFT_MAX_BAD_RANGES), at = 0;
	struct weft_mr_info info;

	CHECK(n <= WEFT_MAX_BAD_RANGES);
	weft_mr_query(mr, &info);
	CHECK_EQ(info.bad_ranges, n);
	for (unsigned int i = 0; i < n; i++) {
		unsigned int to = (unsigned int)(s[i].to - BASE_TO);
		unsigned int end = to + (unsigned int)s[i].len_bytes, good = 0;

		CHECK(s[i].to >= BASE_TO && s[i].len_bytes > 0 && end <= SPAN);
		CHECK_MSG(i == 0 || to > at, "ranges touch or overlap at %u", to);
		for (unsigned int k = at; k < to; k++)
			CHECK_MSG(!m->bad[k], "octet %u failed and is not marked", k);
		for (unsigned int k = to; k < end; k++)
			good += !m->bad[k];
		CHECK(good == 0 || s[i].wide);
		at = end;
	}
	for (unsigned int k = at; k < SPAN; k++)
		CHECK_MSG(!m->bad[k], "octet %u failed and is not marked", k);
}

/** Ranges are marked and cleared at random, and compared with one flag for each octet. */
static void
test_list(void)
{
	struct weft_bad_range s[WEFT_MAX_BAD_RANGES];
	const struct weft_mem_mr *mem;
	unsigned int full = 0, wide = 0;
	struct weft_mr *mr;
	struct vt t;

	open_pair(&t, NULL);
	mr = reg(&t, memory, NULL, RW | WEFT_ACCESS_VERIFY);
	mem = weft_mem_lookup(inside_mem(t.n[1].ctx), weft_mr_stag(mr));
	for (uint64_t seed = test_seed(1); seed <= test_seed(1) + 60; seed++) {
		static struct model m;
		uint64_t x = seed * 0x9e3779b97f4a7c15ull | 1;

		memset(&m, 0, sizeof(m));
		test_seed_note(seed);
		for (unsigned int i = 0; i < 80; i++) {
			unsigned int to, len;

			x ^= x << 13, x ^= x >> 7, x ^= x << 17;
			to = (unsigned int)(x >> 20) % SPAN;
			len = 1 + (unsigned int)(x >> 40) % (seed % 2 ? 10 : 200);
			len = RTE_MIN(len, SPAN - to);
			if (i % 4 == 3) {
				int rc = weft_mr_clear_bad_ranges(mr, BASE_TO + to, len);

				CHECK(rc == 0 || rc == -ENOSPC);
				full += rc != 0;
				if (rc == 0)
					memset(m.bad + to, 0, len);
			} else {
				weft_verbs_bad_range(t.n[1].qp, (struct weft_mem_mr *)mem,
				                     BASE_TO + to, len,
				                     i % 2 ? WEFT_TERM_OP_HASH_MISMATCH
				                           : WEFT_TERM_OP_FLUSH_FAILED,
				                     i % 3 ? -ENOSPC : 0);
				memset(m.bad + to, 1, len);
			}
			compare(mr, &m);
		}
		for (unsigned int i = weft_mr_bad_ranges(mr, s, WEFT_MAX_BAD_RANGES); i-- > 0;)
			wide += s[i].wide;
		CHECK_EQ(weft_mr_clear_bad_ranges(mr, 0, UINT64_MAX), 0);
		CHECK_EQ(weft_mr_bad_ranges(mr, NULL, 0), 0);
	}
	CHECK_MSG(wide > 0 && full > 0, "wide %u, full %u", wide, full);
	/* Both kinds of failure in one range. Then the last octet of the address space. */
	weft_verbs_bad_range(t.n[1].qp, (struct weft_mem_mr *)mem, BASE_TO, 8,
	                     WEFT_TERM_OP_HASH_MISMATCH, 0);
	weft_verbs_bad_range(t.n[1].qp, (struct weft_mem_mr *)mem, BASE_TO + 8, 8,
	                     WEFT_TERM_OP_VERIFY_FAILED, -ENOSPC);
	CHECK_EQ(weft_mr_bad_ranges(mr, s, 1), 1);
	CHECK(s[0].len_bytes == 16 && s[0].status == -EIO && s[0].failures == 2 && !s[0].wide);
	weft_verbs_bad_range(t.n[1].qp, (struct weft_mem_mr *)mem, UINT64_MAX - 7, 8,
	                     WEFT_TERM_OP_VERIFY_FAILED, -ENOSPC);
	CHECK_EQ(weft_mr_bad_ranges(mr, s, 2), 2);
	CHECK(s[1].to == UINT64_MAX - 7 && s[1].len_bytes == 8);
	CHECK_EQ(weft_mr_clear_bad_ranges(mr, UINT64_MAX - 3, UINT64_MAX), 0);
	CHECK_EQ(weft_mr_bad_ranges(mr, s, 2), 2);
	CHECK_EQ(s[1].len_bytes, 4);
	CHECK_EQ(weft_mr_dereg(mr, NULL, NULL), 0);
	vt_close(&t);
}

/** A failure through a window is marked in the window's region. A new registration has no marks. */
static void
test_kinds(void)
{
	const uint32_t rights = RW | WEFT_ACCESS_VERIFY | WEFT_ACCESS_MW_BIND;
	const uint8_t wrong[4] = {1, 2, 3, 4};
	struct weft_bad_range s[2];
	struct weft_mr_info info;
	struct weft_event ev;
	struct weft_mr *mr;
	struct weft_mw *mw;
	struct weft_wr wr;
	struct vt t;

	open_pair(&t, NULL);
	CHECK_EQ(weft_mr_alloc(t.n[1].pd, &mr), 0);
	CHECK_EQ(weft_mw_alloc(t.n[1].pd, &mw), 0);
	wr = wr_fast(mr, memory, BYTES, BASE_TO, rights);
	wr.fast_reg.hash = "crc32c";
	vt_post(&t.n[1], &wr);
	want_wc(&t.n[1], WEFT_WC_FAST_REG, WEFT_WC_SUCCESS);
	wr = (struct weft_wr){.opcode = WEFT_WR_BIND_MW,
	                      .flags = WEFT_WR_SIGNALED,
	                      .bind_mw = {.mw = mw,
	                                  .mr = mr,
	                                  .addr = memory + 3 * PG,
	                                  .len_bytes = PG,
	                                  .base_to = BASE_TO,
	                                  .access = WEFT_ACCESS_VERIFY | WEFT_ACCESS_REMOTE_READ}};
	vt_post(&t.n[1], &wr);
	want_wc(&t.n[1], WEFT_WC_BIND_MW, WEFT_WC_SUCCESS);
	wr = wr_verify(weft_mw_stag(mw), BASE_TO + 10, 20, wrong, 4, NULL);
	vt_post(&t.n[0], &wr);
	want_wc(&t.n[0], WEFT_WC_VERIFY, WEFT_WC_HASH_MISMATCH);
	ev = vt_ev(&t.n[1], WEFT_EV_BAD_RANGE);
	CHECK(ev.bad_range.stag == weft_mw_stag(mw) && ev.bad_range.to == BASE_TO + 10);
	CHECK_EQ(weft_mr_bad_ranges(mr, s, 2), 1);
	CHECK(s[0].to == BASE_TO + 3 * PG + 10 && s[0].len_bytes == 20);
	weft_mw_dealloc(mw);
	/* The region is invalidated, and another stream registers it again. */
	vt_run(&t, VT_S);
	while (weft_evq_poll(t.n[0].evq, &ev) + weft_evq_poll(t.n[1].evq, &ev) > 0)
		;
	weft_qp_destroy(t.n[0].qp);
	weft_qp_destroy(t.n[1].qp);
	vt_connect(&t, NULL, NULL);
	wr = (struct weft_wr){.opcode = WEFT_WR_SEND};
	vt_post_recv(&t.n[1], &(uint8_t){0}, 1, 0);
	vt_post(&t.n[0], &wr);
	CHECK_EQ(vt_wc(&t.n[1]).status, WEFT_WC_SUCCESS);
	wr = wr_inv(weft_mr_stag(mr));
	vt_post(&t.n[1], &wr);
	want_wc(&t.n[1], WEFT_WC_LOCAL_INV, WEFT_WC_SUCCESS);
	CHECK_EQ(weft_mr_bad_ranges(mr, NULL, 0), 1);
	wr = wr_fast(mr, memory, BYTES, BASE_TO, rights);
	wr.fast_reg.hash = "crc32c";
	vt_post(&t.n[1], &wr);
	want_wc(&t.n[1], WEFT_WC_FAST_REG, WEFT_WC_SUCCESS);
	CHECK_EQ(weft_mr_bad_ranges(mr, NULL, 0), 0);
	weft_mr_query(mr, &info);
	CHECK_EQ(info.bad_ranges, 0);
	CHECK_EQ(weft_mr_dereg(mr, NULL, NULL), 0);
	vt_close(&t);
}

WEFT_TEST_MAIN({"every medium that can fail", test_media}, {"list", test_list},
               {"windows and registrations", test_kinds})
