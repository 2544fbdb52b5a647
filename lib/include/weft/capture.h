/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_CAPTURE_H
#define WEFT_CAPTURE_H

/**
 * @file Packet capture of a running port, in pcapng format (tshark and wireshark read it).
 * Installed; stands alone.
 *
 * A capture can be started and stopped at any time. The polling threads copy matching packets into
 * a queue. A thread of the capture writes the file. The polling threads never wait for the file: a
 * packet that finds the queue full is dropped from the capture and counted. Traffic is not delayed.
 */

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include <weft/api.h>
#include <weft/worker.h>

WEFT_API_BEGIN

struct weft_capture_attr {
	size_t size;            /**< sizeof(struct weft_capture_attr) */
	const char *path;       /**< a regular file, truncated; only the owner may read it */
	uint32_t snaplen_bytes; /**< [0: a frame of the MTU] octets kept of each packet */
	/** [0: no limit] size of the file; packets beyond it are dropped and counted */
	uint64_t max_bytes;
	/**
	 * [2048] packets that may wait for the file; rounded up to a power of two, at most 65536
	 */
	uint32_t queue_packets;
	/**
	 * Filter. local is the address and port of this side, remote those of the peer. ss_family 0
	 * matches any address; port 0 matches any port. With both given, one connection is
	 * captured. With neither given, every packet is captured, also ARP and Neighbor Discovery.
	 */
	struct sockaddr_storage local, remote;
	/**
	 * [0: any] RDMAP opcodes (RFC 5040 s4.3, RFC 7306 s4, draft-talpey-rdma-commit-02 s2): bit
	 * N stands for opcode N. Only segments with octets of an FPDU of one of these opcodes are
	 * captured, and those of a connection's MPA Request and Reply (RFC 5044 s7.1), without
	 * which programs that read the file do not recognize MPA. The capture follows the FPDUs of
	 * 512 directions of connections for each queue of the port, with and without markers, from
	 * the connection's start or from the first segment in which FPDUs can be recognised. Behind
	 * a lost or a late segment it does so again.
	 */
	uint32_t opcodes;
	/**
	 * [0: one file] A ring of so many files, at most WEFT_CAPTURE_FILES_MAX: path with ".0",
	 * ".1", ... behind it. A file that would be longer than max_bytes is closed, and the next
	 * one is begun. After the last one the first is written over. max_bytes is then required,
	 * and at least WEFT_CAPTURE_FILE_MIN.
	 */
	uint32_t ring_files;
	uint64_t port; /**< [0: any] filter: a TCP port of either end */
	/**
	 * [0] With opcodes: 1 captures also the segments of which the FPDUs are not known; 0 leaves
	 * them out.
	 */
	uint64_t keep_unknown;
};

#define WEFT_CAPTURE_FILES_MAX 1000
#define WEFT_CAPTURE_FILE_MIN  131072

struct weft_capture_stats {
	uint64_t packets; /**< written to the file */
	uint64_t file_bytes;
	uint64_t dropped; /**< matched, but not written to the file */
	int error;        /**< 0, or -errno of the write that ended the file early */
	/** files begun; with a ring, of which file_bytes and packets are the sums */
	uint64_t files;
	/**
	 * With opcodes: segments of which the FPDUs are not known, such as some that were sent
	 * again, or those between a hole and the next FPDU that can be recognised
	 */
	uint64_t unknown;
};

/**
 * Start a capture. A port has at most one capture. There is no handle: the program and telemetry's
 * clients share the capture. The functions of this header may be called from any thread, but
 * not from a thread that polls the port. Returns 0, or
 * - -EBUSY: the port has a capture
 * - -EINVAL: bad attributes, no port, or path is not a regular file
 * - -ENOMEM, and the errors of open(2)
 */
int weft_capture_start(struct weft_port *port, const struct weft_capture_attr *attr);
/**
 * Stop the capture. Waiting packets are written and the file is closed before the function returns.
 * *st gets the final figures; st may be NULL. -ENOENT: no capture runs. -EINVAL: no port.
 */
int weft_capture_stop(struct weft_port *port, struct weft_capture_stats *st);
/**
 * Replace the filter of the running capture by that of attr (local, remote, port, opcodes,
 * keep_unknown); other
 * members are ignored. Packets of the moment in which this happens are not captured. -ENOENT: no
 * capture runs. -EINVAL: no port, or bad attributes.
 */
int weft_capture_filter(struct weft_port *port, const struct weft_capture_attr *attr);
/** Copy the figures so far to *st. -ENOENT: no capture runs. -EINVAL: no port, or st is NULL. */
int weft_capture_stats(struct weft_port *port, struct weft_capture_stats *st);

WEFT_API_END

#endif /* WEFT_CAPTURE_H */
