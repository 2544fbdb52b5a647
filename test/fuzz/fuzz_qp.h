/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_FUZZ_QP_H
#define WEFT_FUZZ_QP_H

/** @file Shared by the files of the entry fuzz_qp: a QP of a whole stack, and a peer that sends
 * raw octets. */

#include "fuzz.h"
#include "fpdu.h"
#include "guard.h"

#include "rdmap_wire.h"
#include "weft_cm.h"
#include "weft_verbs_qp.h"
#include "vt.h"

#define QP_OPS     120
#define QP_REQS    160
#define QP_RENEW   512 /* number of inputs for one pair of stacks */
#define QP_PENDING 16
#define QP_RX_MAX  16384
#define QP_DEPTH   12
#define QP_READS   3 /* IRD and ORD */

/** Blocks of memory of the stack. Each except RECV has one or several regions. */
enum { RW, RO, SINK, LEND, FAST, RECV, NBLOCKS };
#define MEDIUM_LEN 4096u
#define TO         0x5000000000ULL

/** A request of the stack that the peer has not answered. */
struct peer_req {
	uint8_t op;
	uint32_t len;
	uint8_t body[80];
};

/** The peer: a TCP connection of node 0 without layers above. */
struct qp_peer {
	struct weft_tcp_listener *l;
	struct weft_tcp_conn *c;
	bool connected; /**< c existed once */
	bool full;      /**< the start-up frames have been exchanged */
	bool initiator;
	bool fin, broken;            /**< broken: the peer sent octets that are not an FPDU */
	struct weft_mpa_frame frame; /**< the peer's own frame */
	struct fpdu_stream tx, rx;
	uint8_t in[QP_RX_MAX]; /**< received and not parsed yet, without markers */
	uint32_t nin;
	uint32_t msn[WEFT_DDP_NQN], mo;
	struct peer_req pending[QP_PENDING];
	unsigned int npending;
	unsigned int terminates_in, terminates_out;
};

/** A work request or receive. Its wr_id is its number. */
struct qp_req {
	bool recv, signaled, done, good;
};

struct fuzz_qp {
	struct fuzz_in in;
	struct vt *t;
	struct vt_node *n; /**< the stack's node */
	struct weft_cq *cq;
	struct weft_evq *evq;
	struct weft_qp *qp;
	/* in callbacks */
	unsigned int act_in; /**< number of up-calls until the action; 0: none */
	uint8_t act;
	bool inside;
	struct weft_srq *srq;
	struct weft_mr *mr[NBLOCKS]; /**< NULL: none */
	struct weft_mr *medium;
	struct weft_mw *mw[2];
	uint32_t stale;
	struct qp_req req[QP_REQS];
	unsigned int nreqs;
	unsigned int last_send, last_recv; /**< number of the last completion, plus 1 */
	unsigned int established, disconnected, connect_errors, last_wqe;
	unsigned int terminated[2]; /**< index 1: ours */
	bool reject;
	struct weft_persist *persist;
	unsigned int mbufs;               /**< free mbufs before the input */
	struct weft_vworker_stats before; /**< statistics before the input */
	struct qp_peer p;
};
extern struct fuzz_qp z;
extern struct guard qp_mem[NBLOCKS];

static inline uint64_t
qp_now(void)
{
	return sim_now_ns(z.t->sim);
}

/** A current STag of the stack, a former one, or any value. */
uint32_t qp_stag(uint8_t how);

/* qp_peer.c */
/** Create the peer. Its start-up frame is in z.p.frame. */
void peer_open(void);
void peer_close(void);
/** The peer connects as the initiator. */
void peer_connect(void);
/** One action of the peer, as the input says. */
void peer_step(uint8_t op);

/* qp_local.c */
/** One action of the stack's own program. */
void local_step(uint8_t op);

/* fuzz_qp.c */
/** Let time pass, and handle completions and events. */
void qp_turn(uint64_t ns);

#endif /* WEFT_FUZZ_QP_H */
