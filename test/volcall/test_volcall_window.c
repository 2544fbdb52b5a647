/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Windows of a client's volume: their life, their refusals, and the target's revocations. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "volcall_rig.h"

struct seen {
	struct weft_volume_window w;
	unsigned int told, revoked;
	int status;
	uint32_t deadline_ms;
	bool close; /* in revoked() */
	char why[128];
};

static struct seen s[FAKE_WINDOWS + 1];

static void
on_told(void *arg, int status, const char *why)
{
	struct seen *x = arg;

	x->told++;
	x->status = status;
	CHECK(status <= 0);
	snprintf(x->why, sizeof(x->why), "%s", why);
}

static void
on_revoked(struct weft_volume_window *w, uint32_t deadline_ms)
{
	struct seen *x = w->owner;

	x->revoked++;
	x->deadline_ms = deadline_ms;
	if (x->close)
		CHECK_EQ(weft_volume_window_close(w, on_told, x), 0);
}

static void
begin(struct vrig *r, uint64_t seed)
{
	memset(s, 0, sizeof(s));
	for (unsigned int i = 0; i <= FAKE_WINDOWS; i++) {
		s[i].w.owner = &s[i];
		s[i].w.revoked = on_revoked;
	}
	vrig_open(r, seed);
}

static bool
was_told(void *arg)
{
	return ((struct seen *)arg)->told > 0;
}

static int
wait_told(struct vrig *r, struct seen *x)
{
	CHECK_EQ(x->told, 0);
	vrig_until(r, was_told, x);
	CHECK_EQ(x->told, 1);
	x->told = 0;
	return x->status;
}

static int
open_one(struct vrig *r, struct seen *x, uint64_t off, uint32_t len)
{
	CHECK_EQ(weft_volume_window_open(r->v, &x->w, off, len, 0, 0, on_told, x), 0);
	return wait_told(r, x);
}

static void
test_life(void)
{
	struct vrig r;
	uint32_t stag;

	begin(&r, test_seed(1));
	CHECK_EQ(open_one(&r, &s[0], 4096, 8192), 0);
	CHECK(s[0].w.id != 0);
	stag = s[0].w.stag;
	CHECK_EQ(stag, s[0].w.id * 256);
	CHECK_EQ(s[0].w.to, 4096);
	CHECK_EQ(s[0].w.off_bytes, 4096);
	CHECK_EQ(s[0].w.len_bytes, 8192);
	CHECK_EQ(weft_volume_window_open(r.v, &s[0].w, 0, 4096, 0, 0, on_told, &s[0]), -EBUSY);
	CHECK_EQ(weft_volume_window_move(&s[0].w, 8192, 4096, WEFT_VOLUME_WINDOW_F_FILL, on_told,
	                                 &s[0]),
	         0);
	CHECK_EQ(s[0].w.off_bytes, 4096); /* until it is answered */
	CHECK_EQ(weft_volume_window_move(&s[0].w, 0, 4096, 0, on_told, &s[0]), -EBUSY);
	CHECK_EQ(weft_volume_window_close(&s[0].w, on_told, &s[0]), -EBUSY);
	CHECK_EQ(wait_told(&r, &s[0]), 0);
	CHECK_EQ(s[0].w.off_bytes, 8192);
	CHECK_EQ(s[0].w.len_bytes, 4096);
	CHECK_EQ(s[0].w.stag, stag);
	CHECK_EQ(weft_volume_window_close(&s[0].w, on_told, &s[0]), 0);
	CHECK_EQ(wait_told(&r, &s[0]), 0);
	CHECK_EQ(s[0].w.id, 0);
	CHECK(s[0].w.volume == NULL);
	CHECK_EQ(weft_volume_window_close(&s[0].w, on_told, &s[0]), -EINVAL);
	CHECK_EQ(r.f.served[WEFT_VOLRPC_WINDOW_CLOSE], 1);
	vrig_close(&r);
}

