/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The messages of DH-HMAC-CHAP (NVMe Base 2.0 s8.13): Authentication Send and Receive. The
 * exchange of a queue:
 *
 *     negotiate -> challenge -> reply -> success1 [-> success2] -> proved
 *     any: failure1, and the queue ends
 */

#include <stdlib.h>

#include <openssl/crypto.h>

#include "nvmf_auth.h"

#define AUTH_MAX_BYTES 4096U /**< longest transfer of either command */
#define AUTH_PROTOCOL  0xe90101U
#define MSG_COMMON     0
#define MSG_DHCHAP     1
#define MSG_NEGOTIATE  0x00
#define MSG_CHALLENGE  0x01
#define MSG_REPLY      0x02
#define MSG_SUCCESS1   0x03
#define MSG_SUCCESS2   0x04
#define MSG_FAILURE2   0xf0
#define MSG_FAILURE1   0xf1
#define MSG_BYTES      16U /**< of those without a tail */
#define FAILURE_BYTES  8U  /**< what of AUTH_Failure2 has a meaning, and all that Linux sends */
#define NO_DUE         UINT64_MAX
#define NEGOTIATE_AT   8U /**< the first descriptor */
#define DESC_BYTES     64U
#define DESC_LIST      30U /**< octets of a descriptor's list */
#define DHCHAP_ID      1

static void
auth_wipe(struct nvmf_auth *a)
{
	nvmf_dhchap_key_free(a->key);
	a->key = NULL;
	explicit_bzero(a->challenge, sizeof(a->challenge));
	explicit_bzero(a->peer_challenge, sizeof(a->peer_challenge));
	explicit_bzero(a->proof, sizeof(a->proof));
	explicit_bzero(a->answer, sizeof(a->answer));
}

/** All of an exchange has to be over by then: the messages of a host do not give it more time. That
 * of a queue that is not proved yet began with Connect. */
static void
auth_begin_due(struct nvmf_auth *a)
{
	if (a->due_ns == NO_DUE)
		a->due_ns = a->group->now_ns + a->group->target->attr.connect_ns;
	a->group->next_ns = NVMF_MIN(a->group->next_ns, a->due_ns);
}

uint16_t
nvmf_auth_begin(struct weft_nvmf_queue *q, const struct weft_nvmf_subsys *s, const char *hostnqn,
                struct nvmf_auth **out)
{
	const struct weft_nvmf_auth *keys = nvmf_auth_find(s, hostnqn);
	struct nvmf_auth *a;

	*out = NULL;
	if (keys == NULL || keys->host.bytes == 0)
		return WEFT_NVMF_OK;
	a = calloc(1, sizeof(*a));
	if (a == NULL)
		return WEFT_NVMF_CONNECT_BUSY;
	a->group = q->group;
	a->keys = *keys;
	a->least = s->auth_least;
	a->due_ns = NO_DUE;
	auth_begin_due(a);
	*out = a;
	return WEFT_NVMF_OK;
}

void
nvmf_auth_free(struct nvmf_auth *a)
{
	if (a == NULL)
		return;
	auth_wipe(a);
	explicit_bzero(&a->keys, sizeof(a->keys));
	free(a);
}

/** Its host has not proved its name. */
static void
auth_tell(const struct nvmf_auth *a, uint8_t why)
{
	struct weft_nvmf *t = a->group->target;

	nvmf_lock(t);
	t->stats.auth_failed[why]++;
	nvmf_unlock(t);
	if (a->group->attr.auth_failed != NULL)
		a->group->attr.auth_failed(a->group, a->keys.hostnqn, why);
}

static void
auth_doom(struct weft_nvmf_queue *q)
{
	atomic_store_explicit(&q->doomed, true, memory_order_release);
	atomic_store_explicit(&q->group->attention, true, memory_order_release);
}

