/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Who may open an export: its lists of names and of addresses. A worker asks when a client
 * opens the export, and when the lists have changed (target_revoke.c). So a client that is no
 * longer on the lists loses what it was granted, with the warning that each revocation has.
 */

#include <stdio.h>

#include "target.h"
#include "target_say.h"
#include "ui.h"

bool
target_allows(const struct target_export *ex, const struct target_conn *c)
{
	const struct conf_export *conf = ex->conf;

	if (conf->allow_clients[0] != '\0' && (c->auth.state != HOST_AUTH_DONE ||
	                                       !conf_has_client(conf->allow_clients, c->auth.name)))
		return false;
	return conf_allows_addr(conf, &c->remote);
}

uint32_t
target_may_client(const struct target_export *ex, const struct target_conn *c)
{
	return target_allows(ex, c) ? target_may(ex) & target_left_by_hosts(ex) : 0;
}

bool
target_export_off(struct target_export *ex, const struct target_conn *c, char *why, size_t size)
{
	const bool off = target_export_why(ex, why, size);

	if (target_allows(ex, c))
		return off;
	snprintf(why, size, "not for you (its access list)");
	return true;
}

void
target_access_refuse(struct target_export *ex, const struct target_conn *c, char *why, size_t size)
{
	const bool by_name = conf_allows_addr(ex->conf, &c->remote);
	const char *name = c->auth.state == HOST_AUTH_DONE ? c->auth.name : "";

	atomic_fetch_add_explicit(&ex->access_refused, 1, memory_order_relaxed);
	if (!by_name)
		snprintf(why, size, "its access list (allow_from) does not have your address");
	else if (name[0] != '\0')
		snprintf(why, size, "its access list (allow_clients) does not have %s", name);
	else
		snprintf(why, size,
		         "it has an access list (allow_clients), and you have not authenticated");
	target_log(UI_WARNING "export %s: refused %s%s%s%s: not on %s", ex->conf->name, c->peer,
	           name[0] != '\0' ? " (" : "", name, name[0] != '\0' ? ")" : "",
	           by_name ? "allow_clients" : "allow_from");
}
