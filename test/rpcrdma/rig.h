/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RPCRDMA_RIG_H
#define RPCRDMA_RIG_H

/**
 * @file
 * Two endpoints back to back, a program that both may serve, and an auditor that sees only
 * what passes on the wire and how many receives are posted.
 */

#include "fake_verbs.h"
#include "rpcrdma_priv.h"

#define RIG_PROG 0x20000099
enum { RIG_ADD = 1, RIG_ECHO, RIG_STATUS, RIG_BIG, RIG_HOLE, RIG_NEST, RIG_SUICIDE, RIG_NPROCS };

struct rig_pair {
	uint32_t a, b;
};

/** What one side has sent and been allowed, by the wire. */
struct rig_audit {
	uint32_t sent, arrived, limit, last_field;
	uint32_t window;
	bool first_done, v2_only;
	unsigned int grants, messages;
};

struct rig_side {
	struct rig *rig;
	struct weft_qp qp;
	struct weft_rpc *rpc;
	struct rig_audit audit;
	unsigned int served, nested_ok;
	int last_call_rc;
};

struct rig {
	struct weft_worker worker;
	struct rig_side c, s; /* client and server */
	uint64_t rand;
};

struct rig_opts {
	uint32_t client_credits, server_credits; /* 0: default */
	uint32_t client_inline, server_inline;
	bool client_serves; /* reverse direction */
	bool no_connect;
};

/** What a call came to. */
struct rig_answer {
	unsigned int n; /* answers: exactly one in the end */
	enum weft_rpc_status status;
	uint32_t sum;
	char text[70000];
};

void rig_up(struct rig *r, const struct rig_opts *o);
void rig_down(struct rig *r);
/** Both sides' counters of sent and received messages, and the auditor's, start at `base`. */
void rig_set_base(struct rig *r, uint32_t base);
void rig_settle(struct rig *r);
/** Move things one at a time in seeded random order until nothing moves. */
void rig_shuffle(struct rig *r);
uint64_t rig_rand(struct rig *r);

int rig_add(struct rig_side *side, uint32_t a, uint32_t b, struct rig_answer *ans);
int rig_echo(struct rig_side *side, const char *text, struct rig_answer *ans);
int rig_call_u32(struct rig_side *side, uint32_t proc, uint32_t arg, struct rig_answer *ans);
int rig_big(struct rig_side *side, uint32_t len_bytes, struct rig_answer *ans);
void rig_on_sum(void *arg, enum weft_rpc_status status, void *res);
void rig_on_none(void *arg, enum weft_rpc_status status, void *res);

/** Octets of a whole inline call of RIG_ADD, as a peer would send it. */
uint32_t rig_raw_add(uint8_t *buf, uint32_t xid, uint32_t credit, uint32_t a, uint32_t b);

#endif /* RPCRDMA_RIG_H */
