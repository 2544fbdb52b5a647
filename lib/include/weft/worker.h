/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_WORKER_H
#define WEFT_WORKER_H

/**
 * @file
 * Contexts, ports and workers: what a program sets up before it uses verbs.
 * Installed; stands alone.
 *
 * A worker is the unit that polls. weft_worker_poll() may be called from any thread that EAL
 * knows (weft registers the calling thread by itself) and from one thread at a time; weft's own
 * loop (weft_worker_run(), weft_worker_start()) is one caller, somebody's reactor another.
 * EAL may have been initialised by somebody else; weft_env_init() is a convenience.
 *
 * NULL, destroyed handles and those of another kind are refused as weft/verbs.h says ("Misuse"),
 * attributes of another version taken. A worker, a port and an alarm are destroyed by
 * weft_ctx_destroy() too. What is for the worker's thread alone is refused while another thread
 * polls the worker, where that is said.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include <weft/api.h>
#include <weft/mpa_policy.h>
#include <weft/tcp_attr.h>

WEFT_API_BEGIN

struct weft_ctx;
struct weft_port;
struct weft_worker;

const char *weft_version(void);

/* ---- Environment ---- */

struct weft_env_attr {
	size_t size; /**< sizeof(struct weft_env_attr) */
	const char *progname;
	const char *lcores; /**< EAL -l list; NULL: the cpus the process may use, at most two */
	uint32_t memory_mb; /**< [256] */
	/** never use hugepages; else they are used when there are enough free */
	bool no_huge;
	const char *log_level;    /**< EAL --log-level value, or NULL */
	const char *const *extra; /**< further EAL arguments, NULL-terminated; or NULL */
	/**
	 * Serve DPDK's telemetry socket (`dpdk-telemetry.py -f weft-PID`): the commands /weft/...
	 * and those of DPDK. Its directory is removed at exit.
	 */
	bool telemetry;
};

/**
 * Initialise EAL: no PCI, no root, no files left behind; hugepages when enough are free, else
 * ordinary memory. 0, -EALREADY (somebody did; fine), -ENOMEM, -ENODEV and what EAL answered; *msg
 * (may be NULL) gets one line for the user, static.
 */
int weft_env_init(const struct weft_env_attr *attr, const char **msg);
void weft_env_fini(void);
/** Whether hugepages are in use. */
bool weft_env_huge(void);

/**
 * From now on print so much: "TYPE:LEVEL[,...]" with DPDK's types (weft.*, lib.eal, pmd.net.memif,
 * ...; * matches) and levels (critical, error, warning, notice, info, debug). After
 * weft_env_init(). -EINVAL: nothing was changed from the first bad item on.
 */
int weft_log_levels(const char *spec);

/* ---- Context ---- */

struct weft_ctx_attr {
	size_t size;             /**< sizeof(struct weft_ctx_attr) */
	uint32_t max_regions;    /**< [4096] */
	uint32_t max_workers;    /**< [8] */
	uint32_t tcp_rto_min_us; /**< [0: what `tcp` says] */
	/** of every worker (copied), its `size` filled in; NULL: the defaults */
	const struct weft_tcp_attr *tcp;
	/** of connections and listeners without one of their own (copied); NULL: the defaults */
	const struct weft_mpa_policy *mpa;
	/** [0: max_regions] of each domain that asks for no other limit */
	uint32_t max_pd_regions;
	uint32_t max_pd_windows; /**< [0: max_regions] regions and windows share the table */
};

/** attr may be NULL. -ENOMEM, -EINVAL. */
int weft_ctx_create(const struct weft_ctx_attr *attr, struct weft_ctx **out);
/** Workers must be stopped. Destroys workers, ports and what is left on them. Does nothing the
 * second time. */
void weft_ctx_destroy(struct weft_ctx *ctx);

/* ---- Ports ---- */

struct weft_port_attr {
	size_t size;      /**< sizeof(struct weft_port_attr) */
	const char *name; /**< for people and configuration */
	/** DPDK device: a vdev string ("net_memif0,role=client,...") or a probed port's name */
	const char *dev;
	/** our IPv4 address; port ignored; ss_family 0: none, addr6 then is needed */
	struct sockaddr_storage addr;
	uint8_t prefix_len;
	struct sockaddr_storage gateway; /**< ss_family 0: none */
	/** [1500]; asked of the port; when it refuses, used all the same with a warning (net_memif)
	 */
	uint16_t mtu_bytes;
	uint32_t mbufs; /**< [8192] of the port: half of them to receive, half to send */
	/**
	 * [1] how many workers share the port, at most 64: as many must take it. By RSS where the
	 * port has it; else the first that takes it receives and distributes, and the others wait
	 * for it.
	 */
	uint32_t queues;
	/** our global or unique-local IPv6 address; ss_family 0: link-local only */
	struct sockaddr_storage addr6;
	uint8_t prefix6_len;
	/** on addr6's network or link-local; ss_family 0: none */
	struct sockaddr_storage gateway6;
	/** not even the link-local address, which is made from the port's MAC */
	bool no_ipv6;
	/** [0: untagged] the one VLAN that we send to and take from, 1..4094 */
	uint16_t vlan_id;
	/**
	 * [0] 1: to see whether a configuration can come up. Look whether there is a port or a
	 * driver of that name, and open a device in its place that touches nothing, with as many
	 * buffers. -ENOTSUP: DPDK's driver net_null is not there.
	 */
	uint64_t check;
};

