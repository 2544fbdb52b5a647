/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The functions that wait, on whole workers joined by memif: called by other threads and by
 * the thread that polls the worker, and refused in a callback. The target has a worker and a thread
 * of its own.
 */

#include <pthread.h>
#include <stdatomic.h>

#include "fake_target.h"
#include "shape.h"
#include <weft/hash.h>
#include <weft/volume.h>

#include "weft_test.h"

#define THREADS 4
#define ROUNDS  40
#define STRIPE  100000u

static struct shape s;
static struct fake_target f;
static struct weft_cq *cq[2];
static struct weft_evq *evq[2];
static struct weft_listener *listener;
static const struct weft_rpc_program *const target_programs[] = {&fake_program, NULL};

/* One connection: the client's half, on its worker, and the target's. */
static struct end {
	struct weft_qp *qp;
	struct weft_rpc *rpc;
} end[2];
static atomic_bool up, ended[2];
static bool own_loop; /* the thread of the test polls the client's worker */

static void
on_wc(void *user, struct weft_cq *q, const struct weft_wc *wc, unsigned int n)
{
	struct end *e = user;

	(void)q;
	for (unsigned int i = 0; i < n && e->rpc != NULL; i++)
		(void)weft_rpc_wc(e->rpc, &wc[i]);
}

static void
end_up(struct end *e, struct weft_worker *w, bool server)
{
	struct weft_rpc_attr ra = {.size = sizeof(ra),
	                           .server = server,
	                           .programs = server ? target_programs : NULL,
	                           .user = &f};

	e->qp = shape_qp(&s, w, cq[e - end], evq[e - end], NULL);
	ra.qp = e->qp;
	MUST(weft_rpc_create(&ra, &e->rpc) == 0);
}

static void
end_down(void *arg)
{
	struct end *e = arg;

	if (e->qp != NULL)
		weft_qp_destroy(e->qp);
	weft_rpc_destroy(e->rpc);
	*e = (struct end){0};
	atomic_store(&ended[e - end], true);
}

static void
on_event(void *user, const struct weft_event *ev)
{
	struct end *e = user;

	switch (ev->type) {
	case WEFT_EV_CONNECT_REQUEST:
		end_up(e, weft_connreq_worker(ev->connreq), true);
		MUST(weft_accept(ev->connreq, e->qp, NULL) == 0);
		break;
	case WEFT_EV_ESTABLISHED:
		if (e == &end[0])
			atomic_store(&up, true);
		break;
	case WEFT_EV_DISCONNECTED:
		if (e == &end[1])
			end_down(e);
		else if (e->rpc != NULL)
			weft_rpc_disconnected(e->rpc);
		break;
	default:
		break;
	}
}

/* Until the flag is set by a worker, at most 20 s. */
static void
await(atomic_bool *flag)
{
	for (unsigned int i = 0; !atomic_load(flag); i++) {
		MUST(i < 200000);
		if (!own_loop || weft_worker_poll(s.client) == 0)
			usleep(100);
	}
}

static void
connect_now(void *arg)
{
	struct sockaddr_in sa = shape_addr(1);

	(void)arg;
	end_up(&end[0], s.client, false);
	MUST(weft_connect(end[0].qp, (struct sockaddr *)&sa, sizeof(sa), NULL) == 0);
}

static void
connect_ends(void)
{
	atomic_store(&up, false);
	atomic_store(&ended[0], false);
	atomic_store(&ended[1], false);
	MUST(weft_worker_call(s.client, connect_now, NULL) == 0);
	await(&up);
}

static void
disconnect_ends(void)
{
	MUST(weft_worker_call(s.client, end_down, &end[0]) == 0);
	await(&ended[0]);
	await(&ended[1]);
}

