/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_PERF_HELLO_H
#define WEFT_PERF_HELLO_H

/** @file How the server reads a client's hello. */

#include "job.h"
#include "wire.h"

/**
 * Copy the private data of a Request. 0; -EPROTO: it is no hello of this version; -ERANGE: what it
 * asks for is beyond a limit. In both cases one line is in why. Whatever it holds, a hello that is
 * accepted is within all limits.
 */
int hello_read(const void *data, size_t bytes, struct perf_hello *h, char *why, size_t why_bytes);

#endif /* WEFT_PERF_HELLO_H */
