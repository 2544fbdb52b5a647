/* SPDX-License-Identifier: BSD-3-Clause */
/** @file NVMe over Fabrics: subsystems, and exports as their namespaces. */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nvmf_keys.h"
#include "nvmf_secrets.h"
#include "target.h"
#include "target_nvmf.h"
#include "target_round.h"
#include "target_state.h"
#include "target_volume.h"
#include "ui.h"

#define NS_PER_MS 1000000ULL

/** What one worker does for one namespace. */
struct ns_call {
	struct target_round round;
	struct weft_nvmf_group *group;
	struct weft_nvmf_subsys *s;
	uint32_t nsid;
	struct weft_vol_chan *chan;
};

static void
worker_attach(void *arg)
{
	struct ns_call *call = arg;
	const int rc = weft_nvmf_group_attach(call->group, call->s, call->nsid, call->chan);

	target_round_done(&call->round, rc == 0 || rc == -EEXIST);
}

static void
worker_detach(void *arg)
{
	struct ns_call *call = arg;
	const int rc = weft_nvmf_group_detach(call->group, call->s, call->nsid);

	target_round_done(&call->round, rc == 0 || rc == -ENOENT);
}

/** Of namespace i of a subsystem. ex: of whose channels; NULL: the channels do not matter. */
static bool
ns_round(struct target_nvmf *n, const struct target_nvmf_subsys *sub, uint32_t i,
         const struct target_export *ex, void (*fn)(void *arg))
{
	struct ns_call calls[CONF_WORKERS_MAX] = {0};

	for (uint32_t k = 0; k < n->t->stack.nworkers; k++) {
		calls[k].group = n->workers[k].group;
		calls[k].s = sub->s;
		calls[k].nsid = sub->conf.ns[i].nsid;
		if (ex != NULL)
			calls[k].chan = target_vchan_of(&n->t->workers[k], ex)->chan;
	}
	return target_round(n->t, calls, sizeof(calls[0]), fn);
}

/** Change whose namespace it is. */
static void
ns_set(struct target_nvmf *n, struct target_nvmf_subsys *sub, uint32_t i, struct target_export *ex)
{
	pthread_mutex_lock(&n->lock);
	sub->ex[i] = ex;
	pthread_mutex_unlock(&n->lock);
}

/** Until when commands that are under way may take. */
static uint64_t
ns_deadline(void)
{
	return ui_now_ns() + TARGET_NVMF_LEAVE_MS * NS_PER_MS;
}

/**
 * Take the namespace from its hosts. False: commands are under way still at until_ns. It is `going`
 * then: no worker can attach it again, and target_nvmf_look() goes on.
 */
static bool
ns_remove(struct target_nvmf *n, struct target_nvmf_subsys *sub, uint32_t i, uint64_t until_ns)
{
	const uint32_t nsid = sub->conf.ns[i].nsid;
	struct target_export *ex;
	const char *nqn;
	int rc;

	sub->going[i] = true;
	for (;;) {
		/* From the first call on it is inactive: its commands are refused for good. */
		rc = weft_nvmf_ns_remove(sub->s, nsid);
		if (rc == -EAGAIN && ns_round(n, sub, i, NULL, worker_detach))
			rc = weft_nvmf_ns_remove(sub->s, nsid);
		if (rc != -EAGAIN || ui_now_ns() >= until_ns)
			break;
		usleep(1000);
	}
	if (rc == -EAGAIN)
		return false;
	ex = sub->ex[i];
	ns_set(n, sub, i, NULL);
	sub->going[i] = false;
	/* no host has it any more: clients may do what they could before */
	if (ex != NULL && !target_nvmf_has(n->t, ex, &nqn))
		target_nvmf_resv_gone(n, ex);
	return true;
}

