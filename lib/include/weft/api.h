/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_API_H
#define WEFT_API_H

/**
 * @file What stands between WEFT_API_BEGIN and WEFT_API_END of a header is what the library offers:
 * it has C names in C++, and is exported. Everything else in the library is hidden. lib/weft.map
 * lists the functions once more, with the version of the interface that each belongs to.
 */

#ifdef __cplusplus
#define WEFT_API_LANGUAGE_BEGIN extern "C" {
#define WEFT_API_LANGUAGE_END   }
#else
#define WEFT_API_LANGUAGE_BEGIN
#define WEFT_API_LANGUAGE_END
#endif

#ifdef __GNUC__
#define WEFT_API_BEGIN _Pragma("GCC visibility push(default)") WEFT_API_LANGUAGE_BEGIN
#define WEFT_API_END   WEFT_API_LANGUAGE_END _Pragma("GCC visibility pop")
#else
#define WEFT_API_BEGIN WEFT_API_LANGUAGE_BEGIN
#define WEFT_API_END   WEFT_API_LANGUAGE_END
#endif

#endif /* WEFT_API_H */
