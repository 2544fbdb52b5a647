/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_HOST_AUTH_H
#define WEFT_APPS_HOST_AUTH_H

/**
 * @file Mutual authentication of the two ends of an RPC connection: challenge and response by
 * HMAC-SHA-256 over the Host Authentication property of RPC-over-RDMA version 2 (draft s5.2.6,
 * docs/host-auth.md). Client and target share a key. Neither sends it; each proves to the other
 * that it has it.
 *
 * 	client -> target   3, name, the address and port that the client called,
 * 	                   a nonce of the client
 * 	target -> client   3, a nonce of the target
 * 	client -> target   3, proof of the client
 * 	target -> client   3, proof of the target
 *
 * The client proves first, so a stranger that connects gets nothing that depends on a key. A proof
 * is the HMAC of the version, the name, the called place and both nonces, by the key of its
 * direction (host_auth_key.h). The target's proof covers the client's proof, too. So no proof can
 * be used a second time, in the other direction, for another name, or at another target. A host
 * that relays the messages to the real target fails: the messages name a place that is not the
 * target's, or the proof is of another place. An unknown name, a place that is not the target's own
 * and a wrong proof are refused in the same way and at the same step.
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
	HOST_AUTH_ASKED,  /**< the client has sent its name, the target its nonce */
	HOST_AUTH_PROVED, /**< client only: its proof is sent, the target's is awaited */
	HOST_AUTH_DONE,
	HOST_AUTH_FAILED,
};

/** Address and port of a target: 16 octets of address, IPv4 as ::ffff:a.b.c.d (RFC 4291
 * s2.5.5.2), and the port, big-endian. */
struct host_auth_place {
	uint8_t octets[HOST_AUTH_PLACE_BYTES];
};

/** Convert a socket address. -EAFNOSUPPORT. */
int host_auth_place(const struct sockaddr_storage *a, struct host_auth_place *out);

/** One end of the exchange on one connection. Zero it and set server and place; for a client
 * also name and keys, for a target find. */
struct host_auth {
	bool server;
	/** Client: the place that it called. Target: the connection's own end; after the
	 * client's first message, the place that the client called. */
	struct host_auth_place place;
	/** Target: the places that clients call where addresses are translated; must outlive
	 * this. */
	const struct host_auth_place *known_as;
	unsigned int nknown_as;
	bool elsewhere; /**< target: the client called a place that is not this target's */
	/** the client's name; at a target as the client states it, verified once state is DONE */
	char name[HOST_AUTH_NAME_MAX + 1];
	const struct host_auth_keys *keys; /**< must outlive this; at a target set by find */
	/** Target: returns the keys of the client of that name, or NULL. */
	const struct host_auth_keys *(*find)(void *arg, const char *name);
	void *find_arg;
	enum host_auth_state state;
	uint8_t nonce[2][HOST_AUTH_NONCE_BYTES]; /**< the client's, then the target's */
	uint8_t shown[HOST_AUTH_PROOF_BYTES];    /**< the client's proof */
};

/**
 * One step, for weft_rpc_auth.step; out_cap is at least 256. 1: both ends are authenticated; 0: go
 * on; -EACCES: the peer is refused; -EBADMSG: malformed message, or out of turn; -EINVAL: own name
 * or out_cap; -EIO: no random numbers; -ENOSYS: no driver hmac-sha256.
 */
int host_auth_step(struct host_auth *a, const uint8_t *in, uint32_t in_bytes, uint8_t *out,
                   uint32_t out_cap, uint32_t *out_bytes);

/** Compare n octets in a time that does not depend on their values. */
bool host_auth_equal(const uint8_t *a, const uint8_t *b, size_t n);
/** Whether a name has 1 to HOST_AUTH_NAME_MAX letters, digits, '.', '_' and '-'. */
bool host_auth_name_ok(const char *name);

#endif /* WEFT_APPS_HOST_AUTH_H */
