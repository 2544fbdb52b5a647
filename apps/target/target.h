/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_TARGET_H
#define WEFT_APPS_TARGET_H

/**
 * @file weft-target's parts: exports (target_export.c), grants and the export program
 * (target_rpc.c), its STAT, READ and WRITE (target_io.c), host authentication (target_auth.c) and
 * who may try it (target_admit.c), logs (target_log.c) and the tickets for them (target_ticket.c),
 * shares of clients (target_quota.c), who writes (target_writer.c), revocation and bad ranges
 * (target_revoke.c), telemetry (target_tel.c), connections (target_conn.c), files that are taken
 * away (target_watch.c), the program (target.c).
 *
 * Threads: a connection and its grants belong to its worker. An export is shared; its writer
 * changes under its lock, on the control path only. Whether a range is free for the next writer is
 * decided by the region, not by the peer: `writer` is cleared when weft says that nothing can touch
 * it any more.
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

#define TARGET_GRANTS_MAX 64 /**< per connection */
#define TARGET_KNOWN_AS   16 /**< places that clients call */
#define TARGET_BAD_RANGES 8  /**< that telemetry tells of, the last ones of either kind */

#define TARGET_TICKET_ROWS    256
#define TARGET_TICKET_LIFE_NS 5000000000ULL /**< a client connects as soon as it has one */

struct target_grant;

/** A Flush or Verify that failed. */
struct target_bad_range {
	uint64_t off_bytes, len_bytes; /**< in the file */
	uint64_t at_s;                 /**< of ui_now_ns() */
	int status;                    /**< of WEFT_EV_BAD_RANGE */
};

struct target_bad_ranges {
	uint64_t n;
	struct target_bad_range last[TARGET_BAD_RANGES]; /**< a ring */
};

/** What became of an export's file. */
enum target_file {
	TARGET_FILE_HERE,
	TARGET_FILE_REMOVED,  /**< nothing has its name */
	TARGET_FILE_REPLACED, /**< something else has */
	TARGET_FILE_CUT,      /**< it is shorter, or has fewer blocks, than it had */
	TARGET_FILE_WRITTEN,  /**< another process has written to it */
};

/** The place of an export's writer, beside who has it (target_writer.c); under the export's lock.
 */
struct target_writer {
	bool named;        /**< who has it has shown who it is */
	uint64_t moved_ns; /**< when something of it was last seen */
	bool asked;        /**< it has to give way, by end_ns */
	uint64_t end_ns;
	/** until kept_ns the place is kept for this client, which asked for it; without octets: for
	 * none */
	struct quota_id kept;
	bool kept_named;
	uint64_t kept_ns;
	/** OPENs for write in vain; times that a writer had to give way */
	uint64_t refused, yields;
};

struct target_export {
	const struct conf_export *conf;
	atomic_bool up;         /**< it is open; else `why` says why not (target_offline.c) */
	char why[CONF_ERR_MAX]; /**< under lock */
	/** what conf points to once it has been opened at SIGHUP: own[own_now] */
	struct conf_export own[2];
	unsigned int own_now;
	atomic_uint ios;   /**< WRITEs whose flush is under way */
	atomic_uint reads; /**< READs that are not answered to the end */
	struct weft_persist *persist;
	struct expfmt_super super;
	struct key_file hash_key;
	bool created;       /**< its file was made by this start */
	atomic_uint rights; /**< that an OPEN may have: conf's, less what was taken back since */
	atomic_uint grants; /**< how many there are */
	/** the file, for looking at only; -1: nothing that could be taken away */
	int file_fd;
	int file_wd;            /**< of the target's inotify, -1: none */
	atomic_uint file;       /**< enum target_file, as it was seen last */
	atomic_uint files_lost; /**< times that it was not there any more */
	/* READ and WRITE; refused: for rights or bounds */
	atomic_ullong io_reads, io_read_bytes, io_writes, io_write_bytes, io_durable, io_refused;
	pthread_mutex_t lock;
	/* under lock */
	struct target_grant *writer;
	struct target_writer slot;
	uint64_t revocations, reduced, revoked, told; /**< told: the holder has answered */
	/* Apart: whoever may Verify can make mismatches at will, and must not push failures out. */
	struct target_bad_ranges mismatches, failures;
};

struct target_worker {
	struct target *t;
	struct weft_worker *w;
	struct weft_cq *cq;
	struct weft_rpc_budget *budget; /**< of calls and answers */
	LIST_HEAD(, target_conn) conns;
	LIST_HEAD(, target_conn) limbo; /**< closed, waiting for the last to let go */
	struct weft_alarm *alarm;       /**< looks at limbo */
	LIST_HEAD(, target_io) ios;     /**< WRITEs that wait for their flush */
	LIST_HEAD(, target_grant) writers;
	struct weft_alarm *writers_alarm; /**< looks whether they do anything */
};

