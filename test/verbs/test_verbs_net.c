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

/* ---- Several networks and VLANs on one port ---- */

/* An address of a node, as text with %u for the node. */
static struct sockaddr_storage
at(const char *text, unsigned int node, socklen_t *len)
{
	struct sockaddr_storage ss = {0};
	char buf[64], *zone;

	snprintf(buf, sizeof(buf), text, node + 1);
	zone = strchr(buf, '%');
	if (zone != NULL)
		*zone++ = '\0';
	if (inet_pton(AF_INET, buf, &((struct sockaddr_in *)&ss)->sin_addr) == 1) {
		ss.ss_family = AF_INET;
		((struct sockaddr_in *)&ss)->sin_port = htons(VT_PORT);
		*len = sizeof(struct sockaddr_in);
		return ss;
	}
	CHECK_EQ(inet_pton(AF_INET6, buf, &((struct sockaddr_in6 *)&ss)->sin6_addr), 1);
	ss.ss_family = AF_INET6;
	((struct sockaddr_in6 *)&ss)->sin6_port = htons(VT_PORT);
	if (zone != NULL)
		((struct sockaddr_in6 *)&ss)->sin6_scope_id = (uint32_t)atoi(zone);
	*len = sizeof(struct sockaddr_in6);
	return ss;
}

#define LOCAL "fe80::ff:fe00:%u"

/* The addresses of a node: those of vt_open(), and two VLANs. */
static const char *const several[] = {"10.0.0.%u", "fd00:7::%u",  LOCAL,
                                      "10.7.0.%u", "fd00:77::%u", LOCAL "%%7",
                                      "10.9.0.%u", "fd00:99::%u", LOCAL "%%9"};
#define SEVERAL (sizeof(several) / sizeof(several[0]))

static struct vt_attr
several_attr(uint64_t seed)
{
	struct vt_attr a = {.seed = seed, .nnets = 4};
	static const struct {
		const char *text;
		uint8_t prefix_len;
		uint16_t vlan_id;
	} rows[] = {{"10.7.0.%u", 24, 7},
	            {"fd00:77::%u", 64, 7},
	            {"10.9.0.%u", 24, 9},
	            {"fd00:99::%u", 64, 9}};

	for (unsigned int n = 0; n < 2; n++)
		for (unsigned int i = 0; i < a.nnets; i++) {
			socklen_t len;
			struct sockaddr_storage ss = at(rows[i].text, n, &len);
			uint16_t unused;

			CHECK_EQ(weft_ip_from_sockaddr((struct sockaddr *)&ss, &a.nets[n][i].addr,
			                               &unused),
			         0);
			a.nets[n][i].prefix_len = rows[i].prefix_len;
			a.nets[n][i].vlan_id = rows[i].vlan_id;
		}
	return a;
}

/* The tag of the last TCP segment on the link. */
static int last_vlan;

static void
see_vlan(void *arg, unsigned int from, bool delivered, const uint8_t *frame, uint32_t len,
         uint64_t now_ns)
{
	const bool tagged = weft_get_be16(frame + 12) == 0x8100;
	const uint8_t *ip = frame + (tagged ? 18 : 14);

	(void)arg;
	(void)from;
	(void)delivered;
	(void)now_ns;
	if (len > 60 && (ip[0] >> 4 == 4 ? ip[9] : ip[0] >> 4 == 6 ? ip[6] : 0) == IPPROTO_TCP)
		last_vlan = tagged ? weft_get_be16(frame + 14) : 0;
}

