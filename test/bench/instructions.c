/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The work of one message, for test/bench/instructions, which runs this program under callgrind.
 *
 * Two stacks are polled in turn by one thread. Clock and random numbers are those of a duo with a
 * seed, so each run executes the same instructions. Each row is run twice: callgrind collects what
 * the initiator does in the first run, and what the target does in the second one. One side's work
 * is its poll of the worker, the posting of requests, and the polling of its completion queue.
 * Without callgrind the program prints the cycles of a message, which no run repeats.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>

#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#define COUNT_HAVE 1
#else
#define COUNT_HAVE 0
#endif

#include "bench.h"
#include "duo.h"
#include <weft/commit.h>

#define COUNT_BURST   32 /**< at most so many requests in one call */
#define COUNT_DEPTH   128
#define COUNT_MBUFS   4095
#define COUNT_CONNS   1000
#define COUNT_AT_ONCE 16 /**< connections that are posted to in one turn */
#define COUNT_WORD    64 /**< octets for the commit word, at the end of the region */

enum { INITIATOR, TARGET };

struct row {
	const char *name;
	uint32_t bytes; /**< of a message */
	uint32_t depth; /**< requests outstanding */
	uint32_t signal_every;
	uint32_t slots;    /**< places of a message in the region, used in turn */
	uint32_t messages; /**< counted */
	uint32_t warm;     /**< before them, not counted */
	uint32_t per;      /**< the figures are for a message divided by this */
	enum weft_wr_opcode opcode;
	bool commit;
	/** 0: one; else each has `depth` requests outstanding, posted in one call */
	uint32_t conns;
};

static const struct row rows[] = {
        {"write 64 B", 64, COUNT_DEPTH, 8, 1, 20000, 4000, 1, WEFT_WR_WRITE, false},
        {"send 64 B", 64, COUNT_DEPTH, 8, 1, 20000, 4000, 1, WEFT_WR_SEND, false},
        {"read 64 B", 64, 32, 1, 1, 20000, 4000, 1, WEFT_WR_READ, false},
        {"write 1 MiB, a KiB", 1 << 20, 4, 1, 4, 24, 8, 1024, WEFT_WR_WRITE, false},
        {"commit 4 KiB", 4096, 4, 1, 8, 2000, 400, 1, WEFT_WR_WRITE, true},
        {"write 64 B, 256 QPs", 64, 8, 8, 1, 20480, 4096, 1, WEFT_WR_WRITE, false, 256},
        {"write 64 B, 1000 QPs", 64, 8, 8, 1, 24000, 8000, 1, WEFT_WR_WRITE, false, 1000},
};

/** A row under way. */
struct run {
	const struct row *row;
	struct duo duo;
	uint64_t posted, completed, received;
	uint32_t unsignaled;
	uint32_t next;          /**< the connection whose turn it is */
	bool busy[COUNT_CONNS]; /**< connections with requests outstanding */
	uint32_t lkey, stag;    /**< of the initiator's and of the target's region */
	unsigned int counted;   /**< the side whose work is counted */
	bool counting;          /**< the measured part */
	uint64_t began, cycles; /**< of the counted side */
};

static void
count_begin(struct run *r, unsigned int side)
{
	if (!r->counting || side != r->counted)
		return;
#if COUNT_HAVE
	CALLGRIND_TOGGLE_COLLECT;
#endif
	r->began = rte_rdtsc();
}

static void
count_end(struct run *r, unsigned int side)
{
	if (!r->counting || side != r->counted)
		return;
	r->cycles += rte_rdtsc() - r->began;
#if COUNT_HAVE
	CALLGRIND_TOGGLE_COLLECT;
#endif
}

/* ---- The initiator's requests ---- */

static uint64_t
row_at(const struct row *w, uint64_t seq)
{
	return seq % w->slots * w->bytes;
}

static uint64_t
row_region_bytes(const struct row *w)
{
	return (uint64_t)w->slots * w->bytes + COUNT_WORD;
}

