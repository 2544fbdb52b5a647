/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_QUOTA_H
#define WEFT_APPS_QUOTA_H

/**
 * @file Each client's share of a target: the grants that it holds, and its OPENs a second. A client
 * is an authenticated name, or else an address.
 *
 * The last quarter of all grants is reserved for clients that hold fewer than QUOTA_SURE. So every
 * client can get QUOTA_SURE grants while others hold as many as they may. When some grants are
 * reserved for clients with a name, clients without one share the others, and each of the two parts
 * has its own last quarter. So addresses, however many, cannot use up the grants of names. OPENs
 * are limited by a token bucket of one second's worth.
 *
 * A host can use every address of its IPv6 /64 (of its link, when they are link-local). So a /64
 * may have QUOTA_NET times the grants and OPENs of one address. The last quarter of a /64's grants
 * is reserved for its addresses that hold fewer than QUOTA_SURE; the last quarter of its OPENs for
 * QUOTA_SURE a second of each address. In the last quarter of all grants a /64 counts as one
 * client.
 *
 * An address that holds fewer than QUOTA_SURE can displace an idle connection of its /64, so that
 * no host uses up what its neighbours share. Idle means that nothing was seen of the connection for
 * QUOTA_IDLE_NS. Of the idle connections the one with the most grants ends, if it has more than the
 * address has. From then on its grants do not count for the /64.
 *
 * A client is remembered while it holds a grant, and until its bucket is full. Of clients without a
 * grant at most the latest QUOTA_IDLE_MAX are remembered, and at most QUOTA_NET_IDLE_MAX of one
 * /64.
 *
 * Any thread; calls take a lock, so they are for the control path.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/socket.h>

#define QUOTA_SURE         8
#define QUOTA_NET          4 /**< a /64 may have this many times what an address may */
#define QUOTA_IDLE_MAX     4096
#define QUOTA_NET_IDLE_MAX 256
#define QUOTA_ID_MAX       64
#define QUOTA_IDLE_NS      5000000000ULL

struct quota;
struct quota_client;

/** A connection that holds grants. The caller's memory; zero at first; must exist until its last
 * grant is gone. */
struct quota_holder {
	/* under the lock of the quota */
	/** in the holders of the client's /64, while it has grants */
	TAILQ_ENTRY(quota_holder) link;
	struct quota_client *net; /**< NULL: not in a list */
	uint32_t grants;
	bool kept;  /**< it is never displaced */
	bool going; /**< it is displaced: its worker must close it */
	/** the activity counter that its worker gave to the last quota_look() */
	uint64_t seen;
	uint64_t moved_ns; /**< when that counter last changed */
};

struct quota_attr {
	uint32_t grants; /**< grants of all clients; at least 4 * QUOTA_SURE */
	/** of these, grants that only clients with a name get; 0, or at least 4 * QUOTA_SURE */
	uint32_t for_named;
	/** grants of a name or an address; a /64 may have QUOTA_NET times as many */
	uint32_t grants_per_client;
	uint32_t opens_per_s; /**< likewise; 0: no limit */
	/** secret key of the hash table, because clients choose their addresses */
	uint64_t key[2];
};

struct quota_stats {
	uint32_t grants, grants_max;   /**< held now; limit */
	uint32_t strangers;            /**< held now by clients without a name */
	uint32_t clients;              /**< remembered names and addresses */
	uint32_t nets;                 /**< IPv6 /64s of remembered addresses */
	uint64_t opens, opens_limited; /**< OPENs asked for; OPENs refused as too many a second */
	uint64_t refused_client;       /**< refused because the client has its share */
	/** refused because its /64 has its share and no idle connection */
	uint64_t refused_net;
	/** connections displaced for another address of their /64 */
	uint64_t pushed_out;
	/** refused because the last quarter is reserved for clients with fewer grants */
	uint64_t refused_all;
	/** clients without grants that were forgotten before their bucket was full */
	uint64_t forgotten;
};

/** Identity of a client for quota_open(). */
struct quota_id {
	uint8_t octets[QUOTA_ID_MAX];
	uint8_t bytes;
	uint8_t net[8]; /**< its IPv6 /64, if has_net */
	bool has_net;
};

/** Make the identity: the name of an authenticated client, at most QUOTA_ID_MAX - 1 octets, or
 * its address when name is NULL. */
void quota_id(struct quota_id *id, const char *name, const struct sockaddr_storage *peer);

#define QUOTA_ID_STR_MAX 80U
/** The name, or else the address, for people. Returns buf. */
const char *quota_id_str(const struct quota_id *id, char buf[QUOTA_ID_STR_MAX]);

/** -ENOMEM. */
int quota_create(const struct quota_attr *attr, struct quota **out);
/** The caller has given back all grants. NULL is allowed. */
void quota_destroy(struct quota *q);
/**
 * Take one grant for a client. 0: *out is the client to pass to quota_close() when the grant is
 * gone; -EBUSY: too many OPENs in this second, of the client or of its /64; -EDQUOT: the client
 * holds as many grants as it may; -EUSERS: its /64 does; -ENOSPC: the grants left are reserved for
 * clients with fewer than QUOTA_SURE; -ENOMEM.
 */
int quota_open(struct quota *q, const struct quota_id *id, uint64_t now_ns,
               struct quota_client **out);
/** Give back a grant, when its slot of the STag table is free. */
void quota_close(struct quota *q, struct quota_client *c);
/** Count the client's grant for the connection h. `seen` is the activity counter that
 * quota_look() would get now. */
void quota_hold(struct quota *q, struct quota_client *c, struct quota_holder *h, uint64_t seen,
                uint64_t now_ns);
/** Count the grant no longer for h; its slot is not free yet. Returns the client to pass to
 * quota_close() in place of c. */
struct quota_client *quota_let_go(struct quota *q, struct quota_client *c, struct quota_holder *h);
/** The peer has authenticated: its connection is never displaced. */
void quota_keep(struct quota *q, struct quota_holder *h);
/** Whether quota_look() is needed: some /64, or all addresses together, hold half of what they
 * may, or a connection is displaced. */
bool quota_is_pressed(struct quota *q);
/**
 * The worker of h reports its activity. `seen` is a counter that changes with any activity; busy:
 * an operation is under way. True: h is displaced and must be closed.
 */
bool quota_look(struct quota *q, struct quota_holder *h, uint64_t seen, bool busy, uint64_t now_ns);
void quota_stats(struct quota *q, struct quota_stats *s);

#endif /* WEFT_APPS_QUOTA_H */
