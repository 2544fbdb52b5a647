/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_VERBS_ASYNC_H
#define WEFT_APPS_VERBS_ASYNC_H

/** @file Asynchronous events of a context, and events of completion channels. */

#include <infiniband/verbs.h>

struct wv_context;
struct wv_cq;
struct wv_qp;
struct wv_srq;

/** Queue an event for the program. Any thread that holds the engine's lock. */
void wv_async_cq(struct wv_cq *c, enum ibv_event_type type);
void wv_async_qp(struct wv_qp *q, enum ibv_event_type type);
void wv_async_srq(struct wv_srq *s, enum ibv_event_type type);
/** A context was opened; it is closed: its events are dropped. Under the engine's lock. */
void wv_async_join(struct wv_context *c);
void wv_async_leave(struct wv_context *c);
/** Of a device's port, or IBV_EVENT_DEVICE_FATAL, for every context of the device. */
void wv_async_port(unsigned int number, enum ibv_event_type type);
/** Drop the events of an object that is destroyed; two of the three are NULL. */
void wv_async_forget(struct ibv_context *context, struct ibv_cq *cq, struct ibv_qp *qp,
                     struct ibv_srq *srq);

/** An armed queue has a completion: tell its channel. Under the engine's lock. */
void wv_channel_fire(struct wv_cq *c);

#endif /* WEFT_APPS_VERBS_ASYNC_H */
