/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef KEY_FILE_H
#define KEY_FILE_H

/** @file The file with the key of a keyed hash. The file's octets are the key. */

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
 * Open a file with secrets. Returns the descriptor (O_CLOEXEC), which the caller closes. -EACCES:
 * its owner is neither this user nor root, or other users may read or write it; -errno of opening
 * it. err gets one line without the file's name.
 */
int key_file_open(const char *path, char *err, size_t err_size);

/**
 * Read a key file. -EACCES: its owner is neither this user nor root, or other users may read or
 * write it; -EINVAL: not a regular file, or not KEY_FILE_MIN_BYTES to WEFT_HASH_KEY_MAX_BYTES long;
 * -errno of opening and reading it. err gets one line without the file's name.
 */
int key_file_read(const char *path, struct key_file *out, char *err, size_t err_size);

#endif /* KEY_FILE_H */
