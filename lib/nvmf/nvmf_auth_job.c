/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The thread that computes for authentications, one after the other. It begins with the first
 * secret. Hosts that have proved their names and strangers take turns, so that neither waits for
 * all of the others. Within each, a host's second job comes behind the first one of each other host
 * that waits (start-time fair queueing); a controller of a stranger has one job at most.
 */

#include <stdlib.h>

#include "nvmf_auth.h"

enum {
	JOBS_STRANGERS,
	JOBS_PROVED,
	JOBS_KINDS,
};

struct nvmf_auth_jobs {
	pthread_t thread;
	pthread_mutex_t lock; /**< also of what is done of each group */
	pthread_cond_t more;
	TAILQ_HEAD(, nvmf_auth) todo[JOBS_KINDS]; /**< by rounds */
	uint64_t round[JOBS_KINDS];               /**< of the last one that was taken */
	unsigned int last;                        /**< whose turn it was */
	bool started, stop;
};

/** The next job; NULL: there is none. With the lock. */
static struct nvmf_auth *
jobs_next(struct nvmf_auth_jobs *j)
{
	struct nvmf_auth *a;

	for (unsigned int i = 1; i <= JOBS_KINDS; i++) {
		const unsigned int kind = (j->last + i) % JOBS_KINDS;

		a = TAILQ_FIRST(&j->todo[kind]);
		if (a == NULL)
			continue;
		TAILQ_REMOVE(&j->todo[kind], a, link);
		j->round[kind] = a->round;
		j->last = kind;
		return a;
	}
	return NULL;
}

static void *
jobs_run(void *arg)
{
	struct nvmf_auth_jobs *j = arg;
	struct nvmf_auth *a;

	pthread_mutex_lock(&j->lock);
	while (!j->stop) {
		a = jobs_next(j);
		if (a == NULL) {
			pthread_cond_wait(&j->more, &j->lock);
			continue;
		}
		pthread_mutex_unlock(&j->lock);
		a->status = a->work(a);
		pthread_mutex_lock(&j->lock);
		TAILQ_INSERT_TAIL(&a->group->auth_done, a, link);
		/* With the lock: the group is there until it has taken what is done. */
		nvmf_wake(a->group);
	}
	pthread_mutex_unlock(&j->lock);
	return NULL;
}

int
nvmf_auth_jobs_up(struct weft_nvmf *t)
{
	struct nvmf_auth_jobs *j = calloc(1, sizeof(*j));

	if (j == NULL)
		return -ENOMEM;
	pthread_mutex_init(&j->lock, NULL);
	pthread_cond_init(&j->more, NULL);
	for (unsigned int i = 0; i < JOBS_KINDS; i++)
		TAILQ_INIT(&j->todo[i]);
	t->auth_jobs = j;
	return 0;
}

int
nvmf_auth_jobs_start(struct weft_nvmf *t)
{
	struct nvmf_auth_jobs *j = t->auth_jobs;

	pthread_mutex_lock(&j->lock);
	if (!j->started)
		j->started = pthread_create(&j->thread, NULL, jobs_run, j) == 0;
	pthread_mutex_unlock(&j->lock);
	return j->started ? 0 : -EAGAIN;
}

void
nvmf_auth_jobs_down(struct weft_nvmf *t)
{
	struct nvmf_auth_jobs *j = t->auth_jobs;

	if (j == NULL)
		return;
	pthread_mutex_lock(&j->lock);
	j->stop = true;
	pthread_cond_signal(&j->more);
	pthread_mutex_unlock(&j->lock);
	if (j->started)
		pthread_join(j->thread, NULL);
	pthread_cond_destroy(&j->more);
	pthread_mutex_destroy(&j->lock);
	free(j);
	t->auth_jobs = NULL;
}

/** The round of a host's next job. *waiting: how many it has. With the lock. */
static uint64_t
jobs_round(const struct nvmf_auth_jobs *j, unsigned int kind, const struct nvmf_auth *a,
           uint32_t *waiting)
{
	uint64_t round = j->round[kind];
	const struct nvmf_auth *o;

	*waiting = 0;
	/* the name that a stranger tells is no reason for it to wait */
	if (kind == JOBS_STRANGERS)
		return round;
	TAILQ_FOREACH (o, &j->todo[kind], link)
		if (strcmp(o->keys.hostnqn, a->keys.hostnqn) == 0) {
			round = NVMF_MAX(round, o->round + 1);
			(*waiting)++;
		}
	return round;
}

int
nvmf_auth_job(struct nvmf_auth *a)
{
	struct nvmf_auth_jobs *j = a->group->target->auth_jobs;
	const unsigned int kind = a->of_proved ? JOBS_PROVED : JOBS_STRANGERS;
	struct nvmf_auth *o;
	uint32_t waiting;

	pthread_mutex_lock(&j->lock);
	a->round = jobs_round(j, kind, a, &waiting);
	if (waiting < WEFT_NVMF_AUTH_JOBS) {
		TAILQ_FOREACH (o, &j->todo[kind], link)
			if (o->round > a->round)
				break;
		if (o != NULL)
			TAILQ_INSERT_BEFORE(o, a, link);
		else
			TAILQ_INSERT_TAIL(&j->todo[kind], a, link);
		pthread_cond_signal(&j->more);
	}
	pthread_mutex_unlock(&j->lock);
	return waiting < WEFT_NVMF_AUTH_JOBS ? 0 : -EBUSY;
}

void
nvmf_auth_poll(struct weft_nvmf_group *g)
{
	struct nvmf_auth_jobs *j = g->target->auth_jobs;
	struct nvmf_auth *a;

	while (j != NULL) {
		pthread_mutex_lock(&j->lock);
		a = TAILQ_FIRST(&g->auth_done);
		if (a != NULL)
			TAILQ_REMOVE(&g->auth_done, a, link);
		pthread_mutex_unlock(&j->lock);
		if (a == NULL)
			return;
		a->ready(a, a->status);
	}
}
