/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Each octet of each message is compared. Messages go in rounds of as many as the depth, each
 * into a place of its own. Behind a round the client reads all of them back; what it has read, it
 * compares at once; of Sends the server compares each (session.c). Of atomic operations the results
 * are compared.
 */

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "client.h"
#include "client_volume.h"
#include "client_wait.h"
#include "ui.h"

static int
verify_wrong(struct client *c, const uint8_t *slot, uint32_t at, uint64_t seq)
{
	/* Nothing is sent any more, so the source can be made again. */
	flow_pattern(c->mem, at + 1, seq);
	snprintf(c->term, sizeof(c->term),
	         "octet %u of message %" PRIu64 " is 0x%02x instead of 0x%02x", at, seq, slot[at],
	         c->mem[at]);
	return -EILSEQ;
}

static bool
is_checked(const struct client *c)
{
	return c->f.barriers == c->checks;
}

/** Read the peer's region back to c->back. */
static int
verify_read_back(struct client *c, uint64_t messages)
{
	struct weft_sge sge = {c->back, (uint32_t)(messages * c->job.size_bytes), c->lkey};
	struct weft_wr wr = {.opcode = WEFT_WR_READ,
	                     .flags = WEFT_WR_SIGNALED,
	                     .wr_id = FLOW_BARRIER_ID,
	                     .sg_list = &sge,
	                     .num_sge = 1,
	                     .rdma = {c->server.stag, c->server.to}};
	int rc;

	memset(c->back, 0, sge.len_bytes);
	rc = weft_post_send(c->qp, &wr, 1);
	if (rc < 1)
		return rc < 0 ? rc : -EIO;
	c->checks++; /* not counted as a message, whose number is its content */
	return client_wait(c, is_checked);
}

/** Compare the messages from `first` on; each is in its slot of `slots`. */
static int
verify_compare(struct client *c, const uint8_t *slots, uint64_t first, uint64_t n)
{
	const uint32_t bytes = c->job.size_bytes;

	for (uint64_t seq = first; seq < first + n; seq++) {
		const uint64_t slot = seq % c->slots;
		/* What is read is the server's, and does not change. */
		const uint64_t of = c->job.test == PERF_READ ? slot : seq;
		uint32_t at = flow_compare(slots + slot * bytes, bytes, of);

		if (at != bytes)
			return verify_wrong(c, slots + slot * bytes, at, of);
	}
	return 0;
}

/** Compare the results of atomic operations from number `first` on. The peer's word begins at 0 and
 * each operation adds 1, so each returns its number. */
static int
verify_results(struct client *c, uint64_t first, uint64_t n)
{
	for (uint64_t seq = first; seq < first + n; seq++) {
		uint64_t got;

		memcpy(&got, c->mem + seq % c->slots * c->job.size_bytes, sizeof(got));
		if (got == seq)
			continue;
		snprintf(c->term, sizeof(c->term),
		         "operation %" PRIu64 " found %" PRIu64 " in the server's word", seq, got);
		return -EILSEQ;
	}
	return 0;
}

/** One round of one connection: n messages from number `first` on. */
static int
verify_round(struct client *c, struct run *r, uint64_t first, uint64_t n)
{
	const uint32_t bytes = c->job.size_bytes;
	const uint64_t end = c->f.posted + n;
	int rc;

	if (perf_is_volume(c->job.test))
		return client_volume_verify(c, first, n);
	for (uint64_t i = 0; i < n; i++) {
		uint8_t *slot = c->mem + (first + i) % c->slots * bytes;

		if (c->job.test == PERF_READ)
			memset(slot, 0, bytes);
		else if (perf_is_word(c->job.test)) /* no result of any run */
			memset(slot, 0xff, bytes);
		else
			flow_pattern(slot, bytes, first + i);
	}
	while (c->f.posted < end && !c->dead) {
		rc = flow_fill(&c->f, end);
		if (rc < 0)
			return rc;
		loop_turn(&r->loop, LOOP_WAIT_NS);
	}
	rc = client_wait(c, client_is_drained);
	if (rc != 0 || c->job.test == PERF_SEND)
		return rc;
	if (perf_is_word(c->job.test))
		return verify_results(c, first, n);
	if (c->job.test == PERF_READ)
		return verify_compare(c, c->mem, first, n);
	rc = verify_read_back(c, c->slots);
	return rc == 0 ? verify_compare(c, c->back, first, n) : rc;
}

int
measure_verify(struct run *r, struct perf_result *out)
{
	const uint64_t n = r->job.iterations,
	               until_ns = ui_now_ns() + r->job.duration_s * 1000000000ull;
	uint64_t done = 0;
	int rc = 0;

	while (rc == 0 && (r->job.duration_s != 0 ? ui_now_ns() < until_ns : done < n)) {
		uint64_t part = r->job.depth;

		if (r->job.duration_s == 0 && n - done < part)
			part = n - done;
		/* The shares of all connections have as many places. */
		if (perf_is_volume(r->job.test))
			part = client_volume_part(&r->lane[0], done, part);
		for (uint32_t i = 0; i < r->job.qps && rc == 0; i++)
			rc = verify_round(&r->lane[i], r, done, part);
		done += part;
		run_show(r, done * r->job.qps);
		rc = rc == 0 ? run_failed_elsewhere(r) : rc;
		out->interrupted = r->job.stop != NULL && *r->job.stop;
		if (out->interrupted)
			break;
	}
	out->verified = done * r->job.qps;
	return rc;
}
