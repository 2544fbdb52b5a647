/* SPDX-License-Identifier: BSD-3-Clause */
/** @file What telemetry shows of NVMe hosts. */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "target.h"
#include "target_nvmf.h"
#include <weft/telemetry.h>

#define TEL_NAME 64

/** Hosts that have proved their names, or have not. */
static void
tel_auth(const struct weft_nvmf_stats *s, struct weft_tel *tel)
{
	static const char *const names[WEFT_NVMF_AUTH_REASONS] = {
	        [WEFT_NVMF_AUTH_EXPIRED] = "auth_expired",
	        [WEFT_NVMF_AUTH_FAILED] = "auth_failed_proof",
	        [WEFT_NVMF_AUTH_PROTOCOL] = "auth_failed_protocol",
	        [WEFT_NVMF_AUTH_CONCATENATION] = "auth_failed_concatenation",
	        [WEFT_NVMF_AUTH_HASH] = "auth_failed_hash",
	        [WEFT_NVMF_AUTH_GROUP] = "auth_failed_group",
	        [WEFT_NVMF_AUTH_PAYLOAD] = "auth_failed_payload",
	        [WEFT_NVMF_AUTH_MESSAGE] = "auth_failed_message",
	        [WEFT_NVMF_AUTH_DENIED] = "auth_failed_denied",
	};

	weft_tel_u64(tel, "auth_done", s->auth_done);
	for (unsigned int i = 0; i < WEFT_NVMF_AUTH_REASONS; i++)
		weft_tel_u64(tel, names[i], s->auth_failed[i]);
	weft_tel_u64(tel, "auth_busy", s->auth_busy);
}

