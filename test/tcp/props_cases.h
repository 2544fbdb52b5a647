/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PROPS_CASES_H
#define PROPS_CASES_H

/** @file The cases of test_tcp_props, by topic. */

#include "props.h"

/** run() once per seed, or for the one given. */
void props_each(unsigned int runs, void (*run)(struct props *p));

#endif /* PROPS_CASES_H */
