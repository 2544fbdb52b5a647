/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Which interfaces carry default routes and SSH connections. */

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <net/if.h>
#include <net/route.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rte_string_fns.h>

#include "device_file.h"
#include "weft_device_hold.h"

#define HOLD_IFS_MAX     64 /**< interfaces of a device, with those that are built on them */
#define HOLD_PARENTS_MAX 64 /**< processes above this one */
#define HOLD_SSH_PORT    22
#define HOLD_V4_BITS     96 /**< bits of ::ffff:0:0, in front of an IPv4 address */
/* A default route may be cut in two, as VPNs do, or be the whole unicast space of IPv6. */
#define HOLD_DEFAULT4        1
#define HOLD_DEFAULT6        3
#define HOLD_TCP_ESTABLISHED 1

/* Addresses of IPv4 are mapped ones (::ffff:10.0.0.1). */
struct hold_route {
	struct in6_addr dst;
	unsigned int bits;
	char ifname[16];
};

struct hold_session {
	struct in6_addr peer, local;
	char ifname[16]; /**< of a link-local peer's zone; "": none is named */
};

struct hold {
	const struct weft_device_roots *at;
	char ifs[HOLD_IFS_MAX][16];
	unsigned int nifs;
	struct hold_route *routes;
	unsigned int nroutes;
	struct hold_session *sessions;
	unsigned int nsessions;
	bool no_memory; /**< a table is not complete */
};

/** Room for one more element of a table that has `n`. NULL: no memory. */
static void *
hold_grow(struct hold *h, void *table, unsigned int n, size_t element_bytes)
{
	/* The room doubles when the number of elements is a power of two. */
	void *more = (n & (n - 1)) != 0
	                     ? table
	                     : realloc(table, (n == 0 ? 1 : 2 * (size_t)n) * element_bytes);

	h->no_memory |= more == NULL;
	return more;
}

static struct in6_addr
hold_mapped(uint32_t v4)
{
	struct in6_addr a = IN6ADDR_ANY_INIT;

	memset(a.s6_addr + 10, 0xff, 2);
	memcpy(a.s6_addr + 12, &v4, sizeof(v4));
	return a;
}

static bool
hold_has(const struct hold *h, const char *ifname)
{
	for (unsigned int i = 0; i < h->nifs; i++)
		if (strcmp(h->ifs[i], ifname) == 0)
			return true;
	return false;
}

/* ---- Interfaces ---- */

/** The device's interfaces, and all that are built on them, in any depth. */
static void
hold_interfaces(struct hold *h, const char *dev)
{
	unsigned int index;

	weft_device_xdp_iface(dev, h->ifs[0]);
	/* The tables below know no alternative names. */
	index = h->at == &weft_device_kernel && h->ifs[0][0] != '\0' ? if_nametoindex(h->ifs[0])
	                                                             : 0;
	if (index != 0)
		(void)if_indextoname(index, h->ifs[0]);
	h->nifs = h->ifs[0][0] != '\0' ? 1 : weft_device_ifnames(h->at, dev, h->ifs, HOLD_IFS_MAX);
	for (unsigned int i = 0; i < h->nifs; i++) {
		char path[PATH_MAX];
		struct dirent *d;
		DIR *dir;

		snprintf(path, sizeof(path), "%s/class/net/%s", h->at->sys, h->ifs[i]);
		dir = opendir(path);
		while (dir != NULL && (d = readdir(dir)) != NULL)
			if (strncmp(d->d_name, "upper_", 6) == 0 && h->nifs < HOLD_IFS_MAX &&
			    !hold_has(h, d->d_name + 6))
				(void)rte_strscpy(h->ifs[h->nifs++], d->d_name + 6,
				                  sizeof(h->ifs[0]));
		if (dir != NULL)
			closedir(dir);
	}
}

/* ---- Routes ---- */

static void
hold_add_route(struct hold *h, struct in6_addr dst, unsigned int bits, const char *ifname)
{
	struct hold_route *r, *more;

	if (strcmp(ifname, "lo") == 0)
		return;
	more = hold_grow(h, h->routes, h->nroutes, sizeof(*more));
	if (more == NULL)
		return;
	h->routes = more;
	r = &h->routes[h->nroutes++];
	r->dst = dst;
	r->bits = bits;
	(void)rte_strscpy(r->ifname, ifname, sizeof(r->ifname));
}

static FILE *
hold_open(const struct hold *h, const char *name)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/net/%s", h->at->proc, name);
	return fopen(path, "re");
}

/** Thirty-two hexadecimal digits in the order of the wire. */
static bool
hold_hex6(const char *s, struct in6_addr *a)
{
	for (unsigned int i = 0; i < sizeof(a->s6_addr); i++)
		if (sscanf(s + 2 * i, "%2" SCNx8, &a->s6_addr[i]) != 1)
			return false;
	return true;
}

