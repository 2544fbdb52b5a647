/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_NVMF_RESV_H
#define WEFT_NVMF_RESV_H

/**
 * @file The part of a target's owner in reservations of volumes: see weft_nvmf.h, which includes
 * this.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct weft_nvmf;

/** What those may do with a volume that are no registrants of its reservation. */
enum weft_nvmf_others {
	WEFT_NVMF_OTHERS_ALL, /**< no reservation is held */
	WEFT_NVMF_OTHERS_READ,
	WEFT_NVMF_OTHERS_NOTHING,
};

/** Reservations of a volume that are about to change. It stays as it is until
 * weft_nvmf_resv_changed(). */
struct weft_nvmf_resv_change {
	uint8_t uuid[16]; /**< of the volume */
	void *owner; /**< weft_nvmf_ns_attr.owner of a namespace of it, which stays until then */
	/** What others may do that reach the volume on other ways than the target's. */
	enum weft_nvmf_others others;
	bool keep;        /**< `data` is to take the place of what was kept */
	const void *data; /**< of `bytes` octets, at most WEFT_NVMF_RESV_MAX_BYTES */
	size_t bytes;
	struct weft_nvmf_resv_change *next; /**< for the target's owner */
};

#define WEFT_NVMF_RESV_MAX_BYTES 4096U

/**
 * The target's owner has a part in reservations: it keeps those that survive a restart, and keeps
 * others away that use a volume without the target.
 */
struct weft_nvmf_resv_ops {
	/**
	 * Let others do no more than c->others; then, with c->keep, make c->data durable, so that
	 * after a crash all of it is there or all that was kept before; then let others do
	 * c->others. The command that asked for the change is answered after
	 * weft_nvmf_resv_changed(), which is called later, by any thread, not inside. Called with
	 * the target's lock held: must not block, and must not call the target. There is one change
	 * of a volume at a time.
	 */
	void (*change)(void *owner, struct weft_nvmf_resv_change *c);
	bool persists; /**< there is a place to keep them */
	void *owner;
};

/** weft_nvmf_resv_ops.change() of this volume is done (0), or has failed and nothing has changed
 * (-errno). Any thread; does nothing if none is under way. */
void weft_nvmf_resv_changed(struct weft_nvmf *t, const uint8_t uuid[16], int status);

/**
 * The volume is given up: nothing of its reservations is left in memory, so the next namespace of
 * it begins with what its attributes say (weft_nvmf_ns_attr.resv). Any thread. -EBUSY: a namespace
 * has it.
 */
int weft_nvmf_resv_forget(struct weft_nvmf *t, const uint8_t uuid[16]);

/** What others may do by what was kept of a volume (weft_nvmf_resv_change.data), for an owner whose
 * namespace of it cannot be added. Any thread. -EBADMSG: it is not whole, or of another volume. */
int weft_nvmf_resv_others(const void *data, size_t bytes, const uint8_t uuid[16],
                          enum weft_nvmf_others *others);

#endif /* WEFT_NVMF_RESV_H */
