/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Exports that cannot be served. They stay in the list with the reason, and SIGHUP tries to
 * open them again. The other exports are served meanwhile.
 *
 * `up` says whether an export's medium may be accessed. The program's thread clears and sets it;
 * every other thread checks it first. While the target runs, a medium is closed only when three
 * conditions hold: it is not `up`; no operation that began before is under way (grants until their
 * regions are free, READs and WRITEs by RPC); each worker has left the callback it was in, because
 * a call there may just have checked `up`. Telemetry's thread holds the export's lock. Connections
 * stay, whether they are idle or use other exports.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "target.h"
#include "target_ahead.h"
#include "target_auth.h"
#include "target_file.h"
#include "target_grant.h"
#include "target_media.h"
#include "target_metrics.h"
#include "target_nvmf.h"
#include "target_rate.h"
#include "target_state.h"
#include "target_ticket.h"
#include "target_volume.h"
#include "ui.h"

#define OFFLINE_SOON    20   /* looks at whether it is over, */
#define OFFLINE_SOON_US 25   /* so far from each other */
#define OFFLINE_WAIT_MS 3000 /* for operations under way, which have been ended before */

/** Set the reason. err begins with "export NAME: ", as all messages about an export do. */
static void
offline_set(struct target_export *ex, const char *err)
{
	char head[CONF_NAME_MAX + 16];
	const size_t n = (size_t)snprintf(head, sizeof(head), "export %s: ", ex->conf->name);

	pthread_mutex_lock(&ex->lock);
	/* A longer reason is cut. */
	snprintf(ex->why, sizeof(ex->why), "%.*s", (int)sizeof(ex->why) - 1,
	         strncmp(err, head, n) == 0 ? err + n : err);
	pthread_mutex_unlock(&ex->lock);
}

static void
offline_say(const struct target_export *ex)
{
	ui_msg(UI_ERR "export %s: OFFLINE: %s; SIGHUP tries it again", ex->conf->name, ex->why);
}

/** Open those of the configuration, one after the other. *up: how many are served. Returns the
 * error of the first that is not; with --strict this ends it. */
static int
exports_open(struct target *t, struct target_ahead *ahead, unsigned int *up, char *err,
             size_t err_size)
{
	char why[CONF_ERR_MAX + CONF_PATH_MAX];
	int rc = 0, first = 0;

	for (uint32_t i = 0; i < t->conf.nexports; i++) {
		struct target_export *ex = &t->exports[i];

		target_rates_slot(t, i);
		target_export_named(t, ex, t->conf.exports[i].name);
		if (t->state != NULL && state_is_held(t->state, t->conf.exports[i].name)) {
			target_export_blank(ex, &t->conf.exports[i]);
			atomic_store_explicit(&ex->held, TARGET_HELD_OFFLINE, memory_order_relaxed);
			offline_set(ex, "taken out of service by its operator");
			target_rate_set(t, ex);
			atomic_store_explicit(&t->nexports, i + 1, memory_order_release);
			ui_msg("export %s: kept out of service by weft-ctl", ex->conf->name);
			continue;
		}
		if (!target_ahead_take(ahead, i, &rc, why, sizeof(why)))
			rc = target_export_open(ex, &t->conf.exports[i], t->numa_node, why,
			                        sizeof(why));
		if (rc == 0 && ex->volume != NULL) {
			rc = target_volume_attach(t, ex, why, sizeof(why));
			if (rc != 0) {
				atomic_store_explicit(&ex->up, false, memory_order_relaxed);
				target_export_release(ex);
			}
		}
		if (rc == 0)
			target_metrics_attach(t, ex);
		if (rc != 0 && (t->strict || first == 0))
			snprintf(err, err_size, "%s", why);
		if (rc != 0 && t->strict)
			return rc;
		atomic_store_explicit(&t->nexports, i + 1, memory_order_release);
		target_rate_set(t, ex);
		if (rc == 0) {
			target_watch_begin(t, ex);
			++*up;
			continue;
		}
		first = first != 0 ? first : rc;
		offline_set(ex, why);
	}
	return first;
}

