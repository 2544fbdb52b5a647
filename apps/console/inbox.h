/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_CONSOLE_INBOX_H
#define WEFT_CONSOLE_INBOX_H

/**
 * @file Completions on their way from the workers to the main thread. The console's CQ has a
 * callback, which runs on the worker. It gives those of traffic to traffic_take(), and puts the
 * others into a ring that the main thread empties.
 */

#include <weft/weft.h>

/** Make the ring, for so many completions, and the CQ. 0; -errno. */
int inbox_create(struct weft_ctx *ctx, uint32_t depth, struct weft_cq **out);
/** Take up to n completions. Main thread, as the following. */
unsigned int inbox_take(struct weft_wc *wc, unsigned int n);
/** Make inbox_fd() readable at the next completion. True: some wait already. */
bool inbox_arm(void);
/** Eventfd; reading 8 octets clears it. */
int inbox_fd(void);

#endif /* WEFT_CONSOLE_INBOX_H */
