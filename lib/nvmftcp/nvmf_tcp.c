/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Connections of the TCP transport: see weft_nvmf_tcp.h. A connection is freed when neither
 * its stream nor its queue is there any more.
 */

#include <stdlib.h>

#include "nvmf_tcp_priv.h"

#define TCP_STALL_NS   30000000000ULL
#define TCP_DATA_BYTES (1U << 20)
#define TCP_HANDSHAKES 32U
#define TCP_HAND_NS    5000000000ULL
/** RFC 8446 s5.5: records of full length, 2^24 of them. */
#define TCP_KEY_BYTES (1ULL << 38)

static void
tcp_free(struct tcp_conn *c)
{
	if (c->s != NULL || c->q != NULL)
		return;
	LIST_REMOVE(c, link);
	c->t->stats.conns--;
	nvmf_tcp_tx_end(c);
	nvmf_tcp_rx_end(c);
	nvmf_tcp_tls_end(c);
	free(c->pulls);
	free(c->tags);
	free(c);
}

/** The queue has lost its connection: what waits for the host is done. */
static void
tcp_lost(struct tcp_conn *c)
{
	struct weft_nvmf_cmd *cmd;

	if (c->lost || c->q == NULL)
		return;
	c->lost = true;
	c->deaf = true;
	nvmf_tcp_tls_lost(c);
	weft_nvmf_queue_lost(c->q);
	c->rx.cmd = NULL;
	for (uint32_t i = 0; c->npulls > 0 && i < c->t->attr.depth; i++) {
		cmd = c->pulls[i].cmd;
		if (cmd == NULL)
			continue;
		c->pulls[i].cmd = NULL;
		c->npulls--;
		weft_nvmf_pulled(cmd, -ECONNRESET);
	}
	while ((cmd = tcp_cmds_take(&c->tx.answers)) != NULL)
		weft_nvmf_sent(cmd);
}

/** Reset it now. */
static void
tcp_reset(struct tcp_conn *c)
{
	struct weft_stream *s = c->s;

	c->s = NULL;
	c->close_ns = 0;
	if (s != NULL)
		weft_stream_abort(s);
	tcp_lost(c);
	tcp_free(c);
}

/* ---- The queue's calls ---- */

static void
tcp_release(struct weft_nvmf_queue *q, void *capsule)
{
	nvmf_tcp_rx_release(weft_nvmf_queue_owner(q), capsule);
}

/** Ask for the data: all of it, by one R2T. */
static void
tcp_pull(struct weft_nvmf_cmd *cmd)
{
	struct tcp_conn *c = weft_nvmf_queue_owner(cmd->queue);
	uint16_t tag;

	/* There is a tag: the queue has as many commands. */
	tag = c->tags[c->t->attr.depth - ++c->npulls];
	c->pulls[tag] = (struct tcp_pull){.cmd = cmd};
	cmd->transport[TCP_BYTES] = cmd->transport[TCP_BAD] = 0;
	cmd->transport[TCP_TAG] = tag;
	tcp_cmds_put(&c->tx.r2ts, cmd);
	tcp_watch(c);
	nvmf_tcp_tx(c);
}

static void
tcp_answer(struct weft_nvmf_cmd *cmd)
{
	struct tcp_conn *c = weft_nvmf_queue_owner(cmd->queue);

	cmd->transport[TCP_BYTES] = 0;
	/* Connect's makes it less */
	c->rules.capsule_bytes = weft_nvmf_queue_inline_bytes(cmd->queue);
	tcp_cmds_put(&c->tx.answers, cmd);
	nvmf_tcp_tx(c);
}

static void
tcp_close(struct weft_nvmf_queue *q)
{
	struct tcp_conn *c = weft_nvmf_queue_owner(q);

	c->closing = true;
	tcp_close_by(c, tcp_now(c) + TCP_CLOSE_NS);
	nvmf_tcp_tx(c);
}

static void
tcp_gone(struct weft_nvmf_queue *q)
{
	struct tcp_conn *c = weft_nvmf_queue_owner(q);

	c->q = NULL;
	tcp_free(c);
}

static const struct weft_nvmf_transport_ops tcp_ops = {.name = "TCP",
                                                       .sgl_kinds = 1U << WEFT_NVMF_SGL_CAPSULE |
                                                                    1U << WEFT_NVMF_SGL_TRANSPORT,
                                                       .release = tcp_release,
                                                       .pull = tcp_pull,
                                                       .answer = tcp_answer,
                                                       .close = tcp_close,
                                                       .gone = tcp_gone};

/* ---- The stream's callbacks ---- */

static void
tcp_on_writable(void *user)
{
	nvmf_tcp_out_flush(user);
	nvmf_tcp_tx(user);
}

