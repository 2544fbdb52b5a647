/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_PERF_HELLO_H
#define WEFT_PERF_HELLO_H

/** @file How the server reads a client's hello. */

#include "job.h"
#include "wire.h"

/**
 * Copy the private data of a Request. False: it is no hello of this version, or what it asks for is
 * beyond a limit. Whatever it holds, a hello that is accepted is within all limits.
 */
bool hello_read(const void *data, size_t bytes, struct perf_hello *h);

#endif /* WEFT_PERF_HELLO_H */
