/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The exchange of host authentication by HMAC-SHA-256. */

#include "host_auth.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/random.h>

/*
 * Version 1 had no place in its proofs. In version 2 the key file itself was the key, and the
 * target proved first. Neither is supported, so no peer can be forced to a weaker version.
 */
#define AUTH_VERSION 3

int
host_auth_place(const struct sockaddr_storage *a, struct host_auth_place *out)
{
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)a;
	const struct sockaddr_in *in4 = (const struct sockaddr_in *)a;
	uint16_t port;

	memset(out, 0, sizeof(*out));
	switch (a->ss_family) {
	case AF_INET:
		out->octets[10] = out->octets[11] = 0xff;
		memcpy(out->octets + 12, &in4->sin_addr, 4);
		port = in4->sin_port;
		break;
	case AF_INET6:
		memcpy(out->octets, &in6->sin6_addr, 16);
		port = in6->sin6_port;
		break;
	default:
		return -EAFNOSUPPORT;
	}
	memcpy(out->octets + 16, &port, 2);
	return 0;
}

static int
auth_random(uint8_t out[HOST_AUTH_NONCE_BYTES])
{
	ssize_t n;

	do {
		n = getrandom(out, HOST_AUTH_NONCE_BYTES, 0);
	} while (n < 0 && errno == EINTR);
	return n == HOST_AUTH_NONCE_BYTES ? 0 : -EIO;
}

/* The target's proof covers the client's proof, which a->shown holds by then. */
static int
auth_proof(const struct host_auth *a, const struct host_auth_keys *keys, bool of_target,
           uint8_t out[HOST_AUTH_PROOF_BYTES])
{
	const struct weft_hash_ops *hmac = weft_hash_find("hmac-sha256");
	uint8_t text[1 + 1 + HOST_AUTH_NAME_MAX + HOST_AUTH_PLACE_BYTES +
	             2 * HOST_AUTH_NONCE_BYTES + HOST_AUTH_PROOF_BYTES];
	uint8_t *p = text;
	size_t name = strlen(a->name);

	if (hmac == NULL || hmac->result_bytes != HOST_AUTH_PROOF_BYTES)
		return -ENOSYS;
	*p++ = AUTH_VERSION;
	*p++ = (uint8_t)name;
	memcpy(p, a->name, name);
	p += name;
	memcpy(p, a->place.octets, HOST_AUTH_PLACE_BYTES);
	p += HOST_AUTH_PLACE_BYTES;
	memcpy(p, a->nonce, sizeof(a->nonce));
	p += sizeof(a->nonce);
	if (of_target) {
		memcpy(p, a->shown, sizeof(a->shown));
		p += sizeof(a->shown);
	}
	return weft_hash_once_keyed(hmac, of_target ? keys->target : keys->client,
	                            HOST_AUTH_KEY_BYTES, text, (size_t)(p - text), out);
}

bool
host_auth_equal(const uint8_t *a, const uint8_t *b, size_t n)
{
	uint8_t diff = 0;

	while (n-- > 0)
		diff |= *a++ ^ *b++;
	return diff == 0;
}

/* A name appears in logs: letters, digits and a few signs. */
static bool
auth_name_ok(const uint8_t *p, size_t n)
{
	if (n == 0 || n > HOST_AUTH_NAME_MAX)
		return false;
	for (size_t i = 0; i < n; i++)
		if (!((p[i] >= 'a' && p[i] <= 'z') || (p[i] >= 'A' && p[i] <= 'Z') ||
		      (p[i] >= '0' && p[i] <= '9') || p[i] == '-' || p[i] == '_' || p[i] == '.'))
			return false;
	return true;
}

bool
host_auth_name_ok(const char *name)
{
	return auth_name_ok((const uint8_t *)name, strlen(name));
}

static int
client_begin(struct host_auth *a, uint8_t *out, uint32_t *out_bytes)
{
	size_t name = strlen(a->name);
	int rc = auth_random(a->nonce[0]);

	if (rc != 0 || !auth_name_ok((const uint8_t *)a->name, name))
		return rc != 0 ? rc : -EINVAL;
	out[0] = AUTH_VERSION;
	out[1] = (uint8_t)name;
	memcpy(out + 2, a->name, name);
	memcpy(out + 2 + name, a->place.octets, HOST_AUTH_PLACE_BYTES);
	memcpy(out + 2 + name + HOST_AUTH_PLACE_BYTES, a->nonce[0], HOST_AUTH_NONCE_BYTES);
	*out_bytes = (uint32_t)(2 + name + HOST_AUTH_PLACE_BYTES + HOST_AUTH_NONCE_BYTES);
	a->state = HOST_AUTH_ASKED;
	return 0;
}

static int
client_prove(struct host_auth *a, const uint8_t *in, uint32_t in_bytes, uint8_t *out,
             uint32_t *out_bytes)
{
	int rc;

	if (in_bytes != 1 + HOST_AUTH_NONCE_BYTES || in[0] != AUTH_VERSION)
		return -EBADMSG;
	memcpy(a->nonce[1], in + 1, HOST_AUTH_NONCE_BYTES);
	rc = auth_proof(a, a->keys, false, a->shown);
	if (rc != 0)
		return rc;
	out[0] = AUTH_VERSION;
	memcpy(out + 1, a->shown, HOST_AUTH_PROOF_BYTES);
	*out_bytes = 1 + HOST_AUTH_PROOF_BYTES;
	a->state = HOST_AUTH_PROVED;
	return 0;
}

