/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NVMF_PRIV_H
#define NVMF_PRIV_H

/**
 * @file What the sources of the NVMe-oF target share: its objects. From below: nvmf_wire.c (codec),
 * nvmf_share.c (shares of memory), nvmf_loss.c (unflushed writes of hosts), nvmf_resv_state.c and
 * nvmf_resv.c (reservations of volumes), nvmf_cmd.c (a command's memory, data and answer),
 * nvmf_event.c (asynchronous events), nvmf_target.c (target, hosts, listeners), nvmf_ana.c (paths),
 * nvmf_ns.c (namespaces), nvmf_ctrl.c (life of a controller), nvmf_resv_cmd.c, nvmf_identify.c,
 * nvmf_features.c, nvmf_log.c, nvmf_io.c and nvmf_fused.c (commands), nvmf_admin.c (their table),
 * nvmf_dhchap.c, nvmf_auth_job.c and nvmf_auth.c (hosts that prove their names), nvmf_fabrics.c
 * (Connect, properties), nvmf_queue.c (queues), nvmf_group.c (a worker's part). nvmf_cmd.h:
 * functions for commands.
 *
 * Who may touch a field: "lock": with the target's lock; "group": the thread of the group; what is
 * atomic, any thread; what is not marked, constant after its creation.
 */

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/queue.h>

#include "nvmf_ana.h"
#include "nvmf_resv.h"
#include "nvmf_share.h"
#include "nvmf_slot.h"
#include "weft_nvmf.h"
#include "weft_nvmf_transport.h"
#include "weft_staging.h"

#define NVMF_MIN(a, b)     ((a) < (b) ? (a) : (b))
#define NVMF_MAX(a, b)     ((a) > (b) ? (a) : (b))
#define NVMF_ADMIN_DEPTH   32U
#define NVMF_AERS          4U    /**< AERL + 1 */
#define NVMF_ABORTS        4U    /**< ACL + 1 */
#define NVMF_ERRORS        16U   /**< entries of the error log: ELPE + 1 */
#define NVMF_KAS_MS        1000U /**< unit of the Keep Alive time: KAS is 10 */
#define NVMF_MAX_LISTENERS 32U
#define NVMF_CHUNK_BYTES   131072U /**< of a Verify that reads into memory */
#define NVMF_CNTLID_MAX    0xffefU
#define NVMF_NS_PER_MS     1000000ULL
#define NVMF_RETRY_MS      2000U /**< CRDT1: how long a host waits that can (ACRE) */
#define NVMF_VERSION       0x00010400U

/** A host that may use a subsystem. */
struct nvmf_host {
	LIST_ENTRY(nvmf_host) link;
	char nqn[WEFT_NVMF_NQN_BYTES];
};

/** A group's way to a namespace. */
struct nvmf_at {
	LIST_ENTRY(nvmf_at) link;   /**< group: of those that are attached */
	struct weft_vol_chan *chan; /**< group */
	bool leaving;               /**< group: no command begins until it is attached again */
	uint64_t leave_ns;          /**< group: when that was seen first; 0: it was not yet */
	_Atomic uint32_t under_way; /**< commands of the group; a remover reads it */
	_Atomic bool attached;
	/** Writes may wait for the medium for ever: a part of the memory is others'. */
	struct weft_staging_group memory; /**< group */
	/** group: operations that the volume has ended, how many there were at the last look, and
	 * since when there are no more */
	uint64_t ended, seen, seen_ns;
	_Atomic uint64_t reads, writes, read_bytes, written_bytes, media_errors;
};

/** A namespace. It is made at the first use of its NSID, and ends with the subsystem. */
struct nvmf_ns {
	struct weft_nvmf_subsys *subsys;
	uint32_t nsid;
	/** Whether commands find it. What follows changes only while it is not. */
	_Atomic bool active;
	bool present; /**< lock: it was added, and is not wholly removed */
	struct weft_nvmf_ns_attr attr;
	struct weft_vol_info info;
	uint64_t blocks;
	uint32_t lba_shift;
	bool vwc;                       /**< an answered write may be lost until it is flushed */
	_Atomic bool read_only;         /**< of the configuration; changes at any time */
	struct nvmf_resv *resv;         /**< of its volume */
	TAILQ_ENTRY(nvmf_ns) resv_link; /**< lock: while it is present */
	struct nvmf_ana_ns ana;
	struct nvmf_at at[WEFT_NVMF_MAX_GROUPS];
};

