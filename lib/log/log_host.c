/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The memory of a target, granted to one writer at a time (docs/log-format.md, the fence).
 */

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <weft/hash.h>
#include <weft/log_host.h>
#include <weft/ulp.h>

static struct weft_handle_kind host_kind = {.name = "host of a log"};

/** The caller that asked for the memory, or has just got it. */
struct host_asker {
	weft_log_granted_fn granted; /**< NULL: no caller */
	void *arg;
};

struct weft_log_host {
	struct weft_handle h;
	pthread_mutex_t lock; /**< of the members below; no callback runs under it */
	struct weft_pd *pd;
	struct weft_mr_attr memory;
	char hash[32];
	uint8_t key[WEFT_HASH_KEY_MAX_BYTES];
	struct weft_mr *mr; /**< GRANTED */
	struct host_asker waiting;
	bool dead;
	void (*freed)(void *arg);
	void *freed_arg;
	struct weft_log_host_info info;
};

int
weft_log_host_create(struct weft_pd *pd, const struct weft_mr_attr *memory,
                     struct weft_log_host **out)
{
	struct weft_log_host *host;
	struct weft_mr_attr a;
	int rc = weft_attr_copy(&a, sizeof(a), memory);

	if (rc < 0)
		return rc;
	if (out == NULL || weft_pd_check(pd, __func__) < 0 || a.addr == NULL || a.len_bytes == 0 ||
	    (a.access & WEFT_ACCESS_MW_BIND) != 0 ||
	    (a.hash != NULL && strnlen(a.hash, sizeof(host->hash)) == sizeof(host->hash)) ||
	    a.hash_key_bytes > sizeof(host->key) || (a.hash_key == NULL) != (a.hash_key_bytes == 0))
		return -EINVAL;
	host = calloc(1, sizeof(*host));
	if (host == NULL)
		return -ENOMEM;
	host->pd = pd;
	if (a.hash != NULL)
		a.hash = strcpy(host->hash, a.hash);
	if (a.hash_key != NULL)
		a.hash_key = memcpy(host->key, a.hash_key, a.hash_key_bytes);
	a.size = sizeof(a);
	host->memory = a;
	pthread_mutex_init(&host->lock, NULL);
	weft_handle_init(&host->h, &host_kind);
	*out = host;
	return 0;
}

/** Under the lock: register the memory for this grant alone. */
static int
host_give(struct weft_log_host *host, struct weft_log_grant *g)
{
	int rc = weft_mr_reg(host->pd, &host->memory, &host->mr);

	if (rc != 0)
		return rc;
	*g = (struct weft_log_grant){.stag = weft_mr_stag(host->mr),
	                             .to = host->memory.base_to,
	                             .len_bytes = host->memory.len_bytes};
	host->info.state = WEFT_LOG_HOST_GRANTED;
	host->info.stag = g->stag;
	host->info.grants++;
	return 0;
}

/** No peer can access the memory any more: the step `fence.end` is done, and `fence.give` may
 * follow. */
static void
host_freed(void *arg)
{
	struct weft_log_host *host = arg;
	struct host_asker who = {0};
	struct weft_log_grant g;
	int rc = 0;

	pthread_mutex_lock(&host->lock);
	host->info.state = WEFT_LOG_HOST_FREE;
	if (!host->dead) {
		who = host->waiting;
		host->waiting = (struct host_asker){0};
		if (who.granted != NULL)
			rc = host_give(host, &g);
		pthread_mutex_unlock(&host->lock);
		if (who.granted != NULL)
			who.granted(who.arg, rc == 0 ? &g : NULL, rc);
		return;
	}
	pthread_mutex_unlock(&host->lock);
	if (host->freed != NULL)
		host->freed(host->freed_arg);
	pthread_mutex_destroy(&host->lock);
	explicit_bzero(host->key, sizeof(host->key));
	weft_handle_free(&host->h, sizeof(host->h));
}

