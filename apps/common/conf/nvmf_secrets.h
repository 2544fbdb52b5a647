/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_NVMF_SECRETS_H
#define WEFT_APPS_NVMF_SECRETS_H

/**
 * @file The file that `secrets` of a [subsystem NQN] or `discovery_secrets` of [nvmf] names
 * (docs/nvmeof.md). It has a line for each
 * host: its NQN, its secret, and, if controllers can prove their name to it, theirs. Empty lines
 * and those that begin with # say nothing.
 */

#include <stddef.h>
#include <stdint.h>

#include "conf.h"
#include "weft_nvmf_auth.h"

#define NVMF_SECRETS_HOSTS 1024U /**< of a file */

/**
 * Read such a file. *out: n entries, for nvmf_secrets_free(). -EINVAL: a line is wrong, or there is
 * no host; -EACCES: as key_file_open(); -E2BIG: too long; -ENOMEM; -errno of opening and reading
 * it. err gets one line, "FILE:LINE: what is wrong", without any part of a secret.
 */
int nvmf_secrets_read(const char *path, struct weft_nvmf_auth **out, uint32_t *n, char *err,
                      size_t err_size);
/** Wipe and free them. Does nothing for NULL. */
void nvmf_secrets_free(struct weft_nvmf_auth *list, uint32_t n);
/** Read the files of discovery and all subsystems, and keep nothing. As nvmf_secrets_read(). */
int nvmf_secrets_check(const struct conf *c, char *err, size_t err_size);

#endif /* WEFT_APPS_NVMF_SECRETS_H */
