/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VOLCALL_RIG_H
#define VOLCALL_RIG_H

/** @file A client's volume on one of two whole stacks, and the fake target on the other one. */

#include <weft/volume.h>

#include "fake_target.h"
#include "rpc_side.h"
#include "weft_test.h"

struct vrig {
	struct vt t;             /**< its QPs are those of side[] */
	struct rpc_side side[2]; /**< the client's, the target's */
	struct fake_target f;
	struct weft_volume *v;
	/* a second connection of the two (vrig_second()) */
	struct weft_qp *qp2[2];
	struct weft_rpc *rpc2[2];
	struct fake_target f2;
	/** of the last opening or close */
	unsigned int told;
	int status;
	char why[128];
};

/** What the target serves instead of the fake one's program, if it is not NULL. */
extern const struct weft_rpc_program *const *vrig_programs;

/** Connect; the endpoint of the client has these attributes, as far as they are not the rig's. */
void vrig_connect(struct vrig *r, uint64_t seed, struct weft_rpc_attr client);
/** Connect, and open the volume. */
void vrig_open(struct vrig *r, uint64_t seed);
/** Connect once more. The target is another one there, and no volume is open. */
void vrig_second(struct vrig *r);
/** Close the volume, if there is one, and end all. */
void vrig_close(struct vrig *r);

struct weft_volume_attr vrig_attr(struct vrig *r);
/** For weft_volume_fn: arg is the rig. */
void vrig_told(void *arg, int status, const char *why);
/** Run until cond(arg). The case fails if that takes more than 60 simulated seconds. */
void vrig_until(struct vrig *r, bool (*cond)(void *arg), void *arg);
/** Run for ns. */
void vrig_run(struct vrig *r, uint64_t ns);
/** Open a volume, and wait for its status. */
int vrig_open_volume(struct vrig *r, const struct weft_volume_attr *a);
/** Close the volume, and wait for the status. */
int vrig_close_volume(struct vrig *r);
/** Submit a request, and wait for its end. */
int vrig_do(struct vrig *r, struct weft_volume_req *req);
/** For weft_volume_req.done, with an unsigned int as owner: count. */
void vrig_count(struct weft_volume_req *req);
/** The connection is lost: by the client's QP, which is destroyed. */
void vrig_cut(struct vrig *r);

#endif /* VOLCALL_RIG_H */
