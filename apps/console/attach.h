/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_CONSOLE_ATTACH_H
#define WEFT_CONSOLE_ATTACH_H

/** @file Running programs with telemetry: finding one, and connecting to it. */

#include "tel_client.h"

/**
 * Connect to the program that `what` names: a process id, the prefix of its EAL ("weft-123"), or
 * the path of its socket; NULL: the only one that runs. 0, or -errno with one line in err.
 */
int attach_open(struct tel_client *t, const char *what, char *err, size_t err_size);
/** Connect to the telemetry of this process. 0, or -errno. */
int attach_self(struct tel_client *t);

#endif /* WEFT_CONSOLE_ATTACH_H */
