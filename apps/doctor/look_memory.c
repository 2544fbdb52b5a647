/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Hugepages: how many this configuration needs, how many are free, and on which node. */

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "doctor.h"

/** The command that makes so many pages of a size, of a node or of the machine (-1). */
static void
memory_mend(struct doctor_finding *f, int node, uint64_t pages, uint64_t page_bytes)
{
	char where[64] = "/sys/kernel/mm";

	if (node >= 0)
		snprintf(where, sizeof(where), "/sys/devices/system/node/node%d", node);
	doctor_mend(f, "echo %" PRIu64 " > %s/hugepages/hugepages-%" PRIu64 "kB/nr_hugepages",
	            pages, where, page_bytes >> 10);
}

/** Ordinary memory: EAL gets memory_mb of it, and no more. */
static void
memory_ordinary(struct doctor *d)
{
	uint64_t need = doctor_need_mb(d, (uint32_t)sysconf(_SC_PAGESIZE));
	struct doctor_finding *f;

	if (need <= d->conf.weft.memory_mb)
		return;
	f = doctor_add(d, DOCTOR_STOP, "memory", "memory_mb");
	doctor_what(f,
	            "the buffers of the ports take %" PRIu64 " MiB of ordinary memory, and "
	            "memory_mb allows %u MiB",
	            need, d->conf.weft.memory_mb);
	doctor_mend(f, "memory_mb = %" PRIu64 " in [weft]", need + need / 4 + 32);
}

/** Each NIC gets its buffers from its own node, and from no other. */
static void
memory_by_node(struct doctor *d, uint64_t page_bytes)
{
	for (unsigned int h = 0; h < d->nhuge; h++) {
		const struct weft_machine_huge *on = &d->huge[h];
		uint64_t bytes = 0, need;
		struct doctor_finding *f;
		char subject[32];

		if (on->page_bytes != page_bytes || on->node < 0)
			continue;
		for (unsigned int i = 0; i < d->nnics; i++)
			if (d->nics[i].port != NULL && !d->nics[i].again &&
			    d->nics[i].info.numa_node == on->node)
				bytes +=
				        doctor_port_bytes(d, d->nics[i].port, (uint32_t)page_bytes);
		need = (bytes + page_bytes - 1) / page_bytes;
		if (need <= on->free_pages)
			continue;
		snprintf(subject, sizeof(subject), "hugepages of node %d", on->node);
		f = doctor_add(d, DOCTOR_STOP, "hugepages", subject);
		doctor_what(f,
		            "NICs of this node need %" PRIu64 " pages of %" PRIu64
		            " MiB for their buffers, and %" PRIu64 " are free",
		            need, page_bytes >> 20, on->free_pages);
		memory_mend(f, on->node, on->pages + need - on->free_pages, page_bytes);
	}
}

void
look_memory(struct doctor *d)
{
	struct weft_machine_huge sum;
	struct doctor_finding *f;
	uint64_t size, need;
	bool enough;

	if (d->conf.weft.hugepages == CONF_HUGE_NEVER) {
		f = doctor_add(d, DOCTOR_OK, "hugepages", "hugepages");
		doctor_what(f, "none are used, as hugepages = never says");
		memory_ordinary(d);
		return;
	}
	size = doctor_huge_size(d, &enough);
	if (size == 0) {
		f = doctor_add(d, DOCTOR_NOTE, "hugepages", "hugepages");
		doctor_what(f, "the kernel has none: ordinary memory is used, which is slower");
		memory_ordinary(d);
		return;
	}
	(void)doctor_huge_of_size(d, size, &sum);
	need = doctor_pages(doctor_need_mb(d, (uint32_t)size), size);
	f = doctor_add(d, enough ? DOCTOR_OK : DOCTOR_NOTE, "hugepages", "hugepages");
	doctor_what(f, "%" PRIu64 " of %" PRIu64 " MiB are needed, and %" PRIu64 " are free%s",
	            need, size >> 20, sum.free_pages,
	            enough ? "" : ": ordinary memory is used, which is slower");
	if (enough) {
		if (d->nodes > 1)
			memory_by_node(d, size);
		return;
	}
	memory_mend(f, -1, sum.pages + need - sum.free_pages, size);
	memory_ordinary(d);
}
