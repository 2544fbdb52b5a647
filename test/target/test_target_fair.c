/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file 64 clients want more memory than the target has, some of them much more: each gets about
 * the same, by calls and by windows. Each connection is a client with an IPv4 address of its own:
 * that is what quota_id() is made to see.
 */

#include <netinet/in.h>

#include "quota.h"
#include "target_rig.h"
#include "target_volume_client.h"
#include "weft_test.h"

#define CLIENTS    64u
#define CALLS      8u /* of a greedy client at once; others have 2 */
#define READ_BYTES (256U << 10)
#define WINDOW_LEN (64U << 10)
#define DISK_BYTES (40U << 20)

struct fair_client {
	struct rig_conn k;
	struct rig_call c[CALLS];
	weft_volrpc_grant g;
	uint64_t got;
};

static struct fair_client client[CLIENTS];
static bool going, half_share;

void __wrap_quota_id(struct quota_id *id, const char *name, const struct sockaddr_storage *peer);
void __real_quota_id(struct quota_id *id, const char *name, const struct sockaddr_storage *peer);

void
__wrap_quota_id(struct quota_id *id, const char *name, const struct sockaddr_storage *peer)
{
	struct sockaddr_storage own = *peer;
	struct sockaddr_in *in = (struct sockaddr_in *)&own;

	/* Another network for each port and host. */
	if (!half_share || ntohs(in->sin_port) % 2 != 0)
		in->sin_addr.s_addr ^= htonl(0x01000000u + ((uint32_t)ntohs(in->sin_port) << 8));
	__real_quota_id(id, name, &own);
}

static unsigned int
wants(unsigned int i)
{
	return i % 8 == 0 ? CALLS : 2;
}

static double
jain(void)
{
	double sum1 = 0, sum2 = 0;

	for (unsigned int i = 0; i < CLIENTS; i++) {
		sum1 += (double)client[i].got;
		sum2 += (double)client[i].got * (double)client[i].got;
	}
	return sum1 * sum1 / (CLIENTS * sum2);
}

static void
begin(uint64_t seed, const char *more)
{
	const struct rig_attr a = {
	        .seed = test_seed(seed), .workers = 1, .bytes = DISK_BYTES, .target = more};

	rig_open(&a);
	memset(client, 0, sizeof(client));
	for (unsigned int i = 0; i < CLIENTS; i++) {
		rig_connected(&client[i].k, i % 2);
		CHECK_EQ(rig_grant(&client[i].k, RIG_RIGHTS, &client[i].g), WEFT_VOLRPC_OK);
	}
}

static void
end(void)
{
	for (unsigned int i = 0; i < CLIENTS; i++)
		rig_disconnect(&client[i].k);
	CHECK(rig_until(60 * RIG_S, rig_is_clean, NULL));
	rig_close();
}

static void read_begin(struct fair_client *f, struct rig_call *c);

static void
read_done(struct rig_call *c)
{
	struct fair_client *f = c->owner;

	if (!going)
		return;
	CHECK_EQ(c->status, WEFT_VOLRPC_OK);
	f->got += c->read_bytes;
	read_begin(f, c);
}

static void
read_begin(struct fair_client *f, struct rig_call *c)
{
	*c = (struct rig_call){.proc = WEFT_VOLRPC_READ, .then = read_done, .owner = f};
	c->args.read.args =
	        (weft_volrpc_read_args){.handle = f->g.handle, .off = 0, .count = READ_BYTES};
	c->args.read.into = f->k.n->mem;
	rig_call(&f->k, c);
}

static double
calls(void)
{
	struct weft_staging_stats s;
	double index;

	begin(1, "staging = 16M\nmax_opens_per_s = 0\nmax_grants_per_client = 64\n");
	going = true;
	for (unsigned int i = 0; i < CLIENTS; i++)
		for (unsigned int n = 0; n < wants(i); n++)
			read_begin(&client[i], &client[i].c[n]);
	rig_run(300 * RIG_MS);
	/* From here on: all have begun. */
	for (unsigned int i = 0; i < CLIENTS; i++)
		client[i].got = 0;
	rig_run(1 * RIG_S);
	going = false;
	weft_staging_query(rig.t->workers[0].volumes->staging, &s);
	index = jain();
	test_note("READs: Jain's index %.4f; %u of %u grants of memory have waited", index,
	          (unsigned int)s.waits, (unsigned int)s.grants);
	CHECK(s.waits > s.grants / 2);
	end();
	return index;
}

static void
test_calls(void)
{
	CHECK(calls() >= 0.9);
	/* Where half of the connections have the addresses of two clients, they have little: the
	 * figure tells it. */
	half_share = true;
	CHECK(calls() < 0.9);
	half_share = false;
}

/* ---- Windows ---- */

static void
window_begin(struct fair_client *f, struct rig_call *c)
{
	const uint64_t n = (uint64_t)(f - client) * CALLS + (uint64_t)(c - f->c);

	*c = (struct rig_call){.proc = WEFT_VOLRPC_WINDOW_OPEN};
	c->args.window = (weft_volrpc_window_args){.handle = f->g.handle,
	                                           .off = n * WINDOW_LEN,
	                                           .len = WINDOW_LEN,
	                                           .rights = RIG_RIGHTS};
	rig_call(&f->k, c);
}

/** 128 windows. Eight greedy clients have half of them when the others come. */
static double
windows(void)
{
	const struct target_vclient *cl;
	unsigned int n = 0, most = 0;
	double index;

	begin(2, "staging = 16M\nwindow = 64K\nrevoke_ms = 50\n");
	for (unsigned int i = 0; i < CLIENTS; i += 8)
		for (unsigned int k = 0; k < CALLS; k++)
			window_begin(&client[i], &client[i].c[k]);
	rig_run(100 * RIG_MS);
	for (unsigned int i = 0; i < CLIENTS; i++)
		for (unsigned int k = 0; i % 8 != 0 && k < CALLS / 2; k++)
			window_begin(&client[i], &client[i].c[k]);
	rig_run(1 * RIG_S);
	LIST_FOREACH (cl, &rig.t->workers[0].volumes->clients, link) {
		if (n < CLIENTS)
			client[n].got = cl->keeps;
		most = cl->keeps > most ? cl->keeps : most;
		n++;
	}
	CHECK_EQ(n, CLIENTS);
	index = jain();
	test_note("windows: Jain's index %.4f; %u clients, one has %u", index, n, most);
	end();
	return index;
}

static void
test_windows(void)
{
	CHECK(windows() >= 0.9);
}

WEFT_TEST_MAIN({"READs of 64 clients", test_calls}, {"windows of 64 clients", test_windows})
