/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_VERBS_ENGINE_H
#define WEFT_APPS_VERBS_ENGINE_H

/**
 * @file The one worker of the process: its start, the lock around it, and who polls it.
 *
 * Every call into weft is made with the engine's lock held. The holder of the lock is the worker's
 * polling thread, so weft acts at once, and its callbacks run on that thread under the lock. The
 * calls of the program poll the worker (wv_progress()). A helper thread polls it while the program
 * makes no such call, and sleeps under the lock when nothing moves; wv_lock() ends that sleep.
 *
 * Order of locks: the engine's, then that of a completion queue or of connection management, then
 * that of a queue of events (fdq.h).
 */

#include <stdbool.h>
#include <stdint.h>

#include <weft/weft.h>

#include "conf.h"
#include "helper.h"

/** What all objects are made of. Valid after wv_engine_up() returned 0. */
struct wv_engine {
	struct weft_ctx *ctx;
	struct weft_port *ports[CONF_PORTS_MAX]; /**< each is a device; by their numbers */
	unsigned int nports;
	struct weft_worker *worker;
	struct weft_evq *evq; /**< events of all QPs, listeners and SRQs: events.h */
};

extern struct wv_engine wv_engine;

/** What the engine calls of the sources above it. */
struct wv_engine_hooks {
	weft_event_fn on_event; /**< the callback of wv_engine.evq */
	/** the end of the process: let connections send what they have, until end_ns. Under the
	 * lock */
	void (*drain)(uint64_t end_ns);
	struct wv_helper_hooks helper;
};

/** Set them, once, before main(). */
void wv_engine_hook(const struct wv_engine_hooks *hooks);

/**
 * Open the port and start the helper thread, the first time. Any thread. 0, or -errno after one
 * line on standard error, unless the last one said the same. A failure before EAL was started is
 * not remembered: the next call tries again. A later one stays, because EAL starts once in a
 * process. After fork() the child of a process that has started it gets
 * -EPERM: a port belongs to one process.
 */
int wv_engine_up(void);
/** Whether it is up. */
bool wv_engine_is_up(void);
/**
 * Whether the calling thread must not use the port: the process is a child of the one that opened
 * it, or the thread is in exit() and has closed it. What a child does to the objects that it has
 * inherited is done to copies; nothing of it may reach the port, whose rings it shares. What a
 * handler of exit() does, or the destructor of a static object, is done to memory of this library
 * alone.
 */
bool wv_engine_orphan(void);
/** The second of these: weft's own objects are gone. Other threads wait for ever for the lock. */
bool wv_engine_over(void);
/** The same, also in a child of vfork(), which has no copies: it shares all memory. */
bool wv_engine_foreign(void);
/**
 * Does not return if another thread is at the end of the process, in exit(): the other threads
 * would have ended by now if the kernel closed the connections.
 */
void wv_engine_hold(void);
/** Take the lock. The calling thread becomes the worker's polling thread. */
void wv_lock(void);
void wv_unlock(void);
/**
 * Return the lock for a nap, or without one for other threads that wait for it; then take it again.
 * The calling thread is not cancelled meanwhile.
 */
void wv_give_way(uint64_t nap_ns);
/** Poll the worker once, with the lock held. Returns how much was done. */
int wv_poll_locked(void);
/**
 * Poll the worker once if no other thread has the lock. Counts as a sign that the program makes
 * progress by itself. Without an engine: nothing.
 */
void wv_progress(void);
/** Requests were posted that only the next poll sends. With the lock held. */
void wv_posted(void);
/**
 * The program sleeps in a call that this library knows, or has made one that says that it runs. Of
 * several threads the last one counts: a hint.
 */
void wv_set_waiting(bool now);
bool wv_is_waiting(void);
/**
 * The calling thread is about to sleep, in a call of libc or of verbs: send what is posted, and let
 * the helper thread poll from now on.
 */
void wv_will_block(void);
/**
 * Poll until fd is readable, for some microseconds. False: it is not, and the calling thread is
 * about to sleep, as wv_will_block() says.
 */
bool wv_spin_readable(int fd);
/** CLOCK_MONOTONIC. */
uint64_t wv_now_ns(void);

#endif /* WEFT_APPS_VERBS_ENGINE_H */
