/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_NVMF_WIRE_H
#define WEFT_NVMF_WIRE_H

/**
 * @file The octets of NVM Express: commands, answers, SGL descriptors and Connect's data, as NVMe
 * Base 2.0, NVM Command Set 1.0 and NVMe over Fabrics 1.1 lay them out. All integers are
 * little-endian. Decoders take what a peer has sent and never look behind its length; a peer's
 * fault is a status of NVMe, or -EPROTO where no command can be told from what came.
 *
 * The callers are lib/nvmf and its transports. Any thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEFT_NVMF_SQE_BYTES     64U
#define WEFT_NVMF_CQE_BYTES     16U
#define WEFT_NVMF_CONNECT_BYTES 1024U
#define WEFT_NVMF_NQN_BYTES     224U /**< longest NQN, 223 octets, and a zero */
#define WEFT_NVMF_PAGE_BYTES    4096U
#define WEFT_NVMF_NSID_ALL      0xffffffffU
#define WEFT_NVMF_DISCOVERY_NQN "nqn.2014-08.org.nvmexpress.discovery"

/** Status of a command: SC 7:0, SCT 10:8, DNR 14 (the field of the answer without its phase). */
#define WEFT_NVMF_SC(sct, sc) ((uint16_t)((sct) << 8 | (sc)))
#define WEFT_NVMF_CRD1        0x0800U /**< send it again after CRDT1 */
#define WEFT_NVMF_DNR         0x4000U /**< the same command will fail again */

enum weft_nvmf_status {
	WEFT_NVMF_OK = 0,
	WEFT_NVMF_INVALID_OPCODE = WEFT_NVMF_SC(0, 0x01),
	WEFT_NVMF_INVALID_FIELD = WEFT_NVMF_SC(0, 0x02),
	WEFT_NVMF_TRANSFER_ERROR = WEFT_NVMF_SC(0, 0x04),
	WEFT_NVMF_INTERNAL = WEFT_NVMF_SC(0, 0x06),
	WEFT_NVMF_ABORTED = WEFT_NVMF_SC(0, 0x07),
	WEFT_NVMF_FUSED_FAILED = WEFT_NVMF_SC(0, 0x09),
	WEFT_NVMF_FUSED_MISSING = WEFT_NVMF_SC(0, 0x0a),
	WEFT_NVMF_INVALID_NS = WEFT_NVMF_SC(0, 0x0b),
	WEFT_NVMF_SEQUENCE = WEFT_NVMF_SC(0, 0x0c),
	WEFT_NVMF_SGL_LENGTH = WEFT_NVMF_SC(0, 0x0f),
	WEFT_NVMF_SGL_TYPE = WEFT_NVMF_SC(0, 0x11),
	WEFT_NVMF_ATOMIC_EXCEEDED = WEFT_NVMF_SC(0, 0x14),
	WEFT_NVMF_SGL_OFFSET = WEFT_NVMF_SC(0, 0x16),
	WEFT_NVMF_KATO_INVALID = WEFT_NVMF_SC(0, 0x1a),
	WEFT_NVMF_INTERRUPTED = WEFT_NVMF_SC(0, 0x21),
	WEFT_NVMF_TRANSPORT_ERROR = WEFT_NVMF_SC(0, 0x22), /**< Transient Transport Error */
	WEFT_NVMF_HOSTID_FORMAT = WEFT_NVMF_SC(0, 0x24),
	WEFT_NVMF_LBA_RANGE = WEFT_NVMF_SC(0, 0x80),
	WEFT_NVMF_CAPACITY = WEFT_NVMF_SC(0, 0x81),
	WEFT_NVMF_NS_NOT_READY = WEFT_NVMF_SC(0, 0x82),
	WEFT_NVMF_CONFLICT = WEFT_NVMF_SC(0, 0x83), /**< Reservation Conflict */
	WEFT_NVMF_AER_LIMIT = WEFT_NVMF_SC(1, 0x05),
	WEFT_NVMF_INVALID_LOG = WEFT_NVMF_SC(1, 0x09),
	WEFT_NVMF_NOT_SAVEABLE = WEFT_NVMF_SC(1, 0x0d),
	WEFT_NVMF_NOT_CHANGEABLE = WEFT_NVMF_SC(1, 0x0e),
	WEFT_NVMF_CONNECT_FORMAT = WEFT_NVMF_SC(1, 0x80), /**< these five: Connect's */
	WEFT_NVMF_CONNECT_BUSY = WEFT_NVMF_SC(1, 0x81),
	WEFT_NVMF_CONNECT_PARAM = WEFT_NVMF_SC(1, 0x82), /**< and of properties */
	WEFT_NVMF_CONNECT_HOST = WEFT_NVMF_SC(1, 0x84),
	WEFT_NVMF_AUTH_REQUIRED = WEFT_NVMF_SC(1, 0x91),
	WEFT_NVMF_READ_ONLY = WEFT_NVMF_SC(1, 0x82), /**< of I/O commands */
	WEFT_NVMF_WRITE_FAULT = WEFT_NVMF_SC(2, 0x80),
	WEFT_NVMF_READ_FAULT = WEFT_NVMF_SC(2, 0x81),
	WEFT_NVMF_COMPARE_FAILED = WEFT_NVMF_SC(2, 0x85),
	WEFT_NVMF_ANA_NO_ACCESS = WEFT_NVMF_SC(3, 0x02), /**< asymmetric access: inaccessible */
	WEFT_NVMF_ANA_CHANGES = WEFT_NVMF_SC(3, 0x03),   /**< transition */
};

