/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_TARGET_H
#define WEFT_APPS_TARGET_H

/**
 * @file The structures and functions that the sources of weft-target share. Each section below
 * names the source that defines its functions.
 *
 * Threads: a connection and its grants belong to their worker. An export is shared by all workers;
 * its writer changes under its lock, on the control path only. The export's `writer` is cleared
 * when its region is free, that is when nothing can write through it any more; the peer has no say
 * in that.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "conf.h"
#include "export_format.h"
#include "export_proto.h"
#include "holdoff.h"
#include "host_auth.h"
#include "key_file.h"
#include "log_ticket.h"
#include "quota.h"
#include "stack.h"
#include <weft/weft.h>
#include <weft/rpc_budget.h>
#include <weft/rpcrdma.h>

#define TARGET_GRANTS_MAX 64 /**< grants of one connection */
#define TARGET_KNOWN_AS   16 /**< addresses of the target, as clients call them */
#define TARGET_BAD_RANGES 8  /**< telemetry keeps the last ones of each kind */

#define TARGET_TICKET_ROWS    256
#define TARGET_TICKET_LIFE_NS 5000000000ULL /**< from the answer of OPEN_LOG */

struct target_grant;

/** The range of a Flush or Verify that failed. */
struct target_bad_range {
	uint64_t off_bytes, len_bytes; /**< in the file */
	uint64_t at_s;                 /**< when, by ui_now_ns() */
	int status;                    /**< the event's status */
};

struct target_bad_ranges {
	uint64_t n;
	struct target_bad_range last[TARGET_BAD_RANGES]; /**< a ring */
};

/** State of an export's file, as it was last seen. */
enum target_file {
	TARGET_FILE_HERE,
	TARGET_FILE_REMOVED,  /**< no file has its name */
	TARGET_FILE_REPLACED, /**< another file has its name */
	TARGET_FILE_CUT,      /**< it is shorter, or has fewer blocks, than before */
	TARGET_FILE_WRITTEN,  /**< another process has written to it */
};

/** State of an export's one writer's place (target_writer.c); under the export's lock. */
struct target_writer {
	bool named;        /**< the writer has authenticated itself */
	uint64_t moved_ns; /**< when the writer was last seen to transfer data */
	bool asked;        /**< the writer must give way by end_ns */
	uint64_t end_ns;
	/** Until kept_ns the place is reserved for this client; 0 octets: for no client. */
	struct quota_id kept;
	bool kept_named;
	uint64_t kept_ns;
	/** OPENs for write that were refused; times that a writer had to give way */
	uint64_t refused, yields;
};

struct target_export {
	const struct conf_export *conf;
	/** it is open; otherwise `why` has the reason (target_offline.c) */
	atomic_bool up;
	char why[CONF_ERR_MAX]; /**< under lock */
	/** conf points to own[own_now] after the export was opened at SIGHUP */
	struct conf_export own[2];
	unsigned int own_now;
	atomic_uint ios;   /**< WRITEs whose flush is under way */
	atomic_uint reads; /**< READs whose answer is not sent completely */
	struct weft_persist *persist;
	struct expfmt_super super;
	struct key_file hash_key;
	bool created;       /**< this start of the program has created the file */
	atomic_uint rights; /**< rights that an OPEN may get: conf's, without those revoked since */
	atomic_uint grants; /**< number of grants */
	/** to examine the file only; -1: the medium is not a file that can be removed */
	int file_fd;
	int file_wd;            /**< inotify watch descriptor; -1: none */
	atomic_uint file;       /**< enum target_file, as last seen */
	atomic_uint files_lost; /**< times that the file was lost */
	/* Counters of READ and WRITE. io_refused: refused for rights or bounds. */
	atomic_ullong io_reads, io_read_bytes, io_writes, io_write_bytes, io_durable, io_refused;
	pthread_mutex_t lock;
	/* under lock */
	struct target_grant *writer;
	struct target_writer slot;
	/** told: warnings that the holder has answered */
	uint64_t revocations, reduced, revoked, told;
	/* Apart: a peer can cause any number of mismatches, and these must not displace
	 * failures. */
	struct target_bad_ranges mismatches, failures;
};

