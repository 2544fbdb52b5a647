/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The end of a context whose port takes no frame any more, as a port in shared memory whose peer is
 * stopped. A connection in TIME-WAIT that waits for room, for its last ACK, must not keep it.
 */

#include <unistd.h>

#include <rte_mempool.h>

#include "vt.h"
#include "weft_netif.h"

const struct weft_netif_dev *__real_sim_link_dev(void);
const struct weft_netif_dev *__wrap_sim_link_dev(void);

static bool stuck; /* node 0's port */
static void *port0;
static struct weft_netif_dev dev;

static uint16_t
dev_tx(void *arg, struct rte_mbuf **m, uint16_t n)
{
	return stuck && arg == port0 ? 0 : __real_sim_link_dev()->tx(arg, m, n);
}

/** As the linker arranges: the rig's ports are these. */
const struct weft_netif_dev *
__wrap_sim_link_dev(void)
{
	dev = *__real_sim_link_dev();
	dev.tx = dev_tx;
	return &dev;
}

static bool fin_seen;

static void
on_frame(void *arg, unsigned int from, bool delivered, const uint8_t *f, uint32_t len,
         uint64_t now_ns)
{
	(void)arg;
	(void)now_ns;
	/* IPv4 without options, TCP, and its flag FIN */
	if (!delivered && from == 1 && len >= 54 && f[12] == 8 && f[13] == 0 && f[23] == 6 &&
	    (f[47] & 1) != 0)
		fin_seen = true;
}

static bool
has_fin(void *arg)
{
	(void)arg;
	return fin_seen;
}

/** Frames that node 0 answers, to fill its queue: who has 10.0.0.1, asks 10.0.0.2. */
static void
ask(struct vt *t, unsigned int n)
{
	static const uint8_t arp[] = {2,  0, 0, 0, 0, 1, 2, 0, 0, 0, 0,  2, 8, 6,
	                              0,  1, 8, 0, 6, 4, 0, 1, 2, 0, 0,  0, 0, 2,
	                              10, 0, 0, 2, 0, 0, 0, 0, 0, 0, 10, 0, 0, 1};

	for (unsigned int i = 0; i < n; i++)
		sim_link_inject(t->link, 0, arp, sizeof(arp), 0);
	vt_run(t, 1);
}

static void
test_time_wait(void)
{
	struct vt t;

	stuck = fin_seen = false;
	vt_open(&t, NULL);
	port0 = sim_link_dev_arg(t.link, 0);
	vt_connect(&t, NULL, NULL);
	vt_speak(&t);
	sim_link_tap(t.link, on_frame, NULL);
	CHECK_EQ(weft_disconnect(t.n[0].qp), 0);
	CHECK(vt_until(&t, VT_S, has_fin, NULL));
	/* The peer's FIN is on its way, and the queue of the port is full. */
	stuck = true;
	for (unsigned int i = 0; i < 2 * WEFT_NETIF_TXQ; i += 64)
		ask(&t, 64);
	vt_run(&t, 200000);
	CHECK_EQ(weft_tcp_stats(weft_engine_tcp(t.n[0].w))->time_wait_now, 1);
	(void)alarm(60); /* it was for ever */
	weft_ctx_destroy(t.n[0].ctx);
	(void)alarm(0);
	weft_ctx_destroy(t.n[1].ctx);
	sim_destroy(t.sim);
	CHECK_EQ(rte_mempool_avail_count(t.pool), t.pool_avail);
}

WEFT_TEST_MAIN({"a connection in TIME-WAIT waits for room", test_time_wait})
