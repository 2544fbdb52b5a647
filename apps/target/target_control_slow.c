/* SPDX-License-Identifier: BSD-3-Clause */
/** @file What the control socket tells of slow operations. Each worker copies its ring; the rest is
 * done on the control thread. */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>

#include "target.h"
#include "target_control.h"
#include "target_slow.h"
#include "target_slow_pcap.h"
#include "ui.h"

#define NS_PER_US  1000ULL
#define NS_PER_MS  1000000ULL
#define NS_PER_SEC 1000000000ULL

bool
control_slow_prepare(struct control_job *job)
{
	for (uint32_t i = 0; i < job->t->stack.nworkers; i++) {
		job->part[i].slow = calloc(1, sizeof(*job->part[i].slow));
		if (job->part[i].slow == NULL)
			return ctl_fail(&job->fault, CTL_INTERNAL, "out of memory");
	}
	return true;
}

bool
control_slow_collect(struct control_part *part)
{
	const struct slow_ring *r = part->tw->slow;

	memcpy(part->slow, r, sizeof(*r));
	return true;
}

/* ---- On the control thread ---- */

/** A row of the answer before it is one. */
struct slow_row {
	const struct slow_op *op;
	uint32_t worker;
};

static int
later_first(const void *a, const void *b)
{
	const struct slow_row *x = a, *y = b;

	return (x->op->at_ns < y->op->at_ns) - (x->op->at_ns > y->op->at_ns);
}

static json_t *
stage_us(uint64_t ns)
{
	return ns == UINT64_MAX ? json_null() : json_integer((json_int_t)(ns / NS_PER_US));
}

static json_t *
slow_json(struct target *t, const struct slow_row *row, uint64_t now)
{
	const struct slow_op *s = row->op;
	const struct slow_pcap_info kept = slow_pcap_look(t, row->worker, s->number);
	char number[32];

	snprintf(number, sizeof(number), "%u-%" PRIu64, row->worker, s->number);
	return json_pack(
	        "{s:s, s:o, s:I, s:I, s:s, s:s, s:s, s:s, s:o, s:I, s:I, s:o, s:o, s:o, s:o, s:o, "
	        "s:o, s:s, s:i}",
	        "number", number, "packets",
	        kept.looked ? json_integer((json_int_t)kept.packets) : json_null(), "packets_left",
	        (json_int_t)kept.left, "ago_s", (json_int_t)((now - s->at_ns) / NS_PER_SEC), "op",
	        s->op, "export", s->export, "peer", s->peer, "client", s->client, "offset",
	        s->in_window ? json_null() : json_integer((json_int_t)s->off_bytes), "len_bytes",
	        (json_int_t)s->len_bytes, "total_us", (json_int_t)(s->total_ns / NS_PER_US),
	        "wire_us", stage_us(s->stage_ns[METRICS_WIRE]), "credit_us",
	        stage_us(s->stage_ns[METRICS_CREDIT]), "staging_us",
	        stage_us(s->stage_ns[METRICS_STAGING]), "rate_us",
	        stage_us(s->stage_ns[METRICS_RATE]), "medium_us",
	        stage_us(s->stage_ns[METRICS_MEDIUM]), "answer_us",
	        stage_us(s->stage_ns[METRICS_ANSWER]), "failed", s->why, "worker",
	        (int)row->worker);
}

void
control_slow(struct control_job *job)
{
	const uint64_t now = ui_now_ns();
	/* Nothing is measured without metrics, whatever a reload says. */
	const uint64_t ns = job->t->metrics != NULL
	                            ? atomic_load_explicit(&job->t->slow_ns, memory_order_relaxed)
	                            : UINT64_MAX;
	struct slow_row all[CONF_WORKERS_MAX * SLOW_KEPT];
	json_t *rows = json_array();
	json_int_t seen = 0, crowded = 0, unsaid = 0;
	uint32_t n = 0;

	for (uint32_t i = 0; i < job->t->stack.nworkers; i++) {
		const struct slow_ring *r = job->part[i].slow;

		seen += (json_int_t)atomic_load_explicit(&r->seen, memory_order_relaxed);
		crowded += (json_int_t)atomic_load_explicit(&r->crowded, memory_order_relaxed);
		unsaid += (json_int_t)atomic_load_explicit(&r->unsaid, memory_order_relaxed);
		for (uint32_t k = 0; k < SLOW_KEPT; k++)
			if (r->ops[k].op != NULL)
				all[n++] = (struct slow_row){.op = &r->ops[k], .worker = i};
	}
	qsort(all, n, sizeof(all[0]), later_first);
	for (uint32_t i = 0; i < n; i++)
		(void)json_array_append_new(rows, slow_json(job->t, &all[i], now));
	control_job_result(job,
	                   json_pack("{s:I, s:I, s:I, s:I, s:o}", "slow_ms",
	                             ns != UINT64_MAX ? (json_int_t)(ns / NS_PER_MS) : 0, "seen",
	                             seen, "crowded", crowded, "unsaid", unsaid, "slow", rows));
}

/** "0-17": the worker and its number of the operation. */
static bool
number_of(const char *text, uint32_t *worker, uint64_t *number)
{
	char end;

	return sscanf(text, "%4" SCNu32 "-%18" SCNu64 "%c", worker, number, &end) == 2 &&
	       *worker < CONF_WORKERS_MAX;
}

void
control_slow_packets(struct control_job *job)
{
	const char *text = control_param(job, "number");
	struct slow_pcap_info kept;
	uint32_t worker;
	uint64_t number;
	uint8_t *pcap = NULL;
	size_t len = 0;
	char *b64;

	if (!number_of(text, &worker, &number)) {
		ctl_fail(&job->fault, CTL_BAD_PARAMS,
		         "slow.packets: \"%.32s\" is no number of a slow operation, as 0-17", text);
		return;
	}
	kept = slow_pcap_look(job->t, worker, number);
	pcap = slow_pcap_copy(job->t, worker, number, &len);
	if (pcap == NULL) {
		ctl_fail(&job->fault, CTL_NOT_FOUND, "no packets of operation %.32s are kept%s",
		         text,
		         kept.looked ? ": the captures had none of its connection"
		                     : "; a capture has to run meanwhile (weft-ctl capture start)");
		return;
	}
	b64 = malloc((len + 2) / 3 * 4 + 1);
	if (b64 != NULL)
		EVP_EncodeBlock((unsigned char *)b64, pcap, (int)len);
	free(pcap);
	control_job_result(job, b64 != NULL ? json_pack("{s:s, s:I, s:I, s:s}", "number", text,
	                                                "packets", (json_int_t)kept.packets,
	                                                "packets_left", (json_int_t)kept.left,
	                                                "pcapng", b64)
	                                    : NULL);
	free(b64);
}