static void
test_up(void)
{
	struct sockaddr_in sa = shape_addr(1);
	struct weft_listen_attr la = {.size = sizeof(la)};

	shape_up(&s);
	fake_open(&f);
	for (unsigned int i = 0; i < 2; i++) {
		struct weft_cq_attr ca = {
		        .size = sizeof(ca), .depth = 512, .on_wc = on_wc, .user = &end[i]};
		struct weft_evq_attr ea = {
		        .size = sizeof(ea), .on_event = on_event, .user = &end[i]};

		MUST(weft_cq_create(s.ctx, &ca, &cq[i]) == 0);
		MUST(weft_evq_create(s.ctx, &ea, &evq[i]) == 0);
	}
	la.evq = evq[1];
	MUST(weft_listen(s.ctx, (struct sockaddr *)&sa, sizeof(sa), &la, &listener) == 0);
}

static void
test_down(void)
{
	weft_unlisten(listener);
	weft_worker_stop(s.client);
	weft_worker_stop(s.server);
	for (unsigned int i = 0; i < 2; i++) {
		weft_evq_destroy(evq[i]);
		weft_cq_destroy(cq[i]);
	}
	fake_close(&f);
	shape_down(&s);
}

static struct weft_volume_attr
attr(void)
{
	return (struct weft_volume_attr){.size = sizeof(struct weft_volume_attr),
	                                 .rpc = end[0].rpc,
	                                 .worker = s.client,
	                                 .name = FAKE_NAME};
}

/* ---- What each of them does, wherever it is called ---- */

static void
use(struct weft_volume *v, uint64_t off, uint8_t fill)
{
	static _Thread_local uint8_t out[STRIPE], in[STRIPE];
	struct weft_volume_req req = {.op = WEFT_VOLUME_OP_COMPARE_WRITE,
	                              .off_bytes = off,
	                              .len_bytes = 8,
	                              .data = in,
	                              .expect = in};
	struct weft_volume_snapshot list[4];
	uint8_t hash[4], want[4];
	char why[64];
	uint32_t n;
	char name[16];

	/* Other threads make theirs meanwhile. */
	snprintf(name, sizeof(name), "at-%u", (unsigned int)off);
	memset(out, fill, sizeof(out));
	memset(in, 0, sizeof(in));
	MUST(weft_volume_write(v, off, out, STRIPE, WEFT_VOLUME_F_DURABLE) == 0);
	MUST(weft_volume_read(v, off, in, STRIPE) == 0);
	MUST(memcmp(in, out, STRIPE) == 0);
	MUST(weft_volume_flush(v, off, STRIPE) == 0);
	MUST(weft_volume_flush(v, 0, 0) == 0);
	MUST(weft_volume_verify(v, off, STRIPE, hash) == 0);
	weft_hash_once(weft_hash_find("crc32c"), out, STRIPE, want);
	MUST(memcmp(hash, want, 4) == 0);
	MUST(weft_volume_snapshot(v, name, why, sizeof(why)) == 0 && why[0] == '\0');
	MUST(weft_volume_snapshots(v, NULL, list, 4, &n, NULL, 0) == 0 && n <= 4);
	MUST(weft_volume_clone(v, "c", "absent", why, sizeof(why)) == -ENOENT && why[0] != '\0');
	MUST(weft_volume_snapshot_remove(v, name, NULL, 0) == 0);
	in[3] ^= 1;
	MUST(weft_volume_submit_wait(v, &req) == -EILSEQ);
	MUST(req.at_bytes == off + 3 && req.volume == NULL);
	MUST(weft_volume_read(v, FAKE_BYTES, in, 1) == -EINVAL);
}

static void
open_use_close(void)
{
	struct weft_volume_attr a = attr();
	struct weft_volume *v = NULL;
	char why[20];

	a.name = "nothing";
	MUST(weft_volume_open_wait(&a, why, sizeof(why), &v) == -ENOENT);
	MUST(v == NULL && strcmp(why, "no such?volume") == 0);
	MUST(weft_volume_open_wait(&a, NULL, 0, &v) == -ENOENT);
	a.name = FAKE_NAME;
	MUST(weft_volume_open_wait(&a, why, sizeof(why), &v) == 0);
	MUST(why[0] == '\0' && weft_volume_info(v)->bytes == FAKE_BYTES);
	use(v, 5, 0x31);
	weft_volume_close_wait(v);
	MUST(weft_volume_info(v) == NULL);
}

