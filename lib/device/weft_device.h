/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_DEVICE_ROOM_H
#define WEFT_DEVICE_ROOM_H

/** @file PCI devices for the rooms above, and with the folders of a test. Internal. */

#include <weft/device.h>

#define WEFT_DEVICE_CLASS_NETWORK 0x02u /**< the upper octet of a class code */

/** Where the kernel shows devices, and the machine that they are in. */
struct weft_device_roots {
	const char *sys;  /**< "/sys" */
	const char *dev;  /**< "/dev" */
	const char *proc; /**< "/proc" */
	const char *run;  /**< "/run": files that a restart of the machine removes */
};

extern const struct weft_device_roots weft_device_kernel;

/**
 * The full address of a device: "03:00.0,arg=1" becomes "0000:03:00.0". -EINVAL: `dev` does not
 * begin with a PCI address.
 */
int weft_device_address(const char *dev, char address[16]);
/** The arguments behind the address, without the comma; "": none. */
const char *weft_device_args(const char *dev);

/** Whether a device string names a port of DPDK's driver net_bonding. */
bool weft_device_is_bond(const char *dev);
/** The next argument at *at, whose length becomes *len, and *at moves behind it. A comma within []
 * is part of an argument. NULL: there is none. */
const char *weft_device_next_arg(const char **at, size_t *len);
/** Whether an argument of a bonded port names a slave: *slave and *len are then the slave with its
 * arguments. */
bool weft_device_slave(const char *arg, size_t *len, const char **slave);

/** Whether a device string names a device of DPDK's driver net_af_xdp. */
bool weft_device_is_xdp(const char *dev);
/**
 * The interface of the kernel whose frames a device of net_af_xdp takes; "": `dev` is no such
 * device, or a program of the user's (xdp_prog) chooses the frames.
 */
void weft_device_xdp_iface(const char *dev, char ifname[16]);

/**
 * Whether a device string names a client of net_memif whose rings have the port's own mbufs
 * (zero-copy=yes). DPDK's driver then wants EAL's --single-file-segments.
 */
bool weft_device_is_zero_copy(const char *dev);

/** weft_device_info() with other roots. */
int weft_device_info_at(const struct weft_device_roots *at, const char *dev,
                        struct weft_device_info *info);
/** weft_device_each() with other roots. */
int weft_device_each_at(const struct weft_device_roots *at,
                        int (*fn)(const struct weft_device_info *info, void *arg), void *arg);

/**
 * The kernel's interfaces on a device, at most `max`; returns how many. A device may have several,
 * and one that is bound for DPDK has none.
 */
unsigned int weft_device_ifnames(const struct weft_device_roots *at, const char *dev,
                                 char names[][16], unsigned int max);

/** What weft_device_check() judges by, beside the device. */
struct weft_device_process {
	bool root; /**< may do what needs root: CAP_SYS_RAWIO */
	/** RLIMIT_MEMLOCK; UINT64_MAX: no limit, or CAP_IPC_LOCK, which vfio exempts from it */
	uint64_t memlock_bytes;
};

/** The rights of this process. */
void weft_device_self(struct weft_device_process *as);

/** What prevents the use of a device, and the command that removes the cause; each "": nothing. */
struct weft_device_verdict {
	char what[256];
	char mend[256];
};

/** weft_device_check() with other roots, for a process with other rights, and in two parts. */
int weft_device_judge(const struct weft_device_roots *at, const struct weft_device_process *as,
                      const char *dev, const struct weft_device_need *need,
                      struct weft_device_verdict *v);

/** The same in one line. */
int weft_device_check_at(const struct weft_device_roots *at, const struct weft_device_process *as,
                         const char *dev, const struct weft_device_need *need, char *why,
                         size_t why_size);

/**
 * Take the device for this process: *fd is a lock that ends with the process, or with close().
 * The kernel does not keep two programs apart on a device bound to uio; each would ruin the other.
 * -EINVAL, -ENOENT (no such device), -EBUSY (another process has the lock).
 */
int weft_device_lock(const struct weft_device_roots *at, const char *dev, int *fd);

/** How a device answers a read of its configuration space. */
enum weft_device_answer {
	WEFT_DEVICE_ANSWERS,
	WEFT_DEVICE_SILENT, /**< all ones: pulled out, or for a moment while it is reset */
	WEFT_DEVICE_REMOVED /**< the kernel has removed it, also if another one has its address */
};

/** Open a device for weft_device_ask(); the caller closes *fd. -EINVAL, -ENOENT (no such device),
 * other -errno of open(). */
int weft_device_open(const struct weft_device_roots *at, const char *dev, int *fd);
/** Ask a device whether it is still there. `fd`: of weft_device_open(). Any thread. */
enum weft_device_answer weft_device_ask(int fd);

#endif /* WEFT_DEVICE_ROOM_H */
