/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file A process in the place of weft-rbd: its "cluster" is a folder, its images are files, and it
 * fails as a test says.
 *
 * The folder is WEFT_RBD_FAKE. In it lie the images, `pid` (of the process that has opened the last
 * one), `owner.IMAGE` (the address that has the lock), and `blocked` (a line for each address that
 * is blocklisted). WEFT_RBD_FAKE_DO is a list of faults:
 *
 *     die=N, hang=N, timeout=N, fail=N, cut=N, rename=N   the Nth request that is no read ends
 *                                 the process, has no end, may still land, fails, is told to be
 *                                 canceled, ends with the wrong tag
 *     hangread=N                  likewise of reads
 *     snapfound, snapname         nonsense in a list of snapshots
 *     index, run, twice, status, gap, offset    nonsense with each completion
 *     noblock=N                   the first N attempts to blocklist fail
 *     version, quit, refuse       of the first packet
 *     deaf                        no call is answered
 */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <weft/block.h>

#include "serve.h"

#define FAKE_PIECE 4096U

static char fake_dir[256], fake_address[64], fake_image[128];
static int fake_fd = -1, fake_event = -1;
static struct serve_req *fake_first, *fake_stuck;
static unsigned int fake_changes, fake_reads;

/** The number of a fault "name" or "name=N"; 0: it is not asked for. */
static unsigned int
fault(const char *name)
{
	const char *at = getenv("WEFT_RBD_FAKE_DO");
	size_t n = strlen(name);

	for (; at != NULL && at[0] != '\0'; at += strcspn(at, ","), at += at[0] == ',') {
		if (strncmp(at, name, n) == 0 && at[n] == '=')
			return (unsigned int)strtoul(at + n + 1, NULL, 10);
		if (strncmp(at, name, n) == 0 && (at[n] == '\0' || at[n] == ','))
			return 1;
	}
	return 0;
}

static const char *
in_dir(const char *name)
{
	static char path[1024];

	snprintf(path, sizeof(path), "%s/%s", fake_dir, name);
	return path;
}

static void
put_line(const char *name, const char *line, const char *mode)
{
	FILE *f = fopen(in_dir(name), mode);

	if (f != NULL) {
		fprintf(f, "%s\n", line);
		fclose(f);
	}
}

static bool
has_line(const char *name, const char *line)
{
	FILE *f = fopen(in_dir(name), "r");
	char buf[128];
	bool has = false;

	while (f != NULL && !has && fgets(buf, sizeof(buf), f) != NULL) {
		buf[strcspn(buf, "\n")] = '\0';
		has = strcmp(buf, line) == 0;
	}
	if (f != NULL)
		fclose(f);
	return has;
}

static unsigned int
lines(const char *name)
{
	FILE *f = fopen(in_dir(name), "r");
	char buf[128];
	unsigned int n = 0;

	while (f != NULL && fgets(buf, sizeof(buf), f) != NULL)
		n++;
	if (f != NULL)
		fclose(f);
	return n;
}

/* ---- Requests ---- */

static int
fake_write(const struct serve_req *r)
{
	if (pwritev(fake_fd, r->iov, r->iovs, (off_t)r->off_bytes) != (ssize_t)r->len_bytes)
		return -EIO;
	return 0;
}

static int
fake_punch(const struct serve_req *r)
{
	return fallocate(fake_fd, 0x3 /* punch, keep size */, (off_t)r->off_bytes,
	                 (off_t)r->len_bytes) == 0
	               ? 0
	               : -errno;
}

static int
fake_compare(struct serve_req *r)
{
	uint8_t is[RBD_SLOT_BYTES];
	const uint8_t *expect = r->expect;

	if (pread(fake_fd, is, r->len_bytes, (off_t)r->off_bytes) != (ssize_t)r->len_bytes)
		return -EIO;
	for (r->at = 0; r->at < r->len_bytes; r->at++)
		if (is[r->at] != expect[r->at])
			return -EILSEQ;
	return fake_write(r);
}

