/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_NVMF_H
#define WEFT_NVMF_H

/**
 * @file NVMe over Fabrics controllers, whose namespaces are volumes (lib/volume). Linux hosts and
 * others use a volume as a disk. docs/nvmeof.md says what is served. Transports are below
 * weft_nvmf_transport.h; this file knows none of them.
 *
 * Objects. A *target* (struct weft_nvmf) has *subsystems*, each with a name (NQN), hosts that may
 * use it and *namespaces*, and the discovery subsystem, which shows a host what it may use. A
 * *group* is one worker's part of the target: queues, staging memory, and the channels to volumes
 * that live there. A *controller* comes into being by a host's Connect of an admin queue, and has
 * I/O queues on any groups.
 *
 * Threads. A group belongs to its worker's thread, and so does each queue. The calls with a target,
 * a subsystem or a namespace may be made by any thread. They take the target's lock, which a worker
 * takes for a Connect, the end of a queue, an admin command and a reservation command, and never
 * for I/O. What one worker asks of another (a controller whose host is silent ends the queues of
 * all workers) is a flag in the other group, and the call of its `wake`.
 *
 * Memory. All data is staged: a write is read from the host into staging memory as a whole, and
 * only then goes to the volume, so neither other commands nor the medium see half of a logical
 * block because a host died. The memory of a group is the limit of what is under way there; an
 * address of hosts has one share of it (lib/volume's weft_staging.h), and leaves room to others. A
 * command has about 5 KiB of state, kept by its queue.
 *
 * Durability. A controller always says that it has a volatile write cache (VWC): a host asks for
 * that once, and a namespace whose medium has one may come later. An answered write is durable
 * after a Flush, or with FUA, or when the host has switched the cache off. When a flush was lost,
 * the next Flush of each host with unflushed writes fails, on whatever controller of that host. On
 * a medium without a volatile cache each write is durable when it is answered.
 */

#include <stdbool.h>
#include <stdint.h>

#include "weft_nvmf_auth.h"
#include "weft_nvmf_listener.h"
#include "weft_nvmf_resv.h"
#include "weft_nvmf_stats.h"
#include "weft_nvmf_wire.h"
#include "weft_volume_core.h"

struct weft_nvmf;
struct weft_nvmf_group;
struct weft_nvmf_subsys;

#define WEFT_NVMF_MAX_GROUPS 64U
#define WEFT_NVMF_MAX_DEPTH  1024U
#define WEFT_NVMF_MAX_NSID   1024U

/* ---- Target ---- */

struct weft_nvmf_attr {
	/** Controllers at once, 1 to 4096; 0: 64. A quarter of them may be for discovery. */
	uint32_t max_ctrls;
	uint32_t max_queues;    /**< queues at once, admin queues included; 0: 1024 */
	uint32_t max_io_queues; /**< of one controller, 1 to 64; 0: 16 */
	uint32_t depth;         /**< of an I/O queue, 16 to 1024; 0: 128 */
	uint32_t mdts_bytes;    /**< longest transfer: a power of 2, 4 KiB to 1 MiB; 0: 1 MiB */
	/** Data in a capsule of an I/O queue: a multiple of 16, up to 64 KiB; 0: 4096. */
	uint32_t inline_bytes;
	/** A queue without Connect ends after connect_ns (0: 10 s); a discovery controller without
	 * Keep Alive, and a controller that was shut down, after discovery_ns (0: 120 s). */
	uint64_t connect_ns, discovery_ns;
	/** A namespace that a group is to detach waits so long for hosts that do not give a
	 * command's data or take its answer; then their queues are closed. 0: 1 s. */
	uint64_t leave_ns;
	/** A host that does not give a command's data, or take its answer, for so long keeps
	 * memory. While another address has none, and waits for it, its queues are closed: those
	 * of the address that has most go first. 0: 5 s. */
	uint64_t keep_ns;
	char firmware[9]; /**< FR of Identify: the version */
	/** change NULL: reservations end with the target, and are of hosts alone. */
	struct weft_nvmf_resv_ops resv;
	/** Random octets for challenges; NULL: weft_nvmf_auth_set() is refused. 0 or -errno. */
	int (*random)(void *to, size_t bytes);
};

