/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_TARGET_CONTROL_H
#define WEFT_APPS_TARGET_CONTROL_H

/**
 * @file The control socket (docs/control.md): JSON-RPC 2.0 for the operator's tools.
 *
 * Its own thread accepts clients, reads requests and writes answers; it takes no lock that a worker
 * takes while it moves data. A request becomes a job (struct control_job), which is done in one of
 * three places:
 *
 * - here: on the control thread, at once
 * - by the program: on the program's thread, as SIGHUP is; such a job may take several turns
 * - by the workers: a function on each worker, by weft_worker_call(); it never blocks. What they
 *   have collected becomes the answer on the control thread
 *
 * A job that is not done within the time of its method is answered as late. It goes on, and what it
 * gives is discarded. A job has two references, the client's and that of who does it.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "conf.h"
#include "ctl_request.h"
#include "rate.h"
#include "sock_file.h"

#define CONTROL_CLIENTS  64U  /**< clients at once */
#define CONTROL_JOBS     128U /**< jobs of the program's thread that wait or are under way */
#define CONTROL_IDLE_S   60U  /**< a client that sends nothing, or half a line, is closed */
#define CONTROL_SLOW_S   15U  /**< a client that does not take its answer is closed */
#define CONTROL_FLUSH_MS 1000U
#define CONTROL_SLICE    32U /**< connections that a worker looks at in one poll */

struct control;
struct control_conn;
struct control_handler;
struct control_job;
struct control_lane;
struct slow_ring;
struct target;
struct target_conn;
struct target_export;
struct target_worker;

/** The part of a job that one worker does. */
struct control_part {
	struct control_job *job;
	struct target_worker *tw;
	uint32_t number; /**< of the worker */
	bool called;
	struct control_conn *rows, *before; /**< before: those of the first sample */
	struct control_lane *lanes, *lanes_before;
	/* What is copied is copied in slices (target_control_collect.c). The worker alone. */
	LIST_ENTRY(control_part) looking; /**< in the worker's `looking`, while `looks` */
	struct target_conn *next_conn;    /**< its end moves this on */
	struct rate_walk walk;
	struct weft_alarm *alarm; /**< of the next slice */
	uint32_t next_limited;    /**< index in the job's `limited` */
	bool looks, conns_done;
	uint32_t *holds, nholds, max_holds; /**< of the rows */
	struct slow_ring *slow;             /**< a copy */
	uint32_t nrows, max_rows, left_out, closed, nbefore, nlanes, max_lanes, nlanes_before;
};

/** What an export had counted when the first sample was taken. */
struct control_export_sample {
	uint64_t read_bytes, write_bytes, ops, charged_bytes, charged_ops;
};

struct control_job {
	STAILQ_ENTRY(control_job) link; /**< of the jobs of the program's thread */
	struct target *t;
	const struct ctl_method *method;
	const struct control_handler *handler;
	json_t *params; /**< checked; owned */
	/** What is answered: a result, or a fault with a code that is not CTL_OK. Written by who
	 * does the job, before `done`. */
	json_t *result;
	struct ctl_fault fault;
	atomic_uint refs;
	atomic_bool done;  /**< a release, behind the answer; the control thread acquires */
	atomic_bool given; /**< its client waits for it no more */
	uid_t uid;         /**< of the client; for the log */
	pid_t pid;
	uint64_t end_ns; /**< for the handler: until when it waits */
	bool begun;      /**< likewise: it has had its first turn */
	/* Of a handler that has `sample`, the control thread alone. */
	uint32_t interval_ms; /**< for how long it is to measure; 0: not, or not any more */
	uint64_t sample_ns;   /**< when the first sample was taken; 0: none was */
	double took_s;        /**< how long it has measured; 0: it has not */
	struct control_export_sample *before; /**< by number of the export; NULL: none */
	json_t *rows;                         /**< for the handler */
	uint32_t *limited, nlimited;          /**< slots of exports that have rates */
	json_t *hosts;    /**< NVMe hosts in the first sample; owned; NULL: none was taken */
	atomic_uint left; /**< workers that have not done their part */
	struct control_part part[CONF_WORKERS_MAX];
};

/** Who does the jobs of a method: exactly one of `here`, `program` and `worker` is set. */
struct control_handler {
	const char *method;
	void (*here)(struct control_job *job);
	/** False: it is called again, soon. */
	bool (*program)(struct control_job *job);
	/** Before the workers are called; false: the fault is set. May be NULL. */
	bool (*prepare)(struct control_job *job);
	/** A slice of its part, of CONTROL_SLICE connections, exports or clients; false: it is
	 * called again in a later poll. */
	bool (*worker)(struct control_part *part);
	/** All workers are done: set the result. */
	void (*finish)(struct control_job *job);
	/** Of one that measures rates, by two samples that lie `interval_ms` apart: keep the first
	 * one. What collects it is called a second time then. Control thread. */
	void (*sample)(struct control_job *job);
};

#define CONTROL_INTERVAL_MS 5000U /**< the longest time for which rates are measured */

/** Counters, relaxed; for `status` and telemetry. */
struct control_counters {
	atomic_uint clients;
	atomic_ullong requests, refused, denied, slow, idle, bad, too_long, late;
};

/* ---- target_control_job.c ---- */

struct control_queue;

/** Make a job with one reference. Takes params. NULL: no memory. */
struct control_job *control_job_make(struct target *t, const struct control_handler *h,
                                     const struct ctl_method *m, json_t *params);
