/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_TEST_PROBE_H
#define WEFT_TEST_PROBE_H

/** @file What the clients that tests command have in common: a stack of one port, waiting, lines of
 * standard input, and records of a log. */

#include "stack.h"
#include <weft/log.h>

/** Bring up a stack of one port. Ends the program on a fault. */
void probe_up(struct stack *st, const char *name, const char *dev, const char *cidr);
/** Poll until *flag, or until *gone (may be NULL), or for timeout_ns. Returns *flag. */
bool probe_wait(struct weft_worker *w, const bool *flag, const bool *gone, uint64_t timeout_ns);
/** Poll until there is a line on standard input, and read it. False at its end. */
bool probe_next_line(struct weft_worker *w, char *line, size_t size);

/*
 * A record of a log: its number and the number of its writer, 8 octets each, and octets computed
 * from both. Each line goes to standard output in one write(), so a kill of the program cuts off
 * at most the lines of what it has not done yet.
 */
#define PROBE_RECORD_MAX 6016u /**< longest record, in octets */
/** Length and content of the n-th record, by the writer with this number. */
uint32_t probe_record_bytes(uint64_t n);
void probe_record_fill(uint8_t *rec, uint64_t n, uint64_t writer);
/**
 * Check a record that was read: its length, all its octets, and its number, which is last + 1 (last
 * 0: any). Ends the program if one of them is wrong. Writes "had N POSITION WRITER\n" and returns
 * N.
 */
uint64_t probe_record_had(const struct weft_log_record *rec, uint64_t last);
/** Write "N POSITION\n": record n is acknowledged. */
void probe_acknowledged(uint64_t n, const struct weft_log_at *at);
/** Write "trim N\n": records before n may be trimmed from now on. */
void probe_trims(uint64_t n);

#endif /* WEFT_TEST_PROBE_H */
