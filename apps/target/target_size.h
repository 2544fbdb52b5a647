/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_TARGET_SIZE_H
#define WEFT_TARGET_SIZE_H

/** @file How much memory a configuration needs, and whether the machine has it. */

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "conf.h"

/** What is asked for. UINT32_MAX: as the configuration says. */
struct size_ask {
	uint32_t volumes; /**< exports that are volumes; those of the configuration */
	uint32_t clients; /**< connections at a time; as many as the configuration admits */
};

/** In octets. */
struct size_need {
	uint64_t buffers;     /**< packet buffers and what EAL keeps; hugepages may hold these */
	uint64_t exports;     /**< objects and logs, which lie in memory */
	uint64_t staging;     /**< data of volumes on its way, and the volumes' own */
	uint64_t program;     /**< the program itself, its tables and threads */
	uint64_t conns;       /**< state of the clients' connections */
	uint64_t calls;       /**< calls and answers of all clients, at most */
	uint64_t volume_ops;  /**< memory of all volumes' operations, at most */
	uint64_t hosts;       /**< data of NVMe hosts on its way, and their completions */
	uint64_t queue_bytes; /**< commands of all queues of NVMe hosts, at most */
	uint32_t volumes, clients, workers, queues;
};

/** Calculate the need. A file that cannot be looked at counts as empty. */
void size_of(const struct conf *c, const struct size_ask *ask, struct size_need *n);

/** The least for a start, of memory that is no hugepages: all but exports, which are refused one by
 * one, and what clients bring. */
uint64_t size_at_start(const struct size_need *n, bool huge);

/** What the machine has. */
struct size_room {
	uint64_t bytes;      /**< that this process may take now; UINT64_MAX: unknown */
	uint64_t huge_bytes; /**< free hugepages of the default size */
	uint64_t huge_page;  /**< that size; 0: the kernel has none */
	bool cgroup;         /**< `bytes` is what the control group leaves */
	/** Of these two, what a target that runs has, and gives back before this one starts. */
	uint64_t beside_bytes, beside_huge_bytes;
};

/**
 * Look at the files below root ("": the machine's): /proc/meminfo, and the limit of the control
 * group (memory.max of version 2, memory.limit_in_bytes of version 1) and of those above it.
 * beside: the process of a target that this one is to replace, which then has no memory any more;
 * the control group is that process's. 0: there is none. A process that is not there, or does not
 * show itself, has nothing.
 */
void size_room(const char *root, uint64_t beside, struct size_room *r);

/**
 * Compare before a start. 0, or -ENOMEM with one line in err that has both figures.
 */
int size_check(const struct conf *c, const struct size_room *r, char *err, size_t err_size);

/** Print need and room as a table. Returns 0; -ENOMEM: there is less than a start takes. */
int size_print(const struct conf *c, const struct size_ask *ask, const struct size_room *r,
               FILE *out);

#endif /* WEFT_TARGET_SIZE_H */