struct weft_nvmf_subsys {
	LIST_ENTRY(weft_nvmf_subsys) link;
	struct weft_nvmf *target;
	char nqn[WEFT_NVMF_NQN_BYTES], serial[21], model[41];
	bool discovery;
	bool any_host;                /**< lock */
	bool ending;                  /**< lock */
	bool proven_only;             /**< lock: weft_nvmf_proven_only() */
	LIST_HEAD(, nvmf_host) hosts; /**< lock */
	struct weft_nvmf_auth *auth;  /**< lock: nauth of them */
	uint32_t nauth;               /**< lock */
	uint8_t auth_least;           /**< lock: the least group that hosts may take */
	/** lock: of its hosts; and how many are of hosts without a controller (nvmf_loss.h) */
	TAILQ_HEAD(, nvmf_losses) losses;
	uint32_t losses_kept;
	uint32_t max_nsid;
	struct nvmf_ana_subsys ana;
	uint32_t ctrls;                /**< lock */
	_Atomic(struct nvmf_ns *) *ns; /**< max_nsid of them, each is set once */
};

/** An entry of the error log (NVMe Base 2.0 s5.16.1.2). */
struct nvmf_error {
	uint64_t count, lba;
	uint32_t nsid;
	uint16_t sqid, cid, status;
};

/** A controller's part in a group: its share of memory, and what it has done. group */
struct nvmf_ctrl_at {
	uint32_t queues;
	struct weft_staging_client client;
	_Atomic uint64_t commands, errors, read_bytes, written_bytes;
};

enum nvmf_ctrl_state {
	NVMF_CTRL_OFF,      /**< CC.EN is 0; I/O queues may still be ending */
	NVMF_CTRL_READY,    /**< I/O queues may connect */
	NVMF_CTRL_SHUTDOWN, /**< I/O queues end; volumes are flushed */
	NVMF_CTRL_DEAD,     /**< all its queues end */
};

struct nvmf_ctrl {
	LIST_ENTRY(nvmf_ctrl) link;    /**< lock: of the target */
	LIST_ENTRY(nvmf_ctrl) at_link; /**< group of the admin queue */
	struct weft_nvmf *target;
	struct weft_nvmf_subsys *subsys;
	uint16_t cntlid;
	char hostnqn[WEFT_NVMF_NQN_BYTES];
	uint8_t hostid[16];
	struct weft_nvmf_group *group; /**< of the admin queue */
	_Atomic uint32_t state;        /**< changed with the lock */
	_Atomic bool traffic;          /**< a command came since the timer was started */
	_Atomic bool write_through;    /**< the host has switched the write cache off */
	_Atomic bool delays;           /**< it waits before it sends again (ACRE) */
	struct weft_nvmf_queue *admin; /**< lock */
	struct weft_nvmf_queue **ioq;  /**< lock: granted ones, by QID - 1 */
	uint32_t io_queues;            /**< lock: connected */
	bool had_io_queue;             /**< lock: since it was enabled */
	/** lock: NSIDs whose change the host was not told, and whether all of that is lost */
	uint8_t changed[WEFT_NVMF_MAX_NSID / 8 + 1];
	_Atomic bool ns_changed, log_changed;
	struct nvmf_ana_ctrl ana;
	struct nvmf_ctrl_at at[WEFT_NVMF_MAX_GROUPS];

	/* group of the admin queue */
	uint32_t cc;
	_Atomic uint32_t kato_ms;
	_Atomic uint32_t granted; /**< I/O queues; 0: the host has not asked */
	bool shut;                /**< the shutdown is complete */
	bool shut_asked;          /**< a shutdown was asked for, */
	uint32_t shut_ns;         /**< and volumes up to this NSID are flushed */
	bool shut_busy;
	bool shut_lost;          /**< one of these flushes has failed */
	struct nvmf_ns *shut_at; /**< whose volume shut_op flushes, */
	uint64_t shut_mark;      /**< and the changes that it covers */
	struct weft_vol_op shut_op;
	uint64_t due_ns; /**< Keep Alive; UINT64_MAX: never */
	uint32_t events_on;
	uint32_t features[16]; /**< by FID, those that are stored */
	struct nvmf_slot *aer[NVMF_AERS];
	uint32_t aers;
	bool ns_masked, log_masked; /**< the host has not read the log since its event */

