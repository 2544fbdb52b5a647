/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NVMF_CMD_H
#define NVMF_CMD_H

/**
 * @file What commands use, and what the sources above nvmf_cmd.c give each other. All on the thread
 * of the group, unless it says otherwise.
 */

#include "nvmf_priv.h"

/** Count; the group's thread is the only writer. */
static inline void
nvmf_count(_Atomic uint64_t *counter, uint64_t n)
{
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
	                      memory_order_relaxed);
}

/** A flag of a queue or controller of this group was set: its thread is to look. */
static inline void
nvmf_wake(struct weft_nvmf_group *g)
{
	if (!atomic_exchange_explicit(&g->attention, true, memory_order_acq_rel) &&
	    g->attr.wake != NULL)
		g->attr.wake(g);
}

/* ---- nvmf_cmd.c ---- */

/** How long a device may end nothing before the memory of its commands is set apart, and how often
 * that is looked at. */
#define NVMF_STALL_NS (500 * NVMF_NS_PER_MS)
#define NVMF_LOOK_NS  (100 * NVMF_NS_PER_MS)

/** A status that will not change when the command is sent again. */
#define NVMF_NEVER(status) ((uint16_t)((status) | WEFT_NVMF_DNR))

/** Begin a command whose `row` is set, or NULL for an unknown one. */
void nvmf_start(struct nvmf_slot *s);
/** Answer a command. Of two fused ones, which are answered together: the other one succeeds or
 * fails with it. */
void nvmf_complete(struct nvmf_slot *s, uint16_t status);
/** End a command without an answer. */
void nvmf_finish(struct nvmf_slot *s);
/** Ask a command to end early. False: it is too late for that. */
bool nvmf_cancel(struct nvmf_slot *s);
/** Pieces of the command's memory from octet off_bytes on. Returns how many. */
uint32_t nvmf_part(const struct nvmf_slot *s, uint64_t off_bytes, uint64_t bytes,
                   struct iovec out[WEFT_STAGING_MAX_PIECES + 2]);
/** Copy to the command's memory, or from it. */
void nvmf_put(struct nvmf_slot *s, uint64_t off_bytes, const void *from, uint64_t bytes);
void nvmf_get(const struct nvmf_slot *s, uint64_t off_bytes, void *to, uint64_t bytes);
/** Zero the command's memory. */
void nvmf_zero(struct nvmf_slot *s);
/**
 * Have the volume do something: off_bytes and len_bytes are the range in the namespace, iovs
 * segments of s->part the memory. `done` is called with the operation's status: later, or in the
 * call if the volume has refused it.
 */
void nvmf_volume(struct nvmf_slot *s, enum weft_vol_kind kind, uint32_t flags, uint64_t off_bytes,
                 uint64_t len_bytes, uint32_t iovs, void (*done)(struct nvmf_slot *s, int status));
/** The status for that of an operation of the volume. */
uint16_t nvmf_status(int status, bool change);

/* ---- nvmf_event.c ---- */

#define NVMF_EVENT_NS        0x00040002U /**< notice, namespace attribute changed; log page 04h */
#define NVMF_EVENT_ANA       0x000c0302U /**< notice, asymmetric access change; log page 0Ch */
#define NVMF_EVENT_DISCOVERY 0x0070f002U /**< notice, discovery log changed; log page 70h */
#define NVMF_EVENT_RESV      0x00800006U /**< reservation log page available; log page 80h */

/** Hold an asynchronous event request. */
void nvmf_event_request(struct nvmf_slot *s);
/** Tell the host what it waits for. */
void nvmf_event_send(struct nvmf_ctrl *c);
/** End the requests that are held without an answer. */
void nvmf_event_drop(struct nvmf_ctrl *c);
/** Abort a request that is held. */
void nvmf_event_abort(struct nvmf_slot *s);

/* ---- nvmf_target.c: with the lock ---- */

