/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOG_SABOTAGE_H
#define LOG_SABOTAGE_H

/**
 * @file
 * Deliberate faults of a remote log: the tests must detect each of them. Only the copy of lib/log
 * that weft_sabotage_dep links has them.
 */

#include <stdbool.h>

struct weft_log;

enum log_sabotage {
	LOG_SOUND,         /**< no fault */
	LOG_POINTER_FIRST, /**< the tail is moved before the records are written */
	LOG_NO_FLUSH,      /**< a transaction does not flush */
	LOG_EARLY_DURABLE, /**< a record that one target has counts as durable */
	LOG_NO_STEP0,      /**< a join does not flush what it reads */
	LOG_WORDS_ONLY,    /**< a join flushes the words, and not the superblock in front of them */
	LOG_SEAT_EARLY,    /**< a target that is begun anew counts at once */
	LOG_LONGEST,       /**< recovery takes the longest target, whatever its epoch */
	LOG_LAGGARD,       /**< records that the slowest live target lacks are not in the log */
	LOG_NO_LIVES,      /**< a target that was begun anew is not told from its former life */
	LOG_FORGETS        /**< a target that is begun anew is taken to know all lives */
};

/** The log has this fault from now on. It is about to be used, or was just created. */
void log_sabotage(const struct weft_log *log, enum log_sabotage fault);
/** Whether the log has this fault. */
bool log_sabotaged(const struct weft_log *log, enum log_sabotage fault);

#endif /* LOG_SABOTAGE_H */
