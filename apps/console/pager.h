/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_CONSOLE_PAGER_H
#define WEFT_CONSOLE_PAGER_H

/** @file Long output on the terminal, page by page. Main thread. */

#include "console.h"

/** Whether what this line prints is shown page by page: it only shows something, and the prompt is
 * on a terminal that says how large it is. */
bool pager_takes(const char *line);
/** As console_run(). Ctrl-C, Ctrl-D and q leave the pages. */
const char *pager_run(struct cmdline *cl, const char *line);

#endif /* WEFT_CONSOLE_PAGER_H */
