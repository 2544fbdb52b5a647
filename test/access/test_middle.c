/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file An attacker between two RPC endpoints that require authentication of each other. The
 * attacker drops, duplicates, damages, truncates and inserts messages and refuses versions, or is
 * the host that the client called and forwards all messages. The client sends no call before it
 * knows the target. The target serves no call before it knows the client. No call is served if the
 * client called another host.
 */

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#include "by_hand.h"
#include "host_auth.h"
#include "weft_test.h"

#define ROUNDS 60

static struct rig rig;
static struct host_auth client, target;
static struct host_auth_keys alice;
static struct rig_answer ans;
static uint64_t rnd;

static const struct host_auth_keys *
find(void *arg, const char *name)
{
	(void)arg;
	return strcmp(name, "alice") == 0 ? &alice : NULL;
}

static int
client_step(void *user, const uint8_t *in, uint32_t n, uint8_t *out, uint32_t *out_bytes)
{
	(void)user;
	return host_auth_step(&client, in, n, out, WEFT_RPC_AUTH_MAX_BYTES, out_bytes);
}

static int
target_step(void *user, const uint8_t *in, uint32_t n, uint8_t *out, uint32_t *out_bytes)
{
	(void)user;
	return host_auth_step(&target, in, n, out, WEFT_RPC_AUTH_MAX_BYTES, out_bytes);
}

static struct host_auth_place
place(const char *host)
{
	struct sockaddr_storage a = {.ss_family = AF_INET};
	struct sockaddr_in *in = (struct sockaddr_in *)&a;
	struct host_auth_place p;

	in->sin_port = htons(7471);
	CHECK_EQ(inet_pton(AF_INET, host, &in->sin_addr), 1);
	CHECK_EQ(host_auth_place(&a, &p), 0);
	return p;
}

/* The address that the client called, and the two endpoints. */
static void
begin(const char *called, bool must)
{
	static const struct weft_rpc_auth c = {client_step, true}, s = {target_step, true},
	                                  o = {target_step, false};
	struct key_file key = {.key = "a key that both of them have....", .bytes = 32};

	CHECK_EQ(host_auth_derive(&key, &alice), 0);
	client = (struct host_auth){.keys = &alice, .place = place(called), .name = "alice"};
	target = (struct host_auth){.server = true, .find = find, .place = place("10.0.0.1")};
	rig_up(&rig, &(struct rig_opts){.client_auth = &c, .server_auth = must ? &s : &o});
	rig.c.qp.on_post = rig.s.qp.on_post = NULL; /* the auditor does not expect an attacker */
	rig.c.qp.on_arrive = rig.s.qp.on_arrive = NULL;
	memset(&ans, 0, sizeof(ans));
	CHECK_EQ(rig_add(&rig.c, 1, 2, &ans), 0);
}

static void
tear_down(void)
{
	fake_break(&rig.c.qp);
	rig_down(&rig);
}

static bool
is_down(const struct rig_side *s)
{
	return s->rpc == NULL || s->rpc->down;
}

static uint32_t
draw(uint32_t n)
{
	rnd = rnd * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(rnd >> 33) % n;
}

/* A message that the attacker makes. */
static uint32_t
made(uint8_t *m, uint32_t xid)
{
	struct rpcrdma_hdr h;

	switch (draw(6)) {
	case 0:
		return rig_raw_error(m, xid, RDMA2_ERR_VERS, 1, 1);
	case 1:
		return rig_raw_error(m, xid, RDMA2_ERR_BAD_PROPVAL, 0, 0);
	case 2:
		hand_header(&h, 2, RDMA2_CONNPROP_FINAL, xid);
		return weft_rpcrdma_encode(m, 4096, &h);
	case 3:
		hand_header(&h, 2, RDMA2_CALL_INLINE, xid);
		return hand_add(m, &h);
	case 4:
		hand_header(&h, 1, RDMA1_MSG, xid);
		return hand_add(m, &h);
	default:
		hand_header(&h, 2, RDMA2_GRANT, 0);
		return weft_rpcrdma_encode(m, 4096, &h);
	}
}

static void
deliver(struct rig_side *to, const uint8_t *m, uint32_t n)
{
	if (!is_down(to))
		fake_inject(&to->qp, m, n);
	/* A served client is authenticated, and a client that called knows its target. */
	CHECK(rig.s.served == 0 || target.state == HOST_AUTH_DONE || !rig.s.rpc->a.auth->required);
	CHECK(rig.c.served == 0);
}

