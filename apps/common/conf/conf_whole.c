/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The rules that span several sections, and the workers that a file leaves out. */

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <weft/device.h>

#include "addr.h"
#include "conf_reader.h"

/** The name of the device in a device string, without arguments. A PCI address, which may be
 * written in several ways, has its domain and small letters: "3B:00.0" is "0000:3b:00.0". */
static void
whole_device_name(const char *dev, char *name, size_t size)
{
	const bool pci = weft_device_is_pci(dev);

	snprintf(name, size, "%s%.*s", pci && dev[2] == ':' ? "0000:" : "", (int)strcspn(dev, ","),
	         dev);
	for (char *p = name; pci && *p != '\0'; p++)
		*p = (char)tolower((unsigned char)*p);
}

/** A device, or a slave of a bonded port, that both strings name. */
static bool
whole_shared_device(const char *a, const char *b, char name[CONF_PATH_MAX])
{
	char one[CONF_PATH_MAX], other[CONF_PATH_MAX];

	whole_device_name(a, name, CONF_PATH_MAX);
	whole_device_name(b, other, sizeof(other));
	if (strcmp(name, other) == 0)
		return true;
	for (unsigned int i = 0; weft_device_member(a, i, one, sizeof(one)) == 0; i++) {
		whole_device_name(one, name, CONF_PATH_MAX);
		for (unsigned int j = 0; weft_device_member(b, j, one, sizeof(one)) == 0; j++) {
			whole_device_name(one, other, sizeof(other));
			if (strcmp(name, other) == 0)
				return true;
		}
	}
	return false;
}

/** Two ports on one device, or two net_memif of one role on one socket and id: DPDK would give both
 * sections the same port, or abort. */
static int
whole_check_devices(const struct whole *h, const struct conf_port *a, const struct conf_port *b)
{
	char name[CONF_PATH_MAX], sock[2][CONF_PATH_MAX];
	bool abstract[2];

	if (whole_shared_device(a->dev, b->dev, name))
		return conf_whole_fail(
		        h, a->dev_line,
		        "[port %s] dev: device %s belongs to [port %s]; give each port its own",
		        a->name, name, b->name);
	if (conf_memif_socket(a->dev, sock[0], sizeof(sock[0]), &abstract[0]) != 0 ||
	    conf_memif_socket(b->dev, sock[1], sizeof(sock[1]), &abstract[1]) != 0 ||
	    abstract[0] != abstract[1] || strcmp(sock[0], sock[1]) != 0)
		return 0;
	return conf_whole_fail(
	        h, a->dev_line,
	        "[port %s] dev: socket %s belongs to [port %s]; give each port its own", a->name,
	        sock[0], b->name);
}

/** The title of the section that a network is from. */
static const char *
whole_net_title(const struct conf *c, const struct conf_port *p, const struct conf_net *n,
                char buf[CONF_NAME_MAX + 16])
{
	snprintf(buf, CONF_NAME_MAX + 16, "[%s %s]", n->network < 0 ? "port" : "network",
	         n->network < 0 ? p->name : c->networks[n->network].name);
	return buf;
}

/** The line of one of the keys of a network, which may be that of the section. */
static int
whole_net_line(const struct conf *c, const struct conf_port *p, const struct conf_net *n,
               bool gateway)
{
	const struct conf_addrs *a = n->network < 0 ? &p->net : &c->networks[n->network].net;
	bool v6 = n->addr.ss_family == AF_INET6;

	return gateway ? (v6 ? a->gateway6_line : a->gateway_line)
	               : (v6 ? a->addr6_line : a->addr_line);
}

