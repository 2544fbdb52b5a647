/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The calls of a process to weft-portd, to a daemon that answers as a test says. */

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "portd_client.h"
#include "weft_test.h"

/** A daemon of one process: answers each request by what `answer` makes of it. */
struct fake {
	char path[96];
	int listens;
	pthread_t thread;
	/** Fill *a, which is a good answer. Returns how often to send it; 0 closes the socket. */
	unsigned int (*answer)(const struct portd_request *r, struct portd_answer *a,
	                       size_t *bytes);
};

static void *
fake_run(void *arg)
{
	struct fake *f = arg;
	int fd = accept(f->listens, NULL, NULL);
	struct portd_request r;

	while (fd >= 0 && recv(fd, &r, sizeof(r), 0) == (ssize_t)sizeof(r)) {
		struct portd_answer a = {.head = r.head, .first_port = 49280, .last_port = 49407};
		size_t bytes = sizeof(a);
		unsigned int n;

		a.head.bytes = sizeof(a);
		snprintf(a.memif_name, sizeof(a.memif_name), "portd-test");
		snprintf(a.memif_secret, sizeof(a.memif_secret), "abc");
		n = f->answer(&r, &a, &bytes);
		for (unsigned int i = 0; i < n; i++)
			(void)send(fd, &a, bytes, MSG_NOSIGNAL);
		if (n == 0)
			break;
	}
	if (fd >= 0)
		close(fd);
	return NULL;
}

static void
fake_up(struct fake *f,
        unsigned int (*answer)(const struct portd_request *, struct portd_answer *, size_t *))
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};

	snprintf(f->path, sizeof(f->path), "/tmp/portd-client-%ld.sock", (long)getpid());
	snprintf(at.sun_path, sizeof(at.sun_path), "%s", f->path);
	unlink(f->path);
	f->answer = answer;
	f->listens = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	CHECK(f->listens >= 0);
	CHECK_EQ(bind(f->listens, (const struct sockaddr *)&at, sizeof(at)), 0);
	CHECK_EQ(listen(f->listens, 1), 0);
	CHECK_EQ(pthread_create(&f->thread, NULL, fake_run, f), 0);
}

static void
fake_down(struct fake *f)
{
	shutdown(f->listens, SHUT_RDWR);
	pthread_join(f->thread, NULL);
	close(f->listens);
	unlink(f->path);
}

static unsigned int
good(const struct portd_request *r, struct portd_answer *a, size_t *bytes)
{
	(void)bytes;
	if (r->head.type == PORTD_CLAIM && r->port == 7174)
		a->status = -EADDRINUSE;
	if (r->head.type == PORTD_RELEASE && r->port != 18515)
		a->status = -ENOENT;
	return 1;
}

static void
test_calls(void)
{
	struct portd_answer hello;
	struct portd_client c;
	uint16_t first = 0, last = 0;
	struct fake f;
	char dev[256];

	fake_up(&f, good);
	CHECK_EQ(portd_client_open(&c, f.path, &hello), 0);
	CHECK_EQ(hello.first_port, 49280);
	CHECK_EQ(portd_client_dev(&hello, "net_memif7", dev, sizeof(dev)), 0);
	CHECK_STR(dev, "net_memif7,role=client,id=0,socket=portd-test,socket-abstract=yes,"
	               "secret=abc,mac=00:00:00:00:00:00");
	CHECK_EQ(portd_client_dev(&hello, "net_memif7", dev, 40), -ENOSPC);
	CHECK_EQ(portd_client_claim(&c, 18515), 0);
	CHECK_EQ(portd_client_claim(&c, 7174), -EADDRINUSE);
	CHECK_EQ(portd_client_release(&c, 18515), 0);
	CHECK_EQ(portd_client_release(&c, 7174), -ENOENT);
	CHECK_EQ(portd_client_more(&c, &first, &last), 0);
	CHECK_EQ(first, 49280);
	CHECK_EQ(last, 49407);
	portd_client_close(&c);
	CHECK_EQ(portd_client_claim(&c, 1), -ECONNRESET);
	portd_client_close(&c);
	fake_down(&f);
}

static unsigned int
bad_once(const struct portd_request *r, struct portd_answer *a, size_t *bytes)
{
	switch (r->head.type == PORTD_CLAIM ? r->port : 0) {
	case 1:
		a->head.magic++;
		break;
	case 2:
		a->head.version++;
		break;
	case 3:
		a->head.type++;
		break;
	case 4:
		*bytes = sizeof(*a) - 1;
		break;
	case 5:
		a->status = 1;
		break;
	case 6:
		return 0;
	case 7: /* its answer comes twice: the second one is no other request's */
		return 2;
	default:
		break;
	}
	return 1;
}

static void
test_wrong_answers(void)
{
	for (uint16_t port = 1; port <= 5; port++) {
		struct portd_answer hello;
		struct portd_client c;
		struct fake f;

		fake_up(&f, bad_once);
		CHECK_EQ(portd_client_open(&c, f.path, &hello), 0);
		CHECK_EQ(portd_client_claim(&c, port), -EPROTO);
		portd_client_close(&c);
		fake_down(&f);
	}
}

static void
test_gone(void)
{
	struct portd_answer hello;
	struct portd_client c;
	struct fake f;

	CHECK_EQ(portd_client_open(&c, "/nonexistent/portd.sock", &hello), -ENOENT);
	fake_up(&f, bad_once);
	CHECK_EQ(portd_client_open(&c, f.path, &hello), 0);
	CHECK_EQ(portd_client_claim(&c, 7), 0);
	CHECK_EQ(portd_client_claim(&c, 8), 0);
	CHECK(!portd_client_gone(&c));
	CHECK_EQ(portd_client_claim(&c, 6), -ECONNRESET);
	CHECK(portd_client_gone(&c));
	CHECK_EQ(portd_client_claim(&c, 8), -ECONNRESET);
	portd_client_close(&c);
	CHECK(portd_client_gone(&c));
	fake_down(&f);
}

static unsigned int
refuse(const struct portd_request *r, struct portd_answer *a, size_t *bytes)
{
	(void)r;
	(void)bytes;
	a->status = -EBUSY;
	return 1;
}

static unsigned int
no_end(const struct portd_request *r, struct portd_answer *a, size_t *bytes)
{
	(void)r;
	(void)bytes;
	memset(a->memif_name, 'x', sizeof(a->memif_name));
	return 1;
}

static void
test_refused(void)
{
	struct portd_answer hello;
	struct portd_client c;
	struct fake f;

	fake_up(&f, refuse);
	CHECK_EQ(portd_client_open(&c, f.path, &hello), -EBUSY);
	CHECK_EQ(c.fd, -1);
	fake_down(&f);
	fake_up(&f, no_end);
	CHECK_EQ(portd_client_open(&c, f.path, &hello), -EPROTO);
	fake_down(&f);
}

WEFT_TEST_MAIN({"each call has its answer", test_calls},
               {"an answer that is none is a protocol error", test_wrong_answers},
               {"a daemon that is gone is ECONNRESET", test_gone},
               {"a daemon that refuses", test_refused})
