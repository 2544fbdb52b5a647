/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The executor: order, limits, descriptor, destruction, with threads and without. */

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rte_common.h>

#include "alloc_fails.h"
#include "weft_handle.h"
#include <weft/persist.h>
#include "weft_test.h"

#define LIMIT 1024 /* jobs of one executor, as its header promises */

struct job {
	struct weft_job j;
	unsigned int id;
	unsigned int ran, told;  /**< numbers in the orders of run and done, from 1 */
	struct weft_exec *again; /**< done() submits the job there once more */
	pthread_t where;
};

static unsigned int ran, told;
static sem_t gate;
static unsigned int at_gate; /**< atomic: jobs that have reached the gate */

static int
never_flush(struct weft_persist *p, struct weft_exec *e, struct weft_persist_req *req)
{
	(void)p;
	(void)e;
	(void)req;
	CHECK(false);
	return 0;
}

static void
job_run(struct weft_job *j)
{
	struct job *k = (struct job *)j;

	k->ran = __atomic_add_fetch(&ran, 1, __ATOMIC_SEQ_CST);
	k->where = pthread_self();
}

static void
job_run_gated(struct weft_job *j)
{
	__atomic_fetch_add(&at_gate, 1, __ATOMIC_RELEASE);
	while (sem_wait(&gate) != 0)
		;
	job_run(j);
}

static void
job_done(struct weft_job *j)
{
	struct job *k = (struct job *)j;
	struct weft_exec *e = k->again;

	k->told = ++told;
	k->again = NULL;
	if (e != NULL)
		weft_exec_submit(e, j);
}

static void
jobs_init(struct job *jobs, unsigned int n, void (*run)(struct weft_job *))
{
	memset(jobs, 0, n * sizeof(*jobs));
	for (unsigned int i = 0; i < n; i++) {
		jobs[i].j.run = run;
		jobs[i].j.done = job_done;
		jobs[i].id = i;
	}
	ran = told = 0;
}

static bool
readable(int fd, int timeout_ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, timeout_ms) == 1;
}

static void
test_no_threads(void)
{
	static struct job jobs[LIMIT + 1];
	struct weft_exec *e;

	CHECK_EQ(weft_exec_create(0, &e), 0);
	CHECK_EQ(weft_exec_fd(e), -1);
	CHECK_EQ(weft_exec_poll(e), 0);
	jobs_init(jobs, LIMIT + 1, job_run);
	for (unsigned int i = 0; i < LIMIT; i++)
		CHECK_EQ(weft_exec_submit(e, &jobs[i].j), 0);
	CHECK_EQ(weft_exec_submit(e, &jobs[LIMIT].j), -EAGAIN);
	CHECK_EQ(weft_exec_pending(e), LIMIT);
	CHECK_EQ(ran, 0); /* jobs run only in poll */
	for (unsigned int i = 0; i < LIMIT; i++) {
		CHECK_EQ(weft_exec_poll(e), 1);
		CHECK_EQ(jobs[i].ran, i + 1);
		CHECK_EQ(jobs[i].told, i + 1);
		CHECK_EQ(weft_exec_pending(e), LIMIT - 1 - i);
	}
	CHECK_EQ(weft_exec_submit(e, &jobs[LIMIT].j), 0);
	weft_exec_destroy(e); /* jobs that have not begun are dropped */
	CHECK_EQ(jobs[LIMIT].ran + jobs[LIMIT].told, 0);
	weft_exec_destroy(NULL);
}

static void
test_one_thread(void)
{
	static struct job jobs[500];
	struct weft_exec *e;

	CHECK_EQ(weft_exec_create(1, &e), 0);
	CHECK(weft_exec_fd(e) >= 0);
	CHECK(!readable(weft_exec_fd(e), 0));
	jobs_init(jobs, RTE_DIM(jobs), job_run);
	for (unsigned int i = 0; i < RTE_DIM(jobs); i++)
		CHECK_EQ(weft_exec_submit(e, &jobs[i].j), 0);
	while (weft_exec_pending(e) > 0) {
		CHECK_MSG(readable(weft_exec_fd(e), 2000), "%u jobs left, no wake-up",
		          weft_exec_pending(e));
		weft_exec_poll(e);
	}
	for (unsigned int i = 0; i < RTE_DIM(jobs); i++) {
		CHECK_EQ(jobs[i].ran, i + 1);
		CHECK_EQ(jobs[i].told, i + 1);
		CHECK(!pthread_equal(jobs[i].where, pthread_self()));
	}
	/* When all jobs are done the descriptor stays unreadable. */
	for (int i = 0; i < 100 && readable(weft_exec_fd(e), 0); i++) {
		weft_exec_poll(e);
		usleep(1000);
	}
	CHECK(!readable(weft_exec_fd(e), 20));
	CHECK_EQ(weft_exec_poll(e), 0);
	weft_exec_destroy(e);
}

