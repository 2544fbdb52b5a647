/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_DEVICE_H
#define WEFT_DEVICE_H

/**
 * @file PCI devices as the kernel shows them: what a NIC is bound to, and what still prevents a
 * program from using it. Installed; stands alone.
 *
 * These functions read /sys and /dev. They need neither EAL nor root, open no network device and
 * change nothing, so they may be called before weft_env_init(), from any thread. A device is named
 * by its PCI address: "0000:3b:00.0", or "3b:00.0" in domain 0. Arguments for its driver may follow
 * behind a comma, as in weft_port_attr.dev.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/api.h>

WEFT_API_BEGIN

/** What holds a device. */
enum weft_device_binding {
	WEFT_DEVICE_UNBOUND = 0, /**< no driver of the kernel */
	WEFT_DEVICE_VFIO,        /**< vfio-pci: for DPDK, with an IOMMU */
	WEFT_DEVICE_UIO,         /**< uio_pci_generic or igb_uio: for DPDK, root only */
	/** a network driver of the kernel with which DPDK shares the device (mlx4, mlx5) */
	WEFT_DEVICE_BIFURCATED,
	WEFT_DEVICE_KERNEL, /**< another driver of the kernel */
};

struct weft_device_info {
	size_t size;      /**< sizeof(struct weft_device_info) */
	char address[16]; /**< with its domain: "0000:3b:00.0" */
	uint16_t vendor_id, device_id;
	uint32_t class_code; /**< 0x020000: an Ethernet controller */
	enum weft_device_binding binding;
	char driver[32]; /**< the kernel's driver; "": none */
	char ifname[16]; /**< an interface of the kernel on this device; "": none */
	int numa_node;   /**< -1: unknown */
	int iommu_group; /**< -1: none, because no IOMMU translates for it */
};

/** Whether a device string of weft_port_attr.dev names a PCI device: it begins with an address. */
bool weft_device_is_pci(const char *dev);

/**
 * The devices that a device string of weft_port_attr.dev stands for, by number from 0: the slaves
 * of a bonded port ("net_bonding0,mode=1,slave=0000:3b:00.0,slave=[net_af_packet0,iface=eth1]"),
 * each with its arguments and without brackets, and of any other device itself. buf gets at most
 * `size` octets, the terminating zero included. -ENOENT (no more), -ENOSPC, -EINVAL (NULL, or no
 * octets).
 */
int weft_device_member(const char *dev, unsigned int i, char *buf, size_t size);

/** Whether what has this name, of len octets, is not to be shown: it has key, secret, passw or
 * token in it, in letters of either case. */
bool weft_device_is_secret(const char *name, size_t len);
/**
 * A device string as it may be shown: the values of arguments that weft_device_is_secret() names,
 * such as `secret` of net_memif, are "(removed)". A value reaches to a comma outside of brackets,
 * or to the bracket that ends the list around it. The string may be any list of NAME=VALUE. buf
 * gets at most `size` octets, the terminating zero included; what finds no room is left out.
 * Returns buf, or "" if it is NULL or has no octets. Of dev NULL buf becomes empty.
 */
const char *weft_device_clean(const char *dev, char *buf, size_t size);

/**
 * What the kernel says of a device. `info`: its `size` is filled in by the caller. -EINVAL (no PCI
 * address, `info`), -ENOENT (no such device).
 */
int weft_device_info(const char *dev, struct weft_device_info *info);

/**
 * Call fn() for each PCI device of the network class, in the order of addresses, until it returns
 * other than 0, which is then returned. `info` is valid during the call. -ENOMEM.
 */
int weft_device_each(int (*fn)(const struct weft_device_info *info, void *arg), void *arg);

/** What a program is about to do with a device. */
struct weft_device_need {
	size_t size;        /**< sizeof(struct weft_device_need) */
	uint32_t memory_mb; /**< weft_env_attr.memory_mb: what the device is to reach, in MiB */
	bool hugepages;     /**< that memory consists of hugepages */
	/**
	 * Open the device even if the machine needs an interface that the kernel keeps on it: the
	 * default route or an SSH connection uses it. An open port takes the frames of that
	 * interface.
	 */
	bool take_needed;
	uint8_t reserved[7]; /**< 0; makes `size` differ from that of earlier versions */
};

/**
 * Whether this process could open a device for DPDK now. If not, `why` gets one line without a line
 * feed: what is wrong, and the command that helps. The line does not begin with the device: the
 * caller names it ("port p0 (0000:3b:00.0): it has no driver: ..."). After 0 it is empty. At most
 * `why_size` octets are written, the terminating zero included.
 *
 * `dev` may also be a device of DPDK's driver net_af_xdp ("net_af_xdp0,iface=eth0"). Of such a
 * device only this is looked at: whether the machine needs its interface (`take_needed`).
 *
 * 0, or -EINVAL (no PCI address, or an attribute), -ENODEV (no such device), -ENXIO (no driver is
 * bound), -EADDRINUSE (a driver of the kernel holds it, or a part of its IOMMU group; or the
 * machine needs its interface), -EBUSY (another process uses it), -EACCES (permissions), -ENOMEM
 * (the limit on locked memory, which CAP_IPC_LOCK lifts), -ENOTSUP (no hugepages where the driver
 * needs physical addresses), or another -errno of opening the group of vfio or of reading the
 * machine's routes.
 *
 * 0 is no promise: the state may change, and drivers have requirements of their own.
 */
int weft_device_check(const char *dev, const struct weft_device_need *need, char *why,
                      size_t why_size);

WEFT_API_END

#endif /* WEFT_DEVICE_H */
