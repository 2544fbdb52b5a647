/* SPDX-License-Identifier: BSD-3-Clause */
/** @file See fake_tcp.h. */

#include "fake_tcp.h"
#include "weft_tcp_damaged.h"

#define FAKE_MBUF_BYTES 2048

static struct rte_mempool *fake_pool;
/** The last freed connection, kept because mapping and clearing a MiB in each case is slow. */
static struct weft_tcp_conn *fake_spare;

struct weft_tcp_conn *
fake_new(uint16_t mss)
{
	struct weft_tcp_conn *c = fake_spare != NULL ? fake_spare : malloc(sizeof(*c));

	fake_spare = NULL;
	CHECK(c != NULL);
	memset(c, 0, offsetof(struct weft_tcp_conn, seg));
	test_eal_init();
	if (fake_pool == NULL)
		fake_pool = rte_pktmbuf_pool_create("fake", 8191, 0, sizeof(struct weft_mbuf_priv),
		                                    RTE_PKTMBUF_HEADROOM + FAKE_MBUF_BYTES,
		                                    SOCKET_ID_ANY);
	CHECK(fake_pool != NULL);
	c->pool = fake_pool;
	c->mss = mss;
	c->own_budget.limit = 1000;
	c->budget = &c->own_budget;
	c->space = 1 << 20;
	return c;
}

void
fake_free(struct weft_tcp_conn *c)
{
	unsigned int out = rte_mempool_in_use_count(c->pool);
	uint64_t lent = c->own_budget.held;

	free(fake_spare);
	fake_spare = c;
	CHECK_EQ(out, 0);
	CHECK_EQ(lent, 0);
}

struct rte_mbuf *
fake_chain(struct weft_tcp_conn *c, const void *p, uint32_t len, uint32_t piece)
{
	struct rte_mbuf *head = NULL, *tail = NULL;
	const uint8_t *s = p;

	piece = piece == 0 || piece > FAKE_MBUF_BYTES ? FAKE_MBUF_BYTES : piece;
	while (len > 0) {
		struct rte_mbuf *b = rte_pktmbuf_alloc(c->pool);
		uint32_t k = RTE_MIN(len, piece);

		CHECK(b != NULL);
		memcpy(rte_pktmbuf_append(b, (uint16_t)k), s, k);
		if (head == NULL) {
			head = b;
		} else {
			tail->next = b;
			head->nb_segs++;
			head->pkt_len += k;
		}
		tail = b;
		s += k;
		len -= k;
	}
	return head;
}

void
fake_rx(struct weft_tcp_conn *c, const void *p, uint32_t len, uint32_t piece, uint64_t now_ns)
{
	const uint8_t *s = p;

	piece = piece == 0 || piece > FAKE_MBUF_BYTES ? FAKE_MBUF_BYTES : piece;
	while (len > 0) {
		uint32_t k = RTE_MIN(len, piece);

		if (c->ops == NULL || c->aborted)
			return;
		c->rcv_nxt += k;
		c->ops->rx(c->user, fake_chain(c, s, k, 0), now_ns);
		s += k;
		len -= k;
	}
}

uint32_t
weft_tcp_rcv_nxt(const struct weft_tcp_conn *c)
{
	return c->rcv_nxt;
}

void
fake_die(struct weft_tcp_conn *c, int err)
{
	const struct weft_tcp_conn_ops *ops = c->ops;

	c->ops = NULL;
	ops->closed(c->user, err);
}

uint32_t
slow_crc32c(const uint8_t *p, size_t len)
{
	uint32_t crc = 0xffffffff;

	for (size_t i = 0; i < len; i++) {
		crc ^= p[i];
		for (int b = 0; b < 8; b++)
			crc = crc & 1 ? crc >> 1 ^ 0x82f63b78 : crc >> 1;
	}
	return ~crc;
}

uint32_t
slow_fpdu(uint8_t *out, const uint8_t *ulpdu, uint16_t len)
{
	uint32_t n = 0, crc;

	out[n++] = len >> 8;
	out[n++] = len & 0xff;
	memcpy(out + n, ulpdu, len);
	n += len;
	while (n % 4 != 0)
		out[n++] = 0;
	crc = slow_crc32c(out, n);
	for (int i = 0; i < 4; i++)
		out[n++] = crc >> (8 * i) & 0xff;
	return n;
}

