/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_TARGET_CONN_H
#define WEFT_APPS_TARGET_CONN_H

/** @file A worker of the target and its connections. A connection and its grants belong to their
 * worker. */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "conf.h"
#include "host_auth.h"
#include "quota.h"
#include <weft/rpc_budget.h>
#include <weft/rpcrdma.h>
#include <weft/weft.h>

struct target;
struct target_clients;
struct target_conn;
struct target_grant;
struct target_vio;
struct control_part;
struct target_vworker;

/** What lower parts call in the parts above them; given when the worker is set up. Called on the
 * worker. */
struct target_ops {
	/** Close the connection at once; it is freed later. */
	void (*close)(struct target_conn *c);
	/** Revoke the rights that the grant may no longer have. */
	void (*revoke)(struct target_grant *g);
};

struct target_worker {
	struct target *t;
	const struct target_ops *ops;
	struct weft_worker *w;
	struct weft_cq *cq;
	struct weft_rpc_budget *budget; /**< memory for calls and answers */
	LIST_HEAD(, target_conn) conns;
	LIST_HEAD(, control_part) looking; /**< jobs that are in the middle of the connections */
	LIST_HEAD(, target_conn) limbo;    /**< closed connections that are still referenced */
	struct weft_alarm *alarm;          /**< frees what is in limbo */
	LIST_HEAD(, target_io) ios;        /**< WRITEs that wait for their flush */
	LIST_HEAD(, target_grant) writers;
	struct weft_alarm *writers_alarm; /**< checks whether the writers transfer data */
	struct target_vworker *volumes;   /**< NULL: no export is a volume */
	struct target_rate *rates;        /**< of the exports, by number */
	LIST_HEAD(, target_rate) rated;   /**< of these, those that may have clients */
	struct slow_ring *slow;           /**< its slow operations */
};

/** One accepted connection. */
struct target_conn {
	LIST_ENTRY(target_conn) link;
	struct target_worker *w;
	struct weft_pd *pd;
	struct weft_qp *qp;
	struct weft_rpc *rpc; /**< NULL: a log connection, which has one grant at most */
	struct host_auth auth;
	uint32_t metrics_pass; /**< in which it was copied last (metrics_clients.c) */
	/** The clients that auth searches; NULL: not begun, or over. */
	struct target_clients *clients;
	uint64_t auth_refused; /**< refusals so far, counted and logged */
	bool held_off;         /**< its address must wait before it may try to authenticate */
	/** fires when the time to authenticate is over; NULL: not needed, or passed */
	struct weft_alarm *auth_alarm;
	struct sockaddr_storage remote;
	LIST_HEAD(, target_grant) grants;
	LIST_HEAD(, target_vgrant) vgrants; /**< of volumes; those that end included */
	/** that this connection asked for; under target.tickets.lock */
	LIST_HEAD(, target_ticket) tickets;
	unsigned int ngrants;       /**< of both kinds */
	struct quota_holder holder; /**< counts its grants in its address's quota */
	/** Changed under target.tickets.lock; read without it, relaxed: a worker sees what it gave
	 * itself, and a ticket that another one takes is counted a moment longer. */
	atomic_uint ntickets;
	/** READs whose data is sent, or will be sent, directly from the medium */
	LIST_HEAD(, target_read) reads;
	/** READs of volumes that are answered and not taken yet (target_volume_untaken.c), while
	 * there are any in the untaken of the volumes' worker; when the peer last took one, or the
	 * first was answered; whether the connection ends because of that */
	LIST_HEAD(, target_vio) untaken;
	TAILQ_ENTRY(target_conn) untaken_link;
	uint64_t untaken_ns;
	bool untaken_ends;
	/** closes the connection when the worker has left its current callback */
	struct weft_alarm *end_alarm;
	/** Regions that are registered and not free yet, grants of volumes, and durable WRITEs
	 * whose flush is under way. An end is a release; the worker acquires 0 before it frees the
	 * connection. */
	atomic_uint pending;
	bool dead;
	uint64_t died_ns;
	char peer[64];
};

/* ---- target_later.c ---- */

/** Close the connection when the worker has left its current callback, unless that is on its way
 * already. -ENOMEM. */
int target_conn_close_later(struct target_conn *c);

/* ---- target_conn.c ---- */

/** Create a connection of this worker, for RPC or a log, that is not accepted yet. -errno. */
int target_conn_make(struct target_worker *tw, const struct sockaddr_storage *peer, bool is_log,
                     struct target_conn **out);
/** Close the connection at once, on its worker; c is freed later. */
void target_conn_close(struct target_conn *c);
/** With the worker stopped: free the closed connections that nothing refers to. */
void target_conn_reap(struct target_worker *tw);

/* ---- target_log_conn.c ---- */

/** Handle a connection request. False: it has no ticket, so it is for an RPC connection. True:
 * it was accepted or rejected. */
bool target_log_request(struct target_worker *tw, const struct weft_event *ev);

/* ---- target_listen.c: all connections ---- */

/** Whether the target accepts connections to this address of the host. */
bool target_listens(const struct target *t, const struct sockaddr_storage *addr);
/** Listen on one address or network. la->prefix_len is set. */
int target_listen_at(struct target *t, const struct conf_listen *l, uint32_t tcp_port,
                     struct weft_listen_attr *la, struct weft_listener **out);
/** Create event and completion queues and the listeners. Workers are not running yet. */
int target_listen(struct target *t, char *err, size_t err_size);
/** With workers running: close every connection in order, and abort the rest after timeout_ms. */
void target_hang_up(struct target *t, unsigned int timeout_ms);
/** With workers stopped: free the connections that are left. */
void target_conn_fini(struct target *t);
/** With the context destroyed and exports open: end the WRITEs whose flush never began, and
 * destroy the duplicate request cache. */
void target_io_end(struct target *t);

#endif /* WEFT_APPS_TARGET_CONN_H */
