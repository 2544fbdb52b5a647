/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The conversations with processes. */

#include "portd_control.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CONTROL_PAUSE_MS 10 /* of a process that asks too much */
#define CONTROL_NS_A_MS  1000000ULL
#define CONTROL_FULL_MS  100 /* until a socket is accepted, when there was no descriptor */

#define CONTROL_TOKEN 1000000000ULL

struct conn {
	int fd; /**< -1: free */
	uint32_t proc;
	uint64_t since_ns;
	/* Requests that it may make now, in billionths, so that none is lost to rounding. */
	uint64_t tokens, filled_ns;
};

struct proc {
	bool here;
	struct portd_control_proc info;
};

struct portd_control {
	struct portd_control_attr attr;
	struct portd_control_counts counts;
	int wake_fd;
	atomic_bool stop;
	uint64_t full_until_ns; /**< attr.fd is readable and nothing can be done about it */
	uint32_t nconns;
	struct conn *conn;
	struct pollfd *poll;        /**< nconns, behind those of wake_fd and attr.fd */
	struct pollfd *ends;        /**< nconns, which wait for nothing but the end */
	uint64_t hellos, hellos_ns; /**< as conn.tokens and conn.filled_ns, of new processes */
	pthread_mutex_t lock;       /**< of proc[] */
	struct proc proc[PORTD_TABLE_PROCS];
};

static void
count(_Atomic uint64_t *c)
{
	(void)atomic_fetch_add_explicit(c, 1, memory_order_relaxed);
}

static uint64_t
control_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ULL + (uint64_t)ts.tv_nsec;
}

/* ---- Processes ---- */

