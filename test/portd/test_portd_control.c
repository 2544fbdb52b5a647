/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The conversations of weft-portd with processes, most of which mean no good. */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "portd_client.h"
#include "portd_control.h"
#include "portd_socket.h"
#include "weft_test.h"

#define DEAD_NS 20000000ULL

/** A daemon without a device. */
struct rig {
	char path[96];
	struct portd_socket sock;
	struct portd_table *table;
	struct portd_control *control;
	pthread_t thread;
	int attach_rc;
	atomic_int attached, detached;
};

static int
rig_attach(void *arg, uint32_t proc, struct portd_answer *a)
{
	struct rig *r = arg;

	if (r->attach_rc != 0)
		return r->attach_rc;
	a->memif_id = proc;
	snprintf(a->memif_name, sizeof(a->memif_name), "rig-%u", proc);
	atomic_fetch_add_explicit(&r->attached, 1, memory_order_relaxed);
	return 0;
}

static void
rig_detach(void *arg, uint32_t proc)
{
	struct rig *r = arg;

	(void)proc;
	atomic_fetch_add_explicit(&r->detached, 1, memory_order_relaxed);
}

static const struct portd_control_ops rig_ops = {.attach = rig_attach, .detach = rig_detach};

static void *
rig_run(void *arg)
{
	portd_control_run(arg);
	return NULL;
}

static void
rig_up(struct rig *r, uint32_t max_procs)
{
	const struct portd_table_attr ta = {.max_claims = 4, .max_blocks = 3, .dead_ns = DEAD_NS};
	struct portd_control_attr ca = {
	        .max_procs = max_procs, .common = {.mtu_bytes = 1500}, .ops = &rig_ops, .arg = r};
	char err[256] = "";

	*r = (struct rig){.attach_rc = 0};
	snprintf(r->path, sizeof(r->path), "/var/tmp/portd-control-%ld.sock", (long)getpid());
	CHECK_MSG(portd_socket_open(r->path, NULL, &r->sock, err, sizeof(err)) == 0, "%s", err);
	CHECK_EQ(portd_table_create(&ta, &r->table), 0);
	ca.fd = r->sock.file.fd;
	ca.table = r->table;
	CHECK_EQ(portd_control_create(&ca, &r->control), 0);
	CHECK_EQ(pthread_create(&r->thread, NULL, rig_run, r->control), 0);
}

static void
rig_down(struct rig *r)
{
	char lock[128];

	portd_control_stop(r->control);
	pthread_join(r->thread, NULL);
	CHECK_EQ(atomic_load(&r->attached), atomic_load(&r->detached));
	portd_control_destroy(r->control);
	portd_table_destroy(r->table);
	portd_socket_close(&r->sock);
	snprintf(lock, sizeof(lock), "%s.lock", r->path);
	unlink(lock);
}

/** Wait until a counter has the value. */
#define AWAIT(counter, value)                                                                      \
	do {                                                                                       \
		const uint64_t end_ = test_now_us() + TEST_WAIT_US;                                \
		while (atomic_load(counter) < (value) && test_now_us() < end_)                     \
			usleep(1000);                                                              \
		CHECK_EQ(atomic_load(counter), value);                                             \
	} while (0)

static const struct portd_control_counts *
counts(const struct rig *r)
{
	return portd_control_counts(r->control);
}

