/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_STREAM_H
#define WEFT_STREAM_H

/**
 * @file Streams: connections of peers that speak TCP alone, without MPA and RDMA, for protocols
 * that bring their own framing (NVMe/TCP). Installed; stands alone.
 *
 * A listener has a part on each worker with a fitting address. A stream lives on the worker that
 * its connection came to, and every call with it is made on that worker's thread: in a callback, in
 * a poller, or in weft_worker_call(). On another thread a call does nothing and returns -EPERM,
 * where it returns anything.
 *
 * What arrives is given to the owner at once, in order, and the stream keeps none of it: the owner
 * takes all of it and limits by its own protocol what a peer may send. What the owner writes is
 * copied. It leaves in full segments, and at the end of the worker's turn in whatever there is.
 *
 * NULL, destroyed handles and handles of another kind are refused, and attributes of another
 * version are accepted, as weft/verbs.h says ("Misuse").
 */

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <weft/api.h>

WEFT_API_BEGIN

struct weft_ctx;
struct weft_stream;
struct weft_stream_listener;
struct weft_worker;

/** Callbacks of a stream, all required. Each may call any function of this header. */
struct weft_stream_ops {
	/** Octets have arrived. data is valid during the call. */
	void (*received)(void *user, const void *data, size_t bytes);
	/** weft_stream_write() has taken less than it was given, and takes more now. */
	void (*writable)(void *user);
	/** The peer sends nothing more. The owner may still write, and closes in the end. */
	void (*eof)(void *user);
	/**
	 * The stream has ended; its handle is invalid already. status: 0: both sides have
	 * closed; else -ECONNRESET, -ETIMEDOUT, -EHOSTUNREACH, -ECONNABORTED, -ENOBUFS or -ENODEV.
	 * Not called after weft_stream_abort().
	 */
	void (*ended)(void *user, int status);
};

struct weft_stream_listen_attr {
	size_t size; /**< sizeof(struct weft_stream_listen_attr) */
	/**
	 * A connection has come; on the thread of worker w. 0: it is taken, and
	 * weft_stream_set_user() was called for s. Else it is reset, and the handle is invalid.
	 */
	int (*accept)(void *user, struct weft_stream *s, struct weft_worker *w,
	              const struct sockaddr_storage *remote);
	void *user;       /**< of accept */
	uint32_t backlog; /**< [128] half-open connections, per worker */
	/** [0: off] TCP keepalive of streams: idle time before the first probe */
	uint32_t keepalive_us;
	/**
	 * [half of the worker's max_conns, or of the number the port's buffers suffice for, at
	 * least 8] Connections of one remote address (for IPv6, one /64 unless link-local) on one
	 * worker, of whatever listener. One more is reset, and counted in conns_refused_peer of
	 * weft_worker_stats.
	 */
	uint32_t max_conns_per_peer;
	/** [0: the address alone] as in weft_listen_attr */
	uint8_t prefix_len;
	/** [0: the port's] WEFT_DSCP() of what is sent */
	uint64_t dscp;
	/** [0: no other bound] as in weft_listen_attr: streams that `accept` takes on a worker */
	uint32_t max_conns;
};

/**
 * Accept connections at this address and port, on each worker that has the address; the unspecified
 * address: on each worker. Any thread. Waits for the polls of the workers, as weft_listen() does.
 * -EINVAL; -EADDRINUSE: another listener has the port, of whatever kind; -EADDRNOTAVAIL: no worker
 * has the address; -EAFNOSUPPORT, -ENOMEM.
 */
int weft_stream_listen(struct weft_ctx *ctx, const struct sockaddr *addr, socklen_t addr_len,
                       const struct weft_stream_listen_attr *attr,
                       struct weft_stream_listener **out);
/** Stop listening. Streams that were accepted go on. Any thread. */
void weft_stream_unlisten(struct weft_stream_listener *l);

/** Set the callbacks, which outlive the stream. -EINVAL, -EPERM. */
int weft_stream_set_user(struct weft_stream *s, const struct weft_stream_ops *ops, void *user);
/**
 * Write the octets of n pieces, as many as there is room for. Returns how many were taken; if not
 * all were, `writable` follows. The congestion window, the peer's window and the buffers limit
 * them, and so does a share of the worker's time: a few ten KiB for each call. -EPIPE: the stream
 * was closed. -EINVAL, -EPERM.
 */
ssize_t weft_stream_write(struct weft_stream *s, const struct iovec *iov, unsigned int n);
/** Close this side behind what was written. `ended` follows when the peer has closed, too. Octets
 * still arrive until then. Does nothing the second time. -EINVAL, -EPERM. */
int weft_stream_close(struct weft_stream *s);
/** Reset the connection. No callback follows, and the handle is invalid. */
void weft_stream_abort(struct weft_stream *s);

WEFT_API_END

#endif /* WEFT_STREAM_H */
