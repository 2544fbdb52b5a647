/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_CONF_EXPORT_H
#define WEFT_APPS_CONF_EXPORT_H

/** @file One export of the configuration: its keys, apart from a whole file. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>

/** octets of a port's, worker's or export's name (inih: 49 for "[export NAME]") */
#define CONF_NAME_MAX   40
#define CONF_LISTEN_MAX 16   /**< of `listen_on`, `allow_from` */
#define CONF_ALLOW_MAX  1024 /**< octets of `allow_clients`, with its final 0 */
#define CONF_PATH_MAX   1024

/** An address, or a network of them. */
struct conf_listen {
	struct sockaddr_storage addr;
	uint32_t prefix_len; /**< 0: the address alone */
};

/** What an export holds. */
enum conf_format {
	CONF_FORMAT_OBJECT, /**< an object in two slots (export_format.h) */
	/** a target's memory of a remote log; all of it belongs to the writer (weft/log.h) */
	CONF_FORMAT_LOG,
	CONF_FORMAT_VOLUME, /**< raw storage of any size (docs/volumes.md) */
};

/* Rights of an export; the values of WEFT_EXPORT_* in weft_export.x. */
#define CONF_RIGHT_READ   0x02
#define CONF_RIGHT_WRITE  0x04
#define CONF_RIGHT_FLUSH  0x10
#define CONF_RIGHT_VERIFY 0x40

#define CONF_VOLUME_MIN_BYTES (2ULL << 20)
#define CONF_WINDOW_MAX       (64ULL << 20)
#define CONF_IMAGE_MAX        256
#define CONF_CEPH_MAX         512

/** [export NAME] */
struct conf_export {
	char name[CONF_NAME_MAX + 1];
	char path[CONF_PATH_MAX]; /**< absolute, or relative to the working directory */
	uint64_t size_bytes;      /**< 0: the size of the file */
	uint32_t format;          /**< enum conf_format */
	uint32_t persist;         /**< enum conf_persist */
	char hash[32];
	char hash_key_file[CONF_PATH_MAX]; /**< empty when the hash has no key */
	uint32_t rights;                   /**< CONF_RIGHT_* */
	char image
	        [CONF_IMAGE_MAX]; /**< of a volume: an image of a Ceph cluster, in place of path */
	char ceph[CONF_CEPH_MAX]; /**< options of the driver rbd */
	bool checksums;           /**< of a volume: keep a CRC32c of each block */
	uint32_t scrub_mb_s;      /**< of a volume with checksums; 0: it is not scrubbed */
	uint32_t snapshots;       /**< of a volume: most that clients make, and as many clones */
	int32_t numa_node;        /**< -1: the node of the first port */
	/** Names of clients that may open it, with commas between; empty: any client. Both lists
	 * are to be met. */
	char allow_clients[CONF_ALLOW_MAX];
	struct conf_listen allow_from[CONF_LISTEN_MAX];
	uint32_t nallow_from; /**< 0: from everywhere */
	/* Limits of all clients and of each one; 0: none. */
	uint64_t max_bytes_per_s, client_bytes_per_s;
	uint32_t max_ops_per_s, client_ops_per_s;
	uint32_t max_conns; /**< connections that have a grant of it */
	int line;
	bool of_state; /**< made by the control socket, not by the configuration */
};

/**
 * Parse one export, as the keys of [export NAME]. `name` stands for a file in messages; relative
 * paths start at its folder. -EINVAL with one line in err, -ENOMEM.
 */
int conf_parse_export(const char *name, const char *text, struct conf_export *out, char *err,
                      size_t err_size);
/** Whether a list of names, as conf_export.allow_clients, has this one. Any thread. */
bool conf_has_client(const char *list, const char *name);
/** Whether a client of this address is on the export's list `allow_from`. Any thread. */
bool conf_allows_addr(const struct conf_export *e, const struct sockaddr_storage *addr);
/** Copy the keys of an export that may change while clients use it, but not `rights`. */
void conf_export_soft(struct conf_export *to, const struct conf_export *from);
/** Whether these keys are the same in both. */
bool conf_export_soft_same(const struct conf_export *a, const struct conf_export *b);
/** Print an export as its section. What it prints, parsed again, is the same export. */
void conf_print_export(FILE *out, const struct conf_export *e);
/** Print its access lists as KEY=VALUE words on one line; nothing if it has none. */
void conf_print_access(FILE *out, const struct conf_export *e);
/** Likewise its limits. */
void conf_print_limits(FILE *out, const struct conf_export *e);

#endif /* WEFT_APPS_CONF_EXPORT_H */
