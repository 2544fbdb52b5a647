/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Streams: acceptance, octets in both directions, both ends, limits, misuse by threads. */

#include <errno.h>

#include <weft/stream.h>
#include "vt_tcp.h"
#include "weft_handle.h"

#define PORT  4420
#define MIB   (1U << 20)
#define PEERS 8

/** What the owner of streams has. */
static struct {
	struct weft_stream *s;
	struct sockaddr_storage remote;
	unsigned int accepted, writables, eofs, ends;
	int refuse, status;
	bool echo, abort_on_data, close_on_eof, abort_in_accept;
	uint8_t in[4 * MIB];
	size_t in_bytes;
	const uint8_t *out; /**< to be written */
	size_t out_bytes;
} o;

static struct vt t;
static struct weft_stream_listener *lsn;
static uint8_t data[2 * MIB];

static void
pump(void)
{
	while (o.s != NULL && o.out_bytes > 0) {
		const struct iovec iov[2] = {{(void *)(uintptr_t)o.out, o.out_bytes / 3},
		                             {(void *)(uintptr_t)(o.out + o.out_bytes / 3),
		                              o.out_bytes - o.out_bytes / 3}};
		const ssize_t n = weft_stream_write(o.s, iov, 2);

		CHECK(n >= 0);
		o.out += n;
		o.out_bytes -= (size_t)n;
		if (o.out_bytes > 0)
			return; /* `writable` follows */
	}
}

static void
on_received(void *user, const void *p, size_t bytes)
{
	CHECK(user == &o);
	CHECK(bytes > 0 && o.in_bytes + bytes <= sizeof(o.in));
	memcpy(o.in + o.in_bytes, p, bytes);
	o.in_bytes += bytes;
	if (o.abort_on_data) {
		weft_stream_abort(o.s);
		o.s = NULL;
	}
}

static void
on_writable(void *user)
{
	CHECK(user == &o);
	o.writables++;
	pump();
}

static void
on_eof(void *user)
{
	CHECK(user == &o);
	o.eofs++;
	if (o.close_on_eof)
		CHECK_EQ(weft_stream_close(o.s), 0);
}

static void
on_ended(void *user, int status)
{
	CHECK(user == &o);
	if (o.accepted == 1) /* the handle is gone */
		CHECK_EQ(weft_stream_close(o.s), -EINVAL);
	o.s = NULL;
	o.ends++;
	o.status = status;
}

static const struct weft_stream_ops ops = {
        .received = on_received, .writable = on_writable, .eof = on_eof, .ended = on_ended};

static int
on_accept(void *user, struct weft_stream *s, struct weft_worker *w,
          const struct sockaddr_storage *remote)
{
	CHECK(user == &t);
	CHECK(w == t.n[1].w);
	if (o.refuse != 0)
		return o.refuse;
	CHECK_EQ(weft_stream_set_user(s, &ops, &o), 0);
	o.accepted++;
	o.remote = *remote;
	o.s = s;
	if (o.abort_in_accept) {
		weft_stream_abort(s);
		o.s = NULL;
	}
	return 0;
}

static void
start(uint32_t max_conns_per_peer, uint32_t max_conns)
{
	struct vt_attr va = {.seed = test_seed(3)};
	struct weft_stream_listen_attr la = {.size = sizeof(la),
	                                     .accept = on_accept,
	                                     .user = &t,
	                                     .max_conns_per_peer = max_conns_per_peer,
	                                     .max_conns = max_conns};
	const struct sockaddr_in sa = vt_addr(1, PORT);

	memset(&o, 0, sizeof(o));
	vt_open(&t, &va);
	CHECK_EQ(
	        weft_stream_listen(t.n[1].ctx, (const struct sockaddr *)&sa, sizeof(sa), &la, &lsn),
	        0);
	vt_fill(data, sizeof(data), 5);
}

static void
end(void)
{
	weft_stream_unlisten(lsn);
	vt_close(&t);
}

static bool
has_all(void *arg)
{
	const struct vt_tcp *p = arg;

	return o.in_bytes == sizeof(data) && p->in_bytes == sizeof(data);
}

