/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Attaches the observer to a rig. */

#include "observer.h"

void
obs_watch(struct obs *o, struct rig *r)
{
	struct weft_qp *qp[2] = {&r->c.qp, &r->s.qp};

	obs_begin(o, qp[0], qp[1]);
	for (unsigned int i = 0; i < 2; i++) {
		qp[i]->on_post = obs_on_post;
		qp[i]->on_arrive = obs_on_arrive;
		qp[i]->on_access = obs_on_access;
		qp[i]->on_invalidate = obs_on_invalidate;
	}
}