static struct weft_nvmf_ns_attr
ns_attr(struct target_export *ex, uint32_t nsid)
{
	const uint32_t rights =
	        target_volume_may(ex, atomic_load_explicit(&ex->rights, memory_order_relaxed));
	struct weft_block_info info;

	weft_block_query(ex->volume->block, &info);
	return (struct weft_nvmf_ns_attr){
	        .nsid = nsid,
	        .vol = ex->volume->vol,
	        .persistent = info.persistent,
	        .volatile_cache = info.volatile_cache,
	        .discard_zeroes = (info.can & WEFT_BLOCK_CAN_DISCARD_ZEROES) != 0,
	        .read_only = (rights & CONF_RIGHT_WRITE) == 0,
	        .owner = ex,
	};
}

static const char *
ns_why(int rc)
{
	switch (rc) {
	case -EOPNOTSUPP:
		return "a power failure may leave a part of a logical block on its medium (driver "
		       "pmem)";
	case -EINVAL:
		return "the volume has not one logical block";
	case -EBADMSG:
		return "the reservations of its volume cannot be read; a host or a client might "
		       "write what another host has reserved, so neither has access";
	case -ENOTRECOVERABLE:
		return "a note by which the next start removes the reservations of its volume "
		       "stays (reservations/UUID.gone), so neither hosts nor clients have access";
	case -EAGAIN:
		return "commands are under way still; it comes when they have ended";
	default:
		return strerror(-rc);
	}
}

/** The export's volume is there. */
static void
ns_enter(struct target_nvmf *n, struct target_nvmf_subsys *sub, uint32_t i,
         struct target_export *ex)
{
	const uint32_t nsid = sub->conf.ns[i].nsid;
	const struct weft_nvmf_ns_attr attr = ns_attr(ex, nsid);
	const char *why = conf_ns_refuses(ex->conf), *nqn;
	char path[CONF_PATH_MAX + 64];
	int rc = why != NULL ? -EPERM : -ENOENT;

	if (why == NULL && sub->ex[i] == ex)
		for (const uint64_t until = ns_deadline(); ui_now_ns() < until;) {
			rc = weft_nvmf_ns_renew(sub->s, &attr);
			if (rc != -EAGAIN)
				break;
			usleep(1000);
		}
	/* Another volume, or one that hosts had not seen: for them another disk. */
	if (sub->ex[i] != NULL && rc != 0 && !ns_remove(n, sub, i, ns_deadline()))
		rc = -EAGAIN;
	/* What it refuses, it refuses again; but clients are limited as before. */
	if (rc != 0 && rc != -EAGAIN && why == NULL)
		rc = target_nvmf_resv_add(n, sub->s, &attr, !target_nvmf_has(n->t, ex, &nqn));
	if (rc != 0) {
		ui_msg(UI_WARNING "subsystem %s: namespace %" PRIu32 " is not there: export %s: %s",
		       sub->conf.nqn, nsid, ex->conf->name, why != NULL ? why : ns_why(rc));
		if (rc == -EBADMSG && n->t->state != NULL)
			ui_msg("export %s: to give its reservations up, stop the target, remove "
			       "%s, and start the target again",
			       ex->conf->name,
			       state_resv_path(n->t->state,
			                       weft_vol_info(ex->volume->vol)->super.uuid, path,
			                       sizeof(path)));
		return;
	}
	ns_set(n, sub, i, ex);
	if (ex->conf->max_bytes_per_s > 0 || ex->conf->max_ops_per_s > 0 ||
	    ex->conf->client_bytes_per_s > 0 || ex->conf->client_ops_per_s > 0)
		ui_msg(UI_WARNING "export %s: its limits do not hold for hosts of subsystem %s",
		       ex->conf->name, sub->conf.nqn);
	/* One that is drained is not ready: target_nvmf_rights() attaches it when it is served. */
	if ((atomic_load_explicit(&ex->rights, memory_order_relaxed) & CONF_RIGHT_READ) == 0)
		return;
	if (!ns_round(n, sub, i, ex, worker_attach))
		ui_msg(UI_WARNING "subsystem %s: namespace %" PRIu32 " is not ready on all workers",
		       sub->conf.nqn, nsid);
}

#define EACH_SUBSYS(n, sub)                                                                        \
	for (struct target_nvmf_subsys *sub = (n)->subsys; sub < (n)->subsys + CONF_SUBSYS_MAX;    \
	     sub++)                                                                                \
		if (sub->s != NULL && !sub->ending)

