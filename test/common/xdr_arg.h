/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TEST_XDR_ARG_H
#define TEST_XDR_ARG_H

/** @file The argument of an XDR filter. TI-RPC's xdrproc_t declares filters with `...`. */

#include <stdarg.h>

/** Let `arg`, a pointer, be the argument that the filter (XDR *x, ...) has beside x. */
#define XDR_ARG(x, arg)                                                                            \
	do {                                                                                       \
		va_list ap_;                                                                       \
                                                                                                   \
		va_start(ap_, x);                                                                  \
		(arg) = va_arg(ap_, __typeof__(arg));                                              \
		va_end(ap_);                                                                       \
	} while (0)

#endif /* TEST_XDR_ARG_H */
