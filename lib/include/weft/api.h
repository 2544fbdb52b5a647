/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_API_H
#define WEFT_API_H

/**
 * @file Visibility and language of the public functions. What a header declares between
 * WEFT_API_BEGIN and WEFT_API_END is exported by the library and has C linkage in C++. All other
 * symbols of the library are hidden. lib/weft.map lists the exported functions again.
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
