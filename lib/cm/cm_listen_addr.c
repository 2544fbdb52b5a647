/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Addresses of listeners: connections with MPA (cm_listen.c) and streams
 * (cm_stream_listen.c). */

#include "cm_listen.h"
#include "cm_stream.h"
#include "weft_netif_addr.h"

bool
cm_listen_any(const struct weft_ip *addr)
{
	return weft_ip_is_v4(addr) ? weft_ip_v4(addr) == 0
	                           : memcmp(addr->b, (uint8_t[16]){0}, 16) == 0;
}

int
cm_listen_bits(const struct weft_ip *addr, bool any, uint8_t prefix_len)
{
	const unsigned int before = weft_ip_is_v4(addr) ? 96 : 0;
	unsigned int bits = prefix_len != 0 ? before + prefix_len : 128;

	if (any)
		return prefix_len == 0 ? 0 : -EINVAL;
	if (bits > 128)
		return -EINVAL;
	for (unsigned int i = bits; i < 128; i++)
		if (addr->b[i / 8] & 0x80 >> i % 8)
			return -EINVAL;
	return (int)bits;
}

bool
cm_listen_taken(const struct weft_vctx *v, const struct weft_ip *addr, unsigned int bits,
                uint16_t port)
{
	const struct weft_stream_listener *s;
	const struct weft_listener *l;

	TAILQ_FOREACH (l, &v->cm->listeners, all)
		if (l->port == port &&
		    weft_ip_same_prefix(&l->addr, addr, RTE_MIN((unsigned int)l->bits, bits)))
			return true;
	TAILQ_FOREACH (s, &v->cm->stream_listeners, all)
		if (s->port == port &&
		    weft_ip_same_prefix(&s->addr, addr, RTE_MIN((unsigned int)s->bits, bits)))
			return true;
	return false;
}

bool
cm_listen_local(const struct weft_vworker *vw, const struct weft_ip *addr, unsigned int bits,
                struct weft_ip *as)
{
	bool has = bits == 0;

	*as = *addr;
	for (unsigned int k = 0; k < vw->cm->nnif && !has; k++) {
		*as = *addr;
		has = weft_netif_zone(vw->cm->nif[k], as) &&
		      weft_netif_has_addr_in(vw->cm->nif[k], as, bits);
	}
	return has;
}

bool
cm_listen_waits(const struct weft_vworker *vw, const atomic_bool *answered)
{
	return !atomic_load_explicit(answered, memory_order_acquire) &&
	       atomic_load_explicit(&vw->runs, memory_order_acquire);
}
