/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_NVMF_TCP_H
#define WEFT_NVMF_TCP_H

/**
 * @file The TCP transport of NVMe over Fabrics (NVMe TCP Transport Specification 1.0) on
 * weft/stream.h: connections of hosts become queues of one group of weft_nvmf.h. Hosts need no RDMA
 * device for it.
 *
 * A host's data is in the capsule, or comes for an R2T, one at a time for each command, straight
 * into the group's memory. The volume gets it when all of it is there and its digests are right.
 * Data for the host goes by C2HData; where the host has switched SQ flow control off, the last of
 * them is the answer, too. A host whose header, or the order of whose PDUs, is wrong gets a
 * C2HTermReq with the reason, and the connection ends. Data with a wrong digest fails its command
 * alone (Transient Transport Error).
 *
 * Memory. A connection has one capsule's memory while one arrives, and one for each command whose
 * data waits in its capsule for memory of the group; never more than its queue has entries. Data
 * that waits to be sent stays in the group's memory, in the share of its address.
 *
 * Time. A host that stops in the middle of a PDU, does not give what each R2T asks for, or does not
 * take what is sent, is reset after stall_ns.
 *
 * Turns. In a turn of the worker a connection sends at most 64 KiB, and all of them 128 KiB,
 * whatever was answered. The rest waits for weft_nvmf_tcp_poll() of another turn, in order.
 *
 * TLS. A host may bring TLS 1.3 with a pre-shared key of weft_nvmf_tls.h below all of that, or has
 * to: the first octet of a connection tells which. The key proves the names of host and subsystem,
 * which Connect has to repeat. Handshakes have places and a time of their own. When there is no
 * place, the oldest handshake of the address that has most of them gives way, unless that of the
 * new one has as many: an address of IPv4, or a /64 of IPv6. A host that is refused is told by an
 * alert, and the owner by a line.
 *
 * Thread: the worker's, as the group's, unless a function says otherwise. Nothing blocks.
 */

#include <stdint.h>

#include <weft/stream.h>
#include <weft/worker.h>

#include "weft_nvmf.h"
#include "weft_nvmf_tls.h"

struct sockaddr_storage;
struct weft_nvmf_tcp;

enum weft_nvmf_tcp_tls {
	WEFT_NVMF_TCP_TLS_OFF,      /**< a host that begins with TLS is refused */
	WEFT_NVMF_TCP_TLS_ALLOWED,  /**< hosts have it or not, as they like */
	WEFT_NVMF_TCP_TLS_REQUIRED, /**< a host without TLS is refused */
};

/** Texts of weft_nvmf_tcp_attr.refused are not longer, with their zero. */
#define WEFT_NVMF_TCP_WHY_BYTES 640U

struct weft_nvmf_tcp_attr {
	struct weft_worker *worker;
	struct weft_nvmf_group *group; /**< of the worker */
	uint32_t depth;      /**< of an I/O queue; weft_nvmf_attr.depth at least; 0: 128 */
	uint32_t data_bytes; /**< MAXH2CDATA: longest H2CData, 4 KiB at least; 0: 1 MiB */
	uint32_t max_conns;  /**< connections at once; 0: 256 */
	uint64_t stall_ns;   /**< see "Time"; 0: 30 s */
	enum weft_nvmf_tcp_tls tls;
	struct weft_nvmf_tls *keys; /**< tls other than OFF; outlives the transport */
	uint32_t max_handshakes;    /**< TLS handshakes at once; 0: 32 */
	uint64_t handshake_ns;      /**< time of a handshake; 0: 5 s */
	uint64_t key_bytes;         /**< data sent by one key of a connection; 0: 256 GiB */
	/** May be NULL. A host was refused, or its connection ended, because of TLS. why: one
	 * line, valid during the call. */
	void (*refused)(void *owner, const struct sockaddr_storage *remote, const char *why);
	void *owner;
};

struct weft_nvmf_tcp_stats {
	uint32_t conns;             /**< now */
	uint64_t accepted;          /**< connections */
	uint64_t rejected;          /**< reset at once: there were too many */
	uint64_t pdus_in, pdus_out; /**< whole ones */
	uint64_t r2ts, read_bytes;  /**< R2Ts, and what they brought */
	uint64_t sent_bytes;        /**< data of C2HData */
	uint64_t header_digests;    /**< headers with a wrong digest; each ends its connection */
	uint64_t data_digests;      /**< data with a wrong digest; each fails its command */
	uint64_t faults;            /**< C2HTermReqs that were sent, for whatever reason */
	uint64_t terms;             /**< H2CTermReqs that hosts have sent */
	uint32_t term_fes;          /**< Fatal Error Status of the last of these */
	uint64_t overruns; /**< connections that ended with more commands than their queue */
	uint64_t stalls;   /**< connections that were reset after stall_ns */
	uint64_t aborted;  /**< connections that were reset: their end took too long */
	/** Times that what a connection has to send waited for another turn of the worker. */
	uint64_t turn_waits;
	uint32_t tls_conns, tls_handshakes; /**< now: those with TLS, and that are in a handshake */
	uint64_t tls_done;                  /**< handshakes; of these, by the derivation COMPAT: */
	uint64_t tls_compat;
	uint64_t tls_failed;   /**< handshakes that failed, for whatever reason */
	uint64_t tls_expired;  /**< of these, those that took too long */
	uint64_t tls_busy;     /**< connections that were reset, new ones and old: max_handshakes */
	uint64_t tls_unwanted; /**< hosts that began with TLS, which is OFF */
	uint64_t tls_missing;  /**< hosts that began without TLS, which is REQUIRED */
	uint64_t tls_faults;   /**< connections that ended by a fault of TLS after the handshake */
	uint64_t tls_gone;     /**< connections that ended as their key is gone */
	uint64_t tls_alerts_in, tls_alerts_out;   /**< close_notify is none */
	uint64_t tls_updates_in, tls_updates_out; /**< KeyUpdates */
};

/** A set-up thread, or the worker's. -EINVAL: data_bytes or depth out of range, or TLS without
 * keys. -ENOMEM. */
int weft_nvmf_tcp_open(const struct weft_nvmf_tcp_attr *attr, struct weft_nvmf_tcp **out);
/** Does nothing for NULL. -EBUSY: there are connections. */
int weft_nvmf_tcp_close(struct weft_nvmf_tcp *t);
/**
 * A connection of a host, inside the accept callback of its listener; it has the callback's
 * meaning. remote: for weft_nvmf_tcp_attr.refused. -ENOSPC: max_conns, or the target's queues;
 * -ENOMEM: the stream is the caller's still.
 */
int weft_nvmf_tcp_accept(struct weft_nvmf_tcp *t, struct weft_stream *s,
                         const struct sockaddr_storage *remote);
/** Reset every connection in the next poll, whatever is under way. */
void weft_nvmf_tcp_abort(struct weft_nvmf_tcp *t);
/** Go on with what waits for a turn, and look at connections that end or stall. now_ns as
 * weft_worker_now_ns(). */
void weft_nvmf_tcp_poll(struct weft_nvmf_tcp *t, uint64_t now_ns);
/** When to poll at the latest; UINT64_MAX: never. */
uint64_t weft_nvmf_tcp_next_ns(const struct weft_nvmf_tcp *t);
void weft_nvmf_tcp_query(const struct weft_nvmf_tcp *t, struct weft_nvmf_tcp_stats *stats);

#endif /* WEFT_NVMF_TCP_H */
