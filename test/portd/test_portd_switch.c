/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Where weft-portd's switch sends frames of the wire and of processes. */

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>

#include <rte_ip.h>
#include <rte_mbuf.h>

#include "frames.h"
#include "portd_switch.h"
#include "weft_test.h"
#include <weft/byteorder.h>

#define MTU 1500

/* Process 0 has 7174, process 1 has 18515; both have a block. */
#define PORT0 7174
#define PORT1 18515
#define FREE  999

static struct portd_table *table;
static struct portd_switch sw;
static struct rte_mempool *pool;
static uint16_t block0;

static void
up(uint16_t vlan_id)
{
	const struct portd_table_attr attr = {.max_claims = 8, .max_blocks = 1, .dead_ns = 1};
	uint16_t first, last;

	test_eal_init();
	if (pool == NULL)
		pool = rte_pktmbuf_pool_create("portd_test", 255, 0, 0, 2176, SOCKET_ID_ANY);
	CHECK(pool != NULL);
	portd_table_destroy(table);
	CHECK_EQ(portd_table_create(&attr, &table), 0);
	CHECK_EQ(portd_table_join(table, 0, 0, &block0, &last), 0);
	CHECK_EQ(portd_table_join(table, 1, 0, &first, &last), 0);
	CHECK_EQ(portd_table_claim(table, 0, PORT0, 0), 0);
	CHECK_EQ(portd_table_claim(table, 1, PORT1, 0), 0);
	sw = (struct portd_switch){
	        .table = table, .vlan_id = vlan_id, .mtu_bytes = MTU, .has_ipv4 = true, .nipv6 = 2};
	memcpy(sw.mac, our_mac, 6);
	memcpy(sw.ipv4, our4, 4);
	memcpy(sw.ipv6[0], our6, 16);
	memcpy(sw.ipv6[1], our_ll, 16);
}

/** In one mbuf, or in mbufs of `cut` octets. */
static struct rte_mbuf *
mbuf(const struct w *w, unsigned int cut)
{
	struct rte_mbuf *head = NULL, *tail = NULL;

	for (unsigned int at = 0; at < w->n || head == NULL; at += cut) {
		const unsigned int n = cut < w->n - at ? cut : w->n - at;
		struct rte_mbuf *m = rte_pktmbuf_alloc(pool);

		CHECK(m != NULL);
		if (n > 0)
			memcpy(rte_pktmbuf_append(m, (uint16_t)n), w->b + at, n);
		if (head == NULL) {
			head = m;
		} else {
			tail->next = m;
			head->nb_segs++;
			head->pkt_len += n;
		}
		tail = m;
	}
	return head;
}

static enum portd_to
in_cut(const struct w *w, uint32_t *proc, unsigned int cut)
{
	struct rte_mbuf *m = mbuf(w, cut);
	enum portd_to to;

	*proc = PORTD_NO_PROC;
	to = portd_switch_in(&sw, m, proc);
	rte_pktmbuf_free(m);
	return to;
}

/** The verdict for a frame of the wire: also when it lies in pieces. */
static enum portd_to
in(const struct w *w, uint32_t *proc)
{
	enum portd_to whole = in_cut(w, proc, 2048), cut;
	uint32_t other;

	cut = in_cut(w, &other, 17);
	CHECK_EQ(cut, whole);
	CHECK_EQ(other, *proc);
	return whole;
}

static enum portd_to
out_cut(const struct w *w, uint32_t from, uint32_t *proc, enum portd_why *why, unsigned int cut)
{
	struct rte_mbuf *m = mbuf(w, cut);
	enum portd_to to;

	*proc = PORTD_NO_PROC;
	*why = PORTD_WHYS;
	to = portd_switch_out(&sw, from, m, proc, why);
	rte_pktmbuf_free(m);
	return to;
}

static enum portd_to
out(const struct w *w, uint32_t from, uint32_t *proc, enum portd_why *why)
{
	enum portd_to whole = out_cut(w, from, proc, why, 2048), cut;
	enum portd_why why2;
	uint32_t other;

	cut = out_cut(w, from, &other, &why2, 17);
	CHECK_EQ(cut, whole);
	CHECK_EQ(other, *proc);
	CHECK_EQ(why2, *why);
	return whole;
}

