/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The verbs over IPv4 and IPv6, with global and link-local addresses, with and without a
 * VLAN. */

#include <arpa/inet.h>

#include "vt.h"
#include "weft_netif_attr.h"
#include "weft_netif_stats.h"

#define RIGHTS (WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_REMOTE_READ | WEFT_ACCESS_REMOTE_WRITE)
#define LEN    (256 * 1024)

static const struct {
	enum vt_family family;
	uint16_t vlan_id, mtu_bytes;
} nets[] = {
        {VT_V4, 0, 1500}, {VT_V6, 0, 1500},       {VT_V6_LL, 0, 1500}, {VT_V4, 7, 1500},
        {VT_V6, 7, 1500}, {VT_V6_LL, 4094, 1500}, {VT_V6, 0, 1280},    {VT_V6, 7, 9000},
};

/* One Write and one Read of 128 KiB each. Their data is compared. */
static void
write_read(struct vt *t)
{
	struct weft_sge sg = {.addr = t->n[0].mem, .len_bytes = LEN / 2};
	struct weft_wr wr = {.wr_id = 1,
	                     .opcode = WEFT_WR_WRITE,
	                     .flags = WEFT_WR_SIGNALED,
	                     .sg_list = &sg,
	                     .num_sge = 1,
	                     .rdma = {.stag = weft_mr_stag(t->n[1].mr), .to = 0x200000000ULL}};
	struct weft_wc wc;

	vt_fill(t->n[0].mem, LEN / 2, t->seed);
	vt_post(&t->n[0], &wr);
	wc = vt_wc(&t->n[0]);
	CHECK_EQ(wc.status, WEFT_WC_SUCCESS);
	sg = (struct weft_sge){t->n[0].mem + LEN / 2, LEN / 2, weft_mr_stag(t->n[0].mr)};
	wr.opcode = WEFT_WR_READ;
	vt_post(&t->n[0], &wr);
	wc = vt_wc(&t->n[0]);
	CHECK_EQ(wc.status, WEFT_WC_SUCCESS);
	CHECK_MEM(t->n[0].mem, t->n[1].mem, LEN / 2);
	CHECK_MEM(t->n[0].mem, t->n[0].mem + LEN / 2, LEN / 2);
}

static void
run(unsigned int i, uint64_t seed, uint32_t loss)
{
	struct vt_attr a = {.seed = seed,
	                    .family = nets[i].family,
	                    .vlan_id = {nets[i].vlan_id, nets[i].vlan_id},
	                    .mtu_bytes = nets[i].mtu_bytes};
	struct weft_qp_info info;
	const struct weft_netif_stats *ns;
	struct sockaddr_storage remote;
	socklen_t len;
	struct vt t;

	a.link.loss_ppm = loss;
	vt_open(&t, &a);
	vt_mem(&t.n[0], LEN, RIGHTS);
	vt_mem(&t.n[1], LEN, RIGHTS);
	vt_connect(&t, NULL, NULL);
	weft_qp_query(t.n[0].qp, &info);
	remote = vt_addr_of(nets[i].family, 1, VT_PORT, &len);
	CHECK_EQ(info.remote.ss_family, remote.ss_family);
	CHECK_MEM(&info.remote, &remote, len);
	write_read(&t);
	for (unsigned int k = 0; k < 2; k++) {
		ns = weft_netif_stats(weft_engine_netif(t.n[k].w, 0));
		CHECK_EQ(ns->rx_bad_ip + ns->rx_bad_tcp_cksum + ns->rx_vlan + ns->nd_bad +
		                 ns->rx_bad_ether,
		         0);
	}
	vt_close(&t);
}

static void
test_families(void)
{
	for (unsigned int i = 0; i < sizeof(nets) / sizeof(nets[0]); i++)
		run(i, test_seed(11 + i), 0);
}

static void
test_lossy(void)
{
	for (unsigned int i = 0; i < sizeof(nets) / sizeof(nets[0]); i++)
		run(i, test_seed(31 + i), 20000);
}

/* A listener on the unspecified address accepts both families. A listener on an address accepts
 * only connections to it. */
static void
test_listen(void)
{
	static const enum vt_family families[] = {VT_V4, VT_V6, VT_V6_LL};
	struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_port = htons(VT_PORT)};
	struct weft_conn_attr ca = {.size = sizeof(ca), .timeout_us = 5000000};

	for (unsigned int bound = 0; bound < 4; bound++)
		for (unsigned int i = 0; i < 3; i++) {
			struct weft_listen_attr la = {.size = sizeof(la)};
			struct weft_qp_attr qa[2];
			struct sockaddr_storage at, to;
			struct weft_event ev;
			socklen_t len;
			struct vt t;

			vt_open(&t, NULL);
			la.evq = t.n[1].evq;
			la.user = &t.n[1];
			at = vt_addr_of(families[bound % 3], 1, VT_PORT, &len);
			CHECK_EQ(weft_listen(t.n[1].ctx,
			                     bound == 3 ? (struct sockaddr *)&any
			                                : (struct sockaddr *)&at,
			                     bound == 3 ? sizeof(any) : len, &la, &t.n[1].lsn),
			         0);
			qa[0] = vt_qp_attr(&t.n[0]);
			qa[1] = vt_qp_attr(&t.n[1]);
			CHECK_EQ(weft_qp_create(t.n[0].pd, &qa[0], &t.n[0].qp), 0);
			CHECK_EQ(weft_qp_create(t.n[1].pd, &qa[1], &t.n[1].qp), 0);
			to = vt_addr_of(families[i], 1, VT_PORT, &len);
			CHECK_EQ(weft_connect(t.n[0].qp, (struct sockaddr *)&to, len, &ca), 0);
			if (bound == 3 || bound == i) {
				ev = vt_ev(&t.n[1], WEFT_EV_CONNECT_REQUEST);
				CHECK_EQ(weft_accept(ev.connreq, t.n[1].qp, NULL), 0);
				vt_ev(&t.n[1], WEFT_EV_ESTABLISHED);
				vt_ev(&t.n[0], WEFT_EV_ESTABLISHED);
			} else {
				ev = vt_ev(&t.n[0], WEFT_EV_CONNECT_ERROR);
				CHECK_EQ(ev.status, -ECONNREFUSED);
			}
			vt_close(&t);
		}
}

