/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Names of statuses, events and states; Terminate codes in words. */

#include <stdio.h>

#include "weft_rdmap.h"
#include "weft_vworker.h"

#define NAME(table, i) ((unsigned int)(i) < RTE_DIM(table) && (table)[i] != NULL ? (table)[i] : "?")

const char *
weft_wc_status_str(enum weft_wc_status s)
{
	static const char *const names[] = {
	        [WEFT_WC_SUCCESS] = "success",
	        [WEFT_WC_FLUSHED] = "flushed",
	        [WEFT_WC_REMOTE_ACCESS] = "remote access error",
	        [WEFT_WC_REMOTE_OP] = "remote operation error",
	        [WEFT_WC_HASH_MISMATCH] = "hash mismatch",
	        [WEFT_WC_LOCAL_LENGTH] = "local length error",
	        [WEFT_WC_LOCAL_PROT] = "local protection error",
	};

	return NAME(names, s);
}

const char *
weft_event_str(enum weft_event_type t)
{
	static const char *const names[] = {
	        [WEFT_EV_CONNECT_REQUEST] = "connect request",
	        [WEFT_EV_ESTABLISHED] = "established",
	        [WEFT_EV_REJECTED] = "rejected",
	        [WEFT_EV_CONNECT_ERROR] = "connect error",
	        [WEFT_EV_DISCONNECTED] = "disconnected",
	        [WEFT_EV_TERMINATED] = "terminated",
	        [WEFT_EV_CQ_OVERRUN] = "completion queue overrun",
	        [WEFT_EV_BAD_RANGE] = "bad range",
	        [WEFT_EV_SRQ_LIMIT] = "shared receive queue limit",
	        [WEFT_EV_LAST_WQE] = "last receive of the shared queue",
	};

	return NAME(names, t);
}

const char *
weft_qp_state_str(enum weft_qp_state s)
{
	static const char *const names[] = {
	        [WEFT_QP_IDLE] = "IDLE",       [WEFT_QP_RTS] = "RTS",
	        [WEFT_QP_CLOSING] = "CLOSING", [WEFT_QP_TERMINATE] = "TERMINATE",
	        [WEFT_QP_ERROR] = "ERROR",
	};

	return NAME(names, s);
}

const char *
weft_terminate_str(const struct weft_terminate *t, char *buf, size_t size)
{
	static const char *const layers[] = {"RDMA layer", "DDP layer", "MPA layer"};
	static const char *const types[][4] = {
	        {"local error", "remote protection error", "remote operation error"},
	        {"local error", "tagged buffer error", "untagged buffer error",
	         "lower layer error"},
	        {"stream error"},
	};
	const struct weft_term_row *row;
	struct weft_term term;
	const char *type;
	int i;

	if (t == NULL || buf == NULL || size == 0)
		return "?";
	term = (struct weft_term){t->layer, t->etype, t->code};
	type = t->layer < RTE_DIM(types) && t->etype < RTE_DIM(types[0]) ? types[t->layer][t->etype]
	                                                                 : NULL;
	i = weft_rdmap_term_index(&term);
	row = i < 0 ? NULL : weft_rdmap_term_row((unsigned int)i);
	if (row != NULL) {
		snprintf(buf, size, "%s: %s: %s", layers[t->layer], type, row->words);
		return buf;
	}
	snprintf(buf, size, "%s: %s: code 0x%02x", NAME(layers, t->layer),
	         type != NULL ? type : "unknown type", t->code);
	return buf;
}
