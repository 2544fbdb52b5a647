/* SPDX-License-Identifier: BSD-3-Clause */
/** @file A client of a DPDK telemetry socket (version 2): questions, and answers as JSON. */

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "tel_client.h"

#define ASK_MAX      256
#define GREETING_MAX 1024
/** A question waits for a worker for a second at most. */
#define ANSWER_WAIT_S    5
#define ANSWER_MAX_BYTES (1u << 24)

/** Read the greeting: {"version": ..., "pid": ..., "max_output_len": ...}. 0 or -errno. */
static int
greeting(struct tel_client *t)
{
	char text[GREETING_MAX];
	ssize_t n = recv(t->fd, text, sizeof(text), 0);
	json_int_t most;
	json_t *j;

	if (n <= 0)
		return n == 0 ? -EPROTO : errno == EAGAIN ? -ETIMEDOUT : -errno;
	j = json_loadb(text, (size_t)n, 0, NULL);
	t->pid = (pid_t)json_integer_value(json_object_get(j, "pid"));
	most = json_integer_value(json_object_get(j, "max_output_len"));
	json_decref(j);
	if (t->pid <= 0 || most <= 0 || most > ANSWER_MAX_BYTES)
		return -EPROTO;
	/* The answer stands in braces, behind the name of the command. */
	t->buf_bytes = (size_t)most + ASK_MAX + 16;
	t->buf = malloc(t->buf_bytes);
	return t->buf != NULL ? 0 : -ENOMEM;
}

int
tel_client_open(struct tel_client *t, const char *path)
{
	const struct timeval wait = {.tv_sec = ANSWER_WAIT_S};
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	int rc;

	*t = (struct tel_client){.fd = -1};
	if (strlen(path) >= sizeof(sun.sun_path))
		return -ENAMETOOLONG;
	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s", path);
	snprintf(t->path, sizeof(t->path), "%s", path);
	t->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (t->fd < 0)
		return -errno;
	setsockopt(t->fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
	rc = connect(t->fd, (struct sockaddr *)&sun, sizeof(sun)) == 0 ? greeting(t) : -errno;
	if (rc != 0)
		tel_client_close(t);
	return rc;
}

void
tel_client_close(struct tel_client *t)
{
	if (t->fd >= 0)
		close(t->fd);
	t->fd = -1;
	free(t->buf);
	t->buf = NULL;
}

/** Send the question and receive the answer into t->buf. Its length, or -1: err says why. */
static ssize_t
exchange(struct tel_client *t, const char *ask, char err[TEL_ERR_MAX])
{
	ssize_t n = -1;

	if (t->fd < 0) {
		snprintf(err, TEL_ERR_MAX, "there is no telemetry to ask");
		return -1;
	}
	if (send(t->fd, ask, strlen(ask), MSG_NOSIGNAL) >= 0)
		n = recv(t->fd, t->buf, t->buf_bytes, 0);
	if (n > 0)
		return n;
	if (n < 0 && errno == EAGAIN) {
		/* The answer may come later, and must not be taken for that of the next question.
		 */
		snprintf(err, TEL_ERR_MAX, "process %d does not answer", (int)t->pid);
		shutdown(t->fd, SHUT_RDWR);
		return -1;
	}
	t->lost = true;
	snprintf(err, TEL_ERR_MAX, "process %d has ended", (int)t->pid);
	return -1;
}

json_t *
tel_client_ask(struct tel_client *t, char err[TEL_ERR_MAX], const char *fmt, ...)
{
	json_t *all, *answer = NULL;
	const char *why;
	char ask[ASK_MAX];
	ssize_t n;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(ask, sizeof(ask), fmt, ap);
	va_end(ap);
	n = exchange(t, ask, err);
	if (n < 0)
		return NULL;
	all = json_loadb(t->buf, (size_t)n, 0, NULL);
	if (json_is_object(all) && json_object_size(all) == 1)
		answer = json_object_iter_value(json_object_iter(all));
	json_incref(answer);
	json_decref(all);
	why = json_string_value(json_object_get(answer, "error"));
	if (answer != NULL && !json_is_null(answer) && why == NULL)
		return answer;
	if (why != NULL)
		snprintf(err, TEL_ERR_MAX, "%s", why);
	else if (answer != NULL)
		snprintf(err, TEL_ERR_MAX, "process %d has no answer to %.80s%s", (int)t->pid, ask,
		         strncmp(ask, "/weft/target/", 13) == 0 ? "; only a weft-target has" : "");
	else
		snprintf(err, TEL_ERR_MAX, "the answer to %.80s is not JSON", ask);
	json_decref(answer);
	return NULL;
}
