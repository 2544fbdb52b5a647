/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The deliberate fault of the process's volumes. */

#include "volume_sabotage.h"

enum volume_sabotage volume_sabotage;