/** Sleep on the descriptor for each job. A lost wake-up would be a timeout. */
static void
test_wakeups(void)
{
	struct job job;
	struct weft_exec *e;

	CHECK_EQ(weft_exec_create(2, &e), 0);
	for (unsigned int i = 0; i < 3000; i++) {
		jobs_init(&job, 1, job_run);
		CHECK_EQ(weft_exec_submit(e, &job.j), 0);
		while (job.told == 0) {
			CHECK_MSG(readable(weft_exec_fd(e), 2000), "round %u: no wake-up", i);
			weft_exec_poll(e);
		}
	}
	weft_exec_destroy(e);
}

static void *
hog(void *stop)
{
	while (!__atomic_load_n((bool *)stop, __ATOMIC_RELAXED))
		;
	return NULL;
}

/**
 * A helper loses its CPU between handing over a job and writing the descriptor. That may cost the
 * worker one wake-up without a job, but not a busy wait until the helper gets a CPU again.
 */
static void
test_quiet(void)
{
	static struct job jobs[2];
	bool stop = false;
	struct weft_exec *e;
	pthread_t th[4];

	sem_init(&gate, 0, 0);
	for (unsigned int i = 0; i < RTE_DIM(th); i++)
		CHECK_EQ(pthread_create(&th[i], NULL, hog, &stop), 0);
	CHECK_EQ(weft_exec_create(2, &e), 0);
	for (unsigned int round = 0; round < 100; round++) {
		unsigned int idle = 0, slept = 0;

		jobs_init(&jobs[0], 1, job_run);
		CHECK_EQ(weft_exec_submit(e, &jobs[0].j), 0);
		/* The write wakes this thread, which may take the helper's CPU. */
		while (jobs[0].told == 0) {
			CHECK(readable(weft_exec_fd(e), 5000));
			weft_exec_poll(e);
		}
		jobs_init(&jobs[1], 1, job_run_gated);
		CHECK_EQ(weft_exec_submit(e, &jobs[1].j), 0);
		/* No job completes before the gate opens. */
		while (slept < 2) {
			if (!readable(weft_exec_fd(e), 2)) {
				slept++;
				continue;
			}
			CHECK_EQ(weft_exec_poll(e), 0);
			idle++;
			CHECK_MSG(idle <= 1, "round %u: woken again and again for nothing", round);
		}
		sem_post(&gate);
		while (jobs[1].told == 0) {
			CHECK(readable(weft_exec_fd(e), 5000));
			weft_exec_poll(e);
		}
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	for (unsigned int i = 0; i < RTE_DIM(th); i++)
		pthread_join(th[i], NULL);
	weft_exec_destroy(e);
	sem_destroy(&gate);
}

static void
test_many_threads(void)
{
	static struct job jobs[LIMIT];
	struct weft_exec *e;
	unsigned int n = 0;

	CHECK_EQ(weft_exec_create(65, &e), -EINVAL);
	CHECK_EQ(weft_exec_create(4, &e), 0);
	jobs_init(jobs, LIMIT, job_run);
	for (unsigned int i = 0; i < LIMIT; i++) {
		jobs[i].again = e; /* each runs twice */
		CHECK_EQ(weft_exec_submit(e, &jobs[i].j), 0);
	}
	while (weft_exec_pending(e) > 0) {
		CHECK(readable(weft_exec_fd(e), 2000));
		n += weft_exec_poll(e);
	}
	CHECK_EQ(n, 2 * LIMIT);
	CHECK_EQ(ran, 2 * LIMIT);
	CHECK_EQ(told, 2 * LIMIT);
	weft_exec_destroy(e);
}

static void *
open_gate_soon(void *arg)
{
	usleep(20000);
	for (int i = 0; i < 8; i++)
		sem_post(&gate);
	return arg;
}

static void
test_destroy(void)
{
	static struct job jobs[8];
	struct weft_exec *e;
	pthread_t th;

	sem_init(&gate, 0, 0);
	at_gate = 0;
	CHECK_EQ(weft_exec_create(1, &e), 0);
	jobs_init(jobs, RTE_DIM(jobs), job_run_gated);
	for (unsigned int i = 0; i < RTE_DIM(jobs); i++)
		CHECK_EQ(weft_exec_submit(e, &jobs[i].j), 0);
	/* the first job is inside run() then */
	while (__atomic_load_n(&at_gate, __ATOMIC_ACQUIRE) == 0)
		usleep(100);
	jobs[0].again = e; /* too late: no jobs are accepted any more */
	CHECK_EQ(pthread_create(&th, NULL, open_gate_soon, NULL), 0);
	weft_exec_destroy(e);
	pthread_join(th, NULL);
	CHECK_EQ(jobs[0].ran, 1);
	CHECK_EQ(jobs[0].told, 1);
	for (unsigned int i = 1; i < RTE_DIM(jobs); i++)
		CHECK_EQ(jobs[i].told, 0);
	sem_destroy(&gate);
}

static unsigned int
open_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned int n = 0;

	CHECK(d != NULL);
	while (readdir(d) != NULL)
		n++;
	closedir(d);
	return n;
}