static void
look(const uint8_t *m, uint32_t n)
{
	struct rpcrdma_hdr h;

	if (weft_rpcrdma_decode(m, n, NULL, &h) != RPCRDMA_OK || h.p.vers != RPCRDMA_V2)
		return;
	if (h.p.htype >= RDMA2_CALL_EXTERNAL && h.p.htype <= RDMA2_CALL_INLINE)
		CHECK_MSG(client.state == HOST_AUTH_DONE, "a call before the proof");
}

/* Forward one message. meddle: of eight messages, this number is changed on average. */
static bool
pass(struct rig_side *from, struct rig_side *to, unsigned int meddle)
{
	static uint8_t m[8192], other[8192];
	int n = fake_take(&from->qp, m, sizeof(m));
	uint32_t len = (uint32_t)n, xid;

	if (n < 0)
		return false;
	fake_complete(&from->qp);
	if (from == &rig.c)
		look(m, len);
	xid = len >= 4 ? weft_get_be32(m) : 0;
	if (draw(8) >= meddle) {
		deliver(to, m, len);
		return true;
	}
	switch (draw(6)) {
	case 0: /* dropped */
		break;
	case 1: /* duplicated */
		deliver(to, m, len);
		deliver(to, m, len);
		break;
	case 2: /* damaged, under a CRC that the attacker computed */
		m[draw(len)] ^= (uint8_t)(1 + draw(255));
		deliver(to, m, len);
		break;
	case 3: /* truncated */
		deliver(to, m, draw(len));
		break;
	case 4: /* another message in front of it */
		deliver(to, other, made(other, xid));
		deliver(to, m, len);
		break;
	default: /* another message instead of it, or in the other direction */
		deliver(draw(2) ? to : from, other, made(other, xid));
		break;
	}
	return true;
}

static void
run(unsigned int meddle)
{
	for (unsigned int i = 0; i < ROUNDS; i++)
		if (!pass(&rig.c, &rig.s, meddle) & !pass(&rig.s, &rig.c, meddle))
			break;
}

/* Without changes both sides complete the exchange. */
static void
test_honest(void)
{
	for (unsigned int must = 0; must < 2; must++) {
		begin("10.0.0.1", must);
		run(0);
		CHECK_EQ(client.state, HOST_AUTH_DONE);
		CHECK_EQ(target.state, HOST_AUTH_DONE);
		CHECK_EQ(ans.status, WEFT_RPC_OK);
		CHECK_EQ(ans.sum, 3);
		CHECK_EQ(rig.s.served, 1);
		tear_down();
	}
}

/* The client called another host, which forwards every message. */
static void
test_relay(void)
{
	for (unsigned int must = 0; must < 2; must++) {
		begin("10.0.0.66", must);
		run(0);
		CHECK(target.state != HOST_AUTH_DONE && target.elsewhere);
		CHECK(client.state != HOST_AUTH_DONE);
		CHECK_EQ(rig.s.served, 0);
		CHECK(ans.n == 1 && ans.status != WEFT_RPC_OK);
		tear_down();
	}
}

static unsigned int answered, refused;

static void
meddle(uint64_t seed)
{
	rnd = seed * 0x9e3779b97f4a7c15u + 1;
	begin(seed % 5 == 0 ? "10.0.0.66" : "10.0.0.1", seed % 3 != 0);
	run(1 + (unsigned int)seed % 3);
	if (seed % 5 == 0)
		CHECK(client.state != HOST_AUTH_DONE && target.state != HOST_AUTH_DONE);
	/* An endpoint takes the peer for authenticated only if its exchange is complete. */
	if (rig.c.rpc != NULL)
		CHECK_EQ(rig.c.rpc->authentic, client.state == HOST_AUTH_DONE);
	if (rig.s.rpc != NULL)
		CHECK_EQ(rig.s.rpc->authentic, target.state == HOST_AUTH_DONE);
	if (ans.n == 1 && ans.status == WEFT_RPC_OK) {
		CHECK_EQ(client.state, HOST_AUTH_DONE);
		answered++;
	} else {
		refused++;
	}
	tear_down();
}

static void
test_meddle(void)
{
	if (test_seed_given()) {
		meddle(test_seed(0));
		return;
	}
	answered = refused = 0;
	for (uint64_t seed = 0; seed < 10000; seed++) {
		test_seed_note(seed);
		meddle(seed);
	}
	CHECK_MSG(answered > 100 && refused > 1000, "%u answered, %u not", answered, refused);
}

WEFT_TEST_MAIN({"left as it is", test_honest}, {"another host was called", test_relay},
               {"meddled with", test_meddle})
