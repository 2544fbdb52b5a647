/* SPDX-License-Identifier: BSD-3-Clause */
/** @file A process' part of weft-portd's address: its thread that polls never waits for the daemon.
 */

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "../../apps/verbs/config.h"
#include "../../apps/verbs/engine.h"
#include "../../apps/verbs/portd.h"
#include "portd_client.h"
#include "weft_test.h"
#include <weft/shared_port.h>

#define REFUSED 7175 /* another process has it */
#define SLOW    7176 /* the daemon answers when `go` is set */

/* ---- What is beside the part ---- */

struct wv_engine wv_engine;
static atomic_uint added, dropped;

bool
wv_engine_orphan(void)
{
	return false;
}

int
wv_config_read(struct conf *c, const struct portd_answer *hello, char *err, size_t err_size)
{
	(void)c;
	(void)hello;
	(void)err;
	(void)err_size;
	return 0;
}

const char *
wv_portd_why(int rc)
{
	(void)rc;
	return "why";
}

int
weft_port_tcp_add(struct weft_port *port, uint16_t first, uint16_t last, bool opens)
{
	(void)port;
	(void)first;
	(void)last;
	(void)opens;
	atomic_fetch_add(&added, 1);
	return 0;
}

int
weft_port_tcp_drop(struct weft_port *port, uint16_t tcp_port)
{
	(void)port;
	(void)tcp_port;
	atomic_fetch_add(&dropped, 1);
	return 0;
}

/* ---- The daemon ---- */

static struct {
	char path[96];
	int listens;
	pthread_t thread;
	atomic_bool go;
	atomic_uint claims, releases, mores;
} fake;

static void *
fake_run(void *arg)
{
	int fd = accept(fake.listens, NULL, NULL);
	struct portd_request r;

	(void)arg;
	while (fd >= 0 && recv(fd, &r, sizeof(r), 0) == (ssize_t)sizeof(r)) {
		struct portd_answer a = {
		        .head = r.head, .mtu_bytes = 1500, .first_port = 49280, .last_port = 49407};

		a.head.bytes = sizeof(a);
		if (r.head.type == PORTD_MORE) {
			a.first_port = 60032;
			a.last_port = 60159;
			atomic_fetch_add(&fake.mores, 1);
		}
		if (r.head.type == PORTD_CLAIM && r.port == REFUSED)
			a.status = -EADDRINUSE;
		atomic_fetch_add(r.head.type == PORTD_RELEASE ? &fake.releases : &fake.claims,
		                 r.head.type == PORTD_RELEASE || r.head.type == PORTD_CLAIM);
		while (r.head.type == PORTD_CLAIM && r.port == SLOW && !atomic_load(&fake.go))
			usleep(1000);
		(void)send(fd, &a, sizeof(a), MSG_NOSIGNAL);
	}
	if (fd >= 0)
		close(fd);
	return NULL;
}

static void
up(void)
{
	static int port; /* never looked into */
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	struct portd_answer hello;
	char err[128];

	if (fake.path[0] != '\0')
		return;
	snprintf(fake.path, sizeof(fake.path), "/var/tmp/portd-part-%ld.sock", (long)getpid());
	snprintf(at.sun_path, sizeof(at.sun_path), "%s", fake.path);
	unlink(fake.path);
	fake.listens = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	CHECK_EQ(bind(fake.listens, (const struct sockaddr *)&at, sizeof(at)), 0);
	CHECK_EQ(listen(fake.listens, 1), 0);
	CHECK_EQ(pthread_create(&fake.thread, NULL, fake_run, NULL), 0);
	CHECK_EQ(setenv(WV_ENV_PORTD, fake.path, 1), 0);
	wv_engine.ports[0] = (struct weft_port *)&port;
	wv_engine.nports = 1;
	CHECK_EQ(wv_portd_attach(&hello, err, sizeof(err)), 0);
	unlink(fake.path);
}

/** As a command that binds: it is done again as often as the daemon has been asked. */
static int
bind_port(uint16_t port)
{
	int rc;

	wv_portd_begin();
	do
		rc = wv_portd_bind(port);
	while (rc == -EAGAIN && wv_portd_ask());
	wv_portd_end();
	return rc;
}

