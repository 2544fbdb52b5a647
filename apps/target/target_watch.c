/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Detects that an export's file is no longer the one that the configuration names. A file
 * that was removed or replaced lives on while this process has it open, and accepts all that is
 * pushed. But it is gone when the process ends, or the next start finds the other file. So the
 * target promises nothing of it: no OPEN is granted, and all grants are revoked at once. The same
 * holds for a file that was truncated, that had a hole punched into it, or that another process
 * wrote to; such a file is not served again by itself.
 *
 * The program's thread checks the files of exports that have clients four times a second, and as
 * often those of up to 128 others in turn; it checks all of them when the kernel reports by a
 * signal that something happened in their folders or that a writer has closed one of them. Workers
 * do not check, because a path may lie on any file system. The target's own writes are complete
 * when it closes. An OPEN checks only the link count of the open file, which needs no medium
 * access. A Flush on a helper thread checks the name itself (weft_medium_check()); a Flush on the
 * polling core (persistent memory) uses the result of the last check.
 */

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "target.h"
#include "target_file.h"
#include "target_volume.h"
#include "target_grant.h"
#include "ui.h"

#define WATCH_EVENTS                                                                               \
	(IN_MOVED_FROM | IN_MOVED_TO | IN_CREATE | IN_DELETE | IN_MOVE_SELF | IN_DELETE_SELF)
#define WATCH_SOME    128U    /* exports of one look that have no client */
#define WATCH_REST_NS 1000000 /* between two checks, however many events there are */

void
target_watch_open(struct target *t)
{
	t->watch_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (t->watch_fd < 0)
		return;
	if (fcntl(t->watch_fd, F_SETOWN, getpid()) != 0 ||
	    fcntl(t->watch_fd, F_SETFL, O_NONBLOCK | O_ASYNC) != 0)
		target_watch_close(t);
}

void
target_watch_close(struct target *t)
{
	if (t->watch_fd >= 0)
		close(t->watch_fd);
	t->watch_fd = -1;
}

/** Without the watch the export's file is still checked, but later. */
static void
watch_folder(const struct target *t, const char *path)
{
	char dir[CONF_PATH_MAX];

	if (t->watch_fd < 0)
		return;
	snprintf(dir, sizeof(dir), "%s", path);
	(void)inotify_add_watch(t->watch_fd, dirname(dir), WATCH_EVENTS);
}

void
target_watch_told(struct target *t)
{
	static const struct timespec rest = {.tv_nsec = WATCH_REST_NS};
	char events[4096];

	while (t->watch_fd >= 0 && read(t->watch_fd, events, sizeof(events)) > 0)
		;
	target_watch(t);
	(void)nanosleep(&rest, NULL);
}

void
target_watch_begin(const struct target *t, struct target_export *ex)
{
	struct stat st;

	ex->file_fd = ex->file_wd = -1;
	if (ex->conf->path[0] == '\0' || ex->conf->persist == CONF_PERSIST_VOLATILE)
		return;
	ex->file_fd = open(ex->conf->path, O_PATH | O_CLOEXEC);
	/* The system's device manager creates device nodes again, so they are not checked. */
	if (ex->file_fd >= 0 && (fstat(ex->file_fd, &st) != 0 || !S_ISREG(st.st_mode)))
		target_watch_end(t, ex);
	if (ex->file_fd < 0)
		return;
	watch_folder(t, ex->conf->path);
	if (t->watch_fd >= 0)
		ex->file_wd = inotify_add_watch(t->watch_fd, ex->conf->path, IN_CLOSE_WRITE);
}

void
target_watch_end(const struct target *t, struct target_export *ex)
{
	/* The kernel has removed the watch if the file is gone. */
	if (ex->file_wd >= 0 && t->watch_fd >= 0)
		(void)inotify_rm_watch(t->watch_fd, ex->file_wd);
	ex->file_wd = -1;
	if (ex->file_fd >= 0)
		close(ex->file_fd);
	ex->file_fd = -1;
}

/** In a mapping the writes of other processes are visible: no peer may write an object's
 * superblock. */
