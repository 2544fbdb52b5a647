/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_HOST_AUTH_H
#define WEFT_APPS_HOST_AUTH_H

/**
 * @file Who is at the other end of an RPC connection: challenge and response by HMAC-SHA-256 over
 * the Host Authentication property of RPC-over-RDMA version 2 (draft s5.2.6, docs/host-auth.md).
 * Client and target share a key; neither sends it, and each proves to the other that it has it.
 *
 * 	client -> target   3, name, the address and port that the client called,
 * 	                   a number of the client's
 * 	target -> client   3, a number of the target's
 * 	client -> target   3, proof of the client
 * 	target -> client   3, proof of the target
 *
 * The client proves first: a stranger who connects is given nothing that depends on a key. A proof
 * is the HMAC, by the key of its direction (host_auth_key.h), of the version, the name, the place
 * that was called and both numbers; that of the target takes in the client's proof, too. So none
 * can be used twice, in the other direction, for another name, or at another target: a host that a
 * client calls and that passes the messages on to the real target has either a place in them that
 * is not the target's, or a proof of another place. A name that the target does not know, a place
 * that is not its own and a wrong proof are refused alike, and at the same point.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "host_auth_key.h"

#define HOST_AUTH_NAME_MAX    63
#define HOST_AUTH_NONCE_BYTES 32
#define HOST_AUTH_PROOF_BYTES 32
#define HOST_AUTH_PLACE_BYTES 18

enum host_auth_state {
	HOST_AUTH_NEW,
	HOST_AUTH_ASKED,  /**< the client has said its name, the target has sent its number */
	HOST_AUTH_PROVED, /**< of a client: it has sent its proof, and waits for the target's */
	HOST_AUTH_DONE,
	HOST_AUTH_FAILED,
};

/** Where a target is: 16 octets of address, IPv4's as ::ffff:a.b.c.d (RFC 4291 s2.5.5.2), and the
 * port, big-endian. */
struct host_auth_place {
	uint8_t octets[HOST_AUTH_PLACE_BYTES];
};

/** -EAFNOSUPPORT. */
int host_auth_place(const struct sockaddr_storage *a, struct host_auth_place *out);

/** One connection's side of it. Zero it; set server and place, and name and key of a client, or
 * find of a target. */
struct host_auth {
	bool server;
	/** A client's: what it called. A target's: the connection's own end; once told, what the
	 * client called. */
	struct host_auth_place place;
	/** Target: what clients call where addresses are translated on the way; outlives this. */
	const struct host_auth_place *known_as;
	unsigned int nknown_as;
	bool elsewhere; /**< target: the client called somebody else */
	/** the client's; of a target: as told, true once state is DONE */
	char name[HOST_AUTH_NAME_MAX + 1];
	const struct host_auth_keys *keys; /**< outlives this; of a target: set by find */
	/** Target: the keys of a client, or NULL when there is none of that name. */
	const struct host_auth_keys *(*find)(void *arg, const char *name);
	void *find_arg;
	enum host_auth_state state;
	uint8_t nonce[2][HOST_AUTH_NONCE_BYTES]; /**< the client's, the target's */
	uint8_t shown[HOST_AUTH_PROOF_BYTES];    /**< the client's proof */
};

/**
 * For weft_rpc_auth.step; out_cap is at least 256. 1: both are who they say; 0: go on; -EACCES: not
 * who it says; -EBADMSG: no message of these, or not its turn; -EINVAL: own name or out_cap; -EIO:
 * no random numbers; -ENOSYS: no driver hmac-sha256.
 */
int host_auth_step(struct host_auth *a, const uint8_t *in, uint32_t in_bytes, uint8_t *out,
                   uint32_t out_cap, uint32_t *out_bytes);

/** Whether the octets are the same; takes the same time wherever they differ. */
bool host_auth_equal(const uint8_t *a, const uint8_t *b, size_t n);
/** 1 to HOST_AUTH_NAME_MAX letters, digits, '.', '_' and '-'. */
bool host_auth_name_ok(const char *name);

#endif /* WEFT_APPS_HOST_AUTH_H */
