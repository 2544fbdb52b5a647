/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_IP_H
#define WEFT_IP_H

/** @file Addresses of both families, their prefixes, and the zones of link-local ones. Internal. */

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

/** An IPv6 address, or an IPv4 address as ::ffff:a.b.c.d; network order. */
struct weft_ip {
	uint8_t b[16];
};

static inline struct weft_ip
weft_ip_from_v4(uint32_t be_addr)
{
	struct weft_ip ip = {.b = {[10] = 0xff, [11] = 0xff}};

	memcpy(&ip.b[12], &be_addr, 4);
	return ip;
}

static inline bool
weft_ip_is_v4(const struct weft_ip *ip)
{
	static const uint8_t prefix[12] = {[10] = 0xff, [11] = 0xff};

	return memcmp(ip->b, prefix, sizeof(prefix)) == 0;
}

/** The IPv4 address in network order; valid only if weft_ip_is_v4(). */
static inline uint32_t
weft_ip_v4(const struct weft_ip *ip)
{
	uint32_t v;

	memcpy(&v, &ip->b[12], 4);
	return v;
}

static inline bool
weft_ip_eq(const struct weft_ip *a, const struct weft_ip *b)
{
	return memcmp(a->b, b->b, sizeof(a->b)) == 0;
}

/** Whether the first `bits` of the 128 bits are the same. An IPv4 prefix has 96 more bits. */
static inline bool
weft_ip_same_prefix(const struct weft_ip *a, const struct weft_ip *b, unsigned int bits)
{
	unsigned int octets = bits / 8;
	uint8_t mask = (uint8_t)(0xff00 >> bits % 8);

	return memcmp(a->b, b->b, octets) == 0 &&
	       (bits % 8 == 0 || ((a->b[octets] ^ b->b[octets]) & mask) == 0);
}

/** fe80::/10 (RFC 4291 s2.5.6) */
static inline bool
weft_ip_is_link_local(const struct weft_ip *ip)
{
	return ip->b[0] == 0xfe && (ip->b[1] & 0xc0) == 0x80;
}

/*
 * A link-local address is unique on its link only (RFC 4007 s5), and a port with several VLANs has
 * several links. So weft keeps the link, the zone, in octets 2 and 3 of a link-local address, which
 * are zero in packets (RFC 4291 s2.5.6). netif sets it in what it receives and removes it from what
 * it sends. Zone 0 is the port's first VLAN; any other VLAN's zone is its identifier.
 */

/** The zone of an untagged network beside a first network that is tagged. */
#define WEFT_ZONE_UNTAGGED 4095

/** The zone of a link-local address. */
static inline uint16_t
weft_ip_zone(const struct weft_ip *ip)
{
	return (uint16_t)(ip->b[2] << 8 | ip->b[3]);
}

static inline void
weft_ip_set_zone(struct weft_ip *ip, uint16_t zone)
{
	ip->b[2] = (uint8_t)(zone >> 8);
	ip->b[3] = (uint8_t)zone;
}

/** The address as it is in packets. */
static inline struct weft_ip
weft_ip_bare(const struct weft_ip *ip)
{
	struct weft_ip bare = *ip;

	if (weft_ip_is_link_local(ip))
		weft_ip_set_zone(&bare, 0);
	return bare;
}

/**
 * The address by which limits per peer count. IPv4: the address. IPv6: the /64, since a host may
 * have a whole one. All link-local addresses (fe80::/10) count as one, since a neighbour can use as
 * many as it likes.
 */
static inline struct weft_ip
weft_ip_peer(const struct weft_ip *ip)
{
	bool link_local = weft_ip_is_link_local(ip);
	struct weft_ip peer = *ip;

	if (weft_ip_is_v4(ip))
		return peer;
	memset(&peer.b[8], 0, 8);
	if (link_local) {
		memset(&peer.b[1], 0, 7);
		peer.b[1] = 0x80;
	}
	return peer;
}

/** Size of a buffer for any printed address and port. */
#define WEFT_ADDR_STR_LEN 64

/** Print "10.0.0.1" to buf, or "fe80::1%7" with a zone that is not 0. Returns buf. */
const char *weft_ip_str(const struct weft_ip *ip, char buf[WEFT_ADDR_STR_LEN]);
/** Print "10.0.0.1:5000" to buf. Returns buf. */
const char *weft_addr_str(const struct weft_ip *ip, uint16_t port, char buf[WEFT_ADDR_STR_LEN]);
/** Convert a sockaddr to address and host-order port. The scope of a link-local address becomes its
 * zone. -EAFNOSUPPORT: neither IPv4 nor IPv6. -EINVAL: no zone has the number of the scope, or a
 * link-local address has bits set that are always zero. */
int weft_ip_from_sockaddr(const struct sockaddr *sa, struct weft_ip *ip, uint16_t *port);
/** Fill *ss with the address and the host-order port: a sockaddr of its family, the rest zero. */
void weft_ip_to_sockaddr(const struct weft_ip *ip, uint16_t port, struct sockaddr_storage *ss);

#endif /* WEFT_IP_H */
