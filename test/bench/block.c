/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file bench_block FILE [MIB]: requests of a block device beside the same requests by io_uring
 * alone.
 *
 * Creates FILE of MIB [256] MiB unless it exists, fills it, and prints a row for each operation,
 * size and depth: requests a second by weft and by a plain loop over one ring, which uses the same
 * registered memory, and their quotient. The two take turns, ROUNDS times, and the row has the best
 * round of each, so that other load on the machine disturbs it less. The columns of processor time
 * are of one request, of the thread, with the polls that find nothing. On tmpfs, where each request
 * ends in its submission, there are none of these: they show what weft adds.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <liburing.h>

#include <weft/block.h>

#define ROUNDS    5
#define ROUND_NS  400000000ULL
#define MAX_DEPTH 32

struct shape {
	const char *name;
	bool write;
	uint32_t bytes, depth;
};

static const struct shape shapes[] = {
        {"read 4 KiB", false, 4096, 32},    {"write 4 KiB", true, 4096, 32},
        {"read 4 KiB", false, 4096, 1},     {"write 4 KiB", true, 4096, 1},
        {"read 1 MiB", false, 1U << 20, 8}, {"write 1 MiB", true, 1U << 20, 8},
};

static const char *path;
static uint8_t *memory;
static uint64_t file_bytes, at;

static uint64_t
now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000ULL + (uint64_t)t.tv_nsec;
}

static uint64_t
cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000ULL + (uint64_t)t.tv_nsec;
}

/** The best round of one side. */
struct best {
	double rate, cpu_us;
};

static void
keep(struct best *b, double n, uint64_t took_ns, uint64_t used_ns)
{
	double rate = n * 1e9 / (double)took_ns, cpu_us = (double)used_ns / n / 1e3;

	b->rate = rate > b->rate ? rate : b->rate;
	b->cpu_us = b->cpu_us == 0 || cpu_us < b->cpu_us ? cpu_us : b->cpu_us;
}

static void
die(const char *what, int r)
{
	fprintf(stderr, "bench_block: %s: %s\n", what, strerror(-r));
	exit(1);
}

/** Small requests go anywhere, long ones in sequence. */
static uint64_t
next_off(const struct shape *s)
{
	if (s->bytes >= 1U << 20) {
		at = (at / s->bytes + 1) % (file_bytes / s->bytes) * s->bytes;
		return at;
	}
	at = at * 6364136223846793005ULL + 1442695040888963407ULL;
	return (at >> 20) % (file_bytes / s->bytes) * s->bytes;
}

/* ---- weft ---- */

struct slot {
	struct weft_block_req req;
	struct iovec iov;
	const struct shape *s;
};

static uint64_t ndone;
static bool stop;

static void
on_done(struct weft_block_req *req)
{
	struct slot *slot = req->owner;

	if (req->status != 0)
		die("a request", req->status);
	ndone++;
	if (stop)
		return;
	req->off_bytes = next_off(slot->s);
	if (weft_block_submit(req->chan, req) != 0)
		die("submit", -EINVAL);
}

static void
by_weft(struct weft_block_chan *c, const struct shape *s, struct best *best)
{
	static struct slot slot[MAX_DEPTH];
	uint64_t start = now_ns(), now = start, cpu = cpu_ns(), n;

	ndone = 0;
	stop = false;
	memset(slot, 0, sizeof(slot));
	for (uint32_t i = 0; i < s->depth; i++) {
		slot[i].s = s;
		slot[i].iov = (struct iovec){memory + (uint64_t)i * (1U << 20), s->bytes};
		slot[i].req =
		        (struct weft_block_req){.op = s->write ? WEFT_BLOCK_WRITE : WEFT_BLOCK_READ,
		                                .off_bytes = next_off(s),
		                                .len_bytes = s->bytes,
		                                .iov = &slot[i].iov,
		                                .iovs = 1,
		                                .done = on_done,
		                                .owner = &slot[i]};
		if (weft_block_submit(c, &slot[i].req) != 0)
			die("submit", -EINVAL);
	}
	while (now - start < ROUND_NS) {
		for (unsigned int i = 0; i < 32; i++)
			weft_block_poll(c, now);
		now = now_ns();
	}
	n = ndone;
	keep(best, (double)n, now - start, cpu_ns() - cpu);
	stop = true;
	while (ndone < n + s->depth)
		weft_block_poll(c, now);
}

/* ---- io_uring alone ---- */

static void
raw_add(struct io_uring *ring, int fd, const struct shape *s, uint64_t i)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);
	uint8_t *mem = memory + i * (1U << 20);

	if (s->write)
		io_uring_prep_write_fixed(sqe, fd, mem, s->bytes, next_off(s), 0);
	else
		io_uring_prep_read_fixed(sqe, fd, mem, s->bytes, next_off(s), 0);
	io_uring_sqe_set_data64(sqe, i);
}

