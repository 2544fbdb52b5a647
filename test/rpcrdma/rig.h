/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RPCRDMA_RIG_H
#define RPCRDMA_RIG_H

/**
 * @file
 * Two connected endpoints, an RPC program that both may serve, and an auditor. The auditor uses
 * only the messages on the wire and the number of posted receives.
 */

#include "fake_verbs.h"
#include "rpcrdma_priv.h"

#define RIG_PROG 0x20000099
enum {
	RIG_ADD = 1,
	RIG_ECHO,
	RIG_STATUS,
	RIG_BIG,
	RIG_HOLE,
	RIG_NEST,
	RIG_SUICIDE,
	RIG_MOVE,
	RIG_LATER,
	RIG_TELL,
	RIG_NPROCS
};

struct rig_pair {
	uint32_t a, b;
};

/** Arguments and results of RIG_MOVE. The octets of either direction and the string are eligible
 * for chunks. */
struct rig_move {
	uint32_t seed;
	u_int data_len;
	char *data;
	char *name;
	/* Arguments: length of the data to return. Results: seed of the data received. */
	uint32_t want;
};

#define RIG_MOVE_MAX (1u << 20)

/** Messages that one side has sent and its credit, as seen on the wire. */
struct rig_audit {
	uint32_t sent, arrived, limit, last_field;
	uint32_t window;
	bool first_done, v2_only;
	unsigned int grants, messages;
	/* Version 1: unanswered calls sent and received, and the last grant received. */
	uint32_t calls1, calls1_in, granted1;
};

struct rig_side {
	struct rig *rig;
	struct weft_qp qp;
	struct weft_rpc *rpc;
	struct rig_audit audit;
	unsigned int served, nested_ok;
	struct weft_rpc_req *later; /* a RIG_LATER call that is not answered yet */
	uint32_t *later_res;
	unsigned int told;
	int last_call_rc;
};

struct rig {
	struct weft_worker worker;
	struct rig_side c, s; /* c: client; s: server */
	uint64_t rand;
};

struct rig_opts {
	uint32_t client_credits, server_credits; /* 0: default */
	uint32_t client_inline, server_inline;
	bool client_serves;                                     /* calls in the reverse direction */
	uint8_t client_min, client_max, server_min, server_max; /* limits of the version */
	bool no_connect;
	const struct weft_rpc_auth *client_auth, *server_auth;
	struct weft_rpc_drc *drc;
	struct weft_rpc_budget *budget; /* of both sides */
	uint32_t max_segment_bytes;     /* of both sides, unless set below */
	uint32_t client_segment_bytes, server_segment_bytes;
	uint32_t server_segments;
	bool no_invalidate;
	bool timed;      /* the server takes the times of calls */
	uint32_t random; /* weft_worker.random of fake_verbs.h; 0: first xid 1 */
	enum weft_rpc_reverse reverse;
	bool untold; /* version 1: the server is not told that the client serves */
	/* the server's programs; NULL: the rig's */
	const struct weft_rpc_program *const *programs;
};

/** The outcome of a call. */
struct rig_answer {
	unsigned int n; /* number of answers; 1 at the end */
	enum weft_rpc_status status;
	uint32_t sum;
	char text[70000];
	/* RIG_MOVE */
	struct rig_move args;
	uint32_t back;
	char *there_mem;
};

void rig_up(struct rig *r, const struct rig_opts *o);
void rig_down(struct rig *r);
/** As rig_down(), with the connection broken first, unless it has ended. */
void rig_break_down(struct rig *r);
/** Let the message counters of both sides and of the auditor start at `base`. */
void rig_set_base(struct rig *r, uint32_t base);
void rig_settle(struct rig *r);
/** Deliver messages and completions one at a time, in an order that the seed determines, until none
 * is left. */
void rig_shuffle(struct rig *r);
uint64_t rig_rand(struct rig *r);

int rig_add(struct rig_side *side, uint32_t a, uint32_t b, struct rig_answer *ans);
int rig_echo(struct rig_side *side, const char *text, struct rig_answer *ans);
int rig_call_u32(struct rig_side *side, uint32_t proc, uint32_t arg, struct rig_answer *ans);
int rig_big(struct rig_side *side, uint32_t len_bytes, struct rig_answer *ans);
void rig_on_sum(void *arg, enum weft_rpc_status status, void *res);
void rig_on_none(void *arg, enum weft_rpc_status status, void *res);

/** Encode a complete inline call of RIG_ADD as a peer sends it. Returns its length in octets. */
uint32_t rig_raw_add(uint8_t *buf, uint32_t xid, uint32_t credit, uint32_t a, uint32_t b);

/** The binding of RIG_MOVE. A test may change a copy. */
extern const struct weft_rpc_binding rig_move_binding;
unsigned int rig_move_items(const void *p, struct weft_rpc_item *items);
bool_t rig_xdr_move(XDR *x, ...);
bool_t rig_xdr_u32(XDR *x, ...);
bool_t rig_xdr_text(XDR *x, ...);
/** Fill buf with octets that seed determines. */
void rig_octets(char *buf, uint32_t len_bytes, uint32_t seed);
/** Call RIG_MOVE with memory of ans for the result, and check the result. b NULL: no data goes in
 * chunks. */
int rig_move(struct rig_side *side, uint32_t there, uint32_t back, const struct weft_rpc_binding *b,
             struct rig_answer *ans);

/** weft_rpc_binding.reply_bytes: the number of the name. */
uint32_t rig_reply_5000(const void *args);
uint32_t rig_reply_40000(const void *args);

/** Programs for rig_opts. Their procedure 1 takes the arguments of RIG_MOVE, is executed once, and
 * returns ++rig_ran. */
extern const struct weft_rpc_program *const rig_count_programs[];
extern const struct weft_rpc_binding rig_count_binding;
extern unsigned int rig_ran;
/** Attributes of a call of it; the answer goes to ans->sum. */
struct weft_rpc_call_attr rig_count_call(struct rig_move *mv, const struct weft_rpc_binding *b,
                                         struct rig_answer *ans, uint32_t xid);

/** The xid of the client's last call. */
uint32_t rig_last_xid(const struct rig *r);

/** Encode an RDMA2_CONNPROP_FINAL or RDMA2_ERROR message. buf has room for 256 octets. Returns the
 * length. */
uint32_t rig_raw_props(uint8_t *buf, uint32_t xid, uint32_t inline_bytes);
uint32_t rig_raw_error(uint8_t *buf, uint32_t xid, uint32_t code, uint32_t a, uint32_t b);

#endif /* RPCRDMA_RIG_H */
