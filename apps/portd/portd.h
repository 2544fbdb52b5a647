/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PORTD_H
#define PORTD_H

/**
 * @file weft-portd. The sources from below: portd_table.c (owners of ports), portd_switch.c (where
 * a frame goes), portd_memif.c and portd_forward.c (the frames), portd_control.c and portd_socket.c
 * (conversations), portd_show.c (telemetry and --json), portd.c. portd_client.c is the processes'
 * side.
 */

#include "portd_control.h"
#include "portd_forward.h"

/** What is shown of a daemon. Each part may be asked by any thread. */
struct portd {
	struct portd_control *control;
	struct portd_forward *forward;
	uint32_t max_procs, max_claims, max_blocks;
	uint64_t dead_us;
};

/** Adds the commands /weft/portd/... to telemetry. 0, or -errno of weft_telemetry_command(). */
int portd_show_begin(struct portd *d);
/** Removes them. */
void portd_show_end(void);
/** Prints the counters as one JSON document on standard output. */
void portd_show_json(const struct portd *d);

#endif /* PORTD_H */
