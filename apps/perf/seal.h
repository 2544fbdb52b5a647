/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_PERF_SEAL_H
#define WEFT_PERF_SEAL_H

/**
 * @file The hash of a run's document, which shows that its text was not changed. The second line of
 * the text is `  "sha256": "HEX",`, and HEX is the SHA-256 of the text without this line:
 *
 *     sed 2d FILE | sha256sum
 */

#include <stddef.h>
#include <stdio.h>

/** Write a document of several lines whose first one is "{", with its hash. The caller looks at
 * ferror(f). */
void seal_write(FILE *f, const char *text, size_t len);
/** 0; -ENOENT: the text has no hash; -EBADMSG: it is the hash of another text. */
int seal_check(const char *text, size_t len);

#endif /* WEFT_PERF_SEAL_H */