/** A ticket that OPEN_LOG has given and nobody has used (target_ticket.c); under
 * target.tickets.lock. */
struct target_ticket {
	LIST_ENTRY(target_ticket) row_link;  /**< in a row of the tickets */
	LIST_ENTRY(target_ticket) conn_link; /**< in tickets of conn */
	/** that asked; it is there for as long as the ticket is */
	struct target_conn *conn;
	uint8_t octets[LOG_TICKET_BYTES];
	uint64_t end_ns; /**< of ui_now_ns() */
	struct target_export *ex;
	uint32_t rights;
	struct quota_client *client; /**< of whose share it is; so is the grant that follows */
	struct sockaddr_storage remote;
	bool named; /**< the client has shown who it is: name, and what it called */
	char name[HOST_AUTH_NAME_MAX + 1];
	struct host_auth_place place;
};

/** What became of a ticket that a connection brought, or did not bring. */
enum target_ticket_end {
	TARGET_TICKET_USED,
	TARGET_TICKET_EXPIRED,
	TARGET_TICKET_UNKNOWN,   /**< never given, or used before: the two cannot be told apart */
	TARGET_TICKET_ELSEWHERE, /**< from another address than that which asked; it stays good */
	TARGET_TICKET_UNPROVED,  /**< without the client's key; it stays good */
	TARGET_TICKET_MALFORMED, /**< another version, or no such private data */
	TARGET_TICKET_LEFT,      /**< given back, or its connection ended */
	TARGET_TICKET_ENDS,
};

struct target_tickets {
	pthread_mutex_t lock;
	LIST_HEAD(, target_ticket) row[TARGET_TICKET_ROWS];
	uint32_t now;
	uint64_t given, ended[TARGET_TICKET_ENDS];
};

/** The clients of one reading of the configuration; goes with the last connection that looks into
 * it. */
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
	const char *conf_file; /**< read again at SIGHUP */
	atomic_uint revoke_ms;
	struct stack stack;
	struct target_export exports[CONF_EXPORTS_MAX];
	int watch_fd;  /**< of inotify; -1: none */
	bool strict;   /**< --strict: one export that cannot be opened ends the start */
	int numa_node; /**< for exports whose configuration names none */
	uint32_t nexports;
	pthread_mutex_t clients_lock;
	struct target_clients *clients;          /**< under clients_lock; NULL: not read yet */
	atomic_ullong auth_passed, auth_refused; /**< connections; refusals of any kind */
	/** connections closed for not having shown it in time */
	atomic_ullong auth_late;
	struct host_auth_place known_as[TARGET_KNOWN_AS];
	unsigned int nknown_as;
	struct holdoff holdoff; /**< addresses that failed */
	struct target_worker workers[CONF_WORKERS_MAX];
	struct target_tickets tickets;
	struct quota *quota; /**< what each client has of the grants */
	/** of all workers: a client that connects again may come to another */
	struct weft_rpc_drc *drc;
	struct weft_evq *evq;
	struct weft_listener *listener;
	atomic_uint nconns; /**< connections and those in limbo, of all workers */
	atomic_uint last_handle;
	atomic_bool stopping; /**< requests to connect are rejected */
};

/** One accepted connection. */
struct target_conn {
	LIST_ENTRY(target_conn) link;
	struct target_worker *w;
	struct weft_pd *pd;
	struct weft_qp *qp;
	struct weft_rpc *rpc; /**< NULL: a log connection; it has one grant at most */
	struct host_auth auth;
	/** that auth looks into; NULL: it has not yet, or is over */
	struct target_clients *clients;
	uint64_t auth_refused; /**< so far, counted and told */
	bool held_off;         /**< it was refused to try, as its address has to wait */
	/** when it must have shown who it is; NULL: it need not, or has */
	struct weft_alarm *auth_alarm;
	struct sockaddr_storage remote;
	LIST_HEAD(, target_grant) grants;
	LIST_HEAD(, target_ticket) tickets; /**< that it asked for; under target.tickets.lock */
	unsigned int ngrants;
	struct quota_holder holder; /**< of the grants that its address has */
	atomic_uint ntickets;       /**< changed under it */
	/** READs whose data goes, or will go, from where it lies */
	LIST_HEAD(, target_read) reads;
	/** closes it as soon as the worker is through with what it does */
	struct weft_alarm *end_alarm;
	atomic_uint pending; /**< regions registered and not yet free */
	bool dead;
	uint64_t died_ns;
	char peer[64];
};

