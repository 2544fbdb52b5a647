/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Parses one value of the configuration into its field, or gives the reason of the fault. */

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "addr.h"
#include "conf_key.h"
#include "host_auth.h"
#include <weft/hash.h>
#include <weft/offload.h>

int
conf_parse_size(const char *s, uint64_t *out)
{
	unsigned int shift = 0;
	unsigned long long v;
	char *end;

	if (*s < '0' || *s > '9')
		return -EINVAL;
	errno = 0;
	v = strtoull(s, &end, 10);
	if (errno == ERANGE)
		return -ERANGE;
	switch (*end) {
	case 'T':
	case 't':
		shift += 10;
		/* fallthrough */
	case 'G':
	case 'g':
		shift += 10;
		/* fallthrough */
	case 'M':
	case 'm':
		shift += 10;
		/* fallthrough */
	case 'K':
	case 'k':
		shift += 10;
		end++;
		break;
	default:
		break;
	}
	/* "16MiB" and "16MB" mean the same as "16M". */
	if (shift != 0 && end[0] == 'i' && end[1] == 'B')
		end += 2;
	if (*end != '\0')
		return -EINVAL;
	if (v > (uint64_t)INT64_MAX >> shift)
		return -ERANGE;
	*out = (uint64_t)v << shift;
	return 0;
}

static int
conf_parse_ipv4(const char *s, struct sockaddr_storage *addr)
{
	struct sockaddr_in *sin = (struct sockaddr_in *)addr;
	struct in_addr a;
	uint32_t h;

	if (inet_pton(AF_INET, s, &a) != 1)
		return -EINVAL;
	h = ntohl(a.s_addr);
	/* No host has such an address: "this network", loopback, multicast and above. */
	if (h >> 24 == 0 || h >> 24 == 127 || h >> 28 >= 0xe)
		return -EINVAL;
	memset(addr, 0, sizeof(*addr));
	sin->sin_family = AF_INET;
	sin->sin_addr = a;
	return 0;
}

/* Copies the address of "ADDRESS/LENGTH" to host, which has `size` octets, and returns the prefix
 * length; -EINVAL: the length is not from 1 to `most`, or the text has another form. */
static int
conf_split_cidr(const char *s, char *host, size_t size, unsigned long most)
{
	const char *slash = strchr(s, '/');
	char *end;
	unsigned long n;

	if (slash == NULL || (size_t)(slash - s) >= size || slash[1] < '0' || slash[1] > '9')
		return -EINVAL;
	memcpy(host, s, (size_t)(slash - s));
	host[slash - s] = '\0';
	n = strtoul(slash + 1, &end, 10);
	return *end == '\0' && n >= 1 && n <= most ? (int)n : -EINVAL;
}

int
conf_parse_cidr(const char *s, struct sockaddr_storage *addr, uint32_t *prefix_len)
{
	char host[INET_ADDRSTRLEN];
	int n = conf_split_cidr(s, host, sizeof(host), 32);
	uint32_t h, mask;

	if (n < 0 || conf_parse_ipv4(host, addr) != 0)
		return -EINVAL;
	h = ntohl(((struct sockaddr_in *)addr)->sin_addr.s_addr);
	mask = UINT32_MAX << (32 - n);
	/* The network's address and its broadcast address belong to no host (RFC 3021: with /31
	 * and /32 they do). */
	if (n < 31 && ((h & ~mask) == 0 || (h & ~mask) == ~mask))
		return -EINVAL;
	*prefix_len = (uint32_t)n;
	return 0;
}

static int
conf_parse_ipv6(const char *s, struct sockaddr_storage *addr)
{
	struct sockaddr_in6 *sin6 = (struct sockaddr_in6 *)addr;
	struct in6_addr a;

	if (inet_pton(AF_INET6, s, &a) != 1 || IN6_IS_ADDR_UNSPECIFIED(&a) ||
	    IN6_IS_ADDR_LOOPBACK(&a) || IN6_IS_ADDR_MULTICAST(&a) || IN6_IS_ADDR_V4MAPPED(&a))
		return -EINVAL;
	memset(addr, 0, sizeof(*addr));
	sin6->sin6_family = AF_INET6;
	sin6->sin6_addr = a;
	return 0;
}

int
conf_parse_cidr6(const char *s, struct sockaddr_storage *addr, uint32_t *prefix_len)
{
	char host[INET6_ADDRSTRLEN];
	int n = conf_split_cidr(s, host, sizeof(host), 128);

	if (n < 0 || conf_parse_ipv6(host, addr) != 0 || addr_is_link_local(addr))
		return -EINVAL;
	*prefix_len = (uint32_t)n;
	return 0;
}