/** -EINVAL: attributes out of range. -ENOMEM. */
int weft_nvmf_create(const struct weft_nvmf_attr *attr, struct weft_nvmf **out);
/** Does nothing for NULL. -EBUSY: a group is open. Subsystems end with it. */
int weft_nvmf_destroy(struct weft_nvmf *t);
void weft_nvmf_query_stats(struct weft_nvmf *t, struct weft_nvmf_stats *stats);

/* ---- Subsystems, hosts ---- */

/** What hosts are told of this path to the namespaces of a subsystem (ANA). */
enum weft_nvmf_ana_state {
	WEFT_NVMF_ANA_OFF, /**< nothing: there is no asymmetric access */
	WEFT_NVMF_ANA_OPTIMIZED,
	WEFT_NVMF_ANA_NON_OPTIMIZED, /**< use it where there is no optimized one */
	WEFT_NVMF_ANA_INACCESSIBLE,  /**< use another path; commands are refused */
};

struct weft_nvmf_subsys_attr {
	const char *nqn;
	/** Serial number, 1 to 20 printable characters. It stays the same after a restart, else
	 * hosts take it for another subsystem. */
	const char *serial;
	const char *model; /**< up to 40; NULL: "weft" */
	bool any_host;     /**< every host may use it */
	uint32_t max_nsid; /**< 1 to WEFT_NVMF_MAX_NSID; 0: 32 */
	/** Not OFF: while the target cannot reach a namespace, it is inaccessible here. */
	enum weft_nvmf_ana_state ana;
	/** Numbers of its controllers, 1 to FFEFh; 0: all. Two targets that are paths to one
	 * subsystem have ranges that do not overlap. */
	uint16_t cntlid_min, cntlid_max;
};

/** -EINVAL: a name, a serial number or a limit is wrong. -EEXIST. -ENOMEM. */
int weft_nvmf_subsys_add(struct weft_nvmf *t, const struct weft_nvmf_subsys_attr *attr,
                         struct weft_nvmf_subsys **out);
/**
 * Remove it. -EAGAIN: its controllers are being ended, which takes polls of their groups; no host
 * connects any more; call again.
 */
int weft_nvmf_subsys_remove(struct weft_nvmf_subsys *s);
/** -EINVAL: no NQN. -EEXIST. -ENOMEM. */
int weft_nvmf_host_allow(struct weft_nvmf_subsys *s, const char *hostnqn);
/** The host's controllers of this subsystem are ended, even if any_host is set. -ENOENT: it was not
 * in the list. */
int weft_nvmf_host_deny(struct weft_nvmf_subsys *s, const char *hostnqn);
/** Change weft_nvmf_subsys_attr.ana, which is not OFF. Hosts are told; commands under way end as
 * they began. -EINVAL. */
int weft_nvmf_ana(struct weft_nvmf_subsys *s, enum weft_nvmf_ana_state state);
/** Change weft_nvmf_subsys_attr.any_host. Controllers of hosts that may no longer use it end. */
void weft_nvmf_any_host(struct weft_nvmf_subsys *s, bool any);

/** Whether hosts use it only by connections that have proved their names, as those with TLS have.
 * Controllers whose admin queue has not end, and discovery leaves out listeners without TLS. */
void weft_nvmf_proven_only(struct weft_nvmf_subsys *s, bool only);

/* ---- Controllers ---- */

struct weft_nvmf_queue_info {
	uint16_t qid;
	uint32_t group; /**< number of its group */
	uint32_t size;  /**< entries */
	uint64_t commands, errors;
};

