/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_H
#define WEFT_H

/**
 * @file All that most programs need: the headers of libweft and those of the remote log
 * (libweft_log). RPC has headers of its own (weft/rpcrdma.h, weft/tirpc.h), and so have libraries
 * on top of weft (weft/ulp.h).
 */

#include <weft/block.h>
#include <weft/capture.h>
#include <weft/commit.h>
#include <weft/guard.h>
#include <weft/hash.h>
#include <weft/log.h>
#include <weft/log_host.h>
#include <weft/persist.h>
#include <weft/revoke.h>
#include <weft/standing.h>
#include <weft/bad_range.h>
#include <weft/telemetry.h>
#include <weft/verbs.h>
#include <weft/worker.h>

#endif /* WEFT_H */
