/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The configuration of the process, from its environment. */

#include "config.h"

#include "ui.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "portd_client.h"

#define CONFIG_PART_MAX (1 << 20) /**< octets of a file without ports */

const char *
wv_portd_why(int rc)
{
	switch (rc) {
	case -ENOENT:
	case -ECONNREFUSED:
		return "no weft-portd listens there";
	case -ECONNRESET:
		return "weft-portd does not take this user, or has ended";
	case -EPROTO:
		return "its weft-portd is of another version";
	case -EBUSY:
		return "weft-portd has as many processes as it takes";
	case -ENOSPC:
		return "weft-portd has no block of dynamic ports left";
	case -EADDRNOTAVAIL:
		return "weft-portd has other addresses than before";
	case -EPERM:
		return "the part of weft-portd's address is the parent's";
	default:
		return strerror(-rc);
	}
}

/** "10.0.0.2/24", behind what is in out. */
static void
config_cidr(char *out, size_t size, int family, const struct portd_net *n)
{
	static const uint8_t none[16];
	char addr[INET6_ADDRSTRLEN];
	const size_t len = strlen(out);

	if (memcmp(n->addr, none, sizeof(none)) != 0 &&
	    inet_ntop(family, n->addr, addr, sizeof(addr)) != NULL)
		snprintf(out + len, size - len, "%s%s/%u", len > 0 ? "," : "", addr, n->prefix_len);
}

static void
config_gateway(struct sockaddr_storage *out, int family, const struct portd_net *n)
{
	static const uint8_t none[16];

	if (memcmp(n->gateway, none, sizeof(none)) == 0)
		return;
	out->ss_family = (sa_family_t)family;
	if (family == AF_INET)
		memcpy(&((struct sockaddr_in *)(void *)out)->sin_addr, n->gateway, 4);
	else
		memcpy(&((struct sockaddr_in6 *)(void *)out)->sin6_addr, n->gateway, 16);
}

/** The one port that weft-portd gives. */
static int
config_add_portd(struct conf *c, const struct portd_answer *hello, char *err, size_t err_size)
{
	char dev[CONF_PATH_MAX], cidr[2 * INET6_ADDRSTRLEN + 16] = "";
	struct conf_port *p = &c->ports[0];
	int rc;

	config_cidr(cidr, sizeof(cidr), AF_INET, &hello->ipv4);
	config_cidr(cidr, sizeof(cidr), AF_INET6, &hello->ipv6);
	rc = portd_client_dev(hello, "net_memif0", dev, sizeof(dev));
	if (rc != 0) {
		snprintf(err, err_size, "weft-portd: the name of its net_memif is too long");
		return rc;
	}
	rc = conf_add_port(c, "p0", dev, cidr, hello->mtu_bytes, err, err_size);
	if (rc != 0)
		return rc;
	p->shared = true;
	p->net.vlan_id = hello->vlan_id;
	config_gateway(&p->net.gateway, AF_INET, &hello->ipv4);
	config_gateway(&p->net.gateway6, AF_INET6, &hello->ipv6);
	return conf_finish(c, err, err_size);
}

/** A file without ports, which is not whole. */
static int
config_load_part(struct conf *c, const char *file, char *err, size_t err_size)
{
	char *text = malloc(CONFIG_PART_MAX);
	FILE *f = fopen(file, "re");
	size_t len = 0;
	int rc = f == NULL ? -errno : text == NULL ? -ENOMEM : 0;

	if (rc == 0) {
		len = fread(text, 1, CONFIG_PART_MAX, f);
		rc = ferror(f) != 0 ? -EIO : len == CONFIG_PART_MAX ? -EFBIG : 0;
	}
	if (rc != 0)
		snprintf(err, err_size, "%s: %s", file, strerror(-rc));
	else
		rc = conf_load_sections(file, text, len, c, err, err_size);
	if (f != NULL)
		fclose(f);
	free(text);
	return rc;
}

/** The settings of a file, and the port of weft-portd. */
static int
config_read_portd(struct conf *c, const char *file, const struct portd_answer *hello, char *err,
                  size_t err_size)
{
	int rc = 0;

	if (file != NULL)
		rc = config_load_part(c, file, err, err_size);
	else
		conf_defaults(c);
	if (rc != 0)
		return rc;
	if (c->nports != 0) {
		snprintf(err, err_size, "%s: it has a [port NAME], and weft-portd has the port",
		         file);
		return -EINVAL;
	}
	return hello != NULL ? config_add_portd(c, hello, err, err_size) : 0;
}

/** Keep the first worker's ports: the others are of no use to this process. */
static void
config_own_ports(struct conf *c)
{
	const struct conf_worker *w = &c->workers[0];
	uint32_t n = 0;

	for (uint32_t i = 0; c->nworkers > 0 && i < c->nports; i++)
		for (uint32_t k = 0; k < w->nports; k++)
			if (strcmp(w->ports[k], c->ports[i].name) == 0) {
				c->ports[n++] = c->ports[i];
				break;
			}
	if (c->nworkers > 0)
		c->nports = n;
}

int
wv_config_read(struct conf *c, const struct portd_answer *hello, char *err, size_t err_size)
{
	const char *file = getenv(WV_ENV_CONFIG), *dev = getenv(WV_ENV_DEV);
	const bool portd = getenv(WV_ENV_PORTD) != NULL;
	const char *address = getenv(WV_ENV_ADDRESS), *mtu = getenv(WV_ENV_MTU);
	const char *p2p = getenv(WV_ENV_P2P);
	uint64_t mtu_bytes = 0;
	int rc;

	if (portd && dev != NULL) {
		snprintf(err, err_size, WV_ENV_PORTD " and " WV_ENV_DEV " are both set");
		return -EINVAL;
	}
	if (file == NULL && dev == NULL && !portd) {
		snprintf(err, err_size,
		         "no configuration: start the program by weft-run, or set " WV_ENV_CONFIG
		         ", or " WV_ENV_DEV " and " WV_ENV_ADDRESS ", or " WV_ENV_PORTD);
		return -ENOENT;
	}
	if (portd) {
		rc = config_read_portd(c, file, hello, err, err_size);
	} else if (file != NULL) {
		rc = conf_load(file, c, err, err_size);
	} else {
		if (address == NULL) {
			snprintf(err, err_size, WV_ENV_DEV " needs " WV_ENV_ADDRESS);
			return -EINVAL;
		}
		if (mtu != NULL && ui_parse_u64(mtu, 576, 65535, &mtu_bytes) != 0) {
			snprintf(err, err_size, WV_ENV_MTU ": '%s' is not from 576 to 65535", mtu);
			return -EINVAL;
		}
		conf_defaults(c);
		rc = conf_add_port(c, "p0", dev, address, (uint32_t)mtu_bytes, err, err_size);
		if (rc == 0)
			rc = conf_finish(c, err, err_size);
	}
	if (rc != 0)
		return rc;
	config_own_ports(c);
	if (c->nports == 0 && !portd) {
		snprintf(err, err_size, "%s: it has no [port NAME]", file);
		return -EINVAL;
	}
	/* Programs let the server send first, which MPA allows in this model only. */
	c->mpa.p2p = c->mpa.rev != 1 && (p2p == NULL || strcmp(p2p, "0") != 0);
	return 0;
}
