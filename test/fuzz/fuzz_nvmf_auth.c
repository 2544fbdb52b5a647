/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Messages of DH-HMAC-CHAP, on several queues of hosts that know their secret. The input's
 * first octet says what the rest is: one message, to a queue in a state that the second octet names
 * (without a state of its own), steps of hosts that send messages right, changed or made up (with
 * one), or a secret as text. No queue is proved unless its host has sent the right proof for the
 * last challenge; none is after a failure; octets behind a message are 0; the right messages prove
 * a name; each command is answered at most once, and nothing is left at the end.
 */

#include <errno.h>
#include <unistd.h>

#include "fuzz.h"
#include "nvmf_dhchap.h"
#include "nvmf_host.h"
#include "weft_nvmf.h"
#include "weft_nvmf_transport.h"

#define QUEUES    4
#define HELD      8
#define MESSAGES  1024  /**< more than OPS_MAX steps send */
#define ROOM      4096U /**< longest message */
#define OPS_MAX   120
#define DH_MAX    4 /**< exchanges of an input with a group, which take milliseconds */
#define POLLS_MAX 400000
#define REQUIRED  0x4191
#define SUBSYS    "nqn.2026-01.org.example:fuzz"
#define MUTUAL    "nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555"
#define ALONE     "nqn.2014-08.org.nvmexpress:uuid:22222222-2222-3333-4444-555555555555"

/** A queue, and what its host knows. */
struct aq {
	struct weft_nvmf_queue *q;
	bool hold, closed, gone, connected;
	bool late; /**< messages have come later than they were sent, and in another order */
	struct weft_nvmf_cmd *pull[HELD];
	unsigned int pulls, capsules;
	uint64_t taken, answered;
	uint16_t status;
	uint8_t in[ROOM]; /**< what was pushed last */
	uint32_t in_bytes;
	const char *name;
	uint16_t tid;
	/** the challenge that was received last; no hash: none */
	uint8_t hash, dh, challenge[NVMF_DHCHAP_HASH_MAX], pub[NVMF_DHCHAP_DH_MAX];
	uint32_t seqnum;
	bool mutual;  /**< the host's last reply asked for the controller's proof */
	bool replied; /**< it had the right proof, */
	bool right;   /**< and all was sent that proves the name */
	bool failed;
	bool spoiled; /**< an octet of its last proof was wrong */
};

static struct weft_nvmf *target;
static struct weft_nvmf_subsys *subsys;
static struct weft_nvmf_group *group;
static uint8_t *memory;
static uint64_t memory_bytes, now_ns;
static struct aq queue[QUEUES];
static struct weft_nvmf_auth keys[2];
/** Messages of the hosts; an SGL's address is an index. */
static uint8_t *message[MESSAGES];
static unsigned int messages, groups_used;
static uint64_t drawn;

static int
draw(void *to, size_t bytes)
{
	uint8_t *p = to;

	for (size_t i = 0; i < bytes; i++) {
		drawn = drawn * 6364136223846793005ULL + 1442695040888963407ULL;
		p[i] = (uint8_t)(drawn >> 56);
	}
	return 0;
}

static void
on_release(struct weft_nvmf_queue *wq, void *capsule)
{
	struct aq *q = weft_nvmf_queue_owner(wq);

	FUZZ_CHECK(q->capsules > 0);
	q->capsules--;
	free(capsule);
}

static void
fill(struct weft_nvmf_cmd *cmd)
{
	const uint8_t *from = message[cmd->sgl.addr];

	for (uint32_t i = 0; i < cmd->iovs; i++) {
		memcpy(cmd->iov[i].iov_base, from, cmd->iov[i].iov_len);
		from += cmd->iov[i].iov_len;
	}
}

static void
on_pull(struct weft_nvmf_cmd *cmd)
{
	struct aq *q = weft_nvmf_queue_owner(cmd->queue);

	if (q->hold && q->pulls < HELD) {
		q->pull[q->pulls++] = cmd;
		return;
	}
	fill(cmd);
	weft_nvmf_pulled(cmd, 0);
}

