/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TCP_HOST_H
#define TCP_HOST_H

/**
 * @file A host that speaks NVMe/TCP to the target of nvmf_rig.h, over two stacks on a simulated
 * link: node 0 is the host, node 1 the target. It has its own codec, and judges every PDU that it
 * gets.
 */

#include "nvmf_rig.h"
#include "nvmf_tcp_wire.h"
#include "tls_client.h"
#include "vt_tcp.h"
#include "weft_nvmf_tcp.h"

#define TH_CMDS    32U
#define TH_PORT    4420
#define TH_STEP_NS 50000
#define TH_STEPS   100000

/** Both stacks and the target. */
struct th {
	struct vt t;
	struct nv n;
	struct weft_nvmf_tcp *tcp;
	struct weft_stream_listener *lsn;
	struct weft_nvmf_tcp_attr attr;    /**< before th_start() */
	uint64_t staging_bytes;            /**< likewise; 0: 16 MiB */
	uint64_t seed;                     /**< likewise; of the device "fault"; 0: "mem" */
	uint32_t from;                     /**< address of the next connection; 0: its own */
	int accepted;                      /**< of the last weft_nvmf_tcp_accept() */
	unsigned int refusals;             /**< weft_nvmf_tcp_attr.refused was called */
	char why[WEFT_NVMF_TCP_WHY_BYTES]; /**< by its last call */
	bool frozen;                       /**< the transport is not polled */
};

/** A command of a host. */
struct th_cmd {
	bool busy, answered;
	bool in;     /**< data comes from the host */
	bool inside; /**< in the capsule */
	uint8_t *data;
	uint32_t bytes, moved_bytes;
	/** an R2T that was not served yet */
	bool asked;
	uint16_t ttag;
	uint32_t asked_off, asked_left;
	bool success; /**< answered by the flag SUCCESS */
	struct weft_nvmf_cqe cqe;
};

/** A queue of a host. */
struct th_q {
	struct th *h;
	struct vt_tcp p;
	struct tls_client *tls; /**< the host has TLS */
	bool cut;               /**< its last octet goes with what is sent next */
	bool kept;
	uint8_t last;
	bool hdgst, ddgst; /**< asked for */
	uint8_t hpda;
	bool no_flow; /**< Connect switches SQ flow control off */
	/** Octets of an H2CData; 0: all that was asked for. */
	uint32_t h2c_bytes;
	bool hold; /**< R2Ts are served by th_serve() alone */
	struct nvmf_tcp_ic ic;
	bool ready;
	bool termed;
	struct nvmf_tcp_fault term;
	uint32_t echo_bytes;
	uint16_t cntlid;
	uint64_t result;
	unsigned int r2ts, data_pdus, successes;
	/** The next PDU that is sent has a wrong digest. */
	bool spoil_head, spoil_data;
	struct th_cmd cmd[TH_CMDS];
};

void th_start(struct th *h, const struct sim_link_cfg *link);
/** A moment on both sides. */
void th_step(struct th *h);
/** Hosts are gone, and so is all of theirs at the target. */
void th_end(struct th *h);

/** Connect, without a PDU. What is set in *q before stays. */
void th_open(struct th *h, struct th_q *q);
/** Send octets, by TLS if the host has it. */
void th_out(struct th_q *q, const void *p, size_t bytes);
/** With TLS: give what has come to it, and send what it has to send. */
void th_pump(struct th_q *q);
/** ICReq, and wait for the ICResp; before it the handshake of TLS. */
void th_init(struct th_q *q);
/** A queue as Linux makes it: ICReq, Connect in the capsule. */
void th_queue(struct th *h, struct th_q *q, uint16_t qid, uint16_t cntlid);
void th_enable(struct th_q *q);
/** Reset the connection. */
void th_close(struct th_q *q);

/** Send a header and data, with digests as agreed. pdo: 0: the least. */
void th_pdu(struct th_q *q, uint8_t *head, uint8_t hlen, uint8_t flags, uint8_t pdo,
            const void *data, uint32_t bytes);
/** Send a command. Returns its CID. */
uint16_t th_send(struct th_q *q, struct weft_nvmf_sqe *sqe, void *data, uint32_t bytes,
                 bool inside);
/** Look at what has come. */
void th_look(struct th_q *q);
/** Serve a part of an R2T of this command. */
void th_serve(struct th_q *q, uint16_t cid, uint32_t bytes);
uint16_t th_wait(struct th_q *q, uint16_t cid);
uint16_t th_do(struct th_q *q, struct weft_nvmf_sqe sqe, void *data, uint32_t bytes);
/** Wait for the end of the connection. */
void th_wait_end(struct th_q *q);
/** Read, Write, Compare ... of this many octets. */
struct weft_nvmf_sqe th_rw(uint8_t opcode, uint32_t slba, uint32_t bytes);

#endif /* TCP_HOST_H */