static bool
watch_overwritten(const struct target_export *ex)
{
	struct expfmt_super super;

	if (atomic_load_explicit(&ex->file, memory_order_relaxed) == TARGET_FILE_WRITTEN)
		return true;
	if (!ex->persist->ops->mapped || target_is_log(ex))
		return false;
	return expfmt_super_decode(ex->persist->base, &super) != EXPFMT_OK ||
	       memcmp(super.uuid, ex->super.uuid, sizeof(super.uuid)) != 0;
}

/** Of a volume: as its device says. */
static enum target_file
watch_volume(const struct target_export *ex)
{
	struct stat named;

	switch (target_volume_look(ex)) {
	case 0:
		return TARGET_FILE_HERE;
	case -EIO:
		return TARGET_FILE_CUT;
	case -ESTALE:
		return TARGET_FILE_WRITTEN;
	case -ESHUTDOWN:
		return TARGET_FILE_TAKEN;
	case -ENOENT:
		return stat(ex->conf->path, &named) == 0 ? TARGET_FILE_REPLACED
		                                         : TARGET_FILE_REMOVED;
	default:
		return TARGET_FILE_REMOVED;
	}
}

static enum target_file
watch_look(const struct target_export *ex)
{
	struct stat ours, named;

	if (ex->volume != NULL)
		return watch_volume(ex);

	/* The content is lost, whatever the length and content are now. */
	switch (weft_persist_check(ex->persist)) {
	case -EIO:
		return TARGET_FILE_CUT;
	case -ESTALE:
		return TARGET_FILE_WRITTEN;
	default:
		break;
	}
	if (watch_overwritten(ex))
		return TARGET_FILE_WRITTEN;
	if (stat(ex->conf->path, &named) != 0)
		/* Other errors say nothing about the file. */
		return errno == ENOENT || errno == ENOTDIR
		               ? TARGET_FILE_REMOVED
		               : atomic_load_explicit(&ex->file, memory_order_relaxed);
	if (fstat(ex->file_fd, &ours) != 0)
		return atomic_load_explicit(&ex->file, memory_order_relaxed);
	return ours.st_dev == named.st_dev && ours.st_ino == named.st_ino ? TARGET_FILE_HERE
	                                                                  : TARGET_FILE_REPLACED;
}

static void
watch_one(struct target *t, struct target_export *ex)
{
	enum target_file was = atomic_load_explicit(&ex->file, memory_order_relaxed), now;

	if (ex->file_fd < 0 && (ex->volume == NULL || !target_export_up(ex)))
		return;
	now = watch_look(ex);
	if (now == was)
		return;
	atomic_store_explicit(&ex->file, now, memory_order_relaxed);
	if (now == TARGET_FILE_HERE) {
		ui_msg("export %s: %s is there again, and served", ex->conf->name,
		       target_place(ex->conf));
		return;
	}
	atomic_fetch_add_explicit(&ex->files_lost, 1, memory_order_relaxed);
	ui_msg(UI_ERR "export %s: LOST: %s %s; it is no longer served, and its grants "
	              "are revoked",
	       ex->conf->name, target_place(ex->conf), target_file_seen_str(ex));
	target_export_revoke(t, ex);
}

/** A look begins (true) or is over. A file system that does not answer keeps the thread in it. */
static void
watch_looks(struct target *t, bool now)
{
	atomic_store_explicit(&t->watch_since_ns, now ? ui_now_ns() : 0, memory_order_relaxed);
}

void
target_watch(struct target *t)
{
	watch_looks(t, true);
	for (uint32_t i = 0; i < target_nexports(t); i++)
		watch_one(t, &t->exports[i]);
	watch_looks(t, false);
}

void
target_watch_some(struct target *t)
{
	const uint32_t n = target_nexports(t);

	watch_looks(t, true);
	/* A flush of a client is answered by what the last check has found. */
	for (uint32_t i = 0; n > WATCH_SOME && i < n; i++)
		if (atomic_load_explicit(&t->exports[i].grants, memory_order_relaxed) > 0)
			watch_one(t, &t->exports[i]);
	for (uint32_t i = 0; i < n && i < WATCH_SOME; i++) {
		t->watch_at = t->watch_at + 1 < n ? t->watch_at + 1 : 0;
		watch_one(t, &t->exports[t->watch_at]);
	}
	watch_looks(t, false);
}
