/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Whether an export's file is still where the configuration says. A file that was removed, or whose
 * name another file has, lives on while we have it open and takes all that is pushed; but with this
 * process that is gone, or the next start finds the other file. So nothing of it is promised any
 * more: no OPEN is granted, and what is out is taken back at once. So it is with a file that was cut, or
 * that had a hole put into it; that one does not come back by itself.
 *
 * The program's thread looks, now and then: a path may lie on anything, and a worker does not wait
 * for it. An OPEN asks the open file alone, for its links, which touches no medium.
 */

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "target.h"
#include "ui.h"

static const char *const file_words[] = {
        [TARGET_FILE_HERE] = "is there",
        [TARGET_FILE_REMOVED] = "was removed",
        [TARGET_FILE_REPLACED] = "was replaced by another file",
        [TARGET_FILE_CUT] = "was cut short",
};

void
target_watch_begin(struct target_export *ex)
{
	struct stat st;

	ex->file_fd = -1;
	if (ex->conf->path[0] == '\0' || ex->conf->persist == CONF_PERSIST_VOLATILE)
		return;
	ex->file_fd = open(ex->conf->path, O_PATH | O_CLOEXEC);
	/* A device's node is made anew by whoever looks after devices. */
	if (ex->file_fd >= 0 && (fstat(ex->file_fd, &st) != 0 || !S_ISREG(st.st_mode)))
		target_watch_end(ex);
}

void
target_watch_end(struct target_export *ex)
{
	if (ex->file_fd >= 0)
		close(ex->file_fd);
	ex->file_fd = -1;
}

static enum target_file
watch_look(const struct target_export *ex)
{
	struct stat ours, named;

	/* What was in it is gone, whatever its length is by now. */
	if (weft_persist_check(ex->persist) == -EIO)
		return TARGET_FILE_CUT;
	if (stat(ex->conf->path, &named) != 0)
		/* Anything else says nothing of the file. */
		return errno == ENOENT || errno == ENOTDIR ? TARGET_FILE_REMOVED
		                                           : atomic_load(&ex->file);
	if (fstat(ex->file_fd, &ours) != 0)
		return atomic_load(&ex->file);
	return ours.st_dev == named.st_dev && ours.st_ino == named.st_ino ? TARGET_FILE_HERE
	                                                                  : TARGET_FILE_REPLACED;
}

void
target_watch(struct target *t)
{
	for (uint32_t i = 0; i < t->nexports; i++) {
		struct target_export *ex = &t->exports[i];
		enum target_file was = atomic_load(&ex->file), now;

		if (ex->file_fd < 0)
			continue;
		now = watch_look(ex);
		if (now == was)
			continue;
		atomic_store(&ex->file, now);
		if (now == TARGET_FILE_HERE) {
			ui_msg("export %s: %s is there again, and served", ex->conf->name,
			       ex->conf->path);
			continue;
		}
		atomic_fetch_add(&ex->files_lost, 1);
		ui_msg("export %s: LOST: %s %s; it is not served any more, and what was granted is "
		       "taken back",
		       ex->conf->name, ex->conf->path, file_words[now]);
		target_export_recall(t, ex);
	}
}

static enum target_file
watch_known(const struct target_export *ex)
{
	enum target_file now = atomic_load(&ex->file);
	struct stat st;

	if (now == TARGET_FILE_HERE && ex->file_fd >= 0 && fstat(ex->file_fd, &st) == 0 &&
	    st.st_nlink == 0)
		return TARGET_FILE_REMOVED;
	return now;
}

bool
target_file_lost(const struct target_export *ex)
{
	return !target_export_up(ex) || watch_known(ex) != TARGET_FILE_HERE;
}

const char *
target_file_str(const struct target_export *ex)
{
	return file_words[watch_known(ex)];
}

uint32_t
target_may(const struct target_export *ex)
{
	return target_file_lost(ex) ? 0 : atomic_load(&ex->rights);
}
