/* SPDX-License-Identifier: BSD-3-Clause */
/** @file weft-portd: reads the arguments, makes the parts, and polls. */

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <rte_ethdev.h>

#include "conf.h"
#include "port_args.h"
#include "portd.h"
#include "portd_client.h"
#include "portd_memif.h"
#include "portd_socket.h"
#include "stack.h"
#include "ui.h"
#include "wake_soon.h"
#include "weft_netif_mbuf.h"
#include "weft_netif_port.h"
#include "weft_netif_shared.h"

#define PORTD_MAX_PROCS  32
#define PORTD_MAX_CLAIMS 1024
#define PORTD_MAX_BLOCKS 16
#define PORTD_MTU_MAX    9600
/* Frames of processes on their way: in rings of the device, and PORTD_BURST of each process. */
#define PORTD_MBUFS     8192
#define PORTD_SPIN_NS   200000ULL    /* idle time before the first sleep */
#define PORTD_NAP_NS    10000L       /* between two polls before that, where processors are few */
#define PORTD_MANY_CPUS 4            /* so many for two programs that spin and two daemons */
#define PORTD_RETRY_NS  10000000L    /* until memory is asked for again */
#define PORTD_LOOK_NS   100000000ULL /* between two looks at the addresses */
#define PORTD_SETTLE_NS                                                                            \
	5000000000ULL          /* for Duplicate Address Detection, which lasts a second or two */
#define PORTD_DEAD_US 1000000U /* as time_wait_us, unless the configuration says otherwise */

static volatile sig_atomic_t portd_stop;

static void
on_signal(int sig)
{
	(void)sig;
	portd_stop = 1;
}

static void
usage(void)
{
	printf("usage: weft-portd PORT-OPTIONS [--socket PATH] [--group GROUP] [--json]\n"
	       "                  [--max-processes N] [--max-claims N] [--max-blocks N]\n"
	       "\n"
	       "Own a device, and let several processes share its address. Programs of RDMA run\n"
	       "over it by weft-run --portd PATH.\n"
	       "\n"
	       "Port options (--config, or --dev and --address):\n"
	       "      --config FILE      use the port of a configuration file, which has "
	       "one\n" PORT_ARGS_HELP "Options:\n"
	       "      --socket PATH      control socket [$XDG_RUNTIME_DIR/weft-portd.sock; of\n"
	       "                         root /run/weft/portd.sock]\n"
	       "      --group GROUP      let processes of this group use the socket, too [only\n"
	       "                         the same user and root]; they can do all that this\n"
	       "                         user can, and see each other's traffic\n"
	       "      --max-processes N  processes at once, up to %u [%u]; never more than DPDK\n"
	       "                         has ports for beside the device\n"
	       "      --max-claims N     ports on which a process listens [%u]\n"
	       "      --max-blocks N     blocks of %u dynamic ports of a process, up to %u [%u]\n"
	       "      --json             print the counters as one JSON document at the end\n"
	       "  -q, --quiet            print no notices\n"
	       "  -h, --help             print this text\n"
	       "      --version          print the version\n"
	       "\n"
	       "It serves until SIGINT or SIGTERM.\n"
	       "Exit status: 0 it was asked to end; 1 an error, which one line describes; 2 a\n"
	       "wrong command line.\n",
	       PORTD_PROCS, PORTD_MAX_PROCS, PORTD_MAX_CLAIMS, PORTD_BLOCK_PORTS,
	       WEFT_NETIF_PORT_BLOCKS, PORTD_MAX_BLOCKS);
}

struct args {
	struct port_args port_args;
	struct conf conf;
	const char *socket, *group;
	char path[256];
	uint32_t max_procs; /**< 0: as many as there is room for, up to PORTD_MAX_PROCS */
	uint32_t max_claims, max_blocks;
	bool json, quiet;
};

