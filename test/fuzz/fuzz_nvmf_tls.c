/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file TLS of NVMe/TCP. An input is a ClientHello, of any octets, whose pre-shared keys are looked
 * for; or it is a session between a target and libssl's client, whose flights are cut into pieces
 * of any length, damaged or followed by other octets, while TCP takes little. What was not damaged
 * arrives whole and in order on both sides, and no more waits than a session may keep.
 */

#include <errno.h>

#include "fuzz.h"
#include "nvmf_tls.h"
#include "tls_client.h"
#include "weft_test.h"

#define KEY     "NVMeTLSkey-1:01:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:"
#define HOST    "nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555"
#define SUBSYS  "nqn.2026-01.org.example:fuzz"
#define OPS_MAX 64

static struct weft_nvmf_tls *keys;
static struct nvmf_tls_ctx *ctx;
static uint8_t pattern[65536 + 256];

static struct {
	struct nvmf_tls *s;
	struct tls_client c;
	bool ready, deaf, wild; /**< wild: something was damaged */
	bool failed, ended;
	bool shut, closed;      /**< the client, the target, sends nothing more */
	size_t room;            /**< that TCP takes */
	uint8_t sent[1U << 21]; /**< what the target has sent, and the client has not got */
	size_t sent_bytes;
	uint64_t up, down;           /**< octets of the patterns that were given to each side */
	uint64_t up_came, down_came; /**< and that have come */
} f;

/* ---- The target's side ---- */

static ssize_t
on_send(void *user, const void *p, size_t bytes)
{
	const size_t n = bytes < f.room ? bytes : f.room;

	(void)user;
	FUZZ_CHECK(f.sent_bytes + n <= sizeof(f.sent));
	memcpy(f.sent + f.sent_bytes, p, n);
	f.sent_bytes += n;
	f.room -= n;
	return (ssize_t)n;
}

static void
on_ready(void *user)
{
	(void)user;
	FUZZ_CHECK(!f.ready);
	f.ready = true;
	FUZZ_CHECK(strcmp(nvmf_tls_found(f.s)->hostnqn, HOST) == 0);
	FUZZ_CHECK(strcmp(nvmf_tls_found(f.s)->subnqn, SUBSYS) == 0);
}

/** Octets of a pattern that repeats. */
static void
expect(const uint8_t *p, size_t bytes, uint64_t *at)
{
	for (size_t i = 0; i < bytes; i++)
		FUZZ_CHECK(p[i] == pattern[(*at)++ % 251]);
}

static void
on_text(void *user, const uint8_t *p, size_t bytes)
{
	(void)user;
	FUZZ_CHECK(f.ready && !f.failed && bytes <= NVMF_TLS_TEXT_BYTES);
	/* damaged octets are never text */
	expect(p, bytes, &f.up_came);
	FUZZ_CHECK(f.up_came <= f.up);
}

static bool
on_deaf(void *user)
{
	(void)user;
	return f.deaf;
}

static const struct nvmf_tls_ops ops = {
        .send = on_send, .ready = on_ready, .text = on_text, .deaf = on_deaf};

static void
set_up(void)
{
	struct weft_nvmf_tls_key k = {.hostnqn = HOST};
	const char *why;

	test_bail_aborts = true;
	FUZZ_CHECK(weft_nvmf_tls_create(3, &keys) == 0);
	FUZZ_CHECK(weft_nvmf_psk_parse(KEY, &k.psk, &why) == 0);
	FUZZ_CHECK(weft_nvmf_tls_set(keys, SUBSYS, &k, 1) == 0);
	FUZZ_CHECK(nvmf_tls_ctx_open(keys, 50000, &ctx) == 0);
	for (size_t i = 0; i < sizeof(pattern); i++)
		pattern[i] = (uint8_t)(i % 251);
}

/* ---- A ClientHello ---- */

static void
hello(const uint8_t *p, size_t bytes)
{
	uint8_t *exact = malloc(bytes + 1);
	struct nvmf_tls_hello h;
	struct nvmf_tls_found found;

	FUZZ_CHECK(exact != NULL);
	if (bytes > 0)
		memcpy(exact, p, bytes);
	exact = realloc(exact, bytes > 0 ? bytes : 1);
	if (nvmf_tls_hello_read(exact, bytes, &h) == 0) {
		FUZZ_CHECK(h.bound_bytes <= bytes && h.noffers <= NVMF_TLS_OFFERS_MAX);
		for (unsigned int i = 0; i < h.noffers; i++) {
			FUZZ_CHECK(h.offers[i].id >= exact &&
			           h.offers[i].id + h.offers[i].id_bytes <= exact + bytes);
			FUZZ_CHECK(h.offers[i].binder + h.offers[i].binder_bytes <= exact + bytes);
		}
		/* nothing of a mutation has a binder */
		FUZZ_CHECK(nvmf_tls_hello_find(&h, keys, &found) != 0);
		FUZZ_CHECK(found.hostnqn[0] == 0 || weft_nvmf_nqn_ok(found.hostnqn));
	}
	free(exact);
}

/* ---- A session ---- */

/** The client gets what the target has sent. */
static void
down(void)
{
	tls_client_rx(&f.c, f.sent, f.sent_bytes);
	f.sent_bytes = 0;
	expect(f.c.text, f.c.text_bytes, &f.down_came);
	tls_client_used(&f.c, f.c.text_bytes);
	FUZZ_CHECK(f.down_came <= f.down);
	FUZZ_CHECK(f.wild || f.deaf || f.failed || f.c.failed == 0);
}

