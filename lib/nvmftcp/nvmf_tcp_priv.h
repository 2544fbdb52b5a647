/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NVMF_TCP_PRIV_H
#define NVMF_TCP_PRIV_H

/**
 * @file A connection of the TCP transport, as its sources share it. From below: nvmf_tcp_wire.c
 * (codec), nvmf_tcp_out.c (octets for the stream), nvmf_tcp_tx.c (what is sent), nvmf_tcp_rx.c
 * (what has come), nvmf_tcp_tls.c (hosts that begin with TLS), nvmf_tcp.c (connections).
 * All on the worker's thread.
 */

#include <errno.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "nvmf_tcp_wire.h"
#include "nvmf_tls.h"
#include "weft_nvmf_tcp.h"
#include "weft_nvmf_transport.h"

#define TCP_CLOSE_NS 2000000000ULL /**< for a host to take the end of a connection */

/** A command's `transport` words. */
enum tcp_word {
	TCP_LINK,  /**< the next one in its list */
	TCP_BYTES, /**< of its data, received or sent */
	TCP_TAG,   /**< TTAG of its R2T */
	TCP_BAD,   /**< data with a wrong digest has come */
};

/** Commands in the order in which they were put in. */
struct tcp_cmds {
	struct weft_nvmf_cmd *first, *last;
};

/** A command whose data comes by R2T. */
struct tcp_pull {
	struct weft_nvmf_cmd *cmd; /**< NULL: the tag is free */
	/** The R2T was made: data may come. Before that the command is in tcp_tx.r2ts. */
	bool asked;
	uint64_t since_ns; /**< asked: when it was, or data has come */
};

struct tcp_capsule {
	SLIST_ENTRY(tcp_capsule) link;
	uint32_t bytes; /**< SQE and data */
	uint8_t data[WEFT_NVMF_SQE_BYTES + NVMF_TCP_ADMIN_INLINE_BYTES];
};

/** What arrives next. */
enum tcp_part { TCP_HEAD, TCP_PAD, TCP_DATA, TCP_TAIL };

/** Where the next octet of data is in memory of several pieces. */
struct tcp_place {
	const struct iovec *iov;
	size_t off_bytes;
};

struct tcp_rx {
	enum tcp_part part;
	uint8_t head[NVMF_TCP_HEADER_MAX + NVMF_TCP_DIGEST_BYTES], tail[NVMF_TCP_DIGEST_BYTES];
	uint32_t have_bytes; /**< of the present part */
	struct nvmf_tcp_ch ch;
	uint32_t crc;
	struct tcp_capsule *capsule; /**< CapsuleCmd: where it goes */
	struct weft_nvmf_cmd *cmd;   /**< H2CData: whose data it is; NULL: none */
	struct tcp_place place;
	uint64_t began_ns; /**< when the first octet of the PDU has come */
};

struct tcp_tx {
	struct tcp_cmds answers, r2ts;
	/** The PDU that is being sent. A TermReq is the longest header. */
	uint8_t head[NVMF_TCP_TERM_BYTES + NVMF_TCP_TERM_ECHO_MAX], tail[NVMF_TCP_DIGEST_BYTES];
	uint32_t head_bytes, head_at;
	uint32_t data_bytes; /**< that are left */
	uint32_t tail_bytes, tail_at;
	struct tcp_place place;
	bool ends_cmd; /**< with it, the first answer is sent */
	bool busy;     /**< there is one */
	bool pumping;  /**< nvmf_tcp_tx() runs */
	bool again;    /**< it is in `turns` of the transport: weft_nvmf_tcp_poll() goes on */
	bool its_turn; /**< weft_nvmf_tcp_poll() goes on now */
	TAILQ_ENTRY(tcp_conn) turn;
	uint32_t turn_bytes; /**< that were sent in this turn of the worker */
	uint64_t turn_ns;
	/** A C2HTermReq that is to be sent next, and then the end. */
	uint8_t term[NVMF_TCP_TERM_BYTES + NVMF_TCP_TERM_ECHO_MAX];
	uint32_t term_bytes;
	bool ended;        /**< the stream was closed behind what was sent: nothing else is */
	uint64_t moved_ns; /**< when TCP has taken octets, or what waits was begun */
};