#define DROPS(w, from, for_why)                                                                    \
	do {                                                                                       \
		uint32_t proc_;                                                                    \
		enum portd_why why_;                                                               \
		CHECK_EQ(out(w, from, &proc_, &why_), PORTD_TO_DROP);                              \
		CHECK_EQ(why_, for_why);                                                           \
	} while (0)

/* ---- From the wire ---- */

static void
test_in_tcp(void)
{
	uint32_t proc;
	struct w w;

	up(0);
	w = seg4(peer4, 50000, our4, PORT0, true);
	CHECK_EQ(in(&w, &proc), PORTD_TO_PROC);
	CHECK_EQ(proc, 0);
	w = seg4(peer4, 50000, our4, PORT1, true);
	CHECK_EQ(in(&w, &proc), PORTD_TO_PROC);
	CHECK_EQ(proc, 1);
	w = seg4(peer4, 50000, our4, (uint16_t)(block0 + 5), true);
	CHECK_EQ(in(&w, &proc), PORTD_TO_PROC);
	CHECK_EQ(proc, 0);
	/* What no process has is answered by the daemon's own TCP. */
	w = seg4(peer4, 50000, our4, FREE, true);
	CHECK_EQ(in(&w, &proc), PORTD_TO_DAEMON);
	portd_table_leave(table, 1, 0);
	w = seg4(peer4, 50000, our4, PORT1, true);
	CHECK_EQ(in(&w, &proc), PORTD_TO_DAEMON);
	/* Not for us, by any address; and one that says that it comes from us. */
	w = seg4(peer4, 50000, peer4, PORT0, true);
	CHECK_EQ(in(&w, &proc), PORTD_TO_DAEMON);
	w = seg4(our4, 50000, our4, PORT0, true);
	CHECK_EQ(in(&w, &proc), PORTD_TO_DAEMON);
	w = seg4(peer4, 50000, our4, PORT0, false);
	CHECK_EQ(in(&w, &proc), PORTD_TO_DAEMON);
}

static void
test_in_ip6(void)
{
	static const uint8_t options[8] = {IPPROTO_TCP, 0, 1, 4};
	uint32_t proc;
	struct w w;

	up(0);
	for (unsigned int i = 0; i < 2; i++) {
		ether(&w, our_mac, peer_mac, 0, 0x86dd);
		ip6(&w, peer6, i == 0 ? our6 : our_ll, IPPROTO_TCP, 20);
		tcp(&w, 50000, PORT1, 0x10, 0);
		CHECK_EQ(in(&w, &proc), PORTD_TO_PROC);
		CHECK_EQ(proc, 1);
	}
	/* Behind destination options. */
	ether(&w, our_mac, peer_mac, 0, 0x86dd);
	ip6(&w, peer6, our6, IPPROTO_DSTOPTS, 28);
	put(&w, options, sizeof(options));
	tcp(&w, 50000, PORT1, 0x10, 0);
	CHECK_EQ(in(&w, &proc), PORTD_TO_PROC);
	CHECK_EQ(proc, 1);
	ether(&w, our_mac, peer_mac, 0, 0x86dd);
	ip6(&w, peer6, peer6, IPPROTO_TCP, 20);
	tcp(&w, 50000, PORT1, 0x10, 0);
	CHECK_EQ(in(&w, &proc), PORTD_TO_DAEMON);
}

static void
test_in_vlan(void)
{
	uint32_t proc;
	struct w w;

	up(7);
	for (uint16_t id = 0; id <= 14; id += 7) {
		ether(&w, our_mac, peer_mac, id, 0x0800);
		ip4(&w, peer4, our4, IPPROTO_TCP, 20);
		tcp(&w, 50000, PORT0, 0x10, 0);
		CHECK_EQ(in(&w, &proc), id == 7 ? PORTD_TO_PROC : PORTD_TO_DAEMON);
	}
}

