/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Clients: what a lost flush means for them, and the end of one that is given up on.
 */

#include "vol_priv.h"

void
weft_vol_client_open(struct weft_vol_chan *c, struct weft_vol_client *client)
{
	client->chan = c;
	TAILQ_INIT(&client->ops);
	client->under_way = client->windows = 0;
	client->revoked = false;
	client->lost = 0;
	client->changes = client->durable = 0;
	TAILQ_INSERT_TAIL(&c->clients, client, link);
}

int
weft_vol_client_close(struct weft_vol_client *client)
{
	if (client->under_way > 0 || client->windows > 0)
		return -EBUSY;
	if (client->chan->quieting == client)
		client->chan->quieting = NULL;
	TAILQ_REMOVE(&client->chan->clients, client, link);
	client->chan = NULL;
	return 0;
}

unsigned int
weft_vol_revoke(struct weft_vol_client *client)
{
	struct weft_vol_op *op;

	client->revoked = true;
	TAILQ_FOREACH (op, &client->ops, client_link) {
		if (op->state == VOL_FINISHED)
			continue;
		client->chan->stats.revoked++;
		(void)weft_vol_cancel(client->chan, op);
	}
	return client->under_way;
}
