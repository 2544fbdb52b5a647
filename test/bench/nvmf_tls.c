/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Prints what TLS costs a target, in CPU time of one core: sessions alone, without a network,
 * and whole transfers of a host and a target in this process, over their own TCP on a simulated
 * link, by TLS and without. The host's work is in the transfers, so a target's share of them is
 * less than the ratio says.
 *
 *     bench_nvmf_tls [MIB [ROUNDS]]
 */

#include <malloc.h>
#include <stdlib.h>
#include <time.h>

#include "nvmf_tls.h"
#include "tcp_host.h"

#define KEY   "NVMeTLSkey-1:01:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:"
#define OTHER "NVMeTLSkey-1:01:BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwfLJNij:"
#define MIB   (1U << 20)
#define SHAKE 200U /**< handshakes */
#define IDLE  100U /**< sessions at once */

static struct weft_nvmf_tls *keys;
static uint8_t wire[4 * MIB], data[MIB];

static double
cpu_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* ---- Sessions ---- */

/** What a session sends. */
struct sink {
	size_t bytes;
	uint64_t text_bytes;
	bool keep; /**< it is for the client */
};

static ssize_t
sink_send(void *user, const void *p, size_t bytes)
{
	struct sink *s = user;

	/* TCP copies what it takes */
	if (s->bytes + bytes > sizeof(wire))
		s->bytes = 0;
	memcpy(wire + s->bytes, p, bytes);
	s->bytes += bytes;
	return (ssize_t)bytes;
}

static void
sink_ready(void *user)
{
	(void)user;
}

static void
sink_text(void *user, const uint8_t *p, size_t bytes)
{
	struct sink *s = user;

	(void)p;
	s->text_bytes += bytes;
}

static bool
sink_deaf(void *user)
{
	(void)user;
	return false;
}

static const struct nvmf_tls_ops sink_ops = {
        .send = sink_send, .ready = sink_ready, .text = sink_text, .deaf = sink_deaf};

/** Make a handshake. Returns the target's time. */
static double
shake(struct nvmf_tls_ctx *ctx, struct tls_client *c, struct sink *s, struct nvmf_tls **out,
      const char *key)
{
	double spent = 0, from;
	uint8_t *p;
	size_t n;
	int rc = 0;

	memset(s, 0, sizeof(*s));
	tls_client_open_key(c, key, WEFT_NVMF_PSK_RFC8446, 0, NV_HOST, NV_SUBSYS);
	from = cpu_s();
	CHECK_EQ(nvmf_tls_open(ctx, &sink_ops, s, out), 0);
	spent += cpu_s() - from;
	tls_client_step(c);
	for (unsigned int i = 0; i < 3 && rc == 0; i++) {
		n = tls_client_out(c, &p);
		s->bytes = 0;
		from = cpu_s();
		rc = nvmf_tls_rx(*out, p, n);
		spent += cpu_s() - from;
		tls_client_rx(c, wire, s->bytes);
	}
	CHECK(c->done == (rc == 0));
	return spent;
}

static void
handshakes(struct nvmf_tls_ctx *ctx, const char *key, const char *what)
{
	double spent = 0;

	for (unsigned int i = 0; i < SHAKE; i++) {
		struct tls_client c;
		struct nvmf_tls *s;
		struct sink k;

		spent += shake(ctx, &c, &k, &s, key);
		nvmf_tls_close(s);
		tls_client_close(&c);
	}
	printf("%s: %.0f us\n", what, spent / SHAKE * 1e6);
}

/** Memory of a session, when nothing is under way. */
static void
memory(struct nvmf_tls_ctx *ctx)
{
	static struct nvmf_tls *s[IDLE];
	static struct sink k;
	const size_t before = mallinfo2().uordblks;

	for (unsigned int i = 0; i < IDLE; i++) {
		struct tls_client c;

		(void)shake(ctx, &c, &k, &s[i], KEY);
		tls_client_close(&c);
	}
	printf("an idle session: %zu KiB\n", (mallinfo2().uordblks - before) / IDLE / 1024);
	for (unsigned int i = 0; i < IDLE; i++)
		nvmf_tls_close(s[i]);
}

