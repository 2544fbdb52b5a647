/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The guard of mapped media (weft/guard.h): pages that the system takes away, and every other
 * SIGBUS. Cases that end the process run in a child.
 */

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "medium_test.h"
#include <weft/guard.h>
#include "weft_mem.h"
#include "weft_test.h"

#define PG 4096
#define P  WEFT_FLUSH_PERSISTENT

/** Run fn(arg) in a child. Returns its exit status, or -signal. */
static int
child(void (*fn)(void *arg), void *arg)
{
	pid_t pid;
	int st;

	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		fn(arg);
		_exit(0);
	}
	CHECK_EQ(waitpid(pid, &st, 0), pid);
	return WIFSIGNALED(st) ? -WTERMSIG(st) : WEXITSTATUS(st);
}

static struct weft_persist *
medium(const char *name, unsigned int pages)
{
	const char *path = scratch_path(name);
	struct weft_persist *p;

	unlink(path);
	p = must_open("pmem", path, (uint64_t)pages * PG, true);
	memset(p->base, 7, p->bytes);
	return p;
}

static volatile uint8_t sink;

/* ---- Lost pages ---- */

static void
test_cut(void)
{
	struct weft_persist *p = medium("cut", 300), *other = medium("other", 4);
	struct weft_guard_stats a, b;
	uint8_t big[3 * PG];

	weft_guard_stats(&a);
	CHECK_EQ(weft_guard_install(), 0);
	CHECK(!weft_guard_probe(p->base, p->bytes));
	CHECK_EQ(truncate(scratch_path("cut"), 200 * PG), 0);
	CHECK(!weft_guard_lost(p->base, p->bytes)); /* no access has met it */
	CHECK_EQ(p->base[250 * PG + 5], 0);
	CHECK(weft_guard_lost(p->base, p->bytes) && weft_guard_lost(p->base + 250 * PG, 1) &&
	      weft_guard_lost(p->base + 251 * PG - 1, 1) &&
	      weft_guard_lost(p->base + 250 * PG - 1, 2));
	CHECK(!weft_guard_lost(p->base, 250 * PG) &&
	      !weft_guard_lost(p->base + 251 * PG, 49 * PG) &&
	      !weft_guard_lost(p->base + 250 * PG, 0) &&
	      !weft_guard_lost(other->base, other->bytes) && !weft_guard_lost(&a, sizeof(a)));
	weft_guard_stats(&b);
	CHECK(b.installed && b.faults == a.faults + 1 && b.pages_lost == a.pages_lost + 1 &&
	      b.passed_on == a.passed_on);
	/* one copy over several pages, some of them present */
	memset(big, 9, sizeof(big));
	memcpy(p->base + 199 * PG, big, sizeof(big));
	CHECK_MEM(p->base + 199 * PG, big, sizeof(big));
	CHECK(!weft_guard_lost(p->base + 199 * PG, PG) && weft_guard_lost(p->base + 200 * PG, PG) &&
	      weft_guard_lost(p->base + 201 * PG, PG));
	CHECK_EQ(get_file(scratch_path("cut"), big, PG, 199 * PG), 0);
	CHECK_EQ(big[PG - 1], 9);
	CHECK(weft_guard_probe(p->base + 299 * PG, PG));
	/* one octet before the lost pages, and the very last octet */
	CHECK(!weft_guard_lost(p->base + 5, 1) && !weft_guard_lost(p->base + 249 * PG, 1));
	CHECK(weft_guard_lost(p->base + p->bytes - 1, 1));
	/* a word boundary of the bit map, on either side */
	for (unsigned int pg = 200; pg < 300; pg++)
		CHECK_EQ(weft_guard_lost(p->base + pg * PG, PG),
		         pg == 200 || pg == 201 || pg == 250 || pg == 299);
	/* extended again, the pages stay lost: their content is gone */
	CHECK_EQ(truncate(scratch_path("cut"), 300 * PG), 0);
	CHECK(weft_guard_lost(p->base + 250 * PG, PG));
	weft_persist_close(p);
	CHECK(!weft_guard_lost(other->base, other->bytes));
	CHECK_EQ(weft_guard_remove(), 0);
	weft_persist_close(other);
}

