/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RPCRDMA_OBSERVER_H
#define RPCRDMA_OBSERVER_H

/** @file The observer of the wire between the two endpoints of a rig. */

#include "observer_core.h"
#include "rig.h"

/** Observe the rig in place of its auditor. Only one observer may exist at a time. */
void obs_watch(struct obs *o, struct rig *r);

#endif /* RPCRDMA_OBSERVER_H */
