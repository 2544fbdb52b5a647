/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_PERF_ARGS_H
#define WEFT_PERF_ARGS_H

/** @file What the command line of weft-perf says (args.c). */

#include <getopt.h>

#include "conf.h"
#include "expect.h"
#include "mix.h"
#include "perf.h"
#include "port_args.h"

struct args {
	struct conf conf;
	struct perf_job job;
	bool server, once, all, forever;
	bool of_client, of_server; /**< an option of one side was given */
	bool json, csv, gbits, histogram;
	bool any_freq;   /**< no warning about the frequency of the CPU */
	bool both;       /**< rows of both directions, with job.both_ways */
	const char *out; /**< a file for the results; NULL: standard output */
	FILE *out_file;  /**< the open file of `out`, or NULL */
	uint32_t rounds; /**< how often all sizes are measured */
	struct expect expect;
	struct mix mix;
	double rate; /**< messages or bits a second; 0: no limit */
	bool rate_is_bits;
	bool size_given;
	bool overwrite; /**< volume-write may change what the volume holds */
	struct perf_medium medium;
	struct perf_hosts hosts;
	uint32_t workers;
	uint32_t wait_s; /**< for a server that is not there yet */
	uint16_t port;
	struct port_args port_args;
	const char *host;
	char **command;     /**< the arguments as they were given */
	char started[32];   /**< UTC */
	const char *failed; /**< why not all was measured; NULL: all was */
	/* a run that is made again */
	const char *run_file; /**< NULL: it is none */
	bool untrusted;       /**< its port options may load no code and write no file */
	const char *config;   /**< the name of its configuration; NULL: that of port_args */
	char *content;        /**< the text of the configuration; NULL: none */
	char **document;      /**< where the document is kept, too; or NULL */
};

/** Exit status of a result that does not meet --expect. */
#define PERF_EXIT_EXPECT 3

/** The options, for getopt_long(). */
extern const struct option args_options[];
extern const char args_letters[];
/** The value in args_options of an option whose letter has another one. */
int args_long(int o);
/** Read the command line. Ends the program, with one line that says why, if it is wrong. */
void args_parse(int argc, char **argv, struct args *a);

#endif /* WEFT_PERF_ARGS_H */
