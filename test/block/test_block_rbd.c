/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The block driver "rbd" and a process that refuses, dies, hangs, or writes nonsense into the
 * rings: rbd_fake.c in the place of weft-rbd.
 */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "block_test.h"
#include "medium_test.h"
#include "rbd_test.h"
#include "weft_base.h"
#include "weft_test.h"

#define BYTES (1U << 20)
#define LOAD  16
#define PIECE 8192U

static char reason[256];

/* ---- The image, its process, its folder ---- */

static void
remove_file(const char *name)
{
	unlink(scratch_path(name));
}

/** A new image and an empty folder, for processes with these faults. */
static void
folder(const char *faults)
{
	const char *const names[] = {"disk", "pid", "owner.disk", "blocked", "attempts"};

	disk_memory_free();
	for (unsigned int i = 0; i < RTE_DIM(names); i++)
		remove_file(names[i]);
	put_file(scratch_path("disk"), BYTES, 0);
	rbd_fake_folder(scratch_path("."));
	rbd_fake_faults(faults);
}

static int
try_image(const char *path, const char *options, struct weft_block **b)
{
	const struct weft_block_attr a = {.size = sizeof(a),
	                                  .driver = "rbd",
	                                  .path = path,
	                                  .options = options,
	                                  .reason = reason,
	                                  .reason_bytes = sizeof(reason)};

	return weft_block_open(&a, b);
}

/** Open it, with a channel. */
static void
open_image(struct disk *d, const char *options, uint32_t depth)
{
	const struct weft_block_attr a = {.driver = "rbd", .path = "rbd/disk", .options = options};

	disk_open(d, &a, depth);
}

static bool
has_file(const char *name)
{
	return access(scratch_path(name), F_OK) == 0;
}

static pid_t
process(void)
{
	char text[32] = "";

	(void)get_file(scratch_path("pid"), text, file_bytes(scratch_path("pid")), 0);
	return (pid_t)strtol(text, NULL, 10);
}

static unsigned int
descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned int n = 0;

	CHECK(d != NULL);
	while (readdir(d) != NULL)
		n++;
	closedir(d);
	return n;
}

static int
status_of(const struct disk *d)
{
	struct weft_block_state s;

	weft_block_query_state(d->b, &s);
	return s.status;
}

/* ---- A load ---- */

/** Requests whose ends are checked as they come. */
struct load {
	struct weft_block_req req[LOAD];
	struct iovec iov[LOAD];
	struct weft_block_extent extents[4];
	unsigned int done, late;
};
static struct load load;

static void
load_done(struct weft_block_req *req)
{
	load.done++;
	/* Of what the process had, a change that failed is final only when the cluster refuses the
	 * process's client. */
	if (req->status == -EIO && req->op == WEFT_BLOCK_WRITE)
		CHECK(has_file("blocked"));
}

static void
load_late(struct weft_block_req *req)
{
	RTE_SET_USED(req);
	load.late++;
}

/** Submit requests of one kind, each for a place of its own. */
static void
load_start(struct disk *d, enum weft_block_op op, unsigned int from, unsigned int n)
{
	for (unsigned int i = from; i < from + n; i++) {
		uint8_t *data = disk_memory(PIECE);

		fill(data, PIECE, i * PIECE, 5);
		load.iov[i] = (struct iovec){data, PIECE};
		load.req[i] = (struct weft_block_req){.op = op,
		                                      .off_bytes = i * PIECE,
		                                      .len_bytes = PIECE,
		                                      .iov = &load.iov[i],
		                                      .iovs = 1,
		                                      .extents = load.extents,
		                                      .max_extents = 4,
		                                      .done = load_done,
		                                      .late = load_late};
		if (op == WEFT_BLOCK_FLUSH)
			load.req[i].off_bytes = load.req[i].len_bytes = 0;
		CHECK_EQ(weft_block_submit(d->c, &load.req[i]), 0);
	}
}