static void
test_arguments(void)
{
	const uint64_t end = FAKE_BYTES / 4096 * 4096;
	static const struct {
		uint64_t off;
		uint32_t len;
	} bad[] = {{1, 4096},         {0, 0},          {0, 100},
	           {0, 17 * 4096},    {1 << 20, 4096}, {UINT64_MAX - 4095, 4096},
	           {244 * 4096, 4096}};
	struct vrig r;

	begin(&r, test_seed(2));
	for (unsigned int i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK_MSG(weft_volume_window_open(r.v, &s[0].w, bad[i].off, bad[i].len, 0, 0,
		                                  on_told, &s[0]) == -EINVAL,
		          "%u", i);
	CHECK_EQ(weft_volume_window_open(r.v, &s[0].w, 0, 4096, 0, 2, on_told, &s[0]), -EINVAL);
	/* The last page is as long as the volume is. */
	CHECK_EQ(open_one(&r, &s[0], end, (uint32_t)(FAKE_BYTES - end)), 0);
	CHECK_EQ(weft_volume_window_move(&s[0].w, 4096, 1, 0, on_told, &s[0]), -EINVAL);
	vrig_close(&r);
	CHECK(s[0].w.volume == NULL); /* closed with the volume, which says so by its own end */
	CHECK_EQ(s[0].w.id, 0);
	CHECK_EQ(s[0].told, 0);
}

static void
test_refused(void)
{
	struct vrig r;

	begin(&r, test_seed(3));
	fake_refuse(&r.f, WEFT_VOLRPC_WINDOW_OPEN, 0, 1, WEFT_VOLRPC_BUSY, "overlaps");
	CHECK_EQ(open_one(&r, &s[0], 0, 4096), -EBUSY);
	CHECK(strcmp(s[0].why, "overlaps") == 0);
	CHECK(s[0].w.volume == NULL);
	for (unsigned int i = 0; i <= FAKE_WINDOWS; i++)
		CHECK_EQ(open_one(&r, &s[i], i * 65536, 65536), i < FAKE_WINDOWS ? 0 : -ENOMEM);
	/* A refused move leaves the window where it is. */
	fake_refuse(&r.f, WEFT_VOLRPC_WINDOW_MOVE, 0, 1, WEFT_VOLRPC_BUSY, "overlaps");
	CHECK_EQ(weft_volume_window_move(&s[1].w, 0, 4096, 0, on_told, &s[1]), 0);
	CHECK_EQ(wait_told(&r, &s[1]), -EBUSY);
	CHECK_EQ(s[1].w.off_bytes, 65536);
	CHECK(s[1].w.id != 0);
	/* A refused close ends it here all the same. */
	fake_refuse(&r.f, WEFT_VOLRPC_WINDOW_CLOSE, 0, 1, WEFT_VOLRPC_STALE, "gone");
	CHECK_EQ(weft_volume_window_close(&s[1].w, on_told, &s[1]), 0);
	CHECK_EQ(wait_told(&r, &s[1]), -ESTALE);
	CHECK(s[1].w.volume == NULL);
	/* Without fn the memory is the owner's at once. */
	CHECK_EQ(weft_volume_window_close(&s[2].w, NULL, NULL), 0);
	CHECK(s[2].w.volume == NULL);
	memset(&s[2].w, 0xaa, sizeof(s[2].w));
	vrig_run(&r, VT_MS);
	CHECK_EQ(r.f.served[WEFT_VOLRPC_WINDOW_CLOSE], 2);
	vrig_close(&r);
}

static void
close_one(struct vrig *r, struct seen *x)
{
	CHECK_EQ(weft_volume_window_close(&x->w, on_told, x), 0);
	CHECK_EQ(wait_told(r, x), 0);
}

static unsigned int
fake_windows(const struct vrig *r)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < FAKE_WINDOWS; i++)
		n += r->f.window[i].id != 0;
	return n;
}