int
target_exports_open(struct target *t, int numa_node, char *err, size_t err_size)
{
	struct target_ahead *ahead = target_ahead_begin(t);
	unsigned int up = 0;
	int rc;

	t->numa_node = numa_node;
	rc = exports_open(t, ahead, &up, err, err_size);
	target_ahead_end(ahead);
	if (rc != 0 && (t->strict || up == 0))
		return rc;
	for (uint32_t i = 0; i < target_nexports(t); i++)
		if (!target_export_up(&t->exports[i]) &&
		    atomic_load_explicit(&t->exports[i].held, memory_order_relaxed) ==
		            TARGET_HELD_NO)
			offline_say(&t->exports[i]);
	return 0;
}

int
target_exports_check(struct target *t, char *err, size_t err_size)
{
	char why[CONF_ERR_MAX + CONF_PATH_MAX];
	const struct conf_export *has;
	unsigned int up = 0;
	struct media media;
	uint64_t taken = 0;
	int first = 0;

	media_begin(&media);

	for (uint32_t i = 0; i < t->conf.nexports; i++) {
		const struct conf_export *conf = &t->conf.exports[i];
		int rc = target_export_check(conf, &taken, why, sizeof(why));

		if (rc == 0 && conf->path[0] != '\0') {
			rc = media_add(&media, conf, &has);
			if (rc == -EEXIST)
				rc = target_export_in_use(conf, why, sizeof(why));
			else if (rc != 0)
				snprintf(why, sizeof(why), "export %s: out of memory", conf->name);
		}
		up += rc == 0;
		if (rc != 0 && !t->strict)
			ui_msg("%s; it would be offline", why);
		if (rc != 0 && first == 0) {
			first = rc;
			snprintf(err, err_size, "%s", why);
		}
	}
	media_end(&media);
	if (first == 0 || (up > 0 && !t->strict))
		return 0;
	return first;
}

/** A call on each worker; freed by the last of its users. */
struct offline_round {
	atomic_uint refs; /**< workers that have not run it, and the thread that waits */
};

static void
round_through(void *arg)
{
	struct offline_round *r = arg;

	/* Release: what the worker did before. Acquire: all are through before it is freed. */
	if (atomic_fetch_sub_explicit(&r->refs, 1, memory_order_acq_rel) == 1)
		free(r);
}

static int
offline_rest(unsigned int *left_ms)
{
	if (*left_ms == 0)
		return -EBUSY;
	--*left_ms;
	usleep(1000);
	return 0;
}

/** Wait until each worker has left its current callback. -EBUSY: it takes too long. */
static int
offline_round(struct target *t, unsigned int *left_ms)
{
	struct offline_round *r = malloc(sizeof(*r));
	int rc = 0;

	if (r == NULL)
		return -ENOMEM;
	atomic_init(&r->refs, t->stack.nworkers + 1);
	for (uint32_t i = 0; i < t->stack.nworkers; i++)
		if (weft_worker_call(t->workers[i].w, round_through, r) != 0) {
			rc = -EBUSY;
			round_through(r);
		}
	/* Mostly it is a matter of microseconds, and a set of exports takes thousands of rounds. */
	for (unsigned int i = 0; i < OFFLINE_SOON; i++)
		if (rc == 0 && atomic_load_explicit(&r->refs, memory_order_acquire) > 1)
			usleep(OFFLINE_SOON_US);
	while (rc == 0 && atomic_load_explicit(&r->refs, memory_order_acquire) > 1)
		rc = offline_rest(left_ms);
	round_through(r);
	return rc;
}

static bool
offline_in_use(const struct target_export *ex)
{
	return atomic_load_explicit(&ex->grants, memory_order_acquire) > 0 ||
	       atomic_load_explicit(&ex->ios, memory_order_acquire) > 0 ||
	       atomic_load_explicit(&ex->reads, memory_order_acquire) > 0;
}

/**
 * Close the medium of an export whose file is lost, when no operation uses it any more. -EBUSY:
 * that takes too long. Blocks.
 */
static int
offline_let_go(struct target *t, struct target_export *ex)
{
	const bool was_up = target_export_up(ex);
	unsigned int left_ms = OFFLINE_WAIT_MS;
	int rc;

	/* Calls from now on see that the export is not up. Calls that came before have begun
	 * what is counted, when the first round is over. */
	offline_set(ex, "it is being opened again");
	atomic_store_explicit(&ex->up, false, memory_order_relaxed); /* the rounds order it */
	target_export_revoke(t, ex);
	rc = offline_round(t, &left_ms);
	while (rc == 0 && offline_in_use(ex))
		rc = offline_rest(&left_ms);
	/* The operation that ended last may still be inside a call. */
	if (rc == 0)
		rc = offline_round(t, &left_ms);
	if (rc != 0) {
		atomic_store_explicit(&ex->up, was_up, memory_order_release);
		return rc;
	}
	/* Some workers may have left it then, so it does not come up again before it is closed. */
	if (ex->volume != NULL && target_volume_detach(t, ex) != 0)
		return -EBUSY;
	target_watch_end(t, ex);
	pthread_mutex_lock(&ex->lock);
	target_export_release(ex);
	pthread_mutex_unlock(&ex->lock);
	return 0;
}

