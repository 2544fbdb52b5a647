/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_CONSOLE_TEL_CLIENT_H
#define WEFT_CONSOLE_TEL_CLIENT_H

/** @file A client of a DPDK telemetry socket (version 2): questions, and answers as JSON. */

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define TEL_ERR_MAX  160
#define TEL_PATH_MAX 108 /**< of a Unix socket, with the final zero */

struct tel_client {
	int fd; /**< -1: not connected */
	pid_t pid;
	char path[TEL_PATH_MAX];
	char *buf; /**< of buf_bytes: the largest answer that the program can give */
	size_t buf_bytes;
	bool lost; /**< the program has closed the socket */
};

/**
 * Connect to the socket `path` and read the program's greeting. 0; -errno of connecting; -EPROTO:
 * what listens there does not greet as DPDK's telemetry does; -ETIMEDOUT: it does not answer.
 */
int tel_client_open(struct tel_client *t, const char *path);
void tel_client_close(struct tel_client *t);
/**
 * Ask "COMMAND,PARAMETERS". The caller owns the answer (json_decref()), which stood behind the name
 * of the command. NULL: err says why, in the program's words if it answered with an error; t->lost
 * says whether the program has ended.
 */
json_t *tel_client_ask(struct tel_client *t, char err[TEL_ERR_MAX], const char *fmt, ...)
        __attribute__((format(printf, 3, 4)));

#endif /* WEFT_CONSOLE_TEL_CLIENT_H */
