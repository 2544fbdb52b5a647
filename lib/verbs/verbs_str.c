/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Names of statuses, events and states; Terminate codes in words. */

#include <stdio.h>

#include "verbs_priv.h"

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
	        [WEFT_EV_SUSPECT] = "suspect range",
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

/** RFC 5040 s4.8, RFC 5041 s7.2, RFC 5044 s8, RFC 6581 s8; the placement codes are ours. */
static const struct {
	uint8_t layer, etype, code;
	const char *what;
} verbs_term[] = {
        {0, 0, 0x00, "local catastrophic error"},
        {0, 1, 0x00, "invalid STag"},
        {0, 1, 0x01, "base or bounds violation"},
        {0, 1, 0x02, "access rights violation"},
        {0, 1, 0x03, "STag not associated with the stream"},
        {0, 1, 0x04, "tagged offset wraps"},
        {0, 1, 0x09, "STag cannot be invalidated"},
        {0, 1, 0xff, "unspecified"},
        {0, 2, 0x05, "invalid RDMAP version"},
        {0, 2, 0x06, "unexpected opcode"},
        {0, 2, 0x07, "catastrophic, this stream"},
        {0, 2, 0x08, "catastrophic, all streams"},
        {0, 2, 0x09, "STag cannot be invalidated"},
        {0, 2, 0x0a, "flush failed"},
        {0, 2, 0x0b, "hash mismatch"},
        {0, 2, 0x0c, "verify could not read the medium"},
        {0, 2, 0xff, "unspecified"},
        {1, 0, 0x00, "local catastrophic error"},
        {1, 1, 0x00, "invalid STag"},
        {1, 1, 0x01, "base or bounds violation"},
        {1, 1, 0x02, "STag not associated with the stream"},
        {1, 1, 0x03, "tagged offset wraps"},
        {1, 1, 0x04, "invalid DDP version"},
        {1, 2, 0x01, "invalid queue number"},
        {1, 2, 0x02, "no receive posted"},
        {1, 2, 0x03, "message sequence number out of range"},
        {1, 2, 0x04, "invalid message offset"},
        {1, 2, 0x05, "message longer than the receive"},
        {1, 2, 0x06, "invalid DDP version"},
        {2, 0, 0x01, "stream closed"},
        {2, 0, 0x02, "CRC error"},
        {2, 0, 0x03, "marker mismatch"},
        {2, 0, 0x04, "invalid start-up frame"},
        {2, 0, 0x05, "local catastrophic error"},
        {2, 0, 0x06, "insufficient IRD resources"},
        {2, 0, 0x07, "no matching RTR option"},
};

const char *
weft_terminate_str(const struct weft_terminate *t, char *buf, size_t size)
{
	static const char *const layers[] = {"RDMA layer", "DDP layer", "MPA layer"};
	static const char *const types[][3] = {
	        {"local error", "remote protection error", "remote operation error"},
	        {"local error", "tagged buffer error", "untagged buffer error"},
	        {"stream error", NULL, NULL},
	};
	const char *type = t->layer < RTE_DIM(types) && t->etype < RTE_DIM(types[0])
	                           ? types[t->layer][t->etype]
	                           : NULL;

	for (size_t i = 0; i < RTE_DIM(verbs_term); i++)
		if (verbs_term[i].layer == t->layer && verbs_term[i].etype == t->etype &&
		    verbs_term[i].code == t->code) {
			snprintf(buf, size, "%s: %s: %s", layers[t->layer], type,
			         verbs_term[i].what);
			return buf;
		}
	snprintf(buf, size, "%s: %s: code 0x%02x", NAME(layers, t->layer),
	         type != NULL ? type : "unknown type", t->code);
	return buf;
}
