/* SPDX-License-Identifier: BSD-3-Clause */
/** @file What a command prints, kept in memory: a cmdline of its own over a memfd. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "console.h"
#include "script.h"

int
output_begin(struct output *o)
{
	o->text = NULL;
	o->fd = memfd_create("weft-console", MFD_CLOEXEC);
	if (o->fd < 0)
		return -errno;
	o->cl = cmdline_new(con.commands, "", -1, o->fd);
	if (o->cl != NULL)
		return 0;
	close(o->fd);
	return -ENOMEM;
}

const char *
output_text(struct output *o)
{
	const off_t end = lseek(o->fd, 0, SEEK_END);
	off_t have = 0;

	free(o->text);
	o->text = malloc((size_t)end + 1);
	if (o->text == NULL)
		return "";
	while (have < end) {
		ssize_t n = pread(o->fd, o->text + have, (size_t)(end - have), have);

		if (n <= 0)
			break;
		have += n;
	}
	o->text[have] = '\0';
	return o->text;
}

void
output_clear(struct output *o)
{
	if (ftruncate(o->fd, 0) == 0)
		lseek(o->fd, 0, SEEK_SET);
}

void
output_end(struct output *o)
{
	free(o->text);
	cmdline_free(o->cl); /* closes the descriptor, too */
}

const char *
output_flat(const char *text, char *buf, size_t size)
{
	size_t n = 0;

	for (; *text != '\0' && n + 4 < size; text++)
		if (*text != '\n')
			buf[n++] = *text;
		else if (text[1] != '\0')
			n += (size_t)snprintf(buf + n, size - n, " | ");
	buf[n] = '\0';
	if (*text != '\0' && n >= 3)
		memcpy(buf + n - 3, "...", 3);
	return buf;
}