static void
control_name(pid_t pid, char name[16])
{
	char path[32];
	ssize_t n;
	int fd;

	name[0] = '\0';
	snprintf(path, sizeof(path), "/proc/%ld/comm", (long)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	n = read(fd, name, 15);
	name[n > 0 ? n : 0] = '\0';
	name[strcspn(name, "\n")] = '\0';
	close(fd);
}

static pid_t
control_pid(int fd)
{
	struct ucred peer = {0};
	socklen_t len = sizeof(peer);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 ? peer.pid : 0;
}

/** x NULL: it is gone. */
static void
control_set(struct portd_control *c, uint32_t proc, const struct conn *x)
{
	struct proc p = {.here = x != NULL};

	if (x != NULL) {
		p.info.pid = control_pid(x->fd);
		control_name(p.info.pid, p.info.name);
	}
	pthread_mutex_lock(&c->lock);
	c->proc[proc] = p;
	pthread_mutex_unlock(&c->lock);
}

static int
control_hello(struct portd_control *c, struct conn *x, uint64_t now_ns, struct portd_answer *a)
{
	uint32_t proc = 0;
	int rc;

	while (proc < c->attr.max_procs && c->proc[proc].here)
		proc++;
	if (proc == c->attr.max_procs) {
		count(&c->counts.refused_full);
		return -EBUSY;
	}
	rc = portd_table_join(c->attr.table, proc, now_ns, &a->first_port, &a->last_port);
	if (rc != 0) {
		count(&c->counts.refused_full);
		return rc;
	}
	rc = c->attr.ops->attach(c->attr.arg, proc, a);
	if (rc != 0) {
		count(&c->counts.failed);
		portd_table_leave(c->attr.table, proc, now_ns);
		return rc;
	}
	c->hellos -= CONTROL_TOKEN;
	x->proc = proc;
	control_set(c, proc, x);
	count(&c->counts.came);
	return 0;
}

static void
conn_close(struct portd_control *c, struct conn *x)
{
	if (x->proc != PORTD_NO_PROC) {
		/* Its segments are answered with RST from now on. */
		portd_table_leave(c->attr.table, x->proc, control_now_ns());
		c->attr.ops->detach(c->attr.arg, x->proc);
		control_set(c, x->proc, NULL);
		count(&c->counts.left);
	}
	close(x->fd);
	x->fd = -1;
}

/* ---- Requests ---- */

static bool
request_ok(const struct conn *x, const struct portd_request *r, ssize_t bytes)
{
	static const uint8_t zero[sizeof(r->zero)];

	return bytes == (ssize_t)sizeof(*r) && r->head.magic == PORTD_MAGIC &&
	       r->head.version == PORTD_VERSION && r->head.bytes == sizeof(*r) &&
	       r->head.type >= PORTD_HELLO && r->head.type < PORTD_TYPES &&
	       (r->head.type == PORTD_HELLO) == (x->proc == PORTD_NO_PROC) &&
	       memcmp(r->zero, zero, sizeof(zero)) == 0;
}

static int
request_do(struct portd_control *c, struct conn *x, const struct portd_request *r,
           struct portd_answer *a)
{
	const uint64_t now_ns = control_now_ns();
	struct portd_table *t = c->attr.table;
	int rc;

	switch (r->head.type) {
	case PORTD_HELLO:
		*a = c->attr.common;
		return control_hello(c, x, now_ns, a);
	case PORTD_CLAIM:
		rc = portd_table_claim(t, x->proc, r->port, now_ns);
		count(rc == 0 ? &c->counts.claims : &c->counts.claims_refused);
		return rc;
	case PORTD_RELEASE:
		count(&c->counts.releases);
		return portd_table_release(t, x->proc, r->port);
	default:
		rc = portd_table_more(t, x->proc, now_ns, &a->first_port, &a->last_port);
		count(rc == 0 ? &c->counts.blocks : &c->counts.blocks_refused);
		return rc;
	}
}

/** One request. False: the conversation is over. */
static bool
conn_serve(struct portd_control *c, struct conn *x)
{
	struct portd_answer a = {0};
	struct portd_request r;
	ssize_t n = recv(x->fd, &r, sizeof(r), MSG_DONTWAIT | MSG_TRUNC);
	int rc;

	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	if (n == 0)
		return false;
	if (!request_ok(x, &r, n)) {
		count(&c->counts.bad);
		return false;
	}
	rc = request_do(c, x, &r, &a);
	if (rc != 0)
		a = (struct portd_answer){.status = rc};
	a.head = r.head;
	a.head.bytes = sizeof(a);
	if (send(x->fd, &a, sizeof(a), MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)sizeof(a)) {
		if (errno == EAGAIN)
			count(&c->counts.unread);
		return false;
	}
	return r.head.type != PORTD_HELLO || rc == 0;
}

/** Whether the process may ask now; takes the request from what it has left. */
static bool
conn_may_ask(struct conn *x, uint64_t now_ns, bool take)
{
	/* Full after a fraction of a second; the product does not overflow then. */
	const uint64_t ns =
	        now_ns - x->filled_ns < CONTROL_TOKEN ? now_ns - x->filled_ns : CONTROL_TOKEN;

	x->tokens += ns * PORTD_CONTROL_RATE;
	if (x->tokens > PORTD_CONTROL_DEPTH * CONTROL_TOKEN)
		x->tokens = PORTD_CONTROL_DEPTH * CONTROL_TOKEN;
	x->filled_ns = now_ns;
	if (x->tokens < CONTROL_TOKEN)
		return false;
	if (take)
		x->tokens -= CONTROL_TOKEN;
	return true;
}

/** Whether a process may come now. */
static bool
control_may_come(struct portd_control *c, uint64_t now_ns)
{
	const uint64_t full = PORTD_CONTROL_HELLO_DEPTH * CONTROL_TOKEN;
	const uint64_t ns = now_ns - c->hellos_ns;

	/* The bucket is full after DEPTH / RATE seconds. */
	c->hellos += (ns < full ? ns : full) * PORTD_CONTROL_HELLO_RATE;
	if (c->hellos > full)
		c->hellos = full;
	c->hellos_ns = now_ns;
	return c->hellos >= CONTROL_TOKEN;
}

/* ---- The loop ---- */

static bool
control_is_ours(const struct portd_control *c, int fd)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	return c->attr.any_user || (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 &&
	                            (peer.uid == 0 || peer.uid == geteuid()));
}

