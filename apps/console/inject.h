/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_CONSOLE_INJECT_H
#define WEFT_CONSOLE_INJECT_H

/**
 * @file Faults on the console's ports: packets that arrive are dropped, delayed, duplicated or
 * corrupted before the stack sees them, and packets that leave behind it. A port without faults
 * has nothing in its way. Main thread.
 */

#include <stdbool.h>
#include <stdint.h>

struct conf;

enum inject_fault { INJECT_DROP, INJECT_DELAY, INJECT_DUPLICATE, INJECT_CORRUPT, INJECT_FAULTS };

/** Which packets of a port. */
enum inject_way { INJECT_RX, INJECT_TX, INJECT_WAYS };

/** How often a fault happens: both 0: never. */
struct inject_often {
	double probability; /**< of each packet, 0 to 1 */
	uint64_t every;     /**< every Nth packet */
};

struct inject_want {
	struct inject_often often[INJECT_FAULTS];
	uint64_t delay_us;
	uint64_t seed; /**< of the draws; each queue has its own */
};

struct inject_figures {
	struct inject_want want;
	uint64_t packets; /**< that arrived, or were sent */
	uint64_t done[INJECT_FAULTS];
	uint64_t held;   /**< delayed, and not delivered yet */
	uint64_t undone; /**< faults that did not happen, because a buffer or a place was missing */
};

/** Remember which device each port of the configuration has. */
void inject_init(const struct conf *c);
/**
 * Faults of port number i from now on; they replace those that it has this way. 0; -ENODEV: ethdev
 * does not know its device; -ENOTSUP: DPDK was built without such callbacks; -EBUSY, -ENOMEM.
 */
int inject_start(unsigned int i, enum inject_way way, const struct inject_want *want);
/**
 * Without faults this way from now on. Packets that are held are lost. 0; -ENOENT: it has none;
 * -ETIMEDOUT: a worker did not end its burst within 5 s, and the memory of the faults is never
 * freed.
 */
int inject_stop(unsigned int i, enum inject_way way);
/** False: it has none. */
bool inject_get(unsigned int i, enum inject_way way, struct inject_figures *f);
/** "drop", ... */
const char *inject_fault_str(enum inject_fault f);
/** "rx", "tx" */
const char *inject_way_str(enum inject_way w);

#endif /* WEFT_CONSOLE_INJECT_H */
