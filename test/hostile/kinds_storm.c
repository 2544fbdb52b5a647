/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Hostile senders without connections: twenty or more frames a millisecond. */

#include <stdlib.h>

#include "kinds.h"

#define A_MS 20

static uint32_t
somebody(struct crowd *c)
{
	return 0x0a000000u | (uint32_t)(16 + crowd_rand(c, CROWD_DARK - 16)) << 8 |
	       (uint32_t)(1 + crowd_rand(c, 250));
}

static uint32_t
ghost(struct crowd *c)
{
	return 0x0a000000u | (uint32_t)(CROWD_DARK + crowd_rand(c, 50)) << 8 |
	       (uint32_t)(1 + crowd_rand(c, 250));
}

static uint16_t
port(struct crowd *c)
{
	return (uint16_t)(20000 + crowd_rand(c, 40000));
}

static uint32_t
any(struct crowd *c)
{
	return (uint32_t)crowd_rand(c, UINT32_MAX);
}

/* ---- TCP ---- */

static const struct crowd_kind half_open = {
        .name = "half_open", .peers = 1000, .addrs = 200, .hold_syn = true, .again = true};

static void
syn_storm(struct crowd *c, uint64_t now_ns)
{
	(void)now_ns;
	for (unsigned int i = 0; i < A_MS; i++)
		crowd_tcp(c, somebody(c), port(c), 0x02, any(c), 0, NULL, 0);
}

static const struct crowd_kind syns = {.name = "syns", .storm = syn_storm};

static void
spoofed_storm(struct crowd *c, uint64_t now_ns)
{
	(void)now_ns;
	for (unsigned int i = 0; i < A_MS; i++)
		crowd_tcp(c, ghost(c), port(c), 0x02, any(c), 0, NULL, 0);
}

static const struct crowd_kind spoofed = {.name = "syns_spoofed", .storm = spoofed_storm};

static void
ack_storm(struct crowd *c, uint64_t now_ns)
{
	static const uint8_t octets[32];

	(void)now_ns;
	for (unsigned int i = 0; i < A_MS; i++)
		crowd_tcp(c, somebody(c), port(c), 0x10, any(c), any(c), octets, sizeof(octets));
}

static const struct crowd_kind acks = {.name = "acks", .storm = ack_storm};

static void
xmas_storm(struct crowd *c, uint64_t now_ns)
{
	(void)now_ns;
	for (unsigned int i = 0; i < A_MS; i++)
		crowd_tcp(c, somebody(c), port(c), 0xff, any(c), any(c), NULL, 0);
}

static const struct crowd_kind xmas = {.name = "xmas", .storm = xmas_storm};

/* Segments for the honest client's connection, from a sender that knows its ports and about its
 * sequence number (RFC 5961). */
static void
blind_storm(struct crowd *c, uint64_t now_ns)
{
	static const uint8_t flags[] = {0x04, 0x02, 0x14, 0x10, 0x11};
	static const uint8_t octets[8];

	(void)now_ns;
	for (unsigned int i = 0; i < A_MS; i++) {
		uint8_t f = flags[crowd_rand(c, sizeof(flags))];
		uint32_t seq = crowd_rand(c, 2)
		                       ? any(c)
		                       : c->spy_seq + 4000000 + (uint32_t)crowd_rand(c, 1 << 24);

		crowd_tcp(c, CROWD_CLIENT, c->spy_port, f, seq, any(c), octets,
		          f & 0x06 ? 0 : sizeof(octets));
	}
}

static const struct crowd_kind blind = {.name = "blind", .storm = blind_storm};

/* ---- IP and ICMP ---- */

/* The first octets of a segment from the target to the client. */
static uint32_t
quote(struct crowd *c, uint8_t *q)
{
	memset(q, 0, 28);
	q[0] = 0x45;
	weft_put_be16(q + 2, 1500);
	weft_put_be16(q + 6, 0x4000);
	q[8] = 64;
	q[9] = 6;
	weft_put_be32(q + 12, CROWD_TARGET);
	weft_put_be32(q + 16, CROWD_CLIENT);
	weft_put_be16(q + 20, 7471);
	weft_put_be16(q + 22, c->spy_port);
	weft_put_be32(q + 24, any(c));
	return 28;
}

static void
icmp_storm(struct crowd *c, uint64_t now_ns)
{
	uint8_t q[32];

	(void)now_ns;
	for (unsigned int i = 0; i < A_MS; i++) {
		uint32_t n = quote(c, q);

		switch (crowd_rand(c, 5)) {
		case 0: /* destination unreachable, any code */
			crowd_icmp(c, somebody(c), 3, (uint8_t)crowd_rand(c, 16), 0, q, n);
			break;
		case 1: /* fragmentation needed */
			crowd_icmp(c, somebody(c), 3, 4, (uint32_t)crowd_rand(c, 1500), q, n);
			break;
		case 2:
			crowd_icmp(c, somebody(c), 8, 0, any(c), q, n);
			break;
		case 3: /* redirect */
			crowd_icmp(c, somebody(c), 5, (uint8_t)crowd_rand(c, 4), somebody(c), q, n);
			break;
		default: /* time exceeded, source quench, parameter problem */
			crowd_icmp(c, somebody(c), (const uint8_t[]){11, 4, 12}[crowd_rand(c, 3)],
			           0, 0, q, n);
		}
	}
}

static const struct crowd_kind icmp = {.name = "icmp", .storm = icmp_storm};

