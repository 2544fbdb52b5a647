/* SPDX-License-Identifier: BSD-3-Clause */
/** @file One call on the control socket. */

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "ctl.h"
#include "ctl_request.h"
#include "ui.h"

#define CALL_MORE_MS 10000U /* beyond the time within which the target answers */
#define CALL_STEP    65536U

static void unreachable(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));

static void
unreachable(const char *fmt, ...)
{
	char text[CTL_TEXT_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	ui_msg("%s", text);
	exit(CTL_EXIT_UNREACHABLE);
}

int
ctl_connect(const char *path)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (strlen(path) >= sizeof(at.sun_path))
		unreachable("%s: too long for a socket; %zu octets at most", path,
		            sizeof(at.sun_path) - 1);
	strcpy(at.sun_path, path);
	if (fd >= 0 && connect(fd, (const struct sockaddr *)&at, sizeof(at)) == 0)
		return fd;
	switch (errno) {
	case ENOENT:
		unreachable(
		        "%s: no target has this socket; its key is [target] control, and --socket "
		        "names another one",
		        path);
	case ECONNREFUSED:
		unreachable("%s: its target does not run any more", path);
	case EACCES:
		unreachable(
		        "%s: permission denied; root, the target's user and its control_group may "
		        "use it",
		        path);
	default:
		unreachable("%s: %s", path, strerror(errno));
	}
}

/** Read a line; the caller frees it. */
static char *
call_line(int fd, uint64_t end_ns)
{
	size_t len = 0, room = CALL_STEP;
	char *buf = malloc(room + 1);

	for (;;) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		uint64_t now = ui_now_ns();
		ssize_t n;

		if (buf == NULL)
			ui_die("out of memory");
		if (now >= end_ns || poll(&p, 1, (int)((end_ns - now) / 1000000) + 1) == 0)
			unreachable("the target does not answer");
		n = recv(fd, buf + len, room - len, 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			unreachable("the target has closed the socket%s%s", n < 0 ? ": " : "",
			            n < 0 ? strerror(errno) : "");
		buf[len + (size_t)n] = '\0';
		if (memchr(buf + len, '\n', (size_t)n) != NULL)
			return buf;
		len += (size_t)n;
		if (len == room) {
			room += CALL_STEP;
			buf = len <= CTL_ANSWER_MAX ? realloc(buf, room + 1) : NULL;
		}
	}
}

json_t *
ctl_call(int fd, const struct ctl_method *m, json_t *params, struct ctl_fault *f)
{
	json_t *request = json_pack("{s:s, s:i, s:s, s:O}", "jsonrpc", "2.0", "id", 1, "method",
	                            m->name, "params", params);
	json_t *answer, *result, *error;
	size_t len, at = 0;
	char *text = ctl_text(request, &len);

	if (text == NULL)
		ui_die("out of memory");
	/* A target that turns this client away has said why before it closed. */
	while (at < len) {
		ssize_t n = send(fd, text + at, len - at, MSG_NOSIGNAL);

		if (n < 0)
			break;
		at += (size_t)n;
	}
	json_decref(request);
	free(text);
	text = call_line(fd, ui_now_ns() + (m->limit_ms + CALL_MORE_MS) * 1000000ULL);
	answer = json_loads(text, 0, NULL);
	free(text);
	result = json_incref(json_object_get(answer, "result"));
	error = json_object_get(answer, "error");
	if (result == NULL && error == NULL)
		unreachable("what answers there is no weft-target");
	if (result == NULL) {
		const char *why = json_string_value(json_object_get(error, "message"));

		ctl_fail(f, (enum ctl_code)json_integer_value(json_object_get(error, "code")), "%s",
		         why != NULL ? why : "no reason given");
	}
	json_decref(answer);
	return result;
}