static void
test_conversation(void)
{
	struct portd_control_proc info;
	struct portd_answer hello;
	struct portd_client a, b;
	uint16_t first, last;
	struct rig r;

	rig_up(&r, 2);
	CHECK_EQ(portd_client_open(&a, r.path, &hello), 0);
	CHECK_EQ(hello.mtu_bytes, 1500);
	CHECK_EQ(hello.memif_id, 0);
	CHECK_STR(hello.memif_name, "rig-0");
	CHECK_EQ(portd_table_owner(r.table, hello.first_port), 0);
	CHECK(portd_control_proc(r.control, 0, &info));
	CHECK_EQ(info.pid, getpid());
	CHECK(info.name[0] != '\0');
	CHECK(!portd_control_proc(r.control, 1, &info));
	CHECK_EQ(portd_client_open(&b, r.path, &hello), 0);
	CHECK_EQ(hello.memif_id, 1);
	CHECK_EQ(portd_client_claim(&a, 7174), 0);
	CHECK_EQ(portd_client_claim(&b, 7174), -EADDRINUSE);
	CHECK_EQ(portd_client_release(&b, 7174), 0); /* not its own: the answer is not read */
	CHECK_EQ(portd_client_more(&b, &first, &last), 0);
	CHECK_EQ(counts(&r)->releases, 1);
	CHECK_EQ(portd_table_owner(r.table, 7174), 0);
	CHECK_EQ(portd_table_owner(r.table, last), 1);
	for (uint16_t p = 1; p < 4; p++)
		CHECK_EQ(portd_client_claim(&a, p), 0);
	CHECK_EQ(portd_client_claim(&a, 4), -ENOSPC);
	portd_client_close(&a);
	AWAIT(&counts(&r)->left, 1);
	CHECK_EQ(portd_client_claim(&b, 7174), 0); /* dead, for active opens alone */
	CHECK_EQ(counts(&r)->came, 2);
	portd_client_close(&b);
	rig_down(&r);
}

#define MORE_HELLOS 20U

/** Each process that comes or goes takes the daemon's time: so many come in a second. */
static void
test_hellos(void)
{
	const uint64_t at = test_now_us();
	struct portd_answer hello;
	struct portd_client c;
	struct rig r;

	rig_up(&r, 32);
	for (unsigned int i = 0; i < PORTD_CONTROL_HELLO_DEPTH + MORE_HELLOS; i++) {
		CHECK_EQ(portd_client_open(&c, r.path, &hello), 0);
		portd_client_close(&c);
	}
	CHECK(test_now_us() - at >= (MORE_HELLOS - 1) * 1000000ULL / PORTD_CONTROL_HELLO_RATE);
	CHECK(atomic_load(&counts(&r)->throttled) > 0);
	CHECK_EQ(counts(&r)->refused_full, 0);
	rig_down(&r);
}

static void
test_killed(void)
{
	struct portd_answer hello;
	struct portd_client c;
	int pipes[2], status;
	struct rig r;
	pid_t pid;
	char x;

	rig_up(&r, 2);
	CHECK_EQ(pipe(pipes), 0);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		if (portd_client_open(&c, r.path, &hello) == 0 && portd_client_claim(&c, 7174) == 0)
			(void)!write(pipes[1], "y", 1);
		pause();
		_exit(1);
	}
	CHECK_EQ(read(pipes[0], &x, 1), 1);
	CHECK_EQ(portd_table_owner(r.table, 7174), 0);
	kill(pid, SIGKILL);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	AWAIT(&counts(&r)->left, 1);
	CHECK_EQ(portd_table_owner(r.table, 7174), PORTD_NO_PROC);
	close(pipes[0]);
	close(pipes[1]);
	rig_down(&r);
}

static void
test_full(void)
{
	struct portd_client c[4];
	struct portd_answer hello;
	struct rig r;

	rig_up(&r, 2);
	CHECK_EQ(portd_client_open(&c[0], r.path, &hello), 0);
	CHECK_EQ(portd_client_open(&c[1], r.path, &hello), 0);
	CHECK_EQ(portd_client_open(&c[2], r.path, &hello), -EBUSY);
	CHECK_EQ(counts(&r)->refused_full, 1);
	portd_client_close(&c[0]);
	AWAIT(&counts(&r)->left, 1);
	CHECK_EQ(portd_client_open(&c[2], r.path, &hello), 0);
	/* Without a net_memif it is not one of the processes, and has no port. */
	portd_client_close(&c[1]);
	AWAIT(&counts(&r)->left, 2);
	r.attach_rc = -EIO;
	CHECK_EQ(portd_client_open(&c[3], r.path, &hello), -EIO);
	CHECK_EQ(counts(&r)->failed, 1);
	CHECK_EQ(portd_client_claim(&c[2], 80), 0);
	portd_client_close(&c[2]);
	rig_down(&r);
}

