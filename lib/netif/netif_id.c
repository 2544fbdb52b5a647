/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Identifications of IPv4 packets. One counter for all peers would let each of them count what we
 * send to the others, and would make us the silent third party of an idle scan (RFC 7739 s3).
 *
 * A packet that is not to be fragmented has 0: without fragments the field says nothing (RFC 6864
 * s4.1). Any other has the number of the packet, put through a permutation of 16 bits that depends
 * on both addresses, the protocol and a secret key, and is another one every 65536 packets. So no
 * value comes twice within such a block of one worker; at the border of two blocks, and between
 * two workers that send to one destination, it may, as with random values (RFC 6864 s4.2 is met for
 * most packets, not for all). Nothing is remembered of any destination, and what one destination
 * sees says nothing of how many packets went to others.
 */

#include "netif_priv.h"

#define ID_ROUNDS 4 /* of a balanced Feistel network: a permutation whatever its function is */

rte_be16_t
netif_ip_id(struct weft_netif *nif, uint32_t src, uint32_t dst, uint8_t proto, bool df)
{
	uint64_t n, w[2];
	uint8_t l, r, t;

	if (likely(df))
		return 0;
	n = nif->ip_ids++;
	w[0] = (uint64_t)src << 32 | dst;
	w[1] = (n >> 16) << 8 | proto;
	w[0] = weft_siphash(nif->id_key, w, 2, 2, 4);
	l = (uint8_t)(n >> 8);
	r = (uint8_t)n;
	for (unsigned int i = 0; i < ID_ROUNDS; i++) {
		w[1] = (uint64_t)i << 8 | r;
		t = l ^ (uint8_t)weft_siphash(nif->id_key, w, 2, 2, 4);
		l = r;
		r = t;
	}
	return rte_cpu_to_be_16((uint16_t)(l << 8 | r));
}