static void
parse_args(int argc, char **argv, struct args *a)
{
	enum { JSON = 256, SOCKET, GROUP, PROCS, CLAIMS, BLOCKS, VERSION };
	static const struct option opts[] = {
	        PORT_ARGS_OPTIONS,
	        {"socket", required_argument, NULL, SOCKET},
	        {"group", required_argument, NULL, GROUP},
	        {"max-processes", required_argument, NULL, PROCS},
	        {"max-claims", required_argument, NULL, CLAIMS},
	        {"max-blocks", required_argument, NULL, BLOCKS},
	        {"json", no_argument, NULL, JSON},
	        {"quiet", no_argument, NULL, 'q'},
	        {"help", no_argument, NULL, 'h'},
	        {"version", no_argument, NULL, VERSION},
	        {NULL, 0, NULL, 0},
	};
	int o;

	a->max_claims = PORTD_MAX_CLAIMS;
	a->max_blocks = PORTD_MAX_BLOCKS;
	opterr = 0;
	while ((o = getopt_long(argc, argv, "qh", opts, NULL)) != -1) {
		if (port_args_take(&a->port_args, o, optarg))
			continue;
		switch (o) {
		case SOCKET:
			a->socket = optarg;
			break;
		case GROUP:
			a->group = optarg;
			break;
		case PROCS:
			a->max_procs =
			        (uint32_t)ui_arg_u64("--max-processes", optarg, 1, PORTD_PROCS);
			break;
		case CLAIMS:
			a->max_claims = (uint32_t)ui_arg_u64("--max-claims", optarg, 1, 65535);
			break;
		case BLOCKS:
			a->max_blocks = (uint32_t)ui_arg_u64("--max-blocks", optarg, 1,
			                                     WEFT_NETIF_PORT_BLOCKS);
			break;
		case JSON:
			a->json = true;
			break;
		case 'q':
			a->quiet = true;
			break;
		case 'h':
			usage();
			exit(0);
		case VERSION:
			ui_version();
			exit(0);
		default:
			ui_bad_option(argv, opts);
		}
	}
	if (optind < argc)
		ui_usage_die("'%s': no such argument", argv[optind]);
	port_args_check(&a->port_args);
	if (a->socket == NULL && portd_default_path(a->path, sizeof(a->path)) != 0)
		ui_die("XDG_RUNTIME_DIR is too long; give --socket");
	if (a->socket == NULL)
		a->socket = a->path;
}

/* ---- The parts ---- */

struct daemon {
	struct portd shown;
	struct stack stack;
	struct portd_socket socket;
	struct portd_switch sw;
	struct portd_table *table;
	struct rte_mempool *pool;
	struct portd_memifs *memifs;
	struct portd_memif *memif[PORTD_PROCS];
	struct portd_answer common;
	uint16_t port_id;
	char taken[INET6_ADDRSTRLEN]; /**< the shared address that another station has; else "" */
	pthread_t thread;
	atomic_bool ended; /**< the control thread has nothing more to ask */
};

static int
daemon_attach(void *arg, uint32_t proc, struct portd_answer *a)
{
	struct daemon *d = arg;
	int rc = portd_memif_open(d->memifs, proc, d->pool, &d->memif[proc]);

	if (rc == 0)
		rc = portd_forward_add(d->shown.forward, proc, portd_memif_port_id(d->memif[proc]));
	if (rc != 0) {
		ui_msg(UI_ERR "a process gets no net_memif: %s", strerror(-rc));
		portd_memif_close(d->memif[proc]);
		d->memif[proc] = NULL;
		return -EIO;
	}
	portd_memif_say(d->memif[proc], a);
	return 0;
}

static void
daemon_detach(void *arg, uint32_t proc)
{
	const struct timespec nap = {.tv_nsec = PORTD_RETRY_NS};
	struct daemon *d = arg;

	/* The thread that polls uses the ring until it has been told. */
	while (portd_forward_remove(d->shown.forward, proc) == -ENOMEM)
		(void)nanosleep(&nap, NULL);
	portd_memif_close(d->memif[proc]);
	d->memif[proc] = NULL;
}

static const struct portd_control_ops daemon_ops = {
        .attach = daemon_attach,
        .detach = daemon_detach,
};

