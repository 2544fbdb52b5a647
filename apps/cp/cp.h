/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_CP_H
#define WEFT_APPS_CP_H

/**
 * @file What the sources of weft-cp share: a session with a target (cp_session.c, cp_auth.c), push
 * (cp_push.h), pull (cp_pull.c, cp_file.c), both of volumes (cp_volume*.c), comparing without
 * moving (cp_compare.c, cp_verify.c), the report (cp_report.c), revocation by the target
 * (cp_revoke.c), the command line (cp_args.c), several files (cp_many.c), retries (cp_retry.c), the
 * program (cp.c).
 *
 * A transfer has one thread. It posts and calls weft_worker_poll(); callbacks only record events.
 * Functions return 0, or -errno with one line for the user in cp_session.err.
 */

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>

#include "auth_arg.h"
#include "conf.h"
#include "export_format.h"
#include "export_proto.h"
#include "hist.h"
#include "host_auth.h"
#include "key_file.h"
#include "stack.h"
#include "ui.h"
#include "url.h"
#include <weft/weft.h>
#include <weft/rpcrdma.h>

#define CP_DEPTH_MAX 256
#define CP_BLOCK_MIN 4096u
#define CP_BLOCK_MAX (64u << 20)
#define CP_ERR_MAX   1024

/** Exit statuses. A signal N ends weft-cp with 128 + N. */
enum cp_exit {
	CP_EXIT_OK = 0,
	CP_EXIT_FAIL = 1,
	CP_EXIT_USAGE = 2,
	CP_EXIT_DIFFERS = 3, /**< --verify-only: the content differs */
	CP_EXIT_SOME = 4,    /**< some of several files were not copied */
	CP_EXIT_LOST = 5,    /**< no connection, or it was lost; may be repeated */
	CP_EXIT_BUSY = 6,    /**< busy or not served now; may be repeated */
};

struct cp_options {
	bool json, quiet, no_flush, no_verify;
	bool ignore_revoke; /**< the target's warnings of a revocation are not asked for */
	bool pull;          /**< push by RPC: the target fetches the data */
	bool resume;        /**< skip what a hash proves to be there */
	bool keep_part;     /**< a pull that fails keeps what it has for the next one */
	bool keep_temp;     /**< the same for another attempt of this weft-cp alone */
	bool again;         /**< it is such an attempt */
	bool verify_only;
	struct key_file hash_key; /**< 0 octets: no key was given */
	struct auth_arg auth;
	uint32_t block_bytes;
	uint32_t depth;
	uint64_t connect_ns;               /**< timeout of connecting */
	uint64_t silence_ns;               /**< longest time without anything received */
	uint64_t wait_ns;                  /**< longest wait for a busy export */
	uint64_t range_wait_ns;            /**< the same for a range that another client has */
	uint64_t rate_bytes;               /**< limit of octets a second; 0: none */
	bool ranged;                       /**< a range is given: it has to be a volume */
	uint64_t offset_bytes;             /**< in the volume */
	uint64_t length_bytes;             /**< 0: all of the file, or to the end of the volume */
	const volatile sig_atomic_t *stop; /**< set by SIGINT and SIGTERM */
};

/** What a transfer tells the process that repeats it (cp_retry.c), in memory that both have. */
struct cp_shared {
	uint64_t done_bytes;           /**< the most that any attempt got done */
	bool consumed;                 /**< octets were taken from a pipe, or given to one */
	bool begun;                    /**< a connection stood */
	pid_t pid;                     /**< whose name a temporary file has */
	char temp[CONF_PATH_MAX + 64]; /**< a temporary file that was kept; "": none */
	char err[CP_ERR_MAX];
};

/** The grant that OPEN returned. */
struct cp_grant {
	uint32_t handle, stag, rights, header_bytes, hash_bytes;
	uint64_t commit_to, slot_to[2], capacity_bytes;
	bool persistent;
	char hash[WEFT_TEXT_MAX + 1];
	char mechanism[WEFT_TEXT_MAX + 1];
};

