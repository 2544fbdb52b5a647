/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NVMF_RIG_H
#define NVMF_RIG_H

/**
 * @file An NVMe-oF target on volumes in memory, and hosts behind a transport without a network:
 * capsules are calls, and a host's memory is read and written at once, or when a test says.
 */

#include "nvmf_host.h"
#include "volume_rig.h"
#include "weft_nvmf.h"
#include "weft_nvmf_transport.h"

#include <stdatomic.h>

#define NV_GROUPS  2
#define NV_ANSWERS 64
#define NV_HOST    "nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555"
#define NV_OTHER   "nqn.2014-08.org.nvmexpress:uuid:99999999-2222-3333-4444-555555555555"
#define NV_SUBSYS  "nqn.2026-01.org.example:disk"

/** Keys of hosts' memory. */
#define NV_KEY 0x68d3fb01U

struct nv {
	struct rig vol; /**< channel i belongs to group i */
	struct weft_nvmf *target;
	struct weft_nvmf_subsys *subsys;
	struct weft_nvmf_group *group[NV_GROUPS];
	uint8_t *memory[NV_GROUPS];
	atomic_uint wakes; /**< by any thread */
	/** before nv_start() */
	struct weft_nvmf_attr attr;
	struct weft_nvmf_ns_attr ns; /**< NSID 1, unless it is 0 */
	bool sums;                   /**< the volume has checksums */
	uint64_t seed;               /**< of the device "fault"; 0: "mem" */
	uint64_t disk_bytes;         /**< 0: 4 MiB */
	uint32_t disk_block;         /**< 0: 512 */
	uint64_t staging_bytes;      /**< 0: the least */
	enum weft_nvmf_ana_state ana;
	uint16_t cntlid_min, cntlid_max;
	uint8_t host; /**< of the Connects that follow: the last octet of HOSTID */
};

/** A queue of a host. */
struct nv_queue {
	struct nv *nv;
	struct weft_nvmf_queue *q;
	struct weft_nvmf_cqe answer[NV_ANSWERS]; /**< in the order of their coming */
	unsigned int answers;
	uint32_t invalidated;   /**< key of the last answer that was to invalidate one */
	unsigned int capsules;  /**< that the target holds */
	unsigned int under_way; /**< pulls and answers that the transport holds */
	bool hold_pulls, hold_answers;
	struct weft_nvmf_cmd *pull[NV_ANSWERS], *send[NV_ANSWERS];
	unsigned int pulls, sends;
	bool spoil; /**< the data of the next capsule is damaged on its way */
	bool closed, gone;
	uint16_t cid;
	uint16_t cntlid; /**< of the last Connect with success */
	uint64_t result; /**< of the last nv_do() */
	uint16_t sqhd;
	uint32_t inline_bytes;
};

/** Device, volume, target, subsystem with any host, namespace 1 on all groups. */
void nv_start(struct nv *n);
/** All is gone, and nothing is left. */
void nv_end(struct nv *n);
/** Poll volumes and groups once: a microsecond. */
void nv_poll(struct nv *n);
/** What the thread of a group sees: nv_poll() polls this group alone. Taken before any thread of
 * the target starts, as it is a copy. */
void nv_of_thread(const struct nv *n, unsigned int group, struct nv *out);
/** Let time pass, in one step, and poll twice. */
void nv_pass(struct nv *n, uint64_t ms);

/** A connection to a group, without Connect. */
void nv_open(struct nv *n, unsigned int group, struct nv_queue *q);
/** The host ends it; waits until the target has let go. */
void nv_close(struct nv_queue *q);
/** The host takes the answers that were held; no more are held. */
void nv_take(struct nv_queue *q);

/** A command for all that follows: opcode, NSID, CDW10 to 12. */
struct weft_nvmf_sqe nv_sqe(uint8_t opcode, uint32_t nsid, uint32_t cdw10, uint32_t cdw11,
                            uint32_t cdw12);
/** Its data is in the host's memory; NULL: it has none. */
void nv_keyed(struct weft_nvmf_sqe *sqe, void *data, uint32_t bytes);
/** Send it with a new CID. The capsule has inline_bytes octets of `data` behind it. Returns the
 * result of weft_nvmf_command(). */
int nv_send(struct nv_queue *q, struct weft_nvmf_sqe *sqe, const void *data, size_t inline_bytes);
/** Wait for the answer to a CID. Returns its status. */
uint16_t nv_wait(struct nv_queue *q, uint16_t cid);
/** Whether it has come. */
bool nv_answered(struct nv_queue *q, uint16_t cid, uint16_t *status);
/** Send and wait. */
uint16_t nv_do(struct nv_queue *q, struct weft_nvmf_sqe *sqe, void *data, uint32_t bytes);

/** Connect. sqsize is 0-based. */
uint16_t nv_connect(struct nv_queue *q, const char *subnqn, const char *hostnqn, uint16_t cntlid,
                    uint16_t qid, uint16_t sqsize, uint32_t kato_ms);
uint16_t nv_property_get(struct nv_queue *q, uint32_t at, bool eight, uint64_t *value);
uint16_t nv_property_set(struct nv_queue *q, uint32_t at, uint64_t value);
/** As Linux does it: an admin queue that is enabled; discovery: of the discovery subsystem. */
void nv_admin(struct nv *n, unsigned int group, struct nv_queue *q, const char *subnqn);
/** An I/O queue of the controller. */
void nv_io(struct nv *n, unsigned int group, struct nv_queue *q, const struct nv_queue *admin,
           uint16_t qid);
/** Identify. */
uint16_t nv_identify(struct nv_queue *q, uint32_t cns, uint32_t nsid, uint8_t page[4096]);
/** Get Log Page. */
uint16_t nv_log(struct nv_queue *q, uint8_t lid, bool rae, uint64_t off, void *data,
                uint32_t bytes);
/** Read, Write, Compare of n blocks of 512 or 4096 octets. */
uint16_t nv_rw(struct nv_queue *q, uint8_t opcode, uint64_t slba, uint32_t n, void *data,
               uint32_t bytes, uint32_t flags);

#endif /* NVMF_RIG_H */
