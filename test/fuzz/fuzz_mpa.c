/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Octets for one MPA stream over a simulated TCP, in either role: start-up frames and FPDUs,
 * valid, damaged or raw, in pieces of any size. Meanwhile the user calls every permitted function
 * at any moment.
 *
 * While the peer follows the rules, every ULPDU is delivered unchanged and no fault is reported.
 * The sent octets equal those that RFC 5044 s4 defines for the user's ULPDUs, including markers.
 */

#include "fuzz.h"

#include "fpdu.h"
#include "mpa_peer.h"
#include "weft_mpa_startup.h"

#define FUZZ_OPS  200
#define FUZZ_TEXT 1500

static struct peer *p;
static uint64_t now_ns;
static struct fpdu_stream from_peer, to_peer;
static bool agreed;                /**< full operation has begun, and with it the two streams */
static bool spoke;                 /**< the peer has sent its frame */
static bool wrong;                 /**< the peer has violated a rule */
static uint32_t sent;              /**< octets of p->c->out before full operation */
static uint8_t want[FAKE_OUT_MAX]; /**< the octets that must follow them */
static uint32_t want_bytes, checked;

static void
damage(struct fuzz_in *in, uint8_t *b, uint32_t len, uint8_t how)
{
	for (unsigned int i = 0; i < (how & 3u) && len > 0; i++) {
		uint32_t at = fuzz_u16(in) % len;

		b[at] ^= 1 + fuzz_u8(in);
		wrong = true;
	}
}

/** Record the result of the start-up when it is complete. */
static void
follow(void)
{
	if (agreed || p->m == NULL || p->m->state != WEFT_MPA_FULL)
		return;
	agreed = true;
	from_peer = (struct fpdu_stream){.markers = p->m->rx_markers, .crc = p->m->crc};
	to_peer = (struct fpdu_stream){.markers = p->m->tx_markers, .crc = p->m->crc};
	sent = p->c->out_bytes;
}

static void
rx(struct fuzz_in *in, const void *b, uint32_t len)
{
	uint32_t piece = fuzz_u8(in);

	/* One up-call with a chain of pieces, or one for each piece. */
	if (len == 0 || p->c->ops == NULL)
		return;
	if (piece & 1 && piece > 1)
		p->c->ops->rx(p->c->user, fake_chain(p->c, b, len, piece / 2 * 8), now_ns);
	else
		fake_rx(p->c, b, len, RTE_MAX(piece, len / 64 + 1), now_ns);
}

static void
frame(struct fuzz_in *in)
{
	uint8_t how = fuzz_u8(in), flags = fuzz_u8(in);
	struct weft_mpa_frame f = {.reply = (how & 4) != 0,
	                           .crc = !(how & 0x20),
	                           .rev = 1 + (how >> 3 & 1),
	                           .enhanced = flags & 1,
	                           .markers = flags & 2,
	                           .reject = flags & 4 && how & 4,
	                           .p2p = flags & 8,
	                           .rtr_send = flags & 16,
	                           .rtr_write = flags & 32,
	                           .rtr_read = flags & 64,
	                           .ird = (uint16_t)(flags & 128 ? 0x3fff : flags),
	                           .ord = how};
	uint8_t buf[600];
	int n;

	f.pdata_len_bytes = how & 16 ? RTE_MIN(fuzz_u8(in) * 2u, 508u) : 0;
	n = weft_mpa_frame_encode(&f, buf, sizeof(buf));
	if (n <= 0)
		return;
	damage(in, buf, (uint32_t)n, how);
	wrong |= spoke;
	spoke = true;
	rx(in, buf, (uint32_t)n);
}

static void
fpdu(struct fuzz_in *in)
{
	uint8_t how = fuzz_u8(in), text[FUZZ_TEXT], buf[FPDU_ROOM(FUZZ_TEXT)];
	uint16_t len = how & 4 ? fuzz_u16(in) % FUZZ_TEXT : fuzz_u8(in);
	unsigned int before = p->ulpdus, faults = p->faults;
	uint32_t got = p->got_bytes, n;
	bool right;

	follow();
	memset(text, how, sizeof(text));
	right = agreed && !wrong && p->m != NULL && p->m->state == WEFT_MPA_FULL;
	n = fpdu_build(&from_peer, buf, text, len);
	damage(in, buf, n, how);
	right &= !wrong;
	wrong |= !agreed;
	rx(in, buf, n);
	if (!right || p->m == NULL || p->m->state != WEFT_MPA_FULL || p->act_on == 'u')
		return;
	FUZZ_CHECK(p->faults == faults && !p->m->rx_dead);
	/* a zero-length FPDU carries no data (RFC 6581 s9.2) */
	if (len == 0)
		return;
	FUZZ_CHECK(p->ulpdus == before + 1 && p->got_bytes == got + len);
	FUZZ_CHECK(memcmp(p->got + got, text, len) == 0);
}

