/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_H
#define WEFT_H

/** @file Everything of libweft but RPC-over-RDMA (weft_rpcrdma.h, which needs libtirpc's headers).
 */

#include "weft_capture.h"
#include "weft_commit.h"
#include "weft_guard.h"
#include "weft_hash.h"
#include "weft_log.h"
#include "weft_log_host.h"
#include "weft_persist.h"
#include "weft_recall.h"
#include "weft_standing.h"
#include "weft_suspect.h"
#include "weft_telemetry.h"
#include "weft_verbs.h"
#include "weft_worker.h"

#endif /* WEFT_H */