void
target_nvmf_enter(struct target *t, struct target_export *ex)
{
	struct target_nvmf *n = t->nvmf;
	char path[CONF_PATH_MAX + 64];
	int rc = 0;

	if (!ex->volume->read_only) {
		memcpy(ex->volume_uuid, weft_vol_info(ex->volume->vol)->super.uuid,
		       sizeof(ex->volume_uuid));
		rc = t->state == NULL ? 0 : state_resv_spare(t->state, ex->volume_uuid);
	}
	if (rc != 0)
		ui_msg(UI_WARNING "export %s: %s.gone cannot be removed: %s; with it, the next "
		                  "start removes the reservations of the volume",
		       ex->conf->name,
		       state_resv_path(t->state, ex->volume_uuid, path, sizeof(path)),
		       strerror(-rc));
	if (n == NULL)
		return;
	EACH_SUBSYS(n, sub)
	{
		for (uint32_t i = 0; i < sub->conf.nns; i++)
			if (!sub->going[i] && (sub->ex[i] == ex ||
			                       (sub->ex[i] == NULL && strcmp(sub->conf.ns[i].export,
			                                                     ex->conf->name) == 0)))
				ns_enter(n, sub, i, ex);
	}
}

bool
target_nvmf_leave(struct target *t, struct target_export *ex)
{
	struct target_nvmf *n = t->nvmf;
	bool ok = true;

	for (uint32_t k = 0; n != NULL && k < CONF_SUBSYS_MAX; k++)
		for (uint32_t i = 0; n->subsys[k].s != NULL && i < n->subsys[k].conf.nns; i++)
			if (n->subsys[k].ex[i] == ex)
				ok = ns_round(n, &n->subsys[k], i, NULL, worker_detach) && ok;
	return ok;
}

void
target_nvmf_rights(struct target *t, struct target_export *ex)
{
	const uint32_t rights = atomic_load_explicit(&ex->rights, memory_order_relaxed);
	struct target_nvmf *n = t->nvmf;

	/* While its medium is closed, the next opening brings what is right. */
	if (n == NULL || ex->volume == NULL || !target_export_up(ex))
		return;
	/* It is drained, for example: hosts wait. */
	if ((rights & CONF_RIGHT_READ) == 0) {
		(void)target_nvmf_leave(t, ex);
		return;
	}
	EACH_SUBSYS(n, sub)
	{
		for (uint32_t i = 0; i < sub->conf.nns; i++) {
			const uint32_t nsid = sub->conf.ns[i].nsid;
			const bool mine = sub->ex[i] == ex;

			if (sub->going[i])
				continue;
			if (mine && conf_ns_refuses(ex->conf) == NULL) {
				(void)weft_nvmf_ns_read_only(
				        sub->s, nsid,
				        (target_volume_may(ex, rights) & CONF_RIGHT_WRITE) == 0);
				(void)ns_round(n, sub, i, ex, worker_attach);
			} else if (mine && ns_remove(n, sub, i, ns_deadline())) {
				ui_msg(UI_WARNING "subsystem %s: namespace %" PRIu32
				                  " is gone: export %s: %s",
				       sub->conf.nqn, nsid, ex->conf->name,
				       conf_ns_refuses(ex->conf));
			} else if (sub->ex[i] == NULL && conf_ns_refuses(ex->conf) == NULL &&
			           strcmp(sub->conf.ns[i].export, ex->conf->name) == 0) {
				ns_enter(n, sub, i, ex);
			}
		}
	}
}

void
target_nvmf_forget(struct target *t, struct target_export *ex)
{
	struct target_nvmf *n = t->nvmf;

	for (uint32_t k = 0; n != NULL && k < CONF_SUBSYS_MAX; k++)
		for (uint32_t i = 0; n->subsys[k].s != NULL && i < n->subsys[k].conf.nns; i++)
			if (n->subsys[k].ex[i] == ex)
				(void)ns_remove(n, &n->subsys[k], i, ns_deadline());
}

