/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Makes a running stack from a configuration. */

#include "stack.h"
#include "ui.h"

#include <weft/device.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* `bound`: the name as the server gave it. A relative name belongs to an unknown folder. */
static bool
stack_same_socket(const char *bound, const char *path)
{
	const char *base = strrchr(path, '/'), *bound_base = strrchr(bound, '/');
	struct stat a, b;

	if (*bound == '@')
		return false;
	if (strcmp(bound, path) == 0)
		return true;
	if (*bound != '/')
		return strcmp(bound_base != NULL ? bound_base + 1 : bound,
		              base != NULL ? base + 1 : path) == 0;
	return stat(bound, &a) == 0 && stat(path, &b) == 0 && a.st_dev == b.st_dev &&
	       a.st_ino == b.st_ino;
}

/* Whether a process listens on a Unix socket, by the kernel's table. Connecting is no way to
 * find out: a running memif server would take that for a failed client. */
static bool
stack_socket_listens(const char *path, bool abstract)
{
	enum { UNIX_LISTENING = 0x00010000 }; /* __SO_ACCEPTCON */
	FILE *f = fopen("/proc/net/unix", "re");
	char line[512];
	bool found = false;

	/* Without the table the answer is unknown, so that no file is removed. */
	if (f == NULL)
		return true;
	while (!found && fgets(line, sizeof(line), f) != NULL) {
		unsigned int flags;
		int at = 0;
		char *name;

		if (sscanf(line, "%*[^:]: %*x %*x %x %*x %*x %*u %n", &flags, &at) < 1 || at == 0)
			continue;
		name = line + at;
		name[strcspn(name, "\n")] = '\0';
		if (flags & UNIX_LISTENING)
			found = abstract ? *name == '@' && strcmp(name + 1, path) == 0
			                 : stack_same_socket(name, path);
	}
	fclose(f);
	return found;
}

/* Whether this process may open the sockets that net_af_packet and net_af_xdp need. */
static bool
stack_raw_sockets(void)
{
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);

	if (fd >= 0)
		close(fd);
	return fd >= 0 || errno != EPERM;
}

/* net_memif reports only that it failed; these are the usual reasons. */
static const char *
stack_device_why(const char *dev, bool serves, bool taken)
{
	char role[16] = "", path[CONF_PATH_MAX];
	bool abstract;

	if (!conf_dev_known(dev))
		return "no such device, or it cannot be opened";
	if (strncmp(dev, "net_af_", 7) == 0 && !stack_raw_sockets())
		return "cannot be opened: raw sockets need CAP_NET_RAW";
	if (strncmp(dev, "net_memif", 9) != 0)
		return "cannot be opened: its driver is not installed, or refuses (log_level = "
		       "pmd.net.*:debug shows why)";
	if (taken)
		return "cannot be opened: another process serves that socket";
	(void)conf_dev_arg(dev, "role", role, sizeof(role));
	if (strcmp(role, "server") != 0 &&
	    conf_memif_socket(dev, path, sizeof(path), &abstract) == 0 &&
	    stack_socket_listens(path, abstract))
		return "cannot be opened: its server is there, but takes no client now (it has "
		       "another one, or is just starting); end the other client, or give each a "
		       "socket of its own";
	if (strcmp(role, "server") != 0 && serves)
		return "cannot be opened: role=client, and no server listens at its socket; a "
		       "target is role=server as a rule";
	if (strcmp(role, "server") != 0)
		return "cannot be opened: no target listening (a net_memif client needs its "
		       "server)";
	if (conf_memif_socket(dev, path, sizeof(path), &abstract) == 0 && !abstract &&
	    access(path, F_OK) == 0)
		return "cannot be opened: its socket exists and is not one that a dead server left "
		       "behind";
	return "cannot be opened (its arguments, or the folder of its socket)";
}

/* A PCI device that was free when EAL started, and has no port all the same. */
static const char *
stack_pci_why(const struct conf *c, const char *dev)
{
	static char why[CONF_ERR_MAX / 2];
	const struct weft_device_need need = {.size = sizeof(need),
	                                      .memory_mb = c->weft.memory_mb,
	                                      .hugepages = weft_env_huge(),
	                                      .take_needed = true};
	int rc = weft_device_check(dev, &need, why, sizeof(why));

	if (rc == 0 || rc == -EBUSY) /* our own EAL may have it open */
		return "no driver of DPDK takes this device (log_level = *:debug shows why)";
	return why;
}

/** What an mbuf takes beside the packet: headers, headroom, records. The least room of packets. */
#define STACK_MBUF_EXTRA 512u
#define STACK_MBUF_MIN   2048u

