/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef KINDS_H
#define KINDS_H

/** @file The kinds of hostile peers: those that hold a connection (kinds_conn.c), readers
 * (kinds_read.c), and storms (kinds_storm.c). */

#include "crowd.h"

extern const struct crowd_kind *const kinds_conn[],
        *const kinds_read[],
                *const kinds_storm[],        /**< NULL-terminated */
                        *const kinds_kept[], /**< what they leave behind stays */
                                *const kinds_small
                                        []; /**< of kinds_conn, to be met with a small pool, too */

#endif /* KINDS_H */