/** Add the addresses of a section to its port. */
static int
whole_add_nets(const struct whole *h, struct conf_port *p, const struct conf_addrs *a,
               int32_t network)
{
	const struct conf_net two[2] = {
	        {a->addr, a->gateway, a->prefix_len, a->vlan_id, network},
	        {a->addr6, a->gateway6, a->prefix6_len, a->vlan_id, network}};

	for (unsigned int i = 0; i < 2; i++) {
		if (two[i].addr.ss_family == 0)
			continue;
		if (p->nnets == WEFT_MAX_NETWORKS)
			return conf_whole_fail(
			        h, h->c->networks[network].port_line,
			        "[network %s] port: too many; [port %s] has %d addresses at "
			        "most",
			        h->c->networks[network].name, p->name, WEFT_MAX_NETWORKS);
		p->nets[p->nnets++] = two[i];
	}
	return 0;
}

/** Find the port of a section [network NAME], and add its addresses. */
static int
whole_add_network(const struct whole *h, uint32_t i)
{
	struct conf_network *n = &h->c->networks[i];
	struct conf *c = h->c;

	if (n->port[0] == '\0' && c->nports > 1)
		return conf_whole_fail(
		        h, n->line,
		        "[network %s] port: missing; say which port has these addresses", n->name);
	if (n->port[0] == '\0' && c->nports == 1)
		strcpy(n->port, c->ports[0].name);
	for (uint32_t k = 0; k < c->nports; k++) {
		if (strcmp(c->ports[k].name, n->port) != 0)
			continue;
		if (n->net.addr6.ss_family != 0 && c->ports[k].mtu_bytes < CONF_IPV6_MTU)
			return conf_whole_fail(
			        h, n->net.addr6_line,
			        "[network %s] address6: IPv6 wants an mtu of 1280 or more "
			        "of [port %s]",
			        n->name, n->port);
		return whole_add_nets(h, &c->ports[k], &n->net, (int32_t)i);
	}
	return conf_whole_fail(h, n->port_line,
	                       "[network %s] port: no [port %s]; name a port of this file", n->name,
	                       n->port);
}

/** Two addresses of one port, b before a in the file. */
static int
whole_check_pair(const struct whole *h, const struct conf_port *p, const struct conf_net *a,
                 const struct conf_net *b)
{
	char at[CONF_NAME_MAX + 16], bt[CONF_NAME_MAX + 16];
	const char *six = a->addr.ss_family == AF_INET6 ? "6" : "";
	uint32_t bits = a->prefix_len < b->prefix_len ? a->prefix_len : b->prefix_len;
	const struct conf_net *gw = addr_same_host(&a->gateway, &b->addr) ? a : b;

	whole_net_title(h->c, p, a, at);
	whole_net_title(h->c, p, b, bt);
	if (addr_same_host(&gw->gateway, gw == a ? &b->addr : &a->addr))
		return conf_whole_fail(
		        h, whole_net_line(h->c, p, gw, true),
		        "%s gateway%s: is our own address, of %s; give a neighbour's "
		        "address",
		        gw == a ? at : bt, six, gw == a ? bt : at);
	if (!addr_same_net(&a->addr, &b->addr, bits))
		return 0;
	if (a->vlan_id != b->vlan_id)
		return conf_whole_fail(
		        h, whole_net_line(h->c, p, a, false),
		        "%s address%s: its network overlaps with that of %s on another "
		        "VLAN; give each VLAN networks of its own",
		        at, six, bt);
	if (a->prefix_len == b->prefix_len && bits != (a->addr.ss_family == AF_INET ? 32u : 128u))
		return conf_whole_fail(h, whole_net_line(h->c, p, a, false),
		                       "%s address%s: its network and VLAN are those of %s; give a "
		                       "further address in a network the prefix length %s",
		                       at, six, bt, *six ? "128" : "32");
	return 0;
}

