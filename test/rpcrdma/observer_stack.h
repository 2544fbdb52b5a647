/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RPCRDMA_OBSERVER_STACK_H
#define RPCRDMA_OBSERVER_STACK_H

/**
 * @file The observer between two whole stacks: it sees what is handed to weft_post_send() (the
 * linker's --wrap), and each message as its completion is taken, before the endpoint looks at it.
 * What is between the two is a network, and may lose and reorder what it likes.
 */

#include "observer_core.h"
#include <weft/verbs.h>

/** One at a time. own_wr_id: work of the consumer's own beside the endpoint's, which is not looked
 * at; 0: none. */
void obs_stack(struct obs *o, const struct weft_qp *client, const struct weft_qp *server,
               uint64_t own_wr_id);
/** A completion on qp that the endpoint is given next. */
void obs_stack_wc(struct weft_qp *qp, const struct weft_wc *wc);

#endif /* RPCRDMA_OBSERVER_STACK_H */