/* Try to connect new QPs of node 0 and node 1. Returns 0 or the status of the failure. */
static int
try_connect(struct vt *t, const char *to, const char *from)
{
	struct weft_conn_attr ca = {.size = sizeof(ca), .timeout_us = 3000000};
	struct weft_qp_attr qa[2] = {vt_qp_attr(&t->n[0]), vt_qp_attr(&t->n[1])};
	struct sockaddr_storage ss;
	struct weft_qp_info info;
	struct weft_event ev;
	socklen_t len;
	int rc;

	for (unsigned int i = 0; i < 2; i++)
		CHECK_EQ(weft_qp_create(t->n[i].pd, &qa[i], &t->n[i].qp), 0);
	if (from != NULL)
		ca.local = at(from, 0, &len);
	ss = at(to, 1, &len);
	rc = weft_connect(t->n[0].qp, (struct sockaddr *)&ss, len, &ca);
	while (rc == 0) {
		vt_run(t, 10 * VT_MS);
		if (weft_evq_poll(t->n[0].evq, &ev) == 1) {
			CHECK_EQ(ev.type, WEFT_EV_CONNECT_ERROR);
			rc = ev.status;
		} else if (weft_evq_poll(t->n[1].evq, &ev) == 1) {
			CHECK_EQ(ev.type, WEFT_EV_CONNECT_REQUEST);
			CHECK_EQ(weft_accept(ev.connreq, t->n[1].qp, NULL), 0);
			vt_ev(&t->n[1], WEFT_EV_ESTABLISHED);
			weft_qp_query(t->n[1].qp, &info);
			CHECK_MEM(&ev.local, &info.local, sizeof(ev.local));
			CHECK_EQ(ev.local.ss_family, ss.ss_family);
			vt_ev(&t->n[0], WEFT_EV_ESTABLISHED);
			return 0;
		}
	}
	for (unsigned int i = 0; i < 2; i++) {
		weft_qp_destroy(t->n[i].qp);
		t->n[i].qp = NULL;
	}
	return rc;
}

static void
listen_at(struct vt *t, const char *text, uint8_t prefix_len, struct weft_listener **l, int want)
{
	struct weft_listen_attr la = {
	        .size = sizeof(la), .evq = t->n[1].evq, .user = &t->n[1], .prefix_len = prefix_len};
	socklen_t len;
	struct sockaddr_storage ss = at(text, 1, &len);

	CHECK_EQ(weft_listen(t->n[1].ctx, (struct sockaddr *)&ss, len, &la, l), want);
}

/* Two nodes with three networks of each family: each address is reached on its VLAN, from the
 * address beside it, and carries data. */
static void
test_several(void)
{
	for (unsigned int i = 0; i < SEVERAL; i++) {
		struct vt_attr a = several_attr(test_seed(71 + i));
		static const int vlans[SEVERAL] = {0, 0, 0, 7, 7, 7, 9, 9, 9};
		struct sockaddr_storage local, remote;
		struct weft_qp_info info;
		socklen_t len;
		struct vt t;

		a.link.loss_ppm = i % 2 != 0 ? 5000 : 0;
		vt_open(&t, &a);
		sim_link_tap(t.link, see_vlan, NULL);
		vt_mem(&t.n[0], LEN, RIGHTS);
		vt_mem(&t.n[1], LEN, RIGHTS);
		listen_at(&t, "0.0.0.0", 0, &t.n[1].lsn, 0);
		CHECK_EQ(try_connect(&t, several[i], NULL), 0);
		weft_qp_query(t.n[0].qp, &info);
		local = at(several[i], 0, &len);
		remote = at(several[i], 1, &len);
		CHECK_MEM(&info.remote, &remote, len);
		((struct sockaddr_in *)&local)->sin_port =
		        ((struct sockaddr_in *)&info.local)->sin_port;
		CHECK_MEM(&info.local, &local, len);
		write_read(&t);
		CHECK_EQ(last_vlan, vlans[i]);
		vt_close(&t);
	}
}

