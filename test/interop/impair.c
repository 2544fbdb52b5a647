/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Loss and reordering by ethdev callbacks. */

#include <stdlib.h>
#include <string.h>

#include <rte_ethdev.h>
#include <rte_ether.h>
#include <rte_ip.h>

#include "weft_base.h"
#include "weft_timer.h"
#include "impair.h"

#define HOLD_MAX    32
#define HOLD_PASSED 3
#define HOLD_NS     2000000ULL
/* For local experiments: a kernel drops such a frame silently. */
#define FILLER_TYPE  0x88b5
#define FILLER_MBUFS 4095

struct held {
	struct rte_mbuf *m;
	uint32_t passed;
	uint64_t since_ns;
};

struct side {
	struct impair_cfg cfg;
	struct impair_stats st;
	uint64_t rand;
	struct held held[HOLD_MAX];
	unsigned int nheld;
};

struct impair {
	uint16_t port_id, queue_id;
	uint64_t now_ns;
	struct side rx, tx;
	const struct rte_eth_rxtx_callback *rx_cb, *tx_cb;
	struct rte_mempool *fillers;
	bool sending; /**< set while our own burst passes through our own callback */
};

static bool
draw(struct side *s, uint32_t ppm)
{
	uint64_t z = s->rand += 0x9e3779b97f4a7c15ULL;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	z ^= z >> 31;
	return z % 1000000 < ppm;
}

static bool
is_tcp(const struct rte_mbuf *m)
{
	const uint8_t *p = rte_pktmbuf_mtod(m, const uint8_t *);
	const bool tagged = m->data_len >= 18 && p[12] == 0x81 && p[13] == 0x00;

	if (m->data_len < 14 + 4 * tagged + 20)
		return false;
	p += 12 + 4 * tagged;
	if (p[0] == 0x08 && p[1] == 0x00)
		return p[2 + 9] == IPPROTO_TCP;
	return p[0] == 0x86 && p[1] == 0xdd && p[2 + 6] == IPPROTO_TCP;
}

static bool
hold(struct impair *im, struct side *s, struct rte_mbuf *m)
{
	if (s->nheld == HOLD_MAX)
		return false;
	s->held[s->nheld++] = (struct held){.m = m, .since_ns = im->now_ns};
	s->st.reordered++;
	return true;
}

/** The oldest frame, if its time has come. */
static struct rte_mbuf *
unhold(struct impair *im, struct side *s)
{
	struct rte_mbuf *m = s->held[0].m;

	if (s->nheld == 0 ||
	    (s->held[0].passed < HOLD_PASSED && im->now_ns - s->held[0].since_ns < HOLD_NS))
		return NULL;
	s->nheld--;
	memmove(s->held, s->held + 1, s->nheld * sizeof(s->held[0]));
	return m;
}

static void
passed(struct side *s)
{
	for (unsigned int i = 0; i < s->nheld; i++)
		s->held[i].passed++;
}

static uint16_t
on_rx(uint16_t port_id, uint16_t queue_id, struct rte_mbuf *pkts[], uint16_t n, uint16_t max,
      void *arg)
{
	struct impair *im = arg;
	struct side *s = &im->rx;
	uint16_t out = 0;

	(void)port_id;
	(void)queue_id;
	for (uint16_t i = 0; i < n; i++) {
		struct rte_mbuf *m = pkts[i], *twin;

		if (!is_tcp(m)) {
			pkts[out++] = m;
			continue;
		}
		s->st.seen++;
		if (draw(s, s->cfg.loss_ppm)) {
			s->st.lost++;
			rte_pktmbuf_free(m);
			continue;
		}
		if (draw(s, s->cfg.reorder_ppm) && hold(im, s, m))
			continue;
		pkts[out++] = m;
		passed(s);
		/* A duplicate is held back, too, because this array has no room for it. */
		if (draw(s, s->cfg.dup_ppm)) {
			twin = rte_pktmbuf_copy(m, m->pool, 0, UINT32_MAX);
			if (twin != NULL && hold(im, s, twin)) {
				s->st.reordered--;
				s->st.duplicated++;
			} else {
				rte_pktmbuf_free(twin);
			}
		}
	}
	while (out < max) {
		struct rte_mbuf *m = unhold(im, s);

		if (m == NULL)
			break;
		pkts[out++] = m;
	}
	return out;
}

