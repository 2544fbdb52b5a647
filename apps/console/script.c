/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Files of commands. A file ends at its first command that fails, and so does the file that
 * sourced it. The message names the line of each of them.
 *
 * Between the lines of a regular file no events are taken: they come in the command that waits for
 * them, so that a script prints the same each time. A pipe or a FIFO may be silent for long, and
 * there they are taken as they come.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "console.h"
#include "file_open.h"
#include "script.h"
#include "ui.h"

#define SOURCE_DEPTH_MAX 8
#define PATH_BYTES       512

/** A file that is being run, and the one that sourced it. */
struct script {
	const char *name;
	unsigned int line; /**< the one that is run */
	const struct script *from;
	unsigned int depth;
	/* The reader of its lines. */
	int fd;
	bool waits; /**< take events and completions while no line comes */
	bool eof;
	size_t have;
	char buf[LINE_BYTES];
};

static const struct script *running;

/**
 * Read the next line, with its newline, into line (LINE_BYTES + 1 octets). 1; 0 at the end;
 * -E2BIG: too long; -EINTR: Ctrl-C; -errno of reading.
 */
static int
next_line(struct cmdline *cl, struct script *s, char *line)
{
	for (;;) {
		char *nl = memchr(s->buf, '\n', s->have);
		size_t n = nl != NULL ? (size_t)(nl - s->buf) + 1 : s->have;
		ssize_t got;

		if (nl != NULL || (s->eof && n > 0)) {
			if (nl == NULL && n == LINE_BYTES)
				return -E2BIG;
			memcpy(line, s->buf, n);
			if (nl == NULL)
				line[n++] = '\n';
			line[n] = '\0';
			s->have -= nl != NULL ? n : s->have;
			memmove(s->buf, s->buf + n, s->have);
			return 1;
		}
		if (s->eof)
			return 0;
		if (s->have == sizeof(s->buf))
			return -E2BIG;
		if (s->waits && !console_until_readable(cl, s->fd, NULL, NULL))
			return interrupted() ? -EINTR : -EIO;
		got = read(s->fd, s->buf + s->have, sizeof(s->buf) - s->have);
		if (got < 0 && errno != EINTR && errno != EAGAIN)
			return -errno;
		if (got == 0)
			s->eof = true;
		else if (got > 0)
			s->have += (size_t)got;
	}
}

/** Append "FILE:LINE: " of the outermost script, then of those within. */
static void
chain(const struct script *s, char *buf, size_t size)
{
	if (s->from != NULL)
		chain(s->from, buf, size);
	snprintf(buf + strlen(buf), size - strlen(buf), "%s:%u: ", s->name, s->line);
}

/** One line about a failure, unless one was said already, of a script within. */
static void
say(const struct script *s, const char *why, const char *text)
{
	char where[SOURCE_DEPTH_MAX * 160] = "";
	const int n = (int)strcspn(text, "\n");

	if (con.said)
		return;
	con.said = true;
	chain(s, where, sizeof(where));
	ui_msg("%s%s%s%.*s", where, why, n > 0 ? ": " : "", n, text);
}

static int
run_lines(struct cmdline *cl, struct script *s)
{
	char line[LINE_BYTES + 1];
	int rc = 0;

	while (!con.quit && (rc = next_line(cl, s, line)) > 0) {
		const char *text = line + strspn(line, " \t"), *why;

		s->line++;
		if (!con.failed)
			con.error[0] = '\0';
		why = console_run(cl, text);
		if (why == NULL && !con.failed)
			continue;
		say(s, why != NULL ? why : con.error[0] != '\0' ? con.error : "failed", text);
		console_usage();
		con.failed = true;
		return -EINVAL;
	}
	if (rc >= 0)
		return 0;
	s->line++;
	say(s,
	    rc == -E2BIG   ? "the line is too long"
	    : rc == -EINTR ? "interrupted"
	                   : strerror(-rc),
	    "");
	con.failed = true;
	return -EINVAL;
}

int
script_fd(struct cmdline *cl, int fd, bool waits, const char *name)
{
	struct script *s = calloc(1, sizeof(*s));
	int rc;

	if (s == NULL) {
		console_fail(cl, "source: no memory");
		return -EINVAL;
	}
	*s = (struct script){.name = name,
	                     .from = running,
	                     .depth = running != NULL ? running->depth + 1 : 0,
	                     .fd = fd,
	                     .waits = waits};
	running = s;
	rc = run_lines(cl, s);
	running = s->from;
	free(s);
	return rc;
}

/** The path, from the folder of the script that names it. */
static int
resolve(const char *path, char *buf, size_t size)
{
	const char *slash = running != NULL ? strrchr(running->name, '/') : NULL;
	const int n = path[0] == '/' || slash == NULL
	                      ? snprintf(buf, size, "%s", path)
	                      : snprintf(buf, size, "%.*s/%s", (int)(slash - running->name),
	                                 running->name, path);

	return n >= 0 && (size_t)n < size ? 0 : -ENAMETOOLONG;
}

int
script_file(struct cmdline *cl, const char *path)
{
	char full[PATH_BYTES], err[256];
	bool waits = false;
	int fd, rc;

	if (running != NULL && running->depth + 1 == SOURCE_DEPTH_MAX) {
		console_fail(cl, "source: more than %d files within each other", SOURCE_DEPTH_MAX);
		return -EINVAL;
	}
	if (resolve(path, full, sizeof(full)) != 0) {
		console_fail(cl, "source: the path is too long");
		return -EINVAL;
	}
	fd = file_open_stream(full, &waits, err, sizeof(err));
	if (fd < 0) {
		console_wrong(cl, "source: %s: %s", full, err);
		return -EINVAL;
	}
	if (waits)
		ui_msg("%s: not a regular file; commands are run as they come", full);
	rc = script_fd(cl, fd, waits, full);
	close(fd);
	return rc;
}
