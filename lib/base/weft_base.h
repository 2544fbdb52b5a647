/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_BASE_H
#define WEFT_BASE_H

/**
 * @file
 * Types and helpers of all layers: serial numbers, fragments, addresses, the Terminate triple,
 * randomness, logging. Internal header.
 *
 * Functions in weft return 0 or a negative errno. A fault of the peer is -EPROTO with a filled
 * struct weft_term.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/queue.h>
#include <sys/select.h>
#include <sys/socket.h>

#include <rte_branch_prediction.h>
#include <rte_byteorder.h>
#include <rte_common.h>
#include <rte_log.h>

#include <weft/byteorder.h>
#include <weft/limit.h>
#include "weft_ip.h"
#include "weft_term.h"

#define WEFT_NS_PER_US 1000ULL
#define WEFT_NS_PER_MS 1000000ULL
#define WEFT_NS_PER_S  1000000000ULL
#define WEFT_NEVER     UINT64_MAX /**< a deadline that never comes */

/* ---- Serial numbers (TCP sequence numbers, MSNs, credits): modulo 2^32 ---- */

static inline bool
weft_seq_lt(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) < 0;
}

static inline bool
weft_seq_leq(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) <= 0;
}

static inline uint32_t
weft_seq_max(uint32_t a, uint32_t b)
{
	return weft_seq_lt(a, b) ? b : a;
}

/* ---- Fragments of received octets ---- */

/** One contiguous run of read-only octets, in an mbuf or a buffer. A ULPDU is one or several. */
struct weft_frag {
	const uint8_t *p;
	uint32_t len_bytes;
};

/**
 * A cursor over fragments, which moves forward only. A read past the end fails and does not move
 * the cursor.
 */
struct weft_cur {
	const struct weft_frag *frag; /**< current fragment */
	unsigned int nfrags;          /**< fragments left, the current one included */
	uint32_t off_bytes;           /**< position in the current fragment */
	uint32_t left_bytes;          /**< octets left in all fragments */
};

static inline void
weft_cur_init(struct weft_cur *c, const struct weft_frag *frag, unsigned int nfrags)
{
	c->frag = frag;
	c->nfrags = nfrags;
	c->off_bytes = 0;
	c->left_bytes = 0;
	for (unsigned int i = 0; i < nfrags; i++)
		c->left_bytes += frag[i].len_bytes;
}

/** Copy `len` octets to dst and move behind them. -ENODATA: fewer are left, nothing has moved. */
static inline int
weft_cur_read(struct weft_cur *c, void *dst, uint32_t len)
{
	uint8_t *d = dst;

	if (len > c->left_bytes)
		return -ENODATA;
	c->left_bytes -= len;
	while (len > 0) {
		uint32_t n = RTE_MIN(len, c->frag->len_bytes - c->off_bytes);

		memcpy(d, c->frag->p + c->off_bytes, n);
		d += n;
		len -= n;
		c->off_bytes += n;
		if (c->off_bytes == c->frag->len_bytes && c->nfrags > 1) {
			c->frag++;
			c->nfrags--;
			c->off_bytes = 0;
		}
	}
	return 0;
}

/**
 * Move behind the next contiguous run of at most `max` octets. Returns its length, 0 at the end.
 * `*p` points to it in the memory of the fragments and is valid as long as they are.
 */
static inline uint32_t
weft_cur_run(struct weft_cur *c, uint32_t max, const uint8_t **p)
{
	uint32_t n;

	while (c->nfrags > 1 && c->off_bytes == c->frag->len_bytes) {
		c->frag++;
		c->nfrags--;
		c->off_bytes = 0;
	}
	if (c->left_bytes == 0)
		return 0;
	n = RTE_MIN(max, c->frag->len_bytes - c->off_bytes);
	*p = c->frag->p + c->off_bytes;
	c->off_bytes += n;
	c->left_bytes -= n;
	return n;
}

/* ---- Random numbers: layers get the source from above ---- */

/** Fill `len` octets with unpredictable (in a simulation: seeded) octets. */
typedef void (*weft_rand_fn)(void *arg, void *buf, size_t len);

struct weft_rand {
	weft_rand_fn fill;
	void *arg;
};

/** A weft_rand_fn by getrandom(2). Aborts the program if the system call fails. */
void weft_rand_system(void *arg, void *buf, size_t len);

static inline uint32_t
weft_rand_u32(const struct weft_rand *r)
{
	uint32_t v;

	r->fill(r->arg, &v, sizeof(v));
	return v;
}

/**
 * Block the calling thread's signals before it creates a thread of weft, which inherits the mask.
 * Signals belong to the program, so all are blocked except faults (SIGBUS, SIGSEGV, SIGFPE,
 * SIGILL): a blocked fault ends the process even if there is a handler. *old: the mask to restore
 * by pthread_sigmask().
 */
void weft_block_signals(sigset_t *old);

/* ---- Logging: one type per layer, weft.<layer> ---- */

/**
 * One source of a layer has WEFT_LOG_REGISTER(tcp), and its private header has
 * WEFT_LOG_DECLARE(tcp). WEFT_LOG(tcp, ERR, "...") prints a line. A line that a peer can provoke
 * uses WEFT_LOG_PEER(tcp, WARNING, "..."): it prints at most ten lines a second per call site, and
 * behind a line the number of lines suppressed before it, if any.
 */
#define WEFT_LOG_DECLARE(layer)  extern int weft_logtype_##layer
#define WEFT_LOG_REGISTER(layer) RTE_LOG_REGISTER(weft_logtype_##layer, weft.layer, NOTICE)
#define WEFT_LOG(layer, level, fmt, ...)                                                           \
	rte_log(RTE_LOG_##level, weft_logtype_##layer, "weft." #layer ": " fmt "\n", ##__VA_ARGS__)

/** The clock of WEFT_LOG_PEER, any thread's. Without one, time stands still: a call site prints its
 * first ten lines. */
void weft_log_clock(uint64_t (*now_ns)(void));
/** Whether a call site may print one more line now. *held: number of lines suppressed before it. */
bool weft_log_allowed(struct weft_limit *l, uint32_t *held);

#define WEFT_LOG_PEER(layer, level, fmt, ...)                                                      \
	do {                                                                                       \
		static struct weft_limit limit_;                                                   \
		uint32_t held_ = 0;                                                                \
		if (!rte_log_can_log(weft_logtype_##layer, RTE_LOG_##level) ||                     \
		    !weft_log_allowed(&limit_, &held_))                                            \
			break;                                                                     \
		WEFT_LOG(layer, level, fmt, ##__VA_ARGS__);                                        \
		if (held_ > 0)                                                                     \
			WEFT_LOG(layer, level, "%u lines like it were not shown", held_);          \
	} while (0)

#endif /* WEFT_BASE_H */
