/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_CONSOLE_LOG_LINES_H
#define WEFT_CONSOLE_LOG_LINES_H

/** @file Lines of the log while a line is edited at the prompt: the main thread prints them above
 * it, as it prints events. Without that they would land behind the prompt. */

/** From now on lines of the log come as notes (worker_side.h). Nothing happens if standard error is
 * no terminal, which has the lines then. Main thread. */
void log_lines_begin(void);
/** They go to standard error again. Main thread. */
void log_lines_end(void);

#endif /* WEFT_CONSOLE_LOG_LINES_H */
