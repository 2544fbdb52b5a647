/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Messages to a service manager (sd_notify(3)), and its watchdog. */

#include "target_service.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "conf.h"
#include "ui.h"
#include <weft/worker.h>

#define SERVICE_MIN_US     100000ULL    /**< least time between two questions */
#define SERVICE_RESTART_US 600000000ULL /**< as TimeoutStartSec of the unit */

struct service_worker {
	struct weft_worker *worker;
	/** relaxed: each stands alone. asked is the watchdog's, answered the worker's */
	atomic_uint asked, answered;
};

static struct {
	int fd, end_fd; /**< -1: none */
	struct sockaddr_un to;
	socklen_t to_len;
	uint64_t watchdog_us;                                   /**< 0: none is wanted */
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)]; /**< of the manager; "": none */
	bool watching;
	pthread_t watchdog;
	struct service_worker worker[CONF_WORKERS_MAX];
	uint32_t nworkers;
} service = {.fd = -1, .end_fd = -1};

static void __attribute__((format(printf, 1, 2))) service_say(const char *fmt, ...)
{
	char text[256];
	va_list ap;

	if (service.fd < 0)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	/* A manager that does not read must not stop the program. */
	(void)sendto(service.fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT,
	             (const struct sockaddr *)&service.to, service.to_len);
}

void
target_service_begin(void)
{
	const char *path = getenv("NOTIFY_SOCKET"), *us = getenv("WATCHDOG_USEC");
	const char *pid = getenv("WATCHDOG_PID");
	uint64_t n;

	if (us != NULL && ui_parse_u64(us, 1, UINT64_MAX, &n) == 0 &&
	    (pid == NULL || strtol(pid, NULL, 10) == (long)getpid()))
		service.watchdog_us = n;
	if (path != NULL && (path[0] == '/' || path[0] == '@') &&
	    strlen(path) < sizeof(service.to.sun_path)) {
		service.to.sun_family = AF_UNIX;
		memcpy(service.to.sun_path, path, strlen(path));
		memcpy(service.path, path, strlen(path));
		if (path[0] == '@')
			service.to.sun_path[0] = '\0';
		service.to_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path) +
		                             (path[0] == '/'));
		service.fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	}
	unsetenv("NOTIFY_SOCKET");
	unsetenv("WATCHDOG_USEC");
	unsetenv("WATCHDOG_PID");
}

/* ---- The watchdog ---- */

/** On the worker, in a poll. */
static void
service_answer(void *arg)
{
	struct service_worker *w = arg;

	atomic_fetch_add_explicit(&w->answered, 1, memory_order_relaxed);
}

/** Ask again each worker that has answered. Returns the first one that has not; -1: all have. */
static int
service_ask(void)
{
	int silent = -1;

	for (uint32_t i = 0; i < service.nworkers; i++) {
		struct service_worker *w = &service.worker[i];
		const unsigned int asked = atomic_load_explicit(&w->asked, memory_order_relaxed);

		if (atomic_load_explicit(&w->answered, memory_order_relaxed) != asked)
			silent = silent < 0 ? (int)i : silent;
		/* A worker with too many calls is asked the next time. */
		else if (weft_worker_call(w->worker, service_answer, w) == 0)
			atomic_store_explicit(&w->asked, asked + 1, memory_order_relaxed);
	}
	return silent;
}

static void *
service_watch(void *arg)
{
	const uint64_t quarter_us = service.watchdog_us / 4;
	const uint64_t every_us = quarter_us > SERVICE_MIN_US ? quarter_us : SERVICE_MIN_US;
	struct pollfd end = {.fd = service.end_fd, .events = POLLIN};
	bool said = false;

	(void)arg;
	do {
		int silent = service_ask();

		if (silent < 0)
			service_say("WATCHDOG=1");
		else if (!said)
			ui_msg(UI_ERR
			       "watchdog: worker %d does not poll; the service manager ends this "
			       "program unless it goes on",
			       silent);
		said = silent >= 0;
	} while (poll(&end, 1, (int)(every_us / 1000)) == 0 ||
	         (errno == EINTR && end.revents == 0));
	return NULL;
}

void
target_service_ready(struct weft_worker *const *workers, uint32_t nworkers, uint32_t exports)
{
	int rc;

	if (service.fd < 0)
		return;
	service_say("READY=1\nSTATUS=serving %" PRIu32 " exports", exports);
	if (service.watchdog_us == 0)
		return;
	/* A program of before in this process may have asked for more time. */
	service_say("WATCHDOG_USEC=%" PRIu64, service.watchdog_us);
	for (uint32_t i = 0; i < nworkers; i++)
		service.worker[i].worker = workers[i];
	service.nworkers = nworkers;
	service.end_fd = eventfd(0, EFD_CLOEXEC);
	rc = service.end_fd < 0 ? errno
	                        : pthread_create(&service.watchdog, NULL, service_watch, NULL);
	service.watching = rc == 0;
	if (rc != 0)
		ui_msg(UI_ERR "watchdog: cannot be started: %s", strerror(rc));
}

void
target_service_reloading(void)
{
	service_say("RELOADING=1\nMONOTONIC_USEC=%" PRIu64, ui_now_ns() / 1000);
}

void
target_service_reloaded(uint32_t exports)
{
	service_say("READY=1\nSTATUS=serving %" PRIu32 " exports", exports);
}

void
target_service_environment(void)
{
	char us[24];

	if (service.path[0] != '\0')
		(void)setenv("NOTIFY_SOCKET", service.path, 1);
	snprintf(us, sizeof(us), "%" PRIu64, service.watchdog_us);
	if (service.watchdog_us != 0)
		(void)setenv("WATCHDOG_USEC", us, 1);
}

static void
service_end_watch(void)
{
	const uint64_t one = 1;

	if (!service.watching)
		return;
	/* The count of an eventfd has room for one. */
	(void)!write(service.end_fd, &one, sizeof(one));
	pthread_join(service.watchdog, NULL);
	service.watching = false;
}

void
target_service_stopping(void)
{
	service_say("STOPPING=1");
	service_end_watch();
}

void
target_service_restarting(void)
{
	service_say("RELOADING=1\nMONOTONIC_USEC=%" PRIu64, ui_now_ns() / 1000);
	/* Nothing answers until the next program serves, which reads large exports first. */
	if (service.watching)
		service_say("WATCHDOG_USEC=%llu", SERVICE_RESTART_US);
	service_end_watch();
}
