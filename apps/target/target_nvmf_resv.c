/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Reservations of NVMe hosts: the thread that keeps them in the state directory, and what
 * they leave to clients of the target. A client is no registrant of any reservation. So one that
 * has more rights than a reservation leaves loses its grant, at once and on each worker, before the
 * reservation holds; and an OPEN gets only what is left.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "target.h"
#include "target_nvmf.h"
#include "target_say.h"
#include "target_state.h"
#include "target_volume.h"
#include "ui.h"

#define RESV_WAIT_MS 100 /**< for workers, while the target ends */

struct target_nvmf_resv {
	struct target_nvmf *n;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t cond;
	/* lock: changes to be made, the oldest first */
	struct weft_nvmf_resv_change *first, **last;
	bool stop;
};

/* ---- Clients ---- */

/** One look at the grants of all workers. The last of its users frees it. */
struct resv_round {
	atomic_uint users, left;
	struct target_export *ex;
};

struct resv_call {
	struct resv_round *round;
	struct target_worker *tw;
};

static void
round_put(struct resv_round *r)
{
	if (atomic_fetch_sub_explicit(&r->users, 1, memory_order_acq_rel) == 1)
		free(r);
}

/** The worker is done with its part, or has none. */
static void
round_done(struct resv_call *call)
{
	atomic_fetch_sub_explicit(&call->round->left, 1, memory_order_release);
	round_put(call->round);
	free(call);
}

static void
worker_limit(void *arg)
{
	struct resv_call *call = arg;
	struct target_export *ex = call->round->ex;
	struct target_vgrant *g, *next;
	struct target_conn *c;

	LIST_FOREACH (c, &call->tw->conns, link)
		for (g = LIST_FIRST(&c->vgrants); g != NULL; g = next) {
			next = LIST_NEXT(g, link);
			if (g->ex != ex || g->ended ||
			    (g->rights & target_may_client(ex, c)) == g->rights)
				continue;
			target_log_export(
			        "export %s: the grant of %s ends: hosts have reserved the "
			        "volume",
			        ex->conf->name, c->peer);
			target_vgrant_end(g);
		}
	round_done(call);
}

static bool
resv_stopping(const struct target *t)
{
	return atomic_load_explicit(&t->stopping, memory_order_relaxed);
}

/** No client has more than ex->others leaves. False: that cannot be had. While the target ends it
 * is true: so do its clients. */
static bool
resv_end_grants(struct target *t, struct target_export *ex)
{
	struct resv_round *r = calloc(1, sizeof(*r));
	unsigned int ms = 0;
	bool ok = r != NULL;

	if (r == NULL)
		return false;
	r->ex = ex;
	atomic_init(&r->users, t->stack.nworkers + 1);
	atomic_init(&r->left, t->stack.nworkers);
	for (uint32_t i = 0; i < t->stack.nworkers; i++) {
		struct resv_call *call = malloc(sizeof(*call));
		int rc = -ENOMEM;

		if (call == NULL) {
			ok = false;
			atomic_fetch_sub_explicit(&r->left, 1, memory_order_relaxed);
			round_put(r);
			continue;
		}
		*call = (struct resv_call){r, &t->workers[i]};
		while ((rc = weft_worker_call(t->stack.workers[i], worker_limit, call)) ==
		               -EAGAIN &&
		       !resv_stopping(t))
			usleep(1000);
		if (rc != 0) {
			ok = ok && resv_stopping(t);
			round_done(call);
		}
	}
	while (atomic_load_explicit(&r->left, memory_order_acquire) > 0 && ms < RESV_WAIT_MS) {
		ms += resv_stopping(t);
		usleep(1000);
	}
	round_put(r);
	return ok;
}

/** With resv_lock. */
static void
resv_limit(struct target_nvmf *n, struct target_export *ex, enum weft_nvmf_others others)
{
	const uint32_t was = atomic_exchange_explicit(&ex->others, others, memory_order_relaxed);

	/* workers that have not begun have no client yet */
	if (others > was && n->t->running && !resv_end_grants(n->t, ex))
		ui_msg(UI_WARNING "export %s: hosts have reserved it, and clients may still use "
		                  "it: out of memory; send SIGHUP",
		       ex->conf->name);
}

void
target_nvmf_resv_gone(struct target_nvmf *n, struct target_export *ex)
{
	pthread_mutex_lock(&n->resv_lock);
	resv_limit(n, ex, WEFT_NVMF_OTHERS_ALL);
	pthread_mutex_unlock(&n->resv_lock);
}

/* ---- The thread ---- */

