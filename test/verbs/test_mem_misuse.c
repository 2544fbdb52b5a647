/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Misuse of media, executors, hashes and the guard. */

#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "misuse.h"
#include <weft/guard.h>
#include <weft/hash.h>
#include <weft/persist.h>

#define BYTES 65536

static void *untouched = &untouched;
#define OUT(type) ((struct type **)(void *)&untouched)

static const struct weft_persist_attr volatile_attr = {
        .size = sizeof(volatile_attr), .driver = "volatile", .bytes = BYTES, .numa_node = -1};

static struct weft_persist *
medium(void)
{
	struct weft_persist *p;

	CHECK_EQ(weft_persist_open(&volatile_attr, &p), 0);
	return p;
}

static struct weft_exec *
executor(unsigned int threads)
{
	struct weft_exec *e;

	CHECK_EQ(weft_exec_create(threads, &e), 0);
	return e;
}

/** A case with a medium and an executor beside the other handles. */
#define MISUSE_MEM(call)                                                                           \
	static void mem_##call(struct misuse *m, struct weft_persist *p, struct weft_exec *e);     \
	MISUSE(call)                                                                               \
	{                                                                                          \
		struct weft_persist *p = medium();                                                 \
		struct weft_exec *e = executor(1);                                                 \
		m->dead[MISUSE_MEDIUM] = medium();                                                 \
		m->dead[MISUSE_EXEC] = executor(1);                                                \
		weft_persist_close(m->dead[MISUSE_MEDIUM]);                                        \
		weft_exec_destroy(m->dead[MISUSE_EXEC]);                                           \
		m->live[MISUSE_MEDIUM] = p;                                                        \
		m->live[MISUSE_EXEC] = e;                                                          \
		mem_##call(m, p, e);                                                               \
		weft_persist_close(p);                                                             \
		weft_persist_close(p);                                                             \
		weft_exec_destroy(e);                                                              \
		weft_exec_destroy(e);                                                              \
	}                                                                                          \
	static void mem_##call(struct misuse *m, struct weft_persist *p __rte_unused,              \
	                       struct weft_exec *e __rte_unused)

/* ---- Media ---- */

static void
test_weft_persist_option(void)
{
	struct weft_persist_attr pa = {.size = sizeof(pa)};

	CHECK_STR(weft_persist_option(NULL), "");
	CHECK_STR(weft_persist_option(&pa), "");
}

MISUSE(weft_persist_open)
{
	struct weft_persist_attr pa = volatile_attr;

	(void)m;
	CHECK_EQ(weft_persist_open(NULL, OUT(weft_persist)), -EINVAL);
	CHECK_EQ(weft_persist_open(&pa, NULL), -EINVAL);
	BAD_ATTR(weft_persist_attr, pa, weft_persist_open(a, OUT(weft_persist)));
	pa.driver = NULL;
	CHECK_EQ(weft_persist_open(&pa, OUT(weft_persist)), -EINVAL);
	pa.driver = "";
	CHECK_EQ(weft_persist_open(&pa, OUT(weft_persist)), -ENODEV);
	pa.driver = "file"; /* without a path */
	CHECK_EQ(weft_persist_open(&pa, OUT(weft_persist)), -EINVAL);
}

/** A later version has more members. While they are zero they have no effect. */
static void
test_weft_persist_open_longer(void)
{
	struct {
		struct weft_persist_attr a;
		uint64_t more;
	} pa = {.a = volatile_attr};
	struct weft_persist *p;

	pa.a.size = sizeof(pa);
	CHECK_EQ(weft_persist_open(&pa.a, &p), 0);
	CHECK_EQ(p->bytes, BYTES);
	weft_persist_close(p);
}

MISUSE_MEM(weft_persist_check)
{
	struct weft_persist *h;

	EACH_BAD(m, h, MEDIUM)
	CHECK_EQ(weft_persist_check(h), -EINVAL);
	CHECK_EQ(weft_persist_check(p), 0);
}

