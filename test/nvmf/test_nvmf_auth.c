/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file DH-HMAC-CHAP: known answers, and exchanges of a host with a controller.
 */

#include <dirent.h>
#include <errno.h>
#include <semaphore.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>

#include "nvmf_auth.h"
#include "nvmf_rig.h"

static const struct {
	const char *secret;
	uint8_t hash;
	uint32_t shared;
	const char *role, *own, *peer, *want;
} vectors[] = {
#include "dhchap_vectors.inc"
};

static void
test_vectors(void)
{
	uint8_t octets[256], out[NVMF_DHCHAP_HASH_MAX];
	struct weft_nvmf_secret secret;
	const char *why;

	for (unsigned int i = 0; i < 256; i++)
		octets[i] = (uint8_t)i;
	for (unsigned int i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
		const struct nvmf_dhchap_in in = {.secret = &secret,
		                                  .hash = vectors[i].hash,
		                                  .challenge = octets,
		                                  .shared = octets,
		                                  .shared_bytes = vectors[i].shared,
		                                  .seqnum = 0x12345678,
		                                  .tid = 0xabcd,
		                                  .role = vectors[i].role,
		                                  .own = vectors[i].own,
		                                  .peer = vectors[i].peer};
		char hex[2 * NVMF_DHCHAP_HASH_MAX + 1];

		CHECK_EQ(weft_nvmf_secret_decode(vectors[i].secret, &secret, &why), 0);
		CHECK_EQ(nvmf_dhchap_response(&in, out), 0);
		for (uint32_t k = 0; k < nvmf_dhchap_hash_bytes(in.hash); k++)
			sprintf(hex + 2 * k, "%02x", out[k]);
		CHECK(strcmp(hex, vectors[i].want) == 0);
	}
}

static void
test_secrets(void)
{
	static const char *const bad[] = {
	        "",
	        "DHHC-1:00:",
	        "DHHC-1:04:AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyDDVw2R:",
	        "DHHC-1:00:BQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyDDVw2R:",
	        "DHHC-1:00:AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyDDVw2R",
	        "DHHC-1:00:AQIDBAUG:",
	        "DHHC-2:00:AQIDBAUG:"};
	/* made by `nvme gen-dhchap-key -m HASH` */
	static const char *const good[] = {
	        "DHHC-1:00:SGEFHbAZlPyuPILt8asQ5HNpVKicaCyYc6pZ1Nk7wjozHrhn:",
	        "DHHC-1:01:5X2wU+swAscQxQWqPIOgu19NQGRTl/igL8xszVO7QGYPn65+:",
	        "DHHC-1:02:PxFGl5cLuI9j3sqmiBLjdCALjt0HK72RLKr8GDKXoWzlUd/"
	        "NzLfIApKvt8kFvPwWNSDcNw==:",
	        "DHHC-1:03:+U+oxbPeWE+rNNiU5uD6Ts8Pmc1OwpygBkLugxp+iNOEw1/se9sMM1ho7qGf4PUfloyw/5c9"
	        "qI8cKEXVEpQ0VXh6kJ0=:"};
	struct weft_nvmf_secret s;
	const char *why;

	for (unsigned int i = 0; i < 4; i++) {
		CHECK_EQ(weft_nvmf_secret_decode(good[i], &s, &why), 0);
		CHECK(s.hash == i && s.bytes == (i < 2 ? 32 : 16 * i + 16));
	}
	for (unsigned int i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		CHECK_EQ(weft_nvmf_secret_decode(bad[i], &s, &why), -EINVAL);
		CHECK(why != NULL && s.bytes == 0);
	}
}

