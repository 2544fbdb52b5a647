/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef MPA_PEER_H
#define MPA_PEER_H

/** @file An owner of an MPA stream that records every up-call, for the tests of lib/mpa. */

#include "fake_tcp.h"
#include "weft_mpa.h"
#include "weft_mpa_frame.h"

#define PEER_MAX_ULPDUS 512

struct peer {
	struct weft_mpa *m; /**< on the heap, so that ASan detects a use after free */
	struct weft_tcp_conn *c;
	struct weft_sched *s;
	unsigned int requests, replies, ulpdus, writables, mulpdus, faults, eofs, closeds;
	struct weft_mpa_frame frame; /**< the last Request or Reply */
	struct weft_term term;
	int closed_err;
	uint16_t mulpdu;
	uint32_t len[PEER_MAX_ULPDUS];
	uint32_t got_bytes;
	unsigned int max_frags;
	/** The action in the up-call act_on, for tests of destruction. */
	enum { ACT_NONE, ACT_DESTROY, ACT_CLOSE, ACT_ABORT, ACT_ACCEPT, ACT_REJECT } act;
	/** q request, p reply, u ulpdu, d ulpdu_placed, w writable, f fault, e eof, c closed */
	char act_on;
	/** ulpdu_ahead() takes ULPDUs. ahead_got has the last, of [ahead_seq, ahead_end_seq). */
	bool take;
	unsigned int aheads, placeds;
	uint32_t ahead_seq, ahead_end_seq, ahead_bytes;
	uint8_t ahead_got[1 << 16];
	uint32_t placed_seq, placed_end_seq, placed_bytes; /**< the last of ulpdu_placed() */
	uint8_t placed_head[WEFT_MPA_AHEAD_HEAD_BYTES];
	/** Memory of a destroyed MPA stream, filled with a pattern. NULL: none, or ASan is used. */
	void *grave;
	uint8_t got[1 << 20]; /**< the ULPDUs received, got_bytes in all */
};

extern const struct weft_mpa_ops peer_ops;

struct peer *peer_new(uint16_t mss);
void peer_free(struct peer *p);
/** Start up to full operation. Octets of the start-up are not recorded. A responder has received no
 * FPDU. */
struct peer *peer_full(uint16_t mss, bool initiator);

/**
 * The same with the flags of each side's frame: PEER_M (receives with markers), PEER_C (uses CRC).
 */
struct peer *peer_full_as(uint16_t mss, bool initiator, uint8_t ours, uint8_t theirs);
#define PEER_M 0x80
#define PEER_C 0x40

/** Whether MPA lets the owner begin an FPDU. The FPDU is cancelled. */
bool peer_may_send(const struct peer *p);

#define PEER_NOW (1000 * WEFT_NS_PER_MS)

#endif /* MPA_PEER_H */
