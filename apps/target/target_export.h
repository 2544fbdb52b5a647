/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_TARGET_EXPORT_H
#define WEFT_APPS_TARGET_EXPORT_H

/**
 * @file An export: its state, its opening, and what other parts of the program ask about it.
 *
 * An export is shared by all workers; its writer changes under its lock, on the control path only.
 * The export's `writer` is cleared when its region is free, that is when nothing can write through
 * it any more; the peer has no say in that.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "conf.h"
#include "export_format.h"
#include "key_file.h"
#include "quota.h"
#include <weft/weft.h>

#define TARGET_BAD_RANGES 8 /**< telemetry keeps the last ones of each kind */

struct target;
struct target_conn;
struct target_grant;
struct target_volume;

/** The range of a Flush or Verify that failed. */
struct target_bad_range {
	uint64_t off_bytes, len_bytes; /**< in the file */
	uint64_t at_s;                 /**< when, by ui_now_ns() */
	int status;                    /**< the event's status */
};

struct target_bad_ranges {
	uint64_t n;
	struct target_bad_range last[TARGET_BAD_RANGES]; /**< a ring */
};

/** State of an export's file, as it was last seen. */
enum target_file {
	TARGET_FILE_HERE,
	TARGET_FILE_REMOVED,  /**< no file has its name */
	TARGET_FILE_REPLACED, /**< another file has its name */
	TARGET_FILE_CUT,      /**< it is shorter, or has fewer blocks, than before */
	TARGET_FILE_WRITTEN,  /**< another process has written to it */
	TARGET_FILE_TAKEN,    /**< another target has taken the image over */
};

/** State of an export's one writer's place (target_writer.c); under the export's lock. */
struct target_writer {
	bool named;        /**< the writer has authenticated itself */
	uint64_t moved_ns; /**< when the writer was last seen to transfer data */
	bool asked;        /**< the writer must give way by end_ns */
	uint64_t end_ns;
	/** Until kept_ns the place is reserved for this client; 0 octets: for no client. */
	struct quota_id kept;
	bool kept_named;
	uint64_t kept_ns;
	/** OPENs for write that were refused; times that a writer had to give way */
	uint64_t refused, yields;
};

/** Whether an operator keeps an export out of service (target_offline.c). */
enum target_held {
	TARGET_HELD_NO,
	TARGET_HELD_DRAINS,  /**< no new grants; the others end, with a warning */
	TARGET_HELD_OFFLINE, /**< its medium is closed */
};

