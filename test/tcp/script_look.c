/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Attributes that a packet script sets, and values of the stack and the application that
 * it checks. */

#include <stdlib.h>

#include "script.h"

#define F(type, name)                                                                              \
	{                                                                                          \
#name, offsetof(struct type, name), sizeof(((struct type *)0)->name)               \
	}
#define A(name) F(weft_tcp_attr, name)
#define I(name) F(weft_tcp_info, name)

static const struct weft_stat_field attr_fields[] = {
        A(max_conns),
        A(max_ooo_bytes),
        A(rcv_buf_bytes),
        A(snd_buf_bytes),
        A(rto_min_us),
        A(rto_max_us),
        A(rto_initial_us),
        A(syn_retries),
        A(data_retries),
        A(delack_us),
        A(time_wait_us),
        A(keepalive_us),
        A(keepalive_intvl_us),
        A(keepalive_probes),
        A(initial_cwnd_segs),
        A(user_timeout_us),
        A(max_snd_segs),
        A(max_snd_segs_total),
        A(max_ooo_mbufs),
        A(no_timestamps),
        A(no_sack),
        A(no_window_scale),
        A(no_tso),
        A(no_pmtu),
        A(no_quick_acks),
        A(cc),
        A(ecn),
        A(syn_cookies),
        A(max_half_open),
        A(max_conns_per_peer),
        A(max_accepts_per_s),
        A(max_time_wait),
        A(challenge_acks_per_s),
        A(resets_per_s),
        A(fin_wait2_us),
        A(min_mss_bytes),
        A(pmtu_raise_us),
        A(blackhole_rtos),
        A(max_ooo_mbufs_total),
};

static const struct weft_stat_field info_fields[] = {
        I(srtt_us),
        I(rttvar_us),
        I(rto_us),
        I(cwnd_bytes),
        I(ssthresh_bytes),
        I(snd_wnd_bytes),
        I(rcv_wnd_bytes),
        I(unacked_bytes),
        I(queued_bytes),
        I(mss_bytes),
        I(retrans_segs),
        I(rtos),
        I(snd_wscale),
        I(rcv_wscale),
        I(timestamps),
        I(sack),
        I(ecn),
        I(in_recovery),
        I(pmtu_bytes),
        I(dscp),
        I(segs_in),
        I(segs_out),
        I(bytes_in),
        I(bytes_out),
        I(dupacks_in),
        I(sack_blocks_in),
        I(ooo_segs),
        I(dup_bytes_in),
        I(fast_retrans),
        I(tlp_probes),
        I(spurious_retrans),
};

static const struct {
	const char *name;
	int err;
} errors[] = {
        {"ok", 0},
        {"reset", -ECONNRESET},
        {"refused", -ECONNREFUSED},
        {"timedout", -ETIMEDOUT},
        {"unreach", -EHOSTUNREACH},
        {"aborted", -ECONNABORTED},
};

static const struct weft_stat_field *
field_find(struct sc *s, const char **p, const struct weft_stat_field *t, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		if (sc_word(p, t[i].name))
			return &t[i];
	SC_FAIL(s, "script: no such field: \"%s\"", *p);
}

static uint64_t
field_get(const void *base, const struct weft_stat_field *f)
{
	uint64_t v = 0;

	memcpy(&v, (const uint8_t *)base + f->off, f->bytes); /* little-endian, as x86 is */
	return v;
}

/** A number, or a time in microseconds. */
uint64_t
sc_value(struct sc *s, const char **p)
{
	const char *q = *p;
	double v;
	char *end;

	sc_space(&q);
	v = strtod(q, &end);
	if (end == q)
		SC_FAIL(s, "script: a number is missing at \"%s\"", q);
	*p = end;
	if (sc_word(p, "us"))
		return (uint64_t)v;
	if (sc_word(p, "ms"))
		return (uint64_t)(v * 1e3 + 0.5);
	if (sc_word(p, "s"))
		return (uint64_t)(v * 1e6 + 0.5);
	return (uint64_t)v;
}

