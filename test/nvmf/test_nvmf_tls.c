/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file TLS of NVMe/TCP: hosts with libssl's client on the transport of test_nvmf_tcp.c.
 */

#include <errno.h>

#include "nvmf_tls.h"
#include "tcp_host.h"
#include "test_xorshift.h"

#define NEVER(status) ((status) | WEFT_NVMF_DNR)
#define S_NS          1000000000ULL
#define KEY32         "NVMeTLSkey-1:01:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:"
#define KEY48                                                                                      \
	"NVMeTLSkey-1:02:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vcSEgBQ==" \
	":"
#define KEY00 "NVMeTLSkey-1:00:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:"
/** A key that the target does not have. */
#define KEY_OTHER "NVMeTLSkey-1:01:BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwfLJNij:"
#define BOTH      (1U << WEFT_NVMF_PSK_RFC8446 | 1U << WEFT_NVMF_PSK_COMPAT)

static struct th h;
static struct th_q admin, io;
static struct tls_client atls, itls;
static struct weft_nvmf_tls *keys;
static uint8_t out[1U << 20], in[1U << 20];
static const struct sim_link_cfg quiet = {.delay_ns = 10000};

static struct weft_nvmf_tcp_stats
stats(void)
{
	struct weft_nvmf_tcp_stats s;

	weft_nvmf_tcp_query(h.tcp, &s);
	return s;
}

/** The keys of the subsystem: NULL: none. */
static int
set_keys(const char *one, const char *two)
{
	struct weft_nvmf_tls_key k[2] = {{.hostnqn = NV_HOST}, {.hostnqn = NV_HOST}};
	const char *text[2] = {one, two}, *why;
	uint32_t n = 0;

	for (unsigned int i = 0; i < 2; i++)
		if (text[i] != NULL)
			CHECK_EQ(weft_nvmf_psk_parse(text[i], &k[n++].psk, &why), 0);
	return weft_nvmf_tls_set(keys, NV_SUBSYS, k, n);
}

static void
start(enum weft_nvmf_tcp_tls mode, unsigned int derivations, const char *one, const char *two)
{
	memset(&admin, 0, sizeof(admin));
	memset(&io, 0, sizeof(io));
	admin.hdgst = admin.ddgst = io.hdgst = io.ddgst = true;
	CHECK_EQ(weft_nvmf_tls_create(derivations, &keys), 0);
	CHECK_EQ(set_keys(one, two), 0);
	h.attr.tls = mode;
	h.attr.keys = keys;
	th_start(&h, &quiet);
	vt_fill(out, sizeof(out), 3);
}

static void
close_q(struct th_q *q)
{
	if (q->tls != NULL)
		tls_client_close(q->tls);
	th_close(q);
	q->tls = NULL;
}

static void
end(void)
{
	close_q(&io);
	close_q(&admin);
	th_end(&h);
	weft_nvmf_tls_destroy(keys);
}

/** Both queues by TLS, with this key. */
static void
both_queues(const char *key, enum weft_nvmf_psk_derivation d, unsigned int version)
{
	tls_client_open_key(&atls, key, d, version, NV_HOST, NV_SUBSYS);
	tls_client_open_key(&itls, key, d, version, NV_HOST, NV_SUBSYS);
	admin.tls = &atls;
	io.tls = &itls;
	th_queue(&h, &admin, 0, 0xffff);
	th_enable(&admin);
	th_queue(&h, &io, 1, admin.cntlid);
}

/** Data of these lengths, both ways. */
static void
lengths(void)
{
	static const uint32_t len[] = {512, 4096, 16384, 32768, 131072, 1000448};

	for (unsigned int i = 0; i < sizeof(len) / sizeof(len[0]); i++) {
		CHECK_EQ(th_do(&io, th_rw(WEFT_NVMF_IO_WRITE, i, len[i]), out + i, len[i]), 0);
		memset(in, 0, len[i]);
		CHECK_EQ(th_do(&io, th_rw(WEFT_NVMF_IO_READ, i, len[i]), in, len[i]), 0);
		CHECK_MEM(in, out + i, len[i]);
	}
}

/** Run both sides until the connection has ended at the host, or for so long. */
static void
until_end(struct th_q *q, uint64_t max_ns)
{
	const uint64_t from = sim_now_ns(h.t.sim);

	while (!q->p.ended && sim_now_ns(h.t.sim) - from < max_ns) {
		th_pump(q);
		th_step(&h);
		if (q->p.eof)
			vt_tcp_fin(&q->p);
	}
	th_pump(q);
}

/** The end of the last record waits for TCP, and nothing is sent behind it: answers that are about
 * as long as the first congestion window. */