/** A socket that speaks by hand. */
static int
raw_connect(const struct rig *r)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	CHECK(fd >= 0);
	snprintf(to.sun_path, sizeof(to.sun_path), "%s", r->path);
	CHECK_EQ(connect(fd, (const struct sockaddr *)&to, sizeof(to)), 0);
	return fd;
}

static struct portd_request
raw_request(uint16_t type)
{
	return (struct portd_request){
	        .head = {PORTD_MAGIC, PORTD_VERSION, type, sizeof(struct portd_request), 1}};
}

/** Whether the daemon closes the socket. */
static bool
raw_ends(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	struct portd_answer a;

	while (poll(&p, 1, 5000) == 1)
		if (recv(fd, &a, sizeof(a), 0) <= 0)
			return true;
	return false;
}

static void
test_malformed(void)
{
	struct portd_answer a;
	unsigned int bad = 0;
	struct rig r;

	rig_up(&r, 2);
	for (unsigned int i = 0; i < 12; i++) {
		struct portd_request q = raw_request(PORTD_HELLO);
		uint8_t big[4096] = {0};
		size_t bytes = sizeof(q);
		int fd = raw_connect(&r);

		/* The first six instead of PORTD_HELLO, the others behind it. */
		if (i >= 6) {
			CHECK_EQ(send(fd, &q, sizeof(q), 0), (ssize_t)sizeof(q));
			CHECK_EQ(recv(fd, &a, sizeof(a), 0), (ssize_t)sizeof(a));
			CHECK_EQ(a.status, 0);
			q.head.type = PORTD_CLAIM;
		}
		switch (i % 6) {
		case 0:
			q.head.magic++;
			break;
		case 1:
			q.head.version++;
			break;
		case 2: /* a claim without, and a second PORTD_HELLO with a first one */
			q.head.type = i >= 6 ? PORTD_HELLO : PORTD_CLAIM;
			break;
		case 3:
			q.head.type = PORTD_TYPES;
			break;
		case 4:
			bytes--;
			break;
		default:
			q.head.bytes = sizeof(big);
			bytes = sizeof(big);
			break;
		}
		memcpy(big, &q, sizeof(q));
		CHECK_EQ(send(fd, big, bytes, 0), (ssize_t)bytes);
		CHECK(raw_ends(fd));
		CHECK_EQ(counts(&r)->bad, ++bad);
		close(fd);
	}
	AWAIT(&counts(&r)->left, 6);
	rig_down(&r);
}

static void
test_random(void)
{
	uint64_t s = test_seed(1) * 0x9e3779b97f4a7c15ULL + 1;
	struct portd_answer hello;
	struct portd_client c;
	struct rig r;

	test_seed_note(test_seed(1));
	rig_up(&r, 4);
	CHECK_EQ(portd_client_open(&c, r.path, &hello), 0);
	for (unsigned int i = 0; i < 300; i++) {
		struct portd_request q = raw_request(PORTD_HELLO);
		uint8_t b[64];
		int fd = raw_connect(&r);

		if (i % 2 != 0)
			(void)send(fd, &q, sizeof(q), MSG_NOSIGNAL);
		for (unsigned int k = 0; k < sizeof(b); k++) {
			s ^= s << 13;
			s ^= s >> 7;
			s ^= s << 17;
			b[k] = (uint8_t)s;
		}
		if (i % 3 != 0)
			memcpy(b, &q, 8);
		(void)send(fd, b, i % 5 == 0 ? s % sizeof(b) : sizeof(q), MSG_NOSIGNAL);
		close(fd);
	}
	CHECK_EQ(portd_client_claim(&c, 7174), 0);
	portd_client_close(&c);
	rig_down(&r);
}

