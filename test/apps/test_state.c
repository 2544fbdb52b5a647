/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The state directory of weft-target: what is kept, what is refused, what a crash leaves. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "target_state.h"
#include "weft_test.h"

static char dir[64], err[2048];
static struct state *st;

static unsigned int noted;     /* lines of state_undo() */
static unsigned int bad_dirs;  /* so many fsync() of directories fail, */
static unsigned int good_dirs; /* behind so many that do not */
static unsigned int bad_notes; /* so many unlink() of notes of deleted exports fail */

static void
note(const char *fmt, ...)
{
	(void)fmt;
	noted++;
}

/* In place of the C library's. */
int
fsync(int fd)
{
	struct stat s;

	if (bad_dirs > 0 && fstat(fd, &s) == 0 && S_ISDIR(s.st_mode)) {
		if (good_dirs > 0) {
			good_dirs--;
			return (int)syscall(SYS_fsync, fd);
		}
		bad_dirs--;
		errno = EIO;
		return -1;
	}
	return (int)syscall(SYS_fsync, fd);
}

/* Likewise. */
int
unlink(const char *path)
{
	const size_t len = strlen(path);

	if (bad_notes > 0 && len > 5 && strcmp(path + len - 5, ".gone") == 0) {
		bad_notes--;
		errno = EIO;
		return -1;
	}
	return (int)syscall(SYS_unlink, path);
}

/** Open the directory, after the one of before was closed. */
static void
again(void)
{
	state_close(st);
	st = NULL;
	CHECK_MSG(state_open(dir, true, &st, err, sizeof(err)) == 0, "%s", err);
	noted = 0;
	state_resv_settle(st, note);
}

static void
begin(void)
{
	strcpy(dir, "/tmp/weft-state.XXXXXX");
	CHECK(mkdtemp(dir) != NULL);
	again();
}

static void
end(void)
{
	static const char *const names[] = {"exports.ini", "exports.ini.old", "exports.ini.new",
	                                    "held",        "held.old",        "held.new",
	                                    "lock"};
	char path[128];

	state_close(st);
	st = NULL;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
		unlink(path);
	}
	CHECK_EQ(rmdir(dir), 0);
}

static int
parse(const char *name, const char *key, const char *value, struct conf_export *out)
{
	const char *pairs[2][2] = {{key, value}, {"path", "p.weft"}};

	return state_parse(st, name, NULL, (const char *const(*)[2])pairs, 2, out, err,
	                   sizeof(err));
}

static void
put(const char *name, const char *size)
{
	struct conf_export e;

	CHECK_MSG(parse(name, "size", size, &e) == 0, "%s", err);
	CHECK_EQ(state_put(st, name, &e, err, sizeof(err)), 0);
}

static void
test_kept(void)
{
	struct conf_export e;
	char want[128];

	begin();
	put("a", "4M");
	put("b", "1G");
	put("a", "8M"); /* in place of the other one */
	again();
	CHECK_EQ(st->nexports, 2);
	CHECK_STR(st->exports[0].name, "a");
	CHECK_EQ(st->exports[0].size_bytes, 8 << 20);
	CHECK(st->exports[1].of_state);
	snprintf(want, sizeof(want), "%s/p.weft", dir);
	CHECK_STR(st->exports[0].path, want);
	/* Another name; then one is removed. */
	e = st->exports[0];
	strcpy(e.name, "c");
	CHECK_EQ(state_put(st, "a", &e, err, sizeof(err)), 0);
	CHECK_EQ(state_remove(st, "b", err, sizeof(err)), 0);
	CHECK_EQ(state_remove(st, "b", err, sizeof(err)), 0);
	again();
	CHECK_EQ(st->nexports, 1);
	CHECK_STR(st->exports[0].name, "c");
	end();
}

