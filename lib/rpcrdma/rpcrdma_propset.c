/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Decodes, applies and encodes sets of transport properties (draft s5, s6.3.3). */

#include <string.h>

#include "rpcrdma_wire_priv.h"

#define PROP_BIT(id)       (1u << (id))
#define PROP_ENTRY_BYTES   8 /* rdma_which, and the count of rdma_data */
#define PROP_FIRST_WORD_ID RDMA2_PROPID_SBSIZ
#define PROP_LAST_WORD_ID  RDMA2_PROPID_BRS

/* The member of a property that is a word; NULL for others. */
static const uint32_t *
prop_word(const struct rpcrdma_propset *set, uint32_t id)
{
	switch (id) {
	case RDMA2_PROPID_SBSIZ:
		return &set->send_bytes;
	case RDMA2_PROPID_RBSIZ:
		return &set->recv_bytes;
	case RDMA2_PROPID_RSSIZ:
		return &set->seg_bytes;
	case RDMA2_PROPID_RCSIZ:
		return &set->segs;
	case RDMA2_PROPID_BRS:
		return &set->reverse;
	default:
		return NULL;
	}
}

/* Check a value by the type of its property (s5.1), and take it; no octets are the default,
 * whatever the type. */
static bool
prop_value(struct rpcrdma_propset *set, uint32_t id, const struct rpcrdma_opaque *value)
{
	uint32_t *word = (uint32_t *)(uintptr_t)prop_word(set, id), inner;

	if (word == NULL && id != RDMA2_PROPID_HOSTAUTH) {
		if (set->n_unknown < RPCRDMA_MAX_UNKNOWN_PROPS)
			set->unknown[set->n_unknown] = (struct rpcrdma_unknown_prop){id, *value};
		set->n_unknown++;
		return true;
	}
	set->present |= PROP_BIT(id);
	set->dflt &= ~PROP_BIT(id);
	if (value->len_bytes == 0) {
		set->dflt |= PROP_BIT(id);
		if (word != NULL)
			*word = 0;
		else
			set->hostauth = *value;
		return true;
	}
	if (value->len_bytes < 4)
		return false;
	if (word != NULL) {
		*word = weft_get_be32(value->data);
		return value->len_bytes == 4;
	}
	/* An opaque<> inside the opaque: its count, its octets, its padding. */
	inner = weft_get_be32(value->data);
	if (inner > value->len_bytes - 4 || inner + wire_pad(inner) != value->len_bytes - 4)
		return false;
	set->hostauth = (struct rpcrdma_opaque){value->data + 4, inner};
	return true;
}

enum rpcrdma_verdict
weft_rpcrdma_propset_decode(struct wire_cur *cur, struct rpcrdma_propset *set)
{
	struct rpcrdma_opaque value;
	uint32_t n, id;

	memset(set, 0, offsetof(struct rpcrdma_propset, unknown));
	if (!wire_u32(cur, &n))
		return RPCRDMA_BAD_XDR;
	/* Each property takes octets of the message, so a count that is too large ends with it. */
	for (; n > 0; n--) {
		if (!wire_u32(cur, &id) || !wire_u32(cur, &value.len_bytes))
			return RPCRDMA_BAD_XDR;
		/* A value longer than the message is s5.1's own example of ERR_BAD_PROPVAL. */
		if (value.len_bytes > cur->left_bytes)
			return RPCRDMA_BAD_PROPVAL;
		if (wire_pad(value.len_bytes) > cur->left_bytes - value.len_bytes)
			return RPCRDMA_BAD_XDR;
		value.data = cur->p;
		if (!prop_value(set, id, &value))
			return RPCRDMA_BAD_PROPVAL;
		cur->p += value.len_bytes + wire_pad(value.len_bytes);
		cur->left_bytes -= value.len_bytes + wire_pad(value.len_bytes);
	}
	return RPCRDMA_OK;
}

