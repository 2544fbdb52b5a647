/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VT_FAST_H
#define VT_FAST_H

/**
 * @file
 * Shared by the tests of fast registration and of invalidation: work requests, guarded memory, and
 * checks of completions and Terminates.
 */

#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>

#include "vt.h"
#include "weft_mem_find.h"

#define RW (WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_REMOTE_READ | WEFT_ACCESS_REMOTE_WRITE)

/** Memory that ends at an inaccessible page. The octets before it have a known value. */
struct guarded {
	uint8_t *page, *mem;
	size_t len;
};

static inline void
guard(struct guarded *g, size_t len)
{
	size_t pages = (len + 64 + 4095) / 4096 * 4096;

	g->page = mmap(NULL, pages + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
	               0);
	CHECK(g->page != MAP_FAILED);
	CHECK_EQ(mprotect(g->page + pages, 4096, PROT_NONE), 0);
	memset(g->page, 0xca, pages - len);
	g->mem = g->page + pages - len;
	memset(g->mem, 0, len);
	g->len = len;
}

static inline void
unguard(struct guarded *g)
{
	size_t before = (size_t)(g->mem - g->page);

	for (size_t i = 0; i < before; i++)
		CHECK_MSG(g->page[i] == 0xca, "octet %zu before the region", before - i);
	CHECK_EQ(munmap(g->page, before + g->len + 4096), 0);
}

static inline struct weft_wr
wr_fast(struct weft_mr *mr, void *addr, uint64_t len, uint64_t base_to, uint32_t access)
{
	return (struct weft_wr){.opcode = WEFT_WR_FAST_REG,
	                        .flags = WEFT_WR_SIGNALED,
	                        .fast_reg = {.mr = mr,
	                                     .addr = addr,
	                                     .len_bytes = len,
	                                     .base_to = base_to,
	                                     .access = access}};
}

static inline struct weft_wr
wr_inv(uint32_t stag)
{
	return (struct weft_wr){
	        .opcode = WEFT_WR_LOCAL_INV, .flags = WEFT_WR_SIGNALED, .local_inv.stag = stag};
}

static inline struct weft_wr
wr_rdma(enum weft_wr_opcode op, const struct weft_sge *sg, uint32_t stag, uint64_t to)
{
	return (struct weft_wr){.opcode = op,
	                        .flags = WEFT_WR_SIGNALED,
	                        .sg_list = sg,
	                        .num_sge = 1,
	                        .rdma = {.stag = stag, .to = to}};
}

static inline struct weft_wr
wr_bind(struct weft_mw *mw, struct weft_mr *mr, void *addr, uint64_t len, uint64_t base_to,
        uint32_t access)
{
	return (struct weft_wr){.opcode = WEFT_WR_BIND_MW,
	                        .flags = WEFT_WR_SIGNALED,
	                        .bind_mw = {.mw = mw,
	                                    .mr = mr,
	                                    .addr = addr,
	                                    .len_bytes = len,
	                                    .base_to = base_to,
	                                    .access = access}};
}

static inline struct weft_wr
wr_flush(uint32_t stag, uint64_t to, uint32_t len, uint32_t flags)
{
	return (struct weft_wr){
	        .opcode = WEFT_WR_FLUSH,
	        .flags = WEFT_WR_SIGNALED,
	        .flush = {.stag = stag, .to = to, .len_bytes = len, .flags = flags}};
}

/** expect_bytes 0: nothing is expected. result, of WEFT_HASH_MAX_BYTES octets, may be NULL. */
static inline struct weft_wr
wr_verify(uint32_t stag, uint64_t to, uint32_t len, const void *expect, uint32_t expect_bytes,
          uint8_t *result)
{
	return (struct weft_wr){
	        .opcode = WEFT_WR_VERIFY,
	        .flags = WEFT_WR_SIGNALED,
	        .verify = {.stag = stag,
	                   .to = to,
	                   .len_bytes = len,
	                   .expect = expect_bytes > 0 ? expect : NULL,
	                   .expect_bytes = expect_bytes,
	                   .result = result,
	                   .result_bytes = result != NULL ? WEFT_HASH_MAX_BYTES : 0}};
}

/** An addition of 1 whose result is not wanted. */
static inline struct weft_wr
wr_fetch_add(uint32_t stag, uint64_t to)
{
	return (struct weft_wr){.opcode = WEFT_WR_FETCH_ADD,
	                        .flags = WEFT_WR_SIGNALED,
	                        .atomic = {.stag = stag, .to = to, .data = 1}};
}

/** An Atomic Write of eight times this octet. */
static inline struct weft_wr
wr_atomic_write(uint32_t stag, uint64_t to, uint8_t octet)
{
	struct weft_wr wr = {.opcode = WEFT_WR_ATOMIC_WRITE,
	                     .flags = WEFT_WR_SIGNALED,
	                     .atomic_write = {.stag = stag, .to = to}};

	memset(wr.atomic_write.data, octet, 8);
	return wr;
}

/** Open two connected stacks. Node 0, the initiator, has sent its first message, so both nodes may
 * send (RFC 5044 s7.1). */
static inline void
open_pair(struct vt *t, const struct vt_attr *attr)
{
	vt_open(t, attr);
	vt_connect(t, NULL, NULL);
	vt_speak(t);
}

static inline void
want_wc(struct vt_node *n, enum weft_wc_opcode op, enum weft_wc_status status)
{
	struct weft_wc wc = vt_wc(n);

	CHECK_MSG(wc.opcode == op && wc.status == status, "opcode %d, %s", wc.opcode,
	          weft_wc_status_str(wc.status));
}

static inline void
want_term(struct vt_node *n, unsigned int layer, unsigned int etype, unsigned int code, bool ours)
{
	struct weft_event ev = vt_ev(n, WEFT_EV_TERMINATED);

	CHECK_MSG(ev.term.layer == layer && ev.term.etype == etype && ev.term.code == code &&
	                  ev.term.ours == ours,
	          "node %u: %u/%u/%02x", n->id, ev.term.layer, ev.term.etype, ev.term.code);
}

/** Register mr with a FAST_REG work request at the node and wait for its completion. Returns the
 * STag. */
static inline uint32_t
fast_reg(struct vt_node *n, struct weft_mr *mr, void *addr, uint64_t len, uint64_t base_to,
         uint32_t access)
{
	struct weft_wr wr = wr_fast(mr, addr, len, base_to, access);

	vt_post(n, &wr);
	want_wc(n, WEFT_WC_FAST_REG, WEFT_WC_SUCCESS);
	CHECK(weft_mem_lookup(inside_mem(n->ctx), weft_mr_stag(mr)) != NULL);
	return weft_mr_stag(mr);
}

#endif /* VT_FAST_H */