/** Fragments carry no port, or only the first does: the stack drops them, and counts. */
static void
test_in_fragments(void)
{
	uint32_t proc;
	struct w w;

	up(0);
	w = seg4(peer4, 50000, our4, PORT0, true);
	weft_put_be16(w.b + w.l3 + 6, 0x2000);
	CHECK_EQ(in(&w, &proc), PORTD_TO_DAEMON);
	weft_put_be16(w.b + w.l3 + 6, 0x0010);
	CHECK_EQ(in(&w, &proc), PORTD_TO_DAEMON);
}

static void
icmp4(struct w *w, uint8_t type, const uint8_t *src, uint16_t sport)
{
	uint8_t h[8] = {type, 4};

	ether(w, our_mac, peer_mac, 0, 0x0800);
	ip4(w, peer4, our4, IPPROTO_ICMP, 8 + 28);
	put(w, h, sizeof(h));
	ip4(w, src, peer4, IPPROTO_TCP, 20);
	tcp(w, sport, 50000, 0x10, 0);
}

static void
test_in_icmp(void)
{
	static const uint8_t too_big[8] = {2};
	uint32_t proc;
	struct w w;

	up(0);
	icmp4(&w, 3, our4, PORT1);
	CHECK_EQ(in(&w, &proc), PORTD_TO_PROC);
	CHECK_EQ(proc, 1);
	icmp4(&w, 3, our4, FREE);
	CHECK_EQ(in(&w, &proc), PORTD_TO_DAEMON);
	icmp4(&w, 3, peer4, PORT1); /* it quotes what we did not send */
	CHECK_EQ(in(&w, &proc), PORTD_TO_DAEMON);
	icmp4(&w, 8, our4, PORT1); /* an echo request */
	CHECK_EQ(in(&w, &proc), PORTD_TO_DAEMON);
	icmp4(&w, 3, our4, PORT1);
	w.n = w.l3 + 20 + 8 + 22; /* the quoted ports are cut off */
	CHECK_EQ(in(&w, &proc), PORTD_TO_DAEMON);

	ether(&w, our_mac, peer_mac, 0, 0x86dd);
	ip6(&w, peer6, our6, IPPROTO_ICMPV6, 8 + 60);
	put(&w, too_big, sizeof(too_big));
	ip6(&w, our6, peer6, IPPROTO_TCP, 20);
	tcp(&w, PORT0, 50000, 0x10, 0);
	CHECK_EQ(in(&w, &proc), PORTD_TO_PROC);
	CHECK_EQ(proc, 0);
}

static void
test_in_neighbours(void)
{
	uint32_t proc;
	struct w w;

	up(0);
	arp(&w, our_mac, peer_mac, 2, peer4, our4); /* a reply: every process learns */
	CHECK_EQ(in(&w, &proc), PORTD_TO_ALL);
	arp(&w, all_mac, peer_mac, 1, peer4, our4); /* a question teaches as well */
	CHECK_EQ(in(&w, &proc), PORTD_TO_ALL);
	arp(&w, all_mac, peer_mac, 1, zero4, our4); /* a probe (RFC 5227) */
	CHECK_EQ(in(&w, &proc), PORTD_TO_DAEMON);
	arp(&w, all_mac, peer_mac, 1, our4, our4); /* a conflict */
	CHECK_EQ(in(&w, &proc), PORTD_TO_DAEMON);
	arp(&w, all_mac, peer_mac, 1, peer4, peer4); /* RFC 5227 s2.3: a peer announces itself */
	CHECK_EQ(in(&w, &proc), PORTD_TO_ALL);
	arp(&w, all_mac, peer_mac, 2, peer4, peer4); /* the same as a reply */
	CHECK_EQ(in(&w, &proc), PORTD_TO_ALL);
	arp(&w, all_mac, peer_mac, 1, peer4, other4); /* about others */
	CHECK_EQ(in(&w, &proc), PORTD_TO_DAEMON);
	w.n = w.l3 + 20;
	CHECK_EQ(in(&w, &proc), PORTD_TO_DAEMON);

	nd(&w, our_mac, peer_mac, 136, peer6, our6, peer6);
	CHECK_EQ(in(&w, &proc), PORTD_TO_ALL);
	nd(&w, our_mac, peer_mac, 136, peer6, our6, our6); /* another station has our address */
	CHECK_EQ(in(&w, &proc), PORTD_TO_DAEMON);
	nd(&w, our_mac, peer_mac, 135, peer6, our6, our6);
	CHECK_EQ(in(&w, &proc), PORTD_TO_ALL);
	nd(&w, our_mac, peer_mac, 135, zero6, our6, our6); /* RFC 4862: it tests our address */
	CHECK_EQ(in(&w, &proc), PORTD_TO_DAEMON);
	nd(&w, our_mac, peer_mac, 133, peer6, our6, zero6); /* Router Solicitation */
	CHECK_EQ(in(&w, &proc), PORTD_TO_DAEMON);
	nd(&w, our_mac, peer_mac, 136, peer6, our6, peer6);
	w.n = w.l3 + 40 + 20; /* the target is cut off */
	CHECK_EQ(in(&w, &proc), PORTD_TO_DAEMON);
}

