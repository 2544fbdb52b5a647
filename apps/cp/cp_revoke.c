/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Revocation of the grant by the target: go on when the time suffices, else end before
 * the rights are removed. */

#include "cp.h"

#include <errno.h>

#include "ui.h"
#include <weft/volume.h>

#define REVOKE_MARGIN_NS 20000000ULL /* reserved for the close */
/* part of the remaining time that is used, because the estimate may be wrong */
#define REVOKE_USABLE 0.8

static enum weft_rpc_status
revoke_serve(void *conn_user, void *vargs, void *vres)
{
	const weft_export_revoke_args *args = vargs;
	struct cp_session *s = conn_user;

	(void)vres;
	if (s->open && args->handle == s->grant.handle) {
		s->revoked = true;
		s->revoke_rest = args->rest;
		s->revoke_s = (double)args->deadline_ms / 1e3;
		s->revoke_end_ns = ui_now_ns() + args->deadline_ms * 1000000ULL;
	}
	return WEFT_RPC_OK;
}

static const struct weft_rpc_proc revoke_procs[] = {
        [WEFT_EXPORT_REVOKE] = {.xdr_args = (xdrproc_t)xdr_weft_export_revoke_args,
                                .args_bytes = sizeof(weft_export_revoke_args),
                                .serve = revoke_serve},
};
static const struct weft_rpc_program revoke_program = {
        .prog = WEFT_EXPORT_PROG,
        .vers = WEFT_EXPORT_V1,
        .procs = revoke_procs,
        .nprocs = sizeof(revoke_procs) / sizeof(revoke_procs[0]),
};
const struct weft_rpc_program *const cp_programs[] = {&revoke_program, &weft_volume_revokes, NULL};

bool
cp_must_leave(const struct cp_session *s, uint32_t needs, uint64_t begin_ns, uint64_t done,
              uint64_t total)
{
	uint64_t now;
	double left, need;

	if (!s->revoked || (needs & ~s->revoke_rest) == 0)
		return false;
	now = ui_now_ns();
	if (now + REVOKE_MARGIN_NS >= s->revoke_end_ns)
		return true;
	if (done == 0)
		return false;
	left = (double)(s->revoke_end_ns - now);
	need = (double)(now - begin_ns) * (double)(total - done) / (double)done;
	return need > left * REVOKE_USABLE;
}

int
cp_leave(struct cp_session *s, const char *consequence)
{
	cp_close(s);
	return cp_fail(s, -ECANCELED,
	               "%s: the target revokes export %s, %.1f s after its warning%s", s->where,
	               s->url.export_name, s->revoke_s, consequence);
}
