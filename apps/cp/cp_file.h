/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_CP_FILE_H
#define WEFT_APPS_CP_FILE_H

/** @file What a pull writes: a local file, which appears complete or not at all, or standard
 * output. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "conf.h"

struct cp_session;

struct cp_file {
	const char *path;
	char temp[CONF_PATH_MAX + 64]; /**< the file until it is complete; "": there is none */
	int fd;
	uint64_t have_bytes; /**< octets of an earlier pull that may be right */
	bool keep;           /**< a pull that fails keeps them */
	bool stream;         /**< standard output: in order, once */
	bool given;          /**< of it, octets have gone there */
	bool blocks;         /**< a long write to it may block */
	bool replaces;       /**< there is a file that it replaces, of this mode */
	mode_t mode;
};

/** Create the temporary file beside the destination, so that errors of the folder show before the
 * transfer; with opt->keep_part take an earlier one. "-": standard output. f is zero before. -errno
 * with s->err. */
int cp_file_create(struct cp_session *s, struct cp_file *f, const char *path);
/** Write all octets. -errno. */
int cp_file_write(const struct cp_file *f, const void *buf, uint32_t len_bytes, uint64_t off_bytes);
/**
 * Write octets of which *put are written already; *put tells how many are then. -EAGAIN: standard
 * output takes no more now. Else -errno; -EPIPE: its reader is gone.
 */
int cp_file_put(struct cp_session *s, struct cp_file *f, const void *buf, uint32_t len_bytes,
                uint64_t off_bytes, uint32_t *put);
/** Read what an earlier pull left there. -ENODATA: it has not all of it; -errno. */
int cp_file_local(const struct cp_file *f, void *buf, uint32_t len_bytes, uint64_t off_bytes);
/** What an earlier pull left there becomes zeros. -errno. */
int cp_file_hole(const struct cp_file *f, uint64_t off_bytes, uint64_t len_bytes);
/** Put it in place, durable. -errno with s->err. */
int cp_file_install(struct cp_session *s, struct cp_file *f);
/** The pull has failed with rc: octets that have gone to standard output cannot be taken back, and
 * s->err says so. */
void cp_file_fail(struct cp_session *s, const struct cp_file *f, int rc);
/** Close it, and remove what is not in place. Allowed at any stage. */
void cp_file_end(struct cp_file *f);

#endif /* WEFT_APPS_CP_FILE_H */