/**
 * The caller of rte_eth_tx_burst() counts the frames of its own array. A callback may replace
 * frames but not remove them. A lost or held frame is replaced by one that every receiver ignores.
 */
static struct rte_mbuf *
filler(struct impair *im, const struct rte_mbuf *like)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(im->fillers);
	char *p;

	if (m == NULL)
		return NULL;
	p = rte_pktmbuf_append(m, 60);
	memset(p, 0, 60);
	memcpy(p, rte_pktmbuf_mtod(like, const char *), 12);
	p[12] = (char)(FILLER_TYPE >> 8);
	p[13] = (char)(FILLER_TYPE & 0xff);
	return m;
}

static void
release_tx(struct impair *im)
{
	struct rte_mbuf *m;

	while ((m = unhold(im, &im->tx)) != NULL) {
		im->sending = true;
		if (rte_eth_tx_burst(im->port_id, im->queue_id, &m, 1) != 1)
			rte_pktmbuf_free(m);
		im->sending = false;
	}
}

static uint16_t
on_tx(uint16_t port_id, uint16_t queue_id, struct rte_mbuf *pkts[], uint16_t n, void *arg)
{
	struct impair *im = arg;
	struct side *s = &im->tx;

	(void)port_id;
	(void)queue_id;
	if (im->sending)
		return n;
	release_tx(im);
	for (uint16_t i = 0; i < n; i++) {
		struct rte_mbuf *m = pkts[i], *f;
		bool lose;

		if (!is_tcp(m))
			continue;
		s->st.seen++;
		lose = draw(s, s->cfg.loss_ppm);
		if (!lose && !draw(s, s->cfg.reorder_ppm)) {
			passed(s);
			continue;
		}
		f = filler(im, m);
		if (f == NULL)
			continue;
		if (lose) {
			s->st.lost++;
			rte_pktmbuf_free(m);
		} else if (!hold(im, s, m)) {
			rte_pktmbuf_free(f);
			continue;
		}
		pkts[i] = f;
	}
	return n;
}

struct impair *
impair_create(uint16_t port_id, uint16_t queue_id, const struct impair_cfg *rx,
              const struct impair_cfg *tx, uint64_t seed)
{
	struct impair *im = calloc(1, sizeof(*im));

	if (im == NULL)
		return NULL;
	im->port_id = port_id;
	im->queue_id = queue_id;
	im->rx.cfg = *rx;
	im->tx.cfg = *tx;
	im->rx.rand = seed;
	im->tx.rand = ~seed;
	im->fillers = rte_pktmbuf_pool_create("impair", FILLER_MBUFS, 0, 0,
	                                      RTE_PKTMBUF_HEADROOM + 2048, 0);
	im->rx_cb = rte_eth_add_rx_callback(port_id, queue_id, on_rx, im);
	im->tx_cb = rte_eth_add_tx_callback(port_id, queue_id, on_tx, im);
	if (im->fillers == NULL || im->rx_cb == NULL || im->tx_cb == NULL) {
		impair_destroy(im);
		return NULL;
	}
	return im;
}

void
impair_poll(struct impair *im, uint64_t now_ns)
{
	im->now_ns = now_ns;
	release_tx(im);
}

void
impair_stop(struct impair *im)
{
	memset(&im->rx.cfg, 0, sizeof(im->rx.cfg));
	memset(&im->tx.cfg, 0, sizeof(im->tx.cfg));
}

void
impair_destroy(struct impair *im)
{
	if (im->rx_cb != NULL)
		rte_eth_remove_rx_callback(im->port_id, im->queue_id, im->rx_cb);
	if (im->tx_cb != NULL)
		rte_eth_remove_tx_callback(im->port_id, im->queue_id, im->tx_cb);
	for (unsigned int i = 0; i < im->rx.nheld; i++)
		rte_pktmbuf_free(im->rx.held[i].m);
	for (unsigned int i = 0; i < im->tx.nheld; i++)
		rte_pktmbuf_free(im->tx.held[i].m);
	rte_mempool_free(im->fillers);
	free(im);
}

const struct impair_stats *
impair_stats(const struct impair *im, bool tx)
{
	return tx ? &im->tx.st : &im->rx.st;
}
