/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_CONSOLE_SCRIPT_H
#define WEFT_CONSOLE_SCRIPT_H

/**
 * @file What the language of weft-console's scripts is made of: variables, patterns, the output of
 * a command, events that were printed, files of commands, and Ctrl-C. All of it belongs to the main
 * thread; only the handler of SIGINT may run on any.
 */

#include <regex.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmdline.h>

#define LINE_BYTES     512  /**< of a script's line, with its newline */
#define EXPANDED_BYTES 2048 /**< of a line after its variables were substituted */
#define VAR_NAME_BYTES 32
#define VAR_BYTES      256

/** Whether a name is one of a variable: letters, digits and _, no digit first. */
bool vars_name_ok(const char *name);
/**
 * Set a variable of the user. 0; -EINVAL: not a name; -EPERM: a name of a result, which the console
 * sets itself; -E2BIG: the value is too long; -ENOSPC: too many variables.
 */
int vars_set(const char *name, const char *value);
/** Why vars_set() failed, for a message. */
const char *vars_strerror(int rc);
/** Set the variable of a result, such as "wr". */
void vars_result(const char *name, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/** Print every variable that has a value. */
void vars_print(struct cmdline *cl);
/** Write the names of those, each behind a $ and with a blank behind it. Returns buf. */
const char *vars_names(char *buf, size_t size);
/**
 * Copy n octets of in to out with $NAME and ${NAME} replaced by values, and $$ by $. A $ before
 * anything else stays. NULL; or why not, in a buffer that the next call uses again.
 */
const char *vars_expand(const char *in, size_t n, char *out, size_t size);

/** A text, or a POSIX extended regular expression, to look for. */
struct pattern {
	bool regex;
	regex_t re;
	char text[VAR_BYTES]; /**< as a message shows it: without quotes, or between slashes */
};

/**
 * Take a pattern off the front of *p, a word, "quoted" or /regular expression/, with its variables
 * substituted, and the blanks behind it. NULL; or why there is none. The caller frees a pattern
 * that was taken.
 */
const char *pattern_take(const char **p, struct pattern *pt);
bool pattern_in(const struct pattern *pt, const char *text);
/** Copy what the first group of a regular expression matched, or all that matched without a group,
 * or false. */
bool pattern_get(const struct pattern *pt, const char *text, char *out, size_t size);
void pattern_free(struct pattern *pt);
/** Whether *p begins with this word; then it is taken off with the blanks behind it. */
bool word_take(const char **p, const char *word);

/** A cmdline whose commands print into memory. */
struct output {
	struct cmdline *cl;
	int fd;
	char *text;
};

/** 0, or -errno. */
int output_begin(struct output *o);
/** All that was printed, until the next call for o. */
const char *output_text(struct output *o);
/** Forget what was printed. */
void output_clear(struct output *o);
void output_end(struct output *o);
/** Print the text on one line, in at most size - 1 octets: newlines become " | ". Returns buf. */
const char *output_flat(const char *text, char *buf, size_t size);

/** Remember a line that told of an event or a completion; of many the last 16 KiB stay. */
void heard_add(const char *line);
/** Print the last hundred lines, with their age. */
void heard_print(struct cmdline *cl);
/** Whether one of these lines has the pattern. The first that has it is then forgotten. */
bool heard_take(const struct pattern *pt);

/** Run the commands of a file; see script.c. 0; -EINVAL after a message. */
int script_file(struct cmdline *cl, const char *path);
/**
 * Run those of a descriptor. waits: it is a pipe or the like. Messages and the paths of files that
 * it sources begin with the name, which stays the caller's.
 */
int script_fd(struct cmdline *cl, int fd, bool waits, const char *name);

/** Take SIGINT: it no longer ends the program but the command that runs. 0; -errno. */
int interrupt_init(void);
/** Whether SIGINT came since the last interrupt_clear(). */
bool interrupted(void);
/** Readable while interrupted() is true. */
int interrupt_fd(void);
void interrupt_clear(void);

/** Lines of earlier sessions, oldest first, given to add(); see history.c. */
void history_open(void (*add)(void *arg, const char *line), void *arg);
/** Keep a line. */
void history_add(const char *line);
void history_close(void);

#endif /* WEFT_CONSOLE_SCRIPT_H */
