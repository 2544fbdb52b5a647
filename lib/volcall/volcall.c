/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Opening and closing of volumes, and their requests. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "volcall_link.h"

#define RIGHTS                                                                                     \
	(WEFT_VOLUME_RIGHT_READ | WEFT_VOLUME_RIGHT_WRITE | WEFT_VOLUME_RIGHT_FLUSH |              \
	 WEFT_VOLUME_RIGHT_VERIFY)

/* ---- The close ---- */

static void
close_on_answer(void *arg, enum weft_rpc_status status, void *res)
{
	const weft_volrpc_res *r = res;
	struct weft_volume *v = arg;
	struct volcall_outcome o = {.status = volcall_rpc_errno(status),
	                            .why = weft_rpc_status_str(status)};

	v->calls--;
	if (status == WEFT_RPC_CONNLOST)
		volcall_lost(v);
	if (status == WEFT_RPC_OK && r->status != WEFT_VOLRPC_OK)
		volcall_fault(&o, r->status, &r->weft_volrpc_res_u.fault, 0, v->info.bytes,
		              v->info.bytes);
	v->close_status = o.status;
	volcall_why(v->why, o.status != 0 ? o.why : NULL);
	volcall_go_on(v);
}

/* Give the grant back. True: it is sent later, because too many calls are outstanding at the
 * endpoint or memory is short. */
static bool
close_send(struct weft_volume *v)
{
	const weft_volrpc_close_args args = {.handle = v->handle};
	int rc;

	if (!v->closing || v->close_sent || v->state != VOLCALL_OPEN || volcall_is_down(v))
		return false;
	v->close_sent = true;
	v->calls++;
	rc = weft_rpc_call(v->rpc, WEFT_VOLRPC_PROG, WEFT_VOLRPC_V2, WEFT_VOLRPC_CLOSE,
	                   (xdrproc_t)xdr_weft_volrpc_close_args, &args,
	                   (xdrproc_t)xdr_weft_volrpc_res, sizeof(weft_volrpc_res), v->timeout_us,
	                   close_on_answer, v);
	if (rc == 0)
		return false;
	v->calls--;
	v->close_status = rc;
	v->close_sent = rc != -EAGAIN && rc != -ENOMEM;
	return !v->close_sent;
}

static void
volume_pump(struct weft_volume *v)
{
	bool full;

	if (!volcall_link_pump(v))
		return;
	full = volcall_window_pump(v);
	full |= volcall_req_pump(v);
	/* A request that could not be sent may be what a window has waited for. */
	full |= volcall_window_pump(v);
	full |= close_send(v);
	(void)volcall_link_pump(v); /* it may be closed now */
	/* An answer to another user of the endpoint is not told here. */
	if (!full || v->calls > 0 || volcall_later(v) == 0)
		return;
	volcall_req_end_all(v, -ENOMEM);
	volcall_window_unsent(v, -ENOMEM);
	if (v->closing && !v->close_sent)
		v->close_status = -ENOMEM;
	v->close_sent |= v->closing;
}

static const struct volcall_ops volume_ops = {.pump = volume_pump};

void
weft_volume_close(struct weft_volume *v, weft_volume_fn fn, void *arg)
{
	if (v == NULL || weft_handle_check(v, &volcall_kind, __func__) < 0 ||
	    weft_worker_check_thread(v->worker, __func__) < 0 ||
	    weft_handle_claim(v, &volcall_kind, __func__) < 0)
		return;
	weft_handle_end(&v->h, &volcall_kind);
	volcall_enter(v);
	v->closing = true;
	if (v->link != NULL && !v->link->up)
		v->down = v->link->ended = true;
	v->close_fn = fn;
	v->close_arg = arg;
	v->close_status = volcall_is_down(v) ? -ENOTCONN : 0;
	if (v->open_fn != NULL)
		v->open_status = -ECANCELED;
	v->why[0] = '\0';
	volcall_req_end_all(v, -ECANCELED);
	volcall_window_end_all(v, -ECANCELED);
	volcall_pump(v);
	volcall_leave(v);
}

/* ---- The opening ---- */

