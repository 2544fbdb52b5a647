/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_CP_VOLUME_H
#define WEFT_APPS_CP_VOLUME_H

/** @file What push and pull of volumes share (cp_volume.c): the volume, and blocks in flight. */

#include "cp_compare.h"
#include <weft/volume.h>

/** What a push that fails leaves. */
#define CP_VOLUME_LEFT                                                                             \
	"what was acknowledged before is on the volume, the rest is as it was or was written in "  \
	"part"

struct cp_volume;

/** A block in flight. Its owner keeps it busy until cp_block_end(). */
struct cp_block {
	struct cp_volume *p;
	uint8_t *buf;
	uint64_t off_bytes; /**< in the volume */
	uint32_t len_bytes;
	uint64_t post_ns;
	bool busy;
	bool give_back; /**< the target takes its window back: close it as soon as it is not busy */
	bool opens;     /**< its window is being opened, not moved */
	bool by_window; /**< it goes by a window, else by a call */
	bool ready;     /**< of a pull: it has come, and waits for its turn on standard output */
	uint32_t put_bytes;                /**< of it, written there */
	uint8_t mine[WEFT_HASH_MAX_BYTES]; /**< the hash of what is here, beside the target's */
	/** Another client has its range, since busy_ns; 0: it has not. The target is asked again at
	 * again_ns; 0: it is being asked. */
	uint64_t busy_ns, again_ns;
	/** Zeros: checked up to here; the volume says that it has data up to there. */
	uint64_t at_bytes, data_to_bytes;
	struct weft_volume_piece piece;
	struct weft_volume_req req;
	struct weft_volume_window win;
};

struct cp_volume {
	struct cp_session *s;
	struct cp_report *r;
	struct weft_volume *v;
	const struct weft_volume_info *info;
	const char *path; /**< of the file */
	bool is_push;
	uint64_t begin_bytes, end_bytes; /**< the range of the volume */
	uint64_t done_bytes, begin_ns;
	uint64_t moved_bytes;   /**< submitted, without holes and what was there */
	uint64_t resumed_bytes; /**< proved to be there */
	struct cp_hash hash;    /**< of a verify; hash.ops NULL: none */
	struct cp_block block[CP_DEPTH_MAX];
	uint32_t depth, busy;
	uint32_t ready;                    /**< blocks that wait for their turn */
	int (*turn)(struct cp_volume *p);  /**< in each turn; may be NULL */
	uint32_t waiting;                  /**< blocks with again_ns */
	void (*again)(struct cp_block *b); /**< ask again for such a block; it is still busy */
	uint8_t *mem;
	int rc; /**< the first failure, with s->err */
	struct ui_progress bar;
};

/** Begin an operation: allocate its structure of `bytes` octets, which begins with a struct
 * cp_volume. The caller frees it behind cp_volume_end(). op: the report's. NULL, with s->err: no
 * memory. */
void *cp_volume_new(struct cp_session *s, size_t bytes, const char *op, const char *path,
                    struct cp_report *r);
/** Connect, and open the volume with these rights, and those that are wished if it has them;
 * p->info is set. */
int cp_volume_open(struct cp_volume *p, uint32_t rights, uint32_t wish);
/** Set the range from --offset and --length; total: octets of the file of a push, else 0. */
int cp_volume_range(struct cp_volume *p, uint64_t total);
/** Find the hash of the volume and its key. */
int cp_volume_hash(struct cp_volume *p);
/** Flush the range, and wait: what a Verify then proves is durable. */
int cp_volume_flush(struct cp_volume *p);
/**
 * Ask for the target's hash of the block, beside that of buf, which b->mine then has. done is
 * called with b->req; cp_block_same() tells.
 */
int cp_block_verify(struct cp_block *b, void (*done)(struct weft_volume_req *req));
bool cp_block_same(const struct cp_block *b);
/** Octets that one Verify can have. */
uint32_t cp_volume_verify_max(const struct cp_volume *p);
/** Memory for the blocks. */
int cp_volume_memory(struct cp_volume *p, uint32_t depth_max);
/** A block that is not busy; waits for one. -errno of a failure. */
int cp_block_get(struct cp_volume *p, struct cp_block **out);
/** The block is not used. */
void cp_block_drop(struct cp_block *b);
/** The block is done; its octets count. */
void cp_block_end(struct cp_block *b);
/** What a failure leaves, a text to follow the reason; of a pull to standard output cp_file_fail()
 * adds it. */
const char *cp_volume_consequence(const struct cp_volume *p);
/** The block has failed: the reason, and what was not done. */
void cp_block_fail(struct cp_block *b, int status, const char *what, const char *why);
/**
 * Another client has the range of the block: ask again soon (p->again), as long as the time for
 * that is not over. Others go on meanwhile. False: it is over.
 */
bool cp_block_again(struct cp_block *b);
/** Fill the block with what comes next of a source, `want` octets at most; 0 octets at the end of a
 * stream. */
int cp_volume_source(struct cp_volume *p, struct cp_source *f, struct cp_block *b, uint32_t want);
/** Whether a stream goes on: takes one octet of it. */
int cp_volume_source_more(struct cp_volume *p, struct cp_source *f, bool *more);
/** Wait until no block is busy. */
int cp_volume_wait(struct cp_volume *p);
/** One turn: 0, or the first failure. */
int cp_volume_turn(struct cp_volume *p);
/**
 * The push has failed with rc, and the target has ended the connection or the grant: connect again,
 * and find the cause by a call that writes the block, which was the first to fail. Writes s->err
 * anew, with what was found; returns its status, or rc.
 */
int cp_volume_cause(struct cp_volume *p, int rc, uint32_t rights, const struct cp_block *b);
/** Fill in the figures of any operation. The time ends here. */
void cp_volume_report(struct cp_volume *p);
/** Close the volume, disconnect, free. rc: the result so far. */
void cp_volume_end(struct cp_volume *p, int rc);

/** Push to a volume, and pull from one. */
int cp_volume_push(struct cp_session *s, const char *path, struct cp_report *r);
int cp_volume_pull(struct cp_session *s, const char *path, struct cp_report *r);
/** Make, list or remove snapshots, or make a clone, and print the result. from: NULL: none. */
int cp_volume_snap(struct cp_session *s, enum weft_volume_op op, const char *name,
                   const char *from);

#endif /* WEFT_APPS_CP_VOLUME_H */
