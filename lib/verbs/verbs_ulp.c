/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The mark of a thread; checks of handles and threads for libraries on top (weft/ulp.h). */

#include "weft_vworker.h"

WEFT_LOG_REGISTER(verbs);

_Thread_local char weft_thread_mark;

int
weft_ctx_check(const struct weft_ctx *ctx, const char *call)
{
	return weft_handle_check(ctx, WEFT_KIND(CTX), call);
}

int
weft_pd_check(const struct weft_pd *pd, const char *call)
{
	return weft_handle_check(pd, WEFT_KIND(PD), call);
}

int
weft_qp_check(const struct weft_qp *qp, const char *call)
{
	return weft_handle_check(qp, WEFT_KIND(QP), call);
}

int
weft_worker_check(const struct weft_worker *w, const char *call)
{
	return weft_handle_check(w, WEFT_KIND(WORKER), call);
}

int
weft_worker_check_thread(const struct weft_worker *w, const char *call)
{
	const struct weft_vworker *vw = (const void *)w;

	return weft_handle_ok(w, WEFT_KIND(WORKER)) && weft_vworker_is_others(vw)
	               ? weft_wrong_thread(call)
	               : 0;
}