static void
test_groups(void)
{
	uint8_t a_pub[1024], b_pub[1024], a[1024], b[1024];
	void *a_key, *b_key;
	BIGNUM *p = NULL;

	for (uint8_t group = 1; group < NVMF_DHCHAP_GROUPS; group++) {
		const uint32_t n = nvmf_dhchap_dh_bytes(group);

		CHECK_EQ(nvmf_dhchap_key(group, &a_key, a_pub), 0);
		CHECK_EQ(nvmf_dhchap_key(group, &b_key, b_pub), 0);
		CHECK_EQ(nvmf_dhchap_shared(group, a_key, b_pub, a), 0);
		CHECK_EQ(nvmf_dhchap_shared(group, b_key, a_pub, b), 0);
		CHECK(memcmp(a, b, n) == 0);
		/* 0, 1, and the greatest number, which is above p - 1 */
		memset(b_pub, 0, n);
		CHECK_EQ(nvmf_dhchap_shared(group, a_key, b_pub, a), -EINVAL);
		b_pub[n - 1] = 1;
		CHECK_EQ(nvmf_dhchap_shared(group, a_key, b_pub, a), -EINVAL);
		memset(b_pub, 0xff, n);
		CHECK_EQ(nvmf_dhchap_shared(group, a_key, b_pub, a), -EINVAL);
		CHECK(EVP_PKEY_get_bn_param(a_key, OSSL_PKEY_PARAM_FFC_P, &p) == 1 &&
		      BN_sub_word(p, 1) == 1 && BN_bn2binpad(p, b_pub, (int)n) == (int)n);
		CHECK_EQ(nvmf_dhchap_shared(group, a_key, b_pub, a), -EINVAL);
		BN_free(p);
		p = NULL;
		nvmf_dhchap_key_free(a_key);
		nvmf_dhchap_key_free(b_key);
	}
}

static uint64_t
cpu_ns(void)
{
	struct timespec ts;

	CHECK_EQ(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts), 0);
	return (uint64_t)ts.tv_sec * 1000000000U + (uint64_t)ts.tv_nsec;
}

/** A host that has proved nothing has one thread compute. What a reply costs is no more than a few
 * keys: with a check of the value against the group's order it was 17 times one. */
static void
test_cost(void)
{
	const uint8_t group = NVMF_DHCHAP_GROUPS - 1;
	uint64_t key_ns = UINT64_MAX, shared_ns = UINT64_MAX, began_ns, took_ns;
	uint8_t pub[1024], out[1024];
	void *key;

	for (int i = 0; i < 3; i++) {
		began_ns = cpu_ns();
		CHECK_EQ(nvmf_dhchap_key(group, &key, pub), 0);
		took_ns = cpu_ns() - began_ns;
		key_ns = took_ns < key_ns ? took_ns : key_ns;
		began_ns = cpu_ns();
		CHECK_EQ(nvmf_dhchap_shared(group, key, pub, out), 0);
		took_ns = cpu_ns() - began_ns;
		shared_ns = took_ns < shared_ns ? took_ns : shared_ns;
		nvmf_dhchap_key_free(key);
	}
	CHECK(shared_ns < 4 * key_ns);
}

/* ---- A host ---- */

static int
draw(void *to, size_t bytes)
{
	return getrandom(to, bytes, 0) == (ssize_t)bytes ? 0 : -EIO;
}

/** What a host does wrong. */
enum wrong {
	RIGHT,
	WRONG_KEY,
	WRONG_TID,
	WRONG_LENGTH,
	REFLECT,
	SAME_PUB,
	NO_SEQ,
	SUCCESS_EARLY,
	DENY_PROOF
};

struct host {
	uint8_t hash, dh;
	bool mutual;
	enum wrong wrong;
	uint32_t seqnum; /**< of the last challenge */
	const char *subnqn;
	struct weft_nvmf_auth keys;
};

/** Send or receive a message. A command of a group's thread takes real time. */
static uint16_t
move(struct nv_queue *q, uint8_t fctype, void *m, uint32_t bytes)
{
	struct weft_nvmf_sqe sqe = nv_sqe(WEFT_NVMF_OP_FABRICS, 0, 0xe90101U << 8, bytes, 0);
	uint16_t status = 0;

	sqe.fctype = fctype;
	nv_keyed(&sqe, m, bytes);
	CHECK_EQ(nv_send(q, &sqe, NULL, 0), 0);
	for (int i = 0; i < 100000 && !nv_answered(q, sqe.cid, &status); i++) {
		usleep(100);
		for (unsigned int g = 0; g < NV_GROUPS; g++)
			(void)weft_nvmf_group_poll(q->nv->group[g], q->nv->vol.now_ns);
	}
	return status;
}

static uint16_t
negotiate(struct nv_queue *q, const struct host *h)
{
	uint8_t m[72] = {0};

	m[4] = 0x34;
	m[7] = 1;
	m[8] = 1;
	m[10] = m[11] = 1;
	m[12] = h->hash;
	m[42] = h->dh;
	return move(q, WEFT_NVMF_FC_AUTH_SEND, m, sizeof(m));
}