/* Each status of a move: the window is as it was, or it is closed. */
static void
test_move_fails(void)
{
	static const struct {
		weft_volrpc_status status;
		int rc;
		bool stays;
	} all[] = {
	        {WEFT_VOLRPC_PERM, -EACCES, true},         {WEFT_VOLRPC_BUSY, -EBUSY, true},
	        {WEFT_VOLRPC_INVAL, -EINVAL, true},        {WEFT_VOLRPC_NOTSUP, -EOPNOTSUPP, true},
	        {WEFT_VOLRPC_NOENT, -ENOENT, false},       {WEFT_VOLRPC_IO, -EIO, false},
	        {WEFT_VOLRPC_OFFLINE, -ENODEV, false},     {WEFT_VOLRPC_NOSPC, -ENOSPC, false},
	        {WEFT_VOLRPC_DAMAGED, -EBADMSG, false},    {WEFT_VOLRPC_TOO_LONG, -EMSGSIZE, false},
	        {WEFT_VOLRPC_NORES, -ENOMEM, false},       {WEFT_VOLRPC_FENCED, -ESHUTDOWN, false},
	        {WEFT_VOLRPC_TIMEDOUT, -ETIMEDOUT, false}, {WEFT_VOLRPC_STALE, -ESTALE, false},
	        {WEFT_VOLRPC_CANCELED, -ECANCELED, false}};
	struct vrig r;

	begin(&r, test_seed(11));
	CHECK_EQ(open_one(&r, &s[1], 655360, 4096), 0);
	for (unsigned int i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		unsigned int closes = r.f.served[WEFT_VOLRPC_WINDOW_CLOSE];

		CHECK_EQ(open_one(&r, &s[0], 65536, 8192), 0);
		fake_refuse(&r.f, WEFT_VOLRPC_WINDOW_MOVE, 0, 1, all[i].status, "because");
		CHECK_EQ(weft_volume_window_move(&s[0].w, 0, 4096, 0, on_told, &s[0]), 0);
		CHECK_MSG(wait_told(&r, &s[0]) == all[i].rc, "status %d: %d", (int)all[i].status,
		          s[0].status);
		CHECK(strcmp(s[0].why, "because") == 0);
		CHECK_MSG((s[0].w.id != 0) == all[i].stays, "status %d", (int)all[i].status);
		CHECK((s[0].w.volume != NULL) == all[i].stays);
		if (all[i].stays) {
			CHECK_EQ(s[0].w.off_bytes, 65536);
			CHECK_EQ(s[0].w.len_bytes, 8192);
			close_one(&r, &s[0]);
			closes++;
		} else {
			CHECK_EQ(weft_volume_window_move(&s[0].w, 0, 4096, 0, on_told, &s[0]),
			         -EINVAL);
			CHECK_EQ(weft_volume_window_close(&s[0].w, on_told, &s[0]), -EINVAL);
		}
		/* A window that is gone is not closed once more. */
		vrig_run(&r, VT_MS);
		CHECK_EQ(r.f.served[WEFT_VOLRPC_WINDOW_CLOSE], closes);
		CHECK_EQ(fake_windows(&r), 1);
	}
	CHECK(s[1].w.id != 0);
	vrig_close(&r);
}

static void
spoil_move(uint32_t proc, void *res)
{
	weft_volrpc_res *r = res;

	if (proc != WEFT_VOLRPC_WINDOW_MOVE)
		return;
	r->status = (weft_volrpc_status)77;
	r->weft_volrpc_res_u.fault = (weft_volrpc_fault){.why = strdup("?")};
}

/* An answer that never comes, or makes no sense: the window is closed here and at the target. */
static void
test_move_in_doubt(void)
{
	struct weft_volume_attr a;
	struct vrig r;

	begin(&r, test_seed(12));
	CHECK_EQ(vrig_close_volume(&r), 0);
	a = vrig_attr(&r);
	a.timeout_us = 50000;
	CHECK_EQ(vrig_open_volume(&r, &a), 0);
	for (unsigned int i = 0; i < 3; i++) {
		CHECK_EQ(open_one(&r, &s[0], 65536, 8192), 0);
		if (i == 0) {
			r.f.hold = true;
		} else if (i == 1) {
			r.f.spoil = spoil_move;
		} else {
			r.f.spoil = NULL;
			fake_refuse(&r.f, WEFT_VOLRPC_WINDOW_MOVE, 0, 1, WEFT_VOLRPC_OK, NULL);
			r.f.refusal = WEFT_RPC_SYSTEM_ERR;
		}
		CHECK_EQ(weft_volume_window_move(&s[0].w, 0, 4096, 0, on_told, &s[0]), 0);
		CHECK_EQ(wait_told(&r, &s[0]), i == 0 ? -ETIMEDOUT : -EPROTO);
		CHECK_EQ(s[0].w.id, 0);
		CHECK(s[0].w.volume == NULL);
		memset(&s[0].w, 0, sizeof(s[0].w)); /* it is the owner's */
		vrig_run(&r, VT_MS);
		fake_release(&r.f);
		vrig_run(&r, VT_MS);
		CHECK_EQ(r.f.served[WEFT_VOLRPC_WINDOW_CLOSE], i + 1);
		CHECK_EQ(fake_windows(&r), 0);
	}
	vrig_close(&r);
}

