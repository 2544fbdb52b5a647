/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The process's part of weft-portd's address. */

#include "portd.h"

#include "config.h"
#include "engine.h"

#include <weft/shared_port.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>

#include "portd_client.h"

/** A port that ids are bound to. */
struct claim {
	LIST_ENTRY(claim) link;
	uint16_t port;
	uint32_t ids; /**< and commands that ask for it */
	bool granted; /**< the daemon has said so */
	bool told;    /**< weft knows it */
};

struct block {
	uint16_t first, last;
	bool told;
};

static struct {
	pthread_mutex_t lock; /**< of all here; no other lock is taken under it */
	bool on;              /**< attached */
	pid_t pid;            /**< by this process: a child of vfork() shares all memory */
	bool gone;
	struct portd_client client;
	struct portd_answer hello; /**< of the last time; the configuration is made of the first */
	LIST_HEAD(, claim) claims;
	struct block block[PORTD_BLOCKS];
	uint32_t nblocks;
} part = {.lock = PTHREAD_MUTEX_INITIALIZER};

enum want_what { WANT_NOTHING, WANT_CLAIM, WANT_MORE };

/** What this thread's command needs of the daemon, which is asked without the engine's lock. */
static __thread struct {
	enum want_what what;
	uint16_t port;
	int rc;        /**< of the last answer */
	uint16_t held; /**< claimed, and kept until the command has ended; 0: none */
} want;

static const char *
part_path(void)
{
	return getenv(WV_ENV_PORTD);
}

bool
wv_portd_on(void)
{
	return part_path() != NULL;
}

/** The part stays the parent's: its socket must not live on with the child. */
static void
part_in_child(void)
{
	struct claim *c;

	(void)pthread_mutex_init(&part.lock, NULL);
	if (!part.on)
		return;
	portd_client_close(&part.client);
	part.on = part.gone = false;
	part.nblocks = 0;
	while ((c = LIST_FIRST(&part.claims)) != NULL) {
		LIST_REMOVE(c, link);
		free(c);
	}
}

static void
part_once(void)
{
	(void)pthread_atfork(NULL, NULL, part_in_child);
}

static void
part_add_block(uint16_t first, uint16_t last)
{
	if (part.nblocks < PORTD_BLOCKS && first != 0 && first <= last)
		part.block[part.nblocks++] = (struct block){.first = first, .last = last};
}

/** Of a child of fork() whose parent has the device, and of one of vfork(). */
static bool
part_is_others(void)
{
	return wv_engine_orphan() || (part.on && part.pid != getpid());
}

static bool
part_same(const struct portd_answer *a, const struct portd_answer *b)
{
	return memcmp(&a->ipv4, &b->ipv4, sizeof(a->ipv4)) == 0 &&
	       memcmp(&a->ipv6, &b->ipv6, sizeof(a->ipv6)) == 0 && a->vlan_id == b->vlan_id &&
	       a->mtu_bytes == b->mtu_bytes;
}

/** Under the lock. */
static int
part_attach(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	const char *path = part_path();
	struct portd_answer hello;
	int rc;

	if (part_is_others())
		return -EPERM;
	if (part.on)
		return 0;
	if (path == NULL)
		return -EPERM;
	(void)pthread_once(&once, part_once);
	rc = portd_client_open(&part.client, path, &hello);
	if (rc != 0)
		return rc;
	/* A daemon that was started again, or the parent's: the program knows its addresses. */
	if (part.hello.mtu_bytes != 0 && !part_same(&part.hello, &hello)) {
		portd_client_close(&part.client);
		return -EADDRNOTAVAIL;
	}
	part.hello = hello;
	part.on = true;
	part.pid = getpid();
	part.gone = false;
	part_add_block(part.hello.first_port, part.hello.last_port);
	return 0;
}