static void
load_wait(struct disk *d, unsigned int done)
{
	uint64_t end = test_now_us() + TEST_WAIT_US;

	while (load.done < done) {
		CHECK_MSG(test_now_us() < end, "%u of %u are done", load.done, done);
		disk_turn(d);
	}
}

/** Wait until a condition holds, and poll meanwhile. */
#define UNTIL(d, cond)                                                                             \
	do {                                                                                       \
		uint64_t until_ = test_now_us() + TEST_WAIT_US;                                    \
		while (!(cond)) {                                                                  \
			CHECK_MSG(test_now_us() < until_, "%s does not become true", #cond);       \
			disk_turn(d);                                                              \
		}                                                                                  \
	} while (0)

/** What was acknowledged is in the image. */
static void
check_image(void)
{
	static uint8_t is[PIECE];

	for (unsigned int i = 0; i < LOAD; i++) {
		if (load.req[i].op != WEFT_BLOCK_WRITE || load.req[i].status != 0)
			continue;
		CHECK_EQ(get_file(scratch_path("disk"), is, PIECE, i * PIECE), 0);
		CHECK_MEM(is, load.iov[i].iov_base, PIECE);
	}
}

static void
close_and_open_again(struct disk *d)
{
	uint8_t *data;

	disk_close(d);
	rbd_fake_faults(NULL);
	open_image(d, NULL, 4);
	data = disk_memory(4096);
	CHECK_EQ(disk_io(d, WEFT_BLOCK_WRITE, WEFT_BLOCK_FUA, 0, data, 4096), 0);
	CHECK_EQ(disk_io(d, WEFT_BLOCK_FLUSH, 0, 0, NULL, 0), 0);
	disk_close(d);
}

/* ---- Cases ---- */

static void
test_refused(void)
{
	static const char *const paths[] = {"",       "disk",   "a/b/c/d",  "/disk",    "a/",
	                                    "a//b/c", "rbd/d@", "rbd/@one", "rbd/d@a@b"};
	static const char *const options[] = {
	        "takeover=maybe", "takeover=", "timeout=0", "timeout=1x",
	        "timeout=9999",   "conf=",     "cache=yes"};
	struct weft_block *b;

	folder(NULL);
	for (unsigned int i = 0; i < RTE_DIM(paths); i++) {
		CHECK_EQ(try_image(paths[i], NULL, &b), -EINVAL);
		CHECK(reason[0] != '\0');
	}
	CHECK_EQ(try_image(NULL, NULL, &b), -EINVAL);
	/* A snapshot is opened to be read only. */
	CHECK_EQ(try_image("rbd/d@one", NULL, &b), -EROFS);
	for (unsigned int i = 0; i < RTE_DIM(options); i++) {
		CHECK_EQ(try_image("rbd/disk", options[i], &b), -EINVAL);
		CHECK(reason[0] != '\0');
	}
	CHECK(!has_file("pid"));
	CHECK_EQ(try_image("rbd/other", NULL, &b), -ENOENT);
	CHECK_EQ(try_image("rbd/space/disk", "takeover=no,timeout=5,id=x,conf=/c,keyring=/k", &b),
	         0);
	CHECK_EQ(weft_block_close(b), 0);
}

static void
test_no_process(void)
{
	static const struct {
		const char *program, *faults;
		int status;
		const char *says;
	} t[] = {
	        {"/nowhere/weft-rbd", NULL, -ENOTSUP, "WEFT_RBD is /nowhere/weft-rbd"},
	        {"/bin/false", NULL, -EIO, "/bin/false ended before the image was open"},
	        {"script", NULL, -ENOTSUP, "the package librbd1 is missing"},
	        {NULL, "quit", -EIO, "ended before the image was open"},
	        {NULL, "version", -ENOTSUP, "is of another version"},
	        {NULL, "refuse", -ENOENT, "no?such ?[1mimage"},
	};
	struct weft_block *b;
	FILE *f;

	for (unsigned int i = 0; i < RTE_DIM(t); i++) {
		folder(t[i].faults);
		if (t[i].program != NULL && strcmp(t[i].program, "script") == 0) {
			/* as the loader ends a program whose library is missing */
			f = fopen(scratch_path("script"), "w");
			CHECK(f != NULL);
			fputs("#!/bin/sh\nexit 127\n", f);
			fclose(f);
			CHECK_EQ(chmod(scratch_path("script"), 0700), 0);
			setenv("WEFT_RBD", scratch_path("script"), 1);
		} else if (t[i].program != NULL) {
			setenv("WEFT_RBD", t[i].program, 1);
		}
		CHECK_EQ(try_image("rbd/disk", NULL, &b), t[i].status);
		CHECK_MSG(strstr(reason, t[i].says) != NULL, "%s", reason);
	}
}

static void
test_nothing_left(void)
{
	unsigned int before;
	struct disk d;
	pid_t pid;

	folder(NULL);
	disk_memory(PIECE);
	before = descriptors();
	for (unsigned int i = 0; i < 3; i++) {
		open_image(&d, NULL, 4);
		pid = process();
		CHECK(pid > 0 && kill(pid, 0) == 0);
		disk_close(&d);
		CHECK(kill(pid, 0) != 0 && errno == ESRCH);
		CHECK(!has_file("owner.disk"));
	}
	CHECK_EQ(descriptors(), before);
	CHECK(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
}

static void
test_dies(void)
{
	struct disk d;

	for (unsigned int at = 1; at < 8; at += 3) {
		char faults[64];

		snprintf(faults, sizeof(faults), "noblock=2,die=%u,hangread=1", at);
		folder(faults);
		open_image(&d, NULL, LOAD);
		load = (struct load){.done = 0};
		load_start(&d, WEFT_BLOCK_READ, 0, 2);
		load_start(&d, WEFT_BLOCK_WRITE, 2, 9);
		load_start(&d, WEFT_BLOCK_FLUSH, 11, 1);
		/* Until the cluster has refused twice: reads and flushes end, changes do not. */
		UNTIL(&d, load.late >= 10 - at || has_file("blocked"));
		load_wait(&d, 12);
		CHECK(load.late > 0);
		CHECK_EQ(status_of(&d), -EIO);
		CHECK_EQ(load.req[0].status, -EIO);
		CHECK_EQ(load.req[11].status, -EIO);
		check_image();
		CHECK_EQ(disk_io(&d, WEFT_BLOCK_READ, 0, 0, load.iov[0].iov_base, PIECE), -ENODEV);
		close_and_open_again(&d);
	}
}

/** A process whose program is killed ends what it has, gives the lock back, and goes. */
static void
test_program_killed(void)
{
	uint64_t end = test_now_us() + TEST_WAIT_US;
	struct disk d;
	pid_t pid;
	int st;

	folder(NULL);
	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		open_image(&d, NULL, LOAD);
		load_start(&d, WEFT_BLOCK_WRITE, 0, LOAD);
		raise(SIGKILL);
	}
	CHECK_EQ(waitpid(pid, &st, 0), pid);
	CHECK(WIFSIGNALED(st));
	while (has_file("owner.disk")) {
		usleep(1000);
		CHECK(test_now_us() < end);
	}
	open_image(&d, NULL, 4);
	CHECK(!has_file("blocked"));
	disk_close(&d);
}

/** Whether the process has ended; it is not this program's child any more. */
static bool
process_ended(pid_t pid)
{
	return kill(pid, 0) != 0 && errno == ESRCH;
}

/**
 * A process whose program is killed, and which has a change that may still land, keeps the lock:
 * the next opener has to have the cluster refuse the change before it writes.
 */
static void
test_program_killed_in_doubt(void)
{
	uint64_t end = test_now_us() + TEST_WAIT_US;
	struct disk d;
	pid_t pid;
	int st;

	folder("timeout=1");
	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		open_image(&d, NULL, LOAD);
		/* The program dies when the answer is there, and before it takes the answer. */
		CHECK_EQ(kill(process(), SIGSTOP), 0);
		load_start(&d, WEFT_BLOCK_WRITE, 0, 1);
		disk_poll(&d);
		CHECK_EQ(kill(process(), SIGCONT), 0);
		while (weft_block_next_ns(d.c) != 0)
			CHECK(test_now_us() < end);
		raise(SIGKILL);
	}
	CHECK_EQ(waitpid(pid, &st, 0), pid);
	CHECK(WIFSIGNALED(st));
	while (!process_ended(process())) {
		usleep(1000);
		CHECK(test_now_us() < end);
	}
	CHECK(has_file("owner.disk"));
	CHECK(!has_file("blocked"));
	rbd_fake_faults(NULL);
	open_image(&d, "takeover=yes", 4);
	CHECK(has_file("blocked"));
	disk_close(&d);
}