int
conf_parse_metrics(const char *s, struct sockaddr_storage *to)
{
	const char *colon = strrchr(s, ':');
	const char *port = colon != NULL ? colon + 1 : s;
	char host[ADDR_STR_MAX];
	unsigned long n;
	char *end;

	memset(to, 0, sizeof(*to));
	if (*s == '\0' || strcmp(s, "off") == 0)
		return 0;
	n = strtoul(port, &end, 10);
	if (*port < '0' || *port > '9' || *end != '\0' || n == 0 || n > UINT16_MAX)
		return -EINVAL;
	if (colon == NULL)
		return addr_parse("127.0.0.1", (uint16_t)n, to);
	/* An address with colons has brackets: else its last part would be the port. */
	if ((size_t)(colon - s) >= sizeof(host) || (*s == '[') != (colon[-1] == ']') ||
	    (*s != '[' && memchr(s, ':', (size_t)(colon - s)) != NULL))
		return -EINVAL;
	snprintf(host, sizeof(host), "%.*s", (int)(colon - s), s);
	return addr_parse(host, (uint16_t)n, to);
}

static int
conf_rights(uint32_t *out, const char *value, char *why, size_t size)
{
	static const struct {
		const char *name;
		uint32_t bit;
	} right[] = {
	        {"read", CONF_RIGHT_READ},
	        {"write", CONF_RIGHT_WRITE},
	        {"flush", CONF_RIGHT_FLUSH},
	        {"verify", CONF_RIGHT_VERIFY},
	};
	const char *word;
	uint32_t v = 0;
	int n;

	while ((n = conf_word(&value, &word)) != 0) {
		unsigned int i;

		if (n < 0)
			return conf_why(why, size,
			                "empty word in the list; write read,write,flush,verify");
		for (i = 0; i < sizeof(right) / sizeof(right[0]); i++)
			if (strlen(right[i].name) == (size_t)n &&
			    memcmp(right[i].name, word, (size_t)n) == 0)
				break;
		if (i == sizeof(right) / sizeof(right[0]))
			return conf_why(
			        why, size,
			        "unknown right \"%.*s\"; there are read, write, flush, verify", n,
			        word);
		if (v & right[i].bit)
			return conf_why(why, size, "right \"%s\" twice; name it once",
			                right[i].name);
		v |= right[i].bit;
	}
	*out = v;
	return 0;
}

static int
conf_offloads(uint32_t *out, const char *value, char *why, size_t size)
{
	/* In the order of enum weft_offload. */
	static const char *const name[] = {"no-rx-checksum", "no-tx-checksum", "no-tso",
	                                   "no-scatter",     "no-gather",      "no-rss",
	                                   "no-vlan-strip",  "no-vlan-insert", "no-vlan-filter"};
	const char *word;
	uint32_t v = 0;
	int n;

	static_assert(WEFT_OFFLOAD_ALL == (1 << (sizeof(name) / sizeof(name[0]))) - 1, "names");
	if (strcmp(value, "auto") == 0 || strcmp(value, "none") == 0) {
		*out = *value == 'n' ? WEFT_OFFLOAD_ALL : 0;
		return 0;
	}
	while ((n = conf_word(&value, &word)) != 0) {
		unsigned int i;

		if (n < 0)
			return conf_why(why, size, "empty word in the list; write no-tso,no-rss");
		for (i = 0; i < sizeof(name) / sizeof(name[0]); i++)
			if (strlen(name[i]) == (size_t)n && memcmp(name[i], word, (size_t)n) == 0)
				break;
		if (i == sizeof(name) / sizeof(name[0]))
			return conf_why(why, size,
			                "\"%.*s\" names no offload to leave out; write auto, none, "
			                "or a list of " CONF_OFFLOAD_NAMES,
			                n, word);
		if (v & 1u << i)
			return conf_why(why, size, "%s twice; name it once", name[i]);
		v |= 1u << i;
	}
	*out = v;
	return 0;
}

static int
conf_names(struct conf_worker *w, const char *value, char *why, size_t size)
{
	const char *word;
	int n;

	w->nports = 0;
	while ((n = conf_word(&value, &word)) != 0) {
		if (n < 0)
			return conf_why(why, size,
			                "empty word in the list; write names with commas between");
		if (n > CONF_NAME_MAX)
			return conf_why(why, size, "name too long; %d octets at most",
			                CONF_NAME_MAX);
		if (w->nports == CONF_PORTS_MAX)
			return conf_why(why, size, "too many names; %d at most", CONF_PORTS_MAX);
		memcpy(w->ports[w->nports], word, (size_t)n);
		w->ports[w->nports][n] = '\0';
		for (uint32_t i = 0; i < w->nports; i++)
			if (strcmp(w->ports[i], w->ports[w->nports]) == 0)
				return conf_why(why, size, "port \"%s\" twice; name it once",
				                w->ports[i]);
		w->nports++;
	}
	return 0;
}

