/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NVMF_AUTH_H
#define NVMF_AUTH_H

/**
 * @file The authentication of a queue's host: nvmf_auth.c (messages), nvmf_auth_job.c (the thread
 * that computes). A queue without this state has a host that need not prove its name.
 */

#include "nvmf_cmd.h"
#include "nvmf_dhchap.h"

enum nvmf_auth_state {
	NVMF_AUTH_NEGOTIATE, /**< the host's message is waited for; also when all is done */
	NVMF_AUTH_CHALLENGE, /**< the host receives it */
	NVMF_AUTH_REPLY,     /**< the host's message is waited for */
	NVMF_AUTH_SUCCESS1,  /**< the host receives it */
	NVMF_AUTH_SUCCESS2,  /**< the host's message is waited for */
	NVMF_AUTH_FAILURE1,  /**< the host receives it, and the queue ends */
};

/** Group's thread, but for what is marked. */
struct nvmf_auth {
	TAILQ_ENTRY(nvmf_auth) link; /**< of the thread's, or of what it has done */
	struct weft_nvmf_group *group;
	struct nvmf_slot *slot; /**< whose answer waits for the thread */
	/** thread: what it does; it owns the fields below until the slot goes on. -errno. */
	int (*work)(struct nvmf_auth *a);
	void (*ready)(struct nvmf_auth *a, int status); /**< on the group's thread */
	int status;
	_Atomic bool proved; /**< any thread: the host may use the queue */
	enum nvmf_auth_state state;
	uint64_t due_ns; /**< the exchange ends; UINT64_MAX: there is none */
	uint8_t hash, dh, why;
	uint8_t least; /**< group */
	/** The queue is of a controller whose host has proved its name. */
	bool of_proved;
	uint64_t round; /**< lock of the jobs: when its turn is */
	bool mutual;    /**< the host has asked for the controller's proof */
	uint16_t tid;
	uint32_t seqnum, peer_seqnum;
	void *key;
	uint8_t challenge[NVMF_DHCHAP_HASH_MAX], peer_challenge[NVMF_DHCHAP_HASH_MAX];
	uint8_t proof[NVMF_DHCHAP_HASH_MAX];  /**< the host's */
	uint8_t answer[NVMF_DHCHAP_HASH_MAX]; /**< the controller's */
	uint8_t pub[NVMF_DHCHAP_DH_MAX], peer_pub[NVMF_DHCHAP_DH_MAX];
	struct weft_nvmf_auth keys;
};

/** What a subsystem knows of a host; NULL: nothing. With the lock. */
static inline const struct weft_nvmf_auth *
nvmf_auth_find(const struct weft_nvmf_subsys *s, const char *hostnqn)
{
	for (uint32_t i = 0; i < s->nauth; i++)
		if (strcmp(s->auth[i].hostnqn, hostnqn) == 0)
			return &s->auth[i];
	return NULL;
}

/** Whether the queue's host has still to prove its name. Any thread, with the lock or as the
 * group. */
static inline bool
nvmf_auth_lacks(const struct weft_nvmf_queue *q)
{
	return q->auth != NULL && !atomic_load_explicit(&q->auth->proved, memory_order_acquire);
}

/* ---- nvmf_auth_job.c ---- */

/** Before there is a group. -ENOMEM. */
int nvmf_auth_jobs_up(struct weft_nvmf *t);
/** Begin the thread, if that was not done before: the target has its first secret. -EAGAIN: the
 * system has no more threads. Any thread but a group's. */
int nvmf_auth_jobs_start(struct weft_nvmf *t);
/** End it. No group is open. */
void nvmf_auth_jobs_down(struct weft_nvmf *t);
/** Have a->work done, and then a->ready. -EBUSY: the host has too many. */
int nvmf_auth_job(struct nvmf_auth *a);
/** Go on with what the thread has done. */
void nvmf_auth_poll(struct weft_nvmf_group *g);

/* ---- nvmf_auth.c ---- */

/** A Connect of this host. *out NULL: it need not prove its name. With the lock. Returns a
 * status. */
uint16_t nvmf_auth_begin(struct weft_nvmf_queue *q, const struct weft_nvmf_subsys *s,
                         const char *hostnqn, struct nvmf_auth **out);
/** Wipe and free it. Does nothing for NULL. */
void nvmf_auth_free(struct nvmf_auth *a);
/** End a queue whose host takes too long; else the group's timer is set. */
void nvmf_auth_due(struct weft_nvmf_queue *q);
uint16_t nvmf_auth_send_start(struct nvmf_slot *s);
void nvmf_auth_send(struct nvmf_slot *s);
uint16_t nvmf_auth_receive_start(struct nvmf_slot *s);
void nvmf_auth_receive(struct nvmf_slot *s);

#endif /* NVMF_AUTH_H */