static void
on_answer(struct weft_nvmf_cmd *cmd)
{
	struct aq *q = weft_nvmf_queue_owner(cmd->queue);
	struct weft_nvmf_cqe cqe;

	nv_cqe_decode(cmd->answer, &cqe);
	q->answered++;
	FUZZ_CHECK(q->answered <= q->taken);
	q->status = cqe.status;
	q->in_bytes = 0;
	FUZZ_CHECK(cmd->push_bytes <= ROOM && (cmd->push_bytes == 0 || cqe.status == 0));
	for (uint32_t i = 0; i < cmd->iovs && q->in_bytes < cmd->push_bytes; i++) {
		memcpy(q->in + q->in_bytes, cmd->iov[i].iov_base, cmd->iov[i].iov_len);
		q->in_bytes += (uint32_t)cmd->iov[i].iov_len;
	}
	FUZZ_CHECK(q->in_bytes == cmd->push_bytes);
	weft_nvmf_sent(cmd);
}

static void
on_close(struct weft_nvmf_queue *wq)
{
	struct aq *q = weft_nvmf_queue_owner(wq);

	FUZZ_CHECK(!q->closed);
	q->closed = true;
}

static void
on_gone(struct weft_nvmf_queue *wq)
{
	struct aq *q = weft_nvmf_queue_owner(wq);

	FUZZ_CHECK(q->capsules == 0 && q->pulls == 0);
	q->gone = true;
}

static const struct weft_nvmf_transport_ops ops = {.name = "fuzz",
                                                   .sgl_kinds = 1U << WEFT_NVMF_SGL_KEYED,
                                                   .release = on_release,
                                                   .pull = on_pull,
                                                   .answer = on_answer,
                                                   .close = on_close,
                                                   .gone = on_gone};

static void
set_up(void)
{
	const struct weft_nvmf_attr attr = {.max_io_queues = 3, .random = draw};
	const struct weft_nvmf_subsys_attr sa = {
	        .nqn = SUBSYS, .serial = "1", .any_host = true, .max_nsid = 1};
	struct weft_nvmf_group_attr ga = {0};

	FUZZ_CHECK(weft_nvmf_create(&attr, &target) == 0);
	FUZZ_CHECK(weft_nvmf_subsys_add(target, &sa, &subsys) == 0);
	memory_bytes = weft_nvmf_group_min_bytes(target);
	FUZZ_CHECK(posix_memalign((void **)&memory, 4096, memory_bytes) == 0);
	ga.memory = memory;
	ga.bytes = memory_bytes;
	FUZZ_CHECK(weft_nvmf_group_open(target, &ga, &group) == 0);
	strcpy(keys[0].hostnqn, MUTUAL);
	strcpy(keys[1].hostnqn, ALONE);
	keys[0].host = (struct weft_nvmf_secret){.key = {1, 2, 3}, .bytes = 32, .hash = 1};
	keys[0].ctrl = (struct weft_nvmf_secret){.key = {4, 5, 6}, .bytes = 48, .hash = 2};
	keys[1].host = (struct weft_nvmf_secret){.key = {7, 8, 9}, .bytes = 64, .hash = 0};
}

static void
poll_all(void)
{
	(void)weft_nvmf_group_poll(group, now_ns);
}

static void
open_queue(struct aq *q)
{
	const struct weft_nvmf_queue_attr a = {
	        .ops = &ops, .owner = q, .depth = 16, .inline_bytes = 0, .qid = -1};

	memset(q, 0, sizeof(*q));
	FUZZ_CHECK(weft_nvmf_queue_open(group, &a, &q->q) == 0);
}