static void
by_ring(int fd, const struct shape *s, struct best *best)
{
	struct iovec iov = {memory, (uint64_t)MAX_DEPTH << 20};
	uint64_t start, now, cpu, n = 0, under_way = s->depth;
	struct io_uring_cqe *cqe;
	struct io_uring ring;
	int r = io_uring_queue_init(MAX_DEPTH, &ring, 0);

	if (r == 0)
		r = io_uring_register_buffers(&ring, &iov, 1);
	if (r != 0)
		die("io_uring", r);
	start = now = now_ns();
	cpu = cpu_ns();
	for (uint32_t i = 0; i < s->depth; i++)
		raw_add(&ring, fd, s, i);
	while (under_way > 0) {
		if (io_uring_sq_ready(&ring) > 0)
			io_uring_submit(&ring);
		while (io_uring_peek_cqe(&ring, &cqe) == 0) {
			uint64_t i = io_uring_cqe_get_data64(cqe);

			if (cqe->res != (int)s->bytes)
				die("a request", cqe->res < 0 ? cqe->res : -EIO);
			io_uring_cqe_seen(&ring, cqe);
			under_way--;
			if (now - start < ROUND_NS) {
				n++;
				under_way++;
				raw_add(&ring, fd, s, i);
			}
		}
		now = now - start < ROUND_NS ? now_ns() : now;
	}
	keep(best, (double)n, now - start, cpu_ns() - cpu);
	io_uring_queue_exit(&ring);
}

static void
fill_file(struct weft_block_chan *c)
{
	const struct shape s = {"fill", true, 1U << 20, 1};

	at = 0;
	for (uint64_t off = 0; off < file_bytes; off += s.bytes) {
		struct iovec iov = {memory, s.bytes};
		struct weft_block_req req = {.op = WEFT_BLOCK_WRITE,
		                             .off_bytes = off,
		                             .len_bytes = s.bytes,
		                             .iov = &iov,
		                             .iovs = 1};
		int r = weft_block_wait(c->block, &req);

		if (r != 0)
			die("fill", r);
	}
}

int
main(int argc, char **argv)
{
	struct weft_block_chan_attr ca = {.size = sizeof(ca), .depth = MAX_DEPTH};
	struct weft_block_attr a = {.size = sizeof(a), .driver = "uring", .create = true};
	char reason[160] = "";
	struct weft_block_info info;
	struct weft_block_chan *c;
	struct weft_block *b;
	void *mem;
	int fd, r;

	if (argc < 2 || argc > 3) {
		fprintf(stderr, "usage: bench_block FILE [MIB]\n");
		return 2;
	}
	a.path = path = argv[1];
	a.bytes = file_bytes = strtoull(argc > 2 ? argv[2] : "256", NULL, 10) << 20;
	a.reason = reason;
	a.reason_bytes = sizeof(reason);
	r = weft_block_open(&a, &b);
	if (r != 0) {
		fprintf(stderr, "bench_block: %s\n", reason);
		return 1;
	}
	if (posix_memalign(&mem, 2U << 20, (uint64_t)MAX_DEPTH << 20) != 0)
		die("memory", -ENOMEM);
	memory = mem;
	memset(memory, 0x5a, (uint64_t)MAX_DEPTH << 20);
	r = weft_block_mem_add(b, memory, (uint64_t)MAX_DEPTH << 20);
	if (r == 0)
		r = weft_block_chan_open(b, &ca, &c);
	fd = open(path, O_RDWR | O_DIRECT | O_CLOEXEC);
	if (r != 0 || fd < 0)
		die("open", r != 0 ? r : -errno);
	weft_block_query(b, &info);
	printf("%s, registered memory: %s\n", info.mechanism, c->registered ? "yes" : "no");
	fill_file(c);
	printf("%-12s %5s %9s %9s %5s %9s %9s\n", "", "depth", "weft/s", "ring/s", "ratio",
	       "weft us", "ring us");
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		struct best weft = {0, 0}, ring = {0, 0};

		for (unsigned int n = 0; n < ROUNDS; n++) {
			by_weft(c, &shapes[i], &weft);
			by_ring(fd, &shapes[i], &ring);
		}
		printf("%-12s %5u %9.0f %9.0f %5.2f %9.2f %9.2f\n", shapes[i].name, shapes[i].depth,
		       weft.rate, ring.rate, weft.rate / ring.rate, weft.cpu_us, ring.cpu_us);
	}
	close(fd);
	weft_block_chan_close(c);
	weft_block_close(b);
	free(mem);
	return 0;
}
