/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Identifications of IPv4 packets. With one counter for all peers, each peer could count what we
 * send to the others, and we could be the third party of an idle scan (RFC 7739 s3).
 *
 * A packet with DF has 0: without fragments the field has no meaning (RFC 6864 s4.1). Any other
 * packet has the packet's number, mapped by a permutation of 16 bits. The permutation depends on
 * both addresses, the protocol and a secret key, and changes every 65536 packets. So within such a
 * block of one worker no value repeats. At the border of two blocks, and between two workers that
 * send to one destination, a value may repeat, as with random values (RFC 6864 s4.2 is met for most
 * packets, not for all). No state is kept per destination. What one destination sees does not
 * reveal how many packets went to others.
 */

#include "netif_ip.h"
#include "netif_priv.h"
#include "weft_siphash.h"

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