const char *
conf_net_str(const struct sockaddr_storage *addr, uint32_t prefix_len, char buf[ADDR_STR_MAX])
{
	size_t n = strlen(addr_host_str(addr, buf));

	if (prefix_len != 0)
		snprintf(buf + n, ADDR_STR_MAX - n, "/%" PRIu32, prefix_len);
	return buf;
}

/* Whether no bit is set behind the prefix. */
static bool
conf_is_network(const struct sockaddr_storage *a, uint32_t prefix_len)
{
	const uint8_t *p = a->ss_family == AF_INET
	                           ? (const uint8_t *)&((const struct sockaddr_in *)a)->sin_addr
	                           : ((const struct sockaddr_in6 *)a)->sin6_addr.s6_addr;

	for (uint32_t i = prefix_len; i < (a->ss_family == AF_INET ? 32u : 128u); i++)
		if (p[i / 8] & 0x80 >> i % 8)
			return false;
	return true;
}

/** One word of `listen_on`. */
static int
conf_listen_word(struct conf_listen *l, const char *word, size_t len, char *why, size_t size)
{
	char text[CONF_NAME_MAX + 32], host[INET6_ADDRSTRLEN];
	int n = 0;

	if (len >= sizeof(text))
		return conf_why(why, size, "too long for an address");
	memcpy(text, word, len);
	text[len] = '\0';
	memset(l, 0, sizeof(*l));
	if (strchr(text, '/') == NULL) {
		if (addr_parse(text, 0, &l->addr) != 0 || addr_is_any(&l->addr))
			return conf_why(why, size,
			                "\"%s\" is neither an address nor a network; write "
			                "10.0.0.1 or 10.7.0.0/24",
			                text);
		return 0;
	}
	n = conf_split_cidr(text, host, sizeof(host), strchr(text, ':') != NULL ? 128 : 32);
	if (n < 0 || addr_parse(host, 0, &l->addr) != 0)
		return conf_why(why, size,
		                "\"%s\" is neither an address nor a network; write 10.0.0.1 or "
		                "10.7.0.0/24",
		                text);
	if (!conf_is_network(&l->addr, (uint32_t)n))
		return conf_why(why, size,
		                "\"%s\" has bits set behind its prefix; write the network's "
		                "address, or the address alone",
		                text);
	l->prefix_len = (uint32_t)n;
	return 0;
}

static uint32_t
conf_listen_bits(const struct conf_listen *l)
{
	return l->prefix_len != 0 ? l->prefix_len : l->addr.ss_family == AF_INET ? 32 : 128;
}

static int
conf_listen_list(struct conf_listen *list, uint32_t *count, const char *value, char *why,
                 size_t size)
{
	char a[ADDR_STR_MAX], b[ADDR_STR_MAX];
	const char *word;
	int n;

	*count = 0;
	while ((n = conf_word(&value, &word)) != 0) {
		struct conf_listen *l = &list[*count];

		if (n < 0)
			return conf_why(
			        why, size,
			        "empty word in the list; write addresses with commas between");
		if (*count == CONF_LISTEN_MAX)
			return conf_why(why, size, "too many; %d at most", CONF_LISTEN_MAX);
		if (conf_listen_word(l, word, (size_t)n, why, size) != 0)
			return -EINVAL;
		for (uint32_t i = 0; i < *count; i++) {
			uint32_t bits = conf_listen_bits(l), other = conf_listen_bits(&list[i]);

			if (addr_same_net(&l->addr, &list[i].addr, bits < other ? bits : other))
				return conf_why(why, size, "%s and %s overlap; leave one out",
				                conf_net_str(&list[i].addr, list[i].prefix_len, a),
				                conf_net_str(&l->addr, l->prefix_len, b));
		}
		(*count)++;
	}
	return 0;
}