/* The answer to an opening comes when its time is over: the window is closed at the target. The
 * volume, or its connection, may have ended by then. */
static void
test_open_in_doubt(void)
{
	enum { LATE, CLOSED_BEFORE, CLOSED_BETWEEN, LOST, WAYS };
	struct weft_volume_attr a;
	struct vrig r;

	for (unsigned int i = 0; i < WAYS; i++) {
		begin(&r, test_seed(15) + i);
		CHECK_EQ(vrig_close_volume(&r), 0);
		a = vrig_attr(&r);
		a.timeout_us = 50000;
		CHECK_EQ(vrig_open_volume(&r, &a), 0);
		r.f.hold = true;
		CHECK_EQ(weft_volume_window_open(r.v, &s[0].w, 4096, 4096, 0, 0, on_told, &s[0]),
		         0);
		if (i == CLOSED_BEFORE) {
			vrig_run(&r, VT_MS);
			r.told = 0;
			weft_volume_close(r.v, vrig_told, &r);
			r.v = NULL;
			vrig_run(&r, VT_MS);
			CHECK_EQ(s[0].told, 0);
			fake_release(&r.f);
		}
		CHECK_EQ(wait_told(&r, &s[0]), i == CLOSED_BEFORE ? -ECANCELED : -ETIMEDOUT);
		CHECK(s[0].w.volume == NULL && s[0].w.id == 0);
		memset(&s[0].w, 0xaa, sizeof(s[0].w)); /* it is the owner's */
		if (i == CLOSED_BETWEEN) {
			weft_volume_close(r.v, NULL, NULL);
			r.v = NULL;
			vrig_run(&r, 200 * VT_MS);
		} else if (i == LOST) {
			vrig_cut(&r);
			vrig_run(&r, VT_MS);
		} else if (i == LATE) {
			CHECK_EQ(fake_windows(&r), 1);
		}
		fake_release(&r.f);
		vrig_run(&r, 10 * VT_MS);
		CHECK(i == LOST || fake_windows(&r) == 0);
		if (i == LATE) {
			CHECK_EQ(r.f.served[WEFT_VOLRPC_WINDOW_CLOSE], 1);
			memset(&s[0].w, 0, sizeof(s[0].w));
			CHECK_EQ(open_one(&r, &s[0], 4096, 4096), 0);
			close_one(&r, &s[0]);
		}
		vrig_close(&r);
	}
}

/* Openings that are not answered at all take no place from other calls, and there are few. */
static void
test_opens_without_end(void)
{
	struct weft_volume_attr a;
	unsigned int refused = 0;
	struct vrig r;

	begin(&r, test_seed(19));
	CHECK_EQ(vrig_close_volume(&r), 0);
	a = vrig_attr(&r);
	a.timeout_us = 50000;
	CHECK_EQ(vrig_open_volume(&r, &a), 0);
	for (unsigned int i = 0; i < 40; i++) {
		struct weft_volume_req q = {.op = WEFT_VOLUME_OP_FLUSH};

		r.f.deaf = true;
		CHECK_EQ(weft_volume_window_open(r.v, &s[0].w, 4096, 4096, 0, 0, on_told, &s[0]),
		         0);
		refused += wait_told(&r, &s[0]) == -ENOMEM;
		CHECK(s[0].status == -ETIMEDOUT || s[0].status == -ENOMEM);
		r.f.deaf = false;
		CHECK_EQ(vrig_do(&r, &q), 0);
	}
	CHECK(refused > 20);
	r.told = 0;
	weft_volume_close(r.v, vrig_told, &r);
	r.v = NULL;
	vrig_run(&r, 100 * VT_MS);
	CHECK_EQ(r.told, 1);
	CHECK_EQ(r.status, 0);
	fake_release(&r.f);
	vrig_close(&r);
}

