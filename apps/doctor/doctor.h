/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_DOCTOR_H
#define WEFT_DOCTOR_H

/**
 * @file weft-doctor: what stands between this machine and a running target.
 *
 * Each look_*() looks at one subject and adds what it finds. What is known of the machine comes
 * from lib/device (sysfs and procfs); the verdicts are here. Nothing of the machine is changed but
 * by doctor_bind() and doctor_restore().
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "conf.h"
#include "weft_device.h"
#include "weft_machine.h"

#define DOCTOR_NICS_MAX     256
#define DOCTOR_FINDINGS_MAX 1024
#define DOCTOR_HUGE_MAX     (4 * WEFT_MACHINE_NODES_MAX)
#define DOCTOR_DEV_MAX      CONF_PATH_MAX /* octets of a device string */

enum doctor_level {
	DOCTOR_OK,   /**< as it should be */
	DOCTOR_NOTE, /**< a target runs, but slower or with a surprise */
	DOCTOR_STOP, /**< a target does not run, or no host can reach it */
};

struct doctor_finding {
	enum doctor_level level;
	const char *topic; /**< a fixed word for programs: "nic", "iommu", "hugepages" ... */
	char subject[96];  /**< what it is about: "0000:3b:00.0 (port p0)" */
	char what[384];    /**< the finding, in one sentence */
	/** the command, or line of the configuration, that removes the fault; "": none */
	char mend[384];
};

/** A NIC that is looked at. */
struct doctor_nic {
	struct weft_device_info info;
	const struct conf_port *port; /**< that names it; NULL: no configuration does */
	bool again;                   /**< the port is a bond, and an earlier NIC is of it, too */
	int error;                    /**< of weft_device_info(); 0: info is valid */
	bool ready;                   /**< weft_device_check() finds nothing */
	bool held;                    /**< the machine itself needs it (weft_device_hold.h) */
};

struct doctor {
	const struct weft_device_roots *at;
	struct weft_device_process as; /**< the rights of this process */
	bool configured;               /**< conf is the user's; else the defaults, without ports */
	struct conf conf;
	struct weft_machine_identity machine;
	struct weft_machine_iommu iommu;
	struct weft_machine_clock clock;
	struct weft_machine_huge huge[DOCTOR_HUGE_MAX];
	unsigned int nhuge;
	unsigned int nodes;
	struct doctor_nic nics[DOCTOR_NICS_MAX];
	unsigned int nnics;
	struct doctor_finding findings[DOCTOR_FINDINGS_MAX];
	unsigned int nfindings;
};

/* ---- doctor_find.c ---- */

/** Add a finding without a sentence. Beyond the limit the last one is used again. */
struct doctor_finding *doctor_add(struct doctor *d, enum doctor_level level, const char *topic,
                                  const char *subject);
/** Set the sentence of a finding. */
void doctor_what(struct doctor_finding *f, const char *fmt, ...)
        __attribute__((format(printf, 2, 3)));
/** Set the command of a finding. */
void doctor_mend(struct doctor_finding *f, const char *fmt, ...)
        __attribute__((format(printf, 2, 3)));
/** Number of findings of a level. */
unsigned int doctor_count(const struct doctor *d, enum doctor_level level);

/* ---- doctor_need.c ---- */

/** Octets that the buffers of a port take in pages of that size. */
uint64_t doctor_port_bytes(const struct doctor *d, const struct conf_port *p, uint32_t page_bytes);
/** MiB of memory that the configuration needs: memory_mb, or what the buffers of all ports take in
 * pages of that size if that is more. */
uint64_t doctor_need_mb(const struct doctor *d, uint32_t page_bytes);
/** Pages that hold so many MiB. */
uint64_t doctor_pages(uint64_t mb, uint64_t page_bytes);
/** Pages of a size on all nodes together; false: there is no such size. */
bool doctor_huge_of_size(const struct doctor *d, uint64_t page_bytes,
                         struct weft_machine_huge *sum);
/** The size of hugepages of which enough are free; else the least usable one. 0: there is none. */
uint64_t doctor_huge_size(const struct doctor *d, bool *enough);
/** Whether a program gets hugepages: enough of one size are free, and it may have them. */
bool doctor_huge_enough(const struct doctor *d);
/** What findings about a NIC call it: "0000:3b:00.0 (port p0)". */
void doctor_nic_subject(const struct doctor_nic *n, char *buf, size_t size);
struct weft_device_hold;
/** The machine needs the NIC: its route or SSH connection would be lost with it. `port`: that names
 * the NIC, or NULL. `level`: how bad that is. */
struct doctor_finding *doctor_held(struct doctor *d, enum doctor_level level,
                                   const struct conf_port *port, const char *subject,
                                   const struct weft_device_hold *hold);

/* ---- doctor_look.c ---- */

/**
 * Look at everything. Of *d `at`, `as`, `configured` and `conf` are set, the rest is zero. Any
 * thread; changes nothing.
 */
void doctor_look(struct doctor *d);

/* ---- look_*.c: one subject each, after the facts in struct doctor are complete ---- */

void look_nics(struct doctor *d);
void look_iommu(struct doctor *d);
void look_memory(struct doctor *d);
void look_cpus(struct doctor *d);
void look_links(struct doctor *d);
void look_cloud(struct doctor *d);
void look_clock(struct doctor *d);

/* ---- doctor_print.c ---- */

/** Print the report for people. quiet: only what stands in the way. */
void doctor_print(const struct doctor *d, bool quiet, FILE *out);
/** Print the report as a JSON document. */
void doctor_print_json(const struct doctor *d, FILE *out);

/* ---- doctor_bind.c ---- */

/** How files of sysfs are written. A test gives its own, which acts as the kernel would. */
struct doctor_kernel {
	/** Write text to a file. 0 or -errno. */
	int (*put)(void *arg, const char *path, const char *text);
	/** Load the module of that name. 0 or -errno. */
	int (*load)(void *arg, const char *module);
	void *arg;
};

extern const struct doctor_kernel doctor_real_kernel;

/**
 * Give a NIC to a driver for DPDK. driver NULL: vfio-pci where there is an IOMMU or vfio's mode
 * without one, else uio_pci_generic. The driver that the NIC had before is written to
 * ROOTS.run/weft-doctor/ADDRESS. The NIC is not taken from a program that uses it; and from the
 * machine, where its default route or an SSH connection uses the NIC, only with `yes`. After an
 * error the NIC is given back to the driver that it had. `said` gets one line: what was done, or
 * why not.
 *
 * 0 (also if the NIC has that driver already); -EINVAL (no PCI address; no driver for DPDK),
 * -ENODEV (no such NIC), -EBUSY (a program uses it), -EADDRINUSE (the machine needs it, or DPDK
 * shares it with its driver), -ENOENT (the driver is not there), -EACCES (no root), or another
 * error of the kernel.
 */
int doctor_bind(const struct weft_device_roots *at, const struct doctor_kernel *k, const char *dev,
                const char *driver, bool yes, char *said, size_t size);

/**
 * Give a NIC back to the driver that doctor_bind() took it from. If nothing is written of it (the
 * machine was restarted, or another program bound it), the kernel chooses the driver. Errors as of
 * doctor_bind().
 */
int doctor_restore(const struct weft_device_roots *at, const struct doctor_kernel *k,
                   const char *dev, char *said, size_t size);

#endif /* WEFT_DOCTOR_H */