/** The whole exchange. Returns 0, or the RCE of a failure. */
static uint8_t
prove(struct nv_queue *q, struct host *h)
{
	const uint32_t hl = nvmf_dhchap_hash_bytes(h->hash), dh = nvmf_dhchap_dh_bytes(h->dh);
	uint8_t c[4096], r[2048] = {0}, shared[1024], want[64];
	struct nvmf_dhchap_in in = {.secret = &h->keys.host,
	                            .hash = h->hash,
	                            .challenge = c + 16,
	                            .shared = shared,
	                            .shared_bytes = dh,
	                            .tid = 0x34,
	                            .role = "HostHost",
	                            .own = NV_HOST,
	                            .peer = h->subnqn};
	void *key = NULL;

	CHECK_EQ(negotiate(q, h), 0);
	CHECK_EQ(move(q, WEFT_NVMF_FC_AUTH_RECEIVE, c, sizeof(c)), 0);
	if (c[1] == 0xf1)
		return c[7];
	CHECK(c[0] == 1 && c[1] == 1 && c[6] == hl && c[8] == h->hash && c[9] == h->dh);
	CHECK_EQ(weft_nvmf_get16(c + 10), dh);
	in.seqnum = h->seqnum = weft_nvmf_get32(c + 12);
	CHECK(h->seqnum != 0);
	r[0] = 1;
	r[1] = h->wrong == SUCCESS_EARLY ? 4 : 2;
	weft_nvmf_put16(r + 4, h->wrong == WRONG_TID ? 0x35 : 0x34);
	r[6] = (uint8_t)hl;
	r[8] = h->mutual;
	weft_nvmf_put16(r + 10, (uint16_t)dh);
	weft_nvmf_put32(r + 12, h->wrong == NO_SEQ ? 0 : 77);
	memset(r + 16 + hl, 0x5a, hl);
	if (h->wrong == REFLECT)
		memcpy(r + 16 + hl, c + 16, hl);
	if (dh > 0) {
		CHECK_EQ(nvmf_dhchap_key(h->dh, &key, r + 16 + 2 * hl), 0);
		CHECK_EQ(nvmf_dhchap_shared(h->dh, key, c + 16 + hl, shared), 0);
		nvmf_dhchap_key_free(key);
		if (h->wrong == SAME_PUB)
			memcpy(r + 16 + 2 * hl, c + 16 + hl, dh);
	}
	CHECK_EQ(nvmf_dhchap_response(&in, r + 16), 0);
	r[16] ^= h->wrong == WRONG_KEY;
	CHECK_EQ(move(q, WEFT_NVMF_FC_AUTH_SEND, r, 16 + 2 * hl + dh - (h->wrong == WRONG_LENGTH)),
	         0);
	CHECK_EQ(move(q, WEFT_NVMF_FC_AUTH_RECEIVE, c, sizeof(c)), 0);
	if (c[1] == 0xf1)
		return c[7];
	CHECK(c[0] == 1 && c[1] == 3 && c[6] == hl && c[8] == h->mutual);
	if (!h->mutual || h->wrong == DENY_PROOF)
		return 0;
	in.secret = &h->keys.ctrl;
	in.challenge = r + 16 + hl;
	in.seqnum = 77;
	in.role = "Controller";
	in.own = h->subnqn;
	in.peer = NV_HOST;
	CHECK_EQ(nvmf_dhchap_response(&in, want), 0);
	CHECK(memcmp(want, c + 16, hl) == 0);
	memset(r, 0, 16);
	r[0] = 1;
	r[1] = 4;
	r[4] = 0x34;
	CHECK_EQ(move(q, WEFT_NVMF_FC_AUTH_SEND, r, 16), 0);
	return 0;
}

static void
start(struct nv *n, struct host *h)
{
	const char *why;

	memset(n, 0, sizeof(*n));
	memset(h, 0, sizeof(*h));
	n->attr.random = draw;
	nv_start(n);
	strcpy(h->keys.hostnqn, NV_HOST);
	CHECK_EQ(weft_nvmf_secret_decode(vectors[0].secret, &h->keys.host, &why), 0);
	CHECK_EQ(weft_nvmf_secret_decode(vectors[20].secret, &h->keys.ctrl, &why), 0);
	h->hash = 1;
	h->subnqn = NV_SUBSYS;
	CHECK_EQ(weft_nvmf_auth_set(n->subsys, &h->keys, 1, WEFT_NVMF_GROUP_NULL), 0);
}

