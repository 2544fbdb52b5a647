/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_VERBS_LIST_H
#define WEFT_VERBS_LIST_H

/**
 * @file The objects of a context, for those who show them (lib/observe). On the thread of one of
 * its workers, so that what a region or window refers to is not freed meanwhile. Each function
 * fills in at most `max` objects and returns how many.
 */

#include "weft_vworker.h"

/** The worker's QPs whose qpn is at least `from`, in the order of their qpn. */
unsigned int weft_verbs_list_qps(struct weft_vworker *vw, uint32_t from, struct weft_qp_info *out,
                                 unsigned int max);

struct weft_verbs_mr_item {
	struct weft_mr_info info;
	char mechanism[96]; /**< of its medium; empty: none */
};
/* The others by their place in the context's list, the oldest first, from place `from` on: one walk
 * of the list under the context's lock. out: an array whose entries have each_bytes octets, and
 * begin with a struct weft_verbs_mr_item, weft_mw_info, weft_cq_info or weft_srq_info. */
unsigned int weft_verbs_list_mrs(struct weft_vctx *v, uint32_t from, void *out, size_t each_bytes,
                                 unsigned int max);
unsigned int weft_verbs_list_mws(struct weft_vctx *v, uint32_t from, void *out, size_t each_bytes,
                                 unsigned int max);
unsigned int weft_verbs_list_cqs(struct weft_vctx *v, uint32_t from, void *out, size_t each_bytes,
                                 unsigned int max);
unsigned int weft_verbs_list_srqs(struct weft_vctx *v, uint32_t from, void *out, size_t each_bytes,
                                  unsigned int max);
/** The place of a CQ, or of an SRQ, in the context's list; -1: it is NULL, or destroyed. */
int weft_verbs_list_cq_at(struct weft_vctx *v, const struct weft_cq *cq);
int weft_verbs_list_srq_at(struct weft_vctx *v, const struct weft_srq *srq);

#endif /* WEFT_VERBS_LIST_H */
