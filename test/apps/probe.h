/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_TEST_PROBE_H
#define WEFT_TEST_PROBE_H

/** @file What the clients that tests command have in common: a stack of one port, waiting, lines of
 * standard input, and records of a log. */

#include "stack.h"

/** Bring up a stack of one port. Ends the program on a fault. */
void probe_up(struct stack *st, const char *name, const char *dev, const char *cidr);
/** Poll until *flag, or until *gone (may be NULL), or for timeout_ns. Returns *flag. */
bool probe_wait(struct weft_worker *w, const bool *flag, const bool *gone, uint64_t timeout_ns);
/** Poll until there is a line on standard input, and read it. False at its end. */
bool probe_next_line(struct weft_worker *w, char *line, size_t size);

#define PROBE_RECORD_MAX 6000u /**< a record's octets behind its number */
/** Length and content of the n-th record. */
uint32_t probe_record_bytes(uint64_t n);
void probe_record_fill(uint8_t *rec, uint64_t n);
/** Write "N\n" on standard output at once: record n is acknowledged. */
void probe_acknowledged(uint64_t n);

#endif /* WEFT_TEST_PROBE_H */
