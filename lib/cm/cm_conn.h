/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CM_CONN_H
#define CM_CONN_H

/**
 * @file Connections: what connection management has of a queue pair, from the open to the last
 * event. On the QP's worker, but for the checks of attributes.
 */

#include "cm_peer.h"
#include "weft_ddp.h"
#include "weft_mpa_startup.h"
#include "weft_verbs_qp.h"

WEFT_LOG_DECLARE(cm);

#define CM_DEFAULT_TIMEOUT_US 10000000

/** Arguments of an active open, from weft_connect() to the peer's answer. */
struct cm_connect {
	struct weft_work_item work;
	struct weft_qp *qp;
	struct weft_timer timer; /**< limits the open; later starts the second attempt */
	struct weft_ip dst;
	uint16_t dst_port;
	struct weft_ip src; /**< all zero: by the route */
	uint16_t src_port;  /**< 0: TCP chooses */
	bool src_port_wish; /**< likewise if src_port cannot be used */
	struct weft_mpa_policy mpa;
	uint8_t mpa_rev; /**< of this attempt */
	bool fallback;   /**< another attempt, in revision 1, may follow */
	uint32_t timeout_us;
	uint32_t keepalive_us;
	int dscp; /**< WEFT_TCP_DSCP_PORT: the port's */
	uint64_t deadline_ns;
	uint16_t private_data_bytes;
	uint8_t private_data[WEFT_MPA_MAX_PDATA];
};

/** A queue pair's part; made with it. */
struct weft_cm_conn {
	struct weft_qp *qp;
	struct weft_tcp_conn *tcp;  /**< NULL: none, or it has ended */
	struct cm_connect *connect; /**< of an active open, until the peer's answer */
	bool keepalive;             /**< TCP's keepalive is on */
	/** the accepted connection's peer; NULL: none, or it has ended */
	struct cm_peer *peer;
	TAILQ_ENTRY(weft_cm_conn) crowd_link; /**< in peer->crowd of its standing, if it may go */
	TAILQ_ENTRY(weft_cm_conn) push_link;  /**< likewise, of all that may go (cm_push.c) */
	/** time of entering the lists; when data was last seen to move */
	uint64_t entered_ns, seen_ns;
	bool in_use;      /**< which of the two lists */
	uint8_t standing; /**< enum weft_standing */
	bool may_go;      /**< may be reset for another connection: its listener says so */
};

static inline struct weft_mpa *
cm_mpa(const struct weft_qp *qp)
{
	return weft_rdmap_ddp(qp->rdmap)->mpa;
}

/* ---- cm_conn.c ---- */

/** MPA's start-up is complete: start RDMAP with the agreed depths. */
void cm_conn_up(struct weft_qp *qp, uint16_t ird, uint16_t ord, const struct weft_mpa_frame *peer);
/** The connection has ended or failed: deliver the last event, once. */
void cm_conn_down(struct weft_qp *qp, int err);
/** Deliver the last event. */
void cm_conn_last_event(struct weft_qp *qp, enum weft_event_type type, int status,
                        const struct weft_mpa_frame *peer);
/** The open failed: the QP ends, with everything that was posted. */
void cm_conn_fail(struct weft_qp *qp, int err);
/** The stream has ended or was reset: weft_verbs_cm_ops.ended. */
void cm_conn_ended(struct weft_qp *qp, int err);
/** Drop timer and arguments of an active open; reset a connection that MPA does not have yet. */
void cm_conn_forget_open(struct weft_qp *qp);
/** Turn TCP's keepalive on; idle_us 0: it stays off. */
void cm_tcp_keepalive(struct weft_tcp_conn *c, uint32_t idle_us);
/** TCP keepalive of a connection; 0: off. */
void cm_conn_keepalive(struct weft_cm_conn *c, uint32_t idle_us);
/** Bring addresses and the state of TCP in the QP's snapshot up to date. */
void cm_conn_snap(struct weft_qp *qp);

/* ---- cm_connect.c: rdmap's up-calls at the initiator ---- */

void cm_connect_reply(struct weft_qp *qp, const struct weft_mpa_frame *rep);
/** A start-up failed: whether the QP makes a second attempt. */
bool cm_connect_again(struct weft_qp *qp);

/* ---- cm_attr.c ---- */

/** Check and convert a caller's address. -EINVAL, -EAFNOSUPPORT. */
int cm_attr_addr(const struct sockaddr *sa, socklen_t len, struct weft_ip *ip, uint16_t *port);
/** Convert a DSCP of the attributes, WEFT_DSCP() or 0: the port's. False: it is neither. */
bool cm_attr_dscp(uint64_t attr, int *dscp);
/** Lower a QP's depth to WEFT_DEPTH() of the attributes; 0: it stays. False: attr is neither. */
bool cm_attr_depth(uint32_t attr, uint16_t *depth);
/**
 * The revision of an active open's Request; -EINVAL. RFC 6581 s10: "MUST NOT use the enhanced RDMA
 * connection establishment formats [...] when no enhanced functionality is desired", and it has no
 * other than the depths and the model.
 */
int cm_attr_mpa_rev(const struct weft_mpa_policy *p);
/** The part of a policy that applies to both roles. */
struct weft_mpa_opts cm_attr_mpa_opts(const struct weft_mpa_policy *p);

#endif /* CM_CONN_H */
