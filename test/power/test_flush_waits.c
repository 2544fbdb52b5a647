/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Checks that the target asks the medium for persistence (draft-talpey-rdma-commit-02 s2.1): when a
 * Flush Response leaves the target, the calls that make its range durable have returned. The test
 * uses complete stacks over the simulated network. The target's memory is on a real file. io_watch
 * records the calls, and the link reports the Flush Response.
 *
 * Also checks that a Verify reads the medium (s2.2.2), and that a failure of the medium is reported
 * to the peer.
 */

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io_watch.h"
#include "rdmap_sabotage.h"
#include "test_xorshift.h"
#include "vt.h"

#define PG       4096U
#define PAGES    512U
#define AT_PAGE  16U /* first page of the region in the mapping */
#define MR_PAGES 400U
#define MR_BYTES (MR_PAGES * PG)

static bool forced; /* this is the child process: every mapping is persistent memory */
static char folder[64];

/* ---- The media ---- */

enum rule {
	RULE_FILE,    /* dirty pages are written, then fdatasync */
	RULE_MSYNC,   /* msync over the covering pages */
	RULE_PERSIST, /* cache lines of the range are written back, without msync */
};

static const struct medium {
	const char *name, *driver, *mechanism;
	enum rule rule;
	bool no_direct, dax;
} media[] = {
        {"file, io_uring", "file:uring", "direct I/O by io_uring to an ordinary file", RULE_FILE,
         false, false},
        {"file, pwrite", "file:pwrite", "direct I/O by pwrite to an ordinary file", RULE_FILE,
         false, false},
        {"file, buffered", "file", "buffered I/O and fdatasync to an ordinary file", RULE_FILE,
         true, false},
        {"pmem, msync", "pmem", "libpmem msync to a file that is not on DAX", RULE_MSYNC, false,
         false},
        {"pmem, persistent memory", "pmem", "libpmem on DAX", RULE_PERSIST, false, true},
};

/* ---- The rig ---- */

enum verdict { RETURNED, NOT_WRITTEN, NOT_SYNCED, TOO_MUCH, OTHER_CALL, VERDICTS };

static const char *const verdicts[] = {"returned", "not written", "not synced", "more than dirty",
                                       "another call"};

struct rig {
	struct vt t;
	const struct medium *m;
	char path[128];
	uint64_t rng, seed;
	bool dirty[PAGES]; /* written and not reported as durable yet */
	/* the Flush in flight */
	bool out;
	uint64_t off, len; /* in the mapping */
	bool again;        /* after a Flush that failed, whose calls count too */
	unsigned int responses;
	enum verdict verdict;
};

static uint64_t
below(struct rig *r, uint64_t n)
{
	return test_xorshift(&r->rng) % n;
}

/** Whether a call covers a page and has returned success. */
static bool
covers(const struct io_call *c, uint64_t pg)
{
	uint64_t end = c->off + c->len;

	if (c->what == IO_MSYNC) /* the kernel writes all of a page that is partly covered */
		end = RTE_ALIGN_CEIL(end, PG);
	return c->ended != 0 && c->rc == 0 && c->off <= pg * PG && end >= (pg + 1) * PG;
}

static enum verdict
judge_file(const struct rig *r)
{
	uint64_t first = r->off / PG, end = (r->off + r->len - 1) / PG + 1;

	for (unsigned int i = 0; i < io_watch.n; i++) {
		const struct io_call *c = &io_watch.call[i];

		if (c->what != IO_WRITE && c->what != IO_SYNC)
			return OTHER_CALL;
		for (uint64_t pg = c->off / PG; c->what == IO_WRITE && pg * PG < c->off + c->len;
		     pg++)
			if (pg < first || pg >= end || !r->dirty[pg])
				return TOO_MUCH;
	}
	for (uint64_t pg = first; pg < end; pg++) {
		const struct io_call *w = NULL, *s = NULL;

		for (unsigned int i = 0; i < io_watch.n; i++) {
			const struct io_call *c = &io_watch.call[i];

			if (c->what == IO_WRITE && covers(c, pg))
				w = c;
			if (c->what != IO_SYNC || w == NULL || c->begun < w->ended)
				continue;
			/* A sync that fails has lost the writes before it. */
			s = c->rc == 0 && c->ended != 0 ? c : NULL;
			if (c->rc != 0)
				w = NULL;
		}
		if (r->dirty[pg] && w == NULL)
			return NOT_WRITTEN;
		if (r->dirty[pg] && s == NULL)
			return NOT_SYNCED;
	}
	return RETURNED;
}

