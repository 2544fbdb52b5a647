/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_VERBS_API_H
#define WEFT_APPS_VERBS_API_H

/**
 * @file What the functions that stand in front of others' are marked with. All else is hidden. They
 * have no symbol version, so the dynamic linker takes them whatever version a program asks for.
 */

#define WV_API __attribute__((visibility("default")))

#define wv_container_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

#endif /* WEFT_APPS_VERBS_API_H */
