/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_TARGET_VOLUME_H
#define WEFT_APPS_TARGET_VOLUME_H

/**
 * @file Exports that are volumes (docs/volumes.md): the volume, each worker's way to it, and what
 * clients have open.
 *
 * The volume of an export (struct target_volume) is opened by a set-up thread. Each worker has a
 * channel to it (struct target_vchan), and memory that all its volumes share (struct
 * target_vworker). A client's OPEN gives it a grant (struct target_vgrant), on the worker of its
 * connection; a call is a struct target_vio.
 *
 * A grant has references: one while it is open, and one for each call and window. When its
 * connection ends, or it is closed or revoked, its operations are given up on (weft_vol_revoke()):
 * what the device does not have yet, never reaches it. With the last reference the grant is freed.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "conf.h"
#include "quota.h"
#include "rate.h"
#include "target_metrics.h"
#include "volrpc.h"
#include <weft/spare.h>
#include "weft_staging.h"
#include "weft_volume_core.h"
#include "weft_volume_scrub.h"
#include "weft_volume_window.h"
#include <weft/gate.h>
#include <weft/weft.h>

struct target;
struct target_conn;
struct target_export;
struct target_worker;
struct target_vclient;
struct target_vwindow;
struct weft_tel;

#define TARGET_VWINDOWS_MAX 64U /**< windows of one grant */
/** Grants of a client of which one look chooses the next window. */
#define TARGET_VWINDOW_LOOKS 64U

/** The volume of an export. Set-up thread. */
struct target_volume {
	struct weft_block *block;
	struct weft_vol *vol;
	void *scratch; /**< of the channels of all workers */
	uint64_t scratch_bytes;
	bool formatted;    /**< this opening has formatted it */
	bool read_only;    /**< it is a snapshot, or its medium is read-only */
	uint64_t verifier; /**< of this opening, random: VERIFIER's while no flush was lost */
	/** Counters, relaxed: requests for snapshots that were done, and those that were refused
	 * for `snapshots` of the export. */
	atomic_ullong snaps[WEFT_BLOCK_SNAP_WHATS], snaps_refused;
};

/** What telemetry shows of a worker's memory for volumes. */
enum target_vshown {
	TARGET_VSHOWN_STAGING_FREE,
	TARGET_VSHOWN_STAGING_LEAST_FREE,
	TARGET_VSHOWN_STAGING_GRANTS,
	TARGET_VSHOWN_STAGING_WAITS,
	TARGET_VSHOWN_STAGING_WAITING,
	TARGET_VSHOWN_STAGING_CLIENTS,
	TARGET_VSHOWN_WINDOWS,
	TARGET_VSHOWN_WINDOWS_OPEN,
	TARGET_VSHOWN_WINDOWS_OPENED,
	TARGET_VSHOWN_WINDOWS_MOVED,
	TARGET_VSHOWN_WINDOWS_OVERLAP,
	TARGET_VSHOWN_FLUSHES,
	TARGET_VSHOWN_FLUSH_ERRORS,
	TARGET_VSHOWN_FLUSHED,
	TARGET_VSHOWN_AHEAD,
	TARGET_VSHOWN_AHEAD_REFUSED,
	TARGET_VSHOWN_VERIFIED,
	TARGET_VSHOWN,
};

/** A worker's channel to the volume of one export. */
struct target_vchan {
	struct target_export *ex; /**< NULL: not in use */
	struct target_vworker *vw;
	struct weft_vol_chan *chan;
	struct weft_staging_group staging; /**< staging memory of calls to the volume */
	/** The volume has checksums, and this is the first worker; else NULL. */
	struct target_vscrub *scrubs;
	TAILQ_ENTRY(target_vchan) busy_link;
	bool busy;                /**< it is in the worker's `busy`: it has, or had, operations */
	bool told;                /**< its device has told something: it is polled once */
	uint64_t ended, ended_ns; /**< operations that have ended, and when one was seen to */
	LIST_HEAD(, target_vwindow) windows; /**< those that have a slot, */
	uint32_t nwindows;                   /**< so many */
	uint32_t nwaiting, ncoming;          /**< like those of the worker */
	bool stalled;                        /**< target_vwindows_stall() */
	/* Counters, relaxed: for telemetry. Copies of the channel's, made by the worker. */
	atomic_ullong damaged, told_lost, late, range_waits, in_doubt;
};