static void
lose(struct aq *q)
{
	const uint64_t before = q->answered;

	if (q->gone)
		return;
	weft_nvmf_queue_lost(q->q);
	while (q->pulls > 0)
		weft_nvmf_pulled(q->pull[--q->pulls], -ECONNRESET);
	for (unsigned int i = 0; !q->gone; i++) {
		FUZZ_CHECK(i < POLLS_MAX);
		poll_all();
		if (!q->gone)
			usleep(50);
	}
	FUZZ_CHECK(q->answered == before);
}

/** A command with data, or room for it. Waits for its answer, unless data is held. */
static void
do_command(struct aq *q, struct weft_nvmf_sqe *sqe, const void *data, uint32_t bytes)
{
	struct weft_nvmf_sgl sgl = {.kind = WEFT_NVMF_SGL_KEYED, .bytes = bytes};
	uint8_t *capsule = malloc(WEFT_NVMF_SQE_BYTES);
	const uint64_t before = q->answered;
	int r;

	FUZZ_CHECK(capsule != NULL && messages < MESSAGES);
	q->status = 0xffff;
	q->in_bytes = 0;
	if (q->gone) {
		free(capsule);
		return;
	}
	if (data != NULL) {
		/* of its length, so that a read beyond it is seen */
		sgl.addr = messages;
		message[messages] = malloc(bytes > 0 ? bytes : 1);
		FUZZ_CHECK(message[messages] != NULL);
		memcpy(message[messages++], data, bytes);
	}
	sqe->opcode = WEFT_NVMF_OP_FABRICS;
	nv_sgl_encode(&sgl, sqe);
	nv_sqe_encode(sqe, capsule);
	q->capsules++;
	q->taken++;
	r = weft_nvmf_command(q->q, capsule, WEFT_NVMF_SQE_BYTES);
	if (r != 0) {
		FUZZ_CHECK(r == -EPROTO || r == -EAGAIN || r == -ESHUTDOWN);
		q->capsules--;
		q->taken--;
		free(capsule);
		return;
	}
	for (unsigned int i = 0; q->answered == before && q->pulls == 0; i++) {
		FUZZ_CHECK(i < POLLS_MAX);
		poll_all();
		if (q->answered == before && i > 3)
			usleep(50);
	}
	poll_all();
}

static void
connect_queue(struct aq *q, const char *name)
{
	struct weft_nvmf_connect c = {.cntlid = 0xffff, .subnqn = SUBSYS};
	struct weft_nvmf_sqe s = {.fctype = WEFT_NVMF_FC_CONNECT};
	uint8_t data[WEFT_NVMF_CONNECT_BYTES];

	strcpy(c.hostnqn, name);
	nv_connect_encode(&c, data);
	s.cdw[11] = 15;
	do_command(q, &s, data, sizeof(data));
	if (q->status == 0 && !q->connected) {
		q->connected = true;
		q->name = name;
	}
}

static const struct weft_nvmf_auth *
keys_of(const struct aq *q)
{
	return strcmp(q->name, MUTUAL) == 0 ? &keys[0] : &keys[1];
}

static void
send_message(struct aq *q, const uint8_t *m, uint32_t bytes)
{
	struct weft_nvmf_sqe s = {.fctype = WEFT_NVMF_FC_AUTH_SEND};

	s.cdw[10] = 0xe90101U << 8;
	s.cdw[11] = bytes;
	do_command(q, &s, m, bytes);
}

