/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Loads a configuration: reads lines and fills struct conf, or reports the first fault in
 * one line. */

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <ini.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "addr.h"
#include "conf_key.h"
#include "file_open.h"
#include <weft/hash.h>

#define CONF_FILE_MAX (1u << 20)
#define CONF_LINE_MAX 2000

/** State of one load. inih splits lines into section, key and value; conf_read_line() finds what
 * inih would ignore. */
struct conf_load {
	struct conf *conf;
	const char *name;        /* of the file, for messages */
	char dir[CONF_PATH_MAX]; /* where relative paths start */
	const char *text, *end;
	char line_text[CONF_LINE_MAX + 1];
	int line; /* of line_text */
	bool cut; /* inih got only the beginning of line_text */
	/* the present section */
	const struct conf_section *sec;
	void *sec_base;
	char sec_title[CONF_LINE_MAX + 1]; /* "port p0" */
	int sec_line;
	int key_line[CONF_KEYS_MAX];      /* 0: not seen */
	int once_line[CONF_SECTIONS_MAX]; /* where a section without a name was, 0: nowhere yet */
	/* the first fault */
	int fault_line;
	char *err;
	size_t err_size;
};

static void __attribute__((format(printf, 4, 5)))
conf_fault(struct conf_load *l, int line, const char *key, const char *fmt, ...)
{
	char why[CONF_ERR_MAX];
	va_list ap;

	if (l->fault_line != 0)
		return;
	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	l->fault_line = line;
	snprintf(l->err, l->err_size, "%s:%d: [%s]%s%s: %s", l->name, line, l->sec_title,
	         key != NULL ? " " : "", key != NULL ? key : "", why);
	/* The message stays one line, whatever the file contains. */
	for (char *p = l->err; *p != '\0'; p++)
		if (iscntrl((unsigned char)*p))
			*p = '?';
}

static void
conf_section_defaults(const struct conf_section *s, void *base)
{
	char why[CONF_ERR_MAX];

	for (unsigned int i = 0; i < s->nkeys; i++)
		if (s->keys[i].dflt != NULL &&
		    conf_value(&s->keys[i], base, s->keys[i].dflt, "", why, sizeof(why)) != 0)
			abort(); /* the table contradicts itself */
}

void
conf_defaults(struct conf *c)
{
	memset(c, 0, sizeof(*c));
	for (unsigned int i = 0; i < conf_nsections; i++)
		if (!conf_sections[i].named)
			conf_section_defaults(&conf_sections[i], (char *)c + conf_sections[i].off);
}

/* ---- A section as a whole, when it ends ---- */

static int
conf_line_of(const struct conf_load *l, const char *key)
{
	for (unsigned int i = 0; i < l->sec->nkeys; i++)
		if (strcmp(l->sec->keys[i].name, key) == 0 && l->key_line[i] != 0)
			return l->key_line[i];
	return l->sec_line;
}

#define CONF_IPV6_MTU 1280 /* RFC 8200 s5 */

static uint32_t
conf_ipv4(const struct sockaddr_storage *a)
{
	return ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr);
}

static void
conf_check_weft(struct conf_load *l, const struct conf_weft *w)
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
conf_check_mpa(struct conf_load *l, const struct weft_mpa_policy *m)
{
	if (m->p2p && m->rev == 1)
		conf_fault(l, conf_line_of(l, "peer_to_peer"), "peer_to_peer",
		           "MPA revision 1 has no such model; leave `revision` out, or make it 2");
}

/* Defaults of weft_tcp_attr. */
#define CONF_RTO_MIN_US 200000
#define CONF_RTO_MAX_US 60000000

static void
conf_check_tcp(struct conf_load *l, const struct weft_tcp_attr *t)
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
conf_check_worker(struct conf_load *l, struct conf_worker *w)
{
	char why[CONF_ERR_MAX];

	w->ports_line = conf_line_of(l, "ports");
	if (conf_check_lcore(w->lcore, why, sizeof(why)) != 0)
		conf_fault(l, conf_line_of(l, "lcore"), "lcore", "%s", why);
}