/** Data of a session, both ways; it sends in pieces of 64 KiB, as much as a call takes. */
static void
session(struct nvmf_tls_ctx *ctx, unsigned int mib)
{
	const struct iovec v = {.iov_base = data, .iov_len = NVMF_TLS_TURN_BYTES};
	struct tls_client c;
	struct nvmf_tls *s;
	double from, in = 0;
	struct sink k;
	uint8_t *p;
	size_t n;

	(void)shake(ctx, &c, &k, &s, KEY);
	from = cpu_s();
	for (unsigned int i = 0; i < 16 * mib; i++)
		CHECK_EQ(nvmf_tls_write(s, &v, 1), NVMF_TLS_TURN_BYTES);
	printf("a session sends %.0f MB/s", mib * 1.048576 / (cpu_s() - from));
	for (unsigned int i = 0; i < mib; i++) {
		tls_client_tx(&c, data, sizeof(data));
		n = tls_client_out(&c, &p);
		from = cpu_s();
		CHECK_EQ(nvmf_tls_rx(s, p, n), 0);
		in += cpu_s() - from;
	}
	printf(", takes %.0f MB/s\n", mib * 1.048576 / in);
	CHECK_EQ(k.text_bytes, (uint64_t)mib * MIB);
	nvmf_tls_close(s);
	tls_client_close(&c);
}

/* ---- Transfers ---- */

/** Writes or Reads of 128 KiB, 16 at once. Returns the time of both sides. */
static double
transfer(struct th_q *q, uint8_t opcode, unsigned int mib)
{
	const double from = cpu_s();
	uint16_t cid[16];

	for (unsigned int i = 0; i < 8 * mib; i++) {
		struct weft_nvmf_sqe sqe = th_rw(opcode, i % 32 * 256, 131072);

		if (i >= 16)
			CHECK_EQ(th_wait(q, cid[i % 16]), 0);
		cid[i % 16] = th_send(q, &sqe, data, 131072, false);
	}
	for (unsigned int i = 0; i < 16; i++)
		CHECK_EQ(th_wait(q, cid[i]), 0);
	return cpu_s() - from;
}

/** Both ways; the times are added to spent. */
static void
transfers(bool tls, unsigned int mib, double spent[2])
{
	static const struct sim_link_cfg link = {.delay_ns = 10000};
	static struct tls_client client[2];
	static struct th_q admin, io;
	static struct th h;

	memset(&admin, 0, sizeof(admin));
	memset(&io, 0, sizeof(io));
	h.attr.tls = WEFT_NVMF_TCP_TLS_ALLOWED;
	h.attr.keys = keys;
	th_start(&h, &link);
	for (unsigned int i = 0; tls && i < 2; i++)
		tls_client_open_key(&client[i], KEY, WEFT_NVMF_PSK_RFC8446, 0, NV_HOST, NV_SUBSYS);
	admin.tls = tls ? &client[0] : NULL;
	io.tls = tls ? &client[1] : NULL;
	th_queue(&h, &admin, 0, 0xffff);
	th_enable(&admin);
	th_queue(&h, &io, 1, admin.cntlid);
	spent[0] += transfer(&io, WEFT_NVMF_IO_WRITE, mib);
	spent[1] += transfer(&io, WEFT_NVMF_IO_READ, mib);
	th_close(&io);
	th_close(&admin);
	for (unsigned int i = 0; tls && i < 2; i++)
		tls_client_close(&client[i]);
	th_end(&h);
}

static unsigned int mib = 256, rounds = 3;

static void
costs(void)
{
	static const char *const names[] = {"writes", "reads"};
	struct weft_nvmf_tls_key k = {.hostnqn = NV_HOST};
	double spent[2][2] = {{0}};
	struct nvmf_tls_ctx *ctx;
	const char *why;

	CHECK_EQ(weft_nvmf_tls_create(3, &keys), 0);
	CHECK_EQ(weft_nvmf_psk_parse(KEY, &k.psk, &why), 0);
	CHECK_EQ(weft_nvmf_tls_set(keys, NV_SUBSYS, &k, 1), 0);
	CHECK_EQ(nvmf_tls_ctx_open(keys, UINT64_MAX, &ctx), 0);
	handshakes(ctx, KEY, "a handshake");
	handshakes(ctx, OTHER, "a handshake with a wrong key");
	memory(ctx);
	session(ctx, mib);
	nvmf_tls_ctx_close(ctx);
	for (unsigned int i = 0; i < rounds; i++)
		for (unsigned int tls = 0; tls < 2; tls++)
			transfers(tls != 0, mib / rounds, spent[tls]);
	for (unsigned int i = 0; i < 2; i++) {
		const double mb = (double)(mib / rounds) * rounds * 1.048576;

		printf("%s, host and target: plain %.0f, TLS %.0f MB for a second of CPU, ratio "
		       "%.2f\n",
		       names[i], mb / spent[0][i], mb / spent[1][i], spent[0][i] / spent[1][i]);
	}
	weft_nvmf_tls_destroy(keys);
}

int
main(int argc, char **argv)
{
	static const struct weft_test_case cases[] = {{"costs", costs}};

	if (argc > 1)
		mib = (unsigned int)strtoul(argv[1], NULL, 10);
	if (argc > 2)
		rounds = (unsigned int)strtoul(argv[2], NULL, 10);
	return test_main(1, argv, cases, 1);
}
