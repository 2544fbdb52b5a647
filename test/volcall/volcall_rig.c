/* SPDX-License-Identifier: BSD-3-Clause */
/** @file A client's volume on one of two whole stacks, and the fake target on the other one. */

#include "volcall_rig.h"

#include <stdio.h>

static const struct weft_rpc_program *const target_programs[] = {&fake_program, NULL};
const struct weft_rpc_program *const *vrig_programs;
static const struct weft_rpc_program *const client_programs[] = {&weft_volume_revokes, NULL};

static struct vrig *rig; /* whose completions these are */

static void
rig_take(struct rpc_side *s, const struct weft_wc *wc)
{
	struct weft_rpc *second = rig->rpc2[s->n->id];

	if ((s->rpc == NULL || !weft_rpc_wc(s->rpc, wc)) && second != NULL)
		(void)weft_rpc_wc(second, wc);
}

static void
rig_dispatch(struct vrig *r)
{
	rig = r;
	for (unsigned int i = 0; i < 2; i++)
		rpc_side_dispatch(&r->side[i], rig_take);
}

void
vrig_connect(struct vrig *r, uint64_t seed, struct weft_rpc_attr client)
{
	struct vt_attr a = {.seed = seed, .link = {.delay_ns = 20000, .rate_bps = 10000000000}};

	memset(r, 0, sizeof(*r));
	fake_open(&r->f);
	vt_open(&r->t, &a);
	vt_connect(&r->t, NULL, NULL);
	client.programs = client_programs;
	rpc_side_up(&r->side[0], &r->t.n[0], client);
	rpc_side_up(&r->side[1], &r->t.n[1],
	            (struct weft_rpc_attr){.programs = vrig_programs != NULL ? vrig_programs
	                                                                     : target_programs,
	                                   .server = true,
	                                   .user = &r->f});
}

void
vrig_second(struct vrig *r)
{
	struct weft_qp *first[2];

	fake_open(&r->f2);
	vt_second_stream(&r->t, first);
	for (unsigned int i = 0; i < 2; i++) {
		struct weft_rpc_attr ra = {.size = sizeof(ra),
		                           .qp = r->t.n[i].qp,
		                           .server = i == 1,
		                           .user = &r->f2,
		                           .programs = i == 1 ? target_programs : client_programs};

		CHECK_EQ(weft_rpc_create(&ra, &r->rpc2[i]), 0);
		r->qp2[i] = r->t.n[i].qp;
		r->t.n[i].qp = first[i];
	}
}

static void
rig_second_down(struct vrig *r)
{
	for (unsigned int i = 0; i < 2 && r->qp2[i] != NULL; i++) {
		weft_qp_destroy(r->qp2[i]);
		weft_rpc_destroy(r->rpc2[i]);
		r->rpc2[i] = NULL;
	}
	if (r->f2.mem != NULL)
		fake_close(&r->f2);
}

struct weft_volume_attr
vrig_attr(struct vrig *r)
{
	return (struct weft_volume_attr){.size = sizeof(struct weft_volume_attr),
	                                 .rpc = r->side[0].rpc,
	                                 .worker = r->t.n[0].w,
	                                 .name = FAKE_NAME,
	                                 .user = r};
}

void
vrig_told(void *arg, int status, const char *why)
{
	struct vrig *r = arg;

	r->told++;
	r->status = status;
	snprintf(r->why, sizeof(r->why), "%s", why);
	CHECK(status <= 0);
	CHECK(status != 0 || why[0] == '\0');
}

void
vrig_run(struct vrig *r, uint64_t ns)
{
	for (; ns >= 10000; ns -= 10000) {
		vt_run(&r->t, 10000);
		rig_dispatch(r);
	}
}

void
vrig_until(struct vrig *r, bool (*cond)(void *arg), void *arg)
{
	for (unsigned int i = 0; !cond(arg); i++) {
		CHECK(i < 6000000);
		vrig_run(r, 10000);
	}
}

static bool
rig_was_told(void *arg)
{
	struct vrig *r = arg;

	return r->told > 0;
}

int
vrig_open_volume(struct vrig *r, const struct weft_volume_attr *a)
{
	r->told = 0;
	CHECK_EQ(weft_volume_open(a, vrig_told, r, &r->v), 0);
	CHECK_EQ(r->told, 0);
	CHECK(weft_volume_info(r->v) == NULL);
	vrig_until(r, rig_was_told, r);
	CHECK_EQ(r->told, 1);
	return r->status;
}

void
vrig_open(struct vrig *r, uint64_t seed)
{
	struct weft_volume_attr a;

	vrig_connect(r, seed, (struct weft_rpc_attr){0});
	a = vrig_attr(r);
	CHECK_EQ(vrig_open_volume(r, &a), 0);
}

int
vrig_close_volume(struct vrig *r)
{
	r->told = 0;
	weft_volume_close(r->v, vrig_told, r);
	r->v = NULL;
	CHECK_EQ(r->told, 0);
	vrig_until(r, rig_was_told, r);
	CHECK_EQ(r->told, 1);
	return r->status;
}

void
vrig_close(struct vrig *r)
{
	if (r->v != NULL)
		(void)vrig_close_volume(r);
	vrig_run(r, VT_MS);
	rig_second_down(r);
	for (unsigned int i = 0; i < 2; i++)
		rpc_side_down(&r->side[i]);
	vrig_run(r, VT_MS);
	vt_close(&r->t);
	fake_close(&r->f);
}

void
vrig_cut(struct vrig *r)
{
	weft_qp_destroy(r->t.n[0].qp);
	r->t.n[0].qp = NULL;
	weft_rpc_disconnected(r->side[0].rpc);
}

void
vrig_count(struct weft_volume_req *req)
{
	unsigned int *n = req->owner;

	CHECK(req->status <= 0);
	CHECK(req->status != 0 || req->op == WEFT_VOLUME_OP_EXTENTS ||
	      req->done_bytes == req->len_bytes);
	CHECK(req->done_bytes <= req->len_bytes);
	CHECK(req->volume == NULL);
	++*n;
}

static bool
rig_counted(void *arg)
{
	return *(unsigned int *)arg > 0;
}

int
vrig_do(struct vrig *r, struct weft_volume_req *req)
{
	unsigned int n = 0;

	req->done = vrig_count;
	req->owner = &n;
	CHECK_EQ(weft_volume_submit(r->v, req), 0);
	CHECK_EQ(n, 0);
	vrig_until(r, rig_counted, &n);
	CHECK_EQ(n, 1);
	return req->status;
}