static void
test_undo(void)
{
	begin();
	put("a", "4M");
	CHECK_EQ(state_undo(st, note), 0);
	CHECK_EQ(st->nexports, 0);
	again();
	CHECK_EQ(st->nexports, 0);
	put("a", "4M");
	put("b", "4M");
	CHECK_EQ(state_undo(st, note), 0);
	CHECK_EQ(st->nexports, 1);
	CHECK_EQ(state_remove(st, "a", err, sizeof(err)), 0);
	CHECK_EQ(state_undo(st, note), 0);
	again();
	CHECK_EQ(st->nexports, 1);
	CHECK_STR(st->exports[0].name, "a");
	end();
}

/* A set in place of all: in its order, as a whole, and taken back as a whole. */
static void
test_set(void)
{
	static const struct {
		const char *text, *want;
	} bad[] = {
	        {"[export a]\nsize = x\n", "line 2: "},
	        {"[export a]\npath = a\n\n[export a]\npath = b\n", "line 4: "},
	        {"[export a]\npath = a\n [target]\n", "line 3: "},
	        {"[exports]\n", "line 1: "},
	        {"size = 1M\n", "line 1: "},
	};
	struct conf *c = calloc(1, sizeof(*c));

	begin();
	put("a", "4M");
	put("b", "4M");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		CHECK_EQ(state_parse_set(st, bad[i].text, c, err, sizeof(err)), -EINVAL);
		CHECK_MSG(strncmp(err, bad[i].want, strlen(bad[i].want)) == 0, "%s", err);
		CHECK(strchr(err, '\n') == NULL);
	}
	CHECK_EQ(state_parse_set(st, "; nothing\n", c, err, sizeof(err)), 0);
	CHECK_EQ(c->nexports, 0);
	conf_free(c);
	CHECK_EQ(state_parse_set(st,
	                         "[export c]\nsize = 1M\npath = c\n"
	                         "[export\ta]\nsize = 8M\npath = p.weft\n",
	                         c, err, sizeof(err)),
	         0);
	CHECK_EQ(state_replace(st, c->exports, c->nexports, err, sizeof(err)), 0);
	for (int round = 0; round < 2; round++) {
		CHECK_EQ(st->nexports, 2);
		CHECK_STR(st->exports[0].name, "c");
		CHECK_STR(st->exports[1].name, "a");
		CHECK(st->exports[0].of_state && st->exports[1].size_bytes == 8 << 20);
		again();
	}
	CHECK_EQ(state_undo(st, note), 0);
	for (int round = 0; round < 2; round++) {
		CHECK_EQ(st->nexports, 2);
		CHECK_STR(st->exports[0].name, "a");
		CHECK_STR(st->exports[1].name, "b");
		again();
	}
	conf_free(c);
	free(c);
	end();
}

/* A crash leaves half of a new file: it is not looked at. */
static void
test_half_written(void)
{
	char path[128];
	FILE *f;

	begin();
	put("a", "4M");
	CHECK_EQ(state_hold(st, "a", true, err, sizeof(err)), 0);
	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "%s/%s.new", dir, i == 0 ? "exports.ini" : "held");
		f = fopen(path, "w");
		fputs("[export b]\nsi", f);
		fclose(f);
	}
	again();
	CHECK_EQ(st->nexports, 1);
	CHECK(state_is_held(st, "a"));
	put("b", "4M");
	again();
	CHECK_EQ(st->nexports, 2);
	end();
}

/* A write that fails changes nothing, here and in the file. */
static void
test_write_fails(void)
{
	struct conf_export e;
	char path[128];

	begin();
	put("a", "4M");
	snprintf(path, sizeof(path), "%s/exports.ini.new", dir);
	CHECK_EQ(mkdir(path, 0700), 0);
	CHECK_EQ(parse("b", "size", "4M", &e), 0);
	CHECK_EQ(state_put(st, "b", &e, err, sizeof(err)), -EIO);
	CHECK_EQ(state_remove(st, "a", err, sizeof(err)), -EIO);
	CHECK_EQ(state_replace(st, &e, 1, err, sizeof(err)), -EIO);
	CHECK_EQ(st->nexports, 1);
	CHECK_STR(st->exports[0].name, "a");
	CHECK_EQ(rmdir(path), 0);
	again();
	CHECK_EQ(st->nexports, 1);
	end();
}

