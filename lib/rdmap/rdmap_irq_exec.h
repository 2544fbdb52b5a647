/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RDMAP_IRQ_EXEC_H
#define RDMAP_IRQ_EXEC_H

/**
 * @file
 * The inbound request queue (IRQ): execution.
 */

#include "rdmap_irq.h"

/** Execute requests as far as possible. Queues the task when only this poll's slice is used up. */
void rdmap_irq_run(struct weft_rdmap *r);
/** Look the STag up again. True: it no longer allows the request, which has failed in its place. */
bool rdmap_irq_revoked(struct weft_rdmap *r, struct rdmap_irq_ent *e);
/** Whether the request, which is the next one to execute, waits at its region's gate. The task is
 * queued when it may go on. */
bool rdmap_irq_waits(struct weft_rdmap *r, struct rdmap_irq_ent *e);
/** Fail the request if its medium is gone. */
bool rdmap_irq_lost(struct weft_rdmap *r, struct rdmap_irq_ent *e);

#endif /* RDMAP_IRQ_EXEC_H */
