/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Captures of ports: their folder, their bounds, what runs (target_capture.h). */

#include <errno.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "addr.h"
#include "ctl_api.h"
#include "target.h"
#include "target_capture.h"
#include "target_slow_pcap.h"
#include "target_state.h"
#include "ui.h"

#define FOLDER        "captures"
#define NAME_CHARS    64U
#define STAT_BLOCK    512 /* octets of a unit of st_blocks (stat(3type)) */
#define FAIL(rc, ...) (snprintf(err, err_size, __VA_ARGS__), (rc))

int
capture_port(struct target *t, const char *name, uint32_t *port, char *err, size_t err_size)
{
	char names[256] = "";
	size_t n = 0;

	for (*port = 0; *port < t->stack.nports; ++*port) {
		const char *one = weft_port_name(t->stack.ports[*port]);

		if (name != NULL ? strcmp(one, name) == 0 : t->stack.nports == 1)
			return 0;
		if (n < sizeof(names))
			n += (size_t)snprintf(names + n, sizeof(names) - n, "%s%s",
			                      n > 0 ? ", " : "", one);
	}
	return name != NULL
	               ? FAIL(-EINVAL, "capture: no port is named \"%.64s\"; there are: %s", name,
	                      names)
	               : FAIL(-EINVAL, "capture: which port? say --port; there are: %s", names);
}

/** The folder of captures, which the target alone may write to; it is made. */
static int
folder(const struct target *t, char path[CAPTURE_PATH_MAX], char *err, size_t err_size)
{
	char beside[CONF_PATH_MAX];
	struct stat st;

	snprintf(beside, sizeof(beside), "%s",
	         t->conf.target.control[0] != '\0' ? t->conf.target.control : CTL_SOCKET);
	if (snprintf(path, CAPTURE_PATH_MAX, "%s/" FOLDER,
	             t->state != NULL ? t->state->dir : dirname(beside)) >= CAPTURE_PATH_MAX)
		return FAIL(-ENAMETOOLONG, "capture: the folder's name is too long");
	if (mkdir(path, 0700) != 0 && errno != EEXIST)
		return FAIL(-errno, "capture: %s: cannot be made: %s", path, strerror(errno));
	if (lstat(path, &st) != 0)
		return FAIL(-errno, "capture: %s: %s", path, strerror(errno));
	/* What others may write to may have links for the target to follow. */
	if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 022) != 0)
		return FAIL(-EPERM,
		            "capture: %s: has to be a folder of the target's user that no other "
		            "user may write to",
		            path);
	return access(path, W_OK | X_OK) == 0
	               ? 0
	               : FAIL(-errno, "capture: %s: cannot be written to: %s", path,
	                      strerror(errno));
}