void
nvmf_auth_due(struct weft_nvmf_queue *q)
{
	struct weft_nvmf_group *g = q->group;

	if (q->auth == NULL || q->closing || atomic_load_explicit(&q->doomed, memory_order_acquire))
		return;
	if (g->now_ns < q->auth->due_ns) {
		g->next_ns = NVMF_MIN(g->next_ns, q->auth->due_ns);
		return;
	}
	/* a failure that the host has not received was told before */
	if (q->auth->state != NVMF_AUTH_FAILURE1)
		auth_tell(q->auth, WEFT_NVMF_AUTH_EXPIRED);
	auth_doom(q);
}

/** The host will receive AUTH_Failure1. A queue that was proved is not any more. */
static void
auth_fail(struct nvmf_auth *a, uint8_t why)
{
	auth_tell(a, why);
	a->state = NVMF_AUTH_FAILURE1;
	a->why = why;
	auth_begin_due(a);
	atomic_store_explicit(&a->proved, false, memory_order_release);
	auth_wipe(a);
}

static void
auth_proved(struct nvmf_auth *a)
{
	struct weft_nvmf *t = a->group->target;

	nvmf_lock(t);
	t->stats.auth_done++;
	nvmf_unlock(t);
	a->state = NVMF_AUTH_NEGOTIATE;
	a->due_ns = NO_DUE;
	atomic_store_explicit(&a->proved, true, memory_order_release);
	auth_wipe(a);
}

/** Do what may take long, and then `ready`. Without a group it does not, and is done here. */
static void
auth_work(struct nvmf_slot *s, int (*work)(struct nvmf_auth *a),
          void (*ready)(struct nvmf_auth *a, int status))
{
	struct nvmf_auth *a = s->queue->auth;
	struct weft_nvmf *t = a->group->target;

	a->slot = s;
	a->work = work;
	a->ready = ready;
	/* an I/O queue connects to a controller whose host is proved */
	a->of_proved = s->queue->qid > 0 || atomic_load_explicit(&a->proved, memory_order_relaxed);
	if (a->dh == 0) {
		ready(a, work(a));
	} else if (nvmf_auth_job(a) != 0) {
		a->slot = NULL;
		nvmf_lock(t);
		t->stats.auth_busy++;
		nvmf_unlock(t);
		nvmf_complete(s, WEFT_NVMF_INTERRUPTED);
	}
}

/* ---- Authentication Send ---- */

/** What of a list is the best that both have: the greatest number. Returns -1: nothing. */
static int
auth_best(const uint8_t *list, uint32_t n, int least, int most)
{
	int best = -1;

	for (uint32_t i = 0; i < n; i++)
		if (list[i] >= least && list[i] <= most && list[i] > best)
			best = list[i];
	return best;
}

/** AUTH_Negotiate. Returns 0, or why the exchange fails. */
static uint8_t
auth_negotiate(struct nvmf_auth *a, const uint8_t *m, uint32_t bytes)
{
	const uint8_t *desc = NULL;
	int hash, dh;

	a->tid = weft_nvmf_get16(m + 4);
	if (bytes < NEGOTIATE_AT || bytes != NEGOTIATE_AT + m[7] * DESC_BYTES)
		return WEFT_NVMF_AUTH_PAYLOAD;
	if (m[6] != 0)
		return WEFT_NVMF_AUTH_CONCATENATION;
	for (uint32_t i = 0; i < m[7] && desc == NULL; i++)
		if (m[NEGOTIATE_AT + i * DESC_BYTES] == DHCHAP_ID)
			desc = m + NEGOTIATE_AT + i * DESC_BYTES;
	if (desc == NULL)
		return WEFT_NVMF_AUTH_PROTOCOL;
	if (desc[2] > DESC_LIST || desc[3] > DESC_LIST)
		return WEFT_NVMF_AUTH_PAYLOAD;
	hash = auth_best(desc + 4, desc[2], 1, 3);
	if (hash < 0)
		return WEFT_NVMF_AUTH_HASH;
	dh = auth_best(desc + 4 + DESC_LIST, desc[3], a->least, NVMF_DHCHAP_GROUPS - 1);
	if (dh < 0)
		return WEFT_NVMF_AUTH_GROUP;
	a->hash = (uint8_t)hash;
	a->dh = (uint8_t)dh;
	a->state = NVMF_AUTH_CHALLENGE;
	auth_begin_due(a);
	return 0;
}