/** The target gets octets, in pieces of `cut` octets. */
static void
up(const uint8_t *p, size_t bytes, size_t cut)
{
	while (bytes > 0 && !f.failed && !f.ended) {
		const size_t n = cut > 0 && cut < bytes ? cut : bytes;
		uint8_t *exact = malloc(n);
		int rc;

		FUZZ_CHECK(exact != NULL);
		memcpy(exact, p, n);
		rc = nvmf_tls_rx(f.s, exact, n);
		free(exact);
		FUZZ_CHECK(rc == 0 || rc == -EPROTO || rc == -ESHUTDOWN);
		f.failed = rc == -EPROTO;
		f.ended = rc == -ESHUTDOWN;
		if (f.failed) {
			const char *text;

			FUZZ_CHECK(nvmf_tls_why(f.s, &text) != NVMF_TLS_OK);
		}
		FUZZ_CHECK(nvmf_tls_left(f.s) <= NVMF_TLS_OUT_BYTES);
		p += n;
		bytes -= n;
	}
}

/** What the client has to send; how: its damage. */
static void
flight(uint8_t how, uint16_t at, size_t cut)
{
	uint8_t *p;
	const size_t n = tls_client_out(&f.c, &p);

	if (how != 0 && n > 0) {
		p[at % n] ^= how;
		f.wild = true;
	}
	up(p, n, cut);
}

static void
step(struct fuzz_in *in, uint8_t op)
{
	const struct iovec v[2] = {
	        {.iov_base = pattern + f.down % 251, .iov_len = 1000},
	        {.iov_base = pattern + (f.down + 1000) % 251, .iov_len = fuzz_u16(in) % 20000}};
	const bool usable =
	        f.c.done && !f.wild && !f.failed && !f.ended && !f.shut && f.c.failed == 0;
	const uint8_t *p;
	ssize_t took;
	size_t n;

	switch (op & 7) {
	case 0:
		flight(0, 0, op >> 3);
		down();
		break;
	case 1:
		flight(fuzz_u8(in), fuzz_u16(in), op >> 3);
		down();
		break;
	case 2:
		n = fuzz_u8(in);
		p = fuzz_octets(in, n, &n);
		f.wild = f.wild || n > 0;
		up(p, n, 0);
		break;
	case 3:
		n = v[1].iov_len;
		if (!usable)
			break;
		tls_client_tx(&f.c, pattern + f.up % 251, n);
		f.up += n;
		break;
	case 4:
		if (!f.ready || f.failed || f.deaf || f.closed)
			break;
		took = nvmf_tls_write(f.s, v, 2);
		FUZZ_CHECK(took >= 0 && (size_t)took <= v[0].iov_len + v[1].iov_len);
		FUZZ_CHECK((size_t)took == v[0].iov_len + v[1].iov_len || nvmf_tls_left(f.s) > 0 ||
		           took >= (ssize_t)NVMF_TLS_TURN_BYTES);
		f.down += (uint64_t)took;
		break;
	case 5:
		f.room = op & 8 ? 1U << 20 : v[1].iov_len;
		(void)nvmf_tls_flush(f.s);
		break;
	case 6:
		if (usable)
			(void)SSL_key_update(f.c.ssl, op & 8 ? SSL_KEY_UPDATE_REQUESTED
			                                     : SSL_KEY_UPDATE_NOT_REQUESTED);
		if (usable && (op & 16))
			(void)SSL_do_handshake(f.c.ssl);
		break;
	case 7:
		if (op & 8) {
			f.deaf = true;
		} else if (usable && (op & 16)) {
			f.shut = SSL_shutdown(f.c.ssl) >= 0;
		} else if (op & 32) {
			f.closed = true;
			nvmf_tls_shut(f.s);
		}
		break;
	}
}

static void
session(struct fuzz_in *in)
{
	memset(&f, 0, offsetof(__typeof__(f), sent));
	f.sent_bytes = 0;
	f.up = f.down = f.up_came = f.down_came = 0;
	f.room = 1U << 20;
	tls_client_open_key(&f.c, KEY,
	                    fuzz_u8(in) & 1 ? WEFT_NVMF_PSK_COMPAT : WEFT_NVMF_PSK_RFC8446,
	                    fuzz_u8(in) & 1, HOST, SUBSYS);
	FUZZ_CHECK(nvmf_tls_open(ctx, &ops, NULL, &f.s) == 0);
	tls_client_step(&f.c);
	for (unsigned int i = 0; in->left > 0 && i < OPS_MAX && f.up < 1000000 && f.down < 1000000;
	     i++)
		step(in, fuzz_u8(in));
	/* all that was given comes, if nothing was damaged or given up */
	f.room = 1U << 20;
	(void)nvmf_tls_flush(f.s);
	flight(0, 0, 0);
	if (!f.failed)
		FUZZ_CHECK(nvmf_tls_flush(f.s) == 0);
	down();
	if (!f.wild && !f.deaf && !f.failed && !f.ended)
		FUZZ_CHECK(f.up_came == f.up);
	if (!f.wild && !f.deaf && !f.failed && f.c.done && !f.c.closed)
		FUZZ_CHECK(f.down_came == f.down);
	nvmf_tls_close(f.s);
	tls_client_close(&f.c);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_in in = {data, size};

	if (keys == NULL)
		set_up();
	if (fuzz_u8(&in) & 1)
		hello(in.p, in.left);
	else
		session(&in);
	return 0;
}
