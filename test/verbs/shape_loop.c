/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Shape 1: run to completion. One thread polls both workers and their queues. */

#include "shape.h"

struct end {
	struct weft_cq *cq;
	struct weft_evq *evq;
	struct weft_qp *qp;
	uint8_t in[SHAPE_BYTES], out[SHAPE_BYTES];
	unsigned int rounds;
	bool up, down;
};

static void
end_events(struct shape *s, struct end *e)
{
	struct weft_event ev;

	while (weft_evq_poll(e->evq, &ev) == 1) {
		switch (ev.type) {
		case WEFT_EV_CONNECT_REQUEST:
			e->qp = shape_qp(s, weft_connreq_worker(ev.connreq), e->cq, e->evq, e);
			shape_recv(e->qp, e->in, sizeof(e->in));
			MUST(weft_accept(ev.connreq, e->qp, NULL) == 0);
			break;
		case WEFT_EV_ESTABLISHED:
			e->up = true;
			break;
		case WEFT_EV_DISCONNECTED:
			MUST(ev.status == 0);
			e->down = true;
			break;
		default:
			printf("# %s: %s\n", weft_event_str(ev.type), strerror(-ev.status));
			MUST(false);
		}
	}
}

/** The server sends each message back. */
static void
server_turn(struct end *e)
{
	struct weft_wc wc;

	while (weft_cq_poll(e->cq, &wc, 1) == 1) {
		if (wc.status != WEFT_WC_SUCCESS)
			continue;
		memcpy(e->out, e->in, wc.len_bytes);
		shape_recv(e->qp, e->in, sizeof(e->in));
		shape_send(e->qp, e->out, wc.len_bytes);
		e->rounds++;
	}
}

static void
client_next(struct end *e)
{
	memset(e->out, (int)e->rounds, sizeof(e->out));
	shape_recv(e->qp, e->in, sizeof(e->in));
	shape_send(e->qp, e->out, sizeof(e->out));
}

static void
client_turn(struct end *e)
{
	struct weft_wc wc;

	while (weft_cq_poll(e->cq, &wc, 1) == 1) {
		MUST(wc.status == WEFT_WC_SUCCESS && wc.len_bytes == SHAPE_BYTES);
		MUST(memcmp(e->in, e->out, SHAPE_BYTES) == 0);
		if (++e->rounds < SHAPE_ROUNDS)
			client_next(e);
		else
			MUST(weft_disconnect(e->qp) == 0);
	}
}

int
main(void)
{
	static struct end server, client;
	struct weft_listen_attr la = {.size = sizeof(la)};
	struct sockaddr_in sa = shape_addr(1);
	struct weft_listener *lsn;
	struct shape s;
	bool started = false;

	shape_env();
	shape_open(&s);
	shape_queues(&s, false, &server.cq, &server.evq);
	shape_queues(&s, false, &client.cq, &client.evq);
	la.evq = server.evq;
	MUST(weft_listen(s.ctx, (struct sockaddr *)&sa, sizeof(sa), &la, &lsn) == 0);
	client.qp = shape_qp(&s, s.client, client.cq, client.evq, &client);
	MUST(weft_connect(client.qp, (struct sockaddr *)&sa, sizeof(sa), NULL) == 0);
	while (!client.down || !server.down) {
		unsigned int n = weft_worker_poll(s.server) + weft_worker_poll(s.client);

		end_events(&s, &server);
		end_events(&s, &client);
		server_turn(&server);
		client_turn(&client);
		if (client.up && !started) {
			started = true;
			client_next(&client);
		}
		if (n == 0) /* this loop has no other work; a production loop polls again at once */
			usleep(20);
	}
	MUST(client.rounds == SHAPE_ROUNDS && server.rounds == SHAPE_ROUNDS);
	weft_ctx_destroy(s.ctx);
	weft_env_fini();
	shape_ok("run to completion");
	return 0;
}
