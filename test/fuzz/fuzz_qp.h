/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_FUZZ_QP_H
#define WEFT_FUZZ_QP_H

/** @file What the files of the entry fuzz_qp share: a QP of a whole stack, and a peer made of
 * octets. */

#include "fuzz.h"
#include "fpdu.h"
#include "guard.h"

#include "rdmap_wire.h"
#include "verbs_priv.h"
#include "vt.h"

#define QP_OPS    120
#define QP_REQS   160
#define QP_RENEW  512 /* inputs of one pair of stacks */
#define QP_ASKED  16
#define QP_RX_MAX 16384
#define QP_DEPTH  12
#define QP_READS  3 /* IRD and ORD */

/** Blocks of memory at the stack; each but RECV has a region or several. */
enum { RW, RO, SINK, LEND, FAST, RECV, NBLOCKS };
#define MEDIUM_LEN 4096u
#define TO         0x5000000000ULL

/** A request of the stack that the peer has not answered. */
struct asked {
	uint8_t op;
	uint32_t len;
	uint8_t body[80];
};

/** The peer: a TCP of node 0 with no more than octets above it. */
struct qp_peer {
	struct weft_tcp_listener *l;
	struct weft_tcp_conn *c;
	bool connected; /**< c was there once */
	bool full;      /**< the start-up frames are through */
	bool initiator;
	bool fin, broken;            /**< broken: it sent what is no FPDU */
	struct weft_mpa_frame frame; /**< its own */
	struct fpdu_stream tx, rx;
	uint8_t in[QP_RX_MAX]; /**< received and not parsed yet, markers taken out */
	uint32_t nin;
	uint32_t msn[WEFT_DDP_NQN], mo;
	struct asked asked[QP_ASKED];
	unsigned int nasked;
	unsigned int terminates_in, terminates_out;
};

/** A work request or receive; its wr_id is its number. */
struct qp_req {
	bool recv, signaled, done, good;
};

struct fuzz_qp {
	struct fuzz_in in;
	struct vt *t;
	struct vt_node *n; /**< the stack's */
	struct weft_cq *cq;
	struct weft_evq *evq;
	struct weft_qp *qp;
	/* in callbacks */
	unsigned int act_in; /**< so many up-calls from now; 0: never */
	uint8_t act;
	bool inside;
	struct weft_srq *srq;
	struct weft_mr *mr[NBLOCKS]; /**< NULL: none now */
	struct weft_mr *medium;
	struct weft_mw *mw[2];
	uint32_t stale;
	struct qp_req req[QP_REQS];
	unsigned int nreqs;
	unsigned int last_send, last_recv; /**< completed last, plus 1 */
	unsigned int established, disconnected, connect_errors, last_wqe;
	unsigned int terminated[2]; /**< [ours] */
	bool reject;
	struct weft_persist *persist;
	unsigned int mbufs;               /**< free before it all */
	struct weft_vworker_stats before; /**< likewise */
	struct qp_peer p;
};
extern struct fuzz_qp z;
extern struct guard qp_mem[NBLOCKS];

static inline uint64_t
qp_now(void)
{
	return sim_now_ns(z.t->sim);
}

/** One of the STags the stack gave out, one it took back, or any. */
uint32_t qp_stag(uint8_t how);

/* qp_peer.c */
/** The frame it sends at start-up is in z.p.frame. */
void peer_open(void);
void peer_close(void);
/** Its side of start-up: initiator. */
void peer_connect(void);
/** What it does next, as the input says. */
void peer_step(uint8_t op);

/* qp_local.c */
/** What the stack's own program does next. */
void local_step(uint8_t op);

/* fuzz_qp.c */
/** Time passes; completions and events are taken. */
void qp_turn(uint64_t ns);

#endif /* WEFT_FUZZ_QP_H */
