/* SPDX-License-Identifier: BSD-3-Clause */
/** @file What the control socket tells of NVMe hosts, which are clients by their NQN, and how it
 * drops one. On the control thread. */

#include <string.h>

#include "target.h"
#include "target_control_conns.h"
#include "target_nvmf.h"

/** A walk over the controllers. */
struct hosts {
	struct control_job *job;
	json_t *all;
};

/** The host's sums in the first sample: octets from it and to it, commands. */
static uint64_t
host_before(const struct control_job *job, const struct weft_nvmf_ctrl_info *i, const char *what)
{
	json_t *was = json_object_get(job->hosts, i->hostnqn);

	return (uint64_t)json_integer_value(json_object_get(was, what));
}

/** Sums of a host, in an object of all hosts. NULL: no memory. */
static json_t *
host_sums(json_t *all, const struct weft_nvmf_ctrl_info *i)
{
	json_t *one = json_object_get(all, i->hostnqn);

	if (one == NULL) {
		one = json_pack("{s:i, s:i, s:i, s:i, s:b, s:b}", "recv", 0, "sent", 0, "ops", 0,
		                "queues", 0, "proved", 1, "tls", 1);
		if (one == NULL || json_object_set_new(all, i->hostnqn, one) != 0)
			return NULL;
	}
	if (!i->proved && !i->tls)
		(void)json_object_set_new(one, "proved", json_false());
	if (!i->tls)
		(void)json_object_set_new(one, "tls", json_false());
	control_add_to(one, "recv", i->written_bytes);
	control_add_to(one, "sent", i->read_bytes);
	control_add_to(one, "ops", i->commands);
	control_add_to(one, "queues", i->queues);
	return one;
}

static void
host_sample(void *arg, const struct weft_nvmf_ctrl_info *i)
{
	(void)host_sums(arg, i);
}

void
control_nvmf_sample(struct control_job *job)
{
	json_decref(job->hosts);
	job->hosts = json_object();
	if (job->t->nvmf != NULL && job->hosts != NULL)
		weft_nvmf_each_ctrl(job->t->nvmf->nvmf, host_sample, job->hosts);
}

/** Add the exports that are namespaces of its subsystem. With the table's lock. */
static void
host_exports(const struct target_nvmf *n, const char *subnqn, json_t *names)
{
	for (uint32_t k = 0; k < CONF_SUBSYS_MAX; k++) {
		const struct target_nvmf_subsys *sub = &n->subsys[k];

		if (sub->s == NULL || strcmp(sub->conf.nqn, subnqn) != 0)
			continue;
		for (uint32_t i = 0; i < sub->conf.nns; i++)
			if (sub->ex[i] != NULL)
				(void)json_array_append_new(names,
				                            json_string(sub->conf.ns[i].export));
	}
}

static void
host_row(void *arg, const struct weft_nvmf_ctrl_info *i)
{
	const struct hosts *h = arg;
	json_t *sums = host_sums(h->all, i);

	if (sums == NULL || json_object_get(sums, "subsystems") == NULL)
		(void)json_object_set_new(sums, "subsystems", json_array());
	(void)json_array_append_new(json_object_get(sums, "subsystems"), json_string(i->subnqn));
	(void)json_object_set_new(sums, "before_recv",
	                          json_integer((json_int_t)host_before(h->job, i, "recv")));
	(void)json_object_set_new(sums, "before_sent",
	                          json_integer((json_int_t)host_before(h->job, i, "sent")));
	(void)json_object_set_new(sums, "before_ops",
	                          json_integer((json_int_t)host_before(h->job, i, "ops")));
}

static json_t *
host_rate(const struct control_job *job, const json_t *sums, const char *was, const char *now)
{
	return control_rate(
	        job, control_since((uint64_t)json_integer_value(json_object_get(sums, was)),
	                           (uint64_t)json_integer_value(json_object_get(sums, now))));
}

void
control_nvmf_clients(struct control_job *job, json_t *clients)
{
	struct target_nvmf *n = job->t->nvmf;
	struct hosts h = {.job = job, .all = json_object()};
	const char *nqn;
	json_t *sums;

	if (n != NULL && h.all != NULL)
		weft_nvmf_each_ctrl(n->nvmf, host_row, &h);
	json_object_foreach(h.all, nqn, sums)
	{
		json_t *names = json_array(), *sub;
		json_t *recv = json_object_get(sums, "recv"), *sent = json_object_get(sums, "sent");
		json_t *ops = json_object_get(sums, "ops");
		size_t k;

		pthread_mutex_lock(&n->lock);
		json_array_foreach(json_object_get(sums, "subsystems"), k, sub)
		        host_exports(n, json_string_value(sub), names);
		pthread_mutex_unlock(&n->lock);
		(void)json_array_append_new(
		        clients,
		        json_pack(
		                "{s:s, s:O, s:O, s:O, s:i, s:o, s:o, s:o, s:o, s:O, s:O, s:O, s:O, "
		                "s:i}",
		                "client", nqn, "authenticated", json_object_get(sums, "proved"),
		                "tls", json_object_get(sums, "tls"), "connections",
		                json_object_get(sums, "queues"), "grants", 0, "exports", names,
		                "recv_bytes_per_s", host_rate(job, sums, "before_recv", "recv"),
		                "sent_bytes_per_s", host_rate(job, sums, "before_sent", "sent"),
		                "ops_per_s", host_rate(job, sums, "before_ops", "ops"),
		                "recv_bytes", recv, "sent_bytes", sent, "recv_msgs", ops,
		                "sent_msgs", ops, "windows", 0));
	}
	json_decref(h.all);
	json_decref(job->hosts);
	job->hosts = NULL;
}

struct drop {
	const char *nqn;
	json_int_t queues;
};

static void
drop_count(void *arg, const struct weft_nvmf_ctrl_info *i)
{
	struct drop *d = arg;

	if (strcmp(i->hostnqn, d->nqn) == 0)
		d->queues += i->queues;
}

int64_t
control_nvmf_drop(struct control_job *job, const char *who)
{
	struct target_nvmf *n = job->t->nvmf;
	struct drop d = {.nqn = who};

	if (n == NULL)
		return 0;
	weft_nvmf_each_ctrl(n->nvmf, drop_count, &d);
	(void)weft_nvmf_host_drop(n->nvmf, who, 0);
	return d.queues;
}
