/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Tests by RPC: calls of NULL, and of the export program's READ and WRITE
 * (weft_export.x). */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "export_proto.h"

/** A call under way, or a free entry. */
struct client_call {
	struct client *c;
	struct client_call *next; /**< free */
	uint8_t *mem;             /**< its slot of data */
	struct weft_export_read_call read;
	weft_export_write_args write;
};

struct client_rpc {
	struct client_call *idle;
	struct client_call call[WEFT_RPC_MAX_CALLS];
};

int
client_rpc_make(struct client *c)
{
	struct weft_rpc_attr ra = {
	        .size = sizeof(ra),
	        .qp = c->qp,
	        .credits = perf_rpc_credits(c->job.depth),
	        .min_vers = c->job.rpc_version,
	        .max_vers = c->job.rpc_version,
	};

	c->calls = calloc(1, sizeof(*c->calls));
	if (c->calls == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < c->job.depth && i < WEFT_RPC_MAX_CALLS; i++) {
		struct client_call *k = &c->calls->call[i];

		k->c = c;
		k->mem = c->mem + (uint64_t)i * c->job.size_bytes;
		k->next = c->calls->idle;
		c->calls->idle = k;
	}
	return weft_rpc_create(&ra, &c->rpc);
}

void
client_rpc_end(struct client *c)
{
	if (c->rpc != NULL)
		weft_rpc_destroy(c->rpc);
	c->rpc = NULL;
	free(c->calls);
	c->calls = NULL;
}

static void
call_done(void *arg, enum weft_rpc_status status, void *vres)
{
	struct client_call *k = arg;
	struct client *c = k->c;
	bool ok = status == WEFT_RPC_OK;

	/* Results of both begin with the status; a NULL has none. */
	if (ok && c->job.test != PERF_RPC_NULL)
		ok = *(const weft_export_status *)vres == WEFT_EXPORT_OK;
	k->next = c->calls->idle;
	c->calls->idle = k;
	c->f.completed++;
	if (ok || c->dead)
		return;
	c->dead = true;
	c->err = -EIO;
	snprintf(c->term, sizeof(c->term), "a call failed: %s",
	         status != WEFT_RPC_OK ? weft_rpc_status_str(status) : "refused");
}

static int
call_make(struct client *c, struct client_call *k)
{
	uint64_t to = (uint64_t)(k->mem - c->mem);
	struct weft_rpc_call_attr a = {
	        .size = sizeof(a),
	        .prog = WEFT_EXPORT_PROG,
	        .vers = WEFT_EXPORT_V1,
	        .fn = call_done,
	        .arg = k,
	};
	weft_export_read_res init = {
	        .weft_export_read_res_u.data = {c->job.size_bytes, (char *)k->mem}};

	switch (c->job.test) {
	case PERF_RPC_READ:
		k->read = (struct weft_export_read_call){{0, to, c->job.size_bytes}, k->mem};
		a.proc = WEFT_EXPORT_READ_DATA;
		a.xdr_args = (xdrproc_t)xdr_weft_export_read_args;
		a.args = &k->read;
		a.xdr_res = (xdrproc_t)weft_export_xdr_read_res;
		a.res_bytes = sizeof(weft_export_read_res);
		a.res_init = &init;
		a.binding = &weft_export_read_binding;
		break;
	case PERF_RPC_WRITE:
	case PERF_RPC_DURABLE:
		k->write = (weft_export_write_args){0,
		                                    to,
		                                    c->job.test == PERF_RPC_DURABLE
		                                            ? WEFT_EXPORT_DURABLE
		                                            : WEFT_EXPORT_UNSTABLE,
		                                    {c->job.size_bytes, (char *)k->mem}};
		a.proc = WEFT_EXPORT_WRITE_DATA;
		a.xdr_args = (xdrproc_t)xdr_weft_export_write_args;
		a.args = &k->write;
		a.xdr_res = (xdrproc_t)xdr_weft_export_write_res;
		a.res_bytes = sizeof(weft_export_write_res);
		a.binding = &weft_export_write_binding;
		break;
	default:
		break; /* NULL */
	}
	return weft_rpc_call_with(c->rpc, &a);
}

void
client_rpc_fill(struct client *c, uint64_t end)
{
	while (!c->dead && c->f.posted < end && c->calls->idle != NULL) {
		struct client_call *k = c->calls->idle;
		int rc;

		c->calls->idle = k->next;
		c->f.posted++;
		rc = call_make(c, k);
		if (rc != 0) {
			c->dead = true;
			c->err = rc;
		}
	}
}

int
client_rpc_round(struct client *c)
{
	client_rpc_fill(c, c->f.posted + 1);
	while (!c->dead && c->f.completed != c->f.posted)
		loop_turn(c->loop, LOOP_WAIT_NS); /* a call without an answer ends by its timeout */
	return c->dead ? c->err : 0;
}
