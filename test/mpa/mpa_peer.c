/* SPDX-License-Identifier: BSD-3-Clause */
/** @file See mpa_peer.h. */

#include "mpa_peer.h"
#include "weft_mpa_frame.h"
#include "weft_mpa_startup.h"

#if defined(__SANITIZE_ADDRESS__)
#define PEER_ASAN 1 /* ASan itself detects a use of freed memory */
#else
#define PEER_ASAN 0
#endif
#define PEER_GRAVE 0xee

/** m has returned the owner's memory. peer_free() detects a later write to it. */
static void
peer_bury(struct peer *p)
{
	weft_mpa_fini(p->m);
	if (PEER_ASAN || p->grave != NULL) {
		free(p->m);
	} else {
		p->grave = p->m;
		memset(p->m, PEER_GRAVE, sizeof(*p->m));
	}
	p->m = NULL;
}

static void
peer_act(struct peer *p, char what)
{
	if (p->act_on != what)
		return;
	switch (p->act) {
	case ACT_NONE:
		break;
	case ACT_DESTROY:
		peer_bury(p);
		break;
	case ACT_CLOSE:
		weft_mpa_close(p->m, PEER_NOW);
		break;
	case ACT_ABORT:
		weft_mpa_abort(p->m, PEER_NOW);
		break;
	case ACT_ACCEPT: {
		struct weft_mpa *to = calloc(1, sizeof(*to));

		weft_mpa_move(to, p->m, &peer_ops, p);
		peer_bury(p);
		p->m = to;
		CHECK_EQ(weft_mpa_accept(to, 4, 4, "ok", 2, PEER_NOW), 0);
		break;
	}
	case ACT_REJECT:
		CHECK_EQ(weft_mpa_reject(p->m, 4, 4, "no", 2, PEER_NOW), 0);
		weft_mpa_await_fin(p->m, PEER_NOW);
		break;
	}
}

static void
peer_request(void *user, const struct weft_mpa_frame *req)
{
	struct peer *p = user;

	p->requests++;
	peer_act(p, 'q');
	p->frame = *req; /* still valid, whatever the action was */
}

static void
peer_reply(void *user, const struct weft_mpa_frame *rep)
{
	struct peer *p = user;

	p->replies++;
	p->frame = *rep;
	peer_act(p, 'p');
}

static void
peer_ulpdu(void *user, const struct weft_frag *frag, unsigned int nfrags, uint32_t len_bytes,
           uint64_t now_ns)
{
	struct peer *p = user;
	uint32_t sum = 0;

	(void)now_ns;
	CHECK(nfrags >= 1);
	CHECK(nfrags <=
	      WEFT_MPA_MAX_FRAGS + (p->m->rx_markers ? (unsigned int)WEFT_MPA_MAX_MARKERS : 0));
	CHECK(p->ulpdus < PEER_MAX_ULPDUS);
	p->max_frags = RTE_MAX(p->max_frags, nfrags);
	p->len[p->ulpdus++] = len_bytes;
	peer_act(p, 'u');
	for (unsigned int i = 0; i < nfrags; i++) {
		CHECK(p->got_bytes + frag[i].len_bytes <= sizeof(p->got));
		memcpy(p->got + p->got_bytes, frag[i].p, frag[i].len_bytes);
		p->got_bytes += frag[i].len_bytes;
		sum += frag[i].len_bytes;
		CHECK(frag[i].len_bytes > 0 || len_bytes == 0);
	}
	CHECK_EQ(sum, len_bytes);
}

static bool
peer_ulpdu_ahead(void *user, const struct weft_frag *frag, unsigned int nfrags, uint32_t len_bytes,
                 uint32_t seq, uint32_t end_seq)
{
	struct peer *p = user;
	struct weft_cur c;

	weft_cur_init(&c, frag, nfrags);
	CHECK_EQ(c.left_bytes, len_bytes);
	p->ahead_bytes = len_bytes;
	CHECK_EQ(weft_cur_read(&c, p->ahead_got, len_bytes), 0);
	p->ahead_seq = seq;
	p->ahead_end_seq = end_seq;
	p->aheads += p->take;
	return p->take;
}

static void
peer_ulpdu_placed(void *user, const uint8_t *head, uint32_t len_bytes, uint32_t seq,
                  uint32_t end_seq, uint64_t now_ns)
{
	struct peer *p = user;

	(void)now_ns;
	p->placeds++;
	p->placed_bytes = len_bytes;
	p->placed_seq = seq;
	p->placed_end_seq = end_seq;
	memcpy(p->placed_head, head, sizeof(p->placed_head));
	peer_act(p, 'd');
}

