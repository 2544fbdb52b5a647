/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Reads files of captures (target_pcap.h). */

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "target_pcap.h"

/* draft-ietf-opsawg-pcapng s4: types of blocks, the magic of their order of octets. */
#define BLOCK_SECTION   0x0a0d0d0aU
#define BLOCK_INTERFACE 1U
#define BLOCK_PACKET    6U
#define ORDER_MAGIC     0x1a2b3c4dU
#define OPT_TSRESOL     9U
#define LINK_ETHERNET   1U

#define BLOCK_MIN  12U
#define BLOCK_MAX  (256U << 10)
#define READ_BYTES (4 * (size_t)BLOCK_MAX)
#define HEAD_BYTES 8192U /* of a section and its interfaces */
#define INTERFACES 64U

/* Of frames. */
#define ETHER_BYTES    14U
#define VLAN_BYTES     4U
#define ETHERTYPE_VLAN 0x8100U
#define ETHERTYPE_QINQ 0x88a8U
#define ETHERTYPE_IP   0x0800U
#define ETHERTYPE_IPV6 0x86ddU
#define IP4_BYTES      20U
#define IP6_BYTES      40U
#define PROTO_TCP      6U

struct reader {
	struct pcap_want *w;
	unsigned int n;
	uint8_t head[HEAD_BYTES]; /**< what the packets of the section need before them */
	size_t head_len;
	uint64_t unit_ns[INTERFACES];
	uint32_t ninterfaces;
};