MISUSE_MEM(weft_persist_close)
{
	struct weft_mr_attr ra = {.size = sizeof(ra), .addr = p->base, .len_bytes = 8};
	struct weft_persist *h;
	struct weft_mr *mr;

	EACH_BAD(m, h, MEDIUM)
	weft_persist_close(h);
	/* A closed medium is refused at registration. */
	EACH_BAD(m, ra.persist, MEDIUM)
	if (ra.persist != NULL)
		CHECK_EQ(weft_mr_reg(m->pd, &ra, OUT(weft_mr)), -EINVAL);
	ra.persist = p;
	CHECK_EQ(weft_mr_reg(m->pd, &ra, &mr), 0);
	CHECK_EQ(weft_mr_dereg(mr, NULL, NULL), 0);
	vt_run(&m->t, VT_S);
}

MISUSE_MEM(weft_persist_mark)
{
	/* It checks nothing. A closed medium, and one without marks, have no pages to mark. */
	weft_persist_mark(m->dead[MISUSE_MEDIUM], 0, BYTES);
	weft_persist_mark(p, 0, BYTES);
	weft_persist_mark(p, BYTES, 0);
}

MISUSE_MEM(weft_persist_flush_wait)
{
	struct weft_persist *h;

	EACH_BAD(m, h, MEDIUM)
	CHECK_EQ(weft_persist_flush_wait(h, 0, 8), -EINVAL);
	CHECK_EQ(weft_persist_flush_wait(p, BYTES, 1), -EINVAL);
	CHECK_EQ(weft_persist_flush_wait(p, 1, UINT64_MAX), -EINVAL);
	CHECK_EQ(weft_persist_flush_wait(p, UINT64_MAX, 1), -EINVAL);
}

