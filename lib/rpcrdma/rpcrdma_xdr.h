/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RPCRDMA_XDR_H
#define RPCRDMA_XDR_H

/**
 * @file XDR streams with chunks: the Payload stream of a message, reduced (draft s4.4.2).
 *
 * Encoding removes eligible items. The stream finds them by the address and length that XDR
 * routines pass. Arrays and optional data are found by the brackets of weft/rpc_xdr.h, because
 * XDR's own routines pass no address for these. Decoding puts items back: by position in the
 * unreduced stream (Read chunks), or in the order of the eligible results, each from the next Write
 * chunk (which has no position). XDR's roundup of a moved item is neither in the stream nor in the
 * chunk (s4.5.2.4, s4.5.3.1).
 *
 * Neither stream offers xdr_inline(), so every octet passes through its functions. A decoder reads
 * nothing beyond its input. weft_rpc_xdr_lend() lends octets where they are.
 */

#include <weft/rpcrdma.h>

/* ---- Encoding ---- */

/** A message being encoded. Zero it, set max_bytes and items, then rpcrdma_out_open(). */
struct rpcrdma_out {
	uint8_t *buf;       /**< grows; the caller frees it */
	uint32_t len_bytes; /**< of the reduced stream */
	uint32_t cap_bytes;
	uint32_t max_bytes; /**< limit of the unreduced stream */
	/** Items to remove when the encoder meets them, in this order or another. After it has
	 * met a WEFT_RPC_XDR item, the entry has the item's XDR octets. */
	struct weft_rpc_item items[WEFT_RPC_MAX_ITEMS];
	unsigned int nitems;
	/** The item's position in the unreduced stream; UINT32_MAX: it was not met. */
	uint32_t pos[WEFT_RPC_MAX_ITEMS];
	/** octets removed with their roundup: unreduced length minus len_bytes */
	uint32_t removed_bytes;
	/** roundup of the item just removed, which is still to be skipped */
	uint32_t pad_bytes;
	bool inside; /**< inside an item that is being removed; items do not nest */
	/** encoded items that are no octets; freed with the rest */
	uint8_t *moved[WEFT_RPC_MAX_ITEMS];
	/** -EMSGSIZE, -ENOMEM, -EAGAIN (`more`): the reason of a routine's failure */
	int error;
	/** NULL, or returns whether n more heap octets may be allocated. */
	bool (*more)(void *owner, uint64_t n);
	void *owner;
};

/** Open a stream. It has no memory yet, so the first octet may fail. */
void rpcrdma_out_open(struct rpcrdma_out *o, XDR *xdr);
void rpcrdma_out_free(struct rpcrdma_out *o);

/* ---- Decoding ---- */

/** An item that a chunk carried. */
struct rpcrdma_in_item {
	const uint8_t *data;
	uint32_t len_bytes;
	uint32_t where; /**< position in the unreduced stream, or index of weft_rpc_sink */
	/** by_order: the chunk has room, so it must be used in its turn */
	bool offered;
	/* destination: octets or, with brackets, the array or optional data; NULL: none that is
	 * known */
	const void *to;
	bool is_xdr;
};

/** A message being decoded; set all but the private members, then rpcrdma_in_open(). */
struct rpcrdma_in {
	const uint8_t *buf; /**< the reduced stream */
	uint32_t len_bytes;
	/** in ascending order of `where`; by_order: all Write chunks */
	struct rpcrdma_in_item items[WEFT_RPC_MAX_ITEMS];
	unsigned int nitems;
	/** next item */
	bool by_order;
	/** the binding's function, or NULL */
	unsigned int (*placed)(const void *res, struct weft_rpc_item *items);
	const void *res;
	/* private members */
	uint32_t at_bytes;      /**< position in the reduced stream */
	uint32_t pos_bytes;     /**< position in the unreduced stream */
	unsigned int next;      /**< item */
	uint32_t in_item_bytes; /**< octets taken of that item */
	uint32_t pad_bytes;     /**< roundup behind an item, not in the stream */
	uint32_t opaques;       /**< opaques that were not empty, and brackets, so far */
	uint32_t zeros;         /**< words of zero so far, of results */
	uint32_t last_bytes;    /**< length of the opaque just read, whose roundup may follow */
	bool counting;
	unsigned int depth;      /**< depth of brackets */
	unsigned int open;       /**< item, from 1, of the open bracket; 0: none */
	unsigned int open_depth; /**< depth of that bracket */
	uint32_t open_bytes;     /**< offset where it began */
};

void rpcrdma_in_open(struct rpcrdma_in *in, XDR *xdr);
/** Begin the results, which are decoded into res: from here on opaques are counted. */
void rpcrdma_in_results(struct rpcrdma_in *in, const void *res);
/** After arguments: whether the binding (or NULL) names each item (RFC 8166 s6.1). */
bool rpcrdma_in_args_ok(const struct rpcrdma_in *in, const struct weft_rpc_binding *b,
                        const void *args);
/** After results: whether every filled Write chunk was used for a result (RFC 8166 s6.1). */
bool rpcrdma_in_results_ok(const struct rpcrdma_in *in);

#endif /* RPCRDMA_XDR_H */