/* The new file has the name already when the directory cannot be made durable. */
static void
test_sync_fails(void)
{
	struct conf_export e;

	begin();
	CHECK_EQ(parse("a", "size", "4M", &e), 0);
	for (uint32_t n = 0; n < 2; n++) {
		bad_dirs = 2;
		CHECK_EQ(state_put(st, n == 0 ? "a" : "b", &e, err, sizeof(err)), -EIO);
		CHECK_MSG(strstr(err, "nothing was changed") != NULL, "%s", err);
		bad_dirs = 1;
		CHECK_EQ(state_hold(st, "a", n == 0, err, sizeof(err)), -EIO);
		bad_dirs = 0;
		CHECK_EQ(st->nexports, n);
		again();
		CHECK_EQ(st->nexports, n);
		CHECK_EQ(state_is_held(st, "a"), n > 0);
		put("a", "4M");
		CHECK_EQ(state_hold(st, "a", true, err, sizeof(err)), 0);
	}
	end();
}

/* An undo that fails leaves the file that there is, and says so. */
static void
test_undo_fails(void)
{
	char path[128];
	FILE *f;

	begin();
	put("a", "4M");
	put("b", "4M");
	snprintf(path, sizeof(path), "%s/exports.ini.old", dir);
	/* What was before cannot be read: the exports stay. */
	f = fopen(path, "w");
	fputs("[export a]\nsi", f);
	fclose(f);
	noted = 0;
	CHECK(state_undo(st, note) < 0);
	CHECK_EQ(noted, 1);
	CHECK_EQ(st->nexports, 2);
	/* Another failure than that there was no file before. */
	put("c", "4M");
	CHECK(unlink(path) == 0 && mkdir(path, 0700) == 0);
	CHECK_EQ(state_undo(st, note), -ENOTDIR);
	CHECK_EQ(noted, 2);
	again();
	CHECK_EQ(st->nexports, 3);
	CHECK_EQ(rmdir(path), 0);
	end();
}

static void
test_held(void)
{
	begin();
	CHECK(!state_is_held(st, "a"));
	CHECK_EQ(state_hold(st, "a", false, err, sizeof(err)), 0);
	CHECK_EQ(state_hold(st, "a", true, err, sizeof(err)), 0);
	CHECK_EQ(state_hold(st, "b", true, err, sizeof(err)), 0);
	CHECK_EQ(state_hold(st, "a", true, err, sizeof(err)), 0);
	CHECK_EQ(state_hold(st, "a", false, err, sizeof(err)), 0);
	again();
	CHECK(!state_is_held(st, "a") && state_is_held(st, "b"));
	CHECK_EQ(st->nheld, 1);
	end();
}

/* Values that would be other lines, comments, or cut by the parser. */
static void
test_refused(void)
{
	static const char *const bad[] = {"4M\n[export b]", "4M ; x", "", " 4M", "4M ",
	                                  "4M\r",           "x"};
	static const char *const names[] = {"", "a b", "a]", "a\nb", "a/b", ";", "[a"};
	struct conf_export e;

	begin();
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		CHECK_MSG(parse("a", "size", bad[i], &e) == -EINVAL, "%s", bad[i]);
		CHECK(err[0] != '\0' && strchr(err, '\n') == NULL);
	}
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		CHECK_MSG(parse(names[i], "size", "4M", &e) == -EINVAL, "%s", names[i]);
	CHECK_EQ(parse("a", "si ze", "4M", &e), -EINVAL);
	CHECK_EQ(parse("a", "nix", "4M", &e), -EINVAL);
	/* The place of the message is the export, not a file that the operator has never seen. */
	CHECK(strncmp(err, "[export a] nix: ", 16) == 0);
	end();
}