static void
user(struct fuzz_in *in)
{
	uint8_t how = fuzz_u8(in);
	struct weft_mpa *m = p->m;

	if (m == NULL)
		return;
	follow();
	switch (how & 7) {
	case 0:
		weft_mpa_accept(m, how, 3, "ok", how >> 6, now_ns);
		break;
	case 1:
		if (weft_mpa_reject(m, 1, how, "no", how >> 6, now_ns) == 0 && (how & 8))
			weft_mpa_await_fin(m, now_ns);
		break;
	case 2:
		weft_mpa_close(m, now_ns);
		break;
	case 3:
		if (how & 0x80)
			weft_mpa_abort(m, now_ns);
		break;
	case 4:
	case 5: {
		uint16_t len = (uint16_t)(fuzz_u8(in) * 6u);
		uint8_t *b;

		if (m->state != WEFT_MPA_FULL || m->tx_closed || len > m->mulpdu_bytes)
			break;
		b = weft_mpa_tx_begin(m, len, now_ns);
		if (b == NULL)
			break;
		memset(b, how, len);
		want_bytes += fpdu_build(&to_peer, want + want_bytes, b, len);
		weft_mpa_tx_end(m, now_ns);
		if (how & 8)
			weft_mpa_tx_flush(m, now_ns);
		break;
	}
	case 6:
		p->c->space = how & 8 ? 0 : 1 << 20;
		p->c->fail_alloc = m->state == WEFT_MPA_FULL ? how >> 6 : 0;
		if (p->c->space > 0 && p->c->ops != NULL && p->c->ops->writable != NULL)
			p->c->ops->writable(p->c->user);
		break;
	default:
		p->c->mss = (uint16_t)(128 + (how >> 3) * 40u);
		if (p->c->ops != NULL && p->c->ops->mss != NULL)
			p->c->ops->mss(p->c->user, p->c->mss);
		break;
	}
}

static void
start(struct fuzz_in *in)
{
	static const uint16_t mss[4] = {128, 536, 1460, 2000};
	static const char when[8] = {'q', 'p', 'u', 'w', 'f', 'e', 'c', 0};
	uint8_t a = fuzz_u8(in), b = fuzz_u8(in), w = fuzz_u8(in);
	struct weft_mpa_opts opts = {
	        .markers = w & 1, .no_crc = (w & 2) != 0, .rtr = w >> 2 & WEFT_MPA_RTR_ALL};

	agreed = spoke = wrong = false;
	sent = want_bytes = checked = 0;
	p = peer_new(mss[a >> 1 & 3]);
	p->act_on = when[b & 7];
	p->act = (b >> 3) % (p->act_on == 'q' ? ACT_REJECT + 1 : ACT_ACCEPT);
	now_ns = PEER_NOW;
	if (a & 1) {
		struct weft_mpa_attr attr = {.rev = 1 + (a >> 3 & 1), .ird = a, .ord = b};

		attr.p2p = attr.rev == 2 && (a & 0x20) != 0;
		attr.opts = opts;
		attr.pdata = "hello";
		attr.pdata_len_bytes = a >> 6;
		FUZZ_CHECK(weft_mpa_start(p->m, p->c, p->s, &attr, &peer_ops, p, now_ns) == 0);
	} else {
		FUZZ_CHECK(weft_mpa_respond(p->m, p->c, p->s, 0, &peer_ops, p, now_ns) == 0);
		weft_mpa_set_opts(p->m, &opts);
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_in in = {data, size};
	bool eof = false;

	if (rte_log_get_global_level() > RTE_LOG_ERR) {
		test_eal_init();
		test_bail_aborts = true;
		rte_log_set_global_level(RTE_LOG_ERR);
	}
	start(&in);
	for (unsigned int i = 0; i < FUZZ_OPS && in.left > 0; i++) {
		uint8_t op = fuzz_u8(&in);
		const uint8_t *raw;
		size_t n;

		switch (op & 7) {
		case 0:
			raw = fuzz_octets(&in, fuzz_u8(&in), &n);
			wrong |= n > 0;
			if (!eof)
				rx(&in, raw, (uint32_t)n);
			break;
		case 1:
		case 2:
			if (!eof)
				fpdu(&in);
			break;
		case 3:
			if (!eof)
				frame(&in);
			break;
		case 4:
			now_ns += (uint64_t)fuzz_u8(&in) * (op & 0x80 ? WEFT_NS_PER_S : 1000000);
			break;
		case 5:
			if (op & 0x80 && p->c->ops != NULL && !eof) {
				eof = true;
				p->c->ops->eof(p->c->user);
			} else if (op & 0x40 && p->c->ops != NULL) {
				fake_die(p->c, op & 0x20 ? -ECONNRESET : 0);
			}
			break;
		default:
			user(&in);
			break;
		}
		p->s->now_ns = now_ns;
		if (p->m != NULL)
			FUZZ_CHECK(p->m->mulpdu_bytes == 0 ||
			           (p->m->mulpdu_bytes >= 128 && p->m->rx_pos % 4 == 0 &&
			            p->m->tx_pos % 4 == 0));
		weft_timer_run(&p->s->wheel, now_ns);
		weft_sched_run(p->s, now_ns);
		follow();
		if (agreed) {
			uint32_t out = p->c->out_bytes - sent;

			FUZZ_CHECK(out <= want_bytes);
			FUZZ_CHECK(memcmp(p->c->out + sent + checked, want + checked,
			                  out - checked) == 0);
			checked = out;
		}
	}
	peer_free(p);
	return 0;
}
