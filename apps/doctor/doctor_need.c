/* SPDX-License-Identifier: BSD-3-Clause */
/** @file What the configuration needs of memory, and what it calls its NICs. */

#include <stdio.h>

#include <weft/room.h>

#include "doctor.h"
#include "stack.h"

#define NEED_MIN_PAGE (2u << 20) /* smaller hugepages (64 KiB of ARM) are no gain */

void
doctor_nic_subject(const struct doctor_nic *n, char *buf, size_t size)
{
	if (n->port != NULL)
		snprintf(buf, size, "%s (port %s)", n->info.address, n->port->name);
	else
		snprintf(buf, size, "%s", n->info.address);
}

uint64_t
doctor_port_bytes(const struct doctor *d, const struct conf_port *p, uint32_t page_bytes)
{
	const struct weft_port_attr attr = {
	        .size = sizeof(attr),
	        .dev = p->dev,
	        .mtu_bytes = (uint16_t)p->mtu_bytes,
	        .mbufs = p->mbufs,
	        .queues = stack_sharers(&d->conf, d->conf.nworkers, p->name),
	};

	return weft_room_bytes(&attr, page_bytes);
}

uint64_t
doctor_need_mb(const struct doctor *d, uint32_t page_bytes)
{
	uint64_t bytes = 0, mb;

	for (uint32_t i = 0; i < d->conf.nports; i++)
		bytes += doctor_port_bytes(d, &d->conf.ports[i], page_bytes);
	mb = (bytes + (1 << 20) - 1) >> 20;
	return mb > d->conf.weft.memory_mb ? mb : d->conf.weft.memory_mb;
}

uint64_t
doctor_pages(uint64_t mb, uint64_t page_bytes)
{
	return ((mb << 20) + page_bytes - 1) / page_bytes;
}

bool
doctor_huge_of_size(const struct doctor *d, uint64_t page_bytes, struct weft_machine_huge *sum)
{
	bool found = false;

	*sum = (struct weft_machine_huge){.node = -1, .page_bytes = page_bytes};
	for (unsigned int i = 0; i < d->nhuge; i++) {
		if (d->huge[i].page_bytes != page_bytes)
			continue;
		sum->pages += d->huge[i].pages;
		sum->free_pages += d->huge[i].free_pages;
		found = true;
	}
	return found;
}

uint64_t
doctor_huge_size(const struct doctor *d, bool *enough)
{
	struct weft_machine_huge sum;
	uint64_t least = 0;

	*enough = false;
	for (unsigned int i = 0; i < d->nhuge; i++) {
		uint64_t bytes = d->huge[i].page_bytes;

		(void)doctor_huge_of_size(d, bytes, &sum);
		if (sum.free_pages >= doctor_pages(doctor_need_mb(d, (uint32_t)bytes), bytes)) {
			*enough = true;
			return bytes;
		}
		if (bytes >= NEED_MIN_PAGE && (least == 0 || bytes < least))
			least = bytes;
	}
	return least;
}

bool
doctor_huge_enough(const struct doctor *d)
{
	bool enough;

	if (d->conf.weft.hugepages == CONF_HUGE_NEVER)
		return false;
	(void)doctor_huge_size(d, &enough);
	return enough;
}
