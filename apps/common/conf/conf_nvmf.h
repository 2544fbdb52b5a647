/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_CONF_NVMF_H
#define WEFT_APPS_CONF_NVMF_H

/** @file [nvmf] and [subsystem NQN]: what weft-target serves to hosts by NVMe over Fabrics. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "conf_export.h"

#define CONF_NQN_MAX    223 /**< octets of an NQN */
#define CONF_SUBSYS_MAX 16
#define CONF_NS_MAX     32   /**< namespaces of one subsystem */
#define CONF_NSID_MAX   1024 /**< WEFT_NVMF_MAX_NSID */
#define CONF_HOSTS_MAX  4096 /**< octets of `hosts`, with its final 0 */
#define CONF_SERIAL_MAX 20
#define CONF_MDTS_MAX   (1ULL << 20)
#define CONF_ANA_MDTS   65536U /**< the least with `access`: log page 0Ch in one transfer */
#define CONF_NVMF_TRANS 4      /**< staging memory of a worker: so many of the longest transfers */
/** Connections of hosts that a worker has at most, by each transport. By RDMA it has 65536
 * completions, of which an entry of a queue takes five, and a queue 32 more; by TCP it has as many.
 */
#define CONF_NVMF_CONNS(depth) (65536U / (5 * (depth) + 32))

/** Whether hosts by TCP have TLS: enum weft_nvmf_tcp_tls. */
enum conf_tls { CONF_TLS_OFF, CONF_TLS_ALLOWED, CONF_TLS_REQUIRED };

/** [nvmf] */
struct conf_nvmf {
	uint32_t listen_port;
	uint32_t tcp_listen_port; /**< 0: hosts do not connect by TCP */
	uint32_t tls;             /**< enum conf_tls */
	uint32_t tls_derivation;  /**< 0: any, else 1 + enum weft_nvmf_psk_derivation */
	char discovery_secrets[CONF_PATH_MAX]; /**< nvmf_secrets.h; empty: hosts prove nothing */
	struct conf_listen listen_on[CONF_LISTEN_MAX];
	uint32_t nlisten_on; /**< 0: as [target] */
	struct conf_listen allow_from[CONF_LISTEN_MAX];
	uint32_t nallow_from; /**< 0: from everywhere */
	uint32_t max_controllers, max_queues, io_queues, queue_depth;
	uint64_t max_transfer_bytes;
	uint64_t staging_bytes; /**< of all workers */
};

struct conf_ns {
	uint32_t nsid;
	char export[CONF_NAME_MAX + 1];
};

/** [subsystem NQN] */
struct conf_subsys {
	char nqn[CONF_NQN_MAX + 1];
	struct conf_ns ns[CONF_NS_MAX];
	uint32_t nns;
	/** NQNs with commas between; "any" */
	char hosts[CONF_HOSTS_MAX];
	char secrets[CONF_PATH_MAX];      /**< nvmf_secrets.h; empty: hosts prove nothing */
	uint32_t secrets_group;           /**< WEFT_NVMF_GROUP_... */
	char tls_keys[CONF_PATH_MAX];     /**< nvmf_keys.h; empty: hosts have no keys */
	char serial[CONF_SERIAL_MAX + 1]; /**< after the load: never empty */
	char model[41];
	uint32_t access; /**< enum weft_nvmf_ana_state */
	uint32_t first_controller, last_controller;
	int line;
};

/** Whether it has the form of an NQN (NVMe Base 2.0 s4.5), "nqn.YYYY-MM.REVERSE-DOMAIN:NAME". */
bool conf_is_nqn(const char *nqn);
/** Why an export cannot be a namespace; NULL: it can. */
const char *conf_ns_refuses(const struct conf_export *e);
/** Whether a list of addresses and networks has this one. Any thread. conf_allow.c */
bool conf_has_addr(const struct conf_listen *list, uint32_t n, const struct sockaddr_storage *addr);

#endif /* WEFT_APPS_CONF_NVMF_H */
