/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The clock: weft measures time by the TSC. */

#include <string.h>

#include "doctor.h"

void
look_clock(struct doctor *d)
{
	/* What the kernel reads without leaving user space, and trusts. */
	static const char *const good[] = {"tsc", "kvm-clock", "hyperv_clocksource_tsc_page",
	                                   "arch_sys_counter"};
	const struct weft_machine_clock *c = &d->clock;
	struct doctor_finding *f;

	if (c->x86 && !c->invariant) {
		f = doctor_add(d, DOCTOR_NOTE, "clock", "TSC");
		doctor_what(f, "it changes its rate or stops (no constant_tsc and nonstop_tsc): "
		               "timers and latencies are wrong by as much");
		if (d->machine.hypervisor)
			doctor_mend(f, "let the hypervisor show it (QEMU: -cpu host,+invtsc)");
		return;
	}
	if (c->current[0] == '\0')
		return;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		if (strcmp(c->current, good[i]) != 0)
			continue;
		f = doctor_add(d, DOCTOR_OK, "clock", "clock");
		doctor_what(f, "the kernel's clock source is %s", c->current);
		return;
	}
	f = doctor_add(d, DOCTOR_NOTE, "clock", "clock");
	doctor_what(f,
	            "the kernel's clock source is %s: reading the time is slow, and the kernel "
	            "may distrust the TSC (dmesg | grep -i tsc)",
	            c->current);
	if (strstr(c->available, "tsc") != NULL)
		doctor_mend(f, "echo tsc > "
		               "/sys/devices/system/clocksource/clocksource0/current_clocksource");
}
