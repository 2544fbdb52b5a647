/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TEST_TCP_SCRIPT_H
#define TEST_TCP_SCRIPT_H

/**
 * @file
 * Packet scripts: one stack on the simulated clock, and a peer whose packets a text file describes.
 * scripts/README.md defines the language. The peer's frames are encoded and decoded by separate
 * code, so that a mistake in the stack's codec is detected.
 *
 *     script_text.c   words, numbers, times, segments to and from text
 *     script_frame.c  frames to and from segments
 *     script_net.c    the stack, the peer, the application
 *     script_look.c   attributes, and what is read of the stack and the application
 *     script_run.c    statements
 */

#include "sim.h"
#include "weft_netif_stats.h"
#include "weft_tcp.h"
#include "weft_test.h"

#define SC_FIN 0x01
#define SC_SYN 0x02
#define SC_RST 0x04
#define SC_PSH 0x08
#define SC_ACK 0x10
#define SC_URG 0x20
#define SC_ECE 0x40
#define SC_CWR 0x80

#define SC_FLOWS     64
#define SC_PORT      7    /**< where the stack listens */
#define SC_PEER_PORT 4000 /**< port of flow 0; flow i has the i-th port after it */
#define SC_IRS       5000u
#define SC_FRAME_MAX 9600
#define SC_OPTS_MAX  40

/** A sequence number of a script: relative to the sender's SYN, or absolute if written with @. */
struct sc_num {
	uint32_t v;
	bool abs;
};

struct sc_opts {
	bool has_mss, has_ws, sack_ok, has_ts, has_sack;
	uint16_t mss;
	uint8_t ws;
	/** ecr_last: ts_ecr is added to the last TSval */
	bool val_any, ecr_any, val_auto, ecr_last;
	uint32_t ts_val, ts_ecr;
	uint8_t nsack;
	struct sc_num sack[4][2];
	uint8_t raw[SC_OPTS_MAX], nraw; /**< other options, as octets */
};

/** A segment that a script describes, or one that the stack sent. */
struct sc_seg {
	uint8_t flags;
	bool has_seq, has_ack, has_wnd, has_urg, has_opts;
	struct sc_num seq, ack;
	uint32_t len, piece; /**< piece: octets per segment of a range; 0: one segment */
	uint16_t wnd, urg;
	struct sc_opts o;
	int ecn;  /**< -1: any, or Not-ECT when sent */
	int dscp; /**< -1: any, or 0 when sent */
	int df;   /**< -1: any */
	/* Only of segments that the peer sends. */
	bool badsum, badip, frag, junk;
	int ttl, doff;     /**< -1: the correct value */
	uint32_t from, to; /**< IPv4 addresses; 0: the correct ones */
	uint8_t ip_nops;   /**< words of IPv4 options */
	uint32_t cut;      /**< octets removed from the end of the frame */
};

/** One connection of a script. */
struct sc_flow {
	uint16_t peer_port, our_port;
	uint32_t irs, iss, old_iss; /**< old_iss: before the last SYN of another number */
	bool iss_known;
	bool auto_ts; /**< timestamps are negotiated; add them if no options are given */
	uint32_t last_tsval;
	uint32_t ts_base; /**< TSval of the peer's SYN */
	uint64_t ts_base_ns;
	uint16_t last_wnd;
	/* The application. */
	struct weft_tcp_conn *c;
	uint64_t sent, received;
	bool accepted, established, eof, closed, bad_data, torn;
	int err;
	unsigned int writables, mss_calls;
};

enum sc_kind { SC_TCP, SC_ARP, SC_ECHO_REPLY, SC_OTHER };

/** A frame that the stack sent. */
struct sc_cap {
	uint64_t at_ns;
	enum sc_kind kind;
	uint16_t src_port, dst_port;
	struct sc_seg seg; /**< absolute numbers */
	/* ARP, echo */
	uint16_t op;
	uint32_t spa, tpa, echo_len;
	uint8_t payload[SC_FRAME_MAX];
};

#define SC_CAPS 512