static enum verdict
judge_msync(const struct rig *r)
{
	for (uint64_t pg = r->off / PG; pg * PG < r->off + r->len; pg++) {
		bool found = false;

		for (unsigned int i = 0; i < io_watch.n; i++) {
			if (io_watch.call[i].what != IO_MSYNC)
				return OTHER_CALL;
			found |= covers(&io_watch.call[i], pg);
		}
		if (!found)
			return NOT_SYNCED;
	}
	return RETURNED;
}

static enum verdict
judge_persist(const struct rig *r)
{
	bool found = false;

	for (unsigned int i = 0; i < io_watch.n; i++) {
		const struct io_call *c = &io_watch.call[i];

		if (c->what != IO_PERSIST)
			return OTHER_CALL;
		found |= c->ended != 0 && c->off <= r->off && c->off + c->len >= r->off + r->len;
	}
	return found ? RETURNED : NOT_WRITTEN;
}

static enum verdict
judge(const struct rig *r)
{
	return r->m->rule == RULE_FILE    ? judge_file(r)
	       : r->m->rule == RULE_MSYNC ? judge_msync(r)
	                                  : judge_persist(r);
}

/** Number of FPDUs with this opcode in a frame (RFC 5044 s4, RFC 5041 s4, RFC 5040 s4.1). */
static unsigned int
fpdus(const uint8_t *f, uint32_t len, uint8_t opcode)
{
	uint32_t tcp = 14 + (f[14] & 15) * 4U, at, end;
	unsigned int n = 0;

	if (len < 54 || weft_get_be16(f + 12) != 0x0800 || f[23] != 6)
		return 0;
	at = tcp + (f[tcp + 12] >> 4) * 4U;
	end = 14U + weft_get_be16(f + 16); /* a short frame is padded */
	while (at + 4 < end) {
		n += (f[at + 3] & 15) == opcode;
		at += ((2U + weft_get_be16(f + at) + 3) & ~3U) + 4;
	}
	return n;
}

static void
on_frame(void *arg, unsigned int from, bool delivered, const uint8_t *f, uint32_t len,
         uint64_t now_ns)
{
	struct rig *r = arg;

	(void)now_ns;
	if (delivered || from != 1 || !r->out || fpdus(f, len, WEFT_RDMAP_FLUSH_RESP) == 0)
		return;
	r->responses++;
	r->verdict = judge(r);
	r->out = false;
}

static uint64_t
base_to(void)
{
	return 0x200000000ULL;
}

/** Skip the case because this computer lacks the medium. In the child the case fails instead,
 * because the child exists to provide that medium. */
static void
not_here(const struct medium *m, const char *why)
{
	if (forced)
		test_fail(__FILE__, __LINE__, "%s: %s", m->name, why);
	test_skip("%s", why);
}