/** With resv_lock. */
static int
resv_make(struct target_nvmf_resv *r, const struct weft_nvmf_resv_change *c)
{
	struct target *t = r->n->t;
	struct target_export *ex = c->owner;
	const uint32_t was = atomic_load_explicit(&ex->others, memory_order_relaxed);
	int rc = 0;

	if (c->others > was) {
		atomic_store_explicit(&ex->others, c->others, memory_order_relaxed);
		if (!resv_end_grants(t, ex))
			rc = -ENOMEM;
	}
	if (rc == 0 && c->keep && t->state != NULL)
		rc = state_resv_keep(t->state, c->uuid, c->data, c->bytes);
	atomic_store_explicit(&ex->others, rc == 0 ? c->others : was, memory_order_relaxed);
	if (rc != 0)
		target_log_export(UI_ERR
		                  "export %s: a change of its reservations cannot be kept: %s",
		                  ex->conf->name, strerror(-rc));
	return rc;
}

static void *
resv_main(void *arg)
{
	struct target_nvmf_resv *r = arg;
	struct weft_nvmf_resv_change *c;
	uint8_t uuid[16];
	int rc;

	pthread_mutex_lock(&r->lock);
	for (;;) {
		while (r->first == NULL && !r->stop)
			pthread_cond_wait(&r->cond, &r->lock);
		c = r->first;
		if (c == NULL)
			break;
		r->first = c->next;
		if (r->first == NULL)
			r->last = &r->first;
		pthread_mutex_unlock(&r->lock);
		memcpy(uuid, c->uuid, sizeof(uuid));
		pthread_mutex_lock(&r->n->resv_lock);
		rc = resv_make(r, c);
		weft_nvmf_resv_changed(r->n->nvmf, uuid, rc);
		pthread_mutex_unlock(&r->n->resv_lock);
		pthread_mutex_lock(&r->lock);
	}
	pthread_mutex_unlock(&r->lock);
	return NULL;
}

/** On a worker, with the lock of lib/nvmf held. */
static void
resv_change(void *owner, struct weft_nvmf_resv_change *c)
{
	struct target_nvmf_resv *r = owner;

	c->next = NULL;
	pthread_mutex_lock(&r->lock);
	*r->last = c;
	r->last = &c->next;
	pthread_cond_signal(&r->cond);
	pthread_mutex_unlock(&r->lock);
}

int
target_nvmf_resv_up(struct target_nvmf *n, struct weft_nvmf_resv_ops *ops)
{
	struct target_nvmf_resv *r = calloc(1, sizeof(*r));
	int rc;

	if (r == NULL)
		return -ENOMEM;
	r->n = n;
	r->last = &r->first;
	pthread_mutex_init(&r->lock, NULL);
	pthread_cond_init(&r->cond, NULL);
	rc = n->t->state == NULL ? 0 : state_resv_room(n->t->state);
	if (rc == 0)
		rc = -pthread_create(&r->thread, NULL, resv_main, r);
	if (rc != 0) {
		free(r);
		return rc;
	}
	n->resv = r;
	*ops = (struct weft_nvmf_resv_ops){
	        .change = resv_change, .persists = n->t->state != NULL, .owner = r};
	return 0;
}

void
target_nvmf_resv_down(struct target_nvmf *n)
{
	struct target_nvmf_resv *r = n->resv;

	if (r == NULL)
		return;
	pthread_mutex_lock(&r->lock);
	r->stop = true;
	pthread_cond_signal(&r->cond);
	pthread_mutex_unlock(&r->lock);
	pthread_join(r->thread, NULL);
	pthread_cond_destroy(&r->cond);
	pthread_mutex_destroy(&r->lock);
	free(r);
	n->resv = NULL;
}

/** What was kept of a volume; *data is freed by the caller, and NULL if there is nothing. -errno:
 * that cannot be read. */
static int
resv_kept(const struct target_nvmf *n, const uint8_t uuid[16], char **data, size_t *bytes)
{
	int rc = -ENOENT;

	*data = NULL;
	*bytes = 0;
	if (n->t->state != NULL)
		rc = state_resv_kept(n->t->state, uuid, data, bytes);
	if (rc == 0)
		return 0;
	free(*data);
	*data = NULL;
	*bytes = 0;
	return rc == -ENOENT ? 0 : rc;
}

/** What is kept says what clients may do, if hosts cannot have the namespace, too. With resv_lock.
 */
static int
resv_kept_others(const struct target_nvmf *n, const struct weft_nvmf_ns_attr *attr, char **kept,
                 size_t *bytes, enum weft_nvmf_others *others)
{
	const uint8_t *uuid = weft_vol_info(attr->vol)->super.uuid;
	int rc = n->t->state == NULL ? 0 : state_resv_spare(n->t->state, uuid);

	*others = WEFT_NVMF_OTHERS_NOTHING;
	*kept = NULL;
	/* with the note, the next start would remove what holds from now on */
	if (rc != 0)
		return -ENOTRECOVERABLE;
	rc = resv_kept(n, uuid, kept, bytes);
	*others = WEFT_NVMF_OTHERS_ALL;
	if (rc == 0 && *kept != NULL)
		rc = weft_nvmf_resv_others(*kept, *bytes, uuid, others);
	if (rc == 0)
		return 0;
	/* it may be of the strictest type */
	*others = WEFT_NVMF_OTHERS_NOTHING;
	return -EBADMSG;
}

