/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Every combination of flags and data that each side may send at start-up, in both roles: the
 * octets of the frames, and the result. RFC 5044 s7.1.1 (M, C), RFC 6581 s6, s9.2 (S, A to D), s10.
 */

#include "mpa_peer.h"
#include "weft_mpa_frame.h"
#include "weft_mpa_startup.h"

#define MSS 1448

#define KEY_REQ "MPA ID Req Frame"
#define KEY_REP "MPA ID Rep Frame"

/* RFC 6581 s9 */
#define A 0x80000000u
#define B 0x40000000u
#define C 0x00008000u
#define D 0x00004000u

static uint32_t
word_of(bool p2p, uint8_t rtr, uint16_t ird, uint16_t ord)
{
	uint32_t w = (uint32_t)ird << 16 | ord;

	if (p2p)
		w |= A | (rtr & WEFT_MPA_RTR_FPDU ? B : 0) | (rtr & WEFT_MPA_RTR_WRITE ? C : 0) |
		     (rtr & WEFT_MPA_RTR_READ ? D : 0);
	return w;
}

static uint32_t
frame(uint8_t *b, const char *key, uint8_t flags, uint8_t rev, uint32_t word, const char *pd)
{
	uint32_t n = 20;

	memcpy(b, key, 16);
	b[16] = flags;
	b[17] = rev;
	if (flags & 0x10) {
		weft_put_be32(b + n, word);
		n += 4;
	}
	memcpy(b + n, pd, strlen(pd));
	n += strlen(pd);
	b[18] = 0;
	b[19] = n - 20;
	return n;
}

static void
check_frame(const struct peer *p, const char *key, uint8_t flags, uint8_t rev, uint32_t word,
            const char *pd)
{
	uint8_t b[64];
	uint32_t n = frame(b, key, flags, rev, word, pd);

	CHECK_EQ(p->c->out_bytes, n);
	CHECK_MEM(p->c->out, b, n);
}

/** The documented order of preference among the RTR forms that both sides support: Write,
 * zero-length FPDU, Read. */
static uint8_t
best(uint8_t both)
{
	return both & WEFT_MPA_RTR_WRITE  ? WEFT_MPA_RTR_WRITE
	       : both & WEFT_MPA_RTR_FPDU ? WEFT_MPA_RTR_FPDU
	                                  : both;
}

/** The Request for every set of attributes, and every Reply to it. */
static void
test_initiator(void)
{
	for (unsigned int wish = 0; wish < 4; wish++)
		for (int rev = 1; rev <= 2; rev++)
			for (int p2p = 0; p2p < rev; p2p++)
				for (uint8_t rtr = 0; rtr < (p2p ? 8 : 1); rtr++)
					for (unsigned int says = 0; says < 64; says++) {
						/* says: the flags M, C, A, B, C, D of the Reply */
						bool m = (wish & 1) != 0, no_crc = (wish & 2) != 0;
						uint8_t offer = rtr != 0 ? rtr : WEFT_MPA_RTR_ALL;
						uint8_t mine = (m ? 0x80 : 0) |
						               (no_crc ? 0 : 0x40) |
						               (rev == 2 ? 0x10 : 0);
						uint8_t theirs = (says & 1 ? 0x80 : 0) |
						                 (says & 2 ? 0x40 : 0) |
						                 (rev == 2 ? 0x10 : 0);
						bool rep_p2p = (says & 4) != 0;
						uint8_t takes = says >> 3;
						struct weft_mpa_attr attr = {
						        .rev = rev,
						        .ird = 5,
						        .ord = 6,
						        .p2p = p2p,
						        .pdata = "hi",
						        .pdata_len_bytes = 2,
						        .opts = {.markers = m,
						                 .no_crc = no_crc,
						                 .rtr = rtr},
						};
						struct peer *p;
						uint8_t b[64];
						uint32_t n;

						if (rev == 1 && says >= 4)
							break;
						p = peer_new(MSS);
						CHECK_EQ(weft_mpa_start(p->m, p->c, p->s, &attr,
						                        &peer_ops, p, PEER_NOW),
						         0);
						check_frame(p, KEY_REQ, mine, rev,
						            word_of(p2p, offer, 5, 6), "hi");
						n = frame(b, KEY_REP, theirs, rev,
						          word_of(true, takes, 4, 3) &
						                  (rep_p2p ? UINT32_MAX : ~A),
						          "ok");
						fake_rx(p->c, b, n, 0, PEER_NOW);
						CHECK_EQ(p->replies, 1);
						CHECK_EQ(p->m->state, WEFT_MPA_FULL);
						CHECK_EQ(p->m->rev, rev);
						CHECK_EQ(p->m->rx_markers, m);
						CHECK_EQ(p->m->tx_markers, (says & 1) != 0);
						CHECK_EQ(p->m->crc, !no_crc || (says & 2) != 0);
						CHECK_EQ(p->m->p2p, p2p);
						CHECK_EQ(p->m->rtr,
						         p2p && rep_p2p ? best(offer & takes) : 0);
						CHECK(!weft_mpa_peer_is_rev1(p->m));
						peer_free(p);
					}
}