static void
conf_check_port(struct conf_load *l, struct conf_port *p)
{
	char why[CONF_ERR_MAX];
	uint32_t mask;

	p->dev_line = conf_line_of(l, "dev");
	if (conf_check_dev(p->dev, why, sizeof(why)) != 0) {
		conf_fault(l, p->dev_line, "dev", "%s", why);
		return;
	}
	if (p->addr.ss_family == 0 && p->addr6.ss_family == 0)
		conf_fault(l, l->sec_line, "address", "missing; give address, address6 or both");
	if (p->addr6.ss_family != 0 && p->mtu_bytes < CONF_IPV6_MTU)
		conf_fault(l, conf_line_of(l, "address6"), "address6",
		           "IPv6 wants an mtu of 1280 or more");
	if (p->gateway6.ss_family != 0 && p->addr6.ss_family == 0)
		conf_fault(l, conf_line_of(l, "gateway6"), "gateway6",
		           "there is no address6; give one");
	else if (p->gateway6.ss_family != 0 && !addr_is_link_local(&p->gateway6) &&
	         !addr_same_net(&p->gateway6, &p->addr6, p->prefix6_len))
		conf_fault(l, conf_line_of(l, "gateway6"), "gateway6",
		           "not in the network of address6; give a neighbour's address");
	else if (p->gateway6.ss_family != 0 && addr_same_host(&p->gateway6, &p->addr6))
		conf_fault(l, conf_line_of(l, "gateway6"), "gateway6",
		           "is our own address; give a neighbour's address");
	if (p->gateway.ss_family == 0)
		return;
	if (p->addr.ss_family == 0) {
		conf_fault(l, conf_line_of(l, "gateway"), "gateway",
		           "there is no address; give one");
		return;
	}
	mask = UINT32_MAX << (32 - p->prefix_len);
	if ((conf_ipv4(&p->gateway) & mask) != (conf_ipv4(&p->addr) & mask))
		conf_fault(l, conf_line_of(l, "gateway"), "gateway",
		           "not in the network of address; give a neighbour's address");
	else if (conf_ipv4(&p->gateway) == conf_ipv4(&p->addr))
		conf_fault(l, conf_line_of(l, "gateway"), "gateway",
		           "is our own address; give a neighbour's address");
}

static void
conf_check_export(struct conf_load *l, struct conf_export *e)
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
	else if (!is_volatile && e->path[0] == '\0')
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

/* Check a section at its end. */
static void
conf_section_end(struct conf_load *l)
{
	if (l->sec == NULL || l->fault_line != 0)
		return;
	for (unsigned int i = 0; i < l->sec->nkeys; i++) {
		const struct conf_key *k = &l->sec->keys[i];

		if (k->required && l->key_line[i] == 0) {
			conf_fault(l, l->sec_line, k->name, "missing; every [%s%s] needs it",
			           l->sec->name, l->sec->named ? " NAME" : "");
			return;
		}
	}
	if (strcmp(l->sec->name, "port") == 0)
		conf_check_port(l, l->sec_base);
	else if (strcmp(l->sec->name, "export") == 0)
		conf_check_export(l, l->sec_base);
	else if (strcmp(l->sec->name, "worker") == 0)
		conf_check_worker(l, l->sec_base);
	else if (strcmp(l->sec->name, "weft") == 0)
		conf_check_weft(l, l->sec_base);
	else if (strcmp(l->sec->name, "mpa") == 0)
		conf_check_mpa(l, l->sec_base);
	else if (strcmp(l->sec->name, "tcp") == 0)
		conf_check_tcp(l, l->sec_base);
}

/* ---- Section headers ---- */