int
target_nvmf_resv_add(struct target_nvmf *n, struct weft_nvmf_subsys *s,
                     const struct weft_nvmf_ns_attr *attr, bool first)
{
	struct weft_nvmf_ns_attr with = *attr;
	struct weft_nvmf_ns_stats stats;
	enum weft_nvmf_others others;
	char *kept;
	int rc;

	pthread_mutex_lock(&n->resv_lock);
	rc = resv_kept_others(n, attr, &kept, &with.resv_bytes, &others);
	with.resv = kept;
	if (rc == 0)
		rc = weft_nvmf_ns_add(s, &with);
	if (rc == 0 && weft_nvmf_ns_query(s, attr->nsid, &stats) == 0)
		others = stats.others;
	/* with another namespace of it clients are limited by what holds, whatever is kept */
	if (rc == 0 || first)
		resv_limit(n, attr->owner, others);
	pthread_mutex_unlock(&n->resv_lock);
	free(kept);
	return rc;
}

/* ---- An export is deleted ---- */

static bool
resv_is_volume(const uint8_t uuid[16])
{
	static const uint8_t none[16];

	return memcmp(uuid, none, sizeof(none)) != 0;
}

/** Whether the export has the volume, or may have: before its volume was open, any can be its. */
static bool
resv_may_have(const struct target_export *ex, const uint8_t uuid[16])
{
	const uint8_t *has = ex->volume_uuid;

	if (!resv_is_volume(has) && ex->volume != NULL)
		has = weft_vol_info(ex->volume->vol)->super.uuid;
	return resv_is_volume(has) ? memcmp(has, uuid, sizeof(ex->volume_uuid)) == 0
	                           : ex->conf->format == CONF_FORMAT_VOLUME;
}

/** An export other than `but` that has the volume, or may have. NULL: none. */
static const struct target_export *
resv_shares(struct target *t, const uint8_t uuid[16], const struct target_export *but)
{
	for (uint32_t i = 0; i < target_nexports(t); i++) {
		const struct target_export *ex = &t->exports[i];

		if (ex != but && !target_export_gone(ex) && resv_may_have(ex, uuid))
			return ex;
	}
	return NULL;
}

/** They stay, and for this reason. Says nothing if there are none. */
static void
resv_say_stays(const struct target *t, const struct target_export *ex,
               const struct target_export *other)
{
	char path[CONF_PATH_MAX + 64];

	if (access(state_resv_path(t->state, ex->volume_uuid, path, sizeof(path)), F_OK) == 0)
		ui_msg("export %s: the reservations of its volume stay: export %s %s",
		       ex->conf->name, other->conf->name,
		       resv_is_volume(other->volume_uuid) || other->volume != NULL
		               ? "has it as well"
		               : "may have it as well, and has not been open since the start");
}

int
target_nvmf_resv_stay(struct target *t, const struct target_export *ex, char *err, size_t err_size)
{
	const int rc = state_resv_stay(t->state, ex->conf->name);

	if (rc != 0)
		snprintf(err, err_size,
		         "export %s: it cannot be noted that the reservations of its volume stay: "
		         "%s",
		         ex->conf->name, strerror(-rc));
	return rc;
}

int
target_nvmf_resv_doom(struct target *t, const struct target_export *ex, uint8_t uuid[16], char *err,
                      size_t err_size)
{
	const struct target_export *other = NULL;
	int rc;

	memset(uuid, 0, sizeof(ex->volume_uuid));
	if (resv_is_volume(ex->volume_uuid))
		other = resv_shares(t, ex->volume_uuid, ex);
	if (other != NULL)
		resv_say_stays(t, ex, other);
	if (!resv_is_volume(ex->volume_uuid) || other != NULL)
		return target_nvmf_resv_stay(t, ex, err, err_size);
	rc = state_resv_doom(t->state, ex->volume_uuid, ex->conf->name);
	if (rc == 0)
		memcpy(uuid, ex->volume_uuid, sizeof(ex->volume_uuid));
	else
		snprintf(err, err_size,
		         "export %s: the reservations of its volume cannot be given up: %s",
		         ex->conf->name, strerror(-rc));
	return rc;
}

void
target_nvmf_resv_end(struct target *t, const uint8_t uuid[16], const char *name, bool deleted)
{
	int rc = 0;

	if (!resv_is_volume(uuid))
		return;
	if (deleted && t->nvmf != NULL)
		rc = weft_nvmf_resv_forget(t->nvmf->nvmf, uuid);
	if (rc != 0 || !deleted || resv_shares(t, uuid, NULL) != NULL)
		rc = state_resv_spare(t->state, uuid);
	else
		rc = state_resv_bury(t->state, uuid);
	if (rc != 0)
		ui_msg(UI_WARNING "export %s: the reservations that were kept of its volume are "
		                  "in doubt: %s",
		       name, strerror(-rc));
}
