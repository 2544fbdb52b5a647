/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VT_RAW_H
#define VT_RAW_H

/** @file TCP connections from node 0 to node 1's listener that send only what the test asks for. */

#include "vt.h"

/** One such connection. */
struct raw_conn {
	struct weft_tcp_conn *conn;
	unsigned int up, closed;
};

static inline void
raw_up(void *user)
{
	((struct raw_conn *)user)->up++;
}

static inline void
raw_rx(void *user, struct rte_mbuf *m, uint64_t now_ns)
{
	(void)user;
	(void)now_ns;
	rte_pktmbuf_free(m);
}

static inline void
raw_nothing(void *user)
{
	(void)user;
}

static inline void
raw_mss(void *user, uint16_t mss_bytes)
{
	(void)user;
	(void)mss_bytes;
}

static inline void
raw_closed(void *user, int err)
{
	struct raw_conn *h = user;

	(void)err;
	h->conn = NULL;
	h->closed++;
}

static const struct weft_tcp_conn_ops raw_ops = {
        .established = raw_up,
        .rx = raw_rx,
        .writable = raw_nothing,
        .mss = raw_mss,
        .eof = raw_nothing,
        .closed = raw_closed,
};

/** Open n connections from node 0 to node 1's address of that family. The handshakes are complete
 * on return. */
static inline void
raw_connect(struct vt *t, enum vt_family family, struct raw_conn *h, unsigned int n)
{
	socklen_t len;
	struct sockaddr_storage sa = vt_addr_of(family, 1, VT_PORT, &len);
	struct weft_ip dst;
	uint16_t port;

	CHECK_EQ(weft_ip_from_sockaddr((struct sockaddr *)&sa, &dst, &port), 0);
	for (unsigned int i = 0; i < n; i++) {
		CHECK_EQ(weft_tcp_connect(weft_engine_tcp(t->n[0].w),
		                          weft_engine_netif(t->n[0].w, 0), NULL, &dst, VT_PORT,
		                          &raw_ops, &h[i], &h[i].conn),
		         0);
	}
	vt_run(t, 100 * VT_MS);
}

static inline unsigned int
raw_alive(const struct raw_conn *h, unsigned int n)
{
	unsigned int a = 0;

	for (unsigned int i = 0; i < n; i++)
		a += h[i].conn != NULL;
	return a;
}

/** Send len octets on a connection. */
static inline void
raw_send(struct vt *t, struct raw_conn *h, const void *buf, uint16_t len)
{
	struct rte_mbuf *m;
	char *p;

	CHECK(h->conn != NULL);
	m = weft_tcp_alloc(h->conn);
	CHECK(m != NULL);
	p = rte_pktmbuf_append(m, len);
	CHECK(p != NULL);
	memcpy(p, buf, len);
	CHECK_EQ(weft_tcp_send(h->conn, m, true, sim_now_ns(t->sim)), 0);
}

#endif /* VT_RAW_H */