struct target_worker {
	struct target *t;
	struct weft_worker *w;
	struct weft_cq *cq;
	struct weft_rpc_budget *budget; /**< memory for calls and answers */
	LIST_HEAD(, target_conn) conns;
	LIST_HEAD(, target_conn) limbo; /**< closed connections that are still referenced */
	struct weft_alarm *alarm;       /**< frees what is in limbo */
	LIST_HEAD(, target_io) ios;     /**< WRITEs that wait for their flush */
	LIST_HEAD(, target_grant) writers;
	struct weft_alarm *writers_alarm; /**< checks whether the writers transfer data */
};

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

/** The clients of one reading of the configuration; freed with the last connection that uses it. */
struct target_clients {
	unsigned int refs; /**< under target.clients_lock */
	uint32_t n;
	struct target_client {
		char name[HOST_AUTH_NAME_MAX + 1];
		struct host_auth_keys keys;
	} c[];
};

struct target {
	struct conf conf;
	const char *conf_file; /**< the file that SIGHUP reads again */
	atomic_uint revoke_ms;
	struct stack stack;
	struct target_export exports[CONF_EXPORTS_MAX];
	int watch_fd;  /**< inotify descriptor; -1: none */
	bool strict;   /**< --strict: an export that cannot be opened ends the start */
	int numa_node; /**< for exports whose configuration names no node */
	uint32_t nexports;
	pthread_mutex_t clients_lock;
	struct target_clients *clients; /**< under clients_lock; NULL: not read yet */
	/** connections that passed; refusals of any kind */
	atomic_ullong auth_passed, auth_refused;
	/** connections closed because they did not authenticate in time */
	atomic_ullong auth_late;
	struct host_auth_place known_as[TARGET_KNOWN_AS];
	unsigned int nknown_as;
	struct holdoff holdoff; /**< addresses that failed to authenticate */
	struct target_worker workers[CONF_WORKERS_MAX];
	struct target_tickets tickets;
	struct quota *quota; /**< each client's share of the grants */
	/** Shared by all workers: a client that reconnects may arrive at another worker. */
	struct weft_rpc_drc *drc;
	struct weft_evq *evq;
	struct weft_listener *listener;
	atomic_uint nconns; /**< connections of all workers, those in limbo included */
	atomic_uint last_handle;
	atomic_bool stopping; /**< connection requests are rejected */
};

/** One accepted connection. */
struct target_conn {
	LIST_ENTRY(target_conn) link;
	struct target_worker *w;
	struct weft_pd *pd;
	struct weft_qp *qp;
	struct weft_rpc *rpc; /**< NULL: a log connection, which has one grant at most */
	struct host_auth auth;
	/** The clients that auth searches; NULL: not begun, or over. */
	struct target_clients *clients;
	uint64_t auth_refused; /**< refusals so far, counted and logged */
	bool held_off;         /**< its address must wait before it may try to authenticate */
	/** fires when the time to authenticate is over; NULL: not needed, or passed */
	struct weft_alarm *auth_alarm;
	struct sockaddr_storage remote;
	LIST_HEAD(, target_grant) grants;
	/** that this connection asked for; under target.tickets.lock */
	LIST_HEAD(, target_ticket) tickets;
	unsigned int ngrants;
	struct quota_holder holder; /**< counts its grants in its address's quota */
	atomic_uint ntickets;       /**< changed under target.tickets.lock */
	/** READs whose data is sent, or will be sent, directly from the medium */
	LIST_HEAD(, target_read) reads;
	/** closes the connection when the worker has left its current callback */
	struct weft_alarm *end_alarm;
	atomic_uint pending; /**< regions that are registered and not free yet */
	bool dead;
	uint64_t died_ns;
	char peer[64];
};

