/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RPCRDMA_XDR_H
#define RPCRDMA_XDR_H

/**
 * @file
 * XDR streams that know of chunks: the Payload stream of a message, reduced (draft s4.4.2).
 *
 * Encoding removes eligible items, which are found by the address and length with which XDR
 * routines hand them over; arrays and optional data by the brackets of weft/rpc_xdr.h, because
 * XDR's own routines tell a stream of no addresses. Decoding puts items back: by position in the
 * unreduced stream (Read chunks), or as eligible results come along, each from the next Write chunk
 * (which have no position). XDR's roundup of an item that is moved is nowhere: not in the stream,
 * not in the chunk (s4.5.2.4, s4.5.3.1).
 *
 * Neither kind offers xdr_inline(), so that every octet passes here. A decoder reads nothing beyond
 * what it was given. weft_rpc_xdr_lend() gives octets away where they lie.
 */

#include <weft/rpcrdma.h>

/* ---- Encoding ---- */

/** A message being encoded. Zero it, set max_bytes and items, then rpcrdma_out_open(). */
struct rpcrdma_out {
	uint8_t *buf;       /**< grows; the caller's to free */
	uint32_t len_bytes; /**< of the reduced stream */
	uint32_t cap_bytes;
	uint32_t max_bytes; /**< of the unreduced one */
	/** To be removed when met: in this order, or out of it. A WEFT_RPC_XDR that was met is its
	 * XDR from then on. */
	struct weft_rpc_item items[WEFT_RPC_MAX_ITEMS];
	unsigned int nitems;
	/** Where the item belongs in the unreduced stream; UINT32_MAX: it was not met. */
	uint32_t pos[WEFT_RPC_MAX_ITEMS];
	uint32_t removed_bytes; /**< roundup included: unreduced length less len_bytes */
	uint32_t pad_bytes;     /**< roundup of the item just removed, still to be swallowed */
	bool inside;            /**< an item that is being removed: it has none inside of it */
	/** XDR of items that are no octets; freed with the rest */
	uint8_t *moved[WEFT_RPC_MAX_ITEMS];
	/** -EMSGSIZE, -ENOMEM, -EAGAIN (`more`): why a routine that failed did */
	int error;
	/** NULL, or whether n octets more may be taken from the heap. */
	bool (*more)(void *owner, uint64_t n);
	void *owner;
};

/** Empty streams are not made: the first octet needs memory, and may fail. */
void rpcrdma_out_open(struct rpcrdma_out *o, XDR *xdr);
void rpcrdma_out_free(struct rpcrdma_out *o);

/* ---- Decoding ---- */

/** An item that came by a chunk. */
struct rpcrdma_in_item {
	const uint8_t *data;
	uint32_t len_bytes;
	uint32_t where; /**< position in the unreduced stream, or nth of weft_rpc_sink */
	/** by_order: the chunk had room, and so must be used when its turn comes */
	bool offered;
	/* where it went: octets or, with brackets, the array or optional data; NULL: into
	 * something else */
	const void *to;
	bool is_xdr;
};

/** A message being decoded; set all but the last, then rpcrdma_in_open(). */
struct rpcrdma_in {
	const uint8_t *buf; /**< the reduced stream */
	uint32_t len_bytes;
	/** by growing `where`; by_order: all Write chunks */
	struct rpcrdma_in_item items[WEFT_RPC_MAX_ITEMS];
	unsigned int nitems;
	/** items are results: `where` counts opaques and brackets, unless placed() tells */
	bool by_order;
	/** of the binding, or NULL */
	unsigned int (*placed)(const void *res, struct weft_rpc_item *items);
	const void *res;
	/* its own */
	uint32_t at_bytes;      /**< in the reduced stream */
	uint32_t pos_bytes;     /**< in the unreduced one */
	unsigned int next;      /**< item */
	uint32_t in_item_bytes; /**< taken of that item already */
	uint32_t pad_bytes;     /**< roundup behind an item, not in the stream */
	uint32_t opaques;       /**< that were not empty, and brackets, so far */
	uint32_t zeros;         /**< words of zero so far, of results */
	uint32_t last_bytes;    /**< of the opaque just read, whose roundup may come */
	bool counting;
	unsigned int depth;      /**< brackets around what is read */
	unsigned int open;       /**< item, from 1, that a bracket is about; 0: none */
	unsigned int open_depth; /**< of that bracket */
	uint32_t open_bytes;     /**< where it began */
};

void rpcrdma_in_open(struct rpcrdma_in *in, XDR *xdr);
/** From here on opaques are counted: results begin, and are decoded into res. */
void rpcrdma_in_results(struct rpcrdma_in *in, const void *res);
/** Whether every item was taken whole and nothing of the stream is left. */
bool rpcrdma_in_drained(const struct rpcrdma_in *in);
/** Of decoded arguments: each item is one that the binding (or NULL) names (RFC 8166 s6.1). */
bool rpcrdma_in_args_ok(const struct rpcrdma_in *in, const struct weft_rpc_binding *b,
                        const void *args);
/** Of decoded results: no Write chunk came filled that none of them had a use for (RFC 8166 s6.1).
 */
bool rpcrdma_in_results_ok(const struct rpcrdma_in *in);

#endif /* RPCRDMA_XDR_H */
