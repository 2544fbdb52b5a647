/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CROWD_H
#define CROWD_H

/**
 * @file
 * Hostile peers made by hand: thousands of TCP connections of addresses of their own, and single
 * frames, all put on a simulated link by sim_link_inject(). A peer keeps as little as it needs to
 * say the next thing and to say it again when it was lost; what it acknowledges, and what window it
 * shows, is its kind's to choose.
 *
 * Addresses are 10.0.X.Y with X > 0 and MACs 02:cc:00:00:X:Y; X >= CROWD_DARK answers no ARP
 * request. A peer is found by its port, CROWD_PORT + its number.
 */

#include "sim.h"

#define CROWD_PEERS 2048
#define CROWD_PORT  10000
#define CROWD_TX    4096 /**< octets that a peer has said and that are not acknowledged */
#define CROWD_HEAD  192  /**< octets of an FPDU's ULPDU that are looked at */
#define CROWD_DARK  200  /**< 10.0.200.0 and above: nobody is there */

enum crowd_state {
	CROWD_IDLE,
	CROWD_SYN, /**< sent, to be sent again until it is answered */
	CROWD_UP,
	CROWD_OVER, /**< reset, closed or left */
};

struct crowd;
struct crowd_peer;

/** What peers of a kind do when something happens; any may be NULL. */
struct crowd_kind {
	const char *name;
	unsigned int peers, addrs; /**< how many, and of how many addresses */
	bool again;                /**< a connection that is over is opened anew */
	bool scaled;               /**< offers window scale 7 */
	bool hold_syn;             /**< never answers a SYN+ACK */
	uint16_t mss;              /**< offered; 0: 1460 */
	unsigned int steps;        /**< how often a peer says more, where a kind counts that */
	void (*up)(struct crowd_peer *p);
	void (*mpa)(struct crowd_peer *p); /**< the MPA Reply came */
	void (*ulpdu)(struct crowd_peer *p, const uint8_t *u, uint32_t have,
	              uint32_t len);         /**< its first octets */
	void (*acked)(struct crowd_peer *p); /**< all that was said is acknowledged */
	void (*tick)(struct crowd_peer *p, uint64_t now_ns); /**< each millisecond while it is up */
	void (*storm)(struct crowd *c, uint64_t now_ns); /**< each millisecond, once for the kind */
};

struct crowd_peer {
	struct crowd *c;
	const struct crowd_kind *kind;
	enum crowd_state state;
	uint32_t ip; /**< host order */
	uint16_t port;
	unsigned int n; /**< its number within its kind */
	uint32_t snd_una, rcv_nxt, iss;
	uint32_t tx_len;
	uint64_t said_ns; /**< last sent */
	bool mute;        /**< acknowledges nothing more, and says nothing again */
	uint16_t wnd;     /**< announced, not scaled */
	uint16_t seg_bytes;
	/* the target's stream of FPDUs */
	bool mpa_done;
	uint32_t fpdu_left, have, ulpdu_bytes; /**< of the FPDU under way */
	uint64_t got_bytes;                    /**< payload that came */
	uint8_t head[CROWD_HEAD + 2];
	/* the kind's own */
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
	/* pings of 10.0.0.3 */
	unsigned int pings;
	uint8_t pong[65536 / 8];
	uint64_t opened, frames; /**< connections that came up; frames sent */
	uint32_t spy_seq; /**< last SEQ of the honest client's first connection, for those who guess
	                     near it */
	uint16_t spy_port; /**< its port at the client */
	struct crowd_peer peer[CROWD_PEERS];
};

/** Taps the link, whose end 1 is the target 10.0.0.1. Its node is the caller's to poll. */
void crowd_init(struct crowd *c, struct sim *sim, struct sim_link *link, uint64_t seed);
/** From now on peers of this kind attack as well. */
void crowd_attack(struct crowd *c, const struct crowd_kind *kind);
/** They leave: every other one resets its connection, the others say nothing any more. */
void crowd_leave(struct crowd *c);
void crowd_poll(struct crowd *c, uint64_t now_ns);
uint64_t crowd_next_ns(const struct crowd *c);
/** Peers that are up. */
unsigned int crowd_up(const struct crowd *c);
uint64_t crowd_rand(struct crowd *c, uint64_t n);

/** One ping of 10.0.0.3. */
void crowd_ping(struct crowd *c);
/** Of the first n pings, those that were not answered. */
unsigned int crowd_lost(const struct crowd *c, unsigned int n);

/* ---- What a peer says ---- */

void crowd_say(struct crowd_peer *p, const void *buf, uint32_t len);
/** One segment at SND.NXT + off, said once. */
void crowd_seg(struct crowd_peer *p, uint8_t flags, uint32_t off, const void *buf, uint32_t len);
void crowd_reset(struct crowd_peer *p);
/** The MPA Request of revision 1, with CRC. */
uint32_t crowd_mpa_request(uint8_t *buf);
/** An FPDU around a ULPDU; its octets. */
uint32_t crowd_fpdu(uint8_t *out, const uint8_t *ulpdu, uint16_t len);
/** An untagged message in one segment. */
void crowd_untagged(struct crowd_peer *p, uint8_t op, uint32_t qn, const void *buf, uint32_t len);
/** A call of the export program by RPC-over-RDMA version 1. */
void crowd_call(struct crowd_peer *p, uint32_t proc, const void *args, uint32_t len);
/** Say the MPA Request; OPEN the export for reading. */
void crowd_start(struct crowd_peer *p);
void crowd_open_read(struct crowd_peer *p);
/** OPEN of the export "e"; crowd_opened() takes the answer's STag: false when it is none. */
void crowd_open_export(struct crowd_peer *p, uint32_t rights);
bool crowd_opened(struct crowd_peer *p, const uint8_t *u, uint32_t have);
/** An RDMA Read Request of the STag. */
void crowd_read(struct crowd_peer *p, uint64_t to, uint32_t len);

/* ---- Frames ---- */

#define CROWD_TARGET 0x0a000001u
#define CROWD_CLIENT 0x0a000002u
#define CROWD_PINGER 0x0a000003u

/** An IPv4 packet; payload's checksums are the caller's. frag: as on the wire. */
void crowd_ip(struct crowd *c, uint32_t src, uint8_t proto, uint16_t id, uint16_t frag,
              const void *buf, uint32_t len);
/** A TCP segment of any source, header without options. */
void crowd_tcp(struct crowd *c, uint32_t src, uint16_t sport, uint8_t flags, uint32_t seq,
               uint32_t ack, const void *buf, uint32_t len);
/** ICMP: type, code, the four octets behind the checksum, and what follows. */
void crowd_icmp(struct crowd *c, uint32_t src, uint8_t type, uint8_t code, uint32_t word,
                const void *buf, uint32_t len);
void crowd_frame(struct crowd *c, const void *frame, uint32_t len);

#endif /* CROWD_H */