/** A host that closes takes no answer any more. */
static void
tcp_on_eof(void *user)
{
	struct tcp_conn *c = user;

	tcp_close_by(c, tcp_now(c) + TCP_CLOSE_NS);
	tcp_lost(c);
	nvmf_tcp_out_close(c);
}

static void
tcp_on_received(void *user, const void *data, size_t bytes)
{
	if (!nvmf_tcp_tls_rx(user, data, bytes))
		tcp_on_eof(user);
}

static void
tcp_on_ended(void *user, int status)
{
	struct tcp_conn *c = user;

	(void)status;
	c->s = NULL;
	c->close_ns = 0;
	tcp_lost(c);
	tcp_free(c);
}

static const struct weft_stream_ops tcp_stream_ops = {.received = tcp_on_received,
                                                      .writable = tcp_on_writable,
                                                      .eof = tcp_on_eof,
                                                      .ended = tcp_on_ended};

/** The connection's memory, and its queue. */
static int
tcp_make(struct weft_nvmf_tcp *t, const struct sockaddr_storage *remote, struct tcp_conn **out)
{
	const uint32_t depth = t->attr.depth;
	struct weft_nvmf_queue_attr qa = {.ops = &tcp_ops,
	                                  .depth = depth,
	                                  .inline_bytes = NVMF_TCP_ADMIN_INLINE_BYTES,
	                                  .qid = -1,
	                                  .remote = remote};
	struct tcp_conn *c = calloc(1, sizeof(*c));
	int rc = -ENOMEM;

	if (c == NULL)
		return -ENOMEM;
	c->t = t;
	c->pulls = calloc(depth, sizeof(*c->pulls));
	c->tags = calloc(depth, sizeof(*c->tags));
	qa.owner = c;
	if (c->pulls != NULL && c->tags != NULL)
		rc = weft_nvmf_queue_open(t->attr.group, &qa, &c->q);
	if (rc != 0) {
		free(c->pulls);
		free(c->tags);
		free(c);
		return rc;
	}
	for (uint32_t i = 0; i < depth; i++)
		c->tags[i] = (uint16_t)(depth - 1 - i);
	c->rules.capsule_bytes = NVMF_TCP_ADMIN_INLINE_BYTES;
	c->rules.data_bytes = t->attr.data_bytes;
	SLIST_INIT(&c->capsules);
	*out = c;
	return 0;
}

int
weft_nvmf_tcp_accept(struct weft_nvmf_tcp *t, struct weft_stream *s,
                     const struct sockaddr_storage *remote)
{
	struct tcp_conn *c;
	int rc = t->stats.conns >= t->attr.max_conns ? -ENOSPC : tcp_make(t, remote, &c);

	if (rc != 0) {
		t->stats.rejected++;
		return rc;
	}
	c->s = s;
	c->remote = *remote;
	(void)weft_nvmf_peer_key(remote, &c->peer);
	c->began_ns = tcp_now(c);
	LIST_INSERT_HEAD(&t->conns, c, link);
	t->stats.conns++;
	t->stats.accepted++;
	tcp_watch(c);
	return weft_stream_set_user(s, &tcp_stream_ops, c);
}

/* ---- The transport of a worker ---- */

int
weft_nvmf_tcp_open(const struct weft_nvmf_tcp_attr *attr, struct weft_nvmf_tcp **out)
{
	struct weft_nvmf_tcp *t = calloc(1, sizeof(*t));
	int rc = 0;

	if (t == NULL)
		return -ENOMEM;
	t->attr = *attr;
	t->attr.depth = attr->depth == 0 ? 128 : attr->depth;
	t->attr.data_bytes = attr->data_bytes == 0 ? TCP_DATA_BYTES : attr->data_bytes;
	t->attr.max_conns = attr->max_conns == 0 ? 256 : attr->max_conns;
	t->attr.stall_ns = attr->stall_ns == 0 ? TCP_STALL_NS : attr->stall_ns;
	if (attr->max_handshakes == 0)
		t->attr.max_handshakes = TCP_HANDSHAKES;
	t->attr.handshake_ns = attr->handshake_ns == 0 ? TCP_HAND_NS : attr->handshake_ns;
	t->attr.key_bytes = attr->key_bytes == 0 ? TCP_KEY_BYTES : attr->key_bytes;
	if (t->attr.depth > WEFT_NVMF_MAX_DEPTH || t->attr.data_bytes < NVMF_TCP_MAXH2CDATA_MIN ||
	    (attr->tls != WEFT_NVMF_TCP_TLS_OFF && attr->keys == NULL))
		rc = -EINVAL;
	else if (attr->tls != WEFT_NVMF_TCP_TLS_OFF)
		rc = nvmf_tls_ctx_open(attr->keys, t->attr.key_bytes, &t->tls);
	if (rc != 0) {
		free(t);
		return rc;
	}
	if (t->tls != NULL)
		t->keys_seen = nvmf_tls_keys_generation(attr->keys);
	t->next_ns = UINT64_MAX;
	LIST_INIT(&t->conns);
	TAILQ_INIT(&t->hands);
	TAILQ_INIT(&t->turns);
	*out = t;
	return 0;
}

