/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The words of packet scripts. */

#include <arpa/inet.h>
#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>

#include "script.h"
#include "weft_netif_mbuf.h"

static const char flag_letters[] = "FSRP.UEW";

void
sc_space(const char **p)
{
	while (isspace((unsigned char)**p))
		(*p)++;
}

static bool
in_word(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '-';
}

bool
sc_word(const char **p, const char *w)
{
	size_t n = strlen(w);

	sc_space(p);
	if (strncmp(*p, w, n) != 0 || (in_word(w[n - 1]) && in_word((*p)[n])))
		return false;
	*p += n;
	return true;
}

void
sc_token(const char **p, char *buf, size_t size)
{
	size_t n = 0;

	sc_space(p);
	while (**p != '\0' && !isspace((unsigned char)**p) && n + 1 < size)
		buf[n++] = *(*p)++;
	buf[n] = '\0';
}

long long
sc_int(struct sc *s, const char **p)
{
	char *end;
	long long v;

	sc_space(p);
	v = strtoll(*p, &end, 0);
	if (end == *p)
		SC_FAIL(s, "script: a number is missing at \"%s\"", *p);
	*p = end;
	return v;
}

uint64_t
sc_time(struct sc *s, const char **p)
{
	char *end;
	double v;

	sc_space(p);
	v = strtod(*p, &end);
	if (end == *p)
		SC_FAIL(s, "script: a time is missing at \"%s\"", *p);
	*p = end;
	if (sc_word(p, "us"))
		return (uint64_t)(v * 1e3 + 0.5);
	if (sc_word(p, "ms"))
		return (uint64_t)(v * 1e6 + 0.5);
	if (sc_word(p, "s"))
		return (uint64_t)(v * 1e9 + 0.5);
	SC_FAIL(s, "script: a time needs us, ms or s at \"%s\"", *p);
}

void
sc_end(struct sc *s, const char **p)
{
	sc_space(p);
	if (**p != '\0')
		SC_FAIL(s, "script: what does \"%s\" mean?", *p);
}

uint32_t
sc_addr(struct sc *s, const char **p)
{
	char word[32];
	struct in_addr in;

	if (sc_word(p, "us"))
		return sc_our_v4();
	if (sc_word(p, "peer"))
		return sc_peer_v4();
	sc_token(p, word, sizeof(word));
	if (inet_pton(AF_INET, word, &in) != 1)
		SC_FAIL(s, "script: \"%s\" is no address", word);
	return ntohl(in.s_addr);
}

static bool
take(const char **p, char c)
{
	sc_space(p);
	if (**p != c)
		return false;
	(*p)++;
	return true;
}

static void
need(struct sc *s, const char **p, char c)
{
	if (!take(p, c))
		SC_FAIL(s, "script: '%c' is missing at \"%s\"", c, *p);
}

static struct sc_num
seq_num(struct sc *s, const char **p)
{
	struct sc_num n = {0};

	n.abs = take(p, '@');
	n.v = (uint32_t)sc_int(s, p);
	return n;
}

static void
parse_ts(struct sc *s, const char **p, struct sc_opts *o)
{
	o->has_ts = true;
	if (!sc_word(p, "val"))
		SC_FAIL(s, "script: TS val V ecr E");
	if (take(p, '*'))
		o->val_any = true;
	else if (take(p, '~'))
		o->val_auto = true;
	else
		o->ts_val = (uint32_t)sc_int(s, p);
	if (!sc_word(p, "ecr"))
		SC_FAIL(s, "script: TS val V ecr E");
	if (take(p, '*')) {
		o->ecr_any = true;
	} else if (take(p, '$')) {
		o->ecr_last = true;
		if (**p == '+' || **p == '-')
			o->ts_ecr = (uint32_t)sc_int(s, p);
	} else {
		o->ts_ecr = (uint32_t)sc_int(s, p);
	}
}