static void
test_last_record(void)
{
	start(WEFT_NVMF_TCP_TLS_REQUIRED, BOTH, KEY32, NULL);
	both_queues(KEY32, WEFT_NVMF_PSK_RFC8446, 0);
	CHECK_EQ(th_do(&io, th_rw(WEFT_NVMF_IO_WRITE, 0, 65536), out, 65536), 0);
	for (uint32_t n = 8192; n <= 49152; n += 512) {
		close_q(&io);
		while (stats().conns > 1)
			th_step(&h);
		memset(&io, 0, sizeof(io));
		io.no_flow = true;
		tls_client_open_key(&itls, KEY32, WEFT_NVMF_PSK_RFC8446, 0, NV_HOST, NV_SUBSYS);
		io.tls = &itls;
		th_queue(&h, &io, 1, admin.cntlid);
		memset(in, 0, n);
		CHECK_EQ(th_do(&io, th_rw(WEFT_NVMF_IO_READ, 0, n), in, n), 0);
		CHECK_MEM(in, out, n);
		CHECK_EQ(io.successes, 1);
	}
	end();
}

/** What a host is told that begins like that. */
static void
refused(struct th_q *q, const char *why, int alert)
{
	const unsigned int before = h.refusals;

	th_open(&h, q);
	until_end(q, 10 * S_NS);
	CHECK(q->p.ended);
	CHECK_EQ(h.refusals, before + 1);
	CHECK_MSG(strstr(h.why, why) != NULL, "%s", h.why);
	CHECK_MSG(q->tls->failed == alert, "alert %d: %s", q->tls->failed, h.why);
	CHECK_EQ(stats().tls_handshakes, 0);
	close_q(q);
}

static void
test_keys(void)
{
	static const char *const text[] = {KEY32, KEY48, KEY00};

	for (unsigned int k = 0; k < 3; k++)
		for (unsigned int d = 0; d < WEFT_NVMF_PSK_DERIVATIONS; d++)
			for (unsigned int v = 0; v < 2; v++) {
				start(WEFT_NVMF_TCP_TLS_REQUIRED, BOTH, KEY_OTHER, text[k]);
				both_queues(text[k], d, v);
				lengths();
				CHECK_EQ(SSL_CIPHER_get_protocol_id(
				                 SSL_get_current_cipher(itls.ssl)),
				         k == 1 ? 0x1302 : 0x1301);
				CHECK_EQ(stats().tls_done, 2);
				CHECK_EQ(stats().tls_compat, d == WEFT_NVMF_PSK_COMPAT ? 2 : 0);
				CHECK_EQ(stats().tls_conns, 2);
				CHECK_EQ(stats().tls_failed + stats().tls_faults, 0);
				CHECK_EQ(h.refusals, 0);
				end();
			}
}

static void
test_derivations(void)
{
	for (unsigned int v = 0; v < 2; v++) {
		start(WEFT_NVMF_TCP_TLS_REQUIRED, 1U << WEFT_NVMF_PSK_RFC8446, KEY32, NULL);
		tls_client_open_key(&atls, KEY32, WEFT_NVMF_PSK_COMPAT, v, NV_HOST, NV_SUBSYS);
		admin.tls = &atls;
		refused(&admin, "has its key in the derivation of older libnvme (compat)", 51);
		CHECK_EQ(stats().tls_failed, 1);
		both_queues(KEY32, WEFT_NVMF_PSK_RFC8446, v);
		end();
		start(WEFT_NVMF_TCP_TLS_REQUIRED, 1U << WEFT_NVMF_PSK_COMPAT, KEY32, NULL);
		tls_client_open_key(&atls, KEY32, WEFT_NVMF_PSK_RFC8446, v, NV_HOST, NV_SUBSYS);
		admin.tls = &atls;
		refused(&admin, "has its key in the derivation of RFC 8446", 51);
		both_queues(KEY32, WEFT_NVMF_PSK_COMPAT, v);
		end();
	}
}

/** Keys that the target does not have. */
static void
test_refused(void)
{
	static const uint8_t psk[32] = {1};
	static const char *const forms[] = {"alice",
	                                    "NVMe0R01",
	                                    "NVMe0R01 " NV_HOST,
	                                    "NVMe2R01 " NV_HOST " " NV_SUBSYS,
	                                    "NVMe0R01 alice " NV_SUBSYS,
	                                    "NVMe0R01 " NV_HOST " " NV_SUBSYS " x",
	                                    "NVMe1R01 " NV_HOST " " NV_SUBSYS};

	start(WEFT_NVMF_TCP_TLS_ALLOWED, BOTH, KEY32, NULL);
	admin.tls = &atls;
	tls_client_open_key(&atls, KEY_OTHER, WEFT_NVMF_PSK_RFC8446, 0, NV_HOST, NV_SUBSYS);
	refused(&admin,
	        "host " NV_HOST " has another key (tried in the derivations of RFC 8446 and of "
	        "older libnvme (compat))",
	        51);
	/* with the digest in its identity, another key has another identity */
	admin.tls = &atls;
	tls_client_open_key(&atls, KEY_OTHER, WEFT_NVMF_PSK_RFC8446, 1, NV_HOST, NV_SUBSYS);
	refused(&admin, "there is no key of host " NV_HOST " for subsystem " NV_SUBSYS, 51);
	admin.tls = &atls;
	tls_client_open_key(&atls, KEY32, WEFT_NVMF_PSK_RFC8446, 0, NV_HOST "x", NV_SUBSYS);
	refused(&admin, "there is no key of host " NV_HOST "x for", 51);
	admin.tls = &atls;
	tls_client_open_key(&atls, KEY32, WEFT_NVMF_PSK_RFC8446, 0, NV_HOST, NV_SUBSYS "x");
	refused(&admin, "for subsystem " NV_SUBSYS "x", 51);
	admin.tls = &atls;
	tls_client_open(&atls, NULL, NULL, 0, NULL);
	refused(&admin, "it offers no pre-shared key", 40);
	for (unsigned int i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		admin.tls = &atls;
		tls_client_open(&atls, forms[i], psk, sizeof(psk), NULL);
		refused(&admin, "none of its identities is that of a host and a subsystem", 51);
	}
	CHECK_EQ(stats().tls_failed, 5 + sizeof(forms) / sizeof(forms[0]));
	CHECK_EQ(stats().tls_alerts_out, stats().tls_failed);
	CHECK_EQ(stats().tls_done, 0);
	both_queues(KEY32, WEFT_NVMF_PSK_COMPAT, 1);
	end();
}