/** An executor releases its resources: its descriptors, and memory if an allocation fails. */
static void
test_gives_back(void)
{
	static const struct weft_persist_ops ops = {.name = "none", .flush = never_flush};
	struct weft_persist p = {.ops = &ops};
	unsigned int before = open_fds();
	struct weft_exec *e;

	weft_handle_init(WEFT_HANDLE_OF(&p), WEFT_KIND(MEDIUM));
	for (unsigned int i = 0; i < 20; i++) {
		CHECK_EQ(weft_exec_create(i % 3, &e), 0);
		CHECK_EQ(weft_exec_fd(e) >= 0, i % 3 > 0);
		weft_exec_destroy(e);
	}
	CHECK_EQ(open_fds(), before);
	for (unsigned int n = 1; n <= 2; n++) {
		in_use = 0;
		fail_at = n;
		CHECK_EQ(weft_exec_create(1, &e), -ENOMEM);
		CHECK_EQ(in_use, 0);
		/* A driver gets no flush for an executor that could not be created. */
		fail_at = n;
		CHECK_EQ(weft_persist_flush_wait(&p, 0, 1), -ENOMEM);
		CHECK_EQ(in_use, 0);
	}
	CHECK_EQ(fail_at, 0);
	CHECK_EQ(open_fds(), before);
	/* No descriptor is left: the executor cannot be created. */
	struct rlimit most, none;

	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &most), 0);
	none = most;
	none.rlim_cur = 0;
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
	in_use = 0;
	e = NULL;
	int rc = weft_exec_create(1, &e);
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &most), 0);
	CHECK_EQ(rc, -EAGAIN);
	CHECK_EQ(in_use, 0);
	CHECK(e == NULL);
}

/** Threads of this process. */
static unsigned int
threads(void)
{
	DIR *d = opendir("/proc/self/task");
	unsigned int n = 0;

	CHECK(d != NULL);
	while (readdir(d) != NULL)
		n++;
	closedir(d);
	return n - 2;
}

/** Poll until a job is told. */
static void
until_told(struct weft_exec *e, const struct job *k)
{
	while (__atomic_load_n(&k->told, __ATOMIC_RELAXED) == 0) {
		CHECK(readable(weft_exec_fd(e), 5000));
		weft_exec_poll(e);
	}
}

/** Thousands of executors without jobs have no threads; one with jobs has as many as it may, and
 * none some seconds later. A job that hangs does not hold up those of others, nor the next one of
 * its own. */
static void
test_on_demand(void)
{
	enum { EXECS = 500 };
	static struct weft_exec *e[EXECS];
	static struct job jobs[8], other;
	unsigned int before, most = 0;

	CHECK_EQ(weft_exec_create_on_demand(1, &e[0]), 0);
	weft_exec_destroy(e[0]);
	before = threads(); /* with the one that begins others */
	for (unsigned int i = 0; i < EXECS; i++)
		CHECK_EQ(weft_exec_create_on_demand(2, &e[i]), 0);
	CHECK_EQ(threads(), before);
	sem_init(&gate, 0, 0);
	at_gate = 0;
	jobs_init(jobs, RTE_DIM(jobs), job_run_gated);
	for (unsigned int i = 0; i < RTE_DIM(jobs); i++)
		CHECK_EQ(weft_exec_submit(e[3], &jobs[i].j), 0);
	while (__atomic_load_n(&at_gate, __ATOMIC_ACQUIRE) < 2)
		usleep(100);
	jobs_init(&other, 1, job_run);
	CHECK_EQ(weft_exec_submit(e[4], &other.j), 0);
	until_told(e[4], &other);
	CHECK_EQ(__atomic_load_n(&at_gate, __ATOMIC_ACQUIRE), 2);
	CHECK(threads() <= before + 3);
	for (unsigned int i = 0; i < RTE_DIM(jobs); i++)
		sem_post(&gate);
	until_told(e[3], &jobs[RTE_DIM(jobs) - 1]);
	while (weft_exec_pending(e[3]) > 0)
		weft_exec_poll(e[3]);
	while (threads() > before)
		usleep(10000);
	/* And again. */
	for (unsigned int i = 0; i < EXECS; i += 50) {
		jobs_init(&other, 1, job_run);
		CHECK_EQ(weft_exec_submit(e[i], &other.j), 0);
		until_told(e[i], &other);
		most = RTE_MAX(most, threads());
	}
	CHECK(most > before && most <= before + EXECS / 50);
	for (unsigned int i = 0; i < EXECS; i++)
		weft_exec_destroy(e[i]);
	/* They have let go of it, and end. */
	while (threads() > before)
		usleep(100);
	sem_destroy(&gate);
}