static void
connect_admin(struct nv *n, struct nv_queue *q)
{
	nv_open(n, 0, q);
	CHECK_EQ(nv_connect(q, NV_SUBSYS, NV_HOST, 0xffff, 0, 31, 0), 0);
	CHECK((q->result & 1U << 17) != 0);
}

static void
test_exchanges(void)
{
	struct weft_nvmf_stats st;
	struct nv_queue a, io;
	uint8_t page[4096];
	uint64_t value;
	struct host h;
	struct nv n;

	start(&n, &h);
	for (uint8_t hash = 1; hash <= 3; hash++)
		for (uint8_t dh = 0; dh < NVMF_DHCHAP_GROUPS; dh++)
			for (int mutual = 0; mutual < 2; mutual++) {
				h.hash = hash;
				h.dh = dh;
				h.mutual = mutual;
				connect_admin(&n, &a);
				CHECK_EQ(nv_identify(&a, 1, 0, page), 0x4191);
				CHECK_EQ(nv_property_set(&a, WEFT_NVMF_PROP_CC, 0x460001), 0x4191);
				CHECK_EQ(nv_property_get(&a, WEFT_NVMF_PROP_CSTS, false, &value),
				         0x4191);
				CHECK_EQ(prove(&a, &h), 0);
				CHECK_EQ(nv_property_set(&a, WEFT_NVMF_PROP_CC, 0x460001), 0);
				CHECK_EQ(nv_identify(&a, 1, 0, page), 0);
				nv_close(&a);
			}
	/* an I/O queue proves itself too; a proved queue may do it again */
	h.dh = 1;
	connect_admin(&n, &a);
	nv_open(&n, 1, &io);
	CHECK_EQ(nv_connect(&io, NV_SUBSYS, NV_HOST, a.cntlid, 1, 31, 0), 0x4191);
	CHECK_EQ(prove(&a, &h), 0);
	CHECK_EQ(nv_property_set(&a, WEFT_NVMF_PROP_CC, 0x460001), 0);
	CHECK_EQ(nv_connect(&io, NV_SUBSYS, NV_HOST, a.cntlid, 1, 31, 0), 0);
	CHECK_EQ(nv_rw(&io, WEFT_NVMF_IO_READ, 0, 1, page, 512, 0), 0x4191);
	CHECK_EQ(prove(&io, &h), 0);
	CHECK_EQ(nv_rw(&io, WEFT_NVMF_IO_READ, 0, 1, page, 512, 0), 0);
	CHECK_EQ(prove(&io, &h), 0);
	CHECK_EQ(nv_rw(&io, WEFT_NVMF_IO_READ, 0, 1, page, 512, 0), 0);
	weft_nvmf_query_stats(n.target, &st);
	CHECK_EQ(st.auth_done, 36 + 3);
	nv_close(&io);
	nv_close(&a);
	nv_end(&n);
}

/** A host says that it does not accept a challenge, or the controller's proof. */
static void
deny(struct nv_queue *a, bool proof, struct host *h)
{
	uint8_t m[8] = {0, 0xf0, 0, 0, 0x34, 0, 1, 1}, c[4096];

	h->wrong = proof ? DENY_PROOF : RIGHT;
	if (proof) {
		CHECK_EQ(prove(a, h), 0);
	} else {
		CHECK_EQ(negotiate(a, h), 0);
		CHECK_EQ(move(a, WEFT_NVMF_FC_AUTH_RECEIVE, c, sizeof(c)), 0);
	}
	CHECK_EQ(move(a, WEFT_NVMF_FC_AUTH_SEND, m, sizeof(m)), 0);
	nv_poll(a->nv);
	CHECK(a->closed);
	nv_close(a);
}

static void
test_denied(void)
{
	struct weft_nvmf_stats st;
	struct nv_queue a;
	struct host h;
	struct nv n;

	start(&n, &h);
	h.mutual = true;
	connect_admin(&n, &a);
	deny(&a, false, &h);
	connect_admin(&n, &a);
	deny(&a, true, &h);
	weft_nvmf_query_stats(n.target, &st);
	CHECK_EQ(st.auth_failed[WEFT_NVMF_AUTH_DENIED], 2);
	CHECK_EQ(st.auth_done, 0);
	nv_end(&n);
}

