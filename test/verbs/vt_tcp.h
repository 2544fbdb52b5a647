/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VT_TCP_H
#define VT_TCP_H

/** @file A peer of streams on node 0 of vt.h: a plain TCP connection to node 1, which sends octets
 * in pieces of any size, and keeps what it gets. */

#include "vt.h"
#include "weft_tcp.h"

struct vt_tcp {
	struct vt *t;
	struct weft_tcp_conn *c; /**< NULL: it has ended */
	bool up, eof, ended;
	int status;
	uint8_t *in; /**< what has come */
	size_t in_bytes, in_room;
	uint8_t *out; /**< what is to be sent */
	size_t out_bytes, out_room;
	uint32_t piece_bytes; /**< octets of a segment; 0: as many as fit */
};

/** Connect to this port of node 1, from an address of node 0; wait until that is done or refused.
 */
void vt_tcp_open(struct vt *t, struct vt_tcp *p, uint16_t port);
/** Send octets, as far as TCP has room; the rest when it has. */
void vt_tcp_send(struct vt_tcp *p, const void *data, size_t bytes);
/** The first octets that have come were used. */
void vt_tcp_used(struct vt_tcp *p, size_t bytes);
/** Close this side. */
void vt_tcp_fin(struct vt_tcp *p);
/** Reset the connection, if it is there, and free all. */
void vt_tcp_end(struct vt_tcp *p);

#endif /* VT_TCP_H */