static void
await(atomic_uint *n, unsigned int is)
{
	const uint64_t end = test_now_us() + TEST_WAIT_US;

	while (atomic_load(n) < is && test_now_us() < end)
		usleep(1000);
	CHECK_EQ(atomic_load(n), is);
}

static void
test_bind(void)
{
	const unsigned int had = atomic_load(&fake.claims);

	up();
	wv_portd_begin();
	CHECK_EQ(wv_portd_bind(7174), -EAGAIN);
	CHECK_EQ(atomic_load(&fake.claims), had); /* the daemon was not asked */
	CHECK(wv_portd_ask());
	CHECK_EQ(wv_portd_bind(7174), 0);
	wv_portd_end();
	CHECK_EQ(bind_port(7174), 0); /* another id, for which nothing is asked */
	CHECK_EQ(atomic_load(&fake.claims), had + 1);
	CHECK_EQ(bind_port(REFUSED), -EADDRINUSE);
	CHECK_EQ(bind_port(REFUSED), -EADDRINUSE);
	CHECK_EQ(atomic_load(&fake.claims), had + 3); /* it may be free by then */
	CHECK_EQ(bind_port(49281), 0);                /* of its block */
	wv_portd_tell();
	CHECK_EQ(atomic_load(&added), 2);
	wv_portd_unbind(7174);
	wv_portd_sweep();
	CHECK_EQ(atomic_load(&dropped), 0);
	wv_portd_unbind(7174);
	wv_portd_sweep();
	CHECK_EQ(atomic_load(&dropped), 1);
	await(&fake.releases, 1);
}

/** A command that fails after the daemon was asked keeps no port. */
static void
test_unused(void)
{
	up();
	wv_portd_begin();
	CHECK_EQ(wv_portd_bind(7200), -EAGAIN);
	CHECK(wv_portd_ask());
	wv_portd_end();
	wv_portd_sweep();
	await(&fake.releases, 2);
	wv_portd_begin();
	CHECK(!wv_portd_ask());
	wv_portd_end();
}

static void
test_more(void)
{
	uint32_t n;

	up();
	n = wv_portd_dynamic();
	wv_portd_begin();
	CHECK_EQ(wv_portd_more(), -EAGAIN);
	CHECK_EQ(atomic_load(&fake.mores), 0);
	CHECK(wv_portd_ask());
	wv_portd_end();
	CHECK_EQ(wv_portd_dynamic(), 2 * n);
	CHECK_EQ(wv_portd_nth(n), 60032);
}

static void *
slow_run(void *rc)
{
	*(int *)rc = bind_port(SLOW);
	return NULL;
}

/** While one thread waits for the daemon, the one that polls goes on. */
static void
test_no_wait(void)
{
	unsigned int claims;
	pthread_t thread;
	uint64_t at;
	int rc = 1;

	up();
	CHECK_EQ(bind_port(7300), 0);
	claims = atomic_load(&fake.claims);
	CHECK_EQ(pthread_create(&thread, NULL, slow_run, &rc), 0);
	await(&fake.claims, claims + 1);
	at = test_now_us();
	wv_portd_tell();
	CHECK(!wv_portd_gone());
	CHECK_EQ(wv_portd_dynamic() > 0, 1);
	wv_portd_unbind(7300);
	wv_portd_sweep(); /* the daemon is not told yet: the socket is the other thread's */
	CHECK(test_now_us() - at < 1000000);
	CHECK_EQ(atomic_load(&fake.releases), 2);
	atomic_store(&fake.go, true);
	pthread_join(thread, NULL);
	CHECK_EQ(rc, 0);
	wv_portd_sweep();
	await(&fake.releases, 3);
	CHECK_EQ(bind_port(7300), 0);
}

WEFT_TEST_MAIN({"a port is asked for between two runs of a command", test_bind},
               {"a port that a command did not use is given back", test_unused},
               {"a block is asked for likewise", test_more},
               {"the thread that polls never waits for the daemon", test_no_wait})