/** What a reply proves: 0; -EACCES: nothing. The thread's, or the group's. */
static int
auth_check(struct nvmf_auth *a)
{
	const struct weft_nvmf_queue *q = a->slot->queue;
	uint8_t shared[NVMF_DHCHAP_DH_MAX], want[NVMF_DHCHAP_HASH_MAX];
	struct nvmf_dhchap_in in = {.secret = &a->keys.host,
	                            .hash = a->hash,
	                            .challenge = a->challenge,
	                            .shared = shared,
	                            .shared_bytes = nvmf_dhchap_dh_bytes(a->dh),
	                            .seqnum = a->seqnum,
	                            .tid = a->tid,
	                            .role = "HostHost",
	                            .own = a->keys.hostnqn,
	                            .peer = q->ctrl->subsys->nqn};
	int r = 0;

	if (a->dh != 0)
		r = nvmf_dhchap_shared(a->dh, a->key, a->peer_pub, shared);
	if (r == 0)
		r = nvmf_dhchap_response(&in, want);
	if (r == 0 && CRYPTO_memcmp(want, a->proof, nvmf_dhchap_hash_bytes(a->hash)) != 0)
		r = -EACCES;
	if (r == 0 && a->mutual) {
		in.secret = &a->keys.ctrl;
		in.challenge = a->peer_challenge;
		in.seqnum = a->peer_seqnum;
		in.role = "Controller";
		in.own = q->ctrl->subsys->nqn;
		in.peer = a->keys.hostnqn;
		r = nvmf_dhchap_response(&in, a->answer);
	}
	explicit_bzero(shared, sizeof(shared));
	explicit_bzero(want, sizeof(want));
	return r;
}

static void
auth_checked(struct nvmf_auth *a, int status)
{
	struct nvmf_slot *s = a->slot;

	a->slot = NULL;
	if (status == -EINVAL)
		auth_fail(a, WEFT_NVMF_AUTH_PAYLOAD);
	else if (status != 0)
		auth_fail(a, WEFT_NVMF_AUTH_FAILED);
	else
		a->state = NVMF_AUTH_SUCCESS1;
	nvmf_complete(s, WEFT_NVMF_OK);
}

/** DH-HMAC-CHAP_Reply. Likewise. */
static uint8_t
auth_reply(struct nvmf_auth *a, const uint8_t *m, uint32_t bytes)
{
	const uint32_t hl = nvmf_dhchap_hash_bytes(a->hash), dh = nvmf_dhchap_dh_bytes(a->dh);

	if (bytes != MSG_BYTES + 2 * hl + dh || m[6] != hl || m[8] > 1 ||
	    weft_nvmf_get16(m + 10) != dh)
		return WEFT_NVMF_AUTH_PAYLOAD;
	a->mutual = m[8] == 1;
	a->peer_seqnum = weft_nvmf_get32(m + 12);
	if (a->mutual && a->peer_seqnum == 0)
		return WEFT_NVMF_AUTH_PAYLOAD;
	memcpy(a->proof, m + MSG_BYTES, hl);
	memcpy(a->peer_challenge, m + MSG_BYTES + hl, hl);
	memcpy(a->peer_pub, m + MSG_BYTES + 2 * hl, dh);
	/* A host that sends back what it got wants the controller to answer for it. */
	if ((a->mutual && memcmp(a->challenge, a->peer_challenge, hl) == 0) ||
	    (dh > 0 && memcmp(a->pub, a->peer_pub, dh) == 0))
		return WEFT_NVMF_AUTH_FAILED;
	return a->mutual && a->keys.ctrl.bytes == 0 ? WEFT_NVMF_AUTH_FAILED : 0;
}

