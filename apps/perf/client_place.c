/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Tests on memory that the server flushes and verifies: single operations, whole commits, and
 * the same work done by the server's application.
 *
 * Every transaction has new data, so the initiator hashes them each time, in all tests alike.
 */

#include <errno.h>
#include <string.h>

#include "client.h"
#include "client_wait.h"
#include "ui.h"
#include <weft/commit.h>

static uint8_t *
place_data(const struct client *c, uint64_t seq)
{
	return c->mem + seq % c->slots * c->job.size_bytes;
}

static uint64_t
place_to(const struct client *c, uint64_t seq)
{
	return c->server.to + seq % c->slots * c->job.size_bytes;
}

static uint64_t
place_word(const struct client *c)
{
	return c->server.to + perf_word_at(c->slots, c->job.size_bytes);
}

int
client_place_begin(struct client *c)
{
	const struct weft_hash_ops *h;

	c->server.hash[sizeof(c->server.hash) - 1] = '\0';
	c->server.mechanism[sizeof(c->server.mechanism) - 1] = '\0';
	if (c->job.test == PERF_LOG_APPEND)
		return client_log_begin(c);
	h = weft_hash_find(c->server.hash);
	if (h == NULL || h->key_min_bytes > 0 ||
	    c->server.len_bytes < perf_word_at(c->slots, c->job.size_bytes) + PERF_WORDS)
		return -EPROTO;
	c->flush_flags = c->server.persistent ? WEFT_FLUSH_PERSISTENT : WEFT_FLUSH_VISIBLE;
	return 0;
}

/** Write new data into the slot and compute their hash; returns the octets of the hash. */
static int
place_make(struct client *c, uint64_t seq, uint8_t expect[WEFT_HASH_MAX_BYTES])
{
	struct weft_sge sge = {place_data(c, seq), c->job.size_bytes, 0};

	memcpy(sge.addr, &seq, c->job.size_bytes < 8 ? c->job.size_bytes : 8);
	return weft_commit_hash(c->server.hash, NULL, 0, &sge, 1, expect, WEFT_HASH_MAX_BYTES);
}

static int
place_commit(struct client *c, uint64_t seq)
{
	uint8_t expect[WEFT_HASH_MAX_BYTES];
	struct weft_sge sge = {place_data(c, seq), c->job.size_bytes, c->lkey};
	struct weft_commit_range range = {
	        .sg_list = &sge, .num_sge = 1, .stag = c->server.stag, .to = place_to(c, seq)};
	struct weft_commit u = {.wr_id = 1,
	                        .flush_flags = c->flush_flags,
	                        .ranges = &range,
	                        .num_ranges = 1,
	                        .word = {.stag = c->server.stag, .to = place_word(c)}};
	int rc;

	if (c->job.test == PERF_COMMIT_BARE) {
		memcpy(sge.addr, &seq, c->job.size_bytes < 8 ? c->job.size_bytes : 8);
		u.flags = WEFT_COMMIT_NO_FLUSH;
	} else {
		rc = place_make(c, seq, expect);
		if (rc < 0)
			return rc;
		range.expect = expect;
		range.expect_bytes = (uint32_t)rc;
	}
	memcpy(u.word.data, &seq, 8);
	return weft_commit(c->qp, &u);
}

/** Post one Write and a Flush of it, or one Verify. */
static int
place_op(struct client *c, uint64_t seq)
{
	struct weft_sge sge = {place_data(c, seq), c->job.size_bytes, c->lkey};
	struct weft_wr wr[2] = {{.opcode = WEFT_WR_WRITE,
	                         .sg_list = &sge,
	                         .num_sge = 1,
	                         .rdma = {c->server.stag, place_to(c, seq)}},
	                        {.opcode = WEFT_WR_FLUSH,
	                         .flags = WEFT_WR_SIGNALED,
	                         .wr_id = 1,
	                         .flush = {.stag = c->server.stag,
	                                   .to = place_to(c, seq),
	                                   .len_bytes = c->job.size_bytes,
	                                   .flags = c->flush_flags}}};
	int rc;

	if (c->job.test == PERF_FLUSH) {
		memcpy(sge.addr, &seq, c->job.size_bytes < 8 ? c->job.size_bytes : 8);
		rc = weft_post_send(c->qp, wr, 2);
		return rc == 2 ? 0 : rc < 0 ? rc : -EIO; /* the send queue takes both or none */
	}
	wr[1].opcode = WEFT_WR_VERIFY;
	memset(&wr[1].verify, 0, sizeof(wr[1].verify));
	wr[1].verify.stag = c->server.stag;
	wr[1].verify.to = place_to(c, seq);
	wr[1].verify.len_bytes = c->job.size_bytes;
	rc = weft_post_send(c->qp, &wr[1], 1);
	return rc == 1 ? 0 : rc;
}