/* A close that has timed out may not have been sent: it is sent again until it is answered. */
static void
test_close_in_doubt(void)
{
	struct weft_volume_attr a;
	struct vrig r;

	for (unsigned int i = 0; i < 2; i++) {
		begin(&r, test_seed(13) + i);
		CHECK_EQ(vrig_close_volume(&r), 0);
		a = vrig_attr(&r);
		a.timeout_us = 50000;
		CHECK_EQ(vrig_open_volume(&r, &a), 0);
		CHECK_EQ(open_one(&r, &s[0], 65536, 8192), 0);
		/* The target does not take it, or its answer is late. */
		r.f.deaf = i == 0;
		r.f.hold = i == 1;
		CHECK_EQ(weft_volume_window_close(&s[0].w, on_told, &s[0]), 0);
		CHECK_EQ(wait_told(&r, &s[0]), -ETIMEDOUT);
		CHECK_EQ(s[0].w.id, 0);
		CHECK(s[0].w.volume == NULL);
		vrig_run(&r, 120 * VT_MS);
		CHECK_EQ(fake_windows(&r), i == 0 ? 1 : 0);
		r.f.deaf = false;
		vrig_run(&r, 60 * VT_MS); /* so that the last one has timed out, too */
		fake_release(&r.f);
		vrig_run(&r, 120 * VT_MS);
		CHECK_EQ(fake_windows(&r), 0);
		CHECK_EQ(vrig_close_volume(&r), 0);
		vrig_close(&r);
	}
}

static uint32_t spoil_id;

static void
spoil_window(uint32_t proc, void *res)
{
	weft_volrpc_window_res *r = res;

	if (proc == WEFT_VOLRPC_WINDOW_OPEN)
		r->weft_volrpc_window_res_u.window.window = spoil_id;
}

static void
test_garbage(void)
{
	struct vrig r;

	begin(&r, test_seed(4));
	CHECK_EQ(open_one(&r, &s[0], 0, 4096), 0);
	r.f.spoil = spoil_window;
	spoil_id = 0;
	CHECK_EQ(open_one(&r, &s[1], 0, 4096), -EPROTO);
	spoil_id = s[0].w.id;
	CHECK_EQ(open_one(&r, &s[1], 0, 4096), -EPROTO);
	CHECK(s[1].w.volume == NULL);
	vrig_close(&r);
}

static void
test_no_windows(void)
{
	struct weft_volume_attr a;
	struct vrig r;

	begin(&r, test_seed(5));
	CHECK_EQ(vrig_close_volume(&r), 0);
	r.f.grant.window_bytes = r.f.grant.window_align = 0;
	a = vrig_attr(&r);
	CHECK_EQ(vrig_open_volume(&r, &a), 0);
	CHECK_EQ(weft_volume_window_open(r.v, &s[0].w, 0, 4096, 0, 0, on_told, &s[0]), -EOPNOTSUPP);
	vrig_close(&r);
}

