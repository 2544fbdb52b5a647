/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Commands of the program on the telemetry socket. DPDK passes no user argument to a command and
 * cannot unregister one. So a table here holds the argument of each command and whether it is
 * valid, by name.
 */

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#include <rte_telemetry.h>

#include "observe_priv.h"
#include <weft/telemetry.h>

#define TEL_MAX_COMMANDS 16
#define TEL_CMD_BYTES    56 /* DPDK's limit, with the final zero */

struct tel_command {
	char cmd[TEL_CMD_BYTES];
	weft_tel_fn fn; /**< NULL: unregistered by weft_telemetry_forget() */
	void *user;
};

static pthread_mutex_t cmd_lock = PTHREAD_MUTEX_INITIALIZER;
static struct tel_command commands[TEL_MAX_COMMANDS]; /**< protected by cmd_lock */
static unsigned int ncommands;

/** struct weft_tel is the public name of DPDK's structure. */
static inline struct rte_tel_data *
tel_data(struct weft_tel *t)
{
	return (struct rte_tel_data *)t;
}

static struct tel_command *
tel_find(const char *cmd)
{
	for (unsigned int i = 0; i < ncommands; i++)
		if (strcmp(commands[i].cmd, cmd) == 0)
			return &commands[i];
	return NULL;
}

int
observe_answer(int rc, struct rte_tel_data *d)
{
	const char *why;

	if (rc >= 0)
		return rc;
	switch (rc) {
	case -EINVAL:
		why = "bad parameters; /help,COMMAND says which there are";
		break;
	case -ENOENT:
		why = "nothing has that name or number";
		break;
	case -ETIMEDOUT:
		why = "the worker does not answer: it does not poll";
		break;
	default:
		why = strerror(-rc);
		break;
	}
	rte_tel_data_start_dict(d);
	rte_tel_data_add_dict_string(d, "error", why);
	return 0;
}

static int
tel_serve(const char *cmd, const char *params, struct rte_tel_data *d)
{
	struct tel_command *c;
	int rc = -ENOENT;

	rte_tel_data_start_dict(d);
	pthread_mutex_lock(&cmd_lock);
	c = tel_find(cmd);
	if (c != NULL && c->fn != NULL)
		rc = c->fn(c->user, params != NULL ? params : "", (struct weft_tel *)d);
	pthread_mutex_unlock(&cmd_lock);
	return observe_answer(rc, d);
}

static bool
tel_name_ok(const char *cmd)
{
	if (cmd == NULL || cmd[0] != '/' || strlen(cmd) >= TEL_CMD_BYTES)
		return false;
	for (const char *p = cmd; *p != '\0'; p++)
		if (!isalnum((unsigned char)*p) && *p != '_' && *p != '/')
			return false;
	return true;
}

int
weft_telemetry_command(const char *cmd, const char *help, weft_tel_fn fn, void *user)
{
	struct tel_command *c;
	int rc = 0;

	if (!tel_name_ok(cmd) || help == NULL || fn == NULL)
		return -EINVAL;
	pthread_mutex_lock(&cmd_lock);
	c = tel_find(cmd);
	if (c != NULL && c->fn != NULL) {
		rc = -EEXIST;
	} else if (c == NULL && ncommands == TEL_MAX_COMMANDS) {
		rc = -ENOSPC;
	} else if (c == NULL) {
		c = &commands[ncommands];
		snprintf(c->cmd, sizeof(c->cmd), "%s", cmd);
		rc = rte_telemetry_register_cmd(cmd, tel_serve, help);
		if (rc == 0)
			ncommands++;
	}
	if (rc == 0) {
		c->fn = fn;
		c->user = user;
	}
	pthread_mutex_unlock(&cmd_lock);
	return rc;
}

void
weft_telemetry_forget(const char *cmd)
{
	struct tel_command *c;

	if (cmd == NULL)
		return;
	pthread_mutex_lock(&cmd_lock);
	c = tel_find(cmd);
	if (c != NULL)
		c->fn = NULL;
	pthread_mutex_unlock(&cmd_lock);
}

void
weft_tel_u64(struct weft_tel *t, const char *name, uint64_t value)
{
	char n[WEFT_TEL_NAME_MAX + 1];

	if (t == NULL || name == NULL)
		return;
	snprintf(n, sizeof(n), "%s", name);
	rte_tel_data_add_dict_u64(tel_data(t), n, value);
}

void
weft_tel_text(struct weft_tel *t, const char *name, const char *value)
{
	char n[WEFT_TEL_NAME_MAX + 1], v[WEFT_TEL_TEXT_MAX + 1];

	if (t == NULL || name == NULL || value == NULL)
		return;
	snprintf(n, sizeof(n), "%s", name);
	snprintf(v, sizeof(v), "%s", value);
	rte_tel_data_add_dict_string(tel_data(t), n, v);
}
