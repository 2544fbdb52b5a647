/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_QUOTA_H
#define WEFT_APPS_QUOTA_H

/**
 * @file How much of a target one client may have: grants held, and OPENs a second. A client is a
 * name that was shown by a key, or else an address.
 *
 * Every client is sure of QUOTA_SURE grants while others hold as many as they may: the last quarter
 * of all is for clients that hold fewer. Where some are for clients with a name, addresses share
 * the others, and the quarters are of either part: addresses, however many, leave a name its
 * grants. OPENs are counted by a token bucket of one second's worth.
 *
 * A host can have all addresses of its IPv6 /64 (of its link, if they are link-local). So a /64 has
 * QUOTA_NET times what one address may have of grants and OPENs, and no more; the last quarter of
 * its grants is for its addresses that hold fewer than QUOTA_SURE, that of its OPENs for QUOTA_SURE
 * a second of each address, and in the quarter of all it counts as one client. So that no host uses
 * up what its neighbours share, an idle connection of the /64 goes for an address that holds fewer
 * than QUOTA_SURE: of those of which nothing was seen for QUOTA_IDLE_NS the one with the most
 * grants, if these are more than the address has. Its grants do not count as the /64's from then
 * on.
 *
 * A client is remembered while it holds a grant, and until its bucket is full again; of those
 * without a grant the QUOTA_IDLE_MAX latest, QUOTA_NET_IDLE_MAX of one /64.
 *
 * Any thread; a lock is taken, so it is for the control path.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/socket.h>

#define QUOTA_SURE         8
#define QUOTA_NET          4 /**< a /64 may have so many times what an address may */
#define QUOTA_IDLE_MAX     4096
#define QUOTA_NET_IDLE_MAX 256
#define QUOTA_ID_MAX       64
#define QUOTA_IDLE_NS      5000000000ULL

struct quota;
struct quota_client;

/** A connection that holds grants; the caller's memory, zero at first, and there until the last
 * grant is let go. */
struct quota_holder {
	/* under the lock of the quota */
	/** in holders of the client's /64, while there are grants */
	TAILQ_ENTRY(quota_holder) link;
	struct quota_client *net; /**< NULL: in none */
	uint32_t grants;
	bool kept;         /**< it never goes for others */
	bool going;        /**< it has to go */
	uint64_t seen;     /**< what its worker had counted of it at its last quota_look() */
	uint64_t moved_ns; /**< when that was last seen to have changed */
};

struct quota_attr {
	uint32_t grants; /**< there may be of all clients; at least 4 * QUOTA_SURE */
	/** of them, that clients without a name never have; 0, or at least 4 * QUOTA_SURE */
	uint32_t for_named;
	/** of a name, or an address; a /64 has QUOTA_NET times as many */
	uint32_t grants_per_client;
	uint32_t opens_per_s; /**< likewise; 0: as many as it likes */
	uint64_t key[2];      /**< secret: clients choose their addresses */
};

struct quota_stats {
	uint32_t grants, grants_max;   /**< that are out now, and may be */
	uint32_t strangers;            /**< of those that are out, of clients without a name */
	uint32_t clients;              /**< remembered: names and addresses */
	uint32_t nets;                 /**< and IPv6 /64s of such */
	uint64_t opens, opens_limited; /**< asked for; refused as too many a second */
	uint64_t refused_client;       /**< refused since the client has its share */
	/** refused since its /64 has its share, and nothing of that is idle */
	uint64_t refused_net;
	/** connections that had to go for another address of their /64 */
	uint64_t pushed_out;
	/** refused since the last quarter is for those who have less */
	uint64_t refused_all;
	/** clients without grants that gave way before their bucket was full */
	uint64_t forgotten;
};

/** Identity of a client for quota_open(). */
struct quota_id {
	uint8_t octets[QUOTA_ID_MAX];
	uint8_t bytes;
	uint8_t net[8]; /**< its IPv6 /64, if it is an address that has one */
	bool has_net;
};

/** The name of an authenticated client, at most QUOTA_ID_MAX - 1 octets, or where name is NULL its
 * address. */
void quota_id(struct quota_id *id, const char *name, const struct sockaddr_storage *peer);

/** -ENOMEM. */
int quota_create(const struct quota_attr *attr, struct quota **out);
/** All grants were given back. NULL is fine. */
void quota_destroy(struct quota *q);
/**
 * A client asks for a grant: 0, and *out is what quota_close() gets when the grant is gone; -EBUSY:
 * more OPENs than it may in this second, or those of its /64; -EDQUOT: it holds as many as it may;
 * -EUSERS: its /64 does; -ENOSPC: all that are left are for clients with less than QUOTA_SURE;
 * -ENOMEM.
 */
int quota_open(struct quota *q, const struct quota_id *id, uint64_t now_ns,
               struct quota_client **out);
/** A grant is gone: its slot of the STag table is free again. */
void quota_close(struct quota *q, struct quota_client *c);
/** The client's grant is of this connection, for which `seen` is what quota_look() would be told
 * now. */
void quota_hold(struct quota *q, struct quota_client *c, struct quota_holder *h, uint64_t seen,
                uint64_t now_ns);
/** It is no more, its slot not free yet; what is returned is for quota_close() in place of c. */
struct quota_client *quota_let_go(struct quota *q, struct quota_client *c, struct quota_holder *h);
/** The peer has shown who it is: its connection never goes for others. */
void quota_keep(struct quota *q, struct quota_holder *h);
/** Whether connections need be looked at: some /64, or all addresses together, have half of what
 * they may; or one has to go. */
bool quota_is_pressed(struct quota *q);
/**
 * The connection's worker has looked at it: `seen` is another number whenever it did anything
 * since; busy: it is doing something. True: it has to go.
 */
bool quota_look(struct quota *q, struct quota_holder *h, uint64_t seen, bool busy, uint64_t now_ns);
void quota_stats(struct quota *q, struct quota_stats *s);

#endif /* WEFT_APPS_QUOTA_H */