/** The results of one READ, and the grant and export of data that is not sent completely. */
struct target_read {
	weft_export_read_res res;     /**< first member: weft_export_read_binding casts to it */
	LIST_ENTRY(target_read) link; /**< in the reads of its connection, if g is set */
	struct target_grant *g;       /**< may be freed already */
	struct target_export *ex;     /**< the export whose medium holds the data, if g is set */
};

/** The grant of one OPEN; freed when its region is. */
struct target_grant {
	LIST_ENTRY(target_grant) link;
	struct target_export *ex;
	struct target_conn *conn;
	struct weft_mr *mr;
	struct quota_client *client; /**< the client in whose share it counts */
	uint32_t handle;
	uint32_t rights;
	uint32_t rest; /**< the rights that remain after a revocation */
	/* members of a writer */
	LIST_ENTRY(target_grant) writer_link; /**< in the writers of its worker, if is_writer */
	bool is_writer;
	bool yields;    /**< it must stop writing */
	uint64_t moved; /**< octets that its connection had received when the worker last looked */
};

/* target_export.c */

/**
 * Open the export's medium, check it, or format it when it is new. The persist driver excludes
 * other processes. numa_node: node of the memory when the configuration names none. -errno with one
 * line in err; a file that the call created is removed again.
 */
int target_export_open(struct target_export *ex, const struct conf_export *conf, int numa_node,
                       char *err, size_t err_size);
/**
 * Check whether target_export_open() could succeed, as far as that is visible without a change.
 * Adds the memory that the export needs to *taken_bytes, which holds that of the exports before it.
 * -errno with one line in err.
 */
int target_export_check(const struct conf_export *conf, uint64_t *taken_bytes, char *err,
                        size_t err_size);
/** Whether two exports name the same file, which need not exist, by whatever names. */
bool target_export_same_file(const struct conf_export *a, const struct conf_export *b);
/** Write the message for the second export of one file. Returns -EBUSY. */
int target_export_in_use(const struct conf_export *conf, char *err, size_t err_size);
/** The start has failed: remove a file that it created. Call it before target_export_close(). */
void target_export_undo(struct target_export *ex);
void target_export_close(struct target_export *ex);
/** Close the medium only. The caller ensures that no thread uses it. */
void target_export_release(struct target_export *ex);
/** "read,write"; returns buf. */
const char *target_rights_str(uint32_t rights, char *buf, size_t size);

/* target_offline.c */

/**
 * Open the exports of the configuration. An export that cannot be opened is offline, and a log line
 * says so. -errno with one line in err: no export can be opened, or the start is strict and one
 * cannot.
 */
int target_exports_open(struct target *t, int numa_node, char *err, size_t err_size);
/** For --check-config: report what target_exports_open() would say of t->conf, without a change. */
int target_exports_check(struct target *t, char *err, size_t err_size);
/** Whether the export's medium may be accessed. Any thread. */
bool target_export_up(const struct target_export *ex);
/** Whether the export is not served; buf gets the reason as text. Any thread; does not block for
 * long. */
bool target_export_why(struct target_export *ex, char *buf, size_t size);
/**
 * At SIGHUP, on the program's thread: open an export that is offline, as `now` of the configuration
 * `fresh` describes it (NULL: `fresh` does not have it). Returns false if the export is served.
 */
bool target_export_retry(struct target *t, struct target_export *ex, const struct conf_export *now,
                         const struct conf *fresh);

/* target_rpc.c */

extern const struct weft_rpc_program *const target_programs[];
/** Invalidate the STag. The grant is freed when its region is free. */
void target_grant_drop(struct target_grant *g);
/** Register the region that an OPEN or a ticket grants, for g->conn. Errors of weft_mr_reg(). */
int target_grant_register(struct target_grant *g);
/** Add a registered grant to its connection. */
void target_grant_add(struct target_grant *g);
/** Check an OPEN or OPEN_LOG of an export: OK, or a refusal with its reason in why. ex may be
 * NULL. */
