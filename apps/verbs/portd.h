/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_VERBS_PORTD_H
#define WEFT_APPS_VERBS_PORTD_H

/**
 * @file The process's part of weft-portd's address, if the environment names one: its net_memif and
 * its TCP ports. A child of fork() has none, until it asks for its own.
 *
 * A TCP port that an id is bound to is claimed, unless it is in a block of the process. It is given
 * back when no id is bound to it and weft has neither a listener nor a connection on it. All calls:
 * any thread.
 *
 * A command that needs something of the daemon does not ask with the engine's lock, because the
 * thread that polls would wait for the daemon. It ends with -EAGAIN, and is done again after
 * wv_portd_ask().
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "conf.h"

struct portd_answer;

/** Whether the environment names a daemon. */
bool wv_portd_on(void);
/** Attach to the daemon, unless it is done. 0 and what the daemon said; or -errno with one line in
 * err. */
int wv_portd_attach(struct portd_answer *hello, char *err, size_t err_size);
/** Make the port of a configuration the process's own: attach, and name its device. 0; else -errno
 * with one line in err, also if the daemon has other addresses now than the configuration. */
int wv_portd_device(struct conf *c, char *err, size_t err_size);

/** A command begins on this thread. */
void wv_portd_begin(void);
/** After a command that ended with -EAGAIN, without locks: ask the daemon for what it needs, and
 * wait for the answer. False: it needs nothing. Else the command is to be done again. */
bool wv_portd_ask(void);
/** The command has ended; what it did not use is given back. */
void wv_portd_end(void);

/** An id is to be bound to this port. 0, -EAGAIN (the daemon is to be asked), -EADDRINUSE (another
 * process has it), -ENOSPC (the process has too many), -ENETDOWN (no daemon). */
int wv_portd_bind(uint16_t port);
/** It is not bound any more. */
void wv_portd_unbind(uint16_t port);
/** How many ports the process has in blocks, for active opens and for ids that name no port. */
uint32_t wv_portd_dynamic(void);
/** The i-th of them. */
uint16_t wv_portd_nth(uint32_t i);
/** Have another block. -EAGAIN (the daemon is to be asked); then, -ENOSPC, -ENETDOWN. */
int wv_portd_more(void);

/** Tell weft which ports the process has, before it listens or connects. With the engine's lock, or
 * before another thread may have it; so are the next two. */
void wv_portd_tell(void);
/** Give back the ports that are not used any more. */
void wv_portd_sweep(void);
/** Whether the daemon is gone, said once on standard error. */
bool wv_portd_gone(void);

#endif /* WEFT_APPS_VERBS_PORTD_H */