	struct nvmf_losses *losses;  /**< of its host; NULL: discovery */
	struct nvmf_ctrl_resv *resv; /**< likewise */
	pthread_mutex_t lock;        /**< of what follows; nothing is called with it held */
	struct nvmf_error error[NVMF_ERRORS];
	uint64_t errors;
};

struct weft_nvmf_queue {
	TAILQ_ENTRY(weft_nvmf_queue) link; /**< group */
	struct weft_nvmf_group *group;
	struct weft_nvmf_queue_attr attr;
	_Atomic bool doomed; /**< the group is to close it */
	_Atomic uint64_t commands, errors;
	struct nvmf_ctrl *ctrl;   /**< NULL: not connected */
	struct nvmf_share *share; /**< of its host's address; NULL: it has none */
	uint16_t qid;
	/* group */
	bool closing, lost;
	bool in_command; /**< it cannot end now */
	bool no_flow;    /**< SQHD is not told */
	uint32_t size;   /**< SQSIZE + 1; before Connect the depth */
	uint16_t sqhd;
	uint32_t under_way; /**< commands that are not answered */
	uint32_t slots;     /**< that exist */
	uint64_t since_ns;
	struct nvmf_auth *auth;                /**< NULL: its host need not prove its name */
	const struct weft_nvmf_proven *proven; /**< NULL: its connection proves nothing */
	struct nvmf_slots busy, idle;
	struct nvmf_slot *fused; /**< the first of two, whose second has not come */
};

struct weft_nvmf_group {
	struct weft_nvmf *target;
	struct weft_nvmf_group_attr attr;
	uint32_t index;
	struct weft_staging *memory;
	/** Of queues before Connect. */
	struct weft_staging_client connecting;
	struct nvmf_shares shares;
	_Atomic bool attention; /**< a flag of a queue or controller was set */
	TAILQ_HEAD(, weft_nvmf_queue) queues;
	uint32_t nqueues;
	LIST_HEAD(, nvmf_ctrl) ctrls; /**< whose admin queue is here */
	LIST_HEAD(, nvmf_at) attached;
	uint64_t now_ns, next_ns;
	bool given;       /**< memory was given back: others may wait for it */
	uint64_t stop_ns; /**< when what is under way ends at the latest; 0: the group is not
	                        stopped */
	struct nvmf_group_resv resv;
	TAILQ_HEAD(, nvmf_auth) auth_done; /**< lock of the jobs */
	_Atomic uint64_t commands, errors, memory_waits, protocol_errors, events, told_lost;
	_Atomic uint64_t room_waits;
};

struct weft_nvmf {
	struct weft_nvmf_attr attr;
	pthread_mutex_t lock;
	/* lock */
	LIST_HEAD(, weft_nvmf_subsys) subsystems;
	LIST_HEAD(, nvmf_ctrl) ctrls;
	LIST_HEAD(, nvmf_resv) resvs;
	struct weft_nvmf_subsys discovery;
	struct weft_nvmf_group *groups[WEFT_NVMF_MAX_GROUPS];
	struct weft_nvmf_listener listeners[NVMF_MAX_LISTENERS];
	uint32_t nlisteners;
	uint64_t generation; /**< of the discovery log */
	uint32_t queues;
	struct nvmf_auth_jobs *auth_jobs; /**< NULL: without random numbers */
	struct weft_nvmf_stats stats;     /**< what is counted with the lock */
};

static inline void
nvmf_lock(struct weft_nvmf *t)
{
	pthread_mutex_lock(&t->lock);
}

static inline void
nvmf_unlock(struct weft_nvmf *t)
{
	pthread_mutex_unlock(&t->lock);
}

#endif /* NVMF_PRIV_H */