/**
 * Give the export another configuration. Other threads may still read the one before the present
 * one, so its buffer is written to when none of them does. -EBUSY: that takes too long.
 */
static int
offline_conf(struct target *t, struct target_export *ex, const struct conf_export *now)
{
	unsigned int left_ms = OFFLINE_WAIT_MS;
	int rc = t->running ? offline_round(t, &left_ms) : 0;

	if (rc != 0)
		return rc;
	pthread_mutex_lock(&t->exports_lock);
	target_export_named(t, ex, now->name);
	ex->own_now ^= 1;
	ex->own[ex->own_now] = *now;
	pthread_mutex_lock(&ex->lock);
	ex->conf = &ex->own[ex->own_now];
	target_rate_set(t, ex);
	pthread_mutex_unlock(&ex->lock);
	pthread_mutex_unlock(&t->exports_lock);
	return 0;
}

/** Open the export by its configuration, and check that its key is not a client's, as at the start.
 * -errno with one line in err. */
static int
offline_try(struct target *t, struct target_export *ex, const struct conf *fresh, char *err,
            size_t err_size)
{
	const struct conf_export *conf = ex->conf;
	struct target_export opened;
	int rc = 0;

	if (conf->format == CONF_FORMAT_VOLUME)
		rc = target_volumes_more(t, err, err_size);
	if (rc == 0 && conf->format == CONF_FORMAT_VOLUME)
		rc = target_volume_emptied(ex, conf, err, err_size);
	if (rc != 0)
		return rc;
	rc = target_export_open(&opened, conf, t->numa_node, err, err_size);
	if (rc == 0) {
		pthread_mutex_lock(&ex->lock);
		ex->persist = opened.persist;
		ex->volume = opened.volume;
		memcpy(ex->had_path, opened.had_path, sizeof(ex->had_path));
		ex->super = opened.super;
		ex->hash_key = opened.hash_key;
		ex->created = opened.created;
		atomic_store_explicit(&ex->rights, conf->rights, memory_order_relaxed);
		atomic_store_explicit(&ex->file, TARGET_FILE_HERE, memory_order_relaxed);
		pthread_mutex_unlock(&ex->lock);
		rc = target_auth_check_export(fresh, conf->name, &opened.hash_key, err, err_size);
		if (rc == 0 && ex->volume != NULL)
			rc = target_volume_attach(t, ex, err, err_size);
		if (rc != 0) {
			target_export_undo(&opened);
			pthread_mutex_lock(&ex->lock);
			target_export_release(ex);
			pthread_mutex_unlock(&ex->lock);
		}
	}
	pthread_mutex_destroy(&opened.lock);
	explicit_bzero(&opened.hash_key, sizeof(opened.hash_key));
	if (rc != 0)
		return rc;
	target_watch_begin(t, ex);
	target_metrics_attach(t, ex);
	atomic_store_explicit(&ex->up, true, memory_order_release);
	ui_msg("export %s: is served now", ex->conf->name);
	return 0;
}

/** The same; the reason of a failure is the export's, and is logged. */
static int
offline_open(struct target *t, struct target_export *ex, const struct conf *fresh)
{
	char err[CONF_ERR_MAX + CONF_PATH_MAX];
	int rc = offline_try(t, ex, fresh, err, sizeof(err));

	if (rc != 0) {
		offline_set(ex, err);
		offline_say(ex);
	}
	return rc;
}

/* ---- For the operator ---- */

unsigned int
target_export_users(const struct target_export *ex)
{
	return atomic_load_explicit(&ex->grants, memory_order_acquire) +
	       atomic_load_explicit(&ex->ios, memory_order_acquire) +
	       atomic_load_explicit(&ex->reads, memory_order_acquire);
}