/* Drawn exports are read as they were written. */
static void
test_drawn(void)
{
	static const char *const rights[] = {"read", "read,write", "read,write,flush,verify",
	                                     "read,verify"};
	static const char *const hashes[] = {"crc32c", "sha256", "crc64-xz"};
	static const char *const names[] = {"any", "alice", "alice, b-2"};
	static const char *const most[] = {"0", "700", "4294967294"};
	static const char *const nets[] = {"any", "10.0.0.7", "10.0.0.0/24,fd00::/64", "fe80::1"};
	uint64_t x = test_seed((uint64_t)time(NULL));

	test_seed_note(x);
	begin();
	for (int n = 0; n < 300; n++) {
		char size[32], path[200], scrub[16], numa[16];
		const char *pairs[14][2];
		struct conf_export e, f;
		unsigned int k = 0, len;
		char *text = NULL;
		size_t bytes;
		FILE *out;

		x = x * 6364136223846793005ULL + 1442695040888963407ULL;
		snprintf(size, sizeof(size), "%llu",
		         (unsigned long long)(2 << 20) + (x >> 30) % (1ULL << 40));
		len = 1 + (x >> 40) % 150;
		for (unsigned int i = 0; i < len; i++)
			path[i] = (char)('!' + (x >> (i % 48)) % 90);
		if (path[0] == '"' || path[0] == ';' || path[0] == '#')
			path[0] = '/';
		path[len] = '\0';
		pairs[k][0] = "size", pairs[k++][1] = size;
		pairs[k][0] = "path", pairs[k++][1] = path;
		pairs[k][0] = "rights", pairs[k++][1] = rights[(x >> 20) % 4];
		pairs[k][0] = "hash", pairs[k++][1] = hashes[(x >> 22) % 3];
		snprintf(numa, sizeof(numa), "%d", (int)((x >> 24) % 5) - 1);
		pairs[k][0] = "numa_node", pairs[k++][1] = numa;
		pairs[k][0] = "allow_clients", pairs[k++][1] = names[(x >> 33) % 3];
		pairs[k][0] = "allow_from", pairs[k++][1] = nets[(x >> 35) % 4];
		pairs[k][0] = "max_bytes_per_s", pairs[k++][1] = most[(x >> 37) % 3];
		pairs[k][0] = "client_ops_per_s", pairs[k++][1] = most[(x >> 39) % 2];
		pairs[k][0] = "max_conns", pairs[k++][1] = most[(x >> 41) % 2];
		if (x >> 63) {
			snprintf(scrub, sizeof(scrub), "%u", (unsigned int)((x >> 26) % 1000));
			pairs[k][0] = "format", pairs[k++][1] = "volume";
			pairs[k][0] = "checksums", pairs[k++][1] = "yes";
			pairs[k][0] = "scrub", pairs[k++][1] = scrub;
		}
		CHECK_MSG(state_parse(st, "e", NULL, (const char *const(*)[2])pairs, k, &e, err,
		                      sizeof(err)) == 0,
		          "%s: %s", path, err);
		out = open_memstream(&text, &bytes);
		conf_print_export(out, &e);
		fclose(out);
		CHECK_EQ(conf_parse_export("x", text, &f, err, sizeof(err)), 0);
		CHECK(e.size_bytes == f.size_bytes && strcmp(e.path, f.path) == 0 &&
		      e.rights == f.rights && strcmp(e.hash, f.hash) == 0 && e.format == f.format &&
		      e.checksums == f.checksums && e.scrub_mb_s == f.scrub_mb_s &&
		      e.numa_node == f.numa_node && conf_export_soft_same(&e, &f));
		CHECK_EQ(conf_has_client(e.allow_clients, "alice"), (x >> 33) % 3 > 0);
		CHECK_EQ(conf_has_client(e.allow_clients, "b-2"), (x >> 33) % 3 == 2);
		CHECK(!conf_has_client(e.allow_clients, "b") &&
		      !conf_has_client(e.allow_clients, ""));
		CHECK_EQ(e.nallow_from, ((const uint32_t[]){0, 1, 2, 1})[(x >> 35) % 4]);
		free(text);
	}
	end();
}

