/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_WORKER_H
#define WEFT_WORKER_H

/**
 * @file Contexts, ports and workers: what a program sets up before it uses verbs. Installed; stands
 * alone.
 *
 * A worker is the unit that polls. weft_worker_poll() may be called from any thread, but from one
 * thread at a time; weft registers the thread with EAL. The caller is weft's own loop
 * (weft_worker_run(), weft_worker_start()) or an event loop of the program. The program may
 * initialise EAL itself; weft_env_init() is a convenience.
 *
 * NULL, destroyed handles and handles of another kind are refused, and attributes of another
 * version are accepted, as weft/verbs.h says ("Misuse"). Workers, ports and alarms are also
 * destroyed by weft_ctx_destroy(). A function that is only for the worker's thread is refused while
 * another thread polls the worker, where its description says so.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include <weft/api.h>
#include <weft/mpa_policy.h>
#include <weft/offload.h>
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
	/** EAL -l list; NULL: the CPUs that the process may use, at most two */
	const char *lcores;
	uint32_t memory_mb; /**< [256] */
	/** Never use hugepages. Else they are used when enough are free. */
	bool no_huge;
	const char *log_level;    /**< EAL --log-level value, or NULL */
	const char *const *extra; /**< further EAL arguments, a list that ends with NULL; or NULL */
	/**
	 * Serve DPDK's telemetry socket (`dpdk-telemetry.py -f weft-PID`), with the commands
	 * /weft/... and those of DPDK. Its directory is removed at exit.
	 */
	bool telemetry;
	/**
	 * PCI devices that the program will open as ports: "0000:3b:00.0[,ARGS]", a list that ends
	 * with NULL; or NULL. EAL takes exactly these. Without any, EAL does not look at the PCI
	 * bus. Items that are no PCI device are not given to EAL, so the `dev` of every port may
	 * stand here. One of net_memif with zero-copy=yes has to: its memory is made another way
	 * (--single-file-segments).
	 */
	const char *const *devices;
	/** Take devices that the machine needs, too (weft_device_need of weft/device.h). */
	bool take_needed;
};

/**
 * Initialise EAL: PCI devices only as named, no root, no files left behind; hugepages if enough are
 * free, else ordinary memory. *msg gets one line for the user, a static string; msg may be NULL.
 *
 * Each named device must be free for this process (weft_device_check() of weft/device.h, whose
 * error this call returns; *msg names the device and has that line), and is locked against other
 * programs of weft until weft_env_fini().
 *
 * Returns 0, -EALREADY (EAL is initialised, which is fine), -EINVAL (an attribute, or `devices`
 * names one device twice), -ENOMEM, -ENODEV, the errors of weft_device_check(), and those of EAL.
 */
int weft_env_init(const struct weft_env_attr *attr, const char **msg);
void weft_env_fini(void);
/** Whether hugepages are in use. */
bool weft_env_huge(void);

/**
 * Set which log lines are printed: "TYPE:LEVEL[,...]" with DPDK's types (weft.*, lib.eal,
 * pmd.net.memif, ...; * matches) and levels (critical, error, warning, notice, info, debug). Called
 * after weft_env_init(). -EINVAL: a bad item; the items before it are in force.
 */
int weft_log_levels(const char *spec);
/**
 * Give each log line of the library and of DPDK to fn instead of standard error and syslog(3), from
 * now on, also before weft_env_init(). fn NULL: as before. priority is one of syslog(3), 2
 * (critical) to 7 (debug). line is "TYPE: TEXT", without its newline and cut at 1023 octets, and
 * lives during the call. fn runs on the thread that logs, one at a time, with a lock held; it logs
 * nothing by the library. A thread that has begun a line may call the fn of before a moment later.
 * Returns 0, -ENOMEM. Any thread, one at a time.
 */
int weft_log_to(void (*fn)(int priority, const char *line));

/* ---- Context ---- */

