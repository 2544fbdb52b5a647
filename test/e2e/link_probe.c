/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file A client of a volume that outlives its connections (weft/volume.h, struct
 * weft_volume_link).
 *
 *     link_probe DEV CIDR HOST EXPORT SEED
 *
 * Writes, reads, zeroes and flushes blocks of 16 KiB in random order, sixteen at once, until
 * standard input ends. Each read has to return what was written last, and no request may fail. Then
 * it flushes, reads all blocks, and prints
 *
 *     done OPERATIONS RECONNECTS REPEATED REWRITTEN LONGEST
 *
 * LONGEST is the longest time without an answer, in milliseconds. "answers" is printed when the
 * first request is answered.
 */

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "addr.h"
#include "probe.h"
#include "stack.h"
#include "ui.h"
#include <weft/volume.h>

#define BLOCK  16384u
#define BLOCKS 384u
#define LANES  16u
#define LOOK   64u /* polls between two looks at standard input */

struct lane {
	struct weft_volume_req req;
	uint32_t block, stamp;
	uint8_t data[BLOCK];
};

static struct {
	struct weft_volume *v;
	struct lane lane[LANES];
	uint32_t want[BLOCKS]; /* the stamp of each block; 0: zeros */
	bool busy[BLOCKS];
	bool over;
	unsigned int under_way;
	uint64_t random, ops, began_ns, last_ns, longest_ns;
} pr;

static uint64_t
draw(void)
{
	pr.random = pr.random * 6364136223846793005ULL + 1442695040888963407ULL;
	return pr.random >> 33;
}

static void
stamp(uint8_t *at, uint32_t block, uint32_t n)
{
	const uint64_t word[2] = {n == 0 ? 0 : ((uint64_t)block << 32) + 77, n};

	for (uint32_t i = 0; i < BLOCK; i += sizeof(word))
		memcpy(at + i, word, sizeof(word));
}

static void
check(const struct lane *l, uint32_t block)
{
	uint8_t want[BLOCK];

	stamp(want, block, pr.want[block]);
	if (memcmp(want, l->data, BLOCK) != 0)
		ui_die("block %u is not what was written", block);
}

static void lane_go(struct lane *l);

static void
lane_done(struct weft_volume_req *req)
{
	struct lane *l = req->owner;
	const uint64_t now = ui_now_ns();

	if (req->status != 0)
		ui_die("operation %d of block %u: %s (%s)", req->op, l->block,
		       strerror(-req->status), req->why);
	if (pr.ops++ == 0 && write(1, "answers\n", 8) != 8)
		exit(1);
	if (now - pr.last_ns > pr.longest_ns)
		pr.longest_ns = now - pr.last_ns;
	pr.last_ns = now;
	if (req->op == WEFT_VOLUME_OP_READ)
		check(l, l->block);
	else if (req->op != WEFT_VOLUME_OP_FLUSH)
		pr.want[l->block] = l->stamp;
	pr.busy[l->block] = false;
	pr.under_way--;
	if (!pr.over)
		lane_go(l);
}

static void
lane_go(struct lane *l)
{
	const uint64_t what = draw() % 16;

	do
		l->block = (uint32_t)(draw() % BLOCKS);
	while (pr.busy[l->block]);
	l->stamp = what < 8 ? (uint32_t)draw() | 1 : 0;
	stamp(l->data, l->block, l->stamp);
	l->req.op = what < 8    ? WEFT_VOLUME_OP_WRITE
	            : what < 14 ? WEFT_VOLUME_OP_READ
	            : what < 15 ? WEFT_VOLUME_OP_ZEROES
	                        : WEFT_VOLUME_OP_FLUSH;
	l->req.flags = what < 1 ? WEFT_VOLUME_F_DURABLE : 0;
	l->req.off_bytes = (uint64_t)l->block * BLOCK;
	l->req.len_bytes = BLOCK;
	l->req.data = l->data;
	l->req.done = lane_done;
	l->req.owner = l;
	pr.busy[l->block] = true;
	pr.under_way++;
	if (weft_volume_submit(pr.v, &l->req) != 0)
		ui_die("a request is refused");
}

static bool
told_to_end(void)
{
	struct pollfd in = {.fd = 0, .events = POLLIN};

	return poll(&in, 1, 0) > 0;
}

static void
ride(struct weft_worker *w)
{
	pr.began_ns = pr.last_ns = ui_now_ns();
	for (unsigned int i = 0; i < LANES; i++)
		lane_go(&pr.lane[i]);
	for (unsigned int n = 0; pr.under_way > 0; n++) {
		if (weft_worker_poll(w) == 0)
			weft_worker_idle(w, 1000);
		pr.over = pr.over || (n % LOOK == 0 && told_to_end());
	}
}

static void
moved(void *user, bool up, bool ended, const char *why)
{
	struct weft_volume_link_stats s = {0};

	(void)user;
	(void)weft_volume_link_stats(pr.v, &s);
	ui_msg("%.3f s: %s, attempt %" PRIu64 " %s", (double)(ui_now_ns() - pr.began_ns) / 1e9,
	       up      ? "stands"
	       : ended ? "ended"
	               : "lost",
	       s.attempts, why);
}

static void
open_volume(struct stack *st, const char *host, const char *name)
{
	struct sockaddr_storage to;
	struct weft_volume_link l = {.size = sizeof(l), .ctx = st->ctx, .moved = moved};
	const struct weft_volume_attr a = {
	        .size = sizeof(a), .worker = st->workers[0], .name = name, .link = &l};
	char why[160] = "";
	int rc;

	if (addr_resolve(host, 7471, &to) != NULL || weft_pd_alloc(st->ctx, &l.pd) != 0)
		ui_die("cannot start");
	l.to = (struct sockaddr *)&to;
	l.to_bytes = addr_len(&to);
	(void)weft_worker_poll(st->workers[0]); /* it is this thread's */
	/* Each opening is tried once, and the target may not be there yet. */
	for (unsigned int i = 0; i < 50; i++) {
		rc = weft_volume_open_wait(&a, why, sizeof(why), &pr.v);
		if (rc != -ENOTCONN)
			break;
		usleep(100000);
	}
	if (rc != 0)
		ui_die("%s: %s (%s)", name, why, strerror(-rc));
}

int
main(int argc, char **argv)
{
	static struct stack stack;
	struct weft_volume_link_stats s;

	ui_init("link_probe");
	if (argc != 6)
		ui_usage_die("DEV CIDR HOST EXPORT SEED");
	probe_up(&stack, "link_probe", argv[1], argv[2]);
	pr.random = strtoull(argv[5], NULL, 10);
	open_volume(&stack, argv[3], argv[4]);
	ride(stack.workers[0]);
	if (weft_volume_flush(pr.v, 0, 0) != 0)
		ui_die("the last flush fails");
	for (uint32_t i = 0; i < BLOCKS; i++) {
		if (weft_volume_read(pr.v, (uint64_t)i * BLOCK, pr.lane[0].data, BLOCK) != 0)
			ui_die("block %u cannot be read", i);
		check(&pr.lane[0], i);
	}
	(void)weft_volume_link_stats(pr.v, &s);
	printf("done %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", pr.ops,
	       s.reconnects, s.repeated, s.rewritten, pr.longest_ns / 1000000);
	weft_volume_close_wait(pr.v);
	fflush(stdout);
	_exit(0);
}