/** A range with a lost page cannot be registered, a range without one can
 * (weft_mem_check_attr()). */
static void
test_register(void)
{
	struct weft_persist *p = medium("reg", 8);
	struct weft_mem_attr a = {.addr = p->base,
	                          .len_bytes = p->bytes,
	                          .access = WEFT_ACCESS_REMOTE_WRITE | WEFT_ACCESS_FLUSH_PERSISTENT,
	                          .persist = p};

	CHECK_EQ(weft_guard_install(), 0);
	CHECK_EQ(weft_mem_check_attr(&a), 0);
	CHECK_EQ(truncate(scratch_path("reg"), 4 * PG), 0);
	CHECK(weft_guard_probe(p->base + 5 * PG, 1));
	CHECK_EQ(weft_mem_check_attr(&a), -EIO);
	a.len_bytes = 4 * PG;
	CHECK_EQ(weft_mem_check_attr(&a), 0);
	CHECK_EQ(weft_guard_remove(), 0);
	weft_persist_close(p);
}

/** weft_mem_lost() reports the loss of a region at every call, and each loss, also of regions that
 * were whole at the call before. */
static void
test_region(void)
{
	struct weft_persist *p = medium("region", 12);
	struct weft_mem_mr mr[3];

	for (unsigned int i = 0; i < 3; i++)
		mr[i] = (struct weft_mem_mr){.addr = p->base + i * 4 * PG, .len_bytes = 4 * PG};
	CHECK_EQ(weft_guard_install(), 0);
	for (unsigned int i = 0; i < 3; i++)
		CHECK(!weft_mem_lost(&mr[i]));
	for (unsigned int lost = 2; lost > 0; lost--) { /* from the end */
		CHECK_EQ(truncate(scratch_path("region"), lost * 4 * PG + PG), 0);
		CHECK(weft_guard_probe(p->base + lost * 4 * PG, 4 * PG));
		for (unsigned int n = 0; n < 6; n++)
			CHECK_EQ(weft_mem_lost(&mr[n % 3]), n % 3 >= lost);
	}
	CHECK_EQ(weft_guard_remove(), 0);
	weft_persist_close(p);
}

/** A Flush beyond the end of the file fails, whether the caller, a helper or no access meets the
 * missing page. */
static void
test_flush(void)
{
	struct weft_persist *p = medium("flush", 64);
	struct weft_exec *e;

	CHECK_EQ(weft_guard_install(), 0);
	CHECK_EQ(weft_exec_create(1, &e), 0);
	CHECK_EQ(flush(p, e, 0, p->bytes, P), 0);
	CHECK_EQ(truncate(scratch_path("flush"), 32 * PG), 0);
	CHECK_EQ(flush(p, e, 0, 32 * PG, P), 0);
	CHECK_EQ(flush(p, e, 32 * PG, PG, P), -EIO);
	CHECK_EQ(flush(p, e, 0, p->bytes, P), -EIO);
	CHECK_EQ(truncate(scratch_path("flush"), 64 * PG), 0);
	p->base[40 * PG] = 1;
	CHECK_EQ(flush(p, e, 0, 32 * PG, P), 0);
	weft_exec_destroy(e);
	CHECK_EQ(weft_guard_remove(), 0);
	weft_persist_close(p);
}

static void
flush_done(struct weft_persist_req *req)
{
	++*(unsigned int *)req->owner;
}

/** A Flush that has begun fails, too, if the file is truncated between its jobs, or an access meets
 * a lost page. */