bool
target_nvmf_has(struct target *t, const struct target_export *ex, const char **nqn)
{
	const struct target_nvmf *n = t->nvmf;

	for (uint32_t k = 0; n != NULL && k < CONF_SUBSYS_MAX; k++)
		for (uint32_t i = 0; n->subsys[k].s != NULL && i < n->subsys[k].conf.nns; i++)
			if (n->subsys[k].ex[i] == ex) {
				*nqn = n->subsys[k].conf.nqn;
				return true;
			}
	return false;
}

int
target_nvmf_memory(struct target *t, struct weft_block *block)
{
	return t->nvmf == NULL ? 0 : weft_block_mem_add(block, t->nvmf->memory, t->nvmf->bytes);
}

/* ---- Subsystems ---- */

/** Call fn for each NQN of a list of hosts that the other list has not. */
static void
hosts_differ(struct weft_nvmf_subsys *s, const char *list, const char *other,
             int (*fn)(struct weft_nvmf_subsys *s, const char *hostnqn))
{
	char nqn[CONF_NQN_MAX + 1];

	while (*list != '\0' && strcmp(list, "any") != 0) {
		const size_t len = strcspn(list, ",");

		snprintf(nqn, sizeof(nqn), "%.*s", (int)len, list);
		list += len + (list[len] == ',');
		if (conf_has_client(other, nqn))
			continue;
		if (fn(s, nqn) != 0)
			ui_msg(UI_WARNING "host %s: its access is as before: out of memory", nqn);
	}
}

/** Bring the hosts of a subsystem from one list to another. */
static void
hosts_set(struct weft_nvmf_subsys *s, const char *was, const char *now)
{
	const bool any = strcmp(now, "any") == 0;

	hosts_differ(s, now, was, weft_nvmf_host_allow);
	if (any)
		weft_nvmf_any_host(s, true);
	hosts_differ(s, was, now, weft_nvmf_host_deny);
	if (!any)
		weft_nvmf_any_host(s, false);
}

/** Those of the hosts that were there which the configuration has, too; `any` is all of them. */
static void
hosts_common(const char *was, const char *now, char out[CONF_HOSTS_MAX])
{
	size_t at = 0;

	if (strcmp(was, "any") == 0 || strcmp(now, "any") == 0) {
		strcpy(out, strcmp(was, "any") == 0 ? now : was);
		return;
	}
	out[0] = '\0';
	while (*was != '\0') {
		const size_t len = strcspn(was, ",");
		char nqn[CONF_NQN_MAX + 1];

		snprintf(nqn, sizeof(nqn), "%.*s", (int)len, was);
		was += len + (was[len] == ',');
		if (conf_has_client(now, nqn))
			at += (size_t)snprintf(out + at, CONF_HOSTS_MAX - at, "%s%s",
			                       at > 0 ? "," : "", nqn);
	}
}

/** Those of its namespaces whose exports are there. */
static void
subsys_enter(struct target_nvmf *n, struct target_nvmf_subsys *sub)
{
	for (uint32_t i = 0; i < sub->conf.nns; i++) {
		struct target_export *ex = target_export_find(n->t, sub->conf.ns[i].export);

		if (sub->ex[i] == NULL && ex != NULL && ex->volume != NULL && target_export_up(ex))
			ns_enter(n, sub, i, ex);
	}
}

/** Its controllers end, and with it, when all else has, the slot is free. Telemetry, which has the
 * lock, never sees a slot whose subsystem is gone. */
static int
subsys_end(struct target_nvmf *n, struct target_nvmf_subsys *sub)
{
	int rc;

	pthread_mutex_lock(&n->lock);
	rc = weft_nvmf_subsys_remove(sub->s);
	if (rc == 0)
		memset(sub, 0, sizeof(*sub));
	pthread_mutex_unlock(&n->lock);
	return rc;
}

/** Read a file with the secrets of hosts; path empty: they prove nothing. That was done before,
 * with the configuration, so a fault is rare: what hosts had to prove, they still have to. what:
 * for the log. */