/** A host that has not proved its name has the time to Connect for all of its messages. */
static void
test_time(void)
{
	struct weft_nvmf_stats st;
	struct nv_queue a;
	struct host h;
	uint8_t c[4096];
	struct nv n;

	start(&n, &h);
	connect_admin(&n, &a);
	nv_pass(&n, 9000);
	CHECK_EQ(negotiate(&a, &h), 0);
	CHECK_EQ(move(&a, WEFT_NVMF_FC_AUTH_RECEIVE, c, sizeof(c)), 0);
	CHECK(!a.closed);
	nv_pass(&n, 1001);
	CHECK(a.closed);
	nv_close(&a);
	/* one that fails, and does not receive that, is told of once */
	connect_admin(&n, &a);
	CHECK_EQ(move(&a, WEFT_NVMF_FC_AUTH_SEND, c, 5), 0);
	nv_pass(&n, 10001);
	CHECK(a.closed);
	nv_close(&a);
	/* a proved queue has it for each further exchange */
	connect_admin(&n, &a);
	CHECK_EQ(prove(&a, &h), 0);
	nv_pass(&n, 60000);
	CHECK_EQ(negotiate(&a, &h), 0);
	nv_pass(&n, 9000);
	CHECK(!a.closed);
	nv_pass(&n, 1001);
	CHECK(a.closed);
	nv_close(&a);
	weft_nvmf_query_stats(n.target, &st);
	CHECK_EQ(st.auth_failed[WEFT_NVMF_AUTH_EXPIRED], 2);
	CHECK_EQ(st.auth_failed[WEFT_NVMF_AUTH_PAYLOAD], 1);
	nv_end(&n);
}

/** A failure names the transaction of the host's message, also of one that is cut short or comes at
 * the wrong time. */
static void
test_transaction(void)
{
	uint8_t m[72] = {0}, c[4096];
	struct nv_queue a;
	struct host h;
	struct nv n;

	start(&n, &h);
	m[4] = 0x77;
	connect_admin(&n, &a);
	CHECK_EQ(move(&a, WEFT_NVMF_FC_AUTH_SEND, m, 7), 0);
	CHECK_EQ(move(&a, WEFT_NVMF_FC_AUTH_RECEIVE, c, sizeof(c)), 0);
	CHECK(c[1] == 0xf1 && c[4] == 0x77 && c[7] == WEFT_NVMF_AUTH_PAYLOAD);
	nv_close(&a);
	/* a second negotiation, with another number, is not the host's turn */
	connect_admin(&n, &a);
	CHECK_EQ(negotiate(&a, &h), 0);
	CHECK_EQ(move(&a, WEFT_NVMF_FC_AUTH_SEND, m, sizeof(m)), 0);
	CHECK_EQ(move(&a, WEFT_NVMF_FC_AUTH_RECEIVE, c, sizeof(c)), 0);
	CHECK(c[1] == 0xf1 && c[4] == 0x34 && c[7] == WEFT_NVMF_AUTH_MESSAGE);
	nv_close(&a);
	nv_end(&n);
}

/** Sequence numbers: of one queue one after the other, and of no use to count those of others. */
static void
test_seqnum(void)
{
	uint32_t first[2], seq;
	struct nv_queue a;
	uint8_t c[4096];
	struct host h;
	struct nv n;

	start(&n, &h);
	for (unsigned int i = 0; i < 2; i++) {
		connect_admin(&n, &a);
		CHECK_EQ(prove(&a, &h), 0);
		first[i] = h.seqnum;
		CHECK_EQ(negotiate(&a, &h), 0);
		CHECK_EQ(move(&a, WEFT_NVMF_FC_AUTH_RECEIVE, c, sizeof(c)), 0);
		seq = weft_nvmf_get32(c + 12);
		CHECK(seq == first[i] + 1 || seq == 1);
		nv_close(&a);
	}
	/* 1 in 2^22 by chance */
	CHECK(first[1] - first[0] + 512 > 1024);
	nv_end(&n);
}

/** What is below the least group that is allowed is not taken. */
static void
test_least_group(void)
{
	struct nv_queue a;
	struct host h;
	struct nv n;

	start(&n, &h);
	CHECK_EQ(weft_nvmf_auth_set(n.subsys, &h.keys, 1, WEFT_NVMF_GROUPS), -EINVAL);
	connect_admin(&n, &a);
	CHECK_EQ(prove(&a, &h), 0);
	/* the entries are the same: the controller stays, and what connects now needs a group */
	CHECK_EQ(weft_nvmf_auth_set(n.subsys, &h.keys, 1, WEFT_NVMF_GROUP_3072), 0);
	nv_poll(&n);
	CHECK(!a.closed);
	nv_close(&a);
	for (h.dh = 0; h.dh < NVMF_DHCHAP_GROUPS; h.dh++) {
		connect_admin(&n, &a);
		CHECK_EQ(prove(&a, &h), h.dh < WEFT_NVMF_GROUP_3072 ? WEFT_NVMF_AUTH_GROUP : 0);
		nv_close(&a);
	}
	nv_end(&n);
}