weft_export_status target_open_check(struct target_conn *c, struct target_export *ex,
                                     uint32_t rights, uint32_t cred_bytes, char *why, size_t size);
/** Offset in the medium of the first octet of the grant's region. */
uint64_t target_grant_off(const struct target_grant *g);
/** Length of the grant's region. */
uint64_t target_grant_bytes(const struct target_grant *g);
/** The export of this name; NULL: none. */
struct target_export *target_export_find(struct target *t, const char *name);

/* target_log.c */

bool target_is_log(const struct target_export *ex);
enum weft_rpc_status target_serve_open_log(void *conn_user, void *args, void *res);
/** Handle a connection request. False: it has no ticket, so it is for an RPC connection. True:
 * it was accepted or rejected. */
bool target_log_request(struct target_worker *tw, const struct weft_event *ev);
/** Close a log connection without a grant, when the worker has left its current callback. */
void target_log_end(struct target_conn *c);

/* target_ticket.c: any thread */

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
/** Free the expired tickets and what they hold. The program's thread. */
void target_tickets_look(struct target *t);
/** The telemetry command. 0 or -errno. */
int target_tickets_tel(struct target *t);

/* target_writer.c */

/** For an OPEN_LOG: whether the client may write. If so, the place is reserved for it for ns.
 * buf as target_writer_take(). */
bool target_writer_keep(struct target_conn *c, struct target_export *ex, uint64_t ns, char *buf,
                        size_t size);

/** Take the writer's place. False: buf says why not, and when to try again. On the grant's
 * worker. */
bool target_writer_take(struct target_grant *g, char *buf, size_t size);
/** The worker no longer watches the grant as a writer. The place stays taken, because octets
 * that the peer sent may still arrive. On the grant's worker. */
void target_writer_leave(struct target_grant *g);
/** Give up the writer's place: the grant writes no more, or was never registered. On its worker. */
void target_writer_undo(struct target_grant *g);
/** The grant's region is free, and so is the writer's place. Any thread. */
void target_writer_freed(struct target_grant *g);
/** Stop watching the writers. Workers are stopped, or the call is on this worker. */
void target_writer_fini(struct target_worker *tw);

/* target_quota.c */

/** Number of regions of the context: for all grants, and for RPC on each connection. */
uint32_t target_quota_regions(const struct conf *conf);
/** Number of regions of one connection's protection domain. */
uint32_t target_quota_conn_regions(const struct conf *conf);
/** -errno with one line in err. */
int target_quota_up(struct target *t, char *err, size_t err_size);
/** For an OPEN: take a share of the quota, as quota_open(); *why gets the reason of a refusal. */
int target_quota_open(struct target_conn *c, struct quota_client **out, const char **why);
/** Count the grant for its connection's holder. On its worker. */
void target_quota_hold(struct target_grant *g);
/** Count it no longer for the holder; its region is not free yet. On its worker. */
void target_quota_let_go(struct target_grant *g);
/** When the connections of one IPv6 /64 hold many grants, find those that are idle and close
 * those that the quota ends. The program's thread. */
void target_quota_look(struct target *t);
/** The telemetry command. 0 or -errno. */
int target_quota_tel(struct target *t);

/* target_io.c: struct weft_rpc_proc's serve and serve_later */