/** Whether it is a plain name of a file, and not one that a file of a ring has (NAME.17). */
static bool
name_ok(const char *s)
{
	static const char may[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	                          "._-";
	const char *dot = strrchr(s, '.');

	return s[0] != '.' && s[0] != '\0' && strlen(s) <= NAME_CHARS &&
	       s[strspn(s, may)] == '\0' &&
	       (dot == NULL || dot[strspn(dot, ".0123456789")] != '\0');
}

static int
check(const struct capture *c, char *err, size_t err_size)
{
	if (!name_ok(c->path))
		return FAIL(-EINVAL,
		            "capture: \"%.64s\" is not a name of a file: at most %u letters, "
		            "digits and . _ -, without a folder, and no number behind the last dot",
		            c->path, NAME_CHARS);
	if (c->files < 1 || c->files > CAPTURE_FILES_MAX)
		return FAIL(-EINVAL, "capture: files is a number from 1 to %u", CAPTURE_FILES_MAX);
	if (c->file_bytes < WEFT_CAPTURE_FILE_MIN || c->file_bytes > CAPTURE_FILE_MAX)
		return FAIL(-EINVAL, "capture: size is from %u octets to 64G",
		            WEFT_CAPTURE_FILE_MIN);
	if (c->snaplen_bytes != 0 && (c->snaplen_bytes < 64 || c->snaplen_bytes > 65535))
		return FAIL(-EINVAL, "capture: snap is a number from 64 to 65535");
	return c->tcp_port <= UINT16_MAX ? 0 : FAIL(-EINVAL, "capture: no such TCP port");
}

/** The files that an earlier capture of the name may have left: the name alone, and those of a
 * ring. */
static const char *
old_file(const char *path, uint32_t i, char one[CAPTURE_PATH_MAX + 16])
{
	if (i == CAPTURE_FILES_MAX)
		return path;
	snprintf(one, CAPTURE_PATH_MAX + 16, "%s.%u", path, i);
	return one;
}

static void
remove_old(const char *path)
{
	char one[CAPTURE_PATH_MAX + 16];

	for (uint32_t i = 0; i <= CAPTURE_FILES_MAX; i++)
		(void)unlink(old_file(path, i, one));
}

/** Octets that remove_old() gives back to the file system. */
static uint64_t
room_of_old(const char *path)
{
	char one[CAPTURE_PATH_MAX + 16];
	struct stat st;
	uint64_t n = 0;

	for (uint32_t i = 0; i <= CAPTURE_FILES_MAX; i++)
		if (lstat(old_file(path, i, one), &st) == 0 && S_ISREG(st.st_mode) &&
		    st.st_nlink == 1)
			n += (uint64_t)st.st_blocks * STAT_BLOCK;
	return n;
}

/** Whether another port's capture has the name. */
static bool
name_taken(struct target *t, uint32_t port, const char *path)
{
	struct capture other;
	struct weft_capture_stats st;

	for (uint32_t i = 0; i < t->stack.nports; i++)
		if (i != port && capture_look(t, i, &other, &st) && strcmp(other.path, path) == 0)
			return true;
	return false;
}

/** What the captures of other ports may write yet. */
static uint64_t
room_of_others(struct target *t, uint32_t port)
{
	struct weft_capture_stats st;
	struct capture other;
	uint64_t n = 0, most;

	for (uint32_t i = 0; i < t->stack.nports; i++) {
		if (i == port || !capture_look(t, i, &other, &st))
			continue;
		most = other.file_bytes * other.files;
		n += st.file_bytes < most ? most - st.file_bytes : 0;
	}
	return n;
}

/** The file system has to have room for all that the captures may write, once what an earlier one
 * of the name has left is removed. */
static int
check_room(struct target *t, uint32_t port, const char *dir, const struct capture *c, char *err,
           size_t err_size)
{
	const uint64_t need = c->file_bytes * c->files, others = room_of_others(t, port);
	char b1[32], b2[32];
	struct statvfs fs;
	uint64_t have;

	if (statvfs(dir, &fs) != 0)
		return FAIL(-errno, "capture: %s: %s", dir, strerror(errno));
	have = (uint64_t)fs.f_bavail * fs.f_frsize + room_of_old(c->path);
	have -= others < have ? others : have;
	return need <= have
	               ? 0
	               : FAIL(-ENOSPC,
	                      "capture: %s has room for %s more, and the capture may become %s; "
	                      "say a smaller size, or fewer files",
	                      dir, ui_bytes(have, b1, sizeof(b1)), ui_bytes(need, b2, sizeof(b2)));
}

static bool
is_same(const struct capture *a, const struct capture *b)
{
	return strcmp(a->path, b->path) == 0 && a->file_bytes == b->file_bytes &&
	       a->files == b->files && a->snaplen_bytes == b->snaplen_bytes &&
	       a->tcp_port == b->tcp_port && strcmp(a->peer, b->peer) == 0;
}

/** Give it to the library. c->path is whole. */
static int
begin(struct target *t, uint32_t port, const struct capture *c, char *err, size_t err_size)
{
	struct weft_capture_attr a = {
	        .size = sizeof(a),
	        .path = c->path,
	        .snaplen_bytes = c->snaplen_bytes,
	        .max_bytes = c->file_bytes,
	        .ring_files = c->files > 1 ? c->files : 0,
	        .port = c->tcp_port,
	};
	int rc;

	if (c->peer[0] != '\0' && addr_parse(c->peer, 0, &a.remote) != 0)
		return FAIL(-EINVAL, "capture: peer: \"%s\" is not an IPv4 or IPv6 address",
		            c->peer);
	remove_old(c->path);
	rc = weft_capture_start(t->stack.ports[port], &a);
	return rc == 0        ? 0
	       : rc == -EBUSY ? FAIL(rc, "capture: port %s has a capture already; stop it first",
	                             weft_port_name(t->stack.ports[port]))
	                      : FAIL(rc, "capture: %s: %s", c->path, strerror(-rc));
}

int
capture_start(struct target *t, uint32_t port, struct capture *c, bool *changed, char *err,
              size_t err_size)
{
	const char *of = weft_port_name(t->stack.ports[port]);
	char dir[CAPTURE_PATH_MAX], path[2 * CAPTURE_PATH_MAX];
	struct weft_capture_stats st;
	struct capture now;
	int rc;

	*changed = false;
	if (c->path[0] == '\0')
		snprintf(c->path, sizeof(c->path), "%.*s.pcapng", (int)NAME_CHARS - 8, of);
	rc = check(c, err, err_size);
	if (rc == 0)
		rc = folder(t, dir, err, err_size);
	if (rc != 0)
		return rc;
	snprintf(path, sizeof(path), "%s/%s", dir, c->path);
	if (strlen(path) >= sizeof(c->path))
		return FAIL(-ENAMETOOLONG, "capture: %s: the name is too long", c->path);
	memcpy(c->path, path, strlen(path) + 1);
	if (capture_look(t, port, &now, &st))
		return is_same(&now, c)
		               ? 0
		               : FAIL(-EBUSY, "capture: port %s has a capture already%s%s; stop it",
		                      of, now.path[0] != '\0' ? ", " : " (by telemetry)", now.path);
	if (name_taken(t, port, c->path))
		return FAIL(-EBUSY, "capture: %s: the capture of another port has it", c->path);
	rc = check_room(t, port, dir, c, err, err_size);
	if (rc == 0)
		rc = begin(t, port, c, err, err_size);
	if (rc != 0)
		return rc;
	c->began_ns = ui_now_ns();
	pthread_mutex_lock(&t->captures.lock);
	t->captures.of[port] = *c;
	pthread_mutex_unlock(&t->captures.lock);
	*changed = true;
	slow_pcap_begin(t);
	return 0;
}

bool
capture_look(struct target *t, uint32_t port, struct capture *c, struct weft_capture_stats *st)
{
	*c = (struct capture){0};
	/* Telemetry may have stopped it, and started another one. */
	if (weft_capture_stats(t->stack.ports[port], st) != 0)
		return false;
	pthread_mutex_lock(&t->captures.lock);
	*c = t->captures.of[port];
	pthread_mutex_unlock(&t->captures.lock);
	return true;
}

bool
capture_stop(struct target *t, uint32_t port, struct capture *c, struct weft_capture_stats *st)
{
	const bool there = capture_look(t, port, c, st);
	bool ran, more = false;

	/* It takes what is new out of the files before they are left. Telemetry may have stopped
	 * the capture already. */
	slow_pcap_end(t);
	ran = there && weft_capture_stop(t->stack.ports[port], st) == 0;
	pthread_mutex_lock(&t->captures.lock);
	t->captures.of[port] = (struct capture){0};
	for (uint32_t i = 0; i < t->stack.nports; i++)
		more = more || t->captures.of[i].path[0] != '\0';
	pthread_mutex_unlock(&t->captures.lock);
	if (more)
		slow_pcap_begin(t);
	return ran;
}
