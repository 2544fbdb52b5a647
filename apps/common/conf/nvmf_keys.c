/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Reads files with keys of TLS of NVMe hosts (nvmf_keys.h). */

#include "nvmf_keys.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nvmf_lines.h"

/** What was read. */
struct keys {
	struct weft_nvmf_tls_key *list;
	uint32_t n;
};

/** Whether the key may stand behind the others. */
static int
keys_fit(const struct nvmf_lines *l, const struct keys *k)
{
	const struct weft_nvmf_tls_key *last = &k->list[k->n - 1];
	uint32_t same = 0;

	for (uint32_t i = 0; i + 1 < k->n; i++) {
		if (strcmp(k->list[i].hostnqn, last->hostnqn) != 0)
			continue;
		same++;
		if (k->list[i].psk.bytes == last->psk.bytes &&
		    memcmp(k->list[i].psk.key, last->psk.key, last->psk.bytes) == 0)
			return nvmf_lines_fail(l, -EINVAL, "this host has this key before", "");
	}
	return same < WEFT_NVMF_PSKS_PER_HOST
	               ? 0
	               : nvmf_lines_fail(l, -E2BIG, "too many keys of this host; 4 at most", "");
}

static int
keys_line(struct nvmf_lines *l, char *text)
{
	struct keys *k = l->arg;
	const char *nqn = nvmf_lines_word(&text), *key = nvmf_lines_word(&text), *why;
	struct weft_nvmf_tls_key *e = &k->list[k->n];

	if (!weft_nvmf_nqn_ok(nqn))
		return nvmf_lines_fail(l, -EINVAL, "it does not begin with the NQN of a host", "");
	if (key == NULL)
		return nvmf_lines_fail(l, -EINVAL,
		                       "no key; write HOSTNQN NVMeTLSkey-1:hh:BASE64:", "");
	if (nvmf_lines_word(&text) != NULL)
		return nvmf_lines_fail(l, -EINVAL, "more than an NQN and a key", "");
	if (k->n == NVMF_KEYS_MAX)
		return nvmf_lines_fail(l, -E2BIG, "too many keys; 1024 at most", "");
	snprintf(e->hostnqn, sizeof(e->hostnqn), "%s", nqn);
	k->n++;
	if (weft_nvmf_psk_parse(key, &e->psk, &why) != 0)
		return nvmf_lines_fail(l, -EINVAL, why, "");
	return keys_fit(l, k);
}

int
nvmf_keys_read(const char *path, struct weft_nvmf_tls_key **out, uint32_t *n, char *err,
               size_t err_size)
{
	struct keys k = {0};
	struct nvmf_lines l = {
	        .path = path, .take = keys_line, .arg = &k, .err = err, .err_size = err_size};
	int rc;

	*out = NULL;
	*n = 0;
	/* one more, which keys_line() finds to be too many */
	k.list = calloc(NVMF_KEYS_MAX + 1, sizeof(k.list[0]));
	rc = k.list == NULL ? nvmf_lines_fail(&l, -ENOMEM, "out of memory", "")
	                    : nvmf_lines_read(&l);
	if (rc == 0 && k.n == 0)
		rc = nvmf_lines_fail(&l, -EINVAL, "it has no key", "");
	if (rc != 0) {
		nvmf_keys_free(k.list, k.n);
		return rc;
	}
	*out = k.list;
	*n = k.n;
	return 0;
}

void
nvmf_keys_free(struct weft_nvmf_tls_key *list, uint32_t n)
{
	if (list != NULL)
		explicit_bzero(list, n * sizeof(list[0]));
	free(list);
}

int
nvmf_keys_check(const struct conf *c, char *err, size_t err_size)
{
	struct weft_nvmf_tls_key *list;
	uint32_t n;
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < c->nsubsys; i++) {
		if (c->subsys[i].tls_keys[0] == '\0')
			continue;
		rc = nvmf_keys_read(c->subsys[i].tls_keys, &list, &n, err, err_size);
		if (rc == 0)
			nvmf_keys_free(list, n);
	}
	return rc;
}
