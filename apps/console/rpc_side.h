/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_CONSOLE_RPC_SIDE_H
#define WEFT_CONSOLE_RPC_SIDE_H

/**
 * @file The console's RPC endpoints as their workers see them. Everything but rpc_side_serve(),
 * rpc_side_outcome() and rpc_side_end() runs on the worker of the client, con.rpc_worker. What
 * happens is told by notes (worker_side.h).
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct weft_worker;

/** The program that the console serves: procedure 1 returns its opaque argument. */
#define RPC_SIDE_PROG 0x20004543u
#define RPC_SIDE_VERS 1u

/** Words of a call's arguments or results, at most. */
#define RPC_SIDE_WORDS 1024u

struct rpc_side_call {
	uint32_t prog, vers, proc;
	const char *text;      /**< the argument, as a string<>; NULL: words */
	const uint32_t *words; /**< the arguments as XDR, in host order */
	unsigned int nwords;
};

struct rpc_side_info {
	unsigned int version; /**< of RPC-over-RDMA; 0: not settled */
	bool down;
	uint64_t calls, replies, errors, credit_stalls;
};

/** What the console has served, on the connections that are there and those that were. */
struct rpc_side_served {
	unsigned int connections; /**< now */
	uint64_t calls, replies, errors;
};

/** Connect client n. rpc_side_outcome() tells when it is connected. 0; -errno. */
int rpc_side_connect(unsigned int n, const struct sockaddr_storage *to);
/** Call; a note has the results. 0, or the errors of weft_rpc_call(). */
int rpc_side_call(unsigned int n, const struct rpc_side_call *call);
void rpc_side_query(unsigned int n, struct rpc_side_info *info);
void rpc_side_disconnect(unsigned int n);

#define RPC_SIDE_WAITS 1 /**< not decided yet */
/** 0, -errno, RPC_SIDE_WAITS. Any thread. */
int rpc_side_outcome(unsigned int n);
/** Serve the console's program on connections to this TCP port, on every worker. Main thread. */
int rpc_side_serve(uint16_t port);
/** Whether rpc_side_serve() was called. Main thread. */
bool rpc_side_serves(void);
/** Add what was served by the connections of this worker. On it. */
void rpc_side_count(const struct weft_worker *w, struct rpc_side_served *sum);
/** Add what was served by connections that have ended. Any thread. */
void rpc_side_count_ended(struct rpc_side_served *sum);
/** Free what is left. The workers have stopped. */
void rpc_side_end(void);

#endif /* WEFT_CONSOLE_RPC_SIDE_H */