/* ---- From a process ---- */

static void
test_out_wire(void)
{
	enum portd_why why;
	uint32_t proc;
	struct w w;

	up(0);
	w = seg4(our4, PORT0, peer4, 50000, false);
	CHECK_EQ(out(&w, 0, &proc, &why), PORTD_TO_WIRE);
	w = seg4(our4, (uint16_t)(block0 + 127), peer4, 50000, false);
	CHECK_EQ(out(&w, 0, &proc, &why), PORTD_TO_WIRE);
	ether(&w, peer_mac, our_mac, 0, 0x86dd);
	ip6(&w, our6, peer6, IPPROTO_TCP, 20);
	tcp(&w, PORT0, 50000, 0x10, 0);
	CHECK_EQ(out(&w, 0, &proc, &why), PORTD_TO_WIRE);
	arp(&w, all_mac, our_mac, 1, our4, peer4);
	CHECK_EQ(out(&w, 0, &proc, &why), PORTD_TO_WIRE);
	nd(&w, peer_mac, our_mac, 135, our6, peer6, peer6);
	CHECK_EQ(out(&w, 0, &proc, &why), PORTD_TO_WIRE);
}

static void
test_out_spoofed(void)
{
	struct w w;

	up(0);
	w = seg4(our4, PORT0, peer4, 50000, false);
	memcpy(w.b + 6, peer_mac, 6);
	DROPS(&w, 0, PORTD_WHY_MAC);
	w = seg4(our4, PORT0, peer4, 50000, false);
	memcpy(w.b, our_mac, 6); /* to our MAC address, and not to our address */
	DROPS(&w, 0, PORTD_WHY_MAC);
	w = seg4(our4, PORT0, peer4, 50000, false);
	memcpy(w.b, all_mac, 6);
	DROPS(&w, 0, PORTD_WHY_MAC);
	w = seg4(our4, PORT0, our4, PORT1, false); /* to our address, by another MAC address */
	DROPS(&w, 0, PORTD_WHY_MAC);
	w = seg4(peer4, PORT0, peer4, 50000, false);
	DROPS(&w, 0, PORTD_WHY_ADDR);
	w = seg4(our4, PORT1, peer4, 50000, false);
	DROPS(&w, 0, PORTD_WHY_PORT);
	w = seg4(our4, FREE, peer4, 50000, false);
	DROPS(&w, 0, PORTD_WHY_PORT);
	w = seg4(our4, PORT0, peer4, 50000, false);
	DROPS(&w, 7, PORTD_WHY_PORT); /* a process that is gone */
	w.b[w.l3 + 9] = IPPROTO_UDP;
	DROPS(&w, 0, PORTD_WHY_OTHER);
	w = seg4(our4, PORT0, peer4, 50000, false);
	weft_put_be16(w.b + w.l3 + 6, 0x2000);
	DROPS(&w, 0, PORTD_WHY_OTHER);
	w = seg4(our4, PORT0, peer4, 50000, false);
	w.n -= 1; /* less than a header of TCP */
	DROPS(&w, 0, PORTD_WHY_OTHER);
	w.n = 13;
	DROPS(&w, 0, PORTD_WHY_LENGTH);
	w = seg4(our4, PORT0, peer4, 50000, false);
	w.n = 14 + MTU + 1;
	DROPS(&w, 0, PORTD_WHY_LENGTH);
	ether(&w, peer_mac, our_mac, 7, 0x0800);
	ip4(&w, our4, peer4, IPPROTO_TCP, 20);
	tcp(&w, PORT0, 50000, 0x10, 0);
	DROPS(&w, 0, PORTD_WHY_VLAN);
	/* An ICMP error, and an echo. */
	icmp4(&w, 3, our4, PORT0);
	memcpy(w.b, peer_mac, 6);
	memcpy(w.b + 6, our_mac, 6);
	DROPS(&w, 0, PORTD_WHY_OTHER);
}