static void
test_under_way(void)
{
	for (unsigned int how = 0; how < 2; how++) {
		struct weft_persist *p = medium("under", 2048);
		unsigned int done = 0;
		struct weft_persist_req req = {
		        .len_bytes = p->bytes, .flags = P, .done = flush_done, .owner = &done};
		struct weft_exec *e;

		CHECK_EQ(weft_guard_install(), 0);
		CHECK_EQ(weft_exec_create(0, &e), 0);
		CHECK_EQ(p->ops->flush(p, e, &req), 0);
		CHECK_EQ(weft_exec_poll(e), 1);
		CHECK_EQ(done, 0);
		CHECK_EQ(truncate(scratch_path("under"), 32 * PG), 0);
		/* extended again; an access meets a lost page that the flush has passed */
		if (how == 1) {
			sink = p->base[40 * PG];
			CHECK_EQ(truncate(scratch_path("under"), 2048 * PG), 0);
		}
		for (unsigned int i = 0; done == 0; i++)
			CHECK(i < 64 && weft_exec_poll(e) == 1);
		CHECK_EQ(done, 1);
		CHECK_EQ(req.status, -EIO);
		weft_exec_destroy(e);
		CHECK_EQ(weft_guard_remove(), 0);
		weft_persist_close(p);
	}
}

/** A hole, and no space on the file system to fill it. */
static void
full(void *arg)
{
	const char *dir = arg;
	char path[256], filler[256];
	struct weft_persist *p;
	uint8_t page[PG] = {1};
	int fd;

	if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount("weft-test", dir, "tmpfs", 0, "size=256k") != 0)
		_exit(77);
	snprintf(path, sizeof(path), "%s/x", dir);
	snprintf(filler, sizeof(filler), "%s/y", dir);
	CHECK_EQ(try_open("pmem", path, 512 << 10, true), -ENOSPC);
	/* sparse, and longer than the space left: refused at open, not met later */
	fd = open(path, O_RDWR | O_CREAT, 0600);
	CHECK(fd >= 0 && ftruncate(fd, 512 << 10) == 0);
	close(fd);
	CHECK_EQ(try_open("pmem", path, 0, false), -ENOSPC);
	CHECK_EQ(try_open("file", path, 0, false), -ENOSPC);
	unlink(path);
	p = must_open("pmem", path, 16 * PG, true);
	fd = open(path, O_RDWR);
	CHECK_EQ(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 3 * PG, 2 * PG), 0);
	close(fd);
	fd = open(filler, O_RDWR | O_CREAT, 0600);
	while (write(fd, page, sizeof(page)) == (ssize_t)sizeof(page))
		;
	CHECK_EQ(errno, ENOSPC);
	CHECK_EQ(weft_guard_install(), 0);
	p->base[3 * PG + 1] = 5; /* SIGBUS: no block */
	CHECK_EQ(p->base[3 * PG + 1], 5);
	CHECK(weft_guard_lost(p->base, p->bytes) && !weft_guard_lost(p->base + 5 * PG, 11 * PG));
	p->base[5 * PG] = 6;
	weft_persist_close(p);
}

static void
test_full(void)
{
	const char *dir = scratch_path("full");
	int rc;

	CHECK_EQ(mkdir(dir, 0700), 0);
	rc = child(full, (void *)(uintptr_t)dir);
	rmdir(dir);
	if (rc == 77)
		test_skip("needs root: a mount namespace and a tmpfs");
	CHECK_EQ(rc, 0);
}

static void
poison(void *addr, int code, short lsb)
{
	siginfo_t si = {.si_signo = SIGBUS, .si_code = code};

	si.si_addr = addr;
	si.si_addr_lsb = lsb;
	CHECK_EQ(syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), SIGBUS, &si), 0);
}

/** Poison as the kernel reports it: as many octets as it says, within the mapping. */
static void
test_poison(void)
{
	struct weft_persist *p = medium("poison", 64);
	struct weft_guard_stats a, b;

	CHECK_EQ(weft_guard_install(), 0);
	weft_guard_stats(&a);
	poison(p->base + 5 * PG + 100, BUS_MCEERR_AR, 12);
	weft_guard_stats(&b);
	CHECK_EQ(b.pages_lost, a.pages_lost + 1);
	CHECK(weft_guard_lost(p->base + 5 * PG, PG) && !weft_guard_lost(p->base + 6 * PG, PG));
	CHECK_EQ(p->base[5 * PG], 0);
	CHECK_EQ(p->base[6 * PG], 7);
	/* a huge page that lies partly in the mapping */
	poison(p->base + 60 * PG, BUS_MCEERR_AO, 21);
	CHECK_EQ(p->base[63 * PG], 0);
	CHECK(weft_guard_lost(p->base + 63 * PG, PG));
	CHECK_EQ(weft_guard_remove(), 0);
	weft_persist_close(p);
}

