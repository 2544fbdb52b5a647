/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The rules that span several keys of a section, checked when the section ends. */

#include <arpa/inet.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <string.h>

#include "addr.h"
#include "conf_reader.h"
#include <weft/hash.h>

static uint32_t
conf_ipv4(const struct sockaddr_storage *a)
{
	return ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr);
}

static void
conf_check_weft(struct conf_reader *l, const struct conf_weft *w)
{
	char why[CONF_ERR_MAX];

	if (w->lcores[0] != '\0' && conf_check_lcores(w->lcores, why, sizeof(why)) != 0)
		conf_fault(l, conf_line_of(l, "lcores"), "lcores", "%s", why);
	else if (w->log_level[0] != '\0' &&
	         conf_check_log_level(w->log_level, why, sizeof(why)) != 0)
		conf_fault(l, conf_line_of(l, "log_level"), "log_level", "%s", why);
	else if (conf_check_memory(w->memory_mb, why, sizeof(why)) != 0)
		conf_fault(l, conf_line_of(l, "memory_mb"), "memory_mb", "%s", why);
}

static void
conf_check_target(struct conf_reader *l, const struct conf_target *t)
{
	struct sockaddr_storage at;

	if (t->control[0] != '\0' && t->control[0] != '/' && strcmp(t->control, "off") != 0)
		conf_fault(l, conf_line_of(l, "control"), "control",
		           "\"%s\" is neither off nor a path from the root; write "
		           "/run/weft/control.sock",
		           t->control);
	if (conf_parse_metrics(t->metrics, &at) != 0)
		conf_fault(l, conf_line_of(l, "metrics"), "metrics",
		           "\"%s\" is neither off nor an address and a port; write 127.0.0.1:9471",
		           t->metrics);
}

static void
conf_check_mpa(struct conf_reader *l, const struct weft_mpa_policy *m)
{
	if (m->p2p && m->rev == 1)
		conf_fault(l, conf_line_of(l, "peer_to_peer"), "peer_to_peer",
		           "MPA revision 1 has no such model; leave `revision` out, or make it 2");
}

/* Defaults of weft_tcp_attr. */
#define CONF_RTO_MIN_US 200000
#define CONF_RTO_MAX_US 60000000

static void
conf_check_tcp(struct conf_reader *l, const struct weft_tcp_attr *t)
{
	const uint32_t min_us = t->rto_min_us != 0 ? t->rto_min_us : CONF_RTO_MIN_US;
	const uint32_t max_us = t->rto_max_us != 0 ? t->rto_max_us : CONF_RTO_MAX_US;

	if (min_us > max_us)
		conf_fault(l, conf_line_of(l, "rto_min_us"), "rto_min_us",
		           "%" PRIu32 " are more than rto_max_us, which is %" PRIu32, min_us,
		           max_us);
	else if (t->rto_initial_us != 0 && t->rto_initial_us < min_us)
		conf_fault(l, conf_line_of(l, "rto_initial_us"), "rto_initial_us",
		           "%" PRIu32 " are less than rto_min_us, which is %" PRIu32,
		           t->rto_initial_us, min_us);
	else if (t->rto_initial_us > max_us)
		conf_fault(l, conf_line_of(l, "rto_initial_us"), "rto_initial_us",
		           "%" PRIu32 " are more than rto_max_us, which is %" PRIu32,
		           t->rto_initial_us, max_us);
}

static void
conf_check_worker(struct conf_reader *l, struct conf_worker *w)
{
	char why[CONF_ERR_MAX];

	w->ports_line = conf_line_of(l, "ports");
	if (conf_check_lcore(w->lcore, why, sizeof(why)) != 0)
		conf_fault(l, conf_line_of(l, "lcore"), "lcore", "%s", why);
}

