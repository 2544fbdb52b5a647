/* SPDX-License-Identifier: BSD-3-Clause */
/** @file What a target's answers mean. All of it is the peer's word, and checked. */

#include <errno.h>
#include <string.h>

#include "volcall_priv.h"

int
volcall_rpc_errno(enum weft_rpc_status status)
{
	switch (status) {
	case WEFT_RPC_OK:
		return 0;
	case WEFT_RPC_CONNLOST:
		return -ENOTCONN;
	case WEFT_RPC_TIMEDOUT:
		return -ETIMEDOUT;
	case WEFT_RPC_DENIED:
		return -EACCES;
	case WEFT_RPC_PROG_UNAVAIL:
	case WEFT_RPC_PROG_MISMATCH:
		return -EPROTONOSUPPORT;
	case WEFT_RPC_PROC_UNAVAIL:
		return -EOPNOTSUPP;
	case WEFT_RPC_CALL_TOO_LONG:
		return -EMSGSIZE;
	default:
		return -EPROTO;
	}
}

static int
status_errno(weft_volrpc_status status)
{
	switch (status) {
	case WEFT_VOLRPC_OK:
		return 0;
	case WEFT_VOLRPC_NOENT:
		return -ENOENT;
	case WEFT_VOLRPC_IO:
		return -EIO;
	case WEFT_VOLRPC_OFFLINE:
		return -ENODEV;
	case WEFT_VOLRPC_PERM:
		return -EACCES;
	case WEFT_VOLRPC_BUSY:
		return -EBUSY;
	case WEFT_VOLRPC_EXIST:
		return -EEXIST;
	case WEFT_VOLRPC_INVAL:
		return -EINVAL;
	case WEFT_VOLRPC_NOSPC:
		return -ENOSPC;
	case WEFT_VOLRPC_DAMAGED:
		return -EBADMSG;
	case WEFT_VOLRPC_MISMATCH:
		return -EILSEQ;
	case WEFT_VOLRPC_TOO_LONG:
		return -EMSGSIZE;
	case WEFT_VOLRPC_NOTSUP:
		return -EOPNOTSUPP;
	case WEFT_VOLRPC_NORES:
		return -ENOMEM;
	case WEFT_VOLRPC_FENCED:
		return -ESHUTDOWN;
	case WEFT_VOLRPC_TIMEDOUT:
		return -ETIMEDOUT;
	case WEFT_VOLRPC_STALE:
		return -ESTALE;
	case WEFT_VOLRPC_CANCELED:
		return -ECANCELED;
	}
	return -EPROTO;
}

void
volcall_fault(struct volcall_outcome *out, weft_volrpc_status status,
              const weft_volrpc_fault *fault, uint64_t off_bytes, uint64_t len_bytes,
              uint64_t bytes)
{
	*out = (struct volcall_outcome){.status = status_errno(status), .why = fault->why};
	if (out->status == -EPROTO) {
		out->why = "the target answers with an unknown status";
		return;
	}
	/* A damaged block may begin before the range. */
	if (fault->done > len_bytes || (status == WEFT_VOLRPC_DAMAGED && fault->at >= bytes) ||
	    (status == WEFT_VOLRPC_MISMATCH &&
	     (fault->at < off_bytes || fault->at - off_bytes >= len_bytes))) {
		*out = (struct volcall_outcome){
		        .status = -EPROTO,
		        .why = "the target's answer names a place outside of the range"};
		return;
	}
	out->done_bytes = fault->done;
	if (status == WEFT_VOLRPC_DAMAGED || status == WEFT_VOLRPC_MISMATCH)
		out->at_bytes = fault->at;
}

void
volcall_why(char why[VOLCALL_WHY_BYTES], const char *text)
{
	unsigned int n = 0;

	for (; text != NULL && text[n] != '\0' && n < VOLCALL_WHY_BYTES - 1; n++)
		why[n] = (unsigned char)text[n] < ' ' || text[n] == 0x7f ? '?' : text[n];
	why[n] = '\0';
}

static int
status_grant(struct weft_volume_info *info, const weft_volrpc_grant *g)
{
	if (g->bytes == 0 || g->bytes > INT64_MAX || g->block_bytes == 0 || g->io_bytes == 0 ||
	    g->range_bytes == 0 || g->hash_bytes > WEFT_VOLRPC_HASH_MAX ||
	    strlen(g->hash) >= sizeof(info->hash) || (g->window_bytes > 0 && g->window_align == 0))
		return -EPROTO;
	*info = (struct weft_volume_info){
	        .bytes = g->bytes,
	        .rights = g->rights,
	        .can = g->can & (WEFT_VOLUME_DISCARDS | WEFT_VOLUME_HOLES | WEFT_VOLUME_MEDIUM |
	                         WEFT_VOLUME_SUMS),
	        .block_bytes = g->block_bytes,
	        .atomic_bytes = g->atomic_bytes,
	        .io_bytes = g->io_bytes < WEFT_VOLRPC_IO_MAX ? g->io_bytes : WEFT_VOLRPC_IO_MAX,
	        .compare_bytes = g->compare_bytes < WEFT_VOLRPC_COMPARE_MAX
	                                 ? g->compare_bytes
	                                 : WEFT_VOLRPC_COMPARE_MAX,
	        .range_bytes = g->range_bytes < WEFT_VOLRPC_RANGE_MAX ? g->range_bytes
	                                                              : WEFT_VOLRPC_RANGE_MAX,
	        .window_bytes = g->window_bytes,
	        .window_align = g->window_align,
	        .windows = g->windows,
	        .hash_bytes = g->hash_bytes,
	        .persistent = g->persistent,
	};
	memcpy(info->uuid, g->uuid, sizeof(info->uuid));
	volcall_why(info->mechanism, g->mechanism);
	strcpy(info->hash, g->hash);
	return 0;
}

int
volcall_open_result(char why[VOLCALL_WHY_BYTES], enum weft_rpc_status status,
                    const weft_volrpc_open_res *r, struct weft_volume_info *info, uint32_t *handle)
{
	struct volcall_outcome o = {.status = volcall_rpc_errno(status),
	                            .why = weft_rpc_status_str(status)};

	if (status == WEFT_RPC_PROG_UNAVAIL || status == WEFT_RPC_PROG_MISMATCH)
		o.why = "the target has no volumes; it is of an older version";
	if (status == WEFT_RPC_OK && r->status != WEFT_VOLRPC_OK) {
		volcall_fault(&o, r->status, &r->weft_volrpc_open_res_u.fault, 0, UINT64_MAX,
		              UINT64_MAX);
	} else if (status == WEFT_RPC_OK) {
		o.status = status_grant(info, &r->weft_volrpc_open_res_u.grant);
		o.why = "the target's grant makes no sense";
		*handle = r->weft_volrpc_open_res_u.grant.handle;
	}
	volcall_why(why, o.status != 0 ? o.why : NULL);
	return o.status;
}

bool
volcall_extents_ok(const weft_volrpc_extents *e, uint64_t off_bytes, uint64_t len_bytes)
{
	uint64_t done = 0;

	for (u_int i = 0; i < e->list.list_len; i++) {
		const weft_volrpc_extent *x = &e->list.list_val[i];

		if (x->off != off_bytes + done || x->len == 0 || x->len > len_bytes - done)
			return false;
		done += x->len;
	}
	return done > 0; /* else a caller that goes on would never end */
}