static void
net_set(struct portd_net *n, const struct weft_network_info *i,
        const struct sockaddr_storage *gateway)
{
	const bool v6 = i->addr.ss_family == AF_INET6;

	n->prefix_len = i->prefix_len;
	if (v6)
		memcpy(n->addr, &((const struct sockaddr_in6 *)&i->addr)->sin6_addr, 16);
	else
		memcpy(n->addr, &((const struct sockaddr_in *)&i->addr)->sin_addr, 4);
	if (gateway->ss_family == AF_INET6)
		memcpy(n->gateway, &((const struct sockaddr_in6 *)gateway)->sin6_addr, 16);
	else if (gateway->ss_family == AF_INET)
		memcpy(n->gateway, &((const struct sockaddr_in *)gateway)->sin_addr, 4);
}

/** Learn what the device has, for the switch and for processes. */
static void
daemon_learn(struct daemon *d, const struct conf_port *p)
{
	struct weft_port *port = d->stack.ports[0];
	struct portd_answer *a = &d->common;
	struct weft_network_info i;
	struct weft_port_stats st;

	if (weft_port_stats(port, &st) != 0)
		ui_die("the port says nothing of itself");
	memcpy(a->mac, st.mac, sizeof(a->mac));
	memcpy(d->sw.mac, st.mac, sizeof(d->sw.mac));
	a->mtu_bytes = d->sw.mtu_bytes = st.mtu_bytes;
	a->vlan_id = d->sw.vlan_id = (uint16_t)p->net.vlan_id;
	for (unsigned int n = 0; weft_port_network(port, n, &i) == 0; n++) {
		const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&i.addr;

		if (i.vlan_id != d->sw.vlan_id)
			continue;
		if (i.addr.ss_family == AF_INET && !d->sw.has_ipv4) {
			net_set(&a->ipv4, &i, &p->net.gateway);
			memcpy(d->sw.ipv4, a->ipv4.addr, sizeof(d->sw.ipv4));
			d->sw.has_ipv4 = true;
		} else if (i.addr.ss_family == AF_INET6 && d->sw.nipv6 < PORTD_ADDRS6) {
			if (!IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr))
				net_set(&a->ipv6, &i, &p->net.gateway6);
			memcpy(d->sw.ipv6[d->sw.nipv6++], &in6->sin6_addr, 16);
		}
	}
}

/** How many processes may come: each has a port of DPDK. When all other ports are there. 0: none
 * is left. */
static uint32_t
daemon_room(const struct args *a)
{
	const uint16_t used = rte_eth_dev_count_total();
	const uint32_t room = used < RTE_MAX_ETHPORTS ? RTE_MAX_ETHPORTS - used : 0;
	const uint32_t asked = a->max_procs != 0 ? a->max_procs : PORTD_MAX_PROCS;

	if (a->max_procs > room)
		ui_msg(UI_WARNING "--max-processes %u: DPDK has ports for %u", a->max_procs, room);
	return RTE_MIN(asked, room);
}

static void
daemon_check(const struct conf *c)
{
	if (c->nports != 1)
		ui_die("the configuration has %u ports; weft-portd owns one", c->nports);
	if (c->ports[0].nnets > 2 || (c->ports[0].nnets == 2 && c->ports[0].nets[1].network >= 0))
		ui_die("port %s: weft-portd shares one network, of each family one address",
		       c->ports[0].name);
	if (c->ports[0].mtu_bytes > PORTD_MTU_MAX)
		ui_die("port %s: an MTU of %u is too large for weft-portd: up to %u",
		       c->ports[0].name, c->ports[0].mtu_bytes, PORTD_MTU_MAX);
}