/** One that asks without end delays no other for long. */
static void
test_flood(void)
{
	struct portd_request q = raw_request(PORTD_HELLO);
	const uint64_t end_us = test_now_us() + TEST_WAIT_US;
	struct portd_answer hello;
	struct portd_client c;
	struct rig r;
	int fd;

	rig_up(&r, 2);
	CHECK_EQ(portd_client_open(&c, r.path, &hello), 0);
	fd = raw_connect(&r);
	CHECK_EQ(send(fd, &q, sizeof(q), 0), (ssize_t)sizeof(q));
	q.head.type = PORTD_MORE;
	for (unsigned int i = 0; counts(&r)->throttled < 20 && test_now_us() < end_us; i++) {
		struct portd_answer a;

		while (recv(fd, &a, sizeof(a), MSG_DONTWAIT) > 0) {
		}
		(void)send(fd, &q, sizeof(q), MSG_DONTWAIT | MSG_NOSIGNAL);
		if (i % 100 == 0)
			CHECK_EQ(portd_client_claim(&c, 7174), 0);
	}
	CHECK_EQ(portd_client_claim(&c, 7174), 0);
	AWAIT(&counts(&r)->blocks, 2);
	CHECK(counts(&r)->throttled >= 20);
	close(fd);
	portd_client_close(&c);
	rig_down(&r);
}