/** Give a reference back; the last one frees it. */
void control_job_put(struct control_job *job);
/** Start it. It is done at once, or the control thread is woken when it is. Control thread. */
void control_job_start(struct control_job *job);
/** Of a job that is done, but measures: whether it goes on, as its second sample is to come. Then
 * it has to be asked again at *at_ns, unless that is 0. Control thread. */
bool control_job_measures(struct control_job *job, uint64_t now_ns, uint64_t *at_ns);
/** Of a job of the workers that is done by all of them: make its answer. Control thread. */
void control_job_finish(struct control_job *job);
/** Set the result and take it. NULL: no memory. Called on the thread that does the job. */
void control_job_result(struct control_job *job, json_t *result);

/** Begin and end the queue of the program's thread. wake_fd: an eventfd of the control thread. */
int control_queue_open(struct control_queue **out, int wake_fd);
void control_queue_close(struct control_queue *q);
/** Do the jobs that wait. Returns whether some have another turn to come. The program's thread. */
bool control_queue_run(struct control_queue *q);
/** The target ends: the jobs that are left are answered with a fault. The program's thread. */
void control_queue_end(struct control_queue *q);

/** What a counter has counted since it was `was`; it has begun anew if it was more than now. */
static inline uint64_t
control_since(uint64_t was, uint64_t now)
{
	return now >= was ? now - was : now;
}

/** A text as JSON; octets that are no UTF-8 become '?'. NULL: no memory. */
json_t *control_text(const char *s);
/** A count as its rate in the time that the job has measured; null: it has measured none. */
json_t *control_rate(const struct control_job *job, uint64_t n);
/** Add n to a count of an object. */
void control_add_to(json_t *object, const char *key, uint64_t n);
/** A text parameter; NULL: it was not given. */
const char *control_param(const struct control_job *job, const char *name);

/* ---- target_control_socket.c ---- */

/** The socket as a file. */
struct control_socket {
	struct sock_file file;
	gid_t group; /**< SOCK_FILE_NO_GROUP: none */
};

/** Whether the configuration can have its socket; changes nothing. -errno with one line in err. */
int control_socket_check(const struct conf_target *conf, char *err, size_t err_size);
/**
 * Open the socket of the configuration. 0 with fd -1: it is off. -EADDRINUSE: another target has
 * it. -errno with one line in err.
 */
int control_socket_open(const struct conf_target *conf, struct control_socket *s, char *err,
                        size_t err_size);
/** Whether the process at the other end may use the socket; *uid and *pid are its. */
bool control_socket_may(const struct control_socket *s, int fd, uid_t *uid, pid_t *pid);

/* ---- target_control_methods.c ---- */

/** NULL: the target has no handler for the method. */
const struct control_handler *control_handler_find(const char *method);

/* ---- target_control_collect.c: on the worker ---- */

bool control_conns_collect(struct control_part *part);
bool control_limits_collect(struct control_part *part);
bool control_drop_collect(struct control_part *part);
/** A connection of this worker ends. */
void target_control_conn_gone(const struct target_conn *c);
/** Workers are stopped: give up what they were in the middle of. */
void target_control_stopped(struct target *t);

/* ---- target_control_read.c, target_control_conns.c, target_control_limits.c: handlers that change
 * nothing ---- */

void control_status(struct control_job *job);
void control_exports(struct control_job *job);
void control_exports_sample(struct control_job *job);
/** Make room for a row of each connection. */
bool control_conns_prepare(struct control_job *job);
void control_conns_sample(struct control_job *job);
void control_connections(struct control_job *job);
void control_clients(struct control_job *job);
bool control_limits_prepare(struct control_job *job);
void control_limits_sample(struct control_job *job);
void control_limits(struct control_job *job);
/** The state of an export, as `exports` shows it. */
const char *control_export_state(const struct target_export *ex);

/* ---- target_control_slow.c: likewise ---- */

bool control_slow_prepare(struct control_job *job);
bool control_slow_collect(struct control_part *part);
void control_slow(struct control_job *job);
void control_slow_packets(struct control_job *job);

/* ---- target_control_support.c: likewise, on the program's thread ---- */

bool control_support(struct control_job *job);

/* ---- target_control_capture.c: captures; on the program's thread ---- */

bool control_capture_start(struct control_job *job);
bool control_capture_stop(struct control_job *job);
bool control_capture_status(struct control_job *job);

/* ---- target_control_do.c: handlers that change something ---- */

bool control_loglevel(struct control_job *job);
bool control_reload(struct control_job *job);
bool control_drain(struct control_job *job);
bool control_offline(struct control_job *job);
bool control_online(struct control_job *job);
bool control_stop(struct control_job *job);
bool control_restart(struct control_job *job);
void control_drop(struct control_job *job);

/* ---- target_control_exports.c: handlers that make and change exports ---- */

bool control_dump(struct control_job *job);
bool control_create(struct control_job *job);
bool control_set(struct control_job *job);
bool control_delete(struct control_job *job);
bool control_resize(struct control_job *job);
bool control_rename(struct control_job *job);
bool control_diff(struct control_job *job);
bool control_apply(struct control_job *job);

/* ---- target_control.c ---- */

/** Open the socket and start its thread. -errno with one line in err. The program's thread. */
int target_control_begin(struct target *t, char *err, size_t err_size);
/** Do what clients asked for. Returns whether it has to be called again soon. The program's
 * thread. */
bool target_control_run(struct target *t);
/** Answer what is left, and end the thread. Does nothing if there is none. */
void target_control_end(struct target *t);
/** Workers are stopped: free what their jobs used. */
void target_control_free(struct target *t);

#endif /* WEFT_APPS_TARGET_CONTROL_H */