static uint32_t
auth_length(const struct nvmf_slot *s)
{
	return s->sqe.cdw[11];
}

/** The fields that both commands have. */
static uint16_t
auth_start(struct nvmf_slot *s)
{
	if (s->queue->ctrl == NULL)
		return WEFT_NVMF_SEQUENCE;
	s->need_bytes = auth_length(s);
	if (s->queue->auth == NULL || s->sqe.cdw[10] >> 8 != AUTH_PROTOCOL || s->need_bytes == 0 ||
	    s->need_bytes > AUTH_MAX_BYTES) {
		s->need_bytes = 0;
		return NVMF_NEVER(WEFT_NVMF_INVALID_FIELD);
	}
	return WEFT_NVMF_OK;
}

uint16_t
nvmf_auth_send_start(struct nvmf_slot *s)
{
	s->in = true;
	return auth_start(s);
}

/** Whether it is a message's turn. */
static bool
auth_is_turn(const struct nvmf_auth *a, uint8_t type, uint8_t id)
{
	switch (a->state) {
	case NVMF_AUTH_NEGOTIATE:
		return type == MSG_COMMON && id == MSG_NEGOTIATE;
	case NVMF_AUTH_REPLY:
		return (type == MSG_DHCHAP && id == MSG_REPLY) ||
		       (type == MSG_COMMON && id == MSG_FAILURE2);
	case NVMF_AUTH_SUCCESS2:
		return (type == MSG_DHCHAP && id == MSG_SUCCESS2) ||
		       (type == MSG_COMMON && id == MSG_FAILURE2);
	default:
		return false;
	}
}

/** A message of the host's. Returns 0, or why the exchange fails; *later: the command is answered
 * later. */
static uint8_t
auth_message(struct nvmf_slot *s, const uint8_t *m, uint32_t bytes, bool *later)
{
	struct nvmf_auth *a = s->queue->auth;
	uint8_t why;

	if (bytes < 6)
		return WEFT_NVMF_AUTH_PAYLOAD;
	if (!auth_is_turn(a, m[0], m[1]))
		return WEFT_NVMF_AUTH_MESSAGE;
	if (a->state == NVMF_AUTH_NEGOTIATE)
		return auth_negotiate(a, m, bytes);
	if (bytes < FAILURE_BYTES || weft_nvmf_get16(m + 4) != a->tid)
		return WEFT_NVMF_AUTH_PAYLOAD;
	if (m[0] == MSG_COMMON)
		return WEFT_NVMF_AUTH_DENIED;
	if (a->state == NVMF_AUTH_REPLY) {
		why = auth_reply(a, m, bytes);
		*later = why == 0;
		return why;
	}
	if (bytes != MSG_BYTES)
		return WEFT_NVMF_AUTH_PAYLOAD;
	auth_proved(a);
	return 0;
}

void
nvmf_auth_send(struct nvmf_slot *s)
{
	struct nvmf_auth *a = s->queue->auth;
	const uint32_t bytes = auth_length(s);
	uint8_t m[AUTH_MAX_BYTES], why;
	bool later = false;

	if (a->slot != NULL || a->state == NVMF_AUTH_FAILURE1) {
		nvmf_complete(s, WEFT_NVMF_SEQUENCE);
		return;
	}
	nvmf_get(s, 0, m, bytes);
	why = auth_message(s, m, bytes, &later);
	explicit_bzero(m, bytes);
	if (later) {
		auth_work(s, auth_check, auth_checked);
		return;
	}
	if (why != 0)
		auth_fail(a, why);
	/* the host ends the connection, and receives no more */
	if (why == WEFT_NVMF_AUTH_DENIED)
		auth_doom(s->queue);
	nvmf_complete(s, WEFT_NVMF_OK);
}

/* ---- Authentication Receive ---- */

uint16_t
nvmf_auth_receive_start(struct nvmf_slot *s)
{
	return auth_start(s);
}

