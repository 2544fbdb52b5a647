/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Checks the arguments of a device string, "net_memif0,role=server,id=0", against the drivers
 * of DPDK 22.11. The drivers themselves report little, misread some arguments, and most of them
 * dereference the NULL that they get for a key without a value.
 */

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conf_key.h"
#include <weft/device.h>

#define DEV_NAME_MAX      63 /* RTE_DEV_NAME_MAX_LEN, without the terminator */
#define DEV_SLAVES_MAX    8  /* BOND_LEGS_MAX of netif_bond.c */
#define DEV_ARGS_MAX      32 /* RTE_KVARGS_MAX: with more, drivers see no argument */
#define DEV_RING_NAME_MAX 17 /* the part of RTE_RING_NAMESIZE that "ETH_RXTX15_" leaves */

enum dev_arg_kind {
	DEV_NUMBER, /**< min to max, decimal */
	DEV_YES_NO,
	DEV_TEXT, /**< 1 to max octets */
	DEV_MAC,
	DEV_IFACE, /**< an existing network interface */
	DEV_FILE,  /**< an existing regular file */
	DEV_WORD,  /**< one of `words` */
	DEV_SLAVE, /**< a device, in brackets if it has arguments */
};

struct dev_arg {
	const char *key;
	enum dev_arg_kind kind;
	uint64_t min, max;
	bool many; /**< may be given several times */
	const char *words;
};

/** A parsed device string. */
struct dev_args {
	const char *driver;
	char name[DEV_NAME_MAX + 1];
	char text[CONF_PATH_MAX]; /* storage of the keys and values */
	unsigned int n;
	struct {
		const char *key, *value; /* value NULL: there is no = */
	} arg[DEV_ARGS_MAX];
};

struct dev_driver {
	const char *name, *alias; /**< how a device's name begins; alias or NULL */
	const struct dev_arg *args;
	unsigned int nargs;
	/** Check of the arguments together, or NULL. 0, or -EINVAL with the reason in why. */
	int (*check)(const struct dev_args *a, char *why, size_t why_size);
};

/* ---- Values ---- */

static const char *
dev_value(const struct dev_args *a, const char *key)
{
	for (unsigned int i = 0; i < a->n; i++)
		if (strcmp(a->arg[i].key, key) == 0)
			return a->arg[i].value;
	return NULL;
}

/** Value of a number that was checked; dflt without the key. */
static uint64_t
dev_number(const struct dev_args *a, const char *key, uint64_t dflt)
{
	const char *v = dev_value(a, key);

	return v != NULL ? strtoull(v, NULL, 10) : dflt;
}

static int
dev_check_number(const struct dev_arg *k, const char *v, char *why, size_t why_size)
{
	const size_t n = strlen(v);
	uint64_t u;

	if (n == 0 || n > 10 || strspn(v, "0123456789") != n)
		return conf_why(why, why_size, "%s=%s: is no number; %" PRIu64 " to %" PRIu64,
		                k->key, v, k->min, k->max);
	u = strtoull(v, NULL, 10);
	if (u < k->min || u > k->max)
		return conf_why(why, why_size, "%s=%s: %" PRIu64 " to %" PRIu64 " are possible",
		                k->key, v, k->min, k->max);
	return 0;
}

static int
dev_check_mac(const struct dev_arg *k, const char *v, char *why, size_t why_size)
{
	unsigned int b[6];
	int end = 0;

	if (sscanf(v, "%2x:%2x:%2x:%2x:%2x:%2x%n", &b[0], &b[1], &b[2], &b[3], &b[4], &b[5],
	           &end) != 6 ||
	    v[end] != '\0' || strspn(v, "0123456789abcdefABCDEF:") != strlen(v))
		return conf_why(why, why_size,
		                "%s=%s: is no Ethernet address; write it like 02:00:00:00:00:01",
		                k->key, v);
	if ((b[0] & 1) != 0 || (b[0] | b[1] | b[2] | b[3] | b[4] | b[5]) == 0)
		return conf_why(why, why_size,
		                "%s=%s: is the address of no single host; write one like "
		                "02:00:00:00:00:01",
		                k->key, v);
	return 0;
}

static int
dev_check_iface(const struct dev_arg *k, const char *v, char *why, size_t why_size)
{
	if (strlen(v) >= IF_NAMESIZE)
		return conf_why(why, why_size, "%s: the name is too long; %d octets at most",
		                k->key, IF_NAMESIZE - 1);
	if (if_nametoindex(v) == 0)
		return conf_why(why, why_size, "%s=%s: there is no such network interface", k->key,
		                v);
	return 0;
}

