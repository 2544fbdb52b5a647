/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_NVMF_STATS_H
#define WEFT_NVMF_STATS_H

/** @file What is counted of a target and its namespaces: see weft_nvmf.h, which includes this. */

#include <stdbool.h>
#include <stdint.h>

#include "weft_nvmf_auth.h"
#include "weft_nvmf_resv.h"

/** Counters since the creation, of all groups. */
struct weft_nvmf_stats {
	uint32_t ctrls, queues;   /**< now */
	uint64_t connects;        /**< Connects with success */
	uint64_t refused_param;   /**< Connects of a wrong field, or an unknown subsystem */
	uint64_t refused_host;    /**< of a host that is not allowed */
	uint64_t refused_limit;   /**< of too many controllers or queues */
	uint64_t kato_expired;    /**< controllers that ended because the host was silent */
	uint64_t connect_expired; /**< queues that ended without Connect */
	uint64_t leave_expired;   /**< queues that kept a namespace from being detached */
	uint64_t auth_done;       /**< queues whose host has proved its name */
	/** exchanges that failed, by reason (weft_nvmf_auth.h) */
	uint64_t auth_failed[WEFT_NVMF_AUTH_REASONS];
	uint64_t auth_busy;         /**< commands refused because their host had too many */
	uint64_t commands;          /**< that were answered */
	uint64_t errors;            /**< of these, with another status than 0 */
	uint64_t read_bytes;        /**< by Read */
	uint64_t written_bytes;     /**< by Write */
	uint64_t protocol_errors;   /**< capsules that are none; queues overrun */
	uint64_t memory_waits;      /**< commands that waited for staging memory */
	uint64_t memory_room_waits; /**< of these, held back to leave room to other hosts */
	uint64_t memory_expired;    /**< queues that kept memory of which another host had none */
	uint64_t lost_flushes_told; /**< Flushes that failed for an earlier loss */
	uint64_t losses_forgotten;  /**< hosts that went with unflushed writes, too many to keep */
	uint64_t events;            /**< asynchronous events that were sent */
	uint64_t conflicts;         /**< commands that a reservation has refused */
	uint64_t resv_full;         /**< registrations of too many hosts */
	uint64_t resv_failed;       /**< changes of reservations that could not be kept */
	uint64_t notices_lost;      /**< of reservations: the host has not read those before */
};

/** What commands of a namespace have done since the target has it, of all groups. */
struct weft_nvmf_ns_stats {
	uint64_t reads, writes, read_bytes, written_bytes;
	uint64_t media_errors; /**< commands that the medium has failed */
	uint32_t attached;     /**< groups that reach it */
	/** Reservations of its volume: RTYPE (0: none is held), hosts that are registered, GEN, and
	 * whether they survive a restart. */
	uint32_t resv_type, registrants, resv_generation;
	bool resv_persist;
	uint32_t ana;                 /**< enum weft_nvmf_ana_state, as hosts are told now */
	enum weft_nvmf_others others; /**< what that leaves to others */
};

#endif /* WEFT_NVMF_STATS_H */