void
sc_parse_opts(struct sc *s, const char **p, struct sc_opts *o)
{
	memset(o, 0, sizeof(*o));
	need(s, p, '<');
	while (!take(p, '>')) {
		if (sc_word(p, "mss")) {
			o->has_mss = true;
			o->mss = (uint16_t)sc_int(s, p);
		} else if (sc_word(p, "wscale")) {
			o->has_ws = true;
			o->ws = (uint8_t)sc_int(s, p);
		} else if (sc_word(p, "sackOK")) {
			o->sack_ok = true;
		} else if (sc_word(p, "TS")) {
			parse_ts(s, p, o);
		} else if (sc_word(p, "sack")) {
			o->has_sack = true;
			while (sc_space(p),
			       isdigit((unsigned char)**p) || **p == '@' || **p == '-') {
				if (o->nsack == 4)
					SC_FAIL(s, "script: more than four blocks");
				o->sack[o->nsack][0] = seq_num(s, p);
				need(s, p, ':');
				o->sack[o->nsack++][1] = seq_num(s, p);
			}
		} else if (sc_word(p, "raw")) {
			while (sc_space(p), isxdigit((unsigned char)**p)) {
				if (o->nraw == SC_OPTS_MAX)
					SC_FAIL(s, "script: more than 40 octets of options");
				o->raw[o->nraw++] = (uint8_t)strtoul(*p, (char **)(uintptr_t)p, 16);
			}
		} else {
			SC_FAIL(s, "script: unknown option at \"%s\"", *p);
		}
		take(p, ',');
	}
}

static void
parse_range(struct sc *s, const char **p, struct sc_seg *g)
{
	struct sc_num end;

	g->has_seq = true;
	g->seq = seq_num(s, p);
	need(s, p, ':');
	end = seq_num(s, p);
	g->len = end.v - g->seq.v;
	if (take(p, '/')) {
		g->piece = (uint32_t)sc_int(s, p);
		return;
	}
	need(s, p, '(');
	if (g->len != (uint32_t)sc_int(s, p))
		SC_FAIL(s, "script: the length does not fit the sequence numbers");
	need(s, p, ')');
}

void
sc_parse_seg(struct sc *s, const char **p, struct sc_seg *g)
{
	char word[32];

	memset(g, 0, sizeof(*g));
	g->ecn = g->dscp = g->df = g->ttl = g->doff = -1;
	sc_token(p, word, sizeof(word));
	for (const char *w = word; *w != '\0'; w++) {
		const char *l = strchr(flag_letters, *w);

		if (l == NULL && *w != '-')
			SC_FAIL(s, "script: \"%s\" are no flags (FSRP.UEW, or -)", word);
		if (l != NULL)
			g->flags |= (uint8_t)(1 << (l - flag_letters));
	}
	sc_space(p);
	if (isdigit((unsigned char)**p) || **p == '@' || **p == '-')
		parse_range(s, p, g);
	while (sc_space(p), **p != '\0') {
		if (**p == '<') {
			g->has_opts = true;
			sc_parse_opts(s, p, &g->o);
		} else if (sc_word(p, "ack")) {
			g->has_ack = true;
			g->ack = seq_num(s, p);
		} else if (sc_word(p, "win")) {
			g->has_wnd = true;
			g->wnd = (uint16_t)sc_int(s, p);
		} else if (sc_word(p, "urg")) {
			g->has_urg = true;
			g->urg = (uint16_t)sc_int(s, p);
		} else if (sc_word(p, "not-ect")) {
			g->ecn = WEFT_ECN_NOT_ECT;
		} else if (sc_word(p, "ect0")) {
			g->ecn = WEFT_ECN_ECT0;
		} else if (sc_word(p, "ect1")) {
			g->ecn = WEFT_ECN_ECT1;
		} else if (sc_word(p, "ce")) {
			g->ecn = WEFT_ECN_CE;
		} else if (sc_word(p, "dscp")) {
			g->dscp = (int)sc_int(s, p);
		} else if (sc_word(p, "df")) {
			g->df = 1;
		} else if (sc_word(p, "nodf")) {
			g->df = 0;
		} else if (sc_word(p, "badsum")) {
			g->badsum = true;
		} else if (sc_word(p, "badip")) {
			g->badip = true;
		} else if (sc_word(p, "frag")) {
			g->frag = true;
		} else if (sc_word(p, "junk")) {
			g->junk = true;
		} else if (sc_word(p, "ttl")) {
			g->ttl = (int)sc_int(s, p);
		} else if (sc_word(p, "doff")) {
			g->doff = (int)sc_int(s, p);
		} else if (sc_word(p, "from")) {
			g->from = sc_addr(s, p);
		} else if (sc_word(p, "to")) {
			g->to = sc_addr(s, p);
		} else if (sc_word(p, "ip-nops")) {
			g->ip_nops = (uint8_t)sc_int(s, p);
		} else if (sc_word(p, "cut")) {
			g->cut = (uint32_t)sc_int(s, p);
		} else {
			SC_FAIL(s, "script: what does \"%s\" mean?", *p);
		}
	}
}