static int
dev_check_file(const struct dev_arg *k, const char *v, char *why, size_t why_size)
{
	struct stat st;

	if (stat(v, &st) != 0)
		return conf_why(why, why_size, "%s=%s: %s", k->key, v, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return conf_why(why, why_size, "%s=%s: is not a regular file", k->key, v);
	if (access(v, R_OK) != 0)
		return conf_why(why, why_size, "%s=%s: %s", k->key, v, strerror(errno));
	return 0;
}

static int
dev_check_word(const struct dev_arg *k, const char *v, char *why, size_t why_size)
{
	const size_t len = strlen(v);

	for (const char *p = k->words; *p != '\0'; p += strspn(p, "|")) {
		const size_t n = strcspn(p, "|");

		if (n == len && memcmp(p, v, n) == 0)
			return 0;
		p += n;
	}
	return conf_why(why, why_size, "%s=%s: is none of %s", k->key, v, k->words);
}

/* A device of its own, whose arguments are checked as those of any other. */
static int
dev_check_slave(const char *v, char *why, size_t why_size)
{
	const size_t len = strlen(v);
	char dev[CONF_PATH_MAX], sub[CONF_ERR_MAX / 2];

	if (*v != '[')
		snprintf(dev, sizeof(dev), "%s", v);
	else if (v[len - 1] == ']' && strcspn(v + 1, "[") == len - 1)
		snprintf(dev, sizeof(dev), "%.*s", (int)(len - 2), v + 1);
	else
		return conf_why(why, why_size,
		                "slave=%s: a slave with arguments is [DEVICE,KEY=VALUE,...]", v);
	if (strncmp(dev, "net_bonding", 11) == 0 || strncmp(dev, "eth_bond", 8) == 0)
		return conf_why(why, why_size, "slave=%s: is a bonded port itself", v);
	if (conf_check_dev_args(dev, sub, sizeof(sub)) != 0)
		return conf_why(why, why_size, "slave=%s: %s", v, sub);
	return 0;
}

static int
dev_check_value(const struct dev_arg *k, const char *v, char *why, size_t why_size)
{
	switch (k->kind) {
	case DEV_NUMBER:
		return dev_check_number(k, v, why, why_size);
	case DEV_YES_NO:
		if (strcmp(v, "yes") != 0 && strcmp(v, "no") != 0)
			return conf_why(why, why_size, "%s=%s: yes or no", k->key, v);
		return 0;
	case DEV_MAC:
		return dev_check_mac(k, v, why, why_size);
	case DEV_IFACE:
		return dev_check_iface(k, v, why, why_size);
	case DEV_FILE:
		return dev_check_file(k, v, why, why_size);
	case DEV_WORD:
		return dev_check_word(k, v, why, why_size);
	case DEV_SLAVE:
		return dev_check_slave(v, why, why_size);
	case DEV_TEXT:
	default:
		if (strlen(v) > k->max)
			return conf_why(why, why_size,
			                "%s: is too long; %" PRIu64 " octets at most", k->key,
			                k->max);
		return 0;
	}
}

/* ---- Rules of a driver for several arguments together ---- */

static int
dev_need_iface(const struct dev_args *a, char *why, size_t why_size)
{
	if (dev_value(a, "iface") != NULL)
		return 0;
	return conf_why(why, why_size, "iface is missing; write %s,iface=NAME", a->name);
}

/* The kernel's rules for a ring (packet_mmap), and the driver's: its frames lie side by side. */
static int
dev_check_af_packet(const struct dev_args *a, char *why, size_t why_size)
{
	const uint64_t page = (uint64_t)getpagesize(), block = dev_number(a, "blocksz", page),
	               frame = dev_number(a, "framesz", 2048),
	               count = dev_number(a, "framecnt", 512);

	if (dev_need_iface(a, why, why_size) != 0)
		return -EINVAL;
	if (frame % 16 != 0)
		return conf_why(why, why_size, "framesz=%" PRIu64 ": is no multiple of 16", frame);
	if (block % page != 0)
		return conf_why(why, why_size,
		                "blocksz=%" PRIu64 ": is no multiple of a page (%" PRIu64 ")",
		                block, page);
	if (block % frame != 0)
		return conf_why(why, why_size,
		                "blocksz=%" PRIu64 ": is no multiple of framesz (%" PRIu64 ")",
		                block, frame);
	if (count % (block / frame) != 0)
		return conf_why(why, why_size,
		                "framecnt=%" PRIu64 ": does not fill whole blocks, of %" PRIu64
		                " frames each",
		                count, block / frame);
	if (count * frame > INT32_MAX)
		return conf_why(why, why_size,
		                "framecnt=%" PRIu64 ": is too many; a ring has less than 2 GiB",
		                count);
	return 0;
}

/** Queues of an interface; 0: not known. */
static unsigned int
dev_queues(const char *iface)
{
	char path[64 + IF_NAMESIZE];
	unsigned int rx = 0, tx = 0;
	const struct dirent *e;
	DIR *d;

	snprintf(path, sizeof(path), "/sys/class/net/%.*s/queues", IF_NAMESIZE, iface);
	d = opendir(path);
	while (d != NULL && (e = readdir(d)) != NULL) {
		rx += strncmp(e->d_name, "rx-", 3) == 0;
		tx += strncmp(e->d_name, "tx-", 3) == 0;
	}
	if (d != NULL)
		closedir(d);
	return rx > tx ? rx : tx;
}

static int
dev_check_af_xdp(const struct dev_args *a, char *why, size_t why_size)
{
	const uint64_t from = dev_number(a, "start_queue", 0), n = dev_number(a, "queue_count", 1);
	unsigned int have;

	if (dev_need_iface(a, why, why_size) != 0)
		return -EINVAL;
	have = dev_queues(dev_value(a, "iface"));
	if (have != 0 && from + n > have)
		return conf_why(why, why_size,
		                "queues %" PRIu64 " to %" PRIu64 ": the interface has 0 to %u",
		                from, from + n - 1, have - 1);
	return 0;
}

/** Whether an interface is a tun or tap device, or does not exist and can become one. */
static bool
dev_may_be_tap(const char *iface)
{
	struct ethtool_drvinfo info = {.cmd = ETHTOOL_GDRVINFO};
	struct ifreq ifr = {0};
	int fd, rc;

	if (if_nametoindex(iface) == 0)
		return true;
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return true;
	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", iface);
	ifr.ifr_data = (void *)&info;
	rc = ioctl(fd, SIOCETHTOOL, &ifr);
	close(fd);
	return rc == 0 && strcmp(info.driver, "tun") == 0;
}

static int
dev_check_tap(const struct dev_args *a, char *why, size_t why_size)
{
	static const struct dev_arg mac = {"mac", DEV_MAC, 0, 0, false, NULL};
	const char *iface = dev_value(a, "iface"), *v = dev_value(a, "mac");

	if (v != NULL && strncasecmp(v, "fixed", 5) != 0 &&
	    dev_check_mac(&mac, v, why, why_size) != 0)
		return -EINVAL;
	if (iface == NULL)
		return 0;
	for (const char *p = iface; *p != '\0'; p++)
		if (*p == '/' || *p == ':' || isspace((unsigned char)*p))
			return conf_why(why, why_size,
			                "iface=%s: is no name for a network interface", iface);
	if (!dev_may_be_tap(iface))
		return conf_why(why, why_size,
		                "iface=%s: is a network interface already, and none of a tap",
		                iface);
	return 0;
}

static int
dev_check_ring(const struct dev_args *a, char *why, size_t why_size)
{
	const char *v = dev_value(a, "nodeaction");
	const size_t n = strlen(a->name);
	char path[64], *end;
	unsigned long node;

	if (n > DEV_RING_NAME_MAX)
		return conf_why(why, why_size, "the name is too long; %d octets at most for a %s",
		                DEV_RING_NAME_MAX, a->driver);
	if (v == NULL)
		return 0;
	/* The port gets the name that is given here, and ATTACH finds no rings in a new process. */
	if (strncmp(v, a->name, n) != 0 || v[n] != ':' || !isdigit((unsigned char)v[n + 1]))
		return conf_why(why, why_size, "nodeaction=%s: write %s:NODE:CREATE", v, a->name);
	node = strtoul(v + n + 1, &end, 10);
	if (strcmp(end, ":CREATE") != 0)
		return conf_why(why, why_size, "nodeaction=%s: write %s:NODE:CREATE", v, a->name);
	snprintf(path, sizeof(path), "/sys/devices/system/node/node%lu", node);
	if (node != 0 && access(path, F_OK) != 0)
		return conf_why(why, why_size, "nodeaction=%s: there is no NUMA node %lu", v, node);
	return 0;
}

static int
dev_check_null(const struct dev_args *a, char *why, size_t why_size)
{
	if (dev_number(a, "copy", 0) != 0 && dev_number(a, "no-rx", 0) != 0)
		return conf_why(why, why_size, "copy and no-rx exclude each other; leave one out");
	return 0;
}

static int
dev_check_pcap(const struct dev_args *a, char *why, size_t why_size)
{
	static const char *const queues[] = {"iface",    "rx_iface", "rx_iface_in",
	                                     "tx_iface", "rx_pcap",  "tx_pcap"};
	const char *v = dev_value(a, "tx_pcap"), *slash;
	unsigned int given = 0;
	char dir[CONF_PATH_MAX];

	for (size_t i = 0; i < sizeof(queues) / sizeof(queues[0]); i++)
		given += dev_value(a, queues[i]) != NULL;
	if (given == 0)
		return conf_why(why, why_size, "iface is missing; write %s,iface=NAME", a->name);
	if (given > 1 && dev_value(a, "iface") != NULL)
		return conf_why(why, why_size,
		                "iface is for both directions; leave rx_... and tx_... out");
	if (v == NULL)
		return 0;
	slash = strrchr(v, '/');
	snprintf(dir, sizeof(dir), "%.*s", slash != NULL ? (int)(slash - v) + 1 : 1,
	         slash != NULL ? v : ".");
	if (access(dir, W_OK | X_OK) != 0)
		return conf_why(why, why_size, "tx_pcap=%s: %s: %s", v, dir, strerror(errno));
	return 0;
}

/** The name of a slave, without brackets and arguments. */
static int
dev_slave_name(const char *v, const char **name)
{
	*name = v + (*v == '[');
	return (int)strcspn(*name, ",]");
}

static int
dev_check_bonding(const struct dev_args *a, char *why, size_t why_size)
{
	const char *primary = dev_value(a, "primary"), *name[DEV_ARGS_MAX];
	int len[DEV_ARGS_MAX];
	unsigned int n = 0;
	bool found = primary == NULL;

	if (dev_value(a, "mode") == NULL)
		return conf_why(why, why_size,
		                "mode is missing; mode=1 is active-backup, mode=4 is LACP");
	for (unsigned int i = 0; i < a->n; i++) {
		if (strcmp(a->arg[i].key, "slave") != 0)
			continue;
		len[n] = dev_slave_name(a->arg[i].value, &name[n]);
		found = found || (strlen(primary) == (size_t)len[n] &&
		                  memcmp(primary, name[n], (size_t)len[n]) == 0);
		for (unsigned int j = 0; j < n; j++)
			if (len[j] == len[n] && memcmp(name[j], name[n], (size_t)len[n]) == 0)
				return conf_why(why, why_size, "slave %.*s is named twice", len[n],
				                name[n]);
		n++;
	}
	if (n == 0)
		return conf_why(
		        why, why_size,
		        "slave is missing; write slave=DEVICE, or slave=[DEVICE,KEY=VALUE], "
		        "for each");
	if (n > DEV_SLAVES_MAX)
		return conf_why(why, why_size, "%u slaves; %d at most", n, DEV_SLAVES_MAX);
	if (!found)
		return conf_why(why, why_size, "primary=%s: is none of the slaves", primary);
	return 0;
}

/* ---- The drivers ---- */

static const struct dev_arg dev_memif[] = {
        {"role", DEV_TEXT, 0, 31, false, NULL}, /* conf_check_dev() */
        {"id", DEV_NUMBER, 0, UINT32_MAX, false, NULL},
        {"socket", DEV_TEXT, 0, CONF_PATH_MAX, false, NULL}, /* conf_check_dev() */
        {"socket-abstract", DEV_YES_NO, 0, 0, false, NULL},
        {"bsize", DEV_NUMBER, 1, UINT16_MAX, false, NULL},
        {"rsize", DEV_NUMBER, 1, 14, false, NULL},
        {"mac", DEV_MAC, 0, 0, false, NULL},
        {"zero-copy", DEV_YES_NO, 0, 0, false, NULL},
        {"secret", DEV_TEXT, 0, 23, false, NULL}, /* the driver cuts longer ones */
};

static const struct dev_arg dev_af_packet[] = {
        {"iface", DEV_IFACE, 0, 0, false, NULL},
        /* The kernel distributes frames over all queues, and weft receives from the first only. */
        {"qpairs", DEV_NUMBER, 1, 1, false, NULL},
        {"blocksz", DEV_NUMBER, 1, INT32_MAX, false, NULL},
        {"framesz", DEV_NUMBER, 64, INT32_MAX, false, NULL},
        {"framecnt", DEV_NUMBER, 1, INT32_MAX, false, NULL},
        {"qdisc_bypass", DEV_NUMBER, 0, 1, false, NULL},
};

static const struct dev_arg dev_af_xdp[] = {
        {"iface", DEV_IFACE, 0, 0, false, NULL},
        {"start_queue", DEV_NUMBER, 0, UINT16_MAX, false, NULL},
        {"queue_count", DEV_NUMBER, 1, UINT16_MAX, false, NULL},
        {"shared_umem", DEV_NUMBER, 0, 1, false, NULL},
        {"xdp_prog", DEV_FILE, 0, 0, false, NULL},
        {"busy_budget", DEV_NUMBER, 0, UINT16_MAX, false, NULL},
        {"force_copy", DEV_NUMBER, 0, 1, false, NULL},
};

static const struct dev_arg dev_tap[] = {
        {"iface", DEV_TEXT, 0, IF_NAMESIZE - 1, false, NULL},
        {"remote", DEV_IFACE, 0, 0, false, NULL},
        {"mac", DEV_TEXT, 0, 31, false, NULL}, /* dev_check_tap() */
        {"persist", DEV_NUMBER, 1, 1, false, NULL},
};

/* "internal" is left out: an address in memory, for DPDK's own use. */
static const struct dev_arg dev_ring[] = {{"nodeaction", DEV_TEXT, 0, 63, false, NULL}};

static const struct dev_arg dev_null[] = {
        /* The driver copies this many octets into buffers that may be smaller, without a check. */
        {"size", DEV_NUMBER, 1, 2048, false, NULL},
        {"copy", DEV_NUMBER, 0, 1, false, NULL},
        {"no-rx", DEV_NUMBER, 0, 1, false, NULL},
};

static const struct dev_arg dev_pcap[] = {
        {"iface", DEV_IFACE, 0, 0, false, NULL},
        {"rx_iface", DEV_IFACE, 0, 0, true, NULL},
        {"rx_iface_in", DEV_IFACE, 0, 0, true, NULL},
        {"tx_iface", DEV_IFACE, 0, 0, true, NULL},
        {"rx_pcap", DEV_FILE, 0, 0, true, NULL},
        {"tx_pcap", DEV_TEXT, 0, CONF_PATH_MAX, true, NULL},
        {"phy_mac", DEV_NUMBER, 0, 1, false, NULL},
        {"infinite_rx", DEV_NUMBER, 0, 1, false, NULL},
};

/* The driver of 22.11 refuses lsc_poll_period_ms, up_delay and down_delay of its guide. */
static const struct dev_arg dev_bonding[] = {
        {"mode", DEV_NUMBER, 0, 6, false, NULL},
        {"slave", DEV_SLAVE, 0, 0, true, NULL},
        {"primary", DEV_TEXT, 0, DEV_NAME_MAX, false, NULL}, /* dev_check_bonding() */
        {"xmit_policy", DEV_WORD, 0, 0, false, "l2|l23|l34"},
        {"agg_mode", DEV_WORD, 0, 0, false, "stable|bandwidth|count"},
        {"mac", DEV_MAC, 0, 0, false, NULL},
        {"socket_id", DEV_NUMBER, 0, 31, false, NULL},
};

#define DEV_ARGS(a) (a), sizeof(a) / sizeof((a)[0])

static const struct dev_driver dev_drivers[] = {
        {"net_memif", NULL, DEV_ARGS(dev_memif), NULL},
        {"net_af_packet", "eth_af_packet", DEV_ARGS(dev_af_packet), dev_check_af_packet},
        {"net_af_xdp", NULL, DEV_ARGS(dev_af_xdp), dev_check_af_xdp},
        {"net_tap", "eth_tap", DEV_ARGS(dev_tap), dev_check_tap},
        {"net_ring", "eth_ring", DEV_ARGS(dev_ring), dev_check_ring},
        {"net_null", "eth_null", DEV_ARGS(dev_null), dev_check_null},
        {"net_pcap", "eth_pcap", DEV_ARGS(dev_pcap), dev_check_pcap},
        {"net_bonding", "eth_bond", DEV_ARGS(dev_bonding), dev_check_bonding},
};

static const struct dev_driver *
dev_driver(const char *dev)
{
	for (size_t i = 0; i < sizeof(dev_drivers) / sizeof(dev_drivers[0]); i++) {
		const struct dev_driver *d = &dev_drivers[i];

		if (strncmp(dev, d->name, strlen(d->name)) == 0 ||
		    (d->alias != NULL && strncmp(dev, d->alias, strlen(d->alias)) == 0))
			return d;
	}
	return NULL;
}

bool
conf_dev_known(const char *dev)
{
	return dev_driver(dev) != NULL;
}

bool
conf_dev_unseen(const char *dev)
{
	return !conf_dev_known(dev) && (strchr(dev, ',') != NULL || strncmp(dev, "net_", 4) == 0 ||
	                                strncmp(dev, "eth_", 4) == 0);
}

/* Split as DPDK does: a comma within [] is part of a value. Unlike DPDK, malformed input is
 * refused. */
static int
dev_split(const char *dev, struct dev_args *a, char *why, size_t why_size)
{
	const size_t len = strcspn(dev, ",");
	bool in_list = false;
	char *p = a->text, *start = p, *eq, shown[CONF_PATH_MAX];

	a->n = 0;
	if (len == 0 || len > DEV_NAME_MAX)
		return conf_why(why, why_size, "a device's name has 1 to %d octets", DEV_NAME_MAX);
	memcpy(a->name, dev, len);
	a->name[len] = '\0';
	if (dev[len] == '\0')
		return 0;
	snprintf(a->text, sizeof(a->text), "%s", dev + len + 1);
	for (bool more = true; more; p++) {
		in_list = *p == '[' || (in_list && *p != ']');
		if (*p != '\0' && (*p != ',' || in_list))
			continue;
		more = *p != '\0';
		*p = '\0';
		if (*start == '\0')
			return conf_why(
			        why, why_size,
			        "an argument is empty; one comma stands between two of them");
		if (a->n == DEV_ARGS_MAX)
			return conf_why(why, why_size, "too many arguments; %d at most",
			                DEV_ARGS_MAX);
		eq = strchr(start, '=');
		if (eq == NULL || eq[1] == '\0')
			return conf_why(why, why_size, "%.*s has no value; write %.*s=...",
			                (int)strcspn(start, "="), start, (int)strcspn(start, "="),
			                start);
		if (eq == start)
			return conf_why(why, why_size, "%s: there is nothing before the =", start);
		*eq = '\0';
		if (eq[1] != '[' && strchr(eq + 1, '=') != NULL) {
			*eq = '=';
			return conf_why(why, why_size, "%s: a value has no = for DPDK",
			                weft_device_clean(start, shown, sizeof(shown)));
		}
		a->arg[a->n].key = start;
		a->arg[a->n++].value = eq + 1;
		start = p + 1;
	}
	return 0;
}

int
conf_check_dev_args(const char *dev, char *why, size_t why_size)
{
	const struct dev_driver *d = dev_driver(dev);
	struct dev_args a;

	if (dev_split(dev, &a, why, why_size) != 0)
		return -EINVAL;
	if (d == NULL)
		return 0;
	a.driver = d->name;
	for (unsigned int i = 0; i < a.n; i++) {
		const struct dev_arg *k = NULL;
		char all[128] = "";

		for (unsigned int j = 0; j < d->nargs; j++) {
			const size_t at = strlen(all);

			snprintf(all + at, sizeof(all) - at, "%s%s", j > 0 ? ", " : "",
			         d->args[j].key);
			if (strcmp(d->args[j].key, a.arg[i].key) == 0)
				k = &d->args[j];
		}
		if (k == NULL)
			return conf_why(why, why_size,
			                "%s: a %s has no such argument; there are %s", a.arg[i].key,
			                d->name, all);
		for (unsigned int j = 0; j < i; j++)
			if (!k->many && strcmp(a.arg[j].key, k->key) == 0)
				return conf_why(why, why_size, "%s is given twice; keep one",
				                k->key);
		if (dev_check_value(k, a.arg[i].value, why, why_size) != 0)
			return -EINVAL;
	}
	return d->check != NULL ? d->check(&a, why, why_size) : 0;
}
