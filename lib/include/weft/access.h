/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_ACCESS_H
#define WEFT_ACCESS_H

/**
 * @file
 * The rights of a region or window: what its owner, and peers that know its STag, may do with it.
 * One list for all layers; weft_mr_reg() and others take them.
 */

#define WEFT_ACCESS_LOCAL_WRITE      0x01 /**< may be the sink of an RDMA Read or a receive */
#define WEFT_ACCESS_REMOTE_READ      0x02 /**< RDMA Read */
#define WEFT_ACCESS_REMOTE_WRITE     0x04 /**< RDMA Write and Atomic Write */
#define WEFT_ACCESS_REMOTE_ATOMIC    0x08 /**< FetchAdd and CmpSwap; independent of the others */
#define WEFT_ACCESS_FLUSH_PERSISTENT 0x10 /**< Flush with WEFT_FLUSH_PERSISTENT */
#define WEFT_ACCESS_FLUSH_VISIBLE    0x20 /**< Flush with WEFT_FLUSH_VISIBLE */
/** Verify. Requires REMOTE_READ as well, because the hash of one octet reveals the octet. */
#define WEFT_ACCESS_VERIFY  0x40
#define WEFT_ACCESS_MW_BIND 0x80 /**< memory windows may be bound to it */

#endif /* WEFT_ACCESS_H */