static void
open_on_answer(void *arg, enum weft_rpc_status status, void *res)
{
	struct weft_volume *v = arg;
	int rc;

	v->calls--;
	if (status == WEFT_RPC_CONNLOST)
		volcall_lost(v);
	rc = volcall_open_result(v->why, status, res, &v->info, &v->handle);
	v->state = rc == 0 ? VOLCALL_OPEN : VOLCALL_FAILED;
	if (v->open_fn != NULL && !v->closing)
		v->open_status = rc;
	volcall_go_on(v);
}

static int
open_check(const struct weft_volume_attr *a)
{
	size_t n = a->name != NULL ? strnlen(a->name, WEFT_VOLRPC_NAME_MAX + 1) : 0;

	if ((a->link == NULL ? weft_rpc_stats(a->rpc) == NULL : a->rpc != NULL) ||
	    weft_worker_check(a->worker, "weft_volume_open") < 0)
		return -EINVAL;
	if (n == 0 || n > WEFT_VOLRPC_NAME_MAX || (a->rights & ~(uint32_t)RIGHTS) != 0)
		return -EINVAL;
	return weft_worker_check_thread(a->worker, "weft_volume_open");
}

static int
open_send(struct weft_volume *v, const struct weft_volume_attr *a)
{
	weft_volrpc_open_args args = {.name = (char *)(uintptr_t)a->name, .rights = a->rights};
	int rc;

	v->calls++;
	rc = weft_rpc_call(v->rpc, WEFT_VOLRPC_PROG, WEFT_VOLRPC_V2, WEFT_VOLRPC_OPEN,
	                   (xdrproc_t)xdr_weft_volrpc_open_args, &args,
	                   (xdrproc_t)xdr_weft_volrpc_open_res, sizeof(weft_volrpc_open_res),
	                   v->timeout_us, open_on_answer, v);
	if (rc != 0)
		v->calls--;
	return rc;
}

int
weft_volume_open(const struct weft_volume_attr *attr, weft_volume_fn fn, void *arg,
                 struct weft_volume **out)
{
	struct weft_volume_attr a;
	struct weft_volume *v;
	int rc = weft_attr_copy(&a, sizeof(a), attr);

	if (rc == 0)
		rc = fn == NULL || out == NULL ? -EINVAL : open_check(&a);
	if (rc != 0)
		return rc;
	v = calloc(1, sizeof(*v));
	if (v == NULL)
		return -ENOMEM;
	v->ops = &volume_ops;
	v->rpc = a.rpc;
	v->worker = a.worker;
	v->user = a.user;
	v->timeout_us = a.timeout_us;
	v->open_fn = fn;
	v->open_arg = arg;
	v->open_status = 1;
	SLIST_INIT(&v->free);
	LIST_INIT(&v->late);
	for (unsigned int i = 0; i < VOLCALL_CALLS; i++) {
		v->slot[i].v = v;
		SLIST_INSERT_HEAD(&v->free, &v->slot[i], next);
	}
	volcall_enter(v);
	rc = a.link != NULL ? volcall_link_make(v, a.link, a.name, a.rights) : open_send(v, &a);
	if (rc == 0 && a.link != NULL)
		rc = volcall_link_begin(v);
	if (rc != 0) {
		free(v->link);
		free(v);
		return rc;
	}
	weft_handle_init(&v->h, &volcall_kind);
	volcall_list(v);
	*out = v;
	volcall_leave(v);
	return 0;
}

/* ---- The rest ---- */

const struct weft_volume_info *
weft_volume_info(const struct weft_volume *v)
{
	if (weft_handle_check(v, &volcall_kind, __func__) < 0 || v->state != VOLCALL_OPEN)
		return NULL;
	return &v->info;
}

void *
weft_volume_user(const struct weft_volume *v)
{
	return weft_handle_check(v, &volcall_kind, __func__) < 0 ? NULL : v->user;
}

int
weft_volume_submit(struct weft_volume *v, struct weft_volume_req *req)
{
	int rc;

	if (weft_handle_check(v, &volcall_kind, __func__) < 0)
		return -EINVAL;
	rc = weft_worker_check_thread(v->worker, __func__);
	if (rc == 0 && v->state != VOLCALL_OPEN)
		rc = -EINVAL;
	if (rc == 0)
		rc = volcall_req_check(v, req);
	if (rc == 0 && volcall_is_down(v))
		rc = -ENOTCONN;
	if (rc != 0)
		return rc;
	volcall_enter(v);
	volcall_req_begin(v, req);
	volcall_pump(v);
	volcall_leave(v);
	return 0;
}