/** A host that offers a suite of the other hash alone; one that needs a HelloRetryRequest. */
static void
test_suites(void)
{
	start(WEFT_NVMF_TCP_TLS_REQUIRED, BOTH, KEY32, NULL);
	tls_client_open_key(&atls, KEY32, WEFT_NVMF_PSK_RFC8446, 0, NV_HOST, NV_SUBSYS);
	CHECK(SSL_set_ciphersuites(atls.ssl, "TLS_CHACHA20_POLY1305_SHA256") == 1);
	admin.tls = &atls;
	refused(&admin, "no shared cipher", 40);
	tls_client_open_key(&atls, KEY32, WEFT_NVMF_PSK_RFC8446, 0, NV_HOST, NV_SUBSYS);
	CHECK(SSL_set1_groups_list(atls.ssl, "P-384:P-256") == 1);
	admin.tls = &atls;
	th_queue(&h, &admin, 0, 0xffff);
	CHECK_EQ(stats().tls_done, 1);
	CHECK_EQ(atls.retries, 1);
	end();
}

static uint16_t
connect_as(struct th_q *q, uint16_t qid, uint16_t cntlid, const char *host, const char *sub)
{
	struct weft_nvmf_connect c = {.cntlid = cntlid};
	struct weft_nvmf_sqe sqe =
	        nv_sqe(WEFT_NVMF_OP_FABRICS, 0, (uint32_t)qid << 16, TH_CMDS - 1, 0);
	uint8_t data[WEFT_NVMF_CONNECT_BYTES];

	strcpy(c.hostnqn, host);
	strcpy(c.subnqn, sub);
	sqe.fctype = WEFT_NVMF_FC_CONNECT;
	nv_connect_encode(&c, data);
	return th_wait(q, th_send(q, &sqe, data, sizeof(data), true));
}

/** The key proves a host and a subsystem, and no others. */
static void
test_names(void)
{
	static const uint32_t at_host = 0x10200, at_sub = 0x10100;

	start(WEFT_NVMF_TCP_TLS_ALLOWED, BOTH, KEY32, NULL);
	tls_client_open_key(&atls, KEY32, WEFT_NVMF_PSK_RFC8446, 0, NV_HOST, NV_SUBSYS);
	admin.tls = &atls;
	th_open(&h, &admin);
	th_init(&admin);
	CHECK_EQ(connect_as(&admin, 0, 0xffff, NV_HOST "x", NV_SUBSYS),
	         NEVER(WEFT_NVMF_CONNECT_PARAM));
	CHECK_EQ(admin.result, at_host);
	CHECK_EQ(connect_as(&admin, 0, 0xffff, NV_HOST, WEFT_NVMF_DISCOVERY_NQN),
	         NEVER(WEFT_NVMF_CONNECT_PARAM));
	CHECK_EQ(admin.result, at_sub);
	CHECK_EQ(connect_as(&admin, 0, 0xffff, NV_HOST, NV_SUBSYS), 0);
	admin.cntlid = (uint16_t)admin.result;
	th_enable(&admin);
	/* a queue without TLS for that controller */
	th_open(&h, &io);
	th_init(&io);
	CHECK_EQ(connect_as(&io, 1, admin.cntlid, NV_HOST, NV_SUBSYS),
	         NEVER(WEFT_NVMF_CONNECT_HOST));
	close_q(&io);
	/* the discovery subsystem, by the key for another one */
	for (unsigned int v = 0; v < 2; v++) {
		tls_client_open_key(&itls, KEY32, WEFT_NVMF_PSK_COMPAT, v, NV_HOST,
		                    WEFT_NVMF_DISCOVERY_NQN);
		io.tls = &itls;
		th_open(&h, &io);
		th_init(&io);
		CHECK_EQ(connect_as(&io, 0, 0xffff, NV_HOST, WEFT_NVMF_DISCOVERY_NQN), 0);
		close_q(&io);
	}
	/* without TLS: allowed, unless the subsystem is for proven names alone */
	th_open(&h, &io);
	th_init(&io);
	weft_nvmf_proven_only(h.n.subsys, true);
	CHECK_EQ(connect_as(&io, 0, 0xffff, NV_HOST, NV_SUBSYS), NEVER(WEFT_NVMF_CONNECT_HOST));
	weft_nvmf_proven_only(h.n.subsys, false);
	CHECK_EQ(connect_as(&io, 0, 0xffff, NV_HOST, NV_SUBSYS), 0);
	/* it is again: what is there without TLS ends */
	weft_nvmf_proven_only(h.n.subsys, true);
	until_end(&io, S_NS);
	CHECK(io.p.ended && !admin.p.ended);
	CHECK_EQ(th_do(&admin, nv_sqe(WEFT_NVMF_ADMIN_KEEP_ALIVE, 0, 0, 0, 0), NULL, 0), 0);
	end();
}