static void
auth_put(struct nvmf_slot *s, uint8_t type, uint8_t id, uint8_t *m, uint32_t bytes)
{
	m[0] = type;
	m[1] = id;
	weft_nvmf_put16(m + 4, s->queue->auth->tid);
	nvmf_zero(s);
	nvmf_put(s, 0, m, bytes);
}

/** AUTH_Failure1: the queue ends when the host has it. */
static void
auth_put_failure(struct nvmf_slot *s)
{
	uint8_t m[MSG_BYTES] = {0};

	m[6] = 1;
	m[7] = s->queue->auth->why;
	auth_put(s, MSG_COMMON, MSG_FAILURE1, m, sizeof(m));
	auth_doom(s->queue);
	nvmf_complete(s, WEFT_NVMF_OK);
}

/** A fresh key of the group. The thread's. */
static int
auth_make_key(struct nvmf_auth *a)
{
	return a->dh == 0 ? 0 : nvmf_dhchap_key(a->dh, &a->key, a->pub);
}

/** A challenge and its sequence number, which is not 0. The first one of a queue is random: it
 * tells a host nothing of what others did. 0 or -errno. */
static int
auth_draw(struct nvmf_auth *a, uint32_t bytes)
{
	const struct weft_nvmf *t = a->group->target;
	int r = t->attr.random(a->challenge, bytes);

	if (r == 0 && a->seqnum == 0)
		r = t->attr.random(&a->seqnum, sizeof(a->seqnum));
	if (++a->seqnum == 0)
		a->seqnum = 1;
	return r;
}

static void
auth_put_challenge(struct nvmf_auth *a, int status)
{
	const uint32_t hl = nvmf_dhchap_hash_bytes(a->hash), dh = nvmf_dhchap_dh_bytes(a->dh);
	uint8_t m[MSG_BYTES + NVMF_DHCHAP_HASH_MAX + NVMF_DHCHAP_DH_MAX] = {0};
	struct nvmf_slot *s = a->slot;

	a->slot = NULL;
	if (status != 0 || auth_draw(a, hl) != 0) {
		auth_fail(a, WEFT_NVMF_AUTH_FAILED);
		auth_put_failure(s);
		return;
	}
	m[6] = (uint8_t)hl;
	m[8] = a->hash;
	m[9] = a->dh;
	weft_nvmf_put16(m + 10, (uint16_t)dh);
	weft_nvmf_put32(m + 12, a->seqnum);
	memcpy(m + MSG_BYTES, a->challenge, hl);
	memcpy(m + MSG_BYTES + hl, a->pub, dh);
	auth_put(s, MSG_DHCHAP, MSG_CHALLENGE, m, MSG_BYTES + hl + dh);
	a->state = NVMF_AUTH_REPLY;
	nvmf_complete(s, WEFT_NVMF_OK);
}

static void
auth_put_success(struct nvmf_slot *s)
{
	struct nvmf_auth *a = s->queue->auth;
	const uint32_t hl = nvmf_dhchap_hash_bytes(a->hash);
	uint8_t m[MSG_BYTES + NVMF_DHCHAP_HASH_MAX] = {0};

	m[6] = (uint8_t)hl;
	m[8] = a->mutual;
	memcpy(m + MSG_BYTES, a->answer, a->mutual ? hl : 0);
	auth_put(s, MSG_DHCHAP, MSG_SUCCESS1, m, MSG_BYTES + (a->mutual ? hl : 0));
	if (a->mutual)
		a->state = NVMF_AUTH_SUCCESS2;
	else
		auth_proved(a);
	nvmf_complete(s, WEFT_NVMF_OK);
}

