/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Reads files with secrets of NVMe hosts (nvmf_secrets.h). */

#include "nvmf_secrets.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nvmf_lines.h"
#include "weft_nvmf_wire.h"

/** What was read. */
struct secrets {
	struct weft_nvmf_auth *list;
	uint32_t n;
};

static int
secrets_line(struct nvmf_lines *l, char *text)
{
	struct secrets *s = l->arg;
	const char *nqn = nvmf_lines_word(&text), *host = nvmf_lines_word(&text);
	const char *ctrl = nvmf_lines_word(&text), *why;
	struct weft_nvmf_auth *a = &s->list[s->n];

	if (!weft_nvmf_nqn_ok(nqn))
		return nvmf_lines_fail(l, -EINVAL, "it does not begin with the NQN of a host", "");
	if (host == NULL)
		return nvmf_lines_fail(l, -EINVAL,
		                       "no secret; write HOSTNQN DHHC-1:hh:BASE64:", "");
	if (nvmf_lines_word(&text) != NULL)
		return nvmf_lines_fail(l, -EINVAL, "more than an NQN and two secrets", "");
	if (s->n == NVMF_SECRETS_HOSTS)
		return nvmf_lines_fail(l, -E2BIG, "too many hosts; 1024 at most", "");
	for (uint32_t i = 0; i < s->n; i++)
		if (strcmp(s->list[i].hostnqn, nqn) == 0)
			return nvmf_lines_fail(l, -EINVAL, "this host has a line before", "");
	snprintf(a->hostnqn, sizeof(a->hostnqn), "%s", nqn);
	s->n++;
	if (weft_nvmf_secret_decode(host, &a->host, &why) != 0)
		return nvmf_lines_fail(l, -EINVAL, "the host's secret: ", why);
	if (ctrl != NULL && weft_nvmf_secret_decode(ctrl, &a->ctrl, &why) != 0)
		return nvmf_lines_fail(l, -EINVAL, "the controllers' secret: ", why);
	if (ctrl != NULL && a->host.bytes == a->ctrl.bytes &&
	    memcmp(a->host.key, a->ctrl.key, a->host.bytes) == 0)
		return nvmf_lines_fail(l, -EINVAL, "both secrets are the same; make another one",
		                       "");
	return 0;
}

int
nvmf_secrets_read(const char *path, struct weft_nvmf_auth **out, uint32_t *n, char *err,
                  size_t err_size)
{
	struct secrets s = {0};
	struct nvmf_lines l = {
	        .path = path, .take = secrets_line, .arg = &s, .err = err, .err_size = err_size};
	int rc;

	*out = NULL;
	*n = 0;
	/* one more, which secrets_line() finds to be too many */
	s.list = calloc(NVMF_SECRETS_HOSTS + 1, sizeof(s.list[0]));
	rc = s.list == NULL ? nvmf_lines_fail(&l, -ENOMEM, "out of memory", "")
	                    : nvmf_lines_read(&l);
	if (rc == 0 && s.n == 0)
		rc = nvmf_lines_fail(&l, -EINVAL, "it has no host", "");
	if (rc != 0) {
		nvmf_secrets_free(s.list, s.n);
		return rc;
	}
	*out = s.list;
	*n = s.n;
	return 0;
}

void
nvmf_secrets_free(struct weft_nvmf_auth *list, uint32_t n)
{
	if (list != NULL)
		explicit_bzero(list, n * sizeof(list[0]));
	free(list);
}

/** Read a file, and keep nothing. Does nothing without a path. */
static int
secrets_check(const char *path, char *err, size_t err_size)
{
	struct weft_nvmf_auth *list;
	uint32_t n;
	int rc = path[0] == '\0' ? 0 : nvmf_secrets_read(path, &list, &n, err, err_size);

	if (rc == 0 && path[0] != '\0')
		nvmf_secrets_free(list, n);
	return rc;
}

int
nvmf_secrets_check(const struct conf *c, char *err, size_t err_size)
{
	int rc = secrets_check(c->nvmf.discovery_secrets, err, err_size);

	for (uint32_t i = 0; rc == 0 && i < c->nsubsys; i++)
		rc = secrets_check(c->subsys[i].secrets, err, err_size);
	return rc;
}
