/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_CONF_H
#define WEFT_APPS_CONF_H

/**
 * @file The configuration file of all weft programs.
 *
 * The file is INI, read with libinih. Every section and key is a row of a table in conf_key.c,
 * conf_tcp.c or conf_mpa.c. conf_print_reference() prints docs/configuration.md from these rows; a
 * test compares the two. A program uses the sections that it needs and ignores the others.
 *
 * An error ends the load with one line, "FILE:LINE: [section] key: what is wrong; what to do".
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>

#include <weft/weft.h>

#include "addr.h"
#include "conf_export.h"
#include "conf_nvmf.h"

#define CONF_PORTS_MAX    8
#define CONF_WORKERS_MAX  8
#define CONF_NETWORKS_MAX (CONF_PORTS_MAX * WEFT_MAX_NETWORKS) /**< sections [network NAME] */
#define CONF_EXPORTS_MAX  4096
#define CONF_CLIENTS_MAX  64
#define CONF_EAL_MAX      512
#define CONF_ERR_MAX      512 /**< enough for every message */

/** [weft] */
struct conf_weft {
	char lcores[128]; /**< EAL -l list; empty: the CPUs that the process may use */
	uint32_t memory_mb;
	char log_level[128]; /**< empty: the library's default */
	uint32_t hugepages;  /**< enum conf_hugepages */
	bool telemetry;
	char eal[CONF_EAL_MAX]; /**< further arguments of EAL, with blanks between */
	bool take_needed;       /**< open NICs that the machine needs, too */
	uint32_t workers;       /**< workers that share all ports when there is no [worker NAME] */
};

enum conf_hugepages { CONF_HUGE_AUTO, CONF_HUGE_NEVER };

/** The addresses of [port NAME] or [network NAME]. */
struct conf_addrs {
	struct sockaddr_storage addr; /**< ss_family 0: none; so for all four */
	uint32_t prefix_len;
	struct sockaddr_storage gateway;
	struct sockaddr_storage addr6;
	uint32_t prefix6_len;
	struct sockaddr_storage gateway6;
	uint32_t vlan_id; /**< 0: untagged */
	int addr_line, addr6_line, gateway_line, gateway6_line;
};

/** [network NAME] */
struct conf_network {
	char name[CONF_NAME_MAX + 1];
	char port[CONF_NAME_MAX + 1]; /**< complete after conf_load() */
	struct conf_addrs net;
	int line, port_line;
};

/** One address of a port, of either kind of section. */
struct conf_net {
	struct sockaddr_storage addr, gateway; /**< gateway.ss_family 0: none */
	uint32_t prefix_len, vlan_id;
	int32_t network; /**< its section in struct conf; -1: that of the port */
};

/** [port NAME] */
struct conf_port {
	char name[CONF_NAME_MAX + 1];
	char dev[CONF_PATH_MAX];
	struct conf_addrs net;
	uint32_t mtu_bytes;
	uint32_t mbufs;
	uint32_t no_offloads; /**< WEFT_OFFLOAD_* that are not used */
	bool selftest;
	bool shared; /**< other processes have its addresses (weft/shared_port.h); no key says so */
	uint32_t dscp; /**< 0..63 */
	int line, dev_line;
	/** all addresses, those of its own section first; complete after conf_load() */
	struct conf_net nets[WEFT_MAX_NETWORKS];
	uint32_t nnets;
};

/** [worker NAME] */
struct conf_worker {
	char name[CONF_NAME_MAX + 1];
	/** the ports that it serves, complete after conf_load() */
	char ports[CONF_PORTS_MAX][CONF_NAME_MAX + 1];
	uint32_t nports;
	int32_t lcore; /**< -1: a thread of its own */
	bool spin;
	uint32_t helpers;
	uint32_t idle_sleep_us;
	int line, ports_line;
};