int
weft_nvmf_tcp_close(struct weft_nvmf_tcp *t)
{
	if (t == NULL)
		return 0;
	if (!LIST_EMPTY(&t->conns))
		return -EBUSY;
	nvmf_tls_ctx_close(t->tls);
	free(t);
	return 0;
}

/** Since when the R2T that waits longest does; UINT64_MAX: there is none. Each counts for itself:
 * it keeps memory, whatever becomes of others. */
static uint64_t
tcp_pulls_since(const struct tcp_conn *c)
{
	uint64_t since = UINT64_MAX;

	for (uint32_t i = 0; c->npulls > 0 && i < c->t->attr.depth; i++)
		if (c->pulls[i].cmd != NULL && c->pulls[i].asked && c->pulls[i].since_ns < since)
			since = c->pulls[i].since_ns;
	return since;
}

/** Since when the connection waits for its host; UINT64_MAX: it does not. */
static uint64_t
tcp_waits_since(const struct tcp_conn *c)
{
	const struct tcp_rx *r = &c->rx;
	uint64_t since = tcp_pulls_since(c);

	if (!c->ready && c->began_ns < since && r->have_bytes == 0)
		since = c->began_ns;
	/* data of an R2T may take as long as it goes on; all else is short */
	if ((r->part != TCP_HEAD || r->have_bytes > 0) && r->cmd == NULL && r->began_ns < since)
		since = r->began_ns;
	if (c->record_ns != 0 && r->cmd == NULL && c->record_ns < since)
		since = c->record_ns;
	if (nvmf_tcp_tx_waits(c) && c->tx.moved_ns < since)
		since = c->tx.moved_ns;
	return since;
}

/** One that ends, or stalls: reset it. Else note when to look next. */
static void
tcp_look(struct tcp_conn *c, uint64_t now_ns)
{
	struct weft_nvmf_tcp *t = c->t;
	const uint64_t since = c->lost ? UINT64_MAX : tcp_waits_since(c);

	if (c->close_ns != 0 && now_ns >= c->close_ns) {
		t->stats.aborted++;
		tcp_reset(c);
	} else if (since < now_ns && now_ns - since >= t->attr.stall_ns) {
		t->stats.stalls++;
		tcp_reset(c);
	} else if (!nvmf_tcp_tls_look(c, now_ns)) {
		tcp_reset(c);
	} else {
		if (c->close_ns != 0)
			tcp_look_by(t, c->close_ns);
		if (since != UINT64_MAX)
			tcp_look_by(t, now_ns + t->attr.stall_ns / 8);
	}
}

void
weft_nvmf_tcp_poll(struct weft_nvmf_tcp *t, uint64_t now_ns)
{
	struct tcp_conn *c, *next;
	const uint64_t keys = t->tls == NULL ? 0 : nvmf_tls_keys_generation(t->attr.keys);

	nvmf_tcp_tx_turns(t);
	t->keys_changed = keys != t->keys_seen;
	if (now_ns < t->next_ns && !t->keys_changed)
		return;
	t->keys_seen = keys;
	t->next_ns = UINT64_MAX;
	for (c = LIST_FIRST(&t->conns); c != NULL; c = next) {
		next = LIST_NEXT(c, link);
		tcp_look(c, now_ns);
	}
}

void
weft_nvmf_tcp_abort(struct weft_nvmf_tcp *t)
{
	struct tcp_conn *c;

	LIST_FOREACH (c, &t->conns, link)
		tcp_close_by(c, 1);
}

uint64_t
weft_nvmf_tcp_next_ns(const struct weft_nvmf_tcp *t)
{
	return TAILQ_EMPTY(&t->turns) ? t->next_ns : 0;
}

void
weft_nvmf_tcp_query(const struct weft_nvmf_tcp *t, struct weft_nvmf_tcp_stats *stats)
{
	*stats = t->stats;
	if (t->tls == NULL)
		return;
	stats->tls_alerts_in = nvmf_tls_counts(t->tls)->alerts_in;
	stats->tls_alerts_out = nvmf_tls_counts(t->tls)->alerts_out;
	stats->tls_updates_in = nvmf_tls_counts(t->tls)->updates_in;
	stats->tls_updates_out = nvmf_tls_counts(t->tls)->updates_out;
}