static int
secrets_set(struct weft_nvmf_subsys *s, const char *path, uint32_t least, const char *what)
{
	struct weft_nvmf_auth *list = NULL;
	char err[CONF_ERR_MAX];
	uint32_t n = 0;
	int rc = 0;

	if (path[0] != '\0')
		rc = nvmf_secrets_read(path, &list, &n, err, sizeof(err));
	if (rc != 0) {
		ui_msg(UI_ERR "%s: %s", what, err);
		return rc;
	}
	rc = weft_nvmf_auth_set(s, list, n, (uint8_t)least);
	nvmf_secrets_free(list, n);
	return rc;
}

static int
subsys_secrets(struct weft_nvmf_subsys *s, const struct conf_subsys *c)
{
	char what[CONF_NQN_MAX + 16];

	snprintf(what, sizeof(what), "subsystem %s", c->nqn);
	return secrets_set(s, c->secrets, c->secrets_group, what);
}

/** Those of hosts that ask what there is. */
static int
discovery_secrets(struct target_nvmf *n, const struct conf_nvmf *c)
{
	return secrets_set(weft_nvmf_discovery(n->nvmf), c->discovery_secrets, WEFT_NVMF_GROUP_2048,
	                   "discovery");
}

/** Read the file with its hosts' keys of TLS; likewise. -EPROTONOSUPPORT: it has one, and TLS is
 * off in this process: its hosts would come without. */
static int
subsys_keys(struct target_nvmf *n, struct weft_nvmf_subsys *s, const struct conf_subsys *c)
{
	struct weft_nvmf_tls_key *list = NULL;
	char err[CONF_ERR_MAX];
	uint32_t count = 0;
	int rc = 0;

	if (n->tls == NULL)
		return c->tls_keys[0] == '\0' ? 0 : -EPROTONOSUPPORT;
	if (c->tls_keys[0] != '\0')
		rc = nvmf_keys_read(c->tls_keys, &list, &count, err, sizeof(err));
	if (rc != 0) {
		ui_msg(UI_ERR "subsystem %s: %s", c->nqn, err);
		return rc;
	}
	rc = weft_nvmf_tls_set(n->tls, c->nqn, list, count);
	nvmf_keys_free(list, count);
	if (rc == 0)
		weft_nvmf_proven_only(s, count > 0 && n->t->conf.nvmf.tls == CONF_TLS_REQUIRED);
	/* connections by keys that are gone end */
	target_nvmf_wake(n);
	return rc;
}

static int
subsys_add(struct target_nvmf *n, const struct conf_subsys *c)
{
	const struct weft_nvmf_subsys_attr a = {.nqn = c->nqn,
	                                        .serial = c->serial,
	                                        .model = c->model,
	                                        .max_nsid = WEFT_NVMF_MAX_NSID,
	                                        .ana = (enum weft_nvmf_ana_state)c->access,
	                                        .cntlid_min = (uint16_t)c->first_controller,
	                                        .cntlid_max = (uint16_t)c->last_controller};
	struct target_nvmf_subsys *sub = n->subsys;
	struct weft_nvmf_subsys *s;
	int rc;

	while (sub < n->subsys + CONF_SUBSYS_MAX && sub->s != NULL)
		sub++;
	if (sub == n->subsys + CONF_SUBSYS_MAX)
		return -ENOSPC;
	rc = weft_nvmf_subsys_add(n->nvmf, &a, &s);
	if (rc != 0)
		return rc;
	pthread_mutex_lock(&n->lock);
	*sub = (struct target_nvmf_subsys){.s = s, .conf = *c};
	pthread_mutex_unlock(&n->lock);
	/* No host may use it yet. */
	rc = subsys_secrets(s, c);
	if (rc == 0)
		rc = subsys_keys(n, s, c);
	if (rc != 0) {
		(void)subsys_end(n, sub);
		return rc;
	}
	hosts_set(s, "", c->hosts);
	subsys_enter(n, sub);
	return 0;
}