/** What is received: a challenge is kept. */
static void
receive(struct aq *q, uint32_t room)
{
	struct weft_nvmf_sqe s = {.fctype = WEFT_NVMF_FC_AUTH_RECEIVE};
	uint32_t hl, dh, len = 16;

	s.cdw[10] = 0xe90101U << 8;
	s.cdw[11] = room;
	do_command(q, &s, NULL, room);
	if (q->in_bytes < 16)
		return;
	FUZZ_CHECK(weft_nvmf_get16(q->in + 4) == q->tid || q->in[1] == 0xf1 || q->late);
	hl = q->in[6];
	if (q->in[0] == 0) {
		FUZZ_CHECK(q->in[1] == 0xf1 && q->in[6] == 1);
		FUZZ_CHECK(q->in[7] >= WEFT_NVMF_AUTH_FAILED && q->in[7] <= WEFT_NVMF_AUTH_MESSAGE);
		q->failed = true;
	} else if (q->in[1] == 1) {
		q->hash = q->in[8];
		q->dh = q->in[9];
		dh = weft_nvmf_get16(q->in + 10);
		FUZZ_CHECK(hl == nvmf_dhchap_hash_bytes(q->hash) && hl > 0);
		FUZZ_CHECK(dh == nvmf_dhchap_dh_bytes(q->dh));
		q->seqnum = weft_nvmf_get32(q->in + 12);
		FUZZ_CHECK(q->seqnum != 0);
		memcpy(q->challenge, q->in + 16, hl);
		memcpy(q->pub, q->in + 16 + hl, dh);
		len += hl + dh;
		q->replied = false;
	} else {
		FUZZ_CHECK(q->in[1] == 3 && q->replied && q->in[8] <= 1);
		FUZZ_CHECK(q->in[8] == q->mutual || q->late);
		len += q->in[8] == 1 ? hl : 0;
	}
	for (uint32_t i = len; i < q->in_bytes; i++)
		FUZZ_CHECK(q->in[i] == 0);
}

static uint32_t
negotiate_make(struct fuzz_in *in, struct aq *q, uint8_t *m)
{
	const uint8_t how = fuzz_u8(in);

	q->tid = (uint16_t)(how << 8 | 0x34);
	memset(m, 0, 72);
	weft_nvmf_put16(m + 4, q->tid);
	m[7] = m[8] = 1;
	m[10] = 3;
	m[11] = 1;
	m[12] = (uint8_t)(1 + how % 3);
	m[13] = 1;
	/* a key of the greatest group takes four times the time of the least */
	if ((how & 0xc0) == 0xc0 && groups_used++ < DH_MAX)
		m[42] = 1;
	return 72;
}

/** The right reply; or one with an octet of the proof that is not right. */
static uint32_t
reply_make(struct fuzz_in *in, struct aq *q, uint8_t *m, uint8_t *right)
{
	const uint8_t how = fuzz_u8(in);
	const uint32_t hl = nvmf_dhchap_hash_bytes(q->hash), dh = nvmf_dhchap_dh_bytes(q->dh);
	uint8_t shared[NVMF_DHCHAP_DH_MAX];
	const struct nvmf_dhchap_in what = {.secret = &keys_of(q)->host,
	                                    .hash = q->hash,
	                                    .challenge = q->challenge,
	                                    .shared = shared,
	                                    .shared_bytes = dh,
	                                    .seqnum = q->seqnum,
	                                    .tid = q->tid,
	                                    .role = "HostHost",
	                                    .own = q->name,
	                                    .peer = SUBSYS};
	void *key = NULL;

	memset(m, 0, 16);
	m[0] = 1;
	m[1] = 2;
	weft_nvmf_put16(m + 4, q->tid);
	m[6] = (uint8_t)hl;
	m[8] = how & 1;
	weft_nvmf_put16(m + 10, (uint16_t)dh);
	weft_nvmf_put32(m + 12, 7);
	memset(m + 16 + hl, 0x5a, hl);
	if (dh > 0) {
		FUZZ_CHECK(nvmf_dhchap_key(q->dh, &key, m + 16 + 2 * hl) == 0);
		FUZZ_CHECK(nvmf_dhchap_shared(q->dh, key, q->pub, shared) == 0);
		nvmf_dhchap_key_free(key);
	}
	FUZZ_CHECK(nvmf_dhchap_response(&what, m + 16) == 0);
	memcpy(right, m + 16, hl);
	q->spoiled = (how & 0x80) != 0;
	if (q->spoiled)
		m[16 + (how >> 1) % hl] ^= (uint8_t)(1U << how % 8);
	return 16 + 2 * hl + dh;
}

