/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_CONSOLE_SHOW_PRINT_H
#define WEFT_CONSOLE_SHOW_PRINT_H

/** @file Objects as JSON text, and the durations of polls as a histogram. Others: table.h. */

#include <cmdline.h>
#include <jansson.h>
#include <stdint.h>

/** Print an array of objects as JSON, indented. */
void show_print_json(struct cmdline *cl, const json_t *rows);
/** Print one line of a histogram: polls that took less than below_ns. The bar of `most` fills the
 * line. */
void show_print_bar(struct cmdline *cl, uint64_t below_ns, double polls, double most);
/** Print answers of /weft/worker/polls: the percentiles, and a bar for each octave. */
void show_print_polls(struct cmdline *cl, const json_t *rows);

#endif /* WEFT_CONSOLE_SHOW_PRINT_H */