/** Hosts that begin otherwise than the target wants. */
static void
test_modes(void)
{
	uint8_t head[NVMF_TCP_IC_BYTES] = {NVMF_TCP_ICREQ, 0, 128, 0, 128};

	start(WEFT_NVMF_TCP_TLS_REQUIRED, BOTH, KEY32, NULL);
	th_open(&h, &io);
	vt_tcp_send(&io.p, head, sizeof(head));
	until_end(&io, S_NS);
	CHECK(io.p.ended);
	CHECK(strstr(h.why, "it begins without TLS, which is required") != NULL);
	CHECK_EQ(h.refusals, 1);
	CHECK_EQ(stats().tls_missing, 1);
	CHECK_EQ(stats().pdus_out, 0);
	end();
	start(WEFT_NVMF_TCP_TLS_OFF, BOTH, KEY32, NULL);
	tls_client_open_key(&atls, KEY32, WEFT_NVMF_PSK_RFC8446, 0, NV_HOST, NV_SUBSYS);
	admin.tls = &atls;
	th_open(&h, &admin);
	until_end(&admin, S_NS);
	CHECK(admin.p.ended);
	CHECK(strstr(h.why, "it begins with TLS, which is off") != NULL);
	CHECK_EQ(h.refusals, 1);
	CHECK_EQ(stats().tls_unwanted, 1);
	end();
	/* both at once */
	start(WEFT_NVMF_TCP_TLS_ALLOWED, BOTH, KEY32, NULL);
	both_queues(KEY32, WEFT_NVMF_PSK_RFC8446, 0);
	close_q(&io);
	close_q(&admin);
	th_queue(&h, &admin, 0, 0xffff);
	CHECK_EQ(h.refusals, 0);
	end();
}

/** A whole session in segments of n octets. */
static void
test_cuts(void)
{
	for (uint32_t n = 1; n <= 100; n += n < 8 ? 1 : 46) {
		start(WEFT_NVMF_TCP_TLS_REQUIRED, BOTH, KEY48, NULL);
		admin.p.piece_bytes = io.p.piece_bytes = n;
		both_queues(KEY48, WEFT_NVMF_PSK_RFC8446, 1);
		CHECK_EQ(th_do(&io, th_rw(WEFT_NVMF_IO_WRITE, n, 8192), out + n, 8192), 0);
		CHECK_EQ(th_do(&io, th_rw(WEFT_NVMF_IO_READ, n, 8192), in, 8192), 0);
		CHECK_MEM(in, out + n, 8192);
		end();
	}
}

/** Octets that are no TLS, behind the first one. */
static void
test_garbage(void)
{
	uint64_t seed = test_seed(13);

	start(WEFT_NVMF_TCP_TLS_REQUIRED, BOTH, KEY32, NULL);
	for (unsigned int i = 0; i < 200; i++) {
		uint8_t junk[256];

		for (size_t k = 0; k < sizeof(junk); k++)
			junk[k] = (uint8_t)test_xorshift(&seed);
		junk[0] = 22;
		junk[1] = i % 2 ? 3 : junk[1];
		th_open(&h, &io);
		vt_tcp_send(&io.p, junk, 5 + test_xorshift(&seed) % 250);
		until_end(&io, 8 * S_NS);
		CHECK(io.p.ended);
		close_q(&io);
	}
	CHECK_EQ(stats().tls_done, 0);
	CHECK_EQ(stats().tls_handshakes, 0);
	both_queues(KEY32, WEFT_NVMF_PSK_RFC8446, 1);
	end();
}

/** Send a ClientHello. Whether an alert was the answer, and not the target's own flight. */
static bool
hello_alerts(const uint8_t *hello, size_t n)
{
	const struct weft_nvmf_tcp_stats was = stats();
	bool flight;

	th_open(&h, &io);
	vt_tcp_send(&io.p, hello, n);
	until_end(&io, S_NS);
	flight = io.p.in_bytes > 0 && io.p.in[0] == 22;
	CHECK_MSG(stats().tls_alerts_out - was.tls_alerts_out == !flight && io.p.ended == !flight,
	          "%s", h.why);
	CHECK_EQ(stats().tls_expired, was.tls_expired);
	CHECK_EQ(stats().tls_failed - was.tls_failed, !flight);
	close_q(&io);
	while (stats().conns > 0)
		th_step(&h);
	return !flight;
}

