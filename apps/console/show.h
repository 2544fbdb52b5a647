/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_CONSOLE_SHOW_H
#define WEFT_CONSOLE_SHOW_H

/**
 * @file What `show`, `rates` and `clear` do with the objects of a noun: choose, subtract, print. Of
 * the program that the console is attached to, or of its own process.
 */

#include <cmdline.h>
#include <stdbool.h>

#include "tel_client.h"

/** The telemetry that is asked: another program's, or this process's. */
extern struct tel_client show_tel;

/**
 * Run "NOUN [OBJECT] [detail] [rates] [json] [where KEY=VALUE ...]". False after a message: the
 * words are wrong, nothing answers, or there is no such object.
 */
bool show_run(struct cmdline *cl, const char *noun, const char *words);
/** Take the present values of the counters as zero; noun NULL: of all nouns. False after a message.
 */
bool show_clear(struct cmdline *cl, const char *noun);
/** Write the keys of a noun's objects, each with "= " behind it. False: there is no such noun, or
 * it has no objects. */
bool show_keys(const char *noun, char *buf, size_t size);
/** Print the nouns and what they show. */
void show_list(struct cmdline *cl);

#endif /* WEFT_CONSOLE_SHOW_H */
