/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PROPS_CASES_H
#define PROPS_CASES_H

/** @file The cases of test_tcp_props, by topic. */

#include "props.h"

/** Call run() once for each seed, or only for the seed given on the command line. */
void props_each(unsigned int runs, void (*run)(struct props *p));

/* props_faults.c: outages, exhausted resources and early ends */
void test_outage(void);
void test_economy(void);
void test_starve(void);
void test_abort(void);
void test_both_open(void);
void test_mtu(void);
void test_restart(void);

/* props_attack.c: attackers off the path (RFC 5961, RFC 4987) */
void test_blind(void);
void test_flood(void);

/* props_window.c: a receiver that moves its window arbitrarily (RFC 9293 s3.8.6) */
void test_window(void);

#endif /* PROPS_CASES_H */