/** No job is lost and none runs twice, while threads begin and end, and executors are destroyed
 * with jobs under way. */
static void
test_on_demand_churn(void)
{
	static struct job jobs[64];
	struct weft_exec *e;

	for (unsigned int round = 0; round < 300; round++) {
		const unsigned int n = 1 + round % RTE_DIM(jobs);

		CHECK_EQ(weft_exec_create_on_demand(1 + round % 3, &e), 0);
		jobs_init(jobs, RTE_DIM(jobs), job_run);
		for (unsigned int i = 0; i < n; i++) {
			jobs[i].again = i % 2 == 0 ? e : NULL;
			CHECK_EQ(weft_exec_submit(e, &jobs[i].j), 0);
			if (i % 5 == round % 5)
				weft_exec_poll(e);
		}
		if (round % 4 != 0) {
			while (weft_exec_pending(e) > 0) {
				CHECK(readable(weft_exec_fd(e), 5000));
				weft_exec_poll(e);
			}
			CHECK_EQ(ran, n + (n + 1) / 2);
			CHECK_EQ(told, ran);
		}
		weft_exec_destroy(e);
	}
}

/** Where no thread can be had, jobs are run all the same, in their order. */
static void
test_on_demand_none(void)
{
	static struct job jobs[20];
	struct rlimit most, none;
	struct weft_exec *e;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	test_skip("a sanitizer ends a program whose address space is limited");
#endif
	CHECK_EQ(weft_exec_create_on_demand(2, &e), 0);
	CHECK_EQ(getrlimit(RLIMIT_AS, &most), 0);
	none = most;
	none.rlim_cur = 1 << 20; /* no stack for another thread */
	jobs_init(jobs, RTE_DIM(jobs), job_run);
	CHECK_EQ(setrlimit(RLIMIT_AS, &none), 0);
	for (unsigned int i = 0; i < RTE_DIM(jobs); i++)
		CHECK_EQ(weft_exec_submit(e, &jobs[i].j), 0);
	until_told(e, &jobs[RTE_DIM(jobs) - 1]);
	CHECK_EQ(setrlimit(RLIMIT_AS, &most), 0);
	while (weft_exec_pending(e) > 0)
		weft_exec_poll(e);
	CHECK_EQ(ran, RTE_DIM(jobs));
	for (unsigned int i = 0; i < RTE_DIM(jobs); i++) {
		CHECK_EQ(jobs[i].ran, i + 1);
		CHECK(pthread_equal(jobs[i].where, jobs[0].where));
	}
	weft_exec_destroy(e);
}

/** A child has none of its parent's threads: an executor of its own works, and one of its parent's
 * can be destroyed. */
static void
test_on_demand_fork(void)
{
	static struct job mine, theirs;
	struct weft_exec *e, *other;
	int status;
	pid_t pid;

#ifdef __SANITIZE_THREAD__
	test_skip("ThreadSanitizer allows no thread in a child of a process with threads");
#endif
	CHECK_EQ(weft_exec_create_on_demand(2, &e), 0);
	jobs_init(&mine, 1, job_run);
	CHECK_EQ(weft_exec_submit(e, &mine.j), 0);
	until_told(e, &mine);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		CHECK_EQ(weft_exec_create_on_demand(2, &other), 0);
		jobs_init(&theirs, 1, job_run);
		CHECK_EQ(weft_exec_submit(other, &theirs.j), 0);
		until_told(other, &theirs);
		weft_exec_destroy(other);
		weft_exec_destroy(e);
		_exit(0);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	jobs_init(&mine, 1, job_run);
	CHECK_EQ(weft_exec_submit(e, &mine.j), 0);
	until_told(e, &mine);
	weft_exec_destroy(e);
}

/* The first one: stacks of threads that have ended are used again. */
WEFT_TEST_MAIN({"on_demand_none", test_on_demand_none}, {"on_demand", test_on_demand},
               {"on_demand_churn", test_on_demand_churn}, {"on_demand_fork", test_on_demand_fork},
               {"gives_back", test_gives_back}, {"no_threads", test_no_threads},
               {"one_thread", test_one_thread}, {"wakeups", test_wakeups}, {"quiet", test_quiet},
               {"many_threads", test_many_threads}, {"destroy", test_destroy})
