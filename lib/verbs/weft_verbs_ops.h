/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_VERBS_OPS_H
#define WEFT_VERBS_OPS_H

/**
 * @file The up-calls of verbs: what it asks of the rooms above it. A context is given them when it
 * is created (weft_vctx_init()). None of them is called for a message.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct weft_rdmap;
struct weft_connreq;
struct weft_mpa_frame;
struct weft_mr;
struct weft_qp;
struct weft_vctx;
struct weft_vworker;
struct weft_vworker_stats;

/** To lib/place: about a region. */
struct weft_verbs_place_ops {
	/**
	 * A Flush or Verify of this range failed, as `status` says (-EIO, -EBADMSG): mark it. `to`
	 * is an offset in the region. False: no memory.
	 */
	bool (*bad_range)(struct weft_mr *mr, uint64_t to, uint64_t len_bytes, int status);
	/** The region is registered again, and has marks: remove them. */
	void (*registered)(struct weft_mr *mr);
	/**
	 * Its handle is destroyed: end a revocation without a callback. The context's lock is held.
	 */
	void (*deregistered)(struct weft_mr *mr);
	/** The last reference is gone: free what belongs to place. */
	void (*freed)(struct weft_mr *mr);
};

/** To lib/cm: about connections. On the QP's worker, but for those of a context. */
struct weft_verbs_cm_ops {
	/** Size of weft_qp.conn, which verbs allocates with the QP and fills with zeros. */
	size_t conn_bytes;
	void (*created)(struct weft_qp *qp);
	/**
	 * The QP is being destroyed, and its rdmap is next: give up an open that is under way. No
	 * event follows.
	 */
	void (*destroyed)(struct weft_qp *qp);
	/** The stream has ended or was reset; err as weft_rdmap_ops.closed. */
	void (*ended)(struct weft_qp *qp, int err);
	/** weft_rdmap_ops.reply, weft_rdmap_ops.again */
	void (*reply)(struct weft_qp *qp, const struct weft_mpa_frame *rep);
	bool (*again)(struct weft_qp *qp);
	/** Bring the QP's snapshot up to date. The context's lock is held. */
	void (*snap)(struct weft_qp *qp);
	/** Add the counters of a stream's layers below rdmap. The context's lock is held. */
	void (*count)(struct weft_rdmap *r, struct weft_vworker_stats *st);
	/** The event of a request will never reach a consumer: reject the request. */
	void (*drop_request)(struct weft_connreq *r);
	/** Number of listeners; the context's lock is held. */
	uint32_t (*listeners)(const struct weft_vctx *v);
	/** Teardown: destroy all listeners. */
	void (*unlisten_all)(struct weft_vctx *v);
	/** Teardown, when all QPs are gone: free every request of a worker. */
	void (*worker_gone)(struct weft_vworker *vw);
};

#endif /* WEFT_VERBS_OPS_H */
