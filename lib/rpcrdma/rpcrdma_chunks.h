/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RPCRDMA_CHUNKS_H
#define RPCRDMA_CHUNKS_H

/** @file The chunk lists of a header: segments, chunks, and how they are put together. */

#include <stdbool.h>
#include <stdint.h>

#define RPCRDMA_SEGMENT_BYTES 16

/*
 * Limits of one header. A message with more gets a verdict MANY_*; the excess is counted and not
 * kept. A peer's own receives hold less, because 64 segments fill 1 KiB.
 */
#define RPCRDMA_MAX_READ_CHUNKS  16 /**< in a Read list, the Call chunk not counted */
#define RPCRDMA_MAX_WRITE_CHUNKS 16 /**< in a Write list, the Reply chunk not counted */
#define RPCRDMA_MAX_SEGS         64 /**< in all lists of a header together, and so in one chunk */

/** Draft s4.4.1, RFC 8166 s3.4.3: registered memory of the requester. */
struct rpcrdma_segment {
	uint32_t handle; /**< STag */
	uint32_t len_bytes;
	uint64_t offset; /**< tagged offset */
};

/** Segments with one purpose: a run in rpcrdma_chunks.segs. */
struct rpcrdma_chunk {
	uint32_t position;  /**< of a Read chunk, in the unreduced payload; else 0 */
	uint16_t first;     /**< index of its first segment */
	uint16_t n_segs;    /**< 0: an empty Write chunk, or no chunk */
	uint64_t len_bytes; /**< sum of its segments; a Write chunk with segments and 0 is unused */
};

/**
 * The chunk lists of a call or a reply; copied by assignment. Read chunks are in the order of their
 * positions, each position once, whatever the order in a version 1 message.
 */
struct rpcrdma_chunks {
	/** version 2 calls: may be invalidated by the reply (s6.5); 0: none */
	uint32_t inv_handle;
	uint16_t n_reads, n_writes;
	uint16_t n_segs;
	bool has_reply; /**< a Reply chunk, which may be empty */
	/** the whole message, to be read: Call chunk, or Position Zero Read chunk of version 1;
	 * n_segs 0: none */
	struct rpcrdma_chunk call;
	struct rpcrdma_chunk reply; /**< room for the reply, or its written length */
	struct rpcrdma_chunk reads[RPCRDMA_MAX_READ_CHUNKS];
	struct rpcrdma_chunk writes[RPCRDMA_MAX_WRITE_CHUNKS];
	struct rpcrdma_segment segs[RPCRDMA_MAX_SEGS];
};

/*
 * Chunks into a header being built. 0; -ENOSPC beyond the RPCRDMA_MAX_*; -EINVAL for what the texts
 * forbid: a Read chunk without segments, at position 0, at one that is no multiple of four or not
 * behind the one before; a second Call or Reply chunk. Nothing changes on an error.
 */
int weft_rpcrdma_call_set(struct rpcrdma_chunks *c, const struct rpcrdma_segment *segs,
                          unsigned int n);
int weft_rpcrdma_read_add(struct rpcrdma_chunks *c, uint32_t position,
                          const struct rpcrdma_segment *segs, unsigned int n);
/** n 0: an empty Write chunk. */
int weft_rpcrdma_write_add(struct rpcrdma_chunks *c, const struct rpcrdma_segment *segs,
                           unsigned int n);
int weft_rpcrdma_reply_set(struct rpcrdma_chunks *c, const struct rpcrdma_segment *segs,
                           unsigned int n);

static inline const struct rpcrdma_segment *
weft_rpcrdma_segs(const struct rpcrdma_chunks *c, const struct rpcrdma_chunk *k)
{
	return &c->segs[k->first];
}

/**
 * The Write list and, `with_reply`, the Reply chunk of a call, into a reply's empty lists, as the
 * requester gave them: still to be filled. A reply returns every one of them (draft s4.5.2.1).
 */
void weft_rpcrdma_chunks_return(struct rpcrdma_chunks *reply, const struct rpcrdma_chunks *call,
                                bool with_reply);
/**
 * Set the length written to a chunk: its segments are filled in order, the rest is empty (draft
 * s4.5.2.1, RFC 8166 s3.4.6); 0 makes it unused. Returns the octets that did not fit.
 */
uint64_t weft_rpcrdma_chunk_fill(struct rpcrdma_chunks *c, struct rpcrdma_chunk *k,
                                 uint64_t len_bytes);

#endif /* RPCRDMA_CHUNKS_H */
