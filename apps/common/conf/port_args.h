/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_PORT_ARGS_H
#define WEFT_APPS_PORT_ARGS_H

/** @file The port options of a command line: a configuration file, or one port. */

#include "conf.h"

struct port_args {
	const char *config;        /**< a file; NULL: none */
	const char *dev, *address; /**< one port; NULL: none */
	uint32_t mtu_bytes;        /**< 0: the default */
};

/** Values of getopt_long(). A program may also have a short option for PORT_ARG_CONFIG. */
enum { PORT_ARG_CONFIG = 1024, PORT_ARG_DEV, PORT_ARG_ADDRESS, PORT_ARG_MTU };

#define PORT_ARGS_OPTIONS                                                                          \
	{"config", required_argument, NULL, PORT_ARG_CONFIG},                                      \
	        {"dev", required_argument, NULL, PORT_ARG_DEV},                                    \
	        {"address", required_argument, NULL, PORT_ARG_ADDRESS},                            \
	{                                                                                          \
		"mtu", required_argument, NULL, PORT_ARG_MTU                                       \
	}

/** Lines of --help, behind that of --config. */
#define PORT_ARGS_HELP                                                                             \
	"      --dev DEV          one port instead: a DPDK device, with its arguments\n"           \
	"      --address CIDR     addresses of this port: one, or one of each family:\n"           \
	"                         10.0.0.2/24,fd00::2/64\n"                                        \
	"      --mtu BYTES        MTU of this port [1500]\n"

/** Take an option that getopt_long() returned. False: it is none of these. Ends the program on a
 * wrong value. */
bool port_args_take(struct port_args *a, int option, const char *value);
/** Whether --dev, --address and --mtu were given together as they must be; ends the program if
 * not. */
void port_args_check(const struct port_args *a);
/**
 * Load the file, or make the one port. Ends the program unless exactly one of --config and --dev
 * was given. 0; else -errno with one line in err.
 */
int port_args_conf(const struct port_args *a, struct conf *c, char *err, size_t err_size);

#endif /* WEFT_APPS_PORT_ARGS_H */
