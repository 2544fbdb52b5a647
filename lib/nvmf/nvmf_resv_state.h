/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NVMF_RESV_STATE_H
#define NVMF_RESV_STATE_H

/**
 * @file What a reservation is, and how commands change it (NVMe Base 2.0 s8.19): a state without
 * threads, memory of its own or a medium. A command changes a copy, which takes the place of the
 * state when it is durable.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NVMF_RESV_HOSTS       64U /**< registrants of a volume */
#define NVMF_RESV_HEAD_BYTES  48U /**< of a saved state; then 24 for each registrant, and a CRC */
#define NVMF_RESV_SAVED_BYTES (NVMF_RESV_HEAD_BYTES + 24U * NVMF_RESV_HOSTS + 4U)

/** RTYPE. */
enum nvmf_resv_type {
	NVMF_RESV_NONE,
	NVMF_RESV_WRITE,      /**< Write Exclusive */
	NVMF_RESV_ACCESS,     /**< Exclusive Access */
	NVMF_RESV_WRITE_REG,  /**< Write Exclusive - Registrants Only */
	NVMF_RESV_ACCESS_REG, /**< Exclusive Access - Registrants Only */
	NVMF_RESV_WRITE_ALL,  /**< Write Exclusive - All Registrants */
	NVMF_RESV_ACCESS_ALL, /**< Exclusive Access - All Registrants */
	NVMF_RESV_TYPES
};

/** RREGA, RACQA, RRELA: actions of the commands Register, Acquire, Release. */
enum {
	NVMF_RREGA_REGISTER,
	NVMF_RREGA_UNREGISTER,
	NVMF_RREGA_REPLACE,

	NVMF_RACQA_ACQUIRE = 0,
	NVMF_RACQA_PREEMPT,
	NVMF_RACQA_PREEMPT_ABORT,

	NVMF_RRELA_RELEASE = 0,
	NVMF_RRELA_CLEAR,
};

/** What a host is told of what others have done: types of the notification log page. */
enum nvmf_resv_notice {
	NVMF_NOTICE_NONE,
	NVMF_NOTICE_UNREGISTERED, /**< Registration Preempted */
	NVMF_NOTICE_RELEASED,     /**< Reservation Released */
	NVMF_NOTICE_PREEMPTED,    /**< Reservation Preempted */
};

struct nvmf_registrant {
	uint8_t hostid[16];
	uint64_t key;
};

struct nvmf_resv_state {
	uint32_t generation; /**< GEN */
	uint8_t type;        /**< enum nvmf_resv_type */
	bool persist;        /**< PTPL: it survives a restart */
	uint32_t holder;     /**< of hosts: which one holds it, unless all registrants do */
	uint32_t hosts;
	struct nvmf_registrant host[NVMF_RESV_HOSTS];
};

/** What other hosts are to be told of one command: each at most one thing. */
struct nvmf_resv_told {
	uint32_t n;
	struct {
		uint8_t hostid[16];
		uint8_t notice;
	} at[NVMF_RESV_HOSTS];
};

/** A command, of a host. */
struct nvmf_resv_cmd {
	const uint8_t *hostid;
	uint32_t action;     /**< RREGA, RACQA, RRELA */
	bool ignore_key;     /**< IEKEY */
	uint8_t type;        /**< RTYPE */
	uint64_t key, other; /**< CRKEY; NRKEY or PRKEY */
};

/* Each returns a status; with another one than success the state is half changed, and is to be
 * dropped. told: is filled. */
uint16_t nvmf_resv_register(struct nvmf_resv_state *r, const struct nvmf_resv_cmd *cmd,
                            struct nvmf_resv_told *told);
uint16_t nvmf_resv_acquire(struct nvmf_resv_state *r, const struct nvmf_resv_cmd *cmd,
                           struct nvmf_resv_told *told);
uint16_t nvmf_resv_release(struct nvmf_resv_state *r, const struct nvmf_resv_cmd *cmd,
                           struct nvmf_resv_told *told);

/** What a host may do. NULL: one that is no registrant, for example a client of the target. */
enum nvmf_resv_may {
	NVMF_MAY_ALL,
	NVMF_MAY_READ, /**< commands of the read group */
	NVMF_MAY_NOTHING,
};
enum nvmf_resv_may nvmf_resv_may(const struct nvmf_resv_state *r, const uint8_t *hostid);
/** The registrant of this host; NVMF_RESV_HOSTS: none. */
uint32_t nvmf_resv_find(const struct nvmf_resv_state *r, const uint8_t *hostid);
/** Whether registrant i holds the reservation. */
bool nvmf_resv_holds(const struct nvmf_resv_state *r, uint32_t i);

/** Write the state of a volume for nvmf_resv_load(). Returns how many octets. */
size_t nvmf_resv_save(const struct nvmf_resv_state *r, const uint8_t uuid[16],
                      uint8_t out[NVMF_RESV_SAVED_BYTES]);
/** -EBADMSG: it is not whole, is of another volume, or says what cannot be. */
int nvmf_resv_load(const uint8_t *in, size_t bytes, const uint8_t uuid[16],
                   struct nvmf_resv_state *out);

#endif /* NVMF_RESV_STATE_H */