static void
conf_section_unknown(struct conf_load *l)
{
	char all[256] = "";

	for (unsigned int i = 0; i < conf_nsections; i++) {
		size_t n = strlen(all);

		snprintf(all + n, sizeof(all) - n, "%s[%s%s]", i > 0 ? ", " : "",
		         conf_sections[i].name, conf_sections[i].named ? " NAME" : "");
	}
	conf_fault(l, l->line, NULL, "unknown section; there are %s", all);
}

static void
conf_section_twice(struct conf_load *l, int first_line)
{
	conf_fault(l, l->line, NULL,
	           "second section of this name, the first is on line %d; rename or join them",
	           first_line);
}

static void
conf_section_named(struct conf_load *l, const struct conf_section *s, const char *name)
{
	uint32_t *count = (uint32_t *)((char *)l->conf + s->count_off);
	char *array = (char *)l->conf + s->off, *elem;

	if (*name == '\0') {
		conf_fault(l, l->line, NULL, "no name; write [%s NAME]", s->name);
		return;
	}
	if (strlen(name) > CONF_NAME_MAX) {
		conf_fault(l, l->line, NULL, "name too long; %d octets at most", CONF_NAME_MAX);
		return;
	}
	for (const char *p = name; *p != '\0'; p++) {
		if (!isascii((unsigned char)*p) ||
		    (!isalnum((unsigned char)*p) && strchr("._-", *p) == NULL)) {
			conf_fault(l, l->line, NULL,
			           "bad name; use letters, digits, '.', '_' and '-' only");
			return;
		}
	}
	for (uint32_t i = 0; i < *count; i++) {
		elem = array + i * s->elem_bytes;
		if (strcmp(elem + s->name_off, name) == 0) {
			conf_section_twice(l, *(int *)(elem + s->line_off));
			return;
		}
	}
	if (*count == s->max) {
		conf_fault(l, l->line, NULL, "too many; %u sections [%s NAME] at most", s->max,
		           s->name);
		return;
	}
	elem = array + *count * s->elem_bytes;
	(*count)++;
	memset(elem, 0, s->elem_bytes);
	strcpy(elem + s->name_off, name);
	*(int *)(elem + s->line_off) = l->line;
	conf_section_defaults(s, elem);
	l->sec = s;
	l->sec_base = elem;
}

/* line_text begins with '['. */
static void
conf_section_start(struct conf_load *l)
{
	char *close = strchr(l->line_text, ']'), *title = l->sec_title, *name;
	size_t n = close != NULL ? (size_t)(close - l->line_text) - 1 : strlen(l->line_text + 1);
	const char *rest;

	conf_section_end(l);
	if (l->fault_line != 0)
		return;
	l->sec = NULL;
	l->sec_base = NULL;
	l->sec_line = l->line;
	memset(l->key_line, 0, sizeof(l->key_line));
	memcpy(title, l->line_text + 1, n);
	title[n] = '\0';
	if (close == NULL) {
		conf_fault(l, l->line, NULL, "no closing ]; write [SECTION] alone on its line");
		return;
	}
	rest = close + 1 + strspn(close + 1, " \t\r");
	if (*rest != '\0' && *rest != ';' && *rest != '#') {
		conf_fault(l, l->line, NULL,
		           "something behind the ]; write [SECTION] alone on its line");
		return;
	}
	/* "[port  p0 ]" is "[port p0]". */
	while (n > 0 && isspace((unsigned char)title[n - 1]))
		title[--n] = '\0';
	memmove(title, title + strspn(title, " \t"), strlen(title + strspn(title, " \t")) + 1);
	name = title + strcspn(title, " \t");
	n = (size_t)(name - title);
	name += strspn(name, " \t");
	for (unsigned int i = 0; i < conf_nsections; i++) {
		const struct conf_section *s = &conf_sections[i];

		if (strlen(s->name) != n || memcmp(s->name, title, n) != 0)
			continue;
		if (s->named) {
			conf_section_named(l, s, name);
			return;
		}
		if (*name != '\0') {
			conf_fault(l, l->line, NULL, "takes no name; write [%s]", s->name);
			return;
		}
		if (l->once_line[i] != 0) {
			conf_section_twice(l, l->once_line[i]);
			return;
		}
		l->once_line[i] = l->line;
		l->sec = s;
		l->sec_base = (char *)l->conf + s->off;
		return;
	}
	conf_section_unknown(l);
}

