/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_PERF_TRUST_H
#define WEFT_PERF_TRUST_H

/**
 * @file What of a run file's configuration takes the user's trust: it could load code into this
 * process, or write files. A run file's hash says nothing of who has made it.
 */

#include "conf.h"

/** Whether nothing does. False: one line in why, which names the key. */
bool trust_not_needed(const struct conf *c, char *why, size_t why_bytes);

#endif /* WEFT_PERF_TRUST_H */