struct sc {
	const char *file;
	int line;
	struct sim *sim;
	struct sim_link *link;
	struct weft_sched sched;
	struct weft_netif *nif;
	struct weft_tcp *tcp;
	struct weft_tcp_attr attr;
	struct weft_netif_attr nif_attr;
	struct weft_tcp_listener *listener;
	struct weft_tcp_stats tcp0; /**< counters at the start of the scenario */
	struct weft_netif_stats nif0;
	struct sc_flow flow[SC_FLOWS], *f;
	struct sc_cap *caps;
	unsigned int ncaps;
	bool up, v6, manual_arp, refuse;
	unsigned int accepts;
	uint16_t ip_id;
};

/** End the scenario as failed at its current line. */
#define SC_FAIL(s, ...) test_fail((s)->file, (s)->line, __VA_ARGS__)

/* script_text.c */
void sc_space(const char **p);
/** If w is the next word, consume it and return true. */
bool sc_word(const char **p, const char *w);
/** Copy the next word to buf. At the end of the text buf is empty. */
void sc_token(const char **p, char *buf, size_t size);
long long sc_int(struct sc *s, const char **p);
/** Parse a time such as 10us, 1.5ms or 2s. */
uint64_t sc_time(struct sc *s, const char **p);
void sc_end(struct sc *s, const char **p);
/** Parse an address: us, peer, or dotted decimal. */
uint32_t sc_addr(struct sc *s, const char **p);
void sc_parse_seg(struct sc *s, const char **p, struct sc_seg *g);
void sc_parse_opts(struct sc *s, const char **p, struct sc_opts *o);
/** Format a frame, with sequence numbers relative to the flow's. */
const char *sc_print(const struct sc *s, const struct sc_flow *f, const struct sc_cap *c, char *buf,
                     size_t size);

/* script_frame.c */
uint8_t sc_octet(uint64_t off, bool from_peer);
/** Encode a frame of the peer. Returns its length. */
uint32_t sc_frame_tcp(struct sc *s, const struct sc_flow *f, const struct sc_seg *g, uint8_t *p);
uint32_t sc_frame_icmp_error(struct sc *s, const struct sc_flow *f, uint8_t type, uint8_t code,
                             uint16_t mtu, uint32_t seq, uint16_t quoted_bytes, uint8_t *p);
uint32_t sc_frame_echo(struct sc *s, uint32_t len, bool badsum, uint8_t *p);
uint32_t sc_frame_arp(struct sc *s, uint16_t op, uint32_t spa, uint32_t tpa, uint8_t *p);
uint32_t sc_frame_na(struct sc *s, const uint8_t *target, const uint8_t *dst, uint8_t *p);
/** Decode a frame of the stack. False: scripts ignore this frame. The scenario fails on a bad
 * checksum. */
bool sc_frame_read(struct sc *s, const uint8_t *p, uint32_t len, struct sc_cap *c);
uint32_t sc_peer_v4(void);
uint32_t sc_our_v4(void);
struct weft_ip sc_ip(bool v6, bool peer);

/* script_net.c */
void sc_up(struct sc *s);
/** Destroy the stack. The scenario fails if a timer or an mbuf is left. */
void sc_down(struct sc *s);
/** Destroy everything after a failure, so that it does not affect the next scenario. */
void sc_abandon(struct sc *s);
void sc_inject(struct sc *s, const uint8_t *p, uint32_t len);
/** Run all work of the current instant. */
void sc_settle(struct sc *s);
void sc_run(struct sc *s, uint64_t ns);
/** Run until the stack sends a frame, at most for ns. */
bool sc_run_until_cap(struct sc *s, uint64_t ns);
void sc_listen(struct sc *s, unsigned int backlog);
/** dscp: WEFT_TCP_DSCP_PORT or a value. */
void sc_connect(struct sc *s, int dscp);
int sc_send(struct sc *s, uint32_t len, uint32_t piece, bool push);
void sc_uncap(struct sc *s, unsigned int i);

/* script_look.c */
/** Parse a number, or a time in microseconds. */
uint64_t sc_value(struct sc *s, const char **p);
/** Parse "NAME VALUE ..." and set the attribute. */
void sc_set(struct sc *s, const char **p);
/** Execute a statement state, info, stat, nif or app. False: it is none of these. */
bool sc_look(struct sc *s, const char *p, const char *text);

/* script_run.c */
void sc_statement(struct sc *s, const char *text);
void sc_finish(struct sc *s);

#endif /* TEST_TCP_SCRIPT_H */
