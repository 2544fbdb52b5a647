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

	s->begun_ns = ui_now_ns();
	s->threads = l->events ? 2 : 1;
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

/** The part of a time that belongs to the `part` (0 to 1) of the span in which it was counted. No
 * more than the span can have been in it, but for what the kernel books late: the time that another
 * thread runs or waits is in its schedstat from the next tick or switch on. */
static uint64_t
self_share(uint64_t ns, uint64_t span_ns, double part)
{
	return (uint64_t)((double)(ns < span_ns ? ns : span_ns) * part);
}

struct perf_self
perf_self_between(const struct perf_self *from, const struct perf_self *to)
{
	/* The counts are read one after the other, and the thread can lose its CPU at each of them:
	 * what they counted was in the time from the begin of the first reading. */
	const uint64_t span_ns = to->at_ns - from->begun_ns;
	const uint64_t waited_ns = to->waited_ns - from->waited_ns;
	const uint64_t worker_ns = to->worker_waited_ns - from->worker_waited_ns;
	struct perf_self s = *to;
	double part;

	s.at_ns -= from->at_ns;
	part = span_ns > 0 ? (double)s.at_ns / (double)span_ns : 0;
	s.cpu_ns = self_share(s.cpu_ns - from->cpu_ns, s.threads * span_ns, part);
	s.worker_waited_ns = self_share(worker_ns, span_ns, part);
	s.waited_ns = self_share(waited_ns > worker_ns ? waited_ns : worker_ns, span_ns, part);
	s.cycles -= from->cycles;
	s.busy_ns = self_share(s.busy_ns - from->busy_ns, span_ns, part);
	return s;
}

struct perf_self
perf_self_since(const struct loop *l, const struct perf_self *from)
{
	struct perf_self s;

	perf_self_now(l, &s);
	return perf_self_between(from, &s);
}