/** Reservations of a volume: replaced as a whole; a write that fails leaves those of before. */
static void
test_reservations(void)
{
	const uint8_t uuid[16] = {0xab, 0xcd, [15] = 1}, other[16] = {0};
	char *data = NULL, *more = NULL;
	char file[sizeof(dir) + 64];
	size_t bytes;

	begin();
	CHECK_EQ(state_resv_kept(st, uuid, &data, &bytes), -ENOENT);
	CHECK_EQ(state_resv_room(st), 0);
	CHECK_EQ(state_resv_room(st), 0);
	CHECK_EQ(state_resv_kept(st, uuid, &data, &bytes), -ENOENT);
	CHECK_EQ(state_resv_keep(st, uuid, "one", 3), 0);
	bad_dirs = 1;
	CHECK_EQ(state_resv_keep(st, uuid, "second", 6), -EIO);
	again();
	CHECK_EQ(state_resv_kept(st, uuid, &data, &bytes), 0);
	CHECK_EQ(bytes, 3);
	CHECK_MEM(data, "one", 3);
	CHECK_EQ(state_resv_kept(st, other, &more, &bytes), -ENOENT);
	CHECK_EQ(state_resv_keep(st, uuid, "second", 6), 0);
	free(data);
	CHECK_EQ(state_resv_kept(st, uuid, &data, &bytes), 0);
	CHECK_EQ(bytes, 6);
	free(data);
	snprintf(file, sizeof(file), "%s/reservations/abcd0000000000000000000000000001", dir);
	CHECK_EQ(unlink(file), 0);
	snprintf(file, sizeof(file), "%s/reservations/abcd0000000000000000000000000001.old", dir);
	CHECK_EQ(unlink(file), 0);
	snprintf(file, sizeof(file), "%s/reservations", dir);
	CHECK_EQ(rmdir(file), 0);
	end();
}

/** Whether something is kept of the volume. */
static bool
keeps(const uint8_t uuid[16])
{
	char *data = NULL;
	size_t bytes;
	const int rc = state_resv_kept(st, uuid, &data, &bytes);

	free(data);
	CHECK(rc == 0 || rc == -ENOENT);
	return rc == 0;
}

/** The directory of reservations has as many files. It ends, if that is none. */
static void
check_files(unsigned int want)
{
	struct dirent *e;
	unsigned int n = 0;
	char path[80];
	DIR *d;

	snprintf(path, sizeof(path), "%s/reservations", dir);
	d = opendir(path);
	CHECK(d != NULL);
	while ((e = readdir(d)) != NULL)
		n += e->d_name[0] != '.';
	closedir(d);
	CHECK_EQ(n, want);
	if (want == 0)
		CHECK_EQ(rmdir(path), 0);
}

/** An export is deleted: what is kept of its volume goes, wherever a crash falls. */
static void
test_deleted(void)
{
	static const char *const pair[][2] = {{"path", "/tmp/none"}, {"size", "1M"}};
	const uint8_t uuid[16] = {1}, other[16] = {2};
	struct conf_export e;

	begin();
	CHECK_EQ(state_resv_doom(st, uuid, "a"), 0); /* nothing is kept yet */
	CHECK_EQ(state_resv_bury(st, uuid), 0);
	CHECK_EQ(state_resv_room(st), 0);
	CHECK_EQ(state_parse(st, "a", NULL, pair, 2, &e, err, sizeof(err)), 0);
	CHECK_EQ(state_put(st, "a", &e, err, sizeof(err)), 0);
	CHECK_EQ(state_resv_keep(st, other, "other", 5), 0);
	CHECK_EQ(state_resv_keep(st, uuid, "one", 3), 0);
	CHECK_EQ(state_resv_keep(st, uuid, "two", 3), 0);
	/* a crash before it is deleted */
	CHECK_EQ(state_resv_doom(st, uuid, "a"), 0);
	again();
	CHECK(keeps(uuid));
	CHECK_EQ(state_resv_bury(st, uuid), 0); /* there is no note any more */
	CHECK(keeps(uuid));
	/* it is not deleted */
	CHECK_EQ(state_resv_doom(st, uuid, "a"), 0);
	CHECK_EQ(state_resv_spare(st, uuid), 0);
	CHECK_EQ(state_remove(st, "a", err, sizeof(err)), 0);
	again();
	CHECK(keeps(uuid));
	/* a crash behind its end */
	CHECK_EQ(state_put(st, "a", &e, err, sizeof(err)), 0);
	CHECK_EQ(state_resv_doom(st, uuid, "a"), 0);
	CHECK_EQ(state_remove(st, "a", err, sizeof(err)), 0);
	again();
	CHECK(!keeps(uuid));
	CHECK(keeps(other));
	check_files(1);
	/* a crash in its end, at each step */
	for (unsigned int step = 0; step < 2; step++) {
		CHECK_EQ(state_resv_keep(st, uuid, "one", 3), 0);
		CHECK_EQ(state_resv_doom(st, uuid, "a"), 0);
		good_dirs = step;
		bad_dirs = 1;
		CHECK_EQ(state_resv_bury(st, uuid), -EIO);
		CHECK_EQ(bad_dirs, 0);
		again();
		CHECK(!keeps(uuid));
		check_files(1);
	}
	CHECK_EQ(state_resv_doom(st, other, "a"), 0);
	CHECK_EQ(state_resv_bury(st, other), 0);
	check_files(0);
	end();
}