struct cp_session {
	const struct cp_options *opt;
	const struct conf *conf;
	/** programs that the target may call; NULL: none */
	const struct weft_rpc_program *const *programs;
	struct url url;
	char where[600]; /**< "weft://10.0.0.1:7471", for messages */
	struct sockaddr_storage to;
	struct stack stack;
	struct cp_shared *shared;
	enum cp_exit exit; /**< of the failure; 0: as its errno says */
	struct weft_worker *w;
	struct weft_pd *pd;
	struct weft_cq *cq;
	struct weft_evq *evq;
	struct weft_qp *qp;
	struct weft_rpc *rpc;
	struct host_auth auth;
	bool open; /**< the session holds the grant */
	/** what a failure means for the object, before the operation can tell; NULL: nothing */
	const char *consequence;
	char no_object[WEFT_TEXT_MAX + 1]; /**< why the export cannot be opened as an object */
	struct cp_grant grant;
	/* revocation by the target */
	bool revoked;
	uint32_t revoke_rest; /**< rights that remain */
	double revoke_s;      /**< seconds from the warning to the end */
	uint64_t revoke_end_ns;
	/* state of the connection, as events report it */
	bool established, gone, refused, terminated;
	bool silent; /**< the peer does not answer: do not wait for an orderly close */
	int status;
	struct weft_terminate term;
	uint64_t last_ns;             /**< when something was last received */
	uint64_t link_wait_ns;        /**< how long a lost link is awaited */
	uint64_t link_ask_ns;         /**< when the port is asked for its link again */
	bool link_down, link_returns; /**< what it answered last */
	bool link_lost;
	uint64_t idle_ns; /**< since when polls have nothing to do; 0: the last one had work */
	/* the operation under way */
	void (*on_wc)(void *op, const struct weft_wc *wc);
	void *op;
	/* registered memory for small Reads from the target */
	uint8_t *ctl;
	struct weft_mr *ctl_mr;
	char err[CP_ERR_MAX];
};

/** One page for the commit word, one for a slot header. */
#define CP_CTL_WORD   0
#define CP_CTL_HEADER 4096
#define CP_CTL_BYTES  8192

/* The completions that an operation waits for. */
struct cp_done {
	unsigned int left;
	enum weft_wc_status status;
};

/** Format s->err; returns rc. */
int cp_fail(struct cp_session *s, int rc, const char *fmt, ...)
        __attribute__((format(printf, 3, 4)));
/** The exit status of a failure, -errno. */
int cp_exit_status(const struct cp_session *s, int rc);
/** Tell how much is done, in the bar and to the process that repeats the transfer. */
void cp_progress(struct cp_session *s, struct ui_progress *bar, uint64_t done_bytes);
/** Bring the stack up and connect. */
int cp_connect(struct cp_session *s);
/** Connect once more, after the connection has ended. All that was opened on it is gone; volumes
 * are closed before. */
int cp_connect_again(struct cp_session *s);
/** Whether cp_connect() has succeeded and the connection stands. */
bool cp_is_connected(const struct cp_session *s);
/**
 * OPEN the export; waits opt->wait_ns for a busy one. -EMEDIUMTYPE, without a message: it holds no
 * object. `wish`: rights that are used if the export
 * grants them, and are not required; grant.rights has the result.
 */
int cp_open(struct cp_session *s, uint32_t rights, uint32_t wish);
/** CLOSE after a successful transfer. An error is only reported, because the transfer has
 * succeeded. */
void cp_close(struct cp_session *s);
/** Disconnect in order, within a second, and free everything. Allowed at any stage. */
void cp_end(struct cp_session *s);
/** LIST; calls fn for each item. */
int cp_list(struct cp_session *s, void (*fn)(void *arg, const weft_export_item *it), void *arg);
/**
 * Poll once; sleep a little when there was nothing to do. -EINTR (a signal), -ENOTCONN (the
 * connection is gone), -ETIMEDOUT (`waiting`, and nothing was received for opt->silence_ns).
 */
