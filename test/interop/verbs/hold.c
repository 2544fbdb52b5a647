/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file A preloaded library that tells a test what a program does with librdmacm, and holds it:
 * WEFT_TEST_HOLD: the second call of rdma_connect() waits. The file WEFT_TEST_HOLD.waiting says so,
 * WEFT_TEST_HOLD.go ends that. WEFT_TEST_EVENTS: a file that gets a line for each event that the
 * program takes, with its name, and the line "listens" behind each rdma_listen().
 */

#include <dlfcn.h>
#include <fcntl.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static void
hold(const char *path)
{
	const struct timespec nap = {.tv_nsec = 5000000};
	char name[4096];

	snprintf(name, sizeof(name), "%s.waiting", path);
	close(open(name, O_CREAT | O_WRONLY, 0600));
	snprintf(name, sizeof(name), "%s.go", path);
	while (access(name, F_OK) != 0)
		nanosleep(&nap, NULL);
}

/** One write(), which is whole even if the program is killed. */
static void
tell(const char *what)
{
	const char *path = getenv("WEFT_TEST_EVENTS");
	char line[128];
	int fd;

	if (path == NULL)
		return;
	fd = open(path, O_CREAT | O_WRONLY | O_APPEND, 0600);
	if (fd < 0)
		abort();
	if (write(fd, line, (size_t)snprintf(line, sizeof(line), "%s\n", what)) < 0)
		abort();
	close(fd);
}

int
rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	static int (*next)(struct rdma_cm_id *, struct rdma_conn_param *);
	static unsigned int calls;
	const char *path = getenv("WEFT_TEST_HOLD");

	if (next == NULL)
		*(void **)&next = dlsym(RTLD_NEXT, "rdma_connect");
	if (next == NULL)
		abort();
	if (++calls == 2 && path != NULL)
		hold(path);
	return next(id, param);
}

int
rdma_listen(struct rdma_cm_id *id, int backlog)
{
	static int (*next)(struct rdma_cm_id *, int);
	int rc;

	if (next == NULL)
		*(void **)&next = dlsym(RTLD_NEXT, "rdma_listen");
	if (next == NULL)
		abort();
	rc = next(id, backlog);
	if (rc == 0)
		tell("listens");
	return rc;
}

int
rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	static int (*next)(struct rdma_event_channel *, struct rdma_cm_event **);
	int rc;

	if (next == NULL)
		*(void **)&next = dlsym(RTLD_NEXT, "rdma_get_cm_event");
	if (next == NULL)
		abort();
	rc = next(channel, event);
	if (rc == 0)
		tell(rdma_event_str((*event)->event));
	return rc;
}