/** Whole streams in both directions at once, over a link with losses. */
static void
test_both_ways(void)
{
	struct sim_link_cfg bad = {
	        .loss_ppm = 5000, .reorder_ppm = 10000, .reorder_ns = 200000, .delay_ns = 20000};
	struct vt_tcp p;

	start(0, 0);
	vt_tcp_open(&t, &p, PORT);
	CHECK(p.up);
	vt_run(&t, VT_MS);
	sim_link_set(t.link, 0, &bad);
	sim_link_set(t.link, 1, &bad);
	CHECK_EQ(o.accepted, 1);
	CHECK_EQ(((struct sockaddr_in *)&o.remote)->sin_addr.s_addr, htonl(0x0a000001));
	o.out = data;
	o.out_bytes = sizeof(data);
	pump();
	CHECK(o.out_bytes > 0); /* it does not fit at once */
	vt_tcp_send(&p, data, sizeof(data));
	CHECK(vt_until(&t, 60 * VT_S, has_all, &p));
	CHECK_MEM(o.in, data, sizeof(data));
	CHECK_MEM(p.in, data, sizeof(data));
	CHECK(o.writables > 0);
	/* the owner closes, then the peer */
	CHECK_EQ(weft_stream_close(o.s), 0);
	CHECK_EQ(weft_stream_close(o.s), 0);
	CHECK_EQ(weft_stream_write(o.s, NULL, 0), -EPIPE);
	vt_run(&t, VT_S);
	CHECK(p.eof);
	CHECK_EQ(o.ends, 0);
	vt_tcp_fin(&p);
	vt_run(&t, 100 * VT_S);
	CHECK_EQ(o.ends, 1);
	CHECK_EQ(o.status, 0);
	vt_tcp_end(&p);
	end();
}

static bool
has_some(void *arg)
{
	return ((struct vt_tcp *)arg)->in_bytes >= 5;
}

/** What is written in one call after another leaves together, and soon. */
static void
test_short_writes(void)
{
	const struct iovec iov = {.iov_base = data, .iov_len = 1};
	struct weft_tcp_info before, after;
	struct vt_tcp p;

	start(0, 0);
	vt_tcp_open(&t, &p, PORT);
	vt_run(&t, VT_S);
	weft_tcp_info(p.c, &before);
	for (unsigned int i = 0; i < 5; i++)
		CHECK_EQ(weft_stream_write(o.s, &iov, 1), 1);
	CHECK(vt_until(&t, VT_MS, has_some, &p));
	weft_tcp_info(p.c, &after);
	CHECK_EQ(after.segs_in - before.segs_in, 1);
	/* the peer closes first */
	o.close_on_eof = true;
	vt_tcp_fin(&p);
	vt_run(&t, 100 * VT_S);
	CHECK_EQ(o.eofs, 1);
	CHECK_EQ(o.ends, 1);
	CHECK_EQ(o.status, 0);
	vt_tcp_end(&p);
	end();
}

/** A peer that takes nothing: writes are refused, and nothing is lost when it takes again. */
static void
test_full(void)
{
	const struct sim_link_cfg down = {.down = true}, up = {.delay_ns = 20000};
	unsigned int before;
	struct vt_tcp p;

	start(0, 0);
	vt_tcp_open(&t, &p, PORT);
	vt_run(&t, VT_S);
	sim_link_set(t.link, 1, &down);
	o.out = data;
	o.out_bytes = MIB;
	pump();
	vt_run(&t, VT_S);
	before = o.writables;
	CHECK(o.out_bytes > 0);
	vt_run(&t, VT_S);
	CHECK_EQ(o.writables, before); /* it is not asked again and again */
	sim_link_set(t.link, 1, &up);
	vt_run(&t, 60 * VT_S);
	CHECK_EQ(o.out_bytes, 0);
	CHECK_EQ(p.in_bytes, MIB);
	CHECK_MEM(p.in, data, MIB);
	vt_tcp_end(&p);
	vt_run(&t, VT_S);
	CHECK_EQ(o.ends, 1);
	CHECK_EQ(o.status, -ECONNRESET);
	end();
}

/** A stream that ends in one of its callbacks, with more octets behind. */
static void
test_abort_inside(void)
{
	struct vt_tcp p;

	start(0, 0);
	o.abort_on_data = true;
	vt_tcp_open(&t, &p, PORT);
	vt_tcp_send(&p, data, MIB);
	vt_run(&t, VT_S);
	CHECK(o.in_bytes > 0 && o.in_bytes <= 1500);
	CHECK_EQ(o.ends, 0);
	CHECK_EQ(p.status, -ECONNRESET);
	vt_tcp_end(&p);
	/* or in acceptance */
	o.abort_in_accept = true;
	vt_tcp_open(&t, &p, PORT);
	vt_run(&t, VT_S);
	CHECK_EQ(p.status, -ECONNRESET);
	vt_tcp_end(&p);
	/* or it was never taken */
	o.refuse = -EBUSY;
	vt_tcp_open(&t, &p, PORT);
	vt_run(&t, VT_S);
	CHECK_EQ(p.status, -ECONNRESET);
	vt_tcp_end(&p);
	CHECK_EQ(o.ends, 0);
	end();
}