/** What is kept of the volume is this. */
static void
check_kept(const uint8_t uuid[16], const char *want)
{
	char *data = NULL;
	size_t bytes;

	CHECK_EQ(state_resv_kept(st, uuid, &data, &bytes), 0);
	CHECK_EQ(bytes, strlen(want));
	CHECK_MEM(data, want, bytes);
	free(data);
}

/** A note of a delete that an I/O error has left takes nothing that is in use since. */
static void
test_note_stays(void)
{
	const uint8_t uuid[16] = {1};
	struct conf_export e;

	begin();
	CHECK_EQ(state_resv_room(st), 0);
	/* deleted, but not buried; the volume is another export by now, and reserved */
	put("a", "1M");
	CHECK_EQ(state_resv_keep(st, uuid, "old", 3), 0);
	CHECK_EQ(state_resv_doom(st, uuid, "a"), 0);
	CHECK_EQ(state_remove(st, "a", err, sizeof(err)), 0);
	bad_notes = 1;
	CHECK_EQ(state_resv_bury(st, uuid), -EIO);
	put("c", "1M");
	bad_notes = 1;
	CHECK_EQ(state_resv_keep(st, uuid, "new", 3), -EIO);
	CHECK(!keeps(uuid));
	CHECK_EQ(state_resv_keep(st, uuid, "new", 3), 0);
	again();
	check_kept(uuid, "new");
	/* it is not deleted, and nothing can be spared; then it gets another name */
	CHECK_EQ(state_resv_doom(st, uuid, "c"), 0);
	bad_notes = 1;
	CHECK_EQ(state_resv_spare(st, uuid), -EIO);
	CHECK_EQ(parse("d", "size", "1M", &e), 0);
	bad_notes = 1;
	CHECK_EQ(state_put(st, "c", &e, err, sizeof(err)), -EIO);
	CHECK_EQ(st->nexports, 1);
	CHECK_EQ(strcmp(st->exports[0].name, "c"), 0);
	CHECK_EQ(state_put(st, "c", &e, err, sizeof(err)), 0);
	again();
	check_kept(uuid, "new");
	/* the note itself fails: it is taken back, */
	bad_dirs = 1;
	bad_notes = 1;
	CHECK_EQ(state_resv_doom(st, uuid, "d"), -EIO);
	check_files(1);
	/* or it stays; then the export is deleted while another one has the volume */
	bad_dirs = 1;
	bad_notes = 2;
	CHECK_EQ(state_resv_doom(st, uuid, "d"), -EIO);
	check_files(2);
	bad_notes = 1;
	CHECK_EQ(state_resv_stay(st, "d"), -EIO);
	CHECK_EQ(state_resv_stay(st, "c"), 0);
	check_files(2);
	CHECK_EQ(state_resv_stay(st, "d"), 0);
	CHECK_EQ(state_remove(st, "d", err, sizeof(err)), 0);
	again();
	check_kept(uuid, "new");
	CHECK_EQ(state_resv_doom(st, uuid, "d"), 0);
	CHECK_EQ(state_resv_bury(st, uuid), 0);
	check_files(0);
	end();
}

