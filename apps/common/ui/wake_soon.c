/* SPDX-License-Identifier: BSD-3-Clause */
/** @file A thread that sleeps for short times beside threads that spin. */

#include "wake_soon.h"

#include <sched.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define WAKE_SLACK_NS 1000UL
#define WAKE_SLICE_NS 100000ULL

void
wake_soon(void)
{
	struct {
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime_ns, deadline_ns, period_ns;
	} attr = {.size = sizeof(attr), .policy = SCHED_OTHER, .runtime_ns = WAKE_SLICE_NS};

	(void)prctl(PR_SET_TIMERSLACK, WAKE_SLACK_NS, 0, 0, 0);
	(void)syscall(SYS_sched_setattr, 0, &attr, 0);
}
