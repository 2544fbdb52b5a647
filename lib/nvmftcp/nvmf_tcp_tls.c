/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Hosts that begin with TLS, and those that should have. The first octet tells: a record of a
 * handshake begins with 22, and an ICReq with 0.
 */

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "nvmf_tcp_priv.h"

#define TLS_HANDSHAKE 22U

/** Tell the owner. */
static void __attribute__((format(printf, 2, 3)))
tls_refused(const struct tcp_conn *c, const char *fmt, ...)
{
	const struct weft_nvmf_tcp_attr *a = &c->t->attr;
	char why[WEFT_NVMF_TCP_WHY_BYTES];
	va_list ap;

	if (a->refused == NULL)
		return;
	va_start(ap, fmt);
	(void)vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	a->refused(a->owner, &c->remote, why);
}

/** A handshake has ended. */
static void
tls_place(struct tcp_conn *c, bool done)
{
	struct weft_nvmf_tcp_stats *s = &c->t->stats;

	c->handshake = false;
	TAILQ_REMOVE(&c->t->hands, c, hand);
	s->tls_handshakes--;
	*(done ? &s->tls_done : &s->tls_failed) += 1;
}

/* ---- The session's calls ---- */

static ssize_t
tls_send(void *user, const void *p, size_t bytes)
{
	struct tcp_conn *c = user;
	const struct iovec v = {.iov_base = (void *)(uintptr_t)p, .iov_len = bytes};
	const ssize_t n = c->s == NULL ? -EPIPE : weft_stream_write(c->s, &v, 1);

	if (n > 0)
		c->tx.moved_ns = tcp_now(c);
	return n;
}

/** The key was taken away. */
static void
tls_gone(struct tcp_conn *c)
{
	c->t->stats.tls_gone++;
	tls_refused(c, "its key of TLS is gone");
}

static void
tls_ready(void *user)
{
	struct tcp_conn *c = user;
	const struct nvmf_tls_found *f = nvmf_tls_found(c->tls);
	/* the poll that looks at keys passes by connections in their handshake */
	const bool has = nvmf_tls_keys_has(c->t->attr.keys, f->serial);

	tls_place(c, has);
	if (!has) {
		tls_gone(c);
		tcp_abort_soon(c);
		return;
	}
	c->t->stats.tls_compat += f->derivation == WEFT_NVMF_PSK_COMPAT;
	c->proven = (struct weft_nvmf_proven){.hostnqn = f->hostnqn, .subnqn = f->subnqn};
	weft_nvmf_queue_proven(c->q, &c->proven);
}

static void
tls_text(void *user, const uint8_t *p, size_t bytes)
{
	nvmf_tcp_rx(user, p, bytes);
}

static bool
tls_deaf(void *user)
{
	const struct tcp_conn *c = user;

	return c->deaf || c->lost;
}

static const struct nvmf_tls_ops tls_ops = {
        .send = tls_send, .ready = tls_ready, .text = tls_text, .deaf = tls_deaf};

/* ---- What has failed ---- */

/** Tell why a handshake has failed. */
static void
tls_tell(const struct tcp_conn *c)
{
	const struct nvmf_tls_found *f = nvmf_tls_found(c->tls);
	const char *text;

	switch (nvmf_tls_why(c->tls, &text)) {
	case NVMF_TLS_NO_PSK:
		tls_refused(c, "it offers no pre-shared key");
		break;
	case NVMF_TLS_NO_KEY:
		if (f->hostnqn[0] == '\0')
			tls_refused(c, "none of its identities is that of a host and a subsystem");
		else
			tls_refused(c, "there is no key of host %s for subsystem %s", f->hostnqn,
			            f->subnqn);
		break;
	case NVMF_TLS_DERIVATION:
		tls_refused(c,
		            "host %s has its key in the derivation of %s, which tls_derivation "
		            "does not admit",
		            f->hostnqn, nvmf_psk_derivation_name(f->derivation));
		break;
	case NVMF_TLS_WRONG_KEY:
		tls_refused(c, "host %s has another key (tried in the derivations of %s and of %s)",
		            f->hostnqn, nvmf_psk_derivation_name(WEFT_NVMF_PSK_RFC8446),
		            nvmf_psk_derivation_name(WEFT_NVMF_PSK_COMPAT));
		break;
	case NVMF_TLS_MANY_KEYS:
		tls_refused(c,
		            "host %s has another key than the first %u that it could have for "
		            "subsystem %s; no more are tried",
		            f->hostnqn, NVMF_TLS_TRIES_MAX, f->subnqn);
		break;
	case NVMF_TLS_ALERT:
		tls_refused(c, "it has sent the alert \"%s\"", text);
		break;
	default:
		tls_refused(c, "%s", text == NULL ? "TLS has failed" : text);
	}
}

/** The session has failed: its alert is sent, and the connection ends. */
static void
tls_failed(struct tcp_conn *c)
{
	if (c->handshake)
		tls_place(c, false);
	else
		c->t->stats.tls_faults++;
	tls_tell(c);
	c->deaf = true;
	c->tx.ended = true;
	tcp_close_by(c, tcp_now(c) + TCP_CLOSE_NS);
	nvmf_tcp_out_close(c);
}