/** Create the device if need be, configure and start it. -ENODEV (cannot be opened), -EINVAL
 * (attr; an argument of dev without a value, or more than DPDK reads), -ENOMEM, -EEXIST (name). A
 * net_memif client waits up to 3 s for its server to take it. */
int weft_port_open(struct weft_ctx *ctx, const struct weft_port_attr *attr, struct weft_port **out);

struct weft_port_stats {
	uint64_t rx_packets, rx_bytes, tx_packets, tx_bytes;
	uint64_t rx_bad;     /**< malformed at any layer up to TCP's checksum */
	uint64_t rx_dropped; /**< not for us, no memory */
	uint64_t tx_dropped;
	uint64_t rx_missed;        /**< the port's own count */
	uint64_t handed_over;      /**< segments that one worker passed to another, their owner */
	uint64_t handover_dropped; /**< likewise, lost because that one was too slow */
	uint32_t queues;           /**< workers that share it */
	bool rss;                  /**< it brings each its own by itself */
	bool link_up;
	uint16_t mtu_bytes;
	uint8_t mac[6];
	int numa_node;
};

/** Any thread. -EINVAL. */
int weft_port_stats(struct weft_port *port, struct weft_port_stats *st);
const char *weft_port_name(const struct weft_port *port);
struct weft_port *weft_port_get(struct weft_ctx *ctx, unsigned int i);

/* ---- Workers ---- */

struct weft_worker_attr {
	size_t size; /**< sizeof(struct weft_worker_attr) */
	const char *name;
	/** where weft_worker_start() runs it: EAL's lcore of that number, else a thread on that
	 * cpu; -1: a thread of its own, unpinned */
	int lcore;
	bool spin;              /**< never back off when idle */
	uint32_t idle_spin_us;  /**< [200] of nothing to do before pausing */
	uint32_t idle_sleep_us; /**< [50] longest sleep when idle */
	uint32_t max_conns;     /**< [1024] */
	/** [1] helper threads of its executor (persist drivers that block) */
	uint32_t helpers;
};

/** attr may be NULL. -EINVAL, -ENOMEM, -ENOSPC (max_workers). */
int weft_worker_create(struct weft_ctx *ctx, const struct weft_worker_attr *attr,
                       struct weft_worker **out);
/**
 * Give the worker a queue of a port, the first to come queue 0; before its first poll. -EBUSY (all
 * taken, or it has one already, or it has polled), -EINVAL (of another context), -ENOMEM.
 */
int weft_worker_add_port(struct weft_worker *w, struct weft_port *port);

/**
 * One turn of the loop: receive, complete, callbacks, work, transmit. Returns how much there was to
 * do, 0: idle. -EBUSY: another thread is in here for this worker; nothing was done, and the first
 * time is logged. That is meant to find the mistake, not to make it harmless: two threads that
 * enter in the same few nanoseconds are not told from one. -EINVAL: NULL, or its context was
 * destroyed.
 */
int weft_worker_poll(struct weft_worker *w);
/** Poll until weft_worker_stop(), backing off when idle. Runs on the calling thread. 0, or -EBUSY
 * and -EINVAL of weft_worker_poll(). */
int weft_worker_run(struct weft_worker *w);
/** weft_worker_run() on attr.lcore, or on a new thread. -EALREADY (it is started), -EINVAL, and
 * what starting a thread says. */
int weft_worker_start(struct weft_worker *w);
/** Make weft_worker_run() return; waits for a started one. Safe in a signal handler only as
 * weft_worker_stop_async(). */
void weft_worker_stop(struct weft_worker *w);
void weft_worker_stop_async(struct weft_worker *w);
/**
 * Called by the polling thread before another thread takes over polling. Does nothing on any other
 * thread. A thread that ends is detached by that.
 */
void weft_worker_detach(struct weft_worker *w);
/** Whether the calling thread is the one that polls w. */
bool weft_worker_is_mine(const struct weft_worker *w);
/** Run fn(arg) on the worker at its next poll (at once when it is ours). -EAGAIN: too many on
 * their way. -EINVAL, -ENOMEM. */
int weft_worker_call(struct weft_worker *w, void (*fn)(void *arg), void *arg);
/**
 * Sleep at most timeout_us or until there is something to do (a timer, a call, a post, a finished
 * job); packets do not wake it, so timeout_us bounds their delay. For callers with a loop of their
 * own, on the polling thread. Does nothing while another thread is in weft_worker_poll() for this
 * worker.
 */
void weft_worker_idle(struct weft_worker *w, uint32_t timeout_us);
struct weft_exec;
/** For a persist driver's flush() or read_back() of the caller's own (weft/persist.h), on the
 * worker. */
