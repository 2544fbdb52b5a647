/* SPDX-License-Identifier: BSD-3-Clause */
/** @file What the polling thread has used of its CPU, and how long it waited for one. */

#include <fcntl.h>
#include <inttypes.h>
#include <time.h>
#include <unistd.h>

#include "perf.h"
#include "ui.h"

/** Time that this thread has been runnable without a CPU (the second number of schedstat); 0 where
 * the kernel does not say. */
static uint64_t
self_waited_ns(void)
{
	char buf[128];
	uint64_t on = 0, waited = 0;
	int fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return 0;
	n = read(fd, buf, sizeof(buf) - 1);
	close(fd);
	if (n <= 0)
		return 0;
	buf[n] = '\0';
	return sscanf(buf, "%" SCNu64 " %" SCNu64, &on, &waited) == 2 ? waited : 0;
}

void
perf_self_now(struct weft_worker *w, struct perf_self *s)
{
	struct weft_worker_stats st;
	struct timespec ts;

	weft_worker_stats(w, &st);
	s->cycles = st.busy_cycles;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	s->cpu_ns = (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
	s->waited_ns = self_waited_ns();
	s->at_ns = ui_now_ns();
}

struct perf_self
perf_self_since(struct weft_worker *w, const struct perf_self *from)
{
	struct perf_self s;

	perf_self_now(w, &s);
	s.at_ns -= from->at_ns;
	s.cpu_ns -= from->cpu_ns;
	s.waited_ns -= from->waited_ns;
	s.cycles -= from->cycles;
	return s;
}
