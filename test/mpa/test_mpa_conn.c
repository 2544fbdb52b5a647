/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Start-up in both roles: frames on the wire, refusals, timeouts, early data, destruction.
 */

#include <rte_random.h>

#include "../../lib/mpa/mpa_wire.h"
#include "mpa_peer.h"
#include "weft_mpa_startup.h"

#define MSS 1448

static struct peer *
initiator(uint8_t rev, uint16_t ird, uint16_t ord)
{
	struct peer *p = peer_new(MSS);
	struct weft_mpa_attr attr = {.rev = rev,
	                             .ird = ird,
	                             .ord = ord,
	                             .pdata = "hi",
	                             .pdata_len_bytes = 2,
	                             .startup_timeout_us = 50000};

	CHECK_EQ(weft_mpa_start(p->m, p->c, p->s, &attr, &peer_ops, p, PEER_NOW), 0);
	CHECK_EQ(p->m->state, WEFT_MPA_REQ_SENT);
	CHECK_EQ(p->c->nsegs, 1);
	CHECK(p->c->seg[0].push);
	return p;
}

static struct peer *
responder(void)
{
	struct peer *p = peer_new(MSS);

	CHECK_EQ(weft_mpa_respond(p->m, p->c, p->s, 50000, &peer_ops, p, PEER_NOW), 0);
	CHECK_EQ(p->m->state, WEFT_MPA_REQ_WAIT);
	return p;
}

/** Encode a frame: key, flags, revision, private data. */
static uint32_t
frame(uint8_t *b, bool reply, uint8_t flags, uint8_t rev, const void *pd, uint16_t pd_bytes)
{
	memcpy(b, reply ? "MPA ID Rep Frame" : "MPA ID Req Frame", 16);
	b[16] = flags;
	b[17] = rev;
	b[18] = pd_bytes >> 8;
	b[19] = pd_bytes & 0xff;
	memcpy(b + 20, pd, pd_bytes);
	return 20 + pd_bytes;
}

static void
send_frame(struct peer *p, bool reply, uint8_t flags, uint8_t rev, const void *pd, uint16_t n)
{
	uint8_t b[600];
	uint32_t len = frame(b, reply, flags, rev, pd, n);

	fake_rx(p->c, b, len, 0, PEER_NOW);
}

/** All octets that the side under test has sent, as one frame. */
static void
check_sent(struct peer *p, bool reply, uint8_t flags, uint8_t rev, const void *pd, uint16_t n)
{
	uint8_t b[600];
	uint32_t len = frame(b, reply, flags, rev, pd, n);

	CHECK_EQ(p->c->out_bytes, len);
	CHECK_MEM(p->c->out, b, len);
}

static void
run_timers(struct peer *p, uint64_t after_us)
{
	p->s->now_ns = PEER_NOW + after_us * WEFT_NS_PER_US;
	weft_timer_run(&p->s->wheel, p->s->now_ns);
}

static void
test_initiator_rev2(void)
{
	struct peer *p = initiator(2, 16, 0x3fff);

	check_sent(p, false, 0x50, 2, "\x00\x10\x3f\xffhi", 6);
	CHECK(!peer_may_send(p));
	send_frame(p, true, 0x50, 2, "\x00\x08\x00\x04ok", 6);
	CHECK_EQ(p->replies, 1);
	CHECK_EQ(p->frame.ird, 8);
	CHECK_EQ(p->frame.ord, 4);
	CHECK_EQ(p->frame.pdata_len_bytes, 2);
	CHECK_MEM(p->frame.pdata, "ok", 2);
	CHECK_EQ(p->m->state, WEFT_MPA_FULL);
	CHECK(peer_may_send(p));
	run_timers(p, 100000000);
	CHECK_EQ(p->closeds, 0);
	peer_free(p);
}

