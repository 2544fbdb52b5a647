/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_NVMF_LINES_H
#define WEFT_APPS_NVMF_LINES_H

/**
 * @file Files with a line of words for each key of a host, as nvmf_secrets.h and nvmf_keys.h have
 * them. Empty lines and those that begin with # say nothing. What is told of a fault has no part of
 * a key.
 */

#include <stddef.h>
#include <stdint.h>

#define NVMF_LINES_BYTES (1U << 20) /**< longest file */

struct nvmf_lines {
	const char *path;
	/** Take a line: its words, by nvmf_lines_word(). 0, or of nvmf_lines_fail(). */
	int (*take)(struct nvmf_lines *l, char *text);
	void *arg; /**< of take */
	char *err; /**< gets one line, "FILE:LINE: what is wrong" */
	size_t err_size;
	unsigned int line; /**< 0: the file as a whole */
};

/** The next word of a line; NULL: there is none. */
char *nvmf_lines_word(char **at);
/** Say what is wrong. Returns rc. */
int nvmf_lines_fail(const struct nvmf_lines *l, int rc, const char *what, const char *why);
/**
 * Read the file of l->path. Its octets are wiped. What take() says; -EINVAL: it is no text;
 * -EACCES: as key_file_open(); -E2BIG: too long; -ENOMEM; -errno of opening and reading it.
 */
int nvmf_lines_read(struct nvmf_lines *l);

#endif /* WEFT_APPS_NVMF_LINES_H */