/** The results of one READ, and what they are of while it is not answered to the end. */
struct target_read {
	weft_export_read_res res;     /**< first: the binding's */
	LIST_ENTRY(target_read) link; /**< in reads of its connection, if g is set */
	struct target_grant *g;       /**< may be gone by now */
	struct target_export *ex;     /**< whose medium the data lies in, if g is set */
};

/** One OPEN; freed when its region is. */
struct target_grant {
	LIST_ENTRY(target_grant) link;
	struct target_export *ex;
	struct target_conn *conn;
	struct weft_mr *mr;
	struct quota_client *client; /**< whose share it is of */
	uint32_t handle;
	uint32_t rights;
	uint32_t rest; /**< of them, once it has been asked back */
	/* of a writer */
	LIST_ENTRY(target_grant) writer_link; /**< in writers of its worker, if is_writer */
	bool is_writer;
	bool yields;    /**< it is to write no more */
	uint64_t moved; /**< what the grant's connection had received when its worker looked last */
};

/* target_export.c */

/**
 * Open, check or format; the persist driver keeps others out. numa_node: where the memory shall be
 * when the configuration does not say. -errno with one line in err; a file that we made is removed
 * again then.
 */
int target_export_open(struct target_export *ex, const struct conf_export *conf, int numa_node,
                       char *err, size_t err_size);
/**
 * Whether a start could open it, as far as that is seen without touching anything; *taken_bytes:
 * memory that others take before, it is added to. -errno with one line in err.
 */
int target_export_check(const struct conf_export *conf, uint64_t *taken_bytes, char *err,
                        size_t err_size);
/** Whether two exports are of one file, by whichever names, there or not. */
bool target_export_same_file(const struct conf_export *a, const struct conf_export *b);
/** What is said of the second of such. -EBUSY. */
int target_export_in_use(const struct conf_export *conf, char *err, size_t err_size);
/** The start failed after all: a file that it made is removed again. Before the close. */
void target_export_undo(struct target_export *ex);
void target_export_close(struct target_export *ex);
/** Close its medium alone; nothing is said to look at it. */
void target_export_release(struct target_export *ex);
/** "read,write"; returns buf. */
const char *target_rights_str(uint32_t rights, char *buf, size_t size);

/* target_offline.c */

/**
 * Open the configuration's exports. Those that cannot be opened are offline, and say so in the log.
 * -errno with one line in err: none can be opened, or, where the start is strict, not all.
 */
int target_exports_open(struct target *t, int numa_node, char *err, size_t err_size);
/** --check-config: what target_exports_open() would say of t->conf, touching nothing. */
int target_exports_check(struct target *t, char *err, size_t err_size);
/** Whether its medium may be looked at. Any thread. */
bool target_export_up(const struct target_export *ex);
/** Whether it is not served; buf gets the reason for people. Any thread, never blocks for long. */
bool target_export_why(struct target_export *ex, char *buf, size_t size);
/**
 * SIGHUP, on the program's thread: if it is not served, open it as `now` of the configuration
 * `fresh` says (NULL: it is not in there). False: it is served.
 */
bool target_export_retry(struct target *t, struct target_export *ex, const struct conf_export *now,
                         const struct conf *fresh);

/* target_rpc.c */

extern const struct weft_rpc_program *const target_programs[];
/** Invalidate the STag; the rest follows when the region is free. */
void target_grant_drop(struct target_grant *g);
/** Register what an OPEN or a ticket was granted, for g->conn; what weft_mr_reg() says. */
int target_grant_register(struct target_grant *g);
/** It is registered, and its connection's from now on. */
void target_grant_add(struct target_grant *g);
/** What may be asked of an export: OK, or what is wrong with it, and why; ex may be NULL. */
weft_export_status target_open_check(struct target_conn *c, struct target_export *ex,
                                     uint32_t rights, uint32_t cred_bytes, char *why, size_t size);
/** Where in the medium the region begins that a grant is of. */
uint64_t target_grant_off(const struct target_grant *g);
/** Octets of the region that a grant is of. */
uint64_t target_grant_bytes(const struct target_grant *g);
/** NULL: there is none. */
struct target_export *target_export_find(struct target *t, const char *name);

/* target_log.c */

bool target_is_log(const struct target_export *ex);
enum weft_rpc_status target_serve_open_log(void *conn_user, void *args, void *res);
/** A request to connect: false: it brings no ticket, and is an RPC connection's; true: it was
 * accepted or rejected. */
