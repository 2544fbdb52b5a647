/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_CP_FILE_H
#define WEFT_APPS_CP_FILE_H

/** @file The local file of a pull: it appears complete, or not at all. */

#include <stdint.h>

#include "conf.h"

struct cp_session;

struct cp_file {
	const char *path;
	char temp[CONF_PATH_MAX + 64]; /**< the file until it is complete; "": there is none */
	int fd;
};

/** Create the temporary file beside the destination, so that errors of the folder show before the
 * transfer. f is zero before. -errno with s->err. */
int cp_file_create(struct cp_session *s, struct cp_file *f, const char *path);
/** Write all octets. -errno. */
int cp_file_write(const struct cp_file *f, const void *buf, uint32_t len_bytes, uint64_t off_bytes);
/** Put it in place, durable. -errno with s->err. */
int cp_file_install(struct cp_session *s, struct cp_file *f);
/** Close it, and remove what is not in place. Allowed at any stage. */
void cp_file_end(struct cp_file *f);

#endif /* WEFT_APPS_CP_FILE_H */
