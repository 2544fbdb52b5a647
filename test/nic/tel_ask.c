/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Asks a program's DPDK telemetry, in a guest that has no Python.
 *
 *   tel_ask SOCKET COMMAND...     prints each answer on a line
 */

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define ANSWER_MAX (256u << 10)

int
main(int argc, char **argv)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	static char answer[ANSWER_MAX];
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

	if (argc < 3 || strlen(argv[1]) >= sizeof(sun.sun_path)) {
		fprintf(stderr, "usage: tel_ask SOCKET COMMAND...\n");
		return 2;
	}
	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s", argv[1]);
	/* The socket's first message says who it is. */
	if (fd < 0 || connect(fd, (struct sockaddr *)&sun, sizeof(sun)) != 0 ||
	    read(fd, answer, sizeof(answer)) <= 0) {
		perror(argv[1]);
		return 1;
	}
	for (int i = 2; i < argc; i++) {
		ssize_t n;

		if (write(fd, argv[i], strlen(argv[i])) < 0)
			n = -1;
		else
			n = read(fd, answer, sizeof(answer));
		if (n <= 0) {
			perror(argv[i]);
			return 1;
		}
		printf("%.*s\n", (int)n, answer);
	}
	close(fd);
	return 0;
}
