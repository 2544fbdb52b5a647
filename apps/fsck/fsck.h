/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_FSCK_H
#define WEFT_APPS_FSCK_H

/**
 * @file The examination of one export's medium, offline: an object (docs/export-format.md), a log
 * (docs/log-format.md) or a volume (docs/volumes.md). fsck_run() reads the medium by the functions
 * that it is given, so a test can run it on memory.
 *
 * What is mended has one right value, which the format determines or what is left of the medium
 * proves. Data is never written. Nothing is written without fsck_options.repair.
 *
 * One thread. Nothing here prints.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum fsck_format { FSCK_ANY, FSCK_OBJECT, FSCK_LOG, FSCK_VOLUME };

/** The medium, as the examination sees it. */
struct fsck_medium {
	uint64_t bytes; /**< its length */
	/** Read exactly len octets inside of the medium. 0, or -errno. */
	int (*read)(struct fsck_medium *m, uint64_t off, void *buf, size_t len);
	/** Write them and make them durable. 0, or -errno. Only called to repair. */
	int (*write)(struct fsck_medium *m, uint64_t off, const void *buf, size_t len);
	/**
	 * How many octets from off on, at most len, read as zeros and use no space. May be NULL.
	 */
	uint64_t (*hole)(struct fsck_medium *m, uint64_t off, uint64_t len);
};

/** What became of a finding. */
enum fsck_state {
	FSCK_NOTE,     /**< no damage: something that an operator may want to know */
	FSCK_LEFT,     /**< damage that cannot be mended without a guess, or could not be written */
	FSCK_CAN_MEND, /**< damage that --repair mends */
	FSCK_MENDED,   /**< damage that was mended */
	FSCK_STATES
};

struct fsck_finding {
	enum fsck_state state;
	uint64_t off_bytes, len_bytes; /**< on the medium */
	char what[240];
	char consequence[240];
	char todo[240]; /**< what the operator can do; "": nothing has to be done */
};

struct fsck_options {
	enum fsck_format format; /**< FSCK_ANY: as the medium shows */
	bool repair;
	bool data; /**< volumes: read all data and compare its checksums */
	/** Objects: if the object is damaged and the one before it is whole, return to that one. */
	bool previous;
	void (*found)(void *owner, const struct fsck_finding *f);
	/** May be NULL. Called now and then. */
	void (*progress)(void *owner, uint64_t done_bytes, uint64_t total_bytes);
	void *owner;
};

struct fsck_result {
	enum fsck_format format; /**< FSCK_ANY: the medium was never formatted */
	uint64_t count[FSCK_STATES];
	char about[240];  /**< what the medium is, for people */
	char reason[240]; /**< if fsck_run() fails: one line */
};

/**
 * Examine a medium. 0: the findings say all. Else nothing, or not all, was examined, and
 * result->reason says why:
 * - -EMEDIUMTYPE: none of weft's formats, or another one than options->format
 * - -EPROTONOSUPPORT: a version or features that this program does not know
 * - -EIO and others: the medium cannot be read, or not be written to repair it
 * - -ENOMEM
 */
int fsck_run(struct fsck_medium *m, const struct fsck_options *options, struct fsck_result *result);

const char *fsck_format_str(enum fsck_format format);
const char *fsck_state_str(enum fsck_state state);

#endif /* WEFT_APPS_FSCK_H */