static void
test_initiator_rev1(void)
{
	struct peer *p = initiator(1, 16, 16);

	check_sent(p, false, 0x40, 1, "hi", 2);
	/* The Reply has C clear. The Request had C set, so CRC stays on. siw answers in this way.
	 */
	send_frame(p, true, 0x00, 1, "ok", 2);
	CHECK_EQ(p->replies, 1);
	CHECK(!p->frame.crc && !p->frame.enhanced);
	CHECK_EQ(p->m->state, WEFT_MPA_FULL);
	peer_free(p);
}

static void
test_start_errors(void)
{
	struct peer *p = peer_new(MSS);
	static uint8_t pd[513];
	struct weft_mpa_attr attr = {.rev = 0};

	CHECK_EQ(weft_mpa_start(p->m, p->c, p->s, &attr, &peer_ops, p, PEER_NOW), -EINVAL);
	attr.rev = 3;
	CHECK_EQ(weft_mpa_start(p->m, p->c, p->s, &attr, &peer_ops, p, PEER_NOW), -EINVAL);
	attr = (struct weft_mpa_attr){.rev = 2, .pdata = pd, .pdata_len_bytes = 509};
	CHECK_EQ(weft_mpa_start(p->m, p->c, p->s, &attr, &peer_ops, p, PEER_NOW), -EINVAL);
	attr = (struct weft_mpa_attr){.rev = 1, .pdata = pd, .pdata_len_bytes = 513};
	CHECK_EQ(weft_mpa_start(p->m, p->c, p->s, &attr, &peer_ops, p, PEER_NOW), -EINVAL);
	attr = (struct weft_mpa_attr){.rev = 2, .ird = 0x4000};
	CHECK_EQ(weft_mpa_start(p->m, p->c, p->s, &attr, &peer_ops, p, PEER_NOW), -EINVAL);
	attr = (struct weft_mpa_attr){.rev = 1, .pdata = pd, .pdata_len_bytes = 512};
	p->c->fail_alloc = 1;
	CHECK_EQ(weft_mpa_start(p->m, p->c, p->s, &attr, &peer_ops, p, PEER_NOW), -ENOBUFS);
	p->c->send_rc = -ENOTCONN;
	CHECK_EQ(weft_mpa_start(p->m, p->c, p->s, &attr, &peer_ops, p, PEER_NOW), -ENOTCONN);
	p->c->send_rc = 0;
	CHECK(p->c->ops == NULL);
	CHECK_EQ(p->c->nsegs, 0);
	/* The frame is longer than a segment and the second allocation fails, so nothing is sent.
	 */
	p->c->mss = 200;
	CHECK_EQ(weft_mpa_start(p->m, p->c, p->s, &attr, &peer_ops, p, PEER_NOW), 0);
	CHECK_EQ(p->c->nsegs, 3);
	check_sent(p, false, 0x40, 1, pd, 512);
	peer_free(p);
}

/** A Reply cut at every length, in single octets, and directly followed by FPDUs. */
static void
test_reply_pieces(void)
{
	uint8_t b[600], ulpdu[33] = "thirty-three octets of payload..";
	uint32_t n = frame(b, true, 0x50, 2, "\x00\x08\x00\x04private", 11);
	uint32_t all = n + slow_fpdu(b + n, ulpdu, 33);

	for (uint32_t cut = 0; cut <= all; cut++) {
		struct peer *p = initiator(2, 1, 1);

		fake_rx(p->c, b, cut, 0, PEER_NOW);
		CHECK_EQ(p->replies, cut >= n);
		CHECK_EQ(p->ulpdus, cut == all);
		fake_rx(p->c, b + cut, all - cut, cut == 0 ? 1 : 0, PEER_NOW);
		CHECK_EQ(p->replies, 1);
		CHECK_EQ(p->ulpdus, 1);
		CHECK_MEM(p->got, ulpdu, 33);
		CHECK_EQ(p->frame.pdata_len_bytes, 7);
		peer_free(p);
	}
}

static void
check_refused(struct peer *p, int err)
{
	CHECK_EQ(p->replies, 0);
	CHECK_EQ(p->requests, 0);
	CHECK_EQ(p->closeds, 1);
	CHECK_EQ(p->closed_err, err);
	CHECK(p->c->aborted);
	CHECK_EQ(p->m->stats.bad_startup, 1);
	peer_free(p);
}

