/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The calls of a process to weft-portd, to a daemon that answers as a test says. */

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
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
	CHECK_STR(dev, "net_memif7,role=client,id=0,socket=portd-test,socket-abstract=no,"
	               "secret=abc,mac=00:00:00:00:00:00");
	CHECK_EQ(portd_client_dev(&hello, "net_memif7", dev, 40), -ENOSPC);
	CHECK_EQ(portd_client_claim(&c, 18515), 0);
	CHECK_EQ(portd_client_claim(&c, 7174), -EADDRINUSE);
	CHECK_EQ(portd_client_release(&c, 18515), 0);
	CHECK_EQ(portd_client_release(&c, 7174), 0); /* its answer is not waited for */
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

static atomic_int asked; /**< requests that the daemon has read */

/** It reads, and answers nothing to a release or to the claim of port 9. */
static unsigned int
silent(const struct portd_request *r, struct portd_answer *a, size_t *bytes)
{
	(void)bytes;
	if (r->head.type == PORTD_RELEASE || (r->head.type == PORTD_CLAIM && r->port == 9)) {
		/* Nothing of use, but no end: an answer of another request. */
		a->head.seq = 0;
	}
	atomic_fetch_add(&asked, 1);
	return 1;
}

/** A thread that polls gives ports back: it does not wait for the daemon. */
static void
test_no_wait(void)
{
	struct portd_answer hello;
	struct portd_client c;
	struct fake f;
	struct pollfd arrives = {.events = POLLIN};
	uint64_t at;
	char left;

	fake_up(&f, silent);
	CHECK_EQ(portd_client_open(&c, f.path, &hello), 0);
	at = test_now_us();
	for (uint16_t i = 0; i < 20; i++)
		CHECK_EQ(portd_client_release(&c, (uint16_t)(7000 + i)), 0);
	CHECK(test_now_us() - at < PORTD_CLIENT_MS * 1000ULL / 2);
	while (atomic_load(&asked) < 21)
		usleep(1000);
	/* A call waits for its own answer. */
	CHECK_EQ(portd_client_claim(&c, 8), 0);
	CHECK_EQ(portd_client_release(&c, 8), 0);
	/* What nothing waits for is not left in the socket, where the end is behind it. */
	arrives.fd = c.fd;
	CHECK_EQ(poll(&arrives, 1, PORTD_CLIENT_MS), 1);
	CHECK(!portd_client_gone(&c));
	CHECK_EQ(recv(c.fd, &left, 1, MSG_DONTWAIT | MSG_PEEK), -1);
	portd_client_close(&c);
	fake_down(&f);
}

/** Answers that nothing reads never fill the socket, which would end the conversation. */
static void
test_open(void)
{
	struct portd_client c = {.lock = PTHREAD_MUTEX_INITIALIZER};
	struct portd_answer a = {0};
	struct portd_request r;
	unsigned int n = 0;
	int fds[2];

	CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds), 0);
	c.fd = fds[0];
	while (n < 1000 && portd_client_release(&c, 7174) == 0)
		n++;
	CHECK_EQ(n, PORTD_CLIENT_OPEN);
	CHECK_EQ(portd_client_release(&c, 7174), -EAGAIN);
	for (unsigned int i = 0; i < n; i++) {
		CHECK_EQ(recv(fds[1], &r, sizeof(r), 0), sizeof(r));
		CHECK_EQ(send(fds[1], &a, sizeof(a), MSG_DONTWAIT), sizeof(a));
	}
	CHECK_EQ(portd_client_release(&c, 7174), 0);
	portd_client_close(&c);
	close(fds[1]);
}

/** A claim that is not answered may be granted later: the part ends, and with it the claim. */
static void
test_timeout(void)
{
	struct portd_answer hello;
	struct portd_client c;
	struct fake f;

	fake_up(&f, silent);
	CHECK_EQ(portd_client_open(&c, f.path, &hello), 0);
	CHECK_EQ(portd_client_claim(&c, 9), -ETIMEDOUT);
	CHECK(portd_client_gone(&c));
	CHECK_EQ(portd_client_claim(&c, 8), -ECONNRESET);
	CHECK_EQ(portd_client_release(&c, 8), -ECONNRESET);
	/* The daemon has read the end. */
	pthread_join(f.thread, NULL);
	CHECK_EQ(pthread_create(&f.thread, NULL, fake_run, &f), 0);
	portd_client_close(&c);
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
               {"giving back does not wait, and no answer is left behind", test_no_wait},
               {"few requests wait for the daemon at once", test_open},
               {"a daemon that does not answer in time ends the part", test_timeout},
               {"a daemon that refuses", test_refused})
