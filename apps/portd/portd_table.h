/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PORTD_TABLE_H
#define PORTD_TABLE_H

/**
 * @file The owner table: which process has which local TCP port of the shared address.
 *
 * A port is free, a process', or dead. A process has ports by claims (its listeners) and in blocks
 * of dynamic ports (its active opens). All of a process' ports become dead when it leaves, and free
 * again after the time of TIME-WAIT (RFC 9293 s3.6.1): segments of its connections may still be in
 * the network. A block with a dead port is given to no process. A dead port on which a process had
 * listened can be claimed, because active opens alone could make the tuple of a former connection
 * again. One of a block cannot: its peers are those of active opens, which would go on with the
 * process that has the port next.
 *
 * A process cannot keep others out. A claim among the dynamic ports takes a block, as far as the
 * limit is concerned, for each block in which the process has claims. And as long as fewer than
 * max_procs processes are here, one free block is left for each that may still come.
 *
 * One thread calls everything but portd_table_owner(), which any thread calls. The table reads no
 * clock: now_ns is monotonic.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "portd_proto.h"

#define PORTD_TABLE_PROCS 256U /**< most processes of a table */
#define PORTD_NO_PROC     UINT32_MAX

struct portd_table_attr {
	uint32_t max_claims; /**< of a process */
	uint32_t max_blocks; /**< of a process; at least 1 */
	uint32_t max_procs;  /**< for so many a block is kept; 0: for none */
	uint64_t dead_ns;
};

struct portd_table;

/** -EINVAL (max_blocks), -ENOMEM. */
int portd_table_create(const struct portd_table_attr *attr, struct portd_table **out);
void portd_table_destroy(struct portd_table *t);

/**
 * Process number `proc` (below PORTD_TABLE_PROCS) comes, and gets its first block: *first to *last.
 * -EALREADY: the number is in use; -ENOSPC: no block is free.
 */
int portd_table_join(struct portd_table *t, uint32_t proc, uint64_t now_ns, uint16_t *first,
                     uint16_t *last);
/** The process is gone. Does nothing for a number that is not in use. */
void portd_table_leave(struct portd_table *t, uint32_t proc, uint64_t now_ns);
/** PORTD_CLAIM of portd_proto.h. */
int portd_table_claim(struct portd_table *t, uint32_t proc, uint16_t port, uint64_t now_ns);
/** PORTD_RELEASE. A port of the process' blocks stays its own. A port that was dead when it was
 * claimed is dead again, for the rest of its time. */
int portd_table_release(struct portd_table *t, uint32_t proc, uint16_t port);
/** PORTD_MORE. */
int portd_table_more(struct portd_table *t, uint32_t proc, uint64_t now_ns, uint16_t *first,
                     uint16_t *last);

/** The process that has the port, or PORTD_NO_PROC. Any thread. */
uint32_t portd_table_owner(const struct portd_table *t, uint16_t port);
/** What a process has. A number that is not in use has nothing. */
void portd_table_has(const struct portd_table *t, uint32_t proc, uint32_t *claims,
                     uint32_t *blocks);
/** Whether no process has the port, and it is dead still. */
bool portd_table_dead(const struct portd_table *t, uint16_t port, uint64_t now_ns);

#endif /* PORTD_TABLE_H */
