/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_PERF_PAGE_H
#define WEFT_PERF_PAGE_H

/** @file A page of HTML with the results of a sweep: diagrams, tables, and the machine. */

#include <jansson.h>
#include <stdio.h>

/** Write the page of a document of weft-perf --json or of a sweep. It is well-formed XML too, needs
 * nothing but itself, and all texts of the document are escaped. 0 or -ENOMEM. */
int page_write(FILE *f, json_t *doc);
#endif /* WEFT_PERF_PAGE_H */