static void
hold_routes(struct hold *h)
{
	char line[512], ifname[16], hex[33];
	unsigned int flags, bits;
	uint32_t dst, mask;
	struct in6_addr a;
	FILE *f = hold_open(h, "route");

	/* The kernel prints an IPv4 address as the number that it is in memory. */
	while (f != NULL && fgets(line, sizeof(line), f) != NULL)
		if (sscanf(line, "%15s %8" SCNx32 " %*8x %x %*d %*d %*d %8" SCNx32, ifname, &dst,
		           &flags, &mask) == 4 &&
		    (flags & RTF_UP) && !(flags & RTF_REJECT))
			hold_add_route(h, hold_mapped(dst),
			               HOLD_V4_BITS + (unsigned int)__builtin_popcount(mask),
			               ifname);
	if (f != NULL)
		fclose(f);
	f = hold_open(h, "ipv6_route");
	while (f != NULL && fgets(line, sizeof(line), f) != NULL)
		if (sscanf(line, "%32s %x %*32s %*x %*32s %*x %*x %*x %x %15s", hex, &bits, &flags,
		           ifname) == 4 &&
		    hold_hex6(hex, &a) && (flags & RTF_UP) && !(flags & RTF_REJECT))
			hold_add_route(h, a, bits, ifname);
	if (f != NULL)
		fclose(f);
}

static bool
hold_is_default(const struct hold_route *r)
{
	return IN6_IS_ADDR_V4MAPPED(&r->dst) ? r->bits <= HOLD_V4_BITS + HOLD_DEFAULT4
	                                     : r->bits <= HOLD_DEFAULT6;
}

static bool
hold_matches(const struct hold_route *r, const struct in6_addr *a)
{
	unsigned int octets = r->bits / 8, rest = r->bits % 8;

	if (IN6_IS_ADDR_V4MAPPED(&r->dst) != IN6_IS_ADDR_V4MAPPED(a))
		return false;
	return memcmp(r->dst.s6_addr, a->s6_addr, octets) == 0 &&
	       (rest == 0 || ((r->dst.s6_addr[octets] ^ a->s6_addr[octets]) >> (8 - rest)) == 0);
}

/** Whether one of the best routes to an address leads through the device; ifname: which. */
static bool
hold_routed(const struct hold *h, const struct in6_addr *a, char ifname[16])
{
	unsigned int best = 0;

	for (unsigned int i = 0; i < h->nroutes; i++)
		if (hold_matches(&h->routes[i], a) && h->routes[i].bits > best)
			best = h->routes[i].bits;
	for (unsigned int i = 0; i < h->nroutes; i++)
		if (hold_matches(&h->routes[i], a) && h->routes[i].bits == best &&
		    hold_has(h, h->routes[i].ifname)) {
			(void)rte_strscpy(ifname, h->routes[i].ifname, 16);
			return true;
		}
	return false;
}

/* ---- SSH connections ---- */

static bool
hold_is_loopback(const struct in6_addr *a)
{
	return IN6_IS_ADDR_LOOPBACK(a) || (IN6_IS_ADDR_V4MAPPED(a) && a->s6_addr[12] == 127);
}

static void
hold_add_session(struct hold *h, const struct hold_session *s)
{
	struct hold_session *more;

	if (hold_is_loopback(&s->peer))
		return;
	more = hold_grow(h, h->sessions, h->nsessions, sizeof(*more));
	if (more == NULL)
		return;
	h->sessions = more;
	h->sessions[h->nsessions++] = *s;
}

/** "10.0.0.1" or "fe80::1%eth0"; the part behind % goes to ifname. */
static bool
hold_parse(const char *text, size_t len, struct in6_addr *a, char ifname[16])
{
	char addr[INET6_ADDRSTRLEN + 17], *zone;
	struct in_addr v4;

	snprintf(addr, sizeof(addr), "%.*s", (int)len, text);
	zone = strchr(addr, '%');
	if (zone != NULL) {
		(void)rte_strscpy(ifname, zone + 1, 16);
		*zone = '\0';
	}
	if (inet_pton(AF_INET, addr, &v4) == 1) {
		*a = hold_mapped(v4.s_addr);
		return true;
	}
	return inet_pton(AF_INET6, addr, a) == 1;
}

/** The value of SSH_CONNECTION: PEER PORT LOCAL PORT. */
static void
hold_ssh_connection(struct hold *h, const char *value)
{
	struct hold_session s = {.ifname = ""};
	size_t peer = strcspn(value, " "), port = strcspn(value + peer + (value[peer] == ' '), " ");
	const char *local = value + peer + 1 + port;

	if (value[peer] != ' ' || *local != ' ')
		return;
	local++;
	if (hold_parse(value, peer, &s.peer, s.ifname) &&
	    hold_parse(local, strcspn(local, " "), &s.local, s.ifname))
		hold_add_session(h, &s);
}