/** A controller, as it is now. What is counted is of all queues that it has had. */
struct weft_nvmf_ctrl_info {
	uint16_t cntlid;
	char hostnqn[WEFT_NVMF_NQN_BYTES], subnqn[WEFT_NVMF_NQN_BYTES];
	uint8_t hostid[16];
	const char *transport; /**< name of that of its admin queue */
	const char *state;     /**< "off", "ready", "shutdown", "ending" */
	bool discovery;
	bool tls;            /**< its queues are by TLS, which has proved its host's name */
	bool proves, proved; /**< its host has to prove its name, and has done so */
	uint32_t kato_ms;
	uint64_t commands, errors, read_bytes, written_bytes;
	uint32_t queues;
	struct weft_nvmf_queue_info queue[1 + 64]; /**< the admin queue is the first */
};

/** Call fn for each controller, with the target's lock held: it must not call the target, nor wait
 * for a worker. */
void weft_nvmf_each_ctrl(struct weft_nvmf *t,
                         void (*fn)(void *arg, const struct weft_nvmf_ctrl_info *info), void *arg);
/**
 * End the controllers of a host, of all subsystems, or with cntlid != 0 this controller alone, of
 * whatever host. Nothing prevents the host from connecting again. Returns how many.
 */
uint32_t weft_nvmf_host_drop(struct weft_nvmf *t, const char *hostnqn, uint16_t cntlid);

/* ---- Namespaces ---- */

struct weft_nvmf_ns_attr {
	uint32_t nsid; /**< 1 to max_nsid */
	/** Open until the namespace is removed. */
	struct weft_vol *vol;
	/** Of a logical block: 512 or 4096; 0: 4096 if the device writes as much atomically, else
	 * 512. */
	uint32_t lba_bytes;
	/** The device's (weft_block_info): whether flushed data survives a power failure, whether
	 * what is written may be lost until it is flushed, and whether what is discarded reads as
	 * zeros. */
	bool persistent, volatile_cache, discard_zeroes;
	/** Make each write durable before its answer, so that there is no volatile cache. */
	bool write_through;
	bool read_only; /**< weft_nvmf_ns_read_only() changes it */
	void *owner;    /**< weft_nvmf_ended.owner */
	/** What weft_nvmf_resv_change.data of its volume was last; NULL: nothing. Used when the
	 * target meets the volume for the first time. */
	const void *resv;
	size_t resv_bytes;
};

/**
 * Its UUID is the volume's. Controllers tell their hosts.
 * - -EINVAL: no such NSID or length of blocks; the volume has not one block
 * - -EOPNOTSUPP: the device is persistent, and a power failure may leave a part of a logical block
 * - -EBADMSG: attr->resv is no such thing, or of another volume
 * - -EEXIST; -ENOMEM
 */
int weft_nvmf_ns_add(struct weft_nvmf_subsys *s, const struct weft_nvmf_ns_attr *attr);
/**
 * Remove it: hosts are told, and commands refused. -EAGAIN: commands are under way still, or a
 * group has not detached it; call again. With 0 the volume may be closed. -ENOENT.
 */
int weft_nvmf_ns_remove(struct weft_nvmf_subsys *s, uint32_t nsid);
/**
 * A namespace whose groups are all detached has another opening of its volume, maybe of another
 * size: attr as of weft_nvmf_ns_add(). Controllers tell their hosts. Until then its commands were
 * refused as "not ready", and its old volume may be closed.
 * - -ENOENT: there is none
 * - -EAGAIN: a group is attached, or a command is under way; call again
 * - -ESTALE: it is another volume, or has another length of blocks: remove it, and add that
 * - others of weft_nvmf_ns_add()
 */
int weft_nvmf_ns_renew(struct weft_nvmf_subsys *s, const struct weft_nvmf_ns_attr *attr);
/** Change whether it may be written. Commands under way end as they began. Controllers tell their
 * hosts of a change. -ENOENT. */
int weft_nvmf_ns_read_only(struct weft_nvmf_subsys *s, uint32_t nsid, bool read_only);

/** -ENOENT. */
int weft_nvmf_ns_query(struct weft_nvmf_subsys *s, uint32_t nsid, struct weft_nvmf_ns_stats *stats);

/* ---- Groups ---- */