/** End its controllers, and it. False: they have not ended yet. */
static bool
subsys_remove(struct target_nvmf *n, struct target_nvmf_subsys *sub, uint64_t until_ns)
{
	char nqn[CONF_NQN_MAX + 1];
	bool gone = true;
	int rc;

	memcpy(nqn, sub->conf.nqn, sizeof(nqn));
	sub->ending = true;
	if (n->tls != NULL) {
		(void)weft_nvmf_tls_set(n->tls, nqn, NULL, 0);
		/* connections by its keys end, those to the discovery subsystem, too */
		target_nvmf_wake(n);
	}
	/* Its hosts lose their connections first, and with these the commands of its namespaces. */
	rc = subsys_end(n, sub);
	for (uint32_t i = 0; rc != 0 && i < sub->conf.nns; i++)
		gone = (sub->ex[i] == NULL || ns_remove(n, sub, i, until_ns)) && gone;
	while (gone && rc == -EAGAIN) {
		rc = subsys_end(n, sub);
		if (rc != -EAGAIN || ui_now_ns() >= until_ns)
			break;
		usleep(1000);
	}
	if (rc != 0)
		return false;
	ui_msg("subsystem %s: gone", nqn);
	return true;
}

int
target_nvmf_subsystems(struct target *t, char *err, size_t err_size)
{
	int rc = discovery_secrets(t->nvmf, &t->conf.nvmf);

	if (rc != 0)
		snprintf(err, err_size, "[nvmf] discovery_secrets: %s", strerror(-rc));
	t->nvmf->discovery_proves = t->conf.nvmf.discovery_secrets[0] != '\0';
	for (uint32_t i = 0; rc == 0 && i < t->conf.nsubsys; i++) {
		rc = subsys_add(t->nvmf, &t->conf.subsys[i]);
		if (rc != 0)
			snprintf(err, err_size, "[subsystem %s]: %s", t->conf.subsys[i].nqn,
			         strerror(-rc));
	}
	return rc;
}

/* ---- SIGHUP ---- */

static const struct conf_subsys *
subsys_find(const struct conf *c, const char *nqn)
{
	for (uint32_t i = 0; i < c->nsubsys; i++)
		if (strcmp(c->subsys[i].nqn, nqn) == 0)
			return &c->subsys[i];
	return NULL;
}

static bool
subsys_has_ns(const struct conf_subsys *c, const struct conf_ns *ns)
{
	for (uint32_t i = 0; i < c->nns; i++)
		if (c->ns[i].nsid == ns->nsid && strcmp(c->ns[i].export, ns->export) == 0)
			return true;
	return false;
}

/** Take from hosts what the configuration has no more, and what was to go before. */
static bool
subsys_take_ns(struct target_nvmf *n, struct target_nvmf_subsys *sub, const struct conf_subsys *c,
               uint64_t until_ns)
{
	bool gone = true;

	for (uint32_t i = 0; i < sub->conf.nns; i++)
		if (sub->ex[i] != NULL && (sub->going[i] || !subsys_has_ns(c, &sub->conf.ns[i])))
			gone = ns_remove(n, sub, i, until_ns) && gone;
	return gone;
}

/** Bring its namespaces to those of the configuration. False: one of them cannot go yet. */
static bool
subsys_set_ns(struct target_nvmf *n, struct target_nvmf_subsys *sub, const struct conf_subsys *c,
              uint64_t until_ns)
{
	struct target_export *ex[CONF_NS_MAX] = {0};

	/* All of them begin to go before one is waited for. */
	if (!subsys_take_ns(n, sub, c, 0) &&
	    (until_ns == 0 || !subsys_take_ns(n, sub, c, until_ns)))
		return false;
	for (uint32_t i = 0; i < c->nns; i++)
		for (uint32_t k = 0; k < sub->conf.nns; k++)
			if (sub->conf.ns[k].nsid == c->ns[i].nsid)
				ex[i] = sub->ex[k];
	pthread_mutex_lock(&n->lock);
	memcpy(sub->conf.ns, c->ns, sizeof(c->ns));
	sub->conf.nns = c->nns;
	memcpy(sub->ex, ex, sizeof(ex));
	pthread_mutex_unlock(&n->lock);
	subsys_enter(n, sub);
	return true;
}

