/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The block driver "rbd" on a Ceph cluster whose parts are killed or stopped.
 * test_ceph_block.py starts the cluster and runs this with WEFT_TEST_CEPH_DIR, the cluster's
 * folder.
 */

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "block_test.h"
#include "medium_test.h"
#include "rbd_test.h"
#include "weft_base.h"
#include "weft_test.h"

#define PIECE    4096U
#define PLACES   64U
#define DEPTH    16U
#define MIB      (1U << 20)
#define FREEZE_S 10

static char cluster_dir[128], options[512], reason[256];

/* ---- The cluster ---- */

/** Run a command line of the shell. The case fails if it fails. */
static void __attribute__((format(printf, 1, 2))) run(const char *fmt, ...)
{
	char line[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	fflush(stdout);
	CHECK_MSG(system(line) == 0, "%s", line);
}

/** A new image rbd/disk; more: further options of `rbd create`. */
static void
new_image(const char *size, const char *more)
{
	const char *dir = getenv("WEFT_TEST_CEPH_DIR");

	if (dir == NULL)
		test_skip("no cluster: test/run ceph starts one");
	snprintf(cluster_dir, sizeof(cluster_dir), "%s", dir);
	snprintf(options, sizeof(options), "conf=%s/ceph.conf,id=weft,keyring=%s/weft.keyring", dir,
	         dir);
	rbd_real();
	disk_memory_free();
	run("rbd -c %s/ceph.conf rm --no-progress rbd/disk >/dev/null 2>&1; "
	    "rbd -c %s/ceph.conf create --size %s %s rbd/disk",
	    dir, dir, size, more);
}

static const char *
with(const char *more)
{
	static char all[600];

	snprintf(all, sizeof(all), "%s%s", options, more);
	return all;
}

static void
open_image(struct disk *d, const char *more)
{
	const struct weft_block_attr a = {
	        .driver = "rbd", .path = "rbd/disk", .options = with(more)};

	disk_open(d, &a, DEPTH);
}

static int
try_image(const char *path, const char *opts, bool read_only)
{
	const struct weft_block_attr a = {.size = sizeof(a),
	                                  .driver = "rbd",
	                                  .path = path,
	                                  .options = opts,
	                                  .read_only = read_only,
	                                  .reason = reason,
	                                  .reason_bytes = sizeof(reason)};
	struct weft_block *b;
	int r = weft_block_open(&a, &b);

	if (r == 0)
		CHECK_EQ(weft_block_close(b), 0);
	return r;
}

/** The number in a file of the cluster's folder. */
static pid_t
daemon_pid(const char *name)
{
	char path[256], text[32] = "";

	snprintf(path, sizeof(path), "%s/run/%s.pid", cluster_dir, name);
	CHECK_EQ(get_file(path, text, RTE_MIN(file_bytes(path), sizeof(text) - 1), 0), 0);
	return (pid_t)strtol(text, NULL, 10);
}

static void
signal_osds(int sig)
{
	CHECK_EQ(kill(daemon_pid("osd0"), sig), 0);
	CHECK_EQ(kill(daemon_pid("osd1"), sig), 0);
	CHECK_EQ(kill(daemon_pid("osd2"), sig), 0);
}

/** The n-th weft-rbd of a program. */
static pid_t
process_of(pid_t program, unsigned int n)
{
	DIR *d = opendir("/proc");
	pid_t found[16];
	unsigned int count = 0;
	struct dirent *e;

	CHECK(d != NULL);
	while ((e = readdir(d)) != NULL && count < RTE_DIM(found)) {
		char path[300], line[256] = "";
		int ppid = 0;
		FILE *f;

		snprintf(path, sizeof(path), "/proc/%s/stat", e->d_name);
		f = e->d_name[0] >= '0' && e->d_name[0] <= '9' ? fopen(path, "r") : NULL;
		if (f == NULL)
			continue;
		if (fgets(line, sizeof(line), f) != NULL && strstr(line, "(weft-rbd)") != NULL &&
		    sscanf(strrchr(line, ')'), ") %*c %d", &ppid) == 1 && ppid == program)
			found[count++] = (pid_t)strtol(e->d_name, NULL, 10);
		fclose(f);
	}
	closedir(d);
	CHECK_MSG(n < count, "%u processes weft-rbd", count);
	return found[n];
}

static pid_t
process(unsigned int n)
{
	return process_of(getpid(), n);
}

/* ---- Stamped writes ---- */

/** A place of the image: what it holds at least, and what it may hold. */
struct place {
	struct weft_block_req req;
	struct iovec iov;
	uint64_t sent, acked; /**< versions */
	bool busy;
};
static struct place place[PLACES];
static unsigned int acks, failures, under_way;

static void
place_done(struct weft_block_req *req)
{
	struct place *p = req->owner;

	p->busy = false;
	under_way--;
	if (req->status == 0) {
		p->acked = p->sent;
		acks++;
	} else {
		failures++;
	}
}

static void
places_begin(void)
{
	uint8_t *all;

	acks = failures = under_way = 0;
	memset(place, 0, sizeof(place));
	all = disk_memory(PLACES * PIECE);
	for (unsigned int i = 0; i < PLACES; i++)
		place[i].iov = (struct iovec){all + i * PIECE, PIECE};
}

/** Write a new version of each place that is not busy, until `n` more are acknowledged or one has
 * failed. base: the first version. */
static void
places_write(struct disk *d, struct draw *dr, unsigned int n, uint64_t base)
{
	uint64_t end = test_now_us() + 3 * (uint64_t)TEST_WAIT_US;
	unsigned int until = acks + n;

	while (acks < until && failures == 0) {
		struct place *p = &place[draw(dr, PLACES)];

		CHECK_MSG(test_now_us() < end, "%u of %u writes are acknowledged", acks, until);
		if (p->busy || under_way == DEPTH) {
			disk_turn(d);
			continue;
		}
		p->sent = RTE_MAX(p->sent + 1, base);
		fill(p->iov.iov_base, PIECE, 0, p->sent);
		memcpy(p->iov.iov_base, &p->sent, sizeof(p->sent));
		p->req = (struct weft_block_req){.op = WEFT_BLOCK_WRITE,
		                                 .off_bytes = (uint64_t)(p - place) * 65536,
		                                 .len_bytes = PIECE,
		                                 .iov = &p->iov,
		                                 .iovs = 1,
		                                 .done = place_done,
		                                 .owner = p};
		p->busy = true;
		under_way++;
		CHECK_EQ(weft_block_submit(d->c, &p->req), 0);
		disk_poll(d);
	}
}

static void
places_wait(struct disk *d)
{
	uint64_t end = test_now_us() + 3 * (uint64_t)TEST_WAIT_US;

	while (under_way > 0) {
		CHECK_MSG(test_now_us() < end, "%u writes do not end", under_way);
		disk_turn(d);
	}
}

/** Each place holds a whole version between the last one acknowledged and the last one sent. */
static void
places_check(struct disk *d)
{
	uint8_t *is = disk_memory(PIECE), *should = disk_memory(PIECE);

	for (unsigned int i = 0; i < PLACES; i++) {
		uint64_t version;

		CHECK_EQ(disk_io(d, WEFT_BLOCK_READ, 0, i * 65536UL, is, PIECE), 0);
		memcpy(&version, is, sizeof(version));
		CHECK_MSG(version >= place[i].acked && version <= place[i].sent,
		          "place %u has version %" PRIu64 ", acknowledged is %" PRIu64
		          ", sent %" PRIu64,
		          i, version, place[i].acked, place[i].sent);
		if (version == 0)
			continue;
		fill(should, PIECE, 0, version);
		memcpy(should, &version, sizeof(version));
		CHECK_MEM(is, should, PIECE);
	}
}

static int
status_of(struct disk *d)
{
	struct weft_block_state s;

	weft_block_query_state(d->b, &s);
	return s.status;
}

/* ---- Cases ---- */

static void
test_refused(void)
{
	struct disk d;

	new_image("8M", "");
	CHECK_EQ(try_image("rbd/other", options, false), -ENOENT);
	CHECK_MSG(strstr(reason, "rbd create") != NULL, "%s", reason);
	CHECK(try_image("other/disk", options, false) < 0);
	CHECK_MSG(strstr(reason, "pool other") != NULL, "%s", reason);
	CHECK(try_image("rbd/disk", "conf=/nowhere/ceph.conf", false) < 0);
	CHECK_MSG(strstr(reason, "/nowhere/ceph.conf") != NULL, "%s", reason);
	CHECK(try_image("rbd/disk", with(",timeout=2"), false) == 0);
	/* a key that is not there */
	snprintf(reason, sizeof(reason), "conf=%s/ceph.conf,id=nobody,timeout=3", cluster_dir);
	CHECK(try_image("rbd/disk", strdupa(reason), false) < 0);
	CHECK_MSG(strstr(reason, "client.nobody") != NULL, "%s", reason);
	/* a cluster that is not there */
	put_file(scratch_path("conf"), 0, 0);
	run("echo 'mon host = [v2:127.0.0.1:1]' > %s", scratch_path("conf"));
	snprintf(reason, sizeof(reason), "conf=%s,timeout=2", scratch_path("conf"));
	CHECK(try_image("rbd/disk", strdupa(reason), false) < 0);
	CHECK_MSG(strstr(reason, "no connection") != NULL, "%s", reason);
	/* in a namespace */
	run("rbd -c %s/ceph.conf namespace create rbd/space && "
	    "rbd -c %s/ceph.conf create --size 1M rbd/space/disk",
	    cluster_dir, cluster_dir);
	CHECK_EQ(try_image("rbd/space/disk", options, false), 0);
	/* held */
	open_image(&d, "");
	CHECK_EQ(d.info.fencing, WEFT_BLOCK_FENCING_BACKEND);
	CHECK_EQ(d.info.can & WEFT_BLOCK_CAN_MEDIUM, 0);
	test_note("%s, discards of %u", d.info.mechanism, d.info.discard_bytes);
	CHECK_EQ(try_image("rbd/disk", options, false), -EBUSY);
	test_note("%s", reason);
	CHECK_EQ(try_image("rbd/disk", options, true), 0);
	disk_close(&d);
	/* a cache that the image switches on */
	run("rbd -c %s/ceph.conf config image set rbd/disk rbd_cache true", cluster_dir);
	CHECK_EQ(try_image("rbd/disk", options, false), -ENOTSUP);
	CHECK_MSG(strstr(reason, "rbd_cache = true") != NULL, "%s", reason);
	new_image("8M", "--image-feature layering");
	CHECK_EQ(try_image("rbd/disk", options, false), -ENOTSUP);
	CHECK_MSG(strstr(reason, "exclusive-lock") != NULL, "%s", reason);
}

static void
test_resized(void)
{
	uint64_t end = test_now_us() + TEST_WAIT_US;
	struct weft_block_state s;
	struct disk d;

	new_image("8M", "");
	open_image(&d, "");
	CHECK_EQ(d.bytes, 8 * MIB);
	run("rbd -c %s/ceph.conf resize --no-progress --size 16M rbd/disk", cluster_dir);
	do {
		disk_turn(&d);
		weft_block_query_state(d.b, &s);
		CHECK(test_now_us() < end);
	} while (s.bytes != 16 * MIB);
	CHECK_EQ(s.status, 0);
	CHECK_EQ(disk_io(&d, WEFT_BLOCK_WRITE, 0, 16 * MIB - PIECE, disk_memory(PIECE), PIECE), 0);
	disk_close(&d);
}

static void
test_osd_killed(void)
{
	struct draw dr = {test_seed(7) + 1};
	struct disk d;

	test_seed_note(dr.state - 1);
	new_image("8M", "");
	places_begin();
	open_image(&d, "");
	for (unsigned int i = 0; i < 2; i++) {
		char name[8];

		snprintf(name, sizeof(name), "osd%u", (unsigned int)draw(&dr, 3));
		places_write(&d, &dr, 200, 1);
		CHECK_EQ(kill(daemon_pid(name), SIGKILL), 0);
		places_write(&d, &dr, 300, 1);
		places_wait(&d);
		CHECK_EQ(failures, 0);
		CHECK_EQ(disk_io(&d, WEFT_BLOCK_FLUSH, 0, 0, NULL, 0), 0);
		places_check(&d);
		run("%s/cluster up %s", getenv("WEFT_TEST_CEPH_TOOLS"), cluster_dir);
	}
	places_check(&d);
	disk_close(&d);
}

static void
test_process_killed(void)
{
	struct draw dr = {test_seed(8) + 1};
	struct disk d;

	test_seed_note(dr.state - 1);
	new_image("8M", "");
	places_begin();
	for (unsigned int i = 0; i < 4; i++) {
		open_image(&d, "");
		places_check(&d);
		places_write(&d, &dr, 100 + (unsigned int)draw(&dr, 100), 1);
		CHECK_EQ(kill(process(0), SIGKILL), 0);
		while (failures == 0)
			places_write(&d, &dr, 1, 1);
		places_wait(&d);
		CHECK_EQ(status_of(&d), -EIO);
		test_note("%u acknowledged, %u failed", acks, failures);
		failures = 0;
		disk_close(&d);
	}
	open_image(&d, "");
	places_check(&d);
	disk_close(&d);
}

/** The first opener is frozen with writes on their way, and goes on when the second has written. */
static void
test_frozen(void)
{
	struct draw dr = {test_seed(9) + 1};
	struct disk d, other;
	uint8_t *data;
	uint64_t end;
	pid_t frozen;

	test_seed_note(dr.state - 1);
	new_image("8M", "");
	places_begin();
	open_image(&d, "");
	frozen = process(0);
	places_write(&d, &dr, 200, 1);
	CHECK_EQ(kill(frozen, SIGSTOP), 0);
	/* These are in the rings or in its sockets. */
	for (unsigned int i = 0; i < 100; i++)
		disk_poll(&d);
	CHECK_EQ(try_image("rbd/disk", options, false), -EBUSY);
	open_image(&other, ",takeover=yes");
	data = disk_memory(PIECE);
	for (unsigned int i = 0; i < PLACES; i++) {
		uint64_t version = 1000000 + i;

		fill(data, PIECE, 0, version);
		memcpy(data, &version, sizeof(version));
		CHECK_EQ(disk_io(&other, WEFT_BLOCK_WRITE, 0, i * 65536UL, data, PIECE), 0);
	}
	sleep(FREEZE_S);
	CHECK_EQ(kill(frozen, SIGCONT), 0);
	end = test_now_us() + TEST_WAIT_US;
	while (status_of(&d) == 0 || under_way > 0) {
		disk_turn(&d);
		CHECK_MSG(test_now_us() < end, "status %d, %u under way", status_of(&d), under_way);
	}
	CHECK_EQ(status_of(&d), -ESHUTDOWN);
	for (unsigned int i = 0; i < PLACES; i++)
		place[i].acked = place[i].sent = 1000000 + i;
	places_check(&other);
	disk_close(&d);
	places_check(&other);
	disk_close(&other);
}

/** Program and weft-rbd are killed at once: the image is refused for a while, or taken over. */
static void
test_all_killed(void)
{
	uint64_t begin = test_now_us(), end;
	struct disk d;
	pid_t pid, its;
	int fd[2], r;
	char c;

	for (unsigned int i = 0; i < 2; i++) {
		new_image("8M", "");
		CHECK_EQ(pipe(fd), 0);
		fflush(stdout);
		pid = fork();
		CHECK(pid >= 0);
		if (pid == 0) {
			open_image(&d, "");
			if (write(fd[1], "x", 1) == 1)
				pause();
			_exit(1);
		}
		CHECK_EQ(read(fd[0], &c, 1), 1);
		its = process_of(pid, 0);
		/* Stopped first, so that it does not give the lock back. */
		CHECK_EQ(kill(its, SIGSTOP), 0);
		CHECK_EQ(kill(pid, SIGKILL), 0);
		CHECK_EQ(waitpid(pid, NULL, 0), pid);
		CHECK_EQ(kill(its, SIGKILL), 0);
		close(fd[0]);
		close(fd[1]);
		begin = test_now_us();
		CHECK_EQ(try_image("rbd/disk", options, false), -EBUSY);
		if (i == 0)
			CHECK_EQ(try_image("rbd/disk", with(",takeover=yes"), false), 0);
	}
	end = begin + 3 * (uint64_t)TEST_WAIT_US;
	while ((r = try_image("rbd/disk", options, false)) == -EBUSY) {
		CHECK(test_now_us() < end);
		sleep(1);
	}
	CHECK_EQ(r, 0);
	test_note("free after %" PRIu64 " s", (test_now_us() - begin) / 1000000);
}

/** An opener without requests learns that another one has taken the image over. */
static void
test_taken_over_idle(void)
{
	uint64_t end = test_now_us() + TEST_WAIT_US;
	struct disk d, other;

	new_image("8M", "");
	open_image(&d, "");
	open_image(&other, ",takeover=yes");
	while (status_of(&d) == 0) {
		disk_turn(&d);
		CHECK(test_now_us() < end);
	}
	CHECK_EQ(status_of(&d), -ESHUTDOWN);
	disk_close(&d);
	CHECK_EQ(disk_io(&other, WEFT_BLOCK_WRITE, 0, 0, disk_memory(PIECE), PIECE), 0);
	disk_close(&other);
}

/** The whole cluster stops: writes are late, no poll waits, and after the time-out the device is
 * offline; what was under way ends when the client is blocklisted. */
static void
test_cluster_stopped(void)
{
	struct draw dr = {test_seed(10) + 1};
	uint64_t longest = 0, end;
	struct disk d;

	new_image("8M", "");
	places_begin();
	open_image(&d, ",timeout=3");
	places_write(&d, &dr, 50, 1);
	places_wait(&d);
	signal_osds(SIGSTOP);
	for (unsigned int i = 0; i < DEPTH; i++) {
		place[i].sent++;
		fill(place[i].iov.iov_base, PIECE, 0, place[i].sent);
		memcpy(place[i].iov.iov_base, &place[i].sent, sizeof(uint64_t));
		place[i].req = (struct weft_block_req){.op = WEFT_BLOCK_WRITE,
		                                       .off_bytes = i * 65536UL,
		                                       .len_bytes = PIECE,
		                                       .iov = &place[i].iov,
		                                       .iovs = 1,
		                                       .done = place_done,
		                                       .owner = &place[i]};
		under_way++;
		CHECK_EQ(weft_block_submit(d.c, &place[i].req), 0);
	}
	end = test_now_us() + TEST_WAIT_US;
	while (status_of(&d) == 0 && test_now_us() < end) {
		uint64_t before = test_now_us();

		disk_poll(&d);
		longest = RTE_MAX(longest, test_now_us() - before);
		usleep(500);
	}
	test_note("longest poll %" PRIu64 " us", longest);
	signal_osds(SIGCONT);
	CHECK_EQ(status_of(&d), -EIO);
	places_wait(&d);
	disk_close(&d);
	run("%s/cluster up %s", getenv("WEFT_TEST_CEPH_TOOLS"), cluster_dir);
	failures = 0;
	open_image(&d, "");
	places_check(&d);
	disk_close(&d);
}

WEFT_TEST_MAIN({"what is refused", test_refused}, {"an image is resized", test_resized},
               {"an OSD is killed under load", test_osd_killed},
               {"weft-rbd is killed under load", test_process_killed},
               {"a frozen opener is taken over", test_frozen},
               {"an idle opener is taken over", test_taken_over_idle},
               {"program and weft-rbd are killed", test_all_killed},
               {"the cluster stops", test_cluster_stopped})
