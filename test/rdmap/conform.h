/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CONFORM_H
#define CONFORM_H

/**
 * @file
 * Shared by the conformance tables of RFC 5040 and RFC 5041: one stream whose peer is the test, a
 * region for each cause of refusal, and a check of every octet of the expected Terminate.
 */

#include "rdmap_rig.h"

#define CF_BYTES 8192
#define CF_BASE  0x10000ull
#define CF_FILL  0x77
#define CF_IRD   4

enum cf_echo {
	CF_WORD, /**< the Terminate has the control word only */
	CF_DDP,  /**< and the length and DDP header of the faulty segment */
	CF_RDMA, /**< and the RDMA Read Request header */
};

struct cf {
	/** Regions of CF_BYTES at CF_BASE. all: all rights, on a medium. ro: remote read only. wo:
	 * remote write only. lw: local write only. alien: all rights, in another protection
	 * domain. */
	struct weft_mem_mr *all, *ro, *wo, *lw, *alien;
	struct weft_mem_pd other_pd;
	struct rig_medium med;
	uint8_t mem[4][CF_BYTES];
	/** The segment that the Terminate reports. If guilty_bytes is 0, it is the last injected
	 * one. */
	uint8_t guilty[64];
	uint32_t guilty_bytes;
	/** If not all zeros: the expected Read Request header, in place of that of the faulty
	 * segment. */
	uint8_t rdma[RDMAP_READ_REQ_BYTES];
	/** cf_close() does not compare the regions, because octets in them may have changed. */
	bool touched;
	struct weft_rdmap_req req[8];
};

extern struct cf cf;

void cf_open(void);
/** Check that no region has changed and nothing is leaked. */
void cf_close(void);
/** The last injected segment is the faulty one. */
void cf_blame(void);
/** Check that b sends this Terminate next, then FIN and nothing more, and that of all Terminates
 * counted by code only this one was counted, once. */
void cf_expect_term(const struct weft_term *want, enum cf_echo echo);
/** Post n requests of one kind at b and discard what they send. Their sinks are in cf.all. */
void cf_post(uint8_t op, unsigned int n);
uint64_t cf_fault(const char *name);

#define CF_TAGGED(ctrl, stag, to, p, n) rig_inject_tagged(&rig.b, ctrl, stag, to, true, p, n)
#define CF_UNTAGGED(ctrl, qn, msn, mo, p, n)                                                       \
	rig_inject_untagged(&rig.b, ctrl, qn, msn, mo, true, 0, p, n)
/** Inject the first len octets of a FetchAdd of `add` (RFC 7306 Figure 4). */
void cf_atomic(uint32_t msn, uint32_t stag, uint64_t to, uint64_t add, uint32_t len);

#define CF_READ(msn, stag, to, len)                                                                \
	rig_inject_read(&rig.b, msn,                                                               \
	                &(struct rdmap_read_req){.sink_stag = 0x0a0b0c0d,                          \
	                                         .sink_to = 0x1112131415161718,                    \
	                                         .len_bytes = len,                                 \
	                                         .src_stag = stag,                                 \
	                                         .src_to = to})

#endif /* CONFORM_H */
