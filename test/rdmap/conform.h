/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CONFORM_H
#define CONFORM_H

/**
 * @file
 * What the tables of RFC 5040 and RFC 5041 share: one stream whose peer is the test, regions for
 * each way to be refused, and the Terminate that is expected, octet by octet.
 */

#include "rdmap_rig.h"

#define CF_BYTES 8192
#define CF_BASE  0x10000ull
#define CF_FILL  0x77
#define CF_IRD   4

enum cf_echo {
	CF_WORD, /**< the control word alone */
	CF_DDP,  /**< and length and DDP header of the guilty segment */
	CF_RDMA, /**< and the Read Request header */
};

struct cf {
	/** All rights, on a medium; remote read only; remote write only; local write only; of
	 * another domain with all rights. Each CF_BYTES at CF_BASE. */
	struct weft_mem_mr *all, *ro, *wo, *lw, *alien;
	struct weft_mem_pd other_pd;
	struct rig_medium med;
	uint8_t mem[4][CF_BYTES];
	/** The segment that the Terminate is about; taken from rig.last when empty. */
	uint8_t guilty[64];
	uint32_t guilty_bytes;
	/** Not all zero: the Read Request header expected instead of the guilty one's. */
	uint8_t rdma[RDMAP_READ_REQ_BYTES];
	/** Octets in regions may have changed: do not look. */
	bool touched;
	struct weft_rdmap_req req[8];
};

extern struct cf cf;

void cf_open(void);
/** Every region holds what it held, and nothing is leaked. */
void cf_close(void);
/** The guilty segment is the one injected last. */
void cf_blame(void);
/** b's next message is this Terminate, then FIN and silence; its counter counted one. */
void cf_expect_term(const struct weft_term *want, enum cf_echo echo);
/** Post n requests of one kind at b and throw away what they send; sinks are in cf.all. */
void cf_post(uint8_t op, unsigned int n);
uint64_t cf_fault(const char *name);

#define CF_TAGGED(ctrl, stag, to, p, n) rig_inject_tagged(&rig.b, ctrl, stag, to, true, p, n)
#define CF_UNTAGGED(ctrl, qn, msn, mo, p, n)                                                       \
	rig_inject_untagged(&rig.b, ctrl, qn, msn, mo, true, 0, p, n)
/** RFC 7306 Figure 4: FetchAdd of `add`, the first len octets of it. */
void cf_atomic(uint32_t msn, uint32_t stag, uint64_t to, uint64_t add, uint32_t len);

#define CF_READ(msn, stag, to, len)                                                                \
	rig_inject_read(&rig.b, msn,                                                               \
	                &(struct rdmap_read_req){.sink_stag = 0x0a0b0c0d,                          \
	                                         .sink_to = 0x1112131415161718,                    \
	                                         .len_bytes = len,                                 \
	                                         .src_stag = stag,                                 \
	                                         .src_to = to})

#endif /* CONFORM_H */