/* ---- Other users of SIGBUS ---- */

struct other {
	void (*plain)(int sig);
	bool info, guard, medium, sent;
	bool poison; /**< not accessed: the kernel reports it all the same */
};

static void
leave(int sig)
{
	_exit(sig == SIGBUS ? 42 : 43);
}

static void
leave_info(int sig, siginfo_t *si, void *context)
{
	_exit(sig == SIGBUS && context != NULL && (si->si_code <= 0 || si->si_addr != NULL) ? 44
	                                                                                    : 43);
}

/** A SIGBUS in a mapping that is no driver's. */
static void
other(void *arg)
{
	const struct other *o = arg;
	struct sigaction sa = {.sa_flags = o->info ? SA_SIGINFO : 0};
	struct weft_persist *p = o->medium ? medium("mine", 4) : NULL;
	int fd = open(scratch_path("theirs"), O_RDWR | O_CREAT, 0600);
	uint8_t *map;

	if (o->info)
		sa.sa_sigaction = leave_info;
	else
		sa.sa_handler = o->plain;
	CHECK_EQ(sigaction(SIGBUS, &sa, NULL), 0);
	if (o->guard)
		CHECK_EQ(weft_guard_install(), 0);
	if (p != NULL && truncate(scratch_path("mine"), 0) == 0)
		sink = p->base[0];
	if (o->sent) {
		struct weft_guard_stats before, st;

		memset(&before, 0xff, sizeof(before));
		memset(&st, 0xff, sizeof(st));
		weft_guard_stats(&before);
		CHECK_EQ(raise(SIGBUS), 0);
		weft_guard_stats(&st); /* reached if the signal is ignored */
		CHECK(st.passed_on == before.passed_on + 1 && st.faults == before.faults);
		return;
	}
	if (o->poison) {
		poison((void *)(uintptr_t)&sink, BUS_MCEERR_AO, 12);
		return;
	}
	CHECK_EQ(ftruncate(fd, PG), 0);
	map = mmap(NULL, PG, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(map != MAP_FAILED);
	CHECK_EQ(ftruncate(fd, 0), 0);
	map[0] = 1;
	CHECK_MSG(false, "a bug went unnoticed");
}

static void
test_others(void)
{
	static const struct {
		struct other o;
		int end;
	} t[] = {
	        {{SIG_DFL, .guard = true}, -SIGBUS},
	        {{SIG_DFL, .guard = true, .medium = true}, -SIGBUS},
	        {{SIG_IGN, .guard = true}, -SIGBUS}, /* as the kernel does for a fault */
	        {{leave, .guard = true}, 42},
	        {{.info = true, .guard = true}, 44},
	        {{SIG_DFL, .guard = true, .sent = true}, -SIGBUS},
	        {{SIG_IGN, .guard = true, .sent = true}, 0},
	        {{leave, .guard = true, .sent = true}, 42},
	        {{.info = true, .guard = true, .sent = true}, 44},
	        {{SIG_DFL, .guard = true, .poison = true}, -SIGBUS},
	        {{SIG_IGN, .guard = true, .poison = true}, 0},
	        {{leave, .guard = true, .poison = true}, 42},
	        /* without the guard weft handles no signal */
	        {{SIG_DFL, .medium = true}, -SIGBUS},
	        {{leave, .medium = true}, 42},
	};

	for (unsigned int i = 0; i < RTE_DIM(t); i++) {
		struct other o = t[i].o;

		CHECK_MSG(child(other, &o) == t[i].end, "row %u", i);
	}
}

static volatile sig_atomic_t came;

static void
count(int sig)
{
	came += sig == SIGBUS;
}

static void
test_install(void)
{
	struct sigaction before, now, mine = {.sa_handler = leave}, counts = {.sa_handler = count},
	                              dfl = {.sa_handler = SIG_DFL};
	struct weft_guard_stats s, then;

	CHECK_EQ(sigaction(SIGBUS, &counts, NULL), 0);
	CHECK_EQ(sigaction(SIGBUS, NULL, &before), 0);
	CHECK_EQ(weft_guard_remove(), -ENOENT);
	CHECK_EQ(weft_guard_install(), 0);
	CHECK_EQ(weft_guard_install(), -EALREADY);
	/* A signal of another cause goes to the handler that was installed before, and is
	 * counted. */
	memset(&s, 0xff, sizeof(s));
	memset(&then, 0xff, sizeof(then));
	weft_guard_stats(&s);
	came = 0;
	CHECK_EQ(raise(SIGBUS), 0);
	CHECK_EQ(came, 1);
	weft_guard_stats(&then);
	CHECK_EQ(then.passed_on, s.passed_on + 1);
	CHECK_EQ(then.faults, s.faults);
	CHECK_EQ(sigaction(SIGBUS, &mine, &now), 0);
	CHECK_EQ(weft_guard_remove(), -EBUSY);
	CHECK_EQ(sigaction(SIGBUS, &now, NULL), 0);
	CHECK_EQ(weft_guard_remove(), 0);
	CHECK_EQ(sigaction(SIGBUS, NULL, &now), 0);
	CHECK(now.sa_sigaction == before.sa_sigaction && now.sa_flags == before.sa_flags);
	weft_guard_stats(&s);
	CHECK(!s.installed);
	CHECK_EQ(sigaction(SIGBUS, &dfl, NULL), 0);
}

/* ---- Many threads ---- */

#define THREADS 4
#define ROUNDS  60

static struct weft_persist *shared;
static bool over; /* atomic */

/** Access lost pages and query the guard, while other media open and close. */
static void *
toucher(void *arg)
{
	uint64_t x = (uint64_t)(uintptr_t)arg * 0x9e3779b97f4a7c15ull | 1;

	while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE)) {
		uint8_t *at;

		x ^= x << 13, x ^= x >> 7, x ^= x << 17;
		at = shared->base + x % shared->bytes;
		*(volatile uint8_t *)at = 1;
		CHECK(weft_guard_lost(at, 1));
		if (x % 64 == 0)
			usleep(50);
	}
	return NULL;
}