bool target_log_request(struct target_worker *tw, const struct weft_event *ev);
/** A log connection has no grant any more: it is closed, as soon as the worker is through with
 * what it does. */
void target_log_end(struct target_conn *c);

/* target_ticket.c: any thread */

void target_tickets_up(struct target *t);
/** No connection is there any more. */
void target_tickets_down(struct target *t);
/** Give one; *tk is all but its octets, its time and its links, and its quota client is the
 * ticket's. -ENOSPC, -ENOMEM, -EIO. */
int target_ticket_give(struct target_conn *c, const struct target_ticket *tk,
                       uint8_t octets[LOG_TICKET_BYTES]);
/** One is brought: USED, and *tk is it (its quota client is the caller's), or why not. It is
 * counted. */
enum target_ticket_end target_ticket_take(struct target *t, const struct log_ticket_ask *ask,
                                          const struct sockaddr_storage *remote,
                                          struct target_ticket *tk);
/** What was brought was no ticket. */
void target_ticket_malformed(struct target *t);
/** The connection is going: so are its tickets that were not used. */
void target_tickets_leave(struct target_conn *c);
/** Those that are too old give back what they hold. The program's thread. */
void target_tickets_look(struct target *t);
/** The telemetry command. 0 or -errno. */
int target_tickets_tel(struct target *t);

/* target_writer.c */

/** An OPEN_LOG: whether the client may write, and if so the place is kept for it for so long. As
 * target_writer_take(). */
bool target_writer_keep(struct target_conn *c, struct target_export *ex, uint64_t ns, char *buf,
                        size_t size);

/** It wants to write: whether it is the one that may. If not, buf says why, and when to try again.
 * On its worker. */
bool target_writer_take(struct target_grant *g, char *buf, size_t size);
/** The grant is no writer's any more, while octets that it sent may still come: its worker does
 * not watch it. On its worker. */
void target_writer_leave(struct target_grant *g);
/** It writes no more (or never came to be): another may. On its worker. */
void target_writer_undo(struct target_grant *g);
/** The region is gone. Any thread. */
void target_writer_freed(struct target_grant *g);
/** Nothing looks at writers any more. Workers are stopped, or on this one. */
void target_writer_fini(struct target_worker *tw);

/* target_quota.c */

/** Regions of the context: for all grants, and for RPC on each connection. */
uint32_t target_quota_regions(const struct conf *conf);
/** And of a connection's domain. */
uint32_t target_quota_conn_regions(const struct conf *conf);
/** -errno with one line in err. */
int target_quota_up(struct target *t, char *err, size_t err_size);
/** An OPEN: whether this client may have one more grant; as quota_open(), with why not. */
int target_quota_open(struct target_conn *c, struct quota_client **out, const char **why);
/** The grant is its connection's. On its worker. */
void target_quota_hold(struct target_grant *g);
/** It is so no more, and its region not free yet. On its worker. */
void target_quota_let_go(struct target_grant *g);
/** Where many of one IPv6 /64 hold grants: see which connections do nothing; those that have to go
 * are closed. The program's thread. */
void target_quota_look(struct target *t);
/** The telemetry command. 0 or -errno. */
int target_quota_tel(struct target *t);

/* target_io.c: struct weft_rpc_proc's serve and serve_later */

