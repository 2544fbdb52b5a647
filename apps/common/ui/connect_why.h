/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_CONNECT_WHY_H
#define WEFT_APPS_CONNECT_WHY_H

/** @file Why no connection could be made, and what to do about it, in one line. */

#include <stddef.h>

#include <weft/weft.h>

/** What the line names, in the words of the program that prints it. */
struct connect_ask {
	const char *server; /**< what has to run at the other end: "weft-target" */
	const char *there;  /**< where that end was given: "the address and --port" */
	const char *here;   /**< where this end's network was given: "--address" */
};

/**
 * Write the error of an attempt to connect, -errno, and after the errors of a network what to do.
 * port is the one that was used, or NULL if there are several. Returns buf.
 */
const char *connect_why(const struct connect_ask *ask, struct weft_port *port, int err, char *buf,
                        size_t size);
/** Why a port without a link has none, and what to do; NULL: it has one. A server of net_memif that
 * has another client refuses only in that way. */
const char *connect_no_link(struct weft_port *port);

#endif /* WEFT_APPS_CONNECT_WHY_H */
