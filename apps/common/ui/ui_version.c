/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The version of a program that uses libweft. Other programs do not link this source. */

#include <stdio.h>

#include "ui.h"
#include <weft/worker.h>

void
ui_version(void)
{
	printf("%s %s\n", ui_progname(), weft_version());
}
