/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Volumes that are opened ahead of their turn at the start. */

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "target.h"
#include "target_ahead.h"
#include "target_state.h"
#include "ui.h"

#define AHEAD_THREADS 16U
/** Openings beyond the one that is taken next: each has a volume open that may have to go again. */
#define AHEAD_MOST 64U

enum ahead_state {
	AHEAD_NOT, /**< not opened here, or taken */
	AHEAD_WAITS,
	AHEAD_OPENING,
	AHEAD_DONE,
};

struct ahead_export {
	enum ahead_state state;
	int rc;
	char *err; /**< of a failure */
};

struct target_ahead {
	struct target *t;
	unsigned int nthreads;
	pthread_t thread[AHEAD_THREADS];
	pthread_mutex_t lock;
	pthread_cond_t changed;
	/* under the lock */
	bool ends;
	uint32_t next;  /**< the helpers look from here on */
	uint32_t taken; /**< the first that is not taken */
	uint32_t n;
	struct ahead_export export[];
};

/** Whether a helper opens it. Images of a cluster and memory wait for no disk of this machine. */
static bool
ahead_is_ours(const struct target *t, const struct conf_export *conf)
{
	return conf->format == CONF_FORMAT_VOLUME && conf->path[0] != '\0' &&
	       conf->persist != CONF_PERSIST_VOLATILE &&
	       !(t->state != NULL && state_is_held(t->state, conf->name));
}

/** Under the lock: the next one to be opened, which is this thread's then. False: there is none. */
static bool
ahead_next(struct target_ahead *a, uint32_t *i)
{
	for (;;) {
		while (a->next < a->n && a->export[a->next].state != AHEAD_WAITS)
			a->next++;
		if (a->ends || a->next == a->n)
			return false;
		if (a->next < a->taken + AHEAD_MOST)
			break;
		pthread_cond_wait(&a->changed, &a->lock);
	}
	*i = a->next++;
	a->export[*i].state = AHEAD_OPENING;
	return true;
}

static void *
ahead_main(void *arg)
{
	struct target_ahead *a = arg;
	char err[CONF_ERR_MAX + CONF_PATH_MAX];
	uint32_t i;

	pthread_mutex_lock(&a->lock);
	while (ahead_next(a, &i)) {
		struct ahead_export *e = &a->export[i];

		pthread_mutex_unlock(&a->lock);
		err[0] = '\0';
		e->rc = target_export_open_ahead(&a->t->exports[i], &a->t->conf.exports[i], err,
		                                 sizeof(err));
		e->err = e->rc != 0 ? strdup(err) : NULL;
		pthread_mutex_lock(&a->lock);
		e->state = AHEAD_DONE;
		pthread_cond_broadcast(&a->changed);
	}
	pthread_mutex_unlock(&a->lock);
	return NULL;
}

struct target_ahead *
target_ahead_begin(struct target *t)
{
	const uint32_t n = t->conf.nexports;
	struct target_ahead *a = calloc(1, sizeof(*a) + n * sizeof(a->export[0]));
	uint32_t ours = 0;

	if (a == NULL)
		return NULL;
	a->t = t;
	a->n = n;
	for (uint32_t i = 0; i < n; i++)
		if (ahead_is_ours(t, &t->conf.exports[i])) {
			a->export[i].state = AHEAD_WAITS;
			ours++;
		}
	pthread_mutex_init(&a->lock, NULL);
	pthread_cond_init(&a->changed, NULL);
	while (ours > 1 && a->nthreads < AHEAD_THREADS && a->nthreads < ours &&
	       pthread_create(&a->thread[a->nthreads], NULL, ahead_main, a) == 0)
		a->nthreads++;
	if (a->nthreads > 0)
		return a;
	target_ahead_end(a);
	return NULL;
}

/** Let the helpers end. */
static void
ahead_join(struct target_ahead *a)
{
	pthread_mutex_lock(&a->lock);
	a->ends = true;
	pthread_cond_broadcast(&a->changed);
	pthread_mutex_unlock(&a->lock);
	for (unsigned int k = 0; k < a->nthreads; k++)
		pthread_join(a->thread[k], NULL);
	a->nthreads = 0;
}

/** Close what was opened and not taken. The helpers have ended. */
static void
ahead_drop(struct target_ahead *a)
{
	for (uint32_t i = a->taken; i < a->n; i++) {
		struct ahead_export *e = &a->export[i];

		if (e->state == AHEAD_DONE && e->rc == 0) {
			target_export_undo(&a->t->exports[i]);
			target_export_close(&a->t->exports[i]);
		}
		free(e->err);
		*e = (struct ahead_export){.state = AHEAD_NOT};
	}
}

bool
target_ahead_take(struct target_ahead *a, uint32_t i, int *rc, char *err, size_t err_size)
{
	struct ahead_export *e;
	bool ours;

	if (a == NULL)
		return false;
	e = &a->export[i];
	pthread_mutex_lock(&a->lock);
	a->taken = i;
	ours = e->state != AHEAD_NOT;
	pthread_cond_broadcast(&a->changed);
	while (ours && e->state != AHEAD_DONE)
		pthread_cond_wait(&a->changed, &a->lock);
	a->taken = i + 1;
	pthread_mutex_unlock(&a->lock);
	if (!ours)
		return false;
	*rc = e->rc;
	/* A later one may have the same file. One by one this one would have had it. */
	if (*rc == -EBUSY && a->nthreads > 0) {
		ahead_join(a);
		ahead_drop(a);
		*rc = target_export_open_ahead(&a->t->exports[i], &a->t->conf.exports[i], err,
		                               err_size);
	} else if (*rc != 0) {
		snprintf(err, err_size, "%s",
		         e->err != NULL ? e->err : "out of memory for the reason");
	}
	free(e->err);
	e->err = NULL;
	if (*rc == 0)
		target_export_opened(&a->t->exports[i]);
	return true;
}

void
target_ahead_end(struct target_ahead *a)
{
	if (a == NULL)
		return;
	ahead_join(a);
	ahead_drop(a);
	/* So many openings at once had buffers of MiBs, which nothing needs now. */
	(void)malloc_trim(0);
	pthread_cond_destroy(&a->changed);
	pthread_mutex_destroy(&a->lock);
	free(a);
}