static void
test_bad_replies(void)
{
	uint8_t b[600];
	struct peer *p;

	/* Both sides are initiators. */
	p = initiator(2, 1, 1);
	send_frame(p, false, 0x50, 2, "\0\1\0\1", 4);
	check_refused(p, -EPROTO);
	/* A Reply that is not enhanced to an enhanced Request, and the reverse. */
	p = initiator(2, 1, 1);
	send_frame(p, true, 0x40, 2, "", 0);
	check_refused(p, -EPROTONOSUPPORT);
	p = initiator(2, 1, 1);
	send_frame(p, true, 0x40, 1, "", 0);
	check_refused(p, -EPROTONOSUPPORT);
	p = initiator(1, 1, 1);
	send_frame(p, true, 0x50, 2, "\0\1\0\1", 4);
	check_refused(p, -EPROTONOSUPPORT);
	/* revisions */
	p = initiator(2, 1, 1);
	send_frame(p, true, 0x50, 3, "\0\1\0\1", 4);
	check_refused(p, -EPROTONOSUPPORT);
	p = initiator(1, 1, 1);
	send_frame(p, true, 0x40, 0, "", 0);
	check_refused(p, -EPROTONOSUPPORT);
	/* lengths */
	p = initiator(2, 1, 1);
	send_frame(p, true, 0x50, 2, "\0\1\0", 3);
	check_refused(p, -EPROTO);
	p = initiator(1, 1, 1);
	frame(b, true, 0x40, 1, "", 0);
	weft_put_be16(b + 18, 513);
	fake_rx(p->c, b, 20, 0, PEER_NOW);
	check_refused(p, -EPROTO);
	/* another protocol */
	p = initiator(1, 1, 1);
	fake_rx(p->c, "SSH-2.0", 7, 1, PEER_NOW);
	check_refused(p, -EPROTO);
	p = responder();
	fake_rx(p->c, "GET / HTTP/1.0\r\n", 16, 0, PEER_NOW);
	check_refused(p, -EPROTO);
	/* Both sides are responders. */
	p = responder();
	send_frame(p, true, 0x40, 1, "", 0);
	check_refused(p, -EPROTO);
	/* Revisions that do not exist. */
	p = responder();
	send_frame(p, false, 0x40, 0, "", 0);
	check_refused(p, -EPROTONOSUPPORT);
	p = responder();
	send_frame(p, false, 0x40, 3, "", 0);
	check_refused(p, -EPROTONOSUPPORT);
	p = responder();
	send_frame(p, false, 0x50, 2, "\0\1\0", 3);
	check_refused(p, -EPROTO);
}

static void
test_rejected(void)
{
	static const struct {
		uint8_t flags, rev;
		uint16_t n;
	} says[] = {{0x70, 2, 6}, {0x60, 1, 0}};

	for (unsigned int i = 0; i < RTE_DIM(says); i++) {
		struct peer *p = initiator(2, 4, 4);

		send_frame(p, true, says[i].flags, says[i].rev, "\x00\x08\x00\x04no", says[i].n);
		CHECK_EQ(p->replies, 1);
		CHECK(p->frame.reject);
		CHECK_EQ(p->m->state, WEFT_MPA_CLOSED);
		/* RFC 5044 s7.1.2 rule 3: MPA is over, and TCP open until the ULP closes it. */
		fake_rx(p->c, "stray", 5, 0, PEER_NOW);
		run_timers(p, 10000000);
		CHECK(!p->c->closed && !p->c->aborted);
		CHECK_EQ(p->closeds, 0);
		weft_mpa_close(p->m, PEER_NOW);
		CHECK(p->c->closed);
		fake_rx(p->c, "stray", 5, 0, PEER_NOW);
		p->c->ops->eof(p->c->user);
		CHECK_EQ(p->eofs, 0);
		fake_die(p->c, 0);
		CHECK_EQ(p->closeds, 1);
		CHECK_EQ(p->closed_err, 0);
		peer_free(p);
	}
}