static void
rig_open(struct rig *r, const struct medium *m, uint64_t seed, enum weft_rdmap_sabotage sabotage)
{
	struct weft_persist_attr pa = {.size = sizeof(pa),
	                               .driver = m->driver,
	                               .path = r->path,
	                               .bytes = PAGES * PG,
	                               .create = true,
	                               .numa_node = -1};
	struct weft_mr_attr a = {.size = sizeof(a),
	                         .len_bytes = MR_BYTES,
	                         .base_to = base_to(),
	                         .access = WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_REMOTE_READ |
	                                   WEFT_ACCESS_REMOTE_WRITE | WEFT_ACCESS_FLUSH_PERSISTENT |
	                                   WEFT_ACCESS_FLUSH_VISIBLE | WEFT_ACCESS_VERIFY,
	                         .hash = "crc32c"};
	struct vt_attr va = {.seed = seed};
	struct weft_persist *p;
	int rc;

	memset(r, 0, sizeof(*r));
	memset(&io_watch, 0, sizeof(io_watch));
	io_watch.blind = -1;
	io_watch.no_direct = m->no_direct;
	CHECK_EQ(m->dax, forced);
	r->m = m;
	r->seed = seed;
	r->rng = (seed + 1) * 0x9e3779b97f4a7c15ULL | 1;
	snprintf(r->path, sizeof(r->path), "%s/m", folder);
	unlink(r->path);
	rc = weft_persist_open(&pa, &p);
	if (rc == -ENOTSUP && !m->no_direct)
		not_here(m, strerror(-rc));
	CHECK_MSG(rc == 0, "%s: %s", m->name, strerror(-rc));
	if ((m->rule == RULE_FILE && !m->no_direct && strstr(p->mechanism, "buffered")) ||
	    (m->rule == RULE_MSYNC && strcmp(p->mechanism, "libpmem on DAX") == 0)) {
		char why[128];

		snprintf(why, sizeof(why), "here it is %s", p->mechanism);
		weft_persist_close(p);
		not_here(m, why);
	}
	CHECK(strncmp(p->mechanism, m->mechanism, strlen(m->mechanism)) == 0);
	vt_open(&r->t, &va);
	rdmap_sabotage(inside_sched(r->t.n[1].w), sabotage);
	r->t.n[1].persist = p;
	r->t.n[1].mem = p->base;
	io_watch.base = p->base;
	a.addr = p->base + AT_PAGE * PG;
	a.persist = p;
	CHECK_EQ(weft_mr_reg(r->t.n[1].pd, &a, &r->t.n[1].mr), 0);
	vt_mem(&r->t.n[0], MR_BYTES, WEFT_ACCESS_LOCAL_WRITE);
	sim_link_tap(r->t.link, on_frame, r);
	vt_connect(&r->t, NULL, NULL);
}

static void
rig_close(struct rig *r)
{
	vt_close(&r->t);
}

/** Take the events of the Terminate and of the streams, and reconnect both sides. */
static void
rig_again(struct rig *r)
{
	for (unsigned int i = 0; i < 2; i++) {
		struct weft_event ev;
		struct weft_wc wc;

		weft_qp_destroy(r->t.n[i].qp);
		r->t.n[i].qp = NULL;
		while (weft_cq_poll(r->t.n[i].cq, &wc, 1) != 0)
			;
		while (weft_evq_poll(r->t.n[i].evq, &ev) != 0)
			;
	}
	vt_connect(&r->t, NULL, NULL);
}

/** Write new octets to [off, off + len) of the region. */
static void
rig_write(struct rig *r, uint64_t off, uint32_t len)
{
	struct weft_sge sg = {
	        .addr = r->t.n[0].mem + off, .len_bytes = len, .lkey = weft_mr_stag(r->t.n[0].mr)};
	struct weft_wr wr = {.opcode = WEFT_WR_WRITE,
	                     .flags = WEFT_WR_SIGNALED,
	                     .sg_list = &sg,
	                     .num_sge = 1,
	                     .rdma = {.stag = weft_mr_stag(r->t.n[1].mr), .to = base_to() + off}};

	vt_fill(r->t.n[0].mem + off, len, below(r, UINT32_MAX));
	vt_post(&r->t.n[0], &wr);
	CHECK_EQ(vt_wc(&r->t.n[0]).status, WEFT_WC_SUCCESS);
	for (uint64_t at = off; at < off + len; at = (at | (PG - 1)) + 1)
		r->dirty[AT_PAGE + at / PG] = true;
}

