/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Each client's share of the replies that are kept. */

#include "rpcrdma_drc_share.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SHARE_CHAINS_MAX 256

int
drc_shares_init(struct drc_shares *s, uint32_t max)
{
	uint32_t chains = 16;

	while (chains < max && chains < SHARE_CHAINS_MAX)
		chains *= 2;
	*s = (struct drc_shares){.max = max, .mask = chains - 1};
	for (unsigned int p = 0; p < 2; p++)
		s->part[p].by_count = calloc(max + 2, sizeof(s->part[p].by_count[0]));
	s->chain = calloc(chains, sizeof(s->chain[0]));
	if (s->part[0].by_count == NULL || s->part[1].by_count == NULL || s->chain == NULL) {
		drc_shares_fini(s);
		return -ENOMEM;
	}
	for (unsigned int p = 0; p < 2; p++)
		for (uint32_t i = 0; i < max + 2; i++)
			TAILQ_INIT(&s->part[p].by_count[i]);
	for (uint32_t i = 0; i < chains; i++)
		LIST_INIT(&s->chain[i]);
	return 0;
}

void
drc_shares_fini(struct drc_shares *s)
{
	free(s->part[0].by_count);
	free(s->part[1].by_count);
	free(s->chain);
	*s = (struct drc_shares){0};
}

static struct drc_share *
share_of(struct drc_shares *s, bool known, const uint8_t *name, uint32_t name_bytes, uint64_t hash)
{
	struct drc_share_chain *chain = &s->chain[hash & s->mask];
	struct drc_share *sh;

	LIST_FOREACH (sh, chain, chain)
		if (sh->known == known && sh->name_bytes == name_bytes &&
		    memcmp(sh->name, name, name_bytes) == 0)
			return sh;
	sh = calloc(1, sizeof(*sh));
	if (sh == NULL)
		return NULL;
	memcpy(sh->name, name, name_bytes);
	sh->name_bytes = name_bytes;
	sh->known = known;
	TAILQ_INIT(&sh->kept);
	LIST_INSERT_HEAD(chain, sh, chain);
	TAILQ_INSERT_TAIL(&s->part[known].by_count[0], sh, rank);
	return sh;
}

static void
share_count(struct drc_shares *s, struct drc_share *sh, uint32_t n)
{
	struct drc_share_part *p = &s->part[sh->known];

	TAILQ_REMOVE(&p->by_count[sh->n], sh, rank);
	p->total += n - sh->n;
	sh->n = n;
	TAILQ_INSERT_TAIL(&p->by_count[n], sh, rank);
	if (n > p->most)
		p->most = n;
	while (p->most > 0 && TAILQ_EMPTY(&p->by_count[p->most]))
		p->most--; /* once at most, because counts change by one */
}

int
drc_shares_keep(struct drc_shares *s, bool known, const uint8_t *name, uint32_t name_bytes,
                uint64_t hash, struct drc_kept *k)
{
	struct drc_share *sh = share_of(s, known, name, name_bytes, hash);

	if (sh == NULL)
		return -ENOMEM;
	k->share = sh;
	TAILQ_INSERT_TAIL(&sh->kept, k, age);
	s->total++;
	share_count(s, sh, sh->n + 1);
	return 0;
}

struct drc_kept *
drc_shares_victim(struct drc_shares *s)
{
	const struct drc_share_part *p = &s->part[s->part[0].total <= s->max / 4];

	/* With more than max entries, the part chosen is not empty. */
	if (s->total <= s->max)
		return NULL;
	return TAILQ_FIRST(&TAILQ_FIRST(&p->by_count[p->most])->kept);
}

void
drc_shares_drop(struct drc_shares *s, struct drc_kept *k)
{
	struct drc_share *sh = k->share;

	TAILQ_REMOVE(&sh->kept, k, age);
	k->share = NULL;
	s->total--;
	share_count(s, sh, sh->n - 1);
	if (sh->n > 0)
		return;
	TAILQ_REMOVE(&s->part[sh->known].by_count[0], sh, rank);
	LIST_REMOVE(sh, chain);
	free(sh);
}