/** SSH_CONNECTION of this process and of those above it. */
static void
hold_environments(struct hold *h)
{
	long pid = (long)getpid();

	for (unsigned int i = 0; i < HOLD_PARENTS_MAX && pid > 0; i++) {
		char path[PATH_MAX], line[512], *word = NULL;
		size_t size = 0;
		FILE *f;

		snprintf(path, sizeof(path), "%s/%ld/environ", h->at->proc, pid);
		f = fopen(path, "re");
		while (f != NULL && getdelim(&word, &size, '\0', f) > 0)
			if (strncmp(word, "SSH_CONNECTION=", 15) == 0)
				hold_ssh_connection(h, word + 15);
		free(word);
		if (f != NULL)
			fclose(f);
		snprintf(path, sizeof(path), "%s/%ld/status", h->at->proc, pid);
		f = fopen(path, "re");
		pid = 0;
		while (f != NULL && fgets(line, sizeof(line), f) != NULL)
			if (sscanf(line, "PPid: %ld", &pid) == 1)
				break;
		if (f != NULL)
			fclose(f);
	}
}

/** The address of a socket: its words are printed as the numbers that they are in memory. */
static bool
hold_socket_addr(const char *hex, bool v6, struct in6_addr *a)
{
	uint32_t words[4];

	for (unsigned int i = 0; i < (v6 ? 4u : 1u); i++)
		if (sscanf(hex + 8 * (size_t)i, "%8" SCNx32, &words[i]) != 1)
			return false;
	if (v6)
		memcpy(a->s6_addr, words, sizeof(a->s6_addr));
	else
		*a = hold_mapped(words[0]);
	return true;
}

static void
hold_sockets(struct hold *h, const char *table, bool v6)
{
	char line[512], local[33], peer[33];
	unsigned int local_port, peer_port, state;
	FILE *f = hold_open(h, table);

	while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
		struct hold_session s = {.ifname = ""};

		if (sscanf(line, " %*u: %32[0-9A-Fa-f]:%x %32[0-9A-Fa-f]:%x %x", local, &local_port,
		           peer, &peer_port, &state) == 5 &&
		    state == HOLD_TCP_ESTABLISHED &&
		    (local_port == HOLD_SSH_PORT || peer_port == HOLD_SSH_PORT) &&
		    hold_socket_addr(local, v6, &s.local) && hold_socket_addr(peer, v6, &s.peer))
			hold_add_session(h, &s);
	}
	if (f != NULL)
		fclose(f);
}

/** Whether an interface of the device has this address of IPv6; ifname: which. */
static bool
hold_owns6(const struct hold *h, const struct in6_addr *a, char ifname[16])
{
	char line[256], hex[33], name[16];
	bool found = false;
	struct in6_addr has;
	FILE *f = hold_open(h, "if_inet6");

	while (f != NULL && !found && fgets(line, sizeof(line), f) != NULL)
		found = sscanf(line, "%32s %*x %*x %*x %*x %15s", hex, name) == 2 &&
		        hold_hex6(hex, &has) && memcmp(&has, a, sizeof(has)) == 0 &&
		        hold_has(h, name);
	if (f != NULL)
		fclose(f);
	if (found)
		(void)rte_strscpy(ifname, name, 16);
	return found;
}

/** Whether a connection goes through the device; ifname: by which interface. */
static bool
hold_carries(const struct hold *h, const struct hold_session *s, char ifname[16])
{
	if (s->ifname[0] != '\0' && hold_has(h, s->ifname)) {
		(void)rte_strscpy(ifname, s->ifname, 16);
		return true;
	}
	if (hold_owns6(h, &s->local, ifname))
		return true;
	/* Each interface has a route to link-local addresses: such a peer's says nothing. */
	if (IN6_IS_ADDR_LINKLOCAL(&s->peer))
		return false;
	return hold_routed(h, &s->peer, ifname) || hold_routed(h, &s->local, ifname);
}

static void
hold_find(struct hold *h, struct weft_device_hold *hold)
{
	for (unsigned int i = 0; i < h->nsessions; i++) {
		const struct hold_session *s = &h->sessions[i];
		bool v4 = IN6_IS_ADDR_V4MAPPED(&s->peer);

		if (!hold_carries(h, s, hold->ifname))
			continue;
		hold->kind = WEFT_HOLD_SSH;
		(void)inet_ntop(v4 ? AF_INET : AF_INET6, s->peer.s6_addr + (v4 ? 12 : 0),
		                hold->peer, sizeof(hold->peer));
		return;
	}
	for (unsigned int i = 0; i < h->nroutes; i++) {
		if (!hold_is_default(&h->routes[i]) || !hold_has(h, h->routes[i].ifname))
			continue;
		hold->kind = WEFT_HOLD_ROUTE;
		(void)rte_strscpy(hold->ifname, h->routes[i].ifname, sizeof(hold->ifname));
		return;
	}
}

int
weft_device_hold(const struct weft_device_roots *at, const char *dev, struct weft_device_hold *hold)
{
	struct hold h = {.at = at};

	*hold = (struct weft_device_hold){.kind = WEFT_HOLD_NONE};
	if (!weft_device_is_pci(dev) && !weft_device_is_xdp(dev))
		return -EINVAL;
	hold_interfaces(&h, dev);
	if (h.nifs == 0)
		return 0;
	hold_routes(&h);
	hold_environments(&h);
	hold_sockets(&h, "tcp", false);
	hold_sockets(&h, "tcp6", true);
	hold_find(&h, hold);
	free(h.routes);
	free(h.sessions);
	return h.no_memory ? -ENOMEM : 0;
}
