/* SPDX-License-Identifier: BSD-3-Clause */
/** @file NVMe hosts that connect, by whatever transport: which may, and what is said of others. */

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>

#include "addr.h"
#include "target.h"
#include "target_nvmf.h"
#include "target_say.h"
#include "ui.h"

struct target_nvmf_worker *
target_nvmf_at(struct target_nvmf *n, const struct weft_worker *w)
{
	if (atomic_load_explicit(&n->t->stopping, memory_order_relaxed))
		return NULL;
	for (uint32_t i = 0; i < n->t->stack.nworkers; i++)
		if (n->workers[i].w == w)
			return &n->workers[i];
	return NULL;
}

void
target_nvmf_wake(const struct target_nvmf *n)
{
	for (uint32_t i = 0; i < n->t->stack.nworkers; i++)
		(void)eventfd_write(n->workers[i].wake_fd, 1);
}

bool
target_nvmf_admits(struct target_nvmf *n, const struct sockaddr_storage *remote)
{
	const struct conf_nvmf *c = &n->t->conf.nvmf;
	char host[ADDR_STR_MAX];

	if (c->nallow_from == 0 || conf_has_addr(c->allow_from, c->nallow_from, remote))
		return true;
	atomic_fetch_add_explicit(&n->refused_addr, 1, memory_order_relaxed);
	target_log(UI_WARNING "[nvmf] allow_from: a host of %s was refused",
	           addr_host_str(remote, host));
	return false;
}

void
target_nvmf_refused(const struct sockaddr_storage *remote, int why)
{
	char host[ADDR_STR_MAX];

	target_log(UI_WARNING "a queue of a host of %s was refused: %s",
	           addr_host_str(remote, host),
	           why == -EPROTO   ? "its private data is none of NVMe over RDMA"
	           : why == -ENOSPC ? "there are too many"
	                            : strerror(-why));
}

void
target_nvmf_tls_refused(void *owner, const struct sockaddr_storage *remote, const char *why)
{
	char host[ADDR_STR_MAX];

	(void)owner;
	target_log(UI_WARNING "a connection of a host of %s was refused: %s",
	           addr_host_str(remote, host), why);
}

void
target_nvmf_auth_failed(struct weft_nvmf_group *g, const char *hostnqn, uint8_t why)
{
	static const char *const texts[WEFT_NVMF_AUTH_REASONS] = {
	        [WEFT_NVMF_AUTH_EXPIRED] = "it took too long",
	        [WEFT_NVMF_AUTH_FAILED] =
	                "its secret is wrong, or the controllers have none for it",
	        [WEFT_NVMF_AUTH_PROTOCOL] = "it does not offer DH-HMAC-CHAP",
	        [WEFT_NVMF_AUTH_CONCATENATION] = "it asks for a secure channel",
	        [WEFT_NVMF_AUTH_HASH] = "it offers no hash that there is",
	        [WEFT_NVMF_AUTH_GROUP] = "it offers no group that secrets_group allows",
	        [WEFT_NVMF_AUTH_PAYLOAD] = "a message has wrong fields",
	        [WEFT_NVMF_AUTH_MESSAGE] = "a message that was not its turn",
	        [WEFT_NVMF_AUTH_DENIED] = "it does not accept the target's challenge or proof",
	};

	(void)g;
	target_log(UI_WARNING "host %s was refused, as it has not proved its name: %s", hostnqn,
	           why < WEFT_NVMF_AUTH_REASONS ? texts[why] : "unknown");
}

void
target_nvmf_unproven(struct weft_nvmf_group *g, const char *hostnqn, const char *subnqn)
{
	(void)g;
	target_log(UI_WARNING "host %s was refused for subsystem %s: its connection has no TLS, by "
	                      "which it would prove its name",
	           hostnqn, subnqn);
}