static void
test_threads(void)
{
	pthread_t th[THREADS];
	struct weft_guard_stats a, b;

	shared = medium("shared", 4096);
	CHECK_EQ(weft_guard_install(), 0);
	weft_guard_stats(&a);
	CHECK_EQ(truncate(scratch_path("shared"), 0), 0);
	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_create(&th[i], NULL, toucher, (void *)(test_seed(1) + i)), 0);
	for (unsigned int i = 0; i < ROUNDS; i++) {
		struct weft_persist *p = medium("brief", 16);

		CHECK_EQ(truncate(scratch_path("brief"), 8 * PG), 0);
		CHECK(weft_guard_probe(p->base, p->bytes));
		weft_persist_close(p);
	}
	__atomic_store_n(&over, true, __ATOMIC_RELEASE);
	for (unsigned int i = 0; i < THREADS; i++)
		pthread_join(th[i], NULL);
	weft_guard_stats(&b);
	test_note("%llu faults by %u threads", (unsigned long long)(b.faults - a.faults), THREADS);
	CHECK(b.faults - a.faults > ROUNDS * 8 && b.passed_on == a.passed_on && b.unreplaced == 0);
	CHECK_EQ(weft_guard_remove(), 0);
	weft_persist_close(shared);
}

int
main(int argc, char **argv)
{
	static const struct weft_test_case cases[] = {
	        {"cut", test_cut},         {"register", test_register},   {"region", test_region},
	        {"flush", test_flush},     {"under way", test_under_way}, {"full", test_full},
	        {"poison", test_poison},   {"others", test_others},       {"install", test_install},
	        {"threads", test_threads},
	};

	scratch(NULL);
	/* These tests need a mapping of the file, on any file system, as on DAX. */
	return test_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