struct weft_ctx_attr {
	size_t size;             /**< sizeof(struct weft_ctx_attr) */
	uint32_t max_regions;    /**< [4096] */
	uint32_t max_workers;    /**< [8] */
	uint32_t tcp_rto_min_us; /**< [0: that of `tcp`] */
	/**
	 * Settings of every worker's TCP (copied), with its `size` filled in. NULL: the defaults.
	 */
	const struct weft_tcp_attr *tcp;
	/**
	 * For connections and listeners without a policy of their own (copied). NULL: the defaults.
	 */
	const struct weft_mpa_policy *mpa;
	/** [0: max_regions] limit of each domain that names none */
	uint32_t max_pd_regions;
	/** [0: max_regions] the same; regions and windows share one table */
	uint32_t max_pd_windows;
};

/** Create a context. attr may be NULL. -ENOMEM, -EINVAL. */
int weft_ctx_create(const struct weft_ctx_attr *attr, struct weft_ctx **out);
/**
 * Destroy a context, with its workers, its ports and all objects on them. The workers must be
 * stopped. Does nothing the second time.
 */
void weft_ctx_destroy(struct weft_ctx *ctx);

/* ---- Ports ---- */

/** The default of weft_port_attr.mbufs. With large packets 2048 take 128 MiB. */
#define WEFT_PORT_MBUFS(mtu_bytes) ((mtu_bytes) > 9600 ? 2048u : 8192u)

/** The most networks of a port, those of weft_port_attr.addr and addr6 included. */
#define WEFT_MAX_NETWORKS 16

/** One more address of a port, and the network that it is in. */
struct weft_network_attr {
	size_t size; /**< sizeof(struct weft_network_attr), the same in each element of an array */
	/** IPv4, or global or unique-local IPv6; its port is ignored */
	struct sockaddr_storage addr;
	/**
	 * Next hop to other networks: in the network, or a link-local IPv6 address on its VLAN.
	 * ss_family 0: that of another network on the same VLAN, if one has any.
	 */
	struct sockaddr_storage gateway;
	/** [0: untagged] 1..4094; networks that overlap must be on one VLAN */
	uint16_t vlan_id;
	uint8_t prefix_len; /**< 1..32, or 1..128 */
};