/** Posts at most COUNT_BURST requests in one call, as many as the depth allows. */
static void
fill_wrs(struct run *r, uint64_t end)
{
	const struct duo_side *a = &r->duo.side[INITIATOR];
	struct weft_wr wr[COUNT_BURST];
	struct weft_sge sge[COUNT_BURST];
	uint64_t n = r->row->depth - (r->posted - r->completed);
	int rc;

	n = n < COUNT_BURST ? n : COUNT_BURST;
	n = n < end - r->posted ? n : end - r->posted;
	for (uint64_t i = 0; i < n; i++) {
		const uint64_t at = row_at(r->row, r->posted + i);

		memset(&wr[i], 0, sizeof(wr[i]));
		sge[i] = (struct weft_sge){a->mem + at, r->row->bytes, r->lkey};
		wr[i].opcode = r->row->opcode;
		wr[i].sg_list = &sge[i];
		wr[i].num_sge = 1;
		if (r->row->opcode != WEFT_WR_SEND) {
			wr[i].rdma.stag = r->stag;
			wr[i].rdma.to = at;
		}
		if (++r->unsignaled == r->row->signal_every || r->posted + i + 1 == end) {
			wr[i].flags = WEFT_WR_SIGNALED;
			wr[i].wr_id = r->unsignaled;
			r->unsignaled = 0;
		}
	}
	if (n == 0)
		return;
	rc = weft_post_send(a->qp[0], wr, (unsigned int)n);
	if (rc != (int)n)
		bench_die("%d of %d requests were taken", rc, (int)n);
	r->posted += n;
}

/** Posts a burst of Writes to each of the next connections that has none outstanding. */
static void
fill_conns(struct run *r, uint64_t end)
{
	const struct duo_side *a = &r->duo.side[INITIATOR];
	const uint32_t depth = r->row->depth;
	struct weft_sge sge = {a->mem, r->row->bytes, r->lkey};
	struct weft_wr wr[COUNT_BURST];

	for (unsigned int k = 0; k < COUNT_AT_ONCE && r->posted < end; k++) {
		const uint32_t c = r->next;

		r->next = (c + 1) % r->row->conns;
		if (r->busy[c])
			continue;
		for (uint32_t i = 0; i < depth; i++) {
			memset(&wr[i], 0, sizeof(wr[i]));
			wr[i].opcode = r->row->opcode;
			wr[i].sg_list = &sge;
			wr[i].num_sge = 1;
			wr[i].rdma.stag = r->stag;
		}
		wr[depth - 1].flags = WEFT_WR_SIGNALED;
		wr[depth - 1].wr_id = depth;
		if (weft_post_send(a->qp[c], wr, depth) != (int)depth)
			bench_die("requests were not taken");
		r->busy[c] = true;
		r->posted += depth;
	}
}

/** The hash that the commit expects is made once, because making it is the program's work. */
static void
fill_commits(struct run *r, uint64_t end)
{
	const struct duo_side *a = &r->duo.side[INITIATOR];
	static uint8_t expect[WEFT_HASH_MAX_BYTES];
	static int expect_bytes;
	struct weft_sge sge = {a->mem, r->row->bytes, r->lkey};
	struct weft_commit_range range = {
	        .sg_list = &sge, .num_sge = 1, .stag = r->stag, .expect = expect};
	struct weft_commit c = {
	        .wr_id = 1,
	        .flush_flags = WEFT_FLUSH_VISIBLE,
	        .ranges = &range,
	        .num_ranges = 1,
	        .word = {.stag = r->stag, .to = (uint64_t)r->row->slots * r->row->bytes}};

	if (expect_bytes == 0) {
		expect_bytes = weft_commit_hash("crc32c", NULL, 0, &sge, 1, expect, sizeof(expect));
		bench_must(expect_bytes, "hash");
	}
	range.expect_bytes = (uint32_t)expect_bytes;
	while (r->posted < end && r->posted - r->completed < r->row->depth) {
		range.to = row_at(r->row, r->posted);
		bench_must(weft_commit(a->qp[0], &c), "commit");
		r->posted++;
	}
}

/* ---- One turn of each side ---- */

static void
turn_initiator(struct run *r, uint64_t end)
{
	struct weft_wc wc[COUNT_BURST];
	int n;

	if (r->row->commit)
		fill_commits(r, end);
	else if (r->row->conns > 0)
		fill_conns(r, end);
	else
		fill_wrs(r, end);
	duo_poll(&r->duo.side[INITIATOR]);
	n = weft_cq_poll(r->duo.side[INITIATOR].cq, wc, COUNT_BURST);
	for (int i = 0; i < n; i++) {
		if (wc[i].status != WEFT_WC_SUCCESS)
			bench_die("%s: a request failed with status %d", r->row->name,
			          (int)wc[i].status);
		r->completed += wc[i].wr_id;
		if (r->row->conns > 0)
			r->busy[(uintptr_t)wc[i].qp_user] = false;
	}
}