/** The addresses of a [port NAME] or [network NAME]. */
static void
conf_check_addrs(struct conf_reader *l, struct conf_addrs *a)
{
	uint32_t mask;

	a->addr_line = conf_line_of(l, "address");
	a->addr6_line = conf_line_of(l, "address6");
	a->gateway_line = conf_line_of(l, "gateway");
	a->gateway6_line = conf_line_of(l, "gateway6");
	if (a->gateway6.ss_family != 0 && a->addr6.ss_family == 0)
		conf_fault(l, a->gateway6_line, "gateway6", "there is no address6; give one");
	else if (a->gateway6.ss_family != 0 && !addr_is_link_local(&a->gateway6) &&
	         !addr_same_net(&a->gateway6, &a->addr6, a->prefix6_len))
		conf_fault(l, a->gateway6_line, "gateway6",
		           "not in the network of address6; give a neighbour's address");
	else if (a->gateway6.ss_family != 0 && addr_same_host(&a->gateway6, &a->addr6))
		conf_fault(l, a->gateway6_line, "gateway6",
		           "is our own address; give a neighbour's address");
	if (a->gateway.ss_family == 0)
		return;
	if (a->addr.ss_family == 0) {
		conf_fault(l, a->gateway_line, "gateway", "there is no address; give one");
		return;
	}
	mask = UINT32_MAX << (32 - a->prefix_len);
	if ((conf_ipv4(&a->gateway) & mask) != (conf_ipv4(&a->addr) & mask))
		conf_fault(l, a->gateway_line, "gateway",
		           "not in the network of address; give a neighbour's address");
	else if (conf_ipv4(&a->gateway) == conf_ipv4(&a->addr))
		conf_fault(l, a->gateway_line, "gateway",
		           "is our own address; give a neighbour's address");
}

static void
conf_check_port(struct conf_reader *l, struct conf_port *p)
{
	char why[CONF_ERR_MAX];

	p->dev_line = conf_line_of(l, "dev");
	if (p->mbufs == 0)
		p->mbufs = WEFT_PORT_MBUFS(p->mtu_bytes);
	if (conf_check_dev(p->dev, why, sizeof(why)) != 0) {
		conf_fault(l, p->dev_line, "dev", "%s", why);
		return;
	}
	if (p->net.addr6.ss_family != 0 && p->mtu_bytes < CONF_IPV6_MTU)
		conf_fault(l, conf_line_of(l, "address6"), "address6",
		           "IPv6 wants an mtu of 1280 or more");
	conf_check_addrs(l, &p->net);
}

static void
conf_check_network(struct conf_reader *l, struct conf_network *n)
{
	n->port_line = conf_line_of(l, "port");
	if (n->net.addr.ss_family == 0 && n->net.addr6.ss_family == 0)
		conf_fault(l, l->sec_line, "address", "missing; give address, address6 or both");
	conf_check_addrs(l, &n->net);
}