static void
daemon_up(struct daemon *d, struct args *a)
{
	const struct stack_opt so = {
	        .progname = "weft-portd", .one_worker = true, .serves = true, .quiet = a->quiet};
	struct conf_port *p = &a->conf.ports[0];
	struct portd_table_attr ta = {.max_claims = a->max_claims,
	                              .max_blocks = a->max_blocks,
	                              .dead_ns = PORTD_DEAD_US * 1000ULL};
	char err[CONF_ERR_MAX], dev[RTE_ETH_NAME_MAX_LEN];
	int rc;

	if (port_args_conf(&a->port_args, &a->conf, err, sizeof(err)) != 0)
		ui_die("%s", err);
	if (a->conf.tcp.time_wait_us != 0)
		ta.dead_ns = a->conf.tcp.time_wait_us * 1000ULL;
	daemon_check(&a->conf);
	/* Frames are passed on as on the wire, with their tags. */
	p->no_offloads |= WEFT_OFFLOAD_VLAN_STRIP | WEFT_OFFLOAD_VLAN_INSERT;
	if (portd_socket_open(a->socket, a->group, &d->socket, err, sizeof(err)) != 0)
		ui_die("%s", err);
	if (stack_up(&a->conf, &so, &d->stack, err, sizeof(err)) != 0) {
		portd_socket_close(&d->socket);
		ui_die("%s", err);
	}
	snprintf(dev, sizeof(dev), "%.*s", (int)strcspn(p->dev, ","), p->dev);
	rc = rte_eth_dev_get_port_by_name(dev, &d->port_id);
	if (rc == 0)
		daemon_learn(d, p);
	if (rc == 0)
		rc = weft_netif_pool_create("weft-portd", PORTD_MBUFS, d->sw.mtu_bytes,
		                            SOCKET_ID_ANY, &d->pool);
	if (rc == 0)
		rc = portd_memifs_create(PORTD_PROCS, d->sw.mtu_bytes, &d->socket, &d->memifs);
	if (rc == 0) {
		d->shown.max_procs = ta.max_procs = daemon_room(a);
		rc = ta.max_procs > 0 ? portd_table_create(&ta, &d->table) : -ENOSPC;
		d->sw.table = d->table;
	}
	if (rc == 0) {
		const struct portd_forward_attr fa = {.sw = &d->sw,
		                                      .worker = d->stack.workers[0],
		                                      .port = d->stack.ports[0],
		                                      .port_id = d->port_id,
		                                      .pool = d->pool};

		rc = portd_forward_create(&fa, &d->shown.forward);
	}
	if (rc == 0) {
		const struct portd_control_attr ca = {.fd = d->socket.file.fd,
		                                      .table = d->table,
		                                      .common = d->common,
		                                      .max_procs = d->shown.max_procs,
		                                      .any_user = a->group != NULL,
		                                      .ops = &daemon_ops,
		                                      .arg = d};

		rc = portd_control_create(&ca, &d->shown.control);
	}
	if (rc != 0) {
		portd_socket_close(&d->socket);
		ui_die("cannot start: %s", strerror(-rc));
	}
	d->shown.max_claims = a->max_claims;
	d->shown.max_blocks = a->max_blocks;
	d->shown.dead_us = ta.dead_ns / 1000;
}

static void
daemon_down(struct daemon *d)
{
	portd_forward_destroy(d->shown.forward);
	portd_control_destroy(d->shown.control);
	portd_memifs_destroy(d->memifs);
	/* The device's rings may have frames of the pool, which ends with EAL. */
	stack_down(&d->stack);
	portd_table_destroy(d->table);
	portd_socket_close(&d->socket);
}

static void *
daemon_thread(void *arg)
{
	struct daemon *d = arg;

	portd_control_run(d->shown.control);
	atomic_store_explicit(&d->ended, true, memory_order_release);
	return NULL;
}

/** Whether processes are told of the address. */
static bool
daemon_shares(const struct daemon *d, const struct weft_network_info *i)
{
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&i->addr;

	return i->addr.ss_family == AF_INET6 && i->vlan_id == d->sw.vlan_id &&
	       !IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr);
}

/** Whether another station has a shared address (RFC 4862 s5.4.5), which is written to d->taken. */
static bool
daemon_is_taken(struct daemon *d)
{
	struct weft_network_info i;

	for (unsigned int n = 0; weft_port_network(d->stack.ports[0], n, &i) == 0; n++)
		if (i.duplicate && daemon_shares(d, &i)) {
			(void)inet_ntop(AF_INET6,
			                &((const struct sockaddr_in6 *)&i.addr)->sin6_addr,
			                d->taken, sizeof(d->taken));
			return true;
		}
	return false;
}