/** Another state of this path. Hosts that know of none, or of one, keep that. */
static void
subsys_access(struct target_nvmf *n, struct target_nvmf_subsys *sub, const struct conf_subsys *c)
{
	if (c->access == WEFT_NVMF_ANA_OFF || sub->conf.access == WEFT_NVMF_ANA_OFF) {
		ui_msg(UI_WARNING "subsystem %s: access to and from `alone` changes with a restart",
		       c->nqn);
		return;
	}
	(void)weft_nvmf_ana(sub->s, (enum weft_nvmf_ana_state)c->access);
	pthread_mutex_lock(&n->lock);
	sub->conf.access = c->access;
	pthread_mutex_unlock(&n->lock);
	ui_msg("subsystem %s: its access has changed", c->nqn);
}

/** The file may have changed, and its name. False: it could not be read. */
static bool
subsys_reload_secrets(struct target_nvmf *n, struct target_nvmf_subsys *sub,
                      const struct conf_subsys *c)
{
	if (subsys_secrets(sub->s, c) != 0) {
		ui_msg(UI_WARNING "subsystem %s: its secrets are as before", c->nqn);
		return false;
	}
	pthread_mutex_lock(&n->lock);
	memcpy(sub->conf.secrets, c->secrets, sizeof(c->secrets));
	pthread_mutex_unlock(&n->lock);
	ui_msg("subsystem %s: %s", c->nqn,
	       c->secrets[0] != '\0' ? "its secrets were read again"
	                             : "its hosts need not prove their names any more");
	return true;
}

/** Likewise, its hosts' keys of TLS. */
static bool
subsys_reload_keys(struct target_nvmf *n, struct target_nvmf_subsys *sub,
                   const struct conf_subsys *c)
{
	if (n->tls == NULL) {
		ui_msg(UI_WARNING "subsystem %s: tls of [nvmf] changes with a restart", c->nqn);
		return false;
	}
	if (subsys_keys(n, sub->s, c) != 0) {
		ui_msg(UI_WARNING "subsystem %s: its keys of TLS are as before", c->nqn);
		return false;
	}
	pthread_mutex_lock(&n->lock);
	memcpy(sub->conf.tls_keys, c->tls_keys, sizeof(c->tls_keys));
	pthread_mutex_unlock(&n->lock);
	ui_msg("subsystem %s: %s", c->nqn,
	       c->tls_keys[0] != '\0' ? "its keys of TLS were read again"
	                              : "its hosts have no keys of TLS any more");
	return true;
}

static void
subsys_set_hosts(struct target_nvmf *n, struct target_nvmf_subsys *sub, const char *hosts)
{
	if (strcmp(hosts, sub->conf.hosts) == 0)
		return;
	hosts_set(sub->s, sub->conf.hosts, hosts);
	pthread_mutex_lock(&n->lock);
	snprintf(sub->conf.hosts, sizeof(sub->conf.hosts), "%s", hosts);
	pthread_mutex_unlock(&n->lock);
}

/** Which hosts may use it, and what they have to prove. Hosts that are no more there go before
 * proofs do, and others come behind the proofs that are asked of them. */
static void
subsys_reload_hosts(struct target_nvmf *n, struct target_nvmf_subsys *sub,
                    const struct conf_subsys *c)
{
	char common[CONF_HOSTS_MAX], was[CONF_HOSTS_MAX];
	bool ok = true;

	memcpy(was, sub->conf.hosts, sizeof(was));
	hosts_common(sub->conf.hosts, c->hosts, common);
	subsys_set_hosts(n, sub, common);
	if (c->secrets[0] != '\0' || sub->conf.secrets[0] != '\0')
		ok = subsys_reload_secrets(n, sub, c);
	if (c->tls_keys[0] != '\0' || sub->conf.tls_keys[0] != '\0')
		ok = subsys_reload_keys(n, sub, c) && ok;
	if (ok)
		subsys_set_hosts(n, sub, c->hosts);
	else if (strcmp(c->hosts, sub->conf.hosts) != 0)
		ui_msg(UI_WARNING "subsystem %s: it has no new hosts until these can prove "
		                  "their names",
		       c->nqn);
	if (strcmp(was, sub->conf.hosts) != 0)
		ui_msg("subsystem %s: its hosts have changed", c->nqn);
}

