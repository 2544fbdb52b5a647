/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef MISUSE_H
#define MISUSE_H

/**
 * @file
 * Calls as a program must not make them: one case for each public call, named by it, so that
 * test/common/check_misuse.py can tell which call has none. The rig has a live and a destroyed
 * handle of every kind.
 */

#include <pthread.h>

#include "vt.h"
#include <weft/ulp.h>

/** Kinds of handles, in live[] and dead[]. */
enum misuse_kind {
	MISUSE_CTX,
	MISUSE_PORT,
	MISUSE_WORKER,
	MISUSE_ALARM,
	MISUSE_PD,
	MISUSE_MR,
	MISUSE_MW,
	MISUSE_CQ,
	MISUSE_SRQ,
	MISUSE_EVQ,
	MISUSE_QP,
	MISUSE_LISTENER,
	MISUSE_CONNREQ,
	MISUSE_LOG,
	MISUSE_LOG_HOST,
	MISUSE_RPC,
	MISUSE_RPC_REQ,
	MISUSE_RPC_DRC,
	MISUSE_RPC_BUDGET,
	MISUSE_MEDIUM,
	MISUSE_EXEC,
	MISUSE_KINDS
};

struct misuse {
	struct vt t;
	void *live[MISUSE_KINDS], *dead[MISUSE_KINDS];
	/* as live[], for calls that want the right one */
	struct weft_ctx *ctx;
	struct weft_worker *w;
	struct weft_pd *pd;
	struct weft_cq *cq;
	struct weft_evq *evq;
	struct weft_srq *srq;
	struct weft_mr *mr, *fast;
	struct weft_mw *mw;
	struct weft_qp *qp, *idle; /**< connected; never connected */
	uint8_t mem[4096];
};

/** Everything made, and destroyed for dead[]. A port needs a device: misuse_port(). */
void misuse_open(struct misuse *m);
void misuse_close(struct misuse *m);

#define MISUSE_BAD 4
/** NULL, destroyed, of another kind, and no pointer to an object. */
void *misuse_bad(const struct misuse *m, enum misuse_kind kind, unsigned int k);

/** Run what follows with each bad handle of the kind. */
#define EACH_BAD(m, var, kind)                                                                     \
	for (unsigned int k_ = 0;                                                                  \
	     k_ < MISUSE_BAD && ((var) = misuse_bad(m, MISUSE_##kind, k_), true); k_++)

/** Sizes that no version of an attribute structure has. */
extern const size_t misuse_sizes[];
#define MISUSE_SIZES 6

/**
 * An attribute structure of another version: call, which takes `a`, is -EINVAL for NULL, for sizes
 * that none has, and for one that is longer than we know with something in it.
 */
#define BAD_ATTR(type, good, call)                                                                 \
	do {                                                                                       \
		struct type *a;                                                                    \
		for (unsigned int k_ = 0; k_ < MISUSE_SIZES; k_++) {                               \
			struct type copy_ = (good);                                                \
			copy_.size = misuse_sizes[k_];                                             \
			a = &copy_;                                                                \
			CHECK_MSG((call) == -EINVAL, "size %zu", copy_.size);                      \
		}                                                                                  \
		a = misuse_longer(&(good), sizeof(good));                                          \
		CHECK_EQ((call), -EINVAL);                                                         \
		free(a);                                                                           \
	} while (0)

/** A copy in memory of just that length, eight octets longer, the last of them not zero. */
void *misuse_longer(const void *attr, size_t size);

/** Run fn(arg) in another thread, to its end. */
void misuse_elsewhere(void (*fn)(void *arg), void *arg);

/** Whether it is all zeros. */
bool misuse_zero(const void *p, size_t len);

/* A query that is handed a bad handle fills in zeros; without room for an answer it does nothing.
 */
#define BAD_QUERY(m, type, kind, query, infotype)                                                  \
	do {                                                                                       \
		struct infotype info_;                                                             \
		struct type *h;                                                                    \
		EACH_BAD(m, h, kind)                                                               \
		{                                                                                  \
			memset(&info_, 0x5a, sizeof(info_));                                       \
			query(h, &info_);                                                          \
			CHECK(misuse_zero(&info_, sizeof(info_)));                                 \
			query(h, NULL);                                                            \
		}                                                                                  \
		query((m)->live[MISUSE_##kind], NULL);                                             \
	} while (0)

/** A case; what follows is its body, which has the rig as m. */
#define MISUSE(call)                                                                               \
	static void on_##call(struct misuse *m);                                                   \
	static void test_##call(void)                                                              \
	{                                                                                          \
		struct misuse *m = malloc(sizeof(*m));                                             \
		misuse_open(m);                                                                    \
		on_##call(m);                                                                      \
		misuse_close(m);                                                                   \
		free(m);                                                                           \
	}                                                                                          \
	static void on_##call(struct misuse *m)

#endif /* MISUSE_H */
