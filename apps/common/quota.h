/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_QUOTA_H
#define WEFT_APPS_QUOTA_H

/**
 * @file
 * How much of a target one client may have: grants held, and OPENs a second. A client is a name that was shown by a
 * key, or else an address, an IPv6 /64 counting as one, and so do all link-local addresses.
 *
 * Every client is sure of QUOTA_SURE grants while others hold as many as they may: the last quarter of all is for
 * clients that hold fewer. Where some are for clients with a name, addresses share the others, and the quarters are of
 * either part: addresses, however many, leave a name its grants. OPENs are counted by a token bucket of one second's worth. A client is remembered while it
 * holds a grant, and until its bucket is full again; of those without a grant the QUOTA_IDLE_MAX latest.
 *
 * Any thread; a lock is taken, so it is for the control path.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define QUOTA_SURE     8
#define QUOTA_IDLE_MAX 4096
#define QUOTA_ID_MAX   64

struct quota;
struct quota_client;

struct quota_attr {
	uint32_t grants;            /**< there may be of all clients; at least 4 * QUOTA_SURE */
	uint32_t for_named;         /**< of them, that clients without a name never have; 0, or at least 4 * QUOTA_SURE */
	uint32_t grants_per_client;
	uint32_t opens_per_s;       /**< of a client; 0: as many as it likes */
	uint64_t key[2];            /**< secret: clients choose their addresses */
};

struct quota_stats {
	uint32_t grants, grants_max;       /**< that are out now, and may be */
	uint32_t strangers;                /**< of those that are out, of clients without a name */
	uint32_t clients;                  /**< remembered */
	uint64_t opens, opens_limited;     /**< asked for; refused as too many a second */
	uint64_t refused_client;           /**< refused since the client has its share */
	uint64_t refused_all;              /**< refused since the last quarter is for those who have less */
	uint64_t forgotten;                /**< clients without grants that gave way before their bucket was full */
};

/** Identity of a client for quota_open(). */
struct quota_id {
	uint8_t octets[QUOTA_ID_MAX];
	uint8_t bytes;
};

/** The name of an authenticated client, at most QUOTA_ID_MAX - 1 octets, or where name is NULL its address. */
void quota_id(struct quota_id *id, const char *name, const struct sockaddr_storage *peer);

/** -ENOMEM. */
int quota_create(const struct quota_attr *attr, struct quota **out);
/** All grants were given back. NULL is fine. */
void quota_destroy(struct quota *q);
/**
 * A client asks for a grant: 0, and *out is what quota_close() gets when the grant is gone; -EBUSY: more OPENs than it
 * may in this second; -EDQUOT: it holds as many as it may; -ENOSPC: all that are left are for clients with less than
 * QUOTA_SURE; -ENOMEM.
 */
int quota_open(struct quota *q, const struct quota_id *id, uint64_t now_ns, struct quota_client **out);
/** A grant is gone: its slot of the STag table is free again. */
void quota_close(struct quota *q, struct quota_client *c);
void quota_stats(struct quota *q, struct quota_stats *s);

#endif /* WEFT_APPS_QUOTA_H */