static unsigned int events, event_status;

static void
on_event(struct weft_block_chan *c, const struct weft_block_state *s)
{
	RTE_SET_USED(c);
	events++;
	event_status = (unsigned int)-s->status;
}

/** A worker that sleeps learns of a process that dies although it had nothing to do. */
static void
test_dies_idle(void)
{
	struct weft_block_chan_attr ca = {.size = sizeof(ca), .event = on_event};
	struct pollfd p = {.events = POLLIN};
	struct disk d;

	folder(NULL);
	open_image(&d, NULL, 4);
	CHECK_EQ(weft_block_chan_close(d.c), 0);
	CHECK_EQ(weft_block_chan_open(d.b, &ca, &d.c), 0);
	events = 0;
	disk_poll(&d);
	CHECK(weft_block_next_ns(d.c) == UINT64_MAX);
	CHECK_EQ(kill(process(), SIGKILL), 0);
	p.fd = weft_block_chan_fd(d.c);
	CHECK_EQ(poll(&p, 1, TEST_WAIT_US / 1000), 1);
	UNTIL(&d, events > 0 && has_file("blocked"));
	CHECK_EQ(event_status, EIO);
	close_and_open_again(&d);
}

static void
test_hangs(void)
{
	uint64_t end, before, longest = 0;
	struct disk d;
	int r;

	folder("hang=2");
	open_image(&d, NULL, LOAD);
	load = (struct load){.done = 0};
	load_start(&d, WEFT_BLOCK_WRITE, 0, 3);
	load.req[1].deadline_ns = 0;
	load_wait(&d, 2);
	CHECK_EQ(load.req[1].status, 0);
	/* Nothing of it is given up before the fence, and then it is final. */
	CHECK_EQ(weft_block_cancel(d.c, &load.req[1]), 0);
	disk_turn(&d);
	CHECK_EQ(load.done, 2);
	CHECK(!has_file("blocked"));
	end = test_now_us() + TEST_WAIT_US;
	while ((r = weft_block_fence(d.b)) == -EINPROGRESS) {
		before = test_now_us();
		disk_poll(&d);
		longest = RTE_MAX(longest, test_now_us() - before);
		usleep(1000);
		CHECK(test_now_us() < end);
	}
	CHECK_EQ(r, 0);
	disk_poll(&d);
	CHECK_EQ(load.done, 3);
	CHECK_EQ(load.req[1].status, -EIO);
	CHECK(has_file("blocked"));
	test_note("longest poll %" PRIu64 " us", longest);
	close_and_open_again(&d);
}

