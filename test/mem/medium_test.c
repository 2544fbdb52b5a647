/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Shared by the tests of media. */

#include <linux/loop.h>
#include <sys/ioctl.h>
#include <time.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "medium_test.h"
#include "weft_test.h"

static char folder[4][128];
static unsigned int nfolders;
static pid_t owner;

static void
scratch_remove(void)
{
	if (getpid() != owner)
		return;
	for (unsigned int i = 0; i < nfolders; i++) {
		DIR *d = opendir(folder[i]);
		struct dirent *e;

		while (d != NULL && (e = readdir(d)) != NULL)
			unlinkat(dirfd(d), e->d_name, 0);
		if (d != NULL)
			closedir(d);
		rmdir(folder[i]);
	}
}

const char *
scratch(const char *parent)
{
	char *dir = folder[nfolders];

	if (parent == NULL)
		parent = getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp";
	CHECK(nfolders < 4);
	snprintf(dir, sizeof(folder[0]), "%s/weft-mem-XXXXXX", parent);
	CHECK_MSG(mkdtemp(dir) != NULL, "%s: %s", dir, strerror(errno));
	if (nfolders++ == 0) {
		owner = getpid();
		atexit(scratch_remove);
	}
	return dir;
}

const char *
scratch_path(const char *name)
{
	static char path[4][256];
	static unsigned int at;
	char *p = path[at++ % 4];

	if (nfolders == 0)
		scratch(NULL);
	snprintf(p, sizeof(path[0]), "%s/%s", folder[0], name);
	return p;
}

void
put_file(const char *path, uint64_t bytes, uint8_t fill)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	static uint8_t buf[65536];

	CHECK_MSG(fd >= 0, "%s: %s", path, strerror(errno));
	memset(buf, fill, sizeof(buf));
	while (bytes > 0) {
		ssize_t n = write(fd, buf, bytes < sizeof(buf) ? bytes : sizeof(buf));

		CHECK(n > 0);
		bytes -= (uint64_t)n;
	}
	CHECK_EQ(fsync(fd), 0);
	close(fd);
}

int
get_file(const char *path, void *buf, size_t len, uint64_t off)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = pread(fd, buf, len, (off_t)off);
	close(fd);
	return n == (ssize_t)len ? 0 : -ENODATA;
}

void
poke_file(const char *path, const void *buf, size_t len, uint64_t off)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	CHECK(fd >= 0);
	CHECK_EQ(pwrite(fd, buf, len, (off_t)off), len);
	CHECK_EQ(fsync(fd), 0);
	close(fd);
}

uint64_t
file_bytes(const char *path)
{
	struct stat st;

	return stat(path, &st) != 0 ? UINT64_MAX : (uint64_t)st.st_size;
}

static int
do_open(const char *driver, const char *path, uint64_t bytes, bool create, struct weft_persist **p)
{
	struct weft_persist_attr a = {.size = sizeof(a),
	                              .driver = driver,
	                              .path = path,
	                              .bytes = bytes,
	                              .create = create,
	                              .numa_node = -1};

	return weft_persist_open(&a, p);
}

struct weft_persist *
must_open(const char *driver, const char *path, uint64_t bytes, bool create)
{
	struct weft_persist *p = NULL;
	int r = do_open(driver, path, bytes, create, &p);

	CHECK_MSG(r == 0, "%s on %s: %s", driver, path, strerror(-r));
	return p;
}

int
try_open(const char *driver, const char *path, uint64_t bytes, bool create)
{
	struct weft_persist *p = NULL;
	int r = do_open(driver, path, bytes, create, &p);

	if (r == 0)
		weft_persist_close(p);
	return r;
}

void
put_mem(struct weft_persist *p, uint64_t off, const void *buf, size_t len)
{
	memcpy(p->base + off, buf, len);
	weft_persist_mark(p, off, len);
}

static void
req_done(struct weft_persist_req *req)
{
	++*(unsigned int *)req->owner;
}

static int
wait_for(struct weft_exec *e, struct weft_persist_req *req, int r)
{
	unsigned int *done = req->owner;
	time_t end = time(NULL) + 30;

	/* The limit is a time, as a turn may be very short and the medium may be slow. */
	while (r == 0 && *done == 0 && time(NULL) < end) {
		struct pollfd p = {.fd = weft_exec_fd(e), .events = POLLIN};

		if (weft_exec_poll(e) == 0 && p.fd >= 0)
			poll(&p, 1, 5);
	}
	if (r == 0)
		CHECK_EQ(*done, 1);
	return r != 0 ? r : req->status;
}

int
flush(struct weft_persist *p, struct weft_exec *e, uint64_t off, uint64_t len, uint32_t flags)
{
	unsigned int done = 0;
	struct weft_persist_req req = {.off_bytes = off,
	                               .len_bytes = len,
	                               .flags = flags,
	                               .done = req_done,
	                               .owner = &done,
	                               .status = -ENOMSG};

	return wait_for(e, &req, p->ops->flush(p, e, &req));
}

int
read_back(struct weft_persist *p, struct weft_exec *e, uint64_t off, uint64_t len, void *buf)
{
	unsigned int done = 0;
	struct weft_persist_req req = {.off_bytes = off,
	                               .len_bytes = len,
	                               .done = req_done,
	                               .owner = &done,
	                               .status = -ENOMSG};
	int r = wait_for(e, &req, p->ops->read_back(p, e, &req));

	if (r == 0)
		memcpy(buf, req.data, len);
	if (done != 0 && p->ops->release != NULL)
		p->ops->release(p, &req);
	return r;
}

int
loop_make(const char *file, char dev[32])
{
	/* removed when its last opener closes it, however this program ends */
	struct loop_info64 info = {.lo_flags = LO_FLAGS_AUTOCLEAR};
	int ctl = open("/dev/loop-control", O_RDWR | O_CLOEXEC), fd = -1, n, back;

	if (ctl < 0)
		return -1;
	n = ioctl(ctl, LOOP_CTL_GET_FREE);
	snprintf(dev, 32, "/dev/loop%d", n);
	close(ctl);
	if (n < 0 || (fd = open(dev, O_RDWR | O_CLOEXEC)) < 0)
		return -1;
	back = open(file, O_RDWR | O_CLOEXEC);
	if (ioctl(fd, LOOP_SET_FD, back) != 0 || ioctl(fd, LOOP_SET_STATUS64, &info) != 0) {
		close(fd);
		fd = -1;
	}
	close(back);
	return fd;
}

int
loop_resize(int fd)
{
	return ioctl(fd, LOOP_SET_CAPACITY, 0) != 0 ? -errno : 0;
}

int
loop_block(int fd, unsigned int bytes)
{
	return ioctl(fd, LOOP_SET_BLOCK_SIZE, (unsigned long)bytes) != 0 ? -errno : 0;
}
