/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The IOMMU, and what vfio can do without one. */

#include <string.h>

#include "doctor.h"

/** How to get an IOMMU on this machine. */
static void
iommu_mend(const struct doctor *d, struct doctor_finding *f)
{
	const char *parameter = strcmp(d->machine.cpu_vendor, "AuthenticAMD") == 0
	                                ? "amd_iommu=on"
	                                : "intel_iommu=on";

	if (d->iommu.firmware)
		doctor_mend(f,
		            "sed -i 's/^GRUB_CMDLINE_LINUX=\"/&%s iommu=pt /' /etc/default/grub "
		            "&& update-grub && reboot",
		            parameter);
	else if (d->iommu.noiommu == 0)
		doctor_mend(f, "echo Y > /sys/module/vfio/parameters/enable_unsafe_noiommu_mode");
	else if (d->machine.hypervisor)
		doctor_mend(f,
		            "give the virtual machine an IOMMU (QEMU: -device "
		            "intel-iommu,intremap=on in front of the NICs, and %s in the guest)",
		            parameter);
	else
		doctor_mend(f,
		            "switch VT-d (Intel) or IOMMU (AMD) on in the firmware's setup, and "
		            "start the kernel with %s",
		            parameter);
}

void
look_iommu(struct doctor *d)
{
	unsigned int own = 0;
	struct doctor_finding *f;

	for (unsigned int i = 0; i < d->nnics; i++)
		own += d->nics[i].info.binding != WEFT_DEVICE_BIFURCATED;
	if (own == 0)
		return; /* nothing needs one */
	if (d->iommu.groups > 0) {
		f = doctor_add(d, DOCTOR_OK, "iommu", "IOMMU");
		doctor_what(f, "on, with %u groups of devices", d->iommu.groups);
		return;
	}
	f = doctor_add(d, DOCTOR_NOTE, "iommu", "IOMMU");
	if (d->iommu.noiommu == 1) {
		doctor_what(f, "none: vfio runs in its unsafe mode, which needs root, and a NIC "
		               "can write to all memory");
		return;
	}
	doctor_what(f,
	            "none%s: NICs need uio_pci_generic, root and hugepages, and can write to "
	            "all memory",
	            d->iommu.firmware ? " is on, though the firmware describes one" : "");
	iommu_mend(d, f);
}
