/* SPDX-License-Identifier: BSD-3-Clause */
/** @file NVMe/TCP: hosts without RDMA connect by streams. */

#include <errno.h>
#include <netinet/in.h>

#include "addr.h"
#include "target.h"
#include "target_nvmf.h"

int
target_nvmf_tcp_keys(struct target_nvmf *n)
{
	const struct conf_nvmf *c = &n->t->conf.nvmf;
	const unsigned int any = (1U << WEFT_NVMF_PSK_DERIVATIONS) - 1;

	if (c->tls == CONF_TLS_OFF)
		return 0;
	return weft_nvmf_tls_create(c->tls_derivation == 0 ? any : 1U << (c->tls_derivation - 1),
	                            &n->tls);
}

int
target_nvmf_tcp_up(struct target_nvmf_worker *nw)
{
	const struct conf_nvmf *c = &nw->n->t->conf.nvmf;
	/* an admin queue has 32 entries, also where I/O queues have fewer */
	const struct weft_nvmf_tcp_attr a = {
	        .worker = nw->w,
	        .group = nw->group,
	        .depth = c->queue_depth < 32 ? 32 : c->queue_depth,
	        .max_conns = target_nvmf_conns(c),
	        .tls = (enum weft_nvmf_tcp_tls)c->tls,
	        .keys = nw->n->tls,
	        .refused = target_nvmf_tls_refused,
	        .owner = nw,
	};

	return weft_nvmf_tcp_open(&a, &nw->tcp);
}

/** On the worker of the connection. */
static int
tcp_accept(void *user, struct weft_stream *s, struct weft_worker *w,
           const struct sockaddr_storage *remote)
{
	struct target_nvmf *n = user;
	struct target_nvmf_worker *nw = target_nvmf_at(n, w);
	int rc;

	if (nw == NULL || !target_nvmf_admits(n, remote))
		return -EACCES;
	rc = weft_nvmf_tcp_accept(nw->tcp, s, remote);
	if (rc != 0)
		target_nvmf_refused(remote, rc);
	return rc;
}

int
target_nvmf_tcp_listen(struct target_nvmf *n, const struct conf_listen *at)
{
	const struct conf_target *c = &n->t->conf.target;
	const struct weft_stream_listen_attr la = {
	        .size = sizeof(la),
	        .accept = tcp_accept,
	        .user = n,
	        .keepalive_us = c->keepalive_ms * 1000,
	        .max_conns_per_peer = c->max_conns_per_peer,
	        .max_conns = target_nvmf_conns(&n->t->conf.nvmf),
	        .prefix_len = (uint8_t)at->prefix_len,
	};
	const uint16_t port = htons((uint16_t)n->t->conf.nvmf.tcp_listen_port);
	struct sockaddr_storage to = at->addr;
	int rc;

	if (to.ss_family == AF_INET)
		((struct sockaddr_in *)&to)->sin_port = port;
	else
		((struct sockaddr_in6 *)&to)->sin6_port = port;
	rc = weft_stream_listen(n->t->stack.ctx, (struct sockaddr *)&to, addr_len(&to), &la,
	                        &n->streams[n->nstreams]);
	n->nstreams += rc == 0;
	return rc;
}

uint32_t
target_nvmf_tcp_count(const struct target_nvmf_worker *nw, uint64_t now[TARGET_NVMF_SHOWN])
{
	struct weft_nvmf_tcp_stats s;

	weft_nvmf_tcp_query(nw->tcp, &s);
	now[TARGET_NVMF_TCP_ACCEPTED] = s.accepted;
	now[TARGET_NVMF_TCP_REJECTED] = s.rejected;
	now[TARGET_NVMF_TCP_PDUS_IN] = s.pdus_in;
	now[TARGET_NVMF_TCP_PDUS_OUT] = s.pdus_out;
	now[TARGET_NVMF_TCP_R2TS] = s.r2ts;
	now[TARGET_NVMF_TCP_READ_BYTES] = s.read_bytes;
	now[TARGET_NVMF_TCP_SENT_BYTES] = s.sent_bytes;
	now[TARGET_NVMF_TCP_HEADER_DIGESTS] = s.header_digests;
	now[TARGET_NVMF_TCP_DATA_DIGESTS] = s.data_digests;
	now[TARGET_NVMF_TCP_FAULTS] = s.faults;
	now[TARGET_NVMF_TCP_TERMS] = s.terms;
	now[TARGET_NVMF_TCP_OVERRUNS] = s.overruns;
	now[TARGET_NVMF_TCP_STALLS] = s.stalls;
	now[TARGET_NVMF_TCP_ABORTED] = s.aborted;
	now[TARGET_NVMF_TCP_TURN_WAITS] = s.turn_waits;
	now[TARGET_NVMF_TLS_CONNS] = s.tls_conns;
	now[TARGET_NVMF_TLS_DONE] = s.tls_done;
	now[TARGET_NVMF_TLS_COMPAT] = s.tls_compat;
	now[TARGET_NVMF_TLS_FAILED] = s.tls_failed;
	now[TARGET_NVMF_TLS_EXPIRED] = s.tls_expired;
	now[TARGET_NVMF_TLS_BUSY] = s.tls_busy;
	now[TARGET_NVMF_TLS_UNWANTED] = s.tls_unwanted;
	now[TARGET_NVMF_TLS_MISSING] = s.tls_missing;
	now[TARGET_NVMF_TLS_FAULTS] = s.tls_faults;
	now[TARGET_NVMF_TLS_GONE] = s.tls_gone;
	now[TARGET_NVMF_TLS_ALERTS_IN] = s.tls_alerts_in;
	now[TARGET_NVMF_TLS_ALERTS_OUT] = s.tls_alerts_out;
	now[TARGET_NVMF_TLS_UPDATES_IN] = s.tls_updates_in;
	now[TARGET_NVMF_TLS_UPDATES_OUT] = s.tls_updates_out;
	return s.conns;
}