/* Nodes in different VLANs do not reach each other. */
static void
test_vlans_apart(void)
{
	struct vt_attr a = {.family = VT_V6, .vlan_id = {7, 8}};
	struct weft_conn_attr ca = {.size = sizeof(ca), .timeout_us = 3000000};
	struct weft_qp_attr qa;
	struct sockaddr_storage to;
	struct weft_event ev;
	socklen_t len;
	struct vt t;

	vt_open(&t, &a);
	vt_listen(&t.n[1]);
	qa = vt_qp_attr(&t.n[0]);
	CHECK_EQ(weft_qp_create(t.n[0].pd, &qa, &t.n[0].qp), 0);
	to = vt_addr_of(VT_V6, 1, VT_PORT, &len);
	CHECK_EQ(weft_connect(t.n[0].qp, (struct sockaddr *)&to, len, &ca), 0);
	ev = vt_ev(&t.n[0], WEFT_EV_CONNECT_ERROR);
	CHECK_EQ(ev.status, -ETIMEDOUT);
	CHECK(weft_netif_stats(weft_engine_netif(t.n[1].w, 0))->rx_vlan > 0);
	vt_close(&t);
}

static struct weft_netif *
add_netif(struct vt *t, unsigned int i, uint32_t addr, uint32_t gateway)
{
	const struct sim_link_cfg cfg = {.delay_ns = 20000};
	struct sim_link *link = sim_link_create(t->sim, (struct sim_link_cfg[2]){cfg, cfg});
	struct weft_netif_attr na = {.dev = sim_link_dev(),
	                             .dev_arg = sim_link_dev_arg(link, 0),
	                             .pool = t->pool,
	                             .mac = {{2, 0, 0, 0, 9, (uint8_t)i}},
	                             .addr = weft_ip_from_v4(htonl(addr)),
	                             .prefix_len = 24,
	                             .mtu_bytes = 1500};

	if (gateway != 0)
		na.gateway = weft_ip_from_v4(htonl(gateway));
	CHECK_EQ(weft_engine_add_netif(t->n[0].w, &na), 0);
	return weft_engine_netif(t->n[0].w, i);
}

/* A connection leaves by the interface whose network contains the peer, even if an interface with a
 * gateway was added first. Without such an interface it leaves by the gateway. */
static void
test_interfaces(void)
{
	static const struct {
		uint32_t to;
		unsigned int by;
	} row[] = {{0x0a000002, 0}, {0x0a080005, 2}, {0xc0000201, 1}, {0x0a090005, 1}};
	struct sockaddr_in to = vt_addr(1, VT_PORT);
	struct weft_netif *nif[3];
	struct weft_qp_attr a;
	struct weft_qp *qp;
	struct vt t;

	vt_open(&t, NULL);
	nif[0] = weft_engine_netif(t.n[0].w, 0);
	a = vt_qp_attr(&t.n[0]);
	to.sin_addr.s_addr = htonl(row[2].to);
	CHECK_EQ(weft_qp_create(t.n[0].pd, &a, &qp), 0);
	CHECK_EQ(weft_connect(qp, (struct sockaddr *)&to, sizeof(to), NULL), -ENETUNREACH);
	weft_qp_destroy(qp);
	nif[1] = add_netif(&t, 1, 0x0a090001, 0x0a0900fe);
	nif[2] = add_netif(&t, 2, 0x0a080001, 0);
	vt_run(&t, VT_S);
	for (unsigned int i = 0; i < RTE_DIM(row); i++) {
		uint64_t before[3];

		for (unsigned int k = 0; k < 3; k++)
			before[k] = weft_netif_stats(nif[k])->arp_tx +
			            weft_netif_stats(nif[k])->tx_packets;
		to.sin_addr.s_addr = htonl(row[i].to);
		CHECK_EQ(weft_qp_create(t.n[0].pd, &a, &qp), 0);
		CHECK_EQ(weft_connect(qp, (struct sockaddr *)&to, sizeof(to), NULL), 0);
		vt_run(&t, VT_MS);
		for (unsigned int k = 0; k < 3; k++)
			CHECK_MSG((weft_netif_stats(nif[k])->arp_tx +
			                   weft_netif_stats(nif[k])->tx_packets >
			           before[k]) == (k == row[i].by),
			          "row %u, interface %u", i, k);
		weft_qp_destroy(qp);
		vt_run(&t, 10 * VT_S);
	}
	vt_close(&t);
}

WEFT_TEST_MAIN({"families", test_families}, {"lossy", test_lossy}, {"listen", test_listen},
               {"vlans_apart", test_vlans_apart}, {"interfaces", test_interfaces})
