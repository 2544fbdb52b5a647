/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef EXAMPLE_H
#define EXAMPLE_H

/**
 * @file What the example programs share: one port, one worker, one protection domain, one
 * completion queue and one event queue. Each program polls its worker itself, in one thread. Public
 * headers only.
 */

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/weft.h>

#define EXAMPLE_PORT 7471

/** End the program with a line that says what failed. */
#define MUST(cond)                                                                                 \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, "%s:%d: this failed: %s\n", __FILE__, __LINE__, #cond);    \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

struct example {
	struct weft_ctx *ctx;
	struct weft_worker *worker;
	struct weft_pd *pd;
	struct weft_cq *cq;
	struct weft_evq *evq;
	struct weft_qp *qp; /**< of the one connection */
};

/** Start DPDK, open the port `dev` with our address (10.0.0.1/24), make the objects above. */
void example_open(struct example *ex, const char *dev, const char *cidr);
void example_close(struct example *ex);

/**
 * Wait for a connection and accept it with a new queue pair. A message that comes first needs a
 * receive that is posted before weft_accept(): `buf`, NULL for none. `tell` goes to the client with
 * the answer.
 */
void example_accept(struct example *ex, void *buf, uint32_t buf_bytes, const void *tell,
                    uint32_t tell_bytes);
/** Connect to a server; what it told with its answer is copied to `told`, which has `size` octets.
 */
void example_connect(struct example *ex, const char *host, void *told, uint32_t size);

/** Create the queue pair of a connection on this worker. */
void example_qp(struct example *ex, struct weft_worker *worker);

/** Poll until *flag is true. Ends the program in 10 s. */
void example_wait(struct example *ex, const bool *flag);
/** Poll until an event comes, without a limit of time. */
struct weft_event example_any_event(struct example *ex);
/** Poll until an event of this type comes. Ends the program when another failure comes, or in 10 s.
 */
struct weft_event example_event(struct example *ex, enum weft_event_type type);
/** Poll until a work request completes. Ends the program when it has failed, or in 10 s. */
struct weft_wc example_completion(struct example *ex);

#endif /* EXAMPLE_H */
