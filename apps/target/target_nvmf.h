/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_TARGET_NVMF_H
#define WEFT_APPS_TARGET_NVMF_H

/**
 * @file NVMe over Fabrics (docs/nvmeof.md): volumes of the running exports as namespaces of
 * subsystems, for hosts that connect by RDMA or by TCP.
 *
 * Each worker has a group of lib/nvmf, with memory of its own, and both transports (struct
 * target_nvmf_worker). A host's queue lives on the worker that its connection came to. A namespace
 * uses the worker's channel to the export's volume (struct target_vchan), so it comes and goes with
 * the opening of the volume: while that is away, its commands are refused as "not ready".
 *
 * Threads. The program's thread alone changes the table of subsystems, with `lock` held, which
 * telemetry and the control thread take to read it. Workers never take it.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "conf.h"
#include "weft_nvmf.h"
#include "weft_nvmf_rdma.h"
#include "weft_nvmf_tcp.h"
#include <weft/stream.h>
#include <weft/weft.h>

/** For commands under way of a namespace that is to go, and for controllers that end. Hosts that
 * keep them have a second (weft_nvmf_attr.leave_ns); their connections are reset two seconds later.
 */
#define TARGET_NVMF_LEAVE_MS 6000

struct target;
struct target_export;
struct target_nvmf;
struct target_worker;
struct weft_block;
struct weft_tel;

/** Counters of the transports, as telemetry shows them. */
enum target_nvmf_shown {
	TARGET_NVMF_ACCEPTED,
	TARGET_NVMF_REJECTED,
	TARGET_NVMF_READS,
	TARGET_NVMF_READ_BYTES,
	TARGET_NVMF_READ_WAITS,
	TARGET_NVMF_CAPSULE_WAITS,
	TARGET_NVMF_ABORTED,
	TARGET_NVMF_TCP_ACCEPTED,
	TARGET_NVMF_TCP_REJECTED,
	TARGET_NVMF_TCP_PDUS_IN,
	TARGET_NVMF_TCP_PDUS_OUT,
	TARGET_NVMF_TCP_R2TS,
	TARGET_NVMF_TCP_READ_BYTES,
	TARGET_NVMF_TCP_SENT_BYTES,
	TARGET_NVMF_TCP_HEADER_DIGESTS,
	TARGET_NVMF_TCP_DATA_DIGESTS,
	TARGET_NVMF_TCP_FAULTS,
	TARGET_NVMF_TCP_TERMS,
	TARGET_NVMF_TCP_OVERRUNS,
	TARGET_NVMF_TCP_STALLS,
	TARGET_NVMF_TCP_ABORTED,
	TARGET_NVMF_TCP_TURN_WAITS,
	TARGET_NVMF_TLS_CONNS,
	TARGET_NVMF_TLS_DONE,
	TARGET_NVMF_TLS_COMPAT,
	TARGET_NVMF_TLS_FAILED,
	TARGET_NVMF_TLS_EXPIRED,
	TARGET_NVMF_TLS_BUSY,
	TARGET_NVMF_TLS_UNWANTED,
	TARGET_NVMF_TLS_MISSING,
	TARGET_NVMF_TLS_FAULTS,
	TARGET_NVMF_TLS_GONE,
	TARGET_NVMF_TLS_ALERTS_IN,
	TARGET_NVMF_TLS_ALERTS_OUT,
	TARGET_NVMF_TLS_UPDATES_IN,
	TARGET_NVMF_TLS_UPDATES_OUT,
	TARGET_NVMF_SHOWN
};

/** A worker's part. */
struct target_nvmf_worker {
	struct target_nvmf *n;
	struct target_worker *tw;
	struct weft_worker *w;
	struct weft_nvmf_group *group;
	struct weft_nvmf_rdma *rdma;
	struct weft_nvmf_tcp *tcp;
	struct weft_poller poller;
	int wake_fd;
	uint8_t *memory;
	uint64_t bytes;
	uint64_t look_ns; /**< when the copies below are made next */
	/** Queues and connections that it has; the thread that ends the program waits for 0. */
	atomic_uint busy;
	/* Copies for telemetry; relaxed. */
	atomic_ullong shown[TARGET_NVMF_SHOWN];
};

