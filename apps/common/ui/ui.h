/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_UI_H
#define WEFT_APPS_UI_H

/**
 * @file Output that all programs share: "prog: what is wrong" on standard error with exit status 1,
 * or 2 for a wrong command line; sizes and times as text; a progress bar, on a terminal only.
 */

#include <getopt.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UI_EXIT_FAIL  1
#define UI_EXIT_USAGE 2

/** Set the name that messages begin with; the first call of main(). */
void ui_init(const char *progname);
const char *ui_progname(void);
/** For a program whose exit statuses are others than 1 and 2. Before the first ui_die(). */
void ui_exit_statuses(int fail, int usage);
/** A format of ui_msg() begins with one of these if the line tells of a fault, or of what an
 * operator should look at. Where standard error is the journal of systemd, its entry has this
 * priority (sd-daemon(3)); lines without have that of information. */
#define UI_ERR     "\0013"
#define UI_WARNING "\0014"
/** Remove such a beginning from a format. Returns the priority that it stands for. */
int ui_priority(const char **fmt);
/** Print one line on standard error, "prog: ..."; on a terminal it is broken between words. */
void ui_msg(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/** The same at a priority of syslog(3), in which fmt is only a format. */
void ui_msg_at(int priority, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/** How a line on standard error looks. */
enum ui_format {
	UI_TEXT, /**< "prog: what" */
	UI_TIME, /**< "2026-11-28T20:52:49.123456Z error prog: what": UTC, level, text */
	UI_JSON, /**< one object: time, level, component, message (RFC 8259) */
};

/** From now on lines look like this; on a terminal all but JSON are broken between words. Any
 * thread. */
void ui_set_format(enum ui_format format);
/**
 * Print a line that another component has made, as "weft.tcp: what": of a library, say. In JSON
 * what precedes the first ": " is its component, if that is a name. Any thread.
 */
void ui_line(int priority, const char *line);
/** Have each line of ui_msg() and its siblings, without its newline. Before the first thread; fn is
 * called by all that print. */
void ui_on_line(void (*fn)(const char *line));
/** ui_msg(), then exit(1). */
void ui_die(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));
/** ui_msg(), a pointer to --help, exit(2). */
void ui_usage_die(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));
/**
 * Report the option for which getopt_long() returned '?', by name; opterr must have been 0. argv
 * and optind are as getopt_long() left them. longopts tells an unknown option from one without its
 * value, or with a value that it does not take.
 */
void ui_bad_option(char *const *argv, const struct option *longopts) __attribute__((noreturn));
/** Print "prog VERSION" on standard output. */
void ui_version(void);

/**
 * Copy a string of the peer with '?' for each character that could control a terminal. buf may be
 * s. ui_msg() and its siblings do this to the whole line.
 */
const char *ui_printable(const char *s, char *buf, size_t size);
/** Format a size as "512 B", "4.00 KiB", "1.50 GiB"; returns buf. */
const char *ui_bytes(uint64_t bytes, char *buf, size_t size);
/** Format seconds as "42 s", "3:05 min", "2:10 h"; returns buf. */
const char *ui_left(double secs, char *buf, size_t size);
/** Format nanoseconds as "850 ns", "12.3 us", "4.56 ms", "1.23 s"; returns buf. */
const char *ui_time(uint64_t ns, char *buf, size_t size);
/** Parse an unsigned decimal within [min, max]; no other character may be in s. -EINVAL,
 * -ERANGE. */
int ui_parse_u64(const char *s, uint64_t min, uint64_t max, uint64_t *out);
/** Parse the value of an option likewise, named as the user gave it ("--depth"); ui_usage_die() if
 * it is none. */
uint64_t ui_arg_u64(const char *option, const char *value, uint64_t min, uint64_t max);
/** CLOCK_MONOTONIC. */
uint64_t ui_now_ns(void);

#define UI_TOTAL_UNKNOWN UINT64_MAX

/** A progress bar on standard error, if that is a terminal and `quiet` is not set; else nothing. */
struct ui_progress {
	bool on;
	uint64_t total, last_ns, start_ns, last_done;
	double rate;    /**< octets a second of late */
	char what[256]; /**< without control characters */
};

/** total: octets in all, or UI_TOTAL_UNKNOWN: then there is no bar and no time that is left. */
void ui_progress_start(struct ui_progress *p, const char *what, uint64_t total, bool quiet);
/** Draw it, ten times a second at most, with the time that is left at the rate of late. */
void ui_progress_update(struct ui_progress *p, uint64_t done);
/** Erase the line. */
void ui_progress_end(struct ui_progress *p);

/**
 * Make the allocator keep freed memory. The data of an RPC call is allocated for the call, and
 * faulting in 1 MiB anew takes longer than its transfer. Call it before the first thread starts.
 */
void ui_keep_memory(void);

#endif /* WEFT_APPS_UI_H */