/** A ClientHello with each octet changed, which its binder covers; unchanged, it is answered. */
static void
test_changed(void)
{
	uint8_t hello[1024], *p;
	size_t n;

	start(WEFT_NVMF_TCP_TLS_REQUIRED, BOTH, KEY32, NULL);
	tls_client_open_key(&atls, KEY32, WEFT_NVMF_PSK_RFC8446, 1, NV_HOST, NV_SUBSYS);
	tls_client_step(&atls);
	n = tls_client_out(&atls, &p);
	CHECK(n < sizeof(hello));
	memcpy(hello, p, n);
	tls_client_close(&atls);
	CHECK(!hello_alerts(hello, n));
	/* not its heads: of the record, and of the message, whose length would ask for more */
	for (size_t at = 9; at < n; at++) {
		hello[at] ^= 1;
		CHECK_MSG(hello_alerts(hello, n), "octet %zu of %zu", at, n);
		hello[at] ^= 1;
	}
	CHECK(!hello_alerts(hello, n));
	CHECK_EQ(stats().tls_done, 0);
	CHECK_EQ(stats().tls_handshakes, 0);
	both_queues(KEY32, WEFT_NVMF_PSK_RFC8446, 1);
	end();
}

/** A record that is damaged, of a session; the others go on. */
static void
test_damaged(void)
{
	struct weft_nvmf_sqe sqe = nv_sqe(WEFT_NVMF_ADMIN_KEEP_ALIVE, 0, 0, 0, 0);
	uint8_t *p;
	size_t n;

	start(WEFT_NVMF_TCP_TLS_REQUIRED, BOTH, KEY32, NULL);
	both_queues(KEY32, WEFT_NVMF_PSK_RFC8446, 0);
	tls_client_tx(&itls, out, 100);
	n = tls_client_out(&itls, &p);
	p[n - 1] ^= 1;
	vt_tcp_send(&io.p, p, n);
	until_end(&io, 5 * S_NS);
	CHECK(io.p.ended);
	CHECK_EQ(itls.failed, SSL_AD_BAD_RECORD_MAC);
	CHECK_EQ(stats().tls_faults, 1);
	CHECK_EQ(h.refusals, 1);
	CHECK_EQ(th_do(&admin, sqe, NULL, 0), 0);
	end();
}

/** KeyUpdates of both sides, and too many of them. */
static void
test_updates(void)
{
	h.attr.key_bytes = 100000;
	start(WEFT_NVMF_TCP_TLS_REQUIRED, BOTH, KEY32, NULL);
	both_queues(KEY32, WEFT_NVMF_PSK_RFC8446, 0);
	for (unsigned int i = 0; i < 10; i++) {
		CHECK(SSL_key_update(itls.ssl, i % 2 ? SSL_KEY_UPDATE_REQUESTED
		                                     : SSL_KEY_UPDATE_NOT_REQUESTED) == 1);
		lengths();
	}
	for (unsigned int i = 0; i < 2 * NVMF_TLS_UPDATES_MAX; i++) {
		CHECK(SSL_key_update(itls.ssl, SSL_KEY_UPDATE_NOT_REQUESTED) == 1);
		CHECK_EQ(th_do(&io, th_rw(WEFT_NVMF_IO_READ, 0, 512), in, 512), 0);
	}
	CHECK_EQ(stats().tls_updates_in, 10 + 2 * NVMF_TLS_UPDATES_MAX);
	/* its own, and answers */
	CHECK(itls.updates >= 10 * 1000448 / 131072);
	CHECK_EQ(stats().tls_updates_out, itls.updates + atls.updates);
	CHECK_EQ(stats().tls_faults, 0);
	for (unsigned int i = 0; i < 100 && !io.p.ended; i++) {
		CHECK(SSL_key_update(itls.ssl, SSL_KEY_UPDATE_REQUESTED) == 1);
		CHECK(SSL_do_handshake(itls.ssl) == 1);
		th_pump(&io);
		th_step(&h);
	}
	until_end(&io, 5 * S_NS);
	CHECK(io.p.ended);
	CHECK(strstr(h.why, "too many KeyUpdates") != NULL);
	CHECK(stats().tls_updates_in <= 10 + 3 * NVMF_TLS_UPDATES_MAX + 1);
	CHECK_EQ(stats().tls_faults, 1);
	h.attr.key_bytes = 0;
	end();
}

