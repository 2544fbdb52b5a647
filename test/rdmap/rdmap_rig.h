/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RDMAP_RIG_H
#define RDMAP_RIG_H

/**
 * @file
 * RDMAP streams without a network. rdmap and ddp are the library's. MPA is simulated: it queues
 * ULPDUs and passes them to the other side in fragments. If the peer of a side is NULL, the test
 * injects and inspects the ULPDUs itself.
 *
 * The rig also has a user that records up-calls, and a persistent medium with a shadow copy.
 */

#include "rdmap_irq.h"
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
	int status; /* status, state, error or code, by kind */
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
	/* the simulated MPA */
	struct rig_queue out;
	struct rig_ulpdu *building;
	uint32_t space; /* ULPDUs that MPA still accepts */
	bool want_space;
	bool fin, fin_seen, live, aborted;
	uint8_t mid; /* control octet of an incomplete message, or 0 */
	unsigned int flushes;
	/* the user */
	struct rig_ev ev[RIG_MAX_EV];
	unsigned int nev, nev_most; /**< nev_most: the highest nev; a test may lower nev */
	uint8_t recv[RIG_MAX_RECV][RIG_RECV_SIZE];
	struct weft_rdmap_sge recv_sge[3]; /**< SGEs of the receive in use */
	struct weft_rdmap_op_stats op_stats;
	unsigned int recv_posted, recv_taken;
	uint32_t recv_size;
	const struct weft_rdmap_sge *recv_instead; /**< not NULL: two SGEs for receives */
	int inv_rc;                                /* result of the invalidate up-call */
	uint32_t inv_stag;
	/* Destroy or abort the stream inside the n-th up-call from now (1: the next). 0: never. */
	unsigned int destroy_at, abort_at;
	bool again;          /**< a failed start-up is tried again */
	unsigned int agains; /**< times that rdmap asked whether to try again */
	void (*hook)(struct rig_side *s, const struct rig_ev *e);
};

struct rig {
	struct rig_side a, b;
	uint64_t now_ns;
	uint64_t rng;
	uint32_t mulpdu;  /* MULPDU of the next rig_open(); 0: 1400 */
	bool idle;        /* the next rig_open() does not start its streams */
	uint8_t last[64]; /* first octets of the last injected ULPDU */
	uint32_t last_bytes;
};

extern struct rig rig;

uint64_t rig_random(void);
/** Open the streams with this IRD and ORD on both sides. raw: only b has a stream, and the test is
 * its peer. */
void rig_open(uint16_t ird, uint16_t ord, bool raw);
void rig_open_attr(const struct weft_rdmap_attr *b_attr, uint16_t ird, uint16_t ord, bool raw);
/** Destroy all objects and check that nothing is leaked. */
void rig_close(void);
/** Poll both sides once. Returns whether any side made progress. */
bool rig_step(void);
/** Poll until no side makes progress. */
void rig_pump(void);
void rig_advance(uint64_t ns);

struct weft_mem_mr *rig_reg(struct rig_side *s, void *addr, uint64_t len, uint64_t base_to,
                            uint32_t access, struct weft_persist *p,
                            const struct weft_hash_ops *hash);
void rig_unreg(struct rig_side *s, struct weft_mem_mr *mr);
void rig_post_recv(struct rig_side *s, unsigned int n);

/** The i-th event of one kind, or NULL if there are fewer. */
const struct rig_ev *rig_ev(const struct rig_side *s, enum rig_ev_kind kind, unsigned int i);
unsigned int rig_ev_count(const struct rig_side *s, enum rig_ev_kind kind);
/** The status with which a request completed; -1: it has not completed. The case fails if the
 * request completed twice. */
int rig_status(const struct rig_side *s, const struct weft_rdmap_req *req);

/* Raw mode: the test is the peer of b. */
void rig_inject(struct rig_side *s, const void *ulpdu, uint32_t len);
void rig_inject_untagged(struct rig_side *s, uint8_t ctrl, uint32_t qn, uint32_t msn, uint32_t mo,
                         bool last, uint32_t inv, const void *payload, uint32_t len);
void rig_inject_tagged(struct rig_side *s, uint8_t ctrl, uint32_t stag, uint64_t to, bool last,
                       const void *payload, uint32_t len);
/** Inject a request on QN 1. */
void rig_inject_place(struct rig_side *s, uint8_t op, uint32_t msn, uint32_t stag, uint64_t to,
                      uint32_t len, const void *rest, uint32_t rest_len);
void rig_inject_read(struct rig_side *s, uint32_t msn, const struct rdmap_read_req *q);
/** Remove the oldest ULPDU that the side sent. The caller frees it. */
struct rig_ulpdu *rig_pop(struct rig_side *s);
/** Check that the oldest ULPDU that the side sent equals this one. Removes it. */
void rig_expect(const char *file, int line, struct rig_side *s, const void *ulpdu, uint32_t len);
#define EXPECT_ULPDU(s, p, n) rig_expect(__FILE__, __LINE__, s, p, n)

/* The persistent medium. */
#define RIG_MEDIUM_BUFS 8 /* read-backs at a time, including those not released */

struct rig_medium {
	struct weft_persist p;
	uint8_t *shadow;
	int flush_err, read_err;
	unsigned int eagain; /* refuse this many submissions with -EAGAIN */
	unsigned int flushes, reads, reads_out;
	bool immediate; /* requests complete inside their submission */
	uint32_t last_flags;
	unsigned int aheads; /**< flushes that might have begun ahead; the last one: */
	uint64_t ahead_off_bytes, ahead_len_bytes;
	uint32_t ahead_flags;
};

void rig_medium_open(struct rig_medium *m, uint64_t bytes);
void rig_medium_close(struct rig_medium *m);

extern const struct weft_hash_ops rig_hash; /* its result has 8 octets */
extern unsigned int rig_hashes;             /* hash states begun and not ended */

static inline struct weft_rdmap_req
rig_op_read(const struct weft_mem_mr *mr, uint64_t to, uint32_t len, const struct weft_mem_mr *sink,
            uint64_t sink_to)
{
	return (struct weft_rdmap_req){.op = WEFT_RDMAP_READ_REQ,
	                               .len_bytes = len,
	                               .stag = mr->stag,
	                               .to = to,
	                               .sink_stag = sink->stag,
	                               .sink_to = sink_to};
}

static inline struct weft_rdmap_req
rig_op_write(const struct weft_mem_mr *mr, uint64_t to, const void *p, uint32_t len)
{
	return (struct weft_rdmap_req){.op = WEFT_RDMAP_WRITE,
	                               .nsge = 1,
	                               .sge = {{(uint8_t *)(uintptr_t)p, len}},
	                               .len_bytes = len,
	                               .stag = mr->stag,
	                               .to = to};
}

/** The hash of n octets by rig_hash. */
void rig_hash_of(const void *p, size_t n, uint8_t out[8]);

#endif /* RDMAP_RIG_H */