void
weft_rpcrdma_props_apply(struct rpcrdma_props *props, const struct rpcrdma_propset *set)
{
	const struct rpcrdma_props dflt = RPCRDMA_PROPS_DEFAULT;
	const uint32_t dflt_word[] = {
	        [RDMA2_PROPID_SBSIZ] = dflt.send_bytes, [RDMA2_PROPID_RBSIZ] = dflt.recv_bytes,
	        [RDMA2_PROPID_RSSIZ] = dflt.seg_bytes,  [RDMA2_PROPID_RCSIZ] = dflt.segs,
	        [RDMA2_PROPID_BRS] = dflt.reverse,
	};
	uint32_t *const to[] = {
	        [RDMA2_PROPID_SBSIZ] = &props->send_bytes,
	        [RDMA2_PROPID_RBSIZ] = &props->recv_bytes,
	        [RDMA2_PROPID_RSSIZ] = &props->seg_bytes,
	        [RDMA2_PROPID_RCSIZ] = &props->segs,
	        [RDMA2_PROPID_BRS] = &props->reverse,
	};

	for (uint32_t id = PROP_FIRST_WORD_ID; id <= PROP_LAST_WORD_ID; id++)
		if (set->present & PROP_BIT(id))
			*to[id] = set->dflt & PROP_BIT(id) ? dflt_word[id] : *prop_word(set, id);
}

/* Octets of rdma_data. */
static uint32_t
prop_value_bytes(const struct rpcrdma_propset *set, uint32_t id)
{
	if (set->dflt & PROP_BIT(id))
		return 0;
	return id == RDMA2_PROPID_HOSTAUTH
	               ? 4 + set->hostauth.len_bytes + wire_pad(set->hostauth.len_bytes)
	               : 4;
}

static uint32_t
prop_n_kept(const struct rpcrdma_propset *set)
{
	return set->n_unknown < RPCRDMA_MAX_UNKNOWN_PROPS ? set->n_unknown
	                                                  : RPCRDMA_MAX_UNKNOWN_PROPS;
}

uint32_t
weft_rpcrdma_propset_bytes(const struct rpcrdma_propset *set)
{
	uint32_t n = 4;

	for (uint32_t id = RDMA2_PROPID_SBSIZ; id <= RDMA2_PROPID_HOSTAUTH; id++)
		if (set->present & PROP_BIT(id))
			n += PROP_ENTRY_BYTES + prop_value_bytes(set, id);
	for (uint32_t i = 0; i < prop_n_kept(set); i++)
		n += PROP_ENTRY_BYTES + set->unknown[i].value.len_bytes +
		     wire_pad(set->unknown[i].value.len_bytes);
	return n;
}

static uint8_t *
enc_opaque(uint8_t *p, const struct rpcrdma_opaque *o)
{
	weft_put_be32(p, o->len_bytes);
	p += 4;
	if (o->len_bytes > 0)
		memcpy(p, o->data, o->len_bytes);
	p += o->len_bytes;
	memset(p, 0, wire_pad(o->len_bytes));
	return p + wire_pad(o->len_bytes);
}

uint8_t *
weft_rpcrdma_propset_encode(uint8_t *p, const struct rpcrdma_propset *set)
{
	uint8_t *count = p;
	uint32_t n = prop_n_kept(set);

	p += 4;
	for (uint32_t id = RDMA2_PROPID_SBSIZ; id <= RDMA2_PROPID_HOSTAUTH; id++) {
		if (!(set->present & PROP_BIT(id)))
			continue;
		n++;
		weft_put_be32(p, id);
		weft_put_be32(p + 4, prop_value_bytes(set, id));
		p += PROP_ENTRY_BYTES;
		if (set->dflt & PROP_BIT(id))
			continue;
		if (id == RDMA2_PROPID_HOSTAUTH) {
			p = enc_opaque(p, &set->hostauth);
			continue;
		}
		weft_put_be32(p, *prop_word(set, id));
		p += 4;
	}
	for (uint32_t i = 0; i < prop_n_kept(set); i++) {
		weft_put_be32(p, set->unknown[i].id);
		p = enc_opaque(p + 4, &set->unknown[i].value);
	}
	weft_put_be32(count, n);
	return p;
}
