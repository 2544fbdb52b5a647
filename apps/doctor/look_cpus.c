/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Processors: where workers run, how near their NICs are, isolation and frequency. */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "doctor.h"

/** The NIC that a worker serves, of which the node is known; NULL: none. */
static const struct doctor_nic *
cpu_nic_of(const struct doctor *d, const struct conf_worker *w)
{
	for (uint32_t k = 0; k < w->nports; k++)
		for (unsigned int i = 0; i < d->nnics; i++)
			if (d->nics[i].port != NULL &&
			    strcmp(d->nics[i].port->name, w->ports[k]) == 0 &&
			    d->nics[i].info.numa_node >= 0)
				return &d->nics[i];
	return NULL;
}

/** The first CPU of a node that no worker is pinned to; -1: there is none. */
static int
cpu_free_of_node(const struct doctor *d, int node)
{
	struct weft_machine_cpu c;

	for (unsigned int cpu = 0; cpu < WEFT_MACHINE_CPUS_MAX; cpu++) {
		bool taken = false;

		if (weft_machine_cpu(d->at, cpu, &c) != 0 || !c.online || c.node != node)
			continue;
		for (uint32_t i = 0; i < d->conf.nworkers; i++)
			taken |= d->conf.workers[i].lcore == (int32_t)cpu;
		if (!taken)
			return (int)cpu;
	}
	return -1;
}

static void
cpu_numa(struct doctor *d, const struct conf_worker *w, int node, const char *subject)
{
	const struct doctor_nic *nic = cpu_nic_of(d, w);
	struct doctor_finding *f;
	int better;

	if (d->nodes < 2 || nic == NULL || (w->lcore >= 0 && node == nic->info.numa_node))
		return;
	f = doctor_add(d, DOCTOR_NOTE, "numa", subject);
	if (w->lcore >= 0)
		doctor_what(f, "it runs on CPU %d of node %d, and its NIC %s is on node %d",
		            (int)w->lcore, node, nic->info.address, nic->info.numa_node);
	else
		doctor_what(f, "it may run on any node, and its NIC %s is on node %d",
		            nic->info.address, nic->info.numa_node);
	better = cpu_free_of_node(d, nic->info.numa_node);
	if (better >= 0)
		doctor_mend(f, "lcore = %d in [worker %s]", better, w->name);
}

/** Another worker on the same CPU, or on the other thread of its core. */
static void
cpu_shared(struct doctor *d, uint32_t i, int sibling, const char *subject)
{
	const struct conf_worker *w = &d->conf.workers[i];

	for (uint32_t k = 0; k < i; k++) {
		const struct conf_worker *o = &d->conf.workers[k];
		struct doctor_finding *f;

		if (o->lcore < 0 || (o->lcore != w->lcore && o->lcore != sibling))
			continue;
		f = doctor_add(d, DOCTOR_NOTE, "cpu", subject);
		doctor_what(f, "it shares %s with worker %s",
		            o->lcore == w->lcore ? "its CPU" : "the core of its CPU", o->name);
		doctor_mend(f, "another lcore in [worker %s]", w->name);
	}
}

static void
cpu_worker(struct doctor *d, uint32_t i)
{
	const struct conf_worker *w = &d->conf.workers[i];
	struct weft_machine_cpu c = {.node = -1};
	struct doctor_finding *f;
	char subject[96];

	snprintf(subject, sizeof(subject), "worker %s", w->name);
	if (w->lcore < 0) {
		cpu_numa(d, w, -1, subject);
		return;
	}
	if (weft_machine_cpu(d->at, (unsigned int)w->lcore, &c) != 0 || !c.online) {
		f = doctor_add(d, DOCTOR_STOP, "cpu", subject);
		doctor_what(f, "CPU %d is not online", (int)w->lcore);
		doctor_mend(f,
		            "echo 1 > /sys/devices/system/cpu/cpu%d/online, or another lcore in "
		            "[worker %s]",
		            (int)w->lcore, w->name);
		return;
	}
	cpu_numa(d, w, c.node, subject);
	cpu_shared(d, i, c.sibling, subject);
	if (!c.isolated || !c.nohz_full) {
		f = doctor_add(d, DOCTOR_NOTE, "isolation", subject);
		doctor_what(f, "the kernel may run others on its CPU %d%s", (int)w->lcore,
		            c.isolated ? ": the timer tick" : "");
		doctor_mend(f,
		            "sed -i 's/^GRUB_CMDLINE_LINUX=\"/&isolcpus=%d nohz_full=%d "
		            "rcu_nocbs=%d /' /etc/default/grub && update-grub && reboot",
		            (int)w->lcore, (int)w->lcore, (int)w->lcore);
		return;
	}
	f = doctor_add(d, DOCTOR_OK, "cpu", subject);
	doctor_what(f, "it has CPU %d for itself", (int)w->lcore);
}

/** CPUs whose frequency follows the load: those of workers, or all where a worker has none. */
static void
cpu_governors(struct doctor *d)
{
	struct weft_machine_cpu c;
	bool all = d->conf.nworkers == 0, wanted;
	unsigned int slow = 0, first = 0, looked = 0;
	char governor[24] = "";
	struct doctor_finding *f;

	for (uint32_t i = 0; i < d->conf.nworkers; i++)
		all |= d->conf.workers[i].lcore < 0;
	for (unsigned int cpu = 0; cpu < WEFT_MACHINE_CPUS_MAX; cpu++) {
		wanted = all;
		for (uint32_t i = 0; i < d->conf.nworkers; i++)
			wanted |= d->conf.workers[i].lcore == (int32_t)cpu;
		if (!wanted || weft_machine_cpu(d->at, cpu, &c) != 0 || c.governor[0] == '\0')
			continue;
		looked++;
		if (strcmp(c.governor, "performance") == 0)
			continue;
		if (slow++ == 0) {
			first = cpu;
			snprintf(governor, sizeof(governor), "%s", c.governor);
		}
	}
	if (looked == 0)
		return;
	f = doctor_add(d, slow > 0 ? DOCTOR_NOTE : DOCTOR_OK, "frequency", "CPU frequency");
	if (slow == 0) {
		doctor_what(f, "its governor is performance");
		return;
	}
	doctor_what(f, "the governor of %u CPU%s (CPU %u first) is %s: they slow down when idle",
	            slow, slow > 1 ? "s" : "", first, governor);
	doctor_mend(f, "echo performance | tee "
	               "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor");
}

void
look_cpus(struct doctor *d)
{
	for (uint32_t i = 0; i < d->conf.nworkers && d->configured; i++)
		cpu_worker(d, i);
	cpu_governors(d);
}