static const char *
stack_memory_why(const struct conf *c, const struct conf_port *p)
{
	static char why[CONF_ERR_MAX / 2];
	uint32_t room = p->mtu_bytes;
	uint64_t mib;
	char bsize[16];

	if (strncmp(p->dev, "net_memif", 9) == 0 &&
	    conf_dev_arg(p->dev, "bsize", bsize, sizeof(bsize)) == 0 &&
	    strtoul(bsize, NULL, 10) > room)
		room = (uint32_t)strtoul(bsize, NULL, 10);
	mib = (room > STACK_MBUF_MIN ? room : STACK_MBUF_MIN) + STACK_MBUF_EXTRA;
	mib = (p->mbufs * mib >> 20) + 1;
	snprintf(why, sizeof(why),
	         "not enough memory: %" PRIu32 " mbufs for packets of %" PRIu32
	         " octets take %" PRIu64 " MiB; raise memory_mb (%" PRIu32 "), or lower mbufs",
	         p->mbufs, room, mib, c->weft.memory_mb);
	return why;
}

static const char *
stack_port_why(const struct conf *c, int rc, const struct conf_port *p, bool serves, bool taken)
{
	const char *dev = p->dev;

	if (weft_device_is_pci(dev) && (rc == -ENODEV || rc == -EIO))
		return stack_pci_why(c, dev);
	switch (rc) {
	case -ENODEV:
	case -ECONNREFUSED:
	case -ENOENT:
	case -EIO:
		return stack_device_why(dev, serves, taken);
	case -ENOMEM:
		return stack_memory_why(c, p);
	case -EMSGSIZE:
		return "its bsize holds no frame of its mtu; leave bsize out, or lower mtu";
	case -EINVAL:
		if (strstr(dev, "zero-copy=yes") != NULL)
			return "with zero-copy=yes rsize is 6 at least, and the rings of all "
			       "queues hold at most half of mbufs; leave rsize out";
		return "its device, mtu or mbufs are not valid";
	case -EEXIST:
		return "its name is taken";
	default:
		return strerror(-rc);
	}
}

/*
 * Before a memif server is opened: true when another process serves its socket. A server that was
 * killed leaves its socket file, and its successor could not bind; such a file is removed.
 */
static bool
stack_socket_taken(const char *dev)
{
	char path[CONF_PATH_MAX], role[16];
	struct stat st;
	bool abstract;

	if (strncmp(dev, "net_memif", 9) != 0 ||
	    conf_dev_arg(dev, "role", role, sizeof(role)) != 0 || strcmp(role, "server") != 0 ||
	    conf_memif_socket(dev, path, sizeof(path), &abstract) != 0)
		return false;
	if (stack_socket_listens(path, abstract))
		return true;
	if (!abstract && lstat(path, &st) == 0 && S_ISSOCK(st.st_mode))
		(void)unlink(path);
	return false;
}

uint32_t
stack_sharers(const struct conf *c, uint32_t n, const char *port)
{
	uint32_t sharers = 0;

	for (uint32_t i = 0; i < n; i++)
		for (uint32_t k = 0; k < c->workers[i].nports; k++)
			sharers += strcmp(c->workers[i].ports[k], port) == 0;
	return sharers;
}

/** The networks of sections [network NAME]; returns how many. */
static uint32_t
stack_networks(const struct conf_port *p, struct weft_network_attr nets[WEFT_MAX_NETWORKS])
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < p->nnets; i++)
		if (p->nets[i].network >= 0)
			nets[n++] = (struct weft_network_attr){
			        .size = sizeof(nets[0]),
			        .addr = p->nets[i].addr,
			        .gateway = p->nets[i].gateway,
			        .vlan_id = (uint16_t)p->nets[i].vlan_id,
			        .prefix_len = (uint8_t)p->nets[i].prefix_len,
			};
	return n;
}

/** Says that a port carries less than the configuration wants: peers that believe in its MTU would
 * lose packets. */
static void
stack_tell_mtu(const struct conf_port *p, struct weft_port *port, const struct stack_opt *opt)
{
	struct weft_port_stats st;
	char dev[CONF_PATH_MAX];

	if (!opt->check && weft_port_stats(port, &st) == 0 && st.mtu_bytes < p->mtu_bytes)
		ui_msg(UI_WARNING
		       "port %s (%s) has no MTU of %u, only %u: set `mtu = %u` in [port %s], here "
		       "and at its peers, or a larger one at the device",
		       p->name, weft_device_clean(p->dev, dev, sizeof(dev)), p->mtu_bytes,
		       st.mtu_bytes, st.mtu_bytes, p->name);
}

