/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Shape 3: all work is done in callbacks. main() only runs the workers. */

#include "shape.h"

/** State of one connection at the server. */
struct conn {
	struct weft_qp *qp;
	uint8_t in[SHAPE_BYTES], out[SHAPE_BYTES];
};

static struct shape s;
static struct weft_cq *server_cq, *client_cq;
static struct weft_evq *server_evq, *client_evq;
static struct conn client;
static unsigned int rounds, conns_open, conns_closed;

static void
server_wc(void *user, struct weft_cq *cq, const struct weft_wc *wc, unsigned int n)
{
	(void)user;
	(void)cq;
	for (unsigned int i = 0; i < n; i++) {
		struct conn *c = wc[i].qp_user;

		if (wc[i].status != WEFT_WC_SUCCESS)
			continue;
		memcpy(c->out, c->in, wc[i].len_bytes);
		shape_recv(c->qp, c->in, sizeof(c->in));
		shape_send(c->qp, c->out, wc[i].len_bytes);
	}
}

static void
server_event(void *user, const struct weft_event *ev)
{
	struct conn *c;

	(void)user;
	switch (ev->type) {
	case WEFT_EV_CONNECT_REQUEST:
		c = calloc(1, sizeof(*c));
		MUST(c != NULL);
		c->qp = shape_qp(&s, weft_connreq_worker(ev->connreq), server_cq, server_evq, c);
		shape_recv(c->qp, c->in, sizeof(c->in));
		MUST(weft_accept(ev->connreq, c->qp, NULL) == 0);
		conns_open++;
		break;
	case WEFT_EV_DISCONNECTED:
		c = ev->user;
		weft_qp_destroy(c->qp);
		free(c);
		conns_closed++;
		break;
	default:
		break;
	}
}

static void
client_next(void)
{
	memset(client.out, (int)rounds, sizeof(client.out));
	shape_recv(client.qp, client.in, sizeof(client.in));
	shape_send(client.qp, client.out, sizeof(client.out));
}

static void
client_wc(void *user, struct weft_cq *cq, const struct weft_wc *wc, unsigned int n)
{
	(void)user;
	(void)cq;
	for (unsigned int i = 0; i < n; i++) {
		MUST(wc[i].status == WEFT_WC_SUCCESS && wc[i].len_bytes == SHAPE_BYTES);
		MUST(memcmp(client.in, client.out, SHAPE_BYTES) == 0);
		if (++rounds < SHAPE_ROUNDS)
			client_next();
		else
			MUST(weft_disconnect(client.qp) == 0);
	}
}

static void
client_event(void *user, const struct weft_event *ev)
{
	(void)user;
	switch (ev->type) {
	case WEFT_EV_ESTABLISHED:
		client_next();
		break;
	case WEFT_EV_DISCONNECTED:
		weft_qp_destroy(client.qp);
		client.qp = NULL;
		weft_worker_stop_async(s.client);
		break;
	default:
		printf("# %s: %s\n", weft_event_str(ev->type), strerror(-ev->status));
		MUST(false);
	}
}

int
main(void)
{
	struct weft_cq_attr sca = {.size = sizeof(sca), .depth = 512, .on_wc = server_wc};
	struct weft_cq_attr cca = {.size = sizeof(cca), .depth = 512, .on_wc = client_wc};
	struct weft_evq_attr sea = {.size = sizeof(sea), .on_event = server_event};
	struct weft_evq_attr cea = {.size = sizeof(cea), .on_event = client_event};
	struct weft_listen_attr la = {.size = sizeof(la)};
	struct sockaddr_in sa = shape_addr(1);
	struct weft_listener *lsn;

	shape_env();
	shape_open(&s);
	MUST(weft_cq_create(s.ctx, &sca, &server_cq) == 0);
	MUST(weft_cq_create(s.ctx, &cca, &client_cq) == 0);
	MUST(weft_evq_create(s.ctx, &sea, &server_evq) == 0);
	MUST(weft_evq_create(s.ctx, &cea, &client_evq) == 0);
	la.evq = server_evq;
	MUST(weft_listen(s.ctx, (struct sockaddr *)&sa, sizeof(sa), &la, &lsn) == 0);
	MUST(weft_worker_start(s.server) == 0);
	client.qp = shape_qp(&s, s.client, client_cq, client_evq, &client);
	MUST(weft_connect(client.qp, (struct sockaddr *)&sa, sizeof(sa), NULL) == 0);
	MUST(weft_worker_run(s.client) == 0); /* runs on this thread until a callback stops it */
	for (unsigned int i = 0; i < 2000 && __atomic_load_n(&conns_closed, __ATOMIC_ACQUIRE) == 0;
	     i++)
		usleep(1000);
	weft_worker_stop(s.server);
	MUST(rounds == SHAPE_ROUNDS && conns_open == 1 && conns_closed == 1);
	weft_ctx_destroy(s.ctx);
	weft_env_fini();
	shape_ok("callbacks alone");
	return 0;
}
