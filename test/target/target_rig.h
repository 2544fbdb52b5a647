/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TARGET_RIG_H
#define TARGET_RIG_H

/**
 * @file
 * The parts of weft-target with one volume or more, over a simulated network. A volume's device is
 * the block driver "fault" in front of "mem", whatever driver the configuration asks for. Each of
 * two clients has a link of its own to the target, and, with two workers, a worker of its own
 * there. A client is the RPC library with the XDR of version 2 of the export program, and RDMA for
 * windows: what a hostile client can do as well. One thread; time is that of the simulation.
 */

#include "sim.h"
#include "target.h"
#include "target_grant.h"
#include "target_rpc.h"
#include "target_volume.h"
#include "volrpc.h"
#include "weft_block_fault.h"
#include <weft/weft.h>

#define RIG_NODES      2u
#define RIG_MS         1000000ULL
#define RIG_S          1000000000ULL
#define RIG_MEM        (2u << 20) /* memory of a client for data */
#define RIG_NAME       "v"        /* of the volume */
#define RIG_OTHERS     2u
#define RIG_GIVE_UP_US 600000000ULL /* a call that has no answer then was forgotten */

#define RIG_RIGHTS (WEFT_EXPORT_READ | WEFT_EXPORT_WRITE | WEFT_EXPORT_FLUSH | WEFT_EXPORT_VERIFY)

struct rig_attr {
	uint64_t seed;
	unsigned int workers; /**< 1 or 2 */
	uint64_t bytes;       /**< of the device */
	const char *target;   /**< more lines of the section [target]; NULL: none */
	const char *export;   /**< more lines of the section [export]; NULL: none */
	unsigned int others;  /**< more volumes, of RIG_OTHERS, each on a device of its own */
};

/** A client: a stack with one connection or more. */
struct rig_node {
	struct sim_link *link;
	struct weft_ctx *ctx;
	struct weft_worker *w;
	struct weft_pd *pd;
	struct weft_cq *cq;
	struct weft_evq *evq;
	struct weft_mr *mr;
	uint8_t *mem; /**< RIG_MEM octets */
	unsigned int id;
};

struct rig_conn {
	struct rig_node *n;
	struct weft_qp *qp;
	struct weft_rpc *rpc;
	bool up, gone;
	unsigned int under_way; /**< calls without an answer */
	unsigned int revokes;   /**< REVOKE calls of the target */
};

/** A call. Its owner zeroes it, sets proc and args, and keeps it until it is done. */
struct rig_call {
	uint32_t proc;
	union {
		weft_volrpc_open_args open;
		weft_volrpc_close_args close;
		struct weft_volrpc_read_call read;
		weft_volrpc_write_args write;
		weft_volrpc_range_args range;
		weft_volrpc_compare_args compare;
		weft_volrpc_window_args window;
		weft_volrpc_move_args move;
		weft_volrpc_window_close_args wclose;
		weft_volrpc_snap_args snap;
		weft_volrpc_list_args list;
	} args;
	/** Octets that are sent as the arguments, instead of args; NULL: none. */
	const void *raw;
	uint32_t raw_bytes;
	bool no_chunks;                   /**< no item travels in a chunk */
	uint64_t timeout_us;              /**< [RIG_GIVE_UP_US] */
	void (*then)(struct rig_call *c); /**< called when it is done; may be NULL */
	void *owner;
	/* results */
	bool done;
	enum weft_rpc_status rpc;
	weft_volrpc_status status; /**< of the volume, if rpc is WEFT_RPC_OK */
	uint64_t at, done_bytes;
	char why[WEFT_VOLRPC_TEXT_MAX + 1];
	weft_volrpc_grant grant; /**< its texts are not kept */
	weft_volrpc_window win;
	uint8_t hash[WEFT_VOLRPC_HASH_MAX];
	uint32_t hash_bytes, read_bytes, extents, items, next;
	struct rig_conn *conn;
};

/** A work request of RDMA that is waited for. */
struct rig_wr {
	bool done;
	enum weft_wc_status status;
};

struct rig {
	struct rig_attr a;
	struct sim *sim;
	struct target *t;
	struct rte_mempool
	        *pool[3]; /**< of the clients, and the target's for received and own ones */
	struct rig_node node[RIG_NODES];
	struct weft_block *block;     /**< the device "fault" of the volume, */
	struct weft_block *medium;    /**< and "mem" behind it */
	unsigned int others;          /**< devices of other volumes that were opened */
	struct weft_block_chan *look; /**< the test's own channel to the medium */
};

extern struct rig rig;

extern const char *const rig_others[RIG_OTHERS]; /**< names of volumes */

/** Start the target and the clients, without a connection. The pool of mbufs is made once. */
void rig_open(const struct rig_attr *a);
/** Destroy everything. */
void rig_close(void);
void rig_run(uint64_t ns);
/** Run until done(arg), at most for ns. Returns whether it was. */
bool rig_until(uint64_t ns, bool (*done)(void *arg), void *arg);
/** The client's link fails, or works again. */
void rig_link(unsigned int node, bool up);

/** Connect; the owner zeroes k. Returns at once, with k->up or k->gone later. */
void rig_connect(struct rig_conn *k, unsigned int node);
/** The same, and wait until it is up. */
void rig_connected(struct rig_conn *k, unsigned int node);
/** Destroy the connection from this side, at once. Calls under way are done. */
void rig_disconnect(struct rig_conn *k);

/** Make a call. Without a connection it is done at once. */
void rig_call(struct rig_conn *k, struct rig_call *c);
/** Wait until it is done. The case fails if that takes longer than RIG_GIVE_UP_US. */
void rig_wait(struct rig_call *c);
/** Whether a call is done, for rig_until(). arg: struct rig_call. */
bool rig_is_done(void *arg);
/** Open the volume; the status, and the grant in *g if that is OK. */
weft_volrpc_status rig_grant(struct rig_conn *k, uint32_t rights, weft_volrpc_grant *g);
/** The same of the volume of this name. */
weft_volrpc_status rig_grant_of(struct rig_conn *k, const char *name, uint32_t rights,
                                weft_volrpc_grant *g);

/** Write octets of the node's memory to a window, and with `flush` flush them for persistence. wr
 * is done with the last of both. False: there is no room for it, or no connection. */
bool rig_rdma(struct rig_conn *k, uint32_t stag, uint64_t to, const void *from, uint32_t len,
              bool flush, struct rig_wr *wr);

/** Post work requests, all or none, of which the last one is signaled and wr is done with it. */
bool rig_post(struct rig_conn *k, struct weft_wr *list, unsigned int n, struct rig_wr *wr);

/** What the medium holds of the volume, past the device's cache. It is as if the power failed. */
void rig_medium(uint64_t off, void *to, uint64_t len);
/** As long as it is set, the target gets no alarm: no memory. */
extern bool rig_no_alarm;
/** Whether the target has said this in a message since rig_open(). */
bool rig_said(const char *what);
/** What is left of connections and volumes at the target, as a text; NULL: nothing. */
const char *rig_left(void);
/** Whether nothing is left, for rig_until(). arg is ignored. */
bool rig_is_clean(void *arg);

#endif /* TARGET_RIG_H */
