/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_VERBS_QP_H
#define WEFT_APPS_VERBS_QP_H

/** @file Queue pairs: their life, their states, and what is posted to them. */

#include <infiniband/verbs.h>
#include <pthread.h>
#include <sys/queue.h>

#include <weft/weft.h>

#include "newer.h"
#include "rq.h"

struct wv_cq;
struct wv_srq;
struct wv_cm_id;

#define WV_MIN_INLINE 64 /**< granted always: librdmacm's programs post it without asking */

/** Requests that ibv_wr_*() has made and ibv_wr_complete() has not posted: qp_ex.c. */
struct wv_build {
	pthread_mutex_t lock; /**< from ibv_wr_start() on; before the engine's */
	struct weft_wr *wr;   /**< max_send_wr of them; NULL: no extended queue pair */
	struct weft_sge *sge; /**< max_send_sge for each */
	uint8_t *data;        /**< max_inline_data for each */
	struct ibv_mw **mw;   /**< windows that the requests bind, one for each */
	uint32_t n;           /**< requests made */
	int err;              /**< errno of the first that is wrong */
};

struct wv_qp {
	union {
		struct ibv_qp ibv;
		struct ibv_qp_ex ex;
		struct wv_qp_ex newer;
	};
	struct weft_qp *qp;  /**< NULL: was in no connection and is in error; posts are flushed */
	struct weft_cq *wcq; /**< whose callback fills the program's queues */
	struct wv_cq *scq, *rcq;
	struct wv_srq *srq;  /**< or NULL */
	struct wv_cm_id *id; /**< that it connects by; NULL: none. Under the engine's lock */
	struct ibv_qp_cap cap;
	struct wv_rq rq; /**< without a shared queue */
	bool sig_all;
	bool up;   /**< established, and not disconnected yet */
	bool busy; /**< connecting or up */
	unsigned int access;
	uint8_t max_ord, max_ird;
	uint16_t ord; /**< as agreed; 0: no Read can be sent */
	uint32_t async_reported;
	TAILQ_ENTRY(wv_qp) link;
	struct wv_build build;
	LIST_HEAD(, wv_mw_req) mw_reqs; /**< of mw.c, under the engine's lock */
};

static inline struct wv_qp *
wv_qp(struct ibv_qp *q)
{
	return (struct wv_qp *)(void *)q;
}

/* ---- qp_conn.c: under the engine's lock ---- */

/** By its number. NULL: there is none. */
struct wv_qp *wv_qp_find(uint32_t qp_num);
/** Call fn(q, arg) for all. */
void wv_qp_each(void (*fn)(struct wv_qp *q, void *arg), void *arg);
/** The end of the process: let all connections send what they have. */
void wv_qp_drain_all(uint64_t end_ns);
/** Its connection is up or has ended. */
void wv_qp_up(struct wv_qp *q);
void wv_qp_down(struct wv_qp *q);
/** Close in order, behind what is posted. 0, -errno. */
int wv_qp_close(struct wv_qp *q);
/** Reset the connections of a context, which is closed. */
void wv_qp_abort_context(const struct ibv_context *context);
/** Reset the connections of a device, whose link is gone. */
void wv_qp_abort_device(unsigned int number);
/** Reset the connection; what is posted completes as flushed. */
void wv_qp_abort(struct wv_qp *q);
/** Give it a number and put it into the list of all; remove it. */
void wv_qp_enlist(struct wv_qp *q);
void wv_qp_unlist(struct wv_qp *q);
/**
 * Before weft's QP goes: close the connection, and wait a short time for the peer to close, too.
 * The engine's lock is given back meanwhile. If the peer has not, give the connection away (q->qp
 * is NULL then). A QP of weft that is left, because its connection has ended or not all is sent, is
 * to be reset.
 */
void wv_qp_leave(struct wv_qp *q);

/* ---- qp.c ---- */

struct ibv_qp *wv_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr);

/* ---- post.c ---- */

int wv_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int wv_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
/* ---- done.c ---- */

/** The callback of a queue pair's completion queue. */
void wv_post_done(void *user, struct weft_cq *cq, const struct weft_wc *wc, unsigned int n);

/* ---- qp_ex.c ---- */

/** Make the tables of an extended queue pair. -ENOMEM, -EOPNOTSUPP. */
int wv_build_init(struct wv_qp *q, uint64_t send_ops);
void wv_build_fini(struct wv_qp *q);

#endif /* WEFT_APPS_VERBS_QP_H */
