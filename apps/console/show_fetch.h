/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_CONSOLE_SHOW_FETCH_H
#define WEFT_CONSOLE_SHOW_FETCH_H

/**
 * @file How the objects of a noun are collected from telemetry: struct show_noun.fetch. Each
 * appends objects to `rows` and returns 0, or -1 with the reason in err.
 */

#include "show_noun.h"

#define SHOW_FETCH(name)                                                                           \
	int show_fetch_##name(struct tel_client *t, const struct show_noun *n, json_t *rows,       \
	                      char err[TEL_ERR_MAX])

SHOW_FETCH(one);        /**< the answer is one object */
SHOW_FETCH(workers);    /**< CMD,W: one of each worker */
SHOW_FETCH(netifs);     /**< CMD,W,I: one of each interface of each worker */
SHOW_FETCH(named);      /**< LIST answers names or numbered names; CMD,NAME: one of each */
SHOW_FETCH(numbered);   /**< CMD: objects by number, of the whole program */
SHOW_FETCH(contexts);   /**< CMD,C: one of each context */
SHOW_FETCH(of_context); /**< CMD,C,FIRST: objects by number, of each context */
SHOW_FETCH(of_worker);  /**< CMD,W,FIRST: the same, of each worker */
SHOW_FETCH(of_netif);   /**< CMD,W,I,FIRST: the same, of each interface of each worker */
SHOW_FETCH(conns);      /**< LIST,W,FIRST: numbers; CMD,W,NUMBER: one of each */
SHOW_FETCH(xstats);     /**< LIST answers ports; the counters of DPDK's driver of each */
SHOW_FETCH(limits);     /**< what can be full: buffers, connections, regions; how full it is */

#endif /* WEFT_CONSOLE_SHOW_FETCH_H */
