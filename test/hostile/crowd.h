/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CROWD_H
#define CROWD_H

/**
 * @file
 * Simulated hostile peers: thousands of TCP connections with addresses of their own, and single
 * frames. All frames enter a simulated link through sim_link_inject(). A peer keeps only the state
 * that it needs to send its next octets and to retransmit them. Its kind decides what it
 * acknowledges and which window it announces.
 *
 * Addresses are 10.0.X.Y with X > 0 and MACs 02:cc:00:00:X:Y; X >= CROWD_DARK answers no ARP
 * request. A peer is found by its port, CROWD_PORT + its number.
 */

#include "sim.h"

#define CROWD_PEERS 2048
#define CROWD_PORT  10000
#define CROWD_TX    4096 /**< most unacknowledged octets of a peer */
#define CROWD_HEAD  192  /**< octets of a ULPDU that a peer decodes */
#define CROWD_DARK  200  /**< 10.0.200.0 and above: no ARP reply */

enum crowd_state {
	CROWD_IDLE,
	CROWD_SYN, /**< SYN sent; it is retransmitted until answered */
	CROWD_UP,
	CROWD_OVER, /**< reset, closed or left */
};

struct crowd;
struct crowd_peer;

/** A kind of hostile peers. Each up-call may be NULL. */
struct crowd_kind {
	const char *name;
	unsigned int peers, addrs; /**< number of peers and of their addresses */
	bool again;                /**< a peer reconnects when its connection has ended */
	bool scaled;               /**< offers window scale 7 */
	bool hold_syn;             /**< never answers a SYN+ACK */
	uint16_t mss;              /**< MSS option of the SYN; 0: 1460 */
	unsigned int steps;        /**< times that a peer sends more, in kinds that count */
	void (*up)(struct crowd_peer *p);
	void (*mpa)(struct crowd_peer *p); /**< the MPA Reply arrived */
	void (*ulpdu)(struct crowd_peer *p, const uint8_t *u, uint32_t have,
	              uint32_t len);         /**< u: first octets */
	void (*acked)(struct crowd_peer *p); /**< all sent octets are acknowledged */
	void (*tick)(struct crowd_peer *p, uint64_t now_ns); /**< each millisecond while up */
	void (*storm)(struct crowd *c, uint64_t now_ns); /**< each millisecond, once for the kind */
};

struct crowd_peer {
	struct crowd *c;
	const struct crowd_kind *kind;
	enum crowd_state state;
	uint32_t ip; /**< host order */
	uint16_t port;
	unsigned int n; /**< index of the peer within its kind */
	uint32_t snd_una, rcv_nxt, iss;
	uint32_t tx_len;
	uint64_t said_ns; /**< time of the last transmission */
	bool silent;      /**< the peer no longer acknowledges or retransmits */
	uint16_t wnd;     /**< announced window, not scaled */
	uint16_t seg_bytes;
	/* the stream of FPDUs from the target */
	bool mpa_done;
	uint32_t fpdu_left, have, ulpdu_bytes; /**< of the incomplete FPDU */
	uint64_t got_bytes;                    /**< payload received */
	uint8_t head[CROWD_HEAD + 2];
	/* state that the kind uses */
	unsigned int step;
	uint32_t msn[4], stag, handle, xid;
	uint8_t tx[CROWD_TX];
};

struct crowd {
	struct sim *sim;
	struct sim_link *link;
	uint64_t rng, next_ns;
	bool active;
	const struct crowd_kind *kind[8];
	unsigned int nkinds, npeers;
	/* pings sent from 10.0.0.3 */
	unsigned int pings;
	uint8_t pong[65536 / 8];
	uint64_t opened, frames; /**< established connections; frames sent */
	/** Last SEG.SEQ of the honest client's first connection, for peers that guess near it. */
	uint32_t spy_seq;
	uint16_t spy_port; /**< the client's port of that connection */
	struct crowd_peer peer[CROWD_PEERS];
};

/** Attach the crowd to a link whose end 1 is the target, 10.0.0.1. Installs the link's tap. */
void crowd_init(struct crowd *c, struct sim *sim, struct sim_link *link, uint64_t seed);
/** From now on peers of this kind attack as well. */
void crowd_attack(struct crowd *c, const struct crowd_kind *kind);
/** Stop the attack. Every second peer resets its connection. The others send nothing more. */
void crowd_leave(struct crowd *c);
void crowd_poll(struct crowd *c, uint64_t now_ns);
uint64_t crowd_next_ns(const struct crowd *c);
/** Number of peers with an established connection. */
unsigned int crowd_up(const struct crowd *c);
uint64_t crowd_rand(struct crowd *c, uint64_t n);

/** Send one ping from 10.0.0.3. */
void crowd_ping(struct crowd *c);
/** Number of the first n pings that were not answered. */
unsigned int crowd_lost(const struct crowd *c, unsigned int n);

/* ---- What a peer sends ---- */

void crowd_say(struct crowd_peer *p, const void *buf, uint32_t len);
/** Send one segment at SND.NXT + off. It is not retransmitted. */
void crowd_seg(struct crowd_peer *p, uint8_t flags, uint32_t off, const void *buf, uint32_t len);
void crowd_reset(struct crowd_peer *p);
/** Encode an MPA Request of revision 1 with CRC. Returns its length in octets. */
uint32_t crowd_mpa_request(uint8_t *buf);
/** Encode an FPDU with this ULPDU. Returns its length in octets. */
uint32_t crowd_fpdu(uint8_t *out, const uint8_t *ulpdu, uint16_t len);
/** Send an untagged message in one segment. */
void crowd_untagged(struct crowd_peer *p, uint8_t op, uint32_t qn, const void *buf, uint32_t len);
/** Send a call of the export program with RPC-over-RDMA version 1. */
void crowd_call(struct crowd_peer *p, uint32_t proc, const void *args, uint32_t len);
/** crowd_start(): send the MPA Request. crowd_open_read(): OPEN the export for reading. */
void crowd_start(struct crowd_peer *p);
void crowd_open_read(struct crowd_peer *p);
/** OPEN the export "e". crowd_opened() takes the STag of the answer. It returns false if the ULPDU
 * is not this answer. */
void crowd_open_export(struct crowd_peer *p, uint32_t rights);
bool crowd_opened(struct crowd_peer *p, const uint8_t *u, uint32_t have);
/** Send an RDMA Read Request for the peer's STag. */
void crowd_read(struct crowd_peer *p, uint64_t to, uint32_t len);

/* ---- Frames ---- */

#define CROWD_TARGET 0x0a000001u
#define CROWD_CLIENT 0x0a000002u
#define CROWD_PINGER 0x0a000003u

/** Send an IPv4 packet. The caller computes the checksums of the payload. frag: flags and offset as
 * on the wire. */
void crowd_ip(struct crowd *c, uint32_t src, uint8_t proto, uint16_t id, uint16_t frag,
              const void *buf, uint32_t len);
/** Send a TCP segment from any source, without options. */
void crowd_tcp(struct crowd *c, uint32_t src, uint16_t sport, uint8_t flags, uint32_t seq,
               uint32_t ack, const void *buf, uint32_t len);
/** Send an ICMP message. word: the four octets after the checksum. The payload follows them. */
void crowd_icmp(struct crowd *c, uint32_t src, uint8_t type, uint8_t code, uint32_t word,
                const void *buf, uint32_t len);
void crowd_frame(struct crowd *c, const void *frame, uint32_t len);

#endif /* CROWD_H */