/** A process that is stopped keeps no poll waiting. */
static void
test_stopped(void)
{
	struct disk d;

	folder(NULL);
	open_image(&d, NULL, LOAD);
	load = (struct load){.done = 0};
	CHECK_EQ(kill(process(), SIGSTOP), 0);
	load_start(&d, WEFT_BLOCK_WRITE, 0, LOAD);
	for (unsigned int i = 0; i < 1000; i++)
		disk_poll(&d);
	CHECK_EQ(load.done, 0);
	CHECK_EQ(kill(process(), SIGCONT), 0);
	load_wait(&d, LOAD);
	for (unsigned int i = 0; i < LOAD; i++)
		CHECK_EQ(load.req[i].status, 0);
	check_image();
	disk_close(&d);
}

/** A process that stays stopped is given up on, in a time that `timeout` sets. */
static void
test_stopped_for_ever(void)
{
	uint64_t began = test_now_us();
	struct disk d;

	folder(NULL);
	open_image(&d, "timeout=1", LOAD);
	load = (struct load){.done = 0};
	CHECK_EQ(kill(process(), SIGSTOP), 0);
	load_start(&d, WEFT_BLOCK_WRITE, 0, 3);
	for (unsigned int i = 0; i < 3; i++)
		load.req[i].deadline_ns = 0;
	load_wait(&d, 3);
	CHECK(test_now_us() - began > 3000000);
	for (unsigned int i = 0; i < 3; i++)
		CHECK_EQ(load.req[i].status, -EIO);
	CHECK_EQ(status_of(&d), -EIO);
	close_and_open_again(&d);
}

