/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Keyed hashes of connections: the place in the table, initial sequence numbers
 * (RFC 6528). */

#include "tcp_conn.h"
#include "tcp_instance.h"
#include "tcp_life.h"
#include "weft_siphash.h"

static unsigned int
tcp_tuple_words(uint64_t w[5], const struct weft_ip *local, uint16_t local_port,
                const struct weft_ip *remote, uint16_t remote_port)
{
	uint64_t ports = (uint64_t)local_port << 16 | remote_port;

	if (weft_ip_is_v4(local) && weft_ip_is_v4(remote)) {
		w[0] = (uint64_t)weft_ip_v4(local) << 32 | weft_ip_v4(remote);
		w[1] = ports;
		return 2;
	}
	memcpy(&w[0], local->b, 16);
	memcpy(&w[2], remote->b, 16);
	w[4] = ports;
	return 5;
}

uint64_t
tcp_tuple_hash(const struct weft_tcp *t, const struct weft_ip *local, uint16_t local_port,
               const struct weft_ip *remote, uint16_t remote_port)
{
	uint64_t w[5];
	unsigned int n = tcp_tuple_words(w, local, local_port, remote, remote_port);

	/* SipHash-1-3 is strong enough for a hash table. It runs once per received segment. */
	return weft_siphash(t->hash_key, w, n, 1, 3);
}

/** ISN = M + F(local, remote, key). M is a clock of 4 microseconds (RFC 6528 s3). */
uint32_t
tcp_isn(const struct weft_tcp_conn *c, uint64_t now_ns)
{
	uint64_t w[5];
	unsigned int n = tcp_tuple_words(w, &c->local, c->local_port, &c->remote, c->remote_port);

	return (uint32_t)(now_ns / 4000) + (uint32_t)weft_siphash(c->t->keys.isn, w, n, 2, 4);
}