/** Two addresses of this host, b before a in the file. */
static int
whole_check_addrs(const struct whole *h, const struct conf_port *pa, const struct conf_net *a,
                  const struct conf_port *pb, const struct conf_net *b)
{
	char at[CONF_NAME_MAX + 16], bt[CONF_NAME_MAX + 16];
	bool v6 = a->addr.ss_family == AF_INET6;

	if (addr_same_host(&a->addr, &b->addr))
		return conf_whole_fail(
		        h, a->network < 0 ? pa->line : whole_net_line(h->c, pa, a, false),
		        "%s address%s: the same as that of %s; give each %s its own",
		        whole_net_title(h->c, pa, a, at), v6 ? "6" : "",
		        whole_net_title(h->c, pb, b, bt),
		        a->network < 0 && b->network < 0 ? "port" : "network");
	return pa == pb ? whole_check_pair(h, pa, a, b) : 0;
}

/** Complete and check the addresses of all ports. */
static int
whole_check_nets(const struct whole *h)
{
	struct conf *c = h->c;
	int rc = 0;

	for (uint32_t i = 0; i < c->nports && rc == 0; i++) {
		c->ports[i].nnets = 0;
		rc = whole_add_nets(h, &c->ports[i], &c->ports[i].net, -1);
	}
	for (uint32_t i = 0; i < c->nnetworks && rc == 0; i++)
		rc = whole_add_network(h, i);
	for (uint32_t i = 0; i < c->nports && rc == 0; i++)
		if (c->ports[i].nnets == 0)
			rc = conf_whole_fail(
			        h, c->ports[i].line,
			        "[port %s] address: missing; give address, address6 or a "
			        "[network NAME]",
			        c->ports[i].name);
	for (uint32_t i = 0; i < c->nports; i++)
		for (uint32_t k = 0; k < c->ports[i].nnets; k++)
			for (uint32_t j = 0; j <= i; j++)
				for (uint32_t m = 0; m < (j < i ? c->ports[j].nnets : k); m++)
					if (rc == 0)
						rc = whole_check_addrs(
						        h, &c->ports[i], &c->ports[i].nets[k],
						        &c->ports[j], &c->ports[j].nets[m]);
	return rc;
}

static int
whole_check_ports(const struct whole *h)
{
	const struct conf *c = h->c;
	int rc;

	if (c->nports == 0)
		return conf_whole_fail(
		        h, 0,
		        "no port; add a [port NAME] section with dev and address or address6");
	rc = whole_check_nets(h);
	for (uint32_t i = 1; i < c->nports; i++)
		for (uint32_t j = 0; j < i && rc == 0; j++)
			rc = whole_check_devices(h, &c->ports[i], &c->ports[j]);
	return rc;
}

/** Each word of `listen_on` means at least one address of this host. */
/** The addresses and networks of a key `listen_on`. */
static int
whole_check_listen(const struct whole *h, const char *section, const struct conf_listen *list,
                   uint32_t n)
{
	char text[ADDR_STR_MAX];

	for (uint32_t i = 0; i < n; i++) {
		const struct conf_listen *l = &list[i];
		uint32_t bits = l->prefix_len != 0             ? l->prefix_len
		                : l->addr.ss_family == AF_INET ? 32
		                                               : 128;
		/* No file knows the link-local addresses of ports. */
		bool found = addr_is_link_local(&l->addr);

		for (uint32_t p = 0; p < h->c->nports; p++)
			for (uint32_t k = 0; k < h->c->ports[p].nnets; k++)
				found = found ||
				        addr_same_net(&l->addr, &h->c->ports[p].nets[k].addr, bits);
		if (!found)
			return conf_whole_fail(
			        h, 0,
			        "[%s] listen_on: no port has %s %s; name addresses or "
			        "networks of this file",
			        section, l->prefix_len != 0 ? "an address in" : "the address",
			        conf_net_str(&l->addr, l->prefix_len, text));
	}
	return 0;
}

/** The worker serves every port. */
static void
whole_serve_all(const struct conf *c, struct conf_worker *w)
{
	for (uint32_t i = 0; i < c->nports; i++)
		strcpy(w->ports[i], c->ports[i].name);
	w->nports = c->nports;
}