struct weft_port_attr {
	size_t size;      /**< sizeof(struct weft_port_attr) */
	const char *name; /**< name for people and configuration */
	/**
	 * DPDK device: a vdev string ("net_memif0,role=client,..."), a PCI address with arguments
	 * of its driver ("0000:3b:00.0,..."), or the name of a probed port
	 */
	const char *dev;
	/**
	 * IPv4 address of this host; its port is ignored. ss_family 0: none, then addr6 or a
	 * network is required.
	 */
	struct sockaddr_storage addr;
	uint8_t prefix_len;
	struct sockaddr_storage gateway; /**< ss_family 0: none */
	/**
	 * [1500] Octets of an IP packet, 576 to 65535. Set on the port. A port that refuses it
	 * keeps its own, with a warning; net_memif reports 1500 and carries it all the same. Sent
	 * packets are 65326 octets long at most; packets of 65535 octets are received.
	 */
	uint16_t mtu_bytes;
	/** [WEFT_PORT_MBUFS()] mbufs of the port: half to receive, half to send. Each has room for
	 * one packet of mtu_bytes. */
	uint32_t mbufs;
	/**
	 * [1] Number of workers that share the port, at most 64. Exactly so many must add the port.
	 * With RSS, the port distributes the segments. Else the worker that adds the port first
	 * receives and distributes them, and the others depend on its polls.
	 */
	uint32_t queues;
	/** Global or unique-local IPv6 address of this host; ss_family 0: link-local only. */
	struct sockaddr_storage addr6;
	uint8_t prefix6_len;
	/** on the network of addr6, or link-local; ss_family 0: none */
	struct sockaddr_storage gateway6;
	/** no IPv6 at all, not even the link-local address made from the port's MAC */
	bool no_ipv6;
	/** [0: untagged] VLAN of addr and addr6, 1..4094 */
	uint16_t vlan_id;
	/**
	 * [0] 1: test whether a configuration can be used. Checks that a port or a driver of this
	 * name exists, and opens a dummy device with as many buffers in its place. -ENOTSUP: DPDK's
	 * driver net_null is missing.
	 */
	uint64_t check;
	/**
	 * [none] Further networks (copied): one after the other in memory, each with its size. The
	 * port takes frames of the VLANs of its networks and no others, and each address is known
	 * on its own VLAN only. Every VLAN has a link-local IPv6 address; sin6_scope_id names the
	 * VLAN of such an address, or is 0 for the port's first VLAN (that of addr and addr6, else
	 * of networks[0]), or 4095 for untagged frames beside a first VLAN that is tagged.
	 *
	 * A connection keeps to the VLAN of its local address: the peer is asked for there if a
	 * network of the port on that VLAN has it, and is else reached by the gateway of the local
	 * address's network, or by the first gateway on that VLAN.
	 */
	const struct weft_network_attr *networks;
	uint32_t nnetworks; /**< at most WEFT_MAX_NETWORKS with addr and addr6 */
	/** [0] WEFT_OFFLOAD_* that the port does not do, even if it offers them */
	uint64_t no_offloads;
	/**
	 * [0] Differentiated Services Code Point of what TCP sends (RFC 2474 s3), 0 to 63: in the
	 * TOS octet of IPv4, the traffic class of IPv6. A listener or a connection may have its own
	 * (WEFT_DSCP()). ARP, Neighbor Discovery and ICMP errors have 0.
	 */
	uint64_t dscp;
	/**
	 * [0] 1: before the port takes traffic, test its checksums, TSO and RSS by frames that go
	 * out and come back inside the device. What is incorrect is not used, and shown by
	 * weft_port_stats.offloads_failed and a log line. For drivers with a loopback (net_ixgbe,
	 * net_igc, net_txgbe, net_ngbe, net_cn9k, net_cn10k; net_ring is one by itself); others are
	 * judged while they run. Takes some 100 ms, and starts the device once more.
	 */
	uint64_t selftest;
	/**
	 * [0] 1: other processes have the same addresses and the same MAC, and another program owns
	 * the device, answers for the addresses and hands over the segments of this process
	 * (weft/shared_port.h). One worker alone has such a port.
	 */
	uint64_t shared;
};

/**
 * Create the device if it does not exist, configure it and start it. -ENODEV (cannot be opened, or
 * its filter refuses a VLAN), -EINVAL (attr, also an address that occurs twice, a gateway that is
 * not on-link, networks that overlap on several VLANs; an argument of dev without a value, or more
 * arguments than DPDK reads), -ENOMEM, -EEXIST (name), -EMSGSIZE (net_memif: its bsize holds no
 * frame of mtu_bytes; without bsize the buffers are as long as needed). A net_memif client waits up
 * to 3 s for its server.
 */
int weft_port_open(struct weft_ctx *ctx, const struct weft_port_attr *attr, struct weft_port **out);