/* A listener of an address or of a network takes connections to these addresses alone. */
static void
test_listen_net(void)
{
	static const struct {
		const char *at;
		uint8_t prefix_len;
		const char *open; /* numbers of `several` */
	} rows[] = {
	        {"10.7.0.2", 0, "3"},     {"10.7.0.0", 24, "3"},       {"10.0.0.0", 8, "036"},
	        {"10.8.0.0", 15, "6"},    {"fd00:77::", 64, "4"},      {"fd00::", 16, "147"},
	        {"fd00:99::2", 0, "7"},   {"fd00::", 25, "14"},        {"10.7.0.2", 32, "3"},
	        {LOCAL "%%7", 0, "5"},    {"0.0.0.0", 0, "012345678"}, {"::", 0, "012345678"},
	        {"fd00:99::2", 128, "7"},
	};

	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct vt_attr a = several_attr(test_seed(91 + i));
		struct vt t;

		vt_open(&t, &a);
		listen_at(&t, rows[i].at, rows[i].prefix_len, &t.n[1].lsn, 0);
		for (unsigned int k = 0; k < SEVERAL; k++) {
			bool open = strchr(rows[i].open, (char)('0' + k)) != NULL;
			int rc = try_connect(&t, several[k], NULL);

			CHECK_MSG(rc == (open ? 0 : -ECONNREFUSED), "row %u, %s: %d", i, several[k],
			          rc);
			if (rc != 0)
				continue;
			for (unsigned int n = 0; n < 2; n++) {
				weft_qp_destroy(t.n[n].qp);
				t.n[n].qp = NULL;
			}
			vt_run(&t, 100 * VT_MS);
			while (weft_evq_poll(t.n[0].evq, &(struct weft_event){0}) == 1 ||
			       weft_evq_poll(t.n[1].evq, &(struct weft_event){0}) == 1)
				;
		}
		vt_close(&t);
	}
}

/* Listeners of one port that overlap, and prefixes that make no sense, are refused. */
static void
test_listen_overlap(void)
{
	struct vt_attr a = several_attr(test_seed(3));
	struct weft_listener *l[3], *none;
	struct vt t;

	vt_open(&t, &a);
	listen_at(&t, "10.7.0.0", 24, &l[0], 0);
	listen_at(&t, "10.9.0.2", 0, &l[1], 0);
	listen_at(&t, "fd00::", 16, &l[2], 0);
	listen_at(&t, "10.7.0.2", 0, &none, -EADDRINUSE);
	listen_at(&t, "10.0.0.0", 8, &none, -EADDRINUSE);
	listen_at(&t, "10.7.0.0", 24, &none, -EADDRINUSE);
	listen_at(&t, "fd00:77::2", 0, &none, -EADDRINUSE);
	listen_at(&t, "0.0.0.0", 0, &none, -EADDRINUSE);
	listen_at(&t, "::", 0, &none, -EADDRINUSE);
	listen_at(&t, "10.77.0.0", 16, &none, -EADDRNOTAVAIL);
	listen_at(&t, "10.9.0.1", 0, &none, -EADDRNOTAVAIL);
	listen_at(&t, LOCAL "%%8", 0, &none, -EADDRNOTAVAIL);
	listen_at(&t, "10.9.0.2", 24, &none, -EINVAL); /* bits behind the prefix */
	listen_at(&t, "10.9.0.0", 33, &none, -EINVAL);
	listen_at(&t, "fd00:1::", 129, &none, -EINVAL);
	listen_at(&t, "0.0.0.0", 8, &none, -EINVAL);
	for (unsigned int i = 0; i < 3; i++)
		weft_unlisten(l[i]);
	listen_at(&t, "0.0.0.0", 0, &t.n[1].lsn, 0);
	vt_close(&t);
}

/* The caller may choose the source. A source keeps to its VLAN. */
static void
test_source(void)
{
	static const struct {
		const char *to, *from;
		int rc;
	} rows[] = {
	        {"10.7.0.%u", "10.7.0.%u", 0},
	        {"fd00:99::%u", "fd00:99::%u", 0},
	        {LOCAL "%%7", "fd00:77::%u", 0},
	        {LOCAL "%%7", LOCAL "%%7", 0},
	        {"10.7.0.%u", "10.9.0.%u", -ENETUNREACH},
	        {LOCAL "%%7", "fd00:99::%u", -ENETUNREACH},
	        {LOCAL "%%7", LOCAL "%%9", -ENETUNREACH},
	        {LOCAL "%%8", NULL, -ENETUNREACH},
	        {"10.7.0.%u", "10.7.0.9", -EADDRNOTAVAIL},
	        {"10.7.0.%u", "fd00:77::%u", -EINVAL},
	};
	struct vt_attr a = several_attr(test_seed(4));
	struct weft_qp_info info;
	struct vt t;

	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct sockaddr_storage local;
		socklen_t len;

		vt_open(&t, &a);
		listen_at(&t, "0.0.0.0", 0, &t.n[1].lsn, 0);
		CHECK_MSG(try_connect(&t, rows[i].to, rows[i].from) == rows[i].rc, "row %u", i);
		if (rows[i].rc == 0) {
			weft_qp_query(t.n[0].qp, &info);
			local = at(rows[i].from, 0, &len);
			((struct sockaddr_in *)&local)->sin_port =
			        ((struct sockaddr_in *)&info.local)->sin_port;
			CHECK_MEM(&info.local, &local, len);
		}
		vt_close(&t);
	}
}

