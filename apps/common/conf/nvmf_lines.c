/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Reads files with keys of NVMe hosts (nvmf_lines.h). */

#include "nvmf_lines.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conf.h"
#include "key_file.h"

#define BLANKS " \t\r"

int
nvmf_lines_fail(const struct nvmf_lines *l, int rc, const char *what, const char *why)
{
	if (l->line == 0)
		snprintf(l->err, l->err_size, "%s: %s%s", l->path, what, why);
	else
		snprintf(l->err, l->err_size, "%s:%u: %s%s", l->path, l->line, what, why);
	return rc;
}

char *
nvmf_lines_word(char **at)
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
lines_parse(struct nvmf_lines *l, char *text, size_t bytes)
{
	int rc = 0;

	if (memchr(text, '\0', bytes) != NULL)
		return nvmf_lines_fail(l, -EINVAL, "it is no text", "");
	for (char *next; rc == 0 && *text != '\0'; text = next) {
		next = text + strcspn(text, "\n");
		if (*next != '\0')
			*next++ = '\0';
		l->line++;
		text += strspn(text, BLANKS);
		if (*text != '\0' && *text != '#')
			rc = l->take(l, text);
	}
	l->line = 0;
	return rc;
}

/** Read all of it into text, which has room for one octet more than it may have. */
static int
lines_load(const struct nvmf_lines *l, char *text, size_t *bytes)
{
	char why[CONF_ERR_MAX];
	int fd = key_file_open(l->path, why, sizeof(why));
	ssize_t n = 0;

	*bytes = 0;
	if (fd < 0)
		return nvmf_lines_fail(l, fd, why, "");
	while (*bytes <= NVMF_LINES_BYTES &&
	       (n = read(fd, text + *bytes, NVMF_LINES_BYTES + 1 - *bytes)) > 0)
		*bytes += (size_t)n;
	if (n < 0)
		n = -errno;
	close(fd);
	if (n < 0)
		return nvmf_lines_fail(l, (int)n, "cannot be read: ", strerror((int)-n));
	if (*bytes > NVMF_LINES_BYTES)
		return nvmf_lines_fail(l, -E2BIG, "longer than 1 MiB", "");
	text[*bytes] = '\0';
	return 0;
}

int
nvmf_lines_read(struct nvmf_lines *l)
{
	char *text = calloc(1, NVMF_LINES_BYTES + 1);
	size_t bytes = 0;
	int rc;

	l->line = 0;
	if (text == NULL)
		return nvmf_lines_fail(l, -ENOMEM, "out of memory", "");
	rc = lines_load(l, text, &bytes);
	if (rc == 0)
		rc = lines_parse(l, text, bytes);
	explicit_bzero(text, NVMF_LINES_BYTES + 1);
	free(text);
	return rc;
}
