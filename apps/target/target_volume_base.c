/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Below all other sources of volumes: references of grants, and answers. Runs on workers;
 * never blocks. */

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "target.h"
#include "target_rpc.h"
#include "target_volume.h"
#include "target_volume_client.h"

struct target_vchan *
target_vchan_of(struct target_worker *tw, const struct target_export *ex)
{
	return &tw->volumes->chan[ex - tw->t->exports];
}

void
target_vgrant_ref(struct target_vgrant *g)
{
	g->refs++;
}

void
target_vgrant_unref(struct target_vgrant *g)
{
	struct target_conn *c = g->conn;
	struct target_worker *tw = c->w;

	if (--g->refs > 0)
		return;
	/* Nothing of it is under way, so nothing of it lands from here on. */
	(void)weft_vol_client_close(&g->client);
	LIST_REMOVE(g, link);
	quota_close(tw->t->quota, g->quota);
	rate_pass_put(&g->rate);
	atomic_fetch_sub_explicit(&g->ex->grants, 1, memory_order_release);
	if (g->close_req != NULL)
		weft_rpc_done(g->close_req, WEFT_RPC_OK);
	target_vclient_put(g->share);
	free(g);
	/* Last: with 0 here the connection may be freed, on its worker (limbo_look()). */
	atomic_fetch_sub_explicit(&c->pending, 1, memory_order_release);
}

struct target_vgrant *
target_vgrant_find(const struct target_conn *c, uint32_t handle)
{
	struct target_vgrant *g;

	LIST_FOREACH (g, &c->vgrants, link)
		if (g->handle == handle && !g->ended)
			return g;
	return NULL;
}

void
target_vcount(struct target_export *ex, uint64_t *counter)
{
	pthread_mutex_lock(&ex->lock);
	++*counter;
	pthread_mutex_unlock(&ex->lock);
}

void
target_vtold(void *arg, enum weft_rpc_status status, void *res)
{
	struct target_export *ex = arg;

	(void)res;
	if (status == WEFT_RPC_OK)
		target_vcount(ex, &ex->told);
}

weft_volrpc_status
target_vstatus(int status)
{
	switch (status) {
	case 0:
		return WEFT_VOLRPC_OK;
	case -ECANCELED:
		return WEFT_VOLRPC_CANCELED;
	case -ETIMEDOUT:
		return WEFT_VOLRPC_TIMEDOUT;
	case -ENODEV:
		return WEFT_VOLRPC_OFFLINE;
	case -ESHUTDOWN:
		return WEFT_VOLRPC_FENCED;
	case -EILSEQ:
		return WEFT_VOLRPC_MISMATCH;
	case -ENOSPC:
	case -EDQUOT:
		return WEFT_VOLRPC_NOSPC;
	case -EOPNOTSUPP:
		return WEFT_VOLRPC_NOTSUP;
	case -EEXIST:
		return WEFT_VOLRPC_EXIST;
	case -EBADMSG:
		return WEFT_VOLRPC_DAMAGED;
	case -EBUSY:
		return WEFT_VOLRPC_BUSY;
	case -EMSGSIZE:
		return WEFT_VOLRPC_TOO_LONG;
	case -EROFS:
		return WEFT_VOLRPC_PERM;
	case -EINVAL:
		return WEFT_VOLRPC_INVAL;
	case -ENOMEM:
		return WEFT_VOLRPC_NORES;
	default:
		return WEFT_VOLRPC_IO;
	}
}

bool
target_vfault(weft_volrpc_status *to, weft_volrpc_fault *fault, weft_volrpc_status status,
              uint64_t at, uint64_t done, const char *fmt, ...)
{
	char text[WEFT_VOLRPC_TEXT_MAX + 1];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	*to = status;
	*fault = (weft_volrpc_fault){.at = at, .done = done, .why = target_why("%s", text)};
	return fault->why != NULL;
}
