/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The store of keys: see weft_nvmf_tls.h.
 */

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "nvmf_tls_keys.h"

struct keys_entry {
	struct weft_nvmf_tls_key k;
	uint64_t serial;
};

/** The keys of a subsystem. */
struct keys_subsys {
	LIST_ENTRY(keys_subsys) link;
	char nqn[WEFT_NVMF_NQN_BYTES];
	struct keys_entry *entries;
	uint32_t n;
};

struct weft_nvmf_tls {
	unsigned int derivations;
	_Atomic uint64_t generation;
	pthread_mutex_t change; /**< taken first, by those that change what follows */
	uint64_t serial;        /**< the last one; lock `change` */
	pthread_mutex_t lock;   /**< of what follows */
	LIST_HEAD(, keys_subsys) subsystems;
};

int
weft_nvmf_tls_create(unsigned int derivations, struct weft_nvmf_tls **out)
{
	struct weft_nvmf_tls *t = calloc(1, sizeof(*t));

	if (t == NULL)
		return -ENOMEM;
	t->derivations = derivations;
	pthread_mutex_init(&t->change, NULL);
	pthread_mutex_init(&t->lock, NULL);
	LIST_INIT(&t->subsystems);
	*out = t;
	return 0;
}

static void
keys_free(struct keys_entry *e, uint32_t n)
{
	if (e != NULL)
		weft_nvmf_psk_wipe(e, n * sizeof(*e));
	free(e);
}

static void
keys_remove(struct keys_subsys *s)
{
	LIST_REMOVE(s, link);
	keys_free(s->entries, s->n);
	free(s);
}

void
weft_nvmf_tls_destroy(struct weft_nvmf_tls *t)
{
	if (t == NULL)
		return;
	while (!LIST_EMPTY(&t->subsystems))
		keys_remove(LIST_FIRST(&t->subsystems));
	pthread_mutex_destroy(&t->lock);
	pthread_mutex_destroy(&t->change);
	free(t);
}

static struct keys_subsys *
keys_find(const struct weft_nvmf_tls *t, const char *nqn)
{
	struct keys_subsys *s;

	LIST_FOREACH (s, &t->subsystems, link)
		if (strcmp(s->nqn, nqn) == 0)
			return s;
	return NULL;
}

static bool
keys_psk_same(const struct weft_nvmf_psk *a, const struct weft_nvmf_psk *b)
{
	return a->bytes == b->bytes && a->retained == b->retained &&
	       memcmp(a->key, b->key, a->bytes) == 0;
}

static bool
keys_same(const struct weft_nvmf_tls_key *a, const struct weft_nvmf_tls_key *b)
{
	return strcmp(a->hostnqn, b->hostnqn) == 0 && keys_psk_same(&a->psk, &b->psk);
}

/** Whether the key may stand behind the n others. */
static int
keys_check(const struct weft_nvmf_tls_key *keys, uint32_t n)
{
	uint32_t same = 0;

	if (!weft_nvmf_nqn_ok(keys[n].hostnqn))
		return -EINVAL;
	for (uint32_t i = 0; i < n; i++) {
		if (keys_same(&keys[i], &keys[n]))
			return -EEXIST;
		same += strcmp(keys[i].hostnqn, keys[n].hostnqn) == 0;
	}
	return same >= WEFT_NVMF_PSKS_PER_HOST ? -E2BIG : 0;
}

/** Keys that stay keep their serial. With the lock `change`. */
static void
keys_number(struct weft_nvmf_tls *t, const struct keys_subsys *was, struct keys_entry *e)
{
	for (uint32_t i = 0; was != NULL && i < was->n; i++)
		if (keys_same(&was->entries[i].k, &e->k))
			e->serial = was->entries[i].serial;
	if (e->serial == 0)
		e->serial = ++t->serial;
}

int
weft_nvmf_tls_set(struct weft_nvmf_tls *t, const char *subnqn, const struct weft_nvmf_tls_key *keys,
                  uint32_t n)
{
	struct keys_subsys *fresh = calloc(1, sizeof(*fresh)), *was;
	int rc = weft_nvmf_nqn_ok(subnqn) ? 0 : -EINVAL;

	for (uint32_t i = 0; rc == 0 && i < n; i++)
		rc = keys_check(keys, i);
	if (fresh != NULL)
		fresh->entries = calloc(n + 1, sizeof(*fresh->entries));
	if (rc == 0 && (fresh == NULL || fresh->entries == NULL))
		rc = -ENOMEM;
	if (rc != 0) {
		if (fresh != NULL)
			free(fresh->entries);
		free(fresh);
		return rc;
	}
	memcpy(fresh->nqn, subnqn, strlen(subnqn));
	fresh->n = n;
	pthread_mutex_lock(&t->change);
	was = keys_find(t, subnqn);
	for (uint32_t i = 0; i < n; i++) {
		fresh->entries[i].k = keys[i];
		keys_number(t, was, &fresh->entries[i]);
	}
	/* workers wait for this one */
	pthread_mutex_lock(&t->lock);
	if (was != NULL)
		keys_remove(was);
	if (n > 0)
		LIST_INSERT_HEAD(&t->subsystems, fresh, link);
	pthread_mutex_unlock(&t->lock);
	pthread_mutex_unlock(&t->change);
	atomic_fetch_add_explicit(&t->generation, 1, memory_order_release);
	if (n == 0) {
		free(fresh->entries);
		free(fresh);
	}
	return 0;
}

uint32_t
nvmf_tls_keys_copy(struct weft_nvmf_tls *t, const char *hostnqn, const char *subnqn,
                   unsigned int hash, struct nvmf_tls_key *out, uint32_t n_max, bool *more)
{
	const bool discovery = strcmp(subnqn, WEFT_NVMF_DISCOVERY_NQN) == 0;
	const struct keys_subsys *s;
	uint32_t n = 0, k;

	pthread_mutex_lock(&t->lock);
	LIST_FOREACH (s, &t->subsystems, link) {
		if (!discovery && strcmp(s->nqn, subnqn) != 0)
			continue;
		for (uint32_t i = 0; i < s->n; i++) {
			const struct keys_entry *e = &s->entries[i];

			if (e->k.psk.hash != hash || strcmp(e->k.hostnqn, hostnqn) != 0)
				continue;
			for (k = 0; k < n && !keys_psk_same(&out[k].psk, &e->k.psk);)
				k++;
			if (k == n_max)
				*more = true;
			else if (k == n)
				out[n++] =
				        (struct nvmf_tls_key){.psk = e->k.psk, .serial = e->serial};
		}
	}
	pthread_mutex_unlock(&t->lock);
	return n;
}

bool
nvmf_tls_keys_has(struct weft_nvmf_tls *t, uint64_t serial)
{
	const struct keys_subsys *s;
	bool has = false;

	pthread_mutex_lock(&t->lock);
	LIST_FOREACH (s, &t->subsystems, link)
		for (uint32_t i = 0; i < s->n; i++)
			has = has || s->entries[i].serial == serial;
	pthread_mutex_unlock(&t->lock);
	return has;
}

uint64_t
nvmf_tls_keys_generation(const struct weft_nvmf_tls *t)
{
	return atomic_load_explicit(&t->generation, memory_order_acquire);
}

bool
nvmf_tls_keys_admit(const struct weft_nvmf_tls *t, enum weft_nvmf_psk_derivation d)
{
	return (t->derivations & 1U << d) != 0;
}
