/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_TARGET_H
#define WEFT_APPS_TARGET_H

/**
 * @file weft-target as a whole. Its sources by subject, with the header of each subject:
 *
 * - program: target.c; target_reload.c (SIGHUP); target_tel.c (telemetry); target_say.c
 *   (target_say.h: log lines that peers provoke); target_memory.c
 * - exports (target_export.h): target_export.c; target_served.c, target_offline.c (whether an
 *   export is served); target_rights.c; target_why.c; target_bad_range.c
 * - opening of an export (target_opening.h): target_opening*.c; of many (target_ahead.h):
 *   target_ahead.c
 * - files of exports (target_file.h): target_watch.c; which exports have the same (target_media.h):
 *   target_media.c
 * - connections (target_conn.h): target_listen.c, target_conn.c, target_later.c
 * - authentication of clients (target_auth.h): target_auth.c, target_admit.c
 * - procedures of the export program (target_rpc.h): target_rpc.c; target_io.c (STAT, READ, WRITE);
 *   target_reads.c; target_log.c (OPEN_LOG)
 * - grants (target_grant.h): target_grant.c; target_writer.c (the writer's place); target_revoke.c;
 *   target_log_conn.c (a log's grant)
 * - tickets (target_ticket.h): target_ticket.c
 * - control socket (target_control.h): target_control*.c
 * - exports at run time (target_runtime.h, target_state.h): target_runtime.c, target_state*.c
 * - access lists (target_export.h): target_access.c
 * - limits (target_quota.h, quota.h): target_quota.c, quota.c; rates of exports (target_rate.h,
 *   rate.h): target_rate.c, rate.c
 * - messages to a service manager, its watchdog (target_service.h): target_service.c
 * - the program replaces itself (target_restart.h): target_restart.c
 * - metrics (target_metrics.h, metrics_count.h, metrics_read.h): metrics*.c
 * - volumes (target_volume.h): target_volume*.c
 * - NVMe over Fabrics (target_nvmf.h): target_nvmf*.c
 * - target_round.c (target_round.h: a function on each worker)
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "conf.h"
#include "holdoff.h"
#include "rate.h"
#include "stack.h"
#include "target_auth.h"
#include "target_capture.h"
#include "target_conn.h"
#include "target_export.h"
#include "target_ticket.h"
#include <weft/weft.h>

struct control;
struct control_counters;
struct control_queue;
struct metrics;
struct target_nvmf;
struct slow_pcap;
struct state;

struct target {
	struct conf conf;
	/** as last read, that is conf or what SIGHUP has read; the program's thread */
	const struct conf *latest;
	const char *conf_file; /**< the file that SIGHUP reads again */
	atomic_uint revoke_ms; /**< relaxed: SIGHUP changes it, and it stands alone */
	atomic_ullong slow_ns; /**< likewise: from when on an operation is slow */
	struct stack stack;
	/** By number. These tables are as long as the limit, and zeros: pages of slots that were
	 * never used take no memory. Nothing may write to them, or read them again and again. */
	struct target_export exports[CONF_EXPORTS_MAX];
	struct rate_export rates[CONF_EXPORTS_MAX];
	/** conf_name_hash() of their names, for target_export_find(); relaxed. The program's thread
	 * stores. */
	atomic_uint names[CONF_EXPORTS_MAX];
	/** counts changes of what exports there are, of their names and formats. Release, behind
	 * the change or under exports_lock with it; a reader acquires. */
	atomic_uint exports_changes;
	uint32_t ngone; /**< slots below nexports without an export; the program's thread */
	atomic_ullong exports_refused; /**< exports that found no slot; relaxed */
	int watch_fd;                  /**< inotify descriptor; -1: none */
	uint32_t watch_at;             /**< target_watch_some(); the program's thread */
	/** The files are being looked at since then (ui_now_ns()); 0: they are not now. */
	_Atomic uint64_t watch_since_ns;
	bool strict;   /**< --strict: an export that cannot be opened ends the start */
	int numa_node; /**< for exports whose configuration names no node */
	/** Slots of exports that are in use, or were. A release behind the slot's content; a reader
	 * acquires (target_nexports()). The program's thread alone changes it. */
	atomic_uint nexports;
	/** Held by the program's thread while it changes what a slot's `conf` points to, and by
	 * threads other than workers while they read the exports. No worker takes it. */
	pthread_mutex_t exports_lock;
	struct state *state; /**< exports that were made at run time; NULL: no state directory */
	pthread_mutex_t clients_lock;
	struct target_clients *clients; /**< under clients_lock; NULL: not read yet */
	/* Counters for telemetry, relaxed. */
	/** connections that passed; refusals of any kind */
	atomic_ullong auth_passed, auth_refused;
	/** connections closed because they did not authenticate in time */
	atomic_ullong auth_late;
	struct host_auth_place known_as[TARGET_KNOWN_AS];
	unsigned int nknown_as;
	struct holdoff holdoff; /**< addresses that failed to authenticate */
	struct target_worker workers[CONF_WORKERS_MAX];
	struct target_tickets tickets;
	struct quota *quota; /**< each client's share of the grants */
	/** Shared by all workers: a client that reconnects may arrive at another worker. */
	struct weft_rpc_drc *drc;
	struct weft_evq *evq;
	struct weft_listener *listeners[CONF_LISTEN_MAX];
	uint32_t nlisteners;
	/** Connections of all workers, those in limbo included. An end is a release: when a thread
	 * acquires 0, the workers are done with all of them. */
	atomic_uint nconns;
	atomic_uint last_handle; /**< relaxed: a number that no two grants share */
	atomic_bool stopping;    /**< connection requests are rejected */
	uint8_t *staging;        /**< memory of volumes of all workers: half of [target] staging */
	bool running;            /**< the workers run */
	/* the control socket; NULL: it is off */
	struct control *control;
	struct control_queue *control_queue;
	const struct control_counters *control_counters;
	struct metrics *metrics;  /**< NULL: they are off */
	struct target_nvmf *nvmf; /**< NULL: there is no subsystem */
	struct captures captures;
	/** Packets of slow operations; NULL: no capture was started. A release behind its
	 * content. */
	_Atomic(struct slow_pcap *) slow_pcap;
	uint64_t ready_ns;     /**< when it was ready, by ui_now_ns() */
	char log_level[256];   /**< as set last; the program's thread */
	bool log_format_given; /**< --log-format: that of the configuration is not used */
	bool stop_asked;       /**< a client of the socket wants the end; the program's thread */
	bool restart_asked;    /**< and the program's file to be executed then; likewise */
};