/** Flush [off, off + len) of the region (len 0: the whole region). Returns the completion. */
static struct weft_wc
rig_flush(struct rig *r, uint64_t off, uint32_t len)
{
	struct weft_wr wr = {.opcode = WEFT_WR_FLUSH,
	                     .flags = WEFT_WR_SIGNALED,
	                     .flush = {.stag = weft_mr_stag(r->t.n[1].mr),
	                               .to = base_to() + off,
	                               .len_bytes = len,
	                               .flags = WEFT_FLUSH_PERSISTENT}};
	struct weft_wc wc;

	if (len == 0) {
		wr.flush.flags |= WEFT_FLUSH_REGION;
		off = 0;
		len = MR_BYTES;
	}
	r->off = AT_PAGE * PG + off;
	r->len = len;
	r->responses = 0;
	r->out = true;
	if (!r->again)
		io_watch.n = 0;
	r->again = false;
	vt_post(&r->t.n[0], &wr);
	wc = vt_wc(&r->t.n[0]);
	r->out = false;
	CHECK_EQ(wc.opcode, WEFT_WC_FLUSH);
	CHECK_EQ(r->responses, wc.status == WEFT_WC_SUCCESS);
	if (wc.status != WEFT_WC_SUCCESS)
		return wc;
	vt_run(&r->t, VT_MS); /* lets the work after an early response end */
	for (uint64_t pg = r->off / PG; pg * PG < r->off + r->len; pg++)
		r->dirty[pg] = false;
	return wc;
}

/** Post some Writes, and a Flush of some range. */
static void
rig_round(struct rig *r, bool region)
{
	uint64_t off, n = below(r, 30);
	uint32_t len;

	for (uint64_t i = 0; i <= n; i++) {
		off = below(r, MR_BYTES);
		len = (uint32_t)(1 +
		                 below(r, RTE_MIN(MR_BYTES - off, below(r, 4) ? 200UL : 50000UL)));
		rig_write(r, off, len);
	}
	off = below(r, MR_BYTES);
	len = (uint32_t)(1 + below(r, RTE_MIN(MR_BYTES - off, below(r, 3) ? 1UL << 30 : 5000UL)));
	if (region || below(r, 6) == 0)
		len = 0;
	CHECK_EQ(rig_flush(r, off, len).status, WEFT_WC_SUCCESS);
}

static unsigned int
calls(enum io_what what)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < io_watch.n; i++)
		n += io_watch.call[i].what == what;
	return n;
}

/* ---- The cases: each check with each medium to which it applies ---- */

static struct weft_test_case cases[32];
static const struct medium *case_medium[RTE_DIM(cases)];

static const struct medium *
medium(void)
{
	return case_medium[test_case_index()];
}

/* ---- A Flush Response means that the data is durable ---- */

static void
test_calls_return(void)
{
	const struct medium *m = medium();
	unsigned int writes = 0, uring = 0, syncs = 0, msyncs = 0, persists = 0, rounds = 0;

	for (uint64_t seed = test_seed(1); seed <= (test_seed_given() ? test_seed(1) : 4); seed++) {
		struct rig r;

		test_seed_note(seed);
		rig_open(&r, m, seed, WEFT_RDMAP_SOUND);
		for (unsigned int i = 0; i < 60; i++, rounds++) {
			rig_round(&r, false);
			CHECK_MSG(r.verdict == RETURNED, "%s, seed %" PRIu64 ", round %u: %s",
			          m->name, seed, i, verdicts[r.verdict]);
			for (unsigned int k = 0; k < io_watch.n; k++)
				uring += io_watch.call[k].uring;
			writes += calls(IO_WRITE);
			syncs += calls(IO_SYNC);
			msyncs += calls(IO_MSYNC);
			persists += calls(IO_PERSIST);
		}
		rig_close(&r);
	}
	CHECK_EQ(uring > 0, strcmp(m->driver, "file:uring") == 0);
	CHECK_EQ(writes > 0 && syncs > 0, m->rule == RULE_FILE);
	CHECK_EQ(msyncs > 0, m->rule == RULE_MSYNC);
	CHECK_EQ(persists > 0, m->rule == RULE_PERSIST);
	test_note("%s: %u Flushes, %u writes (%u by io_uring), %u fdatasyncs, %u msyncs, %u "
	          "pmem_persists",
	          m->name, rounds, writes, uring, syncs, msyncs, persists);
}