/** A change that timed out in the cluster may still land: late, then the end of the device. */
static void
test_timeout(void)
{
	struct disk d;

	folder("timeout=2,noblock=1");
	open_image(&d, NULL, LOAD);
	load = (struct load){.done = 0};
	load_start(&d, WEFT_BLOCK_WRITE, 0, 3);
	UNTIL(&d, load.late > 0);
	load_wait(&d, 3);
	CHECK_EQ(load.req[1].status, -EIO);
	CHECK_EQ(status_of(&d), -EIO);
	check_image();
	close_and_open_again(&d);
}

static void
test_nonsense(void)
{
	static const uint8_t zeros[512];
	static const struct {
		const char *faults;
		enum weft_block_op op;
	} t[] = {
	        {"index", WEFT_BLOCK_WRITE},          {"run", WEFT_BLOCK_WRITE},
	        {"twice", WEFT_BLOCK_WRITE},          {"status", WEFT_BLOCK_WRITE},
	        {"rename=1", WEFT_BLOCK_WRITE},       {"rename=3", WEFT_BLOCK_WRITE},
	        {"index", WEFT_BLOCK_READ},           {"run", WEFT_BLOCK_READ},
	        {"twice", WEFT_BLOCK_READ},           {"gap", WEFT_BLOCK_EXTENTS},
	        {"offset", WEFT_BLOCK_COMPARE_WRITE},
	};
	struct disk d;

	for (unsigned int i = 0; i < RTE_DIM(t); i++) {
		struct weft_block_req last = {.op = t[i].op,
		                              .len_bytes = 512,
		                              .iov = &load.iov[15],
		                              .iovs = 1,
		                              .extents = load.extents,
		                              .max_extents = 4,
		                              .expect = zeros,
		                              .done = load_done};

		test_note("%s", t[i].faults);
		folder(t[i].faults);
		open_image(&d, NULL, LOAD);
		load = (struct load){.done = 0};
		load.iov[15] = (struct iovec){disk_memory(512), 512};
		if (t[i].op == WEFT_BLOCK_COMPARE_WRITE || t[i].op == WEFT_BLOCK_EXTENTS) {
			memset(load.iov[15].iov_base, 1, 512);
			CHECK_EQ(weft_block_submit(d.c, &last), 0);
			load_wait(&d, 1);
			CHECK_EQ(last.status, -EIO);
		} else {
			load_start(&d, t[i].op, 0, 4);
			load_wait(&d, 4);
		}
		UNTIL(&d, has_file("blocked"));
		CHECK_MSG(status_of(&d) == -EIO, "%s: %d", t[i].faults, status_of(&d));
		check_image();
		close_and_open_again(&d);
	}
}

