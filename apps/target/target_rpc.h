/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_TARGET_RPC_H
#define WEFT_APPS_TARGET_RPC_H

/** @file The procedures of the export program. They run on workers and never block. */

#include "export_proto.h"
#include "target_grant.h"
#include "target_metrics.h"
#include <weft/rpcrdma.h>

struct target_worker;

/** The results of one READ, and the grant and export of data that is not sent completely. */
struct target_read {
	weft_export_read_res res;     /**< first member: weft_export_read_binding casts to it */
	LIST_ENTRY(target_read) link; /**< in the reads of its connection, if g is set */
	struct target_grant *g;       /**< may be freed already */
	struct target_export *ex;     /**< the export whose medium holds the data, if g is set */
	struct target_conn *conn;     /**< it exists while the read is in its list */
	uint64_t off_bytes;           /**< in the medium */
	struct metrics_timing timing;
};

/** Exports of one answer to LIST_FROM: it fits one message, with whole texts. */
#define TARGET_LIST_PAGE 16U

/* ---- target_rpc.c ---- */

extern const struct weft_rpc_program *const target_programs[];

/* ---- target_why.c ---- */

/** Format a refusal's text for an answer's `why`; freeing the answer frees it. NULL: no memory. */
char *target_why(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* ---- target_reads.c ---- */

/** XDR of struct target_read; XDR_FREE ends the read. */
bool_t target_xdr_read(XDR *xdr, struct target_read *r);
/** The grant's right to read ends. Its connection is ended if a READ's data is not sent
 * completely. */
void target_reads_end(struct target_grant *g);

/* ---- target_io.c: struct weft_rpc_proc's serve and serve_later ---- */

enum weft_rpc_status target_serve_stat(void *conn_user, void *args, void *res);
void target_serve_read(void *conn_user, struct weft_rpc_req *req, void *args, void *res);
void target_serve_write(void *conn_user, struct weft_rpc_req *req, void *args, void *res);
/** The context is destroyed: free the WRITEs whose flush never began. */
void target_io_fini(struct target_worker *tw);

/* ---- target_log.c ---- */

enum weft_rpc_status target_serve_open_log(void *conn_user, void *args, void *res);

#endif /* WEFT_APPS_TARGET_RPC_H */