/** An owner that takes fewer streams than the worker has connections: an address has half of
 * those, and another one finds the others. */
static void
test_peer_share(void)
{
	struct weft_worker_stats st;
	struct vt_tcp p[11];

	start(0, 20);
	for (unsigned int i = 0; i < RTE_DIM(p); i++) {
		vt_tcp_open(&t, &p[i], PORT);
		vt_run(&t, VT_MS);
		CHECK_EQ(p[i].ended, i == 10);
	}
	weft_worker_stats(t.n[1].w, &st);
	CHECK_EQ(st.conns_refused_peer, 1);
	CHECK_EQ(o.accepted, 10);
	for (unsigned int i = 0; i < RTE_DIM(p); i++)
		vt_tcp_end(&p[i]);
	vt_run(&t, VT_S);
	end();
}

/** The limit of an address, which counts its connections of both kinds. */
static void
test_peer_limit(void)
{
	struct weft_worker_stats st;
	struct vt_tcp p[4];

	start(3, 0);
	for (unsigned int i = 0; i < 4; i++) {
		vt_tcp_open(&t, &p[i], PORT);
		vt_run(&t, VT_MS);
		CHECK_EQ(p[i].ended, i == 3);
	}
	weft_worker_stats(t.n[1].w, &st);
	CHECK_EQ(st.conns_refused_peer, 1);
	CHECK_EQ(o.accepted, 3);
	vt_tcp_end(&p[0]);
	vt_tcp_end(&p[3]);
	vt_run(&t, VT_MS);
	vt_tcp_open(&t, &p[0], PORT);
	vt_run(&t, VT_MS);
	CHECK(!p[0].ended);
	for (unsigned int i = 0; i < 3; i++)
		vt_tcp_end(&p[i]);
	vt_run(&t, VT_S);
	end();
}

/** Ports that are taken, by a listener of either kind. */
static void
test_taken(void)
{
	struct weft_stream_listen_attr la = {.size = sizeof(la), .accept = on_accept, .user = &t};
	struct weft_listen_attr va = {.size = sizeof(va)};
	const struct sockaddr_in same = vt_addr(1, PORT), other = vt_addr(1, VT_PORT);
	const struct sockaddr_in away = {
	        .sin_family = AF_INET, .sin_port = htons(9), .sin_addr.s_addr = htonl(0x0b000001)};
	struct weft_stream_listener *l;
	struct weft_listener *v;

	start(0, 0);
	va.evq = t.n[1].evq;
	vt_listen(&t.n[1]);
	CHECK_EQ(weft_stream_listen(t.n[1].ctx, (const struct sockaddr *)&same, sizeof(same), &la,
	                            &l),
	         -EADDRINUSE);
	CHECK_EQ(weft_stream_listen(t.n[1].ctx, (const struct sockaddr *)&other, sizeof(other), &la,
	                            &l),
	         -EADDRINUSE);
	CHECK_EQ(weft_listen(t.n[1].ctx, (const struct sockaddr *)&same, sizeof(same), &va, &v),
	         -EADDRINUSE);
	CHECK_EQ(weft_stream_listen(t.n[1].ctx, (const struct sockaddr *)&away, sizeof(away), &la,
	                            &l),
	         -EADDRNOTAVAIL);
	end();
}

/** A context that ends with streams and listeners. */
static void
test_context_end(void)
{
	struct vt_tcp p;

	start(0, 0);
	vt_tcp_open(&t, &p, PORT);
	vt_run(&t, VT_MS);
	CHECK_EQ(o.accepted, 1);
	o.out = data;
	o.out_bytes = MIB;
	pump();
	vt_tcp_end(&p);
	weft_ctx_destroy(t.n[1].ctx);
	CHECK_EQ(o.ends, 0);
	CHECK_EQ(weft_stream_close(o.s), -EINVAL);
	/* its memory was freed: only the handles that are kept for late calls have it */
	CHECK_EQ(((const struct weft_handle *)(const void *)o.s)->keeps, 1);
	o.s = NULL;
	weft_ctx_destroy(t.n[0].ctx);
	sim_destroy(t.sim);
	CHECK_EQ(rte_mempool_avail_count(t.pool), t.pool_avail);
}

WEFT_TEST_MAIN({"both ways at once, with losses", test_both_ways},
               {"short writes leave together", test_short_writes},
               {"a peer that takes nothing", test_full},
               {"ends inside of callbacks", test_abort_inside},
               {"the limit of an address", test_peer_limit},
               {"the share of an address", test_peer_share}, {"ports that are taken", test_taken},
               {"a context ends with streams", test_context_end})