/** "field op value": compare the growth since `from`, or fail with the present value. */
static void
compare(struct sc *s, const char **p, const void *base, const void *from,
        const struct weft_stat_field *t, unsigned int n)
{
	const struct weft_stat_field *f = field_find(s, p, t, n);
	uint64_t is = field_get(base, f) - (from != NULL ? field_get(from, f) : 0), want, tol = 0;
	char op[4];
	bool ok;

	sc_token(p, op, sizeof(op));
	want = sc_value(s, p);
	if (strcmp(op, "~") == 0)
		tol = sc_value(s, p);
	ok = strcmp(op, "==") == 0   ? is == want
	     : strcmp(op, "!=") == 0 ? is != want
	     : strcmp(op, "<") == 0  ? is < want
	     : strcmp(op, ">") == 0  ? is > want
	     : strcmp(op, "<=") == 0 ? is <= want
	     : strcmp(op, ">=") == 0 ? is >= want
	     : strcmp(op, "~") == 0  ? is + tol >= want && is <= want + tol
	                             : false;
	sc_end(s, p);
	if (!ok)
		SC_FAIL(s, "expected: %s %s %" PRIu64 ", it is %" PRIu64, f->name, op, want, is);
}

void
sc_set(struct sc *s, const char **p)
{
	while (sc_space(p), **p != '\0') {
		uint8_t *base = (uint8_t *)&s->attr;
		const struct weft_stat_field *f;
		uint32_t v;

		if (s->up)
			SC_FAIL(s, "script: too late to set anything");
		if (sc_word(p, "ipv6")) {
			s->v6 = true;
			continue;
		}
		if (sc_word(p, "manual_arp")) {
			s->manual_arp = true;
			continue;
		}
		if (sc_word(p, "dscp")) {
			s->nif_attr.dscp = (uint8_t)sc_int(s, p);
			continue;
		}
		if (sc_word(p, "mtu")) {
			s->nif_attr.mtu_bytes = (uint16_t)sc_int(s, p);
			continue;
		}
		f = field_find(s, p, attr_fields, RTE_DIM(attr_fields));
		if (f->bytes == sizeof(bool)) {
			base[f->off] = true;
			continue;
		}
		v = sc_word(p, "cubic")     ? WEFT_TCP_CC_CUBIC
		    : sc_word(p, "newreno") ? WEFT_TCP_CC_NEWRENO
		    : sc_word(p, "off")     ? WEFT_TCP_ECN_OFF
		    : sc_word(p, "passive") ? WEFT_TCP_ECN_PASSIVE
		    : sc_word(p, "on")      ? WEFT_TCP_ECN_ON
		    : sc_word(p, "auto")    ? WEFT_TCP_COOKIES_AUTO
		    : sc_word(p, "always")  ? WEFT_TCP_COOKIES_ALWAYS
		    : sc_word(p, "never")   ? WEFT_TCP_COOKIES_NEVER
		                            : (uint32_t)sc_value(s, p);
		memcpy(base + f->off, &v, sizeof(v));
	}
}

/* ---- Values of the stack ---- */

struct seek {
	const struct sc_flow *f;
	struct weft_tcp_conn *c;
};

static void
seek_conn(struct seek *k, struct weft_tcp_conn *c)
{
	struct weft_tcp_info info;

	weft_tcp_info(c, &info);
	if (info.remote_port == k->f->peer_port && info.local_port == k->f->our_port)
		k->c = c;
}

static bool
conn_info(struct sc *s, struct weft_tcp_info *info)
{
	struct seek k = {.f = s->f};
	struct weft_tcp_conn *c;
	uint32_t id = 0;

	while ((c = weft_tcp_conn_next(s->tcp, &id, UINT32_MAX)) != NULL)
		seek_conn(&k, c);
	if (k.c != NULL)
		weft_tcp_info(k.c, info);
	return k.c != NULL;
}

