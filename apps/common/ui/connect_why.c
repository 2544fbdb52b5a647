/* SPDX-License-Identifier: BSD-3-Clause */
/** @file What to do when no connection could be made (connect_why.h). */

#include "connect_why.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

const char *
connect_no_link(struct weft_port *port)
{
	struct weft_port_stats st;

	if (weft_port_stats(port, &st) != 0 || st.link_up)
		return NULL;
	if (st.link_returns)
		return "the port has no link; is the cable in, and the other end on?";
	return "the port has no link: it takes no client now (net_memif serves one at a time); end "
	       "the other client, or give each a socket of its own";
}

const char *
connect_why(const struct connect_ask *ask, struct weft_port *port, int err, char *buf, size_t size)
{
	const char *text = strerror(-err), *no_link = NULL;

	if (port != NULL && (err == -ETIMEDOUT || err == -EHOSTUNREACH))
		no_link = connect_no_link(port);
	if (no_link != NULL)
		snprintf(buf, size, "%s: %s", text, no_link);
	else if (err == -ECONNREFUSED)
		snprintf(buf, size, "%s: nothing listens there; is %s running? Check %s", text,
		         ask->server, ask->there);
	else if (err == -ETIMEDOUT || err == -EHOSTUNREACH)
		snprintf(buf, size,
		         "%s: nothing answers there; is %s running? Check %s, and %s of this side",
		         text, ask->server, ask->there, ask->here);
	else if (err == -ENETUNREACH)
		snprintf(buf, size,
		         "%s: no port of this side has a network with that address, or a gateway; "
		         "check %s, and %s of this side",
		         text, ask->there, ask->here);
	else
		snprintf(buf, size, "%s", text);
	return buf;
}
