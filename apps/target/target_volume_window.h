/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_TARGET_VOLUME_WINDOW_H
#define WEFT_APPS_TARGET_VOLUME_WINDOW_H

/**
 * @file Windows of volumes: target_volume_window.c, where they begin and end, and
 * target_volume_turn.c, which says whose turn it is. The worker's thread alone uses all of it, but
 * for `region_free`.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "target_volume.h"

enum vwindow_state {
	VWINDOW_WAITS,   /**< for a slot */
	VWINDOW_OPENING, /**< or moving */
	VWINDOW_OPEN,
	VWINDOW_REGION, /**< its region ends */
	VWINDOW_CLOSING,
};

struct target_vwindow {
	LIST_ENTRY(target_vwindow) link; /**< of its grant */
	/** in `used` or `ending` of the worker, or `windows_waiting` of its grant */
	TAILQ_ENTRY(target_vwindow) turn;
	LIST_ENTRY(target_vwindow) chan_link; /**< of its volume, while w != NULL */
	struct target_vgrant *g;
	struct weft_vol_window *w;
	struct weft_mr *mr;
	struct rate_pass rate; /**< of its region; lane NULL: it has had none */
	enum vwindow_state state;
	bool asked;                         /**< the client was told to give it back, */
	struct target_vclient *promised_to; /**< for this one; NULL: it was not */
	bool kept;                          /**< counted in target_vclient.keeps */
	bool goes;                          /**< counted in target_vworker.ncoming */
	atomic_bool region_free;            /**< a release; the worker acquires it */
	uint32_t id, rights, stag;
	struct weft_vol_window_attr attr;
	struct weft_alarm *alarm; /**< ends the wait, or the window that was asked back */
	/** the call that waits for it: an open or a move, */
	struct weft_rpc_req *req;
	weft_volrpc_window_res *open_res;
	weft_volrpc_res *move_res;
	struct weft_rpc_req *close_req; /**< and a close */
};

/* ---- target_volume_window.c ---- */

void target_vserve_window_open(void *user, struct weft_rpc_req *req, void *args, void *res);
void target_vserve_window_move(void *user, struct weft_rpc_req *req, void *args, void *res);
void target_vserve_window_close(void *user, struct weft_rpc_req *req, void *args, void *res);
/** The grant ends: its windows do. */
void target_vwindows_end(struct target_vgrant *g);
/** The device of a volume ends nothing for a while, or it goes on: whether slots of its windows
 * that end are on their way to others. */
void target_vwindows_stall(struct target_vchan *vc, bool stalled);
/** Where in its volume a window of this STag has the tagged offset; *ex: its export. *ex stays as
 * it was if the connection has no such window. */
uint64_t target_vwindow_off(const struct target_conn *c, uint32_t stag, uint64_t to,
                            struct target_export **ex);
/** Go on with windows that end. Returns with how many. */
unsigned int target_vwindows_poll(struct target_vworker *vw);
/** `why` a range is refused with -EBUSY, with the client that has a window of it, if that is
 * another one and known; buf, or `why`. write: as of weft_vol_window_holder(). */
const char *target_vwindow_in_the_way(const struct target_vgrant *g, uint64_t off, uint64_t len,
                                      bool write, const char *why, char *buf, size_t size);

/* ---- target_volume_turn.c ---- */

/** Whether the volume has as many windows as it may have. */
bool target_vchan_is_full(const struct target_vchan *vc);
/**
 * The window whose turn it is: of the waiting client with the fewest windows. With `ask`, windows
 * that were asked back for a client count as its own, and a client is passed over that has as many
 * promised as it waits for. NULL: there is none. A look reaches TARGET_VWINDOW_LOOKS grants
 * of a client; *more becomes true if it has missed others for that.
 */
struct target_vwindow *target_vwindow_next(const struct target_vworker *vw, bool ask, bool *more);
/** The window to ask back for the waiter: of the client with the most windows, the one that is
 * unused for the longest time. NULL: the waiter's client would then have more than that client. */
struct target_vwindow *target_vwindow_victim(const struct target_vworker *vw,
                                             const struct target_vwindow *waiter);

#endif /* WEFT_APPS_TARGET_VOLUME_WINDOW_H */
