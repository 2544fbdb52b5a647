/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_CONSOLE_PAGER_H
#define WEFT_CONSOLE_PAGER_H

/** @file Long output on the terminal, page by page. Main thread. */

#include "console.h"

/** As console_run(), for a line that rows_shows(). Ctrl-C, Ctrl-D and q leave the pages. */
const char *pager_run(struct cmdline *cl, const char *line);

#endif /* WEFT_CONSOLE_PAGER_H */
