/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The worker of the process: its start and its end. */

#include "engine.h"

#include "check.h"
#include "config.h"
#include "end.h"
#include "helper.h"
#include "lock.h"
#include "portd.h"
#include "stack.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ENGINE_SERVER_NS (5 * 1000 * 1000 * 1000ULL) /**< for the server of a net_memif */

static struct stack stack;
static pthread_mutex_t up_lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_int up_state; /**< 0: to be tried; 1: up; -errno: EAL was started, and it failed */
static atomic_int up_pid;   /**< whose the port is, or will be; 0: it was not opened */
static cpu_set_t process_cpus;
static char up_said[CONF_ERR_MAX]; /**< why it failed last. Under up_lock */
static const struct wv_engine_hooks *hooks;

/** Whether a server's socket is there, in the file system or in the kernel's table. */
static bool
engine_socket_there(const char *path, bool abstract)
{
	char line[512];
	bool there = false;
	FILE *f;

	if (!abstract)
		return access(path, F_OK) == 0;
	f = fopen("/proc/net/unix", "re");
	while (f != NULL && !there && fgets(line, sizeof(line), f) != NULL) {
		char *name = strchr(line, '@');

		line[strcspn(line, "\n")] = '\0';
		there = name != NULL && strcmp(name + 1, path) == 0;
	}
	if (f != NULL)
		fclose(f);
	return there;
}

/**
 * The client of a net_memif needs its server. A program opens its device when it needs it, which
 * its user does not see: a server that forks for each client does so when the client does.
 */
static void
engine_await_server(const struct conf *c)
{
	const uint64_t end_ns = wv_now_ns() + ENGINE_SERVER_NS;
	char role[16] = "", path[CONF_PATH_MAX];
	bool abstract;

	for (uint32_t i = 0; i < c->nports; i++) {
		(void)conf_dev_arg(c->ports[i].dev, "role", role, sizeof(role));
		if (conf_memif_socket(c->ports[i].dev, path, sizeof(path), &abstract) != 0 ||
		    strcmp(role, "server") == 0)
			continue;
		while (!engine_socket_there(path, abstract) && wv_now_ns() < end_ns)
			usleep(10000);
	}
}

/** On the helper thread, because EAL binds the thread that initialises it to a CPU. */
static int
engine_open(const struct conf *given, bool *eal, char *err, size_t err_size)
{
	static struct conf c;
	const struct weft_evq_attr evq = {.size = sizeof(evq), .on_event = hooks->on_event};
	const struct weft_ctx_attr ctx = {
	        .size = sizeof(ctx), .max_regions = 65536, .mpa = &c.mpa, .tcp = &c.tcp};
	const struct stack_opt opt = {
	        .progname = "weft", .ctx = &ctx, .one_worker = true, .quiet = true};
	int cpu = 0, rc;

	c = *given;
	if (c.weft.lcores[0] == '\0') {
		while (cpu < CPU_SETSIZE - 1 && !CPU_ISSET(cpu, &process_cpus))
			cpu++;
		snprintf(c.weft.lcores, sizeof(c.weft.lcores), "%d", cpu);
	}
	if (wv_portd_on()) {
		rc = wv_portd_device(&c, err, err_size);
		if (rc != 0)
			return rc;
	}
	engine_await_server(&c);
	*eal = true;
	rc = stack_up(&c, &opt, &stack, err, err_size);
	(void)sched_setaffinity(0, sizeof(process_cpus), &process_cpus);
	if (rc != 0)
		return rc;
	wv_engine.ctx = stack.ctx;
	wv_engine.worker = stack.workers[0];
	memcpy(wv_engine.ports, stack.ports, sizeof(wv_engine.ports));
	wv_engine.nports = stack.nports;
	wv_portd_tell();
	rc = weft_evq_create(stack.ctx, &evq, &wv_engine.evq);
	if (rc != 0)
		snprintf(err, err_size, "queue of events: %s", strerror(-rc));
	return rc;
}

/** What was sent last is in weft's buffers, which end with the process. */
static void
engine_down(void)
{
	const uint64_t end_ns = wv_now_ns() + WV_END_DRAIN_NS;

	if (getpid() == up_pid && wv_engine_is_up())
		wv_engine_set_ending();
	/* A thread that never returns the lock would keep the process for ever. */
	if (getpid() != up_pid || !wv_engine_is_up() || !wv_lock_until(end_ns))
		return;
	hooks->drain(end_ns);
	/* The lock is kept: other threads may still run, and find no engine any more. */
	wv_engine_set_up(false);
	stack_down(&stack);
	/* This thread goes on, with the destructors of the program's static objects. */
	atomic_store_explicit(&up_state, -ENODEV, memory_order_relaxed);
	wv_engine_set_over();
}

