/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Whether an export is served, and what it grants.
 *
 * A file that was removed is found at once by workers and the program's thread, which ask the
 * kernel for its links. These are the threads that know that the file is not closed meanwhile. The
 * others, which show exports, take what the watch of the files has seen last (target_watch.c): a
 * file system that does not answer stops none of them.
 */

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "conf_index.h"
#include "target.h"
#include "target_export.h"
#include "target_nvmf.h"
#include "target_volume.h"

static const char *const state_words[] = {
        [TARGET_FILE_HERE] = "is there",
        [TARGET_FILE_REMOVED] = "was removed",
        [TARGET_FILE_REPLACED] = "was replaced by another file",
        [TARGET_FILE_CUT] = "was cut short",
        [TARGET_FILE_WRITTEN] = "was written to by another process",
        [TARGET_FILE_TAKEN] = "was taken over by another target",
};

struct target_export *
target_export_find(struct target *t, const char *name)
{
	const uint32_t n = target_nexports(t), hash = conf_name_hash(name);

	/* Four octets of each export are looked at: 4,096 of them are 16 KiB. */
	for (uint32_t i = 0; i < n; i++)
		if (atomic_load_explicit(&t->names[i], memory_order_relaxed) == hash &&
		    !target_export_gone(&t->exports[i]) &&
		    strcmp(t->exports[i].conf->name, name) == 0)
			return &t->exports[i];
	return NULL;
}

struct target_export *
target_export_next(struct target *t, uint32_t *at)
{
	const uint32_t n = target_nexports(t);

	while (*at < n)
		if (!target_export_gone(&t->exports[(*at)++]))
			return &t->exports[*at - 1];
	return NULL;
}

void
target_export_named(struct target *t, const struct target_export *ex, const char *name)
{
	atomic_store_explicit(&t->names[ex - t->exports], conf_name_hash(name),
	                      memory_order_relaxed);
	target_exports_changed(t);
}

void
target_exports_changed(struct target *t)
{
	atomic_fetch_add_explicit(&t->exports_changes, 1, memory_order_release);
}

bool
target_export_gone(const struct target_export *ex)
{
	return atomic_load_explicit(&ex->gone, memory_order_acquire);
}

bool
target_is_log(const struct target_export *ex)
{
	return ex->conf->format == CONF_FORMAT_LOG;
}

bool
target_is_volume(const struct target_export *ex)
{
	return ex->conf->format == CONF_FORMAT_VOLUME;
}

bool
target_export_up(const struct target_export *ex)
{
	return atomic_load_explicit(&ex->up, memory_order_acquire);
}

static enum target_file
file_seen(const struct target_export *ex)
{
	return atomic_load_explicit(&ex->file, memory_order_relaxed);
}

static enum target_file
file_known(const struct target_export *ex)
{
	enum target_file now = file_seen(ex);
	struct stat st;

	if (now == TARGET_FILE_HERE && ex->file_fd >= 0 && fstat(ex->file_fd, &st) == 0 &&
	    st.st_nlink == 0)
		return TARGET_FILE_REMOVED;
	return now;
}

bool
target_file_seen_lost(const struct target_export *ex)
{
	return !target_export_up(ex) || file_seen(ex) != TARGET_FILE_HERE;
}

bool
target_file_lost(const struct target_export *ex)
{
	return !target_export_up(ex) || file_known(ex) != TARGET_FILE_HERE;
}

const char *
target_file_seen_str(const struct target_export *ex)
{
	return state_words[file_seen(ex)];
}

/** now: of an export that is up. */
static bool
export_why(struct target_export *ex, enum target_file now, char *buf, size_t size)
{
	if (target_export_up(ex)) {
		snprintf(buf, size, "its file %s", state_words[now]);
		return now != TARGET_FILE_HERE;
	}
	pthread_mutex_lock(&ex->lock);
	snprintf(buf, size, "offline: %s", ex->why);
	pthread_mutex_unlock(&ex->lock);
	return true;
}

bool
target_export_why(struct target_export *ex, char *buf, size_t size)
{
	return export_why(ex, target_export_up(ex) ? file_known(ex) : file_seen(ex), buf, size);
}

bool
target_export_seen_why(struct target_export *ex, char *buf, size_t size)
{
	return export_why(ex, file_seen(ex), buf, size);
}

/** What an OPEN may get of an export whose file is not lost. */
static uint32_t
export_may(const struct target_export *ex)
{
	const uint32_t may = atomic_load_explicit(&ex->rights, memory_order_relaxed);

	return target_is_volume(ex) && ex->volume != NULL ? target_volume_may(ex, may) : may;
}

uint32_t
target_may(const struct target_export *ex)
{
	return target_file_lost(ex) ? 0 : export_may(ex);
}

uint32_t
target_seen_may(const struct target_export *ex)
{
	return target_file_seen_lost(ex) ? 0 : export_may(ex);
}

uint32_t
target_left_by_hosts(const struct target_export *ex)
{
	switch (atomic_load_explicit(&ex->others, memory_order_relaxed)) {
	case WEFT_NVMF_OTHERS_ALL:
		return UINT32_MAX;
	case WEFT_NVMF_OTHERS_READ:
		return ~(uint32_t)(CONF_RIGHT_WRITE | CONF_RIGHT_FLUSH);
	default:
		return 0;
	}
}

uint64_t
target_export_bytes(const struct target_export *ex)
{
	if (target_is_volume(ex))
		return weft_vol_info(ex->volume->vol)->super.bytes;
	return target_is_log(ex) ? ex->persist->bytes : ex->super.capacity_bytes;
}

const char *
target_export_mechanism(const struct target_export *ex, char *buf, size_t size)
{
	struct weft_block_info info;

	if (target_is_volume(ex)) {
		weft_block_query(ex->volume->block, &info);
		snprintf(buf, size, "volume, %s", info.mechanism);
	} else {
		snprintf(buf, size, "%s%s", target_is_log(ex) ? "remote log, " : "",
		         ex->persist->mechanism);
	}
	return buf;
}

uint64_t
target_region_off(const struct target_export *ex)
{
	return target_is_log(ex) ? 0 : EXPFMT_COMMIT_OFF;
}

uint64_t
target_region_bytes(const struct target_export *ex)
{
	const struct expfmt_super *s = &ex->super;

	if (target_is_log(ex))
		return ex->persist->bytes;
	/* The region excludes the superblock, and the octets left over behind the second slot. */
	return s->slot_off[1] + EXPFMT_HEADER_BYTES + s->capacity_bytes - EXPFMT_COMMIT_OFF;
}