/** [target] */
struct conf_target {
	uint32_t listen_port;
	struct conf_listen listen_on[CONF_LISTEN_MAX];
	uint32_t nlisten_on; /**< 0: every address */
	uint32_t keepalive_ms;
	uint32_t credits;
	uint32_t slow_ms;        /**< from when on an operation is slow; 0: none is */
	uint32_t revoke_ms;      /**< between the warning and the end of a grant that is revoked */
	uint32_t writer_idle_ms; /**< a writer idle for so long gives way to another client */
	uint32_t max_conns_per_peer;    /**< 0: the listener's default */
	uint32_t max_requests_per_peer; /**< likewise */
	uint32_t max_grants_per_client;
	uint32_t max_opens_per_s; /**< per client; 0: no limit */
	uint64_t staging_bytes;   /**< memory for data of volumes on its way, of all workers */
	uint64_t window_bytes;    /**< the longest window of a volume */
	uint32_t host_auth;       /**< enum conf_host_auth */
	uint32_t auth_timeout_ms; /**< time that a client has to authenticate */
	/** addresses and ports by which clients call the target, where they are translated */
	char known_as[512];
	char control[108];         /**< path of the control socket, or "off"; empty: the default */
	char control_group[64];    /**< group that may use it, too; empty: none */
	char state[CONF_PATH_MAX]; /**< directory; empty: none */
	char metrics[64];          /**< conf_parse_metrics() */
	uint32_t log_format;       /**< enum conf_log_format */
};

enum conf_log_format { CONF_LOG_TEXT, CONF_LOG_TIME, CONF_LOG_JSON };
#define CONF_LOG_FORMATS "text|time|json"

enum conf_host_auth { CONF_HOST_AUTH_NONE, CONF_HOST_AUTH_OPTIONAL, CONF_HOST_AUTH_REQUIRED };

/** [client NAME]: a client that may authenticate as NAME (host_auth.h) */
struct conf_client {
	char name[CONF_NAME_MAX + 1];
	char key_file[CONF_PATH_MAX];
	int line;
};

enum conf_persist {
	CONF_PERSIST_AUTO,
	CONF_PERSIST_PMEM,
	CONF_PERSIST_FILE,
	CONF_PERSIST_VOLATILE
};

struct conf {
	char file[CONF_PATH_MAX];
	struct conf_weft weft;
	struct weft_tcp_attr tcp;   /**< [tcp]; zero: the defaults */
	struct weft_mpa_policy mpa; /**< [mpa]; likewise */
	struct conf_target target;
	struct conf_port ports[CONF_PORTS_MAX];
	struct conf_network networks[CONF_NETWORKS_MAX];
	struct conf_worker
	        workers[CONF_WORKERS_MAX]; /**< at least one after a load, when there is a port */
	struct conf_export *exports;       /**< nexports; NULL: none. conf_free() */
	struct conf_client clients[CONF_CLIENTS_MAX];
	struct conf_nvmf nvmf;
	struct conf_subsys subsys[CONF_SUBSYS_MAX];
	uint32_t nports, nnetworks, nworkers, nexports, nclients, nsubsys;
};

/** Octets of memory that this process has, or that another one gives back before this one starts,
 * and those of hugepages: `memory_mb` of what is loaded from now on may take them. The program's
 * thread. */
void conf_memory_had(uint64_t bytes, uint64_t huge_bytes);

/** Set every key to its default, without ports, workers, exports and clients. What c was before
 * does not matter: exports that it had are conf_free()'s to free. */
void conf_defaults(struct conf *c);
/** Free the exports, of which there are none then. c: loaded, or zeroed. */
void conf_free(struct conf *c);

/**
 * Load a file over the defaults and check the whole. When there is no [worker], one worker, or as
 * many as [weft] workers says, serves all ports. A single [worker] without `ports` serves all
 * ports, too. A port that no worker serves is an error. 0; -EINVAL (the file's content), or -errno
 * of opening and reading it: there are no exports then. err gets one line without newline.
 */
int conf_load(const char *path, struct conf *c, char *err, size_t err_size);