static uint32_t
fake_extents(const struct serve_req *r)
{
	const uint64_t end = r->off_bytes + r->len_bytes;
	uint64_t at = r->off_bytes;
	uint32_t n = 0;

	while (at < end && n < r->max_extents) {
		off_t data = lseek(fake_fd, (off_t)at, SEEK_DATA), to;
		bool hole = data < 0 || (uint64_t)data > at;

		to = data < 0 ? (off_t)end : hole ? data : lseek(fake_fd, (off_t)at, SEEK_HOLE);
		if ((uint64_t)to > end)
			to = (off_t)end;
		r->extents[n++] = (struct rbd_extent){at, (uint64_t)to - at, hole};
		at = (uint64_t)to;
	}
	if (fault("gap") && n > 0)
		r->extents[n - 1].off_bytes += 512;
	return n;
}

/* ---- Snapshots: copies of the file, IMAGE@NAME and IMAGE.clone.NAME ---- */

static int
fake_copy(const char *from, const char *to)
{
	char a[1024], b[1024], line[2200];

	snprintf(a, sizeof(a), "%s", in_dir(from));
	snprintf(b, sizeof(b), "%s", in_dir(to));
	if (access(a, F_OK) != 0)
		return -ENOENT;
	if (access(b, F_OK) == 0)
		return -EEXIST;
	snprintf(line, sizeof(line), "cp --sparse=always '%s' '%s'", a, b);
	return system(line) == 0 ? 0 : -EIO;
}

static int
fake_patch(const char *name, const struct rbd_snap *s, const struct rbd_snap_data *data)
{
	int fd = open(in_dir(name), O_RDWR | O_CLOEXEC), r = fd < 0 ? -EIO : 0;
	uint8_t is[RBD_SNAP_PATCH];

	for (uint32_t i = 0; r == 0 && i < s->patches; i++) {
		const off_t off = (off_t)s->patch[i].off_bytes;
		const uint32_t guard = s->patch[i].guard_bytes, len = s->patch[i].len_bytes;

		if (pread(fd, is, guard, off + s->patch[i].guard_off_bytes) != (ssize_t)guard ||
		    memcmp(is, data->guard[i], guard) != 0)
			r = -ESTALE;
		else if (pwrite(fd, data->data[i], len, off) != (ssize_t)len)
			r = -EIO;
	}
	close(fd);
	if (r != 0)
		unlink(in_dir(name));
	return r;
}

static unsigned int
fake_list(struct rbd_snap *s, const char *prefix, struct rbd_snapshot *to)
{
	DIR *dir = opendir(fake_dir);
	struct dirent **e = NULL;
	int n = scandir(fake_dir, &e, NULL, alphasort);
	unsigned int count = 0;
	struct stat st;

	for (int i = 0; i < n; i++) {
		const char *name = e[i]->d_name + strlen(prefix);

		if (strncmp(e[i]->d_name, prefix, strlen(prefix)) != 0)
			continue;
		count++;
		if (to == NULL || (s->name[0] != '\0' && strcmp(name, s->name) <= 0))
			continue;
		if (s->found == s->max_list) {
			s->more = 1;
			continue;
		}
		(void)stat(in_dir(e[i]->d_name), &st);
		snprintf(to[s->found].name, sizeof(to->name), "%.63s", name);
		to[s->found].bytes = (uint64_t)st.st_size;
		to[s->found++].created_ns = (uint64_t)st.st_mtime * 1000000000ULL;
	}
	for (int i = 0; i < n; i++)
		free(e[i]);
	free(e);
	closedir(dir);
	if (fault("snapfound"))
		s->found = s->max_list + 1;
	if (fault("snapname") && s->found > 0)
		to[0].name[0] = '/';
	return count;
}

