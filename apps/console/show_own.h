/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_CONSOLE_SHOW_OWN_H
#define WEFT_CONSOLE_SHOW_OWN_H

/** @file The numbers of the console's own objects in what telemetry answers. */

#include "show_noun.h"

/** Added to the number of a QP that no command names: of a log, or of RPC. Those that commands name
 * have lower ones. */
#define SHOW_OWN_OTHERS 1000

/**
 * Of the console's own process: give QPs, regions and windows the numbers by which commands name
 * them. Regions and windows that no command names have none then; telemetry only counts them.
 */
void show_own_numbers(const struct show_noun *n, json_t *rows);

#endif /* WEFT_CONSOLE_SHOW_OWN_H */
