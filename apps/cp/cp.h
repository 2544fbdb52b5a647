/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_CP_H
#define WEFT_APPS_CP_H

/**
 * @file weft-cp's parts: a session with a target (cp_session.c, cp_auth.c), pushing (cp_source.c,
 * cp_push.c, cp_push_rpc.c), pulling (cp_pull.c), the report (cp_report.c), the target's warnings
 * (cp_revoke.c), the program (cp.c).
 *
 * One thread: it posts, calls weft_worker_poll(), and callbacks note what happened. Functions
 * return 0, or -errno with one line for the user in cp_session.err.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "conf.h"
#include "export_format.h"
#include "export_proto.h"
#include "hist.h"
#include "host_auth.h"
#include "key_file.h"
#include "stack.h"
#include "url.h"
#include <weft/weft.h>
#include <weft/rpcrdma.h>

#define CP_DEPTH_MAX 256
#define CP_BLOCK_MIN 4096u
#define CP_BLOCK_MAX (64u << 20)
#define CP_ERR_MAX   1024

struct cp_options {
	bool json, quiet, no_flush, no_verify;
	bool ignore_revoke;       /**< do not let the target tell us that it asks the export back */
	bool pull;                /**< push by having the target fetch the data */
	struct key_file hash_key; /**< 0 octets: none was given */
	char auth_name[HOST_AUTH_NAME_MAX + 1]; /**< "": we show nobody who we are */
	struct host_auth_keys auth_keys;
	uint32_t block_bytes;
	uint32_t depth;
	uint64_t connect_ns; /**< to connect */
	uint64_t silence_ns; /**< longest wait for anything to come back */
	uint64_t wait_ns;    /**< for a busy export */
	uint64_t rate_bytes; /**< a second, at most; 0: as fast as it goes */
};

/** What OPEN granted. */
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
	struct url url;
	char where[600]; /**< "weft://10.0.0.1:7471", for messages */
	struct stack stack;
	struct weft_worker *w;
	struct weft_pd *pd;
	struct weft_cq *cq;
	struct weft_evq *evq;
	struct weft_qp *qp;
	struct weft_rpc *rpc;
	struct host_auth auth;
	bool open; /**< grant is ours */
	struct cp_grant grant;
	/* the target asks it back */
	bool revoked;
	uint32_t revoke_rest; /**< what we keep of its rights */
	double revoke_s;      /**< so long after the warning */
	uint64_t revoke_end_ns;
	/* the connection, by events */
	bool established, gone, refused, terminated;
	bool silent; /**< no use in saying good-bye */
	int status;
	struct weft_terminate term;
	uint64_t last_ns; /**< when something last came back */
	uint64_t idle_ns; /**< since when there is nothing to do; 0: there is */
	/* the operation that is going on */
	void (*on_wc)(void *op, const struct weft_wc *wc);
	void *op;
	/* small things read from the target: registered */
	uint8_t *ctl;
	struct weft_mr *ctl_mr;
	char err[CP_ERR_MAX];
};

/** One page for the commit word, one for a slot header. */
#define CP_CTL_WORD   0
#define CP_CTL_HEADER 4096
#define CP_CTL_BYTES  8192

/* What became of the completions that an operation waits for. */
struct cp_done {
	unsigned int left;
	enum weft_wc_status status;
};

/** printf-like: fill s->err; returns rc. */
int cp_fail(struct cp_session *s, int rc, const char *fmt, ...)
        __attribute__((format(printf, 3, 4)));
/** Bring the stack up and connect. */
int cp_connect(struct cp_session *s);
/**
 * OPEN; waits opt->wait_ns for a busy export. `wish`: rights that would be nice to have, done
 * without when the export does not grant them; grant.rights tells.
 */
int cp_open(struct cp_session *s, uint32_t rights, uint32_t wish);
/** CLOSE after a transfer that succeeded; what goes wrong is no failure of it, so it is only told.
 */
void cp_close(struct cp_session *s);
/** Disconnect in order, a second at most, and free everything. Safe at any stage. */
void cp_end(struct cp_session *s);
/** LIST; each item is handed to fn. */
int cp_list(struct cp_session *s, void (*fn)(void *arg, const weft_export_item *it), void *arg);
/**
 * One turn: poll, sleep a little when nothing happens. -EINTR (a signal), -ENOTCONN (connection
 * gone), -ETIMEDOUT (`waiting` and nothing came back for opt->silence_ns).
 */
int cp_turn(struct cp_session *s, bool waiting);
/** Whether a rate is given and `bytes` since begin_ns are ahead of it. */
bool cp_ahead(const struct cp_session *s, uint64_t begin_ns, uint64_t bytes);
/**
 * Why a completion failed, in words: those of the target's Terminate where the status says no more
 * than that there was one. Good until the next call.
 */
