/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PLANT_H
#define PLANT_H

/**
 * @file A machine in a temporary folder: the files of /sys, /dev, /proc and /run that the tests of
 * lib/device and of weft-doctor need. A fault ends the case. Names are below the folder:
 * "sys/class/net/eth0/mtu".
 */

#include "weft_device.h"

/** The folders of the planted machine. */
extern struct weft_device_roots plant_roots;

/** Begin with a machine that has nothing; the former one is removed. */
void plant_begin(void);
/** Remove the machine. */
void plant_end(void);
/** Make a folder, and those above it. */
void plant_dir(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/** Make or replace a file, and the folders above it. */
void plant_file(const char *name, const char *text);
/** Make or replace a link, and the folders above it. */
void plant_link(const char *to, const char *name);
/** Remove a file or link; none is no fault. */
void plant_remove(const char *name);
/** An Ethernet NIC of node 1; driver NULL: none is bound; group < 0: no IOMMU. */
void plant_nic(const char *address, const char *driver, int group);
/** Name a device as a member of an IOMMU group. */
void plant_group(int group, const char *address);
/** An interface of the kernel that is up and has a link; address NULL: on no PCI device. */
void plant_interface(const char *ifname, const char *address);

#endif /* PLANT_H */
