/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_VERBS_UCM_H
#define WEFT_APPS_VERBS_UCM_H

/**
 * @file Connection management as the kernel's device /dev/infiniband/rdma_cm offers it. librdmacm
 * opens the device and writes commands to it (rdma/rdma_user_cm.h); here they are executed by weft.
 * The reader of this file sees what the rest of the library uses; ucm_priv.h has the objects.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include <weft/weft.h>

struct wv_cm_id;

/* ---- libc's calls on the device: ucm.c ---- */

/** As open(2). */
int wv_ucm_open(void);
/** Whether the descriptor is one of the device. Any thread, no lock. */
bool wv_ucm_is(int fd);
/** It is none any more: its descriptor is closed in a child of fork(). */
void wv_ucm_forget(int fd);
/** Numbers from this one on are none of the device. */
#define WV_UCM_FDS 65536
/** As write(2): execute one command. */
ssize_t wv_ucm_write(int fd, const void *buf, size_t n);
/** As close(2): destroy the ids of this descriptor. */
int wv_ucm_close(int fd);

/* ---- Weft's events, under the engine's lock: ucm_event.c ---- */

/** A connection request has come to a listening id. */
void wv_ucm_request(struct wv_cm_id *listener, const struct weft_event *ev);
void wv_ucm_established(struct wv_cm_id *id, const struct weft_event *ev);
/** The connection could not be made. */
void wv_ucm_failed(struct wv_cm_id *id, const struct weft_event *ev);
void wv_ucm_disconnected(struct wv_cm_id *id);
/** A device is gone: each id that belongs to it hears of it. */
void wv_ucm_device_removed(unsigned int number);
/** The id's QP is destroyed or reset; the id learns that it is not connected any more. */
void wv_ucm_qp_gone(struct wv_cm_id *id);

#endif /* WEFT_APPS_VERBS_UCM_H */
