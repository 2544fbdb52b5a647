/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Admission to authentication: how long a client may take, how often an address may fail, and
 * by which addresses clients may have called the target (docs/host-auth.md).
 */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "addr.h"
#include "target.h"
#include "target_say.h"
#include "ui.h"
#include "url.h"
#include <weft/room.h>

#define US_PER_MS 1000

static int
admit_known_as(struct target *t, const char *item, char *err, size_t err_size)
{
	char text[512], why[CONF_ERR_MAX];
	struct sockaddr_storage a;
	struct url u;

	snprintf(text, sizeof(text), "weft://%s", item);
	if (url_parse(text, &u, why, sizeof(why)) != 0 || u.export_name[0] != '\0' ||
	    addr_parse(u.host, u.port, &a) != 0) {
		snprintf(err, err_size,
		         "[target] known_as: \"%s\" is no address and port; write 192.0.2.1:7471 "
		         "or [2001:db8::1]:7471",
		         item);
		return -EINVAL;
	}
	if (t->nknown_as == TARGET_KNOWN_AS) {
		snprintf(err, err_size, "[target] known_as: more than %d", TARGET_KNOWN_AS);
		return -EINVAL;
	}
	return host_auth_place(&a, &t->known_as[t->nknown_as++]);
}

int
target_admit_open(struct target *t, char *err, size_t err_size)
{
	char text[sizeof(t->conf.target.known_as)], *save = NULL;

	pthread_mutex_init(&t->holdoff.lock, NULL);
	strcpy(text, t->conf.target.known_as);
	for (char *p = strtok_r(text, ", \t", &save); p != NULL;
	     p = strtok_r(NULL, ", \t", &save)) {
		int rc = admit_known_as(t, p, err, err_size);

		if (rc != 0)
			return rc;
	}
	return 0;
}

void
target_admit_room(const struct conf *c, void (*say)(const char *fmt, ...))
{
	const uint32_t conns = weft_room_conns(&c->tcp, UINT32_MAX / 2, 1);

	for (uint32_t i = 0; i < c->nports; i++) {
		const struct conf_port *p = &c->ports[i];
		uint32_t n = stack_sharers(c, c->nworkers, p->name);
		uint32_t most = weft_room_conns(&c->tcp, p->mbufs, n);

		if (n > 0 && most < conns)
			say("port %s: its %u mbufs admit %u connections at most, half of them for "
			    "one address, not max_conns times workers, which is %" PRIu64
			    " (mbufs, [tcp] max_conns)",
			    p->name, p->mbufs, n * most, (uint64_t)n * conns);
	}
}

bool
target_admit(struct target *t, const struct sockaddr_storage *peer)
{
	char host[ADDR_STR_MAX];

	/* Where authentication is not required, a held address may connect; target_admit_asked()
	 * refuses its attempt. */
	if (t->conf.target.host_auth != CONF_HOST_AUTH_REQUIRED ||
	    !holdoff_held(&t->holdoff, peer, ui_now_ns()))
		return true;
	target_log(UI_WARNING "%s: rejected: its authentication failed, and it has to wait",
	           addr_host_str(peer, host));
	return false;
}

static void
admit_late(void *arg)
{
	struct target_conn *c = arg;

	c->auth_alarm = NULL;
	atomic_fetch_add_explicit(&c->w->t->auth_late, 1, memory_order_relaxed);
	target_log(UI_WARNING "%s: closed: it did not authenticate within %u ms", c->peer,
	           c->w->t->conf.target.auth_timeout_ms);
	if (c->auth_refused == 0)
		target_admit_failed(c);
	c->w->ops->close(c);
}

static int
admit_arm(struct target_conn *c)
{
	uint64_t us = (uint64_t)c->w->t->conf.target.auth_timeout_ms * US_PER_MS;

	return weft_alarm_set(c->w->w, us, admit_late, c, &c->auth_alarm);
}

int
target_admit_begin(struct target_conn *c, const struct sockaddr_storage *peer)
{
	c->remote = *peer;
	return c->w->t->conf.target.host_auth == CONF_HOST_AUTH_REQUIRED ? admit_arm(c) : 0;
}

int
target_admit_asked(struct target_conn *c)
{
	if (c->w->t->conf.target.host_auth == CONF_HOST_AUTH_OPTIONAL &&
	    holdoff_held(&c->w->t->holdoff, &c->remote, ui_now_ns())) {
		c->held_off = true;
		target_log(UI_WARNING
		           "%s: refused: authentication failed from its address, which has to wait",
		           c->peer);
		return -EACCES;
	}
	return c->auth_alarm == NULL ? admit_arm(c) : 0;
}

void
target_admit_failed(struct target_conn *c)
{
	holdoff_failed(&c->w->t->holdoff, &c->remote, ui_now_ns());
}

void
target_admit_passed(struct target_conn *c)
{
	holdoff_passed(&c->w->t->holdoff, &c->remote, ui_now_ns());
	target_admit_end(c);
}

void
target_admit_end(struct target_conn *c)
{
	if (c->auth_alarm != NULL)
		weft_alarm_cancel(c->auth_alarm);
	c->auth_alarm = NULL;
}
