/* SPDX-License-Identifier: BSD-3-Clause */
/** @file A peer of streams: see vt_tcp.h. */

#include "vt_tcp.h"
#include "weft_cm.h"

/** Append octets to a growing buffer. */
static void
tcp_keep(uint8_t **p, size_t *bytes, size_t *room, const void *data, size_t n)
{
	if (*bytes + n > *room) {
		*room = 2 * (*bytes + n);
		*p = realloc(*p, *room);
		CHECK(*p != NULL);
	}
	memcpy(*p + *bytes, data, n);
	*bytes += n;
}

static uint64_t
tcp_now(const struct vt_tcp *p)
{
	return inside_sched(p->t->n[0].w)->now_ns;
}

static void
tcp_push(struct vt_tcp *p)
{
	size_t at = 0;

	while (p->c != NULL && p->up && at < p->out_bytes) {
		struct rte_mbuf *m = weft_tcp_begin(p->c);
		size_t n = weft_tcp_mss(p->c);

		if (m == NULL)
			break;
		n = RTE_MIN(n, p->out_bytes - at);
		if (p->piece_bytes > 0)
			n = RTE_MIN(n, (size_t)p->piece_bytes);
		memcpy(rte_pktmbuf_append(m, (uint16_t)n), p->out + at, n);
		at += n;
		CHECK_EQ(weft_tcp_send(p->c, m, true, tcp_now(p)), 0);
	}
	p->out_bytes -= at;
	if (at > 0 && p->out_bytes > 0)
		memmove(p->out, p->out + at, p->out_bytes);
}

static void
tcp_established(void *user)
{
	struct vt_tcp *p = user;

	p->up = true;
	tcp_push(p);
}

static void
tcp_rx(void *user, struct rte_mbuf *m, uint64_t now_ns)
{
	struct vt_tcp *p = user;

	(void)now_ns;
	for (const struct rte_mbuf *at = m; at != NULL; at = at->next)
		tcp_keep(&p->in, &p->in_bytes, &p->in_room, rte_pktmbuf_mtod(at, const void *),
		         at->data_len);
	rte_pktmbuf_free(m);
}

static void
tcp_writable(void *user)
{
	tcp_push(user);
}

static void
tcp_mss(void *user, uint16_t mss_bytes)
{
	(void)user;
	(void)mss_bytes;
}

static void
tcp_eof(void *user)
{
	((struct vt_tcp *)user)->eof = true;
}

static void
tcp_closed(void *user, int err)
{
	struct vt_tcp *p = user;

	p->c = NULL;
	p->ended = true;
	p->status = err;
}

static const struct weft_tcp_conn_ops tcp_ops = {.established = tcp_established,
                                                 .rx = tcp_rx,
                                                 .writable = tcp_writable,
                                                 .mss = tcp_mss,
                                                 .eof = tcp_eof,
                                                 .closed = tcp_closed};

static bool
tcp_is_decided(void *arg)
{
	const struct vt_tcp *p = arg;

	return p->up || p->ended;
}

void
vt_tcp_open(struct vt *t, struct vt_tcp *p, uint16_t port)
{
	struct weft_vworker *vw = weft_vworker_of(t->n[0].w);
	const struct weft_ip to = weft_ip_from_v4(htonl(0x0a000002));

	memset(p, 0, sizeof(*p));
	p->t = t;
	CHECK_EQ(weft_tcp_connect(vw->cm->tcp, vw->cm->nif[0], NULL, &to, port, &tcp_ops, p, &p->c),
	         0);
	CHECK(vt_until(t, 20 * VT_S, tcp_is_decided, p));
}

void
vt_tcp_send(struct vt_tcp *p, const void *data, size_t bytes)
{
	tcp_keep(&p->out, &p->out_bytes, &p->out_room, data, bytes);
	tcp_push(p);
}

void
vt_tcp_used(struct vt_tcp *p, size_t bytes)
{
	CHECK(bytes <= p->in_bytes);
	p->in_bytes -= bytes;
	if (bytes > 0)
		memmove(p->in, p->in + bytes, p->in_bytes);
}

void
vt_tcp_fin(struct vt_tcp *p)
{
	if (p->c != NULL)
		weft_tcp_close(p->c, tcp_now(p));
}

void
vt_tcp_end(struct vt_tcp *p)
{
	if (p->c != NULL)
		weft_tcp_abort(p->c, tcp_now(p));
	free(p->in);
	free(p->out);
	memset(p, 0, sizeof(*p));
}