/** Make as many workers as asked for; each serves all ports. */
static void
whole_make_workers(struct conf *c)
{
	do {
		struct conf_worker *w = &c->workers[c->nworkers];

		memset(w, 0, sizeof(*w));
		conf_named_defaults("worker", w);
		snprintf(w->name, sizeof(w->name), "w%" PRIu32, c->nworkers);
		whole_serve_all(c, w);
	} while (++c->nworkers < c->weft.workers);
}

/** Check the worker's ports, and mark them as served. */
static int
whole_check_served(const struct whole *h, const struct conf_worker *w, bool *served)
{
	const struct conf *c = h->c;
	uint32_t p;

	for (uint32_t n = 0; n < w->nports; n++) {
		for (p = 0; p < c->nports; p++)
			if (strcmp(c->ports[p].name, w->ports[n]) == 0)
				break;
		if (p == c->nports)
			return conf_whole_fail(
			        h, w->ports_line,
			        "[worker %s] ports: no [port %s]; name ports of this file", w->name,
			        w->ports[n]);
		served[p] = true;
	}
	return 0;
}

/** Make the workers that the file leaves out, and check all of them. */
static int
whole_check_workers(const struct whole *h)
{
	bool served[CONF_PORTS_MAX] = {false};
	struct conf *c = h->c;
	int rc;

	if (c->nworkers == 0)
		whole_make_workers(c);
	else if (c->weft.workers > 1)
		return conf_whole_fail(
		        h, 0, "[weft] workers: there are [worker NAME] sections; give either");
	if (c->nworkers == 1 && c->workers[0].nports == 0)
		whole_serve_all(c, &c->workers[0]);
	for (uint32_t i = 0; i < c->nworkers; i++) {
		const struct conf_worker *w = &c->workers[i];

		if (w->nports == 0)
			return conf_whole_fail(
			        h, w->line, "[worker %s] ports: missing; say which ports it serves",
			        w->name);
		for (uint32_t j = 0; j < i; j++)
			if (w->lcore >= 0 && w->lcore == c->workers[j].lcore)
				return conf_whole_fail(
				        h, w->line,
				        "[worker %s] lcore: %d belongs to [worker %s]; "
				        "give each worker its own",
				        w->name, w->lcore, c->workers[j].name);
		rc = whole_check_served(h, w, served);
		if (rc != 0)
			return rc;
	}
	for (uint32_t i = 0; i < c->nports; i++)
		if (!served[i])
			return conf_whole_fail(
			        h, c->ports[i].line,
			        "[port %s]: no worker serves it; add it to the ports of "
			        "a [worker NAME]",
			        c->ports[i].name);
	return 0;
}

/** In the order of their images, or else of their paths. */
static int
by_place(const void *a, const void *b)
{
	const struct conf_export *x = *(const struct conf_export *const *)a;
	const struct conf_export *y = *(const struct conf_export *const *)b;
	int rc = strcmp(x->image, y->image);

	if (rc == 0)
		rc = strcmp(x->image[0] != '\0' ? x->ceph : x->path,
		            y->image[0] != '\0' ? y->ceph : y->path);
	return rc;
}

/** The same, and of the same place in the order of the file. */
static int
by_place_and_line(const void *a, const void *b)
{
	const struct conf_export *x = *(const struct conf_export *const *)a;
	const struct conf_export *y = *(const struct conf_export *const *)b;
	int rc = by_place(a, b);

	return rc != 0 ? rc : (x > y) - (x < y);
}