/** Jobs of the thread, which say in which order it does them. */
struct job {
	struct nvmf_auth a; /* first */
	char who;
};
static char order[256];
static unsigned int ordered, over;
static sem_t begun, gate;

static int
job_work(struct nvmf_auth *a)
{
	const struct job *j = (const struct job *)a;

	if (j->who == 'x') {
		CHECK_EQ(sem_post(&begun), 0);
		CHECK_EQ(sem_wait(&gate), 0);
	} else {
		order[ordered++] = j->who;
	}
	return 0;
}

static void
job_ready(struct nvmf_auth *a, int status)
{
	(void)a;
	CHECK_EQ(status, 0);
	over++;
}

/** A: hosts A and B, which are proved; s: strangers, all by the name of A. */
static int
job_add(const struct nv *n, struct job *j, char who)
{
	memset(j, 0, sizeof(*j));
	j->who = who;
	j->a.group = n->group[0];
	j->a.work = job_work;
	j->a.ready = job_ready;
	j->a.of_proved = who == 'A' || who == 'B';
	strcpy(j->a.keys.hostnqn, who == 'B' ? NV_OTHER : NV_HOST);
	return nvmf_auth_job(&j->a);
}

/** One host has all of its queues compute at once. Another one, and strangers, do not wait for all
 * of them, and are not refused. */
static void
test_turns(void)
{
	static struct job job[WEFT_NVMF_AUTH_JOBS + 16];
	static const char *const want = "AsBsAsBsAAAA";
	unsigned int jobs = 0, all;
	struct host h;
	struct nv n;

	start(&n, &h);
	CHECK(sem_init(&begun, 0, 0) == 0 && sem_init(&gate, 0, 0) == 0);
	/* the thread has one, while others come */
	CHECK_EQ(job_add(&n, &job[jobs++], 'x'), 0);
	CHECK_EQ(sem_wait(&begun), 0);
	for (unsigned int i = 0; i < WEFT_NVMF_AUTH_JOBS; i++)
		CHECK_EQ(job_add(&n, &job[jobs++], 'A'), 0);
	CHECK_EQ(job_add(&n, &job[jobs], 'A'), -EBUSY);
	for (unsigned int i = 0; i < 2; i++)
		CHECK_EQ(job_add(&n, &job[jobs++], 'B'), 0);
	for (unsigned int i = 0; i < 4; i++)
		CHECK_EQ(job_add(&n, &job[jobs++], 's'), 0);
	all = jobs;
	CHECK_EQ(sem_post(&gate), 0);
	while (over < all) {
		usleep(100);
		(void)weft_nvmf_group_poll(n.group[0], n.vol.now_ns);
	}
	CHECK_EQ(ordered, all - 1);
	CHECK(memcmp(order, want, strlen(want)) == 0);
	CHECK(sem_destroy(&begun) == 0 && sem_destroy(&gate) == 0);
	nv_end(&n);
}

static unsigned int
threads(void)
{
	unsigned int n = 0;
	DIR *d = opendir("/proc/self/task");

	CHECK(d != NULL);
	while (readdir(d) != NULL)
		n++;
	closedir(d);
	return n;
}

/** A target without secrets has no thread that computes. */
static void
test_thread(void)
{
	const unsigned int before = threads();
	struct host h;
	struct nv n;

	memset(&n, 0, sizeof(n));
	n.attr.random = draw;
	nv_start(&n);
	CHECK_EQ(threads(), before);
	CHECK_EQ(weft_nvmf_auth_set(n.subsys, NULL, 0, 0), 0);
	CHECK_EQ(threads(), before);
	nv_end(&n);
	start(&n, &h);
	CHECK_EQ(threads(), before + 1);
	nv_end(&n);
	CHECK_EQ(threads(), before);
}