static int
stack_open_ports(const struct conf *c, uint32_t nworkers, const struct stack_opt *opt,
                 struct stack *s, char *err, size_t err_size)
{
	for (uint32_t i = 0; i < c->nports; i++) {
		const struct conf_port *p = &c->ports[i];
		struct weft_network_attr nets[WEFT_MAX_NETWORKS];
		const struct weft_port_attr attr = {
		        .size = sizeof(attr),
		        .name = p->name,
		        .dev = p->dev,
		        .addr = p->net.addr,
		        .prefix_len = (uint8_t)p->net.prefix_len,
		        .gateway = p->net.gateway,
		        .addr6 = p->net.addr6,
		        .prefix6_len = (uint8_t)p->net.prefix6_len,
		        .gateway6 = p->net.gateway6,
		        .vlan_id = (uint16_t)p->net.vlan_id,
		        .networks = nets,
		        .nnetworks = stack_networks(p, nets),
		        .mtu_bytes = (uint16_t)p->mtu_bytes,
		        .mbufs = p->mbufs,
		        .no_offloads = p->no_offloads,
		        .selftest = p->selftest,
		        .shared = p->shared,
		        .dscp = p->dscp,
		        .queues = stack_sharers(c, nworkers, p->name),
		        .check = opt->check,
		};
		bool taken = !opt->check && stack_socket_taken(p->dev);
		int rc = taken ? -ENODEV : weft_port_open(s->ctx, &attr, &s->ports[i]);

		if (rc != 0) {
			char dev[CONF_PATH_MAX];

			snprintf(err, err_size, "port %s (%s): %s", p->name,
			         weft_device_clean(p->dev, dev, sizeof(dev)),
			         stack_port_why(c, rc, p, opt->serves, taken));
			return rc;
		}
		s->nports++;
		stack_tell_mtu(p, s->ports[i], opt);
	}
	return 0;
}

#define STACK_LINK_WAIT_MS 10000
#define STACK_LINK_STEP_MS 50

/** Whether a link comes by itself: that of a port in shared memory comes with its peer, and the
 * partners of LACP agree once the workers run. */
static bool
stack_link_comes(const char *dev)
{
	char mode[8] = "";

	(void)conf_dev_arg(dev, "mode", mode, sizeof(mode));
	return strcmp(mode, "4") != 0 && strncmp(dev, "net_memif", 9) != 0 &&
	       strncmp(dev, "net_vhost", 9) != 0 && strncmp(dev, "eth_vhost", 9) != 0;
}

/** Ports whose link is awaited, and has not come; *first: the first of them. */
static uint32_t
stack_links_missing(const struct conf *c, const struct stack *s, const char **first)
{
	struct weft_port_stats st;
	uint32_t n = 0;

	for (uint32_t i = 0; i < s->nports; i++)
		if (stack_link_comes(c->ports[i].dev) && weft_port_stats(s->ports[i], &st) == 0 &&
		    !st.link_up && !st.removed && n++ == 0)
			*first = c->ports[i].name;
	return n;
}

/*
 * A link takes a second or more to come up, and a program that begins before loses its first
 * packets. Without a link it begins all the same: a cable may be plugged in later.
 */
static void
stack_await_links(const struct conf *c, const struct stack_opt *opt, const struct stack *s)
{
	const bool tty = !opt->quiet && isatty(STDERR_FILENO);
	const char *port = "";
	uint32_t missing = 0, ms = 0;

	for (; ms < STACK_LINK_WAIT_MS; ms += STACK_LINK_STEP_MS) {
		missing = stack_links_missing(c, s, &port);
		if (missing == 0)
			break;
		if (tty && ms >= 500)
			fprintf(stderr, "\r%s: waiting for the link of port %s ... %u s\033[K",
			        opt->progname, port, ms / 1000);
		usleep(STACK_LINK_STEP_MS * 1000);
	}
	if (tty && ms >= 500)
		fprintf(stderr, "\r\033[K");
	if (missing != 0 && !opt->quiet)
		ui_msg(UI_ERR "port %s has no link yet", port);
}

