/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef KEY_FILE_H
#define KEY_FILE_H

/**
 * @file
 * The file that holds the key of a keyed hash: its octets as they stand are the key.
 */

#include <stddef.h>
#include <stdint.h>

#include <weft/hash.h>

/** RFC 2104 s3 discourages keys shorter than the hash's result. */
#define KEY_FILE_MIN_BYTES 32

struct key_file {
	uint8_t key[WEFT_HASH_KEY_MAX_BYTES];
	uint32_t bytes;
};

/**
 * Read it. -EACCES: others than its owner, who is this user or root, may read or write it; -EINVAL:
 * no regular file, or not KEY_FILE_MIN_BYTES to WEFT_HASH_KEY_MAX_BYTES; -errno of opening and
 * reading it. err gets one line without the file's name.
 */
int key_file_read(const char *path, struct key_file *out, char *err, size_t err_size);

#endif /* KEY_FILE_H */
