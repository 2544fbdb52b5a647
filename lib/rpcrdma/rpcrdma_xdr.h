/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RPCRDMA_XDR_H
#define RPCRDMA_XDR_H

/**
 * @file
 * XDR streams that know of chunks: the Payload stream of a message, reduced (draft s4.4.2).
 *
 * Encoding removes eligible items, which are found by the address and length with which XDR routines
 * hand them over. Decoding puts items back: by position in the unreduced stream (Read chunks), or by their
 * order among the opaques of the results (Write chunks, which have no position). XDR's roundup
 * of an item that is moved is nowhere: not in the stream, not in the chunk (s4.5.2.4, s4.5.3.1).
 *
 * Neither kind offers xdr_inline(), so that every octet passes here. A decoder reads nothing beyond
 * what it was given.
 */

#include "weft_rpcrdma.h"

/* ---- Encoding ---- */

/** A message being encoded. Zero it, set max_bytes and items, then rpcrdma_out_open(). */
struct rpcrdma_out {
	uint8_t *buf;        /**< grows; the caller's to free */
	uint32_t len_bytes;  /**< of the reduced stream */
	uint32_t cap_bytes;
	uint32_t max_bytes;  /**< of the unreduced one */
	/** To be removed when met: in this order, or out of it. */
	struct weft_rpc_item items[WEFT_RPC_MAX_ITEMS];
	unsigned int nitems;
	/** Where the item belongs in the unreduced stream; UINT32_MAX: it was not met. */
	uint32_t pos[WEFT_RPC_MAX_ITEMS];
	uint32_t removed_bytes; /**< roundup included: unreduced length less len_bytes */
	uint32_t pad_bytes;     /**< roundup of the item just removed, still to be swallowed */
	int error;              /**< -EMSGSIZE, -ENOMEM: why a routine that failed did */
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
};

/** A message being decoded; set all but the last, then rpcrdma_in_open(). */
struct rpcrdma_in {
	const uint8_t *buf; /**< the reduced stream */
	uint32_t len_bytes;
	struct rpcrdma_in_item items[WEFT_RPC_MAX_ITEMS]; /**< by growing `where` */
	unsigned int nitems;
	bool by_order; /**< `where` counts opaques, from count_from on */
	/* its own */
	uint32_t at_bytes;    /**< in the reduced stream */
	uint32_t pos_bytes;   /**< in the unreduced one */
	unsigned int next;    /**< item */
	uint32_t in_item_bytes; /**< taken of that item already */
	uint32_t pad_bytes;   /**< roundup behind an item, not in the stream */
	uint32_t opaques;     /**< that were not empty, so far */
	uint32_t last_bytes;  /**< of the opaque just read, whose roundup may come */
	bool counting;
};

void rpcrdma_in_open(struct rpcrdma_in *in, XDR *xdr);
/** From here on opaques are counted: results begin. */
void rpcrdma_in_results(struct rpcrdma_in *in);
/** Whether every item was taken whole and nothing of the stream is left. */
bool rpcrdma_in_drained(const struct rpcrdma_in *in);

#endif /* RPCRDMA_XDR_H */
