/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_STANDING_H
#define WEFT_STANDING_H

/**
 * @file The standing of a connection: which accepted connection a worker resets for a new one when
 * it has no place left (RFC 5042 s6.4). Installed; stands alone. weft_listen_attr.push_out enables
 * this. Only the consumer knows what a connection is worth to it.
 */

#include <weft/api.h>

WEFT_API_BEGIN

struct weft_qp;

/**
 * What the consumer knows of the peer of a connection, in the order in which connections are reset.
 */
enum weft_standing {
	/**
	 * Nothing. The connection is reset first, if it is not in use and the address of the new
	 * peer has fewer connections.
	 */
	WEFT_STANDING_STRANGER,
	/**
	 * The peer holds a resource of the consumer. Reset under the same condition, if no idle
	 * connection of a stranger can be reset.
	 */
	WEFT_STANDING_HOLDER,
	WEFT_STANDING_KEPT, /**< The peer has shown who it is. Never reset. */
};

/**
 * Set the standing of a QP. A new QP has WEFT_STANDING_STRANGER. Only connections that a listener
 * with push_out accepted use it. Called on the QP's worker, or before weft_accept(). -EINVAL: no QP
 * (weft/verbs.h, "Misuse"), or an unknown standing. -EPERM: the QP is connected, and this is not
 * its worker's thread.
 */
int weft_qp_set_standing(struct weft_qp *qp, enum weft_standing standing);

WEFT_API_END

#endif /* WEFT_STANDING_H */