/** Run fn in a child process. Returns whether the child aborted. */
static bool
aborts(void (*fn)(void))
{
	static const struct rlimit none = {0, 0};
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		(void)setrlimit(RLIMIT_CORE, &none);
		(void)!freopen("/dev/null", "w", stderr);
		fn();
		_exit(0);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static const struct weft_persist_ops no_medium = {.name = "none"};
static const struct weft_hash_ops no_hash = {.name = "none"};

static void
test_weft_persist_register(void)
{
	CHECK_EQ(weft_persist_register(NULL), -EINVAL);
	CHECK_EQ(weft_persist_register(&no_medium), -EINVAL);
	CHECK_EQ(weft_persist_register(weft_persist_find("file")), -EEXIST);
}

static void
persist_die_null(void)
{
	weft_persist_register_or_die(NULL);
}

static void
persist_die_empty(void)
{
	weft_persist_register_or_die(&no_medium);
}

static void
test_weft_persist_register_or_die(void)
{
	CHECK(aborts(persist_die_null));
	CHECK(aborts(persist_die_empty));
}

static void
test_weft_persist_find(void)
{
	CHECK(weft_persist_find(NULL) == NULL);
	CHECK(weft_persist_find("") == NULL);
	CHECK(weft_persist_find("file:pwrite") == NULL); /* not a name alone */
}

static void
test_weft_persist_get(void)
{
	CHECK(weft_persist_get(UINT32_MAX) == NULL);
}

/* ---- Executors ---- */

static void
test_weft_exec_create(void)
{
	CHECK_EQ(weft_exec_create(0, NULL), -EINVAL);
	CHECK_EQ(weft_exec_create(65, OUT(weft_exec)), -EINVAL);
	CHECK_EQ(weft_exec_create(UINT32_MAX, OUT(weft_exec)), -EINVAL);
}

static void
test_weft_exec_create_on_demand(void)
{
	CHECK_EQ(weft_exec_create_on_demand(1, NULL), -EINVAL);
	CHECK_EQ(weft_exec_create_on_demand(0, OUT(weft_exec)), -EINVAL);
	CHECK_EQ(weft_exec_create_on_demand(65, OUT(weft_exec)), -EINVAL);
}

static struct weft_exec *inside;
static unsigned int told;

static void
job_run(struct weft_job *j)
{
	(void)j;
}

/** Destroys the executor that runs this completion, and submits another job to it. */
static void
job_done(struct weft_job *j)
{
	told++;
	weft_exec_destroy(inside);
	CHECK_EQ(weft_exec_submit(inside, j), -EAGAIN);
}

MISUSE_MEM(weft_exec_destroy)
{
	struct weft_job j = {.run = job_run, .done = job_done};
	struct weft_exec *h;
	struct pollfd pfd;

	EACH_BAD(m, h, EXEC)
	weft_exec_destroy(h);
	told = 0;
	inside = executor(1);
	CHECK_EQ(weft_exec_submit(inside, &j), 0);
	pfd = (struct pollfd){.fd = weft_exec_fd(inside), .events = POLLIN};
	CHECK_EQ(poll(&pfd, 1, 5000), 1);
	weft_exec_destroy(inside);
	CHECK_EQ(told, 1);
}

MISUSE_MEM(weft_exec_submit)
{
	struct weft_job j = {.run = job_run, .done = job_done};
	struct weft_exec *h;

	EACH_BAD(m, h, EXEC)
	{
		if (k_ == 3 || k_ == 2)
			continue; /* promised only for NULL and a destroyed handle */
		CHECK_EQ(weft_exec_submit(h, &j), -EINVAL);
	}
	CHECK_EQ(weft_exec_submit(e, NULL), -EINVAL);
	CHECK_EQ(weft_exec_pending(e), 0);
}

MISUSE_MEM(weft_exec_poll)
{
	struct weft_exec *h, *bare = executor(0);

	EACH_BAD(m, h, EXEC)
	{
		if (k_ == 3 || k_ == 2)
			continue; /* promised only for NULL and a destroyed handle */
		CHECK_EQ(weft_exec_poll(h), 0);
	}
	weft_exec_destroy(bare);
	CHECK_EQ(weft_exec_poll(bare), 0);
}

MISUSE_MEM(weft_exec_pending)
{
	struct weft_exec *h;

	EACH_BAD(m, h, EXEC)
	CHECK_EQ(weft_exec_pending(h), 0);
}

MISUSE_MEM(weft_exec_fd)
{
	struct weft_exec *h;

	EACH_BAD(m, h, EXEC)
	CHECK_EQ(weft_exec_fd(h), -1);
	CHECK(weft_exec_fd(e) >= 0);
}

/* ---- Hashes ---- */

static void
test_weft_hash_register(void)
{
	CHECK_EQ(weft_hash_register(NULL), -EINVAL);
	CHECK_EQ(weft_hash_register(&no_hash), -EINVAL);
	CHECK_EQ(weft_hash_register(weft_hash_find("crc32c")), -EEXIST);
}

static void
hash_die_null(void)
{
	weft_hash_register_or_die(NULL);
}

static void
hash_die_empty(void)
{
	weft_hash_register_or_die(&no_hash);
}

static void
test_weft_hash_register_or_die(void)
{
	CHECK(aborts(hash_die_null));
	CHECK(aborts(hash_die_empty));
}

static void
test_weft_hash_find(void)
{
	CHECK(weft_hash_find(NULL) == NULL);
	CHECK(weft_hash_find("") == NULL);
}

static void
test_weft_hash_get(void)
{
	CHECK(weft_hash_get(UINT32_MAX) == NULL);
}

static void
test_weft_hash_check_key(void)
{
	const struct weft_hash_ops *keyed = weft_hash_find("hmac-sha256");

	CHECK_EQ(weft_hash_check_key(NULL, NULL, 0), -EINVAL);
	CHECK_EQ(weft_hash_check_key(NULL, "k", 1), -EINVAL);
	CHECK_EQ(weft_hash_check_key(keyed, NULL, 0), -EINVAL);
	CHECK_EQ(weft_hash_check_key(keyed, NULL, 1), -EINVAL);
	CHECK_EQ(weft_hash_check_key(keyed, "k", SIZE_MAX), -EINVAL);
}

static void
test_weft_hash_once(void)
{
	const struct weft_hash_ops *crc = weft_hash_find("crc32c");
	uint8_t result[WEFT_HASH_MAX_BYTES];

	CHECK_EQ(weft_hash_once(NULL, "a", 1, result), -EINVAL);
	CHECK_EQ(weft_hash_once(crc, NULL, 1, result), -EINVAL);
	CHECK_EQ(weft_hash_once(crc, "a", 1, NULL), -EINVAL);
	CHECK_EQ(weft_hash_once(crc, NULL, 0, result), 0);
	CHECK_EQ(weft_hash_once(weft_hash_find("hmac-sha256"), "a", 1, result), -EINVAL);
}

static void
test_weft_hash_once_keyed(void)
{
	const struct weft_hash_ops *keyed = weft_hash_find("hmac-sha256");
	uint8_t result[WEFT_HASH_MAX_BYTES];

	CHECK_EQ(weft_hash_once_keyed(NULL, "k", 1, "a", 1, result), -EINVAL);
	CHECK_EQ(weft_hash_once_keyed(keyed, NULL, 1, "a", 1, result), -EINVAL);
	CHECK_EQ(weft_hash_once_keyed(keyed, "k", 0, "a", 1, result), -EINVAL);
	CHECK_EQ(weft_hash_once_keyed(keyed, "k", 1, NULL, 1, result), -EINVAL);
	CHECK_EQ(weft_hash_once_keyed(keyed, "k", 1, "a", 1, NULL), -EINVAL);
	CHECK_EQ(weft_hash_once_keyed(keyed, "k", 1, "a", 1, result), 0);
}

/* ---- The guard ---- */

static void
test_weft_guard_install(void)
{
	CHECK_EQ(weft_guard_install(), 0);
	CHECK_EQ(weft_guard_install(), -EALREADY);
	CHECK_EQ(weft_guard_remove(), 0);
}

static void
test_weft_guard_remove(void)
{
	struct sigaction other = {.sa_handler = SIG_IGN}, ours;

	CHECK_EQ(weft_guard_remove(), -ENOENT);
	CHECK_EQ(weft_guard_install(), 0);
	CHECK_EQ(sigaction(SIGBUS, &other, &ours), 0);
	CHECK_EQ(weft_guard_remove(), -EBUSY);
	CHECK_EQ(sigaction(SIGBUS, &ours, NULL), 0);
	CHECK_EQ(weft_guard_remove(), 0);
	CHECK_EQ(weft_guard_remove(), -ENOENT);
}

static void
test_weft_guard_lost(void)
{
	uint8_t octet = 0;

	CHECK(!weft_guard_lost(NULL, 0));
	CHECK(!weft_guard_lost(NULL, UINT64_MAX));
	CHECK(!weft_guard_lost(&octet, UINT64_MAX));
}

static void
test_weft_guard_probe(void)
{
	uint8_t octet = 0;

	CHECK(!weft_guard_probe(NULL, 0));
	CHECK(!weft_guard_probe(NULL, 1));
	CHECK(!weft_guard_probe(&octet, UINT64_MAX));
	CHECK(!weft_guard_probe(&octet, 1));
}

static void
test_weft_guard_stats(void)
{
	weft_guard_stats(NULL);
}

#define CASE(call)                                                                                 \
	{                                                                                          \
#call, test_##call                                                                 \
	}

WEFT_TEST_MAIN(CASE(weft_persist_option), CASE(weft_persist_open),
               {"longer attributes", test_weft_persist_open_longer}, CASE(weft_persist_check),
               CASE(weft_persist_close), CASE(weft_persist_mark), CASE(weft_persist_flush_wait),
               CASE(weft_persist_register), CASE(weft_persist_register_or_die),
               CASE(weft_persist_find), CASE(weft_persist_get), CASE(weft_exec_create),
               CASE(weft_exec_create_on_demand), CASE(weft_exec_destroy), CASE(weft_exec_submit),
               CASE(weft_exec_poll), CASE(weft_exec_pending), CASE(weft_exec_fd),
               CASE(weft_hash_register), CASE(weft_hash_register_or_die), CASE(weft_hash_find),
               CASE(weft_hash_get), CASE(weft_hash_check_key), CASE(weft_hash_once),
               CASE(weft_hash_once_keyed), CASE(weft_guard_install), CASE(weft_guard_remove),
               CASE(weft_guard_lost), CASE(weft_guard_probe), CASE(weft_guard_stats))