/** What the first octet of a connection tells. */
enum tcp_kind { TCP_NEW, TCP_PLAIN, TCP_TLS };

struct tcp_conn {
	LIST_ENTRY(tcp_conn) link;
	struct weft_nvmf_tcp *t;
	struct weft_stream *s;     /**< NULL: it has ended */
	struct weft_nvmf_queue *q; /**< NULL: gone */
	struct nvmf_tcp_rules rules;
	uint8_t hpda;
	bool ready;   /**< the ICReq has come */
	bool deaf;    /**< what comes is dropped: the connection ends */
	bool closing; /**< it is closed behind the answers */
	bool lost;    /**< the queue knows of the end */
	enum tcp_kind kind;
	bool handshake; /**< of TLS: it has a place, and is in the transport's hands */
	TAILQ_ENTRY(tcp_conn) hand;
	bool shut;            /**< the stream is to be closed behind what waits in `tls` */
	struct nvmf_tls *tls; /**< kind TCP_TLS: until the connection is freed */
	struct weft_nvmf_proven proven;
	uint64_t hand_ns;   /**< when the handshake has begun */
	uint64_t record_ns; /**< since when a part of this record is there; 0: none is */
	struct sockaddr_storage remote;
	struct in6_addr peer; /**< weft_nvmf_peer_key() of it */
	uint64_t began_ns;
	uint64_t close_ns;      /**< it is to end by then; 0: it is not */
	struct tcp_pull *pulls; /**< by TTAG */
	uint16_t *tags;         /**< free ones, `depth` - npulls of them */
	uint32_t npulls;
	SLIST_HEAD(, tcp_capsule) capsules; /**< free ones */
	struct tcp_rx rx;
	struct tcp_tx tx;
};

struct weft_nvmf_tcp {
	struct weft_nvmf_tcp_attr attr;
	LIST_HEAD(, tcp_conn) conns;
	TAILQ_HEAD(, tcp_conn) hands; /**< in a handshake of TLS, the oldest first */
	TAILQ_HEAD(, tcp_conn) turns; /**< whose share of a turn was used up, in that order */
	uint32_t turn_bytes;          /**< that all have sent in this turn of the worker */
	uint64_t turn_ns;
	uint64_t next_ns; /**< when connections are looked at next; UINT64_MAX: never */
	struct weft_nvmf_tcp_stats stats;
	struct nvmf_tls_ctx *tls; /**< attr.tls other than OFF */
	uint64_t keys_seen;       /**< generation of the keys at the last look */
	bool keys_changed;        /**< in that look */
};

static inline uint64_t
tcp_now(const struct tcp_conn *c)
{
	return weft_worker_now_ns(c->t->attr.worker);
}

/** Look at connections by then. */
static inline void
tcp_look_by(struct weft_nvmf_tcp *t, uint64_t ns)
{
	if (ns < t->next_ns)
		t->next_ns = ns;
}

/** The connection is to end by then, if that was not so earlier. */
static inline void
tcp_close_by(struct tcp_conn *c, uint64_t ns)
{
	if (c->close_ns == 0 || ns < c->close_ns)
		c->close_ns = ns;
	tcp_look_by(c->t, c->close_ns);
}

/** The host is to do something: see that it does. */
static inline void
tcp_watch(struct tcp_conn *c)
{
	tcp_look_by(c->t, tcp_now(c) + c->t->attr.stall_ns / 8);
}

/** Reset it in the next poll. */
static inline void
tcp_abort_soon(struct tcp_conn *c)
{
	c->deaf = true;
	tcp_close_by(c, 1);
}

static inline void
tcp_cmds_put(struct tcp_cmds *l, struct weft_nvmf_cmd *cmd)
{
	cmd->transport[TCP_LINK] = 0;
	if (l->last == NULL)
		l->first = cmd;
	else
		l->last->transport[TCP_LINK] = (uintptr_t)cmd;
	l->last = cmd;
}