struct weft_port_stats {
	uint64_t rx_packets, rx_bytes, tx_packets, tx_bytes;
	uint64_t rx_bad;     /**< malformed, at any layer up to the checksum of TCP */
	uint64_t rx_dropped; /**< not for this host, or no memory */
	uint64_t tx_dropped;
	uint64_t rx_missed; /**< missed packets, as the port counts them */
	/** segments that one worker passed to the worker that owns their connection */
	uint64_t handed_over;
	uint64_t handover_dropped; /**< such segments lost because the owner was too slow */
	uint32_t queues;           /**< workers that share the port */
	bool rss;                  /**< the port distributes by RSS */
	bool link_up;
	bool removed; /**< weft_port_removed() */
	uint16_t mtu_bytes;
	uint8_t mac[6];
	int numa_node;
	uint32_t offloads; /**< WEFT_OFFLOAD_* in use by all workers that share the port */
	/** of those that were in use: switched off by at least one worker, or by the self-test,
	 * because the device does them incorrectly */
	uint32_t offloads_failed;
	uint32_t selftest_frames; /**< that came back in the self-test; 0: there was none */
	uint32_t selftest_wrong;  /**< incorrect ones among them, or lost by an offload */
	uint32_t speed_mbps;      /**< of the link; 0: none, or unknown */
	bool full_duplex;
	/** flow control by pause frames (IEEE 802.3 annex 31B): 1 on, 0 off, -1 the port does not
	 * say */
	int pause_rx, pause_tx;
	/** times that the link came up, the first included, and went down, as the workers saw it */
	uint64_t link_ups, link_downs;
	/** whether a link that was lost can come back by itself; false for net_memif, whose driver
	 * never connects again */
	bool link_returns;
	/** of a bonded port its slaves, "net_af_packet0 active, net_af_packet1 backup"; else empty
	 */
	char slaves[256];
};

/** Any thread. -EINVAL. */
int weft_port_stats(struct weft_port *port, struct weft_port_stats *st);

/** An address of a port. The structure has no `size`, as weft_worker_stats. */
struct weft_network_info {
	struct sockaddr_storage addr;    /**< the port is 0; link-local: with its scope */
	struct sockaddr_storage gateway; /**< ss_family 0: none of its own */
	uint16_t vlan_id;                /**< 0: untagged */
	uint8_t prefix_len;
	bool tentative; /**< IPv6: Duplicate Address Detection is not complete (RFC 4862 s5.4) */
	bool duplicate; /**< IPv6: another station has the address, so it is not used */
};
/**
 * Get the i-th address of a port: addr, addr6, those of `networks`, then a link-local one for each
 * VLAN. Any thread. -ENOENT: there are fewer, or no worker has the port yet. -EINVAL.
 */
int weft_port_network(struct weft_port *port, unsigned int i, struct weft_network_info *info);
/**
 * Whether the port's device was removed: unplugged, or asked for by the kernel. Its connections end
 * at once (WEFT_EV_DISCONNECTED or WEFT_EV_CONNECT_ERROR with -ENODEV), connections of other ports
 * and listeners stay, and the device is given back to the kernel. The port does not return to life:
 * a device that is plugged in again is opened by a new start of the program. Any thread.
 */
bool weft_port_removed(const struct weft_port *port);
const char *weft_port_name(const struct weft_port *port);
struct weft_port *weft_port_get(struct weft_ctx *ctx, unsigned int i);

/* ---- Workers ---- */

struct weft_worker_attr {
	size_t size; /**< sizeof(struct weft_worker_attr) */
	const char *name;
	/**
	 * Where weft_worker_start() runs the worker: EAL's lcore of this number; if there is none,
	 * a thread on this CPU; -1: a new thread, not pinned.
	 */
	int lcore;
	bool spin;             /**< do not sleep when idle */
	uint32_t idle_spin_us; /**< [200] idle time before the first pause */
	/**
	 * [8000] Longest sleep when idle, while a port has no receive interrupt that ends the
	 * sleep. The sleep grows with the idle time to a sixteenth of it, so it also bounds what a
	 * packet waits after a long silence.
	 */
	uint32_t idle_sleep_us;
	uint32_t max_conns; /**< [1024] */
	/** [1] helper threads of the worker's executor (for persist drivers that block) */
	uint32_t helpers;
};

/** Create a worker. attr may be NULL. -EINVAL, -ENOMEM, -ENOSPC (max_workers). */
int weft_worker_create(struct weft_ctx *ctx, const struct weft_worker_attr *attr,
                       struct weft_worker **out);