/* The volume is closed while windows are opened, moved, closed and open. */
static void
test_volume_closed(void)
{
	struct vrig r;

	begin(&r, test_seed(6));
	for (unsigned int i = 0; i < 4; i++)
		CHECK_EQ(open_one(&r, &s[i], i * 65536, 65536), 0);
	r.f.hold = true;
	CHECK_EQ(weft_volume_window_open(r.v, &s[4].w, 655360, 4096, 0, 0, on_told, &s[4]), 0);
	CHECK_EQ(weft_volume_window_move(&s[0].w, 0, 4096, 0, on_told, &s[0]), 0);
	CHECK_EQ(weft_volume_window_close(&s[1].w, on_told, &s[1]), 0);
	CHECK_EQ(weft_volume_window_close(&s[2].w, NULL, NULL), 0);
	vrig_run(&r, VT_MS);
	r.told = 0;
	weft_volume_close(r.v, vrig_told, &r);
	r.v = NULL;
	vrig_run(&r, VT_MS);
	CHECK_EQ(r.told, 0);
	CHECK(s[3].w.volume == NULL);
	fake_release(&r.f);
	vrig_run(&r, 10 * VT_MS);
	CHECK_EQ(r.told, 1);
	CHECK(s[0].told == 1 && s[0].status == -ECANCELED);
	CHECK(s[1].told == 1);
	CHECK(s[3].told == 0);
	CHECK(s[4].told == 1 && s[4].status == -ECANCELED);
	for (unsigned int i = 0; i < 5; i++)
		CHECK(s[i].w.volume == NULL && s[i].w.id == 0);
	vrig_close(&r);
}

static void
test_lost(void)
{
	struct vrig r;

	for (unsigned int k = 0; k < 10; k++) {
		begin(&r, test_seed(7) + k);
		for (unsigned int i = 0; i < 3; i++)
			CHECK_EQ(open_one(&r, &s[i], i * 65536, 65536), 0);
		CHECK_EQ(weft_volume_window_open(r.v, &s[3].w, 655360, 4096, 0, 0, on_told, &s[3]),
		         0);
		CHECK_EQ(weft_volume_window_move(&s[0].w, 0, 4096, 0, on_told, &s[0]), 0);
		CHECK_EQ(weft_volume_window_close(&s[1].w, on_told, &s[1]), 0);
		vrig_run(&r, k * 10000ULL);
		vrig_cut(&r);
		vrig_run(&r, VT_MS);
		for (unsigned int i = 0; i < 4; i++) {
			CHECK_EQ(s[i].told, i == 2 ? 0 : 1);
			CHECK(s[i].status == 0 || s[i].status == -ENOTCONN);
			s[i].told = 0;
		}
		CHECK(s[1].w.volume == NULL);
		CHECK_EQ(weft_volume_window_move(&s[2].w, 0, 4096, 0, on_told, &s[2]), -ENOTCONN);
		CHECK_EQ(weft_volume_window_close(&s[2].w, on_told, &s[2]), 0);
		CHECK_EQ(s[2].told, 0);
		CHECK_EQ(wait_told(&r, &s[2]), -ENOTCONN);
		CHECK(s[2].w.volume == NULL);
		vrig_close(&r);
		CHECK(s[0].w.volume == NULL);
	}
}

/* ---- The target's calls ---- */

static unsigned int answered;

static void
revoke_answered(void *arg, enum weft_rpc_status status, void *res)
{
	(void)arg;
	(void)res;
	CHECK_EQ(status, WEFT_RPC_OK);
	answered++;
}

static void
take_back(struct vrig *r, uint32_t handle, uint32_t window, uint32_t deadline_ms)
{
	weft_volrpc_revoke_args a = {handle, window, deadline_ms};

	answered = 0;
	CHECK_EQ(weft_rpc_call(r->side[1].rpc, WEFT_VOLRPC_PROG, WEFT_VOLRPC_V2, WEFT_VOLRPC_REVOKE,
	                       (xdrproc_t)xdr_weft_volrpc_revoke_args, &a, weft_rpc_xdr_void, 0, 0,
	                       revoke_answered, NULL),
	         0);
	vrig_run(r, VT_MS);
	CHECK_EQ(answered, 1);
}