/* ---- To text ---- */

struct out {
	char *p;
	size_t left;
};

static void __attribute__((format(printf, 2, 3))) put(struct out *o, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(o->p, o->left, fmt, ap);
	va_end(ap);
	n = RTE_MIN(n, (int)o->left - 1);
	o->p += n;
	o->left -= (size_t)n;
}

static void
put_opts(struct out *o, const struct sc_opts *opt, uint32_t irs)
{
	const char *sep = "";

	put(o, " <");
	if (opt->has_mss) {
		put(o, "mss %u", opt->mss);
		sep = ", ";
	}
	if (opt->sack_ok) {
		put(o, "%ssackOK", sep);
		sep = ", ";
	}
	if (opt->has_ws) {
		put(o, "%swscale %u", sep, opt->ws);
		sep = ", ";
	}
	if (opt->has_ts) {
		put(o, "%sTS val %u ecr %u", sep, opt->ts_val, opt->ts_ecr);
		sep = ", ";
	}
	if (opt->has_sack)
		put(o, "%ssack", sep);
	for (unsigned int i = 0; i < opt->nsack; i++)
		put(o, " %d:%d", (int)(opt->sack[i][0].v - irs), (int)(opt->sack[i][1].v - irs));
	if (opt->nraw > 0)
		put(o, "%sraw", opt->has_sack ? ", " : sep);
	for (unsigned int i = 0; i < opt->nraw; i++)
		put(o, " %02x", opt->raw[i]);
	put(o, ">");
}

static void
put_v4(struct out *o, uint32_t a)
{
	if (a == sc_our_v4())
		put(o, " us");
	else if (a == sc_peer_v4())
		put(o, " peer");
	else
		put(o, " %u.%u.%u.%u", a >> 24, a >> 16 & 255, a >> 8 & 255, a & 255);
}

const char *
sc_print(const struct sc *s, const struct sc_flow *f, const struct sc_cap *c, char *buf,
         size_t size)
{
	static const char *const ecn[] = {"", " ect1", " ect0", " ce"};
	const struct sc_seg *g = &c->seg;
	struct out o = {buf, size};
	int seq = (int)(g->seq.v - f->iss);

	(void)s;
	if (c->kind == SC_ARP) {
		put(&o, "> arp %s", c->op == 1 ? "request" : "reply");
		put_v4(&o, c->spa);
		put_v4(&o, c->tpa);
		return buf;
	}
	if (c->kind == SC_ECHO_REPLY) {
		put(&o, "> echo-reply %u", c->echo_len);
		return buf;
	}
	if (c->dst_port != f->peer_port)
		put(&o, "(of flow %d) ", c->dst_port - SC_PEER_PORT);
	put(&o, "> ");
	for (unsigned int i = 0; i < 8; i++)
		if (g->flags & 1 << i)
			put(&o, "%c", flag_letters[i]);
	if (g->flags == 0)
		put(&o, "-");
	put(&o, " %d:%d(%u)", seq, seq + (int)g->len, g->len);
	if (g->flags & SC_ACK)
		put(&o, " ack %d", (int)(g->ack.v - f->irs));
	put(&o, " win %u", g->wnd);
	if (g->flags & SC_URG)
		put(&o, " urg %u", g->urg);
	put_opts(&o, &g->o, f->irs);
	put(&o, "%s%s", ecn[g->ecn & 3], g->df == 1 ? " df" : "");
	if (g->dscp > 0)
		put(&o, " dscp %d", g->dscp);
	return buf;
}
