/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file A preloaded library that holds the second call of rdma_connect() of a program until the
 * test lets it go: the file WEFT_TEST_HOLD.waiting says that it waits, WEFT_TEST_HOLD.go ends that.
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