static void
peer_writable(void *user)
{
	struct peer *p = user;

	p->writables++;
	peer_act(p, 'w');
}

static void
peer_mulpdu(void *user, uint16_t mulpdu_bytes)
{
	struct peer *p = user;

	p->mulpdus++;
	p->mulpdu = mulpdu_bytes;
}

static void
peer_fault(void *user, const struct weft_term *term)
{
	struct peer *p = user;

	p->faults++;
	p->term = *term;
	peer_act(p, 'f');
}

static void
peer_eof(void *user)
{
	struct peer *p = user;

	p->eofs++;
	peer_act(p, 'e');
}

static void
peer_closed(void *user, int err)
{
	struct peer *p = user;

	p->closeds++;
	p->closed_err = err;
	CHECK(p->m->tcp == NULL);
	CHECK_EQ(p->m->state, WEFT_MPA_IDLE);
	peer_act(p, 'c');
}

const struct weft_mpa_ops peer_ops = {
        .request = peer_request,
        .reply = peer_reply,
        .ulpdu = peer_ulpdu,
        .ulpdu_ahead = peer_ulpdu_ahead,
        .ulpdu_placed = peer_ulpdu_placed,
        .writable = peer_writable,
        .mulpdu = peer_mulpdu,
        .fault = peer_fault,
        .eof = peer_eof,
        .closed = peer_closed,
};

/** The last freed peer, kept for the same reason as fake_tcp.c's spare connection. */
static struct peer *peer_spare;

struct peer *
peer_new(uint16_t mss)
{
	struct peer *p = peer_spare != NULL ? peer_spare : malloc(sizeof(*p));

	peer_spare = NULL;
	CHECK(p != NULL);
	memset(p, 0, offsetof(struct peer, got));
	p->c = fake_new(mss);
	p->m = calloc(1, sizeof(*p->m));
	p->s = calloc(1, sizeof(*p->s));
	TAILQ_INIT(&p->s->run);
	weft_wheel_init(&p->s->wheel, PEER_NOW);
	p->s->now_ns = PEER_NOW;
	return p;
}

void
peer_free(struct peer *p)
{
	if (p->m != NULL)
		weft_mpa_fini(p->m);
	CHECK(TAILQ_EMPTY(&p->s->run));
	CHECK_EQ(p->s->wheel.armed, 0);
	for (size_t i = 0; p->grave != NULL && i < sizeof(*p->m); i++)
		CHECK_MSG(((uint8_t *)p->grave)[i] == PEER_GRAVE,
		          "octet %zu of an MPA that was given back", i);
	free(p->grave);
	free(p->m);
	free(p->s);
	fake_free(p->c);
	free(peer_spare);
	peer_spare = p;
}

struct peer *
peer_full_as(uint16_t mss, bool initiator, uint8_t ours, uint8_t theirs)
{
	struct weft_mpa_opts opts = {.markers = (ours & PEER_M) != 0, .no_crc = !(ours & PEER_C)};
	struct weft_mpa_attr attr = {.rev = 1, .opts = opts};
	uint8_t frame[21] = "MPA ID Rep Frame?\x01\x00\x00";
	struct peer *p = peer_new(mss);

	frame[16] = theirs;
	if (initiator) {
		CHECK_EQ(weft_mpa_start(p->m, p->c, p->s, &attr, &peer_ops, p, PEER_NOW), 0);
		fake_rx(p->c, frame, 20, 0, PEER_NOW);
		CHECK_EQ(p->replies, 1);
	} else {
		frame[9] = 'q';
		CHECK_EQ(weft_mpa_respond(p->m, p->c, p->s, 0, &peer_ops, p, PEER_NOW), 0);
		weft_mpa_set_opts(p->m, &opts);
		fake_rx(p->c, frame, 20, 0, PEER_NOW);
		CHECK_EQ(p->requests, 1);
		CHECK_EQ(weft_mpa_accept(p->m, 1, 1, NULL, 0, PEER_NOW), 0);
	}
	/* a Reply has C whenever CRC will be on */
	CHECK_EQ(p->c->out[16], initiator ? ours : ours | (theirs & PEER_C));
	CHECK_EQ(p->m->state, WEFT_MPA_FULL);
	p->c->out_bytes = 0;
	p->c->nsegs = 0;
	memset(&p->m->stats, 0, sizeof(p->m->stats));
	return p;
}

struct peer *
peer_full(uint16_t mss, bool initiator)
{
	return peer_full_as(mss, initiator, PEER_C, PEER_C);
}

bool
peer_may_send(const struct peer *p)
{
	if (weft_mpa_tx_begin(p->m, 1, PEER_NOW) == NULL)
		return false;
	weft_mpa_tx_cancel(p->m);
	return true;
}