static void
control_accept(struct portd_control *c)
{
	const int fd = accept4(c->attr.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	const uint64_t now_ns = control_now_ns();
	struct conn *x = NULL;

	if (fd < 0) {
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
			count(&c->counts.no_fd);
			c->full_until_ns = now_ns + CONTROL_FULL_MS * CONTROL_NS_A_MS;
		}
		return;
	}
	for (uint32_t i = 0; i < c->nconns && x == NULL; i++)
		if (c->conn[i].fd < 0)
			x = &c->conn[i];
	if (x == NULL || !control_is_ours(c, fd)) {
		count(x == NULL ? &c->counts.refused_full : &c->counts.refused_user);
		close(fd);
		return;
	}
	*x = (struct conn){.fd = fd,
	                   .proc = PORTD_NO_PROC,
	                   .since_ns = now_ns,
	                   .filled_ns = now_ns,
	                   .tokens = PORTD_CONTROL_DEPTH * CONTROL_TOKEN};
}

/** Fill in what to wait for. Returns how long at most, in milliseconds; -1: for ever. */
static int
control_wait_for(struct portd_control *c, uint64_t now_ns)
{
	const bool full = now_ns < c->full_until_ns;
	int ms = full ? CONTROL_FULL_MS : -1;

	c->poll[0] = (struct pollfd){.fd = c->wake_fd, .events = POLLIN};
	c->poll[1] = (struct pollfd){.fd = full ? -1 : c->attr.fd, .events = POLLIN};
	for (uint32_t i = 0; i < c->nconns; i++) {
		struct conn *x = &c->conn[i];
		struct pollfd *p = &c->poll[2 + i];

		*p = (struct pollfd){.fd = x->fd, .events = POLLIN};
		if (x->fd < 0)
			continue;
		if (!conn_may_ask(x, now_ns, false) ||
		    (x->proc == PORTD_NO_PROC && !control_may_come(c, now_ns))) {
			/* Its end is heard of all the same. */
			p->events = 0;
			count(&c->counts.throttled);
			ms = CONTROL_PAUSE_MS;
		} else if (x->proc == PORTD_NO_PROC && ms < 0) {
			ms = PORTD_CONTROL_HELLO_MS / 10;
		}
	}
	return ms;
}

/** The new socket that waits longest of those that say something; NULL: none does. */
static const struct conn *
control_next(const struct portd_control *c)
{
	const struct conn *next = NULL;

	for (uint32_t i = 0; i < c->nconns; i++) {
		const struct conn *x = &c->conn[i];

		if (x->fd >= 0 && x->proc == PORTD_NO_PROC && c->poll[2 + i].fd == x->fd &&
		    (c->poll[2 + i].revents & POLLIN) != 0 &&
		    (next == NULL || x->since_ns < next->since_ns))
			next = x;
	}
	return next;
}

/**
 * Close the sockets of processes that are gone, before a request is served: a process that asks for
 * a port when its owner has ended gets it. Asked anew, because the end may have come between the
 * looks at two sockets, and the request with it.
 */
static void
control_hear_ends(struct portd_control *c)
{
	for (uint32_t i = 0; i < c->nconns; i++)
		c->ends[i] = (struct pollfd){.fd = c->conn[i].proc != PORTD_NO_PROC ? c->conn[i].fd
		                                                                    : -1};
	if (poll(c->ends, c->nconns, 0) <= 0)
		return;
	for (uint32_t i = 0; i < c->nconns; i++)
		if (c->ends[i].fd >= 0 && c->ends[i].revents != 0) {
			conn_close(c, &c->conn[i]);
			c->poll[2 + i].fd = -1; /* a new socket may have its number */
		}
}