/** More handshakes than there are places; hosts that stop in theirs; and that send too much. */
static void
test_places(void)
{
	static struct th_q q[5];
	static uint8_t hello[NVMF_TLS_HELLO_BYTES + 100];
	const uint8_t first[] = {22, 3, 1, 0x20};
	uint64_t from, took;

	h.attr.max_handshakes = 4;
	h.attr.handshake_ns = 2 * S_NS;
	start(WEFT_NVMF_TCP_TLS_REQUIRED, BOTH, KEY32, NULL);
	memset(q, 0, sizeof(q));
	for (unsigned int i = 0; i < 5; i++) {
		th_open(&h, &q[i]);
		vt_tcp_send(&q[i].p, first, sizeof(first));
		th_step(&h);
		th_step(&h);
	}
	from = sim_now_ns(h.t.sim);
	CHECK_EQ(stats().tls_handshakes, 4);
	CHECK_EQ(stats().tls_busy, 1);
	until_end(&q[4], S_NS);
	CHECK(q[4].p.ended);
	CHECK(strstr(h.why, "too many TLS handshakes") != NULL);
	/* one octet after the other is no progress */
	while (!q[0].p.ended) {
		vt_tcp_send(&q[0].p, "\0", 1);
		until_end(&q[0], S_NS / 10);
	}
	took = sim_now_ns(h.t.sim) - from;
	CHECK_MSG(took >= 19 * S_NS / 10 && took < 3 * S_NS, "%llu ns: %s",
	          (unsigned long long)took, h.why);
	until_end(&q[3], S_NS);
	CHECK_EQ(stats().tls_expired, 4);
	CHECK_EQ(stats().tls_failed, 4);
	CHECK_EQ(stats().tls_handshakes, 0);
	CHECK(strstr(h.why, "took too long") != NULL);
	for (unsigned int i = 0; i < 5; i++)
		close_q(&q[i]);
	/* a ClientHello that goes on and on */
	memcpy(hello, "\26\3\1\x40\0\1\0\xff\xff", 9);
	memcpy(hello + 5 + 0x4000, "\26\3\1\x40\0", 5);
	th_open(&h, &io);
	vt_tcp_send(&io.p, hello, sizeof(hello));
	until_end(&io, S_NS);
	CHECK(strstr(h.why, "its handshake is too long") != NULL);
	close_q(&io);
	/* one that says that it will, by its head alone, and by a head in two records */
	th_open(&h, &io);
	vt_tcp_send(&io.p, "\26\3\1\x40\0\1\0\x40\1", 9);
	until_end(&io, S_NS);
	CHECK(io.p.ended);
	CHECK(strstr(h.why, "its handshake is too long") != NULL);
	close_q(&io);
	th_open(&h, &io);
	vt_tcp_send(&io.p, "\26\3\1\0\2\1\0\26\3\1\0\2\x40\1", 14);
	until_end(&io, S_NS);
	CHECK(io.p.ended);
	CHECK(strstr(h.why, "its handshake is too long") != NULL);
	CHECK_EQ(stats().tls_expired, 4);
	close_q(&io);
	/* one that goes gives its place back */
	for (unsigned int i = 0; i < 10; i++) {
		th_open(&h, &io);
		vt_tcp_send(&io.p, first, sizeof(first));
		th_step(&h);
		th_step(&h);
		close_q(&io);
		th_step(&h);
		th_step(&h);
	}
	CHECK_EQ(stats().tls_handshakes, 0);
	both_queues(KEY32, WEFT_NVMF_PSK_RFC8446, 0);
	h.attr.max_handshakes = 0;
	h.attr.handshake_ns = 0;
	end();
}

/** One address has all places for handshakes: others come in, and its oldest ones give way. */
static void
test_crowd(void)
{
	static struct th_q q[4];

	h.attr.max_handshakes = 4;
	start(WEFT_NVMF_TCP_TLS_REQUIRED, BOTH, KEY32, NULL);
	memset(q, 0, sizeof(q));
	h.from = 0x0a000063;
	for (unsigned int i = 0; i < 4; i++) {
		th_open(&h, &q[i]);
		vt_tcp_send(&q[i].p, "\26", 1);
		th_step(&h);
		th_step(&h);
	}
	CHECK_EQ(stats().tls_handshakes, 4);
	h.from = 0;
	both_queues(KEY32, WEFT_NVMF_PSK_RFC8446, 0);
	CHECK_EQ(stats().tls_done, 2);
	CHECK_EQ(stats().tls_busy, 1);
	until_end(&q[0], S_NS);
	CHECK(q[0].p.ended && !q[1].p.ended && !q[2].p.ended && !q[3].p.ended);
	CHECK(strstr(h.why, "too many TLS handshakes are under way, and most are of its address"));
	CHECK_EQ(stats().tls_handshakes, 3);
	for (unsigned int i = 0; i < 4; i++)
		close_q(&q[i]);
	h.attr.max_handshakes = 0;
	end();
}

/** A record that stops, and answers that are not taken. */
static void
test_stalls(void)
{
	const struct sim_link_cfg mute = {.delay_ns = 10000, .ack_loss_ppm = 1000000};
	struct weft_nvmf_sqe sqe;
	uint8_t *p;
	size_t n;

	h.attr.stall_ns = 2 * S_NS;
	start(WEFT_NVMF_TCP_TLS_REQUIRED, BOTH, KEY32, NULL);
	both_queues(KEY32, WEFT_NVMF_PSK_RFC8446, 0);
	until_end(&io, 10 * S_NS);
	CHECK(!io.p.ended);
	tls_client_tx(&itls, out, 100);
	n = tls_client_out(&itls, &p);
	vt_tcp_send(&io.p, p, n - 1);
	until_end(&io, 4 * S_NS);
	CHECK(io.p.ended);
	CHECK_EQ(stats().stalls, 1);
	close_q(&io);
	io.hdgst = io.ddgst = true;
	tls_client_open_key(&itls, KEY32, WEFT_NVMF_PSK_RFC8446, 0, NV_HOST, NV_SUBSYS);
	io.tls = &itls;
	th_queue(&h, &io, 2, admin.cntlid);
	for (unsigned int i = 0; i < 8; i++) {
		sqe = th_rw(WEFT_NVMF_IO_READ, 0, 1000448);
		(void)th_send(&io, &sqe, in, 1000448, false);
	}
	th_step(&h);
	sim_link_set(h.t.link, 0, &mute);
	until_end(&io, 4 * S_NS);
	CHECK_EQ(stats().stalls, 2);
	sim_link_set(h.t.link, 0, &quiet);
	h.attr.stall_ns = 0;
	end();
}