/** Every Request, and the Reply for every set of attributes. The Reply mirrors the flags where RFC
 * 6581 s9.2 requires it. */
static void
test_responder(void)
{
	for (unsigned int wish = 0; wish < 4; wish++)
		for (uint8_t rtr = 0; rtr < 8; rtr++)
			for (unsigned int says = 0; says < 64; says++)
				for (unsigned int form = 0; form < 3; form++)
					for (uint16_t ird = 0; ird < 2; ird++) {
						/* form: revision 1; 2 without S; 2 with S */
						bool m = (wish & 1) != 0, no_crc = (wish & 2) != 0;
						bool s = form == 2, p2p = s && (says & 4) != 0;
						uint8_t rev = form == 0 ? 1 : 2;
						uint8_t sflag = s ? 0x10 : 0;
						uint8_t offers = says >> 3;
						uint8_t takes = rtr != 0 ? rtr : WEFT_MPA_RTR_ALL;
						struct weft_mpa_opts opts = {
						        .markers = m, .no_crc = no_crc, .rtr = rtr};
						struct peer *p = peer_new(MSS);
						uint8_t b[64];
						uint32_t n;

						if (ird == 0)
							takes &= ~WEFT_MPA_RTR_READ;
						if (takes == 0)
							takes = WEFT_MPA_RTR_WRITE;
						CHECK_EQ(weft_mpa_respond(p->m, p->c, p->s, 0,
						                          &peer_ops, p, PEER_NOW),
						         0);
						weft_mpa_set_opts(p->m, &opts);
						n = frame(b, KEY_REQ,
						          (says & 1 ? 0x80 : 0) |
						                  (says & 2 ? 0x40 : 0) | sflag,
						          rev,
						          word_of(true, offers, 9, 8) &
						                  (p2p ? UINT32_MAX : ~A),
						          "hi");
						fake_rx(p->c, b, n, 0, PEER_NOW);
						CHECK_EQ(p->requests, 1);
						CHECK_EQ(weft_mpa_accept(p->m, ird, 7, "ok", 2,
						                         PEER_NOW),
						         0);
						check_frame(
						        p, KEY_REP,
						        (m ? 0x80 : 0) |
						                (no_crc && !(says & 2) ? 0 : 0x40) |
						                sflag,
						        rev,
						        word_of(p2p,
						                (offers & takes) != 0
						                        ? offers & takes
						                        : takes,
						                ird, 7),
						        "ok");
						CHECK_EQ(p->m->rx_markers, m);
						CHECK_EQ(p->m->tx_markers, (says & 1) != 0);
						CHECK_EQ(p->m->crc, !no_crc || (says & 2) != 0);
						CHECK_EQ(p->m->p2p, p2p);
						CHECK_EQ(p->m->rtr, 0);
						CHECK(!peer_may_send(p));
						peer_free(p);
					}
}