/* ---- Lines and keys ---- */

/* End of the key by inih's rules: the first = or : that is not in a comment. NULL: none. */
static char *
conf_separator(char *line)
{
	for (char *p = line; *p != '\0'; p++) {
		if (*p == '=' || *p == ':')
			return p;
		if (*p == ';' && p > line && isspace((unsigned char)p[-1]))
			return NULL;
	}
	return NULL;
}

static void
conf_junk(struct conf_load *l, int line)
{
	conf_fault(
	        l, line, NULL,
	        "neither a [SECTION], nor key = value, nor a comment; begin comments with # or ;");
}

/*
 * inih's reader: one physical line, without leading blanks (inih would take those for the
 * continuation of the line before). A line longer than inih's buffer goes in cut; conf_handler()
 * has the rest of it.
 */
static char *
conf_read_line(char *buf, int size, void *stream)
{
	struct conf_load *l = stream;
	const char *nl;
	size_t n;

	if (l->text == l->end || l->fault_line != 0)
		return NULL;
	l->line++;
	nl = memchr(l->text, '\n', (size_t)(l->end - l->text));
	n = (size_t)((nl != NULL ? nl : l->end) - l->text);
	while (n > 0 && (*l->text == ' ' || *l->text == '\t')) {
		l->text++;
		n--;
	}
	if (n > CONF_LINE_MAX) {
		conf_fault(l, l->line, NULL, "line too long; %d octets at most", CONF_LINE_MAX);
		return NULL;
	}
	memcpy(l->line_text, l->text, n);
	l->line_text[n] = '\0';
	l->text = nl != NULL ? nl + 1 : l->end;
	if (strlen(l->line_text) != n) {
		conf_fault(l, l->line, NULL, "an octet 0 in the line; this is no text file");
		return NULL;
	}
	if (l->line_text[0] == '[') {
		conf_section_start(l);
		if (l->fault_line != 0)
			return NULL;
	} else if (strchr(";#\r", l->line_text[0]) == NULL &&
	           conf_separator(l->line_text) == NULL) {
		conf_junk(l, l->line);
		return NULL;
	}
	l->cut = n + 2 > (size_t)size;
	if (l->cut)
		n = (size_t)size - 2;
	memcpy(buf, l->line_text, n);
	buf[n] = '\n';
	buf[n + 1] = '\0';
	return buf;
}

/* The value of a line of which inih saw only the beginning, by inih's rules. */
static const char *
conf_whole_value(struct conf_load *l)
{
	char *v = conf_separator(l->line_text) + 1, *p;

	v += strspn(v, " \t");
	for (p = v; *p != '\0'; p++)
		if (*p == ';' && p > v && isspace((unsigned char)p[-1]))
			break;
	*p = '\0';
	while (p > v && isspace((unsigned char)p[-1]))
		*--p = '\0';
	return v;
}

static int
conf_handler(void *user, const char *section, const char *name, const char *value)
{
	struct conf_load *l = user;
	char why[CONF_ERR_MAX], all[256] = "";

	(void)section; /* l->sec: inih cuts long ones */
	if (l->fault_line != 0)
		return 0;
	if (l->sec == NULL) {
		conf_fault(l, l->line, name, "outside any section; put it below a [SECTION] line");
		return 0;
	}
	if (l->cut)
		value = conf_whole_value(l);
	for (unsigned int i = 0; i < l->sec->nkeys; i++) {
		const struct conf_key *k = &l->sec->keys[i];

		if (strcmp(k->name, name) == 0) {
			if (l->key_line[i] != 0) {
				conf_fault(l, l->line, name,
				           "given twice, first on line %d; keep one",
				           l->key_line[i]);
				return 0;
			}
			l->key_line[i] = l->line;
			if (conf_value(k, l->sec_base, value, l->dir, why, sizeof(why)) != 0) {
				conf_fault(l, l->line, name, "%s", why);
				return 0;
			}
			return 1;
		}
		snprintf(all + strlen(all), sizeof(all) - strlen(all), "%s%s", i > 0 ? ", " : "",
		         k->name);
	}
	conf_fault(l, l->line, name, "unknown key; there are %s", all);
	return 0;
}

