/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef KINDS_H
#define KINDS_H

/** @file The kinds of hostile peers: holders of connections (kinds_conn.c), readers (kinds_read.c),
 * and senders of many frames (kinds_storm.c). */

#include "crowd.h"

extern const struct crowd_kind *const kinds_conn[],
        *const kinds_read[],
                *const kinds_storm[],        /**< NULL-terminated */
                        *const kinds_kept[], /**< they leave state behind */
                                *const kinds_small
                                        []; /**< of kinds_conn, run with a small pool too */

#endif /* KINDS_H */