/** RFC 6581 s9.2: a Read is not a valid RTR for a responder whose Reply has IRD 0. */
static void
test_no_place_for_read(void)
{
	struct weft_mpa_attr attr = {.rev = 2, .p2p = true, .ird = 1, .ord = 1};
	uint8_t b[64];

	for (uint16_t ird = 0; ird < 2; ird++) {
		struct peer *p = peer_new(MSS);
		uint32_t n =
		        frame(b, KEY_REP, 0x50, 2, word_of(true, WEFT_MPA_RTR_READ, ird, 1), "");

		CHECK_EQ(weft_mpa_start(p->m, p->c, p->s, &attr, &peer_ops, p, PEER_NOW), 0);
		fake_rx(p->c, b, n, 0, PEER_NOW);
		CHECK_EQ(p->m->rtr, ird > 0 ? WEFT_MPA_RTR_READ : 0);
		peer_free(p);
	}
}

/**
 * The zero-length FPDU as RTR: the sent octets with CRC, with markers, and with neither. A
 * responder may send after it and does not pass it to its consumer. In the client-server model the
 * consumer gets it.
 */
static void
test_rtr_fpdu(void)
{
	static const uint8_t plain[8] = {0, 0, 0, 0};

	for (unsigned int flags = 0; flags < 4; flags++)
		for (int p2p = 0; p2p < 2; p2p++) {
			struct weft_mpa_opts opts = {.markers = flags & 1,
			                             .no_crc = (flags & 2) != 0};
			struct weft_mpa_attr attr = {.rev = 2, .p2p = p2p, .opts = opts};
			struct peer *a = peer_new(MSS), *b = peer_new(MSS);
			uint32_t n, want = opts.markers ? 12 : 8;
			uint8_t *d;

			CHECK_EQ(weft_mpa_start(a->m, a->c, a->s, &attr, &peer_ops, a, PEER_NOW),
			         0);
			CHECK_EQ(weft_mpa_respond(b->m, b->c, b->s, 0, &peer_ops, b, PEER_NOW), 0);
			weft_mpa_set_opts(b->m, &opts);
			fake_rx(b->c, a->c->out, a->c->out_bytes, 0, PEER_NOW);
			CHECK_EQ(weft_mpa_accept(b->m, 1, 1, NULL, 0, PEER_NOW), 0);
			fake_rx(a->c, b->c->out, b->c->out_bytes, 0, PEER_NOW);
			n = a->c->out_bytes;
			d = weft_mpa_tx_begin(a->m, 0, PEER_NOW);
			CHECK(d != NULL);
			weft_mpa_tx_end(a->m, PEER_NOW);
			weft_mpa_tx_flush(a->m, PEER_NOW);
			CHECK_EQ(a->c->out_bytes - n, want);
			CHECK_MEM(a->c->out + n, plain, want - 4);
			CHECK_EQ(weft_get_be32(a->c->out + n + want - 4) == 0, opts.no_crc);
			CHECK(weft_mpa_tx_begin(b->m, 5, PEER_NOW) == NULL);
			fake_rx(b->c, a->c->out + n, want - 1, 0, PEER_NOW);
			CHECK(!peer_may_send(b));
			fake_rx(b->c, a->c->out + n + want - 1, 1, 0, PEER_NOW);
			CHECK_EQ(b->ulpdus, p2p ? 0 : 1);
			CHECK_EQ(b->writables, 1);
			CHECK(peer_may_send(b));
			/* a second zero-length FPDU is not an RTR */
			d = weft_mpa_tx_begin(a->m, 0, PEER_NOW);
			CHECK(d != NULL);
			weft_mpa_tx_end(a->m, PEER_NOW);
			weft_mpa_tx_flush(a->m, PEER_NOW);
			fake_rx(b->c, a->c->out + n + want, a->c->out_bytes - n - want, 0,
			        PEER_NOW);
			CHECK_EQ(b->ulpdus, p2p ? 1 : 2);
			CHECK_EQ(b->writables, 1);
			peer_free(a);
			peer_free(b);
		}
}

