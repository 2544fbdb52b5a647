/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_PERF_HOST_H
#define WEFT_PERF_HOST_H

/** @file What a side of weft-perf says of its machine and of its build (facts.c). */

#include <stdint.h>

struct json;

#define PERF_BUILD_BYTES 20

/** The server sends it in its Reply. Each text ends in a 0, and may be cut short. */
struct perf_host {
	char host[48], kernel[48], cpu[56];
	char architecture[16], governor[16], version[16];
	uint32_t cpus;
	/** the first octets of SHA-256 over the build IDs of the program and of weft's libraries;
	 * all 0: they have none */
	uint8_t build[PERF_BUILD_BYTES];
};

/** Find out the facts of this machine and this process. */
void perf_host_now(struct perf_host *h);
/** Write the facts as the object `key`, whose figures depend on them: machine, version, build. */
void perf_host_json(struct json *j, const char *key, const struct perf_host *h);

#endif /* WEFT_PERF_HOST_H */