/* ---- The first octet ---- */

/** How many handshakes the peer of a connection has. */
static uint32_t
tls_hands_of(const struct tcp_conn *c)
{
	const struct tcp_conn *o;
	uint32_t n = 0;

	TAILQ_FOREACH (o, &c->t->hands, hand)
		n += memcmp(&o->peer, &c->peer, sizeof(c->peer)) == 0;
	return n;
}

/** No place is free: the oldest handshake of the peer that has most gives way. False: the peer of
 * the new one has as many. */
static bool
tls_give_way(const struct tcp_conn *c)
{
	struct tcp_conn *o, *last = NULL;
	uint32_t n, most = tls_hands_of(c);

	TAILQ_FOREACH (o, &c->t->hands, hand) {
		n = tls_hands_of(o);
		if (n > most) {
			most = n;
			last = o;
		}
	}
	if (last == NULL)
		return false;
	tls_place(last, false);
	c->t->stats.tls_busy++;
	tls_refused(last, "too many TLS handshakes are under way, and most are of its address");
	tcp_abort_soon(last);
	return true;
}

static void
tls_begin(struct tcp_conn *c)
{
	struct weft_nvmf_tcp *t = c->t;

	if (t->stats.tls_handshakes >= t->attr.max_handshakes && !tls_give_way(c)) {
		t->stats.tls_busy++;
		tls_refused(c, "too many TLS handshakes are under way");
		tcp_abort_soon(c);
		return;
	}
	if (nvmf_tls_open(t->tls, &tls_ops, c, &c->tls) != 0) {
		t->stats.tls_failed++;
		tls_refused(c, "there is no memory for its TLS session");
		tcp_abort_soon(c);
		return;
	}
	c->kind = TCP_TLS;
	c->handshake = true;
	TAILQ_INSERT_TAIL(&t->hands, c, hand);
	c->hand_ns = tcp_now(c);
	t->stats.tls_conns++;
	t->stats.tls_handshakes++;
	tcp_look_by(t, c->hand_ns + t->attr.handshake_ns);
}

static void
tls_first(struct tcp_conn *c, uint8_t first)
{
	struct weft_nvmf_tcp *t = c->t;

	c->kind = TCP_PLAIN;
	if (first == TLS_HANDSHAKE && t->attr.tls != WEFT_NVMF_TCP_TLS_OFF) {
		tls_begin(c);
	} else if (first == TLS_HANDSHAKE) {
		t->stats.tls_unwanted++;
		tls_refused(c, "it begins with TLS, which is off");
		tcp_abort_soon(c);
	} else if (t->attr.tls == WEFT_NVMF_TCP_TLS_REQUIRED) {
		t->stats.tls_missing++;
		tls_refused(c, "it begins without TLS, which is required");
		tcp_abort_soon(c);
	}
}

bool
nvmf_tcp_tls_rx(struct tcp_conn *c, const uint8_t *p, size_t bytes)
{
	uint64_t was, whole;
	int rc;

	if (c->kind == TCP_NEW && bytes > 0)
		tls_first(c, p[0]);
	if (c->deaf || c->lost)
		return true;
	if (c->tls == NULL) {
		nvmf_tcp_rx(c, p, bytes);
		return true;
	}
	(void)nvmf_tls_partial(c->tls, &was);
	rc = nvmf_tls_rx(c->tls, p, bytes);
	if (rc == -EPROTO)
		tls_failed(c);
	if (!nvmf_tls_partial(c->tls, &whole)) {
		c->record_ns = 0;
	} else if (c->record_ns == 0 || whole != was) {
		c->record_ns = tcp_now(c);
		tcp_watch(c);
	}
	if (nvmf_tls_left(c->tls) > 0)
		tcp_watch(c);
	return rc != -ESHUTDOWN;
}

bool
nvmf_tcp_tls_look(struct tcp_conn *c, uint64_t now_ns)
{
	struct weft_nvmf_tcp *t = c->t;

	if (c->tls == NULL || c->deaf || c->lost)
		return true;
	if (c->handshake) {
		const uint64_t due = c->hand_ns + t->attr.handshake_ns;

		if (now_ns < due) {
			tcp_look_by(t, due);
			return true;
		}
		tls_place(c, false);
		t->stats.tls_expired++;
		tls_refused(c, "its TLS handshake took too long");
	} else {
		if (!t->keys_changed ||
		    nvmf_tls_keys_has(t->attr.keys, nvmf_tls_found(c->tls)->serial))
			return true;
		tls_gone(c);
	}
	c->deaf = true;
	return false;
}

void
nvmf_tcp_tls_lost(struct tcp_conn *c)
{
	if (c->handshake)
		tls_place(c, false);
}

void
nvmf_tcp_tls_end(struct tcp_conn *c)
{
	if (c->tls == NULL)
		return;
	nvmf_tcp_tls_lost(c);
	c->t->stats.tls_conns--;
	nvmf_tls_close(c->tls);
	c->tls = NULL;
}
