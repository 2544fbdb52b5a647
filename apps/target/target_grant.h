/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_TARGET_GRANT_H
#define WEFT_APPS_TARGET_GRANT_H

/** @file Grants: the region that an OPEN or a ticket gives to a connection, the writer's place, and
 * revocation. A grant belongs to its connection's worker. */

#include <sys/queue.h>

#include "export_proto.h"
#include "rate.h"
#include "target_export.h"

struct target_worker;

#define TARGET_GRANTS_MAX 64 /**< grants of one connection */

/** The grant of one OPEN; freed when its region is. */
struct target_grant {
	LIST_ENTRY(target_grant) link;
	struct target_export *ex;
	struct target_conn *conn;
	struct weft_mr *mr;
	struct quota_client *client; /**< the client in whose share it counts */
	struct rate_pass pass;       /**< its operations, in the client's rates */
	uint32_t handle;
	uint32_t rights;
	uint32_t rest; /**< the rights that remain after a revocation */
	/* members of a writer */
	LIST_ENTRY(target_grant) writer_link; /**< in the writers of its worker, if is_writer */
	bool is_writer;
	bool yields;    /**< it must stop writing */
	uint64_t moved; /**< octets that its connection had received when the worker last looked */
};

/* ---- target_grant.c ---- */

/** Check an OPEN or OPEN_LOG of an export: OK, or a refusal with its reason in why. ex may be
 * NULL. */
weft_export_status target_open_check(struct target_conn *c, struct target_export *ex,
                                     uint32_t rights, uint32_t cred_bytes, char *why, size_t size);
/** Register the region that an OPEN or a ticket grants, for g->conn. Errors of weft_mr_reg() and
 * target_rate_open(). */
int target_grant_register(struct target_grant *g);
/** Add a registered grant to its connection. */
void target_grant_add(struct target_grant *g);
/** Invalidate the STag. The grant is freed when its region is free. */
void target_grant_drop(struct target_grant *g);

/* ---- target_writer.c ---- */

/** Take the writer's place. False: buf says why not, and when to try again. On the grant's
 * worker. */
bool target_writer_take(struct target_grant *g, char *buf, size_t size);
/** For an OPEN_LOG: whether the client may write. If so, the place is reserved for it for ns.
 * buf as target_writer_take(). */
bool target_writer_keep(struct target_conn *c, struct target_export *ex, uint64_t ns, char *buf,
                        size_t size);
/** The worker no longer watches the grant as a writer. The place stays taken, because octets
 * that the peer sent may still arrive. On the grant's worker. */
void target_writer_leave(struct target_grant *g);
/** Give up the writer's place: the grant writes no more, or was never registered. On its worker. */
void target_writer_undo(struct target_grant *g);
/** The grant's region is free, and so is the writer's place. Any thread. */
void target_writer_freed(struct target_grant *g);
/** Stop watching the writers. Workers are stopped, or the call is on this worker. */
void target_writer_fini(struct target_worker *tw);

/* ---- target_revoke.c ---- */

/** Revoke the rights that the grant may no longer have. On its worker. */
void target_grant_revoke(struct target_grant *g);
/** Revoke the rights that the export no longer grants; at once when its file is lost. */
void target_export_revoke(struct target *t, struct target_export *ex);

#endif /* WEFT_APPS_TARGET_GRANT_H */