/** Send what is the host's turn: kind 0 negotiation, 1 reply, 2 success. The message is as it
 * should be but for `changes` octets that the input names, and its length. */
static void
step(struct fuzz_in *in, struct aq *q, unsigned int kind, unsigned int changes)
{
	uint8_t m[ROOM] = {0}, right[NVMF_DHCHAP_HASH_MAX];
	uint32_t bytes = 16, hl = nvmf_dhchap_hash_bytes(q->hash);

	if (!q->connected || (kind == 1 && hl == 0))
		return;
	if (kind == 0) {
		bytes = negotiate_make(in, q, m);
	} else if (kind == 1) {
		bytes = reply_make(in, q, m, right);
	} else {
		m[0] = 1;
		m[1] = 4;
		weft_nvmf_put16(m + 4, q->tid);
	}
	for (unsigned int i = 0; i < changes; i++)
		m[fuzz_u16(in) % bytes] = fuzz_u8(in);
	if (changes > 2)
		bytes = 1 + fuzz_u16(in) % ROOM;
	if (changes > 0)
		q->tid = kind == 0 ? weft_nvmf_get16(m + 4) : q->tid;
	/* A queue that is held sends the octets later: they may be right then, too. */
	if (m[0] == 1 && m[1] == 2 && hl > 0) {
		q->mutual = m[8] == 1;
		q->replied = q->replied || (kind == 1 && memcmp(right, m + 16, hl) == 0);
		q->right = q->right || (q->replied && !q->mutual);
	} else if (m[0] == 1 && m[1] == 4) {
		q->right = q->right || q->replied;
	}
	send_message(q, m, bytes);
}

/** Octets of the input as a message. */
static void
raw(struct fuzz_in *in, struct aq *q, size_t most)
{
	size_t len;
	const uint8_t *p = fuzz_octets(in, most, &len);

	if (len == 0 || !q->connected)
		return;
	if (len >= 6 && p[0] == 0 && p[1] == 0)
		q->tid = weft_nvmf_get16(p + 4);
	q->right = q->right || (q->replied && len > 1 && p[0] == 1 && p[1] == 4);
	send_message(q, p, (uint32_t)len);
}

/** Whether the queue may be used: a property is asked for. */
static void
probe(struct aq *q)
{
	struct weft_nvmf_sqe s = {.fctype = WEFT_NVMF_FC_PROPERTY_GET};

	if (!q->connected || q->pulls > 0)
		return;
	s.cdw[11] = WEFT_NVMF_PROP_VS;
	do_command(q, &s, NULL, 0);
	FUZZ_CHECK(q->status == 0xffff || q->status == REQUIRED ||
	           (q->status == 0 && q->right && !q->failed));
}

/** A host that does all as it should is proved, and one that has not got the proof right fails. */
static void
whole(struct fuzz_in *in, struct aq *q, const char *name)
{
	lose(q);
	open_queue(q);
	connect_queue(q, name);
	if (!q->connected)
		return;
	step(in, q, 0, 0);
	receive(q, ROOM);
	FUZZ_CHECK(!q->failed);
	step(in, q, 1, 0);
	receive(q, ROOM);
	FUZZ_CHECK(q->failed == (q->spoiled || (q->mutual && keys_of(q)->ctrl.bytes == 0)));
	if (q->failed)
		return;
	if (q->mutual)
		step(in, q, 2, 0);
	probe(q);
	FUZZ_CHECK(q->status == 0);
}

static void
secret(const uint8_t *data, size_t size)
{
	struct weft_nvmf_secret out;
	const char *why;
	char text[256];
	int r;

	size = size < sizeof(text) ? size : sizeof(text) - 1;
	memcpy(text, data, size);
	text[size] = '\0';
	r = weft_nvmf_secret_decode(text, &out, &why);
	FUZZ_CHECK(r == 0 || (r == -EINVAL && why != NULL && out.bytes == 0));
	FUZZ_CHECK(r != 0 ||
	           ((out.bytes == 32 || out.bytes == 48 || out.bytes == 64) && out.hash <= 3));
}

