/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RPCRDMA_BLOB_H
#define RPCRDMA_BLOB_H

/** @file Octets as the argument and the result of a call, and a binding that moves all of them. */

#include <weft/rpcrdma.h>

struct blob {
	uint32_t want; /**< an argument: length of the result that the caller wants, in octets */
	char *p;
	uint32_t len_bytes;
};

/** weft_rpc_binding.args and .results: the octets are one item. */
static inline unsigned int
blob_items(const void *v, struct weft_rpc_item *items)
{
	const struct blob *b = v;

	items[0] = (struct weft_rpc_item){b->p, b->len_bytes};
	return 1;
}

/** weft_rpc_binding.sinks: room for the result, in memory of the endpoint. */
static inline unsigned int
blob_sinks(const void *v, struct weft_rpc_sink *sinks)
{
	sinks[0] = (struct weft_rpc_sink){NULL, ((const struct blob *)v)->want, 0};
	return 1;
}

#endif /* RPCRDMA_BLOB_H */
