/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VT_H
#define VT_H

/**
 * @file
 * Two complete stacks on a simulated link. Each is a context with one worker. Node 0 is 10.0.0.1,
 * node 1 is 10.0.0.2. The seed determines every run.
 */

#include <stdlib.h>
#include <time.h>

#include "inside.h"
#include "sim.h"
#include <weft/weft.h>
#include "weft_engine.h"
#include "weft_mem.h"
#include "weft_test.h"

#define VT_PORT 7471
#define VT_MS   1000000ULL
#define VT_S    1000000000ULL

struct vt_node {
	struct vt *t;
	unsigned int id;
	struct weft_ctx *ctx;
	struct weft_worker *w;
	struct weft_pd *pd;
	struct weft_cq *cq;
	struct weft_evq *evq;
	struct weft_listener *lsn;
	struct weft_qp *qp;
	/* memory registered by vt_mem() */
	uint8_t *mem;
	struct weft_mr *mr;
	struct weft_persist *persist;
};

struct vt_attr {
	uint64_t seed;
	struct sim_link_cfg link; /**< both directions */
	uint32_t cq_depth;        /**< [1024] */
	struct weft_cq_attr *cq;  /**< attributes of both CQs instead of cq_depth */
	struct weft_evq_attr *evq[2];
	struct weft_tcp_attr tcp;
	uint16_t mtu_bytes;     /**< [1500] */
	uint16_t mtu_far_bytes; /**< of node 1; 0: mtu_bytes */
	/** The addresses that vt_connect() uses. Every node has addresses of all three kinds. */
	enum vt_family { VT_V4, VT_V6, VT_V6_LL } family;
	uint16_t vlan_id[2];   /**< of each node; 0: untagged */
	uint32_t max_conns[2]; /**< of each node; 0: the default */
	/** Further networks of each node. */
	struct weft_netif_net nets[2][8];
	unsigned int nnets;
};

struct vt {
	enum vt_family family;
	uint64_t seed;
	struct sim *sim;
	struct sim_link *link;
	struct rte_mempool *pool;
	unsigned int pool_avail; /**< mbufs available before the test */
	struct vt_node n[2];
};

void vt_open(struct vt *t, const struct vt_attr *attr);
/** Destroy all objects in order. Checks that no object or mbuf is left. */
void vt_close(struct vt *t);

/** Register len octets of zeroed memory at a node with these rights. A region with the Flush or the
 * Verify right lies on the medium "volatile". A region with the Verify right has the hash crc32c.
 */
void vt_mem(struct vt_node *n, uint64_t len, uint32_t access);

/** The attributes that vt_connect() uses by default for a QP of the node. */
struct weft_qp_attr vt_qp_attr(struct vt_node *n);
void vt_listen(struct vt_node *n);
struct sockaddr_in vt_addr(unsigned int node, uint16_t port);
/** The same for an address of any family. *len is the length of the result. */
struct sockaddr_storage vt_addr_of(enum vt_family family, unsigned int node, uint16_t port,
                                   socklen_t *len);
/** Connect node 0 to node 1. Both QPs are created here, with attributes a0 and a1 (NULL:
 * vt_qp_attr() of the node). */
void vt_connect(struct vt *t, const struct weft_qp_attr *a0, const struct weft_qp_attr *a1);

/** The same, with the attributes of weft_connect() in ca[0] and of weft_accept() in ca[1]. */
void vt_connect_as(struct vt *t, const struct weft_qp_attr qa[2],
                   const struct weft_conn_attr ca[2]);

/** Send the first message of node 0, the initiator. Then both nodes may send (RFC 5044 s7.1). */
void vt_speak(struct vt *t);
/** Connect another stream between the same nodes, over which both may send. qp[] gets the QPs of
 * the first one. */
void vt_second_stream(struct vt *t, struct weft_qp *qp[2]);
/** Run fn(arg) on another thread and wait until it returns. No worker runs meanwhile. A check in fn
 * must not fail. */
void vt_elsewhere(void (*fn)(void *arg), void *arg);

/** Run the simulation for ns. */
void vt_run(struct vt *t, uint64_t ns);
/** Run until cond(arg) is true, at most for ns. Returns whether cond() became true. */
bool vt_until(struct vt *t, uint64_t ns, bool (*cond)(void *arg), void *arg);
/** Wait for the next completion of a node's CQ. The case fails if there is none within 120
 * simulated seconds. */
struct weft_wc vt_wc(struct vt_node *n);
/** Wait likewise for the next event, which must be of this type. */
struct weft_event vt_ev(struct vt_node *n, enum weft_event_type type);
/** Post a work request. The case fails if it is refused. */
void vt_post(struct vt_node *n, const struct weft_wr *wr);
void vt_post_recv(struct vt_node *n, void *buf, uint32_t len, uint64_t wr_id);
/** Fill buf with pseudo-random octets (xorshift) that seed determines. */
void vt_fill(uint8_t *buf, size_t len, uint64_t seed);
uint32_t vt_crc32c(const void *buf, size_t len, uint8_t out[4]);

#endif /* VT_H */