void
target_export_drain(struct target *t, struct target_export *ex)
{
	atomic_store_explicit(&ex->held, TARGET_HELD_DRAINS, memory_order_relaxed);
	/* The calls of the revocation bring it to each worker. */
	atomic_store_explicit(&ex->rights, 0, memory_order_relaxed);
	target_export_revoke(t, ex);
}

int
target_export_shut(struct target *t, struct target_export *ex)
{
	return target_export_up(ex) || ex->volume != NULL ? offline_let_go(t, ex) : 0;
}

int
target_export_reopen(struct target *t, struct target_export *ex, const struct conf_export *now,
                     char *err, size_t err_size)
{
	int rc = offline_conf(t, ex, now);

	if (rc != 0)
		snprintf(err, err_size, "export %s: the workers have too much to do; try again",
		         now->name);
	else
		rc = offline_try(t, ex, t->latest, err, err_size);
	if (rc != 0)
		offline_set(ex, err);
	return rc;
}

int
target_export_reconf(struct target *t, struct target_export *ex, const struct conf_export *now)
{
	int rc = offline_conf(t, ex, now);

	if (rc != 0 || !target_export_up(ex) ||
	    atomic_load_explicit(&ex->held, memory_order_relaxed) != TARGET_HELD_NO)
		return rc;
	atomic_store_explicit(&ex->rights, now->rights, memory_order_relaxed);
	target_export_revoke(t, ex);
	return 0;
}

/** A slot that was never used, or whose export was deleted; NULL: all are in use. */
static struct target_export *
offline_slot(struct target *t)
{
	const uint32_t n = target_nexports(t);

	for (uint32_t i = 0; i < n && t->ngone > 0; i++)
		if (target_export_gone(&t->exports[i]))
			return &t->exports[i];
	if (n == CONF_EXPORTS_MAX) {
		atomic_fetch_add_explicit(&t->exports_refused, 1, memory_order_relaxed);
		return NULL;
	}
	pthread_mutex_init(&t->exports[n].lock, NULL);
	target_rates_slot(t, n);
	atomic_store_explicit(&t->exports[n].gone, true, memory_order_relaxed);
	t->ngone++;
	/* Others pass it over. */
	atomic_store_explicit(&t->nexports, n + 1, memory_order_release);
	return &t->exports[n];
}

/** Nothing of the slot's former export is left in it. exports_lock is free, and so is the slot. */
static void
offline_wipe(struct target *t, struct target_export *ex)
{
	pthread_mutex_lock(&t->exports_lock);
	ex->file_fd = ex->file_wd = -1;
	ex->created = false;
	ex->had_path[0] = '\0';
	atomic_store_explicit(&ex->held, TARGET_HELD_NO, memory_order_relaxed);
	atomic_store_explicit(&ex->rights, 0, memory_order_relaxed);
	atomic_store_explicit(&ex->file, TARGET_FILE_HERE, memory_order_relaxed);
	atomic_store_explicit(&ex->files_lost, 0, memory_order_relaxed);
	atomic_store_explicit(&ex->io_reads, 0, memory_order_relaxed);
	atomic_store_explicit(&ex->io_read_bytes, 0, memory_order_relaxed);
	atomic_store_explicit(&ex->io_writes, 0, memory_order_relaxed);
	atomic_store_explicit(&ex->io_write_bytes, 0, memory_order_relaxed);
	atomic_store_explicit(&ex->io_durable, 0, memory_order_relaxed);
	atomic_store_explicit(&ex->io_refused, 0, memory_order_relaxed);
	atomic_store_explicit(&ex->access_refused, 0, memory_order_relaxed);
	atomic_store_explicit(&ex->conns_refused, 0, memory_order_relaxed);
	memset(&ex->slot, 0, sizeof(ex->slot));
	memset(ex->volume_uuid, 0, sizeof(ex->volume_uuid));
	ex->revocations = ex->reduced = ex->revoked = ex->told = 0;
	memset(&ex->mismatches, 0, sizeof(ex->mismatches));
	memset(&ex->failures, 0, sizeof(ex->failures));
	atomic_store_explicit(&ex->bad_ranges, 0, memory_order_relaxed);
	rate_export_wipe(&t->rates[ex - t->exports]);
	target_metrics_wipe(t, ex);
	pthread_mutex_unlock(&t->exports_lock);
}