static void
test_responder_rev2(void)
{
	struct peer *p = responder();
	struct weft_mpa *to = calloc(1, sizeof(*to));
	static const uint8_t pd[509];

	send_frame(p, false, 0x50, 2, "\x00\x08\x00\x04private", 11);
	CHECK_EQ(p->requests, 1);
	CHECK_EQ(p->frame.ird, 8);
	CHECK_EQ(p->frame.ord, 4);
	CHECK_MEM(p->frame.pdata, "private", 7);
	CHECK_EQ(p->m->state, WEFT_MPA_REQ_RCVD);
	run_timers(p, 100000000); /* there is no time limit for the consumer */
	CHECK_EQ(p->closeds, 0);
	weft_mpa_move(to, p->m, &peer_ops, p);
	CHECK_EQ(p->m->state, WEFT_MPA_IDLE);
	weft_mpa_fini(p->m);
	free(p->m);
	p->m = to;
	CHECK_EQ(weft_mpa_accept(to, 0x4000, 8, NULL, 0, PEER_NOW), -EINVAL);
	CHECK_EQ(weft_mpa_accept(to, 4, 8, pd, 509, PEER_NOW), -EINVAL);
	p->c->fail_alloc = 1;
	CHECK_EQ(weft_mpa_accept(to, 4, 8, "yes", 3, PEER_NOW), -ENOBUFS);
	CHECK_EQ(weft_mpa_accept(to, 4, 8, "yes", 3, PEER_NOW), 0);
	check_sent(p, true, 0x50, 2, "\x00\x04\x00\x08yes", 7);
	CHECK_EQ(to->state, WEFT_MPA_FULL);
	CHECK_EQ(weft_mpa_accept(to, 4, 8, NULL, 0, PEER_NOW), -EBADFD);
	CHECK_EQ(weft_mpa_reject(to, 4, 8, NULL, 0, PEER_NOW), -EBADFD);
	peer_free(p);
}

static void
test_responder_rev1(void)
{
	struct peer *p = responder();

	CHECK_EQ(weft_mpa_accept(p->m, 1, 1, NULL, 0, PEER_NOW), -EBADFD);
	send_frame(p, false, 0x00, 1, "", 0);
	CHECK_EQ(p->requests, 1);
	CHECK_EQ(weft_mpa_accept(p->m, 4, 8, "yes", 3, PEER_NOW), 0);
	check_sent(p, true, 0x40, 1, "yes", 3);
	peer_free(p);

	/* A Request of revision 2 without enhanced data gets a Reply without enhanced data. */
	p = responder();
	send_frame(p, false, 0x40, 2, "", 0);
	CHECK_EQ(weft_mpa_accept(p->m, 4, 8, NULL, 0, PEER_NOW), 0);
	check_sent(p, true, 0x40, 2, "", 0);
	peer_free(p);
}

/** RFC 6581 s9.1 (0x3fff) and s9.2 (peer-to-peer): the word of the Request, the responder's depths,
 * the word of the Reply. */
static void
test_responder_words(void)
{
	static const struct {
		uint32_t req;
		uint16_t ird, ord;
		uint32_t rep;
	} row[] = {
	        {0x00080004, 4, 8, 0x00040008},     {0x3fff0004, 4, 8, 0x00043fff},
	        {0x00083fff, 4, 8, 0x3fff0008},     {0x3fff3fff, 4, 8, 0x3fff3fff},
	        {0x8080c080, 128, 128, 0x8080c080}, /* siw: Write and Read */
	        {0x8001c001, 0, 0, 0x80008000},     /* no Read when IRD is 0 */
	        {0xc0010001, 1, 1, 0xc0010001},     /* Send */
	        {0x80010001, 1, 1, 0xc001c001},     /* none offered: all that are supported */
	        {0x80014001, 0, 1, 0xc0008001},     /* Read only, and IRD 0 */
	        {0x40014001, 1, 1, 0x00010001},     /* without A, B and D are ignored */
	};

	for (unsigned int i = 0; i < RTE_DIM(row); i++) {
		struct peer *p = responder();
		uint8_t w[4];

		weft_put_be32(w, row[i].req);
		send_frame(p, false, 0x50, 2, w, 4);
		CHECK_EQ(p->requests, 1);
		CHECK_EQ(weft_mpa_accept(p->m, row[i].ird, row[i].ord, NULL, 0, PEER_NOW), 0);
		CHECK_EQ(p->c->out_bytes, 24);
		CHECK_EQ(weft_get_be32(p->c->out + 20), row[i].rep);
		peer_free(p);
	}
}

