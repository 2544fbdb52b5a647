/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_TARGET_OPENING_H
#define WEFT_APPS_TARGET_OPENING_H

/** @file One opening of an export, or the check whether it could be opened; private to
 * target_export.c and target_opening*.c. */

#include "conf.h"
#include "target_export.h"

struct opening {
	const struct conf_export *conf;
	char *err;
	size_t err_size;
	bool created; /**< this opening has created the file, and removes it after an error */
	bool is_new;  /**< all octets are zero: the file has to be formatted */
	uint64_t bytes;
};

/* ---- target_opening.c ---- */

/** Describe a failure: "export NAME: PATH: ...". Returns rc. */
int opening_fail(const struct opening *o, int rc, const char *fmt, ...)
        __attribute__((format(printf, 3, 4)));
/** 1: octets [begin, end) are all zero; holes are not read. 0: they are not; -errno. */
int opening_is_zero(int fd, uint64_t begin, uint64_t end);
/** The same of the places of a block device, from number `first` on (weft_vol_format_place()). *at:
 * where it is not. */
int opening_places_zero(int fd, uint64_t have, uint64_t from, uint32_t first, uint64_t *at);
/** The same of what a new export of o->bytes may take of a medium of `have` octets. Of a file: all
 * from `begin` on. Of a block device: what the export gets, and behind it the places of
 * weft_vol_format_place(), as all of it may take hours. */
int opening_is_blank(const struct opening *o, int fd, uint64_t begin, uint64_t have);

/* ---- target_opening_fit.c: resize ---- */

/** Of an export that was made at run time: give the medium the size of the key, if it has another
 * one. -EFBIG: its object does not fit; -errno. */
int opening_fit(const struct opening *o);

/* ---- target_opening_volume.c: the file of a volume ---- */

/** What lies at the path of a volume. */
struct opening_found {
	bool there;          /**< something has this name */
	bool is_file;        /**< an ordinary file, that can be read, of so many */
	uint64_t bytes;      /**< octets */
	ssize_t first_bytes; /**< octets of its first page that were read; -1: it cannot be read */
	bool snapshot;       /**< a copy of the superblock says so */
	bool is_device;      /**< a block device, */
	bool ro_device;      /**< that takes no writes */
	int no_write;        /**< -errno: why the file cannot be opened for writing; 0: it can */
	/** 0: there is a volume; else that of weft_vol_super_choose(), or -errno */
	int status;
	uint64_t need_bytes; /**< of the volume */
	/** UUID of the volume that this program has had in the file; "": none is known */
	char had_uuid[37];
	char why[160]; /**< of a status that is not 0, for people */
};

/** Look, without a lock, and change nothing. */
void opening_volume_find(const struct conf_export *conf, struct opening_found *f);
/**
 * Note in an attribute of the file that it has a volume of this UUID, so that a later opening knows
 * an emptied file from a new one. A file system without such attributes has no note.
 */
void opening_volume_note(const struct conf_export *conf, const uint8_t uuid[16]);
/** Whether the export is opened to be read only; -errno: it would have to, and its rights do not
 * allow that. */
int opening_volume_reads_only(const struct opening *o, const struct opening_found *f);
/** Whether a file that is not empty is as long as its volume; -EIO: it was cut. */
int opening_volume_fits(const struct opening *o, const struct opening_found *f);
/** Whether a file or block device without a superblock may be formatted: all of the file is zero or
 * a hole, the places of weft_vol_format_place() of the device are, or it is neither; -EMEDIUMTYPE:
 * there is data. Reads what is no hole. */
int opening_volume_blank(const struct opening *o, const struct opening_found *f);
/** Whether a file that has had a volume of this target, at had_path, has none any more: -EIO. 0: it
 * has, or is not there, or had_path is "" or of another file. */
int opening_volume_emptied(const struct opening *o, const char *had_path);
/** Refuse a file that was cut: -EIO. */
int opening_was_cut(const struct opening *o, uint64_t need_bytes, uint64_t have_bytes);

/* ---- target_opening_log.c: the memory of a log ---- */

/** Check that the file is a log, or blank. */
int opening_log_inspect(struct opening *o, int fd, uint64_t have);
/** Check the same again when the medium is locked. */
int opening_log_check(const struct opening *o, const struct target_export *ex);
/** Log what the export holds. */
void opening_log_report(const struct opening *o, const struct target_export *ex);

/* ---- target_opening_object.c: an object in two slots ---- */

/** Check that the file is an export of this size, or new. */
int opening_object_inspect(struct opening *o, int fd, uint64_t have);
/** Check the same again when the medium is locked; a new file is formatted. */
int opening_object_check(const struct opening *o, struct target_export *ex);
/** Log what the export holds. */
void opening_object_report(const struct opening *o, const struct target_export *ex);

/* ---- target_opening_room.c: room in memory and on the medium ---- */

/** Whether the file is in persistent memory that is mapped directly (DAX). */
bool opening_is_dax(const char *path);
/** Check that there is memory for the export; adds it to *taken. */
int opening_has_memory(const struct opening *o, uint64_t *taken);
/** For --check-config: a target that ends before the start gives so many octets of memory back. */
void opening_beside(uint64_t bytes);
/** Check the room in memory, then on the medium of fd, in the order of the open. */
int opening_fits(const struct opening *o, int fd, uint64_t *taken);

/* ---- target_opening_file.c ---- */

/** Open or create the file to examine it; returns the descriptor or -errno. */
int opening_file(struct opening *o);
/** Check that the file is an export or new, and determine the size of the export. */
int opening_inspect(struct opening *o, int fd);
/** Check that a file can be made in the folder of the path. */
int opening_check_folder(const struct opening *o);
/** Make the name of a new file durable. */
void opening_sync_directory(const char *path);

#endif /* WEFT_APPS_TARGET_OPENING_H */
