/* SPDX-License-Identifier: BSD-3-Clause */
/** @file What the threads of a loop have used of their CPUs, and how long they waited for one. */

#include <fcntl.h>
#include <inttypes.h>
#include <time.h>
#include <unistd.h>

#include "loop.h"
#include "perf.h"
#include "ui.h"

/** Time that a thread has been on a CPU, and runnable without one (the first numbers of its
 * schedstat); 0 where the kernel does not say. */
static void
self_schedstat(const char *path, uint64_t *on_ns, uint64_t *waited_ns)
{
	char buf[128];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	*on_ns = *waited_ns = 0;
	if (fd < 0)
		return;
	n = read(fd, buf, sizeof(buf) - 1);
	close(fd);
	if (n <= 0)
		return;
	buf[n] = '\0';
	if (sscanf(buf, "%" SCNu64 " %" SCNu64, on_ns, waited_ns) != 2)
		*on_ns = *waited_ns = 0;
}

void
perf_self_now(const struct loop *l, struct perf_self *s)
{
	static _Thread_local struct weft_poll_hist h;
	struct weft_worker_stats st;
	uint64_t on_ns, waited_ns;
	struct timespec ts;
	char path[64];

	weft_worker_stats(l->w, &st);
	s->cycles = st.busy_cycles;
	h.size = sizeof(h);
	s->busy_ns = weft_worker_poll_hist(l->w, &h) == 0 ? h.sum_ns : 0;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	s->cpu_ns = (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
	self_schedstat("/proc/thread-self/schedstat", &on_ns, &s->waited_ns);
	s->worker_waited_ns = 0;
	if (l->events) { /* the worker has a thread of its own */
		snprintf(path, sizeof(path), "/proc/self/task/%d/schedstat", (int)l->worker_tid);
		self_schedstat(path, &on_ns, &waited_ns);
		s->cpu_ns += on_ns;
		s->worker_waited_ns = waited_ns;
	}
	s->at_ns = ui_now_ns();
}

struct perf_self
perf_self_between(const struct perf_self *from, const struct perf_self *to)
{
	struct perf_self s = *to;

	s.at_ns -= from->at_ns;
	s.cpu_ns -= from->cpu_ns;
	s.waited_ns -= from->waited_ns;
	s.worker_waited_ns -= from->worker_waited_ns;
	if (s.worker_waited_ns > s.waited_ns)
		s.waited_ns = s.worker_waited_ns;
	s.cycles -= from->cycles;
	s.busy_ns -= from->busy_ns;
	return s;
}

struct perf_self
perf_self_since(const struct loop *l, const struct perf_self *from)
{
	struct perf_self s;

	perf_self_now(l, &s);
	return perf_self_between(from, &s);
}
