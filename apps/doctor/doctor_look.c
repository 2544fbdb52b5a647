/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Gathers the facts, then looks at each subject. */

#include "doctor.h"

static int
look_add_nic(const struct weft_device_info *info, void *arg)
{
	struct doctor *d = arg;

	if (d->nnics < DOCTOR_NICS_MAX)
		d->nics[d->nnics++].info = *info;
	return 0;
}

/** The NICs of a port: one, or the slaves of a bond. */
static void
look_gather_port(struct doctor *d, const struct conf_port *p)
{
	char dev[DOCTOR_DEV_MAX];
	bool again = false;

	for (unsigned int k = 0; weft_device_member(p->dev, k, dev, sizeof(dev)) == 0; k++) {
		struct doctor_nic *n = &d->nics[d->nnics];

		if (d->nnics == DOCTOR_NICS_MAX || !weft_device_is_pci(dev))
			continue;
		n->port = p;
		n->again = again;
		n->info.size = sizeof(n->info);
		n->error = weft_device_info_at(d->at, dev, &n->info);
		d->nnics++;
		again = true;
	}
}

/** The NICs that the configuration names; without a configuration all. */
static void
look_gather_nics(struct doctor *d)
{
	if (!d->configured) {
		(void)weft_device_each_at(d->at, look_add_nic, d);
		return;
	}
	for (uint32_t i = 0; i < d->conf.nports; i++)
		look_gather_port(d, &d->conf.ports[i]);
}

void
doctor_look(struct doctor *d)
{
	weft_machine_identity(d->at, &d->machine);
	weft_machine_iommu(d->at, &d->iommu);
	weft_machine_clock(d->at, &d->clock);
	d->nhuge = weft_machine_huge(d->at, d->huge, DOCTOR_HUGE_MAX);
	d->nodes = weft_machine_nodes(d->at);
	look_gather_nics(d);
	look_nics(d);
	look_iommu(d);
	look_memory(d);
	look_links(d);
	look_cpus(d);
	look_clock(d);
	look_cloud(d);
}
