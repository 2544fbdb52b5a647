/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RPCRDMA_OBSERVER_STACK_H
#define RPCRDMA_OBSERVER_STACK_H

/**
 * @file Attaches the observer to two complete stacks. It sees each work request passed to
 * weft_post_send() (through the linker's --wrap), and each received message when its completion is
 * taken, before the endpoint processes it. The network between the stacks may lose and reorder
 * packets.
 */

#include "observer_core.h"
#include <weft/verbs.h>

/** Start to observe. Only one observer may exist at a time. own_wr_id: wr_id of work that the test
 * posts beside the endpoint and that is not observed; 0: none. */
void obs_stack(struct obs *o, const struct weft_qp *client, const struct weft_qp *server,
               uint64_t own_wr_id);
/** Report a completion on qp. The caller passes it to the endpoint afterwards. */
void obs_stack_wc(struct weft_qp *qp, const struct weft_wc *wc);

#endif /* RPCRDMA_OBSERVER_STACK_H */
