/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_OFFLOAD_H
#define WEFT_OFFLOAD_H

/** @file What a port may do in place of weft. Installed; stands alone. */

/**
 * An offload of a port. What the port does not offer, or may not do, weft does itself: no offload
 * changes what is sent or received, beyond what an incorrect device does.
 */
enum weft_offload {
	/** check the checksums of received IPv4 headers and TCP segments */
	WEFT_OFFLOAD_RX_CHECKSUM = 1 << 0,
	/** fill in the checksums of sent ones */
	WEFT_OFFLOAD_TX_CHECKSUM = 1 << 1,
	/** cut what is handed over at once into TCP segments; needs TX_CHECKSUM and GATHER */
	WEFT_OFFLOAD_TSO = 1 << 2,
	WEFT_OFFLOAD_SCATTER = 1 << 3, /**< spread a received frame over several buffers */
	WEFT_OFFLOAD_GATHER = 1 << 4,  /**< send a frame from several buffers */
	WEFT_OFFLOAD_RSS = 1 << 5,     /**< distribute segments over workers, by their hash */
	WEFT_OFFLOAD_VLAN_STRIP = 1 << 6,
	WEFT_OFFLOAD_VLAN_INSERT = 1 << 7,
	/** let frames of the port's VLAN pass, and no others */
	WEFT_OFFLOAD_VLAN_FILTER = 1 << 8,
	WEFT_OFFLOAD_ALL = (1 << 9) - 1,
};

#endif /* WEFT_OFFLOAD_H */
