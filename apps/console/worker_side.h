/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_CONSOLE_WORKER_SIDE_H
#define WEFT_CONSOLE_WORKER_SIDE_H

/**
 * @file What passes between the main thread and a worker. Logs and RPC endpoints are used on their
 * worker alone: commands call it and wait, and what it has to say comes back as notes.
 */

#include <stdbool.h>

#include "script.h"

struct weft_worker;

enum note_kind {
	NOTE_EVENT,
	NOTE_DONE,   /**< something that a command began is over; con.pending counts these */
	NOTE_FAILED, /**< the same, without success */
	NOTE_LOG,    /**< a line of the log; `wait for` does not find it */
};

struct note {
	enum note_kind kind;
	char var[VAR_NAME_BYTES]; /**< a result's name; "": none */
	char value[VAR_BYTES];
	char line[512];
	struct note *next;
};

/** Run fn(arg) on the worker, and wait until it has run. 0; -EAGAIN, -ENOMEM: it did not. Main
 * thread. */
int worker_side_call(struct weft_worker *w, void (*fn)(void *arg), void *arg);
/** Leave a note for the main thread. var NULL: it sets no variable. Any thread. Without memory the
 * note is lost. */
void note_add(enum note_kind kind, const char *var, const char *value, const char *fmt, ...)
        __attribute__((format(printf, 4, 5)));
/** Take the oldest note. False: there is none. Main thread. */
bool note_take(struct note *out);
/** Readable while there are notes; -1: it could not be made. Main thread. */
int note_fd(void);

#endif /* WEFT_CONSOLE_WORKER_SIDE_H */
