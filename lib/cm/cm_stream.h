/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CM_STREAM_H
#define CM_STREAM_H

/**
 * @file Streams (weft/stream.h): connections without MPA. A stream, and the part of a listener on a
 * worker, belong to that worker's thread.
 */

#include <weft/stream.h>
#include "cm_conn.h"

/** A listener's part on one worker. */
struct cm_stream_lsn {
	struct weft_work_item open, close; /**< work items to its worker */
	struct weft_stream_listener *l;
	struct weft_vworker *vw;
	struct weft_tcp_listener *tcp;
	struct weft_ip addr;  /**< that of the listener, as the worker's interfaces write it */
	atomic_bool answered; /**< its work item has run */
};

struct weft_stream_listener {
	struct weft_handle h;
	struct weft_vctx *ctx;
	struct weft_stream_listen_attr attr;
	struct weft_ip addr;
	uint8_t bits; /**< of addr that a local address must have; 0: any address */
	uint16_t port;
	int dscp;              /**< WEFT_TCP_DSCP_PORT: the port's */
	_Atomic uint32_t refs; /**< handle, work items */
	atomic_bool closed;    /**< weft_stream_unlisten() was called */
	unsigned int nparts;
	struct cm_stream_lsn part[WEFT_MAX_WORKERS];
	TAILQ_ENTRY(weft_stream_listener) all;
};

struct weft_stream {
	struct weft_handle h;
	struct weft_vworker *vw;
	struct weft_tcp_conn *tcp; /**< NULL: it has ended */
	const struct weft_stream_ops *ops;
	void *user;
	struct cm_push_stream push; /**< and its peer */
	struct rte_mbuf *seg;       /**< under construction; NULL: none */
	uint32_t seg_room_bytes;
	bool wants_turn;               /**< a write has used up its share of the worker's time */
	bool closed;                   /**< by the owner */
	struct weft_task task;         /**< sends `seg`, and lets the owner write more */
	struct weft_work_item later;   /**< frees it outside of up-calls */
	TAILQ_ENTRY(weft_stream) link; /**< of the worker */
};

/** TCP offers a connection: weft_tcp_accept_fn of a listener's part. cm_stream.c */
int cm_stream_accept(void *arg, struct weft_tcp_conn *c);
/** Reset and free every stream of a worker, without callbacks. cm_stream.c */
void cm_stream_free_all(struct weft_vworker *vw);

/** Close all listeners. cm_stream_listen.c */
void cm_stream_unlisten_all(struct weft_vctx *v);

#endif /* CM_STREAM_H */