/** A subsystem of the configuration. */
struct target_nvmf_subsys {
	struct weft_nvmf_subsys *s; /**< NULL: the slot is free */
	struct conf_subsys conf;
	struct target_export *ex[CONF_NS_MAX]; /**< whose namespace is there; NULL: it is not */
	/** The program's thread: the namespace is to go, whatever its export does meanwhile;
	 * commands are under way still. */
	bool going[CONF_NS_MAX];
	bool ending; /**< it is no longer configured, and its controllers end */
};

struct target_nvmf {
	struct target *t;
	struct weft_nvmf *nvmf;
	struct weft_nvmf_tls *tls; /**< keys of hosts; NULL: TLS is off */
	bool discovery_proves;     /**< its hosts prove their names; the program's thread */
	pthread_mutex_t lock;
	struct target_nvmf_subsys subsys[CONF_SUBSYS_MAX];
	struct target_nvmf_worker workers[CONF_WORKERS_MAX];
	uint8_t *memory; /**< of all workers */
	uint64_t bytes;
	struct weft_evq *evq;
	struct weft_listener *listeners[CONF_LISTEN_MAX];
	uint32_t nlisteners;
	struct weft_stream_listener *streams[CONF_LISTEN_MAX];
	uint32_t nstreams;
	struct weft_nvmf_listener addrs[2 * CONF_LISTEN_MAX]; /**< that discovery names */
	uint32_t naddrs;
	struct target_nvmf_resv *resv; /**< target_nvmf_resv.c */
	/** Of target_export.others: held from the look at a volume's reservations until clients are
	 * limited by them, and over a change, until all see it. Before the lock of lib/nvmf. */
	pthread_mutex_t resv_lock;
	unsigned int grace_ms; /**< what is under way has at the end; set before workers are told */
	/** connections of hosts that allow_from does not name; relaxed */
	atomic_ullong refused_addr;
};

/* ---- target_nvmf.c: the program's thread ---- */

/** Make groups and transports, if there is a subsystem. Workers are not running; before exports are
 * opened. -errno with one line in err. */
int target_nvmf_up(struct target *t, char *err, size_t err_size);
/** Accept hosts. Workers are not running yet. */
int target_nvmf_listen(struct target *t, char *err, size_t err_size);
/** With workers running: end all queues in order, and abort the rest after timeout_ms. */
void target_nvmf_hang_up(struct target *t, unsigned int timeout_ms);
/** With workers stopped, volumes drained and the context alive: free all. */
void target_nvmf_down(struct target *t);

/** Queues of hosts that a worker has at most, by each transport. */
static inline uint32_t
target_nvmf_conns(const struct conf_nvmf *c)
{
	const uint32_t most = CONF_NVMF_CONNS(c->queue_depth);

	return c->max_queues < most ? c->max_queues : most;
}

/* ---- target_nvmf_tcp.c ---- */

/** The store of keys, if there is TLS. -ENOMEM. */
int target_nvmf_tcp_keys(struct target_nvmf *n);
/** Set-up of a worker: its TCP transport. */
int target_nvmf_tcp_up(struct target_nvmf_worker *nw);
/** Accept hosts at an address or a network, or with `any` at every one. The program's thread. */
int target_nvmf_tcp_listen(struct target_nvmf *n, const struct conf_listen *at);
/** Its counters. On the worker. Returns how many connections there are. */
uint32_t target_nvmf_tcp_count(const struct target_nvmf_worker *nw,
                               uint64_t now[TARGET_NVMF_SHOWN]);

/* ---- target_nvmf_admit.c: on a worker ---- */

/** Have the workers look at what has changed. Any thread. */
void target_nvmf_wake(const struct target_nvmf *n);
/** The part of this worker; NULL: the target ends. */
struct target_nvmf_worker *target_nvmf_at(struct target_nvmf *n, const struct weft_worker *w);
/** Whether a host of this address may connect; if not, that is counted and logged. */
bool target_nvmf_admits(struct target_nvmf *n, const struct sockaddr_storage *remote);
/** Of weft_nvmf_group_attr: log that a host has not proved its name. */
void target_nvmf_auth_failed(struct weft_nvmf_group *g, const char *hostnqn, uint8_t why);
/** Likewise, that it needs TLS for this subsystem or controller, and has none. */
void target_nvmf_unproven(struct weft_nvmf_group *g, const char *hostnqn, const char *subnqn);
/** Of weft_nvmf_tcp_attr: log that a host was refused because of TLS. */
void target_nvmf_tls_refused(void *owner, const struct sockaddr_storage *remote, const char *why);
/** Log that a connection was refused. */
void target_nvmf_refused(const struct sockaddr_storage *remote, int why);