struct target_export {
	/** Changes at SIGHUP and by the control socket. What it pointed to before stays as it is
	 * until every worker has left its callback and exports_lock was free. */
	const struct conf_export *_Atomic conf;
	/** No export is in the slot: it was deleted, or is being made. false is stored with release
	 * behind the rest. A worker that does not see true yet finds that the export is not up. */
	atomic_bool gone;
	/** It is open; otherwise `why` has the reason (target_offline.c). true is stored with
	 * release behind the members that the opening sets; a reader acquires. */
	atomic_bool up;
	/** enum target_held; relaxed. The program's thread stores. */
	atomic_uint held;
	/* What uses the medium: ios, reads, grants. An end is a release, and the thread that closes
	 * the medium acquires 0 (target_offline.c, which also says what orders a beginning). */
	atomic_uint ios;              /**< WRITEs whose flush is under way */
	atomic_uint reads;            /**< READs whose answer is not sent completely */
	struct weft_persist *persist; /**< of an object or a log */
	struct target_volume *volume; /**< of a volume */
	struct expfmt_super super;    /**< of an object */
	struct key_file hash_key;
	bool created; /**< its last opening has created the file */
	/** Rights that an OPEN may get: conf's, without those revoked since. Relaxed, as `file`:
	 * the program's thread stores, then calls each worker (target_export_revoke()). An OPEN
	 * behind that call finds the new value, and the call finds the grant of one before. */
	atomic_uint rights;
	/** enum weft_nvmf_others: what a reservation of NVMe hosts leaves to clients; relaxed, as
	 * `rights` (target_nvmf_resv.c). */
	atomic_uint others;
	/** UUID of the volume that it had last, if it can be written: no snapshot of another one.
	 * Zeros: none. The program's thread. */
	uint8_t volume_uuid[16];
	atomic_uint grants; /**< number of grants */
	/** to examine the file only; -1: the medium is not a file that can be removed */
	int file_fd;
	int file_wd;            /**< inotify watch descriptor; -1: none */
	atomic_uint file;       /**< enum target_file, as last seen */
	atomic_uint files_lost; /**< times that the file was lost; a counter, relaxed */
	/* Counters of READ and WRITE, relaxed. io_refused: refused for rights or bounds. */
	atomic_ullong io_reads, io_read_bytes, io_writes, io_write_bytes, io_durable, io_refused;
	/** mismatches and failures together, for who may not take the lock; relaxed */
	atomic_ullong bad_ranges;
	atomic_ullong access_refused; /**< OPENs refused by the access lists; relaxed */
	atomic_uint conns;            /**< connections that have a grant; relaxed */
	atomic_ullong conns_refused;  /**< OPENs refused by `max_conns`; relaxed */
	pthread_mutex_t lock;
	/* under lock */
	struct target_grant *writer;
	struct target_writer slot;
	/** told: warnings that the holder has answered */
	uint64_t revocations, reduced, revoked, told;
	/* Apart: a peer can cause any number of mismatches, and these must not displace
	 * failures. */
	struct target_bad_ranges mismatches, failures;
	/* Texts, behind the rest: what is read often lies together. */
	char why[CONF_ERR_MAX]; /**< under lock */
	/** conf points to own[own_now] after the export was opened at SIGHUP */
	struct conf_export own[2];
	unsigned int own_now;
	/** The file whose volume this export has had, of this run of the program; "": none. */
	char had_path[CONF_PATH_MAX];
};

/* ---- target_export.c ---- */

/**
 * Open the export's medium, check it, or format it when it is new. The persist driver excludes
 * other processes. numa_node: node of the memory when the configuration names none. -errno with one
 * line in err; a file that the call created is removed again.
 */
int target_export_open(struct target_export *ex, const struct conf_export *conf, int numa_node,
                       char *err, size_t err_size);
/** The same of a volume, but for what target_export_opened() does. Any set-up thread. */
int target_export_open_ahead(struct target_export *ex, const struct conf_export *conf, char *err,
                             size_t err_size);
/** The last step of an opening: the export is up, and a line tells of a volume. */
void target_export_opened(struct target_export *ex);
/** Make an export that is not open. */
void target_export_blank(struct target_export *ex, const struct conf_export *conf);
/**
 * Check whether target_export_open() could succeed, as far as that is visible without a change.
 * Adds the memory that the export needs to *taken_bytes, which holds that of the exports before it.
 * -errno with one line in err.
 */
int target_export_check(const struct conf_export *conf, uint64_t *taken_bytes, char *err,
                        size_t err_size);
/** The size of the medium as its superblock says, which the key `size` has to be. 0: it is not
 * known, as of a medium that is new. */
uint64_t opening_medium_bytes(const struct conf_export *conf);
/** Whether two exports name the same file, which need not exist, by whatever names. */
bool target_export_same_file(const struct conf_export *a, const struct conf_export *b);
/** Write the message for the second export of one file. Returns -EBUSY. */
int target_export_in_use(const struct conf_export *conf, char *err, size_t err_size);
/** The start has failed: remove a file that it created. Call it before target_export_close(). */
void target_export_undo(struct target_export *ex);
void target_export_close(struct target_export *ex);
/** Close the medium only. The caller ensures that no thread uses it. */
void target_export_release(struct target_export *ex);

/* ---- target_rights.c ---- */