static void
control_round(struct portd_control *c)
{
	const uint64_t now_ns = control_now_ns();
	const struct conn *next;

	control_hear_ends(c);
	next = control_next(c);
	if (c->poll[1].revents != 0)
		control_accept(c);
	for (uint32_t i = 0; i < c->nconns; i++) {
		struct conn *x = &c->conn[i];
		const short what = c->poll[2 + i].fd >= 0 ? c->poll[2 + i].revents : 0;

		if (x->fd < 0 || c->poll[2 + i].fd != x->fd)
			continue;
		if ((what & POLLIN) != 0 && x->proc == PORTD_NO_PROC && x != next)
			continue;
		if ((what & POLLIN) != 0 && conn_may_ask(x, now_ns, true)) {
			if (!conn_serve(c, x))
				conn_close(c, x);
		} else if ((what & (POLLHUP | POLLERR | POLLNVAL)) != 0 && (what & POLLIN) == 0) {
			conn_close(c, x);
		} else if (x->proc == PORTD_NO_PROC &&
		           now_ns - x->since_ns > PORTD_CONTROL_HELLO_MS * CONTROL_NS_A_MS) {
			count(&c->counts.silent);
			conn_close(c, x);
		}
	}
}

void
portd_control_run(struct portd_control *c)
{
	while (!atomic_load_explicit(&c->stop, memory_order_acquire)) {
		const int ms = control_wait_for(c, control_now_ns());

		if (poll(c->poll, 2 + c->nconns, ms) >= 0)
			control_round(c);
	}
	for (uint32_t i = 0; i < c->nconns; i++)
		if (c->conn[i].fd >= 0)
			conn_close(c, &c->conn[i]);
}

void
portd_control_stop(struct portd_control *c)
{
	const uint64_t one = 1;

	atomic_store_explicit(&c->stop, true, memory_order_release);
	if (write(c->wake_fd, &one, sizeof(one)) < 0) {
		/* EAGAIN: it is readable already. */
	}
}

int
portd_control_create(const struct portd_control_attr *attr, struct portd_control **out)
{
	struct portd_control *c = calloc(1, sizeof(*c));
	int rc = -ENOMEM;

	if (c == NULL)
		return rc;
	c->attr = *attr;
	c->hellos = PORTD_CONTROL_HELLO_DEPTH * CONTROL_TOKEN;
	c->hellos_ns = control_now_ns();
	if (c->attr.max_procs > PORTD_TABLE_PROCS)
		c->attr.max_procs = PORTD_TABLE_PROCS;
	c->nconns = c->attr.max_procs + PORTD_CONTROL_WAITING;
	c->conn = calloc(c->nconns, sizeof(c->conn[0]));
	c->poll = calloc(c->nconns + 2, sizeof(c->poll[0]));
	c->ends = calloc(c->nconns, sizeof(c->ends[0]));
	pthread_mutex_init(&c->lock, NULL);
	c->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (c->wake_fd < 0)
		rc = -errno;
	if (c->conn == NULL || c->poll == NULL || c->ends == NULL || c->wake_fd < 0) {
		portd_control_destroy(c);
		return rc;
	}
	for (uint32_t i = 0; i < c->nconns; i++)
		c->conn[i].fd = -1;
	*out = c;
	return 0;
}

void
portd_control_destroy(struct portd_control *c)
{
	if (c == NULL)
		return;
	if (c->wake_fd >= 0)
		close(c->wake_fd);
	pthread_mutex_destroy(&c->lock);
	free(c->conn);
	free(c->ends);
	free(c->poll);
	free(c);
}

const struct portd_control_counts *
portd_control_counts(const struct portd_control *c)
{
	return &c->counts;
}

bool
portd_control_proc(struct portd_control *c, uint32_t proc, struct portd_control_proc *out)
{
	bool here;

	if (proc >= PORTD_TABLE_PROCS)
		return false;
	pthread_mutex_lock(&c->lock);
	here = c->proc[proc].here;
	*out = c->proc[proc].info;
	pthread_mutex_unlock(&c->lock);
	return here;
}
