/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The clients of a worker's volumes. Runs on workers; never blocks. */

#include <stdlib.h>
#include <string.h>

#include "target.h"
#include "target_quota.h"
#include "target_volume.h"
#include "target_volume_client.h"

/** Find the client with this identity, or make it. There are at most as many as grants, twice. */
static struct target_vclient *
vclient_find(struct target_vworker *vw, const struct quota_id *id)
{
	struct target_vclient *cl;

	LIST_FOREACH (cl, &vw->clients, link)
		if (cl->id.bytes == id->bytes && memcmp(cl->id.octets, id->octets, id->bytes) == 0)
			break;
	if (cl == NULL) {
		cl = calloc(1, sizeof(*cl));
		if (cl == NULL)
			return NULL;
		cl->vw = vw;
		cl->top = cl;
		cl->id = *id;
		weft_staging_client_init(&cl->staging);
		TAILQ_INIT(&cl->waiting);
		LIST_INSERT_HEAD(&vw->clients, cl, link);
	}
	cl->refs++;
	return cl;
}

struct target_vclient *
target_vclient_get(struct target_conn *c)
{
	struct target_vworker *vw = c->w->volumes;
	struct quota_id id, net = {.octets = {'n'}, .bytes = 1 + sizeof(id.net)};
	struct target_vclient *cl, *top;

	target_quota_id(c, &id);
	cl = vclient_find(vw, &id);
	if (cl == NULL || !id.has_net || cl->top != cl)
		return cl;
	memcpy(net.octets + 1, id.net, sizeof(id.net));
	top = vclient_find(vw, &net);
	if (top == NULL) {
		target_vclient_put(cl);
		return NULL;
	}
	cl->top = top;
	return cl;
}

bool
target_vclient_is_named(const struct target_vclient *cl)
{
	return cl->id.octets[0] == '=';
}

void
target_vclient_ref(struct target_vclient *cl)
{
	cl->refs++;
}

void
target_vclient_put(struct target_vclient *cl)
{
	struct target_vclient *top = cl->top;

	if (--cl->refs > 0)
		return;
	LIST_REMOVE(cl, link);
	free(cl);
	if (top != cl)
		target_vclient_put(top);
}