/**
 * Give the worker a queue of a port, before the worker's first poll. The first worker gets queue 0.
 * -EBUSY: all queues are taken, or the worker has one of this port, or it has polled. -EINVAL: the
 * port is of another context. -ENODEV: weft_port_removed(). -ENOMEM.
 */
int weft_worker_add_port(struct weft_worker *w, struct weft_port *port);

/**
 * One iteration of the loop: receive, complete, call back, work, transmit. Returns how much was
 * done; 0: idle. -EBUSY: another thread is in this function for this worker; nothing was done, and
 * the first time is logged. This check finds the mistake but does not make it harmless: two threads
 * that enter within a few nanoseconds are not noticed. -EINVAL: NULL, or the context is destroyed.
 */
int weft_worker_poll(struct weft_worker *w);
/**
 * Poll until weft_worker_stop(), on the calling thread; sleep when idle. Returns 0, or -EBUSY or
 * -EINVAL of weft_worker_poll().
 */
int weft_worker_run(struct weft_worker *w);
/**
 * Run weft_worker_run() on attr.lcore or on a new thread. -EALREADY (it is started), -EINVAL, and
 * the errors of starting a thread.
 */
int weft_worker_start(struct weft_worker *w);
/**
 * Make weft_worker_run() return, and wait for a worker that weft_worker_start() started.
 * weft_worker_stop_async() does not wait and is safe in a signal handler.
 */
void weft_worker_stop(struct weft_worker *w);
void weft_worker_stop_async(struct weft_worker *w);
/**
 * Stop being the polling thread, so that another thread may poll the worker. Does nothing on any
 * other thread. A thread that ends is detached.
 */
void weft_worker_detach(struct weft_worker *w);
/** Whether the calling thread is the one that polls w. */
bool weft_worker_is_mine(const struct weft_worker *w);
/**
 * Run fn(arg) on the worker in its next poll; at once if the calling thread polls it. -EAGAIN: too
 * many calls are waiting. -EINVAL, -ENOMEM.
 */
int weft_worker_call(struct weft_worker *w, void (*fn)(void *arg), void *arg);
/**
 * Change settings of the worker's TCP while it runs. change is copied, and applies from the
 * worker's next poll on; at once if the calling thread polls it. Any thread. -EINVAL: no worker, no
 * change, or an unknown value of cc; -EAGAIN: too many calls are waiting; -ENOMEM.
 */
int weft_worker_set_tcp(struct weft_worker *w, const struct weft_tcp_change *change);
/**
 * Sleep until there is something to do (a timer, a call, a post, a finished job), at most
 * timeout_us. A packet does not end the sleep, so timeout_us bounds its delay. For programs with a
 * loop of their own, on the polling thread. Does nothing while another thread is in
 * weft_worker_poll() for this worker.
 */
void weft_worker_idle(struct weft_worker *w, uint32_t timeout_us);
/**
 * Sleep as weft_worker_run() does when the worker has been idle for idle_us: until there is
 * something to do, or a packet comes on a port whose receive interrupt is known to end a sleep;
 * else, where a port has none, for a sixteenth of idle_us, at most weft_worker_attr.idle_sleep_us.
 * weft_worker_call() of another thread ends the sleep. For programs with a loop of their own, on
 * the polling thread. May poll the worker. Returns what that poll did, as weft_worker_poll(); 0
 * without one. -EBUSY: another thread is in weft_worker_poll(). -EINVAL: no worker.
 */
int weft_worker_sleep(struct weft_worker *w, uint64_t idle_us);
struct weft_exec;
/**
 * The worker's executor, for calls of a persist driver's flush() or read_back() by the program
 * (weft/persist.h). On the worker.
 */
struct weft_exec *weft_worker_exec(struct weft_worker *w);
/** The worker's clock in this poll; monotonic. */
uint64_t weft_worker_now_ns(const struct weft_worker *w);
/**
 * Fill buf with unpredictable octets (in a simulation: seeded ones), on the worker. For set-up,
 * because it may be a system call.
 */