/* ---- The file as a whole ---- */

/* Two ports on one device, or two net_memif of one role on one socket and id: DPDK would give both
 * sections the same port, or abort. */
static int
conf_check_devices(const struct conf *c, const char *file, char *err, size_t err_size)
{
	char sock[2][CONF_PATH_MAX];
	bool abstract[2];

	for (uint32_t i = 1; i < c->nports; i++)
		for (uint32_t j = 0; j < i; j++) {
			const struct conf_port *a = &c->ports[i], *b = &c->ports[j];
			size_t n = strcspn(a->dev, ",");

			if (strcspn(b->dev, ",") == n && memcmp(a->dev, b->dev, n) == 0) {
				snprintf(err, err_size,
				         "%s:%d: [port %s] dev: device %.*s belongs to [port %s]; "
				         "give each port its own",
				         file, a->dev_line, a->name, (int)n, a->dev, b->name);
				return -EINVAL;
			}
			if (conf_memif_socket(a->dev, sock[0], sizeof(sock[0]), &abstract[0]) !=
			            0 ||
			    conf_memif_socket(b->dev, sock[1], sizeof(sock[1]), &abstract[1]) !=
			            0 ||
			    abstract[0] != abstract[1] || strcmp(sock[0], sock[1]) != 0)
				continue;
			snprintf(err, err_size,
			         "%s:%d: [port %s] dev: socket %s belongs to [port %s]; give each "
			         "port its own",
			         file, a->dev_line, a->name, sock[0], b->name);
			return -EINVAL;
		}
	return 0;
}

static void
conf_serve_all(const struct conf *c, struct conf_worker *w)
{
	for (uint32_t i = 0; i < c->nports; i++)
		strcpy(w->ports[i], c->ports[i].name);
	w->nports = c->nports;
}

/* Without any [worker NAME]: make as many workers as asked for; each serves all ports. */
static void
conf_make_workers(struct conf *c)
{
	do {
		struct conf_worker *w = &c->workers[c->nworkers];

		memset(w, 0, sizeof(*w));
		for (unsigned int i = 0; i < conf_nsections; i++)
			if (strcmp(conf_sections[i].name, "worker") == 0)
				conf_section_defaults(&conf_sections[i], w);
		snprintf(w->name, sizeof(w->name), "w%" PRIu32, c->nworkers);
		conf_serve_all(c, w);
	} while (++c->nworkers < c->weft.workers);
}

