/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Calls of a process over the control socket of weft-portd. */

#include "portd_client.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static int64_t
client_now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/** A daemon that is gone is one error, whichever call notices. */
static int
client_gone(int err)
{
	return err == EPIPE || err == ENOTCONN ? -ECONNRESET : -err;
}

/** Wait until the socket can be read or written. */
static int
client_wait(int fd, short what, int64_t end_ms)
{
	struct pollfd p = {.fd = fd, .events = what};

	for (;;) {
		const int64_t left = end_ms - client_now_ms();
		const int n = left <= 0 ? 0 : poll(&p, 1, (int)left);

		if (n > 0)
			return 0;
		if (n == 0)
			return -ETIMEDOUT;
		if (errno != EINTR)
			return -errno;
	}
}

static int
client_send(int fd, const struct portd_request *r, int64_t end_ms)
{
	for (;;) {
		int rc;

		if (send(fd, r, sizeof(*r), MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)sizeof(*r))
			return 0;
		if (errno == EINTR)
			continue;
		if (errno != EAGAIN)
			return client_gone(errno);
		rc = client_wait(fd, POLLOUT, end_ms);
		if (rc != 0)
			return rc;
	}
}

static void
client_heard(struct portd_client *c)
{
	if (c->open > 0)
		c->open--;
}

/** The answer of this request. Those of earlier ones, which waited no longer, are passed over. */
static int
client_recv(struct portd_client *c, const struct portd_request *r, struct portd_answer *a,
            int64_t end_ms)
{
	for (;;) {
		ssize_t n;
		int rc = client_wait(c->fd, POLLIN, end_ms);

		if (rc != 0)
			return rc;
		n = recv(c->fd, a, sizeof(*a), MSG_DONTWAIT | MSG_TRUNC);
		if (n == 0)
			return -ECONNRESET;
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n < 0)
			return client_gone(errno);
		if (n != (ssize_t)sizeof(*a) || a->head.magic != PORTD_MAGIC ||
		    a->head.version != PORTD_VERSION || a->head.bytes != sizeof(*a))
			return -EPROTO;
		client_heard(c);
		if (a->head.seq != r->head.seq)
			continue;
		return a->head.type == r->head.type && a->status <= 0 ? a->status : -EPROTO;
	}
}

/** Drop answers that nothing waits for. False: the daemon is gone. Under the lock. */
static bool
client_drain(struct portd_client *c)
{
	struct portd_answer a;

	while (c->fd >= 0) {
		const ssize_t n = recv(c->fd, &a, sizeof(a), MSG_DONTWAIT | MSG_TRUNC);

		if (n < 0 && errno == EAGAIN)
			return true;
		if (n == 0 || (n < 0 && errno != EINTR))
			return false;
		if (n > 0)
			client_heard(c);
	}
	return false;
}

static int
client_call(struct portd_client *c, enum portd_type type, uint16_t port, struct portd_answer *a)
{
	const int64_t end_ms = client_now_ms() + PORTD_CLIENT_MS;
	struct portd_request r = {
	        .head = {PORTD_MAGIC, PORTD_VERSION, (uint16_t)type, sizeof(r), 0}, .port = port};
	int rc;

	pthread_mutex_lock(&c->lock);
	r.head.seq = ++c->seq;
	rc = c->fd < 0 ? -ECONNRESET : client_send(c->fd, &r, end_ms);
	if (rc == 0) {
		c->open++;
		rc = client_recv(c, &r, a, end_ms);
	}
	/* What the daemon still does of the request is not known: it is not to be kept. */
	if (rc == -ETIMEDOUT)
		(void)shutdown(c->fd, SHUT_RDWR);
	pthread_mutex_unlock(&c->lock);
	return rc;
}

int
portd_client_open(struct portd_client *c, const char *path, struct portd_answer *hello)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	int rc = 0;

	*c = (struct portd_client){.fd = -1, .lock = PTHREAD_MUTEX_INITIALIZER};
	if (strlen(path) >= sizeof(to.sun_path))
		return -EINVAL;
	memcpy(to.sun_path, path, strlen(path));
	c->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (c->fd < 0)
		return -errno;
	if (connect(c->fd, (const struct sockaddr *)&to, sizeof(to)) != 0)
		rc = -errno;
	if (rc == 0)
		rc = client_call(c, PORTD_HELLO, 0, hello);
	/* The strings go into a device string. */
	if (rc == 0 && (memchr(hello->memif_name, '\0', sizeof(hello->memif_name)) == NULL ||
	                memchr(hello->memif_secret, '\0', sizeof(hello->memif_secret)) == NULL))
		rc = -EPROTO;
	if (rc != 0)
		portd_client_close(c);
	return rc;
}

void
portd_client_close(struct portd_client *c)
{
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
}

int
portd_client_claim(struct portd_client *c, uint16_t port)
{
	struct portd_answer a;

	return client_call(c, PORTD_CLAIM, port, &a);
}

int
portd_client_release(struct portd_client *c, uint16_t port)
{
	struct portd_request r = {.head = {PORTD_MAGIC, PORTD_VERSION, PORTD_RELEASE, sizeof(r), 0},
	                          .port = port};
	int rc = 0;

	if (pthread_mutex_trylock(&c->lock) != 0)
		return -EAGAIN;
	if (!client_drain(c)) {
		rc = -ECONNRESET;
	} else if (c->open >= PORTD_CLIENT_OPEN) {
		/* The daemon ends a conversation whose answers fill the socket. */
		rc = -EAGAIN;
	} else {
		r.head.seq = ++c->seq;
		if (send(c->fd, &r, sizeof(r), MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)sizeof(r))
			rc = errno == EAGAIN || errno == EINTR ? -EAGAIN : client_gone(errno);
		else
			c->open++;
	}
	pthread_mutex_unlock(&c->lock);
	return rc;
}

int
portd_client_more(struct portd_client *c, uint16_t *first, uint16_t *last)
{
	struct portd_answer a;
	int rc = client_call(c, PORTD_MORE, 0, &a);

	if (rc != 0)
		return rc;
	*first = a.first_port;
	*last = a.last_port;
	return 0;
}

bool
portd_client_gone(struct portd_client *c)
{
	bool gone = false;

	if (pthread_mutex_trylock(&c->lock) != 0)
		return false;
	gone = !client_drain(c);
	pthread_mutex_unlock(&c->lock);
	return gone;
}

int
portd_client_dev(const struct portd_answer *hello, const char *name, char *out, size_t size)
{
	int n = snprintf(out, size,
	                 "%s,role=client,id=%u,socket=%s,socket-abstract=no,secret=%s,mac="
	                 "%02x:%02x:%02x:%02x:%02x:%02x",
	                 name, hello->memif_id, hello->memif_name, hello->memif_secret,
	                 hello->mac[0], hello->mac[1], hello->mac[2], hello->mac[3], hello->mac[4],
	                 hello->mac[5]);

	return n < 0 || (size_t)n >= size ? -ENOSPC : 0;
}

int
portd_default_path(char *out, size_t size)
{
	const char *dir = geteuid() != 0 ? getenv("XDG_RUNTIME_DIR") : NULL;
	int n = dir != NULL && *dir == '/' ? snprintf(out, size, "%s/weft-portd.sock", dir)
	                                   : snprintf(out, size, "/run/weft/portd.sock");

	return n < 0 || (size_t)n >= size ? -ENOSPC : 0;
}
