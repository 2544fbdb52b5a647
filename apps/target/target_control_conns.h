/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_TARGET_CONTROL_CONNS_H
#define WEFT_APPS_TARGET_CONTROL_CONNS_H

/** @file Rows of connections and of rates, which workers copy for the control socket, and the
 * clients that the control thread makes of them. */

#include "addr.h"
#include "host_auth.h"
#include "quota.h"
#include "target_control.h"
#include <weft/verbs.h>

/** One connection, as its worker saw it. */
struct control_conn {
	char peer[64], host[ADDR_STR_MAX], name[HOST_AUTH_NAME_MAX + 1];
	bool is_log;
	uint32_t hold_at,
	        nholds; /**< numbers of the exports that it holds, in the part's `holds` */
	enum weft_qp_state state;
	uint32_t qpn, grants, windows, tickets, srtt_us, unacked_bytes;
	uint64_t recv_bytes, sent_bytes, recv_msgs, sent_msgs, retrans_segs;
};

/** What a client was charged on a limited export, by its worker. */
struct control_lane {
	uint32_t export; /**< number of the slot */
	struct quota_id id;
	uint64_t ops, bytes;
	bool waits;
};

/** An object of the clients, by name or else by address, with what they had in the time that the
 * job has measured. The caller owns it. */
json_t *control_clients_of(const struct control_job *job);
/** What the workers had no room for. */
json_int_t control_left_out(const struct control_job *job);
/** The values of an object as an array, which the caller owns. */
json_t *control_values_of(const json_t *object);

/* ---- target_control_nvmf.c: control thread ---- */

/** The first sample of NVMe hosts. */
void control_nvmf_sample(struct control_job *job);
/** Append a row of each host to the array of clients. */
void control_nvmf_clients(struct control_job *job, json_t *clients);
/** End the controllers of a host. Returns how many connections are ended. */
int64_t control_nvmf_drop(struct control_job *job, const char *who);

#endif /* WEFT_APPS_TARGET_CONTROL_CONNS_H */