/* ---- Functions that lib/mpa calls ---- */

void
weft_tcp_set_user(struct weft_tcp_conn *c, const struct weft_tcp_conn_ops *ops, void *user)
{
	c->ops = ops;
	c->user = user;
}

uint16_t
weft_tcp_mss(const struct weft_tcp_conn *c)
{
	return c->mss;
}

void
weft_tcp_rx_damaged(struct weft_tcp_conn *c)
{
	c->damaged++;
}

struct weft_netif_budget *
weft_tcp_fpdu_budget(const struct weft_tcp_conn *c)
{
	return c->budget;
}

uint32_t
weft_tcp_send_space(const struct weft_tcp_conn *c)
{
	return c->space;
}

struct rte_mbuf *
weft_tcp_alloc(struct weft_tcp_conn *c)
{
	struct rte_mbuf *b;

	if (c->fail_alloc > 0) {
		c->fail_alloc--;
		return NULL;
	}
	b = rte_pktmbuf_alloc(c->pool);
	if (b != NULL && c->room > 0)
		b->data_off = (uint16_t)(b->buf_len - c->room);
	if (b != NULL)
		weft_mbuf_priv(b)->tx_sum = (struct weft_mbuf_sum){.wanted = !c->port_sums};
	/* Fill with the content of an earlier packet: pad and reserved fields must be written. */
	if (b != NULL)
		memset(rte_pktmbuf_mtod(b, void *), 0xa5, rte_pktmbuf_tailroom(b));
	return b;
}

struct rte_mbuf *
weft_tcp_begin(struct weft_tcp_conn *c)
{
	return weft_tcp_send_space(c) > 0 ? weft_tcp_alloc(c) : NULL;
}

/** A segment whose sum has come with it has the right one. */
static void
fake_check_sum(struct weft_tcp_conn *c, struct rte_mbuf *m)
{
	const struct weft_mbuf_sum *s = &weft_mbuf_priv(m)->tx_sum;
	const uint8_t *p = rte_pktmbuf_mtod(m, const uint8_t *);
	uint64_t want = 0, got = s->sum;

	if (c->port_sums)
		CHECK_EQ(s->bytes, 0);
	if (s->bytes != m->data_len)
		return;
	for (uint32_t i = 0; i < m->data_len; i++)
		want += (uint64_t)p[i] << (i % 2 * 8);
	while (want > UINT16_MAX)
		want = (want & UINT16_MAX) + (want >> 16);
	while (got > UINT16_MAX)
		got = (got & UINT16_MAX) + (got >> 16);
	CHECK_EQ(got, want);
	c->segs_summed++;
}

int
weft_tcp_send(struct weft_tcp_conn *c, struct rte_mbuf *m, bool push, uint64_t now_ns)
{
	(void)now_ns;
	if (c->send_rc == 0) {
		CHECK(!c->closed && !c->aborted);
		CHECK(m->data_len > 0 && m->data_len == m->pkt_len && m->nb_segs == 1);
		CHECK(c->nsegs < FAKE_SEGS_MAX && c->out_bytes + m->data_len <= FAKE_OUT_MAX);
		c->seg[c->nsegs].off = c->out_bytes;
		c->seg[c->nsegs].len = m->data_len;
		c->seg[c->nsegs++].push = push;
		fake_check_sum(c, m);
		memcpy(c->out + c->out_bytes, rte_pktmbuf_mtod(m, void *), m->data_len);
		c->out_bytes += m->data_len;
	}
	rte_pktmbuf_free(m);
	return c->send_rc;
}

void
weft_tcp_close(struct weft_tcp_conn *c, uint64_t now_ns)
{
	(void)now_ns;
	CHECK(!c->closed && !c->aborted);
	c->closed = true;
}

void
weft_tcp_abort(struct weft_tcp_conn *c, uint64_t now_ns)
{
	(void)now_ns;
	CHECK(!c->aborted);
	c->aborted = true;
	c->ops = NULL;
}
