/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_NVMF_AUTH_H
#define WEFT_NVMF_AUTH_H

/**
 * @file Hosts that prove their names: DH-HMAC-CHAP (NVMe Base 2.0 s8.13). A subsystem with keys
 * admits only the hosts that it has an entry of. A host proves itself on each of its queues before
 * any other command than Connect and the two authentication commands.
 *
 * The computations of a Diffie-Hellman group take milliseconds. A thread of the target makes them,
 * one after the other, so workers never do. It begins with the first secret. A controller has at
 * most one there before its host has proved itself, a host that has proved itself at most
 * WEFT_NVMF_AUTH_JOBS. Hosts take turns, and all that have not proved themselves have half of them.
 */

#include <stdbool.h>
#include <stdint.h>

#include "weft_nvmf_wire.h"

struct weft_nvmf;
struct weft_nvmf_subsys;

#define WEFT_NVMF_SECRET_BYTES 64U /**< longest secret */
#define WEFT_NVMF_AUTH_JOBS    64U /**< of a host, on all of its queues */

/** Why an authentication failed: RCE of AUTH_Failure1, and what is on no wire. */
enum {
	WEFT_NVMF_AUTH_EXPIRED, /**< it was not complete in time */
	WEFT_NVMF_AUTH_FAILED,  /**< the proof is wrong, or there is none */
	WEFT_NVMF_AUTH_PROTOCOL,
	WEFT_NVMF_AUTH_CONCATENATION,
	WEFT_NVMF_AUTH_HASH,
	WEFT_NVMF_AUTH_GROUP,
	WEFT_NVMF_AUTH_PAYLOAD,
	WEFT_NVMF_AUTH_MESSAGE,
	/** the host does not take the challenge or the proof (AUTH_Failure2) */
	WEFT_NVMF_AUTH_DENIED,
	WEFT_NVMF_AUTH_REASONS,
};

/** Groups of Diffie and Hellman, by their numbers in messages: none, and those of RFC 7919. */
enum {
	WEFT_NVMF_GROUP_NULL,
	WEFT_NVMF_GROUP_2048,
	WEFT_NVMF_GROUP_3072,
	WEFT_NVMF_GROUP_4096,
	WEFT_NVMF_GROUP_6144,
	WEFT_NVMF_GROUP_8192,
	WEFT_NVMF_GROUPS,
};

/** A secret of a host or a subsystem. */
struct weft_nvmf_secret {
	uint8_t key[WEFT_NVMF_SECRET_BYTES];
	uint8_t bytes; /**< 32, 48 or 64; 0: there is none */
	uint8_t hash;  /**< by which it is bound to a name: 0: it is not; 1 to 3 */
};

/** What a subsystem knows of a host. */
struct weft_nvmf_auth {
	char hostnqn[WEFT_NVMF_NQN_BYTES];
	struct weft_nvmf_secret host; /**< bytes 0: this host need not prove its name */
	struct weft_nvmf_secret
	        ctrl; /**< by which controllers prove theirs; bytes 0: they cannot */
};

/**
 * A secret as text, "DHHC-1:hh:base64(key, CRC-32):". Any thread. 0, or -EINVAL: *why is a constant
 * text that says what is wrong, and *out is zero.
 */
int weft_nvmf_secret_decode(const char *text, struct weft_nvmf_secret *out, const char **why);
/**
 * The discovery subsystem, for weft_nvmf_auth_set(): with entries, its hosts prove their names
 * before they are told what they may use, and others are refused. It lives as long as the target.
 */
struct weft_nvmf_subsys *weft_nvmf_discovery(struct weft_nvmf *t);
/**
 * Replace what a subsystem knows of its hosts: n entries, which are copied. n 0: no host proves
 * anything. Controllers whose host's entry has changed, or has come or gone, end, and with entries
 * those of hosts that have none. Of the groups that a host offers, those below `least` are not
 * taken; this is of queues that connect afterwards.
 * Any thread but a group's.
 * - -EINVAL: weft_nvmf_attr.random is NULL, an entry's NQN is none, there is no group `least`
 * - -EEXIST: two entries of one host
 * - -ENOMEM
 * - -EAGAIN: the system has no more threads
 */
int weft_nvmf_auth_set(struct weft_nvmf_subsys *s, const struct weft_nvmf_auth *entries, uint32_t n,
                       uint8_t least);

#endif /* WEFT_NVMF_AUTH_H */
