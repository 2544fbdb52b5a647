/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_CONSOLE_LOG_SIDE_H
#define WEFT_CONSOLE_LOG_SIDE_H

/**
 * @file The console's logs as their workers see them. Everything but the two outcomes runs on the
 * worker of the log, con.log_worker. What happens to a log is told by notes (worker_side.h).
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include <weft/log.h>

/** Where a target is. */
struct log_side_target {
	struct sockaddr_storage address;
	bool granted; /**< the following say what is granted; else the target's private data does */
	uint32_t stag;
	uint64_t to, len_bytes;
};

/** Make log n. 0, or the errors of weft_log_create(). */
int log_side_make(unsigned int n, uint32_t targets, uint32_t quorum);
/**
 * Connect to a target and join it. log_side_join_outcome() tells of *join when it has joined. 0;
 * -errno.
 */
int log_side_join(unsigned int n, const struct log_side_target *t, unsigned int *join);
/** Give up a join, and its target if it has joined meanwhile. */
void log_side_join_end(unsigned int n, unsigned int join);
int log_side_leave(unsigned int n, uint32_t target);
/** log_side_open_outcome() tells when it is open. */
int log_side_open(unsigned int n);
/** Append a copy of the text. A note tells when it is durable. */
int log_side_append(unsigned int n, const char *text);
/**
 * Read from the record seq on, a note for each, then one that all were read. trim: give up the
 * records before seq instead, with one note; weft_log_info.head tells when that is done.
 */
int log_side_read(unsigned int n, uint64_t seq, bool trim);
void log_side_query(unsigned int n, struct weft_log_info *in);
void log_side_destroy(unsigned int n);

#define LOG_SIDE_WAITS 1 /**< not decided yet */
/**
 * What came of a join: 0, -errno, LOG_SIDE_WAITS; -ENODATA: the peer sent no grant. Valid until the
 * next log_side_join(). Any thread.
 */
int log_side_join_outcome(unsigned int n, unsigned int join);
/** What came of the last open: 0, -errno, LOG_SIDE_WAITS. Any thread. */
int log_side_open_outcome(unsigned int n);

#endif /* WEFT_CONSOLE_LOG_SIDE_H */
