/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_NVMF_KEYS_H
#define WEFT_APPS_NVMF_KEYS_H

/**
 * @file The file that `tls_keys` of a [subsystem NQN] names (docs/nvmeof.md). It has a line for
 * each key of TLS: the NQN of a host, and the key in the interchange format of NVMe/TCP.
 */

#include <stddef.h>
#include <stdint.h>

#include "conf.h"
#include "weft_nvmf_tls.h"

#define NVMF_KEYS_MAX 1024U /**< of a file */

/**
 * Read such a file. *out: n keys, for nvmf_keys_free(). -EINVAL: a line is wrong, or there is no
 * key; else as nvmf_lines_read(). err gets one line, "FILE:LINE: what is wrong", without any part
 * of a key.
 */
int nvmf_keys_read(const char *path, struct weft_nvmf_tls_key **out, uint32_t *n, char *err,
                   size_t err_size);
/** Wipe and free them. Does nothing for NULL. */
void nvmf_keys_free(struct weft_nvmf_tls_key *list, uint32_t n);
/** Read the files of all subsystems, and keep nothing. As nvmf_keys_read(). */
int nvmf_keys_check(const struct conf *c, char *err, size_t err_size);

#endif /* WEFT_APPS_NVMF_KEYS_H */