/** The same from memory; `name` is the file's name in messages. */
int conf_load_string(const char *name, const char *text, size_t len, struct conf *c, char *err,
                     size_t err_size);

/** The same, of a text that is not whole: what spans several sections is not checked, and no worker
 * is added. */
int conf_load_sections(const char *name, const char *text, size_t len, struct conf *c, char *err,
                       size_t err_size);

/**
 * Add one port, as [port NAME] with dev and address would; for command lines. cidr may be an IPv4
 * address, an IPv6 address, or both with a comma between, "10.0.0.2/24,fd00::2/64". -EINVAL with
 * the reason in err, -ENOSPC.
 */
int conf_add_port(struct conf *c, const char *name, const char *dev, const char *cidr,
                  uint32_t mtu_bytes, char *err, size_t err_size);

/** Make or complete the workers and check the configuration as a whole; conf_load() has done so
 * already. -EINVAL with the reason in err. */
int conf_finish(struct conf *c, char *err, size_t err_size);

/**
 * Reduce the configuration to the one port that reaches `to`, and its worker, without exports; for
 * a client of one host. from, unless NULL: the port must own this address. to NULL: `from` alone
 * decides.
 * -ENETUNREACH, -EADDRNOTAVAIL, -EINVAL (`to` is an address of this host) with the reason in err.
 */
int conf_one_port(const struct conf *c, const struct sockaddr_storage *to,
                  const struct sockaddr_storage *from, struct conf *one, char *err,
                  size_t err_size);

/**
 * Compare two loaded configurations in the sections that occur once. Calls fn for each key that
 * differs, in the order of the reference, with the name of its section, as "target".
 */
void conf_differ(const struct conf *a, const struct conf *b,
                 void (*fn)(void *arg, const char *section, const char *key), void *arg);

/** Whether memory for volumes can be had as [target] says, whether or not an export is a volume.
 * -EINVAL with one line in err. */
int conf_check_volumes(const struct conf *c, char *err, size_t err_size);
/** Print the reference of all sections and keys in Markdown; docs/configuration.md holds exactly
 * this text. */
void conf_print_reference(FILE *out);

/** Parse "4K", "16M", "1G" or plain octets; the units are powers of 1024. -EINVAL (syntax),
 * -ERANGE. */
int conf_parse_size(const char *s, uint64_t *out);
/** Whether the device's driver is one whose arguments the load of a configuration checks. */
bool conf_dev_known(const char *dev);
/** Whether the device's driver is another one, so that its arguments are not checked. */
bool conf_dev_unseen(const char *dev);
/** Get the value of `key` from a device string, as "net_memif0,role=server,id=0". -ENOENT,
 * -ENOSPC. */
int conf_dev_arg(const char *dev, const char *key, char *buf, size_t size);
/**
 * Get the socket of a net_memif device; net_memif's defaults apply. -ENOENT: it is no such device;
 * -ENOSPC.
 */
int conf_memif_socket(const char *dev, char *buf, size_t size, bool *abstract);
/** Parse where metrics are served: "ADDRESS:PORT", "[ADDRESS]:PORT", or "PORT" of 127.0.0.1. "off"
 * and "": to->ss_family is 0. -EINVAL. */
int conf_parse_metrics(const char *s, struct sockaddr_storage *to);
/** Parse "10.0.0.1/24". -EINVAL. */
int conf_parse_cidr(const char *s, struct sockaddr_storage *addr, uint32_t *prefix_len);
/** Parse "fd00::1/64", a global or unique-local address. -EINVAL. */
int conf_parse_cidr6(const char *s, struct sockaddr_storage *addr, uint32_t *prefix_len);
/** Print the address and its prefix length, or the address alone when that is 0. Returns buf. */
const char *conf_net_str(const struct sockaddr_storage *addr, uint32_t prefix_len,
                         char buf[ADDR_STR_MAX]);

#endif /* WEFT_APPS_CONF_H */