/** Segments that end inside a record, one after the other: the host does not stop. One that sends
 * the head of a record alone does. */
static void
test_mid_record(void)
{
	struct weft_nvmf_sqe sqe;
	uint16_t cid[8];
	uint8_t *p;

	h.attr.stall_ns = 2 * S_NS;
	start(WEFT_NVMF_TCP_TLS_REQUIRED, BOTH, KEY32, NULL);
	admin.hdgst = admin.ddgst = io.hdgst = io.ddgst = false;
	both_queues(KEY32, WEFT_NVMF_PSK_RFC8446, 0);
	io.cut = true;
	for (unsigned int i = 0; i < 8; i++) {
		sqe = th_rw(WEFT_NVMF_IO_READ, 0, 512);
		cid[i] = th_send(&io, &sqe, in, 512, false);
		until_end(&io, S_NS);
		CHECK_MSG(!io.p.ended, "record %u", i);
		if (i > 0)
			CHECK_EQ(th_wait(&io, cid[i - 1]), 0);
	}
	CHECK_EQ(stats().stalls, 0);
	until_end(&io, 4 * S_NS);
	CHECK(io.p.ended);
	CHECK_EQ(stats().stalls, 1);
	close_q(&io);
	tls_client_open_key(&itls, KEY32, WEFT_NVMF_PSK_RFC8446, 0, NV_HOST, NV_SUBSYS);
	io.tls = &itls;
	th_queue(&h, &io, 2, admin.cntlid);
	tls_client_tx(&itls, out, 100);
	(void)tls_client_out(&itls, &p);
	vt_tcp_send(&io.p, p, 5);
	until_end(&io, 4 * S_NS);
	CHECK(io.p.ended);
	CHECK_EQ(stats().stalls, 2);
	h.attr.stall_ns = 0;
	end();
}

/** A host's reads do not have the whole of a worker's turn, whatever TCP has room for: the rest is
 * encrypted in later polls. */
static void
test_share(void)
{
	struct weft_nvmf_sqe sqe = th_rw(WEFT_NVMF_IO_READ, 0, 262144);
	uint16_t cid;

	start(WEFT_NVMF_TCP_TLS_REQUIRED, BOTH, KEY32, NULL);
	both_queues(KEY32, WEFT_NVMF_PSK_RFC8446, 0);
	CHECK_EQ(th_do(&io, th_rw(WEFT_NVMF_IO_WRITE, 0, 262144), out, 262144), 0);
	/* the congestion window grows */
	for (unsigned int i = 0; i < 8; i++)
		CHECK_EQ(th_do(&io, th_rw(WEFT_NVMF_IO_READ, 0, 262144), in, 262144), 0);
	memset(in, 0, 262144);
	h.frozen = true;
	cid = th_send(&io, &sqe, in, 262144, false);
	for (unsigned int i = 0; i < 200; i++)
		th_step(&h);
	th_pump(&io);
	CHECK_MSG(itls.text_bytes > 0 && itls.text_bytes <= 65536 + 16384, "%zu octets",
	          itls.text_bytes);
	h.frozen = false;
	CHECK_EQ(th_wait(&io, cid), 0);
	CHECK_MEM(in, out, 262144);
	end();
}

/** Ends: of the host by close_notify, of the target, and of a key. */
static void
test_ends(void)
{
	start(WEFT_NVMF_TCP_TLS_REQUIRED, BOTH, KEY32, KEY48);
	both_queues(KEY32, WEFT_NVMF_PSK_RFC8446, 0);
	CHECK(SSL_shutdown(itls.ssl) == 0);
	th_pump(&io);
	until_end(&io, S_NS);
	CHECK(io.p.ended && itls.closed);
	CHECK_EQ(io.p.status, 0);
	close_q(&io);
	/* the other key goes: nothing ends */
	CHECK_EQ(set_keys(KEY32, NULL), 0);
	until_end(&admin, S_NS);
	CHECK(!admin.p.ended);
	CHECK_EQ(set_keys(KEY48, KEY32), 0);
	until_end(&admin, S_NS);
	CHECK(!admin.p.ended);
	CHECK_EQ(set_keys(KEY48, NULL), 0);
	until_end(&admin, S_NS);
	CHECK(admin.p.ended);
	CHECK_EQ(stats().tls_gone, 1);
	CHECK(strstr(h.why, "its key of TLS is gone") != NULL);
	close_q(&admin);
	admin.hdgst = io.hdgst = false;
	both_queues(KEY48, WEFT_NVMF_PSK_COMPAT, 1);
	CHECK_EQ(weft_nvmf_host_drop(h.n.target, NV_HOST, 0), 1);
	until_end(&io, 5 * S_NS);
	CHECK(io.p.ended && itls.closed);
	CHECK_EQ(stats().aborted, 0);
	end();
}