static void
check_state(struct sc *s, const char *p)
{
	struct weft_tcp_info info = {.state = WEFT_TCP_CLOSED};
	char want[24];
	const char *is;

	sc_token(&p, want, sizeof(want));
	sc_end(s, &p);
	conn_info(s, &info);
	is = weft_tcp_state_name(info.state);
	if (strcmp(want, is) != 0)
		SC_FAIL(s, "expected: state %s, it is %s", want, is);
}

static void
check_app(struct sc *s, const char *p, const char *text)
{
	const struct sc_flow *f = s->f;
	bool ok = false;

	if (sc_word(&p, "accepted"))
		ok = f->accepted;
	else if (sc_word(&p, "not-accepted"))
		ok = !f->accepted;
	else if (sc_word(&p, "established"))
		ok = f->established;
	else if (sc_word(&p, "not-established"))
		ok = !f->established;
	else if (sc_word(&p, "eof"))
		ok = f->eof;
	else if (sc_word(&p, "no-eof"))
		ok = !f->eof;
	else if (sc_word(&p, "open"))
		ok = f->c != NULL && !f->closed;
	else if (sc_word(&p, "received"))
		ok = f->received == (uint64_t)sc_int(s, &p);
	else if (sc_word(&p, "writable"))
		ok = f->writables > 0;
	else if (sc_word(&p, "mss-told"))
		ok = f->mss_calls > 0;
	else if (sc_word(&p, "space"))
		ok = f->c != NULL && weft_tcp_send_space(f->c) > 0;
	else if (sc_word(&p, "no-space"))
		ok = f->c != NULL && weft_tcp_send_space(f->c) == 0;
	else if (sc_word(&p, "closed"))
		for (unsigned int i = 0; i < RTE_DIM(errors); i++) {
			if (sc_word(&p, errors[i].name))
				ok = f->closed && f->err == errors[i].err;
		}
	sc_end(s, &p);
	if (!ok)
		SC_FAIL(s,
		        "expected: %s\n#   application: %s%s%s%sreceived %" PRIu64 "%s, error %d",
		        text, f->accepted ? "accepted, " : "",
		        f->established ? "established, " : "", f->eof ? "eof, " : "",
		        f->closed ? "closed, " : "", f->received,
		        f->bad_data ? " (wrong octets)" : "", f->err);
}

/** RFC 6528: how far the ISN of this incarnation is beyond the former one. */
static void
check_isn(struct sc *s, const char *p, uint32_t from)
{
	long long min = sc_int(s, &p), max = sc_int(s, &p);
	uint32_t step = s->f->iss - from;

	sc_end(s, &p);
	if (step < min || step > max)
		SC_FAIL(s, "expected: the number to go on by %lld to %lld, it is %u", min, max,
		        step);
}

bool
sc_look(struct sc *s, const char *p, const char *text)
{
	const struct weft_stat_field *fields;
	struct weft_tcp_info info;
	unsigned int nfields;

	if (sc_word(&p, "state")) {
		check_state(s, p);
	} else if (sc_word(&p, "info")) {
		if (!conn_info(s, &info))
			SC_FAIL(s, "info: there is no connection");
		compare(s, &p, &info, NULL, info_fields, RTE_DIM(info_fields));
	} else if (sc_word(&p, "stat")) {
		nfields = weft_tcp_stat_fields(&fields);
		compare(s, &p, weft_tcp_stats(s->tcp), &s->tcp0, fields, nfields);
	} else if (sc_word(&p, "nif")) {
		nfields = weft_netif_stat_fields(&fields);
		compare(s, &p, weft_netif_stats(s->nif), &s->nif0, fields, nfields);
	} else if (sc_word(&p, "isn-step")) {
		check_isn(s, p, s->f->old_iss);
	} else if (sc_word(&p, "isn-far")) {
		long long n = sc_int(s, &p);
		uint32_t apart = s->f->iss - s->flow[n % SC_FLOWS].iss;

		if (apart < 1000000 || apart > UINT32_MAX - 1000000)
			SC_FAIL(s, "expected: numbers far apart, it is %u", apart);
	} else if (sc_word(&p, "app")) {
		check_app(s, p, text);
	} else {
		return false;
	}
	return true;
}