/** A Neighbor Solicitation for the peer with these octets behind it. */
static void
ask6(struct w *w, const uint8_t *options, unsigned int bytes)
{
	nd(w, peer_mac, our_mac, 135, our6, peer6, peer6);
	weft_put_be16(w->b + w->l3 + 4, (uint16_t)(24 + bytes));
	put(w, options, bytes);
}

/** RFC 4861 s4.6.1: the option says which MAC address our address has. */
static void
test_out_options(void)
{
	uint8_t option[16] = {1, 1};
	enum portd_why why;
	uint32_t proc;
	struct w w;

	up(0);
	memcpy(option + 2, our_mac, 6);
	ask6(&w, option, 0);
	CHECK_EQ(out(&w, 0, &proc, &why), PORTD_TO_WIRE);
	ask6(&w, option, 8);
	CHECK_EQ(out(&w, 0, &proc, &why), PORTD_TO_WIRE);
	for (unsigned int i = 0; i < 8; i++) {
		option[i]++; /* another option, another length, another MAC address */
		ask6(&w, option, 8);
		DROPS(&w, 0, PORTD_WHY_NEIGH);
		option[i]--;
	}
	memcpy(option + 8, option, 8);
	ask6(&w, option, 16); /* two of it: the second could be another's */
	DROPS(&w, 0, PORTD_WHY_NEIGH);
	ask6(&w, option, 8);
	weft_put_be16(w.b + w.l3 + 4, 28); /* half an option */
	DROPS(&w, 0, PORTD_WHY_NEIGH);
	ask6(&w, option, 8);
	w.n -= 1; /* its end is cut off */
	DROPS(&w, 0, PORTD_WHY_NEIGH);
	ask6(&w, option, 8);
	weft_put_be16(w.b + w.l3 + 4, 20); /* less than it has */
	DROPS(&w, 0, PORTD_WHY_NEIGH);
}

/** Only the daemon says who has the address. */
static void
test_out_neighbours(void)
{
	struct w w;

	up(0);
	arp(&w, peer_mac, our_mac, 2, our4, peer4); /* a reply */
	DROPS(&w, 0, PORTD_WHY_NEIGH);
	arp(&w, all_mac, our_mac, 1, zero4, our4); /* a probe */
	DROPS(&w, 0, PORTD_WHY_NEIGH);
	arp(&w, all_mac, our_mac, 1, our4, our4); /* an announcement */
	DROPS(&w, 0, PORTD_WHY_NEIGH);
	arp(&w, all_mac, our_mac, 1, peer4, our4); /* as another station */
	DROPS(&w, 0, PORTD_WHY_NEIGH);
	arp(&w, all_mac, our_mac, 1, our4, peer4);
	memcpy(w.b + w.l3 + 8, peer_mac, 6); /* it gives another MAC address inside */
	DROPS(&w, 0, PORTD_WHY_NEIGH);
	arp(&w, our_mac, our_mac, 1, our4, peer4);
	DROPS(&w, 0, PORTD_WHY_MAC);
	nd(&w, peer_mac, our_mac, 136, our6, peer6, our6);
	DROPS(&w, 0, PORTD_WHY_NEIGH);
	nd(&w, peer_mac, our_mac, 135, zero6, our6, our6);
	DROPS(&w, 0, PORTD_WHY_NEIGH);
	nd(&w, peer_mac, our_mac, 134, our6, peer6, zero6);
	DROPS(&w, 0, PORTD_WHY_NEIGH);
	nd(&w, peer_mac, our_mac, 135, peer6, our6, peer6);
	DROPS(&w, 0, PORTD_WHY_NEIGH);
}

