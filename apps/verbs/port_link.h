/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_VERBS_PORT_LINK_H
#define WEFT_APPS_VERBS_PORT_LINK_H

/**
 * @file The links of the ports. A link in shared memory does not come back when the peer's process
 * has ended, so the connections end then. Programs hear of a link by asynchronous events.
 */

#include <infiniband/verbs.h>

/** Watch all links, from the first context on. Under the engine's lock. */
void wv_link_watch(void);

#endif /* WEFT_APPS_VERBS_PORT_LINK_H */
