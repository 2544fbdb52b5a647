/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_TCP_PLAN_H
#define WEFT_TCP_PLAN_H

/** @file How many connections a TCP instance will admit, computed before it exists. Internal. */

#include <weft/tcp_attr.h>

/** The most connections over a port that lends `snd` mbufs for sending. max_conns 0 means its
 * default. Any thread. */
uint32_t weft_tcp_plan_conns(const struct weft_tcp_attr *attr, uint32_t snd);

#endif /* WEFT_TCP_PLAN_H */