static void
test_revoke(void)
{
	uint32_t handle;
	struct vrig r;

	begin(&r, test_seed(8));
	for (unsigned int i = 0; i < 3; i++)
		CHECK_EQ(open_one(&r, &s[i], i * 65536, 65536), 0);
	handle = r.f.grant.handle;
	s[1].close = true;
	s[2].w.revoked = NULL;
	take_back(&r, 0, 12345, 7); /* of no window here */
	take_back(&r, handle + 1, 0, 7);
	CHECK_EQ(s[0].revoked + s[1].revoked, 0);
	take_back(&r, handle, s[0].w.id, 5000);
	CHECK_EQ(s[0].revoked, 1);
	CHECK_EQ(s[0].deadline_ms, 5000);
	CHECK_EQ(s[1].revoked, 0);
	take_back(&r, handle, 0, 100);
	CHECK_EQ(s[0].revoked, 2);
	CHECK_EQ(s[1].revoked, 1);
	CHECK_EQ(s[1].told, 1);
	CHECK(s[1].w.volume == NULL);
	CHECK(s[2].w.volume != NULL);
	/* With no volume at all. */
	CHECK_EQ(vrig_close_volume(&r), 0);
	take_back(&r, handle, 0, 100);
	CHECK_EQ(s[0].revoked, 2);
	vrig_close(&r);
}

static struct vrig *closing;

static void
close_volume(struct weft_volume_window *w, uint32_t deadline_ms)
{
	((struct seen *)w->owner)->revoked++;
	(void)deadline_ms;
	weft_volume_close(closing->v, vrig_told, closing);
	closing->v = NULL;
}

/* What was to be told of the other windows is not any more. */
static void
test_close_when_revoked(void)
{
	unsigned int n = 0;
	struct vrig r;

	begin(&r, test_seed(9));
	for (unsigned int i = 0; i < 3; i++) {
		s[i].w.revoked = close_volume;
		CHECK_EQ(open_one(&r, &s[i], i * 65536, 65536), 0);
	}
	closing = &r;
	r.told = 0;
	take_back(&r, r.f.grant.handle, 0, 100);
	vrig_run(&r, 10 * VT_MS);
	for (unsigned int i = 0; i < 3; i++) {
		n += s[i].revoked;
		CHECK(s[i].w.volume == NULL && s[i].told == 0);
	}
	CHECK_EQ(n, 1);
	CHECK_EQ(r.told, 1);
	CHECK_EQ(r.status, 0);
	vrig_close(&r);
}

/* Two targets name their grants and windows alike: the endpoint tells them apart. */
static void
test_two_targets(void)
{
	struct weft_volume_attr va;
	struct weft_volume *first;
	struct vrig r;

	begin(&r, test_seed(10));
	CHECK_EQ(open_one(&r, &s[0], 0, 65536), 0);
	first = r.v;
	vrig_run(&r, VT_MS);
	vrig_second(&r);
	va = vrig_attr(&r);
	va.rpc = r.rpc2[0];
	CHECK_EQ(vrig_open_volume(&r, &va), 0);
	CHECK_EQ(open_one(&r, &s[1], 0, 65536), 0);
	CHECK_EQ(s[1].w.id, s[0].w.id);
	CHECK_EQ(r.f2.served[WEFT_VOLRPC_WINDOW_OPEN], 1);
	take_back(&r, 0, s[0].w.id, 1); /* the first target, whose volume is the older one */
	take_back(&r, r.f.grant.handle, 0, 1);
	CHECK_EQ(s[0].revoked, 2);
	CHECK_EQ(s[1].revoked, 0);
	CHECK_EQ(vrig_close_volume(&r), 0);
	r.v = first;
	vrig_close(&r);
}

WEFT_TEST_MAIN({"a window is opened, moved and closed", test_life},
               {"ranges that no window has", test_arguments},
               {"refusals of the target", test_refused},
               {"a move that fails leaves the window, or closes it", test_move_fails},
               {"a move whose answer is missing closes the window", test_move_in_doubt},
               {"an opening that is answered late", test_open_in_doubt},
               {"openings that are not answered", test_opens_without_end},
               {"a close without an answer is sent again", test_close_in_doubt},
               {"windows that make no sense", test_garbage},
               {"a volume without windows", test_no_windows},
               {"the volume is closed", test_volume_closed}, {"the connection is lost", test_lost},
               {"the target takes them back", test_revoke},
               {"the volume is closed when a window is taken back", test_close_when_revoked},
               {"two targets with names alike", test_two_targets})
