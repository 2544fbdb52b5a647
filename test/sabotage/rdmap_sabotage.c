/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Which streams of the process have a deliberate fault. */

#include "rdmap_sabotage.h"
#include "rdmap_irq.h"

static const struct weft_sched *wrong_sched;
static enum weft_rdmap_sabotage wrong;

void
rdmap_sabotage(const struct weft_sched *sched, enum weft_rdmap_sabotage fault)
{
	wrong_sched = sched;
	wrong = fault;
}

bool
rdmap_sabotaged(const struct weft_rdmap *r, enum weft_rdmap_sabotage fault)
{
	return wrong == fault && (wrong_sched == NULL || r->sched == wrong_sched);
}