static void
discovery_reload(struct target_nvmf *n, const struct conf_nvmf *c)
{
	const bool has = c->discovery_secrets[0] != '\0';

	if (!has && !n->discovery_proves)
		return;
	if (discovery_secrets(n, c) != 0) {
		ui_msg(UI_WARNING "discovery: its secrets are as before");
		return;
	}
	n->discovery_proves = has;
	ui_msg("discovery: %s", has ? "its secrets were read again"
	                            : "its hosts need not prove their names any more");
}

static void
subsys_reload(struct target_nvmf *n, struct target_nvmf_subsys *sub, const struct conf_subsys *c)
{
	if (strcmp(c->serial, sub->conf.serial) != 0 || strcmp(c->model, sub->conf.model) != 0 ||
	    c->first_controller != sub->conf.first_controller ||
	    c->last_controller != sub->conf.last_controller)
		ui_msg(UI_WARNING "subsystem %s: serial, model and numbers of controllers change "
		                  "with a restart",
		       c->nqn);
	if (c->access != sub->conf.access)
		subsys_access(n, sub, c);
	subsys_reload_hosts(n, sub, c);
	if (!subsys_set_ns(n, sub, c, ns_deadline()))
		ui_msg(UI_WARNING "subsystem %s: commands of a namespace that is to go have not "
		                  "ended yet; its namespaces change when they have",
		       c->nqn);
}

void
target_nvmf_reload(struct target *t, const struct conf *fresh)
{
	struct target_nvmf *n = t->nvmf;

	if (n == NULL) {
		if (fresh->nsubsys > 0)
			ui_msg(UI_WARNING
			       "[subsystem %s]: the first subsystem comes with a restart",
			       fresh->subsys[0].nqn);
		return;
	}
	discovery_reload(n, &fresh->nvmf);
	EACH_SUBSYS(n, sub)
	{
		const struct conf_subsys *c = subsys_find(fresh, sub->conf.nqn);

		if (c != NULL)
			subsys_reload(n, sub, c);
		else if (!subsys_remove(n, sub, ns_deadline()))
			ui_msg(UI_WARNING "subsystem %s: its controllers have not ended yet",
			       sub->conf.nqn);
	}
	for (uint32_t i = 0; i < fresh->nsubsys; i++) {
		const struct conf_subsys *c = &fresh->subsys[i];
		bool there = false;
		int rc;

		EACH_SUBSYS(n, sub)
		there = there || strcmp(sub->conf.nqn, c->nqn) == 0;
		rc = there ? 0 : subsys_add(n, c);
		if (rc != 0)
			ui_msg(UI_ERR "subsystem %s: %s", c->nqn,
			       rc == -ENOSPC ? "there are too many while others end; send SIGHUP "
			                       "again"
			       : rc == -EPROTONOSUPPORT
			               ? "it comes with a restart, as it has tls_keys, and tls of "
			                 "[nvmf] is off until then"
			               : strerror(-rc));
		else if (!there)
			ui_msg("subsystem %s: is served now", c->nqn);
	}
}

void
target_nvmf_look(struct target *t)
{
	struct target_nvmf *n = t->nvmf;

	for (uint32_t k = 0; n != NULL && k < CONF_SUBSYS_MAX; k++) {
		struct target_nvmf_subsys *sub = &n->subsys[k];
		const struct conf_subsys *c;
		bool going = false;

		if (sub->s == NULL)
			continue;
		for (uint32_t i = 0; i < sub->conf.nns; i++)
			going = going || sub->going[i];
		c = going ? subsys_find(t->latest, sub->conf.nqn) : NULL;
		if (sub->ending)
			(void)subsys_remove(n, sub, 0);
		else if (c != NULL)
			(void)subsys_set_ns(n, sub, c, 0);
	}
}
