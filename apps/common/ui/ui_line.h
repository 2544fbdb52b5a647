/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_UI_LINE_H
#define WEFT_APPS_UI_LINE_H

/** @file What ui.c needs of the lines on standard error; the rest is in ui.h. */

#define UI_LINE_BYTES 2048

/** Look whether standard error is the journal of systemd. */
void ui_line_init(void);

#endif /* WEFT_APPS_UI_LINE_H */
