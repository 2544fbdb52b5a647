/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Snapshots of block devices: names, what a request must have, lists, reasons. */

#include <stdarg.h>
#include <stdio.h>

#include "medium_block_priv.h"
#include "weft_snap_name.h"

#define SNAP_PATCH_BYTES 4096U

bool
weft_block_snap_name_ok(const char *name)
{
	return weft_snap_name_is_ok(name, WEFT_BLOCK_SNAP_NAME_BYTES);
}

int
weft_block_snap_refuse(struct weft_block_snap *snap, int status, const char *fmt, ...)
{
	va_list ap;

	if (snap == NULL || fmt == NULL)
		return status;
	va_start(ap, fmt);
	vsnprintf(snap->reason, sizeof(snap->reason), fmt, ap);
	va_end(ap);
	return status;
}

void
weft_block_snap_found(struct weft_block_snap *snap, const struct weft_block_snapshot *s)
{
	uint32_t at;

	if (snap == NULL || snap->list == NULL || s == NULL || !weft_block_snap_name_ok(s->name) ||
	    (snap->name != NULL && strcmp(s->name, snap->name) <= 0))
		return;
	for (at = snap->found; at > 0 && strcmp(snap->list[at - 1].name, s->name) > 0; at--)
		;
	if (snap->found == snap->max_list) {
		snap->more = true;
		if (at == snap->found)
			return;
		snap->found--; /* the last one belongs to the next list */
	}
	memmove(&snap->list[at + 1], &snap->list[at], (snap->found - at) * sizeof(*s));
	snap->list[at] = *s;
	snap->found++;
}

static bool
snap_patch_ok(const struct weft_block_patch *p)
{
	return p->data != NULL && p->len_bytes <= SNAP_PATCH_BYTES &&
	       p->guard_bytes <= SNAP_PATCH_BYTES &&
	       p->guard_off_bytes <= SNAP_PATCH_BYTES - p->guard_bytes &&
	       (p->guard_bytes == 0 || p->guard != NULL);
}

static bool
snap_args_ok(const struct weft_block_snap *s)
{
	if (s == NULL || (unsigned int)s->what >= WEFT_BLOCK_SNAP_WHATS ||
	    s->patches > WEFT_BLOCK_SNAP_PATCHES)
		return false;
	for (uint32_t p = 0; p < s->patches; p++) {
		if (!snap_patch_ok(&s->patch[p]))
			return false;
	}
	if (s->what == WEFT_BLOCK_SNAP_LIST)
		return s->list != NULL && s->max_list > 0;
	return weft_block_snap_name_ok(s->name) &&
	       (s->what != WEFT_BLOCK_SNAP_CLONE || s->from == NULL ||
	        weft_block_snap_name_ok(s->from));
}

int
medium_block_snap_check(const struct weft_block_info *i, const struct weft_block_req *req)
{
	struct weft_block_snap *s = req->snap;

	if (!snap_args_ok(s) || req->off_bytes != 0 || req->len_bytes != 0)
		return -EINVAL;
	s->found = 0;
	s->more = false;
	s->place[0] = s->reason[0] = '\0';
	if ((i->can & WEFT_BLOCK_CAN_SNAPSHOT) == 0 && i->no_snapshot != NULL)
		return weft_block_snap_refuse(s, -EOPNOTSUPP, "%s", i->no_snapshot);
	if ((i->can & WEFT_BLOCK_CAN_SNAPSHOT) == 0)
		return weft_block_snap_refuse(s, -EOPNOTSUPP, "block driver %s has no snapshots",
		                              i->driver);
	if (s->what != WEFT_BLOCK_SNAP_LIST && (i->can & WEFT_BLOCK_CAN_WRITE) == 0)
		return weft_block_snap_refuse(s, -EROFS, "the device is open to be read only");
	return 0;
}

void
medium_block_snap_done(struct weft_block_req *req)
{
	struct weft_block_snap *s = req->snap;

	if (req->status == 0)
		s->reason[0] = '\0';
	else if (s->reason[0] == '\0')
		(void)weft_block_snap_refuse(s, req->status, "%s", strerror(-req->status));
	if (req->status != 0)
		s->found = 0;
}