static void
test_responder_reject(void)
{
	struct peer *p = responder();

	send_frame(p, false, 0x50, 2, "\x00\x08\x00\x04", 4);
	CHECK_EQ(weft_mpa_reject(p->m, 1, 2, "full", 4, PEER_NOW), 0);
	check_sent(p, true, 0x70, 2,
	           "\x00\x01\x00\x02"
	           "full",
	           8);
	/* RFC 5044 s7.1.2 rule 2: MPA is over, TCP open. The peer's FIN is answered. */
	CHECK_EQ(p->m->state, WEFT_MPA_CLOSED);
	run_timers(p, 10000000);
	CHECK(!p->c->closed && !p->c->aborted);
	fake_rx(p->c, "late", 4, 0, PEER_NOW);
	CHECK(!p->c->closed);
	p->c->ops->eof(p->c->user);
	CHECK(p->c->closed);
	CHECK_EQ(p->closeds, 0);
	fake_die(p->c, 0);
	CHECK_EQ(p->closeds, 1);
	CHECK_EQ(p->closed_err, 0);
	peer_free(p);

	/* The wait for the peer's close has a time limit. */
	p = responder();
	send_frame(p, false, 0x40, 1, "", 0);
	CHECK_EQ(weft_mpa_reject(p->m, 1, 2, NULL, 0, PEER_NOW), 0);
	weft_mpa_await_fin(p->m, PEER_NOW);
	run_timers(p, 24000);
	CHECK(!p->c->closed);
	run_timers(p, 26000);
	CHECK(p->c->closed);
	run_timers(p, 74000);
	CHECK_EQ(p->closeds, 0);
	run_timers(p, 77000);
	CHECK_EQ(p->closeds, 1);
	CHECK_EQ(p->closed_err, -ETIMEDOUT);
	CHECK(p->c->aborted);
	peer_free(p);

	/* The ULP may close before the limit. */
	p = responder();
	send_frame(p, false, 0x40, 1, "", 0);
	CHECK_EQ(weft_mpa_reject(p->m, 1, 2, NULL, 0, PEER_NOW), 0);
	weft_mpa_await_fin(p->m, PEER_NOW);
	weft_mpa_close(p->m, PEER_NOW);
	CHECK(p->c->closed);
	fake_die(p->c, 0);
	CHECK_EQ(p->closeds, 1);
	peer_free(p);
}

static void
test_timeout(void)
{
	for (int role = 0; role < 2; role++) {
		struct peer *p = role ? responder() : initiator(2, 1, 1);

		fake_rx(p->c, role ? "MPA ID Req" : "MPA ID Rep", 10, 0, PEER_NOW);
		run_timers(p, 49000);
		CHECK_EQ(p->closeds, 0);
		run_timers(p, 50100);
		check_refused(p, -ETIMEDOUT);
	}
}