int
conf_finish(struct conf *c, char *err, size_t err_size)
{
	const char *file = c->file[0] != '\0' ? c->file : "configuration";
	bool served[CONF_PORTS_MAX] = {false};

	if (c->nports == 0) {
		snprintf(err, err_size,
		         "%s: no port; add a [port NAME] section with dev and address or address6",
		         file);
		return -EINVAL;
	}
	for (uint32_t i = 1; i < c->nports; i++)
		for (uint32_t j = 0; j < i; j++)
			if (addr_same_host(&c->ports[i].addr, &c->ports[j].addr) ||
			    addr_same_host(&c->ports[i].addr6, &c->ports[j].addr6)) {
				snprintf(err, err_size,
				         "%s:%d: [port %s] address%s: the same as that of [port "
				         "%s]; give each "
				         "port its own",
				         file, c->ports[i].line, c->ports[i].name,
				         addr_same_host(&c->ports[i].addr, &c->ports[j].addr) ? ""
				                                                              : "6",
				         c->ports[j].name);
				return -EINVAL;
			}
	if (conf_check_devices(c, file, err, err_size) != 0)
		return -EINVAL;
	if (c->nworkers == 0) {
		conf_make_workers(c);
	} else if (c->weft.workers > 1) {
		snprintf(err, err_size,
		         "%s: [weft] workers: there are [worker NAME] sections; give either", file);
		return -EINVAL;
	}
	if (c->nworkers == 1 && c->workers[0].nports == 0)
		conf_serve_all(c, &c->workers[0]);
	for (uint32_t i = 0; i < c->nworkers; i++) {
		const struct conf_worker *w = &c->workers[i];

		if (w->nports == 0) {
			snprintf(err, err_size,
			         "%s:%d: [worker %s] ports: missing; say which ports it serves",
			         file, w->line, w->name);
			return -EINVAL;
		}
		for (uint32_t j = 0; j < i; j++)
			if (w->lcore >= 0 && w->lcore == c->workers[j].lcore) {
				snprintf(err, err_size,
				         "%s:%d: [worker %s] lcore: %d belongs to [worker %s]; "
				         "give each worker "
				         "its own",
				         file, w->line, w->name, w->lcore, c->workers[j].name);
				return -EINVAL;
			}
		for (uint32_t n = 0; n < w->nports; n++) {
			uint32_t p;

			for (p = 0; p < c->nports; p++)
				if (strcmp(c->ports[p].name, w->ports[n]) == 0)
					break;
			if (p == c->nports) {
				snprintf(err, err_size,
				         "%s:%d: [worker %s] ports: no [port %s]; name ports of "
				         "this file",
				         file, w->ports_line, w->name, w->ports[n]);
				return -EINVAL;
			}
			served[p] = true;
		}
	}
	for (uint32_t i = 0; i < c->nports; i++)
		if (!served[i]) {
			snprintf(err, err_size,
			         "%s:%d: [port %s]: no worker serves it; add it to the ports of a "
			         "[worker NAME]",
			         file, c->ports[i].line, c->ports[i].name);
			return -EINVAL;
		}
	if (c->target.host_auth != CONF_HOST_AUTH_NONE && c->nclients == 0) {
		snprintf(err, err_size,
		         "%s: [target] host_auth: nobody could pass; add a [client NAME] section "
		         "with key_file",
		         file);
		return -EINVAL;
	}
	for (uint32_t i = 1; i < c->nexports; i++)
		for (uint32_t j = 0; j < i; j++)
			if (c->exports[i].path[0] != '\0' &&
			    strcmp(c->exports[i].path, c->exports[j].path) == 0) {
				snprintf(err, err_size,
				         "%s:%d: [export %s] path: the same as that of [export "
				         "%s]; give each "
				         "export its own file",
				         file, c->exports[i].line, c->exports[i].name,
				         c->exports[j].name);
				return -EINVAL;
			}
	return 0;
}

int
conf_load_string(const char *name, const char *text, size_t len, struct conf *c, char *err,
                 size_t err_size)
{
	struct conf_load *l = calloc(1, sizeof(*l));
	const char *slash = strrchr(name, '/');
	int junk;

	if (l == NULL) {
		snprintf(err, err_size, "%s: out of memory", name);
		return -ENOMEM;
	}
	conf_defaults(c);
	snprintf(c->file, sizeof(c->file), "%s", name);
	*l = (struct conf_load){.conf = c,
	                        .name = name,
	                        .text = text,
	                        .end = text + len,
	                        .err = err,
	                        .err_size = err_size};
	if (slash != NULL && slash != name)
		snprintf(l->dir, sizeof(l->dir), "%.*s", (int)(slash - name), name);
	if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
		l->text += 3; /* a byte order mark */
	junk = ini_parse_stream(conf_read_line, l, conf_handler, l);
	if (junk < 0)
		conf_fault(l, l->line, NULL, "out of memory");
	else if (junk > 0)
		conf_junk(l, junk);
	conf_section_end(l);
	junk = l->fault_line;
	free(l);
	if (junk != 0)
		return -EINVAL;
	return conf_finish(c, err, err_size);
}

