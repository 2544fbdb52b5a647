/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_FSCK_FILE_H
#define WEFT_APPS_FSCK_FILE_H

/** @file The medium of an export: a file or a block device. */

#include "fsck.h"

struct fsck_file {
	struct fsck_medium medium; /**< the first member */
	int fd;
	bool regular;
};

/**
 * Open and lock a medium; to be written only with `repair`. Without it the descriptor cannot write.
 * If it fails, err (of err_size octets) is one line without the path:
 * - -EBUSY: a target or another examination has it, or it is mounted
 * - -ENOTSUP: neither a file nor a block device
 * - -errno of open(2)
 */
int fsck_file_open(struct fsck_file *f, const char *path, bool repair, char *err, size_t err_size);
void fsck_file_close(struct fsck_file *f);

#endif /* WEFT_APPS_FSCK_FILE_H */
