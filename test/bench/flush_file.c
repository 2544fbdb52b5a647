/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The cost of a flush to a file by io_uring and by pwrite: flush_file [FOLDER] [ROUNDS]. For
 * each pattern of dirty pages it prints the microseconds from the submission on the polling thread
 * to done(), those of the submission alone, and the CPU time of the helper thread.
 */

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <weft/persist.h>

#define BYTES (64ULL << 20)
#define MAX   2000

struct shape {
	const char *name;
	uint64_t runs, run_bytes, stride_bytes;
};

static const struct shape shapes[] = {
        {"4 KiB", 1, 4096, 4096},
        {"1 MiB in one piece", 1, 1 << 20, 1 << 20},
        {"16 x 4 KiB, scattered", 16, 4096, 12288},
        {"256 x 4 KiB, scattered", 256, 4096, 12288},
};

static const char *const drivers[] = {"file:pwrite", "file:uring"};

#define NSHAPES  (sizeof(shapes) / sizeof(shapes[0]))
#define NDRIVERS (sizeof(drivers) / sizeof(drivers[0]))

struct figures {
	double all_us[MAX], submit_us[MAX], helper_us;
};

static double
clock_us(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

/** CPU time of the process without this thread. There is one other thread, the helper. */
static double
helper_us(void)
{
	return clock_us(CLOCK_PROCESS_CPUTIME_ID) - clock_us(CLOCK_THREAD_CPUTIME_ID);
}

static void
on_done(struct weft_persist_req *req)
{
	*(volatile int *)req->owner = 1;
}

static int
one(struct weft_persist *p, struct weft_exec *e, const struct shape *s, struct figures *f,
    unsigned int i)
{
	volatile int done = 0;
	struct weft_persist_req req = {.len_bytes = s->runs * s->stride_bytes,
	                               .flags = WEFT_FLUSH_PERSISTENT,
	                               .done = on_done,
	                               .owner = (void *)(uintptr_t)&done};
	double helper, start, posted;
	int r;

	for (uint64_t k = 0; k < s->runs; k++) {
		memset(p->base + k * s->stride_bytes, (int)i, s->run_bytes);
		weft_persist_mark(p, k * s->stride_bytes, s->run_bytes);
	}
	helper = helper_us();
	start = clock_us(CLOCK_MONOTONIC);
	r = p->ops->flush(p, e, &req);
	posted = clock_us(CLOCK_MONOTONIC);
	while (r == 0 && !done)
		weft_exec_poll(e);
	f->all_us[i] = clock_us(CLOCK_MONOTONIC) - start;
	f->submit_us[i] = posted - start;
	f->helper_us += helper_us() - helper;
	return r != 0 ? r : req.status;
}

static int
by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

int
main(int argc, char **argv)
{
	const char *folder = argc > 1 ? argv[1] : "/tmp";
	/* A file that was unlinked accepts no flush. */
	static char path[NDRIVERS][4096];
	unsigned int rounds = argc > 2 ? (unsigned int)atoi(argv[2]) : 200;
	static struct figures f[NDRIVERS];
	struct weft_exec *e;
	int r;

	if (rounds == 0 || rounds > MAX) {
		fprintf(stderr, "usage: flush_file [FOLDER] [ROUNDS, at most %d]\n", MAX);
		return 2;
	}
	r = weft_exec_create(1, &e);
	if (r != 0)
		return 1;
	printf("%-24s %-12s %10s %10s %10s %12s %10s\n", "dirty", "driver", "p50 us", "p90 us",
	       "submit us", "helper us", "ratio p50");
	for (unsigned int s = 0; s < NSHAPES; s++) {
		struct weft_persist *p[NDRIVERS];

		memset(f, 0, sizeof(f));
		for (unsigned int d = 0; d < NDRIVERS; d++) {
			struct weft_persist_attr a = {.size = sizeof(a),
			                              .driver = drivers[d],
			                              .path = path[d],
			                              .bytes = BYTES,
			                              .create = true,
			                              .numa_node = -1};

			snprintf(path[d], sizeof(path[d]), "%s/weft-flush-%ld-%u", folder,
			         (long)getpid(), d);
			r = weft_persist_open(&a, &p[d]);
			if (r != 0) {
				fprintf(stderr, "%s on %s: %s\n", drivers[d], path[d],
				        strerror(-r));
				for (unsigned int k = 0; k < d; k++)
					unlink(path[k]);
				return 1;
			}
			/* The first write of a block makes the file system record it, so write
			 * every block once. */
			weft_persist_mark(p[d], 0, BYTES);
			weft_persist_flush_wait(p[d], 0, BYTES);
		}
		/* Alternate between the drivers, so that disturbances affect both. */
		for (unsigned int i = 0; i < rounds; i++)
			for (unsigned int d = 0; d < NDRIVERS; d++) {
				r = one(p[d], e, &shapes[s], &f[d], i);
				if (r != 0) {
					fprintf(stderr, "%s: %s\n", drivers[d], strerror(-r));
					for (unsigned int k = 0; k < NDRIVERS; k++)
						unlink(path[k]);
					return 1;
				}
			}
		for (unsigned int d = 0; d < NDRIVERS; d++) {
			qsort(f[d].all_us, rounds, sizeof(double), by_value);
			qsort(f[d].submit_us, rounds, sizeof(double), by_value);
			printf("%-24s %-12s %10.1f %10.1f %10.1f %12.1f %10.2f\n", shapes[s].name,
			       drivers[d], f[d].all_us[rounds / 2], f[d].all_us[rounds * 9 / 10],
			       f[d].submit_us[rounds / 2], f[d].helper_us / rounds,
			       f[d].all_us[rounds / 2] / f[0].all_us[rounds / 2]);
			weft_persist_close(p[d]);
			unlink(path[d]);
		}
	}
	weft_exec_destroy(e);
	return 0;
}