/** Format a refusal's text for an answer's `why`; freeing the answer frees it. NULL: no memory. */
char *target_why(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
enum weft_rpc_status target_serve_stat(void *conn_user, void *args, void *res);
enum weft_rpc_status target_serve_read(void *conn_user, void *args, void *res);
void target_serve_write(void *conn_user, struct weft_rpc_req *req, void *args, void *res);
/** XDR of struct target_read; XDR_FREE ends the read. */
bool_t target_xdr_read(XDR *xdr, struct target_read *r);
/** The grant's right to read ends. Its connection is ended if a READ's data is not sent
 * completely. */
void target_reads_end(struct target_grant *g);
/** The context is destroyed: free the WRITEs whose flush never began. */
void target_io_fini(struct target_worker *tw);

/* target_auth.c */

/** Read the clients' keys. -errno with one line in err. */
int target_auth_open(struct target *t, char *err, size_t err_size);
/** Replace the clients by those of another configuration. The program's thread. -errno with one
 * line in err. */
int target_auth_reload(struct target *t, const struct conf *fresh, char *err, size_t err_size);
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

/* target_admit.c */

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

/* target_revoke.c */

/** Revoke the rights that the grant may no longer have. On its worker. */
void target_grant_revoke(struct target_grant *g);
/** WEFT_ACCESS_* of rights of an export. */
uint32_t target_access(uint32_t rights);
/** At SIGHUP, on the program's thread: revoke what the configuration no longer grants. */
void target_reload(struct target *t);
/** WEFT_EV_BAD_RANGE of a connection, on its worker. */
void target_bad_range(struct target_conn *c, const struct weft_event *ev);
/** Record a bad range for telemetry, with the time of the call. */
void target_bad_range_keep(struct target_export *ex, struct target_bad_range s);

/** Revoke the rights that the export no longer grants; at once when its file is lost. */
void target_export_revoke(struct target *t, struct target_export *ex);

/* target_watch.c */

#define TARGET_WATCH_MS 250 /**< how often the program's thread looks */

/** Have the kernel report changes of exports' folders by SIGIO (blocked); before exports are
 * opened. */
void target_watch_open(struct target *t);
void target_watch_close(struct target *t);
/** At SIGIO: check the files, then pause, so that a busy folder costs little. The program's
 * thread. */
void target_watch_told(struct target *t);
/** Record the identity of the export's file, which is open. */
void target_watch_begin(const struct target *t, struct target_export *ex);
void target_watch_end(const struct target *t, struct target_export *ex);
/** Check the files of all exports. The program's thread. */
void target_watch(struct target *t);
/** Whether an export's file is lost, as far as is known. Any thread, never blocks. */
bool target_file_lost(const struct target_export *ex);
/** The state of the file as text, as "was removed". */
const char *target_file_str(const struct target_export *ex);
/** The rights that an OPEN may get now. */
uint32_t target_may(const struct target_export *ex);

/* target_memory.c */

/** Return memory of ended connections to the system. The program's thread, each TARGET_WATCH_MS. */
void target_memory_look(struct target *t);

/* target_tel.c */

void target_tel_begin(struct target *t);
/** After the return telemetry does not access the target. */
void target_tel_end(void);

/* target_conn.c */

/** Create a connection of this worker, for RPC or a log, that is not accepted yet. -errno. */
int target_conn_make(struct target_worker *tw, const struct sockaddr_storage *peer, bool is_log,
                     struct target_conn **out);
/** Close the connection at once, on its worker; c is freed later. */
void target_conn_close(struct target_conn *c);
/** The connection's grants or its authentication have changed: set its rank for eviction. On its
 * worker. */
void target_conn_standing(struct target_conn *c);
/** Create event and completion queues and the listener. Workers are not running yet. */
int target_listen(struct target *t, char *err, size_t err_size);
/** With workers running: close every connection in order, and abort the rest after timeout_ms. */
void target_hang_up(struct target *t, unsigned int timeout_ms);
/** With workers stopped: free the connections that are left. */
void target_conn_fini(struct target *t);
/** With the context destroyed and exports open: end the WRITEs whose flush never began, and
 * destroy the duplicate request cache. */
void target_io_end(struct target *t);

/** Log a line that a peer can provoke. Beyond 20 a second lines are counted, not written. Any
 * thread. */
void target_log(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/** Like target_log(), for the state of exports; its limit of 20 a second is separate. */
void target_log_export(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif /* WEFT_APPS_TARGET_H */