/** One message, to a queue that waits for a negotiation, a receive, a reply, or for what follows
 * the controller's proof. */
static void
one_message(struct fuzz_in *in)
{
	const uint8_t state = fuzz_u8(in);
	const uint8_t zeros[4] = {0, 1, 1, 1};
	struct fuzz_in none = {zeros, sizeof(zeros)};
	struct aq *q = &queue[0];

	open_queue(q);
	connect_queue(q, MUTUAL);
	if (state % 4 > 0)
		step(&none, q, 0, 0);
	if (state % 4 > 1)
		receive(q, ROOM);
	if (state % 4 > 2) {
		step(&none, q, 1, 0);
		receive(q, ROOM);
	}
	raw(in, q, ROOM);
	probe(q);
	receive(q, ROOM);
	probe(q);
	lose(q);
}

static void
steps(struct fuzz_in *in)
{
	for (unsigned int i = 0; i < QUEUES; i++) {
		open_queue(&queue[i]);
		connect_queue(&queue[i], i % 2 == 0 ? MUTUAL : ALONE);
	}
	for (unsigned int n = 0; in->left > 0 && n < OPS_MAX; n++) {
		const uint8_t op = fuzz_u8(in);
		struct aq *q = &queue[op % QUEUES];
		const char *name = op & 4 ? MUTUAL : ALONE;

		switch (op >> 3) {
		case 0:
			lose(q);
			open_queue(q);
			connect_queue(q, name);
			break;
		case 1:
			whole(in, q, name);
			break;
		case 2:
			raw(in, q, fuzz_u8(in));
			break;
		case 3:
			receive(q, fuzz_u16(in));
			break;
		case 4:
			now_ns += (uint64_t)fuzz_u8(in) * 100000000;
			poll_all();
			break;
		case 5:
			q->hold = !q->hold;
			q->late = true;
			break;
		case 6:
			if (q->pulls > 0) {
				struct weft_nvmf_cmd *cmd = q->pull[--q->pulls];

				fill(cmd);
				weft_nvmf_pulled(cmd, fuzz_u8(in) == 0 ? -EIO : 0);
				poll_all();
			}
			break;
		case 7:
			/* other keys, or another least group: those of the same keys stay */
			keys[op & 1].host.key[9] = fuzz_u8(in);
			FUZZ_CHECK(weft_nvmf_auth_set(subsys, keys, 2, 0) == 0);
			poll_all();
			break;
		case 8:
		case 9:
		case 10:
			step(in, q, (unsigned int)(op >> 3) - 8, fuzz_u8(in) & 3);
			break;
		case 11:
			connect_queue(q, name);
			break;
		case 12:
		case 13:
		case 14:
			step(in, q, (unsigned int)(op >> 3) - 12, 0);
			break;
		case 15:
		case 16:
			probe(q);
			break;
		default:
			receive(q, ROOM);
			break;
		}
	}
	for (unsigned int i = 0; i < QUEUES; i++)
		lose(&queue[i]);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_in in = {data, size};
	struct weft_nvmf_stats stats;
	uint8_t kind;

	if (target == NULL)
		set_up();
	kind = fuzz_u8(&in);
	if (kind % 4 == 0) {
		secret(in.p, in.left);
		return 0;
	}
	/* nothing of an input before: other memory, other numbers, the keys of the start */
	memset(memory, 0xa5, memory_bytes);
	drawn = 1;
	groups_used = 0;
	keys[0].host.key[9] = keys[1].host.key[9] = 0;
	FUZZ_CHECK(weft_nvmf_auth_set(subsys, keys, 2, 0) == 0);
	if (kind % 4 == 1)
		one_message(&in);
	else
		steps(&in);
	while (messages > 0)
		free(message[--messages]);
	weft_nvmf_query_stats(target, &stats);
	FUZZ_CHECK(stats.ctrls == 0 && stats.queues == 0);
	return 0;
}