/** A stack that answers too early or leaves the flush out is detected every time. */
static void
test_wrong(void)
{
	static const struct {
		const char *what;
		enum weft_rdmap_sabotage sabotage;
		int blind;
	} wrongs[] = {
	        {"Flush left out", WEFT_RDMAP_DROP_FLUSH, -1},
	        {"Flush answered early", WEFT_RDMAP_EARLY_RESPONSE, -1},
	        {"no write", WEFT_RDMAP_SOUND, IO_WRITE},
	        {"no fdatasync", WEFT_RDMAP_SOUND, IO_SYNC},
	        {"no msync", WEFT_RDMAP_SOUND, IO_MSYNC},
	        {"no cache line written back", WEFT_RDMAP_SOUND, IO_PERSIST},
	};
	const struct medium *m = medium();

	for (unsigned int i = 0; i < RTE_DIM(wrongs); i++) {
		bool concerns = wrongs[i].blind < 0 ||
		                (m->rule == RULE_FILE && wrongs[i].blind <= IO_SYNC) ||
		                (m->rule == RULE_MSYNC && wrongs[i].blind == IO_MSYNC) ||
		                (m->rule == RULE_PERSIST && wrongs[i].blind == IO_PERSIST);
		unsigned int caught = 0;
		struct rig r;

		rig_open(&r, m, 7, wrongs[i].sabotage);
		io_watch.blind = wrongs[i].blind;
		for (unsigned int k = 0; k < 20; k++) {
			/* A short flush of persistent memory ends before an early response. */
			rig_round(&r, true);
			caught += r.verdict != RETURNED;
		}
		CHECK_MSG(caught == (concerns ? 20 : 0), "%s, %s: %u of 20", m->name,
		          wrongs[i].what, caught);
		rig_close(&r);
	}
}

/* ---- What both sides report ---- */

static void
expect_told(struct rig *r, int status, uint8_t code)
{
	struct weft_event ev = vt_ev(&r->t.n[1], WEFT_EV_BAD_RANGE);

	CHECK_EQ(ev.status, status);
	CHECK_EQ(ev.bad_range.stag, weft_mr_stag(r->t.n[1].mr));
	CHECK_EQ(ev.bad_range.to - base_to(), r->off - AT_PAGE * PG);
	CHECK_EQ(ev.bad_range.len_bytes, r->len);
	for (unsigned int i = 2; i-- > 0;) {
		ev = vt_ev(&r->t.n[i], WEFT_EV_TERMINATED);
		CHECK_EQ(ev.term.layer, WEFT_TERM_LAYER_RDMA);
		CHECK_EQ(ev.term.etype, WEFT_TERM_RDMA_OPERATION);
		CHECK_EQ(ev.term.code, code);
		CHECK_EQ(ev.term.ours, i == 1);
		vt_ev(&r->t.n[i], WEFT_EV_DISCONNECTED);
	}
}

/** Verify [off, off + len) of the region against the initiator's copy. */
static struct weft_wc
rig_verify(struct rig *r, uint64_t off, uint32_t len)
{
	uint8_t expect[4];
	struct weft_wr wr = {.opcode = WEFT_WR_VERIFY,
	                     .flags = WEFT_WR_SIGNALED,
	                     .verify = {.stag = weft_mr_stag(r->t.n[1].mr),
	                                .to = base_to() + off,
	                                .len_bytes = len,
	                                .expect = expect,
	                                .expect_bytes = 4}};

	vt_crc32c(r->t.n[0].mem + off, len, expect);
	r->off = AT_PAGE * PG + off;
	r->len = len;
	io_watch.n = 0;
	vt_post(&r->t.n[0], &wr);
	return vt_wc(&r->t.n[0]);
}

/** A failing medium is reported to both sides. No data is lost, and a Flush succeeds when the
 * medium works again. */
