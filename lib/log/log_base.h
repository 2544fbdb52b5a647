/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOG_BASE_H
#define LOG_BASE_H

/**
 * @file Faults of targets and of the log. A fault is recorded here, wherever it is found, and
 * log_run() reports it. What the parts above have to do at once they do in log_ops.
 */

#include <stdint.h>

#include <weft/log.h>

struct log_target;

/** What calls up: given by weft_log_create(). */
struct log_ops {
	/** Report events and post what can be posted; not from inside a change. */
	void (*run)(struct weft_log *log);
	/** The target is lost, its QP destroyed: each part gives up what it had under way there. */
	void (*lost)(struct weft_log *log, struct log_target *t);
};

/** Call log_ops.run soon, for callers inside which no callback may run. */
void log_later(struct weft_log *log);
/** The target is lost for this reason. */
void log_lost(struct weft_log *log, struct log_target *t, int status);
/** Record that something on the target is damaged, to be reported. */
void log_damaged(struct log_target *t, enum weft_log_damage what, uint64_t position);
/** The log has ended for this reason. */
void log_fail(struct weft_log *log, int status);
/** Destroy the QPs of all targets, without events. */
void log_end_targets(struct weft_log *log);

#endif /* LOG_BASE_H */
