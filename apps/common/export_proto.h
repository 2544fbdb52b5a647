/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_EXPORT_PROTO_H
#define WEFT_APPS_EXPORT_PROTO_H

/** @file What rpcgen makes of weft_export.x, without its warnings. */

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wstrict-prototypes"
#include "weft_export.h"
#pragma GCC diagnostic pop

/** xdr_void() has no parameters; xdrproc_t has. */
#define WEFT_EXPORT_XDR_VOID ((xdrproc_t)(void (*)(void))xdr_void)

#endif /* WEFT_APPS_EXPORT_PROTO_H */