#define SOURCE_PORT 700

/** Connect a new QP of node 0 from SOURCE_PORT. */
static int
connect_from_port(struct vt *t, struct weft_qp **qp, bool wish)
{
	struct weft_conn_attr ca = {
	        .size = sizeof(ca), .local_port = SOURCE_PORT, .local_port_wish = wish};
	struct weft_qp_attr qa = vt_qp_attr(&t->n[0]);
	struct sockaddr_in to = vt_addr(1, VT_PORT);

	CHECK_EQ(weft_qp_create(t->n[0].pd, &qa, qp), 0);
	return weft_connect(*qp, (struct sockaddr *)&to, sizeof(to), &ca);
}

/** Accept it. Returns the port that the responder sees. */
static uint16_t
accept_port(struct vt *t, struct weft_qp *initiator, struct weft_qp **qp)
{
	struct weft_qp_attr qa = vt_qp_attr(&t->n[1]);
	struct weft_event ev = vt_ev(&t->n[1], WEFT_EV_CONNECT_REQUEST);
	struct sockaddr_in from, own = vt_addr(0, 0);
	struct weft_qp_info info;

	memcpy(&from, &ev.remote, sizeof(from));
	CHECK_EQ(weft_qp_create(t->n[1].pd, &qa, qp), 0);
	CHECK_EQ(weft_accept(ev.connreq, *qp, NULL), 0);
	vt_ev(&t->n[1], WEFT_EV_ESTABLISHED);
	vt_ev(&t->n[0], WEFT_EV_ESTABLISHED);
	weft_qp_query(initiator, &info);
	own.sin_port = from.sin_port;
	CHECK_MEM(&info.local, &own, sizeof(own));
	return ntohs(from.sin_port);
}

/* The two ends of one connection are used once. One that names its port is refused; one that only
 * wishes it gets another one. */
static void
test_source_port(void)
{
	struct vt_attr a = {.seed = test_seed(97)};
	struct weft_qp *qp[3] = {NULL}, *acc[3] = {NULL};
	struct vt t;

	vt_open(&t, &a);
	vt_listen(&t.n[1]);
	CHECK_EQ(connect_from_port(&t, &qp[0], false), 0);
	CHECK_EQ(accept_port(&t, qp[0], &acc[0]), SOURCE_PORT);
	CHECK_EQ(connect_from_port(&t, &qp[1], false), -EADDRINUSE);
	CHECK_EQ(connect_from_port(&t, &qp[2], true), 0);
	CHECK(accept_port(&t, qp[2], &acc[2]) >= 49152);
	for (unsigned int i = 0; i < 3; i++) {
		weft_qp_destroy(qp[i]);
		if (acc[i] != NULL)
			weft_qp_destroy(acc[i]);
	}
	vt_run(&t, 10 * VT_MS);
	/* Both were reset, so the port is free again. */
	CHECK_EQ(connect_from_port(&t, &qp[0], true), 0);
	CHECK_EQ(accept_port(&t, qp[0], &acc[0]), SOURCE_PORT);
	weft_qp_destroy(qp[0]);
	weft_qp_destroy(acc[0]);
	vt_close(&t);
}

WEFT_TEST_MAIN({"families", test_families}, {"lossy", test_lossy}, {"listen", test_listen},
               {"vlans_apart", test_vlans_apart}, {"interfaces", test_interfaces},
               {"each of several networks carries connections on its VLAN", test_several},
               {"a listener of a network takes connections to its addresses alone",
                test_listen_net},
               {"listeners that overlap are refused", test_listen_overlap},
               {"the caller chooses the source", test_source},
               {"the caller chooses the source port", test_source_port})