static int
fake_snap(struct serve_req *r)
{
	char snaps[160], clones[160], name[256], from[280];
	struct rbd_snap *s = r->snap;
	int e;

	s->found = s->more = 0;
	s->place[0] = '\0';
	/* The driver makes it a line of its own. */
	snprintf(s->reason, sizeof(s->reason), "\x1b[1mno");
	snprintf(snaps, sizeof(snaps), "%s@", fake_image);
	snprintf(clones, sizeof(clones), "%s.clone.", fake_image);
	switch (s->what) {
	case WEFT_BLOCK_SNAP_LIST:
		(void)fake_list(s, snaps, r->snap_data);
		return 0;
	case WEFT_BLOCK_SNAP_REMOVE:
		snprintf(name, sizeof(name), "%s%s", snaps, s->name);
		snprintf(from, sizeof(from), "owner.%s", name);
		if (access(in_dir(from), F_OK) == 0)
			return -EBUSY;
		return unlink(in_dir(name)) == 0 ? 0 : -errno;
	default:
		break;
	}
	snprintf(name, sizeof(name), "%s%s", s->what == WEFT_BLOCK_SNAP_CREATE ? snaps : clones,
	         s->name);
	snprintf(from, sizeof(from), s->from[0] != '\0' ? "%s@%s" : "%s", fake_image, s->from);
	if (access(in_dir(name), F_OK) == 0)
		return -EEXIST;
	if (s->most != 0 &&
	    fake_list(s, s->what == WEFT_BLOCK_SNAP_CREATE ? snaps : clones, NULL) >= s->most)
		return -EDQUOT;
	e = fake_copy(from, name);
	if (e == 0 && s->what == WEFT_BLOCK_SNAP_CLONE)
		e = fake_patch(name, s, r->snap_data);
	if (e == 0)
		snprintf(s->place, sizeof(s->place), "%.127s", name);
	return e;
}

static int
fake_do(struct serve_req *r, uint32_t *extents)
{
	bool changes = r->op != WEFT_BLOCK_READ && r->op != WEFT_BLOCK_FLUSH &&
	               r->op != WEFT_BLOCK_EXTENTS;

	if (changes && has_line("blocked", fake_address)) {
		serve_tell(0, -ESHUTDOWN);
		return -ESHUTDOWN;
	}
	switch (r->op) {
	case WEFT_BLOCK_READ:
		return preadv(fake_fd, r->iov, r->iovs, (off_t)r->off_bytes) ==
		                       (ssize_t)r->len_bytes
		               ? 0
		               : -EIO;
	case WEFT_BLOCK_WRITE:
		return fake_write(r);
	case WEFT_BLOCK_DISCARD:
	case WEFT_BLOCK_ZEROES:
		return fake_punch(r);
	case WEFT_BLOCK_COMPARE_WRITE:
		return fake_compare(r);
	case WEFT_BLOCK_EXTENTS:
		*extents = fake_extents(r);
		return 0;
	case WEFT_BLOCK_SNAPSHOT:
		return fake_snap(r);
	default:
		return 0;
	}
}

/** Nonsense in the ring, behind the driver's back. */
static void
fake_nonsense(struct serve_chan *c)
{
	struct rbd_cqe *last = &rbd_cq(c->base, c->tags)[(c->cq_tail - 1) & (c->tags - 1)];

	if (fault("index"))
		atomic_store(&c->ring->cq_tail, c->cq_tail + c->tags + 1);
	if (fault("run"))
		last->run ^= 1;
	if (fault("status"))
		last->status = 7;
	if (fault("offset"))
		last->status = -EILSEQ, last->done_bytes = UINT64_MAX;
	if (fault("twice")) {
		rbd_cq(c->base, c->tags)[c->cq_tail & (c->tags - 1)] = *last;
		atomic_store(&c->ring->cq_tail, ++c->cq_tail);
	}
}

static void
fake_end(struct serve_req *r, int status, uint32_t extents)
{
	struct serve_chan *c = r->chan;

	if (r->op == WEFT_BLOCK_WRITE && r->at == fault("rename"))
		r->tag = c->tags + 3;
	serve_done(r, status, status == -EILSEQ ? r->at : 0, extents);
	fake_nonsense(c);
}

static void
fake_submit(struct serve_req *r)
{
	const uint64_t one = 1;

	if (r->op == WEFT_BLOCK_READ ? ++fake_reads == fault("hangread")
	                             : ++fake_changes == fault("hang")) {
		r->next = fake_stuck;
		fake_stuck = r;
		return;
	}
	if (r->op != WEFT_BLOCK_READ && fake_changes == fault("die"))
		raise(SIGKILL);
	r->next = fake_first;
	fake_first = r;
	r->at = r->op == WEFT_BLOCK_READ ? 0 : fake_changes;
	(void)!write(fake_event, &one, sizeof(one));
}

