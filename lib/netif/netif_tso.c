/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * TSO packets, which are several TCP segments in one: what a port that cuts them requires, and the
 * cutting for other ports.
 */

#include <rte_ethdev.h>
#include <rte_tcp.h>

#include "netif_hdr.h"
#include "netif_priv.h"
#include "netif_tso.h"
#include "weft_netif_mbuf.h"

/*
 * The port fills in every field that differs between the segments. That includes IPv4's header
 * checksum, also on ports without the offload for it (virtio, vmxnet3).
 */
#define TSO_OFFLOADS                                                                               \
	(RTE_ETH_TX_OFFLOAD_TCP_TSO | RTE_ETH_TX_OFFLOAD_MULTI_SEGS | RTE_ETH_TX_OFFLOAD_TCP_CKSUM)

#define TSO_SEQ   4 /* RFC 9293 s3.1: offsets in the header */
#define TSO_FLAGS 13

static inline uint16_t
tso_mbufs_max(const struct weft_netif *nif)
{
	return nif->attr.tx_mbufs_max != 0 ? nif->attr.tx_mbufs_max : UINT16_MAX;
}

bool
netif_tso_offered(uint64_t tx_offloads)
{
	return (tx_offloads & TSO_OFFLOADS) == TSO_OFFLOADS;
}

struct weft_netif_tso
weft_netif_tso(const struct weft_netif *nif, const struct weft_ip *dst)
{
	uint16_t ip_len = weft_ip_is_v4(dst) ? NETIF_IPV4_LEN : NETIF_IPV6_LEN;

	if (!netif_tso_offered(nif->attr.tx_offloads))
		return (struct weft_netif_tso){0};
	return (struct weft_netif_tso){
	        .bytes = (uint16_t)(NETIF_IP_MAX - ip_len),
	        .mbufs = tso_mbufs_max(nif),
	};
}

bool
netif_tso_port(const struct weft_netif *nif, const struct rte_mbuf *m)
{
	return netif_tso_offered(nif->attr.tx_offloads) && m->nb_segs <= tso_mbufs_max(nif);
}

/* ---- Cutting ---- */

/** The position in the payload. */
struct tso_cursor {
	struct rte_mbuf *at;
	uint32_t off;
};

/** Takes the next contiguous octets, at most `max`. Returns how many. */
static uint32_t
tso_run(struct tso_cursor *c, uint32_t max)
{
	while (c->off == c->at->data_len) {
		c->at = c->at->next;
		c->off = 0;
	}
	return RTE_MIN(max, c->at->data_len - c->off);
}

/** Copies `len` octets behind p's data, for ports that cannot gather. */
static bool
tso_copy(struct rte_mbuf *p, struct tso_cursor *c, uint32_t len)
{
	uint8_t *to = (uint8_t *)rte_pktmbuf_append(p, (uint16_t)len);

	if (to == NULL)
		return false;
	while (len > 0) {
		uint32_t n = tso_run(c, len);

		memcpy(to, rte_pktmbuf_mtod_offset(c->at, const uint8_t *, c->off), n);
		to += n;
		c->off += n;
		len -= n;
	}
	return true;
}

/** Attaches `len` octets behind p's data. p then holds a reference to their buffers. */
static bool
tso_show(struct weft_netif *nif, struct rte_mbuf *p, struct tso_cursor *c, uint32_t len)
{
	struct rte_mbuf *last = p;

	while (len > 0) {
		uint32_t n = tso_run(c, len);
		struct rte_mbuf *d = rte_pktmbuf_alloc(nif->attr.tx_pool);

		if (d == NULL)
			return false;
		rte_pktmbuf_attach(d, c->at);
		d->data_off += (uint16_t)c->off;
		d->data_len = d->pkt_len = (uint16_t)n;
		last->next = d;
		last = d;
		p->nb_segs++;
		p->pkt_len += n;
		c->off += n;
		len -= n;
	}
	return true;
}

/** Makes a packet of the header at `hdr` and the next `len` octets. */
static struct rte_mbuf *
tso_piece(struct weft_netif *nif, const uint8_t *hdr, uint32_t hdr_len, struct tso_cursor *c,
          uint32_t len)
{
	bool copy = nif->ethdev && (nif->attr.tx_offloads & RTE_ETH_TX_OFFLOAD_MULTI_SEGS) == 0;
	struct rte_mbuf *p = weft_netif_alloc(nif, WEFT_NETIF_HEADROOM);

	if (p == NULL)
		return NULL;
	memcpy(rte_pktmbuf_append(p, (uint16_t)hdr_len), hdr, hdr_len);
	if (copy ? tso_copy(p, c, len) : tso_show(nif, p, c, len))
		return p;
	rte_pktmbuf_free(p);
	return NULL;
}

bool
netif_tso_cut(struct weft_netif *nif, struct rte_mbuf *m, uint32_t hdr_len, uint32_t segsz,
              struct rte_mbuf **piece, unsigned int n)
{
	const uint8_t *hdr = rte_pktmbuf_mtod(m, const uint8_t *);
	struct tso_cursor c = {.at = m, .off = hdr_len};
	uint32_t seq = weft_get_be32(hdr + TSO_SEQ), left = m->pkt_len - hdr_len;

	for (unsigned int i = 0; i < n; i++, seq += segsz, left -= segsz) {
		uint8_t *h;

		piece[i] = tso_piece(nif, hdr, hdr_len, &c, RTE_MIN(segsz, left));
		if (piece[i] == NULL) {
			rte_pktmbuf_free_bulk(piece, i);
			return false;
		}
		h = rte_pktmbuf_mtod(piece[i], uint8_t *);
		weft_put_be32(h + TSO_SEQ, seq);
		if (i > 0) /* RFC 3168 s6.1.2: CWR once */
			h[TSO_FLAGS] &= (uint8_t)~RTE_TCP_CWR_FLAG;
		if (i + 1 < n)
			h[TSO_FLAGS] &= (uint8_t) ~(RTE_TCP_FIN_FLAG | RTE_TCP_PSH_FLAG);
	}
	return true;
}
