/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_TEST_VERBS_OBJECTS_H
#define WEFT_TEST_VERBS_OBJECTS_H

/** @file What the sources of the program objects share: the two ends, and what they say. */

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define BYTES   65536
#define DEPTH   32
#define MSG     64 /**< octets of a receive */
#define PORT    "7199"
#define BACKLOG 4 /**< of the server */

enum order {
	SEND_BACK,
	BIND_1,
	BIND_2,
	REBIND,
	UNBIND,
	TELL_BIND,
	IS_BOUND,
	TELL_SUM,
	TELL_IMM,
	READ_MINE,
	CALL,
	BYE /**< one message, and the end of the connection */
};

struct ask {
	uint32_t order, n; /**< n of CALL: the port at which the client listens */
	uint64_t addr;     /**< READ_MINE: what the server reads of the client's memory */
	uint32_t rkey, len;
};

struct told {
	uint64_t addr;
	uint32_t rkey, value;
};

struct end {
	struct rdma_cm_id *id;
	struct ibv_mr *mr;
	uint8_t *mem;
	struct told told; /**< by the server, in its private data */
};

/* ---- Both ends ---- */

/** End the program with what did not hold. */
void must(bool cond, const char *what, int line);
#define MUST(cond) must((cond), #cond, __LINE__)

/** Whether less than 20 s have passed. */
bool soon(const struct timespec *start);
/** The next completion, whatever it is. */
struct ibv_wc wc_any(struct ibv_cq *cq);
/** The next completion, which is a success. */
struct ibv_wc wc_ok(struct ibv_cq *cq, enum ibv_wc_opcode opcode);
/** A receive of MSG octets, wr_id `slot`; srq: or NULL. */
void post_recv(struct end *e, struct ibv_srq *srq, uint64_t slot);
void post_send_inline(struct end *e, const void *data, uint32_t len);
/** Of `len` octets of e->mem from `off` on. The errno of ibv_post_send(). */
int post(struct end *e, enum ibv_wr_opcode op, uint32_t off, uint32_t len, uint64_t addr,
         uint32_t rkey);
struct ibv_qp_init_attr plain(void);
struct rdma_addrinfo *info(const char *address, int flags);
/** BYTES octets, registered with all rights. */
void end_memory(struct end *e);

/* ---- The client ---- */

/** A case has passed. */
void done(const char *name);
/** An id whose server is resolved. */
struct rdma_cm_id *client_id(void);
/** Connect e->id, which has its QP. */
void client_up(struct end *e);
void client_open(struct end *e);
void client_close(struct end *e);
/** Ask the server, and wait for its answer. */
struct told ask_all(struct end *e, const struct ask *a);
struct told ask(struct end *e, enum order order, uint32_t n);
/** The next asynchronous event, which comes within `ms`. */
struct ibv_async_event async_event(struct ibv_context *context, int ms);

/* ---- objects_end.c ---- */

void case_late(void);
void case_flushed(void);
void case_async(void);
void case_options(void);
void case_backlog(void);
void case_absent(void);
/** The ends of a connection that say so when they wait, and then wait for ever. tos: the types of
 * service of the first id, which is the listener or the client's, and of the accepted one; NULL. */
int wait_idle(const char *end, const char *address, const char *const tos[2]);
/** The device is removed, when a line on the standard output has asked for it. Its exit status. */
int device_removed(void);
/** Leave all open, and give it back in a handler of exit(). Its exit status. */
int leave_open(void);

#endif /* WEFT_TEST_VERBS_OBJECTS_H */