int
target_export_add(struct target *t, const struct conf_export *conf, bool offline_too,
                  struct target_export **out, char *err, size_t err_size)
{
	struct target_export *ex = offline_slot(t);
	int rc;

	if (ex == NULL) {
		snprintf(err, err_size, "export %s: there are %u exports, as many as can be",
		         conf->name, CONF_EXPORTS_MAX);
		return -ENOSPC;
	}
	offline_wipe(t, ex);
	/* A worker that found the deleted export of this slot has left its callback behind it. */
	rc = target_export_reopen(t, ex, conf, err, err_size);
	if (rc != 0 && !offline_too)
		return rc;
	if (rc != 0)
		offline_say(ex);
	atomic_store_explicit(&ex->gone, false, memory_order_release);
	target_exports_changed(t);
	t->ngone--;
	*out = ex;
	return rc;
}

void
target_export_remove(struct target *t, struct target_export *ex)
{
	target_nvmf_forget(t, ex);
	pthread_mutex_lock(&t->exports_lock);
	atomic_store_explicit(&ex->gone, true, memory_order_relaxed);
	target_exports_changed(t);
	t->ngone++;
	atomic_store_explicit(&ex->held, TARGET_HELD_NO, memory_order_relaxed);
	pthread_mutex_unlock(&t->exports_lock);
	target_tickets_forget(t, ex);
}

int
target_export_take(struct target *t, struct target_export *ex)
{
	int rc = target_export_shut(t, ex);

	if (rc != 0)
		return rc;
	atomic_store_explicit(&ex->held, TARGET_HELD_OFFLINE, memory_order_relaxed);
	offline_set(ex, "taken out of service by its operator");
	return 0;
}

/** The configuration's, as it was read last; else the present one. */
static const struct conf_export *
offline_latest(const struct target *t, const struct target_export *ex)
{
	/* What was made at run time is never newer there. */
	for (uint32_t i = 0; !ex->conf->of_state && i < t->latest->nexports; i++)
		if (strcmp(t->latest->exports[i].name, ex->conf->name) == 0)
			return &t->latest->exports[i];
	return ex->conf;
}

int
target_export_give(struct target *t, struct target_export *ex, char *err, size_t err_size)
{
	const bool drains =
	        atomic_load_explicit(&ex->held, memory_order_relaxed) == TARGET_HELD_DRAINS;
	int rc;

	if (drains && target_export_up(ex) && !target_file_lost(ex)) {
		atomic_store_explicit(&ex->held, TARGET_HELD_NO, memory_order_relaxed);
		atomic_store_explicit(&ex->rights, ex->conf->rights, memory_order_relaxed);
		target_nvmf_rights(t, ex);
		ui_msg("export %s: is served now", ex->conf->name);
		return 0;
	}
	if ((target_export_up(ex) || ex->volume != NULL) && offline_let_go(t, ex) != 0) {
		snprintf(err, err_size,
		         "export %s: what was under way has not ended yet; say online again",
		         ex->conf->name);
		return -EBUSY;
	}
	rc = target_export_reopen(t, ex, offline_latest(t, ex), err, err_size);
	if (rc == 0)
		atomic_store_explicit(&ex->held, TARGET_HELD_NO, memory_order_relaxed);
	return rc;
}

/* ---- At SIGHUP ---- */

bool
target_export_retry(struct target *t, struct target_export *ex, const struct conf_export *now,
                    const struct conf *fresh)
{
	if (target_export_up(ex) && !target_file_lost(ex))
		return false;
	if (now == NULL) {
		if (!target_export_up(ex))
			offline_set(ex, "the configuration has it no more");
		return !target_export_up(ex);
	}
	/* The file may get its name back; the watch notices that. An empty file of that name is
	 * no export. */
	if (target_export_up(ex) &&
	    atomic_load_explicit(&ex->file, memory_order_relaxed) == TARGET_FILE_REMOVED &&
	    strcmp(now->path, ex->conf->path) == 0)
		return true;
	if ((target_export_up(ex) || ex->volume != NULL) && offline_let_go(t, ex) != 0) {
		ui_msg("export %s: what was under way has not ended yet; send SIGHUP again",
		       ex->conf->name);
		return true;
	}
	if (offline_conf(t, ex, now) != 0)
		ui_msg("export %s: the workers have too much to do; send SIGHUP again",
		       ex->conf->name);
	else
		(void)offline_open(t, ex, fresh);
	return true;
}
