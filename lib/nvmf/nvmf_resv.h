/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NVMF_RESV_H
#define NVMF_RESV_H

/**
 * @file Reservations of volumes, and what controllers and groups have of them.
 *
 * There is one object for each volume (its UUID), whatever the number of namespaces, subsystems and
 * groups that serve it. It is changed with the target's lock, by one command at a time; a change
 * is first kept by the target's owner (weft_nvmf_resv_ops). I/O takes no lock: each controller has
 * an octet for each namespace that says what its host may do. A command is counted in `under_way`
 * of its namespace, and then reads the octet. A change stores the octets, and then, if it has to
 * end the commands of others (Preempt and Abort), has each group look for them. So one of the two
 * sees the other. The octets are stored for some controllers at a time: the lock is others', too.
 * The group of the change's command goes on in its next poll.
 */

#include <stdatomic.h>
#include <sys/queue.h>

#include "nvmf_resv_state.h"
#include "weft_nvmf.h"

#define NVMF_NOTICES 32U /**< of a controller, that its host has not read */
/** Controllers that see a change before the lock is given back. */
#define NVMF_RESV_SHOW 32U

struct nvmf_ctrl;
struct nvmf_ns;
struct nvmf_slot;

/** What a command is for a reservation of another host (NVMe Base 2.0 s8.19, the figure "Command
 * Behavior in the Presence of a Reservation"). */
enum nvmf_resv_group {
	NVMF_GROUP_FREE, /**< it is looked at by other rules */
	NVMF_GROUP_READ,
	NVMF_GROUP_WRITE,
};

/** Where a command is that changes reservations. */
enum nvmf_resv_step {
	NVMF_STEP_NONE,
	NVMF_STEP_WAITS, /**< for another one's end */
	NVMF_STEP_OWNS,  /**< nvmf_resv.slot */
};

/** Of a controller. */
struct nvmf_ctrl_resv {
	_Atomic uint8_t may[WEFT_NVMF_MAX_NSID]; /**< enum nvmf_resv_may, by NSID - 1 */
	/* lock */
	uint8_t mask[WEFT_NVMF_MAX_NSID]; /**< feature 82h: a bit (1 << notice) */
	struct {
		uint64_t count;
		uint32_t nsid;
		uint8_t notice;
	} notice[NVMF_NOTICES]; /**< the oldest first */
	uint32_t notices;
	uint64_t count;     /**< of all that there were */
	_Atomic bool ready; /**< an event is to be sent */
	/* group of the admin queue */
	bool masked; /**< the host has not read the log since its event */
};

/** Of a group. */
struct nvmf_group_resv {
	_Atomic bool work; /**< look at what follows, and at slots that wait */
	bool fencing;      /**< group: commands that are to end have not yet */
	_Atomic uint64_t conflicts;
};

/** Reservations of a volume. lock, for all of it. */
struct nvmf_resv {
	LIST_ENTRY(nvmf_resv) link;
	TAILQ_HEAD(, nvmf_ns) ns; /**< its namespaces, of all subsystems */
	uint8_t uuid[16];
	struct nvmf_resv_state now;
	/* a change that is under way */
	struct nvmf_slot *slot;        /**< its command; NULL: there is none */
	TAILQ_HEAD(, nvmf_slot) waits; /**< commands behind it, in the order of their coming */
	bool keeping;                  /**< the owner has it */
	bool showing;           /**< it is made; controllers from `show` on do not see it yet */
	struct nvmf_ctrl *show; /**< NULL: there are no more */
	bool fence;             /**< commands of hosts that lose their registration end first */
	uint64_t fences;        /**< groups that have not ended them: a bit each */
	uint16_t status;        /**< its result */
	struct nvmf_resv_state next;
	struct nvmf_resv_told told;
	struct weft_nvmf_resv_change change;
	uint8_t saved[NVMF_RESV_SAVED_BYTES];
};

/* ---- nvmf_resv.c: with the lock ---- */

/** That of a volume. attr: of the namespace that comes, for which nvmf_resv_enter() is called.
 * -EBADMSG, -ENOMEM. */
int nvmf_resv_get(struct weft_nvmf *t, const struct weft_nvmf_ns_attr *attr, const uint8_t uuid[16],
                  struct nvmf_resv **out);
/** A namespace is there: controllers see what their hosts may do with it. */
void nvmf_resv_enter(struct nvmf_resv *r, struct nvmf_ns *ns);
/** It is gone. What is held stays until weft_nvmf_resv_forget(), or as long as the target. */
void nvmf_resv_leave_ns(struct nvmf_ns *ns);
/** The target ends. */
void nvmf_resv_end(struct weft_nvmf *t);
/** A controller has come. -ENOMEM. */
int nvmf_resv_ctrl(struct nvmf_ctrl *c);
/** It is about to go from the target's list. */
void nvmf_resv_ctrl_gone(struct nvmf_ctrl *c);
/** Have NVMF_RESV_SHOW more controllers see the change of r->slot. */
void nvmf_resv_show(struct weft_nvmf *t, struct nvmf_resv *r);
/** The command may begin. False: it waits for its turn, in the row of r->waits. */
bool nvmf_resv_turn(struct nvmf_slot *s);
/** The change is over, or was none: the next command may begin. */
void nvmf_resv_next(struct weft_nvmf *t, struct nvmf_resv *r);
/** Begin the change to r->next, with what is told of it; r->slot and r->fence are set. */
void nvmf_resv_begin(struct weft_nvmf *t, struct nvmf_resv *r);
/** Whether the change of r->slot is over. */
bool nvmf_resv_is_over(const struct nvmf_resv *r);
/** A group has ended the commands that were to end. */
void nvmf_resv_fenced(struct weft_nvmf *t, struct nvmf_resv *r, uint32_t group);
/** All groups look at what waits. */
void nvmf_resv_wake(struct weft_nvmf *t);
/** A command that waits for its turn will not begin. Takes the lock. */
void nvmf_resv_leave(struct nvmf_slot *s);
/** A group is closed. */
void nvmf_resv_group_gone(struct weft_nvmf *t, uint32_t group);

/* ---- nvmf_resv_cmd.c: group's thread ---- */

uint16_t nvmf_resv_register_start(struct nvmf_slot *s);
uint16_t nvmf_resv_acquire_start(struct nvmf_slot *s);
uint16_t nvmf_resv_release_start(struct nvmf_slot *s);
uint16_t nvmf_resv_report_start(struct nvmf_slot *s);
/** Of Register, Acquire, Release, and Set Features 83h. */
void nvmf_resv_run(struct nvmf_slot *s);
void nvmf_resv_report(struct nvmf_slot *s);
/** Go on with commands of the group that change reservations, and end those that are to end. */
void nvmf_resv_poll(struct weft_nvmf_group *g);

#endif /* NVMF_RESV_H */