void
nvmf_auth_receive(struct nvmf_slot *s)
{
	struct nvmf_auth *a = s->queue->auth;
	uint32_t need = MSG_BYTES;

	if (a->slot != NULL) {
		nvmf_complete(s, WEFT_NVMF_SEQUENCE);
		return;
	}
	if (a->state == NVMF_AUTH_CHALLENGE)
		need += nvmf_dhchap_hash_bytes(a->hash) + nvmf_dhchap_dh_bytes(a->dh);
	else if (a->state == NVMF_AUTH_SUCCESS1 && a->mutual)
		need += nvmf_dhchap_hash_bytes(a->hash);
	if (auth_length(s) < need) {
		nvmf_complete(s, NVMF_NEVER(WEFT_NVMF_INVALID_FIELD));
		return;
	}
	if (a->state == NVMF_AUTH_CHALLENGE) {
		auth_work(s, auth_make_key, auth_put_challenge);
	} else if (a->state == NVMF_AUTH_SUCCESS1) {
		auth_put_success(s);
	} else {
		if (a->state != NVMF_AUTH_FAILURE1)
			auth_fail(a, WEFT_NVMF_AUTH_MESSAGE);
		auth_put_failure(s);
	}
}

/* ---- Keys ---- */

static bool
auth_same(const struct weft_nvmf_auth *a, const struct weft_nvmf_auth *b)
{
	if (a == NULL || b == NULL)
		return a == b;
	return memcmp(&a->host, &b->host, sizeof(a->host)) == 0 &&
	       memcmp(&a->ctrl, &b->ctrl, sizeof(a->ctrl)) == 0;
}

static int
auth_entries_ok(const struct weft_nvmf_auth *entries, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		if (!weft_nvmf_nqn_ok(entries[i].hostnqn))
			return -EINVAL;
		for (uint32_t k = 0; k < i; k++)
			if (strcmp(entries[i].hostnqn, entries[k].hostnqn) == 0)
				return -EEXIST;
	}
	return 0;
}

/** Whether the subsystem knows just this: each reload of a configuration sets it again. */
static bool
auth_set_before(const struct weft_nvmf_subsys *s, const struct weft_nvmf_auth *entries, uint32_t n)
{
	bool same;

	nvmf_lock(s->target);
	same = n == s->nauth;
	for (uint32_t i = 0; i < n && same; i++)
		same = strcmp(s->auth[i].hostnqn, entries[i].hostnqn) == 0 &&
		       auth_same(&s->auth[i], &entries[i]);
	nvmf_unlock(s->target);
	return same;
}

int
weft_nvmf_auth_set(struct weft_nvmf_subsys *s, const struct weft_nvmf_auth *entries, uint32_t n,
                   uint8_t least)
{
	struct weft_nvmf *t = s->target;
	struct weft_nvmf_subsys was = {0}, is = {.nauth = n};
	struct nvmf_ctrl *c;
	int r = auth_entries_ok(entries, n);

	if (r != 0 || (n > 0 && t->attr.random == NULL) || least >= NVMF_DHCHAP_GROUPS)
		return r != 0 ? r : -EINVAL;
	nvmf_lock(t);
	s->auth_least = least;
	nvmf_unlock(t);
	if (auth_set_before(s, entries, n))
		return 0;
	if (n > 0) {
		r = nvmf_auth_jobs_start(t);
		if (r != 0)
			return r;
	}
	is.auth = n == 0 ? NULL : calloc(n, sizeof(is.auth[0]));
	if (n > 0 && is.auth == NULL)
		return -ENOMEM;
	if (n > 0)
		memcpy(is.auth, entries, n * sizeof(is.auth[0]));
	nvmf_lock(t);
	was.auth = s->auth;
	was.nauth = s->nauth;
	s->auth = is.auth;
	s->nauth = n;
	LIST_FOREACH (c, &t->ctrls, link)
		/* without entries before, hosts were admitted that have none now either */
		if (c->subsys == s &&
		    (!nvmf_host_ok(s, c->hostnqn) ||
		     !auth_same(nvmf_auth_find(&was, c->hostnqn), nvmf_auth_find(s, c->hostnqn))))
			nvmf_ctrl_end(c);
	nvmf_discovery_changed(t);
	nvmf_unlock(t);
	if (was.auth != NULL)
		explicit_bzero(was.auth, was.nauth * sizeof(was.auth[0]));
	free(was.auth);
	return 0;
}