static void
test_eof_and_death(void)
{
	for (int role = 0; role < 2; role++) {
		struct peer *p = role ? responder() : initiator(2, 1, 1);

		p->c->ops->eof(p->c->user);
		check_refused(p, -ECONNRESET);
		p = role ? responder() : initiator(2, 1, 1);
		fake_rx(p->c, "MPA", 3, 0, PEER_NOW);
		p->c->ops->eof(p->c->user);
		check_refused(p, -EPROTO);
		p = role ? responder() : initiator(2, 1, 1);
		fake_die(p->c, -ECONNREFUSED);
		CHECK_EQ(p->closeds, 1);
		CHECK_EQ(p->closed_err, -ECONNREFUSED);
		peer_free(p);
		p = role ? responder() : initiator(2, 1, 1);
		weft_mpa_close(p->m, PEER_NOW);
		CHECK(p->c->closed);
		fake_die(p->c, 0);
		CHECK_EQ(p->closeds, 1);
		peer_free(p);
	}
	/* The connection ends before the consumer answers. The request can no longer be answered.
	 */
	struct peer *p = responder();

	send_frame(p, false, 0x40, 1, "", 0);
	p->c->ops->eof(p->c->user);
	CHECK_EQ(p->closeds, 1);
	CHECK_EQ(p->closed_err, -ECONNRESET);
	CHECK_EQ(weft_mpa_accept(p->m, 1, 1, NULL, 0, PEER_NOW), -EBADFD);
	peer_free(p);
}

/** A frame is sent in parts of at least 64 octets, however small the MSS is, so it needs few
 * buffers. */
static void
test_small_mss(void)
{
	static const uint16_t mss[] = {1, 63, 64, 65, 100, 600};
	uint8_t pdata[500] = {9, 8, 7};

	for (unsigned int i = 0; i < RTE_DIM(mss); i++) {
		struct weft_mpa_attr attr = {.rev = 1,
		                             .ird = 1,
		                             .ord = 1,
		                             .pdata = pdata,
		                             .pdata_len_bytes = sizeof(pdata)};
		struct peer *p = peer_new(mss[i]);
		uint32_t piece = RTE_MAX(mss[i], 64u);

		CHECK_EQ(weft_mpa_start(p->m, p->c, p->s, &attr, &peer_ops, p, PEER_NOW), 0);
		CHECK_EQ(p->c->out_bytes, 20 + sizeof(pdata));
		CHECK_EQ(p->c->nsegs, (20 + sizeof(pdata) + piece - 1) / piece);
		for (unsigned int k = 0; k + 1 < p->c->nsegs; k++) {
			CHECK_EQ(p->c->seg[k].len, piece);
			CHECK(!p->c->seg[k].push);
		}
		CHECK(p->c->seg[p->c->nsegs - 1].push);
		CHECK_MEM(p->c->out + 20, pdata, sizeof(pdata));
		weft_mpa_fini(p->m);
		peer_free(p);
	}
}

/** Closed during start-up: whatever the peer sends later, `closed` is the only up-call. */
static void
test_close_in_startup(void)
{
	for (int role = 0; role < 2; role++)
		for (int last = 0; last < 2; last++) {
			struct peer *p = role ? responder() : initiator(2, 1, 1);

			weft_mpa_close(p->m, PEER_NOW);
			CHECK_EQ(p->m->state, WEFT_MPA_CLOSED);
			send_frame(p, !role, 0x50, 2, "\x00\x01\x00\x01", 4);
			CHECK_EQ(p->requests + p->replies, 0);
			if (last) /* the peer's FIN is not an error */
				p->c->ops->eof(p->c->user);
			CHECK_EQ(p->closeds, 0);
			CHECK(!p->c->aborted);
			fake_die(p->c, 0);
			CHECK_EQ(p->closeds, 1);
			CHECK_EQ(p->closed_err, 0);
			peer_free(p);
		}
	/* A Request that the consumer has not answered can no longer be answered. */
	struct peer *p = responder();

	send_frame(p, false, 0x40, 1, "", 0);
	weft_mpa_close(p->m, PEER_NOW);
	CHECK_EQ(weft_mpa_accept(p->m, 1, 1, NULL, 0, PEER_NOW), -EBADFD);
	CHECK_EQ(p->c->nsegs, 0);
	fake_die(p->c, 0);
	CHECK_EQ(p->closeds, 1);
	peer_free(p);
}