/** Opcodes: of Fabrics commands, and those of the admin and the NVM command set that are served. */
enum {
	WEFT_NVMF_OP_FABRICS = 0x7f,
	WEFT_NVMF_FC_PROPERTY_SET = 0x00,
	WEFT_NVMF_FC_CONNECT = 0x01,
	WEFT_NVMF_FC_PROPERTY_GET = 0x04,
	WEFT_NVMF_FC_AUTH_SEND = 0x05,
	WEFT_NVMF_FC_AUTH_RECEIVE = 0x06,

	WEFT_NVMF_ADMIN_GET_LOG = 0x02,
	WEFT_NVMF_ADMIN_IDENTIFY = 0x06,
	WEFT_NVMF_ADMIN_ABORT = 0x08,
	WEFT_NVMF_ADMIN_SET_FEATURES = 0x09,
	WEFT_NVMF_ADMIN_GET_FEATURES = 0x0a,
	WEFT_NVMF_ADMIN_AER = 0x0c,
	WEFT_NVMF_ADMIN_KEEP_ALIVE = 0x18,

	WEFT_NVMF_IO_FLUSH = 0x00,
	WEFT_NVMF_IO_WRITE = 0x01,
	WEFT_NVMF_IO_READ = 0x02,
	WEFT_NVMF_IO_COMPARE = 0x05,
	WEFT_NVMF_IO_WRITE_ZEROES = 0x08,
	WEFT_NVMF_IO_DSM = 0x09,
	WEFT_NVMF_IO_VERIFY = 0x0c,
	WEFT_NVMF_IO_RESV_REGISTER = 0x0d,
	WEFT_NVMF_IO_RESV_REPORT = 0x0e,
	WEFT_NVMF_IO_RESV_ACQUIRE = 0x11,
	WEFT_NVMF_IO_RESV_RELEASE = 0x15,
};

/** Identify's CNS, features, log pages, properties. */
enum {
	WEFT_NVMF_CNS_NS = 0x00,
	WEFT_NVMF_CNS_CTRL = 0x01,
	WEFT_NVMF_CNS_ACTIVE = 0x02,
	WEFT_NVMF_CNS_DESCRIPTORS = 0x03,

	WEFT_NVMF_FEAT_ARBITRATION = 0x01,
	WEFT_NVMF_FEAT_POWER = 0x02,
	WEFT_NVMF_FEAT_TEMPERATURE = 0x04,
	WEFT_NVMF_FEAT_ERROR_RECOVERY = 0x05,
	WEFT_NVMF_FEAT_WRITE_CACHE = 0x06,
	WEFT_NVMF_FEAT_QUEUES = 0x07,
	WEFT_NVMF_FEAT_WRITE_ATOMICITY = 0x0a,
	WEFT_NVMF_FEAT_EVENTS = 0x0b,
	WEFT_NVMF_FEAT_KATO = 0x0f,
	WEFT_NVMF_FEAT_HOST_BEHAVIOR = 0x16,
	WEFT_NVMF_FEAT_HOST_ID = 0x81,
	WEFT_NVMF_FEAT_RESV_MASK = 0x82,
	WEFT_NVMF_FEAT_RESV_PERSIST = 0x83,

	WEFT_NVMF_LOG_ERROR = 0x01,
	WEFT_NVMF_LOG_SMART = 0x02,
	WEFT_NVMF_LOG_FIRMWARE = 0x03,
	WEFT_NVMF_LOG_CHANGED_NS = 0x04,
	WEFT_NVMF_LOG_EFFECTS = 0x05,
	WEFT_NVMF_LOG_ANA = 0x0c,
	WEFT_NVMF_LOG_DISCOVERY = 0x70,
	WEFT_NVMF_LOG_RESV = 0x80,

	WEFT_NVMF_PROP_CAP = 0x00,
	WEFT_NVMF_PROP_VS = 0x08,
	WEFT_NVMF_PROP_CC = 0x14,
	WEFT_NVMF_PROP_CSTS = 0x1c,
};

#define WEFT_NVMF_CC_EN         0x1U
#define WEFT_NVMF_CC_SHN        0xc000U
#define WEFT_NVMF_CSTS_RDY      0x1U
#define WEFT_NVMF_CSTS_CFS      0x2U
#define WEFT_NVMF_CSTS_SHST_ON  0x4U /**< the shutdown occurs */
#define WEFT_NVMF_CSTS_SHST_END 0x8U /**< it is complete */