static void
test_refusals(void)
{
	static const uint8_t want[] = {
	        [WRONG_KEY] = 1, [WRONG_TID] = 6, [WRONG_LENGTH] = 6, [REFLECT] = 1,
	        [SAME_PUB] = 1,  [NO_SEQ] = 6,    [SUCCESS_EARLY] = 7};
	struct nv_queue a;
	uint8_t m[72] = {0}, page[4096];
	struct host h;
	struct nv n;

	start(&n, &h);
	h.dh = 1;
	h.mutual = true;
	for (unsigned int w = WRONG_KEY; w <= SUCCESS_EARLY; w++) {
		h.wrong = w;
		connect_admin(&n, &a);
		CHECK_EQ(prove(&a, &h), want[w]);
		nv_poll(&n);
		CHECK(a.closed);
		nv_close(&a);
	}
	h.wrong = RIGHT;
	h.hash = 9;
	connect_admin(&n, &a);
	CHECK_EQ(prove(&a, &h), WEFT_NVMF_AUTH_HASH);
	nv_close(&a);
	h.hash = 1;
	h.dh = 9;
	connect_admin(&n, &a);
	CHECK_EQ(prove(&a, &h), WEFT_NVMF_AUTH_GROUP);
	nv_close(&a);
	/* cut at each length */
	m[7] = m[8] = 1;
	for (uint32_t len = 1; len < sizeof(m); len++) {
		connect_admin(&n, &a);
		CHECK_EQ(move(&a, WEFT_NVMF_FC_AUTH_SEND, m, len), 0);
		CHECK_EQ(move(&a, WEFT_NVMF_FC_AUTH_RECEIVE, page, 4096), 0);
		CHECK(page[1] == 0xf1 && page[7] == WEFT_NVMF_AUTH_PAYLOAD);
		nv_close(&a);
	}
	/* a message of the controller's that is not there; a host that stalls; another host */
	connect_admin(&n, &a);
	CHECK_EQ(move(&a, WEFT_NVMF_FC_AUTH_RECEIVE, page, 4096), 0);
	CHECK(page[1] == 0xf1 && page[7] == WEFT_NVMF_AUTH_MESSAGE);
	nv_close(&a);
	connect_admin(&n, &a);
	nv_pass(&n, 10001);
	CHECK(a.closed);
	nv_close(&a);
	nv_open(&n, 0, &a);
	CHECK_EQ(nv_connect(&a, NV_SUBSYS, NV_OTHER, 0xffff, 0, 31, 0), 0x4184);
	nv_close(&a);
	/* its key changes */
	connect_admin(&n, &a);
	CHECK_EQ(prove(&a, &h), WEFT_NVMF_AUTH_GROUP);
	nv_close(&a);
	h.dh = 0;
	connect_admin(&n, &a);
	CHECK_EQ(prove(&a, &h), 0);
	h.keys.host.key[0] ^= 1;
	CHECK_EQ(weft_nvmf_auth_set(n.subsys, &h.keys, 1, WEFT_NVMF_GROUP_NULL), 0);
	nv_poll(&n);
	CHECK(a.closed);
	nv_close(&a);
	nv_end(&n);
}

/** How many records the discovery log has for a host. */
static uint64_t
records(struct nv_queue *q)
{
	struct weft_nvmf_sqe sqe = nv_sqe(WEFT_NVMF_ADMIN_GET_LOG, 0, 0x70 | 255U << 16, 0, 0);
	uint8_t page[1024];

	CHECK_EQ(nv_do(q, &sqe, page, sizeof(page)), 0);
	return weft_nvmf_get64(page + 8);
}

/** Secrets come while hosts are there: those that have no line in them go, too. */
static void
test_strangers(void)
{
	struct nv_queue disk, disc;
	struct host h;
	struct nv n;

	start(&n, &h);
	CHECK_EQ(weft_nvmf_auth_set(n.subsys, NULL, 0, WEFT_NVMF_GROUP_NULL), 0);
	weft_nvmf_any_host(n.subsys, true);
	for (unsigned int i = 0; i < 2; i++) {
		nv_poll(&n);
		nv_open(&n, 0, &disk);
		CHECK_EQ(nv_connect(&disk, NV_SUBSYS, NV_OTHER, 0xffff, 0, 31, 0), 0);
		nv_open(&n, 0, &disc);
		CHECK_EQ(
		        nv_connect(&disc, WEFT_NVMF_DISCOVERY_NQN, NV_OTHER, 0xffff, 0, 31, 120000),
		        0);
		CHECK_EQ(weft_nvmf_auth_set(n.subsys, &h.keys, 1, WEFT_NVMF_GROUP_NULL), 0);
		nv_poll(&n);
		CHECK(disk.closed);
		CHECK(!disc.closed);
		CHECK_EQ(weft_nvmf_auth_set(weft_nvmf_discovery(n.target), &h.keys, 1,
		                            WEFT_NVMF_GROUP_NULL),
		         0);
		nv_poll(&n);
		CHECK(disc.closed);
		nv_close(&disk);
		nv_close(&disc);
		/* without secrets it may come again */
		CHECK_EQ(weft_nvmf_auth_set(n.subsys, NULL, 0, WEFT_NVMF_GROUP_NULL), 0);
		CHECK_EQ(weft_nvmf_auth_set(weft_nvmf_discovery(n.target), NULL, 0,
		                            WEFT_NVMF_GROUP_NULL),
		         0);
	}
	nv_end(&n);
}