/** NULL: there is none. */
static inline struct weft_nvmf_cmd *
tcp_cmds_take(struct tcp_cmds *l)
{
	struct weft_nvmf_cmd *cmd = l->first;

	if (cmd == NULL)
		return NULL;
	l->first = (struct weft_nvmf_cmd *)(uintptr_t)cmd->transport[TCP_LINK];
	if (l->first == NULL)
		l->last = NULL;
	return cmd;
}

/** The octet at off_bytes of the pieces, which have more than that. */
static inline struct tcp_place
tcp_place_at(const struct iovec *iov, uint64_t off_bytes)
{
	while (off_bytes >= iov->iov_len)
		off_bytes -= iov++->iov_len;
	return (struct tcp_place){.iov = iov, .off_bytes = off_bytes};
}

/** The rest of a place's piece, at most max_bytes. */
static inline struct iovec
tcp_place_piece(const struct tcp_place *p, size_t max_bytes)
{
	const size_t left = p->iov->iov_len - p->off_bytes;

	return (struct iovec){.iov_base = (uint8_t *)p->iov->iov_base + p->off_bytes,
	                      .iov_len = left < max_bytes ? left : max_bytes};
}

/** Go on by octets of the present piece. */
static inline void
tcp_place_skip(struct tcp_place *p, size_t bytes)
{
	p->off_bytes += bytes;
	if (p->off_bytes == p->iov->iov_len) {
		p->iov++;
		p->off_bytes = 0;
	}
}

/* ---- nvmf_tcp_out.c ---- */

/** As weft_stream_write(), by TLS or without. */
ssize_t nvmf_tcp_out_write(struct tcp_conn *c, const struct iovec *iov, unsigned int n);
/** Octets that were taken, and that TCP has not taken yet. */
size_t nvmf_tcp_out_left(const struct tcp_conn *c);
/** TCP has room: give it those, and close behind them if that waits for it. */
void nvmf_tcp_out_flush(struct tcp_conn *c);
/** Close this side behind what was written. */
void nvmf_tcp_out_close(struct tcp_conn *c);

/* ---- nvmf_tcp_tx.c ---- */

/** Send what there is, as far as TCP has room, and the share of a turn goes. */
void nvmf_tcp_tx(struct tcp_conn *c);
/** A poll: connections that wait for it go on, with the share of another turn. */
void nvmf_tcp_tx_turns(struct weft_nvmf_tcp *t);
/** The connection is freed: it waits for no turn. */
void nvmf_tcp_tx_end(struct tcp_conn *c);
/** The ICReq was right: answer it. The first PDU of the connection. */
void nvmf_tcp_tx_icresp(struct tcp_conn *c, const struct nvmf_tcp_ic *ic);
/** The host has made a fault: tell it, with so many octets of the header in rx.head, and end the
 * connection. */
void nvmf_tcp_tx_term(struct tcp_conn *c, const struct nvmf_tcp_fault *f, uint32_t bytes);
/** Whether something waits to be sent. */
bool nvmf_tcp_tx_waits(const struct tcp_conn *c);

/* ---- nvmf_tcp_rx.c ---- */

/** Octets have come. */
void nvmf_tcp_rx(struct tcp_conn *c, const uint8_t *p, size_t bytes);
/** A capsule is free again. */
void nvmf_tcp_rx_release(struct tcp_conn *c, void *data);
/** Free what it has. */
void nvmf_tcp_rx_end(struct tcp_conn *c);

/* ---- nvmf_tcp_tls.c ---- */

/** Octets have come to the stream. False: the host sends nothing more. */
bool nvmf_tcp_tls_rx(struct tcp_conn *c, const uint8_t *p, size_t bytes);
/** Whether the connection may stay: false: its handshake takes too long, or its key is gone, which
 * was told. */
bool nvmf_tcp_tls_look(struct tcp_conn *c, uint64_t now_ns);
/** The connection has ended: its handshake is none any more. */
void nvmf_tcp_tls_lost(struct tcp_conn *c);
/** Free what it has. */
void nvmf_tcp_tls_end(struct tcp_conn *c);

#endif /* NVMF_TCP_PRIV_H */