/** FPDUs that a peer sends directly after its Request are kept, and parsed in a turn after the
 * accept. */
static void
test_early_data(void)
{
	uint8_t b[2048], ulpdu[100] = "early";
	uint32_t n = frame(b, false, 0x50, 2, "\x00\x08\x00\x04", 4), one, all;

	one = slow_fpdu(b + n, ulpdu, 100);
	all = n + one + slow_fpdu(b + n + one, ulpdu, 100);
	for (uint32_t cut = n; cut <= all; cut++)
		for (int moved = 0; moved < 2; moved++) {
			struct peer *p = responder();

			if (moved) { /* moved and accepted inside the up-call */
				p->act = ACT_ACCEPT;
				p->act_on = 'q';
			}
			fake_rx(p->c, b, cut, 0, PEER_NOW);
			CHECK_EQ(p->requests, 1);
			CHECK_EQ(p->ulpdus, 0);
			if (!moved)
				CHECK_EQ(weft_mpa_accept(p->m, 1, 1, NULL, 0, PEER_NOW), 0);
			CHECK_EQ(p->ulpdus, 0);
			weft_sched_run(p->s, PEER_NOW);
			CHECK_EQ(p->ulpdus, (cut - n) / one);
			fake_rx(p->c, b + cut, all - cut, 0, PEER_NOW);
			CHECK_EQ(p->ulpdus, 2);
			CHECK_EQ(p->faults, 0);
			CHECK_MEM(p->got, ulpdu, 100);
			peer_free(p);
		}
}

/** Early data is kept up to a limit of octets and of mbufs. */
static void
test_early_bound(void)
{
	static uint8_t junk[65536];

	for (uint32_t piece = 0; piece < 2; piece++) {
		struct peer *p = responder();

		send_frame(p, false, 0x40, 1, "", 0);
		fake_rx(p->c, junk, piece ? 64 : 65536, piece, PEER_NOW);
		CHECK_EQ(p->closeds, 0);
		fake_rx(p->c, junk, 1, 0, PEER_NOW); /* one octet beyond the limit */
		CHECK_EQ(p->closeds, 1);
		CHECK_EQ(p->closed_err, -EPROTO);
		CHECK(p->c->aborted);
		peer_free(p);
	}
}

/** The task of early data is cancelled if the owner destroys the stream before it runs. */
static void
test_early_destroy(void)
{
	uint8_t b[100];
	uint32_t n = frame(b, false, 0x40, 1, "", 0);
	struct peer *p = responder();

	n += slow_fpdu(b + n, (const uint8_t *)"x", 1);
	fake_rx(p->c, b, n, 0, PEER_NOW);
	CHECK_EQ(weft_mpa_accept(p->m, 1, 1, NULL, 0, PEER_NOW), 0);
	CHECK(!TAILQ_EMPTY(&p->s->run));
	weft_mpa_fini(p->m);
	CHECK(TAILQ_EMPTY(&p->s->run));
	peer_free(p);
}

/** The peer closes before the task of early data has run. The owner may destroy the stream while it
 * gets the data. */
static void
test_early_eof(void)
{
	static const char acts[] = {ACT_NONE, ACT_DESTROY, ACT_ABORT};

	for (unsigned int i = 0; i < sizeof(acts); i++) {
		uint8_t b[100];
		uint32_t n = frame(b, false, 0x40, 1, "", 0);
		struct peer *p = responder();

		n += slow_fpdu(b + n, (const uint8_t *)"x", 1);
		fake_rx(p->c, b, n, 0, PEER_NOW);
		CHECK_EQ(weft_mpa_accept(p->m, 1, 1, NULL, 0, PEER_NOW), 0);
		p->act = acts[i];
		p->act_on = 'u';
		p->c->ops->eof(p->c->user);
		CHECK_EQ(p->ulpdus, 1);
		CHECK_EQ(p->eofs, acts[i] == ACT_NONE);
		CHECK_EQ(p->closeds, 0);
		CHECK_EQ(p->c->aborted, acts[i] != ACT_NONE);
		peer_free(p);
	}
}