/** The discovery log has changed. */
void nvmf_discovery_changed(struct weft_nvmf *t);
/** Whether a host may use a subsystem. */
bool nvmf_host_ok(const struct weft_nvmf_subsys *s, const char *hostnqn);
/** NULL: there is none. */
struct weft_nvmf_subsys *nvmf_subsys_find(struct weft_nvmf *t, const char *nqn);

/* ---- nvmf_ns.c ---- */

/** A namespace that commands may use; NULL: none. Any thread. */
struct nvmf_ns *nvmf_ns_active(const struct weft_nvmf_subsys *s, uint32_t nsid);
/** Find the command's namespace and hold it. Returns a status. */
uint16_t nvmf_ns_hold(struct nvmf_slot *s);
/** Likewise, of another NSID. */
uint16_t nvmf_ns_hold_at(struct nvmf_slot *s, uint32_t nsid);
/** Whether a reservation of the command's namespace lets its host do it. */
static inline bool
nvmf_resv_lets(const struct nvmf_slot *s)
{
	const uint8_t may = atomic_load_explicit(&s->queue->ctrl->resv->may[s->ns->nsid - 1],
	                                         memory_order_seq_cst);

	return may == NVMF_MAY_ALL || s->row->resv == NVMF_GROUP_FREE ||
	       (may == NVMF_MAY_READ && s->row->resv == NVMF_GROUP_READ);
}

/* ---- nvmf_ctrl.c ---- */

/** Make a controller for an admin queue. With the lock. NULL: no memory, or no number. */
struct nvmf_ctrl *nvmf_ctrl_new(struct weft_nvmf_queue *admin, struct weft_nvmf_subsys *s,
                                const struct weft_nvmf_connect *data);
/** End a controller: all its queues. With the lock. */
void nvmf_ctrl_end(struct nvmf_ctrl *c);
/** The controller gets a queue. With the lock. */
void nvmf_ctrl_join(struct nvmf_ctrl *c, struct weft_nvmf_queue *q, uint16_t qid);
/** Its queue has ended. With the last one the controller is gone. */
void nvmf_ctrl_leave(struct weft_nvmf_queue *q);
/** CC was written. Returns a status. */
uint16_t nvmf_ctrl_configure(struct nvmf_ctrl *c, uint32_t cc);
uint32_t nvmf_ctrl_csts(struct nvmf_ctrl *c);
/** Start the Keep Alive timer again, with this time. */
void nvmf_ctrl_keep_alive(struct nvmf_ctrl *c, uint32_t kato_ms);
/** Look at timers, events and shutdowns of the group's controllers. */
void nvmf_ctrl_poll(struct weft_nvmf_group *g);

/* ---- Commands ---- */

uint16_t nvmf_identify_start(struct nvmf_slot *s);
void nvmf_identify_run(struct nvmf_slot *s);
uint16_t nvmf_get_features_start(struct nvmf_slot *s);
uint16_t nvmf_set_features_start(struct nvmf_slot *s);
void nvmf_get_features_run(struct nvmf_slot *s);
void nvmf_set_features_run(struct nvmf_slot *s);
uint16_t nvmf_get_log_start(struct nvmf_slot *s);
/** Answer Get Log Page. `effects`: the page 05h. */
void nvmf_log(struct nvmf_slot *s, const uint8_t effects[4096]);
/** Rows by opcode; NULL: no such command. */
const struct nvmf_row *nvmf_io_row(uint8_t opcode);
const struct nvmf_row *nvmf_admin_row(uint8_t opcode);
const struct nvmf_row *nvmf_fabrics_row(uint8_t fctype);
/** The range of an I/O command; sets ns, off_bytes, len_bytes. Returns a status. */
uint16_t nvmf_io_range(struct nvmf_slot *s);
/** Flags of the volume for a change. */
uint32_t nvmf_io_durable(const struct nvmf_slot *s);
/** A change was done: it may be lost until it is flushed. */
void nvmf_io_changed(struct nvmf_slot *s);
/** A write was done: count it. */
void nvmf_io_written(const struct nvmf_slot *s);
/** Two commands as one. */
void nvmf_fused_start(struct nvmf_slot *first, struct nvmf_slot *second);

#endif /* NVMF_CMD_H */
