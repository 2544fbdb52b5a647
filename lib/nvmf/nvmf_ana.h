/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NVMF_ANA_H
#define NVMF_ANA_H

/**
 * @file Asymmetric namespace access (NVMe Base 2.0 s8.1): what hosts with several paths are told of
 * this one. Each namespace is a group of its own, whose number is its NSID: so two targets of one
 * subsystem name the same groups, and each says which state it has for them.
 *
 * The state is that of the subsystem (weft_nvmf_ana()), or inaccessible while no group of the
 * target has a way to the namespace. It changes with the target's lock; a command reads it without.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct nvmf_ns;
struct weft_nvmf_subsys;

#define NVMF_ANATT_S 10U /**< ANATT: a change takes no longer */

/** Of a subsystem. */
struct nvmf_ana_subsys {
	bool on;
	/* lock */
	uint8_t state;  /**< enum weft_nvmf_ana_state */
	uint64_t count; /**< of changes */
	/** numbers of controllers: what other paths to the subsystem do not use */
	uint16_t cntlid_min, cntlid_max;
	uint32_t next_cntlid; /**< lock */
};

/** Of a namespace. */
struct nvmf_ana_ns {
	_Atomic uint8_t state; /**< enum weft_nvmf_ana_state; 0: there is no asymmetric access */
	uint64_t count;        /**< lock: of the subsystem, at the last change */
};

/** Of a controller. */
struct nvmf_ana_ctrl {
	_Atomic bool changed;
	bool masked; /**< group: the host has not read the log since its event */
};

/* ---- nvmf_ana.c: with the lock ---- */

/** Something has changed on which the namespace's state depends. */
void nvmf_ana_look(struct nvmf_ns *ns);

/* ---- nvmf_ana.c: any thread ---- */

/** The status for a command whose group has no way to the namespace, or whose device is away: a
 * host with several paths takes another one, if there is none here at all; else it looks again. */
uint16_t nvmf_ana_away(const struct nvmf_ns *ns);

#endif /* NVMF_ANA_H */