const char *cp_why(struct cp_session *s, enum weft_wc_status status);
/** The line for what cp_turn() or a completion said about the connection. */
int cp_fail_conn(struct cp_session *s, int rc, const char *consequence);
/** RDMA Read len octets at `to` into ctl + off and wait. */
int cp_read_ctl(struct cp_session *s, uint64_t to, uint32_t len, uint32_t off);
/**
 * Read the commit word and wait. With `flush`, a FLUSH of it goes right before the Read; the target
 * executes them in this order, so a word that only we may change is durable as it was read.
 */
int cp_read_word(struct cp_session *s, bool flush, struct expfmt_commit *word);
/** Post what must be taken whole. */
int cp_post(struct cp_session *s, const struct weft_wr *wr, unsigned int n);

/* cp_source.c */

/** The file that is pushed. Set fd to -1, the rest to zero. */
struct cp_source {
	const char *path;
	int fd; /**< the owner closes it */
	struct stat st;
	const struct weft_hash_ops *crc; /**< of the object */
	struct weft_hash_state crc_state;
	uint64_t read_bytes;
};

int cp_source_open(struct cp_session *s, struct cp_source *f, const char *path);
/** Whether the export that was opened has room for it. */
int cp_source_fits(struct cp_session *s, const struct cp_source *f);
/** The next len octets. */
int cp_source_read(struct cp_session *s, struct cp_source *f, uint8_t *buf, uint32_t len);
/** It must be now what it was at the start. */
int cp_source_check(struct cp_session *s, const struct cp_source *f);
/** Its slot's header, once all of it was read. */
void cp_source_header(struct cp_source *f, uint64_t generation, uint8_t crc[EXPFMT_CRC_BYTES],
                      uint8_t *page);
/** What a push that failed means for the object, to be put behind the reason; returns buf. */
const char *cp_push_consequence(uint64_t old_generation, bool commit_sent, char *buf, size_t size);

/* cp_revoke.c */

/** What the target may call: its warnings. */
extern const struct weft_rpc_program *const cp_programs[];
/** Whether the export is asked back before what is left of the transfer, which needs these rights,
 * can be done. */
bool cp_must_leave(const struct cp_session *s, uint32_t needs, uint64_t begin_ns, uint64_t done,
                   uint64_t total);
/** Nothing of ours is under way: give the export back, and say why. */
int cp_leave(struct cp_session *s, const char *consequence);

/* cp_auth.c */

/** Take "NAME:KEYFILE" of the command line. */
void cp_auth_arg(struct cp_options *opt, const char *value);
/** For weft_rpc_attr.auth; its user is s. NULL: nobody is asked. */
const struct weft_rpc_auth *cp_auth(struct cp_session *s);
/** What is called goes into the proofs. */
void cp_auth_called(struct cp_session *s, const struct sockaddr_storage *to);
/** Why it failed; NULL: it did not. */
const char *cp_auth_failure(const struct cp_session *s);

/** Whether SIGINT or SIGTERM came. */
bool cp_interrupted(void);

/** What a transfer was. */
struct cp_report {
	const char *op; /**< "push", "pull" */
	const char *source, *destination;
	uint64_t bytes, blocks;
	uint64_t transfer_ns; /**< first post to acknowledgement, or to the last check */
	uint64_t total_ns;    /**< connecting, opening and local files included */
	struct hist lat;      /**< block: post to its last completion */
	uint64_t
	        commit_ns; /**< the last block's response to the one that acknowledges the commit */
	uint64_t commit_post_ns; /**< the same from the post of the header and the commit word */
	uint64_t generation;
	uint32_t slot, depth, block_bytes, tries;
	uint8_t crc[EXPFMT_CRC_BYTES];
	uint64_t retransmits;
	bool commit_same_poll; /**< both responses came in one poll: commit_ns tells nothing */
	bool flushed, verified, persistent;
	bool fetched; /**< a push: by the target, with RPC WRITEs */
	char hash[WEFT_TEXT_MAX + 1], mechanism[WEFT_TEXT_MAX + 1];
};

/** By RPC WRITEs: the target fetches the data. */
int cp_push_rpc(struct cp_session *s, const char *path, struct cp_report *r);
int cp_push(struct cp_session *s, const char *path, struct cp_report *r);
int cp_pull(struct cp_session *s, const char *path, struct cp_report *r);
void cp_report_print(const struct cp_report *r, bool json);

#endif /* WEFT_APPS_CP_H */
