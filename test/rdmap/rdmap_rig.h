/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RDMAP_RIG_H
#define RDMAP_RIG_H

/**
 * @file
 * Streams without a network: real rdmap over real ddp over an MPA of this file, which keeps
 * ULPDUs in a list and hands them to the other side, cut into fragments. A side whose peer is
 * NULL talks to the test itself, which injects and inspects ULPDUs.
 *
 * Also a user that records up-calls, and a persistent medium with a shadow copy.
 */

#include "rdmap_priv.h"
#include "weft_mpa.h"
#include "weft_test.h"

#define RIG_MAX_EV    4096
#define RIG_MAX_RECV  64
#define RIG_RECV_SIZE 4096

struct rig_ulpdu {
	TAILQ_ENTRY(rig_ulpdu) link;
	uint32_t len_bytes;
	uint8_t data[];
};

TAILQ_HEAD(rig_queue, rig_ulpdu);

enum rig_ev_kind { EV_DONE, EV_RECV, EV_STATE, EV_CLOSED, EV_BAD_RANGE, EV_REPLY, EV_IMM };

struct rig_ev {
	enum rig_ev_kind kind;
	struct weft_rdmap_req *req;
	int status; /* or state, err, code */
	uint32_t len_bytes;
	bool solicited;
	uint32_t inv_stag;
	struct weft_term term;
	bool has_term, ours;
	uint64_t to;
	uint8_t imm[8];
};

struct rig_side {
	struct weft_sched sched;
	struct weft_mem *mem;
	struct weft_mem_pd pd;
	struct weft_exec *exec;
	struct weft_rdmap *r;
	struct weft_ddp *ddp;
	struct rig_side *peer;
	/* the MPA */
	struct rig_queue out;
	struct rig_ulpdu *building;
	uint32_t space; /* ULPDUs it still takes */
	bool want_space;
	bool fin, fin_seen, live, aborted;
	uint8_t mid; /* control octet of a message begun and not finished, or 0 */
	unsigned int flushes;
	/* the user */
	struct rig_ev ev[RIG_MAX_EV];
	unsigned int nev, nev_most; /**< most: a test may set nev back */
	uint8_t recv[RIG_MAX_RECV][RIG_RECV_SIZE];
	struct weft_rdmap_sge recv_sge[3]; /**< of the buffer being filled */
	struct weft_rdmap_op_stats op_stats;
	unsigned int recv_posted, recv_taken;
	uint32_t recv_size;
	const struct weft_rdmap_sge *recv_instead; /**< not NULL: two pieces to receive into */
	int inv_rc;                                /* 0, or refuse an invalidation */
	uint32_t inv_stag;
	/* destroy the stream inside the n-th up-call from now (1: the next), 0: never */
	unsigned int destroy_at, abort_at;
	bool again;          /**< a start-up that failed begins anew */
	unsigned int agains; /**< it was asked whether */
	void (*hook)(struct rig_side *s, const struct rig_ev *e);
};

struct rig {
	struct rig_side a, b;
	uint64_t now_ns;
	uint64_t rng;
	uint32_t mulpdu;  /* of the next rig_open(); 0: 1400 */
	bool idle;        /* the next rig_open() does not start the streams */
	uint8_t last[64]; /* head of the ULPDU injected last */
	uint32_t last_bytes;
};

extern struct rig rig;

uint64_t rig_random(void);
/** ird/ord for both; raw: only b is a stream, the test is its peer. */
void rig_open(uint16_t ird, uint16_t ord, bool raw);
void rig_open_attr(const struct weft_rdmap_attr *b_attr, uint16_t ird, uint16_t ord, bool raw);
/** Frees everything; checks that nothing is leaked. */
void rig_close(void);
/** One poll of both; whether anything moved. */
bool rig_step(void);
/** Until nothing moves. */
void rig_pump(void);
void rig_advance(uint64_t ns);

struct weft_mem_mr *rig_reg(struct rig_side *s, void *addr, uint64_t len, uint64_t base_to,
                            uint32_t access, struct weft_persist *p,
                            const struct weft_hash_ops *hash);
void rig_unreg(struct rig_side *s, struct weft_mem_mr *mr);
void rig_post_recv(struct rig_side *s, unsigned int n);

/** Events of one kind, from the front; NULL past the last. */
const struct rig_ev *rig_ev(const struct rig_side *s, enum rig_ev_kind kind, unsigned int i);
unsigned int rig_ev_count(const struct rig_side *s, enum rig_ev_kind kind);
/** The status a request ended with, -1 not yet; fails when it ended twice. */
int rig_status(const struct rig_side *s, const struct weft_rdmap_req *req);

/* Raw: towards b. */
void rig_inject(struct rig_side *s, const void *ulpdu, uint32_t len);
void rig_inject_untagged(struct rig_side *s, uint8_t ctrl, uint32_t qn, uint32_t msn, uint32_t mo,
                         bool last, uint32_t inv, const void *payload, uint32_t len);
void rig_inject_tagged(struct rig_side *s, uint8_t ctrl, uint32_t stag, uint64_t to, bool last,
                       const void *payload, uint32_t len);
/** A request on QN 1. */
void rig_inject_place(struct rig_side *s, uint8_t op, uint32_t msn, uint32_t stag, uint64_t to,
                      uint32_t len, const void *rest, uint32_t rest_len);
void rig_inject_read(struct rig_side *s, uint32_t msn, const struct rdmap_read_req *q);
/** What b sent, oldest first; freed by the caller. */
struct rig_ulpdu *rig_pop(struct rig_side *s);
/** Next thing b sent is exactly this ULPDU. */
void rig_expect(const char *file, int line, struct rig_side *s, const void *ulpdu, uint32_t len);
#define EXPECT_ULPDU(s, p, n) rig_expect(__FILE__, __LINE__, s, p, n)

/* The medium. */
#define RIG_MEDIUM_BUFS 8 /* read-backs at a time, those not released included */

struct rig_medium {
	struct weft_persist p;
	uint8_t *shadow;
	int flush_err, read_err;
	unsigned int eagain; /* refuse so many submissions */
	unsigned int flushes, reads, reads_out;
	bool immediate; /* complete inside the submission */
	uint32_t last_flags;
};

void rig_medium_open(struct rig_medium *m, uint64_t bytes);
void rig_medium_close(struct rig_medium *m);

extern const struct weft_hash_ops rig_hash; /* 8 octets */
extern unsigned int rig_hashes;             /* begun and not ended */

#endif /* RDMAP_RIG_H */