static int
stack_make_workers(const struct conf *c, uint32_t nworkers, struct stack *s, char *err,
                   size_t err_size)
{
	for (uint32_t i = 0; i < nworkers; i++) {
		const struct conf_worker *cw = &c->workers[i];
		const struct weft_worker_attr attr = {
		        .size = sizeof(attr),
		        .name = cw->name,
		        .lcore = cw->lcore,
		        .spin = cw->spin,
		        .helpers = cw->helpers,
		        .idle_sleep_us = cw->idle_sleep_us,
		};
		int rc = weft_worker_create(s->ctx, &attr, &s->workers[i]);

		if (rc != 0) {
			snprintf(err, err_size, "worker %s: %s", cw->name, strerror(-rc));
			return rc;
		}
		s->nworkers++;
		for (uint32_t n = 0; n < cw->nports; n++)
			for (uint32_t p = 0; p < c->nports; p++) {
				if (strcmp(c->ports[p].name, cw->ports[n]) != 0)
					continue;
				rc = weft_worker_add_port(s->workers[i], s->ports[p]);
				if (rc != 0) {
					snprintf(err, err_size,
					         "worker %s: cannot take port %s: %s", cw->name,
					         c->ports[p].name, strerror(-rc));
					return rc;
				}
			}
	}
	return 0;
}

/*
 * Unless the user asks for logs, the layers are silent during the start, and err has their reason
 * in one line. For drivers that are loaded later the first matching pattern applies, so there is no
 * catch-all.
 */
static const char *const stack_log_starting[] = {"--log-level=weft.*:critical",
                                                 "--log-level=lib.eal:critical",
                                                 "--log-level=pmd.*:critical"};
#define NLOGS (sizeof(stack_log_starting) / sizeof(stack_log_starting[0]))
/** Words of `eal` in [weft], which has CONF_EAL_MAX octets. */
#define STACK_EAL_ARGS_MAX (CONF_EAL_MAX / 2)

/** Start EAL with what the configuration says of it, and the devices of all ports. */
static int
stack_env(const struct conf *c, const struct stack_opt *opt, const char **msg)
{
	const char *devices[CONF_PORTS_MAX + 1] = {NULL};
	const char *extra[STACK_EAL_ARGS_MAX + NLOGS + 1] = {NULL};
	struct weft_env_attr env = {
	        .size = sizeof(env),
	        .progname = opt->progname,
	        .lcores = c->weft.lcores[0] != '\0' ? c->weft.lcores : NULL,
	        .memory_mb = c->weft.memory_mb,
	        .no_huge = c->weft.hugepages == CONF_HUGE_NEVER,
	        .log_level = c->weft.log_level[0] != '\0' ? c->weft.log_level : NULL,
	        .extra = extra,
	        .telemetry = c->weft.telemetry && !opt->check,
	        .devices = devices,
	        .take_needed = c->weft.take_needed,
	};
	char words[sizeof(c->weft.eal)], *save = NULL;
	uint32_t n = 0;

	if (c->weft.log_level[0] == '\0')
		for (; n < NLOGS; n++)
			extra[n] = stack_log_starting[n];
	if (!opt->check) {
		snprintf(words, sizeof(words), "%s", c->weft.eal);
		for (char *w = strtok_r(words, " \t", &save); w != NULL;
		     w = strtok_r(NULL, " \t", &save))
			extra[n++] = w;
		for (uint32_t i = 0; i < c->nports; i++)
			devices[i] = c->ports[i].dev;
	}
	return weft_env_init(&env, msg);
}

/** Whether this program has started EAL, which then holds the devices of a stack that is up. */
static bool stack_env_up;

/**
 * Look at each PCI device before EAL does, and at interfaces that ports take over. Whether
 * hugepages are free only EAL's start knows.
 */
static int
stack_check_devices(const struct conf *c, const struct stack_opt *opt, char *err, size_t err_size)
{
	const struct weft_device_need need = {.size = sizeof(need),
	                                      .memory_mb = c->weft.memory_mb,
	                                      .hugepages = c->weft.hugepages != CONF_HUGE_NEVER,
	                                      .take_needed = c->weft.take_needed};
	char why[CONF_ERR_MAX / 2], dev[CONF_PATH_MAX], shown[CONF_PATH_MAX];

	for (uint32_t i = 0; !opt->check && !stack_env_up && i < c->nports; i++) {
		const struct conf_port *p = &c->ports[i];
		int rc;

		for (unsigned int k = 0; weft_device_member(p->dev, k, dev, sizeof(dev)) == 0;
		     k++) {
			if (!weft_device_is_pci(dev) && strncmp(dev, "net_af_xdp", 10) != 0)
				continue;
			rc = weft_device_check(dev, &need, why, sizeof(why));
			if (rc != 0) {
				snprintf(err, err_size, "port %s (%s): %s", p->name,
				         weft_device_clean(dev, shown, sizeof(shown)), why);
				return rc;
			}
		}
	}
	return 0;
}

