/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NVMF_LOSS_H
#define NVMF_LOSS_H

/**
 * @file What a host has written to the namespaces of a subsystem and not flushed, so that its next
 * Flush fails if that was lost with a flush of the device.
 *
 * All controllers of a host share it: a host with several paths flushes on one of them what it has
 * written on the other, and one that has connected again flushes what it wrote before. So it
 * outlives the host's last controller while it has unflushed writes. A subsystem keeps
 * NVMF_LOSS_KEPT of these; the oldest one goes, and is counted.
 */

#include "nvmf_priv.h"

#define NVMF_LOSS_KEPT 64U

struct nvmf_losses;

/** Those of a host, with one more controller. With the target's lock. NULL: no memory. */
struct nvmf_losses *nvmf_loss_get(struct weft_nvmf_subsys *s, const char *hostnqn,
                                  const uint8_t hostid[16]);
/** A controller has ended. With the target's lock. Does nothing for NULL. */
void nvmf_loss_put(struct weft_nvmf_subsys *s, struct nvmf_losses *l);
/** The subsystem, which has no controller, ends. */
void nvmf_loss_end(struct weft_nvmf_subsys *s);

/* Any thread: */

/** A change was done that has to be flushed. lost_flushes: of its operation. */
void nvmf_loss_changed(struct nvmf_losses *l, uint32_t nsid, uint32_t lost_flushes);
/** The changes that a flush which begins now covers; dirty: whether one of them is unflushed. */
uint64_t nvmf_loss_mark(struct nvmf_losses *l, uint32_t nsid, bool *dirty);
/** A flush was done that covers the changes before `mark`. True: some were lost before. `tell`: the
 * host is told of that now. */
bool nvmf_loss_flushed(struct nvmf_losses *l, uint32_t nsid, uint64_t mark, uint32_t lost_flushes,
                       bool tell);
/** A Flush has failed, of which the host is told. */
void nvmf_loss_told(struct nvmf_losses *l, uint32_t nsid, uint32_t lost_flushes);

#endif /* NVMF_LOSS_H */