int
conf_load(const char *path, struct conf *c, char *err, size_t err_size)
{
	char why[CONF_ERR_MAX], *text;
	size_t len = 0;
	ssize_t n = 0;
	/* A target reads the file again at SIGHUP, so a file that can be read only once is
	 * refused. */
	int fd = file_open(path, why, sizeof(why)), rc;

	if (fd < 0) {
		snprintf(err, err_size, "%s: %s", path, why);
		return fd;
	}
	text = malloc(CONF_FILE_MAX + 1);
	while (text != NULL && len <= CONF_FILE_MAX &&
	       (n = read(fd, text + len, CONF_FILE_MAX + 1 - len)) > 0)
		len += (size_t)n;
	rc = text == NULL ? -ENOMEM : n < 0 ? -errno : 0;
	close(fd);
	if (rc != 0)
		snprintf(err, err_size, "%s: cannot be read: %s", path, strerror(-rc));
	else if (len > CONF_FILE_MAX)
		rc = -EFBIG,
		snprintf(err, err_size, "%s: larger than 1 MiB; is it a configuration file?", path);
	else
		rc = conf_load_string(path, text, len, c, err, err_size);
	free(text);
	return rc;
}

int
conf_add_port(struct conf *c, const char *name, const char *dev, const char *cidr,
              uint32_t mtu_bytes, char *err, size_t err_size)
{
	const char *comma = strchr(cidr, ','), *six;
	struct conf_port *p = &c->ports[c->nports];
	char four[64];
	char why[CONF_ERR_MAX];

	if (c->nports == CONF_PORTS_MAX || strlen(name) > CONF_NAME_MAX) {
		snprintf(err, err_size, "port %s: too many ports, or its name is too long", name);
		return -ENOSPC;
	}
	memset(p, 0, sizeof(*p));
	for (unsigned int i = 0; i < conf_nsections; i++)
		if (strcmp(conf_sections[i].name, "port") == 0)
			conf_section_defaults(&conf_sections[i], p);
	strcpy(p->name, name);
	if (*dev == '\0' || strlen(dev) >= sizeof(p->dev)) {
		snprintf(err, err_size, "port %s: device empty or too long", name);
		return -EINVAL;
	}
	strcpy(p->dev, dev);
	if (conf_check_dev(dev, why, sizeof(why)) != 0) {
		snprintf(err, err_size, "port %s (%s): %s", name, dev, why);
		return -EINVAL;
	}
	/* An address of each family, or the family that the only one looks like. */
	six = comma != NULL ? comma + 1 : strchr(cidr, ':') != NULL ? cidr : NULL;
	if (six != NULL && conf_parse_cidr6(six, &p->addr6, &p->prefix6_len) != 0) {
		snprintf(err, err_size,
		         "\"%s\" is not a host's IPv6 address with prefix length; write it like "
		         "fd00::2/64",
		         six);
		return -EINVAL;
	}
	/* Text that does not fit is no address, nor is its beginning. */
	snprintf(four, sizeof(four), "%.*s",
	         (int)strnlen(cidr, comma != NULL ? (size_t)(comma - cidr) : sizeof(four)), cidr);
	if (six != cidr && conf_parse_cidr(four, &p->addr, &p->prefix_len) != 0) {
		snprintf(err, err_size,
		         "\"%s\" is not a host's IPv4 address with prefix length; write it like "
		         "10.0.0.2/24",
		         cidr);
		return -EINVAL;
	}
	if (p->addr6.ss_family != 0 && mtu_bytes != 0 && mtu_bytes < CONF_IPV6_MTU) {
		snprintf(err, err_size, "port %s: IPv6 wants an mtu of 1280 or more", name);
		return -EINVAL;
	}
	if (mtu_bytes != 0)
		p->mtu_bytes = mtu_bytes;
	c->nports++;
	return 0;
}