/**
 * The port stays the parent's: a child that polls it would take the parent's packets. A thread of
 * the parent that was opening it is not here, and what it has done is of no use.
 */
static void
engine_in_child(void)
{
	(void)pthread_mutex_init(&up_lock, NULL);
	if (up_pid == 0)
		return;
	wv_engine_set_up(false);
	wv_engine_set_orphan();
}

void
wv_engine_hook(const struct wv_engine_hooks *h)
{
	hooks = h;
	/* From the start: another thread may call fork() while the device is opened. */
	(void)pthread_atfork(NULL, NULL, engine_in_child);
}

bool
wv_engine_foreign(void)
{
	const pid_t pid = atomic_load_explicit(&up_pid, memory_order_relaxed);

	return pid != 0 && pid != getpid();
}

struct engine_start {
	const struct conf *conf;
	pthread_mutex_t lock;
	pthread_cond_t done_cond;
	bool done;
	bool eal; /**< EAL was started, which works once in a process */
	int rc;
	char err[CONF_ERR_MAX];
};

static void *
engine_thread(void *arg)
{
	struct engine_start *s = arg;
	int rc = engine_open(s->conf, &s->eal, s->err, sizeof(s->err));

	if (rc == 0)
		wv_end_start(hooks->drain);
	pthread_mutex_lock(&s->lock);
	s->rc = rc;
	s->done = true;
	pthread_cond_signal(&s->done_cond);
	pthread_mutex_unlock(&s->lock);
	if (rc == 0)
		wv_helper_run((unsigned int)CPU_COUNT(&process_cpus), &hooks->helper);
	return NULL;
}

/** tried: whether EAL was started. */
static int
engine_start(bool *tried)
{
	struct engine_start s = {.conf = wv_config(),
	                         .lock = PTHREAD_MUTEX_INITIALIZER,
	                         .done_cond = PTHREAD_COND_INITIALIZER};
	sigset_t all, old;
	pthread_t t;
	int rc;

	if (s.conf == NULL)
		return -ENODEV;
	if (!wv_check_versions())
		return -ENOSYS;
	(void)sched_getaffinity(0, sizeof(process_cpus), &process_cpus);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = -pthread_create(&t, NULL, engine_thread, &s);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc != 0) {
		fprintf(stderr, "weft: no thread: %s\n", strerror(-rc));
		return rc;
	}
	(void)pthread_setname_np(t, "weft");
	pthread_detach(t);
	pthread_mutex_lock(&s.lock);
	while (!s.done)
		pthread_cond_wait(&s.done_cond, &s.lock);
	pthread_mutex_unlock(&s.lock);
	*tried = s.eal;
	if (s.rc != 0) {
		/* A program that tries again and again need not hear the same each time. */
		if (strcmp(up_said, s.err) != 0)
			fprintf(stderr, "weft: %s\n", s.err);
		snprintf(up_said, sizeof(up_said), "%s", s.err);
		return s.rc;
	}
	wv_engine_set_up(true);
	(void)atexit(engine_down);
	(void)at_quick_exit(engine_down);
	return 0;
}

int
wv_engine_up(void)
{
	int state = atomic_load_explicit(&up_state, memory_order_acquire);

	if (state == 1 && getpid() == up_pid)
		return 0;
	pthread_mutex_lock(&up_lock);
	state = atomic_load_explicit(&up_state, memory_order_relaxed);
	if (state == 0 && wv_engine_foreign()) {
		state = -EPERM;
	} else if (state == 0) {
		bool tried = false;
		int rc;

		up_pid = getpid();
		rc = engine_start(&tried);
		if (rc != 0)
			up_pid = 0;
		state = rc == 0 ? 1 : rc;
		/* Without weft-portd, for example, nothing has begun: the next call may find it. */
		if (rc == 0 || tried)
			atomic_store_explicit(&up_state, state, memory_order_release);
	} else if (state == 1 && wv_engine_foreign()) {
		state = -EPERM;
	}
	pthread_mutex_unlock(&up_lock);
	return state == 1 ? 0 : state;
}