static void
test_faults(void)
{
	static const enum io_what kinds[] = {IO_WRITE, IO_SYNC, IO_MSYNC, IO_READ};
	unsigned int hits = 0;
	struct rig r;

	rig_open(&r, medium(), 3, WEFT_RDMAP_SOUND);
	for (unsigned int i = 0; i < 24; i++) {
		enum io_what kind = kinds[i % RTE_DIM(kinds)];
		bool read = kind == IO_READ;
		struct weft_wc wc;

		for (unsigned int k = 0; k < 5; k++)
			rig_write(&r, (k * 7 + i) * 3 * PG + 100, 8000);
		io_watch.fail[kind] = 1 + (i / 4) % (kind == IO_WRITE ? 5 : 1);
		wc = rig_flush(&r, 100, MR_BYTES - 200);
		if (read && wc.status == WEFT_WC_SUCCESS)
			wc = rig_verify(&r, i * 3 * PG + 100, 8000);
		if (io_watch.fail[kind] != 0) { /* this medium does not use this call */
			io_watch.fail[kind] = 0;
			CHECK_EQ(wc.status, WEFT_WC_SUCCESS);
			continue;
		}
		hits++;
		CHECK_EQ(wc.status, WEFT_WC_REMOTE_OP);
		CHECK_EQ(wc.opcode, read ? WEFT_WC_VERIFY : WEFT_WC_FLUSH);
		expect_told(&r, -EIO,
		            read ? WEFT_TERM_OP_VERIFY_FAILED : WEFT_TERM_OP_FLUSH_FAILED);
		rig_again(&r);
		r.again = !read;
		/* The next Flush covers all data that was placed and not reported as durable. */
		CHECK_EQ(rig_flush(&r, 0, 0).status, WEFT_WC_SUCCESS);
		CHECK_MSG(r.verdict == RETURNED, "%s, round %u: %s", r.m->name, i,
		          verdicts[r.verdict]);
		CHECK_EQ(rig_verify(&r, i * 3 * PG + 100, 8000).status, WEFT_WC_SUCCESS);
		CHECK_EQ(rig_verify(&r, (28 + i) * 3 * PG + 100, 8000).status, WEFT_WC_SUCCESS);
	}
	CHECK_EQ(hits, r.m->rule == RULE_FILE ? 18 : r.m->rule == RULE_MSYNC ? 12 : 0);
	rig_close(&r);
}

/* ---- A Verify reads the medium ---- */

/**
 * Change a page of the file, past the page cache where possible. This process makes the change,
 * with calls that io_watch does not record, because the stack notices a write of another process
 * before it reads anything (mem_foreign:).
 */
static void
change_behind(const struct rig *r, uint64_t pg, bool past_cache)
{
	static uint8_t page[PG] __attribute__((aligned(4096)));
	long fd = syscall(SYS_openat, AT_FDCWD, r->path, O_RDWR | (past_cache ? O_DIRECT : 0));

	CHECK(fd >= 0);
	CHECK_EQ(syscall(SYS_pread64, fd, page, PG, pg * PG), PG);
	page[1234] ^= 4;
	CHECK_EQ(syscall(SYS_pwrite64, fd, page, PG, pg * PG), PG);
	CHECK_EQ(syscall(SYS_fsync, fd), 0);
	CHECK_EQ(syscall(SYS_close, fd), 0);
}

static void
test_behind(void)
{
	const uint64_t off = 5 * PG + 77;
	const uint32_t len = 9 * PG;
	struct statfs fs;
	struct rig r;

	CHECK_EQ(statfs(folder, &fs), 0);
	if (fs.f_type == TMPFS_MAGIC && medium()->rule != RULE_PERSIST)
		test_skip("the scratch folder is on tmpfs: nothing is behind its memory");
	for (unsigned int way = 0; way < 2; way++) {
		uint8_t *mem;

		rig_open(&r, medium(), 5 + way, WEFT_RDMAP_SOUND);
		mem = r.t.n[1].mem + AT_PAGE * PG + off;
		rig_write(&r, off, len);
		CHECK_EQ(rig_flush(&r, off, len).status, WEFT_WC_SUCCESS);
		CHECK_EQ(rig_verify(&r, off, len).status, WEFT_WC_SUCCESS);
		/* Persistent memory is read without a call. */
		CHECK_EQ(calls(IO_READ) > 0, r.m->rule != RULE_PERSIST);
		for (unsigned int i = 0; i < io_watch.n; i++)
			CHECK_EQ(io_watch.call[i].direct, !r.m->no_direct);
		CHECK_EQ(calls(IO_DROP) > 0, r.m->no_direct);

		if (way == 0)
			change_behind(&r, AT_PAGE + 8, !r.m->no_direct && !r.m->dax);
		else
			io_watch.flip_read = r.m->rule != RULE_PERSIST;
		if (way == 0 || r.m->rule != RULE_PERSIST) {
			CHECK_EQ(rig_verify(&r, off, len).status, WEFT_WC_HASH_MISMATCH);
			expect_told(&r, -EBADMSG, WEFT_TERM_OP_HASH_MISMATCH);
		}
		/* Memory has not changed, so the Verify did not read memory. If memory is a mapping
		 * of the file, only the second way shows this. */
		if (r.m->rule == RULE_FILE || way == 1)
			CHECK_MEM(mem, r.t.n[0].mem + off, len);
		rig_close(&r);
	}
}

