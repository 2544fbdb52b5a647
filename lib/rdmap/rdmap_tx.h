/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RDMAP_TX_H
#define RDMAP_TX_H

/**
 * @file
 * What is sent in a turn of the stream.
 */

#include "rdmap_stream.h"

enum rdmap_tx {
	RDMAP_TX_NONE,    /**< nothing to send now */
	RDMAP_TX_SENT,    /**< one message was sent */
	RDMAP_TX_BLOCKED, /**< no space below; `writable` follows */
	RDMAP_TX_BUDGET,  /**< the budget of this turn is used up */
	RDMAP_TX_STOP,    /**< the stream is ending */
};

/** The stream's task: its turn. */
void rdmap_on_task(struct weft_task *t, uint64_t now_ns);

#endif /* RDMAP_TX_H */