static void
test_taken_over(void)
{
	struct weft_block_chan_attr ca = {.size = sizeof(ca), .event = on_event};
	struct weft_block *b;
	struct disk d, other;
	uint8_t *data;

	folder(NULL);
	open_image(&d, NULL, 4);
	data = disk_memory(4096);
	CHECK_EQ(weft_block_chan_close(d.c), 0);
	CHECK_EQ(weft_block_chan_open(d.b, &ca, &d.c), 0);
	events = 0;
	CHECK_EQ(try_image("rbd/disk", NULL, &b), -EBUSY);
	CHECK_MSG(strstr(reason, "has it") != NULL, "%s", reason);
	CHECK_EQ(disk_io(&d, WEFT_BLOCK_WRITE, 0, 0, data, 4096), 0);
	open_image(&other, "takeover=yes", 4);
	fill(data, 4096, 0, 1);
	CHECK_EQ(disk_io(&d, WEFT_BLOCK_WRITE, 0, 0, data, 4096), -EIO);
	UNTIL(&d, events > 0);
	CHECK_EQ(event_status, ESHUTDOWN);
	CHECK_EQ(status_of(&d), -ESHUTDOWN);
	CHECK_EQ(disk_io(&d, WEFT_BLOCK_WRITE, 0, 0, data, 4096), -ENODEV);
	disk_close(&d);
	CHECK_EQ(disk_io(&other, WEFT_BLOCK_WRITE, 0, 0, data, 4096), 0);
	CHECK_EQ(status_of(&other), 0);
	disk_close(&other);
}

/** The flush behind a change that has failed fails, although the backend has nothing to say. */
static void
test_failed_write(void)
{
	struct weft_block_state s;
	struct disk d;
	uint8_t *data;

	folder("fail=2");
	open_image(&d, NULL, 4);
	data = disk_memory(4096);
	CHECK_EQ(disk_io(&d, WEFT_BLOCK_WRITE, 0, 0, data, 4096), 0);
	CHECK_EQ(disk_io(&d, WEFT_BLOCK_WRITE, 0, 0, data, 4096), -EIO);
	CHECK_EQ(disk_io(&d, WEFT_BLOCK_FLUSH, 0, 0, NULL, 0), -EIO);
	weft_block_query_state(d.b, &s);
	CHECK_EQ(s.lost_flushes, 1);
	CHECK_EQ(s.status, 0);
	CHECK_EQ(disk_io(&d, WEFT_BLOCK_FLUSH, 0, 0, NULL, 0), 0);
	disk_close(&d);
	/* A process that says "canceled" does not make a change undone. */
	folder("cut=1");
	open_image(&d, NULL, 4);
	CHECK_EQ(disk_io(&d, WEFT_BLOCK_ZEROES, 0, 0, NULL, 4096), -EIO);
	disk_close(&d);
}

/** A read that hangs is given up at once; its slots are not used before the process is done. */
static void
test_read_canceled(void)
{
	struct disk d;

	folder("hangread=1");
	open_image(&d, NULL, LOAD);
	load = (struct load){.done = 0};
	load_start(&d, WEFT_BLOCK_READ, 0, 2);
	load_wait(&d, 1);
	CHECK_EQ(load.req[1].status, 0);
	CHECK_EQ(weft_block_cancel(d.c, &load.req[0]), 0);
	disk_poll(&d);
	CHECK_EQ(load.done, 2);
	CHECK_EQ(load.req[0].status, -ECANCELED);
	load_start(&d, WEFT_BLOCK_WRITE, 2, 14);
	load_wait(&d, LOAD);
	check_image();
	CHECK_EQ(kill(process(), SIGKILL), 0);
	UNTIL(&d, has_file("blocked"));
	close_and_open_again(&d);
}

WEFT_TEST_MAIN({"paths and options that are refused", test_refused},
               {"a process that is missing, old or refuses", test_no_process},
               {"a close leaves no process and no descriptor", test_nothing_left},
               {"a process that dies under load", test_dies},
               {"a process that dies without a load", test_dies_idle},
               {"a program that is killed", test_program_killed},
               {"a change that hangs ends behind a fence", test_hangs},
               {"a process that is stopped", test_stopped},
               {"a process that stays stopped", test_stopped_for_ever},
               {"a program killed with a change in doubt", test_program_killed_in_doubt},
               {"a change that times out", test_timeout},
               {"a process that writes nonsense", test_nonsense},
               {"another opener takes over", test_taken_over},
               {"a flush behind a change that failed", test_failed_write},
               {"a read that hangs is canceled", test_read_canceled})
