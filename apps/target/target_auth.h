/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_TARGET_AUTH_H
#define WEFT_APPS_TARGET_AUTH_H

/** @file Host authentication of connections (docs/host-auth.md). */

#include "conf.h"
#include "host_auth.h"
#include "target_conn.h"
#include "target_ticket.h"

#define TARGET_KNOWN_AS 16 /**< addresses of the target, as clients call them */

/** The clients of one reading of the configuration; freed with the last connection that uses it. */
struct target_clients {
	unsigned int refs; /**< under target.clients_lock */
	uint32_t n;
	struct target_client {
		char name[HOST_AUTH_NAME_MAX + 1];
		struct host_auth_keys keys;
	} c[];
};

/* ---- target_auth.c ---- */

/** Read the clients' keys. -errno with one line in err. */
int target_auth_open(struct target *t, char *err, size_t err_size);
/** Replace the clients by those of another configuration. The program's thread. -errno with one
 * line in err. */
int target_auth_reload(struct target *t, const struct conf *fresh, char *err, size_t err_size);
/** Compare the key of an export that is opened, if it has one, with those of all clients, whose
 * files are read. 0 or -errno with one line in err. */
int target_auth_check_export(const struct conf *fresh, const char *name,
                             const struct key_file *hash_key, char *err, size_t err_size);
/** Number of clients. */
uint32_t target_auth_known(struct target *t);
/** The connection ends: release its reference to the clients. */
void target_auth_end(struct target_conn *c);
void target_auth_close(struct target *t);
/** Whether the proof in `ask` is right for this ticket by the client's present key. Any thread. */
bool target_auth_proof(struct target *t, const struct target_ticket *tk,
                       const struct log_ticket_ask *ask);
/** For weft_rpc_attr.auth; NULL when authentication is off. */
const struct weft_rpc_auth *target_auth(const struct target *t);
/** c->rpc is new: its calls are counted for the peer's address until the peer authenticates. */
void target_auth_begin(struct target_conn *c, const struct sockaddr_storage *peer);
/** Count and log refusals since the last call. */
void target_auth_look(struct target_conn *c);

/* ---- target_admit.c: who may try to authenticate, and how long ---- */

/** Read known_as. -errno with one line in err. */
int target_admit_open(struct target *t, char *err, size_t err_size);
/** Print a line for each port that admits fewer connections than configured. Changes nothing. */
void target_admit_room(const struct conf *c, void (*say)(const char *fmt, ...));
/** Whether this address may connect now. False: it must wait after failed authentication. */
bool target_admit(struct target *t, const struct sockaddr_storage *peer);
/** For a new connection: start the time to authenticate, where that is required. -ENOMEM. */
int target_admit_begin(struct target_conn *c, const struct sockaddr_storage *peer);
/** Start the time to authenticate if it does not run. -EACCES: the address must wait; -ENOMEM. */
int target_admit_asked(struct target_conn *c);
void target_admit_failed(struct target_conn *c);
void target_admit_passed(struct target_conn *c);
/** The connection ends. */
void target_admit_end(struct target_conn *c);

#endif /* WEFT_APPS_TARGET_AUTH_H */