static void
test_out_local(void)
{
	enum portd_why why;
	uint32_t proc;
	struct w w;

	up(0);
	w = seg4(our4, (uint16_t)(block0 + 1), our4, PORT1, false);
	memcpy(w.b, our_mac, 6);
	CHECK_EQ(out(&w, 0, &proc, &why), PORTD_TO_PROC);
	CHECK_EQ(proc, 1);
	/* A process talks to itself, too. */
	w = seg4(our4, (uint16_t)(block0 + 1), our4, PORT0, false);
	memcpy(w.b, our_mac, 6);
	CHECK_EQ(out(&w, 0, &proc, &why), PORTD_TO_PROC);
	CHECK_EQ(proc, 0);
	w = seg4(our4, (uint16_t)(block0 + 1), our4, FREE, false);
	memcpy(w.b, our_mac, 6);
	CHECK_EQ(out(&w, 0, &proc, &why), PORTD_TO_RESET);
	portd_table_leave(table, 1, 0);
	w = seg4(our4, (uint16_t)(block0 + 1), our4, PORT1, false);
	memcpy(w.b, our_mac, 6);
	CHECK_EQ(out(&w, 0, &proc, &why), PORTD_TO_RESET);
}

/* ---- Resets ---- */

static unsigned int
reset_of(const struct w *w, uint8_t *r)
{
	struct rte_mbuf *m = mbuf(w, 2048);
	unsigned int n = portd_switch_reset(m, r);

	rte_pktmbuf_free(m);
	return n;
}

static void
test_reset(void)
{
	static const struct {
		uint8_t flags;
		unsigned int data;
		uint8_t want;
		uint32_t seq, ack;
	} row[] = {
	        {0x10, 5, 0x04, 2000, 0},                    /* ACK */
	        {0x02, 0, 0x14, 0, 1001},                    /* SYN */
	        {0x12, 0, 0x04, 2000, 0},                    /* SYN and ACK */
	        {0x01, 5, 0x14, 0, 1006},                    /* FIN, without ACK */
	        {0x00, 7, 0x14, 0, 1007},                    /* data alone */
	        {0x04, 0, 0, 0, 0},       {0x14, 0, 0, 0, 0} /* RST */
	};

	up(0);
	for (unsigned int i = 0; i < sizeof(row) / sizeof(row[0]) * 2; i++) {
		const unsigned int k = i / 2, l3 = i % 2 == 0 ? 20 : 40;
		const bool v6 = i % 2 != 0;
		uint8_t r[PORTD_RESET_BYTES], *t = r + 14 + l3;
		uint16_t is, sum;
		struct w w;

		ether(&w, our_mac, our_mac, 0, v6 ? 0x86dd : 0x0800);
		if (v6)
			ip6(&w, our6, our_ll, IPPROTO_TCP, 20 + row[k].data);
		else
			ip4(&w, our4, our4, IPPROTO_TCP, 20 + row[k].data);
		tcp(&w, PORT0, FREE, row[k].flags, row[k].data);
		if (row[k].want == 0) {
			CHECK_EQ(reset_of(&w, r), 0);
			continue;
		}
		CHECK_EQ(reset_of(&w, r), 14 + l3 + 20);
		CHECK_EQ(t[13], row[k].want);
		CHECK_EQ(weft_get_be16(t), FREE);
		CHECK_EQ(weft_get_be16(t + 2), PORT0);
		CHECK_EQ(weft_get_be32(t + 4), row[k].seq);
		CHECK_EQ(weft_get_be32(t + 8), row[k].ack);
		memcpy(&is, t + 16, 2);
		memset(t + 16, 0, 2);
		if (v6) {
			CHECK(memcmp(r + 14 + 8, our_ll, 16) == 0);
			CHECK(memcmp(r + 14 + 24, our6, 16) == 0);
			sum = rte_ipv6_udptcp_cksum((void *)(r + 14), t);
		} else {
			CHECK_EQ(rte_raw_cksum(r + 14, 20), 0xffff);
			sum = rte_ipv4_udptcp_cksum((void *)(r + 14), t);
		}
		CHECK_EQ(is, sum);
	}
}