/** Under the lock: remove the grant; host_end() follows without the lock. */
static struct weft_mr *
host_take(struct weft_log_host *host)
{
	struct weft_mr *mr = host->mr;

	host->mr = NULL;
	host->info.state = WEFT_LOG_HOST_ENDING;
	host->info.stag = 0;
	return mr;
}

static void
host_end(struct weft_log_host *host, struct weft_mr *mr)
{
	/*
	 * When the context has freed the region, no peer can access the memory any more. This call
	 * does not fail, because the handle of the region is known here only, and so no window is
	 * bound to it. If it failed, the memory would never be granted again: a peer might use it.
	 */
	(void)weft_mr_dereg(mr, host_freed, host);
}

int
weft_log_host_grant(struct weft_log_host *host, bool take_over, weft_log_granted_fn granted,
                    void *arg)
{
	struct host_asker who = {.granted = granted, .arg = arg}, late = {0};
	struct weft_mr *mr = NULL;
	struct weft_log_grant g;
	int rc;

	if (weft_handle_check(host, &host_kind, __func__) < 0 || granted == NULL)
		return -EINVAL;
	pthread_mutex_lock(&host->lock);
	if (host->info.state == WEFT_LOG_HOST_FREE) {
		rc = host_give(host, &g);
		pthread_mutex_unlock(&host->lock);
		if (rc == 0)
			granted(arg, &g, 0);
		return rc;
	}
	if (!take_over &&
	    (host->info.state == WEFT_LOG_HOST_GRANTED || host->waiting.granted != NULL)) {
		host->info.refused++;
		pthread_mutex_unlock(&host->lock);
		return -EBUSY;
	}
	late = host->waiting;
	host->waiting = who;
	if (host->info.state == WEFT_LOG_HOST_GRANTED) {
		mr = host_take(host);
		host->info.taken_over++;
	}
	pthread_mutex_unlock(&host->lock);
	if (mr != NULL)
		host_end(host, mr);
	if (late.granted != NULL)
		late.granted(late.arg, NULL, -ECANCELED);
	return 0;
}

int
weft_log_host_end(struct weft_log_host *host, uint32_t stag)
{
	struct weft_mr *mr = NULL;

	if (weft_handle_check(host, &host_kind, __func__) < 0)
		return -EINVAL;
	pthread_mutex_lock(&host->lock);
	if (host->info.state == WEFT_LOG_HOST_GRANTED && host->info.stag == stag)
		mr = host_take(host);
	pthread_mutex_unlock(&host->lock);
	if (mr == NULL)
		return -ENOENT;
	host_end(host, mr);
	return 0;
}

void
weft_log_host_destroy(struct weft_log_host *host, void (*freed)(void *arg), void *arg)
{
	enum weft_log_host_state was;
	struct host_asker late;
	struct weft_mr *mr;

	if (weft_handle_claim(host, &host_kind, __func__) < 0)
		return;
	pthread_mutex_lock(&host->lock);
	late = host->waiting;
	host->waiting = (struct host_asker){0};
	was = host->info.state;
	mr = was == WEFT_LOG_HOST_GRANTED ? host_take(host) : NULL;
	host->freed = freed;
	host->freed_arg = arg;
	host->dead = true;
	weft_handle_end(&host->h, &host_kind);
	pthread_mutex_unlock(&host->lock);
	/* From here on only the thread that frees the host uses it; a worker, if a grant was
	 * ending already. */
	if (late.granted != NULL)
		late.granted(late.arg, NULL, -ECANCELED);
	if (mr != NULL)
		host_end(host, mr);
	else if (was == WEFT_LOG_HOST_FREE)
		host_freed(host);
}

void
weft_log_host_query(struct weft_log_host *host, struct weft_log_host_info *info)
{
	if (info == NULL)
		return;
	memset(info, 0, sizeof(*info));
	if (weft_handle_check(host, &host_kind, __func__) < 0)
		return;
	pthread_mutex_lock(&host->lock);
	*info = host->info;
	info->waiting = host->waiting.granted != NULL;
	pthread_mutex_unlock(&host->lock);
}
