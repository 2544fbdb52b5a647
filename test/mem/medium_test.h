/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef MEDIUM_TEST_H
#define MEDIUM_TEST_H

/** @file What the tests of media share: a scratch folder, files made and read, requests waited for.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/persist.h>

/** A scratch folder under `parent` (NULL: TMPDIR or /tmp), removed with its files at exit; its
 * path. */
const char *scratch(const char *parent);
/** "<scratch>/<name>" in one of a few static buffers. */
const char *scratch_path(const char *name);
/** Make a file of `bytes` octets of `fill`. */
void put_file(const char *path, uint64_t bytes, uint8_t fill);
/** Read [off, off+len) of a file by an ordinary read; 0 or -errno (-ENODATA: too short). */
int get_file(const char *path, void *buf, size_t len, uint64_t off);
/** Overwrite a piece of a file, durably, behind everyone's back. */
void poke_file(const char *path, const void *buf, size_t len, uint64_t off);
uint64_t file_bytes(const char *path); /**< UINT64_MAX: no such file */

/** A loop device on a file of the scratch folder; -1: only root has them, and not everywhere. */
int loop_make(const char *file, char dev[32]);

/** Open or fail the case. */
struct weft_persist *must_open(const char *driver, const char *path, uint64_t bytes, bool create);
/** Open; 0 or -errno; closes again. */
int try_open(const char *driver, const char *path, uint64_t bytes, bool create);
/** Write memory and mark it. */
void put_mem(struct weft_persist *p, uint64_t off, const void *buf, size_t len);
/** Flush on `e`, wait; its status, or submit's error. */
int flush(struct weft_persist *p, struct weft_exec *e, uint64_t off, uint64_t len, uint32_t flags);
/** Read back on `e`, wait, copy out, release; status or submit's error. */
int read_back(struct weft_persist *p, struct weft_exec *e, uint64_t off, uint64_t len, void *buf);

#endif /* MEDIUM_TEST_H */
