/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The fastest part of a bandwidth test, and its slowest 10 ms (parts.h). */

#include "client.h"
#include "parts.h"

/** A part takes so long at least, so that the clock does not matter. */
#define PARTS_NS 1000000ull
#define TEN_NS   10000000ull
/** Several threads look at their connections so often. A part takes ten times as long, because what
 * another thread has shown is up to one look old. */
#define PARTS_SHOW_NS 250000ull
/** A look at so many connections costs as much as one is allowed to. More are looked at less
 * often. */
#define PARTS_LANES 16

/** Octets in front of and behind the payload of a DDP segment: MPA's length, the tagged header and
 * the CRC (RFC 5044 s4, RFC 5041 s4.1). */
#define PARTS_HEAD_BYTES (2 + 14 + 4)

/** The share of the messages in the octets that are given to TCP. */
static double
parts_payload(const struct run *r)
{
	const double bytes = perf_mean_bytes(r->crew->job);
	struct weft_qp_info info;
	double segs = 1;

	weft_qp_query(r->lane[0].qp, &info);
	if (info.mulpdu_bytes > PARTS_HEAD_BYTES && bytes > info.mulpdu_bytes)
		segs = bytes / (info.mulpdu_bytes - PARTS_HEAD_BYTES);
	return bytes / (bytes + segs * PARTS_HEAD_BYTES);
}

void
parts_begin(struct parts *p, struct run *r, uint64_t now_ns)
{
	const uint32_t test = r->job.test;
	const uint64_t slower = 1 + r->job.qps / PARTS_LANES;

	*p = (struct parts){.at_ns = now_ns, .ten_ns = now_ns, .looked_ns = now_ns};
	p->acked = (test == PERF_WRITE || perf_takes_receive(test)) && !r->job.verify;
	p->every_ns = (r->crew->n > 1 ? PARTS_SHOW_NS : PARTS_NS) * slower;
	p->least_ns = r->crew->n > 1 ? 10 * p->every_ns : PARTS_NS;
	if (p->acked)
		p->payload = parts_payload(r);
}

/** Show the others how many octets of this thread's connections are acknowledged. */
static void
parts_show(const struct parts *p, struct run *r)
{
	struct weft_qp_info info;
	uint64_t all = 0;

	for (uint32_t i = 0; i < r->job.qps; i++) {
		struct client *c = &r->lane[i];
		uint64_t sent, waits;

		weft_qp_query(c->qp, &info);
		sent = info.sent_bytes - c->before.out_bytes;
		/* With a worker on another thread, what waits is as of the last look. */
		if (r->loop.events) {
			const uint64_t now_sent = sent;

			sent = c->sent_bytes;
			c->sent_bytes = now_sent;
		}
		waits = (uint64_t)(info.unacked_bytes * p->payload);
		all += sent > waits ? sent - waits : 0;
	}
	if (all > atomic_load_explicit(&r->acked_bytes, memory_order_relaxed))
		atomic_store_explicit(&r->acked_bytes, all, memory_order_relaxed);
}

/** The octets that count of all threads. */
static double
parts_bytes(const struct parts *p, const struct run *r, uint64_t n)
{
	const struct crew *crew = r->crew;
	uint64_t all = 0;

	if (!p->acked)
		return (double)n * perf_mean_bytes(crew->job);
	for (uint32_t i = 0; i < crew->n; i++)
		all += atomic_load_explicit(&crew->run[i].acked_bytes, memory_order_relaxed);
	return (double)all;
}

/** Octets in nanoseconds as 10^6 octets a second. */
static double
parts_mbps(double bytes, uint64_t ns)
{
	return bytes * 1e3 / (double)ns;
}

void
parts_look(struct parts *p, struct run *r, uint64_t now_ns, uint64_t n)
{
	double bytes, mbps;

	if (p->acked) {
		const uint64_t before_ns = p->looked_ns;

		if (now_ns - before_ns < p->every_ns)
			return;
		parts_show(p, r);
		p->looked_ns = now_ns;
		/* As in parts_show(): it is the time of the last look. */
		now_ns = r->loop.events ? before_ns : now_ns;
	}
	if (r != r->crew->run)
		return;
	bytes = parts_bytes(p, r, n);
	/* A part ends, and the next one begins, when more has come: if it began in the middle of a
	 * long message, it would count all of its octets. */
	if (now_ns - p->at_ns >= p->least_ns && bytes != p->at_bytes) {
		mbps = parts_mbps(bytes - p->at_bytes, now_ns - p->at_ns);
		if (mbps > p->peak_mbps)
			p->peak_mbps = mbps;
		p->at_ns = now_ns;
		p->at_bytes = bytes;
	}
	if (now_ns - p->ten_ns < TEN_NS)
		return;
	mbps = parts_mbps(bytes - p->ten_bytes, now_ns - p->ten_ns);
	if (p->worst_mbps == 0 || mbps < p->worst_mbps)
		p->worst_mbps = mbps;
	p->ten_ns = now_ns;
	p->ten_bytes = bytes;
}