/** One that reads no answer is disconnected when its socket is full. */
static void
test_unread(void)
{
	struct portd_request q = raw_request(PORTD_HELLO);
	const uint64_t end_us = test_now_us() + TEST_WAIT_US;
	struct rig r;
	int fd;

	rig_up(&r, 2);
	fd = raw_connect(&r);
	CHECK_EQ(send(fd, &q, sizeof(q), 0), (ssize_t)sizeof(q));
	q.head.type = PORTD_CLAIM;
	q.port = 7174;
	while (counts(&r)->unread == 0 && test_now_us() < end_us)
		if (send(fd, &q, sizeof(q), MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
			usleep(1000);
	AWAIT(&counts(&r)->left, 1);
	CHECK_EQ(counts(&r)->unread, 1);
	close(fd);
	rig_down(&r);
}

/** Sockets that say nothing are bounded, and closed. */
static void
test_silent(void)
{
	int fd[2 + PORTD_CONTROL_WAITING + 1];
	struct portd_answer hello;
	struct portd_client c;
	struct rig r;

	rig_up(&r, 2);
	for (unsigned int i = 0; i < sizeof(fd) / sizeof(fd[0]); i++)
		fd[i] = raw_connect(&r);
	AWAIT(&counts(&r)->refused_full, 1);
	AWAIT(&counts(&r)->silent, 2 + PORTD_CONTROL_WAITING);
	CHECK_EQ(portd_client_open(&c, r.path, &hello), 0);
	portd_client_close(&c);
	for (unsigned int i = 0; i < sizeof(fd) / sizeof(fd[0]); i++)
		close(fd[i]);
	rig_down(&r);
}

static void
test_users(void)
{
	struct portd_answer hello;
	struct portd_client c;
	int status;
	struct rig r;
	pid_t pid;

	if (geteuid() != 0)
		test_skip("needs root, to be another user");
	rig_up(&r, 2);
	CHECK_EQ(chmod(r.path, 0666), 0); /* what the file allows is not all */
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0)
		_exit(setuid(65534) != 0                                     ? 1
		      : portd_client_open(&c, r.path, &hello) == -ECONNRESET ? 0
		                                                             : 2);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(WEXITSTATUS(status), 0);
	CHECK_EQ(counts(&r)->refused_user, 1);
	rig_down(&r);
}

static void
test_socket(void)
{
	struct portd_socket other;
	char err[256], lock[128];
	struct stat st;
	struct rig r;

	rig_up(&r, 1);
	CHECK_EQ(stat(r.path, &st), 0);
	CHECK_EQ(st.st_mode & 0777, 0600);
	CHECK_EQ(portd_socket_open(r.path, NULL, &other, err, sizeof(err)), -EADDRINUSE);
	CHECK(strstr(err, "another weft-portd") != NULL);
	rig_down(&r);
	CHECK(stat(r.path, &st) != 0);
	/* What a killed daemon left is replaced, and nothing else; a group has access. */
	CHECK_EQ(mknod(r.path, S_IFREG | 0600, 0), 0);
	CHECK_EQ(portd_socket_open(r.path, NULL, &other, err, sizeof(err)), -EEXIST);
	CHECK_EQ(unlink(r.path), 0);
	CHECK_EQ(mknod(r.path, S_IFSOCK | 0600, 0), 0);
	CHECK_EQ(portd_socket_open(r.path, "root", &other, err, sizeof(err)), 0);
	CHECK_EQ(stat(r.path, &st), 0);
	CHECK_EQ(st.st_mode & 0777, 0660);
	portd_socket_close(&other);
	CHECK_EQ(portd_socket_open(r.path, "no such group", &other, err, sizeof(err)), -ENOENT);
	snprintf(lock, sizeof(lock), "%s.lock", r.path);
	unlink(lock);
}

/** Processor time of the control thread. */
static uint64_t
rig_cpu_us(const struct rig *r)
{
	struct timespec ts;
	clockid_t clock;

	CHECK_EQ(pthread_getcpuclockid(r->thread, &clock), 0);
	CHECK_EQ(clock_gettime(clock, &ts), 0);
	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

/** No descriptor is left for a socket: the thread does not spin, and takes the socket later. */
static void
test_no_fd(void)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	struct portd_request q = {.head = {PORTD_MAGIC, PORTD_VERSION, PORTD_HELLO, sizeof(q), 1}};
	struct portd_answer a;
	struct rlimit was, none;
	enum { FDS = 64 };
	unsigned int n = 0;
	int fd, more[FDS];
	uint64_t used;
	struct rig r;

	rig_up(&r, 2);
	memcpy(to.sun_path, r.path, sizeof(r.path));
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	CHECK(fd >= 0);
	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &was), 0);
	none = (struct rlimit){.rlim_cur = FDS, .rlim_max = was.rlim_max};
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
	while (n < FDS && (more[n] = dup(fd)) >= 0)
		n++;
	used = rig_cpu_us(&r);
	CHECK_EQ(connect(fd, (const struct sockaddr *)&to, sizeof(to)), 0);
	usleep(350000);
	used = rig_cpu_us(&r) - used;
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &was), 0);
	while (n > 0)
		close(more[--n]);
	CHECK_MSG(used < 35000, "%llu us", (unsigned long long)used);
	CHECK(atomic_load(&counts(&r)->no_fd) >= 1);
	CHECK(atomic_load(&counts(&r)->no_fd) < 10);
	CHECK_EQ(send(fd, &q, sizeof(q), 0), sizeof(q));
	CHECK_EQ(recv(fd, &a, sizeof(a), 0), sizeof(a));
	CHECK_EQ(a.status, 0);
	close(fd);
	AWAIT(&counts(&r)->left, 1);
	rig_down(&r);
}

WEFT_TEST_MAIN({"processes come, claim and go", test_conversation},
               {"processes come and go at a limited rate", test_hellos},
               {"a process that is killed leaves no port", test_killed},
               {"more processes than the daemon takes, or has net_memifs for", test_full},
               {"a request that is none ends the conversation", test_malformed},
               {"random octets end the sender's conversation", test_random},
               {"a flood of requests delays no other process", test_flood},
               {"answers that are left unread end the conversation", test_unread},
               {"sockets that say nothing are closed in time", test_silent},
               {"other users are refused", test_users},
               {"one daemon has the socket, whose file the group may use", test_socket},
               {"no descriptor is left: no spinning, and later it goes on", test_no_fd})
