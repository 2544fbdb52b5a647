/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_TARGET_TICKET_H
#define WEFT_APPS_TARGET_TICKET_H

/** @file Tickets of OPEN_LOG. Any thread. */

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "host_auth.h"
#include "log_ticket.h"
#include <weft/telemetry.h>

#define TARGET_TICKET_ROWS    256
#define TARGET_TICKET_LIFE_NS 5000000000ULL /**< from the answer of OPEN_LOG */

struct quota_client;
struct target;
struct target_conn;
struct target_export;

/** An issued ticket that is not used yet (target_ticket.c); under target.tickets.lock. */
struct target_ticket {
	LIST_ENTRY(target_ticket) row_link;  /**< in a hash row */
	LIST_ENTRY(target_ticket) conn_link; /**< in the tickets of conn */
	/** The connection that asked. It outlives the ticket. */
	struct target_conn *conn;
	uint8_t octets[LOG_TICKET_BYTES];
	uint64_t end_ns; /**< expiry, by ui_now_ns() */
	struct target_export *ex;
	uint32_t rights;
	/** the client in whose share the ticket counts, and later the grant */
	struct quota_client *client;
	struct sockaddr_storage remote;
	bool named; /**< the client is authenticated: name and place are set */
	char name[HOST_AUTH_NAME_MAX + 1];
	struct host_auth_place place;
};

/** Result of a request for a log connection: what became of its ticket. */
enum target_ticket_end {
	TARGET_TICKET_USED,
	TARGET_TICKET_EXPIRED,
	TARGET_TICKET_UNKNOWN, /**< never issued, or already used; the two cannot be told apart */
	/** from another address than the one that asked; the ticket stays valid */
	TARGET_TICKET_ELSEWHERE,
	TARGET_TICKET_UNPROVED,  /**< without a proof by the client's key; the ticket stays valid */
	TARGET_TICKET_MALFORMED, /**< another version, or no ticket in the private data */
	TARGET_TICKET_LEFT,      /**< given back, or the connection that asked has ended */
	TARGET_TICKET_ENDS,
};

struct target_tickets {
	pthread_mutex_t lock;
	LIST_HEAD(, target_ticket) row[TARGET_TICKET_ROWS];
	uint32_t now;
	uint64_t given, ended[TARGET_TICKET_ENDS];
};

void target_tickets_up(struct target *t);
/** The caller has freed all connections. */
void target_tickets_down(struct target *t);
/** Issue a ticket. The caller sets all of *tk but the octets, the expiry and the links; the
 * ticket takes over its quota client. -ENOSPC, -ENOMEM, -EIO. */
int target_ticket_give(struct target_conn *c, const struct target_ticket *tk,
                       uint8_t octets[LOG_TICKET_BYTES]);
/** Use a ticket that a request brings. USED: *tk is a copy and its quota client is the caller's.
 * Else the reason of the refusal. Counts the result. */
enum target_ticket_end target_ticket_take(struct target *t, const struct log_ticket_ask *ask,
                                          const struct sockaddr_storage *remote,
                                          struct target_ticket *tk);
/** Count a request whose private data is no ticket. */
void target_ticket_malformed(struct target *t);
/** The connection ends: free its tickets that were not used. */
void target_tickets_leave(struct target_conn *c);
/** Free the tickets for an export that is deleted. The program's thread. */
void target_tickets_forget(struct target *t, const struct target_export *ex);
/** Free the expired tickets and what they hold. The program's thread. */
void target_tickets_look(struct target *t);
/** Telemetry command /weft/target/tickets: issued tickets, and how they ended. */
int target_tel_tickets(void *user, const char *params, struct weft_tel *tel);

#endif /* WEFT_APPS_TARGET_TICKET_H */
