/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Runs in the guest and accepts every call at the port of rpcbind. The kernel registers its
 * lock manager there before nfsd may serve version 3. No program looks the entry up. RFC 1833 over
 * TCP.
 */

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int
whole(int s, void *buf, size_t n)
{
	return recv(s, buf, n, MSG_WAITALL) == (ssize_t)n;
}

static void
serve(int s)
{
	uint8_t call[4096];
	uint32_t mark, n;

	while (whole(s, &mark, sizeof(mark))) {
		/* the record's mark; xid, a reply, accepted, no verifier (2 words), success, true
		 */
		uint32_t reply[8] = {htonl(0x80000000u | 28), 0, htonl(1), 0, 0, 0, 0, htonl(1)};

		n = ntohl(mark) & 0x7fffffffu;
		if (n < 4 || n > sizeof(call) || !whole(s, call, n))
			return;
		memcpy(&reply[1], call, 4);
		if (send(s, reply, sizeof(reply), MSG_NOSIGNAL) != sizeof(reply))
			return;
	}
}

int
main(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(111)};
	int l = socket(AF_INET, SOCK_STREAM, 0), s;

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (l < 0 || bind(l, (struct sockaddr *)&a, sizeof(a)) != 0 || listen(l, 16) != 0)
		return 1;
	if (daemon(0, 0) != 0)
		return 1;
	while ((s = accept(l, NULL, NULL)) >= 0) {
		if (fork() == 0) {
			serve(s);
			_exit(0);
		}
		close(s);
	}
	return 1;
}
