/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_UI_H
#define WEFT_APPS_UI_H

/**
 * @file
 * What all programs say in the same way: "prog: what is wrong" on standard error and exit status 1,
 * 2 for a wrong command line; human sizes and times; a progress bar that a pipe never sees.
 */

#include <getopt.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UI_EXIT_FAIL  1
#define UI_EXIT_USAGE 2

/** Name that messages begin with; set first thing in main(). */
void ui_init(const char *progname);
const char *ui_progname(void);
/** One line on standard error, "prog: ...". */
void ui_msg(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/** ui_msg(), then exit(1). */
void ui_die(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));
/** ui_msg(), a pointer to --help, exit(2). */
void ui_usage_die(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));
/**
 * What getopt_long() answers '?' to, by name; with opterr = 0 before. argv and optind are as it
 * left them. longopts tells an unknown option from one without its value, or with one that it does
 * not take.
 */
void ui_bad_option(char *const *argv, const struct option *longopts) __attribute__((noreturn));
/** "prog VERSION" on standard output. */
void ui_version(void);

/**
 * A string of the peer's: what could drive a terminal becomes '?'. buf may be s. ui_msg() and the
 * like do this to the whole line.
 */
const char *ui_printable(const char *s, char *buf, size_t size);
/** "512 B", "4.00 KiB", "1.50 GiB"; returns buf. */
const char *ui_bytes(uint64_t bytes, char *buf, size_t size);
/** Of nanoseconds: "850 ns", "12.3 us", "4.56 ms", "1.23 s"; returns buf. */
const char *ui_time(uint64_t ns, char *buf, size_t size);
/** Unsigned decimal within [min, max], nothing around it. -EINVAL, -ERANGE. */
int ui_parse_u64(const char *s, uint64_t min, uint64_t max, uint64_t *out);
/** CLOCK_MONOTONIC. */
uint64_t ui_now_ns(void);

/** A bar on standard error when that is a terminal (and not `quiet`); else nothing. */
struct ui_progress {
	bool on;
	uint64_t total, last_ns, start_ns;
	const char *what;
};

void ui_progress_start(struct ui_progress *p, const char *what, uint64_t total, bool quiet);
void ui_progress_update(struct ui_progress *p, uint64_t done);
/** Wipe the line. */
void ui_progress_end(struct ui_progress *p);

/**
 * Memory that is freed stays with the process. What a call by RPC brings is allocated for it: a
 * mebibyte that the kernel has to make anew, page by page, takes longer than its transfer. Before
 * any thread.
 */
void ui_keep_memory(void);

#endif /* WEFT_APPS_UI_H */
