/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Prints a configuration without secrets. */

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conf_clean.h"
#include "file_open.h"
#include <weft/device.h>

#define CLEAN_MAX (1u << 20)

/** The value of a line: what can be a device string, among others. */
static void
clean_value(FILE *out, const char *v, size_t len)
{
	/* Each secret has a name and '=', and becomes at most eight octets longer. */
	const size_t size = len * 5 + 1;
	char *copy = strndup(v, len), *clean = malloc(size);

	if (copy == NULL || clean == NULL)
		fputs("(removed)", out);
	else
		fputs(weft_device_clean(copy, clean, size), out);
	free(copy);
	free(clean);
}

static void
clean_line(FILE *out, const char *line, size_t len)
{
	size_t key = 0, value, end = len;

	while (len > 0 && isspace((unsigned char)*line)) {
		line++;
		len--;
	}
	end = len;
	if (len == 0 || *line == ';' || *line == '#')
		return;
	if (*line == '[') {
		const char *close = memchr(line, ']', len);

		if (close != NULL)
			fprintf(out, "\n%.*s\n", (int)(close - line + 1), line);
		return;
	}
	while (key < len && line[key] != '=' && line[key] != ':')
		key++;
	if (key == len)
		return;
	value = key + 1;
	while (value < len && isspace((unsigned char)line[value]))
		value++;
	/* A comment behind the value. */
	for (size_t i = value; i < end; i++)
		if (line[i] == ';' && isspace((unsigned char)line[i - 1]))
			end = i;
	while (end > value && isspace((unsigned char)line[end - 1]))
		end--;
	while (key > 0 && isspace((unsigned char)line[key - 1]))
		key--;
	fprintf(out, "%.*s = ", (int)key, line);
	if (weft_device_is_secret(line, key))
		fputs("(removed)", out);
	else
		clean_value(out, line + value, end - value);
	fputc('\n', out);
}

void
conf_print_clean(FILE *out, const char *text)
{
	while (*text != '\0') {
		const size_t len = strcspn(text, "\n");

		clean_line(out, text, len);
		text += len + (text[len] == '\n');
	}
}

int
conf_print_clean_file(FILE *out, const char *path)
{
	char why[256], *text;
	size_t len = 0;
	ssize_t n = 0;
	int fd = file_open(path, why, sizeof(why)), rc;

	if (fd < 0)
		return fd;
	text = malloc(CLEAN_MAX + 1);
	while (text != NULL && len < CLEAN_MAX && (n = read(fd, text + len, CLEAN_MAX - len)) > 0)
		len += (size_t)n;
	rc = text == NULL ? -ENOMEM : n < 0 ? -errno : 0;
	close(fd);
	if (rc == 0) {
		text[len] = '\0';
		conf_print_clean(out, text);
	}
	free(text);
	return rc;
}