/** Discovery with secrets: a host asks when it has proved its name, and others do not. */
static void
test_discovery(void)
{
	const struct weft_nvmf_listener l = {
	        .trtype = 3, .adrfam = 1, .traddr = "10.0.0.1", .trsvcid = "8009"};
	struct weft_nvmf_subsys *disc;
	struct nv_queue a, b;
	struct host h;
	struct nv n;

	start(&n, &h);
	disc = weft_nvmf_discovery(n.target);
	CHECK_EQ(weft_nvmf_listener_add(n.target, &l), 0);
	/* without: each name is believed */
	nv_admin(&n, 0, &a, WEFT_NVMF_DISCOVERY_NQN);
	CHECK_EQ(a.result & 1U << 17, 0);
	CHECK_EQ(records(&a), 2);
	/* it asks for proof from now on: who has not given one goes */
	h.keys.host.key[0] ^= 1;
	CHECK_EQ(weft_nvmf_auth_set(disc, &h.keys, 1, WEFT_NVMF_GROUP_NULL), 0);
	nv_poll(&n);
	CHECK(a.closed);
	nv_close(&a);
	h.subnqn = WEFT_NVMF_DISCOVERY_NQN;
	nv_open(&n, 0, &a);
	CHECK_EQ(nv_connect(&a, h.subnqn, NV_OTHER, 0xffff, 0, 31, 0), 0x4184);
	nv_close(&a);
	nv_open(&n, 0, &a);
	CHECK_EQ(nv_connect(&a, h.subnqn, NV_HOST, 0xffff, 0, 31, 0), 0);
	CHECK(a.result & 1U << 17);
	CHECK_EQ(nv_property_set(&a, WEFT_NVMF_PROP_CC, 0x460001), 0x4191);
	h.mutual = true;
	CHECK_EQ(prove(&a, &h), 0);
	CHECK_EQ(nv_property_set(&a, WEFT_NVMF_PROP_CC, 0x460001), 0);
	CHECK_EQ(records(&a), 2);
	/* a wrong secret: that of the subsystem is another one */
	h.keys.host.key[0] ^= 1;
	nv_open(&n, 0, &b);
	CHECK_EQ(nv_connect(&b, h.subnqn, NV_HOST, 0xffff, 0, 31, 0), 0);
	CHECK_EQ(prove(&b, &h), WEFT_NVMF_AUTH_FAILED);
	nv_close(&b);
	CHECK_EQ(records(&a), 2);
	CHECK_EQ(weft_nvmf_auth_set(disc, NULL, 0, WEFT_NVMF_GROUP_NULL), 0);
	nv_poll(&n);
	CHECK(a.closed);
	nv_close(&a);
	CHECK_EQ(weft_nvmf_auth_set(disc, &h.keys, 1, WEFT_NVMF_GROUP_NULL), 0);
	nv_end(&n);
}

WEFT_TEST_MAIN({"vectors", test_vectors}, {"secrets", test_secrets}, {"groups", test_groups},
               {"what a reply of a group costs", test_cost}, {"exchanges", test_exchanges},
               {"a host denies the target's challenge or proof", test_denied},
               {"a stranger's messages give it no more time", test_time},
               {"a failure names the transaction", test_transaction},
               {"sequence numbers tell nothing of other hosts", test_seqnum},
               {"hosts take turns", test_turns},
               {"without secrets there is no thread", test_thread},
               {"the least group", test_least_group},
               {"discovery asks for a proof, too", test_discovery},
               {"secrets that come end hosts without a line", test_strangers},
               {"refusals", test_refusals})