int cp_turn(struct cp_session *s, bool waiting);
/** Whether a rate limit is set and `bytes` since begin_ns exceed it. */
bool cp_ahead(const struct cp_session *s, uint64_t begin_ns, uint64_t bytes);
/**
 * The reason of a failed completion as text; the text of the target's Terminate when the peer has
 * refused or failed the request. Valid until the next call.
 */
const char *cp_why(struct cp_session *s, enum weft_wc_status status);
/** Write the message for an error of the connection that cp_turn() or a completion reported;
 * returns rc. */
int cp_fail_conn(struct cp_session *s, int rc, const char *consequence);
/** RDMA Read len octets at `to` into ctl + off, and wait. */
int cp_read_ctl(struct cp_session *s, uint64_t to, uint32_t len, uint32_t off);
/**
 * Read the commit word and wait. With `flush`, a Flush of the word precedes the Read; the target
 * executes the two in this order. So a word that only this client may change is durable as read.
 */
int cp_read_word(struct cp_session *s, bool flush, struct expfmt_commit *word);
/** Post n work requests. -errno if the send queue does not take all of them. */
int cp_post(struct cp_session *s, const struct weft_wr *wr, unsigned int n);

/* cp_revoke.c */

/** The program that the target may call: its warnings. */
extern const struct weft_rpc_program *const cp_programs[];
/** Whether the export's revocation takes effect before the rest of the transfer, which needs
 * these rights, can be done. */
bool cp_must_leave(const struct cp_session *s, uint32_t needs, uint64_t begin_ns, uint64_t done,
                   uint64_t total);
/** Close the export because of the revocation, with the reason in s->err; no work of this client
 * is under way. */
int cp_leave(struct cp_session *s, const char *consequence);

/* cp_auth.c */

/** For weft_rpc_attr.auth, with s as its user. NULL: no authentication. */
const struct weft_rpc_auth *cp_auth(struct cp_session *s);
/** Set the address that is called; the proofs cover it. */
void cp_auth_called(struct cp_session *s, const struct sockaddr_storage *to);
/** The reason why authentication failed; NULL: it did not fail. */
const char *cp_auth_failure(const struct cp_session *s);

/** The figures of a transfer. */
struct cp_report {
	const char *op; /**< "push", "pull" */
	const char *source, *destination;
	uint64_t bytes, blocks;
	uint64_t resumed_bytes; /**< of these, proved to be there and not moved */
	/** from the first post to the acknowledgement, or to the last check */
	uint64_t transfer_ns;
	uint64_t total_ns; /**< with connecting, opening and local files */
	struct hist lat;   /**< per block, from its post to its last completion */
	uint64_t
	        /** from the last block's response to the response that acknowledges the commit */
	        commit_ns;
	uint64_t commit_post_ns; /**< the same, from the post of the header and the commit word */
	uint64_t generation;
	uint32_t slot, depth, block_bytes, tries;
	bool volume;                        /**< it has no object, so no generation, slot and crc */
	uint64_t offset_bytes, holes_bytes; /**< of a volume */
	uint8_t crc[EXPFMT_CRC_BYTES];
	uint64_t retransmits;
	/** both responses came in one poll, so commit_ns is not meaningful */
	bool commit_same_poll;
	bool flushed, verified, persistent;
	bool resume;  /**< resumed_bytes has a meaning */
	bool there;   /**< all of it was there already */
	bool fetched; /**< a push that the target has fetched, by RPC WRITEs */
	char hash[WEFT_TEXT_MAX + 1], mechanism[WEFT_TEXT_MAX + 1];
};

int cp_pull(struct cp_session *s, const char *path, struct cp_report *r);
/** --verify-only of an object and of a volume; r->bytes: equal ones. The exit status is
 * CP_EXIT_DIFFERS if they differ. */
int cp_verify(struct cp_session *s, const char *path, struct cp_report *r);
int cp_volume_verify(struct cp_session *s, const char *path, struct cp_report *r);
void cp_report_print(const struct cp_report *r, bool json, FILE *out);

#endif /* WEFT_APPS_CP_H */
