/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NVMF_TCP_WIRE_H
#define NVMF_TCP_WIRE_H

/**
 * @file The PDUs of the NVMe/TCP transport (NVMe TCP Transport Specification 1.0 s3.6) in host
 * order. All integers on the wire are little-endian. A PDU is: a header of HLEN octets, whose first
 * eight are common to all; its digest, if header digests are on; padding up to PDO; data; the
 * data's digest, if data digests are on and there is data. PLEN counts all of it. A digest is the
 * CRC32c of the header, or of the data without the padding.
 *
 * A decoder takes a whole header and never looks behind it. What a peer has wrong is a *fault*: the
 * Fatal Error Status and its information (FEI) of a C2HTermReq. Pure functions, any thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#define NVMF_TCP_CH_BYTES      8U   /**< common header */
#define NVMF_TCP_IC_BYTES      128U /**< ICReq, ICResp */
#define NVMF_TCP_CMD_BYTES     72U  /**< header of CapsuleCmd */
#define NVMF_TCP_RESP_BYTES    24U  /**< of CapsuleResp */
#define NVMF_TCP_DATA_BYTES    24U  /**< of H2CData, C2HData */
#define NVMF_TCP_R2T_BYTES     24U
#define NVMF_TCP_TERM_BYTES    24U
#define NVMF_TCP_HEADER_MAX    128U /**< longest header */
#define NVMF_TCP_DIGEST_BYTES  4U
#define NVMF_TCP_TERM_ECHO_MAX 128U /**< octets of the faulty header behind that of a TermReq */
#define NVMF_TCP_HPDA_MAX      31U
/** Octets of data that a capsule of an admin queue, and Connect's, may have (s3.4.2). */
#define NVMF_TCP_ADMIN_INLINE_BYTES 8192U
/** The least MAXH2CDATA of an ICResp. */
#define NVMF_TCP_MAXH2CDATA_MIN 4096U

enum nvmf_tcp_type {
	NVMF_TCP_ICREQ = 0x00,
	NVMF_TCP_ICRESP = 0x01,
	NVMF_TCP_H2C_TERM = 0x02,
	NVMF_TCP_C2H_TERM = 0x03,
	NVMF_TCP_CAPSULE_CMD = 0x04,
	NVMF_TCP_CAPSULE_RESP = 0x05,
	NVMF_TCP_H2C_DATA = 0x06,
	NVMF_TCP_C2H_DATA = 0x07,
	NVMF_TCP_R2T = 0x09,
};

/** Flags of the common header. */
enum {
	NVMF_TCP_HDGST = 0x01,   /**< the header's digest is there */
	NVMF_TCP_DDGST = 0x02,   /**< the data's digest is there */
	NVMF_TCP_LAST = 0x04,    /**< H2CData: the last of an R2T. C2HData: of a command */
	NVMF_TCP_SUCCESS = 0x08, /**< C2HData: no CapsuleResp follows */
};

/** Fatal Error Status (s3.6.2.3). */
enum nvmf_tcp_fes {
	NVMF_TCP_FES_NONE = 0,
	NVMF_TCP_FES_FIELD = 1,       /**< FEI: offset of the field in the header */
	NVMF_TCP_FES_SEQUENCE = 2,    /**< this PDU may not come now */
	NVMF_TCP_FES_DIGEST = 3,      /**< FEI: the digest that came */
	NVMF_TCP_FES_RANGE = 4,       /**< data beyond what was asked for, or out of order */
	NVMF_TCP_FES_LIMIT = 5,       /**< more data than a PDU may have */
	NVMF_TCP_FES_UNSUPPORTED = 6, /**< FEI: offset of the parameter */
};

/** Offsets of fields, for FEI. */
enum {
	NVMF_TCP_AT_TYPE = 0,
	NVMF_TCP_AT_FLAGS = 1,
	NVMF_TCP_AT_HLEN = 2,
	NVMF_TCP_AT_PDO = 3,
	NVMF_TCP_AT_PLEN = 4,
	NVMF_TCP_AT_PFV = 8,
	NVMF_TCP_AT_PDA = 10,
	NVMF_TCP_AT_DGST = 11,
	NVMF_TCP_AT_MAX = 12,
	NVMF_TCP_AT_CCCID = 8,
	NVMF_TCP_AT_TTAG = 10,
	NVMF_TCP_AT_DATAO = 12,
	NVMF_TCP_AT_DATAL = 16,
};

struct nvmf_tcp_fault {
	enum nvmf_tcp_fes fes; /**< NONE: there is no fault */
	uint32_t fei;
};