/** /weft/target/nvmf: all subsystems together. */
int
target_tel_nvmf(void *user, const char *params, struct weft_tel *tel)
{
	static const char *const names[TARGET_NVMF_SHOWN] = {
	        [TARGET_NVMF_ACCEPTED] = "rdma_accepted",
	        [TARGET_NVMF_REJECTED] = "rdma_rejected",
	        [TARGET_NVMF_READS] = "rdma_reads",
	        [TARGET_NVMF_READ_BYTES] = "rdma_read_bytes",
	        [TARGET_NVMF_READ_WAITS] = "rdma_read_waits",
	        [TARGET_NVMF_CAPSULE_WAITS] = "rdma_capsule_waits",
	        [TARGET_NVMF_ABORTED] = "rdma_aborted",
	        [TARGET_NVMF_TCP_ACCEPTED] = "tcp_accepted",
	        [TARGET_NVMF_TCP_REJECTED] = "tcp_rejected",
	        [TARGET_NVMF_TCP_PDUS_IN] = "tcp_pdus_in",
	        [TARGET_NVMF_TCP_PDUS_OUT] = "tcp_pdus_out",
	        [TARGET_NVMF_TCP_R2TS] = "tcp_r2ts",
	        [TARGET_NVMF_TCP_READ_BYTES] = "tcp_read_bytes",
	        [TARGET_NVMF_TCP_SENT_BYTES] = "tcp_sent_bytes",
	        [TARGET_NVMF_TCP_HEADER_DIGESTS] = "tcp_header_digests",
	        [TARGET_NVMF_TCP_DATA_DIGESTS] = "tcp_data_digests",
	        [TARGET_NVMF_TCP_FAULTS] = "tcp_faults",
	        [TARGET_NVMF_TCP_TERMS] = "tcp_terms",
	        [TARGET_NVMF_TCP_OVERRUNS] = "tcp_overruns",
	        [TARGET_NVMF_TCP_STALLS] = "tcp_stalls",
	        [TARGET_NVMF_TCP_ABORTED] = "tcp_aborted",
	        [TARGET_NVMF_TCP_TURN_WAITS] = "tcp_turn_waits",
	        [TARGET_NVMF_TLS_CONNS] = "tls_connections",
	        [TARGET_NVMF_TLS_DONE] = "tls_done",
	        [TARGET_NVMF_TLS_COMPAT] = "tls_compat",
	        [TARGET_NVMF_TLS_FAILED] = "tls_failed",
	        [TARGET_NVMF_TLS_EXPIRED] = "tls_expired",
	        [TARGET_NVMF_TLS_BUSY] = "tls_busy",
	        [TARGET_NVMF_TLS_UNWANTED] = "tls_unwanted",
	        [TARGET_NVMF_TLS_MISSING] = "tls_missing",
	        [TARGET_NVMF_TLS_FAULTS] = "tls_faults",
	        [TARGET_NVMF_TLS_GONE] = "tls_gone",
	        [TARGET_NVMF_TLS_ALERTS_IN] = "tls_alerts_in",
	        [TARGET_NVMF_TLS_ALERTS_OUT] = "tls_alerts_out",
	        [TARGET_NVMF_TLS_UPDATES_IN] = "tls_updates_in",
	        [TARGET_NVMF_TLS_UPDATES_OUT] = "tls_updates_out",
	};
	const struct target *t = user;
	struct target_nvmf *n = t->nvmf;
	struct weft_nvmf_stats s;

	if (params != NULL && params[0] != '\0')
		return -EINVAL;
	weft_tel_u64(tel, "served", n != NULL);
	if (n == NULL)
		return 0;
	weft_nvmf_query_stats(n->nvmf, &s);
	weft_tel_u64(tel, "controllers", s.ctrls);
	weft_tel_u64(tel, "queues", s.queues);
	weft_tel_u64(tel, "connects", s.connects);
	weft_tel_u64(tel, "refused_param", s.refused_param);
	weft_tel_u64(tel, "refused_host", s.refused_host);
	weft_tel_u64(tel, "refused_limit", s.refused_limit);
	weft_tel_u64(tel, "refused_address",
	             atomic_load_explicit(&n->refused_addr, memory_order_relaxed));
	weft_tel_u64(tel, "kato_expired", s.kato_expired);
	weft_tel_u64(tel, "connect_expired", s.connect_expired);
	weft_tel_u64(tel, "leave_expired", s.leave_expired);
	tel_auth(&s, tel);
	weft_tel_u64(tel, "commands", s.commands);
	weft_tel_u64(tel, "errors", s.errors);
	weft_tel_u64(tel, "read_bytes", s.read_bytes);
	weft_tel_u64(tel, "written_bytes", s.written_bytes);
	weft_tel_u64(tel, "protocol_errors", s.protocol_errors);
	weft_tel_u64(tel, "memory_waits", s.memory_waits);
	weft_tel_u64(tel, "memory_room_waits", s.memory_room_waits);
	weft_tel_u64(tel, "memory_expired", s.memory_expired);
	weft_tel_u64(tel, "lost_flushes_told", s.lost_flushes_told);
	weft_tel_u64(tel, "losses_forgotten", s.losses_forgotten);
	weft_tel_u64(tel, "events", s.events);
	weft_tel_u64(tel, "conflicts", s.conflicts);
	weft_tel_u64(tel, "resv_full", s.resv_full);
	weft_tel_u64(tel, "resv_failed", s.resv_failed);
	weft_tel_u64(tel, "notices_lost", s.notices_lost);
	for (unsigned int i = 0; i < TARGET_NVMF_SHOWN; i++) {
		uint64_t sum = 0;

		for (uint32_t w = 0; w < t->stack.nworkers; w++)
			sum += atomic_load_explicit(&n->workers[w].shown[i], memory_order_relaxed);
		weft_tel_u64(tel, names[i], sum);
	}
	return 0;
}

struct tel_ctrl {
	struct weft_tel *tel;
	uint32_t cntlid; /**< 0: list all */
	bool found;
};

static void
tel_list_ctrl(void *arg, const struct weft_nvmf_ctrl_info *i)
{
	const struct tel_ctrl *c = arg;
	char name[TEL_NAME];

	snprintf(name, sizeof(name), "%u", i->cntlid);
	weft_tel_text(c->tel, name, i->hostnqn);
}