static void
echo_storm(struct crowd *c, uint64_t now_ns)
{
	static const uint8_t data[1400];

	(void)now_ns;
	for (unsigned int i = 0; i < A_MS; i++)
		crowd_icmp(c, crowd_rand(c, 2) ? somebody(c) : ghost(c), 8, 0, any(c), data,
		           sizeof(data));
}

static const struct crowd_kind echo = {.name = "echo", .storm = echo_storm};

/* First, last and middle fragments. No datagram is complete. */
static void
fragment_storm(struct crowd *c, uint64_t now_ns)
{
	static const uint8_t data[1480];

	(void)now_ns;
	for (unsigned int i = 0; i < A_MS; i++)
		crowd_ip(c, somebody(c), crowd_rand(c, 2) ? 6 : 1, (uint16_t)any(c),
		         (uint16_t)(crowd_rand(c, 2) ? 0x2000 : 0x2000 | crowd_rand(c, 0x1f00)),
		         data, sizeof(data));
}

static const struct crowd_kind fragments = {.name = "fragments", .storm = fragment_storm};

static void
udp_storm(struct crowd *c, uint64_t now_ns)
{
	uint8_t m[64] = {0};

	(void)now_ns;
	for (unsigned int i = 0; i < A_MS; i++) {
		weft_put_be32(m, any(c));
		weft_put_be16(m + 4, sizeof(m));
		crowd_ip(c, somebody(c), crowd_rand(c, 4) ? 17 : (uint8_t)crowd_rand(c, 256), 0, 0,
		         m, sizeof(m));
	}
}

static const struct crowd_kind udp = {.name = "udp", .storm = udp_storm};

/* ---- The link ---- */

static void
arp_storm(struct crowd *c, uint64_t now_ns)
{
	(void)now_ns;
	for (unsigned int i = 0; i < A_MS; i++) {
		uint8_t f[60] = {[12] = 8, [13] = 6, [15] = 1, [16] = 8, [18] = 6, [19] = 4};
		uint32_t ip = crowd_rand(c, 2) ? somebody(c) : ghost(c);
		bool request = crowd_rand(c, 2);

		/* ARP requests and unsolicited replies, each from another station. */
		memset(f, request ? 0xff : 0, 6);
		if (!request)
			memcpy(f, (const uint8_t[]){2, 0, 0, 0, 0, 1}, 6);
		memcpy(f + 6, (const uint8_t[]){2, 0xcd}, 2);
		weft_put_be32(f + 8, any(c));
		f[21] = request ? 1 : 2;
		memcpy(f + 22, f + 6, 6);
		weft_put_be32(f + 28, ip);
		weft_put_be32(f + 38, CROWD_TARGET);
		crowd_frame(c, f, sizeof(f));
	}
}

static const struct crowd_kind arp = {.name = "arp", .storm = arp_storm};

static uint16_t
icmp6_sum(const uint8_t *ip, uint32_t len)
{
	uint64_t sum = len + 58;

	for (uint32_t i = 8; i < 40 + len; i += 2)
		sum += weft_get_be16(ip + i);
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

/* Neighbor Solicitations and Advertisements from ever new stations (RFC 3756 s4.3.2). */
static void
nd_storm(struct crowd *c, uint64_t now_ns)
{
	(void)now_ns;
	for (unsigned int i = 0; i < A_MS; i++) {
		static const uint8_t prefix[8] = {0xfd, 0, 0, 0, 0, 0, 0, 7};
		uint8_t f[14 + 40 + 32] = {2, 0,    0,           0,           0,          1,
		                           2, 0xce, [12] = 0x86, [13] = 0xdd, [14] = 0x60},
		                    *ip = f + 14, *m = ip + 40;
		bool ask = crowd_rand(c, 2);

		weft_put_be32(f + 8, any(c));
		weft_put_be16(ip + 4, 32);
		ip[6] = 58;
		ip[7] = 255;
		memcpy(ip + 8, prefix, 8);
		weft_put_be32(ip + 16, any(c));
		weft_put_be32(ip + 20, any(c));
		memcpy(ip + 24, prefix, 8);
		ip[39] = 1;
		m[0] = ask ? 135 : 136;
		if (!ask)
			m[4] = 0x60;
		memcpy(m + 8, ask ? ip + 24 : ip + 8, 16);
		m[24] = ask ? 1 : 2;
		m[25] = 1;
		memcpy(m + 26, f + 6, 6);
		weft_put_be16(m + 2, icmp6_sum(ip, 32));
		crowd_frame(c, f, sizeof(f));
	}
}

static const struct crowd_kind nd = {.name = "nd", .storm = nd_storm};

static void
noise_storm(struct crowd *c, uint64_t now_ns)
{
	(void)now_ns;
	for (unsigned int i = 0; i < A_MS; i++) {
		uint8_t f[200] = {2, 0, 0, 0, 0, 1};
		uint32_t len = (uint32_t)(14 + crowd_rand(c, sizeof(f) - 14));

		for (uint32_t k = 6; k < len; k++)
			f[k] = (uint8_t)crowd_rand(c, 256);
		if (crowd_rand(c, 4))
			weft_put_be16(f + 12, crowd_rand(c, 2) ? 0x0800 : 0x86dd);
		crowd_frame(c, f, len);
	}
}

static const struct crowd_kind noise = {.name = "noise", .storm = noise_storm};

const struct crowd_kind *const kinds_storm[] = {&half_open, &syns, &spoofed, &acks,      &xmas,
                                                &blind,     &icmp, &echo,    &fragments, &udp,
                                                &arp,       &nd,   &noise,   NULL};
