/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_CP_PUSH_H
#define WEFT_APPS_CP_PUSH_H

/** @file The source of a push (cp_source.c), and a push of an object as a whole (cp_push.c), by
 * either way (cp_push_rdma.c, cp_push_rpc.c). */

#include "cp.h"

/** Size of a stream of unknown length. */
#define CP_SIZE_UNKNOWN UINT64_MAX

/** A hash, and its key. */
struct cp_hash {
	const struct weft_hash_ops *ops;
	const uint8_t *key; /**< NULL: it has none */
	uint32_t key_bytes;
};

/** The source of a push, or of a comparison: a file, or a stream on standard input. */
struct cp_source {
	const char *path; /**< for messages */
	int fd;           /**< cp_source_close() closes it */
	bool stream;      /**< it is read once, and may have nothing yet */
	bool ended;       /**< all of it was read, or no more of it is to be read */
	struct stat st;
	uint64_t size_bytes;             /**< CP_SIZE_UNKNOWN: it ends when it ends */
	uint32_t fill_bytes;             /**< of the stream, in the block that is being filled */
	const struct weft_hash_ops *crc; /**< hash of the object's data */
	struct weft_hash_state crc_state;
	uint64_t read_bytes;
	const char *left; /**< what a push that ends here leaves, for messages */
};

/** Open a file, or standard input for "-". f is set anew, and keeps path and left by reference.
 * -errno with s->err; cp_source_close() is allowed then, too. */
int cp_source_open(struct cp_session *s, struct cp_source *f, const char *path, const char *left);
void cp_source_close(struct cp_source *f);
/** Check that the opened export has room for what is known of the file. */
int cp_source_fits(struct cp_session *s, const struct cp_source *f);
/** Whether octets are left to be read. */
bool cp_source_more(const struct cp_source *f);
/**
 * Read the next octets, `want` or as many as are left; *got tells. -EAGAIN, without a message: a
 * stream has not so many yet. Call again with the same buffer and `want` later. *got 0: the end.
 */
int cp_source_next(struct cp_session *s, struct cp_source *f, uint8_t *buf, uint32_t want,
                   uint32_t *got);
/** Begin again; not of a stream. */
int cp_source_rewind(struct cp_session *s, struct cp_source *f);
/** Check that the file has not changed since cp_source_open(). */
int cp_source_check(struct cp_session *s, const struct cp_source *f);
/** The file's name as a slot header has it. */
const char *cp_source_name(const struct cp_source *f);
/** The file's time of change as a slot header has it. */
int64_t cp_source_mtime_ns(const struct cp_source *f);
/** Make the slot header, after all of the file was read. */
void cp_source_header(struct cp_source *f, uint64_t generation, uint8_t crc[EXPFMT_CRC_BYTES],
                      uint8_t *page);
/** The consequence of a failed push for the object, a text to follow the reason; returns buf. */
const char *cp_push_consequence(uint64_t old_generation, bool commit_sent, char *buf, size_t size);

/** A push, of whichever way. A way's own structure begins with it. */
struct cp_push {
	struct cp_session *s;
	struct cp_report *r;
	struct cp_source file;
	struct expfmt_commit old, new;
	uint64_t slot_to;
	struct cp_hash hash; /**< of Verify; hash.ops NULL: no Verify */
	uint32_t depth;      /**< blocks in flight */
	uint8_t *mem;        /**< one block every stride octets */
	size_t stride;
	uint64_t done_bytes, begin_ns;
	uint64_t moved_bytes;   /**< posted, without what was there */
	uint64_t resumed_bytes; /**< proved to be there */
	struct ui_progress bar;
};

/** How the data of a push goes to the target. */
struct cp_push_ops {
	size_t bytes; /**< of the way's structure */
	uint32_t depth_max;
	/** of the data and the commit */
	void (*on_wc)(void *p, const struct weft_wc *wc);
	/** Read the commit word into p->old, durable. p->mem is allocated. */
	int (*read_word)(struct cp_push *p);
	int (*data)(struct cp_push *p);
	int (*commit)(struct cp_push *p);
	/** Add the way's own figures to the report. */
	void (*report)(struct cp_push *p);
};

/** Writes, Flushes and Verifies of this client. */
extern const struct cp_push_ops cp_push_rdma;
/** RPC WRITEs: the target fetches the data. */
extern const struct cp_push_ops cp_push_rpc;

int cp_push(struct cp_session *s, const char *path, struct cp_report *r,
            const struct cp_push_ops *ops);

#endif /* WEFT_APPS_CP_PUSH_H */