/** What the volumes of one worker share. */
struct target_vworker {
	struct target_worker *tw;
	uint64_t volume_staging_bytes; /**< most staging memory of one volume; 0: all */
	uint32_t volume_windows;       /**< most windows of one volume; 0: all */
	struct weft_spare spare_vios;
	struct weft_staging *staging;     /**< for READs */
	struct weft_vol_windows *windows; /**< NULL: there is no volume */
	struct weft_poller poller;
	int epoll_fd, wake_fd;
	/** By number of the export. What is not written to takes no memory. */
	struct target_vchan chan[CONF_EXPORTS_MAX];
	TAILQ_HEAD(target_vchans, target_vchan) busy; /**< those that are polled */
	TAILQ_HEAD(, target_vscrub) scrubs;           /**< in front the one that is polled next */
	uint64_t look_ns;                             /**< next look at channels, */
	uint32_t look_at;                             /**< which begins with this one */
	uint64_t now_ns;                              /**< time of the last poll */
	LIST_HEAD(, target_vclient) clients;
	TAILQ_HEAD(, target_vwindow) used;   /**< open windows */
	TAILQ_HEAD(, target_vclient) turns;  /**< clients of which windows wait */
	TAILQ_HEAD(, target_vwindow) ending; /**< windows whose region ends */
	uint32_t nwaiting;                   /**< windows that wait for a slot */
	/** A slot is free, and the last look has not reached all that wait: so many looks more. */
	bool look_more;
	uint32_t looks;
	uint32_t ncoming; /**< slots that will be free, but for those of volumes that stalled */
	/** Connections with answers that are not taken, by when they last took one. */
	TAILQ_HEAD(, target_conn) untaken;
	uint32_t named_waiting; /**< calls of clients with a name that wait for memory */
	/* counters, relaxed */
	atomic_ullong staging_shed; /**< connections ended for others that wait */
	atomic_ullong windows_taken_back, windows_waited;
	/** Copies for telemetry, which the worker makes now and then; relaxed. */
	atomic_ullong shown[TARGET_VSHOWN];
};

/** What an OPEN gives. */
struct target_vgrant {
	LIST_ENTRY(target_vgrant) link; /**< in the vgrants of its connection */
	struct target_export *ex;
	struct target_conn *conn;
	struct target_vchan *vc;
	struct weft_vol_client client;
	struct weft_staging_lane lane; /**< its calls that wait for staging memory */
	struct target_vclient *share;  /**< whose staging memory and windows it uses */
	struct quota_client *quota;
	struct rate_pass rate; /**< its calls, in the client's rates */
	uint32_t handle, rights, refs;
	bool ended;                      /**< it is given up on */
	LIST_HEAD(, target_vio) waiting; /**< calls that wait for memory */
	LIST_HEAD(, target_vwindow) windows;
	uint32_t nwindows;
	TAILQ_HEAD(, target_vwindow) windows_waiting; /**< windows that wait for a slot; */
	TAILQ_ENTRY(target_vgrant) turn;              /**< then, in `waiting` of its client */
	uint32_t keeps;                 /**< of these, those that stay if nothing happens */
	struct weft_rpc_req *close_req; /**< the CLOSE that waits for its end */
	struct weft_alarm *revoke_alarm;
};

/** A call. */
struct target_vio {
	LIST_ENTRY(target_vio) link; /**< in the grant's waiting, or its connection's untaken */
	struct target_vgrant *g;
	struct weft_rpc_req *req;
	weft_volrpc_status *status; /**< of the results */
	weft_volrpc_fault *fault;   /**< likewise */
	void *res;
	struct iovec iov;
	struct weft_staging_req staging;
	struct weft_block_extent *extents;
	struct target_vsnap *snap; /**< target_volume_snap.c */
	struct metrics_timing timing;
	struct weft_gate_wait wait; /**< for the client's rates */
	struct weft_vol_op op;
};

/* ---- target_volume.c: set-up thread ---- */

/** Say how many workers there will be. Before the first volume is opened. */
void target_volume_set_workers(uint32_t n);
/**
 * Open the volume of an export, or format its device when it is new. -errno with one line in err.
 * The workers reach it after target_volume_attach().
 */
int target_volume_open(struct target_export *ex, const struct conf_export *conf, char *err,
                       size_t err_size);
/** Whether a file at the configured path, which has had the export's volume, has none any more.
 * -EIO with one line in err: it is not to be formatted as if it were new. */
int target_volume_emptied(const struct target_export *ex, const struct conf_export *conf, char *err,
                          size_t err_size);
/** Whether target_volume_open() could succeed, as far as that is visible without a change. */
int target_volume_check(const struct conf_export *conf, char *err, size_t err_size);
/** Close it. No channel is open. */
void target_volume_close(struct target_export *ex);
/** Of these rights, those that the volume as it was opened can have. */
uint32_t target_volume_may(const struct target_export *ex, uint32_t rights);
/** Log what the export holds. */
void target_volume_report(const struct target_export *ex);
/** Whether the device is as it was: 0, or a status of weft_block_state. May block. */
int target_volume_look(const struct target_export *ex);

/* ---- target_volume_worker.c ---- */

/** Allocate the memory of volumes, if an export is a volume. Before exports are opened. */
int target_volumes_up(struct target *t, char *err, size_t err_size);
/** The same at run time, for a volume that is added; does nothing when the memory is there. The
 * program's thread. */