/** Poll while Duplicate Address Detection runs. Without a link it runs when there is one. */
static void
daemon_settle(struct daemon *d)
{
	const uint64_t end_ns = ui_now_ns() + PORTD_SETTLE_NS;
	const struct timespec nap = {.tv_nsec = PORTD_NAP_NS};
	struct weft_network_info i;
	struct weft_port_stats st;
	bool tentative = true;

	while (tentative && portd_stop == 0 && ui_now_ns() < end_ns &&
	       weft_port_stats(d->stack.ports[0], &st) == 0 && st.link_up && !st.removed) {
		tentative = false;
		for (unsigned int n = 0; weft_port_network(d->stack.ports[0], n, &i) == 0; n++)
			tentative |= i.tentative && daemon_shares(d, &i);
		if (weft_worker_poll(d->stack.workers[0]) == 0)
			(void)clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL);
	}
}

/**
 * Poll until the control thread has ended. Programs of RDMA spin, and so may those of the other
 * end: where processors are few, a daemon that spun beside them would wait for a time slice for
 * each frame. One that naps runs as soon as it wakes.
 */
static void
daemon_poll(struct daemon *d, bool few_cpus)
{
	const struct timespec nap = {.tv_nsec = PORTD_NAP_NS};
	struct weft_worker *w = d->stack.workers[0];
	uint64_t busy_ns = ui_now_ns(), looked_ns = busy_ns;
	bool asked = false;

	while (!atomic_load_explicit(&d->ended, memory_order_acquire)) {
		const int n = weft_worker_poll(w);
		const uint64_t now_ns = ui_now_ns();

		if (!asked && (portd_stop != 0 || stack_cut_off(&d->stack))) {
			portd_control_stop(d->shown.control);
			asked = true;
		} else if (!asked && now_ns - looked_ns > PORTD_LOOK_NS) {
			/* Detection runs again each time that the link comes up. */
			looked_ns = now_ns;
			asked = daemon_is_taken(d);
			if (asked)
				portd_control_stop(d->shown.control);
		}
		if (n > 0)
			busy_ns = now_ns;
		else if (now_ns - busy_ns > PORTD_SPIN_NS)
			(void)weft_worker_sleep(w, (now_ns - busy_ns) / 1000);
		else if (few_cpus)
			(void)clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL);
	}
}

static void
catch_signals(void)
{
	struct sigaction sa = {.sa_handler = on_signal};

	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
}

int
main(int argc, char **argv)
{
	static struct args a;
	static struct daemon d;
	cpu_set_t cpus;
	bool removed;
	int rc;

	ui_init("weft-portd");
	parse_args(argc, argv, &a);
	catch_signals();
	(void)sched_getaffinity(0, sizeof(cpus), &cpus);
	daemon_up(&d, &a);
	/* EAL has bound this thread to a processor, which the processes need as well. */
	if (a.conf.weft.lcores[0] == '\0')
		(void)sched_setaffinity(0, sizeof(cpus), &cpus);
	wake_soon();
	if (a.conf.weft.telemetry) {
		rc = portd_show_begin(&d.shown);
		if (rc != 0)
			ui_msg(UI_WARNING "telemetry: %s", strerror(-rc));
		else if (!a.quiet)
			ui_msg("telemetry: dpdk-telemetry.py -f weft-%ld", (long)getpid());
	}
	daemon_settle(&d);
	if (daemon_is_taken(&d))
		portd_control_stop(d.shown.control);
	rc = pthread_create(&d.thread, NULL, daemon_thread, &d);
	if (rc != 0)
		ui_die("no thread: %s", strerror(rc));
	if (!a.quiet && d.taken[0] == '\0')
		ui_msg("ready: %s", a.socket);
	daemon_poll(&d, CPU_COUNT(&cpus) < PORTD_MANY_CPUS);
	pthread_join(d.thread, NULL);
	portd_show_end();
	removed = stack_cut_off(&d.stack);
	if (removed)
		ui_msg(UI_ERR "the device was removed");
	if (d.taken[0] != '\0')
		ui_msg(UI_ERR "another station has %s", d.taken);
	if (a.json)
		portd_show_json(&d.shown);
	daemon_down(&d);
	return removed || d.taken[0] != '\0' ? UI_EXIT_FAIL : 0;
}
