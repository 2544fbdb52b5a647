/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef MISUSE_H
#define MISUSE_H

/**
 * @file
 * Calls with arguments that a program must not pass. There is one case for each public call, named
 * after the call, so that test/common/check_misuse.py finds calls without a case. The rig has a
 * live and a destroyed handle of every kind.
 */

#include <pthread.h>

#include "vt.h"
#include "vt_tcp.h"
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
	MISUSE_STREAM,
	MISUSE_STREAM_LISTENER,
	MISUSE_LOG,
	MISUSE_LOG_HOST,
	MISUSE_RPC,
	MISUSE_RPC_REQ,
	MISUSE_RPC_DRC,
	MISUSE_RPC_BUDGET,
	MISUSE_VOLUME,
	MISUSE_MEDIUM,
	MISUSE_EXEC,
	MISUSE_KINDS
};

struct misuse {
	struct vt t;
	void *live[MISUSE_KINDS], *dead[MISUSE_KINDS];
	/* the objects of live[], with their types */
	struct weft_ctx *ctx;
	struct weft_worker *w;
	struct weft_pd *pd;
	struct weft_cq *cq;
	struct weft_evq *evq;
	struct weft_srq *srq;
	struct weft_mr *mr, *fast;
	struct weft_mw *mw;
	struct weft_qp *qp, *idle; /**< connected; never connected */
	struct vt_tcp peer[2];     /**< of the streams */
	uint8_t mem[4096];
};

/** Create all live[] objects, and create and destroy all dead[] objects. A port needs a device: see
 * ports_open() of test_engine_misuse.c. */
void misuse_open(struct misuse *m);
void misuse_close(struct misuse *m);

#define MISUSE_BAD 4
/** Bad handle k of a kind: NULL, a destroyed handle, a handle of another kind, and a pointer that
 * is no handle. */
void *misuse_bad(const struct misuse *m, enum misuse_kind kind, unsigned int k);

/** Run the next statement with each bad handle of the kind. */
#define EACH_BAD(m, var, kind)                                                                     \
	for (unsigned int k_ = 0;                                                                  \
	     k_ < MISUSE_BAD && ((var) = misuse_bad(m, MISUSE_##kind, k_), true); k_++)

/** Sizes that no version of an attribute structure has. */
extern const size_t misuse_sizes[];
#define MISUSE_SIZES 6

/**
 * Check that call, which takes the attributes `a`, returns -EINVAL for NULL, for sizes that no
 * version has, and for a longer structure with a nonzero member that this version does not know.
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

/** A copy on the heap, exactly eight octets longer, whose last octet is not zero. The caller frees
 * it. */
void *misuse_longer(const void *attr, size_t size);

/** Run fn(arg) in another thread and wait until it returns. */
#define misuse_elsewhere vt_elsewhere

/** Whether all octets are zero. */
bool misuse_zero(const void *p, size_t len);

/* A query of a bad handle writes zeros. A query without memory for the answer does nothing. */
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

/** Define a case. The body follows and has the rig as m. */
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