/** No two exports have the same image or path. */
static int
whole_check_media(const struct whole *h)
{
	const struct conf *c = h->c;
	const struct conf_export **e = calloc(c->nexports + 1, sizeof(*e)), *twice = NULL,
	                         *first = NULL;

	if (e == NULL)
		return conf_whole_fail(h, 0, "out of memory");
	for (uint32_t i = 0; i < c->nexports; i++)
		e[i] = &c->exports[i];
	qsort(e, c->nexports, sizeof(*e), by_place_and_line);
	for (uint32_t i = 1, same = 0; i < c->nexports; i++) {
		if (by_place(&e[same], &e[i]) != 0) {
			same = i;
			continue;
		}
		if ((e[i]->image[0] != '\0' || e[i]->path[0] != '\0') &&
		    (twice == NULL || e[i] < twice)) {
			twice = e[i];
			first = e[same];
		}
	}
	free(e);
	if (twice == NULL)
		return 0;
	return twice->image[0] != '\0'
	               ? conf_whole_fail(
	                         h, twice->line,
	                         "[export %s] image: the same as that of [export %s]; give each "
	                         "export its own image",
	                         twice->name, first->name)
	               : conf_whole_fail(
	                         h, twice->line,
	                         "[export %s] path: the same as that of [export %s]; give each "
	                         "export its own file",
	                         twice->name, first->name);
}

static int
whole_check_exports(const struct whole *h)
{
	const struct conf *c = h->c;

	if (c->target.host_auth != CONF_HOST_AUTH_NONE && c->nclients == 0)
		return conf_whole_fail(
		        h, 0,
		        "[target] host_auth: no client can authenticate; add a [client NAME] "
		        "section with key_file");
	for (uint32_t i = 0; i < c->nexports; i++)
		if (c->exports[i].allow_clients[0] != '\0' &&
		    c->target.host_auth == CONF_HOST_AUTH_NONE)
			return conf_whole_fail(
			        h, c->exports[i].line,
			        "[export %s] allow_clients: no client has a name without "
			        "[target] host_auth; set it, or name addresses "
			        "(allow_from)",
			        c->exports[i].name);
	return whole_check_media(h);
}

/** Each worker needs memory for two windows, and for two of the longest READs. */
static int
whole_check_memory(const struct whole *h)
{
	const struct conf *c = h->c;
	const uint64_t window = c->target.window_bytes;
	const uint64_t piece = window > 1 << 20 ? window : 1 << 20;
	const uint64_t need = 4 * piece * (c->nworkers > 0 ? c->nworkers : 1);

	if ((window & (window - 1)) != 0 || window > CONF_WINDOW_MAX)
		return conf_whole_fail(
		        h, 0, "[target] window: %" PRIu64 " is no power of 2 up to 64 MiB", window);
	if (c->target.staging_bytes < need)
		return conf_whole_fail(h, 0,
		                       "[target] staging: %u workers and windows of %" PRIu64
		                       " octets need at least %" PRIu64 " octets",
		                       c->nworkers, window, need);
	return 0;
}

int
conf_check_volumes(const struct conf *c, char *err, size_t err_size)
{
	const struct whole one = {.c = (struct conf *)c, .err = err, .err_size = err_size};

	return whole_check_memory(&one);
}

static int
whole_check_volumes(const struct whole *h)
{
	uint32_t i = 0;

	while (i < h->c->nexports && h->c->exports[i].format != CONF_FORMAT_VOLUME)
		i++;
	return i == h->c->nexports ? 0 : whole_check_memory(h);
}

int
conf_finish(struct conf *c, char *err, size_t err_size)
{
	const struct whole h = {.c = c, .err = err, .err_size = err_size};
	int rc = whole_check_ports(&h);

	if (rc == 0)
		rc = whole_check_listen(&h, "target", c->target.listen_on, c->target.nlisten_on);
	if (rc == 0)
		rc = whole_check_listen(&h, "nvmf", c->nvmf.listen_on, c->nvmf.nlisten_on);
	if (rc == 0)
		rc = whole_check_workers(&h);
	if (rc == 0)
		rc = whole_check_exports(&h);
	if (rc == 0)
		rc = whole_check_volumes(&h);
	if (rc == 0)
		rc = conf_whole_nvmf(&h);
	return rc;
}