/** Where a command's data is. */
enum weft_nvmf_sgl_kind {
	WEFT_NVMF_SGL_NONE,      /**< a descriptor of length 0 */
	WEFT_NVMF_SGL_CAPSULE,   /**< behind the SQE, in the capsule: `addr` is the offset there */
	WEFT_NVMF_SGL_KEYED,     /**< in the host's memory: `key`, `addr` */
	WEFT_NVMF_SGL_TRANSPORT, /**< wherever the transport has it */
};

struct weft_nvmf_sgl {
	enum weft_nvmf_sgl_kind kind;
	uint32_t bytes;
	uint64_t addr;
	uint32_t key;
	bool invalidate; /**< KEYED: the host asks that the answer invalidates the key */
};

/** A submission queue entry in host order. */
struct weft_nvmf_sqe {
	uint8_t opcode;
	uint8_t fctype; /**< of Fabrics commands */
	uint8_t fuse;   /**< 0; 1: the first of two, 2: the second */
	uint8_t psdt;   /**< 1: an SGL */
	uint16_t cid;
	uint32_t nsid;
	uint32_t cdw[16]; /**< cdw[10] is CDW10 */
};

/** An answer. */
struct weft_nvmf_cqe {
	uint64_t result; /**< DW0, and DW1 of Property Get */
	uint16_t sqhd, sqid, cid;
	uint16_t status; /**< WEFT_NVMF_SC(), WEFT_NVMF_DNR */
};

/** Connect's data. The NQNs end with a zero. */
struct weft_nvmf_connect {
	uint8_t hostid[16];
	uint16_t cntlid;
	char subnqn[WEFT_NVMF_NQN_BYTES];
	char hostnqn[WEFT_NVMF_NQN_BYTES];
};

static inline uint16_t
weft_nvmf_get16(const void *p)
{
	const uint8_t *b = p;

	return (uint16_t)(b[0] | b[1] << 8);
}

static inline uint32_t
weft_nvmf_get32(const void *p)
{
	const uint8_t *b = p;

	return weft_nvmf_get16(b) | (uint32_t)weft_nvmf_get16(b + 2) << 16;
}

static inline uint64_t
weft_nvmf_get64(const void *p)
{
	const uint8_t *b = p;

	return weft_nvmf_get32(b) | (uint64_t)weft_nvmf_get32(b + 4) << 32;
}

static inline void
weft_nvmf_put16(void *p, uint16_t v)
{
	uint8_t *b = p;

	b[0] = (uint8_t)v;
	b[1] = (uint8_t)(v >> 8);
}

static inline void
weft_nvmf_put32(void *p, uint32_t v)
{
	uint8_t *b = p;

	weft_nvmf_put16(b, (uint16_t)v);
	weft_nvmf_put16(b + 2, (uint16_t)(v >> 16));
}

static inline void
weft_nvmf_put64(void *p, uint64_t v)
{
	uint8_t *b = p;

	weft_nvmf_put32(b, (uint32_t)v);
	weft_nvmf_put32(b + 4, (uint32_t)(v >> 32));
}

/** -EPROTO: fewer than WEFT_NVMF_SQE_BYTES octets, so there is no command. */
int weft_nvmf_sqe_decode(const void *capsule, size_t bytes, struct weft_nvmf_sqe *out);
/**
 * SGL1 of a command. `kinds`: a bit (1 << kind) for each kind that the transport has. inline_bytes:
 * octets of the capsule behind the SQE. Returns a status: WEFT_NVMF_SGL_TYPE for a descriptor of
 * another type, WEFT_NVMF_SGL_OFFSET and WEFT_NVMF_SGL_LENGTH for octets that the capsule has not;
 * each with WEFT_NVMF_DNR.
 */
uint16_t weft_nvmf_sgl_decode(const struct weft_nvmf_sqe *sqe, uint32_t kinds, size_t inline_bytes,
                              struct weft_nvmf_sgl *out);
void weft_nvmf_cqe_encode(const struct weft_nvmf_cqe *cqe, uint8_t out[WEFT_NVMF_CQE_BYTES]);
/**
 * Connect's data. 0, or the offset of the field that is wrong: an NQN that is empty, or does not
 * end within WEFT_NVMF_NQN_BYTES octets; a host's NQN that is none. Other fields are of any value.
 */
uint32_t weft_nvmf_connect_decode(const uint8_t in[WEFT_NVMF_CONNECT_BYTES],
                                  struct weft_nvmf_connect *out);
/** Whether it is an NQN: "nqn.yyyy-mm.", a name behind it, at most 223 octets (NVMe Base s4.5). All
 * of them are printable ASCII without space, though the specification allows UTF-8: programs print
 * NQNs as they are. */
bool weft_nvmf_nqn_ok(const char *nqn);
/** The CRC-32 of IEEE 802.3, as in zlib: of what is small, and seldom. */
uint32_t weft_nvmf_crc32(const void *data, size_t bytes);

#endif /* WEFT_NVMF_WIRE_H */
