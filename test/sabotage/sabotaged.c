/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Linked to a program that tests run: all its streams have the fault SABOTAGE. */

#include <stddef.h>

#include "rdmap_sabotage.h"

static void __attribute__((constructor)) sabotaged(void)
{
	rdmap_sabotage(NULL, SABOTAGE);
}