/** What both sides have agreed on, and what this side allows. */
struct nvmf_tcp_rules {
	bool hdgst, ddgst;      /**< digests are on */
	uint32_t capsule_bytes; /**< most data of a CapsuleCmd */
	uint32_t data_bytes;    /**< most data of an H2CData: MAXH2CDATA */
};

/** The common header, and where the parts of the PDU are. */
struct nvmf_tcp_ch {
	uint8_t type, flags, hlen, pdo;
	uint32_t plen;
	uint32_t head_bytes; /**< header and its digest */
	uint32_t pad_bytes;  /**< behind them */
	uint32_t data_bytes; /**< behind these */
	uint32_t tail_bytes; /**< digest of the data */
};

/** ICReq and ICResp. */
struct nvmf_tcp_ic {
	uint16_t pfv;
	uint8_t pda; /**< HPDA of ICReq, CPDA of ICResp: data is aligned to (pda + 1) * 4 octets */
	bool hdgst, ddgst;
	uint32_t max; /**< ICReq: MAXR2T, 0-based. ICResp: MAXH2CDATA */
};

/** H2CData and C2HData. */
struct nvmf_tcp_data {
	uint16_t cccid, ttag; /**< no ttag in C2HData */
	uint32_t off_bytes, len_bytes;
};

/**
 * The common header of a PDU that a host sends. Types of controllers, and reserved ones, are faults
 * of the type. Of a fault *out has the fields, and no places.
 */
struct nvmf_tcp_fault nvmf_tcp_ch_decode(const uint8_t in[NVMF_TCP_CH_BYTES],
                                         const struct nvmf_tcp_rules *r, struct nvmf_tcp_ch *out);
/** The rest of an ICReq. */
struct nvmf_tcp_fault nvmf_tcp_icreq_decode(const uint8_t in[NVMF_TCP_IC_BYTES],
                                            struct nvmf_tcp_ic *out);
/** The rest of an H2CData whose common header is *ch. */
struct nvmf_tcp_fault nvmf_tcp_h2c_data_decode(const uint8_t in[NVMF_TCP_DATA_BYTES],
                                               const struct nvmf_tcp_ch *ch,
                                               struct nvmf_tcp_data *out);
/** Why a host ends the connection. Any value may be there. */
struct nvmf_tcp_fault nvmf_tcp_term_decode(const uint8_t in[NVMF_TCP_TERM_BYTES]);

void nvmf_tcp_icresp_encode(const struct nvmf_tcp_ic *ic, uint8_t out[NVMF_TCP_IC_BYTES]);
/**
 * A C2HTermReq with the header of the faulty PDU behind it, of which at most
 * NVMF_TCP_TERM_ECHO_MAX octets are taken. Returns its length.
 */
size_t nvmf_tcp_term_encode(const struct nvmf_tcp_fault *fault, const uint8_t *header, size_t bytes,
                            uint8_t out[NVMF_TCP_TERM_BYTES + NVMF_TCP_TERM_ECHO_MAX]);
/* Those that follow have the header's digest behind them if it is on, and return their length. */
size_t nvmf_tcp_resp_encode(const struct nvmf_tcp_rules *r, const uint8_t cqe[16],
                            uint8_t out[NVMF_TCP_RESP_BYTES + NVMF_TCP_DIGEST_BYTES]);
size_t nvmf_tcp_r2t_encode(const struct nvmf_tcp_rules *r, const struct nvmf_tcp_data *d,
                           uint8_t out[NVMF_TCP_R2T_BYTES + NVMF_TCP_DIGEST_BYTES]);
/** C2HData: flags of LAST and SUCCESS. hpda: the host's alignment. The length has the padding; PLEN
 * has the data and its digest, which the caller sends behind it. */
size_t nvmf_tcp_c2h_data_encode(const struct nvmf_tcp_rules *r, const struct nvmf_tcp_data *d,
                                uint8_t flags, uint8_t hpda, uint8_t out[NVMF_TCP_HEADER_MAX]);

/** A digest: begin with NVMF_TCP_CRC_INIT, take all octets, and store ~crc. */
#define NVMF_TCP_CRC_INIT 0xffffffffU
uint32_t nvmf_tcp_crc(uint32_t crc, const void *p, size_t bytes);
/** The digest of `bytes` octets, as it is on the wire (a little-endian integer). */
uint32_t nvmf_tcp_digest(const void *p, size_t bytes);

#endif /* NVMF_TCP_WIRE_H */
