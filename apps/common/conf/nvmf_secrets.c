/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Reads files with secrets of NVMe hosts (nvmf_secrets.h). */

#include "nvmf_secrets.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "key_file.h"
#include "weft_nvmf_wire.h"

#define BLANKS " \t\r"

/** What is read, and where it is wrong. */
struct secrets {
	const char *path;
	unsigned int line; /**< 0: the file as a whole */
	struct weft_nvmf_auth *list;
	uint32_t n;
	char *err;
	size_t err_size;
};

static int
secrets_fail(const struct secrets *s, int rc, const char *what, const char *why)
{
	if (s->line == 0)
		snprintf(s->err, s->err_size, "%s: %s%s", s->path, what, why);
	else
		snprintf(s->err, s->err_size, "%s:%u: %s%s", s->path, s->line, what, why);
	return rc;
}

/** The next word of a line; NULL: there is none. */
static char *
secrets_word(char **at)
{
	char *word = *at + strspn(*at, BLANKS);

	if (*word == '\0')
		return NULL;
	*at = word + strcspn(word, BLANKS);
	if (**at != '\0')
		*(*at)++ = '\0';
	return word;
}

static int
secrets_line(struct secrets *s, char *text)
{
	const char *nqn = secrets_word(&text), *host, *ctrl, *why;
	struct weft_nvmf_auth *a = &s->list[s->n];

	if (nqn == NULL || *nqn == '#')
		return 0;
	host = secrets_word(&text);
	ctrl = secrets_word(&text);
	if (!weft_nvmf_nqn_ok(nqn))
		return secrets_fail(s, -EINVAL, "it does not begin with the NQN of a host", "");
	if (host == NULL)
		return secrets_fail(s, -EINVAL, "no secret; write HOSTNQN DHHC-1:hh:BASE64:", "");
	if (secrets_word(&text) != NULL)
		return secrets_fail(s, -EINVAL, "more than an NQN and two secrets", "");
	if (s->n == NVMF_SECRETS_HOSTS)
		return secrets_fail(s, -E2BIG, "too many hosts; 1024 at most", "");
	for (uint32_t i = 0; i < s->n; i++)
		if (strcmp(s->list[i].hostnqn, nqn) == 0)
			return secrets_fail(s, -EINVAL, "this host has a line before", "");
	snprintf(a->hostnqn, sizeof(a->hostnqn), "%s", nqn);
	s->n++;
	if (weft_nvmf_secret_decode(host, &a->host, &why) != 0)
		return secrets_fail(s, -EINVAL, "the host's secret: ", why);
	if (ctrl != NULL && weft_nvmf_secret_decode(ctrl, &a->ctrl, &why) != 0)
		return secrets_fail(s, -EINVAL, "the controllers' secret: ", why);
	if (ctrl != NULL && a->host.bytes == a->ctrl.bytes &&
	    memcmp(a->host.key, a->ctrl.key, a->host.bytes) == 0)
		return secrets_fail(s, -EINVAL, "both secrets are the same; make another one", "");
	return 0;
}

static int
secrets_parse(struct secrets *s, char *text, size_t bytes)
{
	int rc = 0;

	if (memchr(text, '\0', bytes) != NULL)
		return secrets_fail(s, -EINVAL, "it is no text", "");
	for (char *next; rc == 0 && *text != '\0'; text = next) {
		next = text + strcspn(text, "\n");
		if (*next != '\0')
			*next++ = '\0';
		s->line++;
		rc = secrets_line(s, text);
	}
	s->line = 0;
	if (rc == 0 && s->n == 0)
		return secrets_fail(s, -EINVAL, "it has no host", "");
	return rc;
}

/** Read all of it into text, which has room for one octet more than it may have. */
static int
secrets_load(const struct secrets *s, char *text, size_t *bytes)
{
	char why[CONF_ERR_MAX];
	int fd = key_file_open(s->path, why, sizeof(why));
	ssize_t n = 0;

	*bytes = 0;
	if (fd < 0)
		return secrets_fail(s, fd, why, "");
	while (*bytes <= NVMF_SECRETS_BYTES &&
	       (n = read(fd, text + *bytes, NVMF_SECRETS_BYTES + 1 - *bytes)) > 0)
		*bytes += (size_t)n;
	if (n < 0)
		n = -errno;
	close(fd);
	if (n < 0)
		return secrets_fail(s, (int)n, "cannot be read: ", strerror((int)-n));
	if (*bytes > NVMF_SECRETS_BYTES)
		return secrets_fail(s, -E2BIG, "longer than 1 MiB", "");
	text[*bytes] = '\0';
	return 0;
}

int
nvmf_secrets_read(const char *path, struct weft_nvmf_auth **out, uint32_t *n, char *err,
                  size_t err_size)
{
	struct secrets s = {.path = path, .err = err, .err_size = err_size};
	char *text = calloc(1, NVMF_SECRETS_BYTES + 1);
	size_t bytes = 0;
	int rc;

	*out = NULL;
	*n = 0;
	/* one more, which secrets_line() finds to be too many */
	s.list = calloc(NVMF_SECRETS_HOSTS + 1, sizeof(s.list[0]));
	rc = text == NULL || s.list == NULL ? secrets_fail(&s, -ENOMEM, "out of memory", "")
	                                    : secrets_load(&s, text, &bytes);
	if (rc == 0)
		rc = secrets_parse(&s, text, bytes);
	if (text != NULL)
		explicit_bzero(text, NVMF_SECRETS_BYTES + 1);
	free(text);
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

int
nvmf_secrets_check(const struct conf *c, char *err, size_t err_size)
{
	struct weft_nvmf_auth *list;
	uint32_t n;
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < c->nsubsys; i++) {
		if (c->subsys[i].secrets[0] == '\0')
			continue;
		rc = nvmf_secrets_read(c->subsys[i].secrets, &list, &n, err, err_size);
		if (rc == 0)
			nvmf_secrets_free(list, n);
	}
	return rc;
}
