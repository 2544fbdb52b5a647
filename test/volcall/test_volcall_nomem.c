/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Lack of memory while windows are opened, moved and closed, and volumes closed: each
 * allocation of such a call fails in turn, alone and with all behind it. Whatever is told, the
 * target has what the owner takes for open, and no more.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "volcall_rig.h"

void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);

static bool armed, behind; /* behind: all behind it fail, too */
static unsigned int asked, fail_at;

static bool
fails(void)
{
	if (!armed)
		return false;
	asked++;
	return behind ? asked >= fail_at : asked == fail_at;
}

void *
__wrap_malloc(size_t n)
{
	return fails() ? NULL : __real_malloc(n);
}

void *
__wrap_calloc(size_t n, size_t size)
{
	return fails() ? NULL : __real_calloc(n, size);
}

void *
__wrap_realloc(void *p, size_t n)
{
	return fails() ? NULL : __real_realloc(p, n);
}

static struct vrig r;
static unsigned int told;
static int status;

static void
on_told(void *arg, int st, const char *why)
{
	(void)arg;
	(void)why;
	told++;
	status = st;
}

/* The window that the target has; NULL: none. */
static const struct fake_window *
target_has(void)
{
	const struct fake_window *found = NULL;

	for (unsigned int i = 0; i < FAKE_WINDOWS; i++) {
		CHECK(r.f.window[i].id == 0 || found == NULL);
		if (r.f.window[i].id != 0)
			found = &r.f.window[i];
	}
	return found;
}

/* What the owner takes for open is what the target has. */
static void
agree(const struct weft_volume_window *w)
{
	const struct fake_window *f = target_has();

	CHECK_MSG((w->volume != NULL) == (w->id != 0), "allocation %u, %s", fail_at,
	          behind ? "all behind" : "alone");
	CHECK_MSG((f != NULL) == (w->id != 0),
	          "allocation %u, %s: status %d, open %d, at the target %d", fail_at,
	          behind ? "all behind" : "alone", status, w->id != 0, f != NULL);
	CHECK(f == NULL || (f->id == w->id && f->off == w->off_bytes && f->len == w->len_bytes));
}

static void
arm(void)
{
	told = asked = 0;
	armed = true;
}

/* The end of a call that returned rc: what is told, if it was taken. */
static void
settle(int rc, bool tells)
{
	armed = false;
	if (rc != 0)
		status = rc;
	vrig_run(&r, 20 * VT_MS);
	CHECK_EQ(told, rc == 0 && tells ? 1 : 0);
	CHECK(rc == 0 || rc == -ENOMEM);
	CHECK(rc != 0 || !tells || status == 0 || status == -ENOMEM);
}

static void
begin(uint64_t n)
{
	vrig_open(&r, test_seed(1) + n);
}

enum what { OPEN, MOVE, CLOSE, CLOSE_UNTOLD, WHATS };

/* One call, while the allocation fails. False: it needs fewer. */
static bool
one(enum what what, struct weft_volume_window *w)
{
	int rc;

	memset(w, 0, sizeof(*w));
	if (what != OPEN) {
		told = 0;
		CHECK_EQ(weft_volume_window_open(r.v, w, 4096, 8192, 0, 0, on_told, NULL), 0);
		settle(0, true);
		CHECK_EQ(status, 0);
	}
	arm();
	if (what == OPEN)
		rc = weft_volume_window_open(r.v, w, 4096, 8192, 0, 0, on_told, NULL);
	else if (what == MOVE)
		rc = weft_volume_window_move(w, 16384, 4096, 0, on_told, NULL);
	else
		rc = weft_volume_window_close(w, what == CLOSE ? on_told : NULL, NULL);
	settle(rc, what != CLOSE_UNTOLD);
	/* No callback is told of this one. It is closed with the next call at the latest. */
	if (what == CLOSE_UNTOLD && rc == 0) {
		struct weft_volume_req q = {.op = WEFT_VOLUME_OP_FLUSH};

		CHECK_EQ(vrig_do(&r, &q), 0);
	}
	agree(w);
	if (w->id != 0) {
		told = 0;
		CHECK_EQ(weft_volume_window_close(w, on_told, NULL), 0);
		settle(0, true);
		CHECK_EQ(status, 0);
	}
	agree(w);
	CHECK(target_has() == NULL);
	return asked >= fail_at;
}

static void
test_windows(void)
{
	struct weft_volume_window w;

	for (unsigned int how = 0; how < 2 * WHATS; how++) {
		enum what what = (enum what)(how / 2);
		unsigned int n = 0;

		behind = how % 2 == 1;
		begin(how);
		for (fail_at = 1; one(what, &w); fail_at++) {
			CHECK(fail_at < 100);
			n++;
		}
		CHECK(n > 1);
		vrig_close(&r);
	}
}

