/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VERBS_QUERY_H
#define VERBS_QUERY_H

/** @file A QP's snapshot, for those who hold the context's lock. */

struct weft_qp;
struct weft_qp_info;

/** weft_qp_query() of a listed QP, on its worker. The caller holds the context's lock. */
void weft_verbs_qp_info(struct weft_qp *qp, struct weft_qp_info *info);

#endif /* VERBS_QUERY_H */