struct weft_exec *weft_worker_exec(struct weft_worker *w);
/** The worker's clock in this poll, monotonic. */
uint64_t weft_worker_now_ns(const struct weft_worker *w);
/** Unpredictable octets (in a simulation: seeded ones), on the worker. For set-up: it may be a
 * system call. */
void weft_worker_random(struct weft_worker *w, void *buf, size_t len_bytes);

struct weft_worker_stats {
	uint64_t polls, busy_polls;
	uint64_t busy_cycles; /**< TSC cycles of polls that had something to do */
	uint64_t poll_max_ns; /**< longest poll */
	uint64_t conns, conns_total;
	uint64_t mpa_fallbacks; /**< connections tried once more in MPA revision 1 */
	uint64_t segs_in, segs_out, retrans_segs, rtos;
	uint64_t fpdus_in, fpdus_out, crc_errors, marker_errors;
	uint64_t msgs_in, msgs_out, terminates_in, terminates_out;
	uint64_t wcs, cq_overruns;
	/** connections reset because a listener's backlog was full */
	uint64_t requests_refused;
	/** by weft_listen_attr.max_..._per_peer */
	uint64_t requests_refused_peer, conns_refused_peer;
	/** Flushes and Verifies of peers that failed: each a WEFT_EV_BAD_RANGE */
	uint64_t bad_ranges;
	/** regions asked back by weft_mr_revoke(), on this worker; how that ended: */
	uint64_t revocations;
	uint64_t revocations_reduced, revocations_invalidated, revocations_failed;
	/** what peers asked of what was taken back: each a Terminate */
	uint64_t refused_after_revoke;
	/** connections reset for later ones: they had said nothing, or stopped amid their start-up
	 */
	uint64_t requests_evicted;
	/** connections ended because an FPDU was not completed in time
	 * (weft_mpa_policy.fpdu_timeout_us) */
	uint64_t fpdu_timeouts;
	/** connections ended, the longest silent first, because others needed the memory of their
	 * incomplete FPDU */
	uint64_t fpdus_shed;
	/** times that octets of an incomplete FPDU were copied to the heap */
	uint64_t fpdus_moved;
	/** now in use for that, beyond what each connection has for itself */
	uint64_t fpdu_heap_bytes;
	/** connection requests ended by octets ahead of their Reply: too many, or no buffers to
	 * spare */
	uint64_t early_refused;
	/** accepted connections reset for a newcomer (weft_listen_attr.push_out) */
	uint64_t conns_pushed_out;
	/** flushes and reads back from a medium that waited for others of the same peer */
	uint64_t medium_waits;
};

void weft_worker_stats(struct weft_worker *w, struct weft_worker_stats *st);
struct weft_worker *weft_worker_get(struct weft_ctx *ctx, unsigned int i);

/* ---- How long an iteration of the poll loop takes ---- */

/** Eight to an octave of TSC cycles, so none is wider than an eighth of where it begins; up to
 * 2^43 cycles. */
#define WEFT_POLL_HIST_BUCKETS 328

/**
 * Iterations that had something to do, from the reading of the clock at the start of
 * weft_worker_poll() to its return: wall time by the TSC, so what the kernel or a hypervisor did
 * with the core meanwhile is in it. Kept always, at one increment an iteration;
 * weft_worker_stats.polls less busy_polls had nothing to do.
 */
struct weft_poll_hist {
	size_t size;    /**< sizeof(struct weft_poll_hist), by the caller */
	uint64_t polls; /**< in all buckets */
	uint64_t sum_ns;
	/** exact; after weft_poll_hist_since() the longest's bucket where it cannot be */
	uint64_t max_ns;
	struct {
		/** iterations shorter than this that belong to no bucket before */
		uint64_t below_ns;
		uint64_t polls;
	} bucket[WEFT_POLL_HIST_BUCKETS];
};

/** Any thread; read while the worker counts on. -EINVAL (size). Some 5 KiB: not for a small stack.
 */
int weft_worker_poll_hist(struct weft_worker *w, struct weft_poll_hist *h);
/** Turn h, of a later moment than `from`, into what came in between. */
void weft_poll_hist_since(struct weft_poll_hist *h, const struct weft_poll_hist *from);
/** So long that pct percent of the iterations are shorter, to the end of a bucket; 0 when there
 * are none. */
uint64_t weft_poll_hist_pct_ns(const struct weft_poll_hist *h, double pct);

/* ---- Timers for callers ---- */

struct weft_alarm;
/** Call fn(arg) on the worker after delay_us, once. -EPERM: another thread polls the worker.
 * -EINVAL (no worker, no fn), -ENOMEM. */
int weft_alarm_set(struct weft_worker *w, uint64_t delay_us, void (*fn)(void *arg), void *arg,
                   struct weft_alarm **out);
/**
 * On the worker's thread: while another one polls, nothing is done but a line in the log. Nor is
 * anything done for one that ran or was cancelled already, as far as it is among the last 64 of
 * these.
 */
void weft_alarm_cancel(struct weft_alarm *a);

WEFT_API_END

#endif /* WEFT_WORKER_H */