int target_volumes_more(struct target *t, char *err, size_t err_size);
/** Free it. Workers are stopped, all volumes are closed. */
void target_volumes_down(struct target *t);
/** Open the channels of an export's volume, and hand them to the workers, which may be running. */
int target_volume_attach(struct target *t, struct target_export *ex, char *err, size_t err_size);
/** Take the channels from the workers and close them. No grant and no call of the export is left.
 * -EBUSY: an operation is under way. */
int target_volume_detach(struct target *t, struct target_export *ex);
/** Workers are stopped: poll the channels until nothing is under way, for at most timeout_ms. */
void target_volumes_drain(struct target *t, unsigned int timeout_ms);

/* ---- target_volume_base.c: on the worker ---- */

/** The worker's channel to the export. */
struct target_vchan *target_vchan_of(struct target_worker *tw, const struct target_export *ex);
/** The grant of this handle; NULL: not open. */
struct target_vgrant *target_vgrant_find(const struct target_conn *c, uint32_t handle);
void target_vgrant_ref(struct target_vgrant *g);
/** Its last reference frees it. */
void target_vgrant_unref(struct target_vgrant *g);
/** Count up a counter of the export that is under its lock. */
void target_vcount(struct target_export *ex, uint64_t *counter);
/** Of a REVOKE call: count it as answered. arg: struct target_export. */
void target_vtold(void *arg, enum weft_rpc_status status, void *res);
/** The status of an answer for a status of the volume. */
weft_volrpc_status target_vstatus(int status);
/** Fill in a refusal; false: no memory for its text. */
bool target_vfault(weft_volrpc_status *to, weft_volrpc_fault *fault, weft_volrpc_status status,
                   uint64_t at, uint64_t done, const char *fmt, ...)
        __attribute__((format(printf, 6, 7)));

/* ---- target_volume_grant.c: on the worker ---- */

/** Open a grant. OK, or the refusal with its reason in why. */
weft_volrpc_status target_vgrant_open(struct target_conn *c, struct target_export *ex,
                                      uint32_t rights, struct target_vgrant **out, char *why,
                                      size_t size);
/** Give up on all that is done by it. The call that opened it holds it no more. */
void target_vgrant_end(struct target_vgrant *g);
/** The connection ends: all of its grants do. */
void target_vgrants_end(struct target_conn *c);
/** The export grants less than before: warn the holder, and end the grant when the time is over. */
void target_vgrant_revoke(struct target_vgrant *g);

/* ---- target_volume_io.c: procedures that move data ---- */

/** Results of a READ; first member: weft_volrpc_read_binding casts to it. */
struct target_vread {
	weft_volrpc_read_res res;
	struct target_vio *io; /**< holds the data; NULL: none */
};

/** XDR of struct target_vread; XDR_FREE gives the memory back. */
bool_t target_xdr_vread(XDR *xdr, struct target_vread *r);
void target_vserve_read(void *user, struct weft_rpc_req *req, void *args, void *res);
void target_vserve_write(void *user, struct weft_rpc_req *req, void *args, void *res);
void target_vserve_flush(void *user, struct weft_rpc_req *req, void *args, void *res);
void target_vserve_verify(void *user, struct weft_rpc_req *req, void *args, void *res);
void target_vserve_compare(void *user, struct weft_rpc_req *req, void *args, void *res);
void target_vserve_discard(void *user, struct weft_rpc_req *req, void *args, void *res);
void target_vserve_zeroes(void *user, struct weft_rpc_req *req, void *args, void *res);
void target_vserve_extents(void *user, struct weft_rpc_req *req, void *args, void *res);
/** Of a READ that holds staging memory: the volume has not ended it. */
bool target_vread_is_under_way(const struct target_vio *io);
/** The grant ends: calls that wait for memory are answered. */
void target_vio_end_waiting(struct target_vgrant *g);
/** A call of this grant, which wants these rights. NULL: it was answered with a refusal. */
struct target_vio *target_vio_begin(struct target_conn *c, struct weft_rpc_req *req,
                                    uint32_t handle, uint32_t rights, weft_volrpc_status *status,
                                    weft_volrpc_fault *fault);
/** Answer, and free the call unless its results hold it. ok: there was memory for the results. */
void target_vio_answer(struct target_vio *io, bool ok, bool held);
void target_vio_refuse(struct target_vio *io, weft_volrpc_status status, const char *why);

/* ---- target_volume_tel.c: on telemetry's thread ---- */

/** The entries of a volume in /weft/target/export,NAME; the export's lock is held. */
void target_tel_volume(struct target *t, struct target_export *ex, struct weft_tel *tel);
/** /weft/target/volumes. user: struct target. */
int target_tel_volumes(void *user, const char *params, struct weft_tel *tel);

/* ---- target_volume_rpc.c ---- */

extern const struct weft_rpc_program target_volume_program;

#endif /* WEFT_APPS_TARGET_VOLUME_H */