/** "read,write"; returns buf. */
const char *target_rights_str(uint32_t rights, char *buf, size_t size);
/** What holds the export, for people: its path, its image, or "memory". */
const char *target_place(const struct conf_export *conf);
/** WEFT_ACCESS_* of rights of an export. */
uint32_t target_access(uint32_t rights);

/* ---- target_served.c: what others ask ---- */

/** The export of this name; NULL: none. */
struct target_export *target_export_find(struct target *t, const char *name);
/** The first export in the slots from *at on; *at: the slot behind it. NULL: there is none. */
struct target_export *target_export_next(struct target *t, uint32_t *at);
/** The slot's export is about to get this name, for target_export_find(). The program's thread. */
void target_export_named(struct target *t, const struct target_export *ex, const char *name);
/** Count a change of what exports there are (target.exports_changes). */
void target_exports_changed(struct target *t);
/** Whether no export is in the slot. Any thread. */
bool target_export_gone(const struct target_export *ex);
/** Whether the export's medium may be accessed. Any thread. */
bool target_export_up(const struct target_export *ex);
/** Whether the export is not served; buf gets the reason as text. Workers and the program's thread;
 * does not block for long. */
bool target_export_why(struct target_export *ex, char *buf, size_t size);
/** The same as the watch has seen the file last. Any thread. */
bool target_export_seen_why(struct target_export *ex, char *buf, size_t size);
bool target_is_log(const struct target_export *ex);
bool target_is_volume(const struct target_export *ex);
/** target_file_lost() as the watch has seen the file last: without a call of the kernel. Any
 * thread. */
bool target_file_seen_lost(const struct target_export *ex);
/** Whether an export's file is lost, as far as is known. Workers and the program's thread. */
bool target_file_lost(const struct target_export *ex);
/** The state of the file as text, as "was removed", as the watch has seen it last. Any thread. */
const char *target_file_seen_str(const struct target_export *ex);
/** The rights that an OPEN may get now. Workers and the program's thread. */
uint32_t target_may(const struct target_export *ex);
/** The same as the watch has seen the file last. Any thread. */
uint32_t target_seen_may(const struct target_export *ex);
/** Rights that a reservation of NVMe hosts leaves to clients (target_nvmf_resv.c). */
uint32_t target_left_by_hosts(const struct target_export *ex);
/** Offset in the medium of the first octet of the region that is granted. */
uint64_t target_region_off(const struct target_export *ex);
/** The most that the export can hold. It is served. */
uint64_t target_export_bytes(const struct target_export *ex);
/** How it is made durable, for people, with what it holds unless that is an object. It is served.
 * Returns buf. */
const char *target_export_mechanism(const struct target_export *ex, char *buf, size_t size);
/** Length of the region that is granted. */
uint64_t target_region_bytes(const struct target_export *ex);

/* ---- target_access.c: on the connection's worker ---- */

/** Whether the client is on the export's access lists. */
bool target_allows(const struct target_export *ex, const struct target_conn *c);
/** The rights that an OPEN of this client may get now. */
uint32_t target_may_client(const struct target_export *ex, const struct target_conn *c);
/** Whether a client cannot use the export now: why says the reason, for its list of exports. */
bool target_export_off(struct target_export *ex, const struct target_conn *c, char *why,
                       size_t size);
/** The client is not on the lists: count it, log it, and say why. */
void target_access_refuse(struct target_export *ex, const struct target_conn *c, char *why,
                          size_t size);

/* ---- target_bad_range.c ---- */

/** WEFT_EV_BAD_RANGE of a connection, on its worker. */
void target_bad_range(struct target_conn *c, const struct weft_event *ev);
/**
 * Whether the status of an operation, Flush or Verify says that the medium has failed for the range
 * or has no room for it. The refusals of the volume, the end of who asked, and a medium that is
 * offline as a whole say nothing of a range. Any thread.
 */
bool target_is_bad_range(int status);
/** Record a bad range for telemetry, with the time of the call. */
void target_bad_range_keep(struct target_export *ex, struct target_bad_range s);

#endif /* WEFT_APPS_TARGET_EXPORT_H */