static void
test_reset_tag(void)
{
	uint8_t r[PORTD_RESET_BYTES];
	struct w w;

	up(7);
	ether(&w, our_mac, our_mac, 7, 0x86dd);
	ip6(&w, our6, our_ll, IPPROTO_TCP, 20);
	tcp(&w, PORT0, FREE, 0x10, 0);
	CHECK_EQ(reset_of(&w, r), PORTD_RESET_BYTES);
	CHECK_EQ(weft_get_be16(r + 12), 0x8100);
	CHECK_EQ(weft_get_be16(r + 14), 7);
}

/* ---- Anything ---- */

static uint64_t
draw(uint64_t *s)
{
	*s ^= *s << 13;
	*s ^= *s >> 7;
	*s ^= *s << 17;
	return *s;
}

/** Cut and changed frames have a verdict, and one of a process is never sent as another's. */
static void
test_any(void)
{
	uint64_t s = test_seed(1) * 0x9e3779b97f4a7c15ULL + 1;

	up(0);
	test_seed_note(test_seed(1));
	for (unsigned int i = 0; i < 200000; i++) {
		const uint64_t r = draw(&s);
		uint32_t proc;
		enum portd_why why;
		enum portd_to to;
		struct w w;

		switch (r % 4) {
		case 0:
			w = seg4(our4, PORT0, r & 16 ? our4 : peer4, PORT1, r & 32);
			break;
		case 1:
			ether(&w, our_mac, our_mac, 0, 0x86dd);
			ip6(&w, our6, our6, IPPROTO_TCP, 20);
			tcp(&w, PORT0, PORT1, (uint8_t)(r >> 8), 0);
			break;
		case 2:
			icmp4(&w, 3, our4, PORT0);
			break;
		default:
			nd(&w, peer_mac, our_mac, 135, our6, peer6, peer6);
			break;
		}
		for (unsigned int k = 0; k < r >> 60; k++)
			w.b[draw(&s) % w.n] = (uint8_t)draw(&s);
		if ((r >> 20) % 4 == 0)
			w.n = (unsigned int)(draw(&s) % (w.n + 1));
		(void)in(&w, &proc);
		to = out(&w, 0, &proc, &why);
		CHECK(to == PORTD_TO_WIRE || to == PORTD_TO_PROC || to == PORTD_TO_RESET ||
		      (to == PORTD_TO_DROP && why < PORTD_WHYS));
		if (to != PORTD_TO_DROP)
			CHECK(memcmp(w.b + 6, our_mac, 6) == 0);
		if (to == PORTD_TO_RESET) {
			uint8_t reset[PORTD_RESET_BYTES];

			(void)reset_of(&w, reset);
		}
	}
}

WEFT_TEST_MAIN(
        {"wire: a segment goes to the owner of its local port", test_in_tcp},
        {"wire: segments of IPv6, also behind extension headers", test_in_ip6},
        {"wire: only frames of the VLAN", test_in_vlan},
        {"wire: fragments are the daemon's", test_in_fragments},
        {"wire: an ICMP error goes to the owner of the quoted segment", test_in_icmp},
        {"wire: neighbours are every process', our addresses the daemon's", test_in_neighbours},
        {"process: its segments and its questions for neighbours leave", test_out_wire},
        {"process: what it forges is dropped, for a reason", test_out_spoofed},
        {"process: it does not speak for the address", test_out_neighbours},
        {"process: a question gives the device's MAC address and no other", test_out_options},
        {"process: segments to the shared address come back", test_out_local},
        {"a reset answers as RFC 9293 s3.10.7.1 says", test_reset},
        {"a reset has the segment's tag", test_reset_tag}, {"any octets have a verdict", test_any})