static void
tel_one_ctrl(void *arg, const struct weft_nvmf_ctrl_info *i)
{
	struct tel_ctrl *c = arg;
	char name[TEL_NAME];

	if (i->cntlid != c->cntlid)
		return;
	c->found = true;
	weft_tel_text(c->tel, "host", i->hostnqn);
	weft_tel_text(c->tel, "subsystem", i->subnqn);
	weft_tel_text(c->tel, "transport", i->transport);
	weft_tel_text(c->tel, "state", i->state);
	weft_tel_u64(c->tel, "tls", i->tls);
	weft_tel_u64(c->tel, "must_prove", i->proves);
	weft_tel_u64(c->tel, "proved", i->proved);
	weft_tel_u64(c->tel, "kato_ms", i->kato_ms);
	weft_tel_u64(c->tel, "commands", i->commands);
	weft_tel_u64(c->tel, "errors", i->errors);
	weft_tel_u64(c->tel, "read_bytes", i->read_bytes);
	weft_tel_u64(c->tel, "written_bytes", i->written_bytes);
	for (uint32_t q = 0; q < i->queues; q++) {
		const struct weft_nvmf_queue_info *of = &i->queue[q];

		snprintf(name, sizeof(name), "queue_%u_worker", of->qid);
		weft_tel_u64(c->tel, name, of->group);
		snprintf(name, sizeof(name), "queue_%u_entries", of->qid);
		weft_tel_u64(c->tel, name, of->size);
		snprintf(name, sizeof(name), "queue_%u_commands", of->qid);
		weft_tel_u64(c->tel, name, of->commands);
		snprintf(name, sizeof(name), "queue_%u_errors", of->qid);
		weft_tel_u64(c->tel, name, of->errors);
	}
}

/** /weft/target/nvmf_controller: the controllers, or one of them with its queues. */
int
target_tel_nvmf_ctrl(void *user, const char *params, struct weft_tel *tel)
{
	const struct target *t = user;
	struct tel_ctrl c = {.tel = tel};

	if (t->nvmf == NULL)
		return params == NULL || *params == '\0' ? 0 : -ENOENT;
	if (params == NULL || *params == '\0') {
		weft_nvmf_each_ctrl(t->nvmf->nvmf, tel_list_ctrl, &c);
		return 0;
	}
	c.cntlid = (uint32_t)strtoul(params, NULL, 10);
	weft_nvmf_each_ctrl(t->nvmf->nvmf, tel_one_ctrl, &c);
	return c.found ? 0 : -ENOENT;
}

/** Namespace i of a subsystem, with `lock` held. */
static void
tel_ns(const struct target_nvmf_subsys *sub, uint32_t i, struct weft_tel *tel)
{
	const uint32_t nsid = sub->conf.ns[i].nsid;
	struct weft_nvmf_ns_stats s;
	char name[TEL_NAME];

	snprintf(name, sizeof(name), "%" PRIu32 "_export", nsid);
	weft_tel_text(tel, name, sub->conf.ns[i].export);
	if (weft_nvmf_ns_query(sub->s, nsid, &s) != 0)
		return;
	const struct {
		const char *what;
		uint64_t n;
	} rows[] = {{"workers", s.attached},
	            {"reads", s.reads},
	            {"writes", s.writes},
	            {"read_bytes", s.read_bytes},
	            {"written_bytes", s.written_bytes},
	            {"media_errors", s.media_errors},
	            {"access", s.ana},
	            {"reservation", s.resv_type},
	            {"registrants", s.registrants},
	            {"reservation_generation", s.resv_generation},
	            {"reservation_persists", s.resv_persist}};

	for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
		snprintf(name, sizeof(name), "%" PRIu32 "_%s", nsid, rows[k].what);
		weft_tel_u64(tel, name, rows[k].n);
	}
}

/** /weft/target/nvmf_subsystem: the subsystems, or one of them with its namespaces. */
int
target_tel_nvmf_ns(void *user, const char *params, struct weft_tel *tel)
{
	const struct target *t = user;
	const bool all = params == NULL || *params == '\0';
	struct target_nvmf *n = t->nvmf;
	char name[TEL_NAME];
	bool found = all;

	if (n == NULL)
		return all ? 0 : -ENOENT;
	pthread_mutex_lock(&n->lock);
	for (uint32_t k = 0; k < CONF_SUBSYS_MAX; k++) {
		const struct target_nvmf_subsys *sub = &n->subsys[k];

		if (sub->s == NULL)
			continue;
		if (all) {
			snprintf(name, sizeof(name), "%" PRIu32, k);
			weft_tel_text(tel, name, sub->conf.nqn);
		} else if (strcmp(sub->conf.nqn, params) == 0) {
			found = true;
			for (uint32_t i = 0; i < sub->conf.nns; i++)
				tel_ns(sub, i, tel);
		}
	}
	pthread_mutex_unlock(&n->lock);
	return found ? 0 : -ENOENT;
}