/** The text of a refusal, for an answer's `why`, which frees it. NULL: no memory. */
char *target_why(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
enum weft_rpc_status target_serve_stat(void *conn_user, void *args, void *res);
enum weft_rpc_status target_serve_read(void *conn_user, void *args, void *res);
void target_serve_write(void *conn_user, struct weft_rpc_req *req, void *args, void *res);
/** Of struct target_read: it is over when it is freed. */
bool_t target_xdr_read(XDR *xdr, struct target_read *r);
/** A grant's right to read ends: nothing of what its READs have not sent yet may go. The
 * connection ends if there are any. */
void target_reads_end(struct target_grant *g);
/** The context is gone: let go of WRITEs whose flush never began. */
void target_io_fini(struct target_worker *tw);

/* target_auth.c */

/** Read the clients' keys. -errno with one line in err. */
int target_auth_open(struct target *t, char *err, size_t err_size);
/** Likewise of another configuration, on the program's thread: from now on these are the clients
 * there are. */
int target_auth_reload(struct target *t, const struct conf *fresh, char *err, size_t err_size);
/** How many clients there are. */
uint32_t target_auth_known(struct target *t);
/** The connection is over: nothing looks into its clients any more. */
void target_auth_end(struct target_conn *c);
void target_auth_close(struct target *t);
/** Whether the proof is what a client of this name shows now for its ticket. Any thread. */
bool target_auth_proof(struct target *t, const struct target_ticket *tk,
                       const struct log_ticket_ask *ask);
/** For weft_rpc_attr.auth: NULL when nobody is asked. */
const struct weft_rpc_auth *target_auth(const struct target *t);
/** c->rpc is new: its calls are those of its address until it shows a name. */
void target_auth_begin(struct target_conn *c, const struct sockaddr_storage *peer);
/** Count and tell what was refused since. */
void target_auth_look(struct target_conn *c);

/* target_admit.c */

/** Read known_as. -errno with one line in err. */
int target_admit_open(struct target *t, char *err, size_t err_size);
/** A line for each port that admits fewer connections than the configuration allows. Touches
 * nothing. */
void target_admit_room(const struct conf *c, void (*say)(const char *fmt, ...));
/** Whether this address may connect now, or has to wait because it failed. */
bool target_admit(struct target *t, const struct sockaddr_storage *peer);
/** A new connection: where it must show who it is, its time runs. -ENOMEM. */
int target_admit_begin(struct target_conn *c, const struct sockaddr_storage *peer);
/** It begins to show who it is: its time runs from now on, if it did not before. -EACCES: its
 * address has to wait; -ENOMEM. */
int target_admit_asked(struct target_conn *c);
void target_admit_failed(struct target_conn *c);
void target_admit_passed(struct target_conn *c);
/** The connection is going. */
void target_admit_end(struct target_conn *c);

/* target_revoke.c */

/** Take back what it may not have any more. On its worker. */
void target_grant_revoke(struct target_grant *g);
/** WEFT_ACCESS_* of rights of an export. */
uint32_t target_access(uint32_t rights);
/** SIGHUP, on the program's thread: take back what the configuration grants no more. */
void target_reload(struct target *t);
/** WEFT_EV_BAD_RANGE of a connection, on its worker. */
void target_bad_range(struct target_conn *c, const struct weft_event *ev);
/** Keep one for telemetry; its time is now. */
void target_bad_range_keep(struct target_export *ex, struct target_bad_range s);

/** Take back what was granted of it and it grants no more; at once when its file is lost. */
void target_export_revoke(struct target *t, struct target_export *ex);

/* target_watch.c */

#define TARGET_WATCH_MS 250 /**< how often the program's thread looks */

/** Have the kernel tell by SIGIO what happens in folders; the signal is blocked. Before exports
 * are opened. */
void target_watch_open(struct target *t);
void target_watch_close(struct target *t);
/** SIGIO: look. The program's thread; takes a moment, so that a busy folder does not keep it busy.
 */
void target_watch_told(struct target *t);
/** Remember the export's file; it is open. */
void target_watch_begin(const struct target *t, struct target_export *ex);
void target_watch_end(const struct target *t, struct target_export *ex);
/** Look at all exports' files. The program's thread. */
void target_watch(struct target *t);
/** Whether an export's file is lost, by what is known and by its links. Any thread, never blocks.
 */
bool target_file_lost(const struct target_export *ex);
/** "was removed": what became of it. */
const char *target_file_str(const struct target_export *ex);
/** Rights that an OPEN may have now. */
uint32_t target_may(const struct target_export *ex);

/* target_memory.c */

/** Give back what connections have taken that are gone. The program's thread, every
 * TARGET_WATCH_MS. */
void target_memory_look(struct target *t);

/* target_tel.c */

void target_tel_begin(struct target *t);
/** Nothing of the target is looked at any more at return. */
void target_tel_end(void);

/* target_conn.c */

/** A connection of this worker, not accepted yet: an RPC connection's, or of a log. -errno. */
int target_conn_make(struct target_worker *tw, const struct sockaddr_storage *peer, bool is_log,
                     struct target_conn **out);
/** At once, on its worker; c is freed later. */
void target_conn_close(struct target_conn *c);
/** Grants came or went, or the peer has shown who it is: tell which connections go first. On its
 * worker. */
void target_conn_standing(struct target_conn *c);
/** Event and completion queues, and the listener; workers are not running yet. */
int target_listen(struct target *t, char *err, size_t err_size);
/** Workers still running: close every connection in order, then by force after timeout_ms. */
void target_hang_up(struct target *t, unsigned int timeout_ms);
/** Workers stopped: free what is left. */
void target_conn_fini(struct target *t);
/** Context destroyed, exports still open: end what flushes were waited for. */
void target_io_end(struct target *t);

/** A line to the log that a peer can provoke; more than 20 a second are counted instead of
 * written. Any thread. */
void target_log(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/** Likewise of what an export holds or lost: 20 a second of these alone. */
void target_log_export(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif /* WEFT_APPS_TARGET_H */
