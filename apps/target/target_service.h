/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_TARGET_SERVICE_H
#define WEFT_APPS_TARGET_SERVICE_H

/**
 * @file What weft-target tells a service manager by datagrams to $NOTIFY_SOCKET, as sd_notify(3)
 * describes: that it serves, reads its configuration again, ends, and that its workers poll.
 * Without NOTIFY_SOCKET all calls do nothing. All calls are the program's thread's.
 *
 * The watchdog ($WATCHDOG_USEC) asks each worker for an answer, which a worker gives in its next
 * poll, also one that sleeps. The manager is told only when all have answered, so it ends the
 * program when one worker hangs. The watchdog has a thread of its own: the program's thread may
 * wait for a medium.
 */

#include <stdint.h>

struct weft_worker;

/** Read the environment, and remove what was for this process alone. Before the first thread. */
void target_service_begin(void);
/** Put back into the environment what target_service_begin() has removed, for a program that this
 * process executes: it answers the same manager. */
void target_service_environment(void);
/** The program ends to be executed again: the manager waits. Stops the watchdog, as
 * target_service_stopping(). */
void target_service_restarting(void);
/** The program serves so many exports. Starts the watchdog of these workers, if one is wanted. */
void target_service_ready(struct weft_worker *const *workers, uint32_t nworkers, uint32_t exports);
/** SIGHUP: the configuration is read again, until target_service_reloaded(). */
void target_service_reloading(void);
void target_service_reloaded(uint32_t exports);
/** The program ends. Stops the watchdog; before the workers are stopped. */
void target_service_stopping(void);

#endif /* WEFT_APPS_TARGET_SERVICE_H */
