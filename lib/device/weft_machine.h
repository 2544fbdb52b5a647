/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_MACHINE_H
#define WEFT_MACHINE_H

/**
 * @file What the kernel says of the machine beside its PCI devices: hugepages, processors,
 * interfaces, IOMMU, clock, and where the machine runs. Internal. These functions read files below
 * the given roots, change nothing, and may be called from any thread. What the kernel does not say
 * is absent in the result, as each member states.
 */

#include <stdbool.h>
#include <stdint.h>

#include "weft_device.h"

#define WEFT_MACHINE_CPUS_MAX  1024
#define WEFT_MACHINE_NODES_MAX 64

/** Hugepages of one size on one NUMA node. */
struct weft_machine_huge {
	int node; /**< -1: the kernel has no NUMA nodes */
	uint64_t page_bytes;
	uint64_t pages, free_pages;
};

/** Fill up to `max` entries, in the order of nodes, small pages first; returns how many. */
unsigned int weft_machine_huge(const struct weft_device_roots *at, struct weft_machine_huge *h,
                               unsigned int max);

/** NUMA nodes that are online; 1 where the kernel has none. */
unsigned int weft_machine_nodes(const struct weft_device_roots *at);

struct weft_machine_cpu {
	bool online;
	bool isolated;     /**< the scheduler puts nothing on it by itself (isolcpus=) */
	bool nohz_full;    /**< no timer tick while one thread runs */
	int node;          /**< -1: unknown */
	int sibling;       /**< the first other CPU of the same core; -1: none */
	char governor[24]; /**< of its frequency; "": the kernel does not set it */
};

/** -ENOENT: there is no such CPU. */
int weft_machine_cpu(const struct weft_device_roots *at, unsigned int cpu,
                     struct weft_machine_cpu *c);
/** The CPUs of a node as a list, "0-3,8"; "": unknown. */
void weft_machine_node_cpus(const struct weft_device_roots *at, int node, char *list, size_t size);

/** An interface of the kernel. */
struct weft_machine_link {
	bool up;      /**< set up by the administrator */
	bool carrier; /**< has a link */
	uint32_t mtu_bytes;
	uint32_t speed_mbps; /**< in megabits a second; 0: unknown */
};

/** -ENOENT: there is no such interface. */
int weft_machine_link(const struct weft_device_roots *at, const char *ifname,
                      struct weft_machine_link *l);

struct weft_machine_iommu {
	unsigned int groups; /**< 0: no IOMMU translates */
	bool firmware;       /**< the firmware describes one (ACPI tables DMAR, IVRS) */
	bool vfio;           /**< the driver vfio-pci is there */
	int noiommu;         /**< vfio's unsafe mode: 1 on, 0 off, -1 the kernel lacks it */
};

void weft_machine_iommu(const struct weft_device_roots *at, struct weft_machine_iommu *i);

struct weft_machine_clock {
	char current[32];    /**< the kernel's clock source; "": unknown */
	char available[128]; /**< with blanks between */
	bool x86;            /**< the processor has a TSC, of which the next is true or not */
	bool invariant;      /**< the TSC runs at one rate and never stops */
};

void weft_machine_clock(const struct weft_device_roots *at, struct weft_machine_clock *c);

enum weft_machine_cloud {
	WEFT_CLOUD_NONE = 0,
	WEFT_CLOUD_EC2,
	WEFT_CLOUD_GCE,
	WEFT_CLOUD_AZURE,
	WEFT_CLOUD_ORACLE,
	WEFT_CLOUD_ALIBABA,
	WEFT_CLOUD_OPENSTACK,
	WEFT_CLOUD_OTHER, /**< another provider of virtual machines; `vendor` names it */
};

/** Where the machine runs, by its DMI table. */
struct weft_machine_identity {
	enum weft_machine_cloud cloud;
	char vendor[64], product[64]; /**< of the machine; "": unknown */
	char kernel[64];              /**< its release */
	char cpu_vendor[16];          /**< "GenuineIntel", "AuthenticAMD"; "": unknown */
	bool hypervisor;              /**< a virtual machine */
	unsigned int cpus;            /**< online */
};

void weft_machine_identity(const struct weft_device_roots *at, struct weft_machine_identity *m);

/** Effective capabilities of this process, a bit each (linux/capability.h); 0: unknown. */
uint64_t weft_machine_caps(const struct weft_device_roots *at);

#endif /* WEFT_MACHINE_H */
