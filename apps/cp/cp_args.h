/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_CP_ARGS_H
#define WEFT_APPS_CP_ARGS_H

/** @file The command line of weft-cp. */

#include "cp.h"
#include "port_args.h"
#include <weft/volume.h>

#define CP_RECONNECT_S 60 /**< --reconnect, seconds */

struct cp_args {
	struct cp_options opt;
	struct port_args port_args;
	bool list;
	bool snaps; /**< snapshots or a clone: snap_op */
	enum weft_volume_op snap_op;
	const char *snap_name, *snap_from;
	bool timeout;           /**< --timeout was given */
	uint32_t retries;       /**< after a failure that may pass */
	uint64_t retry_wait_ns; /**< before the first one */
	uint64_t reconnect_ns;  /**< of a transfer that has lost its connection; 0: it has failed */
	uint64_t lost_ns; /**< when this process lost it before it began anew; 0: it did not */
	char **argv;      /**< as the program was begun */
	char **operands;
	int noperands;
};

/** Read and check the options; does not return if they are wrong. */
void cp_args_parse(int argc, char **argv, struct cp_args *a);
/** Configure this end: by a file, by one port of the command line, or by the default port. Does not
 * return if that fails. */
void cp_args_configure(struct cp_args *a, struct conf *c);

#endif /* WEFT_APPS_CP_ARGS_H */