/** A stack that verifies memory does not detect the change. */
static void
test_behind_memory(void)
{
	struct rig r;

	rig_open(&r, medium(), 9, WEFT_RDMAP_VERIFY_MEMORY);
	rig_write(&r, 0, 3 * PG);
	CHECK_EQ(rig_flush(&r, 0, 3 * PG).status, WEFT_WC_SUCCESS);
	change_behind(&r, AT_PAGE + 1, !r.m->no_direct);
	CHECK_EQ(rig_verify(&r, 0, 3 * PG).status, WEFT_WC_SUCCESS);
	rig_close(&r);
}

static char *self;

/** Run the same cases in a child process in which every mapping is persistent memory. libpmem
 * decides this once per process. In the child no case is skipped. */
static void
test_forced(void)
{
	pid_t pid;
	int st;

#ifndef __x86_64__
	test_skip("no way to write lines back that the driver knows");
#endif
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		setenv("PMEM_IS_PMEM_FORCE", "1", 1);
		setenv("WEFT_TEST_CHILD", "1", 1);
		/* The child's TAP must not mix with this program's. It goes to stderr for
		 * diagnosis. */
		dup2(STDERR_FILENO, STDOUT_FILENO);
		execl("/proc/self/exe", self, (char *)NULL);
		_exit(127);
	}
	CHECK(pid > 0);
	CHECK_EQ(waitpid(pid, &st, 0), pid);
	CHECK_MSG(WIFEXITED(st) && WEXITSTATUS(st) == 0, "the child ended with %x", st);
}

static void
forget(void)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/m", folder);
	unlink(path);
	rmdir(folder);
}

int
main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*fn)(void);
		bool files_only; /* on other media memory is a mapping of the file */
	} subjects[] = {
	        {"the calls return before the response", test_calls_return, false},
	        {"wrong stacks are caught", test_wrong, false},
	        {"a medium that fails", test_faults, false},
	        {"the medium changes behind the cache", test_behind, false},
	        {"Verify out of memory does not see it", test_behind_memory, true},
	};
	static char names[RTE_DIM(cases)][80];
	unsigned int n = 0;

	self = argv[0];
	forced = getenv("WEFT_TEST_CHILD") != NULL;
	if (!forced) /* the caller's setting is not for this program */
		unsetenv("PMEM_IS_PMEM_FORCE");
	snprintf(folder, sizeof(folder), "%.40s/weft-flush-XXXXXX",
	         getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp");
	if (mkdtemp(folder) == NULL)
		return 1;
	atexit(forget);
	for (unsigned int i = 0; i < RTE_DIM(subjects); i++)
		for (unsigned int m = 0; m < RTE_DIM(media); m++) {
			if (media[m].dax != forced ||
			    (subjects[i].files_only && media[m].rule != RULE_FILE))
				continue;
			snprintf(names[n], sizeof(names[n]), "%s: %s", subjects[i].name,
			         media[m].name);
			cases[n] = (struct weft_test_case){names[n], subjects[i].fn};
			case_medium[n++] = &media[m];
		}
	if (!forced)
		cases[n++] = (struct weft_test_case){"persistent memory", test_forced};
	return test_main(argc, argv, cases, n);
}