/* A window without a call of its own is open still when another call finds no memory. */
static void
test_neighbours(void)
{
	struct weft_volume_window w = {0}, other = {0};
	struct weft_volume_req q;

	begin(20);
	behind = true;
	told = 0;
	CHECK_EQ(weft_volume_window_open(r.v, &w, 4096, 8192, 0, 0, on_told, NULL), 0);
	settle(0, true);
	for (fail_at = 1; fail_at < 3; fail_at++) {
		unsigned int n = 0;
		int rc;

		arm();
		rc = weft_volume_window_open(r.v, &other, 65536, 4096, 0, 0, on_told, NULL);
		settle(rc, true);
		CHECK_EQ(status, -ENOMEM);
		agree(&w);
		q = (struct weft_volume_req){
		        .op = WEFT_VOLUME_OP_FLUSH, .done = vrig_count, .owner = &n};
		arm();
		rc = weft_volume_submit(r.v, &q);
		told = 0;
		settle(rc, false);
		CHECK_EQ(n, 1);
		CHECK_EQ(q.status, -ENOMEM);
		agree(&w);
	}
	vrig_close(&r);
}

static unsigned int foreign;

static void
foreign_done(void *arg, enum weft_rpc_status st, void *res)
{
	(void)arg;
	(void)st;
	(void)res;
	foreign++;
}

/* All calls of the endpoint are outstanding, none of them the volume's, and there is no memory for
 * the alarm that would try again. */
static void
test_no_calls_left(void)
{
	struct weft_volume_window w[3] = {0};
	struct weft_volume_req q = {.op = WEFT_VOLUME_OP_FLUSH, .done = vrig_count};
	unsigned int sent = 0, n = 0;

	begin(30);
	q.owner = &n;
	for (unsigned int i = 0; i < 2; i++) {
		told = 0;
		CHECK_EQ(weft_volume_window_open(r.v, &w[i], i * 65536, 8192, 0, 0, on_told, NULL),
		         0);
		settle(0, true);
	}
	while (weft_rpc_call(r.side[0].rpc, WEFT_VOLRPC_PROG, WEFT_VOLRPC_V2, WEFT_VOLRPC_NULL,
	                     weft_rpc_xdr_void, NULL, weft_rpc_xdr_void, 0, 0, foreign_done,
	                     NULL) == 0)
		sent++;
	behind = true;
	fail_at = 1;
	arm();
	CHECK_EQ(weft_volume_submit(r.v, &q), 0);
	CHECK_EQ(weft_volume_window_open(r.v, &w[2], 655360, 8192, 0, 0, on_told, NULL), 0);
	CHECK_EQ(told, 1);
	CHECK_EQ(status, -ENOMEM);
	CHECK_EQ(weft_volume_window_close(&w[1], on_told, NULL), 0);
	CHECK_EQ(told, 2);
	armed = false;
	CHECK_EQ(status, -ENOMEM);
	CHECK_EQ(n, 1);
	CHECK_EQ(q.status, -ENOMEM);
	vrig_run(&r, 20 * VT_MS);
	CHECK_EQ(foreign, sent);
	CHECK(w[0].id != 0 && w[1].id != 0 && w[2].id == 0);
	for (unsigned int i = 0; i < 2; i++) {
		told = 0;
		CHECK_EQ(weft_volume_window_close(&w[i], on_told, NULL), 0);
		settle(0, true);
		CHECK_EQ(status, 0);
	}
	CHECK(target_has() == NULL);
	vrig_close(&r);
}

/* The close of the volume: it is told 0 when the target has closed it. */
static void
test_volume_close(void)
{
	for (unsigned int how = 0; how < 2; how++) {
		behind = how == 1;
		asked = fail_at = 0;
		for (fail_at = 1; fail_at == 1 || asked >= fail_at - 1; fail_at++) {
			CHECK(fail_at < 100);
			begin(40 + how * 100 + fail_at);
			arm();
			weft_volume_close(r.v, on_told, NULL);
			r.v = NULL;
			settle(0, true);
			CHECK_MSG(r.f.open == (status != 0), "allocation %u: status %d, open %d",
			          fail_at, status, r.f.open);
			vrig_close(&r);
		}
	}
}

WEFT_TEST_MAIN({"windows are opened, moved and closed", test_windows},
               {"windows beside them stay open", test_neighbours},
               {"calls that cannot wait for room", test_no_calls_left},
               {"volumes are closed", test_volume_close})
