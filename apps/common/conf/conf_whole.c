/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The rules that span several sections, and the workers that a file leaves out. */

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include <weft/device.h>

#include "addr.h"
#include "conf_key.h"

/** The configuration under check, and where its first fault is described. */
struct whole {
	struct conf *c;
	char *err;
	size_t err_size;
};

/** Describe a fault; line 0: of the whole file. Returns -EINVAL. */
static int __attribute__((format(printf, 3, 4)))
whole_fail(const struct whole *h, int line, const char *fmt, ...)
{
	const char *file = h->c->file[0] != '\0' ? h->c->file : "configuration";
	char why[CONF_ERR_MAX + CONF_PATH_MAX], at[16] = "";
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	if (line != 0)
		snprintf(at, sizeof(at), ":%d", line);
	snprintf(h->err, h->err_size, "%s%s: %s", file, at, why);
	return -EINVAL;
}

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

/** Two ports on one device, or two net_memif of one role on one socket and id: DPDK would give both
 * sections the same port, or abort. */
static int
whole_check_devices(const struct whole *h, const struct conf_port *a, const struct conf_port *b)
{
	char name[2][CONF_PATH_MAX], sock[2][CONF_PATH_MAX];
	bool abstract[2];

	whole_device_name(a->dev, name[0], sizeof(name[0]));
	whole_device_name(b->dev, name[1], sizeof(name[1]));
	if (strcmp(name[0], name[1]) == 0)
		return whole_fail(
		        h, a->dev_line,
		        "[port %s] dev: device %s belongs to [port %s]; give each port its own",
		        a->name, name[0], b->name);
	if (conf_memif_socket(a->dev, sock[0], sizeof(sock[0]), &abstract[0]) != 0 ||
	    conf_memif_socket(b->dev, sock[1], sizeof(sock[1]), &abstract[1]) != 0 ||
	    abstract[0] != abstract[1] || strcmp(sock[0], sock[1]) != 0)
		return 0;
	return whole_fail(h, a->dev_line,
	                  "[port %s] dev: socket %s belongs to [port %s]; give each port its own",
	                  a->name, sock[0], b->name);
}

static int
whole_check_ports(const struct whole *h)
{
	const struct conf *c = h->c;
	int rc = 0;

	if (c->nports == 0)
		return whole_fail(
		        h, 0,
		        "no port; add a [port NAME] section with dev and address or address6");
	for (uint32_t i = 1; i < c->nports; i++)
		for (uint32_t j = 0; j < i; j++) {
			const struct conf_port *a = &c->ports[i], *b = &c->ports[j];
			bool same4 = addr_same_host(&a->addr, &b->addr);

			if (same4 || addr_same_host(&a->addr6, &b->addr6))
				return whole_fail(h, a->line,
				                  "[port %s] address%s: the same as that of [port "
				                  "%s]; give each port its own",
				                  a->name, same4 ? "" : "6", b->name);
		}
	for (uint32_t i = 1; i < c->nports; i++)
		for (uint32_t j = 0; j < i && rc == 0; j++)
			rc = whole_check_devices(h, &c->ports[i], &c->ports[j]);
	return rc;
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
			return whole_fail(
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
		return whole_fail(h, 0,
		                  "[weft] workers: there are [worker NAME] sections; give either");
	if (c->nworkers == 1 && c->workers[0].nports == 0)
		whole_serve_all(c, &c->workers[0]);
	for (uint32_t i = 0; i < c->nworkers; i++) {
		const struct conf_worker *w = &c->workers[i];

		if (w->nports == 0)
			return whole_fail(h, w->line,
			                  "[worker %s] ports: missing; say which ports it serves",
			                  w->name);
		for (uint32_t j = 0; j < i; j++)
			if (w->lcore >= 0 && w->lcore == c->workers[j].lcore)
				return whole_fail(h, w->line,
				                  "[worker %s] lcore: %d belongs to [worker %s]; "
				                  "give each worker its own",
				                  w->name, w->lcore, c->workers[j].name);
		rc = whole_check_served(h, w, served);
		if (rc != 0)
			return rc;
	}
	for (uint32_t i = 0; i < c->nports; i++)
		if (!served[i])
			return whole_fail(h, c->ports[i].line,
			                  "[port %s]: no worker serves it; add it to the ports of "
			                  "a [worker NAME]",
			                  c->ports[i].name);
	return 0;
}

static int
whole_check_exports(const struct whole *h)
{
	const struct conf *c = h->c;

	if (c->target.host_auth != CONF_HOST_AUTH_NONE && c->nclients == 0)
		return whole_fail(
		        h, 0,
		        "[target] host_auth: no client can authenticate; add a [client NAME] "
		        "section with key_file");
	for (uint32_t i = 1; i < c->nexports; i++)
		for (uint32_t j = 0; j < i; j++)
			if (c->exports[i].path[0] != '\0' &&
			    strcmp(c->exports[i].path, c->exports[j].path) == 0)
				return whole_fail(h, c->exports[i].line,
				                  "[export %s] path: the same as that of [export "
				                  "%s]; give each export its own file",
				                  c->exports[i].name, c->exports[j].name);
	return 0;
}

int
conf_finish(struct conf *c, char *err, size_t err_size)
{
	const struct whole h = {.c = c, .err = err, .err_size = err_size};
	int rc = whole_check_ports(&h);

	if (rc == 0)
		rc = whole_check_workers(&h);
	if (rc == 0)
		rc = whole_check_exports(&h);
	return rc;
}