/** A key goes while a handshake is at its last message. */
static void
test_gone_meanwhile(void)
{
	start(WEFT_NVMF_TCP_TLS_REQUIRED, BOTH, KEY32, NULL);
	tls_client_open_key(&atls, KEY32, WEFT_NVMF_PSK_RFC8446, 0, NV_HOST, NV_SUBSYS);
	admin.tls = &atls;
	th_open(&h, &admin);
	th_pump(&admin);
	for (unsigned int i = 0; i < 100; i++)
		th_step(&h);
	CHECK(admin.p.in_bytes > 0 && stats().tls_handshakes == 1);
	CHECK_EQ(set_keys(KEY48, NULL), 0);
	th_step(&h);
	CHECK(!admin.p.ended);
	th_pump(&admin);
	CHECK(atls.done);
	until_end(&admin, S_NS);
	CHECK(admin.p.ended);
	CHECK_EQ(stats().tls_gone, 1);
	CHECK_EQ(stats().tls_failed, 1);
	CHECK_EQ(stats().tls_done + stats().tls_handshakes, 0);
	CHECK(strstr(h.why, "its key of TLS is gone") != NULL);
	end();
}

/** A host with keys for many subsystems at the discovery subsystem: equal keys are tried once, and
 * of others not more than there are tries. */
static void
test_many_keys(void)
{
	struct weft_nvmf_tls_key k = {.hostnqn = NV_HOST};
	char sub[WEFT_NVMF_NQN_BYTES];
	const char *why;

	start(WEFT_NVMF_TCP_TLS_REQUIRED, BOTH, KEY32, NULL);
	for (unsigned int v = 0; v < 2; v++)
		for (unsigned int same = 0; same < 2; same++) {
			CHECK_EQ(weft_nvmf_psk_parse(KEY_OTHER, &k.psk, &why), 0);
			for (unsigned int i = 0; i < NVMF_TLS_TRIES_MAX; i++) {
				k.psk.key[0] = same ? 0 : (uint8_t)(0x80 + i);
				(void)snprintf(sub, sizeof(sub), "%s%u", NV_SUBSYS, i);
				CHECK_EQ(weft_nvmf_tls_set(keys, sub, &k, 1), 0);
			}
			tls_client_open_key(&atls, KEY32, WEFT_NVMF_PSK_COMPAT, v, NV_HOST,
			                    WEFT_NVMF_DISCOVERY_NQN);
			admin.tls = &atls;
			if (!same) {
				refused(&admin, "than the first 16 that it could have", 51);
				continue;
			}
			th_open(&h, &admin);
			th_init(&admin);
			close_q(&admin);
		}
	/* for its own subsystem it has one */
	both_queues(KEY32, WEFT_NVMF_PSK_RFC8446, 0);
	end();
}

/** What the store refuses. */
static void
test_store(void)
{
	struct weft_nvmf_tls_key k[6] = {0};
	const char *why;

	CHECK_EQ(weft_nvmf_tls_create(BOTH, &keys), 0);
	for (unsigned int i = 0; i < 6; i++) {
		strcpy(k[i].hostnqn, NV_HOST);
		CHECK_EQ(weft_nvmf_psk_parse(KEY32, &k[i].psk, &why), 0);
		k[i].psk.key[0] = (uint8_t)i;
	}
	CHECK_EQ(weft_nvmf_tls_set(keys, NV_SUBSYS, k, 4), 0);
	CHECK_EQ(weft_nvmf_tls_set(keys, NV_SUBSYS, k, 5), -E2BIG);
	k[1].psk.key[0] = 0;
	CHECK_EQ(weft_nvmf_tls_set(keys, NV_SUBSYS, k, 2), -EEXIST);
	strcpy(k[1].hostnqn, "alice");
	CHECK_EQ(weft_nvmf_tls_set(keys, NV_SUBSYS, k, 2), -EINVAL);
	CHECK_EQ(weft_nvmf_tls_set(keys, "alice", k, 1), -EINVAL);
	weft_nvmf_tls_destroy(keys);
	weft_nvmf_tls_destroy(NULL);
}

WEFT_TEST_MAIN({"keys, derivations, identities, and data", test_keys},
               {"a derivation that is not admitted is named", test_derivations},
               {"hosts without a right key are told why", test_refused},
               {"suites, and a HelloRetryRequest", test_suites},
               {"a key proves a host and a subsystem", test_names},
               {"with TLS, without it, and either", test_modes},
               {"segments of every length", test_cuts},
               {"octets that are no TLS end their connection", test_garbage},
               {"a ClientHello that was changed", test_changed}, {"a damaged record", test_damaged},
               {"the last record comes whole", test_last_record}, {"KeyUpdates", test_updates},
               {"places and time of handshakes", test_places},
               {"one address does not have all places", test_crowd},
               {"hosts that stop are reset", test_stalls},
               {"segments that end inside a record", test_mid_record},
               {"a host's share of a turn", test_share},
               {"ends of sessions and of keys", test_ends},
               {"a key goes in the middle of a handshake", test_gone_meanwhile},
               {"keys that are tried", test_many_keys},
               {"what the store of keys refuses", test_store})