/** In the reverse order of their submission. */
static void
fake_poll(void)
{
	struct serve_req *r;
	uint64_t n;

	(void)!read(fake_event, &n, sizeof(n));
	while ((r = fake_first) != NULL) {
		uint32_t extents = 0;
		uint64_t number = r->at;
		int status;

		fake_first = r->next;
		if (number != 0 && number == fault("timeout"))
			status = -ETIMEDOUT;
		else if (number != 0 && number == fault("fail"))
			status = -EIO;
		else if (number != 0 && number == fault("cut"))
			status = -ECANCELED;
		else
			status = fake_do(r, &extents);
		fake_end(r, status, extents);
	}
}

/* ---- Open and close ---- */

static void
fake_close(void)
{
	char name[160];

	snprintf(name, sizeof(name), "owner.%s", fake_image);
	if (has_line(name, fake_address))
		unlink(in_dir(name));
}

static int
fake_lock(struct rbd_hello *h, bool take_over)
{
	char name[160], owner[64] = "";
	FILE *f;

	snprintf(name, sizeof(name), "owner.%s", fake_image);
	f = fopen(in_dir(name), "r");
	if (f != NULL) {
		if (fgets(owner, sizeof(owner), f) != NULL)
			owner[strcspn(owner, "\n")] = '\0';
		fclose(f);
		if (!take_over && !has_line("blocked", owner)) {
			snprintf(h->reason, sizeof(h->reason), "the client at %s has it", owner);
			return -EBUSY;
		}
		put_line("blocked", owner, "a");
	}
	put_line(name, fake_address, "w");
	return 0;
}

static int
fake_open(struct rbd_hello *h, const char *image, bool take_over)
{
	struct stat st;

	if (fault("refuse")) {
		snprintf(h->reason, sizeof(h->reason), "no\tsuch \x1b[1mimage");
		return -ENOENT;
	}
	snprintf(fake_image, sizeof(fake_image), "%s", strrchr(image, '/') + 1);
	fake_fd = open(in_dir(fake_image), O_RDWR | O_CLOEXEC);
	if (fake_fd < 0 || fstat(fake_fd, &st) != 0) {
		snprintf(h->reason, sizeof(h->reason), "%s: no such image", image);
		return -ENOENT;
	}
	snprintf(h->mechanism, sizeof(h->mechanism), "a folder that stands for a cluster");
	h->bytes = (uint64_t)st.st_size;
	h->can = strchr(fake_image, '@') == NULL ? 0xffff : 0xffff & ~0x201; /* read only */
	h->atomic_bytes = h->cut_bytes = 1U << 22;
	h->discard_bytes = FAKE_PIECE;
	h->compare_write_bytes = RBD_SLOT_BYTES;
	return fake_lock(h, take_over);
}

static int
fake_serve(struct rbd_hello *h, const char *image, bool take_over)
{
	struct serve_backend b = {.submit = fake_submit, .poll = fake_poll, .close = fake_close};
	char pid[32];

	if (fault("quit"))
		return 1;
	fake_event = b.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	put_line("pid", pid, "w");
	h->status = serve_begin();
	if (h->status == 0)
		h->status = fake_open(h, image, take_over);
	if (h->status == 0)
		serve_tell(h->bytes, 0);
	if (fault("version"))
		h->version++;
	if (serve_hello(h) != 0 || h->status != 0)
		return 1;
	if (fault("deaf"))
		for (;;)
			pause();
	return serve(&b);
}

static int
fake_blocklist(struct rbd_hello *h, const char *address)
{
	put_line("attempts", address, "a");
	if (lines("attempts") <= fault("noblock"))
		h->status = -ETIMEDOUT;
	else
		put_line("blocked", address, "a");
	(void)serve_hello(h);
	return 0;
}

int
main(int argc, char **argv)
{
	static struct rbd_hello h = {.magic = RBD_MAGIC, .version = RBD_VERSION};
	bool take_over = false;

	if (argc < 3 || getenv("WEFT_RBD_FAKE") == NULL)
		return 2;
	snprintf(fake_dir, sizeof(fake_dir), "%s", getenv("WEFT_RBD_FAKE"));
	snprintf(fake_address, sizeof(fake_address), "127.0.0.1:0/%d", (int)getpid());
	snprintf(h.address, sizeof(h.address), "%s", fake_address);
	for (int i = 3; i < argc; i++)
		take_over |= strcmp(argv[i], "--take-over") == 0;
	if (strcmp(argv[1], "blocklist") == 0)
		return fake_blocklist(&h, argv[2]);
	return fake_serve(&h, argv[2], take_over);
}
