/* SPDX-License-Identifier: BSD-3-Clause */
/** @file What the client and the server of the TI-RPC interface share. */

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "tirpc_priv.h"

#define TIRPC_CALL_TRIES 10000
#define TIRPC_CALL_US    100
#define TIRPC_SQ_DEPTH   512 /* registrations, Writes and Sends under way */

const struct weft_rpc_proc *
tirpc_proc(const struct weft_rpc_program *const *programs, uint32_t prog, uint32_t vers,
           uint32_t proc)
{
	for (; programs != NULL && *programs != NULL; programs++) {
		const struct weft_rpc_program *p = *programs;

		if (p->prog == prog && p->vers == vers)
			return proc < p->nprocs ? &p->procs[proc] : NULL;
	}
	return NULL;
}

const struct weft_rpc_binding *
tirpc_binding(const struct weft_rpc_program *const *programs, uint32_t prog, uint32_t vers,
              uint32_t proc)
{
	const struct weft_rpc_proc *p = tirpc_proc(programs, prog, vers, proc);

	return p != NULL ? p->binding : NULL;
}

int
tirpc_attr(const struct weft_tirpc_attr *attr, struct weft_tirpc_attr *out)
{
	memset(out, 0, sizeof(*out));
	if (attr == NULL)
		return 0;
	if (weft_attr_copy(out, sizeof(*out), attr) < 0)
		return -EINVAL;
	attr = out;
	return (attr->auth_open == NULL) == (attr->auth_close == NULL) ? 0 : -EINVAL;
}

struct weft_rpc_attr
tirpc_rpc_attr(const struct weft_tirpc_attr *a)
{
	return (struct weft_rpc_attr){
	        .size = sizeof(struct weft_rpc_attr),
	        .inline_bytes = a->inline_bytes,
	        .credits = a->credits != 0 ? a->credits : 32,
	        .min_vers = a->min_vers,
	        .max_vers = a->max_vers,
	        .max_message_bytes = a->max_message_bytes,
	        .auth = a->auth,
	};
}

struct weft_qp_attr
tirpc_qp_attr(const struct weft_tirpc_attr *a)
{
	return (struct weft_qp_attr){
	        .size = sizeof(struct weft_qp_attr),
	        .sq_depth = TIRPC_SQ_DEPTH,
	        .rq_depth = (a->credits != 0 ? a->credits : 32) + 1,
	};
}

void
tirpc_wait_init(struct tirpc_wait *w)
{
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->cond, NULL);
	w->done = false;
}

void
tirpc_wait_fini(struct tirpc_wait *w)
{
	/* The thread that signalled may still hold the lock. */
	pthread_mutex_lock(&w->lock);
	pthread_mutex_unlock(&w->lock);
	pthread_cond_destroy(&w->cond);
	pthread_mutex_destroy(&w->lock);
}

void
tirpc_wait_signal(struct tirpc_wait *w)
{
	pthread_mutex_lock(&w->lock);
	w->done = true;
	pthread_cond_signal(&w->cond);
	pthread_mutex_unlock(&w->lock);
}

int
tirpc_worker_call(struct weft_worker *worker, void (*fn)(void *arg), void *arg)
{
	int rc = -EAGAIN;

	for (unsigned int i = 0; i < TIRPC_CALL_TRIES && (rc == -EAGAIN || rc == -ENOMEM); i++) {
		if (i > 0)
			usleep(TIRPC_CALL_US);
		rc = weft_worker_call(worker, fn, arg);
	}
	return rc;
}

int
tirpc_wait_for(struct weft_worker *worker, struct tirpc_wait *w, void (*fn)(void *arg), void *arg)
{
	bool mine = weft_worker_is_mine(worker);
	int rc = tirpc_worker_call(worker, fn, arg);

	if (rc != 0)
		return rc;
	pthread_mutex_lock(&w->lock);
	while (!w->done) {
		if (!mine) {
			pthread_cond_wait(&w->cond, &w->lock);
			continue;
		}
		pthread_mutex_unlock(&w->lock);
		if (weft_worker_poll(worker) == 0)
			weft_worker_idle(worker, 50);
		pthread_mutex_lock(&w->lock);
	}
	pthread_mutex_unlock(&w->lock);
	return 0;
}
