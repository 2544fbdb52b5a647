/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Persistent reservations by the ioctls of Linux's block layer (linux/pr.h). Prints what the
 * ioctl has returned, which is a status of NVMe if it is positive.
 *
 *     pr DEVICE register OLD NEW | reserve KEY TYPE | release KEY TYPE | preempt KEY OLD TYPE |
 *               preempt-abort KEY OLD TYPE | clear KEY
 *
 * Keys in hexadecimal; types as in linux/pr.h. Exit status 0 if it has returned 0.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <linux/pr.h>

static int
do_pr(int fd, const char *verb, const unsigned long long *v)
{
	struct pr_registration reg = {.old_key = v[0], .new_key = v[1]};
	struct pr_reservation rsv = {.key = v[0], .type = (__u32)v[1]};
	/* Linux sends old_key as the caller's key, and new_key as the key that loses */
	struct pr_preempt pre = {.old_key = v[0], .new_key = v[1], .type = (__u32)v[2]};
	struct pr_clear clear = {.key = v[0]};

	if (strcmp(verb, "register") == 0)
		return ioctl(fd, IOC_PR_REGISTER, &reg);
	if (strcmp(verb, "reserve") == 0)
		return ioctl(fd, IOC_PR_RESERVE, &rsv);
	if (strcmp(verb, "release") == 0)
		return ioctl(fd, IOC_PR_RELEASE, &rsv);
	if (strcmp(verb, "preempt") == 0)
		return ioctl(fd, IOC_PR_PREEMPT, &pre);
	if (strcmp(verb, "preempt-abort") == 0)
		return ioctl(fd, IOC_PR_PREEMPT_ABORT, &pre);
	if (strcmp(verb, "clear") == 0)
		return ioctl(fd, IOC_PR_CLEAR, &clear);
	errno = EINVAL;
	return -1;
}

int
main(int argc, char **argv)
{
	unsigned long long v[3] = {0};
	int fd, r;

	if (argc < 4 || argc > 6)
		return 2;
	for (int i = 3; i < argc; i++)
		v[i - 3] = strtoull(argv[i], NULL, 16);
	fd = open(argv[1], O_RDWR);
	if (fd < 0) {
		perror(argv[1]);
		return 2;
	}
	r = do_pr(fd, argv[2], v);
	if (r < 0)
		perror(argv[2]);
	printf("%s: %d\n", argv[2], r);
	close(fd);
	return r != 0;
}