/** RFC 6581 s10, "Enhanced MPA initiator only": peers that behave as a responder of revision 1. */
static void
test_rev1_responder(void)
{
	enum { EOF_, RST, FIN_BOTH, TIMEOUT, PART, REP1, REJ1, REP2_PLAIN, REP3, REJ2, REP2 };
	static const struct {
		int what;
		bool rev1, closed;
	} row[] = {
	        {EOF_, true, true},     {RST, true, true},        {FIN_BOTH, true, true},
	        {TIMEOUT, false, true}, {PART, false, true},      {REP1, true, true},
	        {REJ1, true, false},    {REP2_PLAIN, true, true}, {REP3, false, true},
	        {REJ2, false, false},   {REP2, false, false},
	};

	for (unsigned int i = 0; i < RTE_DIM(row); i++)
		for (uint8_t rev = 1; rev <= 2; rev++) {
			struct weft_mpa_attr attr = {.rev = rev, .startup_timeout_us = 1000};
			struct peer *p = peer_new(MSS);
			uint8_t b[64];
			uint32_t n = 0;

			CHECK_EQ(weft_mpa_start(p->m, p->c, p->s, &attr, &peer_ops, p, PEER_NOW),
			         0);
			switch (row[i].what) {
			case EOF_:
				p->c->ops->eof(p->c->user);
				break;
			case RST:
				fake_die(p->c, -ECONNRESET);
				break;
			case FIN_BOTH:
				fake_die(p->c, 0);
				break;
			case TIMEOUT:
				p->s->now_ns = PEER_NOW + WEFT_NS_PER_S;
				weft_timer_run(&p->s->wheel, p->s->now_ns);
				break;
			case PART:
				fake_rx(p->c, "MPA", 3, 0, PEER_NOW);
				p->c->ops->eof(p->c->user);
				break;
			case REP1:
				n = frame(b, KEY_REP, 0x40, 1, 0, "");
				break;
			case REJ1:
				n = frame(b, KEY_REP, 0x60, 1, 0, "");
				break;
			case REP2_PLAIN:
				n = frame(b, KEY_REP, 0x40, 2, 0, "");
				break;
			case REP3:
				n = frame(b, KEY_REP, 0x50, 3, 0, "");
				break;
			case REJ2:
				n = frame(b, KEY_REP, 0x70, 2, 0, "");
				break;
			default:
				n = frame(b, KEY_REP, 0x50, 2, 0, "");
				break;
			}
			if (n > 0)
				fake_rx(p->c, b, n, 0, PEER_NOW);
			CHECK_EQ(weft_mpa_peer_is_rev1(p->m), rev == 2 && row[i].rev1);
			if (rev == 2)
				CHECK_EQ(p->closeds, row[i].closed);
			peer_free(p);
		}
}

/** weft_mpa_start() refuses unknown RTR forms, and the peer-to-peer model with revision 1. */
static void
test_bad_wishes(void)
{
	struct weft_mpa_attr attr = {.rev = 1, .p2p = true};
	struct peer *p = peer_new(MSS);

	CHECK_EQ(weft_mpa_start(p->m, p->c, p->s, &attr, &peer_ops, p, PEER_NOW), -EINVAL);
	attr = (struct weft_mpa_attr){.rev = 2, .p2p = true, .opts = {.rtr = 8}};
	CHECK_EQ(weft_mpa_start(p->m, p->c, p->s, &attr, &peer_ops, p, PEER_NOW), -EINVAL);
	CHECK_EQ(p->c->nsegs, 0);
	peer_free(p);
}

WEFT_TEST_MAIN({"initiator", test_initiator}, {"responder", test_responder},
               {"no place for a Read", test_no_place_for_read}, {"rtr fpdu", test_rtr_fpdu},
               {"rev 1 responder", test_rev1_responder}, {"bad wishes", test_bad_wishes})