/** An I/O command that was answered, or that ended because its connection did. */
struct weft_nvmf_ended {
	void *owner; /**< of the namespace */
	uint8_t opcode;
	uint16_t status; /**< 0: success */
	/** Of the namespace that it was about; Flush: 0. */
	uint64_t off_bytes, bytes;
	/** By the group's clock: when the command came, when it had memory, when the host's data
	 * was there. */
	uint64_t began_ns, memory_ns, data_ns;
	const char *hostnqn; /**< valid during the call */
};

struct weft_nvmf_group_attr {
	/** Staging memory at a multiple of 4096. The caller tells devices and the network of it,
	 * and keeps it until weft_nvmf_group_close(). */
	void *memory;
	uint64_t bytes; /**< at least weft_nvmf_group_min_bytes() */
	/** May be NULL. Another thread has something for the group: its thread is to poll. On any
	 * thread, maybe with the target's lock held; must not block, nor call the target. */
	void (*wake)(struct weft_nvmf_group *g);
	/** May be NULL. Called for each I/O command that found its namespace. `clock` must be there
	 * then, and is asked for the time. */
	void (*ended)(struct weft_nvmf_group *g, const struct weft_nvmf_ended *e);
	uint64_t (*clock)(const struct weft_nvmf_group *g);
	/** May be NULL. A host has not proved its name; why: WEFT_NVMF_AUTH_EXPIRED ... */
	void (*auth_failed)(struct weft_nvmf_group *g, const char *hostnqn, uint8_t why);
	/** May be NULL. A Connect was refused, as its connection has not proved the host's name:
	 * weft_nvmf_proven_only(), or an I/O queue of a controller whose admin queue has. */
	void (*unproven)(struct weft_nvmf_group *g, const char *hostnqn, const char *subnqn);
	void *owner;
};

/** Octets of memory that a group needs at least. */
uint64_t weft_nvmf_group_min_bytes(const struct weft_nvmf *t);
/** Worker's thread, as for all below. -EINVAL. -ENOSPC: there are WEFT_NVMF_MAX_GROUPS. -ENOMEM. */
int weft_nvmf_group_open(struct weft_nvmf *t, const struct weft_nvmf_group_attr *attr,
                         struct weft_nvmf_group **out);
/** Does nothing for NULL. -EBUSY: a queue is open, or a namespace is attached. */
int weft_nvmf_group_close(struct weft_nvmf_group *g);
/**
 * Close all queues of the group, I/O queues before the admin queue of their controller. Commands
 * that come from now on are dropped: the host sends them again when it has connected again. What is
 * under way is answered before, for at most grace_ns. weft_nvmf_group_queues() tells when all are
 * gone.
 */
void weft_nvmf_group_stop(struct weft_nvmf_group *g, uint64_t grace_ns);
uint32_t weft_nvmf_group_queues(const struct weft_nvmf_group *g);
void *weft_nvmf_group_owner(const struct weft_nvmf_group *g);
/**
 * This thread's way to a namespace. Commands of the group's queues are refused as "not ready" until
 * then. The channel is one of the namespace's volume, and its owner polls it. -ENOENT: no such
 * namespace. -EEXIST.
 */
int weft_nvmf_group_attach(struct weft_nvmf_group *g, struct weft_nvmf_subsys *s, uint32_t nsid,
                           struct weft_vol_chan *chan);
/**
 * The channel may be closed. Until a namespace is attached again or removed, commands are refused
 * as "not ready". -EAGAIN: commands are under way; no other begins; call again, or attach the same
 * channel. What waits for its host alone ends with the host's queue after
 * weft_nvmf_attr.leave_ns. -ENOENT: not attached.
 */
int weft_nvmf_group_detach(struct weft_nvmf_group *g, struct weft_nvmf_subsys *s, uint32_t nsid);
/** Hand out memory, end what has to end, look at timers. now_ns does not go backwards. Returns how
 * much there was to do. */
unsigned int weft_nvmf_group_poll(struct weft_nvmf_group *g, uint64_t now_ns);
/** When the next timer of the group is due; 0: it has to poll at once; UINT64_MAX: never. */
uint64_t weft_nvmf_group_next_ns(const struct weft_nvmf_group *g);

#endif /* WEFT_NVMF_H */
