/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_VERBS_UCM_PRIV_H
#define WEFT_APPS_VERBS_UCM_PRIV_H

/** @file Channels, ids and events of connection management; private to ucm*.c. */

#include <pthread.h>
#include <rdma/rdma_user_cm.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "fdq.h"
#include "ucm.h"
#include "ucm_types.h"

struct wv_qp;

enum cm_state {
	CM_NEW,
	CM_BOUND,
	CM_ADDR,  /**< the address is resolved */
	CM_ROUTE, /**< the route, too */
	CM_LISTEN,
	CM_REQUESTED, /**< a request that the program has not answered */
	CM_CONNECT,   /**< connecting or accepting */
	CM_UP,
	CM_DOWN, /**< was connected, or could not be */
};

/** An opened descriptor of the device. */
struct cm_chan {
	struct wv_fdq q; /**< of cm_event.node */
	TAILQ_HEAD(, wv_cm_id) ids;
	unsigned int waiting; /**< threads in cm_do_get_event() */
	bool closed;          /**< the last of them frees it */
};

struct wv_cm_id {
	uint32_t id;
	uint64_t uid; /**< librdmacm's; 0: a request that was not accepted */
	struct cm_chan *chan;
	TAILQ_ENTRY(wv_cm_id) of_chan, of_all;
	enum cm_state state;
	uint16_t ps;
	struct sockaddr_storage src, dst;
	uint16_t bound; /**< wv_portd_bind() of this port; 0: none */
	bool named;     /**< the program chose its port */
	bool device;    /**< it belongs to the device, by its address */
	bool accepted;  /**< a listener's request, accepted or not: it has the listener's port */
	bool datagrams; /**< of a port space, or a type of queue pair, that iWARP does not have */
	bool reuse;
	bool af_only;  /**< the address is of its family alone */
	uint64_t dscp; /**< WEFT_DSCP() or 0 */
	uint32_t backlog;
	struct weft_listener **listeners;
	uint32_t nlisteners;
	struct weft_connreq *req;
	struct wv_qp *qp;
	uint32_t reported; /**< events that the program has taken */
	struct cm_late {
		LIST_ENTRY(wv_cm_id) link;
		struct cm_event *ev; /**< that waits; NULL: none */
		uint64_t end_ns;
		uint32_t send_upto, recv_upto; /**< wv_cq_upto() when it came */
	} late;                                /**< of ucm_late.c */
};

struct cm_event {
	struct wv_fdq_node node;
	struct wv_cm_id *id;  /**< whose event it is */
	struct wv_cm_id *new; /**< of a connection request */
	struct rdma_ucm_event_resp resp;
};

/*
 * cm_do_*(): execute a command on its channel. cmd: its structure, without the header, filled up
 * with zeros; out: octets that its response may have. 0 or -errno.
 */

/** All ids, channels and events. Taken after the engine's lock, never before it. */
extern pthread_mutex_t cm_lock;

/* ---- ucm_base.c: under cm_lock ---- */

/** The channel of a descriptor; NULL: none. */
struct cm_chan *cm_chan_of(int fd);
/** Make it the channel of the descriptor; NULL: there is none any more. False: no room. */
bool cm_chan_set(int fd, struct cm_chan *chan);

struct wv_cm_id *cm_id_new(struct cm_chan *chan, uint16_t ps);
/** By its number, on this channel. NULL: none. */
struct wv_cm_id *cm_id_find(const struct cm_chan *chan, uint32_t id);
/** With the engine's lock, if there is an engine. */
void cm_id_destroy(struct wv_cm_id *id);
/** End its listeners. With the engine's lock. */
void cm_id_unlisten(struct wv_cm_id *id);
/** Call fn for each id until it returns true; that id, or NULL. */
struct wv_cm_id *cm_id_each(bool (*fn)(const struct wv_cm_id *id, const void *arg),
                            const void *arg);

/** Queue an event. status: 0 or -errno. Returns it, for its parameters; NULL: no memory, or the
 * program does not know the id yet. */
struct cm_event *cm_event_new(struct wv_cm_id *id, enum cm_type type, int status);
void cm_event_put(struct cm_event *ev);
/** Move an id to another channel, with its events and the requests among them. */
void cm_id_move(struct wv_cm_id *id, struct cm_chan *to);

/* ---- ucm_late.c: under the engine's lock and cm_lock ---- */

/** As cm_event_put(), when the program has polled what its QP has completed. ev: or NULL. */
void cm_late_put(struct wv_cm_id *id, struct cm_event *ev);
/** Put the event that waits, if there is one, now. */
void cm_late_tell(struct wv_cm_id *id);

/* ---- ucm_id.c: under cm_lock ---- */

int cm_do_create(struct cm_chan *chan, const void *cmd, size_t out);
int cm_do_destroy(struct cm_chan *chan, const void *cmd, size_t out);
int cm_do_migrate(struct cm_chan *chan, const void *cmd, size_t out);
int cm_do_set_option(struct cm_chan *chan, const void *cmd, size_t out);
int cm_do_notify(struct cm_chan *chan, const void *cmd, size_t out);
int cm_do_init_qp_attr(struct cm_chan *chan, const void *cmd, size_t out);

/* ---- ucm_event.c ---- */

/** RDMA_USER_CM_CMD_GET_EVENT; takes cm_lock itself. */
int cm_do_get_event(struct cm_chan *chan, const void *cmd, size_t out);

/* ---- ucm_addr.c: under cm_lock ---- */

int cm_do_bind_ip(struct cm_chan *chan, const void *cmd, size_t out);
int cm_do_bind(struct cm_chan *chan, const void *cmd, size_t out);
int cm_do_resolve_ip(struct cm_chan *chan, const void *cmd, size_t out);
int cm_do_resolve_addr(struct cm_chan *chan, const void *cmd, size_t out);
int cm_do_resolve_route(struct cm_chan *chan, const void *cmd, size_t out);
int cm_do_query_route(struct cm_chan *chan, const void *cmd, size_t out);
int cm_do_query(struct cm_chan *chan, const void *cmd, size_t out);
/** Bind an id that the program did not bind. -EADDRINUSE, ... */
int cm_bind_any(struct wv_cm_id *id, sa_family_t family);
/** Whether it is an address of a port. */
bool cm_addr_is_ours(const struct sockaddr_storage *a);
/** The number of the device whose port has the address; that of the first, if none has it. */
unsigned int cm_addr_device(const struct sockaddr_storage *a);
/** Whether it is bound to all addresses of its family, and to none of the other. */
bool cm_addr_one_family(const struct wv_cm_id *id);
/** The TCP port that it is bound to; 0: none. */
uint16_t cm_addr_port(const struct wv_cm_id *id);
/** The port's addresses of its family, with its port number. Returns how many. */
uint32_t cm_addr_all(const struct wv_cm_id *id, struct sockaddr_storage *out, uint32_t most);

/* ---- ucm_conn.c: under the engine's lock and cm_lock ---- */

int cm_do_listen(struct cm_chan *chan, const void *cmd, size_t out);
int cm_do_connect(struct cm_chan *chan, const void *cmd, size_t out);
int cm_do_accept(struct cm_chan *chan, const void *cmd, size_t out);
int cm_do_reject(struct cm_chan *chan, const void *cmd, size_t out);
int cm_do_disconnect(struct cm_chan *chan, const void *cmd, size_t out);

#endif /* WEFT_APPS_VERBS_UCM_PRIV_H */