/** Names of clients. They are kept as the file has them, without blanks. */
static int
conf_clients(char *out, size_t out_size, const char *value, char *why, size_t size)
{
	const char *word;
	size_t len = 0;
	int n;

	memset(out, 0, out_size);
	if (strcmp(value, "any") == 0)
		return 0;
	while ((n = conf_word(&value, &word)) != 0) {
		char name[HOST_AUTH_NAME_MAX + 1];

		if (n < 0)
			return conf_why(why, size,
			                "empty word in the list; write names with commas between");
		snprintf(name, sizeof(name), "%.*s", n, word);
		if (n > HOST_AUTH_NAME_MAX || !host_auth_name_ok(name))
			return conf_why(why, size,
			                "\"%.*s\" is no name of a client; use up to %d letters, "
			                "digits, '-', '_' and '.'",
			                n < 80 ? n : 80, word, HOST_AUTH_NAME_MAX);
		if (strcmp(name, "any") == 0)
			return conf_why(why, size,
			                "any stands alone; leave the names out, or \"any\"");
		if (conf_has_client(out, name))
			return conf_why(why, size, "\"%s\" twice; name it once", name);
		if (len + (size_t)n + 2 > out_size)
			return conf_why(why, size, "longer than %zu octets", out_size - 1);
		len += (size_t)sprintf(out + len, "%s%s", len > 0 ? "," : "", name);
	}
	return 0;
}

static int
conf_choice(const struct conf_key *k, uint32_t *out, const char *value, char *why, size_t size)
{
	size_t len = strlen(value);
	uint32_t i = 0;

	for (const char *p = k->choices;; p++, i++) {
		size_t n = strcspn(p, "|");

		if (n == len && memcmp(p, value, n) == 0) {
			*out = i;
			return 0;
		}
		p += n;
		if (*p == '\0')
			break;
	}
	return conf_why(why, size, "\"%s\" is not one of %s", value, k->choices);
}

static int
conf_bool(bool *out, const char *value, char *why, size_t size)
{
	static const char *const yes[] = {"yes", "true", "on", "1"}, *const no[] = {"no", "false",
	                                                                            "off", "0"};

	for (unsigned int i = 0; i < sizeof(yes) / sizeof(yes[0]); i++) {
		if (strcmp(value, yes[i]) == 0 || strcmp(value, no[i]) == 0) {
			*out = strcmp(value, yes[i]) == 0;
			return 0;
		}
	}
	return conf_why(why, size, "\"%s\" is neither yes nor no", value);
}

static int
conf_number(const struct conf_key *k, int64_t *out, const char *value, char *why, size_t size)
{
	char *end;
	long long v;

	errno = 0;
	v = strtoll(value, &end, 10);
	if (*end != '\0' || end == value || (*value != '-' && (*value < '0' || *value > '9')))
		return conf_why(why, size,
		                "\"%s\" is not a number; give one from %" PRId64 " to %" PRId64,
		                value, k->min, k->max);
	if (errno == ERANGE || v < k->min || v > k->max)
		return conf_why(why, size, "%s is out of range; give %" PRId64 " to %" PRId64,
		                value, k->min, k->max);
	*out = v;
	return 0;
}

static int
conf_size(const struct conf_key *k, uint64_t *out, const char *value, char *why, size_t size)
{
	int rc = conf_parse_size(value, out);

	if (rc == -EINVAL)
		return conf_why(why, size,
		                "\"%s\" is not a size; give octets, or a number with K, M, G or T",
		                value);
	if (rc != 0)
		return conf_why(why, size, "\"%s\" is too large", value);
	if (*out < (uint64_t)k->min)
		return conf_why(why, size, "\"%s\" is too small; at least %" PRId64 " octets",
		                value, k->min);
	return 0;
}

static int
conf_hash(char *out, size_t out_size, const char *value, char *why, size_t size)
{
	char names[512] = "";
	const struct weft_hash_ops *ops;

	if (weft_hash_find(value) == NULL || strlen(value) >= out_size) {
		for (unsigned int i = 0; (ops = weft_hash_get(i)) != NULL; i++) {
			size_t n = strlen(names);

			snprintf(names + n, sizeof(names) - n, "%s%s", i > 0 ? ", " : "",
			         ops->name);
		}
		return conf_why(why, size, "no hash driver \"%s\"; there are: %s", value, names);
	}
	strcpy(out, value);
	return 0;
}