int
wv_portd_attach(struct portd_answer *hello, char *err, size_t err_size)
{
	int rc;

	pthread_mutex_lock(&part.lock);
	rc = part_attach();
	*hello = part.hello;
	pthread_mutex_unlock(&part.lock);
	if (rc != 0)
		snprintf(err, err_size, "%s: %s", part_path(), wv_portd_why(rc));
	return rc;
}

int
wv_portd_device(struct conf *c, char *err, size_t err_size)
{
	struct portd_answer hello;
	static struct conf now;
	int rc = wv_portd_attach(&hello, err, err_size);

	if (rc == 0)
		rc = wv_config_read(&now, &hello, err, err_size);
	if (rc != 0)
		return rc;
	c->ports[0] = now.ports[0];
	return 0;
}

/* ---- Ports ---- */

static bool
part_in_block(uint16_t port)
{
	for (uint32_t i = 0; i < part.nblocks; i++)
		if (port >= part.block[i].first && port <= part.block[i].last)
			return true;
	return false;
}

static struct claim *
part_claim_of(uint16_t port)
{
	struct claim *c;

	LIST_FOREACH (c, &part.claims, link)
		if (c->port == port)
			return c;
	return NULL;
}

/** What a program is told of an error of the daemon's calls. */
static int
part_error(int rc)
{
	return rc == 0 || rc == -EADDRINUSE || rc == -ENOSPC || rc == -ENOMEM ? rc : -ENETDOWN;
}

/** Leave a question for wv_portd_ask(). The answer to the same one, if it was an error. */
static int
part_want(enum want_what what, uint16_t port)
{
	if (want.what == what && want.port == port && want.rc != 0)
		return want.rc;
	want.what = what;
	want.port = port;
	return -EAGAIN;
}

static int
part_bind(uint16_t port)
{
	struct claim *c = part.on ? part_claim_of(port) : NULL;

	if (part.on && part_in_block(port))
		return 0;
	if (c == NULL || !c->granted)
		return part_want(WANT_CLAIM, port);
	c->ids++;
	return 0;
}

int
wv_portd_bind(uint16_t port)
{
	int rc;

	if (!wv_portd_on())
		return 0;
	pthread_mutex_lock(&part.lock);
	/* A child of the process that has the device: what it binds is nowhere. */
	rc = part_is_others() ? 0 : part_bind(port);
	pthread_mutex_unlock(&part.lock);
	return rc;
}

/** Or later, if the daemon is slow: wv_portd_sweep() tries again. */
/** Without the lock while the daemon is asked: the thread that polls must not wait for it. */
static int
part_ask_claim(uint16_t port)
{
	struct claim *c;
	int rc;

	pthread_mutex_lock(&part.lock);
	rc = part_attach();
	if (rc != 0 || part_in_block(port)) {
		pthread_mutex_unlock(&part.lock);
		return rc;
	}
	c = part_claim_of(port);
	if (c == NULL && (c = calloc(1, sizeof(*c))) != NULL) {
		c->port = port;
		LIST_INSERT_HEAD(&part.claims, c, link);
	}
	if (c == NULL) {
		pthread_mutex_unlock(&part.lock);
		return -ENOMEM;
	}
	/* It stays meanwhile. */
	c->ids++;
	if (!c->granted) {
		pthread_mutex_unlock(&part.lock);
		rc = portd_client_claim(&part.client, port);
		pthread_mutex_lock(&part.lock);
	}
	if (rc == 0) {
		c->granted = true;
		want.held = port;
	} else if (--c->ids == 0 && !c->granted) {
		LIST_REMOVE(c, link);
		free(c);
	}
	pthread_mutex_unlock(&part.lock);
	return rc;
}

static int
part_ask_more(void)
{
	uint16_t first, last;
	bool on;
	int rc;

	pthread_mutex_lock(&part.lock);
	on = part.on && !part_is_others();
	pthread_mutex_unlock(&part.lock);
	rc = on ? portd_client_more(&part.client, &first, &last) : -ENETDOWN;
	if (rc != 0)
		return rc;
	pthread_mutex_lock(&part.lock);
	part_add_block(first, last);
	pthread_mutex_unlock(&part.lock);
	return 0;
}

