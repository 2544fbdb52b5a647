/* SPDX-License-Identifier: BSD-3-Clause */
/** @file NICs: driver, binding, permissions, and whether the machine itself needs them. */

#include <stdio.h>
#include <string.h>

#include "doctor.h"
#include "weft_device_hold.h"

/** A NIC that is ready. */
static void
nic_ready(struct doctor *d, const struct doctor_nic *n, const char *subject)
{
	const struct weft_device_info *i = &n->info;
	struct doctor_finding *f = doctor_add(d, DOCTOR_OK, "nic", subject);

	if (i->binding == WEFT_DEVICE_BIFURCATED)
		doctor_what(f, "ready: DPDK shares it with the kernel's driver %s", i->driver);
	else if (i->iommu_group >= 0)
		doctor_what(f, "ready: driver %s, IOMMU group %d", i->driver, i->iommu_group);
	else
		doctor_what(f, "ready: driver %s, without an IOMMU", i->driver);
}

struct doctor_finding *
doctor_held(struct doctor *d, enum doctor_level level, const struct conf_port *port,
            const char *subject, const struct weft_device_hold *hold)
{
	struct doctor_finding *f = doctor_add(d, level, "nic", subject);

	if (hold->kind == WEFT_HOLD_SSH)
		doctor_what(f, "the machine needs it: the SSH connection with %s uses %s",
		            hold->peer, hold->ifname);
	else
		doctor_what(f, "the machine needs it: the default route uses %s", hold->ifname);
	if (level == DOCTOR_STOP)
		doctor_mend(f,
		            "name another NIC in [port %s] (weft-doctor without --config shows "
		            "all)",
		            port->name);
	return f;
}

static void
nic_look(struct doctor *d, struct doctor_nic *n, const struct weft_device_need *need)
{
	struct weft_device_hold hold = {.kind = WEFT_HOLD_NONE};
	struct doctor_finding *f;
	struct weft_device_verdict v;
	char subject[96];
	const char *dev = n->info.address;

	doctor_nic_subject(n, subject, sizeof(subject));
	n->ready = weft_device_judge(d->at, &d->as, dev, need, &v) == 0;
	if (n->info.binding == WEFT_DEVICE_KERNEL || n->info.binding == WEFT_DEVICE_BIFURCATED)
		(void)weft_device_hold(d->at, dev, &hold);
	n->held = hold.kind != WEFT_HOLD_NONE;
	if (n->held) {
		bool stop = n->port != NULL && !(n->info.binding == WEFT_DEVICE_BIFURCATED &&
		                                 d->conf.weft.take_needed);

		f = doctor_held(d, stop ? DOCTOR_STOP : DOCTOR_NOTE, n->port, subject, &hold);
		/* The kernel keeps the interface, but an open port receives its frames. */
		if (n->port == NULL && n->ready)
			doctor_mend(f,
			            "leave it to the kernel: an open port takes the frames of "
			            "%s",
			            hold.ifname);
		n->ready = false;
		return;
	}
	if (n->ready) {
		nic_ready(d, n, subject);
		return;
	}
	f = doctor_add(d, n->port != NULL ? DOCTOR_STOP : DOCTOR_NOTE, "nic", subject);
	doctor_what(f, "%s", v.what);
	doctor_mend(f, "%s", v.mend);
}

void
look_nics(struct doctor *d)
{
	const struct weft_device_need need = {.size = sizeof(need),
	                                      .memory_mb = d->conf.weft.memory_mb,
	                                      .hugepages = doctor_huge_enough(d),
	                                      .take_needed = true}; /* doctor_held() tells */
	unsigned int ready = 0, held = 0;
	struct doctor_finding *f;

	for (unsigned int i = 0; i < d->nnics; i++) {
		nic_look(d, &d->nics[i], &need);
		ready += d->nics[i].ready;
		held += d->nics[i].held;
	}
	if (d->configured || ready > 0)
		return;
	f = doctor_add(d, DOCTOR_STOP, "nic", "NICs");
	if (d->nnics == 0) {
		doctor_what(f, "this machine has no NIC on the PCI bus");
		doctor_mend(f, "use an interface of the kernel (dev = "
		               "net_af_packet0,iface=NAME) or shared memory (net_memif)");
	} else if (held == d->nnics) {
		doctor_what(f, "none is ready for weft, and the machine needs each of them");
		doctor_mend(f,
		            "use an interface beside the kernel (dev = "
		            "net_af_packet0,iface=%s), or add a NIC",
		            d->nics[0].info.ifname);
	} else {
		doctor_what(f, "none of %u is ready for weft", d->nnics);
		doctor_mend(f, "choose one, and do what is said of it above");
	}
}