/** Start-up frames with randomly changed octets, then FPDUs. MPA accepts or refuses them without
 * damage. */
static void
test_startup_mutated(void)
{
	uint64_t seed = test_seed(99);

	for (unsigned int round = 0; round < 3000; round++) {
		int role = round & 1;
		struct peer *p = role ? responder() : initiator(1 + round / 2 % 2, 4, 4);
		uint8_t b[700], pd[64] = {0, 4, 0, 4};
		uint32_t n;

		rte_srand(seed + round);
		n = frame(b, !role, round / 2 % 2 ? 0x50 : 0x40, 1 + round / 2 % 2, pd,
		          4 + rte_rand_max(60));
		n += slow_fpdu(b + n, pd, 1 + rte_rand_max(60));
		for (unsigned int k = rte_rand_max(4); k > 0; k--)
			b[rte_rand_max(3) ? 16 + rte_rand_max(8) : rte_rand_max(n)] = rte_rand();
		p->act = rte_rand_max(2) ? ACT_ACCEPT : ACT_NONE;
		p->act_on = 'q';
		fake_rx(p->c, b, n, rte_rand_max(40), PEER_NOW);
		weft_sched_run(p->s, PEER_NOW);
		if (p->c->ops != NULL)
			p->c->ops->eof(p->c->user);
		CHECK(p->ulpdus <= 1);
		peer_free(p);
	}
}

/** Every action in every up-call of start-up, with octets after the frame. */
static void
test_startup_destroy(void)
{
	static const int acts[] = {ACT_DESTROY, ACT_CLOSE, ACT_ABORT, ACT_REJECT};

	for (unsigned int a = 0; a < RTE_DIM(acts); a++)
		for (int role = 0; role < 2; role++)
			for (int reject = 0; reject < 2; reject++) {
				struct peer *p = role ? responder() : initiator(1, 1, 1);
				uint8_t b[200];
				uint32_t n = frame(b, !role, reject ? 0x60 : 0x40, 1, "", 0);

				if (acts[a] == ACT_REJECT && !role) {
					peer_free(p);
					continue;
				}
				n += slow_fpdu(b + n, (const uint8_t *)"data", 4);
				p->act = acts[a];
				p->act_on = role ? 'q' : 'p';
				fake_rx(p->c, b, n, 0, PEER_NOW);
				/* After an accepting Reply, a close still lets the peer send its
				 * data. */
				CHECK_EQ(p->ulpdus, acts[a] == ACT_CLOSE && !role && !reject);
				if (p->m != NULL && acts[a] != ACT_ABORT)
					CHECK_EQ(p->c->closed, acts[a] != ACT_REJECT);
				peer_free(p);
			}
	for (int role = 0; role < 2; role++) {
		struct peer *p = role ? responder() : initiator(1, 1, 1);

		p->act = ACT_DESTROY;
		p->act_on = 'c';
		fake_rx(p->c, "junk", 4, 0, PEER_NOW);
		CHECK_EQ(p->closeds, 1);
		peer_free(p);
	}
}

WEFT_TEST_MAIN({"initiator rev 2", test_initiator_rev2}, {"initiator rev 1", test_initiator_rev1},
               {"start errors", test_start_errors}, {"reply in pieces", test_reply_pieces},
               {"bad frames", test_bad_replies}, {"rejected", test_rejected},
               {"responder rev 2", test_responder_rev2}, {"responder rev 1", test_responder_rev1},
               {"responder words", test_responder_words},
               {"responder rejects", test_responder_reject}, {"timeout", test_timeout},
               {"eof and death", test_eof_and_death}, {"closed in start-up", test_close_in_startup},
               {"small mss", test_small_mss}, {"early data", test_early_data},
               {"early data bound", test_early_bound}, {"early data destroy", test_early_destroy},
               {"early data eof", test_early_eof}, {"start-up destroy", test_startup_destroy},
               {"start-up mutated", test_startup_mutated})
