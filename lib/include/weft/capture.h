/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_CAPTURE_H
#define WEFT_CAPTURE_H

/**
 * @file
 * Packet capture of a live port, on and off at any time: pcapng, as tshark and wireshark read it.
 * Installed; stands alone.
 *
 * The polling threads copy what matches into a queue and never wait for the file: what a thread of
 * the capture's own does not write in time is dropped and counted, the traffic is not held up.
 */

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include <weft/api.h>
#include <weft/worker.h>

WEFT_API_BEGIN

struct weft_capture_attr {
	size_t size;            /**< sizeof(struct weft_capture_attr) */
	const char *path;       /**< a regular file, written anew, readable by the owner alone */
	uint32_t snaplen_bytes; /**< [0: a frame of the MTU] octets kept of a packet */
	/** [0: no limit] of the file; what comes later is dropped and counted */
	uint64_t max_bytes;
	/** [2048] that may wait for the file; rounded up to a power of two, at most 65536 */
	uint32_t queue_packets;
	/**
	 * One connection, or what begins or ends at one address or port: local is ours, remote the
	 * peer's. ss_family 0: any; a port of 0: any. With neither given, every packet is captured,
	 * ARP and Neighbor Discovery included.
	 */
	struct sockaddr_storage local, remote;
};

struct weft_capture_stats {
	uint64_t packets; /**< in the file */
	uint64_t file_bytes;
	uint64_t dropped; /**< matched, and are not in the file */
	int error;        /**< 0, or -errno of the write that ended the file early */
};

/**
 * Begin. A port has one capture at most, whoever began it: a program and telemetry's clients share
 * it, so there is no handle. Any thread but the port's polling ones, as for all of these. -EBUSY
 * (the port has one), -ENOMEM, -EINVAL (also: not a regular file), and what open() answers.
 */
int weft_capture_start(struct weft_port *port, const struct weft_capture_attr *attr);
/** End: what waits is written, the file is closed. *st (may be NULL) gets the figures. -ENOENT:
 * there is none. -EINVAL: no port. */
int weft_capture_stop(struct weft_port *port, struct weft_capture_stats *st);
/** Figures so far. -ENOENT: there is none. -EINVAL: no port, no st. */
int weft_capture_stats(struct weft_port *port, struct weft_capture_stats *st);

WEFT_API_END

#endif /* WEFT_CAPTURE_H */