void
wv_portd_begin(void)
{
	want.what = WANT_NOTHING;
	want.rc = 0;
}

bool
wv_portd_ask(void)
{
	if (want.what == WANT_NOTHING)
		return false;
	wv_portd_end();
	want.rc = part_error(want.what == WANT_CLAIM ? part_ask_claim(want.port) : part_ask_more());
	return true;
}

void
wv_portd_end(void)
{
	if (want.held != 0)
		wv_portd_unbind(want.held);
	want.held = 0;
}

static void
part_give_back(struct claim *c)
{
	/* If the daemon is gone, so are its claims. */
	if (portd_client_release(&part.client, c->port) == -EAGAIN)
		return;
	LIST_REMOVE(c, link);
	free(c);
}

void
wv_portd_unbind(uint16_t port)
{
	struct claim *c;

	if (!wv_portd_on())
		return;
	pthread_mutex_lock(&part.lock);
	c = part.on ? part_claim_of(port) : NULL;
	if (c != NULL && c->ids > 0 && --c->ids == 0 && !c->told)
		part_give_back(c);
	pthread_mutex_unlock(&part.lock);
}

uint32_t
wv_portd_dynamic(void)
{
	uint32_t n = 0;

	if (!wv_portd_on())
		return 0;
	pthread_mutex_lock(&part.lock);
	(void)part_attach();
	for (uint32_t i = 0; part.on && i < part.nblocks; i++)
		n += part.block[i].last - part.block[i].first + 1u;
	pthread_mutex_unlock(&part.lock);
	return n;
}

uint16_t
wv_portd_nth(uint32_t i)
{
	uint16_t port = 0;

	pthread_mutex_lock(&part.lock);
	for (uint32_t b = 0; b < part.nblocks && port == 0; b++) {
		const uint32_t n = part.block[b].last - part.block[b].first + 1u;

		if (i < n)
			port = (uint16_t)(part.block[b].first + i);
		i -= n;
	}
	pthread_mutex_unlock(&part.lock);
	return port;
}

int
wv_portd_more(void)
{
	return part_want(WANT_MORE, 0);
}

/* ---- Weft's part ---- */

void
wv_portd_tell(void)
{
	struct weft_port *port = wv_engine.ports[0];
	struct claim *c;

	if (!wv_portd_on() || port == NULL)
		return;
	pthread_mutex_lock(&part.lock);
	for (uint32_t i = 0; i < part.nblocks; i++) {
		struct block *b = &part.block[i];

		if (!b->told)
			b->told = weft_port_tcp_add(port, b->first, b->last, true) == 0;
	}
	LIST_FOREACH (c, &part.claims, link)
		if (!c->told && c->granted && c->ids > 0)
			c->told = weft_port_tcp_add(port, c->port, c->port, false) == 0;
	pthread_mutex_unlock(&part.lock);
}

void
wv_portd_sweep(void)
{
	struct claim *c, *next;

	if (!wv_portd_on())
		return;
	pthread_mutex_lock(&part.lock);
	for (c = LIST_FIRST(&part.claims); c != NULL; c = next) {
		next = LIST_NEXT(c, link);
		if (c->ids > 0 || (c->told && weft_port_tcp_drop(wv_engine.ports[0], c->port) != 0))
			continue;
		c->told = false;
		part_give_back(c);
	}
	pthread_mutex_unlock(&part.lock);
}

bool
wv_portd_gone(void)
{
	bool gone;

	if (!wv_portd_on())
		return false;
	pthread_mutex_lock(&part.lock);
	if (part.on && !part.gone && portd_client_gone(&part.client)) {
		part.gone = true;
		fprintf(stderr, "weft: %s: weft-portd has ended; all connections end\n",
		        part_path());
	}
	gone = part.gone;
	pthread_mutex_unlock(&part.lock);
	return gone;
}