static uint16_t
u16(const uint8_t *p)
{
	uint16_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static uint32_t
u32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

/** Append octets. False: there is no room, or no memory. */
static bool
took_add(struct pcap_took *t, const uint8_t *data, size_t len)
{
	if (len > t->max - t->len)
		return false;
	if (t->len + len > t->cap) {
		size_t cap = 2 * (t->len + len);
		uint8_t *buf = realloc(t->buf, cap < t->max ? cap : t->max);

		if (buf == NULL)
			return false;
		t->buf = buf;
		t->cap = cap < t->max ? cap : t->max;
	}
	memcpy(t->buf + t->len, data, len);
	t->len += len;
	return true;
}

/** Whether one end of a TCP segment is the peer. The addresses and ports are in network order. */
static bool
is_end(const struct sockaddr_storage *peer, int family, const uint8_t *addr, const uint8_t *port)
{
	const struct sockaddr_in *p4 = (const struct sockaddr_in *)peer;
	const struct sockaddr_in6 *p6 = (const struct sockaddr_in6 *)peer;

	if (peer->ss_family != family)
		return false;
	if (family == AF_INET)
		return memcmp(&p4->sin_addr, addr, 4) == 0 && memcmp(&p4->sin_port, port, 2) == 0;
	return memcmp(&p6->sin6_addr, addr, 16) == 0 && memcmp(&p6->sin6_port, port, 2) == 0;
}

/** Whether a frame is a TCP segment of the peer's connection, in either direction. */
static bool
is_of_peer(const struct sockaddr_storage *peer, const uint8_t *f, size_t len)
{
	size_t at = ETHER_BYTES, ip;
	uint16_t type;

	if (len < at)
		return false;
	type = ntohs(u16(f + 12));
	while ((type == ETHERTYPE_VLAN || type == ETHERTYPE_QINQ) && len >= at + VLAN_BYTES) {
		type = ntohs(u16(f + at + 2));
		at += VLAN_BYTES;
	}
	ip = at;
	if (type == ETHERTYPE_IP && len >= at + IP4_BYTES) {
		at += (size_t)(f[ip] & 0x0f) * 4;
		return f[ip + 9] == PROTO_TCP && len >= at + 4 &&
		       (is_end(peer, AF_INET, f + ip + 12, f + at) ||
		        is_end(peer, AF_INET, f + ip + 16, f + at + 2));
	}
	/* The stack sends no extension headers, and takes no TCP behind them. */
	if (type == ETHERTYPE_IPV6 && len >= at + IP6_BYTES + 4) {
		at += IP6_BYTES;
		return f[ip + 6] == PROTO_TCP && (is_end(peer, AF_INET6, f + ip + 8, f + at) ||
		                                  is_end(peer, AF_INET6, f + ip + 24, f + at + 2));
	}
	return false;
}

/** Nanoseconds of a unit of an interface's time stamps (s4.2: if_tsresol, or else microseconds). */
static uint64_t
interface_unit_ns(const uint8_t *b, uint32_t len)
{
	uint32_t at = 16;
	uint64_t ns = 1000;

	while (at + 4 <= len - 4) {
		const uint16_t code = u16(b + at), n = u16(b + at + 2);

		if (code == 0 || n > len - 4 - at - 4)
			break;
		/* A negative power of 10; of 2 if its first bit is set, which nothing here uses. */
		if (code == OPT_TSRESOL && n == 1 && b[at + 4] <= 9) {
			ns = 1;
			for (uint8_t i = b[at + 4]; i < 9; i++)
				ns *= 10;
		}
		at += 4 + ((uint32_t)n + 3) / 4 * 4;
	}
	return ns;
}

/** Keep a block that the packets need before them. False: too many. */
static bool
keep_head(struct reader *r, const uint8_t *b, uint32_t len)
{
	if (len > sizeof(r->head) - r->head_len)
		return false;
	memcpy(r->head + r->head_len, b, len);
	r->head_len += len;
	/* An interface that comes behind packets. */
	for (unsigned int i = 0; i < r->n; i++)
		if (r->w[i].head_out && !took_add(&r->w[i].took, b, len))
			return false;
	return true;
}

static void
want_packet(const struct reader *r, struct pcap_want *w, const uint8_t *b, uint32_t len)
{
	struct pcap_took *t = &w->took;

	if (!w->head_out && r->head_len + len <= t->max - t->len)
		w->head_out = took_add(t, r->head, r->head_len);
	if (w->head_out && took_add(t, b, len))
		t->packets++;
	else
		t->left++;
}

static void
take_packet(const struct reader *r, const uint8_t *b, uint32_t len)
{
	const uint32_t interface = u32(b + 8), kept = u32(b + 20);
	uint64_t ns;

	if (interface >= r->ninterfaces || kept > len - 32)
		return;
	ns = ((uint64_t)u32(b + 12) << 32 | u32(b + 16)) * r->unit_ns[interface];
	for (unsigned int i = 0; i < r->n; i++)
		if (ns >= r->w[i].from_ns && ns <= r->w[i].until_ns &&
		    is_of_peer(&r->w[i].peer, b + 28, kept))
			want_packet(r, &r->w[i], b, len);
}

/** One whole block. -EBADMSG: it cannot be one of a file of this host. */
static int
take_block(struct reader *r, const uint8_t *b, uint32_t len)
{
	switch (u32(b)) {
	case BLOCK_SECTION:
		if (len < 28 || u32(b + 8) != ORDER_MAGIC)
			return -EBADMSG;
		r->head_len = r->ninterfaces = 0;
		for (unsigned int i = 0; i < r->n; i++)
			r->w[i].head_out = false;
		return keep_head(r, b, len) ? 0 : -EBADMSG;
	case BLOCK_INTERFACE:
		if (len < 20 || r->ninterfaces == INTERFACES || u16(b + 8) != LINK_ETHERNET)
			return -EBADMSG;
		r->unit_ns[r->ninterfaces++] = interface_unit_ns(b, len);
		return keep_head(r, b, len) ? 0 : -EBADMSG;
	case BLOCK_PACKET:
		if (len < 32)
			return -EBADMSG;
		take_packet(r, b, len);
		return 0;
	default:
		return 0; /* statistics, names */
	}
}

/** Take the whole blocks of a buffer; *used: their octets. */
static int
take_blocks(struct reader *r, const uint8_t *buf, size_t len, size_t *used)
{
	int rc = 0;

	*used = 0;
	while (rc == 0 && len - *used >= BLOCK_MIN) {
		const uint8_t *b = buf + *used;
		const uint32_t n = u32(b + 4);

		/* A file that was begun anew while it is read has other blocks here. */
		if (n < BLOCK_MIN || n > BLOCK_MAX || n % 4 != 0 ||
		    (*used == 0 && r->head_len == 0 && u32(b) != BLOCK_SECTION))
			return -EBADMSG;
		if (n > len - *used)
			return 0;
		if (u32(b + n - 4) != n)
			return -EBADMSG;
		rc = take_block(r, b, n);
		*used += n;
	}
	return rc;
}

int
pcap_take(int fd, struct pcap_want *w, unsigned int n, bool (*goes_on)(void *arg), void *arg)
{
	struct reader *r = calloc(1, sizeof(*r));
	uint8_t *buf = malloc(READ_BYTES);
	size_t have = 0, used;
	ssize_t more = 1;
	int rc = r != NULL && buf != NULL ? 0 : -ENOMEM;

	if (rc == 0) {
		r->w = w;
		r->n = n;
	}
	while (rc == 0 && more != 0) {
		if (goes_on != NULL && !goes_on(arg)) {
			rc = -ECANCELED;
			break;
		}
		more = read(fd, buf + have, READ_BYTES - have);
		if (more < 0 && errno != EINTR)
			rc = -errno;
		have += more > 0 ? (size_t)more : 0;
		if (rc == 0)
			rc = take_blocks(r, buf, have, &used);
		if (rc == 0 && used > 0) {
			have -= used;
			memmove(buf, buf + used, have);
		}
	}
	for (unsigned int i = 0; i < n; i++)
		w[i].head_out = false; /* the next file has a section of its own */
	free(buf);
	free(r);
	return rc;
}