/** A number, or a name of IANA's registry of Differentiated Services Field Codepoints. */
static int
conf_dscp(uint32_t *out, const char *value, char *why, size_t size)
{
	static const struct {
		const char *name;
		uint8_t dscp;
	} other[] = {{"ef", 46}, {"va", 44}, {"le", 1}};
	unsigned int class, drop;
	char *end;

	if (*value >= '0' && *value <= '9') {
		unsigned long v = strtoul(value, &end, 10);

		if (*end == '\0' && v <= 63) {
			*out = (uint32_t)v;
			return 0;
		}
	}
	for (unsigned int i = 0; i < sizeof(other) / sizeof(other[0]); i++)
		if (strcasecmp(value, other[i].name) == 0) {
			*out = other[i].dscp;
			return 0;
		}
	class = strlen(value) > 2 ? (unsigned int)(unsigned char)value[2] - '0' : 10;
	drop = strlen(value) > 3 ? (unsigned int)(unsigned char)value[3] - '0' : 10;
	if (strncasecmp(value, "cs", 2) == 0 && strlen(value) == 3 && class <= 7) {
		*out = class << 3; /* RFC 2474 s4.2.2 */
		return 0;
	}
	if (strncasecmp(value, "af", 2) == 0 && strlen(value) == 4 && class >= 1 && class <= 4 &&
	    drop >= 1 && drop <= 3) {
		*out = class << 3 | drop << 1; /* RFC 2597 s6 */
		return 0;
	}
	return conf_why(why, size,
	                "\"%s\" is no DSCP; give 0 to 63, or cs0 to cs7, af11 to af43, ef, va, le",
	                value);
}

/** The parser's error as text. */
static int
conf_host(int rc, const char *what, const char *example, const char *value, char *why,
          size_t why_size)
{
	if (rc == 0)
		return 0;
	return conf_why(why, why_size, "\"%s\" is not a host's %s; write it like %s", value, what,
	                example);
}

int
conf_value(const struct conf_key *k, void *section, const char *value, const char *dir, char *why,
           size_t why_size)
{
	char *at = (char *)section + k->off, *at2 = (char *)section + k->off2;
	int64_t number = 0;
	int rc;

	if (*value == '\0')
		return conf_why(why, why_size, "empty; give a value or leave the line out");
	switch (k->type) {
	case CONF_T_STR:
		if (strlen(value) >= k->size)
			return conf_why(why, why_size, "too long; %zu octets at most", k->size - 1);
		strcpy(at, value);
		return 0;
	case CONF_T_PATH:
		if ((size_t)snprintf(at, k->size, "%s%s%s", value[0] == '/' ? "" : dir,
		                     value[0] == '/' || *dir == '\0' ? "" : "/", value) >= k->size)
			return conf_why(why, why_size, "too long; %zu octets at most", k->size - 1);
		return 0;
	case CONF_T_U32:
	case CONF_T_I32:
		rc = conf_number(k, &number, value, why, why_size);
		if (rc == 0 && k->type == CONF_T_U32)
			*(uint32_t *)at = (uint32_t)number;
		else if (rc == 0)
			*(int32_t *)at = (int32_t)number;
		return rc;
	case CONF_T_BOOL:
		return conf_bool((bool *)at, value, why, why_size);
	case CONF_T_SIZE:
		return conf_size(k, (uint64_t *)at, value, why, why_size);
	case CONF_T_CIDR:
		return conf_host(conf_parse_cidr(value, (void *)at, (void *)at2),
		                 "IPv4 address with prefix length", "10.0.0.1/24", value, why,
		                 why_size);
	case CONF_T_IPV4:
		return conf_host(conf_parse_ipv4(value, (void *)at), "IPv4 address", "10.0.0.254",
		                 value, why, why_size);
	case CONF_T_CIDR6:
		return conf_host(conf_parse_cidr6(value, (void *)at, (void *)at2),
		                 "IPv6 address with prefix length", "fd00::1/64", value, why,
		                 why_size);
	case CONF_T_IPV6:
		return conf_host(conf_parse_ipv6(value, (void *)at), "IPv6 address", "fd00::fffe",
		                 value, why, why_size);
	case CONF_T_CHOICE:
		return conf_choice(k, (uint32_t *)at, value, why, why_size);
	case CONF_T_RIGHTS:
		return conf_rights((uint32_t *)at, value, why, why_size);
	case CONF_T_NAMES:
		return conf_names(section, value, why, why_size);
	case CONF_T_LISTEN:
		*(uint32_t *)at2 = 0;
		return k->min > 0 && strcmp(value, "any") == 0
		               ? 0
		               : conf_listen_list((void *)at, (void *)at2, value, why, why_size);
	case CONF_T_CLIENTS:
		return conf_clients(at, k->size, value, why, why_size);
	case CONF_T_NAMESPACES:
		return conf_namespaces((void *)at, (void *)at2, value, why, why_size);
	case CONF_T_HOSTS:
		return conf_hosts(at, k->size, value, why, why_size);
	case CONF_T_DSCP:
		return conf_dscp((uint32_t *)at, value, why, why_size);
	case CONF_T_HASH:
		return conf_hash(at, k->size, value, why, why_size);
	case CONF_T_OFFLOADS:
		return conf_offloads((uint32_t *)at, value, why, why_size);
	}
	return -EINVAL;
}
