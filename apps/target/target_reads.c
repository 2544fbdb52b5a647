/* SPDX-License-Identifier: BSD-3-Clause */
/** @file READs of the export program whose data is not sent completely. */

#include "target_conn.h"
#include "target_rpc.h"
#include "target_say.h"
#include "target_slow.h"
#include "ui.h"

bool_t
target_xdr_read(XDR *xdr, struct target_read *r)
{
	if (xdr->x_op == XDR_FREE && r->g != NULL) {
		LIST_REMOVE(r, link);
		r->g = NULL;
		target_slow(r->conn->w, &r->timing, METRICS_ANSWER,
		            &(struct slow_what){
		                    .op = "read",
		                    .ex = r->ex,
		                    .peer = r->conn->peer,
		                    .client = target_slow_client(r->conn),
		                    .off_bytes = r->off_bytes,
		                    .len_bytes = r->res.weft_export_read_res_u.data.data_len});
		target_metrics_stage(&r->timing, METRICS_ANSWER);
		target_metrics_done(&r->timing, METRICS_READ, r->ex, NULL);
		atomic_fetch_sub_explicit(&r->ex->reads, 1, memory_order_release);
	}
	return weft_export_xdr_read_res(xdr, &r->res);
}

/*
 * Answers wait for the peer's credit and its receive window while their data lies in the medium.
 * The reader has no right to data that is written there after the grant's end. Answers cannot be
 * withdrawn one by one, so the connection is closed, as after an RDMA Read behind the end of its
 * grant. The close is deferred: the caller may be a procedure, or iterate over the connections.
 */
void
target_reads_end(struct target_grant *g)
{
	struct target_conn *c = g->conn;
	struct target_read *r;

	if (c->dead || c->end_alarm != NULL)
		return;
	LIST_FOREACH (r, &c->reads, link)
		if (r->g == g)
			break;
	if (r == NULL)
		return;
	target_log(UI_WARNING
	           "%s: closed: READs of %s were not answered to the end when its grant ended",
	           c->peer, g->ex->conf->name);
	if (target_conn_close_later(c) != 0)
		(void)weft_disconnect(c->qp);
}