/** Slots of exports: a loop skips those that are gone (target_export_gone()). Any thread. */
static inline uint32_t
target_nexports(const struct target *t)
{
	return atomic_load_explicit(&t->nexports, memory_order_acquire);
}

/** Read the configuration again, and revoke what it no longer grants. -errno with one line in err:
 * it has an error, and nothing was changed. `who` asks for it, for the log. The program's thread.
 * target_reload.c */
int target_reload(struct target *t, const char *who, char *err, size_t err_size);

/** Return memory of ended connections to the system. The program's thread, each TARGET_WATCH_MS.
 * target_memory.c */
void target_memory_look(struct target *t);
/** Of a table as long as a limit a page takes memory when it is written to, and not all of 2 MiB
 * around it. target_memory.c */
void target_memory_sparse(void *at, size_t bytes);
/** Such a table, of zeros. calloc() may write them, to memory that was used before. NULL: no
 * memory. */
void *target_table_make(size_t bytes);
/** Does nothing for NULL. */
void target_table_free(void *at, size_t bytes);
/**
 * Memory for the data of operations, of zeros, and populated, so that no polling thread faults for
 * it. In huge pages where the kernel has some: each ring of the kernel's that is told of the memory
 * keeps 16 octets for each page, and looks it up. NULL: no memory. Set-up. target_memory.c */
void *target_staging_make(size_t bytes);
/** Does nothing for NULL. */
void target_staging_free(void *at, size_t bytes);

/* ---- target_tel.c ---- */

void target_tel_begin(struct target *t);
/** After the return telemetry does not access the target. */
void target_tel_end(void);

#endif /* WEFT_APPS_TARGET_H */