static void
turn_target(struct run *r)
{
	struct duo_side *b = &r->duo.side[TARGET];
	struct weft_recv_wr rw[COUNT_BURST];
	struct weft_wc wc[COUNT_BURST];
	int n;

	duo_poll(b);
	n = weft_cq_poll(b->cq, wc, COUNT_BURST);
	for (int i = 0; i < n; i++) {
		if (wc[i].status != WEFT_WC_SUCCESS)
			bench_die("%s: a receive failed with status %d", r->row->name,
			          (int)wc[i].status);
		rw[i] = (struct weft_recv_wr){.sg_list = &r->duo.attr.recv_sge, .num_sge = 1};
	}
	if (n > 0 && weft_post_recv(b->qp[0], rw, (unsigned int)n) != n)
		bench_die("receives were not taken");
	r->received += n > 0 ? (unsigned int)n : 0;
}

/** Runs until `end` requests in all have completed, and their last segment is acknowledged. */
static void
run_to(struct run *r, uint64_t end)
{
	unsigned int quiet = 0;

	while (quiet < 4) {
		uint64_t before = r->completed + r->received + r->posted;

		count_begin(r, INITIATOR);
		turn_initiator(r, end);
		count_end(r, INITIATOR);
		count_begin(r, TARGET);
		turn_target(r);
		count_end(r, TARGET);
		quiet = r->completed == end && r->completed + r->received + r->posted == before
		                ? quiet + 1
		                : 0;
	}
}

static void
run_connect(struct run *r)
{
	struct duo *d = &r->duo;

	for (uint32_t n = 1; n <= d->attr.conns; n++) {
		duo_connect(d);
		while (d->side[INITIATOR].up < n || d->side[TARGET].up < n) {
			duo_poll(&d->side[INITIATOR]);
			duo_poll(&d->side[TARGET]);
			duo_events(d);
		}
	}
}

/* ---- One row ---- */

static double
row_run(const struct row *w, unsigned int counted, unsigned int number)
{
	static uint8_t in[64];
	struct run r = {.row = w, .counted = counted};
	char name[8], label[64];
	struct duo_attr a = {
	        .name = name,
	        .conns = w->conns > 0 ? w->conns : 1,
	        .max_conns = COUNT_CONNS + 1,
	        .mbufs = COUNT_MBUFS,
	        .cq_depth = 1024,
	        .mem_bytes = row_region_bytes(w),
	        .access = WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_REMOTE_READ |
	                  WEFT_ACCESS_REMOTE_WRITE,
	        .qp = {.ird = 32, .ord = 32, .sq_depth = 256, .rq_depth = 512},
	        .recvs = w->opcode == WEFT_WR_SEND ? 256 : 0,
	        .recv_sge = {in, sizeof(in), 0},
	        .seed = 1,
	};

	snprintf(name, sizeof(name), "i%u", number);
	if (w->commit) {
		a.medium = "volatile";
		a.hash = "crc32c";
		a.access |= WEFT_ACCESS_FLUSH_VISIBLE | WEFT_ACCESS_VERIFY;
	}
	duo_open(&r.duo, &a);
	run_connect(&r);
	r.lkey = weft_mr_stag(r.duo.side[INITIATOR].mr);
	r.stag = weft_mr_stag(r.duo.side[TARGET].mr);
	run_to(&r, w->warm);
	r.counting = true;
#if COUNT_HAVE
	CALLGRIND_START_INSTRUMENTATION;
	CALLGRIND_ZERO_STATS;
#endif
	run_to(&r, (uint64_t)w->warm + w->messages);
#if COUNT_HAVE
	CALLGRIND_STOP_INSTRUMENTATION;
	/* The script reads the name, the side and the divisor from the dump. */
	snprintf(label, sizeof(label), "%s|%s|%u", w->name,
	         counted == INITIATOR ? "initiator" : "target", w->messages * w->per);
	CALLGRIND_DUMP_STATS_AT(label);
#else
	(void)label;
#endif
	duo_close(&r.duo);
	return (double)r.cycles / w->messages / w->per;
}

int
main(int argc, char **argv)
{
	unsigned int number = 0;

	if (argc > 2 || (argc == 2 && argv[1][0] == '-')) {
		printf("usage: bench_instructions [ROW]\nROW: the beginning of a row's name\n");
		return argc == 2 && strcmp(argv[1], "--help") == 0 ? 0 : 2;
	}
	duo_start_eal("bench_instructions", 768);
	for (size_t i = 0; i < RTE_DIM(rows); i++) {
		double cycles[2];

		if (argc == 2 && strncmp(rows[i].name, argv[1], strlen(argv[1])) != 0)
			continue;
		for (unsigned int side = 0; side < 2; side++)
			cycles[side] = row_run(&rows[i], side, number++);
		printf("%-20s %10.1f cycles at the initiator %10.1f at the target\n", rows[i].name,
		       cycles[INITIATOR], cycles[TARGET]);
	}
	return 0;
}
