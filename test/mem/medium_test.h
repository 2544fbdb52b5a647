/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef MEDIUM_TEST_H
#define MEDIUM_TEST_H

/** @file Shared by the tests of media: a scratch folder, files that tests create and read, and
 * requests with a wait. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/persist.h>

/** Create a scratch folder under `parent` (NULL: TMPDIR or /tmp). It is removed with its files at
 * exit. Returns its path. */
const char *scratch(const char *parent);
/** The path "<scratch>/<name>", in one of a few static buffers. */
const char *scratch_path(const char *name);
/** Create a file of `bytes` octets with value `fill`. */
void put_file(const char *path, uint64_t bytes, uint8_t fill);
/** Read [off, off+len) of a file by an ordinary read. Returns 0 or -errno (-ENODATA: the file is
 * too short). */
int get_file(const char *path, void *buf, size_t len, uint64_t off);
/** Overwrite a part of a file durably, past all caches of the driver under test. */
void poke_file(const char *path, const void *buf, size_t len, uint64_t off);
uint64_t file_bytes(const char *path); /**< UINT64_MAX: no such file */

/** Create a loop device on a file of the scratch folder. Returns -1 if that is not permitted: it
 * needs root. */
int loop_make(const char *file, char dev[32]);
/** Tell a loop device, by its descriptor, that its file has another length. Returns 0 or -errno. */
int loop_resize(int fd);
/** Set the logical block of a loop device. Returns 0 or -errno. */
int loop_block(int fd, unsigned int bytes);

/** Open a medium. The case fails if that fails. */
struct weft_persist *must_open(const char *driver, const char *path, uint64_t bytes, bool create);
/** Open a medium and close it again. Returns 0 or -errno. */
int try_open(const char *driver, const char *path, uint64_t bytes, bool create);
/** Write to the medium's memory and mark it. */
void put_mem(struct weft_persist *p, uint64_t off, const void *buf, size_t len);
/** Flush on `e` and wait. Returns its status or the submission's error. */
int flush(struct weft_persist *p, struct weft_exec *e, uint64_t off, uint64_t len, uint32_t flags);
/** Read back on `e`, wait, copy the octets and release. Returns the status or the submission's
 * error. */
int read_back(struct weft_persist *p, struct weft_exec *e, uint64_t off, uint64_t len, void *buf);

#endif /* MEDIUM_TEST_H */
