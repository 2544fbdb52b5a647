/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Tickets. A ticket connects the RPC connection on which a client was checked with the log
 * connection that gets the grant (docs/log-host.md). The two may belong to different workers.
 *
 * A ticket is 16 random octets. It is valid once, for TARGET_TICKET_LIFE_NS, while the connection
 * that asked for it exists, and from the address that asked; for a client with a name also only
 * with the client's proof. Each ticket counts as one grant of the client's share from the moment it
 * is issued. So there are never more tickets than grants may be.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "addr.h"
#include "target.h"
#include "ui.h"

void
target_tickets_up(struct target *t)
{
	pthread_mutex_init(&t->tickets.lock, NULL);
	for (unsigned int i = 0; i < TARGET_TICKET_ROWS; i++)
		LIST_INIT(&t->tickets.row[i]);
}

void
target_tickets_down(struct target *t)
{
	/* All tickets were freed with their connections. */
	pthread_mutex_destroy(&t->tickets.lock);
}

/** Under the lock: remove the ticket from its lists. */
static void
ticket_unlink(struct target_tickets *ts, struct target_conn *c, struct target_ticket *tk)
{
	LIST_REMOVE(tk, row_link);
	LIST_REMOVE(tk, conn_link);
	atomic_fetch_sub_explicit(&c->ntickets, 1, memory_order_relaxed);
	ts->now--;
}

static void
ticket_free(struct target *t, struct target_ticket *tk)
{
	quota_close(t->quota, tk->client);
	explicit_bzero(tk, sizeof(*tk));
	free(tk);
}

int
target_ticket_give(struct target_conn *c, const struct target_ticket *of,
                   uint8_t octets[LOG_TICKET_BYTES])
{
	struct target_tickets *ts = &c->w->t->tickets;
	struct target_ticket *tk = malloc(sizeof(*tk));

	if (tk == NULL)
		return -ENOMEM;
	*tk = *of;
	/* The kernel's generator, which never blocks after its start. */
	if (getrandom(tk->octets, sizeof(tk->octets), GRND_NONBLOCK) != sizeof(tk->octets)) {
		free(tk);
		return -EIO;
	}
	tk->conn = c;
	tk->end_ns = ui_now_ns() + TARGET_TICKET_LIFE_NS;
	memcpy(octets, tk->octets, LOG_TICKET_BYTES);
	pthread_mutex_lock(&ts->lock);
	LIST_INSERT_HEAD(&ts->row[tk->octets[0] % TARGET_TICKET_ROWS], tk, row_link);
	LIST_INSERT_HEAD(&c->tickets, tk, conn_link);
	atomic_fetch_add_explicit(&c->ntickets, 1, memory_order_relaxed);
	ts->now++;
	ts->given++;
	pthread_mutex_unlock(&ts->lock);
	return 0;
}

/** Under the lock: judge a request. */
static enum target_ticket_end
ticket_judge(struct target *t, const struct target_ticket *tk, const struct log_ticket_ask *ask,
             const struct sockaddr_storage *remote)
{
	if (ui_now_ns() >= tk->end_ns)
		return TARGET_TICKET_EXPIRED;
	if (!addr_same_host(&tk->remote, remote))
		return TARGET_TICKET_ELSEWHERE;
	if (tk->named && !target_auth_proof(t, tk, ask))
		return TARGET_TICKET_UNPROVED;
	return TARGET_TICKET_USED;
}

enum target_ticket_end
target_ticket_take(struct target *t, const struct log_ticket_ask *ask,
                   const struct sockaddr_storage *remote, struct target_ticket *out)
{
	struct target_tickets *ts = &t->tickets;
	enum target_ticket_end end = TARGET_TICKET_UNKNOWN;
	struct target_ticket *tk;

	pthread_mutex_lock(&ts->lock);
	/* The row depends on one octet; the time of the search reveals nothing of the others. */
	LIST_FOREACH (tk, &ts->row[ask->ticket[0] % TARGET_TICKET_ROWS], row_link)
		if (host_auth_equal(tk->octets, ask->ticket, LOG_TICKET_BYTES))
			break;
	if (tk != NULL)
		end = ticket_judge(t, tk, ask, remote);
	if (end == TARGET_TICKET_USED || end == TARGET_TICKET_EXPIRED)
		ticket_unlink(ts, tk->conn, tk);
	else
		tk = NULL;
	ts->ended[end]++;
	pthread_mutex_unlock(&ts->lock);
	if (end == TARGET_TICKET_USED) {
		*out = *tk;
		explicit_bzero(tk, sizeof(*tk));
		free(tk);
	} else if (end == TARGET_TICKET_EXPIRED) {
		ticket_free(t, tk);
	}
	return end;
}

void
target_ticket_malformed(struct target *t)
{
	pthread_mutex_lock(&t->tickets.lock);
	t->tickets.ended[TARGET_TICKET_MALFORMED]++;
	pthread_mutex_unlock(&t->tickets.lock);
}

void
target_tickets_leave(struct target_conn *c)
{
	struct target *t = c->w->t;
	struct target_ticket *tk;

	pthread_mutex_lock(&t->tickets.lock);
	while ((tk = LIST_FIRST(&c->tickets)) != NULL) {
		ticket_unlink(&t->tickets, c, tk);
		t->tickets.ended[TARGET_TICKET_LEFT]++;
		ticket_free(t, tk);
	}
	pthread_mutex_unlock(&t->tickets.lock);
}

/** Free the tickets that have expired, or those for `of`. */
static void
tickets_end(struct target *t, const struct target_export *of)
{
	struct target_tickets *ts = &t->tickets;
	const uint64_t now = ui_now_ns();

	pthread_mutex_lock(&ts->lock);
	for (unsigned int i = 0; ts->now > 0 && i < TARGET_TICKET_ROWS; i++) {
		struct target_ticket *tk, *next;

		for (tk = LIST_FIRST(&ts->row[i]); tk != NULL; tk = next) {
			next = LIST_NEXT(tk, row_link);
			if (of != NULL ? tk->ex != of : now < tk->end_ns)
				continue;
			ticket_unlink(ts, tk->conn, tk);
			ts->ended[TARGET_TICKET_EXPIRED]++;
			ticket_free(t, tk);
		}
	}
	pthread_mutex_unlock(&ts->lock);
}

void
target_tickets_look(struct target *t)
{
	tickets_end(t, NULL);
}

void
target_tickets_forget(struct target *t, const struct target_export *ex)
{
	tickets_end(t, ex);
}

int
target_tel_tickets(void *user, const char *params, struct weft_tel *tel)
{
	static const char *const name[TARGET_TICKET_ENDS] = {
	        [TARGET_TICKET_USED] = "used",         [TARGET_TICKET_EXPIRED] = "expired",
	        [TARGET_TICKET_UNKNOWN] = "unknown",   [TARGET_TICKET_ELSEWHERE] = "elsewhere",
	        [TARGET_TICKET_UNPROVED] = "unproved", [TARGET_TICKET_MALFORMED] = "malformed",
	        [TARGET_TICKET_LEFT] = "left",
	};
	struct target *t = user;

	(void)params;
	pthread_mutex_lock(&t->tickets.lock);
	weft_tel_u64(tel, "now", t->tickets.now);
	weft_tel_u64(tel, "given", t->tickets.given);
	for (unsigned int i = 0; i < TARGET_TICKET_ENDS; i++)
		weft_tel_u64(tel, name[i], t->tickets.ended[i]);
	pthread_mutex_unlock(&t->tickets.lock);
	return 0;
}
