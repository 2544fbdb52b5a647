/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Unflushed writes of hosts: see nvmf_loss.h.
 */

#include <stdlib.h>

#include "nvmf_loss.h"

/** Of one namespace. */
struct nvmf_loss {
	uint64_t changes, durable;
	uint32_t base; /**< lost flushes of the device when the first of them was done, or when the
	                    host was told last */
};

struct nvmf_losses {
	TAILQ_ENTRY(nvmf_losses) link; /**< target's lock, as for `ctrls` */
	uint32_t ctrls;
	char hostnqn[WEFT_NVMF_NQN_BYTES];
	uint8_t hostid[16];
	pthread_mutex_t lock; /**< of what follows; nothing is called with it held */
	uint32_t nsids;
	struct nvmf_loss at[]; /**< by NSID - 1 */
};

struct nvmf_losses *
nvmf_loss_get(struct weft_nvmf_subsys *s, const char *hostnqn, const uint8_t hostid[16])
{
	struct nvmf_losses *l;

	TAILQ_FOREACH (l, &s->losses, link)
		if (strcmp(l->hostnqn, hostnqn) == 0 &&
		    memcmp(l->hostid, hostid, sizeof(l->hostid)) == 0)
			break;
	if (l == NULL) {
		l = calloc(1, sizeof(*l) + s->max_nsid * sizeof(l->at[0]));
		if (l == NULL)
			return NULL;
		pthread_mutex_init(&l->lock, NULL);
		strcpy(l->hostnqn, hostnqn);
		memcpy(l->hostid, hostid, sizeof(l->hostid));
		l->nsids = s->max_nsid;
		TAILQ_INSERT_TAIL(&s->losses, l, link);
	} else if (l->ctrls == 0) {
		s->losses_kept--;
	}
	l->ctrls++;
	return l;
}

static void
loss_free(struct weft_nvmf_subsys *s, struct nvmf_losses *l)
{
	TAILQ_REMOVE(&s->losses, l, link);
	pthread_mutex_destroy(&l->lock);
	free(l);
}

static bool
loss_is_dirty(struct nvmf_losses *l)
{
	bool dirty = false;

	pthread_mutex_lock(&l->lock);
	for (uint32_t i = 0; i < l->nsids; i++)
		dirty = dirty || l->at[i].durable < l->at[i].changes;
	pthread_mutex_unlock(&l->lock);
	return dirty;
}

/** Forget the host that has gone first. */
static void
loss_forget(struct weft_nvmf_subsys *s)
{
	struct nvmf_losses *l;

	TAILQ_FOREACH (l, &s->losses, link)
		if (l->ctrls == 0)
			break;
	loss_free(s, l);
	s->losses_kept--;
	s->target->stats.losses_forgotten++;
}

void
nvmf_loss_put(struct weft_nvmf_subsys *s, struct nvmf_losses *l)
{
	if (l == NULL || --l->ctrls > 0)
		return;
	if (!loss_is_dirty(l)) {
		loss_free(s, l);
		return;
	}
	if (s->losses_kept == NVMF_LOSS_KEPT)
		loss_forget(s);
	s->losses_kept++;
	TAILQ_REMOVE(&s->losses, l, link);
	TAILQ_INSERT_TAIL(&s->losses, l, link);
}

void
nvmf_loss_end(struct weft_nvmf_subsys *s)
{
	struct nvmf_losses *l;

	while ((l = TAILQ_FIRST(&s->losses)) != NULL)
		loss_free(s, l);
}

void
nvmf_loss_changed(struct nvmf_losses *l, uint32_t nsid, uint32_t lost_flushes)
{
	struct nvmf_loss *at = &l->at[nsid - 1];

	pthread_mutex_lock(&l->lock);
	if (at->durable == at->changes++)
		at->base = lost_flushes;
	pthread_mutex_unlock(&l->lock);
}

uint64_t
nvmf_loss_mark(struct nvmf_losses *l, uint32_t nsid, bool *dirty)
{
	const struct nvmf_loss *at = &l->at[nsid - 1];
	uint64_t mark;

	pthread_mutex_lock(&l->lock);
	mark = at->changes;
	*dirty = at->durable < mark;
	pthread_mutex_unlock(&l->lock);
	return mark;
}

bool
nvmf_loss_flushed(struct nvmf_losses *l, uint32_t nsid, uint64_t mark, uint32_t lost_flushes,
                  bool tell)
{
	struct nvmf_loss *at = &l->at[nsid - 1];
	bool lost;

	pthread_mutex_lock(&l->lock);
	lost = at->durable < at->changes && at->base != lost_flushes;
	if (!lost)
		at->durable = NVMF_MAX(at->durable, mark);
	else if (tell)
		at->base = lost_flushes; /* what is lost from here on is told again */
	pthread_mutex_unlock(&l->lock);
	return lost;
}

void
nvmf_loss_told(struct nvmf_losses *l, uint32_t nsid, uint32_t lost_flushes)
{
	pthread_mutex_lock(&l->lock);
	l->at[nsid - 1].base = lost_flushes;
	pthread_mutex_unlock(&l->lock);
}
