/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_VERBS_LOCK_H
#define WEFT_APPS_VERBS_LOCK_H

/** @file The parts of the engine's lock that only the engine, the helper thread and progress.c
 * use. */

#include <stdbool.h>
#include <stdint.h>

/** Take the lock, poll once, and return it. False: another thread has it; its sleep ends. */
bool wv_trylock_poll(void);
/** wv_lock() without becoming the worker's thread: to look at what the lock protects. */
void wv_lock_only(void);
/** wv_lock(), but at most until end_ns of wv_now_ns(). */
bool wv_lock_until(uint64_t end_ns);
/** Whether the calling thread has it, or the code that a signal handler of it has interrupted. */
bool wv_lock_is_mine(void);
/** Sleep with the lock held, until there is something to do or another thread wants the lock. */
void wv_sleep_locked(uint64_t idle_us);
/** Whether another thread waits for the lock. */
bool wv_lock_wanted(void);
/** Whether requests were posted since the last poll. */
bool wv_has_posted(void);
/** The calling thread is in exit(). */
void wv_engine_set_ending(void);
/** The calling thread, in exit(), has ended the worker, and keeps the lock. */
void wv_engine_set_over(void);
/** Whether there is a worker, from now on. */
void wv_engine_set_up(bool now);
/** This process is a child of fork(): the worker, whose port it shares, is its parent's. */
void wv_engine_set_orphan(void);

#endif /* WEFT_APPS_VERBS_LOCK_H */