void weft_worker_random(struct weft_worker *w, void *buf, size_t len_bytes);

/**
 * Counters of a worker. The structure has no `size`, so it gets new members only with a new minor
 * release, which has an ABI of its own (CONTRIBUTING.md).
 */
struct weft_worker_stats {
	uint64_t polls, busy_polls;
	uint64_t busy_cycles; /**< TSC cycles of polls that had something to do */
	uint64_t poll_max_ns; /**< longest poll */
	uint64_t conns, conns_total;
	uint64_t mpa_fallbacks; /**< connections tried a second time, in MPA revision 1 */
	uint64_t segs_in, segs_out, retrans_segs, rtos;
	uint64_t fpdus_in, fpdus_out, crc_errors, marker_errors;
	uint64_t msgs_in, msgs_out, terminates_in, terminates_out;
	uint64_t wcs, cq_overruns;
	/** connections reset because a listener's backlog was full */
	uint64_t requests_refused;
	/** connections reset by weft_listen_attr.max_requests_per_peer, max_conns_per_peer */
	uint64_t requests_refused_peer, conns_refused_peer;
	/** failures that WEFT_EV_BAD_RANGE reports, mostly Flushes and Verifies of peers */
	uint64_t bad_ranges;
	/** revocations by weft_mr_revoke() on this worker, and how they ended */
	uint64_t revocations;
	uint64_t revocations_reduced, revocations_invalidated, revocations_failed;
	/** requests of peers refused because of a revocation: each a Terminate */
	uint64_t refused_after_revoke;
	/**
	 * idle connections reset for later ones: they had sent nothing, or stopped during their
	 * start-up
	 */
	uint64_t requests_evicted;
	/**
	 * connections ended because an FPDU was not complete in time
	 * (weft_mpa_policy.fpdu_timeout_us)
	 */
	uint64_t fpdu_timeouts;
	/**
	 * connections ended because others needed the memory of their incomplete FPDU; the one that
	 * was silent for the longest time first
	 */
	uint64_t fpdus_shed;
	/** times that octets of an incomplete FPDU were copied to the heap */
	uint64_t fpdus_moved;
	/** heap octets now in use for incomplete FPDUs, beyond the share of each connection */
	uint64_t fpdu_heap_bytes;
	/**
	 * connection requests ended because the peer sent too much before the Reply, or no buffers
	 * were left for it
	 */
	uint64_t early_refused;
	/**
	 * MPA start-ups that failed, at either end: malformed, of another revision, too late, with
	 * too many octets before the Reply, or closed by the peer before they were complete
	 */
	uint64_t bad_startup;
	/** accepted connections reset for new ones (weft_listen_attr.push_out) */
	uint64_t conns_pushed_out;
	/** flushes and read-backs of a medium that waited for others of the same peer */
	uint64_t medium_waits;
	/** FPDUs handed up behind a gap, to be placed early (weft_mpa_policy.place_ahead) */
	uint64_t fpdus_ahead;
	/** connections of weft_qp_leave() that are closing now; all that began to */
	uint64_t left_now, left_total;
	/** those reset because the peer had not closed in time (wait_us), or was gone */
	uint64_t left_timeouts;
	/** those reset for new QPs or connections */
	uint64_t left_cut;
};

void weft_worker_stats(struct weft_worker *w, struct weft_worker_stats *st);
struct weft_worker *weft_worker_get(struct weft_ctx *ctx, unsigned int i);

/* ---- Durations of poll loop iterations ---- */

/**
 * Buckets for up to 2^43 TSC cycles, eight for each power of two. So no bucket is wider than an
 * eighth of its lower bound.
 */
#define WEFT_POLL_HIST_BUCKETS 328

/**
 * Durations of the iterations that had something to do, from the reading of the clock at the start
 * of weft_worker_poll() to its return. This is wall time by the TSC, so it contains what the kernel
 * or a hypervisor did with the core meanwhile. Always counted, at the cost of one increment an
 * iteration. weft_worker_stats.polls minus busy_polls iterations had nothing to do.
 */
