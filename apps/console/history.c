/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The history of the prompt, kept between sessions in a file of the user's, mode 0600. Lines
 * that begin with a blank, or repeat the last one, are not kept. WEFT_CONSOLE_HISTORY names another
 * file; empty: none.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "script.h"
#include "ui.h"

#define HISTORY_BYTES     32768 /* a longer file is cut when it is opened ... */
#define HISTORY_CUT_BYTES 16384 /* ... to its last lines, of so many octets */
#define HISTORY_PATH      512

static int history_fd = -1;
static char last[LINE_BYTES + 1]; /* the line kept last, with its newline */

/** The file's path, with its folders made. False: there is to be no history. */
static bool
history_path(char *path, size_t size)
{
	const char *named = getenv("WEFT_CONSOLE_HISTORY"), *state = getenv("XDG_STATE_HOME");
	const char *home = getenv("HOME");
	int n;

	if (named != NULL)
		return named[0] != '\0' && snprintf(path, size, "%s", named) < (int)size;
	if (state != NULL && state[0] == '/')
		n = snprintf(path, size, "%s/weft/console_history", state);
	else if (home != NULL && home[0] == '/')
		n = snprintf(path, size, "%s/.local/state/weft/console_history", home);
	else
		return false;
	if (n >= (int)size)
		return false;
	for (char *p = path + 1; (p = strchr(p, '/')) != NULL; p++) {
		*p = '\0';
		mkdir(path, 0700);
		*p = '/';
	}
	return true;
}

/** Read what the file has at its end, at most HISTORY_BYTES, from a line's begin on. */
static char *
history_read(off_t bytes, off_t most, size_t *have)
{
	const off_t from = bytes > most ? bytes - most : 0;
	char *buf = malloc((size_t)most + 1), *nl;
	ssize_t n = buf != NULL ? pread(history_fd, buf, (size_t)most, from) : -1;

	if (n < 0) {
		free(buf);
		return NULL;
	}
	buf[n] = '\0';
	nl = from > 0 ? strchr(buf, '\n') : NULL;
	if (nl != NULL) {
		n -= nl + 1 - buf;
		memmove(buf, nl + 1, (size_t)n + 1);
	}
	*have = (size_t)n;
	return buf;
}

/** Give each line to add(), and shorten a file that is too long. */
static void
history_load(void (*add)(void *arg, const char *line), void *arg)
{
	struct stat st;
	char *buf, *rest, *line;
	size_t have;

	if (fstat(history_fd, &st) != 0 || !S_ISREG(st.st_mode))
		return;
	fchmod(history_fd, 0600);
	buf = history_read(st.st_size, HISTORY_CUT_BYTES, &have);
	if (buf == NULL)
		return;
	if (st.st_size > HISTORY_BYTES && ftruncate(history_fd, 0) == 0 &&
	    write(history_fd, buf, have) < 0)
		ui_msg("the history: %s", strerror(errno));
	rest = buf;
	while ((line = strsep(&rest, "\n")) != NULL)
		if (line[0] != '\0') {
			add(arg, line);
			snprintf(last, sizeof(last), "%.*s\n", LINE_BYTES - 1, line);
		}
	free(buf);
}

void
history_open(void (*add)(void *arg, const char *line), void *arg)
{
	char path[HISTORY_PATH];

	if (!history_path(path, sizeof(path)))
		return;
	history_fd =
	        open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
	if (history_fd < 0) {
		ui_msg("no history is kept: %s: %s", path, strerror(errno));
		return;
	}
	/* Another console may be shortening it. */
	flock(history_fd, LOCK_EX);
	history_load(add, arg);
	flock(history_fd, LOCK_UN);
}

void
history_add(const char *line)
{
	char text[LINE_BYTES + 1];
	int n;

	if (history_fd < 0 || line[0] == ' ' || line[0] == '\t')
		return;
	n = snprintf(text, sizeof(text), "%.*s\n", (int)strcspn(line, "\n"), line);
	if (n <= 1 || n >= (int)sizeof(text) || strcmp(text, last) == 0)
		return;
	snprintf(last, sizeof(last), "%s", text);
	flock(history_fd, LOCK_EX);
	if (write(history_fd, text, (size_t)n) != n) {
		ui_msg("the history is no longer kept: %s", strerror(errno));
		history_close();
		return;
	}
	flock(history_fd, LOCK_UN);
}

void
history_close(void)
{
	if (history_fd >= 0)
		close(history_fd);
	history_fd = -1;
}
