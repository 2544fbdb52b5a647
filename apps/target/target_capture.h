/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_TARGET_CAPTURE_H
#define WEFT_APPS_TARGET_CAPTURE_H

/**
 * @file Captures of ports that the control socket starts and stops. A client of the socket names a
 * file, and not a folder: all of them are in one folder of the target's own, `captures` of the
 * state directory, or else beside the control socket. So a client cannot make the target write
 * elsewhere. Each is bounded: by the size of a file, and how many there are.
 *
 * The program's thread, unless a function says otherwise.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "conf.h"
#include <weft/capture.h>

#define CAPTURE_FILES      4U            /**< files of a ring by default */
#define CAPTURE_FILES_MAX  100U          /**< and at most */
#define CAPTURE_FILE_BYTES (16ULL << 20) /**< a file by default */
#define CAPTURE_FILE_MAX   (64ULL << 30) /**< and at most */
#define CAPTURE_PATH_MAX   (CONF_PATH_MAX + 128)

struct target;
struct weft_port;

/** A capture that is wanted, and one that runs. */
struct capture {
	char path[CAPTURE_PATH_MAX]; /**< "": none was started here; of a ring, without ".N" */
	uint64_t file_bytes;
	uint32_t files; /**< 1: one file, which ends when it is full; else a ring */
	uint32_t snaplen_bytes;
	uint64_t tcp_port;
	char peer[64]; /**< "": any */
	uint64_t began_ns;
};

/** Of all ports, by number. The lock: the program's thread writes, target_slow_pcap.c reads. */
struct captures {
	pthread_mutex_t lock;
	struct capture of[CONF_PORTS_MAX];
};

/** Find the port: by its name; NULL: the only one. -EINVAL with one line in err. */
int capture_port(struct target *t, const char *name, uint32_t *port, char *err, size_t err_size);
/**
 * Start a capture. *c has what is wanted, with a name without a folder in `path` ("": that of the
 * port), and gets the path. *changed: false: it runs already, exactly so. With one line in err:
 * - -EINVAL: a name or figure does not fit
 * - -EBUSY: the port has another capture
 * - -ENOSPC: the file system has less room than it may take
 * - others of files
 */
int capture_start(struct target *t, uint32_t port, struct capture *c, bool *changed, char *err,
                  size_t err_size);
/** Stop it. False: none ran. */
bool capture_stop(struct target *t, uint32_t port, struct capture *c,
                  struct weft_capture_stats *st);
/** What runs. False: nothing. c->path is empty for one that telemetry has started. */
bool capture_look(struct target *t, uint32_t port, struct capture *c,
                  struct weft_capture_stats *st);

#endif /* WEFT_APPS_TARGET_CAPTURE_H */