struct weft_poll_hist {
	size_t size;    /**< sizeof(struct weft_poll_hist), set by the caller */
	uint64_t polls; /**< in all buckets */
	uint64_t sum_ns;
	/**
	 * Exact. After weft_poll_hist_since(), if the exact value is unknown, the upper bound of
	 * the longest one's bucket.
	 */
	uint64_t max_ns;
	struct {
		/** the bucket's upper bound: its iterations are shorter than this */
		uint64_t below_ns;
		uint64_t polls;
	} bucket[WEFT_POLL_HIST_BUCKETS];
};

/**
 * Copy the histogram to h. Any thread; the worker may count meanwhile. -EINVAL: size. About 5 KiB:
 * not for a small stack.
 */
int weft_worker_poll_hist(struct weft_worker *w, struct weft_poll_hist *h);
/** Subtract an earlier histogram, so that h holds the time between the two. */
void weft_poll_hist_since(struct weft_poll_hist *h, const struct weft_poll_hist *from);
/**
 * The duration that pct percent of the iterations do not reach, rounded up to the end of a bucket.
 * 0 without iterations.
 */
uint64_t weft_poll_hist_pct_ns(const struct weft_poll_hist *h, double pct);

/* ---- Timers for callers ---- */

struct weft_alarm;
/**
 * Call fn(arg) on the worker once, after delay_us. -EPERM: another thread polls the worker. -EINVAL
 * (no worker, no fn), -ENOMEM.
 */
int weft_alarm_set(struct weft_worker *w, uint64_t delay_us, void (*fn)(void *arg), void *arg,
                   struct weft_alarm **out);
/**
 * Cancel an alarm, on the worker's thread. If another thread polls the worker, nothing is done but
 * a log line. Nothing is done for an alarm that has run or was cancelled, if it is among the last
 * 64 of these.
 */
void weft_alarm_cancel(struct weft_alarm *a);

/* ---- Other work of a worker ---- */

#define WEFT_POLLERS_MAX 8 /**< of one worker */

/**
 * What a worker polls beside its ports, for example the channels of block devices. The owner embeds
 * it, and keeps it until weft_poller_remove() or the end of the context.
 */
struct weft_poller {
	/**
	 * In each weft_worker_poll(), before the callbacks of completion queues. Never blocks. A
	 * weft_worker_poll() inside it polls no poller. now_ns: the worker's clock. Returns how
	 * much was done; 0: idle.
	 */
	unsigned int (*poll)(void *arg, uint64_t now_ns);
	/**
	 * Before the worker sleeps: the time of the worker's clock at which poll() has to be called
	 * again even if `fd` is not readable. 0: at once; UINT64_MAX: never. Adds and removes no
	 * poller.
	 */
	uint64_t (*next_ns)(void *arg);
	/**
	 * A descriptor that ends the worker's sleep when it is readable; poll() makes it
	 * unreadable. -1: none.
	 */
	int fd;
	void *arg;
	struct weft_worker *worker; /**< for weft; NULL: it is not added */
};

/**
 * Add a poller. On the worker's thread, or while the worker is not polled. -EINVAL: no worker, no
 * poller, no function; -EALREADY: it is added; -ENOSPC: WEFT_POLLERS_MAX; -EPERM: another thread
 * polls the worker.
 */
int weft_poller_add(struct weft_worker *w, struct weft_poller *p);
/**
 * Remove it, on the same thread; while another thread polls the worker, nothing is done but a log
 * line. Also inside poll(), its own or another poller's: poll() is not called again. Does nothing
 * for NULL and for one that is not added. The end of the context removes every poller.
 */
void weft_poller_remove(struct weft_poller *p);

WEFT_API_END

#endif /* WEFT_WORKER_H */