/* ---- target_nvmf_ns.c: the program's thread ---- */

/** Add the subsystems of the configuration. */
int target_nvmf_subsystems(struct target *t, char *err, size_t err_size);
/** The memory for data is the device's to read and write. */
int target_nvmf_memory(struct target *t, struct weft_block *block);
/** The export's volume is open, and each worker has its channel: its namespaces are there. */
void target_nvmf_enter(struct target *t, struct target_export *ex);
/** The channels are to be closed. False: commands are under way; no other begins; call again. */
bool target_nvmf_leave(struct target *t, struct target_export *ex);
/** Its rights or access lists have changed. */
void target_nvmf_rights(struct target *t, struct target_export *ex);
/** The export is gone for good, and so are its namespaces. */
void target_nvmf_forget(struct target *t, struct target_export *ex);
/** Whether the export is a namespace: then *nqn is its subsystem's name. */
bool target_nvmf_has(struct target *t, const struct target_export *ex, const char **nqn);
/** SIGHUP: subsystems come, go and change. */
void target_nvmf_reload(struct target *t, const struct conf *fresh);
/** End what could not be ended before. Now and then. */
void target_nvmf_look(struct target *t);

/* ---- target_nvmf_resv.c ---- */

/** Begin the thread that keeps reservations; *ops: of weft_nvmf_attr. -errno. */
int target_nvmf_resv_up(struct target_nvmf *n, struct weft_nvmf_resv_ops *ops);
/** End it. No command of a host is under way. Does nothing if it has not begun. */
void target_nvmf_resv_down(struct target_nvmf *n);
/** Add a namespace, with the reservations that were kept of its volume, and limit clients by them.
 * first: the export has no other namespace. The program's thread; waits for a change that is being
 * made durable. -EBADMSG: what was kept cannot be read, and clients have no rights; else as
 * weft_nvmf_ns_add(), and clients have what the reservation that was kept leaves. */
int target_nvmf_resv_add(struct target_nvmf *n, struct weft_nvmf_subsys *s,
                         const struct weft_nvmf_ns_attr *attr, bool first);
/** The export is no namespace any more: clients may do what they could before. The program's
 * thread; waits as above. */
void target_nvmf_resv_gone(struct target_nvmf *n, struct target_export *ex);

/* ---- target_nvmf_count.c: on the worker ---- */

/** Of weft_nvmf_group_attr. */
void target_nvmf_ended(struct weft_nvmf_group *g, const struct weft_nvmf_ended *e);
uint64_t target_nvmf_clock(const struct weft_nvmf_group *g);

/* ---- target_nvmf_tel.c: telemetry's thread ---- */

int target_tel_nvmf(void *user, const char *params, struct weft_tel *tel);
int target_tel_nvmf_ctrl(void *user, const char *params, struct weft_tel *tel);
int target_tel_nvmf_ns(void *user, const char *params, struct weft_tel *tel);

/* ---- target_nvmf_resv.c: an export is deleted, the program's thread ---- */

/** It is about to be deleted, and the reservations of its volume stay: no note that a failure has
 * left may take them. -errno with one line in err. */
int target_nvmf_resv_stay(struct target *t, const struct target_export *ex, char *err,
                          size_t err_size);
/** Its end is about to be written down: note that the reservations of its volume go with it.
 * target_nvmf_resv_end() follows, with uuid. -errno with one line in err. */
int target_nvmf_resv_doom(struct target *t, const struct target_export *ex, uint8_t uuid[16],
                          char *err, size_t err_size);
/** It is deleted, and so are they, unless another export may have the volume by now; or, with
 * deleted false, it is not, and they stay. */
void target_nvmf_resv_end(struct target *t, const uint8_t uuid[16], const char *name, bool deleted);

#endif /* WEFT_APPS_TARGET_NVMF_H */