static int
place_post(struct client *c, uint64_t seq)
{
	if (c->job.test == PERF_LOG_APPEND)
		return client_log_append(c);
	return perf_is_commit(c->job.test) ? place_commit(c, seq) : place_op(c, seq);
}

void
client_place_fill(struct client *c, uint64_t end)
{
	while (c->f.posted < end && c->f.posted - c->f.completed < c->job.depth) {
		int rc = place_post(c, c->f.posted);

		if (rc == -EAGAIN)
			return;
		if (rc < 0) {
			c->dead = true;
			c->err = rc;
			return;
		}
		c->f.posted++;
	}
}

/* ---- Latency ---- */

static bool
place_answered(const struct client *c)
{
	return c->f.received == c->f.posted || c->bad;
}

/** Send the order behind `n` Writes, and wait for the answer. */
static int
place_ask(struct client *c, struct weft_wr wr[3], unsigned int n, struct perf_order *o)
{
	struct weft_sge sge = {o, sizeof(*o), 0};
	int rc;

	wr[n] = (struct weft_wr){
	        .opcode = WEFT_WR_SEND, .flags = WEFT_WR_INLINE, .sg_list = &sge, .num_sge = 1};
	rc = weft_post_send(c->qp, wr, n + 1);
	if (rc != (int)n + 1)
		return rc < 0 ? rc : -EIO;
	c->f.posted++;
	rc = client_wait(c, place_answered);
	return c->bad ? -EILSEQ : rc;
}

static int
place_two_sided(struct client *c, uint64_t seq)
{
	struct weft_sge data = {place_data(c, seq), c->job.size_bytes, c->lkey};
	struct weft_sge word = {&seq, 8, 0};
	struct perf_order o = {.slot = (uint32_t)(seq % c->slots)};
	bool two = c->job.test == PERF_TWO_SIDED_2;
	struct weft_wr wr[3] = {{.opcode = WEFT_WR_WRITE,
	                         .sg_list = &data,
	                         .num_sge = 1,
	                         .rdma = {c->server.stag, place_to(c, seq)}}};
	int rc = place_make(c, seq, o.expect);

	if (rc < 0)
		return rc;
	if (two) {
		o.round = 1;
		rc = place_ask(c, wr, 1, &o);
		if (rc < 0)
			return rc;
		o.round = 2;
	}
	/* With one round the application writes the word, which must not appear before the data
	 * are checked. */
	wr[!two] = (struct weft_wr){
	        .opcode = WEFT_WR_WRITE,
	        .flags = WEFT_WR_INLINE,
	        .sg_list = &word,
	        .num_sge = 1,
	        .rdma = {c->server.stag, place_word(c) + (two ? 0 : PERF_NEXT_WORD)}};
	return place_ask(c, wr, two ? 1 : 2, &o);
}

int
client_place_round(struct client *c, uint64_t seq)
{
	int rc;

	if (perf_is_two_sided(c->job.test))
		return place_two_sided(c, seq);
	/* A log without room has to trim first. */
	while ((rc = place_post(c, seq)) == -EAGAIN && !c->dead)
		loop_turn(c->loop, LOOP_WAIT_NS);
	if (rc < 0)
		return rc;
	c->f.posted++;
	return client_wait(c, client_is_drained);
}
