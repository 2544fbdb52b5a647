/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The thread that computes for authentications, one after the other.
 */

#include <stdlib.h>

#include "nvmf_auth.h"

struct nvmf_auth_jobs {
	pthread_t thread;
	pthread_mutex_t lock; /**< also of what is done of each group */
	pthread_cond_t more;
	TAILQ_HEAD(, nvmf_auth) todo;
	uint32_t count; /**< that wait, or are done now */
	bool stop;
};

static void *
jobs_run(void *arg)
{
	struct nvmf_auth_jobs *j = arg;
	struct nvmf_auth *a;

	pthread_mutex_lock(&j->lock);
	while (!j->stop) {
		a = TAILQ_FIRST(&j->todo);
		if (a == NULL) {
			pthread_cond_wait(&j->more, &j->lock);
			continue;
		}
		TAILQ_REMOVE(&j->todo, a, link);
		pthread_mutex_unlock(&j->lock);
		a->status = a->work(a);
		pthread_mutex_lock(&j->lock);
		j->count--;
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
	struct nvmf_auth_jobs *j;

	if (t->auth_jobs != NULL)
		return 0;
	j = calloc(1, sizeof(*j));
	if (j == NULL)
		return -ENOMEM;
	pthread_mutex_init(&j->lock, NULL);
	pthread_cond_init(&j->more, NULL);
	TAILQ_INIT(&j->todo);
	if (pthread_create(&j->thread, NULL, jobs_run, j) != 0) {
		free(j);
		return -EAGAIN;
	}
	t->auth_jobs = j;
	return 0;
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
	pthread_join(j->thread, NULL);
	pthread_cond_destroy(&j->more);
	pthread_mutex_destroy(&j->lock);
	free(j);
	t->auth_jobs = NULL;
}

int
nvmf_auth_job(struct nvmf_auth *a)
{
	struct nvmf_auth_jobs *j = a->group->target->auth_jobs;
	bool full;

	pthread_mutex_lock(&j->lock);
	full = j->count >= WEFT_NVMF_AUTH_JOBS;
	if (!full) {
		j->count++;
		TAILQ_INSERT_TAIL(&j->todo, a, link);
		pthread_cond_signal(&j->more);
	}
	pthread_mutex_unlock(&j->lock);
	return full ? -EBUSY : 0;
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
