/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_NVMF_TRANSPORT_H
#define WEFT_NVMF_TRANSPORT_H

/**
 * @file What a transport does for the controllers of weft_nvmf.h, and what it calls. A transport
 * moves capsules, and data between the host and memory that is given to it. It knows nothing of
 * commands; controllers know nothing of connections.
 *
 * A connection is a *queue* (struct weft_nvmf_queue) of one group, whose thread makes all calls in
 * both directions. Its life:
 *
 * 1. weft_nvmf_queue_open() when a host has connected. Its first command has to be Connect.
 * 2. weft_nvmf_command() for each capsule. For each command that was taken, the controller calls
 *    ops->release() once, ops->pull() at most once, and ops->answer() at most once, in this order.
 *    Each of these calls may be made inside any call of the transport.
 * 3. weft_nvmf_queue_lost() when the connection has ended, for whatever reason. The controller asks
 *    for that by ops->close(). Nothing is pulled or answered any more. The transport ends what it
 *    has of the queue's commands with weft_nvmf_pulled() and weft_nvmf_sent() as ever: their memory
 *    is used until then.
 * 4. ops->gone() when no command has memory any more, in weft_nvmf_group_poll(). The queue is gone
 *    with the return.
 */

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "weft_nvmf_wire.h"

struct weft_nvmf_group;
struct weft_nvmf_queue;

/** A command as the transport sees it. Valid from ops->pull() or ops->answer() to its end. */
struct weft_nvmf_cmd {
	struct weft_nvmf_queue *queue;
	uint16_t cid;             /**< the host's name for it */
	struct weft_nvmf_sgl sgl; /**< where the host has the data: KEYED or TRANSPORT */
	/** Memory of the group for sgl.bytes octets; with ops->answer(): push_bytes octets. */
	const struct iovec *iov;
	uint32_t iovs;
	/** ops->answer(): octets to write to the host before the answer; 0: none. */
	uint32_t push_bytes;
	uint8_t answer[WEFT_NVMF_CQE_BYTES]; /**< ops->answer(): the capsule */
	uint64_t transport[4];               /**< for the transport; zeros at first */
};

struct weft_nvmf_transport_ops {
	const char *name;
	uint32_t sgl_kinds; /**< a bit (1 << kind) for each kind that hosts may use */
	/** The controller needs the capsule no longer. */
	void (*release)(struct weft_nvmf_queue *q, void *capsule);
	/** Bring the host's data into cmd->iov. weft_nvmf_pulled() follows, or is called inside. */
	void (*pull)(struct weft_nvmf_cmd *cmd);
	/**
	 * Write push_bytes octets to the host, then send the answer. weft_nvmf_sent() follows when
	 * the memory is free again, maybe inside the call.
	 */
	void (*answer)(struct weft_nvmf_cmd *cmd);
	/**
	 * End the connection. What was answered before is sent first, if the host takes it.
	 * weft_nvmf_queue_lost() follows, not inside the call.
	 */
	void (*close)(struct weft_nvmf_queue *q);
	/** The queue has ended. */
	void (*gone)(struct weft_nvmf_queue *q);
};

struct weft_nvmf_queue_attr {
	const struct weft_nvmf_transport_ops *ops;
	void *owner;
	/** Commands that the host may have under way: the capsules that the transport has room for.
	 * Connect may ask for less. 1 to 1024. */
	uint32_t depth;
	/** Octets of data that a capsule may have behind the command. */
	uint32_t inline_bytes;
	/** Queue of the host's connection request, which Connect has to name; -1: it named none. */
	int32_t qid;
	/** The host's address, for the share of memory; NULL: each controller has a share. Used
	 * during the call. */
	const struct sockaddr_storage *remote;
};

/**
 * A host has connected. Group's thread. -EINVAL: attributes out of range. -ENOSPC: the target has
 * weft_nvmf_attr.max_queues queues. -ENOMEM.
 */
int weft_nvmf_queue_open(struct weft_nvmf_group *g, const struct weft_nvmf_queue_attr *attr,
                         struct weft_nvmf_queue **out);
/** The names that a host has proved by the key of its connection (TLS). */
struct weft_nvmf_proven {
	const char *hostnqn, *subnqn;
};

/** Before the first command: the host's Connect has to name these. *p stays until ops->gone(). */
void weft_nvmf_queue_proven(struct weft_nvmf_queue *q, const struct weft_nvmf_proven *p);
/**
 * The address by which limits of hosts count, in a form that is the same for all of one: IPv4 as
 * mapped; of IPv6 the /64, since a host may have a whole one. All link-local addresses are one,
 * since a neighbour can use as many as it likes. False: `remote` is NULL, or no address of IP. Any
 * thread.
 */
bool weft_nvmf_peer_key(const struct sockaddr_storage *remote, struct in6_addr *key);
void *weft_nvmf_queue_owner(const struct weft_nvmf_queue *q);
/** Octets of data that a host may have behind a command: of an I/O queue, from the answer to its
 * Connect on, not more than IOCCSZ has told. Group's thread. */
uint32_t weft_nvmf_queue_inline_bytes(const struct weft_nvmf_queue *q);
/**
 * A capsule of `bytes` octets has come. 0: it was taken, and stays as it is until ops->release().
 * Else it stays the transport's:
 * - -EPROTO: no capsule, or more commands than the host may have under way; the transport ends the
 *   connection
 * - -EAGAIN: the answers of so many commands were not sent yet; call again after weft_nvmf_sent()
 * - -ENOMEM: likewise, or end the connection
 * - -ESHUTDOWN: the queue is being closed; the transport drops the capsule
 */
int weft_nvmf_command(struct weft_nvmf_queue *q, void *capsule, size_t bytes);
/** A capsule whose command is right, and whose data was damaged on its way: the host is told to
 * send it again (Transient Transport Error). Else as weft_nvmf_command(). */
int weft_nvmf_command_damaged(struct weft_nvmf_queue *q, void *capsule, size_t bytes);
/** The data of ops->pull() is there (0), was damaged on its way (-EBADMSG: Transient Transport
 * Error), or will not come (another -errno; the host is told of it if the connection lives). */
void weft_nvmf_pulled(struct weft_nvmf_cmd *cmd, int status);
/** The answer was sent, or will not be. The command has ended. */
void weft_nvmf_sent(struct weft_nvmf_cmd *cmd);
/** The connection has ended. Call it once. */
void weft_nvmf_queue_lost(struct weft_nvmf_queue *q);

#endif /* WEFT_NVMF_TRANSPORT_H */