/* ---- Where ---- */

static void
test_other_thread(void)
{
	connect_ends();
	open_use_close();
	disconnect_ends();
}

static struct weft_volume *shared;

static void *
user(void *arg)
{
	unsigned int k = (unsigned int)(uintptr_t)arg;

	for (unsigned int i = 0; i < ROUNDS; i++)
		use(shared, k * STRIPE, (uint8_t)(k + i));
	return NULL;
}

static void
test_threads(void)
{
	struct weft_volume_attr a;
	pthread_t t[THREADS];

	connect_ends();
	a = attr();
	MUST(weft_volume_open_wait(&a, NULL, 0, &shared) == 0);
	for (uintptr_t k = 0; k < THREADS; k++)
		MUST(pthread_create(&t[k], NULL, user, (void *)k) == 0);
	for (unsigned int k = 0; k < THREADS; k++)
		pthread_join(t[k], NULL);
	weft_volume_close_wait(shared);
	disconnect_ends();
}

static void
test_own_thread(void)
{
	weft_worker_stop(s.client);
	own_loop = true;
	connect_ends();
	open_use_close();
	disconnect_ends();
	weft_worker_detach(s.client);
	own_loop = false;
	MUST(weft_worker_start(s.client) == 0);
}

static atomic_bool nested_done;

static void
nested(struct weft_volume_req *req)
{
	struct weft_volume *v = req->owner;

	MUST(req->status == 0);
	MUST(weft_volume_flush(v, 0, 0) == -EDEADLK);
	weft_volume_close_wait(v); /* which does not wait here */
	atomic_store(&nested_done, true);
}

static void
nested_begin(void *arg)
{
	struct weft_volume_req *req = arg;

	MUST(weft_volume_submit(req->owner, req) == 0);
}

static void
test_callback(void)
{
	static struct weft_volume_req req = {.op = WEFT_VOLUME_OP_FLUSH, .done = nested};
	struct weft_volume_attr a;
	struct weft_volume *v;

	connect_ends();
	a = attr();
	MUST(weft_volume_open_wait(&a, NULL, 0, &v) == 0);
	req.owner = v;
	MUST(weft_worker_call(s.client, nested_begin, &req) == 0);
	await(&nested_done);
	disconnect_ends();
}

/* ---- The connection is lost while a thread waits ---- */

static void *
cutter(void *arg)
{
	(void)arg;
	/* The target has the call, and will not answer it. */
	for (unsigned int i = 0; i < 200000 && atomic_load(&f.nheld) == 0; i++)
		usleep(100);
	MUST(weft_worker_call(s.server, end_down, &end[1]) == 0);
	return NULL;
}

static void
test_lost(void)
{
	struct weft_volume_attr a;
	struct weft_volume *v;
	char why[128], data[8];
	pthread_t t;

	connect_ends();
	a = attr();
	MUST(weft_volume_open_wait(&a, why, sizeof(why), &v) == 0);
	atomic_store(&f.hold, true);
	MUST(pthread_create(&t, NULL, cutter, NULL) == 0);
	MUST(weft_volume_read(v, 0, data, sizeof(data)) == -ENOTCONN);
	pthread_join(t, NULL);
	MUST(weft_volume_read(v, 0, data, sizeof(data)) == -ENOTCONN);
	weft_volume_close_wait(v);
	await(&ended[1]);
	MUST(weft_worker_call(s.client, end_down, &end[0]) == 0);
	await(&ended[0]);
	weft_worker_stop(s.server);
	fake_release(&f);
	weft_worker_detach(s.server);
	MUST(weft_worker_start(s.server) == 0);
}

WEFT_TEST_MAIN({"open", test_up}, {"another thread", test_other_thread},
               {"four threads at once", test_threads},
               {"the thread that polls the worker", test_own_thread},
               {"a callback does not wait", test_callback}, {"the connection is lost", test_lost},
               {"close", test_down})
