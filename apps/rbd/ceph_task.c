/* SPDX-License-Identifier: BSD-3-Clause */
/** @file A thread that makes the calls of librbd that block, one request after the other. */

#include "ceph.h"

static void *
ceph_task_main(void *arg)
{
	struct ceph_task *t = arg;
	struct serve_req *r;

	pthread_mutex_lock(&t->lock);
	while (!t->stop) {
		r = t->first;
		if (r == NULL) {
			pthread_cond_wait(&t->cond, &t->lock);
			continue;
		}
		t->first = r->next;
		if (t->first == NULL)
			t->end = &t->first;
		pthread_mutex_unlock(&t->lock);
		r->result = t->run(r);
		ceph_ended(r);
		pthread_mutex_lock(&t->lock);
	}
	pthread_mutex_unlock(&t->lock);
	return NULL;
}

int
ceph_task_begin(struct ceph_task *t)
{
	int r;

	t->first = NULL;
	t->end = &t->first;
	pthread_mutex_init(&t->lock, NULL);
	pthread_cond_init(&t->cond, NULL);
	r = -pthread_create(&t->thread, NULL, ceph_task_main, t);
	t->runs = r == 0;
	return r;
}

void
ceph_task_end(struct ceph_task *t)
{
	if (!t->runs)
		return;
	pthread_mutex_lock(&t->lock);
	t->stop = true;
	pthread_cond_signal(&t->cond);
	pthread_mutex_unlock(&t->lock);
	pthread_join(t->thread, NULL);
	t->runs = false;
}

void
ceph_task_add(struct ceph_task *t, struct serve_req *r)
{
	pthread_mutex_lock(&t->lock);
	r->next = NULL;
	*t->end = r;
	t->end = &r->next;
	pthread_cond_signal(&t->cond);
	pthread_mutex_unlock(&t->lock);
}