int
stack_up(const struct conf *c, const struct stack_opt *opt, struct stack *s, char *err,
         size_t err_size)
{
	const uint32_t nworkers = opt->one_worker && c->nworkers > 0 ? 1 : c->nworkers;
	struct weft_ctx_attr ca = {0};
	struct weft_mpa_policy mpa;
	struct weft_tcp_attr tcp;
	const char *msg = NULL;
	int rc;

	memset(s, 0, sizeof(*s));
	rc = stack_check_devices(c, opt, err, err_size);
	if (rc != 0)
		return rc;
	rc = stack_env(c, opt, &msg);
	if (rc != 0 && rc != -EALREADY) {
		if (msg != NULL)
			snprintf(err, err_size, "%s", msg);
		else
			snprintf(err, err_size, "cannot start: %s (memory_mb = %u)", strerror(-rc),
			         c->weft.memory_mb);
		return rc;
	}
	s->env = rc == 0;
	stack_env_up = true;
	if (opt->ctx != NULL)
		ca = *opt->ctx;
	tcp = c->tcp;
	tcp.size = sizeof(tcp);
	ca.size = sizeof(ca);
	ca.tcp = &tcp;
	mpa = c->mpa;
	mpa.size = sizeof(mpa);
	ca.mpa = &mpa;
	rc = weft_ctx_create(&ca, &s->ctx);
	if (rc != 0)
		snprintf(err, err_size, "cannot start: context: %s", strerror(-rc));
	else
		rc = stack_open_ports(c, nworkers, opt, s, err, err_size);
	if (rc == 0)
		rc = stack_make_workers(c, nworkers, s, err, err_size);
	if (rc == 0 && !opt->check)
		stack_await_links(c, opt, s);
	if (rc != 0)
		stack_down(s);
	else if (!opt->quiet && c->weft.log_level[0] == '\0')
		(void)weft_log_levels("weft.*:notice,lib.eal:error");
	return rc;
}

void
stack_down(struct stack *s)
{
	if (s->ctx != NULL)
		weft_ctx_destroy(s->ctx);
	if (s->env) {
		weft_env_fini();
		stack_env_up = false;
	}
	memset(s, 0, sizeof(*s));
}

bool
stack_cut_off(const struct stack *s)
{
	for (uint32_t i = 0; i < s->nports; i++)
		if (!weft_port_removed(s->ports[i]))
			return false;
	return s->nports > 0;
}

int
stack_start(struct stack *s, char *err, size_t err_size)
{
	for (uint32_t i = 0; i < s->nworkers; i++) {
		int rc = weft_worker_start(s->workers[i]);

		if (rc == 0)
			continue;
		snprintf(err, err_size,
		         "worker %u cannot be started: %s (is its lcore among lcores?)", i,
		         strerror(-rc));
		while (i-- > 0)
			weft_worker_stop(s->workers[i]);
		return rc;
	}
	return 0;
}

void
stack_stop(struct stack *s)
{
	for (uint32_t i = 0; i < s->nworkers; i++)
		weft_worker_stop(s->workers[i]);
}

#define STACK_PARTNER_NS 10000000000ULL
#define STACK_PARTNER_ASK_NS                                                                       \
	100000000ULL /* between two questions to the port, which ask the kernel */

void
stack_await_partner(const struct stack *s, const volatile sig_atomic_t *stop)
{
	const uint64_t end_ns = ui_now_ns() + STACK_PARTNER_NS;
	struct weft_port_stats st;
	uint64_t ask_ns = 0, now_ns;

	while (*stop == 0 && (now_ns = ui_now_ns()) < end_ns) {
		if (now_ns >= ask_ns) {
			if (weft_port_stats(s->ports[0], &st) != 0 || st.link_up ||
			    st.slaves[0] == '\0')
				return;
			ask_ns = now_ns + STACK_PARTNER_ASK_NS;
		}
		if (weft_worker_poll(s->workers[0]) == 0)
			weft_worker_idle(s->workers[0], 1000);
	}
}

void
stack_release(struct weft_worker *w, struct weft_cq *cq, struct weft_evq *evq, struct weft_pd *pd)
{
	/* Regions are freed at a quiescent state. */
	for (int i = 0; i < 64 && w != NULL; i++)
		weft_worker_poll(w);
	if (cq != NULL)
		(void)weft_cq_destroy(cq);
	if (evq != NULL)
		(void)weft_evq_destroy(evq);
	if (pd != NULL)
		(void)weft_pd_dealloc(pd);
}
