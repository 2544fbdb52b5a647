/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TEST_TCP_SCRIPT_H
#define TEST_TCP_SCRIPT_H

/**
 * @file
 * Packet scripts: one stack on the simulated clock, and a peer that a text file plays, packet by
 * packet. README.md in scripts/ says what a script may say. The peer's frames are made and read
 * here by code of its own, so that a mistake in the stack's codec does not hide itself.
 *
 *     script_text.c   words, numbers, times, segments to and from text
 *     script_frame.c  frames to and from segments
 *     script_net.c    the stack, the peer, the application
 *     script_look.c   attributes, and what is read of the stack and the application
 *     script_run.c    statements
 */

#include "sim.h"
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
#define SC_PEER_PORT 4000 /**< of flow 0; the others count up */
#define SC_IRS       5000u
#define SC_FRAME_MAX 9600
#define SC_OPTS_MAX  40

/** A sequence number as a script says it: relative to the sender's SYN, or with @ as it is. */
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
	uint8_t raw[SC_OPTS_MAX], nraw; /**< options beyond these, as octets */
};

/** A segment of a script, or one that came. */
struct sc_seg {
	uint8_t flags;
	bool has_seq, has_ack, has_wnd, has_urg, has_opts;
	struct sc_num seq, ack;
	uint32_t len, piece; /**< piece: a range, in segments of that size; 0: one segment */
	uint16_t wnd, urg;
	struct sc_opts o;
	int ecn; /**< -1: any, or Not-ECT when sent */
	int df;  /**< -1: any */
	/* Only of what is sent. */
	bool badsum, badip, frag, junk;
	int ttl, doff;     /**< -1: as it should be */
	uint32_t from, to; /**< IPv4 addresses; 0: as they should be */
	uint8_t ip_nops;   /**< words of IPv4 options */
	uint32_t cut;      /**< octets that the frame lacks at its end */
};

/** One connection as the script sees it. */
struct sc_flow {
	uint16_t peer_port, our_port;
	uint32_t irs, iss, old_iss; /**< old_iss: before the last SYN of another number */
	bool iss_known;
	bool auto_ts; /**< timestamps were agreed: put them on what says nothing of options */
	uint32_t last_tsval;
	uint32_t ts_base; /**< of the peer's clock, which begins with its SYN */
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

/** A frame of the stack. */
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
	struct weft_tcp_stats tcp0; /**< when the scenario began */
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
/** Take the word if it is the next one. */
bool sc_word(const char **p, const char *w);
/** The next word into buf; empty at the end. */
void sc_token(const char **p, char *buf, size_t size);
long long sc_int(struct sc *s, const char **p);
/** 10us, 1.5ms, 2s. */
uint64_t sc_time(struct sc *s, const char **p);
void sc_end(struct sc *s, const char **p);
/** us, peer, or dotted. */
uint32_t sc_addr(struct sc *s, const char **p);
void sc_parse_seg(struct sc *s, const char **p, struct sc_seg *g);
void sc_parse_opts(struct sc *s, const char **p, struct sc_opts *o);
/** numbers relative to the flow's. */
const char *sc_print(const struct sc *s, const struct sc_flow *f, const struct sc_cap *c, char *buf,
                     size_t size);

/* script_frame.c */
uint8_t sc_octet(uint64_t off, bool from_peer);
/** A frame of the peer. Returns its length. */
uint32_t sc_frame_tcp(struct sc *s, const struct sc_flow *f, const struct sc_seg *g, uint8_t *p);
uint32_t sc_frame_icmp_error(struct sc *s, const struct sc_flow *f, uint8_t type, uint8_t code,
                             uint16_t mtu, uint32_t seq, uint16_t quoted_bytes, uint8_t *p);
uint32_t sc_frame_echo(struct sc *s, uint32_t len, bool badsum, uint8_t *p);
uint32_t sc_frame_arp(struct sc *s, uint16_t op, uint32_t spa, uint32_t tpa, uint8_t *p);
uint32_t sc_frame_na(struct sc *s, const uint8_t *target, const uint8_t *dst, uint8_t *p);
/** Read a frame of the stack; false: nothing that a script looks at. Fails on a bad checksum. */
bool sc_frame_read(struct sc *s, const uint8_t *p, uint32_t len, struct sc_cap *c);
uint32_t sc_peer_v4(void);
uint32_t sc_our_v4(void);
struct weft_ip sc_ip(bool v6, bool peer);

/* script_net.c */
void sc_up(struct sc *s);
/** Fails if a timer or an mbuf is left. */
void sc_down(struct sc *s);
/** After a failure: nothing of it must reach the next scenario. */
void sc_abandon(struct sc *s);
void sc_inject(struct sc *s, const uint8_t *p, uint32_t len);
/** Let happen what happens now. */
void sc_settle(struct sc *s);
void sc_run(struct sc *s, uint64_t ns);
/** Until something comes, at most ns. */
bool sc_run_until_cap(struct sc *s, uint64_t ns);
void sc_listen(struct sc *s, unsigned int backlog);
void sc_connect(struct sc *s);
int sc_send(struct sc *s, uint32_t len, uint32_t piece, bool push);
void sc_uncap(struct sc *s, unsigned int i);

/* script_look.c */
/** A number, or a time in microseconds. */
uint64_t sc_value(struct sc *s, const char **p);
/** "NAME VALUE ..." of an attribute. */
void sc_set(struct sc *s, const char **p);
/** state, info, stat, nif, app; false: none of these. */
bool sc_look(struct sc *s, const char *p, const char *text);

/* script_run.c */
void sc_statement(struct sc *s, const char *text);
void sc_finish(struct sc *s);

#endif /* TEST_TCP_SCRIPT_H */