static int
client_check(struct host_auth *a, const uint8_t *in, uint32_t in_bytes)
{
	uint8_t proof[HOST_AUTH_PROOF_BYTES];
	int rc;

	if (in_bytes != 1 + HOST_AUTH_PROOF_BYTES || in[0] != AUTH_VERSION)
		return -EBADMSG;
	rc = auth_proof(a, a->keys, true, proof);
	if (rc != 0)
		return rc;
	if (!host_auth_equal(proof, in + 1, sizeof(proof)))
		return -EACCES;
	a->state = HOST_AUTH_DONE;
	return 1;
}

/* Whether the place that the client called is this target. */
static bool
server_called(const struct host_auth *a, const struct host_auth_place *place)
{
	bool own = memcmp(place, &a->place, sizeof(*place)) == 0;

	for (unsigned int i = 0; i < a->nknown_as; i++)
		own = own || memcmp(place, &a->known_as[i], sizeof(*place)) == 0;
	return own;
}

static int
server_challenge(struct host_auth *a, const uint8_t *in, uint32_t in_bytes, uint8_t *out,
                 uint32_t *out_bytes)
{
	struct host_auth_place place;
	size_t name;
	int rc;

	if (in_bytes < 2 || in[0] != AUTH_VERSION)
		return -EBADMSG;
	name = in[1];
	if (in_bytes != 2 + name + HOST_AUTH_PLACE_BYTES + HOST_AUTH_NONCE_BYTES ||
	    !auth_name_ok(in + 2, name))
		return -EBADMSG;
	memcpy(a->name, in + 2, name);
	a->name[name] = '\0';
	memcpy(place.octets, in + 2 + name, HOST_AUTH_PLACE_BYTES);
	memcpy(a->nonce[0], in + 2 + name + HOST_AUTH_PLACE_BYTES, HOST_AUTH_NONCE_BYTES);
	a->elsewhere = !server_called(a, &place);
	a->place = place;
	a->keys = a->find(a->find_arg, a->name);
	if (a->elsewhere)
		a->keys = NULL;
	rc = auth_random(a->nonce[1]);
	if (rc != 0)
		return rc;
	out[0] = AUTH_VERSION;
	memcpy(out + 1, a->nonce[1], HOST_AUTH_NONCE_BYTES);
	*out_bytes = 1 + HOST_AUTH_NONCE_BYTES;
	a->state = HOST_AUTH_ASKED;
	return 0;
}

/* An unknown name takes the same steps, with keys that no client has. */
static int
server_check(struct host_auth *a, const uint8_t *in, uint32_t in_bytes, uint8_t *out,
             uint32_t *out_bytes)
{
	const struct host_auth_keys none = {0}, *keys = a->keys != NULL ? a->keys : &none;
	int rc;

	if (in_bytes != 1 + HOST_AUTH_PROOF_BYTES || in[0] != AUTH_VERSION)
		return -EBADMSG;
	rc = auth_proof(a, keys, false, a->shown);
	if (rc != 0)
		return rc;
	if (!host_auth_equal(a->shown, in + 1, sizeof(a->shown)) || a->keys == NULL)
		return -EACCES;
	out[0] = AUTH_VERSION;
	rc = auth_proof(a, keys, true, out + 1);
	if (rc != 0)
		return rc;
	*out_bytes = 1 + HOST_AUTH_PROOF_BYTES;
	a->state = HOST_AUTH_DONE;
	return 1;
}

int
host_auth_step(struct host_auth *a, const uint8_t *in, uint32_t in_bytes, uint8_t *out,
               uint32_t out_cap, uint32_t *out_bytes)
{
	int rc = -EBADMSG;

	*out_bytes = 0;
	if (out_cap < 2 + HOST_AUTH_NAME_MAX + HOST_AUTH_PLACE_BYTES + HOST_AUTH_NONCE_BYTES +
	                      HOST_AUTH_PROOF_BYTES)
		return -EINVAL;
	if (a->state == HOST_AUTH_NEW && !a->server && in == NULL)
		rc = client_begin(a, out, out_bytes);
	else if (a->state == HOST_AUTH_ASKED && !a->server && in != NULL)
		rc = client_prove(a, in, in_bytes, out, out_bytes);
	else if (a->state == HOST_AUTH_PROVED && in != NULL)
		rc = client_check(a, in, in_bytes);
	else if (a->state == HOST_AUTH_NEW && a->server && in != NULL)
		rc = server_challenge(a, in, in_bytes, out, out_bytes);
	else if (a->state == HOST_AUTH_ASKED && a->server && in != NULL)
		rc = server_check(a, in, in_bytes, out, out_bytes);
	if (rc < 0)
		a->state = HOST_AUTH_FAILED;
	return rc;
}
