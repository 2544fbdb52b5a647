/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Appends to a log that weft-targets host (docs/log-host.md). */

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "client.h"
#include "client_wait.h"
#include "ui.h"

/* wait for the writer's place, because the previous run has just released it */
#define HOSTS_WAIT_US 10000000
#define HOSTS_ID      "weft-perf" /* the beginning of target_id; the rest is random */

static void
host_ready(void *user, const struct weft_log_target *granted)
{
	struct client_host *h = user;
	struct client *c = h->c;
	struct weft_log_super super = {.size = sizeof(super),
	                               .log_id = "weft-perf log",
	                               .target_id = HOSTS_ID,
	                               .targets = c->job.hosts->n,
	                               .quorum = c->job.hosts->quorum};
	struct weft_log_target t = *granted;
	const size_t n = strlen(HOSTS_ID);
	int rc = -EIO;

	if (getrandom(super.target_id + n, sizeof(super.target_id) - n, 0) > 0) {
		t.format = &super;
		t.user = h;
		rc = weft_log_join(c->log, &t);
	}
	if (rc >= 0)
		return;
	weft_qp_destroy(t.qp);
	c->err = c->dead ? c->err : rc;
	c->dead = true;
}

static void
host_over(void *user, int status, const char *why)
{
	struct client_host *h = user;
	struct client *c = h->c;

	if (!c->dead) {
		c->err = status;
		snprintf(c->term, sizeof(c->term), "%s", why);
	}
	c->dead = true;
}

static bool
hosts_joined(const struct client *c)
{
	struct weft_log_info info;
	unsigned int n = 0;

	weft_log_query(c->log, &info);
	for (unsigned int i = 0; i < WEFT_LOG_MAX_TARGETS; i++)
		n += info.target[i].state == WEFT_LOG_TARGET_JOINED;
	return n == c->job.hosts->n;
}

/** Check that the log was made by weft-perf, because a run trims it. */
static int
hosts_ours(const struct client *c)
{
	struct weft_log_info info;

	weft_log_query(c->log, &info);
	for (unsigned int i = 0; i < WEFT_LOG_MAX_TARGETS; i++)
		if (info.target[i].state == WEFT_LOG_TARGET_JOINED &&
		    memcmp(info.target[i].id, HOSTS_ID, strlen(HOSTS_ID)) != 0)
			return -EEXIST;
	return 0;
}

int
client_hosts_begin(struct client *c, struct weft_ctx *ctx)
{
	const struct perf_hosts *hosts = c->job.hosts;
	int rc = log_hub_up(&c->hub, ctx, c->w);

	for (unsigned int i = 0; rc == 0 && i < hosts->n; i++) {
		struct log_client_attr a = {
		        .hub = &c->hub,
		        .log = c->log,
		        .pd = c->pd,
		        .to = hosts->at[i].to,
		        .export_name = hosts->at[i].export_name,
		        .auth_name = hosts->auth.name[0] != '\0' ? hosts->auth.name : NULL,
		        .auth_keys = &hosts->auth.keys,
		        .wait_us = HOSTS_WAIT_US,
		        .ready = host_ready,
		        .over = host_over,
		        .user = &c->host[i],
		};

		c->host[i].c = c;
		rc = log_client_start(&a, &c->host[i].client);
	}
	if (rc == 0)
		rc = client_wait(c, hosts_joined);
	if (rc == 0)
		rc = hosts_ours(c);
	if (rc == -EEXIST)
		snprintf(c->term, sizeof(c->term),
		         "a target has a log that weft-perf has not made; it is not touched");
	if (rc == 0)
		rc = client_log_open(c);
	return rc;
}

void
client_hosts_end(struct client *c)
{
	for (unsigned int i = 0; i < WEFT_LOG_MAX_TARGETS; i++)
		log_client_end(c->host[i].client);
	log_hub_down(&c->hub);
}