/** What a delete has left and cannot be removed is told, and keeps the target from nothing else. */
static void
test_note_cannot_end(void)
{
	static const char *const left[] = {".gone.new", ".gone.old"};
	const uint8_t uuid[16] = {1}, bad[16] = {2}, other[16] = {3};
	char file[sizeof(dir) + 64], more[sizeof(file) + 16];
	struct conf_export e;

	begin();
	CHECK_EQ(state_resv_room(st), 0);
	put("a", "1M");
	CHECK_EQ(state_resv_keep(st, uuid, "one", 3), 0);
	CHECK_EQ(state_resv_keep(st, other, "two", 3), 0);
	CHECK_EQ(state_resv_doom(st, uuid, "x"), 0);
	CHECK_EQ(state_resv_doom(st, other, "y"), 0);
	/* no file, and what a crash in the middle of writing a note leaves */
	state_resv_path(st, bad, file, sizeof(file));
	snprintf(more, sizeof(more), "%s.gone", file);
	CHECK_EQ(mkdir(more, 0700), 0);
	for (size_t i = 0; i < sizeof(left) / sizeof(left[0]); i++) {
		snprintf(more, sizeof(more), "%s%s", file, left[i]);
		CHECK_EQ(mknod(more, S_IFREG | 0600, 0), 0);
	}
	check_files(7);
	bad_notes = 1;
	again();
	CHECK_EQ(bad_notes, 0);
	CHECK_EQ(noted, 2);
	CHECK(!keeps(uuid) && !keeps(other));
	check_files(2);
	again();
	CHECK_EQ(noted, 1);
	check_files(1);
	/* the volume of one that stays is in doubt, and no other */
	CHECK_EQ(state_resv_spare(st, bad), -EISDIR);
	CHECK_EQ(state_resv_keep(st, bad, "new", 3), -EISDIR);
	CHECK_EQ(state_resv_spare(st, uuid), 0);
	CHECK_EQ(parse("b", "size", "1M", &e), 0);
	CHECK_EQ(state_put(st, "a", &e, err, sizeof(err)), 0);
	snprintf(more, sizeof(more), "%s.gone", file);
	CHECK_EQ(rmdir(more), 0);
	again();
	CHECK_EQ(noted, 0);
	check_files(0);
	end();
}

static void
test_one_target(void)
{
	struct state *other = NULL;
	char none[80];

	begin();
	CHECK_EQ(state_open(dir, true, &other, err, sizeof(err)), -EBUSY);
	/* --check-config only looks. */
	CHECK_EQ(state_open(dir, false, &other, err, sizeof(err)), 0);
	state_close(other);
	snprintf(none, sizeof(none), "%s/none", dir);
	CHECK_EQ(state_open(none, true, &other, err, sizeof(err)), -ENOENT);
	end();
}

WEFT_TEST_MAIN({"exports are kept", test_kept}, {"a change is taken back", test_undo},
               {"a set is kept and taken back as a whole", test_set},
               {"half of a new file is not looked at", test_half_written},
               {"a write that fails changes nothing", test_write_fails},
               {"a directory that cannot be made durable changes nothing", test_sync_fails},
               {"an undo that fails keeps the file", test_undo_fails},
               {"held exports are kept", test_held}, {"values that are refused", test_refused},
               {"drawn exports are read as they were written", test_drawn},
               {"reservations of hosts are kept", test_reservations},
               {"reservations of a deleted export go, wherever a crash falls", test_deleted},
               {"a note of a delete that an I/O error has left takes nothing", test_note_stays},
               {"a note that cannot be removed keeps no target from its start",
                test_note_cannot_end},
               {"one target has the directory", test_one_target})
