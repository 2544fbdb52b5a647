/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_STANDING_H
#define WEFT_STANDING_H

/**
 * @file Which accepted connection goes for a new one when a worker has no place left (RFC 5042
 * s6.4). Installed; the mechanism is asked for by weft_listen_attr.push_out, and only the consumer
 * knows what a connection is worth to it.
 */

#include <weft/api.h>

WEFT_API_BEGIN

struct weft_qp;

/** What the consumer knows of the peer of a connection, in the order in which connections go. */
enum weft_standing {
	/** nothing: it goes first when it is not in use and the newcomer's address has fewer */
	WEFT_STANDING_STRANGER,
	/** it holds something of the consumer's: likewise, where no stranger's that is quiet may be
	 * taken */
	WEFT_STANDING_HOLDER,
	WEFT_STANDING_KEPT, /**< it has shown who it is: it never goes */
};

/**
 * Say so of a QP; a new one is a stranger's. Counts for a connection that a listener with push_out
 * accepted. On the QP's worker or before weft_accept(). -EINVAL: no QP (weft/verbs.h, "Misuse"), or
 * standing none of the above. -EPERM: the QP is connected, and this is not its worker's thread.
 */
int weft_qp_set_standing(struct weft_qp *qp, enum weft_standing standing);

WEFT_API_END

#endif /* WEFT_STANDING_H */