static void
conf_check_export(struct conf_reader *l, struct conf_export *e)
{
	bool is_volatile = e->persist == CONF_PERSIST_VOLATILE;
	const struct weft_hash_ops *hash = weft_hash_find(e->hash);
	bool keyed = hash->key_max_bytes > 0;

	if (is_volatile && conf_line_of(l, "rights") == l->sec_line)
		e->rights &= ~(uint32_t)CONF_RIGHT_FLUSH;
	if (e->format == CONF_FORMAT_LOG && is_volatile)
		conf_fault(l, conf_line_of(l, "persist"), "persist",
		           "the writer of a log needs Flush, which a volatile export cannot "
		           "promise; choose another persist");
	else if (e->format == CONF_FORMAT_LOG && (e->rights & CONF_RIGHT_WRITE) &&
	         (!(e->rights & CONF_RIGHT_READ) || !(e->rights & CONF_RIGHT_FLUSH)))
		conf_fault(l, conf_line_of(l, "rights"), "rights",
		           "who writes a log reads and flushes it; add read and flush, or leave "
		           "write out");
	else if (e->image[0] != '\0' && (e->format != CONF_FORMAT_VOLUME || e->path[0] != '\0' ||
	                                 e->persist != CONF_PERSIST_AUTO))
		conf_fault(
		        l, conf_line_of(l, "image"), "image",
		        "only a volume without path and persist is on an image; leave those out, "
		        "and say format = volume");
	else if (e->ceph[0] != '\0' && e->image[0] == '\0')
		conf_fault(l, conf_line_of(l, "ceph"), "ceph", "it needs image; name one");
	else if (!is_volatile && e->path[0] == '\0' && e->image[0] == '\0')
		conf_fault(l, l->sec_line, "path",
		           "missing; name a file, or say persist = volatile");
	else if (is_volatile && e->path[0] != '\0')
		conf_fault(l, conf_line_of(l, "path"), "path",
		           "a volatile export has no file; leave path or persist = volatile out");
	else if (is_volatile && e->size_bytes == 0)
		conf_fault(l, l->sec_line, "size", "missing; a volatile export needs it");
	else if (is_volatile && (e->rights & CONF_RIGHT_FLUSH))
		conf_fault(l, conf_line_of(l, "rights"), "rights",
		           "a volatile export cannot promise flush; leave it out or choose another "
		           "persist");
	else if (e->checksums && e->format != CONF_FORMAT_VOLUME)
		conf_fault(l, conf_line_of(l, "checksums"), "checksums",
		           "only a volume has them; say format = volume, or leave it out");
	else if (e->scrub_mb_s > 0 && e->format != CONF_FORMAT_VOLUME)
		conf_fault(l, conf_line_of(l, "scrub"), "scrub",
		           "only a volume is scrubbed; say format = volume, or leave it out");
	else if (e->snapshots > 0 && e->format != CONF_FORMAT_VOLUME)
		conf_fault(l, conf_line_of(l, "snapshots"), "snapshots",
		           "only a volume has them; say format = volume, or leave it out");
	else if (e->format == CONF_FORMAT_VOLUME && e->size_bytes > 0 &&
	         e->size_bytes < CONF_VOLUME_MIN_BYTES)
		conf_fault(l, conf_line_of(l, "size"), "size",
		           "a volume has at least 2M, of which its superblock takes the first");
	else if (keyed && e->hash_key_file[0] == '\0')
		conf_fault(l, conf_line_of(l, "hash"), "hash",
		           "%s needs a key; name its file with hash_key_file", e->hash);
	else if (!keyed && e->hash_key_file[0] != '\0')
		conf_fault(l, conf_line_of(l, "hash_key_file"), "hash_key_file",
		           "%s takes no key; leave it out, or say hash = hmac-sha256", e->hash);
	else if ((e->rights & CONF_RIGHT_VERIFY) && !(e->rights & CONF_RIGHT_READ))
		conf_fault(
		        l, conf_line_of(l, "rights"), "rights",
		        "who may verify can find out every octet, so verify needs read; add read, "
		        "or leave verify out");
}

void
conf_check_section(struct conf_reader *l)
{
	if (l->sec == NULL || l->fault_line != 0)
		return;
	for (unsigned int i = 0; i < l->sec->nkeys; i++) {
		const struct conf_key *k = &l->sec->keys[i];

		if (k->required && l->key_line[i] == 0) {
			conf_fault(l, l->sec_line, k->name, "missing; every [%s%s] needs it",
			           l->sec->name,
			           l->sec->nqn     ? " NQN"
			           : l->sec->named ? " NAME"
			                           : "");
			return;
		}
	}
	if (strcmp(l->sec->name, "port") == 0)
		conf_check_port(l, l->sec_base);
	else if (strcmp(l->sec->name, "network") == 0)
		conf_check_network(l, l->sec_base);
	else if (strcmp(l->sec->name, "export") == 0)
		conf_check_export(l, l->sec_base);
	else if (strcmp(l->sec->name, "worker") == 0)
		conf_check_worker(l, l->sec_base);
	else if (strcmp(l->sec->name, "weft") == 0)
		conf_check_weft(l, l->sec_base);
	else if (strcmp(l->sec->name, "mpa") == 0)
		conf_check_mpa(l, l->sec_base);
	else if (strcmp(l->sec->name, "target") == 0)
		conf_check_target(l, l->sec_base);
	else if (strcmp(l->sec->name, "tcp") == 0)
		conf_check_tcp(l, l->sec_base);
	else if (strcmp(l->sec->name, "nvmf") == 0)
		conf_check_nvmf(l, l->sec_base);
	else if (strcmp(l->sec->name, "subsystem") == 0)
		conf_check_subsys(l, l->sec_base);
}
